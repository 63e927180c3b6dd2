"""What the control room needs of the other rooms. The daemon joins them."""

from __future__ import annotations

from typing import Protocol

from ..sessions.session import Prompt


class SessionFault(Exception):
    """A session that is not there, or can't do it now. Says which, and why."""


class Receiver(Protocol):
    """Who gets the answer to a prompt."""

    def began(self, session: str) -> None:
        """The session of this id is asked."""

    def text(self, text: str) -> None:
        """A piece of the answer."""

    def end(self, fault: str = "") -> None:
        """The answer is over; with a fault, it is not whole."""


class Sessions(Protocol):
    """The sessions that can be talked to. All methods but `status` raise SessionFault."""

    async def prompt(self, session: str | None, prompt: Prompt, receiver: Receiver) -> None:
        """Ask a session, or the default one."""

    async def type(self, session: str | None, text: str, *, enter: bool = False) -> None:
        """Type a text without control characters into a session, and perhaps press Enter."""

    async def cancel(self, session: str, prompt: str) -> None:
        """End what a session does for a prompt."""

    async def status(self) -> str:
        """How all sessions are, for a person."""


class Cleaner(Protocol):
    """Takes secrets out of text."""

    def text(self, text: str) -> str: ...

    def unfinished(self, text: str) -> str:
        """The same for text that goes on: what may be the beginning of a secret is held back."""
