"""`fairlead undo` of what an agent's turn changed, with a daemon."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hosting import Hosting
from tests.verify.projects import git, repository, write


def test_an_agents_turn_is_shown_undone_and_done_again(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        words = ("agent", "-n", "garden", "-C", str(project), "--yes", "-p")
        hosting.run(*words, "say: hello")
        hosting.run(*words, "write out.txt: hello")
        assert (project / "out.txt").exists()
        dry = hosting.run("undo", "garden", "--dry-run").stdout
        assert dry == "- out.txt\n"
        assert (project / "out.txt").exists()
        hosting.run("daemon", "restart")
        told = json.loads(hosting.run("undo", "garden", "-y", "--json").stdout)
        assert [each["action"] for each in told["files"]] == ["remove"]
        assert not (project / "out.txt").exists()
        assert git(project, "status", "--porcelain") == ""
        nothing = hosting.run("undo", "garden", "-y", check=False)
        assert (nothing.returncode, "nothing to undo" in nothing.stderr) == (1, True)
        hosting.run("undo", "garden", "--redo", "-y")
        write(project, "out.txt", "mine\n")
        refused = hosting.run("undo", "garden", "-y", check=False)
        assert "changed since: out.txt" in refused.stderr
        assert (project / "out.txt").read_text() == "mine\n"
        hosting.run("undo", "garden", "-y", "-f")
        assert not (project / "out.txt").exists()
    finally:
        hosting.close()


def test_the_hook_of_an_agent_in_a_terminal_returns_when_its_files_are_known(
    lent: Hosting, tmp_path: Path
) -> None:
    project = repository(tmp_path / "project")
    lent.start("roses", "exec cat", "--cwd", str(project))
    lent.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
    write(project, "a.py", "agent\n")
    lent.ask("terminal_turn", name="roses", event="stop", agent="claude", prompt="do it")
    assert lent.run("undo", "roses", "--dry-run").stdout == "~ a.py\n"
    lent.run("undo", "roses", "-y")
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
