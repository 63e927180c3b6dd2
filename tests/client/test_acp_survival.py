"""`fairlead acp` outlives the daemon: an editor gets each word once, and each question is asked once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from fairlead.wire import acp
from tests.client.acp_editor import AcpEditor
from tests.hosted.small import SmallHosting

SOME_TURNS, MANY_TURNS = 4, 30
SPOKEN = "".join(f"{number} " for number in range(20))


@pytest.fixture
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load")
    yield hosting
    hosting.close()


def test_a_turn_and_its_open_permission_outlive_the_daemon(small: SmallHosting) -> None:
    with AcpEditor(small, "--with", "small", cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "slow tool slow")
        editor.until(lambda: "3 " in editor.text())
        small.kill_daemon()
        id, wanted = editor.question()
        assert wanted.tool_call.title == "Write hello.txt: $ echo hi > hello.txt"
        small.kill_daemon()
        editor.choose(id, "always")
        result = editor.answer(turn)
        assert result.stop_reason == "end_turn"
        assert editor.text() == f"{SPOKEN}yes-always {SPOKEN}"
        assert (editor.asked, editor.withdrawn) == ({}, [])
        assert (small.project / "hello.txt.count").read_text() == "x"


def test_a_question_that_is_answered_elsewhere_while_the_daemon_restarts_is_withdrawn(
    small: SmallHosting,
) -> None:
    with AcpEditor(small, "--with", "small", cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "tool done")
        id, _ = editor.question()
        small.kill_daemon()
        token = small.ask("approvals")["approvals"][0]["token"]
        small.ask("approval_settle", token=token, allowed=True)
        assert editor.answer(turn).stop_reason == "end_turn"
        editor.until(lambda: editor.withdrawn == [id])
        assert editor.text() == "yes-once done "


def test_a_new_session_survives_a_daemon_that_dies_before_the_first_prompt(small: SmallHosting) -> None:
    with AcpEditor(small, cwd=small.project) as editor:
        session = editor.new()
        small.kill_daemon()
        assert editor.prompt(session, "hello").stop_reason == "end_turn"
        assert editor.text()


def test_a_turn_of_our_own_agent_that_dies_with_the_daemon_is_an_error_of_its_prompt(
    small: SmallHosting,
) -> None:
    with AcpEditor(small, cwd=small.project) as editor:
        session = editor.new()
        turn = editor.say(session, "run: sleep 60")
        editor.choose(editor.question()[0], "allow")
        editor.until(lambda: any(each.status == "in_progress" for each in editor.of(acp.ToolCallUpdate)))
        small.kill_daemon()
        failed = editor.answer(turn)
        assert isinstance(failed, acp.Error)
        assert "interrupted" in failed.message
        assert editor.of(acp.ToolCallUpdate)[-1].status == "failed"
        assert editor.text() == "I will run `sleep 60`.\n"
        assert editor.prompt(session, "list").stop_reason == "end_turn"


@pytest.mark.parametrize("turns", [SOME_TURNS, pytest.param(MANY_TURNS, marks=pytest.mark.peers)])
def test_each_word_is_told_once_however_often_the_daemon_is_killed(small: SmallHosting, turns: int) -> None:
    rng = random.Random(turns)
    asked = 0
    with AcpEditor(small, "--with", "small", cwd=small.project) as editor:
        session = editor.new()
        for number in range(turns):
            asks = number % 2 == 0
            editor.updates.clear()
            turn = editor.say(session, "think slow tool slow" if asks else "slow plan free slow")
            wait_until = time.monotonic() + rng.random() * 0.9
            while time.monotonic() < wait_until:
                editor.read(0.02)
            small.kill_daemon()
            if asks:
                id, _ = editor.question()
                asked += 1
                if rng.random() < 0.5:
                    small.kill_daemon()
                editor.choose(id, "allow")
                if rng.random() < 0.5:
                    small.kill_daemon()
            assert editor.answer(turn).stop_reason == "end_turn"
            assert editor.text() == (f"{SPOKEN}yes-once {SPOKEN}" if asks else SPOKEN * 2), number
            thoughts = editor.text(kind=acp.AgentThoughtChunk)
            assert thoughts == ("let me see" if asks else ""), number
            calls = [each.tool_call_id for each in editor.of(acp.ToolCall)]
            assert len(calls) == len(set(calls)) == 1
            ends = [each.status for each in editor.of(acp.ToolCallUpdate) if each.status == "completed"]
            assert ends == ["completed"]
        requests = [each for each in editor.items if isinstance(each, acp.Request)]
        assert (len(requests), editor.withdrawn, editor.asked) == (asked, [], {})
    assert len((small.project / "hello.txt.count").read_text()) == asked
    prompts = [each for each in small.received if each.get("method") == "session/prompt"]
    assert len(prompts) == turns
