"""The modes of a session: chosen by a person, durable, and in force from the next call on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent import events
from fairlead.agent.consent.policy import Policy
from fairlead.agent.journal import Journal
from fairlead.agent.secrets import Redactor
from fairlead.agent.session import Refused
from fairlead.agent.tools import standard_tools
from fairlead.agent.tools.terminals import LocalTerminals
from fairlead.sessions.inbox import calling_agent
from tests.agent.playing import Playing, calls, playing, replay, says


def session(directory: Path, *answers: list[dict[str, object]]) -> Playing:
    tools = standard_tools(LocalTerminals(), directory / "outputs", Redactor())
    return Playing(
        directory, replay(directory, *answers), tools=list(tools.values()), judge=Policy(directory.resolve())
    )


WRITE = calls(("c1", "write", {"path": "roses.py", "content": "red"}))
RUN = calls(("c2", "bash", {"command": "touch ran"}))


@playing
async def test_edits_are_accepted_and_commands_still_ask(tmp_path: Path) -> None:
    async with session(tmp_path, WRITE, RUN, says("done")) as play:
        play.session.set_mode("accept")
        play.session.prompt("go")
        asked = await play.until(events.ApprovalWanted)
        assert (tmp_path / "roses.py").read_text() == "red"
        assert asked.approval.summary == "$ touch ran"
        play.session.settle(asked.approval.id, False, "test")
        await play.idle()
        assert not (tmp_path / "ran").exists()


@playing
async def test_plan_changes_nothing_not_even_with_an_answer_from_before(tmp_path: Path) -> None:
    async with session(tmp_path, WRITE, RUN, says("a plan")) as play:
        play.session.prompt("go")
        asked = await play.until(events.ApprovalWanted)
        play.session.set_mode("plan")
        play.session.settle(asked.approval.id, True, "test")
        await play.idle()
        assert play.roles[2].startswith("r: denied: plan mode: nothing is changed")
        assert play.roles[4].startswith("r: denied: plan mode: nothing is changed")
        assert not (tmp_path / "roses.py").exists()
        assert not (tmp_path / "ran").exists()


@playing
async def test_the_mode_is_kept_and_told_and_is_a_persons_choice(tmp_path: Path) -> None:
    async with session(tmp_path, says("hello")) as play:
        play.session.set_mode("plan")
        assert play.of(events.Updated)
        with pytest.raises(Refused, match="there is no mode 'bold'; there are ask, accept, plan"):
            play.session.set_mode("bold")
        token = calling_agent.set("evil")
        with pytest.raises(Refused, match="only a person may choose the mode"):
            play.session.set_mode("accept")
        calling_agent.reset(token)
    async with session(tmp_path, says("hello")) as play:
        assert (play.session.mode, play.session.mode_names["accept"]) == ("plan", "accept edits")
    assert len(Journal.open(str(tmp_path / "session.jsonl"), writable=False).entries) == 1
