"""Text and thoughts of a message as they come, and what of a message somebody lacks who has a part of it.

After the daemon died, the next one may be behind what a client has, or ahead of it. Words are compared with
what was told, so that each is told once. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Piece = tuple[bool, str]
"""Whether it is thought, and the text."""


class Pieces:
    """Text and thoughts in their order; neighbours of one kind are one piece."""

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._parts: list[tuple[bool, list[str]]] = []
        self.size = 0
        for is_thought, text in pieces:
            self.add(is_thought, text)

    def add(self, is_thought: bool, text: str) -> None:
        if not self._parts or self._parts[-1][0] is not is_thought:
            self._parts.append((is_thought, []))
        self._parts[-1][1].append(text)
        self.size += len(text)

    @property
    def whole(self) -> list[Piece]:
        return [(is_thought, "".join(texts)) for is_thought, texts in self._parts]


class Speech:
    """The message that is being said: what a client has of it, and what the daemon has."""

    def __init__(self) -> None:
        self._told = Pieces()  # what the client has
        self._said: Pieces | None = None  # what the daemon has; None until we know

    @property
    def is_known(self) -> bool:
        return self._said is not None

    def lose(self) -> None:
        """Pieces may have been missed: what is being said is not known until `catch_up`."""
        self._said = None

    def catch_up(self, content: Iterable[Mapping[str, Any]]) -> list[Piece]:
        """The message as the daemon has it; returns what the client lacks of it."""
        self._said = pieces_of(content)
        return self._rest()

    def skip(self, content: Iterable[Mapping[str, Any]] = ()) -> None:
        """The same, of which nothing is told but what follows."""
        self._said = self._told = pieces_of(content)

    def add(self, is_thought: bool, text: str) -> list[Piece]:
        """A piece came; returns what is to be told."""
        if self._said is None or not text:
            return []
        self._said.add(is_thought, text)
        return [(is_thought, text)] if self._said is self._told else self._rest()

    def end(self, content: Iterable[Mapping[str, Any]] = ()) -> list[Piece]:
        """The message is whole, or void; returns what the client lacks of it."""
        rest = beyond(pieces_of(content).whole, self._told.whole)
        self._told = Pieces()
        if self._said is not None:
            self._said = self._told
        return rest

    def _rest(self) -> list[Piece]:
        assert self._said is not None
        rest = beyond(self._said.whole, self._told.whole)
        if rest or self._told.size <= self._said.size:
            self._told = self._said
        return rest


def beyond(said: Sequence[Piece], told: Sequence[Piece]) -> list[Piece]:
    """What of a message was not told yet. What does not begin as it was told is told anew."""
    for number, (is_thought, text) in enumerate(said):
        known_kind, known = told[number] if number < len(told) else (is_thought, "")
        if known_kind is not is_thought or not (text.startswith(known) or known.startswith(text)):
            return [*said[number:]]
        if len(text) > len(known):
            return [(is_thought, text[len(known) :]), *said[number + 1 :]]
    return []


def pieces_of(content: Iterable[Mapping[str, Any]]) -> Pieces:
    """The texts and thoughts among the parts of a message."""
    found = Pieces()
    for part in content:
        if part["type"] == "text":
            found.add(False, part["text"])
        elif part["type"] == "thinking" and part["thinking"]:
            found.add(True, part["thinking"])
    return found
