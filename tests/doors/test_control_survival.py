"""What the control room must not lose: its daemon is killed with consent pending and notifications queued."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.doors.passepartout_peer import Peer, kill_and_wait
from tests.hosting import Hosting

NOTICES = 12
KILLS = 4


class Receiver:
    """A web service that gets notifications, as Apprise's json:// sends them."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.refuses = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.refuses:
                    self.send_error(503)
                    return
                receiver.got.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self._server.server_port}"

    @property
    def messages(self) -> list[str]:
        return [each["message"] for each in self.got]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def hosting(tmp_path: Path, receiver: Receiver) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[notify]\nurls = ["{receiver.url}"]\n'
        '[[control.rules]]\nsensor = "session-exited"\n'
        'then = { actuator = "notify", title = "{name}", text = "{name} ended with {exit_code}" }\n'
    )
    hosting = Hosting({"FAIRLEAD_CONFIG": str(config), "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    yield hosting
    hosting.close()


def test_consent_that_is_waited_for_survives_kills_and_the_first_answer_counts(hosting: Hosting) -> None:
    home = Path(hosting.environment["HOME"])
    for name in ("kept", "removed"):
        (home / name).touch()
    hosting.run("ls")
    tokens = []
    with Peer(hosting=hosting) as peer:
        for name in ("kept", "removed"):
            peer.ask(f"/run rm {name}")
            tokens.append(peer.sensed("APPROVAL-REQUIRED").get("payload", "token"))
    for _ in range(KILLS):
        kill_and_wait(hosting)
        assert [row["token"] for row in hosting.ask("approvals")["approvals"]] == tokens
    with Peer(hosting=hosting) as peer:
        assert peer.health()  # nobody is shown anything before it has spoken
        shown = [peer.sensed("APPROVAL-REQUIRED").get("payload", "token") for _ in tokens]
        assert shown == tokens  # who comes later sees it too
        denied = f"denied {tokens[0]}: shell rm kept (the daemon itself)"
        assert peer.ask(f"/deny {tokens[0]}") == denied
        kill_and_wait(hosting)
    hosting.run("approvals", "allow", tokens[1])
    late = hosting.run("approvals", "allow", tokens[0], check=False)
    assert late.returncode == 1
    assert f"{tokens[0]} was answered already: denied by " in late.stderr
    hosting.until(lambda: not (home / "removed").exists())
    assert (home / "kept").exists()
    assert hosting.ask("approvals")["approvals"] == []


def test_notifications_are_sent_once_also_by_the_next_daemon(hosting: Hosting, receiver: Receiver) -> None:
    pytest.importorskip("apprise")
    receiver.refuses = True
    for number in range(NOTICES):
        hosting.run("notify", "--title", "test", f"number {number}") if number < 2 else hosting.ask(
            "notify", text=f"number {number}"
        )
    kill_and_wait(hosting)
    receiver.refuses = False
    hosting.run("ls")
    wanted = [f"number {number}" for number in range(NOTICES)]
    hosting.until(lambda: len(set(receiver.messages)) + _lost(hosting) >= NOTICES)
    assert len(receiver.messages) == len(set(receiver.messages))
    assert set(receiver.messages) <= set(wanted)
    assert _lost(hosting) <= 1  # the one that was being sent when the daemon was killed


def test_kills_at_any_moment_never_send_a_notification_twice(hosting: Hosting, receiver: Receiver) -> None:
    pytest.importorskip("apprise")
    hosting.run("ls")
    for number in range(KILLS):
        for part in range(3):
            hosting.ask("notify", text=f"{number}.{part}")
        time.sleep(0.05 * number)
        kill_and_wait(hosting)
    hosting.ask("notify", text="the last")
    hosting.until(lambda: "the last" in receiver.messages)
    hosting.until(lambda: len(receiver.messages) + _lost(hosting) >= 3 * KILLS + 1)
    assert len(receiver.messages) == len(set(receiver.messages))


def test_a_rule_notifies_of_a_session_that_ended(hosting: Hosting, receiver: Receiver) -> None:
    pytest.importorskip("apprise")
    hosting.start("build", "exit 3")
    hosting.until(lambda: "build ended with 3" in receiver.messages)
    assert receiver.got[0]["title"] == "build"


def _lost(hosting: Hosting) -> int:
    return hosting.log().count("was sent or is lost")
