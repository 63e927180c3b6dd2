"""Notifications in a real browser: by push, by the page, and none of what a person has seen.

Chromium subscribes at Google's service only, and not at all where nothing is kept. So the subscription is
ours; all else is real: the console pushes to a service that reads it with the subscription's keys, and what
was in it is delivered to the page's worker as that service would.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosting import WAIT
from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go
from tests.web.push_service import PushedBrowser, PushService
from tests.web.test_push import asked

pytestmark = pytest.mark.peers

AGAIN = 5.0
"""Seconds after which a notification that is not there is shown again."""
SUBSCRIBE = """(given) => {
    let made = null;
    const subscription = (key) => ({
        options: { userVisibleOnly: true, applicationServerKey: key.buffer },
        toJSON: () => given,
        unsubscribe: async () => { made = null; return true },
    });
    PushManager.prototype.subscribe = async ({ applicationServerKey: key, userVisibleOnly }) => {
        if (!userVisibleOnly) throw new Error("silent push");
        return (made = subscription(key));
    };
    PushManager.prototype.getSubscription = async () => made;
}"""
SHOWN = """() => navigator.serviceWorker.ready.then((found) => found.getNotifications()).then(
    (all) => all.map(({ title, body, tag, actions }) => (
        { title, body, tag, actions: actions.map((each) => each.title) })))"""
CHANGE = """(given) => {
    const event = new ExtendableEvent("pushsubscriptionchange");
    Object.defineProperty(event, "newSubscription", { value: { toJSON: () => given } });
    self.dispatchEvent(event);
}"""
CLICK = """async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification }));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as made:
        yield made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    made = PushService(tmp_path)
    yield made
    made.close()


@pytest.fixture
def console(browser: Chromium, service: PushService) -> Iterator[ConsoleHosting]:
    made = ConsoleHosting(settings={**service.settings, "FAIRLEAD_NOTIFY_AFTER_SECONDS": "0.2"})
    try:
        yield made
    finally:
        browser.close_pages()
        made.close()


class Page:
    """A page that may notify, and its worker."""

    def __init__(self, browser: Chromium, console: ConsoleHosting, *, phone: bool = False) -> None:
        self.page = browser.page(console, phone=phone)
        self.page.context.grant_permissions(["notifications"], origin=console.base)
        self.page.wait_for_function("() => navigator.serviceWorker.controller !== null")
        self.page.evaluate("() => localStorage.setItem('notify', 'off')")
        self.page.reload()
        self.page.get_by_text("Nothing waits for you").wait_for()
        self._base = console.base
        self._tools = self.page.context.new_cdp_session(self.page)
        self._workers: list[dict[str, Any]] = []
        self._tools.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda told: self._workers.extend(told["registrations"]),
        )
        self._tools.send("ServiceWorker.enable")

    def notify_me(self) -> Any:
        """Press the button, and return what is said then."""
        self.page.get_by_role("button", name="Notify me").click()
        return self.page.get_by_role("dialog", name="Notifications")

    def deliver(self, told: dict[str, str]) -> None:
        """Do what a push service does at the end."""
        while not self._workers:
            self.page.wait_for_timeout(20)
        given = {"origin": f"{self._base}/", "registrationId": self._workers[0]["registrationId"]}
        self._tools.send("ServiceWorker.deliverPushMessage", {**given, "data": json.dumps(told)})

    def show(self, told: dict[str, str]) -> dict[str, Any]:
        """Deliver what shows a notification, and return that. A browser tells later that one was closed, and
        by then takes one of the same tag away that is shown already: then it is delivered again."""
        deadline = time.monotonic() + WAIT
        while True:
            self.deliver(told)
            try:
                return self.shown(1, AGAIN)[0]
            except AssertionError:
                assert time.monotonic() < deadline

    def shown(self, count: int, seconds: float = WAIT) -> list[dict[str, Any]]:
        """The notifications, as soon as there are so many."""
        deadline = time.monotonic() + seconds
        found: list[dict[str, Any]] = self.page.evaluate(SHOWN)
        while len(found) != count:
            assert time.monotonic() < deadline, found
            self.page.wait_for_timeout(20)
            found = self.page.evaluate(SHOWN)
        return found

    def click(self) -> None:
        self.page.context.service_workers[0].evaluate(CLICK)


