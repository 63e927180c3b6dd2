"""An agent's way through the console in a real browser: prompt, stream, questions, changes, verdicts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hosting import WAIT
from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, start

pytestmark = pytest.mark.peers

CHECK = "from calc import add\nassert add(1, 2) == 3, add(1, 2)\n"


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


def project(console: ConsoleHosting) -> Path:
    """A repository whose check fails."""
    place = Path(console.hosting.environment["HOME"], "garden")
    place.mkdir()
    (place / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (place / "check.py").write_text(CHECK)
    (place / "README.md").write_text("# Garden\n\nRoses and *hedges*.\n")
    for words in ("init -q", "add .", "-c user.name=A -c user.email=a@b commit -qm Begin"):
        subprocess.run(["git", *words.split()], cwd=place, check=True)
    return place


def test_a_question_is_answered_from_the_phone_while_a_terminal_asks_it_too(
    console: ConsoleHosting, browser: Chromium
) -> None:
    place = project(console)
    laptop = browser.page(console)
    start(laptop, "agent", "garden", "~/garden", prompt="edit calc.py: replace `a - b` with `a + b`")
    question = laptop.locator(".session-questions .question")
    question.get_by_text("edit calc.py").wait_for()

    # the chat in a terminal shows the same question
    console.hosting.run(
        "start", "chat", "-d", "--cwd", str(place), "--", *console.hosting.command, "agent", "garden"
    )
    console.hosting.wait_text("chat", "calc.py")

    phone = browser.page(console, phone=True)
    card = phone.locator(".question")
    card.locator(".line.plus").get_by_text("return a + b").wait_for()
    card.get_by_role("button", name="Allow", exact=True).click()
    phone.get_by_text("Nothing waits for you").wait_for()
    question.wait_for(state="detached")
    console.hosting.wait_text("chat", "Done: edit")
    laptop.locator(".message.assistant").get_by_text("Done: edit").wait_for()

    # what has changed
    laptop.get_by_role("link", name="Changes").click()
    laptop.locator(".file .line.minus").get_by_text("return a - b").wait_for()
    laptop.locator(".file .line.plus").get_by_text("return a + b").wait_for()
    assert (place / "calc.py").read_text().endswith("return a + b\n")
    laptop.get_by_role("link", name="Timeline").click()
    laptop.locator(".step").get_by_text("allow", exact=True).wait_for()


def test_red_then_green_and_the_chart_moves(console: ConsoleHosting, browser: Chromium) -> None:
    place = project(console)
    page = browser.page(console)
    start(page, "agent", "garden", "~/garden")
    page.get_by_label("Mode", exact=True).select_option("accept")
    check = [*console.hosting.command, "verify", "garden", "--", sys.executable, "-B", "check.py"]
    console.hosting.start("check", f"cd {shlex.quote(str(place))} && exec {shlex.join(check)}")
    console.hosting.wait_text("check", "garden")
    say(page, "write notes.txt: roses\nwhen sent back:\nedit calc.py: replace `a - b` with `a + b`")
    page.locator(".session-title .verdict.verified").wait_for()
    page.get_by_role("link", name="Reports").last.click()
    points = page.locator(".chart .point")
    points.nth(1).wait_for()
    assert "FAILED" in str(points.nth(0).get_attribute("aria-label"))
    assert "VERIFIED" in str(points.nth(1).get_attribute("aria-label"))
    points.nth(0).click()
    report = page.locator("details.report[open]")
    report.get_by_text("exit code 1").first.wait_for()
    report.get_by_text("AssertionError").first.wait_for()
    page.get_by_role("link", name="Timeline").click()
    checks = page.locator(".step[data-what=check] .verdict")
    checks.nth(1).wait_for()
    assert checks.all_inner_texts() == ["FAILED", "VERIFIED"]
    go(page, "#/reports")
    page.locator("main.view-reports .chart .point").nth(1).wait_for()


def say(page: Any, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_a_turn_is_steered_and_ended_and_a_conversation_forked(
    console: ConsoleHosting, browser: Chromium
) -> None:
    project(console)
    page = browser.page(console)
    start(page, "agent", "garden", "~/garden", prompt="read README.md then run: sleep 1000")
    page.locator(".tool-about").get_by_text("README.md").wait_for()
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_label("Message").fill("also list .")
    page.get_by_role("button", name="Steer").click()
    page.locator(".message.user").get_by_text("also list .").wait_for()
    page.get_by_role("button", name="Abort").click()
    page.get_by_text("The turn was aborted").first.wait_for()
    page.get_by_role("button", name="Send").wait_for()
    page.locator(".message.user").first.hover()
    page.get_by_role("button", name="Fork").first.click()
    page.wait_for_url(lambda url: "/s/" in url and len(console.hosting.ask("session_list")["sessions"]) == 2)


def test_a_conversation_is_forked_at_an_answer(console: ConsoleHosting, browser: Chromium) -> None:
    project(console)
    page = browser.page(console)
    start(page, "agent", "garden", "~/garden", prompt="say: roses")
    page.locator(".message.assistant").get_by_text("roses").wait_for()
    page.get_by_role("button", name="Send").wait_for()
    say(page, "say: hedges")
    page.locator(".message.assistant").get_by_text("hedges").wait_for()
    page.get_by_role("button", name="Send").wait_for()
    first = page.url
    answer = page.locator(".message.assistant").filter(has_text="roses")
    answer.hover()
    answer.get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: "/s/" in url and url != first)
    answer.wait_for()
    assert page.get_by_text("hedges").count() == 0
    page.reload()
    answer.get_by_role("button", name="Fork").wait_for()  # also of what was fetched


ASKS = """
import sys
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
with DaemonConnection(Settings(), start=False) as control:
    more = {"options": sys.argv[2:]} if sys.argv[2:] else {}
    more |= {"text": "Which colour?", "project": "/tmp", "title": "roses"}
    asked = control.ask("ask_person", token=sys.argv[1], **more)
