"""Another process locks a database of the daemon: only who asks for that very file waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.client.editors import Editor
from tests.doors.passepartout_peer import Peer, kill_and_wait
from tests.hosting import Hosting

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
connection.execute("CREATE TABLE IF NOT EXISTS locked (x)")
print("locked", flush=True)
sys.stdin.read()
"""


class Locked:
    """A process that keeps all others from writing to a file."""

    def __init__(self, path: Path) -> None:
        self._holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"locked\n"

    def free(self) -> None:
        if self._holder.returncode is None:
            self._holder.communicate(timeout=20)

    def __enter__(self) -> Locked:
        return self

    def __exit__(self, *error: object) -> None:
        self.free()


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


def state(hosting: Hosting, name: str) -> Path:
    return Path(hosting.environment["HOME"], ".local/state/fairlead", name)


def opened(hosting: Hosting, directory: Path) -> Editor:
    editor = Editor(hosting, directory)
    editor.ask("handshake")
    editor.ask("subscribe")
    return editor


def answers(editor: Editor, count: int) -> list[tuple[str, bool]]:
    """The next answers: the op of each, and whether it was done."""
    found: list[tuple[str, bool]] = []
    while len(found) < count:
        frame = editor.next()
        if not isinstance(frame, rpc.Event):
            found.append((str(frame.op), isinstance(frame, rpc.Response)))
    return found


def test_a_locked_memory_keeps_nobody_waiting_but_who_asks_for_it(hosting: Hosting, tmp_path: Path) -> None:
    editor = opened(hosting, tmp_path)
    assert editor.ask("remember", text="before")["id"] == 1
    hosting.start("work", "exec cat")
    with Locked(state(hosting, "memory.db")) as lock:
        editor.send("remember", text="meanwhile")
        editor.send("query_eql", query="[:psi.memory/entry-count]")
        editor.send("daemon_status")
        editor.send("terminal_list")
        assert answers(editor, 2) == [("daemon_status", True), ("terminal_list", True)]
        hosting.run("send", "work", "echoed", "-k", "Enter")
        hosting.wait_text("work", "echoed")
        lock.free()
        assert answers(editor, 2) == [("remember", True), ("query_eql", True)]
    found = editor.ask("recall", text="meanwhile")["entries"]
    assert [each["text"] for each in found] == ["meanwhile"]
    editor.close()


def test_with_the_control_database_locked_agents_work_and_ask(hosting: Hosting, tmp_path: Path) -> None:
    with Peer(hosting=hosting) as peer:
        peer.ask("/run rm nothing")
        token = peer.sensed("APPROVAL-REQUIRED").get("payload", "token")
    with Locked(state(hosting, "control.db")) as lock:
        editor = opened(hosting, tmp_path)
        assert [each["token"] for each in editor.ask("approvals")["approvals"]] == [token]
        session = editor.ask("get_state")["state"]["session_id"]
        editor.send("approval_settle", token=token, allowed=False)  # this one has to be written down
        editor.send("prompt", message="run: printf made > made", session_id=session)
        wanted = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
        dialog = plain(wanted.data)["dialog_id"]
        editor.send("resolve_dialog", dialog_id=dialog, result="allow", session_id=session)
        editor.until(lambda frame: getattr(frame, "op", "") == "resolve_dialog")
        editor.idle()
        assert (tmp_path / "made").read_text() == "made"
        assert not any(getattr(frame, "op", "") == "approval_settle" for frame in editor.frames)
        lock.free()
        editor.until(lambda frame: getattr(frame, "op", "") == "approval_settle")
        assert isinstance(editor.frames[-1], rpc.Response)
        editor.close()
    assert hosting.ask("approvals")["approvals"] == []


def test_a_daemon_starts_while_its_databases_are_locked_and_reads_them_later(
    hosting: Hosting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(hosting=hosting) as peer:
        peer.ask("/run rm nothing")
        token = peer.sensed("APPROVAL-REQUIRED").get("payload", "token")
    names = ("control.db", "memory.db", "reports.db", "transcripts.db")
    os.kill(hosting.daemon_pid(), signal.SIGSTOP)  # so that it frees nothing and asks for nothing
    locks = [Locked(state(hosting, name)) for name in names]
    settings = Settings(hosting.environment)
    pid = int(Path(settings.lock_path).read_text())
    os.kill(pid, signal.SIGKILL)

    def status() -> dict[str, Any] | None:
        try:
            with DaemonConnection(settings, start=False) as control:
                return control.ask("daemon_status")
        except ConnectionError:
            return None

    hosting.until(lambda: (status() or {"pid": pid})["pid"] != pid)
    with Peer(hosting=hosting) as peer:
        for lock in locks:
            lock.free()
        peer.ask("/status")  # who has said nothing is told nothing
        shown = peer.sensed("APPROVAL-REQUIRED")
        assert shown.get("payload", "token") == token
    assert hosting.run("approvals").stdout.startswith(token)


def test_a_killed_daemon_had_written_down_what_it_acknowledged(hosting: Hosting, tmp_path: Path) -> None:
    editor = opened(hosting, tmp_path)
    assert editor.ask("remember", text="kept")["id"] == 1
    kill_and_wait(hosting)
    frame = editor.ask("recall", text="kept")
    while isinstance(frame, rpc.Error):  # the bridge says once that the daemon went away
        frame = editor.ask("recall", text="kept")
    assert [each["text"] for each in frame["entries"]] == ["kept"]
    editor.close()
