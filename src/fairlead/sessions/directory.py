"""One namespace for the sessions of all kinds, and the record by which each of them is listed.

A kind says which sessions it has and what can be done with one. Whoever lists, finds, stops or prompts a
session goes through the directory, and does not need to know which kinds there are.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from shlex import quote
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..formats.guess import meant
from ..system.worktrees import Branches
from ..wire.verifier import Outcome
from .feed import Changed, Feed, FeedEvent, Opened, PromptEnded, TurnBegan, TurnEnded
from .inbox import LEAST_PREFIX, Inbox
from .questions import Answer, Question
from .session import Explaining, Prompt, SaysState, Session
from .state import UNKNOWN, Activity, States, by_protocol

_UNLISTED = frozenset({"is_open", "more", "activity"})
_GIVEN = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")
"""A word that looks like an id that was made up, or like as much of one as lists show."""
_ID, _SHORT_ID, _NAME, _BEGINNING, _TOO_SHORT = range(5)
"""What a word can be to a session, the strongest first."""


class Summary(Struct, frozen=True, kw_only=True):
    """A session as it is listed and shown, whatever its kind."""

    id: str
    kind: str
    name: str
    """What people call it: its name, or its id if it has none."""
    project: str
    """The directory that it works in."""
    branch: str | None = None
    """The git branch that is checked out there, or the commit; empty if none is, None if nobody looked."""
    worktree: Mapping[str, Any] | None = None
    """The worktree that was made for it, if it works in one."""
    state: str
    """`running`, `waiting` or `ended` for a program; `working`, `asks`, `idle` or `failed` for an agent."""
    activity: Activity = UNKNOWN
    """What it does, and how that is known."""
    is_open: bool = True
    """False if it is only on the disk. Not in a row."""
    what: str = ""
    """What it is about: a command, or what was said to it last."""
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
        row["activity"] = self.activity.row
        for name in ("verdict", "branch", "worktree"):
            if row[name] is None:
                del row[name]
        return row | dict(self.more)


class NoSession(Exception):
    """There is no such session, or more than one. Says which there are."""


class UnknownSession(NoSession):
    """No session has this name or id."""


class NameTaken(Exception):
    """Another session has this name. Says which."""


class NotSupported(Exception):
    """Sessions of this kind can't do that. Says what to use instead."""


class InTheWay(NotSupported):
    """A person has to clear something away first, such as a dialog or a draft. Nothing was typed."""


class NoKind(Exception):
    """There is no such kind of sessions. Says which there are."""


class Kind(Protocol):
    """The sessions of one kind."""

    name: str
    gives_ids: bool
    """Whether ids are made up and not chosen by people: then the beginning of one is enough."""

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        """All that people may want to see now. `brief` leaves out what takes time to find out."""

    async def find(self, word: str, *, every: bool) -> Sequence[Summary]:
        """The sessions of this id or name, and those whose id begins so if ids are made up; also those that
        are not listed any more. The last used first; without `every` that one of the name is enough."""

    def name_of(self, id: str) -> str | None:
        """What people call a session of this kind, if it has a name and that is known at once."""

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


_OTHER = "choose another name"


def _rank(summary: Summary, word: str, *, is_given: bool) -> int:
    """What a word is to a session that was found by it."""
    if summary.id == word:
        return _ID
    if is_given and summary.id.startswith(word):
        return _SHORT_ID
    if summary.name == word:
        return _NAME
    return _BEGINNING if len(word) >= LEAST_PREFIX else _TOO_SHORT


def _own_names(summaries: Sequence[Summary]) -> Sequence[Summary]:
    """Without names that are the id of another session, or what is shown of it."""
    ids = [each.id for each in summaries]

    def is_borrowed(each: Summary) -> bool:
        if each.name == each.id or not _GIVEN.fullmatch(each.name):
            return False
        return any(id != each.id and id.startswith(each.name) for id in ids)

    return [msgspec.structs.replace(e, name=e.id) if is_borrowed(e) else e for e in summaries]


