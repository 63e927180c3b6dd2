"""Workers on a real server for tests of the queue: members with credentials of their own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping

import msgspec

from fairlead.fleet import server
from fairlead.fleet.authority import Authority
from fairlead.fleet.creds import Identity, identity_of
from fairlead.fleet.job_layout import make_lanes
from fairlead.fleet.job_store import JobRecord, JobStore
from fairlead.fleet.jobs import JobBody, Lane, new_id
from fairlead.fleet.jwt import decoded
from fairlead.fleet.worker import RunResult, Worker
from tests.fleet.fleets import WAIT, Fleet, Heard

LEASE = 3.0
"""Seconds; a real one is ten times as long."""


class OpenTerms:
    """Every member of the account may have something run."""

    def __init__(self, account: str, refused: Collection[str] = ()) -> None:
        self._account = account
        self._refused = refused

    def standing(self, jwt: str) -> Identity:
        identity = identity_of(decoded(jwt, "user"))
        assert identity.account == self._account, "another account's"
        return identity

    def refusal(self, who: str) -> str:
        return f"runs nothing for {who}" if who in self._refused else ""


class Book:
    """Counts what runs, on all hosts. Jobs whose prompt is `hold` go on until they are let go."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self.now: dict[str, int] = {}
        self.most = 0
        """How many turns of one job ran at the same time."""
        self.ended: list[tuple[str, str]] = []
        self.go = asyncio.Event()


class BookRunner:
    """Runs nothing, and notes that."""

    def __init__(self, host: str, book: Book, projects: Collection[str] = ("/",)) -> None:
        self.host = host
        self.book = book
        self.projects = projects

    def lack(self, body: JobBody) -> str:
        return "" if body.project in self.projects else f"has no directory {body.project}"

    async def run(self, body: JobBody) -> RunResult:
        book = self.book
        book.begun.append((body.id, self.host))
        book.now[body.id] = book.now.get(body.id, 0) + 1
        book.most = max(book.most, book.now[body.id])
        try:
            if body.prompt == "hold":
                await book.go.wait()
            if body.prompt == "gone":
                return RunResult(75, is_gone=True, note="the daemon went away")
            return RunResult(0, confidence="verified", summary=f"done on {self.host}")
        finally:
            book.now[body.id] -= 1
            book.ended.append((body.id, self.host))


class Members:
    """Members of a fleet, each with a connection of its own."""

    def __init__(self, fleet: Fleet, stack: contextlib.AsyncExitStack) -> None:
        self.fleet = fleet
        self.book = Book()
        self.account = Authority(str(fleet.directory)).account().public
        self.hosts: dict[str, tuple[int, Collection[str]]] = {}
        self.heard: dict[str, Heard] = {}
        self._stack = stack
        self._stores: dict[str, JobStore] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def store(self, name: str, kind: str = "machine", *words: str) -> JobStore:
        if name not in self._stores:
            creds = self.fleet.creds(kind, name, *words)
            heard = await self._stack.enter_async_context(self.fleet.client(creds))
            self._stores[name] = JobStore(lambda: heard.nats, creds)
            self.heard[name] = heard
        return self._stores[name]

    async def work(
        self,
        name: str,
        capacity: int = 1,
        labels: Collection[str] = (),
        refused: Collection[str] = (),
        projects: Collection[str] = ("/",),
    ) -> Worker:
        store = await self.store(name)
        await self.lanes(Lane("host", name), *(Lane("label", each) for each in labels))
        self.hosts[name] = capacity, labels
        runner = BookRunner(name, self.book, projects)

        def others() -> Mapping[str, tuple[int, Collection[str]]]:
            return {each: known for each, known in self.hosts.items() if each != name}

        terms = OpenTerms(self.account, refused)
        worker = Worker(store, terms, runner, capacity, labels, others)
        self.tasks[name] = asyncio.get_running_loop().create_task(worker.run())
        return worker

    async def lanes(self, *lanes: Lane) -> None:
        authority = Authority(str(self.fleet.directory))
        async with server.as_administrator(authority, authority.account()) as client:
            await make_lanes(client.jetstream(), [Lane("any"), *lanes], LEASE)

    async def end(self, name: str) -> None:
        """End a worker as its process does, or all at once."""
        task = self.tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def close(self) -> None:
        self.book.go.set()
        for name in list(self.tasks):
            await self.end(name)


@contextlib.asynccontextmanager
async def members(fleet: Fleet) -> AsyncIterator[Members]:
    async with contextlib.AsyncExitStack() as stack:
        made = Members(fleet, stack)
        await made.lanes()
        try:
            yield made
        finally:
            await made.close()


def job(prompt: str = "mend it", **more: object) -> JobBody:
    given = {"lane": "any", "project": "/", "verify": ["true"], **more}
    return msgspec.convert({"id": new_id(), "prompt": prompt, "at": time.time(), **given}, JobBody)


async def until(holds: Callable[[], bool], wait: float = WAIT) -> None:
    async with asyncio.timeout(wait):
        while not holds():
            await asyncio.sleep(0.01)


async def over(store: JobStore, *ids: str, wait: float = WAIT) -> list[JobRecord]:
    """These jobs when all of them have ended."""
    found: dict[str, JobRecord] = {}
    async with asyncio.timeout(wait):
        while set(found) != set(ids):
            await asyncio.sleep(0.05)
            kept = {each.id: each for each in await store.states()}
            found = {id: kept[id] for id in ids if id in kept and kept[id].state.is_over}
    return [found[id] for id in ids]
