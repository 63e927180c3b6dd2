"""What can be asked about agent sessions: `:psi.agent-session/*`, the lists of sessions, and what UIs show.

Each attribute of a session is computed when it is asked for, from the session that the entity names by
`:psi.agent-session/session-id`. Attributes that cost nothing are given together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ...formats.edn import Keyword
from ...formats.shown import coloured
from ...system.worktrees import git_branch
from .. import context
from ..conversation import Conversation
from ..journal import Said
from ..library import Library
from ..messages import Assistant, ToolResult, text_of
from ..models import ModelInfo
from ..ports import Phase
from .registry import Inputs, Params, QueryError, Resolver, TextKeys, Thread

SESSION_ID = "psi.agent-session/session-id"
MAX_LISTED = 200
"""How many sessions of the disk are listed, unless a parameter asks for fewer."""


class Catalogued(Protocol):
    """What is known of models."""

    def models(self) -> Sequence[ModelInfo]: ...

    def authenticated_providers(self) -> Sequence[str]: ...


class JournalOnDisk(Protocol):
    """A session on disk."""

    @property
    def path(self) -> str: ...

    @property
    def name(self) -> str | None: ...

    @property
    def cwd(self) -> str: ...

    @property
    def first_message(self) -> str | None: ...

    @property
    def modified(self) -> Any: ...


def session_resolvers(
    find: Callable[[str], Conversation],
    loaded: Callable[[], Sequence[Conversation]],
    display_name: Callable[[Conversation], str],
    catalog: Catalogued,
    library: Library,
    listed: Callable[[int, str | None], Sequence[JournalOnDisk]],
    disk: Thread | None = None,
) -> tuple[Resolver, ...]:
    """All resolvers of agent sessions.

    `listed` returns the sessions on disk, the last used first: so many, of a directory if one is given. It
    may take long and is called on `disk`.
    """

    def of_session(
        name: str, attributes: Mapping[str, Callable[[Conversation], Any]], **rows: tuple[str, ...]
    ) -> Resolver:
        full = {f"psi.agent-session/{attribute}": run for attribute, run in attributes.items()}

        def run(inputs: Inputs, params: Params) -> Mapping[str, Any]:
            session = find(inputs[SESSION_ID])
            return {attribute: compute(session) for attribute, compute in full.items()}

        named = {f"psi.agent-session/{attribute}": row for attribute, row in rows.items()}
        return Resolver(f"psi.agent-session/{name}-of", (SESSION_ID,), tuple(full), run, named)

    def of_turn() -> Resolver:
        def run(inputs: Inputs, params: Params) -> Mapping[str, Any]:
            return _turn(find(inputs[SESSION_ID]))

        return Resolver("psi.turn/of-session", (SESSION_ID,), _TURN, run)

    def of_all(
        name: str,
        outputs: Mapping[str, Callable[[Params], Any]],
        *,
        thread: Thread | None = None,
        **rows: tuple[str, ...],
    ) -> Resolver:
        def run(inputs: Inputs, params: Params) -> Mapping[str, Any]:
            return {attribute: compute(params) for attribute, compute in outputs.items()}

        named = {
            attribute: row for attribute in outputs for key, row in rows.items() if attribute.endswith(key)
        }
        return Resolver(name, (), tuple(outputs), run, named, thread)

    def sessions(params: Params) -> list[dict[str, Any]]:
        directory = params.get("worktree-path")
        if directory is not None and not isinstance(directory, str):
            raise QueryError(":worktree-path must be a string")
        return [_listed(row) for row in listed(_limit(params), directory)]

    return (
        of_session("identity", _identity(display_name)),
        of_session("phase", _PHASE),
        of_session("model", _MODEL),
        of_session("usage", _USAGE),
        of_session("queues", _QUEUES),
        of_session("context", _CONTEXT),
        of_session("messages", {"message-history": _history}),
        of_session("tools", {"tool-lifecycle-summaries": _tools}, **{"tool-lifecycle-summaries": _SUMMARY}),
        of_session("tool-events", {"tool-lifecycle-events": _tool_events}),
        of_session("jobs", {"background-jobs": _jobs}),
        of_turn(),
        of_session("stats", {"stats": _stats}),
        of_session("prompts", {"prompt-templates": lambda session: _prompts(library, session)}),
        of_session("branch", {"git-branch": lambda session: git_branch(session.cwd)}),
        of_all(
            "psi.agent-session/context-sessions-of-all",
            {
                "psi.agent-session/context-sessions": lambda params: [
                    {"id": each.id, "display-name": display_name(each), "phase": each.phase.value}
                    for each in loaded()
                ]
            },
        ),
        of_all(
            "psi.agent-session/models-of-all",
            {
                "psi.agent-session/model-catalog": lambda params: [_model(each) for each in catalog.models()],
                "psi.agent-session/authenticated-providers": lambda params: list(
                    catalog.authenticated_providers()
                ),
                "psi.agent-session/scoped-models": lambda params: [],
            },
        ),
        of_all("psi.extension/commands", {"psi.extension/command-names": lambda params: []}),
        of_all("psi.session/list-of-all", {"psi.session/list": sessions}, thread=disk, list=_LISTED),
        of_all(
            "psi.persisted-session/list-of-all",
            {"psi.persisted-session/list": sessions},
            thread=disk,
            list=_LISTED,
        ),
        of_all(
            "psi.ui/all",
            {
                "psi.ui/widgets": lambda params: [],
                "psi.ui/widget-specs": lambda params: [],
                "psi.ui/statuses": lambda params: [],
                "psi.ui/visible-notifications": lambda params: [],
                "psi.ui/active-dialog": lambda params: _dialog(loaded()),
                "psi.ui/pending-dialog-count": lambda params: _dialogs(loaded()),
                "psi.ui/dialog-queue-empty?": lambda params: not _dialogs(loaded()),
            },
        ),
    )


def _identity(display_name: Callable[[Conversation], str]) -> Mapping[str, Callable[[Conversation], Any]]:
    return {
        "session-file": lambda session: session.journal.path,
        "file": lambda session: session.journal.path,
        "session-name": lambda session: session.name or None,
        "name": lambda session: session.name or None,
        "display-name": display_name,
        "worktree-path": lambda session: str(session.cwd),
    }


_PHASE: Mapping[str, Callable[[Conversation], Any]] = {
    "phase": lambda session: session.phase.value,
    "is-idle": lambda session: session.is_idle,
    "is-streaming": lambda session: session.phase in (Phase.STREAMING, Phase.RETRYING),
    "is-compacting": lambda session: session.phase is Phase.COMPACTING,
    "retry-attempt": lambda session: session.retry_attempt,
    "auto-retry-enabled": lambda session: session.auto_retry,
    "auto-compaction-enabled": lambda session: session.auto_compaction,
}


def _effort(session: Conversation) -> str | None:
    """What a model is asked for; nothing if it does not reason."""
    if not session.model.reasoning:
        return None
    return "high" if session.thinking_level == "xhigh" else session.thinking_level


_MODEL: Mapping[str, Callable[[Conversation], Any]] = {
    "model": lambda session: _model(session.model),
    "model-provider": lambda session: session.model.provider,
    "model-id": lambda session: session.model.id,
    "model-reasoning": lambda session: session.model.reasoning,
    "thinking-level": lambda session: session.effective_thinking,
    "effective-reasoning-effort": _effort,
    "context-window": lambda session: session.model.window,
}

_USAGE: Mapping[str, Callable[[Conversation], Any]] = {
    "usage-input": lambda session: session.usage.input,
    "usage-output": lambda session: session.usage.output,
    "usage-cache-read": lambda session: session.usage.cache_read,
    "usage-cache-write": lambda session: session.usage.cache_write,
    "usage-cost-total": lambda session: session.usage.cost.total,
}

_QUEUES: Mapping[str, Callable[[Conversation], Any]] = {
    "steering-messages": lambda session: [text_of(said) for said in session.prompts.steering],
    "follow-up-messages": lambda session: [text_of(said) for said in session.prompts.follow_ups],
    "pending-message-count": lambda session: session.pending_messages,
}

_CONTEXT: Mapping[str, Callable[[Conversation], Any]] = {
    "context-tokens": lambda session: session.context_tokens,
    "context-fraction": lambda session: session.context_tokens / (session.model.window or 1),
}

_LISTED = (
    "psi.session-info/path",
    "psi.session-info/name",
    "psi.session-info/worktree-path",
    "psi.session-info/first-message",
    "psi.session-info/modified",
)


def _prompts(library: Library, session: Conversation) -> list[dict[str, Any]]:
    pages = library.shelf(session.cwd).prompts.values()
    return [{"name": page.name, "description": page.description, "file-path": page.path} for page in pages]


def _listed(row: JournalOnDisk) -> dict[str, Any]:
    values = (row.path, row.name, row.cwd, row.first_message, row.modified)
    return dict(zip(_LISTED, values))


def _limit(params: Params) -> int:
    limit = params.get("limit", MAX_LISTED)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise QueryError(":limit must be a positive integer")
    return min(limit, MAX_LISTED)


def _model(info: ModelInfo) -> dict[str, Any]:
    return {"provider": info.provider, "id": info.id, "name": info.name, "reasoning": info.reasoning}


def _history(session: Conversation) -> list[dict[str, Any]]:
    return [
        {"id": entry.id, "role": _role(entry.body.message), "text": text_of(entry.body.message)}
        for entry in session.journal.branch
        if isinstance(entry.body, Said)
    ]


def _role(message: Any) -> str:
    if isinstance(message, Assistant):
        return "assistant"
    return "toolResult" if isinstance(message, ToolResult) else "user"


_SUMMARY = tuple(
    f"psi.tool-lifecycle.summary/{name}"
    for name in (
        "tool-id",
        "tool-name",
        "arguments",
        "parsed-args",
        "result-text",
        "is-error",
        "completed?",
    )
)


def _tools(session: Conversation) -> list[dict[str, Any]]:
    """Each call of the conversation, and how it ended."""
    found: dict[str, dict[str, Any]] = {}
    for message in session.messages:
        if isinstance(message, Assistant):
            for call in message.calls:
                arguments = msgspec.json.encode(call.arguments).decode()
                given = (call.id, call.name, arguments, _text_keys(call.arguments), None, False, False)
                found[call.id] = dict(zip(_SUMMARY, given))
        elif isinstance(message, ToolResult) and message.tool_call_id in found:
            ended = (coloured(text_of(message)), message.is_error, True)
            found[message.tool_call_id] |= dict(zip(_SUMMARY[-3:], ended))
    return list(found.values())


def _text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return TextKeys((str(key), _text_keys(inner)) for key, inner in value.items())
    return [_text_keys(each) for each in value] if isinstance(value, list | tuple) else value


def _tool_events(session: Conversation) -> list[dict[str, Any]]:
    """What happened to calls, as far as the journal tells it."""
    found: list[dict[str, Any]] = []
    for message in session.messages:
        if isinstance(message, Assistant):
            found += [
                {"event": "tool-start", "tool-id": call.id, "tool-name": call.name} for call in message.calls
            ]
        elif isinstance(message, ToolResult):
            row = {"event": "tool-result", "tool-id": message.tool_call_id, "tool-name": message.tool_name}
            found.append({**row, "is-error": message.is_error})
    return found


def _jobs(session: Conversation) -> list[dict[str, Any]]:
    jobs = [*session.past_jobs, *session.jobs.values()]
    return [{"job-id": job.call.id, "tool-name": job.call.name, "status": job.status} for job in jobs]


_TURN = tuple(
    f"psi.turn/{name}"
    for name in (
        "phase",
        "is-streaming",
        "text",
        "tool-calls",
        "tool-call-count",
        "final-message",
        "error-message",
        "is-done",
        "is-error",
    )
)


def _turn(session: Conversation) -> dict[str, Any]:
    """How far the running turn is. Its text is what the next delta continues."""
    last = context.last_message(session.journal.branch)
    said = last if isinstance(last, Assistant) and session.is_idle else None
    ended = {
        "psi.turn/final-message": text_of(said) if said is not None else None,
        "psi.turn/error-message": said.error_message if said is not None else None,
        "psi.turn/is-done": said is not None and not said.error_message,
        "psi.turn/is-error": said is not None and bool(said.error_message),
    }
    if session.is_idle:
        return {**dict.fromkeys(_TURN), **dict(zip(_TURN[1:5], (False, None, [], 0))), **ended}
    answer = session.answer_so_far
    calls = answer.calls if session.is_answering else context.unanswered(session.journal.branch)
    rows = [
        {"id": call.id, "name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}
        for call in calls
    ]
    phase = Keyword("tool-accumulating" if rows else "text-accumulating")
    text = (answer.reply if session.is_answering else "") or None
    return {**dict(zip(_TURN, (phase, True, text, rows, len(rows)))), **ended}


def _stats(session: Conversation) -> dict[str, Any]:
    stats = session.stats
    return {
        "user-messages": stats.user_messages,
        "assistant-messages": stats.assistant_messages,
        "tool-calls": stats.tool_calls,
        "tool-results": stats.tool_results,
        "total-tokens": stats.usage.total_tokens,
        "cost": stats.usage.cost.total,
    }


def _dialog(sessions: Sequence[Conversation]) -> dict[str, Any] | None:
    """The first question that waits for an answer."""
    for session in sessions:
        for approval in session.approvals.values():
            return {"dialog-id": approval.id, "session-id": session.id, "title": approval.summary}
    return None


def _dialogs(sessions: Sequence[Conversation]) -> int:
    return sum(len(session.approvals) for session in sessions)
