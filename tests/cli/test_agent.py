"""`fairlead agent`, as a person uses it on a real terminal and as scripts do."""

from __future__ import annotations

import json
import select
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.sdk import Agent, Host, connect
from fairlead.events import ApprovalWanted, ToolResult, ToolRunning, TurnEnded
from fairlead.formats.shown import call_title, clean
from fairlead.system.settings import Settings
from fairlead.ui.chat.line import MAX_HISTORY, InputHistory, InputLine, Key, LineKeys
from fairlead.ui.chat.view import question, result, wrapped
from fairlead.ui.styled import plain
from tests.agent.playing import cassette
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

UNTIL_GO = b"run: while [ ! -e go ]; do sleep 0.02; done\r"
"""A command that takes until a file is there."""
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x9b5n\x05\u202eend"
ENDED = "lists them."
"""How the offline guide ends what it says."""
KEYS = "y yes · a always · n no, and Enter"


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    finished: dict[str, Any] = {"event": "finished", "stop_reason": "stop", "usage": {}}
    first: list[dict[str, Any]] = [
        {"event": "thinking", "text": "let me see"},
        {"event": "text", "text": EVIL},
        finished,
    ]
    endless: list[dict[str, Any]] = [
        {"event": "text", "text": "I begin"},
        {"event": "text", "at": 59.0, "text": "."},
        finished,
    ]
    tape = cassette(tmp_path_factory.mktemp("tape") / "cassette.jsonl", first, endless)
    hosting = Hosting(
        {
            "FAIRLEAD_AGENT_CASSETTE": tape,
            "FAIRLEAD_AGENT_CASSETTE_TIMING": "1",
            "FAIRLEAD_DAEMON_RESTART_PAUSE": "0",
        }
    )
    yield hosting
    hosting.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("roses\ntulips\n")
    return tmp_path


def talk(hosting: Hosting, place: Path, *words: str, cols: int = 80, rows: int = 40) -> Person:
    person = Person(hosting, "agent", "-C", str(place), *words, cols=cols, rows=rows)
    person.until("^D leaves")
    return person


def say(person: Person, text: str, then: str) -> None:
    """Say something and wait until it is said, and until something is shown."""
    person.type(text.encode() + b"\r")
    person.until_all([f"> {text}", then])


def idle(person: Person) -> None:
    """Wait until the turn is over."""
    deadline = time.monotonic() + WAIT
    while "^C interrupts" in person.screen.text():
        assert select.select([person.ours], [], [], max(0.0, deadline - time.monotonic()))[0], person.text
        person.read()


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    hosting.run("ls")  # it starts the daemon there, and not where this process would
    with connect(Settings(hosting.environment)) as host:
        yield host


def prompts(agent: Agent) -> list[str]:
    return [each["text"] for each in agent.messages() if each["role"] == "user"]


def once(text: str, part: str) -> bool:
    return text.count(part) == 1


def test_a_conversation_is_shown_as_it_goes_and_can_be_left_and_come_back_to(
    hosting: Hosting, place: Path
) -> None:
    with talk(hosting, place, "garden") as person:
        assert f"garden · offline/guide · {place}"[:70] in person.text
        assert "no language model is connected" in person.text
        say(person, "read README.md", ENDED)
        person.until_all(["● read README.md", "  2 lines", "Done: read README.md.\nroses\ntulips"])
        idle(person)
        assert person.leave(b"\x04") == 0
        assert "left garden; `fairlead agent garden` continues it" in person.text
        assert termios.tcgetattr(person.theirs) == person.before
        assert person.seen.endswith(b"continues it\r\n")
    with talk(hosting, place, "garden") as person:
        person.until_all(["› read README.md", "tulips", ENDED])
        assert person.leave(b"/quit\r") == 0


def test_who_comes_back_sees_which_calls_were_made_and_how_they_ended(hosting: Hosting, place: Path) -> None:
    done = hosting.run("agent", "-C", str(place), "-n", "past", "-p", "-y", "run: echo roses; exit 3 then ls")
    assert done.returncode == 0
    hosting.run("daemon", "restart")
    with talk(hosting, place, "past") as person:
        person.until_all(["› run: echo roses; exit 3 then ls", "● $ echo roses; exit 3", "  [Exit code 3.]"])
        person.until(ENDED)
        assert "running" not in person.screen.text()


