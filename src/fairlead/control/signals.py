"""What the loop hears and what it does: signals, actions, and the messages that tell clients of them.

A signal is something heard, from a client or from inside. An action is something to be done by an actuator.
Both are plain values; an action can be written down, so that it may wait for consent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from ..formats.sexp import Keyword
from ..formats.shown import one_line
from ..wire.passepartout import Message, event, plist

MAX_DEPTH = 10
"""How many times in a row what was done may lead to something else; deeper signals are dropped."""
MAX_TEXT = 1024 * 1024
"""How many characters the text of a signal or of an action may have."""
MAX_PIECE = 256 * 1024
"""How many characters of text one message carries; more come in several messages."""
MAX_COMMAND = 10_000
"""How many characters a command may have, and a text that is typed: gates look at all of it."""
MAX_SUMMARY = 200
"""How many characters an action has in one line; of a longer one the middle is left out."""
MAX_SENSOR = 64
"""How long a sensor's name may be."""

SPOKEN = frozenset({"user-input", "chat-message", "user-command", "delegation"})
"""Sensors with what a person says; each of these gets an answer that ends with an empty text."""
FROM_INSIDE: Mapping[str, tuple[str, ...]] = {
    "approval-required": ("token", "title", "summary", "reason", "name", "project", "answers"),
    "approval-settled": ("token", "result", "by"),
    "daemon-started": (),
    "heartbeat": ("status",),
    "loop-error": (),
    "notification": ("title",),
    "session-exited": ("name", "exit_code"),
    "session-failed": (),
    "session-finished": ("outcome", "prompt", "turn"),
    "terminal-bell": ("name",),
    "terminal-notification": ("name", "title", "body"),
    "tool-error": ("actuator",),
    "tool-output": ("actuator",),
    "verifier-escalated": ("turn", "reason"),
}
"""Sensors that only the daemon itself has, with the fields of their signals. Clients can't set these."""
CHANNELS = ("cli", "tui")
"""Where a client may say that its text comes from; Passepartout's own says `tui`."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def control_character(text: str) -> str:
    r"""The first control character in a text, which would act as a key when it is typed; empty if none.

    >>> control_character("ls\x03"), control_character("ls")
    ('\\x03', '')
    """
    found = _CONTROL.search(text)
    return repr(found[0])[1:-1] if found else ""


class Priority(IntEnum):
    """What is dealt with first: the smallest."""

    URGENT = 0
    PERSON = 10
    EVENT = 20
    FEEDBACK = 30
    HEARTBEAT = 40


class Client(Protocol):
    """Who said something, and gets the answer."""

    @property
    def is_open(self) -> bool: ...

    def send(self, message: Message) -> None: ...

    def agent(self) -> str:
        """The agent session of which it is a command; empty if it is none. Takes a while: for a thread."""


class Signal(Struct, frozen=True):
    """Something heard. `fields` are more words about it, for rules."""

    sensor: str
    source: str = "daemon"
    text: str = ""
    session: str | None = None
    depth: int = 0
    priority: int = Priority.EVENT
    fields: Mapping[str, str] = {}
    client: Client | None = None
    agent: str = ""
    """The agent session one of whose commands said it; empty if a person did, or the daemon."""
    status: str = "heard"


class Action(Struct, frozen=True, omit_defaults=True):
    """Something to be done by the actuator `target`, which is a name in upper case."""

    target: str
    text: str = ""
    verb: str = ""
    title: str = ""
    session: str | None = None
    depth: int = 0
    enter: bool = False
    """Whether Enter is pressed after what is typed."""

    @property
    def summary(self) -> str:
        """What is to be done, in one line."""
        words = [self.session or "", self.text, "⏎" if self.enter else ""]
        return one_line(" ".join(filter(None, words)).strip(" "), MAX_SUMMARY)


class Step(NamedTuple):
    """What one gate said."""

    gate: str
    result: str
    reason: str = ""


class Context(Struct, frozen=True):
    """What an actuator is told besides its action: what led to it, and how it was judged."""

    signal: Signal
    trace: tuple[Step, ...] = ()
    approved_by: str = ""

    @property
    def client(self) -> Client | None:
        """Who is to be answered, if it is still there."""
        client = self.signal.client
        return client if client is not None and client.is_open else None


# --- messages ---------------------------------------------------------------------------------------------


def sendable(text: str) -> str:
    """The text as UTF-8 can hold it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(1024)
def keyword(name: str) -> Keyword:
    """The keyword of a name in any case; those used last are kept, as they are used again."""
    return Keyword(sendable(name).upper())


@lru_cache(256)
def trace_plist(trace: tuple[Step, ...]) -> list[Any]:
    """`((:GATE :NAME :RESULT :PASSED) …)`, with a reason where a gate gave one. Not to be changed."""
    return [
        plist(gate=keyword(step.gate), result=keyword(step.result))
        + (plist(reason=sendable(step.reason)) if step.reason else [])
        for step in trace
    ]


def _meta(source: str, session: str | None, depth: int) -> list[Any]:
    about = plist(source=keyword(source), depth=depth)
    return about + (plist(session=sendable(session)) if session is not None else [])


def said(text: str, context: Context, session: str | None = None, *, is_fault: bool = False) -> Message:
    """A piece of an answer; an empty text ends it. What says that it could not be done has a `:LEVEL`."""
    signal = context.signal
    level = plist(level=Keyword("ERROR")) if is_fault else []
    return Message(
        plist(
            type=Keyword("REQUEST"),
            meta=_meta(signal.source, session if session is not None else signal.session, signal.depth),
            payload=[*plist(action=Keyword("MESSAGE"), text=sendable(text)), *level],
            gate_trace=trace_plist(context.trace),
        )
    )


def pieces(text: str) -> Iterator[str]:
    """A text cut into pieces that fit into messages."""
    for start in range(0, len(text), MAX_PIECE):
        yield text[start : start + MAX_PIECE]


def told(signal: Signal, trace: tuple[Step, ...] = ()) -> Message:
    """A signal from inside as everybody is told of it."""
    payload = plist(sensor=keyword(signal.sensor), text=sendable(signal.text[:MAX_PIECE]))
    for name, value in signal.fields.items():
        payload += [keyword(name), sendable(value)]
    more = {"gate_trace": trace_plist(trace)} if trace else {}
    return event(payload, meta=_meta(signal.source, signal.session, signal.depth), **more)
