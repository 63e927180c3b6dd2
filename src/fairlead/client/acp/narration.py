"""What an editor is told of a session: its messages and events as updates of ACP, each of them once.

Events are told as they come. When they come again, or a message comes of which pieces were told, what the
editor has already is left out. Does no I/O.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...events import (
    AgentEvent,
    Escalated,
    Message,
    Prompted,
    Reported,
    Retrying,
    Text,
    Thought,
    ToolResult,
    ToolRunning,
    ToolStarted,
    ToolUpdate,
)
from ...formats.shown import middle
from ...wire import acp
from ..pieces import Piece, Speech, pieces_of

MAX_CALLS = 2000
"""Of how many tool calls, the last ones, it is known how far they were told."""
MAX_SHOWN = 64 * 1024
"""How many characters of what a tool shows are told; the middle of more is left out."""
MAX_TITLE = 200
"""How many characters a call's title has."""
_KINDS = {
    "bash": "execute",
    "write": "edit",
    "ls": "search",
    "find": "search",
    "grep": "search",
}
"""Our tools that the protocol calls otherwise."""
_ENDED = ("completed", "failed")
_MARKS = {"[x]": "completed", "[>]": "in_progress", "[ ]": "pending"}
_PLAN = "plan"
_ALL = "the session has all"

Updates = list[acp.KnownUpdate]


class Narration:
    """What was told of one session. `cwd` is where the paths of its tools begin."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._speech = Speech()
        self._calls: dict[str, tuple[str, Sequence[str]]] = {}  # how far calls were told, and their files

    # --- what is being said ---------------------------------------------------------------------------------

    def lose(self) -> None:
        """Events may have been missed: what is being said is not known until `catch_up`."""
        self._speech.lose()

    def catch_up(self, content: Iterable[Mapping[str, Any]]) -> Updates:
        """The message that is being said, as the daemon has it."""
        return list(map(_chunk, self._speech.catch_up(content)))

    def skip(self, content: Iterable[Mapping[str, Any]]) -> None:
        """The same, of which nothing is told but what follows."""
        self._speech.skip(content)

    # --- what was said before -------------------------------------------------------------------------------

    def replay(self, messages: Iterable[Mapping[str, Any]]) -> Updates:
        """Messages of a session as `get_messages` has them."""
        updates: Updates = []
        for each in messages:
            if each["role"] == "user":
                updates += prompted(each)
            elif each["role"] == "assistant":
                updates += map(_chunk, pieces_of(each["content"]).whole)
                if each.get("error_message") and each.get("stop_reason") != "aborted":
                    updates.append(_chunk((False, f"[error] {each['error_message']}")))
                for part in each["content"]:
                    if part["type"] == "tool-call" and part["name"] != _PLAN:
                        updates += self._call(
                            part["id"], part["name"], "pending", part.get("arguments") or {}
                        )
            else:
                texts = (part.get("text") or "" for part in each["content"])
                text, details = "".join(texts), each.get("details") or {}
                updates += self._ended(
                    each["tool_call_id"], each["tool_name"], text, details, is_error=each["is_error"]
                )
        return updates

    # --- what happens ---------------------------------------------------------------------------------------

    def happened(self, event: AgentEvent) -> Updates:
        """An event of the session as updates."""
        match event:
            case Text(text):
                return list(map(_chunk, self._speech.add(False, text)))
            case Thought(text):
                return list(map(_chunk, self._speech.add(True, text)))
            case Message():
                return list(map(_chunk, self._speech.end(event.data.get("content") or ())))
            case Prompted(text):
                return [acp.UserMessageChunk(content=acp.Text(text=text))]
            case ToolStarted(id, name) if name != _PLAN:
                title = (event.data.get("title") or "").removeprefix("$ ")
                if title and self._status(id) == "pending":
                    return [acp.ToolCallUpdate(tool_call_id=id, title=title)]
                return self._call(id, name, "pending", {"title": title} if title else {})
            case ToolRunning(id, name, arguments) if name != _PLAN:
                return self._call(id, name, "in_progress", arguments)
            case ToolUpdate(id, name, text, details):
                return self._updated(id, name, text, details)
            case ToolResult(id, name, text, details, is_error):
                return self._ended(id, name, text, details, is_error=is_error)
            case Retrying():
                self._speech.end()
                return [note(event.line)]
            case Reported(turn, confidence, summary, verifier):
                return [note(f"turn {turn} {confidence} by {verifier or 'a verifier'}: {summary}")]
            case Escalated(_, reason):
                return [note(f"a person is needed: {reason}")]
        return []

    # --- tool calls -----------------------------------------------------------------------------------------

    def asked(self, id: str, name: str, title: str) -> Updates:
        """Somebody is asked about a call, which the editor may not know yet."""
        return [] if id in self._calls else self._call(id, name, "pending", {"title": title})

    def paths_of(self, id: str) -> Sequence[str]:
        """The files that a call works on."""
        return self._calls[id][1] if id in self._calls else ()

    def _note(self, id: str, status: str, paths: Sequence[str] = ()) -> None:
        self._calls[id] = status, paths or self.paths_of(id)
        if len(self._calls) > MAX_CALLS:
            del self._calls[next(iter(self._calls))]

    def _status(self, id: str) -> str | None:
        return self._calls[id][0] if id in self._calls else None

    def _call(self, id: str, name: str, status: str, arguments: Mapping[str, Any]) -> Updates:
        """A call begins, or runs."""
        known, paths = self._status(id), self._paths(arguments, {})
        if known in (status, *_ENDED):
            return []
        self._note(id, status, paths)
        what: dict[str, Any] = {
            "tool_call_id": id,
            "kind": kind_of(name),
            "status": status,
            "locations": tuple(acp.Location(path=path) for path in paths) or None,
            "raw_input": {key: value for key, value in arguments.items() if key != "title"} or None,
        }
        if known is None:
            return [acp.ToolCall(title=title_of(name, arguments), **what)]
        return [acp.ToolCallUpdate(title=title_of(name, arguments) if arguments else None, **what)]

    def _updated(self, id: str, name: str, text: str, details: Mapping[str, Any]) -> Updates:
        if name == _PLAN:
            return [plan_of(text)]
        if self._status(id) in _ENDED:
            return []
        begun = self._call(id, name, "in_progress", {})
        return [*begun, acp.ToolCallUpdate(tool_call_id=id, content=self._content(text, details))]

    def _ended(self, id: str, name: str, text: str, details: Mapping[str, Any], *, is_error: bool) -> Updates:
        if name == _PLAN:
            return [plan_of(text)]
        known, paths = self._status(id), self._paths({}, details)
        if known in _ENDED:
            return []
        status = "failed" if is_error else "completed"
        self._note(id, status, paths)
        what: dict[str, Any] = {
            "tool_call_id": id,
            "status": status,
            "content": self._content(text, details),
            "locations": tuple(acp.Location(path=path) for path in paths) or None,
        }
        if known is None:
            return [acp.ToolCall(title=details.get("title") or name, kind=kind_of(name), **what)]
        return [acp.ToolCallUpdate(**what)]

    def _paths(self, arguments: Mapping[str, Any], details: Mapping[str, Any]) -> list[str]:
        found = [arguments.get("path"), details.get("path"), *(details.get("paths") or ())]
        texts = dict.fromkeys(each for each in found if isinstance(each, str) and each)
        return [os.path.normpath(os.path.join(self._cwd, each)) for each in texts]

    def _content(self, text: str, details: Mapping[str, Any]) -> tuple[acp.ToolContent, ...]:
        return content_of(text, details.get("diff") or "", self._paths({}, details))


def content_of(text: str, diff: str, paths: Sequence[str]) -> tuple[acp.ToolContent, ...]:
    """What a call shows: its changes, if they are of one file, else its text."""
    if diff and len(paths) == 1 and (changes := changes_of(diff, paths[0])):
        return tuple(changes)
    text = middle(text, MAX_SHOWN, _ALL)
    return (acp.ContentShown(content=acp.Text(text=text)),) if text.strip() else ()


def changes_of(diff: str, path: str) -> list[acp.Diff]:
    """The hunks of a diff, each as the lines before and after it."""
    changes = []
    for hunk in f"\n{diff}".split("\n@@ ")[1:]:
        head, *lines = hunk.split("\n")
        old = [line[1:] for line in lines if line[:1] in (" ", "-")]
        new = [line[1:] for line in lines if line[:1] in (" ", "+")]
        is_new = head.startswith("-0,0")
        before = None if is_new else "\n".join([*old, ""])
        changes.append(acp.Diff(path=path, old_text=before, new_text="\n".join([*new, ""])))
    return changes


def kind_of(name: str) -> str:
    """The protocol's word for a tool."""
    kind = _KINDS.get(name, name)
    return kind if kind in acp.TOOL_KINDS else "other"


