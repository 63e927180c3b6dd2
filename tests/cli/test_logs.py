"""`fairlead logs`: what a session has printed, and prints."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from fairlead.cli.logs import after
from fairlead.terminal.lines import PATIENCE
from tests.doors.passepartout_peer import kill_and_wait
from tests.hosting import WAIT, Hosting


@contextmanager
def following(hosting: Hosting, *words: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    command = [sys.executable, "-m", "fairlead", "logs", "-f", *words]
    client = subprocess.Popen(
        command, env=hosting.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    with client:
        try:
            yield client, client.stdout
        finally:
            client.kill()


def test_logs_are_the_lines_that_were_printed_however_narrow_the_terminal_is(hosting: Hosting) -> None:
    hosting.start("narrow", f"seq 1 100; echo {'x' * 50}; printf 'open line'; read line", "--cols", "20")
    hosting.wait_text("narrow", "open line")
    text = hosting.run("logs", "narrow").stdout
    assert text.split("\n") == [*map(str, range(1, 101)), "x" * 50, "open line", ""]
    assert hosting.run("logs", "-n", "2", "narrow").stdout == f"{'x' * 50}\nopen line\n"
    assert hosting.run("logs", "-n0", "narrow").stdout == ""
    rows = hosting.run("logs", "narrow", "-n", "1", "--json").stdout
    assert json.loads(rows) == {"line": 102, "text": "open line", "first": 102, "complete": False}


def test_logs_can_be_read_when_the_program_has_ended(hosting: Hosting) -> None:
    hosting.start("over", "echo last words; exit 3")
    hosting.run("wait", "over", "--exit", check=False)
    assert hosting.run("logs", "over").stdout == "last words\n"
    assert hosting.run("logs", "-f", "over").stdout == "last words\n"


def test_following_prints_each_line_once_and_ends_with_the_program(hosting: Hosting) -> None:
    hosting.start("told", "seq 1 50; read line; seq 51 20000; printf unfinished; exit 7", "--cols", "20")
    hosting.wait_text("told", "50")
    with following(hosting, "told") as (client, out):
        for number in range(1, 51):
            assert out.readline() == f"{number}\n"
        hosting.run("send", "told", "-k", "Enter")
        rest, errors = client.communicate(timeout=WAIT)
    assert rest.split("\n") == ["", *map(str, range(51, 20_001)), "unfinished", ""]
    assert (client.returncode, errors) == (0, "")


def test_following_begins_where_it_is_told_and_numbers_go_on(hosting: Hosting) -> None:
    hosting.start("numbered", "seq 1 5; read line; echo six; read line")
    hosting.wait_text("numbered", "5")
    with following(hosting, "-n", "1", "--json", "numbered") as (_, out):
        began = {"line": 5, "text": "5", "first": 5, "complete": False}
        assert json.loads(out.readline()) == began
        hosting.run("send", "numbered", "typed", "-k", "Enter")
        assert json.loads(out.readline()) == {"line": 6, "text": "typed"}
        assert json.loads(out.readline()) == {"line": 7, "text": "six"}
    hosting.run("stop", "numbered")


def test_following_ends_when_the_session_is_stopped(hosting: Hosting) -> None:
    hosting.start("stopped", "echo ready; read line")
    with following(hosting, "stopped") as (client, out):
        assert out.readline() == "ready\n"
        hosting.run("stop", "stopped")
        assert client.wait(WAIT) == 0


def test_logs_say_where_they_begin_also_after_a_restart() -> None:
    hosting = Hosting({"FAIRLEAD_TERMINAL_SCROLLBACK_BYTES": str(1024 * 1024)})
    try:
        hosting.start("much", "seq -f 'line %.0f' 1 200000; echo done; read line; echo more; read line")
        hosting.start("little", "echo line 1; echo done; read line")

        def begins(*words: str) -> int:
            done = hosting.run("logs", "much", *words)
            number = int(done.stdout.split("\n")[0].removeprefix("line "))
            assert done.stderr == f"fairlead logs: earlier lines were dropped; this starts at line {number}\n"
            return number

        for restarts in (False, True):
            if restarts:
                kill_and_wait(hosting)
            hosting.wait_text("much", "done")
            assert begins() > 1
            assert begins("-n", "50000") > 1
            first = json.loads(hosting.run("logs", "much", "--json").stdout.split("\n")[0])
            assert first["text"] == f"line {first['line']}"
            assert (first["first"], first["complete"]) == (first["line"], False)
            assert hosting.run("logs", "much", "-n", "1").stderr == ""
            hosting.wait_text("little", "done")
            assert hosting.run("logs", "little").stderr == ""
            whole = json.loads(hosting.run("logs", "little", "--json").stdout.split("\n")[0])
            assert whole == {"line": 1, "text": "line 1", "first": 1, "complete": True}
        with following(hosting, "-n", "1", "--json", "much") as (_, out):
            assert json.loads(out.readline())["line"] == 200_001
    finally:
        hosting.close()


def test_following_goes_on_when_daemons_die_and_loses_and_repeats_nothing(hosting: Hosting) -> None:
    hosting.start("outlives", "i=0; while read line; do i=$((i+1)); echo line $i; done", "--cols", "30")
    with following(hosting, "outlives") as (_, out):
        for number in range(1, 7):
            hosting.run("send", "outlives", "go", "-k", "Enter")
            assert (out.readline(), out.readline()) == ("go\n", f"line {number}\n")
            if number % 2:
                hosting.kill_daemon()
    hosting.run("stop", "outlives")


def test_a_flood_through_the_deaths_of_daemons_comes_with_each_number_once(hosting: Hosting) -> None:
    """The next daemon has less than was shown, and then much more than anybody shows at once."""
    go, last = hosting.directory / "go", 150_000
    hosting.start("flood", f"echo 1; until [ -e {go} ]; do sleep 0.02; done; seq 2 {last}")
    with following(hosting, "flood", "--json") as (client, out):
        rows: list[dict[str, object]] = [json.loads(out.readline())]  # now it follows
        go.touch()
        for count in (2000, 20_000, 60_000):
            while len(rows) < count and (line := out.readline()):
                rows.append(json.loads(line))
            hosting.kill_daemon()
        rest, errors = client.communicate(timeout=4 * WAIT)  # two daemons begin meanwhile, on a busy machine
    assert client.returncode == 0, errors
    rows += map(json.loads, rest.splitlines())
    numbers = [row["line"] for row in rows]
    assert numbers == sorted(set(numbers))  # type: ignore[type-var]
    assert all(row["text"] == str(row["line"]) for row in rows)
    missed = sum(int(word) for line in errors.splitlines() for word in line.split()[2:3] if word.isdigit())
    assert len(numbers) + missed == last, errors


def test_who_did_not_read_for_so_long_that_the_daemon_let_it_go_still_gets_the_rest(hosting: Hosting) -> None:
    go = hosting.directory / "more"
    hosting.start("paused", f"echo 1; until [ -e {go} ]; do sleep 0.1; done; seq 2 2000; exec sleep 600")
    with following(hosting, "paused") as (client, out):
        assert out.readline() == "1\n"
        client.send_signal(signal.SIGSTOP)
        time.sleep(PATIENCE + 2)  # nobody tells that a follower is let go
        go.touch()
        hosting.wait_text("paused", "2000")
        client.send_signal(signal.SIGCONT)
        assert [out.readline() for _ in range(1999)] == [f"{number}\n" for number in range(2, 2001)]
        hosting.run("stop", "paused")
        assert client.wait(WAIT) == 0


def test_the_daemons_own_log_is_read_and_followed(hosting: Hosting) -> None:
    hosting.run("ls")
    whole = hosting.run("logs", "--daemon").stdout
    assert whole == hosting.log()
    assert "serving" in whole
    assert hosting.run("logs", "--daemon", "-n", "1").stdout == whole.splitlines(keepends=True)[-1]
    with following(hosting, "--daemon", "-n", "0", "--json") as (_, out):
        path = Path(hosting.environment["HOME"], ".local/state/fairlead/daemon.log")

        def is_seen() -> bool:  # nobody tells when it has read to the end, so lines are added until one comes
            with path.open("a") as file:
                file.write("more\n")
            return bool(select.select([out], [], [], 0.3)[0])

        hosting.until(is_seen)
        assert json.loads(out.readline())["text"] == "more"


def test_no_log_of_a_daemon_is_told() -> None:
    hosting = Hosting()
    done = hosting.run("logs", "--daemon", check=False)
    hosting.close()
    assert done.returncode == 1
    assert done.stderr.startswith("fairlead logs: can't read /tmp/")


def test_lines_go_on_after_those_that_were_shown() -> None:
    assert after(["a", "b", "c"], []) == ["a", "b", "c"]
    assert after(["a", "b", "c", "d"], ["a", "b", "c"]) == ["d"]
    assert after(["a", "b"], ["a", "b"]) == []
    assert after(["c", "d", "e"], ["a", "b", "c"]) == ["d", "e"]
    assert after(["x", "y", "x", "y", "z"], ["x", "y"]) == ["z"]
    assert after(["p", "q"], ["a"]) == ["p", "q"]


@pytest.mark.parametrize("words", [("quiet",), ("--daemon",)])
def test_following_ends_when_its_reader_has_gone_though_nothing_is_printed(
    hosting: Hosting, words: tuple[str, ...]
) -> None:
    if words == ("quiet",):
        hosting.start("quiet", "echo one; read line")
        hosting.wait_text("quiet", "one")
    with following(hosting, *words) as (client, output):
        assert output.readline()
        output.close()
        assert client.wait(WAIT / 2) == 141
        assert client.stderr is not None
        assert client.stderr.read() == ""
