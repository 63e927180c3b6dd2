"""Clients and programs that behave as badly as they can: others notice nothing, and memory is bounded."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.wire import keepty
from fairlead.wire.keepty import Message, Role
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting

MB = 1_000_000
BACKLOG = MB
MAX_GROWTH = 64 * MB
"""How much a daemon may grow by all that happens here; a session with full scrollback is part of it."""
MAX_CLIENTS = 256
ECHO = "stty -echo; echo ready; while read line; do echo got $line; done"
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_TERMINAL_CLIENT_BACKLOG": str(BACKLOG), "FAIRLEAD_TERMINAL_STOP_GRACE": "1"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
        hosting.start("witness", ECHO)
        yield hosting
        hosting.close()


@pytest.fixture
def name() -> str:
    return f"s{next(NUMBERS)}"


@pytest.fixture(autouse=True)
def untroubled(hosting: Hosting, name: str) -> Iterator[None]:
    """Whatever a test does, another session's writer is answered by the same daemon, which is not bloated."""
    with Peer.greeted("witness", Role.WRITER) as witness:
        before, memory = hosting.daemon_pid(), resident(hosting)
        yield
        witness.typed(f"after {name}\n")
        witness.until(b"got after %s\r\n" % name.encode())
        assert hosting.daemon_pid() == before
        assert resident(hosting) - memory < MAX_GROWTH


