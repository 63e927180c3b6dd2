"""The two kinds of fault in a protocol: ours and the peer's.

    Exception
    └── LocalError     our own code wanted to send what the protocol forbids here: a bug, so it is raised

    Broken             the peer sent what can't be understood or isn't allowed: a fact, so it is a message

A peer's fault is returned in its place among the messages rather than raised, so that what came before it in
the same bytes is not lost. After a Broken a connection is closed and takes no more input.
"""

from __future__ import annotations


class LocalError(Exception):
    """We tried to send something that the protocol forbids in this state or direction."""


class Broken:
    """The peer broke the protocol. `reason` says how; `reply` is what to send before closing, if anything."""

    __slots__ = ("reason", "reply")

    def __init__(self, reason: str, reply: bytes = b"") -> None:
        self.reason = reason
        self.reply = reply

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Broken) and (self.reason, self.reply) == (other.reason, other.reply)

    def __hash__(self) -> int:
        return hash((self.reason, self.reply))

    def __repr__(self) -> str:
        return f"Broken({self.reason!r}, reply={self.reply!r})"