print(asked["text"] or asked["option"])
"""


@contextmanager
def asking(console: ConsoleHosting, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that asks a person, and prints the answer."""
    command = [sys.executable, "-c", ASKS, *words]
    environment = console.hosting.environment
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as asker:
        try:
            yield asker
        finally:
            asker.kill()  # else a test that fails waits for its answer


def press(card: Any, name: str) -> None:
    """Press a button of a question, again if the questions had just moved under it."""
    while True:
        card.get_by_role("button", name=name, exact=True).click()
        if not card.get_by_text("have just moved").is_visible():
            return


def test_a_choice_and_own_words_reach_who_asks_and_the_question_is_gone_everywhere(
    console: ConsoleHosting, browser: Chromium
) -> None:
    page, other = browser.page(console), browser.page(console, light=True, phone=True)
    with asking(console, "c0104ac0", "red", "white") as asker:
        page.get_by_role("heading", name="Which colour?").wait_for()
        press(other.locator(".question"), "white")
        page.get_by_text("Nothing waits for you").wait_for()
        other.get_by_text("Nothing waits for you").wait_for()
        assert asker.communicate(timeout=WAIT)[0].strip() == "white"
    with asking(console, "c0104ac1") as asker:
        card = page.locator(".question")
        card.get_by_label("Answer in your own words").fill("yellow, of course")
        press(card, "Answer")
        other.get_by_text("Nothing waits for you").wait_for()
        assert asker.communicate(timeout=WAIT)[0].strip() == "yellow, of course"


def test_shared_conversations_are_watched_or_written_to(console: ConsoleHosting, browser: Chromium) -> None:
    project(console)
    owner = browser.page(console)
    start(owner, "agent", "garden", "~/garden", prompt="run: echo hello")
    owner.locator(".session-questions .question").wait_for()
    links = [
        console.hosting.run("web", "--no-open", "--share", "garden", "--role", role).stdout.split()[0]
        for role in ("watcher", "writer")
    ]
    watcher, writer = (browser.page(console, link, phone=True) for link in links)
    watcher.get_by_text("somebody else answers this").wait_for()
    watcher.locator(".message.user").get_by_text("run: echo hello").wait_for()
    assert watcher.get_by_label("Message").count() == 0
    assert watcher.get_by_role("button", name="Allow").count() == 0
    writer.get_by_role("button", name="Allow", exact=True).click()
    watcher.locator(".question").wait_for(state="detached")
    writer.locator(".message.assistant").get_by_text("Done: run").wait_for()
    say(writer, "list .")
    watcher.locator(".message.user").get_by_text("list .").wait_for()
    assert writer.get_by_role("button", name="Fork").count() == 0
