"""Hosts that can't be used as they are: one clear sentence each, with what to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from fairlead import __version__
from tests.hosts.far_host import FarHost, NearHost


@pytest.fixture
def alone() -> Iterator[tuple[NearHost, FarHost]]:
    """Two hosts for a test that changes them."""
    far = FarHost()
    near = NearHost()
    try:
        near.add("workbox", far, check=False)
        yield near, far
    finally:
        near.close()
        far.close()


def said(near: NearHost, *words: str) -> str:
    """What a command complains about, in one line."""
    done = near.run(*(words or ("-H", "workbox", "ls")), check=False)
    assert done.returncode == 1, done
    line = done.stderr.strip()
    assert "\n" not in line, line
    return line


def test_a_changed_host_key_is_refused_as_ssh_does(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    near.run("host", "check")
    near.forget_connections()
    far.stop_sshd()
    far.make_key("host")
    far.start_sshd()
    assert "host key has changed" in said(near)
    assert "refused" in near.run("host", "ls").stdout


def test_an_unknown_host_key_is_for_a_person_to_accept(alone: tuple[NearHost, FarHost]) -> None:
    near, _ = alone
    config = near.ssh_config.read_text()
    near.ssh_config.write_text(config.replace("accept-new", "ask"))
    assert "ssh does not know its host key" in said(near)


def test_a_login_that_is_refused(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    (far.ssh_dir / "authorized").write_text("")
    assert "ssh can't log in there" in said(near)


def test_a_host_that_does_not_answer_is_away(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    far.stop_sshd()
    assert "workbox is away: " in said(near)
    assert "away" in near.run("host", "ls").stdout
    far.start_sshd()
    near.run("-H", "workbox", "ls")


def test_without_fairlead_it_is_said_how_to_install_it(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    (far.home / ".local/bin/fairlead").unlink()
    for words in (("-H", "workbox", "ls"), ("attach", "workbox:x"), ("-H", "workbox", "doctor")):
        assert "not installed there; `fairlead host install workbox`" in said(near, *words)


def test_one_that_knows_no_links_is_named_with_its_version(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    far.put_fairlead(
        '#!/bin/sh\n[ "$1" = --version ] && echo "fairlead 0.0.9" && exit\n'
        "echo \"fairlead: no command '$1'\" >&2; exit 2\n"
    )
    for words in (("-H", "workbox", "ls"), ("-H", "workbox", "doctor")):
        line = said(near, *words)
        assert "fairlead 0.0.9 is too old for links" in line
        assert "`fairlead host install workbox`" in line


def test_a_check_reaches_a_host_that_the_daemon_had_given_up(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    far.start("work", "exec cat")
    far.put_fairlead('#!/bin/sh\necho "fairlead: no command" >&2; exit 2\n')
    near.ask("host_check", name="workbox")
    near.until(lambda: "too old for links" in near.run("ls", "--all").stdout)
    far.put_fairlead()
    near.run("host", "check", "workbox")
    shown = near.run("ls", "--all").stdout
    assert "too old" not in shown
    assert "work" in shown.split()
    far.run("stop", "work")


def test_an_older_version_says_so_and_works(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    place = far.directory / "older/fairlead"
    ours = Path(fairlead.__file__).parent
    shutil.copytree(ours, place, ignore=shutil.ignore_patterns("__pycache__"))
    text = (place / "__init__.py").read_text()
    (place / "__init__.py").write_text(text.replace(__version__, "0.0.10"))
    path = f"{place.parent}:{far.environment['PYTHONPATH']}"
    far.put_fairlead(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -m fairlead "$@"\n')
    far.environment["PYTHONPATH"] = path
    done = near.run("-H", "workbox", "ls")
    assert f"the daemon on workbox has version 0.0.10, this command has {__version__}" in done.stderr
    assert "`fairlead host install workbox`" in done.stderr
    near.run("start", "workbox:old", "-d", "--", "cat")
    assert near.run("-H", "workbox", "ls", "-q").stdout == "old\n"
    assert "another version" in near.run("host", "check").stdout


def test_what_a_shell_prints_at_its_start_is_skipped(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (far.home / ".bashrc").write_text("echo welcome to workbox; printf 'no end of line'\n")
    # whatever the login's own shell is, its start file is read and prints
    with open(far.ssh_dir / "sshd_config", "a") as file:
        file.write(f"ForceCommand {bash} -c '. ~/.bashrc; eval \"$SSH_ORIGINAL_COMMAND\"'\n")
    far.stop_sshd()
    far.start_sshd(anew=False)
    far.start("work", "echo hello; exec cat")
    assert "hello" in near.run("screen", "workbox:work").stdout
    assert "welcome" not in near.run("-H", "workbox", "config", "agent.model", "--json").stdout
    assert near.run("-H", "workbox", "ls", "-q").stdout == "work\n"


def test_a_shell_that_prints_without_end_is_given_up(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    with open(far.ssh_dir / "sshd_config", "a") as file:
        file.write("ForceCommand yes welcome\n")
    far.stop_sshd()
    far.start_sshd(anew=False)
    assert "bytes came before the link" in said(near)
    assert "bytes came before the link" in said(near, "-H", "workbox", "doctor")


def test_a_daemon_that_can_not_start_there_says_why(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    (far.home / ".config/fairlead").mkdir(parents=True)
    (far.home / ".config/fairlead/config.toml").write_text("[daemon]\nnonsense = 1\n")
    assert "workbox: the daemon can't start" in said(near)


def test_another_fairlead_there_is_not_overwritten(alone: tuple[NearHost, FarHost]) -> None:
    near, far = alone
    done = near.run("host", "install", "workbox", "--yes", check=False)
    assert done.returncode == 1
    assert "another fairlead" in done.stderr
    assert not (far.home / ".local/share/fairlead").exists()
