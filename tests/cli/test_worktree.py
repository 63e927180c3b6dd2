"""`start --worktree`, `agent --worktree` and `fairlead worktree` with a daemon."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.talking import person
from tests.hosting import Hosting
from tests.trees.test_making import configured
from tests.verify.projects import git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def clear(hosting: Hosting, *names: str) -> None:
    """Leave no worktree behind, so that the daemon can be lent to the next test."""
    for name in names:
        hosting.run("stop", name, check=False)
        hosting.run("rm", "-y", name, check=False)
        hosting.run("worktree", "rm", "-f", "-y", name)
    shutil.rmtree(hosting.directory / "home/.local/state/fairlead/worktrees", ignore_errors=True)


def test_a_session_starts_in_a_worktree_of_its_own(lent: Hosting, project: Path) -> None:
    done = lent.run(
        *("start", "roses", "--worktree", "-d", "--cwd", str(project), "--"),
        *("sh", "-c", "echo work >work.py; exec cat"),
    )
    place = project.parent / "project.worktrees/roses"
    assert f"worktree {place}, branch roses" in done.stderr
    lent.until(lambda: (place / "work.py").exists() and bool((place / "work.py").read_text()))
    assert not (project / "work.py").exists()
    [row] = json.loads(lent.run("ls", "roses", "--json").stdout)
    assert row["project"] == str(place)
    assert (row["worktree"]["branch"], row["branch"], row["worktree"]["into"]) == ("roses", "roses", "main")
    assert "+work\n" in lent.run("diff", "roses").stdout
    assert json.loads(lent.run("diff", "roses", "--json").stdout)["since"] == "worktree"
    [listed] = json.loads(lent.run("worktree", "ls", "--json").stdout)
    assert (listed["name"], listed["path"]) == ("roses", str(place))
    assert [each["name"] for each in listed["sessions"]] == ["roses"]
    refused = lent.run("worktree", "rm", "-f", "-y", "roses", check=False)
    assert "roses is running in" in refused.stderr
    lent.run("stop", "roses")
    refused = lent.run("worktree", "rm", "-y", "roses", check=False)
    assert "1 file that is not committed (work.py)" in refused.stderr
    kept = lent.run("worktree", "rm", "-y", "-f", "roses")
    ref = kept.stdout.split()[-1].rstrip("`")
    assert git(project, "show", f"{ref}:work.py") == "work"
    assert not place.exists()
    shutil.rmtree(lent.directory / "home/.local/state/fairlead/worktrees")


def test_a_session_that_cannot_start_leaves_no_worktree(lent: Hosting, project: Path) -> None:
    done = lent.run(
        "start", "roses", "--worktree", "-d", "--cwd", str(project), "--", "/no/such/program", check=False
    )
    assert done.returncode == 127
    assert git(project, "branch", "--format=%(refname:short)") == "main"
    assert not (project.parent / "project.worktrees").exists()
    shutil.rmtree(lent.directory / "home/.local/state/fairlead/worktrees")


def test_an_agent_works_in_a_worktree_and_finds_it_again(lent: Hosting, project: Path) -> None:
    words = ("agent", "-n", "roses", "--worktree=task", "-C", str(project), "-p")
    lent.run(*words, "say: hello")
    place = project.parent / "project.worktrees/roses"
    [row] = json.loads(lent.run("ls", "roses", "--json").stdout)
    assert (row["project"], row["worktree"]["branch"]) == (str(place), "task")
    again = lent.run(*words, "say: again")
    assert "in the worktree that is there already" in again.stderr
    without = lent.run("agent", "--worktree", "-p", "say: hello", check=False)
    assert (without.returncode, "--worktree needs a NAME" in without.stderr) == (2, True)
    lent.run("agent", "-n", "hedge", "-C", str(project), "-p", "say: hello")
    refused = lent.run("agent", "-n", "hedge", "--worktree", "-C", str(project), "-p", "say: x", check=False)
    assert "session hedge works in" in refused.stderr
    assert "leave out --worktree" in refused.stderr
    assert git(project, "branch", "--format=%(refname:short)").split() == ["main", "task"]
    lent.run("rm", "-y", "hedge")
    clear(lent, "roses")


def test_worktrees_outlive_the_daemon_and_their_sessions(project: Path) -> None:
    hosting = Hosting()
    try:
        hosting.run("start", "roses", "--worktree", "-d", "--cwd", str(project), "--", "cat")
        hosting.run("stop", "roses")
        hosting.run("daemon", "stop")
        [row] = json.loads(hosting.run("worktree", "ls", "--json").stdout)
        assert (row["name"], row["sessions"]) == ("roses", [])
        write(Path(row["path"]), "work.py", "work = 1\n")
        done = hosting.run("start", "roses", "--worktree", "-d", "--cwd", str(project), "--", "cat")
        assert "in the worktree that is there already" in done.stderr
        assert (Path(row["path"]) / "work.py").exists()
    finally:
        hosting.close()


def test_a_merge_is_shown_before_it_is_done_and_what_was_not_shown_is_not_removed(
    lent: Hosting, project: Path
) -> None:
    configured(project)
    lent.run("start", "roses", "--worktree", "-d", "--cwd", str(project), "--", "cat")
    place = Path(lent.ask("worktree_list")["worktrees"][0]["path"])
    write(place, "work.py", "work = 1\n")
    done = lent.run("worktree", "merge", "roses", "--dry-run", "-m", "Work")
    assert done.stdout.splitlines() == [
        "not committed yet: work.py",
        "added      work.py",
        "1 file of main would change",
    ]
    assert "--message" in lent.run("worktree", "merge", "roses", "--dry-run").stderr
    assert not (project / "work.py").exists()
    lent.run("worktree", "merge", "roses", "-m", "Work")
    assert (project / "work.py").exists()
    lent.run("stop", "roses")
    with person(lent, "worktree", "rm", "--force", "roses") as asked:
        asked.until("[y/N]")
        write(place, "work.py", "work = 2\n")
        asked.type("y\r")
        asked.until("look again")
    assert (place / "work.py").read_text() == "work = 2\n"
    clear(lent, "roses")


def test_a_prompt_for_an_agent_whose_directory_is_gone_fails_and_says_so(
    hosting: Hosting, tmp_path: Path
) -> None:
    (place := tmp_path / "bed").mkdir()
    hosting.run("agent", "-n", "homeless", "-C", str(place), "-p", "ls")
    place.rmdir()
    done = hosting.run("prompt", "homeless", "ls", "--wait", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"homeless: failed: its directory {place} is gone" in done.stderr
    place.mkdir()
    assert "done after" in hosting.run("prompt", "homeless", "ls", "--wait").stderr


def test_a_session_whose_directory_is_gone_is_listed_as_such(hosting: Hosting, tmp_path: Path) -> None:
    (place := tmp_path / "beds").mkdir()
    hosting.start("lost", "exec sleep 1000", "--cwd", str(place))
    assert "directory gone" not in hosting.run("ls").stdout
    place.rmdir()
    hosting.until(lambda: "directory gone" in hosting.run("ls").stdout)
    (listed,) = [row for row in hosting.ask("session_list")["sessions"] if row["name"] == "lost"]
    assert listed["directory_gone"] is True
    hosting.run("stop", "lost")
