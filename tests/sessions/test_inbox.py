"""The inbox: the first answer counts, who asks hears it, and what nobody asks again is lost and not gone."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import msgspec
import pytest

from fairlead.sessions import inbox as inboxes
from fairlead.sessions.inbox import (
    AnsweredAlready,
    Asker,
    AskerGone,
    Inbox,
    NoSuchOption,
    NotOpen,
    Unheard,
    calling_agent,
)
from fairlead.sessions.questions import ALLOW, ANSWER, DENY, DISMISS, Answer, AnswerOption, Question


def question(id: str = "1f3c5a77", **more: object) -> Question:
    known: dict[str, object] = {
        "id": id,
        "kind": "consent",
        "session": "s1",
        "session_name": "garden",
        "project": "/srv/garden",
        "title": "bash",
        "what": "$ make",
        "whole": "make",
        "asked_at": time.time(),
    }
    return msgspec.convert(known | more, Question)


class Agent:
    """Asks, and keeps what it hears."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.heard: list[tuple[str, str, str]] = []
        self.fails = fails
        self.gate: asyncio.Event | None = None

    async def answered(self, question: Question, answer: Answer) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        self.heard.append((question.id, answer.option, answer.by))


class Listener:
    def __init__(self) -> None:
        self.told: list[str] = []

    def asked(self, question: Question) -> None:
        self.told.append(f"asked {question.id}")

    def closed(self, question: Question, answer: Answer) -> None:
        self.told.append(f"{answer.option} {question.id} by {answer.by}")

    def warned(self, question: Question, why: str) -> None:
        self.told.append(f"{question.id}: {why}")


def nobody(question: Question) -> Asker | str | None:
    return "its session is gone"


def test_the_first_answer_counts_and_the_second_is_told_who_said_what_and_when() -> None:
    async def work() -> None:
        inbox, agent, listener = Inbox(), Agent(), Listener()
        inbox.listen(listener)
        inbox.ask(question(), agent)
        agent.gate = asyncio.Event()
        answers = [
            asyncio.ensure_future(inbox.answer("1f3c5a77", option, by))
            for option, by in (("deny", "an editor"), ("allow", "talk"))
        ]
        await asyncio.sleep(0)
        agent.gate.set()
        first, second = await asyncio.gather(*answers, return_exceptions=True)
        assert isinstance(first, tuple)
        assert isinstance(second, AnsweredAlready)
        day = time.strftime("%Y-%m-%d ")
        assert f"1f3c5a77 was answered already: denied by an editor at {day}" in str(second)
        assert agent.heard == [("1f3c5a77", "deny", "an editor")]
        assert listener.told == ["asked 1f3c5a77", "deny 1f3c5a77 by an editor"]

    asyncio.run(work())


def test_an_answer_that_can_not_be_taken_leaves_the_question_open() -> None:
    async def work() -> None:
        inbox, agent = Inbox(), Agent(Unheard("the disk is full"))
        inbox.ask(question(), agent)
        with pytest.raises(Unheard, match="the disk is full"):
            await inbox.answer("1f3c5a77", "allow", "me")
        agent.fails = None
        await inbox.answer("1f3c", "allow", "me")  # the beginning of its token is enough
        assert agent.heard == [("1f3c5a77", "allow", "me")]

    asyncio.run(work())


def test_wrong_tokens_and_answers_are_said() -> None:
    async def work() -> None:
        inbox, agent = Inbox(), Agent()
        inbox.ask(question("aaaa1111", options=(ALLOW, DENY)), agent)
        inbox.ask(question("aaaa2222", session="s2", project="/srv/other"), agent)
        for id, why in (("aaaa", "2 questions begin with 'aaaa'"), ("aaa", "'aaa' is too short: give 4")):
            with pytest.raises(NotOpen, match=why):
                inbox.find(id)
        with pytest.raises(NoSuchOption, match="'always' is no answer to aaaa1111; it takes allow, deny"):
            await inbox.answer("aaaa1111", "always", "me")
        assert [each.id for each in inbox.open("/srv/garden")] == ["aaaa1111"]
        assert len(inbox.open()) == 2
        inbox.ask(question("aaaa1111", session="s2"), Agent())  # another session can't take its place
        assert inbox.find("aaaa1111").session == "s1"

    asyncio.run(work())


