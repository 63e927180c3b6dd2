"""Every view in a real browser: nothing foreign runs, everybody can use it, and it fits a phone."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import peers
from tests.hosting import Hosting
from tests.web.browser import ConsoleHosting
from tests.web.chromium import IMAGES, Chromium, chromium, go, wait_screen

pytestmark = pytest.mark.peers

FIRST_VIEW = 400 * 1024
"""How many compressed bytes the first view may have."""
LARGEST_IMAGE = 150 * 1024
MEAN = "<img src=x onerror=\"window.ran='{}'\"><script>window.ran='{}'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as made:
        yield made


class Scene(NamedTuple):
    """A console with something of everything."""

    console: ConsoleHosting
    agent: str
    """The id of an agent session."""


@pytest.fixture(scope="module")
def scene(browser: Chromium) -> Iterator[Scene]:
    console = ConsoleHosting()
    try:
        yield Scene(console, furnished(console.hosting))
    finally:
        browser.close_pages()
        console.close()


def furnished(hosting: Hosting) -> str:
    """Sessions, questions, changes and reports. Returns the id of the agent."""
    place = Path(hosting.environment["HOME"], "garden")
    place.mkdir()
    (place / "calc.py").write_text(
        "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return add(a, a)\n"
    )
    (place / "check.py").write_text(
        "import sys\nfrom calc import add\n\nsys.exit(0 if add(1, 2) == 3 else '1 + 2 is not 3')\n"
    )
    (place / "README.md").write_text(
        "# Garden\n\nA **small** garden:\n\n- roses\n- hedges\n\n"
        "| bed | plants |\n|---|---:|\n| north | 12 |\n| south | 40 |\n"
    )
    for words in ("init -q", "add .", "-c user.name=A -c user.email=a@b commit -qm Begin"):
        subprocess.run(["git", *words.split()], cwd=place, check=True)
    colours = "for n in 1 2 3 4 5 6; do printf '\\033[3%dmtest_bed_%d\\033[0m passed\\n' $n $n; done; cat"
    hosting.run("start", "tests", "-d", "--cwd", str(place), "--", "sh", "-c", colours)
    hosting.run("start", "shell", "-d", "--cwd", str(place), "--", "sh")
    opened = hosting.ask("open_session", name="roses", cwd=str(place))["session_id"]
    hosting.ask("set_mode", mode="accept", session_id=opened)
    check = [*hosting.command, "verify", "roses", "--", "python3", "-B", "check.py"]
    hosting.run("start", "check", "-d", "--cwd", str(place), "--", *check)
    hosting.wait_text("check", "roses")
    text = "read README.md then write notes.txt: water the roses\nwhen sent back:\n"
    text += "edit calc.py: replace `a - b` with `a + b`"
    hosting.ask("prompt", message=text, session_id=opened)
    hosting.until(lambda: len(hosting.ask("verify_reports")["reports"]) >= 2)
    hosting.until(lambda: bool(hosting.ask("get_view", session_id=opened)["state"]["phase"] == "idle"))
    hedge = hosting.ask("open_session", name="hedge", cwd=str(place))["session_id"]
    hosting.ask("prompt", message="edit calc.py: replace `add(a, a)` with `2 * a`", session_id=hedge)
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    hosting.ask("prompt", message="run: python3 -m http.server --bind 0.0.0.0", session_id=opened)
    hosting.until(lambda: len(hosting.ask("approvals")["approvals"]) == 2)
    return str(opened)


def views(scene: Scene) -> dict[str, str]:
    return {
        "inbox": "#/inbox",
        "sessions": "#/sessions",
        "terminal": "#/s/tests",
        "agent": f"#/s/{scene.agent}/chat",
        "changes": f"#/s/{scene.agent}/changes",
        "timeline": f"#/s/{scene.agent}/timeline",
        "reports": "#/reports",
        "health": "#/health",
    }


READY = {
    "inbox": ".question",
    "sessions": ".card canvas",
    "terminal": ".xterm-rows",
    "agent": ".tool",
    "changes": ".file .line",
    "timeline": ".step",
    "reports": ".point",
    "health": ".checks",
}


def shown(page: Any, scene: Scene, view: str) -> None:
    go(page, views(scene)[view])
    page.locator(READY[view]).first.wait_for()
    if view == "terminal":
        wait_screen(page, "test_bed_6")
        page.get_by_text("You watch").wait_for()


SIDEWAYS = """() => [...document.querySelectorAll("main, main > *")]
    .filter((node) => node.scrollWidth > node.clientWidth).map((node) => node.className)"""
"""The views that have to be scrolled sideways."""
CUT_OFF = """() => [...document.querySelectorAll("main *")].filter((node) => {
    const { right, width } = node.getBoundingClientRect();
    if (!width || right <= innerWidth + 1) return false;
    for (let above = node; above && above.id !== "main"; above = above.parentElement)
        if (getComputedStyle(above).overflowX !== "visible" || above.closest("svg")) return false;
    return true;
}).map((node) => node.outerHTML.slice(0, 120))"""
"""What of a view can't be seen, nor be scrolled to."""


