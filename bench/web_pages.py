"""The web console in a real browser, Debian's Chromium without a graphics card, driven by Playwright of
.venv/peers: the second part of `make bench-web`.

A key counts from its event until its letter is in a row of the page: xterm.js draws rows when the browser is
about to show its next frame. Throughput stands beside what xterm.js does with the same bytes in the same
browser, from memory and from a bare WebSocket, in pages that have nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from web import Consoles

GOALS = {"key": 30.0, "beside": 100.0, "ratio": 0.8, "heap": 64.0, "first": 1500.0}
WARM, SESSIONS, ASKING, QUESTIONS, FLOOD = 40, 200, 10, 4, 200
WARM_FLOOD = 6
"""Megabytes that each page draws first: the browser compiles what is used often."""
SIZE = {"width": 1280, "height": 800}
LINE = "the quick brown fox jumps over the lazy dog and goes on as far as it can; "
WHATEVER = "{ subtree: true, childList: true, characterData: true }"
FLOODS = f'stty -echo; while read n mark; do yes "{LINE}" | head -c "$n"000000; echo; echo "over $mark"; done'

WATCH = """
    localStorage.setItem("renderer", "dom");
    const Before = WebSocket;
    window.got = { bytes: 0, first: 0 };
    window.WebSocket = class extends Before {
        constructor(...words) {
            super(...words);
            this.addEventListener("message", ({ data }) => {
                if (typeof data === "string") return;
                window.got.first ||= performance.now();
                window.got.bytes += data.byteLength;
            });
        }
    };
"""
"""Counts what comes. Rows are drawn as elements, as without a graphics card: those can be looked at."""

KEYS = """() => {
    window.keys = [];
    let pressed = null;
    document.addEventListener("keydown", (event) => (pressed = event.timeStamp), true);
    new MutationObserver(() => {
        if (pressed === null) return;
        window.keys.push(performance.now() - pressed);
        pressed = null;
    }).observe(document.querySelector(".xterm-rows"), WHATEVER);
}""".replace("WHATEVER", WHATEVER)
"""Measures from the event of each key to the next change of a row; nothing but the echo changes one."""

UNTIL_END = """(end) => new Promise((done) => {
    const rows = document.querySelector(".xterm-rows");
    const look = () => {
        if (!rows.textContent.includes(end)) return false;
        done({ ...window.got, last: performance.now() });
        return true;
    };
    if (!look()) new MutationObserver((_, own) => look() && own.disconnect()).observe(rows, WHATEVER);
})""".replace("WHATEVER", WHATEVER)

BARE = """async ([place, cols, rows]) => {
    const { install } = await import(`${place}/strict_styles.js`);
    install();
    const { Terminal } = await import(`${place}/vendor/xterm/xterm.mjs`);
    const addon = "addon-unicode-graphemes";
    const { UnicodeGraphemesAddon } = await import(`${place}/vendor/${addon}/${addon}.mjs`);
    const node = document.createElement("div");
    document.body.replaceChildren(node);
    const same = { fontSize: 13, scrollback: 5000, minimumContrastRatio: 4.5 };
    window.terminal = new Terminal({ allowProposedApi: true, cols, rows, ...same });
    terminal.open(node);
    terminal.loadAddon(new UnicodeGraphemesAddon());
}"""
"""A page that has a terminal as the console's has it, and nothing else."""

FROM_MEMORY = """async ([line, bytes]) => {
    const piece = new TextEncoder().encode((line + "\\r\\n").repeat(Math.ceil(65536 / (line.length + 2))));
    const began = performance.now();
    let sent = 0;
    while (sent < bytes) {
        const writes = [];
        for (let each = 0; each < 8 && sent < bytes; each += 1, sent += piece.length) {
            writes.push(new Promise((written) => terminal.write(piece, written)));
        }
        await Promise.all(writes);
    }
    await new Promise((written) => terminal.write("the-end", written));
    return { bytes: sent, first: began };
}"""

FROM_RELAY = """(address) => {
    window.got = { bytes: 0, first: 0 };
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => terminal.write(new Uint8Array(data));
}"""

DRAWN = """([selector, count]) => {
    const look = () => document.querySelectorAll(selector).length >= count;
    return new Promise((done) => {
        const drawn = () => requestAnimationFrame(() => setTimeout(() => done(performance.now())));
        if (look()) return drawn();
        const observer = new MutationObserver(() => look() && (observer.disconnect(), drawn()));
        observer.observe(document.body, { subtree: true, childList: true });
    });
}"""
"""Milliseconds from the navigation until so many elements are there, and a frame with them was made."""


