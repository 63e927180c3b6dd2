"""The thread of a database: order, limits, cancellation, and its end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.system import database
from fairlead.system.database import Database, DatabaseFault

MIGRATIONS = (("CREATE TABLE notes (text TEXT)",),)


class Held:
    """A file whose thread is kept busy until it is let go."""

    def __init__(self, path: Path) -> None:
        self.database = Database(str(path / "notes.db"), MIGRATIONS)
        self.thread = self.database.thread
        self._go = threading.Event()
        begun = threading.Event()

        def hold() -> None:
            begun.set()
            self._go.wait(20)

        self.thread.submit(hold)
        assert begun.wait(20)

    def go(self) -> None:
        self._go.set()

    def note(self, text: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))

        self.database.write(work)

    def notes(self) -> list[object]:
        return [text for (text,) in self.database.read("SELECT text FROM notes ORDER BY rowid")]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path)
    yield held
    held.go()
    assert held.thread._drained(20)
    held.database.close()


def test_works_are_done_in_order_and_the_loop_goes_on_meanwhile(held: Held) -> None:
    async def work() -> list[object]:
        writing = [asyncio.ensure_future(held.thread.run(lambda n=n: held.note(str(n)))) for n in range(5)]  # type: ignore[misc]
        reading = asyncio.ensure_future(held.thread.run(held.notes))
        await asyncio.sleep(0)
        assert not any(each.done() for each in (*writing, reading))
        held.go()
        await asyncio.gather(*writing)
        return await reading

    assert asyncio.run(work()) == ["0", "1", "2", "3", "4"]


def test_who_is_cancelled_takes_back_what_has_not_begun(held: Held) -> None:
    async def work() -> list[object]:
        one, two = (asyncio.ensure_future(held.thread.run(lambda t=t: held.note(t))) for t in "ab")  # type: ignore[misc]
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.sleep(0)  # until it has heard that
        held.go()
        await two
        with pytest.raises(asyncio.CancelledError):
            await one
        return await held.thread.run(held.notes)

    assert asyncio.run(work()) == ["b"]


def test_what_a_work_raises_is_its_callers_and_the_thread_goes_on(held: Held) -> None:
    held.go()

    async def work() -> None:
        with pytest.raises(ZeroDivisionError):
            await held.thread.run(lambda: 1 / 0)
        with pytest.raises(DatabaseFault, match="no such table"):
            await held.thread.run(lambda: held.database.read("SELECT * FROM missing"))
        assert await held.thread.run(held.notes) == []

    asyncio.run(work())


def test_too_many_works_are_refused(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_WORKS", 2)
    for _ in range(2):
        held.thread.submit(held.notes)
    with pytest.raises(DatabaseFault, match="2 operations are already queued"):
        held.thread.submit(held.notes)


def test_closing_waits_for_what_was_asked_for_but_not_for_ever(held: Held) -> None:
    async def close() -> None:
        held.thread.soon(lambda: held.note("last"))
        assert not await held.thread.close(0.01)  # it is still held
        with pytest.raises(DatabaseFault, match="is closed"):
            await held.thread.run(held.notes)
        held.go()
        assert await held.thread.close(20)

    asyncio.run(close())
    assert held.notes() == ["last"]
