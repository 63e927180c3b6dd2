"""A project whose files are traps: pipes, devices and links to what is private. Opening a session there holds
nobody up and tells a model nothing of it; the watch over loops in `tests/conftest.py` looks on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fairlead.agent.journal import Journal, Said
from fairlead.agent.messages import user
from fairlead.client.calls import RequestError
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests.agent.openai_server import OpenAiServer, answer
from tests.cli.configured import configure, lab
from tests.hosting import Hosting

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    held_up = hosting.held_up()
    hosting.close()
    assert not held_up


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Traps wherever something of a project is read."""
    project = tmp_path / "project"
    (project / ".fairlead/skills/s").mkdir(parents=True)
    (project / ".pi/prompts").mkdir(parents=True)
    (project / ".git/worktrees/w").mkdir(parents=True)
    (project / "CLAUDE.md").symlink_to("/dev/zero")
    (project / ".fairlead/prompts").symlink_to("/dev")
    (project / ".pi/prompts/full.md").symlink_to("/dev/zero")
    pipes = ("AGENTS.md", ".pi/prompts/p.md", ".fairlead/skills/s/SKILL.md")
    for each in (*pipes, ".git/HEAD", ".git/commondir", ".git/worktrees/w/gitdir", ".gitignore"):
        os.mkfifo(project / each)
    return project


def test_pipes_in_a_project_hold_up_nobody(hosting: Hosting, project: Path) -> None:
    done = hosting.run("agent", "-C", str(project), "-p", "say: hello")
    assert "hello" in done.stdout
    assert f"{project}/AGENTS.md is not used: it is a named pipe, not a regular file" in done.stderr
    assert f"{project}/AGENTS.md is not used" in hosting.log()
    with DaemonConnection(Settings(hosting.environment), start=False) as control:
        session = control.ask("open_session", cwd=str(project))["session_id"]
        for op, params in (
            ("command", {"text": "/worktree"}),
            ("query_eql", {"query": "[:psi.agent-session/git-branch :psi.agent-session/prompt-templates]"}),
            ("bash", {"command": "true"}),
        ):
            control.ask(op, session_id=session, **params)
        for path in (project / "AGENTS.md", "/dev/zero", project):
            with pytest.raises(RequestError, match="not found"):
                control.ask("switch_session", session_path=str(path))
    hosting.start("claude", "sleep 1000")
    for path in (project / "AGENTS.md", "/dev/zero", project):
        for event in ("start", "stop"):
            assert hosting.ask("terminal_turn", name="claude", event=event, agent="x", path=str(path))


def test_a_question_in_a_project_with_pipes_is_there_after_a_restart(hosting: Hosting, project: Path) -> None:
    (project / "AGENTS.md").unlink()
    session = hosting.ask("open_session", cwd=str(project))["session_id"]
    hosting.ask("prompt", session_id=session, message="run: touch done")
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    os.mkfifo(project / "AGENTS.md")
    hosting.kill_daemon()
    [row] = hosting.ask("approvals")["approvals"]
    hosting.run("approvals", "allow", row["token"])
    hosting.until((project / "done").exists)


def test_no_link_of_a_project_tells_a_model_what_is_private(hosting: Hosting, tmp_path: Path) -> None:
    private = tmp_path / "private/.ssh"
    private.mkdir(parents=True)
    (private / "id_rsa").write_text(SECRET)
    (private / "x.md").write_text(SECRET)
    project = tmp_path / "project"
    (project / ".fairlead/prompts").mkdir(parents=True)
    (project / ".pi").mkdir()
    (project / ".env").write_text(SECRET)
    (project / "AGENTS.md").symlink_to(private / "id_rsa")
    (project / "CLAUDE.md").symlink_to(".env")
    (project / ".fairlead/prompts/y.md").symlink_to(private / "x.md")
    (project / ".pi/prompts").symlink_to(private)
    with OpenAiServer([answer("one"), answer("two"), answer("three")]) as server:
        configure(hosting, lab(server))
        done = hosting.run("agent", "-C", str(project), "-p", "hello")
        assert "AGENTS.md is not used: it leads to a file that may hold secrets" in done.stderr
        assert "CLAUDE.md is not used: it leads to a file that may hold secrets" in done.stderr
        said = [
            json.loads(row)
            for row in hosting.run("agent", "-C", str(project), "--json", "hi").stdout.splitlines()
        ]
        notices = [row["data"]["message"] for row in said if row.get("topic") == "ui/notification"]
        assert f"{project}/.pi/prompts/x.md is not used: it leads to a file that may hold secrets" in notices
        assert (
            f"{project}/.fairlead/prompts/y.md is not used: it leads to a file that may hold secrets"
            in notices
        )
        (project / "AGENTS.md").unlink()
        (tmp_path / "outside.md").write_text(SECRET)
        (project / "AGENTS.md").symlink_to("../outside.md")
        (project / "CLAUDE.md").unlink()
        (project / "real.md").write_text("use tabs")
        (project / "CLAUDE.md").symlink_to("real.md")
        done = hosting.run("agent", "-C", str(project), "-p", "hello")
        assert f"AGENTS.md is not used: it is a link to outside of {project}" in done.stderr
        assert "use tabs" in str(server.requests[-1])
        assert SECRET not in str(server.requests)


def test_nothing_is_written_through_what_lies_beside_a_journal(hosting: Hosting, tmp_path: Path) -> None:
    """A link or a pipe with the name of a file that is written beside a journal."""
    mine = tmp_path / "mine"
    mine.write_text("precious")

    def link(path: Path) -> None:
        path.symlink_to(mine)

    traps: tuple[Callable[[Path], None], ...] = (link, os.mkfifo)
    for number, trap in enumerate(traps):
        path = tmp_path / f"{number}.jsonl"
        with Journal.create(str(path), id=f"id-{number}", cwd=str(tmp_path)) as journal:
            journal.append(Said(user("before")))
        with path.open("a") as file:
            file.write('{"torn')
        for suffix in (".half", ".torn"):
            trap(path.with_name(path.name + suffix))
        trap(path.with_suffix(".html"))
        with pytest.raises(RequestError, match="can't repair"):
            hosting.ask("switch_session", session_path=str(path))
        path.with_name(path.name + ".torn").unlink()
        session = hosting.ask("switch_session", session_path=str(path))["session_id"]
        with pytest.raises(RequestError, match="can't write"):
            hosting.ask("export_html", session_id=session)
        hosting.ask("prompt", session_id=session, message="say: hello")
        hosting.until(partial(_is_answered, path))
    assert mine.read_text() == "precious"


def _is_answered(path: Path) -> bool:
    return '"role":"assistant"' in path.read_text()


def test_a_search_follows_no_pipe_for_its_rules(project: Path) -> None:
    ripgrep = [sys.executable, "-m", "fairlead.agent.tools.ripgrep", "--files", "--null", str(project)]
    assert subprocess.run(ripgrep, capture_output=True, timeout=30, check=False).returncode in (0, 1)
