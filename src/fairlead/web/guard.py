"""The outermost layer: Host, Origin and where a request comes from are checked before anything else is looked
at, every answer gets its headers, and the access log gets a line without query, cookies or tokens.

Host is compared with the names under which we are served, on the upgrade to a WebSocket too: a page of
another name that resolves to us (DNS rebinding) has its own name there. Origin must be ours for all that
changes something or opens a WebSocket, and must not be another's anywhere. A page of another site may link to
our pages, and that is all. What is decided by a header is refused if that is there twice: others, such as a
proxy, may have looked at the other one.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from . import limits
from .wired import Message, Receive, Scope, Send, fault, header, sent_fault, sent_json

access_log = logging.getLogger("fairlead.web.access")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "clipboard-read=(self), clipboard-write=(self), camera=(), microphone=()",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
SAFE = ("GET", "HEAD")
ONCE = frozenset(
    (
        *(b"origin", b"authorization", b"content-type", b"content-length", b"transfer-encoding"),
        *(b"sec-fetch-site", b"sec-fetch-mode"),
    )
)
"""Headers by which something is decided."""
LINKED = ("/", "/in")
"""Pages to which other sites may link."""


class Guard:
    """Checks requests and passes them on."""

    def __init__(self, app: Any, origins: frozenset[str], *, has_tls: bool) -> None:
        """`origins` are ours, as browsers write them: `http://127.0.0.1:7433`."""
        self._app = app
        self.origins = origins
        self.hosts = frozenset(each.partition("://")[2] for each in origins)
        self._more = [*_ENCODED, _STRICT_TRANSPORT] if has_tls else _ENCODED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                headers = list(message.get("headers") or ())
                has = {name.lower() for name, _ in headers}
                headers += [each for each in self._more if each[0] not in has]
                if b"cache-control" not in has:
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            if _size(scope) > limits.MAX_HEADER:  # one that comes in one piece is parsed whatever its size
                why = f"the headers may have at most {limits.MAX_HEADER} bytes"
                await sent_fault(scope, sending, 431, "web/too-big", why)
            elif why := _unclear(scope):
                close = (b"connection", b"close")  # where its body ends isn't clear either
                await sent_json(scope, sending, 400, fault("web/unclear", why), (close,))
            elif why := self._fault(scope):
                await sent_fault(scope, sending, 403, "web/origin", why)
            else:
                await self._app(scope, receive, sending)
        finally:
            method = scope.get("method", "WS")
            took = (time.monotonic() - began) * 1000
            peer = (scope.get("client") or ("-",))[0]
            access_log.info("%s %s %s %d %.0fms", peer, method, _shown(scope["path"]), status, took)

    def _fault(self, scope: Scope) -> str:
        """Why a request is refused for where it comes from; empty if it is not."""
        found = [value for name, value in scope["headers"] if name == b"host"]
        if len(found) != 1 or found[0].decode("latin-1").lower() not in self.hosts:
            return "this host name is not one of the console's"
        origin = header(scope, b"origin")
        site = header(scope, b"sec-fetch-site")
        if scope["type"] == "websocket" or scope["method"] not in SAFE:
            # programs with a token send no Origin; a cookie is never looked at beside a token
            if origin is None and header(scope, b"authorization") is not None:
                return ""
            if origin not in self.origins:
                return "a request from elsewhere than the console's own pages"
        elif origin is not None and origin not in self.origins:
            return "a request from elsewhere than the console's own pages"
        is_linked = header(scope, b"sec-fetch-mode") == "navigate" and scope["path"] in LINKED
        if site not in (None, "same-origin", "none") and not is_linked:
            return "a request from elsewhere than the console's own pages"
        return ""


def _unclear(scope: Scope) -> str:
    """Why a request can be understood in two ways; empty if it can't."""
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name in ONCE and name in seen:
            return f"the header {name.decode()} may be given once"
        seen.add(name)
    if {b"content-length", b"transfer-encoding"} <= seen:
        return "a body has a length or comes in chunks, not both"
    return ""


def _size(scope: Scope) -> int:
    path = len(scope["raw_path"]) + len(scope["query_string"])
    return path + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _shown(path: str) -> str:
    """A path for the log, on one line and of bounded length."""
    return "".join(each if each.isprintable() and each != " " else "?" for each in path[:200])
