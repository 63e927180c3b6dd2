"""Recordings played in a real browser: of running and ended sessions, of any length, and by shares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import ConsoleHosting
from tests.web.chromium import Chromium, chromium, go, screen_text, wait_screen

pytestmark = pytest.mark.peers

BLOCK = 512 * 1024


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def console(browser: Chromium) -> Iterator[ConsoleHosting]:
    made = ConsoleHosting()
    try:
        yield made
    finally:
        browser.close_pages()
        made.close()


def recorded(console: ConsoleHosting, name: str, command: str, shown: str) -> Path:
    """A session that was recorded until it had shown something. Returns the file."""
    console.hosting.start(name, command, "--record")
    console.hosting.wait_text(name, shown)
    path = Path(console.hosting.sessions()[name]["recording"])
    console.hosting.until(lambda: shown in path.read_text())
    console.hosting.run("record", name, "--stop")
    return path


def rewritten(path: Path, events: list[tuple[float, str, str]], cols: int = 80, rows: int = 24) -> None:
    """Put other events into a recording, at these times."""
    header = {"version": 3, "term": {"cols": cols, "rows": rows}, "timestamp": 1_790_000_000}
    lines, before = [json.dumps(header)], 0.0
    for time, kind, data in events:
        lines.append(json.dumps([round(time - before, 3), kind, data]))
        before = time
    lines.append(f"# fairlead offset=0 generation=1 time={before:.3f}")
    path.write_text("\n".join(lines) + "\n")


def opened(page: Any, name: str) -> Any:
    """The player of a session, when it can be played."""
    go(page, f"#/s/{name}/recording")
    page.locator(".player button.primary:enabled").wait_for()
    return page.locator(".player")


def clock(page: Any, text: str) -> None:
    page.wait_for_function(
        "(text) => document.querySelector('.player-clock').textContent.startsWith(text)", arg=text
    )


def test_a_recording_is_played_while_the_session_runs_and_after_its_end(
    console: ConsoleHosting, browser: Chromium
) -> None:
    recorded(console, "taped", "printf '\\033[32mgrown\\033[0m in the garden\\n'; cat", "grown")
    page = browser.page(console)
    go(page, "#/s/taped")
    page.get_by_role("link", name="Recording", exact=True).click()
    page.locator(".player").get_by_role("button", name="Play").click()
    wait_screen(page, "grown in the garden")
    page.get_by_role("button", name="Play").wait_for()  # it has come to its end
    console.hosting.run("send", "taped", "--key", "C-d")
    console.hosting.until(lambda: console.hosting.sessions()["taped"]["exit_code"] == 0)
    page.reload()
    player = opened(page, "taped")
    player.press("9")
    wait_screen(page, "grown in the garden")
    with page.expect_download() as download:
        player.get_by_role("link", name="Download").click()
    assert "grown" in Path(download.value.path()).read_text()


def test_a_jump_shows_the_screen_as_it_was_in_its_size(console: ConsoleHosting, browser: Chromium) -> None:
    path = recorded(console, "jumped", "echo begun; cat", "begun")
    events = [(float(second), "o", f"second {second}\r\n") for second in range(20)]
    events += [(20.5, "r", "132x40"), (21.0, "o", "wide\r\n"), (4000.0, "o", "late\r\n"), (4001.0, "x", "0")]
    rewritten(path, events)
    page = browser.page(console)
    player = opened(page, "jumped")
    clock(page, "0:00 / 1:06:41")
    player.press("ArrowRight")
    wait_screen(page, "second 5")
    assert "second 6" not in screen_text(page)
    player.press(".")
    wait_screen(page, "second 6")
    player.press("ArrowLeft")
    page.wait_for_function("() => !document.querySelector('.xterm-rows').textContent.includes('second 2')")
    assert "second 1" in screen_text(page)
    player.press("9")
    wait_screen(page, "wide")
    assert page.locator(".player .xterm-rows > div").count() == 40
    player.get_by_label("Time in the recording").fill("12")
    page.wait_for_function("() => document.querySelectorAll('.player .xterm-rows > div').length === 24")
    wait_screen(page, "second 12")
    # what nobody would wait for is not waited for
    player.get_by_label("Speed").select_option("16")
    player.get_by_role("button", name="Play").click()
    wait_screen(page, "late")
    player.get_by_role("button", name="Play").wait_for()
    clock(page, "1:06:41")


def test_what_happened_in_the_session_leads_to_its_place(console: ConsoleHosting, browser: Chromium) -> None:
    path = recorded(console, "marked", "echo begun; cat", "begun")
    rewritten(path, [(0.0, "o", "before\r\n"), (30.0, "o", "asked\r\n"), (60.0, "o", "after\r\n")])
    turn = {"number": 1, "prompt": "water the roses", "began": 1_790_000_030.0, "steps": []}
    turn["steps"] = [{"what": "question", "at": 1_790_000_045.0, "text": "run: water"}]
    told = {"session": {}, "turns": [turn], "total": 1, "aside": []}
    page = browser.page(console)
    answer = json.dumps({"ok": True, "data": told})
    page.route(
        "**/api/ops/timeline",
        lambda route: route.fulfill(status=200, content_type="application/json", body=answer),
    )
    player = opened(page, "marked")
    chosen = player.get_by_label("Go to")
    assert chosen.locator("option").all_inner_texts() == [
        "Go to…",
        "0:30 turn 1: water the roses",
        "0:45 question: run: water",
    ]
    chosen.select_option("30")
    wait_screen(page, "asked")
    assert "after" not in screen_text(page)
    assert player.locator(".player-ticks i").count() == 2


LOOKS = """() => [...document.querySelectorAll(".player .xterm-rows > div")].map((row) =>
    [...row.querySelectorAll("span")].map((span) => [span.textContent, span.className, span.style.color]))"""


def test_a_long_recording_is_read_in_parts_and_a_jump_back_draws_the_same(
    console: ConsoleHosting, browser: Chromium
) -> None:
    """Pictures are kept, so a jump back reads little, and what they draw is what was there."""
    path = recorded(console, "long", "echo begun; cat", "begun")
    events = [(0.0, "o", "\x1b[?1049h\x1b[?25l\x1b[5;20r\x1b[1;1Hüber 漢字\x1b[20;1H")]
    for number in range(1, 13_000):
        colour = f"\x1b[38;5;{number % 256};48;2;{number % 200};9;9m" if number % 3 else "\x1b[0;1;4m"
        text = f"\r\n{colour}row {number} 漢字 e\u0301 {'.' * (number % 30)}"
        events.append((number / 10, "o", text + f"\x1b[7m{'=' * 300}\x1b[27m\x1b[3A\x1b[20;1H"))
    rewritten(path, events, 100, 30)
    size = path.stat().st_size
    assert size > 10 * BLOCK
    page = browser.page(console)
    read: list[int] = []

    def count(response: Any) -> None:
        if "/api/recordings/" in response.url:
            read.append(int(response.headers["content-length"]))

    page.on("response", count)
    player = opened(page, "long")
    assert sum(read) < 3 * BLOCK  # not more than is shown
    time = player.get_by_label("Time in the recording")
    moment = "900"
    time.fill(moment)
    wait_screen(page, "row 9000 漢字")
    straight = page.evaluate(LOOKS)
    player.press("9")
    wait_screen(page, "row 11699")
    before = sum(read)
    time.fill(moment)
    wait_screen(page, "row 9000 漢字")
    assert page.evaluate(LOOKS) == straight
    assert sum(read) - before <= 5 * BLOCK
    assert "über 漢字" in screen_text(page)


def test_what_is_no_recording_is_said(console: ConsoleHosting, browser: Chromium) -> None:
    path = recorded(console, "spoilt", "echo begun; cat", "begun")
    page = browser.page(console)
    for content, words in (
        ("no header\n", "its header is no JSON"),
        ('{"version": 9}\n', "version 9"),
        ('{"version": 3, "term": {"cols": 80, "rows": 24}}\n[1, "o"]\n', "a line is no event"),
    ):
        path.write_text(content)
        go(page, "#/inbox")
        go(page, "#/s/spoilt/recording")
        page.get_by_text(words).wait_for()
    path.unlink()
    browser.expected.append("404 (Not Found)")
    go(page, "#/inbox")
    go(page, "#/s/spoilt/recording")
    page.get_by_text("this session is not recorded").wait_for()


def test_a_share_plays_its_own_session_on_a_phone(console: ConsoleHosting, browser: Chromium) -> None:
    recorded(console, "lent", "echo lent to all; cat", "lent to all")
    recorded(console, "kept", "echo secret; cat", "secret")
    link = console.hosting.run("web", "--no-open", "--share", "lent", "--role", "watcher").stdout.split()[0]
    page = browser.page(console, link, phone=True)
    page.get_by_role("heading", name="lent", level=1).wait_for()
    player = opened(page, "lent")
    player.press("9")
    wait_screen(page, "lent to all")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    browser.expected.append("403 (Forbidden)")
    assert page.evaluate("fetch('/api/recordings/kept').then((answer) => answer.status)") == 403
