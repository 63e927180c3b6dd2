"""Attacks on agent sessions, their door, the bridge and the chat that once went through."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import events
from fairlead.agent.consent.policy import ConsentRule, Policy
from fairlead.agent.journal import Journal, Said, SessionInfoEntry
from fairlead.agent.library import Library
from fairlead.agent.messages import Assistant, ToolCall, user
from fairlead.agent.recall.transcripts import Transcripts
from fairlead.agent.secrets import Redactor
from fairlead.agent.tools import standard_tools
from fairlead.agent.tools.terminals import LocalTerminals
from fairlead.client import bridge
from fairlead.client.calls import plain
from fairlead.client.following import AgentSubscription
from fairlead.daemon import agents as agent_room
from fairlead.doors.rpc import frames as agent_frames
from fairlead.doors.rpc import history as agent_history
from fairlead.doors.rpc.handlers import Call
from fairlead.doors.rpc.history import EventHistory
from fairlead.events import AgentEvent, ApprovalWanted, Prompted
from fairlead.formats.shown import call_title, one_line, several_lines
from fairlead.system.settings import Settings
from fairlead.ui.chat.line import InputHistory as TypedBefore
from fairlead.ui.chat.line import InputLine
from fairlead.ui.chat.view import question
from fairlead.ui.styled import plain as text_of
from fairlead.wire import rpc
from fairlead.wire.rpc_catalog import TOPICS
from tests.agent.playing import AskBeforeWriting, Endless, Held, Note, Playing, calls, replay, says
from tests.doors.attacks import HIDDEN, INVISIBLE, PADDED
from tests.doors.test_agents import served, serving
from tests.hosting import Hosting, is_alive

PATIENCE = 5.0


def guarded(directory: Path, model: Any, rules: tuple[ConsentRule, ...] = ()) -> Playing:
    """A session with the real tools and the real policy."""
    tools = standard_tools(LocalTerminals(), directory / "outputs", Redactor())
    return Playing(directory, model, tools=list(tools.values()), judge=Policy(directory.resolve(), rules))


async def settled_or_asked(playing: Playing) -> None:
    """Wait until the turn is over, or waits for an answer."""
    async with asyncio.timeout(PATIENCE):
        while not (playing.session.is_idle or playing.session.approvals):
            await asyncio.sleep(0.01)


# --- consent ----------------------------------------------------------------------------------------------


@served
async def test_consent_is_not_for_another_call_that_has_the_same_id(tmp_path: Path) -> None:
    """Many servers count calls from 0 in every answer."""
    first, second = {"command": "echo harmless"}, {"command": f"touch {tmp_path}/pwned"}
    model = replay(
        tmp_path, calls(("call_0", "bash", first)), says("a"), calls(("call_0", "bash", second)), says("b")
    )
    async with guarded(tmp_path, model) as playing:
        playing.session.prompt("one")
        wanted = await playing.until(events.ApprovalWanted)
        playing.session.settle(wanted.approval.id, True, "me")
        await playing.idle()
        playing.session.prompt("two")
        await settled_or_asked(playing)
        assert not (tmp_path / "pwned").exists()
        assert len(playing.of(events.ApprovalWanted)) == 2


@served
async def test_consent_is_not_for_a_call_of_the_same_answer_with_the_same_id(tmp_path: Path) -> None:
    first, second = {"command": "echo harmless"}, {"command": f"touch {tmp_path}/pwned"}
    model = replay(tmp_path, calls(("c", "bash", first), ("c", "bash", second)), says("a"))
    async with guarded(tmp_path, model) as playing:
        playing.session.prompt("one")
        wanted = await playing.until(events.ApprovalWanted)
        playing.session.settle(wanted.approval.id, True, "me")
        await settled_or_asked(playing)
        (other,) = playing.session.approvals
        playing.session.settle(other, False, "me")
        await playing.idle()
        assert not (tmp_path / "pwned").exists()


DOCUMENTED = (
    ConsentRule("bash", "allow", match="git *"),
    ConsentRule("bash", "ask", match="git push*"),
    ConsentRule("bash", "deny", match="touch *"),
)


@pytest.mark.parametrize(
    "command",
    [
        'git "push" origin main',
        "git \\push",
        "git -C . push",
        "git -c a.b=c push",
        "git $(echo push)",
        "git `echo push`",
        "git $'pu\\x73h'",
        "git status; git pu{sh,x}",
        "git -c alias.x='!touch pwned' x",
        "git log $(" + "x" * 90_000 + ")",
    ],
)
@served
async def test_a_push_is_asked_about_however_it_is_written(tmp_path: Path, command: str) -> None:
    model = replay(tmp_path, calls(("c", "bash", {"command": command})), says("a"))
    async with guarded(tmp_path, model, DOCUMENTED) as playing:
        playing.session.prompt("one")
        wanted = await playing.until(events.ApprovalWanted)
        assert not playing.of(events.ToolExecuting)
        assert "bash" in wanted.approval.reason  # it names the rule
        playing.session.settle(wanted.approval.id, False, "me")
        await playing.idle()


@pytest.mark.parametrize(
    "command",
    [
        "timeout 5 touch pwned",
        "nice -n 5 touch pwned",
        "env -S 'touch pwned'",
        "env -u X A=b touch pwned",
        "echo pwned | xargs touch",
        "find . -maxdepth 0 -exec touch pwned \\;",
        "sh -c 'touch pwned'",
        "bash -c 'bash -c \"touch pwned\"'",
        "{touch,pwned}",
        "$'\\x74ouch' pwned",
    ],
)
@served
async def test_a_denied_command_is_denied_whatever_runs_it(tmp_path: Path, command: str) -> None:
    model = replay(tmp_path, calls(("c", "bash", {"command": command})), says("a"))
    async with guarded(tmp_path, model, (*DOCUMENTED, ConsentRule("bash", "allow"))) as playing:
        playing.session.prompt("one")
        await playing.idle()
        (ended,) = playing.of(events.ToolEnded)
        assert ended.text.startswith("denied: `")
        assert ended.text.endswith("a rule says: deny bash touch *")
        assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("hidden", ["\x1bP; touch pwned #\x1b\\", "\x1b]; touch pwned #\x07"])
def test_nothing_of_a_command_is_hidden_from_who_is_asked(hidden: str) -> None:
    wanted = ApprovalWanted("1", "bash", f"$ ls {hidden}", "it runs a command", f"ls {hidden}")
    assert "touch pwned" in "\n".join(map(text_of, question(wanted)))


@pytest.mark.parametrize("command", PADDED.values(), ids=PADDED)
def test_nothing_of_a_padded_command_is_out_of_sight(command: str) -> None:
    wanted = ApprovalWanted("1", "bash", f"$ {one_line(command, 100)}", "it runs a command", command)
    shown = {
        "a line": one_line(command, 100),
        "a title": call_title("bash", {"command": command}),
        "several lines": several_lines(command, lines=20, characters=1000, where="see `show`"),
        "the chat": "\n".join(map(text_of, question(wanted))),
    }
    for where, text in shown.items():
        assert HIDDEN in text, where
        assert not set(INVISIBLE) & set(text), where
    assert len(shown["a line"]) <= 100
    assert len(shown["several lines"].split("\n")) <= 21
    assert len(shown["several lines"]) <= 1100


@pytest.mark.parametrize("command", PADDED.values(), ids=PADDED)
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_nothing_of_a_padded_change_is_out_of_sight(tmp_path: Path, tool: str, command: str) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    long = "x = 1\n" * 5000 + command
    tools = standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor())
    for text in (command, long):
        given: dict[str, Any] = {"path": "Makefile", "content": text}
        if tool == "edit":
            given = {"path": "Makefile", "edits": [{"oldText": "all:\n", "newText": text}]}
        touch = tools[tool].touches(given, tmp_path)
        shown = several_lines(touch.preview, lines=60, characters=6000)
        assert HIDDEN in shown
        assert not set(INVISIBLE) & set(shown)


@served
async def test_lasting_consent_to_a_blank_command_breaks_nothing(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "bash", {"command": " \n"})), says("a"))
    async with guarded(tmp_path, model) as playing:
        playing.session.prompt("one")
        await settled_or_asked(playing)
        for id in list(playing.session.approvals):
            playing.session.settle(id, True, "me", lasts=True)
        await settled_or_asked(playing)
    async with guarded(tmp_path, model):
        pass


@served
async def test_a_journal_from_elsewhere_brings_no_consent_for_a_whole_tool(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "bash", {"command": f"touch {tmp_path}/pwned"})), says("a"))
    asked = {"id": "q", "call_id": "z", "tool": "bash", "summary": "", "reason": ""}
    said = {"id": "q", "allowed": False, "by": "", "lasts": True}
    rows: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "", "cwd": str(tmp_path)},
        {"type": "custom", "id": "a", "parentId": None, "customType": "fairlead/approval", "data": asked},
        {
            "type": "custom",
            "id": "b",
            "parentId": "a",
            "customType": "fairlead/approval-settled",
            "data": said,
        },
    ]
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with guarded(tmp_path, model) as playing:
        playing.session.prompt("one")
        await settled_or_asked(playing)
        assert not (tmp_path / "pwned").exists()


@served
async def test_what_is_aborted_before_it_begins_does_not_run(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "note", {"text": "milk"})), says("a"))
    notes = tmp_path / "notes"
    async with Playing(tmp_path, model, tools=[Note(notes)], judge=AskBeforeWriting()) as playing:
        playing.session.prompt("one")
        wanted = await playing.until(events.ApprovalWanted)
        await asyncio.sleep(0.05)
        playing.session.settle(wanted.approval.id, True, "me")
        playing.session.abort()
        await playing.idle()
        assert not notes.exists()


@served
async def test_a_fork_asks_for_its_own_consent(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "note", {"text": "milk"})), says("a"))
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        await client.ask("prompt", message="one")
        asked = await client.until("ui/dialog-requested")
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result="always")
        await client.until("session/turn-ended")
        await client.ask("set_session_name", name="before")
        [session] = host.store.loaded
        forked = await client.ask("fork", entry_id=session.journal.entries[-1].id)
        assert not host.store.find(forked["session_id"])._approvals.lasting


@served
async def test_a_dialog_is_answered_in_the_session_that_is_named(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "note", {"text": "milk"})), says("a"))
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        await client.ask("prompt", message="one")
        asked = await client.until("ui/dialog-requested")
        other = await client.ask("open_session", name="other")
        answer = await client.ask(
            "resolve_dialog", session_id=other["session_id"], dialog_id=asked["dialog_id"], result=True
        )
        assert isinstance(answer, tuple)


# --- ending things ----------------------------------------------------------------------------------------


@served
async def test_two_calls_with_one_id_are_both_aborted(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "endless", {}), ("c", "endless", {})), says("a"))
    async with Playing(tmp_path, model, tools=[Endless()]) as playing:
        playing.session.prompt("one")
        await playing.until(events.ToolExecuting, 2)
        await asyncio.sleep(0.05)
        playing.session.abort()
        async with asyncio.timeout(PATIENCE):
            await playing.session.idle()


@served
async def test_what_comes_after_an_abort_does_not_wait_for_ever(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "endless", {})), says("a"))
    async with Playing(tmp_path, model, tools=[Endless()]) as playing:
        playing.session.prompt("one")
        await playing.until(events.ToolExecuting)
        await asyncio.sleep(0.05)
        playing.session.abort()
        playing.session.steer("too late")
        await playing.idle()
        assert not playing.session.pending_messages


@served
async def test_cancel_ends_the_request_and_not_what_is_in_focus_by_now(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        client = await host.client()
        one = (await client.ask("open_session", name="one"))["session_id"]
        model.go_on.set()
        for _ in range(3):
            await client.ask("prompt", message="x" * 60_000)
            await host.store.find(one).idle()
        model.go_on.clear()
        id, line = client._wire.request("compact", {})
        client._writer.write(line)
        other = (await client.ask("open_session", name="other"))["session_id"]
        await client.ask("prompt", message="go on")
        await client.ask("cancel", request_id=id)
        await asyncio.sleep(0.2)
        phases = host.store.find(one).phase.value, host.store.find(other).phase.value
        model.go_on.set()
        assert phases == ("idle", "streaming")


@served
async def test_a_text_that_no_journal_takes_is_refused(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        await client.ask("prompt", message="one")
        await model.asked.wait()
        line = client._wire.request("steer", rpc.fields(message="@@"))[1]
        client._writer.write(line.replace(b"@@", b"\\ud800"))
        await asyncio.sleep(0.2)
        model.go_on.set()
        assert (await client.until("session/turn-ended"))["outcome"] == "done"


def test_a_daemon_with_a_running_command_stops_at_once() -> None:
    host = Hosting()
    try:
        script = (
            "from fairlead.client.sdk import connect\n"
            "with connect() as host:\n"
            "    agent = host.agent('g', cwd='/tmp')\n"
            "    for event in agent.prompt('run: sleep 60'):\n"
            "        kind = type(event).__name__\n"
            "        if kind == 'ApprovalWanted': agent.approve(event.id)\n"
            "        if kind == 'ToolRunning': break\n"
        )
        subprocess.run([sys.executable, "-c", script], env=host.environment, timeout=30, check=True)
        time.sleep(1.0)  # until it really runs
        pid = host.daemon_pid()
        began = time.monotonic()
        host.ask("daemon_stop")
        host.until(lambda: not is_alive(pid))
        assert time.monotonic() - began < 12.0
    finally:
        host.close()


# --- what clients are told --------------------------------------------------------------------------------


@served
async def test_who_comes_back_gets_all_that_the_answer_says(tmp_path: Path) -> None:
    model = replay(tmp_path, *(says("y" * 600_000) for _ in range(12)))
    async with serving(tmp_path, model) as host:
        client = await host.client()
        [session] = host.store.loaded
        cursor = (await client.ask("subscribe", since=f"{session.id[:8]}.00000000.0.0"))["cursor"]
        for _ in range(12):
            await client.ask("prompt", message="more")
            while not session.is_idle:
                await client.next()
        back = await host.client(subscribed=False)
        answer = await back.ask("subscribe", topics=list(TOPICS), since=cursor)
        told = [
            frame for frame in back.frames if isinstance(frame, rpc.Event) and "cursor" in plain(frame.data)
        ]
        assert len(told) == answer["replayed"]


@served
async def test_who_does_not_read_is_let_go_and_not_kept_without_events(tmp_path: Path) -> None:
    model = replay(tmp_path, *(says("y" * 900_000) for _ in range(20)))
    async with serving(tmp_path, model) as host:
        client, slow = await host.client(), await host.client(topics=TOPICS)
        [session] = host.store.loaded
        for _ in range(20):
            await client.ask("prompt", message="more")
            while not session.is_idle:
                await client.next()
        heard = 0
        try:
            async with asyncio.timeout(3.0):
                while True:
                    heard += getattr(await slow.next(), "topic", "") == "assistant/message"
        except TimeoutError:
            assert heard == 20
        except AssertionError:  # the connection ended: it will come back with its cursor
            pass


def test_what_is_kept_of_events_is_bounded_by_all_that_is_in_them(tmp_path: Path) -> None:
    async def attack() -> None:
        async with Playing(tmp_path, replay(tmp_path, says("a"))) as playing:
            history = EventHistory()
            for number in range(40):
                text = str(number % 10) * 1_000_000
                event = events.ToolExecuting("s1", f"c{number}", "write", {"path": "x", "content": text})
                for topic, data in agent_frames.frames(event):
                    history.add(playing.session, topic, data)
            assert len(history._events) * 1_000_000 <= agent_history.MAX_CHARS

    asyncio.run(attack())


@served
async def test_requests_are_done_in_their_order(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client(subscribed=False)
        first = client._wire.request("open_session", rpc.fields(name="garden"))[1]
        client._writer.write(first + client._wire.request("subscribe", rpc.fields())[1])
        shown = await client.until("session/updated")
        await asyncio.sleep(0.2)
        assert shown["session_name"] == "garden"
        assert len(host.store.loaded) == 1


@served
async def test_who_follows_misses_nothing_even_if_it_has_heard_nothing_yet(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("one"))) as host:
        client = await host.client(topics=TOPICS)
        following = AgentSubscription(host.store.loaded[0].id)

        async def follow() -> list[AgentEvent]:
            reader, writer = await asyncio.open_unix_connection(host._path)
            writer.write(following.begin())
            heard: list[AgentEvent] = []
            while not following.ready:
                reply, events, _ = following.receive(await reader.read(65_536))
                heard += events
                writer.write(reply)
            writer.close()
            return heard

        await follow()
        await client.ask("prompt", message="hello")
        await client.until("session/turn-ended")
        assert Prompted("hello") in await follow()


# --- sessions and their files -----------------------------------------------------------------------------


@served
async def test_a_journals_id_is_no_path(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c", "note", {"text": "milk"})), says("a"))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    id = os.path.relpath(victim, tmp_path / "sessions" / ".waiting")
    evil = tmp_path / "evil.jsonl"
    evil.write_text(
        json.dumps({"type": "session", "version": 3, "id": id, "timestamp": "", "cwd": str(tmp_path)}) + "\n"
    )
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        answer = await client.ask("switch_session", session_path=str(evil))
        if not isinstance(answer, tuple):
            await client.ask("prompt", message="go")
            asked = await client.until("ui/dialog-requested")
            await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=False)
            await client.until("session/turn-ended")
        assert victim.exists()


@served
async def test_a_copy_of_a_journal_does_not_take_the_place_of_its_session(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        client = await host.client()
        [session] = host.store.loaded
        await client.ask("prompt", message="one")
        copy = str(tmp_path / "copy.jsonl")
        shutil.copy(session.journal.path, copy)
        await client.ask("switch_session", session_path=copy)
        model.go_on.set()
        try:
            assert session in host.store.loaded
        finally:
            await session.idle()
            session.close()


@served
@pytest.mark.parametrize("cwd", ["not/absolute", "/tmp/a\0b", "/etc/passwd", "/no/such/directory"])
async def test_a_session_is_opened_in_a_directory_and_nowhere_else(tmp_path: Path, cwd: str) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client()
        assert isinstance(await client.ask("open_session", cwd=cwd), tuple)


async def _awaited(found: Any) -> Any:
    return await found


def test_a_named_session_is_found_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_room, "SCAN_SECONDS", 0.0)  # as if there were many others
    path = tmp_path / "sessions" / "--x--" / "2026-01-01T00-00-00-000Z_id-1.jsonl"
    with Journal.create(str(path), id="id-1", cwd="/x") as journal:
        journal.append(SessionInfoEntry("garden"))
        journal.append(Said(user("hello")))
    latest = agent_room._latest_of(Transcripts(str(tmp_path / "t.db"), str(tmp_path / "sessions")))
    assert asyncio.run(_awaited(latest(name="garden", cwd=None))) == str(path)


def test_a_link_in_a_project_shows_no_secret_to_a_model(tmp_path: Path) -> None:
    secret = tmp_path / ".netrc"
    secret.write_text("machine x login me password hunter2\n")
    place = tmp_path / "project" / ".fairlead"
    (place / "skills" / "x").mkdir(parents=True)
    (place / "prompts").mkdir()
    (place / "skills" / "x" / "SKILL.md").symlink_to(secret)
    (place / "prompts" / "y.md").symlink_to(secret)
    shelf = Library(str(tmp_path / "home")).shelf(tmp_path / "project")
    assert "hunter2" not in str(shelf)


# --- the bridge -------------------------------------------------------------------------------------------


Bridging = tuple[bridge.Bridge, list[socket.socket]]


@pytest.fixture
def bridging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridging]:
    """A bridge whose daemons are ours: each connection's other end."""
    sockets: list[socket.socket] = []
    ends: list[socket.socket] = []

    def connected(settings: Settings) -> socket.socket:
        ours, theirs = socket.socketpair()
        sockets.append(ours)
        ends.append(theirs)
        return ours

    monkeypatch.setattr(bridge, "connected", connected)
    out = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)
    yield bridge.Bridge(Settings({"HOME": str(tmp_path)}), 0, out, "/tmp"), ends
    os.close(out)
    for each in (*sockets, *ends):
        each.close()


