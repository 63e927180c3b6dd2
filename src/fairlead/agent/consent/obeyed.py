"""Files of a project that are asked about although edits are accepted: other programs run or obey them
because they are there. Looks at the files' names and places, and at links to them; changes nothing.

The groups and their reasons are in docs/tools.md, too.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...system.opening import open_regular

MAX_ENTRIES = 5000
"""In how many entries of directories links to a file are looked for. Beyond that, it is asked about."""
LINK_COST = 10
"""As how many entries a link counts that has to be followed."""
MAX_CONFIG = 64 * 1024
"""How many bytes of a repository's configuration are looked at."""
MAX_WORDS = 2000
"""How many words of it may be the names of files."""


class ObeyedGroup(NamedTuple):
    """Files of one kind. All is compared without case."""

    who: str
    """What runs or obeys them, as a sentence about one of them ends."""
    names: frozenset[str]
    endings: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    directories: frozenset[str] = frozenset()
    """All that is in a directory of such a name belongs to the group,"""
    directory_endings: tuple[str, ...] = ()
    """and in one whose name ends so."""


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


GROUPS = (
    ObeyedGroup(
        "git obeys it or runs it as a hook",
        _words(
            "applypatch-msg commit-msg config.worktree head post-applypatch post-checkout post-commit",
            "post-index-change post-merge post-receive post-rewrite post-update pre-applypatch",
            "pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase pre-receive",
            "prepare-commit-msg reference-transaction update",
            "captainhook.json grumphp.yml lefthook-local.yaml lefthook-local.yml lefthook.json",
            "lefthook.toml lefthook.yaml lefthook.yml prek.toml",
        ),
        directories=_words("git-hooks git~1 githooks"),
    ),
    ObeyedGroup(
        "agents obey it or start what it names",
        _words(
            "agent.md agents.local.md agents.md agents.override.md claude.local.md claude.md conventions.md",
            "copilot-instructions.md crush.json crush.md gemini-extension.json gemini.md mcp.json",
            "opencode.json opencode.jsonc qwen.md skill.md warp.md",
        ),
    ),
    ObeyedGroup(
        "Python, tests or editors run it without being told",
        _words(
            "phpunit.xml phpunit.xml.dist locustfile.py",
            "conftest.py jupyter_config.json jupyter_config.py jupyter_lab_config.py",
            "jupyter_notebook_config.py jupyter_server_config.py mypy.ini pylintrc pylintrc.toml pytest.ini",
            "pytest.toml sitecustomize.py",
            "usercustomize.py",
        ),
        endings=(".egg-link", ".pth"),
        directories=_words("site-packages dist-packages sitecustomize usercustomize venv virtualenv"),
        directory_endings=(".dist-info", ".egg-info"),
    ),
    ObeyedGroup(
        "editors run or obey it when the project is opened",
        _words(
            "cabal.project config.nims dune dune-workspace go.mod go.work hie.yaml lakefile.lean",
            "lakefile.toml lean-toolchain nim.cfg opam pubspec.yaml analysis_options.yaml xmake.lua",
            "ansible.cfg build.sbt build.sc build.zig build.zig.zon cargo.toml cmakelists.txt",
            "cmakepresets.json cmakeuserpresets.json deps.edn dune-project global.json mix.exs",
            "package.swift phpstan.neon phpstan.neon.dist project.clj rebar.config rust-toolchain",
            "rust-toolchain.toml shadow-cljs.edn stack.yaml",
        ),
        endings=(
            *(".cabal", ".cmake", ".code-workspace", ".ipr", ".iws", ".sbt", ".sublime-project"),
            *(".gpr", ".nimble", ".nims", ".opam", ".sln", ".wsgi"),
            *(".csproj", ".fsproj", ".props", ".targets", ".vbproj", ".vcxproj"),
            *(f".config.{ending}" for ending in ("js", "cjs", "mjs", "ts", "cts", "mts")),
        ),
        beginnings=("babel.", "karma.", "rollup.", "vite.", "vitest.", "webpack."),
    ),
    ObeyedGroup(
        "package managers run or obey it",
        _words(
            "binding.gyp brewfile bun.lock bunfig.toml cargo.lock composer.json composer.lock conanfile.py",
            "constraints.txt deno.json deno.jsonc deno.lock environment.yaml environment.yml gemfile",
            "gemfile.lock gems.rb gems.locked hatch_build.py lerna.json npm-shrinkwrap.json nuget.config",
            "nx.json package-lock.json package.json pip.conf pipfile pipfile.lock pixi.lock pixi.toml",
            "pnpm-lock.yaml pnpm-workspace.yaml pnpmfile.cjs podfile poetry.lock poetry.toml project.json",
            "pyproject.toml requirements.txt rush.json setup.cfg setup.py turbo.json uv.lock uv.toml",
            "build_backend.py buildout.cfg cpanfile go.sum mix.lock package.resolved pdm.lock pdm.toml",
            "pdm_build.py podfile.lock pubspec.lock rebar.lock stack.yaml.lock vcpkg.json yarn.lock",
        ),
        endings=(".gemspec", ".podspec", ".rockspec"),
        directories=_words("node_modules"),
    ),
    ObeyedGroup(
        "build tools run it",
        _words(
            "angular.json bsdmakefile buck build build.bazel build.gradle build.pl build.rs build.xml",
            "configure configure.ac dodo.py earthfile fabfile.py gnumakefile gradle-wrapper.properties",
            "gradle.properties gradlew gradlew.bat guardfile init.gradle justfile makefile makefile.pl",
            "maven-wrapper.properties meson.build module.bazel mvnw mvnw.cmd noxfile.py pants.toml",
            "pom.xml rakefile sconscript sconstruct settings.gradle settings.gradle.kts setup.hs",
            "appfile build.cake build.fsx build.lua build.ps1 conf.py cakefile deliverfile fastfile",
            "gunicorn.conf.py magefile.go makefile.toml matchfile mkdocs.yaml mkdocs.yml workspace wscript",
            "pavement.py pluginfile premake4.lua premake5.lua psakefile.ps1 rebar.config.script snakefile",
            "taskfile.yaml taskfile.yml tasks.py thorfile toxfile.py tox.ini workspace.bazel",
        ),
        endings=(".bzl", ".cake", ".smk", ".gradle", ".gradle.kts", ".mk"),
        beginnings=("gruntfile.", "gulpfile.", "makefile."),
        directories=_words("buildsrc fastlane magefiles"),
    ),
    ObeyedGroup(
        "shells and managers of environments read it when one comes by",
        _words(
            "bash_profile bashrc config.fish devbox.json gitconfig inputrc profile screenrc tmux.conf vimrc",
            "zprofile zshenv zshrc _vimrc _exrc",
        ),
        endings=(".nix", ".ps1xml", ".psd1"),
        beginnings=("mise.",),
        directories=_words("mise"),
    ),
    ObeyedGroup(
        "CI or containers run it",
        _words(
            "action.yaml action.yml appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml bitrise.yml",
            "buildspec.yml cloudbuild.yaml cloudbuild.yml codemagic.yaml compose.override.yaml",
            "compose.override.yml compose.yaml compose.yml containerfile dangerfile",
            "devfile.yaml docker-bake.hcl dockerfile fly.toml heroku.yml jenkinsfile netlify.toml procfile",
            "renovate.json skaffold.yaml tiltfile vagrantfile vercel.json",
        ),
        endings=(".dockerfile",),
        beginnings=("containerfile.", "docker-compose.", "dockerfile.", "jenkinsfile."),
    ),
    ObeyedGroup(
        "the system starts it",
        _words("autorun.inf crontab"),
        endings=(".desktop", ".path", ".plist", ".service", ".socket", ".timer"),
    ),
)
_SETTING = re.compile(r"^\s*(\w+)\s*=\s*(.+?)\s*$", re.MULTILINE)
_WORD = re.compile(r"[^\s\"'=!;|&()]+")
_NO_PROGRAMS = frozenset(
    ("url", "pushurl", "fetch", "push", "remote", "pushremote", "merge", "name", "email")
)
"""Keys of git's configuration whose values may look like a path in the project and are none."""


