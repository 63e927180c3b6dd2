"""Clients that come back to a session: what they missed is told again, from memory or from the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.doors.rpc import history as agent_history
from fairlead.wire import rpc
from fairlead.wire.rpc_catalog import TOPICS
from tests.agent.playing import calls, replay, says
from tests.doors.test_agents import Client, served, serving


def told(client: Client, since: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """What a client was told of turns, without the cursors."""
    return [
        (frame.topic, {key: value for key, value in plain(frame.data).items() if key != "cursor"})
        for frame in client.frames[since:]
        if isinstance(frame, rpc.Event) and "cursor" in plain(frame.data)
    ]


async def played(client: Client, message: str) -> str:
    """A turn; gives the cursor of its last event."""
    await client.ask("prompt", message=message)
    ended = await client.until("session/turn-ended")
    return str(ended["cursor"])


@served
async def test_who_was_away_is_told_exactly_what_it_missed(tmp_path: Path) -> None:
    model = replay(tmp_path, says("one"), calls(("c1", "note", {"text": "milk"})), says("two"))
    async with serving(tmp_path, model) as host:
        here, away = await host.client(topics=TOPICS), await host.client(topics=TOPICS)
        await here.ask("prompt", message="first")
        cursor = (await away.until("session/turn-ended"))["cursor"]
        await here.until("session/turn-ended")
        before = len(here.frames)
        await here.ask("prompt", message="second")
        asked = await here.until("ui/dialog-requested")
        await here.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        await here.until("session/turn-ended", turn=2)
        back = await host.client(subscribed=False)
        answer = await back.ask("subscribe", topics=list(TOPICS), since=cursor)
        missed = [row for row in told(here, before) if row[0] != "ui/dialog-requested"]
        assert answer["replayed"] == len(missed)
        assert told(back) == missed
        assert {"session/prompted", "tool/result", "ui/dialog-resolved"} <= {topic for topic, _ in missed}
        again = await back.ask("subscribe", topics=list(TOPICS), since=answer["cursor"])
        assert (again["replayed"], again["cursor"]) == (0, answer["cursor"])


@served
async def test_what_is_not_kept_any_more_is_told_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replay(tmp_path, says("one"), calls(("c1", "note", {"text": "milk"})), says("two"))
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        cursor = await played(client, "first")
        monkeypatch.setattr(agent_history, "MAX_EVENTS", 3)
        await client.ask("prompt", message="second")
        asked = await client.until("ui/dialog-requested")
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        await client.until("session/turn-ended")
        back = await host.client(subscribed=False)
        await back.ask("subscribe", topics=list(TOPICS), since=cursor)
        assert [topic for topic, _ in told(back)] == [
            "session/prompted",
            "assistant/message",
            "tool/start",
            "tool/executing",
            "tool/result",
            "assistant/message",
        ]
        assert told(back)[0][1]["text"] == "second"
        assert told(back)[4][1]["result_text"] == "noted milk"


@served
@pytest.mark.parametrize("cursor", ["", "x", "aaaaaaaa.00000000.1.1"])
async def test_a_cursor_that_is_none_is_refused_and_changes_nothing(tmp_path: Path, cursor: str) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client(topics=["assistant/delta"])
        code, message = await client.ask("subscribe", since=cursor, topics=["assistant/message"])
        assert code == "request/invalid-params"
        assert message.startswith("invalid request parameter :since: ")
        assert (await client.ask("subscribe"))["subscribed"] == ["assistant/delta"]


@served
async def test_a_question_that_waits_is_shown_once_after_what_was_missed(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with serving(tmp_path, model) as host:
        client = await host.client(topics=TOPICS)
        cursor = (await client.ask("open_session", name="work"))["cursor"]
        await client.ask("prompt", message="note milk")
        await client.until("ui/dialog-requested")
        back = await host.client(subscribed=False)
        await back.ask("open_session", name="work")
        await back.ask("subscribe", topics=list(TOPICS), since=cursor)
        asked = [at for at, topic in enumerate(back.topics()) if topic == "ui/dialog-requested"]
        assert asked == [len(back.topics()) - 1]


@served
async def test_sessions_are_found_by_their_names_or_made(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client(topics=TOPICS)
        made = await client.ask("open_session", name="work", cwd=str(tmp_path))
        assert made["created"] is True
        found = await client.ask("open_session", name="work")
        assert (found["created"], found["session_id"]) == (False, made["session_id"])
        assert (await client.ask("get_state"))["state"]["session_name"] == "work"
        last = await client.ask("open_session", **{"continue": True}, cwd=str(tmp_path))
        assert last["session_id"] == made["session_id"]
        other = await client.ask("open_session", cwd=str(tmp_path))
        assert other["session_id"] != made["session_id"]


@served
async def test_consent_that_lasts_is_not_asked_for_again(tmp_path: Path) -> None:
    note = calls(("c1", "note", {"text": "milk"}))
    again = calls(("c2", "note", {"text": "eggs"}))
    async with serving(tmp_path, replay(tmp_path, note, says("one"), again, says("two"))) as host:
        client = await host.client(topics=TOPICS)
        await client.ask("prompt", message="note milk")
        asked = await client.until("ui/dialog-requested")
        assert [each["value"] for each in asked["options"]] == ["allow", "always", "deny"]
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result="always")
        await client.until("session/turn-ended")
        [resolved] = [data for topic, data in told(client) if topic == "ui/dialog-resolved"]
        assert (resolved["dialog_id"], resolved["allowed"]) == (asked["dialog_id"], True)
        await client.until("session/updated", phase="idle")
        session = host.store.loaded[0]
        host.store.close()  # as if the daemon had ended; the journal knows
        await client.ask("prompt", message="note eggs", session_id=session.id)
        ended = await client.until("session/turn-ended")
        assert ended["outcome"] == "done"
        assert (tmp_path / "notes").read_text() == "milk\neggs\n"


@served
async def test_a_request_that_waits_for_a_session_can_be_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client(topics=TOPICS)
        assert await client.ask("cancel", request_id="nothing") == {"accepted": False}
