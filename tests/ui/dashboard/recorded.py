"""Screens as they were recorded: RECORD=1 writes them anew, to be looked at."""

from __future__ import annotations

import os
from pathlib import Path

SNAPSHOTS = Path(__file__).parent.parent.parent / "data/dashboard"


def compare(name: str, lines: list[str]) -> None:
    """What is shown is as it was recorded."""
    path = SNAPSHOTS / f"{name}.txt"
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get("RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