def test_what_a_long_question_is_about_stands_beside_its_keys(hosting: Hosting, place: Path) -> None:
    (place / "far-above.txt").write_text("".join(f"{number} old\n" for number in range(30)))
    with talk(hosting, place, "long", rows=12) as person:
        person.type(b"write far-above.txt: new\r")
        person.until(KEYS)
        rows = person.screen.text().splitlines()
        (at,) = [at for at, row in enumerate(rows) if KEYS in row]
        assert rows[at - 1].rstrip() == "? write far-above.txt"
        person.type(b"n\r")
        person.until("denied: no consent to write: write far-above.txt")


def test_a_letter_and_enter_say_yes_no_or_always(hosting: Hosting, host: Host, place: Path) -> None:
    with talk(hosting, place, "keys") as person:
        say(person, "write a.txt: hello", KEYS)
        person.until_all(["? create a.txt", "it changes a file", "  hello"])
        person.type(b"y\r")
        person.until_all(["✓ allowed", "● write a.txt", ENDED])
        assert (place / "a.txt").read_text().strip() == "hello"
        idle(person)
        say(person, "edit a.txt: replace `hello` with `bye`", KEYS)
        person.until_all(["  1 - hello", "  1 + bye"])
        assert b"\x1b[31mhello" in person.seen
        person.type(b"n\r")
        person.until_all(["✗ denied", "● edit a.txt", "denied: no consent to edit: edit a.txt"])
        assert (place / "a.txt").read_text().strip() == "hello"
        idle(person)
        agent = host.agent("keys")
        for count, (word, key) in enumerate((("one", b"\x1b"), ("two", b"a\r"), ("two", b"")), 3):
            person.type(f"run: echo {word} >> out\r".encode())
            if key:
                person.until(KEYS)
                person.type(key)
            hosting.until(lambda count=count: len(prompts(agent)) == count)  # type: ignore[misc]
            hosting.until(lambda: agent.state()["phase"] == "idle")
        assert (place / "out").read_text() == "two\ntwo\n"


