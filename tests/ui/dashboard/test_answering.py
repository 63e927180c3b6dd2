"""What is answered is what was seen, whole and still open; and no key does something to another session than
the one that was meant."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.events import Key, Paste

from fairlead.ui.dashboard.views import QuestionView
from fairlead.ui.dashboard.writing import PromptView
from tests.hosting import Hosting
from tests.ui.dashboard.driving import Driven, driven, run
from tests.ui.dashboard.rows import question, row
from tests.ui.dashboard.test_app import asking

LABELS = [
    "Yes, and don't ask again for commands that begin with `rm -rf /srv/garden/old`, in all projects",
    "No",
]


async def decided(seen: Driven, view: QuestionView | PromptView, *keys: str) -> list[object]:
    """What a view that is pushed is dismissed with, if it is."""
    found: list[object] = []
    seen.app._soon(lambda: seen.app._push(view, found.append))
    await seen.until_it(lambda: view.is_current and view.is_mounted)
    await asyncio.sleep(1.0)
    await seen.press(*keys)
    await asyncio.sleep(1.0)
    return found


def test_what_an_answer_means_is_seen_wholly_before_it_is_given(lent: Hosting) -> None:
    from fairlead.ui.dashboard.texts import answers_of, question_lines

    asked = question("t", "s", "rm -rf /srv/garden/old", options=["allow", "deny"], labels=LABELS)
    asked |= {"kind": "permission", "options": ["always", "deny"]}

    async def scenario() -> None:
        async with driven((40, 9)) as seen:
            view = QuestionView(
                lambda width, look: question_lines(asked, width, look), answers_of(asked), seen.app.look
            )
            found = await decided(seen, view, "a")
            assert found == []
            assert "read all of it first" in seen.text
            texts = []
            for _ in range(12):
                texts += seen.lines
                await seen.press("down")
                await asyncio.sleep(0.5)
            assert "projects" in " ".join(texts)
            await asyncio.sleep(0.5)
            await seen.press("a")
            await seen.until_it(lambda: found == ["always"])
            await seen.resize(8, 9)
            again = QuestionView(lambda width, look: ["日" * 9, "x" * 9], answers_of(asked), seen.app.look)
            assert await decided(seen, again, "n") == []
            assert "the" in seen.text  # terminal is too narrow

    run(scenario)


def test_an_answer_in_own_words_is_not_sent_by_a_paste(lent: Hosting) -> None:
    async def scenario() -> None:
        async with driven((60, 20)) as seen:
            view = PromptView("Your answer", lambda width, look: ["which?"], seen.app.look, is_answer=True)
            found = await decided(seen, view, *"blu")
            for key, char in (("e", "e"), ("enter", "\r")):  # as quick as a terminal without pastes has one
                seen.app.post_message(Key(key, char))
            await seen.until("blue")
            await asyncio.sleep(1.0)
            assert found == []
            assert "several keys at once" in seen.text
            view.query_one("Draft").post_message(Paste("green\nred\n"))
            await seen.until("green", "red")
            await asyncio.sleep(0.5)
            assert found == []
            await seen.press("enter", "enter")
            await asyncio.sleep(0.5)
            assert found == []  # held
            await seen.press("enter")
            await seen.until_it(lambda: found == ["bluegreen\nred\n"])

    run(scenario)


def test_keys_that_are_typed_into_the_filter_do_nothing_else(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)
    lent.start("quiet", "exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 needs you", "quiet")
            await seen.press("slash", *"qydxpnlta?")
            await seen.until("/qydxpnlta?", "no session has")
            assert len(seen.app.screen_stack) == 1
            await seen.press("escape")
            await seen.until("garden", "quiet", "q quit", but=("/q", "shown"))
            await seen.press("escape", "escape")
            await seen.press("slash", *"qui")
            await seen.until("1 shown")
            await seen.press("ctrl+c")
            await seen.until("garden", "q quit", but=("shown",))
            await seen.press("slash", *"garden", "down")
            await seen.until("1 shown", "q quit")
            await seen.press("escape")
            await seen.until("quiet")

    run(scenario)


def test_a_key_for_a_session_that_has_just_gone_is_not_for_the_next_one(
    lent: Hosting, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("no sessions")
            board, model = seen.app.board, seen.app.model
            model.listed([row("one", "waits", 9), row("two", "waits", 5)], [])
            seen.app._changed()
            model.listed([row("two", "waits", 5)], [])
            seen.app._changed()
            await seen.press("p")
            await seen.until("one is gone: two is selected now")
            await seen.press("p")
            await seen.until("Prompt to two")
            await seen.press("escape")
            model.listed([row("one", "waits", 9), row("two", "waits", 5)], [])
            seen.app._changed()
            assert board.entry is not None
            assert board.entry.name == "two"  # wherever it is listed now

    run(scenario)


def test_a_question_that_gets_other_words_is_not_answered(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 needs you")
            await seen.press("y")
            await seen.until("y  allow it")
            [asked] = seen.app.model._questions.values()
            seen.app.model.asked([{**asked, "summary": "$ rm -rf ~"}])
            seen.app._changed()
            await seen.until("it has changed", but=("y  allow it",))
            await asyncio.sleep(1.0)
            await seen.press("y")
            await asyncio.sleep(0.5)
        assert lent.ask("approvals")["approvals"]

    run(scenario)


def test_a_program_that_was_started_anew_under_its_name_is_not_stopped(lent: Hosting) -> None:
    lent.start("work", "exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 session", "work")
            await seen.press("x")
            await seen.until("Stop work?")
            lent.run("stop", "work")
            lent.start("work", "exec sleep 2000")
            await seen.answer("y")
            await seen.until("it is another session by now")
        assert list(lent.sessions()) == ["work"]

    run(scenario)


def test_a_prompt_that_was_left_or_could_not_be_sent_is_there_again(lent: Hosting, tmp_path: Path) -> None:
    lent.start("work", "exec sleep 1000")

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 session", "work")
            await seen.press("p")
            await seen.until("Prompt to work")
            await seen.type("mend it")
            await seen.press("escape")
            await seen.until("q quit")
            await seen.press("p")
            await seen.until("Prompt to work", "mend it")
            await seen.press("enter")
            await seen.until("work: not prompted")  # it is no agent
            await seen.press("p")
            await seen.until("Prompt to work", "mend it")

    run(scenario)


def test_why_a_question_is_over_stays_to_be_read(lent: Hosting, tmp_path: Path) -> None:
    asking(lent, "garden", tmp_path)

    async def scenario() -> None:
        async with driven() as seen:
            await seen.until("1 needs you")
            await seen.press("y")
            await seen.until("y  allow it")
            seen.app.model.asked([])
            seen.app._changed()
            await seen.until("it is not open any more", but=("y  allow it",))
            await seen.press("y")
            await asyncio.sleep(0.5)
            assert "it is not open any more" in seen.text

    run(scenario)
