"""asciicast: what is written can be read by anyone, and what is wrong is said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.asciicast import (
    AsciicastError,
    CastEvent,
    CastHeader,
    event_line,
    header_line,
    read_event,
    read_header,
    read_size,
)

# The examples of asciinema's own documentation.
THIRD = b"""{"version": 3, "term": {"cols": 80, "rows": 24, "type": "xterm-256color"}, \
"timestamp": 1504467315, "title": "Demo", "env": {"SHELL": "/bin/zsh"}}"""
SECOND = b"""{"version": 2, "width": 80, "height": 24, "timestamp": 1504467315, "title": "Demo", \
"env": {"TERM": "xterm-256color", "SHELL": "/bin/zsh"}, "idle_time_limit": 2}"""


def test_headers_of_both_versions_are_read() -> None:
    assert read_header(THIRD) == CastHeader(80, 24, 3, 1504467315, title="Demo", terminal="xterm-256color")
    assert read_header(SECOND) == CastHeader(80, 24, 2, 1504467315, title="Demo", idle_limit=2.0)


def test_a_header_that_was_written_is_read_again() -> None:
    header = CastHeader(132, 50, 3, 1504467315, "sh -c 'é \x01'", "a title", "xterm", 1.5)
    assert read_header(header_line(header)) == header
    assert json.loads(header_line(CastHeader(1, 2)))["term"] == {"cols": 1, "rows": 2}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not an asciicast header"),
        (b"[]", "not an asciicast header"),
        (b"{}", "not an asciicast header"),
        (b"\xff", "not an asciicast header"),
        (b'{"version": 1, "width": 80}', "asciicast version 1; expected 2 or 3"),
        (b'{"version": 2, "width": 80}', "not an asciicast header of version 2: .*height"),
        (b'{"version": 3, "width": 80, "height": 24}', "not an asciicast header of version 3: .*term"),
        (b'{"version": 3, "term": {"cols": 0, "rows": 24}}', "a terminal of 0 × 24; expected 1 to 65535"),
    ],
)
def test_what_is_no_header_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(AsciicastError, match=reason):
        read_header(line)


@given(st.integers(0, 10**11), st.text())
def test_any_text_is_one_line_and_is_read_again(milliseconds: int, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no character
    line = event_line(milliseconds, "o", text)
    assert line.count(b"\n") == 1
    assert line.endswith(b"]\n")
    assert json.loads(line) == [milliseconds / 1000, "o", text]
    assert read_event(line) == CastEvent(milliseconds / 1000, "o", text)


def test_comments_and_empty_lines_are_no_events() -> None:
    assert [read_event(line) for line in (b"# a comment\n", b"#", b"\n", b"")] == [None] * 4


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[1]", b'[1, "o"]', b'[1, "o", 5]', b'["1", "o", "x"]', b'[1, "o", "x', b'[1,"o","\xff"]'],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(AsciicastError, match="not an event, which is a JSON array"):
        read_event(line)


@pytest.mark.parametrize("time", [b"-1", b"1e300"])
def test_a_time_that_cant_be_is_refused(time: bytes) -> None:
    with pytest.raises(AsciicastError, match=r"an event's time is .*; expected 0 to 1e\+09 seconds"):
        read_event(b'[%s, "o", "x"]' % time)


@pytest.mark.parametrize("size", ["", "80", "80x", "0x24", "80x70000", "80X24", "8٣x24", "80x24 "])
def test_a_size_that_cant_be_is_refused(size: str) -> None:
    with pytest.raises(AsciicastError, match="expected something like 80x24"):
        read_size(size)
