"""A dashboard without a terminal, driven by keys, whose screen is read as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from fairlead.system.settings import Settings
from fairlead.ui.dashboard.app import Dashboard
from fairlead.ui.dashboard.link import Link
from fairlead.ui.plot import Look
from tests.hosting import WAIT


class Driven:
    """One of them."""

    def __init__(self, app: Dashboard, pilot: Pilot[int]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def press(self, *keys: str) -> None:
        """Press keys, as quickly as can be."""
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", "'": "apostrophe", ":": "colon"}
        await self.press(*(names.get(char, char) for char in text))

    async def until(self, *texts: str, but: tuple[str, ...] = ()) -> None:
        """Wait until these are on the screen, and those are not."""
        await self.until_it(
            lambda: all(each in self.text for each in texts) and not any(each in self.text for each in but)
        )

    async def until_it(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + WAIT
        while not holds():
            assert time.monotonic() < deadline, f"{self.text}\n{self.app.board.note}"
            await asyncio.sleep(0.02)

    async def answer(self, key: str) -> None:
        """Answer the question that is shown, as soon as its gate lets one."""
        deadline = time.monotonic() + WAIT
        shown = self.app.screen
        while self.app.screen is shown:
            assert time.monotonic() < deadline, self.text
            await self.press(key)
            await asyncio.sleep(0.6)  # a key that comes sooner after another one answers nothing

    async def click(self, x: int, y: int) -> None:
        await self._pilot.click(offset=(x, y))

    async def resize(self, columns: int, rows: int) -> None:
        await self._pilot.resize_terminal(columns, rows)


@asynccontextmanager
async def driven(size: tuple[int, int] = (100, 24)) -> AsyncIterator[Driven]:
    """A dashboard of the daemon that this process finds."""
    link = Link(Settings())
    link.start()
    app = Dashboard(link, Look(colour=True))
    async with app.run_test(size=size) as pilot:
        yield Driven(app, pilot)
    link.join(WAIT)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what a person does."""
    asyncio.run(scenario())
