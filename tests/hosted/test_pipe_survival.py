"""Daemons are killed or replaced while an agent talks: each line is handled once and arrives once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.hosted.pipes import Pipes
from fairlead.system.keepers import NurseryLink
from tests.hosted.agents import ECHO, WAIT, Hearer, Place, chained, serving, talked

ROOT = Path(__file__).parents[2]
KILLS = 30
MAX_LIFE = 0.06
"""Seconds that a daemon serves at most before it is killed."""


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.close()


def daemon(place: Place, every: int) -> subprocess.Popen[bytes]:
    """A daemon that serves the talker and confirms every so many lines."""
    words = [str(place.directory / "arrivals"), str(place.directory / "stop"), str(every)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hosted.daemon", *words],
        cwd=ROOT,
        env={**place.environment, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdout=subprocess.PIPE,
    )


def test_daemons_killed_at_any_moment_lose_and_repeat_nothing_in_either_direction(place: Place) -> None:
    dice = random.Random(os.environ.get("FAIRLEAD_TEST_SEED") or random.randrange(1 << 30))
    talkers = set()
    for _ in range(KILLS):
        each = daemon(place, every=dice.choice((1, 1, 7, 1000)))
        assert each.stdout is not None
        if dice.random() < 0.8:  # else it may be killed before it has found the agent, or while it does
            talkers.add(each.stdout.readline())
            time.sleep(dice.random() * MAX_LIFE)
        else:
            time.sleep(dice.random() * 0.4)
        each.kill()
        each.wait()
        each.stdout.close()
    (place.directory / "stop").touch()
    with daemon(place, every=1) as last:
        try:
            output, _ = last.communicate(timeout=2 * WAIT)
        finally:
            last.kill()
    found, end = output.splitlines()
    assert talkers <= {found + b"\n", b""}, "it is always the same agent"
    state = json.loads(end)
    assert state["code"] == 0
    digest = ""
    for number in range(1, state["handled"] + 1):
        digest = chained(digest, talked(number).rstrip(b"\n"))
    assert state["digest"] == digest
    arrivals = (place.directory / "arrivals").read_text().splitlines()
    assert arrivals == [f"answer {number}" for number in range(1, state["handled"] + 1)]
    assert state["handled"] >= 1000


OLD = """
import sys
from fairlead.keeper import nursery

class Old(nursery.Nursery):
    def _answer(self, client, request):
        if "pipe" in request:
            raise ValueError("expected keep, daemon, back, alive or bye")
        answer = super()._answer(client, request)
        return answer and {key: value for key, value in answer.items() if key != "pipes"}

nursery.Nursery = Old
sys.exit(nursery.main(sys.argv[1]))
"""


def test_a_nursery_from_before_an_upgrade_that_knows_no_pipes_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def noted(*words: Any, **more: Any) -> asyncio.subprocess.Process:
        started.append(await create(*words, **more))
        return started[-1]

    async def work(place: Place) -> None:
        async with serving(place) as pipes:
            command = [sys.executable, "-c", ECHO]
            starts = [pipes.start(name, command, cwd="/", environment=os.environ) for name in "ab"]
            for pipe in await asyncio.gather(*starts):
                hearer = Hearer(pipe)
                pipe.write(1, b"hello\n")
                await hearer.until(lambda: hearer.lines)  # noqa: B023
        assert place.nursery.wait(WAIT) == 0
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    old = Place(nursery=("-c", OLD))
    try:
        asyncio.run(work(old))
        assert len(started) == 1
    finally:
        old.close()


def test_a_daemon_that_is_replaced_hands_its_agents_to_the_next_without_a_pause(place: Place) -> None:
    """The next one claims the place of one that still runs, as an upgrade does."""

    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await pipes.start(
                "a", [sys.executable, "-c", ECHO], cwd="/", environment=os.environ, limits={"in_memory": 10}
            )
            first = Hearer(pipe)
            for number in range(1, 11):
                pipe.write(number, b"line\n")
            await first.until(lambda: len(first.lines) == 10)
            pipe.confirm(len(b"1 line\n") * 5, b"after five")
            pipes.close()
            nursery = NurseryLink(place.settings)
            await nursery.open(None)
            later = Pipes(place.settings, nursery)
            (found,) = await later.found()
            second = Hearer(found)
            found.write(11, b"line\n")
            await second.until(lambda: len(second.lines) == 6)
            assert found.blob == b"after five"
            assert second.lines == [b"%d line" % number for number in range(6, 12)]
            later.close()
            nursery.close()

    asyncio.run(work())
