"""The keys that leave a session, told apart from the same characters in a paste.

A person presses keys one by one; a paste comes all at once. So the keys of an escape count only when each
comes in a read of its own, soon after the one before, and nothing follows the last one at once. Keys that
may become an escape are held back until that is decided, so that the program sees nothing of an escape.
Where a slow line delivers several keys at once, they go to the program: leaving by mistake, with the rest
of a paste run by the shell outside, is the worse error. Has no clock of its own and imports little, as
attaching starts with it.
"""

from __future__ import annotations

from ..system.escape_keys import Presses
from .keys import ALT, ESC, KeyReader

FIRST_HOLD = 0.3
"""Seconds that a plain key which may begin an escape is held back. It delays the echo of a comma only when
nothing is typed after it, and is still longer than the pause between two presses of the same key."""
NEXT_HOLD = 1.0
"""Seconds for each key after the first, and for the first if it is a control key: nobody types those in
prose."""
QUIET = 0.05
"""Seconds in which nothing may follow an escape's last key; a paste goes on sooner."""
DOUBLE_WAIT = 0.3
"""Seconds in which a control key that leaves alone can be pressed again, to be sent to the program."""
KEY_READ = 256
"""A read of more bytes than this is never a key."""


class Escape:
    """Takes what was typed and gives what is for the program, until the person has left."""

    def __init__(self, escapes: dict[Presses, str]) -> None:
        self.left = False
        """Whether an escape was typed. What is given after that is nothing."""
        self.until: float | None = None
        """When to call `expire`, if nothing is typed before."""
        self._escapes = frozenset(escapes)
        self._beginnings = {keys[:count] for keys in escapes for count in range(1, len(keys) + 1)}
        self._firsts = bytes({keys[0] for keys in escapes} | {ESC})
        self._keys = KeyReader()
        self._held: list[tuple[int, bytes]] = []
        self._complete = False
        self._pressed_at = 0.0

    def take(self, data: bytes, now: float) -> bytes:
        """What of a read, and of what was held back, goes to the program now."""
        if len(data) == 1 and not self._held and data not in self._firsts and not self._keys.in_sequence:
            return data
        if len(data) > KEY_READ:
            self._keys.skim(data, now)
            return self._release() + data
        pasting = self._keys.pasting
        keys = self._keys.read(data, now)
        if not keys and not pasting and not self._keys.pasting and self._held:
            code, before = self._held[-1]  # the mouse, or a key let go: it stays in its place
            self._held[-1] = code, before + data
            return b""
        if len(keys) != 1:
            return self._release() + data
        return self._press(keys[0][0] & ~ALT, data, now)

    def expire(self) -> bytes:
        """Nothing was typed in time: either that was the escape, or what is held back goes to the program."""
        if self._complete:
            self.left = True
            self._held.clear()
        return self._release()

    def _press(self, code: int, data: bytes, now: float) -> bytes:
        held = self._held
        if self._complete:
            if len(held) == 1 and code == held[0][0]:  # pressed twice: it is for the program
                self._release()
                return data
            if now - self._pressed_at < QUIET:
                return self._release() + data
            self.left = True
            self._release()
            return b""
        doubled = len(held) == 1 and code == held[0][0] < 0x20 and (code, code) not in self._beginnings
        if doubled:
            self._release()
            return data
        held.append((code, data))
        out = b""
        while held and tuple([key for key, _ in held]) not in self._beginnings:
            out += held.pop(0)[1]
        pressed = tuple([key for key, _ in held])
        self._pressed_at = now
        self._complete = pressed in self._escapes
        if not held:
            self.until = None
        elif self._complete:
            self.until = now + (DOUBLE_WAIT if len(held) == 1 else QUIET)
        else:
            self.until = now + (FIRST_HOLD if len(held) == 1 and pressed[0] >= 0x20 else NEXT_HOLD)
        return out

    def _release(self) -> bytes:
        self.until = None
        self._complete = False
        if not self._held:
            return b""
        out = b"".join([data for _, data in self._held])
        self._held.clear()
        return out