def why_asked(project: Path, path: Path, links: tuple[Path, ...] = ()) -> str:
    """Why a change of a file is asked about although edits are accepted; empty if it is not. `project` and
    `path` have links followed, and `links` are those that were."""
    if not path.is_relative_to(project):
        return f"{path} is outside of the project"
    home = os.path.realpath(os.path.expanduser("~"))
    if str(project) in ("/", home) or Path(home).is_relative_to(project):
        return "the project is the home directory, or has it in it"
    if path == project:
        return f"{path} is the project's directory"
    for each in (path, *(link for link in links if link.is_relative_to(project))):
        if why := _why_named(each.relative_to(project)):
            return why
    return _why_special(project, path) or _why_linked(project, path)


def _why_named(path: Path) -> str:
    """Why a path from the project's directory is asked about for its name."""
    *above, name = parts = [_plain(part) for part in path.parts]
    if any(part.startswith(".") for part in parts):
        return f"{path.name} is hidden, or in a hidden directory: tools may run or obey it"
    for group in GROUPS:
        if name in group.names or name.endswith(group.endings) or name.startswith(group.beginnings):
            return f"{path.name}: {group.who}"
        if found := next(
            (part for part in above if part in group.directories or part.endswith(group.directory_endings)),
            "",
        ):
            return f"what is in {found}: {group.who}"
    return ""


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
        if os.path.isfile(place / "HEAD") and (
            os.path.isdir(place / "objects") or os.path.isfile(place / "commondir")
        ):
            return f"{place} is a bare git repository, whose files can make git run commands"
        if place == project:
            break
    return ""


