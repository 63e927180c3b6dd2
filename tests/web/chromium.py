"""Debian's Chromium, driven by Playwright of .venv/peers, and what its pages complained of.

A page is as a person has it: laptop or phone, dark or light. Whatever a browser says is wrong with one, such
as a breach of its policy, an error of a script or a request that failed, is a complaint, and fails the test.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import peers
from tests.hosting import WAIT
from tests.web.browser import ConsoleHosting

LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""There is no sandbox for root, and machines of tests have little shared memory."""
HARMLESS = re.compile(
    r"GPU stall due to ReadPixels|task queue exceeded allotted deadline|GroupMarkerNotSet"
    r"|404 \(Not Found\) \(.*/(session_(find|lines|seen)|approval_seen)\)"
)
"""What drivers say about their speed, and that a session or question was gone when a page looked at it."""


class Chromium:
    """A browser with a page for each of several people."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.complaints: list[str] = []
        self.expected: list[str] = []
        """Parts of complaints that a test provokes."""

    def page(
        self, console: ConsoleHosting, link: str | None = "", *, phone: bool = False, light: bool = False
    ) -> Any:
        """A page that came in by a link, a new one of the owner if none is given; with None it is empty."""
        context = self._browser.new_context(
            viewport=PHONE if phone else LAPTOP,
            has_touch=phone,
            is_mobile=phone,
            color_scheme="light" if light else "dark",
            reduced_motion="reduce",
        )
        context.set_default_timeout(2 * WAIT * 1000)
        # the renderer that draws text as elements, so that a test reads it as a screen reader would
        context.add_init_script("try { localStorage.setItem('renderer', 'dom') } catch {}")
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: dialog.accept())
        if link is not None:
            page.goto(link or console.link())
            page.wait_for_url(re.compile(r"/(#.*)?$"))
        return page

    def close_pages(self) -> None:
        """Close all pages, before their console ends."""
        for context in self._browser.contexts:
            context.close()

    def _said(self, message: Any) -> None:
        said = f"{message.type}: {message.text} ({message.location.get('url', '')})"
        if message.type in ("error", "warning") and not HARMLESS.search(said):
            self.complaints.append(said)

    @property
    def unexpected(self) -> list[str]:
        return [each for each in self.complaints if not any(part in each for part in self.expected)]


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser; afterwards no page may have complained."""
    program = peers.require("chromium")
    for place in (ROOT / ".venv/peers").glob("lib/python*/site-packages"):
        if str(place) not in sys.path:
            sys.path.append(str(place))
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        peers.missing("Playwright is not in .venv/peers: run `make peers`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        made = Chromium(browser)
        try:
            yield made
        finally:
            browser.close()
    assert not made.unexpected, "\n".join(made.unexpected)


def screen_text(page: Any) -> str:
    """What a terminal on a page shows."""
    return "\n".join(page.locator(".xterm-rows > div").all_inner_texts()).replace("\xa0", " ")


def wait_screen(page: Any, text: str) -> None:
    """Wait until a terminal on a page shows a text."""
    shows = """(text) => [...document.querySelectorAll(".xterm-rows > div")]
        .map((row) => row.textContent).join("\\n").replaceAll("\\u00a0", " ").includes(text)"""
    page.wait_for_function(shows, arg=text)


def go(page: Any, to: str) -> None:
    """Go to a view, as a link in the page would."""
    page.evaluate("(to) => { location.hash = to }", to)


def start(page: Any, kind: str, name: str, directory: str, *, command: str = "", prompt: str = "") -> None:
    """Start a session in the dialog."""
    go(page, "#/sessions")
    page.get_by_role("button", name="New session").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=kind]").select_option(kind)
    dialog.locator("[name=name]").fill(name)
    dialog.locator("[name=directory]").fill(directory)
    if kind == "terminal":
        dialog.locator("[name=command]").fill(command)
    else:
        dialog.locator("[name=prompt]").fill(prompt)
    dialog.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name=name, level=1).wait_for()
