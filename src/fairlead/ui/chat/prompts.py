"""What was entered in this chat for the session, and where it stands: not sent yet, sent and not confirmed,
waiting for its turn. Does no I/O.

Each prompt has an id from the beginning. One that the daemon has not confirmed is sent again to the next one,
which takes it only once. A command is sent once: nobody knows how far it got if the daemon goes away.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

MAX_WAITING = 100
"""How much may wait to be sent; then no more is taken."""


TURNING = ("/new", "/resume", "/tree")
"""Commands after which the chat is in another session, if they name one. What is entered after them is meant
for that one, and waits for it."""


class Outgoing:
    """Something for the session that the daemon has not confirmed: `op` is `say` or `command`. It `is_shown`
    if it stands in the conversation already."""

    def __init__(
        self, op: str, text: str, typed: str, images: Sequence[dict[Any, str]], *, is_shown: bool
    ) -> None:
        self.op = op
        self.text = text
        self.typed = typed
        self.id = uuid.uuid4().hex
        self.images = images
        self.is_shown = is_shown
        self.is_sent = False

    @property
    def turns(self) -> bool:
        """True if another session is to come of it."""
        words = self.text.split() if self.op == "command" else []
        if not words or words[0] not in TURNING:
            return False
        return words[0] == "/new" or (len(words) > 1 and words[:2] != ["/tree", "name"])


class OwnPrompts:
    """The prompts and commands of this chat."""

    def __init__(self) -> None:
        self.waiting: dict[str, Outgoing] = {}
        """What the daemon has not confirmed, in its order."""
        self.shown: set[str] = set()
        """Prompts that are on the screen before they are said."""
        self.queued: dict[str, str] = {}
        """What waits for its turn, by its id."""
        self._has_stayed = False

    def clear(self) -> None:
        self.waiting.clear()
        self.shown.clear()
        self.queued.clear()

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= MAX_WAITING

    def enter(
        self, op: str, text: str, *, shown_as: str = "", images: Sequence[dict[Any, str]] = (), is_shown: bool
    ) -> None:
        """Something is to be sent; `shown_as` is what stands for it if that is less than all."""
        entered = Outgoing(op, text, shown_as or text, images, is_shown=is_shown)
        self.waiting[entered.id] = entered
        if op == "say" and is_shown:
            self.shown.add(entered.id)
        elif op == "say":
            self.queued[entered.id] = shown_as or text

    def unsent(self) -> Iterator[Outgoing]:
        """What is to be sent now: nothing after a command that turns to another session."""
        found = []
        for each in self.waiting.values():
            if not each.is_sent:
                found.append(each)
            if each.turns:
                break
        return iter(found)

    def turn(self) -> list[Outgoing]:
        """The chat is in another session: returns what is left for it."""
        left = [each for each in self.waiting.values() if not each.is_sent]
        self.clear()
        self._has_stayed = False
        return left

    def stay(self) -> list[Outgoing]:
        """After a command that turns to another session and did not: returns what was meant for that one, and
        is not sent."""
        if not self._has_stayed:
            return []
        self._has_stayed = False
        left = [each for each in self.waiting.values() if not each.is_sent]
        for each in left:
            self.refuse(each.id)
        self._has_stayed = False
        return left

    def confirm(self, id: str, data: dict[str, Any]) -> None:
        """The daemon has taken it. A prompt's id may be another one there."""
        entered = self.waiting.pop(id, None)
        self._has_stayed = self._has_stayed or (entered is not None and entered.turns)
        known = data.get("prompt_id") or id
        if entered is not None and entered.op == "command":
            if "prompt_id" in data and "fallback" not in data:
                self.shown.add(known)  # a command of the agent's own
        elif known != id and id in self.queued:
            self.queued[known] = self.queued.pop(id)
        elif known != id and id in self.shown:
            self.shown.remove(id)
            self.shown.add(known)

    def refuse(self, id: str) -> str:
        """The daemon refused it. Returns what was typed, if it was a prompt."""
        outgoing = self.waiting.pop(id, None)
        self._has_stayed = self._has_stayed or (outgoing is not None and outgoing.turns)
        self.queued.pop(id, None)
        self.shown.discard(id)
        return outgoing.typed if outgoing is not None and outgoing.op == "say" else ""

    def mark_of(self, prompt_id: str) -> str:
        """Somebody's prompt is said now: how it is marked; empty if it is on the screen already."""
        if prompt_id in self.shown:
            self.shown.remove(prompt_id)
            return ""
        return "›" if prompt_id not in self.queued else ">"

    def said(self, prompt_id: str) -> str | None:
        """A prompt waits no longer; returns what stood for it if it was ours."""
        return self.queued.pop(prompt_id, None)

    def lose(self) -> list[str]:
        """The daemon went away: returns the commands of which nobody knows whether they were done."""
        lost = [each for each in self.waiting.values() if each.is_sent and each.op == "command"]
        for each in lost:
            del self.waiting[each.id]
            self._has_stayed = self._has_stayed or each.turns
        for each in self.waiting.values():
            each.is_sent = False
        return [each.text for each in lost]

    def drop_taken(self) -> None:
        """Nothing waits there any more of what an earlier daemon took."""
        self.queued = {id: text for id, text in self.queued.items() if id in self.waiting}
