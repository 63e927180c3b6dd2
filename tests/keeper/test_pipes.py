"""A keeper of pipes: what a program says is kept until it is confirmed, and what it is told arrives once."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.base import LOCK
from fairlead.keeper.pipes import MAX_READS, STDERR_TAIL
from fairlead.keeper.protocol import MAX_BLOB, NUMBER, OFFSET, FrameKind, Stdin
from tests.hosting import is_alive
from tests.keeper.nurseries import WAIT, Nursery, PipeDaemon

ECHO = """
import sys
for number, line in enumerate(sys.stdin, 1):
    print(number, line.rstrip(), flush=True)
"""
SILENT = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(1000)"]
READ_AT_ONCE = MAX_READS * 65_536


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    directory = tmp_path / "pipes"  # the lock is one above, as in a runtime directory
    directory.mkdir()
    nursery = Nursery(directory)
    yield nursery
    nursery.close()


def echo(nursery: Nursery) -> PipeDaemon:
    return nursery.pipe("a", [sys.executable, "-c", ECHO])


def shell(nursery: Nursery, script: str, **more: int) -> PipeDaemon:
    return nursery.pipe("a", ["sh", "-c", script], **more)


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + WAIT
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


# --- the program --------------------------------------------------------------------------------------------


def test_a_program_has_three_pipes_a_session_of_its_own_and_no_terminal(nursery: Nursery) -> None:
    script = """
import os, stat, sys
print([stat.S_ISFIFO(os.fstat(each).st_mode) for each in (0, 1, 2)], os.getsid(0) == os.getpid())
files = sorted(os.listdir("/proc/self/fd"))
print(os.getcwd(), os.environ["WHO"], files)
try:
    open("/dev/tty")
except OSError:
    print("no terminal")
