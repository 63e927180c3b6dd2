"""bash in real terminals, with commands that behave badly."""

import asyncio
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.secrets import REDACTED, Redactor
from fairlead.agent.tools import Result, ToolContext, run_tool, shell, standard_tools, terminals
from fairlead.agent.tools.shell import MAX_BYTES, MAX_LINES, Bash, LocalTerminals
from tests.agent.tooling import call, context_in
from tests.hosting import is_alive

SOON = 20.0
"""Seconds after which a test fails that waits for something."""


@pytest.fixture
def bash(tmp_path: Path) -> Bash:
    return Bash(LocalTerminals(), tmp_path / "outputs")


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Where a command writes the pid of a process that must not stay."""
    path = tmp_path / "pid"
    yield path
    if path.exists() and is_alive(int(path.read_text())):
        os.kill(int(path.read_text()), signal.SIGKILL)


def run_with(
    tool: Bash, cwd: Path, command: str, when: Callable[[ToolContext, str], None], **more: Any
) -> Result:
    """Run a command; `when` is called with each update."""

    async def run() -> Result:
        context = context_in(cwd, lambda text, details: when(context, text))
        call = run_tool(tool, {"command": command, **more}, context, Redactor())
        return await asyncio.wait_for(call, SOON)

    return asyncio.run(run())


def abort_at(word: str) -> Callable[[ToolContext, str], None]:
    def when(context: ToolContext, text: str) -> None:
        if word in text:
            context.aborted.set()

    return when


def test_a_command_gives_what_it_prints_and_its_exit_code(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path, command="pwd; echo to stderr >&2")
    assert result.text == f"{os.path.realpath(tmp_path)}\nto stderr\n[Exit code 0.]"
    assert result.details == {"exitCode": 0, "truncated": False}
    assert not result.is_error


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("no-such-command-here", 127), ("kill -9 $$", 137)]
)
def test_a_command_that_fails_is_an_error_with_its_code(
    command: str, code: int, bash: Bash, tmp_path: Path
) -> None:
    result = call(bash, tmp_path, command=command)
    assert result.is_error
    assert result.details["exitCode"] == code
    assert f"[Exit code {code}.]" in result.text


def test_a_command_has_a_terminal_of_its_own_and_no_input(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path, command="test -t 1 && tty </dev/tty && cat && stty size </dev/tty")
    name, size, _ = result.text.splitlines()
    assert name.startswith("/dev/")
    assert size == f"{terminals.ROWS} {terminals.COLUMNS}"


def test_output_is_plain_text(bash: Bash, tmp_path: Path) -> None:
    result = call(
        bash, tmp_path, command=r"printf '\033[1;31mred\033[0m\r\n10%%\r99%%\n\033]0;title\007done'"
    )
    assert result.text == "red\n99%\ndone\n[Exit code 0.]"


def test_a_command_without_output_says_so(bash: Bash, tmp_path: Path) -> None:
    assert call(bash, tmp_path, command="true").text == "[No output.]\n[Exit code 0.]"


def test_a_command_sees_no_secret_of_the_environment(
    bash: Bash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    result = call(bash, tmp_path, command="env; echo $PAGER")
    assert "sk-0123" not in result.text
    assert "OPENAI" not in result.text
    assert "\ncat\n" in result.text


def test_long_output_keeps_its_end_and_is_whole_in_a_private_file(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path, command="seq 1 10000")
    lines = result.text.splitlines()
    assert lines[MAX_LINES - 1] == "10000"
    assert lines[0] == str(10001 - MAX_LINES)
    saved = Path(result.details["fullOutputPath"])
    assert str(saved) in result.text
    assert saved.read_text().splitlines() == [str(number) for number in range(1, 10001)]
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert stat.S_IMODE(saved.parent.stat().st_mode) == 0o700


def test_wide_output_is_cut_by_its_bytes(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path, command="head -c 300000 /dev/zero | tr '\\0' x; echo; echo end")
    assert result.details["truncated"]
    assert len(result.text) < MAX_BYTES + 500
    assert "\nend\n" in result.text


def test_the_file_with_the_output_has_no_secret(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    tools = standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor([secret]))
    result = call(tools["bash"], tmp_path, command=f"echo {secret}; seq 1 3000; echo {secret}")
    saved = Path(result.details["fullOutputPath"]).read_text()
    assert saved.startswith(f"{REDACTED}\n1\n")
    assert secret not in saved + repr(result)


def test_a_command_that_prints_without_end_is_ended(
    bash: Bash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "MAX_PRINTED", 1_000_000)
    result = call(bash, tmp_path, command="yes")
    assert result.is_error
    assert "[The command was ended: it printed more than 1.0 MB.]" in result.text
    assert Path(result.details["fullOutputPath"]).stat().st_size < 3_000_000


def test_updates_come_while_it_runs_and_not_too_often(bash: Bash, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    told: list[tuple[float, str]] = []

    def when(context: ToolContext, text: str) -> None:
        told.append((time.monotonic(), text))
        if len(told) == 1:  # it goes on only because of the first update
            with open(tmp_path / "go", "w") as go:
                go.write("go\n")

    result = run_with(bash, tmp_path, "echo first; read x < go; seq 1 5000; echo last", when)
    assert "last" in result.text
    assert told[0][1].startswith("first")
    pauses = [after[0] - before[0] for before, after in pairwise(told)]
    assert all(pause > shell.UPDATE_PAUSE * 0.9 for pause in pauses)


def test_a_command_is_ended_at_its_time_limit(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path, command="echo begun; sleep 1000", timeout=0.5)
    assert result.is_error
    assert result.text == "begun\n[The command was ended: it ran longer than 0.5 seconds.]"
    assert result.details["ended"]
    assert "`timeout`" in call(bash, tmp_path, command="true", timeout=shell.MAX_TIME_LIMIT + 1).text


def test_an_aborted_command_is_ended_with_its_children(bash: Bash, tmp_path: Path, pid_file: Path) -> None:
    command = f"sleep 1000 & echo $! > {pid_file}; echo ready; wait"
    result = run_with(bash, tmp_path, command, abort_at("ready"))
    assert result.is_error
    assert "[The command was ended: aborted.]" in result.text
    assert not is_alive(int(pid_file.read_text()))


def test_a_command_that_ignores_sigterm_is_killed(
    bash: Bash, tmp_path: Path, pid_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "GRACE", 0.2)
    command = f"trap '' TERM HUP INT; echo $$ > {pid_file}; echo ready; while :; do sleep 1000; done"
    result = run_with(bash, tmp_path, command, abort_at("ready"))
    assert result.is_error
    assert result.details["exitCode"] == 128 + signal.SIGKILL
    assert not is_alive(int(pid_file.read_text()))


def test_a_command_may_tidy_up_when_it_is_ended(bash: Bash, tmp_path: Path) -> None:
    command = "trap 'echo tidied; exit 0' TERM; echo ready; sleep 1000 & wait"
    result = run_with(bash, tmp_path, command, abort_at("ready"))
    assert "tidied" in result.text


@pytest.mark.parametrize(
    "leave",
    [
        "nohup sh -c 'echo > ready; exec sleep 1000' >/dev/null 2>&1 &",
        "(trap '' HUP; echo > ready; exec sleep 1000) &",
        pytest.param(
            "setsid sh -c 'echo > ready; exec sleep 1000' &",
            marks=pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc"),
        ),
    ],
)
def test_what_a_command_leaves_behind_is_ended_and_told(
    leave: str, bash: Bash, tmp_path: Path, pid_file: Path
) -> None:
    os.mkfifo(tmp_path / "ready")
    started = time.monotonic()
    result = call(bash, tmp_path, command=f"{leave} echo $! > {pid_file}; read x < ready; echo done")
    assert time.monotonic() - started < SOON
    assert not result.is_error
    assert result.text.startswith("done\n[")
    assert "left behind" in result.text
    assert result.details["leftBehind"] >= 1
    assert not is_alive(int(pid_file.read_text()))


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid")
def test_what_has_left_the_terminal_may_stay(bash: Bash, tmp_path: Path, pid_file: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    server = f"setsid sh -c 'echo $$ > {pid_file}; echo > ready; exec sleep 1000' >log 2>&1"
    result = call(bash, tmp_path, command=f"{server} & read x < ready")
    assert "leftBehind" not in result.details
    assert is_alive(int(pid_file.read_text()))


def test_a_cancelled_call_leaves_no_process(bash: Bash, tmp_path: Path, pid_file: Path) -> None:
    async def run() -> None:
        ready = asyncio.Event()
        context = context_in(tmp_path, lambda text, details: ready.set())
        command = f"echo $$ > {pid_file}; echo ready; sleep 1000"
        running = asyncio.ensure_future(run_tool(bash, {"command": command}, context, Redactor()))
        await asyncio.wait_for(ready.wait(), SOON)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert not is_alive(int(pid_file.read_text()))


def test_commands_leave_no_descriptors_open(bash: Bash, tmp_path: Path) -> None:
    fds = "/dev/fd"
    call(bash, tmp_path, command="true")
    before = len(os.listdir(fds))
    for _ in range(5):
        call(bash, tmp_path, command="echo x")
    assert len(os.listdir(fds)) == before


def test_commands_run_beside_each_other_and_beside_threads(bash: Bash, tmp_path: Path) -> None:
    async def run() -> list[Result]:
        context = context_in(tmp_path)
        calls = [run_tool(bash, {"command": f"echo {number}"}, context, Redactor()) for number in range(8)]
        calls_and_thread = asyncio.gather(*calls), asyncio.to_thread(os.getpid)
        results, _ = await asyncio.gather(*calls_and_thread)
        return list(results)

    texts = [result.text for result in asyncio.run(run())]
    assert texts == [f"{number}\n[Exit code 0.]" for number in range(8)]


def test_a_directory_that_is_gone_is_a_clear_error(bash: Bash, tmp_path: Path) -> None:
    result = call(bash, tmp_path / "gone", command="true")
    assert result.is_error
    assert "No such file or directory" in result.text


def test_a_touch_of_bash_has_the_whole_command(bash: Bash, tmp_path: Path) -> None:
    touch = bash.touches({"command": "make test\nmake install"}, tmp_path)
    assert (touch.effect, touch.summary, touch.command) == (
        "run",
        "$ make test ⏎ make install",
        "make test\nmake install",
    )
    with pytest.raises(ValueError, match="NUL"):
        bash.touches({"command": "a\0b"}, tmp_path)
