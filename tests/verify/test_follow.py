"""EventStream a session as its verifier: the loop of checks and corrections, and builders that go away."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.conversation import Conversation
from fairlead.agent.messages import User, text_of
from fairlead.verify import follow
from fairlead.verify.follow import TOO_LATE, BuilderGone, DeliveredReport, TurnFollower
from fairlead.verify.report import CommandRun, Confidence, Report, Section, Status
from fairlead.wire.verifier import Event
from tests.agent.playing import WAIT
from tests.doors.verifiers import Room, answering, room, served

CONFIDENCE = {
    Status.VERIFIED: Confidence.VERIFIED,
    Status.FAILED: Confidence.FEEDBACK,
    Status.UNSURE: Confidence.FAILED,
}


class Checks:
    """Judges as it was told to, turn after turn; the last judgement stays."""

    def __init__(self, *judgements: str) -> None:
        self._judgements = [Status(each) for each in judgements]
        self.seen: list[Event] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, stop: Event) -> Report:
        self.seen.append(stop)
        self.begun.set()
        await self.may_end.wait()
        status = self._judgements.pop(0) if len(self._judgements) > 1 else self._judgements[0]
        return Report(
            status=status,
            confidence=CONFIDENCE[status],
            summary=f"look {len(self.seen)}",
            sections=(Section("Found", f"line {len(self.seen)} is wrong"),),
            kind="command",
            verifier="checks",
            commands=(CommandRun("true", 0, 0.5),),
            duration=len(self.seen) + 0.5,
            turn=stop.turn_index or 0,
            session_id=stop.session_id,
            tree="abc",
        )


@asynccontextmanager
async def following(host: Room, session: Conversation, checks: Checks, **more: Any) -> AsyncIterator[Judging]:
    follower = TurnFollower(str(host.path(session)), session.id, checks, **more)
    async with aclosing(follower.judgements()) as judgements:  # type: ignore[type-var]
        yield Judging(follower, judgements)


class Judging:
    """What a follower judges, as it comes."""

    def __init__(self, follower: TurnFollower, judgements: AsyncIterator[DeliveredReport]) -> None:
        self.follower = follower
        self._judgements = judgements
        self._next = asyncio.ensure_future(self._one())

    async def _one(self) -> DeliveredReport:
        return await anext(self._judgements)

    async def settled(self) -> None:
        """Wait until it is there."""
        async with asyncio.timeout(WAIT):
            await self.follower.is_settled.wait()

    async def next(self) -> DeliveredReport:
        async with asyncio.timeout(WAIT):
            judged = await self._next
        self._next = asyncio.ensure_future(self._one())
        return judged

    async def many(self, count: int) -> list[tuple[int, str, str]]:
        """Turn, status and refusal of the next ones."""
        found = [await self.next() for _ in range(count)]
        return [(each.report.turn, each.report.status.value, each.refusal) for each in found]

    async def close(self) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(follow, "CONNECT_WAIT", 0.2)
    monkeypatch.setattr("fairlead.wire.verifier.LAUNCH_PAUSE", 0.0)


# --- the loop ---------------------------------------------------------------------------------------------


@served
async def test_what_fails_goes_back_until_it_holds(tmp_path: Path) -> None:
    checks = Checks("failed", "failed", "verified")
    async with room(tmp_path) as host:
        session = host.session()
        async with following(host, session, checks) as judging:
            await judging.settled()
            session.prompt("build it")
            assert await judging.many(3) == [(1, "failed", ""), (1, "failed", ""), (1, "verified", "")]
            await judging.close()
        said = [text_of(each) for each in session.messages if isinstance(each, User)]
        assert said[0] == "build it"
        assert ["line 1 is wrong" in said[1], "line 2 is wrong" in said[2], len(said)] == [True, True, 3]
        assert (len(session.turns), session.turns[0].corrections) == (1, 2)
        ends = [stop.session_file_end_line or 0 for stop in checks.seen]
        assert ends == sorted(set(ends))
        rows = list(reversed(host.reports.list()))
        assert [(row.turn, row.confidence) for row in rows] == [
            (1, "feedback"),
            (1, "feedback"),
            (1, "verified"),
        ]
        kept = host.reports.get(rows[0].id)
        assert kept is not None
        assert (kept.verifier, kept.kind, kept.tree) == ("checks", "command", "abc")
        assert kept.commands == (CommandRun("true", 0, 0.5),)
        assert [data["status"] for topic, data in host.told if topic == "verify/report"] == [
            "failed",
            "failed",
            "verified",
        ]


@served
async def test_what_never_holds_is_sent_back_exactly_so_often_and_then_a_person_is_called(
    tmp_path: Path,
) -> None:
    async with room(tmp_path, max_loops=3) as host:
        session = host.session()
        async with following(host, session, Checks("failed")) as judging:
            await judging.settled()
            session.prompt("build it")
            assert await judging.many(4) == [
                *[(1, "failed", "")] * 3,
                (1, "failed", "the limit of corrections is reached"),
            ]
            await judging.close()
        assert session.turns[0].corrections == 3
        assert [topic for topic, _ in host.told].count("verify/escalated") == 1
        last = host.reports.get(host.reports.list()[0].id)
        assert last is not None
        assert last.sections[-1] == Section("Sent back?", "No: the limit of corrections is reached.")
        judgement = host.judging.of(session.id)
        assert judgement is not None
        assert (judgement.shown["confidence"], bool(judgement.shown["escalated"])) == ("feedback", True)


@served
async def test_what_a_person_asks_in_the_middle_begins_a_new_count(tmp_path: Path) -> None:
    async with room(tmp_path, max_loops=2) as host:
        session = host.session()
        checks = Checks("failed")
        async with following(host, session, checks) as judging:
            await judging.settled()
            session.prompt("one")
            assert await judging.many(1) == [(1, "failed", "")]
            checks.may_end.clear()  # the correction runs, and is looked at
            checks.begun.clear()
            await checks.begun.wait()
            session.prompt("two")
            await session.idle()
            checks.may_end.set()
            assert await judging.many(4) == [
                (1, "failed", TOO_LATE),  # turn 2 does not get what is meant for turn 1
                (2, "failed", ""),
                (2, "failed", ""),
                (2, "failed", "the limit of corrections is reached"),
            ]
            await judging.close()
        assert [turn.corrections for turn in session.turns] == [1, 2]
        assert [topic for topic, _ in host.told].count("verify/escalated") == 1


@served
async def test_two_stops_close_together_are_two_reports(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        checks = Checks("verified")
        checks.may_end.clear()
        async with following(host, session, checks) as judging:
            await judging.settled()
            for prompt in ("one", "two"):
                session.prompt(prompt)
                await session.idle()
            checks.may_end.set()
            # when the first was checked the second had changed what there is to check
            assert await judging.many(2) == [(1, "unsure", ""), (2, "verified", "")]
            await judging.close()
        told = [(row.turn, row.confidence) for row in host.reports.list()]
        assert told == [(2, "verified"), (1, "partial")]


@served
async def test_what_could_not_be_judged_calls_a_person_and_is_not_sent_back(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        async with following(host, session, Checks("unsure")) as judging:
            await judging.settled()
            session.prompt("one")
            assert await judging.many(1) == [(1, "unsure", "")]
            await judging.close()
        assert session.turns[0].corrections == 0
        assert (await host.until("verify/escalated"))["reason"] == "look 1"
        session.prompt("two")  # the person has seen it
        await session.idle()
        judgement = host.judging.of(session.id)
        assert judgement is not None
        assert judgement.escalated == ""


@served
async def test_the_checker_sees_the_project_when_a_turn_begins_and_before_it_judges(tmp_path: Path) -> None:
    order: list[str] = []

    async def began(start: Event | None) -> None:
        await asyncio.sleep(0.02)
        order.append(f"began {start and start.turn_index}")

    class Noting(Checks):
        async def __call__(self, stop: Event) -> Report:
            order.append("checked")
            return await super().__call__(stop)

    async with room(tmp_path) as host:
        session = host.session()
        async with following(host, session, Noting("failed", "verified"), began=began) as judging:
            await judging.settled()
            session.prompt("one")
            await judging.many(2)
            await judging.close()
    assert order == ["began 1", "checked", "checked"]


# --- coming late ------------------------------------------------------------------------------------------


@served
async def test_of_the_turns_before_only_the_last_is_judged_if_that_is_wanted(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        for prompt in ("one", "two", "three"):
            session.prompt(prompt)
            await session.idle()
        checks = Checks("verified")
        async with following(host, session, checks, since=0, latest=True) as judging:
            assert await judging.many(1) == [(3, "verified", "")]
            await judging.close()
        async with following(host, session, Checks("verified"), since=0) as judging:
            assert [turn for turn, _, _ in await judging.many(3)] == [1, 2, 3]
            await judging.close()


@served
async def test_a_turn_that_runs_is_the_last_one_and_is_waited_for(tmp_path: Path) -> None:
    model = answering()
    async with room(tmp_path, model) as host:
        session = host.session()
        session.prompt("one")
        await session.idle()
        model.go_on.clear()
        session.prompt("two")
        checks = Checks("verified")
        async with following(host, session, checks, since=0, latest=True) as judging:
            await judging.settled()
            assert checks.seen == []
            model.go_on.set()
            assert await judging.many(1) == [(2, "verified", "")]
            await judging.close()


@served
async def test_a_session_that_is_not_there_or_goes_is_said(tmp_path: Path) -> None:
    async with room(tmp_path) as host:
        session = host.session()
        async with following(host, session, Checks("verified")) as judging:
            await judging.settled()
            host.store._close(session)
            with pytest.raises(BuilderGone, match="the builder left: session_shutdown"):
                await judging.next()
        async with following(host, session, Checks("verified")) as judging:
            with pytest.raises(BuilderGone, match="nothing is listening on"):
                await judging.next()


# --- builders that die ------------------------------------------------------------------------------------


class RawBuilder:
    """A builder on a real socket whose every word is the test's."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._come: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def live(self) -> dict[str, Any]:
        """Listen, and take the next verifier; gives its hello."""
        self._server = await asyncio.start_unix_server(lambda *streams: self._come.put(streams), self.path)
        async with asyncio.timeout(WAIT):
            self._reader, self._writer = await self._come.get()
        return await self.next("hello")

    def die(self) -> None:
        """As a process that is killed: the socket stays, and nobody is behind it."""
        assert self._server is not None
        assert self._writer is not None
        self._server.close()
        self._writer.transport.abort()

    def send(self, type: str, **fields: Any) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps({"type": type, **fields}).encode() + b"\n")

    def stop(self, turn: int = 1, end: int = 5) -> None:
        self.send(
            "event",
            name="stop",
            sessionId="s",
            turnIndex=turn,
            timestamp=1,
            userPrompt="p",
            sessionFileStartLine=1,
            sessionFileEndLine=end,
        )

    async def next(self, type: str, **wanted: Any) -> dict[str, Any]:
        """The next envelope of a type; pings are not answered."""
        while True:
            async with asyncio.timeout(WAIT):
                envelope: dict[str, Any] = json.loads(await self._reader.readline())
            if envelope["type"] == type and wanted.items() <= envelope.items():
                return envelope

    async def pongs(self, nonce: str) -> None:
        await self.next("ping", nonce=nonce)
        self.send("pong", nonce=nonce)

    async def acks(self, ok: bool = True) -> dict[str, Any]:
        prompt = await self.next("prompt")
        self.send("prompt_ack", sessionId="s", correlationId=prompt["correlationId"], ok=ok)
        return prompt


