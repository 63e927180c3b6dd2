"""What each role may ask of the daemon. It is the one place where that is decided; parameters that name
another session than a share's are refused here, too."""

from __future__ import annotations

from typing import Any

from ..wire.rpc_catalog import OPS, PARAMS
from .access import AccessRefused, Share, Visitor
from .shared import session_named

NOT_OVER_HTTP = frozenset(
    (
        # of a connection, which pages don't have
        *("handshake", "cancel", "subscribe", "unsubscribe", "switch_session", "new_session"),
        # of the daemon: a console that ends what it shows, or says what it runs, is none
        *("daemon_stop", "daemon_restart"),
        # keys of models, which no page needs to see
        *("lend_key", "login_begin", "login_complete"),
        # of agents and their hooks
        *("terminal_turn", "terminal_permission", "ask_person", "caller", "agent_programs"),
        # answers to what only a connection is asked
        *("frontend_action_result",),
    )
)

_WATCHES = frozenset(
    (
        *(
            "ping",
            "session_list",
            "session_find",
            "session_state",
            "session_lines",
            "session_diff",
            "timeline",
        ),
        *("terminal_screen", "terminal_lines", "terminal_search", "approvals"),
        *("verify_reports", "verify_report"),
        *("prompt_receipt", "prompt_receipts", "get_view", "get_state", "get_messages", "get_session_stats"),
        "get_last_assistant_text",
    )
)
_WRITES = _WATCHES | frozenset(
    (
        *("terminal_send", "terminal_resize", "session_prompt", "session_seen", "prompt_withdraw"),
        *("prompt", "prompt_while_streaming", "steer", "follow_up", "say", "interrupt", "abort"),
        "approval_settle",
    )
)
_ALL = frozenset(OPS) - NOT_OVER_HTTP
_READS = frozenset(name for name in _ALL if OPS[name].reads)
_ANSWERS = _READS | {"approval_settle", "approval_seen", "session_seen"}

OPS_OF: dict[str, frozenset[str]] = {
    "owner": _ALL,
    "writer": _WRITES,
    "watcher": _WATCHES,
    "reader": _READS,
    "answerer": _ANSWERS,
}
"""The ops of each role."""

_OTHERS = ("other", "into", "path", "follower", "owner", "env", "cwd", "project", "hosts")
"""Parameters that lead out of the one session of a share."""


def may_write(visitor: Visitor) -> bool:
    """True if this visitor may take the pen of a terminal."""
    return visitor.role in ("owner", "writer")


def check_op(visitor: Visitor, op: str) -> None:
    """Raise AccessRefused if a visitor may not ask this at all, whatever the parameters are."""
    if op not in OPS or op in NOT_OVER_HTTP:
        raise AccessRefused(f"no op {op!r:.60} over HTTP", "request/not-found", 404)
    if op not in OPS_OF[visitor.role]:
        raise AccessRefused(f"the role {visitor.role} does not allow {op}", "web/role")


def given_to(visitor: Visitor, op: str, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with which an op may be asked. Names have underscores afterwards.
    Raises AccessRefused."""
    check_op(visitor, op)
    entry = OPS[op]
    known = (*entry.required, *entry.optional)
    given = {name.replace("_", "-"): value for name, value in params.items() if value is not None}
    if "ui-action" in given:
        given["ui/action"] = given.pop("ui-action")
    if unknown := given.keys() - set(known):
        raise AccessRefused(f"{op} takes no parameter {min(unknown)!r:.60}", "request/invalid-params", 400)
    for name, value in given.items():
        if PARAMS[name].type == "int" and type(value) is float and value.is_integer():
            given[name] = int(value)  # to JSON 80 and 80.0 are the same number
    if visitor.share is not None:
        _bind(visitor.share, op, given, known)
    return {name.replace("-", "_"): value for name, value in given.items()}


def _bind(share: Share, op: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    """Make the op one about the session that is shared."""
    for name in ("name", "session-id"):
        if name in given:
            session_named(share, given[name])
    for name in _OTHERS:
        if name in given:
            raise AccessRefused(f"a share may not give {name!r} to {op}", "web/share")
    for name in ("name", "session-id"):
        given.pop(name, None)
    if (of := _kind_of(op, known)) and (of == "terminal") != (share.kind == "terminal"):
        raise AccessRefused(f"{op} is for sessions of another kind", "request/not-found", 404)
    if "session-id" in known:
        given["session-id"] = share.session
    elif "name" in known:
        given["name"] = share.session


def _kind_of(op: str, known: tuple[str, ...]) -> str:
    """The kind of the sessions that an op takes if it takes only one: an id of one kind may be a name of
    another."""
    if op.startswith("terminal_"):
        return "terminal"
    return "agent" if "session-id" in known and "name" not in known and op != "verify_reports" else ""


def is_about(share: Share, data: dict[str, Any]) -> bool:
    """True if an event, a row or a question is about the session of a share. That is of this host: what
    comes of others says so, however their sessions are called."""
    if data.get("host"):
        return False
    about = data.get("session_id") or data.get("name")
    return about == share.session


NOT_FOUND = "request/not-found"
_NAMES_OTHERS = frozenset(("approvals", "approval_settle", "verify_report"))
"""Ops of shares whose parameters name something of any session, and so their errors, too."""


def not_here() -> AccessRefused:
    """The one answer for a share to all that is not of its session: it is the same for what is of another one
    and for what there is not, so it tells nothing of others."""
    return AccessRefused("there is no such thing in the session of this link", NOT_FOUND, 404)


def error_for(visitor: Visitor, op: str, code: str, message: str) -> str:
    """What a visitor is told of an error of the daemon, whose own words may name other sessions, their
    questions and who answered those."""
    if visitor.share is None:
        return message
    if code == NOT_FOUND:
        return str(not_here())
    return "this was refused" if op in _NAMES_OTHERS else message


def seen_by(visitor: Visitor, op: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that a visitor may see. Raises AccessRefused if there is none."""
    share = visitor.share
    if share is None:
        return answer
    match op:
        case "session_list":
            rows = [each for each in answer.get("sessions") or () if each.get("id") == share.session]
            return {"sessions": rows, "questions": 0}
        case "approvals":
            rows = [each for each in answer.get("approvals") or () if is_about(share, each)]
            return {"approvals": rows}
        case "verify_report":
            if not is_about(share, answer.get("report") or {}):
                raise not_here()
        case "session_find":
            if (answer.get("session") or {}).get("id") != share.session:
                raise not_here()
            return {"session": answer["session"], "others": []}
    return answer
