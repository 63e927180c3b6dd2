"""The difference between two texts as people read it, made in bounded time."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from itertools import islice

from msgspec import Struct

CONTEXT = 3
"""How many lines are shown around a change."""
MAX_COMPARED = 3000
"""How many lines of a changed region are compared one by one; a larger one is shown as replaced."""
MAX_SHOWN = 1000
"""How many lines a diff has at the most; of a longer one the middle is left out: harm hides at the end."""
MAX_LINE = 500
"""How many characters of a line are shown, from its beginning and its end."""


class Diff(Struct, frozen=True):
    """A unified diff without file names, and where it begins."""

    text: str
    first_changed_line: int
    """Counted from 1, in the new text."""
    added: int
    removed: int
    steps: int = 0
    """About how many steps the comparison took."""


def between(old: str, new: str, *, is_whole: bool = False, max_steps: int = sys.maxsize) -> Diff:
    """What changed; with `is_whole` all of it, however long. Line endings don't count. A region that
    takes more than `max_steps` to compare is shown as replaced.

    >>> print(between("one\\ntwo\\n", "one\\n2\\n").text)
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    """
    before, after = _lines(old), _lines(new)
    same = 0
    for mine, theirs in zip(before, after):
        if mine != theirs:
            break
        same += 1
    tail = 0
    for mine, theirs in zip(reversed(before[same:]), reversed(after[same:])):
        if mine != theirs:
            break
        tail += 1
    start = max(0, same - CONTEXT)
    ends = [len(lines) - max(0, tail - CONTEXT) for lines in (before, after)]
    changed = (before[start : ends[0]], after[start : ends[1]])
    steps = _steps(*changed)
    if max(map(len, changed)) > MAX_COMPARED or steps > max_steps:
        steps = 0
        lines = _replaced(*changed, same - start, min(tail, CONTEXT))
    else:
        lines = list(islice(difflib.unified_diff(*changed, n=CONTEXT, lineterm=""), 2, None))
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    half = MAX_SHOWN // 2
    note = [f"[{len(lines) - 2 * half} lines of the diff are hidden here]"]
    parts = (lines, [], []) if is_whole or len(lines) <= MAX_SHOWN else (lines[:half], note, lines[-half:])
    longest = sys.maxsize if is_whole else MAX_LINE
    shown = [line if part is note else _moved(line, start, longest) for part in parts for line in part]
    return Diff("\n".join(shown), same + 1, added, removed, steps)


def _steps(before: list[str], after: list[str]) -> int:
    """What comparing takes at most: for each block of equal lines, all pairs of equal lines are visited."""
    old, new = Counter(before), Counter(after)
    pairs = sum(count * new[line] for line, count in old.items())
    return min(len(before), len(after)) * (len(after) + pairs)


def _lines(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _replaced(before: list[str], after: list[str], head: int, tail: int) -> list[str]:
    """A diff that takes all of a region away and puts in the other."""
    ends = len(before) - tail, len(after) - tail
    return [
        f"@@ -1,{len(before)} +1,{len(after)} @@",
        *(f" {line}" for line in before[:head]),
        *(f"-{line}" for line in before[head : ends[0]]),
        *(f"+{line}" for line in after[head : ends[1]]),
        *(f" {line}" for line in before[ends[0] :]),
    ]


def _moved(line: str, by: int, longest: int) -> str:
    """A line of a diff; the numbers of a hunk are moved, as only a region was compared."""
    if not line.startswith("@@"):
        if len(line) <= longest:
            return line
        half = longest // 2
        return f"{line[:half]} [{len(line) - 2 * half} characters are hidden here] {line[-half:]}"
    ranges = []
    for part in line.split()[1:3]:
        number, comma, count = part[1:].partition(",")
        # an empty range names the line before it
        ranges.append(f"{part[0]}{int(number) + by}{comma}{count}")
    return f"@@ {' '.join(ranges)} @@"