"""
    environment = {**os.environ, "WHO": "me"}
    daemon = nursery.pipe("a", [sys.executable, "-c", script], environment=environment)
    assert daemon.ended() == (0, 0)
    assert daemon.printed.decode().splitlines() == [
        "[True, True, True] True",
        f"{nursery.directory} me ['0', '1', '2', '3']",  # and the one that lists them
        "no terminal",
    ]


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 3", 3, 0), ("kill -TERM $$", 128 + signal.SIGTERM, signal.SIGTERM), ("exit 143", 143, 0)],
)
def test_an_end_tells_the_exit_code_and_whether_a_signal_did_it(
    nursery: Nursery, script: str, code: int, number: int
) -> None:
    assert shell(nursery, f"echo out; echo err >&2; {script}").ended() == (code, number)
    later = nursery.pipe_again("a")
    assert later.ended() == (code, number)
    assert later.printed == b"out\n"
    assert later.until_kind(FrameKind.STDERR) == b"err\n"


def test_a_command_that_cant_be_started_says_why(nursery: Nursery) -> None:
    daemon = nursery.pipe("a", ["no-such-program"])
    assert daemon.ended() == (127, 0)
    assert daemon.until_kind(FrameKind.FAILED) == b"can't start 'no-such-program': No such file or directory"


def test_a_deferred_program_is_started_when_a_daemon_says_so(nursery: Nursery) -> None:
    daemon = nursery.pipe("a", ["cat"], deferred=True)
    assert daemon.state["deferred"]
    daemon.write(1, b"early\n")
    daemon.tell(FrameKind.START)
    daemon.tell(FrameKind.CLOSE_STDIN)
    assert daemon.ended() == (0, 0)
    assert daemon.printed == b"early\n"


def test_one_that_was_never_started_can_be_dismissed(nursery: Nursery) -> None:
    daemon = nursery.pipe("a", ["cat"], deferred=True)
    daemon.tell(FrameKind.DISMISS)
    assert daemon.at_end()


def test_the_exit_status_waits_and_then_nothing_is_left(nursery: Nursery) -> None:
    first = shell(nursery, "exit 7")
    assert first.ended() == (7, 0)
    first.close()
    later = nursery.pipe_again("a")
    assert later.ended() == (7, 0)
    assert later.state["ended_for"] > 0
    later.tell(FrameKind.DISMISS)
    assert later.at_end()
    wait_until_gone(nursery.keepers[0])
    assert not (nursery.directory / "a.sock").exists()


def test_a_program_that_closes_its_output_and_goes_on_is_told_of(nursery: Nursery) -> None:
    daemon = shell(nursery, "echo last; exec >&-; read line; exit 4")
    daemon.until(lambda: (FrameKind.DATA, OFFSET.pack(5)) in daemon.frames)
    assert daemon.printed == b"last\n"
    daemon.write(1, b"go\n")
    assert daemon.ended() == (4, 0)


def test_children_that_hold_the_pipe_dont_keep_the_program_alive(nursery: Nursery) -> None:
    daemon = shell(nursery, "(trap '' HUP; echo child $$; exec sleep 1000) & sleep 0.1; echo done; exit 5")
    assert daemon.ended() == (5, 0)
    assert daemon.printed.endswith(b"done\n")


def test_children_of_the_same_group_are_hung_up_when_it_ends(nursery: Nursery) -> None:
    daemon = shell(nursery, "sleep 1000 & echo $!; exit 0")
    assert daemon.ended() == (0, 0)
    wait_until_gone(int(daemon.printed))


def test_children_that_flood_the_pipe_dont_put_off_the_end(nursery: Nursery) -> None:
    daemon = shell(nursery, "(trap '' HUP; exec yes) & sleep 0.1; exit 6", on_disk=0)
    while not any(kind == FrameKind.EXITED for kind, _ in daemon.frames):
        daemon.confirm(len(daemon.printed), b"")
        daemon.until_more()
    assert daemon.ended() == (6, 0)


def test_a_signal_reaches_the_whole_group(nursery: Nursery) -> None:
    daemon = shell(nursery, "trap '' TERM; sleep 1000 & echo $!; wait; wait; echo still here; sleep 1000")
    daemon.until(lambda: daemon.printed.endswith(b"\n"))
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGTERM))
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGKILL))
    assert daemon.ended() == (128 + signal.SIGKILL, signal.SIGKILL)
    wait_until_gone(int(daemon.printed.split()[0]))


# --- what it prints -----------------------------------------------------------------------------------------


def test_the_next_daemon_gets_the_last_blob_and_all_since(nursery: Nursery) -> None:
    first = echo(nursery)
    first.write(1, b"one\n")
    first.write(2, b"two\n")
    first.until(lambda: first.printed == b"1 one\n2 two\n")
    first.confirm(3, b"a state")
    first.confirm(6, b"\x00 the newest state \xff")
    first.write(3, b"three\n")
    first.until(lambda: first.printed.endswith(b"three\n"))
    first.close()
    second = nursery.pipe_again("a")
    second.until(lambda: second.printed == b"2 two\n3 three\n")
    assert second.until_kind(FrameKind.CONFIRMED) == OFFSET.pack(6) + b"\x00 the newest state \xff"
    assert (second.state["offset"], second.state["accepted"]) == (6, 3)
    second.write(4, b"four\n")
    second.until(lambda: second.printed.endswith(b"4 four\n"))


def test_what_is_printed_without_a_daemon_goes_to_disk_and_is_given_to_the_next(nursery: Nursery) -> None:
    size = 4_000_000
    script = f"import sys; sys.stdout.write(''.join(f'{{n:09}}\\n' for n in range({size // 10})))"
    daemon = nursery.pipe("a", [sys.executable, "-c", script], deferred=True, in_memory=65_536)
    daemon.tell(FrameKind.START)
    daemon.until_kind(FrameKind.STARTED)
    daemon.close()
    (keeper,) = nursery.keepers
    later = nursery.pipe_again("a")
    assert later.ended() == (0, 0)
    assert later.printed == b"".join(b"%09d\n" % number for number in range(size // 10))
    if os.path.exists(f"/proc/{keeper}/fd"):
        assert " (deleted)" in "".join(map(os.readlink, Path(f"/proc/{keeper}/fd").glob("*")))
    later.confirm(size, b"")
    later.tell(FrameKind.DISMISS)
    assert later.at_end()
    assert list(nursery.directory.glob("*.spill")) == []


def test_when_disk_and_memory_are_full_the_program_waits_and_nothing_is_lost(nursery: Nursery) -> None:
    size, memory, disk = 3_000_000, 65_536, 500_000
    daemon = shell(nursery, f"head -c {size} /dev/zero | tr '\\0' x", in_memory=memory, on_disk=disk)
    with pytest.raises(TimeoutError):
        daemon.until_silent()
    assert memory + disk <= len(daemon.printed) <= memory + disk + READ_AT_ONCE
    while not any(kind == FrameKind.EXITED for kind, _ in daemon.frames):
        daemon.confirm(len(daemon.printed), b"")
        daemon.until_more()
    assert daemon.printed == b"x" * size
    assert daemon.ended() == (0, 0)


def test_a_flood_without_a_newline_costs_the_keeper_no_memory(nursery: Nursery) -> None:
    size = 100_000_000
    daemon = shell(nursery, f"head -c {size} /dev/zero")
    (keeper,) = nursery.keepers
    received = 0
    while not any(kind == FrameKind.EXITED for kind, _ in daemon.frames):
        daemon.frames.clear()
        daemon.until(lambda: bool(daemon.frames))
        received += sum(
            len(payload) - OFFSET.size for kind, payload in daemon.frames if kind == FrameKind.DATA
        )
    assert received == size
    if os.path.exists(f"/proc/{keeper}/smaps_rollup"):
        assert private_kilobytes(keeper) < 4096


def private_kilobytes(pid: int) -> int:
    found = re.findall(r"^Private_\w+:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return sum(map(int, found))


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="only Linux tells private memory")
def test_a_keeper_of_pipes_is_cheap(nursery: Nursery) -> None:
    daemon = echo(nursery)
    for number in range(1, 501):
        daemon.write(number, b"a line of some length\n" * 5)
        daemon.until_accepted(number)
    daemon.until(lambda: daemon.printed.count(b"\n") == 2500)
    daemon.confirm(len(daemon.printed), b"x" * 1000)
    assert private_kilobytes(nursery.keepers[0]) < 2400


@pytest.mark.parametrize("offset", [-1, 10])
def test_what_cant_be_confirmed_ends_the_connection_and_changes_nothing(
    nursery: Nursery, offset: int
) -> None:
    daemon = shell(nursery, "printf 0123; exec sleep 1000")
    daemon.until(lambda: daemon.printed == b"0123")
    daemon.confirm(2, b"state")
    daemon.tell(FrameKind.CONFIRM, OFFSET.pack(offset % (1 << 64)), b"bad")
    assert daemon.at_end()
    later = nursery.pipe_again("a")
    later.until(lambda: later.printed == b"23")
    assert later.until_kind(FrameKind.CONFIRMED) == OFFSET.pack(2) + b"state"
    later.confirm(2, b"x" * (MAX_BLOB + 1))
    assert later.at_end()


def test_of_the_standard_error_the_end_is_kept_and_told_when_asked_for(nursery: Nursery) -> None:
    daemon = shell(nursery, "head -c 1000000 /dev/zero >&2; echo the end >&2; echo ready; exec sleep 1000")
    daemon.until(lambda: daemon.printed == b"ready\n")
    for _ in range(3):  # it may not have read all of it when the first answer is made
        daemon.frames = [each for each in daemon.frames if each[0] != FrameKind.STDERR]
        daemon.tell(FrameKind.ASK_STDERR)
        errors = daemon.until_kind(FrameKind.STDERR)
    assert errors == bytes(STDERR_TAIL - 8) + b"the end\n"


# --- what it is told ----------------------------------------------------------------------------------------


def test_a_line_with_a_number_that_was_accepted_is_answered_and_not_written(nursery: Nursery) -> None:
    daemon = echo(nursery)
    daemon.write(1, b"one\n")
    daemon.write(1, b"one again\n")
    daemon.write(2, b"two\n")
    daemon.until(lambda: b"2 two\n" in daemon.printed)
    daemon.close()
    later = nursery.pipe_again("a")
    assert later.state["accepted"] == 2
    later.write(2, b"two again\n")
    later.write(3, b"three\n")
    later.until(lambda: b"three\n" in later.printed)
    later.until_accepted(3)
    assert later.printed == b"1 one\n2 two\n3 three\n"
    assert [number for number, _, _ in later.answers] == [2, 3]


def test_a_line_whose_number_leaves_a_gap_is_refused(nursery: Nursery) -> None:
    daemon = echo(nursery)
    daemon.write(2, b"two\n")
    daemon.until_stdin(Stdin.FULL)
    assert daemon.answers == [(0, 0, Stdin.FULL)]
    daemon.write(1, b"one\n")
    daemon.until(lambda: daemon.printed == b"1 one\n")


def test_a_program_that_never_reads_is_given_so_much_and_then_it_is_full(nursery: Nursery) -> None:
    limit = 200_000
    daemon = nursery.pipe("a", SILENT, input_queue=limit)
    line = b"x" * 9_999 + b"\n"
    for number in range(1, 41):
        daemon.write(number, line)
    daemon.until(lambda: len(daemon.answers) == 40)
    accepted, waiting, state = daemon.answers[-1]
    assert accepted < 40
    assert limit <= waiting < limit + len(line)
    assert state == Stdin.FULL
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGKILL))
    assert daemon.ended()[1] == signal.SIGKILL


def test_when_a_program_reads_again_the_daemon_is_told_and_each_line_arrives_once(nursery: Nursery) -> None:
    count, width = 40, 10_000
    script = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
lines = [sys.stdin.readline() for _ in range({count})]
print([int(line[-9:]) for line in lines] == list(range(1, {count} + 1)), flush=True)
"""
    daemon = nursery.pipe("a", [sys.executable, "-c", script], input_queue=100_000)
    lines = {number: b"%0*d\n" % (width, number) for number in range(1, count + 1)}
    for number, line in lines.items():
        daemon.write(number, line)
    daemon.until(lambda: len(daemon.answers) == count)
    assert daemon.answers[-1][2] == Stdin.FULL
    daemon.until(lambda: daemon.printed == b"ready\n")
    daemon.tell(FrameKind.SIGNAL, NUMBER.pack(signal.SIGUSR1))
    while (accepted := daemon.answers[-1][0]) < count:
        if daemon.answers[-1][2] == Stdin.OPEN:
            daemon.write(accepted + 1, lines[accepted + 1])
        daemon.until_more()
    assert daemon.ended() == (0, 0)
    assert daemon.printed == b"ready\nTrue\n"


