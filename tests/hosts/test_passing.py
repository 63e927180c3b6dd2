"""What is passed on to a host that answers slowly, much, or not at all; and hosts that the fleet knows."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.doors.rpc.handlers import OpError
from fairlead.formats.writing import Verbatim
from fairlead.hosts import limits
from fairlead.hosts.connection import FarConnection
from fairlead.hosts.passing import Passing
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.hosting import WAIT, Hosting
from tests.hosts.test_links import host_of, rows_of


class SlowDaemon:
    """A daemon at the other end of a pair of sockets that answers `ping` and nothing else, unless told to."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.asked: list[str] = []
        self.callers: list[tuple[str, str]] = []
        self.answers: dict[str, object] = {}
        self._serving: list[asyncio.Task[None]] = []

    async def open(self, via: str, agent: str) -> FarConnection:
        self.callers.append((via, agent))
        ours, theirs = socket.socketpair()
        self._serving.append(asyncio.ensure_future(self._serve(theirs)))
        return await FarConnection.open(ours, self.pool, via=via, agent=agent)

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        wire = rpc.ServerConnection()
        while data := await reader.read(65_536):
            for item in wire.receive(data):
                assert isinstance(item, rpc.Request)
                self.asked.append(item.op)
                if item.op == "handshake":
                    writer.write(wire.respond(item.id, rpc.server_info()))
                elif item.op in self.answers:
                    writer.write(wire.respond(item.id, self.answers[item.op]))
        writer.close()

    async def close(self) -> None:
        for task in self._serving:
            await asyncio.wait_for(task, WAIT)
        self.pool.shutdown()


def test_what_is_not_answered_is_given_up_and_cancelled_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSED_WAIT", 0.2)

    async def scenario() -> None:
        far = SlowDaemon()
        passing = Passing("box", far.open, far.pool)
        with pytest.raises(OpError, match="box: no answer in time"):
            await passing.ask("session_find", {}, via="dashboard", agent="")
        while "cancel" not in far.asked:
            await asyncio.sleep(0.01)
        await passing.close()
        await far.close()

    asyncio.run(scenario())


def test_no_more_is_under_way_at_a_host_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PASSED", 3)

    async def scenario() -> None:
        far = SlowDaemon()
        passing = Passing("box", far.open, far.pool)
        waiting = [
            asyncio.ensure_future(passing.ask("session_find", {}, via="a", agent="")) for _ in range(3)
        ]
        while far.asked.count("session_find") < 3:
            await asyncio.sleep(0.01)
        with pytest.raises(OpError, match="3 requests are under way"):
            await passing.ask("session_find", {}, via="a", agent="")
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        far.answers["ping"] = rpc.fields(pong=True)
        assert await passing.ask("ping", {}, via="a", agent="")
        assert len(far.callers) == 1
        await passing.close()
        await far.close()

    asyncio.run(scenario())


def test_who_asks_is_kept_apart_and_the_oldest_who_does_not_is_let_go() -> None:
    async def scenario() -> None:
        far = SlowDaemon()
        far.answers["ping"] = rpc.fields(pong=True)
        passing = Passing("box", far.open, far.pool)
        for number in range(limits.MAX_CALLERS + 2):
            await passing.ask("ping", {}, via=f"v{number}", agent="")
        await passing.ask("ping", {}, via="v1", agent="garden")
        assert len(set(far.callers)) == limits.MAX_CALLERS + 3
        assert all(via.partition(": ")[2] for via, _ in far.callers)
        assert next(agent for _, agent in far.callers if agent).endswith(": garden")
        assert len(passing._callers) <= limits.MAX_CALLERS
        await passing.close()
        await far.close()

    asyncio.run(scenario())


def test_a_long_answer_is_passed_on_as_it_is_with_its_ids() -> None:
    async def scenario() -> None:
        far = SlowDaemon()
        row = rpc.fields(id="work", what="x" * 100_000)
        far.answers["session_find"] = rpc.fields(session=row, session_id="work")
        passing = Passing("box", far.open, far.pool)
        answer = await passing.ask("session_find", {}, via="a", agent="")
        assert isinstance(answer, Verbatim)
        assert answer.startswith('{:session {:id "box:work", :what "xxx')
        assert answer.endswith(':session-id "box:work"}')
        await passing.close()
        await far.close()

    asyncio.run(scenario())


# --- hosts of the fleet -----------------------------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[tuple[Hosting, Hosting]]:
    """Two homes; the second is a host of the fleet for the first."""
    near, far = Hosting(), Hosting()
    yield near, far
    near.close()
    far.close()


def _fleet(path: Path, far: Hosting, names: list[str]) -> socket.socket:
    """What the fleet's process does at its socket: tell its hosts, and carry streams to the daemon of one."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def carry(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve(client: socket.socket) -> None:
        line = b""
        while not line.endswith(b"\n") and (data := client.recv(1)):
            line += data
        if line == b"hosts\n":
            told = {"hosts": [{"name": name, "more": 1} for name in names] + [{"name": "BAD NAME"}]}
            client.sendall(json.dumps(told).encode() + b"\n")
            client.recv(1)  # until who reads it goes
            client.close()
            return
        assert line == b"control box\n", line
        daemon = socket.socket(socket.AF_UNIX)
        daemon.connect(Settings(far.environment).rpc_path)
        client.sendall(b"FAIRLEAD-LINK 1 ready 1\n")
        threading.Thread(target=carry, args=(client, daemon), daemon=True).start()
        carry(daemon, client)
        daemon.close()
        client.close()

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server


def test_hosts_of_the_fleet_are_among_the_others_while_it_runs(two: tuple[Hosting, Hosting]) -> None:
    near, far = two
    near.run("ls")
    far.start("theirs", "exec cat")
    path = Path(Settings(near.environment).runtime_dir, "fleet.sock")
    server = _fleet(path, far, ["box"])
    near.until(lambda: host_of(near, "box").get("state") == "here")
    assert host_of(near, "box")["how"] == "fleet"
    near.until(lambda: "box:theirs" in rows_of(near))
    path.unlink()
    server.close()
    near.until(lambda: near.ask("host_list")["hosts"] == [])
