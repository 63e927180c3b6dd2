"""What the control room needs of the other rooms. The daemon joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SessionFault(Exception):
    """A session that is not there, or can't do it now. Says which, and why."""


class Sessions(Protocol):
    """The sessions that can be talked to. All methods but `status` raise SessionFault."""

    async def load(self, session: str | None) -> None:
        """Find an agent session that is on the disk only, so that `prompt` need not look there."""

    def prompt(
        self,
        session: str | None,
        text: str,
        on_text: Callable[[str], None],
        on_done: Callable[[str], None],
    ) -> str:
        """Say something to an agent session, or to the default one; gives its id. `on_done` is called once,
        with nothing if all went well, else with what went wrong."""

    def type(self, session: str | None, text: str, *, enter: bool = False) -> None:
        """Type into a terminal session a text without control characters, and perhaps press Enter."""

    def cancel(self, session: str) -> None:
        """End what an agent session is doing."""

    def status(self) -> str:
        """How all sessions are, for a person."""


class Cleaner(Protocol):
    """Takes secrets out of text."""

    def text(self, text: str) -> str: ...

    def unfinished(self, text: str) -> str:
        """The same for text that goes on: what may be the beginning of a secret is held back."""
