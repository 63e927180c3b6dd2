"""asciicast: a terminal's recording as asciinema has it, one JSON value a line.

The first line is the header, every other one an event `[time, code, data]` or, after `#`, a comment. Versions
2 and 3 are read, only 3 is written: in 2 an event's time counts from the beginning, in 3 from the last event.
See https://docs.asciinema.org/manual/asciicast/v3/.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

OUTPUT, INPUT, MARKER, RESIZE, EXIT = "o", "i", "m", "r", "x"
"""The codes of events. A reader skips those that it does not know."""
MAX_TIME: Final = 1e9
"""How many seconds a time may be: some thirty years."""

_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})", re.ASCII)
_decode_event = msgspec.json.Decoder(tuple[float, str, str]).decode
_encode = msgspec.json.Encoder().encode


class AsciicastError(ValueError):
    """A line that is not asciicast. Says what is wrong with it."""


class CastHeader(NamedTuple):
    """What the first line says."""

    cols: int
    rows: int
    version: int = 3
    timestamp: int | None = None
    """When it began, in seconds since 1970."""
    command: str | None = None
    title: str | None = None
    terminal: str | None = None
    """What TERM was."""
    idle_limit: float | None = None
    """How many seconds a player should wait between two events at the most."""


class CastEvent(NamedTuple):
    """Something that happened: seconds, a code, and its data."""

    time: float
    code: str
    data: str


class _Term(msgspec.Struct):
    cols: int
    rows: int
    type: str | None = None


class _Third(msgspec.Struct):
    term: _Term
    timestamp: float | None = None
    command: str | None = None
    title: str | None = None
    idle_time_limit: float | None = None


class _Second(msgspec.Struct):
    width: int
    height: int
    timestamp: float | None = None
    command: str | None = None
    title: str | None = None
    idle_time_limit: float | None = None


class _Any(msgspec.Struct):
    version: int


def read_header(line: bytes) -> CastHeader:
    """What the first line says. Raises AsciicastError.

    >>> read_header(b'{"version": 2, "width": 80, "height": 24}')[:3]
    (80, 24, 2)
    """
    try:
        version = msgspec.json.decode(line, type=_Any).version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AsciicastError("not an asciicast header, which is a JSON object with a version") from None
    cols, rows, terminal = 0, 0, None
    try:
        if version == 3:
            third = msgspec.json.decode(line, type=_Third)
            cols, rows, terminal = third.term.cols, third.term.rows, third.term.type
            found: _Third | _Second = third
        elif version == 2:
            found = second = msgspec.json.decode(line, type=_Second)
            cols, rows = second.width, second.height
        else:
            raise AsciicastError(f"asciicast version {version}; expected 2 or 3")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AsciicastError(f"not an asciicast header of version {version}: {error}") from None
    if not (0 < cols <= 0xFFFF and 0 < rows <= 0xFFFF):
        raise AsciicastError(f"a terminal of {cols} × {rows}; expected 1 to 65535 columns and rows")
    timestamp = None if found.timestamp is None else int(found.timestamp)
    limit = found.idle_time_limit
    return CastHeader(
        cols,
        rows,
        version,
        timestamp,
        found.command,
        found.title,
        terminal,
        limit if limit is not None and limit > 0 else None,
    )


def header_line(header: CastHeader) -> bytes:
    """A header of version 3.

    >>> header_line(CastHeader(80, 24, timestamp=1504467315, title="Demo"))
    b'{"version":3,"term":{"cols":80,"rows":24},"timestamp":1504467315,"title":"Demo"}\\n'
    """
    term: dict[str, Any] = {"cols": header.cols, "rows": header.rows, "type": header.terminal}
    values = {
        "version": 3,
        "term": {name: value for name, value in term.items() if value is not None},
        "timestamp": header.timestamp,
        "idle_time_limit": header.idle_limit,
        "command": header.command,
        "title": header.title,
    }
    return _encode({name: value for name, value in values.items() if value is not None}) + b"\n"


def read_event(line: bytes) -> CastEvent | None:
    """The event of a line, or None if it is a comment or empty. Raises AsciicastError.

    >>> read_event(b'[1.001, "o", "hello"]')
    CastEvent(time=1.001, code='o', data='hello')
    >>> read_event(b"# the end")
    """
    if line.startswith(b"#") or not line.strip():
        return None
    try:
        time, code, data = _decode_event(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AsciicastError("not an event, which is a JSON array of a time, a code and a text") from None
    if not 0 <= time <= MAX_TIME:
        raise AsciicastError(f"an event's time is {time:g}; expected 0 to {MAX_TIME:g} seconds")
    return CastEvent(time, code, data)


def event_line(milliseconds: int, code: str, data: str) -> bytes:
    """An event of version 3, so long after the one before.

    >>> event_line(1001, "o", "a\\x1b[m")
    b'[1.001, "o", "a\\\\u001b[m"]\\n'
    """
    seconds, rest = divmod(milliseconds, 1000)
    return b'[%d.%03d, "%s", %s]\n' % (seconds, rest, code.encode(), _encode(data))


def read_size(data: str) -> tuple[int, int]:
    """The columns and rows that a resize's data says. Raises AsciicastError.

    >>> read_size("90x30")
    (90, 30)
    """
    found = _SIZE.fullmatch(data)
    if found is None or int(found[1]) > 0xFFFF or int(found[2]) > 0xFFFF:
        raise AsciicastError(f"a resize to {data[:40]!r}; expected something like 80x24")
    return int(found[1]), int(found[2])