def test_only_an_answer_that_is_offered_is_one(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        person.type(b"run: touch done\ryay")
        person.until_all(["allow bash?", KEYS, "> yay"])
        person.type(b", and also read README.md\r")
        person.until_all(["sent to the agent; the question is still open", "↳ yay, and also read README.md"])
        person.type(b"\r")
        person.until(f"answer with {KEYS}")
        assert not (place / "done").exists()
        person.type(b"no\r")
        person.until("✗ denied")
        idle(person)
        assert not (place / "done").exists()


def test_control_c_interrupts_and_then_aborts(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "--model", "offline/replay", "--thinking", "high") as person:
        assert "offline/replay, thinking high" in person.text
        say(person, "first", "end")
        idle(person)
        say(person, "second", "I begin")
        person.type(b"\x03")
        person.until("interrupting after this step; ^C again aborts it immediately")
        assert "^C interrupts" in person.screen.text()
        person.type(b"\x03")
        person.until("aborted")
        idle(person)
        person.type(b"dropped\x03\x03")
        person.until("press ^D or enter /quit to leave")
        assert "dropped" not in person.screen.text()


def test_run_leaves_the_question_of_another_turn_alone(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "waits") as person:
        say(person, "run: touch done", "allow bash?")
        for more in ((), ("--yes",)):
            done = hosting.run("run", *more, "--name", "waits", "--verify", "true", "help", check=False)
            assert (done.returncode, "waits for an answer" in done.stderr) == (1, True)
        assert not (place / "done").exists()
        waiting = hosting.ask("approvals")["approvals"]
        (token,) = [row["token"] for row in waiting if row["session_name"] == "waits"]
        hosting.run("approvals", "allow", token)
        hosting.until((place / "done").exists)


def test_control_c_at_a_question_ends_the_turn(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        say(person, "run: touch done then read README.md", "allow bash?")
        person.type(b"\x03")
        person.until_all(["✗ denied", "aborted"])
        idle(person)
        assert not (place / "done").exists()
        assert "● read" not in person.text


def test_what_is_typed_while_a_turn_runs_steers_it(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "--yes") as person:
        person.type(UNTIL_GO.replace(b"\r", b" then list .\r"))
        person.until_all(["✓ allowed", "● $ while", "running bash"])
        person.type(b"read README")
        person.until("> read README")
        person.type(b".md\r")
        person.until("↳ read README.md")
        (place / "go").touch()
        person.until_all(["> read README.md", "● read README.md", ENDED])
        idle(person)
        assert "↳" not in person.screen.text()
        assert "● ls" not in person.text


def test_what_waits_is_shown_until_it_is_said_or_dropped_by_anybody(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "--yes", "dropping") as person:
        person.type(UNTIL_GO)
        person.until_all(["✓ allowed", "● $ while", "running bash"])
        person.type(b"read README.md\r")
        person.until("↳ read README.md")
        hosting.run("stop", "dropping")
        person.until_all(["not sent (stopped before it was sent): read README.md", "aborted"])
        idle(person)
        assert "↳" not in person.screen.text()
        hosting.run("send", "dropping", "read README.md")  # the same words, by another
        person.until("› read README.md")


def test_nothing_that_a_model_says_controls_the_terminal(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "--model", "offline/replay") as person:
        say(person, "hello", "end")
        idle(person)
        assert "let me see" in person.text
        assert "red ·5n··end" in person.text
        for harm in (b"\x1b]0", b"\x1b[2J", b"\x9b", b"\x05", "\u202e".encode()):
            assert harm not in person.seen.replace("·".encode(), b"")
    (place / "odd").write_bytes(b"\x1b[2J\x1b]0;owned\x07")
    with talk(hosting, place, "-y") as person:
        say(person, "read odd then run: printf 'a\\033[2Jb'", ENDED)
        assert b"\x1b[2J" not in person.seen
        assert b"\x1b]0" not in person.seen


def test_without_colours_there_are_none(place: Path, hosting: Hosting) -> None:
    hosting.environment["NO_COLOR"] = "1"
    try:
        with talk(hosting, place) as person:
            say(person, "read nothing", ENDED)
            idle(person)
            assert b"\x1b[1m" not in person.seen
            assert b"\x1b[31m" not in person.seen
    finally:
        del hosting.environment["NO_COLOR"]


def test_a_line_is_edited_pasted_and_remembered(hosting: Hosting, host: Host, place: Path) -> None:
    with talk(hosting, place, "editing") as person:
        person.type("hellp 漢字".encode() + b"\x01\x1bf\x7fo\x1b[F!")
        person.until("> hello 漢字!")
        person.type(b"\\\rmore \x1b[200~pasted\rlines\x1b[201~")
        person.until_all(["  more pasted", "  lines"])
        person.type(b"\r")
        person.until("> hello 漢字!\n  more pasted\n  lines")
        person.until("Choose another model")
        idle(person)
        assert person.leave(b"\x04") == 0
    said = host.agent("editing").messages()
    assert said[0]["text"] == "hello 漢字!\nmore pasted\nlines"
    kept = Path(hosting.environment["HOME"], ".local/state/fairlead/agent-history")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with talk(hosting, place) as person:
        person.type(b"draft\x1b[A")
        person.until("> hello 漢字!\n  more pasted\n  lines")
        person.type(b"\x1b[B")
        person.until("> draft")


def test_a_daemon_that_dies_in_the_middle_is_waited_for(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "-y") as person:
        person.type(UNTIL_GO)
        person.until("running bash")
        hosting.kill_daemon()
        person.until_all(["reconnected", "the last turn was interrupted; send a prompt to continue"])
        say(person, "read README.md", ENDED)
        idle(person)
        assert once(person.text, "● $ while")


def test_a_question_survives_the_daemon_and_waits_for_who_comes_back(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "asked") as person:
        say(person, "run: touch done", KEYS)
        assert person.leave(b"\x04") == 0
        assert "its turn is still running" in person.text
    hosting.kill_daemon()
    with talk(hosting, place, "asked") as person:
        person.until_all(["? $ touch done", KEYS])
        person.type(b"y\r")
        person.until_all(["✓ allowed", ENDED])
        assert (place / "done").exists()
    assert "allowed by chat" in hosting.run("timeline", "asked").stdout


def test_two_clients_of_one_session_see_the_same(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "shared") as one, talk(hosting, place, "shared") as two:
        say(one, "run: touch done", KEYS)
        two.until_all(["› run: touch done", "? $ touch done", KEYS])
        one.type(b"y\r")
        one.until("✓ allowed")
        two.until_all(["✓ allowed, in another chat", ENDED])
        idle(two)
        assert "allow bash?" not in two.screen.text()
        say(two, "read README.md", ENDED)
        one.until_all(["› read README.md", "● read README.md"])
    with talk(hosting, place, "shared") as late:
        late.until("› read README.md")


def test_a_busy_session_is_followed_by_who_comes_to_it(hosting: Hosting, host: Host, place: Path) -> None:
    busy = host.agent("busy", cwd=str(place))
    with busy.prompt(UNTIL_GO.decode().strip()) as turn:
        for event in turn:
            if isinstance(event, ApprovalWanted):
                busy.approve(event.id)
            if isinstance(event, ToolRunning):
                break
    with talk(hosting, place, "busy") as person:
        person.until_all(["› run: while", "^C interrupts"])
        (place / "go").touch()
        person.until_all(["Done: run", ENDED])


def test_slash_commands_run_in_the_daemon_and_choices_are_numbers(
    hosting: Hosting, host: Host, place: Path
) -> None:
    with talk(hosting, place, "commands") as person:
        say(person, "/help", "/thinking [level]")
        say(person, "/modell", "/modell is not a command here; did you mean /model?")
        say(person, "/zzz", "/zzz is not a command here; /help lists them")
        say(person, "/resume nosuch", "there is no session 'nosuch'; /resume alone lists")
        say(person, "/tree nosuch", "there is no session 'nosuch'; /tree alone lists them")
        say(person, "/tree commands", "this is commands already")
        say(person, "/cost", "Tokens  : none known")
        say(person, "/thinking", "choose:")
        person.type(b"99\r")
        person.until_all(["choose: 99", "no matches"])
        person.type(b"\x1b")
        person.until("Nothing was chosen.")
        person.type(b"/thinking\r")
        person.until_again(b"choose: ")
        person.type(b"3\r")
        person.until("✓ Thinking level set to low")
        say(person, "/new", "a new session · offline/guide")
        say(person, "read README.md", ENDED)
    assert host.agent("commands").messages() == []


def test_a_key_is_neither_shown_nor_remembered(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        say(person, "/login openai", "key:")
        person.type(b"sk-secret")
        person.until("key: •••••••••")
        person.type(b"\r")
        person.until("the key is stored")
        say(person, "/login openai", "key:")
        person.type(b"x\x03")
        person.until_again(b"> ")
        assert person.leave(b"\x04") == 0
        assert b"sk-secret" not in person.seen
    kept = Path(hosting.environment["HOME"], ".local/state/fairlead/agent-history").read_text()
    assert "/login openai" in kept
    assert "secret" not in kept


def test_the_terminal_is_given_back_whatever_ends_or_stops_the_chat(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place) as person:
        assert termios.tcgetattr(person.theirs) != person.before
        person.client.send_signal(signal.SIGTERM)
        assert person.exit_code() == 143
        assert termios.tcgetattr(person.theirs) == person.before
        assert person.seen.rindex(b"\x1b[?2004l") > person.seen.rindex(b"\x1b[?2004h")
    look = "stty -a | grep -q ' icanon' && echo given back"
    chat = f"{sys.executable} -m fairlead agent -C {place}"
    hosting.start("shell", f"set -m; {chat}; {look}; fg; {look} again")
    hosting.wait_text("shell", "^D leaves")
    hosting.run("send", "shell", "-k", "C-z")
    hosting.wait_text("shell", "given back")
    hosting.run("send", "shell", "read README.md", "-k", "Enter")
    hosting.wait_text("shell", ENDED)
    hosting.run("send", "shell", "-k", "C-d")
    hosting.wait_text("shell", "given back again")


def test_a_window_may_change_its_size(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, rows=30) as person:
        person.type(b"Q" * 60)
        person.until("Q" * 60)
        person.resize(31, 30)
        person.client.send_signal(signal.SIGWINCH)
        person.type(b"yz")
        person.until("yz")
        assert person.text.count("Q") == 60
        person.resize(90, 30)
        person.type(b"!")
        person.until("> " + "Q" * 60 + "yz!")
        assert person.text.count("Q") == 60


# --- scripts ----------------------------------------------------------------------------------------------


def script(
    hosting: Hosting, place: Path, *words: str, input: str | None = None
) -> subprocess.CompletedProcess[str]:
    return hosting.run("agent", "-C", str(place), *words, check=False, input=input)


def test_print_gives_only_the_answer_and_a_code(hosting: Hosting, host: Host, place: Path) -> None:
    done = script(hosting, place, "-p", "read README.md")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Done: read `README.md`.\nroses\ntulips\n")
    assert done.stdout.endswith("lists them.\n")
    denied = script(hosting, place, "-p", "run: touch done")
    assert denied.returncode == 3
    assert "denied: $ touch done: nobody could be asked; use --yes" in denied.stderr
    assert not (place / "done").exists()
    allowed = script(hosting, place, "-p", "-v", "-y", "run: touch done then read README.md")
    assert allowed.returncode == 0
    assert allowed.stderr == "● $ touch done\n  [No output.]\n● read README.md\n  2 lines\n"
    assert (place / "done").exists()
    for answer in (0, 1):
        failed = script(hosting, place, "-p", "--name", "tape", "hello", "--model", "offline/replay")
        if answer == 0:
            assert (failed.returncode, failed.stdout) == (0, EVIL + "\n")
            aborted = host.agent("tape")
            with aborted.prompt("hang") as turn:
                aborted.abort()
                assert list(turn)[-1] == TurnEnded("aborted")
    assert failed.returncode == 1
    assert "fairlead agent: the cassette" in failed.stderr


def test_a_name_of_another_directory_is_told(hosting: Hosting, place: Path) -> None:
    other = place / "other"
    other.mkdir()
    (place / "link").symlink_to(place)
    for words in (["-C", str(place)], ["-C", str(place / "link")], []):
        hosting.run("agent", "-p", "--name", "rooted", *words, "read README.md")
    done = hosting.run("agent", "-p", "--name", "rooted", "-C", str(other), "read README.md", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"fairlead agent: session rooted works in {place}: leave out -C, or choose another name\n",
    )


def test_the_name_of_a_session_before_words_is_that_session(
    hosting: Hosting, host: Host, place: Path
) -> None:
    agent = host.agent("beds", cwd=str(place))
    hosting.run("agent", "-C", str(place), "-p", "beds", "list", "src")
    assert [each["text"] for each in agent.messages() if each["role"] == "user"] == ["list src"]


def test_what_is_piped_in_is_the_prompt_or_belongs_to_it(hosting: Hosting, host: Host, place: Path) -> None:
    assert "tulips" in script(hosting, place, input="read README.md\n").stdout
    script(hosting, place, "piped", "read README.md", input="list .\n")
    assert host.agent("piped").messages()[0]["text"] == "read README.md\n\nlist ."
    script(hosting, place, "-c", "-p", "read more")
    assert prompts(host.agent("piped"))[-1] == "read more"


def test_json_is_every_event_on_a_line(hosting: Hosting, place: Path) -> None:
    done = script(hosting, place, "--json", "-y", "data", "run: printf '\\033[2J'")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == {"type": "session", "id": lines[0]["id"], "name": "data", "created": True}
    kinds = [line["type"] for line in lines]
    assert {"prompted", "text", "tool_started", "approval_wanted", "approval_settled"} < set(kinds)
    (running,) = (line for line in lines if line["type"] == "tool_running")
    assert running["arguments"] == {"command": "printf '\\033[2J'"}
    assert lines[-1] == {"type": "turn_ended", "outcome": "done"}
    assert "\x1b" not in done.stdout


def test_the_command_line_is_checked(hosting: Hosting, place: Path) -> None:
    for words, why in (
        ((), "missing PROMPT"),
        (("garden",), "missing PROMPT"),
        (("-c", "--name", "garden", "go on"), "--continue and --name can't be combined"),
        (("--model", "x", "say something"), "--model needs PROVIDER/ID, not 'x'"),
        (("--print", "--json", "say something"), "can't be combined"),
        (("--thinking", "hard", "say something"), "--thinking must be one of off, "),
    ):
        done = script(hosting, place, *words)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    before = len(hosting.ask("list_sessions")["sessions"])
    for words, why in (
        (("--model", "x/y", "say something"), "unknown model: x/y; `fairlead agent --list-models` lists"),
        (("-C", "/nowhere", "say something"), "/nowhere is not a directory"),
    ):
        done = script(hosting, place, *words)
        assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert len(hosting.ask("list_sessions")["sessions"]) == before
    assert script(hosting, place, "--list-models").stdout.startswith("offline/guide ")
    assert json.loads(script(hosting, place, "--list-models", "--json").stdout)[0]["id"] == "guide"


@pytest.mark.parametrize(
    ("words", "name", "prompt"),
    [
        (("-p", "hello"), "", "hello"),
        (("-p", "read", "README.md"), "", "read README.md"),
        (("-p", "words", "read README.md"), "words", "read README.md"),
        (("-p", "--name", "named", "hello"), "named", "hello"),
        (("--json", "hello"), "", "hello"),
        (("read", "README.md"), "", "read README.md"),
        (("other", "read README.md"), "other", "read README.md"),
        (("read the README.md", "now"), "", "read the README.md now"),
    ],
)
def test_it_is_clear_what_is_a_name_and_what_a_prompt(
    hosting: Hosting, host: Host, place: Path, words: tuple[str, ...], name: str, prompt: str
) -> None:
    assert script(hosting, place, *words).returncode == 0
    agent = host.agent(name) if name else host.agent(cwd=str(place), continue_last=True)
    assert (agent.name, agent.created, prompts(agent)[-1]) == (name, False, prompt)


def test_an_interrupted_script_takes_its_turn_with_it(hosting: Hosting, host: Host, place: Path) -> None:
    script(hosting, place, "-p", "--name", "stopped", "hello", "--model", "offline/replay")
    client = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "agent", "--json", "--name", "stopped", "hang"],
        env=hosting.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert client.stdout is not None
    while b"I begin" not in client.stdout.readline():
        pass
    client.send_signal(signal.SIGINT)
    assert client.wait(WAIT) == 130
    client.stdout.close()
    stopped = host.agent("stopped")
    hosting.until(lambda: stopped.state()["phase"] == "idle")


# --- without a terminal -----------------------------------------------------------------------------------


def test_a_text_is_made_harmless_and_wrapped() -> None:
    assert clean("a\tb\r\nc\x1b[1;31md\x1b]8;;x\x1b\\e\x1bPq\x1b\\f\x1b7g\x00\x85\u2066") == "a   b\ncdefg···"
    assert clean("\x1b\x1b[31m[31m") == "·[31m"
    assert wrapped("漢字漢", 5) == ["漢字", "漢"]


def test_a_tool_is_shown_in_a_few_lines() -> None:
    assert call_title("bash", {"command": "make\ntest"}) == "$ make ⏎ test"
    assert call_title("grep", {"path": "src", "pattern": "x\x1b[31m"}) == "grep x src"
    assert call_title("other", {"a": 1}) == 'other {"a": 1}'
    assert call_title("other", {}) == "other"
    many = "".join(f"{number}\n" for number in range(9)) + "[Exit code 0.]"
    done = result(ToolResult("1", "bash", many, {}, False), was_previewed=False)
    assert list(map(plain, done.rows)) == [*("… 4 lines before · ^O opens", "4", "5", "6", "7", "8")]
    assert list(map(plain, done.whole)) == [str(number) for number in range(9)]
    failed = result(ToolResult("1", "bash", "x\n" * 9, {}, True), was_previewed=False)
    assert (len(failed.rows), plain(failed.rows[-1])) == (7, "… 3 more lines · ^O opens")
    edit = ToolResult("1", "edit", "a.txt: 1 edit made.", {"diff": "@@ -1 +1 @@\n-a\n+b"}, False)
    assert result(edit, was_previewed=True).rows == [("a.txt: 1 edit made.", "dim")]
    shown = result(edit, was_previewed=False)
    assert (list(map(plain, shown.rows)), shown.whole) == (["@@ line 1", "1 - a", "1 + b"], ())
    plan = ToolResult("1", "plan", "[x] sow\n[>] water\n[ ] reap", {}, False)
    assert list(map(plain, result(plan, was_previewed=False).rows)) == ["☑ sow", "▸ water", "☐ reap"]
    asked = question(ApprovalWanted("1", "bash", "$ a ...", "it runs", "a\nb"))
    assert asked == [("? $ a ...", "yellow"), ("  it runs", "dim"), ("  a", "dim"), ("  b", "dim")]


def test_keys_are_found_across_reads() -> None:
    keys = LineKeys()
    typed = "é".encode() + b"\x1b[1;5C\x1bOA\x1b[99~\x1b\x1b\r\x1b[200~a\rb\x1b[201~\t\x07"
    found = [key for value in typed for key in keys.feed(bytes((value,)))]
    assert found == [
        *(("text", "é"), ("key", "word-right"), ("key", "up"), ("key", "")),
        *(("key", "escape"), ("key", "newline"), ("paste", "a\nb"), ("key", "tab"), ("key", "cancel")),
    ]
    assert keys.feed(b"\x1b") == []
    assert (keys.is_pending, keys.flush(), keys.is_pending) == (True, [("key", "escape")], False)
    assert (keys.feed(b"\x1b]"), keys.flush(), keys.feed(b"a")) == ([], [("key", "")], [("text", "a")])


def test_a_line_is_edited_as_in_a_shell(tmp_path: Path) -> None:
    line = InputLine(InputHistory(str(tmp_path / "none" / "history")))

    def press(*names: str) -> str:
        for name in names:
            line.press(("key", name))
        return line.text

    def typed(text: str) -> Key:
        return "text", text

    line.press(typed("one two"))
    assert press("word-left", "kill") == "one "
    assert press("yank", "home", "delete", "right", "kill-before") == "e two"
    assert press("end", "kill-word", "left", "backspace", "yank") == "twoe " or line.text
    line.set("a\ne\u0301")
    assert press("left", "backspace") == "ae\u0301"
    line.set("ab\ncd")
    assert press("home", "left", "kill") == "abcd"
    line.set("x")
    assert line.rows("> ", 6, 3) == (["> x"], (0, 3))
    line.set("abcdef\n漢字")
    assert line.rows("> ", 6, 9) == (["> abcd", "  ef", "  漢字"], (2, 6))
    assert line.rows("> ", 6, 2) == (["  ef", "  漢字"], (1, 6))
    assert line.take() == "abcdef\n漢字"
    assert press("up", "up") == "abcdef\n漢字"
    assert press("down") == ""


def test_a_history_is_bounded_and_keeps_lines_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = InputHistory(str(path))
    for text in ("a\\nb\nc", " ", "a\\nb\nc", *map(str, range(MAX_HISTORY + 5))):
        history.add(text)
    assert len(history.entries) == MAX_HISTORY
    first = InputHistory(str(path))
    assert first.entries == history.entries
    assert len(InputHistory(str(path)).entries) == MAX_HISTORY // 2
    path.write_text("a\\\\nb\\nc\n")
    assert InputHistory(str(path)).entries == ["a\\nb\nc"]
