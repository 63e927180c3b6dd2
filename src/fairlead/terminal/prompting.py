"""Prompts for agents in terminals: one after the other, each said once, and what became of each.

A prompt waits here until its agent is idle and shows its empty input, and is then submitted
(`submitting.py`). Its agent has taken it if a hook says so, or its screen does; it has ended when a hook says
so, or the agent is idle again. What is known of a session's prompts is in a file of its own, so that the next
daemon goes on with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from ..formats.halves import encodable
from ..formats.shown import one_line
from ..sessions import feed
from ..sessions.directory import InTheWay, NotSupported
from ..sessions.feed import Feed, FeedEvent
from ..sessions.inbox import calling_agent
from ..sessions.session import (
    MAX_RECEIPTS,
    MAX_WORDS,
    STAGES,
    PastPrompt,
    Prompt,
    PromptOutcome,
    PromptStage,
    Receipt,
    Turn,
)
from ..sessions.timeline import TimedPrompt
from ..system.files import replace_file
from ..system.opening import read_file
from ..wire.jsonrpc import json_bytes
from .ports import ProgramState
from .screen.screen import pasteable
from .session import TerminalSession
from .state.front import SHELLS
from .submitting import MAX_SUBMITTED, InputView, NotSeen, Obstacle, Submitter, Submitters, same_text

log = logging.getLogger("fairlead")

MAX_QUEUED = 20
"""How many prompts may wait for one session."""
MAX_KEPT = MAX_RECEIPTS
"""Of how many prompts of a session it is known what became of them."""
MAX_FILE = 16 * 1024 * 1024
"""How many bytes that may have on the disk."""
QUEUE_WAIT = 3600.0
"""Seconds that a prompt waits for an agent that works, unless it says how long it may."""
KNOWN_WAIT = 2.0
"""Seconds until a screen that is not known counts as such: it may just be drawn."""
LOOK_EVERY = 0.25
"""Seconds between two looks at an agent that works,"""
LOOK_AT_MOST = 1.0
"""and so many more if its screen does not change."""
FREE_FOR = 0.3
"""Seconds that the way must be free; a shell at its prompt draws nothing more."""
IDLE_FOR = 1.5
"""Seconds that an agent which has worked must be idle until its turn counts as ended,"""
UNSEEN_FOR = 4.0
"""and one that was not seen to work,"""
HOOK_LATE = 10.0
"""and one whose hooks report its turns: their stop is late then."""


class GivenPrompt(Struct):
    """A prompt, and how far it has got."""

    id: str
    text: str
    by: str
    """The agent session for which it is typed, if it is."""
    agent: str
    """The program that it is for, as its rules call it."""
    deadline: float
    """Until when it may wait, in seconds since 1970."""
    step: Literal["", "pasted", "entered"] = ""
    """What has been typed, or is about to be."""
    written: float = 0.0
    accepted: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    outcome: PromptOutcome | None = None
    reason: str = ""
    turn: int = 0
    """The turn that it began, if a hook has said so."""
    asked: float = 0.0
    """When it was given,"""
    words: str = ""
    """and how it begins."""
    blocked: bool = False
    """Whether something that a person has to clear away was in its way when it was dropped."""
    refused: bool = False
    """Whether it was never taken: whoever gave it was told so, and it is only listed."""

    @property
    def state(self) -> PromptStage:
        return next((stage for stage in reversed(STAGES[1:]) if getattr(self, stage)), "queued")


class KnownPrompts(Struct):
    """All that is known of a session's prompts."""

    began: float
    """When the session began: another one of the same name is another session."""
    prompts: list[GivenPrompt] = field(default_factory=list)


