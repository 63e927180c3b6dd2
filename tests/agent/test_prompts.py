"""Receipts of prompts: each has an id, and whoever gave it learns what came of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import events
from fairlead.agent.journal import Journal, JournalError
from fairlead.agent.live import posted
from fairlead.agent.log_lines import log_lines
from fairlead.agent.messages import User
from fairlead.agent.models import ModelError
from fairlead.agent.recall.transcripts import Transcripts
from fairlead.agent.store import AgentStore, Place
from fairlead.sessions import feed
from tests.agent.playing import AllowAll, Failing, Held, Models, Playing, playing, replay, says


def started(play: Playing) -> list[Any]:
    """The ids of prompts in the order in which they were said."""
    said = [event.message for event in play.of(events.MessageSaid)]
    return [message.prompt for message in said if isinstance(message, User)]


def ended(play: Playing) -> list[tuple[str, str, str]]:
    return [(event.prompt, event.outcome, event.reason) for event in play.of(events.PromptEnded)]


@playing
async def test_prompts_of_the_same_text_end_each_for_itself_after_their_turn(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("do it", id="a")
        await model.asked.wait()
        play.session.follow_up("do it", id="b")
        play.session.steer("do it", id="c")
        model.go_on.set()
        await play.idle()
        assert started(play) == ["a", "c", "b"]
        assert ended(play) == [("a", "done", ""), ("c", "done", ""), ("b", "done", "")]
        order = [type(event).__name__ for event in play.told if isinstance(event, ENDS)]
        assert order == ["TurnEnded", "PromptEnded", "PromptEnded", "TurnEnded", "PromptEnded"]


ENDS = events.TurnEnded | events.PromptEnded


@playing
async def test_a_prompt_without_an_id_gets_one_and_the_journal_has_it(tmp_path: Path) -> None:
    async with Playing(tmp_path, replay(tmp_path, says("one"))) as play:
        play.session.prompt("first")
        await play.idle()
        [(id, outcome, _)] = ended(play)
        assert (started(play), outcome) == ([id], "done")
        lines = Path(play.session.journal.path).read_text().splitlines()
    assert json.loads(lines[1])["message"]["prompt"] == id


@playing
async def test_an_abort_drops_steering_and_a_follow_up_is_said_after_it(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first", id="a")
        await model.asked.wait()
        play.session.steer("quick", id="b")
        play.session.follow_up("later", id="c")
        assert play.session.abort() == "quick"
        model.go_on.set()
        await play.idle()
        assert ended(play) == [
            ("a", "aborted", ""),
            ("b", "dropped", "aborted before it was sent"),
            ("c", "done", ""),
        ]
        assert started(play) == ["a", "c"]
    async with Playing(tmp_path, model) as play:
        assert play.session.unsaid == []  # as the journal says that it was dropped


@playing
async def test_one_prompt_is_ended_and_others_are_not(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first", id="a")
        await model.asked.wait()
        play.session.follow_up("second", id="b")
        play.session.follow_up("third", id="c")
        play.session.end_prompt("b")
        assert not play.session._aborted.is_set()
        play.session.end_prompt("a")
        model.go_on.set()
        await play.idle()
        assert ended(play) == [
            ("b", "dropped", "aborted before it was sent"),
            ("a", "aborted", ""),
            ("c", "done", ""),
        ]


@playing
async def test_a_turn_that_fails_says_why(tmp_path: Path) -> None:
    async with Playing(tmp_path, Failing(ModelError("refused", "no such key"))) as play:
        play.session.prompt("first", id="a")
        await play.idle()
        assert ended(play) == [("a", "failed", "no such key")]
        play.session.prompt("again", id="b")
        await play.idle()
        assert ended(play)[1:] == [("b", "done", "")]


@playing
async def test_what_waits_is_dropped_when_the_journal_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first", id="a")
        await model.asked.wait()
        play.session.follow_up("second", id="b")

        def full(body: object) -> None:
            raise JournalError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(play.session.journal, "append", full)
            model.go_on.set()
            await play.idle()
        assert [(id, outcome) for id, outcome, _ in ended(play)] == [("a", "failed"), ("b", "dropped")]
        assert ended(play)[1][2] == "no space left"
        assert not play.session.pending_messages
    async with Playing(tmp_path, model) as play:
        assert len(play.session.unsaid) == 1


@playing
async def test_what_is_said_while_a_conversation_is_compacted_is_said_after_it(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        model.go_on.set()
        for number in range(3):
            play.session.prompt(f"{number} " + "x" * 60_000)
            await play.idle()
        model.go_on.clear()
        model.asked.clear()
        compacting = asyncio.ensure_future(play.session.compact())
        await model.asked.wait()
        play.session.follow_up("later", id="a")
        play.session.steer("sooner", id="b")
        model.go_on.set()
        assert await compacting == "one two"
        await play.idle()
        assert started(play)[-2:] == ["b", "a"]
        assert ended(play)[-2:] == [("b", "done", ""), ("a", "done", "")]


@playing
async def test_what_waited_when_the_program_died_is_told_and_not_said(tmp_path: Path) -> None:
    model = Held()
    journal = tmp_path / "session.jsonl"
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first", id="a")
        await model.asked.wait()
        play.session.follow_up("second", id="b")
        play.session.follow_up("third", id="c")
        play.session.end_prompt("c")
        shutil.copy(journal, tmp_path / "copy")  # as a program that is killed leaves it
    shutil.copy(tmp_path / "copy", journal)
    model.go_on.set()
    async with Playing(tmp_path, model) as play:
        assert play.session.unsaid == ["The daemon restarted before this was said: second"]
        assert play.session.turns[-1].outcome == "lost"
    async with Playing(tmp_path, model) as play:  # nobody came, and the next program died too
        assert play.session.unsaid == ["The daemon restarted before this was said: second"]
        play.session.prompt("go on", id="d")
        await play.idle()
        assert play.session.unsaid == []
        assert started(play) == ["d"]
        assert "second" not in str(model.requests[-1].messages)
    async with Playing(tmp_path, model) as play:
        assert play.session.unsaid == []
        lines = log_lines(play.session)
        assert lines[:2] == ["> first", "not sent (aborted before it was sent): third"]
        assert "not sent (the daemon restarted before it was sent): second" in lines


@playing
async def test_a_session_that_is_closed_ends_all_its_prompts(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first", id="a")
        await model.asked.wait()
        play.session.follow_up("second", id="b")
    assert ended(play) == [
        ("a", "interrupted", ""),
        ("b", "dropped", "the session was closed before it was sent"),
    ]


@playing
async def test_a_fork_has_nothing_of_what_waits_in_its_parent(tmp_path: Path) -> None:
    model = Held()
    told: list[feed.FeedEvent] = []
    place = Place({}, AllowAll(), "be brief", {})

    def heard(event: events.ConversationEvent) -> None:
        told.extend(posted(store, event))

    store = AgentStore(str(tmp_path / "sessions"), Models(model), lambda cwd: place, heard)
    session = store.create(str(tmp_path))
    session.prompt("first", id="a")
    await model.asked.wait()
    session.follow_up("second", id="b")
    fork = await store.fork(session, session.journal.entries[-1].id)
    assert fork.unsaid == []
    assert [turn.prompt for turn in fork.turns] == ["first"]
    session.prompts.drop("not wanted")
    model.go_on.set()
    await session.idle()
    store.close()
    receipts = [event for event in told if isinstance(event, feed.PromptStarted | feed.PromptEnded)]
    assert receipts == [
        feed.PromptStarted(session.id, "a"),
        feed.PromptEnded(session.id, "b", "dropped", "not wanted"),
        feed.PromptEnded(session.id, "a", "done"),
    ]


@playing
async def test_what_waits_is_in_no_transcript(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "--x--" / "2026-01-01T00-00-00-000Z_s1.jsonl"
    path.parent.mkdir(parents=True)
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("the first words")
        await model.asked.wait()
        play.session.follow_up("secondary")
        shutil.copy(play.session.journal.path, path)
    transcripts = Transcripts(str(tmp_path / "transcripts.db"), str(tmp_path / "sessions"))
    transcripts.scan(10.0)
    [row] = transcripts.list()
    assert (row.first_message, row.message_count) == ("the first words", 1)
    assert not transcripts.search("secondary")
    await transcripts.aclose()


def test_entries_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    journal = Journal.create(str(tmp_path / "session.jsonl"), id="s1", cwd=str(tmp_path))
    journal.close()
    with open(journal.path, "a") as file:
        for number, data in enumerate([None, 7, {"id": 7}, {"id": "a"}, {"id": "a", "session": "s1"}]):
            for kind in ("queued", "dropped"):
                entry = {"type": "custom", "id": f"{kind}{number}", "parentId": None, "timestamp": ""}
                line = entry | {"customType": f"fairlead/prompt-{kind}", "data": data}
                file.write(json.dumps(line) + "\n")

    async def load() -> None:
        async with Playing(tmp_path, replay(tmp_path)) as play:
            assert play.session.unsaid == []

    asyncio.run(load())
