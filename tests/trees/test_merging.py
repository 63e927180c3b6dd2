"""Merging the work of a session: nothing is overwritten, nothing of the repository runs, all or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.trees import changing, merging
from fairlead.trees.changing import ChangePlan, carry_out
from fairlead.trees.making import WorktreeFault, losses
from fairlead.trees.merging import WorktreeMerge, merge, preview
from fairlead.trees.records import WorktreeRecord
from fairlead.trees.room import TreeRoom
from tests.trees.dying import dies
from tests.trees.test_making import configured, enter, made_room
from tests.verify.projects import fingerprint, git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = repository(tmp_path / "project")
    configured(project)
    return project


@pytest.fixture
def room(tmp_path: Path) -> TreeRoom:
    return made_room(tmp_path)


@pytest.fixture
def record(project: Path, room: TreeRoom) -> WorktreeRecord:
    return enter(room, "roses", project)


def committed(place: Path, **files: str) -> None:
    for name, text in files.items():
        write(place, name.replace("__", "/").replace("_", "."), text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "work")


def merged(room: TreeRoom, record: WorktreeRecord, into: str = "", message: str = "") -> WorktreeMerge:
    return merge(record, room._merges, into=into, message=message)


def status(project: Path) -> str:
    return git(project, "status", "--porcelain")


def test_a_branch_that_is_only_ahead_is_taken_over(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), a_py="one = 2\n", new__b_py="b = 1\n")
    came = merged(room, record)
    assert (came.into, came.files, came.is_merged) == ("main", 2, True)
    assert git(project, "rev-parse", "main") == git(project, "rev-parse", "roses") == came.commit
    assert (project / "a.py").read_text() == "one = 2\n"
    assert (project / "new/b.py").read_text() == "b = 1\n"
    assert status(project) == ""
    assert merged(room, record).is_merged is False
    room._remove(record, False)


def test_branches_that_went_apart_get_a_merge(project: Path, room: TreeRoom, record: WorktreeRecord) -> None:
    place = Path(record.path)
    git(place, "rm", "-q", "docs/page.md")
    committed(place, a_py="one = 1\ntwo = 2\nthree = 3\n")
    committed(project, c_py="c = 1\n")
    write(project, "ignored/x", "mine\n")
    write(project, "unknown.txt", "mine\n")
    came = merged(room, record)
    assert git(project, "log", "-1", "--format=%s %an") == "Merge roses, the work of roses Me"
    assert len(git(project, "log", "-1", "--format=%P").split()) == 2
    assert came.files == 2
    assert not (project / "docs").exists()
    assert (project / "ignored/x").read_text() == (project / "unknown.txt").read_text() == "mine\n"
    assert status(project) == "?? unknown.txt"
    assert git(project, "fsck", "--strict") == ""


def test_conflicts_are_named_and_the_branch_and_its_files_are_as_before(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), a_py="theirs = 1\n")
    committed(project, a_py="ours = 1\n")
    before = fingerprint(project / "docs"), git(project, "rev-parse", "main"), (project / "a.py").read_text()
    with pytest.raises(WorktreeFault, match=r"conflicts in a\.py; main is as it was"):
        merged(room, record)
    assert before == (
        fingerprint(project / "docs"),
        git(project, "rev-parse", "main"),
        (project / "a.py").read_text(),
    )
    assert status(project) == ""


def test_changes_where_the_branch_is_checked_out_are_a_reason_not_to_merge(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), a_py="theirs = 1\n")
    write(project, "a.py", "mine = 1\n")
    with pytest.raises(WorktreeFault, match=r"has changes: a\.py; commit or stash them first"):
        merged(room, record)
    git(project, "update-index", "--assume-unchanged", "a.py")
    with pytest.raises(WorktreeFault, match=r"has changes: a\.py"):
        merged(room, record)
    git(project, "update-index", "--no-assume-unchanged", "a.py")
    git(project, "add", "a.py")
    with pytest.raises(WorktreeFault, match=r"has changes: a\.py"):
        merged(room, record)
    git(project, "reset", "-q", "--hard")
    (project / ".git/MERGE_HEAD").write_text(record.base + "\n")
    with pytest.raises(WorktreeFault, match="in the middle of something: MERGE_HEAD"):
        merged(room, record)
    (project / ".git/MERGE_HEAD").unlink()
    (project / ".git/index.lock").touch()
    with pytest.raises(WorktreeFault, match=r"index\.lock is there"):
        merged(room, record)
    assert (project / ".git/index.lock").exists()
    (project / ".git/index.lock").unlink()
    assert merged(room, record).is_merged


@pytest.mark.parametrize("name", ["ignored/b.py", "b.log", "unknown.txt"])
def test_no_file_is_overwritten_that_git_does_not_have(
    project: Path, room: TreeRoom, record: WorktreeRecord, name: str
) -> None:
    place = Path(record.path)
    write(place, name, "theirs\n")
    git(place, "add", "-f", name)
    git(place, "commit", "-q", "-m", "work")
    write(project, name, "precious\n")
    with pytest.raises(WorktreeFault, match=f"{name} would be overwritten"):
        merged(room, record)
    assert (project / name).read_text() == "precious\n"
    assert git(project, "rev-parse", "main") == record.base
    (project / name).unlink()
    (project / name).mkdir(parents=True)
    write(project, f"{name}/inner", "precious\n")
    with pytest.raises(WorktreeFault, match="would be overwritten"):
        merged(room, record)
    assert (project / name / "inner").read_text() == "precious\n"


def test_a_link_out_of_the_tree_is_never_followed(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "sub").symlink_to(outside)
    git(project, "config", "core.excludesFile", "/dev/null")
    write(project, ".git/info/exclude", "sub\n")
    place = Path(record.path)
    write(place, "sub/evil.py", "evil\n")
    git(place, "add", "-f", "sub/evil.py")
    git(place, "commit", "-q", "-m", "work")
    with pytest.raises(WorktreeFault, match=r"sub/evil\.py would be overwritten"):
        merged(room, record)
    assert list(outside.iterdir()) == []


def test_uncommitted_work_is_committed_only_with_a_message(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    place = Path(record.path)
    write(place, "a.py", "one = 2\n")
    write(place, "-new\n.py", "new = 1\n")
    with pytest.raises(WorktreeFault, match=r"not committed: -new·\.py, a\.py; .*--message"):
        merged(room, record)
    merged(room, record, message="The work of roses")
    assert git(project, "log", "-1", "--format=%s") == "The work of roses"
    assert (project / "-new\n.py").read_text() == "new = 1\n"
    assert status(project) == status(place) == ""


def test_a_branch_that_is_not_checked_out_is_moved_alone(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    git(project, "checkout", "-q", "-b", "else")
    committed(Path(record.path), b_py="b = 1\n")
    before = fingerprint(project / "docs")
    merged(room, record)
    assert git(project, "rev-parse", "main") == git(project, "rev-parse", "roses")
    assert (fingerprint(project / "docs"), status(project)) == (before, "")
    assert not (project / "b.py").exists()


def test_without_a_branch_or_a_name_it_is_said_what_is_missing(project: Path, room: TreeRoom) -> None:
    git(project, "checkout", "-q", "--detach")
    record = enter(room, "roses", project)
    committed(Path(record.path), b_py="b = 1\n")
    with pytest.raises(WorktreeFault, match="--into BRANCH"):
        merged(room, record)
    for bad in ("nothing", "--all", "refs/heads/main", "HEAD"):
        with pytest.raises(WorktreeFault, match="there is no branch"):
            merged(room, record, bad)
    merged(room, record, "main")
    committed(Path(record.path), b_py="b = 2\n")
    git(project, "checkout", "-q", "main")
    committed(project, c_py="c = 1\n")
    git(project, "config", "--unset", "user.email")
    with pytest.raises(WorktreeFault, match=r"set user\.name and user\.email"):
        merged(room, record, "main")


def test_modes_links_and_renames_come_over(project: Path, room: TreeRoom, record: WorktreeRecord) -> None:
    place = Path(record.path)
    (place / "a.py").chmod(0o755)
    (place / "link").symlink_to("docs/page.md")
    (place / "docs/page.md").rename(place / "docs2")
    (place / "docs").rmdir()
    committed(place)
    (project / "a.py").chmod(0o600)
    merged(room, record)
    assert (project / "a.py").stat().st_mode & 0o777 == 0o700
    assert os.readlink(project / "link") == "docs/page.md"
    assert (project / "docs2").read_text() == "# Page\n"
    assert status(project) == ""


def test_a_file_that_became_a_directory_and_back_comes_over(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    place = Path(record.path)
    (place / "a.py").unlink()
    write(place, "a.py/inner.py", "x = 1\n")
    (place / "docs/page.md").unlink()
    (place / "docs").rmdir()
    committed(place, docs="now a file\n")
    merged(room, record)
    assert (project / "a.py/inner.py").read_text() == "x = 1\n"
    assert (project / "docs").read_text() == "now a file\n"
    assert status(project) == ""


def test_line_endings_are_as_the_repository_wants_them(project: Path, room: TreeRoom) -> None:
    git(project, "config", "core.autocrlf", "true")
    record = enter(room, "roses", project)
    assert (Path(record.path) / "a.py").read_bytes() == b"one = 1\r\ntwo = 2\r\n"
    (Path(record.path) / "a.py").write_bytes(b"one = 2\r\n")
    git(Path(record.path), "commit", "-q", "-a", "-m", "work")
    merged(room, record)
    assert (project / "a.py").read_bytes() == b"one = 2\r\n"
    assert status(project) == ""


def test_no_hook_filter_or_merge_driver_runs(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    mark = tmp_path / "mark"
    evil = write(tmp_path, "evil", f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    committed(
        Path(record.path), a_py="one = 1\ntwo = 2\nthree = 3\n", _gitattributes="* merge=evil filter=evil\n"
    )
    committed(project, a_py="zero = 0\none = 1\ntwo = 2\n", _gitattributes="* merge=evil filter=evil\n")
    mark.unlink(missing_ok=True)
    for key in (
        "merge.evil.driver",
        "filter.evil.smudge",
        "filter.evil.clean",
        "core.fsmonitor",
        "gpg.program",
    ):
        git(project, "config", key, f"{evil} %A")
    git(project, "config", "commit.gpgSign", "true")
    for hook in ("pre-merge-commit", "post-merge", "reference-transaction", "post-checkout", "pre-commit"):
        write(project, f".git/hooks/{hook}", evil.read_text()).chmod(0o755)
    merged(room, record)
    assert not mark.exists()
    assert (project / "a.py").read_text() == "zero = 0\none = 1\ntwo = 2\nthree = 3\n"


def test_a_tree_with_files_of_git_itself_is_refused(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    blob = git(project, "hash-object", "-w", "a.py")
    inner = git_input(project, f"100644 blob {blob}\tconfig\n")
    tree = git_input(project, f"040000 tree {inner}\t.GIT\n")
    made = git(project, "commit-tree", tree, "-p", record.base, "-m", "evil")
    git(Path(record.path), "update-ref", "refs/heads/roses", made)
    config = (project / ".git/config").read_text()
    shutil.rmtree(record.path)
    with pytest.raises(WorktreeFault, match="invalid path"):
        merged(room, record)
    assert (project / ".git/config").read_text() == config
    assert git(project, "rev-parse", "main") == record.base


def git_input(project: Path, text: str) -> str:
    done = subprocess.run(
        ["git", "mktree"], cwd=project, input=text, text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


def test_what_changes_during_a_merge_is_not_overwritten_and_the_rest_is_taken_back(
    project: Path, room: TreeRoom, record: WorktreeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(Path(record.path), a_py="one = 2\n", docs__page_md="# Other\n", b_py="b = 1\n")

    def changed_just_then(plan: ChangePlan, home: Path) -> None:
        write(project, "docs/page.md", "mine\n")
        carry_out(plan, home)

    monkeypatch.setattr(merging, "carry_out", changed_just_then)
    with pytest.raises(WorktreeFault, match="changed just now"):
        merged(room, record)
    assert (project / "docs/page.md").read_text() == "mine\n"
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    assert not (project / "b.py").exists()
    assert git(project, "rev-parse", "main") == record.base
    assert status(project) == "M docs/page.md"


def _change_again(project: Path, place: Path) -> None:
    write(place, "b.py", "b = 2\n")


def _make_executable(project: Path, place: Path) -> None:
    (place / "b.py").chmod(0o755)


def _commit_same_files(project: Path, place: Path) -> None:
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "other words")


def _commit_elsewhere(project: Path, place: Path) -> None:
    committed(project, c_py="c = 1\n")


@pytest.mark.parametrize("change", [_change_again, _make_executable, _commit_same_files, _commit_elsewhere])
def test_a_merge_of_something_else_than_what_was_shown_is_refused_and_leaves_all_as_it_was(
    project: Path, room: TreeRoom, record: WorktreeRecord, change: Callable[[Path, Path], None]
) -> None:
    place = Path(record.path)
    write(place, "b.py", "b = 1\n")
    would = preview(record, room._merges, message="Beds")
    assert would.digest == preview(record, room._merges, message="Beds").digest
    change(project, place)
    before = (git(project, "rev-parse", "main"), git(place, "rev-parse", "HEAD"), status(place))
    with pytest.raises(WorktreeFault, match="look again"):
        merge(record, room._merges, message="Beds", digest=would.digest)
    assert before == (git(project, "rev-parse", "main"), git(place, "rev-parse", "HEAD"), status(place))
    assert not (project / "b.py").exists()
    again = preview(record, room._merges, message="Beds")
    with pytest.raises(WorktreeFault, match="look again"):
        merge(
            record,
            room._merges,
            message="Beds",
            into=enter(room, "hedges", project).branch,
            digest=again.digest,
        )
    assert merge(record, room._merges, message="Beds", digest=again.digest).is_merged
    assert (project / "b.py").read_text() == (place / "b.py").read_text()


def test_a_preview_lists_what_a_merge_does_and_why_it_would_be_refused(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    place = Path(record.path)
    committed(place, a_py="one = 2\ntwo = 2\n")
    write(place, "new/b.py", "b = 1\n")
    committed(project, c_py="c = 1\n")
    objects = git(project, "count-objects")
    would = preview(record, room._merges)
    assert [each.subject for each in would.commits] == ["work"]
    assert {each.path: each.status for each in would.files} == {"a.py": "modified", "new/b.py": "added"}
    assert (would.into, would.ahead, would.total, would.uncommitted) == ("main", 1, 2, ["new/b.py"])
    assert "not committed: new/b.py" in would.refusal
    would = preview(record, room._merges, message="Beds")
    assert (would.refusal, would.total, git(project, "count-objects")) == ("", 2, objects)
    write(project, "a.py", "mine\n")
    assert "has changes: a.py" in preview(record, room._merges, message="Beds").refusal
    committed(project, a_py="mine\n")
    would = preview(record, room._merges, message="Beds")
    assert "conflicts in a.py" in would.refusal
    assert {each.path for each in would.files} == {"a.py", "new/b.py"}
    shutil.rmtree(place)
    assert "conflicts in a.py" in preview(record, room._merges).refusal
    git(project, "reset", "-q", "--hard", "HEAD~1")
    would = preview(record, room._merges)
    assert (would.refusal, [each.path for each in would.files]) == ("", ["a.py"])
    assert merge(record, room._merges, digest=would.digest).files == 1


def test_a_worktree_with_other_work_than_was_shown_is_not_removed(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    place = Path(record.path)
    write(place, "b.py", "b = 1\n")
    shown = losses(record).digest
    write(place, "b.py", "b = 2\n")
    with pytest.raises(WorktreeFault, match="look again"):
        room._remove(record, True, shown)
    assert (place / "b.py").read_text() == "b = 2\n"
    shown = losses(record).digest
    write(place, "ignored/x", "mine\n")
    with pytest.raises(WorktreeFault, match="look again"):
        room._remove(record, True, shown)
    room._remove(record, True, losses(record).digest)
    assert not place.exists()


def test_a_daemon_that_dies_at_any_step_of_a_merge_is_followed_by_one_that_finishes(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    place = Path(record.path)
    git(place, "rm", "-q", "docs/page.md")
    committed(place, a_py="one = 2\n", new__b_py="b = 1\n")
    at, merges = 0, 0
    while dies(lambda: merged(room, record), at):
        again = made_room(tmp_path)
        again._finish()
        assert status(project) == "", at
        assert not (project / ".git/index.lock").exists()
        is_merged = git(project, "rev-parse", "main") == git(project, "rev-parse", "roses")
        assert (project / "new/b.py").exists() == is_merged, at
        assert not list(again._merges.iterdir() if again._merges.exists() else [])
        merges += is_merged
        git(project, "reset", "-q", "--hard", record.base)
        at += 1
    assert at > 15
    assert merges > 5


def test_changes_in_other_files_stay_as_they_are_staged_or_not(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), b_py="b = 1\n", docs__page_md="# Theirs\n")
    write(project, "a.py", "mine = 1\n")
    write(project, "staged.py", "staged\n")
    git(project, "add", "staged.py")
    write(project, "unknown.txt", "unknown\n")
    assert merged(room, record).is_merged
    assert (project / "a.py").read_text() == "mine = 1\n"
    assert (project / "docs/page.md").read_text() == "# Theirs\n"
    assert set(status(project).splitlines()) == {"M a.py", "A  staged.py", "?? unknown.txt"}
    assert git(project, "ls-tree", "--name-only", "-r", "HEAD").split() == [
        *(".gitignore", "a.py", "b.py", "docs/page.md")
    ]


def test_a_change_in_the_place_of_what_comes_is_a_reason_not_to_merge(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), new__b_py="b = 1\n")
    write(project, "new", "mine\n")
    git(project, "add", "new")
    before = fingerprint(project)
    with pytest.raises(WorktreeFault, match=r"has changes: new; commit or stash them first"):
        merged(room, record)
    assert fingerprint(project) == before


def test_conflicts_that_are_not_solved_are_named(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), b_py="b = 1\n")
    write(project, "a.py", "mine\n")
    git(project, "stash")
    committed(project, a_py="other\n")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "stash", "pop")
    with pytest.raises(WorktreeFault, match=r"has conflicts that are not solved: a\.py"):
        merged(room, record)


def test_a_daemon_that_dies_in_a_merge_beside_staged_changes_is_followed_by_one_that_finishes(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), a_py="one = 2\n", new__b_py="b = 1\n")
    at, merges = 8, 0
    while True:
        write(project, "staged.py", "staged\n")
        git(project, "add", "staged.py")
        if not dies(lambda: merged(room, record), at):
            break
        made_room(tmp_path)._finish()
        assert status(project) == "A  staged.py", at
        is_merged = git(project, "rev-parse", "main") == git(project, "rev-parse", "roses")
        assert (project / "new/b.py").exists() == is_merged, at
        merges += is_merged
        git(project, "reset", "-q", "--hard", record.base)
        at += 3
    assert merges > 2


def test_what_becomes_of_submodules_comes_over_or_is_refused(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    library, place = repository(tmp_path / "library"), Path(record.path)
    git(place, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(place, "commit", "-q", "-m", "a library")
    write(project, "lib", "mine\n")
    with pytest.raises(WorktreeFault, match="lib is to be a submodule, and is there already"):
        merged(room, record)
    (project / "lib").unlink()
    assert merged(room, record).is_merged
    assert status(project) == ""
    assert (project / "lib").is_dir()
    git(project, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    committed(place / "lib", b_py="b = 1\n")
    git(place, "commit", "-q", "-a", "-m", "newer")
    merged(room, record)
    assert status(project) == "M lib", "the submodule has its old commit checked out"
    git(project, "submodule", "deinit", "-q", "-f", "lib")
    git(place, "rm", "-q", "-f", "lib")
    write(place, "lib", "a file\n")
    git(place, "add", "lib")
    git(place, "commit", "-q", "-m", "a file instead")
    tip = git(project, "rev-parse", "main")
    with pytest.raises(WorktreeFault, match="lib is a submodule in one branch, and files in the other"):
        merged(room, record)
    assert (git(project, "rev-parse", "main"), status(project)) == (tip, "")


def test_hooks_do_not_run_wherever_they_are(
    project: Path, tmp_path: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    mark = tmp_path / "mark"
    evil = write(tmp_path, "evil", f"#!/bin/sh\ntouch {mark}\n")
    evil.chmod(0o755)
    hooks = project / ".git/hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    (tmp_path / "linked").mkdir()
    hooks.symlink_to(tmp_path / "linked")
    for name in (
        *("pre-merge-commit", "post-merge", "prepare-commit-msg", "commit-msg", "post-commit", "pre-commit"),
        *("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-rewrite"),
    ):
        (hooks / name).symlink_to(evil)
    write(Path(record.path), "b.py", "b = 1\n")
    assert merged(room, record, message="work").is_merged
    assert not mark.exists()


def test_a_repository_without_reflogs_or_packed_refs_can_be_merged_and_cleaned_up(
    project: Path, tmp_path: Path, room: TreeRoom
) -> None:
    shutil.rmtree(project / ".git/logs")
    git(project, "config", "core.logAllRefUpdates", "false")
    record = enter(room, "hedge", project)
    write(Path(record.path), "b.py", "b = 1\n")
    assert merged(room, record, message="work").is_merged
    git(project, "pack-refs", "--all")
    assert not (project / ".git/packed-refs").is_symlink()
    room._remove(record, force=True)
    assert git(project, "branch", "--list", "hedge") == ""


def test_a_conflict_of_a_worktree_that_is_gone_says_how_to_go_on(
    project: Path, room: TreeRoom, record: WorktreeRecord
) -> None:
    committed(Path(record.path), a_py="theirs\n")
    committed(project, a_py="ours\n")
    shutil.rmtree(record.path)
    with pytest.raises(WorktreeFault, match=r"roses is gone: merge main into roses with git"):
        merged(room, record)


def test_a_merge_that_can_be_neither_finished_nor_taken_back_is_finished_by_the_next(
    project: Path, room: TreeRoom, record: WorktreeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(Path(record.path), a_py="one = 2\n", b_py="b = 1\n")
    real = changing._change

    def full(plan: ChangePlan, change: changing.FileChange, *more: object) -> bool:
        if (project / "a.py").read_text() == "one = 2\n":
            raise OSError(28, "the disk is full")
        return real(plan, change, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(changing, "_change", full)
        with pytest.raises(WorktreeFault, match=r"a merge is half done in .*: .*full; fix that, and merge"):
            merged(room, record)
        with pytest.raises(WorktreeFault, match="a merge is half done"):
            merged(room, record)
    assert not (project / ".git/index.lock").exists()
    assert merged(room, record).is_merged
    assert (project / "b.py").read_text() == "b = 1\n"
    assert git(project, "rev-parse", "main") == git(project, "rev-parse", "roses")
    assert status(project) == ""
    assert not list(room._merges.iterdir())
