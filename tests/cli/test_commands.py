"""Each command as scripts use it: what it prints, its JSON, its exit codes and its errors."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminals import on_a_terminal
from tests.hosting import WAIT, Hosting
from tests.installing import INSTALL

ECHO = "echo ready; while read line; do echo got $line; done"


@pytest.fixture(scope="module")
def echo(hosting: Hosting) -> str:
    """A session that echoes lines."""
    hosting.start("echo", ECHO, "--cols", "60", "--rows", "20")
    hosting.wait_text("echo", "ready")
    return "echo"


@pytest.mark.parametrize(
    "words",
    [
        ["screen", "nobody"],
        ["search", "nobody", "x"],
        ["send", "nobody", "x"],
        ["stop", "nobody"],
        ["wait", "nobody", "--text", "x"],
        ["logs", "nobody"],
        ["logs", "nobody", "-f"],
        ["ls", "nobody"],
    ],
)
def test_a_session_that_is_not_there_gives_1_and_one_line(hosting: Hosting, words: list[str]) -> None:
    done = hosting.run(*words, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"fairlead {words[0]}: ")
    assert "session 'nobody'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["start"], "missing NAME; usage: fairlead start [OPTION…] NAME [-- COMMAND…]"),
        (["start", "x", "ls"], "unexpected argument 'ls'; put the command after --: -- ls"),
        (["start", "x", "ls", "-la"], "unexpected argument 'ls'; put the command after --: -- ls -la"),
        (["start", "x", "--cols", "many"], "--cols must be an integer of at least 1, not 'many'"),
        (["attach"], "missing NAME; usage: fairlead attach [OPTION…] NAME"),
        (["ls", "--jsn"], "unknown option --jsn; did you mean --json?"),
        (["screen", "x", "--svg", "--png"], "--svg and --png can't be combined"),
        (
            ["screen", "x", "--svg", "-s"],
            "--scrollback can't be combined with --svg, only with text or --ansi",
        ),
        (["send", "x"], "missing TEXT or --key"),
        (["send", "x", "-p", "-k", "Up"], "--paste needs a TEXT"),
        (["wait", "x"], "missing a condition: --text, --regex, --idle or --exit"),
        (["wait", "x", "--idle", "long"], "--idle must be a number of seconds, not 'long'"),
        (["logs"], "missing NAME or --daemon"),
        (["logs", "x", "--daemon"], "NAME and --daemon can't be combined"),
        (["daemon"], "missing status|stop|restart|run|unit; usage: fairlead daemon [OPTION…] "),
        (["daemon", "unit"], "`daemon unit` needs systemd or launchd"),
        (["completion", "tcsh"], "'tcsh' is not one of bash, zsh, fish"),
    ],
)
def test_wrong_usage_gives_2_and_says_what_is_wrong(hosting: Hosting, words: list[str], message: str) -> None:
    done = hosting.run(*words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fairlead {words[0]}: {message}")
    assert done.stderr.endswith(f"\nsee `fairlead help {words[0]}`\n")


def test_start_tells_name_and_process(hosting: Hosting) -> None:
    answer = json.loads(hosting.run("start", "told", "--json", "--", "sleep", "100").stdout)
    assert answer["name"] == "told"
    os.kill(answer["pid"], 0)
    assert json.loads(hosting.run("stop", "told", "--json").stdout) == [{"name": "told", "exit_code": 129}]


def test_stop_goes_on_after_one_that_is_not_there(hosting: Hosting) -> None:
    for name in ("one", "two"):
        hosting.start(name, "read line")
    done = hosting.run("stop", "one", "nobody", "two", check=False)
    assert (done.returncode, done.stderr) == (1, "fairlead stop: no session 'nobody'\n")
    assert done.stdout == "session one ended with 129\nsession two ended with 129\n"


def test_send_takes_text_keys_and_standard_input(hosting: Hosting, echo: str) -> None:
    assert hosting.run("send", echo, "first", "-k", "Enter").stdout == ""
    hosting.wait_text(echo, "got first")
    assert json.loads(hosting.run("send", echo, "--json", "--", "-x").stdout) == {"accepted": True}
    hosting.run("send", echo, "-", input=" second\r")
    hosting.wait_text(echo, "got -x second")
    done = hosting.run("send", echo, "-k", "Hyper-Q", check=False)
    assert done.returncode == 1
    assert "Hyper-Q" in done.stderr


def test_a_paste_is_marked_only_if_the_program_asked_for_that(hosting: Hosting) -> None:
    show = "stty raw -echo; echo ready; head -c {} | od -An -c; sleep 100"
    hosting.start("plain", show.format(5))
    hosting.start("marked", "printf '\\033[?2004h'; " + show.format(17))
    for name in ("plain", "marked"):
        hosting.wait_text(name, "ready")
        hosting.run("send", name, "-p", "pa\nst")
    hosting.wait_text("plain", r"p   a  \r   s   t")
    hosting.wait_text("marked", "[   2   0   0   ~   p   a")
    hosting.run("stop", "plain", "marked")


def test_ls_shows_what_a_person_wants_to_know(hosting: Hosting) -> None:
    title = r"printf '\033]2;my title\007'; read line"
    hosting.start("titled", title, "--cols", "61", "--rows", "21")
    hosting.until(lambda: hosting.sessions()["titled"]["title"] == "my title")
    head, row = hosting.run("ls", "titled").stdout.splitlines()
    heads = [head for head in head.split() if head not in ("QUESTION", "BRANCH")]
    assert heads[:5] == ["NAME", "STATE", "KIND", "DIRECTORY", "SIZE"]
    assert heads[5:] == ["CLIENTS", "QUIET", "CPU", "TIME", "MEMORY", "WHAT"]
    words = row.split()
    assert words[0] == "titled"
    assert words[words.index("61×21") + 1] == "0"
    assert "MB" in words
    assert row.endswith(f"sh -c {title} — my title")
    raw = hosting.sessions()["titled"]
    assert raw["memory"] > 100_000
    assert raw["cpu_percent"] >= 0
    assert raw["cpu_seconds"] >= 0
    assert raw["idle"] >= 0
    hosting.run("stop", "titled")


def test_ls_counts_the_children_of_a_program_wherever_they_went(hosting: Hosting) -> None:
    burn = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass\n"
    program = (
        f"{sys.executable} -c '{burn}print(\"burnt\", flush=True)\ntime.sleep(100)' & setsid sleep 99 & wait"
    )
    hosting.start("busy", program)
    hosting.wait_text("busy", "burnt")
    row = hosting.sessions()["busy"]
    assert row["cpu_seconds"] > 0.2
    assert row["cpu_percent"] > 1
    assert row["memory"] > 5_000_000  # a Python is in it
    hosting.run("stop", "busy")


def test_ls_names_only_and_some_only(hosting: Hosting, echo: str) -> None:
    hosting.start("other", "read line")
    assert set(hosting.run("ls", "-q").stdout.split()) >= {"echo", "other"}
    assert hosting.run("ls", "-q", "other", "echo").stdout == "other\necho\n"
    done = hosting.run("ls", "other", "nobody", "--json", check=False)
    assert done.returncode == 1
    assert [row["name"] for row in json.loads(done.stdout)] == ["other"]
    assert done.stderr == "fairlead ls: no session 'nobody'\n"
    hosting.run("stop", "other")


def test_ls_fits_the_terminal(hosting: Hosting) -> None:
    hosting.start("long", f"read line; {'x' * 300}")
    code, shown = on_a_terminal(hosting, "ls", "long", columns=100)
    assert code == 0
    _, row, _ = shown.split("\n")
    assert len(re.sub(r"\x1b\[\d*m", "", row)) == 100  # its state may have a colour
    assert row.endswith("…")
    assert len(hosting.run("ls", "long").stdout.splitlines()[1]) > 300
    hosting.run("stop", "long")


def test_a_title_can_not_control_the_terminal_of_who_lists(hosting: Hosting) -> None:
    hosting.run("start", "evil", "-d", "--", "sh", "-c", "read line # \x1b[31mred\x07")
    assert "\x1b" not in hosting.run("ls", "evil").stdout
    assert "# ·[31mred·" in hosting.run("ls", "evil").stdout
    hosting.run("stop", "evil")


RED = r"printf '\033[31mred\033[0m plain\n\033]2;named\007'; seq 1 30; printf 'end '; read line"


@pytest.fixture(scope="module")
def colored(hosting: Hosting) -> str:
    hosting.start("colored", RED, "--rows", "10", "--cols", "40")
    hosting.wait_text("colored", "end")
    return "colored"


def test_screen_is_text_or_ansi_with_or_without_scrollback(hosting: Hosting, colored: str) -> None:
    assert hosting.run("screen", colored).stdout.split() == [*map(str, range(22, 31)), "end"]
    whole = hosting.run("screen", colored, "-s").stdout
    assert whole.startswith("red plain\n1\n")
    ansi = hosting.run("screen", colored, "--ansi", "--scrollback").stdout
    assert "\x1b[31mred" in ansi.splitlines()[0].replace("\x1b[0;31m", "\x1b[31m")
    assert "red" not in hosting.run("screen", colored, "--ansi").stdout


def test_screen_as_json_has_cells_cursor_modes_and_title(hosting: Hosting, colored: str) -> None:
    screen = json.loads(hosting.run("screen", colored, "--json").stdout)
    assert (screen["cols"], screen["rows"], screen["title"]) == (40, 10, "named")
    assert (screen["cursor"]["x"], screen["cursor"]["y"]) == (4, 9)
    assert screen["modes"]["bracketed_paste"] is False
    assert screen["lines"][0]["runs"][0]["text"] == "22"


def test_screen_is_a_picture(hosting: Hosting, colored: str, tmp_path: Path) -> None:
    path = tmp_path / "shot.png"
    assert hosting.run("screen", colored, "--png", "-o", str(path)).stdout == ""
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    command = [sys.executable, "-m", "fairlead", "screen", colored, "--png"]
    piped = subprocess.run(command, env=hosting.environment, capture_output=True, check=True, timeout=WAIT)
    assert piped.stdout == path.read_bytes()
    assert hosting.run("screen", colored, "--svg", "-o", "-").stdout.startswith("<svg")
    assert "<pre" in hosting.run("screen", colored, "--html").stdout


def test_a_png_is_not_for_a_terminal(hosting: Hosting, colored: str) -> None:
    code, shown = on_a_terminal(hosting, "screen", colored, "--png")
    assert code == 2
    assert "write it to a file with -o FILE" in shown


def test_a_file_that_cant_be_written_is_told(hosting: Hosting, colored: str) -> None:
    done = hosting.run("screen", colored, "-o", "/no/such/file", check=False)
    expected = "fairlead screen: can't write /no/such/file: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_without_pillow_the_extra_is_named(tmp_path: Path) -> None:
    """A Python that can't find Pillow, though it is installed."""
    (tmp_path / "PIL.py").write_text("raise ImportError('hidden')\n")
    hosting = Hosting({"PYTHONPATH": str(tmp_path)})
    try:
        hosting.start("work", "echo ready; read line")
        done = hosting.run("screen", "work", "--png", "-o", str(tmp_path / "x.png"), check=False)
        command = f"{INSTALL} 'fairlead[picture]'"
        expected = f"fairlead screen: a PNG needs Pillow, from the extra 'picture': {command}\n"
        assert (done.returncode, done.stderr) == (1, expected)
    finally:
        hosting.close()


