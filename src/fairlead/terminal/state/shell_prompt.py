"""The prompt of a shell, by which it is known whether the shell waits for a command.

A draft, a here-document and a question of `read` look like prompts, and the shell alone runs in all of them.
A shell that marks its prompt (OSC 133) says it itself. Of others the prompt is what they show before anything
was typed. Later its directory, time, branch and last exit code may be others; whatever else is there, more
than once or in another order, is no prompt. It is kept in the session's note, for the next daemon.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...system.terminal_input import takes_lines
from ..screen.emulator import char_width
from ..screen.text import split_row
from ..session import TerminalSession
from .front import Front

MAX_PROMPT = 300
"""How many characters of a prompt are remembered; a longer one is not."""
MAX_TRIED = 20
"""How many beginnings of a line are compared with the prompt, to tell a draft from something else."""
_NOTED = "shell_prompt"
_LIKELY = re.compile(r"[$#%>❯»] ?$")
"""How prompts end: asked where somebody may have typed whom the daemon does not see."""
_GAP = 2
"""How many blanks are at least between the cursor and a prompt on the right,"""
_RIGHT = 2
"""and how many columns from the right edge that may end."""
_GOES_ON = frozenset({">", "·", "..."})
"""What shells show where a command goes on: one whose prompt is the same is never known to take a command."""
_OPEN = (
    "quote|dquote|bquote|heredocd?|for|foreach|while|until|repeat|select|case|if|then|else|elif|do|function"
    "|subsh|cursh|cmdsubst|cmdand|cmdor|pipe|errpipe|math|mathsubst|braceparam|array|cond|always"
)
_REST = re.compile(rf"(?:(?:{_OPEN})(?: (?:{_OPEN}))*)?>|·|\.\.\.")
"""The same, with what zsh says is still open."""

_ENVIRONMENT = re.compile(r"\([\w.+-]+\) (?=\S)")
"""What virtual environments put before a prompt."""

_D, _T, _B, _N = "\x01", "\x02", "\x03", "\x04"
"""Stand for a directory, a time or date, a branch or commit, and a number."""
_TIME = re.compile(
    r"\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp][Mm]\b)?|\b\d{4}-\d\d-\d\d\b|\b\d\d?[./]\d\d?[./]\d{2,4}\b"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d\b"
)
_NUMBER = re.compile(r"(?<![\w.-])(?:\d+(?:\.\d+)?(?:ms|[dhms])? ?)+(?![\w.-])")
_COMMIT = re.compile(r"(?<!\w)[0-9a-f]{7,40}(?!\w)(?:\.\.\.)?")
_STATUS = r"[✗✘✖✔✓●±↑↓⇡⇣≡…]"
"""What nobody types, and prompts say of a repository or of the last command."""
_FLAGS = rf"(?:{_STATUS}|[*+=!?%~|$<>\-\d ])*"
_BRANCH = re.compile(
    rf"(?:\b(?:git|hg):|\b(?:on|git) +(?:[^\w\s()\[\]<>] *)?)?"
    rf"(?:\({_FLAGS}{_B}{_FLAGS}\)|\[{_FLAGS}{_B}{_FLAGS}\]|<{_B}>|{_B})"
    rf"(?: *(?:{_STATUS}|\[(?:{_STATUS}|[*+=!?\d ])+\]))*"
)
_CODE = re.compile(rf"[\[(]{_STATUS}? ?{_N}[\])]|{_STATUS} ?{_N}|^{_N} (?=\S)|\btook {_N}")
_ORDINARY = re.compile(rf"[^\W\d_]{{2}}|[{_D}{_T}]")
"""What a prompt must have of which something may change."""


class ShellLine(NamedTuple):
    """The line on which a shell's cursor is."""

    before: str
    """What is before the cursor,"""
    after: str
    takes_lines: bool
    cwd: str
    branch: str = ""
    cols: int = 80

    @property
    def is_open(self) -> bool:
        """True if nothing is behind the cursor, or only a prompt on the right."""
        right = self.after.strip()
        return not right or (
            self.after.startswith(" " * _GAP) and self._is_right(self.before + self.after, right)
        )

    def without_right(self, row: str) -> str:
        """A row above it without the prompt on the right, if it has one."""
        left, _, right = row.rstrip().rpartition(" " * _GAP)
        return left.rstrip() if left and self._is_right(row, right) else row

    def _is_right(self, row: str, end: str) -> bool:
        """True if the end of a row is a prompt on the right."""
        is_at_edge = len(row.rstrip()) >= self.cols - _RIGHT
        return is_at_edge and _ORDINARY.search(shape(end, self.cwd, self.branch).replace(_T, "")) is None