def title_of(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line."""
    for key in ("title", "command"):
        if isinstance(value := arguments.get(key), str) and value.strip():
            return middle(" ".join(value.split()), MAX_TITLE)
    words = [str(arguments[key]) for key in ("pattern", "path") if key in arguments]
    return middle(" ".join([name, *words]), MAX_TITLE)


def plan_of(text: str) -> acp.Plan:
    """The plan that lines with marks are."""
    rows = [(line[:3], line[3:].strip()) for line in text.split("\n") if line[:3] in _MARKS]
    return acp.Plan(
        entries=tuple(
            acp.PlanEntry(content=step, priority="medium", status=_MARKS[mark]) for mark, step in rows
        )
    )


def prompted(message: Mapping[str, Any]) -> Updates:
    """What somebody said, as the editor shows it."""
    found: Updates = []
    for part in message["content"]:
        text = part.get("text") or (f"[{part.get('mime_type')}]" if part["type"] == "image" else "")
        if text:
            found.append(acp.UserMessageChunk(content=acp.Text(text=text)))
    return found


def note(text: str) -> acp.KnownUpdate:
    """Something that is no part of the conversation, apart from what the agent says."""
    return _chunk((True, f"\n[{text}]\n"))


def say(text: str) -> acp.KnownUpdate:
    """A text of the agent."""
    return _chunk((False, text))


def _chunk(piece: Piece) -> acp.KnownUpdate:
    is_thought, text = piece
    if is_thought:
        return acp.AgentThoughtChunk(content=acp.Text(text=text))
    return acp.AgentMessageChunk(content=acp.Text(text=text))
