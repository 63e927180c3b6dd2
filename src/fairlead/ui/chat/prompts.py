"""The prompts that this chat sent, and where each of them stands: on its way, waiting for its turn, or lost
with a daemon. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import AgentEvent, Prompted

SAYING = ("prompt", "steer")
"""Requests that say something."""


class OwnPrompts:
    """By their prompts' ids."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        """Those that are on the screen before they are said."""
        self.queued: dict[str, str] = {}
        """What waits for its turn."""

    def clear(self) -> None:
        self.shown.clear()
        self.queued.clear()

    def take(self, op: str, prompt_id: str, text: str) -> None:
        """The daemon has taken what we said."""
        if op == "prompt":
            self.shown.add(prompt_id)
        else:
            self.queued[prompt_id] = text

    def mark_of(self, prompt_id: str) -> str:
        """Somebody's prompt is said now: how it is marked; empty if it is on the screen already."""
        if prompt_id in self.shown:
            self.shown.remove(prompt_id)
            return ""
        return "›" if self.queued.pop(prompt_id, None) is None else ">"

    def find_unsaid(self, asked: Iterable[tuple[str, str]], missed: Iterable[AgentEvent]) -> list[str]:
        """What was said to a daemon that went away before it answered, unless the session has heard it."""
        unheard = [(op, text) for op, text in asked if op in SAYING]
        for event in missed:
            known = event.prompt_id in self.shown or event.prompt_id in self.queued
            heard = next(
                (each for each in unheard if isinstance(event, Prompted) and each[1] == event.text), None
            )
            if heard is not None and not known:
                unheard.remove(heard)
                self.take(heard[0], event.prompt_id, heard[1])
        return [text for _, text in unheard]
