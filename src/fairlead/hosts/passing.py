"""Ops that are passed on to another host, for those who ask there by way of this daemon.

The far daemon decides as it does for its own clients. It is told who asks: what a person answers with, or
which agent it is. An agent of this host is none of those there, whatever it is called: it can't answer for a
person on either side.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..client.calls import RequestError
from ..doors.rpc.elsewhere import OWN_ENVIRONMENT
from ..doors.rpc.handlers import OpError
from ..formats import edn
from ..formats.edn import Keyword
from ..formats.shown import one_line
from ..formats.writing import Verbatim
from ..wire import rpc
from ..wire.rpc import ErrorCode
from ..wire.rpc_catalog import OPS
from . import limits
from .connection import FarAnswer, FarConnection

OpenCaller = Callable[[str, str], Awaitable[FarConnection]]
"""Makes a connection for who asks: by what a person asks with, and by an agent."""

_ID, _HOST, _TOKEN, _TOOL_OF = (Keyword(name) for name in ("id", "host", "token", "tool-of"))
_SESSION_ID, _ENV, _CWD = (Keyword(name) for name in ("session-id", "env", "cwd"))
_ROWS = tuple(Keyword(name) for name in ("session", "approval", "sessions", "others", "approvals", "reports"))
_TIMEOUT = Keyword("timeout")
HERE = one_line(socket.gethostname(), 40) or "another host"


class _Caller:
    """A connection for one of those who ask."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.connection: FarConnection | None = None
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None


class Passing:
    """Passes ops on to one host."""

    def __init__(self, host: str, open: OpenCaller, pool: ThreadPoolExecutor) -> None:
        self._host = host
        self._open = open
        self._pool = pool
        self._callers: dict[tuple[str, str], _Caller] = {}
        self._under_way = 0
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, op: str, params: Mapping[Any, Any], *, via: str, agent: str) -> Any:
        """The data of the answer, with the places that things there have among all hosts. Raises OpError."""
        if self._under_way >= limits.MAX_PASSED:
            raise self._failed(f"{limits.MAX_PASSED} requests are under way there already")
        self._under_way += 1
        try:
            return await self._asked(op, self._given(op, params), via, agent)
        except RequestError as error:
            raise OpError(error.code, f"{self._host}: {error}", _about(error.data)) from None
        except TimeoutError:
            raise self._failed("no answer in time; what was asked may have been done or not") from None
        except (ConnectionError, OSError) as error:
            raise self._failed(str(error) or type(error).__name__) from None
        finally:
            self._under_way -= 1

    def _failed(self, why: str) -> OpError:
        return OpError(ErrorCode.FAILED, f"{self._host}: {why}")

    async def _asked(self, op: str, params: Mapping[Any, Any], via: str, agent: str) -> Any:
        caller = self._caller(f"{HERE}: {via}", f"{HERE}: {agent}" if agent else "")
        caller.users += 1
        if caller.timer is not None:
            caller.timer.cancel()
            caller.timer = None
        try:
            async with caller.opening:  # who asks first is served first
                if caller.connection is None or not caller.connection.is_open:
                    await self._drop(caller)
                    key = next(key for key, each in self._callers.items() if each is caller)
                    caller.connection = await self._open(*key)
                connection = caller.connection
            answer = await connection.ask(op, params, wait=_wait_of(op, params))
        finally:
            caller.users -= 1
            if not caller.users:
                loop = asyncio.get_running_loop()
                caller.timer = loop.call_later(limits.CALLER_KEPT, self._let_go, caller)
        return await self._named(answer)

    def _caller(self, via: str, agent: str) -> _Caller:
        key = via[:80], agent[:80]
        if (known := self._callers.get(key)) is not None:
            return known
        if len(self._callers) >= limits.MAX_CALLERS:
            idle = next((each for each in self._callers.values() if not each.users), None)
            if idle is None:
                raise ConnectionError(f"{limits.MAX_CALLERS} different clients ask there already")
            self._let_go(idle)
        made = self._callers[key] = _Caller()
        return made

    def _let_go(self, caller: _Caller) -> None:
        """Nobody has asked with it for a while."""
        if caller.users:
            return
        for key, each in list(self._callers.items()):
            if each is caller:
                del self._callers[key]
        task = asyncio.get_running_loop().create_task(self._drop(caller))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _drop(self, caller: _Caller) -> None:
        if caller.timer is not None:
            caller.timer.cancel()
        connection, caller.connection = caller.connection, None
        if connection is not None:
            await connection.close()

    def _given(self, op: str, params: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What is sent. Programs there get the environment of there, and nothing of ours."""
        if op == "terminal_start":
            env = params.get(_ENV) or {}
            own = {name: value for name, value in env.items() if name in OWN_ENVIRONMENT}
            return {**params, _ENV: own}
        return params

    async def _named(self, answer: FarAnswer) -> Any:
        """The answer's data with the ids by which they are known here."""
        data = answer.data
        if isinstance(data, Mapping):
            data = dict(data)
            self._name(data)
            for key in _ROWS:
                value = data.get(key)
                if isinstance(value, Mapping):
                    data[key] = self._row(value)
                elif isinstance(value, list | tuple):
                    data[key] = [self._row(each) if isinstance(each, Mapping) else each for each in value]
        if answer.is_long:  # writing it takes as long as reading it did
            loop = asyncio.get_running_loop()
            return Verbatim(await loop.run_in_executor(self._pool, _written, data))
        return data

    def _row(self, row: Mapping[Any, Any]) -> Mapping[Any, Any]:
        named = {**row, _HOST: self._host}
        if type(named.get(_ID)) is str:
            named[_ID] = f"{self._host}:{named[_ID]}"
        self._name(named)
        return named

    def _name(self, data: dict[Any, Any]) -> None:
        for key in (_SESSION_ID, _TOKEN, _TOOL_OF):
            if type(data.get(key)) is str and data[key]:
                data[key] = f"{self._host}:{data[key]}"

    async def close(self) -> None:
        for caller in list(self._callers.values()):
            await self._drop(caller)
        self._callers.clear()


def _written(data: Any) -> str:
    return edn.dumps(data, dialect=edn.PLAIN)


def _wait_of(op: str, params: Mapping[Any, Any]) -> float:
    """How long the answer may take: an op that waits says for how long."""
    given = params.get(_TIMEOUT)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return min(given, limits.LONGEST_WAIT) + limits.PASSED_WAIT
    if OPS[op].cancellable:
        return limits.LONGEST_WAIT
    return limits.PASSED_WAIT if not OPS[op].beside else 10 * limits.PASSED_WAIT


def _about(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return None
    return rpc.fields(**{str(key): value for key, value in data.items()})
