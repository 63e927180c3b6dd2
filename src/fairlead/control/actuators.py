"""Actuators: named functions that do things, and how they are called.

An actuator gets an action and its context. It may be plain or a coroutine function, and gives a text to be
heard as feedback, or nothing. A plain one runs in a thread, unless it says that it is `quick`; a coroutine
function that is `quick` waits for no place among those under way. What raises is tried again after a pause,
unless it is a `GiveUp`. None of this keeps the loop waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..formats.sexp import Keyword
from ..keeper import masks
from ..keeper.credentials import AGENT_MARK, mark_as_agents
from .signals import Action, Context

log = logging.getLogger("fairlead.control")

MAX_ACTUATORS = 256
MAX_TRIES = 4
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the second try; each pause is twice the one before."""
ACT_WAIT = 120.0
"""Seconds that one try may take."""
MAX_ACTING = 32
"""How many actions may be under way at the same time,"""
MAX_WAITING = 1000
"""and how many more may wait for that."""
SHELL_WAIT = 60.0
"""Seconds that a command may run."""
KILL_WAIT = 5.0
"""Seconds until a command that was killed must be gone."""
MAX_OUTPUT = 64 * 1024
"""How many bytes of a command's output are kept."""
LOGGED = 1000
"""How many characters of a text are logged."""
ENTRY_POINTS = "fairlead.actuators"

Feedback = str | None
Actuator = Callable[[Action, Context], "Feedback | Awaitable[Feedback]"]


class GiveUp(Exception):
    """It can't be done, and trying again would not help, or might do it twice."""


class Registered(NamedTuple):
    act: Actuator
    quick: bool


@lru_cache(maxsize=1)
def offered() -> frozenset[str]:
    """The names of the actuators that installed packages offer."""
    from importlib.metadata import entry_points  # takes long, and so does looking through all packages

    return frozenset(point.name.upper() for point in entry_points(group=ENTRY_POINTS))


class Actuators:
    """The actuators by their names, which are in upper case here and in any case elsewhere."""

    def __init__(self) -> None:
        self._registered: dict[str, Registered] = {}

    @property
    def names(self) -> Collection[str]:
        return self._registered.keys()

    def find(self, name: str) -> Registered | None:
        return self._registered.get(name)

    def register_actuator(self, name: str | Keyword, fn: Actuator, *, quick: bool = False) -> None:
        """Register an actuator; one of the same name is replaced.

        `register_actuator(":telegram", send)`, where `send(action, context)` may block: it has its thread.
        """
        key = (name.name if isinstance(name, Keyword) else name.lstrip(":")).upper()
        if not key:
            raise ValueError("an actuator needs a name")
        if len(self._registered) >= MAX_ACTUATORS and key not in self._registered:
            raise ValueError(f"{MAX_ACTUATORS} actuators are already registered")
        self._registered[key] = Registered(fn, quick)

    def load_entry_points(self) -> list[str]:
        """Register those that installed packages offer; gives what could not be loaded, and why."""
        from importlib.metadata import entry_points  # takes long, and so does looking through all packages

        faults = []
        for point in entry_points(group=ENTRY_POINTS):
            if point.name.upper() in self._registered:
                faults.append(f"actuator {point.name} of {point.value}: the name is already registered")
                continue
            try:
                self.register_actuator(point.name, point.load())
            except Exception as error:  # whatever a foreign module does when it is imported
                faults.append(f"actuator {point.name} of {point.value}: {type(error).__name__}: {error}")
        return faults


