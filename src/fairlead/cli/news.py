"""What a daemon that was started says to the command that wanted it, on the pipe that `client.launch` reads.

It is one line when our own code runs, and another when it is known how it went; then the pipe is closed. A
daemon that nobody waits for says nothing.
"""

from __future__ import annotations

import contextlib
import os

MAX_SENTENCE = 1000
"""How many characters of an error are told: the rest is in the log, and a pipe takes so much at once."""


class News:
    """The writing end of the pipe, or nothing. Owns its descriptor."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = -1 if descriptor is None else descriptor
        if self._descriptor >= 0:
            os.set_inheritable(self._descriptor, False)  # or whatever we start would keep it open

    def began(self) -> None:
        """All is loaded: whatever goes wrong from now on is told, unless we are killed."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b"began\n")

    def ready(self) -> None:
        """We serve."""
        self._tell("ready")

    def elsewhere(self) -> None:
        """Another daemon serves, or is about to."""
        self._tell("elsewhere")

    def stopped(self) -> None:
        """Somebody has stopped the daemon since we were asked for."""
        self._tell("stopped")

    def failed(self, error: BaseException) -> None:
        """We can't start."""
        from .arguments import Failure

        kind = type(error).__name__
        says = isinstance(error, Failure | OSError | ImportError) or kind == "SettingError"
        text = str(error) if says and str(error) else f"{kind}: {error}" if str(error) else kind
        self._tell(f"failed {' '.join(text.split())[:MAX_SENTENCE]}")

    def _tell(self, line: str) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):  # who wanted to know may be gone
                os.write(descriptor, f"{line}\n".encode())
            os.close(descriptor)
