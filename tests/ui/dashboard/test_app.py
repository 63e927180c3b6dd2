"""What a person does in the dashboard, with a daemon: each key, and what the screen shows then."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from textual.events import Key

from fairlead.events import host_event
from fairlead.ui.dashboard.link import EventNews, ListNews
from tests.hosting import Hosting
from tests.ui.dashboard.driving import driven, run
from tests.ui.dashboard.rows import row

READ = 0.6
"""Seconds for which a person looks at a question; a key that comes sooner answers nothing."""


def asking(hosting: Hosting, name: str, cwd: Path, what: str = "run: touch made") -> str:
    """An agent session that asks for consent. Returns its id."""
    id: str = hosting.ask("open_session", name=name, cwd=str(cwd))["session_id"]
    hosting.ask("prompt", session_id=id, message=what)
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    return id


def test_sessions_are_listed_and_one_that_is_started_appears(lent: Hosting, tmp_path: Path) -> None:
    lent.start("work", "echo hello from work; exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("fairlead  1 session", "work", "hello from work")
            lent.start("more", "printf 'delete it? (y/n) '; read x; exec sleep 1000")
            await seen.until("2 sessions", "more", "1 needs you", "delete it? (y/n)")
            lent.ask("terminal_send", name="more", text="yes", keys=["Enter"])
            await seen.until("more", but=("needs you",))
            lent.run("stop", "more")
            await seen.until("1 session", but=("more",))

    run(scenario)


def test_a_question_is_answered_after_all_of_it_was_shown(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("garden", "1 needs you", "y shows all of it")
            await seen.press("y")
            await seen.until("$ touch made", "it runs a command", "y  allow it", "n  deny it")
            await seen.answer("y")
            await seen.until("allowed: $ touch made", but=("needs you",))
        assert (tmp_path / "made").exists()

    run(scenario)


def test_many_keys_at_once_answer_nothing(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 needs you")
            await seen.press("y")
            await seen.until("y  allow it")
            await seen.press(*"yyyyyyyyyyyyyyyyyyyyyy")
            await seen.press("escape")
            await seen.until("1 needs you")
        assert lent.ask("approvals")["approvals"]
        assert not (tmp_path / "made").exists()

    run(scenario)


def test_a_question_that_somebody_else_answers_is_over(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 needs you")
            await seen.press("y")
            await seen.until("y  allow it")
            lent.run("approvals", "deny", "garden")
            await seen.until("it is not open any more", but=("y  allow it",))
            await seen.press("y")
            await seen.press("escape")
            await seen.until("1 session", but=("needs you",))

    run(scenario)


def test_a_prompt_is_sent_and_its_end_is_said(lent: Hosting, tmp_path: Path) -> None:
    lent.ask("open_session", name="garden", cwd=str(tmp_path))

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("garden")
            await seen.press("p")
            await seen.until("Prompt to garden")
            await seen.type("list")
            await seen.press("enter")
            await seen.until("garden: done", "> list")
            await seen.press("l")
            await seen.until("a prompt ended: done")
            await seen.press("q")
            await seen.until("1 session")

    run(scenario)


def test_a_session_is_started_and_stopped(lent: Hosting, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("no sessions; n starts one")
            await seen.press("n")
            await seen.until("Start a session", "terminal", "agent")
            await seen.press("enter")
            await seen.until("a name is missing")
            await seen.type("work")
            await seen.press("tab", "tab")
            await seen.type("sleep 1000")
            await seen.press("enter")
            await seen.until("work started", "sleep 1000")
            await seen.press("x")
            await seen.until("Stop work?", "sleep 1000", "ends its program")
            await seen.answer("y")
            await seen.until("work ended with", "no sessions")

    run(scenario)


def test_what_could_not_be_started_is_in_the_form_again(lent: Hosting, tmp_path: Path) -> None:
    lent.start("roses", "exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("roses")
            await seen.press("n")
            await seen.until("Start a session")
            await seen.type("roses")
            await seen.press("tab", "tab")
            await seen.type("sleep 4242")
            await seen.press("enter")
            await seen.until("Start a session", "already running", "roses", "sleep 4242")
            await seen.press("escape")
            await seen.until("q quit", but=("Start a session",))
            await seen.press("n")
            await seen.until("Start a session", "sleep 4242")
            await seen.press("escape")
            await seen.until("q quit", but=("Start a session",))
            await seen.press("l")
            await seen.until("not started: ", "already running")

    run(scenario)


def test_a_filter_is_typed_and_escape_shows_all(lent: Hosting) -> None:
    lent.start("roses", "exec sleep 1000")
    lent.start("hedge", "exec sleep 1001")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("2 sessions", "roses", "hedge")
            await seen.press("slash")
            await seen.type("hed")
            await seen.until("1 shown", "hedge", but=("roses",))
            await seen.press("enter", "question_mark")
            await seen.until("Keys", "Nothing is answered by accident")
            await seen.press("q")
            await seen.press("escape")
            await seen.until("roses", "hedge", but=("shown",))

    run(scenario)


def test_without_a_terminal_the_list_is_printed_and_what_to_type_next(lent: Hosting) -> None:
    lent.start("work", "exec sleep 1000")
    done = lent.run()
    assert "work" in done.stdout
    assert "`fairlead attach NAME` attaches" in done.stderr
    assert lent.run("top").stdout.split()[:1] == ["NAME"]


def test_the_daemon_may_be_killed(lent: Hosting) -> None:
    lent.start("work", "echo still here; exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("still here")
            lent.kill_daemon()
            await seen.until("reconnected: the daemon restarted")
            lent.start("more", "exec sleep 1000")
            await seen.until("2 sessions", "more")

    run(scenario)


def test_what_happened_in_a_session_can_be_looked_at(lent: Hosting, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    id = asking(lent, "garden", tmp_path, "write gate.html: open")
    [waiting] = lent.ask("approvals")["approvals"]
    lent.ask("approval_settle", token=waiting["token"], allowed=True)
    lent.until(lambda: lent.ask("get_state", session_id=id)["state"]["phase"] == "idle")
    lent.run("verify", "garden", "--once", "--", "test", "-d", ".")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("garden", "verified")
            await seen.press("t")
            await seen.until("#1 write gate.html: open", "1 turn", "allowed by a program")
            await seen.press("q", "d")
            await seen.until("1 file changed, +1 -0", "gate.html", "+open")
            await seen.press("escape")
            await seen.until("1 session")
            await seen.press("r")
            await seen.until("Confidence of garden", "VERIFIED ┤", "turn 1")
            await seen.press("ctrl+c")
            await seen.until("1 session")

    run(scenario)


def test_a_long_question_is_scrolled_through_before_it_is_answered(lent: Hosting, tmp_path: Path) -> None:
    lines = "; ".join(f"echo line {number}" for number in range(200))
    asking(lent, "garden", tmp_path, f"run: {lines}; touch made")

    async def scenario() -> None:
        async with driven((60, 20)) as seen:
            await seen.until("1 needs you")
            await seen.press("y")
            await seen.until("more lines below", "y  allow it")
            await asyncio.sleep(READ)
            await seen.press("y")
            await seen.until("read all of it first")
            await seen.press("end")
            await asyncio.sleep(READ)
            await seen.press("y")
            await seen.until("read")
            await seen.answer("n")
            await seen.until("denied: $ echo line 0", but=("needs you",))
        assert not (tmp_path / "made").exists()

    run(scenario)


def test_the_mouse_selects_and_the_wheel_moves(lent: Hosting) -> None:
    for name in ("roses", "hedge", "weeds"):
        lent.start(name, f"echo this is {name}; exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("3 sessions", "this is")
            at = next(number for number, line in enumerate(seen.lines) if "hedge" in line[:20])
            await seen.click(5, at)
            await seen.until("›● hedge", "this is hedge")
            await seen.resize(60, 10)
            await seen.until_it(lambda: "│" not in seen.text and "›● hedge" in seen.text)

    run(scenario)


def test_keys_have_their_turn_while_much_that_happened_is_taken(lent: Hosting) -> None:
    lent.start("work", "exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 session", "work")
            app, left = seen.app, list[int]()
            rows = [row(f"s{number:03}", "working") for number in range(200)]
            app._link.news.append(ListNews(rows, []))
            data = {"session_id": "s199", "state": "waits", "question": "now?", "seen": False}
            event = host_event("sessions/state", data)
            app._link.news.extend([EventNews(0.0, "sessions/state", event)] * 5000)
            app.post_message(Key("question_mark", "?"))
            app._wake()
            while app._link.news:
                if len(app.screen_stack) > 1:
                    left.append(len(app._link.news))
                await asyncio.sleep(0)
            assert left  # the key was answered before all of it was taken
            await seen.press("q")
            await seen.until_it(lambda: app.model.counts["wait"] == 1)

    run(scenario)