def test_a_question_is_told_of_once_and_what_is_withdrawn_says_so() -> None:
    async def work() -> None:
        inbox, agent, listener = Inbox(), Agent(), Listener()
        inbox.listen(listener)
        asked = question()
        inbox.ask(asked, agent)
        inbox.ask(asked, agent)
        inbox.withdraw(asked.id, "abort")
        with pytest.raises(AnsweredAlready, match=r"1f3c5a77 was withdrawn at .*: abort"):
            await inbox.answer(asked.id, "allow", "me")
        assert listener.told == ["asked 1f3c5a77", "withdrawn 1f3c5a77 by abort"]

    asyncio.run(work())


def test_a_listener_that_fails_keeps_nothing_from_the_others() -> None:
    class Broken(Listener):
        def asked(self, question: Question) -> None:
            raise RuntimeError("this door is broken")

        def closed(self, question: Question, answer: Answer) -> None:
            raise RuntimeError("this door is broken")

    async def work() -> None:
        inbox, agent, listener = Inbox(), Agent(), Listener()
        inbox.listen(Broken())
        inbox.listen(listener)
        inbox.ask(question(), agent)
        await inbox.answer("1f3c5a77", "allow", "me")
        assert listener.told == ["asked 1f3c5a77", "allow 1f3c5a77 by me"]

    asyncio.run(work())


def test_what_nobody_asks_again_is_lost_until_it_is_dismissed(tmp_path: Path) -> None:
    path = tmp_path / "inbox.jsonl"

    async def work() -> None:
        first, agent = Inbox(str(path)), Agent()
        for id in ("kept", "gone", "late", "done"):
            first.ask(question(id, session=id), agent)
        await first.answer("done", "always", "me")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with path.open("ab") as file:
            file.write(b'{"asked": {"id": "half of a li')  # the daemon was killed, or the disk was full

        second = Inbox(str(path))
        second.load()
        second.ask(question("kept", session="kept"), agent)
        second.register("consent", lambda each: agent if each.id == "late" else nobody(each))
        second.reconcile()
        lost = {each.id: each.lost for each in second.open()}
        assert lost == {"kept": "", "gone": "its session is gone", "late": ""}
        with pytest.raises(AnsweredAlready, match="always allowed by me"):
            second.find("done")
        await second.answer("late", "deny", "me")
        assert agent.heard[-1] == ("late", "deny", "me")
        agent.fails = AskerGone("its journal is gone")
        with pytest.raises(AskerGone, match="kept is lost: its journal is gone"):
            await second.answer("kept", "allow", "me")

        third = Inbox(str(path))
        third.load()
        third.register("consent", lambda each: None)
        third.reconcile()
        assert {each.id: each.lost for each in third.open()} == {
            "gone": "its session is gone",
            "kept": "its journal is gone",
        }
        await third.answer("gone", "allow", "me")
        assert [each.id for each in third.open()] == ["kept"]

    asyncio.run(work())


def test_what_is_lost_is_shown_for_some_days(tmp_path: Path) -> None:
    first = Inbox(str(tmp_path / "inbox.jsonl"))
    first.ask(question("old", asked_at=time.time() - inboxes.LOST_KEPT - 1), Agent())
    first.ask(question("new", session="s2"), Agent())
    second = Inbox(str(tmp_path / "inbox.jsonl"))
    second.load()
    second.register("consent", nobody)
    second.reconcile()
    assert [each.id for each in second.open()] == ["new"]


def test_the_file_stays_small_and_its_faults_stop_no_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "MAX_FILE", 20_000)
    monkeypatch.setattr(inboxes, "MAX_CLOSED", 5)

    async def work(path: Path) -> Inbox:
        inbox, agent = Inbox(str(path)), Agent()
        for number in range(50):
            inbox.ask(question(f"q{number}", whole="x" * 100_000), agent)
            await inbox.answer(f"q{number}", "allow", "me")
        inbox.ask(question("last"), agent)
        assert len(agent.heard) == 50
        return inbox

    asyncio.run(work(tmp_path / "inbox.jsonl"))
    assert os.path.getsize(tmp_path / "inbox.jsonl") < 30_000
    again = Inbox(str(tmp_path / "inbox.jsonl"))
    again.load()
    again.register("consent", nobody)
    again.reconcile()
    assert [each.id for each in again.open()] == ["last"]
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for hindered in ("directory", "link", "nowhere/inbox.jsonl"):
        asyncio.run(work(tmp_path / hindered))
    assert not (tmp_path / "elsewhere").exists()


