"""What the tools of `fairlead mcp` take and give, as types: their JSON schemas and checks come from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ...formats.shown import visible
from ...sessions.session import PromptStage

MAX_TIMEOUT = 86_400.0
MAX_NAME = 200
MAX_TEXT = 16_384
"""How many characters a question or a notification may have."""
MAX_PROMPT = 1024 * 1024
"""How many characters a prompt may have."""
MAX_WORDS, MAX_WORD = 1000, 65_536
"""How many words a command may have, and how many characters each of them."""
MAX_LINES = 2000
MAX_REPORTS = 100
MAX_CHOICES, MAX_CHOICE = 9, 200

Session = Annotated[
    str, Meta(min_length=1, max_length=MAX_NAME, description="its name, id, or prefix of its id")
]
Timeout = Annotated[float, Meta(gt=0, le=MAX_TIMEOUT, description="seconds to wait at the most")]


# --- what they take ---------------------------------------------------------------------------------------


class McpArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class ListSessionsArguments(McpArguments, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["terminal", "agent", "hosted"] | None, Meta(description="only those of a kind")
    ] = None


class StartArguments(McpArguments, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(min_length=1, max_length=MAX_NAME, description="a name that no other session has")
    ]
    command: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_WORD)], ...],
        Meta(
            max_length=MAX_WORDS, description="for a terminal: the program and its arguments, one word each"
        ),
    ] = ()
    agent: Annotated[
        str,
        Meta(
            max_length=MAX_NAME,
            description="for a conversation: `own` for Fairlead's own agent, or the name of a "
            "third-party agent: claude, codex, gemini or opencode",
        ),
    ] = ""
    directory: Annotated[
        str, Meta(max_length=4096, description="where it works; without it, the project's directory")
    ] = ""
    sandbox: Annotated[
        Literal[True] | None,
        Meta(
            description="for a third-party agent: it can write only in that directory; a sandbox that is "
            "configured can't be switched off"
        ),
    ] = None


class ReadSessionArguments(McpArguments, frozen=True, kw_only=True):
    session: Session
    what: Annotated[
        Literal["screen", "lines"],
        Meta(description="a terminal's screen as it is now, or the last lines that were printed or said"),
    ] = "lines"
    lines: Annotated[int, Meta(ge=1, le=MAX_LINES, description="how many lines at the most")] = 200


class PromptArguments(McpArguments, frozen=True, kw_only=True):
    session: Session
    text: Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT)]
    wait: Annotated[bool, Meta(description="wait until an agent has ended its turn")] = True
    timeout: Timeout = 600.0


class WaitArguments(McpArguments, frozen=True, kw_only=True):
    session: Session
    prompt_id: Annotated[
        str, Meta(max_length=MAX_NAME, description="wait for the end of this prompt, and get its receipt")
    ] = ""
    text: Annotated[str, Meta(max_length=1000, description="wait until a terminal's screen shows this")] = ""
    timeout: Timeout = 600.0


class ReportArguments(McpArguments, frozen=True, kw_only=True):
    session: Session
    limit: Annotated[int, Meta(ge=1, le=MAX_REPORTS)] = 10


class NotifyArguments(McpArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    title: Annotated[str, Meta(max_length=MAX_NAME)] = ""


class AskArguments(McpArguments, frozen=True, kw_only=True):
    question: Annotated[
        str, Meta(min_length=1, max_length=MAX_TEXT, description="all that a person needs to know")
    ]
    title: Annotated[str, Meta(max_length=MAX_NAME, description="what it is about, in a few words")] = ""
    options: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=MAX_CHOICE)], ...],
        Meta(max_length=MAX_CHOICES, description="the answers to choose from; without them, any text"),
    ] = ()
    timeout: Timeout = MAX_TIMEOUT


# --- what they give ---------------------------------------------------------------------------------------


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool gives. Without a text of its own its caller reads it as JSON."""

    @property
    def shown(self) -> str:
        return msgspec.json.encode(self.plain).decode()

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data in which nothing is invisible."""
        plain: dict[str, Any] = _visible(msgspec.to_builtins(self))
        return plain


class SessionShown(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    kind: str
    project: str
    state: str
    what: str = ""
    agent: str = ""
    """The maker's agent that it is with, if it is hosted."""
    waits_for: str = ""
    """The oldest question that it asks a person."""
    verdict: str = ""
    """The confidence of the last report on its last turn."""
    exit_code: int | None = None
    is_yours: bool = False
    """Whether it is the session of who asks."""


class SessionsListed(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    project: str
    sessions: tuple[SessionShown, ...]


class SessionStarted(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    session: SessionShown


class TextRead(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    session: str
    state: str
    text: str
    is_cut: bool = False
    """Whether there was more before."""

    @property
    def shown(self) -> str:
        return visible(self.text)


class PromptTaken(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    session: str
    state: PromptStage
    prompt_id: str = ""
    written: float = 0.0
    """When it got so far, in seconds since 1970."""
    accepted: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    place: int = 0
    outcome: str = ""
    reason: str = ""
    answer: str = ""


class SessionWaited(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    session: str
    matched: bool
    """False if the time was over first."""
    reason: str
    outcome: str = ""
    exit_code: int | None = None


class ReportShown(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    turn: int
    status: str
    confidence: str
    summary: str
    verifier: str
    time: float
    stale: bool = False


class ReportsRead(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    session: str
    reports: tuple[ReportShown, ...]


class UserNotified(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    sent: bool


class PersonAnswered(ToolOutput, frozen=True, kw_only=True, omit_defaults=True):
    answered: bool
    """False if a person declined to answer, or nobody answered in time."""
    answer: str = ""
    option: int = 0
    """The number of the option that was chosen, from 1."""
    reason: str = ""


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a type, an object at its root."""
    [_], parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema = parts.pop(kind.__name__)
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema
