"""How a hosted agent's blocks, tool calls and permissions look in a journal and to people. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..agent.events import Choice
from ..agent.tools import diff
from ..formats.shown import MAX_ANSWER_NAME, fits, middle, one_line, visible
from ..sessions.questions import ALLOW, ALWAYS, DENY
from ..wire import acp
from .state import OpenCall

MAX_TEXT = 120 * 1024
"""How many characters of what a tool call shows are kept; the middle of more is left out. A question must
have room for that and for its arguments (MAX_WHOLE)."""
MAX_COMPARED = 256 * 1024
"""How many characters a file may have for its changes to be shown line by line."""
MAX_ARGUMENTS = 120 * 1024
"""How many bytes of JSON a call's arguments may have in the journal."""
MAX_TITLE = 1000
"""How many characters of a call's title, or of an answer's name, are kept."""
MAX_WORD = 100
"""How many characters a tool's name or kind has at the most."""
MAX_PATHS = 100
"""How many places of a call are kept,"""
MAX_PATH = 4096
"""each with so many characters at the most."""
MAX_DIFFS = 50
"""How many files' changes a call shows line by line."""
MAX_STEPS = 150_000
"""How many steps comparing all files of a call may take, as that is done on the daemon's loop; what is beyond
that is shown as replaced."""
MAX_DEPTH = 50
"""How deeply a call's arguments may be nested in the journal."""
_KEPT = "the agent has all"
_NEVER, _OTHER = "never", "other"
_VALUES = {
    "allow_once": ALLOW.value,
    "allow_always": ALWAYS.value,
    "reject_once": DENY.value,
    "reject_always": _NEVER,
}
_MEANINGS = {
    "allow_once": ("Allow once", "allow", "yes"),
    "allow_always": ("Always allow", "allow always"),
    "reject_once": ("Reject", "deny", "no", "reject once"),
    "reject_always": ("Always reject", "reject always", "never"),
}
"""What a kind of answer does, and other names that say no less."""
_REJECTING = ("reject_once", "reject_always")
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
    if details.title is not None:
        call.title = middle(details.title, MAX_TITLE)
    call.kind = (details.kind or call.kind)[:MAX_WORD]
    call.name = details.name[:MAX_WORD] if details.name else call.name
    call.status = (details.status or call.status)[:MAX_WORD]
    if details.raw_input is not None:
        call.arguments, call.has_more_arguments = _bounded(details.raw_input)
    if details.locations is not None:
        call.paths = tuple(each.path[:MAX_PATH] for each in details.locations[:MAX_PATHS])
    if details.content is not None and not _is_done_change(call, details.content):
        diffs: list[str] = []
        steps = [MAX_STEPS]
        texts = [_content_text(each, diffs, steps) for each in details.content]
        text = "\n".join(filter(None, texts))
        if not details.content or not all(isinstance(each, acp.TerminalShown) for each in details.content):
            call.text, call.has_more_text = middle(text, MAX_TEXT, _KEPT), len(text) > MAX_TEXT
        call.diff = middle("\n".join(diffs), MAX_TEXT, _KEPT)
        changed = (each.path for each in details.content if isinstance(each, acp.Diff))
        call.paths = call.paths or tuple(dict.fromkeys(changed))
    if details.meta is not None:
        call.text = middle(_printed(call.text, details.meta), MAX_TEXT, _KEPT)
    if details.raw_output is not None and not call.text and not call.diff:
        call.text = middle(_output(details.raw_output), MAX_TEXT, _KEPT)


def _is_done_change(call: OpenCall, content: Sequence[acp.ToolContent]) -> bool:
    """True if files have become what a call was to make of them, and no more is said of it: what is known of
    the change stays."""
    if call.status != "completed" or not call.diff or not content:
        return False
    return all(isinstance(each, acp.Diff) and each.old_text == each.new_text for each in content)


