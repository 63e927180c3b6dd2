"""All agent sessions of a daemon: where their journals are, making, finding, forking them, and their tree.

A session is loaded when somebody wants it, and the least used ones are let go again, so that hundreds of
journals cost nothing at the start. Only sessions in which something waits for an answer are loaded then: each
has a mark beside the journals while that is so.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..sessions.directory import NameTaken
from ..sessions.inbox import Asker, AskerGone, Inbox, Unheard
from ..sessions.questions import ALWAYS, Answer, Question
from ..system.garbage import lasting
from . import context
from .consent.approvals import question_of
from .conversation import Conversation
from .events import Approval, ApprovalSettled, ApprovalWanted, ConversationEvent, Loaded, Unloaded, Updated
from .journal import Journal, JournalError, directory_of
from .ports import Judge, ModelSource, Refused
from .session import AgentSession
from .tools import Tool

MAX_LOADED = 256
"""How many sessions may be loaded at the same time, unless more are busy."""
TRASH = "trash"
"""The directory beside that of the journals to which those of removed sessions are moved."""
MAX_LOOKED_AT = 200
"""How many journals of a directory are looked into for those that belong to it, the last used first."""
MAX_SLUG = 100
"""How many characters of a project's path the name of its directory has."""

QUICK_JOURNAL = 1024 * 1024
"""How many bytes a journal may have that is read on the loop; a longer one is read in a thread."""
WAITING_WAIT = 5.0
"""Seconds that the sessions in which something waits may take to be read before clients are let in."""
_GONE = "the journal of the session that asked is gone"
_SHOWN_ID = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


class NotFound(Exception):
    """There is no such session."""


MakeHosted = Callable[[Journal, context.Past | None, Callable[[ConversationEvent], None], bool], Conversation]
"""Makes a session over a journal that names an agent: with its past, who listens, and whether the journal is
ours."""


class Place(NamedTuple):
    """What a session in a directory works with."""

    tools: Mapping[str, Tool]
    judge: Judge
    system: str
    environment: Mapping[str, str]
    notices: Sequence[str] = ()
    """What a person should know of the directory when a turn begins there."""


