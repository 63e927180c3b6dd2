"""`fairlead diff` with a daemon: what sessions changed in their directories."""

from __future__ import annotations

import json
from pathlib import Path

from tests.client.persons import Person
from tests.hosting import Hosting
from tests.verify.projects import git, repository, write


def test_a_diff_has_new_files_and_goes_to_git_apply(lent: Hosting, tmp_path: Path) -> None:
    project, copy = repository(tmp_path / "project"), repository(tmp_path / "copy")
    lent.start("work", "echo 'two = 3' >>a.py; echo new >new; exec cat", "--cwd", str(project))
    lent.until((project / "new").exists)
    done = lent.run("diff", "work")
    assert "+two = 3\n" in done.stdout
    (tmp_path / "patch").write_text(done.stdout)
    git(copy, "apply", str(tmp_path / "patch"))
    assert (copy / "new").read_text() == "new\n"
    with Person(lent, "diff", "work") as person:
        person.until_all(["a.py\n@@ line ", "+ two = 3", "new\nnew file mode 100644\n@@ line 1\n1 + new"])
        assert b"\x1b[32m+ " in person.seen
        assert person.exit_code() == 0
    stat = lent.run("diff", "work", "--stat").stdout
    assert stat.splitlines()[1:3] == ["a.py  +1 -0  modified", "new   +1 -0  added"]
    assert "2 files changed, +2 -0 lines" in stat
    told = json.loads(lent.run("diff", "work", "--json").stdout)
    assert (told["total"], told["since"], told["session"]["name"]) == (2, "commit", "work")


def test_two_sessions_are_compared_file_by_file(lent: Hosting, tmp_path: Path) -> None:
    for name in ("roses", "hedge"):
        project = repository(tmp_path / name)
        write(project, "same.py", "same = 1\n")
        write(project, "a.py", f"{name} = 1\n")
        lent.start(name, "exec cat", "--cwd", str(project))
    assert "-roses = 1\n+hedge = 1\n" in lent.run("diff", "roses", "hedge").stdout
    rows = lent.run("diff", "roses", "hedge", "--stat").stdout.splitlines()
    assert [row.split() for row in rows[:3]] == [
        ["FILE", "roses", "hedge", "RESULT"],
        ["a.py", "+1", "-2", "+1", "-2", "differs"],
        ["same.py", "+1", "-0", "+1", "-0", "same"],
    ]


def test_a_directory_without_a_repository_is_an_error_that_names_it(lent: Hosting, tmp_path: Path) -> None:
    lent.start("work", "exec cat", "--cwd", str(tmp_path))
    done = lent.run("diff", "work", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path} is not in a git repository" in done.stderr
