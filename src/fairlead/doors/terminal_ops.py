"""The ops of rpc-edn that reach terminal sessions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from ..formats.edn import Keyword
from ..formats.patterns import Found, Pattern, PatternError, compiled
from ..sessions.inbox import calling_agent
from ..terminal import foreground
from ..terminal.host import Host, HostError
from ..terminal.lines import Follower, Followers, Kept, kept
from ..terminal.session import Session, State
from ..terminal.usage import Usage, Usages
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Handler, OpError

DEFAULT_COLS, DEFAULT_ROWS = 80, 24
MAX_WAIT = 24 * 3600.0
"""Seconds that `terminal_wait` waits at the most."""
MAX_UNTYPED = 1024 * 1024
"""How many bytes may wait for a program that does not read before `terminal_send` refuses more."""
MAX_MATCHES = 1000
"""How many matches `terminal_search` gives at the most."""
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

_CODES = {
    "missing": ErrorCode.NOT_FOUND,
    "invalid": ErrorCode.INVALID_PARAMS,
    "exists": ErrorCode.SESSION_NOT_IDLE,
    "limit": ErrorCode.FAILED,
    "failed": ErrorCode.FAILED,
    "command": ErrorCode.FAILED,
}


def terminal_ops(host: Host, verdict: Callable[[str], Mapping[str, Any] | None]) -> dict[str, Handler]:
    """Each op's function, over these sessions. `verdict` tells what verifiers said of one last."""
    usages, followers, searchers = Usages(), Followers(), _Searchers()

    def find(request: Request) -> Session:
        return _done(lambda: host.find(request.get("name")))

    async def start(request: Request) -> Mapping[Any, Any]:
        environment = {str(key): str(value) for key, value in (request.get("env") or os.environ).items()}
        try:
            session = await host.start(
                request.get("name"),
                request.get("argv"),
                cwd=request.get("cwd") or environment.get("HOME") or "/",
                environment=environment,
                cols=request.get("cols") or DEFAULT_COLS,
                rows=request.get("rows") or DEFAULT_ROWS,
                deferred=bool(request.get("deferred")),
                record=request.get("record") or False,
                owner=request.get("owner"),
                note={"started_by": agent} if (agent := calling_agent.get()) else None,
            )
        except HostError as error:
            more = fields(exit_code=error.code) if error.code is not None else None
            raise OpError(_CODES[error.kind], str(error), more) from None
        return fields(name=session.id, pid=session.pid, recording=session.recording)

    async def list_(request: Request) -> Mapping[Any, Any]:
        sessions = list(host.sessions.values())
        running = {each.pid: each.started_at for each in sessions if each.state is State.RUNNING}
        used: Mapping[int, Usage] = {}
        if not request.get("brief"):
            with contextlib.suppress(OSError):  # the list is worth more than what they use
                used = await asyncio.to_thread(usages.look, running)
            sessions = [each for each in sessions if each in host]  # some may have gone meanwhile
        rows = [_row(each, used.get(each.pid)) for each in sessions]
        for each, row in zip(sessions, rows):
            stray = each.stray
            if stray is not None and await asyncio.to_thread(foreground.running, stray.pid) == stray:
                row[Keyword("stray-pid")] = stray.pid
        for each, row in zip(sessions, rows):
            if (said := verdict(each.id)) is not None:
                row[Keyword("verdict")] = fields(**said)
        return fields(sessions=rows)

    async def stop(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        try:
            code = await host.stop(session.id)
        except HostError as error:
            raise OpError(_CODES[error.kind], str(error)) from None
        if session in host:
            host.forget(session)  # who stops a session doesn't want to look at it any more
        return fields(exit_code=code)

    async def send(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        if session.state is not State.RUNNING:
            raise OpError(ErrorCode.INVALID_PARAMS, f"session {session.id!r} is {session.state.value}")
        if session.untyped > MAX_UNTYPED:
            message = f"session {session.id!r} does not read: {session.untyped} bytes wait to be typed"
            raise OpError(ErrorCode.FAILED, message)
        screen = session.screen
        try:
            typed = b"".join(screen.key(name) for name in request.get("keys") or ())
        except ValueError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        text, paste = request.get("text"), request.get("paste")
        session.type((text.encode() if text else b"") + (screen.paste(paste) if paste else b"") + typed)
        return fields(accepted=True)

    drawing = asyncio.Semaphore(MAX_DRAWING)

    async def screen(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        form = request.get("format") or "text"
        shown = session.screen
        scrollback = bool(request.get("scrollback"))
        made: Any
        match form:
            case "text":
                made = shown.text(scrollback=scrollback)
            case "ansi":
                made = shown.ansi(scrollback=scrollback).decode("utf-8", "replace")
            case "html":
                made = shown.html()
            case "svg":
                made = shown.svg()
            case "png":
                made = await _png(session, drawing)
            case _:
                made = _keyed(shown.cells())
        return fields(name=session.id, format=form, screen=made, cols=shown.cols, rows=shown.rows)

    async def lines(request: Request) -> Mapping[Any, Any]:
        if id := request.get("follower"):
            follower = followers.find(id)
            if follower is None:
                raise OpError(ErrorCode.NOT_FOUND, f"no follower {id!r}")
            answer = await _followed(follower, request)
            if answer[_ENDED]:
                followers.remove(follower)
            return answer
        session = find(request)
        limit = min(request.get("limit") or MAX_LINES, MAX_LINES)
        if not request.get("follow"):
            found = kept(session)
            while found.texts and not found.texts[-1]:
                found.texts.pop()
            return fields(**_last(found, limit))
        try:
            follower = followers.add(session)
        except ValueError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        found = follower.before
        following = found.first + len(found.texts)
        return fields(**_last(found, limit), next=following, follower=follower.id)

    async def search(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        needle, regex = request.get("needle"), request.get("regex")
        if (needle is None) == (regex is None):
            raise OpError(ErrorCode.INVALID_PARAMS, "one of :needle and :regex is wanted")
        limit = min(request.get("limit") or MAX_MATCHES, MAX_MATCHES)
        name = "needle" if regex is None else "regex"
        try:
            compiled(needle or regex or "", literal=regex is None)  # a wrong one costs nothing more
            found = await searchers.run(
                session.screen.searcher(needle or regex, regex=regex is not None, limit=limit)
            )
        except ValueError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :{name}: {error}") from None
        except TimeoutError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        return fields(matches=[fields(line=each.line, column=each.column, text=each.text) for each in found])

    async def wait(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        return await _wait(session, request, searchers)

    async def resize(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        session.resize(request.get("cols"), request.get("rows"))
        return fields(accepted=True)

    async def record(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        if request.get("stop"):
            path = session.recording
            if path is None:
                raise OpError(ErrorCode.INVALID_PARAMS, f"session {session.id!r} is not recorded")
            session.stop_recording()
            return fields(path=path)
        try:
            return fields(path=host.record(session.id, request.get("path")))
        except HostError as error:
            raise OpError(_CODES[error.kind], str(error)) from None

    return {
        "terminal_start": start,
        "terminal_list": list_,
        "terminal_stop": stop,
        "terminal_send": send,
        "terminal_screen": screen,
        "terminal_lines": lines,
        "terminal_search": search,
        "terminal_wait": wait,
        "terminal_resize": resize,
        "terminal_record": record,
    }


def _done(find: Callable[[], Session]) -> Session:
    try:
        return find()
    except HostError as error:
        raise OpError(_CODES[error.kind], str(error)) from None


def _last(found: Kept, limit: int) -> dict[str, Any]:
    """The last lines, and where they begin."""
    cut = max(0, len(found.texts) - limit)
    return {
        "lines": found.texts[cut:],
        "first": found.first + cut,
        "oldest": found.first,
        "complete": found.is_complete,
    }


def _row(session: Session, usage: Usage | None) -> dict[Any, Any]:
    screen = session.screen
    return fields(
        name=session.id,
        state=session.state.value,
        argv=session.command,
        cwd=session.cwd,
        pid=session.pid,
        cols=screen.cols,
        rows=screen.rows,
        clients=session.viewers,
        title=screen.title,
        started_at=session.started_at,
        idle=max(0.0, time.monotonic() - session.active_at) if session.active_at else None,
        exit_code=session.exit_code,
        recording=session.recording,
        recording_error=session.recording_error,
        cpu_percent=round(usage.cpu_percent, 1) if usage else None,
        cpu_seconds=usage.cpu_seconds if usage else None,
        memory=usage.memory if usage else None,
    )


async def _png(session: Session, drawing: asyncio.Semaphore) -> str:
    """What a session shows, drawn in a thread: fonts are looked for, and each cell is drawn."""
    try:
        async with asyncio.timeout(DRAW_WAIT), drawing:
            draw = session.screen.png_of_now()
            return await asyncio.to_thread(lambda: base64.b64encode(draw()).decode())
    except TimeoutError:
        raise OpError(ErrorCode.FAILED, f"the picture was not done within {DRAW_WAIT:g} s") from None
    except (ImportError, ValueError) as error:  # there is no Pillow, or the screen is too large
        raise OpError(ErrorCode.FAILED, str(error)) from None


async def _followed(follower: Follower, request: Request) -> Mapping[Any, Any]:
    """The next lines, or none if none came in time."""
    session = follower.session
    changed = asyncio.Event()
    session.watchers.add(changed.set)
    number, timeout = request.get("from") or 0, request.get("timeout")
    limit = min(request.get("limit") or FOLLOWED_LINES, FOLLOWED_LINES)
    try:
        async with asyncio.timeout(FOLLOW_WAIT if timeout is None else min(timeout, FOLLOW_WAIT)):
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


async def _shown(session: Session, patterns: list[Pattern], searchers: _Searchers) -> Found | None:
    """What of this the screen shows, if it is still there: who stops a session forgets it."""
    if not patterns or session.screen.is_closed:
        return None
    text = session.screen.text()

    def search(pattern: Pattern, goes_on: Callable[[], bool]) -> Found | None:
        return pattern.search(text) if goes_on() else None

    for pattern in patterns:
        quick = pattern.is_quick(text)
        found = pattern.search(text) if quick else await searchers.run(partial(search, pattern))
        if found:
            return found
    return None


async def _wait(session: Session, request: Request, searchers: _Searchers) -> Mapping[Any, Any]:
    """Until the screen shows a text, the program has been quiet for a while, or it has ended."""
    text, regex, idle = request.get("text"), request.get("regex"), request.get("idle")
    if text is None and regex is None and idle is None and not request.get("exit"):
        raise OpError(ErrorCode.INVALID_PARAMS, "one of :text, :regex, :idle and :exit is wanted")
    try:
        patterns = [compiled(text, literal=True)] if text is not None else []
        patterns += [compiled(regex, multiline=True)] if regex is not None else []
    except PatternError as error:
        raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :regex: {error}") from None
    changed = asyncio.Event()
    session.watchers.add(changed.set)
    timeout = request.get("timeout")
    deadline = time.monotonic() + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
    try:
        while True:
            changed.clear()
            began = time.monotonic()
            if found := await _shown(session, patterns, searchers):
                return fields(matched=True, reason="text", match=found[0])
            next_look = time.monotonic() + LOOK_SHARE * (time.monotonic() - began)
            if session.state is State.ENDED and not changed.is_set():
                return fields(matched=bool(request.get("exit")), reason="exit", exit_code=session.exit_code)
            pause = deadline - time.monotonic()
            if idle is not None:
                quiet = session.active_at + idle - time.monotonic()
                if quiet <= 0:
                    return fields(matched=True, reason="idle")
                pause = min(pause, quiet)
            if deadline <= time.monotonic():
                return fields(matched=False, reason="timeout")
            try:
                async with asyncio.timeout(pause):
                    await changed.wait()
                    if patterns:
                        await asyncio.sleep(next_look - time.monotonic())
            except TimeoutError:
                continue
    finally:
        session.watchers.discard(changed.set)
