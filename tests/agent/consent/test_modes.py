"""What may be done without asking in each mode."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fairlead.agent.consent.modes import ACCEPT, ASK, PLAN, in_mode
from fairlead.agent.consent.obeyed import GROUPS, why_asked
from fairlead.agent.consent.policy import Policy, rules_from
from fairlead.agent.secrets import Redactor
from fairlead.agent.tools import Touch, standard_tools
from fairlead.agent.tools.terminals import LocalTerminals


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
        *(".vscode/settings.json", ".idea/workspace.xml", ".codex/config.toml", ".gemini/settings.json"),
        *(".opencode/plugin/a.ts", ".mcp.json", "mcp.json", "opencode.json", "AGENT.md", "crush.json"),
        *("sitecustomize.py", "usercustomize.py", "sitecustomize/__init__.py", "lib/a.pth", "pylintrc"),
        *(
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".husky/pre-commit",
            ".pre-commit-config.yaml",
            "hooks/pre-commit",
        ),
        *(".mise.toml", "mise.local.toml", "mise/config.toml", ".tool-versions", ".direnv/bin/a", ".profile"),
        *(".fairlead/config.toml", ".fairlead.toml", "GIT~1/config", "Sub/.Git/Config", "package.json"),
        *("Cargo.toml", "rust-toolchain.toml", "build.zig", "Package.swift", "a.cmake", "package-lock.json"),
        *("hie.yaml", "config.nims", "a.nimble", "toxfile.py", "pdm_build.py", "gunicorn.conf.py", "go.mod"),
        *(
            "go.work",
            "tasks.py",
            "magefile.go",
            "pavement.py",
            "build.cake",
            "xmake.lua",
            "Snakefile",
            "src/dune",
        ),
        *("dune-project", "dune-workspace", "fastlane/Fastfile", "fastlane/actions/a.rb", "locustfile.py"),
        *("phpunit.xml", "phpunit.xml.dist", "mkdocs.yml", "docs/conf.py", "src/a.egg-info/entry_points.txt"),
        *("a-1.dist-info/entry_points.txt", "a-1.dist-info/x/METADATA", "cabal.project", "pubspec.yaml"),
        *("lakefile.lean", "rules/a.smk", "Thorfile", "premake5.lua", "magefiles/a.go", "cpanfile", "a.opam"),
        *("requirements.txt", "buildSrc/src/a.kt", "Dockerfile.dev", "Makefile.am", "action.yml", "bashrc"),
    ],
)
def test_what_others_run_or_obey_asks_although_edits_are_accepted(tmp_path: Path, name: str) -> None:
    assert decided(ACCEPT, tmp_path, write(tmp_path / name)) == "ask"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a.py",
            "src/hooks/use.ts",
            "docs/make.md",
            "head.txt",
            "tests/test_a.py",
            "jobs.py",
            "compose.py",
        ),
        *("build/a.js", "profile/a.py", "README.md", "src/update.ts", "data.json", "script.sh", "index.html"),
    ],
)
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


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".envrc", "environment.txt"),
        ("CLAUDE.md", "docs/agents.txt"),
        (".vscode", "editor"),
        (".claude/settings.json", "docs/claude.txt"),
        ("sub/conftest.py", "sub/fixtures.py"),
        (".git/hooks/pre-push", "scripts/push"),
    ],
)
def test_a_file_to_which_something_obeyed_leads_asks_by_either_name(
    tmp_path: Path, link: str, target: str
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    name, led_to = tmp_path / link, tmp_path / target
    name.parent.mkdir(parents=True, exist_ok=True)
    led_to.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(led_to)
    (tmp_path / "free.txt").symlink_to("free-of-it.txt")
    inner = "/settings.json" if target == "editor" else ""
    tools = standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor())
    policy = Policy(tmp_path)

    def decided_on(path: str) -> str:
        touch = tools["write"].touches({"path": path, "content": ""}, tmp_path)
        return in_mode(ACCEPT, tmp_path, touch, policy.judge("write", touch)).decision

    assert [decided_on(link + inner), decided_on(target + inner)] == ["ask", "ask"]
    assert [decided_on("free.txt"), decided_on("free-of-it.txt"), decided_on("docs/a")] == ["allow"] * 3


def test_a_chain_of_links_is_known_by_all_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").symlink_to("sub/../.envrc")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".envrc").symlink_to("plain.txt")
    tools = standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor())
    touch = tools["write"].touches({"path": "notes.txt", "content": ""}, tmp_path)
    assert touch.paths == (tmp_path / "plain.txt",)
    assert [each.name for each in touch.links] == ["notes.txt", ".envrc"]
    edited = tools["edit"].touches({"path": "notes.txt", "oldText": "a", "newText": "b"}, tmp_path)
    assert edited.links == touch.links


def git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=place, check=True, capture_output=True)


def test_what_gits_configuration_names_asks_in_all_worktrees(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", "-b", "docs", str(tree))
    git(main, "config", "core.hooksPath", "scripts/hooks")
    git(main, "config", "filter.roses.clean", "./tools/clean.sh --all")
    git(main, "config", "include.path", "../shared.ini")
    git(main, "config", "branch.docs.merge", "refs/heads/docs")
    git(main, "config", "branch.docs.remote", "docs")
    for project in (main, tree):
        assert "names scripts/hooks" in why_asked(project, project / "scripts/hooks/lint")
        assert "names ./tools/clean.sh" in why_asked(project, project / "tools/clean.sh")
        assert [why_asked(project, project / name) for name in ("scripts/a", "docs/a", "tools/b")] == [""] * 3
    (main / "scripts").mkdir()
    assert "names scripts/hooks" in why_asked(main / "scripts", main / "scripts/hooks/lint")
    assert "names ../shared.ini" in why_asked(main, main / "shared.ini")
    git(main, "config", "--unset", "core.hooksPath")
    (main / ".git/hooks").mkdir(exist_ok=True)
    (main / ".git/hooks/post-checkout").symlink_to(tree / "scripts/after")
    assert "leads to it" in why_asked(tree, tree / "scripts/after")


def test_the_directory_of_a_worktree_in_git_asks_wherever_it_is(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "store"), "work")
    git(tmp_path / "work", "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path / "work", "worktree", "add", "-q", str(tmp_path / "tree"))
    assert "git repository" in why_asked(tmp_path, tmp_path / "store/config")
    assert "git repository" in why_asked(tmp_path, tmp_path / "store/worktrees/tree/gitdir")


def test_a_directory_with_more_than_can_be_looked_at_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.consent.obeyed.MAX_ENTRIES", 10)
    for number in range(10):
        (tmp_path / f"{number}").touch()
    assert why_asked(tmp_path, tmp_path / "1") == ""
    (tmp_path / "10").touch()
    assert why_asked(tmp_path, tmp_path / "1").startswith("too many files")


def test_all_that_is_compared_is_without_case_and_each_name_is_there_once() -> None:
    names = [name for group in GROUPS for name in (*group.names, *group.directories)]
    assert len(names) == len(set(names))
    every = [*names, *(each for group in GROUPS for each in (*group.endings, *group.beginnings))]
    assert every == [each.casefold() for each in every]
