"""Ops over HTTP: `POST /api/ops/OP` asks the daemon the same as rpc-edn does, with the same table of ops."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ..client.calls import RequestError
from ..formats.edn import Keyword
from . import limits, roles
from .access import AccessRefused, Visitor
from .hub import Hub
from .shared import shared_row
from .wired import BadRequest, BodyRoom, Gone, Held, Receive, Scope, Send, fault, json_of, sent_json

_STATUS = {
    "request/not-found": 404,
    "request/session-not-idle": 409,
    "request/no-active-dialog": 409,
    "request/dialog-id-mismatch": 409,
    "request/no-pending-login": 409,
    "transport/max-pending-exceeded": 429,
}


def status_of(code: str) -> int:
    """The status of an error of the daemon."""
    return _STATUS.get(code) or (400 if code.startswith(("request/", "protocol/")) else 409)


class Ops:
    """Asks the daemon for visitors."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._running = dict.fromkeys(_PLACES, 0)
        self._room = BodyRoom(limits.MAX_BODIES)
        self._room_of_shares = BodyRoom(limits.MAX_SHARES_BODIES, self._room)
        self.counts: dict[tuple[str, int], int] = {}
        """How often each op was asked, by the answer's status."""

    async def answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor, op: str) -> None:
        """Answer a request for an op."""
        try:
            status, value = await self._answer(scope, receive, visitor, op)
        except Gone:
            return
        known = op if op in roles.OPS_OF["owner"] else "unknown"
        self.counts[known, status] = self.counts.get((known, status), 0) + 1
        await sent_json(scope, send, status, value)

    async def _answer(
        self, scope: Scope, receive: Receive, visitor: Visitor, op: str
    ) -> tuple[int, dict[str, Any]]:
        kind = _kind_of(visitor)
        most, most_of_kind = _PLACES[kind]
        is_full = sum(self._running.values()) >= limits.MAX_ALL_OPS or self._running[kind] >= most_of_kind
        if visitor.ops >= most or is_full:
            return 429, fault("web/too-many", "too many requests at a time")
        visitor.ops += 1
        self._running[kind] += 1
        try:
            # what may not be asked is refused before any of its body is read
            roles.check_op(visitor, op)
            with Held(self._room if visitor.share is None else self._room_of_shares) as held:
                given = await json_of(scope, receive, _longest(visitor), held)
                params = roles.given_to(visitor, op, given)
                return await self._with_patience(receive, visitor, op, params)
        except (AccessRefused, BadRequest) as error:
            return error.status, fault(error.code, str(error))
        finally:
            visitor.ops -= 1
            self._running[kind] -= 1

    async def _with_patience(
        self, receive: Receive, visitor: Visitor, op: str, params: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Ask, unless that takes too long, or who asks goes away or may not be here any more."""
        asking = asyncio.ensure_future(self._asked(visitor, op, params))
        leaving = asyncio.ensure_future(_left(receive))
        ending = asyncio.ensure_future(visitor.ended.wait())
        try:
            await asyncio.wait(
                (asking, leaving, ending),
                timeout=limits.OP_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if asking.done():
                return asking.result()
            if leaving.done():
                raise Gone
            if ending.done():
                return 401, fault("web/no-session", "the right to be here has ended")
            return 504, fault("web/too-slow", f"{op} takes longer than {limits.OP_SECONDS:g} s")
        finally:
            for each in (asking, leaving, ending):
                each.cancel()
            await asyncio.gather(asking, leaving, ending, return_exceptions=True)

    async def _asked(self, visitor: Visitor, op: str, params: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            await self._hub.here()
            if visitor.share is not None:
                await shared_row(self._hub, visitor.share)
            if op in ("approvals", "approval_settle") and visitor.share is not None:
                await self._check_question(visitor, params.get("token"))
            if op == "terminal_start" and not (await self._hub.place(str(params.get("name"))))[0].host:
                params.setdefault("cwd", os.path.expanduser("~"))
                params.setdefault("env", dict(os.environ))
            if isinstance(params.get("images"), list):
                params["images"] = [_worded(each) for each in params["images"]]
            ask = self._hub.ask if visitor.share is not None else self._hub.ask_all_hosts
            answer = roles.seen_by(visitor, op, await ask(op, **params))
        except AccessRefused as error:
            return error.status, fault(error.code, str(error))
        except RequestError as error:
            message = roles.error_for(visitor, op, error.code, str(error))
            return status_of(error.code), fault(error.code, message)
        except (ConnectionError, TimeoutError, OSError) as error:
            return 503, fault("web/away", str(error) or "the daemon is away")
        except (TypeError, ValueError, RecursionError) as error:  # what EDN has no word for
            return 400, fault("request/invalid-params", str(error)[:200])
        if op == "approval_settle":
            await self._hub.look_at_questions()
        return 200, {"ok": True, "data": answer}

    async def _check_question(self, visitor: Visitor, token: Any) -> None:
        """Raise AccessRefused unless a token is just that of a question that the visitor's list has: the
        daemon also takes the beginning of one, and the name of a session, and tells of closed ones."""
        if token is None:
            return
        mine = roles.seen_by(visitor, "approvals", await self._hub.ask("approvals"))["approvals"]
        if not any(each.get("token") == token for each in mine):
            raise roles.not_here()


def _worded(value: Any) -> Any:
    """A map of JSON as ops take it: with keywords."""
    if not isinstance(value, dict):
        return value
    return {Keyword(name.replace("_", "-")): each for name, each in value.items()}


_PLACES = {
    "share": (limits.MAX_SHARE_OPS, limits.MAX_SHARES_OPS),
    "token": (limits.MAX_OPS, limits.MAX_TOKENS_OPS),
    "page": (limits.MAX_OPS, limits.MAX_ALL_OPS),
}
"""Ops at a time of one visitor of a kind, and of all of them."""


def _kind_of(visitor: Visitor) -> str:
    if visitor.share is not None:
        return "share"
    return "token" if visitor.grant.is_token else "page"


def _longest(visitor: Visitor) -> int:
    """How many bytes a visitor's body may have."""
    if visitor.share is None:
        return limits.MAX_BODY
    return limits.MAX_WRITER_BODY if roles.may_write(visitor) else limits.MAX_WATCHER_BODY


async def _left(receive: Receive) -> None:
    """Wait until who asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
