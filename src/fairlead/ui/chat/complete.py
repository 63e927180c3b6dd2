"""What Tab completes in the line of a chat: commands and their arguments, files, and names of sessions.

Nothing is waited for. What the daemon has to be asked for, and what is looked for on disk, is offered when it
is there: whoever has a list open asks for the candidates again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...formats.shown import one_line
from .menu import Candidate
from .paths import ProjectPaths

FRESH_SECONDS = 5.0
"""How long what the daemon has told counts as how it is."""
MAX_NAMES = 200
"""How many sessions on disk it is asked for."""
MAX_ABOUT = 100

_SOURCES: Mapping[str, Mapping[str, Any]] = {
    "get_commands": {},
    "get_available_models": {},
    "get_view": {},
    "session_list": {},
    "session_history": {"limit": MAX_NAMES},
}
"""The requests that bring what is known, with their parameters."""


class Known:
    """What the daemon has told of commands, models, modes and sessions. `ask` sends a request, if it can."""

    def __init__(self, ask: Callable[..., bool]) -> None:
        self._ask = ask
        self._told: dict[str, dict[str, Any]] = {}
        self._asked_at: dict[str, float] = {}
        self._awaited: set[str] = set()

    def forget(self) -> None:
        """It is another session, or another daemon."""
        self._asked_at.clear()
        self._awaited.clear()
        self._told.clear()

    def learn(self, op: str, data: dict[str, Any]) -> bool:
        """Take an answer. False if it was not asked for here."""
        if op not in _SOURCES:
            return False
        self._told[op] = data
        self._awaited.discard(op)
        return True

    def of(self, op: str, **more: Any) -> dict[str, Any]:
        """What was told last, which is asked for again if that was long ago."""
        is_old = time.monotonic() - self._asked_at.get(op, -FRESH_SECONDS) >= FRESH_SECONDS
        if is_old and self._ask(op, **{**_SOURCES[op], **more}):
            self._asked_at[op] = time.monotonic()
            self._awaited.add(op)
        return self._told.get(op, {})

    @property
    def is_late(self) -> bool:
        """True if the daemon has yet to tell something."""
        return bool(self._awaited)


class Completion(NamedTuple):
    """Candidates for a part of the line, which begins at a character and ends at the cursor."""

    start: int
    candidates: list[Candidate]
    is_whole: bool = True
    """False if more may come."""


class Completer:
    """Finds candidates for what stands before the cursor. `place` is the session's directory."""

    def __init__(self, known: Known, paths: ProjectPaths, place: Callable[[], str]) -> None:
        self._known = known
        self._paths = paths
        self._place = place

    def find(self, before: str) -> Completion:
        start = _word_start(before)
        word = before[start:]
        first = before.split(maxsplit=1)[0] if before.strip() else ""
        if word.startswith("@"):
            return self._files(start, word[1:].removeprefix('"'), mark="@")
        if before.startswith("/") and start == 0 and "/" not in word[1:]:
            found = [each for each in self._commands() if each.text.strip().startswith(word)]
            return Completion(0, found, not self._known.is_late)
        if before.startswith("/") and start > 0:
            return self._fitting(start, word, self._arguments(first, before[:start]))
        if before.startswith("!"):
            if start == 0:
                start, word = len(before) - len(before.lstrip("!")), before.lstrip("!")
            return self._files(start, word.removeprefix('"'), mark="")
        if not word:
            return Completion(start, [])
        return self._fitting(start, word, self._sessions())

    def _fitting(self, start: int, word: str, candidates: list[Candidate]) -> Completion:
        wanted = word.lower()
        found = [each for each in candidates if wanted in each.text.lower()]
        found.sort(key=lambda each: not each.text.lower().startswith(wanted))
        return Completion(start, found, not self._known.is_late)

    def _commands(self) -> list[Candidate]:
        rows = self._known.of("get_commands").get("commands") or ()
        found: dict[str, Candidate] = {}
        for row in rows:
            name, _, takes = str(row.get("name") or "").partition(" ")
            about = one_line(str(row.get("description") or ""), MAX_ABOUT)
            text = f"{name} " if takes or name in _ARGUMENTS else name
            found.setdefault(name, Candidate(text, about))
        for name, about in _OWN.items():
            found.setdefault(name.partition(" ")[0], Candidate(name.partition("[")[0], about))
        return sorted(found.values())

    def _arguments(self, command: str, before: str) -> list[Candidate]:
        """What may stand after a command, in its first place."""
        find = _ARGUMENTS.get(command)
        is_first = len(before.split()) == 1
        return find(self) if find is not None and is_first else []

    def _models(self) -> list[Candidate]:
        rows = self._known.of("get_available_models").get("models") or ()
        return [Candidate(f"{row['provider']}/{row['id']}", str(row.get("name") or "")) for row in rows]

    def _levels(self) -> list[Candidate]:
        state = self._known.of("get_view").get("state") or {}
        rows = [row for row in state.get("options") or () if row.get("category") == "thought_level"]
        return [Candidate(each["value"]) for row in rows for each in row.get("choices") or ()]

    def _modes(self) -> list[Candidate]:
        state = self._known.of("get_view").get("state") or {}
        return [Candidate(row["id"], str(row.get("name") or "")) for row in state.get("modes") or ()]

    def _options(self) -> list[Candidate]:
        state = self._known.of("get_view").get("state") or {}
        return [Candidate(row["id"], str(row.get("name") or "")) for row in state.get("options") or ()]

    def _sessions(self) -> list[Candidate]:
        rows = self._known.of("session_list").get("sessions") or ()
        return [
            Candidate(row["name"], f"{row.get('kind')} · {row.get('state')}")
            for row in rows
            if row.get("name") and " " not in row["name"]
            if row["kind"] == "terminal" or row["name"] != row["id"]
        ]

    def _ids(self) -> list[Candidate]:
        """Sessions that the chat can turn to: those with a name, else by their ids."""
        rows = self._known.of("session_history", cwd=self._place() or None).get("sessions") or ()
        found = [Candidate(row["name"] or row["id"], str(row.get("what") or "")) for row in rows]
        chats = (each for each in self._sessions() if each.about.startswith(("agent", "hosted")))
        return list({each.text: each for each in (*chats, *found) if " " not in each.text}.values())

    def _files(self, start: int, part: str, *, mark: str) -> Completion:
        place = self._place()
        self._paths.look(place)
        found = self._paths.matching(part)
        return Completion(
            start, [Candidate(_written(path, mark)) for path in found], not self._paths.is_looking
        )


