"""What may be done without asking in each mode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.agent.consent.modes import ACCEPT, ASK, PLAN, in_mode, why_asked
from fairlead.agent.consent.policy import Policy, rules_from
from fairlead.agent.tools import Touch


def decided(mode: str, project: Path, touch: Touch, policy: Policy | None = None) -> str:
    policy = policy or Policy(project)
    tool = {"read": "read", "write": "write", "run": "bash"}[touch.effect]
    return in_mode(mode, project, touch, policy.judge(tool, touch)).decision


def write(path: Path) -> Touch:
    return Touch("write", f"write {path}", (path,))


RUN = Touch("run", "$ true", command="true")


def test_each_mode_asks_for_what_it_says(tmp_path: Path) -> None:
    inside, outside = write(tmp_path / "src" / "roses.py"), write(tmp_path.parent / "roses.py")
    look = Touch("read", "read a", (tmp_path / "a",))
    assert [decided(ASK, tmp_path, each) for each in (look, inside, outside, RUN)] == ["allow", *["ask"] * 3]
    assert [decided(ACCEPT, tmp_path, each) for each in (look, inside, outside, RUN)] == [
        *("allow", "allow", "ask", "ask")
    ]
    assert [decided(PLAN, tmp_path, each) for each in (look, inside, outside, RUN)] == [
        *("allow", "deny", "deny", "deny")
    ]


def test_rules_and_answers_count_in_accept_and_not_in_plan(tmp_path: Path) -> None:
    rules = rules_from(
        [
            {"tool": "write", "path": "asked/**", "then": "ask"},
            {"tool": "write", "path": "denied/**", "then": "deny"},
            {"tool": "bash", "match": "true", "then": "allow"},
        ]
    )
    policy = Policy(tmp_path, rules)
    touches = [write(tmp_path / "asked/a"), write(tmp_path / "denied/a"), RUN]
    assert [decided(ACCEPT, tmp_path, each, policy) for each in touches] == ["ask", "deny", "allow"]
    answered = policy.remembering("write", write(tmp_path / "a"), "allow")
    everything = Policy(tmp_path, allows_all=True)
    assert decided(PLAN, tmp_path, write(tmp_path / "a"), answered) == "deny"
    assert [decided(PLAN, tmp_path, each, everything) for each in (write(tmp_path / "a"), RUN)] == [
        "deny"
    ] * 2


@pytest.mark.parametrize(
    "name",
    [
        *(".git/config", ".git/hooks/pre-commit", "sub/.GIT/hooks/post-checkout", ".gitmodules", ".envrc"),
        *(".github/workflows/test.yml", ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml"),
        *("Makefile", "sub/GNUmakefile", "rules.mk", "justfile", "package.json", "sub/Package.JSON"),
        *("conftest.py", "tests/conftest.py", "pyproject.toml", "setup.py", "noxfile.py", "site.pth"),
        *(".vscode/tasks.json", ".idea/runConfigurations/a.xml", ".claude/settings.json", "CLAUDE.md"),
        *("AGENTS.md", ".cursorrules", ".bashrc", "sub/.zshrc", ".vimrc", "vite.config.ts", "gulpfile.js"),
        *("node_modules/a/index.js", "venv/bin/activate", "build.rs", "Dockerfile", "compose.yaml"),
        *(
            "HEAD",
            ".env",
            "a.code-workspace",
            "unit.service",
            "ma\u200dkefile",
            "\uff2dakefile",
            "conftest.py.",
        ),
    ],
)
def test_what_others_run_or_obey_asks_although_edits_are_accepted(tmp_path: Path, name: str) -> None:
    assert decided(ACCEPT, tmp_path, write(tmp_path / name)) == "ask"


@pytest.mark.parametrize("name", ["a.py", "src/hooks/use.ts", "docs/make.md", "head.txt", "tests/test_a.py"])
def test_other_files_of_the_project_do_not(tmp_path: Path, name: str) -> None:
    assert decided(ACCEPT, tmp_path, write(tmp_path / name)) == "allow"


def test_programs_and_files_with_other_names_ask(tmp_path: Path) -> None:
    program, linked, plain = (tmp_path / name for name in ("program", "linked", "plain"))
    for each in (program, linked, plain):
        each.write_text("")
    program.chmod(0o755)
    os.link(linked, tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")
    whys = [why_asked(tmp_path, tmp_path / name) for name in ("program", "linked", "pipe", "plain")]
    assert whys[0] == "program is a program"
    assert whys[1].startswith("linked has other names")
    assert whys[2:] == ["pipe is no ordinary file", ""]


def test_a_bare_repository_asks(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert "bare git repository" in why_asked(tmp_path, bare / "config")
    assert "bare git repository" in why_asked(tmp_path, bare / "info" / "attributes")
    assert why_asked(tmp_path, tmp_path / "config") == ""


def test_a_home_directory_is_no_project_in_which_edits_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert "home directory" in why_asked(tmp_path / "home", tmp_path / "home" / "a.py")
    assert "home directory" in why_asked(tmp_path, tmp_path / "a.py")
    assert why_asked(tmp_path / "home" / "work", tmp_path / "home" / "work" / "a.py") == ""
