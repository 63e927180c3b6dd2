"""What is bounded in web push: messages on their way, waiting, and to one browser; and who is not told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.system.settings import Settings
from fairlead.web import limits, push
from fairlead.web.access import Access, Visitor
from fairlead.web.hub import Hub
from fairlead.web.push import Pushes
from fairlead.web.push_book import PushBook, PushSubscription
from fairlead.web.push_sender import PushMessage, PushSender
from tests.hosting import WAIT
from tests.web.push_service import PushedBrowser, PushService


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    made = PushService(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    yield made
    made.goes_on.set()
    made.close()


def kept(book: PushBook, service: PushService, owner: str) -> PushedBrowser:
    """A browser whose subscription is in the book."""
    made = PushedBrowser()
    given = made.subscription(service.endpoint())
    keys = given["keys"]
    book.add(PushSubscription(owner, given["endpoint"], keys["p256dh"], keys["auth"], book.public_key(), 0.0))
    return made


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT):
        while not holds():
            await asyncio.sleep(0.01)


def test_few_messages_are_on_their_way_and_not_very_many_wait(
    service: PushService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(limits, "MAX_PUSHES_WAITING", 10)
        book = PushBook(str(tmp_path / "p.json"), str(tmp_path / "p.key"))
        kept(book, service, "o")
        (subscription,) = book.all()
        sender = PushSender(book, lambda: service.name)
        service.goes_on.clear()
        sending = [
            asyncio.ensure_future(sender.send(subscription, PushMessage("t", {"tag": "t"}), lambda: True))
            for _ in range(15)
        ]
        await until(lambda: sender.counts.get("dropped") == 5 and service.inside == limits.PUSHES_AT_ONCE)
        service.goes_on.set()
        assert sorted(await asyncio.gather(*sending)) == [False] * 5 + [True] * 10
        assert service.most_inside == limits.PUSHES_AT_ONCE
        assert sender.counts == {"dropped": 5, "sent": 10}

    asyncio.run(work())


class Console:
    """Pushes without a daemon: what waits is what a test says."""

    def __init__(self, service: PushService, place: Path) -> None:
        self.settings = Settings(
            {
                "HOME": str(place),
                "XDG_RUNTIME_DIR": str(place),
                "FAIRLEAD_STATE_DIR": str(place),
                "FAIRLEAD_NOTIFY_AFTER_SECONDS": "0.01",
                **service.settings,
            }
        )
        self.hub = Hub(self.settings)
        self.access = Access(str(place / "web.json"))
        self.pushes = Pushes(self.hub, self.access, has_tls=False)
        _, found = self.access.redeem(self.access.ticket(), "127.0.0.1", "", is_near=True)
        assert isinstance(found, Visitor)
        self.browser = kept(self.pushes.book, service, found.grant.digest)
        self.hub.ask = self._answer  # type: ignore[method-assign]

    async def _answer(self, op: str, **given: Any) -> dict[str, Any]:
        return {"approvals": [self.hub.questions[given["token"]]]}

    def open(self, token: str, **more: Any) -> None:
        question = {"token": token, "session_id": token, "session_name": token, "title": "write", **more}
        self.hub.questions[token] = question
        self.hub.post("questions/opened", {"question": question})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.pushes.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def told(self, service: PushService) -> list[str]:
        return sorted(json.loads(self.browser.read(each.body))["tag"] for each in service.got)


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "GRACE", 0.0)


@pytest.mark.usefixtures("no_grace")
def test_a_browser_gets_only_so_many_a_minute_and_the_others_later(
    service: PushService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(limits, "PUSHES_A_MINUTE", 2)
        console = Console(service, tmp_path)
        async with console.running():
            for count, token in enumerate(("a", "b"), 1):
                console.open(token)
                await until(lambda count=count: len(service.got) == count)  # type: ignore[misc]
            console.open("c")
            await until(lambda: console.pushes._due.get("c", 0.0) > time.time() + push.LATER / 2)
            assert console.told(service) == ["a", "b"]
            console.pushes._lately.clear()  # a minute later
            console.pushes._due["c"] = 0.0
            console.pushes._wake.set()
            await until(lambda: len(service.got) == 3)
            assert console.told(service) == ["a", "b", "c"]

    asyncio.run(work())


@pytest.mark.usefixtures("no_grace")
def test_a_question_that_nobody_waits_for_any_more_is_not_pushed(
    service: PushService, tmp_path: Path
) -> None:
    async def work() -> None:
        console = Console(service, tmp_path)
        async with console.running():
            console.open("a", lost="its session is gone")
            console.open("b")
            console.hub.questions["b"]["lost"] = "since then"
            console.open("c")
            await until(lambda: bool(service.got))
            assert not console.pushes._due
            assert console.told(service) == ["c"]

    asyncio.run(work())


@pytest.mark.usefixtures("no_grace")
def test_nothing_waits_to_be_pushed_where_nobody_subscribed(service: PushService, tmp_path: Path) -> None:
    console = Console(service, tmp_path)
    console.pushes.book.drop(console.pushes.book.all())
    console.open("a")
    assert not console.pushes._due


def test_it_is_said_why_a_browser_can_not_be_pushed_to(
    service: PushService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(service, tmp_path)
    _, visitor = console.access.redeem(console.access.ticket(), "127.0.0.1", "", is_near=True)
    assert isinstance(visitor, Visitor)

    def why(host: str) -> str:
        return console.pushes._why_not({"headers": [(b"host", host.encode())]}, visitor)

    for host in ("127.0.0.1:7433", "localhost:7433", "[::1]:7433"):
        assert why(host) == "", host
    for host in ("192.168.1.2:7433", "laptop.local:7433", "[fd00::1]:7433"):
        assert "only over https" in why(host), host
    monkeypatch.setattr(push, "is_missing", lambda module: True)
    assert "push needs cryptography, from the extra 'web'" in why("localhost:7433")
    monkeypatch.setattr(push, "is_missing", lambda module: False)
    console.settings.environ = {**console.settings.environ, "FAIRLEAD_NOTIFY_AFTER_SECONDS": "0"}
    assert "after_seconds is 0" in why("localhost:7433")
