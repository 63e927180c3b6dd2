"""The limits of the Passepartout door, with a door of our own whose waits are short."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.control.signals import Client, Signal
from fairlead.doors import passepartout as door_module
from fairlead.doors.passepartout import PassepartoutDoor
from fairlead.doors.peer_proof import Token, owner_by_netlink, owner_in_table, peer_uid
from fairlead.formats.sexp import Keyword
from fairlead.system.settings import Settings
from fairlead.wire.passepartout import MAX_CHARACTERS, Health, Message, plist

WAIT = 10.0


class Room:
    """Hears everything and does nothing."""

    def __init__(self) -> None:
        self.heard: list[Signal] = []
        self.gone = 0
        self.writers: list[asyncio.StreamWriter] = []

    def hear(self, signal: Signal) -> str:
        self.heard.append(signal)
        return ""

    def cancel(self, client: Client, session: str | None = None) -> int:
        return 0

    def arrived(self, client: Client) -> None:
        pass

    def owes(self, client: Client) -> bool:
        return False

    def left(self, client: Client) -> None:
        self.gone += 1


@asynccontextmanager
async def opened(tmp_path: Path, **settings: str) -> AsyncIterator[tuple[PassepartoutDoor, Room]]:
    environment = {
        "FAIRLEAD_RUNTIME_DIR": str(tmp_path),
        "FAIRLEAD_STATE_DIR": str(tmp_path),
        "FAIRLEAD_CONFIG": str(tmp_path / "none.toml"),
        "FAIRLEAD_PASSEPARTOUT_PORT": "0",
        **{f"FAIRLEAD_PASSEPARTOUT_{key.upper()}": value for key, value in settings.items()},
    }
    room = Room()
    door = PassepartoutDoor(Settings(environment), room, lambda: (Health.HEALTHY, True))
    await door.open()
    try:
        yield door, room
    finally:
        await door.close()
        for writer in room.writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        while door.clients:
            await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(WAIT):
            await work()

    asyncio.run(timed())


async def connect(door: PassepartoutDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    assert isinstance(door.room, Room)
    door.room.writers.append(writer)
    assert b":HANDSHAKE" in await frame(reader)
    return reader, writer


async def frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int(await reader.readexactly(6), 16))


async def rest(reader: asyncio.StreamReader) -> str:
    return (await reader.read()).decode()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(door_module, "SWEEP_EVERY", 0.01)
    monkeypatch.setattr(door_module, "LINGER", 0.05)
    return monkeypatch


def test_a_slow_sender_is_let_go(tmp_path: Path, quick: pytest.MonkeyPatch) -> None:
    quick.setattr(door_module, "FRAME_WAIT", 0.1)

    async def work() -> None:
        async with opened(tmp_path) as (door, _):
            reader, writer = await connect(door)

            async def dribble() -> None:
                for byte in b"000030(:TYPE :EVENT :PAYLOAD (:SENSOR :X":
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.02)

            task = asyncio.create_task(dribble())
            assert "a frame was not complete within 0.1 s" in await rest(reader)
            task.cancel()

    run(work)


def test_who_says_nothing_is_let_go_after_the_idle_time(tmp_path: Path, quick: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with opened(tmp_path, idle="0.05") as (door, room):
            reader, _ = await connect(door)
            assert "idle for 0.05 s" in await rest(reader)
            while not room.gone:
                await asyncio.sleep(0.01)
            assert door.clients == 0

    run(work)


def test_who_does_not_prove_itself_is_let_go(tmp_path: Path, quick: pytest.MonkeyPatch) -> None:
    quick.setattr(door_module, "PROOF_WAIT", 0.05)
    quick.setattr(door_module, "peer_uid", lambda connection: os.getuid() + 1)

    async def work() -> None:
        async with opened(tmp_path) as (door, _):
            reader, _ = await connect(door)
            assert "not authenticated within 0.05 s" in await rest(reader)

    run(work)


def test_connections_are_limited_and_those_without_proof_more_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with opened(tmp_path, max_connections="3") as (door, _):
            kept = [await connect(door) for _ in range(3)]
            reader, writer = await connect(door)
            assert "3 clients are already connected" in await rest(reader)
            for _, each in [*kept, (reader, writer)]:
                each.close()
        monkeypatch.setattr(door_module, "MAX_UNPROVEN", 2)
        monkeypatch.setattr(door_module, "peer_uid", lambda connection: None)
        async with opened(tmp_path) as (door, _):
            kept = [await connect(door) for _ in range(2)]
            reader, writer = await connect(door)
            assert "2 unauthenticated clients are already connected" in await rest(reader)
            for _, each in [*kept, (reader, writer)]:
                each.close()

    run(work)


def test_unfinished_frames_of_all_clients_together_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "MAX_HELD", 300_000)

    async def work() -> None:
        async with opened(tmp_path) as (door, _):
            first, second = await connect(door), await connect(door)
            first[1].write(b"03FFFF" + b"x" * 200_000)
            while door.held < 200_000:
                await asyncio.sleep(0.01)
            second[1].write(b"03FFFF" + b"x" * 200_000)
            assert "incomplete frames already hold more than" in await rest(second[0])
            second[1].close()
            first[1].close()
            while door.clients:
                await asyncio.sleep(0.01)
            assert door.held == 0

    run(work)


def test_who_never_reads_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "WRITE_LIMIT", 100_000)
    text = "x" * 200_000

    async def work() -> None:
        async with opened(tmp_path) as (door, room):
            await connect(door)
            while not door.clients:
                await asyncio.sleep(0.01)
            while not room.gone:
                door.tell(Message(plist(type=Keyword("LOG"), payload=plist(text=text))))
                await asyncio.sleep(0)

    run(work)


def test_a_reply_above_the_frame_limit_is_said_not_to_fit(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (door, room):
            reader, writer = await connect(door)
            text = '(:TYPE :EVENT :PAYLOAD (:SENSOR :USER-INPUT :TEXT "x"))'
            writer.write(f"{len(text):06X}{text}".encode())
            while not room.heard:
                await asyncio.sleep(0.01)
            client = room.heard[0].client
            assert client is not None
            client.send(Message(plist(type=Keyword("LOG"), payload=plist(text="x" * MAX_CHARACTERS))))
            assert b"an answer could not be sent" in await frame(reader)

    run(work)


def test_a_frame_with_too_many_atoms_is_refused_and_the_connection_lives(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (door, _):
            reader, writer = await connect(door)
            text = f"({':K ' * 3000})"
            writer.write(f"{len(text):06X}{text}".encode() + b"000015(:TYPE :HEALTH-CHECK)")
            assert b"more than 2000 atoms" in await frame(reader)
            assert b":HEALTHY" in await frame(reader)

    run(work)


def test_a_port_that_is_taken_leaves_the_unix_socket(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            async with opened(tmp_path, port=str(taken.getsockname()[1])) as (door, room):
                assert "can't listen on 127.0.0.1" in door.fault
                assert door.port == 0
                reader, writer = await asyncio.open_unix_connection(str(tmp_path / "passepartout.sock"))
                room.writers.append(writer)
                assert b":HANDSHAKE" in await reader.readexactly(60)

    run(work)


def test_a_path_that_is_too_long_for_a_socket_leaves_tcp(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()

    async def work() -> None:
        async with opened(deep) as (door, _):
            assert "can't listen at" in door.fault
            await connect(door)

    run(work)


def test_a_client_that_goes_while_its_input_waits_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "LINE_SECONDS", 0.0)

    async def work() -> None:
        async with opened(tmp_path) as (door, room):
            for _ in range(5):
                _, writer = await connect(door)
                writer.write(b"03FFFF" + b"x" * 200_000)
                await asyncio.sleep(0.001)
                writer.transport.abort()
            while door.clients or not room.gone:
                await asyncio.sleep(0.01)
            assert door.held == 0

    run(work)


# --- proof ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="only Linux tells")
def test_the_peer_of_a_loopback_connection_is_found_by_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        with ours, theirs:
            assert peer_uid(theirs) == os.getuid()
            ends = ours.getsockname(), ours.getpeername()
            assert (owner_in_table(*ends) or (None,))[0] == os.getuid()
            try:
                assert (owner_by_netlink(*ends) or (None,))[0] == os.getuid()
            except OSError:
                pytest.skip("this kernel has no sock_diag")
            ours.close()
            assert peer_uid(theirs) is None  # nobody holds it: not even root's
            assert owner_in_table(*ends) is None


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp6"), reason="only Linux tells")
def test_a_peer_with_an_ipv6_socket_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as ours:
        try:
            ours.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        except OSError:
            pytest.skip("there is no IPv6 here")
        theirs, _ = listener.accept()
        with theirs:
            assert peer_uid(theirs) == os.getuid()
            assert (owner_in_table(theirs.getpeername(), theirs.getsockname()) or (None,))[0] == os.getuid()


@pytest.mark.parametrize("at", ["::1", "::"])
@pytest.mark.skipif(not os.path.exists("/proc/net/tcp6"), reason="only Linux tells")
def test_the_peer_of_a_connection_over_ipv6_is_found_by_both_ways(at: str) -> None:
    try:
        listener = socket.create_server((at, 0), family=socket.AF_INET6, dualstack_ipv6=at == "::")
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listener:
        for host in ("::1", "127.0.0.1") if at == "::" else ("::1",):
            ours = socket.create_connection((host, listener.getsockname()[1]))
            theirs, _ = listener.accept()
            with ours, theirs:
                assert peer_uid(theirs) == os.getuid(), host
                ends = ours.getsockname()[:2], ours.getpeername()[:2]
                assert (owner_in_table(*ends) or (None,))[0] == os.getuid(), host
                with contextlib.suppress(OSError):  # a kernel without sock_diag
                    assert (owner_by_netlink(*ends) or (None,))[0] == os.getuid(), host
                ours.close()
                assert peer_uid(theirs) is None, host


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = Token(str(path)).read()
    assert len(token) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert Token(str(path)).read() == token
    assert Token(str(path)).is_right(token)
    for wrong in ("", token[:-1], token + "x", token.upper(), "\udcff"):
        assert not Token(str(path)).is_right(wrong)


def test_a_token_that_others_can_read_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = Token(str(path)).read()
    path.chmod(0o644)
    assert not Token(str(path)).is_right(token)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert not Token(str(path)).is_right(token)
    path.unlink()
    path.touch(0o600)
    assert not Token(str(path)).is_right("")
