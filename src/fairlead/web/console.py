"""What an owner decides about the console itself: who is here, shares, and who is let in."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

from ..client.calls import RequestError
from . import limits
from .access import Access, AccessRefused, Grant, Share, Visitor
from .device import device
from .hub import Hub, NumberedEvent
from .shared import is_same
from .wired import BadRequest, Gone, Receive, Scope, Send, json_of, sent_fault, sent_json

SHARED_ROLES = ("watcher", "writer")


def grant_row(grant: Grant, share: Share | None = None) -> dict[str, Any]:
    """A browser or a token, for lists."""
    return {
        "id": grant.id,
        "kind": "token" if grant.is_token else "browser",
        "role": grant.role,
        "share": grant.share or None,
        "name": share.name if share is not None else None,
        "since": grant.since,
        "until": grant.until,
        "last": grant.last,
        "from": grant.address,
        "label": grant.label,
        "device": grant.label if grant.is_token else device(grant.label),
    }


def share_row(share: Share) -> dict[str, Any]:
    """A share, for lists."""
    return {
        "id": share.id,
        "session": share.session,
        "name": share.name,
        "role": share.role,
        "since": share.since,
        "until": share.until,
        "used": not share.link,
    }


class Console:
    """The console's own part of the API, and what the command asks for over `web.sock`."""

    def __init__(self, hub: Hub, access: Access) -> None:
        self._hub = hub
        self._access = access
        self.base = ""
        """The address in links."""

    def link(self, ticket: str) -> str:
        """A link with a ticket, in the part that no server gets."""
        return f"{self.base}/in#{ticket}"

    def listed(self, own: str = "") -> dict[str, Any]:
        """Who is here, or may come. `own` is the id of who asks, if that is a browser."""
        shares = {each.id: each for each in self._access.shares()}
        grants = self._access.grants()
        return {
            "sessions": [
                grant_row(each, shares.get(each.share)) | {"own": each.id == own} for each in grants
            ],
            "shares": [share_row(each) for each in shares.values()],
            "waiting": [
                {"code": each.code, "from": each.address, "agent": device(each.label), "until": each.until}
                for each in self._access.waiting
            ],
        }

    async def shared(self, name: Any, role: Any, seconds: Any) -> dict[str, Any]:
        """Share a session. Raises AccessRefused."""
        if type(name) is not str or not name:
            raise AccessRefused("the session's name is missing", "request/invalid-params", 400)
        if role not in SHARED_ROLES:
            raise AccessRefused("the role is watcher or writer", "request/invalid-params", 400)
        if type(seconds) not in (int, float) or not 1 <= seconds <= limits.MAX_SHARE_SECONDS:
            longest = int(limits.MAX_SHARE_SECONDS)
            raise AccessRefused(f"a share lasts from 1 to {longest} seconds", "request/invalid-params", 400)
        try:
            row = (await self._hub.ask("session_find", name=name))["session"]
        except RequestError as error:
            raise AccessRefused(str(error), error.code, 404) from None
        kind = cast(Literal["writer", "watcher"], role)
        began = row.get("started_at") or 0.0
        name = row.get("name") or row["id"]
        share, ticket = self._access.share(row["id"], name, row["kind"], kind, seconds, began)
        return {"id": share.id, "link": self.link(ticket), "until": share.until}

    async def run(self) -> None:
        """End shares whose session is another one by now: a name can be used again."""
        stale = asyncio.Event()
        stale.set()

        def happened(event: NumberedEvent) -> None:
            if event.topic == "sessions/created":
                self._access.end_shares_of(event.data["session_id"])
            elif event.topic == "web/back":
                stale.set()

        self._hub.listen(happened)
        while True:
            await stale.wait()
            stale.clear()
            await self._compare()

    async def _compare(self) -> None:
        """Compare when sessions began: some may have ended and begun while nobody looked."""
        if not any(each.began for each in self._access.shares()):
            return
        try:
            rows = (await self._hub.ask("session_list"))["sessions"]
        except (RequestError, ConnectionError, TimeoutError, OSError):
            return
        listed = {(row["kind"], row["id"]): row for row in rows}
        for share in self._access.shares():
            row = listed.get((share.kind, share.session))
            if row is not None and not is_same(share, row):
                self._access.revoke(share.id)

    # --- over HTTP ----------------------------------------------------------------------------------------

    async def sessions(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        await sent_json(scope, send, 200, {"ok": True, "data": self.listed(visitor.grant.id)})

    async def _given(self, scope: Scope, receive: Receive, send: Send) -> dict[str, Any] | None:
        try:
            return await json_of(scope, receive, limits.MAX_TICKET_BODY)
        except BadRequest as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
        except Gone:
            pass
        return None

    async def revoke(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        given = await self._given(scope, receive, send)
        if given is None:
            return
        try:
            count = self._access.revoke(str(given.get("id")))
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        await sent_json(scope, send, 200, {"ok": True, "data": {"ended": count}})

    async def share(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        given = await self._given(scope, receive, send)
        if given is None:
            return
        try:
            made = await self.shared(given.get("name"), given.get("role"), given.get("seconds"))
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
        except (ConnectionError, TimeoutError, OSError) as error:
            await sent_fault(scope, send, 503, "web/away", str(error))
        else:
            await sent_json(scope, send, 200, {"ok": True, "data": made})

    async def confirm(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        given = await self._given(scope, receive, send)
        if given is None:
            return
        try:
            self._access.confirm(str(given.get("code")), allowed=given.get("allowed") is True)
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        await sent_json(scope, send, 200, {"ok": True, "data": {}})
