"""What a chat shows of a conversation: text as it comes, a few lines for every tool, prompts and notes.

Answers are drawn as Markdown. Kinds of things stand apart by an empty line. What is not at its end yet, a
line of text or a command's output, is in the rows below, until it is. What is long is folded: a few lines
and how many more there are, until a person opens it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...events import (
    AgentEvent,
    ApprovalWanted,
    Message,
    Prompted,
    Text,
    Thought,
    ToolResult,
    ToolRunning,
    ToolStarted,
    ToolUpdate,
    TurnBegan,
)
from ...formats.columns import width_of
from ...formats.shown import call_title, clean, one_line
from ..flow import Flow
from ..markdown import UNICODE, Markdown
from ..styled import Line, Marks, Row, broken, plain
from .screen import ChatScreen
from .view import PRINTED_LINES, Excerpt, first, marked, printed, question, result

OPEN_ROWS = 8
"""How many rows are shown of what is not at its end yet; then all of it."""
MAX_REASON = 100
"""How many characters are shown of why a model is asked again, while that is waited for."""
MAX_FOLDS, MAX_OPENED = 50, 5000
"""How many things may be opened that are folded, and how many rows of each."""
MAX_TITLE = 100
"""How many characters name one."""
PROMPT_LINES = 12
"""How many lines are shown of what somebody said."""
INTERRUPTED = "interrupting after this step; ^C again aborts it immediately"
_WRAPPED = ("note", "command")
"""Kinds of rows that are sentences."""
TICK = 0.125
"""Seconds between two pictures of the spinner."""

_DOING = {
    "execute": "running a command",
    "read": "reading",
    "edit": "editing",
    "delete": "deleting",
    "move": "moving files",
    "search": "searching",
    "fetch": "fetching",
    "other": "running a tool",
}
"""What goes on while a tool runs, by its name or by the kind that third-party agents have for it."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ConversationView:
    """The conversation on a screen."""

    def __init__(self, screen: ChatScreen, marks: Marks = UNICODE) -> None:
        self._screen = screen
        self._marks = marks
        self._text = Markdown(screen.columns, self._marks, is_plain=not screen.paint.is_on)
        self.is_interrupted = False
        """Whether a person wants the turn to end; a row says so, without getting into what streams."""
        self._style = ""  # of all that is drawn of the text
        self._streamed: list[str] = []  # what came of the answer that is not whole yet
        self._last = ""  # what kind of thing was shown last
        self._tail: list[str] = []  # what a command printed last
        self._running: dict[str, str] = {}
        self._begun: dict[str, str] = {}  # calls that may not run yet, by their ids
        self._asked: dict[str, str] = {}  # calls that somebody was asked about, by their ids
        self._folds: list[tuple[str, Sequence[Row | Line]]] = []  # what was left out, with its title
        self._doing = self._reason = ""
        self._since = time.monotonic()

    # --- lines that stay ------------------------------------------------------------------------------------

    def show(self, rows: Sequence[Row | Line], kind: str, indent: str = "") -> None:
        """Lines that stay, apart from what is of another kind."""
        self.end_line()
        self._apart(kind)
        if kind in _WRAPPED:
            rows = [each for row in rows for each in in_words(row, self._screen.columns)]
        self._screen.say(rows, indent)

    def note(self, text: str) -> None:
        self.show([(text, "dim")], "note")

    def prompt(self, text: str, mark: str) -> None:
        """What somebody said."""
        room, lines = self._screen.columns - 2, clean(text).strip("\n").split("\n")
        rows = [row for line in lines for row in broken([(line, "bold")], room)]
        if len(rows) <= PROMPT_LINES:  # the terminal breaks them, so that they are copied whole
            rows = [[(line, "bold")] for line in lines]
        shown = first(rows, PROMPT_LINES)
        self._last = self._last and "before a prompt"
        self.show([[(f"{mark} ", "bold"), *_pieces(shown.rows[0])]], "prompt")
        self._show_folded(Excerpt(shown.rows[1:], shown.whole), one_line(text, MAX_TITLE), "prompt")

    def printed(self, text: str, command: str) -> None:
        """What a command of the person's own printed."""
        self._show_folded(printed(text), one_line(clean(command), MAX_TITLE), "prompt")

    def _show_folded(self, shown: Excerpt, title: str, kind: str, indent: str = "  ") -> None:
        """Rows that stay, and keep all of what they are of, to be opened."""
        self.show(shown.rows, kind, indent)
        if shown.whole:
            self._folds.append((title, shown.whole[-MAX_OPENED:]))
            del self._folds[:-MAX_FOLDS]

    def open_fold(self) -> bool:
        """Show all of what was folded last, and the next time of what was before it. False if there is no
        more."""
        if not self._folds:
            return False
        title, rows = self._folds.pop()
        self.show([(f"▾ {title}", "bold")], "opened")
        self._screen.say(rows, "  ")
        return True

    def ask(self, wanted: ApprovalWanted) -> None:
        """What needs consent, once: it may be asked for again by the next daemon."""
        call = wanted.data.get("tool_id") or wanted.id
        self._begun.pop(call, None)
        if call not in self._asked:
            self._asked[call] = marked(wanted.summary).replace("\n", " ")
            self.show(question(wanted, self._screen.columns), "question")

    def end_line(self) -> None:
        """Nothing more is added to the text."""
        self._say_text(self._text.end())

    def drop_answer(self, reason: str) -> None:
        """What came of an answer is void for a reason; another one will come."""
        self.end_line()
        self._streamed.clear()
        self._doing = ""
        self._reason = one_line(reason, MAX_REASON)

    def end_turn(self) -> None:
        self.is_interrupted = False
        self.end_line()
        self._streamed.clear()
        self._tail = []
        self._running.clear()
        self._begun.clear()
        self._asked.clear()
        self._doing = ""

    def _apart(self, kind: str) -> None:
        if self._last not in ("", kind):
            self._screen.say([("", "")])
        self._last = kind

    def stream(self, text: str, style: str = "") -> None:
        """More of an answer, or of a thought, which has a style."""
        kind = "thought" if style else "text"
        if self._last != kind:
            self.end_line()
            text = text.lstrip("\n")
            if not text:
                return
            self._apart(kind)
        self._style = style
        self._text.width = self._screen.columns
        self._say_text(self._text.feed(text))

    def _say_text(self, rows: Sequence[Line]) -> None:
        self._screen.say(self._toned(rows))

    def _toned(self, rows: Sequence[Line]) -> list[Row | Line]:
        """Rows of a text; those of a thought have one style."""
        return [(plain(row), self._style) for row in rows] if self._style else list(rows)

    # --- what happens ---------------------------------------------------------------------------------------

    def happened(self, event: AgentEvent) -> None:
        match event:
            case Text(text):
                self._streamed.append(text)
                self.stream(text, "")
            case Thought(text):
                self.stream(text, "dim")
            case Message(text):
                streamed = "".join(self._streamed)
                if not streamed.endswith(text):  # we came in the middle of it
                    self.stream(text.removeprefix(streamed), "")
                self._streamed.clear()
                self.end_line()
            case TurnBegan():
                self.begin()
            case ToolStarted(id, name):
                self._doing = f"calling {clean(name)}"
                if title := clean(event.data.get("title") or ""):
                    self._begun[id] = title
                    self._doing = "in a tool call"
            case ToolRunning(id, name, arguments):
                was_shown = id in self._running  # to who came before it was allowed
                self._begun.pop(id, None)
                self._running[id] = call_title(name, arguments)
                self._doing = _DOING.get(name) or f"running {clean(name)}"
                self._since = time.monotonic()
                if not was_shown:
                    self.show([(f"● {self._running[id]}", "")], "tool")
            case ToolUpdate(text=text):
                lines = text.rstrip().rsplit("\n", PRINTED_LINES)[-PRINTED_LINES:]
                self._tail = [clean(line) for line in lines]
            case ToolResult():
                self._ended(event)

    def recall(self, said: dict[str, Any], limit: int) -> None:
        """Show a message of earlier: so many lines of its text, its calls, or a call's result."""
        text = (said.get("text") or "").strip("\n")
        if said["role"] == "toolResult":
            text = "".join(part.get("text") or "" for part in said["content"])
            details = said.get("details") or {}
            self._ended(ToolResult(said["tool_call_id"], said["tool_name"], text, details, said["is_error"]))
        elif said["role"] == "user":
            self.prompt(text, "›")
        elif text:
            drawer = Markdown(self._screen.columns, self._marks, is_plain=not self._screen.paint.is_on)
            shown = first(drawer.feed(text) + drawer.end(), limit)
            self._show_folded(shown, one_line(clean(text), MAX_TITLE), "text", "")
        for part in said["content"] if said["role"] == "assistant" else ():
            if part["type"] == "tool-call":
                self.happened(ToolRunning(part["id"], part["name"], part["arguments"] or {}))
            elif part["type"] == "error":
                self.show([(clean(part["text"]), "red")], "note")

    def _ended(self, event: ToolResult) -> None:
        self._begun.pop(event.id, None)
        title = self._running.get(event.id) or self._asked.get(event.id) or clean(event.name)
        if event.id not in self._running:  # it was not allowed to
            self.show([(f"● {title}", "")], "tool")
        elif len(self._running) > 1:  # several at once: whose result is it?
            self.show([(f"○ {title}", "dim")], "tool")
        was_previewed, room = event.id in self._asked, self._screen.columns - 2
        self._show_folded(result(event, was_previewed=was_previewed, columns=room), title, "tool")
        self._running.pop(event.id, None)
        self._tail = []
        self._doing = ""

    def begin(self) -> None:
        """Something begins to take time."""
        self._since = time.monotonic()
        self._doing = self._reason = ""

    # --- rows that do not stay ------------------------------------------------------------------------------

    def rows(self) -> list[Row | Line]:
        """What is not at its end yet."""
        rows = self._toned(self._text.open()[-OPEN_ROWS:])
        rows += [(f"○ {title}", "dim") for title in list(self._begun.values())[-OPEN_ROWS:]]
        rows += [(f"  {line}", "dim") for line in self._tail]
        return [*rows, (INTERRUPTED, "dim")] if self.is_interrupted else rows

    def spinner(self, phase: str) -> str:
        """What goes on, and for how long."""
        seconds = time.monotonic() - self._since
        picture = _SPINNER[int(seconds / TICK) % len(_SPINNER)]
        doing = phase if phase in ("retrying", "compacting") else self._doing or "thinking"
        why = f" · {self._reason}" if phase == "retrying" and self._reason else ""
        return f"{picture} {doing} {seconds:.0f} s · Esc or ^C interrupts{why}"


