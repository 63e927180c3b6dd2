"""What a person says to agents in a real browser: in terminals, by slash commands, and with pictures."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hooked import AGENT, Working
from tests.hosted.small import SmallHosting
from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, start, wait_screen

pytestmark = pytest.mark.peers

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""A PNG."""


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


def home(console: ConsoleHosting) -> Path:
    return Path(console.hosting.environment["HOME"])


def test_an_agent_in_a_terminal_is_prompted_and_each_prompt_followed(
    console: ConsoleHosting, browser: Chromium
) -> None:
    place = home(console) / "garden"
    place.mkdir()
    (place / "agent.py").write_text(AGENT)
    (place / "hold").touch()
    console.hosting.start("plain", "cat")
    working = Working(console.hosting, place, "garden")
    working.type("begin")
    page = browser.page(console)
    go(page, "#/s/garden")
    page.get_by_text("You watch").wait_for()
    box = page.get_by_label("Prompt for garden")
    receipts = page.locator(".receipts li")
    for text in ("water the roses", "cut the hedge", "say nothing"):
        box.fill(text)
        page.get_by_role("button", name="Prompt", exact=True).click()
        receipts.filter(has_text=text).get_by_text("queued").wait_for()
    assert "2 before it" in receipts.filter(has_text="say nothing").inner_text()
    receipts.filter(has_text="say nothing").get_by_role("button", name="Withdraw").click()
    receipts.filter(has_text="say nothing").get_by_text("not delivered").wait_for()
    (place / "hold").unlink()
    for text in ("water the roses", "cut the hedge"):
        receipts.filter(has_text=text).get_by_text("done", exact=True).wait_for()
    wait_screen(page, "turn 3 done")
    assert b"say nothing" not in working.typed
    go(page, "#/s/plain")
    page.get_by_text("You watch").wait_for()
    assert page.locator(".prompt-box:visible").count() == 0


def conversation(console: ConsoleHosting, browser: Chromium) -> Any:
    place = home(console) / "garden"
    (place / ".fairlead/prompts").mkdir(parents=True)
    (place / ".fairlead/prompts/greet.md").write_text("say: good day to $1\n")
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    page = browser.page(console)
    start(page, "agent", "garden", "~/garden")
    page.get_by_label("Mode", exact=True).wait_for()
    return page


def test_commands_are_completed_and_done(console: ConsoleHosting, browser: Chromium) -> None:
    page = conversation(console, browser)
    box = page.get_by_label("Message")
    box.press_sequentially("/co")
    options = page.get_by_role("listbox", name="Commands").get_by_role("option")
    options.first.wait_for()
    names = [each.partition(" ")[0] for each in options.all_inner_texts()]
    assert {"/cost", "/compact"} <= set(names)
    box.press("ArrowDown")
    box.press("Escape")
    assert options.count() == 0 or not options.first.is_visible()
    box.press_sequentially("s")
    box.press("Enter")
    assert box.input_value() == "/cost"
    box.press("Enter")
    page.locator(".aside.said").get_by_text("context").wait_for()
    # what is chosen shows in its picker
    box.fill("/mode accept")
    box.press("Enter")
    page.wait_for_function("() => document.querySelector('select[aria-label=Mode]').value === 'accept'")
    # a template is a prompt
    box.press_sequentially("/gre")
    box.press("Tab")
    box.press_sequentially("roses" if box.input_value().endswith(" ") else " roses")
    box.press("Enter")
    page.locator(".message.assistant").get_by_text("good day to roses").wait_for()
    # what is none is said to the agent
    box.fill("/nothing like this")
    box.press("Enter")
    page.locator(".message.user").get_by_text("/nothing like this").wait_for()
    # and what there is no place for here says so
    box.fill("/quit")
    box.press("Enter")
    page.get_by_text("/quit is not for this page").wait_for()


def test_pictures_go_with_a_prompt(browser: Chromium) -> None:
    small = SmallHosting("resume", "image")
    console = ConsoleHosting(hosting=small)
    try:
        small.open("looking")
        small.say("hello", "looking")  # an agent says what it takes when it is started
        small.wait_idle("looking")
        send_a_picture(browser.page(console))
        asked = [
            each["params"]["prompt"] for each in small.received if each.get("method") == "session/prompt"
        ]
        assert [[block["type"] for block in blocks] for blocks in asked] == [["text"], ["text", "image"]]
    finally:
        browser.close_pages()
        console.close()


def send_a_picture(page: Any) -> None:
    page.get_by_role("link", name="looking").first.click()
    page.locator(".message.assistant").first.wait_for()
    assert page.get_by_role("button", name="Fork").count() == 0  # of our own agent's conversations only
    chosen = page.locator(".picture-button input")
    chosen.set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no picture"})
    page.get_by_text("notes.txt is not a PNG").wait_for()
    for name in ("dot.png", "other.png"):
        chosen.set_input_files({"name": name, "mimeType": "image/png", "buffer": DOT})
        page.get_by_role("button", name=f"Leave out {name}").wait_for()
    page.get_by_role("button", name="Leave out other.png").click()
    page.get_by_label("Message").fill("what is this?")
    page.get_by_role("button", name="Send").click()
    page.locator(".message.user").get_by_text("what is this?").wait_for()
    page.locator(".message.assistant").nth(1).wait_for()
    assert page.locator(".picture").count() == 0
    page.reload()
    page.locator(".message.user").get_by_text("1 picture").wait_for()