_ARGUMENTS: Mapping[str, Callable[[Completer], list[Candidate]]] = {
    "/model": Completer._models,
    "/thinking": Completer._levels,
    "/mode": Completer._modes,
    "/option": Completer._options,
    "/tree": Completer._ids,
    "/resume": Completer._ids,
}
_OWN = {
    "/answer [text]": "answer what an agent asks you",
    "/image [path]": "attach an image to the next prompt",
    "/exit": "leave; the session is kept",
}
"""The commands that only the chat has."""


def _written(path: str, mark: str) -> str:
    """A path as it stands in the line; what is after a directory may follow at once."""
    quoted = f'{mark}"{path}"' if " " in path else f"{mark}{path}"
    return quoted if path.endswith(os.sep) else f"{quoted} "


def _word_start(before: str) -> int:
    """Where the word at the cursor begins; a quoted path is one."""
    quote = before.rfind('"')
    if quote >= 0 and before.count('"') % 2:
        return quote - (before[quote - 1 : quote] == "@")
    return max(before.rfind(" "), before.rfind("\n")) + 1


def common(texts: list[str]) -> str:
    """What all of them begin with."""
    first, last = min(texts, default=""), max(texts, default="")
    same = next((at for at, (one, other) in enumerate(zip(first, last)) if one != other), len(first))
    return first[:same]
