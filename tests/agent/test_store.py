"""All sessions of a daemon: made, found, forked; those that wait for an answer are loaded at the start."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from fairlead.agent import events, store
from fairlead.agent.events import ConversationEvent
from fairlead.agent.journal import JournalError
from fairlead.agent.messages import Assistant, text_of
from fairlead.agent.store import AgentStore, NotFound, Place
from tests.agent.playing import WAIT, AskBeforeWriting, Models, Note, calls, replay, says


def opened(directory: Path, told: list[ConversationEvent] | None = None) -> AgentStore:
    answers = [calls(("c1", "note", {"text": "milk"})), says("done"), says("more")]
    place = Place({"note": Note(directory / "notes")}, AskBeforeWriting(), "be brief", {})
    heard = told.append if told is not None else lambda event: None
    return AgentStore(
        str(directory / "sessions"), Models(replay(directory, *answers)), lambda cwd: place, heard
    )


def test_a_session_is_found_again_by_its_id_and_by_its_file(tmp_path: Path) -> None:
    first = opened(tmp_path)
    made = first.create("/srv/my project")
    made.set_name("garden")
    path = Path(made.journal.path)
    assert path.parent.name == "--srv-my-project--"
    assert first.find(made.id) is made
    assert first.resume(str(path)) is made
    first.close()
    second = opened(tmp_path)
    assert second.open() == []
    assert second.loaded == []
    assert second.find(made.id).name == "garden"
    assert second.resume(str(path)) is second.find(made.id)
    second.close()


@pytest.mark.parametrize("id", ["nobody", "", "../x", "*", "a/b"])
def test_what_is_not_there_is_not_found(tmp_path: Path, id: str) -> None:
    sessions = opened(tmp_path)
    sessions.create("/srv")
    with pytest.raises(NotFound, match="Session not found in context: "):
        sessions.find(id)
    with pytest.raises(NotFound, match="Session file not found: "):
        sessions.resume(str(tmp_path / "none.jsonl"))
    (tmp_path / "bad.jsonl").write_text("not a journal\n")
    with pytest.raises(JournalError):
        sessions.resume(str(tmp_path / "bad.jsonl"))
    sessions.close()


def test_only_sessions_that_wait_for_an_answer_are_loaded_at_the_start(tmp_path: Path) -> None:
    async def ask() -> tuple[str, str]:
        told: list[ConversationEvent] = []
        sessions = opened(tmp_path, told)
        sessions.open()
        sessions.create(str(tmp_path))
        waiting = sessions.create(str(tmp_path))
        waiting.prompt("note milk")
        async with asyncio.timeout(WAIT):
            while not waiting.approvals:
                await asyncio.sleep(0)
        sessions.close()
        return waiting.id, next(iter(waiting.approvals))

    async def answer(session_id: str, approval_id: str) -> None:
        sessions = opened(tmp_path)
        assert sessions.open() == []
        (session,) = sessions.loaded
        assert session.id == session_id
        session.settle(approval_id, True, "me")
        async with asyncio.timeout(WAIT):
            await session.idle()
        assert text_of(session.messages[-1]) == "done"
        sessions.close()
        again = opened(tmp_path)
        again.open()
        assert again.loaded == []
        again.close()

    asyncio.run(answer(*asyncio.run(ask())))
    assert (tmp_path / "notes").read_text() == "milk\n"


def test_a_session_that_takes_long_to_read_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened(tmp_path)
    path = made.create(str(tmp_path)).journal.path
    made.close()
    released = threading.Event()
    read = store._read_apart
    monkeypatch.setattr(store, "QUICK_JOURNAL", 0)
    monkeypatch.setattr(store, "_read_apart", lambda path: released.wait(WAIT) and read(path))

    async def run() -> None:
        sessions = opened(tmp_path)
        sessions.open()
        sessions._mark(store.id_of(path), waits=True)
        await sessions.prepare_waiting(0.01)
        assert sessions.open() == [f"{path} is being read; try again"]
        released.set()
        await sessions.prepare(store.id_of(path))
        assert sessions.find(store.id_of(path)).journal.path == path
        sessions.close()

    asyncio.run(run())


def test_a_mark_whose_session_is_gone_is_told_and_hurts_nothing(tmp_path: Path) -> None:
    sessions = opened(tmp_path)
    sessions.open()
    (tmp_path / "sessions/.waiting/gone").touch()
    assert sessions.open() == ["Session not found in context: gone"]


def test_a_fork_knows_its_parent_and_goes_its_own_way(tmp_path: Path) -> None:
    async def run() -> None:
        told: list[ConversationEvent] = []
        sessions = opened(tmp_path, told)
        session = sessions.create(str(tmp_path))
        session.prompt("first")
        async with asyncio.timeout(WAIT):
            while not session.approvals:
                await asyncio.sleep(0)
            session.abort()
            await session.idle()
        prompt = next(event for event in told if isinstance(event, events.MessageSaid))
        fork = await sessions.fork(session, prompt.entry_id)
        assert fork.messages == session.messages
        assert sessions.parent_of(fork) == session.id
        assert sessions.parent_of(session) is None
        assert sessions.create("/elsewhere", parent=fork).journal.header.parent_session == fork.journal.path
        sessions.close()

    asyncio.run(run())


def test_a_fork_at_an_answer_has_all_up_to_it_with_what_its_calls_brought(tmp_path: Path) -> None:
    async def run() -> None:
        told: list[ConversationEvent] = []
        sessions = opened(tmp_path, told)
        session = sessions.create(str(tmp_path))
        session.prompt("first")
        async with asyncio.timeout(WAIT):
            while not session.approvals:
                await asyncio.sleep(0)
            session.settle(next(iter(session.approvals)), allowed=True, by="test")
            await session.idle()
            session.prompt("second")
            await session.idle()
        answers = [each.entry_id for each in told if isinstance(each, events.MessageSaid) and is_answer(each)]
        assert len(answers) == 3
        for entry, count in zip(answers, (3, 4, 6)):  # prompt, call and result; "done"; the second turn
            fork = await sessions.fork(session, entry)
            assert fork.messages == session.messages[:count]
            assert (fork.is_idle, fork.unsaid) == (True, [])
        sessions.close()

    asyncio.run(run())


def is_answer(event: events.MessageSaid) -> bool:
    return isinstance(event.message, Assistant)


def test_the_least_used_sessions_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LOADED", 3)
    sessions = opened(tmp_path)
    ids = [sessions.create("/srv").id for _ in range(3)]
    sessions.find(ids[0])
    sessions.create("/srv")
    assert ids[1] not in {session.id for session in sessions.loaded}
    assert len(sessions.loaded) == 3
    assert sessions.find(ids[1]).id == ids[1]
    assert os.path.exists(sessions.find(ids[1]).journal.path)
    sessions.close()
