"""The ops of rpc-edn that reach terminal sessions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any, TypeVar

from ....formats.edn import Keyword
from ....formats.patterns import Pattern, PatternError, PatternMatch, compiled
from ....keeper.credentials import AGENT_MARK
from ....sessions.directory import Directory, NameTaken, NoSession
from ....sessions.inbox import calling_agent
from ....system.files import at_home
from ....terminal.host import HostError, TerminalHost
from ....terminal.kind import MAX_UNTYPED, TerminalKind
from ....terminal.lines import Followers, LineFollower, LoggedLines, kept
from ....terminal.permissions import AskedPermission, TerminalPermissions
from ....terminal.ports import ProgramState
from ....terminal.session import TerminalSession
from ....terminal.turns import TerminalTurns
from ....terminal.watch import MAX_REQUEST_ID, TextWatch
from ....wire.rpc import ErrorCode, fields
from ..handlers import FAULTS, MISSING, Call, Data, OpError, invalid, op, outside_sandbox

DEFAULT_COLS, DEFAULT_ROWS = 80, 24
MAX_WAIT = 24 * 3600.0
"""Seconds that `terminal_wait` waits at the most."""
MAX_MATCHES = 1000
"""How many matches `terminal_search` gives at the most."""
MAX_SOUGHT = 4000
"""How many characters a text may have that is looked for."""
MAX_LINES = 50_000
"""How many lines `terminal_lines` gives at once at the most."""
FOLLOWED_LINES = 10_000
"""How many lines a client that follows gets at once."""
SEARCH_THREADS = 2
"""How many searches run at once; the others wait for them and not the event loop."""
MAX_DRAWING = 1
"""How many pictures are drawn at once; the others wait,"""
DRAW_WAIT = 20.0
"""but no longer than so many seconds."""
LOOK_SHARE = 10
"""A wait for a text looks again after so many times what a look takes, however often the screen changes."""
FOLLOW_WAIT = 30.0
"""Seconds that `terminal_lines` waits for a line at the most; less than a follower's patience."""

T = TypeVar("T")

LISTED = (
    *("name", "state", "argv", "cwd", "pid", "cols", "rows", "clients", "title", "started_at", "idle"),
    *("exit_code", "recording", "recording_error", "cpu_percent", "cpu_seconds", "memory", "stray_pid"),
)
"""What `terminal_list` tells of a session."""
_REQUEST = re.compile(r"[0-9a-f]{8,64}")
FAULTS[NameTaken] = ErrorCode.SESSION_NOT_IDLE

_CODES = {
    "missing": ErrorCode.NOT_FOUND,
    "invalid": ErrorCode.INVALID_PARAMS,
    "exists": ErrorCode.SESSION_NOT_IDLE,
    "limit": ErrorCode.FAILED,
    "failed": ErrorCode.FAILED,
    "command": ErrorCode.FAILED,
}


