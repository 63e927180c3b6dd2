"""What the control room needs of the other rooms. The daemon joins them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct


class SessionFault(Exception):
    """A session that is not there, or can't do it now. Says which, and why."""


class Waiting(Struct, frozen=True):
    """Something that waits for a person's consent."""

    token: str
    session: str | None
    """The agent session that asks; None if it is control's own."""
    title: str
    summary: str
    reason: str
    preview: str = ""


class Sessions(Protocol):
    """The sessions that can be talked to. All methods but `status` raise SessionFault."""

    def prompt(
        self,
        session: str | None,
        text: str,
        on_text: Callable[[str], None],
        on_done: Callable[[str], None],
    ) -> str:
        """Say something to an agent session, or to the default one; gives its id. `on_done` is called once,
        with nothing if all went well, else with what went wrong."""

    def type(self, session: str | None, text: str) -> None:
        """Type into a terminal session."""

    def cancel(self, session: str) -> None:
        """End what an agent session is doing."""

    def status(self) -> str:
        """How all sessions are, for a person."""


class Approvals(Protocol):
    """What agent sessions ask for."""

    def waiting(self) -> Sequence[Waiting]: ...

    def settle(self, token: str, allowed: bool, by: str) -> bool:
        """Answer; tells whether this answer counts."""


class Cleaner(Protocol):
    """Takes secrets out of text."""

    def text(self, text: str) -> str: ...

    def unfinished(self, text: str) -> str:
        """The same for text that goes on: what may be the beginning of a secret is held back."""
