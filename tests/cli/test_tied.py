"""`fairlead run --tied`: no turn goes on after whoever runs the command, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosting import WAIT, Hosting, is_alive

PROMPT = "run: echo $$ > pid; echo x >> began; exec sleep 600"


@pytest.fixture
def tied_hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


class TiedRun:
    """The command while its turn runs a program."""

    def __init__(self, hosting: Hosting, *words: str) -> None:
        self.hosting = hosting
        self.project = hosting.directory / "project"
        self.project.mkdir(exist_ok=True)
        words = ("run", "--tied", "--yes", "--json", "-q", "--verify", "true", *words, PROMPT)
        with open(self.project / "said", "wb") as said:
            self.process = subprocess.Popen(
                [*hosting.command, *words],
                env=hosting.environment,
                cwd=self.project,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        hosting.until(lambda: self.file("pid").endswith("\n"))
        self.program = int(self.file("pid"))

    def file(self, name: str) -> str:
        path = Path(self.project, name)
        return path.read_text() if path.exists() else ""

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it said."""
        code = self.process.wait(WAIT)
        if self.process.stdin is not None:
            self.process.stdin.close()
        return code, self.file("said")

    def turn_has_ended(self) -> bool:
        return not is_alive(self.program)


def test_closing_its_standard_input_ends_the_turn(tied_hosting: Hosting) -> None:
    run = TiedRun(tied_hosting)
    assert run.process.stdin is not None
    run.process.stdin.close()
    assert run.ended()[0] == 129
    tied_hosting.until(run.turn_has_ended)


def test_killing_it_ends_the_turn(tied_hosting: Hosting) -> None:
    run = TiedRun(tied_hosting)
    run.process.send_signal(signal.SIGKILL)
    run.ended()
    tied_hosting.until(run.turn_has_ended)


def test_a_daemon_that_dies_in_the_middle_is_told_by_an_exit_code_and_nothing_goes_on(
    tied_hosting: Hosting,
) -> None:
    run = TiedRun(tied_hosting, "--name", "garden")
    daemon = tied_hosting.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    code, complained = run.ended()
    assert code == 75, complained
    assert "the daemon went away in the middle" in complained
    tied_hosting.until(run.turn_has_ended)
    tied_hosting.run("wait", "garden", "--timeout", "20", check=False)
    assert run.file("began") == "x\n"


def test_what_is_verified_in_time_ends_as_ever(tied_hosting: Hosting) -> None:
    project = tied_hosting.directory / "project"
    project.mkdir()
    with subprocess.Popen(
        [
            *tied_hosting.command,
            "run",
            "--tied",
            "--yes",
            "-q",
            "--verify",
            "test -e a.txt",
            "write a.txt: a",
        ],
        env=tied_hosting.environment,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        assert process.wait(WAIT) == 0
