"""What a hosted session must know in the middle of a turn, as the keeper of its agent's pipes keeps it.

The journal has whole messages; this has the rest: the state of the connection, the lines that the agent has
not been told for certain, and the half of a message, the calls and the questions that are open.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from ..wire import acp

VERSION = 1
"""Another daemon's state of another version is not read: the agent is started again then."""


class OpenCall(Struct):
    """A tool call of the agent that has not ended."""

    id: str
    """Ours, which is unique in the journal."""
    title: str
    kind: str = "other"
    name: str | None = None
    status: str = "pending"
    arguments: dict[str, Any] = {}
    has_more_arguments: bool = False
    text: str = ""
    """What it shows."""
    has_more_text: bool = False
    diff: str = ""
    paths: tuple[str, ...] = ()
    is_taken: bool = False
    """Whether it is in the journal."""
    is_running: bool = False
    """Whether it is told that it runs."""
    is_titled: bool = False
    """Whether it is told what it would do."""

    @property
    def tool(self) -> str:
        """What kind of tool it is, in a word."""
        return self.name or self.kind


class Work(Struct):
    """What the agent does, and how it is set."""

    session: str = ""
    """The agent's own session id, once that is open."""
    is_asked_to_open: bool = False
    """Whether resuming an earlier session was tried."""
    is_configured: bool = False
    is_replaying: bool = False
    """From when a session is loaded until something is said there, the agent repeats what was said before,
    which is in the journal already."""
    said: str = ""
    """The journal's entry up to which the agent was told what people said."""
    stopping: str = ""
    """How the turn will have ended, if a person wants it to end: `aborted` or `interrupted`."""
    pieces: list[tuple[bool, str]] = []
    """What the agent says and is in no journal yet: whether it is thought, and the text."""
    held: str = ""
    """What it says and may be the beginning of a secret,"""
    holds_thought: bool = False
    """which it thinks, or says."""
    aside: int = 0
    """How many bytes it has said since the last turn."""
    calls: dict[str, OpenCall] = {}
    """By the agent's own ids."""
    asked: dict[str, acp.Id] = {}
    """The agent's requests for permission, by the ids of our questions."""
    groups: list[int] = []
    """The process groups that its program had when its session was open; others work in the background."""
    modes: acp.Modes | None = None
    options: tuple[acp.ConfigOption, ...] = ()
    commands: tuple[acp.AvailableCommand, ...] = ()
    shown_plan: str = ""
    plans: int = 0
    """How much the plans of this turn were, in characters."""
    used: int = 0
    window: int = 0
    cost: float = 0.0
    """What the agent said last that its session has cost, in dollars."""
    spent: float = 0.0
    """How much of that is in no message yet."""


class KeptState(Struct, omit_defaults=True):
    """All of it."""

    version: int
    connection: acp.Saved
    sequence: int
    """The number of the last line for the agent."""
    unsent: list[tuple[int, bytes]] = field(default_factory=list)
    """Lines that the keeper may not have got, with their numbers."""
    is_skipping: bool = False
    """Whether what comes up to the next newline is the rest of a line that was too long."""
    work: Work = field(default_factory=Work)
    originals: dict[str, str] = field(default_factory=dict)
    """The agent's ids that have secrets in them, by the names that we use instead."""


_decode = msgspec.msgpack.Decoder(KeptState).decode
encode = msgspec.msgpack.Encoder().encode


def decode(blob: bytes) -> KeptState | None:
    """The state that was kept, or None if another version of this program has written it."""
    try:
        kept = _decode(blob)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return kept if kept.version == VERSION else None
