"""Reading recordings with nothing of ours, as any other program would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def recorded_lines(path: Path | str) -> list[Any]:
    """The header and the events of an asciicast, which must be whole and as the format says."""
    text = Path(path).read_bytes().decode("utf-8")
    assert text.endswith("\n"), f"the last line is not whole: {text[-80:]!r}"
    header, *events = [json.loads(line) for line in text.split("\n")[:-1] if not line.startswith("#")]
    assert header["version"] == 3
    assert all(type(header["term"][name]) is int for name in ("cols", "rows"))
    assert type(header["timestamp"]) is int
    for interval, code, data in events:
        assert type(interval) is float
        assert interval >= 0
        assert code in "oimrx"
        assert type(data) is str
    return [header, *events]


def recorded_events(path: Path | str) -> list[tuple[str, str]]:
    """What happened, without the times; output that follows on output is joined."""
    found: list[tuple[str, str]] = []
    for _, code, data in recorded_lines(path)[1:]:
        if found and code == found[-1][0] == "o":
            found[-1] = ("o", found[-1][1] + data)
        else:
            found.append((code, data))
    return found


def recorded_output(path: Path | str) -> str:
    """All that was printed."""
    return "".join(data for _, code, data in recorded_lines(path)[1:] if code == "o")
