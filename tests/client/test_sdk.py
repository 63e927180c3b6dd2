"""The SDK drives real sessions of a real daemon."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import fairlead
from fairlead.client.launch import session_socket
from fairlead.client.sdk import Ended, Host, RequestError
from fairlead.events import Bell, Exited, Happened, Notification, Progress, Started, Title, host_event
from tests.hosting import WAIT, Hosting

ECHO = ["sh", "-c", "echo ready; while read line; do echo got $line; done"]


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    return lent


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    with fairlead.connect() as host:
        yield host


def test_a_session_is_started_typed_into_and_read(host: Host) -> None:
    work = host.start("work", ECHO, cols=100, rows=30)
    work.wait_for("ready", timeout=20)
    work.send("hello", "Enter")
    assert work.wait_for(r"got \w+", regex=True, timeout=20) == "got hello"
    assert work.screen() == "ready\nhello\ngot hello"
    assert work.cells()["cols"] == 100
    assert [row["name"] for row in host.terminals()] == ["work"]
    assert work.search("hello")[0]["text"].strip() == "hello"
    assert work.stop() == 129
    assert host.terminals() == []
    assert host.status()["sessions"] == 0


def test_a_command_is_a_list_of_words(host: Host) -> None:
    with pytest.raises(TypeError, match=r"such as \['sh', '-l'\], not a string"):
        host.start("work", "sh -l")


def test_a_screen_comes_in_every_form(host: Host) -> None:
    work = host.start("work", ["sh", "-c", r"printf '\033[31mred\033[0m'; read line"])
    work.wait_for("red", timeout=20)
    assert "\x1b[" in work.screen(format="ansi")
    assert "<pre" in work.screen(format="html")
    assert work.screen(format="svg").startswith("<svg")


def test_waiting_for_what_does_not_come_is_a_timeout_or_an_end(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "read line; exit 6"])
    for seconds in (0, 0.1):
        with pytest.raises(TimeoutError, match=rf"'never' did not appear within {seconds} s"):
            work.wait_for("never", timeout=seconds)
    with pytest.raises(TimeoutError, match=r"'work' did not end within 0\.1 s"):
        work.wait(timeout=0.1)
    work.wait_quiet(0.1, timeout=20)
    work.send("", "Enter")
    with pytest.raises(Ended) as ended:
        work.wait_for("never", timeout=20)
    assert ended.value.code == 6
    assert work.wait(timeout=20) == 6


def test_a_size_reaches_the_program(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "while read line; do stty size; done"])
    work.resize(132, 50)
    work.send("", "Enter")
    work.wait_for("50 132", timeout=20)


def test_output_comes_as_it_is_printed_until_the_end(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "echo one; read line; echo two; exit"])
    work.wait_for("one", timeout=20)
    seen: list[bytes] = []
    started = threading.Event()

    def collect() -> None:
        for data in work.output():
            seen.append(data)
            started.set()

    reader = threading.Thread(target=collect)
    reader.start()
    assert started.wait(20)
    work.send("", "Enter")
    reader.join(20)
    assert b"one" in seen[0]
    assert b"two" in b"".join(seen[1:])


def test_what_cant_be_done_says_why(host: Host) -> None:
    for missing in (lambda: host.terminal("nobody"), lambda: host.attach("nobody")):
        with pytest.raises(RequestError, match="no session 'nobody'") as error:
            missing()
        assert error.value.code == "request/not-found"
    work = host.start("work", ECHO)
    with pytest.raises(RequestError, match="no-such-key"):
        work.send("", "no-such-key")
    with pytest.raises(fairlead.RequestError, match="already running"):
        host.start("work", ECHO)
    with pytest.raises(ValueError, match="no topic 'terminal/smell'"):
        host.events("terminal/smell")
    with pytest.raises(ValueError, match="unknown role 'owner'; expected one of writer, watcher, monitor"):
        work.attach("owner")  # type: ignore[arg-type]


def test_a_writer_types_resizes_and_sees_the_exit_code(host: Host) -> None:
    script = "echo ready; while read line; do test $line = end && exit 7; stty size; done"
    host.start("work", ["sh", "-c", script])
    with host.attach("work", cols=90, rows=20) as view:
        assert view.pid > 0
        until(view, b"ready")
        view.write(b"size\r")
        until(view, b"20 90")
        assert view.size == (90, 20)
        view.resize(91, 21)
        view.write(b"size\r")
        until(view, b"21 91")
        assert view.size == (91, 21)
        assert view.exit_code is None
        view.write(b"end\r")
        assert list(view)
        assert view.exit_code == 7
        with pytest.raises(Ended):
            view.write(b"too late")


def until(view: fairlead.client.sdk.Attached, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        data = view.read(timeout=WAIT)
        assert data, f"{text!r} did not come: {seen!r}"
        seen += data
    return seen


def test_attaching_without_a_size_leaves_it_as_it_is(host: Host) -> None:
    work = host.start("work", ECHO, cols=77, rows=11)
    with work.attach() as view:
        assert view.size == (77, 11)
        view.write(b"x\r")
        until(view, b"got x")
        assert view.size == (77, 11)


def test_a_watcher_sees_everything_and_cant_say_anything(host: Host) -> None:
    work = host.start("work", ECHO)
    with host.attach(work, "watcher") as watcher, work.attach() as writer:
        until(watcher, b"ready")
        with pytest.raises(ValueError, match="a watcher can't write; attach as a writer"):
            watcher.write(b"x")
        with pytest.raises(ValueError, match="a watcher can't resize; attach as a writer"):
            watcher.resize(10, 10)
        writer.write(b"seen\r")
        until(watcher, b"got seen")


def test_reading_with_a_timeout_can_go_on_after_it(host: Host) -> None:
    work = host.start("work", ECHO)
    with work.attach() as view:
        until(view, b"ready")
        with pytest.raises(TimeoutError):
            view.read(timeout=0.05)
        view.write(b"on\r")
        until(view, b"got on")
    with pytest.raises(ConnectionError, match="this client has detached from session 'work'"):
        view.read()


def test_a_program_that_cant_be_executed_says_why(host: Host) -> None:
    with pytest.raises(RequestError, match="can't start 'no-such-program'") as refused:
        host.start("work", ["no-such-program"])
    assert refused.value.data["exit_code"] == 127
    assert host.terminals() == []


def test_a_session_that_is_full_refuses_another_client_with_the_reason(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosting.run("daemon", "stop")
    monkeypatch.setenv("FAIRLEAD_TERMINAL_MAX_CONNECTIONS", "1")
    with fairlead.connect() as host:
        work = host.start("work", ECHO)
        with work.attach("monitor"), pytest.raises(RequestError, match="reached its limit of clients"):
            work.attach("monitor")


def test_a_session_whose_socket_goes_while_it_is_asked_is_asked_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start("brief", ["echo", "seen"])
    find = session_socket
    gone, also_gone, heard_first = socket.socketpair(), socket.socketpair(), socket.socketpair()
    for ours, theirs in (gone, also_gone):
        ours.send(b"left unread")  # closing resets the connection then
        theirs.close()
    heard_first[1].close()
    there = [gone[0], also_gone[0], heard_first[0]]
    monkeypatch.setattr(
        "fairlead.client.streams.session_socket", lambda *at: there.pop() if there else find(*at)
    )
    assert b"seen" in b"".join(host.terminal("brief").output())
    assert not there


def test_output_goes_on_by_itself_when_the_daemon_is_killed(hosting: Hosting, host: Host) -> None:
    work = host.start("work", ECHO)
    work.wait_for("ready", timeout=20)
    output = work.output()
    assert b"ready" in next(output)
    for number in range(3):
        hosting.kill_daemon()
        assert b"ready" in next(output)  # drawn again
        hosting.run("send", "work", f"n{number}", "-k", "Enter")
        seen = b""
        while b"got n%d" % number not in seen:
            seen += next(output)
    hosting.run("stop", "work")
    assert b"got" not in b"".join(output)


def test_output_that_is_told_not_to_go_on_is_a_connection_error(hosting: Hosting, host: Host) -> None:
    output = host.start("work", ECHO).output(reconnect=False)
    next(output)
    hosting.kill_daemon()
    with pytest.raises(ConnectionError, match="the daemon closed the connection to session 'work'"):
        list(output)


def test_a_size_that_was_asked_for_is_kept_when_the_daemon_dies(hosting: Hosting, host: Host) -> None:
    work = host.start("work", ["sh", "-c", "while read line; do stty size; done"])
    with work.attach(cols=70, rows=10) as view:
        view.resize(71, 11)
        view.write(b"\r")
        until(view, b"11 71")
        hosting.kill_daemon()
        view.resize(72, 12)
        until(view, b"11 71")
        view.write(b"\r")
        until(view, b"12 72")
        assert view.size == (72, 12)


def test_a_wait_goes_on_when_the_daemon_is_killed_and_its_time_goes_on_too(
    hosting: Hosting, host: Host
) -> None:
    work = host.start("work", ECHO)
    pid = hosting.daemon_pid()
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="within 2 s"):
        work.wait_for("never", timeout=2)
    assert 1.9 < time.monotonic() - began < 2 + WAIT / 2
    assert hosting.daemon_pid() != pid


def test_what_would_change_something_is_a_connection_error_and_the_next_call_finds_the_next_daemon(
    hosting: Hosting, host: Host
) -> None:
    work = host.start("work", ECHO)
    work.wait_for("ready", timeout=20)
    hosting.kill_daemon()
    with pytest.raises(ConnectionError):
        work.send("lost", "Enter")
    work.send("found", "Enter")
    work.wait_for("got found", timeout=20)
    assert "lost" not in work.screen()


def test_events_tell_what_happens_from_the_moment_on_that_they_are_asked_for(host: Host) -> None:
    say = r"printf '\033]2;named\007'; read x; printf '\007'; printf '\033]777;notify;done;all passed\007'"
    say += r"; printf '\033]9;4;1;40\007'; read x; exit 4"
    with host.events() as every, host.events("terminal/exited", "terminal/bell") as some:
        work = host.start("work", ["sh", "-c", say])
        pid = host.terminals()[0]["pid"]
        first = {every.next(timeout=WAIT) for _ in range(2)}
        assert first == {Started("work", pid), Title("work", "named")}
        work.send("", "Enter")
        found = {every.next(timeout=WAIT) for _ in range(3)}
        assert found == {
            Bell("work"),
            Notification("work", "done", "all passed"),
            Progress("work", "set", 40),
        }
        with pytest.raises(TimeoutError):
            every.next(timeout=0.05)
        work.send("", "Enter")
        assert next(iter(every)) == Exited("work", 4)
        assert [some.next(timeout=WAIT) for _ in range(2)] == [Bell("work"), Exited("work", 4)]


def test_events_end_with_an_error_when_the_daemon_goes_away(hosting: Hosting, host: Host) -> None:
    with host.events() as events:
        hosting.kill_daemon()
        with pytest.raises(ConnectionError, match="events may have been missed"):
            events.next(timeout=WAIT)


def test_an_event_of_another_kind_is_given_as_it_is() -> None:
    data = {"type": "text", "exit_code": 1}
    assert host_event("command-result", data) == Happened("command-result", data)


def test_public_names_are_imported_when_they_are_used_and_others_are_attribute_errors() -> None:
    code = "import sys, fairlead; print('asyncio' in sys.modules, fairlead.events.Bell('a'))"
    code += "; print(fairlead.plugins.GiveUp.__name__, fairlead.aio.connect.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False Bell(name='a')\nGiveUp connect\n"
    assert fairlead.Ended is Ended
    assert not hasattr(fairlead, "no_such_name")
