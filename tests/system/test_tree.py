"""What was judged: hashes of trees and what changed between them."""

import os
from pathlib import Path

import pytest

from fairlead.system import repository as repositories
from fairlead.system import tree as trees
from fairlead.system.repository import NoRepository, Shadow
from fairlead.system.tree import Changes, TreeFault, Watch
from tests.verify.projects import fingerprint, git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def hash_of(project: Path) -> str:
    with Watch(project) as watch:
        return watch.take().hash


def test_the_hash_is_that_of_the_tree_that_git_would_commit(project: Path) -> None:
    assert hash_of(project) == git(project, "rev-parse", "HEAD^{tree}")
    write(project, "a.py", "three = 3\n")
    write(project, "new/b.py", "x\n")
    write(project, "ignored/c.py", "x\n")
    write(project, "d.log", "x\n")
    (project / "docs/page.md").unlink()
    found = hash_of(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    assert found == git(project, "rev-parse", "HEAD^{tree}")


def test_looking_changes_neither_the_index_nor_anything_else(project: Path) -> None:
    write(project, "a.py", "staged = 1\n")
    git(project, "add", "a.py")
    write(project, "a.py", "not = 'staged'\n")
    write(project, "new.py", "x\n")
    before = fingerprint(project)
    with Watch(project) as watch:
        watch.changes(None, watch.take())
    assert fingerprint(project) == before


def test_changes_are_told_against_head_and_against_the_start_of_a_turn(project: Path) -> None:
    write(project, "a.py", "one = 1\ntwo = 2\nthree = 3\n")
    with Watch(project) as watch:
        start = watch.take()
        write(project, "a.py", "one = 1\n")
        write(project, "new.py", "x\ny\n")
        (project / "docs/page.md").unlink()
        end = watch.take()
        assert watch.changes(None, end) == Changes(("new.py",), ("a.py",), ("docs/page.md",), 2, 2)
        turn = watch.changes(start, end)
        assert turn == Changes(("new.py",), ("a.py",), ("docs/page.md",), 2, 3)
        assert turn.paths == ("a.py", "new.py")
        assert str(turn) == "3 files changed, +2 -3 lines: +new.py, ~a.py, -docs/page.md"
        assert str(watch.changes(end, end)) == "no files changed"


def test_a_start_from_an_earlier_process_gives_the_names_of_files_only(project: Path) -> None:
    write(project, "a.py", "at the start, and never committed\n")
    with Watch(project) as earlier:
        start = earlier.take()
    write(project, "a.py", "at the end\n")
    with Watch(project) as watch:
        changes = watch.changes(start, watch.take())
    assert (changes.modified, changes.insertions) == (("a.py",), None)


def test_a_repository_without_a_commit_and_one_in_a_worktree(tmp_path: Path, project: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    write(fresh, "a", "x\n")
    with Watch(fresh) as watch:
        assert watch.changes(None, watch.take()) == Changes(("a",), (), (), 1, 0)
    git(project, "worktree", "add", "-q", str(tmp_path / "other"))
    assert hash_of(tmp_path / "other") == git(project, "rev-parse", "HEAD^{tree}")


def test_a_directory_below_the_top_stands_for_the_whole_repository(project: Path) -> None:
    assert hash_of(project / "docs") == hash_of(project)


def test_submodules_are_seen_by_their_commit_and_not_looked_into(tmp_path: Path, project: Path) -> None:
    inner = repository(tmp_path / "inner")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(project, "commit", "-q", "-m", "sub")
    evil = write(tmp_path, "evil.sh", f"#!/bin/sh\ntouch {tmp_path}/PWNED\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean"):
        git(project / "sub", "config", key, str(evil))
    write(project, ".git/modules/sub/info/attributes", "*.py filter=evil\n")
    write(project, "sub/a.py", "one = 1\ntwo = 3\n")  # of the same size, so that git must read it
    with Watch(project) as watch:
        assert watch.take().hash == watch.take().hash == git(project, "rev-parse", "HEAD^{tree}")
    assert not (tmp_path / "PWNED").exists()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    assert hash_of(clone) == git(project, "rev-parse", "HEAD^{tree}")


def test_filters_monitors_and_hooks_of_the_repository_do_not_run(tmp_path: Path, project: Path) -> None:
    evil = write(tmp_path, "evil.sh", f"#!/bin/sh\ntouch {tmp_path}/PWNED\ncat\n")
    evil.chmod(0o755)
    write(project, ".gitattributes", "*.py filter=evil diff=evil\n")
    keys = (
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.external",
        "core.fsmonitor",
    )
    for key in keys:
        git(project, "config", key, str(evil))
    write(project, ".git/hooks/post-index-change", f"#!/bin/sh\n{evil}\n").chmod(0o755)
    write(project, "a.py", "changed\n")
    with Watch(project) as watch:
        assert watch.changes(None, watch.take()).modified == ("a.py",)
    assert not (tmp_path / "PWNED").exists()


def test_names_that_are_no_text_or_look_like_options_are_files_too(project: Path) -> None:
    (project / "-rf").write_text("x")
    (project / "tab\there").write_text("x")
    with open(os.fsencode(project) + b"/\xff.txt", "wb") as file:
        file.write(b"x")
    with Watch(project) as watch:
        tree = watch.take()
    assert {"-rf", "tab\there", "?.txt"} <= tree.files.keys()


# --- without git ------------------------------------------------------------------------------------------


def test_without_git_the_hash_is_of_names_modes_and_contents(tmp_path: Path) -> None:
    project = tmp_path / "plain"
    write(project, "a", "x")
    write(project, "sub/b", "y")
    write(project, "node_modules/c", "z")
    (project / "link").symlink_to("a")
    with Watch(project) as watch:
        assert "is not in a git repository" in watch.without_git
        start = watch.take()
        assert not start.is_git
        assert set(start.files) == {"a", "sub/b", "link"}
        assert watch.take() == start
        (project / "a").chmod(0o755)
        (project / "sub/b").unlink()
        write(project, "new", "n")
        changes = watch.changes(start, watch.take())
    assert str(changes) == "3 files changed: +new, ~a, -sub/b"


def test_without_git_too_much_is_a_fault_and_not_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "plain"
    write(project, "a", "xyz")
    write(project, "b", "x")
    monkeypatch.setattr(trees, "MAX_FILES", 1)
    with Watch(project) as watch, pytest.raises(TreeFault, match="more than 1 files"):
        watch.take()
    monkeypatch.setattr(trees, "MAX_FILES", 10)
    monkeypatch.setattr(trees, "MAX_BYTES", 2)
    with Watch(project) as watch, pytest.raises(TreeFault, match="more than 2 bytes"):
        watch.take()
    with Watch(project, time_limit=-1) as watch, pytest.raises(TreeFault, match="took too long"):
        watch.take()


def test_git_that_takes_too_long_is_a_fault(project: Path) -> None:
    with Watch(project, time_limit=-1) as watch, pytest.raises(TreeFault, match="no time left for git"):
        watch.take()


def test_a_directory_that_only_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(NoRepository, match="has no HEAD or no objects"):
        Shadow(tmp_path)
    (tmp_path / ".git").rmdir()
    write(tmp_path, ".git", "nonsense")
    with pytest.raises(NoRepository, match="should begin with 'gitdir:'"):
        Shadow(tmp_path)


def test_a_shadow_leaves_nothing_behind(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Shadow(project) as shadow:
        place = shadow.directory.parent
    assert not place.exists()
    monkeypatch.setattr(repositories, "MAX_INDEX", 1)
    with pytest.raises(NoRepository, match="more than 1 bytes"):
        Shadow(project)


def test_a_tree_can_be_taken_a_little_late(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "CLOCK_SECONDS", 0.0)
    with Watch(project) as watch:
        assert watch.take_at(0.0) is None  # what was before is not known
        by_a_person = write(project, "a.py", "by a person\n").stat().st_ctime
        while (moment := write(project, "new.py", "by the turn\n").stat().st_ctime) <= by_a_person:
            pass
        write(project, "docs/page.md", "by the turn\n")
        start = watch.take_at(moment)
        assert start is not None
        changes = watch.changes(start, watch.take())
        assert (changes.added, changes.modified, changes.deleted) == (("new.py",), ("docs/page.md",), ())
        (project / "new.py").unlink()
        late = watch.take_at(
            float("inf")
        )  # all that is there was there before, but what is gone may have been
        assert late is not None
        assert watch.changes(late, watch.take()).deleted == ("new.py",)
