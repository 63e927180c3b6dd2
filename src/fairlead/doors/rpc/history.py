"""What clients were told of sessions lately, so that one that was away can be told what it missed.

Each event of a session carries a cursor, which a client gives back: it says how many events this daemon had
told by then, and how many lines the session's journal had. As long as the events are here they are told again
as they were. Those of a daemon that is no more, or of long ago, are told from the journal: all that was said
and done, but not how it came in pieces.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...agent import events
from ...agent.conversation import Conversation
from ...agent.events import ConversationEvent
from ...agent.journal import Said
from ...agent.messages import Assistant, ToolResult, text_of
from ...formats.edn import Keyword
from . import frames

Data = Mapping[Any, Any]

MAX_EVENTS = 20_000
"""How many events are kept, of all sessions together."""
MAX_CHARS = 16 * 1024 * 1024
"""How much text they may have."""

_CURSOR = re.compile(r"([^.]{1,8})\.([0-9a-f]{8})\.(\d{1,18})\.(\d{1,18})")
_CURSOR_KEY = Keyword("cursor")


class BadCursor(ValueError):
    """A cursor that is none, or one of another session."""


class _Told(NamedTuple):
    number: int
    session_id: str
    topic: str
    data: Data
    size: int


class EventHistory:
    """The events of all sessions, as far back as there is room."""

    def __init__(self) -> None:
        self._boot = secrets.token_hex(4)
        self._number = 0
        self._events: deque[_Told] = deque()
        self._chars = 0

    def cursor(self, session: Conversation) -> str:
        """Where a client is that was told everything by now."""
        return f"{session.id[:8]}.{self._boot}.{self._number}.{session.journal.lines}"

    def add(self, session: Conversation, topic: str, data: Data) -> Data:
        """An event is about to be told: gives it with its cursor."""
        self._number += 1
        told = {**data, _CURSOR_KEY: self.cursor(session)}
        size = _size(told)
        self._events.append(_Told(self._number, session.id, topic, told, size))
        self._chars += size
        while len(self._events) > MAX_EVENTS or self._chars > MAX_CHARS:
            self._chars -= self._events.popleft().size
        return told

    def since(self, session: Conversation, cursor: str) -> list[tuple[str, Data]]:
        """What was told of a session after a cursor. Raises BadCursor."""
        found = _CURSOR.fullmatch(cursor)
        if found is None or found[1] != session.id[:8]:
            raise BadCursor("a cursor that an event of this session had")
        number, lines = int(found[3]), int(found[4])
        is_kept = found[2] == self._boot and self._number - len(self._events) <= number <= self._number
        if not is_kept:
            return self._from_journal(session, lines)
        return [
            (told.topic, told.data)
            for told in self._events
            if told.number > number and told.session_id == session.id
        ]

    def _from_journal(self, session: Conversation, lines: int) -> list[tuple[str, Data]]:
        cursor = {_CURSOR_KEY: self.cursor(session)}
        done = {each.tool_call_id for each in session.messages if isinstance(each, ToolResult)}
        return [
            (topic, {**data, **cursor})
            for entry in session.journal.branch
            if entry.line > lines and isinstance(entry.body, Said)
            for event in _told_of(session.id, entry.id, entry.body, done)
            for topic, data in frames.frames(event)
        ]


def _told_of(session_id: str, entry_id: str, said: Said, done: set[str]) -> list[ConversationEvent]:
    """The events that a message in a journal was told with, but for its pieces; `done` are calls that ran."""
    message = said.message
    if isinstance(message, ToolResult):
        id, name = message.tool_call_id, message.tool_name
        details = message.details if isinstance(message.details, dict) else {}
        return [events.ToolEnded(session_id, id, name, text_of(message), details, message.is_error)]
    told: list[ConversationEvent] = [events.MessageSaid(session_id, entry_id, message)]
    for call in message.calls if isinstance(message, Assistant) else ():
        told.append(events.ToolBegan(session_id, call.id, call.name))
        if call.id in done:
            told.append(events.ToolExecuting(session_id, call.id, call.name, call.arguments))
    return told


def _size(value: Any) -> int:
    """About how much memory a value takes: its texts, and something for each part."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return 50 + sum(_size(key) + _size(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return 50 + sum(map(_size, value))
    return 10
