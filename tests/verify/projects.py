"""Projects to verify: real directories and real git repositories."""

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ},
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Me",
    "GIT_AUTHOR_EMAIL": "me@example.org",
    "GIT_COMMITTER_NAME": "Me",
    "GIT_COMMITTER_EMAIL": "me@example.org",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def git(project: Path, *arguments: str) -> str:
    """What git prints, as the user would run it."""
    done = subprocess.run(
        ["git", *arguments], cwd=project, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(place: Path) -> Path:
    """A repository with one commit."""
    shutil.copytree(_template(), place, symlinks=True)
    return place


@cache
def _template() -> Path:
    """The repository that all others are copies of; making one takes much longer."""
    holder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, holder, ignore_errors=True)
    place = Path(holder, "template")
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    write(place, "a.py", "one = 1\ntwo = 2\n")
    write(place, "docs/page.md", "# Page\n")
    write(place, ".gitignore", "ignored/\n*.log\n")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    return place


def write(project: Path, name: str, text: str) -> Path:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def fingerprint(project: Path, *, times: bool = True) -> str:
    """A hash over everything in a directory, .git included: names, modes, contents, links, times."""
    digest = hashlib.sha256()
    for directory, names, files in os.walk(project):
        names.sort()
        for name in sorted([*names, *files]):
            path = Path(directory, name)
            found = path.lstat()
            moment = found.st_mtime_ns if times else 0
            digest.update(f"{path.relative_to(project)} {found.st_mode} {moment}".encode())
            if path.is_symlink():
                digest.update(os.readlink(path).encode())
            elif path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()
