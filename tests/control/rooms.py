"""A control room without a daemon: the real loop, gates, store and actuators, with sessions that answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.agent.secrets import Redactor, is_secret_file
from fairlead.control import gates
from fairlead.control.actuators import Actuators, shell, write_log
from fairlead.control.gates import Gates
from fairlead.control.loop import Control
from fairlead.control.protocols import Receiver, SessionFault
from fairlead.control.rules import Reflexes, rules_from
from fairlead.control.signals import Priority, Signal
from fairlead.control.store import ControlStore
from fairlead.daemon.control import taken_apart
from fairlead.formats.sexp import Keyword
from fairlead.sessions.inbox import Inbox
from fairlead.sessions.questions import Answer, Question
from fairlead.sessions.session import Prompt
from fairlead.wire.passepartout import Message

WAIT = 20.0
SECRET = "sk-1234567890"


class Client:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.is_open = True
        self.got: list[Message] = []
        self._changed = asyncio.Event()

    def send(self, message: Message) -> None:
        self.got.append(message)
        self._changed.set()

    def agent(self) -> str:
        return ""

    @property
    def texts(self) -> list[str]:
        """The texts of answers; an empty one ends each."""
        return [message.get("payload", "text") for message in self.got if message.type == "REQUEST"]

    async def answers(self, count: int = 1) -> list[str]:
        """Wait for so many whole answers."""
        async with asyncio.timeout(WAIT):
            while self.texts.count("") < count:
                self._changed.clear()
                await self._changed.wait()
        whole = "".join(text or "\0" for text in self.texts)
        return whole.split("\0")[:count]

    def trace(self) -> list[tuple[str, str]]:
        """The gates of the last answer."""
        return [(step[1].name, step[3].name) for step in self.got[-1].get("gate-trace")]


class Sessions:
    """An agent session that says back what it is told, in pieces; more when the test says so."""

    def __init__(self) -> None:
        self.prompts: list[tuple[str | None, str]] = []
        self.typed: list[tuple[str | None, str]] = []
        self.cancelled: list[str] = []
        self.open: dict[str, Receiver] = {}
        self.holds = False

    async def prompt(self, session: str | None, prompt: Prompt, receiver: Receiver) -> None:
        if session == "nowhere":
            raise SessionFault("no session 'nowhere'")
        self.prompts.append((session, prompt.text))
        receiver.began(session or "default")
        if self.holds:
            self.open[prompt.id] = receiver
        else:
            receiver.text(prompt.text[:3])
            receiver.text(prompt.text[3:])
            receiver.end()

    async def type(self, session: str | None, text: str, *, enter: bool = False) -> None:
        self.typed.append((session, f"{text}{'<Enter>' if enter else ''}"))

    async def cancel(self, session: str, prompt: str) -> None:
        self.cancelled.append(session)
        self.open.pop(prompt).end("aborted")

    async def status(self) -> str:
        return "all idle"


AGENT = Question(
    id="agent1",
    kind="consent",
    session="s1",
    session_name="garden",
    project="/srv/garden",
    title="bash",
    what="$ make",
    whole="make",
    reason="it runs a command",
    asked_at=1.0,
)


class Agents:
    """An agent that asks for something."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, bool, str]] = []

    async def answered(self, question: Question, answer: Answer) -> None:
        self.settled.append((question.id, answer.allows, answer.by))


class Room:
    """All of it."""

    def __init__(self, directory: Path, rules: list[dict[str, Any]] | None = None) -> None:
        self.told: list[Message] = []
        self.sessions, self.agents = Sessions(), Agents()
        self.redactor = Redactor([SECRET])
        self.actuators = Actuators()
        self.store = ControlStore(str(directory / "control.db"))
        self.lost = self.store.open()
        self.inbox = Inbox()
        self.control = Control(
            actuators=self.actuators,
            gates=Gates(
                [
                    gates.network(taken_apart, ["*.example.org"]),
                    gates.protocol(lambda: self.actuators.names),
                    gates.commands(taken_apart),
                    gates.secrets(self.redactor.text),
                    gates.paths(is_secret_file, ["~/private/**"], "/home/me"),
                ]
            ),
            reflexes=Reflexes(rules_from(rules or [])),
            store=self.store,
            sessions=self.sessions,
            inbox=self.inbox,
            cleaner=self.redactor,
            tell=self.told.append,
        )
        self.inbox.ask(AGENT, self.agents)
        self.inbox.listen(self.control)
        self.control.ask_again()
        self.actuators.register_actuator("log", write_log, quick=True)
        self.actuators.register_actuator("shell", shell({"PATH": "/usr/bin:/bin"}, str(directory)))

    def say(self, client: Client, text: str, session: str | None = None) -> str:
        return self.control.hear(
            Signal("user-input", "tui", text, session, priority=Priority.PERSON, client=client)
        )

    async def ask(self, text: str, session: str | None = None) -> str:
        """A question of a client of its own, and the whole answer."""
        client = Client()
        assert self.say(client, text, session) == ""
        return (await client.answers())[0]

    def sensors(self) -> list[str]:
        """The sensors that all clients were told of."""
        return [m.get("payload", "sensor").name for m in self.told if m.get("payload", "sensor") is not None]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                await asyncio.sleep(0.005)

    def own(self) -> list[Question]:
        """What of control itself waits."""
        return [each for each in self.inbox.open() if each.kind == "action"]

    def events(self, sensor: str) -> list[Message]:
        return [m for m in self.told if m.get("payload", "sensor") == Keyword(sensor)]

    async def close(self) -> None:
        await self.control.close()
        await self.store.aclose()
