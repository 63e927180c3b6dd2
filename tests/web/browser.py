"""What a browser says to the console, by hand: requests with any headers, event streams and WebSockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.hosting import WAIT, Hosting


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        assert self.status == 200, self
        return self.json["data"]

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Browser:
    """One that keeps its cookie, and says who it is as browsers do."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.host = base.partition("://")[2]
        self.cookie = ""
        self.token = ""

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    @property
    def address(self) -> str:
        return "::1" if self.host.startswith("[") else "127.0.0.1"

    def headers(self, method: str = "GET") -> dict[str, str]:
        found = {"Host": self.host}
        if self.cookie:
            found["Cookie"] = self.cookie
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        elif method != "GET":
            found["Origin"] = self.base
        return found

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        *,
        without: tuple[str, ...] = (),
        **more: str,
    ) -> Answer:
        """A request; `more` are headers, with underscores for dashes."""
        headers = self.headers(method)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        kept = {name: value for name, value in headers.items() if name not in without}
        connection = http.client.HTTPConnection(self.address, self.port, timeout=WAIT)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in kept.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(data or b"")))
            connection.endheaders(data)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def op(self, op: str, /, **params: Any) -> Answer:
        return self.ask("POST", f"/api/ops/{op}", params)

    def come_in(self, link: str) -> Answer:
        """Follow a link, as its page does."""
        answer = self.ask("POST", "/in", {"ticket": link.partition("#")[2]})
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    @contextmanager
    def events(self, query: str = "", **more: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a stream, as dictionaries with `event`, `id` and `data`."""
        connection = http.client.HTTPConnection(self.address, self.port, timeout=WAIT)
        try:
            given = {name.replace("_", "-"): value for name, value in more.items()}
            connection.request("GET", f"/api/events{query}", headers=self.headers() | given)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield _events(response)
        finally:
            connection.close()

    @contextmanager
    def terminal(self, name: str, *, without: tuple[str, ...] = (), **more: str) -> Iterator[Shown]:
        """A terminal's WebSocket."""
        with self.socket(f"/api/terminals/{name}", without=without, **more) as found:
            yield Shown(found)

    @contextmanager
    def live(self, *, without: tuple[str, ...] = (), **more: str) -> Iterator[Live]:
        """The WebSocket of a page's events."""
        with self.socket("/api/live", without=without, **more) as found:
            yield Live(found)

    @contextmanager
    def socket(self, path: str, *, without: tuple[str, ...] = (), **more: str) -> Iterator[ClientConnection]:
        """A WebSocket."""
        headers = self.headers("POST") | {key.replace("_", "-"): value for key, value in more.items()}
        kept = {key: value for key, value in headers.items() if key not in without}
        host = kept.pop("Host", self.host)
        plain = socket.create_connection((self.address, self.port), timeout=WAIT)
        with connect(
            f"ws://{host}{path}",
            sock=plain,
            additional_headers=kept,
            compression=None,
            proxy=None,
            max_size=None,
            open_timeout=WAIT,
            close_timeout=1,
        ) as found:
            yield found


class Live:
    """A page's events."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._events: deque[dict[str, Any]] = deque()

    def say(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def follow(self, number: int, session: str = "", since: str = "") -> dict[str, Any]:
        """Follow something; returns the first event of that."""
        self.say(t="follow", n=number, session=session, since=since)
        while (event := self.take())["n"] != number:
            pass
        return event

    def take(self) -> dict[str, Any]:
        """The next event."""
        while not self._events:
            self._events += json.loads(self.connection.recv(timeout=WAIT))
        return self._events.popleft()

    def until(self, number: int, topic: str, **holds: Any) -> dict[str, Any]:
        """The next event of a stream, of a topic and with these values."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            event = self.take()
            data = event["data"]
            if event["n"] == number and data.get("topic") == topic and holds.items() <= data["data"].items():
                return event
        raise AssertionError(f"no {topic} came")


class Shown:
    """A terminal as a page has it. It acknowledges what it gets unless told not to."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.output = b""
        self.told: list[dict[str, Any]] = []
        self.acks = True

    def say(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def type(self, text: str) -> None:
        self.connection.send(text.encode())

    def take(self, timeout: float = WAIT) -> dict[str, Any] | bytes:
        """The next message."""
        message = self.connection.recv(timeout=timeout)
        if isinstance(message, bytes):
            self.output += message
            if self.acks:
                with contextlib.suppress(ConnectionClosed):  # the next message says so
                    self.say(t="ack", bytes=len(message))
            return message
        found: dict[str, Any] = json.loads(message)
        self.told.append(found)
        return found

    def comes_within(self, seconds: float) -> bool:
        """True if there is another message by then."""
        try:
            self.take(seconds)
        except TimeoutError:
            return False
        return True

    def until(self, kind: str, **holds: Any) -> dict[str, Any]:
        """The next text of this kind with these values."""
        deadline = time.monotonic() + WAIT
        while True:
            message = self.take(max(0.01, deadline - time.monotonic()))
            if isinstance(message, dict) and {"t": kind, **holds}.items() <= message.items():
                return message

    def until_shown(self, text: str) -> None:
        deadline = time.monotonic() + WAIT
        while text.encode() not in self.output:
            self.take(max(0.01, deadline - time.monotonic()))


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {"event": "message"}
    deadline = time.monotonic() + 2 * WAIT
    while line := response.readline():
        assert time.monotonic() < deadline, "nothing but heartbeats"
        text = line.decode().rstrip("\n")
        if not text:
            if "data" in event:
                yield event
            event = {"event": "message"}
        elif not text.startswith(":"):
            name, _, value = text.partition(": ")
            event[name] = json.loads(value) if name == "data" else value


class ConsoleHosting:
    """A daemon with a console. Its own places, both ended by `close`."""

    def __init__(
        self,
        *words: str,
        wait: bool = True,
        settings: Mapping[str, str] | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        self.hosting = hosting or Hosting(settings)
        self.hosting.run("web", "--no-open", *words)
        self.base = self.status()["base"]
        if wait:  # until it has found the daemon
            anybody = Browser(self.base)
            self.hosting.until(lambda: anybody.ask("GET", "/healthz").json == {"status": "ok"})

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.hosting.run("web", "--no-open", "--json").stdout)
        return found

    @property
    def port(self) -> int:
        return int((self.hosting.directory / "home/.local/state/fairlead/web.port").read_text())

    def link(self) -> str:
        return str(self.status()["link"])

    def browser(self) -> Browser:
        """One that was let in as the owner."""
        browser = Browser(self.base)
        assert browser.come_in(self.link()).status == 200
        return browser

    def share(self, name: str, role: str, span: str = "1h") -> tuple[Browser, str]:
        """One that was let in by a share, and the share's id."""
        words = ("--share", name, "--role", role, "--for", span)
        made = json.loads(self.hosting.run("web", "--no-open", "--json", *words).stdout)
        browser = Browser(self.base)
        assert browser.come_in(made["link"]).status == 200
        return browser, made["id"]

    @property
    def pid(self) -> int:
        return int((self.hosting.directory / "run/fairlead/web.lock").read_text())

    def log(self) -> str:
        return (self.hosting.directory / "home/.local/state/fairlead/web.log").read_text()

    def close(self) -> None:
        self.hosting.run("web", "--stop", check=False)
        self.hosting.close()


def run_as_agent(hosting: Hosting, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script as a command of an agent would run: with its mark."""
    import sys

    return subprocess.run(
        [sys.executable, "-c", script, *words],
        env={**os.environ, **hosting.environment, "FAIRLEAD_AGENT": "garden"},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
