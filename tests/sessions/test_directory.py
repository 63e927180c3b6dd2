"""The directory knows sessions of any kind, also of one that exists only here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fairlead.sessions.directory import Directory, NameTaken, NoSession, NotSupported, Summary
from fairlead.sessions.feed import Feed
from fairlead.sessions.inbox import Inbox
from fairlead.sessions.questions import Answer, Question
from fairlead.sessions.session import Prompt, Session
from fairlead.sessions.state import States


class Notes:
    """A kind: notes that somebody writes. They can be prompted, and never end."""

    name = "note"
    gives_ids = True

    def __init__(self, *names: str) -> None:
        self.notes: dict[str, list[str]] = {f"{name}-{'0' * 8}": [] for name in names}

    def _summary(self, id: str) -> Summary:
        name = id.partition("-")[0]
        return Summary(id=id, kind=self.name, name=name, project="/notes", state="working")

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        return [self._summary(id) for id in self.notes]

    async def find(self, word: str, *, every: bool) -> Sequence[Summary]:
        return [each for each in await self.list(brief=True) if each.id.startswith(word)]

    def name_of(self, id: str) -> str | None:
        return id.partition("-")[0] if id in self.notes else None

    async def stop(self, id: str) -> Mapping[str, Any]:
        raise NotSupported("a note has nothing to stop")

    async def prompt(self, id: str, prompt: Prompt) -> None:
        self.notes[id].append(prompt.text)

    async def interrupt(self, id: str, prompt: str | None = None) -> None:
        raise NotSupported("a note does nothing")

    async def lines(self, id: str) -> Sequence[str]:
        return self.notes[id]

    async def settled(self, id: str) -> None:
        pass

    async def live(self, id: str) -> Session:
        raise NotSupported("a note has no turns")


class Asker:
    async def answered(self, question: Question, answer: Answer) -> None:
        pass


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def directory(inbox: Inbox) -> Directory:
    verdicts = {"roses-00000000": {"confidence": "VERIFIED", "escalated": None}}
    directory = Directory(inbox, verdicts.get, States(Feed(), "", lambda id: False))
    directory.add(Notes("roses", "tulips"))
    directory.add(Notes("tulipa"))
    return directory


def test_all_sessions_are_in_one_list_with_what_others_know_of_them(
    directory: Directory, inbox: Inbox
) -> None:
    question = Question(
        id="q", kind="consent", session="tulips-00000000", title="x", what="water it", asked_at=time.time()
    )

    async def listed() -> Sequence[Summary]:
        inbox.ask(question, Asker())
        return await directory.list()

    found = {each.name: each for each in asyncio.run(listed())}
    assert list(found) == ["roses", "tulips", "tulipa"]
    assert (found["tulips"].state, found["tulips"].waits_for) == ("asks", "water it")
    assert (found["roses"].state, found["roses"].row["verdict"]["confidence"]) == ("working", "VERIFIED")
    assert "verdict" not in found["tulips"].row
    assert directory.questions == 1


def test_a_session_is_found_by_name_id_or_the_beginning_of_an_id(directory: Directory) -> None:
    def found(word: str) -> str:
        return asyncio.run(directory.find(word))[1].name

    assert [found(word) for word in ("roses", "roses-00000000", "rose", "tulips-0")] == [
        "roses",
        "roses",
        "roses",
        "tulips",
    ]
    for word, why in (
        ("ros", "no session 'ros'; did you mean roses?"),
        ("tuli", "2 sessions begin with 'tuli'; give more of the id"),
        ("daisies", "no session 'daisies'"),
    ):
        with pytest.raises(NoSession, match=why.replace("?", r"\?")):
            found(word)


def test_a_name_is_taken_once_among_all_kinds(directory: Directory) -> None:
    def check(name: str) -> None:
        asyncio.run(directory.check_free(name, but="terminal"))

    check("daisies")
    with pytest.raises(NameTaken, match="a note session is already called 'roses'; choose another name"):
        check("roses")
    with pytest.raises(NameTaken, match="'roses-' is the beginning of the id of the note session roses"):
        check("roses-")
