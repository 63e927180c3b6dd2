"""What agent sessions look like on rpc-edn: their events and snapshots as maps with keywords.

Pure functions from a session's state to what a client is told. Roles are strings and the types of content are
keywords, as psi's clients expect it; whatever a client is told of a session carries its id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from ...agent import events
from ...agent.context import CHARS_A_TOKEN, SUMMARY_TITLE, tokens
from ...agent.conversation import Conversation
from ...agent.events import ConversationEvent
from ...agent.journal import Compaction, Entry, Said
from ...agent.library import LibraryPage
from ...agent.messages import Assistant, Image, Message, Text, Thinking, ToolResult, Usage, User, text_of
from ...agent.ports import Phase
from ...formats.edn import Keyword
from ...formats.shown import coloured, dotted, label, one_line, visible
from ...sessions.questions import Answer, Question
from ...system.worktrees import git_branch
from ...wire.rpc import ErrorCode, fields

Data = Mapping[Any, Any]

MAX_SHOWN = 2 * 1024 * 1024
"""How many characters of a conversation, from its end, one frame tells; clients refuse longer frames."""
ROW = 1024
"""How many characters a message counts for beside its text: that many short ones take as long to write."""
EFFORTS = {"xhigh": "high"}
"""Thinking levels that models are asked for by another name."""

MINIBUFFER_CHARACTERS = 150
"""How much of what will happen is shown where a quarter of a screen is all there is."""
MINIBUFFER_LINES = 2
"""How many lines of a short file are shown there."""
DIALOG_LINES, DIALOG_CHARACTERS = 60, 6000
"""How much of what will happen a dialog's message has; the rest is in its preview."""

_TEXT, _RESULT_TEXT, _PARSED_ARGS = (Keyword(name) for name in ("text", "result-text", "parsed-args"))
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
_RUNTIME_STATES = {
    Phase.IDLE: "waiting",
    Phase.STREAMING: "running",
    Phase.RETRYING: "retrying",
    Phase.COMPACTING: "compacting",
}


