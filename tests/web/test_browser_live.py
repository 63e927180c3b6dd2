"""Many pages of one browser at a time: each stays live, and an op answers in each. And floods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, wait_screen

pytestmark = pytest.mark.peers
TABS = 10


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


def another(page: Any, to: str) -> Any:
    """Another tab of a page's browser, which shares its cookie and its connections."""
    made = page.context.new_page()
    made.goto(page.url.partition("#")[0] + to)
    return made


def test_ten_tabs_are_live_and_an_op_answers_in_each(console: ConsoleHosting, browser: Chromium) -> None:
    first = browser.page(console)
    home = console.hosting.environment["HOME"]
    asking = """async ([op, params]) => {
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify(params);
        const answer = await fetch(`/api/ops/${op}`, { method: "POST", headers, body });
        return (await answer.json()).data;
    }"""
    ids = [
        first.evaluate(asking, ["open_session", {"name": name, "cwd": home}])["session_id"]
        for name in ("rose", "ivy")
    ]
    tabs = [first, *(another(first, f"#/s/{ids[each % 2]}") for each in range(TABS - 1))]
    for tab in tabs[1:]:
        tab.get_by_label("Message").wait_for()
    # what happens to all sessions is on every page, and so is each agent's answer on those that show it
    console.hosting.start("shown", "cat")
    for tab in tabs:
        tab.locator("#side .side-name", has_text="shown").wait_for()
        assert tab.evaluate(asking, ["session_list", {}])["sessions"]
    for number, tab in enumerate(tabs[1:3]):
        tab.get_by_label("Message").fill(f"hello from {number}")
        tab.get_by_role("button", name="Send").click()
    for number, tab in enumerate(tabs[1:]):
        tab.get_by_role("log").get_by_text(f"hello from {number % 2}").wait_for()
    # and after the console was away
    browser.expected += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "WebSocket connection"]
    browser.expected += ["ERR_EMPTY_RESPONSE", "503 (Service Unavailable)"]
    console.hosting.run("web", "--stop")
    for tab in tabs:
        tab.locator("#banner").get_by_text("can't be reached").wait_for()
    console.hosting.run("web", "--no-open")
    console.hosting.start("later", "cat")
    for tab in tabs:
        tab.locator("#side .side-name", has_text="later").wait_for()
        assert tab.locator("#banner").is_hidden()


def test_a_page_stays_usable_beside_a_flood_and_its_memory_is_bounded(
    console: ConsoleHosting, browser: Chromium
) -> None:
    line = "the quick brown fox jumps over the lazy dog and goes on as far as it can"
    script = f'stty -echo; read go; yes "{line}" | head -c 100000000; echo; echo the-""end; exec cat'
    console.hosting.start("flood", script)
    console.hosting.start("quiet", "cat")
    flooded = browser.page(console)
    go(flooded, "#/s/flood")
    flooded.get_by_role("button", name="Take the pen").click()
    flooded.get_by_text("You write").wait_for()
    quiet = another(flooded, "#/s/quiet")
    quiet.get_by_role("button", name="Take the pen").click()
    quiet.get_by_text("You write").wait_for()
    before = heap_of(flooded)
    flooded.keyboard.press("Enter")
    wait_screen(flooded, line)
    # another page's keys, its list of sessions and a new session come while the flood goes on
    for word in ("apple", "pear", "plum"):
        quiet.keyboard.type(f"{word}\n")
        wait_screen(quiet, f"{word}\n{word}")
    console.hosting.start("beside", "cat")
    for page in (flooded, quiet):
        page.locator("#side .side-name", has_text="beside").wait_for()
    wait_screen(flooded, "the-end")
    assert heap_of(flooded) < before + 64


def heap_of(page: Any) -> float:
    """Megabytes that the scripts of a page hold."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return float(used) / 1e6
