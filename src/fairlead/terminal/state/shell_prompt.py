"""The prompt of a shell, by which it is known whether the shell waits for a command.

A draft, a here-document and a question of `read` look like prompts, and the shell alone runs in all of them.
So the prompt is what a shell shows before anything was typed; later its directory may be another one. It is
kept in the session's note, for the next daemon.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...system.terminal_input import takes_lines
from ..session import TerminalSession

MAX_PROMPT = 300
"""How many characters of a prompt are remembered; a longer one is not."""
_NOTED = "shell_prompt"
_LIKELY = re.compile(r"[$#%>❯»] ?$")
"""How prompts end: asked where somebody may have typed whom the daemon does not see."""


class ShellLine(NamedTuple):
    """The line on which a shell's cursor is."""

    before: str
    """What is before the cursor,"""
    after: str
    takes_lines: bool
    cwd: str


def shell_line(session: TerminalSession) -> ShellLine:
    cursor = session.screen.cursor
    rows = session.screen.text().split("\n")
    row = rows[cursor.y] if cursor.y < len(rows) else ""
    try:
        cwd = os.readlink(f"/proc/{session.pid}/cwd")
    except OSError:
        cwd = ""
    return ShellLine(row[: cursor.x].ljust(cursor.x), row[cursor.x :], takes_lines(session.terminal), cwd)


def learn(session: TerminalSession, line: ShellLine) -> None:
    """A shell waits for input. If nothing was typed so far, it shows its prompt."""
    if session.inputs or not session.keeper_pid or line.after.strip() or not line.before.strip():
        return
    if session.has_had_writer and not (_NOTED not in session.note and _LIKELY.search(line.before)):
        return
    noted = [line.before, line.takes_lines, line.cwd]
    if len(line.before) <= MAX_PROMPT and session.note.get(_NOTED) != noted:
        session.remember(**{_NOTED: noted})


def known_prompt(session: TerminalSession, line: ShellLine) -> str:
    """The shell's prompt as it is in its directory now, if the line begins with it; else nothing."""
    match session.note.get(_NOTED):
        case [str(prompt), bool(lines), str(cwd)] if lines == line.takes_lines:
            forms = [("", ""), *zip(_forms(cwd), _forms(line.cwd), strict=True)]
            found = (prompt.replace(old, new) if old and new else prompt for old, new in forms)
            return next((each for each in found if line.before.startswith(each)), "")
    return ""


def asks(session: TerminalSession, line: ShellLine) -> bool:
    """True if the shell reads a line otherwise than at its prompt."""
    match session.note.get(_NOTED):
        case [_, bool(lines), _]:
            return line.takes_lines and not lines
    return False


def _forms(cwd: str) -> tuple[str, str, str]:
    """How prompts show a directory."""
    home = os.path.expanduser("~")
    is_home = cwd == home or cwd.startswith(home + "/")
    return cwd, "~" + cwd[len(home) :] if is_home else cwd, "~" if cwd == home else os.path.basename(cwd)
