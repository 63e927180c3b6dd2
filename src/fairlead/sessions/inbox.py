"""The inbox: everything that waits for a person, from whoever asks, and one way back for the answers.

Who asks makes its question durable itself, before it asks, and its answer before that counts; so a consent
needs nothing but its own session's journal. The inbox writes a file as well, only to know after a restart
which questions nobody asks again: those are shown as lost instead of vanishing. Nothing waits for that file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

import msgspec
from msgspec import Struct

from ..formats.shown import middle
from ..system.files import replace_file
from ..wire.jsonrpc import json_bytes
from .questions import DENY, WITHDRAWN, Answer, AskedQuestion, Kind, Question, asked_of

log = logging.getLogger("fairlead")

MAX_CLOSED = 500
"""Of how many questions it is remembered who answered them."""
LOST_KEPT = 7 * 86_400.0
"""Seconds that a lost question is shown, unless somebody dismisses it."""
FILED_WHOLE = 4000
"""How many characters of what would happen are in the file."""
MAX_FILE = 1024 * 1024
"""How large the file may be before it is written anew with what still counts."""
MAX_READ = 8 * 1024 * 1024
"""How many bytes of the file are read, from its end."""
MAX_MEANT = 4
"""How many questions are named to who did not say which."""
LEAST_PREFIX = 4
"""How many characters of an id are enough, if no other has the same."""


class NotOpen(Exception):
    """No such question waits. Says why."""


class AnsweredAlready(NotOpen):
    """Somebody was first, or it was withdrawn. Says who answered what, and when."""


class NoSuchOption(Exception):
    """The question has other answers."""


class AskerGone(Exception):
    """Nobody is there any more to hear the answer: the question is lost. Says why."""


class Unheard(Exception):
    """The answer could not be taken now; the question waits on. Says why."""


calling_agent: ContextVar[str] = ContextVar("calling_agent", default="")
"""The agent session one of whose commands asks for something, as far as a door can see that; or a rule."""
A_RULE = "a rule"
"""What asks if a rule of the configuration does."""
ITSELF = "the agent itself"
"""Who answered, if that is a command of the session that asks, whatever it says of itself."""


class Asker(Protocol):
    """Who asks, and hears the answer."""

    async def answered(self, question: Question, answer: Answer) -> None:
        """Make the answer durable and act on it. It counts when this returns, or when the asker withdraws
        the question meanwhile. Raises AskerGone or Unheard."""


Fate = Callable[[Question], Asker | str | None]
"""Returns who will receive the answer to a question after all, or why nobody will, or None if it was answered
and only the inbox does not know."""
NOBODY = "no part of this daemon asks such questions"


class InboxListener(Protocol):
    """Who is told what is asked and what became of it."""

    def asked(self, question: Question) -> None: ...

    def closed(self, question: Question, answer: Answer) -> None: ...

    def warned(self, question: Question, why: str) -> None:
        """An agent tried to answer for a person."""


class _Waiting:
    """A question that is open."""

    def __init__(self, question: Question, asker: Asker | None) -> None:
        self.question = question
        self.asker = asker
        self.lock = asyncio.Lock()
        self.answer: Answer | None = None  # the one that its asker is being told


class _Closed(Struct, frozen=True):
    """What is remembered of a question that was answered."""

    id: str
    what: str
    answer: Answer
    session: str | None = None
    title: str = ""
    asked_at: float = 0.0


class _Lost(Struct, frozen=True):
    id: str
    why: str


class _Line(Struct, frozen=True, omit_defaults=True):
    """A line of the file: one of these."""

    asked: Question | None = None
    closed: _Closed | None = None
    lost: _Lost | None = None


class Inbox:
    """The questions of a daemon. Without a path nothing is written."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._open: dict[str, _Waiting] = {}  # the oldest first
        self._closed: dict[str, _Closed] = {}  # the oldest first
        self._unclaimed: dict[str, Question] = {}  # asked before this daemon, and not yet again
        self._listeners: list[InboxListener] = []
        self._fates: dict[Kind, Fate] = {}
        self._size = 0
        self._limit = MAX_FILE
        self._is_torn = False  # the last line was not written whole
        self._seen: set[str] = set()  # of those that are open
        self.on_seen: list[Callable[[Question], None]] = []
        """Called with a question that a person has seen."""
        self.on_changed: list[Callable[[Question], None]] = []
        """Called with a question that was asked, or shows something else, or does not wait any more."""

    def listen(self, listener: InboxListener) -> None:
        self._listeners.append(listener)

    # --- what is there --------------------------------------------------------------------------------------

    def open(self, project: str | None = None) -> list[Question]:
        """The questions that wait, lost ones too, the oldest first: of a project, or all."""
        found = (each.question for each in self._open.values())
        return [each for each in found if project is None or each.project == project]

    @property
    def consents(self) -> list[Question]:
        """Those that ask for consent, without what only has to be seen."""
        return [each for each in self.open() if each.is_consent]

    def escalation(self, session: str) -> Question | None:
        """Why the session of this id, short id or name needs a person, if it does and no other is meant."""
        called = [each for each in self.open() if each.kind == "escalation" and each.is_of(session)]
        return called[0] if len(called) == 1 else None

    def known(self, id: str) -> Question | None:
        """The question of this id, if it waits, or waited when the last daemon ended."""
        waiting = self._open.get(id)
        return waiting.question if waiting is not None else self._unclaimed.get(id)

    def asked_in(self, session: str) -> list[AskedQuestion]:
        """The questions of the session of this id, with their answers, as far as they are remembered."""
        closed = [each for each in self._closed.values() if each.session == session]
        found = [AskedQuestion(each.id, each.title, each.what, each.asked_at, each.answer) for each in closed]
        return found + [asked_of(each) for each in self.open() if each.session == session]

    def is_taken(self, id: str) -> bool:
        """Whether a question of this id waits, or did."""
        return self.known(id) is not None or id in self._closed

    def find(self, id: str) -> Question:
        """The question of this id, the only one that begins so, or the only one of the session of this name
        or id. Raises NotOpen."""
        return self._waiting_for(id).question

    def get(self, id: str) -> Question | None:
        """The question of just this id, if it waits."""
        waiting = self._open.get(id)
        return waiting.question if waiting is not None else None

    def _waiting_for(self, id: str) -> _Waiting:
        if waiting := self._open.get(id):
            return waiting
        if closed := self._closed.get(id):
            raise AnsweredAlready(f"{id} {closed.answer.sentence} ({closed.what})")
        is_long = len(id) >= LEAST_PREFIX
        begun = [each for token, each in self._open.items() if is_long and token.startswith(id)]
        asked = [each for each in self._open.values() if each.question.is_of(id, LEAST_PREFIX)]
        meant = {each.question.id: each for each in (*begun, *asked)}
        if len(meant) == 1:
            return next(iter(meant.values()))
        if meant and not asked:
            raise NotOpen(f"{len(begun)} questions begin with {id!r}; give more of the token")
        if meant:
            shown = [f"{token} ({each.question.title})" for token, each in meant.items()]
            more = f" and {len(shown) - MAX_MEANT} more" if len(shown) > MAX_MEANT else ""
            which = f"{', '.join(shown[:MAX_MEANT])}{more}"
            raise NotOpen(f"{len(meant)} questions are meant by {id!r:.80}: {which}; give the token of one")
        if not is_long:
            raise NotOpen(f"{id!r} is too short: give {LEAST_PREFIX} or more characters of the token")
        raise NotOpen(f"no question {id!r:.80} is pending; `fairlead approvals` lists those that are")

    def word_for(self, question: Question, name: str) -> str:
        """What a person types to name a question: the session's name, if no other question is meant."""
        try:
            return name if self.find(name).id == question.id else question.id
        except NotOpen:
            return question.id

    # --- asking and answering -------------------------------------------------------------------------------

    def ask(self, question: Question, asker: Asker) -> None:
        """A question waits, which its asker has made durable. It may be asked again, by the same."""
        self._unclaimed.pop(question.id, None)
        if known := self._open.get(question.id):
            if (known.question.session, known.question.kind) != (question.session, question.kind):
                log.warning("two ask a question with the id %s; one waits", question.id)
                return
            known.asker = asker
            if known.question == question:
                return
            is_new = bool(known.question.lost)
            known.question = question
        else:
            self._closed.pop(question.id, None)
            self._open[question.id] = _Waiting(question, asker)
            is_new = True
        self._write(_Line(asked=_filed(question)))
        if is_new:
            self._tell(lambda listener: listener.asked(question))
        self._changed(question)

    async def answer(self, id: str, option: str, by: str, text: str = "") -> tuple[Question, Answer]:
        """Answer, or say something to a dialog; the first answer counts. What is lost is dismissed by any.

        Raises NotOpen, NoSuchOption, AskerGone or Unheard.
        """
        waiting = self._waiting_for(id)
        id = waiting.question.id
        async with waiting.lock:  # a second answer waits to see what becomes of the first
            if self._open.get(id) is not waiting:
                self._waiting_for(id)
                raise NotOpen(f"question {id!r} is no longer pending")
            question = waiting.question
            said = question.reply(option, text)
            if isinstance(said, str):
                raise NoSuchOption(said)
            # an agent may say no to itself, but to a question an agent asks it is an answer
            agent = calling_agent.get()
            is_free = option == DENY.value and question.is_consent and not question.is_dialog
            if agent and (question.lost or not is_free or agent not in (question.session, A_RULE)):
                raise Unheard(self._warn(waiting, agent, "deny" if option == DENY.value else "allow"))
            by = ITSELF if agent and agent == question.session else agent or by
            answer = msgspec.structs.replace(said, by=by, at=time.time())
            if not question.lost:
                assert waiting.asker is not None
                waiting.answer = answer
                try:
                    await waiting.asker.answered(question, answer)
                except AskerGone as error:
                    self._lose(waiting, str(error))
                    raise AskerGone(f"{id} is lost: {error}") from None
                finally:
                    waiting.answer = None
            self._close(waiting, answer)
        return question, answer

    def _warn(self, waiting: _Waiting, agent: str, done: str) -> str:
        """Tell people, once for each question, that an agent tried to answer it."""
        question = waiting.question
        done = done if question.is_consent and not question.lost else "dismiss"
        done = "answer" if question.is_dialog else done
        why = f"a command of an agent session ({agent:.80}) tried to {done} this; only a person may"
        log.warning("%s: %s", question.id, why)
        if why not in question.reason:
            question = msgspec.structs.replace(question, reason=f"{question.reason}; {why}".lstrip("; "))
            waiting.question = question
            self._write(_Line(asked=_filed(question)))
            self._tell(lambda listener: listener.warned(question, why))
            self._changed(question)
        return f"{question.id} waits on: {why}"

    def note_seen(self, question: Question) -> None:
        """A person has seen a question, and has not answered it yet."""
        self.mark_seen(question.id)
        for tell in self.on_seen:
            tell(question)

    def mark_seen(self, id: str) -> None:
        """The same without telling anybody: a person looks at its session."""
        if id in self._open:
            self._seen.add(id)

    def is_seen(self, id: str) -> bool:
        """True if a person has seen a question since this daemon was started."""
        return id in self._seen

    def withdraw(self, id: str, why: str) -> None:
        """Its asker no longer waits: because of the answer that it is just told, or for a reason of its
        own."""
        if waiting := self._open.get(id):
            self._close(waiting, waiting.answer or Answer(WITHDRAWN, why, time.time()))

    def correct(self, id: str, option: str, by: str) -> None:
        """What was done shows that an answer came too late: another one counted, and that is remembered."""
        if (closed := self._closed.get(id)) is not None:
            answer = msgspec.structs.replace(closed.answer, option=option, by=by, text="")
            self._remember(msgspec.structs.replace(closed, answer=answer))
            self._write(_Line(closed=self._closed[id]))

    def lose(self, id: str, why: str) -> None:
        """Its asker has gone: the question is shown until somebody dismisses it."""
        if (waiting := self._open.get(id)) is not None:
            self._lose(waiting, why)
        elif (question := self._unclaimed.get(id)) is not None:
            self._unclaimed[id] = msgspec.structs.replace(question, lost=why)
            self._write(_Line(lost=_Lost(id, why)))

    def _close(self, waiting: _Waiting, answer: Answer) -> None:
        question = waiting.question
        if self._open.get(question.id) is not waiting:
            return  # its asker was quicker
        del self._open[question.id]
        self._seen.discard(question.id)
        about = question.session, question.title, question.asked_at
        self._remember(_Closed(question.id, question.what, answer, *about))
        self._write(_Line(closed=self._closed[question.id]))
        self._tell(lambda listener: listener.closed(question, answer))
        self._changed(question)

    def _tell(self, tell: Callable[[InboxListener], None]) -> None:
        """Tell everybody who listens; one that fails keeps nothing from the others, nor from who asks."""
        for listener in self._listeners:
            try:
                tell(listener)
            except Exception:
                log.exception("a question could not be shown")

    def _changed(self, question: Question) -> None:
        for tell in self.on_changed:
            tell(question)

    def _remember(self, closed: _Closed) -> None:
        self._closed.pop(closed.id, None)
        self._closed[closed.id] = closed
        if len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]

    def _lose(self, waiting: _Waiting, why: str) -> None:
        waiting.question = msgspec.structs.replace(waiting.question, lost=why)
        waiting.asker = None
        self._write(_Line(lost=_Lost(waiting.question.id, why)))
        self._changed(waiting.question)

    # --- over restarts --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what the last daemon left. Then askers ask again, and `reconcile` is for what they don't."""
        for line in self._read():
            if line.asked is not None:
                self._unclaimed[line.asked.id] = line.asked
            elif line.closed is not None:
                self._unclaimed.pop(line.closed.id, None)
                self._remember(line.closed)
            elif line.lost is not None and line.lost.id in self._unclaimed:
                known = self._unclaimed[line.lost.id]
                self._unclaimed[known.id] = msgspec.structs.replace(known, lost=line.lost.why)

    def register(self, kind: Kind, fate: Fate) -> None:
        """Who asks questions of this kind says what became of those that are not asked again."""
        self._fates[kind] = fate

    def reconcile(self) -> None:
        """Settle what nobody asked again."""
        oldest = time.time() - LOST_KEPT
        for question in list(self._unclaimed.values()):
            fate = self._fates.get(question.kind)
            found = question.lost or (fate(question) if fate is not None else NOBODY)
            if isinstance(found, str):
                if question.asked_at > oldest:
                    lost = msgspec.structs.replace(question, lost=found)
                    self._open[question.id] = _Waiting(lost, None)
            elif found is not None:
                self._open[question.id] = _Waiting(question, found)
        self._unclaimed.clear()
        self._open = dict(sorted(self._open.items(), key=lambda each: each[1].question.asked_at))
        self._compact()

    # --- the file -------------------------------------------------------------------------------------------

    def _read(self) -> list[_Line]:
        if self._path is None:
            return []
        try:
            with open(self._path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_READ))
                lines = file.read(MAX_READ).split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("what waited for an answer can't be read from %s: %s", self._path, error.strerror)
            return []
        found = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                found.append(msgspec.json.decode(line, type=_Line))
        return found

    def _write(self, line: _Line) -> None:
        """Add a line. If that fails, no question and no answer waits for it."""
        if self._path is None:
            return
        try:
            data = _encoded(line)
            if self._is_torn:
                data = b"\n" + data
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self._path, flags, 0o600)
            try:
                self._is_torn = os.write(descriptor, data) < len(data)
                self._size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
        except (OSError, UnicodeEncodeError) as error:
            log.warning("can't write %s: %s", self._path, error)
            return
        if self._size > self._limit:
            self._compact()

    def _compact(self) -> None:
        """Write the file anew, with what still counts."""
        if self._path is None or not (self._open or os.path.lexists(self._path)):
            return
        kept = [_Line(closed=each) for each in self._closed.values()]
        for waiting in self._open.values():
            kept.append(_Line(asked=_filed(waiting.question)))
        data = b"".join(map(_encoded, kept))
        try:
            replace_file(self._path, data)
        except OSError as error:
            log.warning("can't write %s anew: %s", self._path, error.strerror)
        else:
            self._is_torn = False
            self._size = len(data)
        self._limit = max(MAX_FILE, 2 * len(data))


def _filed(question: Question) -> Question:
    whole = middle(question.whole, FILED_WHOLE, "it is not kept in whole after a restart")
    return msgspec.structs.replace(question, whole=whole)


def _encoded(line: _Line) -> bytes:
    return json_bytes(line) + b"\n"