def shell_line(session: TerminalSession, front: Front | None = None) -> ShellLine:
    screen = session.screen
    last = screen.last_rows(screen.rows)
    x, y, _ = last.cursor
    place = (front.cwd, front.branch) if front is not None else ("", "")
    before, after = split_row(last.rows[y], x, char_width) if 0 <= y < len(last.rows) else (" " * x, "")
    return ShellLine(before, after.rstrip(" "), takes_lines(session.terminal), *place, screen.cols)


def learn(session: TerminalSession, line: ShellLine, untouched: ShellLine | None = None) -> None:
    """A shell waits for input. If nothing was typed so far, it shows its prompt; else it did so before, if
    what was there then, untouched, looks like one."""
    if session.inputs:
        if untouched is None or _NOTED in session.note or not _LIKELY.search(untouched.before):
            return
        branch = line.branch if line.cwd == untouched.cwd else ""
        line = untouched._replace(branch=branch)
    if not session.keeper_pid or not line.is_open or not line.before.strip():
        return
    if session.has_had_writer and not (_NOTED not in session.note and _LIKELY.search(line.before)):
        return
    noted = [line.before, line.takes_lines, line.cwd, line.branch]
    if len(line.before) <= MAX_PROMPT and session.note.get(_NOTED) != noted:
        session.remember(**{_NOTED: noted})


def known_prompt(session: TerminalSession, line: ShellLine) -> str:
    """The shell's prompt as it is now, if the line begins with it; else nothing."""
    match session.note.get(_NOTED):
        case [str(prompt), bool(lines), str(cwd), *more] if lines == line.takes_lines:
            if prompt.strip() in _GOES_ON and session.inputs:
                return ""
            if line.before.startswith(prompt):
                return prompt
            if (added := _ENVIRONMENT.match(line.before)) and line.before.startswith(prompt, added.end()):
                return added[0] + prompt
            wanted = shape(prompt, cwd, str(more[0]) if more else "")
            if not _ORDINARY.search(wanted):
                return ""
            found = _beginnings(line.before, prompt)
            return next((each for each in found if shape(each, line.cwd, line.branch) == wanted), "")
    return ""


def _beginnings(text: str, prompt: str) -> list[str]:
    """What may be the prompt at the beginning of a line, the longest first: it ends as the known one does."""
    end = prompt[-2:] if prompt[-1:] == " " else prompt[-1:]
    if end.strip() and not end[0].isalnum():
        at = [found.end() for found in re.finditer(re.escape(end), text)]
        return [text[:each] for each in reversed(at[-MAX_TRIED:])]
    return [text]


def shape(prompt: str, cwd: str, branch: str) -> str:
    """A prompt without what changes in it.

    >>> shape("12:30:01 me@host ~/garden (main *) [1] $ ", "/home/garden", "main") == shape(
    ...     "9:05:00 me@host ~/garden $ ", "/home/garden", ""
    ... )
    True
    """
    added = _ENVIRONMENT.match(prompt)
    prompt = prompt[added.end() if added else 0 : MAX_PROMPT]
    if branch:
        prompt = re.sub(rf"(?<![\w./-]){re.escape(branch)}(?![\w/-])", _B, prompt)
        if re.fullmatch("[0-9a-f]{40}", branch):
            prompt = _COMMIT.sub(lambda at: _B if branch.startswith(at[0].strip(".")) else at[0], prompt)
    prompt = _directory_of(cwd).sub(_D, prompt)
    prompt = _NUMBER.sub(lambda at: _N + " " * at[0].endswith(" "), _TIME.sub(_T, prompt))
    prompt = _BRANCH.sub("", prompt, count=1)
    prompt = _CODE.sub("", prompt)
    return re.sub(r"\s+", "", prompt)


def _directory_of(cwd: str) -> re.Pattern[str]:
    """All forms in which prompts show a directory: whole, from the home directory, its last part, with what
    is above it shortened."""
    home = os.path.expanduser("~")
    if cwd in ("", "/"):
        return re.compile(r"(?<![\w/~.])/(?![\w/])" if cwd else r"(?!)")
    last = re.escape(os.path.basename(cwd))
    forms = [re.escape(cwd)]
    if cwd == home:
        forms.append("~")
    elif cwd.startswith(home + "/"):
        forms.append(re.escape("~" + cwd[len(home) :]))
    if cwd != home:
        forms += [rf"(?:~|\.\.\.|…)?/?(?:[^\s/:()\[\]]*/)+{last}", last]
    return re.compile(rf"(?<![\w.~/@-])(?:{'|'.join(forms)})(?![\w./@-])")


def wants_rest(line: ShellLine) -> bool:
    """True if a shell that does not show its prompt asks for the rest of a command."""
    return line.is_open and _REST.fullmatch(line.before.strip()) is not None


def asks(session: TerminalSession, line: ShellLine) -> bool:
    """True if the shell reads a line otherwise than at its prompt."""
    match session.note.get(_NOTED):
        case [_, bool(lines), *_]:
            return line.takes_lines and not lines
    return False
