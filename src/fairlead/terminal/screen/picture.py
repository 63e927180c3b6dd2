"""Pictures of a screen: SVG and HTML, PNG where Pillow is installed, and the model that they are made of.

Everything is placed by columns, never by the widths of a font, so that it lines up in any.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from ...system.extras import missing
from .cells import Run, Style, runs, style_of
from .glyphs import shapes
from .keyframe import CellRow, Keyframe, Rgb, SavedMode

CELL_WIDTH, CELL_HEIGHT, BASELINE, FONT_SIZE = 9, 18, 14, 15
"""Of a picture, in pixels."""
MARGIN = 6
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_FONT_FILES = ("DejaVuSansMono{}.ttf", "LiberationMono{}.ttf", "Menlo.ttc", "consola.ttf")
_FONT_DIR = Path(__file__).parents[2] / "fonts"
_OUR_FONTS = (f"{_FONT_DIR}/FairleadMono.ttf", f"{_FONT_DIR}/FairleadSymbols.ttf")
"""Fonts that are in the package; tools/make_fonts.py makes them."""
_MORE_FONTS = (
    *("NotoSansCJK-Regular.ttc", "NotoSansMonoCJK-VF.ttf.ttc", "wqy-zenhei.ttc", "wqy-microhei.ttc"),
    *(
        "NotoSansSymbols2-Regular.ttf",
        "NotoEmoji-Regular.ttf",
        "Symbola.ttf",
        "Symbola_hint.ttf",
        "DejaVuSans.ttf",
    ),
    *("NotoSansArabic-Regular.ttf", "NotoSansHebrew-Regular.ttf", "NotoSansDevanagari-Regular.ttf"),
    *("NotoSansThai-Regular.ttf", "Apple Symbols.ttf", "PingFang.ttc", "AppleSDGothicNeo.ttc"),
)
"""Fonts for what is too large to ship, where the system has them."""
SMALLEST = 7
"""The smallest size that a character gets to fit into its columns."""
_ALIKE = {
    **{0xFE0E: None, 0xFE0F: None},  # whether as text or as a picture
    **dict.fromkeys([0x23FA, *range(0x1F7E0, 0x1F7E5)], "●"),
    **dict.fromkeys(range(0x1F7E5, 0x1F7EC), "■"),
}
"""What is drawn as another character: circles and squares that differ in size or colour only."""
MAX_PNG_PIXELS = 64 * 1024 * 1024
"""How large a PNG may become."""

# What XML 1.0 can't contain, and what is no character at all.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SAFE_LINK = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_ATTRIBUTES = ("bold", "italic", "faint", "blink", "inverse", "invisible", "strikethrough", "overline")
_UNDERLINES = ("", "underline", "double-underline", "curly-underline", "dotted-underline", "dashed-underline")
SHAPES = ("bar", "block", "underline", "block")


class CellStyle(NamedTuple):
    """How a piece of a row is drawn: colours as they are in the end."""

    foreground: Rgb
    background: Rgb | None
    underline: Rgb
    style: Style


class Piece(NamedTuple):
    """Characters of one width side by side, and how they look."""

    x: int
    columns: int
    text: str
    look: CellStyle
    link: str


class Palette:
    """The colours of a screen, as the program has left them."""

    def __init__(self, frame: Keyframe, foreground: Rgb, background: Rgb) -> None:
        state = frame.terminal
        self._default = state.default_palette
        self._changed = state.palette
        foreground = state.foreground or foreground
        background = state.background or background
        swapped = state.modes & SavedMode.REVERSE_COLORS
        self.foreground, self.background = (background, foreground) if swapped else (foreground, background)
        self.cursor = state.cursor_color or self.foreground

    def color(self, color: int | Rgb) -> Rgb:
        if isinstance(color, Rgb):
            return color
        return self._changed.get(color) or Rgb(*self._default[3 * color : 3 * color + 3])

    def look(self, style: Style) -> CellStyle:
        foreground = self.foreground if style.foreground is None else self.color(style.foreground)
        background = None if style.background is None else self.color(style.background)
        if style.inverse:
            foreground, background = background or self.background, foreground
        if style.faint:
            behind = background or self.background
            foreground = Rgb(*((2 * front + back) // 3 for front, back in zip(foreground, behind)))
        underline = foreground if style.underline_color is None else self.color(style.underline_color)
        return CellStyle(foreground, background, underline, style)


def color_name(color: int | Rgb | None) -> int | str | None:
    """A colour for JSON: a number of the palette, `#rrggbb`, or nothing for the default."""
    return "#{:02x}{:02x}{:02x}".format(*color) if isinstance(color, Rgb) else color


def attributes(style: Style) -> list[str]:
    """The names of what a style has besides colours."""
    names = [name for name in _ATTRIBUTES if getattr(style, name)]
    return [*names, _UNDERLINES[style.underline]] if style.underline else names


def model(frame: Keyframe) -> list[dict[str, Any]]:
    """Rows of runs, as plain values."""
    return [
        {
            "wraps": line.wraps,
            "runs": [_run_model(run) for run in runs(line) if run.text or style_of(run.style).background],
        }
        for line in frame.shown(frame.active)
    ]


def _run_model(run: Run) -> dict[str, Any]:
    style = style_of(run.style)
    out: dict[str, Any] = {
        "x": run.x,
        "width": run.width,
        "text": run.text or " " * run.width,
        "fg": color_name(style.foreground),
        "bg": color_name(style.background),
        "attributes": attributes(style),
    }
    if run.link is not None:
        out["link"] = run.link.uri.decode("utf-8", "replace")
    return out


def pieces(line: CellRow, palette: Palette, char_width: Callable[[int], int]) -> Iterator[Piece]:
    """A row in pieces of equal looks and of characters of equal width."""
    for run in runs(line):
        look = palette.look(style_of(run.style))
        link = run.link.uri.decode("utf-8", "replace") if run.link is not None else ""
        if not run.text or run.cluster:
            yield Piece(run.x, run.width, run.text, look, link)
            continue
        x = run.x
        for text in re.findall(r"[\x20-\x7e]+|[^\x20-\x7e]", run.text):
            columns = len(text) if text.isascii() else char_width(ord(text)) or 1
            yield Piece(x, columns, text, look, link)
            x += columns


def _hex(color: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


def _xml(text: str) -> str:
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


# --- SVG ----------------------------------------------------------------------------------------------------


def svg(frame: Keyframe, palette: Palette, char_width: Callable[[int], int]) -> str:
    """The screen as an SVG document."""
    state, active = frame.terminal, frame.active
    width, height = state.cols * CELL_WIDTH + 2 * MARGIN, state.rows * CELL_HEIGHT + 2 * MARGIN
    title = _xml(state.title.decode("utf-8", "replace"))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{escape(FONTS)}" font-size="{FONT_SIZE}px">',
        f"<title>{title}</title>" if title else "",
        f'<rect width="100%" height="100%" fill="{_hex(palette.background)}"/>',
        f'<g transform="translate({MARGIN} {MARGIN})" xml:space="preserve" style="white-space:pre">',
    ]
    for y, line in enumerate(frame.shown(active)):
        texts: list[str] = []
        for piece in pieces(line, palette, char_width):
            if piece.look.background is not None:
                out.append(_rect(piece.x, y, piece.columns, _hex(piece.look.background)))
            if piece.text:
                texts.append(_svg_text(piece, y, _hex(piece.look.foreground)))
                texts.append(_svg_lines(piece, y))
        out += texts
    out.append(_svg_cursor(frame, palette, char_width))
    out.append("</g></svg>")
    return "\n".join(filter(None, out)) + "\n"


def _rect(x: float, y: float, columns: float, fill: str) -> str:
    return (
        f'<rect x="{x * CELL_WIDTH}" y="{y * CELL_HEIGHT}" width="{columns * CELL_WIDTH}" '
        f'height="{CELL_HEIGHT}" fill="{fill}" shape-rendering="crispEdges"/>'
    )


def _svg_text(piece: Piece, y: int, fill: str) -> str:
    style = piece.look.style
    if style.invisible or not piece.text.strip():
        return ""
    extra = ' font-weight="bold"' if style.bold else ""
    extra += ' font-style="italic"' if style.italic else ""
    extra += f' textLength="{piece.columns * CELL_WIDTH}" lengthAdjust="spacingAndGlyphs"'
    at = f'x="{piece.x * CELL_WIDTH}" y="{y * CELL_HEIGHT + BASELINE}"'
    text = f'<text {at} fill="{fill}"{extra}>{_xml(piece.text)}</text>'
    if _SAFE_LINK.match(piece.link):
        return f'<a href="{_xml(piece.link)}">{text}</a>'
    return text


def _svg_lines(piece: Piece, y: int) -> str:
    """Lines under, through and over a text."""
    style, look = piece.look.style, piece.look
    left, right = piece.x * CELL_WIDTH, (piece.x + piece.columns) * CELL_WIDTH
    top = y * CELL_HEIGHT
    low = top + CELL_HEIGHT - 2.5
    out = []

    def line(at: float, color: Rgb, extra: str = "") -> None:
        out.append(f'<path d="M{left} {at}H{right}" stroke="{_hex(color)}"{extra}/>')

    match style.underline:
        case 1:
            line(low, look.underline)
        case 2:
            line(low - 1, look.underline)
            line(low + 1, look.underline)
        case 3:
            waves = "q2.25 -3 4.5 0t4.5 0" * piece.columns
            out.append(f'<path d="M{left} {low}{waves}" fill="none" stroke="{_hex(look.underline)}"/>')
        case 4:
            line(low, look.underline, ' stroke-dasharray="1 2"')
        case 5:
            line(low, look.underline, ' stroke-dasharray="4 2"')
    if style.strikethrough:
        line(top + CELL_HEIGHT / 2 + 0.5, look.foreground)
    if style.overline:
        line(top + 0.5, look.foreground)
    return "".join(out)


def _svg_cursor(frame: Keyframe, palette: Palette, char_width: Callable[[int], int]) -> str:
    state, active = frame.terminal, frame.active
    if not state.modes & SavedMode.CURSOR_VISIBLE:
        return ""
    x, y, color = active.x, active.y, _hex(palette.cursor)
    if SHAPES[active.shape] == "bar":
        return _rect(x, y, 2 / CELL_WIDTH, color)
    under = next(
        (
            piece
            for piece in _cells(frame.shown(active)[y], palette, char_width)
            if piece.x <= x < piece.x + piece.columns
        ),
        None,
    )
    columns = under.columns if under is not None and under.text else 1
    start = under.x if under is not None and under.text else x
    if SHAPES[active.shape] == "underline":
        return (
            f'<rect x="{start * CELL_WIDTH}" y="{(y + 1) * CELL_HEIGHT - 3}" '
            f'width="{columns * CELL_WIDTH}" height="3" fill="{color}"/>'
        )
    text = _svg_text(under, y, _hex(palette.background)) if under is not None and under.text else ""
    return _rect(start, y, columns, color) + text


def _cells(line: CellRow, palette: Palette, char_width: Callable[[int], int]) -> Iterator[Piece]:
    """A row cell by cell."""
    for piece in pieces(line, palette, char_width):
        if piece.text.isascii() and len(piece.text) == piece.columns:
            for place, char in enumerate(piece.text):
                yield piece._replace(x=piece.x + place, columns=1, text=char)
        else:
            yield piece


# --- HTML ---------------------------------------------------------------------------------------------------


def html(frame: Keyframe, palette: Palette, char_width: Callable[[int], int]) -> str:
    """The screen as a `pre` element that needs no style sheet."""
    rows = []
    for line in frame.shown(frame.active):
        x, row = 0, ""
        for piece in pieces(line, palette, char_width):
            row += " " * (piece.x - x) + _html_piece(piece)
            x = piece.x + piece.columns
        rows.append(row)
    background, foreground = _hex(palette.background), _hex(palette.foreground)
    style = f"background:{background};color:{foreground};font-family:{FONTS};line-height:1.2"
    return f'<pre style="{escape(style)}">' + "\n".join(rows) + "</pre>\n"


def _html_piece(piece: Piece) -> str:
    text = _xml(piece.text or " " * piece.columns)
    look, style = piece.look, piece.look.style
    if style.invisible:
        text = " " * piece.columns
    lines = [name for name, on in (("line-through", style.strikethrough), ("overline", style.overline)) if on]
    if style.underline:
        kinds = ("solid", "double", "wavy", "dotted", "dashed")
        lines += ["underline", kinds[style.underline - 1], _hex(look.underline)]
    css = ";".join(
        filter(
            None,
            (
                f"color:{_hex(look.foreground)}"
                if style.foreground is not None or style.inverse or style.faint
                else "",
                f"background:{_hex(look.background)}" if look.background is not None else "",
                "font-weight:bold" if style.bold else "",
                "font-style:italic" if style.italic else "",
                f"text-decoration:{' '.join(lines)}" if lines else "",
            ),
        )
    )
    if _SAFE_LINK.match(piece.link):
        return f'<a href="{_xml(piece.link)}" style="color:inherit;{css}">{text}</a>'
    return f'<span style="{css}">{text}</span>' if css else text


# --- PNG ----------------------------------------------------------------------------------------------------


def png(frame: Keyframe, palette: Palette, char_width: Callable[[int], int]) -> bytes:
    """The screen as a PNG image.

    Raises `ImportError` where Pillow is missing and `ValueError` for a screen that is too large.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ImportError(missing("a PNG needs Pillow", "picture"), name=error.name) from error
    state, active = frame.terminal, frame.active
    size = state.cols * CELL_WIDTH + 2 * MARGIN, state.rows * CELL_HEIGHT + 2 * MARGIN
    if math.prod(size) > MAX_PNG_PIXELS:
        raise ValueError(
            f"a PNG of {state.cols}×{state.rows} cells would have more than {MAX_PNG_PIXELS} pixels"
        )
    image = Image.new("RGB", size, palette.background)
    draw = ImageDraw.Draw(image)
    fonts = _Fonts()
    for y, line in enumerate(frame.shown(active)):
        for piece in _cells(line, palette, char_width):
            look = piece.look
            _draw_piece(draw, piece, y, look.foreground, look.background, palette.background, fonts)
    if state.modes & SavedMode.CURSOR_VISIBLE:
        _draw_cursor(draw, frame, palette, fonts, char_width)
    out = BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