class Acting:
    """Calls actuators. `done` hears once of each action: its feedback, or what went wrong."""

    def __init__(
        self,
        actuators: Actuators,
        done: Callable[[Action, Context, Feedback, Exception | None], None],
        *,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._actuators = actuators
        self._done = done
        self._first_pause = first_pause
        self._room = asyncio.Semaphore(MAX_ACTING)
        self._tasks: set[asyncio.Task[str]] = set()

    def act(self, action: Action, context: Context) -> str:
        """Begin an action; gives why it can't be done, if that is clear at once."""
        begun = self.begin(action, context)
        return begun if isinstance(begun, str) else ""

    def begin(self, action: Action, context: Context) -> str | asyncio.Task[str]:
        """Begin an action. Returns why it was not done, or nothing; or what will end with that."""
        registered = self._actuators.find(action.target)
        if registered is None:
            return self._refused(action, context, GiveUp(f"unknown actuator :{action.target}"))
        failure: Exception | None = None
        if registered.quick and not inspect.iscoroutinefunction(registered.act):
            try:
                result = registered.act(action, context)
                if not inspect.isawaitable(result):
                    self._done(action, context, result, None)
                    return ""
                raise TypeError(f"the actuator :{action.target} returns an awaitable and can't be quick")
            except Exception as error:
                failure = error
        if isinstance(failure, GiveUp):
            return self._refused(action, context, failure)
        if len(self._tasks) >= MAX_ACTING + MAX_WAITING:
            many = GiveUp(f"{len(self._tasks)} actions are already in progress")
            return self._refused(action, context, many)
        task = asyncio.get_running_loop().create_task(self._tried(registered, action, context, failure))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _refused(self, action: Action, context: Context, why: GiveUp) -> str:
        self._done(action, context, None, why)
        return str(why)

    async def _tried(
        self, registered: Registered, action: Action, context: Context, failure: Exception | None
    ) -> str:
        pause = self._first_pause
        tries = 0 if failure is None else 1
        async with contextlib.nullcontext() if registered.quick else self._room:
            while tries < MAX_TRIES:
                if tries:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                tries += 1
                try:
                    async with asyncio.timeout(ACT_WAIT):
                        result = await self._called(registered, action, context)
                except GiveUp as error:
                    failure = error
                    break
                except Exception as error:
                    failure = error
                else:
                    self._done(action, context, result, None)
                    return ""
        self._done(action, context, None, failure)
        return str(failure)

    async def _called(self, registered: Registered, action: Action, context: Context) -> Feedback:
        if registered.quick or inspect.iscoroutinefunction(registered.act):
            result = registered.act(action, context)
        else:
            result = await asyncio.to_thread(registered.act, action, context)
        return await result if inspect.isawaitable(result) else result

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


# --- those that need nothing of other rooms ---------------------------------------------------------------


def write_log(action: Action, context: Context) -> None:
    """:log, the daemon's log."""
    log.info("%s: %s", context.signal.sensor, action.text[:LOGGED])


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a command and all that it started, as far as that is still together with it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_WAIT):
                await process.wait()
    process._transport.close()  # type: ignore[attr-defined]  # nothing public closes its pipes


def shell(environment: Mapping[str, str], cwd: str, *, wait: float = SHELL_WAIT) -> Actuator:
    """:shell, which runs a command once and gives what it prints."""

    async def run(action: Action, context: Context) -> Feedback:
        agent = context.signal.agent
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                f"{masks.as_command()}\n{action.text}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**environment, AGENT_MARK: agent} if agent else dict(environment),
                cwd=cwd,
                start_new_session=True,
            )
            if agent:
                mark_as_agents(process.pid)
        except (OSError, ValueError) as error:
            raise GiveUp(f"can't run a command: {error}") from None
        assert process.stdout is not None
        printed = bytearray()
        try:
            async with asyncio.timeout(wait):
                while data := await process.stdout.read(MAX_OUTPUT):
                    printed += data[: MAX_OUTPUT - len(printed)]
                code = await process.wait()
        except TimeoutError:
            raise GiveUp(f"`{action.text[:100]}` timed out after {wait:g} s") from None
        finally:
            await _ended(process)
        text = printed.decode("utf-8", "replace")
        if code:
            raise GiveUp(f"`{action.text[:100]}` ended with {code}: {text[-LOGGED:]}")
        return text or "(no output)"

    return run
