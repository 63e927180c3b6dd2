"""What programs in terminals do by their processes and by what they tell, without rules for their screens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hosting import Hosting


def state(hosting: Hosting, name: str = "work") -> dict[str, Any]:
    activity: dict[str, Any] = hosting.ask("session_state", name=name)["session"]["activity"]
    return activity


def until(hosting: Hosting, wanted: str, name: str = "work") -> dict[str, Any]:
    hosting.until(lambda: state(hosting, name)["state"] == wanted)
    return state(hosting, name)


@pytest.mark.parametrize("shell", ["bash --norc -i", "sh -i"])
def test_a_shell_is_idle_at_its_prompt_and_works_while_a_command_runs(lent: Hosting, shell: str) -> None:
    lent.run("start", "work", "-d", "--", *shell.split())
    found = until(lent, "idle")
    assert found["evidence"]["source"] == "process"
    lent.run("send", "work", "sleep 60", "-k", "Enter")
    found = until(lent, "working")
    assert "sleep" in found["evidence"]["words"]
    lent.run("send", "work", "-k", "C-c")
    found = until(lent, "idle")
    assert not found["seen"]


def test_a_program_that_reads_its_terminal_waits_and_its_last_line_is_the_question(lent: Hosting) -> None:
    lent.start("work", 'read -p "Overwrite the file? " answer; sleep 60')
    found = until(lent, "waits")
    assert found["question"] == "Overwrite the file?"
    assert found["evidence"]["source"] == "process"
    assert "waits for: Overwrite the file?" in lent.run("state", "work").stdout
    lent.run("send", "work", "yes", "-k", "Enter")
    until(lent, "working")


def test_what_nothing_is_known_of_is_unknown(lent: Hosting) -> None:
    lent.start("work", "exec python3 -c 'import select; print(\"up\"); select.select([0], [], [])'")
    lent.wait_text("work", "up")
    found = until(lent, "unknown")
    assert found["evidence"] is None
    assert "because: nothing says what it does" in lent.run("state", "work").stdout


def test_a_shell_that_marks_its_prompts_is_believed_and_so_is_progress(lent: Hosting) -> None:
    script = (
        r"printf '\033]133;C\007'; read a; printf '\033]133;A\007'; read a;"
        r"printf '\033]9;4;3\007'; read a; printf '\033]9;4;0\007'; read a"
    )
    lent.start("work", script)
    assert until(lent, "working")["evidence"]["words"] == "OSC 133;C"
    lent.run("send", "work", "-k", "Enter")
    assert until(lent, "idle")["evidence"]["words"] == "OSC 133;A"
    lent.run("send", "work", "-k", "Enter")
    assert until(lent, "working")["evidence"]["words"] == "OSC 9;4 progress: indeterminate"
    explained = lent.run("state", "work", "--explain").stdout
    assert "osc is stronger" in explained
    lent.run("send", "work", "-k", "Enter")
    assert until(lent, "waits")["evidence"]["source"] == "process"


def test_a_program_that_has_ended_has_ended(lent: Hosting) -> None:
    lent.start("work", "exit 3")
    assert until(lent, "ended")["evidence"]["words"] == "exit 3"


def test_what_is_known_survives_the_daemon(lent: Hosting) -> None:
    lent.run("start", "work", "-d", "--", "bash", "--norc")
    since = until(lent, "idle")["since"]
    kept = lent.log_path.parent / "activity.json"
    lent.until(lambda: kept.exists() and b'"idle"' in kept.read_bytes())
    lent.kill_daemon()
    found = until(lent, "idle")
    assert found["since"] == pytest.approx(since, abs=2.0)
