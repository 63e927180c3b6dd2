"""Who may send what, and what must have happened before: the protocol as a table.

A method that is not in the table does not exist. A request that its side may not send, or not yet, is
refused with the error that a `Refusal` has; a notification is ignored. The same table governs what we send,
where a breach is a LocalError.
"""

from __future__ import annotations

from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec

from ..jsonrpc import ErrorCode
from . import messages as m
from .base import Wire
from .content import Audio, EmbeddedResource, Image
from .updates import SessionUpdate


class Side(Enum):
    """The two ends."""

    CLIENT = "client"
    AGENT = "agent"


class Before(Enum):
    """What must have happened before a method may be used."""

    NOTHING = "the connection is new"
    READY = "initialize was answered"
    KNOWN = "the session exists, or is being opened"
    OPEN = "the session exists"
    IDLE = "the session exists, and has no prompt that is unanswered"


class Effect(Enum):
    """What a method does to the sessions of a connection."""

    NONE = "nothing"
    CREATES = "its result names a new session"
    OPENS = "its result opens the session that it names"
    CLOSES = "its result closes the session that it names"


class Method(msgspec.Struct, frozen=True):
    """A line of the table."""

    name: str
    sender: Side | None
    """None: both sides may send it."""
    params: type[Wire]
    result: type[Wire] | None
    """None: it is a notification."""
    before: Before
    capability: str = ""
    """What the receiver must have offered in `initialize`."""
    effect: Effect = Effect.NONE


_CLIENT, _AGENT = Side.CLIENT, Side.AGENT
_READY, _KNOWN, _OPEN = Before.READY, Before.KNOWN, Before.OPEN
_LOAD = "load_session"
_LIST, _CLOSE = "session_capabilities.list", "session_capabilities.close"
_RESUME, _DELETE = "session_capabilities.resume", "session_capabilities.delete"

_TABLE = (
    Method("initialize", _CLIENT, m.Initialize, m.InitializeResult, Before.NOTHING),
    Method("authenticate", _CLIENT, m.Authenticate, m.Empty, _READY),
    Method("logout", _CLIENT, m.Logout, m.Empty, _READY, "auth.logout"),
    Method("session/new", _CLIENT, m.NewSession, m.NewSessionResult, _READY, "", Effect.CREATES),
    Method("session/load", _CLIENT, m.LoadSession, m.OpenSessionResult, _READY, _LOAD, Effect.OPENS),
    Method("session/resume", _CLIENT, m.ResumeSession, m.OpenSessionResult, _READY, _RESUME, Effect.OPENS),
    Method("session/list", _CLIENT, m.ListSessions, m.ListSessionsResult, _READY, _LIST),
    Method("session/close", _CLIENT, m.CloseSession, m.Empty, _OPEN, _CLOSE, Effect.CLOSES),
    Method("session/delete", _CLIENT, m.DeleteSession, m.Empty, _READY, _DELETE, Effect.CLOSES),
    Method("session/set_mode", _CLIENT, m.SetMode, m.Empty, _OPEN),
    Method("session/set_model", _CLIENT, m.SetModel, m.Empty, _OPEN),
    Method("session/set_config_option", _CLIENT, m.SetConfigOption, m.SetConfigOptionResult, _OPEN),
    Method("session/prompt", _CLIENT, m.Prompt, m.PromptResult, Before.IDLE),
    Method("session/cancel", _CLIENT, m.Cancel, None, _KNOWN),
    Method("session/update", _AGENT, SessionUpdate, None, _KNOWN),
    Method("session/request_permission", _AGENT, m.RequestPermission, m.PermissionResult, _KNOWN),
    Method("elicitation/create", _AGENT, m.Elicit, m.ElicitResult, _KNOWN, "elicitation"),
    Method("elicitation/complete", _AGENT, m.ElicitComplete, None, _READY, "elicitation"),
    Method("fs/read_text_file", _AGENT, m.ReadTextFile, m.ReadTextFileResult, _KNOWN, "fs.read_text_file"),
    Method("fs/write_text_file", _AGENT, m.WriteTextFile, m.Empty, _KNOWN, "fs.write_text_file"),
    Method("terminal/create", _AGENT, m.CreateTerminal, m.CreateTerminalResult, _KNOWN, "terminal"),
    Method("terminal/output", _AGENT, m.TerminalOutput, m.TerminalOutputResult, _KNOWN, "terminal"),
    Method("terminal/wait_for_exit", _AGENT, m.WaitForTerminalExit, m.TerminalExit, _KNOWN, "terminal"),
    Method("terminal/kill", _AGENT, m.KillTerminal, m.Empty, _KNOWN, "terminal"),
    Method("terminal/release", _AGENT, m.ReleaseTerminal, m.Empty, _KNOWN, "terminal"),
    Method("$/cancel_request", None, m.CancelRequest, None, _READY),
)
METHODS = {method.name: method for method in _TABLE}
METHOD_OF: dict[type, Method] = {method.params: method for method in _TABLE}
"""The method that has parameters of a type."""


class Refusal(msgspec.Struct, frozen=True):
    """Why something may not be sent, and the code of the error that says so."""

    code: ErrorCode
    reason: str


def direction(method: Method, sender: Side) -> Refusal | None:
    """Whether this side may send it at all."""
    if method.sender in (None, sender):
        return None
    return Refusal(ErrorCode.METHOD_NOT_FOUND, f"{method.name} is not for the {sender.value} to send")


def offered(method: Method, by: m.ClientCapabilities | m.AgentCapabilities | None) -> Refusal | None:
    """Whether the receiver offered the capability that a method needs."""
    if not method.capability or (by is not None and _has(by, method.capability)):
        return None
    return Refusal(ErrorCode.METHOD_NOT_FOUND, f"{method.name} was not offered ({method.capability})")


def _has(capabilities: Any, path: str) -> bool:
    return attrgetter(path)(capabilities) not in (None, False)


_BLOCKS = {Image: "image", Audio: "audio", EmbeddedResource: "embedded_context"}


def content_offered(params: Wire, by: m.AgentCapabilities) -> Refusal | None:
    """Whether the agent offered to take what is in a prompt, or in a session's setup."""
    reason = None
    if isinstance(params, m.Prompt):
        kinds = {_BLOCKS[type(block)] for block in params.prompt if type(block) in _BLOCKS}
        for kind in sorted(kinds):
            if not getattr(by.prompt_capabilities, kind):
                reason = f"the agent did not offer to take {kind} in prompts"
    elif isinstance(params, m.NewSession | m.LoadSession | m.ResumeSession):
        for server in params.mcp_servers:
            if server.type in ("http", "sse") and not getattr(by.mcp_capabilities, server.type):
                reason = f"the agent did not offer to use MCP servers over {server.type}"
        if params.additional_directories and by.session_capabilities.additional_directories is None:
            reason = "the agent did not offer to take additional directories"
    return Refusal(ErrorCode.INVALID_PARAMS, reason) if reason else None
