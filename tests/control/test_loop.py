"""Perceive, reason, judge, act: what the loop makes of signals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.control import actuators as actuators_module
from fairlead.control import loop as loop_module
from fairlead.control.actuators import GiveUp
from fairlead.control.gates import Gate, GateOutcome, block
from fairlead.control.signals import MAX_DEPTH, MAX_PIECE, Action, Context, Priority, Signal
from tests.control.rooms import SECRET, WAIT, Client, Room


def run(
    directory: Path, work: Callable[[Room], Awaitable[None]], rules: list[dict[str, Any]] | None = None
) -> None:
    async def timed() -> None:
        room = Room(directory, rules)
        async with asyncio.timeout(WAIT):
            await work(room)
        await room.close()

    asyncio.run(timed())


def test_user_input_goes_to_the_session_and_its_answer_comes_back(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        client = Client()
        room.say(client, "hello there", "s7")
        assert await client.answers() == ["hello there"]
        assert client.texts == ["hel", "lo there", ""]
        assert room.sessions.prompts == [("s7", "hello there")]
        assert {step[1] for step in client.trace()} == {"PASSED"}
        assert [gate for gate, _ in client.trace()][:2] == ["PROTOCOL", "SECRETS"]
        assert await room.ask("x", "nowhere") == ":SESSION failed: no session 'nowhere'"
        await room.until(lambda: room.sensors().count("TOOL-ERROR") == 1)

    run(tmp_path, work)


def test_a_secret_that_comes_in_pieces_is_not_shown(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        room.sessions.holds = True
        client = Client()
        room.say(client, "what is the key?")
        await room.until(lambda: bool(room.sessions.open))
        [receiver] = room.sessions.open.values()
        for piece in ("it is ", SECRET[:5], SECRET[5:9], SECRET[9:] + ", and ", "sk-12", " is harmless"):
            receiver.text(piece)
        receiver.end(f"failed with {SECRET}")
        assert await client.answers() == [
            "it is [redacted], and sk-12 is harmlessfailed with [redacted]",
        ]

    run(tmp_path, work)


def test_a_large_answer_comes_in_pieces_and_odd_characters_are_replaced(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        client = Client()
        room.say(client, "x" * (2 * MAX_PIECE + 10))
        assert len((await client.answers())[0]) == 2 * MAX_PIECE + 10
        assert max(map(len, client.texts)) == MAX_PIECE
        assert await room.ask("\udcff") == "?"

    run(tmp_path, work)


def test_cancelling_ends_the_answers_of_that_client_alone(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        room.sessions.holds = True
        mine, other = Client(), Client()
        room.say(mine, "one", "a")
        await room.until(lambda: len(room.sessions.open) == 1)
        assert room.control.cancel(other) == 0
        assert room.control.cancel(mine, "b") == 0
        assert room.control.cancel(mine) == 1
        assert await mine.answers() == ["aborted"]
        assert room.sessions.cancelled == ["a"]
        assert room.control.cancel(mine) == 0

    run(tmp_path, work)


def test_a_client_that_left_gets_nothing_more(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        room.sessions.holds = True
        client = Client()
        room.say(client, "one")
        await room.until(lambda: len(room.sessions.open) == 1)
        client.is_open = False
        room.control.left(client)
        [receiver] = room.sessions.open.values()
        receiver.text("late")
        receiver.end()
        assert client.got == []

    run(tmp_path, work)


def test_the_commands_of_a_person(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        assert "/approve TOKEN" in await room.ask("/help")
        assert await room.ask("/status") == "all idle\n1 approval pending"
        assert await room.ask("/approvals") == (
            "agent1  bash\n    $ make\n    it runs a command\n    session garden (s1) in /srv/garden\n"
            "    /approve agent1 or /deny agent1"
        )
        assert await room.ask("/approve") == "/approve needs a token; /approvals lists them"
        assert await room.ask("/approve agent1") == (
            "approved agent1: bash $ make (session garden (s1) in /srv/garden)"
        )
        assert "answered already" in await room.ask("/deny agent1")
        assert room.agents.settled == [("agent1", True, "tui")]
        assert await room.ask("/approvals") == "no approvals pending"
        assert await room.ask("/what") == "unknown command /what; /help lists them"
        assert await room.ask("/etc/hosts is odd") == "/etc/hosts is odd"
        assert await room.ask("/send work ls -l") == "typed into work"
        assert room.sessions.typed == [("work", "ls -l<Enter>")]
        assert await room.ask("/run echo hi") == "hi\n"
        assert "unknown actuator :NOTIFY" in await room.ask("/notify x")

    run(tmp_path, work)


def test_an_asked_action_waits_survives_and_runs_once(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.touch()

    async def asks(room: Room) -> None:
        client = Client()
        room.say(client, f"/run rm {target}")
        (answer,) = await client.answers()
        assert "waits for your consent" in answer
        assert ("DANGEROUS-COMMANDS", "APPROVAL") in client.trace()
        (asked,) = room.own()
        assert asked.id in answer
        assert room.events("APPROVAL-REQUIRED")[0].get("payload", "token") == asked.id

    async def answers(room: Room) -> None:
        (asked,) = room.own()
        client = Client()
        room.say(client, f"/approve {asked.id}")
        assert await client.answers() == [f"approved {asked.id}: shell rm {target} (the daemon itself)"]
        assert "answered already: allowed by tui" in await room.ask(f"/approve {asked.id}")
        await room.until(lambda: not target.exists())
        await room.until(lambda: "TOOL-OUTPUT" in room.sensors())
        assert room.lost == []

    async def later(room: Room) -> None:
        assert room.lost == []
        assert room.own() == []

    for work in (asks, answers, later):
        run(tmp_path, work)


def test_what_was_approved_and_not_finished_is_not_done_again(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        asked = room.store.ask(Action("SHELL", "touch made"), "why", (), "tui")
        assert room.store.settle(asked.token, True, "tui") is not None  # and then the daemon is killed

    async def later(room: Room) -> None:
        assert [asked for asked in room.lost if "may have been done" in asked]
        assert room.own() == []
        assert not (tmp_path / "made").exists()

    run(tmp_path, work)
    run(tmp_path, later)


def test_rules_act_without_a_model_and_feedback_is_the_next_signal(tmp_path: Path) -> None:
    rules = [
        {"sensor": "user-input", "pattern": "^hi (.*)", "then": {"actuator": "tui", "text": "hello {1}"}},
        {"sensor": "heartbeat", "then": {"actuator": ":shell", "text": "echo beat {status}"}},
        {"sensor": "tool-output", "pattern": "beat", "then": {"target": "echo", "text": "{text}{match}"}},
    ]

    async def work(room: Room) -> None:
        heard: list[tuple[str, int]] = []
        room.actuators.register_actuator(
            "Echo", lambda action, context: heard.append((action.text, action.depth)), quick=True
        )
        assert await room.ask("hi you") == "hello you"
        assert room.sessions.prompts == []
        room.control.hear(Signal("heartbeat", fields={"status": "fine; id"}))
        await room.until(lambda: bool(heard))
        assert heard == [("beat fine; id\nbeat", 1)]
        assert room.sensors() == ["HEARTBEAT", "TOOL-OUTPUT"]

    run(tmp_path, work, rules)


def test_no_rule_comes_before_what_is_said_to_control_itself(tmp_path: Path) -> None:
    rules = [{"sensor": "user-input", "pattern": "", "then": {"actuator": "tui", "text": "rule: {text}"}}]

    async def work(room: Room) -> None:
        assert await room.ask("/approve agent1") == (
            "approved agent1: bash $ make (session garden (s1) in /srv/garden)"
        )
        assert await room.ask("/deploy") == "rule: /deploy"
        assert await room.ask("hello") == "rule: hello"

    run(tmp_path, work, rules)


def test_what_is_told_to_all_has_no_secrets(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        room.control.hear(Signal("session-failed", text=f"wrong key {SECRET}", fields={"prompt": SECRET}))
        await room.until(lambda: bool(room.told))
        assert room.told[0].get("payload", "text") == "wrong key [redacted]"
        assert room.told[0].get("payload", "prompt") == "[redacted]"

    run(tmp_path, work)


def test_a_client_that_comes_is_shown_what_waits(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        await room.ask("/run rm x")
        client = Client()
        room.control.arrived(client)
        shown = [message.get("payload", "token") for message in client.got]
        assert shown == [each.id for each in room.inbox.open()]
        assert len(shown) == 2

    run(tmp_path, work)


def test_a_rule_that_answers_itself_ends(tmp_path: Path) -> None:
    rules = [{"sensor": "*", "then": {"actuator": "again", "text": "x"}}]

    async def work(room: Room) -> None:
        count = 0

        def again(action: Action, context: Context) -> str:
            nonlocal count
            count += 1
            return "again"

        room.actuators.register_actuator("again", again, quick=True)
        room.control.hear(Signal("heartbeat"))
        await room.until(lambda: room.control.counts["too deep"] == 1)
        assert count == MAX_DEPTH + 1

    run(tmp_path, work, rules)


def test_a_turn_that_a_rule_began_counts_as_deeper(tmp_path: Path) -> None:
    rules = [
        {"sensor": "session-finished", "then": {"actuator": "session", "session": "s1", "text": "go on"}}
    ]

    async def work(room: Room) -> None:
        room.control.hear(Signal("session-finished", session="s1"))
        await room.until(lambda: bool(room.sessions.prompts))
        assert room.control.depth_of_turn("s1") == 1
        assert room.control.depth_of_turn("s1") == 0
        room.control.hear(Signal("session-finished", session="s1", depth=4))
        await room.until(lambda: len(room.sessions.prompts) == 2)
        assert room.control.depth_of_turn("s1") == 5

    run(tmp_path, work, rules)


def test_a_failing_actuator_is_tried_again_and_its_failure_is_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actuators_module, "LONGEST_PAUSE", 0.01)

    async def work(room: Room) -> None:
        room.control._acting._first_pause = 0.01
        tries: list[str] = []

        async def flaky(action: Action, context: Context) -> str | None:
            tries.append(action.text)
            if len(tries) < 3:
                raise ConnectionError("not now")
            return "at last"

        def broken(action: Action, context: Context) -> None:
            tries.append("broken")
            raise OSError("never")

        def hopeless(action: Action, context: Context) -> None:
            tries.append("hopeless")
            raise GiveUp("no use")

        room.actuators.register_actuator("flaky", flaky)
        room.actuators.register_actuator("broken", broken)
        room.actuators.register_actuator("hopeless", hopeless)
        client = Client()
        signal = Signal("user-input", "tui", client=client)
        for target in ("FLAKY", "BROKEN", "HOPELESS"):
            tries.clear()
            room.control._judge(Action(target, "go"), signal)
            await client.answers()
            assert len(tries) == {"FLAKY": 3, "BROKEN": actuators_module.MAX_TRIES, "HOPELESS": 1}[target]
            client.got, last = [], client.texts
            wanted = {"FLAKY": "at last", "BROKEN": "OSError: never", "HOPELESS": "no use"}[target]
            assert wanted in last[0]
        await room.until(lambda: sorted(room.sensors()) == ["TOOL-ERROR", "TOOL-ERROR", "TOOL-OUTPUT"])

    run(tmp_path, work)


def test_a_slow_actuator_blocks_nobody(tmp_path: Path) -> None:
    import threading

    async def work(room: Room) -> None:
        over = threading.Event()

        def slow(action: Action, context: Context) -> str:
            over.wait(WAIT)
            return "done"

        room.actuators.register_actuator("slow", slow)
        client = Client()
        room.control._judge(Action("SLOW"), Signal("user-input", "tui", client=client))
        assert await room.ask("still there?") == "still there?"
        assert client.got == []
        over.set()
        assert await client.answers() == ["done"]

    run(tmp_path, work)


def test_what_goes_wrong_is_one_loop_error_and_an_answer(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        def broken(signal: Signal) -> list[Action]:
            raise RuntimeError("out of order")

        room.control._reflexes.actions = broken  # type: ignore[method-assign]
        client = Client()
        room.say(client, "x")
        assert "out of order" in (await client.answers())[0]
        await room.until(lambda: room.control.counts["errors"] == 2)
        assert room.sensors() == ["LOOP-ERROR"]

    run(tmp_path, work)


def test_the_queue_is_limited_and_the_most_urgent_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "MAX_SIGNALS", 6)
    monkeypatch.setattr(loop_module, "MAX_SIGNALS_OF_ONE", 3)

    async def work(room: Room) -> None:
        client = Client()
        assert [room.say(client, str(number)) for number in range(4)] == [
            *[""] * 3,
            "3 of your signals are already queued",
        ]
        room.control.hear(Signal("heartbeat", priority=Priority.HEARTBEAT))
        room.control.hear(Signal("first", priority=Priority.URGENT))
        room.control.hear(Signal("second"))
        assert room.control.hear(Signal("third")) == "6 signals are already queued"
        await client.answers(3)
        await room.until(lambda: len(room.told) == 3)
        assert room.sensors() == ["FIRST", "SECOND", "HEARTBEAT"]
        assert room.say(client, "again") == ""

    run(tmp_path, work)


def test_a_gate_that_fails_blocks_and_others_can_be_added(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        def broken(action: Action) -> Any:
            raise KeyError("x")

        def judge(action: Action) -> Any:
            return block("no") if "no" in action.text else broken(action)

        room.control.gates.add(Gate("mine", 950, judge))
        client = Client()
        room.say(client, "no")
        assert await client.answers() == ["blocked: no"]
        assert client.trace() == [("PROTOCOL", "PASSED"), ("MINE", "BLOCKED")]
        assert "the gate mine failed: KeyError" in await room.ask("yes")
        assert room.sessions.prompts == []

    run(tmp_path, work)


def test_considering_tells_what_became_of_the_actions(tmp_path: Path) -> None:
    async def work(room: Room) -> None:
        (blocked,) = room.control.consider(Signal("notification", text="x"))
        assert (blocked.outcome, blocked.action.target) == (GateOutcome.BLOCKED, "NOTIFY")
        room.actuators.register_actuator("notify", lambda action, context: None, quick=True)
        (passed,) = room.control.consider(Signal("notification", text="x", fields={"title": "t"}))
        assert (passed.outcome, passed.reason, passed.action.title) == (GateOutcome.PASSED, "", "t")
        (secret,) = room.control.consider(Signal("notification", text=f"key {SECRET}"))
        assert secret.reason == "the text contains a secret"

    run(tmp_path, work)