class Directory:
    """All sessions of a daemon, of the kinds that were added. `verdict` returns what was said of a session's
    last turn; `reserved` has names that only sessions of one kind may have; `worktree` what is known of the
    worktree that a directory is in."""

    def __init__(
        self,
        inbox: Inbox,
        verdict: Callable[[str], Mapping[str, Any] | None],
        states: States,
        reserved: Mapping[str, str] | None = None,
        worktree: Callable[[str], Mapping[str, Any] | None] = lambda project: None,
    ) -> None:
        self.kinds: list[Kind] = []
        self.states = states
        self._reserved = reserved or {}
        self._inbox = inbox
        self._verdict = verdict
        self._worktree = worktree
        self._branches = Branches()

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
        found = [summary for summaries in lists for summary in summaries]
        if not brief:
            branches = await self._branches.of({each.project for each in found})
            found = [msgspec.structs.replace(e, branch=branches.get(e.project, "")) for e in found]
            gone = self._branches.gone
            found = [
                msgspec.structs.replace(e, more={**e.more, "directory_gone": True})
                if e.project in gone
                else e
                for e in found
            ]
        return self._joined(_own_names(found))

    async def find(self, word: str) -> tuple[Kind, Summary]:
        """The session that a word means: see `find_all`. Raises NoSession."""
        return (await self._meant(word, every=False))[0]

    async def find_all(self, word: str) -> Sequence[tuple[Kind, Summary]]:
        """The session of this id, or else all of this name, the last used first, or else the only one whose
        id begins so. What looks like an id is an id before it is a name. Raises NoSession."""
        return await self._meant(word, every=True)

    async def with_id(self, id: str) -> tuple[Kind, Summary]:
        """The session of just this id. Raises NoSession."""
        for kind in self.kinds:
            for each in await kind.find(id, every=False):
                if each.id == id:
                    return kind, self._joined([each])[0]
        raise await self._unknown(id, is_begun=False)

    async def _meant(self, word: str, *, every: bool) -> Sequence[tuple[Kind, Summary]]:
        is_given = _GIVEN.fullmatch(word) is not None
        found: dict[int, list[tuple[Kind, Summary]]] = {}
        for kind in sorted(self.kinds, key=lambda kind: is_given and not kind.gives_ids):
            for each in await kind.find(word, every=every) if word else ():
                found.setdefault(_rank(each, word, is_given=is_given), []).append((kind, each))
            if _ID in found or (not is_given and _NAME in found):
                break
        best = min(found, default=_TOO_SHORT)
        if best == _TOO_SHORT:
            raise await self._unknown(word, is_begun=_TOO_SHORT in found)
        if best == _ID:
            del found[_ID][1:]
        elif best != _NAME and len(found[best]) > 1:
            raise NoSession(f"{len(found[best])} sessions begin with {word!r}; give more of the id")
        return [(kind, self._joined([each])[0]) for kind, each in found[best]]

    async def _unknown(self, word: str, *, is_begun: bool) -> UnknownSession:
        hint = meant(word, [each.name for kind in self.kinds for each in await kind.list(brief=True)])
        if is_begun and not hint:
            hint = f"; a prefix of an id needs at least {LEAST_PREFIX} characters"
        return UnknownSession(f"no session {word!r}{hint}")

    def name_of(self, id: str) -> str | None:
        """What people call the session of an id, if it has a name and that is known at once."""
        return next((name for kind in self.kinds if (name := kind.name_of(id)) is not None), None)

    async def check_free(self, name: str, *, but: str | Collection[str]) -> None:
        """Raises NameTaken if a listed session of another kind than `but` has this name, or if it would be
        taken for the id of a session of any kind."""
        allowed = (but,) if isinstance(but, str) else but
        if name in self._reserved and self._reserved[name] not in allowed:
            raise NameTaken(f"{name!r} is the name of the default {self._reserved[name]} session; {_OTHER}")
        for kind in self.kinds:
            for each in await kind.list(brief=True) if kind.name not in allowed else ():
                if each.name == name:
                    article = "an" if kind.name[0] in "aeiou" else "a"
                    instead = f"{_OTHER}, or `fairlead attach {quote(name)}`" if each.can else _OTHER
                    raise NameTaken(f"{article} {kind.name} session is already called {name!r}; {instead}")
        for kind in self.kinds:
            for each in (
                await kind.find(name, every=True) if kind.gives_ids and len(name) >= LEAST_PREFIX else ()
            ):
                if each.id.startswith(name):
                    part = "" if each.id == name else "the beginning of "
                    whose = f"the {kind.name} session {each.name}"
                    raise NameTaken(f"{name!r} is {part}the id of {whose}; {_OTHER}")

    def _joined(self, summaries: Sequence[Summary]) -> Sequence[Summary]:
        """With what others know of them."""
        asked = self._asked()
        found = []
        for summary in summaries:
            question, verdict = asked.get(summary.id), self._verdict(summary.id)
            asks = question is not None and question.is_consent and summary.state == "working"
            joined: dict[str, Any] = {"activity": self._activity(summary, question)}
            if (worktree := self._worktree(summary.project)) is not None:
                joined["worktree"] = worktree
            if question is not None or verdict is not None:
                joined |= {
                    "waits_for": question.what if question is not None else "",
                    "verdict": verdict,
                    "state": "asks" if asks else summary.state,
                }
            found.append(msgspec.structs.replace(summary, **joined))
        return found

    def _asked(self) -> Mapping[str | None, Question]:
        """The oldest question of each session."""
        return {each.session: each for each in reversed(self._inbox.open())}

    # --- what they do ---------------------------------------------------------------------------------------

    def _activity(self, summary: Summary, question: Question | None) -> Activity:
        """What a session does: as is found out of its kind, or as it says itself."""
        kind = next(each for each in self.kinds if each.name == summary.kind)
        if isinstance(kind, Explaining):
            return self.states.of(summary.id) or UNKNOWN
        state, evidence, waits_for = by_protocol(summary.state, question, time.time() - (summary.idle or 0.0))
        if summary.is_open:
            return self.states.found(summary.id, state, evidence, waits_for)
        is_seen = (self.states.of(summary.id) or UNKNOWN).is_seen
        return Activity(state, evidence.at if evidence is not None else 0.0, waits_for, is_seen, evidence)

    def follow(self, feed: Feed) -> None:
        """Notice it when a session does something else."""
        feed.listen(self._happened)
        self._inbox.listen(self)

    def _happened(self, event: FeedEvent) -> None:
        if isinstance(event, Changed | Opened | TurnBegan | TurnEnded | PromptEnded):
            self._look(event.session)

    def asked(self, question: Question) -> None:
        self._look(question.session)

    def closed(self, question: Question, answer: Answer) -> None:
        self._look(question.session)

    def warned(self, question: Question, why: str) -> None:
        """Nothing is done about it here."""

    def _look(self, id: str | None) -> None:
        """See what a session says that it does."""
        for kind in self.kinds:
            state = kind.state_of(id) if id is not None and isinstance(kind, SaysState) else None
            if id is not None and state is not None:
                self.states.found(id, *by_protocol(state, self._asked().get(id), time.time()))