@pytest.fixture
def sockets() -> Iterator[str]:
    place = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
    yield place
    shutil.rmtree(place)


@asynccontextmanager
async def raw(sockets: str, checks: Checks, **more: Any) -> AsyncIterator[tuple[RawBuilder, Judging]]:
    builder = RawBuilder(f"{sockets}/s.sock")
    follower = TurnFollower(builder.path, "s", checks, **more)
    async with aclosing(follower.judgements()) as judgements:  # type: ignore[type-var]
        judging = Judging(follower, judgements)
        yield builder, judging
        await judging.close()
    builder.die()


@served
async def test_a_builder_that_dies_in_the_check_gets_the_report_when_it_is_back(sockets: str) -> None:
    checks = Checks("verified")
    checks.may_end.clear()
    async with raw(sockets, checks) as (builder, judging):
        hello = await builder.live()
        assert "since" not in hello
        assert hello["pid"] == os.getpid()
        await builder.pongs("settled")
        builder.stop()
        await checks.begun.wait()
        builder.die()
        hello = await builder.live()
        assert hello["since"] == 0  # not judged yet
        builder.stop()  # it is told again, and judged once
        await builder.pongs("settled")
        checks.may_end.set()
        assert (await builder.next("report"))["turnIndex"] == 1
        await builder.pongs("reported")
        assert await judging.many(1) == [(1, "verified", "")]
        await asyncio.sleep(0.02)  # the next would be looked at by now
        assert len(checks.seen) == 1
        builder.die()
        assert (await builder.live())["since"] == 5


