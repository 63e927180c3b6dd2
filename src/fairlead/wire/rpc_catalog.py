"""rpc-edn's vocabulary as data: what each op takes, and what each event must carry.

A parameter has the same meaning in every op that takes it, so its kind stands once, by its name. A door that
has more ops or topics adds them to a copy of these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..formats.edn import Keyword


class Kind(NamedTuple):
    """What a parameter's value must be."""

    wanted: str
    """In words, for the error."""
    holds: Callable[[Any], bool]


class Op(NamedTuple):
    """The parameters of an op, by name."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def _one_of(*words: str) -> Kind:
    return Kind("one of " + ", ".join(f'"{word}"' for word in words), lambda value: value in words)


def _one_word_of(*words: str) -> Kind:
    """One of these, as a string or a keyword."""
    wanted = _one_of(*words).wanted
    return Kind(wanted, lambda value: (value.name if isinstance(value, Keyword) else value) in words)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list | tuple | frozenset) and all(type(item) is str for item in value)


STRING = Kind("a string", lambda value: type(value) is str)
NON_BLANK = Kind("non-empty string", lambda value: type(value) is str and value.strip() != "")
WORD = Kind(
    "a non-empty string or a keyword",
    lambda value: isinstance(value, Keyword) or (type(value) is str and value.strip() != ""),
)
BOOLEAN = Kind("true or false", lambda value: type(value) is bool)
MAP = Kind("a map", lambda value: isinstance(value, Mapping))
STRINGS = Kind("a vector of strings", _is_strings)
LEVEL = Kind(
    "a keyword, a string or an integer",
    lambda value: isinstance(value, Keyword | str | int) and not isinstance(value, bool),
)
ANYTHING = Kind("anything", lambda value: True)
COUNT = Kind("an integer from 1 to 65535", lambda value: type(value) is int and 0 < value <= 0xFFFF)
PID = Kind("a process id", lambda value: type(value) is int and 0 < value <= 0x7FFFFFFF)
SECONDS = Kind(
    "a number of seconds",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9,
)
LINE = Kind("a line's number", lambda value: type(value) is int and 0 <= value < 2**63)
RECORD = Kind("true, false or a file's path", lambda value: type(value) in (bool, str) and value != "")
DIRECTORY = Kind(
    "the absolute path of a directory",
    lambda value: type(value) is str and value.startswith("/") and "\0" not in value,
)
COMMAND = Kind("a vector of strings, the program first", lambda value: _is_strings(value) and len(value) > 0)

PARAMS: Mapping[str, Kind] = MappingProxyType(
    {
        "action-name": WORD,
        "agent": STRING,
        "allowed": BOOLEAN,
        "always": BOOLEAN,
        "argv": COMMAND,
        "behavior": _one_word_of("steer", "queue"),
        "brief": BOOLEAN,
        "client-info": MAP,
        "continue": BOOLEAN,
        "cols": COUNT,
        "command": STRING,
        "custom-instructions": STRING,
        "cwd": STRING,
        "deferred": BOOLEAN,
        "dialog-id": NON_BLANK,
        "direction": ANYTHING,
        "enabled": BOOLEAN,
        "entity": STRING,
        "env": MAP,
        "entry-id": NON_BLANK._replace(wanted="non-empty entry id"),
        "error-message": STRING,
        "event": _one_of("start", "stop", "error"),
        "exit": BOOLEAN,
        "follow": BOOLEAN,
        "follower": NON_BLANK,
        "format": _one_of("text", "ansi", "cells", "html", "svg", "png"),
        "from": LINE,
        "handover": BOOLEAN,
        "idle": SECONDS,
        "images": ANYTHING,
        "input": STRING,
        "job-id": NON_BLANK,
        "key": STRING,
        "kind": NON_BLANK,
        "key-names": STRINGS,
        "keys": STRINGS,
        "level": LEVEL,
        "message": NON_BLANK,
        "model-id": NON_BLANK,
        "limit": COUNT,
        "name": NON_BLANK,
        "needle": STRING,
        "parent-session": ANYTHING,
        "owner": PID,
        "paste": STRING,
        "path": STRING,
        "project": DIRECTORY,
        "prompt": STRING,
        "protocol-version": STRING,
        "provider": WORD,
        "query": NON_BLANK,
        "python": STRING,
        "record": RECORD,
        "regex": STRING,
        "request-id": NON_BLANK,
        "result": ANYTHING,
        "rows": COUNT,
        "scrollback": BOOLEAN,
        "session-id": NON_BLANK,
        "session-path": NON_BLANK._replace(wanted="non-empty path string"),
        "since": NON_BLANK,
        "status": _one_word_of("submitted", "cancelled", "failed"),
        "statuses": Kind("a vector", lambda value: isinstance(value, list | tuple | frozenset)),
        "stop": BOOLEAN,
        "tags": STRINGS,
        "text": STRING,
        "timeout": SECONDS,
        "title": STRING,
        "token": NON_BLANK,
        "topics": STRINGS,
        "ui/action": ANYTHING,
        "value": ANYTHING,
        "variable": NON_BLANK,
    }
)

OPS: Mapping[str, Op] = MappingProxyType(
    {
        "handshake": Op((), ("client-info", "protocol-version", "cwd", "project", "key-names")),
        "ping": Op(),
        "cancel": Op(("request-id",)),
        "subscribe": Op((), ("topics", "session-id", "since")),
        "unsubscribe": Op((), ("topics",)),
        "query_eql": Op(("query",), ("entity", "session-id")),
        "command": Op(("text",), ("session-id",)),
        "frontend_action_result": Op(
            ("request-id", "action-name", "status"), ("ui/action", "value", "error-message", "session-id")
        ),
        "resolve_dialog": Op(("dialog-id",), ("result", "session-id")),
        "cancel_dialog": Op(("dialog-id",), ("session-id",)),
        "prompt": Op(("message",), ("images", "session-id")),
        "prompt_while_streaming": Op(("message",), ("behavior", "images", "session-id")),
        "steer": Op(("message",), ("images", "session-id")),
        "follow_up": Op(("message",), ("images", "session-id")),
        "abort": Op((), ("session-id",)),
        "interrupt": Op((), ("session-id",)),
        "lend_key": Op(("variable", "key")),
        "list_background_jobs": Op((), ("statuses", "session-id")),
        "inspect_background_job": Op(("job-id",), ("session-id",)),
        "cancel_background_job": Op(("job-id",), ("session-id",)),
        "login_begin": Op((), ("provider", "session-id")),
        "login_complete": Op((), ("input", "session-id")),
        "new_session": Op((), ("session-id", "parent-session", "name")),
        "open_session": Op((), ("name", "continue", "cwd")),
        "switch_session": Op((), ("session-id", "session-path")),
        "list_sessions": Op((), ("session-id",)),
        "fork": Op(("entry-id",), ("session-id",)),
        "set_session_name": Op(("name",), ("session-id",)),
        "set_model": Op(("provider", "model-id"), ("session-id",)),
        "cycle_model": Op((), ("direction", "session-id")),
        "set_thinking_level": Op(("level",), ("session-id",)),
        "cycle_thinking_level": Op((), ("session-id",)),
        "compact": Op((), ("custom-instructions", "session-id")),
        "set_auto_compaction": Op(("enabled",), ("session-id",)),
        "set_auto_retry": Op(("enabled",), ("session-id",)),
        "abort_retry": Op((), ("session-id",)),
        "bash": Op(("command",), ("session-id",)),
        "abort_bash": Op((), ("session-id",)),
        "export_html": Op((), ("path", "session-id")),
        "get_state": Op((), ("session-id",)),
        "get_messages": Op((), ("session-id", "from", "limit")),
        "get_session_stats": Op((), ("session-id",)),
        "get_fork_messages": Op((), ("session-id",)),
        "get_last_assistant_text": Op((), ("session-id",)),
        "get_commands": Op((), ("session-id",)),
        "get_available_models": Op((), ("session-id",)),
        "remember": Op(("text",), ("tags", "session-id")),
        "recall": Op(("text",), ("tags", "limit", "session-id")),
        "describe": Op(),
        "config": Op(),
        "daemon_status": Op(),
        "daemon_stop": Op((), ("handover",)),
        "daemon_restart": Op((), ("env", "python")),
        "health": Op(),
        "approvals": Op((), ("token",)),
        "approval_settle": Op(("token", "allowed"), ("always",)),
        "notify": Op(("text",), ("title",)),
        "terminal_start": Op(("name", "argv"), ("cwd", "env", "cols", "rows", "deferred", "record", "owner")),
        "terminal_list": Op((), ("brief",)),
        "terminal_stop": Op(("name",)),
        "terminal_send": Op(("name",), ("text", "keys", "paste")),
        "terminal_screen": Op(("name",), ("format", "scrollback")),
        "terminal_lines": Op(("name",), ("limit", "follow", "follower", "from", "timeout")),
        "terminal_search": Op(("name",), ("needle", "regex", "limit")),
        "terminal_wait": Op(("name",), ("text", "regex", "idle", "exit", "timeout")),
        "terminal_resize": Op(("name", "cols", "rows")),
        "terminal_record": Op(("name",), ("path", "stop")),
        "terminal_turn": Op(
            ("name", "event"), ("agent", "prompt", "path", "session-id", "owner", "request-id", "timeout")
        ),
        "verify_target": Op(("name",)),
        "verify_reports": Op((), ("session-id", "limit")),
        "session_list": Op((), ("kind", "brief")),
        "session_find": Op(("name",)),
        "session_stop": Op(("name",)),
        "session_prompt": Op(("name", "text")),
        "session_lines": Op(("name",), ("limit",)),
        "session_wait": Op(("name",), ("timeout",)),
    }
)

TOPICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "session/updated": (
            "session-id",
            "phase",
            "is-streaming",
            "is-compacting",
            "pending-message-count",
            "retry-attempt",
            "interrupt-pending",
        ),
        "session/resumed": ("session-id", "session-file", "message-count"),
        "session/rehydrated": ("messages", "tool-calls", "tool-order", "session-id"),
        "session/prompted": ("session-id", "entry-id", "text"),
        "session/turn-began": ("session-id", "turn"),
        "session/turn-ended": ("session-id", "turn", "outcome", "first-line", "last-line"),
        "session/retrying": ("session-id", "attempt", "limit", "delay", "reason"),
        "context/updated": ("active-session-id", "sessions"),
        "assistant/delta": ("text", "session-id"),
        "assistant/thinking-delta": ("text", "session-id"),
        "assistant/message": ("role", "content", "session-id"),
        "tool/start": ("tool-id", "tool-name", "session-id"),
        "tool/executing": ("tool-id", "tool-name", "session-id"),
        "tool/delta": ("tool-id", "session-id"),
        "tool/update": ("tool-id", "tool-name", "content", "result-text", "is-error", "session-id"),
        "tool/result": ("tool-id", "tool-name", "content", "result-text", "is-error", "session-id"),
        "ui/dialog-requested": ("dialog-id", "kind", "title"),
        "ui/dialog-resolved": ("dialog-id", "allowed", "by"),
        "ui/frontend-action-requested": ("request-id", "ui/action"),
        "ui/widgets-updated": ("widgets",),
        "ui/widget-specs-updated": (),
        "ui/status-updated": ("statuses",),
        "ui/notification": ("id", "message", "level"),
        "footer/updated": ("path-line", "stats-line", "session-id"),
        "command-result": ("type",),
        "key/wanted": ("variable",),
        "error": ("error-code", "error-message"),
        "terminal/started": ("name", "pid"),
        "terminal/exited": ("name", "exit-code"),
        "terminal/title": ("name", "title"),
        "terminal/bell": ("name",),
        "terminal/notification": ("name", "body"),
        "terminal/progress": ("name", "state"),
        "terminal/recording": ("name", "path", "recording"),
        "terminal/turn-began": ("name", "turn"),
        "terminal/turn-ended": ("name", "turn"),
        "verify/report": ("session-id", "turn", "status", "confidence", "summary"),
        "verify/escalated": ("session-id", "turn", "reason"),
        "verify/receipt": ("session-id", "state"),
    }
)
"""The topics of events, each with the keys that its data must have."""

OWN_TOPICS = frozenset(
    topic
    for topic in TOPICS
    if topic.startswith(("terminal/", "verify/", "session/turn-"))
    or topic in ("session/prompted", "session/retrying", "ui/dialog-resolved", "key/wanted")
)
"""Topics that psi does not know. Only clients that name them get them."""


def fault_in_target(params: Mapping[Any, Any]) -> str | None:
    """What is wrong with the session that a request names, whatever its op."""
    value = params.get(Keyword("session-id"))
    kind = PARAMS["session-id"]
    return (
        None
        if value is None or kind.holds(value)
        else f"invalid request parameter :session-id: {kind.wanted}"
    )


_OWN_WORDS = {
    ("subscribe", "topics"): "subscribe :topics must be sequential",
    ("unsubscribe", "topics"): "unsubscribe :topics must be sequential",
    ("prompt_while_streaming", "behavior"): 'prompt_while_streaming :behavior must be "steer" or "queue"',
}
"""What is said of some parameters instead of the usual."""


def fault_in_params(name: str, op: Op, params: Mapping[Any, Any]) -> str | None:
    """What is wrong with an op's parameters, in the protocol's words, or None. Others may come along."""
    for each in (*op.required, *op.optional):
        value = params.get(Keyword(each))
        if value is None and each not in op.required:
            continue
        kind = PARAMS[each]
        if value is None or not kind.holds(value):
            return _OWN_WORDS.get((name, each), f"invalid request parameter :{each}: {kind.wanted}")
    return None
