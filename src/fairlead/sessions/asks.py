"""What agents ask a person: each question is a file before it is shown, and so is its answer.

Who asks gives its question an id, waits, and may ask the same again after a daemon's death: then it goes on
waiting, or gets the answer that was given meanwhile. A question whose asker is gone is withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, field

from ..system.files import replace_file
from ..wire.jsonrpc import json_bytes
from .inbox import AskerGone, Inbox, Unheard
from .questions import WITHDRAWN, Answer, Question

log = logging.getLogger("fairlead")

MAX_OPEN = 100
"""How many questions of agents wait at a time."""
MAX_OPEN_EACH = 5
"""How many of one project, or of one session: the others get their turn as well."""
MAX_AN_HOUR = 60
"""How many questions of one project, or of one session, a person gets in an hour."""
MAX_COUNTED = 1000
"""Of how many projects and sessions it is remembered how much they asked."""
MAX_KEPT = 200
"""How many answers are kept for who asks again."""
GRACE = 10.0
"""Seconds that a question is shown without anybody who waits for its answer,"""
RESTART_GRACE = 90.0
"""and after a daemon's start: those who ask look for the next one for a minute."""
HOUR = 3600.0
_GONE = "the agent that asked is gone"


class TooManyAsked(Exception):
    """So many questions wait already, or were asked lately. Says which."""


class TakenToken(Exception):
    """Another question has the id."""


class DurableAsk(Struct):
    """A question, in its file with its answer."""

    question: Question
    answer: Answer | None = None
    root: str = ""
    """The project as which its questions are counted, which may be around its own."""
    note: dict[str, str] = field(default_factory=dict)
    """What else who asks wants to know after a restart."""


class _Waiters:
    """Those who wait for an answer, and what happens if there are none."""

    def __init__(self) -> None:
        self.count = 0
        self.answered = asyncio.Event()
        self.leaving: asyncio.TimerHandle | None = None


