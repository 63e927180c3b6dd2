"""Event streams: what happens, cursors, questions, shares."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.web import hub
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting


def until(events: Iterator[dict[str, Any]], topic: str, **holds: Any) -> dict[str, Any]:
    """The next event of a topic with these values."""
    for event in events:
        data = event["data"]
        if data.get("topic") == topic and holds.items() <= data["data"].items():
            return event
    raise AssertionError(f"the stream ended before {topic}")


def ask_person(console: ConsoleHosting, token: str, text: str) -> threading.Thread:
    """A question of an agent, which waits for its answer in a thread."""

    def run() -> None:
        with DaemonConnection(Settings(console.hosting.environment), start=False) as control:
            answer = control.ask(
                "ask_person", token=token, text=text, project="/tmp", options=["red", "blue"]
            )
            assert (answer["text"], answer["by"]) == ("blue", "web console")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_what_happens_is_told_and_can_be_asked_for_again(console: ConsoleHosting, browser: Browser) -> None:
    with browser.events() as events:
        hello = next(events)
        assert hello["event"] == "hello"
        console.hosting.start("told", "cat")
        event = until(events, "terminal/started", name="told")
        until(events, "sessions/created", session_id="told")
    console.hosting.run("stop", "told")
    with browser.events(f"?since={event['id']}") as events:
        next(events)
        assert until(events, "sessions/created", session_id="told")
        until(events, "terminal/exited", name="told")
    with browser.events(Last_Event_ID=event["id"]) as events:
        next(events)
        until(events, "sessions/created", session_id="told")


def test_an_unknown_cursor_is_a_reset(browser: Browser) -> None:
    for cursor in ("nonsense", "00000000-7", "-", "99999999999999999999999"):
        with browser.events(f"?since={cursor}") as events:
            assert [next(events)["event"], next(events)["event"]] == ["hello", "reset"], cursor


def test_questions_are_told_when_they_are_asked_and_answered(
    console: ConsoleHosting, browser: Browser
) -> None:
    with browser.events() as events:
        next(events)
        asking = ask_person(console, "abcdef0123", "Which colour?")
        question = until(events, "questions/opened", session_id=None)["data"]["data"]["question"]
        assert question["token"] == "abcdef0123"
        assert question["labels"][:2] == ["red", "blue"]
        answered = browser.op(
            "approval_settle", token="abcdef0123", allowed=True, option="answer", text="blue"
        )
        assert answered.status == 200, answered
        until(events, "questions/answered", token="abcdef0123")
    asking.join()
    again = browser.op("approval_settle", token="abcdef0123", allowed=True, option="answer", text="red")
    assert again.status in (404, 409)


def test_a_question_of_no_session_is_told_without_waiting_for_the_next_look(
    console: ConsoleHosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LOOK_EVERY", 3600.0)

    async def run() -> None:
        told: asyncio.Queue[hub.NumberedEvent] = asyncio.Queue()
        own = hub.Hub(Settings(console.hosting.environment))
        own.listen(told.put_nowait)
        following = asyncio.ensure_future(own.run())

        async def until(topic: str) -> dict[str, Any]:
            async with asyncio.timeout(WAIT):
                while (event := await told.get()).topic != topic:
                    pass
            return event.data

        await until("web/back")
        await own.look_at_questions()  # what waits from the beginning
        asking = ask_person(console, "abcdef0456", "Which colour?")
        assert (await until("questions/opened"))["question"]["token"] == "abcdef0456"
        await own.ask("approval_settle", token="abcdef0456", allowed=True, option="answer", text="blue")
        assert (await until("questions/answered"))["token"] == "abcdef0456"
        await asyncio.to_thread(asking.join)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await own.close()

    asyncio.run(run())


def test_the_daemon_going_and_coming_is_told(console: ConsoleHosting, browser: Browser) -> None:
    with browser.events() as events:
        next(events)
        console.hosting.kill_daemon()
        until(events, "web/away")
        until(events, "web/back")


def test_an_agents_own_stream_has_its_turn_and_what_was_missed(
    console: ConsoleHosting, browser: Browser
) -> None:
    made = browser.op("open_session", name="garden", cwd=console.hosting.environment["HOME"]).data
    id = made["session_id"]
    with browser.events(f"?session={id}") as events:
        assert next(events)["event"] == "hello"
        until(events, "session/updated", session_id=id)
        assert browser.op("prompt", session_id=id, message="hello").status == 200
        began = until(events, "session/turn-began", session_id=id)
        until(events, "assistant/message", session_id=id)
        until(events, "session/turn-ended", session_id=id)
    assert began["id"] == began["data"]["data"]["cursor"]  # its own, and not that of a later one
    with browser.events(f"?session={id}&since={began['id']}") as events:
        until(events, "session/turn-ended", session_id=id)


def test_a_share_hears_of_its_session_only(console: ConsoleHosting) -> None:
    console.hosting.start("shared", "cat")
    guest, _ = console.share("shared", "watcher")
    with guest.events() as events:
        next(events)
        console.hosting.start("other", "cat")
        console.hosting.run("stop", "other")
        console.hosting.run("stop", "shared")
        for event in events:
            data = event["data"]["data"]
            assert "other" not in (data.get("session_id"), data.get("name")), event
            if event["data"]["topic"] == "terminal/exited":
                break
    console.hosting.run("web", "--revoke", "all")


def test_queries_that_make_no_sense_are_refused(browser: Browser) -> None:
    assert browser.ask("GET", f"/api/events?{'a=1&' * 50}").status == 400
    assert browser.ask("GET", f"/api/events?since={'x' * 1000}").status == 400
    with browser.events("?session=absent") as events:
        assert next(events)["event"] == "hello"
        refused = next(events)
        assert (refused["event"], refused["data"]["code"]) == ("refused", "request/not-found")
        assert list(events) == []
