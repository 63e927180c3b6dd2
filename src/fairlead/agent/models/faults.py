"""What went wrong with a model's server, in one sentence that says what to do about it.

Whatever the provider's library raises becomes a `ModelError` here. A sentence never has a class's name,
markup or the key in it; of what the provider itself said it has the words, shortened. Imported, as the
library is, when a model is first asked.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from html import unescape
from typing import Literal
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct
from pydantic_ai import exceptions as theirs

from . import ModelError, ModelInfo

CONNECT_TIMEOUT = 15.0
"""Seconds until a connection must stand."""
SILENCE_TIMEOUT = 300.0
"""Seconds between two pieces of an answer; a model that thinks in silence needs some."""
MAX_WORDS = 600
"""How many characters of a provider's error are told."""
MAX_BEGINNING = 64
"""How many bytes of a response are looked at,"""
MAX_END = 64
"""and how many of its end."""
MAX_CAUSES = 16
"""How many causes of an error are looked at."""

_OVERFLOW = re.compile(
    r"context_length_exceeded|context (?:length|window|size)|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|token count .{0,80}exceeds|request_too_large",
    re.IGNORECASE,
)
_BUSY = frozenset({408, 425, 429})
_TAG = re.compile(r"<[^>]{0,2000}>")
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,300}?)</title>", re.IGNORECASE | re.DOTALL)
_STOPPED, _UNREADABLE = "ended without", "Failed to decode"
"""What the library says of a stream that just stops, and of one that is no JSON."""
_KEY_WORDS = re.compile(r"api[ _-]?key", re.IGNORECASE)

Kind = Literal["busy", "overflow", "refused", "broken"]


class Server(Struct):
    """Where a model is asked, and what the server's last response looked like."""

    base_url: str
    status: int = 0
    """0 until there is a response."""
    content_type: str = ""
    beginning: bytes = b""
    """The first bytes of the response,"""
    end: bytes = b""
    """and the last ones so far."""

    def __repr__(self) -> str:
        return f"Server({self.place})"

    @property
    def place(self) -> str:
        """The host, with its port where that is not the usual one; never what an address says of a user."""
        parts = urlsplit(self.base_url)
        return (parts.hostname or "") + (f":{parts.port}" if parts.port else "")

    @property
    def is_done(self) -> bool:
        """Whether the stream said itself that it is over, as those of OpenAI do."""
        return self.end.rstrip().endswith(b"data: [DONE]")

    @property
    def streams(self) -> bool:
        """False if what came is certainly no stream of events."""
        return self.content_type in ("text/event-stream", "") and not self.is_page

    @property
    def is_page(self) -> bool:
        is_html = self.content_type in ("text/html", "application/xhtml+xml")
        return is_html or self.beginning.lstrip()[:1] == b"<"

    async def heard(self, response: httpx2.Response) -> None:
        """A response begins."""
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Noted(self, response.stream)


class _Noted(httpx2.AsyncByteStream):
    """The body of a response, whose beginning is noted."""

    def __init__(self, server: Server, stream: httpx2.AsyncByteStream) -> None:
        self._server = server
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            if not self._server.beginning:
                self._server.beginning = piece[:MAX_BEGINNING]
            self._server.end = (self._server.end + piece)[-MAX_END:]
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def cut_off(server: Server, info: ModelInfo) -> ModelError:
    """An answer whose stream ended before the answer did."""
    return _error(*(_cut(server) if server.streams else _no_stream(server, info)), info)


def empty(server: Server, info: ModelInfo) -> ModelError:
    """An answer with neither text nor calls."""
    if not server.streams:
        return _error(*_no_stream(server, info), info)
    return _error(*_EMPTY, info)


_EMPTY: tuple[Kind, str] = "broken", "the answer is empty; rephrase the prompt, or choose another model"


def _cut(server: Server) -> tuple[Kind, str]:
    return "busy", f"{server.place} closed the connection in the middle of the answer; try again"


def _no_stream(server: Server, info: ModelInfo) -> tuple[Kind, str]:
    what = "a web page" if server.is_page else server.content_type
    table = f"base_url of [providers.{info.provider}]"
    return "refused", f"{server.place} answered with {what}, not with an event stream; check {table}"


def fault_of(
    error: Exception, info: ModelInfo, server: Server, key: str | None, new_key: str = ""
) -> ModelError:
    """The fault behind whatever was raised while a model was asked. `new_key` says how to change the key."""
    causes = list(_causes(error))
    status = error.status_code if isinstance(error, theirs.ModelHTTPError) else None
    words = _words(error, key)
    kind, sentence = (
        _of_connection(causes, info, server)
        or _of_response(error, words, status, server, new_key or f"enter one with /login {info.provider}")
        or _of_stream(error, words, info, server)
    )
    retry_after = getattr(error, "retry_after", None)
    return _error(kind, sentence, info, status=status, retry_after=retry_after)


def _error(
    kind: Kind, sentence: str, info: ModelInfo, *, status: int | None = None, retry_after: float | None = None
) -> ModelError:
    name = f"{info.provider}/{info.id}"
    what = sentence.rpartition("; ")[0] or sentence
    return ModelError(
        kind, f"{name}: {sentence}", status=status, retry_after=retry_after, reason=f"{name}: {what}"
    )


