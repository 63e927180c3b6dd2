"""The ops of rpc-edn that reach terminal sessions."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..terminal.host import Host, HostError
from ..terminal.session import Session, State
from ..terminal.usage import usage_of
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Handler, OpError

DEFAULT_COLS, DEFAULT_ROWS = 80, 24
MAX_WAIT = 24 * 3600.0
"""Seconds that `terminal_wait` waits at the most."""
MAX_MATCHES = 1000
"""How many matches `terminal_search` gives at the most."""

_CODES = {
    "missing": ErrorCode.NOT_FOUND,
    "invalid": ErrorCode.INVALID_PARAMS,
    "exists": ErrorCode.SESSION_NOT_IDLE,
    "limit": ErrorCode.FAILED,
    "failed": ErrorCode.FAILED,
}


def terminal_ops(host: Host) -> dict[str, Handler]:
    """Each op's function, over these sessions."""

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
            )
        except HostError as error:
            raise OpError(_CODES[error.kind], str(error)) from None
        return fields(name=session.id, pid=session.pid)

    async def list_(request: Request) -> Mapping[Any, Any]:
        return fields(sessions=[_row(session) for session in host.sessions.values()])

    async def stop(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        code = await host.stop(session.id)
        if session in host:
            host.forget(session)  # who stops a session doesn't want to look at it any more
        return fields(exit_code=code)

    async def send(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        if session.state is not State.RUNNING:
            raise OpError(ErrorCode.INVALID_PARAMS, f"session {session.id!r} is {session.state.value}")
        screen = session.screen
        try:
            typed = b"".join(screen.key(name) for name in request.get("keys") or ())
        except ValueError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        text, paste = request.get("text"), request.get("paste")
        session.type((text.encode() if text else b"") + (screen.paste(paste) if paste else b"") + typed)
        return fields(accepted=True)

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
                made = shown.ansi().decode("utf-8", "replace")
            case "html":
                made = shown.html()
            case "svg":
                made = shown.svg()
            case _:
                made = _keyed(shown.cells())
        return fields(name=session.id, format=form, screen=made, cols=shown.cols, rows=shown.rows)

    async def search(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        needle, regex = request.get("needle"), request.get("regex")
        if (needle is None) == (regex is None):
            raise OpError(ErrorCode.INVALID_PARAMS, "one of :needle and :regex is wanted")
        limit = min(request.get("limit") or MAX_MATCHES, MAX_MATCHES)
        try:
            found = session.screen.search(needle or regex, regex=regex is not None, limit=limit)
        except (ValueError, re.error) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :regex: {error}") from None
        return fields(matches=[fields(line=each.line, column=each.column, text=each.text) for each in found])

    async def wait(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        return await _wait(session, request)

    async def resize(request: Request) -> Mapping[Any, Any]:
        session = find(request)
        session.resize(request.get("cols"), request.get("rows"))
        return fields(accepted=True)

    return {
        "terminal_start": start,
        "terminal_list": list_,
        "terminal_stop": stop,
        "terminal_send": send,
        "terminal_screen": screen,
        "terminal_search": search,
        "terminal_wait": wait,
        "terminal_resize": resize,
    }


def _done(find: Callable[[], Session]) -> Session:
    try:
        return find()
    except HostError as error:
        raise OpError(_CODES[error.kind], str(error)) from None


def _row(session: Session) -> Mapping[Any, Any]:
    screen = session.screen
    usage = usage_of(session.pid) if session.state is State.RUNNING else None
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
        cpu_seconds=usage.cpu_seconds if usage else None,
        memory=usage.memory if usage else None,
    )


def _keyed(value: Any) -> Any:
    """Plain data with keywords for keys."""
    if isinstance(value, Mapping):
        return fields(**{str(key): _keyed(inner) for key, inner in value.items()})
    return [_keyed(inner) for inner in value] if isinstance(value, list | tuple) else value


async def _wait(session: Session, request: Request) -> Mapping[Any, Any]:
    """Until the screen shows a text, the program has been quiet for a while, or it has ended."""
    text, regex, idle = request.get("text"), request.get("regex"), request.get("idle")
    if text is None and regex is None and idle is None and not request.get("exit"):
        raise OpError(ErrorCode.INVALID_PARAMS, "one of :text, :regex, :idle and :exit is wanted")
    try:
        pattern = re.compile(regex if regex is not None else re.escape(text or ""), re.MULTILINE)
    except re.error as error:
        raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :regex: {error}") from None
    changed = asyncio.Event()
    session.watchers.add(changed.set)
    deadline = time.monotonic() + min(request.get("timeout") or MAX_WAIT, MAX_WAIT)
    try:
        while True:
            changed.clear()
            looking = text is not None or regex is not None
            if looking and (found := pattern.search(session.screen.text())):
                return fields(matched=True, reason="text", match=found[0])
            if session.state is State.ENDED:
                wanted = bool(request.get("exit"))
                return fields(matched=wanted, reason="exit", exit_code=session.exit_code)
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
            except TimeoutError:
                continue
    finally:
        session.watchers.discard(changed.set)
