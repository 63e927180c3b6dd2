"""What a person has written down for agents: prompts that are said by name, and skills for models to read.

A prompt is a Markdown file in a directory `prompts`; typing `/its-name words` says its text, with the words
in it. A skill is a directory in `skills` with a file `SKILL.md`; models are told which there are, and read
those that help. Both are looked for in the project, in `.fairlead` and in Pi's `.pi`, and then beside the
configuration. A file may begin with a head between two lines `---`; its `description` counts.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..formats.front_matter import FrontMatterError, Value, front_matter
from ..system.opening import path_text, read_file
from .secrets import is_secret_file

PROJECT_PLACES = (".fairlead", ".pi")
"""Directories of a project that may have both. The first one with a name counts."""
MAX_FILES = 200
"""How many of each are read in one place."""
MAX_TEXT = 64 * 1024
"""How much of a file is read."""
MAX_DESCRIPTION = 200
"""How much of a description is shown."""
MAX_ALL = 1024 * 1024
"""How much is read of all prompts in one place, and of all skills; the rest is left out."""
MAX_FAULTS = 5
"""How many files that can't be used are told."""
FRESH = 2.0
"""Seconds that a look at the files holds."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ARGUMENT = re.compile(r"\$(\d{1,4}|@|ARGUMENTS\b)")


class LibraryPage(NamedTuple):
    """A prompt or a skill."""

    name: str
    description: str
    path: str
    text: str

    def said(self, words: list[str]) -> str:
        """The text of a prompt, with `$1`, `$2` … and `$@` or `$ARGUMENTS` replaced by words.

        >>> Page("fix", "", "", "Fix $1. Also: $@").said(["it", "now"])
        'Fix it. Also: it now'
        """

        def word(found: re.Match[str]) -> str:
            if not found[1].isdigit():
                return " ".join(words)
            at = int(found[1]) - 1
            return words[at] if 0 <= at < len(words) else ""

        return _ARGUMENT.sub(word, self.text).strip()

    @property
    def arguments(self) -> int:
        """How many words it takes by their place."""
        return max((int(found) for found in _ARGUMENT.findall(self.text) if found.isdigit()), default=0)


class Shelf(NamedTuple):
    """All prompts and skills for a project, by name."""

    prompts: dict[str, LibraryPage]
    skills: dict[str, LibraryPage]
    faults: list[str]
    """Sentences about files that are there and are not used."""


class Library:
    """The prompts and skills of all projects. `home` is the directory of the configuration."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._shelves: dict[Path, tuple[float, Shelf]] = {}

    def shelf(self, project: Path) -> Shelf:
        """What there is for a project, as it was a moment ago."""
        seen, shelf = self._shelves.get(project, (0.0, None))
        now = time.monotonic()
        if shelf is None or now - seen > FRESH:
            shelf = self._look(project)
            if len(self._shelves) >= MAX_FILES:
                self._shelves.clear()
            self._shelves[project] = now, shelf
        return shelf

    def _look(self, project: Path) -> Shelf:
        shelf = Shelf({}, {}, [])
        places = [(f"{project}/{place}", str(project)) for place in PROJECT_PLACES]
        for place, within in [*places, (self.home, None)]:
            files = _names(f"{place}/prompts")
            prompts = [(name[:-3], f"{place}/prompts/{name}") for name in files if name.endswith(".md")]
            skills = [(name, f"{place}/skills/{name}/SKILL.md") for name in _names(f"{place}/skills")]
            for pages, found in ((shelf.prompts, prompts), (shelf.skills, skills)):
                for page in _pages(found, within, shelf.faults):
                    pages.setdefault(page.name, page)
        return shelf


def text_in(path: str, limit: int, within: str | None, faults: list[str]) -> str | None:
    """The text of a file that somebody wrote for agents; None if there is none that may be used.

    Why not is added to the faults. A link of a project may not lead out of it, nor to a secret.
    """
    try:
        if is_secret_file(Path(os.path.realpath(path))):
            raise OSError(errno.EACCES, "it leads to a file that may hold secrets")
        return read_file(path, limit, within=within).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if len(faults) < MAX_FAULTS:
            faults.append(f"{path_text(path)} is not used: {error.strerror}")
        return None


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))[:MAX_FILES]
    except OSError:
        return []


def _pages(found: list[tuple[str, str]], within: str | None, faults: list[str]) -> Iterator[LibraryPage]:
    room = MAX_ALL
    for name, path in found:
        text = text_in(path, min(MAX_TEXT, room), within, faults) if room and _NAME.fullmatch(name) else None
        if text is not None:
            room = max(0, room - len(text))
            yield _page(name, path, text, faults)


def _page(name: str, path: str, text: str, faults: list[str]) -> LibraryPage:
    head: dict[str, Value] = {}
    body = text = text.replace("\r\n", "\n")
    if text.startswith("---\n"):
        try:
            head, body = front_matter(text, path_text(path))
        except FrontMatterError as error:
            if len(faults) < MAX_FAULTS:
                faults.append(f"the head of a file is not used: {error}")
            body = text[4:].partition("\n---\n")[2] or text
    first = next((line.strip("# \t") for line in body.splitlines() if line.strip()), "")
    description = " ".join(str(head.get("description") or first).split())[:MAX_DESCRIPTION]
    return LibraryPage(name, description, path, body)
