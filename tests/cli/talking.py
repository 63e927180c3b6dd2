"""A person who uses `fairlead talk`, or another command, on a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.hosting import WAIT, Hosting


class Person:
    """Someone at a terminal with a command in it."""

    def __init__(self, hosting: Hosting, *words: str) -> None:
        self._terminal, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            env=hosting.environment,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - this process has one thread
        )
        os.close(other)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> str:
        """Wait until the screen has shown a text since the last one; gives what it has shown."""
        deadline = time.monotonic() + WAIT
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.seen += os.read(self._terminal, 65_536).decode()
        shown, self.seen = self.seen, ""
        return shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def person(hosting: Hosting, *words: str) -> Iterator[Person]:
    found = Person(hosting, *(words or ("talk",)))
    try:
        yield found
    finally:
        found.close()