class PromptQueue:
    """The prompts of one session, in their order."""

    def __init__(self, submitter: Submitter, known: KnownPrompts, path: str, feed: Feed) -> None:
        self._submitter = submitter
        self._session = submitter.session
        self._known = known
        self._path = path
        self._feed = feed
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._hook_ended: Turn | None = None
        self._wake = asyncio.Event()
        self._adding = asyncio.Lock()
        self._obstacle: Obstacle | None = None
        """What is in the way of the first one that waits."""
        self._task: asyncio.Task[None] | None = None
        self._go_on()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._changed.set()

    # --- for others -----------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[GivenPrompt]:
        return [each for each in self._known.prompts if each.state == "queued"]

    def receipt(self, id: str) -> Receipt | None:
        prompts = self._known.prompts
        found = next((each for each in prompts if each.id == id and not each.refused), None)
        return self._receipt(found) if found is not None else None

    def _receipt(self, found: GivenPrompt) -> Receipt:
        is_queued, obstacle = found.state == "queued", self._obstacle
        return Receipt(
            found.state,
            **{stage: getattr(found, stage) for stage in STAGES[1:]},
            place=self.waiting.index(found) + 1 if is_queued else 0,
            outcome=found.outcome,
            reason=found.reason,
            waits_for=str(obstacle) if is_queued and obstacle is not None else "",
            blocked=obstacle.blocks if is_queued and obstacle is not None else found.blocked,
        )

    @property
    def past(self) -> Sequence[PastPrompt]:
        """All prompts of which it is known what became of them, in their order."""
        return [
            PastPrompt(each.id, each.asked, each.words, self._receipt(each)) for each in self._known.prompts
        ]

    @property
    def timed(self) -> list[TimedPrompt]:
        """How far each prompt has got that began a turn."""
        prompts = self._known.prompts
        return [TimedPrompt(each.id, each.turn, each.written, each.accepted) for each in prompts if each.turn]

    async def changed(self) -> None:
        """Wait until a prompt has got further."""
        await self._changed.wait()

    async def add(self, prompt: Prompt) -> int | None:
        """Take a prompt; returns its place if it has to wait. Raises NotSupported with what is in the way."""
        if len(prompt.text) > MAX_SUBMITTED:
            long = f"a prompt of {len(prompt.text)} characters"
            raise NotSupported(f"{long}; at most {MAX_SUBMITTED} are typed into a terminal")
        if not pasteable(prompt.text).strip():
            raise NotSupported("the prompt is empty")
        async with self._adding:
            waiting = len(self.waiting)
            if waiting >= MAX_QUEUED:
                raise NotSupported(f"{MAX_QUEUED} prompts wait for {self._session.id} already")
            view = await self._known_view()
            try:
                self._submitter.check(view)
                is_free = True
            except Obstacle as obstacle:
                is_free = False
                if view.state != "working" and not (obstacle.passes and prompt.patience):
                    self._note_refused(prompt, view.agent, obstacle)
                    raise (InTheWay if obstacle.blocks else NotSupported)(str(obstacle)) from None
            patience = prompt.patience or QUEUE_WAIT
            agent = view.agent or self._submitter.shell
            text, now = encodable(prompt.text), time.time()
            given = GivenPrompt(
                prompt.id,
                text,
                calling_agent.get(),
                agent,
                deadline=now + patience,
                asked=now,
                words=one_line(text[: 4 * MAX_WORDS], MAX_WORDS),
            )
            is_first = not any(each.state != "ended" for each in self._known.prompts)
            self._write([*self._known.prompts, given])
            self._known.prompts.append(given)
            self._tell()
            self._go_on()
            return None if is_free and is_first else len(self.waiting)

    def _note_refused(self, prompt: Prompt, agent: str, obstacle: Obstacle) -> None:
        """A prompt is refused at once: that is listed, and the same prompt may be given again."""
        now, words = time.time(), one_line(encodable(prompt.text)[: 4 * MAX_WORDS], MAX_WORDS)
        kept = [each for each in self._known.prompts if not (each.refused and each.id == prompt.id)]
        given = GivenPrompt(prompt.id, "", calling_agent.get(), agent, now, asked=now, words=words)
        given.ended, given.outcome, given.reason = now, "dropped", str(obstacle)
        given.blocked, given.refused = obstacle.blocks, True
        self._known.prompts[:] = [*kept, given]
        self._save()

    def drop(self, id: str, reason: str = "aborted before it was sent") -> bool:
        """Don't say a prompt that waits; true if it did."""
        found = next((each for each in self.waiting if each.id == id), None)
        if found is not None:
            found.blocked = self._obstacle is not None and self._obstacle.blocks
            self._end(found, "dropped", reason)
            self._wake.set()
        return found is not None

    async def withdraw(self, id: str, reason: str) -> bool:
        """The same, also for a prompt that is being taken now."""
        async with self._adding:
            return self.drop(id, reason)

    def is_running(self, id: str) -> bool:
        return any(each.id == id and each.state in ("accepted", "started") for each in self._known.prompts)

    def heard(self, event: FeedEvent) -> None:
        """A hook has reported a turn."""
        current = next((each for each in self._known.prompts if each.step and not each.ended), None)
        if current is None:
            return
        match event:
            case feed.TurnBegan(turn=turn) if current.step == "entered" and not current.turn:
                if same_text(turn.prompt, current.text):
                    current.turn = turn.number
                    self._taken.set()
                    self._save()
            case feed.TurnEnded(turn=turn) if current.turn == turn.number:
                self._hook_ended = turn
                self._wake.set()
            case feed.WentOn():
                self._hook_ended = None

    # --- saying ---------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._task is None and any(not each.ended for each in self._known.prompts):
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while (given := next((each for each in self._known.prompts if not each.ended), None)) is not None:
                try:
                    await self._say(given)
                except Obstacle as obstacle:
                    given.blocked = obstacle.blocks
                    self._end(given, "dropped", str(obstacle))
                except NotSeen as unsure:
                    self._end(given, "failed", str(unsure))
                except Exception as error:
                    log.exception("prompting %s failed", self._session.id)
                    self._end(given, "failed", f"{type(error).__name__}: {error}")
        finally:
            self._task = None

    async def _say(self, given: GivenPrompt) -> None:
        """Say a prompt and follow it to its end. Raises Obstacle or NotSeen."""
        self._taken = asyncio.Event()
        self._hook_ended = None
        began: bool | None = bool(given.started)
        is_ours = not given.accepted
        if not given.accepted:
            began = await self._resumed(given) if given.step else None
            while began is None and not given.ended:
                await self._way(given)
                began = await self._submitted(given)
        if given.ended:  # it was dropped meanwhile
            return
        self._reached(given, "accepted")
        if began:
            self._start(given)
        await self._followed(given, 0.0 if is_ours else self._quiet_since(given))

    async def _submitted(self, given: GivenPrompt) -> bool | None:
        """Submit a prompt; true if its turn has begun, None if it has to wait again."""
        try:
            return await self._submitter.submit(
                given.text,
                by=given.by,
                taken=self._taken,
                pasted=lambda: self._pasting(given),
                entering=lambda: self._step(given, "entered"),
            )
        except Obstacle as obstacle:
            if not obstacle.passes:
                raise
            if not given.ended:
                self._step(given, "")
            return None

    def _pasting(self, given: GivenPrompt) -> None:
        """Its text is about to be typed. Raises Obstacle if it was dropped meanwhile."""
        if given.ended:
            raise Obstacle(given.reason, passes=True)
        self._step(given, "pasted")

    async def _resumed(self, given: GivenPrompt) -> bool | None:
        """Go on with a prompt that another daemon has begun to type."""
        return await self._submitter.resume(
            given.text,
            by=given.by,
            taken=self._taken,
            was_entered=given.step == "entered",
            entering=lambda: self._step(given, "entered"),
        )

    async def _way(self, given: GivenPrompt) -> None:
        """Wait until the way is free for a prompt. Raises Obstacle."""
        free_since = 0.0
        try:
            while not given.ended:
                view = await self._known_view()
                self._check_agent(given, view)
                try:
                    self._submitter.check(view)
                except Obstacle as obstacle:
                    free_since = 0.0
                    if not obstacle.passes:
                        raise
                    if time.time() > given.deadline:
                        late = f"{obstacle}, and it was not sent in time"
                        raise Obstacle(late, blocks=obstacle.blocks) from None
                    self._obstacle = obstacle
                    await self._next_look(given.deadline - time.time())
                else:
                    self._obstacle = None
                    free_since = free_since or time.monotonic()
                    if time.monotonic() >= free_since + FREE_FOR or view.agent in SHELLS:
                        return
                    await asyncio.sleep(LOOK_EVERY)
        finally:
            self._obstacle = None

    def _check_agent(self, given: GivenPrompt, view: InputView) -> None:
        """Raises Obstacle if another program takes prompts now: a shell would run one as a command."""
        if view.agent and view.agent != given.agent:
            raise Obstacle(f"it was for {given.agent}, and {view.agent} is there now")

    async def _known_view(self) -> InputView:
        """What the program shows, when that is known or has not been for a while."""
        deadline = time.monotonic() + KNOWN_WAIT
        while True:
            view = await self._submitter.view()
            if not view.agent or view.state != "unknown" or time.monotonic() > deadline:
                return view
            await self._next_look(LOOK_EVERY)

    async def _next_look(self, seconds: float) -> None:
        """Wait until the screen has changed, for so long at the most."""
        wake = self._wake = asyncio.Event()
        self._session.watchers.add(wake.set)
        try:
            await asyncio.sleep(LOOK_EVERY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(seconds, LOOK_AT_MOST))):
                    await wake.wait()
        finally:
            self._session.watchers.discard(wake.set)

    def _quiet_since(self, given: GivenPrompt) -> float:
        """Since when nothing was printed in a turn that a daemon before us has followed. If the agent is idle
        now, it was since then: daemons that are ended again and again would never see it for long enough."""
        since = time.monotonic() - max(0.0, time.time() - max(given.accepted, given.started))
        return max(self._session.active_at, since)

    async def _followed(self, given: GivenPrompt, quiet_since: float) -> None:
        """Wait for the end of a prompt's turn. `quiet_since` counts until the agent prints or works."""
        idle_since = 0.0
        while True:
            if self._session.state is not ProgramState.RUNNING:
                self._end(given, "interrupted", "the program ended")
                return
            if given.turn:
                self._start(given)
            if self._submitter.is_checked:  # it may be sent back
                idle_since = quiet_since = 0.0
                await self._next_look(LOOK_EVERY)
                continue
            if (turn := self._hook_ended) is not None:
                outcome: PromptOutcome = "interrupted" if turn.outcome == "lost" else turn.outcome
                self._end(given, outcome, turn.fault)
                return
            view = await self._submitter.view()
            if view.agent and view.agent != given.agent:
                self._end(given, "interrupted", f"{given.agent} ended, and {view.agent} is there now")
                return
            if view.state == "idle":
                if self._session.active_at > quiet_since:
                    quiet_since = 0.0
                idle_since = idle_since or quiet_since or time.monotonic()
                wait = HOOK_LATE if given.turn else IDLE_FOR if given.started else UNSEEN_FOR
                if view.input == "rest" and time.monotonic() >= idle_since + IDLE_FOR:
                    self._end(given, "failed", f"{view.agent} waits for the rest of the command")
                    return
                reads_next = view.agent in SHELLS and view.is_free
                if reads_next or time.monotonic() >= idle_since + wait:
                    self._start(given)
                    self._end(given, "done", "")
                    return
            else:
                idle_since = 0.0
                if view.state in ("working", "waits") or not view.agent:
                    quiet_since = 0.0
                    self._start(given)
            await self._next_look(LOOK_EVERY)

    # --- keeping --------------------------------------------------------------------------------------------

    def _step(self, given: GivenPrompt, step: Literal["", "pasted", "entered"]) -> None:
        given.step = step
        given.written = time.time() if step else 0.0
        self._save()

    def _reached(self, given: GivenPrompt, stage: Literal["accepted", "started", "ended"]) -> None:
        if not getattr(given, stage):
            setattr(given, stage, time.time())
            self._save()

    def _start(self, given: GivenPrompt) -> None:
        if not given.started:
            self._reached(given, "started")
            self._feed.post(feed.PromptStarted(self._session.id, given.id))

    def _end(self, given: GivenPrompt, outcome: PromptOutcome, reason: str) -> None:
        given.outcome, given.reason, given.text = outcome, reason, ""
        self._reached(given, "ended")
        self._feed.post(feed.PromptEnded(self._session.id, given.id, outcome, reason))

    def _save(self) -> None:
        ended = [each for each in self._known.prompts if each.ended]
        for each in ended[: max(0, len(ended) - MAX_KEPT)]:
            self._known.prompts.remove(each)
        self._write(self._known.prompts)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _write(self, prompts: list[GivenPrompt]) -> None:
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            replace_file(self._path, json_bytes(KnownPrompts(self._known.began, prompts)))
        except OSError as error:
            log.warning("the prompts of %s can't be kept: %s", self._session.id, error)


