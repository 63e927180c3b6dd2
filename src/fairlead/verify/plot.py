"""Confidence over time, as a picture (SVG)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from .report import Confidence

WIDTH, HEIGHT = 720, 260
"""The size of a picture, in pixels."""
MAX_POINTS = 2000
"""How many reports are drawn: the last ones."""
MAX_TITLE = 120
MAX_LABEL = 200
TICKS = 5
"""How many moments are named below a picture."""

COLOURS = {
    Confidence.PERFECT: "#1a7f37",
    Confidence.VERIFIED: "#4ac26b",
    Confidence.PARTIAL: "#d4a72c",
    Confidence.FEEDBACK: "#e16f24",
    Confidence.FAILED: "#cf222e",
}
"""Of the ladder; green, orange and red as in a status bar, in two shades each."""
_FORMS = ((600, "%H:%M:%S"), (86_400, "%H:%M"), (7 * 86_400, "%m-%d %H:%M"))
"""How moments are written, by how many seconds there are in all."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 24, 44, 44


class Point(NamedTuple):
    """A report in a picture."""

    time: float
    """Seconds since 1970."""
    confidence: Confidence
    label: str = ""
    """What is shown about it when somebody points at it."""


def svg(points: Sequence[Point], title: str = "Confidence over time") -> str:
    """A picture with a dot for each report, in the order of time, and a line between them."""
    shown = sorted(points, key=lambda point: point.time)[-MAX_POINTS:]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-label="{_attribute(title)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold" fill="#1f2328">{_text(title)}</text>',
    ]
    for confidence in Confidence:
        y = _y(confidence)
        parts.append(f'<line x1="{_LEFT}" y1="{y:g}" x2="{WIDTH - _RIGHT}" y2="{y:g}" stroke="#d8dee4"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:g}" text-anchor="end" fill="{COLOURS[confidence]}">'
            f"{confidence.word.upper()}</text>"
        )
    if not shown:
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        parts.append(
            f'<text x="{middle:g}" y="{HEIGHT / 2:g}" text-anchor="middle" fill="#59636e">no reports</text>'
        )
        return "\n".join([*parts, "</svg>\n"])
    start, end = shown[0].time, shown[-1].time
    parts += _axis(start, end)
    places = [(_x(point.time, start, end), _y(point.confidence)) for point in shown]
    line = " ".join(f"{x:.1f},{y:g}" for x, y in places)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#8c959f" stroke-width="1.5"/>')
    for point, (x, y) in zip(shown, places):
        told = (
            f"{_moment(point.time, '%Y-%m-%d %H:%M')} {point.confidence.word.upper()} {point.label}".strip()
        )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:g}" r="4" fill="{COLOURS[point.confidence]}">'
            f"<title>{_text(told, MAX_LABEL)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _axis(start: float, end: float) -> list[str]:
    """The moments below, as many as differ."""
    base = HEIGHT - _BOTTOM
    form = next((form for span, form in _FORMS if end - start < span), "%Y-%m-%d")
    parts = [f'<line x1="{_LEFT}" y1="{base}" x2="{WIDTH - _RIGHT}" y2="{base}" stroke="#59636e"/>']
    count = TICKS if end > start else 1
    for number in range(count):
        moment = start + (end - start) * number / max(1, count - 1)
        x = _x(moment, start, end)
        parts.append(f'<line x1="{x:.1f}" y1="{base}" x2="{x:.1f}" y2="{base + 5}" stroke="#59636e"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{base + 19}" text-anchor="middle" fill="#59636e">'
            f"{_moment(moment, form)}</text>"
        )
    if "%d" not in form:
        day = _moment(start, "%Y-%m-%d")
        parts.append(f'<text x="{_LEFT}" y="{base + 36}" fill="#59636e">{day} UTC</text>')
    return parts


def _x(moment: float, start: float, end: float) -> float:
    room = WIDTH - _LEFT - _RIGHT - 40
    return _LEFT + 20 + (room * (moment - start) / (end - start) if end > start else room / 2)


def _y(confidence: Confidence) -> float:
    room = HEIGHT - _TOP - _BOTTOM - 24
    return _TOP + 12 + room * (4 - confidence.rank) / 4


def _moment(moment: float, form: str) -> str:
    return time.strftime(form, time.gmtime(moment))


def _text(text: str, limit: int = MAX_TITLE) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text)
    return escape(plain if len(plain) <= limit else plain[: limit - 1] + "…")


def _attribute(text: str) -> str:
    return _text(text).replace('"', "&quot;")