def test_search_tells_places_and_gives_1_if_there_are_none(hosting: Hosting, colored: str) -> None:
    assert hosting.run("search", colored, "red").stdout == "1:0: red plain\n"
    assert hosting.run("search", colored, "-e", "^1.$", "-n", "3").stdout.count("\n") == 3
    assert json.loads(hosting.run("search", colored, "plain", "--json").stdout)[0]["column"] == 4
    none = hosting.run("search", colored, "violet", "--json", check=False)
    assert (none.returncode, none.stdout, none.stderr) == (1, "[]\n", "")
    bad = hosting.run("search", colored, "-e", "(", check=False)
    told = "invalid regular expression '(': missing )\nsee `fairlead help"
    assert (bad.returncode, bad.stderr) == (2, f"fairlead search: {told} search`\n")
    bad = hosting.run("wait", colored, "--regex", "(", check=False)
    assert (bad.returncode, bad.stderr) == (2, f"fairlead wait: {told} wait`\n")
    assert hosting.run("search", colored, "", check=False).returncode == 2


def test_search_and_logs_count_lines_alike(hosting: Hosting) -> None:
    for name, script in (
        ("few", "echo one; printf '%0200d\\n' 0; echo sought"),
        ("many", "seq 15000; echo sought"),
    ):
        hosting.start(name, f"{script}; echo over; read line")
        hosting.wait_text(name, "over")
        (found,) = json.loads(hosting.run("search", name, "sought", "--json").stdout)
        logged = [json.loads(line) for line in hosting.run("logs", name, "--json").stdout.splitlines()]
        assert found["line"] == next(each["line"] for each in logged if each["text"] == "sought")
    assert found["line"] == 15001