def frame(seq: int, **data: Any) -> bytes:
    return rpc.encode(rpc.Event("assistant/delta", rpc.fields(**data), None, seq, "now"))[:-1]


def test_a_text_with_a_number_in_it_does_not_count(bridging: Bridging) -> None:
    carrying, _ = bridging
    carrying._received(frame(41, text="it says :seq 5", session_id="s"))
    assert carrying._seq == 41
    carrying._offset = 100
    assert carrying._received(frame(2, text="it says :seq 5", session_id="s")) == frame(
        102, text="it says :seq 5", session_id="s"
    )


@pytest.mark.parametrize("text", ["what is :active-session-id ", "what is :cursor ", "what is :session-id "])
def test_a_text_does_not_move_the_bridge(bridging: Bridging, text: str) -> None:
    carrying, _ = bridging
    carrying._focus = "s"
    carrying._received(frame(1, text=text, session_id="s", cursor="c1"))
    assert (carrying._focus, carrying._cursors) == ("s", {"s": "c1"})


def test_arguments_of_a_call_do_not_move_the_bridge(bridging: Bridging) -> None:
    carrying, _ = bridging
    carrying._focus = "s"
    given = {"cursor": "x", "session_id": "y", "active_session_id": "z", "seq": 7}
    said = Assistant((ToolCall("c", "read", given),))
    [(topic, data)] = agent_frames.frames(events.MessageSaid("s", "e", said))
    carrying._received(rpc.encode(rpc.Event(topic, {**data, **rpc.fields(cursor="c1")}, None, 9, "now"))[:-1])
    assert (carrying._focus, carrying._cursors, carrying._seq) == ("s", {"s": "c1"}, 9)


