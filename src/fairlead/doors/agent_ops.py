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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..agent import events
from ..agent.events import Event
from ..agent.export import html
from ..agent.images import MAX_IMAGES, checked_images
from ..agent.journal import Entry, JournalError, Said
from ..agent.library import Library, Shelf
from ..agent.memory import Memory
from ..agent.messages import Assistant, Image, User, text_of
from ..agent.models import ModelError, ModelInfo
from ..agent.query import InvalidQuery, QueryError, Registry, answer, parse_entity
from ..agent.resolvers import SESSION_ID
from ..agent.session import AgentSession, Busy, Models, Phase, Refused
from ..agent.store import AgentStore, NotFound, id_of
from ..formats import edn
from ..formats.edn import Keyword
from ..opening import UNFOLLOWED
from ..sessions.inbox import AnsweredAlready, AskerGone, NoSuchOption, NotOpen, Unheard
from ..sessions.questions import Answer, Question
from ..wire.rpc import ErrorCode, Request, fields
from ..wire.rpc_catalog import OWN_TOPICS
from . import agent_frames as frames
from .agent_commands import HELP, AgentCommands
from .agent_history import BadCursor, History
from .agent_jobs import AgentJobs, JobBoard
from .agent_login import AgentLogin, Keyring, Lending
from .agent_memory import AgentMemory
from .agent_models import AgentModels, word
from .agent_telling import Asked, Telling, hears, missed_by_others
from .judging import Judging
from .rpc import Caller, CallerHandler, OpError

Data = Mapping[Any, Any]

SHOWN_DIALOGS = 50
"""How many questions a client is asked when it comes; the others are in `fairlead approvals`."""
_PERSISTED = """[{{(:psi.session/list{})
 [:psi.session-info/path :psi.session-info/name :psi.session-info/first-message]}}]"""
WRITTEN = 1024 * 1024
"""How many characters of a page are written in one go: others can't run while they are encoded."""
MAX_TRIED = 3
"""How many journals of a directory are tried before a client gets a new session."""
_UI_TOPICS = frozenset(
    {"ui/widgets-updated", "ui/widget-specs-updated", "ui/status-updated", "ui/notification"}
)
_ALLOWED = ("allow", "always", "yes", "true", "submitted")
"""Results of a dialog that mean consent."""


class Latest(Protocol):
    """Looks through the journals."""

    async def __call__(self, *, name: str | None, cwd: str | None) -> str | None:
        """The file of the session used last, of those with a name or of a directory. Raises JournalError."""