@pytest.mark.parametrize("words", [("start", "", "-d"), ("stop", "few", ""), ("logs", ""), ("ls", "")])
def test_an_empty_name_is_a_usage_error(hosting: Hosting, words: tuple[str, ...]) -> None:
    done = hosting.run(*words, check=False)
    told = f"fairlead {words[0]}: a session's name must not be empty\nsee `fairlead help {words[0]}`\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_wait_tells_what_happened(hosting: Hosting) -> None:
    hosting.start("waited", "echo one; read line; exit 5")

    def wait(*words: str) -> tuple[int, dict[str, object]]:
        done = hosting.run("wait", "waited", "--json", *words, check=False)
        return done.returncode, json.loads(done.stdout)

    text = {"matched": True, "reason": "text", "match": "one"}
    assert wait("--text", "one") == (0, text)
    assert wait("--text", "never", "--regex", "^o.e$") == (0, text)
    assert wait("--regex", "(?i)^O.E$") == (0, text)
    assert wait("--idle", "0.1") == (0, {"matched": True, "reason": "idle"})
    over = {"matched": False, "reason": "timeout"}
    assert wait("--text", "never", "--timeout", "0") == (124, over)
    assert wait("--exit", "--timeout", "0.1") == (124, over)
    plain = hosting.run("wait", "waited", "--exit", "--timeout", "0.1", check=False)
    assert (plain.returncode, plain.stderr) == (124, "fairlead wait: timed out after 0.1 s\n")
    hosting.run("send", "waited", "-k", "Enter")
    assert wait("--exit") == (5, {"matched": True, "reason": "exit", "exit_code": 5})
    assert wait("--exit", "--text", "never") == (0, {"matched": True, "reason": "exit", "exit_code": 5})
    assert wait("--text", "never") == (1, {"matched": False, "reason": "exit", "exit_code": 5})
    plain = hosting.run("wait", "waited", "--text", "never", check=False)
    ended = "fairlead wait: session 'waited' ended with 5 first\n"
    assert (plain.returncode, plain.stderr) == (1, ended)


