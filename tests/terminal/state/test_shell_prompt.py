"""What changes in the prompt of a shell, and what makes a line something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.terminal.state.shell_prompt import shape

SAME = (
    ("12:30:01 me@host:~/garden$ ", "garden", "", "9:31:59 me@host:~/garden (main)$ ", "garden", "main"),
    ("➜  garden git:(main) ", "garden", "main", "➜  hedge git:(mend/gate) ✗ ", "hedge", "mend/gate"),
    ("➜  ~ ", "", "", "➜  hedge git:(main) ✗ ", "hedge", "main"),
    ("[me@host ~]$ ", "", "", "[me@host garden]$ ", "garden", ""),
    ("me@host ~> ", "", "", "me@host ~/g/s/roses (main) [127]> ", "git/src/roses", "main"),
    ("~ 12:30 ❯ ", "", "", "garden on  main [!?] took 3s 12:31 ❯ ", "garden", "main"),
    ("~ ❯ ", "", "", "~/garden (b0a1b2c...) ❯ ", "garden", "b0a1b2c3d4" + "0" * 30),
    ("Thu Nov 19 9:12 PM ~ % ", "", "", "Fri Nov 20 8:00 AM …/src/roses % ", "git/src/roses", ""),
    ("host ~ # ", "", "", "host /etc # ", "/etc", ""),
    ("me@host:~$ ", "", "", "(garden-3.11) me@host:~$ ", "", ""),
)
OTHER = (
    ("me@host:~$ ", "", "", "> ", "", ""),
    ("me@host:~$ ", "", "", "heredoc> ", "", ""),
    ("me@host:~$ ", "", "", "me@host:~$ 12", "", ""),
    ("me@host:~$ ", "", "", "me@host:~$ git main $ ", "", "main"),
    ("me@host:~$ ", "", "main", "me@host:~ (main)$ (main)", "", "main"),
    ("me@host:~$ ", "", "", "Overwrite ~? y/n $ ", "", ""),
    ("me@host:~$ ", "", "", "root@host:~$ ", "", ""),
    ("me@host:~$ ", "", "", "me@host:/elsewhere$ ", "", ""),
    ("➜  ~ ", "", "", "➜  ~ git ", "", "main"),
    ("me@host:~$ ", "", "", "(garden) ~$ ", "", ""),
    ("me@host:~$ ", "", "", "(it is) me@host:~$ ", "", ""),
    ("➜  ~ ", "", "", "➜  ~ 5 ", "", "main"),
    ("➜  garden git:(main) ", "garden", "main", "➜  garden git:(main) main ", "garden", "main"),
    ("➜  garden git:(main) ", "garden", "main", "➜  garden git:(main) ! ", "garden", "main"),
)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", "/home/me")
    return Path("/home/me")


@pytest.mark.parametrize("case", SAME, ids=lambda case: case[3])
def test_time_directory_branch_and_exit_code_change_and_it_is_the_same_prompt(
    home: Path, case: tuple[str, ...]
) -> None:
    before, cwd, branch, now, moved, switched = case
    assert shape(now, str(home / moved), switched) == shape(before, str(home / cwd), branch)


@pytest.mark.parametrize("case", OTHER, ids=lambda case: case[3])
def test_a_draft_a_question_and_a_here_document_are_something_else(home: Path, case: tuple[str, ...]) -> None:
    before, cwd, branch, now, moved, switched = case
    assert shape(now, str(home / moved), switched) != shape(before, str(home / cwd), branch)