@pytest.mark.parametrize("phone", [False, True], ids=["laptop", "phone"])
def test_a_question_is_pushed_and_a_press_on_it_opens_it(
    console: ConsoleHosting, browser: Chromium, service: PushService, phone: bool
) -> None:
    owner = Page(browser, console, phone=phone)
    page, keys = owner.page, PushedBrowser()
    page.evaluate(SUBSCRIBE, keys.subscription(service.endpoint()))
    dialog = owner.notify_me()
    dialog.get_by_text("By push").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Notified").wait_for()
    go(page, "#/health")
    token = asked(console.hosting)
    (pushed,) = service.wait(1)
    shown = owner.show(json.loads(keys.read(pushed.body)))
    assert shown["title"].startswith("roses: ")
    assert (shown["body"], shown["tag"], shown["actions"]) == ("~/garden", token, ["Open"])
    owner.click()
    page.locator(f".question[data-token='{token}']:focus").wait_for()
    assert page.url.endswith(f"#/inbox/{token}")
    owner.shown(0)

    # what takes it back does so in the worker; and a page that is open takes away what was answered elsewhere
    owner.show(json.loads(keys.read(pushed.body)))
    owner.deliver({"closes": token})
    owner.shown(0)
    owner.show(json.loads(keys.read(pushed.body)))
    console.hosting.run("approvals", "deny", token)
    owner.shown(0)
    assert json.loads(keys.read(service.wait(2)[1].body)) == {"closes": token}

    # and the end of it
    page.get_by_role("button", name="Notified").click()
    dialog.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Notify me").wait_for()
    kept = Path(console.hosting.directory, "home/.local/state/fairlead/web.push.json").read_text()
    assert json.loads(kept)["subscriptions"] == []


def test_a_page_that_came_in_again_renews_its_subscription(
    console: ConsoleHosting, browser: Chromium, service: PushService
) -> None:
    owner = Page(browser, console)
    page, keys = owner.page, PushedBrowser()
    given = json.dumps(keys.subscription(service.endpoint()))
    page.context.add_init_script(f"({SUBSCRIBE})({given})")
    page.reload()
    dialog = owner.notify_me()
    dialog.get_by_text("By push").wait_for()
    dialog.get_by_role("button", name="Close").click()
    console.hosting.run("web", "--revoke", "all")
    browser.expected += ["401 (Unauthorized)"]
    page.goto(console.link())
    page.get_by_role("button", name="Notified").wait_for()
    go(page, "#/health")
    kept = Path(console.hosting.directory, "home/.local/state/fairlead/web.push.json")
    console.hosting.until(lambda: len(json.loads(kept.read_text())["subscriptions"]) == 1)
    asked(console.hosting)
    assert json.loads(keys.read(service.wait(1)[0].body))["title"].startswith("roses: ")


def test_a_subscription_that_the_browser_changes_is_told(
    console: ConsoleHosting, browser: Chromium, service: PushService
) -> None:
    owner, keys = Page(browser, console), PushedBrowser()
    worker = owner.page.context.service_workers[0]
    worker.evaluate(CHANGE, keys.subscription(service.endpoint("changed")))
    kept = Path(console.hosting.directory, "home/.local/state/fairlead/web.push.json")
    console.hosting.until(lambda: kept.exists() and "changed" in kept.read_text())