@pytest.mark.parametrize("view", READY)
@pytest.mark.parametrize("phone", [False, True], ids=["laptop", "phone"])
def test_a_view_has_no_serious_fault_for_who_cannot_see_and_fits(
    scene: Scene, browser: Chromium, view: str, phone: bool
) -> None:
    axe = Path(peers.npm("axe-core/axe.min.js")).read_text()
    for light in (False, True):
        page = browser.page(scene.console, phone=phone, light=light)
        shown(page, scene, view)
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [
            (each["id"], [node["html"][:200] for node in each["nodes"]][:5])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], "light" if light else "dark"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CUT_OFF) == []
        assert page.evaluate(SIDEWAYS) == []
        if os.environ.get("FAIRLEAD_IMAGES") and light == (view in ("changes", "reports")):
            path = IMAGES / f"web-{view}-{'phone' if phone else 'laptop'}.png"
            path.parent.mkdir(exist_ok=True)
            page.screenshot(path=str(path))
            assert path.stat().st_size < LARGEST_IMAGE
        page.context.close()


def test_the_first_view_is_small(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    shown(page, scene, "inbox")
    sizes = "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
    first = page.evaluate(f"{sizes}.reduce((sum, each) => sum + each.encodedBodySize, 0)")
    assert 0 < first < FIRST_VIEW
    shown(page, scene, "terminal")
    assert page.evaluate(f"{sizes}.reduce((sum, each) => sum + each.encodedBodySize, 0)") < FIRST_VIEW


def test_keys_lead_through_the_views(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    page.locator(".question").first.wait_for()
    for key, view in (("s", "sessions"), ("r", "reports"), ("h", "health"), ("i", "inbox")):
        page.keyboard.press(key)
        page.locator(READY[view]).first.wait_for()
    page.locator("body").press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip" or page.evaluate(
        "document.activeElement !== document.body"
    )
    page.locator(".question").first.focus()
    page.keyboard.press("Tab")
    reached = []
    for _ in range(8):
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        page.keyboard.press("Tab")
    assert {"Allow", "Always allow this", "Deny"} <= set(reached)


def test_nothing_foreign_runs(browser: Chromium) -> None:
    """Script in titles, names, Markdown, tool output, file names, terminal output, questions and reports."""
    console = ConsoleHosting()
    try:
        hosting = console.hosting
        place = Path(hosting.environment["HOME"], "mean")
        place.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=place, check=True)
        name = "<img src=x onerror=window.ran=1>.txt"
        (place / name).write_text("x\n")
        (place / "output.txt").write_text(f"{MEAN}\n[link](javascript:window.ran=2)\n")
        title = MEAN.format("title", "title")
        hosting.start("mean", f"printf '\\033]2;%s\\007%s\\n' {shlex.quote(title)} {shlex.quote(title)}; cat")
        hosting.wait_text("mean", "onerror")
        markdown = (
            '<script>window.ran=3</script> [link](javascript:window.ran=4) ![x](x"onerror=window.ran=5) '
            "`<b>` <img src=x onerror=window.ran=6>"
        )
        opened = hosting.ask("open_session", name="<img src=x onerror=window.ran=7>", cwd=str(place))[
            "session_id"
        ]
        hosting.ask("set_mode", mode="accept", session_id=opened)
        hosting.ask("prompt", message=f"write reply.md: {markdown}", session_id=opened)
        hosting.until((place / "reply.md").exists)
        hosting.until(lambda: bool(hosting.ask("get_view", session_id=opened)["state"]["phase"] == "idle"))
        hosting.ask("prompt", message=f"read output.txt then run: echo {title}\u202e", session_id=opened)
        hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
        page = browser.page(console)
        for view, text in (
            ("#/inbox", "onerror"),
            ("#/sessions", "onerror"),
            ("#/s/mean", "onerror"),
            (f"#/s/{opened}/chat", "window.ran=3"),
            (f"#/s/{opened}/changes", "onerror"),
            (f"#/s/{opened}/timeline", "onerror"),
            ("#/reports", "Reports"),
            ("#/health", "healthy"),
        ):
            go(page, view)
            page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=text)
            page.wait_for_timeout(200)
            assert page.evaluate("window.ran === undefined"), view
            assert page.locator("[onerror], main script, a[href^='javascript' i]").count() == 0, view
        go(page, "#/inbox")
        page.locator(".question").get_by_text("⟨U+202E⟩").first.wait_for()  # nothing turns what is read
    finally:
        browser.close_pages()
        console.close()


