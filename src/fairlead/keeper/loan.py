"""The memory that a keeper and its daemon share while the daemon reads the program's terminal itself.

While somebody types, a byte that the program prints should not pass the keeper on its way: the keeper lends
its PTY to the daemon. What the daemon reads goes from the kernel straight into this memory, and the count of
bytes is moved on before anybody is told of them. If the daemon dies, the keeper finds all of it here, also
what was read in the instant of the kill and not counted yet: the memory after the count is zero, and a zero
at the end of what a program prints shows nothing.
"""

from __future__ import annotations

import mmap
import os
import time
from struct import Struct

SIZE = 64 * 1024
"""How many bytes can be read in one loan."""
MAX_READ = 4096
"""How many bytes are read at once; Linux gives no more of a terminal's than this."""

_COUNT = Struct("@Qd")  # and when it was read; in the machine's own order, so that it is written at once


def create() -> int:
    """A descriptor of new shared memory, or -1 where there is none without a name in the file system."""
    if not hasattr(os, "memfd_create"):
        return -1
    try:
        descriptor = os.memfd_create("fairlead-loan")
        os.truncate(descriptor, _COUNT.size + SIZE)
    except OSError:
        return -1
    return descriptor


class Loan:
    """Shared memory, as each side has it. It owns its descriptor."""

    def __init__(self, descriptor: int) -> None:
        if os.fstat(descriptor).st_size != _COUNT.size + SIZE:
            raise ValueError(f"a loan has {_COUNT.size + SIZE} bytes, not {os.fstat(descriptor).st_size}")
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _COUNT.size + SIZE)
        self._view = memoryview(self._memory)
        self.count = 0
        """How many bytes were read, as the daemon knows it."""

    @property
    def room(self) -> int:
        return SIZE - self.count

    def read(self, terminal: int) -> int:
        """The daemon's: read the terminal once and count it. Raises OSError as `os.read` does."""
        start = _COUNT.size + self.count
        number = os.readv(terminal, [self._view[start : start + MAX_READ]])
        self.count += number
        _COUNT.pack_into(self._memory, 0, self.count, time.monotonic())
        return number

    def since(self, start: int) -> bytes:
        """The daemon's: what was read from a place on."""
        return self._memory[_COUNT.size + start : _COUNT.size + self.count]

    def take(self) -> tuple[bytes, float]:
        """The keeper's: all that was read, counted or not, and when by the monotonic clock. The memory is
        cleared for the next time."""
        count, moment = _COUNT.unpack_from(self._memory)
        end = _COUNT.size + min(count, SIZE)
        printed = self._memory[_COUNT.size : end] + self._memory[end : end + MAX_READ].rstrip(b"\0")
        self._memory[: _COUNT.size + len(printed)] = bytes(_COUNT.size + len(printed))
        return printed, moment

    def close(self) -> None:
        if self.descriptor >= 0:
            self._view.release()
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1
