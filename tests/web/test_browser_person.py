"""A person's way through the console in a real browser: a terminal, a second page, and what may break."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, screen_text, start, wait_screen

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as made:
        yield made


@pytest.fixture
def console(browser: Chromium) -> Iterator[ConsoleHosting]:
    made = ConsoleHosting()
    try:
        yield made
    finally:
        browser.close_pages()
        made.close()


def size_of(console: ConsoleHosting, name: str) -> tuple[int, int]:
    row = console.hosting.sessions()[name]
    return row["cols"], row["rows"]


def test_from_the_link_to_the_same_screen_after_all_that_can_break(
    console: ConsoleHosting, browser: Chromium
) -> None:
    laptop = browser.page(console)
    assert "#" not in laptop.url.partition("/in")[2]
    start(laptop, "terminal", "work", "~", command="sh")
    laptop.get_by_role("button", name="Take the pen").click()
    laptop.get_by_text("You write").wait_for()
    wait_screen(laptop, "$" if "$" in screen_text(laptop) else "#")
    laptop.keyboard.type("echo $((40 + 2))hi\n")
    wait_screen(laptop, "42hi")

    # a second page watches, and has the screen at its own size
    phone = browser.page(console, phone=True)
    go(phone, "#/s/work")
    wait_screen(phone, "42hi")
    phone.get_by_text("a page in Chrome on Linux writes here").wait_for()
    wide = size_of(console, "work")
    assert wide[0] > 100

    # it takes the pen: the first one is told, and the terminal gets the phone's size
    phone.get_by_role("button", name="Take the pen").click()
    phone.get_by_text("You write").wait_for()
    laptop.get_by_text("writes here").wait_for()
    assert laptop.get_by_text("a page in").inner_text().endswith("writes here")
    console.hosting.until(lambda: size_of(console, "work")[0] < 60)
    phone.keyboard.type("echo $((6 * 7))phone\n")
    wait_screen(phone, "42phone")
    wait_screen(laptop, "42phone")

    # and the other way round; then the window changes
    laptop.get_by_role("button", name="Take the pen").click()
    laptop.get_by_text("You write").wait_for()
    console.hosting.until(lambda: size_of(console, "work") == wide)
    laptop.set_viewport_size({"width": 900, "height": 600})
    console.hosting.until(lambda: size_of(console, "work")[0] < wide[0] - 20)

    # the console is away, and comes back at the same address
    browser.expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "WebSocket connection"]
    browser.expected += ["ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "503 (Service Unavailable)"]
    console.hosting.run("web", "--stop")
    laptop.locator("#banner").get_by_text("can't be reached").wait_for()
    assert "42phone" in screen_text(laptop)
    console.hosting.run("web", "--no-open")
    laptop.locator("#banner").wait_for(state="hidden")
    laptop.get_by_text("You write").wait_for()
    laptop.keyboard.type("echo $((50 + 1))again\n")
    wait_screen(laptop, "51again")

    # the daemon is killed
    console.hosting.kill_daemon()
    laptop.get_by_text("You write").wait_for()
    wait_screen(laptop, "51again")
    typed(laptop, console, "echo $((60 + 1))killed\n", "61killed")
    assert "42phone" in screen_text(laptop)


def typed(page: Any, console: ConsoleHosting, keys: str, shown: str) -> None:
    """Type until it is shown: what is typed while a daemon starts anew may be lost, as the page says."""

    def is_shown() -> bool:
        if shown in screen_text(page):
            return True
        if page.get_by_text("You write").is_visible():
            page.keyboard.type(keys)
            page.wait_for_timeout(500)
        return shown in screen_text(page)

    console.hosting.until(is_shown)


def test_a_shared_link_shows_one_session_and_a_watcher_can_only_watch(
    console: ConsoleHosting, browser: Chromium
) -> None:
    console.hosting.start("shared", "echo shown to all; cat")
    console.hosting.start("other", "echo secret; cat")
    link = console.hosting.run("web", "--no-open", "--share", "shared", "--role", "watcher").stdout.split()[0]
    page = browser.page(console, link)
    page.get_by_role("heading", name="shared", level=1).wait_for()
    wait_screen(page, "shown to all")
    page.get_by_text("You watch (this link may not write)").wait_for()
    assert page.get_by_role("button", name="Take the pen").count() == 0
    assert page.locator("#side a").all_inner_texts() != []
    assert all("other" not in each for each in page.locator("#side a").all_inner_texts())
    page.keyboard.type("intrusion\n")
    browser.expected += ["404 (Not Found)", "403 (Forbidden)"]
    go(page, "#/s/other")
    page.get_by_text("There is no such session").wait_for()
    assert "intrusion" not in console.hosting.screen("shared")


def test_the_page_opens_while_the_console_is_away_and_says_so(
    console: ConsoleHosting, browser: Chromium
) -> None:
    page = browser.page(console)
    page.wait_for_function("() => navigator.serviceWorker.controller !== null")
    console.hosting.until(lambda: page.evaluate("() => caches.keys().then((names) => names.length)") == 1)
    console.hosting.run("web", "--stop")
    browser.expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET"]
    page.reload()
    page.locator("#banner").get_by_text("can't be reached").wait_for()
    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("heading", name="Sessions").wait_for()
    console.hosting.run("web", "--no-open")
    page.locator("#banner").wait_for(state="hidden")


def test_a_browser_that_is_no_longer_let_in_is_told_what_to_do(
    console: ConsoleHosting, browser: Chromium
) -> None:
    page = browser.page(console)
    page.get_by_text("Nothing waits for you").wait_for()
    browser.expected += ["401 (Unauthorized)", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
    console.hosting.run("web", "--revoke", "all")
    page.get_by_text(re.compile("Run `fairlead web`")).wait_for()
    spent = browser.page(console, None)
    spent.goto(f"{console.base}/in#no-such-ticket")
    browser.expected.append("403 (Forbidden)")
    spent.locator("#said").get_by_text(re.compile("link|ticket")).wait_for()
    assert spent.url.endswith("/in")


def test_the_graphics_renderer_breaks_no_policy(console: ConsoleHosting, browser: Chromium) -> None:
    console.hosting.start("drawn", "printf '\\033[38;2;255;100;0mcoloured\\033[0m'; cat")
    page = browser.page(console)
    page.evaluate("localStorage.setItem('renderer', '')")
    go(page, "#/s/drawn")
    page.locator(".terminal-screen .xterm-screen").wait_for()
    page.get_by_text("You watch").wait_for()
    page.get_by_role("button", name="Find").click()
    page.get_by_label("Find in the terminal").fill("coloured")
    assert page.locator(".not-found").count() == 0


def test_a_flood_in_one_session_leaves_the_page_usable(console: ConsoleHosting, browser: Chromium) -> None:
    console.hosting.start("flood", "while :; do echo 0123456789012345678901234567890123456789; done")
    console.hosting.start("calm", "cat")
    flooded = browser.page(console)
    go(flooded, "#/s/flood")
    wait_screen(flooded, "0123456789")
    calm = browser.page(console)
    go(calm, "#/s/calm")
    calm.get_by_role("button", name="Take the pen").click()
    calm.get_by_text("You write").wait_for()
    calm.keyboard.type("echoed while it floods\n")
    wait_screen(calm, "echoed while it floods")
    flooded.get_by_role("link", name="Inbox").first.click()  # it still does what a person wants
    flooded.get_by_text("Nothing waits for you").wait_for()
