"""What a program printed and no daemon has confirmed: in memory, and what that can't hold in a file.

The file is a ring: the byte at an offset lies at that offset modulo its size, so that it never grows beyond
its limit however slowly things are confirmed. It has no name once it is open, so nothing is left of it when
its keeper is gone, killed or not.
"""

from __future__ import annotations

import os


class Backlog:
    """Bytes from `start` to `end`, which are offsets in what was printed. It owns its file."""

    def __init__(self, directory: str, in_memory: int, on_disk: int) -> None:
        """Keep so many bytes in memory, and so many more in a file in a directory."""
        self.start = 0
        self.end = 0
        self._directory = directory
        self._in_memory = in_memory
        self._on_disk = on_disk
        self._memory = bytearray()
        self._file = -1
        self._spilled = 0  # the offset up to which it is in the file

    @property
    def has_room(self) -> bool:
        """False if nothing should be added before something is forgotten."""
        return len(self._memory) < self._in_memory

    def add(self, data: bytes) -> None:
        """Keep more, whether there is room or not."""
        self._memory += data
        self.end += len(data)
        self._spill()

    def read(self, offset: int, size: int) -> bytes:
        """What is at an offset: all of it up to a size, or a part of that."""
        if not self.start <= offset <= self.end:
            raise ValueError(f"offset {offset}, outside of {self.start} to {self.end}")
        if offset >= self._spilled:
            start = offset - self._spilled
            return bytes(self._memory[start : start + size])
        place = offset % self._on_disk
        return os.pread(self._file, min(size, self._spilled - offset, self._on_disk - place), place)

    def forget(self, offset: int) -> None:
        """Drop what lies before an offset."""
        if not self.start <= offset <= self.end:
            raise ValueError(f"offset {offset}, outside of {self.start} to {self.end}")
        self.start = offset
        if offset >= self._spilled:
            del self._memory[: offset - self._spilled]
            self._spilled = offset
            self.close()
        self._spill()

    def close(self) -> None:
        """Give back the file's space."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _spill(self) -> None:
        """Move what memory has too much of to the file, if that has room and the disk takes it."""
        if self.has_room:
            return
        try:
            if self._file < 0:
                self._file = self._create()
            while self._memory and (room := self._on_disk - (self._spilled - self.start)) > 0:
                place = self._spilled % self._on_disk
                size = min(room, self._on_disk - place)
                with memoryview(self._memory)[:size] as part:
                    count = os.pwrite(self._file, part, place)
                del self._memory[:count]
                self._spilled += count
        except OSError:  # no space, or no directory: the program waits, and the next change tries again
            return

    def _create(self) -> int:
        path = f"{self._directory}/{os.getpid()}.spill"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return file
