"""Agents that talk over pipes, as a daemon has them: started, listened to, written to, found again, ended."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.hosted import pipe as pipe_module
from fairlead.hosted.pipe import MAX_QUEUED, PIECE, Pipe, PipeClosed, PipeError, PipeFull
from fairlead.hosted.pipes import Pipes
from fairlead.keeper.protocol import MAX_BLOB, MAX_WRITE, FrameKind, Stdin, frame
from fairlead.system.keepers import KEEPER_KILLED
from tests.hosted.agents import ECHO, WAIT, Hearer, Place, serving
from tests.hosting import is_alive


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * WAIT):
            await work

    asyncio.run(bounded())


async def python(pipes: Pipes, script: str, *words: str, **limits: int) -> Pipe:
    return await pipes.start(
        "a", [sys.executable, "-c", script, *words], cwd="/", environment=os.environ, limits=limits
    )


async def shell(pipes: Pipes, script: str) -> Pipe:
    return await pipes.start("a", ["sh", "-c", script], cwd="/", environment=os.environ)


async def until_gone(pid: int) -> None:
    deadline = time.monotonic() + WAIT
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        await asyncio.sleep(0.01)


def test_lines_go_both_ways_and_the_end_is_told(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, ECHO + "print('err', file=sys.stderr); sys.exit(3)")
            hearer = Hearer(pipe)
            for number in range(1, 101):
                assert pipe.write(number, b"line %d\n" % number)
            pipe.close_stdin()
            with pytest.raises(PipeClosed, match="the input of a is closed"):
                pipe.write(101, b"too late\n")
            assert await hearer.ending() == (3, 0, b"err\n", "")
            assert hearer.lines == [b"%d line %d" % (number, number) for number in range(1, 101)]
            assert pipe.last_sequence == 100
            assert hearer.is_output_closed
            pipes.forget(pipe)
            while os.listdir(place.settings.pipes_dir):
                await asyncio.sleep(0.01)

    run(work())


def test_the_next_daemon_finds_the_agent_its_note_the_blob_and_what_came_since(place: Place) -> None:
    async def work() -> None:
        async with serving(place, ends_all=False) as pipes:
            command = [sys.executable, "-c", ECHO]
            pipe = await pipes.start("a", command, cwd="/", environment=os.environ, note={"who": "me"})
            hearer = Hearer(pipe)
            pipe.write(1, b"one\n")
            pipe.write(2, b"two\n")
            await hearer.until(lambda: len(hearer.lines) == 2)
            pipe.confirm(6, b"the state after one")
        async with serving(place) as pipes:
            (found,) = await pipes.found()
            assert (found.name, found.pid, found.note) == ("a", pipe.pid, {"who": "me"})
            assert (found.offset, found.blob) == (6, b"the state after one")
            assert found.last_sequence == 2
            hearer = Hearer(found)
            found.write(2, b"two again\n")
            found.write(3, b"three\n")
            await hearer.until(lambda: len(hearer.lines) == 2)
            assert hearer.lines == [b"2 two", b"3 three"]

    run(work())


def test_an_agent_that_ended_while_no_daemon_was_there_is_found_with_its_end(place: Place) -> None:
    async def work() -> None:
        async with serving(place, ends_all=False) as pipes:
            pipe = await shell(pipes, "read line; echo $line; echo why >&2; exit 9")
            pipe.write(1, b"last words\n")
            await asyncio.sleep(0)
        await until_gone(pipe.pid)
        async with serving(place) as pipes:
            (found,) = await pipes.found()
            hearer = Hearer(found)
            assert await hearer.ending() == (9, 0, b"why\n", "")
            assert hearer.lines == [b"last words"]
            pipes.forget(found)

    run(work())


@pytest.mark.parametrize(
    ("command", "cwd", "sentence"),
    [
        (["no-such-agent"], "/", "can't start 'no-such-agent': No such file or directory"),
        (["/etc/passwd"], "/", "can't start '/etc/passwd': Permission denied"),
        (["true"], "/no/such/place", "no such directory: /no/such/place"),
    ],
)
def test_an_agent_that_cant_be_started_is_a_sentence_and_leaves_nothing(
    place: Place, command: list[str], cwd: str, sentence: str
) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            with pytest.raises(PipeError, match=f"^{re.escape(sentence)}$"):
                await pipes.start("a", command, cwd=cwd, environment=os.environ)
            assert list(pipes) == []
            directory = place.settings.pipes_dir
            assert not os.path.exists(directory) or os.listdir(directory) == []

    run(work())


def test_an_agent_that_a_dead_daemon_was_about_to_start_is_not_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with serving(place, ends_all=False) as pipes:
            monkeypatch.setattr(Pipe, "start", lambda self: pipes.close())
            starting = asyncio.create_task(python(pipes, ECHO))
            with pytest.raises(asyncio.CancelledError):
                await starting
        monkeypatch.setattr(pipe_module, "START_WAIT", 1.0)
        async with serving(place) as pipes:
            assert await pipes.found() == []
            while os.listdir(place.settings.pipes_dir):
                await asyncio.sleep(0.01)

    run(work())


def test_a_connection_that_is_lost_is_made_again_and_each_line_counts_once(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, ECHO)
            hearer = Hearer(pipe)
            (path,) = Path(place.settings.pipes_dir).glob("*.sock")
            for start in range(1, 301, 100):
                rival = socket.socket(socket.AF_UNIX)
                rival.connect(str(path))
                rival.sendall(frame(FrameKind.CLAIM, json.dumps({"pid": 1}).encode()))
                rival.recv(10)  # it has our place
                rival.close()
                for number in range(start, start + 100):
                    pipe.write(number, b"line\n")
                    await asyncio.sleep(0)
                await hearer.until(lambda: len(hearer.lines) == start + 99)  # noqa: B023
                pipe.confirm(sum(len(line) + 1 for line in hearer.lines[:-10]), b"without the last ten")
            assert hearer.lines == [b"%d line" % each for each in range(1, 301)]

    run(work())


def test_an_agent_whose_keeper_was_killed_has_ended_and_so_have_its_children(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await shell(pipes, "setsid sleep 1000 & echo $!; trap '' TERM; sleep 1000; sleep 1000")
            hearer = Hearer(pipe)
            await hearer.until(lambda: hearer.lines)
            os.kill(pipe.keeper_pid, signal.SIGKILL)
            end = await hearer.ending()
            assert end.code == KEEPER_KILLED
            assert re.match(r"the keeper of a was killed; \d+ of its processes were ended", end.failure)
            await until_gone(pipe.pid)
            await until_gone(int(hearer.lines[0]))
            assert os.listdir(place.settings.pipes_dir) == []

    run(work())


def long_line(number: int) -> bytes:
    return b"%09d%b\n" % (number, b"x" * 9_990)


def test_writing_to_an_agent_that_does_not_read_never_waits_and_has_a_limit(place: Place) -> None:
    script = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for line in sys.stdin:
    sys.stdout.write(f"{len(line)} {line[:9]}\\n")
"""

    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, script, str(place.directory / "go"), input_queue=200_000)
            hearer = Hearer(pipe)
            lines = -(-MAX_QUEUED // 10_000)
            for number in range(1, lines + 1):
                assert pipe.write(number, long_line(number)) == (number * 10_000 < 200_000)
            with pytest.raises(PipeFull, match=r"a does not read: \d+ bytes wait for it"):
                pipe.write(lines + 1, long_line(lines + 1))
            (place.directory / "go").touch()
            await hearer.until(lambda: hearer.writables)
            assert pipe.write(lines + 1, long_line(lines + 1))
            pipe.close_stdin()
            assert (await hearer.ending()).code == 0
            assert hearer.lines == [b"10000 %09d" % number for number in range(1, lines + 2)]
            assert hearer.writables == 1

    run(work())


def test_an_agent_that_closes_its_input_and_output_is_told_of(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await shell(pipes, "exec <&- >&-; sleep 1000")
            hearer = Hearer(pipe)
            await hearer.until(lambda: hearer.is_output_closed)
            pipe.write(1, b"anybody?\n")
            await hearer.until(lambda: hearer.is_input_lost)
            assert pipe.stdin is Stdin.GONE
            with pytest.raises(PipeClosed):
                pipe.write(2, b"anybody?\n")
            pipe.signal(signal.SIGTERM)
            assert (await hearer.ending())[:2] == (128 + signal.SIGTERM, signal.SIGTERM)

    run(work())


def test_stopping_closes_the_input_first(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, ECHO)
            Hearer(pipe)
            assert (await pipe.stop(5.0)).code == 0

    run(work())


def test_stopping_ends_an_agent_that_ignores_everything_and_all_that_it_started(place: Place) -> None:
    script = (
        "trap '' TERM HUP; echo $$; setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000' & sleep 1000; sleep 9"
    )

    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await shell(pipes, script)
            hearer = Hearer(pipe)
            await hearer.until(lambda: len(hearer.lines) == 2)
            assert (await pipe.stop(0.2)).signal == signal.SIGKILL
            for pid in hearer.lines:
                await until_gone(int(pid))

    run(work())


def test_the_standard_error_can_be_asked_for(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await shell(pipes, "echo trouble >&2; echo; read line; echo more >&2")
            hearer = Hearer(pipe)
            await hearer.until(lambda: hearer.lines)
            while await pipe.stderr_tail() != b"trouble\n":
                await asyncio.sleep(0.01)
            pipe.write(1, b"\n")
            await hearer.ending()
            assert await pipe.stderr_tail() == b"trouble\nmore\n"

    run(work())


def test_a_flood_of_one_line_is_received_in_pieces_and_leaves_the_loop_to_others(place: Place) -> None:
    size = 100_000_000

    class Flooded(Hearer):
        total = largest = 0

        def received(self, offset: int, data: bytes) -> None:
            assert offset == self.total
            self.total += len(data)
            self.largest = max(self.largest, len(data))
            if self.total % (1 << 20) < len(data):
                self.pipe.confirm(self.total, b"so far")

    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, f"import sys; sys.stdout.write('x' * {size})")
            hearer = Flooded(pipe)
            passes = 0
            while hearer.end is None:
                await asyncio.sleep(0)
                passes += 1
            assert (hearer.total, hearer.end.code) == (size, 0)
            assert hearer.largest <= PIECE
            assert passes > 1000

    run(work())


def test_an_agent_that_floods_before_anybody_listens_waits_on_disk(place: Place) -> None:
    size = 5_000_000

    async def work() -> None:
        async with serving(place, ends_all=False) as pipes:
            pipe = await python(pipes, f"import sys; sys.stdout.write('{'x' * 99}\\n' * {size // 100})")
            await until_gone(pipe.pid)
        async with serving(place) as pipes:
            (found,) = await pipes.found()
            hearer = Hearer(found)
            assert (await hearer.ending()).code == 0
            assert hearer.lines == [b"x" * 99] * (size // 100)
            pipes.forget(found)

    run(work())


def test_what_makes_no_sense_is_refused_here(place: Place) -> None:
    async def work() -> None:
        async with serving(place) as pipes:
            pipe = await python(pipes, ECHO)
            hearer = Hearer(pipe)
            with pytest.raises(ValueError, match="line 2 for a; expected 1"):
                pipe.write(2, b"two\n")
            with pytest.raises(ValueError, match="expected at most"):
                pipe.write(1, bytes(MAX_WRITE + 1))
            pipe.write(1, b"one\n")
            await hearer.until(lambda: hearer.lines)
            for offset in (-1, 7):
                with pytest.raises(ValueError, match="expected 0 to 6"):
                    pipe.confirm(offset, b"")
            with pytest.raises(ValueError, match="expected at most"):
                pipe.confirm(6, bytes(MAX_BLOB + 1))
            pipe.confirm(6, b"state")
            pipe.write(2, b"two\n")
            await hearer.until(lambda: len(hearer.lines) == 2)

    run(work())


def test_a_listener_that_fails_leaves_what_it_did_not_confirm_to_the_next_daemon(place: Place) -> None:
    class Failing(Hearer):
        def received(self, offset: int, data: bytes) -> None:
            raise RuntimeError("no idea what this is")

    async def work() -> None:
        async with serving(place, ends_all=False) as pipes:
            pipe = await python(pipes, ECHO)
            Failing(pipe)
            pipe.write(1, b"one\n")
            while "unlinked" not in repr(pipe):
                await asyncio.sleep(0.01)
        async with serving(place) as pipes:
            (found,) = await pipes.found()
            hearer = Hearer(found)
            found.write(2, b"two\n")
            await hearer.until(lambda: len(hearer.lines) == 2)
            assert hearer.lines == [b"1 one", b"2 two"]

    run(work())
