"""An editor that speaks ACP with the real `fairlead acp`, through our own end of the wire."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire
from tests.hosting import WAIT, Hosting

T = TypeVar("T")
EDITOR = acp.Implementation(name="rose", title="Rose", version="1")
"""What the editor says that it is."""


class AcpEditor:
    """`fairlead acp` and what it said. Questions wait in `asked` until they are answered."""

    def __init__(self, hosting: Hosting, *words: str, cwd: Path | None = None, starts: bool = True) -> None:
        self.cwd = str(cwd or hosting.environment["HOME"])
        self.process = subprocess.Popen(
            [*hosting.command, "acp", *words],
            env=hosting.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.wire = acp.ClientConnection()
        self.items: list[acp.Item] = []
        self.updates: list[acp.SessionUpdate] = []
        self.asked: dict[acp.Id, acp.RequestPermission] = {}
        self.withdrawn: list[acp.Id] = []
        self.answers: dict[acp.Id, Any] = {}
        if starts:
            self.hello = self.ask(acp.Initialize(protocol_version=acp.VERSION, client_info=EDITOR))

    def __enter__(self) -> AcpEditor:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        with self.process:  # which closes its pipes
            pass

    # --- talking --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def begin(self, params: Wire) -> acp.Id:
        """Ask for something; returns the request's id."""
        id, line = self.wire.request(params)
        self.write(line)
        return id

    def ask(self, params: Wire) -> Any:
        """The result of a request, or its error."""
        return self.answer(self.begin(params))

    def answer(self, id: acp.Id) -> Any:
        self.until(lambda: id in self.answers)
        return self.answers[id]

    def new(self, cwd: str | None = None) -> str:
        result = self.ask(acp.NewSession(cwd=cwd or self.cwd, mcp_servers=()))
        assert isinstance(result, acp.NewSessionResult), result
        return result.session_id

    def load(self, session: str, cwd: str | None = None) -> Any:
        return self.ask(acp.LoadSession(session_id=session, cwd=cwd or self.cwd, mcp_servers=()))

    def say(self, session: str, text: str) -> acp.Id:
        return self.begin(acp.Prompt(session_id=session, prompt=(acp.Text(text=text),)))

    def prompt(self, session: str, text: str) -> Any:
        return self.answer(self.say(session, text))

    def choose(self, id: acp.Id, option: str) -> None:
        del self.asked[id]
        outcome = acp.Selected(option_id=option)
        self.write(self.wire.respond(id, acp.PermissionResult(outcome=outcome)))

    def cancel(self, session: str) -> None:
        self.asked.clear()
        self.write(self.wire.cancel(session))

    def question(self) -> tuple[acp.Id, acp.RequestPermission]:
        """The question that the editor's person sees, when there is one."""
        self.until(lambda: bool(self.asked))
        return next(iter(self.asked.items()))

    # --- hearing --------------------------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool]) -> None:
        """Read until something holds."""
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, (self.items[-5:], self.errors())
            self.read(0.1)

    def read(self, seconds: float) -> None:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return
        data = os.read(self.process.stdout.fileno(), 65_536)
        assert data, f"fairlead acp ended: {self.errors()}"
        for item in self.wire.receive(data):
            self.items.append(item)
            match item:
                case acp.Notification(params=acp.SessionUpdate() as update):
                    self.updates.append(update)
                case acp.Notification(params=acp.CancelRequest(request_id=id)):
                    self.withdrawn.append(id)
                    self.asked.pop(id, None)
                    self.write(self.wire.fail(id, acp.ErrorCode.CANCELLED, "cancelled"))
                case acp.Request(id=id, params=acp.RequestPermission() as wanted):
                    self.asked[id] = wanted
                case acp.CallAnswer(id=id, result=result):
                    self.answers[id] = result
                case acp.CallFailure(id=id, error=error):
                    self.answers[id] = error
                case acp.CallRefused(reason="the turn was cancelled", reply=reply):
                    self.write(reply)  # a question that crossed the cancellation
                case acp.Ignored(reason=reason) if reason.startswith("no request"):
                    pass  # a question was withdrawn while our answer was on its way
                case _:
                    raise AssertionError(f"not of the protocol: {item}")

    def errors(self) -> str:
        """What it printed as diagnostics, if it has ended or says no more."""
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        return (self.process.stderr.read() or b"").decode()

    # --- what was told --------------------------------------------------------------------------------------

    def of(self, kind: type[T], session: str | None = None) -> list[T]:
        """The updates of a kind."""
        return [
            each.update
            for each in self.updates
            if isinstance(each.update, kind) and session in (None, each.session_id)
        ]

    def text(self, session: str | None = None, kind: type[Any] = acp.AgentMessageChunk) -> str:
        """What the agent said, or thought."""
        return "".join(each.content.text for each in self.of(kind, session))
