"""Every prompt of an editor is answered, whatever happens to the daemon and to the prompts of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.wire import acp
from tests.client.acp_editor import AcpEditor
from tests.hosted.small import SmallHosting


@pytest.fixture
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load")
    yield hosting
    hosting.close()


def test_a_turn_of_our_own_agent_that_waits_for_consent_answers_its_prompt_after_the_daemon_died(
    small: SmallHosting,
) -> None:
    with AcpEditor(small, cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "run: touch own.txt")
        id, _ = editor.question()
        small.kill_daemon()
        small.ask("daemon_status")
        editor.choose(id, "allow")
        assert editor.answer(turn).stop_reason == "end_turn"
        assert (small.project / "own.txt").exists()
        assert editor.prompt(session, "list").stop_reason == "end_turn"


def test_cancelling_frees_a_prompt_whose_daemon_died_at_a_question(small: SmallHosting) -> None:
    with AcpEditor(small, cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "run: touch own.txt")
        editor.question()
        small.kill_daemon()
        editor.cancel(session)
        assert editor.answer(turn).stop_reason == "cancelled"
        assert editor.prompt(session, "list").stop_reason == "end_turn"
        assert not (small.project / "own.txt").exists()


@pytest.mark.parametrize("agent", [(), ("--with", "small")], ids=["own", "hosted"])
def test_two_editors_are_answered_when_the_daemon_dies_between_their_prompts(
    small: SmallHosting, agent: tuple[str, ...]
) -> None:
    with AcpEditor(small, *agent, cwd=small.project) as first, AcpEditor(small, cwd=small.project) as second:
        session = first.new()
        second.load(session)
        turn = first.say(session, "slow slow" if agent else "run: touch own.txt")
        if agent:
            first.until(lambda: "3 " in first.text())
        else:
            id, _ = first.question()
        small.kill_daemon()
        other = second.say(session, "and this")
        if not agent:
            second.until(lambda: "own.txt" in str(second.asked))
            first.choose(id, "allow")
        assert first.answer(turn).stop_reason == "end_turn"
        assert second.answer(other).stop_reason == "end_turn"
        assert first.prompt(session, "list").stop_reason == "end_turn"


@pytest.mark.parametrize("agent", [(), ("--with", "small")], ids=["own", "hosted"])
def test_a_daemon_that_is_stopped_fails_the_open_prompt_and_the_next_one_starts_it(
    small: SmallHosting, agent: tuple[str, ...]
) -> None:
    with AcpEditor(small, *agent, cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "tool" if agent else "run: touch own.txt")
        id, _ = editor.question()
        small.run("daemon", "stop")
        failed = editor.answer(turn)
        assert isinstance(failed, acp.Error)
        assert "the daemon was stopped" in failed.message
        turn = editor.say(session, "list")
        editor.choose(id, "allow")
        assert editor.answer(turn).stop_reason == "end_turn"
