"""The agent that an editor talks to: the protocol's methods, and one loop over the pipes and the daemon.

It answers `initialize` before anything is imported that needs a daemon. Standard output carries the protocol
and nothing else. An editor that does not read is waited for: we stop reading, and the daemon drops us if that
takes long; what was missed comes when the editor reads again.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...system.settings import Settings
from ...wire import acp
from ...wire.acp import ErrorCode, Id
from ...wire.faults import Broken, LocalError

if TYPE_CHECKING:
    from ...wire.acp.base import Wire
    from ..calls import RequestError
    from ..following import Answered
    from ..reconnect import Reconnect
    from .channel import Channel
    from .session import EditorSession

READ_SIZE = 65_536
WRITE_SIZE = 4096
"""How many bytes are written in one go: a pipe that is writable takes so many without waiting."""
MAX_UNSENT = 1024 * 1024
"""How many bytes may wait for the editor before we read no more."""
LISTED = 50
"""How many sessions are on a page of `session/list`."""
LAST_ANSWERS_WAIT = 10.0
"""Seconds that what was asked last may take when the editor has closed its end."""
_CODES = {
    "request/not-found": ErrorCode.NOT_FOUND,
    "request/invalid-params": ErrorCode.INVALID_PARAMS,
    "request/unknown-model": ErrorCode.INVALID_PARAMS,
}
"""What errors of the daemon are to editors; others are internal."""

CAN = acp.AgentCapabilities(
    load_session=True,
    prompt_capabilities=acp.PromptCapabilities(image=True, embedded_context=True),
    mcp_capabilities=acp.McpCapabilities(http=True, sse=True),
    session_capabilities=acp.SessionCapabilities(list={}, resume={}, close={}),
)


class Idle:
    """Follows a connection on which nothing happens but answers."""

    def began(self) -> None: ...

    def lost(self) -> None: ...

    def happened(self, event: object) -> None: ...

    def refused(self, error: RequestError, *, for_good: bool) -> None: ...


class AcpAgent:
    """One editor on two descriptors. `session` is the one that every new session is, `agent` the third-party
    agent that works in new ones."""

    def __init__(
        self, settings: Settings, reading: int, writing: int, *, session: str = "", agent: str = ""
    ) -> None:
        self.settings = settings
        self._reading, self._writing = reading, writing
        self._session_name, self._agent = session, agent
        self.client_name = "an editor"
        """What the editor calls itself; so others are told who answered a question."""
        self._wire = acp.AgentConnection()
        self._unsent = bytearray()
        self._sessions: dict[str, EditorSession] = {}
        self._closing: list[EditorSession] = []
        self._control: Channel[Any] | None = None
        self._reconnect: Reconnect | None = None
        self._methods: dict[str, Callable[[Id, Any], None]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": lambda id, params: self._open(id, params, replays=True),
            "session/resume": lambda id, params: self._open(id, params, replays=False),
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": lambda id, params: self._of(params).prompt(id, params.prompt),
            "session/set_mode": lambda id, params: self._of(params).set_mode(id, params.mode_id),
            "session/set_config_option": lambda id, params: self._of(params).set_option(
                id, params.config_id, params.value
            ),
        }

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve the editor until it closes its end and what it asked for last was done."""
        over_at: float | None = None
        while over_at is None or (self._is_busy and time.monotonic() < over_at):
            found = self._channels
            for channel in found:
                channel.look()
            for session in self._sessions.values():
                session.free()
            channels: dict[Any, Channel[Any]] = {
                each.socket: each for each in found if each.socket is not None
            }
            takes_more = len(self._unsent) < MAX_UNSENT
            reading: list[Any] = [*channels] if takes_more else []
            writing: list[Any] = [each for each, channel in channels.items() if channel.wants_to_write]
            reading += [self._reading] if takes_more and over_at is None else []
            writing += [self._writing] if self._unsent else []
            readable, writable, _ = select.select(reading, writing, [], self._pause(found, over_at))
            if self._writing in writable:
                self._write()
            for each in writable:
                if each in channels and channels[each].socket is each:
                    channels[each].writable()
            for each in readable:
                if each in channels and channels[each].socket is each:
                    channels[each].readable()
            if self._reading in readable and not self._read():
                over_at = time.monotonic() + LAST_ANSWERS_WAIT
        return 0

    def _read(self) -> bool:
        """Do what the editor wants. False if it wants nothing more."""
        data = os.read(self._reading, READ_SIZE)
        for item in self._wire.receive(data):
            self._receive(item)
        return bool(data)

    @property
    def _channels(self) -> list[Channel[Any]]:
        for each in [each for each in self._closing if not each.channel.is_asking]:
            self._closing.remove(each)
            each.channel.close()
        sessions = [*self._sessions.values(), *self._closing]
        return [*([self._control] if self._control else []), *(each.channel for each in sessions)]

    @property
    def _is_busy(self) -> bool:
        return bool(self._unsent) or any(each.is_asking for each in self._channels)

    def _pause(self, channels: Iterable[Channel[Any]], over_at: float | None) -> float | None:
        pauses = [each.pause for each in channels]
        pauses += [each.pause for each in self._sessions.values()]
        if over_at is not None:
            pauses.append(max(0.0, over_at - time.monotonic()))
        return min((each for each in pauses if each is not None and each != float("inf")), default=None)

    def _write(self) -> None:
        sent = os.write(self._writing, self._unsent[:WRITE_SIZE])
        del self._unsent[:sent]

    # --- the editor -----------------------------------------------------------------------------------------

    def update(self, session: str, updates: Iterable[acp.KnownUpdate]) -> None:
        for each in updates:
            self._unsent += self._wire.update(session, each)

    def request(self, params: Wire) -> Id:
        id, line = self._wire.request(params)
        self._unsent += line
        return id

    def withdraw(self, id: Id) -> None:
        self._unsent += self._wire.withdraw(id)

    def respond(self, id: Id, result: Wire) -> None:
        self._unsent += self._wire.respond(id, result)

    def fail(self, id: Id, error: RequestError) -> None:
        self._refuse(id, _CODES.get(error.code, ErrorCode.INTERNAL), str(error))

    def _refuse(self, id: Id, code: ErrorCode, why: str) -> None:
        self._unsent += self._wire.fail(id, code, why)

    def _receive(self, item: acp.Item) -> None:
        match item:
            case acp.Request(id=id, method=method, params=params):
                try:
                    self._methods[method](id, params)
                except KeyError:
                    self._refuse(id, ErrorCode.METHOD_NOT_FOUND, f"{method} is not offered")
            case acp.Notification(params=acp.Cancel(session_id=session)):
                if session in self._sessions:
                    self._sessions[session].cancel()
            case acp.Notification(params=acp.CancelRequest(request_id=id)):
                request = self._wire.theirs.get(id)
                if request is not None and request.method == "session/prompt":
                    self._sessions[request.session or ""].cancel()
            case acp.CallAnswer(id=id, session=str(session), result=acp.PermissionResult(outcome=outcome)):
                if session in self._sessions:
                    self._sessions[session].answered(id, outcome)
            case acp.CallFailure(id=id, session=str(session), error=error):
                _complain(f"the editor did not answer a question: {error.message:.200}")
                if session in self._sessions:
                    self._sessions[session].answered(id, None)
            case acp.CallRefused(reply=reply):
                self._unsent += reply
            case acp.Ignored(reason=reason):
                _complain(reason)
            case Broken(reason=reason):
                _complain(reason)
                raise LocalError(reason)

    def _of(self, params: Any) -> EditorSession:
        """The session that a request is about. The connection knows that it is open."""
        return self._sessions[params.session_id]

    # --- methods --------------------------------------------------------------------------------------------

    def _initialize(self, id: Id, params: acp.Initialize) -> None:
        if (client := params.client_info) is not None:
            self.client_name = client.title or client.name or self.client_name
        info = acp.Implementation(name="fairlead", title="Fairlead", version=__version__)
        self.respond(
            id, acp.InitializeResult(protocol_version=acp.VERSION, agent_capabilities=CAN, agent_info=info)
        )

    def _authenticate(self, id: Id, params: acp.Authenticate) -> None:
        why = f"there is no method {params.method_id!r:.100}: no authentication is needed"
        self._refuse(id, ErrorCode.INVALID_PARAMS, why)

    def _new(self, id: Id, params: acp.NewSession) -> None:
        if self._is_wrong(id, params.cwd):
            return
        servers = _servers(params) if self._agent else None
        named = {"name": self._session_name or None, "agent": self._agent or None}

        def take(answer: Answered) -> None:
            if answer.error is not None:
                self.fail(id, answer.error)
                return
            found = answer.data["session_id"]
            name, number = found, 2
            while name in self._sessions:
                name, number = f"{found}+{number}", number + 1
            self._begin(id, name, found, params, since=answer.data["cursor"], uses_servers=bool(servers))

        self._ask("open_session", take, cwd=params.cwd, mcp_servers=servers, **named)

    def _is_wrong(self, id: Id, cwd: str) -> bool:
        if os.path.isabs(cwd) and "\0" not in cwd:
            return False
        self._refuse(id, ErrorCode.INVALID_PARAMS, f"cwd must be an absolute path, not {cwd!r:.200}")
        return True

    def _open(self, id: Id, params: acp.LoadSession | acp.ResumeSession, *, replays: bool) -> None:
        name = params.session_id
        if self._is_wrong(id, params.cwd):
            return
        if name in self._sessions:
            self._refuse(id, ErrorCode.INVALID_REQUEST, f"the session {name!r:.100} is open already")
            return

        def take(answer: Answered) -> None:
            found = answer.data.get("session") or {}
            project = found.get("project") or ""
            if answer.error is not None:
                self.fail(id, answer.error)
            elif "chat" not in found["can"]:
                why = f"{name!r:.100} is a {found['kind']} session, which can't be talked with"
                self._refuse(id, ErrorCode.INVALID_PARAMS, why)
            elif os.path.realpath(project) != os.path.realpath(params.cwd):
                why = f"the session {name!r:.100} works in {project}, not in {params.cwd!r:.200}"
                self._refuse(id, ErrorCode.INVALID_PARAMS, why)
            elif name in self._sessions:
                self._refuse(id, ErrorCode.INVALID_REQUEST, f"the session {name!r:.100} is open already")
            elif (servers := _servers(params)) and "mcp_servers" in found:
                self._ask(
                    "open_session",
                    lambda answer: begin(answer, found["id"]),
                    name=found["id"],
                    mcp_servers=servers,
                )
            else:
                self._begin(id, name, found["id"], params, replays=replays)

        def begin(answer: Answered, found: str) -> None:
            if answer.error is not None:
                self.fail(id, answer.error)
            else:
                self._begin(id, name, found, params, replays=replays, uses_servers=True)

        self._ask("session_find", take, name=name.partition("+")[0])

    def _begin(
        self,
        id: Id,
        name: str,
        found: str,
        params: acp.NewSession | acp.LoadSession | acp.ResumeSession,
        *,
        since: str | None = None,
        replays: bool = False,
        uses_servers: bool = False,
    ) -> None:
        from .narration import note
        from .session import EditorSession

        def opened(session: EditorSession, error: RequestError | None) -> None:
            if error is not None:
                self._sessions.pop(name, None)
                self._closing.append(session)
                self.fail(id, error)
                return
            modes, options = session.shown.modes, session.shown.config_options
            if isinstance(params, acp.NewSession):
                self.respond(id, acp.NewSessionResult(session_id=name, modes=modes, config_options=options))
            else:
                self.respond(id, acp.OpenSessionResult(modes=modes, config_options=options))
            if params.mcp_servers and not uses_servers:
                self.update(name, [note("MCP servers of the editor are not used in this session")])

        self._sessions[name] = EditorSession(
            self, name, found, params.cwd, opened, since=since, replays=replays
        )

    def _list(self, id: Id, params: acp.ListSessions) -> None:
        cursor = params.cursor or "0"
        if not (cursor.isdecimal() and cursor.isascii() and len(cursor) < 10):
            self._refuse(id, ErrorCode.INVALID_PARAMS, f"{cursor!r:.100} is no cursor of a list")
            return

        from ...formats.shown import label

        def take(answer: Answered) -> None:
            if answer.error is not None:
                self.fail(id, answer.error)
                return
            rows = answer.data["sessions"]
            found = (
                acp.SessionInfo(
                    session_id=row["id"],
                    cwd=row["cwd"],
                    title=row.get("name") or label(row.get("what") or "") or None,
                    updated_at=row.get("modified"),
                )
                for row in rows
            )
            more = str(int(cursor) + LISTED) if len(rows) == LISTED else None
            self.respond(id, acp.ListSessionsResult(sessions=tuple(found), next_cursor=more))

        given = {"cwd": params.cwd, "from": int(cursor), "limit": LISTED}
        self._ask("session_history", take, **given)

    def _close(self, id: Id, params: acp.CloseSession) -> None:
        session = self._sessions.pop(params.session_id)
        session.close()
        self._closing.append(session)
        self.respond(id, acp.Empty())

    # --- the daemon -----------------------------------------------------------------------------------------

    def _ask(self, op: str, then: Callable[[Answered], None], **params: Any) -> None:
        """Ask the daemon for something that is of no session."""
        if self._control is None:
            from ..following import Requests
            from .channel import Channel

            self._control = Channel(self.settings, Requests(), self.reconnect, Idle())
        self._control.ask(op, then, **params)

    @property
    def reconnect(self) -> Reconnect:
        if self._reconnect is None:
            from ..reconnect import Reconnect

            self._reconnect = Reconnect()
        return self._reconnect


def _servers(params: acp.NewSession | acp.LoadSession | acp.ResumeSession) -> list[Any] | None:
    """The MCP servers that an editor wants to be used."""
    import msgspec

    return [msgspec.to_builtins(each) for each in params.mcp_servers] or None


def _complain(what: str) -> None:
    print(f"fairlead acp: {what}", file=sys.stderr, flush=True)


def serve(settings: Settings, *, session: str = "", agent: str = "") -> int:
    """Be the agent of an editor on our standard input and output."""
    try:
        return AcpAgent(settings, sys.stdin.fileno(), sys.stdout.fileno(), session=session, agent=agent).run()
    except BrokenPipeError:
        return 141
