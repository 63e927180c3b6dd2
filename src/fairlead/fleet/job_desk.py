"""The queue for this machine's commands: what they ask at `fleet.sock` after the word `queue`.

A request is one map of JSON whose size stands in the line before it, an answer one line of JSON, and for
`wait` one line for each job as it ends. Whoever may use that socket asks as this machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from . import limits
from .job_store import JobRecord, JobStore, QueueAway
from .jobs import JobBody, JobFault, Lane, check_id, lacking, new_id

MAX_ASKED = 2 * limits.MAX_JOB
"""Bytes of a request."""
LOOK_AGAIN = 10.0
"""Seconds after which what is waited for is looked at, even if nothing was heard of it."""


def row_of(kept: JobRecord, *, whole: bool = False) -> dict[str, Any]:
    """A job as it is listed."""
    state = kept.state
    row: dict[str, Any] = {
        "id": kept.id,
        "state": state.state,
        "verdict": state.confidence,
        "host": state.host,
        "tries": state.tried,
        "seconds": state.seconds or None,
        "asker": state.asker,
        "on": state.lane,
        "project": state.project,
        "title": state.title,
        "asked_at": state.at,
        "since": state.since,
        "code": state.code if state.is_over else None,
        "summary": state.summary,
        "note": state.note,
        "by": state.by,
    }
    if whole:
        row |= {"passed": dict(state.passed), "report": _report(state.report)}
        if kept.job is not None:
            body = msgspec.json.decode(kept.job.body, type=JobBody)
            row |= {"prompt": body.prompt, "verify": body.verify, "persona": body.persona}
    return row


def _report(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


class JobDesk:
    """Answers what commands ask of the queue."""

    def __init__(
        self, store: JobStore, hosts: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    ) -> None:
        """`hosts` are those of the fleet now, with this one, if somebody knows."""
        self._store = store
        self._hosts = hosts

    def _lacks(self, lane: str) -> str:
        return lacking(Lane.read(lane), self._hosts()) if self._hosts is not None else ""

    async def serve(self, size: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            if not size.isdigit() or int(size) > MAX_ASKED:
                raise JobFault(f"the job is too large: it has at most {limits.MAX_JOB // 1024} KiB")
            async with asyncio.timeout(limits.JOB_ANSWER_SECONDS):
                asked = json.loads(await reader.readexactly(int(size)))
            if type(asked) is not dict:
                raise JobFault("a request to the queue is a map")
            async for answer in self._answers(asked):
                await _write(writer, answer)
        except (JobFault, QueueAway) as error:
            await _write(writer, {"error": str(error)})
        except (ValueError, TypeError, asyncio.IncompleteReadError, msgspec.MsgspecError) as error:
            await _write(writer, {"error": f"a request that makes no sense: {error}"})

    async def _answers(self, asked: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        ids = [check_id(str(each)) for each in asked.get("ids") or ()][: limits.MAX_LISTED]
        own = self._store.creds.identity
        if own.read_only and asked.get("do") in ("put", "cancel", "retry"):
            raise JobFault(f"a read-only credential ({own.name}) may look at the queue and change nothing")
        match asked.get("do"):
            case "put":
                given = {**asked["job"], "id": new_id(), "at": time.time(), "round": 0}
                body = msgspec.convert(given, JobBody, strict=True)
                yield row_of(await self._store.put(body)) | {"lacks": self._lacks(body.lane)}
            case "ls":
                kept = await self._store.states()
                yield {"jobs": [row_of(each) for each in kept if not ids or each.id in ids]}
            case "show":
                found = {each.id: each for each in await self._store.states()}
                for id in ids:
                    if id not in found:
                        raise JobFault(f"no job {id}; `fairlead queue ls` lists them")
                    row = row_of(found[id], whole=True)
                    yield row | {"lacks": self._lacks(row["on"]) if row["state"] == "queued" else ""}
            case "cancel":
                for id in ids:
                    yield row_of(await self._store.cancel(id, time.time()))
            case "retry":
                for id in ids:
                    yield row_of(await self._store.retry(id, time.time()))
            case "wait":
                async for row in self._ended(ids):
                    yield row
            case other:
                raise JobFault(f"the queue does not know what {other!r:.40} is")

    async def _ended(self, ids: list[str]) -> AsyncIterator[dict[str, Any]]:
        """Jobs as they end: these, or all that are not over now."""
        waiting = set(ids)
        if not ids:
            waiting = {each.id for each in await self._store.states() if not each.state.is_over}
        heard: asyncio.Queue[str] = asyncio.Queue()
        listening = asyncio.ensure_future(self._listen(heard))
        try:
            while waiting:
                look = set(waiting)
                try:
                    async with asyncio.timeout(LOOK_AGAIN):
                        look = {await heard.get()}
                except TimeoutError:
                    pass
                while not heard.empty():
                    look.add(heard.get_nowait())
                for id in waiting & look if "" not in look else set(waiting):
                    try:
                        kept = await self._store.newest(id)
                    except QueueAway:
                        continue
                    if kept is None:
                        raise JobFault(f"no job {id}; `fairlead queue ls` lists them")
                    if kept.state.is_over:
                        waiting.discard(id)
                        yield row_of(kept, whole=True)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, heard: asyncio.Queue[str]) -> None:
        while True:
            try:
                async for id in self._store.changes():
                    heard.put_nowait(id)
            except QueueAway:
                pass
            await asyncio.sleep(limits.AWAY_PAUSE)


async def _write(writer: asyncio.StreamWriter, value: Mapping[str, Any]) -> None:
    writer.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
    await writer.drain()
