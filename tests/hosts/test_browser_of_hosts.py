"""The console's pages with sessions of another host, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.far_host import FarHost, NearHost
from tests.hosts.test_links import host_of, rows_of
from tests.ui.dashboard.test_app import asking
from tests.web.browser import ConsoleHosting
from tests.web.chromium import chromium, wait_screen

pytestmark = pytest.mark.peers


def test_a_person_sees_types_and_answers_on_another_host(
    near: NearHost, far: FarHost, tmp_path: Path
) -> None:
    with chromium() as browser:
        near.until(lambda: host_of(near).get("state") == "here")
        console = ConsoleHosting(hosting=near)
        try:
            page = browser.page(console)
            page.get_by_text("Nothing waits for you").wait_for()
            asking(far, "garden", tmp_path)
            card = page.get_by_role("article", name="touch made")
            card.get_by_text("workbox").wait_for()
            page.wait_for_timeout(500)  # cards that have just moved take no answer
            card.get_by_role("button", name="Allow", exact=True).click()
            page.get_by_text("Nothing waits for you").wait_for()
            far.until((tmp_path / "made").exists)
            far.start("theirs", "echo hello from afar; exec cat")
            page.locator("#side .side-name", has_text="workbox:theirs").wait_for()
            nameless = far.ask("open_session", cwd=far.environment["HOME"])["session_id"]
            page.locator("#side .side-name", has_text=f"workbox:{nameless[:8]}").wait_for()
            page.locator("#side .side-name", has_text=nameless).wait_for(state="detached")
            page.get_by_role("link", name="Sessions").first.click()
            page.get_by_role("article", name="theirs").get_by_text("workbox").wait_for()
            page.get_by_role("heading", name="theirs").get_by_role("link").click()
            wait_screen(page, "hello from afar")
            page.get_by_role("button", name="Take the pen").click()
            page.get_by_text("You write").wait_for()
            page.keyboard.type("typed here\n")
            wait_screen(page, "typed here\ntyped here")
            page.get_by_role("link", name="Sessions").first.click()
            browser.expected += ["409 (Conflict)"]  # what is asked when the host has just gone
            far.stop_sshd()
            near.forget_connections()
            page.get_by_role("listitem").get_by_text("workbox", exact=True).wait_for()
            page.get_by_role("article", name="theirs, away").wait_for()
            far.start_sshd()
            near.ask("host_check", name="workbox")
            page.get_by_role("article", name="theirs, away").wait_for(state="detached")
            near.until(lambda: "away" not in rows_of(near)["workbox:theirs"])
        finally:
            browser.close_pages()
            far.run("stop", "theirs", check=False)
            near.run("web", "--stop")
