"""A widget that draws lines of text with a terminal's colours in them, and only those that have changed.

Of a line nothing is taken but its characters and the sequences that set colours and attributes; it is cut at
the edge, and blanks follow it. The rest of Textual's widgets is not needed for that.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ...formats.shown import coloured

MAX_LINE = 4000
"""How many characters of a line are looked at."""
MAX_CODES = 40
"""How many numbers without a reset say how a text looks; then they begin anew."""
_CODES = re.compile(r"\x1b\[([0-9;]*)m")
_JOINING = re.compile("[\u200b-\u200d\u2060\ufe00-\ufe0f\U000e0000-\U000e0fff\U0001f3fb-\U0001f3ff]")
"""What makes one character of several, of whose width terminals have different ideas."""
_PLAIN = re.compile(r"[ -~]*\Z")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 53: "overline"}
_OFF = {23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",), 22: ("bold", "dim")}
_ASCII = str.maketrans("●○…─│›·⏎█↑↓✓✗↳≡", "*o~-|>.E#^v+x<=")


@lru_cache(maxsize=4096)
def style_of(codes: tuple[int, ...], has_colours: bool) -> Style:
    """What numbers of a terminal mean together."""
    given: dict[str, bool] = {}
    colours: dict[str, Color | None] = {"color": None, "bgcolor": None}
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code == 0:
            given, colours = {}, {"color": None, "bgcolor": None}
        elif code in _ON:
            given[_ON[code]] = True
        elif code in _OFF:
            for name in _OFF[code]:
                given[name] = False
        elif code in (38, 48):
            which = "color" if code == 38 else "bgcolor"
            kind, *numbers = (*codes[at : at + 4], -1)
            if kind == 5 and 0 <= numbers[0] < 256:
                colours[which] = Color.from_ansi(numbers[0])
                at += 2
            elif kind == 2 and len(numbers) >= 3 and all(0 <= each < 256 for each in numbers[:3]):
                colours[which] = Color.from_rgb(*numbers[:3])
                at += 4
            else:
                break
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colours["color"] = Color.from_ansi(code - 30 if code < 90 else code - 82)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            colours["bgcolor"] = Color.from_ansi(code - 40 if code < 100 else code - 92)
        elif code in (39, 49):
            colours["color" if code == 39 else "bgcolor"] = None
    return Style(**(colours if has_colours else {}), **given)  # type: ignore[arg-type]


def strip_of(text: str, width: int, *, has_colours: bool = True, is_ascii: bool = False) -> Strip:
    """A line as Textual draws it, in exactly so many columns."""
    if len(text) > MAX_LINE:
        text = text[:MAX_LINE]
    if is_ascii and not text.isascii():
        text = text.translate(_ASCII).encode("ascii", "replace").decode()
    if _PLAIN.match(text):
        return Strip([Segment(text)], len(text)).adjust_cell_length(width)
    text = _JOINING.sub("", coloured(text.expandtabs(8)).replace("\n", " "))
    segments: list[Segment] = []
    codes: tuple[int, ...] = ()
    end = 0
    for found in _CODES.finditer(text):
        if found.start() > end:
            segments.append(Segment(text[end : found.start()], style_of(codes, has_colours)))
        new = tuple(int(word[:4] or "0") for word in found[1].split(";"))
        codes = new if new[0] == 0 or len(codes) > MAX_CODES else codes + new
        end = found.end()
    if end < len(text):
        segments.append(Segment(text[end:], style_of(codes, has_colours)))
    return Strip(segments).adjust_cell_length(width)


class PaintedLines(Widget):
    """Lines, each with a left and a right part. `show` says what they are now."""

    DEFAULT_CSS = "PaintedLines { width: 1fr; height: 1fr; }"
    can_focus = True

    def __init__(self, *, has_colours: bool, is_ascii: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self._has_colours = has_colours
        self._is_ascii = is_ascii
        self._left: list[str] = []
        self._right: list[str] = []
        self._right_width = 0

    def show(self, left: list[str], right: list[str] = [], right_width: int = 0) -> None:  # noqa: B006
        """Draw what has changed."""
        right = right or [""] * len(left)
        columns = self.size.width
        if right_width != self._right_width or len(left) != len(self._left):
            self._left, self._right, self._right_width = left, right, right_width
            self.refresh()
            return
        edge = columns - right_width
        old_left, old_right, self._left, self._right = self._left, self._right, left, right
        last = len(left) - 1
        changed = [
            Region(0, y, edge if 0 < y < last else columns, 1)
            for y, line in enumerate(left)
            if line != old_left[y]
        ]
        if right_width:
            changed += [
                Region(edge, y, right_width, 1) for y, line in enumerate(right) if line != old_right[y]
            ]
        if changed:
            self.refresh(*changed)

    def draw_now(self) -> None:
        """Draw what has changed at once, and not after two messages and a timer, each of which waits for the
        processor on a busy machine. A Textual without what this uses draws a little later."""
        screen = self.screen
        update, dirty = getattr(screen, "_on_timer_update", None), getattr(screen, "_dirty_widgets", None)
        if update is not None and isinstance(dirty, set) and getattr(self, "_repaint_required", False):
            self._repaint_required = False
            dirty.add(self)
            update()

    def render_line(self, y: int) -> Strip:
        columns = self.size.width
        if y >= len(self._left):
            return Strip.blank(columns)
        if not self._right_width or not 0 < y < len(self._left) - 1:
            return self._strip(self._left[y], columns)
        edge = columns - self._right_width
        bar = self._strip("\x1b[2m│\x1b[0m", 1)
        return Strip.join(
            [self._strip(self._left[y], edge - 1), bar, self._strip(self._right[y], self._right_width)]
        )

    def _strip(self, text: str, width: int) -> Strip:
        return strip_of(text, width, has_colours=self._has_colours, is_ascii=self._is_ascii)
