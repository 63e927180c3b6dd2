"""Undo: files are as they were before a turn, byte for byte, and nothing that a person did is lost."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from fairlead.trees.planning import UndoFault, Undone
from fairlead.trees.undoing import Undoer
from tests.trees.dying import dies
from tests.trees.turning import Turns
from tests.verify.projects import fingerprint, git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


@pytest.fixture
def turns(project: Path, tmp_path: Path) -> Turns:
    return Turns(project, tmp_path / "undo")


def actions(undone: Undone) -> dict[str, str]:
    return {each.path: each.action for each in undone.files}


def test_what_a_turn_changed_made_and_removed_is_put_back(project: Path, turns: Turns) -> None:
    write(project, "a.py", "not committed\n")
    before = fingerprint(project, times=False)
    with turns:
        write(project, "a.py", "changed\n")
        (project / "docs/page.md").unlink()
        (project / "docs").rmdir()
        write(project, "new/deep/file", "new\n")
        write(project, "ignored/file", "built\n")
    dry = turns.undo(is_dry=True)
    assert actions(dry) == {"a.py": "restore", "docs/page.md": "create", "new/deep/file": "remove"}
    assert (project / "a.py").read_text() == "changed\n"
    turns.undo()
    assert (project / "ignored/file").read_text() == "built\n", "what git ignores stays"
    (project / "ignored/file").unlink()
    (project / "ignored").rmdir()
    assert fingerprint(project, times=False) == before
    with pytest.raises(UndoFault, match="nothing to undo"):
        turns.undo()


def test_the_repository_is_not_touched(project: Path, turns: Turns) -> None:
    write(project, "a.py", "staged\n")
    git(project, "add", "a.py")
    before = fingerprint(project / ".git")
    with turns:
        write(project, "a.py", "changed\n")
        write(project, "b.py", "b = 1\n")
    turns.undo()
    assert fingerprint(project / ".git") == before
    assert (project / "a.py").read_text() == "staged\n"


def test_permissions_links_and_odd_names_are_put_back(project: Path, turns: Turns) -> None:
    write(project, "secret", "s\n").chmod(0o600)
    write(project, "tool", "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to("/etc/passwd")
    write(project, "-rf", "x\n")
    before = fingerprint(project, times=False)
    odd = Path(os.fsdecode(os.fsencode(project) + b'/n\xff\n"e'))
    odd.write_text("odd\n")
    with turns:
        (project / "secret").unlink()
        (project / "tool").chmod(0o644)
        (project / "a.py").chmod(0o600)
        (project / "link").unlink()
        write(project, "link/file", "x\n")
        (project / "-rf").unlink()
        odd.write_text("changed\n")
    turns.undo()
    assert odd.read_text() == "odd\n"
    odd.unlink()
    assert (project / "secret").stat().st_mode & 0o777 == 0o600
    assert os.readlink(project / "link") == "/etc/passwd"
    assert fingerprint(project, times=False) == before


def test_a_directory_that_became_a_link_out_of_the_tree_is_not_followed(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    outside = tmp_path / "outside"
    write(outside, "page.md", "precious\n")
    with turns:
        (project / "docs/page.md").unlink()
        (project / "docs").rmdir()
        (project / "docs").symlink_to(outside)
    turns.undo()
    assert (project / "docs/page.md").read_text() == "# Page\n"
    assert not (project / "docs").is_symlink()
    assert (outside / "page.md").read_text() == "precious\n"


def test_what_a_person_changed_since_is_overwritten_only_by_force_and_comes_back(
    project: Path, turns: Turns
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
    write(project, "a.py", "person\n")
    write(project, "mine.py", "person\n")
    assert [each.path for each in turns.undo(is_dry=True).files if each.is_changed_since] == ["a.py"]
    with pytest.raises(UndoFault, match=r"changed since: a\.py; --force"):
        turns.undo()
    assert (project / "b.py").exists()
    turns.undo(force=True)
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    assert not (project / "b.py").exists()
    turns.undo(redo=True)
    assert (project / "a.py").read_text() == "person\n"
    assert (project / "b.py").read_text() == "agent\n"
    assert (project / "mine.py").read_text() == "person\n"
    turns.undo(force=True)
    assert not (project / "b.py").exists(), "what was done again can be undone again"


def test_only_what_was_shown_is_undone(project: Path, turns: Turns) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
    shown = turns.undo(is_dry=True)
    assert turns.undo(is_dry=True).digest == shown.digest
    write(project, "a.py", "mine\n")
    changed = turns.undo(is_dry=True)
    write(project, "a.py", "mine, too\n")
    for digest in (shown.digest, changed.digest):  # the second listed the same files
        for force in (False, True):
            with pytest.raises(UndoFault, match="look again"):
                turns.undo(force=force, digest=digest)
    assert (project / "a.py").read_text() == "mine, too\n"
    with turns:
        write(project, "c.py", "agent\n")
    with pytest.raises(UndoFault, match="look again"):
        turns.undo(digest=shown.digest)
    assert (project / "c.py").exists()
    turns.undo(digest=turns.undo(is_dry=True).digest)
    turns.undo(force=True, digest=turns.undo(is_dry=True).digest)
    assert not (project / "b.py").exists()
    shown = turns.undo(redo=True, is_dry=True)
    write(project, "b.py", "mine\n")
    with pytest.raises(UndoFault, match="look again"):
        turns.undo(redo=True, force=True, digest=shown.digest)
    assert (project / "b.py").read_text() == "mine\n"
    turns.undo(redo=True, force=True, digest=turns.undo(redo=True, is_dry=True).digest)
    assert (project / "b.py").read_text() == "agent\n"


def test_several_turns_are_undone_at_once_or_one_after_the_other(project: Path, turns: Turns) -> None:
    for text in ("first\n", "second\n", "third\n"):
        with turns:
            write(project, "a.py", text)
        with turns:
            pass
    turns.undo()
    assert (project / "a.py").read_text() == "second\n"
    assert turns.undo(2).turns == [1, 3]
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    turns.undo(redo=True)
    turns.undo(redo=True)
    assert (project / "a.py").read_text() == "third\n"


def test_what_a_person_changed_between_two_turns_is_named(project: Path, turns: Turns) -> None:
    with turns:
        write(project, "a.py", "first\n")
    write(project, "a.py", "person\n")
    with turns:
        write(project, "a.py", "second\n")
    with pytest.raises(UndoFault, match=r"changed since: a\.py"):
        turns.undo(2)
    turns.undo()
    assert (project / "a.py").read_text() == "person\n"


def test_another_session_that_worked_there_meanwhile_is_named(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    other = Turns(project, tmp_path / "undo", "hedge")
    other.undoer = turns.undoer
    with turns:
        with other:
            write(project, "b.py", "other\n")
            with pytest.raises(UndoFault, match="nothing is known"):
                Turns(project, tmp_path / "empty").undo()
        write(project, "a.py", "mine\n")
    with pytest.raises(UndoFault, match=r"hedge worked there meanwhile and may have changed b\.py, too"):
        turns.undo()
    with turns:
        write(project, "a.py", "more\n")
        with pytest.raises(UndoFault, match="garden works there now"):
            turns.undo()


def test_another_session_that_changed_none_of_the_files_is_no_reason_to_refuse(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    early, late = (Turns(project, tmp_path / "undo", name) for name in ("hedge", "weeds"))
    early.undoer = late.undoer = turns.undoer
    with early:
        turns.__enter__()
    write(project, "a.py", "mine\n")
    with late:
        pass
    turns.__exit__()
    undone = turns.undo()
    assert (undone.others, actions(undone)) == ((), {"a.py": "restore"})
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    with turns, late:
        write(project, "a.py", "whose?\n")
    with pytest.raises(UndoFault, match=r"weeds worked there meanwhile and may have changed a\.py"):
        turns.undo()


def test_sessions_that_are_gone_are_found_by_id_by_name_and_by_the_beginning_of_an_id(
    project: Path, tmp_path: Path
) -> None:
    undoer = Undoer(tmp_path / "undo")
    ids = ("0c0b2e1a-88", "0c0b2e1b-99", "5d/x")
    for id, name in zip(ids, ("hedge", "hedge", "roses"), strict=True):
        undoer.began(id, 1, str(project), time.monotonic() + 60, name)
        undoer.ended(id, 1)

    def former(word: str) -> set[str]:
        return {each.id for each in undoer.former(word)}

    assert former("0c0b2e1a-88") == former("0c0b2e1a") == {ids[0]}
    assert former("hedge") == set(ids[:2])
    assert former("roses") == former("5d/x") == {ids[2]}
    assert former("0c0b2e1") == former("weeds") == set()


def test_a_file_that_git_ignored_before_the_turn_is_never_removed(project: Path, turns: Turns) -> None:
    write(project, "ignored/data", "precious\n")
    write(project, "x.log", "precious\n")
    with turns:
        write(project, ".gitignore", "*.log\n")
        write(project, "new.txt", "new\n")
    undone = turns.undo()
    assert undone.left == ("ignored/data",)
    assert (project / "ignored/data").read_text() == "precious\n"
    assert not (project / "new.txt").exists()
    assert (project / ".gitignore").read_text() == "ignored/\n*.log\n"


def test_line_endings_are_kept_byte_for_byte_and_no_filter_runs(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    mark = tmp_path / "mark"
    evil = write(tmp_path, "evil", f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    write(
        project,
        ".gitattributes",
        "* text=auto filter=evil ident\n*.py text eol=lf working-tree-encoding=UTF-16\n",
    )
    for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor"):
        git(project, "config", key, str(evil))
    git(project, "config", "core.autocrlf", "true")
    (project / "a.py").write_bytes(b"mixed\r\nendings\n$Id$\r")
    with turns:
        (project / "a.py").write_bytes(b"changed\n")
    turns.undo()
    assert (project / "a.py").read_bytes() == b"mixed\r\nendings\n$Id$\r"
    assert not mark.exists()


def test_marks_in_the_users_index_hide_no_change(project: Path, turns: Turns) -> None:
    git(project, "update-index", "--assume-unchanged", "a.py")
    git(project, "update-index", "--skip-worktree", "docs/page.md")
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "docs/page.md", "agent\n")
    turns.undo()
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    assert (project / "docs/page.md").read_text() == "# Page\n"


def test_contents_outlive_git_gc_and_a_commit_of_the_turn(project: Path, turns: Turns) -> None:
    write(project, "staged.py", "staged\n")
    git(project, "add", "staged.py")
    with turns:
        git(project, "rm", "-q", "-f", "--cached", "staged.py")
        (project / "staged.py").unlink()
        git(project, "commit", "-q", "--allow-empty", "-m", "by the agent")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "-q", "--prune=now")
    turns.undo()
    assert (project / "staged.py").read_text() == "staged\n"
    assert git(project, "log", "-1", "--format=%s") == "by the agent"


def test_without_git_nothing_is_known_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    turns = Turns(tmp_path / "plain", tmp_path / "undo")
    with turns:
        write(tmp_path / "plain", "a.py", "a\n")
    with pytest.raises(UndoFault, match="not in a git repository"):
        turns.undo()


def test_a_repository_without_commits_works_too(tmp_path: Path) -> None:
    project = tmp_path / "empty"
    project.mkdir()
    git(project, "init", "-q")
    write(project, "a.py", "mine\n")
    turns = Turns(project, tmp_path / "undo")
    with turns:
        write(project, "a.py", "agent\n")
    turns.undo()
    assert (project / "a.py").read_text() == "mine\n"


def test_a_turn_that_changes_too_much_goes_on_and_has_no_undo(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "a.py", "first\n")
    monkeypatch.setattr("fairlead.trees.taking.MAX_FILES", 1)
    with turns:
        for number in range(3):
            write(project, f"{number}.py", "x\n")
    with pytest.raises(UndoFault, match="at most 1 can be compared"):
        turns.undo()


def test_a_file_in_the_middle_of_a_conflict_is_put_back(project: Path, turns: Turns) -> None:
    git(project, "checkout", "-q", "-b", "other")
    write(project, "a.py", "theirs\n")
    git(project, "commit", "-q", "-a", "-m", "theirs")
    git(project, "checkout", "-q", "main")
    write(project, "a.py", "ours\n")
    git(project, "commit", "-q", "-a", "-m", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "other")
    conflict = (project / "a.py").read_text()
    with turns:
        write(project, "a.py", "solved\n")
    turns.undo()
    assert (project / "a.py").read_text() == conflict


def test_a_daemon_that_dies_at_any_step_of_an_undo_is_followed_by_one_that_finishes(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        (project / "docs/page.md").unlink()
        write(project, "new/b.py", "agent\n")
    at, undone = 0, 0
    while dies(turns.undo, at):
        again = Turns(project, tmp_path / "undo")
        again.undoer.finish()
        is_undone = (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
        assert (project / "docs/page.md").exists() == is_undone, at
        assert (project / "new/b.py").exists() != is_undone, at
        if is_undone:
            undone += 1
            again.undo(redo=True)
        assert (project / "a.py").read_text() == "agent\n", at
        assert (project / "new/b.py").exists(), at
        at += 1
    assert at > 10
    assert undone > 3