class Browser:
    """Chromium, with one person's pages."""

    def __init__(self, console: Consoles, playwright: Any) -> None:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        self._console = console
        self._browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        self._context = self._browser.new_context(viewport=SIZE, bypass_csp=True)
        self._context.set_default_timeout(120_000)
        self._context.add_init_script(WATCH)
        name, _, value = console.cookie.partition("=")
        self._context.add_cookies([{"name": name, "value": value, "url": console.base}])

    def page(self, to: str = "/") -> Any:
        page = self._context.new_page()
        page.goto(self._console.base + to)
        return page

    def writer(self, name: str) -> Any:
        """A page that writes in a session."""
        page = self.page(f"/#/s/{name}")
        page.get_by_role("button", name="Take the pen").click()
        page.get_by_text("You write").wait_for()
        page.wait_for_timeout(500)
        return page

    def bare(self, cols: int, rows: int) -> Any:
        """A page that has nothing but a terminal."""
        page = self.page("/in")
        source = page.locator("script").first.get_attribute("src")
        page.evaluate(BARE, [source.rpartition("/")[0], cols, rows])
        return page

    def close(self) -> None:
        self._browser.close()


def pressed(page: Any, count: int) -> list[float]:
    """Milliseconds from each key to its letter on the page."""
    page.evaluate(KEYS)
    for number in range(WARM + count):
        page.keyboard.press("abcdefgh"[number % 8])
        page.wait_for_function("(count) => window.keys.length > count", arg=number, polling=5)
        page.wait_for_timeout(23 + number * 7 % 17)  # at any time of a frame
    took: list[float] = page.evaluate("() => window.keys")
    return took


def keys(console: Consoles, browser: Browser, count: int) -> tuple[list[float], list[float]]:
    """The first keys of a page, and those after them."""
    console.start(["typed"], "stty -icanon; exec cat > /dev/null")
    page = browser.writer("typed")
    took = pressed(page, count)
    page.close()
    console.run("stop", "typed")
    return took[:WARM], took[WARM:]


def keys_beside_a_flood(console: Consoles, browser: Browser, count: int) -> list[float]:
    """The same while another page of the browser shows a flood."""
    console.start(["noise"], f"yes '{LINE}'")
    noise = browser.page("/#/s/noise")
    noise.wait_for_function("() => window.got.bytes > 5_000_000")
    _, took = keys(console, browser, count)
    noise.close()
    console.run("stop", "noise")
    return took


def flooded(console: Consoles, page: Any, name: str, megabytes: int) -> float:
    """Megabytes a second that a page draws of a flood."""
    page.evaluate("() => (window.got.bytes = window.got.first = 0)")
    mark = secrets.token_hex(4)
    console.run("send", name, f"{megabytes} {mark}", "-k", "Enter")
    return rate(page.evaluate(UNTIL_END, f"over {mark}"))


def rate(got: dict[str, float]) -> float:
    return got["bytes"] / 1e3 / (got["last"] - got["first"])


