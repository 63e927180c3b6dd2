"""The parameters and results of the protocol's methods, except updates.

A method's parameters have a type of their own, so the type of the parameters names the method (see `rules`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from ..jsonrpc import MAX_ID, Id
from .base import ENTRIES, SessionId, Wire
from .content import Block, ConfigOption, Models, Modes, ToolCallDetails
from .limits import MAX_OPTIONS

VERSION = 1
"""The version of the protocol that is spoken here."""
STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")

Offered = dict[str, Any] | None
"""A capability that is offered if it is there, be it empty."""


class Empty(Wire, frozen=True, kw_only=True):
    """A result that says no more than that it worked."""


# --- initialize, authenticate ------------------------------------------------------------------------------


class Implementation(Wire, frozen=True, kw_only=True):
    """A program's name and version."""

    name: str
    version: str
    title: str | None = None


class FsCapabilities(Wire, frozen=True, kw_only=True):
    """Which file methods a client serves."""

    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Wire, frozen=True, kw_only=True):
    """What a client offers to an agent."""

    fs: FsCapabilities = FsCapabilities()
    terminal: bool = False
    session: Offered = None
    auth: Offered = None
    elicitation: Offered = None


class PromptCapabilities(Wire, frozen=True, kw_only=True):
    """Which blocks besides text and links a prompt may have."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Wire, frozen=True, kw_only=True):
    """Which MCP servers besides those on stdio the agent can use."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(Wire, frozen=True, kw_only=True):
    """Which methods for sessions the agent has."""

    list: Offered = None
    delete: Offered = None
    resume: Offered = None
    close: Offered = None
    additional_directories: Offered = None


class AuthCapabilities(Wire, frozen=True, kw_only=True):
    """Whether the agent can log out."""

    logout: Offered = None


class AgentCapabilities(Wire, frozen=True, kw_only=True):
    """What an agent offers."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AuthCapabilities = AuthCapabilities()


class AuthMethod(Wire, frozen=True, kw_only=True):
    """A way to log in. With the type `terminal` the agent is started in one, with these arguments."""

    id: str
    name: str
    description: str | None = None
    type: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None


class Initialize(Wire, frozen=True, kw_only=True):
    """The parameters of `initialize`."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class InitializeResult(Wire, frozen=True, kw_only=True):
    """The version that the agent wants to speak, and what it can do."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: tuple[AuthMethod, ...] = ()
    agent_info: Implementation | None = None


class Authenticate(Wire, frozen=True, kw_only=True):
    """The parameters of `authenticate`."""

    method_id: str


class Logout(Wire, frozen=True, kw_only=True):
    """The parameters of `logout`."""


# --- sessions ---------------------------------------------------------------------------------------------


class NamedValue(Wire, frozen=True, kw_only=True):
    """A variable of an environment, or a header."""

    name: str
    value: str


class McpServer(Wire, frozen=True, kw_only=True):
    """An MCP server: a command, or with a type `http` or `sse` a URL."""

    strict: ClassVar[bool] = True
    name: str
    type: str | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[NamedValue, ...] | None = None
    url: str | None = None
    headers: tuple[NamedValue, ...] | None = None

    def __post_init__(self) -> None:
        wanted = "command" if self.type in (None, "stdio") else "url"
        if getattr(self, wanted) is None:
            raise ValueError(f"the MCP server {self.name!r:.200} must have a {wanted}")


class NewSession(Wire, frozen=True, kw_only=True):
    """The parameters of `session/new`."""

    strict: ClassVar[bool] = True
    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], ENTRIES]
    additional_directories: tuple[str, ...] = ()


class NewSessionResult(Wire, frozen=True, kw_only=True):
    """The session that was made."""

    session_id: SessionId
    modes: Modes | None = None
    models: Models | None = None
    config_options: Annotated[tuple[ConfigOption, ...], ENTRIES] | None = None


class LoadSession(Wire, frozen=True, kw_only=True):
    """The parameters of `session/load`: the conversation is replayed before the result comes."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], ENTRIES]
    additional_directories: tuple[str, ...] = ()


class ResumeSession(Wire, frozen=True, kw_only=True):
    """The parameters of `session/resume`: as `session/load`, without a replay."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    cwd: str
    mcp_servers: Annotated[tuple[McpServer, ...], ENTRIES] = ()
    additional_directories: tuple[str, ...] = ()


class OpenSessionResult(Wire, frozen=True, kw_only=True):
    """The result of `session/load` and `session/resume`."""

    modes: Modes | None = None
    models: Models | None = None
    config_options: Annotated[tuple[ConfigOption, ...], ENTRIES] | None = None


class ListSessions(Wire, frozen=True, kw_only=True):
    """The parameters of `session/list`."""

    strict: ClassVar[bool] = True
    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Wire, frozen=True, kw_only=True):
    """A session in a list."""

    session_id: SessionId
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResult(Wire, frozen=True, kw_only=True):
    """Sessions, and where the next page begins."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class CloseSession(Wire, frozen=True, kw_only=True):
    """The parameters of `session/close`."""

    session_id: SessionId


