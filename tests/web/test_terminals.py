"""Terminals over WebSocket: output, size, the pen, flow control, and coming back."""

from __future__ import annotations

import time

import pytest
from websockets.exceptions import ConnectionClosed

from fairlead.web import limits
from fairlead.web.terminals import page_name
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting


def test_what_is_typed_with_the_pen_is_shown(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("typed", "stty -echo; echo ready; while read line; do echo got-$line; done")
    with browser.terminal("typed") as shown:
        assert shown.take() == {"t": "size", "cols": 80, "rows": 24}
        assert shown.take() == {"t": "pen", "mine": False, "by": None, "may": True}
        shown.until_shown("ready")
        shown.type("early\r")
        assert shown.until("error")["code"] == "web/no-pen"
        shown.say(t="take-pen")
        shown.until("pen", mine=True)
        shown.type("late\r")
        shown.until_shown("got-late")
        assert b"got-early" not in shown.output
    console.hosting.run("stop", "typed")


def test_the_pen_goes_to_the_last_who_takes_it(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("pen", "cat")
    with browser.terminal("pen") as one, browser.terminal("pen") as two:
        one.say(t="take-pen", cols=90, rows=30)
        one.until("pen", mine=True)
        two.until("size", cols=90, rows=30)
        two.say(t="take-pen")
        two.until("pen", mine=True)
        lost = one.until("pen", mine=False)
        assert lost["by"] == "a page" == writer_of(console, "pen")
        one.type("x")
        assert one.until("error")["code"] == "web/no-pen"
        two.say(t="resize", cols=100, rows=31)
        one.until("size", cols=100, rows=31)
        two.say(t="drop-pen")
        two.until("pen", mine=False)
        console.hosting.until(lambda: writer_of(console, "pen") is None)
    console.hosting.run("stop", "pen")


def writer_of(console: ConsoleHosting, id: str) -> object:
    return console.hosting.ask("session_find", session_id=id)["session"].get("writer")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/141.0 Safari/537.36", "Chrome on Linux"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Linux; Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/141.0 Safari/537.36 Edg/141.0", "Edge on Windows"),
    ],
)
def test_a_page_that_writes_is_called_by_its_browser(label: str, name: str) -> None:
    assert page_name(label) == f"a page in {name}"
    assert (page_name("curl/8"), page_name("")) == ("a page", "a page")