class AgentOps:
    """The agent sessions of a store, for the clients of a door. `callers` are those that are connected."""

    def __init__(
        self,
        store: AgentStore,
        models: Models,
        callers: Callable[[], list[Caller]],
        *,
        registry: Registry | None = None,
        memory: Memory | None = None,
        library: Library | None = None,
        latest: Latest | None = None,
        keyring: Keyring | None = None,
        judging: Judging | None = None,
    ) -> None:
        self._store = store
        self._inbox = store.inbox
        self._inbox.listen(self)
        self._models = models
        self._callers = callers
        self._registry = registry or Registry((SESSION_ID,))
        self._memory = memory
        self._library = library
        self._latest = latest or _none
        self._judging = judging
        self._working: dict[tuple[Caller, str], AgentSession] = {}
        self._history = History()
        self._board = JobBoard(self.sessions_of)
        self._telling = Telling(
            store, callers, self._history, self._show, self._show_context, self._show_footer, self._board
        )
        self._ops: dict[str, CallerHandler] = {
            name: getattr(self, f"_{name}")
            for name in (
                "prompt",
                "prompt_while_streaming",
                "steer",
                "follow_up",
                "abort",
                "abort_retry",
                "interrupt",
                "new_session",
                "open_session",
                "switch_session",
                "list_sessions",
                "fork",
                "set_session_name",
                "compact",
                "set_auto_compaction",
                "set_auto_retry",
                "get_state",
                "get_messages",
                "get_session_stats",
                "get_fork_messages",
                "get_last_assistant_text",
                "resolve_dialog",
                "cancel_dialog",
                "query_eql",
                "bash",
                "export_html",
                "get_commands",
            )
        }
        self._ops["abort_bash"] = self._abort
        login = AgentLogin(keyring, self.session)
        self._lending = Lending(keyring)
        self._ops |= login.ops | self._lending.ops
        self._ops |= AgentJobs(self.session, lambda: self.loaded).ops
        self._ops |= AgentModels(self.session, lambda: self.models).ops
        remembering = AgentMemory(memory, self.session)
        self._ops |= remembering.ops
        self.noted = remembering.noted
        self._commands = AgentCommands(self, login)
        self._ops["command"] = self._commands.command
        self._ops["frontend_action_result"] = self._commands.frontend_action_result

    @property
    def ops(self) -> Mapping[str, CallerHandler]:
        return self._ops

    @property
    def loaded(self) -> Sequence[AgentSession]:
        return self._store.loaded

    @property
    def models(self) -> Sequence[ModelInfo]:
        return self._models.models()

    # --- which session ------------------------------------------------------------------------------------

    def session(self, request: Request, caller: Caller) -> AgentSession:
        """The session that a request means."""
        id = request.get("session-id")
        if id is not None:
            return self.found(id)
        if caller.focus is not None:
            try:
                return self._store.find(caller.focus)
            except (NotFound, JournalError):
                caller.focus = None
        here = self.sessions_of(caller)
        session = here[-1 if caller.project is not None else 0] if here else self.created(caller)
        caller.focus = session.id
        return session

    def sessions_of(self, caller: Caller) -> list[AgentSession]:
        """The sessions that are loaded, of a client's directory if it belongs to one, and its own."""
        return [each for each in self._store.loaded if hears(caller, each)]

    async def prepare(self, request: Request, caller: Caller) -> None:
        meant = [request.get("session-id") or caller.focus, request.get("session-path")]
        meant += [request.get("name")] if request.op == "open_session" else []
        for each in meant:
            await self._store.prepare(each)

    async def arrived(self, caller: Caller) -> None:
        if caller.project is None or caller.focus is not None:
            return
        paths = await asyncio.to_thread(self._store.journals_of, caller.project)
        for path in paths[:MAX_TRIED]:
            await self._store.prepare(path)
            with contextlib.suppress(OpError):  # one that is broken, or that another program has open
                caller.focus = self.resumed(path).id
                return
        with contextlib.suppress(OpError):  # what needs a session will say why there is none
            caller.focus = self.created(caller).id

    def found(self, id: str) -> AgentSession:
        try:
            return self._store.find(id)
        except NotFound as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        except JournalError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

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

    def resumed(self, path: str) -> AgentSession:
        try:
            return self._store.resume(path)
        except NotFound as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        except JournalError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    def created(
        self, caller: Caller, parent: AgentSession | None = None, *, cwd: str | None = None
    ) -> AgentSession:
        if cwd is not None and not _is_directory(cwd):
            wanted = "the absolute path of a directory"
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :cwd: {wanted}")
        if cwd is None and caller.cwd is not None and _is_directory(caller.cwd):
            cwd = caller.cwd
        try:
            return self._store.create(cwd or os.path.expanduser("~"), parent=parent)
        except JournalError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    # --- what clients are told ----------------------------------------------------------------------------

    def greeting(self, caller: Caller) -> dict[str, Any]:
        if caller.focus is None:
            return {}
        session = self.found(caller.focus)
        return {
            "session_id": session.id,
            "model_id": session.model.id,
            "thinking_level": session.effective_thinking,
        }

    def subscribed(self, caller: Caller, request: Request) -> dict[str, Any]:
        session = self.session(request, caller)
        missed = self._missed(caller, session, request.get("since"))
        caller.focus = session.id
        if not caller.increments and _UI_TOPICS.intersection(request.get("topics") or _UI_TOPICS):
            self._board.show(caller, first=True)
        is_psi = not caller.increments and request.get("since") is None
        if is_psi:
            self._show_questions(caller, session)
        self._show(caller, session, request.id, since=request.get("since"))
        for topic, data in missed:
            caller.event(topic, data, id=request.id)
        if not is_psi:
            self._show_questions(caller, session, request.id)
        if request.get("since") is None and not OWN_TOPICS.intersection(request.get("topics") or ()):
            return {}  # as psi's clients know it; the cursor came with the snapshot
        replayed = sum(caller.wants(topic) for topic, _ in missed)
        return {"cursor": self._history.cursor(session), "replayed": replayed}

    def _show_questions(self, caller: Caller, session: AgentSession, id: str | None = None) -> None:
        """What waits for a person and concerns this client: first of its session."""
        waiting = [each for each in self._inbox.open() if _is_for(caller, each)]
        waiting.sort(key=lambda question: question.session != session.id)
        for question in waiting[:SHOWN_DIALOGS]:
            caller.event("ui/dialog-requested", frames.dialog(question), id=id)

    def _missed(self, caller: Caller, session: AgentSession, cursor: str | None) -> list[tuple[str, Data]]:
        """What a client was not told since it had a cursor, but for questions: those that wait come after."""
        if cursor is None:
            return []
        try:
            told = self._history.since(session, cursor)
        except BadCursor as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :since: {error}") from None
        told = [(topic, data) for topic, data in told if topic != "ui/dialog-requested"]
        if caller.increments:
            return told
        return missed_by_others(told, session, self._history.cursor(session))

    def cancelled(self, caller: Caller, request: Request) -> bool:
        session = self._working.get((caller, request.id))
        if session is None:
            return False
        self._telling.aborting(session, caller)
        session.abort()
        return True

    def _show(
        self, caller: Caller, session: AgentSession, id: str | None = None, *, since: str | None = None
    ) -> None:
        """How a session, and all of them, are now."""
        self.show_session(caller, session, id, since=since)
        self._show_context(caller, id)

    def show_session(
        self, caller: Caller, session: AgentSession, id: str | None = None, *, since: str | None = None
    ) -> None:
        """How a session is now, and for those to whom `subscribe` gives no cursor where they are: they have
        yet to be told what they missed `since` then."""
        if caller.wants("session/updated"):
            cursor = {} if caller.increments else fields(cursor=since or self._history.cursor(session))
            caller.event("session/updated", {**self._updated(session), **cursor}, id=id)
        self._show_footer(caller, session, id)

    def _show_footer(self, caller: Caller, session: AgentSession, id: str | None = None) -> None:
        if caller.wants("footer/updated"):
            caller.event("footer/updated", self._footer(caller, session), id=id)

    def _show_context(self, caller: Caller, id: str | None = None) -> None:
        if caller.wants("context/updated"):
            caller.event("context/updated", self._context(caller), id=id)

    def _updated(self, session: AgentSession) -> Data:
        judgement = self._judging.of(session.id) if self._judging is not None else None
        shown = frames.session_updated(session, list(self.shelf(session).prompts.values()))
        return {**shown, **fields(verdict=fields(**judgement.shown))} if judgement is not None else shown

    def _footer(self, caller: Caller, session: AgentSession) -> Data:
        beside: list[AgentSession] = []
        if caller.project is not None:
            beside = [each for each in self.sessions_of(caller) if each is not session]
        return frames.footer_updated(session, beside, self.verdict(session))

    def verdict(self, session: AgentSession) -> str:
        """What verifiers said of a session last, in a few words."""
        judgement = self._judging.of(session.id) if self._judging is not None else None
        return judgement.line if judgement is not None else ""

    def shelf(self, session: AgentSession) -> Shelf:
        """The prompts and skills for a session."""
        return self._library.shelf(session.cwd) if self._library is not None else Shelf({}, {}, [])

    def _context(self, caller: Caller) -> Data:
        rows = [
            frames.session_row(each, active=caller.focus, parent=self._store.parent_of(each))
            for each in sorted(self.sessions_of(caller), key=frames.changed_at)
        ]
        return frames.context_updated(rows, caller.focus)

    def heard(self, event: Event) -> None:
        """Something happened in a session."""
        self._telling.heard(event)

    def asked(self, question: Question) -> None:
        """Something waits for a person: the clients that it concerns are told."""
        self._tell_of(question, "ui/dialog-requested", frames.dialog(question))

    def closed(self, question: Question, answer: Answer) -> None:
        """Something no longer waits."""
        self._tell_of(question, "ui/dialog-resolved", frames.dialog_resolved(question, answer))

    def warned(self, question: Question, why: str) -> None:
        """An agent tried to answer for a person."""
        shown = fields(id=question.id, message=f"{question.id}: {why}", level="warning")
        self._tell_of(question, "ui/notification", shown)

    def _tell_of(self, question: Question, topic: str, data: Data) -> None:
        session = self._store.get(question.session) if question.session is not None else None
        if session is not None:
            data = self._history.add(session, topic, data)
        for caller in self._callers():
            if _is_for(caller, question):
                caller.event(topic, data)

    def entered(self, caller: Caller, session: AgentSession, request: Request) -> Data:
        """A client turns to another session: it is shown all of it, then answered."""
        self.enter(caller, session, request)
        self._show(caller, session, request.id)
        return fields(session_id=session.id, session_file=session.journal.path)

    def enter(self, caller: Caller, session: AgentSession, request: Request) -> None:
        """A client turns to another session: it is shown the conversation; how the session is comes last."""
        caller.focus = session.id
        caller.event("session/resumed", frames.resumed(session), id=request.id)
        messages = self._messages(caller, session)
        caller.event("session/rehydrated", frames.rehydrated(session, messages), id=request.id)

    def show(self, caller: Caller, session: AgentSession, request: Request) -> None:
        """How a session, and all of them, are now."""
        self._show(caller, session, request.id)

    def _messages(self, caller: Caller, session: AgentSession) -> list[Data]:
        branch = frames.recent(session.journal.branch)
        return frames.transcript(branch) if caller.increments else frames.shown_transcript(branch)

    # --- talking ------------------------------------------------------------------------------------------

    async def _prompt(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        images = _images(request)
        text = request.get("message")
        if self._commands.logs_in(caller):
            self._commands.enter_key(request, caller, session)
            return fields(accepted=True)
        if not caller.increments and not images and self._commands.knows(session, text):
            await self._commands.said_as_prompt(request, caller, session)
            return fields(accepted=True)
        await self._lending.ensure(session.model.provider, caller)
        _done(lambda: session.prompt(text, images))
        self._telling.begun(session, Asked(caller, request.id, request.op))
        return fields(accepted=True)

    def asks_for_key(self, request: Request, caller: Caller) -> bool:
        try:
            session = self.session(request, caller)
        except OpError:
            return False
        return self._lending.due(session.model.provider, caller) is not None

    async def _steer(self, request: Request, caller: Caller) -> Data:
        await self._steered(request, caller)
        return fields(accepted=True)

    async def _steered(self, request: Request, caller: Caller) -> bool:
        """False if the turn is being ended, so that it will be said after it."""
        session = self.session(request, caller)
        images = _images(request)
        await self._lending.ensure(session.model.provider, caller)
        is_steer = True

        def steer() -> None:
            nonlocal is_steer
            is_steer = session.steer(request.get("message"), images)

        _done(steer)
        return is_steer

    async def _follow_up(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        images = _images(request)
        await self._lending.ensure(session.model.provider, caller)
        _done(lambda: session.follow_up(request.get("message"), images))
        return fields(accepted=True)

    async def _prompt_while_streaming(self, request: Request, caller: Caller) -> Data:
        behavior = word(request.get("behavior")) or "steer"
        if behavior == "queue":
            await self._follow_up(request, caller)
        elif not await self._steered(request, caller):
            behavior = "coerced-follow-up"
        return fields(accepted=True, behavior=behavior)

    async def _abort(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        self._telling.aborting(session, caller)
        dropped = session.abort()
        if not dropped:
            return fields(accepted=True)
        note = f"Not said, as the turn was aborted: {dropped}"
        shown = fields(id=request.id, message=note, level="warning", extension_id="fairlead")
        caller.event("ui/notification", shown, id=request.id)
        return fields(accepted=True, dropped_steering_text=dropped)

    async def _abort_retry(self, request: Request, caller: Caller) -> Data:
        self.session(request, caller).abort_retry()
        return fields(accepted=True)

    async def _interrupt(self, request: Request, caller: Caller) -> Data:
        accepted, pending, dropped = self.session(request, caller).interrupt()
        return fields(accepted=accepted, pending=pending, dropped_steering_text=dropped)

    async def _resolve_dialog(self, request: Request, caller: Caller) -> Data:
        result = request.get("result")
        allowed = result is True or (isinstance(result, str) and result in _ALLOWED)
        option = "deny" if not allowed else "always" if result == "always" else "allow"
        return await self._answer_dialog(request, caller, option)

    async def _cancel_dialog(self, request: Request, caller: Caller) -> Data:
        return await self._answer_dialog(request, caller, "deny")

    async def _answer_dialog(self, request: Request, caller: Caller, option: str) -> Data:
        id, named = request.get("dialog-id"), request.get("session-id")
        if named is not None:
            self.found(named)
        try:
            question = self._inbox.find(id)
            if named is not None and question.session not in (None, named):
                raise NotOpen(f"{id} is asked by another session")
            if option == "always" and all(each.value != option for each in question.options):
                option = "allow"
            await self._inbox.answer(id, option, "rpc-edn")
        except NotOpen as error:
            why = f": {error}" if isinstance(error, AnsweredAlready) else ""
            if not self.session(request, caller).approvals:
                raise OpError(ErrorCode.NO_ACTIVE_DIALOG, f"no dialog is open{why}") from None
            raise OpError(ErrorCode.DIALOG_ID_MISMATCH, f"no dialog {id} is open{why}") from None
        except (NoSuchOption, AskerGone, Unheard) as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        return fields(accepted=True)

    # --- sessions -----------------------------------------------------------------------------------------

    async def _new_session(self, request: Request, caller: Caller) -> Data:
        if request.get("session-id") is not None:
            self.found(request.get("session-id"))
        parent = request.get("parent-session")
        session = self.created(caller, self.found(parent) if isinstance(parent, str) and parent else None)
        if name := request.get("name"):
            caller.focus = session.id
            _done(lambda: session.set_name(name))
        return self.entered(caller, session, request)

    async def _open_session(self, request: Request, caller: Caller) -> Data:
        """The session with a name, or the last one of a directory, or a new one."""
        name, cwd = request.get("name") or None, request.get("cwd")
        wanted = name or request.get("continue")
        session = await self._known(name, cwd or caller.cwd) if wanted else None
        is_new = session is None
        if session is None:
            session = self.created(caller, cwd=cwd)
        caller.focus = session.id
        if is_new and name:
            _done(lambda: session.set_name(name))
        cursor = self._history.cursor(session)
        return fields(session_id=session.id, session_file=session.journal.path, created=is_new, cursor=cursor)

    async def named(self, name: str) -> AgentSession | None:
        """The session of a name, or of an id."""
        try:
            return self._store.find(name)
        except (NotFound, JournalError):
            return await self._known(name, None)

    async def _known(self, name: str | None, cwd: str | None) -> AgentSession | None:
        """The session used last with a name, or else of a directory."""
        for session in reversed(self._store.loaded):
            if session.name == name if name else str(session.cwd) == cwd:
                return session
        try:
            path = await self._latest(name=name, cwd=None if name else cwd)
        except JournalError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        await self._store.prepare(path)
        return self.resumed(path) if path is not None else None

    async def _switch_session(self, request: Request, caller: Caller) -> Data:
        if (path := request.get("session-path")) is not None:
            session = self._switched(lambda: self.resumed(path), "session file not found")
        elif (id := request.get("session-id")) is not None:
            session = self._switched(lambda: self.found(id), "session id not found in context session index")
        else:
            wanted = "non-empty path string"
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :session-path: {wanted}")
        if not caller.increments:  # psi's UI forgets, with the response, what it was shown before
            asyncio.get_running_loop().call_soon(self._show, caller, session)
        return self.entered(caller, session, request)

    @staticmethod
    def _switched(find: Callable[[], AgentSession], why_not: str) -> AgentSession:
        try:
            return find()
        except OpError as error:
            if error.code == ErrorCode.NOT_FOUND:
                raise OpError(ErrorCode.NOT_FOUND, why_not) from None
            raise

    async def _list_sessions(self, request: Request, caller: Caller) -> Data:
        rows = [
            frames.listed_row(each, parent=self._store.parent_of(each))
            for each in sorted(self.sessions_of(caller), key=frames.changed_at)
        ]
        return fields(active_session_id=caller.focus, sessions=rows)

    async def _fork(self, request: Request, caller: Caller) -> Data:
        forked = await self.forked(self.session(request, caller), request.get("entry-id"))
        return self.entered(caller, forked, request)

    async def forked(self, session: AgentSession, entry_id: str) -> AgentSession:
        try:
            return await self._store.fork(session, entry_id)
        except JournalError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :entry-id: {error}") from None

    async def _set_session_name(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        _done(lambda: session.set_name(request.get("name")))
        return fields(session_name=session.name)

    # --- models -------------------------------------------------------------------------------------------

    async def _compact(self, request: Request, caller: Caller) -> Data:
        session = self._working[caller, request.id] = self.session(request, caller)
        try:
            summary = await session.compact(request.get("custom-instructions") or "")
        except Busy as error:
            raise OpError(ErrorCode.SESSION_NOT_IDLE, str(error)) from None
        except (Refused, ModelError, JournalError) as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        finally:
            del self._working[caller, request.id]
        return fields(compacted=True, summary=summary)

    async def _set_auto_compaction(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        session.auto_compaction = request.get("enabled")
        self._telling.heard(events.Updated(session.id))
        return fields(enabled=request.get("enabled"))

    async def _set_auto_retry(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        session.auto_retry = request.get("enabled")
        self._telling.heard(events.Updated(session.id))
        return fields(enabled=request.get("enabled"))

    # --- looking ------------------------------------------------------------------------------------------

    async def _get_state(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        more = fields(
            auto_retry_enabled=session.auto_retry,
            auto_compaction_enabled=session.auto_compaction,
            steering_messages=[text_of(said) for said in session.steering],
            follow_up_messages=[text_of(said) for said in session.follow_ups],
            worktree_path=str(session.cwd),
            context_tokens=session.context_tokens,
            context_window=session.model.window,
        )
        return fields(state={**self._updated(session), **more})

    async def _query_eql(self, request: Request, caller: Caller) -> Data:
        entity = {SESSION_ID: self.session(request, caller).id}
        if (given := request.get("entity")) is not None:
            with contextlib.suppress(QueryError, InvalidQuery):  # one that can't be read is none
                entity |= parse_entity(given)
        try:
            return fields(result=await answer(self._registry, request.get("query"), entity))
        except InvalidQuery as error:
            raise OpError(ErrorCode.INVALID_QUERY, str(error)) from None
        except QueryError as error:
            raise OpError(ErrorCode.QUERY_FAILED, str(error)) from None

    async def _get_messages(self, request: Request, caller: Caller) -> Data:
        """All messages, or some: from which on, counted from 0, and how many."""
        session = self.session(request, caller)
        first, limit = request.get("from") or 0, request.get("limit")
        wanted = slice(first, None if limit is None else first + limit)
        if not caller.increments:
            rows = self._messages(caller, session)
            return fields(messages=rows[wanted], total=len(rows))
        said = [entry for entry in session.journal.branch if isinstance(entry.body, Said)]
        shown = frames.recent(said[wanted])
        first += len(said[wanted]) - len(shown)  # of too many, the last
        return fields(messages=frames.transcript(shown), first=first, total=len(said))

    async def _get_commands(self, request: Request, caller: Caller) -> Data:
        pages = self.shelf(self.session(request, caller)).prompts.values()
        rows = [*HELP.items(), *((f"/{page.name}", page.description) for page in pages)]
        return fields(commands=[fields(name=name, description=what) for name, what in rows])

    async def _bash(self, request: Request, caller: Caller) -> Data:
        session = self._working[caller, request.id] = self.session(request, caller)
        try:
            result = await session.bash(request.get("command"))
        except Busy as error:
            raise OpError(ErrorCode.SESSION_NOT_IDLE, str(error)) from None
        except (Refused, JournalError) as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        finally:
            del self._working[caller, request.id]
        return fields(output=result.text, is_error=result.is_error, details=frames.plain(result.details))

    async def _export_html(self, request: Request, caller: Caller) -> Data:
        """Write the conversation as a page: to a path, or beside the journal. Never over another file."""
        session = self.session(request, caller)
        path = request.get("path") or session.journal.path.removesuffix(".jsonl") + ".html"
        path = os.path.join(session.cwd, os.path.expanduser(path))
        name, said = frames.display_name(session), session.messages
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | UNFOLLOWED
        flags |= os.O_EXCL if request.get("path") else os.O_TRUNC

        def write() -> None:
            with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                page = html(name, said)
                for at in range(0, len(page), WRITTEN):
                    file.write(page[at : at + WRITTEN])

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise OpError(ErrorCode.FAILED, f"can't write {path}: {error.strerror}") from None
        return fields(path=path)

    async def _get_session_stats(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        stats = session.stats
        return fields(
            stats=fields(
                phase=session.phase.value,
                is_idle=session.is_idle,
                is_streaming=session.phase in (Phase.STREAMING, Phase.RETRYING),
                is_compacting=session.phase is Phase.COMPACTING,
                is_retrying=session.phase is Phase.RETRYING,
                model=fields(provider=session.model.provider, id=session.model.id),
                thinking_level=session.effective_thinking,
                pending_messages=session.pending_messages,
                retry_attempt=session.retry_attempt,
                auto_retry_enabled=session.auto_retry,
                auto_compaction_enabled=session.auto_compaction,
                context_fraction=session.context_tokens / session.model.window
                if session.model.window
                else None,
                journal_entries=len(session.journal.entries),
                session_id=session.id,
                session_file=session.journal.path,
                user_messages=stats.user_messages,
                assistant_messages=stats.assistant_messages,
                tool_calls=stats.tool_calls,
                tool_results=stats.tool_results,
                total_messages=len(session.messages),
                usage=frames.usage(stats.usage),
            )
        )

    async def _get_fork_messages(self, request: Request, caller: Caller) -> Data:
        branch = frames.recent(self.session(request, caller).journal.branch)
        prompts = [fields(entry_id=entry.id, text=text_of(said)) for entry, said in _prompts(branch)]
        return fields(messages=prompts)

    async def _get_last_assistant_text(self, request: Request, caller: Caller) -> Data:
        said = self.session(request, caller).messages
        last = next((text_of(each) for each in reversed(said) if isinstance(each, Assistant)), None)
        return fields(text=last)


async def _none(*, name: str | None, cwd: str | None) -> None:
    """Nothing is known of journals that are not open."""


def _done(act: Callable[[], object]) -> None:
    """Do it; what can't be done is an error in the protocol's terms."""
    try:
        act()
    except Busy as error:
        raise OpError(ErrorCode.SESSION_NOT_IDLE, str(error)) from None
    except (Refused, JournalError) as error:
        raise OpError(ErrorCode.FAILED, str(error)) from None


def _is_for(caller: Caller, question: Question) -> bool:
    """Whether a client is asked: one that belongs to no project, to the question's, or has its session in
    focus. What is lost is asked nobody."""
    if question.lost:
        return False
    if caller.project is None or (question.session is not None and caller.focus == question.session):
        return True
    return question.project == caller.project


def _is_directory(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and os.path.isdir(path)


def _images(request: Request) -> list[Image]:
    """The pictures of a prompt: maps with :data, in base64, and :mime-type. They go into the journal."""
    given = request.get("images") or ()
    wanted = f"a vector of at most {MAX_IMAGES} maps with :data and :mime-type"
    if not isinstance(given, list | tuple) or len(given) > MAX_IMAGES:
        raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :images: {wanted}")
    images = []
    for each in given:
        data, mime_type = (_string(each, name) for name in ("data", "mime-type"))
        if data is None or mime_type is None:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :images: {wanted}")
        images.append(Image(data, mime_type))
    try:
        return list(checked_images(images))
    except ValueError as error:
        raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :images: {error}") from None


def _string(given: Any, name: str) -> str | None:
    value = given.get(Keyword(name)) if isinstance(given, Mapping) else None
    return value if isinstance(value, str) else None


def _prompts(branch: list[Entry]) -> list[tuple[Entry, User]]:
    return [
        (entry, entry.body.message)
        for entry in branch
        if isinstance(entry.body, Said) and isinstance(entry.body.message, User)
    ]
