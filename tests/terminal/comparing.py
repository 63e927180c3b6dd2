"""Compares two screens by all that a keyframe says of them.

`account` is what a terminal shows and how it will go on, without what nobody can see: a blank and a space
that looks like it are the same, and so are two ways to say ASCII.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairlead.terminal.screen.cells import runs
from fairlead.terminal.screen.emulator import char_width
from fairlead.terminal.screen.keyframe import (
    ENVELOPE,
    PLAIN,
    RECORD,
    CellRow,
    Hyperlink,
    Keyframe,
    SavedCursor,
    SavedMode,
    ScreenState,
)
from fairlead.terminal.screen.screen import Screen


class Cell(NamedTuple):
    """What one place shows."""

    x: int
    text: str
    style: bytes
    link: tuple[bytes, bytes | None] | None
    protected: bool
    semantic: int


def frame_of(screen: Screen) -> Keyframe:
    """A screen's keyframe, read to the end."""
    frame = Keyframe(history=True)
    blob = screen.snapshot()
    at = ENVELOPE.size
    more = True
    while more and at < len(blob):
        tag, size, _ = RECORD.unpack_from(blob, at)
        at += RECORD.size
        more = frame.take(tag, blob[at : at + size])
        at += size
    return frame


def cells(line: CellRow) -> list[Cell]:
    """The places of a row where there is something to see."""
    out = []
    for run in runs(line):
        link = None if run.link is None else (run.link.uri, run.link.id)
        if not run.text:
            if run.style != PLAIN:
                out += [Cell(run.x + place, "", run.style, None, False, 0) for place in range(run.width)]
            continue
        x = run.x
        for text in [run.text] if run.cluster else run.text:
            blank = (
                text == " " and run.style[:4] + run.style[8:] == PLAIN[4:] and not link and not run.protected
            )
            if not blank:
                out.append(Cell(x, text, run.style, link, run.protected, run.semantic))
            elif run.style != PLAIN:
                out.append(Cell(x, "", run.style, None, False, 0))
            x += run.width if run.cluster else char_width(ord(text)) or 1
    return out


def rows(lines: list[CellRow]) -> list[tuple[bool, list[Cell]]]:
    """Rows, each with whether it goes on in the next."""
    last = len(lines) - 1
    return [(line.wraps and number < last, cells(line)) for number, line in enumerate(lines)]


def account(screen: Screen) -> dict[str, Any]:
    """All that matters of a screen, by name."""
    frame = frame_of(screen)
    state = frame.terminal._asdict()
    for unseen in ("default_palette", "default_cursor"):
        del state[unseen]
    state["modes"] &= ~SavedMode.SAVE_CURSOR
    state["tabs"] &= (1 << state["cols"] - 1) - 1  # a tab ends in the last column anyway
    out: dict[str, Any] = {f"terminal.{name}": value for name, value in state.items()}
    out["unfinished"] = frame.unfinished
    out["scrollback"] = rows(frame.scrollback())
    for each in frame.screens:
        name = "alternate" if each.alternate else "primary"
        out[f"{name}.rows"] = rows(frame.shown(each))
        shown = each is frame.active
        out |= {f"{name}.{key}": value for key, value in _screen(each, frame.terminal.cols, shown).items()}
    return out


def _screen(screen: ScreenState, cols: int, shown: bool) -> dict[str, Any]:
    state = screen._asdict()
    for elsewhere in ("lines", "pages", "alternate", "keyboard_index"):
        del state[elsewhere]
    index, flags = screen.keyboard_index, screen.keyboard
    state["keyboard"] = flags[index::-1] + flags[:index:-1]
    state["charset"] = _charset(screen.charset) & (0xFFFF if shown else 0xFFF)
    state["link"] = _link(screen.link)
    state["saved"] = _saved(screen.saved, cols)
    state["protection"] = screen.protection == 1  # none and DEC's kind do the same
    return state


def _link(link: Hyperlink | None) -> tuple[bytes, bytes | None] | None:
    return None if link is None else (link.uri, link.id)


def _saved(saved: SavedCursor | None, cols: int) -> SavedCursor | None:
    if saved is None:
        return None
    waits = saved.pending_wrap and saved.x == cols - 1
    return saved._replace(charset=_charset(saved.charset) & 0xFFF, pending_wrap=waits)


def _charset(packed: int) -> int:
    for slot in range(4):
        if packed >> 2 * slot & 3 == 1:
            packed &= ~(3 << 2 * slot)
    return packed


def differences(expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """What is not the same in two accounts, in words."""
    out = []
    for name in sorted(expected.keys() | got.keys()):
        want, have = expected.get(name), got.get(name)
        if want == have:
            continue
        if name.endswith(("rows", "scrollback")) and want is not None and have is not None:
            if len(want) != len(have):
                out.append(f"{name}: {len(want)} rows became {len(have)}")
            out += [f"{name}[{y}]: {a!r} became {b!r}" for y, (a, b) in enumerate(zip(want, have)) if a != b][
                :3
            ]
        else:
            out.append(f"{name}: {want!r} became {have!r}")
    return out
