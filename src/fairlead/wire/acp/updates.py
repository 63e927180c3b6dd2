"""What an agent reports while it works: the kinds of `session/update`.

A kind that is not known here, or an update that can't be read, is an `OtherUpdate` with its data as they are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .base import ENTRIES, SessionId, Wire
from .content import Block, ConfigOption, ToolCall, ToolCallUpdate

KIND = "sessionUpdate"
"""The field that says an update's kind."""


class UserMessageChunk(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="user_message_chunk"):
    """A piece of what the user said: when a session is loaded."""

    content: Block
    message_id: str | None = None


class AgentMessageChunk(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="agent_message_chunk"):
    """A piece of the agent's answer."""

    content: Block
    message_id: str | None = None


class AgentThoughtChunk(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="agent_thought_chunk"):
    """A piece of the agent's thinking."""

    content: Block
    message_id: str | None = None


class PlanEntry(Wire, frozen=True, kw_only=True):
    """A step of a plan. Priorities are high, medium, low; states pending, in_progress, completed."""

    content: str
    priority: str
    status: str


class Plan(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="plan"):
    """The agent's whole plan; it replaces the one before."""

    entries: Annotated[tuple[PlanEntry, ...], ENTRIES]


class CommandInput(Wire, frozen=True, kw_only=True):
    """What to type after a command's name."""

    hint: str


class AvailableCommand(Wire, frozen=True, kw_only=True):
    """A slash command of the agent."""

    name: str
    description: str
    input: CommandInput | None = None


class AvailableCommands(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="available_commands_update"):
    """The agent's slash commands."""

    available_commands: Annotated[tuple[AvailableCommand, ...], ENTRIES]


class CurrentMode(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="current_mode_update"):
    """The session's mode has changed."""

    current_mode_id: str


class ConfigOptionsChanged(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="config_option_update"):
    """The session's options, all of them."""

    config_options: Annotated[tuple[ConfigOption, ...], ENTRIES]


class SessionInfoChanged(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="session_info_update"):
    """The session's title and time. A None clears it, UNSET leaves it as it is."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str | msgspec.UnsetType | None = msgspec.UNSET


class Cost(Wire, frozen=True, kw_only=True):
    """What a session has cost, in a currency of ISO 4217."""

    amount: float
    currency: str


class UsageChanged(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="usage_update"):
    """How many tokens of the context are used, of how many."""

    used: int
    size: int
    cost: Cost | None = None


class AgentNotice(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="notice"):
    """Something a person should know. Severities are info, warning, error."""

    severity: str
    title: str
    description: str | None = None


class CompactionChanged(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="compaction_update"):
    """The agent summarizes its context, or has done it."""

    compaction_id: str
    status: str
    summary: Annotated[tuple[Block, ...], ENTRIES] | None = None
    error: str | None = None


class CompactionSummaryChunk(Wire, frozen=True, kw_only=True, tag_field=KIND, tag="compaction_summary_chunk"):
    """A piece of such a summary."""

    compaction_id: str
    content: Block


KnownUpdate = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommands
    | CurrentMode
    | ConfigOptionsChanged
    | SessionInfoChanged
    | UsageChanged
    | AgentNotice
    | CompactionChanged
    | CompactionSummaryChunk
)


class OtherUpdate(msgspec.Struct, frozen=True):
    """An update of another kind, or one that can't be read as its kind."""

    kind: str
    data: dict[str, Any]
    """The whole update."""
    fault: str = ""
    """Why an update of a known kind can't be read."""


class SessionUpdate(Wire, frozen=True, kw_only=True):
    """The parameters of `session/update`."""

    session_id: SessionId
    update: KnownUpdate | OtherUpdate
