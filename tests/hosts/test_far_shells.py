"""Any shell of a login on another host understands what it gets, and finds nothing to run in it by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.client.hosts import ssh
from fairlead.client.hosts.table import KnownHost
from fairlead.wire import link
from tests.hosting import WAIT

SHELLS = ("sh", "dash", "bash", "zsh", "ksh", "fish", "tcsh")
NASTY = "a b';\"$(touch pwned)`touch pwned`\\!*?~%41\n;touch pwned #ä"


def said(shell: str, home: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What a login with this shell says to a command."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell}")
    return subprocess.run(
        [program, "-c", command],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def put(home: Path, script: str) -> None:
    program = home / ".local/bin/some-fairlead"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


HOST = KnownHost("workbox", "workbox", "some-fairlead")


@pytest.mark.parametrize("shell", SHELLS)
def test_words_arrive_as_they_were(shell: str, tmp_path: Path) -> None:
    put(tmp_path, 'if [ "$2" = check ]; then echo 1; else printf "%s\\n" "$FAIRLEAD_AGENT" "$@"; fi')
    for words in (["terminal", NASTY], ["run", "logs", NASTY, "--", "-x"]):
        done = said(shell, tmp_path, ssh.far_command(HOST, words, agent=NASTY))
        agent, first, *rest = done.stdout.splitlines()
        assert first == "link", done
        assert [link.unquoted(each) for each in rest] == words
        assert link.unquoted(agent) == NASTY
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_missing_or_old_is_told(shell: str, tmp_path: Path) -> None:
    for words in (["control"], ["run", "ls"]):
        done = said(shell, tmp_path, ssh.far_command(HOST, words))
        assert link.Search().take(done.stdout.encode())[0] == link.Greeting(link.MISSING)
        assert done.returncode == 127
    put(tmp_path, '[ "$1" = --version ] && echo "fairlead 0.0.9" && exit; exit 2')
    for words in (["control"], ["run", "ls"]):
        done = said(shell, tmp_path, ssh.far_command(HOST, words))
        assert link.Search().take(done.stdout.encode())[0] == link.Greeting(link.OLD, ("fairlead", "0.0.9"))
        assert done.returncode


@pytest.mark.parametrize("shell", SHELLS)
def test_a_path_in_the_home_directory_is_found(shell: str, tmp_path: Path) -> None:
    put(tmp_path, 'echo "$@"')
    host = KnownHost("workbox", "workbox", "~/.local/bin/some-fairlead")
    assert said(shell, tmp_path, ssh.far_command(host, ["control"])).stdout == "link control\n"