@served
async def test_a_correction_that_a_dying_builder_did_not_take_is_sent_again(sockets: str) -> None:
    async with raw(sockets, Checks("failed")) as (builder, judging):
        await builder.live()
        await builder.pongs("settled")
        builder.stop()
        await builder.next("prompt")
        builder.die()
        await builder.live()
        builder.stop()  # the same lines: nothing came of the prompt
        await builder.pongs("settled")
        await builder.acks()
        await builder.next("report")
        await builder.pongs("reported")
        assert await judging.many(1) == [(1, "failed", "")]


@served
async def test_a_correction_that_a_dying_builder_did_take_is_not_sent_again(sockets: str) -> None:
    checks = Checks("failed", "verified")
    async with raw(sockets, checks) as (builder, judging):
        await builder.live()
        await builder.pongs("settled")
        builder.stop()
        await builder.next("prompt")
        builder.die()
        await builder.live()
        builder.stop(end=9)  # the turn went on
        await builder.pongs("settled")
        for status in ("failed", "verified"):  # each stop has its report
            assert (await builder.next("report"))["status"] == status
            await builder.pongs("reported")
            assert await judging.many(1) == [(1, status, "")]
        assert [stop.session_file_end_line for stop in checks.seen] == [5, 9]


@served
async def test_a_report_that_a_dying_builder_may_not_have_read_is_sent_again(sockets: str) -> None:
    async with raw(sockets, Checks("verified")) as (builder, judging):
        await builder.live()
        await builder.pongs("settled")
        builder.stop()
        first = await builder.next("report")
        builder.die()
        await builder.live()
        await builder.pongs("settled")
        assert await builder.next("report") == first
        await builder.pongs("reported")
        assert await judging.many(1) == [(1, "verified", "")]