class TerminalPrompts:
    """The prompts of all terminal sessions. `directory` has the files."""

    def __init__(self, submitters: Submitters, directory: str, feed: Feed) -> None:
        self._submitters = submitters
        self._directory = directory
        self._feed = feed
        self._queues: dict[str, PromptQueue] = {}
        feed.listen(self._happened)

    def opened(self, session: TerminalSession) -> None:
        """A session is there: what a daemon before us had to say is said now."""
        if _read(self._path(session), session.started_at) is not None:
            self.of(session)

    def closed(self, session: TerminalSession) -> None:
        """A session is forgotten."""
        if (queue := self._queues.pop(session.id, None)) is not None:
            queue.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path(session))
                os.rmdir(self._directory)

    def close(self) -> None:
        """The next daemon goes on."""
        for queue in self._queues.values():
            queue.close()

    def of(self, session: TerminalSession) -> PromptQueue:
        queue = self._queues.get(session.id)
        if queue is None:
            path = self._path(session)
            known = _read(path, session.started_at) or KnownPrompts(session.started_at)
            queue = PromptQueue(self._submitters.of(session), known, path, self._feed)
            self._queues[session.id] = queue
        return queue

    def get(self, id: str) -> PromptQueue | None:
        return self._queues.get(id)

    def _happened(self, event: FeedEvent) -> None:
        if (queue := self._queues.get(event.session)) is not None:
            queue.heard(event)

    def _path(self, session: TerminalSession) -> str:
        return f"{self._directory}/{session.id}.json"


def _read(path: str, began: float) -> KnownPrompts | None:
    try:
        known = msgspec.json.decode(read_file(path, MAX_FILE), type=KnownPrompts)
    except (OSError, msgspec.DecodeError):
        return None
    return known if known.began == began else None