class AgentStore:
    """The sessions, by id. What waits for an answer in them is in the inbox, and its answers come here."""

    def __init__(
        self,
        directory: str,
        models: ModelSource,
        place: Callable[[Path], Place],
        listen: Callable[[ConversationEvent], None],
        is_watched: Callable[[str], bool] = lambda id: False,
        inbox: Inbox | None = None,
        check_free: Callable[[str], Awaitable[None]] | None = None,
        hosted: MakeHosted | None = None,
        let_begin: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`check_free` raises NameTaken if a session of another kind has a name. `hosted` makes the sessions
        whose work third-party agents do. Turns that began wait for `let_begin`."""
        self.directory = directory
        self.inbox = inbox if inbox is not None else Inbox()
        self.inbox.register("consent", self.fate)
        self.inbox.register("permission", self.fate)
        self._hosted = hosted
        self._let_begin = let_begin
        self._marked: set[str] = set()
        self._is_watched = is_watched
        self._check_free = check_free
        self._models = models
        self._place = place
        self._listen = listen
        self._loaded: dict[str, Conversation] = {}  # the least used first
        # by path: what `prepare` reads, or has read
        self._reading: dict[str, asyncio.Future[tuple[Journal, context.Past]]] = {}

    @property
    def loaded(self) -> Sequence[Conversation]:
        return list(self._loaded.values())

    # --- life -----------------------------------------------------------------------------------------------

    def open(self) -> list[str]:
        """Load the sessions in which something waits; gives what could not be loaded, and why."""
        faults = []
        os.makedirs(self._marks, mode=0o700, exist_ok=True)
        self._marked = set(os.listdir(self._marks))
        for id in sorted(self._marked):
            try:
                session = self.find(id)
            except (NotFound, JournalError) as error:
                faults.append(str(error))
                continue
            except Exception as error:  # whatever a file has in it: the others must be loaded
                faults.append(f"session {id}: {type(error).__name__}: {error}")
                continue
            if not self._must_go_on(session):
                self._mark(id, waits=False)
        return faults

    def close(self) -> list[asyncio.Task[None]]:
        """Let go of all sessions; gives what their turns still do."""
        turns = [session.turn for session in self.loaded if session.turn is not None]
        for session in self.loaded:
            self._close(session)
        for reading in self._reading.values():
            if reading.done() and reading.exception() is None:
                reading.result()[0].close()
        return turns

    def _close(self, session: Conversation) -> None:
        session.close()
        del self._loaded[session.id]
        self._listen(Unloaded(session.id))

    # --- sessions -------------------------------------------------------------------------------------------

    def create(
        self, cwd: str, *, parent: Conversation | None = None, agent: str | None = None
    ) -> Conversation:
        """A new session: our own, or one with an agent of this name. Raises JournalError."""
        id = str(uuid.uuid4())
        parent_path = parent.journal.path if parent is not None else None
        path = self._new_path(cwd, id)
        journal = Journal.create(path, id=id, cwd=cwd, parent_session=parent_path, agent=agent)
        return self._load(journal)

    async def rename(self, session: Conversation, name: str) -> None:
        """Give a session another name. Raises Refused or JournalError."""
        if name != session.name:
            await self.check_name(name)
        session.set_name(name)

    async def check_name(self, name: str) -> None:
        """Raises Refused if a session of another kind has this name, or if it is the id of one."""
        try:
            if self._check_free is not None:
                await self._check_free(name)
        except NameTaken as error:
            raise Refused(str(error)) from None

    def remove(self, session: Conversation) -> str:
        """Let go of a session and move its journal to the trash; returns where that is. Raises Refused or
        JournalError."""
        path, home = session.journal.path, os.path.realpath(self.directory)
        if not path.startswith(f"{home}/"):
            raise Refused(f"{path} is not one of Fairlead's journals: remove the file itself")
        kept = os.path.join(os.path.dirname(home), TRASH, os.path.relpath(path, home))
        try:
            os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            os.rename(path, kept)
        except OSError as error:
            raise JournalError(f"can't move {path} to the trash: {error.strerror}") from None
        self._close(session)
        return kept

    def get(self, id: str) -> Conversation | None:
        """The session of this id if it is loaded."""
        return self._loaded.get(id)

    def find(self, id: str) -> Conversation:
        """The session of this id, loaded if need be. Raises NotFound or JournalError."""
        session = self._loaded.pop(id, None)
        if session is None:
            return self.resume(self._path_of(id))
        self._loaded[id] = session  # it is the last used now
        return session

    def resume(self, path: str) -> Conversation:
        """The session of a journal, ours or Pi's. Raises NotFound or JournalError."""
        path = os.path.realpath(path)
        for session in self._loaded.values():
            if session.journal.path == path:
                return session
        if not os.path.isfile(path):
            raise NotFound(f"Session file not found: {path}")
        reading = self._reading.get(path)
        if reading is not None and not reading.done():
            raise JournalError(f"{path} is being read; try again")
        self._reading.pop(path, None)
        return self._load(*(reading.result() if reading is not None else _read(path)))

    async def prepare(self, which: str | None) -> None:
        """Read a long journal in a thread, by a session's id or the path, before `find` or `resume`."""
        with contextlib.suppress(NotFound, OSError):
            if not which or which in self._loaded:
                return
            path = os.path.realpath(which) if "/" in which else os.path.realpath(self._path_of(which))
            if os.path.getsize(path) < QUICK_JOURNAL:
                return
            if any(session.journal.path == path for session in self._loaded.values()):
                return
            if path not in self._reading:
                loop = asyncio.get_running_loop()
                self._reading[path] = loop.run_in_executor(None, _read_apart, path)
            await asyncio.wait([self._reading[path]])

    async def prepare_waiting(self, seconds: float = WAITING_WAIT) -> None:
        """The same for those that `open` loads. One that takes longer is loaded when somebody answers it."""
        if reading := [asyncio.ensure_future(self.prepare(id)) for id in waiting_in(self.directory)]:
            await asyncio.wait(reading, timeout=seconds)

    def journals_of(self, cwd: str) -> list[str]:
        """The files of a directory's sessions, the last used first."""
        found: list[tuple[int, str]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder(cwd)) as files:
            for file in files:
                if file.name.endswith(".jsonl"):
                    with contextlib.suppress(OSError):
                        found.append((file.stat().st_mtime_ns, file.path))
        newest = [path for _, path in sorted(found, reverse=True)[:MAX_LOOKED_AT]]
        return [path for path in newest if directory_of(path) == cwd]

    async def fork(self, session: Conversation, entry_id: str) -> Conversation:
        """A new session with all up to an entry, or up to the answer to it if it is a prompt.

        Raises JournalError or Refused.
        """
        if session.journal.header.agent is not None:
            raise Refused(f"forking is not supported by {session.kind} sessions")
        id = str(uuid.uuid4())
        last = context.end_of_turn(session.journal.branch, entry_id)
        path = self._new_path(str(session.cwd), id)
        forked = await asyncio.to_thread(session.journal.fork, path, id=id, upto=last)
        return self._load(forked, is_fork=True)

    def parent_of(self, session: Conversation) -> str | None:
        """The id of the session that this one came from."""
        path = session.journal.header.parent_session
        return id_of(path) if path is not None else None

    def _load(
        self, journal: Journal, past: context.Past | None = None, *, is_fork: bool = False
    ) -> Conversation:
        id = journal.header.id
        why = ""
        if not _ID.fullmatch(id):
            why = f"{journal.path} has an id that can't be one: {id!r:.80}"
        elif id in self._loaded:
            why = f"{journal.path} is a copy of {self._loaded[id].journal.path}, which is open"
        if why:
            journal.close()
            raise JournalError(why)
        session = self._made(journal, past, is_fork=is_fork)
        session.let_begin = self._let_begin
        if self._is_id_of_another(session.name, session.id):
            session.name = ""
        self._loaded[session.id] = session
        self._listen(Loaded(session.id))
        for approval in session.approvals.values():
            self.inbox.ask(self._question(session, approval), self)
        session.go_on()
        self._let_go()
        return session

    def _made(self, journal: Journal, past: context.Past | None, *, is_fork: bool) -> Conversation:
        is_ours = journal.path.startswith(f"{os.path.realpath(self.directory)}/")
        if (agent := journal.header.agent) is not None:
            if self._hosted is None:
                journal.close()
                raise JournalError(f"{journal.path} is of the agent {agent}, which only the daemon can host")
            return self._hosted(journal, past, self._happened, is_ours)
        place = self._place(Path(journal.header.cwd))
        return AgentSession(
            journal,
            self._models,
            place.tools,
            place.judge,
            self._happened,
            system=place.system,
            environment=place.environment,
            is_ours=is_ours,
            is_fork=is_fork,
            past=past,
            notices=place.notices,
        )

    def _is_id_of_another(self, name: str, own: str) -> bool:
        """Whether a journal gives its session a name that is another's id, or what lists show of that."""
        if not _SHOWN_ID.fullmatch(name):
            return False
        files = glob.glob(f"{glob.escape(self.directory)}/*/*_{name}*.jsonl")
        return any(id != own and id.startswith(name) for id in (*self._loaded, *map(id_of, files)))

    def _let_go(self) -> None:
        """Close what is idle and was not used for long, if there is too much."""
        for session in list(self._loaded.values())[:-1]:
            if len(self._loaded) <= MAX_LOADED:
                break
            is_quiet = session.is_idle and not self._must_go_on(session) and not session.is_held
            if is_quiet and not self._is_watched(session.id):
                self._close(session)

    # --- what they say --------------------------------------------------------------------------------------

    def _happened(self, event: ConversationEvent) -> None:
        if event.session_id not in self._loaded:
            return  # the last words of one that was let go: whoever looked it up would load it again
        if isinstance(event, ApprovalWanted):
            self._mark(event.session_id, waits=True)
            session = self._loaded[event.session_id]
            self.inbox.ask(self._question(session, event.approval), self)
        elif isinstance(event, ApprovalSettled):
            if not self._must_go_on(self._loaded[event.session_id]):
                self._mark(event.session_id, waits=False)
            self.inbox.withdraw(event.approval.id, event.by)
        elif isinstance(event, Updated):
            self._mark_if_it_goes_on(self._loaded[event.session_id])
        self._listen(event)

    def _mark_if_it_goes_on(self, session: Conversation) -> None:
        waits = self._must_go_on(session)
        if waits is not (session.id in self._marked):
            self._mark(session.id, waits=waits)

    @staticmethod
    def _must_go_on(session: Conversation) -> bool:
        """Whether the next daemon has to load a session at once: also to say what was never said."""
        is_left = bool(session.approvals or session.unsaid or session.prompts.queued)
        return is_left or (session.outlives_daemon and not session.is_idle)

    # --- what they ask --------------------------------------------------------------------------------------

    def _question(self, session: Conversation, approval: Approval) -> Question:
        return question_of(
            approval,
            session=session.id,
            name=session.name,
            project=str(session.cwd),
            journal=session.journal.path,
        )

    async def answered(self, question: Question, answer: Answer) -> None:
        """Pass an answer to the session that asked, which is loaded for that if need be."""
        await self.prepare(question.session)
        try:
            session = self.find(question.session or "")
            lasts = answer.option == ALWAYS.value
            session.settle(question.id, answer.allows, answer.by, lasts=lasts, option=answer.option)
        except NotFound:
            raise AskerGone(_GONE) from None
        except Refused:
            raise AskerGone("its session no longer waits for it") from None
        except JournalError as error:
            raise Unheard(f"can't save the answer: {error}") from None

    def fate(self, question: Question) -> Asker | str | None:
        """What became of a question that no session asks any more: see `Inbox.reconcile`."""
        try:
            self.find(question.session or "")
        except NotFound:
            return _GONE
        except JournalError:
            return self  # it may be read again when somebody answers
        return None

    @property
    def _marks(self) -> str:
        return _marks_in(self.directory)

    def _mark(self, id: str, *, waits: bool) -> None:
        path = f"{self._marks}/{id}"
        (self._marked.add if waits else self._marked.discard)(id)
        if waits:
            os.makedirs(self._marks, mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    # --- places ---------------------------------------------------------------------------------------------

    def _folder(self, cwd: str) -> str:
        """Where the journals of a directory are. Others whose path is spelled alike have theirs there too."""
        slug = "--" + re.sub(r"[^0-9A-Za-z._]+", "-", cwd.strip("/"))[-MAX_SLUG:] + "--"
        return f"{os.path.realpath(self.directory)}/{slug}"

    def _new_path(self, cwd: str, id: str) -> str:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")[:-3] + "Z"
        return f"{self._folder(cwd)}/{moment}_{id}.jsonl"

    def _path_of(self, id: str) -> str:
        found = glob.glob(f"{glob.escape(self.directory)}/*/*_{id}.jsonl") if _ID.fullmatch(id) else []
        if not found:
            raise NotFound(f"Session not found in context: {id}")
        return found[0]


def _read(path: str) -> tuple[Journal, context.Past]:
    journal = Journal.open(path)
    return journal, context.past_of(journal)


def _read_apart(path: str) -> tuple[Journal, context.Past]:
    """The same in a thread. A long journal has millions of values and no cycles."""
    with lasting():
        return _read(path)


def _marks_in(directory: str) -> str:
    return f"{directory}/.waiting"


def waiting_in(directory: str) -> frozenset[str]:
    """The ids of the sessions in a directory of journals in which something waits for an answer."""
    try:
        return frozenset(os.listdir(_marks_in(directory)))
    except OSError:
        return frozenset()


def id_of(path: str) -> str:
    """The session's id in the name of its journal."""
    return os.path.basename(path).removesuffix(".jsonl").rpartition("_")[2]