def throughput(
    console: Consoles, browser: Browser, relay: str, megabytes: int, rounds: int
) -> tuple[float, float, float]:
    """Medians of the console's page, of a bare page with a relay and of one from memory, taken by turns."""
    console.start(["flood"], FLOODS)
    program = subprocess.Popen(
        [sys.executable, "-c", relay],
        env=console.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    ours, relayed, own = [], [], []
    try:
        assert program.stdout is not None
        address = f"ws://127.0.0.1:{int(program.stdout.readline())}/"
        for _ in range(rounds):
            page = browser.writer("flood")
            cols, rows = map(int, re.findall(r"\d+", page.locator(".size").inner_text())[:2])
            flooded(console, page, "flood", WARM_FLOOD)
            ours.append(flooded(console, page, "flood", megabytes))
            page.close()
            page = browser.bare(cols, rows)
            page.evaluate(FROM_RELAY, address)
            page.wait_for_timeout(1000)
            flooded(console, page, "flood", WARM_FLOOD)
            relayed.append(flooded(console, page, "flood", megabytes))
            page.close()
            page = browser.bare(cols, rows)
            page.evaluate(FROM_MEMORY, [LINE, WARM_FLOOD * 1_000_000])
            page.evaluate("() => new Promise((done) => terminal.write('\\x1b[2J', done))")
            page.wait_for_timeout(200)
            got = page.evaluate(FROM_MEMORY, [LINE, megabytes * 1_000_000])
            got["last"] = page.evaluate(UNTIL_END, "the-end")["last"]
            own.append(rate(got))
            page.close()
    finally:
        program.kill()
        program.wait()
    console.run("stop", "flood")
    return statistics.median(ours), statistics.median(relayed), statistics.median(own)


def heap(console: Consoles, browser: Browser, megabytes: int) -> tuple[float, float]:
    """Megabytes that the scripts of a page hold before and after a flood."""
    console.start(["long"], FLOODS)
    page = browser.writer("long")
    before = heap_of(page)
    flooded(console, page, "long", megabytes)
    after = heap_of(page)
    page.close()
    console.run("stop", "long")
    return before, after


def heap_of(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return float(used) / 1e6


def first_views(console: Consoles, browser: Browser, rounds: int) -> dict[str, float]:
    """Milliseconds from the navigation until cards and questions are drawn, with many sessions."""
    names = [f"many-{number}" for number in range(SESSIONS)]
    console.start(names[:ASKING], "printf 'Overwrite the file? [y/N] '; read answer; exec cat")
    console.start(names[ASKING:], "exec cat")
    asking = [threading.Thread(target=asked, args=(console, each), daemon=True) for each in range(QUESTIONS)]
    for each in asking:
        each.start()
    found = {}
    views = {
        "cards": ("/#/sessions", ".card", SESSIONS),
        "inbox": ("/#/inbox", "article.question", QUESTIONS),
    }
    for name, (to, selector, count) in views.items():
        took = []
        for _ in range(rounds):
            page = browser.page(to)
            took.append(page.evaluate(DRAWN, [selector, count]))
            page.close()
        found[name] = statistics.median(took)
    return found


def asked(console: Consoles, number: int) -> None:
    """A question of an agent, which waits as long as the daemon is there."""
    from fairlead.client.connection import DaemonConnection
    from fairlead.system.settings import Settings

    with (
        contextlib.suppress(OSError),
        DaemonConnection(Settings(console.environment), start=False) as control,
    ):
        control.ask(
            "ask_person", token=f"abcdef{number:02}", text="Which?", project="/tmp", options=["a", "b"]
        )


def playwright() -> Callable[[], Any] | str:
    """What drives Chromium, or why there is nothing."""
    if shutil.which("chromium") is None:
        return "there is no chromium (`make peers` installs it)"
    for place in (Path(__file__).parents[1] / ".venv/peers").glob("lib/python*/site-packages"):
        sys.path.append(str(place))
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "Playwright is not in .venv/peers (`make peers` installs it)"
    found: Callable[[], Any] = sync_playwright
    return found


def measure(console: Consoles, relay: str, *, quick: bool) -> list[str]:
    """Print what a browser's pages do. Returns the goals that were missed."""
    run = playwright()
    if isinstance(run, str):
        print(f"in a browser: not measured, {run}")
        return []
    with run() as driver:
        browser = Browser(console, driver)
        try:
            return _measured(console, browser, relay, quick=quick)
        finally:
            browser.close()


def _measured(console: Consoles, browser: Browser, relay: str, *, quick: bool) -> list[str]:
    missed = []

    def line(what: str, value: float, unit: str, goal: str = "", *, holds: bool = True) -> None:
        print(f"{what:42} {value:7.2f} {unit}{f', {goal}' if goal else ''}", flush=True)
        if not holds:
            missed.append(what.strip())

    print(f"in Chromium, load {os.getloadavg()[0]:.1f}")
    cold, took = keys(console, browser, 60 if quick else 150)
    key = statistics.median(took)
    line("a key is on the page, median", key, "ms", "at most 30", holds=key <= GOALS["key"])
    line("   nine of ten", statistics.quantiles(took, n=10)[-1], "ms")
    line(f"   the first {WARM} of a new page, median", statistics.median(cold), "ms")
    beside = statistics.median(keys_beside_a_flood(console, browser, 30 if quick else 100))
    line(
        "   beside a flood in another page, median",
        beside,
        "ms",
        "at most 100",
        holds=beside <= GOALS["beside"],
    )
    ours, relayed, own = throughput(console, browser, relay, 8 if quick else 24, 1 if quick else 3)
    line("throughput to a page", ours, "MB/s")
    line("   xterm.js from a bare relay", relayed, "MB/s")
    line("   of that", ours / relayed, "", "at least 0.8", holds=ours / relayed >= GOALS["ratio"])
    line("   xterm.js from memory, no program", own, "MB/s")
    before, after = heap(console, browser, 20 if quick else FLOOD)
    line("heap of a page's scripts", before, "MB")
    line(
        f"   after a flood of {20 if quick else FLOOD} MB",
        after,
        "MB",
        "at most 64",
        holds=after <= GOALS["heap"],
    )
    for name, first in first_views(console, browser, 1 if quick else 5).items():
        line(f"{SESSIONS} sessions: {name} drawn", first, "ms", "at most 1500", holds=first <= GOALS["first"])
    return missed
