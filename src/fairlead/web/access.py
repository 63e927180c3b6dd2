"""Who may come in: tickets of links, browsers that were let in, shares of a session, and tokens of programs.

Only hashes of secrets are kept, in memory and in a file that only our user can read; each secret has 192 bits
or more. All that lasts has an end and is revoked by its id, and what is open ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Struct, field

from ..system.files import read_private, replace_file
from . import limits
from .pace import MessagePace

RoleName = Literal["owner", "writer", "watcher", "answerer", "reader"]
"""`writer` and `watcher` are of one session; `answerer` and `reader` are programs with a token."""
SCOPES: dict[str, RoleName] = {"read": "reader", "answer": "answerer", "all": "owner"}

SECRET_BYTES = 24
ID_BYTES = 4


class AccessRefused(Exception):
    """Somebody may not come in. `code` and `status` are for the answer."""

    def __init__(self, message: str, code: str = "web/refused", status: int = 403) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def digest(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that a plain hash can't be searched."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Share(Struct):
    """One session, in one role, for somebody else."""

    id: str
    session: str
    name: str
    kind: str
    role: Literal["writer", "watcher"]
    since: float
    until: float
    began: float = 0.0
    """When the session began: another one of its name is not shared."""
    link: str = ""
    """The digest of its link's ticket until that is used."""


class Grant(Struct):
    """A browser that was let in, or a program with a token."""

    id: str
    digest: str
    role: RoleName
    since: float
    until: float
    share: str = ""
    label: str = ""
    """What the browser calls itself, or a token's name."""
    address: str = ""
    last: float = 0.0
    is_token: bool = False


class Book(Struct):
    """What is written down."""

    grants: list[Grant] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)


class Waiting(NamedTuple):
    """A browser of another machine that a person has to let in."""

    code: str
    address: str
    label: str
    until: float
    decided: asyncio.Future[bool]
    proof: str
    """The digest of the secret that this browser got, and no other that has the same link: addresses don't
    tell browsers apart behind a proxy or NAT."""


class Visitor:
    """Somebody who was let in, for one request or for as long as a stream is open."""

    def __init__(self, grant: Grant, share: Share | None) -> None:
        self.grant = grant
        self.share = share
        self.ended = asyncio.Event()
        """Set when the right to be here ends."""
        self.pace = MessagePace(limits.WS_VISITOR_RATE, limits.WS_VISITOR_BURST)
        """How fast messages of all WebSockets are taken together."""
        self.ops = self.streams = self.pages = self.terminals = 0

    @property
    def role(self) -> RoleName:
        return self.grant.role

    @property
    def until(self) -> float:
        return min(self.grant.until, self.share.until) if self.share is not None else self.grant.until


