"""What a shell can see of an agent's turns: what is queued, what was dropped, and how the last one ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.sdk import Host
from fairlead.system.settings import Settings
from tests.client.persons import Person
from tests.hosting import Hosting

CONFIG = """
[agent]
rules = [{tool = "bash", match = "*", then = "allow"}]

[[models]]
provider = "openai"
id = "keyless"
"""


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Hosting]:
    (tmp_path / "config.toml").write_text(CONFIG)
    hosting = Hosting(
        {"FAIRLEAD_DAEMON_RESTART_PAUSE": "0", "FAIRLEAD_CONFIG": str(tmp_path / "config.toml")}
    )
    hosting.run("agent", "--name", "garden", "-p", "run: echo roses")
    yield hosting
    hosting.close()


def row(hosting: Hosting) -> dict[str, Any]:
    [found] = json.loads(hosting.run("ls", "--json", "garden").stdout)
    return dict(found)


def busy(hosting: Hosting) -> None:
    hosting.run("send", "garden", "run: sleep 60")
    hosting.until(lambda: row(hosting)["state"] == "working")


def test_what_is_queued_is_said_and_counted_and_what_is_dropped_is_named(hosting: Hosting) -> None:
    busy(hosting)
    assert hosting.run("send", "garden", "say: one").stderr == "queued: garden is busy\n"
    said = hosting.run("send", "garden", "say: two", "--json")
    assert said.stderr == "queued: garden is busy (1 prompt before it)\n"
    assert json.loads(said.stdout)["queued"] == 2
    assert row(hosting)["queued"] == 2
    assert hosting.run("ls", "garden").stdout.splitlines()[1].split()[:2] == ["garden", "working+2"]
    stopped = "stopped garden's turn; 2 queued prompts were dropped: say: one; say: two\n"
    assert hosting.run("stop", "garden").stdout == stopped
    hosting.run("wait", "garden", "--idle", "0")
    assert hosting.run("stop", "garden").stdout == "garden was already idle\n"
    log = hosting.run("logs", "garden").stdout.splitlines()
    assert "not sent (stopped before it was sent): say: two" in log
    refused = hosting.run("send", "garden", "", check=False)
    assert (refused.returncode, "missing TEXT" in refused.stderr) == (2, True)


def test_a_restart_says_how_many_prompts_it_drops(hosting: Hosting) -> None:
    busy(hosting)
    for word in ("one", "two"):
        hosting.run("send", "garden", f"say: {word}")
    said = hosting.run("daemon", "restart").stderr
    assert "2 queued prompts were dropped; `fairlead logs NAME` shows them\n" in said
    log = hosting.run("logs", "garden").stdout.splitlines()
    assert "not sent (the daemon restarted before it was sent): say: two" in log


def test_what_a_killed_daemon_never_said_is_shown_by_ls_and_receipts_until_the_next_prompt(
    hosting: Hosting,
) -> None:
    busy(hosting)
    for word in ("one", "two"):
        hosting.run("prompt", "garden", f"say: {word}")
    told = "garden: 2 prompts were not delivered: the daemon ended before they were said; "
    assert told not in hosting.run("ls").stderr
    for _ in range(2):
        hosting.kill_daemon()
        assert f"{told}`fairlead prompt garden --receipts`\n" in hosting.run("ls").stderr
    assert row(hosting)["unsaid"] == 2
    found = json.loads(hosting.run("prompt", "garden", "--receipts", "--json").stdout)[-3:]
    assert [(each["words"], each["outcome"]) for each in found] == [
        ("run: sleep 60", "interrupted"),
        ("say: one", "dropped"),
        ("say: two", "dropped"),
    ]
    assert found[-1]["reason"] == "the daemon restarted before it was sent"
    assert "say: two" in hosting.run("prompt", "garden", "--receipts").stdout
    hosting.run("prompt", "garden", "say: three", "--wait")
    assert told not in hosting.run("ls").stderr
    hosting.kill_daemon()
    assert told not in hosting.run("ls").stderr


def test_waiting_says_how_the_turn_ended(hosting: Hosting) -> None:
    def waited() -> tuple[int, str]:
        answer = hosting.run("wait", "garden", "--exit", "--json", check=False)
        return answer.returncode, json.loads(answer.stdout)["outcome"]

    assert waited() == (0, "done")
    busy(hosting)
    hosting.run("stop", "garden")
    assert waited() == (1, "aborted")
    busy(hosting)
    words = [*hosting.command, "wait", "garden", "--exit"]
    waiting = subprocess.Popen(words, env=hosting.environment, stderr=subprocess.PIPE, text=True)
    hosting.kill_daemon()
    assert "garden was interrupted" in waiting.communicate(timeout=30)[1]
    assert waiting.returncode == 1
    assert row(hosting)["outcome"] == "interrupted"
    with Host(Settings(hosting.environment)) as host:
        assert host.session("garden").wait() == "interrupted"


def test_waiting_says_that_a_person_is_asked(hosting: Hosting) -> None:
    hosting.run("send", "garden", "write out.txt: hello")
    hosting.until(lambda: row(hosting)["state"] == "asks")
    waited = hosting.run("wait", "garden", "--exit", "--timeout", "0.1", check=False)
    assert waited.returncode == 124
    assert waited.stderr.endswith("timed out after 0.1 s; it waits for your consent: `fairlead approvals`\n")


def test_a_turn_that_failed_is_seen(hosting: Hosting) -> None:
    hosting.run("agent", "--name", "garden", "--model", "openai/keyless", "-p", "hello", check=False)
    assert (row(hosting)["state"], row(hosting)["outcome"]) == ("failed", "failed")
    assert hosting.run("logs", "garden").stdout.splitlines()[-1].startswith("error: ")
    assert "garden failed" in hosting.run("wait", "garden", "--exit", check=False).stderr


def test_who_has_no_terminal_or_only_watches_is_told_what_else_to_do(hosting: Hosting) -> None:
    instead = "`fairlead send garden TEXT` prompts it, `fairlead logs garden` prints what was said"
    refused = hosting.run("attach", "garden", check=False)
    assert refused.returncode == 1
    assert refused.stderr == f"fairlead attach: the chat needs a terminal; {instead}\n"
    assert "no session 'nobody'" in hosting.run("attach", "nobody", check=False).stderr
    with Person(hosting, "attach", "-w", "garden") as person:
        person.until_all(["garden has no screen to watch;", "`fairlead logs garden` prints"])
        assert person.client.wait(30) == 1


def test_a_script_is_told_how_to_queue_a_prompt(hosting: Hosting) -> None:
    busy(hosting)
    refused = hosting.run("agent", "-p", "--name", "garden", "hello", check=False)
    assert refused.returncode == 1
    assert refused.stderr == "fairlead agent: garden is busy; `fairlead send garden …` queues a prompt\n"


def test_the_lines_of_a_terminal_end_with_what_was_printed(hosting: Hosting) -> None:
    hosting.start("work", "echo ready; read line")
    hosting.wait_text("work", "ready")
    with Host(Settings(hosting.environment)) as host:
        assert host.session("work").lines() == ["ready"]


def test_help_and_an_empty_list_speak_of_agents(hosting: Hosting) -> None:
    page = hosting.run("--help").stdout
    for line in ("open an agent's chat", "or prompt an agent", "or an agent's messages"):
        assert line in page
    assert "`fairlead agent NAME` an agent" in hosting.run("ls", "--kind", "terminal").stderr
