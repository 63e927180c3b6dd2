"""Turns of agents that run in terminals: told by their hooks, checked and sent back like any other.

`fairlead hook` tells when a person has asked such an agent for something and when it has answered. A
correction is typed into its terminal as a paste and Enter, but only while the program that called the hook is
in the foreground: whatever else is there must not get it. While the agent works a correction waits; what came
of it is told as it goes (`verify/receipt`: queued, typed, started, refused).

What is known of a session's turns is in a file of its own, so that the next daemon knows it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..terminal.foreground import Program, foreground
from ..terminal.host import Host, HostError
from ..terminal.session import Session, State
from ..wire.rpc import ErrorCode, Request, fields
from .judging import Judging, Tell
from .rpc import Handler, OpError
from .verifier import log

MAX_TURNS = 200
"""How many turns of a session are known; older ones are forgotten."""
MAX_PROMPT = 64 * 1024
"""How many characters of a prompt are kept."""
MAX_WAITING = 8
"""How many corrections may wait until an agent is done."""
MAX_TRANSCRIPT = 256 * 1024 * 1024
"""How many bytes of a transcript are counted."""
ENTER_PAUSE = 0.15
"""Seconds between a paste and Enter: some programs take what comes at once for a part of the paste."""
TYPED_WAIT = 30.0
"""Seconds in which a typed correction should begin a turn; afterwards a prompt is a person's."""
COMPARED = 200
"""How many characters of a prompt tell that it is the correction that was typed."""


class TerminalTurn(Struct, frozen=True):
    """A turn of an agent in a terminal. Lines are those of its transcript, if it has one."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int = 0


class Known(Struct):
    """All that is known of a session's turns."""

    began: float
    """When the session began: another one of the same name is another session."""
    agent: str = ""
    file: str = ""
    program: Program | None = None
    turns: list[TerminalTurn] = []
    is_working: bool = False


class TerminalBuilder:
    """A terminal session whose agent tells of its turns, as the verifier door sees it."""

    def __init__(self, session: Session, known: Known, path: str, tell: Tell) -> None:
        self.id = session.id
        self.project = session.cwd
        self.known = known
        self._session = session
        self._path = path
        self._tell = tell
        self._waiting: list[str] = []
        self._typed: tuple[float, str] | None = None

    @property
    def is_working(self) -> bool:
        return self.known.is_working

    @property
    def turns(self) -> list[TerminalTurn]:
        turns = list(self.known.turns)
        if turns and self._waiting:
            waiting = turns[-1].corrections + len(self._waiting)
            turns[-1] = msgspec.structs.replace(turns[-1], corrections=waiting)
        return turns

    # --- hooks ----------------------------------------------------------------------------------------------

    def started(self, agent: str, prompt: str, file: str) -> bool:
        """The agent was asked for something; tells whether it was by a person."""
        known = self.known
        known.agent, known.file = agent, file
        known.program = foreground(self._session.pid)
        known.is_working = True
        is_correction = self._is_typed(prompt)
        line = _lines(file) + 1
        if is_correction and known.turns:
            last = known.turns[-1]
            known.turns[-1] = msgspec.structs.replace(
                last, last_line=max(last.last_line, line), corrections=last.corrections + 1
            )
            self._receipt("started")
        else:
            number = known.turns[-1].number + 1 if known.turns else 1
            known.turns.append(TerminalTurn(number, prompt[:MAX_PROMPT], line, line))
            del known.turns[:-MAX_TURNS]
            self._waiting.clear()
        self._typed = None
        self._save()
        return not is_correction

    def stopped(self, file: str) -> TerminalTurn | None:
        """The agent has answered."""
        known = self.known
        known.is_working = False
        known.file = file or known.file
        known.program = foreground(self._session.pid) or known.program
        if not known.turns:
            return None
        last = known.turns[-1]
        known.turns[-1] = msgspec.structs.replace(last, last_line=max(last.first_line, _lines(known.file)))
        self._save()
        if self._waiting:
            self._later(self._waiting.pop(0))
        return known.turns[-1]

    # --- corrections ----------------------------------------------------------------------------------------

    def correct(self, text: str, *, steer: bool) -> None:
        """Type a correction, or keep it until the agent is done. Raises ValueError, with why not."""
        self._check()
        if self.known.is_working and not steer:
            if len(self._waiting) >= MAX_WAITING:
                raise ValueError(f"{MAX_WAITING} corrections wait already")
            self._waiting.append(text)
            self._receipt("queued")
        else:
            self._later(text)

    def _check(self) -> None:
        """Raises ValueError if what is typed now would go to another program."""
        if self._session.state is not State.RUNNING:
            raise ValueError(f"the session is {self._session.state.value}")
        wanted, there = self.known.program, foreground(self._session.pid)
        if wanted is None:
            raise ValueError("it is not known which program called the hook, so nothing is typed")
        if there != wanted:
            name = there.name if there is not None else "unknown"
            raise ValueError(
                f"the program in the foreground is {name}, not the {wanted.name} that called the hook"
            )

    def _later(self, text: str) -> None:
        self._typed = time.monotonic(), text
        task = asyncio.get_running_loop().create_task(self._type(text))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _type(self, text: str) -> None:
        try:
            self._check()
            self._session.type(self._session.screen.paste(text))
            await asyncio.sleep(ENTER_PAUSE)
            self._check()
        except ValueError as error:
            self._typed = None
            self._receipt("refused", str(error))
            return
        self._session.type(b"\r")
        self._receipt("typed")

    def _is_typed(self, prompt: str) -> bool:
        """Whether a prompt is the correction that was typed just now."""
        if self._typed is None or time.monotonic() - self._typed[0] > TYPED_WAIT:
            return False
        said, typed = (" ".join(text.split())[:COMPARED] for text in (prompt, self._typed[1]))
        return not said or said.startswith(typed[: len(said)]) or typed.startswith(said)

    def _receipt(self, state: str, reason: str = "") -> None:
        self._tell("verify/receipt", fields(session_id=self.id, state=state, reason=reason or None))

    def _save(self) -> None:
        partial = f"{self._path}.new"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(self.known))
            os.replace(partial, self._path)
        except OSError as error:
            log.warning("the turns of %s can't be kept: %s", self.id, error)


