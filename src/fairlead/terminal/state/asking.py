"""What a program asks that reads its terminal, as far as the screen tells without rules for it.

It is the line before the cursor, with the rows that it wraps over. Where that is only a mark, such as `> `,
the line above it is the question; choices that are listed above belong to it, with the line that introduces
them. Pure: looks at rows only.
"""

from __future__ import annotations

import re

from .rules import LiveView

MAX_LINES = 12
"""How many lines above the cursor may belong to a question."""
MAX_QUESTION = 200
"""How many characters a question has; of a longer one the beginning and the line before the cursor."""
BETWEEN = " · "
_WORD = re.compile(r"[^\W\d_]{3}")
"""What a line has that says something by itself. `[y/N]` and `#? ` don't."""
_CHOICE = re.compile(r"[\[(<]?(\d{1,3}|[A-Za-z])[\])>:.]\s+\S|[-*•] \S")
_ASKS = ("?", ":", "…")


def asked_on(view: LiveView) -> str:
    """What is asked; nothing if the line of the cursor is empty and the line above it is no question."""
    view = view.unwrapped()
    at = view.cursor[1]
    lines = [line.strip() for line in view.texts[: at + 1]]
    if at >= len(lines) or not lines[at]:
        while lines and not lines[-1]:
            lines.pop()
        if not lines or not lines[-1].endswith(_ASKS[:2]):
            return ""
        at = len(lines) - 1
    asked = [lines[at]]
    above = lines[max(0, at - MAX_LINES) : at]
    is_mark = _WORD.search(asked[0]) is None
    if above and (above[-1].endswith("?") or (is_mark and above[-1] and not _CHOICE.match(above[-1]))):
        asked.insert(0, above.pop())
    choices = 0
    while above and _CHOICE.match(above[-1]):
        asked.insert(0, above.pop())
        choices += 1
    if choices and above and not above[-1]:
        above.pop()
    if choices and above and above[-1].endswith(_ASKS):
        asked.insert(0, above.pop())
    return _short(asked)


def _short(asked: list[str]) -> str:
    whole = BETWEEN.join(asked)
    if len(whole) <= MAX_QUESTION:
        return whole
    last = asked[-1][-MAX_QUESTION // 2 :]
    if len(asked) == 1:
        return f"{whole[: MAX_QUESTION - 1]}…"
    return f"{whole[: MAX_QUESTION - len(last) - len(BETWEEN) - 1]}…{BETWEEN}{last}"
