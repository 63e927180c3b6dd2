"""The console as one application: which path is answered by what, and who may ask for it."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.routing import Route, Router, WebSocketRoute

from .. import __version__
from . import limits, static
from .accepting import GUEST, OWNER, connection_of, is_near, plain_address
from .access import Access, AccessRefused, Visitor, Waiting
from .console import Console
from .described import openapi
from .events import EventStreams
from .feeds import Feeds
from .guard import Guard
from .hub import Hub
from .live import LiveDoor
from .measured import metrics
from .ops import Ops
from .push import Pushes
from .recordings import send_recording
from .terminals import TerminalDoor
from .wired import BadRequest, Gone, Receive, Scope, Send, header, json_of, sent_fault, sent_json

MAX_COOKIES = 200
"""How many different cookies of our name are looked at: another server of this host may have set some."""

_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
"""Headers by which a proxy says that it is one."""

Handler = Callable[[Scope, Receive, Send, Visitor], Awaitable[None]]


class _Open:
    """What anybody may ask for."""

    def __init__(self, handler: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)


class _Closed:
    """What only somebody who was let in may ask for."""

    def __init__(self, app: App, handler: Handler, *, roles: tuple[str, ...] = ()) -> None:
        self._app = app
        self._handler = handler
        self._roles = roles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            visitor = self._app.visitor_of(scope)
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        if visitor is None:
            why = "nobody is logged in here; `fairlead web` prints a link"
            await sent_fault(scope, send, 401, "web/no-session", why)
        elif self._roles and visitor.role not in self._roles:
            await sent_fault(scope, send, 403, "web/role", f"a {visitor.role} may not see this")
        else:
            if (connection := connection_of(scope)) is not None:
                standing = OWNER if visitor.share is None else GUEST
                connection.standing = max(connection.standing, standing)
                connection.pace.within = visitor.pace
            await self._handler(scope, receive, send, visitor)


class App:
    """All that is served."""

    def __init__(
        self,
        hub: Hub,
        access: Access,
        port: int,
        origins: frozenset[str],
        *,
        has_tls: bool,
        proxied: str = "",
        pages: dict[str, static.Page] | None = None,
    ) -> None:
        """`proxied` is the address under which a proxy serves us."""
        self.hub = hub
        self.access = access
        self.started_at = time.time()
        self.ops = Ops(hub)
        self.feeds = Feeds(hub)
        self.events = EventStreams(self.feeds)
        self.live = LiveDoor(self.feeds)
        self.terminals = TerminalDoor(hub)
        self.console = Console(hub, access)
        self.errors = 0
        self._has_tls = has_tls or proxied.startswith("https")
        # of this prefix browsers take no cookie for another path, or from a server without TLS
        self.cookie = f"{'__Host-' if self._has_tls else ''}fairlead-{port}"
        self.pushes = Pushes(hub, access, has_tls=self._has_tls)
        self._is_proxied = bool(proxied)
        self._pages = static.read_pages() if pages is None else pages
        self._openapi = openapi()
        router = Router(routes=self._routes(), redirect_slashes=False, default=_Open(self._nothing))
        self.guard = Guard(_Spared(self, router), origins, has_tls=has_tls)

    def _routes(self) -> list[Route | WebSocketRoute]:
        def get(path: str, handler: Handler, roles: tuple[str, ...] = ()) -> Route:
            return Route(path, _Closed(self, handler, roles=roles), methods=["GET"])

        def post(path: str, handler: Handler, roles: tuple[str, ...] = ()) -> Route:
            return Route(path, _Closed(self, handler, roles=roles), methods=["POST"])

        programs = ("owner", "reader", "answerer")
        return [
            Route("/in", _Open(self._come_in), methods=["POST"]),
            Route("/healthz", _Open(self._health), methods=["GET"]),
            get("/metrics", self._metrics, programs),
            get("/api/me", self._me),
            get("/api/openapi.json", self._describe, programs),
            get("/api/events", self.events.answer),
            get("/api/recordings/{id:path}", self._recording),
            post("/api/ops/{op}", self._op),
            post("/api/leave", self._leave),
            get("/api/web/sessions", self.console.sessions, ("owner",)),
            post("/api/web/revoke", self.console.revoke, ("owner",)),
            post("/api/web/share", self.console.share, ("owner",)),
            post("/api/web/confirm", self.console.confirm, ("owner",)),
            get("/api/push", self.pushes.about),
            post("/api/push/subscribe", self.pushes.subscribe),
            post("/api/push/unsubscribe", self.pushes.unsubscribe),
            WebSocketRoute("/api/live", _Closed(self, self.live.answer)),
            WebSocketRoute("/api/terminals/{id:path}", _Closed(self, self._terminal)),
            *(Route(path, _Open(self._page), methods=["GET"]) for path in self._pages),
        ]

    # --- who asks -----------------------------------------------------------------------------------------

    def visitor_of(self, scope: Scope) -> Visitor | None:
        """Who asks, by a token or else by a cookie; a cookie beside a token is not looked at.

        Cookies that let in nobody don't count. Raises AccessRefused if others let in different ones: another
        server of this host may have set one, to have a person work in its name."""
        given = header(scope, b"authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            return self.access.find(token.strip(), is_token=True) if kind.lower() == "bearer" else None
        values = set(self._cookies(scope))
        found = (
            {} if len(values) > MAX_COOKIES else {id(each): each for each in map(self.access.find, values)}
        )
        found.pop(id(None), None)
        if len(found) > 1 or len(values) > MAX_COOKIES:
            why = (
                f"several cookies named {self.cookie} came, and another server of this host may have set some"
            )
            raise AccessRefused(
                f"{why}; delete this site's cookies in the browser and run `fairlead web`", "web/cookies", 400
            )
        return next(iter(found.values()), None)

    def _cookies(self, scope: Scope) -> list[str]:
        found = []
        for name, value in scope["headers"]:
            if name == b"cookie":
                for each in value.decode("latin-1").split(";"):
                    key, _, text = each.strip().partition("=")
                    if key == self.cookie:
                        found.append(text)
        return found

    # --- coming in and leaving ----------------------------------------------------------------------------

    async def _come_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            given = await json_of(scope, receive, limits.MAX_TICKET_BODY)
            ticket = given.get("ticket")
            if type(ticket) is not str or not ticket:
                raise BadRequest(400, "request/invalid-params", "the ticket is missing")
            address = plain_address(scope["client"][0])
            label = header(scope, b"user-agent") or ""
            proof = given.get("proof")
            secret, found = self.access.redeem(
                ticket,
                address,
                label,
                is_near=self._is_near(scope),
                proof=proof if type(proof) is str else "",
            )
        except (BadRequest, AccessRefused) as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        except Gone:
            return
        if isinstance(found, Waiting):
            self.hub.post("web/waiting", {})
            data = {"wait": True, "code": found.code, "proof": secret}
            await sent_json(scope, send, 202, {"ok": True, "data": data})
            return
        share = found.share
        self.hub.post("web/came-in", {"id": found.grant.id})
        to = f"/#/s/{share.session}" if share is not None else "/"
        cookie = self._set_cookie(secret, max(1, int(found.until - time.time())))
        await sent_json(scope, send, 200, {"ok": True, "data": {"to": to}}, (cookie,))

    def _is_near(self, scope: Scope) -> bool:
        """True if a browser of this machine asks, and nobody else through a proxy. If there is a proxy, no
        header tells that: it may say nothing of itself, and others write what they like."""
        is_forwarded = any(header(scope, each) is not None for each in _FORWARDED)
        near = is_near(scope["client"][0], scope["server"][0])
        return near and not self._is_proxied and not is_forwarded

    def _set_cookie(self, value: str, seconds: int) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._has_tls else ""
        text = f"{self.cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return (b"set-cookie", text.encode())

    async def _leave(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        if visitor.grant.is_token:
            await sent_fault(scope, send, 403, "web/role", "a token is ended by `fairlead token rm`")
            return
        self.access.revoke(visitor.grant.id)
        await sent_json(scope, send, 200, {"ok": True, "data": {}}, (self._set_cookie("", 0),))

    # --- what is asked for --------------------------------------------------------------------------------

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await static.send_page(self._pages, scope, receive, send)

    async def _nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        await sent_fault(scope, send, 404, "request/not-found", "there is nothing here")

    async def _me(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        share = visitor.share
        of_share = share and {
            "id": share.id,
            "session": share.session,
            "name": share.name,
            "kind": share.kind,
            "until": share.until,
        }
        me = {
            "role": visitor.role,
            "share": of_share,
            "version": __version__,
            "since": visitor.grant.since,
            "until": visitor.until,
            "daemon": "away" if self.hub.is_away else "here",
            "cursor": self.hub.cursor,
            "home": os.path.expanduser("~") if visitor.role == "owner" else None,
        }
        await sent_json(scope, send, 200, {"ok": True, "data": me})

    async def _op(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        await self.ops.answer(scope, receive, send, visitor, scope["path_params"]["op"])

    async def _terminal(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        await self.terminals.answer(scope, receive, send, visitor, scope["path_params"]["id"])

    async def _recording(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        await send_recording(self.hub, scope, send, visitor, scope["path_params"]["id"])

    async def _describe(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        await sent_json(scope, send, 200, self._openapi)

    async def _metrics(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        body = (await metrics(self)).encode()
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = "away" if self.hub.is_away else "ok"
        await sent_json(scope, send, 200, {"status": status})


class _Spared:
    """Answers with a plain 500 when something of ours fails: the reason is for the log."""

    def __init__(self, app: App, inner: Any) -> None:
        self._app = app
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._inner(scope, receive, sending)
        except Exception:
            self._app.errors += 1
            if begun:
                raise
            import logging

            logging.getLogger("fairlead.web").exception("a request failed")
            await sent_fault(scope, send, 500, "runtime/failed", "the console failed; see its log")
