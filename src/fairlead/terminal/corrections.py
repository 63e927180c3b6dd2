"""How a correction gets to an agent in a terminal: as the answer to its `Stop` hook, else typed.

An agent that calls `fairlead hook` when it stops waits for the answer, and the answer can send it back:
nothing is typed. Where no hook waits, a correction is typed, but only into the empty input of an agent whose
screen is known (`submitting.py`): a dialog, a menu and a person's draft never get it. A
correction that no turn begins with in time was not delivered: that is told, and a person is called.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from msgspec import Struct

from ..system.processes import Program, foreground
from .ports import ProgramState
from .submitting import NotSeen, Obstacle, Submitter, same_text

STOP_PAUSE = 0.2
"""Seconds after a stop until something is typed: some agents end then, and what follows must not get it."""
BEGIN_LOOK = 0.25
"""Seconds between looks whether the agent's transcript grows."""
RETURN_WAIT = 10.0
"""Seconds that a hook and verifiers have to come back to the daemon after a restart."""
MAX_WAITING = 8
"""How many corrections may wait until an agent is done."""
LEAD = "A check of this work says:\n"
"""Typed before a correction that does not begin with a letter: `/`, `!` and `#` are commands of agents."""


class Sent(Struct, frozen=True):
    """A correction that was given to an agent, until the agent goes on with it."""

    text: str
    at: float
    how: Literal["hook", "typed"]
    size: int
    """How many bytes the agent's transcript had."""


class KnownAgentInput(Struct):
    """What is known of an agent that corrections go to, kept for the next daemon."""

    agent: str = ""
    file: str = ""
    program: Program | None = None
    is_working: bool = False
    tells_starts: bool = False
    """Whether its agent tells when a turn begins; some tell only of the end."""
    waiting: list[str] = []
    """Corrections that go to the agent when it is done."""
    sent: Sent | None = None
    call: str = ""
    """The last call of its stop hook, which comes again if the daemon was restarted meanwhile."""
    call_waits: bool = False
    """Whether that call waits for an answer."""


Told = Callable[[str, str], None]
"""Hears what becomes of a correction: a state, and why."""


