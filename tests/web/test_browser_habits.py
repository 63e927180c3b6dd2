"""What people do in the console without thinking: press a button and type on, find a word, reload."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, wait_screen

pytestmark = pytest.mark.peers

SCREENS = Path(__file__).parents[1] / "data/agent-screens"


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


def written(page: Any, name: str) -> None:
    """Take the pen of a terminal."""
    go(page, f"#/s/{name}")
    page.get_by_role("button", name="Take the pen").click()
    page.get_by_text("You write").wait_for()


def is_other_size(console: ConsoleHosting, size: dict[str, Any]) -> bool:
    now = console.hosting.sessions()[size["name"]]
    return any(now[key] != size[key] for key in ("cols", "rows"))


def find(page: Any, words: str) -> None:
    """Find something in the terminal."""
    box = page.get_by_label("Find in the terminal")
    box.fill(words)
    box.press("Enter")
    page.locator(".terminal-search input:not(.not-found)").wait_for()


def test_what_has_scrolled_away_is_found_while_somebody_writes_and_after_each_size(
    console: ConsoleHosting, browser: Chromium
) -> None:
    console.hosting.start("long", "stty -echo; seq -f L%g-of-the-lot 1 400; echo ready; cat")
    page = browser.page(console)
    written(page, "long")
    wait_screen(page, "ready")
    page.get_by_role("button", name="Find").click()
    box = page.get_by_label("Find in the terminal")
    box.wait_for()
    before = console.hosting.sessions()["long"]
    find(page, "L123-of")
    wait_screen(page, "L123-of-the-lot")
    after = console.hosting.sessions()["long"]
    assert (before["cols"], before["rows"]) == (after["cols"], after["rows"])  # nor does finding change it

    page.get_by_label("Close").click()
    for width in (0, 700):
        size = console.hosting.sessions()["long"]
        if width:
            page.set_viewport_size({"width": width, "height": 500})
        else:
            page.get_by_role("button", name="A+").click()
        console.hosting.until(partial(is_other_size, console, size))
        page.wait_for_timeout(1000)  # the redraw, which empties it, has come by then
        page.get_by_role("button", name="Find").click()
        find(page, "L77-of")
        wait_screen(page, "L77-of-the-lot")
        page.get_by_label("Close").click()


def test_who_writes_goes_on_writing_after_a_button(console: ConsoleHosting, browser: Chromium) -> None:
    console.hosting.start("keys", "cat")
    page = browser.page(console)
    written(page, "keys")
    for at, name in enumerate(("Record", "Stop recording", "A−", "Light or dark")):
        page.get_by_role("button", name=name).click()
        page.locator(".xterm-helper-textarea:focus").wait_for(state="attached")
        page.keyboard.type(f"s-is-typed-{at}\n")
        wait_screen(page, f"s-is-typed-{at}")
    # from the keyboard a button keeps the focus, and letters lead nowhere while somebody writes
    page.get_by_role("button", name="A+").focus()
    page.keyboard.press("s")
    page.keyboard.press("Enter")
    page.locator("button:focus").wait_for()
    page.get_by_text("You write").wait_for()
    assert page.evaluate("location.hash").startswith("#/s/keys")


def test_a_message_that_is_typed_is_looked_at_and_one_press_merges(
    console: ConsoleHosting, browser: Chromium
) -> None:
    place = Path(console.hosting.environment["HOME"], "garden")
    place.mkdir()
    (place / "a").write_text("1\n")
    for words in (
        "init -qb main",
        "config user.name A",
        "config user.email a@b",
        "add .",
        "commit -qm Begin",
    ):
        subprocess.run(["git", *words.split()], cwd=place, check=True)
    tree = console.hosting.ask("worktree_add", name="side", project=str(place))["worktree"]["path"]
    (Path(tree) / "b").write_text("2\n")
    console.hosting.run("start", "side", "-d", "--cwd", tree, "--", "cat")
    page = browser.page(console)
    go(page, "#/s/side/changes")
    page.get_by_role("button", name="Merge into main…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("give a message").wait_for()
    dialog.get_by_label("Message").press_sequentially("Two")
    merge = dialog.get_by_role("button", name="Merge into main")
    page.locator("dialog button.primary:enabled").wait_for()
    assert not dialog.get_by_text("give a message").is_visible()
    merge.click()
    page.get_by_text("Merged into main").wait_for()
    assert (place / "b").read_text() == "2\n"


def test_a_banner_says_once_what_is_away_and_what_starts_it(
    console: ConsoleHosting, browser: Chromium
) -> None:
    page = browser.page(console)
    page.get_by_text("Nothing waits for you").wait_for()
    browser.expected += [
        "ERR_CONNECTION_REFUSED",
        "WebSocket connection",
        "ERR_CONNECTION_RESET",
        "ERR_EMPTY",
    ]
    browser.expected += ["ERR_INCOMPLETE_CHUNKED_ENCODING"]
    console.hosting.run("web", "--stop")
    banner = page.locator("#banner")
    banner.get_by_text("can't be reached").wait_for()
    assert banner.inner_text().lower().count("can't be reached") == 1
    assert "`fairlead web`" in banner.inner_text()
    console.hosting.run("web", "--no-open")
    banner.wait_for(state="hidden")


def asking(console: ConsoleHosting, *names: str) -> Path:
    """Agents that each ask whether they may write."""
    place = Path(console.hosting.environment["HOME"], "garden")
    place.mkdir(exist_ok=True)
    for name in names:
        opened = console.hosting.ask("open_session", name=name, cwd=str(place))["session_id"]
        console.hosting.ask("prompt", message=f"write {name}.txt: hello", session_id=opened)
    console.hosting.until(lambda: len(console.hosting.ask("approvals")["approvals"]) == len(names))
    return place


def test_questions_are_answered_one_after_the_other_with_the_keyboard(
    console: ConsoleHosting, browser: Chromium
) -> None:
    asking(console, "one", "two")
    page = browser.page(console)
    page.get_by_role("heading", name="2 questions for you").wait_for()
    go(page, "#/sessions")
    page.locator(".card").first.wait_for()
    page.keyboard.press("q")
    page.locator(".question:focus").wait_for()
    page.locator(".question:focus").get_by_role("button", name="Allow", exact=True).focus()
    page.wait_for_timeout(500)  # a press just after cards have moved is not taken
    page.keyboard.press("Enter")
    page.locator("#notes").get_by_text("answered, Allow").first.wait_for()
    page.get_by_role("heading", name="1 question for you").wait_for()
    page.locator(".question:focus").wait_for()
    page.locator(".question:focus").get_by_role("button", name="Allow", exact=True).focus()
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.get_by_text("Nothing waits for you").wait_for()
    page.locator("#main:focus").wait_for()


def test_an_agents_call_waits_and_its_draft_stays_and_it_is_found_by_name(
    console: ConsoleHosting, browser: Chromium
) -> None:
    asking(console, "one")
    page = browser.page(console)
    go(page, "#/s/one/chat")
    page.wait_for_url(lambda url: "/s/one" not in url)
    page.locator(".tool-state").get_by_text("waits for permission").wait_for()
    page.locator(".chat-status").get_by_text("Waits for an answer").wait_for()
    page.get_by_label("Message", exact=True).fill("half a thought")
    page.reload()
    page.locator(".tool").first.wait_for()
    assert page.get_by_label("Message", exact=True).input_value() == "half a thought"
    page.get_by_role("button", name="Allow", exact=True).click()
    page.locator(".tool-state").get_by_text("waits for permission").wait_for(state="detached")
    page.locator(".chat-status").get_by_text("Waits for an answer").wait_for(state="detached")
    # one sent is no draft any more
    page.get_by_role("button", name="Send").click()
    page.locator(".message.user").get_by_text("half a thought").wait_for()
    page.reload()
    page.locator(".tool").first.wait_for()
    assert page.get_by_label("Message", exact=True).input_value() == ""


def test_who_is_let_in_is_named(console: ConsoleHosting, browser: Chromium) -> None:
    console.hosting.run("token", "--name", "cron")
    console.hosting.start("lent", "cat")
    console.share("lent", "watcher")
    page = browser.page(console)
    go(page, "#/health")
    rows = page.locator(".visitor")
    rows.filter(has_text="this browser").get_by_text("Chrome on Linux").wait_for()
    assert rows.filter(has_text="this browser").count() == 1
    assert "cron" in rows.filter(has_text="token").inner_text()
    assert all("lent" in each for each in rows.filter(has_text="watcher").all_inner_texts())
    listed = json.loads(console.hosting.run("web", "--sessions", "--json").stdout)["sessions"]
    assert all(not each["own"] for each in listed)
    assert "Mozilla" not in console.hosting.run("web", "--sessions").stdout
    console.hosting.run("token", "rm", "cron")
    assert "cron" not in console.hosting.run("token", "ls").stdout


def test_an_error_of_the_dialog_goes_when_somebody_types(console: ConsoleHosting, browser: Chromium) -> None:
    console.hosting.start("taken", "cat")
    page = browser.page(console)
    go(page, "#/sessions")
    page.get_by_role("button", name="New session").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=name]").fill("taken")
    browser.expected.append("409 (Conflict)")
    dialog.get_by_role("button", name="Start").click()
    dialog.locator(".warning:not(:empty)").wait_for()
    dialog.locator("[name=name]").press("End")
    dialog.locator("[name=name]").press("x")
    dialog.locator(".warning:not(:empty)").wait_for(state="detached")


def test_nothing_is_notified_before_somebody_asked_for_it(console: ConsoleHosting, browser: Chromium) -> None:
    page = browser.page(console)
    page.context.grant_permissions(["notifications"], origin=console.base)
    page.reload()
    page.get_by_role("button", name="Notify me").wait_for()
    assert not page.get_by_role("button", name="Notified").is_visible()


def test_a_terminal_keeps_room_on_a_phone_below_a_question_and_above_a_keyboard(
    console: ConsoleHosting, browser: Chromium
) -> None:
    place = Path(console.hosting.environment["HOME"], "garden")
    place.mkdir()
    asked = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s",
        "cwd": str(place),
        "tool_name": "Bash",
    }
    command = "make all install; " * 20
    (place / "asked").write_text(json.dumps(asked | {"tool_input": {"command": command}}))
    hook = f"{shlex.join(console.hosting.command)} hook claude < asked"
    console.hosting.run(
        "start", "cc", "-d", "--cwd", str(place), "--", "sh", "-c", f"seq 1 60; {hook}; echo answered; cat"
    )
    page = browser.page(console, phone=True)
    go(page, "#/s/cc")
    wait_screen(page, "60")
    page.locator(".question").wait_for()
    room = "document.querySelector('.terminal-room').getBoundingClientRect().height"
    assert page.evaluate(room) >= 150
    page.get_by_role("button", name="Allow", exact=True).click()
    page.locator(".question").wait_for(state="detached")
    page.get_by_role("button", name="Take the pen").click()
    page.get_by_text("You write").wait_for()
    page.locator(".xterm").click()
    page.set_viewport_size({"width": 390, "height": 480})
    console.hosting.until(lambda: 8 <= console.hosting.sessions()["cc"]["rows"] < 20)
    assert page.evaluate(room) >= 150
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_waits_in_its_terminal_is_counted_with_the_hook_that_brings_it_here(
    console: ConsoleHosting, browser: Chromium
) -> None:
    agent = Path(console.hosting.environment["HOME"], "claude")
    agent.symlink_to("/bin/sh")
    screen = shlex.quote(str(SCREENS / "claude-2.0.76/permission-dialog.ansi"))
    console.hosting.run("start", "cc", "-d", "--", str(agent), "-c", f"cat {screen}; sleep 1000; true")
    page = browser.page(console)
    page.get_by_role("heading", name="1 waits in its terminal").wait_for()
    page.get_by_text("fairlead hook --install claude").wait_for()
    assert page.locator("#nav .badge").inner_text() == "1"
    assert page.title() == "(1) Fairlead"
    assert not page.get_by_text("Nothing waits for you").is_visible()
    console.hosting.run("stop", "cc")
    page.get_by_text("Nothing waits for you").wait_for()
    assert page.title() == "Fairlead"
