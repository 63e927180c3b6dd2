"""Who is told what of the events of agent sessions, and how often.

A client that asked for increments gets each piece, message and call as the model makes it. Others, as psi's
UI, get what a model has said so far, a few times a second, tools when they start, and one message at the end
of a turn. A client that belongs to a directory hears of the sessions of that directory and of its focus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ...agent import events
from ...agent.conversation import Conversation
from ...agent.events import ConversationEvent
from ...agent.messages import Assistant, Text, Thinking, ToolCall, User, text_of
from ...agent.store import AgentStore
from ...formats.edn import Keyword
from ...wire.rpc import ErrorCode, EventData, fields
from . import frames
from .handlers import Call, Caller, Data
from .history import EventHistory
from .ops.jobs import JobBoard

Told = tuple[str, Data]

DELTA_SECONDS = 1 / 30
"""How long text that comes in pieces is gathered before it is told again."""
CHARS_A_SECOND = 1_000_000
"""How much of an answer is told again in a second: a long one is told less often."""
QUIET_SECONDS = 120.0
"""How long a turn may be silent before a sign of life is sent: psi's UI ends one after ten minutes."""

_DELTAS = ("assistant/delta", "assistant/thinking-delta", "tool/delta")
_TEXT, _TYPE, _CONTENT, _CURSOR = (Keyword(name) for name in ("text", "type", "content", "cursor"))
_KEEPING = ("tool/start", "tool/executing", "tool/update", "tool/result")
"""At these, psi's UI ends the text that it shows: what is told after them is another one."""
_ENDS: Mapping[str, str] = {"aborted": "Aborted", "interrupted": "Interrupted"}
"""What is said at the end of a turn that was stopped, by its outcome."""


class _Stream:
    """How far those who get no increments were told of a session."""

    def __init__(self) -> None:
        self.waiting: dict[str, None] = {}  # topics with news that were not told yet, in their order
        self.timer: asyncio.TimerHandle | None = None
        self.sign: asyncio.TimerHandle | None = None
        self.next_at = 0.0  # when text may be told again
        self.has_line = False  # text was told that no message has ended
        self.kept: dict[Caller, int] = {}  # how much of the text so far clients show above a tool
        self.is_ended = True  # the turn's last message was told
        self.asked: Call | None = None
        self.aborters: list[Caller] = []  # they have kept what was told and want no more of it

    def by_kept(self, callers: Sequence[Caller]) -> list[tuple[int, list[Caller]]]:
        """Clients by how much of the text so far they show above a tool."""
        found: dict[int, list[Caller]] = {}
        for caller in callers:
            found.setdefault(self.kept.get(caller, 0), []).append(caller)
        return list(found.items())


