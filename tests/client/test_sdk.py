"""The SDK drives real sessions of a real daemon."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import fairlead
from fairlead.client.sdk import Ended, Host, RequestError
from tests.hosting import Hosting

ECHO = ["sh", "-c", "echo ready; while read line; do echo got $line; done"]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    hosting = Hosting()
    for name, value in hosting.environment.items():
        monkeypatch.setenv(name, value)
    with fairlead.connect() as host:
        yield host
    hosting.close()


def test_a_session_is_started_typed_into_and_read(host: Host) -> None:
    work = host.start("work", ECHO, cols=100, rows=30)
    work.wait_for("ready", timeout=20)
    work.send("hello", "Enter")
    assert work.wait_for(r"got \w+", regex=True, timeout=20) == "got hello"
    assert work.screen() == "ready\nhello\ngot hello"
    assert work.cells()["cols"] == 100
    assert [row["name"] for row in host.terminals()] == ["work"]
    assert work.search("hello")[0]["text"].strip() == "hello"
    assert work.stop() == 143
    assert host.terminals() == []


def test_waiting_for_what_does_not_come_is_a_timeout_or_an_end(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "read line; exit 6"])
    with pytest.raises(TimeoutError, match=r"'never' did not come within 0\.1 s"):
        work.wait_for("never", timeout=0.1)
    work.wait_quiet(0.1, timeout=20)
    work.send("", "Enter")
    with pytest.raises(Ended) as ended:
        work.wait_for("never", timeout=20)
    assert ended.value.code == 6
    assert work.wait(timeout=20) == 6


def test_a_size_reaches_the_program(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "while read line; do stty size; done"])
    work.resize(132, 50)
    work.send("", "Enter")
    work.wait_for("50 132", timeout=20)


def test_output_comes_as_it_is_printed_until_the_end(host: Host) -> None:
    work = host.start("work", ["sh", "-c", "echo one; read line; echo two; exit"])
    work.wait_for("one", timeout=20)
    seen: list[bytes] = []
    started = threading.Event()

    def collect() -> None:
        for data in work.output():
            seen.append(data)
            started.set()

    reader = threading.Thread(target=collect)
    reader.start()
    assert started.wait(20)
    work.send("", "Enter")
    reader.join(20)
    assert b"one" in seen[0]
    assert b"two" in b"".join(seen[1:])


def test_what_cant_be_done_says_why(host: Host) -> None:
    with pytest.raises(RequestError, match="no session 'nobody'") as error:
        host.terminal("nobody")
    assert error.value.code == "request/not-found"
    work = host.start("work", ECHO)
    with pytest.raises(RequestError, match="no-such-key"):
        work.send("", "no-such-key")