def test_what_a_model_said_does_not_end_the_bridge(bridging: Bridging) -> None:
    carrying, _ = bridging
    said = Assistant((ToolCall("c", "read", {"error_code": "protocol/unsupported-version"}),))
    data = rpc.fields(messages=[agent_frames.message("e", said)])
    carrying._received(rpc.encode(rpc.Response("r", "get_messages", data))[:-1])
    assert not carrying._is_refused


def resent(carrying: bridge.Bridge, ends: list[socket.socket]) -> list[str]:
    """What the next daemon is asked."""
    carrying._find_again()
    carrying._daemon.close()
    data = b""
    while more := ends[-1].recv(65_536):
        data += more
    return data.decode().splitlines()


HELLO = b'{:id "h" :kind :request :op "handshake" :params {:client-info {:protocol-version "1.0"}}}'


def test_the_next_daemon_is_not_asked_for_what_was_told_already(bridging: Bridging) -> None:
    carrying, ends = bridging
    carrying._ask(HELLO)
    carrying._ask(b'{:id "s" :kind :request :op "subscribe" :params {:session-id "s" :since "c0"}}')
    carrying._focus = "s"
    carrying._received(frame(1, text="a", session_id="s", cursor="c1"))
    assert not any('"c0"' in line for line in resent(carrying, ends))


