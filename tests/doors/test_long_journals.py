"""Sessions with very long journals are opened, shown, forked and exported while everybody else is served: the
watch over loops in `tests/conftest.py` sees to that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.client.sdk import connect
from fairlead.system.settings import Settings
from tests.hosting import Hosting

MESSAGES, SIZE = 800, 100_000
MANY = 30_000
"""Messages with which a prompt once took the loop half a second."""


def long_journal(hosting: Hosting, id: str, messages: int = MESSAGES, size: int = SIZE, *roles: str) -> Path:
    """80 MB of conversation, which took the loop a second, or another one, whose roles take turns."""
    home = hosting.environment["HOME"]
    path = Path(
        Settings(hosting.environment).sessions_dir, "--long--", f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": home}
    content = [{"type": "text", "text": "words " * (size // 6)}]
    with path.open("w") as file:
        file.write(json.dumps(header) + "\n")
        for number in range(messages):
            entry = {
                "type": "message",
                "id": f"{number:08x}",
                "parentId": f"{number - 1:08x}" if number else None,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {
                    "role": (roles or ("user",))[number % len(roles or "1")],
                    "content": content,
                    "timestamp": 1,
                },
            }
            file.write(json.dumps(entry) + "\n")
    return path


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    held_up = hosting.held_up()  # `tests/conftest.py` looks when this one is closed already
    hosting.close()
    assert not held_up


def test_a_long_journal_holds_up_nobody(hosting: Hosting) -> None:
    by_id, by_path, by_command = (long_journal(hosting, id) for id in ("by-id", "by-path", "by-command"))
    long_journal(hosting, "waiting")
    mark = by_id.parent.parent / ".waiting"
    mark.mkdir()
    (mark / "waiting").touch()
    hosting.run("ls")
    with DaemonConnection(Settings(hosting.environment), start=False) as control:
        assert control.ask("switch_session", session_id="by-id")["session_file"] == str(by_id)
        assert control.ask("switch_session", session_path=str(by_path))["session_id"] == "by-path"
        control.ask("command", text=f"/resume {by_command}")
        page = control.ask("get_messages")
        assert 0 < len(page["messages"]) == page["total"] - page["first"] < MESSAGES
        page = control.ask("get_messages", **{"from": MESSAGES - 1})
        assert (page["total"], page["messages"][0]["id"]) == (MESSAGES + 1, f"{MESSAGES - 1:08x}")
        assert 0 < len(control.ask("get_fork_messages")["messages"]) < MESSAGES
        assert control.ask("fork", entry_id=f"{MESSAGES // 2:08x}")["session_id"]
        exported = control.ask("export_html", session_id="by-id")["path"]
    assert Path(exported).stat().st_size > MESSAGES // 2 * SIZE


def test_prompts_in_a_session_of_many_messages_hold_up_nobody(hosting: Hosting) -> None:
    path = long_journal(hosting, "many", MANY, 12, "user", "assistant", "assistant", "assistant")
    hosting.run("ls")
    with DaemonConnection(Settings(hosting.environment), start=False) as control:
        assert control.ask("switch_session", session_id="many")["session_file"] == str(path)
        for number in range(3):
            control.ask("prompt", message=f"say: hello {number}")
            hosting.until(lambda: control.ask("get_state")["state"]["phase"] == "idle")
        stats = control.ask("get_session_stats")["stats"]
        assert (stats["user_messages"], stats["assistant_messages"]) == (MANY // 4 + 3, MANY // 4 * 3 + 3)
        assert control.ask("get_last_assistant_text")["text"].count("hello 2") == 1
    with connect(Settings(hosting.environment)) as host:
        said = host.agent(id="many").messages()
    assert [each["id"] for each in said[:MANY]] == [f"{number:08x}" for number in range(MANY)]
    assert len(said) == MANY + 6
