"""The web console with sessions of another host: shown, typed into and answered there; but not for shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests.hosting import WAIT
from tests.hosts.far_host import FarHost, NearHost
from tests.hosts.test_links import host_of, question, rows_of, tokens_of
from tests.web.browser import Browser, ConsoleHosting


@pytest.fixture(scope="module")
def of_all(near: NearHost) -> Iterator[ConsoleHosting]:
    near.until(lambda: host_of(near).get("state") == "here")
    console = ConsoleHosting(hosting=near)
    yield console
    near.run("web", "--stop")


@pytest.fixture
def page(of_all: ConsoleHosting) -> Browser:
    return of_all.browser()


def listed(page: Browser) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in page.op("session_list", hosts=True).data["sessions"]}


def test_a_terminal_of_another_host_is_shown_and_typed_into(
    near: NearHost, far: FarHost, page: Browser
) -> None:
    far.start("a:b", "stty -echo; echo hello from afar; while read line; do echo got-$line; done")
    near.until(lambda: "workbox:a:b" in listed(page))
    assert listed(page)["workbox:a:b"]["host"] == "workbox"
    with page.terminal("workbox:a:b") as shown:
        shown.until_shown("hello from afar")
        shown.say(t="take-pen")
        shown.until("pen", mine=True)
        shown.type("here\r")
        shown.until_shown("got-here")
    assert "hello" in str(page.op("terminal_screen", name="workbox:a:b").data["screen"])
    assert page.op("session_stop", session_id="workbox:a:b").status == 200
    far.until(lambda: "a:b" not in far.sessions())


def test_an_agent_of_another_host_is_prompted_and_followed(
    near: NearHost, far: FarHost, page: Browser
) -> None:
    id = far.ask("open_session", name="rose", cwd=far.environment["HOME"])["session_id"]
    near.until(lambda: f"workbox:{id}" in listed(page))
    with page.live() as live:
        assert live.follow(1, f"workbox:{id}")["event"] == "hello"
        live.until(1, "session/updated", session_id=id)  # how it is, once the host is reached
        live.follow(2)
        assert page.op("prompt", session_id=f"workbox:{id}", message="hello").status == 200
        live.until(1, "session/turn-ended", session_id=id)
        assert page.op("get_view", session_id=f"workbox:{id}").status == 200
        far.start("seen", "exec cat")
        live.until(2, "hosts/changed", host="workbox")
    far.run("stop", "seen")


def test_a_question_of_another_host_is_answered_in_the_console(
    near: NearHost, far: FarHost, page: Browser
) -> None:
    with question(far, "dddd4444") as asking:
        near.until(lambda: tokens_of(near) == ["workbox:dddd4444"])
        [row] = page.op("approvals", hosts=True).data["approvals"]
        given = {"token": row["token"], "allowed": True, "option": "answer", "text": "blue"}
        assert page.op("approval_settle", **given).status == 200
        answer = asking.result(WAIT)
    assert (answer["text"], answer["by"].partition(": ")[2]) == ("blue", "web console")


def test_a_share_leads_to_no_other_host_however_its_session_is_called(
    near: NearHost, far: FarHost, of_all: ConsoleHosting
) -> None:
    far.start("mine", "echo a secret of afar; exec cat")
    near.until(lambda: "workbox:mine" in rows_of(near))
    with DaemonConnection(Settings(near.environment)) as plain:
        argv = ["sh", "-c", "echo this is here; exec cat"]
        plain.ask("terminal_start", name="workbox:mine", argv=argv)
    guest = Browser(of_all.base)
    owner = of_all.browser()
    made = owner.ask("POST", "/api/web/share", {"name": "workbox:mine", "role": "writer", "seconds": 600})
    assert guest.come_in(made.data["link"]).status == 200
    row = guest.op("session_find", name="workbox:mine").data["session"]
    assert "host" not in row
    assert guest.op("session_list", hosts=True).status == 403
    assert "this is here" in str(guest.op("terminal_screen", name="workbox:mine").data["screen"])
    with guest.terminal("workbox:mine") as shown:
        shown.until_shown("this is here")
        assert b"secret" not in shown.output
    with owner.terminal("local:workbox:mine") as shown:
        shown.until_shown("this is here")
    with guest.live() as live:
        live.follow(1)
        far.run("send", "mine", "x", "-k", "Enter")
        far.run("stop", "mine")
        near.until(lambda: "workbox:mine" not in rows_of(near))
        near.ask("terminal_stop", name="workbox:mine")
        while (event := live.take())["data"].get("topic") != "sessions/exited":
            assert "host" not in (event["data"].get("data") or {})
        assert event["data"]["data"]["session_id"] == "workbox:mine"
        assert "host" not in event["data"]["data"]


def test_a_terminal_of_a_host_that_was_away_is_shown_again(
    near: NearHost, far: FarHost, page: Browser
) -> None:
    far.start("stays", "echo before; exec cat")
    near.until(lambda: "workbox:stays" in listed(page))
    with page.terminal("workbox:stays") as shown:
        shown.until_shown("before")
        far.stop_sshd()
        near.forget_connections()
        try:
            shown.until("away")
            near.until(lambda: host_of(near)["state"] == "away")
            far.run("send", "stays", "meanwhile", "-k", "Enter")
        finally:
            far.start_sshd()
        near.ask("host_check", name="workbox")
        shown.until("back")
        shown.until_shown("meanwhile")
    far.run("stop", "stays")