class DeleteSession(Wire, frozen=True, kw_only=True):
    """The parameters of `session/delete`."""

    session_id: SessionId


class SetMode(Wire, frozen=True, kw_only=True):
    """The parameters of `session/set_mode`."""

    session_id: SessionId
    mode_id: str


class SetModel(Wire, frozen=True, kw_only=True):
    """The parameters of `session/set_model`, for agents whose models are no config option."""

    session_id: SessionId
    model_id: str


class SetConfigOption(Wire, frozen=True, kw_only=True):
    """The parameters of `session/set_config_option`."""

    session_id: SessionId
    config_id: str
    value: str | bool
    type: str | None = None
    """`boolean` if the value is one."""


class SetConfigOptionResult(Wire, frozen=True, kw_only=True):
    """All options with their values now."""

    config_options: Annotated[tuple[ConfigOption, ...], ENTRIES]


class Prompt(Wire, frozen=True, kw_only=True):
    """The parameters of `session/prompt`."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    prompt: Annotated[tuple[Block, ...], ENTRIES]


class Usage(Wire, frozen=True, kw_only=True):
    """The tokens of a turn."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResult(Wire, frozen=True, kw_only=True):
    """Why the turn ended."""

    stop_reason: str
    usage: Usage | None = None


class Cancel(Wire, frozen=True, kw_only=True):
    """The parameters of `session/cancel`."""

    session_id: SessionId


class CancelRequest(Wire, frozen=True, kw_only=True):
    """The parameters of `$/cancel_request`: the sender no longer wants an answer to its request."""

    request_id: Id


# --- what an agent asks for --------------------------------------------------------------------------------


class PermissionOption(Wire, frozen=True, kw_only=True):
    """An answer that a person can choose."""

    option_id: Annotated[str, msgspec.Meta(max_length=MAX_ID)]
    name: str
    kind: str


class RequestPermission(Wire, frozen=True, kw_only=True):
    """The parameters of `session/request_permission`."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    tool_call: ToolCallDetails
    options: Annotated[tuple[PermissionOption, ...], msgspec.Meta(max_length=MAX_OPTIONS)]

    def __post_init__(self) -> None:
        if len({each.option_id for each in self.options}) < len(self.options):
            raise ValueError("each option must have an id of its own")


class Selected(Wire, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    """A person chose this option."""

    option_id: str


class Cancelled(Wire, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before anybody chose."""


class PermissionResult(Wire, frozen=True, kw_only=True):
    """The answer to a permission."""

    outcome: Selected | Cancelled


class Elicit(Wire, frozen=True, kw_only=True):
    """The parameters of `elicitation/create`: fill in a form, or visit a URL."""

    mode: str
    message: str
    session_id: SessionId | None = None
    tool_call_id: str | None = None
    request_id: Id | None = None
    requested_schema: Any = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitResult(Wire, frozen=True, kw_only=True):
    """What the person did: accept, decline or cancel."""

    action: str
    content: dict[str, Any] | None = None


class ElicitComplete(Wire, frozen=True, kw_only=True):
    """The parameters of `elicitation/complete`."""

    elicitation_id: str


# --- files and terminals of the client ---------------------------------------------------------------------


class ReadTextFile(Wire, frozen=True, kw_only=True):
    """The parameters of `fs/read_text_file`."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResult(Wire, frozen=True, kw_only=True):
    """A file's text."""

    content: str


class WriteTextFile(Wire, frozen=True, kw_only=True):
    """The parameters of `fs/write_text_file`."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    path: str
    content: str


class CreateTerminal(Wire, frozen=True, kw_only=True):
    """The parameters of `terminal/create`."""

    strict: ClassVar[bool] = True
    session_id: SessionId
    command: str
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResult(Wire, frozen=True, kw_only=True):
    """The terminal that was made."""

    terminal_id: str


class TerminalOutput(Wire, frozen=True, kw_only=True):
    """The parameters of `terminal/output`."""

    session_id: SessionId
    terminal_id: str


class TerminalExit(Wire, frozen=True, kw_only=True):
    """How a command ended; the result of `terminal/wait_for_exit`."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResult(Wire, frozen=True, kw_only=True):
    """What a terminal has shown."""

    output: str
    truncated: bool
    exit_status: TerminalExit | None = None


class ReleaseTerminal(Wire, frozen=True, kw_only=True):
    """The parameters of `terminal/release`."""

    session_id: SessionId
    terminal_id: str


class WaitForTerminalExit(Wire, frozen=True, kw_only=True):
    """The parameters of `terminal/wait_for_exit`."""

    session_id: SessionId
    terminal_id: str


class KillTerminal(Wire, frozen=True, kw_only=True):
    """The parameters of `terminal/kill`."""

    session_id: SessionId
    terminal_id: str
