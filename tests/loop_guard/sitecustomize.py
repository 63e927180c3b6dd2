"""Watches the event loop of each daemon that a test starts, and writes down what holds it up.

A timer ticks on the loop. What counts is the processor time of the loop's thread from one tick to the next,
and how often another thread found it asleep in the middle of a callback: neither grows because the machine is
busy or the process was stopped.
"""

from __future__ import annotations

import os
import sys
from typing import Any

TICK = 0.02
"""Seconds between ticks, and between the looks of the other thread."""
CPU_LIMIT = 0.1
"""Seconds of its processor time that the loop may take between two ticks, besides those of a tick itself."""
COVERED_LIMIT = 0.4
"""The same while coverage is measured, which makes Python that much slower."""
BLOCKED_LOOKS = 25
"""In how many looks in a row the loop's thread may be asleep without having ticked: half a second."""
STARTING = 0
"""How many ticks a daemon has to come up: modules are imported, and nobody is there yet who would wait."""
DEPTH = 12
"""How many frames are written down."""


def watch(path: str) -> None:
    import asyncio
    import threading
    import time
    import traceback

    loop = asyncio.get_running_loop()
    ident, native = threading.get_ident(), threading.get_native_id()
    limit = COVERED_LIMIT if "COVERAGE_PROCESS_START" in os.environ else CPU_LIMIT
    clock = time.pthread_getcpuclockid(ident)
    ticks: list[Any] = [0, time.clock_gettime(clock)]  # how many there were, and the time of the last
    seen: list[Any] = ["", -1]  # a stack, and after which tick it was seen

    def tell(what: str, stack: str) -> None:
        with open(path, "a") as file:
            file.write(f"{what}\n{stack}\n")

    def tick() -> None:
        now = time.clock_gettime(clock)
        took = now - ticks[1]
        if took > limit + TICK and ticks[0] > STARTING:
            stack = seen[0] if seen[1] == ticks[0] else "(it was over before anybody looked)"
            tell(f"the daemon's loop was busy for {took * 1000:.0f} ms of processor time", stack)
        ticks[0] += 1
        ticks[1] = time.clock_gettime(clock)
        loop.call_later(TICK, tick)

    def is_asleep() -> bool:
        with open(f"/proc/self/task/{native}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "SD"

    def look() -> None:
        asleep, at = 0, -1
        while True:
            time.sleep(TICK)
            if ticks[0] != at:
                asleep, at = 0, ticks[0]
                continue
            frame = sys._current_frames().get(ident)
            stack = "".join(traceback.format_stack(frame)[-DEPTH:])
            if seen[1] != at and time.clock_gettime(clock) - ticks[1] > limit / 2:
                seen[:] = stack, at
            asleep = asleep + 1 if is_asleep() else 0
            if asleep == BLOCKED_LOOKS and at > STARTING:
                tell("the daemon's loop waited for something else than its clients", stack)

    tick()
    threading.Thread(target=look, name="loop guard", daemon=True).start()


def guard(path: str) -> None:
    import asyncio

    run = asyncio.run

    def guarded(main: Any, **more: Any) -> Any:
        async def serve() -> Any:
            watch(path)
            return await main

        return run(serve(), **more)

    asyncio.run = guarded


place = os.environ.get("LOOP_GUARD", "")
if place and "daemon" in sys.orig_argv and "run" in sys.orig_argv and os.path.exists("/proc/self/task"):
    guard(place)
