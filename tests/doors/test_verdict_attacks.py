"""Verifiers that say more than they know, over the real socket: none makes a turn green that is not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.journal import Journal, Said
from fairlead.agent.live import LiveAgent
from fairlead.agent.messages import user
from fairlead.agent.models import ModelError
from fairlead.agent.session import AgentSession
from fairlead.doors.judging import Judging
from fairlead.sessions.feed import Feed
from fairlead.sessions.inbox import AnsweredAlready, Inbox
from tests.agent.playing import WAIT, AllowAll, Failing, Held, Models
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
@pytest.mark.parametrize("how", ["abort", "interrupt", "go on"])
async def test_what_was_said_while_a_turn_went_on_is_not_said_of_its_end(tmp_path: Path, how: str) -> None:
    model = Held()

    def is_stale() -> bool:
        return (host.judging.shown(session.id) or {})["stale"] is True

    async with room(tmp_path, model) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("one")
        await model.asked.wait()
        verifier.report(1, confidence="verified", changed=["x"])
        await host.until("verify/report")
        assert not is_stale()
        getattr(session, how, model.go_on.set)()
        model.go_on.set()
        await session.idle()
        await verifier.until("event", name="stop")
        assert is_stale()
        verifier.report(1, status="failed", confidence="feedback")
        await host.until("verify/report", 2)
        assert not is_stale()


@served
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
async def test_an_aborted_turn_that_was_green_before_its_end_is_not_green_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool, is_known: bool
) -> None:
    model = Held()
    async with room(tmp_path, model) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("one")
        await model.asked.wait()
        verifier.report(1, confidence="verified", changed=["x"])
        await host.until("verify/report")
        if not is_written:  # the daemon died before that
            monkeypatch.setattr(host.reports, "outdate", lambda session_id: None)
        session.abort()
        model.go_on.set()
        await session.idle()
        await verifier.until("event", name="stop")
        await verifier.answered()
        places = [str(host.sockets) + "2"]
        again = Judging(places, host.reports, Feed(), Inbox(), lambda topic, data: None, max_loops=3)
        if is_known:  # before its reports are read, which may take long
            again.opened(LiveAgent(session))
        await again.open()
        if not is_known:
            assert again.of(session.id) is not None
            assert (again.shown(session.id) or {})["stale"] is is_written
            again.opened(LiveAgent(session))
        shown = again.shown(session.id) or {}
        assert (shown["stale"], shown["confidence"]) == (True, "verified")
        assert shown["colour"] != "green"
        again.door.close_all("the test is over")


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


@served
async def test_a_late_report_on_an_older_turn_neither_counts_nor_settles_a_call(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        for text in ("one", "two"):
            session.prompt(text)
            await session.idle()
        verifier.report(2, "unsure", summary="turn two can't be judged")
        await host.until("verify/escalated")
        verifier.report(1, "verified", summary="turn one was good")
        late = await host.until("verify/report", 2)
        assert (late["turn"], late["confidence"], late["stale"]) == (1, "verified", True)
        [call] = host.inbox.open()
        assert call.what == "turn two can't be judged"
        for judgement in (host.judging.of(session.id), host.reports.judgements()[session.id]):
            assert judgement is not None
            assert (judgement.turn, judgement.escalated) == (2, "turn two can't be judged")
        # each call has its own token: the answer to one that is over does not dismiss the next
        session.prompt("three")
        await session.idle()
        verifier.report(3, "unsure", summary="turn three can't be judged")
        await host.until("verify/escalated", 2)
        with pytest.raises(AnsweredAlready):
            await host.inbox.answer(call.id, "deny", "me")
        assert [each.what for each in host.inbox.open()] == ["turn three can't be judged"]


@served
async def test_what_a_person_has_dismissed_is_not_asked_again_after_a_restart(tmp_path: Path) -> None:
    async with room(tmp_path, max_loops=1) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("one")
        await session.idle()
        verifier.prompt("mend it")
        await verifier.until("prompt_ack")
        await session.idle()
        verifier.report(1, "failed", summary="still wrong", sections={"Tests": "two fail"})
        await verifier.answered()
        verifier.prompt("mend it")
        assert (await verifier.until("prompt_ack"))["error"] == "max loops exceeded"
        [call] = host.inbox.open()
        assert (call.what, call.reason) == ("already sent back 1 time", "still wrong")
        assert "two fail" in call.whole
        await host.inbox.answer(call.id, "deny", "me")
        await verifier.answered()
        again = Inbox()
        judging = Judging([], host.reports, Feed(), again, lambda topic, data: None, max_loops=1)
        await judging.open()
        judging.opened(LiveAgent(session))
        assert again.open() == []
        judgement = judging.of(session.id)
        assert judgement is not None
        assert not judgement.escalated


AGENTS_COMMAND = """
import json, socket, sys
peers = []
for _ in range(16):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sys.argv[1])
    peers.append((peer, peer.makefile("rb")))
ask = {"type": "prompt", "sessionId": sys.argv[2], "message": "waste a correction", "correlationId": "c"}
for peer, _ in peers:
    try:
        peer.sendall(json.dumps(ask).encode() + b"\\n")
    except OSError:
        pass
print(json.dumps([json.loads(lines.readline()) for _, lines in peers]), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a process is")
@served
async def test_an_agents_command_takes_neither_the_corrections_nor_the_places(tmp_path: Path) -> None:
    async with room(tmp_path, max_loops=1) as host:
        session = host.session()
        session.prompt("one")
        await session.idle()
        command = subprocess.Popen(
            [sys.executable, "-c", AGENTS_COMMAND, str(host.path(session)), session.id],
            env={**os.environ, "FAIRLEAD_AGENT": "evil"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert command.stdout is not None
            async with asyncio.timeout(WAIT):
                answers = json.loads(await asyncio.to_thread(command.stdout.readline))
            acks = [each for each in answers if each["type"] == "prompt_ack"]
            byes = [each["reason"] for each in answers if each["type"] == "bye"]
            assert len(acks) == 4
            assert all(not ack["ok"] and "(evil)" in ack["error"] for ack in acks)
            assert byes == ["4 commands of agents are already connected"] * 12
            for _ in range(16):
                verifier = await host.verifier(session)
            verifier.prompt("mend it")
            assert (await verifier.until("prompt_ack"))["ok"]
        finally:
            command.kill()
            command.communicate()
