"""Characters that are shapes rather than letters: box lines, blocks and braille, as rectangles of a cell.

Fonts draw them with gaps or overlaps wherever their cells are not ours. Drawn by us they join exactly. What
lines a character of a box has, its name says. Does no I/O, and knows nothing of how pictures are made.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple
from unicodedata import name

WEIGHTS = {"LIGHT": 1, "SINGLE": 1, "HEAVY": 2, "DOUBLE": 3}
DIRECTIONS = {
    "LEFT": "l",
    "RIGHT": "r",
    "UP": "u",
    "DOWN": "d",
    "HORIZONTAL": "lr",
    "VERTICAL": "ud",
}
DASHES = {"DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}
ROUNDED = 0.45
"""How much of the pixel is seen in which two lines meet that are rounded there."""
HEAVY = 3
"""How many pixels a heavy line is wide; a light one has one, a double one two with one between them."""
QUADRANTS = (0b0010, 0b0001, 0b1000, 0b1011, 0b1001, 0b1110, 0b1101, 0b0100, 0b0110, 0b0111)
"""U+2596 and on: upper left, upper right, lower left, lower right, from the highest bit."""
BRAILLE_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit's dot."""


class Box(NamedTuple):
    """A rectangle in a cell, ends excluded; `cover` is how much of the background it hides."""

    left: int
    top: int
    right: int
    bottom: int
    cover: float = 1.0


def shapes(char: str, width: int, height: int) -> tuple[Box, ...] | None:
    """The rectangles that a character is made of in a cell of this size; None if it is not one of these."""
    if len(char) != 1 or not "\u2500" <= char <= "\u28ff":
        return None
    code = ord(char)
    if code < 0x2580:
        return _lines(char, width, height)
    if code < 0x25A0:
        return _blocks(code, width, height)
    return _braille(code - 0x2800, width, height) if code >= 0x2800 else None


# --- boxes --------------------------------------------------------------------------------------------------


@cache
def _arms(char: str) -> tuple[dict[str, int], int]:
    """The weight of the line in each direction, and how many dashes it has, 0 for none."""
    words = name(char).removeprefix("BOX DRAWINGS ").replace("ARC ", "")
    dashes = 0
    if " DASH " in words:
        weight, count, _, *rest = words.split()
        words, dashes = " ".join([weight, *rest]), DASHES[count]
    arms: dict[str, int] = {}
    last = 0
    for clause in words.split(" AND "):
        parts = clause.split()
        last = next((WEIGHTS[each] for each in parts if each in WEIGHTS), last)
        for each in parts:
            for direction in DIRECTIONS.get(each, ""):
                arms[direction] = last
    return arms, dashes


def _lines(char: str, width: int, height: int) -> tuple[Box, ...]:
    if char in "╱╲╳":
        return _diagonals(char, width, height)
    arms, dashes = _arms(char)
    middle = (width // 2, height // 2)
    boxes: list[Box] = []
    for direction, weight in arms.items():
        if char in "╭╮╯╰":  # the arms end before the middle
            boxes.append(_arm(direction, 1, 1, middle, (width, height)))
            continue
        boxes += _arm_of(direction, weight, arms, middle, (width, height))
    if char in "╭╮╯╰":
        x, y = middle
        boxes.append(Box(x, y, x + 1, y + 1, ROUNDED))
    if dashes:
        boxes = _dashed(boxes, dashes, width, height, is_upright="u" in arms)
    return tuple(boxes)


def _arm(
    direction: str, start: int, thick: int, middle: tuple[int, int], size: tuple[int, int], shift: int = 0
) -> Box:
    """A line from `start` pixels after the middle to the edge, `shift` pixels beside it."""
    (x, y), (width, height), half = middle, size, thick // 2
    if direction in "lr":
        top = y + shift - half
        left, right = (0, x - start + 1) if direction == "l" else (x + start, width)
        return Box(left, top, right, top + thick)
    side = x + shift - half
    top, bottom = (0, y - start + 1) if direction == "u" else (y + start, height)
    return Box(side, top, side + thick, bottom)


def _arm_of(
    direction: str, weight: int, arms: dict[str, int], middle: tuple[int, int], size: tuple[int, int]
) -> list[Box]:
    """An arm's lines, which begin where they meet those that cross them."""
    before, after = ("u", "d") if direction in "lr" else ("l", "r")
    crossing = (arms.get(before, 0), arms.get(after, 0))
    if weight != WEIGHTS["DOUBLE"]:
        doubles = crossing.count(3)
        opposite = {"l": "r", "r": "l", "u": "d", "d": "u"}[direction] in arms
        start = 0 if opposite or not doubles else 1 if doubles == 2 else -1
        thick = HEAVY if weight == WEIGHTS["HEAVY"] else 1
        if not doubles and 2 in crossing:  # into the corner of a heavy line
            start = -(HEAVY // 2)
        return [_arm(direction, start, thick, middle, size)]
    boxes = []
    for shift, near, far in ((-1, crossing[0], crossing[1]), (1, crossing[1], crossing[0])):
        start = 1 if near == 3 else -1 if not near and far == 3 else 0
        boxes.append(_arm(direction, start, 1, middle, size, shift))
    return boxes


def _dashed(boxes: list[Box], count: int, width: int, height: int, *, is_upright: bool) -> list[Box]:
    length = height if is_upright else width
    first, last = boxes[0], boxes[-1]
    dashes = []
    for number in range(count):
        start, end = number * length // count, (number + 1) * length // count - 1
        if is_upright:
            dashes.append(Box(first.left, start, first.right, max(end, start + 1)))
        else:
            dashes.append(Box(start, last.top, max(end, start + 1), last.bottom))
    return dashes


def _diagonals(char: str, width: int, height: int) -> tuple[Box, ...]:
    boxes = []
    for y in range(height):
        x = min(width - 1, y * width // height)
        if char in "╲╳":
            boxes.append(Box(x, y, x + 1, y + 1))
        if char in "╱╳":
            boxes.append(Box(width - 1 - x, y, width - x, y + 1))
    return tuple(boxes)


# --- blocks and braille -------------------------------------------------------------------------------------


def _blocks(code: int, width: int, height: int) -> tuple[Box, ...]:
    at = code - 0x2580
    if at == 0:
        return (Box(0, 0, width, height // 2),)
    if at <= 8:  # from below, in eighths
        return (Box(0, height - round(height * at / 8), width, height),)
    if at <= 0x0F:  # from the left, fewer and fewer
        return (Box(0, 0, max(1, round(width * (16 - at) / 8)), height),)
    if at == 0x10:
        return (Box(width // 2, 0, width, height),)
    if at <= 0x13:
        return (Box(0, 0, width, height, (at - 0x10) / 4),)
    if at == 0x14:
        return (Box(0, 0, width, max(1, round(height / 8))),)
    if at == 0x15:
        return (Box(width - max(1, round(width / 8)), 0, width, height),)
    x, y = width // 2, height // 2
    quarters = (Box(0, 0, x, y), Box(x, 0, width, y), Box(0, y, x, height), Box(x, y, width, height))
    bits = QUADRANTS[at - 0x16]
    return tuple(quarter for place, quarter in enumerate(quarters) if bits & 8 >> place)


def _braille(bits: int, width: int, height: int) -> tuple[Box, ...]:
    size = max(1, width // 4)
    boxes = []
    for bit, (column, row) in enumerate(BRAILLE_DOTS):
        if bits & 1 << bit:
            x = (2 * column + 1) * width // 4 - size // 2
            y = (2 * row + 1) * height // 8 - size // 2
            boxes.append(Box(x, y, x + size, y + size))
    return tuple(boxes)