def test_the_next_daemon_makes_no_new_session(bridging: Bridging) -> None:
    carrying, ends = bridging
    carrying._ask(HELLO)
    carrying._ask(b'{:id "s" :kind :request :op "subscribe" :params {}}')
    carrying._focus = "s"
    subscribing = [line for line in resent(carrying, ends) if '"subscribe"' in line]
    assert subscribing
    assert all(":session-id" in line for line in subscribing)


def test_a_long_answer_does_not_end_the_bridge(bridging: Bridging) -> None:
    """A conversation of 10 MB, which is no more than 200 files that were read, is 20 when it is shown."""

    class Daemon:
        def recv(self, size: int) -> bytes:
            return rpc.encode(rpc.Response("r", "get_messages", rpc.fields(text="x" * rpc.MAX_LINE)))

    carrying, _ = bridging
    carrying._pending["r"] = "get_messages"
    carrying._daemon = Daemon()  # type: ignore[assignment]
    carrying._hear()
    assert not carrying._pending


def test_a_number_that_can_not_be_written_does_not_end_the_bridge(bridging: Bridging) -> None:
    carrying, _ = bridging
    carrying._ask(HELLO.replace(b":client-info", b":x 0x" + b"f" * 4000 + b" :client-info"))


# --- typing and scripts -----------------------------------------------------------------------------------