def test_garbage_in_the_file_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "inbox.jsonl"
    path.write_bytes(
        b"\xff\xfe\n" + b"[" * 100_000 + b'\nnull\n{"asked": 1}\n{"lost": {"id": "x", "why": "y"}}\n'
    )
    inbox = Inbox(str(path))
    inbox.load()
    inbox.register("consent", nobody)
    inbox.reconcile()
    assert inbox.open() == []


def test_what_only_has_to_be_seen_is_found_by_its_session_and_dismissed_by_no_agent() -> None:
    async def work() -> None:
        inbox, asker = Inbox(), Agent()
        seen = question("call", session="s-1234567", kind="escalation")
        inbox.ask(msgspec.structs.replace(seen, session_name="build", options=(DISMISS,)), asker)
        inbox.ask(question("consent"), asker)
        assert [each.id for each in inbox.consents] == ["consent"]
        assert [inbox.find(word).id for word in ("build", "s-1234567", "s-123456")] == ["call"] * 3
        token = calling_agent.set("build")
        with pytest.raises(Unheard, match="tried to dismiss this"):
            await inbox.answer("build", "deny", "me")
        with pytest.raises(Unheard, match="tried to deny this"):
            await inbox.answer("consent", "deny", "me")
        calling_agent.set(inbox.find("consent").session or "")
        _, answer = await inbox.answer("consent", "deny", "dashboard")  # to itself an agent may say no
        assert answer.by == "the agent itself", "whatever it says that it is"
        calling_agent.reset(token)
        with pytest.raises(
            NoSuchOption, match="this can only be dismissed: `fairlead approvals dismiss call`"
        ):
            await inbox.answer("build", "allow", "me")
        await inbox.answer("build", "deny", "me")
        assert inbox.open() == []

    asyncio.run(work())


def test_a_name_that_means_several_questions_is_refused_with_their_tokens() -> None:
    async def work() -> None:
        inbox, asker = Inbox(), Agent()
        calls = [
            question(f"{at}111aaaa", session=f"{at}-session", session_name="twin", kind="escalation")
            for at in "ab"
        ]
        for each in calls:
            inbox.ask(msgspec.structs.replace(each, options=(DISMISS,)), asker)
        with pytest.raises(NotOpen, match=r"2 questions are meant by 'twin': a111aaaa .*, b111aaaa "):
            await inbox.answer("twin", "deny", "me")
        assert inbox.word_for(calls[0], "twin") == "a111aaaa"
        assert inbox.find("a-se").id == "a111aaaa"
        # a session that is called as another's token begins does not get its answers
        inbox.ask(question("cafe1234", session="c-session"), asker)
        assert inbox.find("c-session").id == "cafe1234"
        shadow = question("dddd1234", session="cafe", session_name="cafe", kind="escalation")
        inbox.ask(msgspec.structs.replace(shadow, options=(DISMISS,)), asker)
        with pytest.raises(NotOpen, match=r"2 questions are meant by 'cafe': cafe1234 .*, dddd1234 "):
            await inbox.answer("cafe", "deny", "me")
        assert len(inbox.open()) == 4
        inbox.lose("cafe1234", "its session is gone")
        token = calling_agent.set("evil")
        with pytest.raises(Unheard, match="tried to dismiss this"):
            await inbox.answer("cafe1234", "deny", "me")
        calling_agent.reset(token)
        await inbox.answer("cafe1234", "deny", "me")

    asyncio.run(work())


def test_what_answers_and_askers_are_called_imitates_no_other() -> None:
    names = ["2", "1", "deny", 'Cancel"), 4 ("Delete']
    options = tuple(AnswerOption(str(number), name) for number, name in enumerate(names, 1))
    asked = question(kind="dialog", session=None, session_name="session garden (s1) in /srv", options=options)
    assert asked.who == 'program "session garden (s1) in /srv" in /srv/garden'
    refused = asked.reply(ANSWER, "5")
    assert isinstance(refused, str)
    assert refused.endswith(r'takes 1 ("2"), 2 ("1"), 3 ("deny"), 4 ("Cancel\"), 4 (\"Delete")')
    for number in ("1", "2"):
        answer = asked.reply(ANSWER, number)
        assert isinstance(answer, Answer)
        assert answer.option == number
    long = question(
        kind="dialog", options=(AnswerOption("1", "x" * 1000), AnswerOption("deny", "Don't answer"))
    )
    assert len(str(long.reply(ANSWER, "no"))) < 300
