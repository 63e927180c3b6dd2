"""One namespace for the sessions of all kinds, and the record by which each of them is listed.

A kind says which sessions it has and what can be done with one. Whoever lists, finds, stops or prompts a
session goes through the directory, and does not need to know which kinds there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..formats.guess import meant
from ..wire.verifier import Outcome
from .inbox import LEAST_PREFIX, Inbox
from .session import Prompt, Session

_UNLISTED = frozenset({"phase", "is_open", "more"})


class Summary(Struct, frozen=True, kw_only=True):
    """A session as it is listed and shown, whatever its kind."""

    id: str
    kind: str
    name: str
    """What people call it: its name, or its id if it has none."""
    project: str
    """The directory that it works in."""
    state: str
    """`running`, `waiting` or `ended` for a program; `working`, `asks`, `idle` or `failed` for an agent."""
    phase: str = ""
    """What it does, if its kind has words for more than its state. Not in a row."""
    is_open: bool = True
    """False if it is only on the disk. Not in a row."""
    what: str = ""
    """What it is about: a command, or what was said first."""
    started_at: float | None = None
    idle: float | None = None
    """Seconds since something happened in it."""
    clients: int = 0
    exit_code: int | None = None
    waits_for: str = ""
    """The oldest question that it asks a person, in one line."""
    verdict: Mapping[str, Any] | None = None
    """What a verifier said of its last turn."""
    can: tuple[str, ...] = ()
    """What not all kinds can do and this one can: `screen`, `chat`."""
    more: Mapping[str, Any] = {}
    """What only its kind has: a size, a model, memory."""

    @property
    def row(self) -> dict[str, Any]:
        """All of it as plain data."""
        row = {field: getattr(self, field) for field in self.__struct_fields__ if field not in _UNLISTED}
        if self.verdict is None:
            del row["verdict"]
        return row | dict(self.more)


class NoSession(Exception):
    """There is no such session, or more than one. Says which there are."""


class Unknown(NoSession):
    """No session has this name or id."""


class NameTaken(Exception):
    """Another session has this name. Says which."""


class NotSupported(Exception):
    """Sessions of this kind can't do that. Says what to use instead."""


class NoKind(Exception):
    """There is no such kind of sessions. Says which there are."""


class Kind(Protocol):
    """The sessions of one kind."""

    name: str
    gives_ids: bool
    """Whether ids are made up and not chosen by people: then the beginning of one is enough."""

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        """All that people may want to see now. `brief` leaves out what takes time to find out."""

    async def find(self, word: str) -> Summary | None:
        """The session of this id or name, also one that is not listed any more."""

    def is_live(self, name: str) -> bool:
        """Whether a session of this name or id is there, so that no other may be called so."""

    def name_of(self, id: str) -> str:
        """What people call a session, as far as that is known at once; else its id."""

    async def stop(self, id: str) -> Mapping[str, Any]:
        """End what a session does; gives what is to be said of that. Raises NoSession or NotSupported."""

    async def prompt(self, id: str, prompt: Prompt) -> int | None:
        """Ask a session for something, as a person does. What comes of it is told in the feed, with the
        prompt's id. Returns its place in the queue, from 1, if it has to wait. Raises NoSession or
        NotSupported."""

    async def interrupt(self, id: str, prompt: str | None = None) -> None:
        """End what a session does now, and leave what waits. With the id of a prompt, end what came of that
        and nothing else: one that waits is dropped. Raises NoSession or NotSupported."""

    async def lines(self, id: str) -> Sequence[str]:
        """What was said or printed in it, as text. Raises NoSession or NotSupported."""

    async def settled(self, id: str) -> Outcome | None:
        """Wait until it does nothing any more. Returns how its last turn ended, if it has turns of its own.
        Raises NoSession or NotSupported."""

    async def live(self, id: str) -> Session:
        """The session whose turns are followed from now on. Raises NoSession or NotSupported."""


class Directory:
    """All sessions of a daemon, of the kinds that were added. `verdict` returns what was said of a session's
    last turn."""

    def __init__(self, inbox: Inbox, verdict: Callable[[str], Mapping[str, Any] | None]) -> None:
        self.kinds: list[Kind] = []
        self._inbox = inbox
        self._verdict = verdict

    def add(self, kind: Kind) -> None:
        """Have the sessions of a kind, listed after those of the kinds before it."""
        self.kinds.append(kind)

    @property
    def questions(self) -> int:
        """How many questions wait for a person's consent."""
        return len(self._inbox.consents)

    async def list(self, *, kind: str | None = None, brief: bool = False) -> Sequence[Summary]:
        """The sessions of all kinds or of one, in the order of the kinds. Raises NoKind."""
        kinds = [each for each in self.kinds if kind in (None, each.name)]
        if kind is not None and not kinds:
            known = ", ".join(each.name for each in self.kinds)
            raise NoKind(f"no sessions of kind {kind!r}; there are {known}")
        lists = await asyncio.gather(*(each.list(brief=brief) for each in kinds))
        return self._joined([summary for summaries in lists for summary in summaries])

    async def find(self, word: str) -> tuple[Kind, Summary]:
        """The session of this name or id, or the only one whose id begins so. Raises NoSession."""
        for kind in self.kinds:
            if (summary := await kind.find(word)) is not None:
                return kind, self._joined([summary])[0]
        listed = [(kind, each) for kind in self.kinds for each in await kind.list(brief=True)]
        is_enough = len(word) >= LEAST_PREFIX
        begun = [each for each in listed if is_enough and each[0].gives_ids and each[1].id.startswith(word)]
        if len(begun) > 1:
            raise NoSession(f"{len(begun)} sessions begin with {word!r}; give more of the id")
        if not begun:
            raise Unknown(f"no session {word!r}{meant(word, [each.name for _, each in listed])}")
        kind, summary = begun[0]
        return kind, self._joined([summary])[0]

    def name_of(self, id: str) -> str:
        """What people call the session of an id, as far as that is known at once; else the id."""
        return next((name for kind in self.kinds if (name := kind.name_of(id)) != id), id)

    def check_free(self, name: str, *, but: str | Collection[str]) -> None:
        """Raises NameTaken if a session of another kind than `but`, or than these, has this name."""
        passed_over = (but,) if isinstance(but, str) else but
        for kind in self.kinds:
            if kind.name not in passed_over and kind.is_live(name):
                why = f"the name {name!r} is taken by a session of kind {kind.name}; choose another"
                raise NameTaken(why)

    def _joined(self, summaries: Sequence[Summary]) -> Sequence[Summary]:
        """With what others know of them."""
        asked = {each.session: each for each in reversed(self._inbox.open())}
        found = []
        for summary in summaries:
            question, verdict = asked.get(summary.id), self._verdict(summary.id)
            if question is not None or verdict is not None:
                asks = question is not None and question.is_consent and summary.state == "working"
                more = {
                    "waits_for": question.what if question is not None else "",
                    "verdict": verdict,
                    "state": "asks" if asks else summary.state,
                }
                summary = msgspec.structs.replace(summary, **more)
            found.append(summary)
        return found