def resident(hosting: Hosting) -> int:
    status = Path(f"/proc/{hosting.daemon_pid()}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def shown(output: bytes | bytearray, cols: int = 80, rows: int = 24) -> str:
    """What a terminal shows that was fed this, as the command prints it."""
    with Screen(cols, rows, scrollback_lines=100, scrollback_bytes=MB) as screen:
        screen.feed(bytes(output))
        return screen.text() + "\n"


def fill(peer: Peer, data: bytes) -> int:
    """Send as much of this as is taken while nothing is read at the other end; gives how much that is."""
    sent = 0
    while sent < len(data) and select.select([], [peer.socket], [], 1)[1]:
        peer.socket.setblocking(False)
        sent += peer.socket.send(data[sent : sent + 65_536])
    peer.socket.settimeout(WAIT)
    return sent


def stop(name: str) -> int:
    """End a session; gives its exit code."""
    with Peer.greeted(name, Role.MONITOR) as monitor:
        monitor.send(keepty.Shutdown())
        return monitor.next(keepty.Exit).code


# --- clients that don't read ------------------------------------------------------------------------------


def test_a_watcher_that_never_reads_while_200_megabytes_are_printed_costs_a_backlog_and_ends_up_right(
    hosting: Hosting, name: str
) -> None:
    size = 200 * MB
    flood = f"yes 'a line of the flood, with some words in it' | head -c {size}"
    hosting.start(name, f"read line; {flood}; echo; echo the end; read line")
    before = resident(hosting)
    with Peer.greeted(name, Role.WATCHER) as lazy, Peer.greeted(name, Role.WRITER) as eager:
        eager.typed("\n")
        seen, highest, look_at = 0, 0, 50 * MB
        while b"the end" not in eager.output:
            del eager.output[:-1000]
            held = len(eager.output)
            assert eager.messages(), "the stream ended"
            seen += len(eager.output) - held
            if seen > look_at:
                look_at += 50 * MB
                highest = max(highest, resident(hosting))
        assert seen > size / 2  # it may be resynced too, but not often
        assert highest - before < MAX_GROWTH
        lazy.until(b"the end")
        assert len(lazy.output) < 2 * BACKLOG + 2 * keepty.MAX_PAYLOAD
        assert shown(lazy.output) == hosting.screen(name)
        eager.typed("\n")
        assert eager.next(keepty.Exit).code == lazy.next(keepty.Exit).code == 0


def test_a_watcher_that_reads_a_byte_a_second_holds_up_nobody_and_costs_a_backlog(
    hosting: Hosting, name: str
) -> None:
    hosting.start(
        name, f"read line; yes 'a line of the flood' | head -c {60 * MB}; echo; echo the end; read line"
    )
    before = resident(hosting)
    with Peer.greeted(name, Role.WATCHER) as slow, Peer.greeted(name, Role.WRITER) as eager:
        eager.typed("\n")
        started = time.monotonic()
        while b"the end" not in eager.output:
            del eager.output[:-1000]
            assert eager.messages(), "the stream ended"
        for _ in range(3):
            slow.socket.recv(1)
            time.sleep(1)  # this is what it does
            eager.ping()
        assert time.monotonic() - started < WAIT
        assert resident(hosting) - before < MAX_GROWTH
        eager.typed("\n")
        assert eager.next(keepty.Exit).code == 0


def test_a_watcher_that_is_behind_when_the_program_ends_sees_the_last_screen_before_the_exit(
    hosting: Hosting, name: str
) -> None:
    hosting.start(name, f"read line; yes flood | head -c {10 * MB}; echo; echo the end; exit 3")
    with Peer.greeted(name, Role.WATCHER) as lazy, Peer.greeted(name, Role.WRITER) as eager:
        eager.typed("\n")
        assert eager.next(keepty.Exit).code == 3
        *before, last = lazy.rest()
        assert last == keepty.Exit(3)
        assert all(isinstance(each, keepty.Output) for each in before)
        assert shown(lazy.output) == hosting.screen(name)
        assert "the end" in shown(lazy.output)


@pytest.mark.parametrize(
    ("question", "times"), [(keepty.Ping(), 500_000), (keepty.Resize(0xFFFF, 24), 50_000)]
)
def test_a_client_that_asks_and_never_reads_the_answers_is_made_to_wait(
    hosting: Hosting, name: str, question: Message, times: int
) -> None:
    hosting.start(name, "seq 1 1000; echo ready; read line")
    with Peer.greeted(name, Role.WATCHER) as greedy:
        greedy.until(b"ready")
        size = len(question.encode())
        sent = fill(greedy, question.encode() * times)
        if isinstance(question, keepty.Ping):
            assert sent < size * times
            pongs = 0
            while pongs < sent // size:
                pongs += sum(isinstance(each, keepty.Pong) for each in greedy.messages())
    assert stop(name) == 128 + signal.SIGTERM


def test_resizes_that_a_watcher_does_not_read_are_told_to_it_as_the_last_one(
    hosting: Hosting, name: str
) -> None:
    hosting.start(name, f"read line; yes flood | head -c {10 * MB}; echo; echo flooded; read line; echo bye")
    with Peer.greeted(name, Role.WATCHER) as lazy, Peer.greeted(name, Role.WRITER) as writer:
        writer.typed("\n")
        writer.until(b"flooded")
        for rows in range(10, 40):
            writer.send(keepty.Resize(90, rows))
        while writer.next(keepty.ResizeAck).rows != 39:
            pass
        assert lazy.next(keepty.ResizeAck) == keepty.ResizeAck(30, 90, 39)
        writer.typed("\n")
        writer.next(keepty.Exit)
        lazy.next(keepty.Exit)
        assert shown(lazy.output, 90, 39) == hosting.screen(name)


# --- clients that can't talk ------------------------------------------------------------------------------


def test_of_five_hundred_clients_at_once_as_many_as_may_be_are_let_in_and_the_others_told_why(
    hosting: Hosting, name: str
) -> None:
    hosting.start(name, ECHO)
    peers = [Peer(name) for _ in range(500)]
    for peer in peers:
        try:
            peer.send(keepty.Hello(Role.WATCHER, 80, 24))
        except BrokenPipeError:  # it has been refused already
            pass
    first = [peer.messages()[0] for peer in peers]
    assert sum(isinstance(each, keepty.HelloAck) for each in first) == MAX_CLIENTS
    refused = [each for each in first if not isinstance(each, keepty.HelloAck)]
    assert refused == [keepty.Error("this session has reached its limit of clients")] * 244
    for peer in peers:
        peer.socket.close()
    hosting.until(lambda: hosting.sessions()[name]["clients"] == 0)
    Peer.greeted(name, Role.WATCHER).socket.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "frame too large: 1195725856 bytes (max 1048578)"),
        (bytes(64), "frame too short: 0 bytes (min 2)"),
        (b"\xff" * 4, "frame too large: 4294967295 bytes (max 1048578)"),
        ((keepty.MAX_PAYLOAD + 3).to_bytes(4), "frame too large: 1048579 bytes (max 1048578)"),
        (b"\0\0\0\2\2\1", "unsupported protocol version: 2 (expected 1)"),
        (b"\0\0\0\2\1\x63", "unknown kind: 99"),
        (keepty.Ping().encode(), "bad first frame: expected HELLO, not PING"),
        (keepty.Input(b"x" * MB).encode(), "bad first frame: expected HELLO, not INPUT"),
        (b"\0\0\0\3\1\1\1", "bad first frame: HELLO has 1 bytes of payload; it needs 5"),
    ],
)
def test_garbage_is_answered_with_one_sentence_and_the_end(said: bytes, reason: str) -> None:
    with Peer("witness") as peer:
        try:
            peer.socket.sendall(said)
        except BrokenPipeError:
            pass
        assert peer.rest() == [keepty.Error(reason)]


def test_garbage_after_the_handshake_ends_that_client_only(hosting: Hosting, name: str) -> None:
    hosting.start(name, ECHO)
    with Peer.greeted(name, Role.WATCHER) as bad, Peer.greeted(name, Role.MONITOR) as good:
        bad.socket.sendall(b"\xff" * 100)
        assert bad.rest()[-1] == keepty.Error("frame too large: 4294967295 bytes (max 1048578)")
        good.ping()