def test_without_push_the_page_notifies_itself_and_says_why(
    console: ConsoleHosting, browser: Chromium
) -> None:
    owner = Page(browser, console)
    browser.expected += ["does not support the Push API in incognito mode"]
    dialog = owner.notify_me()
    dialog.get_by_text("By this page").wait_for()
    dialog.get_by_text("permission denied").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page = owner.page
    page.evaluate("() => Object.defineProperty(document, 'hidden', { get: () => true })")
    token = asked(console.hosting)
    (shown,) = owner.shown(1)
    assert shown["tag"] == token
    console.hosting.run("approvals", "deny", token)
    owner.shown(0)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("delete window.Notification", "has no notifications"),
        ("Object.defineProperty(Notification, 'permission', { get: () => 'denied' })", "does not allow"),
        ("Object.defineProperty(window, 'isSecureContext', { get: () => false })", "only over https"),
    ],
    ids=["without", "denied", "insecure"],
)
def test_a_browser_that_can_not_notify_says_why(
    console: ConsoleHosting, browser: Chromium, script: str, why: str
) -> None:
    page = browser.page(console)
    page.context.add_init_script(script)
    page.reload()
    page.get_by_role("button", name="Notify me").click()
    page.locator("#notes").get_by_text(why).wait_for()


def test_what_nobody_should_push_shows_nothing_foreign(console: ConsoleHosting, browser: Chromium) -> None:
    owner = Page(browser, console)
    shown = owner.show({"title": "x" * 5000, "go": "https://evil.example/", "tag": "t"})
    assert len(shown["title"]) == 300
    before = len(owner.page.context.pages)
    owner.click()
    owner.page.wait_for_url("**/#/inbox")
    assert len(owner.page.context.pages) == before


def test_a_question_on_the_screen_of_somebody_who_is_there_has_been_seen(
    console: ConsoleHosting, browser: Chromium
) -> None:
    page = browser.page(console)
    page.clock.install()
    page.reload()
    page.get_by_text("Nothing waits for you").wait_for()
    page.clock.fast_forward(120_000)  # nobody is there
    token = asked(console.hosting)

    def is_seen() -> bool:
        (found,) = console.hosting.ask("approvals", token=token)["approvals"]
        return bool(found.get("seen"))

    page.locator(".question").wait_for()
    page.clock.fast_forward(2000)
    page.evaluate("() => fetch('/api/me').then((answer) => answer.text())")
    assert not is_seen()
    page.mouse.move(200, 200)
    page.clock.fast_forward(2000)
    console.hosting.until(is_seen)


def test_a_question_that_is_asked_while_everything_is_fetched_stays(
    console: ConsoleHosting, browser: Chromium
) -> None:
    hosting = console.hosting
    id = hosting.ask("open_session", name="known", cwd=hosting.environment["HOME"])["session_id"]
    page = browser.page(console)
    page.locator("#side a").wait_for()
    held: list[Any] = []
    page.route("**/api/ops/approvals", lambda route: held.append((route, route.fetch())), times=1)
    page.reload()
    while not held:
        page.wait_for_timeout(20)
    hosting.ask("prompt", message="write notes.txt: water", session_id=id)
    page.wait_for_function("() => document.title.startsWith('(1)')")  # the event is there, the older list not
    (route, answer), *_ = held
    route.fulfill(response=answer)
    page.locator("#side a").wait_for()  # that came together with the list
    assert page.locator(".question").count() == 1
    assert page.title().startswith("(1)")


def test_a_link_in_a_notification_leads_to_the_question_and_says_to_others_how_to_come_in(
    console: ConsoleHosting, browser: Chromium
) -> None:
    token = asked(console.hosting)
    link = f"{console.base}/#/inbox/{token}"
    browser.expected += ["401 (Unauthorized)", "WebSocket connection", "403 (Forbidden)"]
    stranger = browser.page(console, None)
    stranger.goto(link)
    stranger.locator("#banner").get_by_text("Run `fairlead web`").wait_for()
    assert token not in stranger.inner_text("main")
    page = browser.page(console)
    page.get_by_role("link", name="Health").click()
    page.get_by_role("heading", name="Health").wait_for()
    page.goto(link)
    page.locator(f".question[data-token='{token}']:focus").wait_for()
    page.goto("about:blank")
    page.goto(link)
    page.locator(f".question[data-token='{token}']:focus").wait_for()
