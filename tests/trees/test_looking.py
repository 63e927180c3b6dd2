"""To look at a repository runs nothing that it names, waits for nothing, and shows what is there."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.system import repository as looking
from fairlead.system.repository import NoRepository, Shadow
from fairlead.system.worktrees import git_branch, worktrees
from fairlead.trees import diff
from fairlead.trees.diff import NoDiff, compared, session_diff
from fairlead.trees.making import WorktreeFault, counted, losses, notes_on
from fairlead.trees.records import WorktreeRecord
from fairlead.trees.snapshots import SnapshotStore
from fairlead.ui.chat.paths import _listed
from tests.hosting import Hosting
from tests.trees.hostile import Hostile, armed
from tests.verify.projects import ENVIRONMENT, fingerprint, git, repository, write


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return armed(tmp_path)


def test_the_tripwires_of_the_hostile_repository_work(hostile: Hostile) -> None:
    (hostile.project / ".git/commondir").unlink()  # git waits for it
    for name in ("shallow", "packed-refs"):
        (hostile.project / ".git" / name).unlink()
    environment = {**ENVIRONMENT, "GIT_WORK_TREE": str(hostile.project), "GIT_DIR": ".git"}
    for words in (["status"], ["diff"], ["add", "-A"]):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["git", *words],
                cwd=hostile.project,
                env=environment,
                capture_output=True,
                timeout=20,
                check=False,
            )
    assert {"core.fsmonitor"} <= set(hostile.fired())


def looks(project: Path, state: Path) -> dict[str, Callable[[], object]]:
    record = WorktreeRecord(
        name="x",
        path=str(project),
        repository=str(project / ".git"),
        admin=str(project / ".git/worktrees/x"),
        origin=str(project),
        branch="main",
        base="HEAD",
        into="main",
        made_at=0.0,
    )

    def snapshot() -> object:
        with SnapshotStore(project, state) as store:
            return store.take()

    def listed() -> object:
        return list(_listed(str(project), time.monotonic() + 5, threading.Event()))

    return {
        "diff": lambda: session_diff(project),
        "compare": lambda: compared(project, project),
        "count": lambda: counted(record),
        "losses": lambda: losses(record),
        "notes": lambda: notes_on(record),
        "snapshot": snapshot,
        "branch": lambda: git_branch(project),
        "worktrees": lambda: worktrees(project),
        "paths of the chat": listed,
    }


def test_no_look_runs_anything_or_writes_to_the_repository(hostile: Hostile, tmp_path: Path) -> None:
    before = fingerprint(hostile.project)
    for name, look in looks(hostile.project, tmp_path / "undo").items():
        with contextlib.suppress(WorktreeFault):
            look()
        assert hostile.fired() == [], name
    assert fingerprint(hostile.project) == before


def test_what_everything_in_the_repository_hides_is_shown(hostile: Hostile) -> None:
    told = session_diff(hostile.project)
    assert "+changed = 2" in told.diff.patch
    assert "-two = 2" in told.diff.patch
    assert "new.py" in {each.path for each in told.diff.files}
    assert told.branch == "main"


def test_commands_that_look_run_nothing(hostile: Hostile, lent: Hosting) -> None:
    lent.start("roses", "exec cat", "--cwd", str(hostile.project))
    lent.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
    write(hostile.project, "more.py", "more = 1\n")
    lent.ask("terminal_turn", name="roses", event="stop", agent="claude", prompt="do it")
    for words in (
        *(["ls"], ["ls", "--json"], ["state", "roses"], ["worktree"], ["worktree", "ls", "--json"], ["top"]),
        *(
            ["diff", "roses"],
            ["diff", "roses", "--stat"],
            ["diff", "roses", "roses"],
            ["worktree", "diff", "roses"],
        ),
        *(
            ["undo", "roses", "--dry-run"],
            ["timeline", "roses"],
            ["logs", "roses"],
            ["status"],
            ["info", "roses"],
        ),
    ):
        done = lent.run(*words, check=False)
        assert "Traceback" not in done.stderr, words
        assert hostile.fired() == [], words
    assert "more.py" in lent.run("undo", "roses", "--dry-run").stdout
    rows = json.loads(lent.run("ls", "--json").stdout)
    assert any(each.get("branch") == "main" for each in rows)


@pytest.mark.parametrize("place", ["bare.git", "inner", "loop", "inside"])
def test_a_session_in_a_repository_within_is_told_of_one_that_is_understood_or_of_none(
    hostile: Hostile, place: str
) -> None:
    with contextlib.suppress(NoDiff):
        session_diff(hostile.project / place)
    assert hostile.fired() == []


def test_a_pipe_in_the_place_of_rules_is_named_and_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = repository(tmp_path / "project")
    os.mkfifo(project / "docs/.gitignore")
    monkeypatch.setattr(diff, "TAKE_SECONDS", 2.0)
    with pytest.raises(NoDiff, match=r"docs/\.gitignore is a named pipe, and git would wait for it"):
        session_diff(project)
    monkeypatch.setattr(looking, "_call", None)  # git is not asked again
    with pytest.raises(NoRepository, match="is a named pipe"):
        Shadow(project)
    monkeypatch.undo()
    (project / "docs/.gitignore").unlink()
    assert session_diff(project).diff.total == 0


@pytest.mark.parametrize("name", ["alternates", "commit-graph", "pack"])
def test_a_pipe_among_the_objects_is_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = repository(tmp_path / "project")
    monkeypatch.setattr(looking, "GIT_SECONDS", 2.0)
    places = {"alternates": "info/alternates", "commit-graph": "info/commit-graph"}
    objects = project / ".git/objects"
    if name == "pack":
        write(objects, f"pack/pack-{'1' * 40}.pack", "x")
    os.mkfifo(objects / places.get(name, f"pack/pack-{'1' * 40}.idx"))
    with pytest.raises(NoDiff, match="named pipe"):
        session_diff(project)


def test_a_device_in_the_place_of_a_list_of_objects_is_refused(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    other = repository(tmp_path / "other")
    (other / ".git/objects/info/alternates").symlink_to("/dev/zero")
    write(project / ".git/objects/info", "alternates", f"{other}/.git/objects\n")
    with pytest.raises(NoDiff, match="it is a device, not a regular file"):
        session_diff(project)


def test_a_submodule_whose_git_file_is_a_pipe_is_not_taken_for_the_repository_around_it(
    tmp_path: Path,
) -> None:
    project, library = repository(tmp_path / "project"), repository(tmp_path / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(project, "commit", "-q", "-m", "a library")
    (project / "lib/.git").unlink()
    os.mkfifo(project / "lib/.git")
    told = session_diff(project)
    assert (told.diff.total, list(told.diff.left_out)) == (0, ["lib"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_shown_without_being_trusted(hostile: Hostile) -> None:
    for above, below, names in os.walk(hostile.project):
        for name in (*below, *names):
            os.chown(os.path.join(above, name), 12345, 12345, follow_symlinks=False)
    os.chown(hostile.project, 12345, 12345)
    assert "+changed = 2" in session_diff(hostile.project).diff.patch
    assert hostile.fired() == []