def typed_secret(tmp_path: Path) -> InputLine:
    before = TypedBefore(str(tmp_path / "history"))
    before.add("before")
    line = InputLine(before)
    line.is_secret = True
    line.press(("paste", "sk-secret"))
    return line


@pytest.mark.parametrize("keys", [("up", "down"), ("kill-before", "yank")])
def test_a_key_that_was_typed_does_not_come_back(tmp_path: Path, keys: tuple[str, str]) -> None:
    line = typed_secret(tmp_path)
    line.press(("key", keys[0]))
    line.set("")
    line.is_secret = False
    line.press(("key", keys[1]))
    assert "secret" not in line.text


def test_a_line_with_strange_ends_is_one_entry(tmp_path: Path) -> None:
    path = str(tmp_path / "history")
    TypedBefore(path).add("a\u2028b\x0cc\x85d")
    assert TypedBefore(path).entries == ["a\u2028b\x0cc\x85d"]


@served
async def test_logging_out_of_what_is_no_provider_is_told_as_a_result(tmp_path: Path) -> None:
    from fairlead.agent.models.catalog import Catalog
    from fairlead.agent.models.keys import KeyFiles
    from fairlead.doors.rpc.ops.login import AgentLogin
    from fairlead.doors.rpc.slash import AgentCommands

    class Caller:
        focus = cwd = None
        key_names: frozenset[str] = frozenset()

        def want_key(self, variable: str) -> None:
            raise AssertionError(variable)

        def __init__(self) -> None:
            self.told: list[str] = []

        def event(self, topic: str, data: Any, *, id: str | None = None) -> None:
            self.told.append(topic)

        def wants(self, topic: str) -> bool:
            return True

    async with Playing(tmp_path, replay(tmp_path)) as playing:

        class Sessions:
            def session(self, call: Any) -> Any:
                return playing.session

            def show_session(self, caller: Any, session: Any, id: str) -> None:
                pass

            async def rename(self, session: Any, name: str) -> None:
                pass

        catalog = Catalog({}, entered=KeyFiles(str(tmp_path / "keys")))
        sessions: Any = Sessions()
        login = AgentLogin(catalog, sessions.session)
        commands = AgentCommands(sessions, login, sessions.rename)
        caller: Any = Caller()
        await commands.command(Call(caller, "1", "command"), "/logout ../x")
        assert caller.told == ["command-result"]


@pytest.mark.parametrize("closed", ["<&-", "</dev/null >&-"])
@pytest.mark.parametrize("words", ["agent -p 'help me'", "rpc", "rpc --standalone"])
def test_closed_input_or_output_is_no_traceback(words: str, closed: str) -> None:
    host = Hosting()
    try:
        command = f"{sys.executable} -m fairlead {words} {closed}"
        done = subprocess.run(
            ["sh", "-c", command],
            env=host.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "Traceback" not in done.stderr
    finally:
        host.close()
