"""A small MCP client of our own: `fairlead mcp` as a process, driven line by line."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hosting import WAIT, Hosting

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tester", "version": "1"},
}


class McpClient:
    """A client that has shaken hands. Ends its server when it is closed."""

    def __init__(
        self, hosting: Hosting, project: Path | str, *words: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [*hosting.command, "mcp", *words],
            cwd=project,
            env={**hosting.environment, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._ids = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.told: list[dict[str, Any]] = []
        """The notifications that came."""
        self.greeting = self.ask("initialize", **INITIALIZE)["result"]
        self.raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def __enter__(self) -> McpClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> int:
        """End the input, and wait for the server's end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(WAIT)
        self.process.stdout.close()
        return code

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.raw(json.dumps(message).encode() + b"\n")
        return self._ids

    def begin_call(self, tool: str, **arguments: Any) -> int:
        meta = {"progressToken": f"p{self._ids}"}
        return self.begin("tools/call", name=tool, arguments=arguments, _meta=meta)

    def answer(self, id: int) -> dict[str, Any]:
        """Wait for the answer to a request."""
        while id not in self._answers:
            message = self.next()
            if "id" in message and message["id"] is not None:
                self._answers[message["id"]] = message
            else:
                self.told.append(message)
        return self._answers.pop(id)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def next(self) -> dict[str, Any]:
        """The next message, whatever it is."""
        line = self._lines.get(timeout=WAIT)
        assert line, "the server has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def answers(self, count: int) -> dict[int, dict[str, Any]]:
        """Wait for so many answers, to whichever requests."""
        found: dict[int, dict[str, Any]] = {}
        while len(found) < count:
            message = self.next()
            if message.get("id") is not None:
                found[message["id"]] = message
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.answer(self.begin(method, **params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool gives. Fails the test if it can't."""
        return given(self.answer(self.begin_call(tool, **arguments)))

    def fault(self, tool: str, **arguments: Any) -> str:
        """Why a tool can't. Fails the test if it can."""
        return fault_of(self.answer(self.begin_call(tool, **arguments)))


def given(answer: dict[str, Any]) -> dict[str, Any]:
    result = answer.get("result")
    assert result is not None, answer
    assert not result["isError"], answer
    found: dict[str, Any] = result["structuredContent"]
    return found


def fault_of(answer: dict[str, Any]) -> str:
    assert answer["result"]["isError"], answer
    return str(answer["result"]["content"][0]["text"])