def test_a_press_on_what_has_moved_or_changed_answers_nothing(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    page.locator(".question").nth(1).wait_for()
    press = """async () => {
        const base = document.querySelector("script[type=module]").src;
        const { moved } = await import(new URL("question.js", base));
        moved();
        document.querySelector(".question .answer").click();
    }"""
    page.evaluate(press)
    page.get_by_text("The questions have just moved").wait_for()
    changed = """async () => {
        const base = document.querySelector("script[type=module]").src;
        const { board } = await import(new URL("board.js", base));
        const [question] = board.questions.values();
        return board.answer({ ...question, preview: "what was shown" }, { option: "allow" }).catch(String);
    }"""
    assert "changed meanwhile" in page.evaluate(changed)
    assert len(scene.console.hosting.ask("approvals")["approvals"]) == 2


def test_two_hundred_sessions_are_shown_and_only_what_is_in_view_is_drawn(
    scene: Scene, browser: Chromium
) -> None:
    page = browser.page(scene.console, None)
    row = scene.console.hosting.ask("session_find", name="shell")["session"]
    rows = [{**row, "id": f"s{number}", "name": f"s{number}"} for number in range(200)]
    answer = json.dumps({"ok": True, "data": {"sessions": rows, "questions": 0}})
    drawn: list[str] = []

    def away(route: Any) -> None:
        drawn.append(route.request.url)
        route.abort()

    page.route("**/api/ops/session_list", lambda route: fulfil(route, answer))
    page.route("**/api/ops/terminal_screen", away)
    browser.expected.append("ERR_FAILED")
    page.goto(scene.console.link())
    page.locator("#side a").nth(199).wait_for()
    go(page, "#/sessions")
    page.locator(".card").nth(199).wait_for()
    scene.console.hosting.until(lambda: page.evaluate("1") == 1 and len(drawn) >= 6)
    assert len(drawn) < 60
    page.get_by_label("Search sessions").fill("s199")
    page.locator(".card").nth(1).wait_for(state="detached")
    assert page.locator(".card h2").all_inner_texts() == ["s199"]
    page.context.close()


def fulfil(route: Any, body: str) -> None:
    route.fulfill(status=200, content_type="application/json", body=body)


def test_a_browser_of_another_machine_is_let_in_from_the_inbox(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console, None)
    waiting: list[dict[str, str]] = [{"code": "482173", "from": "192.0.2.7", "agent": "Phone"}]
    given: list[Any] = []

    def listed(route: Any) -> None:
        data = {"sessions": [], "shares": [], "waiting": waiting}
        fulfil(route, json.dumps({"ok": True, "data": data}))

    def confirmed(route: Any) -> None:
        given.append(route.request.post_data_json)
        waiting.clear()
        fulfil(route, json.dumps({"ok": True, "data": {}}))

    page.route("**/api/web/sessions", listed)
    page.route("**/api/web/confirm", confirmed)
    page.goto(scene.console.link())
    card = page.get_by_role("article", name="A browser wants to come in")
    card.get_by_text("482173").wait_for()
    card.get_by_role("button", name="Let it in").click()
    card.wait_for(state="detached")
    assert given == [{"code": "482173", "allowed": True}]
    page.context.close()


def test_a_terminal_is_recorded_and_the_recording_downloaded(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    go(page, "#/s/shell")
    page.get_by_text("You watch").wait_for()
    page.get_by_role("button", name="Record").click()
    page.get_by_role("button", name="Stop recording").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text().startswith("{")
    page.get_by_role("navigation", name="Parts of the session").get_by_role(
        "link", name="Recording"
    ).wait_for()
    page.get_by_role("button", name="Stop recording").click()
    page.get_by_role("button", name="Record").wait_for()


MARKDOWN = {
    "a **b** and *c* `<d>`": "<p>a <strong>b</strong> and <em>c</em> <code>&lt;d&gt;</code></p>",
    "# Title\n\ntext": "<h3>Title</h3><p>text</p>",
    "- a\n- b\n  - c\n\nend": "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><p>end</p>",
    "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
    "> a\n> b": "<blockquote><p>a\nb</p></blockquote>",
    "[x] snake_case_name 2*3*4": "<p>[x] snake_case_name 2*3*4</p>",
    "- [x] done\n- [ ] open": "<ul><li>☑ done</li><li>☐ open</li></ul>",
    "<script>x</script>": "<p>&lt;script&gt;x&lt;/script&gt;</p>",
    "[a](javascript:b)": "<p><span>a (<code>javascript:b</code>)</span></p>",
    "[a](src/a.py)": "<p><span>a (<code>src/a.py</code>)</span></p>",
    "https://a.example/b.": '<p><a href="https://a.example/b" target="_blank" '
    'rel="noopener noreferrer nofollow">https://a.example/b</a>.</p>',
    "~~a~~ \\*b\\*": "<p><del>a</del> *b*</p>",
    "---": "<hr>",
    "a\n```": '<p>a</p><figure class="code"><figcaption><span>text</span>'
    '<button class="quiet" type="button">Copy</button></figcaption>'
    '<pre tabindex="0"><code></code></pre></figure>',
    "|a|b|\n|-|-:|\n|1|2|": '<div class="table" tabindex="0"><table><thead><tr><th class="left">a</th>'
    '<th class="right">b</th></tr></thead><tbody><tr><td class="left">1</td><td class="right">2</td></tr>'
    "</tbody></table></div>",
}


def module(page: Any, name: str, call: str, argument: object) -> Any:
    """What a function of a module of the pages returns."""
    script = """async ([name, call, argument]) => {
        const base = document.querySelector("script[type=module]").src;
        const module = await import(new URL(name, base));
        const made = module[call](argument);
        return made instanceof Node ? made.innerHTML : made;
    }"""
    return page.evaluate(script, [name, call, argument])


def test_markdown_becomes_elements(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    found = {text: module(page, "markdown.js", "markdown", text) for text in MARKDOWN}
    assert found == MARKDOWN


def test_markdown_that_is_long_or_deep_takes_no_time_to_speak_of(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    many = ("*" * 50_000, "[" * 50_000, "`" * 9999 + "a", "> " * 5000 + "a", "**a " * 2400, "- " * 5000)
    for text in many:
        assert module(page, "markdown.js", "markdown", text)


def test_patches_are_read_with_their_names(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    patch = (
        'diff --git "a/\\303\\244 \\"b\\".txt" "b/\\303\\244 \\"b\\".txt"\n'
        "new file mode 100644\n--- /dev/null\n"
        '+++ "b/\\303\\244 \\"b\\".txt"\n@@ -0,0 +1 @@\n++++ not a name\n'
        "diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    files = module(page, "diff.js", "filesOf", patch)
    assert [(each["path"], each["added"], each["removed"]) for each in files] == [
        ('ä "b".txt', 1, 0),
        ("new name", 0, 0),
        ("gone", 0, 1),
    ]


def test_a_command_becomes_words(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    for command, words in {
        "claude": ["claude"],
        "python3 -c 'print(1); x'": ["python3", "-c", "print(1); x"],
        'say "a b" c\\ d': ["say", "a b", "c d"],
        "make test && ls": ["sh", "-c", "make test && ls"],
        "echo $HOME": ["sh", "-c", "echo $HOME"],
        "it's": ["sh", "-c", "it's"],
    }.items():
        assert module(page, "start.js", "argvOf", command) == words, command


def test_reports_say_how_projects_and_sessions_stand(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console, None, phone=True)
    waiting: list[Any] = []

    def held(route: Any) -> None:
        waiting.append(route)

    page.route("**/api/ops/session_list", held)  # names come later
    page.goto(scene.console.link())
    page.wait_for_url(re.compile(r"/(#.*)?$"))
    shown(page, scene, "reports")
    scene.console.hosting.until(lambda: page.evaluate("1") == 1 and bool(waiting))
    page.unroute("**/api/ops/session_list")  # which lets them go on
    page.locator("details.report").first.get_by_text("roses").wait_for()
    standing = page.get_by_role("list", name="How projects stand")
    standing.get_by_text("VERIFIED").wait_for()
    standing.get_by_text("1 earlier report").wait_for()
    standing.get_by_role("button", name="roses").click()
    chosen = page.get_by_label("Whose reports")
    assert chosen.input_value() == f"s{scene.agent}"
    standing.get_by_role("button", name="~/garden").click()
    assert chosen.input_value().endswith("/garden")
    assert page.locator("details.report").count() == 2
    page.context.close()


def test_a_card_says_what_an_agent_has_used(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    go(page, "#/sessions")
    row = scene.console.hosting.ask("session_find", session_id=scene.agent)["session"]
    used = page.get_by_role("article", name="roses").locator(".usage")
    used.wait_for()
    assert "% of context" in used.inner_text()
    assert f"{row['tokens']} tokens" in str(used.get_attribute("title"))
    assert page.get_by_role("article", name="shell").locator(".usage").count() == 0


def test_colours_follow_the_system_until_a_person_chooses(scene: Scene, browser: Chromium) -> None:
    page = browser.page(scene.console)
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.emulate_media(color_scheme="light")
    page.wait_for_function("(before) => getComputedStyle(document.body).backgroundColor !== before", arg=dark)
    light = page.evaluate(paper)
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(paper) == dark
    page.reload()
    page.locator(".question").first.wait_for()
    assert page.evaluate(paper) == dark
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(paper) == light


def test_the_manifest_makes_it_an_application(scene: Scene, browser: Chromium) -> None:
    answer = scene.console.browser().ask("GET", "/manifest.webmanifest")
    manifest = json.loads(answer.body)
    assert manifest["display"] == "standalone"
    for icon in manifest["icons"]:
        assert scene.console.browser().ask("GET", icon["src"]).status == 200, icon