class Asks:
    """The questions that agents ask, in a directory of files."""

    max_open_each, max_an_hour = MAX_OPEN_EACH, MAX_AN_HOUR
    restart_grace = RESTART_GRACE
    nobody_waits = _GONE
    """Why a question is withdrawn whose answer nobody waits for."""

    def __init__(self, directory: str, inbox: Inbox) -> None:
        self._directory = directory
        self._inbox = inbox
        self._known: dict[str, DurableAsk] = {}  # the oldest first
        self._waiters: dict[str, _Waiters] = {}  # of those that wait
        self._asked_at: dict[str, deque[float]] = {}  # by project and by session
        self._register()

    def _register(self) -> None:
        self._inbox.register("dialog", self._fate)

    def open(self) -> None:
        """Show again what the last daemon left; call it after the inbox was loaded."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._directory):
                if not entry.name.endswith(".json"):  # of a daemon that died while it wrote
                    continue
                try:
                    with open(entry.path, "rb") as file:
                        found.append(msgspec.json.decode(file.read(), type=DurableAsk))
                except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                    log.warning("a question can't be read from %s: %s", entry.path, error)
        for ask in sorted(found, key=lambda each: each.question.asked_at):
            self._known[ask.question.id] = ask
            if ask.answer is None:
                self._show(ask, self.restart_grace)
        self._forget()

    def close(self) -> None:
        """Leave all as it is, for the next daemon."""
        for waiters in self._waiters.values():
            if waiters.leaving is not None:
                waiters.leaving.cancel()
        self._waiters.clear()

    def _fate(self, question: Question) -> str | None:
        """What became of a question that was not asked again: see `Inbox.reconcile`."""
        return None if question.id in self._known else _GONE

    # --- asking -------------------------------------------------------------------------------------------

    def begin(self, question: Question, root: str = "", note: Mapping[str, str] | None = None) -> None:
        """Ask, unless that is known already. `root` is the project as which it is counted, if that is not its
        own. Raises TooManyAsked, TakenToken or OSError."""
        if (known := self._known.get(question.id)) is not None:
            # after a restart it may not be known yet in which session the asker runs
            is_same = question.session in (None, known.question.session)
            if not is_same or _asked(known.question) != _asked(question):
                raise TakenToken(f"another question has the id {question.id}")
            return
        if self._inbox.is_taken(question.id):  # who asked that may be anybody
            raise TakenToken(f"another question has the id {question.id}")
        ask = DurableAsk(question, root=root or question.project, note=dict(note or {}))
        counted = [f"project {ask.root}"]
        counted += [f"session {question.session}"] if question.session is not None else []
        self._check(ask, counted)
        os.makedirs(self._directory, 0o700, exist_ok=True)
        self._write(ask)
        for each in counted:
            self._asked_at.setdefault(each, deque(maxlen=self.max_an_hour)).append(time.monotonic())
        while len(self._asked_at) > MAX_COUNTED:
            del self._asked_at[next(iter(self._asked_at))]
        self._known[question.id] = ask
        self._show(ask, GRACE)

    def _check(self, ask: DurableAsk, counted: list[str]) -> None:
        waiting = [each for each in self._known.values() if each.answer is None]
        session = ask.question.session
        if len(waiting) >= MAX_OPEN:
            raise TooManyAsked(f"{MAX_OPEN} questions of agents wait for a person already")
        if sum(each.root == ask.root for each in waiting) >= self.max_open_each:
            raise TooManyAsked(f"{self.max_open_each} questions of {ask.root} wait for a person already")
        if session and sum(each.question.session == session for each in waiting) >= self.max_open_each:
            raise TooManyAsked(f"{self.max_open_each} questions of this session wait for a person already")
        for each in counted:
            asked = self._asked_at.get(each)
            if asked is not None and len(asked) >= self.max_an_hour and time.monotonic() - asked[0] < HOUR:
                raise TooManyAsked(f"a person got {self.max_an_hour} questions of the {each} within an hour")

    def _show(self, ask: DurableAsk, grace: float) -> None:
        waiters = self._waiters[ask.question.id] = _Waiters()
        self._leave_later(ask, waiters, grace)
        self._inbox.ask(ask.question, self)

    async def wait(self, id: str) -> Answer:
        """Wait for the answer to a question that was begun. A cancelled wait leaves the question for a while:
        call `withdraw` if nobody will wait for it again."""
        ask = self._known[id]
        if ask.answer is not None:
            return ask.answer
        waiters = self._waiters[id]
        waiters.count += 1
        if waiters.leaving is not None:
            waiters.leaving.cancel()
            waiters.leaving = None
        try:
            await waiters.answered.wait()
        finally:
            waiters.count -= 1
            if not waiters.count and self._waiters.get(id) is waiters:
                self._leave_later(ask, waiters, GRACE)
        assert ask.answer is not None
        return ask.answer

    def withdraw(self, id: str, why: str, *, whoever_waits: bool = False) -> None:
        """Nobody waits for the answer any more, or those who do need none."""
        ask, waiters = self._known.get(id), self._waiters.get(id)
        if ask is None or waiters is None or (waiters.count and not whoever_waits):
            return
        self._inbox.withdraw(id, why)
        try:
            self._end(ask, Answer(WITHDRAWN, why, time.time()))
        except OSError as error:
            log.warning("can't write that %s was withdrawn: %s", id, error.strerror)

    def _leave_later(self, ask: DurableAsk, waiters: _Waiters, grace: float) -> None:
        loop = asyncio.get_running_loop()
        waiters.leaving = loop.call_later(grace, self.withdraw, ask.question.id, self.nobody_waits)

    # --- the answer ---------------------------------------------------------------------------------------

    async def answered(self, question: Question, answer: Answer) -> None:
        ask = self._known.get(question.id)
        if ask is None or ask.answer is not None:
            raise AskerGone(_GONE)
        try:
            self._end(ask, answer)
        except OSError as error:
            raise Unheard(f"the answer can't be written: {error.strerror}") from None

    def _end(self, ask: DurableAsk, answer: Answer) -> None:
        self._write(msgspec.structs.replace(ask, answer=answer))
        ask.answer = answer
        if (waiters := self._waiters.pop(ask.question.id, None)) is not None:
            if waiters.leaving is not None:
                waiters.leaving.cancel()
            waiters.answered.set()
        self._forget()

    def _write(self, ask: DurableAsk) -> None:
        replace_file(self._path(ask), json_bytes(ask))

    def _path(self, ask: DurableAsk) -> str:
        return f"{self._directory}/{ask.question.id}.json"

    def _forget(self) -> None:
        """Keep no more answers than may be asked for again."""
        over = [each for each in self._known.values() if each.answer is not None][:-MAX_KEPT]
        for ask in over:
            del self._known[ask.question.id]
            with contextlib.suppress(OSError):
                os.unlink(self._path(ask))


def root_of(project: str, known: Iterable[str]) -> str:
    """The outermost project in which a directory lies, below its user's home if it is there: a known one, or
    one with a repository. May take a while: it looks at files."""
    project, home = os.path.realpath(project), os.path.realpath(os.path.expanduser("~"))
    others = {os.path.realpath(each) for each in known if each}
    root, place = project, project
    while place not in (home, os.path.dirname(place)):
        if place in others or os.path.exists(f"{place}/.git"):
            root = place
        place = os.path.dirname(place)
    return root


def _asked(question: Question) -> tuple[str, str, tuple[str, ...]]:
    """What is the same when a question is asked again."""
    return question.whole, question.project, tuple(each.label for each in question.options)
