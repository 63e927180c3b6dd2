"""What a persona must not see: every row of the attacks, in the sandbox and by the list, and its limits."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fairlead.agent.secrets import is_secret_file
from fairlead.system import bubblewrap
from fairlead.verify.checks import sandbox
from fairlead.verify.checks.sandbox import Enforcement, ReadOnly, SandboxOutcome
from fairlead.verify.project import places
from fairlead.verify.project.places import Sight
from tests.verify.attacks import IN_A_SHELL, READS, SEARCHES, SECRET
from tests.verify.projects import ENVIRONMENT, git, repository, write
from tests.verify.readers import BOTH, reader


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with secrets, a project and programs in it, which is not hidden by being in /tmp."""
    place = tmp_path / "home"
    write(place, ".ssh/id_rsa", f"{SECRET}\n")
    write(place, ".docker/config.json", f'"{SECRET}"\n')
    write(place, ".local/bin/tool", "#!/bin/sh\necho tool runs\n").chmod(0o755)
    project = repository(place / "project")
    for name in (".env", ".env-local", "terraform.tfstate"):
        write(project, name, f"TOKEN={SECRET}\n")
    write(project, "changed.env", "TOKEN=\n")
    git(project, "add", "changed.env")
    write(project, "changed.env", f"TOKEN={SECRET}\n")
    for name in (".git/config", "vendor/.git/config", ".git/modules/m/config"):
        with write(project, name, (project / ".git/config").read_text()).open("a") as file:
            file.write(f'[remote "origin"]\n\turl = https://user:{SECRET}@example.org/x\n')
    for name in ("hard", "docs/hard"):
        write(project, name, "").unlink()
        os.link(place / ".ssh/id_rsa", project / name)
    write(project, "names", f"{place}/.ssh/id_rsa\0")
    (project / "link").symlink_to(place / ".ssh")
    (project / "key-link").symlink_to("../.ssh/id_rsa")
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setattr(places, "SCRATCH", ("/var/tmp", "/run"))
    monkeypatch.setattr(sandbox, "sockets_of_all", list)  # those of other tests in /tmp come and go
    return place


def attempts(
    home: Path, enforcement: Enforcement, commands: tuple[str, ...], **more: object
) -> list[SandboxOutcome]:
    environment = {**ENVIRONMENT, "HOME": str(home), "OPENAI_API_KEY": SECRET, "HARMLESS_LOOKING": SECRET}
    project = home / "project"
    reader(project, enforcement)  # skips where there is no sandbox
    only = ReadOnly(
        project,
        environment,
        is_secret=lambda path: is_secret_file(path.relative_to(project)),
        enforcement=enforcement,
        time_limit=20.0,
        **more,  # type: ignore[arg-type]
    )

    async def all_of_them() -> list[SandboxOutcome]:
        limit = asyncio.Semaphore(4)

        async def one(command: str) -> SandboxOutcome:
            async with limit:
                return await only.run(command.replace("{home}", str(home)).replace("{pid}", str(os.getpid())))

        return await asyncio.gather(*map(one, commands))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("enforcement", BOTH)
def test_no_command_shows_a_secret(home: Path, enforcement: Enforcement) -> None:
    rows = (*READS, *(IN_A_SHELL if enforcement == "bubblewrap" else ()))
    for command, outcome in zip(rows, attempts(home, enforcement, rows), strict=True):
        assert SECRET not in outcome.text, command
        assert "root:$" not in outcome.text, command
        assert "can't be started" not in outcome.refused, command
        if enforcement == "allow-list":
            assert outcome.refused, command


@pytest.mark.parametrize("enforcement", BOTH)
def test_searches_leave_out_what_may_hold_secrets(home: Path, enforcement: Enforcement) -> None:
    write(home / "project", "found.txt", "s3cret is a word\n")
    write(home / "project", "names", "nothing\n")
    for command, outcome in zip(SEARCHES, attempts(home, enforcement, SEARCHES), strict=True):
        assert SECRET not in outcome.text, command
        assert not outcome.refused, command
    assert "found.txt" in attempts(home, enforcement, SEARCHES)[0].text


