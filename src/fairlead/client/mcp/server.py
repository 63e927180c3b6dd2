"""The process of `fairlead mcp`: lines from its standard input, tools that run beside each other, answers.

It outlives the daemon: a call that waits goes on waiting with the next one. It ends with its client, and
gives up then what still waits, so that nobody is asked for an agent that is gone. Standard output carries
messages and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from ...system.settings import Settings
from ...wire.jsonrpc import Id
from ...wire.mcp import Cancelled, Item, Reply, ServerConnection, ToolCall
from .opening import READ_SIZE, write_all

if TYPE_CHECKING:
    from .tools import Desk

PROGRESS_EVERY = 5.0
"""Seconds between two progress notifications of a call that waits: clients give up what says nothing."""
LAST_ANSWERS_WAIT = 5.0
"""Seconds that answers may take when nothing more will be asked."""


class McpBridge:
    """One client, on two descriptors, whose project is a directory."""

    def __init__(
        self, settings: Settings, wire: ServerConnection, reading: int, writing: int, project: str
    ) -> None:
        self._settings = settings
        self._reading, self._writing = reading, writing
        self._project = project
        self._wire = wire
        self._calls: dict[Id, tuple[asyncio.Task[None], bool]] = {}
        self._desk: Desk | None = None
        self._writer = ThreadPoolExecutor(1, "mcp")  # writing waits for a client that does not read
        self._is_over = False

    async def run(self, first: Sequence[Item], is_whole: bool) -> None:
        """Serve until the client is through and everything is answered, or it no longer listens, or a signal
        ends us: what waits is withdrawn in all cases. `first` is what it asked already, and `is_whole` says
        that nothing more will come."""
        loop = asyncio.get_running_loop()
        serving = loop.create_task(self._serve(first, is_whole))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        await self._end()

    async def _serve(self, first: Sequence[Item], is_whole: bool) -> None:
        heard: asyncio.Queue[bytes] = asyncio.Queue(1)
        loop = asyncio.get_running_loop()

        def read() -> None:  # in a thread, as files can't be waited for
            data = b"-"
            while data:
                try:
                    data = os.read(self._reading, READ_SIZE)
                except OSError:
                    data = b""
                try:
                    asyncio.run_coroutine_threadsafe(heard.put(data), loop).result()
                except RuntimeError:  # the loop is gone
                    return

        for item in first:
            await self._take(item)
        if not is_whole:
            threading.Thread(target=read, daemon=True).start()
        while not self._is_over and not is_whole:
            data = await heard.get()
            for item in self._wire.receive(data) if data else self._wire.finish():
                await self._take(item)
            if not data:
                break

    async def _end(self) -> None:
        for task, waits in list(self._calls.values()):
            if waits or self._is_over:
                task.cancel()
        tasks = [task for task, _ in self._calls.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_ANSWERS_WAIT)
        if self._desk is not None:
            await self._desk.close()

    async def _take(self, item: Item) -> None:
        match item:
            case Reply(line):
                await self._write(line)
            case Cancelled(id):
                if (call := self._calls.get(id)) is not None:
                    call[0].cancel()
            case ToolCall():
                await self._begin(item)

    async def _write(self, line: bytes) -> None:
        if not line or self._is_over:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._written, line)
        except OSError:
            self._is_over = True

    def _written(self, line: bytes) -> None:
        write_all(self._writing, line)

    # --- calls --------------------------------------------------------------------------------------------

    async def _begin(self, call: ToolCall) -> None:
        from .tools import TOOLS

        entry = TOOLS.get(call.name)
        if entry is None:
            why = f"no tool {call.name!r:.100}; there are {', '.join(TOOLS)}"
            await self._write(self._wire.refuse_call(call.id, why))
            return
        task = asyncio.get_running_loop().create_task(self._run(call))
        self._calls[call.id] = task, entry.waits

        def done(_: asyncio.Task[None]) -> None:
            if self._calls.get(call.id, (None,))[0] is task:
                del self._calls[call.id]

        task.add_done_callback(done)

    async def _run(self, call: ToolCall) -> None:
        from ..calls import RequestError
        from .reach import Unreachable
        from .tools import TOOLS, ToolFault

        entry = TOOLS[call.name]
        alive = (
            asyncio.get_running_loop().create_task(self._keep_alive(call)) if call.wants_progress else None
        )
        try:
            given = msgspec.json.decode(call.arguments, type=entry.takes)
            output = await entry.does(self._at_desk(), given)
            line = self._wire.finish_call(call.id, output.shown, output.plain)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            line = self._wire.fail_call(call.id, f"{call.name}: wrong arguments: {error}")
        except (ToolFault, Unreachable, RequestError) as error:
            line = self._wire.fail_call(call.id, f"{call.name}: {error}")
        except ConnectionError as error:
            why = f"{error}; what was asked may or may not have been done: look before you ask again"
            line = self._wire.fail_call(call.id, f"{call.name}: {why}")
        except Exception as error:
            print(f"fairlead mcp: {call.name}: {type(error).__name__}: {error}", file=sys.stderr)
            line = self._wire.fail_call(call.id, f"{call.name} failed: {type(error).__name__}: {error}")
        finally:
            if alive is not None:
                alive.cancel()
        await self._write(line)

    def _at_desk(self) -> Desk:
        """What does the work, which is made when there is some."""
        if self._desk is None:
            from ..links import Links
            from .tools import Desk

            name = self._wire.client.name or "an agent"
            self._desk = Desk(Links(self._settings, f"{name} (MCP)"), self._project)
        return self._desk

    async def _keep_alive(self, call: ToolCall) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            await self._write(self._wire.progress(call.id, f"{call.name} still waits"))


def go_on(
    settings: Settings,
    wire: ServerConnection,
    reading: int,
    writing: int,
    project: str,
    first: Sequence[Item],
    is_whole: bool,
) -> None:
    """Serve a client that was greeted."""
    asyncio.run(McpBridge(settings, wire, reading, writing, project).run(first, is_whole))
