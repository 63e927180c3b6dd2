"""`fairlead ls`: the sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

USAGE = """\
usage: fairlead ls [--json]

List the sessions: name, state, size, clients, how long the program has been quiet, its processor time and
memory, and its command.
"""


def main(arguments: Sequence[str]) -> int:
    if any(word not in ("--json",) for word in arguments):
        print(USAGE, end="", file=sys.stderr)
        return 0 if arguments[0] in ("-h", "--help") else 2
    from ..client.control import Control

    with Control() as control:
        sessions = control.ask("terminal_list")["sessions"]
    if arguments:
        import json

        print(json.dumps(sessions, indent=2))
        return 0
    if not sessions:
        print("no sessions; `fairlead start NAME -- COMMAND` starts one", file=sys.stderr)
        return 0
    rows = [("NAME", "STATE", "SIZE", "CLIENTS", "QUIET", "CPU", "MEMORY", "COMMAND"), *map(_row, sessions)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    state = session["state"] if session["exit_code"] is None else f"exit {session['exit_code']}"
    return (
        session["name"],
        state,
        f"{session['cols']}×{session['rows']}",
        str(session["clients"]),
        _span(session["idle"]),
        _span(session["cpu_seconds"]),
        f"{session['memory'] / 1e6:.0f} MB" if session["memory"] else "-",
        " ".join(session["argv"]),
    )


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
