"""A small agent for terminals that draws an input between two lines, a dialog, a menu, and that it works.

Started with a directory: what it is asked is appended to `said` there, one JSON text a line; `hold` keeps it
at work. A prompt says what it does: `ask` opens a dialog, `menu` a menu, `deaf` does not take the first Enter
for the next prompt, `slow` draws late, `quit` ends it; `stall` reads nothing for a while after its paste.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
import tty
from pathlib import Path

RULES = r"""
agent = "small"
version = 1
programs = ["/small_agent.py"]

[rows]
prompt = '^> ?'
ready = '^  ready'
busy = '^  busy'
option = '^ [ >] \d\. '
hint = '^  enter accepts'

[[rule]]
name = "works"
state = "working"
shape = "line =prompt =!line* line <busy>"

[[rule]]
name = "asks"
state = "waits"
shape = "line <!line> option+ hint"

[[rule]]
name = "input"
state = "idle"
shape = "line =prompt =!line* line <ready>"
"""
DIALOG = ["May it run this?", " > 1. Yes", "   2. No", "  enter accepts"]
STALL = 4.0
"""Seconds: longer than it takes until Enter is pressed again."""
MENU = ["Choose a colour", " > red", "   blue"]


class Small:
    """The program."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.log = ["ready for you"]
        self.text = ""
        self.open: list[str] = []
        """The dialog or menu that is open."""
        self.is_working = False
        self.is_deaf = False
        self.draws_at = 0.0
        self.works_until = 0.0

    @property
    def is_held(self) -> bool:
        return (self.here / "hold").exists()

    def note(self, name: str, value: str) -> None:
        with (self.here / name).open("a") as file:
            file.write(json.dumps(value) + "\n")

    def draw(self) -> None:
        columns = shutil.get_terminal_size().columns
        line = "─" * columns
        below = [line, *self.open] if self.open else [line, *f"> {self.text}".split("\n"), line]
        if not self.open:
            below.append("  busy" if self.is_working else "  ready")
        os.write(1, ("\x1b[?2004h\x1b[2J\x1b[H" + "\r\n".join([*self.log[-8:], *below])).encode())

    def submit(self) -> None:
        if self.is_deaf:
            self.is_deaf = False
            return
        text, self.text = self.text, ""
        if not text.strip():
            return
        self.note("said", text)
        self.log.append(f"you: {text.splitlines()[0]}")
        self.is_deaf = "deaf" in text
        if "quit" in text:
            os.write(1, b"\x1b[?2004l\x1b[2J\x1b[Hbye\r\n")
            sys.exit()
        if "slow" in text:
            self.draws_at = time.monotonic() + 0.6
        if "ask" in text:
            self.open = DIALOG
        elif "menu" in text:
            self.open = MENU
        else:
            self.is_working = True
            self.works_until = time.monotonic() + 0.6

    def take(self, data: str) -> None:
        """What was typed or pasted."""
        pasted, _, rest = data.partition("\x1b[201~")
        if data.startswith("\x1b[200~") and not self.open:
            self.text += pasted.removeprefix("\x1b[200~")
            data = rest
        for key in data:
            if self.open:
                self.note("pressed", key)
                self.open = []
            elif key == "\r":
                self.submit()
            elif key == "\x7f":
                self.text = self.text[:-1]
            else:
                self.text += key

    def run(self) -> None:
        self.draw()
        while True:
            ready, _, _ = select.select([0], [], [], 0.05)
            if ready:
                data = os.read(0, 65536)
                while data.startswith(b"\x1b[200~") and b"\x1b[201~" not in data:
                    data += os.read(0, 65536)
                self.take(data.decode())
            elif self.is_working and time.monotonic() > self.works_until and not self.is_held:
                self.is_working = False
            else:
                continue
            if self.draws_at:
                time.sleep(max(0.0, self.draws_at - time.monotonic()))
                self.draws_at = 0.0
            self.draw()
            if "stall" in self.text:
                time.sleep(STALL)


if __name__ == "__main__":
    tty.setraw(0)
    Small(Path(sys.argv[1])).run()
