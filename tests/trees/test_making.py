"""Worktrees that are made and removed: nothing that a repository names is run, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.system.files import replace_file
from fairlead.system.settings import Settings
from fairlead.trees import making
from fairlead.trees.making import WorktreeFault
from fairlead.trees.records import WorktreeRecord
from fairlead.trees.room import TreeRoom
from tests.verify.projects import git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


@pytest.fixture
def room(tmp_path: Path) -> TreeRoom:
    return made_room(tmp_path)


def made_room(tmp_path: Path, **settings: str) -> TreeRoom:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "FAIRLEAD_STATE_DIR": str(tmp_path / "state"),
    }
    room = TreeRoom(Settings({**environment, **settings}))
    room.records.load()
    return room


def enter(room: TreeRoom, name: str, project: Path, branch: str = "", revision: str = "") -> WorktreeRecord:
    return room._enter(name, str(project), branch, revision).record


def configured(project: Path) -> None:
    git(project, "config", "user.name", "Me")
    git(project, "config", "user.email", "me@example.org")


def test_a_worktree_is_beside_the_repository_on_a_branch_with_the_sessions_name(
    project: Path, room: TreeRoom
) -> None:
    base = git(project, "rev-parse", "HEAD")
    record = enter(room, "roses", project)
    place = Path(record.path)
    assert place == project.parent / "project.worktrees" / "roses"
    assert (record.branch, record.base, record.into) == ("roses", base, "main")
    assert git(place, "status", "--porcelain=2", "--branch").splitlines()[:2] == [
        f"# branch.oid {base}",
        "# branch.head roses",
    ]
    assert git(place, "status", "--porcelain") == git(project, "status", "--porcelain") == ""
    assert (place / "docs/page.md").read_text() == "# Page\n"
    assert f"{place}" in git(project, "worktree", "list")
    assert git(project, "fsck", "--strict") == ""
    git(project, "worktree", "prune", "--expire=now")
    assert git(place, "rev-parse", "--abbrev-ref", "HEAD") == "roses"


def test_it_begins_at_another_revision_with_another_branch_in_another_place(
    project: Path, tmp_path: Path
) -> None:
    first = git(project, "rev-parse", "HEAD")
    write(project, "b.py", "b = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    room = made_room(tmp_path, FAIRLEAD_WORKTREES_DIRECTORY=str(tmp_path / "trees"))
    record = enter(room, "roses", project, "task/roses", "HEAD~1")
    assert record.path == str(tmp_path / "trees/project/roses")
    assert (record.branch, record.base) == ("task/roses", first)
    assert not (Path(record.path) / "b.py").exists()


def test_a_session_below_the_top_works_below_the_top_of_its_worktree(project: Path, room: TreeRoom) -> None:
    entered = room._enter("roses", str(project / "docs"), "", "")
    assert entered.project == str(project.parent / "project.worktrees/roses/docs")
    (project / ".hidden").mkdir()
    entered = room._enter("hedge", str(project / ".hidden"), "", "")
    assert entered.record.below == ".hidden"
    assert entered.project == entered.record.path, "git does not have the directory"


def test_the_same_name_again_is_the_same_worktree_with_what_is_in_it(project: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    write(Path(record.path), "work.py", "work = 1\n")
    again = room._enter("roses", str(project), "", "")
    assert (again.record, again.is_new) == (record, False)
    assert (Path(record.path) / "work.py").exists()
    with pytest.raises(WorktreeFault, match="has a worktree already"):
        enter(room, "roses", project, "", "HEAD")
    with pytest.raises(WorktreeFault, match="another repository"):
        enter(room, "roses", repository(project.parent / "other"))
    shutil.rmtree(record.path)
    with pytest.raises(WorktreeFault, match="was deleted: what was committed is on the branch roses"):
        enter(room, "roses", project)


def test_names_that_are_no_branch_become_one_and_options_are_refused(project: Path, room: TreeRoom) -> None:
    assert enter(room, "-rf ../x y~^:", project).branch == "rf-x-y"
    assert enter(room, "..", project).branch == "session"
    assert enter(room, "ünïcode", project).branch == "ünïcode"
    for bad in ("--force", "-D", "a b", "a..b", "HEAD", "x.lock", "a\nb", "refs/../x", "@{u}"):
        with pytest.raises(WorktreeFault, match="can't be the name of a branch"):
            enter(room, "hedge", project, bad)
    with pytest.raises(WorktreeFault, match="has no commit '--output=x'"):
        enter(room, "hedge", project, "", "--output=x")
    assert sorted(git(project, "branch", "--format=%(refname:short)").split()) == [
        "main",
        "rf-x-y",
        "session",
        "ünïcode",
    ]


def test_a_branch_that_is_there_is_named_with_where_it_is_checked_out(project: Path, room: TreeRoom) -> None:
    with pytest.raises(WorktreeFault, match=f"main exists already, checked out in {project}"):
        enter(room, "main", project)
    git(project, "branch", "a/b")
    with pytest.raises(WorktreeFault, match="branches below a/"):
        enter(room, "a", project)
    with pytest.raises(WorktreeFault, match="there is a branch main"):
        enter(room, "roses", project, "main/roses")


def test_without_commits_without_git_and_in_a_bare_repository_it_is_refused(
    tmp_path: Path, room: TreeRoom
) -> None:
    empty, bare, plain = tmp_path / "empty", tmp_path / "bare", tmp_path / "plain"
    for each in (empty, plain):
        each.mkdir()
    git(empty, "init", "-q")
    git(tmp_path, "init", "-q", "--bare", str(bare))
    for place, why in ((empty, "no commits yet"), (bare, "bare repository"), (plain, "not in a git")):
        with pytest.raises(WorktreeFault, match=why):
            enter(room, "roses", place)
    assert not room.records.all()
    assert not list(tmp_path.glob("*.worktrees"))


def test_a_worktree_can_be_made_of_a_worktree_and_with_a_detached_head(project: Path, room: TreeRoom) -> None:
    git(project, "checkout", "-q", "--detach")
    first = enter(room, "roses", project)
    assert first.into == ""
    second = enter(room, "hedge", Path(first.path))
    assert second.into == "roses"
    assert second.path == str(project.parent / "project.worktrees/hedge")


def test_no_hook_or_filter_of_the_repository_runs(project: Path, tmp_path: Path, room: TreeRoom) -> None:
    configured(project)
    write(project, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "attributes")
    mark = tmp_path / "mark"
    evil = write(tmp_path, "evil", f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "diff.external", "gpg.program"):
        git(project, "config", key, str(evil))
    for key, value in (
        ("core.hooksPath", str(tmp_path / "hooks")),
        ("core.worktree", str(tmp_path / "elsewhere")),
        ("commit.gpgSign", "true"),
        ("filter.evil.required", "true"),
    ):
        git(project, "config", key, value)
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change", "post-rewrite"):
        for place in (tmp_path / "hooks", project / ".git/hooks"):
            write(place, hook, evil.read_text()).chmod(0o755)
    record = enter(room, "roses", project)
    write(Path(record.path), "a.py", "changed = 1\n")
    assert making.losses(record).changed == ("a.py",)
    room._remove(record, True)
    assert not mark.exists()
    git(project, "config", "--unset", "core.worktree")
    git(project, "branch", "control")  # the control: git itself runs them
    assert mark.exists()


def test_variables_of_git_in_the_environment_mean_nothing_to_a_worktree(
    project: Path, tmp_path: Path, room: TreeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    enter(room, "roses", project)
    assert git(other, "branch", "--format=%(refname:short)") == "main"


# --- removing ---------------------------------------------------------------------------------------------


def test_a_worktree_in_which_nothing_was_done_goes_with_its_branch(project: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    write(Path(record.path), "ignored/x", "built\n")
    assert making.losses(record).ignored == 1
    removed = room._remove(record, False)
    assert removed.kept == ""
    assert not os.path.lexists(record.path)
    assert not Path(record.path).parent.exists()
    assert git(project, "branch", "--format=%(refname:short)") == "main"
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert room.records.all() == []
    assert enter(room, "roses", project).branch == "roses", "the name is free again"


def test_what_is_nowhere_else_is_a_reason_not_to_remove_and_is_kept_with_force(
    project: Path, room: TreeRoom
) -> None:
    configured(project)
    record = enter(room, "roses", project)
    place = Path(record.path)
    write(place, "b.py", "b = 1\n")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "work")
    write(place, "a.py", "not committed\n")
    write(place, "new\nfile", "not known\n")
    with pytest.raises(WorktreeFault, match=r"2 files that are not .* and 1 commit that is"):
        room._remove(record, False)
    assert place.exists()
    assert room.records.all() == [record]
    removed = room._remove(record, True)
    assert not place.exists()
    assert git(project, "show", f"{removed.kept}:a.py") == "not committed"
    assert git(project, "show", f"{removed.kept}:new\nfile") == "not known"
    assert git(project, "log", "-1", "--format=%s", f"{removed.kept}~1") == "work"
    assert git(project, "branch", "--format=%(refname:short)") == "main"


def test_commits_that_another_branch_has_are_no_loss(project: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    place = Path(record.path)
    write(place, "b.py", "b = 1\n")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "work")
    git(project, "merge", "-q", "roses")
    room._remove(record, False)
    assert (project / "b.py").exists()


def test_a_worktree_whose_directory_was_deleted_can_be_removed(project: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    place = Path(record.path)
    git(place, "commit", "-q", "--allow-empty", "-m", "work")
    shutil.rmtree(place)
    with pytest.raises(WorktreeFault, match="1 commit that is on no other branch"):
        room._remove(record, False)
    removed = room._remove(record, True)
    assert git(project, "log", "-1", "--format=%s", removed.kept) == "work"
    assert room.records.all() == []


def test_a_directory_that_took_its_place_is_left_alone(project: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    shutil.rmtree(record.path)
    other = repository(Path(record.path))
    write(other, "mine.py", "mine = 1\n")
    with pytest.raises(WorktreeFault, match="is not the worktree any more"):
        room._remove(record, True)
    assert (other / "mine.py").exists()


def test_what_git_cannot_keep_is_a_reason_not_to_remove_also_with_force(
    project: Path, room: TreeRoom
) -> None:
    record = enter(room, "roses", project)
    repository(Path(record.path) / "nested")
    with pytest.raises(WorktreeFault, match="what git can't keep: nested/"):
        room._remove(record, True)
    assert (Path(record.path) / "nested/a.py").exists()


def test_what_is_written_while_it_is_removed_is_not_lost(
    project: Path, room: TreeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = enter(room, "roses", project)
    rename = os.rename

    def written_meanwhile(old: str, new: str, **more: Any) -> None:
        if old == record.path:
            write(Path(old), "late.py", "late = 1\n")
        rename(old, new, **more)

    monkeypatch.setattr("os.rename", written_meanwhile)
    with pytest.raises(WorktreeFault, match="was changed just now"):
        room._remove(record, False)
    assert (Path(record.path) / "late.py").read_text() == "late = 1\n"
    assert [each.state for each in room.records.all()] == ["ready"]


# --- daemons that die -------------------------------------------------------------------------------------


class Killed(BaseException):
    """What a test raises where a daemon dies."""


@pytest.mark.parametrize("at", range(6))
def test_a_daemon_that_died_while_it_made_one_is_followed_by_one_that_finishes(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    room = made_room(tmp_path)
    dying(monkeypatch, room, at)
    with pytest.raises(Killed):
        enter(room, "roses", project)
    monkeypatch.undo()
    room = made_room(tmp_path)
    room._finish()
    record = enter(room, "roses", project)
    assert record.state == "ready"
    assert git(Path(record.path), "status", "--porcelain") == ""
    assert git(Path(record.path), "branch", "--show-current") == "roses"
    room._remove(record, False)
    assert len(git(project, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("at", range(6))
def test_a_daemon_that_died_while_it_removed_one_loses_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    configured(project)
    room = made_room(tmp_path)
    record = enter(room, "roses", project)
    write(Path(record.path), "a.py", "work\n")
    dying(monkeypatch, room, at)
    with pytest.raises(Killed):
        room._remove(record, True)
    monkeypatch.undo()
    room = made_room(tmp_path)
    room._finish()
    found = room.records.named("roses")
    if found is not None:
        assert (Path(found.path) / "a.py").read_text() == "work\n"
        assert found.state == "ready"
        room._remove(found, True)
    kept = git(project, "for-each-ref", "--format=%(refname)", "refs/fairlead/kept").split()
    assert git(project, "show", f"{kept[0]}:a.py") == "work"
    assert len(git(project, "worktree", "list").splitlines()) == 1


def dying(monkeypatch: pytest.MonkeyPatch, room: TreeRoom, at: int) -> None:
    """Die at the number of a step: a rename, a removal, a file of git's, a call of git that writes."""
    left = at

    def step(real: Any, matters: Any = lambda *given: True) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal left
            if matters(*given):
                left -= 1
                if left < 0:
                    raise Killed
            return real(*given, **more)

        return call

    from fairlead.system.repository import Shadow

    def writes(shadow: Any, *words: str) -> bool:
        return words[0] in ("update-ref", "commit-tree") or "-u" in words

    monkeypatch.setattr(Shadow, "run", step(Shadow.run, writes))
    monkeypatch.setattr("fairlead.trees.making.replace_file", step(replace_file))
    monkeypatch.setattr(making, "unmake", lambda record: None)
    monkeypatch.setattr(room.records, "drop", lambda record: None)
    monkeypatch.setattr("os.rename", step(os.rename, lambda old, new: str(old).endswith("roses")))
    monkeypatch.setattr(shutil, "rmtree", step(shutil.rmtree, lambda place, **more: "roses" in str(place)))


