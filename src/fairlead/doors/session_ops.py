"""The ops of rpc-edn that take any session, whatever its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from ..sessions.directory import Directory, NoSession, NotSupported, Summary
from ..wire.rpc import ErrorCode, Request, fields
from .agent_frames import plain
from .rpc import Handler, OpError

MAX_LINES = 50_000
"""How many lines `session_lines` gives at the most."""
MAX_WAIT = 24 * 3600.0
"""Seconds that `session_wait` waits at the most."""

T = TypeVar("T")


def session_ops(directory: Directory) -> dict[str, Handler]:
    """Each op's function."""

    async def list_(request: Request) -> Mapping[Any, Any]:
        brief = bool(request.get("brief"))
        found = await directory.list(kind=request.get("kind"), brief=brief)
        return fields(sessions=[_row(each) for each in found], questions=directory.questions)

    async def find(request: Request) -> Mapping[Any, Any]:
        _, found = await _done(directory.find(request.get("name")))
        return fields(session=_row(found))

    async def stop(request: Request) -> Mapping[Any, Any]:
        kind, found = await _done(directory.find(request.get("name")))
        said = await _done(kind.stop(found.id))
        return fields(session=_row(found), **said)

    async def prompt(request: Request) -> Mapping[Any, Any]:
        kind, found = await _done(directory.find(request.get("name")))
        await _done(kind.prompt(found.id, request.get("text")))
        return fields(accepted=True, session=_row(found))

    async def lines(request: Request) -> Mapping[Any, Any]:
        kind, found = await _done(directory.find(request.get("name")))
        texts = await _done(kind.lines(found.id))
        shown = texts[-min(request.get("limit") or MAX_LINES, MAX_LINES) :]
        first = len(texts) - len(shown) + 1
        return fields(lines=list(shown), first=first, oldest=1, complete=True)

    async def wait(request: Request) -> Mapping[Any, Any]:
        kind, found = await _done(directory.find(request.get("name")))
        timeout = request.get("timeout")
        try:
            async with asyncio.timeout(MAX_WAIT if timeout is None else min(timeout, MAX_WAIT)):
                await _done(kind.settled(found.id))
        except TimeoutError:
            return fields(matched=False, reason="timeout")
        return fields(matched=True, reason="idle")

    return {
        "session_list": list_,
        "session_find": find,
        "session_stop": stop,
        "session_prompt": prompt,
        "session_lines": lines,
        "session_wait": wait,
    }


async def _done(work: Awaitable[T]) -> T:
    try:
        return await work
    except NoSession as error:
        raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
    except NotSupported as error:
        raise OpError(ErrorCode.FAILED, str(error)) from None


def _row(found: Summary) -> Mapping[Any, Any]:
    return fields(**{key: plain(value) for key, value in found.row.items()})
