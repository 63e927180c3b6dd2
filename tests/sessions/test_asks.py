"""What agents ask a person: asked once, answered once, across daemons; and no more than a person can bear."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fairlead.sessions import asks as module
from fairlead.sessions.asks import Asks, TakenToken, TooManyAsked
from fairlead.sessions.inbox import AnsweredAlready, Inbox, Unheard
from fairlead.sessions.questions import ANSWER, CONSENT, DENY, WITHDRAWN, Answer, AnswerOption, Question

TOKEN = "0123abcd"


def question(id: str = TOKEN, **more: object) -> Question:
    known: dict[str, object] = {
        "id": id,
        "kind": "dialog",
        "session_name": "tester (MCP)",
        "project": "/srv/garden",
        "title": "question",
        "what": "Which colour?",
        "whole": "Which colour?",
        "options": (AnswerOption(DENY.value, "Don't answer"),),
        "takes_text": True,
        "asked_at": time.time(),
    }
    return msgspec.convert(known | more, Question)


def desk(directory: Path) -> tuple[Inbox, Asks]:
    """The questions of a daemon that has just started."""
    inbox = Inbox(str(directory / "inbox"))
    asks = Asks(str(directory / "asks"), inbox)
    inbox.load()
    asks.open()
    inbox.reconcile()
    return inbox, asks


async def gone(inbox: Inbox) -> None:
    """Wait until nothing is asked."""
    while inbox.open():
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(whole())


def test_all_who_wait_get_the_answer_and_who_asks_again_too(tmp_path: Path) -> None:
    async def work() -> None:
        inbox, asks = desk(tmp_path)
        asks.begin(question())
        asks.begin(question())
        assert [each.id for each in inbox.open()] == [TOKEN]
        waits = [asyncio.ensure_future(asks.wait(TOKEN)) for _ in range(2)]
        await asyncio.sleep(0)
        await inbox.answer(TOKEN, ANSWER, "me", "blue")
        assert [each.text for each in await asyncio.gather(*waits)] == ["blue", "blue"]
        asks.begin(question())
        assert (await asks.wait(TOKEN)).text == "blue"
        assert inbox.open() == []
        with pytest.raises(TakenToken, match=f"another question has the id {TOKEN}"):
            asks.begin(question(whole="May I?"))

    run(work)


class _Session:
    """Asks for a permission."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def answered(self, question: Question, answer: Answer) -> None:
        self.heard.append(answer.option)


@pytest.mark.parametrize("session", [None, "other", "victim"])
def test_nobody_asks_with_the_id_of_a_question_that_another_asked(
    tmp_path: Path, session: str | None
) -> None:
    async def work() -> None:
        inbox, asks = desk(tmp_path)
        victim = _Session()
        permission = question(kind="permission", session="victim", what="rm -rf x", options=CONSENT)
        inbox.ask(permission, victim)
        for _ in range(2):  # while it waits, and when it was answered
            with pytest.raises(TakenToken, match=f"another question has the id {TOKEN}"):
                asks.begin(question(session=session))
            asks.withdraw(TOKEN, "gone")
            if not victim.heard:
                assert inbox.open() == [permission]
                await inbox.answer(TOKEN, DENY.value, "me")
        assert victim.heard == [DENY.value]
        assert not (tmp_path / "asks").exists()

    run(work)


def test_the_question_of_one_session_is_not_waited_for_by_another(tmp_path: Path) -> None:
    async def work() -> None:
        _, asks = desk(tmp_path)
        asks.begin(question(session="one"))
        asks.begin(question(session="one"))
        for more in ({"session": "two"}, {"session": "one", "project": "/srv/other"}):
            with pytest.raises(TakenToken, match=f"another question has the id {TOKEN}"):
                asks.begin(question(**more))

    run(work)


def test_a_question_and_its_answer_are_known_to_the_next_daemon(tmp_path: Path) -> None:
    async def work() -> None:
        _, asks = desk(tmp_path)
        asks.begin(question())
        asks.close()
        inbox, asks = desk(tmp_path)
        [shown] = inbox.open()
        assert (shown.id, shown.lost) == (TOKEN, "")
        await inbox.answer(TOKEN, ANSWER, "me", "blue")
        asks.close()
        (tmp_path / "asks" / "half.json").write_text('{"question"')  # a file that nobody wrote whole
        inbox, asks = desk(tmp_path)
        assert inbox.open() == []
        asks.begin(question())
        assert (await asks.wait(TOKEN)).text == "blue"

    run(work)


