"""Whole turns against a real HTTP server that streams, stalls, breaks and refuses as providers do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from fairlead.agent import events
from fairlead.agent.consent.policy import Policy
from fairlead.agent.journal import Compaction, Journal
from fairlead.agent.messages import Assistant, ToolResult, text_of
from fairlead.agent.models.remote import Remote
from fairlead.agent.secrets import Redactor
from fairlead.agent.tools import standard_tools
from fairlead.agent.tools.terminals import LocalTerminals
from tests.agent.openai_server import BREAK, HOLD, OpenAiServer, answer, failure, overflow
from tests.agent.playing import Playing, playing

KEY = "sk-not-a-real-key-0123456789"


def asking(directory: Path, server: OpenAiServer) -> Playing:
    """A session in a project, with the real tools, that may do anything there."""
    outputs = directory.parent / f"{directory.name}-outputs"
    tools = standard_tools(LocalTerminals(), outputs, Redactor([KEY]))
    model = Remote("openai", server.url, lambda: KEY)
    judge = Policy(directory.resolve(), allows_all=True)
    return Playing(directory, model, tools=list(tools.values()), judge=judge)


def roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in request["messages"]]


@playing
async def test_a_model_reads_and_edits_and_sees_what_came_of_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    edit = {"path": "notes.txt", "edits": [{"oldText": "milk", "newText": "bread"}]}
    script = [
        answer("Let me look.", calls=[("read", json.dumps({"path": "notes.txt"}))], thinking="hm"),
        answer(
            calls=[("edit", json.dumps(edit)), ("bash", json.dumps({"command": "cat notes.txt; exit 3"}))]
        ),
        answer("Bread it is."),
    ]
    with OpenAiServer(script) as server:
        async with asking(tmp_path, server) as play:
            play.session.prompt("change milk to bread")
            await play.idle()
            assert (tmp_path / "notes.txt").read_text() == "buy bread\n"
            results = [said for said in play.session.messages if isinstance(said, ToolResult)]
            assert "buy milk" in text_of(results[0])
            assert "buy bread" in text_of(results[2])
            assert results[2].is_error
            assert play.roles[-1] == "a: Bread it is."
            assert roles(server.requests[2]) == [
                "system",
                "user",
                "assistant",
                "tool",
                "assistant",
                "tool",
                "tool",
            ]
            assert play.session.usage.total_tokens == 360
    assert KEY not in (tmp_path / "session.jsonl").read_text()
    assert not Journal.open(str(tmp_path / "session.jsonl"), writable=False).faults


@playing
async def test_a_server_that_is_busy_or_breaks_off_is_asked_again(tmp_path: Path) -> None:
    script = [
        failure(429, retry_after=7),
        answer("half an ans", insert=[BREAK]),
        failure(503),
        answer("whole"),
    ]
    with OpenAiServer(script) as server:
        async with asking(tmp_path, server) as play:
            play.session.prompt("hi")
            await play.idle()
            assert play.pauses == [7.0, 4.0, 8.0]
            assert play.roles == ["u: hi", "a: whole"]
            assert len(server.requests) == 4


@playing
async def test_a_refusal_and_nonsense_fail_the_turn_and_nothing_tells_the_key(tmp_path: Path) -> None:
    script = [failure(401, f"bad key {KEY}"), answer("x", insert=[b"data: {nonsense\n\n"]), answer("better")]
    with OpenAiServer(script) as server:
        async with asking(tmp_path, server) as play:
            for _ in range(3):
                play.session.prompt("hi")
                await play.idle()
            failed = [event.message for event in play.of(events.Failed)]
            assert len(failed) == 2
            assert KEY not in "".join(failed)
            assert play.roles[-1] == "a: better"
    assert KEY not in (tmp_path / "session.jsonl").read_text()


@playing
async def test_what_is_too_long_is_compacted_and_asked_again(tmp_path: Path) -> None:
    script = [answer(f"answer {number}") for number in range(3)]
    script += [overflow(), answer("They talked about x."), answer("after all")]
    with OpenAiServer(script) as server:
        async with asking(tmp_path, server) as play:
            for number in range(3):
                play.session.prompt(f"{number} " + "x" * 60_000)
                await play.idle()
            play.session.prompt("and now?")
            await play.idle()
            assert play.roles[-1] == "a: after all"
            (compaction,) = [
                entry.body for entry in play.session.journal.branch if isinstance(entry.body, Compaction)
            ]
            assert compaction.summary == "They talked about x."
            asked = json.dumps(server.requests[-1]["messages"])
            assert "Previous conversation summary:" in asked
            assert "0 xxx" not in asked


@playing
async def test_an_abort_ends_the_connection_and_keeps_what_came(tmp_path: Path) -> None:
    with OpenAiServer([answer("I was saying", insert=[HOLD]), answer("yes?")]) as server:
        async with asking(tmp_path, server) as play:
            play.session.prompt("talk")
            await asyncio.to_thread(server.held.wait, 20)
            while "".join(event.text for event in play.of(events.TextStreamed)) != "I was saying":
                await asyncio.sleep(0.01)
            play.session.abort()
            await play.idle()
            assert await asyncio.to_thread(server.gone.wait, 20)
            last = play.session.messages[-1]
            assert isinstance(last, Assistant)
            assert (text_of(last), last.stop_reason) == ("I was saying", "aborted")
            play.session.prompt("hello?")
            await play.idle()
            assert play.roles[-1] == "a: yes?"


@playing
async def test_the_journal_reads_back_to_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    script = [answer(calls=[("ls", "{}"), ("read", '{"path": "a.txt"}')], thinking="look"), answer("done")]
    with OpenAiServer(script) as server:
        async with asking(tmp_path, server) as play:
            play.session.set_name("reading")
            play.session.prompt("look around")
            await play.idle()
            before = (play.session.messages, play.session.usage, play.session.stats, play.session.name)
        async with asking(tmp_path, server) as play:
            session = play.session
            assert (session.messages, session.usage, session.stats, session.name) == before
            assert not session.was_interrupted
