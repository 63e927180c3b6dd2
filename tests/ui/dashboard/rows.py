"""Sessions as the daemon lists them, for tests of what the dashboard makes of them."""

from __future__ import annotations

import time
from typing import Any

from fairlead.formats.columns import padded
from fairlead.formats.shown import clean
from fairlead.ui.dashboard.board import Board


def row(name: str, state: str = "idle", since: float = 5.0, **more: Any) -> dict[str, Any]:
    """A session that has done something for so many seconds."""
    kind = more.pop("kind", "terminal")
    activity = {
        "state": state,
        "since": time.time() - since,
        "question": more.pop("question", ""),
        "seen": more.pop("seen", True),
        "evidence": None,
    }
    fixed: dict[str, Any] = {
        "id": name,
        "kind": kind,
        "name": name,
        "project": "/srv/garden",
        "branch": "main",
        "state": "running",
        "exit_code": None,
        "waits_for": "",
        "what": "",
        "can": ["screen"] if kind == "terminal" else ["chat"],
        "idle": 0.0,
    }
    return {**fixed, "activity": activity, **more}


def question(token: str, session: str | None, summary: str, **more: Any) -> dict[str, Any]:
    """A question as `approvals` lists it."""
    fixed = {
        "token": token,
        "kind": "consent",
        "session_id": session,
        "session_name": session,
        "project": "/srv/garden",
        "title": "bash",
        "summary": summary,
        "reason": "it runs a command",
        "preview": summary,
        "options": ["allow", "always", "deny"],
        "asked_at": time.time() - 240,
        "lost": None,
    }
    return {**fixed, **more}


def eight() -> list[dict[str, Any]]:
    """One of each sort."""
    return [
        row("roses", "waits", 190, agent="claude", question="Do you want to create hello.txt?"),
        row("hedge", "waits", 1200, kind="hosted", agent="opencode", question="$ git push"),
        row("weeds", "working", 720, kind="agent", what="pull the weeds", model="offline/guide", cost=0.034),
        row("gate", "idle", 400, kind="agent", seen=False, what="mend the gate",
            verdict={"confidence": "perfect", "escalated": "", "stale": False, "summary": "3 tests pass"}),
        row("pond", "idle", 3 * 3600, argv=["bash"], title="~/pond", branch="a" * 40),
        row("日本語の名前", "unknown", 5, argv=["vim", "notes.txt"], project="/srv/日本"),
        row("build", "ended", 30, exit_code=2, argv=["make"], branch=""),
        row("\x1b[2Jevil\u202e", "waits", 600, question="\x1b]0;x\x07are you\x1b[31m sure?\r\nyes"),
    ]  # fmt: skip


def drawn(board: Board) -> list[str]:
    """What a board shows, as text without colours."""
    left, right = board.lines()
    rows = []
    for number, (one, other) in enumerate(zip(left, right)):
        line = clean(one)
        if board.preview_width and 0 < number < len(left) - 1:
            line = f"{padded(line, board.list_width)}│{clean(other)}"
        rows.append(line.rstrip())
    return rows
