"""`fairlead attach` on a real terminal: whatever comes, output goes on, leaving works, all is given back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.ui.attach import UNREAD
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ECHO = "echo ready; while read line; do echo got $line; done"


# --- leaving -----------------------------------------------------------------------------------------------


def test_what_was_typed_right_before_leaving_still_gets_through(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.press(b"last words\r")
        assert person.leave() == 0
        assert "detached from work; `fairlead attach work` reattaches" in person.text
    hosting.wait_text("work", "got last words")


def test_a_pasted_text_with_the_keys_for_leaving_in_it_goes_to_the_program(hosting: Hosting) -> None:
    hosting.start("work", r"printf '\033[?2004h'; " + ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.type(b"\x1b[200~a,b,,,d\x1b[201~\r")
        person.until("a,b,,,d")
        assert person.leave() == 0


def test_leaving_and_output_work_while_the_program_takes_no_input(hosting: Hosting, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hosting.start("work", f"stty raw -echo; echo ready; read x < {gate}; echo more; exec sleep 1000")
    with Person(hosting) as person:
        person.until("ready")
        person.type(b"x" * 3_000_000)
        gate.write_text("go\n")
        person.until("more")
        assert person.leave() == 0
    hosting.run("stop", "work")


def test_not_a_byte_of_a_long_paste_is_lost_when_the_program_reads_slowly(
    hosting: Hosting, tmp_path: Path
) -> None:
    gate, size = tmp_path / "gate", 3_000_000
    os.mkfifo(gate)
    hosting.start("work", f"stty raw -echo; echo ready; read x < {gate}; head -c {size} | cksum; read line")
    pasted = b"".join(b"%07d\n" % number for number in range(size // 8))
    with Person(hosting) as person:
        person.until("ready")
        person.type(pasted)  # all of it, though the program has not read a byte
        gate.write_text("go\n")
        summed = subprocess.run(["cksum"], input=pasted, capture_output=True, check=True).stdout.decode()
        person.until(summed.strip())
        assert person.leave() == 0


def test_keys_go_through_and_leaving_works_while_the_terminal_takes_no_output(
    hosting: Hosting, tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    hosting.start("work", f"read x; seq 1 1000000 & read line; echo $line > {typed}; wait; read x")
    with Person(hosting) as person:
        hosting.until(lambda: hosting.sessions()["work"]["clients"] == 1)
        os.write(person.ours, b"\r")
        hosting.wait_text("work", "1000000")  # which nobody has read at this terminal
        os.write(person.ours, b"hello\r")
        hosting.until(lambda: typed.exists() and typed.read_text() == "hello\n")
        assert not fcntl.fcntl(person.theirs, fcntl.F_GETFL) & os.O_NONBLOCK
        person.press(b"\x1c")
        assert person.client.wait(WAIT) == 0
        assert termios.tcgetattr(person.theirs) == person.before


def test_a_terminal_that_was_slow_shows_the_right_screen_in_the_end(hosting: Hosting) -> None:
    hosting.start("work", "read x; seq 1 1500000; echo end; read x")
    with Person(hosting) as person:
        hosting.until(lambda: hosting.sessions()["work"]["clients"] == 1)
        os.write(person.ours, b"\r")
        hosting.wait_text("work", "end")
        person.until("end")
        assert person.screen.text() == hosting.screen("work").rstrip("\n")


# --- the keys for leaving ----------------------------------------------------------------------------------

RAW = "stty raw -echo; echo ready; exec cat -v"


def test_a_paste_without_brackets_that_has_the_keys_for_leaving_goes_to_the_program_whole(
    hosting: Hosting,
) -> None:
    hosting.start("work", RAW)
    pasted = b"echo a,,,d\rtouch x\x1c\r,,,d"
    with Person(hosting) as person:
        person.until("ready")
        person.press(pasted)
        person.until("echo a,,,d^Mtouch x^\\^M,,,d")
        assert person.leave() == 0


def test_keys_pressed_one_by_one_leave_and_the_program_sees_nothing_of_them(hosting: Hosting) -> None:
    hosting.start("work", RAW)
    with Person(hosting) as person:
        person.until("ready")
        person.press(b"a")
        for _ in range(10):  # a machine under load may be too slow for a press to count
            person.press(b",", b",", b",", b"d")
            with contextlib.suppress(AssertionError):
                assert person.exit_code(patience=2) == 0
                break
            person.press(b"|")
        assert person.client.wait(WAIT) == 0
    hosting.run("send", "work", "END")
    hosting.wait_text("work", "END")
    assert hosting.screen("work").rpartition("|")[2].split() in (["END"], ["ready", "aEND"])


def test_a_control_key_pressed_twice_is_sent_once(hosting: Hosting) -> None:
    hosting.start("work", RAW)
    with Person(hosting, escape="ctrl-q or ctrl-a d") as person:
        person.until("ready")
        person.press(b"\x01", b"\x01", b"x")
        person.until("^Ax")
        person.press(b"\x1c,,,d")  # which are not set
        person.until("^Ax^\\,,,d")
        for _ in range(10):
            person.press(b"\x01", b"d")
            with contextlib.suppress(AssertionError):
                assert person.exit_code(patience=2) == 0
                break
        assert person.client.wait(WAIT) == 0


@pytest.mark.parametrize(
    ("escape", "fault"),
    [
        ("d", "is a plain key, which could then not be typed; use ctrl-KEY or several keys"),
        ("ctrl-m", "has 'ctrl-m', which is the Enter key in a terminal"),
        ("ctrl-a or ctrl-a d", "has 'ctrl-a', which is a prefix of 'ctrl-a d', so 'ctrl-a d' can't be typed"),
    ],
)
def test_an_escape_that_can_not_be_is_refused_with_a_sentence(
    hosting: Hosting, escape: str, fault: str
) -> None:
    hosting.start("work", ECHO)
    with Person(hosting, escape=escape) as person:
        assert person.exit_code() == 1
        assert person.seen.decode() == f"fairlead attach: [attach] escape {escape!r} {fault}\r\n"


def test_what_still_arrives_when_the_terminal_is_given_back_does_not_reach_the_shell() -> None:
    ours, theirs = pty.openpty()
    code = (
        "import sys; from fairlead.ui.own_terminal import OwnTerminal\n"
        "with OwnTerminal(): print('raw', file=sys.stderr, flush=True); open(sys.argv[1]).read()"
    )
    read, write = os.pipe()
    client = subprocess.Popen(
        [sys.executable, "-c", code, f"/dev/fd/{read}"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        pass_fds=[read],
    )
    os.close(read)
    assert client.stderr is not None
    assert client.stderr.readline() == b"raw\n"
    os.write(ours, b"rm -r x\n" * 100)
    while fcntl.ioctl(theirs, termios.FIONREAD, b"\0" * 4) == b"\0" * 4:
        assert client.poll() is None
    os.close(write)
    assert client.wait(WAIT) == 0
    assert fcntl.ioctl(theirs, termios.FIONREAD, b"\0" * 4) == b"\0" * 4
    client.stderr.close()
    for descriptor in (ours, theirs):
        os.close(descriptor)


# --- the person's own screen -------------------------------------------------------------------------------

MINE = b"".join(b"mine %d\r\n" % number for number in range(100)) + b"$ fairlead attach work\r\n"


def test_everything_of_the_persons_terminal_is_there_again_after_leaving(hosting: Hosting) -> None:
    hosting.start("work", r"seq 1 100; printf '\033c\033[3Jreset\033[?1049halt\033[?1049lback\n'; read x")
    with Person(hosting, before=MINE) as person:
        mine = person.text
        person.until("back")
        person.until_all(["reset", "back"])
        assert person.screen.alternate
        assert "mine" not in person.screen.text()
        assert b"\x1bc" not in person.seen
        assert person.leave() == 0
        assert person.text.startswith(mine)
        assert (
            person.text.removeprefix(mine).strip() == "detached from work; `fairlead attach work` reattaches"
        )


@pytest.mark.parametrize("size", [(80, 20), (60, 24), (100, 30), (40, 10)])
def test_a_program_that_does_not_draw_anew_is_shown_right_at_any_size(
    hosting: Hosting, size: tuple[int, int]
) -> None:
    hosting.run(
        *("start", "work", "-d", "--cols", "80", "--rows", "24", "--", "sh", "-c"),
        r"printf 'one\ntwo: a line that is somewhat longer than forty columns are\nthree'; sleep 1000",
    )
    with Person(hosting, cols=size[0], rows=size[1]) as person:
        person.until_screen(hosting, "work")
        person.resize(75, 12)
        person.until_again(b"three")
        person.until_screen(hosting, "work")
        assert person.screen.text().startswith("one\n")


def test_a_reset_and_an_erased_scrollback_do_not_touch_the_persons_while_attached(hosting: Hosting) -> None:
    hosting.start("work", r"echo ready; read x; printf '\033[3J\033\nc\033[03Jdone'; read x")
    with Person(hosting, before=MINE) as person:
        mine = person.text
        person.until("ready")
        person.type(b"\r")
        person.until("done")
        assert "ready" not in person.screen.text()
        assert person.leave() == 0
        assert person.text.startswith(mine)


def test_the_screen_before_an_editor_is_shown_again_after_it(hosting: Hosting) -> None:
    editor = (
        r"printf '\033[?25;1049h\033[H\033[44mediting\033[?2004h'; read x; printf '\033[?2004l\033[?1049l'"
    )
    hosting.start("work", rf"seq 1 30; printf '\033[31mred\033[0m\n'; read x; {editor}; echo after; read x")
    with Person(hosting) as person:
        person.until("red")
        person.type(b"\r")
        person.until("editing")
        assert "red" not in person.screen.text()
        person.type(b"\r")
        person.until_all(["red", "after"])
        person.until_screen(hosting, "work")
        assert person.leave() == 0


def test_on_the_main_screen_the_sessions_lines_are_in_the_scrollback_after_the_persons(
    hosting: Hosting,
) -> None:
    hosting.start("work", "seq 1 100; echo end; read x")
    with Person(hosting, before=MINE, screen="main", hint="true") as person:
        person.until("end")
        assert not person.screen.alternate
        lines = person.text.split("\n")
        first = lines.index("[attached to work; ctrl-\\ or ,,,d detaches]")
        assert [line for line in lines[:first] if line][-2:] == ["mine 99", "$ fairlead attach work"]
        assert [line for line in lines[first + 1 :] if line] == [*map(str, range(1, 101)), "end"]
        assert person.leave() == 0
        assert "mine 0\n" in person.text


def test_the_name_and_the_way_out_are_shown_until_a_key_is_pressed(hosting: Hosting) -> None:
    hosting.start("work", "seq 1 50; echo ready; while read line; do echo got $line; done")
    with Person(hosting, hint="true") as person:
        person.until_all(["ready", "attached to work; ctrl-\\ or ,,,d detaches"])
        person.type(b"x\r")
        person.until("got x")
        person.until_screen(hosting, "work")
        assert person.leave() == 0


# --- what is given back ------------------------------------------------------------------------------------

MODES = (
    r"\033[>1u\033[?1049hmarked"
    r"\033[?1;5;6;9;66;69;1000;1002;1003;1004;1006;1016;2004;2031h\033[4h\033[20h\033[?7l\033[?25l"
    r"\033[5;10r\033[3;40s\033=\033[>4;2m\033[>31u\033[5 q\033(0\033[31m"
    r"\033]4;1;rgb:01/02/03\007\033]10;rgb:01/02/03\007\033]11;rgb:01/02/03\007\033]12;rgb:01/02/03\007"
    r"\033]8;;http://here/\007\033[3g\033]22;wait\007"
)


def check_given_back(person: Person) -> None:
    with Screen(80, 24) as fresh:
        ours, usual = person.screen._frame(), fresh._frame()
    assert person.screen.modes == fresh_modes()
    assert not person.screen.alternate
    assert ours.terminal.modes == usual.terminal.modes
    for name in (
        "palette", "foreground", "background", "cursor_color", "top", "bottom", "left", "right", "tabs",
        "modify_other_keys", "mouse_event", "mouse_format", "mouse_shape", "default_cursor", "status_line",
    ):  # fmt: skip
        assert getattr(ours.terminal, name) == getattr(usual.terminal, name), name
    for name in ("pen", "link", "shape", "protected"):
        assert getattr(ours.active, name) == getattr(usual.active, name), name
    assert ours.active.charset >> 8 == usual.active.charset >> 8
    assert not ours.active.charset & 0b10101010  # each of the four sets is ASCII, said or unsaid
    assert not any(any(screen.keyboard) for screen in ours.screens)
    assert termios.tcgetattr(person.theirs) == person.before


def fresh_modes() -> object:
    with Screen(80, 24) as fresh:
        return fresh.modes


@pytest.mark.parametrize("held", ["", r"\033[?2026h", r"\033]2;an unfinished title"])
def test_every_mode_that_the_session_turned_on_is_taken_back_when_the_person_leaves(
    hosting: Hosting, held: str
) -> None:
    hosting.start("work", f"echo ready; read x; printf '{MODES}{held}'; read x")
    with Person(hosting) as person:
        person.until("ready")
        person.type(b"\r")
        person.until_again(b"marked")
        assert person.leave() == 0
        check_given_back(person)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_everything_is_given_back_when_a_signal_ends_the_client(
    hosting: Hosting, number: signal.Signals
) -> None:
    hosting.start("work", f"printf '{MODES}'; read x")
    with Person(hosting) as person:
        person.until("marked")
        person.client.send_signal(number)
        assert person.exit_code() == 128 + number
        check_given_back(person)
    assert hosting.sessions()["work"]["state"] == "running"


def test_everything_is_given_back_when_the_program_ends(hosting: Hosting) -> None:
    hosting.start("work", f"printf '{MODES}'; read x; exit 5")
    with Person(hosting) as person:
        person.until("marked")
        person.type(b"\r\n")
        assert person.exit_code() == 5
        check_given_back(person)
        assert "session work ended with 5" in person.text


def test_a_window_that_is_closed_ends_the_client_and_not_the_session(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.hang_up()
        assert person.client.wait(WAIT) == 128 + signal.SIGHUP
    assert hosting.sessions()["work"]["state"] == "running"


def test_suspending_is_for_the_program_and_a_client_that_was_stopped_draws_again(hosting: Hosting) -> None:
    hosting.start("work", "stty raw -echo; echo ready; head -c 1 | od -An -c; stty sane; echo sane; " + ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.type(b"\x1a")
        person.until_all(["032", "sane"])
        person.client.send_signal(signal.SIGSTOP)
        termios.tcsetattr(person.theirs, termios.TCSANOW, person.before)  # as a shell does
        person.client.send_signal(signal.SIGCONT)
        person.until_again(b"sane")
        person.type(b"on\r")
        person.until("got on")
        assert person.leave() == 0


# --- the daemon dies ---------------------------------------------------------------------------------------


def test_the_screen_is_right_after_the_daemon_died(hosting: Hosting) -> None:
    paint = r"printf '\033[2J\033[3;5H\033[44mblue\033[0m\033[10;1Hten\033[?25l'; "
    hosting.start("work", f"seq 1 50; {paint} read x; printf 'after'; read x")
    with Person(hosting) as person:
        person.until("ten")
        person.screen.feed(b"\x1b[20;20Hgarbage")  # which a redraw must leave nothing of
        hosting.kill_daemon()
        person.until_again(b"ten")
        person.type(b"\r")
        person.until("after")
        assert person.screen.text() == hosting.screen("work").rstrip("\n")
        assert not person.screen.cursor.visible


def test_keys_and_a_size_that_come_while_there_is_no_daemon_are_not_lost(hosting: Hosting) -> None:
    hosting.start("work", "echo ready; while read line; do echo got $line; stty size; done")
    with Person(hosting) as person:
        person.until("ready")
        hosting.run("daemon", "stop")
        person.resize(93, 31)
        person.type(b"meanwhile\r")
        hosting.run("ls")  # starts the next one
        person.until_all(["got meanwhile", "31 93"])
        assert person.leave() == 0


def typed_before(person: Person, *lines: str) -> None:
    """Type some lines, each when the one before was echoed: by then all that was sent has been typed."""
    for line in lines:
        person.type(f"{line}\r".encode())
        person.until(f"got {line}")


def test_keys_reach_the_program_at_once_while_the_daemon_is_dead_or_hangs(
    hosting: Hosting, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    hosting.start("work", f"echo ready; while read line; do echo $line >>{taken}; echo got $line; done")
    with Person(hosting) as person:
        person.until("ready")
        typed_before(person, "one", "two", "three")
        daemon = hosting.daemon_pid()
        os.kill(daemon, signal.SIGSTOP)
        try:
            person.type(b"hung\r")
            hosting.until(lambda: "hung" in taken.read_text())
        finally:
            os.kill(daemon, signal.SIGCONT)
        person.until("got hung")
        for number in range(5):
            typed_before(person, f"a{number}", f"b{number}")
            hosting.kill_daemon()
            person.type(f"dead{number}\r".encode())
            person.until(f"got dead{number}")
        assert person.leave() == 0
    lines = [f"{word}{number}" for number in range(5) for word in ("a", "b", "dead")]
    assert taken.read_text().split() == ["one", "two", "three", "hung", *lines]


@pytest.mark.parametrize("is_dead", [False, True], ids=["daemon", "no daemon"])
def test_keys_never_overtake_a_paste_that_the_program_has_not_read(
    hosting: Hosting, tmp_path: Path, is_dead: bool
) -> None:
    taken = tmp_path / "taken"
    reader = "import os, sys, time, tty; tty.setraw(0); print('ready', flush=True)\n"
    reader += "while d := os.read(0, 500): os.write(3, d); time.sleep(0.001)"
    hosting.start("work", f'exec python3 -c "{reader}" 3>{taken}')
    pasted = b"".join(b"%06d " % number for number in range(20_000))
    with Person(hosting) as person:
        person.until("ready")
        person.press(b"a")
        hosting.until(lambda: taken.read_bytes() == b"a")
        person.press(b"b")
        hosting.until(lambda: taken.read_bytes() == b"ab")
        if is_dead:
            hosting.run("daemon", "stop")
        person.type(pasted)
        person.press(b"k", b"e", b"y")
        hosting.run("ls")  # starts the next one
        hosting.until(lambda: taken.stat().st_size >= len(pasted) + 5)
        assert person.leave() == 0
    assert taken.read_bytes() == b"ab" + pasted + b"key"


def test_leaving_works_while_there_is_no_daemon(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        hosting.run("daemon", "stop")
        assert person.leave() == 0


def test_a_program_that_ended_meanwhile_is_shown_with_its_code(hosting: Hosting, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hosting.start("work", f"echo ready; read x < {gate}; echo over; exit 9")
    with Person(hosting) as person:
        person.until("ready")
        os.kill(pid := hosting.daemon_pid(), signal.SIGSTOP)
        gate.write_text("go\n")
        os.kill(pid, signal.SIGKILL)
        assert person.exit_code() == 9
        assert "over" in person.text


# --- with others -------------------------------------------------------------------------------------------


def test_a_writer_that_was_taken_over_still_sees_everything(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as first:
        first.until("ready")
        with Person(hosting) as second:
            second.until("ready")
            first.until("has taken over")
            second.type(b"from the second\r")
            first.until("got from the second")
            assert first.leave() == second.leave() == 0


def test_a_writer_that_was_taken_over_is_told_by_whom_and_takes_it_back(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as first:
        first.until("ready")
        with Person(hosting) as second:
            second.until("ready")
            terminal = os.ttyname(second.theirs).removeprefix("/dev/")
            who = f"fairlead attach, pid {second.client.pid} on {terminal}"
            assert hosting.ask("session_find", session_id="work")["session"]["writer"] == who
            with Person(hosting, "attach", "-w", "work") as third:
                third.until(f"{who} writes here")
                assert third.leave() == 0
            first.until(f"{who} has taken over; Enter takes over")  # the rest may have no room
            first.press(b"not for the program, quite ")  # nor is its q for us
            time.sleep(UNREAD)  # in which nobody has read it
            first.press(b"\r")
            second.until(f"pid {first.client.pid} on")
            first.press(b"mine again\r")
            first.until("got mine again")
            first.until_screen(hosting, "work")
            assert first.leave() == 0
            second.until("the writer of work has left")
            assert second.leave() == 0


# --- sessions in sessions ----------------------------------------------------------------------------------


def test_who_comes_back_is_what_it_was_and_takes_nothing_over(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as first:
        first.until("ready")
        with Person(hosting) as second:
            second.until("ready")
            first.until("has taken over")
            for number in range(4):
                if number:
                    hosting.kill_daemon()
                else:
                    os.kill(first.client.pid, signal.SIGCONT)
                hosting.until(lambda: hosting.sessions()["work"]["clients"] == 2)
                first.type(b"mine")
                second.type(f"line{number}\r".encode())
                second.until(f"got line{number}")
            assert "mine" not in hosting.screen("work")
            assert second.leave() == 0


def test_a_client_that_was_stopped_is_in_no_other_session_of_the_same_name_then(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        typed_before(person, "one", "two")
        os.kill(person.client.pid, signal.SIGSTOP)
        try:
            hosting.run("stop", "work")
            hosting.start("work", ECHO)
            os.write(person.ours, b"for the old one\r")
        finally:
            os.kill(person.client.pid, signal.SIGCONT)
        assert person.exit_code() != 0
    hosting.run("send", "work", "for the new one", "-k", "Enter")
    hosting.wait_text("work", "got for the new one")
    assert "old" not in hosting.screen("work")


def test_keys_of_a_client_that_was_frozen_while_another_took_over_are_dropped(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as first:
        first.until("ready")
        typed_before(first, "one", "two")
        os.kill(first.client.pid, signal.SIGSTOP)
        try:
            with Person(hosting) as second:
                second.until("got two")
                typed_before(second, "three")
                os.write(first.ours, b"evil\r")
                os.kill(first.client.pid, signal.SIGCONT)
                first.until("has taken over")
                typed_before(second, "four")
                assert "evil" not in hosting.screen("work")
        finally:
            os.kill(first.client.pid, signal.SIGCONT)


def test_a_session_is_not_attached_in_itself(hosting: Hosting) -> None:
    fairlead = f"{sys.executable} -m fairlead"
    hosting.start(
        "work", f"{fairlead} attach work; env -u FAIRLEAD_SESSION {fairlead} attach work; echo $?; read x"
    )
    with Person(hosting, cols=120) as person:
        person.until_all(["fairlead attach: can't attach to session 'work' from within itself", "1"])
        assert person.leave() == 0


def test_a_loop_of_sessions_is_refused_also_when_only_the_environment_tells(hosting: Hosting) -> None:
    fairlead = f"{sys.executable} -m fairlead"
    hosting.start("a", "echo in a; read x", "--cols", "150")
    hosting.start("b", f"sleep 0; {fairlead} attach a", "--cols", "150")
    hosting.start("c", f"sleep 0; {fairlead} attach b", "--cols", "150")
    hosting.until(lambda: [hosting.sessions()[name]["clients"] for name in "ab"] == [1, 1])
    hosting.environment["FAIRLEAD_SESSION"] = "a"
    try:
        for name, reason in (
            ("c", "can't attach: session 'c' already shows this terminal, through 'a'"),
            ("a", "can't attach to session 'a' from within itself"),
        ):
            with Person(hosting, "attach", name, cols=150) as person:
                assert person.exit_code() == 1
                hint = "; if this terminal is not in it, unset FAIRLEAD_SESSION"
                assert person.seen.decode().strip() == f"fairlead attach: {reason}{hint}"
    finally:
        del hosting.environment["FAIRLEAD_SESSION"]
    with Person(hosting, "attach", "c", cols=150) as person:
        person.until("in a")
        assert person.leave() == 0


# --- those who look ----------------------------------------------------------------------------------------


def test_a_watcher_with_a_smaller_terminal_sees_a_part_and_moves_it(hosting: Hosting) -> None:
    wide = "abcdefghij" * 12
    rows = f"for i in $(seq 1 39); do echo $i-{wide}; done | cut -c 1-119"
    script = rf"stty -echo; {rows}; printf '\033[31mprompt'; read x; echo changed; read x"
    hosting.start("work", script, "--cols", "120", "--rows", "40")
    with Person(hosting, "attach", "-w", "work", cols=100, rows=24) as person:
        person.until_all(["prompt", "showing 100×23 at column 1, row 18"])
        assert person.screen.text().split("\n")[:22] == [f"{i}-{wide}"[:100] for i in range(18, 40)]
        person.press(b"l")
        person.until("at column 9, row 18")
        assert person.screen.text().split("\n")[0] == f"18-{wide}"[8:108]
        person.press(b"\x1b[A")
        person.until("at column 9, row 14")
        person.press(b"f")
        person.until("at column 1, row 18")
        hosting.run("send", "work", "-k", "Enter")
        person.until("changed")
        person.resize(120, 40)
        person.until_screen(hosting, "work")
        person.resize(50, 12)
        person.until("session is 120×40")
        assert person.leave(b"q") == 0
    row = hosting.sessions()["work"]
    assert (row["cols"], row["rows"]) == (120, 40)


@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x1b[113u", b"\x1b[99;5u", b"xq"])
def test_a_watcher_leaves_with_q_and_control_c_in_every_encoding(hosting: Hosting, key: bytes) -> None:
    hosting.start("work", ECHO)
    with Person(hosting, "attach", "-w", "work") as person:
        person.until("ready")
        assert person.leave(key) == 0


def test_a_watcher_gets_a_redraw_with_r_and_when_its_window_changes(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting, "attach", "-w", "work") as person:
        person.until("ready")
        person.type(b"r")
        person.until_again(b"ready")
        person.resize(100, 30)
        person.until_again(b"ready")
        assert person.leave(b"q") == 0
    row = hosting.sessions()["work"]
    assert (row["cols"], row["rows"]) == (80, 24)


# --- what can't be -----------------------------------------------------------------------------------------


def test_why_a_session_cant_be_shared_is_said_and_the_terminal_stays_as_it_was(hosting: Hosting) -> None:
    hosting.run("daemon", "stop")
    hosting.environment["FAIRLEAD_TERMINAL_MAX_CONNECTIONS"] = "1"
    hosting.start("work", ECHO)
    with Person(hosting, "attach", "nobody") as person:
        assert person.exit_code() == 1
        assert person.seen == b"fairlead attach: no session 'nobody'; `fairlead ls` lists them\r\n"
    with Person(hosting) as first:
        first.until("ready")
        with Person(hosting) as person:
            assert person.exit_code() == 1
            assert person.seen == b"fairlead attach: this session has reached its limit of clients\r\n"
            assert termios.tcgetattr(person.theirs) == person.before
    hosting.environment["TERM"] = "dumb"
    with Person(hosting) as person:
        assert person.exit_code() == 1
        assert person.seen.startswith(
            b"fairlead attach: this terminal has no cursor control (TERM is dumb); use "
        )
    assert hosting.run("attach", "a/b", check=False).returncode == 2
    assert hosting.run("attach", check=False).returncode == 2


def test_a_session_that_has_ended_shows_its_last_screen_and_gives_its_code(hosting: Hosting) -> None:
    hosting.start("work", "echo last words; exit 3")
    hosting.run("wait", "work", "--exit", check=False)
    with Person(hosting) as person:
        assert person.exit_code() == 3
        assert "last words" in person.text
        assert "session work ended with 3" in person.text


def test_a_session_that_is_stopped_while_the_client_waits_for_a_daemon_is_gone(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.client.send_signal(signal.SIGSTOP)
        hosting.kill_daemon()
        hosting.run("stop", "work")
        person.client.send_signal(signal.SIGCONT)
        assert person.exit_code() == 1
        assert "session 'work' no longer exists" in person.text


@pytest.mark.parametrize("words", [("attach", "work"), ("attach", "-w", "work")])
@pytest.mark.parametrize("kept", ["nothing", "input", "output"])
def test_without_a_terminal_it_says_what_to_use_and_the_session_keeps_its_size(
    hosting: Hosting, words: tuple[str, ...], kept: str
) -> None:
    hosting.start("work", ECHO, "--cols", "100", "--rows", "30")
    ours, theirs = pty.openpty()
    client = subprocess.run(
        [sys.executable, "-m", "fairlead", *words],
        stdin=theirs if kept == "input" else subprocess.DEVNULL,
        stdout=theirs if kept == "output" else subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=hosting.environment,
        timeout=WAIT,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert client.returncode == 1
    assert client.stderr.decode() == (
        "fairlead attach: standard input and output must be a terminal; without one, use "
        "`fairlead screen work`, `fairlead logs -f work` or `fairlead send work TEXT`\n"
    )
    row = hosting.sessions()["work"]
    assert (row["cols"], row["rows"], row["clients"]) == (100, 30, 0)


def test_attaching_imports_little() -> None:
    code = "import sys; import fairlead.ui.attach; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "argparse", "typing", "dataclasses", "re"} & set(done.stdout.split())


def test_the_session_that_was_meant_is_named(hosting: Hosting) -> None:
    hosting.start("gardening", ECHO)
    with Person(hosting, "attach", "gardenign") as person:
        person.until("did you mean gardening?")
        assert person.exit_code() == 1
