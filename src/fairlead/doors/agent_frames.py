"""What agent sessions look like on rpc-edn: their events and snapshots as maps with keywords.

Pure functions from a session's state to what a client is told. Roles are strings and the types of content are
keywords, as psi's clients expect it; whatever a client is told of a session carries its id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..agent import events
from ..agent.events import Approval, Event
from ..agent.journal import Entry, Said
from ..agent.library import Page
from ..agent.messages import Assistant, Image, Message, Text, Thinking, ToolResult, Usage, User, text_of
from ..agent.session import AgentSession, Phase
from ..formats.edn import Keyword
from ..wire.rpc import ErrorCode, fields

Data = Mapping[Any, Any]

MAX_LABEL = 80
"""How many characters of what was said first name a session that has no name."""

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


def _key(key: Any) -> Any:
    """A name in Lisp's spelling; what is no plain name stays text."""
    text = str(key)
    if not _NAME.fullmatch(text):
        return text
    return Keyword(_HUMP.sub(lambda found: f"-{found[0].lower()}", text.replace("_", "-")))


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
    """A message's parts."""
    parts: Iterable[Any] = (Text(message.content),) if isinstance(message.content, str) else message.content
    return [_part(part) for part in parts]


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
            stop_reason=said.stop_reason,
            error_message=said.error_message,
            usage=usage(said.usage),
        )
    return shown


def transcript(branch: Sequence[Entry]) -> list[Data]:
    return [message(entry.id, entry.body.message) for entry in branch if isinstance(entry.body, Said)]


# --- snapshots --------------------------------------------------------------------------------------------


def display_name(session: AgentSession) -> str:
    """The session's name, else what was said first, else its id."""
    if session.name:
        return session.name
    said = (entry.body.message for entry in session.journal.branch if isinstance(entry.body, Said))
    first = next(said, None)
    line = text_of(first).strip().partition("\n")[0] if first is not None else ""
    if not line:
        return f"session {session.id[:8]}"
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…"


def session_updated(session: AgentSession, templates: Sequence[Page] = ()) -> Data:
    model = session.model
    effort = session.effective_thinking
    label = f"({model.provider}) {model.id}" + (f" • {effort}" if effort != "off" else "")
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
        thinking_level=session.thinking_level,
        effective_reasoning_effort=effort,
        header_model_label=label,
        status_session_line=f"session: {display_name(session)} • {session.phase.value}",
        extension_command_names=[],
        prompt_templates=[fields(name=page.name, description=page.description) for page in templates],
    )


def footer_updated(session: AgentSession, verdict: str = "") -> Data:
    used = session.usage
    window = session.model.window
    tokens = session.context_tokens
    parts = [f"↑{_short(used.input)}", f"↓{_short(used.output)}"]
    parts += [f"R{_short(used.cache_read)}"] if used.cache_read else []
    parts += [f"W{_short(used.cache_write)}"] if used.cache_write else []
    parts += [f"${used.cost.total:.3f}"] if used.cost.total else []
    parts.append(f"{100 * tokens / window:.1f}%/{_short(window)}" if window else _short(tokens))
    return fields(
        session_id=session.id,
        path_line=_tilde(str(session.cwd)) + (f" • {session.name}" if session.name else ""),
        stats_line=" ".join(parts),
        usage_parts=parts,
        model_text=f"({session.model.provider}) {session.model.id}",
        status_line=f"{len(session.approvals)} waiting for consent" if session.approvals else verdict or None,
    )