def plain(value: Any) -> Any:
    """Details of a tool, or arguments, as EDN: names become keywords where they can be."""
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def with_text_keys(value: Any) -> Any:
    """Arguments as they were given: names stay text."""
    if isinstance(value, Mapping):
        return {str(key): with_text_keys(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_text_keys(inner) for inner in value]
    return plain(value)


def _key(key: Any) -> Any:
    """A name in Lisp's spelling; what is no plain name stays text."""
    text = str(key)
    if not _NAME.fullmatch(text):
        return text
    return Keyword(_HUMP.sub(lambda found: f"-{found[0].lower()}", text.replace("_", "-")))


def for_editor(data: Data) -> Data:
    """An event or a message for who shows its texts as they are: they can't hide anything. What is not shown,
    as `:content`, stays as it was."""
    given = {_TEXT: dotted, _RESULT_TEXT: coloured, _PARSED_ARGS: _dotted_parts}
    shown = {key: make(data[key]) for key, make in given.items() if data.get(key)}
    return {**data, **shown} if shown else data


def _dotted_parts(value: Any) -> Any:
    if isinstance(value, str):
        return dotted(value)
    if isinstance(value, Mapping):
        return {dotted(str(key)): _dotted_parts(inner) for key, inner in value.items()}
    return [_dotted_parts(inner) for inner in value] if isinstance(value, list | tuple) else value


# --- messages ---------------------------------------------------------------------------------------------


def _part(part: Any) -> Data:
    match part:
        case Text(text=text):
            return fields(type=Keyword("text"), text=text)
        case Thinking(thinking=thinking):
            return fields(type=Keyword("thinking"), thinking=thinking)
        case Image(mime_type=mime_type):
            return fields(type=Keyword("image"), mime_type=mime_type)
    return fields(type=Keyword("tool-call"), id=part.id, name=part.name, arguments=plain(part.arguments))


def content(message: Message) -> list[Data]:
    """A message's parts, and what went wrong with it."""
    parts: Iterable[Any] = (Text(message.content),) if isinstance(message.content, str) else message.content
    shown = [_part(part) for part in parts]
    if isinstance(message, Assistant) and message.error_message:
        shown.append(_error(message.error_message))
    return shown


def _error(why: str) -> Data:
    return fields(type=Keyword("error"), text=why)


def usage(used: Usage) -> Data:
    return fields(
        input_tokens=used.input,
        output_tokens=used.output,
        cache_read_tokens=used.cache_read,
        cache_write_tokens=used.cache_write,
        total_tokens=used.total_tokens,
        cost=used.cost.total,
    )


def message(entry_id: str, said: Message) -> Data:
    """A message of a transcript."""
    if isinstance(said, ToolResult):
        return fields(
            id=entry_id,
            role="toolResult",
            content=content(said),
            tool_call_id=said.tool_call_id,
            tool_name=said.tool_name,
            is_error=said.is_error,
            details=plain(said.details),
        )
    shown = fields(id=entry_id, role="user", content=content(said), text=text_of(said))
    if isinstance(said, Assistant):
        shown |= fields(
            role="assistant",
            stop_reason=Keyword(said.stop_reason),
            error_message=said.error_message,
            usage=usage(said.usage),
        )
    return shown


def whole_message(entry_id: str, said: Message) -> Data:
    """A message for who shows it as it is: its text says also what went wrong, and is left out if blank."""
    shown = dict(message(entry_id, said))
    texts = [text_of(said)]
    if isinstance(said, Assistant) and said.error_message:
        texts.append(f"[error] {said.error_message}")
    text = "\n".join(each for each in texts if each.strip())
    if text:
        shown[_TEXT] = text
    else:
        shown.pop(_TEXT, None)
    return shown


def said_elsewhere(session_id: str, text: str) -> Data:
    """What was said to a session, for a client whose person did not type it."""
    content = [fields(type=Keyword("text"), text=text)]
    return fields(role="user", content=content, text=text, session_id=session_id)


def ended_message(session_id: str, why: str) -> Data:
    """The message at the end of a turn whose model had no last word, or has shown it already."""
    return fields(
        role="assistant",
        content=[_error(why)],
        text=f"[error] {why}",
        stop_reason=Keyword("aborted"),
        error_message=why,
        session_id=session_id,
    )


def transcript(branch: Sequence[Entry]) -> list[Data]:
    return [message(entry.id, entry.body.message) for entry in branch if isinstance(entry.body, Said)]


def recent(branch: list[Entry]) -> list[Entry]:
    """As much of the end of a conversation as one frame can tell; the last entry in any case."""
    size = 0
    for at in range(len(branch) - 1, -1, -1):
        body = branch[at].body
        if isinstance(body, Said):
            images = (part for part in body.message.content if isinstance(part, Image))
            size += ROW + tokens(body.message) * CHARS_A_TOKEN + sum(len(image.data) for image in images)
        if size > MAX_SHOWN and at < len(branch) - 1:
            return branch[at + 1 :]
    return branch


def shown_transcript(branch: Sequence[Entry]) -> list[Data]:
    """What is shown as messages: after a compaction its summary and what was kept, without calls and results,
    which are shown as tools, and without messages that have nothing to show."""
    compaction = next((each for each in reversed(branch) if isinstance(each.body, Compaction)), None)
    shown: list[Data] = []
    if compaction is not None and isinstance(compaction.body, Compaction):
        kept = compaction.body.first_kept_entry_id
        start = next((at for at, each in enumerate(branch) if each.id == kept), 0)
        branch = branch[start:]
        summary = User((Text(f"{SUMMARY_TITLE}\n\n{compaction.body.summary}"),))
        shown.append(whole_message(compaction.id, summary))
    for entry in branch:
        if isinstance(entry.body, Said) and not isinstance(entry.body.message, ToolResult):
            said = whole_message(entry.id, entry.body.message)
            if _TEXT in said:
                shown.append(said)
    return shown


# --- snapshots --------------------------------------------------------------------------------------------


def display_name(session: Conversation) -> str:
    """The session's name, else what was said to it last, else its id."""
    lines = (label(text_of(said)) for said in _said_by_people(reversed(session.journal.branch)))
    found = next((line for line in lines if line and not line.startswith("/")), "")
    return session.name or found or nameless(session.id)


def title(session: Conversation) -> str:
    """The session's name, else what was said to it first, as a list of sessions has it; empty if neither."""
    return session.name or next(
        (label(text_of(said)) for said in _said_by_people(session.journal.branch)), ""
    )


def _said_by_people(entries: Iterable[Entry]) -> Iterator[User]:
    for entry in entries:
        if isinstance(entry.body, Said) and isinstance(entry.body.message, User):
            yield entry.body.message


def nameless(id: str) -> str:
    return f"(session {id[:8]})"


def model_label(session: Conversation) -> str:
    model = session.model
    return f"({model.provider}) {model.id}" + (
        f" • thinking {session.effective_thinking}" if model.reasoning else ""
    )


def session_updated(session: Conversation, templates: Sequence[LibraryPage] = ()) -> Data:
    model = session.model
    level = session.effective_thinking
    return fields(
        session_id=session.id,
        session_file=session.journal.path,
        session_name=session.name or None,
        session_display_name=display_name(session),
        phase=session.phase.value,
        is_streaming=session.phase in (Phase.STREAMING, Phase.RETRYING),
        is_compacting=session.phase is Phase.COMPACTING,
        pending_message_count=session.pending_messages,
        retry_attempt=session.retry_attempt,
        interrupt_pending=session.interrupt_pending,
        was_interrupted=session.was_interrupted,
        pending_approvals=len(session.approvals),
        model_provider=model.provider,
        model_id=model.id,
        model_reasoning=model.reasoning,
        thinking_level=level,
        effective_reasoning_effort=EFFORTS.get(level, level) if model.reasoning else None,
        header_model_label=model_label(session),
        status_session_line=f"session: {display_name(session)} • {session.phase.value}",
        extension_command_names=[],
        prompt_templates=[fields(name=page.name, description=page.description) for page in templates],
    )


def options(session: Conversation) -> list[Data]:
    """What can be chosen in a session."""
    return [
        fields(
            id=each.id,
            name=each.name,
            category=each.category,
            value=each.value,
            choices=[fields(value=value, name=name) for value, name in each.choices],
        )
        for each in session.options
    ]


def pieces(session: Conversation) -> list[Data]:
    """The message that is being said, as far as it is in no journal."""
    said = session.answer_so_far.pieces if session.is_answering else []
    kinds = (Keyword("text"), "text"), (Keyword("thinking"), "thinking")
    return [fields(type=kinds[is_thought][0], **{kinds[is_thought][1]: text}) for is_thought, text in said]


def begun(session: Conversation) -> list[Data]:
    """The calls that are written, and may not run yet."""
    return [fields(tool_id=each.call_id, tool_name=each.name, title=each.title) for each in session.begun]


def footer_updated(
    session: Conversation, others: Sequence[Conversation] = (), verdict: str = "", elsewhere: int = 0
) -> Data:
    """`others` are the sessions beside this one, whose states are shown too, and `elsewhere` is how many
    questions wait that others ask."""
    branch = git_branch(session.cwd)
    parts = usage_parts(session)
    buckets = _activity([session, *others]) if others else []
    line = " · ".join(f"{state} {', '.join(labels)}" for state, labels in buckets)
    return fields(
        session_id=session.id,
        path_line=_tilde(str(session.cwd))
        + (f" ({branch})" if branch else "")
        + (f" • {session.name}" if session.name else ""),
        stats_line=" ".join([*parts, model_label(session)]),
        usage_parts=parts,
        model_text=model_label(session),
        status_line=_waiting_line(len(session.approvals), elsewhere) or verdict or None,
        session_activity_line=f"sessions: {line}" if line else None,
        session_activity_buckets=[fields(state=state, labels=labels) for state, labels in buckets],
    )


def footer_values(session: Conversation) -> Data:
    """What our own clients make their footers of."""
    return fields(
        context_tokens=session.context_tokens,
        context_window=session.model.window,
        cost=session.usage.cost.total,
        model=f"{session.model.provider}/{session.model.id}",
        thinking=session.effective_thinking if session.model.reasoning else None,
        mode=session.mode or None,
        modes=[fields(id=each, name=session.mode_names.get(each, each)) for each in session.modes],
        branch=git_branch(session.cwd),
    )


def _waiting_line(own: int, elsewhere: int) -> str:
    where = "in another session" if elsewhere == 1 else "in other sessions"
    if not own:
        return f"{elsewhere} waiting for consent {where}" if elsewhere else ""
    return f"{own} waiting for consent" + (f", {elsewhere} {where}" if elsewhere else "")


def usage_parts(session: Conversation) -> list[str]:
    """What was used, without what is nothing, and how full the model's window is."""
    used, window, tokens = session.usage, session.model.window, session.context_tokens
    counts = (("↑", used.input), ("↓", used.output), ("CR", used.cache_read), ("CW", used.cache_write))
    parts = [f"{sign}{_short(count)}" for sign, count in counts if count]
    parts += [f"${used.cost.total:.3f}"] if used.cost.total else []
    if window:
        parts.append((f"{100 * tokens / window:.1f}%" if tokens else "?") + f"/{_short(window)}")
        parts += ["(auto)"] if session.auto_compaction else []
    return parts


def _activity(sessions: Sequence[Conversation]) -> list[tuple[str, list[str]]]:
    """The names of sessions by what they do."""
    found: dict[str, list[str]] = {}
    for each in sorted(sessions, key=changed_at):
        found.setdefault(_RUNTIME_STATES[each.phase], []).append(display_name(each))
    return [(state, found[state]) for state in _RUNTIME_STATES.values() if state in found]


def _short(count: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)


def _tilde(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def session_row(session: Conversation, *, active: str | None, parent: str | None) -> Data:
    return fields(
        id=session.id,
        item_kind="session",
        name=session.name or None,
        display_name=display_name(session),
        worktree_path=str(session.cwd),
        runtime_state=_RUNTIME_STATES[session.phase],
        is_streaming=session.phase in (Phase.STREAMING, Phase.RETRYING),
        is_active=session.id == active,
        parent_session_id=parent,
        created_at=session.journal.header.timestamp,
        updated_at=changed_at(session),
    )


def listed_row(session: Conversation, *, parent: str | None) -> Data:
    """A session as `list_sessions` has it."""
    return fields(
        session_id=session.id,
        session_file=session.journal.path,
        session_name=session.name or None,
        display_name=display_name(session),
        worktree_path=str(session.cwd),
        parent_session_id=parent,
        parent_session_path=session.journal.header.parent_session,
        created_at=session.journal.header.timestamp,
        updated_at=changed_at(session),
    )


def changed_at(session: Conversation) -> str:
    entries = session.journal.entries
    return entries[-1].timestamp if entries else session.journal.header.timestamp


def context_updated(rows: Sequence[Data], active: str | None) -> Data:
    """All sessions, and the same as a tree to be shown."""
    return fields(active_session_id=active, sessions=list(rows), session_tree_widget=tree_widget(rows))


def tree_widget(rows: Sequence[Data]) -> Data:
    """The sessions as lines, each below the one that it came from. Clients know the widget by its names, and
    colour what stands at the end of a line."""
    id_, parent_ = Keyword("id"), Keyword("parent-session-id")
    known = {row[id_] for row in rows}
    children: dict[str | None, list[Data]] = {}
    for row in rows:
        parent = row[parent_] if row[parent_] in known and row[parent_] != row[id_] else None
        children.setdefault(parent, []).append(row)
    lines: list[Data] = []
    waiting = [(row, False) for row in reversed(children.get(None, []))]
    while waiting:
        row, is_below = waiting.pop()
        lines.append(_tree_line(row, is_below=is_below))
        waiting += [(child, True) for child in reversed(children.get(row[id_], []))]
    return fields(placement="left", extension_id="psi-session", widget_id="session-tree", content_lines=lines)


def _tree_line(row: Data, *, is_below: bool) -> Data:
    def value(name: str) -> Any:
        return row[Keyword(name)]

    id, state, is_current = value("id"), value("runtime-state"), value("is-active")
    words = [
        value("display-name"),
        f"[{id[:8]}]",
        f"— {_clock(value('created-at'))} / {_clock(value('updated-at'))}",
        f"— {value('worktree-path')}",
        *(["← current"] if is_current else []),
        f"[{state}]",
    ]
    line = fields(
        text=("  " if is_below else "") + " ".join(words), runtime_state=state, is_current=is_current
    )
    return line if is_current else line | fields(action=fields(type="command", command=f"/tree {id}"))


def _clock(timestamp: str) -> str:
    """The time of day, here, of an ISO time."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M")
    except ValueError:  # in a journal that somebody else has written
        return "--:--"


def resumed(session: Conversation) -> Data:
    return fields(
        session_id=session.id, session_file=session.journal.path, message_count=len(session.messages)
    )


def rehydrated(session: Conversation, messages: Sequence[Data]) -> Data:
    """Messages, with each tool call and its result side by side."""
    tools: dict[str, Any] = {}
    for entry in recent(session.journal.branch):
        said = entry.body.message if isinstance(entry.body, Said) else None
        if isinstance(said, Assistant):
            for call in said.calls:
                arguments = msgspec.json.encode(call.arguments).decode()
                tools[call.id] = fields(tool_id=call.id, tool_name=call.name, arguments=arguments)
        elif isinstance(said, ToolResult) and said.tool_call_id in tools:
            tools[said.tool_call_id] |= fields(
                content=content(said),
                result_text=coloured(text_of(said)),
                is_error=said.is_error,
                details=plain(said.details),
            )
    return fields(
        session_id=session.id,
        messages=list(messages),
        tool_calls=tools,
        tool_order=list(tools),
    )


def dialog(question: Question) -> Data:
    """What waits for a person, as an editor asks it. The message has all that fits there; one of the daemon
    itself says that it is of no session."""
    return fields(
        dialog_id=question.id,
        kind="input" if question.is_dialog else "confirm",
        title=_title(question),
        message=question.text(lines=DIALOG_LINES, characters=DIALOG_CHARACTERS),
        options=[fields(value=each.value, label=each.label) for each in question.options],
        tool_id=question.about or question.id,
        tool_name=question.title,
        summary=question.what,
        reason=question.reason,
        preview=question.whole,
        session_id=question.session,
        session_name=question.session_name or None,
        project=question.project or None,
    )


def _title(question: Question) -> str:
    return f"{question.title}:" if question.is_dialog else f"Allow {question.title}?"


def in_minibuffer(question: Question) -> Data:
    """What of a dialog is another for psi's UI, which asks in Emacs' minibuffer. Of a longer text that shows
    the last lines only, so what will happen is at the end, in few; and it takes each key at once, so that the
    answer is a word and Enter: what somebody was typing when the question came is no consent."""
    shown = one_line(question.what, MINIBUFFER_CHARACTERS)
    rows = [question.who, question.reason and one_line(question.reason, MINIBUFFER_CHARACTERS // 2), shown]
    whole = question.whole.strip()
    if whole and whole != shown.removeprefix("$ "):
        is_short = len(whole) <= MINIBUFFER_CHARACTERS and whole.count("\n") < MINIBUFFER_LINES
        rows.append(visible(whole) if is_short else f"[{question.see_all}]")
    rows.append(_title(question))
    kind = "input" if question.takes_text else "select"
    return fields(kind=kind, message="\n".join(row for row in rows if row))


def dialog_resolved(question: Question, answer: Answer) -> Data:
    return fields(dialog_id=question.id, allowed=answer.allows, by=answer.by, session_id=question.session)


# --- events -----------------------------------------------------------------------------------------------


def frames(event: ConversationEvent) -> list[tuple[str, Data]]:
    """What clients are told of an event, besides snapshots: topics and data."""
    own = {"session_id": event.session_id}
    match event:
        case events.TextStreamed(text=text):
            return [("assistant/delta", fields(text=text, **own))]
        case events.ThoughtStreamed(text=text):
            return [("assistant/thinking-delta", fields(text=text, **own))]
        case events.MessageSaid(entry_id=entry_id, message=Assistant() as said):
            return [("assistant/message", {**message(entry_id, said), **fields(**own)})]
        case events.MessageSaid(entry_id=entry_id, message=User() as said):
            own |= _receipt(said.prompt or "")
            return [("session/prompted", fields(entry_id=entry_id, text=text_of(said), **own))]
        case events.TurnBegan(turn=turn, line=line, prompt_id=id):
            return [("session/turn-began", fields(turn=turn, first_line=line, **own, **_receipt(id)))]
        case events.TurnEnded(turn=turn, first_line=first, last_line=last, outcome=outcome, prompt_id=id):
            own |= _receipt(id)
            shown = fields(turn=turn, outcome=outcome, first_line=first, last_line=last, **own)
            return [("session/turn-ended", shown)]
        case events.ToolBegan(call_id=id, name=name, title=title):
            own |= {"title": title} if title else {}
            return [("tool/start", fields(tool_id=id, tool_name=name, **own))]
        case events.ToolArguments(call_id=id, arguments=arguments):
            return [("tool/delta", fields(tool_id=id, arguments=arguments, **own))]
        case events.ToolExecuting(call_id=id, name=name, arguments=given):
            text = msgspec.json.encode(given).decode()
            args = with_text_keys(given)
            return [
                (
                    "tool/executing",
                    fields(tool_id=id, tool_name=name, arguments=text, parsed_args=args, **own),
                )
            ]
        case events.ToolUpdated(call_id=id, name=name, text=text, details=details):
            return [("tool/update", _result(id, name, text, details, is_error=False) | fields(**own))]
        case events.ToolEnded(call_id=id, name=name, text=text, details=details, is_error=is_error):
            return [("tool/result", _result(id, name, text, details, is_error=is_error) | fields(**own))]
        case events.Retrying(attempt=attempt, limit=limit, delay=delay, reason=why):
            shown = fields(attempt=attempt, limit=limit, delay=delay, reason=why, **own)
            return [("session/retrying", shown)]
        case events.Noticed(message=said):
            shown = fields(id=event.session_id, message=said, level="warning", **own)
            return [("ui/notification", shown)]
        case events.Failed(message=why):
            return [("error", fields(error_code=ErrorCode.FAILED.value, error_message=why, **own))]
    return []


def _receipt(id: str) -> dict[str, str]:
    """The prompt that began something, if that is known."""
    return {"prompt_id": id} if id else {}


def _result(id: str, name: str, text: str, details: dict[str, Any], *, is_error: bool) -> dict[Keyword, Any]:
    return fields(
        tool_id=id,
        tool_name=name,
        content=[fields(type=Keyword("text"), text=text)],
        result_text=text,
        is_error=is_error,
        details=plain(details),
    )
