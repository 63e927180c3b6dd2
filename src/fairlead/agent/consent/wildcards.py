"""Patterns of rules for commands, matched against text of which some is not known before it runs.

`*` stands for anything, `?` for one character, `[a-z]` for one of these; `git *` is also `git` alone. A text
may have holes, which stand for any text: a pattern matches it surely (whatever fills them) or possibly (with
something). One pass over the text, with one bit for each place in the pattern, so nothing is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

HOLE = "\0"
"""Stands for any text, also for none. No command has this character in it."""
MAX_PATTERN = 1000
"""How many characters a pattern may have."""
MAX_KEPT = 2000
"""How many patterns are kept compiled."""

_BEFORE_COMMANDS = " /;&|(){}<>`'\"=,:!$\n\t\x1f"
"""After which of these a command may begin in text that somebody else takes apart."""

_Fits = Callable[[str], bool]


class Wildcard:
    """A compiled pattern. Made by `wildcard`."""

    def __init__(self, pattern: str) -> None:
        steps, stars = _steps(pattern)
        self.head = _literal_head(pattern)
        """What every text that matches begins with."""
        self._steps = steps
        self._stars = stars
        self._end = 1 << len(steps)
        self._accepts = self._end
        if pattern.endswith(" *") and len(pattern) > 2:  # `git *` is also `git`
            self._accepts |= 1 << (len(steps) - 2)
        self._known: dict[str, int] = {}

    def surely(self, text: str, *, anywhere: bool = False) -> bool:
        """True if the text matches whatever fills its holes.

        With `anywhere`, if what begins with any of its words does.

        >>> wildcard("rm *").surely("rm \\0"), wildcard("rm *").surely("\\0 x")
        (True, False)
        """
        if not self._may_begin(text, anywhere, sure=True):
            return False
        return bool(self._run(text, anywhere, sure=True) & self._accepts)

    def possibly(self, text: str, *, anywhere: bool = False) -> bool:
        """True if the text matches when its holes are filled in some way.

        >>> wildcard("git push*").possibly("git \\0"), wildcard("git push*").possibly("git show \\0")
        (True, False)
        """
        if not self._may_begin(text, anywhere, sure=False):
            return False
        return bool(self._run(text, anywhere, sure=False) & self._accepts)

    def _may_begin(self, text: str, anywhere: bool, *, sure: bool) -> bool:
        """False if a quick look shows that it doesn't match."""
        hole = text.find(HOLE)
        if anywhere:
            return (hole >= 0 and not sure) or self.head.rstrip(" ") in text
        if hole < 0:
            return text.startswith(self.head) or f"{text} " == self.head
        known = text[:hole].rstrip(" ")  # a word that is a hole may be no word at all
        return self.head.startswith(known) or known.startswith(self.head.rstrip(" "))

    def _run(self, text: str, anywhere: bool, *, sure: bool) -> int:
        """The places in the pattern that may be reached at the end of the text."""
        stars, everything = self._stars, 2 * self._end - 1
        start = self._onward(1)
        places, before = start, " "
        for at, character in enumerate(text):
            if anywhere and before in _BEFORE_COMMANDS:
                places |= start
            if character == HOLE and not sure:
                if places:
                    places = everything & ~((places & -places) - 1)
            elif character == HOLE:
                places = self._onward(places & stars)
            else:
                taken = ((places & self._fitting(character)) << 1) | (places & stars)
                if character == " " and not sure and HOLE in (before, text[at + 1 : at + 2]):
                    taken |= places  # beside a hole that is nothing there is no blank
                places = self._onward(taken)
            before = character
            if not places and not anywhere:
                return 0
        return places

    def _onward(self, places: int) -> int:
        """The places, and those behind stars that stand for nothing."""
        while (more := places | ((places & self._stars) << 1)) != places:
            places = more
        return places

    def _fitting(self, character: str) -> int:
        """The places at which the pattern takes a character."""
        known = self._known.get(character)
        if known is None:
            known = sum(1 << place for place, fits in enumerate(self._steps) if fits(character))
            if character.isascii():
                self._known[character] = known
        return known


@lru_cache(maxsize=MAX_KEPT)
def wildcard(pattern: str) -> Wildcard:
    """The pattern, compiled."""
    return Wildcard(pattern)


def literally(text: str) -> str:
    """A pattern that matches just this text."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)


def only_text(pattern: str) -> str | None:
    """The one text that a pattern matches; None if there are more."""
    text, at = [], 0
    while at < len(pattern):
        if (
            pattern[at] == "["
            and pattern[at + 1 : at + 2] in ("*", "?", "[")
            and pattern[at + 2 : at + 3] == "]"
        ):
            text.append(pattern[at + 1])
            at += 3
        elif pattern[at] in "*?[":
            return None
        else:
            text.append(pattern[at])
            at += 1
    return "".join(text)


def _literal_head(pattern: str) -> str:
    ends = [at for at in map(pattern.find, "*?[") if at >= 0]
    return pattern[: min(ends, default=len(pattern))]


def _steps(pattern: str) -> tuple[list[_Fits], int]:
    """What each place of a pattern takes, and which of them are stars."""
    steps: list[_Fits] = []
    stars, at = 0, 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            if stars >> (len(steps) - 1) & 1 if steps else False:
                continue
            stars |= 1 << len(steps)
            steps.append(lambda each: False)
        elif character == "?":
            steps.append(lambda each: True)
        elif character == "[" and (end := _end_of_set(pattern, at)):
            steps.append(_set(pattern[at:end]))
            at = end + 1
        else:
            steps.append(character.__eq__)
    return steps, stars


def _end_of_set(pattern: str, at: int) -> int:
    """Where the bracket is that closes a set; 0 if there is none."""
    begin = at + 1 if pattern[at : at + 1] == "!" else at
    end = pattern.find("]", begin + 1)
    return max(end, 0)


def _set(inside: str) -> _Fits:
    is_not = inside.startswith("!")
    text = inside[1:] if is_not else inside
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            pairs.append((text[at], text[at + 2]))
            at += 3
        else:
            pairs.append((text[at], text[at]))
            at += 1
    return lambda each: any(first <= each <= last for first, last in pairs) != is_not
