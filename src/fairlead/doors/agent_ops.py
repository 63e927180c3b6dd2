"""The ops of rpc-edn that drive agent sessions, and what every client is told of them.

Thin: an op finds the session that it means, calls it, and answers. A request means the session that it names,
else the one that its client has in focus, else the first there is; a client for whom there is none gets a new
one. What happens in a session is told to all clients; which session is the active one differs from client to
client, so snapshots of all sessions are made for each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..agent import events
from ..agent.events import Event
from ..agent.export import html
from ..agent.journal import Entry, JournalError, Said
from ..agent.library import Library, Shelf
from ..agent.memory import Memory, MemoryFault
from ..agent.messages import Assistant, Image, User, text_of
from ..agent.models import THINKING_LEVELS, ModelError, ModelInfo
from ..agent.query import InvalidQuery, QueryError, Registry, parse_entity, query
from ..agent.resolvers import SESSION_ID
from ..agent.session import AgentSession, Busy, Models, Refused
from ..agent.store import AgentStore, NotFound, id_of
from ..formats.edn import Keyword
from ..wire.rpc import ErrorCode, Request, fields
from ..wire.rpc_catalog import OWN_TOPICS
from . import agent_frames as frames
from .agent_commands import HELP, AgentCommands
from .agent_history import BadCursor, History
from .agent_login import AgentLogin, Keyring
from .judging import Judging
from .rpc import Caller, CallerHandler, OpError

Data = Mapping[Any, Any]

RECALLED = 20
"""How many entries of the memory are given unless it is said."""
MAX_IMAGES = 16
"""How many pictures a prompt may have."""
_PERSISTED = """[{:psi.session/list
 [:psi.session-info/path :psi.session-info/name :psi.session-info/first-message]}]"""
_ALLOWED = ("allow", "always", "yes", "true", "submitted")
"""Results of a dialog that mean consent."""


class Latest(Protocol):
    """Looks through the journals."""

    def __call__(self, *, name: str | None, cwd: str | None) -> str | None:
        """The file of the session used last, of those with a name or of a directory."""


class Elsewhere(Protocol):
    """What waits for consent outside of agent sessions."""

    def approvals(self) -> Sequence[events.Approval]: ...

    def settle_own(self, token: str, allowed: bool, by: str) -> bool:
        """Answer; tells whether there was such a question, and this is its first answer."""


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
        self.elsewhere: Elsewhere | None = None
        self._store = store
        self._models = models
        self._callers = callers
        self._registry = registry or Registry((SESSION_ID,))
        self._memory = memory
        self._library = library
        self._latest = latest or _none
        self._judging = judging
        self._working: dict[tuple[Caller, str], AgentSession] = {}
        self._history = History()
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
                "set_model",
                "cycle_model",
                "set_thinking_level",
                "cycle_thinking_level",
                "compact",
                "set_auto_compaction",
                "set_auto_retry",
                "get_state",
                "get_messages",
                "get_session_stats",
                "get_fork_messages",
                "get_last_assistant_text",
                "get_available_models",
                "resolve_dialog",
                "cancel_dialog",
                "query_eql",
                "bash",
                "export_html",
                "get_commands",
                "remember",
                "recall",
            )
        }
        self._ops["abort_bash"] = self._abort
        login = AgentLogin(keyring, self.session)
        self._ops |= login.ops
        commands = AgentCommands(self, login)
        self._ops["command"] = commands.command
        self._ops["frontend_action_result"] = commands.frontend_action_result

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
        loaded = self._store.loaded
        session = loaded[0] if loaded else self.created(caller)
        caller.focus = session.id
        return session

    def found(self, id: str) -> AgentSession:
        try:
            return self._store.find(id)
        except NotFound as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        except JournalError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    def persisted(self) -> list[tuple[str, str, str]]:
        """The sessions on disk, the last used first: id, what to call it, and the journal's path."""
        try:
            [rows] = query(self._registry, _PERSISTED, {}).values()
        except QueryError:
            return [(each.id, frames.display_name(each), each.journal.path) for each in self.loaded]
        path, name, first = (Keyword(f"psi.session-info/{key}") for key in ("path", "name", "first-message"))
        ids = [id_of(row[path]) for row in rows]
        labels = [row[name] or row[first] or f"session {id[:8]}" for id, row in zip(ids, rows)]
        return [(id, label, row[path]) for id, label, row in zip(ids, labels, rows)]

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
            "thinking_level": session.thinking_level,
        }

    def subscribed(self, caller: Caller, request: Request) -> dict[str, Any]:
        session = self.session(request, caller)
        missed = self._missed(session, request.get("since"))
        caller.focus = session.id
        self._show(caller, session, request.id)
        for topic, data in missed:
            caller.event(topic, data, id=request.id)
        for approval in session.approvals.values():
            shown = {**frames.dialog(approval), **fields(session_id=session.id)}
            caller.event("ui/dialog-requested", shown, id=request.id)
        for approval in self.elsewhere.approvals() if self.elsewhere is not None else ():
            caller.event("ui/dialog-requested", frames.dialog(approval), id=request.id)
        if request.get("since") is None and not OWN_TOPICS.intersection(request.get("topics") or ()):
            return {}  # as psi's clients know it
        replayed = sum(caller.wants(topic) for topic, _ in missed)
        return {"cursor": self._history.cursor(session), "replayed": replayed}

    def _missed(self, session: AgentSession, cursor: str | None) -> list[tuple[str, Data]]:
        """What a client was not told since it had a cursor, but for questions: those that wait come after."""
        if cursor is None:
            return []
        try:
            told = self._history.since(session, cursor)
        except BadCursor as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :since: {error}") from None
        return [(topic, data) for topic, data in told if topic != "ui/dialog-requested"]

    def cancelled(self, caller: Caller, request: Request) -> bool:
        session = self._working.get((caller, request.id))
        if session is None:
            return False
        session.abort()
        return True

    def _show(self, caller: Caller, session: AgentSession, id: str | None = None) -> None:
        """How a session, and all of them, are now."""
        caller.event("session/updated", self._updated(session), id=id)
        caller.event("footer/updated", self._footer(session), id=id)
        caller.event("context/updated", self._context(caller), id=id)

    def _updated(self, session: AgentSession) -> Data:
        judgement = self._judging.of(session.id) if self._judging is not None else None
        shown = frames.session_updated(session, list(self.shelf(session).prompts.values()))
        return {**shown, **fields(verdict=fields(**judgement.shown))} if judgement is not None else shown

    def _footer(self, session: AgentSession) -> Data:
        return frames.footer_updated(session, self.verdict(session))

    def verdict(self, session: AgentSession) -> str:
        """What verifiers said of a session last, in a few words."""
        judgement = self._judging.of(session.id) if self._judging is not None else None
        return judgement.line if judgement is not None else ""

    def shelf(self, session: AgentSession) -> Shelf:
        """The prompts and skills for a session."""
        return self._library.shelf(session.cwd) if self._library is not None else Shelf({}, {})

    def _context(self, caller: Caller) -> Data:
        rows = [
            frames.session_row(each, active=caller.focus, parent=self._store.parent_of(each))
            for each in self._store.loaded
        ]
        return frames.context_updated(rows, caller.focus)

    def heard(self, event: Event) -> None:
        """Something happened in a session: all clients are told."""
        if isinstance(event, events.Loaded | events.Unloaded):
            return
        session = self._store.find(event.session_id)
        for topic, data in frames.frames(event):
            told = self._history.add(session, topic, data)
            for caller in self._callers():
                caller.event(topic, told)
        if isinstance(event, events.Updated | events.TurnEnded | events.Compacted | events.ApprovalSettled):
            for caller in self._callers():
                self._show(caller, session)

    def entered(self, caller: Caller, session: AgentSession, request: Request) -> Data:
        """A client turns to another session: it is shown all of it, then answered."""
        caller.focus = session.id
        caller.event("session/resumed", frames.resumed(session), id=request.id)
        caller.event("session/rehydrated", frames.rehydrated(session), id=request.id)
        self._show(caller, session, request.id)
        return fields(session_id=session.id, session_file=session.journal.path)

    # --- talking ------------------------------------------------------------------------------------------

    async def _prompt(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        images = _images(request)
        _done(lambda: session.prompt(request.get("message"), images))
        return fields(accepted=True)

    async def _steer(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        images = _images(request)
        _done(lambda: session.steer(request.get("message"), images))
        return fields(accepted=True)

    async def _follow_up(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        images = _images(request)
        _done(lambda: session.follow_up(request.get("message"), images))
        return fields(accepted=True)

    async def _prompt_while_streaming(self, request: Request, caller: Caller) -> Data:
        behavior = request.get("behavior") or "steer"
        await (self._steer if behavior == "steer" else self._follow_up)(request, caller)
        return fields(accepted=True, behavior=behavior)

    async def _abort(self, request: Request, caller: Caller) -> Data:
        self.session(request, caller).abort()
        return fields(accepted=True)

    async def _abort_retry(self, request: Request, caller: Caller) -> Data:
        self.session(request, caller).abort_retry()
        return fields(accepted=True)

    async def _interrupt(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        dropped = session.interrupt()
        return fields(accepted=True, pending=session.interrupt_pending, dropped_steering_text=dropped)

    async def _resolve_dialog(self, request: Request, caller: Caller) -> Data:
        result = request.get("result")
        lasts = result == "always"
        allowed = result is True or (isinstance(result, str) and result in _ALLOWED)
        if self._settled_elsewhere(request, allowed):
            return fields(accepted=True)
        session = self._asked(request, caller)
        _done(lambda: session.settle(request.get("dialog-id"), allowed, "rpc-edn", lasts=lasts))
        return fields(accepted=True)

    def _settled_elsewhere(self, request: Request, allowed: bool) -> bool:
        id = request.get("dialog-id")
        return self.elsewhere is not None and self.elsewhere.settle_own(id, allowed, "rpc-edn")

    async def _cancel_dialog(self, request: Request, caller: Caller) -> Data:
        if self._settled_elsewhere(request, False):
            return fields(accepted=True)
        session = self._asked(request, caller)
        _done(lambda: session.settle(request.get("dialog-id"), False, "rpc-edn"))
        return fields(accepted=True)

    def _asked(self, request: Request, caller: Caller) -> AgentSession:
        """The session whose approval a dialog is."""
        id = request.get("dialog-id")
        named = request.get("session-id")
        for session in [self.found(named)] if named is not None else self._store.loaded:
            if id in session.approvals:
                return session
        if not self.session(request, caller).approvals:
            raise OpError(ErrorCode.NO_ACTIVE_DIALOG, "no dialog is open")
        raise OpError(ErrorCode.DIALOG_ID_MISMATCH, f"no dialog {id} is open")

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
        path = await asyncio.to_thread(lambda: self._latest(name=name, cwd=None if name else cwd))
        return self.resumed(path) if path is not None else None

    async def _switch_session(self, request: Request, caller: Caller) -> Data:
        if (path := request.get("session-path")) is None:
            if request.get("session-id") is None:
                raise OpError(ErrorCode.INVALID_PARAMS, "one of :session-id and :session-path is wanted")
            return self.entered(caller, self.session(request, caller), request)
        return self.entered(caller, self.resumed(path), request)

    async def _list_sessions(self, request: Request, caller: Caller) -> Data:
        context = self._context(caller)
        return fields(active_session_id=caller.focus, sessions=context[Keyword("sessions")])

    async def _fork(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        try:
            forked = self._store.fork(session, request.get("entry-id"))
        except JournalError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :entry-id: {error}") from None
        return self.entered(caller, forked, request)

    async def _set_session_name(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        _done(lambda: session.set_name(request.get("name")))
        return fields(session_name=session.name)

    # --- models -------------------------------------------------------------------------------------------

    async def _set_model(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        try:
            info = session.set_model(request.get("provider"), request.get("model-id"))
        except Refused as error:
            raise OpError(ErrorCode.UNKNOWN_MODEL, str(error)) from None
        return fields(model=fields(provider=info.provider, id=info.id))

    async def _cycle_model(self, request: Request, caller: Caller) -> Data:
        info = self.session(request, caller).cycle_model(-1 if request.get("direction") == "prev" else 1)
        return fields(model=fields(provider=info.provider, id=info.id))

    async def _set_thinking_level(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        level = _level(request.get("level"))
        try:
            return fields(thinking_level=session.set_thinking_level(level))
        except Refused as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    async def _cycle_thinking_level(self, request: Request, caller: Caller) -> Data:
        return fields(thinking_level=self.session(request, caller).cycle_thinking_level())

    async def _get_available_models(self, request: Request, caller: Caller) -> Data:
        return fields(models=[_model_row(info) for info in self.models])

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
        self.session(request, caller).auto_compaction = request.get("enabled")
        return fields(enabled=request.get("enabled"))

    async def _set_auto_retry(self, request: Request, caller: Caller) -> Data:
        self.session(request, caller).auto_retry = request.get("enabled")
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
        try:
            if (given := request.get("entity")) is not None:
                entity |= parse_entity(given)
            return fields(result=query(self._registry, request.get("query"), entity))
        except InvalidQuery as error:
            raise OpError(ErrorCode.INVALID_QUERY, str(error)) from None
        except QueryError as error:
            raise OpError(ErrorCode.QUERY_FAILED, str(error)) from None

    async def _get_messages(self, request: Request, caller: Caller) -> Data:
        """All messages, or some: from which on, counted from 0, and how many."""
        said = frames.transcript(self.session(request, caller).journal.branch)
        first, limit = request.get("from") or 0, request.get("limit")
        shown = said[first:] if limit is None else said[first : first + limit]
        return fields(messages=shown, total=len(said))

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
        page = html(frames.display_name(session), session.messages)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if request.get("path") else os.O_TRUNC)
        try:
            with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write(page)
        except OSError as error:
            raise OpError(ErrorCode.FAILED, f"can't write {path}: {error.strerror}") from None
        return fields(path=path)

    # --- memory ------------------------------------------------------------------------------------------

    def noted(self, session: AgentSession, text: str, tags: Sequence[str]) -> int:
        """Remember something; gives its number."""
        if self._memory is None:
            raise OpError(ErrorCode.FAILED, "there is no memory here")
        try:
            return self._memory.remember(text, tags, session_id=session.id).id
        except (MemoryFault, ValueError) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    async def _remember(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        return fields(id=self.noted(session, request.get("text"), list(request.get("tags") or ())))

    async def _recall(self, request: Request, caller: Caller) -> Data:
        if self._memory is None:
            raise OpError(ErrorCode.FAILED, "there is no memory here")
        try:
            found = self._memory.recall(
                request.get("text"), list(request.get("tags") or ()), request.get("limit") or RECALLED
            )
        except (MemoryFault, ValueError) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        return fields(entries=[frames.plain(each._asdict()) for each in found])

    async def _get_session_stats(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        stats = session.stats
        return fields(
            stats=fields(
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
        branch = self.session(request, caller).journal.branch
        prompts = [fields(entry_id=entry.id, text=text_of(said)) for entry, said in _prompts(branch)]
        return fields(messages=prompts)

    async def _get_last_assistant_text(self, request: Request, caller: Caller) -> Data:
        said = self.session(request, caller).messages
        last = next((text_of(each) for each in reversed(said) if isinstance(each, Assistant)), None)
        return fields(text=last)


def _none(*, name: str | None, cwd: str | None) -> None:
    """Nothing is known of journals that are not open."""


def _done(act: Callable[[], object]) -> None:
    """Do it; what can't be done is an error in the protocol's terms."""
    try:
        act()
    except Busy as error:
        raise OpError(ErrorCode.SESSION_NOT_IDLE, str(error)) from None
    except (Refused, JournalError) as error:
        raise OpError(ErrorCode.FAILED, str(error)) from None


def _is_directory(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and os.path.isdir(path)


def _images(request: Request) -> list[Image]:
    """The pictures of a prompt: maps with :data, in base64, and :mime-type."""
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
    return images


def _string(given: Any, name: str) -> str | None:
    value = given.get(Keyword(name)) if isinstance(given, Mapping) else None
    return value if isinstance(value, str) else None


def _level(value: Any) -> str:
    """A thinking level by its name, or by its place among the levels."""
    if isinstance(value, int):
        if not 0 <= value < len(THINKING_LEVELS):
            wanted = f"0 to {len(THINKING_LEVELS) - 1}"
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :level: {wanted}")
        return THINKING_LEVELS[value]
    return value.name if isinstance(value, Keyword) else str(value)


def _model_row(info: ModelInfo) -> Data:
    return fields(
        provider=info.provider,
        id=info.id,
        name=info.name,
        reasoning=info.reasoning,
        context_window=info.window,
        max_output_tokens=info.max_output,
    )


def _prompts(branch: list[Entry]) -> list[tuple[Entry, User]]:
    return [
        (entry, entry.body.message)
        for entry in branch
        if isinstance(entry.body, Said) and isinstance(entry.body.message, User)
    ]
