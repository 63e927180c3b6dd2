"""A recording of a terminal session: an asciicast file that the next daemon goes on with where this one died.

The recorder is told what the keeper tells: what was printed and at which offset, the sizes, the end. It
gathers lines and writes them in batches, each followed by a comment that says how far the file has come:

    # fairlead offset=1234 generation=2 time=12.345

`offset` counts printed bytes, `generation` resizes, `time` the seconds since the header's timestamp. `held`
follows if a character had not ended there: its bytes in hex, which lie before the offset and are in no event
yet. `exit` stands in the last comment. Whoever resumes cuts the file after its last whole comment, so a batch
of which only a part was written is gone, and takes from the keeper what lies after the offset. For that the
keeper must still have it: flush before a keyframe is given to it.

Nothing here waits or knows of the session; what can't be written is a RecordingError, and then it is over.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import shlex
import stat
import time
from collections.abc import Iterable, Sequence

from ..formats.asciicast import (
    EXIT,
    MARKER,
    OUTPUT,
    RESIZE,
    AsciicastError,
    CastHeader,
    event_line,
    header_line,
    read_header,
)
from ..system.opening import file_id

MAX_EVENT = 64 * 1024
"""How many printed bytes an event has at the most."""
BATCH = 256 * 1024
"""How many bytes of lines are gathered before they are written."""
MAX_REDRAW = 1024 * 1024
"""How many bytes of what the screen showed before a recording began are put into it."""
MAX_COMMAND = 4096
"""How much of the command the header has."""
MAX_HEADER = 64 * 1024
"""How long the first line may be."""
_ESCAPED = 6  # bytes of a control character in JSON
_LOOKED_AT = (64 * 1024, 2 * BATCH + _ESCAPED * (MAX_REDRAW + 2 * MAX_EVENT))
"""How far from the end the last comment is looked for: first nearby, then behind the longest batch, torn."""

_COMMENT_START = b"# fairlead "
_COMMENT = re.compile(
    rb"# fairlead offset=(\d+) generation=(\d+) time=(\d+)\.(\d{3})(?: held=([0-9a-f]+))?(?: exit=(-?\d+))?\n"
)
_new_decoder = codecs.getincrementaldecoder("utf-8")


class RecordingError(Exception):
    """A recording that can't be begun or can't go on. Says which file and why."""


class Recorder:
    """One file that a session is recorded to.

    Begin with `create` or `resume`, tell what happens, `flush` now and then, and `close` it or tell the end.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.offset = 0
        """How many bytes of the program's output were taken."""
        self.generation = 0
        self.over = False
        """Whether the end is in the file, or it was closed: nothing more is written."""
        self.file = file_id(descriptor)
        """Which file it is, for who opens it by its path."""
        self._descriptor = descriptor
        self._size = 0
        self._decoder = _new_decoder("replace")
        self._lines: list[bytes] = []
        self._gathered = 0
        self._text: list[str] = []  # of the event that is being gathered
        self._text_size = 0
        self._text_time = 0
        self._last = 0  # when the last event was, in milliseconds since the header's timestamp
        self._written = (0, 0)  # the offset and generation of the last comment
        self._clock = 0.0

    def __repr__(self) -> str:
        return f"<Recorder {self.path} at {self.offset}{', over' if self.over else ''}>"

    # --- beginning ----------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str,
        size: tuple[int, int],
        *,
        title: str,
        command: Sequence[str],
        terminal: str | None = None,
        offset: int = 0,
        generation: int = 0,
        redraw: bytes = b"",
    ) -> Recorder:
        """A new file, which must not be there yet. It begins with what the screen shows."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            recorder = cls(path, os.open(path, flags, 0o600))
        except FileExistsError:
            raise RecordingError(f"{path} exists; a recording never replaces a file") from None
        except FileNotFoundError:
            raise RecordingError(f"no such directory: {os.path.dirname(path)}") from None
        except (OSError, ValueError) as error:
            raise RecordingError(f"can't create {path}: {_reason(error)}") from None
        now = time.time()
        recorder.offset, recorder.generation = offset, generation
        recorder._last = int(now % 1 * 1000)
        recorder._begin_clock(int(now))
        typed = _utf8(shlex.join(command))
        typed = typed if len(typed) <= MAX_COMMAND else typed[:MAX_COMMAND] + "…"
        header = CastHeader(*size, timestamp=int(now), command=typed, title=_utf8(title), terminal=terminal)
        recorder._lines.append(header_line(header))
        try:
            recorder._show(redraw)
            recorder._write()
        except RecordingError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        return recorder

    @classmethod
    def resume(cls, path: str, made: str = "") -> Recorder:
        """Go on with a file: `made` is the `file` of who began it, if that is known. Raises RecordingError if
        it is not there any more or not one of ours."""
        try:
            recorder = cls(path, os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW))
        except (OSError, ValueError) as error:
            raise RecordingError(f"can't open {path}: {_reason(error)}") from None
        try:
            if made and recorder.file != made:
                raise AsciicastError("it is another file than the one that was begun")
            if not made and os.fstat(recorder._descriptor).st_nlink != 1:
                raise AsciicastError("it has other names too")
            recorder._resume()
        except (OSError, ValueError) as error:
            recorder._release()
            raise RecordingError(f"can't continue {path}: {_reason(error)}") from None
        return recorder

    def _resume(self) -> None:
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise AsciicastError("it is not a file of this user")
        header = read_header(os.pread(self._descriptor, MAX_HEADER, 0).partition(b"\n")[0])
        for looked_at in _LOOKED_AT:
            start = max(0, found.st_size - looked_at)
            comment = _last_comment(os.pread(self._descriptor, looked_at, start))
            if comment is not None:
                break
        else:
            raise AsciicastError("it does not say how far it has come")
        offset, generation, seconds, rest, held, end = comment.groups()
        self.offset, self.generation = self._written = int(offset), int(generation)
        self._last = int(seconds) * 1000 + int(rest)
        self._decoder.decode(bytes.fromhex((held or b"").decode()))
        self._size = start + comment.end()
        self._begin_clock(header.timestamp or 0)
        if end is not None:
            self._release()
        elif self._size < found.st_size:
            os.ftruncate(self._descriptor, self._size)

    def _begin_clock(self, timestamp: int) -> None:
        """From now on the monotonic clock counts, from where the last daemon's or the wall's clock is."""
        self._clock = max(self._last / 1000, time.time() - timestamp) - time.monotonic()

    def _now(self) -> int:
        return max(self._last, int((self._clock + time.monotonic()) * 1000))

    # --- what happens -------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> bool:
        """Whether something waits to be flushed."""
        return not self.over and (self.offset, self.generation) != self._written

    def printed(self, offset: int, data: bytes) -> None:
        """What the program printed there. What the file has already is skipped. Raises RecordingError."""
        if self.over:
            return
        if offset > self.offset:
            raise self._failed(f"bytes {self.offset} to {offset} of the output are missing")
        if offset < self.offset:
            data = data[self.offset - offset :]
        now = self._now()
        for piece in _pieces(data):
            self._gather(self._decoder.decode(piece), len(piece), now)
            self.offset += len(piece)
            if self._gathered >= BATCH:
                self.flush()

    def resized(self, cols: int, rows: int, generation: int) -> None:
        """The size changed. One that the file has already is skipped. Raises RecordingError."""
        if self.over or generation <= self.generation:
            return
        self.generation = generation
        self._end_text()
        self._add(self._now(), RESIZE, f"{cols}x{rows}")

    def began(self, cols: int, rows: int) -> None:
        """The program is started, at another size than the recording was made for. Raises RecordingError."""
        if not self.over:
            self._add(self._now(), RESIZE, f"{cols}x{rows}")

    def skipped(self, offset: int, generation: int, size: tuple[int, int], redraw: bytes) -> None:
        """What lies before this offset can't be had any more: a marker says so, and the screen follows."""
        if self.over:
            return
        missing = offset - self.offset
        self._end_text()
        self._decoder.reset()
        self._add(self._now(), MARKER, f"{missing} bytes of output were not recorded")
        self._add(self._now(), RESIZE, "{}x{}".format(*size))
        self._show(redraw)
        self.offset, self.generation = offset, max(generation, self.generation)

    def exited(self, code: int) -> None:
        """The program has ended, and so has the recording. Raises RecordingError."""
        if self.over:
            return
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._gather(rest, len(rest), self._now())
        self._end_text()
        self._add(self._now(), EXIT, str(code))
        self._write(f" exit={code}")
        self._release()

    def flush(self) -> None:
        """Write what was gathered. Raises RecordingError."""
        if self.unwritten:
            self._write()

    def close(self) -> None:
        """Write what was gathered and end the recording; it can be resumed. Raises RecordingError."""
        try:
            self.flush()
        finally:
            self._release()

    # --- gathering and writing ----------------------------------------------------------------------------

    def _show(self, redraw: bytes) -> None:
        """What the screen shows, which may end in the middle of a character as the output does."""
        now = self._now()
        for piece in _pieces(redraw):
            self._gather(self._decoder.decode(piece), len(piece), now)

    def _gather(self, text: str, size: int, now: int) -> None:
        """Text of the same millisecond is one event, unless it gets too long."""
        if self._text and (now != self._text_time or self._text_size + size > MAX_EVENT):
            self._end_text()
        if text:
            self._text_time = now
            self._text.append(text)
            self._text_size += size

    def _end_text(self) -> None:
        if self._text:
            text = self._text[0] if len(self._text) == 1 else "".join(self._text)
            self._text.clear()
            self._text_size = 0
            self._add(self._text_time, OUTPUT, text)

    def _add(self, now: int, code: str, data: str) -> None:
        line = event_line(now - self._last, code, data)
        self._last = now
        self._lines.append(line)
        self._gathered += len(line)

    def _write(self, end: str = "") -> None:
        """Write the lines and how far they come, or nothing at all."""
        self._end_text()
        held = self._decoder.getstate()[0].hex()
        seconds, rest = divmod(self._last, 1000)
        self._lines.append(
            f"# fairlead offset={self.offset} generation={self.generation} time={seconds}.{rest:03d}"
            f"{f' held={held}' if held else ''}{end}\n".encode()
        )
        batch = b"".join(self._lines)
        self._lines.clear()
        self._gathered = 0
        try:
            found = os.fstat(self._descriptor)
            if not found.st_nlink:
                raise self._failed("the file was removed")
            if found.st_size != self._size:
                raise self._failed("the file was changed by another program")
            view = memoryview(batch)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise self._failed(_reason(error)) from None
        self._size += len(batch)
        self._written = (self.offset, self.generation)

    def _failed(self, reason: str) -> RecordingError:
        self._release()
        return RecordingError(f"can't continue {self.path}: {reason}")

    def _release(self) -> None:
        self.over = True
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def _pieces(data: bytes) -> Iterable[bytes]:
    if len(data) <= MAX_EVENT:
        return (data,)
    return (data[start : start + MAX_EVENT] for start in range(0, len(data), MAX_EVENT))


def _last_comment(tail: bytes) -> re.Match[bytes] | None:
    """The last whole comment of ours. It stands on a line of its own, so no program can print one."""
    at = len(tail)
    while (at := tail.rfind(_COMMENT_START, 0, at)) > 0:
        comment = _COMMENT.match(tail, at)
        if comment is not None and tail[at - 1 : at] == b"\n":
            return comment
    return None


def _utf8(text: str) -> str:
    """The text as it can be written: a word of a command may have bytes that are no characters."""
    return text.encode("utf-8", "replace").decode()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
