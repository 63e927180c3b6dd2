"""Emphasis, code, links and escapes of Markdown within one line, as it comes. Pure.

What begins such a part is decided as soon as its end is there, or can't be any more: the line has ended, or
`MAX_SPAN` characters came. So what is drawn does not depend on the pieces in which the text came, and every
character is looked at a bounded number of times, whatever the text is.
"""

from __future__ import annotations

import copy
import re
from typing import NamedTuple

from .flow import Flow

MAX_SPAN = 300
"""How many characters emphasis, code or a link's text may have."""
MAX_TARGET = 1000
"""How many characters the address of a link may have."""
CODE = "cyan"

_SPECIAL = re.compile(r"[\\`*_~\[!<&]")
_RUN = re.compile(r"`+|\*+|_+|~+")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_STYLES = {1: "italic", 2: "bold", 3: "bold italic"}
_TARGET = re.compile(
    r"\(<?([^()\s<>]{0,900}(?:\([^()\s]{0,300}\)[^()\s<>]{0,300})?)>?(?:[ \t]{1,9}\"[^\"]{0,200}\")?\)"
)
_NO_TARGET = re.compile(r"\([^\s]*[ \t]+[^\s\")]")
_ADDRESS = re.compile(r"<((?:https?://|mailto:)[^\s<>]{1,500})>")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|nbsp|#39|#x27);")
_ENTITIES = {
    "amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": "\u00a0", "#39": "'", "#x27": "'"
}  # fmt: skip
_LONGEST_ENTITY = 6


def _closing(char: str, count: int) -> re.Pattern[str]:
    """What ends emphasis: a run as long, or one of three that ends another one too."""
    c = re.escape(char)
    after = r"(?!\w)" if char == "_" else ""
    return re.compile(rf"(?<![\s\\{c}])(?:{c}{{{count}}}|{c}{{3}})(?!{c}){after}")


_CLOSING = {(char, count): _closing(char, count) for char in "*_" for count in (1, 2, 3)}
_CLOSING["~", 2] = re.compile(r"(?<![\s\\~])~~(?!~)")


class _Part(NamedTuple):
    """A part that has begun: where its text ends, how much is left out there, its style and what follows."""

    end: int
    left_out: int
    style: str
    after: str = ""


