"""Every prompt of an editor is answered, whatever happens to the daemon and to the prompts of others."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from fairlead.wire import acp
from tests.client.acp_editor import AcpEditor
from tests.hosted.small import SmallHosting

ROUNDS = 6


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


def test_a_prompt_that_is_cancelled_while_it_waits_is_not_said(small: SmallHosting) -> None:
    with (
        AcpEditor(small, "--with", "small", cwd=small.project) as first,
        AcpEditor(small, cwd=small.project) as second,
    ):
        session = first.new()
        second.load(session)
        turn = first.say(session, "hang")
        first.until(lambda: "hanging" in first.text())
        other = second.say(session, "unsaid")
        small.until(lambda: small.ask("get_state", session_id=session)["state"]["steering_messages"] != [])
        small.kill_daemon()  # what waits is said after the turn from now on
        small.ask("daemon_status")
        second.cancel(session)
        assert second.answer(other).stop_reason == "cancelled"
        assert first.answer(turn).stop_reason == "cancelled"
        assert first.prompt(session, "list").stop_reason == "end_turn"
        assert "unsaid" not in str(small.received)


@pytest.mark.peers
def test_every_prompt_of_two_editors_is_answered_however_often_the_daemon_is_killed(
    small: SmallHosting,
) -> None:
    rng = random.Random(ROUNDS)
    for agent, texts in (((), ["run: touch own.txt", "list"]), (("--with", "small"), ["slow tool", "slow"])):
        with (
            AcpEditor(small, *agent, cwd=small.project) as first,
            AcpEditor(small, cwd=small.project) as second,
        ):
            session = first.new()
            second.load(session)
            for number in range(ROUNDS):
                turns = [(each, each.say(session, rng.choice(texts))) for each in (first, second)]
                kill_at = time.monotonic() + rng.random() * 0.5
                while time.monotonic() < kill_at:
                    first.read(0.01)
                small.kill_daemon()
                if is_cancelled := rng.random() < 0.3:
                    first.cancel(session)
                deadline = time.monotonic() + small.patience
                while any(turn not in editor.answers for editor, turn in turns):
                    assert time.monotonic() < deadline, (agent, number, is_cancelled, small.log())
                    for editor, _ in turns:
                        editor.read(0.05)
                    for id in list(second.asked):
                        second.choose(id, "allow")
                first.asked.clear()
