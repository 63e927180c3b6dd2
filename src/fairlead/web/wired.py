"""The few things of ASGI that several modules need: types, headers, bodies and answers in JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from . import limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON_TYPE = (b"content-type", b"application/json; charset=utf-8")


class BadRequest(Exception):
    """A request that makes no sense, or is too much."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Gone(Exception):
    """Who asked has gone."""


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a header that may be given once, or the last one."""
    found = None
    for each, value in scope["headers"]:
        if each == name:
            found = value.decode("latin-1")
    return found


def encoded(value: Any) -> bytes:
    """A value as JSON; what JSON has no word for is text or null."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:  # half a surrogate pair, as in a file's name that is no UTF-8
        return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, set | frozenset | tuple) else str(value)


def fault(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message}}


async def sent_json(
    scope: Scope, send: Send, status: int, value: Any, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send an answer, or refuse a WebSocket with it."""
    body = encoded(value)
    start = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    length = (b"content-length", str(len(body)).encode())
    await send({"type": f"{start}.start", "status": status, "headers": [JSON_TYPE, length, *headers]})
    await send({"type": f"{start}.body", "body": body})


async def sent_fault(
    scope: Scope,
    send: Send,
    status: int,
    code: str,
    message: str,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    await sent_json(scope, send, status, fault(code, message), headers)


class BodyRoom:
    """How many bytes of bodies may be held, of all who share it together."""

    def __init__(self, size: int, within: BodyRoom | None = None) -> None:
        """What is held in this one is also held in the one that it is `within`."""
        self.left = size
        self._within = within

    def take(self, count: int) -> None:
        """Raises BadRequest if there is no room for so many bytes more."""
        if count > self.left:
            raise BadRequest(429, "web/too-many", "too much is being sent at a time; try again")
        if self._within is not None:
            self._within.take(count)
        self.left -= count

    def give_back(self, count: int) -> None:
        self.left += count
        if self._within is not None:
            self._within.give_back(count)


class Held:
    """What one request holds of a room: all of it is given back at the end."""

    def __init__(self, room: BodyRoom | None = None) -> None:
        self._room = room
        self._count = 0

    def take(self, count: int) -> None:
        """Raises BadRequest."""
        if self._room is not None:
            self._room.take(count)
            self._count += count

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        if self._room is not None:
            self._room.give_back(self._count)


async def body_of(scope: Scope, receive: Receive, limit: int, held: Held) -> bytes:
    """A request's body. Raises BadRequest if it is too long or comes too slowly, and Gone."""
    length = header(scope, b"content-length")
    if length is not None and (not length.isdecimal() or len(length) > 18 or int(length) > limit):
        raise BadRequest(413, "web/too-big", f"a body may have at most {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                if len(body) + len(part) > limit:
                    raise BadRequest(413, "web/too-big", f"a body may have at most {limit} bytes")
                held.take(len(part))
                body += part
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise BadRequest(408, "web/too-slow", f"no whole body within {limits.BODY_SECONDS:g} s") from None


async def json_of(
    scope: Scope, receive: Receive, limit: int = limits.MAX_BODY, held: Held | None = None
) -> dict[str, Any]:
    """The JSON object in a request's body; an empty one is {}. Raises BadRequest and Gone."""
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    body = await body_of(scope, receive, limit, held or Held())
    if kind != "application/json" and (body or kind):
        raise BadRequest(415, "web/type", "the body must be application/json")
    if not body:
        return {}
    if len(body) <= limits.SMALL_BODY:
        return _parsed(body)
    return await asyncio.to_thread(_parsed, body)


def _parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises BadRequest."""
    if not _has_few_values(body):
        raise BadRequest(400, "web/too-big", f"a body may have at most {limits.MAX_VALUES} values")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadRequest(400, "request/invalid-params", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise BadRequest(400, "request/invalid-params", "the body must be a JSON object")
    return value


def _has_few_values(body: bytes) -> bool:
    """True if JSON has at most MAX_VALUES values: found out before they are made, by a few passes that each
    take milliseconds for the longest body."""
    if len(body) <= limits.MAX_VALUES:
        return True
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if plain.count(b'"') > 4 * limits.MAX_VALUES:
        return False
    outside = b"".join(plain.split(b'"')[::2])  # what is in no string
    return sum(outside.count(each) for each in (b",", b"[", b"{")) <= limits.MAX_VALUES
