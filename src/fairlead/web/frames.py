"""Connections for WebSockets with a bound on the answers to pings, which uvicorn writes however many wait,
and on the time for which one that does not read is kept."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class FrameProtocol(WebSocketsSansIOProtocol):
    """uvicorn's connection of a WebSocket. While what was written is not read, only the answers to the last
    pings are kept, as RFC 6455 allows, so that who pings and never reads costs no more memory."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._owed = b""

    def handle_ping(self) -> None:
        output = b"".join(self.conn.data_to_send())  # of all pings that were read together
        if self.writable.is_set():
            self.transport.write(output)
        elif output:
            self._owed = output

    def keepalive_timeout(self) -> None:
        """uvicorn would wait until all that was written is read: who answers no ping may never do so."""
        super().keepalive_timeout()
        self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        owed, self._owed = self._owed, b""
        if owed and not self.transport.is_closing():
            self.transport.write(owed)
