"""Regular expressions that users, models and peers write: always matched in time linear in the text.

Python's `re` backtracks, so `(a+)+$` on forty letters can take hours. RE2 doesn't, and in return has no
backreferences and no lookaround. This is the only module that knows RE2: what it spells differently from `re`
(`\\d`, `\\w`, `\\s` for all of Unicode, `\\Z`, `\\u1234`) is translated here; its errors become sentences.
`^`, `$` and `.` are as in `re`, but `$` is only the very end, not the place before a last newline. `\\w` past
Latin-1 goes by blocks, so it has some signs in it that are no letters; `\\b`, and `\\W` and `\\S` inside of
brackets, know ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

MAX_PATTERN = 2000
"""How many characters a pattern may have."""
MAX_MEMORY = 1024 * 1024
"""How many bytes RE2 may take for one pattern, some 16,000 instructions: compiling takes 40 ms at worst."""
QUICK = 200_000
"""Characters times instructions that take some 2 ms at worst: more should not run on an event loop."""

# Letters and digits by their blocks: by their categories they would be 1,300 instructions for each `\w`.
_WORD = "0-9A-Za-z_ª²³µ¹º¼-¾À-ÖØ-öø-ÿ" + "".join(
    f"\\x{{{first:x}}}-\\x{{{last:x}}}"
    for first, last in (
        *((0x100, 0x1FFF), (0x2070, 0x209C), (0x2C00, 0x2DFF), (0x3005, 0x3007), (0x3021, 0x3029)),
        *((0x3031, 0x303C), (0x3041, 0x31FF), (0x3400, 0xD7FF), (0xF900, 0xFDFB), (0xFE70, 0xFEFC)),
        *((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0xFF66, 0xFFDC), (0x10000, 0x1CFFF)),
        *((0x1D400, 0x1D7FF), (0x1E000, 0x1EFFF), (0x20000, 0x3FFFF)),
    )
)
_DIGIT, _SPACE = r"\p{Nd}", r"\s\x{0b}\x{1c}-\x{1f}\x{85}\p{Z}"
_CLASSES = {"w": _WORD, "d": _DIGIT, "s": _SPACE}
_NUMBERED = re.compile(r"u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})")
_UNSUPPORTED = (
    (re.compile(r"invalid perl operator: \(\?<?[=!]"), "lookaround such as (?=…) is not supported"),
    (re.compile(r"invalid escape sequence: \\[1-9]"), r"backreferences such as \1 are not supported"),
    (re.compile(r"invalid perl operator: \(\?[(>]"), "atomic and conditional groups are not supported"),
    (re.compile("pattern too large"), "it is too large; repeat less in it"),
    (re.compile(r"bad repetition operator: [*+?]\+"), "possessive repetition such as a++ is not supported"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class PatternError(ValueError):
    """What should be a pattern is none, or one that can't be matched in linear time. Says why."""


class PatternMatch(Protocol):
    """A place where a pattern matches; as `re.Match`."""

    def start(self) -> int: ...

    def end(self) -> int: ...

    def groups(self) -> tuple[str | None, ...]: ...

    def groupdict(self) -> dict[str, str | None]: ...

    def __getitem__(self, group: int) -> str: ...


class Pattern:
    """A compiled pattern. Made by `compiled`. Other threads run while it searches."""

    def __init__(self, regexp: Any, written: str) -> None:
        self._regexp = regexp
        self.written = written

    def __repr__(self) -> str:
        return f"<Pattern {self.written!r}>"

    @property
    def names(self) -> set[str]:
        """The groups, by number and by name."""
        return {*map(str, range(1, self._regexp.groups + 1)), *self._regexp.groupindex}

    def is_quick(self, text: str) -> bool:
        """True if searching this text takes no more than some 2 ms, whatever is in it."""
        return len(text) * int(self._regexp.programsize) <= QUICK

    def search(self, text: str) -> PatternMatch | None:
        """The first match."""
        found: PatternMatch | None = self._regexp.search(_encodable(text))
        return found

    def match(self, text: str) -> PatternMatch | None:
        """The match at the beginning."""
        found: PatternMatch | None = self._regexp.match(_encodable(text))
        return found

    def finditer(self, text: str) -> Iterator[PatternMatch]:
        """All matches, one after the other. Each takes linear time, so who wants many counts the time."""
        found: Iterator[PatternMatch] = self._regexp.finditer(_encodable(text))
        return found


def compiled(
    pattern: str, *, literal: bool = False, multiline: bool = False, ignore_case: bool = False
) -> Pattern:
    """The pattern, or a text if `literal`. Raises `PatternError`.

    >>> compiled(r"(a+)+$").search("a" * 34 + "!") is None
    True
    """
    import re2

    if not literal and len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern has at most {MAX_PATTERN} characters, not {len(pattern)}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not ignore_case
    options.literal = literal
    text = _encodable(pattern)
    if not literal:
        text = ("(?m)" if multiline else "") + _translated(text)
    if not literal and "(?P=" in pattern:
        raise PatternError(f"invalid regular expression {pattern!r}: {_UNSUPPORTED[1][1]}")
    try:
        regexp = re2.compile(text, options)
    except re2.error as error:
        reason = _reason(error).replace("(?m)", "").removesuffix(f": {pattern}")  # the former is ours
        raise PatternError(f"invalid regular expression {pattern!r}: {reason}") from None
    return Pattern(regexp, pattern)


class BytesSearch:
    """Looks whether a pattern of our own, in RE2's words, is anywhere in some bytes: in long ones four times
    quicker than `re` if the pattern begins with a letter, in short ones slower. Compiled when it is used."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._regexp: Any = None

    def __call__(self, data: bytes) -> bool:
        if self._regexp is None:
            import re2

            options = re2.Options()
            options.encoding = re2.Options.Encoding.LATIN1
            self._regexp = re2.compile(self._pattern, options)
        return self._regexp.search(data) is not None


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return next((why for known, why in _UNSUPPORTED if known.search(text)), text or "it is none")


def _encodable(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair, which no encoding has."""
    return _SURROGATE.sub("?", text) if not text.isascii() and _SURROGATE.search(text) else text


def _translated(pattern: str) -> str:
    """What `re` would understand, in RE2's words."""
    made: list[str] = []
    at, in_class = 0, -1  # where the class begins
    while at < len(pattern):
        char = pattern[at]
        if char != "\\" or at + 1 == len(pattern):
            if in_class < 0 and char == "[":
                in_class = at + (2 if pattern[at + 1 : at + 2] == "^" else 1)
            elif char == "]" and in_class >= 0 and at > in_class:  # the first one in a class is a letter
                in_class = -1
            made.append(char)
            at += 1
            continue
        escape = pattern[at + 1]
        size = 2
        if number := _NUMBERED.match(pattern, at + 1):
            made.append(f"\\x{{{number[1] or number[2]}}}")
            size = len(number[0]) + 1
        elif escape in _CLASSES:
            made.append(_CLASSES[escape] if in_class >= 0 else f"[{_CLASSES[escape]}]")
        elif escape == "D":
            made.append(r"\P{Nd}")
        elif escape in "WS" and in_class < 0:
            made.append(f"[^{_CLASSES[escape.lower()]}]")
        elif escape == "Z" and in_class < 0:
            made.append(r"\z")
        else:
            made.append(f"\\{escape}")
        at += size
    return "".join(made)
