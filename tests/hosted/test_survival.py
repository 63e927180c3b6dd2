"""The daemon is killed while a hosted agent works: the turn ends as it would have."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.reconnect import RECONNECTED
from fairlead.system.settings import Settings
from tests.client.persons import Person
from tests.hosted.small import SmallHosting
from tests.hosting import WAIT, is_alive

SOME_KILLS, MANY_KILLS = 8, 30
SPOKEN = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"


@pytest.fixture
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load")
    yield hosting
    hosting.close()


def test_a_turn_goes_on_without_its_daemon(small: SmallHosting) -> None:
    small.open()
    small.say("slow tool slow")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    pid = small.agent_pid()
    small.kill_daemon()
    token = small.question()["token"]
    small.kill_daemon()
    assert small.question()["token"] == token
    small.run("approvals", "allow", token)
    small.kill_daemon()
    small.wait_idle()
    assert small.agent_pid() == pid
    assert small.told() == [
        "> slow tool slow",
        SPOKEN,
        "call-1: Write hello.txt",
        "= call-1",
        f"yes-once {SPOKEN}",
    ]
    assert (small.project / "hello.txt.count").read_text() == "x"


def test_the_age_of_a_turn_is_the_same_for_the_next_daemon(small: SmallHosting) -> None:
    def since(state: str) -> float:
        rows = small.ask("session_list", brief=True)["sessions"]
        activity = next(row["activity"] for row in rows if row["name"] == "one")
        return float(activity["since"]) if activity["state"] == state else 0.0

    small.open()
    small.say("hang")
    small.until(lambda: bool(since("working")))
    began = since("working")
    kept = Path(Settings(small.environment).state_dir, "activity.json")
    small.until(lambda: kept.exists() and "working" in kept.read_text())
    for _ in range(2):
        small.kill_daemon()
        small.until(lambda: bool(since("working")))
        assert since("working") == pytest.approx(began, abs=0.01)


def test_a_restart_leaves_the_agent_running_and_what_waits_is_said(small: SmallHosting) -> None:
    small.open()
    small.say("slow slow")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    small.say("thereafter")
    pid = small.agent_pid()
    assert "interrupted" not in small.run("daemon", "restart").stderr
    small.wait_idle()
    assert small.agent_pid() == pid
    assert small.told() == ["> slow slow", f"{SPOKEN} {SPOKEN}", "> thereafter", "thereafter"]


def test_the_end_of_an_agent_without_a_daemon_is_told(small: SmallHosting) -> None:
    small.open()
    small.say("slow tool")
    token = small.question()["token"]
    pid, daemon = small.agent_pid(), small.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    small.wait_idle()
    assert small.ask("approvals")["approvals"] == []
    assert small.told()[-2:] == ["! call-1", "[error]"]
    assert "signal 9" in small.messages()[-1]["errorMessage"]
    assert token


LONG = "red slow green slow blue slow black slow white slow"
LONG_SPOKEN = " ".join(f"{colour} {SPOKEN}" for colour in LONG.split()[::2])


def test_a_chat_shows_each_word_once_though_the_daemon_is_killed_in_the_middle(small: SmallHosting) -> None:
    chat = "agent", "--with", "small", "-C", str(small.project), "one"
    with Person(small, *chat, cols=110, rows=40) as person:
        person.until("^D leaves")
        person.type(f"{LONG}\r".encode())
        person.until("red 0 1 2 3")
        small.kill_daemon()
        person.until("reconnected")
        small.wait_idle()
        person.until("19\n>")
        shown = person.text.partition(f"> {LONG}\n")[2].rpartition("\n>")[0].replace(RECONNECTED, "")
        assert "".join(shown.split()) == "".join(LONG_SPOKEN.split())


def test_who_comes_to_a_chat_in_the_middle_of_an_answer_sees_its_beginning(small: SmallHosting) -> None:
    small.open()
    small.say("violets hang")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    with Person(small, "agent", "one", "-C", str(small.project)) as person:
        person.until("violets hanging")
        person.type(b"\x03")
        person.until("interrupted\n>")
        assert person.text.count("hanging") == 1


def test_run_prints_each_word_once_though_the_daemon_is_killed_in_the_middle(small: SmallHosting) -> None:
    small.daemon_pid()
    words = "run", "--with", "small", "--yes", "--verify", "test -d .", LONG
    running = subprocess.Popen(
        [*small.command, *words],
        env=small.environment,
        cwd=small.project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stderr is not None
        shown = ""
        while "red 0 1 2" not in shown:
            shown += (read := running.stderr.read(1))
            assert read, shown
        small.kill_daemon()
        shown += running.stderr.read()
    assert running.returncode == 0, shown
    said = [line for line in shown.split("\n") if "reconnecting" not in line and "VERIFIED" not in line]
    assert "".join("".join(said).split()) == "".join(LONG_SPOKEN.split())


@pytest.mark.parametrize("is_long_ago", [False, True])
def test_a_prompt_that_no_agent_got_is_sent_later_or_shown_as_not_sent(is_long_ago: bool) -> None:
    small = SmallHosting("stuck")
    try:
        small.open()
        small.say("good morning")
        small.until(lambda: any("session/new" in str(each) for each in small.received))
        file, pid = Path(small.found()["file"]), small.agent_pid()
        for each in [*small.processes(), pid]:
            os.kill(each, signal.SIGKILL)
        small.until(lambda: not is_alive(pid))
        if is_long_ago:
            stamp = next(word for word in file.read_text().split('"timestamp":') if word[0].isdigit())
            then = str(int(stamp[:13]) - 3_600_000)
            file.write_text(file.read_text().replace(stamp[:13], then))
        config = Path(Settings(small.environment).config_path)
        config.write_text(config.read_text().replace('"stuck"', '"load"'))
        small.wait_idle()
        prompts = [each for each in small.received if each.get("method") == "session/prompt"]
        if is_long_ago:
            assert small.told() == ["> good morning", "[error]"]
            assert (
                "error: not sent: the daemon restarted before the agent got it"
                in small.run("logs", "one").stdout
            )
            assert (small.found()["state"], prompts) == ("failed", [])
            assert small.talk("hello").stdout.strip() == "hello"
        else:
            assert small.told() == ["> good morning", "good morning"]
            assert len(prompts) == 1
    finally:
        small.close()


@pytest.mark.parametrize(("first", "ends"), [("hello", "hello"), ("fail", "[error]")])
def test_a_prompt_that_was_accepted_when_the_daemon_died_is_said_once_and_alone(
    small: SmallHosting, first: str, ends: str
) -> None:
    """The end of the turn before is in the journal then, and the agent's keeper has the state before it."""
    small.open()
    small.talk(first)
    file, told = Path(small.found()["file"]), ["> " + first, ends]
    for each in (small.nursery_pid(), small.daemon_pid()):
        os.kill(each, signal.SIGKILL)
    *_, last = lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = next(each for each in lines if each.get("message", {}).get("role") == "user")
    message = {**said["message"], "content": [{"type": "text", "text": "roundabout"}], "prompt": "p-2"}
    entry = {**said, "id": "0badcafe", "parentId": last["id"], "message": message}
    file.write_text("".join(json.dumps(each) + "\n" for each in [*lines, entry]))
    small.ask("session_prompt", name="one", text="thereafter")
    ended = small.ask("prompt_receipt", name="one", prompt_id="p-2", timeout=WAIT)
    assert (ended["state"], ended["outcome"]) == ("ended", "done"), ended
    small.wait_idle()
    assert small.told() == [*told, "> roundabout", "roundabout", "> thereafter", "thereafter"]