def _short(count: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _tilde(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def session_row(session: AgentSession, *, active: str | None, parent: str | None) -> Data:
    header = session.journal.header
    entries = session.journal.entries
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
        created_at=header.timestamp,
        updated_at=entries[-1].timestamp if entries else header.timestamp,
    )


def context_updated(rows: Sequence[Data], active: str | None) -> Data:
    """All sessions, and the same as a tree to be shown."""
    return fields(active_session_id=active, sessions=list(rows), session_tree_widget=tree_widget(rows))


def tree_widget(rows: Sequence[Data]) -> Data:
    """The sessions as lines, each below the one that it came from."""
    id_, parent_, name_ = (Keyword(name) for name in ("id", "parent-session-id", "display-name"))
    known = {row[id_] for row in rows}
    children: dict[str | None, list[Data]] = {}
    for row in rows:
        parent = row[parent_] if row[parent_] in known and row[parent_] != row[id_] else None
        children.setdefault(parent, []).append(row)
    lines: list[Data] = []
    waiting = [(row, 0) for row in reversed(children.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        action = fields(type="command", command=f"/tree {row[id_]}")
        text = "  " * depth + row[name_]
        lines.append(fields(text=text, is_current=row[Keyword("is-active")], action=action))
        waiting += [(child, depth + 1) for child in reversed(children.get(row[id_], []))]
    return fields(placement="left", widget_id="session-tree", content_lines=lines)


def resumed(session: AgentSession) -> Data:
    return fields(
        session_id=session.id, session_file=session.journal.path, message_count=len(session.messages)
    )


def rehydrated(session: AgentSession) -> Data:
    """The whole transcript, with each tool call and its result side by side."""
    tools: dict[str, Any] = {}
    for said in session.messages:
        if isinstance(said, Assistant):
            for call in said.calls:
                arguments = msgspec.json.encode(call.arguments).decode()
                tools[call.id] = fields(tool_id=call.id, tool_name=call.name, arguments=arguments)
        elif isinstance(said, ToolResult) and said.tool_call_id in tools:
            tools[said.tool_call_id] |= fields(
                content=content(said),
                result_text=text_of(said),
                is_error=said.is_error,
                details=plain(said.details),
            )
    return fields(
        session_id=session.id,
        messages=transcript(session.journal.branch),
        tool_calls=tools,
        tool_order=list(tools),
    )


def dialog(approval: Approval) -> Data:
    """An approval as a question to a person."""
    lines = [approval.summary, approval.reason, approval.preview]
    return fields(
        dialog_id=approval.id,
        kind="confirm",
        title=f"Allow {approval.tool}?",
        message="\n".join(line for line in lines if line),
        options=["allow", "always", "deny"],
        tool_id=approval.call_id,
        tool_name=approval.tool,
        summary=approval.summary,
        reason=approval.reason,
        preview=approval.preview,
    )


# --- events -----------------------------------------------------------------------------------------------


def frames(event: Event) -> list[tuple[str, Data]]:
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
            return [("session/prompted", fields(entry_id=entry_id, text=text_of(said), **own))]
        case events.TurnBegan(turn=turn, line=line):
            return [("session/turn-began", fields(turn=turn, first_line=line, **own))]
        case events.TurnEnded(turn=turn, first_line=first, last_line=last, outcome=outcome):
            shown = fields(turn=turn, outcome=outcome, first_line=first, last_line=last, **own)
            return [("session/turn-ended", shown)]
        case events.ToolBegan(call_id=id, name=name):
            return [("tool/start", fields(tool_id=id, tool_name=name, **own))]
        case events.ToolArguments(call_id=id, arguments=arguments):
            return [("tool/delta", fields(tool_id=id, arguments=arguments, **own))]
        case events.ToolExecuting(call_id=id, name=name, arguments=given):
            text = msgspec.json.encode(given).decode()
            shown = fields(tool_id=id, tool_name=name, arguments=text, parsed_args=plain(given), **own)
            return [("tool/executing", shown)]
        case events.ToolUpdated(call_id=id, name=name, text=text, details=details):
            return [("tool/update", _result(id, name, text, details, is_error=False) | fields(**own))]
        case events.ToolEnded(call_id=id, name=name, text=text, details=details, is_error=is_error):
            return [("tool/result", _result(id, name, text, details, is_error=is_error) | fields(**own))]
        case events.ApprovalWanted(approval=approval):
            return [("ui/dialog-requested", {**dialog(approval), **fields(**own)})]
        case events.ApprovalSettled(approval=approval, allowed=allowed, by=by):
            return [("ui/dialog-resolved", fields(dialog_id=approval.id, allowed=allowed, by=by, **own))]
        case events.Failed(message=why):
            return [("error", fields(error_code=ErrorCode.FAILED.value, error_message=why, **own))]
    return []


def _result(id: str, name: str, text: str, details: dict[str, Any], *, is_error: bool) -> dict[Keyword, Any]:
    return fields(
        tool_id=id,
        tool_name=name,
        content=[fields(type=Keyword("text"), text=text)],
        result_text=text,
        is_error=is_error,
        details=plain(details),
    )