def _why_linked(project: Path, path: Path) -> str:
    """Whether a link that is obeyed leads to a file or to what it is in, as `.git/hooks/pre-push` may lead to
    scripts/push; or whether the configuration of git names it."""
    top, shared = _repository_of(project)
    if shared is not None and (named := _named_for_git(top, shared, path)):
        return f"git's configuration names {named}"
    above = path.parents
    places = [project, *above[: above.index(project)]]
    hidden = [Path(each.path) for each in _entries(project) if each.name.startswith(".") and each.is_dir()]
    hooks = [shared / "hooks"] if shared is not None else []
    left = MAX_ENTRIES
    for place in (*places, *hidden, *hooks):
        for entry in _entries(place):
            if (left := left - 1) < 0:
                return f"too many files are beside {path.name} to see whether one that is obeyed leads to it"
            if not entry.is_symlink():
                continue
            if place not in hooks and not _why_named(Path(entry.path).relative_to(project)):
                continue
            left -= LINK_COST
            if path.is_relative_to(os.path.realpath(entry.path)):
                return f"{os.path.relpath(entry.path, project)} leads to it"
    return ""


def _entries(place: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(place) as found:
            yield from found
    except OSError:  # it is not there, or is not for us
        return


def _repository_of(project: Path) -> tuple[Path, Path | None]:
    """The top of the work tree that the project is, or is in, and the directory that its repository shares
    with all of its worktrees."""
    top = next((each for each in (project, *project.parents) if os.path.lexists(each / ".git")), project)
    place = top / ".git"
    if linked := _text_of(place).removeprefix("gitdir:").strip():
        place = top / linked
    if shared := _text_of(place / "commondir").strip():
        place /= shared
    return top, Path(os.path.realpath(place)) if os.path.isdir(place) else None


def _named_for_git(top: Path, shared: Path, path: Path) -> str:
    """A path in git's configuration, as of its hooks, of a filter or of another configuration, that a file is
    at or below."""
    settings = _SETTING.findall(_text_of(shared / "config"))
    values = [value for key, value in settings if key.lower() not in _NO_PROGRAMS]
    words = [word for value in values for word in _WORD.findall(value)][:MAX_WORDS]
    parts = {*path.parts, ".", ".."}
    for word in words:
        if word.rstrip("/").rpartition("/")[2] not in parts:  # most are no path at all
            continue
        for base in (top, shared):
            named = Path(os.path.normpath(base / os.path.expanduser(word)))
            if top in named.parents and path.is_relative_to(named):
                return str(word)
    return ""


def _text_of(path: Path) -> str:
    """A small file; empty if it can't be read."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read(MAX_CONFIG).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""


def _plain(part: str) -> str:
    """A name as file systems may take it that know no case, and pass over characters that nobody sees."""
    folded = unicodedata.normalize("NFKC", part).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf").rstrip(". ") or part