class TerminalOps:
    """The terminal sessions of a host, which are a kind of `directory`. `opened` waits until clients can
    attach to those that were started."""

    def __init__(
        self,
        host: TerminalHost,
        kind: TerminalKind,
        turns: TerminalTurns,
        permissions: TerminalPermissions,
        directory: Directory,
        opened: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._turns = turns
        self._permissions = permissions
        self._kind = kind
        self._directory = directory
        self._opened = opened
        self._followers, self._searchers = Followers(), _Searchers()
        self._drawing = asyncio.Semaphore(MAX_DRAWING)

    @op
    async def terminal_turn(
        self,
        call: Call,
        name: str,
        event: str,
        agent: str = "",
        prompt: str = "",
        path: str = "",
        session_id: str = "",
        owner: int | None = None,
        request_id: str = "",
        timeout: float = 0.0,
        call_id: str = "",
        subagent: str = "",
    ) -> Data:
        await self._check_behind(call, name)
        answer = await self._turns.report(
            name,
            event,
            agent=agent,
            prompt=prompt,
            path=path,
            session_id=session_id,
            owner=owner,
            request_id=request_id,
            timeout=timeout,
            call=call_id,
            subagent=subagent,
        )
        return fields(**answer)

    async def _check_behind(self, call: Call, name: str) -> None:
        """Raises OpError if who calls a hook runs in another session than the hook speaks for."""
        behind, session = await call.caller.session_behind(), self._host.sessions.get(name)
        if behind and (session is None or behind not in (session.id, session.started_by)):
            raise OpError(ErrorCode.FAILED, f"it is asked from session {behind}, not from {name}")

    @op
    async def terminal_permission(
        self,
        call: Call,
        name: str,
        request_id: str,
        what: str,
        whole: str,
        agent: str = "",
        title: str = "",
        reason: str = "",
        always_label: str = "",
        may_allow: bool = True,
        call_id: str = "",
        subagent: str = "",
        by_keys: bool = False,
        shows: str = "",
        session_id: str = "",
        owner: int | None = None,
    ) -> Data:
        if not _REQUEST.fullmatch(request_id):
            raise invalid("request-id", "8 to 64 hexadecimal digits")
        await self._check_behind(call, name)
        name, _ = await self._turns.about(name, agent, owner, session_id)
        asked = AskedPermission(
            request_id,
            agent,
            title,
            what,
            whole,
            reason,
            always_label,
            may_allow,
            call_id,
            subagent,
            shows,
            by_keys,
        )
        return fields(**await self._permissions.ask(name, asked))

    @op
    async def terminal_start(
        self,
        name: str,
        argv: list[str],
        cwd: str = "",
        env: Mapping[Any, Any] | None = None,
        inherit: bool = False,
        cols: int = DEFAULT_COLS,
        rows: int = DEFAULT_ROWS,
        deferred: bool = False,
        record: bool | str = False,
        owner: int | None = None,
    ) -> Data:
        await self._directory.check_free(name, but=self._kind.name)
        environment = {str(key): str(value) for key, value in (env or os.environ).items()}
        if inherit:
            environment = {**os.environ, **environment}
        if agent := calling_agent.get():
            await self._check_sandbox(agent)
            environment[AGENT_MARK] = agent
        session = await self._host.start(
            name,
            argv,
            cwd=at_home(cwd) or environment.get("HOME") or "/",
            environment=environment,
            cols=cols,
            rows=rows,
            deferred=deferred,
            record=record,
            owner=owner,
            note={"started_by": agent} if agent else None,
        )
        answer = fields(name=session.id, pid=session.pid, recording=session.recording)
        await self._opened()
        return answer

    async def _check_sandbox(self, agent: str) -> None:
        """Raises OpError if the agent whose command asks runs in a sandbox."""
        with contextlib.suppress(NoSession):
            if (await self._directory.with_id(agent))[1].more.get("sandbox"):
                raise outside_sandbox("a terminal session")

    @op
    async def terminal_list(self, brief: bool = False) -> Data:
        rows = []
        for each in await self._directory.list(kind=self._kind.name, brief=brief):
            row = each.row
            rows.append(fields(**{key: row[key] for key in LISTED if key in row}))
            if each.verdict is not None:
                rows[-1][Keyword("verdict")] = fields(**each.verdict)
        return fields(sessions=rows, questions=self._directory.questions)

    @op
    async def terminal_stop(self, name: str) -> Data:
        return fields(**await self._kind.stop(self._host.find(name).id))

    @op
    async def terminal_send(
        self, name: str, text: str = "", keys: list[str] | None = None, paste: str = ""
    ) -> Data:
        session = self._host.find(name)
        if session.state is not ProgramState.RUNNING:
            raise OpError(ErrorCode.INVALID_PARAMS, f"session {session.id!r} is {session.state.value}")
        if session.untyped > MAX_UNTYPED:
            message = f"session {session.id!r} does not read its input: {session.untyped} bytes are queued"
            raise OpError(ErrorCode.FAILED, message)
        screen = session.screen
        try:
            typed = b"".join(screen.key(name) for name in keys or ())
        except ValueError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        session.send_input(text.encode() + (screen.paste(paste) if paste else b"") + typed)
        return fields(accepted=True)

    @op
    async def terminal_screen(self, name: str, format: str = "text", scrollback: bool = False) -> Data:
        session = self._host.find(name)
        shown = session.screen
        made: Any
        match format:
            case "text":
                made = shown.text(scrollback=scrollback)
            case "ansi":
                made = shown.ansi(scrollback=scrollback).decode("utf-8", "replace")
            case "html":
                made = shown.html()
            case "svg":
                made = shown.svg()
            case "png":
                made = await _png(session, self._drawing)
            case _:
                made = _keyed(shown.cells())
        return fields(name=session.id, format=format, screen=made, cols=shown.cols, rows=shown.rows)

    @op
    async def terminal_lines(
        self,
        name: str,
        limit: int = MAX_LINES,
        follow: bool = False,
        follower: str | None = None,
        from_: int = 0,
        timeout: float = FOLLOW_WAIT,
    ) -> Data:
        if follower:
            found = self._followers.find(follower)
            if found is None:
                raise OpError(ErrorCode.NOT_FOUND, f"no follower {follower!r}")
            answer = await _followed(found, from_, min(limit, FOLLOWED_LINES), min(timeout, FOLLOW_WAIT))
            if answer[_ENDED]:
                self._followers.remove(found)
            return answer
        session = self._host.find(name)
        limit = min(limit, MAX_LINES)
        if not follow:
            lines = kept(session)
            while lines.texts and not lines.texts[-1]:
                lines.texts.pop()
            return fields(**_last(lines, limit))
        try:
            following = self._followers.add(session)
        except ValueError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        lines = following.before
        return fields(**_last(lines, limit), next=lines.first + len(lines.texts), follower=following.id)

    @op
    async def terminal_search(
        self, name: str, needle: str | None = None, regex: str | None = None, limit: int = MAX_MATCHES
    ) -> Data:
        session = self._host.find(name)
        if (needle is None) == (regex is None):
            raise OpError(ErrorCode.INVALID_PARAMS, "expected either :needle or :regex")
        text, given = needle or regex or "", "needle" if regex is None else "regex"
        _check_length(given, text)
        try:
            compiled(text, literal=regex is None)  # a wrong one costs nothing more
            search = session.screen.searcher(text, regex=regex is not None, limit=min(limit, MAX_MATCHES))
            found = await self._searchers.run(search)
        except ValueError as error:
            raise invalid(given, error) from None
        except TimeoutError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        first = kept(session).first if found and session.count.are_lost else 1
        return fields(
            matches=[fields(line=first + each.printed, column=each.column, text=each.text) for each in found]
        )

    @op
    async def terminal_wait(
        self,
        name: str,
        text: str | None = None,
        regex: str | None = None,
        idle: float | None = None,
        exit: bool = False,
        timeout: float = MAX_WAIT,
        scrollback: bool = False,
        request_id: str = "",
    ) -> Data:
        """Wait until a text is shown or was printed since, the program has been quiet for a while, or ended.

        A request that has the id of one that another daemon had goes on where that began.
        """
        session = self._host.find(name)
        if text is None and regex is None and idle is None and not exit:
            raise OpError(ErrorCode.INVALID_PARAMS, "expected at least one of :text, :regex, :idle and :exit")
        if len(request_id) > MAX_REQUEST_ID:
            raise invalid("request-id", f"at most {MAX_REQUEST_ID} characters")
        _check_length("text", text or "")
        try:
            patterns = [compiled(text, literal=True)] if text is not None else []
            patterns += [compiled(regex, multiline=True)] if regex is not None else []
        except PatternError as error:
            raise invalid("regex", error) from None
        deadline = time.monotonic() + min(timeout, MAX_WAIT)
        if not patterns:
            return await self._waited(session, deadline, idle, exit)
        watch = TextWatch(session, request_id, overlap=len(text or ""))
        try:
            await self._searchers.run(watch.earlier(scrollback=scrollback))
            answer = await self._waited(session, deadline, idle, exit, watch, patterns)
            watch.forget()
            return answer
        finally:
            watch.close()

    async def _waited(
        self,
        session: TerminalSession,
        deadline: float,
        idle: float | None,
        exit: bool,
        watch: TextWatch | None = None,
        patterns: Sequence[Pattern] = (),
    ) -> Data:
        changed = asyncio.Event()
        session.watchers.add(changed.set)
        try:
            while True:
                changed.clear()
                began = time.monotonic()
                if watch is not None and (found := await self._searchers.first(patterns, watch.take())):
                    return fields(matched=True, reason="text", match=found[0])
                next_look = time.monotonic() + LOOK_SHARE * (time.monotonic() - began)
                if session.state is ProgramState.ENDED and not changed.is_set():
                    return fields(matched=exit, reason="exit", exit_code=session.exit_code)
                pause = deadline - time.monotonic()
                if idle is not None:
                    quiet = session.active_at + idle - time.monotonic()
                    if quiet <= 0:
                        return fields(matched=True, reason="idle")
                    pause = min(pause, quiet)
                if deadline <= time.monotonic():
                    missed = {"missed": watch.missed} if watch is not None and watch.missed else {}
                    return fields(matched=False, reason="timeout", **missed)
                try:
                    async with asyncio.timeout(pause):
                        await changed.wait()
                        if watch is not None:
                            await watch.rest(next_look - time.monotonic())
                except TimeoutError:
                    continue
        finally:
            session.watchers.discard(changed.set)

    @op
    async def terminal_resize(self, name: str, cols: int, rows: int) -> Data:
        self._host.find(name).resize(cols, rows)
        return fields(accepted=True)

    @op
    async def terminal_record(self, name: str, path: str | None = None, stop: bool = False) -> Data:
        session = self._host.find(name)
        if stop:
            if (recording := session.recording) is None:
                raise OpError(ErrorCode.INVALID_PARAMS, f"session {session.id!r} is not being recorded")
            session.stop_recording()
            return fields(path=recording)
        return fields(path=self._host.record(session.id, path))


def _check_length(given: str, text: str) -> None:
    """Raise OpError if a text to look for is too long to be looked for in every line."""
    if len(text) > MAX_SOUGHT:
        raise invalid(given, f"at most {MAX_SOUGHT} characters, not {len(text)}")


def _host_fault(error: HostError) -> OpError:
    more = fields(exit_code=error.code) if error.code is not None else None
    return OpError(_CODES[error.kind], str(error), more)


FAULTS[HostError] = _host_fault
MISSING[HostError] = TerminalKind.name


def _last(found: LoggedLines, limit: int) -> dict[str, Any]:
    """The last lines, and where they begin."""
    cut = max(0, len(found.texts) - limit)
    return {
        "lines": found.texts[cut:],
        "first": found.first + cut,
        "oldest": found.first,
        "complete": found.is_complete,
    }


async def _png(session: TerminalSession, drawing: asyncio.Semaphore) -> str:
    """What a session shows, drawn in a thread: fonts are looked for, and each cell is drawn."""
    try:
        async with asyncio.timeout(DRAW_WAIT), drawing:
            draw = session.screen.png_of_now()
            return await asyncio.to_thread(lambda: base64.b64encode(draw()).decode())
    except TimeoutError:
        raise OpError(ErrorCode.FAILED, f"rendering the image took longer than {DRAW_WAIT:g} s") from None
    except (ImportError, ValueError) as error:  # there is no Pillow, or the screen is too large
        raise OpError(ErrorCode.FAILED, str(error)) from None


async def _followed(follower: LineFollower, number: int, limit: int, seconds: float) -> Data:
    """The next lines, or none if none came in time."""
    session = follower.session
    changed = asyncio.Event()
    session.watchers.add(changed.set)
    try:
        async with asyncio.timeout(seconds):
            while not (found := follower.take(number, limit)).texts and not found.are_last:
                changed.clear()
                await changed.wait()
    except TimeoutError:
        found = follower.take(number, limit)
    finally:
        session.watchers.discard(changed.set)
    return fields(
        lines=found.texts,
        first=found.first,
        next=found.first + len(found.texts),
        follower=follower.id,
        ended=found.are_last,
    )


_ENDED = Keyword("ended")


def _keyed(value: Any) -> Any:
    """Plain data with keywords for keys."""
    if isinstance(value, Mapping):
        return fields(**{str(key): _keyed(inner) for key, inner in value.items()})
    return [_keyed(inner) for inner in value] if isinstance(value, list | tuple) else value


class _Searchers:
    """The threads that search, so that no pattern and no text keeps the event loop from other clients."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SEARCH_THREADS, "search")

    async def run(self, search: Callable[[Callable[[], bool]], T]) -> T:
        """What a search finds. It is told to stop when nobody waits for it any more."""
        stopped = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, search, lambda: not stopped.is_set()
            )
        finally:
            stopped.set()

    async def first(self, patterns: Sequence[Pattern], texts: list[str]) -> PatternMatch | None:
        """The first match of any of the patterns in some texts."""

        def search(pattern: Pattern, text: str, goes_on: Callable[[], bool]) -> PatternMatch | None:
            return pattern.search(text) if goes_on() else None

        for text, pattern in product(texts, patterns):
            quick = pattern.is_quick(text)
            found = pattern.search(text) if quick else await self.run(partial(search, pattern, text))
            if found:
                return found
        return None