def turn_start(said: Sequence[dict[str, Any]]) -> int:
    """Where the last turn begins among messages: at a prompt that no work of an agent goes on after."""
    for number in range(len(said) - 1, 0, -1):
        before = said[number - 1]
        calls = any(part["type"] == "tool-call" for part in before["content"])
        if said[number]["role"] == "user" and before["role"] == "assistant" and not calls:
            return number
    return 0


def without_shown(events: Sequence[AgentEvent], said: Sequence[dict[str, Any]]) -> list[AgentEvent]:
    """Events without what led to messages that are shown already."""
    shown = {each["id"] for each in said} | {each.get("tool_call_id") for each in said}

    def is_shown(event: AgentEvent) -> bool:
        match event:
            case ToolResult(id):
                return id in shown
            case Message():
                return event.data.get("id") in shown
            case Prompted():
                return event.data.get("entry_id") in shown
        return False

    last = max((number for number, event in enumerate(events, 1) if is_shown(event)), default=0)
    parts = (Text, Thought, Message, Prompted, ToolStarted, ToolRunning, ToolUpdate, ToolResult)
    return [*(each for each in events[:last] if not isinstance(each, parts)), *events[last:]]


def in_words(row: Row | Line, columns: int) -> Sequence[Row | Line]:
    """A row as rows of whole words. What has a word without room, such as a path, is left to the terminal, so
    that it can be copied whole."""
    text = plain(row)
    if width_of(text) <= columns or any(width_of(word) > columns for word in text.split()):
        return [row]
    indent = text[: len(text) - len(text.lstrip())]
    flow = Flow(columns, [], [(indent, "")])
    for piece, style in _pieces(row):
        flow.add(piece, style)
    return flow.finish()


def _pieces(row: Row | Line) -> Line:
    return row if isinstance(row, list) else [row]