class Access:
    """The book of those who may come in. All of it runs on one loop."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._book = _read(path)
        self._tickets: dict[str, float] = {}
        self._waiting: dict[str, Waiting] = {}
        self._visitors: dict[str, Visitor] = {}
        self._wrong: dict[str, deque[float]] = {}
        self._all_wrong: deque[float] = deque(maxlen=limits.ALL_WRONG_TRIES)
        self._saved_at = 0.0
        self._tidy()

    # --- tickets ------------------------------------------------------------------------------------------

    def ticket(self) -> str:
        """A new ticket: good once, for a minute."""
        now = self._clock()
        self._tickets = {each: until for each, until in self._tickets.items() if until > now}
        while len(self._tickets) >= limits.MAX_TICKETS:
            self._tickets.pop(next(iter(self._tickets)))
        ticket = secrets.token_urlsafe(SECRET_BYTES)
        self._tickets[digest(ticket)] = now + limits.TICKET_SECONDS
        return ticket

    def redeem(
        self, ticket: str, address: str, label: str, *, is_near: bool, proof: str = ""
    ) -> tuple[str, Visitor | Waiting]:
        """Let somebody in with a ticket; returns the cookie's value. An owner's ticket that comes from
        another machine waits until a person has compared its code; then it returns the secret that this
        browser must give as its proof when it asks again. Raises AccessRefused.

        A ticket is looked up before wrong ones are counted, so that nobody's tries keep a right one out."""
        now = self._clock()
        key = digest(ticket)
        if (waiting := self._waiting.get(key)) is not None:
            return self._confirmed(key, waiting, address, proof)
        until = self._tickets.pop(key, 0.0)
        if until > now:
            if is_near:
                return self._let_in("owner", address, label)
            return self._wait(key, address, label)
        share = next((each for each in self._book.shares if each.link == key), None)
        if share is not None and share.until > now:
            share.link = ""
            return self._let_in(share.role, address, label, share)
        self._refuse_wrong(
            address,
            "this link was used already, or has expired: ask whoever gave it to you for another; "
            "for your own machine `fairlead web` prints one",
        )

    def _wait(self, key: str, address: str, label: str) -> tuple[str, Waiting]:
        now = self._clock()
        self._waiting = {each: found for each, found in self._waiting.items() if found.until > now}
        if len(self._waiting) >= limits.MAX_WAITING:
            raise AccessRefused("too many browsers wait to be let in", "web/too-many", 429)
        taken = {each.code for each in self._waiting.values()}
        code = next(
            each for each in iter(lambda: f"{secrets.randbelow(1_000_000):06}", "") if each not in taken
        )
        decided = asyncio.get_running_loop().create_future()
        secret = secrets.token_urlsafe(SECRET_BYTES)
        until = now + limits.CONFIRM_SECONDS
        self._waiting[key] = Waiting(code, address, label, until, decided, digest(secret))
        return secret, self._waiting[key]

    def _confirmed(
        self, key: str, waiting: Waiting, address: str, proof: str
    ) -> tuple[str, Visitor | Waiting]:
        if not secrets.compare_digest(waiting.proof, digest(proof)):
            self._refuse_wrong(address, "another browser has used this link")
        if not waiting.decided.done() and waiting.until > self._clock():
            return proof, waiting
        del self._waiting[key]
        if waiting.decided.done() and waiting.decided.result():
            return self._let_in("owner", address, waiting.label)
        raise AccessRefused("nobody let this browser in")

    @property
    def waiting(self) -> list[Waiting]:
        """Browsers that a person has to let in."""
        now = self._clock()
        return [each for each in self._waiting.values() if each.until > now and not each.decided.done()]

    def confirm(self, code: str, *, allowed: bool) -> None:
        """Let a browser in, or not. Raises AccessRefused."""
        for each in self.waiting:
            if each.code == code:
                each.decided.set_result(allowed)
                return
        raise AccessRefused(f"no browser waits with the code {code!r:.20}", "request/not-found", 404)

    def _let_in(
        self, role: RoleName, address: str, label: str, share: Share | None = None
    ) -> tuple[str, Visitor | Waiting]:
        now = self._clock()
        until = share.until if share is not None else now + limits.VISIT_SECONDS
        grant, secret = self._granted(role, until, label, address, share.id if share is not None else "")
        return secret, self._visitor(grant)

    def _granted(
        self,
        role: RoleName,
        until: float,
        label: str,
        address: str = "",
        share: str = "",
        is_token: bool = False,
    ) -> tuple[Grant, str]:
        self._tidy()
        if sum(each.is_token == is_token for each in self._book.grants) >= limits.MAX_GRANTS:
            raise AccessRefused(
                "too many were let in; `fairlead web --revoke` ends some", "web/too-many", 429
            )
        secret = ("flt_" if is_token else "") + secrets.token_urlsafe(SECRET_BYTES)
        now = self._clock()
        kept = "".join(filter(str.isprintable, label))[: limits.MAX_LABEL]
        grant = Grant(
            self._new_id(), digest(secret), role, now, until, share, kept, address, now, is_token=is_token
        )
        self._book.grants.append(grant)
        self._save()
        return grant, secret

    def _new_id(self) -> str:
        taken = {each.id for each in self._book.grants} | {each.id for each in self._book.shares}
        while (found := secrets.token_hex(ID_BYTES)) in taken:
            pass
        return found

    # --- shares and tokens --------------------------------------------------------------------------------

    def share(
        self,
        session: str,
        name: str,
        kind: str,
        role: Literal["writer", "watcher"],
        seconds: float,
        began: float = 0.0,
    ) -> tuple[Share, str]:
        """Share a session; returns also the ticket of its link, which is good once, for as long as the share.
        Raises AccessRefused."""
        self._tidy()
        if len(self._book.shares) >= limits.MAX_GRANTS:
            raise AccessRefused(
                "there are too many shares; `fairlead web --revoke` ends some", "web/too-many", 429
            )
        now = self._clock()
        ticket = secrets.token_urlsafe(SECRET_BYTES)
        until = now + min(seconds, limits.MAX_SHARE_SECONDS)
        made = Share(self._new_id(), session, name, kind, role, now, until, began, digest(ticket))
        self._book.shares.append(made)
        self._save()
        return made, ticket

    def token(self, scope: str, label: str, seconds: float) -> tuple[Grant, str]:
        """A token for a program. Raises AccessRefused."""
        if scope not in SCOPES:
            raise AccessRefused(
                f"no scope {scope!r:.40}; there are {', '.join(SCOPES)}", "request/invalid-params", 400
            )
        until = self._clock() + min(seconds, limits.MAX_SHARE_SECONDS)
        return self._granted(SCOPES[scope], until, label, is_token=True)

    # --- who is it ----------------------------------------------------------------------------------------

    def find(self, secret: str, *, is_token: bool = False) -> Visitor | None:
        """Whose a cookie or a token is, if anybody's. Wrong ones are not counted: pages with an old cookie go
        on asking, and nobody guesses 192 bits."""
        key = digest(secret)
        now = self._clock()
        grant = next((each for each in self._book.grants if each.digest == key), None)
        if grant is None or grant.is_token != is_token:
            return None
        visitor = self._visitor(grant)
        if visitor.until <= now:
            self._tidy()
            return None
        grant.last = now
        if now - self._saved_at > limits.SAVE_SECONDS:
            with contextlib.suppress(OSError):  # when somebody was here last is no reason to refuse them
                self._save()
        return visitor

    def of_digest(self, key: str) -> Visitor | None:
        """Whose browser has the cookie with this digest, if anybody's by now."""
        grant = next((each for each in self._book.grants if each.digest == key), None)
        if grant is None or grant.is_token:
            return None
        visitor = self._visitor(grant)
        return visitor if visitor.until > self._clock() else None

    def _visitor(self, grant: Grant) -> Visitor:
        found = self._visitors.get(grant.id)
        if found is None:
            share = next((each for each in self._book.shares if each.id == grant.share), None)
            found = self._visitors[grant.id] = Visitor(grant, share)
        return found

    def _refuse_wrong(self, address: str, why: str) -> NoReturn:
        """A wrong ticket came from an address: count it, and raise AccessRefused."""
        self._check_tries(address)
        now = self._clock()
        if len(self._wrong) >= limits.ALL_WRONG_TRIES:
            self._wrong = {each: tries for each, tries in self._wrong.items() if tries[-1] > now - 60}
        self._wrong.setdefault(address, deque(maxlen=limits.WRONG_TRIES)).append(now)
        self._all_wrong.append(now)
        raise AccessRefused(why)

    def _check_tries(self, address: str) -> None:
        since = self._clock() - 60
        for tries in (self._wrong.get(address), self._all_wrong):
            if tries is not None and len(tries) == tries.maxlen and tries[0] > since:
                raise AccessRefused("too many wrong tries; wait a minute", "web/too-many", 429)

    # --- lists and ends -----------------------------------------------------------------------------------

    def grants(self) -> list[Grant]:
        """Browsers and tokens that may come in."""
        self._tidy()
        return list(self._book.grants)

    def shares(self) -> list[Share]:
        self._tidy()
        return list(self._book.shares)

    def visitors(self) -> list[Visitor]:
        """Those who have been here since the process started and may still be."""
        return list(self._visitors.values())

    def revoke(self, id: str) -> int:
        """End a browser's stay, a share with all who came by it, a token, or everything with `all`; returns
        how many that were. Raises AccessRefused if there is none."""
        shares = {each.id for each in self._book.shares if id in (each.id, "all")}
        grants = {each.id for each in self._book.grants if id in (each.id, "all") or each.share in shares}
        if not shares and not grants and id != "all":
            raise AccessRefused(f"nothing has the id {id!r:.40}", "request/not-found", 404)
        self._book.shares = [each for each in self._book.shares if each.id not in shares]
        self._book.grants = [each for each in self._book.grants if each.id not in grants]
        if id == "all":
            self._tickets.clear()
            self._waiting.clear()
        self._end(grants)
        self._save()
        return len(shares) + len(grants)

    def end_shares_of(self, session: str) -> None:
        """A session is gone: another one of its name is not shared."""
        for id in [each.id for each in self._book.shares if each.session == session]:
            self.revoke(id)

    def _end(self, ids: set[str]) -> None:
        for each in ids:
            if (visitor := self._visitors.pop(each, None)) is not None:
                visitor.ended.set()

    def tidy(self) -> None:
        """Forget what has expired, and end what is open by it. Call now and then."""
        self._tidy()

    def _tidy(self) -> None:
        now = self._clock()
        shares = [each for each in self._book.shares if each.until > now]
        known = {each.id for each in shares}
        grants = [
            each for each in self._book.grants if each.until > now and (not each.share or each.share in known)
        ]
        if (len(shares), len(grants)) == (len(self._book.shares), len(self._book.grants)):
            return
        self._end({each.id for each in self._book.grants} - {each.id for each in grants})
        self._book.shares, self._book.grants = shares, grants
        self._save()

    def _save(self) -> None:
        replace_file(self._path, msgspec.json.encode(self._book))
        self._saved_at = self._clock()


def _read(path: str) -> Book:
    """What is written down. A file that others can read or write, or that makes no sense, lets nobody in."""
    data = read_private(path, limits.MAX_STORED)
    try:
        return msgspec.json.decode(data, type=Book) if data is not None else Book()
    except msgspec.DecodeError:
        return Book()
