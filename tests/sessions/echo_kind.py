"""A third kind of sessions, which exists only in the tests: agents in memory that echo what they are told.

`new NAME DIRECTORY` makes another session, `work WORD` writes the word into `answer.txt`,
`ask WHAT` asks a person for permission, `fail WHY` fails, `hang` works until it is stopped, and anything else
is said again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fairlead.sessions import feed
from fairlead.sessions.directory import Directory, NameTaken, NoSession, Summary
from fairlead.sessions.feed import Feed
from fairlead.sessions.inbox import Inbox
from fairlead.sessions.questions import ALLOW, DENY, Answer, Question
from fairlead.sessions.session import Prompt, Session
from fairlead.wire.verifier import Outcome

PIECE_SECONDS = 0.01
"""How long a word of an answer takes."""
STUBBORN = "I will not change it"
"""What a correction comes to."""
KIND = "echo"


class EchoFault(Exception):
    """A turn fails, as it was told to."""


@dataclasses.dataclass
class EchoTurn:
    """A turn. Its lines are those of what was said."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int = 0
    outcome: Outcome = "done"
    fault: str = ""


class _Job(NamedTuple):
    text: str
    prompt: Prompt | None
    """None for a correction."""


class EchoSession:
    """One session: what was said, what it does now, and what waits for that."""

    kind = KIND
    file = model = ""
    began = 0.0

    def __init__(self, name: str, project: str, feed: Feed, inbox: Inbox, kind: EchoKind) -> None:
        self.id = str(uuid.uuid4())
        self.name = name
        self.project = project
        self.turns: list[EchoTurn] = []
        self.said: list[str] = []
        self.active_at = self.started_at = time.time()
        self._feed = feed
        self._inbox = inbox
        self._kind = kind
        self._waiting: deque[_Job] = deque()
        self._now: Prompt | None = None
        self._task: asyncio.Task[None] | None = None
        self._doing: asyncio.Future[None] | None = None
        self._ending: Literal["aborted", "interrupted"] = "aborted"
        self._answer: asyncio.Future[Answer] | None = None

    @property
    def is_working(self) -> bool:
        return self._task is not None

    def correct(self, text: str, *, steer: bool) -> None:
        if not self.turns:
            raise ValueError("there is no turn to correct yet")
        self.turns[-1].corrections += 1
        self._waiting.appendleft(_Job(text, None))
        self._begin()

    def prompt(self, prompt: Prompt) -> None:
        self._waiting.append(_Job(prompt.text, prompt))
        self._begin()

    def stop(self) -> bool:
        """End what it does, and drop what waits for that; true if it did something."""
        for job in list(self._waiting):
            self._drop(job)
        return self._end("aborted")

    def interrupt(self, prompt: str | None) -> None:
        """End what it does, or what came of a prompt."""
        waiting = [job for job in self._waiting if job.prompt is not None and job.prompt.id == prompt]
        for job in waiting:
            self._drop(job)
        if prompt is None or (self._now is not None and self._now.id == prompt):
            self._end("interrupted")

    def _drop(self, job: _Job) -> None:
        self._waiting.remove(job)
        if job.prompt is not None:
            self._feed.post(feed.PromptEnded(self.id, job.prompt.id, "dropped", "it was never said"))

    def _end(self, how: Literal["aborted", "interrupted"]) -> bool:
        self._ending = how
        return self._doing is not None and self._doing.cancel()

    async def settled(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])

    async def answered(self, question: Question, answer: Answer) -> None:
        assert self._answer is not None
        self._answer.set_result(answer)

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
            self._feed.post(feed.Changed(self.id))

    async def _work(self) -> None:
        while self._waiting:
            await self._do(self._waiting.popleft())
        self._task = None
        self._feed.post(feed.Changed(self.id))

    async def _do(self, job: _Job) -> None:
        """Do one thing, and post what comes of it."""
        line = len(self.said) + 1
        self.said += [f"> {each}" for each in job.text.split("\n")]
        self._now = job.prompt
        if job.prompt is not None:
            self.turns.append(EchoTurn(len(self.turns) + 1, job.text, line, line))
            self._feed.post(feed.PromptStarted(self.id, job.prompt.id))
            self._feed.post(feed.TurnBegan(self.id, dataclasses.replace(self.turns[-1])))
        turn, fault = self.turns[-1], ""
        outcome: Literal["done", "failed", "aborted", "interrupted"] = "done"
        try:
            doing = self._follow(*job.text.partition(" ")[::2]) if job.prompt else self._say(STUBBORN)
            self._doing = asyncio.ensure_future(doing)
            await self._doing
        except asyncio.CancelledError:
            outcome = self._ending
        except EchoFault as error:
            outcome, fault = "failed", str(error)
            self._feed.post(feed.Failed(self.id, fault))
        turn.outcome, turn.fault, turn.last_line = outcome, fault, len(self.said)
        self.active_at, self._now = time.time(), None
        self._feed.post(feed.TurnEnded(self.id, dataclasses.replace(turn)))
        if job.prompt is not None:
            self._feed.post(feed.PromptEnded(self.id, job.prompt.id, outcome, fault))

    async def _follow(self, word: str, rest: str) -> None:
        match word:
            case "new":
                try:
                    name, _, project = rest.partition(" ")
                    await self._kind.make(name, project)
                except NameTaken as error:
                    raise EchoFault(str(error)) from None
                await self._say(f"{name} is there")
            case "work":
                Path(self.project, "answer.txt").write_text(f"{rest}\n")
                await self._say(f"the answer is {rest}")
            case "ask":
                answer = await self._ask(rest)
                await self._say(f"{rest}: {'allowed' if answer.allows else 'denied'} by {answer.by}")
            case "fail":
                raise EchoFault(rest)
            case "hang":
                await self._say("working")
                await asyncio.Event().wait()
            case _:
                await self._say(f"you said {word} {rest}".rstrip())

    async def _say(self, text: str) -> None:
        """Say something word by word."""
        for at, word in enumerate(text.split(" ")):
            await asyncio.sleep(PIECE_SECONDS)
            self._feed.post(feed.SaidPiece(self.id, f" {word}" if at else word))
        self.said += text.split("\n")

    async def _ask(self, what: str) -> Answer:
        question = Question(
            id=secrets.token_hex(4),
            kind="permission",
            session=self.id,
            session_name=self.name,
            project=self.project,
            title=KIND,
            what=what,
            whole=what,
            reason="it was told to ask",
            options=(ALLOW, DENY),
            asked_at=time.time(),
        )
        self._answer = asyncio.get_running_loop().create_future()
        self._inbox.ask(question, self)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._inbox.withdraw(question.id, "it was stopped")
            raise

    def summary(self) -> Summary:
        return Summary(
            id=self.id,
            kind=KIND,
            name=self.name,
            project=self.project,
            state="working" if self.is_working else "idle",
            what=self.turns[0].prompt if self.turns else "",
            started_at=self.started_at,
            idle=0.0 if self.is_working else time.time() - self.active_at,
        )


