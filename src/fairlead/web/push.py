"""Web push: tells browsers that are closed, or phones in a pocket, of questions that nobody looks at.

It is one more way of [notify]: after the same seconds, not in its quiet hours, and not at all if somebody
has seen the question by then, through any door. A browser that was let in subscribes for itself, and its
subscription ends with its cookie. What is pushed says who asks and leads to the question: what is to be
allowed is shown whole, in the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from typing import Any
from urllib.parse import quote

from ..client.calls import RequestError
from ..formats.columns import printable
from ..formats.shown import one_line
from ..system.extras import is_missing, missing
from ..system.settings import SettingError, Settings
from . import limits, roles
from .access import Access, Visitor
from .hub import Hub, NumberedEvent
from .places import Places
from .push_book import PushBook, PushSubscription
from .push_post import BadEndpoint, endpoint_of, own_service
from .push_sender import PushMessage, PushSender, is_silent_allowed, topic_of
from .wired import BadRequest, Gone, Receive, Scope, Send, header, json_of, sent_fault, sent_json

log = logging.getLogger("fairlead.web")

GRACE = 1.0
"""Seconds after which it is pushed what [notify] tells now: the daemon notes who has looked."""
AWAY_PAUSE = 5.0
"""Seconds until it is tried again while the daemon is away."""
LATER = 30.0
"""Seconds until it is tried again for a browser that got very many."""
MAX_DUE = 2000
"""Questions that may wait to be pushed."""
MAX_TITLE, MAX_BODY = 120, 200
"""Characters of a message."""
SUMMARY = "several"
"""What a message about several questions is about."""


class Pushes:
    """Who is pushed to, and what."""

    def __init__(self, hub: Hub, access: Access, *, has_tls: bool) -> None:
        places = Places(hub.settings)
        self._hub = hub
        self._access = access
        self._has_tls = has_tls
        self._settings: Settings = hub.settings
        self.book = PushBook(places.pushes, places.push_key)
        self.sender = PushSender(self.book, self._own_service)
        self._due: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._told: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lately: dict[str, deque[float]] = {}
        self._stop_listening = hub.listen(self._happened)

    # --- over HTTP ----------------------------------------------------------------------------------------

    def _why_not(self, scope: Scope, visitor: Visitor) -> str:
        """Why this browser can't be pushed to; empty if it can."""
        if visitor.grant.is_token:
            return "only a browser that was let in can be pushed to, and this is a token"
        if visitor.role not in ("owner", "writer"):
            return f"a {visitor.role} answers no questions, so it is told of none"
        if not self._is_secure(scope):
            return "browsers allow push only over https, or at localhost of this machine"
        if is_missing("cryptography"):
            return missing("push needs cryptography", "web")
        if not self._after():
            return "[notify] after_seconds is 0: nobody is told of anything"
        return ""

    def _is_secure(self, scope: Scope) -> bool:
        host = (header(scope, b"host") or "").rpartition(":")[0]
        return self._has_tls or host in ("localhost", "[::1]") or host.startswith("127.")

    async def about(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        """`GET /api/push`."""
        why = self._why_not(scope, visitor)
        data = {
            "possible": not why,
            "why": why or None,
            "key": None if why else self.book.public_key(),
            "subscribed": self.book.of(visitor.grant.digest) is not None,
            "after": self._after(),
        }
        await sent_json(scope, send, 200, {"ok": True, "data": data})

    async def subscribe(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        """`POST /api/push/subscribe`, with a subscription as the browser's `toJSON` has it."""
        try:
            if why := self._why_not(scope, visitor):
                raise BadRequest(403, "web/push", why)
            made = self._subscription(await json_of(scope, receive, limits.MAX_PUSH_BODY), visitor)
            if self.book.is_full_for(made.owner, made.endpoint):
                raise BadRequest(429, "web/too-many", "too many browsers are pushed to")
            self.book.add(made)
        except BadRequest as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
        except Gone:
            pass
        else:
            await sent_json(scope, send, 200, {"ok": True, "data": {"subscribed": True}})

    def _subscription(self, given: dict[str, Any], visitor: Visitor) -> PushSubscription:
        """What a browser gave. Raises BadRequest."""
        from .push_crypto import BadKeys, browser_keys

        keys = given.get("keys")
        texts = (keys.get("p256dh"), keys.get("auth")) if isinstance(keys, dict) else (None, None)
        p256dh, auth = (each if type(each) is str else "" for each in texts)
        try:
            endpoint_of(given.get("endpoint"), self._own_service())
            browser_keys(p256dh, auth)
        except (BadEndpoint, BadKeys) as error:
            raise BadRequest(400, "request/invalid-params", str(error)) from None
        key = self.book.public_key()
        if given.get("key", key) != key:
            raise BadRequest(409, "web/push", "this subscription is for another key: subscribe again")
        return PushSubscription(visitor.grant.digest, given["endpoint"], p256dh, auth, key, time.time())

    async def unsubscribe(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        """`POST /api/push/unsubscribe`: this browser is not pushed to any more."""
        found = self.book.of(visitor.grant.digest)
        if found is not None:
            self.book.drop([found])
        await sent_json(scope, send, 200, {"ok": True, "data": {"subscribed": False}})

    # --- settings -----------------------------------------------------------------------------------------

    def _after(self) -> float:
        """Seconds after which a question is told; 0 means never."""
        self._settings.refresh()
        with contextlib.suppress(SettingError):
            return self._settings.number("notify", "after_seconds")
        return 0.0

    def _own_service(self) -> str:
        with contextlib.suppress(SettingError, ValueError):
            return own_service(self._settings.text("notify", "push_service"))
        return ""

    def _quiet_until(self, moment: float) -> float | None:
        """When quiet hours end, if these are some."""
        from ..control.telling import quiet_hours

        with contextlib.suppress(SettingError, ValueError):
            hours = quiet_hours(self._settings.text("notify", "quiet_hours"))
            return hours.end_of(moment) if hours is not None else None
        return None

    # --- what happens -------------------------------------------------------------------------------------

    def _happened(self, event: NumberedEvent) -> None:
        if event.topic == "questions/opened":
            self._opened(event.data["question"])
        elif event.topic == "questions/answered":
            self._answered(event.data["token"])

    def _opened(self, question: dict[str, Any]) -> None:
        token = question["token"]
        if question.get("lost"):
            self._due.pop(token, None)
        elif len(self.book) and len(self._due) < MAX_DUE and (after := self._after()):
            asked = min(question.get("asked_at") or time.time(), time.time())
            self._due.setdefault(token, asked + after + GRACE)
            self._wake.set()

    def _answered(self, token: str) -> None:
        """A question waits no more: take back what was pushed."""
        self._due.pop(token, None)
        owners = self.book.pushed().get(token)
        if owners is None:
            return
        with contextlib.suppress(OSError):
            self.book.forget_pushed(token)
        for owner, is_apart in owners.items():
            subscription = self.book.of(owner)
            if is_apart and subscription is not None and is_silent_allowed(subscription):
                self._keep(asyncio.ensure_future(self._take_back(subscription, token)))

    async def _take_back(self, subscription: PushSubscription, token: str) -> None:
        told = self._told.pop((subscription.owner, token), None)
        if told is not None and not await told:  # it never got there
            return
        topic = topic_of(token, subscription.auth)
        message = PushMessage(topic, {"closes": token}, "normal")
        await self.sender.send(subscription, message, lambda: self._may(subscription) is not None)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Have a task end with us."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _may(self, subscription: PushSubscription) -> Visitor | None:
        """Whose subscription it is, if it still is."""
        if self.book.of(subscription.owner) is not subscription:
            return None
        visitor = self._access.of_digest(subscription.owner)
        return visitor if visitor is not None and visitor.role in ("owner", "writer") else None

    def tidy(self) -> None:
        """Forget subscriptions of browsers that may not be here any more, and take back what was pushed of
        questions that were answered while the console was away. Call now and then."""
        with contextlib.suppress(OSError):
            self.book.drop([each for each in self.book.all() if self._may(each) is None])
        if self._hub.has_looked and not self._hub.is_away:
            for token in [each for each in self.book.pushed() if each not in self._hub.questions]:
                self._answered(token)
        self._told = {key: task for key, task in self._told.items() if key[1] in self._hub.questions}

    # --- pushing ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Push what is due, for good."""
        try:
            while True:
                self._wake.clear()
                due = min(self._due.values(), default=None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if due is None else max(0.0, due - time.time())):
                        await self._wake.wait()
                    continue
                await self._push_due()
        finally:
            self._stop_listening()
            for task in list(self._tasks):
                task.cancel()

    async def _push_due(self) -> None:
        now = time.time()
        tokens = [token for token, due in self._due.items() if due <= now]
        if (end := self._quiet_until(now)) is not None:
            self._due.update(dict.fromkeys(tokens, end))
            return
        questions = []
        for token in tokens:
            try:
                (question,) = (await self._hub.ask("approvals", token=token))["approvals"]
            except (ConnectionError, TimeoutError, OSError):
                if token in self._due:
                    self._due[token] = now + AWAY_PAUSE
                continue
            except (RequestError, ValueError):  # it was answered
                self._due.pop(token, None)
                continue
            if self._due.pop(token, None) is not None and not (question.get("seen") or question.get("lost")):
                questions.append(question)
        for subscription in self.book.all():
            self._push(subscription, questions)

    def _push(self, subscription: PushSubscription, questions: list[dict[str, Any]]) -> None:
        """Tell one browser."""
        visitor = self._may(subscription)
        if visitor is None:
            return
        share, owner = visitor.share, subscription.owner
        pushed = self.book.pushed()
        untold = [
            each
            for each in questions
            if (share is None or roles.is_about(share, each)) and owner not in pushed.get(each["token"], ())
        ]
        if not untold:
            return
        if not self._has_room(owner):
            later = time.time() + LATER
            self._due.update({each["token"]: later for each in untold})
            self._wake.set()
            return
        tokens = [each["token"] for each in untold]
        is_apart = len(untold) <= limits.MOST_PUSHED_APART
        try:
            self.book.note_pushed(tokens, owner, apart=is_apart)
        except OSError as error:
            log.warning("who is pushed to can't be written down: %s", error.strerror)
            return
        if is_apart:
            for each in untold:
                self._told[owner, each["token"]] = self._sending(subscription, _words(each), [each["token"]])
        else:
            _ = self._sending(subscription, _summary(untold), tokens)

    def _sending(
        self, subscription: PushSubscription, words: dict[str, str], tokens: list[str]
    ) -> asyncio.Task[bool]:
        """Begin to send a message about some questions, which is wanted while one of them waits."""
        message = PushMessage(topic_of(words["tag"], subscription.auth), words)
        sending = self.sender.send(subscription, message, lambda: self._waits(subscription, tokens))
        task = asyncio.get_running_loop().create_task(sending)
        self._keep(task)
        return task

    def _waits(self, subscription: PushSubscription, tokens: list[str]) -> bool:
        """True if a message still makes sense."""
        return self._may(subscription) is not None and any(each in self._hub.questions for each in tokens)

    def _has_room(self, owner: str) -> bool:
        """Count one more message for a browser."""
        now = time.time()
        lately = self._lately.setdefault(owner, deque(maxlen=limits.PUSHES_A_MINUTE))
        if len(lately) == lately.maxlen and lately[0] > now - 60:
            return False
        lately.append(now)
        self._lately = {each: times for each, times in self._lately.items() if times[-1] > now - 60}
        return True


def _words(question: dict[str, Any]) -> dict[str, str]:
    """What is said of a question: who asks, in which project, and where it is answered."""
    name = printable(question.get("session_name") or "fairlead")
    title = one_line(printable(question.get("title") or "a question"), MAX_TITLE)
    project = question.get("project") or ""
    home = os.path.expanduser("~")
    if project == home or project.startswith(f"{home}/"):
        project = "~" + project[len(home) :]
    return {
        "title": f"{one_line(name, MAX_TITLE)}: {title}",
        "body": one_line(printable(project), MAX_BODY),
        "tag": question["token"],
        "go": f"#/inbox/{quote(question['token'], safe='')}",
    }


def _summary(questions: list[dict[str, Any]]) -> dict[str, str]:
    names = sorted({printable(each.get("session_name") or "fairlead") for each in questions})
    return {
        "title": f"{len(questions)} questions wait for you",
        "body": one_line(", ".join(names), MAX_BODY),
        "tag": SUMMARY,
        "go": "#/inbox",
    }