def test_a_question_is_withdrawn_when_nobody_waits_for_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        inbox, asks = desk(tmp_path)
        asks.begin(question())
        first, second = (asyncio.ensure_future(asks.wait(TOKEN)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        asks.withdraw(TOKEN, "enough")  # another one still waits
        assert [each.id for each in inbox.open()] == [TOKEN]
        monkeypatch.setattr(module, "GRACE", 0.0)
        second.cancel()
        await gone(inbox)
        with pytest.raises(AnsweredAlready, match=r"withdrawn at .*: the agent that asked is gone"):
            await inbox.answer(TOKEN, ANSWER, "me", "blue")
        assert (await asks.wait(TOKEN)).option == WITHDRAWN

    run(work)


def test_a_question_that_the_next_daemon_finds_is_withdrawn_if_nobody_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        _, asks = desk(tmp_path)
        asks.begin(question())
        asks.close()
        monkeypatch.setattr(module.Asks, "restart_grace", 0.0)
        inbox, _ = desk(tmp_path)
        await gone(inbox)
        assert desk(tmp_path)[0].open() == []

    run(work)


def test_an_answer_that_can_not_be_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        inbox, asks = desk(tmp_path)
        asks.begin(question())
        with monkeypatch.context() as patched:
            patched.setattr(module, "replace_file", full)
            with pytest.raises(Unheard, match="can't be written: No space left"):
                await inbox.answer(TOKEN, ANSWER, "me", "blue")
            with pytest.raises(OSError, match="No space left"):
                asks.begin(question("9999eeee"))
        assert [each.id for each in inbox.open()] == [TOKEN]
        await inbox.answer(TOKEN, ANSWER, "me", "red")
        assert (await asks.wait(TOKEN)).text == "red"

    run(work)


# --- limits -----------------------------------------------------------------------------------------------


def test_one_project_and_one_session_have_few_questions_open_and_all_together_not_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(module.Asks, "max_open_each", 2)
        monkeypatch.setattr(module, "MAX_OPEN", 4)
        inbox, asks = desk(tmp_path)
        for number in range(2):
            asks.begin(question(f"{number}" * 8))
        with pytest.raises(TooManyAsked, match="2 questions of /srv/garden wait"):
            asks.begin(question())
        for number in range(2, 4):  # a session does not get more by naming other projects
            asks.begin(question(f"{number}" * 8, session="s1", project=f"/srv/{number}"))
        monkeypatch.setattr(module, "MAX_OPEN", 5)
        with pytest.raises(TooManyAsked, match="2 questions of this session wait"):
            asks.begin(question(session="s1", project="/srv/other"))
        monkeypatch.setattr(module, "MAX_OPEN", 4)
        with pytest.raises(TooManyAsked, match="4 questions of agents wait"):
            asks.begin(question(project="/srv/other"))
        assert len(inbox.open()) == len(list((tmp_path / "asks").iterdir())) == 4
        await inbox.answer("00000000", "deny", "me")
        asks.begin(question())

    run(work)


@pytest.mark.parametrize("by", ["project", "session"])
def test_a_person_gets_60_questions_an_hour_of_a_project_or_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    def asked(number: int) -> Question:
        if by == "project":
            return question(f"{number:08x}", session=f"s{number}")
        return question(f"{number:08x}", session="s1", project=f"/srv/{number}")

    async def work() -> None:
        now = 1000.0
        clock = SimpleNamespace(time=time.time, monotonic=lambda: now)
        monkeypatch.setattr(module, "time", clock)
        inbox, asks = desk(tmp_path)
        for number in range(60):
            asks.begin(asked(number))
            await inbox.answer(f"{number:08x}", "deny", "me")
            now += 1.0
        with pytest.raises(TooManyAsked, match=f"a person got 60 questions of the {by} .* within an hour"):
            asks.begin(asked(60))
        assert inbox.open() == []
        asks.begin(question("9999eeee", session="s2000", project="/srv/other"))
        now = 1000.0 + 3600.0  # the first is an hour ago, the second not yet
        asks.begin(asked(61))
        with pytest.raises(TooManyAsked, match="within an hour"):
            asks.begin(asked(62))

    run(work)


def test_no_more_answers_are_kept_than_may_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(module, "MAX_KEPT", 3)
        inbox, asks = desk(tmp_path)
        asks.begin(question())  # the oldest, and open
        for number in range(5):
            asks.begin(question(f"{number:08x}"))
            await inbox.answer(f"{number:08x}", "deny", "me")
        kept = sorted(each.stem for each in (tmp_path / "asks").iterdir())
        assert kept == ["00000002", "00000003", "00000004", TOKEN]

    run(work)
