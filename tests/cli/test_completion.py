"""Completion in real shells, each of which runs in a session and is typed to."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli.approvals import VERBS
from tests.hosting import Hosting

STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'PS1="%% "; eval "$(fairlead completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'PS1="%%%% "; autoload -Uz compinit; compinit -u; eval "$(fairlead completion zsh)"',
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo '%% '; end; fairlead completion fish | source",
    ),
}


@pytest.fixture(scope="module")
def bin_dir(hosting: Hosting) -> Path:
    """A directory with `fairlead` in it, first on the PATH of all sessions."""
    directory = hosting.directory / "bin"
    directory.mkdir()
    command = directory / "fairlead"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead "$@"\n')
    command.chmod(0o755)
    hosting.start("unique-name", "read line")
    hosting.environment["PATH"] = f"{directory}:{hosting.environment['PATH']}"
    return directory


@pytest.fixture(scope="module", params=STARTS)
def shell(
    request: pytest.FixtureRequest, hosting: Hosting, bin_dir: Path, peer: Callable[[str], str]
) -> Callable[[str, str], None]:
    """Give a shell some words and a tab; it must make of the line what is wanted."""
    name: str = request.param
    peer(name)
    command, setup = STARTS[name]
    place = hosting.directory / "place"
    shutil.rmtree(place, ignore_errors=True)
    (place / "sub dir").mkdir(parents=True)
    (place / "shot-of-it.png").touch()
    hosting.run("start", name, "-d", "--cwd", str(place), "--cols", "120", "--", *command)
    hosting.run("send", name, setup % () + "; echo set'-up'", "-k", "Enter")
    hosting.wait_text(name, "set-up")

    def complete(typed: str, wanted: str) -> None:
        hosting.run("send", name, "-k", "C-u")
        hosting.run("send", name, typed, "-k", "Tab")
        try:
            hosting.run("wait", name, "--text", f"% {wanted}", "--timeout", "20")
        except AssertionError:
            pytest.fail(f"{typed!r} did not become {wanted!r}:\n{hosting.screen(name)}")

    return complete


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("fairlead atta", "fairlead attach"),
        ("fairlead attach uni", "fairlead attach unique-name"),
        ("fairlead help comp", "fairlead help completion"),
        ("fairlead wait unique-name --tex", "fairlead wait unique-name --text"),
        ("fairlead screen --png -o shot", "fairlead screen --png -o shot-of-it.png"),
        ("fairlead daemon resta", "fairlead daemon restart"),
        ("fairlead daemon unit laun", "fairlead daemon unit launchd"),
        ("fairlead start x --cwd su", r"fairlead start x --cwd sub\ dir"),
    ],
)
def test_a_shell_completes(shell: Callable[[str, str], None], typed: str, wanted: str) -> None:
    shell(typed, wanted)


def candidates(hosting: Hosting, *words: str) -> list[str]:
    done = hosting.run("complete", "--", *words)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def test_candidates_come_from_what_commands_declare(hosting: Hosting) -> None:
    assert candidates(hosting, "s") == ["start", "state", "stop", "send", "screen", "search", "sessions"]
    assert candidates(hosting, "--") == ["--help", "--version"]
    assert candidates(hosting, "wait", "x", "--t") == ["--text", "--timeout"]
    assert candidates(hosting, "wait", "x", "--text", "a", "--t") == ["--timeout"]
    assert candidates(hosting, "wait", "x", "--text=a", "--t") == ["--timeout"]
    assert candidates(hosting, "send", "x", "-k", "Up", "--k") == ["--key"]
    assert candidates(hosting, "completion", "") == ["bash", "zsh", "fish"]
    assert candidates(hosting, "start", "x", "--c") == ["--cwd", "--cols"]
    assert candidates(hosting, "start", "x", "--")[-2:] == ["--help", "--"]


def test_candidates_that_the_shell_knows_better_are_left_to_it(hosting: Hosting) -> None:
    assert candidates(hosting, "screen", "x", "-o", "") == [":files"]
    assert candidates(hosting, "start", "x", "--cwd", "") == [":directories"]
    assert candidates(hosting, "start", "x", "--", "") == [":commands"]
    assert candidates(hosting, "start", "x", "--", "cat", "") == [":files"]


def test_nothing_is_offered_where_nothing_fits(hosting: Hosting) -> None:
    for words in (["nothing", ""], ["screen", "x", ""], ["wait", "x", "--text", ""], ["start", ""]):
        assert candidates(hosting, *words) == []


def test_sessions_are_offered_once_each(hosting: Hosting) -> None:
    for name in ("first", "second"):
        hosting.start(name, "read line")
    assert {"first", "second"} <= set(candidates(hosting, "stop", ""))
    assert "first" not in candidates(hosting, "stop", "first", "")
    assert candidates(hosting, "stop", "first", "sec") == ["second"]


def test_what_the_daemon_has_is_offered_where_it_fits(hosting: Hosting) -> None:
    hosting.run("agent", "--name", "garden", "-p", "help")
    hosting.run("send", "garden", "run: echo roses")
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    (asked,) = hosting.ask("approvals")["approvals"]
    assert candidates(hosting, "approvals", "") == [*VERBS]
    assert candidates(hosting, "approvals", "allow", "") == [asked["token"]]
    hosting.run("approvals", "deny", asked["token"])
    hosting.start("shell", "read line")
    for words in (("talk", "-s"), ("agent",), ("agent", "--name"), ("run", "--name")):
        assert candidates(hosting, *words, "") == ["garden"], words
    assert {"garden", "shell"} <= set(candidates(hosting, "verify", ""))
    assert {"terminal", "agent"} <= set(candidates(hosting, "ls", "--kind", ""))
    assert {"claude", "codex"} <= set(candidates(hosting, "agent", "--with", ""))
    assert candidates(hosting, "agent", "--model", "offline/g") == ["offline/guide"]
    assert candidates(hosting, "agent", "--thinking", "m") == ["minimal", "medium"]
    assert candidates(hosting, "config", "passepartout.po") == ["passepartout.port"]
    assert "claude" in candidates(hosting, "hook", "--install", "")
    for option in ("--install", "--uninstall"):  # which refuse an agent without settings that we know
        assert "other" not in candidates(hosting, "hook", option, "")
    assert "other" in candidates(hosting, "hook", "")


def test_no_daemon_is_started_for_a_completion() -> None:
    hosting = Hosting()
    assert candidates(hosting, "attach", "") == []
    assert not list((hosting.directory / "run").iterdir())
    shutil.rmtree(hosting.directory)