class Inline:
    """One line's text, put into a flow with styles."""

    def __init__(
        self, flow: Flow, style: str = "", *, is_plain: bool = False, is_literal: bool = False
    ) -> None:
        """Where it is plain, code keeps its backticks; where it is literal, nothing has a meaning."""
        self._flow = flow
        self._style = style
        self._is_plain, self._is_literal = is_plain, is_literal
        self._text = ""
        self._at = 0
        self._before = " "
        self._parts: list[_Part] = []

    def preview(self, flow: Flow) -> None:
        """Put what is not decided into another flow, as if the line ended here."""
        other = copy.copy(self)
        other._flow, other._parts = flow, list(self._parts)
        other.feed("", is_last=True)

    def feed(self, text: str, *, is_last: bool = False) -> None:
        """More of the line."""
        if self._is_literal:
            self._flow.add(text, self._style)
            return
        self._text = self._text[self._at :] + text
        if self._at:
            self._parts = [part._replace(end=part.end - self._at) for part in self._parts]
        self._at = 0
        while self._at < len(self._text) or (self._parts and self._parts[-1].end == self._at):
            if self._parts and self._parts[-1].end == self._at:
                self._close(self._parts.pop())
                continue
            limit = self._parts[-1].end if self._parts else len(self._text)
            found = _SPECIAL.search(self._text, self._at, limit)
            stop = found.start() if found else limit
            if stop > self._at:
                self._put(stop - self._at)
            elif not self._special(limit, is_last or bool(self._parts)):
                break

    @property
    def _now(self) -> str:
        return " ".join(filter(None, (self._style, *(part.style for part in self._parts))))

    def _put(self, count: int) -> bool:
        """Characters that stand for themselves."""
        text = self._text[self._at : self._at + count]
        self._flow.add(text, self._now)
        self._at += count
        self._before = text[-1]
        return True

    def _close(self, part: _Part) -> None:
        self._at += part.left_out
        self._before = "x"
        if part.after:
            self._flow.add(f" ({part.after})", " ".join(filter(None, (self._style, "dim"))))

    def _special(self, limit: int, is_whole: bool) -> bool:
        """Decide what a special character is. Returns false if more text is needed for that."""
        text, at = self._text, self._at
        char, following = text[at], text[at + 1 : min(at + 2, limit)]
        if not following and not is_whole:
            return False
        if char == "\\":
            if following in _PUNCTUATION:
                self._at += 1
                return self._put(1)
            if not following:  # a line break
                self._at += 1
                return True
            return self._put(1)
        if char in "`*_~":
            return self._run(limit, is_whole)
        if char == "[" or (char == "!" and following == "["):
            return self._link(at + (char == "!"), limit, is_whole)
        if char == "<" and following in ("h", "m"):
            return self._address(limit, is_whole)
        if char == "&":
            found = _ENTITY.match(text, at, limit)
            if found is None and not is_whole and limit - at <= _LONGEST_ENTITY:
                return False
            if found:
                self._flow.add(_ENTITIES[found[1]], self._now)
                self._at = found.end()
                return True
        return self._put(1)

    def _run(self, limit: int, is_whole: bool) -> bool:
        """Backticks, asterisks and the like: what they begin, or themselves."""
        text, at = self._text, self._at
        found = _RUN.match(text, at, min(limit, at + MAX_SPAN))
        assert found is not None
        count = len(found[0])
        if count == MAX_SPAN:
            return self._put(count)
        start = at + count
        if start == limit and not is_whole:
            return False
        if text[at] == "`":
            return self._code(count, limit, is_whole)
        pattern = _CLOSING.get((text[at], count))
        following = text[start] if start < limit else " "
        opens = not following.isspace() and (
            following not in _PUNCTUATION or self._before in _PUNCTUATION or self._before.isspace()
        )
        if text[at] == "_" and self._before.isalnum():
            opens = False
        if pattern is None or not opens:
            return self._put(count)
        end = min(limit, start + MAX_SPAN)
        is_whole = is_whole or end < limit
        closing = pattern.search(text, start, end)
        if (closing is None or closing.end() == end) and not is_whole:
            return False
        if closing is None:
            return self._put(count)
        style = "strike" if text[at] == "~" else _STYLES[count]
        self._parts.append(_Part(closing.end() - count, count, style))
        self._at, self._before = start, " "
        return True

    def _code(self, count: int, limit: int, is_whole: bool) -> bool:
        text, start = self._text, self._at + count
        end = min(limit, start + MAX_SPAN)
        is_whole = is_whole or end < limit
        ticks, at = "`" * count, start
        while (at := text.find(ticks, at, end)) >= 0:
            run = _RUN.match(text, at, end)
            assert run is not None
            if run.end() == end and not is_whole:
                return False
            if len(run[0]) == count:
                break
            at = run.end()
        if at < 0:
            return self._put(count) if is_whole else False
        code = text[start:at]
        if code.strip() and code[0] == code[-1] == " ":
            code = code[1:-1]
        self._flow.add(f"`{code}`" if self._is_plain else code, " ".join(filter(None, (self._now, CODE))))
        self._at, self._before = at + count, "x"
        return True

    def _link(self, at: int, limit: int, is_whole: bool) -> bool:
        """A link or a picture: its text, and the address behind it."""
        text = self._text
        end = min(limit, at + MAX_SPAN)
        close = text.find("]", at, end)
        if close < 0:
            return self._put(1) if is_whole or end < limit else False
        if close + 1 == limit and not is_whole:
            return False
        if "[" in text[at + 1 : close] or text[close + 1 : close + 2] != "(":
            return self._put(1)
        end = min(limit, close + 1 + MAX_TARGET)
        target = _TARGET.match(text, close + 1, end)
        if target is None:
            can_come = not is_whole and end == limit and not _NO_TARGET.match(text, close + 1, end)
            return False if can_come else self._put(1)
        after = target[1] if target[1] != text[at + 1 : close] else ""
        self._parts.append(_Part(close, target.end() - close, "underline", after))
        self._at, self._before = at + 1, " "
        return True

    def _address(self, limit: int, is_whole: bool) -> bool:
        found = _ADDRESS.match(self._text, self._at, limit)
        if found is None:
            rest = self._text[self._at : limit]
            is_over = is_whole or len(rest) > MAX_TARGET or ">" in rest or " " in rest
            return self._put(1) if is_over else False
        self._flow.add(found[1], " ".join(filter(None, (self._now, "underline"))))
        self._at, self._before = found.end(), "x"
        return True
