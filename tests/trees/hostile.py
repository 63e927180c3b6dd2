"""A repository in which everything that could run a program is armed, and tells if it did."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.verify.projects import ENVIRONMENT, git, repository, write

_COMMANDS = (
    *(
        "alias.config",
        "alias.diff",
        "alias.log",
        "alias.ls-files",
        "alias.status",
        "core.alternateRefsCommand",
    ),
    *("core.askPass", "core.editor", "core.fsmonitor", "core.gitProxy", "core.pager"),
    *("core.sshCommand", "credential.helper", "diff.evil.command", "diff.evil.textconv", "diff.external"),
    "filter.evil.clean",
    *("filter.evil.process", "filter.evil.smudge", "gpg.program", "gpg.ssh.defaultKeyCommand"),
    *("gpg.ssh.program", "gpg.x509.program", "interactive.diffFilter", "merge.evil.driver", "pager.config"),
    *("pager.diff", "pager.log", "pager.ls-files", "remote.evil.receivepack", "remote.evil.uploadpack"),
    *("sequence.editor", "submodule.lib.update", "trailer.evil.command", "uploadpack.packObjectsHook"),
)
_HOOKS = (
    *(
        "applypatch-msg",
        "commit-msg",
        "fsmonitor-watchman",
        "post-checkout",
        "post-commit",
        "post-index-change",
    ),
    *("post-merge", "post-rewrite", "pre-auto-gc", "pre-commit", "pre-merge-commit"),
    "prepare-commit-msg",
    *("proc-receive", "query-watchman", "reference-transaction", "sendemail-validate", "update"),
)
_ATTRIBUTES = "* diff=evil filter=evil merge=evil ident\n[attr]hidden -diff -text\na.py hidden\n"


class Hostile(NamedTuple):
    """The repository, and where each program that runs leaves its name."""

    project: Path
    mark: Path

    def fired(self) -> list[str]:
        return sorted(set(self.mark.read_text().split())) if self.mark.exists() else []


def armed(place: Path) -> Hostile:
    """A hostile repository, with a change in a.py that everything in it would hide."""
    project, mark = repository(place / "project"), place / "mark"
    library = repository(place / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(project, "commit", "-q", "-m", "a library")
    write(place / "attributes", "all", _ATTRIBUTES)
    _hide(project)
    _repositories_within(project, place, mark)
    write(project, ".gitattributes", _ATTRIBUTES)
    write(project, "lib/.gitattributes", _ATTRIBUTES)
    for directory in (project / ".git", project / ".git/modules/lib"):
        _arm(directory, place, mark)
    _odd_files(project)
    write(project, "a.py", "one = 1\nchanged = 2\n")
    write(project, "new.py", "new = 1\n")
    mark.unlink(missing_ok=True)  # what our own preparations ran
    return Hostile(project, mark)


def _script(place: Path, mark: Path, name: str) -> Path:
    path = write(place / "evil", name, f"#!/bin/sh\necho {name} >> {mark}\ncat\n")
    path.chmod(0o755)
    return path


def _arm(directory: Path, place: Path, mark: Path) -> None:
    """Arm a git directory."""
    hooks, linked = place / f"hooks-{directory.name}", place / "linked"
    lines = [
        "[core]",
        f"\thooksPath = {hooks}",
        f"\tattributesFile = {place}/attributes/all",
        f"\tworktree = {place}/elsewhere",
        "[extensions]",
        "\tpartialClone = evil",
        "\tworktreeConfig = true",
        '[remote "evil"]',
        f"\turl = ext::{_script(place, mark, 'ext')}",
        "\tpromisor = true",
        "[protocol]",
        "\tallow = always",
        '[filter "evil"]',
        "\trequired = true",
        "[diff]",
        "\tignoreSubmodules = all",
    ]
    more = write(place, f"more-{directory.name}", "")
    for key in _COMMANDS:
        section, _, name = key.rpartition(".")
        head, _, sub = section.partition(".")
        value = _script(place, mark, key)
        shown = f'[{head} "{sub}"]' if sub else f"[{head}]"
        prefix = "!" if head in ("alias", "submodule") else ""
        with open(more, "a") as file:
            file.write(f"{shown}\n\t{name} = {prefix}{value}\n")
    with open(directory / "config", "a") as file:
        file.write("\n".join(lines) + f"\n{more.read_text()}[include]\n\tpath = {more}\n")
        file.write(f'[includeIf "gitdir:/"]\n\tpath = {more}\n')
    (directory / "config.worktree").write_text(more.read_text())
    linked.mkdir(exist_ok=True)
    write(directory / "hooks", "x", "")
    for hook in _HOOKS:
        (directory / "hooks" / hook).unlink(missing_ok=True)
        target = linked / hook
        target.unlink(missing_ok=True)
        target.symlink_to(_script(place, mark, f"hook-{hook}"))
        (directory / "hooks" / hook).symlink_to(target)
        hooks.mkdir(exist_ok=True)
        (hooks / hook).symlink_to(target)
    (directory / "info").mkdir(exist_ok=True)
    (directory / "info/attributes").write_text(_ATTRIBUTES)


def _hide(project: Path) -> None:
    """Bits of the index, and replaced objects, that hide what changed."""
    plain = {**ENVIRONMENT, "GIT_DIR": str(project / ".git"), "GIT_WORK_TREE": str(project)}

    def quietly(*words: str, given: str = "") -> str:
        words = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words)
        return subprocess.run(
            words, cwd=project, env=plain, check=True, capture_output=True, text=True, input=given
        ).stdout.strip()

    old = quietly("rev-parse", "HEAD:a.py")
    new = quietly("hash-object", "-w", "--no-filters", "--stdin", given="one = 1\nchanged = 2\n")
    quietly("replace", "-f", old, new)
    gone = "1234567890123456789012345678901234567890"
    quietly("update-index", "--add", "--cacheinfo", f"100644,{gone},sub/.gitignore")  # would be fetched
    tree = quietly("write-tree", "--missing-ok")
    quietly("update-ref", "HEAD", quietly("commit-tree", tree, "-p", "HEAD", "-m", "what is not here"))
    quietly("update-index", "--skip-worktree", "sub/.gitignore", "docs/page.md")
    quietly("update-index", "--assume-unchanged", "a.py")


def _repositories_within(project: Path, place: Path, mark: Path) -> None:
    """A bare repository among the files, and git files that lead elsewhere."""
    bare = project / "bare.git"
    git(project, "init", "-q", "--bare", str(bare))
    _arm(bare, place, mark)
    for name, to in (("inner", "../bare.git"), ("outer", str(place / "library/.git")), ("loop", "../loop")):
        write(project, f"{name}/file", "x\n")
        write(project, f"{name}/.git", f"gitdir: {to}\n")
    (project / "linked.git").symlink_to(bare)


def _odd_files(project: Path) -> None:
    """Pipes and devices in the place of files."""
    for name in (
        "pipe",
        "inside/.git",
        ".git/packed-refs",
        ".git/shallow",
        ".git/commondir",
        ".git/FETCH_HEAD",
    ):
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    (project / ".git/info/exclude").unlink(missing_ok=True)
    (project / ".git/info/exclude").symlink_to("/dev/zero")
    assert stat.S_ISFIFO((project / ".git/shallow").stat().st_mode)