class Delivery:
    """The corrections of one agent. `told` hears what becomes of them, `begun` that the agent goes on with
    one, which it must within `begin_wait` seconds; `save` keeps `known`."""

    def __init__(
        self,
        submitter: Submitter,
        known: KnownAgentInput,
        *,
        begin_wait: float,
        told: Told,
        begun: Callable[[str], None],
        save: Callable[[], None],
    ) -> None:
        self._submitter = submitter
        self._known = known
        self._begin_wait = begin_wait
        self._told = told
        self._begun = begun
        self._save = save
        self._hook: asyncio.Future[str] | None = None
        self._hook_left = False  # the hook that waited was ended by its agent
        self._made_at = time.monotonic()
        self.hooked()

    @property
    def pending(self) -> int:
        """How many corrections have not begun a turn yet."""
        return len(self._known.waiting) + (self._known.sent is not None)

    def resume(self) -> None:
        """Go on where the daemon before us ended."""
        if self._known.sent is not None:
            _in_background(self._watch(self._known.sent))
        elif self._known.waiting:
            self.go_on()

    # --- the agent ------------------------------------------------------------------------------------------

    def hooked(self) -> None:
        """The program that called the hook is the agent that it calls itself."""
        self._submitter.hooked = (self._known.program, self._known.agent)

    def is_sent(self, prompt: str) -> bool:
        """Whether a prompt that the agent tells of is the correction that it was given."""
        sent = self._known.sent
        return sent is not None and (not prompt.strip() or same_text(prompt, sent.text))

    def went_on(self) -> None:
        """The agent goes on with what it was given."""
        if (sent := self._known.sent) is not None:
            self._known.sent = None
            self._known.is_working = True
            self._begun(sent.text)
            self._told("started", "")
            self._save()

    def superseded(self, why: str = "a person has asked for something else") -> None:
        """What waits is not for this agent any more."""
        for _ in range(self.pending):
            self._told("refused", why)
        self._known.waiting.clear()
        self._known.sent = None

    async def answer(self, judged: Coroutine[Any, Any, None], seconds: float) -> str:
        """What the stop hook is answered: a correction, or nothing. Waits until it is `judged`."""
        known = self._known
        hook = self._hook = asyncio.get_running_loop().create_future()
        self._hook_left = False
        known.call_waits = True
        self.go_on()
        waiting = asyncio.ensure_future(judged)
        try:
            await asyncio.wait({hook, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._hook_left = True
            raise
        finally:
            waiting.cancel()
            if self._hook is hook:
                self._hook = None
            known.call_waits = False
            self._save()
        return hook.result() if hook.done() else ""

    # --- corrections ----------------------------------------------------------------------------------------

    def correct(self, text: str) -> None:
        """Give a correction to the agent, or keep it until the agent is done. Raises ValueError, with why
        neither is possible."""
        known = self._known
        if len(known.waiting) >= MAX_WAITING:
            raise ValueError(f"{MAX_WAITING} corrections wait already")
        if not self._waits_for_agent():
            self._check_input()
        elif self._hook is None:
            self._check_program()
            self._told("queued", "")
        known.waiting.append(text)
        self.go_on()

    def go_on(self) -> None:
        """Give the agent the next correction that waits, if it can take one now."""
        known = self._known
        if known.waiting and known.sent is None:
            if self._hook is not None and not self._hook.done():
                text = known.waiting.pop(0)
                self._hook.set_result(text)
                self._send(text, "hook")
                self._told("sent", "")
            elif self._may_return():
                asyncio.get_running_loop().call_later(RETURN_WAIT, self.go_on)
            elif not known.is_working:
                text = known.waiting.pop(0).replace("\r\n", "\n").replace("\r", "\n")
                text = text if text[:1].isalnum() else LEAD + text
                self._send(text, "typed", watch=False)
                _in_background(self._type(text))
        self._save()

    def _waits_for_agent(self) -> bool:
        """Whether a correction must wait for the agent, or for its hook, instead of being typed."""
        return self._hook is not None or bool(self.pending) or self._known.is_working or self._may_return()

    def _may_return(self) -> bool:
        """Whether a hook that waited when the daemon was restarted may still come back."""
        return (
            self._known.call_waits and self._hook is None and time.monotonic() < self._made_at + RETURN_WAIT
        )

    def _send(self, text: str, how: Literal["hook", "typed"], *, watch: bool = True) -> None:
        sent = self._known.sent = Sent(text, time.time(), how, _size(self._known.file))
        if watch:
            _in_background(self._watch(sent))

    async def _watch(self, sent: Sent) -> None:
        """Wait until the agent goes on with what it was given. A transcript that grows shows that, as agents
        call no hook for what a stop hook has told them."""
        while self._known.sent is sent:
            if sent.how == "hook" and _size(self._known.file) > sent.size:
                self.went_on()
            elif time.time() - sent.at > self._begin_wait:
                way = "it was given to its stop hook" if sent.how == "hook" else "it was typed"
                self._fail(f"no turn began within {self._begin_wait:g} seconds after {way}")
            await asyncio.sleep(BEGIN_LOOK)

    def _fail(self, why: str) -> None:
        """The agent does not get what it was given, nor what waits: a person decides how it goes on."""
        self._known.sent = None
        self._known.waiting.clear()
        self._save()
        self._told("not-delivered", why)

    # --- typing ---------------------------------------------------------------------------------------------

    def _check_program(self) -> None:
        """Raises ValueError if another program than the agent has the terminal."""
        session = self._submitter.session
        if session.state is not ProgramState.RUNNING:
            raise ValueError(f"the session is {session.state.value}")
        wanted, there = self._known.program, foreground(session.pid)
        if wanted is None:
            raise ValueError("it is not known which program called the hook, so nothing is typed")
        if there != wanted:
            name = there.name if there is not None else "unknown"
            raise ValueError(
                f"the program in the foreground is {name}, not the {wanted.name} that called the hook"
            )

    def _check_input(self) -> None:
        """Raises ValueError unless the agent is in the foreground and shows its empty input."""
        self._check_program()
        agent = self._known.agent
        if self._hook_left:
            raise ValueError(
                "the agent ended its stop hook before the verdict, by a person or its time limit"
            )
        view = self._submitter.look()
        if not view.agent:
            raise ValueError(
                f"no stop hook of {agent or 'the agent'} waits for it, and its screen is not known, "
                "so nothing is typed"
            )
        try:
            self._submitter.check(view)
        except Obstacle as obstacle:
            raise ValueError(f"{obstacle}, so nothing is typed") from None

    async def _type(self, text: str) -> None:
        await asyncio.sleep(STOP_PAUSE)

        def entering() -> None:
            self._send(text, "typed")
            self._told("typed", "")
            self._save()

        try:
            self._check_input()
            await self._submitter.submit(
                text, program=self._known.program, pasted=lambda: None, entering=entering
            )
            if not self._known.tells_starts:
                self.went_on()
        except (ValueError, NotSeen) as error:
            if self._known.sent is not None:
                self._fail(str(error))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


_tasks: set[asyncio.Task[None]] = set()


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
