"""Waiting for a text on a real daemon: nothing that a program prints meanwhile is missed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.client.launch import connected
from fairlead.formats.edn import Keyword
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.hosting import WAIT, Hosting

BURST = "seq 3000"
"""More than a screen, and printed quicker than a screen can be looked at."""


class Waiting:
    """A wait that has begun: the daemon has answered a later request of the same connection."""

    def __init__(self, connection: socket.socket, params: dict[str, Any]) -> None:
        self._socket = connection
        self._wire = rpc.ClientConnection()
        connection.sendall(self._wire.handshake("test", "1"))
        self._next()
        keyed = {Keyword(name.replace("_", "-")): value for name, value in params.items()}
        self._id, wait = self._wire.request("terminal_wait", keyed)
        ping, look = self._wire.request("ping")
        connection.sendall(wait + look)
        self._found: Any = None
        while self._next() != ping:
            pass

    def _next(self) -> str | None:
        while True:
            data = self._socket.recv(65536)
            assert data, "the daemon has gone"
            for each in self._wire.receive(data):
                if isinstance(each, rpc.Response | rpc.Error):
                    if isinstance(each, rpc.Response) and each.op == "terminal_wait":
                        self._found = plain(each.data)
                    return each.id

    def answer(self) -> dict[str, Any]:
        while self._found is None:
            self._next()
        found: dict[str, Any] = self._found
        return found


@contextmanager
def waiting(hosting: Hosting, **params: Any) -> Iterator[Waiting]:
    with connected(Settings(hosting.environment), start=False) as connection:
        connection.settimeout(WAIT)
        yield Waiting(connection, {"timeout": 20, **params})


def program(hosting: Hosting, after: str, before: str = "") -> None:
    """A program that prints something, and something else when it is told to."""
    hosting.start("work", f"stty -echo; {before or ':'}; echo begun; read line; {after}; read line")
    hosting.wait_text("work", "begun")


@pytest.mark.parametrize(
    ("after", "sought"),
    [
        (f"echo READY; {BURST}", {"text": "READY"}),
        (f"{BURST}; echo READY; {BURST}", {"text": "READY"}),
        (f"{BURST}; echo '  READY 7  '; {BURST}", {"regex": r"^ +READY \d+$"}),
        (f"{BURST}; printf '1\\n2 x\\n'; {BURST}", {"regex": r"^1\n2 x$"}),
        (f"printf 'REA'; printf '\\033[1mDY\\033[0m'; {BURST}", {"text": "READY"}),
        # a line that is wider than the terminal, on the screen and long gone
        ("printf '%070d-WRAPPED-LINE-7' 0", {"text": "-WRAPPED-LINE-7"}),
        (f"printf '%070d-WRAPPED-LINE-7\\n' 0; {BURST}", {"text": "-WRAPPED-LINE-7"}),
        # a screen that was drawn over, and a line
        (
            "printf '\\033[?1049h\\033[H\\033[2JREADY\\033[5CNOW\\033[H\\033[2Jlater'",
            {"regex": "^READY {5}NOW$"},
        ),
        ("printf '10%%\\r99%%\\rREADY\\rother'", {"regex": "^READY$"}),
    ],
)
def test_a_text_that_was_printed_while_somebody_waited_is_found(
    lent: Hosting, after: str, sought: dict[str, str]
) -> None:
    program(lent, f"{after}; echo over")
    with waiting(lent, name="work", **sought) as wait:
        lent.run("send", "work", "-k", "Enter")
        assert wait.answer()["reason"] == "text"


def test_a_text_that_comes_in_two_pieces_is_found_in_whatever_was_printed_after(lent: Hosting) -> None:
    lent.start("work", f"stty -echo; printf 'begun REA'; read line; printf 'DY\\n'; {BURST}; read line")
    lent.wait_text("work", "begun REA")
    with waiting(lent, name="work", text="begun READY") as wait:
        lent.run("send", "work", "-k", "Enter")
        assert wait.answer()["match"] == "begun READY"


def test_what_had_scrolled_off_before_is_found_only_if_that_is_wanted(lent: Hosting) -> None:
    program(lent, ":", before=f"echo READY; {BURST}")
    words = ("wait", "work", "--text", "READY", "--timeout", "0.2")
    assert lent.run(*words, check=False).returncode == 124
    assert lent.run(*words, "--scrollback").returncode == 0


@pytest.mark.parametrize("text", ["READY", "OLD"])
def test_a_wait_goes_on_where_it_began_when_the_daemon_was_killed(lent: Hosting, text: str) -> None:
    program(lent, f"echo READY; {BURST}; echo over", before=f"echo OLD; {BURST}")
    given = {"name": "work", "text": text, "request_id": "of-the-test"}
    with waiting(lent, **given):
        lent.kill_daemon()
    lent.run("send", "work", "-k", "Enter")
    lent.wait_text("work", "over")
    found = lent.ask("terminal_wait", timeout=0.2, **given)["reason"]
    assert found == ("text" if text == "READY" else "timeout")
    # it was answered, and is forgotten: another wait begins anew
    assert lent.ask("terminal_wait", timeout=0.2, **given)["reason"] == "timeout"


def test_a_wait_for_a_text_repeats_its_id_and_others_have_none() -> None:
    from fairlead.client.calls import wait_for

    call, other = (wait_for("work", "", "match", 5.0, text="x") for _ in range(2))
    assert call.params(0.0)["request_id"] == call.params(1.0)["request_id"] != other.params(0.0)["request_id"]
    assert "request_id" not in wait_for("work", "", "", 5.0, exit=True).params(0.0)
