"""A recording to be played: what is in an asciicast file, by number and by time.

The file is read once to learn when each event is and where it stands; the events themselves stay in the file,
so that a recording of any length can be played. Versions 2 and 3 are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import BinaryIO

from ..formats.asciicast import (
    OUTPUT,
    RESIZE,
    AsciicastError,
    CastEvent,
    CastHeader,
    read_event,
    read_header,
    read_size,
)

MAX_LINE = 64 * 1024 * 1024
"""How long a line may be."""
_SHOWN = (OUTPUT, RESIZE)


class CastError(Exception):
    """A file that can't be played. Says which line is wrong and how."""


class Cast:
    """An asciicast file. `idle_limit` is how long a pause is at the most; the file may have one of its own.

    Events that show nothing (what was typed, markers, the exit status) are left out; the exit's time is kept.
    """

    def __init__(self, path: str, *, idle_limit: float | None = None) -> None:
        self.path = path
        self.duration = 0.0
        self._times = array("d")
        self._places = array("Q")
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115 - `close` closes it
        except OSError as error:
            raise CastError(f"can't open {path}: {error.strerror}") from None
        try:
            self.header = self._read(idle_limit)
        except OSError as error:
            self.close()
            raise CastError(f"can't read {path}: {error.strerror}") from None
        except CastError:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._times)

    def __enter__(self) -> Cast:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def time(self, number: int) -> float:
        """When an event is, in seconds from the beginning."""
        return self._times[number]

    def event(self, number: int) -> CastEvent:
        """An event. Its time counts from the beginning."""
        self._file.seek(self._places[number])
        try:
            found = read_event(self._file.readline(MAX_LINE))
        except AsciicastError:
            found = None
        if found is None:
            raise CastError(f"{self.path} was changed during playback")
        return found._replace(time=self._times[number])

    def until(self, time: float) -> int:
        """How many events there are up to a time."""
        return bisect_right(self._times, time)

    def _read(self, idle_limit: float | None) -> CastHeader:
        header = self._header()
        limit = header.idle_limit if idle_limit is None else idle_limit
        before = 0.0  # the time of the last event in the file
        number = 1
        place = self._file.tell()
        while line := self._file.readline(MAX_LINE + 1):
            number += 1
            try:
                event = self._checked(line)
            except AsciicastError as error:
                if not line.endswith(b"\n") and len(line) <= MAX_LINE:
                    break  # the file is being written, and its last line is not whole yet
                raise CastError(f"{self.path}, line {number}: {error}") from None
            if event is not None:
                pause = max(0.0, event.time - before if header.version == 2 else event.time)
                before = max(before, event.time)
                self.duration += pause if limit is None else min(pause, limit)
                if event.code in _SHOWN:
                    self._times.append(self.duration)
                    self._places.append(place)
            place += len(line)
        return header

    def _header(self) -> CastHeader:
        line = self._file.readline(MAX_LINE + 1)
        if not line:
            raise CastError(f"{self.path} is empty; expected an asciicast recording")
        try:
            return read_header(line)
        except AsciicastError as error:
            raise CastError(f"{self.path}, line 1: {error}") from None

    @staticmethod
    def _checked(line: bytes) -> CastEvent | None:
        if len(line) > MAX_LINE:
            raise AsciicastError(f"longer than {MAX_LINE} bytes")
        event = read_event(line)
        if event is not None and event.code == RESIZE:
            read_size(event.data)
        return event