class Telling:
    """Tells the clients of a door what happens. `show` tells one of them how a session is, or all are."""

    def __init__(
        self,
        store: AgentStore,
        callers: Callable[[], list[Caller]],
        history: EventHistory,
        show: Callable[[Caller, Conversation], None],
        show_all: Callable[[Caller], None],
        show_footer: Callable[[Caller, Conversation], None],
        board: JobBoard,
    ) -> None:
        self._store = store
        self._callers = callers
        self._history = history
        self._show = show
        self._show_all = show_all
        self._show_footer = show_footer
        self._board = board
        self._streams: dict[str, _Stream] = {}

    # --- what ops say -------------------------------------------------------------------------------------

    def begun(self, session: Conversation, asked: Call) -> None:
        """A client begins a turn: an error of it is told with the request's id."""
        self._stream(session).asked = asked

    def aborting(self, session: Conversation, caller: Caller) -> None:
        """A client aborts a turn."""
        if not session.is_idle:
            self._stream(session).aborters.append(caller)

    # --- what happens -------------------------------------------------------------------------------------

    def heard(self, event: ConversationEvent) -> None:
        """Something happened in a session: whoever it concerns is told."""
        if isinstance(event, events.Loaded | events.Unloaded):
            asyncio.get_running_loop().call_soon(self._listed, event)  # when who wanted it has it in focus
            return
        session = self._store.find(event.session_id)
        callers = self._hearing(session)
        for topic, data in frames.frames(event):
            told = EventData(self._history.add(session, topic, data))
            for caller in callers:
                if caller.increments:
                    caller.event(topic, told)
        others = [caller for caller in callers if not caller.increments]
        if others or session.id in self._streams:
            self._tell_others(event, session, others)
        self._board.heard(event, session, lambda: self._hearing(session))
        if isinstance(event, events.Updated | events.TurnEnded | events.Compacted | events.ApprovalSettled):
            for caller in callers:
                self._show(caller, session)
        if isinstance(event, events.Updated) and session.is_idle:
            self._forget(session.id)

    def _hearing(self, session: Conversation) -> list[Caller]:
        return [caller for caller in self._callers() if hears(caller, session)]

    def _listed(self, event: ConversationEvent) -> None:
        """A session was loaded, or let go: it is in the lists of others now, or no more."""
        if isinstance(event, events.Unloaded):
            self._forget(event.session_id)
        loaded = {each.id: each for each in self._store.loaded}
        session = loaded.get(event.session_id)
        for caller in self._callers():
            if caller.focus not in (None, event.session_id) and (session is None or hears(caller, session)):
                self._show_all(caller)

    # --- those without increments -------------------------------------------------------------------------

    def _stream(self, session: Conversation) -> _Stream:
        stream = self._streams.get(session.id)
        if stream is None:
            stream = self._streams[session.id] = _Stream()
        return stream

    def _forget(self, session_id: str) -> None:
        stream = self._streams.pop(session_id, None)
        for timer in (stream.timer, stream.sign) if stream is not None else ():
            if timer is not None:
                timer.cancel()

    def _tell_others(self, event: ConversationEvent, session: Conversation, others: Sequence[Caller]) -> None:
        stream = self._stream(session)
        match event:
            case events.TextStreamed():
                self._streamed(session, stream, "assistant/delta")
                return
            case events.ThoughtStreamed():
                self._streamed(session, stream, "assistant/thinking-delta")
                return
            case events.ToolBegan() | events.ToolArguments():
                return
        told = self._frames_for_others(event, session, stream)
        if told:
            self._flush(session)
        for topic, data in told:
            self._tell(session, others, topic, data)
        if isinstance(event, events.MessageSaid) and isinstance(event.message, User):
            if (text := text_of(event.message)).strip():
                unaware = [each for each in others if event.message.prompt not in each.typed]
                self._tell(session, unaware, "assistant/message", frames.said_elsewhere(session.id, text))
        elif isinstance(event, events.MessageSaid) and stream.is_ended:
            self._tell_end(event, session, stream, others)
        if isinstance(event, events.ToolEnded):
            for caller in others:
                self._show_footer(caller, session)
        if isinstance(event, events.TurnBegan | events.Updated) and not session.is_idle:
            self._watch(session)

    def _frames_for_others(
        self, event: ConversationEvent, session: Conversation, stream: _Stream
    ) -> list[Told]:
        """What follows the text so far."""
        match event:
            case events.TurnBegan():
                stream.is_ended = False
            case events.MessageSaid(message=Assistant() as said):
                if said.calls:
                    self._flush(session, whole=text_of(said))  # it ends with its text; tools follow
                    stream.has_line = stream.is_ended = False
                    stream.kept.clear()
                else:
                    stream.is_ended = True  # and is told by who knows whom
                return []
            case events.ToolTaken(call_id=id, name=name, arguments=arguments):
                stream.has_line = False
                own = {"tool_id": id, "session_id": session.id}
                text = msgspec.json.encode(arguments).decode()
                return [
                    ("tool/start", fields(tool_name=name, **own)),
                    ("tool/delta", fields(arguments=text, **own)),
                ]
            case events.TurnEnded(outcome=outcome):
                is_open = not stream.is_ended and (outcome in _ENDS or stream.has_line)
                stream.is_ended, stream.has_line = True, False
                stream.aborters.clear()
                why = _ENDS.get(outcome, "The turn failed.")
                ended = [("assistant/message", frames.ended_message(session.id, why))] if is_open else []
                return [*ended, *frames.frames(event)]
            case events.Failed(is_said=True):
                return []
            case events.Failed(message=why) if stream.asked is not None:
                asked = {"session_id": session.id, "id": stream.asked.id, "op": stream.asked.op}
                code = ErrorCode.FAILED.value
                return [("error", fields(error_code=code, error_message=why, **asked))]
        return frames.frames(event)

    def _tell_end(
        self, event: events.MessageSaid, session: Conversation, stream: _Stream, others: Sequence[Caller]
    ) -> None:
        """The last message of a turn. Who has aborted it has kept the text already."""
        said = event.message
        if not isinstance(said, Assistant):
            return
        kept = stream.aborters if said.stop_reason == "aborted" else []
        self._flush(session, but=kept, whole=text_of(said))
        stream.has_line = False
        for shown, callers in stream.by_kept([each for each in others if each not in kept]):
            rest = frames.whole_message(event.entry_id, _beyond(said, shown))
            self._tell(session, callers, "assistant/message", {**rest, **fields(session_id=session.id)})
        alone = frames.ended_message(session.id, said.error_message or "Aborted")
        self._tell(session, [each for each in others if each in kept], "assistant/message", alone)
        stream.kept.clear()

    def _streamed(self, session: Conversation, stream: _Stream, topic: str) -> None:
        """There is more text: it is told now, or in a moment with all that comes till then."""
        stream.waiting[topic] = None
        if stream.timer is None:
            loop = asyncio.get_running_loop()
            wait = stream.next_at - loop.time()
            if wait <= 0:
                self._flush(session)
            else:
                stream.timer = loop.call_later(wait, self._flush, session)

    def _flush(self, session: Conversation, *, but: Sequence[Caller] = (), whole: str | None = None) -> None:
        """Tell what was not told yet; `whole` is the text if it is a message already."""
        stream = self._streams.get(session.id)
        if stream is None:
            return
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        if not stream.waiting:
            return
        waiting, stream.waiting = list(stream.waiting), {}
        others = [each for each in self._hearing(session) if not each.increments and each not in but]
        for topic in waiting:
            answer = session.answer_so_far
            is_reply = topic == "assistant/delta"
            text = answer.last_thought if not is_reply else answer.reply if whole is None else whole
            stream.has_line = stream.has_line or is_reply
            for shown, callers in stream.by_kept(others) if is_reply else [(0, others)]:
                self._tell(session, callers, topic, fields(text=text[shown:], session_id=session.id))
            pause = max(DELTA_SECONDS, len(text) / CHARS_A_SECOND)
            stream.next_at = asyncio.get_running_loop().time() + pause

    def _tell(self, session: Conversation, others: Sequence[Caller], topic: str, data: Data) -> None:
        shown = EventData({**frames.for_editor(data), _CURSOR: self._history.cursor(session)})
        for caller in others:
            caller.event(topic, shown)
        stream = self._streams.get(session.id)
        if stream is not None and stream.has_line and topic in _KEEPING:
            stream.kept |= dict.fromkeys(others, len(session.answer_so_far.reply))
            stream.has_line = False

    # --- signs of life ------------------------------------------------------------------------------------

    def _watch(self, session: Conversation) -> None:
        stream = self._stream(session)
        if stream.sign is None:
            stream.sign = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._sign, session)

    def _sign(self, session: Conversation) -> None:
        """Show that the turn goes on, also when nothing is said for long."""
        stream = self._streams.get(session.id)
        if stream is None or session.is_idle:
            return
        stream.sign = None
        self._flush(session)
        others = [each for each in self._hearing(session) if not each.increments]
        running = [(job.call.id, job.call.name, job.said) for job in session.jobs.values()]
        asked = [(each.call_id, each.tool, "waiting for consent") for each in session.approvals.values()]
        for id, name, text in (*running, *asked):
            for topic, data in frames.frames(events.ToolUpdated(session.id, id, name, text, {})):
                self._tell(session, others, topic, data)
        if not running and not asked:
            text = session.answer_so_far.last_thought
            self._tell(session, others, "assistant/thinking-delta", fields(text=text, session_id=session.id))
        self._watch(session)