@pytest.mark.parametrize("enforcement", BOTH)
def test_what_is_needed_is_there(home: Path, enforcement: Enforcement) -> None:
    write(home / "project", "cert.pem", "kept by git\n")
    git(home / "project", "add", "cert.pem")
    journal = write(home, ".local/state/fairlead/sessions/s.jsonl", "what was said\n")
    rows = [
        "cat a.py",
        "cat cert.pem",
        "git log --oneline",
        f"cat {journal}",
        "ls /usr/bin/env",
        "grep -n / a.txt",
    ]
    write(home / "project", "a.txt", "a/b\n")
    if enforcement == "bubblewrap":
        rows += [f"{home}/.local/bin/tool", "touch ~/x /tmp/x 2>/dev/null || touch ~/x", "python3 -c 1"]
    else:
        rows.remove("grep -n / a.txt")  # it could be the root
    done = attempts(home, enforcement, tuple(rows), shown=[journal], hidden=[home / ".local/state"])
    assert [(row, each.text) for row, each in zip(rows, done, strict=True) if each.code != 0] == []
    assert "what was said" in done[3].text


def test_a_project_that_is_the_home_itself_does_not_show_what_is_hidden_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home / "project"))
    write(home / "project", ".ssh/id_ed", f"{SECRET}\n")
    write(home / "project", ".netrc", f"{SECRET}\n")
    for enforcement in BOTH:
        for outcome in attempts(home, enforcement, ("cat .ssh/id_ed", "cat .netrc", "cat .env")):
            assert SECRET not in outcome.text
            assert outcome.code != 0


def test_a_home_within_another_hidden_place_is_there_and_empty(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "HIDDEN", (str(home.parent),))  # as /home is
    rows = (
        "ls -A ~/.ssh",
        "ls -A ~/project | grep -c a.py",
        "echo x > ~/y && cat ~/y",
        f"ls -A {home.parent}",
    )
    ssh, project, own, above = attempts(home, "bubblewrap", rows)
    assert ssh.code != 0
    assert (project.text, own.text, above.text) == ("1", "x", "home")


def test_memory_and_shared_memory_are_limited_in_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "HIDDEN_BYTES", 1024 * 1024)
    only = reader(repository(tmp_path / "project"), "bubblewrap")

    def run(command: str) -> SandboxOutcome:
        return asyncio.run(only.run(command))

    assert "No space left" in run("head -c 2000000 /dev/zero > /dev/shm/x").text
    assert "Read-only" in run("echo x > /dev/x").text
    assert "MemoryError" in run(f"python3 -c 'bytearray({bubblewrap.MEMORY_BYTES})'").text
    assert run("ulimit -c").text == "0"


def test_a_command_gets_a_short_list_of_variables() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/h",
        "OPENAI_API_KEY": "x",
        "DATABASE_URL": "x",
        "LD_PRELOAD": "x",
        "LANG": "C",
    }
    assert places.bare(given) == {"PATH": "/bin", "HOME": "/h", "LANG": "C"}
    assert ReadOnly(Path("/"), given).environment.keys() == {"PATH", "HOME", "LANG"}


def test_options_with_paths_are_looked_at_however_they_are_written(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write(tmp_path, "key", "x")
    sight = Sight(project)
    for word in (
        "../key",
        "-f../key",
        "-abf../key",
        "--file=../key",
        f"{tmp_path}/key",
        "@../key",
        "-" + "x" * 999,
    ):
        assert sight.refusal(word, project), word
    for word in ("a.py", "../none", "-n", "-rn", "--file=a.py", "/usr/bin", "/dev/null", "~", "two words"):
        assert not sight.refusal(word, project) or word == "~", word