class _Fonts:
    """Fonts that fit the cells, each loaded once: those of the system, then our own, which have what programs
    draw, then those of the system that have still more."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, int], Any] = {}
        self._missing: dict[tuple[str, int], bytes] = {}
        self._chosen: dict[tuple[str, str], Any] = {}

    def get(self, style: Style, text: str, columns: int) -> Any:
        """The first font that has a text's first character, in a size in which it fits into the columns."""
        kind = ("-Bold" if style.bold else "") + ("Oblique" if style.bold and style.italic else "")
        if style.italic and not style.bold:
            kind = "-Oblique"
        key = kind, text[0] if text.isascii() else text
        if key not in self._chosen:
            self._chosen[key] = self._choose(kind, text, columns)
        return self._chosen[key]

    def _choose(self, kind: str, text: str, columns: int) -> Any:
        files = [*(file.format(kind) for file in _FONT_FILES), *(file.format("") for file in _FONT_FILES)]
        first = None
        for name in dict.fromkeys((*files, *_OUR_FONTS, *_MORE_FONTS)):
            font = self._load(name, FONT_SIZE)
            if font is None:
                continue
            first = first or font
            if self._has(name, font, text[0]):
                return self._fitting(name, font, text, columns)
        return first  # which shows that it has none

    def _fitting(self, name: str, font: Any, text: str, columns: int) -> Any:
        left, top, right, bottom = font.getbbox(text, anchor="ls")
        scale = min(columns * CELL_WIDTH / max(1, right - left), CELL_HEIGHT / max(1, bottom - top))
        if scale >= 1 or _is_of_cells(font, text, columns):
            return font
        return self._load(name, max(SMALLEST, int(FONT_SIZE * scale))) or font

    def _has(self, name: str, font: Any, char: str) -> bool:
        """Whether a font has a character: else it shows the same as for one that does not exist."""
        key = (name, FONT_SIZE)
        if key not in self._missing:
            self._missing[key] = bytes(font.getmask("\U0010fffe"))
        return char.isspace() or bytes(font.getmask(char)) != self._missing[key]

    def _load(self, name: str, size: int) -> Any:
        from PIL import ImageFont

        if (name, size) not in self._loaded:
            try:
                self._loaded[name, size] = ImageFont.truetype(name, size)
            except OSError:
                self._loaded[name, size] = None
        return self._loaded[name, size]


