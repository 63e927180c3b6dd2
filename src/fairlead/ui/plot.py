"""Plots in text: numbers over time, marks on a ladder, bars. Pure functions that return lines.

A curve is drawn with braille dots, of which a cell has two by four; where only ASCII can be shown, with
stars. No line is wider than the given width, and no more points are drawn than there is room for, so any
number may be given. Numbers that are not finite are left out. Times are seconds since 1970, shown in local
time, with the day where it changes. Who calls knows what the terminal can show: see `Look`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..formats.columns import cut, padded, width_of
from ..formats.shown import clean

LEAST_WIDTH, MOST_WIDTH = 20, 400
"""How many columns a plot takes, whatever is asked for."""
LEAST_HEIGHT, HEIGHT, MOST_HEIGHT = 2, 8, 60
"""How many rows the field of a curve has; without axes."""
MAX_POINTS = 100_000
"""How many points are looked at: the last ones."""
MAX_BARS = 40
"""How many bars are drawn unless more are asked for: the last ones."""
MAX_TICKS = 6
"""How many moments are named below a plot."""
MAX_TEXT = 1000
"""How many characters of a name are looked at."""
SHORT_SPAN = 600.0
"""Below so many seconds, moments have seconds."""
DAY = 86_400.0

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1"}
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of braille's dots, by row and column of a cell."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STRIP, _ASCII_STRIP = "▁▃▄▆█", "_.-=#"


class Look(NamedTuple):
    """What the terminal can show."""

    ascii: bool = False
    colour: bool = False

    def paint(self, colour: str, text: str) -> str:
        """A text in a colour, if there are colours."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colour and text and colour else text

    @property
    def mark(self) -> str:
        """What stands for what was cut."""
        return "~" if self.ascii else "…"

    def fit(self, text: str, width: int) -> str:
        """A text from anywhere, safe and in so many columns at most."""
        text = clean(text[:MAX_TEXT]).replace("\n", " ").strip()
        if self.ascii and not text.isascii():
            text = text.replace("…", "...").replace("·", ".").encode("ascii", "replace").decode()
        return cut(text, max(1, width), self.mark)


PLAIN = Look()


class Bar(NamedTuple):
    """One bar: what it is called, how long it is, and what is said behind it."""

    name: str
    value: float
    text: str = ""
    colour: str = ""


class Mark(NamedTuple):
    """One mark on a ladder: when, and on which step."""

    at: float
    step: str


# --- numbers as text ----------------------------------------------------------------------------------------


def short(value: float) -> str:
    """A number in few characters.

    >>> short(0), short(950), short(12_345), short(2_500_000), short(0.0123), short(1e30)
    ('0', '950', '12.3k', '2.5M', '0.012', '1e+30')
    """
    for limit, divisor, unit in ((1e15, 1e12, "T"), (1e12, 1e9, "G"), (1e9, 1e6, "M"), (1e6, 1e3, "k")):
        if abs(value) >= 1e15:
            return f"{value:.0e}"
        if abs(value) >= limit / 1e3 and abs(value) >= divisor:
            return f"{value / divisor:.3g}{unit}"
    return "0" if not value else f"{value:.2g}" if abs(value) < 1 else f"{value:.4g}"


def dollars(value: float) -> str:
    """An amount of money.

    >>> dollars(0), dollars(0.0042), dollars(3.5), dollars(12_000)
    ('$0', '$0.0042', '$3.50', '$12k')
    """
    if 0 < value < 1e-4:
        return "<$0.0001"
    return (
        "$0"
        if not value
        else f"${value:.2g}"
        if value < 0.01
        else (f"${value:.2f}" if value < 1000 else f"${short(value)}")
    )