@served
async def test_a_turn_in_which_the_builder_died_is_judged_as_the_next_one_tells_it(sockets: str) -> None:
    async with raw(sockets, Checks("verified")) as (builder, judging):
        await builder.live()
        await builder.pongs("settled")
        builder.send("event", name="start", sessionId="s", turnIndex=4, timestamp=1, sessionFileStartLine=30)
        await asyncio.sleep(0.02)
        builder.die()
        assert (await builder.live())["since"] == 29
        builder.stop(4, 33)
        await builder.pongs("settled")
        await builder.next("report")
        await builder.pongs("reported")
        assert await judging.many(1) == [(4, "verified", "")]


@served
async def test_a_builder_that_answers_no_prompt_is_not_waited_for_for_ever(
    sockets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.wire.verifier.ACK_DEADLINE", 0.05)
    async with raw(sockets, Checks("failed")) as (builder, judging):
        await builder.live()
        await builder.pongs("settled")
        builder.stop()
        await builder.next("report")
        await builder.pongs("reported")
        assert await judging.many(1) == [(1, "failed", "the builder did not answer within 0.05 seconds")]


@served
async def test_a_builder_that_went_for_good_is_given_up(
    sockets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RECONNECT_WAIT", 0.1)
    looked: list[bool] = []
    async with raw(sockets, Checks("verified"), missed=lambda: looked.append(True)) as (builder, judging):
        await builder.live()
        builder.die()
        with pytest.raises(BuilderGone, match="nothing is listening on"):
            await judging.next()
        assert looked


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"type":"dance"}\n', b'{"type":"hello","role":1}\n\n'])
@served
async def test_a_builder_that_makes_no_sense_does_not_end_the_verifier(sockets: str, line: bytes) -> None:
    async with raw(sockets, Checks("verified")) as (builder, judging):
        await builder.live()
        assert builder._writer is not None
        builder._writer.write(line)
        await asyncio.sleep(0.02)
        builder.die()
        await builder.live()
        await builder.pongs("settled")
        builder.stop()
        await builder.next("report")
        await builder.pongs("reported")
        assert await judging.many(1) == [(1, "verified", "")]