def test_a_hello_may_come_a_byte_at_a_time() -> None:
    with Peer("witness") as peer:
        for value in keepty.Hello(Role.MONITOR, 80, 24).encode():
            peer.socket.sendall(bytes([value]))
        peer.next(keepty.HelloAck)


def test_a_hello_that_is_dribbled_beyond_the_deadline_is_refused() -> None:
    hello = keepty.Hello(Role.MONITOR, 80, 24).encode()
    with Peer("witness") as peer:
        for value in hello[:-1]:
            peer.socket.sendall(bytes([value]))
            if select.select([peer.socket], [], [], keepty.HELLO_DEADLINE / 8)[0]:
                break
        assert peer.rest() == [keepty.Error("no HELLO within 5 s")]


@pytest.mark.parametrize(("asked", "given"), [((0, 0), (1, 1)), ((65_535, 65_535), (10_000, 10_000))])
def test_absurd_sizes_are_made_possible_ones(
    hosting: Hosting, name: str, asked: tuple[int, int], given: tuple[int, int]
) -> None:
    hosting.start(name, ECHO)
    for role in (Role.WATCHER, Role.MONITOR):
        Peer.greeted(name, role, *asked).socket.close()
    with Peer.greeted(name, Role.WRITER, *asked) as writer:
        writer.send(keepty.Resize(*asked))
        told = writer.next(keepty.ResizeAck)
        if told.generation == 1 and asked != (0, 0):  # by the Hello already
            told = writer.next(keepty.ResizeAck)
        assert (told.cols, told.rows) == given
        writer.typed("hello\n")
        writer.until(b"hello" if asked != (0, 0) else b"h")
        writer.send(keepty.Resize(80, 24))
        writer.next(keepty.ResizeAck)
        with Peer.greeted(name, Role.WATCHER) as watcher:
            watcher.until(b"got")


# --- programs ---------------------------------------------------------------------------------------------


def test_a_program_that_does_not_read_makes_its_writer_wait_and_gets_every_byte_in_the_end(
    hosting: Hosting, name: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    data = b"".join(b"%08d" % number for number in range(1_000_000))
    hosting.start(
        name, f"stty raw -echo; echo ready; read x < {gate}; head -c {len(data)} | gzip -1 | tail -c 8"
    )
    with Peer.greeted(name, Role.WRITER) as writer:
        writer.until(b"ready")
        frames = b"".join(each.encode() for each in keepty.Input.split(data))
        sent = fill(writer, frames)
        assert sent < len(data) / 2
        with Peer.greeted(name, Role.MONITOR) as monitor:
            monitor.ping()
        gate.write_text("go\n")
        writer.socket.sendall(frames[sent:])
        assert writer.next(keepty.Exit).code == 0
        assert writer.output.endswith(
            zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
        )


def test_a_program_that_never_reads_can_be_taken_over_and_stopped(hosting: Hosting, name: str) -> None:
    hosting.start(name, "stty raw -echo; echo ready; exec sleep 1000")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            writer = stack.enter_context(Peer.greeted(name, Role.WRITER))
            writer.until(b"ready")
            fill(writer, keepty.Input(bytes(60_000)).encode() * 50)
        assert stop(name) == 128 + signal.SIGTERM


def test_a_program_that_asks_its_terminal_and_never_reads_the_answers_hurts_nobody(
    hosting: Hosting, name: str
) -> None:
    hosting.start(
        name,
        rf"stty raw -echo; yes '{chr(27)}[6n{chr(27)}[c' | head -c {5 * MB}; echo; echo asked; exec sleep 99",
    )
    hosting.wait_text(name, "asked")
    assert stop(name) == 128 + signal.SIGTERM


def test_while_a_program_floods_forever_another_session_answers(hosting: Hosting, name: str) -> None:
    hosting.start(name, "yes for ever and ever")
    hosting.start(f"{name}-calm", ECHO)
    with Peer.greeted(name, Role.WATCHER), Peer.greeted(f"{name}-calm", Role.WRITER) as writer:
        for number in range(20):
            writer.typed(f"{number}\n")
            writer.until(f"got {number}\r\n".encode())
    assert stop(name) == 128 + signal.SIGTERM


def test_a_child_that_is_left_on_the_terminal_does_not_hold_up_the_end(hosting: Hosting, name: str) -> None:
    hosting.start(name, "read line; trap '' HUP; sleep 1000 & echo child $! left; exit 4")
    with Peer.greeted(name, Role.WRITER) as writer:
        writer.typed("\n")
        assert writer.next(keepty.Exit).code == 4
        child = int(bytes(writer.output).partition(b"child ")[2].split()[0])
    try:
        hosting.start(name, ECHO)  # and the name is free again
        hosting.wait_text(name, "ready")
    finally:
        os.kill(child, signal.SIGKILL)
