"""What it costs to know what sessions do: a hundred quiet sessions, and a flood beside a tracker."""

from __future__ import annotations

import asyncio
import json
import math
import os
import statistics
import time

from agent import row
from multiplexers import Fairlead

from fairlead.keeper.protocol import FrameKind
from fairlead.sessions.feed import Feed
from fairlead.sessions.state import States
from fairlead.system import processes
from fairlead.terminal.session import TerminalSession
from fairlead.terminal.state.rules import RuleFiles
from fairlead.terminal.state.tracker import Trackers

SESSIONS, SECONDS, SETTLING = 100, 20.0, 5.0
CHUNK = b"".join(b"\x1b[3%dmline %06d of a flood\x1b[0m\r\n" % (number % 8, number) for number in range(2000))
CHUNKS, RUNS = 200, 5
MAX_QUIET, MIN_FLOOD = 1.0, 0.95


def quiet() -> bool:
    """How much of a core a daemon uses for sessions in which nothing happens."""
    contender = Fairlead()
    try:
        for number in range(SESSIONS):
            contender.start("exec sh -i", f"quiet-{number}")
        with contender.connect() as host:
            pid = host.status()["pid"]
        time.sleep(SETTLING)
        before = processes.process(pid)
        time.sleep(SECONDS)
        after = processes.process(pid)
    finally:
        contender.close()
    assert before is not None
    assert after is not None
    percent = 100 * (after.cpu_seconds - before.cpu_seconds) / SECONDS
    return row(f"{SESSIONS} quiet sessions, of a core", f"{percent:.2f} %", percent <= MAX_QUIET)


def flood() -> bool:
    """How quickly a flood is drawn beside a tracker, as a part of what it is without one."""
    parts = []
    for _ in range(RUNS):
        without, tracked = (asyncio.run(_drawn(tracked=each)) for each in (False, True))
        parts.append(without / tracked)
    part = statistics.median(parts)
    return row("a flood beside a tracker, of that without one", f"{part:.2f}", part >= MIN_FLOOD)


class Unkept:
    """In the place of a keeper; does nothing."""

    terminal = -1

    def tell(self, kind: FrameKind, *parts: bytes) -> None: ...

    def type(self, data: bytes) -> int:
        return len(data)

    def borrow(self) -> None: ...

    def give_back(self) -> None: ...


async def _drawn(*, tracked: bool) -> float:
    session = TerminalSession(
        Unkept(), lambda session, event: None, scrollback_lines=1000, scrollback_bytes=1 << 20
    )
    state = {"id": "flood", "command": ["sh"], "cwd": "/", "pid": os.getpid(), "started_at": 0.0}
    more = {"generation": 0, "deferred": False, "cols": 80, "rows": 24}
    session.heard(FrameKind.STATE, json.dumps(state | more).encode())
    states = States(Feed(), "", lambda id: False)
    trackers = Trackers(states, RuleFiles("/nowhere").of_program, lambda id: None)
    if tracked:
        trackers.opened(session)
    began = time.perf_counter()
    offset = 0
    for _ in range(CHUNKS):
        offset += session.printed(offset, CHUNK, math.inf)
        await asyncio.sleep(0)
    taken = time.perf_counter() - began
    trackers.close()
    return taken


if __name__ == "__main__":
    results = [quiet(), flood()]
    raise SystemExit(not all(results))