def _content_text(content: acp.ToolContent, diffs: list[str], steps: list[int]) -> str:
    """What a part of a call shows; changes of files are added to `diffs` as well. `steps` has what may still
    be compared."""
    match content:
        case acp.ContentShown(content=block):
            return block_text(block)
        case acp.Diff(path=path):
            diffs.append(_diff(content, steps, in_lines=len(diffs) < MAX_DIFFS))
            return f"{path}:\n{diffs[-1]}" if diffs[-1] else ""
        case acp.TerminalShown():
            return ""  # it is the agent's own; what it prints comes in `_meta`


def _printed(shown: str, meta: Mapping[str, object]) -> str:
    """What a call shows with what its terminal printed: agents tell it as a whole, or in pieces."""
    match meta:
        case {"terminal_output": {"data": str(whole)}}:
            return whole
        case {"terminal_output_delta": {"data": str(piece)}}:
            return shown + piece
    return shown


def _diff(changed: acp.Diff, steps: list[int], *, in_lines: bool) -> str:
    old = changed.old_text or ""
    if not in_lines or max(len(old), len(changed.new_text)) > MAX_COMPARED:
        return f"[{len(old)} characters become {len(changed.new_text)}]"
    made = diff.between(old, changed.new_text, max_steps=steps[0])
    steps[0] -= made.steps
    return made.text


def _bounded(given: object) -> tuple[dict[str, object], bool]:
    """A call's arguments, and whether some of them are left out."""
    arguments = given if isinstance(given, dict) else {"input": given}
    is_long = len(encoded := msgspec.json.encode(arguments)) > MAX_ARGUMENTS
    if not is_long and not _is_deep(arguments):
        return arguments, False
    return {"input": middle(encoded.decode(), MAX_ARGUMENTS, _KEPT)}, is_long


def _is_deep(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether something is nested deeper than this. It is small, and no deeper than a line may be."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth == 0 or any(_is_deep(each, depth - 1) for each in inner)


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


def is_whole(call: OpenCall) -> bool:
    """Whether all that a call will do can be shown."""
    return not call.has_more_arguments and not call.has_more_text


def choices(options: tuple[acp.PermissionOption, ...], *, may_allow: bool) -> tuple[Choice, ...]:
    """An agent's options under names that every door knows: there is always one that allows, if the agent
    has any such, it may be and can be shown whole, and one that denies, if need be by ending the turn."""
    found: list[Choice] = []
    taken: set[str] = set()
    if not may_allow:
        options = tuple(each for each in options if each.kind in _REJECTING)
    options = tuple(each for each in options if each.kind in _REJECTING or is_shown_whole(each))
    for option in sorted(options, key=lambda each: [*_VALUES, each.kind].index(each.kind)):
        value = _VALUES.get(option.kind, _OTHER)
        if (plain := _PLAIN.get(value, value)) not in taken:
            value = plain
        name, number = value, 2
        while name in taken:
            name, number = f"{value}-{number}", number + 1
        taken.add(name)
        found.append(Choice(name, one_line(label(option), MAX_ANSWER_NAME), option.option_id))
    if DENY.value not in taken:
        found.append(Choice(DENY.value, "Deny, and end the turn", ""))
    return tuple(found)


def is_shown_whole(option: acp.PermissionOption) -> bool:
    """True if all that an answer's name says can be shown: one that allows more is not offered."""
    return len(option.name) <= 4 * MAX_TITLE and fits(label(option))


def label(option: acp.PermissionOption) -> str:
    """An answer as people see it: what it does, by its kind, and what the agent calls it if that differs."""
    name = visible(" ".join(option.name[: 4 * MAX_TITLE].split()))
    if option.kind not in _MEANINGS:
        return f"{name} (of an unknown kind)"
    return name if _says_kind(name.casefold(), option.kind) else f"{_MEANINGS[option.kind][0]}: {name}"


def _says_kind(name: str, kind: str) -> bool:
    """True if a name begins with what its kind of answer does, and has no word of another kind."""
    means = tuple(each.casefold() for each in _MEANINGS[kind])
    if name in means:
        return True
    begins = any(name.startswith(each) and not name[len(each)].isalnum() for each in means)
    words = {"allow", "yes"} if kind in _REJECTING else {"reject", "deny", "no"}
    words |= set() if kind.endswith("_always") else {"always", "never"}
    return begins and words.isdisjoint(re.findall(r"\w+", name))