_tasks: set[asyncio.Task[None]] = set()


class TerminalTurns:
    """The turns of all terminal sessions. `directory` has the files."""

    def __init__(self, host: Host, directory: str, judging: Judging, tell: Tell) -> None:
        self._host = host
        self._directory = directory
        self._judging = judging
        self._tell = tell
        self._builders: dict[str, TerminalBuilder] = {}

    @property
    def ops(self) -> dict[str, Handler]:
        return {"terminal_turn": self._turn}

    def opened(self, session: Session) -> None:
        """A session is there: if an agent in it has had turns, verifiers may come again."""
        if os.path.exists(self._path(session)):
            self.builder(session)

    def closed(self, session: Session) -> None:
        """A session is forgotten."""
        if self._builders.pop(session.id, None) is not None:
            self._judging.door.close(session.id)
            with contextlib.suppress(OSError):
                os.unlink(self._path(session))

    async def _turn(self, request: Request) -> Mapping[Any, Any]:
        try:
            session = self._host.find(request.get("name"))
        except HostError as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        builder = self.builder(session)
        file = request.get("path") or ""
        match request.get("event"):
            case "start":
                is_new = builder.started(request.get("agent") or "", request.get("prompt") or "", file)
                if is_new:
                    self._judging.began(session.id)
                    self._judging.door.started(session.id, builder.known.turns[-1])
                    self._tell_turn("terminal/turn-began", session, builder)
            case "stop":
                if (turn := builder.stopped(file)) is not None:
                    self._tell_turn("terminal/turn-ended", session, builder)
                    self._judging.door.stopped(session.id, turn)
            case _:
                self._judging.door.failed(session.id, request.get("prompt") or "an error")
        return fields(accepted=True, turn=builder.turns[-1].number if builder.turns else 0)

    def _tell_turn(self, topic: str, session: Session, builder: TerminalBuilder) -> None:
        turn = builder.known.turns[-1]
        self._tell(topic, fields(name=session.id, turn=turn.number, agent=builder.known.agent))

    def builder(self, session: Session) -> TerminalBuilder:
        """A session as verifiers see it; they may come from now on."""
        found = self._builders.get(session.id)
        if found is None or found.known.began != session.started_at:
            path = self._path(session)
            known = _read(path, session.started_at) or Known(session.started_at)
            found = self._builders[session.id] = TerminalBuilder(session, known, path, self._tell)
            self._judging.door.close(session.id)
            self._judging.opened(found)
        return found

    def _path(self, session: Session) -> str:
        return f"{self._directory}/{session.id}.json"


def _read(path: str, began: float) -> Known | None:
    try:
        with open(path, "rb") as file:
            known = msgspec.json.decode(file.read(), type=Known)
    except (OSError, msgspec.DecodeError):
        return None
    return known if known.began == began else None


def _lines(path: str) -> int:
    """How many lines a file has; 0 if there is none."""
    count = 0
    with contextlib.suppress(OSError), open(path, "rb") as file:
        while (block := file.read(1024 * 1024)) and file.tell() < MAX_TRANSCRIPT:
            count += block.count(b"\n")
    return count