def test_a_long_line_passes_whole(nursery: Nursery) -> None:
    size = 20_000_000
    daemon = nursery.pipe("a", [sys.executable, "-c", "import sys; print(len(sys.stdin.readline()))"])
    daemon.write(1, b"x" * size + b"\n")
    assert daemon.ended() == (0, 0)
    assert daemon.printed == b"%d\n" % (size + 1)


def test_closing_the_input_comes_after_all_that_was_accepted(nursery: Nursery) -> None:
    daemon = nursery.pipe("a", [sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"])
    daemon.write(1, b"x" * 500_000)
    daemon.tell(FrameKind.CLOSE_STDIN)
    daemon.write(2, b"too late")
    daemon.until_stdin(Stdin.CLOSED)
    assert daemon.ended() == (0, 0)
    assert daemon.printed == b"500000\n"
    assert daemon.answers[-1][0] == 1


def test_a_program_that_closed_its_input_is_told_of(nursery: Nursery) -> None:
    daemon = shell(nursery, "exec <&-; echo ready; exec sleep 1000")
    daemon.until(lambda: daemon.printed == b"ready\n")
    daemon.write(1, b"nobody\n")
    daemon.until_stdin(Stdin.GONE)
    daemon.write(2, b"nobody\n")
    daemon.until(lambda: len(daemon.answers) >= 3)
    assert daemon.answers[-1] == (1, 0, Stdin.GONE)
    assert nursery.pipe_again("a").state["stdin"] == Stdin.GONE


# --- its daemons --------------------------------------------------------------------------------------------


def test_only_one_that_holds_the_lock_takes_the_daemons_place(nursery: Nursery) -> None:
    daemon = echo(nursery)
    assert daemon.state["id"] == "a"
    lock = nursery.directory.parent / LOCK
    lock.write_text("1\n")
    assert nursery.pipe_again("a").at_end()
    daemon.write(1, b"one\n")
    daemon.until(lambda: daemon.printed == b"1 one\n")
    lock.write_text(f"{os.getpid()}\n")
    later = nursery.pipe_again("a")
    later.until(lambda: later.printed == b"1 one\n")
    assert daemon.at_end()


def test_unknown_and_broken_frames_do_no_harm(nursery: Nursery) -> None:
    daemon = echo(nursery)
    daemon.send(b"\x00\x00\x00\x05\xc8what")
    daemon.tell(FrameKind.RESIZE, b"what a PTY keeper would take")
    daemon.tell(FrameKind.WRITE, b"short")
    assert daemon.at_end()
    later = nursery.pipe_again("a")
    later.write(1, b"still here\n")
    later.until(lambda: later.printed == b"1 still here\n")


def test_a_nursery_says_that_it_knows_pipes(nursery: Nursery) -> None:
    assert nursery.ask({"back": True})["pipes"] is True
