"""Connections of browsers: whose each one is, before anything that it says is read, and limits on slow ones.

On this machine another user's process and an agent's are refused, whatever cookie they bring: cookies don't
know ports, so that a server of theirs that a person visits may have got one. What comes from other machines
can't be looked at; it needs TLS and a person's confirmation instead.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..doors.peer_proof import behind, peer_uid
from ..system.processes import has_proc
from . import limits
from .accepting import STRANGER, Connection, Seldom, is_near, refusal
from .places import Users

Programs = Callable[[], Awaitable[Mapping[int, str]]]
"""Returns the processes that the daemon knows to be an agent's."""


def objection(connection: socket.socket, programs: Mapping[int, str], users: Users) -> str:
    """Why nothing is said to the process at the other end; empty if it may be a person's browser. May take a
    while."""
    uid = peer_uid(connection)
    if uid is None:
        near = is_near(connection.getpeername()[0], connection.getsockname()[0])
        return "the process that connected is gone" if near and has_proc() else ""
    if why := users.objection(uid):
        return why
    if uid != os.getuid():
        return ""
    return "an agent's process may not use the console" if behind(connection, lambda: programs).agent else ""


class GuardedProtocol(H11Protocol):
    """uvicorn's connection, which reads nothing until it is known whose it is."""

    find_programs: ClassVar[tuple[Programs]]
    users: ClassVar[Users] = Users(frozenset())
    unchecked: ClassVar[set[Any]] = set()
    refused: ClassVar[Seldom] = Seldom()

    @property
    def _place(self) -> Connection:
        found: Connection = self.app_state["connection"]
        return found

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._early = b""
        self._is_let_in = False
        self._is_upgraded = False
        self._lingers = False
        self._deadline: asyncio.TimerHandle | None = None
        if len(self.unchecked) >= limits.MAX_CONNECTIONS_UNCHECKED:
            self._refuse(503, "too many connections at once")
        else:
            self._await_headers()
            self.unchecked.add(self)
            self._checking = self.loop.create_task(self._check())

    async def _check(self) -> None:
        """Find out who connects, then read what they say."""
        try:
            async with asyncio.timeout(limits.PEER_SECONDS):
                programs = await self.find_programs[0]()
                connection = self.transport.get_extra_info("socket")
                why = await asyncio.to_thread(objection, connection, programs, self.users)
        except (OSError, TimeoutError) as error:
            why = f"it can't be found out who connects: {error or 'it takes too long'}"
        finally:
            self.unchecked.discard(self)
        if self.transport.is_closing():
            return
        if why:
            self.refused.warn(f"refused a connection from {self._place.address}: {why}")
            self._refuse(403, why)
            return
        self._is_let_in = True
        early, self._early = self._early, b""
        self.transport.resume_reading()
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if not self._is_let_in:
            self._early += data
            if len(self._early) > limits.MAX_HEADER:
                self.transport.pause_reading()
            return
        super().data_received(data)
        if self._lingers and self.conn.their_state is not h11.SEND_BODY:
            self._lingers = False
            self._cancel_deadline()
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_deadline()
        elif self._deadline is None and not self._is_upgraded and not self.transport.is_closing():
            self._await_headers()

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(limits.HEADER_SECONDS, self._too_slow)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._refuse(408, f"no whole request within {limits.HEADER_SECONDS:g} s")

    def _refuse(self, status: int, why: str) -> None:
        """Answer in one piece, whatever was asked, and close."""
        if not self.transport.is_closing():
            self.transport.write(refusal(status, why))
            self.transport.close()

    def on_response_complete(self) -> None:
        is_stranger = self._place.standing == STRANGER
        self.timeout_keep_alive = limits.STRANGER_IDLE_SECONDS if is_stranger else limits.IDLE_SECONDS
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._end_body()

    def _end_body(self) -> None:
        """What was answered before its body had come whole is over; the answer gets a moment to be read, as
        closing while something comes has the kernel drop it."""
        self._cancel_deadline()
        self._lingers = True
        self._deadline = self.loop.call_later(limits.LINGER_SECONDS, self.transport.close)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._is_upgraded = True  # the bytes from now on are frames: nothing of ours may come between
        self._cancel_deadline()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self.unchecked.discard(self)
        super().connection_lost(exc)


def protocol_for(programs: Programs, users: Users) -> type[GuardedProtocol]:
    """The protocol of a server to which processes of these users may connect."""
    return type(
        "Connection",
        (GuardedProtocol,),
        {"find_programs": (programs,), "users": users, "unchecked": set(), "refused": Seldom()},
    )
