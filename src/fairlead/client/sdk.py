"""The SDK: terminal sessions from a Python program.

    import fairlead

    with fairlead.connect() as host:
        work = host.start("work", ["bash"])
        work.send("make test", "Enter")
        work.wait_for("passed", timeout=600)
        print(work.screen())

The daemon is started if need be. What can't be done is a `RequestError` that says why.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..settings import Settings
from ..wire import keepty
from ..wire.faults import Broken
from .control import Control, RequestError

__all__ = ["Ended", "Host", "RequestError", "Terminal", "connect"]

READ_SIZE = 65_536


class Ended(Exception):
    """A session's program ended before what was waited for. `code` is its exit code."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"session {name!r} ended with {code}")
        self.code = code


class Terminal:
    """One terminal session."""

    def __init__(self, control: Control, name: str) -> None:
        self.name = name
        self._control = control

    def __repr__(self) -> str:
        return f"<Terminal {self.name}>"

    def send(self, text: str = "", *keys: str) -> None:
        """Type a text, then named keys: `send("ls", "Enter")`, `send("", "C-c")`."""
        self._ask("terminal_send", text=text or None, keys=list(keys) or None)

    def paste(self, text: str) -> None:
        """Give a text as a paste, bracketed if the program asked for that."""
        self._ask("terminal_send", paste=text)

    def screen(self, *, scrollback: bool = False) -> str:
        """What is on the screen, as text."""
        shown: str = self._ask("terminal_screen", format="text", scrollback=scrollback)["screen"]
        return shown

    def cells(self) -> dict[str, Any]:
        """What is on the screen, with colours, cursor, modes and title."""
        cells: dict[str, Any] = self._ask("terminal_screen", format="cells")["screen"]
        return cells

    def search(self, text: str, *, regex: bool = False) -> list[dict[str, Any]]:
        """Where a text is, on the screen and in what has scrolled away: line, column and the line's text."""
        how = "regex" if regex else "needle"
        matches: list[dict[str, Any]] = self._ask("terminal_search", **{how: text})["matches"]
        return matches

    def wait_for(self, text: str, *, regex: bool = False, timeout: float | None = None) -> str:
        """Wait until the screen shows a text; gives what matched. Raises TimeoutError or Ended."""
        how = "regex" if regex else "text"
        answer = self._ask("terminal_wait", timeout=timeout, **{how: text})
        if answer["reason"] == "timeout":
            raise TimeoutError(f"{text!r} did not come within {timeout:g} s")
        if answer["reason"] == "exit":
            raise Ended(self.name, answer["exit_code"])
        found: str = answer["match"]
        return found

    def wait_quiet(self, seconds: float, *, timeout: float | None = None) -> None:
        """Wait until the program has printed nothing for so long. Raises TimeoutError or Ended."""
        answer = self._ask("terminal_wait", idle=seconds, timeout=timeout)
        if answer["reason"] == "timeout":
            raise TimeoutError(f"{self.name!r} did not fall quiet within {timeout:g} s")
        if answer["reason"] == "exit":
            raise Ended(self.name, answer["exit_code"])

    def wait(self, *, timeout: float | None = None) -> int:
        """Wait until the program has ended; gives its exit code. Raises TimeoutError."""
        answer = self._ask("terminal_wait", exit=True, timeout=timeout)
        if answer["reason"] == "timeout":
            raise TimeoutError(f"{self.name!r} did not end within {timeout:g} s")
        code: int = answer["exit_code"]
        return code

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        self._ask("terminal_resize", cols=cols, rows=rows)

    def stop(self) -> int:
        """End the program; gives its exit code."""
        code: int = self._ask("terminal_stop")["exit_code"]
        return code

    def output(self) -> Iterator[bytes]:
        """What the program prints, as it comes: the screen first, then everything, until it ends."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(keepty.socket_path(self.name, os.environ))
            wire = keepty.ClientConnection()
            connection.sendall(wire.send(keepty.Hello(keepty.Role.MONITOR, 80, 24)))
            while data := connection.recv(READ_SIZE):
                for message in wire.receive(data):
                    if isinstance(message, keepty.Output):
                        yield message.data
                    elif isinstance(message, keepty.Exit | Broken):
                        return

    def _ask(self, op: str, **params: Any) -> dict[str, Any]:
        return self._control.ask(op, name=self.name, **params)


class Host:
    """A connection to the daemon."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._control = Control(settings)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; sessions go on."""
        self._control.close()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str = ".",
        environment: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
    ) -> Terminal:
        """Start a program that keeps running."""
        self._control.ask(
            "terminal_start",
            name=name,
            argv=list(command),
            cwd=os.path.abspath(cwd),
            env=dict(os.environ if environment is None else environment),
            cols=cols,
            rows=rows,
        )
        return Terminal(self._control, name)

    def terminal(self, name: str) -> Terminal:
        """A session that is there."""
        if name not in {row["name"] for row in self.terminals()}:
            raise RequestError("request/not-found", f"no session {name!r}")
        return Terminal(self._control, name)

    def terminals(self) -> list[dict[str, Any]]:
        """All sessions, as `fairlead ls --json` shows them."""
        rows: list[dict[str, Any]] = self._control.ask("terminal_list")["sessions"]
        return rows


def connect(settings: Settings | None = None) -> Host:
    """Connect to the daemon, which is started if need be."""
    return Host(settings)
