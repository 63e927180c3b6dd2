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
STOP_PAUSE = 0.2
"""Seconds after a stop until something is typed: some agents end then, and what follows must not get it."""
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
    tells_starts: bool = False
    """Whether its agent tells when a turn begins; some tell only of the end."""
    waiting: list[str] = []
    """Corrections that are typed when the agent is done."""
    typed: tuple[float, str] | None = None
    """The correction that was typed last, until the agent says that it begins with it, and when that was."""


class TerminalBuilder:
    """A terminal session whose agent tells of its turns, as the verifier door sees it."""

    def __init__(self, session: Session, known: Known, path: str, tell: Tell) -> None:
        self.id = session.id
        self.project = session.cwd
        self.known = known
        self._session = session
        self._path = path
        self._tell = tell

    @property
    def is_working(self) -> bool:
        return self.known.is_working

    @property
    def turns(self) -> list[TerminalTurn]:
        turns = list(self.known.turns)
        if turns:
            sent_back = turns[-1].corrections + len(self.known.waiting) + self._is_typing
            turns[-1] = msgspec.structs.replace(turns[-1], corrections=sent_back)
        return turns

    @property
    def _is_typing(self) -> bool:
        """Whether a correction was typed with which the agent has yet to begin."""
        return self.known.typed is not None and time.time() - self.known.typed[0] <= TYPED_WAIT

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
            for _ in known.waiting:
                self._receipt("refused", "a person has asked for something else")
            known.waiting.clear()
        known.typed = None
        self._save()
        return not is_correction

    def stopped(self, file: str) -> TerminalTurn | None:
        """The agent has answered."""
        known = self.known
        known.is_working = False
        known.file = file or known.file
        if not known.turns:
            return None
        last = known.turns[-1]
        known.turns[-1] = msgspec.structs.replace(last, last_line=max(last.first_line, _lines(known.file)))
        self.go_on()
        return known.turns[-1]

    def failed(self) -> None:
        """The agent could not answer. It can be asked again."""
        self.known.is_working = False
        self.go_on()

    def go_on(self) -> None:
        """Type the next correction that waits, if the agent is done."""
        if self.known.waiting and not self.known.is_working and not self._is_typing:
            self._later(self.known.waiting.pop(0))
        self._save()

    # --- corrections ----------------------------------------------------------------------------------------

    def correct(self, text: str, *, steer: bool) -> None:
        """Type a correction, or keep it until the agent is done. Raises ValueError, with why not."""
        self._check()
        if self._is_typing or (self.known.is_working and not steer):
            if len(self.known.waiting) >= MAX_WAITING:
                raise ValueError(f"{MAX_WAITING} corrections wait already")
            self.known.waiting.append(text)
            self._receipt("queued")
        else:
            self._later(text)
        self._save()

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
        self.known.typed = time.time(), text
        task = asyncio.get_running_loop().create_task(self._type(text))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _type(self, text: str) -> None:
        await asyncio.sleep(STOP_PAUSE)
        try:
            self._check()
            self._session.type(self._session.screen.paste(text))
            await asyncio.sleep(ENTER_PAUSE)
            self._check()
        except ValueError as error:
            self.known.typed = None
            self._save()
            self._receipt("refused", str(error))
            return
        self._session.type(b"\r")
        self._receipt("typed")

    def _is_typed(self, prompt: str) -> bool:
        """Whether a prompt is the correction that was typed just now."""
        if self.known.typed is None or not self._is_typing:
            return False
        said, typed = (" ".join(text.split())[:COMPARED] for text in (prompt, self.known.typed[1]))
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
        if _read(self._path(session), session.started_at) is not None:
            self.builder(session).go_on()
        else:
            self._judging.forget(session.id)  # it is of another one that had this name

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
                builder.known.tells_starts = True
                self._start(session, builder, request)
            case "stop":
                if request.get("prompt") and not builder.known.tells_starts:
                    self._start(session, builder, request)
                if (turn := builder.stopped(file)) is not None:
                    self._tell_turn("terminal/turn-ended", session, builder)
                    self._judging.door.stopped(session.id, turn)
            case _:
                builder.failed()
                self._judging.door.failed(session.id, request.get("prompt") or "an error")
        return fields(accepted=True, turn=builder.turns[-1].number if builder.turns else 0)

    def _start(self, session: Session, builder: TerminalBuilder, request: Request) -> None:
        prompt, file = request.get("prompt") or "", request.get("path") or ""
        if builder.started(request.get("agent") or "", prompt, file):
            self._judging.began(session.id)
            self._judging.door.started(session.id, builder.known.turns[-1])
            self._tell_turn("terminal/turn-began", session, builder)

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