class EchoKind:
    """All echo sessions; `names` has the directories of those that are there from the start."""

    name = KIND
    gives_ids = True

    def __init__(self, feed: Feed, inbox: Inbox, directory: Directory, names: Mapping[str, str]) -> None:
        self._feed = feed
        self._inbox = inbox
        self._directory = directory
        self._names = names
        self._sessions: dict[str, EchoSession] = {}

    async def open(self) -> None:
        for name, project in self._names.items():
            await self.make(name, project)

    async def close(self) -> None:
        for session in self._sessions.values():
            session.stop()
            await session.settled()

    async def make(self, name: str, project: str) -> str:
        await self._directory.check_free(name, but=KIND)
        session = EchoSession(name, project, self._feed, self._inbox, self)
        self._sessions[session.id] = session
        self._feed.post(feed.Created(session.id))
        self._feed.post(feed.Opened(session.id, session))
        return session.id

    def _found(self, id: str) -> EchoSession:
        if id not in self._sessions:
            raise NoSession(f"no echo session {id!r}")
        return self._sessions[id]

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        return [each.summary() for each in self._sessions.values()]

    async def find(self, word: str, *, every: bool) -> Sequence[Summary]:
        found = [s for s in self._sessions.values() if s.name == word or s.id.startswith(word)]
        return [each.summary() for each in reversed(found)]

    def name_of(self, id: str) -> str | None:
        return self._sessions[id].name if id in self._sessions else None

    async def live(self, id: str) -> Session:
        return self._found(id)

    async def stop(self, id: str) -> Mapping[str, Any]:
        return {"stopped": self._found(id).stop()}

    async def prompt(self, id: str, prompt: Prompt) -> None:
        self._found(id).prompt(prompt)

    async def interrupt(self, id: str, prompt: str | None = None) -> None:
        self._found(id).interrupt(prompt)

    async def lines(self, id: str) -> Sequence[str]:
        return self._found(id).said

    async def settled(self, id: str) -> None:
        await self._found(id).settled()
