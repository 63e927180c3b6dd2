"""A person's way through the console in a real browser, in short: what `make test` sees of the pages."""

from __future__ import annotations

from tests.web.browser import ConsoleHosting
from tests.web.chromium import chromium, screen_text, start, wait_screen


def test_from_the_link_to_what_a_new_session_echoes() -> None:
    with chromium() as browser:
        console = ConsoleHosting()
        try:
            page = browser.page(console)
            page.get_by_text("Nothing waits for you").wait_for()
            start(page, "terminal", "work", "~", command="sh")
            page.get_by_role("button", name="Take the pen").click()
            page.get_by_text("You write").wait_for()
            page.keyboard.type("echo hi $((40 + 2))\n")
            wait_screen(page, "hi 42")
            assert "echo hi $((40 + 2))" in screen_text(page)
            assert "hi 42" in console.hosting.screen("work")
            page.get_by_role("link", name="Sessions").first.click()
            page.get_by_role("heading", name="work").first.wait_for()
        finally:
            browser.close_pages()
            console.close()
