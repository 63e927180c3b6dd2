"""What a person does with sessions' work in a real browser: compare, put files back, merge a worktree."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go

pytestmark = pytest.mark.peers

MANY = 50
"""More files than a dialog shows at once."""


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


def git(place: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b")
    done = subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout


def garden(console: ConsoleHosting) -> Path:
    place = Path(console.hosting.environment["HOME"], "garden")
    place.mkdir()
    (place / "notes.txt").write_text("hedges\n")
    git(place, "init", "-q", "-b", "trunk")
    git(place, "config", "user.name", "A")
    git(place, "config", "user.email", "a@b")
    git(place, "add", ".")
    git(place, "commit", "-qm", "Begin")
    return place


def works(console: ConsoleHosting, name: str, place: Path, *prompts: str) -> str:
    """An agent that has done something. Returns its id."""
    ask = console.hosting.ask
    id = str(ask("open_session", name=name, cwd=str(place))["session_id"])
    ask("set_mode", mode="accept", session_id=id)
    for prompt in prompts:
        ask("prompt", message=prompt, session_id=id)
        console.hosting.until(lambda: ask("get_view", session_id=id)["state"]["phase"] == "idle")
    return id


def opened(page: Any, id: str) -> Any:
    go(page, f"#/s/{id}/changes")
    page.get_by_role("button", name="Undo turns…").click()
    return page.get_by_role("dialog")


def test_files_are_put_back_after_the_whole_list_was_seen(console: ConsoleHosting, browser: Chromium) -> None:
    place = garden(console)
    many = "\n".join(f"write bed-{number:02}.txt: roses" for number in range(MANY))
    id = works(console, "roses", place, many, "write notes.txt: water the roses")
    page = browser.page(console)
    dialog = opened(page, id)
    dialog.get_by_text("notes.txt").wait_for()
    dialog.get_by_label("Turns").fill("2")
    dialog.get_by_label("Turns").press("Tab")
    does = dialog.get_by_role("button", name=f"Put back {MANY + 1} files of 2 turns")
    does.wait_for()
    assert dialog.locator(".preview-list li").count() == MANY + 1
    assert does.is_disabled()  # the end of the list has not been seen
    dialog.locator(".preview-end").scroll_into_view_if_needed()
    does.click()
    dialog.wait_for(state="detached")
    assert (place / "notes.txt").read_text() == "hedges\n"
    assert not list(place.glob("bed-*"))
    page.get_by_text("Nothing has changed").wait_for()
    # and the other way round
    browser.expected.append("409 (Conflict)")  # there is no turn left to put back
    dialog = opened(page, id)
    dialog.get_by_label("redo: reverse the last undo").check()
    dialog.get_by_role("button", name=f"Take back, {MANY + 1} files").wait_for()
    dialog.locator(".preview-end").scroll_into_view_if_needed()
    dialog.get_by_role("button", name="Take back").click()
    dialog.wait_for(state="detached")
    assert len(list(place.glob("bed-*"))) == MANY


def test_what_somebody_changed_since_is_refused_and_what_changes_meanwhile_is_shown_again(
    console: ConsoleHosting, browser: Chromium
) -> None:
    place = garden(console)
    id = works(console, "roses", place, "write notes.txt: water the roses")
    page = browser.page(console)
    dialog = opened(page, id)
    does = dialog.get_by_role("button", name="Put back 1 file of 1 turn")
    does.wait_for()
    page.wait_for_function("() => !document.querySelector('dialog .primary').disabled")
    (place / "notes.txt").write_text("mine\n")
    browser.expected.append("409 (Conflict)")
    does.click()
    dialog.get_by_text("look again").wait_for()
    dialog.get_by_text("It would be refused").wait_for()
    dialog.get_by_text("changed since", exact=True).wait_for()
    assert (place / "notes.txt").read_text() == "mine\n"
    assert does.is_disabled()
    dialog.get_by_label("also what somebody changed since").check()
    page.wait_for_function("() => !document.querySelector('dialog .primary').disabled")
    (place / "notes.txt").write_text("mine, too\n")  # the list is the same, but not what is lost
    does.click()
    dialog.get_by_text("look again").wait_for()
    assert (place / "notes.txt").read_text() == "mine, too\n"
    page.wait_for_function("() => !document.querySelector('dialog .primary').disabled")
    does.click()
    dialog.wait_for(state="detached")
    assert (place / "notes.txt").read_text() == "hedges\n"


def test_a_worktree_is_compared_and_merged(console: ConsoleHosting, browser: Chromium) -> None:
    place = garden(console)
    here = works(console, "hedge", place, "write hedge.txt: cut")
    tree = Path(console.hosting.ask("worktree_add", name="roses", project=str(place))["worktree"]["path"])
    id = works(console, "roses", tree, "write roses.txt: red")
    page = browser.page(console, phone=True)
    go(page, f"#/s/{id}/changes")
    page.locator(".file-path").get_by_text("roses.txt").wait_for()
    page.get_by_label("Compare with").select_option(here)
    page.locator(".file-path").get_by_text("hedge.txt").wait_for()
    page.get_by_text("roses → hedge").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    (place / "hedge.txt").unlink()
    page.get_by_role("button", name="Merge into trunk…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("give a message").wait_for()
    does = dialog.get_by_role("button", name="Merge into trunk")
    assert does.is_disabled()
    dialog.get_by_label("Message").fill("Red roses")
    dialog.get_by_label("Message").press("Tab")
    dialog.get_by_text("not committed", exact=True).wait_for()
    page.wait_for_function("() => !document.querySelector('dialog .primary').disabled")
    (tree / "roses.txt").write_text("reds\n")  # the list is the same, but not what is merged
    browser.expected.append("409 (Conflict)")
    does.click()
    dialog.get_by_text("look again").wait_for()
    assert not (place / "roses.txt").exists()
    (tree / "roses.txt").write_text("red\n")
    dialog.get_by_label("Message").fill("Red roses!")
    dialog.get_by_label("Message").press("Tab")
    page.wait_for_function("() => !document.querySelector('dialog .primary').disabled")
    does.click()
    page.get_by_text("Merged into trunk").wait_for()
    assert (place / "roses.txt").read_text().strip() == "red"
    assert "Red roses" in git(place, "log", "--format=%s")


def test_a_share_compares_and_undoes_nothing(console: ConsoleHosting, browser: Chromium) -> None:
    works(console, "roses", garden(console), "write notes.txt: water the roses")
    link = console.hosting.run("web", "--no-open", "--share", "roses", "--role", "writer").stdout.split()[0]
    page = browser.page(console, link)
    page.get_by_role("link", name="Changes").click()
    page.locator(".file-path").get_by_text("notes.txt").wait_for()
    assert page.get_by_role("button", name="Undo turns…").count() == 0
    assert page.locator(".changes-bar:visible").count() == 0