def test_a_page_that_lags_gets_a_redraw_and_no_backlog(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("flood", "read go; seq 1 3000000; echo the-end; cat")
    with browser.terminal("flood") as shown:
        shown.until("redraw")
        shown.acks = False
        console.hosting.run("send", "flood", "-k", "Enter")
        while shown.comes_within(2.0):
            pass
        unacked = len(shown.output)
        assert unacked < 1024 * 1024  # the window, and what was read last
        console.hosting.wait_text("flood", "the-end")  # the program was not held up
        shown.acks = True
        shown.say(t="ack", bytes=unacked)
        shown.until_shown("the-end")
        assert len(shown.output) < 8 * 1024 * 1024  # of 23 MB
        assert b"\x18\x1bc" in shown.output[unacked:]  # a redraw, as it begins
    console.hosting.run("stop", "flood")


def test_a_terminal_stays_open_longer_than_a_request_may_take(
    console: ConsoleHosting, browser: Browser
) -> None:
    console.hosting.start("stays", "stty -echo; cat")
    with browser.terminal("stays") as shown:
        shown.say(t="take-pen")
        shown.until("pen", mine=True)
        while shown.comes_within(limits.HEADER_SECONDS + 1):
            pass
        shown.type("still\r")
        shown.until_shown("still")
    console.hosting.run("stop", "stays")


def test_an_end_is_told(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("ends", "read go; exit 3")
    with browser.terminal("ends") as shown:
        shown.until("redraw")
        console.hosting.run("send", "ends", "-k", "Enter")
        assert shown.until("ended") == {"t": "ended", "code": 3}
        with pytest.raises(ConnectionClosed) as closed:
            shown.take()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000
    with browser.terminal("ends") as again:  # what it showed last can still be looked at
        assert again.until("ended")["code"] == 3


def test_a_session_that_is_not_there_is_said(browser: Browser) -> None:
    with browser.terminal("absent") as shown:
        assert shown.until("error")["code"] == "request/not-found"
        with pytest.raises(ConnectionClosed) as closed:
            shown.take()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404


def test_the_daemon_dies_and_the_page_comes_back_to_the_same_screen(
    console: ConsoleHosting, browser: Browser
) -> None:
    console.hosting.start("back", "echo first; cat")
    with browser.terminal("back") as shown:
        shown.say(t="take-pen")
        shown.until("pen", mine=True)
        shown.until_shown("first")
        console.hosting.kill_daemon()
        shown.until("away")
        shown.output = b""
        shown.until("back")
        shown.until("pen", mine=True)
        shown.until_shown("first")
        shown.type("second\r")
        shown.until_shown("second")
    console.hosting.run("stop", "back")


@pytest.mark.parametrize(
    "message", ['{"t":"ack","bytes":99999999}', '{"t":"resize","cols":0,"rows":1}', "[]", "{", '{"t":"x"}']
)
def test_messages_that_make_no_sense_end_the_connection(
    console: ConsoleHosting, browser: Browser, message: str
) -> None:
    if "nonsense" not in console.hosting.sessions():
        console.hosting.start("nonsense", "cat")
    with browser.terminal("nonsense") as shown:
        shown.until("redraw")
        shown.connection.send(message)
        assert shown.until("error")["code"] == "web/protocol"
        with pytest.raises(ConnectionClosed):
            shown.until("nothing more")


def test_a_flood_in_one_terminal_holds_nobody_up(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("noise", "yes")
    console.hosting.start("calm", "cat")
    with browser.terminal("noise") as noise, browser.terminal("calm") as calm:
        noise.acks = False
        calm.say(t="take-pen")
        calm.until("pen", mine=True)
        began = time.monotonic()
        calm.type("z")
        calm.until_shown("z")
        assert time.monotonic() - began < WAIT / 2
    console.hosting.run("stop", "noise", "calm")


def test_the_pen_changes_in_the_middle_of_a_flood(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("busy", "while :; do seq 1 2000; done")
    with browser.terminal("busy") as shown:
        for _ in range(3):
            shown.say(t="take-pen")
            shown.until("pen", mine=True)
            shown.say(t="drop-pen")
            shown.until("pen", mine=False)
            shown.until("redraw")
            shown.output = b""
            shown.until_shown("\r\n")
        assert not any(each["t"] == "away" for each in shown.told)
    console.hosting.run("stop", "busy")
    assert "Traceback" not in console.log()


def test_a_page_keeps_its_scrollback_when_the_size_changes(console: ConsoleHosting, browser: Browser) -> None:
    """A redraw begins with a reset, which empties the scrollback of a page's terminal."""
    console.hosting.start("rolled", "stty -echo; seq -f L%g 1 2000; echo ready; cat")
    console.hosting.wait_text("rolled", "ready")
    with browser.terminal("rolled") as one, browser.terminal("rolled") as two:
        for page in (one, two):
            page.until("redraw")
            page.until_shown("ready")
        one.say(t="take-pen", cols=80, rows=24)
        one.until("pen", mine=True)
        one.until_shown("ready")
        for cols, rows in ((80, 20), (80, 30), (100, 25), (60, 25)):
            before = len(one.output), len(two.output)
            one.say(t="resize", cols=cols, rows=rows)
            for page, start in zip((one, two), before):
                page.until("size", cols=cols, rows=rows)
                while b"\x1bc" not in page.output[start:] or b"ready" not in page.output[start:]:
                    page.take()
                drawn = page.output[page.output.rindex(b"\x1bc") :]
                assert b"L1\r" in drawn, (cols, rows, drawn[:200])
                assert b"L1000\r" in drawn, (cols, rows, drawn[:200])
    console.hosting.run("stop", "rolled")