def _of_connection(causes: list[BaseException], info: ModelInfo, server: Server) -> tuple[Kind, str] | None:
    """A fault of the connection, if it is one."""
    place, table = server.place, f"base_url of [providers.{info.provider}]"

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if has(ssl.SSLCertVerificationError) or _says(causes, "CERTIFICATE_VERIFY_FAILED"):
        return (
            "refused",
            f"the certificate of {place} is not trusted; install its certificate authority, or check {table}",
        )
    if has(ssl.SSLError) or _says(causes, "[SSL:"):
        return (
            "refused",
            f"{place} does not speak TLS; should {table} begin with http:// instead of https://?",
        )
    if has(socket.gaierror) or _says(causes, "Name or service not known", "nodename nor servname"):
        return "busy", f"unknown host {place}; check the network and {table}"
    if has(httpx2.ConnectTimeout, httpx2.PoolTimeout):
        return "busy", f"{place} did not accept a connection within {CONNECT_TIMEOUT:g} s; is it reachable?"
    if has(httpx2.ConnectError, ConnectionRefusedError):
        return "busy", f"can't connect to {place}; start that server, or check {table}"
    if has(httpx2.ReadTimeout, httpx2.WriteTimeout):
        return "busy", f"{place} sent nothing for {SILENCE_TIMEOUT:g} s; try again, or check that server"
    if has(httpx2.UnsupportedProtocol, httpx2.InvalidURL):
        return "refused", f"{table} is not a valid URL; it must begin with http:// or https://"
    if has(httpx2.TransportError, OSError):
        if server.status:
            return _cut(server)
        return "busy", f"{place} closed the connection without an answer; check {table}"
    return None


def _of_response(
    error: Exception, words: str, status: int | None, server: Server, new_key: str
) -> tuple[Kind, str] | None:
    """A refusal by the provider, before the answer or in the middle of it."""
    told = f": {words}" if words else ""
    number = f" ({status})" if status else ""
    if isinstance(error, theirs.ModelContextWindowExceededError) or (
        status in (400, 413, 422) and _OVERFLOW.search(words)
    ):
        return "overflow", f"the conversation is longer than the model's window{number}{told}"
    if isinstance(error, theirs.ModelQuotaExceededError):
        return "refused", f"the account has no credit left{number}{told}; check your plan and billing"
    if status is None:
        return _of_kind(error, told, server, new_key)
    if status in (401, 403) or (status == 400 and _KEY_WORDS.search(words)):
        return "refused", f"the key was refused{number}{told}; to change it, {new_key}"
    if status == 404:
        where = f"{server.place} does not know this model or path{number}{told}"
        return "refused", f"{where}; check `fairlead agent --list-models` and base_url"
    if status == 429:
        return "busy", f"rate limit exceeded{number}{told}; try again later"
    if status in _BUSY or status >= 500:
        return "busy", f"{server.place} had an internal error{number}{told}; try again later"
    return "refused", f"{server.place} refused the request{number}{told}"


def _of_kind(error: Exception, told: str, server: Server, new_key: str) -> tuple[Kind, str] | None:
    """A refusal without a status."""
    if _STOPPED in told or _UNREADABLE in told or not server.streams:
        return None
    match error:
        case theirs.ModelAuthenticationError():
            return "refused", f"the key was refused{told}; to change it, {new_key}"
        case theirs.ModelRateLimitError() | theirs.ModelUnavailableError() | theirs.ModelServerError():
            return "busy", f"the provider is overloaded{told}; try again later"
        case theirs.ModelConnectionError() | theirs.ModelRequestTimeout():
            return "busy", f"the connection failed{told}; try again later"
        case theirs.ModelRequestRejectedError() | theirs.UserError():
            return "refused", f"the request was refused{told}"
        case theirs.ModelAPIError():
            return "broken", f"the provider ended the answer with an error{told}"
    return None


def _of_stream(error: Exception, words: str, info: ModelInfo, server: Server) -> tuple[Kind, str]:
    """An answer that is none."""
    if not server.streams:
        return _no_stream(server, info)
    if _STOPPED in words:
        return _EMPTY if server.is_done else _cut(server)
    return "broken", f"{server.place} sent an invalid answer; try again, or check that server"


def _causes(error: BaseException) -> Iterator[BaseException]:
    waiting = [error]
    for _ in range(MAX_CAUSES):
        if not waiting:
            return
        cause = waiting.pop()
        yield cause
        waiting += [each for each in (cause.__cause__, cause.__context__) if each is not None]


def _says(causes: list[BaseException], *texts: str) -> bool:
    return any(text in str(cause) for cause in causes for text in texts)


def _words(error: Exception, key: str | None) -> str:
    """What the provider said, or else the library, on one line."""
    words = _said(getattr(error, "body", None))
    if words is None:
        is_bare = isinstance(error, theirs.ModelHTTPError)  # then its text is only the status and the body
        words = "" if is_bare else getattr(error, "message", None) or str(error)
    if key:
        words = words.replace(key, "…")
    words = " ".join(_without_markup(words).split()).rstrip(".")
    return words if len(words) <= MAX_WORDS else words[:MAX_WORDS] + "…"


def _without_markup(text: str) -> str:
    """What a page says in its title, or without its tags."""
    if not re.search(r"<(?:!doctype|html|head|body|h1)\b", text[:2000], re.IGNORECASE):
        return text
    title = _TITLE.search(text)
    return unescape(title[1] if title else _TAG.sub(" ", text[: MAX_WORDS * 8]))


def _said(body: object) -> str | None:
    """What a provider says in the body of an error, wherever it puts it."""
    match body:
        case {"error": inner}:
            return _said(inner) or (inner if isinstance(inner, str) else None)
        case {"message": str(message)}:
            return message
        case {"detail": str(message)}:
            return message
        case [inner, *_]:
            return _said(inner)
        case str():
            return body
    return None
