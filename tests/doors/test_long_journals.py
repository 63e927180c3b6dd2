"""Sessions with very long journals are opened, shown, forked and exported while everybody else is served: the
watch over loops in `tests/conftest.py` sees to that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client import agents
from fairlead.client.calls import RequestError
from fairlead.client.control import Control
from fairlead.settings import Settings
from tests.hosting import Hosting

MESSAGES, SIZE = 800, 100_000


def long_journal(hosting: Hosting, id: str) -> Path:
    """80 MB of conversation, which took the loop a second."""
    home = hosting.environment["HOME"]
    path = Path(
        Settings(hosting.environment).sessions_dir, "--long--", f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": home}
    content = [{"type": "text", "text": "words " * (SIZE // 6)}]
    with path.open("w") as file:
        file.write(json.dumps(header) + "\n")
        for number in range(MESSAGES):
            entry = {
                "type": "message",
                "id": f"{number:08x}",
                "parentId": f"{number - 1:08x}" if number else None,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": "user", "content": content, "timestamp": 1},
            }
            file.write(json.dumps(entry) + "\n")
    return path


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


def test_a_long_journal_holds_up_nobody(hosting: Hosting) -> None:
    by_id, by_path, by_command = (long_journal(hosting, id) for id in ("by-id", "by-path", "by-command"))
    long_journal(hosting, "waiting")
    mark = by_id.parent.parent / ".waiting"
    mark.mkdir()
    (mark / "waiting").touch()
    hosting.run("ls")
    with Control(Settings(hosting.environment), start=False) as control:
        assert control.ask("switch_session", session_id="by-id")["session_file"] == str(by_id)
        assert control.ask("switch_session", session_path=str(by_path))["session_id"] == "by-path"
        control.ask("command", text=f"/resume {by_command}")
        page = control.ask("get_messages")
        assert 0 < len(page["messages"]) == page["total"] - page["first"] < MESSAGES
        with pytest.raises(RequestError, match=f"only the last {len(page['messages'])} messages fit"):
            control.call(agents.messages("by-command"))
        page = control.ask("get_messages", **{"from": MESSAGES - 1})
        assert (page["total"], page["messages"][0]["id"]) == (MESSAGES + 1, f"{MESSAGES - 1:08x}")
        assert 0 < len(control.ask("get_fork_messages")["messages"]) < MESSAGES
        assert control.ask("fork", entry_id=f"{MESSAGES // 2:08x}")["session_id"]
        exported = control.ask("export_html", session_id="by-id")["path"]
    assert Path(exported).stat().st_size > MESSAGES // 2 * SIZE
