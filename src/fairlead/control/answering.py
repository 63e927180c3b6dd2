"""How an answer reaches the client that asked: in pieces as they come, without secrets, and ended once."""

from __future__ import annotations

from collections.abc import Callable

from .protocols import Cleaner
from .signals import Context, pieces, said


class AnswerRelay:
    """One answer. After `end`, nothing more is said."""

    def __init__(
        self, context: Context, cleaner: Cleaner, ended: Callable[[], object] = lambda: None
    ) -> None:
        self.session: str | None = None
        self.context = context
        self._cleaner = cleaner
        self._on_end = ended
        self._held = ""  # what may be the beginning of a secret
        self._ended = False

    def began(self, session: str) -> None:
        self.session = session

    def text(self, text: str) -> None:
        """Say a piece; what may be the beginning of a secret waits for the next one."""
        held = self._held + text
        clean = self._cleaner.text(held)
        shown = self._cleaner.unfinished(held)
        self._held = clean[len(shown) :]
        self._say(shown)

    def end(self, fault: str = "") -> None:
        """Say what is left, and what went wrong, if anything did."""
        if self._ended:
            return
        self._say(self._cleaner.text(self._held))
        if fault:
            self._say(self._cleaner.text(fault), is_fault=True)
        self._ended = True
        self._on_end()
        if (client := self.context.client) is not None:
            client.send(said("", self.context, self.session))

    def _say(self, text: str, *, is_fault: bool = False) -> None:
        if self._ended or not text:
            return
        for piece in pieces(text):
            if (client := self.context.client) is not None:
                client.send(said(piece, self.context, self.session, is_fault=is_fault))
