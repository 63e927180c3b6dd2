"""Events on their way into the stream: one that the server drops for an id of another comes again."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from nats.js.errors import NotFoundError

from fairlead.fleet import subjects
from fairlead.fleet.authority import Authority
from fairlead.fleet.creds import read_creds
from fairlead.fleet.happenings import ID, EventOutbox
from fairlead.fleet.signing import EVENT, SEAL_HEADER, Verifier


class DroppingStream:
    """Says of the first message that it had one with its id."""

    def __init__(self) -> None:
        self.published: list[tuple[bytes, dict[str, str]]] = []

    def jetstream(self, domain: str | None = None) -> "DroppingStream":
        return self

    async def get_last_msg(self, *words: Any, **more: Any) -> Any:
        raise NotFoundError

    async def publish(self, subject: str, data: bytes, headers: dict[str, str], timeout: float) -> Any:
        self.published.append((data, headers))
        return SimpleNamespace(duplicate=len(self.published) == 1)


def test_an_event_whose_id_another_has_used_is_published_with_another_id(tmp_path: Any) -> None:
    made = Authority.new(str(tmp_path / "f"), "team", "127.0.0.1:4222", "127.0.0.1:7422", ["127.0.0.1"])
    with made.changing():
        own = read_creds(made.issue(subjects.MACHINE, "roses"))
    checks = Verifier(own.identity.account, "roses", operator=own.identity.operator)
    outbox, stream = EventOutbox(own, checks), DroppingStream()
    for number in (1, 2):
        outbox.put("sessions/state", {"n": number})

    async def run() -> None:
        running = asyncio.ensure_future(outbox.run(stream))  # type: ignore[arg-type]
        deadline = time.monotonic() + 30
        while outbox.waiting and time.monotonic() < deadline:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert (outbox.waiting, outbox.sent) == (0, 2)
    numbers = [
        checks.opened(EVENT, headers[SEAL_HEADER], data, "roses").number for data, headers in stream.published
    ]
    assert numbers == [f"{outbox.epoch}:{number}" for number in (1, 1, 2)]
    ids = {headers[ID] for _, headers in stream.published}
    assert len(ids) == 3
    assert not any("roses" in id or outbox.epoch in id for id in ids)
