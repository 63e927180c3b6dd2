"""The beginning of `fairlead mcp`: the first answer is written before anything else is imported.

Clients wait for it when they start, and what the rest needs takes longer to import than all before it.
"""

from __future__ import annotations

import os
import sys

from ... import __version__
from ...wire.mcp import Item, McpTool, Reply, ServerConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...system.settings import Settings

READ_SIZE = 65_536
INSTRUCTIONS = (
    "Fairlead hosts sessions: programs in terminals and conversations with agents, which run on without "
    "their clients. You reach those of this project. Prompt another agent with prompt_session, and ask the "
    "user with ask_person what only a person can decide."
)


def serve(settings: Settings, project: str) -> int:
    """Be the server on our standard input and output."""
    reading, writing = sys.stdin.fileno(), sys.stdout.fileno()
    wire = ServerConnection("fairlead", __version__, _listed, INSTRUCTIONS)
    first: list[Item] = []
    is_greeted = is_whole = False
    while not (is_greeted or first or is_whole):
        data = os.read(reading, READ_SIZE)
        is_whole = not data
        for item in wire.receive(data) if data else wire.finish():
            if isinstance(item, Reply) and not first:
                try:
                    write_all(writing, item.line)
                except OSError:
                    return 0
                is_greeted = is_greeted or not item.fault
            else:
                first.append(item)
    if first or not is_whole:
        from .server import go_on

        go_on(settings, wire, reading, writing, project, first, is_whole)
    return 0


def write_all(descriptor: int, data: bytes) -> None:
    """Write, and wait for who does not read. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _listed() -> list[McpTool]:
    from .tools import listed

    return listed()
