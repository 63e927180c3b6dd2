"""The console's process: links, cookies, ops, pages, and that it survives the daemon."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.hosting import WAIT, Hosting
from tests.web.browser import Browser, ConsoleHosting


def test_a_link_lets_a_browser_in_and_says_who_it_is(console: ConsoleHosting) -> None:
    browser = Browser(console.base)
    assert browser.ask("GET", "/api/me").status == 401
    answer = browser.come_in(console.link())
    assert (answer.status, answer.data) == (200, {"to": "/"})
    me = browser.ask("GET", "/api/me").data
    assert me["role"] == "owner"
    assert me["share"] is None
    assert me["daemon"] == "here"
    assert me["home"] == console.hosting.environment["HOME"]


def test_ops_over_http_are_those_of_rpc(console: ConsoleHosting, browser: Browser) -> None:
    argv = ["sh", "-c", "echo hello; cat"]
    started = browser.op("terminal_start", name="ops", argv=argv, cwd="/tmp")
    assert started.data["name"] == "ops"
    console.hosting.wait_text("ops", "hello")
    assert "hello" in browser.op("terminal_screen", name="ops").data["screen"]
    rows = browser.op("session_list").data["sessions"]
    assert rows == json.loads(console.hosting.run("ls", "--json").stdout) or rows[0]["name"] == "ops"
    assert browser.op("session_find", **{"session-id": "ops"}).data["session"]["kind"] == "terminal"
    assert browser.op("terminal_stop", name="ops").data["exit_code"] > 0


def test_errors_have_a_code_a_sentence_and_a_status(browser: Browser) -> None:
    absent = browser.op("terminal_screen", name="absent")
    assert (absent.status, absent.code) == (404, "request/not-found")
    assert "absent" in absent.json["error"]["message"]
    bad = browser.op("terminal_screen", name="x", format="jpeg")
    assert (bad.status, bad.code) == (400, "request/invalid-params")
    more = browser.op("session_list", colour="red")
    assert (more.status, more.code) == (400, "request/invalid-params")
    assert browser.op("no_such_op").status == 404
    assert browser.ask("POST", "/api/ops/session_list", b"[1]").status == 400
    assert browser.ask("POST", "/api/ops/session_list", b"{").status == 400
    assert browser.ask("POST", "/api/ops/session_list", b"x=1", Content_Type="text/plain").status == 415
    assert browser.ask("GET", "/api/ops/session_list").status == 405
    assert browser.ask("GET", "/nothing").status == 404


def test_ops_of_connections_and_of_the_daemon_are_not_over_http(browser: Browser) -> None:
    for op in ("daemon_stop", "daemon_restart", "lend_key", "subscribe", "terminal_permission", "caller"):
        assert browser.op(op).status == 404, op


def test_pages_are_kept_by_their_version(console: ConsoleHosting) -> None:
    browser = Browser(console.base)
    page = browser.ask("GET", "/")
    assert page.status == 200
    assert page.headers["cache-control"] == "no-cache"
    assert "{{static}}" not in page.body.decode()
    script = re.findall(r'src="(/static/[0-9a-f]{16}/\S+?)"', page.body.decode())[0]
    found = browser.ask("GET", script)
    assert "immutable" in found.headers["cache-control"]
    assert found.headers["content-type"].startswith("text/javascript")
    packed = browser.ask("GET", script, Accept_Encoding="gzip")
    assert gzip.decompress(packed.body) == found.body
    again = browser.ask("GET", "/", If_None_Match=page.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    for path in ("/in", "/sw.js", "/manifest.webmanifest"):
        assert browser.ask("GET", path).status == 200, path


def test_the_console_survives_the_daemon(console: ConsoleHosting, browser: Browser) -> None:
    hosting = console.hosting
    hosting.start("lasting", "echo here; cat")
    hosting.wait_text("lasting", "here")
    hosting.kill_daemon()
    hosting.until(lambda: browser.op("terminal_screen", name="lasting").status == 200)
    assert "here" in browser.op("terminal_screen", name="lasting").data["screen"]
    hosting.run("stop", "lasting")


def test_a_stopped_daemon_is_said_and_not_started() -> None:
    console = ConsoleHosting()
    try:
        browser = console.browser()
        console.hosting.start("left", "echo still-here; cat")
        with browser.terminal("left") as shown, browser.events() as events:
            shown.until_shown("still-here")
            console.hosting.run("daemon", "stop")
            console.hosting.until(lambda: browser.ask("GET", "/api/me").data["daemon"] == "away")
            shown.until("away")
            answer = browser.op("session_list")
            assert (answer.status, answer.code) == (503, "web/away")
            assert console.hosting.run("daemon", "status", check=False).returncode == 1
            assert console.hosting.log().count("serving") == 1
            assert any(each["data"].get("topic") == "web/away" for each in events)
            console.hosting.run("ls")
            console.hosting.until(lambda: browser.ask("GET", "/api/me").data["daemon"] == "here")
            shown.output = b""
            shown.until("back")
            shown.until_shown("still-here")
    finally:
        console.close()


def test_cookies_survive_a_restart_of_the_console() -> None:
    console = ConsoleHosting()
    try:
        browser = console.browser()
        console.hosting.run("web", "--stop")
        console.hosting.run("web", "--no-open")
        assert console.status()["base"] == browser.base  # the same port
        assert browser.ask("GET", "/api/me").status == 200
    finally:
        console.close()


def test_leaving_ends_the_cookie(console: ConsoleHosting) -> None:
    browser = console.browser()
    left = browser.ask("POST", "/api/leave", {})
    assert left.status == 200
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert browser.ask("GET", "/api/me").status == 401


def test_the_command_lists_and_revokes(console: ConsoleHosting) -> None:
    browser = console.browser()
    found = json.loads(console.hosting.run("web", "--sessions", "--json").stdout)
    mine = found["sessions"][-1]
    assert mine["role"] == "owner"
    assert mine["id"] in console.hosting.run("web", "--sessions").stdout
    console.hosting.run("web", "--revoke", mine["id"])
    assert browser.ask("GET", "/api/me").status == 401
    gone = console.hosting.run("web", "--revoke", mine["id"], check=False)
    assert gone.returncode == 1
    assert mine["id"] in gone.stderr


def test_without_a_console_commands_say_so() -> None:
    hosting = Hosting()
    try:
        for words in (("web", "--sessions"), ("web", "--stop"), ("token", "ls")):
            done = hosting.run(*words, check=False)
            assert (done.returncode, "no console is running" in done.stderr) == (1, True), words
    finally:
        hosting.close()


def test_files_are_only_for_their_user(console: ConsoleHosting) -> None:
    directory = console.hosting.directory
    for path in ("run/fairlead/web.sock", "home/.local/state/fairlead/web.json"):
        assert os.stat(directory / path).st_mode & 0o777 == 0o600, path


def test_an_unusable_address_is_refused_in_one_sentence() -> None:
    hosting = Hosting()
    try:
        for words, said in (
            (("--listen", "here"), "HOST:PORT"),
            (("--listen", "127.0.0.1:1"), "can't listen"),
            (("--listen", "0.0.0.0:0"), "TLS"),
            (("--cert", "/nowhere"), "--key"),
            (("--origin", "laptop"), "--origin"),
        ):
            if said == "can't listen" and os.getuid() == 0:
                continue
            done = hosting.run("web", "--no-open", *words, check=False)
            assert done.returncode == 1, done
            assert said in done.stderr, done
            assert len(done.stderr.splitlines()) == 1, done
    finally:
        hosting.close()


def test_the_demo_shows_a_link_a_terminal_and_a_share() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / "demo" / "web.py"],
        capture_output=True,
        text=True,
        timeout=WAIT * 2,
        check=False,
    )
    assert done.returncode == 0, done
    assert "the role watcher does not allow terminal_send" in done.stdout
    assert "nobody is logged in here" in done.stdout


def test_the_commands_socket_comes_back_when_somebody_deleted_it(console: ConsoleHosting) -> None:
    os.unlink(console.hosting.directory / "run/fairlead/web.sock")
    console.hosting.until(lambda: console.hosting.run("web", "--sessions", check=False).returncode == 0)
