"""Replacing exact pieces of a text, each of which must be there once.

Line endings do not matter for finding a piece, and are kept: what is outside of the pieces stays as it was to
the byte, and a new text gets the endings of what it replaces. A piece that is missing or not unique is an
error that says where to look.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from itertools import islice

from msgspec import Struct

BOM = "\ufeff"
MAX_PLACES = 10
"""How many places of a text that is not unique are named."""
MAX_COMPARED = 5000
"""How many lines are looked at for one that is nearly the wanted one."""
MAX_QUOTED = 160


class Replacement(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One text for another."""

    old_text: str
    new_text: str


def replaced(text: str, replacements: list[Replacement]) -> str:
    """The text with all replacements made, each found in the text as it was. Raises ValueError.

    >>> replaced("one\\r\\ntwo\\r\\n", [Replacement("one\\ntwo", "1\\n2")])
    '1\\r\\n2\\r\\n'
    """
    bom, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    plain = body.replace("\r\n", "\n")
    crlf = _crlf_ends(body)
    is_crlf_file = len(crlf) * 2 > plain.count("\n")
    pieces: list[tuple[int, int, str, int]] = []
    for number, each in enumerate(replacements, 1):
        label = f"edit {number}: " if len(replacements) > 1 else ""
        start, end = _place_of(plain, each, label)
        new = each.new_text.replace("\r\n", "\n")
        raw_start = start + bisect_left(crlf, start)
        raw_end = end + bisect_left(crlf, end)
        region = body[raw_start:raw_end]
        if "\r\n" in region or ("\n" not in region and is_crlf_file):
            new = new.replace("\n", "\r\n")
        pieces.append((raw_start, raw_end, new, number))
    pieces.sort()
    made: list[str] = []
    at = 0
    before = 0
    for start, end, new, number in pieces:
        if start < at:
            raise ValueError(f"edits {before} and {number} overlap; make them one edit")
        made += (body[at:start], new)
        at, before = end, number
    result = "".join((bom, *made, body[at:]))
    if result == text:
        raise ValueError("nothing would change: oldText and newText are the same")
    return result


def _crlf_ends(body: str) -> list[int]:
    """Where line feeds that follow a carriage return are, in the text without those."""
    ends: list[int] = []
    at = body.find("\r\n")
    while at >= 0:
        ends.append(at - len(ends))
        at = body.find("\r\n", at + 2)
    return ends


def _place_of(plain: str, wanted: Replacement, label: str) -> tuple[int, int]:
    old = wanted.old_text.removeprefix(BOM).replace("\r\n", "\n")
    if not old:
        raise ValueError(f"{label}oldText is empty; to create a new file use write")
    places: list[int] = []
    at = plain.find(old)
    while at >= 0 and len(places) <= MAX_PLACES:
        places.append(at)
        at = plain.find(old, at + 1)
    if len(places) == 1:
        return places[0], places[0] + len(old)
    if not places:
        raise ValueError(f"{label}oldText is not in the file; it must match exactly. {_hint(plain, old)}")
    numbers = ", ".join(str(plain.count("\n", 0, place) + 1) for place in places[:MAX_PLACES])
    more = " and more" if len(places) > MAX_PLACES else ""
    raise ValueError(
        f"{label}oldText is not unique: it begins in lines {numbers}{more}. Give more of the lines around it."
    )


def _hint(plain: str, old: str) -> str:
    """Where a text that is not there might have been meant to be."""
    wanted = old.strip("\n").split("\n")
    lines = plain.split("\n")
    stripped = [line.strip() for line in lines]
    first = next((line.strip() for line in wanted if line.strip()), "")
    if not first:
        return "It consists of white space only."
    skipped = next(number for number, line in enumerate(wanted) if line.strip())
    best: tuple[int, int] | None = None  # how many lines agree, where
    for number in islice((n for n, line in enumerate(stripped) if line == first), MAX_COMPARED):
        agree = 0
        for mine, theirs in zip(wanted[skipped:], lines[number:]):
            if mine != theirs:
                break
            agree += 1
        if best is None or agree > best[0]:
            best = agree, number
    if best is not None:
        agree, number = best
        at = number + agree
        if skipped + agree >= len(wanted) or at >= len(lines):
            return f"Line {number + 1} agrees, but what is around it does not."
        mine, theirs = wanted[skipped + agree], lines[at]
        same = "only white space differs" if mine.strip() == theirs.strip() else "they differ"
        return (
            f"Nearest is line {at + 1}, {same}: the file has {_quoted(theirs)}, oldText has {_quoted(mine)}."
        )
    candidates = [line[:MAX_QUOTED] for line in islice(filter(None, stripped), MAX_COMPARED)]
    close = difflib.get_close_matches(first[:MAX_QUOTED], candidates, n=1)
    if not close:
        return "No line is like its first one; read the file again."
    number = next(n for n, line in enumerate(stripped) if line[:MAX_QUOTED] == close[0])
    return f"Nearest is line {number + 1}: {_quoted(lines[number])}."


def _quoted(line: str) -> str:
    return repr(line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]}...")
