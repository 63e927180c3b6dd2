"""Undo, when something is in the way: daemons that die, people who edit at the same time, turns that nobody
saw, files that no snapshot has. Nothing is lost, and what was not done is said."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fairlead.system.repository import Shadow
from fairlead.trees import changing, snapshots, taking
from fairlead.trees.planning import UndoFault
from tests.trees.dying import DEAD, dies
from tests.trees.turning import Turns
from tests.verify.projects import fingerprint, git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


@pytest.fixture
def turns(project: Path, tmp_path: Path) -> Turns:
    return Turns(project, tmp_path / "undo")


@pytest.fixture
def other(project: Path, tmp_path: Path, turns: Turns) -> Turns:
    """The same turns, as the next daemon knows them."""
    return Turns(project, tmp_path / "undo")


# --- daemons that die -------------------------------------------------------------------------------------


def test_what_a_person_writes_after_a_daemon_died_in_a_forced_undo_is_not_overwritten(
    project: Path,
) -> None:
    at = 0
    while True:
        state = project.parent / f"undo-{at}"
        turns, other = Turns(project, state), Turns(project, state)
        write(project, "a.py", "one = 1\ntwo = 2\n")
        (project / "b.py").unlink(missing_ok=True)
        with turns:
            write(project, "a.py", "agent\n")
            write(project, "b.py", "agent\n")
        write(project, "a.py", "person\n")
        if not dies(partial(turns.undo, force=True), at):
            break
        write(project, "a.py", "person again\n")
        other.undoer.finish()
        assert (project / "a.py").read_text() == "person again\n", at
        at += 3
    assert at > 10


def test_the_next_undo_says_what_became_of_one_that_was_killed(
    project: Path, turns: Turns, other: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
    real = changing._change

    def killed(plan: changing.ChangePlan, change: changing.FileChange, *more: object) -> bool:
        if change.name == "a.py":
            os._exit(DEAD)
        return real(plan, change, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(changing, "_change", killed)
        assert dies(turns.undo, 1000)
    assert not (project / "b.py").exists(), "it is half done"
    write(project, "a.py", "person\n")
    (said,) = other.undoer.finish()
    assert "killed during an undo, which was finished by the next one, but not for a.py" in said
    assert (project / "a.py").read_text() == "person\n"
    dry = other.undo(redo=True, is_dry=True)
    assert "but not for a.py" in dry.notes[0]
    assert [each.path for each in dry.files if each.is_changed_since] == ["a.py"]


def test_an_undo_that_is_being_taken_back_when_the_daemon_dies_is_taken_back(
    project: Path, turns: Turns, other: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        write(project, f"{name}.py", "mine\n")
    with turns:
        for name in "abc":
            write(project, f"{name}.py", "agent\n")
    before = fingerprint(project, times=False)
    real = changing._change

    def disturbed(plan: changing.ChangePlan, change: changing.FileChange, *more: object) -> bool:
        if change.name == "c.py" and change.after.digest == digest_of("mine\n"):
            raise OSError(28, "the disk is full")
        return real(plan, change, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(changing, "_change", disturbed)
    at, halves = 0, 0
    while dies(lambda: fails(turns.undo), at):
        monkeypatch.setattr(changing, "_change", real)
        if any((project.parent / "undo/plans").glob("*/turned")):
            halves += 1
            other.undoer.finish()
            assert fingerprint(project, times=False) == before, at
        else:
            other.undoer.finish()
            if fingerprint(project, times=False) != before:
                other.undo(redo=True)
        assert fingerprint(project, times=False) == before, at
        monkeypatch.setattr(changing, "_change", disturbed)
        at += 3
    assert halves > 1
    assert fingerprint(project, times=False) == before
    assert not list((project.parent / "undo/plans").iterdir())


def fails(work: Callable[[], object]) -> None:
    with pytest.raises(UndoFault, match="the disk is full"):
        work()


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_undo_that_can_be_neither_finished_nor_taken_back_stays_until_it_can(
    project: Path, turns: Turns, other: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
    real = changing._change

    def full(plan: changing.ChangePlan, change: changing.FileChange, *more: object) -> bool:
        if change.name == "a.py":
            raise OSError(28, "the disk is full")
        return real(plan, change, *more)  # type: ignore[arg-type]

    def very_full(plan: changing.ChangePlan, change: changing.FileChange, *more: object) -> bool:
        if not (project / "b.py").exists():
            raise OSError(28, "the disk is full")
        return full(plan, change, *more)

    monkeypatch.setattr(changing, "_change", very_full)
    with pytest.raises(UndoFault, match=r"half done, and can be neither finished nor taken back now.*full"):
        turns.undo()
    with turns:
        pass
    with pytest.raises(UndoFault, match="half done"):
        other.undo()
    monkeypatch.setattr(changing, "_change", real)
    other.undo(force=True)
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    assert not (project / "b.py").exists()


# --- turns that were not seen -----------------------------------------------------------------------------


def test_a_turn_that_was_not_recorded_is_said_and_earlier_ones_are_undone_only_by_force(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "b.py", "first\n")
    with monkeypatch.context() as patched:
        patched.setattr(taking, "MAX_FILES", 0)
        with turns:
            write(project, "a.py", "second\n")
    with pytest.raises(UndoFault, match=r"turn 2 was not recorded: .* at most 0 can be compared.*--force"):
        turns.undo()
    (note,) = turns.undo(is_dry=True).notes
    assert "turn 2 was not recorded" in note
    assert turns.undo(force=True).turns == [1]
    assert (project / "a.py").read_text() == "second\n"
    assert not (project / "b.py").exists()


def test_a_turn_whose_beginning_took_too_long_to_note_is_said(project: Path, turns: Turns) -> None:
    turns.undoer.began("garden", 1, str(project), time.monotonic() - 1)
    write(project, "a.py", "agent\n")
    turns.undoer.ended("garden", 1)
    with pytest.raises(UndoFault, match=r"turn 1 was not recorded: its files were noted only after"):
        turns.undo()


def test_a_turn_of_which_only_the_end_was_seen_is_said(project: Path, turns: Turns) -> None:
    with turns:
        write(project, "a.py", "first\n")
    turns.undoer.ended("garden", 7, str(project), time.time())
    with pytest.raises(UndoFault, match="turn 7 was not recorded: nobody saw its beginning"):
        turns.undo()


def test_a_turn_whose_end_was_not_recorded_is_said(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, turns:
        write(project, "a.py", "agent\n")
        patched.setattr(taking, "MAX_FILES", 0)
    write(project, "a.py", "person\n")
    with pytest.raises(UndoFault, match=r"nothing to undo: turn 1 was not recorded"):
        turns.undo(force=True)
    assert (project / "a.py").read_text() == "person\n"


def test_a_file_that_becomes_a_pipe_while_the_end_is_recorded_is_looked_at_again(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Shadow.run
    swapped: list[Path] = []

    def swapping(shadow: Shadow, *words: str, **more: object) -> bytes:
        if words[:2] == ("update-index", "--add") and not swapped:
            swapped.append(pipe := project / "b.py")
            pipe.unlink()
            os.mkfifo(pipe)
        return real(shadow, *words, **more)  # type: ignore[arg-type]

    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
        monkeypatch.setattr(Shadow, "run", swapping)
    assert swapped
    turns.undo()
    assert (project / "a.py").read_text() != "agent\n"


def test_what_was_changed_after_an_end_that_nobody_saw_is_no_part_of_the_turn_for_sure(
    project: Path, turns: Turns, other: Turns
) -> None:
    turns.undoer.began("garden", 1, str(project), time.monotonic() + 60)
    write(project, "a.py", "agent\n")
    write(project, "mine.py", "person\n")
    with pytest.raises(UndoFault, match=r"nobody saw the end of turn 1: what was changed since.*--force"):
        other.undo()
    assert "nobody saw the end" in other.undo(is_dry=True).notes[0]
    other.undoer.ended("garden", 1)
    with pytest.raises(UndoFault, match="nobody saw the end of turn 1"):
        other.undo()
    other.undo(force=True)
    other.undo(redo=True)
    assert (project / "mine.py").read_text() == "person\n"


def test_what_was_changed_between_the_end_and_its_snapshot_counts_as_changed_since(
    project: Path, turns: Turns
) -> None:
    turns.undoer.began("garden", 1, str(project), time.monotonic() + 60)
    write(project, "b.py", "agent\n")
    write(project, "a.py", "agent\n")
    at = time.time()
    while os.stat(write(project, "a.py", "person\n")).st_ctime <= at:
        pass  # the clock of files is coarser
    turns.undoer.ended("garden", 1, str(project), at)
    dry = turns.undo(is_dry=True)
    assert [each.path for each in dry.files if each.is_changed_since] == ["a.py"]
    with pytest.raises(UndoFault, match=r"changed since: a\.py"):
        turns.undo()
    turns.undo(force=True)
    turns.undo(redo=True)
    assert (project / "a.py").read_text() == "person\n"


def test_nothing_is_undone_where_a_session_works_that_this_daemon_did_not_see_begin(
    project: Path, turns: Turns
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
    with pytest.raises(UndoFault, match="hedge works there now"):
        turns.undoer.undo("garden", working={"hedge": str(project / "docs")})
    turns.undoer.undo("garden", working={"hedge": str(project.parent)})


# --- what people do meanwhile -----------------------------------------------------------------------------


def test_permissions_that_a_person_changed_since_count(project: Path, turns: Turns) -> None:
    with turns:
        write(project, "a.py", "agent\n")
    (project / "a.py").chmod(0o600)
    with pytest.raises(UndoFault, match=r"changed since: a\.py"):
        turns.undo()
    turns.undo(force=True)
    turns.undo(redo=True)
    assert (project / "a.py").stat().st_mode & 0o777 == 0o600


def test_a_file_that_changes_right_before_it_is_written_is_left_and_nothing_is_undone(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
        write(project, "c.py", "agent\n")
        (project / "docs/page.md").write_text("agent\n")
    before = fingerprint(project, times=False)
    real_put, real_remove = changing._put, changing._remove

    def put(parent: int, name: str, *more: object) -> bool:
        if name == "page.md":
            write(project, "docs/page.md", "person\n")
        return real_put(parent, name, *more)  # type: ignore[arg-type]

    def remove(top: Path, name: str, *more: object) -> bool:
        if name == "b.py":
            write(project, "b.py", "person\n")
        return real_remove(top, name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(changing, "_put", put)
    monkeypatch.setattr(changing, "_remove", remove)
    with pytest.raises(UndoFault, match=r"b\.py, docs/page\.md changed just now; nothing was undone"):
        turns.undo()
    assert (project / "b.py").read_text() == "person\n"
    assert (project / "docs/page.md").read_text() == "person\n"
    write(project, "b.py", "agent\n")
    write(project, "docs/page.md", "agent\n")
    assert fingerprint(project, times=False) == before


def test_a_file_that_is_ignored_now_is_overwritten_by_force_only_with_a_copy(
    project: Path, turns: Turns
) -> None:
    write(project, "notes.txt", "mine\n")
    with turns:
        (project / "notes.txt").unlink()
    write(project, ".gitignore", "notes.txt\nignored/\n*.log\n")
    write(project, "notes.txt", "precious\n")
    with pytest.raises(UndoFault, match=r"changed since: notes\.txt"):
        turns.undo()
    turns.undo(force=True)
    assert (project / "notes.txt").read_text() == "mine\n"
    turns.undo(redo=True)
    assert (project / "notes.txt").read_text() == "precious\n"


def test_what_can_not_be_kept_is_not_overwritten_even_by_force(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "b.py", "agent\n")
    write(project, "a.py", "large" * 100)
    monkeypatch.setattr(taking, "MAX_FILE", 100)
    with pytest.raises(UndoFault, match=r"a\.py can't be kept for --redo: .* Nothing was undone"):
        turns.undo(force=True)
    assert (project / "a.py").read_text() == "large" * 100
    assert (project / "b.py").exists()


def test_a_directory_in_the_place_of_a_file_is_left_even_by_force(project: Path, turns: Turns) -> None:
    with turns:
        (project / "a.py").unlink()
    write(project, "a.py/ignored/data", "precious\n")
    with pytest.raises(UndoFault, match=r"in the place of a\.py there is something else now"):
        turns.undo(force=True)
    assert (project / "a.py/ignored/data").read_text() == "precious\n"


# --- files that no snapshot has ---------------------------------------------------------------------------


def test_a_file_that_was_ignored_by_rules_outside_of_the_tree_is_never_removed(
    project: Path, tmp_path: Path, turns: Turns
) -> None:
    excludes = write(tmp_path / "home/.config/git", "ignore", "*.key\n")
    write(project, "my.key", "precious\n")
    write(project, ".git/info/exclude", "secret/\n")
    write(project, "secret/data", "precious\n")
    with turns:
        write(project, ".git/info/exclude", "")
        excludes.write_text("")
        write(project, "new.txt", "new\n")
    undone = turns.undo()
    assert undone.left == ("my.key", "secret/data")
    assert (project / "my.key").read_text() == "precious\n"
    assert (project / "secret/data").read_text() == "precious\n"
    assert not (project / "new.txt").exists()


def test_what_was_too_large_to_be_recorded_is_said_and_stays(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MAX_FILE", 100)
    for name in ("large.bin", "same.bin", "tracked.bin"):
        write(project, name, "small\n")
    git(project, "add", "tracked.bin")
    with turns:
        pass
    for name in ("large.bin", "same.bin", "tracked.bin"):
        write(project, name, "precious" * 100)
    with turns:
        write(project, "large.bin", "cut\n")
        write(project, "tracked.bin", "cut\n")
        write(project, "made.bin", "x" * 200)
    with pytest.raises(UndoFault, match=r"of turn 2, what changed in large\.bin, made\.bin, tracked\.bin"):
        turns.undo()
    with turns:
        write(project, "a.py", "agent\n")
        write(project, "same.bin", "cut\n")
    assert turns.undo().unrecorded == ("same.bin",)
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    for name in ("large.bin", "same.bin", "tracked.bin"):
        assert (project / name).read_text() == "cut\n"


def test_a_repository_within_that_loses_its_git_directory_keeps_its_files(
    project: Path, turns: Turns
) -> None:
    write(project, "inner/data", "precious\n")
    git(project / "inner", "init", "-q")
    with turns:
        subprocess.run(["rm", "-rf", project / "inner/.git"], check=True)
        write(project, "inner/more", "agent\n")
        write(project, "a.py", "agent\n")
    assert turns.undo().unrecorded == ("inner",)
    assert (project / "inner/data").read_text() == "precious\n"
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"


def test_a_submodule_that_a_turn_changed_is_said(project: Path, tmp_path: Path, turns: Turns) -> None:
    library = repository(tmp_path / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(project, "commit", "-q", "-m", "with a library")
    with turns:
        git(project / "lib", "status")
    with pytest.raises(UndoFault, match="no file was changed"):
        turns.undo()
    with turns:
        write(project, "lib/a.py", "agent\n")
    with pytest.raises(UndoFault, match="what changed in lib was not recorded"):
        turns.undo()


# --- directories and permissions --------------------------------------------------------------------------


def test_directories_come_back_with_their_permissions_and_empty_ones_stay(
    project: Path, turns: Turns
) -> None:
    for name in ("empty", "filled/deep", "private/empty"):
        (project / name).mkdir(parents=True)
    write(project, "private/key", "k\n").chmod(0o600)
    write(project, "open/file", "x\n")
    (project / "private/empty").chmod(0o711)
    (project / "private").chmod(0o700)
    before = fingerprint(project, times=False)
    with turns:
        (project / "empty").rmdir()
        write(project, "filled/deep/new", "new\n")
        subprocess.run(["rm", "-rf", project / "private"], check=True)
        (project / "made/inner").mkdir(parents=True)
        (project / "open").chmod(0o750)
    dry = {each.path: each.action for each in turns.undo(is_dry=True).files}
    assert dry == {
        "empty/": "create",
        "filled/deep/new": "remove",
        "made/inner/": "remove",
        "open/": "restore",
        "private/empty/": "create",
        "private/key": "create",
    }
    turns.undo()
    assert fingerprint(project, times=False) == before
    turns.undo(redo=True)
    assert not (project / "private").exists()
    assert not (project / "empty").exists()
    assert (project / "open").stat().st_mode & 0o777 == 0o750
    assert (project / "filled/deep/new").read_text() == "new\n"


@pytest.mark.parametrize("mask", [0o002, 0o077])
def test_permissions_are_restored_in_full_also_after_a_daemon_with_another_umask(
    project: Path, turns: Turns, other: Turns, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = {"p": 0o600, "q": 0o644, "r": 0o664, "s": 0o700, "t": 0o755, "u": 0o444, "v": 0o640}
    for name, mode in modes.items():
        write(project, name, "mine\n").chmod(mode)
    with turns:
        for name in modes:
            (project / name).unlink()
    monkeypatch.setattr("fairlead.keeper.masks.users_mode", lambda mode: mode & ~mask)
    other.undo()
    assert {name: (project / name).stat().st_mode & 0o777 for name in modes} == modes


# --- many files -------------------------------------------------------------------------------------------


def test_permissions_of_many_files_are_compared_with_few_calls_of_git(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        write(project, f"many/{number}", "x\n")
    calls = 0
    real = Shadow.run

    def counted(shadow: Shadow, *words: str, **more: object) -> bytes:
        nonlocal calls
        calls += 1
        return real(shadow, *words, **more)  # type: ignore[arg-type]

    with turns:
        for number in range(100):
            (project / f"many/{number}").chmod(0o600)
    monkeypatch.setattr(Shadow, "run", counted)
    turns.undo()
    assert calls < 60
    assert {(project / f"many/{number}").stat().st_mode & 0o777 for number in range(100)} == {0o644}


def test_what_git_may_convert_is_not_copied_without_a_limit(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, ".gitattributes", "*.py text\n")
    monkeypatch.setattr(snapshots, "MAX_FILES", 2)
    with turns:
        write(project, "a.py", "agent\n")
    with pytest.raises(UndoFault, match=r"turn 1 was not recorded: .* bytes of its 3 files, and at most 2"):
        turns.undo()


def test_snapshots_that_take_too_much_room_begin_anew_and_the_turn_is_recorded(
    project: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "a.py", "mine\n")
    with turns:
        write(project, "a.py", "first\n")
    monkeypatch.setattr(snapshots, "MAX_KEPT_BYTES", 10)
    with turns:
        monkeypatch.setattr(snapshots, "MAX_KEPT_BYTES", 10_000_000)
        write(project, "a.py", "second\n")
    turns.undo()
    assert (project / "a.py").read_text() == "first\n"
    with pytest.raises(UndoFault, match="turn 1 can't be undone: what was kept of its files"):
        turns.undo()
