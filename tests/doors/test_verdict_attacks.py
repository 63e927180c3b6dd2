"""Verifiers that say more than they know, over the real socket: none makes a turn green that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.journal import Journal, Said
from fairlead.agent.messages import user
from fairlead.agent.models import ModelError
from fairlead.agent.session import AgentSession
from tests.agent.playing import AllowAll, Failing, Held, Models
from tests.doors.verifiers import room, served

CLAIMS: tuple[tuple[dict[str, Any], str, str], ...] = (
    # what is claimed, and what is left of it: status and confidence
    ({"confidence": "perfect"}, "verified", "verified"),
    ({"confidence": "perfect", "evidence": {}}, "verified", "verified"),
    ({"confidence": "perfect", "evidence": {"kind": "model"}}, "unsure", "partial"),
    ({"confidence": "perfect", "evidence": {"kind": "panel"}}, "unsure", "partial"),
    ({"confidence": "perfect", "evidence": {"kind": "command"}}, "unsure", "partial"),
    ({"confidence": "perfect", "evidence": {"kind": "no such kind"}}, "verified", "verified"),
    ({"confidence": "perfect", "evidence": {"kind": 7}}, "verified", "verified"),
    (
        {"confidence": "perfect", "evidence": {"kind": "command", "commands": [{"command": "x", "code": 1}]}},
        "unsure",
        "partial",
    ),
    (
        {
            "confidence": "perfect",
            "evidence": {"kind": "model", "commands": [{"command": "x", "code": None}]},
        },
        "unsure",
        "partial",
    ),
    ({"status": "failed", "confidence": "perfect"}, "failed", "feedback"),
    ({"status": "unsure", "confidence": "verified"}, "unsure", "partial"),
)


@served
async def test_a_claim_is_worth_what_it_is_based_on(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        session.prompt("one")
        await session.idle()
        verifier = await host.verifier(session)
        for count, (claim, status, confidence) in enumerate(CLAIMS, 1):
            verifier.report(1, **claim)
            said = await host.until("verify/report", count)
            assert (said["status"], said["confidence"]) == (status, confidence), claim
            assert said["verifier"] == "remote"  # it has a name, so that the column has one


@served
@pytest.mark.parametrize("turn", [-1, 0, 2, 999_999_999_999])
async def test_a_report_on_a_turn_that_never_was_is_refused(tmp_path: Path, turn: int) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        session.prompt("one")
        await session.idle()
        verifier = await host.verifier(session)
        verifier.report(turn, confidence="perfect")
        error = await verifier.until("event", name="error")
        assert error["detail"] == f"the report was refused: session {session.id} has no turn {turn}"
        verifier.report(1)
        await host.until("verify/report")
        assert [row.turn for row in host.reports.list()] == [1]


@served
async def test_a_turn_that_failed_is_not_green_whoever_says_so(tmp_path: Path) -> None:
    async with room(tmp_path, Failing(ModelError("refused", "no such model"))) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("one")
        stop = await verifier.until("event", name="stop")
        assert (stop["outcome"], stop["detail"]) == ("failed", "no such model")
        verifier.report(1, confidence="perfect")
        said = await host.until("verify/report")
        assert (said["status"], said["confidence"]) == ("unsure", "partial")


@served
@pytest.mark.parametrize("how", ["abort", "interrupt"])
async def test_a_stopped_turn_is_not_green_and_takes_no_correction(tmp_path: Path, how: str) -> None:
    model = Held()
    async with room(tmp_path, model) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("one")
        await model.asked.wait()
        verifier.prompt("this waits for the end of the turn", "early")
        assert (await verifier.until("prompt_ack"))["ok"]
        getattr(session, how)()
        model.go_on.set()
        await session.idle()
        stop = await verifier.until("event", name="stop")
        assert stop["outcome"] == {"abort": "aborted", "interrupt": "interrupted"}[how]
        for deliver in ({}, {"deliverAs": "steer"}):
            verifier.prompt("go on", **deliver)
            ack = await verifier.until("prompt_ack")
            assert (ack["ok"], "an aborted turn is not sent back" in ack["error"]) == (False, True)
        verifier.report(1, confidence="perfect")
        said = await host.until("verify/report")
        assert (said["status"], said["confidence"]) == ("unsure", "partial")
        # who comes later, also to the next daemon, hears the same
        late = await host.verifier(session, since=0)
        assert (await late.until("event", name="stop"))["outcome"] == stop["outcome"]
        with Journal.open(session.journal.path, writable=False) as journal:
            again = AgentSession(journal, Models(model), {}, AllowAll(), lambda event: None, system="")
            assert again.turns[-1].outcome == stop["outcome"]
        # a new prompt is another turn
        session.prompt("two")
        assert (await verifier.until("event", name="stop"))["outcome"] == "done"
        await session.idle()
        assert [turn.corrections for turn in session.turns] == [0, 0]
        verifier.prompt("mend it")
        assert (await verifier.until("prompt_ack"))["ok"]


@served
async def test_a_turn_that_its_program_did_not_end_is_not_green(tmp_path: Path) -> None:
    """The journal ends in the middle of it, as when the daemon before was killed."""
    async with room(tmp_path) as host:
        session = host.session()
        session.journal.append(Said(user("one")))
        verifier = await host.verifier(session, since=0)
        assert (await verifier.until("event", name="stop"))["outcome"] == "lost"
        verifier.report(1, confidence="perfect")
        said = await host.until("verify/report")
        assert (said["status"], said["confidence"]) == ("unsure", "partial")
        verifier.prompt("go on")  # nobody stopped it: it can go on
        assert (await verifier.until("prompt_ack"))["ok"]
        assert (await verifier.until("event", name="stop"))["outcome"] == "done"
