"""What sessions do: since when, whether a person has seen it, and what the next daemon knows of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from fairlead.sessions.feed import Feed, FeedEvent
from fairlead.sessions.questions import Question
from fairlead.sessions.state import Evidence, StateChanged, States, by_protocol
from tests.hosting import Hosting


def _evidence(at: float = 100.0) -> Evidence:
    return Evidence("screen", "working", at, "esc to interrupt", "spinner", "2.1")


def test_what_changes_is_told_once_with_its_evidence() -> None:
    told: list[FeedEvent] = []
    feed = Feed()
    feed.listen(told.append)
    states = States(feed, "", lambda id: False)
    states.found("roses", "working", _evidence(100.0))
    states.found("roses", "working", _evidence(160.0))
    assert [each.activity.state for each in told if isinstance(each, StateChanged)] == ["working"]
    found = states.of("roses")
    assert found is not None
    assert (found.since, found.evidence) == (100.0, _evidence(160.0))
    states.found("roses", "waits", None, "rm -r build?")
    states.found("roses", "waits", None, "git push?")
    assert [each.activity.question for each in told[1:] if isinstance(each, StateChanged)] == [
        "rm -r build?",
        "git push?",
    ]


def test_a_turn_that_ends_is_unseen_until_somebody_looks() -> None:
    watched: set[str] = set()
    states = States(Feed(), "", watched.__contains__)
    states.found("roses", "idle", None)
    assert states.found("roses", "idle", None).is_seen  # nothing ended that anybody knows of
    states.found("roses", "working", None)
    assert not states.found("roses", "idle", None).is_seen
    assert not states.found("roses", "idle", None).is_seen
    states.seen("roses")
    assert states.found("roses", "idle", None).is_seen
    watched.add("roses")
    states.found("roses", "working", None)
    assert states.found("roses", "idle", None).is_seen


def test_the_next_daemon_knows_what_was_seen_and_since_when(tmp_path: Path) -> None:
    path = str(tmp_path / "activity.json")

    async def first() -> None:
        states = States(Feed(), path, lambda id: False)
        states.found("roses", "working", _evidence())
        states.found("roses", "idle", None)
        states.close()

    asyncio.run(first())
    states = States(Feed(), path, lambda id: False)
    states.load()
    found = states.of("roses")
    assert found is not None
    assert (found.state, found.is_seen) == ("idle", False)
    assert time.time() - found.since < 60
    Path(path).write_text("no json")
    states.load()
    assert states.of("roses") is None


def test_what_nothing_says_is_unknown_and_never_idle() -> None:
    assert by_protocol("running", None, 1.0) == ("unknown", None, "")
    assert by_protocol("failed", None, 1.0)[0] == "idle"
    question = Question(id="1", kind="consent", title="bash", what="$ make", asked_at=5.0)
    state, evidence, waits_for = by_protocol("working", question, 9.0)
    assert (state, waits_for) == ("waits", "$ make")
    assert evidence is not None
    assert (evidence.at, evidence.words) == (5.0, "$ make")


def test_an_agent_says_what_it_does(lent: Hosting) -> None:
    lent.ask("open_session", name="garden", cwd=str(lent.directory))
    lent.run("agent", "-p", "--name", "garden", "hello")
    assert lent.ask("session_state", name="garden")["session"]["activity"]["seen"]  # who asked has seen it
    lent.run("send", "garden", "hello again")
    lent.run("wait", "garden", "--idle", "0")
    found = lent.ask("session_state", name="garden")
    activity = found["session"]["activity"]
    assert (activity["state"], activity["seen"]) == ("idle", False)
    assert activity["evidence"]["source"] == "protocol"
    assert found["weighed"][0]["fate"] == "counts"
    shown = lent.run("state", "garden", "--explain").stdout
    assert "garden: idle, not seen yet, for" in shown
    assert "protocol" in shown
    lent.ask("session_seen", name="garden")
    assert lent.run("state", "garden").stdout.startswith("garden: idle for")
