"""How a hosted agent's blocks, tool calls and permissions look in a journal and to people. Does no I/O."""

from __future__ import annotations

import msgspec

from ..agent.events import Choice
from ..agent.tools import diff
from ..formats.shown import middle
from ..sessions.questions import ALLOW, ALWAYS, DENY
from ..wire import acp
from .state import OpenCall

MAX_TEXT = 64 * 1024
"""How many characters of what a tool call shows are kept; the middle of more is left out."""
MAX_COMPARED = 256 * 1024
"""How many characters a file may have for its changes to be shown line by line."""
MAX_ARGUMENTS = 64 * 1024
"""How many bytes of JSON a call's arguments may have in the journal."""
_KEPT = "the agent has all"
_NEVER, _OTHER = "never", "other"
_VALUES = {
    "allow_once": ALLOW.value,
    "allow_always": ALWAYS.value,
    "reject_once": DENY.value,
    "reject_always": _NEVER,
}
_PLAIN = {ALWAYS.value: ALLOW.value, _NEVER: DENY.value}


def block_text(block: acp.Block) -> str:
    """A block as text."""
    match block:
        case acp.Text(text=text):
            return text
        case acp.ResourceLink(uri=uri, name=name):
            return f"[{name}]({uri})"
        case acp.EmbeddedResource(resource=resource):
            return resource.text if resource.text is not None else f"[{resource.uri}]"
        case acp.Image(mime_type=kind) | acp.Audio(mime_type=kind):
            return f"[{kind}]"


def take_details(call: OpenCall, details: acp.ToolCall | acp.ToolCallUpdate | acp.ToolCallDetails) -> None:
    """Take in what an agent says of a call; what it does not mention has not changed."""
    call.title = details.title if details.title is not None else call.title
    call.kind = details.kind or call.kind
    call.name = details.name or call.name
    call.status = details.status or call.status
    if details.raw_input is not None:
        call.arguments = _bounded(details.raw_input)
    if details.locations is not None:
        call.paths = tuple(each.path for each in details.locations)
    if details.content is not None:
        texts = [_content_text(each) for each in details.content]
        call.text = middle("\n".join(filter(None, texts)), MAX_TEXT, _KEPT)
        diffs = [_diff(each) for each in details.content if isinstance(each, acp.Diff)]
        call.diff = middle("\n".join(diffs), MAX_TEXT, _KEPT)
        changed = (each.path for each in details.content if isinstance(each, acp.Diff))
        call.paths = call.paths or tuple(dict.fromkeys(changed))
    if details.raw_output is not None and not call.text and not call.diff:
        call.text = middle(_output(details.raw_output), MAX_TEXT, _KEPT)


def _content_text(content: acp.ToolContent) -> str:
    match content:
        case acp.ContentShown(content=block):
            return block_text(block)
        case acp.Diff(path=path):
            return f"{path}:\n{_diff(content)}"
        case acp.TerminalShown(terminal_id=id):
            return f"[terminal {id}]"


def _diff(changed: acp.Diff) -> str:
    old = changed.old_text or ""
    if max(len(old), len(changed.new_text)) > MAX_COMPARED:
        return f"[{len(old)} characters become {len(changed.new_text)}]"
    return diff.between(old, changed.new_text).text


def _bounded(given: object) -> dict[str, object]:
    arguments = given if isinstance(given, dict) else {"input": given}
    if len(encoded := msgspec.json.encode(arguments)) <= MAX_ARGUMENTS:
        return arguments
    return {"input": middle(encoded.decode(), MAX_ARGUMENTS, _KEPT)}


def _output(given: object) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def arguments(call: OpenCall) -> dict[str, object]:
    """A call's arguments as the journal has them, with what the agent calls it first."""
    return {"title": call.title, **call.arguments}


def preview(call: OpenCall) -> str:
    """All of what a call will do, as far as the agent says."""
    lines = [
        f"{name}: {value if isinstance(value, str) else _output(value)}"
        for name, value in call.arguments.items()
    ]
    return "\n".join(filter(None, ["\n".join(lines), call.text]))


def choices(options: tuple[acp.PermissionOption, ...]) -> tuple[Choice, ...]:
    """An agent's options under names that every door knows: there is always one that allows, if the agent
    has any such, and one that denies, if need be by ending the turn."""
    found: list[Choice] = []
    taken: set[str] = set()
    for option in sorted(options, key=lambda each: [*_VALUES, each.kind].index(each.kind)):
        value = _VALUES.get(option.kind, _OTHER)
        if (plain := _PLAIN.get(value, value)) not in taken:
            value = plain
        name, number = value, 2
        while name in taken:
            name, number = f"{value}-{number}", number + 1
        taken.add(name)
        found.append(Choice(name, option.name, option.option_id))
    if DENY.value not in taken:
        found.append(Choice(DENY.value, "Deny, and end the turn", ""))
    return tuple(found)
