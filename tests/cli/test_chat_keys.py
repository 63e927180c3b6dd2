"""The keys of the chat, typed in a real terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ENDED = "lists them."
"""How the offline guide ends what it says."""
BUSY = "^C interrupts"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"
KEYS = "y yes · a always · n no, and Enter"
UNTIL_GO = b"run: while [ ! -e go ]; do sleep 0.02; done\r"
"""A command that takes until a file is there."""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    yield hosting
    hosting.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").write_text("roses\ntulips\n")
    (tmp_path / "src" / "tulips.py").write_text("")
    (tmp_path / "src" / "roses.py").write_text("")
    return tmp_path


def talk(hosting: Hosting, place: Path, *words: str, cols: int = 80, rows: int = 40) -> Person:
    person = Person(hosting, "agent", "-C", str(place), *words, cols=cols, rows=rows)
    person.until_all(["^D leaves", "● connected"] if rows >= 10 else ["^D leaves"])
    return person


def prompts(hosting: Hosting, name: str) -> list[str]:
    """What was said to a session."""
    id = hosting.ask("session_find", name=name)["session"]["id"]
    rows = hosting.ask("get_messages", session_id=id)["messages"]
    return [row["text"] for row in rows if row["role"] == "user"]


def until_gone(person: Person, text: str) -> None:
    """Read until the screen no longer shows a text."""
    deadline = time.monotonic() + WAIT
    while text in person.screen.text():
        assert select.select([person.ours], [], [], max(0.0, deadline - time.monotonic()))[0], person.text
        person.read()


def test_tab_completes_commands_their_arguments_files_and_names(hosting: Hosting, place: Path) -> None:
    subprocess.run(["git", "init", "-q", place], check=True)
    (place / ".gitignore").write_text("hidden-*\n")
    (place / "hidden-tulips").write_text("")
    hosting.start("watchtower", "cat")
    with talk(hosting, place) as person:
        person.type(b"/thi\t")
        person.until("> /thinking\n")
        person.type(b"\x15/model repl\t")
        person.until("> /model offline/replay\n")
        person.type(b"\x15read @tulips\t")
        person.until("> read @src/tulips.py\n")
        person.type(b"\x15ask watch\t")
        person.until("> ask watchtower\n")
        person.type(b"\x15@s\t")
        person.until_all(["▸ @src/\n", "  @src/roses.py\n"])
        person.type(b"\x1b[B")
        person.until("▸ @src/roses.py\n")
        person.type(b"\t\x1b[A\r")
        person.until("> @src/roses.py\n")
        person.type(b"\x15@s\t")
        person.until("▸ @src/\n")
        person.type(b"\x1b")
        until_gone(person, "▸")
        assert "> @src/\n" in person.screen.text()
        person.type(b"\t")
        person.until("▸")
        person.type(b"tu")
        person.until("▸ @src/tulips.py\n")
        assert "roses.py" not in person.screen.text()


def test_escape_interrupts_and_keys_with_alt_do_not(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "--yes") as person:
        person.type(UNTIL_GO.replace(b"\r", b" then read README.md\r"))
        person.until("running bash")
        person.type(b"one two\x1bbX")
        person.until("> one Xtwo")
        assert "interrupting" not in person.text
        person.press(b"\x1b")
        person.until("interrupting after this step")
        (place / "go").touch()
        person.until("interrupted")
        until_gone(person, BUSY)
        assert "● read" not in person.text
        person.type(b"\x15")


def test_escape_closes_a_list_before_it_denies_and_denies_before_it_interrupts(
    hosting: Hosting, place: Path
) -> None:
    with talk(hosting, place) as person:
        person.type(b"run: echo tulips > out\r")
        person.until(KEYS)
        person.type(b"@tul")
        person.until("> @tul")
        person.type(b"i/\t\x7f\x7f\t")
        person.until("> @src/tulips.py")
        person.type(b"\x15@s\t")
        person.until("▸ @src/")
        person.press(b"\x1b")
        until_gone(person, "▸")
        person.type(b"\x15\x12read")
        person.until("search: read")
        person.press(b"\x1b")
        until_gone(person, "search:")
        person.until(KEYS)
        assert "denied" not in person.text
        person.press(b"\x1b")
        person.until("✗ denied")
        until_gone(person, BUSY)
        assert "interrupting" not in person.text
    assert not (place / "out").exists()


def test_what_was_typed_before_is_searched_for(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        for text in ("read README.md", "list src", "find *.py in src"):
            person.type(text.encode() + b"\r")
            person.until_all([f"> {text}", ENDED])
            until_gone(person, BUSY)
            person.type(b"\x0c")
            until_gone(person, ENDED)
        person.type(b"draft\x12src")
        person.until_all(["> find *.py in src\n", "search: src"])
        person.type(b"\x12")
        person.until("> list src\n")
        person.type(b"\x07")
        person.until("> draft\n")
        assert "search:" not in person.screen.text()
        person.type(b"\x15\x12READ")
        person.until("search: READ\n")
        person.type(b"\r")
        person.until("● read README.md")


def test_a_command_runs_here_and_the_agent_is_told(hosting: Hosting, place: Path) -> None:
    environment = hosting.environment
    environment |= {"ROSES": "red", "SHELL": "/bin/sh"}
    try:
        with talk(hosting, place, "shells") as person:
            person.type(b"!echo $ROSES; pwd; seq 30\r")
            person.until_all(["! echo $ROSES; pwd; seq 30", "… 27 lines before", "  30"])
            person.until("the agent gets this with your next prompt")
            person.type(b"!!echo only me; exit 3\r")
            person.until_all(["  only me", "  exit code 3"])
            person.type(b"!trap 'echo stopped; exit 7' INT; echo begun; while :; do sleep 0.05; done\r")
            person.until_all(["  begun", "^C ends it"])
            person.type(b"!second\r")
            person.until_all(["a command is running", "> !second\n"])  # it is in the line again
            person.type(b"\x15typed meanwhile")
            person.until("> typed meanwhile")
            person.press(b"\x03")
            person.until_all(["  stopped", "  exit code 7"])
            assert "> typed meanwhile" in person.screen.text()
            person.type(b"\x15read README.md\r")
            person.until_all(["> read README.md", "● read README.md", ENDED])
    finally:
        del environment["ROSES"], environment["SHELL"]
    [said] = prompts(hosting, "shells")
    assert f"$ echo $ROSES; pwd; seq 30\nred\n{place}\n1\n" in said
    assert "\nbegun\nstopped\n```\n(exit code 7)" in said
    assert said.startswith("read README.md\n\n")
    assert "only me" not in said


@pytest.mark.parametrize("word", ["exit", "quit", "/exit"])
def test_a_word_alone_leaves(hosting: Hosting, place: Path, word: str) -> None:
    with talk(hosting, place) as person:
        assert person.leave(word.encode() + b"\r") == 0


def test_a_question_mark_on_an_empty_line_shows_the_keys(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        person.type(b"?")
        person.until_all(["Shift-Tab", "search in what was typed before", "interrupt the turn"])
        person.type(b"why?")
        person.until("> why?\n")
        assert "Shift-Tab" not in person.screen.text()


def test_a_choice_is_made_with_arrows_a_number_or_a_part_of_it(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        person.type(b"kept\x01/model\x0b\r")
        person.until_all(["Select a model", "▸   1  offline guide"])
        person.type(b"\x1b[B\r")
        person.until("✓ Model set to offline replay")
        person.type(b"/thinking\r")
        person.until("▸   1  off")
        person.type(b"HIGH")
        person.until("▸   5  high")
        person.type(b"\r")
        person.until_all(["✓ Thinking level set to high", "thinking high"])
        person.type(b"/thinking\r")
        person.until_again(b"choose: ")
        person.type(b"2\r")
        person.until("✓ Thinking level set to minimal")
        person.type(b"/model\r")
        person.until_again(b"choose: ")
        person.press(b"\x03")
        person.until("Nothing was chosen.")
        assert person.leave(b"\x04") == 0


def test_the_footer_says_how_the_session_is_in_one_row(hosting: Hosting, place: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "roses", place], check=True)
    with talk(hosting, place, "--model", "offline/replay", "--thinking", "high", cols=100) as person:
        person.until("offline/replay · thinking high · ⎇ roses")
        rows = person.screen.text().splitlines()
        assert rows[-1].startswith("● connected · mode ask · 0/")
        person.resize(40, 40)
        person.client.send_signal(signal.SIGWINCH)
        person.until("…")
        assert len(person.screen.text().splitlines()[-1]) < 40
        person.resize(40, 8)
        person.client.send_signal(signal.SIGWINCH)
        until_gone(person, "● connected")


def test_another_session_is_turned_to_by_its_name(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "first") as person:
        person.type(b"read README.md\r")
        person.until(ENDED)
        until_gone(person, BUSY)
    with talk(hosting, place, "second") as person:
        person.type(b"/tree fir\t")
        person.until("> /tree first\n")
        person.type(b"\r")
        person.until_all(["first · offline/guide", "› read README.md"])
        person.type(b"/resume second\r")
        person.until_again(b"second \xc2\xb7 offline/guide")
        person.until("● connected")
        person.type(b"/tree nobody\r")
        person.until("there is no session 'nobody'; /tree alone lists them")


def test_shift_tab_switches_modes_and_they_hold(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "modes") as person, talk(hosting, place, "modes") as other:
        person.until("mode ask")
        person.type(b"\x1b[Z")
        person.until("mode accept edits")
        other.until("mode accept edits")
        person.type(b"write src/lilies.py: white\r")
        person.until("● write src/lilies.py")
        until_gone(person, BUSY)
        assert (place / "src" / "lilies.py").read_text() == "white"
        person.type(b"write conftest.py: white\r")
        person.until_all([KEYS, "conftest.py: Python, tests or editors run it without being told"])
        person.press(b"\x1b")
        person.until("✗ denied")
        until_gone(person, BUSY)
        person.type(b"\x1b[Z")
        person.until("mode plan")
        person.type(b"run: touch ran\r")
        person.until("denied: plan mode")
        until_gone(person, BUSY)
        assert not (place / "ran").exists()
    hosting.run("daemon", "restart")
    with talk(hosting, place, "modes", rows=80) as person:
        person.until("mode plan")
        person.type(b"/mode\r")
        person.until("▸   3  plan")
        person.type(b"1\r")
        person.until_all(["Mode: ask", "mode ask"])


def test_an_image_is_refused_by_a_model_that_takes_none(hosting: Hosting, place: Path) -> None:
    (place / "pic.png").write_bytes(PNG)
    (place / "huge.png").write_bytes(PNG + b"\0" * 5 * 1024 * 1024)
    (place / "text.png").write_text("no image")
    with talk(hosting, place, "images", cols=200) as person:
        person.type(b"see @text.png\r")
        person.until_all(["text.png is not a PNG, JPEG, GIF or WebP", "> see @text.png\n"])
        person.type(b"\x15see @huge.png\r")
        person.until_all(["huge.png is too large: an image has at most 5 MB", "> see @huge.png\n"])
        person.type(b"\x15\x1b[200~%s\x1b[201~" % str(place / "pic.png").encode())
        person.until("pic.png\n")
        person.type(b"\r")
        person.until("offline/guide takes no images; choose a model that does")
        person.type(b"\x15/model offline/replay\r")
        person.until("✓ Model set")
    assert prompts(hosting, "images") == []


def test_a_daemon_that_stands_still_holds_up_nothing(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "still") as person:
        os.kill(pid := hosting.daemon_pid(), signal.SIGSTOP)
        try:
            person.type(b"read README.md\r")
            person.until("↳ read README.md · not sent yet")
            person.type(b"find *.py in src\r")
            person.until("↳ find *.py in src · not sent yet")
            person.until("○ no answer")
            person.type(b"typed\x0c")
            person.until_all(["> typed\n", "↳ find *.py in src · not sent yet"])
            person.type(b"\x15@tul\t")
            person.until("> @src/tulips.py")
            person.type(b"\x15")
        finally:
            os.kill(pid, signal.SIGCONT)
        person.until_all(["● read README.md", "● find *.py src", "● connected"])
        until_gone(person, BUSY)
        assert "not sent yet" not in person.screen.text()
    said = prompts(hosting, "still")
    assert said.count("read README.md") == said.count("find *.py in src") == 1


def test_what_a_daemon_that_died_did_not_take_is_said_once_by_the_next(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "again") as person:
        os.kill(pid := hosting.daemon_pid(), signal.SIGSTOP)
        person.press(b"read README.md\r")
        person.until("not sent yet")
        os.kill(pid, signal.SIGKILL)
        person.until_all(["reconnected", "● read README.md", ENDED])
        until_gone(person, BUSY)
        assert "not sent yet" not in person.screen.text()
        assert person.text.count("> read README.md\n") == 1
    assert prompts(hosting, "again") == ["read README.md"]


def test_an_answer_that_is_typed_while_the_chat_is_stopped_is_none(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "stopped") as person:
        person.type(b"run: touch made\r")
        person.until("y yes")
        for pause in (0.1, 2.0):
            time.sleep(1.0)  # it was read
            os.kill(person.client.pid, signal.SIGSTOP)
            os.waitpid(person.client.pid, os.WUNTRACED)
            os.write(person.ours, b"y\r")
            time.sleep(pause)
            os.kill(person.client.pid, signal.SIGCONT)
            person.type(b"\x0c")
            person.until("y yes")
            time.sleep(1.0)
            assert hosting.ask("approvals")["approvals"]
        assert not (place / "made").exists()
        person.type(b"y\r")
        person.until("✓ allowed")


def test_a_question_is_asked_again_after_the_command_was_stopped(hosting: Hosting) -> None:
    name = "garden"
    id = hosting.ask("open_session", name=name, cwd=str(hosting.directory))["session_id"]
    with Person(hosting, "rm", name) as person:
        person.until("[y/N]")
        os.kill(person.client.pid, signal.SIGSTOP)
        os.waitpid(person.client.pid, os.WUNTRACED)
        os.write(person.ours, b"y\r")
        time.sleep(0.2)
        os.kill(person.client.pid, signal.SIGCONT)
        person.until_all(["[y/N]"])
        deadline = time.monotonic() + WAIT
        while person.screen.text().count("[y/N]") < 2:
            assert time.monotonic() < deadline, person.screen.text()
            if select.select([person.ours], [], [], 0.1)[0]:
                person.read()
        assert person.client.poll() is None
        assert hosting.ask("session_find", session_id=id)
        person.type(b"n\r")
        assert person.client.wait(WAIT) == 1
    assert hosting.ask("session_find", session_id=id)