def test_a_record_that_cannot_be_read_is_left_alone(project: Path, tmp_path: Path, room: TreeRoom) -> None:
    record = enter(room, "roses", project)
    write(tmp_path / "state/worktrees", "broken.json", "{")
    again = made_room(tmp_path)
    assert again.records.all() == [record]
    assert msgspec.json.decode(msgspec.json.encode(record), type=WorktreeRecord) == record


def test_submodules_are_not_checked_out_and_those_that_are_cannot_be_removed(
    project: Path, room: TreeRoom
) -> None:
    library = repository(project.parent / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "sub")
    git(project, "commit", "-q", "-m", "with a submodule")
    entered = room._enter("roses", str(project), "", "")
    place = Path(entered.record.path)
    assert entered.notes == ["submodules are not checked out: `git submodule update --init` does that"]
    assert git(place, "status", "--porcelain") == ""
    git(place, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    with pytest.raises(WorktreeFault, match="what git can't keep: sub"):
        room._remove(entered.record, True)
    git(place, "submodule", "deinit", "-q", "-f", "sub")
    room._remove(entered.record, False)


def test_a_repository_within_another_gets_worktrees_of_its_own(project: Path, room: TreeRoom) -> None:
    inner = repository(project / "inner")
    record = enter(room, "roses", inner / "docs")
    assert record.path == str(project / "inner.worktrees/roses")
    assert git(inner, "branch", "--format=%(refname:short)").split() == ["main", "roses"]
    assert git(project, "branch", "--format=%(refname:short)") == "main"


def test_files_of_a_worktree_have_the_modes_that_the_user_wants(
    project: Path, room: TreeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.keeper.masks._users", [0o022])
    before = os.umask(0o077)  # as the daemon has it
    try:
        place = Path(enter(room, "roses", project).path)
    finally:
        os.umask(before)
    modes = [oct(each.stat().st_mode & 0o777) for each in (place, place / "a.py", place / ".git")]
    assert modes == ["0o755", "0o644", "0o644"]
    assert (project / ".git/refs/heads/roses").stat().st_mode & 0o777 == 0o644


def test_commands_that_are_proposed_quote_the_name(project: Path, room: TreeRoom) -> None:
    record = enter(room, "two words", project)
    write(Path(record.path), "a.py", "changed\n")
    with pytest.raises(WorktreeFault, match="`fairlead worktree merge 'two words' -m MESSAGE` merges it"):
        room._remove(record, False)
    git(Path(record.path), "commit", "-qam", "Changed")
    with pytest.raises(WorktreeFault, match="`fairlead worktree merge 'two words'` merges it"):
        room._remove(record, False)
    shutil.rmtree(record.path)
    with pytest.raises(WorktreeFault, match="`fairlead worktree rm 'two words'` removes it"):
        enter(room, "two words", project)
