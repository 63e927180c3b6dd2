"""Who gets a connection to the console when there are more than places."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from fairlead.web import accepting, limits
from fairlead.web.accepting import OWNER, Connection, Entrance
from fairlead.web.places import Users
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@contextmanager
def flooded(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT))
            for _ in range(count)
        ]


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def megabytes(pid: int) -> int:
    """How much memory a process has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024


@linux
def test_silent_connections_have_their_places_before_tls(tmp_path: Path) -> None:
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=here"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    console = ConsoleHosting("--listen", "127.0.0.1:0", "--cert", certificate, "--key", key, wait=False)
    try:
        before, memory = descriptors(console.pid), megabytes(console.pid)
        with flooded(console.port, limits.MAX_CONNECTIONS + 60) as connections:
            trusted = ssl.create_default_context(cafile=certificate)
            asking = HTTPSConnection("127.0.0.1", console.port, context=trusted, timeout=WAIT)
            asking.request("GET", "/healthz")  # it is accepted after all the others
            assert asking.getresponse().status == 200
            assert descriptors(console.pid) <= before + limits.MAX_CONNECTIONS + 5
            assert megabytes(console.pid) < memory + 90
            assert sum(is_closed(each) for each in connections) >= 60
            asking.close()
    finally:
        console.close()


def is_closed(connection: socket.socket) -> bool:
    """True if the other end has closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_strangers_take_only_a_part_of_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 stands for this machine, and other addresses of the loopback for other machines."""
    monkeypatch.setattr(accepting, "is_near", lambda address, own: address == "127.0.0.1")
    made: list[Connection] = []

    def protocol(connection: Connection) -> asyncio.Protocol:
        made.append(connection)
        return asyncio.Protocol()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            bound = stack.enter_context(
                socket.create_server(("127.0.0.1", 0), backlog=limits.MAX_CONNECTIONS)
            )
            entrance = Entrance(bound, protocol, None, users=Users(frozenset((os.getuid(),))))
            entrance.start()

            async def arrive(address: str) -> Connection:
                """Connect, and return what was made of it."""
                count = len(made)
                own = stack.enter_context(socket.socket())
                own.bind((address, 0))
                own.setblocking(False)
                await loop.sock_connect(own, bound.getsockname())
                async with asyncio.timeout(WAIT):
                    while len(made) == count:
                        await asyncio.sleep(0)
                return made[-1]

            async def open_of(found: list[Connection], count: int) -> list[Connection]:
                async with asyncio.timeout(WAIT):
                    while len(still := [each for each in found if each.is_open]) != count:
                        await asyncio.sleep(0)
                return still

            owner = await arrive("127.0.0.2")
            owner.standing = OWNER
            own = limits.MAX_CONNECTIONS_OF_ADDRESS
            flood = [await arrive("127.0.0.2") for _ in range(own + 8)]
            assert await open_of(flood, own) == flood[8:]
            rest = [await arrive(f"127.0.0.{10 + each // own}") for each in range(limits.MAX_CONNECTIONS)]
            await open_of([*flood, *rest], limits.MAX_CONNECTIONS_OF_STRANGERS)
            near = [await arrive("127.0.0.1") for _ in range(limits.MAX_CONNECTIONS - 1)]
            await open_of([*flood, *rest], 0)  # this machine's come before them
            assert await open_of(near, len(near)) == near
            for each in near[:-1]:
                each.standing = OWNER
            last = await arrive("127.0.0.1")
            await open_of([near[-1]], 0)
            assert owner.is_open
            last.standing = OWNER
            with socket.create_connection(bound.getsockname(), timeout=WAIT) as refused:
                assert b"503" in await asyncio.to_thread(refused.recv, 100)
            entrance.close()
            for each in made:
                each.drop()
            await open_of(made, 0)

    asyncio.run(run())


def test_an_idle_stranger_is_dropped(console: ConsoleHosting, browser: Browser) -> None:
    ask = f"GET /healthz HTTP/1.1\r\nHost: {browser.host}\r\n"
    with (
        socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as stranger,
        socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as owner,
    ):
        owner.sendall(f"{ask}Cookie: {browser.cookie}\r\n\r\n".replace("/healthz", "/api/me").encode())
        assert b" 200 " in owner.recv(4096)
        stranger.sendall(f"{ask}\r\n".encode())
        assert b" 200 " in stranger.recv(4096)
        stranger.settimeout(limits.IDLE_SECONDS / 2)
        while stranger.recv(4096):
            pass
        owner.sendall(f"{ask}\r\n".encode())
        assert owner.recv(4096)


FLOOD = """
import socket, sys
held = []
for _ in range(300):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30))
print("flooded", flush=True)
sys.stdin.read()
"""


@linux
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_users_flood_keeps_nobody_out(console: ConsoleHosting, browser: Browser) -> None:
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    before = console.log().count("refused a connection")
    command = [python, "-c", FLOOD, str(browser.port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, user=65534, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        for _ in range(20):
            assert browser.ask("GET", "/api/me").status == 200
        assert other.stdout.readline() == "flooded\n"
        assert browser.ask("GET", "/api/me").status == 200
        other.communicate()
    assert console.log().count("refused a connection") - before <= 3


@linux
def test_accepting_goes_on_after_there_were_no_descriptors() -> None:
    console = ConsoleHosting()
    try:
        browser = console.browser()
        pid = console.pid
        had = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        highest = max(int(each) for each in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 3, had[1]))
        with flooded(console.port, 20):
            console.hosting.until(lambda: "can't accept connections" in console.log())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, had)
            console.hosting.until(lambda: browser.ask("GET", "/api/me").status == 200)
        assert "Traceback" not in console.log()
        assert console.log().count("can't accept connections") == 1
    finally:
        console.close()
