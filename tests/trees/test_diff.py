"""What a session changed: everything that git would commit, and nothing that a repository names is run."""

import os
from pathlib import Path

import pytest

from fairlead.trees.diff import NoDiff, SessionDiff, compared, session_diff
from tests.verify.projects import fingerprint, git, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def shown(told: SessionDiff) -> dict[str, tuple[str, int, int]]:
    return {each.path: (each.status, each.insertions, each.deletions) for each in told.diff.files}


def test_commits_changes_and_new_files_are_one_diff(project: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    write(project, "b.py", "b = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    write(project, "a.py", "one = 1\ntwo = 3\n")
    git(project, "add", "a.py")
    write(project, "new/c.py", "c = 1\n")
    write(project, "ignored/d.py", "d = 1\n")
    before = fingerprint(project)
    told = session_diff(project, base)
    assert shown(told) == {
        "a.py": ("modified", 1, 1),
        "b.py": ("added", 1, 0),
        "new/c.py": ("added", 1, 0),
    }
    assert "+two = 3" in told.diff.patch
    assert "+c = 1" in told.diff.patch
    assert (told.ahead, [each.subject for each in told.commits], told.branch) == (1, ["second"], "main")
    assert fingerprint(project) == before


def test_without_a_base_it_is_what_is_not_committed(project: Path) -> None:
    (project / "docs/page.md").unlink()
    told = session_diff(project)
    assert shown(told) == {"docs/page.md": ("deleted", 0, 1)}
    assert told.base == git(project, "rev-parse", "HEAD")


def test_a_session_in_a_directory_of_the_repository_is_told_of_all_of_it(project: Path) -> None:
    write(project, "a.py", "one = 1\n")
    assert shown(session_diff(project / "docs")) == {"a.py": ("modified", 0, 1)}


def test_a_repository_without_commits_has_only_new_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, "a.py", "a = 1\n")
    told = session_diff(tmp_path)
    assert shown(told) == {"a.py": ("added", 1, 0)}
    assert told.base == ""


def test_a_directory_without_git_a_bare_repository_and_one_that_is_gone_are_named(tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    with pytest.raises(NoDiff, match="bare repository"):
        session_diff(bare)
    (tmp_path / "plain").mkdir()
    with pytest.raises(NoDiff, match="not in a git repository"):
        session_diff(tmp_path / "plain")
    git(tmp_path, "init", "-q")
    with pytest.raises(NoDiff, match="deleted is gone"):
        session_diff(tmp_path / "deleted")


def test_a_base_that_is_gone_is_named(project: Path) -> None:
    with pytest.raises(NoDiff, match=r"12345678.* is not in the repository"):
        session_diff(project, "1234567812345678123456781234567812345678")


def test_odd_names_are_files_and_never_options(project: Path) -> None:
    for name in (b"-rf", b"a\nb", b'quo"te', b"not\xffutf8", b"not\xfeutf8", b" space ", "ü".encode()):
        with open(os.path.join(os.fsencode(project), name), "wb") as file:
            file.write(b"x\n")
    told = session_diff(project)
    assert told.diff.total == 7
    assert told.diff.insertions == 7
    assert {"-rf", "a\nb", 'quo"te', "not\ufffdutf8", " space ", "ü"} == {e.path for e in told.diff.files}


def test_renames_modes_links_and_binary_files_are_told(project: Path) -> None:
    (project / "docs/page.md").rename(project / "docs/leaf.md")
    (project / "a.py").chmod(0o755)
    (project / "link").symlink_to("/etc/passwd")
    (project / "bin").write_bytes(b"a\0b")
    told = {each.path: each for each in session_diff(project).diff.files}
    assert (told["docs/leaf.md"].status, told["docs/leaf.md"].old_path) == ("renamed", "docs/page.md")
    assert told["a.py"].status == "modified"
    assert told["bin"].is_binary
    patch = session_diff(project).diff.patch
    assert "old mode 100644\nnew mode 100755" in patch
    assert "+/etc/passwd" in patch
    assert "root:" not in patch


def test_a_file_that_became_a_directory_or_a_link_out_of_the_tree_is_told(
    project: Path, tmp_path: Path
) -> None:
    (project / "a.py").unlink()
    write(project, "a.py/inner.py", "x = 1\n")
    outside = tmp_path / "outside"
    write(outside, "page.md", "# Secret\n")
    (project / "docs/page.md").unlink()
    (project / "docs").rmdir()
    (project / "docs").symlink_to(outside)
    told = session_diff(project)
    assert {each.path for each in told.diff.files} == {"a.py", "a.py/inner.py", "docs/page.md", "docs"}
    assert "Secret" not in told.diff.patch


def test_nothing_that_the_repository_names_is_run(project: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    evil = write(tmp_path, "evil", f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "pager.diff", "diff.external", "diff.evil.command"),
        *("diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        *("core.sshCommand", "credential.helper", "gpg.program", "core.editor", "alias.diff", "alias.log"),
        *(
            "merge.evil.driver",
            "core.alternateRefsCommand",
            "submodule.sub.update",
            "uploadpack.packObjectsHook",
        ),
    ):
        git(project, "config", key, f"!{evil}" if key.startswith(("alias", "submodule")) else str(evil))
    git(project, "config", "filter.evil.required", "true")
    git(project, "config", "core.worktree", str(tmp_path / "elsewhere"))
    git(project, "config", "core.hooksPath", str(tmp_path / "hooks"))
    for hook in ("post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        for place in (tmp_path / "hooks", project / ".git/hooks"):
            write(place, hook, evil.read_text()).chmod(0o755)
    write(project, ".gitattributes", "* diff=evil filter=evil merge=evil\n")
    write(project, "a.py", "one = 1\nchanged = 2\n")
    told = session_diff(project)
    assert "+changed = 2" in told.diff.patch
    assert {each.path for each in told.diff.files} == {".gitattributes", "a.py"}
    assert not mark.exists()


def test_attributes_marks_in_the_index_and_replace_refs_hide_nothing(project: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    git(project, "update-index", "--assume-unchanged", "a.py")
    git(project, "update-index", "--skip-worktree", "docs/page.md")
    write(project, "a.py", "harm = 1\n")
    write(project, "docs/page.md", "harm\n")
    write(project, ".gitattributes", "*.py -diff\n*.md binary\n")
    tree = git(project, "write-tree")
    other = git(project, "commit-tree", tree, "-m", "other")
    git(project, "replace", "-f", base, other)
    patch = session_diff(project, base).diff.patch
    assert "+harm = 1" in patch
    assert "+harm\n" in patch
    (project / "a.py").unlink()
    assert "a.py" in {each.path for each in session_diff(project, base).diff.files}


def test_variables_of_git_in_the_environment_mean_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other")
    write(project, "a.py", "here = 1\n")
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.external",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_DIFF_OPTS": "-u0",
    }.items():
        monkeypatch.setenv(name, value)
    assert "+here = 1\n" in session_diff(project).diff.patch


def test_alternates_of_the_repository_are_read(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(project), "clone")
    write(tmp_path / "clone", "a.py", "one = 2\n")
    assert "+one = 2" in session_diff(tmp_path / "clone").diff.patch


def test_a_repository_within_is_named_and_a_submodules_commit_is_told(project: Path, tmp_path: Path) -> None:
    repository(project / "nested")
    library = repository(tmp_path / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "sub")
    git(project, "commit", "-q", "-m", "with a submodule")
    write(project, "sub/a.py", "changed = 1\n")
    git(project / "sub", "commit", "-q", "-a", "-m", "in the submodule")
    commit = git(project / "sub", "rev-parse", "HEAD")
    told = session_diff(project)
    assert shown(told) == {"sub": ("modified", 1, 1)}
    assert f"+Subproject commit {commit}" in told.diff.patch
    assert told.diff.left_out == ("nested/", "sub")


def test_what_is_too_large_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.trees.taking.MAX_FILE", 100)
    write(project, "large", "x" * 101)
    write(project, "small", "x" * 99)
    told = session_diff(project)
    assert set(shown(told)) == {"small"}
    assert told.diff.left_out == ("large",)
    monkeypatch.setattr("fairlead.trees.taking.MAX_FILES", 1)
    with pytest.raises(NoDiff, match="at most 1 can be compared"):
        session_diff(project)


def test_a_long_patch_is_cut_at_a_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.trees.diff.MAX_PATCH", 1000)
    write(project, "a.py", "".join(f"line {number}\n" for number in range(10_000)))
    diff = session_diff(project).diff
    assert diff.is_cut
    assert diff.patch.endswith("\n")
    assert len(diff.patch) <= 1000
    assert diff.insertions == 10_000


def test_two_results_are_compared_also_in_different_repositories(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    write(project, "a.py", "mine = 1\n")
    write(tmp_path / "other", "a.py", "theirs = 1\n")
    write(tmp_path / "other", "same.py", "same = 1\n")
    write(project, "same.py", "same = 1\n")
    diff = compared(project, tmp_path / "other")
    assert [each.path for each in diff.files] == ["a.py"]
    assert "-mine = 1\n+theirs = 1\n" in diff.patch
    odd = repository(tmp_path / 'o"d: \\place')
    write(odd, "b.py", "b = 1\n")
    assert {each.path for each in compared(project, odd).files} == {"a.py", "same.py", "b.py"}