def duration(seconds: float) -> str:
    """A time span.

    >>> duration(0.42), duration(12), duration(75), duration(7260), duration(200_000)
    ('0.4s', '12s', '1m15s', '2h01m', '2d07h')
    """
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}".removesuffix(".0") + "s"
    whole = round(min(seconds, 1e12))
    for large, small, names in ((86_400, 3600, "dh"), (3600, 60, "hm"), (60, 1, "ms")):
        if whole >= large:
            return f"{whole // large}{names[0]}{whole % large // small:02}{names[1]}"
    return f"{whole}s"


# --- plots --------------------------------------------------------------------------------------------------


def curve(
    points: Iterable[tuple[float, float]],
    width: int,
    height: int = HEIGHT,
    *,
    title: str = "",
    value: Callable[[float], str] = short,
    colour: str = "cyan",
    look: Look = PLAIN,
) -> list[str]:
    """Values over time, as a line between the points in the order of time."""
    width, height = _size(width), max(LEAST_HEIGHT, min(height, MOST_HEIGHT))
    shown = _ordered(points)
    if not shown:
        return [*_title(title, "", width, look), look.fit("nothing to plot", width)]
    low, high = min(each for _, each in shown), max(each for _, each in shown)
    names = {0: value(high), height - 1: value(low)} if high > low else {height // 2: value(low)}
    if high > low and height >= 5 and height % 2:
        names[height // 2] = value(low / 2 + high / 2)
    names = {row: look.fit(name, width // 3) for row, name in names.items()}
    gutter = max(map(width_of, names.values()))
    columns = width - gutter - 2
    start, end = shown[0][0], shown[-1][0]
    canvas = _Canvas(columns, height, look)
    if len(shown) == 1:
        canvas.blot()
    before: tuple[int, int] | None = None
    for at, number in _thinned(shown, start, end, canvas.across) if len(shown) > 1 else ():
        x = _place(at, start, end, canvas.across)
        y = canvas.down - 1 - _place(number, low, high, canvas.down)
        canvas.line(*(before or (x, y)), x, y)
        before = x, y
    sign = "|" if look.ascii else "│"
    tick = "+" if look.ascii else "┤"
    lines = []
    for row, text in enumerate(canvas.rows()):
        name = names.get(row, "")
        blank = " " * (gutter - width_of(name))
        lines.append(f"{blank}{name} {tick if name else sign}{look.paint(colour, text)}".rstrip())
    day, axis = _axis(start, end, columns, gutter + 1, look)
    return [*_title(title, day, width, look), *lines, *axis]


def ladder(
    marks: Iterable[Mark],
    steps: Sequence[tuple[str, str]],
    width: int,
    *,
    title: str = "",
    look: Look = PLAIN,
) -> list[str]:
    """Marks over time on the steps of a ladder, the best first, each with its colour.

    A digit stands for several marks at one place, + for more than nine.
    """
    width = _size(width)
    known = {name for name, _ in steps}
    ordered = sorted(each for each in marks if math.isfinite(each.at) and each.step in known)[-MAX_POINTS:]
    if not ordered:
        return [*_title(title, "", width, look), look.fit("nothing to plot", width)]
    names = [look.fit(name, width // 3) for name, _ in steps]
    gutter = max(map(width_of, names))
    columns = width - gutter - 2
    start, end = ordered[0].at, ordered[-1].at
    counts: dict[tuple[str, int], int] = {}
    for at, step in ordered:
        place = step, _place(at, start, end, columns)
        counts[place] = counts.get(place, 0) + 1
    lines = []
    for (step, colour), name in zip(steps, names):
        cells = [counts.get((step, column), 0) for column in range(columns)]
        one = "*" if look.ascii else "●"
        signs = [" " if not each else str(each) if each < 10 else "+" for each in cells]
        text = "".join(one if each == "1" else each for each in signs)
        gap = " " * (gutter - width_of(name))
        sign = "|" if look.ascii else "┤"
        text = look.paint(colour, text.rstrip())
        lines.append(f"{gap}{look.paint(colour, name)} {sign}{text}".rstrip())
    day, axis = _axis(start, end, columns, gutter + 1, look)
    return [*_title(title, day, width, look), *lines, *axis]


def bars(
    rows: Iterable[Bar],
    width: int,
    *,
    title: str = "",
    value: Callable[[float], str] = short,
    most: int = MAX_BARS,
    look: Look = PLAIN,
) -> list[str]:
    """A bar for each row, as long as its value, with the value behind it; the last ones if there are many."""
    width = _size(width)
    kept = list(rows)
    left_out = len(kept) - max(1, most)
    kept = [each for each in kept[-max(1, most) :] if math.isfinite(each.value)]
    head = _title(title, "", width, look)
    if left_out > 0:
        head.append(look.paint("dim", look.fit(f"({left_out} earlier ones are left out)", width)))
    if not kept:
        return [*head, look.fit("nothing to plot", width)]
    names = [look.fit(each.name, width // 3) for each in kept]
    texts = [look.fit(each.text or value(each.value), width // 3) for each in kept]
    gutter, behind = max(map(width_of, names)), max(map(width_of, texts))
    columns = max(1, width - gutter - behind - 2)
    high = max(max(each.value, 0.0) for each in kept)
    lines = []
    for each, name, text in zip(kept, names, texts):
        drawn = _bar(max(each.value, 0.0) / high if high else 0.0, columns, look)
        line = f"{padded(name, gutter)} {look.paint(each.colour, drawn)}{' ' * bool(drawn)}{text}"
        lines.append(line.rstrip())
    return [*head, *lines]


def strip(levels: Sequence[float], width: int, *, colours: Sequence[str] = (), look: Look = PLAIN) -> str:
    """Values from 0 to 1 in one line, a character for each, the last ones if there are many.

    >>> strip([0, 0.5, 1], 20), strip([0, 0.5, 1], 2, look=Look(ascii=True))
    ('▁▄█', '-#')
    """
    forms = _ASCII_STRIP if look.ascii else _STRIP
    width = max(0, min(width, MOST_WIDTH))
    first = max(0, len(levels) - width)
    pieces = []
    for number in range(first, len(levels)):
        level = levels[number] if math.isfinite(levels[number]) else 0.0
        sign = forms[round(max(0.0, min(1.0, level)) * (len(forms) - 1))]
        pieces.append(look.paint(colours[number], sign) if number < len(colours) else sign)
    return "".join(pieces)


# --- times --------------------------------------------------------------------------------------------------


def day_of(moment: float) -> str:
    """The day of a moment in local time: `2026-11-19`."""
    return _local(moment, "%Y-%m-%d")


def clock(moment: float, *, seconds: bool = True) -> str:
    """The time of a moment in local time: `01:40:12`."""
    return _local(moment, "%H:%M:%S" if seconds else "%H:%M")


def _local(moment: float, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return "?"  # beyond what the system's calendar has


def _axis(start: float, end: float, columns: int, indent: int, look: Look) -> tuple[str, list[str]]:
    """The day, if there is only one, and the axis with as many moments as there is room for."""
    is_one_day = day_of(start) == day_of(end)
    by_days = end - start >= 7 * DAY
    year = "%Y-" if day_of(start)[:4] != day_of(end)[:4] else ""
    time_form = "%H:%M:%S" if end - start < SHORT_SPAN else "%H:%M"

    def names(count: int) -> list[str]:
        found, before = [], ""
        for number in range(count):
            moment = start + (end - start) * (number / max(1, count - 1))
            day = day_of(moment)
            if by_days:
                found.append(_local(moment, f"{year}%m-%d"))
            elif is_one_day or day == before:
                found.append(_local(moment, time_form))
            else:
                found.append(_local(moment, f"{year}%m-%d %H:%M"))
            before = day
        return found

    count = MAX_TICKS if end > start else 1
    while (placed := _spread(names(count), columns, is_span=end > start)) is None:
        count -= 1
    ruler, text = ["-" if look.ascii else "─"] * columns, [" "] * columns
    for middle, left, label in placed:
        ruler[middle] = "+" if look.ascii else "┬"
        text[left : left + len(label)] = label
    corner = "+" if look.ascii else "└"
    blank = " " * indent
    return day_of(start) if is_one_day else "", [
        f"{blank}{corner}{''.join(ruler)}",
        f"{blank} {''.join(text)}".rstrip(),
    ]


def _spread(labels: Sequence[str], columns: int, *, is_span: bool) -> list[tuple[int, int, str]] | None:
    """Where each label has its tick and where it begins, or None if there is no room for so many."""
    placed, taken = [], 0
    for number, label in enumerate(labels):
        label = label[:columns]
        middle = (columns - 1) * number // max(1, len(labels) - 1) if is_span else (columns - 1) // 2
        left = max(0, min(columns - len(label), middle - len(label) // 2))
        if left < taken:
            return None
        placed.append((middle, left, label))
        taken = left + len(label) + 1
    return placed


def _title(title: str, day: str, width: int, look: Look) -> list[str]:
    whole = ", ".join(each for each in (title, day) if each)
    if len(whole) <= MAX_TEXT and width_of(whole) > width:
        return [look.paint("bold", look.fit(each, width)) for each in (title, day) if each]
    return [look.paint("bold", look.fit(whole, width))] if whole else []


# --- where points go ----------------------------------------------------------------------------------------


def _size(width: int) -> int:
    return max(LEAST_WIDTH, min(width, MOST_WIDTH))


def _ordered(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found = [(at, value) for at, value in points if math.isfinite(at) and math.isfinite(value)]
    return sorted(found, key=lambda each: each[0])[-MAX_POINTS:]


def _place(value: float, low: float, high: float, count: int) -> int:
    """Which of so many places a value has between two others; the one in the middle if they are equal."""
    half = high / 2 - low / 2  # their difference may be more than a float can hold
    if half <= 0:
        return (count - 1) // 2
    return max(0, min(count - 1, round((value / 2 - low / 2) / half * (count - 1))))


def _thinned(
    points: Sequence[tuple[float, float]], start: float, end: float, columns: int
) -> Iterable[tuple[float, float]]:
    """Of the points in each column the first, the lowest, the highest and the last."""
    if len(points) <= 4 * columns:
        return points
    groups: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        groups.setdefault(_place(point[0], start, end, columns), []).append(point)
    kept = []
    for group in groups.values():
        low, high = min(group, key=lambda each: each[1]), max(group, key=lambda each: each[1])
        kept += [group[0], *sorted((low, high), key=lambda each: each[0]), group[-1]]
    return kept


def _bar(share: float, columns: int, look: Look) -> str:
    if look.ascii:
        return "#" * max(round(share * columns), share > 0)
    eighths = max(round(share * columns * 8), share > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


class _Canvas:
    """Dots in cells."""

    def __init__(self, columns: int, rows: int, look: Look) -> None:
        self._wide, self._high = (1, 1) if look.ascii else (2, 4)
        self.across, self.down = columns * self._wide, rows * self._high
        self._cells = [[0] * columns for _ in range(rows)]
        self._is_ascii = look.ascii

    def line(self, x: int, y: int, to_x: int, to_y: int) -> None:
        """Set the dots from a place to another, both included."""
        steps = max(abs(to_x - x), abs(to_y - y), 1)
        for step in range(steps + 1):
            self._dot(x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps))

    def _dot(self, x: int, y: int) -> None:
        self._cells[y // self._high][x // self._wide] |= _DOTS[y % self._high][x % self._wide]

    def blot(self) -> None:
        """Fill the cell in the middle: one dot of braille is hardly seen."""
        row, column = len(self._cells) // 2, (len(self._cells[0]) - 1) // 2
        self._cells[row][column] = 0xFF

    def rows(self) -> list[str]:
        if self._is_ascii:
            return ["".join("*" if each else " " for each in row).rstrip() for row in self._cells]
        return ["".join(chr(0x2800 + each) if each else " " for each in row).rstrip() for row in self._cells]
