"""`fairlead attach` on a real terminal: whatever comes, output goes on, leaving works, all is given back."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from fairlead.client.attach import MAX_UNSENT, STALLED
from fairlead.terminal.screen import Screen
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ECHO = "echo ready; while read line; do echo got $line; done"


# --- leaving -----------------------------------------------------------------------------------------------


def test_what_was_typed_right_before_leaving_still_gets_through(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        assert person.leave(b"last words\r,,,d") == 0
        assert "left work; `fairlead attach work` comes back" in person.text
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
        began = time.monotonic()
        person.type(b"x" * (MAX_UNSENT + 2_000_000))
        assert time.monotonic() - began > STALLED  # nothing is lost before the program counts as stuck
        gate.write_text("go\n")
        person.until("more")
        assert person.leave() == 0
    hosting.run("stop", "work")


def test_not_a_byte_of_a_long_paste_is_lost_when_the_program_reads_slowly(hosting: Hosting) -> None:
    size = MAX_UNSENT + 1_500_000
    hosting.start("work", f"stty raw -echo; echo ready; sleep 1; head -c {size} | wc -c; read line")
    hosting.wait_text("work", "ready")
    done = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "attach", "work"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=hosting.environment,
    )
    assert done.stdin is not None
    done.stdin.write(b"p" * size)
    done.stdin.close()
    hosting.wait_text("work", str(size))
    done.terminate()
    assert done.wait(WAIT) == 128 + signal.SIGTERM


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
        os.write(person.ours, b",,,d")
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


def test_the_keys_for_leaving_count_across_daemons(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    with Person(hosting) as person:
        person.until("ready")
        person.type(b",,")
        person.until(",,")
        hosting.kill_daemon()
        assert person.leave(b",d") == 0


def test_keys_and_a_size_that_come_while_there_is_no_daemon_are_not_lost(hosting: Hosting) -> None:
    hosting.start("work", "echo ready; while read line; do echo got $line; stty size; done")
    with Person(hosting) as person:
        person.until("ready")
        hosting.run("daemon", "stop")
        person.resize(93, 31)
        person.type(b"meanwhile\r")
        person.until_all(["got meanwhile", "31 93"])
        assert person.leave() == 0


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
    with Person(hosting) as first, Person(hosting) as second:
        first.until("ready")
        second.until("ready")
        hosting.until(lambda: hosting.sessions()["work"]["clients"] == 2)
        second.type(b"from the second\r")
        first.until("got from the second")
        assert first.leave() == second.leave() == 0


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
    hosting.environment["FAIRLEAD_TERMINAL_MAX_CONNECTIONS"] = "1"
    hosting.start("work", ECHO)
    with Person(hosting, "attach", "nobody") as person:
        assert person.exit_code() == 1
        assert person.seen == b"fairlead attach: no session 'nobody'; `fairlead ls` lists them\r\n"
    with Person(hosting) as first:
        first.until("ready")
        with Person(hosting) as person:
            assert person.exit_code() == 1
            assert person.seen == b"fairlead attach: this session has as many clients as it may have\r\n"
            assert termios.tcgetattr(person.theirs) == person.before
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
        assert "session 'work' is gone" in person.text


def test_without_a_terminal_output_is_copied_and_nothing_is_added(hosting: Hosting) -> None:
    hosting.start("work", "echo ready; read x; exit 4")
    hosting.wait_text("work", "ready")
    client = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "attach", "work"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=hosting.environment,
    )
    hosting.until(lambda: hosting.sessions()["work"]["clients"] == 1)
    hosting.run("send", "work", "-k", "Enter")
    output, errors = client.communicate(timeout=WAIT)
    assert (client.returncode, errors) == (4, b"session work ended with 4\n")
    assert b"ready" in output
    assert b"\x1b[?1049l" not in output


def test_a_reader_that_goes_away_ends_the_client(hosting: Hosting) -> None:
    hosting.start("work", "while :; do echo line; done")
    client = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "attach", "work"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=hosting.environment,
    )
    assert client.stdout is not None
    client.stdout.read(100)
    client.stdout.close()
    assert client.wait(WAIT) == 128 + signal.SIGPIPE


def test_attaching_imports_little() -> None:
    code = "import sys; import fairlead.client.attach; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "argparse", "typing", "dataclasses", "re"} & set(done.stdout.split())
