"""Content: the blocks that prompts and messages consist of, and what tool calls show.

Kinds, states and reasons are plain strings, as a peer may know more of them; the tuples here list those of
version 1.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ..jsonrpc import MAX_ID
from .base import ENTRIES, Wire

TOOL_KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)
TOOL_STATUSES = ("pending", "in_progress", "completed", "failed")


class Annotations(Wire, frozen=True, kw_only=True):
    """For whom a block is, and how important."""

    audience: tuple[str, ...] | None = None
    last_modified: str | None = None
    priority: float | None = None


# --- blocks -----------------------------------------------------------------------------------------------


class Text(Wire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, usually Markdown."""

    text: str
    annotations: Annotations | None = None


class Image(Wire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image in base64."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


class Audio(Wire, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """Sound in base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Wire, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A file or another resource that the agent can read by itself."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None


class ResourceContents(Wire, frozen=True, kw_only=True):
    """A resource's contents: a text, or bytes in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError(f"the resource {self.uri!r:.200} must have either text or blob")


class EmbeddedResource(Wire, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A resource with its contents."""

    resource: ResourceContents
    annotations: Annotations | None = None


Block = Text | Image | Audio | ResourceLink | EmbeddedResource


# --- tool calls -------------------------------------------------------------------------------------------


class ContentShown(Wire, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A block in a tool call."""

    content: Block


class Diff(Wire, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A file before and after. A new file has no old text."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalShown(Wire, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A terminal that the client runs for the agent."""

    terminal_id: str


ToolContent = ContentShown | Diff | TerminalShown


class Location(Wire, frozen=True, kw_only=True):
    """Where in the project a tool call works."""

    path: str
    line: int | None = None


class _Tool(Wire, frozen=True, kw_only=True):
    """What a tool call is and how far it is. In an update, a field that is None has not changed."""

    tool_call_id: Annotated[str, msgspec.Meta(max_length=MAX_ID)]
    kind: str | None = None
    status: str | None = None
    name: str | None = None
    content: Annotated[tuple[ToolContent, ...], ENTRIES] | None = None
    locations: Annotated[tuple[Location, ...], ENTRIES] | None = None
    raw_input: Any = None
    raw_output: Any = None


class ToolCallDetails(_Tool, frozen=True, kw_only=True):
    """The tool call that a permission is about."""

    title: str | None = None


class ToolCall(_Tool, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    """A tool call begins. Without a kind it is `other`, without a status `pending`."""

    title: str


class ToolCallUpdate(_Tool, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """What has changed in a tool call."""

    title: str | None = None


# --- modes and options ------------------------------------------------------------------------------------


class Mode(Wire, frozen=True, kw_only=True):
    """A mode that a session can be in."""

    id: str
    name: str
    description: str | None = None


class Modes(Wire, frozen=True, kw_only=True):
    """A session's modes, and the current one."""

    current_mode_id: str
    available_modes: Annotated[tuple[Mode, ...], ENTRIES]


class ModelEntry(Wire, frozen=True, kw_only=True):
    """A model that an agent can use."""

    model_id: str
    name: str = ""
    description: str | None = None


class Models(Wire, frozen=True, kw_only=True):
    """A session's models, and the current one: how agents told them before there were config options."""

    current_model_id: str
    available_models: Annotated[tuple[ModelEntry, ...], ENTRIES]


class ConfigValue(Wire, frozen=True, kw_only=True):
    """A value of an option."""

    value: str
    name: str
    description: str | None = None


class ConfigChoice(Wire, frozen=True, kw_only=True):
    """A value of an option; or, with `group`, a heading and the values below it."""

    name: str
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: Annotated[tuple[ConfigValue, ...], ENTRIES] | None = None


class ConfigOption(Wire, frozen=True, kw_only=True):
    """Something that can be set in a session: its model, its mode, how much it thinks."""

    id: str
    name: str
    type: str
    """`select` or `boolean`."""
    current_value: str | bool
    options: Annotated[tuple[ConfigChoice, ...], ENTRIES] = ()
    description: str | None = None
    category: str | None = None
