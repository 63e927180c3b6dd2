"""Connections for WebSockets with bounds that uvicorn lacks: on how fast messages are taken, on the answers
to pings, on pieces of a message, and on the time for which one that does not read is kept.

uvicorn parses all that has arrived at once, thousands of small messages, and asks for no more until they are
taken. Here only a little is parsed at a time, and more when that was taken and the connection's pace lets it.
What comes faster stays in the kernel, so that who sends it has to wait.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from . import limits
from .accepting import pace_of

TOO_FAST = 1008
"""The code with which a connection is closed over which too much comes: a breach of policy."""


class FrameProtocol(WebSocketsSansIOProtocol):
    """uvicorn's connection of a WebSocket. While what was written is not read, only the answers to the last
    pings are kept, as RFC 6455 allows, so that who pings and never reads costs no more memory."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._owed = b""
        self._unparsed = bytearray()
        self._is_held = False  # whether reading is paused
        self._next: asyncio.Handle | None = None  # parses more
        self._pace = pace_of({"state": self.app_state})

    # --- what comes ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # the upgrade, which came over HTTP and is parsed already
            super().data_received(data)
            return
        self._unparsed += data
        self._hold()
        self._go_on()

    def _go_on(self) -> None:
        """Parse the next piece, now or as soon as the pace lets it."""
        if self._next is not None or self.disconnected:
            return
        if not self.queue.empty() and not self.close_sent:  # `receive` goes on
            return
        if self._pace.driven > limits.WS_DRIVEN_SECONDS and not self.close_sent:
            self._end_driven()
        elif not self._unparsed:
            self._release()
        elif (wait := self._pace.wait) > 0:
            self._next = self.loop.call_later(wait, self._parse)
        else:
            self._next = self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        self._next = None
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        piece = bytes(self._unparsed[: limits.WS_PIECE])
        del self._unparsed[: limits.WS_PIECE]
        super().data_received(piece)
        self._go_on()

    def _hold(self) -> None:
        if not self.transport.is_closing():
            self._is_held = True
            self.transport.pause_reading()  # again and again: uvicorn goes on reading when it closes

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def _end_driven(self) -> None:
        """Close a connection over which far too much comes, without waiting for anything."""
        self.conn.fail(TOO_FAST, "too many messages")
        self._unparsed.clear()
        if not self.transport.is_closing():
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": TOO_FAST})
        self.transport.close()
        self._drop_soon()

    def _drop_soon(self) -> None:
        """A connection that closes waits until all is read that was written: who never reads is dropped."""
        self.loop.call_later(limits.WS_CLOSE_SECONDS, self.transport.abort)

    async def receive(self) -> Any:
        """The next message, when it is its turn."""
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            self._pace.spend()
            await asyncio.sleep(self._pace.wait)  # in any case others have a turn
        self._go_on()
        return message

    def send_receive_event_to_app(self) -> None:
        self.read_paused = True  # reading is ours to pause and go on with
        if self.close_sent:  # it is dropped, and yet it was work
            self._pace.spend()
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._drop_soon()

    def handle_close(self, event: Any) -> None:
        super().handle_close(event)
        self._drop_soon()

    def handle_cont(self, event: Any) -> None:
        self._pace.spend()
        if len(self.frames) >= limits.WS_MAX_FRAGMENTS:
            self.conn.fail(TOO_FAST, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        self._pace.spend()
        output = b"".join(self.conn.data_to_send())  # of all pings that were read together
        if self.transport.is_closing():
            return
        if self.writable.is_set():
            self.transport.write(output)
        elif output:
            self._owed = output

    def handle_pong(self, event: Any) -> None:
        self._pace.spend()
        super().handle_pong(event)

    # --- what goes ----------------------------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        """Send something; over a connection that is closing nothing is."""
        if self.transport.is_closing() and self.handshake_complete and not self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.close":  # reads on until the other's close
            self._drop_soon()
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._unparsed.clear()
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        """uvicorn would wait until all that was written is read: who answers no ping may never do so."""
        super().keepalive_timeout()
        self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        owed, self._owed = self._owed, b""
        if owed and not self.transport.is_closing():
            self.transport.write(owed)
