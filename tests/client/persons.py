"""A person at a terminal: `fairlead attach` on a real PTY, whose screen is emulated."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from fairlead.terminal.screen.screen import Screen
from tests.hosting import WAIT, Hosting


class Person:
    """Types, reads the screen, and changes the window, which is the client's own."""

    def __init__(
        self,
        hosting: Hosting,
        *words: str,
        cols: int = 80,
        rows: int = 24,
        before: bytes = b"",
        **settings: str,
    ) -> None:
        """`before` is what the terminal shows already, `settings` are those of [attach]."""
        self.screen = Screen(cols, rows)
        self.screen.feed(before)
        settings = {"hint": "false"} | settings
        self.seen = b""
        self.ours, self.theirs = pty.openpty()
        self.resize(cols, rows)
        self.before = termios.tcgetattr(self.theirs)
        self.client = subprocess.Popen(
            [*hosting.command, *(words or ("attach", "work"))],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=hosting.environment
            | {f"FAIRLEAD_ATTACH_{name.upper()}": value for name, value in settings.items()},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - there are no threads
        )

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *error: object) -> None:
        if self.client.poll() is None:
            self.client.kill()
            self.client.wait()
        self.hang_up()
        self.screen.close()

    def hang_up(self) -> None:
        """Close the window."""
        for descriptor in (self.ours, self.theirs):
            if descriptor >= 0:
                os.close(descriptor)
        self.ours = self.theirs = -1

    def resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
        self.screen.resize(cols, rows)

    def type(self, data: bytes) -> None:
        """Type, and read what is shown meanwhile."""
        view = memoryview(data)
        deadline = time.monotonic() + 4 * WAIT
        while view:
            assert time.monotonic() < deadline, f"{len(view)} of {len(data)} bytes were not taken"
            readable, writable, _ = select.select([self.ours], [self.ours], [], WAIT)
            if readable:
                self.read()
            if writable:
                view = view[os.write(self.ours, view[:512]) :]

    def press(self, *keys: bytes) -> None:
        """Press keys one by one: each when the client has read the one before."""
        for key in keys:
            wanted = self._taken() + len(key)
            os.write(self.ours, key)
            deadline = time.monotonic() + WAIT
            while self._taken() < wanted and self.client.poll() is None:
                assert time.monotonic() < deadline, f"{key!r} was not read"
                time.sleep(0.001)

    def _taken(self) -> int:
        """How many bytes the client has read by `read`: from its terminal, not from sockets."""
        try:
            return int(Path(f"/proc/{self.client.pid}/io").read_text().split()[1])
        except (OSError, IndexError):  # it has ended, or this is no Linux
            return sys.maxsize

    def read(self) -> None:
        data = os.read(self.ours, 65_536)
        self.seen += data
        self.screen.feed(data)

    def until(self, text: str) -> None:
        """Read until the screen shows a text."""
        self.until_all([text])

    def until_all(self, texts: Sequence[str]) -> None:
        deadline = time.monotonic() + WAIT
        while missing := [text for text in texts if text not in self.screen.text()]:
            ready = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"{missing} did not come: {self.screen.text()!r}"
            self.read()

    def until_screen(self, hosting: Hosting, name: str) -> None:
        """Read until this terminal shows what the session's own shows."""
        deadline = time.monotonic() + WAIT
        while (wanted := hosting.screen(name).rstrip("\n")) != self.screen.text():
            assert time.monotonic() < deadline, f"{self.screen.text()!r} is not {wanted!r}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self.read()

    def until_again(self, text: bytes) -> None:
        """Read until something is printed once more."""
        start = len(self.seen)
        while text not in self.seen[start:]:
            assert select.select([self.ours], [], [], WAIT)[0], f"{text!r} did not come again"
            self.read()

    @property
    def text(self) -> str:
        """All that the terminal shows, or has shown and can be scrolled back to, without its line breaks."""
        return self.screen.text(scrollback=True, unwrap=True)

    def leave(self, key: bytes = b"\x1c") -> int:
        """Press the key that leaves, and again if it came together with what was typed before."""
        for _ in range(10):
            self.press(key)
            with contextlib.suppress(AssertionError):
                return self.exit_code(patience=3)
        return self.exit_code()

    def exit_code(self, patience: float = WAIT) -> int:
        """Read to the end."""
        deadline = time.monotonic() + patience
        while self.client.poll() is None or select.select([self.ours], [], [], 0)[0]:
            assert time.monotonic() < deadline, f"it goes on: {self.screen.text()!r}"
            if select.select([self.ours], [], [], 0.02)[0]:
                self.read()
        return self.client.returncode
