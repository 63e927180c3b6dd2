"""`fairlead agent` with third-party agents, busy sessions, and daemons that go away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.events import agent_event
from fairlead.system.settings import Settings
from fairlead.ui.chat.talk import turn_start, without_shown
from tests.client.persons import Person
from tests.hosted.small import SmallHosting

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"
KEYS = "y yes · a always · n no, and Enter"


@pytest.fixture(scope="module")
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("resume", settings={"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    yield hosting
    hosting.close()


def talk(small: SmallHosting, name: str, *words: str, rows: int = 60) -> Person:
    person = Person(small, "agent", "-C", str(small.project), *words, "--name", name, rows=rows)
    person.until("^D leaves")
    return person


def test_new_begins_with_the_same_agent_as_it_is_set(small: SmallHosting) -> None:
    before = small.open("before", sandbox=True, mode="bold")
    with talk(small, "before") as person:
        person.type(b"/new\r")
        person.until(f"a new session · small/default · {small.project}"[:70])
    (id,) = {row["session_id"] for row in small.ask("list_sessions")["sessions"]} - {before}
    new = small.found(id)
    assert (new["agent"], new["mode"], new["sandbox"]) == ("small", "bold", True)


def test_modes_and_options_of_a_hosted_agent_are_its_own(small: SmallHosting) -> None:
    small.open("choosing")
    with talk(small, "choosing") as person:
        person.type(b"hello\r")
        person.until_all(["mode Ask", "hello"])
        small.wait_idle("choosing")
        person.type(b"\x1b[Z")
        person.until("mode Bold")
        person.type(b"/option\r")
        person.until("This session has no options.")
        person.type(b"mode\r")
        person.until("mode bold\n")
        person.type(b"hang\r")
        person.until("^C interrupts")
        person.press(b"\x1b")
        person.until("interrupting after this step")
        person.until("interrupted")


def test_an_answer_that_says_more_than_its_name_is_beside_the_keys_or_is_not_taken(
    small: SmallHosting,
) -> None:
    small.open("sly")
    with talk(small, "sly") as person:
        person.type(b"sly\r")
        person.until("  allow: Always allow: Reject\n  deny: Reject: Allow once\nallow ")
        person.until("y yes · n no, and Enter")
        person.resize(100, 5)
        person.type(b"z")
        person.until("> z")  # drawn after the resize
        person.type(b"\x7fy\r")
        person.until("too low to show what each answer does")
        assert len(small.ask("approvals")["approvals"]) == 1
        person.resize(100, 30)
        person.until_all(
            ["? odd-1\n  allow: Always allow: Reject\n  deny: Reject: Allow once\nallow ", "● connected"]
        )
        person.press(b"\r")
        person.until("✓ allowed")


@pytest.mark.parametrize("can", ["image", ""])
def test_a_named_image_reaches_an_agent_that_takes_images_once(can: str) -> None:
    small = SmallHosting("resume", *filter(None, [can]))
    (small.project / "my pic.png").write_bytes(PNG)
    try:
        small.open("looking")
        small.say("hello", "looking")  # an agent says what it takes when it is started
        small.wait_idle("looking")
        with talk(small, "looking") as person:
            person.type(b"/image my pic.png\r")
            person.until('> @"my pic.png"\n')
            person.type(b"what is this?\r")
            if can:
                person.until("[image: my pic.png] what is this?")
                small.wait_idle("looking")
                person.type(b"make @no.png\r")
                person.until_all(["no image is attached: there is no file no.png", "make @no.png"])
                small.wait_idle("looking")
            else:
                person.until("small takes no images")
        asked = [
            line["params"]["prompt"] for line in small.received if line.get("method") == "session/prompt"
        ]
        kinds = [[block["type"] for block in blocks] for blocks in asked]
        assert kinds == ([["text"], ["text", "image"], ["text"]] if can else [["text"]])
    finally:
        small.close()


def test_who_comes_in_the_middle_sees_the_whole_turn(small: SmallHosting) -> None:
    small.open("middle")
    texts = " ".join(f"word{number} free" for number in range(12))
    small.say(f"{texts} thus hang", "middle")
    small.until(lambda: small.told("middle").count("= call-12") == 1)
    with talk(small, "middle", rows=200) as person:
        person.until_all(["› word0 free", "thus hanging"])
        for number in range(12):
            assert person.text.count(f"\nword{number}\n") == 1, person.text
        assert person.text.count("● $ echo hi > free.txt") == 12
        person.type(b"\x03\x03")


def test_a_command_is_shown_as_soon_as_it_is_known_though_the_agent_does_not_say_that_it_runs(
    small: SmallHosting,
) -> None:
    (small.project / "enough").unlink(missing_ok=True)
    small.open("quiet")
    with talk(small, "quiet") as person, talk(small, "quiet") as other:
        person.type(b"quiet\r")
        person.until_all(["○ $ sow 3 seeds", "in a tool call"])
        other.until("○ $ sow 3 seeds")
        with talk(small, "quiet") as late:
            late.until_all(["› quiet", "○ $ sow 3 seeds"])
            (small.project / "enough").touch()
            for each in (person, other, late):
                each.until_all(["● $ sow 3 seeds", "all 3"])
        small.wait_idle("quiet")
        assert "\n● $ sow 3 seeds\n  sown\n  all 3\n" in person.text, person.text
        assert "none of this" not in person.text


def test_what_a_command_prints_is_shown_while_it_runs_though_it_waited_for_consent_last(
    small: SmallHosting,
) -> None:
    (small.project / "enough").unlink(missing_ok=True)
    small.open("watching")
    with talk(small, "watching") as person:
        person.type(b"watched\r")
        person.until_all(["? water", KEYS])
        person.type(b"y\r")
        person.until("  rose\n  tulip\n")
        (small.project / "enough").touch()
        small.wait_idle("watching")
    [result] = [each for each in small.messages("watching") if each["role"] == "toolResult"]
    assert result["content"][0]["text"] == "rose\ntulip\n"


def test_what_an_agent_has_cost_and_its_context_are_known_to_the_next_daemon_and_without_the_agent(
    small: SmallHosting,
) -> None:
    small.open("paying")
    with talk(small, "paying") as person:
        for number in (1, 2):
            person.type(b"pay\r")
            person.until(f"5.0k/10k 50% · ${0.25 * number:.2f} · ")
            small.wait_idle("paying")
        small.run("daemon", "restart")
        person.until("reconnected")
        person.type(b"/cost\r")
        person.until_all(
            ["Cost    : $0.5000", "Context : 5,000 of 10,000 tokens (50%)", "16 read, 8 written"]
        )
        small.run("stop", "paying")
        person.until("5.0k/10k 50% · $0.50 · ")
    small.run("daemon", "restart")
    with talk(small, "paying") as person:
        person.until("5.0k/10k 50% · $0.50 · ")
        person.type(b"pay\r")  # the next process of the agent counts anew
        person.until("5.0k/10k 50% · $0.75 · ")
    assert small.found("paying")["cost"] == 0.75


def test_a_session_whose_directory_was_removed_says_so_and_can_be_left(small: SmallHosting) -> None:
    small.open("here")
    with talk(small, "here", rows=100) as person:
        for name, agent, model in (("theirs", "small", "small/default"), ("ours", None, "offline/guide")):
            gone = small.directory / name
            gone.mkdir()
            small.ask("open_session", name=name, cwd=str(gone), agent=agent)
            gone.rmdir()
            person.type(f"/resume {name}\r".encode())
            person.until_all([f"{name} · {model}", f"session's directory {gone} is gone"])
            person.type(b"!ls\r")
            person.until(f"can't run it: No such file or directory: {gone}")
        person.type(b"run: ls\r")
        person.until(f"its directory {gone} is gone")
        person.type(b"/resume theirs\r")
        person.until("Switched to theirs")
        person.type(b"hello\r")
        person.until(f"its directory {small.directory / 'theirs'} is gone")
        person.type(b"/new\r")
        person.until("no new session can begin here: the directory")
        assert "Traceback" not in person.text


def test_what_is_entered_after_a_switch_is_for_the_other_session_or_for_none(small: SmallHosting) -> None:
    for name in ("one", "other"):
        small.open(name)
    with talk(small, "one", rows=100) as person:
        person.type(b"/resume other\rto the other\r")
        person.until_all(["Switched to other", "> to the other"])
        small.wait_idle("other")
        person.type(b"/resume nosuch\rto nobody\r")
        person.until_all(["there is no session 'nosuch'", "not sent, as this is still the same session"])
        person.until("\n> to nobody\n●")  # it is in the line again
        person.type(b"\x15/new\rto a new one\r")
        person.until_all(["a new session", "\n> to a new one\n\nto a new one"])
    said = [[line for line in small.told(name) if line.startswith(">")] for name in ("one", "other")]
    assert said == [[], ["> to the other"]]


@contextlib.contextmanager
def held_back(small: SmallHosting) -> Iterator[None]:
    """Kill the daemon, and let no other one begin meanwhile."""
    pid, nursery = small.daemon_pid(), small.nursery_pid()
    os.kill(nursery, signal.SIGSTOP)
    with open(Settings(small.environment).lock_path, "rb") as lock:
        os.kill(pid, signal.SIGKILL)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(nursery, signal.SIGCONT)
        yield


def test_an_answer_that_the_daemon_did_not_take_is_sent_to_the_next_one(small: SmallHosting) -> None:
    small.open("unheard")
    with talk(small, "unheard") as person:
        person.type(b"tool then\r")
        person.until(KEYS)
        os.kill(pid := small.daemon_pid(), signal.SIGSTOP)
        person.press(b"y\r")
        os.kill(pid, signal.SIGKILL)
        person.until_all(["reconnected", "yes-once then"])
        assert person.text.count("? Write hello.txt") == 1


def test_an_answer_while_the_daemon_is_away_is_for_its_question_alone(small: SmallHosting) -> None:
    small.open("away")
    with talk(small, "away") as person:
        person.type(b"two then\r")
        person.until_all(["(1 more pending)", KEYS])
        with held_back(small):
            person.until("lost the daemon")
            person.type(b"y\r")
            person.until("the answer will be sent when the daemon is back")
        person.until_all(["reconnected", "yes-once", "? Write two.txt", KEYS])
        assert "more pending" not in person.screen.text()
        person.type(b"n\r")
        person.until("denied then")
    assert small.told("away").count("= call-1") == small.told("away").count("! call-2") == 1


@pytest.mark.parametrize("keys", [b"y", b"y\r"])
def test_an_answer_to_a_question_that_is_gone_is_nothing_else(small: SmallHosting, keys: bytes) -> None:
    name = f"gone {len(keys)}"
    small.open(name)
    with talk(small, name) as person:
        person.type(b"tool then\r")
        person.until(KEYS)
        agent = small.agent_pid(name)
        with held_back(small):
            person.until("lost the daemon")
            person.type(keys)
            person.until("will be sent when the daemon is back" if keys.endswith(b"\r") else "> y")
            os.kill(agent, signal.SIGKILL)
        person.until("reconnected")
        if keys.endswith(b"\r"):
            person.until("your answer 'allow' was not sent: the question is no longer open")
        person.type(b"/status\r")
        person.until("> /status")
    assert not [line for line in small.told(name) if line in ("> y", "y")]


def test_what_came_while_the_messages_were_read_is_shown_once() -> None:
    def said(id: str, role: str, **more: Any) -> dict[str, Any]:
        return {"id": id, "role": role, "content": [], "text": "", **more}

    messages = [
        said("u1", "user"),
        said("a1", "assistant"),
        said("u2", "user"),
        said("a2", "assistant", content=[{"type": "tool-call", "id": "c1", "name": "ls", "arguments": {}}]),
        said("r2", "toolResult", tool_call_id="c1"),
        said("u3", "user"),  # it steers the turn
    ]
    assert turn_start(messages) == 2
    asked = agent_event("session/retrying", {"attempt": 1, "limit": 2, "delay": 1.0, "reason": "busy"})
    later = agent_event("assistant/delta", {"text": "new"})
    events = [
        agent_event("assistant/delta", {"text": "old"}),
        asked,
        agent_event("session/prompted", {"text": "more", "entry_id": "u3"}),
        later,
    ]
    assert without_shown(events, messages) == [asked, later]
    assert without_shown([later], messages) == [later]