def hears(caller: Caller, session: Conversation) -> bool:
    """Whether a client is told what happens in a session."""
    return caller.project is None or caller.focus == session.id or str(session.cwd) == caller.project


def missed_by_others(missed: Sequence[Told], session: Conversation, cursor: str) -> list[Told]:
    """Events that were told with increments, for a client that gets none: what it needs to catch up."""
    told: list[Told] = []
    error = ""
    for topic, data in missed:
        if topic in _DELTAS or topic == "tool/start":
            continue
        if topic == "tool/executing":
            start = {key: data[key] for key in (Keyword("tool-id"), Keyword("tool-name"))}
            told.append(("tool/start", {**start, **_place(data)}))
        if topic == "error" and data.get(Keyword("error-message")) == error:
            continue
        if topic == "assistant/message":
            content = data[_CONTENT]
            error = data.get(Keyword("error-message")) or ""
            if any(part[_TYPE] is Keyword("tool-call") for part in content):
                if data.get(_TEXT):
                    told.append(("assistant/delta", {_TEXT: data[_TEXT], **_place(data)}))
                continue
            data = _whole(data, error)
        told.append((topic, data))
    if session.is_answering and (reply := session.answer_so_far.reply):
        told.append(("assistant/delta", fields(text=reply, session_id=session.id, cursor=cursor)))
    return [(topic, frames.for_editor(data)) for topic, data in told]


def _beyond(said: Assistant, shown: int) -> Assistant:
    """A message without the first so many characters of its text."""
    if not shown:
        return said
    content: list[Text | Thinking | ToolCall] = []
    for part in said.content:
        if isinstance(part, Text):
            content.append(Text(part.text[shown:]))
            shown = max(0, shown - len(part.text))
        else:
            content.append(part)
    return msgspec.structs.replace(said, content=tuple(content))


def _place(data: Data) -> Data:
    return {key: data[key] for key in (Keyword("session-id"), _CURSOR) if key in data}


def _whole(data: Data, error: str) -> Data:
    texts = [data.get(_TEXT) or "", f"[error] {error}" if error else ""]
    text = "\n".join(each for each in texts if each.strip())
    rest = {key: value for key, value in data.items() if key is not _TEXT}
    return {_TEXT: text, **rest} if text else rest
