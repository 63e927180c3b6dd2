"""A session's screen in a terminal of another size: a part of it, and a line that says which.

The terminal can't show a program's output that was made for another size, so the screen is asked from the
daemon instead, one picture at a time, and painted cell by cell. Nothing here waits: the caller watches
`connection` and calls `receive`. Imported only where it is needed.
"""

from __future__ import annotations

import socket
from typing import Any

from .. import __version__
from ..client.calls import plain
from ..client.launch import reached
from ..formats.columns import width_of
from ..system.settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from .keys import DOWN, LEFT, RIGHT, UP

READ_SIZE = 65_536
PICTURE_GAP = 0.05
"""Seconds between two pictures, so that a busy program costs the daemon no more than a quiet one."""
LINK_WAIT = 3.0
"""Seconds that another host has: nothing else is done meanwhile."""
STEP = 8
"""How many columns a key moves the view; up and down it is half as many rows."""

_MOVES = {
    LEFT: (-STEP, 0), ord("h"): (-STEP, 0), RIGHT: (STEP, 0), ord("l"): (STEP, 0),
    UP: (0, -STEP // 2), ord("k"): (0, -STEP // 2), DOWN: (0, STEP // 2), ord("j"): (0, STEP // 2),
}  # fmt: skip
_ATTRIBUTES = {
    "bold": 1, "faint": 2, "italic": 3, "underline": 4, "blink": 5, "inverse": 7, "invisible": 8,
    "strikethrough": 9, "overline": 53, "double-underline": 21, "curly-underline": 4, "dotted-underline": 4,
    "dashed-underline": 4,
}  # fmt: skip


class NoPicture(Exception):
    """The daemon does not show this session's screen."""


def _reached(settings: Settings) -> socket.socket | None:
    if not settings.host:
        return reached(settings.rpc_path)
    from ..client.hosts.dial import dial

    return dial(settings.host, ["control"], settings, asks=False, wait=LINK_WAIT)


class ClippedView:
    """A part of a session's screen. It follows the cursor until a key moves it, and again after `f`."""

    def __init__(self, settings: Settings, name: str) -> None:
        found = _reached(settings)
        if found is None:
            raise NoPicture("no daemon is running")
        self.connection: socket.socket = found
        self.asked_at = float("-inf")
        self._name = name
        self._wire = rpc.ClientConnection()
        self._handshaken = False
        self._asking = True  # which the handshake is
        self._shown: dict[str, Any] | None = None
        self._left = self._top = 0
        self._follows = True
        try:
            found.sendall(self._wire.handshake("fairlead", __version__, [rpc.INCREMENTS]))
        except OSError as error:
            found.close()
            raise NoPicture(str(error)) from None
        found.setblocking(False)

    def close(self) -> None:
        self.connection.close()

    @property
    def may_ask(self) -> bool:
        """Whether the answer to what was asked last is there."""
        return not self._asking

    def ask(self, now: float) -> None:
        """Ask for a picture. Raises NoPicture."""
        self._asking, self.asked_at = True, now
        params = rpc.fields(name=self._name, format="cells")
        try:
            self.connection.send(self._wire.request("terminal_screen", params)[1])  # few bytes, which fit
        except OSError as error:
            raise NoPicture(str(error)) from None

    def receive(self) -> bool:
        """Take what the daemon says; true if it is a new picture. Raises NoPicture."""
        try:
            data = self.connection.recv(READ_SIZE)
        except BlockingIOError:
            return False
        except OSError as error:
            raise NoPicture(str(error)) from None
        if not data:
            raise NoPicture("the daemon closed the connection")
        new = False
        for item in self._wire.receive(data):
            if isinstance(item, rpc.Error | Broken):
                raise NoPicture(str(item))
            if isinstance(item, rpc.Response):
                self._asking = False
                if self._handshaken:
                    self._shown = plain(item.data)["screen"]
                    new = True
                self._handshaken = True
        return new

    def press(self, key: int) -> bool:
        """Move the view by a key, if it is one of those that do."""
        if key == ord("f"):
            self._follows = True
            self._left = self._top = 0
        elif key in _MOVES:
            self._follows = False
            self._left += _MOVES[key][0]
            self._top += _MOVES[key][1]
        else:
            return False
        return True

    def paint(self, cols: int, rows: int, note: str) -> bytes:
        """What makes a terminal of this size show the part, and the line below it."""
        shown = self._shown
        if shown is None:
            return b""
        height = max(1, rows - 1)
        cursor = shown["cursor"]
        if self._follows:
            self._left += min(0, cursor["x"] - self._left) + max(0, cursor["x"] - self._left - cols + 1)
            self._top += min(0, cursor["y"] - self._top) + max(0, cursor["y"] - self._top - height + 1)
        left = self._left = max(0, min(self._left, shown["cols"] - cols))
        top = self._top = max(0, min(self._top, shown["rows"] - height))
        out = ["\x1b[?2026h\x1b[?25l\x1b[H"]
        for y in range(height):
            line = shown["lines"][top + y]["runs"] if top + y < len(shown["lines"]) else []
            out.append(f"\x1b[{y + 1};1H\x1b[0m\x1b[K{_row(line, left, cols)}")
        if rows > 1:
            out.append(f"\x1b[{rows};1H\x1b[0m\x1b[K\x1b[7m{self._status(cols, height, note)}\x1b[0m")
        x, y = cursor["x"] - left, cursor["y"] - top
        if cursor["visible"] and 0 <= x < cols and 0 <= y < height:
            out.append(f"\x1b[{y + 1};{x + 1}H\x1b[?25h")
        out.append("\x1b[?2026l")
        return "".join(out).encode("utf-8", "replace")

    def _status(self, cols: int, height: int, note: str) -> str:
        shown = self._shown
        assert shown is not None
        size = f"session is {shown['cols']}×{shown['rows']}"
        if shown["cols"] > cols or shown["rows"] > height:
            size += f", showing {min(cols, shown['cols'])}×{min(height, shown['rows'])}"
            size += f" at column {self._left + 1}, row {self._top + 1}; arrows or hjkl move, f follows"
        return f"{note}; {size}"[:cols]


def _row(runs: list[dict[str, Any]], left: int, cols: int) -> str:
    """The cells of a row from a column on, each run placed where it belongs."""
    out = []
    for run in runs:
        x, width, text = run["x"] - left, run["width"], run["text"]
        if x >= cols or x + width <= 0:
            continue
        if x < 0 or x + width > cols:
            x, text = _cut(text, x, cols, width)
        out.append(f"\x1b[{x + 1}G\x1b[0{_look(run)}m{text}" if x else f"\r\x1b[0{_look(run)}m{text}")
    return "".join(out)


def _cut(text: str, x: int, cols: int, width: int) -> tuple[int, str]:
    """What of a text that begins at a column is between the edges. Half of a wide character is a blank."""
    kept: list[str] = []
    start = max(0, x)
    for char in text:
        columns = 1 if width == len(text) else width_of(char)
        inside = max(0, min(x + columns, cols) - max(x, 0))
        if (columns == 0 and kept) or inside == columns:
            kept.append(char)
        else:
            kept.append(" " * inside)
        x += columns
    return start, "".join(kept)


def _look(run: dict[str, Any]) -> str:
    """The numbers of a run's colours and attributes, each after a semicolon."""
    out = [f";{_ATTRIBUTES[each]}" for each in run["attributes"] if each in _ATTRIBUTES]
    for kind, color in ((38, run["fg"]), (48, run["bg"])):
        if isinstance(color, int):
            out.append(f";{kind};5;{color}")
        elif isinstance(color, str) and len(color) == 7:
            red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
            out.append(f";{kind};2;{red};{green};{blue}")
    return "".join(out)
