"""The ops of rpc-edn that drive agent sessions, and what every client is told of them.

Thin: an op finds the session that it means, calls it, and answers. A request means the session that it names,
else the one that its client has in focus, else the first there is; a client for whom there is none gets a new
one. What happens in a session is told to all clients; which session is the active one differs from client to
client, so snapshots of all sessions are made for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ....agent import events
from ....agent.consent.modes import NAMES as MODES
from ....agent.conversation import Conversation
from ....agent.events import ConversationEvent
from ....agent.journal import JournalError, Said
from ....agent.kind import AgentKind
from ....agent.library import Library, Shelf
from ....agent.messages import text_of
from ....agent.models import ModelError, ModelInfo
from ....agent.ports import Busy, ModelSource, Refused
from ....agent.query.registry import InvalidQuery, QueryError, Registry, answer, parse_entity
from ....agent.query.resolvers import SESSION_ID
from ....agent.recall.memory import Memory
from ....agent.store import AgentStore, NotFound, id_of
from ....formats import edn
from ....formats.edn import Keyword
from ....hosted import mcp
from ....hosted.room import HostedRoom
from ....hosted.session import HostedSession
from ....sessions.inbox import calling_agent
from ....sessions.session import new_id
from ....system.files import at_home
from ....wire.acp import McpServer
from ....wire.rpc import ErrorCode, fields
from ....wire.rpc_catalog import OWN_TOPICS, PARAMS
from ...judging import Judging
from .. import frames
from ..handlers import FAULTS, MISSING, Call, Caller, Data, OpError, accepted, handlers_of, invalid, op
from ..history import BadCursor, EventHistory
from ..slash import AgentCommands, commands_of
from ..telling import Telling, hears, missed_by_others
from .contents import AgentContents, Listing
from .dialogs import DialogOps
from .hosted import HostedOps, with_names
from .jobs import AgentJobs, JobBoard
from .login import AgentLogin, Keyring, Lending
from .made import MadeSessions
from .memory import AgentMemory
from .models import AgentModels, checked_model
from .pictures import pictures_of
from .sessions import MAX_ID

_PERSISTED = """[{{(:psi.session/list{})
 [:psi.session-info/path :psi.session-info/name :psi.session-info/first-message]}}]"""
MAX_TRIED = 3
"""How many journals of a directory are tried before a client gets a new session."""
_UI_TOPICS = frozenset(
    {"ui/widgets-updated", "ui/widget-specs-updated", "ui/status-updated", "ui/notification"}
)
_NO_SESSION = (NotFound, JournalError, OpError)
FAULTS |= {
    NotFound: ErrorCode.NOT_FOUND,
    Busy: ErrorCode.SESSION_NOT_IDLE,
    InvalidQuery: ErrorCode.INVALID_QUERY,
    QueryError: ErrorCode.QUERY_FAILED,
    Refused: ErrorCode.FAILED,
    ModelError: ErrorCode.FAILED,
    JournalError: ErrorCode.FAILED,
}
MISSING[NotFound] = AgentKind.names[0]


class Latest(Protocol):
    async def __call__(self, *, name: str | None, cwd: str | None) -> str | None:
        """The file of the session used last, of those with a name or of a directory. Raises JournalError."""


class AgentOps:
    """The agent sessions of a store, for the clients of a door. `callers` are those that are connected."""

    def __init__(
        self,
        store: AgentStore,
        models: ModelSource,
        callers: Callable[[], list[Caller]],
        *,
        registry: Registry | None = None,
        memory: Memory | None = None,
        library: Library | None = None,
        latest: Latest | None = None,
        listed: Listing | None = None,
        keyring: Keyring | None = None,
        judging: Judging | None = None,
        hosted: HostedRoom | None = None,
    ) -> None:
        self._store = store
        self._models = models
        self._callers = callers
        self._registry = registry or Registry((SESSION_ID,))
        self._memory = memory
        self._library = library
        self._latest = latest or _none
        self._judging = judging
        self._hosted = hosted
        self.made = MadeSessions(store)
        self._working: dict[tuple[Caller, str], Conversation] = {}
        self._history = EventHistory()
        self.dialogs = DialogOps(store, callers, self._history, self.session)
        self._board = JobBoard(self.sessions_of)
        self._telling = Telling(
            store, callers, self._history, self._show, self._show_context, self._show_footer, self._board
        )
        login = AgentLogin(keyring, self.session)
        self._lending = Lending(keyring)
        jobs = AgentJobs(self.session, lambda: self.loaded)
        about = AgentContents(self.session, listed)
        choosing = AgentModels(self.session, self.models_for)
        remembering = AgentMemory(memory, self.session)
        self.noted = remembering.noted
        self._commands = AgentCommands(self, login, store.rename)
        others = [HostedOps(hosted, self.session)] if hosted is not None else []
        self.ops = handlers_of(
            self,
            self.dialogs,
            login,
            self._lending,
            jobs,
            about,
            choosing,
            remembering,
            self._commands,
            *others,
        )

    @property
    def loaded(self) -> Sequence[Conversation]:
        return self._store.loaded

    @property
    def models(self) -> Sequence[ModelInfo]:
        return self._models.models()

    def models_of(self, session: Conversation) -> Sequence[ModelInfo]:
        """The models that a session can use."""
        own = session.own_models
        return self.models if own is None else own

    def models_for(self, call: Call) -> Sequence[ModelInfo]:
        """The models that the session of a client can use; if it has none, those of all that are open."""
        if call.session_id is not None or call.caller.focus is not None:
            return self.models_of(self.session(call))
        more = [each for session in self.loaded for each in session.own_models or ()]
        return list({(each.provider, each.id): each for each in (*self.models, *more)}.values())

    # --- which session ------------------------------------------------------------------------------------

    def session(self, call: Call) -> Conversation:
        """The session that a request means."""
        caller = call.caller
        if call.session_id is not None:
            return self.find(call.session_id)
        if caller.focus is not None:
            try:
                return self._store.find(caller.focus)
            except (NotFound, JournalError):
                caller.focus = None
        here = self.sessions_of(caller)
        session = here[-1 if caller.project is not None else 0] if here else self.create(caller)
        caller.focus = session.id
        return session

    def sessions_of(self, caller: Caller) -> list[Conversation]:
        """The sessions that are loaded, of a client's directory if it belongs to one, and its own."""
        return [each for each in self._store.loaded if hears(caller, each)]

    async def prepare(self, call: Call, given: Mapping[str, Any]) -> None:
        """Read what a request will need, if that takes long."""
        meant = [call.session_id or call.caller.focus, given.get("session_path")]
        meant += [given.get("name")] if call.op == "open_session" else []
        for each in meant:
            await self._store.prepare(each)

    async def arrived(self, caller: Caller, wanted: str | None = None) -> None:
        """A client greets. One of a directory gets the session that it wants, the last one of the directory,
        or a new one as its focus."""
        if caller.project is None or caller.focus is not None:
            return
        if wanted is not None:
            await self._store.prepare(wanted)
            with contextlib.suppress(*_NO_SESSION):
                caller.focus = self.find(wanted).id
                return
        paths = await asyncio.to_thread(self._store.journals_of, caller.project)
        for path in paths[:MAX_TRIED]:
            await self._store.prepare(path)
            with contextlib.suppress(*_NO_SESSION):  # one that is broken, or that another program has open
                caller.focus = self.resumed(path).id
                return
        with contextlib.suppress(*_NO_SESSION):  # what needs a session will say why there is none
            caller.focus = self.create(caller).id

    def find(self, id: str) -> Conversation:
        return self._store.find(id)

    async def persisted(self, caller: Caller) -> list[tuple[str, str, str]]:
        """The sessions on disk, of the client's directory if it belongs to one, the last used first: id, what
        to call it, and the journal's path."""
        given = f" {{:worktree-path {edn.dumps(caller.project)}}}" if caller.project is not None else " {}"
        try:
            [rows] = (await answer(self._registry, _PERSISTED.format(given), {})).values()
        except QueryError:
            return [
                (each.id, frames.display_name(each), each.journal.path) for each in self.sessions_of(caller)
            ]
        path, name, first = (Keyword(f"psi.session-info/{key}") for key in ("path", "name", "first-message"))
        ids = [id_of(row[path]) for row in rows]
        labels = [row[name] or row[first] or frames.nameless(id) for id, row in zip(ids, rows)]
        return [(id, label, row[path]) for id, label, row in zip(ids, labels, rows)]

    async def read(self, which: str) -> None:
        """Read a session's journal, if that takes long, before it is found or resumed."""
        await self._store.prepare(which)

    def resumed(self, path: str) -> Conversation:
        return self._store.resume(path)

    def create(
        self,
        caller: Caller,
        parent: Conversation | None = None,
        *,
        cwd: str | None = None,
        agent: str | None = None,
    ) -> Conversation:
        if cwd is not None and not _is_directory(cwd):
            raise invalid("cwd", "the absolute path of a directory")
        if cwd is None and caller.cwd is not None and _is_directory(caller.cwd):
            cwd = caller.cwd
        self.made.check(agent)
        return self.made.note(self._store.create(cwd or os.path.expanduser("~"), parent=parent, agent=agent))

    def like(self, caller: Caller, other: Conversation) -> Conversation:
        """A new session in the directory of another one, with its agent as that is set."""
        if not isinstance(other, HostedSession):
            session = self.create(caller, cwd=str(other.cwd))
            if not calling_agent.get() and other.mode != session.mode:
                session.set_mode(other.mode)
            return session
        self._check_agent(other.agent, None)
        session = self.create(caller, cwd=str(other.cwd), agent=other.agent)
        if isinstance(session, HostedSession):
            session.settings.choose(sandbox=other.is_sandboxed or session.is_sandboxed)
            if mode := other.settings.wanted_mode:
                session.settings.choose(mode=mode)
        return session

    # --- what clients are told ----------------------------------------------------------------------------

    def greeting(self, caller: Caller) -> dict[str, Any]:
        """What a handshake's response says of the session in focus."""
        if caller.focus is None:
            return {}
        session = self.find(caller.focus)
        return {
            "session_id": session.id,
            "model_id": session.model.id,
            "thinking_level": session.effective_thinking,
        }

    def subscribed(self, call: Call, topics: Sequence[str], since: str | None) -> dict[str, Any]:
        """A client subscribed: it is shown how things are. Returns what its response says besides."""
        caller, session = call.caller, self.session(call)
        missed = self._missed(caller, session, since)
        caller.focus = session.id
        if not caller.increments and _UI_TOPICS.intersection(topics or _UI_TOPICS):
            self._board.show(caller, first=True)
        is_psi = not caller.increments and since is None
        if is_psi:
            self.dialogs.ask(caller)
        self._show(caller, session, call.id, since=since)
        for topic, data in missed:
            caller.event(topic, data, id=call.id)
        if not is_psi:
            self.dialogs.ask(caller, call.id)
        self._remind(call, session)
        if since is None and not OWN_TOPICS.intersection(topics):
            return {}  # as psi's clients know it; the cursor came with the snapshot
        replayed = sum(caller.wants(topic) for topic, _ in missed)
        return {"cursor": self._history.cursor(session), "replayed": replayed}

    def _remind(self, call: Call, session: Conversation) -> None:
        """Tell a client once which prompts an earlier daemon has never said."""
        caller = call.caller
        if not session.unsaid or session.id in caller.reminded or not caller.wants("ui/notification"):
            return
        caller.reminded.add(session.id)
        for notice in session.unsaid:
            for topic, data in frames.frames(events.Noticed(session.id, notice)):
                caller.event(topic, data, id=call.id)

    def _missed(self, caller: Caller, session: Conversation, cursor: str | None) -> list[tuple[str, Data]]:
        """What a client was not told since it had a cursor, but for questions: those that wait come after."""
        if cursor is None:
            return []
        try:
            told = self._history.since(session, cursor)
        except BadCursor as error:
            raise invalid("since", error) from None
        told = [(topic, data) for topic, data in told if topic != "ui/dialog-requested"]
        if caller.increments:
            return told
        return missed_by_others(told, session, self._history.cursor(session))

    def cancelled(self, call: Call) -> bool:
        """A client wants a request of its own to end. True if it will, by itself."""
        session = self._working.get((call.caller, call.id))
        if session is None:
            return False
        self._telling.aborting(session, call.caller)
        session.abort()
        return True

    def _show(
        self, caller: Caller, session: Conversation, id: str | None = None, *, since: str | None = None
    ) -> None:
        """How a session, and all of them, are now."""
        self.show_session(caller, session, id, since=since)
        self._show_context(caller, id)

    def show_session(
        self, caller: Caller, session: Conversation, id: str | None = None, *, since: str | None = None
    ) -> None:
        """How a session is now, and for those to whom `subscribe` gives no cursor where they are: they have
        yet to be told what they missed `since` then."""
        if caller.wants("session/updated"):
            cursor = {} if caller.increments else fields(cursor=since or self._history.cursor(session))
            caller.event("session/updated", {**self._updated(session), **cursor}, id=id)
        self._show_footer(caller, session, id)

    def _show_footer(self, caller: Caller, session: Conversation, id: str | None = None) -> None:
        """The footer of a session, and of the one in focus: that tells of the others, and editors show it
        alone."""
        shown = [session]
        if not caller.increments and caller.focus not in (None, session.id):
            shown += [each for each in (self._store.get(str(caller.focus)),) if each is not None]
        if caller.wants("footer/updated"):
            for each in shown:
                caller.event("footer/updated", self._footer(caller, each), id=id)

    def _show_context(self, caller: Caller, id: str | None = None) -> None:
        if caller.wants("context/updated"):
            caller.event("context/updated", self._context(caller), id=id)

    def _updated(self, session: Conversation) -> Data:
        judgement = self._judging.of(session.id) if self._judging is not None else None
        shown = frames.session_updated(session, list(self.shelf(session).prompts.values()))
        return {**shown, **fields(verdict=fields(**judgement.shown))} if judgement is not None else shown

    def _footer(self, caller: Caller, session: Conversation) -> Data:
        beside: list[Conversation] = []
        if caller.project is not None:
            beside = [each for each in self.sessions_of(caller) if each is not session]
        elsewhere = sum(each.session != session.id for each in self.dialogs.waiting(caller))
        told = frames.footer_updated(session, beside, self.verdict(session), elsewhere)
        return {**told, **frames.footer_values(session)} if caller.increments else told

    def verdict(self, session: Conversation) -> str:
        """What verifiers said of a session last, in a few words."""
        judgement = self._judging.of(session.id) if self._judging is not None else None
        return judgement.line if judgement is not None else ""

    def shelf(self, session: Conversation) -> Shelf:
        """The prompts and skills for a session."""
        return self._library.shelf(session.cwd) if self._library is not None else Shelf({}, {}, [])

    def _context(self, caller: Caller) -> Data:
        rows = [
            frames.session_row(each, active=caller.focus, parent=self._store.parent_of(each))
            for each in sorted(self.sessions_of(caller), key=frames.changed_at)
        ]
        return frames.context_updated(rows, caller.focus)

    def heard(self, event: ConversationEvent) -> None:
        """Something happened in a session."""
        self._telling.heard(event)

    def judged(self, session_id: str) -> None:
        """Something was said of a session by verifiers, which editors show with its state."""
        if (session := self._store.get(session_id)) is None:
            return
        for caller in self._callers():
            if not caller.increments and hears(caller, session):
                self.show_session(caller, session)

    def focus(self, call: Call, session: Conversation) -> Data:
        """A client switches to another session: it is shown all of it, then answered."""
        self.enter(call, session)
        self.show(call, session)
        return fields(session_id=session.id, session_file=session.journal.path)

    def enter(self, call: Call, session: Conversation) -> None:
        """A client switches to another session: it is shown the conversation, but not how the session is."""
        call.caller.focus = session.id
        call.caller.event("session/resumed", frames.resumed(session), id=call.id)
        messages = self._messages(call.caller, session)
        call.caller.event("session/rehydrated", frames.rehydrated(session, messages), id=call.id)
        self._remind(call, session)

    def show(self, call: Call, session: Conversation) -> None:
        """How a session, and all of them, are now."""
        self._show(call.caller, session, call.id)

    def _messages(self, caller: Caller, session: Conversation) -> list[Data]:
        branch = frames.recent(session.journal.branch)
        if caller.increments:
            return frames.transcript(branch)
        return [frames.for_editor(row) for row in frames.shown_transcript(branch)]

    # --- talking ------------------------------------------------------------------------------------------

    @op
    async def prompt(self, call: Call, message: str, images: Any = ()) -> Data:
        session = self.session(call)
        pictures = pictures_of(images, session)
        if self._commands.logs_in(call.caller):
            self._commands.enter_key(call, session, message)
            return fields(accepted=True)
        is_typed = not call.caller.increments and not calling_agent.get()  # by a person, perhaps with a slash
        if is_typed and not pictures and self._commands.knows(session, message):
            await self._commands.said_as_prompt(call, session, message)
            return fields(accepted=True)
        await self._lending.ensure(session.keys_of, call.caller)
        id = self.typed(call)
        self._remind(call, session)
        session.prompt(message, pictures, id=id)
        self._telling.begun(session, call)
        return accepted(call, id)

    @staticmethod
    def typed(call: Call) -> str:
        """The id of a prompt that a client's person typed: the client shows it already."""
        id = new_id()
        call.caller.typed.append(id)
        return id

    def asks_for_key(self, call: Call) -> bool:
        """Whether a client is asked for a key before its request is done."""
        try:
            session = self.session(call)
        except _NO_SESSION:
            return False
        return bool(self._lending.due(session.keys_of, call.caller))

    @op
    async def steer(self, call: Call, message: str, images: Any = ()) -> Data:
        id = self.typed(call)
        await self._steered(call, message, images, id)
        return accepted(call, id)

    @op
    async def say(self, call: Call, message: str, prompt_id: str, images: Any = ()) -> Data:
        if len(prompt_id) > MAX_ID:
            raise invalid("prompt-id", f"at most {MAX_ID} characters")
        id = new_id(prompt_id)
        if not self.session(call).has_prompt(id):
            await self._steered(call, message, images, id)
        return fields(accepted=True, prompt_id=id)

    async def _steered(self, call: Call, message: str, images: Any, id: str) -> bool:
        """False if the turn is being ended, so that it will be said after it."""
        session = self.session(call)
        pictures = pictures_of(images, session)
        await self._lending.ensure(session.keys_of, call.caller)
        self._remind(call, session)
        return session.steer(message, pictures, id=id)

    @op
    async def follow_up(self, call: Call, message: str, images: Any = ()) -> Data:
        id = self.typed(call)
        await self._queued(call, message, images, id)
        return accepted(call, id)

    async def _queued(self, call: Call, message: str, images: Any, id: str) -> None:
        session = self.session(call)
        pictures = pictures_of(images, session)
        await self._lending.ensure(session.keys_of, call.caller)
        self._remind(call, session)
        session.follow_up(message, pictures, id=id)

    @op
    async def prompt_while_streaming(
        self, call: Call, message: str, behavior: str = "steer", images: Any = ()
    ) -> Data:
        id = self.typed(call)
        if behavior == "queue":
            await self._queued(call, message, images, id)
        elif not await self._steered(call, message, images, id):
            behavior = "coerced-follow-up"
        return accepted(call, id, behavior=behavior)

    @op
    async def abort(self, call: Call, prompt_id: str = "") -> Data:
        """End the turn; and if a prompt of `say` waits, with the id that was chosen for it, don't say it."""
        session = self.session(call)
        self._telling.aborting(session, call.caller)
        if prompt_id:
            session.prompts.drop("aborted before it was sent", new_id(prompt_id))
        dropped = session.abort()
        if not dropped:
            return fields(accepted=True)
        note = f"Not sent, because the turn was aborted: {dropped}"
        shown = fields(id=call.id, message=note, level="warning", extension_id="fairlead")
        call.caller.event("ui/notification", shown, id=call.id)
        return fields(accepted=True, dropped_steering_text=dropped)

    @op
    async def abort_bash(self, call: Call) -> Data:
        return await self.abort(call)

    @op
    async def abort_retry(self, call: Call) -> Data:
        self.session(call).abort_retry()
        return fields(accepted=True)

    @op
    async def interrupt(self, call: Call, at_word: bool = False) -> Data:
        accepted, pending, dropped = self.session(call).interrupt(at_word=at_word)
        return fields(accepted=accepted, pending=pending, dropped_steering_text=dropped)

    # --- sessions -----------------------------------------------------------------------------------------

    @op
    async def new_session(self, call: Call, parent_session: Any = None, name: str = "") -> Data:
        if call.session_id is not None:
            self.find(call.session_id)
        if name:
            await self._store.check_name(name)
        is_child = isinstance(parent_session, str) and parent_session
        session = self.create(call.caller, self.find(parent_session) if is_child else None)
        if name:
            call.caller.focus = session.id
            session.set_name(name)
        return self.focus(call, session)

    @op
    async def open_session(
        self,
        call: Call,
        name: str | None = None,
        continue_: bool = False,
        cwd: str | None = None,
        agent: str | None = None,
        mode: str | None = None,
        model: str | None = None,
        sandbox: bool | None = None,
        mcp_servers: list[Any] | None = None,
        once: bool = False,
    ) -> Data:
        """The session with a name, or the last one of a directory, or a new one: with our own agent, or with
        another one."""
        caller = call.caller
        cwd = at_home(cwd) if cwd is not None else None
        session = await self._known(name, cwd or caller.cwd) if name or continue_ else None
        is_new = session is None
        if (by := calling_agent.get()) and (mode is not None or sandbox is False or mcp_servers):
            what = "mode" if mode is not None else "sandbox" if sandbox is False else "MCP servers"
            raise Refused(f"only a person may choose the {what}, and a command of an agent ({by:.80}) asks")
        if by and session is not None and model and by not in (session.id, self.made.by(session.id)):
            raise Refused(f"only a person may choose the model, and a command of an agent ({by:.80}) asks")
        is_hosted = agent is not None if session is None else isinstance(session, HostedSession)
        if mode is not None and not is_hosted and mode not in MODES:
            raise Refused(f"Fairlead's own agent has no mode {mode[:80]!r}; it has {', '.join(MODES)}")
        servers = self._servers(is_hosted, mcp_servers) if mcp_servers else ()
        if agent is not None:
            self._check_agent(agent, session)
        of = agent if session is None else session.journal.header.agent
        chosen = checked_model(self._models, of, model) if model else None
        if session is None:
            if name:
                await self._store.check_name(name)
            session = self.create(caller, cwd=cwd, agent=agent)
            if isinstance(session, HostedSession) and sandbox is not None:
                session.settings.choose(sandbox=sandbox)
        elif sandbox is not None and sandbox is not session.more.get("sandbox"):
            raise Refused(f"the sandbox of {frames.display_name(session)} can't be changed: use another name")
        if mode is not None:
            session.set_mode(mode)
        if chosen is not None:
            session.set_model(*chosen)
        if isinstance(session, HostedSession):
            if servers and self._hosted is not None:
                self._hosted.give_servers(session, servers)
            if is_new or not by or by == self.made.by(session.id):
                session.is_used_once = once
        caller.focus = session.id
        if is_new and name:
            session.set_name(name)
        session.note_use(is_one_shot=once and (session.is_one_shot or (is_new and not name)))
        cursor = self._history.cursor(session)
        return fields(session_id=session.id, session_file=session.journal.path, created=is_new, cursor=cursor)

    def _servers(self, is_hosted: bool, rows: list[Any]) -> tuple[McpServer, ...]:
        if not is_hosted or self._hosted is None:
            raise Refused("passing MCP servers is supported only by hosted sessions")
        try:
            return mcp.given(with_names(rows))
        except ValueError as error:
            raise invalid("mcp-servers", error) from None

    def _check_agent(self, agent: str, session: Conversation | None) -> None:
        """Raises if a session is with another agent, or there is no such agent."""
        if self._hosted is None:
            raise OpError(ErrorCode.FAILED, "third-party agents need the daemon")
        if session is not None and session.journal.header.agent != agent:
            other = session.journal.header.agent or "Fairlead's own agent"
            raise Refused(f"{frames.display_name(session)} is a session with {other}; choose another name")
        self._hosted.check(agent)

    async def named(self, name: str) -> Conversation | None:
        """The session of an id, or of a name."""
        return await self._known(name, None)

    async def _known(self, name: str | None, cwd: str | None) -> Conversation | None:
        """The session of an id, or used last with a name, or else of a directory."""
        if name:
            with contextlib.suppress(NotFound, JournalError):
                return self._store.find(name)
        for session in reversed(self._store.loaded):
            if session.name == name if name else str(session.cwd) == cwd:
                return session
        path = await self._latest(name=name, cwd=None if name else cwd)
        await self._store.prepare(path)
        return self.resumed(path) if path is not None else None

    @op
    async def switch_session(self, call: Call, session_path: str | None = None) -> Data:
        if session_path is None and call.session_id is None:
            raise invalid("session-path", PARAMS["session-path"].wanted)
        try:
            session = self.session(call) if session_path is None else self.resumed(session_path)
        except NotFound:
            unlisted = "session id not found in context session index"
            why = unlisted if session_path is None else "session file not found"
            raise OpError(ErrorCode.NOT_FOUND, why) from None
        if not call.caller.increments:  # psi's UI forgets, with the response, what it was shown before
            asyncio.get_running_loop().call_soon(self._show, call.caller, session)
        return self.focus(call, session)

    @op
    async def list_sessions(self, call: Call) -> Data:
        rows = [
            frames.listed_row(each, parent=self._store.parent_of(each))
            for each in sorted(self.sessions_of(call.caller), key=frames.changed_at)
        ]
        return fields(active_session_id=call.caller.focus, sessions=rows)

    @op
    async def fork(self, call: Call, entry_id: str) -> Data:
        return self.focus(call, await self.forked(self.session(call), entry_id))

    async def forked(self, session: Conversation, entry_id: str) -> Conversation:
        self.made.check()
        try:
            return self.made.note(await self._store.fork(session, entry_id))
        except JournalError as error:
            raise invalid("entry-id", error) from None

    @op
    async def set_session_name(self, call: Call, name: str) -> Data:
        session = self.session(call)
        await self._store.rename(session, name)
        return fields(session_name=session.name)

    # --- models -------------------------------------------------------------------------------------------

    @op
    async def compact(self, call: Call, custom_instructions: str = "") -> Data:
        with self._work(call) as session:
            summary = await session.compact(custom_instructions)
        return fields(compacted=True, summary=summary)

    @contextlib.contextmanager
    def _work(self, call: Call) -> Iterator[Conversation]:
        """The session of a request that takes long, and that `cancel` can end."""
        place = call.caller, call.id
        session = self._working[place] = self.session(call)
        try:
            yield session
        finally:
            del self._working[place]

    @op
    async def set_auto_compaction(self, call: Call, enabled: bool) -> Data:
        session = self.session(call)
        session.auto_compaction = enabled
        self._telling.heard(events.Updated(session.id))
        return fields(enabled=enabled)

    @op
    async def set_auto_retry(self, call: Call, enabled: bool) -> Data:
        session = self.session(call)
        session.auto_retry = enabled
        self._telling.heard(events.Updated(session.id))
        return fields(enabled=enabled)

    # --- looking ------------------------------------------------------------------------------------------

    @op
    async def get_state(self, call: Call) -> Data:
        return fields(state=self._state(self.session(call)))

    @op
    async def get_view(self, call: Call) -> Data:
        session = self.session(call)
        more = fields(
            title=frames.title(session) or None,
            mode=session.mode or None,
            modes=[fields(id=each, name=session.mode_names.get(each, each)) for each in session.modes],
            options=frames.options(session),
            answer=frames.pieces(session),
            begun=frames.begun(session),
        )
        return fields(state={**self._state(session), **more})

    def _state(self, session: Conversation) -> Data:
        more = fields(
            auto_retry_enabled=session.auto_retry,
            auto_compaction_enabled=session.auto_compaction,
            steering_messages=[text_of(said) for said in session.prompts.steering],
            follow_up_messages=[text_of(said) for said in session.prompts.follow_ups],
            worktree_path=str(session.cwd),
            context_tokens=session.context_tokens,
            context_window=session.model.window,
        )
        return {**self._updated(session), **more}

    @op
    async def query_eql(self, call: Call, query: str, entity: str | None = None) -> Data:
        asked = {SESSION_ID: self.session(call).id}
        if entity is not None:
            with contextlib.suppress(QueryError, InvalidQuery):  # one that can't be read is none
                asked |= parse_entity(entity)
        return fields(result=await answer(self._registry, query, asked))

    @op
    async def get_messages(self, call: Call, from_: int = 0, limit: int | None = None) -> Data:
        """All messages, or some: from which on, counted from 0, and how many."""
        session = self.session(call)
        wanted = slice(from_, None if limit is None else from_ + limit)
        if not call.caller.increments:
            rows = self._messages(call.caller, session)
            return fields(messages=rows[wanted], total=len(rows))
        said = [entry for entry in session.journal.branch if isinstance(entry.body, Said)]
        shown = frames.recent(said[wanted])
        first = from_ + len(said[wanted]) - len(shown)  # of too many, the last
        return fields(messages=frames.transcript(shown), first=first, total=len(said))

    @op
    async def get_commands(self, call: Call) -> Data:
        session = self.session(call)
        pages = self.shelf(session).prompts.values()
        rows = [*commands_of(session).items(), *((f"/{page.name}", page.description) for page in pages)]
        return fields(commands=[fields(name=name, description=what) for name, what in rows])

    @op
    async def bash(self, call: Call, command: str) -> Data:
        with self._work(call) as session:
            result = await session.bash(command)
        return fields(output=result.text, is_error=result.is_error, details=frames.plain(result.details))


async def _none(*, name: str | None, cwd: str | None) -> None:
    """Nothing is known of journals that are not open."""


def _is_directory(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and os.path.isdir(path)