def _draw_piece(
    draw: Any, piece: Piece, y: int, foreground: Rgb, background: Rgb | None, behind: Rgb, fonts: _Fonts
) -> None:
    left, top = MARGIN + piece.x * CELL_WIDTH, MARGIN + y * CELL_HEIGHT
    right, bottom = left + piece.columns * CELL_WIDTH - 1, top + CELL_HEIGHT - 1
    style = piece.look.style
    if background is not None:
        draw.rectangle((left, top, right, bottom), background)
    if not piece.text:
        return
    if piece.text.strip() and not style.invisible:
        _draw_text(draw, piece, (left, top), foreground, background or behind, fonts)
    if style.underline:
        draw.line((left, bottom - 2, right, bottom - 2), piece.look.underline)
    if style.underline == 2:
        draw.line((left, bottom, right, bottom), piece.look.underline)
    if style.strikethrough:
        draw.line((left, top + CELL_HEIGHT // 2, right, top + CELL_HEIGHT // 2), foreground)
    if style.overline:
        draw.line((left, top, right, top), foreground)


def _is_of_cells(font: Any, text: str, columns: int) -> bool:
    """Whether a text is as wide in a font as its columns are."""
    return bool(abs(font.getlength(text) - columns * CELL_WIDTH) <= 1)


def _draw_text(
    draw: Any, piece: Piece, at: tuple[int, int], foreground: Rgb, background: Rgb, fonts: _Fonts
) -> None:
    left, top = at
    drawn = shapes(piece.text, CELL_WIDTH * piece.columns, CELL_HEIGHT)
    if drawn is not None:
        for box in drawn:
            parts = zip(foreground, background)
            color = tuple(round(front * box.cover + back * (1 - box.cover)) for front, back in parts)
            corners = (left + box.left, top + box.top, left + box.right - 1, top + box.bottom - 1)
            draw.rectangle(corners, color)
        return
    text = piece.text.translate(_ALIKE) or " "
    font = fonts.get(piece.look.style, text, piece.columns)
    if not _is_of_cells(font, text, piece.columns):  # of a font for other widths: it stands in the middle
        start, _, end, _ = font.getbbox(text, anchor="ls")
        left += round((piece.columns * CELL_WIDTH - (end - start)) / 2 - start)
    draw.text((left, top + BASELINE), text, foreground, font, anchor="ls")


def _draw_cursor(
    draw: Any, frame: Keyframe, palette: Palette, fonts: _Fonts, char_width: Callable[[int], int]
) -> None:
    active = frame.active
    x, y = active.x, active.y
    under = Piece(x, 1, " ", palette.look(style_of(bytes(16))), "")
    for piece in _cells(frame.shown(active)[y], palette, char_width):
        if piece.text and piece.x <= x < piece.x + piece.columns:
            under = piece
    left, top = MARGIN + under.x * CELL_WIDTH, MARGIN + y * CELL_HEIGHT
    right, bottom = left + under.columns * CELL_WIDTH - 1, top + CELL_HEIGHT - 1
    match SHAPES[active.shape]:
        case "bar":
            draw.rectangle((left, top, left + 1, bottom), palette.cursor)
        case "underline":
            draw.rectangle((left, bottom - 2, right, bottom), palette.cursor)
        case _:
            _draw_piece(draw, under, y, palette.background, palette.cursor, palette.cursor, fonts)