@pytest.mark.parametrize("kills", [SOME_KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.peers)])
def test_every_line_is_handled_once_however_often_the_daemon_is_killed(
    small: SmallHosting, kills: int
) -> None:
    rng = random.Random(7)
    small.open()
    small.talk("hello")
    for number in range(kills):
        asks = number % 2 == 0
        small.say("think slow tool slow" if asks else "slow plan free slow")
        time.sleep(rng.random() * 0.9)
        small.kill_daemon()
        if asks:
            token = small.question()["token"]
            if rng.random() < 0.5:
                small.kill_daemon()
                assert small.question()["token"] == token
            small.ask("approval_settle", token=token, allowed=True)
            if rng.random() < 0.5:
                small.kill_daemon()
        small.wait_idle()
    told = iter(small.told()[2:])
    for number in range(kills):
        prompt = next(told)
        if number % 2 == 0:
            assert prompt == "> think slow tool slow"
            turn = [next(told) for _ in range(5)]
            assert turn[:2] == ["(let me see)", SPOKEN]
            assert turn[2].endswith(": Write hello.txt")
            assert turn[3].startswith("= call-1")
            assert turn[4] == f"yes-once {SPOKEN}"
        else:
            assert prompt == "> slow plan free slow"
            turn = [next(told) for _ in range(6)]
            assert turn[0] == SPOKEN
            assert [line[0] for line in turn[1:5]] == ["p", "=", "c", "="]
            assert turn[5] == SPOKEN
    assert list(told) == []
    asked = (kills + 1) // 2
    assert len((small.project / "hello.txt.count").read_text()) == asked
    entries = Counter(each.get("customType") for each in small.entries())
    assert entries["fairlead/approval"] == entries["fairlead/approval-settled"] == asked
    methods = Counter(each.get("method", "answer") for each in small.received)
    assert methods["session/prompt"] == kills + 1
    assert methods["answer"] == asked
    ids = Counter(each["id"] for each in small.received if "method" in each and "id" in each)
    assert set(ids.values()) == {1}
