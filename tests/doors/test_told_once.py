"""The end of a session is told once, and a picture is drawn while others are answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.system.extras import is_missing
from tests.client.editors import Editor
from tests.doors.passepartout_peer import kill_and_wait
from tests.doors.test_locked_databases import answers
from tests.hosting import Hosting


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    rule = 'sensor = "session-exited"\nthen = { actuator = "log", text = "heard of {name}" }\n'
    config.write_text(f"[[control.rules]]\n{rule}")
    hosting = Hosting({"FAIRLEAD_CONFIG": str(config), "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


def test_the_end_of_a_session_is_told_by_one_daemon_only(hosting: Hosting) -> None:
    hosting.start("early", "true")
    hosting.start("late", "sleep 1.5")  # by then the first end is written down
    hosting.until(lambda: "heard of late" in hosting.log())
    kill_and_wait(hosting)
    hosting.start("last", "true")
    hosting.until(lambda: "heard of last" in hosting.log())
    assert hosting.log().count("heard of early") == 1


@pytest.mark.skipif(is_missing("PIL"), reason="pictures need Pillow")
def test_others_are_answered_while_a_picture_is_drawn(hosting: Hosting, tmp_path: Path) -> None:
    hosting.start("work", "exec cat", "--cols", "200", "--rows", "60")
    editor = Editor(hosting, tmp_path)
    editor.ask("handshake")
    editor.send("terminal_screen", name="work", format="png")
    editor.send("daemon_status")
    assert answers(editor, 2) == [("daemon_status", True), ("terminal_screen", True)]
    editor.close()
