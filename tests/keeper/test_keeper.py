"""A keeper drains a real PTY for daemons that come and go."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.base import READ_SIZE
from fairlead.keeper.keeper import INPUT_WINDOW, MAX_BURST, WINDOW
from fairlead.keeper.protocol import KEYFRAME, MARK, MAX_NOTE, NUMBER, RESIZE, FrameKind
from tests.keeper.nurseries import Nursery


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


def test_what_is_printed_is_told_with_offsets_and_then_the_exit_code(nursery: Nursery) -> None:
    daemon = nursery.start("a", "printf one; printf two; exit 3")
    assert daemon.exit_code() == 3
    assert daemon.printed == b"onetwo"


def test_a_program_that_a_signal_ends_exits_with_128_and_the_signal(nursery: Nursery) -> None:
    daemon = nursery.start("a", "echo ready; exec sleep 100")
    daemon.until(lambda: b"ready" in daemon.printed)
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGTERM))
    assert daemon.exit_code() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "cwd", "code", "reason"),
    [
        ("no-such-program", None, 127, "can't start 'no-such-program': No such file or directory"),
        ("/etc/passwd", None, 126, "can't start '/etc/passwd': Permission denied"),
        ("true", "/no/such/place", 126, "no such directory: /no/such/place"),
    ],
)
def test_a_command_that_cant_be_started_says_why_and_exits_as_in_a_shell(
    nursery: Nursery, command: str, cwd: str | None, code: int, reason: str
) -> None:
    nursery.keep("a", [command], **({"cwd": cwd} if cwd else {}))
    daemon = nursery.connect_to("a")
    assert daemon.exit_code() == code
    assert daemon.until_kind(FrameKind.FAILED).decode() == reason


def test_the_next_daemon_is_told_all_that_the_last_one_was(nursery: Nursery) -> None:
    first = nursery.start("a", "echo one; read line; echo two $line")
    first.until(lambda: b"one" in first.printed)
    first.close()
    second = nursery.connect_to("a")
    second.until(lambda: b"one" in second.printed)
    assert second.state["pid"] == first.state["pid"]
    second.tell(FrameKind.INPUT, b"x\n")
    assert second.exit_code() == 0
    assert second.printed == b"one\r\nx\r\ntwo x\r\n"


def test_a_newcomer_takes_over_and_the_old_daemon_is_cut_off(nursery: Nursery) -> None:
    old = nursery.start("a", "exec sleep 100")
    assert old.state["id"] == "a"
    new = nursery.connect_to("a")
    assert new.state["id"] == "a"
    assert old.at_end()


def test_a_keyframe_replaces_what_lies_before_it(nursery: Nursery) -> None:
    daemon = nursery.start("a", "printf 0123456789; read line; printf abc")
    daemon.until(lambda: daemon.printed == b"0123456789")
    blob = KEYFRAME.pack(4, 0) + b"the screen at 4"
    daemon.tell(FrameKind.SET_KEYFRAME, blob)
    daemon.tell(FrameKind.INPUT, b"\n")
    daemon.exit_code()
    later = nursery.connect_to("a")
    later.exit_code()
    assert later.until_kind(FrameKind.KEYFRAME) == blob
    assert later.printed == b"456789\r\nabc"


def test_resizes_keep_their_place_in_the_output(nursery: Nursery) -> None:
    daemon = nursery.start("a", "stty size; read line; stty size; read line")
    daemon.until(lambda: b"24 80" in daemon.printed)
    daemon.tell(FrameKind.RESIZE, RESIZE.pack(132, 50, 1))
    daemon.tell(FrameKind.INPUT, b"\n")
    daemon.until(lambda: b"50 132" in daemon.printed)
    later = nursery.connect_to("a")
    later.until(lambda: b"50 132" in later.printed)
    kinds = [kind for kind, _ in later.frames]
    assert kinds[:3] == [FrameKind.STATE, FrameKind.DATA, FrameKind.RESIZED]
    assert set(kinds[3:]) == {FrameKind.DATA}
    assert MARK.unpack(later.until_kind(FrameKind.RESIZED)) == (len(b"24 80\r\n"), 132, 50, 1)
    assert (later.state["cols"], later.state["rows"]) == (132, 50)


def test_without_a_keyframe_the_program_waits_at_the_window_and_nothing_is_lost(nursery: Nursery) -> None:
    size = 3 * WINDOW
    daemon = nursery.start("a", f"head -c {size} /dev/zero | tr '\\0' x")
    daemon.until(lambda: daemon.received >= WINDOW)
    with pytest.raises(TimeoutError):  # it prints no more, and has not ended
        daemon.until_silent()
    assert daemon.received < WINDOW + MAX_BURST * READ_SIZE

    def is_over() -> bool:
        daemon.tell(FrameKind.SET_KEYFRAME, KEYFRAME.pack(daemon.received, 0))
        return daemon.frames[-1][0] == FrameKind.EXITED

    daemon.until(is_over)
    assert daemon.printed == b"x" * size


def test_input_is_counted_back_as_the_program_takes_it(nursery: Nursery) -> None:
    daemon = nursery.start("a", "stty raw -echo; echo ready; head -c 100000 >/dev/null; echo done")
    daemon.until(lambda: b"ready" in daemon.printed)
    daemon.tell(FrameKind.INPUT, b"x" * 100_000)
    daemon.exit_code()
    taken = sum(struct.unpack(">i", payload)[0] for kind, payload in daemon.frames if kind == FrameKind.TAKEN)
    assert taken == 100_000
    assert b"done" in daemon.printed


def test_a_program_that_never_reads_does_not_stop_its_keeper(nursery: Nursery) -> None:
    daemon = nursery.start("a", "stty raw -echo; echo ready; exec sleep 100")
    daemon.until(lambda: b"ready" in daemon.printed)
    for _ in range(20):
        daemon.tell(FrameKind.INPUT, b"x" * INPUT_WINDOW)
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGKILL))
    assert daemon.exit_code() == 128 + signal.SIGKILL


def test_a_deferred_program_starts_when_it_is_told_to_at_that_size(nursery: Nursery) -> None:
    daemon = nursery.start("a", "stty size", deferred=True)
    assert daemon.state["deferred"]
    assert daemon.state["pid"] == 0
    daemon.tell(FrameKind.START, RESIZE.pack(100, 30, 1))
    assert daemon.exit_code() == 0
    assert daemon.printed == b"30 100\r\n"


def test_a_program_that_was_never_started_can_be_dismissed(nursery: Nursery) -> None:
    daemon = nursery.start("a", "true", deferred=True)
    assert daemon.state["deferred"]
    daemon.tell(FrameKind.DISMISS)
    assert daemon.at_end()


def test_a_child_left_on_the_terminal_does_not_keep_the_session_alive(nursery: Nursery) -> None:
    daemon = nursery.start("a", "sleep 100 & echo parent gone; exit 5")
    assert daemon.exit_code() == 5
    assert b"parent gone" in daemon.printed


def test_the_exit_status_waits_for_a_daemon_and_then_nothing_is_left(nursery: Nursery) -> None:
    nursery.keep("a", ["sh", "-c", "exit 7"])
    daemon = nursery.connect_to("a")
    assert daemon.exit_code() == 7
    daemon.close()
    again = nursery.connect_to("a")
    assert again.exit_code() == 7
    again.tell(FrameKind.DISMISS)
    assert again.at_end()
    (pid,) = nursery.keepers
    wait_until_gone(pid)
    assert not (nursery.directory / "a.sock").exists()


def wait_until_gone(pid: int) -> None:
    for _ in range(2000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_unknown_and_broken_frames_do_no_harm(nursery: Nursery) -> None:
    daemon = nursery.start("a", "echo ready; read line; echo $line")
    daemon.until(lambda: b"ready" in daemon.printed)
    daemon.send(struct.pack(">IB", 5, 200) + b"what")
    daemon.tell(FrameKind.SET_KEYFRAME, KEYFRAME.pack(10**9, 0))
    assert daemon.at_end()
    again = nursery.connect_to("a")
    again.tell(FrameKind.INPUT, b"still here\n")
    assert again.exit_code() == 0
    assert b"still here" in again.printed


def test_the_program_has_the_terminal_as_its_own_and_the_given_environment(nursery: Nursery) -> None:
    ask = "tty; echo $TERM $PWD; ps -o tpgid= -p $$ | tr -d ' '; echo $$"
    daemon = nursery.start("a", f"test -t 0 && test -t 1 && test -t 2 && {{ {ask}; }}")
    assert daemon.exit_code() == 0
    terminal, environment, foreground, shell = daemon.printed.decode().split("\r\n")[:4]
    assert terminal.startswith("/dev/")
    assert environment == f"xterm-256color {nursery.directory}"
    assert foreground == shell


def test_the_program_starts_with_no_signal_ignored_or_blocked(nursery: Nursery) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc here that would tell")
    daemon = nursery.start("a", "grep -E '^Sig(Ign|Blk)' /proc/self/status")
    assert daemon.exit_code() == 0
    masks = [int(line.split()[1], 16) for line in daemon.printed.decode().splitlines()]
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0]  # the C library has those above for itself


def test_killing_the_nursery_harms_no_keeper(nursery: Nursery) -> None:
    daemon = nursery.start("a", "echo ready; read line; echo $line; exit 4")
    daemon.until(lambda: b"ready" in daemon.printed)
    nursery.process.kill()
    nursery.process.wait()
    daemon.tell(FrameKind.INPUT, b"alive\n")
    assert daemon.exit_code() == 4
    assert b"alive" in daemon.printed


def test_a_daemon_that_dies_is_started_again_and_one_that_says_goodbye_is_not(
    nursery: Nursery, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    os.mkfifo(trace)
    connection = nursery.connect()
    connection.write(b'{"daemon": ["sh", "-c", "echo started > ' + str(trace).encode() + b'"]}\n')
    connection.flush()
    assert b"pid" in connection.readline()
    connection.close()
    assert trace.read_text() == "started\n"
    assert nursery.ask({"bye": True}) == {"bye": True}
    assert nursery.process.wait(20) == 0


def test_a_second_nursery_at_the_same_place_leaves_the_first_alone(nursery: Nursery) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead.keeper.nursery", str(nursery.path)], timeout=20, check=False
    )
    assert done.returncode == 0
    assert "pid" in nursery.keep("a", ["true"])


def test_a_request_that_makes_no_sense_gets_an_error_and_the_nursery_lives(nursery: Nursery) -> None:
    assert nursery.ask({"dance": 1}) == {
        "error": "ValueError: expected keep, pipe, daemon, back, alive or bye"
    }
    assert "error" in nursery.ask({"keep": {}, "socket": str(nursery.directory / ("x" * 200))})
    assert "pid" in nursery.keep("a", ["true"])


def test_a_daemons_note_is_told_to_the_next_one(nursery: Nursery) -> None:
    daemon = nursery.start("a", "exec sleep 100")
    assert "note" not in daemon.state
    daemon.tell(FrameKind.SET_NOTE, b'{"recording": "/x", "more": [1]}')
    daemon.tell(FrameKind.SET_NOTE, b'{"long": "%s"}' % (b"x" * MAX_NOTE))  # which is ignored
    daemon.tell(FrameKind.RESIZE, RESIZE.pack(90, 30, 1))
    daemon.until_kind(FrameKind.RESIZED)
    daemon.close()
    assert nursery.connect_to("a").state["note"] == {"recording": "/x", "more": [1]}


def test_a_note_can_be_there_from_the_start(nursery: Nursery) -> None:
    daemon = nursery.start("a", "exec sleep 100", note={"recording": "/x"})
    assert daemon.state["note"] == {"recording": "/x"}


@pytest.mark.parametrize("note", [b"[]", b"{", b"\xff", b"[" * MAX_NOTE], ids=["list", "half", "bad", "deep"])
def test_a_daemon_whose_note_is_no_object_is_cut_off_and_the_note_stays(
    nursery: Nursery, note: bytes
) -> None:
    daemon = nursery.start("a", "exec sleep 100", note={"recording": "/x"})
    daemon.tell(FrameKind.SET_NOTE, note)
    assert daemon.at_end()
    assert nursery.connect_to("a").state["note"] == {"recording": "/x"}
