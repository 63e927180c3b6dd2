"""The verifier door as raw peers meet it, on real sockets, with real agent sessions behind it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.live import LiveAgent
from fairlead.agent.messages import User, text_of
from fairlead.agent.models import ModelError
from fairlead.agent.session import AgentSession
from fairlead.doors import verifier as doors
from fairlead.doors.verifier import MAX_VERIFIERS
from fairlead.wire import verifier as wire
from tests.agent.playing import Failing, Held
from tests.doors.verifiers import QUIET, Room, answering, room, served

SEPARATORS = "before\u2028between\u2029after"


def lines(path: str) -> int:
    return Path(path).read_bytes().count(b"\n")


# --- envelopes --------------------------------------------------------------------------------------------


@served
async def test_every_envelope_is_spoken_in_its_direction(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("build it")
        start = await verifier.next()
        stop = await verifier.next()
        assert (start["type"], start["name"], stop["type"], stop["name"]) == (
            "event",
            "start",
            "event",
            "stop",
        )
        verifier.send("ping", nonce="n")
        assert await verifier.next() == {"type": "pong", "nonce": "n"}
        verifier.prompt("add NOT NULL", "c-1")
        assert await verifier.next() == {
            "type": "prompt_ack",
            "sessionId": session.id,
            "correlationId": "c-1",
            "ok": True,
        }
        await verifier.until("event", name="stop")
        verifier.report(1, "verified", confidence="perfect", sections={"Schema": "- users: PASS"})
        said = await host.until("verify/report")
        assert (said["session_id"], said["turn"], said["status"]) == (session.id, 1, "verified")
        assert (said["confidence"], said["colour"], said["sections"]) == (
            "verified",  # it does not say what it is based on
            "green",
            {"Schema": "- users: PASS"},
        )
        verifier.send("bye", reason="done")
        assert await verifier.ended()


@served
async def test_events_flow_to_a_client_that_never_said_hello(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        silent = await host.peer(session)
        await silent.answered()
        session.prompt("hi")
        assert (await silent.next())["name"] == "start"
        assert (await silent.next())["name"] == "stop"


@served
async def test_what_a_verifier_may_not_send_is_dropped_and_counted_and_the_connection_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "fairlead")
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        verifier.send("event", name="stop", sessionId=session.id, timestamp=1)
        verifier.send("hello_ack", sessionId=session.id)
        verifier.send("prompt_ack", sessionId=session.id, correlationId="c", ok=True)
        assert await verifier.answered() == []
        (connection,) = host.judging.door._places[session.id].verifiers
        assert connection.wire.misdirected == 3
        for each in ("event", "hello_ack", "prompt_ack"):
            assert f"a verifier may not send {each};" in caplog.text


@served
async def test_what_is_wrong_with_a_verifier_is_not_logged_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "fairlead")
    async with room(tmp_path) as host:
        session = host.session()
        for count in (10, 20):  # each connection has its own ten
            verifier = await host.verifier(session)
            for _ in range(50):
                verifier.report(1, confidence=7)
                verifier.send("hello_ack", sessionId=session.id)
            await verifier.answered()
            logged = [each for each in caplog.messages if each.startswith(f"a verifier of {session.id}: ")]
            assert len(logged) == count
        assert any("it sent a wrong report" in each for each in logged)
        assert any("may not send hello_ack" in each for each in logged)
        session.prompt("one")
        await session.idle()
        verifier.report(1)  # it is still heard
        await host.until("verify/report")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"dance"}', "unknown envelope type 'dance'"),
        (b'{"type":7}', "unknown envelope type 7"),
        (b"{nonsense", "not JSON"),
        (b"[1]", 'an envelope must be an object with a "type"'),
        (b"\xff\xfe", "not JSON"),
        (b'{"sessionId":"s"}', 'an envelope must be an object with a "type"'),
    ],
)
@served
async def test_what_is_no_envelope_gets_one_bye_with_the_reason_and_reconnecting_works(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        verifier.write(line + b"\n" + line + b'\n{"type":"ping","nonce":"late"}\n')
        bye = await verifier.next()
        assert bye["type"] == "bye"
        assert reason in bye["reason"]
        assert await verifier.ended()
        again = await host.verifier(session)
        assert await again.answered() == []


@served
async def test_empty_lines_mean_nothing(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        verifier = await host.verifier(host.session())
        verifier.write(b"\n\n\n")
        assert await verifier.answered() == []


@served
async def test_line_separators_of_unicode_pass_both_ways(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt(SEPARATORS)
        line = await verifier.line()
        assert SEPARATORS.encode() in line
        assert json.loads(line)["userPrompt"] == SEPARATORS
        await verifier.until("event", name="stop")
        verifier.prompt(SEPARATORS)
        assert (await verifier.until("prompt_ack"))["ok"] is True
        await verifier.until("event", name="stop")
        assert text_of(session.messages[2]) == SEPARATORS


@served
async def test_an_envelope_of_five_megabytes_is_read_whole(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await verifier.until("event", name="stop")
        verifier.prompt("x" * 5_000_000)
        assert (await verifier.until("prompt_ack"))["ok"] is True
        stop = await verifier.until("event", name="stop")
        assert len(text_of(session.messages[2])) == 5_000_000
        assert stop["sessionFileEndLine"] == lines(session.journal.path)


@served
async def test_an_envelope_may_come_byte_by_byte_and_be_cut_anywhere(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        verifier = await host.verifier(host.session())
        line = '{"type":"ping","nonce":"ü\u2028\\n"}\n'.encode()
        for at in range(1, len(line)):
            verifier.write(line[:at])
            await asyncio.sleep(0)  # so that it is two writes
            verifier.write(line[at:])
            assert await verifier.next() == {"type": "pong", "nonce": "ü\u2028\n"}
        for at in range(len(line)):
            verifier.write(line[at : at + 1])
            await asyncio.sleep(0)
        assert await verifier.next() == {"type": "pong", "nonce": "ü\u2028\n"}


@served
async def test_an_envelope_above_the_limit_ends_the_connection_with_a_reason(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        piece = b"x" * (1024 * 1024)
        verifier.write(b'{"type":"ping","nonce":"')
        for _ in range(wire.MAX_ENVELOPE // len(piece) + 1):
            verifier.write(piece)
            await asyncio.sleep(0)
        assert await verifier.next() == {
            "type": "bye",
            "reason": f"an envelope of more than {wire.MAX_ENVELOPE} bytes",
        }
        assert await (await host.verifier(session)).answered() == []


# --- prompts ----------------------------------------------------------------------------------------------


@served
async def test_prompts_that_cannot_be_taken_are_refused_with_a_reason_and_not_counted(
    tmp_path: Path,
) -> None:
    async with room(tmp_path, max_loops=1) as host:
        session = host.session()
        verifier = await host.verifier(session)

        async def refusal(**more: Any) -> str:
            verifier.send("prompt", **{"sessionId": session.id, "message": "m", "correlationId": "c", **more})
            ack = await verifier.until("prompt_ack", correlationId="c", ok=False)
            reason: str = ack["error"]
            return reason

        assert await refusal() == "no turn to correct yet"
        session.prompt("hi")
        await verifier.until("event", name="stop")
        assert await refusal(sessionId="other") == f"session 'other' is not here; this is {session.id!r}"
        assert "message" in await refusal(message=None)
        assert await refusal(message="  \n") == "message is empty"
        assert "deliverAs" in await refusal(deliverAs="shout")
        verifier.send("prompt", sessionId=session.id, correlationId="c")
        assert "message" in (await verifier.until("prompt_ack"))["error"]
        assert len(session.messages) == 2
        verifier.prompt()
        assert (await verifier.until("prompt_ack"))["ok"] is True
        await verifier.until("event", name="stop")
        assert await refusal() == "max loops exceeded"


@served
async def test_a_prompt_for_another_session_is_not_taken_with_a_bye_behind_it_either(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await verifier.until("event", name="stop")
        prompt = {"type": "prompt", "sessionId": "other", "message": "no", "correlationId": "c"}
        verifier.write(json.dumps(prompt).encode() + b'\n{"type":"bye","reason":"done"}\n')
        assert await verifier.ended()
        assert len(session.messages) == 2


@served
async def test_what_comes_behind_a_bye_is_not_heard(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await verifier.until("event", name="stop")
        prompt = {"type": "prompt", "sessionId": session.id, "message": "late", "correlationId": "c"}
        verifier.write(b'{"type":"bye","reason":"done"}\n' + json.dumps(prompt).encode() + b"\n")
        assert await verifier.ended()
        assert len(session.messages) == 2


@served
async def test_a_correction_waits_for_the_turn_or_steers_it(tmp_path: Path) -> None:
    model = Held()
    async with room(tmp_path, model) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await model.asked.wait()
        verifier.prompt("afterwards", "a", deliverAs="followUp")
        verifier.prompt("now", "b", deliverAs="steer")
        assert (await verifier.until("prompt_ack", correlationId="a"))["ok"] is True
        assert (await verifier.until("prompt_ack", correlationId="b"))["ok"] is True
        waiting = session.prompts
        assert (list(map(text_of, waiting.steering)), len(waiting.follow_ups)) == (["now"], 1)
        model.go_on.set()
        first = await verifier.until("event", name="stop")
        second = await verifier.until("event", name="stop")
        said = [text_of(each) for each in session.messages if isinstance(each, User)]
        assert said == ["hi", "now", "afterwards"]
        assert first["sessionFileEndLine"] < second["sessionFileEndLine"]


@served
async def test_after_so_many_corrections_a_person_is_called_once_and_a_new_prompt_counts_anew(
    tmp_path: Path,
) -> None:
    async with room(tmp_path, max_loops=2) as host:
        session = host.session()
        one, other = await host.verifier(session), await host.verifier(session)

        def escalations() -> list[dict[str, Any]]:
            return [data for topic, data in host.told if topic == "verify/escalated"]

        for round in (1, 2):
            session.prompt("hi")
            await one.until("event", name="stop")
            for peer in (one, other):  # whoever sends it, it counts for the session
                peer.prompt()
                assert (await peer.until("prompt_ack"))["ok"] is True
                await one.until("event", name="stop")
            assert len(escalations()) == round - 1
            for peer in (one, other, one):
                peer.prompt()
                assert (await peer.until("prompt_ack"))["error"] == "max loops exceeded"
            one.report(round, "failed")
            await one.answered()
            one.prompt()
            await one.until("prompt_ack", ok=False)
            assert escalations()[round - 1 :] == [
                {"session_id": session.id, "turn": round, "reason": "already sent back 2 times"}
            ]
            judgement = host.judging.of(session.id)
            assert judgement is not None
            assert (judgement.turn, judgement.confidence) == (round, "feedback")
            assert judgement.escalated.startswith("already sent back ")


# --- turns and lines --------------------------------------------------------------------------------------


@served
async def test_a_turn_is_told_with_its_lines_and_a_correction_only_makes_it_longer(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        journal = session.journal.path

        session.prompt("first")
        start = await verifier.next()
        assert (start["turnIndex"], start["userPrompt"], start["sessionFileStartLine"]) == (1, "first", 1)
        assert "sessionFileEndLine" not in start
        assert 1_600_000_000_000 < start["timestamp"] < 5_000_000_000_000
        stop = await verifier.next()
        same = {name: value for name, value in start.items() if name not in ("timestamp", "name")}
        assert same.items() <= stop.items()
        assert stop["sessionFileEndLine"] == lines(journal)

        for _ in range(2):
            verifier.prompt("again")
            await verifier.until("prompt_ack")
            longer = await verifier.next()
            assert (longer["name"], longer["sessionFileEndLine"]) == ("stop", lines(journal))
            assert longer["sessionFileEndLine"] > stop["sessionFileEndLine"]
            assert same.items() <= longer.items()
            stop = longer

        before = lines(journal)
        session.prompt("second")
        start = await verifier.next()
        assert (start["turnIndex"], start["userPrompt"]) == (2, "second")
        assert start["sessionFileStartLine"] == before + 1
        stop = await verifier.next()
        slice = Path(journal).read_bytes().splitlines()[before : stop["sessionFileEndLine"]]
        assert [json.loads(line)["message"]["role"] for line in slice] == ["user", "assistant"]


@served
async def test_an_attempt_that_is_retried_is_no_stop_and_an_error_is_told(tmp_path: Path) -> None:
    busy = ModelError("busy", "429", status=429)
    async with room(tmp_path, Failing(busy, busy, ModelError("refused", "no key"))) as host:
        session = host.session()
        assert isinstance(session, AgentSession)
        session._sleep = no_pause
        verifier = await host.verifier(session)
        session.prompt("hi")
        events = [await verifier.next() for _ in range(3)]
        assert [event["name"] for event in events] == ["start", "error", "stop"]
        assert events[1]["detail"] == "no key"
        assert await verifier.answered() == []


async def no_pause(seconds: float) -> None:
    pass


@served
async def test_who_was_away_hears_of_the_turns_since_a_line_and_who_does_not_say_hears_nothing(
    tmp_path: Path,
) -> None:
    model = answering()
    async with room(tmp_path, model) as host:
        session = host.session()
        watching = await host.verifier(session)
        ends = []
        for prompt in ("one", "two"):
            session.prompt(prompt)
            ends.append((await watching.until("event", name="stop"))["sessionFileEndLine"])

        async def heard(**more: Any) -> list[tuple[str, int]]:
            peer = await host.verifier(session, **more)
            return [(event["name"], event["turnIndex"]) for event in await peer.answered()]

        everything = [("start", 1), ("stop", 1), ("start", 2), ("stop", 2)]
        assert await heard() == []
        assert await heard(since=0) == everything
        assert await heard(since=ends[0]) == everything[2:]
        assert await heard(since=ends[0] - 1) == everything[1:]
        assert await heard(since=ends[1]) == []
        model.go_on.clear()
        session.prompt("three")
        assert await heard(since=ends[1]) == [("start", 3)]
        model.go_on.set()


# --- many, and their ends ---------------------------------------------------------------------------------


@served
async def test_several_verifiers_hear_everything_until_they_say_bye(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        one, two, three = [await host.verifier(session) for _ in range(3)]
        session.prompt("hi")
        for peer in (one, two, three):
            assert [(await peer.next())["name"] for _ in range(2)] == ["start", "stop"]
        two.send("bye", reason="enough")
        assert await two.ended()
        three.reset()
        session.prompt("again")
        assert [(await one.next())["name"] for _ in range(2)] == ["start", "stop"]


@served
async def test_one_verifier_too_many_is_told_so(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        for _ in range(MAX_VERIFIERS):
            await host.verifier(session)
        extra = await host.peer(session)
        assert await extra.next() == {
            "type": "bye",
            "reason": f"{MAX_VERIFIERS} verifiers are already connected",
        }
        assert await extra.ended()


@pytest.mark.parametrize("step", ["connected", "hello", "half a line", "start", "prompt", "report"])
@served
async def test_a_verifier_may_die_at_any_step_and_the_session_goes_on(tmp_path: Path, step: str) -> None:
    model = Held()
    async with room(tmp_path, model) as host:
        session = host.session()
        witness = await host.verifier(session)
        dying = await host.peer(session)
        if step != "connected":
            dying.hello()
            await dying.next()
        if step == "half a line":
            dying.write(b'{"type":"prompt","sess')
        session.prompt("hi")
        await model.asked.wait()
        if step in ("start", "prompt", "report"):
            assert (await dying.next())["name"] == "start"
        if step == "prompt":
            dying.prompt("from the dead")
        if step == "report":
            dying.report(1, "unsure")
        await asyncio.sleep(0.01)  # what was written is on its way
        dying.reset()
        model.go_on.set()
        names = ["start", *(["stop"] * (2 if step == "prompt" else 1))]
        assert [(await witness.until("event"))["name"] for _ in names] == names
        if step == "report":
            assert (await host.until("verify/escalated"))["reason"] == "looked"
        assert await witness.answered() == []
        assert await (await host.verifier(session)).answered() == []


@served
async def test_when_a_session_is_closed_its_verifiers_are_told_and_the_socket_is_gone(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        (host.project / ".pi").mkdir()
        session, other = host.session(), host.session()
        verifier, silent, elsewhere = (
            await host.verifier(session),
            await host.peer(session),
            await host.verifier(other),
        )
        await silent.answered()
        breadcrumb = Path(wire.breadcrumb_path(session.id, str(host.project)))
        assert breadcrumb.read_text() == f"{host.path(session)}\n"
        host.store._close(session)
        for peer in (verifier, silent):
            assert await peer.next() == {"type": "bye", "reason": "session_shutdown"}
            assert await peer.ended()
        assert not host.path(session).exists()
        assert not breadcrumb.exists()
        assert await elsewhere.answered() == []


@pytest.mark.parametrize("step", ["idle", "start", "prompt"])
@served
async def test_a_builder_may_leave_at_any_step(tmp_path: Path, step: str) -> None:
    model = Held()
    async with room(tmp_path, model) as host:
        session = host.session()
        verifier = await host.verifier(session)
        if step != "idle":
            session.prompt("hi")
            await verifier.until("event", name="start")
        if step == "prompt":
            verifier.prompt("wait for it")
            await verifier.until("prompt_ack", ok=True)
        host.judging.door.close(session.id, "daemon_restart")
        assert await verifier.next() == {"type": "bye", "reason": "daemon_restart"}
        assert await verifier.ended()


@served
async def test_who_answers_no_pings_is_let_go_and_who_does_stays(tmp_path: Path) -> None:
    async with room(tmp_path, ping_interval=0.03) as host:
        session = host.session()
        dead = await host.verifier(session)
        alive = await host.verifier(session)

        async def answers() -> None:
            while (envelope := await alive.next())["type"] == "ping":
                alive.send("pong", nonce=envelope["nonce"])

        answering = asyncio.create_task(answers())
        pings = []
        while line := await dead.line():
            pings.append(json.loads(line))
        assert [ping["type"] for ping in pings] == ["ping"] * wire.MAX_MISSES
        await asyncio.sleep(4 * 0.03)
        assert host.judging.door.is_watched(session.id)
        host.judging.door.close(session.id)
        await answering


@served
async def test_who_does_not_read_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "WRITE_LIMIT", 1_000_000)
    async with room(tmp_path) as host:
        session = host.session()
        await (await host.peer(session)).answered()
        witness = await host.verifier(session)
        slow = socket.socket(socket.AF_UNIX)
        slow.connect(str(host.path(session)))
        await asyncio.sleep(QUIET)
        assert len(host.judging.door._places[session.id].verifiers) == 3
        for _ in range(4):
            session.prompt("x" * 500_000)
            await witness.until("event", name="stop")
        assert len(host.judging.door._places[session.id].verifiers) < 3
        slow.close()


# --- places -----------------------------------------------------------------------------------------------


@served
async def test_only_our_user_can_come_to_a_socket(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        host.sockets.mkdir(mode=0o755)
        (host.project / ".pi").mkdir()
        session = host.session()
        assert stat.S_IMODE(host.sockets.stat().st_mode) == 0o700
        assert stat.S_IMODE(host.path(session).stat().st_mode) == 0o600
        breadcrumb = Path(wire.breadcrumb_path(session.id, str(host.project)))
        assert stat.S_IMODE(breadcrumb.stat().st_mode) == 0o600
        assert (breadcrumb.parent / ".gitignore").read_text() == "*\n"


STRANGER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(sys.argv[1])
    peer.settimeout(10)
    peer.sendall(b'{"type":"ping","nonce":"n"}\\n')
    print(peer.recv(100))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@served
async def test_another_user_is_refused_even_where_the_modes_would_let_them_in(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()

        async def stranger() -> str:
            command = [sys.executable, "-c", STRANGER, str(host.path(session))]
            done = await asyncio.to_thread(
                subprocess.run, command, cwd="/", capture_output=True, text=True, check=True
            )
            assert isinstance(done.stdout, str)
            return done.stdout.strip()

        assert await stranger() == "PermissionError"
        for path in (host.sockets.parent, host.sockets, host.path(session)):
            path.chmod(0o777)
        assert await stranger() in ("b''", "ConnectionResetError", "BrokenPipeError")
        assert not host.judging.door.is_watched(session.id)


@served
async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        host.judging.door.close(session.id)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(host.path(session)))
        assert host.path(session).is_socket()
        reopen(host, session.id)
        assert await (await host.verifier(session)).answered() == []


@pytest.mark.parametrize("is_full", [False, True])
@served
async def test_a_socket_that_another_process_serves_is_left_alone(
    tmp_path: Path, is_full: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        host.judging.door.close(session.id)
        with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as client:
            other.bind(str(host.path(session)))
            other.listen(0)
            if is_full:
                client.connect(str(host.path(session)))
            before = host.path(session).stat().st_ino
            reopen(host, session.id)
            assert "another process listens on" in caplog.text
            assert host.path(session).stat().st_ino == before
            host.judging.door.close(session.id)
            assert host.path(session).exists()


def reopen(host: Room, session_id: str) -> None:
    """Open the door of a session again, as the next daemon does."""
    host.judging.opened(LiveAgent(host.store.find(session_id)))


@served
async def test_a_place_for_sockets_that_is_a_link_or_not_ours_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with room(tmp_path) as host:
        (tmp_path / "elsewhere").mkdir()
        host.sockets.symlink_to(tmp_path / "elsewhere")
        session = host.session()
        assert "is not a directory; a symbolic link is not accepted" in caplog.text
        assert not list((tmp_path / "elsewhere").iterdir())
        session.prompt("hi")  # the session is the same without
        await session.idle()
        assert len(session.messages) == 2
        host.sockets.unlink()


@served
async def test_nothing_is_left_in_a_project(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        assert list(host.project.iterdir()) == []  # Pi does not work here
        host.judging.door.close(session.id)
        (host.project / ".pi").mkdir()
        reopen(host, session.id)
        assert Path(wire.breadcrumb_path(session.id, str(host.project))).exists()
        host.judging.door.close(session.id)
        assert list((host.project / ".pi").iterdir()) == []


@served
async def test_sockets_of_killed_programs_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        dead, young, text = (host.sockets / name for name in ("dead.sock", "young.sock", "text.sock"))
        for path in (dead, young):
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))
        text.touch()
        for path in (dead, text, host.path(session)):
            os.utime(path, (1, 1))
        host.judging.door.remove_dead()
        assert {path.name for path in host.sockets.iterdir()} >= {"young.sock", "text.sock"}
        assert not dead.exists()
        assert await (await host.verifier(session)).answered() == []


@served
async def test_a_link_in_the_project_leads_the_breadcrumb_nowhere(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        breadcrumb = Path(wire.breadcrumb_path(session.id, str(host.project)))
        host.judging.door.close(session.id)
        breadcrumb.parent.mkdir(parents=True)
        (breadcrumb.parent / "of-others").touch()
        victim = tmp_path / "victim"
        victim.write_text("precious")
        breadcrumb.symlink_to(victim)
        reopen(host, session.id)
        assert victim.read_text() == "precious"
        assert await (await host.verifier(session)).answered() == []
        host.judging.door.close(session.id)
        os.mkfifo(breadcrumb)
        reopen(host, session.id)  # which waits for nobody to read it
        host.judging.door.close(session.id)
        elsewhere = tmp_path / "elsewhere"
        breadcrumb.parent.rename(elsewhere)
        breadcrumb.parent.symlink_to(elsewhere)
        (elsewhere / breadcrumb.name).write_text("precious")
        reopen(host, session.id)
        host.judging.door.close(session.id)
        assert (elsewhere / breadcrumb.name).read_text() == "precious"


# --- reports ----------------------------------------------------------------------------------------------


@served
async def test_a_report_is_kept_with_what_is_known_and_one_of_another_session_is_not(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        stop = await verifier.until("event", name="stop")
        verifier.send(
            "report", sessionId="other", turnIndex=1, status="failed", summary="no", sections={}, raw=""
        )
        verifier.report(
            1, "failed", summary="x is 3", sections={"Wrong": "x"}, raw="## Report\nSTATUS: failed"
        )
        await host.until("verify/report")
        (row,) = host.reports.list()
        report = host.reports.get(row.id)
        assert report is not None
        assert (report.kind, report.status, report.confidence) == ("remote", "failed", "feedback")
        assert (report.project, report.session_id) == (str(host.project), session.id)
        assert report.lines is not None
        assert report.lines[1] == stop["sessionFileEndLine"]
        assert [topic for topic, _ in host.told] == ["verify/report"]


@served
async def test_the_same_report_sent_again_after_a_crash_is_kept_once(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await verifier.until("event", name="stop")
        evidence = {"kind": "command", "verifier": "pytest", "duration": 1.25, "tree": "abc"}
        for _ in range(2):
            verifier.report(1, "verified", evidence=evidence)
        await verifier.answered()
        assert [(row.verifier, row.duration) for row in host.reports.list()] == [("pytest", 1.25)]
        verifier.report(1, "verified", evidence={**evidence, "duration": 2.5})
        await verifier.answered()
        assert len(host.reports.list()) == 2


@served
async def test_evidence_that_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        session.prompt("hi")
        await verifier.until("event", name="stop")
        verifier.report(1, "verified", evidence={"duration": "long", "session_id": "other", "cost": []})
        await verifier.answered()
        (row,) = host.reports.list()
        assert (row.session_id, row.duration, row.kind) == (session.id, 0.0, "remote")


@served
async def test_nobody_is_called_for_a_turn_that_was_followed_by_another(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        for _ in range(2):
            session.prompt("hi")
            await verifier.until("event", name="stop")
        verifier.report(1, "unsure")
        await verifier.answered()
        assert (await host.until("verify/report"))["turn"] == 1
        assert host.inbox.open() == []
        verifier.report(2, "unsure")
        assert (await host.until("verify/escalated"))["turn"] == 2
        session.prompt("a person asks again")
        await verifier.until("event", name="start")
        assert host.inbox.open() == []


BEGINS = """
import sys
from fairlead.verify.store import ReportStore
with ReportStore(sys.argv[1]) as store:
    store.begin(session_id=sys.argv[2], project="/p", turn=int(sys.argv[3]), verifier="pytest")
"""


@served
async def test_what_a_dead_verifier_began_is_reported_as_not_verified_unless_its_report_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.doors.judging.GONE_WAIT", 0.01)
    async with room(tmp_path) as host:
        session = host.session()
        verifier = await host.verifier(session)
        for turn in (1, 2):
            session.prompt("hi")
            await verifier.until("event", name="stop")
            path = str(tmp_path / "reports.db")
            subprocess.run([sys.executable, "-c", BEGINS, path, session.id, str(turn)], check=True)
        verifier.report(1, "verified", evidence={"verifier": "pytest", "duration": 1.0})
        await verifier.answered()
        verifier.reset()
        assert (await host.until("verify/escalated"))["turn"] == 2
        rows = [(row.turn, row.confidence, row.verifier) for row in host.reports.list()]
        assert rows == [(2, "failed", "pytest"), (1, "verified", "pytest")]
        assert host.reports.unfinished(everyones=True) == []
