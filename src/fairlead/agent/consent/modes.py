"""The modes of an agent session of our own: what a person is asked about before it is done.

In `ask`, the rules of consent decide alone. In `accept`, files of the project may be changed without asking,
unless a rule asks, or the file is one that others run or obey because it is there; commands still ask. In
`plan`, nothing is changed and no command runs, whatever rules and answers say.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..ports import Decision, JudgedCall
from ..tools import Touch
from .policy import care_for

ASK, ACCEPT, PLAN = "ask", "accept", "plan"
NAMES: Mapping[str, str] = MappingProxyType({ASK: "ask", ACCEPT: "accept edits", PLAN: "plan"})
"""The modes, from the usual one on, and what people call them."""
PLANNING = (
    "The person has chosen plan mode: nothing may be changed and no command can be run, and calls that would "
    "are denied. Read and search what you need, and answer with a plan of what you would change, and where."
)
"""What a model is told in plan mode."""

_PLANNED = "plan mode: nothing is changed and no command runs; say what you would do instead"
_ACCEPTED = "accept edits: a file of the project"

_RUN_NAMES = frozenset(
    word
    for line in (
        "agents.md agents.override.md appveyor.yml azure-pipelines.yml binding.gyp",
        "bitbucket-pipelines.yml bsdmakefile build.bazel build.gradle build.gradle.kts build.rs",
        "build.sbt build.xml claude.local.md claude.md cloudbuild.yaml cloudbuild.yml cmakelists.txt",
        "compose.yaml compose.yml composer.json config.worktree configure conftest.py containerfile",
        "conventions.md crontab default.nix deno.json deno.jsonc devbox.json docker-compose.yaml",
        "docker-compose.yml dockerfile dodo.py dune-project flake.nix gemfile gemini.md gnumakefile",
        "gradle.properties gradlew gradlew.bat guardfile head init.gradle jenkinsfile justfile",
        "lefthook.toml lefthook.yaml lefthook.yml lerna.json makefile meson.build mise.toml mix.exs",
        "module.bazel mvnw mvnw.cmd noxfile.py nx.json opencode.json opencode.jsonc package.json",
        "pip.conf pom.xml procfile pyproject.toml pytest.ini qwen.md rakefile sconscript sconstruct",
        "settings.gradle settings.gradle.kts setup.cfg setup.py shell.nix sitecustomize.py taskfile.yaml",
        "taskfile.yml tox.ini usercustomize.py vagrantfile workspace workspace.bazel wscript",
    )
    for word in line.split()
)
"""Names of files in which tools of the project, of editors, of CI or of agents find what they run or obey."""
_RUN_ENDINGS = (
    *(".mk", ".pth", ".service", ".timer", ".socket", ".desktop", ".plist", ".code-workspace", ".bzl"),
    *(".sublime-project", ".gemspec", ".podspec", ".targets", ".props", ".csproj", ".vcxproj", ".gradle"),
    *(".gradle.kts", ".nix", ".ps1xml", ".psd1"),
)
_RUN_CONFIGS = tuple(f".config.{ending}" for ending in ("js", "cjs", "mjs", "ts", "cts", "mts"))
_RUN_STEMS = ("gulpfile.", "gruntfile.", "webpack.", "babel.", "karma.", "vite.", "rollup.")
_RUN_DIRECTORIES = frozenset(
    ("node_modules", "site-packages", "dist-packages", "venv", "virtualenv", "git-hooks", "githooks")
)
"""Directories whose files are run by what is installed or set up."""


def in_mode(mode: str, project: Path, touch: Touch, verdict: JudgedCall) -> JudgedCall:
    """What is done about a call, given what the rules say of it. `project` has links followed."""
    if mode == PLAN and touch.effect != "read":
        return Decision("deny", _PLANNED)
    if mode != ACCEPT or touch.effect != "write" or verdict.decision != "ask" or not verdict.is_default:
        return verdict
    if len(touch.paths) != 1 or touch.command is not None or care_for(touch.effect, touch.paths[0]):
        return verdict
    if why := why_asked(project, touch.paths[0]):
        return Decision("ask", why)
    return Decision("allow", _ACCEPTED)


def why_asked(project: Path, path: Path) -> str:
    """Why a change of a file is asked about although edits are accepted; empty if it is not."""
    if not path.is_relative_to(project):
        return f"{path} is outside of the project"
    home = os.path.realpath(os.path.expanduser("~"))
    if str(project) in ("/", home) or Path(home).is_relative_to(project):
        return "the project is the home directory, or has it in it"
    parts = [_plain(part) for part in path.relative_to(project).parts]
    if not parts:
        return f"{path} is the project's directory"
    name = parts[-1]
    if any(part.startswith(".") for part in parts):
        return f"{path.name} is hidden, or in a hidden directory: tools may run or obey it"
    if name in _RUN_NAMES or name.endswith((*_RUN_ENDINGS, *_RUN_CONFIGS)) or name.startswith(_RUN_STEMS):
        return f"tools run or obey what is in {path.name}"
    if found := next((part for part in parts[:-1] if part in _RUN_DIRECTORIES), ""):
        return f"what is in {found} is run by other programs"
    return _why_special(project, path)


def _why_special(project: Path, path: Path) -> str:
    """What is to be said of the file that is there, or of where it would be."""
    try:
        found = os.lstat(path)
    except OSError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        return f"{path.name} is no ordinary file"
    if found is not None and found.st_mode & 0o111:
        return f"{path.name} is a program"
    if found is not None and found.st_nlink > 1:
        return f"{path.name} has other names, which may be outside of the project"
    for place in path.parents:
        if os.path.isfile(place / "HEAD") and os.path.isdir(place / "objects"):
            return f"{place} is a bare git repository, whose files can make git run commands"
        if place == project:
            break
    return ""


def _plain(part: str) -> str:
    """A name as file systems may take it that know no case, and pass over characters that nobody sees."""
    folded = unicodedata.normalize("NFKC", part).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf").rstrip(". ") or part