def test_waiting_for_a_text_ends_with_1_when_the_session_is_stopped(hosting: Hosting) -> None:
    hosting.start("halted", "echo ready; read line")
    command = [sys.executable, "-m", "fairlead", "wait", "halted", "--text", "never", "--json"]
    waiting = subprocess.Popen(command, env=hosting.environment, stdout=subprocess.PIPE)
    hosting.wait_text("halted", "ready")
    hosting.run("stop", "halted")
    out, _ = waiting.communicate(timeout=WAIT)
    assert waiting.returncode == 1
    assert not out or json.loads(out)["reason"] == "exit"  # if it came too late, there is no such session


@pytest.mark.parametrize("words", [["logs", "colored"], ["ls"], ["screen", "colored"], ["wait", "--help"]])
def test_a_reader_that_goes_away_gives_141_and_no_noise(
    hosting: Hosting, colored: str, words: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fairlead", *words]
    client = subprocess.Popen(command, env=hosting.environment, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, errors = client.communicate(timeout=WAIT)
    assert (client.returncode, errors) == (141, b"")


def test_an_interrupt_gives_130_and_no_noise(hosting: Hosting, echo: str) -> None:
    command = [sys.executable, "-m", "fairlead", "logs", "-f", echo]
    client = subprocess.Popen(
        command, env=hosting.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    client.send_signal(signal.SIGINT)
    _, errors = client.communicate(timeout=WAIT)
    assert (client.returncode, errors) == (130, "")


def test_a_terminal_that_does_not_know_its_size_gets_the_usual_one(hosting: Hosting) -> None:
    ours, theirs = pty.openpty()  # of size 0×0
    command = [sys.executable, "-m", "fairlead", "start", "blind", "-d", "--", "cat"]
    done = subprocess.run(
        command,
        env=hosting.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        timeout=WAIT,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert (hosting.sessions()["blind"]["cols"], hosting.sessions()["blind"]["rows"]) == (80, 24)
    again = hosting.run("start", "blind", "-d", "--", "cat", check=False)
    assert "attach to it with `fairlead attach blind`" in again.stderr
