"""Prompts for programs in terminals: with a small agent of our own, and with shells."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import lending
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting
from tests.terminal import small_agent

BLOCKED, TIMED_OUT = 3, 124
"""The exit codes if a person has to clear something away first, and if the agent worked for too long."""
LINES = "first line of {0}\nsecond line of {0}\n\nlast line of {0}"


class Stage:
    """The small agent in the session `work`."""

    def __init__(self, hosting: Hosting, here: Path) -> None:
        self.hosting = hosting
        self.here = here

    def start(self) -> Stage:
        program = (sys.executable, str(Path(small_agent.__file__)), str(self.here))
        self.hosting.run("start", "work", "-d", "--", *program)
        self.hosting.wait_text("work", "ready for you")
        return self

    def prompt(self, text: str, *options: str, code: int = 0) -> dict[str, Any]:
        """The receipt of a prompt, or what was said instead."""
        done = self.hosting.run("prompt", "work", text, "--json", *options, check=False)
        assert done.returncode == code, done.stderr
        return dict(json.loads(done.stdout)) if done.stdout else {"refused": done.stderr}

    def begin(self, text: str, *options: str) -> subprocess.Popen[str]:
        words = [*self.hosting.command, "prompt", "work", text, "--json", *options]
        to, environment = subprocess.PIPE, self.hosting.environment
        return subprocess.Popen(words, env=environment, text=True, stdout=to, stderr=to)

    def held(self) -> str:
        """Begin a turn that goes on until `let_go`; returns the prompt's id."""
        self.hold()
        return str(self.prompt("first")["prompt_id"])

    def receipts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self.hosting.run("prompt", "work", "--receipts", "--json").stdout
        )
        return found

    def receipt(self, prompt: str, stage: str = "ended") -> dict[str, Any]:
        given = {"name": "work", "prompt_id": prompt, "timeout": WAIT, "stage": stage}
        return self.hosting.ask("prompt_receipt", **given)

    def type(self, text: str, *keys: str) -> None:
        """Type as a person does."""
        options = [word for key in keys for word in ("-k", key)]
        self.hosting.run("send", "work", *([text] if text else []), *options)

    def hold(self) -> None:
        (self.here / "hold").touch()

    def let_go(self) -> None:
        (self.here / "hold").unlink()

    def noted(self, name: str) -> list[str]:
        path = self.here / name
        return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def add_rules(hosting: Hosting) -> None:
    """Let a daemon know the screens of the small agent."""
    place = Path(hosting.environment["HOME"], ".config/fairlead/rules")
    place.mkdir(parents=True)
    (place / "small.toml").write_text(small_agent.RULES)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Hosting]:
    with lending.lent() as hosting:
        add_rules(hosting)
        yield hosting


@pytest.fixture
def rules(daemon: Hosting) -> Iterator[Hosting]:
    yield daemon
    daemon.end_sessions()


@pytest.fixture
def stage(rules: Hosting, tmp_path: Path) -> Stage:
    return Stage(rules, tmp_path).start()


def test_a_prompt_of_several_lines_is_taken_and_its_receipt_has_the_times(stage: Stage) -> None:
    text = LINES.format("one")
    receipt = stage.prompt(text, "--wait")
    assert (receipt["state"], receipt["outcome"]) == ("ended", "done")
    times = [receipt[each] for each in ("written", "accepted", "started", "ended")]
    assert times == sorted(times)
    assert stage.noted("said") == [text]
    said = stage.hosting.run("prompt", "work", "two")
    assert (said.stdout, said.stderr) in (("", "accepted\n"), ("", "started\n"))


def test_while_it_works_prompts_wait_here_in_their_order(stage: Stage) -> None:
    stage.hold()
    first = stage.prompt("first")
    assert first["state"] in ("accepted", "started")
    waiting = [stage.prompt(LINES.format(number)) for number in range(2)]
    assert [each["state"] for each in waiting] == ["queued"] * 2
    assert [each["place"] for each in waiting] == [1, 2]
    assert stage.noted("said") == ["first"]
    stage.let_go()
    for each in waiting:
        assert stage.receipt(each["prompt_id"])["outcome"] == "done"
    assert stage.noted("said") == ["first", *map(LINES.format, range(2))]


def test_a_dialog_a_menu_and_a_draft_get_nothing_and_are_named(stage: Stage) -> None:
    stage.type("ask", "Enter")
    stage.hosting.wait_text("work", "May it run this?")
    assert "small asks: May it run this?" in stage.prompt("no", code=BLOCKED)["refused"]
    stage.type("", "Escape")
    stage.type("menu", "Enter")
    stage.hosting.wait_text("work", "Choose a colour")
    assert "small does not show an input that takes a prompt" in stage.prompt("no", code=BLOCKED)["refused"]
    stage.type("", "Escape")
    stage.type("half a thought")
    stage.hosting.wait_text("work", "half a thought")
    assert "there is a draft in the input of small" in stage.prompt("no", code=BLOCKED)["refused"]
    listed = [(each["words"], each["outcome"], each["reason"]) for each in stage.receipts()]
    assert len(listed) == 3
    assert listed[-1] == ("no", "dropped", "there is a draft in the input of small")
    assert "> half a thought" in stage.hosting.screen("work")
    assert stage.noted("pressed") == ["\x1b"] * 2
    assert stage.noted("said") == ["ask", "menu"]


def test_with_a_timeout_it_waits_until_the_way_is_free_or_is_refused_with_the_reason(stage: Stage) -> None:
    stage.type("half a thought")
    stage.hosting.wait_text("work", "half a thought")
    late = stage.prompt("too late", "--timeout", "1", code=BLOCKED)
    assert (late["outcome"], late["state"]) == ("dropped", "ended")
    assert late["reason"] == "there is a draft in the input of small, and it was not sent in time"
    assert "written" not in late
    waiting = stage.begin("in time", "--timeout", str(WAIT))
    find = stage.hosting.ask
    stage.hosting.until(lambda: find("session_find", name="work")["session"].get("queued") == 1)
    stage.type("", "Enter")
    receipt = json.loads(waiting.communicate(timeout=WAIT)[0])
    assert receipt["state"] in ("accepted", "started")
    assert stage.noted("said") == ["half a thought", "in time"]


def test_who_waits_is_told_for_what_and_when_that_changes_and_interrupting_it_withdraws_it(
    stage: Stage,
) -> None:
    first = stage.held()
    asking = [stage.begin(f"number {number}", "--wait") for number in range(2)]
    for each in asking:
        assert each.stderr is not None
        assert "queued" in each.stderr.readline()
        assert "work is working" in stage.hosting.run("prompt", "work", "--receipts").stdout
    queued = {each["words"] for each in stage.receipts() if each["state"] == "queued"}
    assert queued == {"number 0", "number 1"}
    asking[0].send_signal(signal.SIGINT)
    _, told = asking[0].communicate(timeout=WAIT)
    assert asking[0].returncode == 130
    assert told.endswith("fairlead prompt: work: withdrawn; it was not sent\n")
    stage.let_go()
    assert json.loads(asking[1].communicate(timeout=WAIT)[0])["outcome"] == "done"
    assert stage.receipt(first)["outcome"] == "done"
    assert stage.noted("said") == ["first", "number 1"]


def test_what_is_in_the_way_is_told_while_it_waits_and_one_that_was_taken_is_not_withdrawn(
    stage: Stage,
) -> None:
    stage.type("ask", "Enter")
    stage.hosting.wait_text("work", "May it run this?")
    with stage.begin("next", "--wait") as asking:
        assert asking.stderr is not None
        assert asking.stderr.readline() == "fairlead prompt: work: queued: small asks: May it run this?\n"
        stage.hold()
        stage.type("", "Escape")
        for line in asking.stderr:
            if line == "fairlead prompt: work: started\n":
                break
        asking.send_signal(signal.SIGINT)
        told = asking.communicate(timeout=WAIT)[1]
    assert told.endswith("fairlead prompt: work: it was sent already, and the agent goes on with it\n")
    stage.let_go()
    assert stage.noted("said") == ["ask", "next"]


def test_a_prompt_that_waits_can_be_withdrawn_later_and_what_became_of_each_is_listed(stage: Stage) -> None:
    stage.held()
    waiting = [stage.prompt(text)["prompt_id"] for text in ("two", "three")]
    run = stage.hosting.run
    many = run("prompt", "work", "--cancel", check=False)
    ids = ", ".join(each[:8] for each in waiting)
    assert (many.returncode, many.stderr) == (
        1,
        f"fairlead prompt: 2 prompts wait for work; give the id of one: {ids}\n",
    )
    assert run("prompt", "work", "--cancel", waiting[0][:8]).stderr == "withdrawn: two\n"
    assert run("prompt", "work", "--cancel").stderr == "withdrawn: three\n"
    none = run("prompt", "work", "--cancel", check=False)
    assert (none.returncode, "no prompt waits for work" in none.stderr) == (1, True)
    stage.let_go()
    assert stage.prompt("four", "--wait")["outcome"] == "done"
    found = [(each["words"], each["outcome"], each.get("reason", "")) for each in stage.receipts()]
    gone = "withdrawn before it was sent"
    assert found == [
        ("first", "done", ""),
        ("two", "dropped", gone),
        ("three", "dropped", gone),
        ("four", "done", ""),
    ]
    table = run("prompt", "work", "--receipts").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["ID", *(each["id"][:8] for each in stage.receipts())]
    assert "not delivered" in table[2]
    assert gone in table[2]
    assert stage.noted("said") == ["first", "four"]


def test_the_end_of_its_time_while_the_agent_works_has_a_code_of_its_own_and_withdraws_it(
    stage: Stage,
) -> None:
    stage.held()
    late = stage.prompt("late", "--wait", "--timeout", "1", code=TIMED_OUT)
    assert late["outcome"] == "dropped"
    assert late["reason"].endswith(" is working, and it was not sent in time")
    stage.let_go()
    assert stage.prompt("then", "--wait")["outcome"] == "done"
    assert stage.noted("said") == ["first", "then"]


def test_a_question_in_the_turn_that_a_prompt_began_is_told_and_is_in_the_way_of_the_next(
    rules: Hosting, tmp_path: Path
) -> None:
    rules.run("start", "work", "-d", "--cwd", str(tmp_path), "--", "bash", "--norc")
    rules.until(lambda: bool(rules.screen("work").strip()))
    run = partial(rules.run, "prompt", "work", check=False)
    asks = run("read -p 'Really? '", "--wait", "--timeout", "3")
    assert asks.returncode == TIMED_OUT
    assert asks.stderr.endswith("fairlead prompt: timed out; started; work asks: Really?\n")
    late = run("touch wrong", "--wait", "--timeout", "1")
    why = "fairlead prompt: work: not delivered: work asks: Really?, and it was not sent in time\n"
    assert (late.returncode, late.stderr.endswith(why)) == (BLOCKED, True), late.stderr
    waited = rules.run("wait", "work", "--text", "never", "--timeout", "0.1", check=False)
    assert waited.stderr == "fairlead wait: timed out after 0.1 s; it asks: Really?\n"
    rules.run("send", "work", "yes", "-k", "Enter")
    assert run("touch right", "--wait").returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["right"]


def test_enter_is_pressed_again_if_it_was_not_taken(stage: Stage) -> None:
    stage.prompt("be deaf", "--wait")
    assert stage.prompt("and again", "--wait")["outcome"] == "done"
    assert stage.noted("said") == ["be deaf", "and again"]


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Stage]:
    """The same with a daemon of its own, which may be killed."""
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    add_rules(hosting)
    yield Stage(hosting, tmp_path).start()
    hosting.close()


def test_what_waits_is_said_once_although_the_daemon_is_killed(killed: Stage) -> None:
    killed.hold()
    first = killed.prompt("first")
    waiting = killed.prompt(LINES.format("two"))
    killed.hosting.kill_daemon()
    assert killed.receipt(first["prompt_id"], "started")["state"] == "started"
    found = killed.hosting.ask("prompt_receipt", name="work", prompt_id=waiting["prompt_id"])
    assert (found["state"], found["place"]) == ("queued", 1)
    killed.let_go()
    assert killed.receipt(waiting["prompt_id"])["outcome"] == "done"
    assert killed.noted("said") == ["first", LINES.format("two")]


@pytest.mark.peers
@pytest.mark.parametrize("moment", ["at once", "in the input", "said"])
def test_a_prompt_is_said_once_whenever_the_daemon_is_killed(killed: Stage, moment: str) -> None:
    for number in range(3):
        asking = killed.begin(f"number {number}", "--wait")
        if moment == "in the input":
            killed.hosting.wait_text("work", f"number {number}")
        if moment == "said":
            killed.hosting.until(lambda n=number: len(killed.noted("said")) > n)  # type: ignore[misc]
        killed.hosting.kill_daemon()
        assert json.loads(asking.communicate(timeout=WAIT)[0])["outcome"] == "done"
    assert killed.noted("said") == [f"number {number}" for number in range(3)]


def test_a_turn_whose_end_no_hook_has_told_ends_although_the_daemon_is_killed_again_and_again(
    killed: Stage,
) -> None:
    given = killed.held()
    killed.receipt(given, "started")
    begun = killed.hosting.ask("terminal_turn", name="work", event="start", agent="small", prompt="first")
    assert begun["turn"] == 1
    killed.let_go()
    killed.hosting.until(lambda: "  ready" in killed.hosting.screen("work"))
    for _ in range(8):
        killed.hosting.kill_daemon()
        found = killed.hosting.ask("prompt_receipt", name="work", prompt_id=given, timeout=3.0, stage="ended")
        if found["state"] == "ended":
            break
    assert (found["state"], found.get("outcome")) == ("ended", "done")
    assert killed.prompt("second", "--wait")["outcome"] == "done"
    assert killed.noted("said") == ["first", "second"]


def test_who_types_at_the_same_time_wins(stage: Stage) -> None:
    with Person(stage.hosting, "attach", "work") as person:
        person.until("ready for you")
        for number in range(5):
            asking = stage.begin(f"number {number}")
            person.type(b"x")
            asking.communicate(timeout=WAIT)
            said = stage.noted("said")
            assert not any("x" in each for each in said)
            assert (f"number {number}" in said) is (asking.returncode == 0)
            person.type(b"\x7f" * 20)
            stage.hosting.until(lambda: "> \n" in stage.hosting.screen("work").replace(">\n", "> \n"))


def test_a_prompt_for_an_agent_that_has_ended_is_not_given_to_its_shell(
    rules: Hosting, tmp_path: Path
) -> None:
    rules.run("start", "work", "-d", "--cwd", str(tmp_path), "--", "sh", "-c", "PS1='now$ ' exec sh -i")
    rules.wait_text("work", "now$")
    program = f"{sys.executable} {small_agent.__file__} {tmp_path}"
    rules.run("send", "work", program, "-k", "Enter")
    rules.wait_text("work", "ready for you")
    stage = Stage(rules, tmp_path)
    stage.hold()
    stage.prompt("first")
    waiting = [stage.prompt(text)["prompt_id"] for text in ("please quit", "touch wrong")]
    stage.let_go()
    ended, late = map(stage.receipt, waiting)
    assert (ended["outcome"], ended["reason"]) == ("interrupted", "small ended, and sh is there now")
    assert (late["outcome"], late["reason"]) == ("dropped", "it was for small, and sh is there now")
    assert not (tmp_path / "wrong").exists()


def test_a_shell_takes_a_command_at_its_prompt_only(rules: Hosting, tmp_path: Path) -> None:
    rules.run("start", "work", "-d", "--cwd", str(tmp_path), "--", "bash", "--norc")
    stage = Stage(rules, tmp_path)
    rules.wait_text("work", "bash-")
    assert stage.prompt("echo one > out; sleep 0.5; echo two >> out", "--wait")["outcome"] == "done"
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
    stage.type("rm half")
    rules.wait_text("work", "rm half")
    assert "there is a draft in the input of bash" in stage.prompt("echo", code=BLOCKED)["refused"]
    stage.type("", "C-u")
    stage.type("cat", "Enter")
    refused = stage.prompt("echo", code=BLOCKED)["refused"]
    assert "cat runs there" in refused
    assert "`fairlead send work TEXT -k Enter` types without looking" in refused


def test_bytes_that_are_no_utf_8_and_half_characters_are_replaced_and_harm_no_other(
    stage: Stage,
) -> None:
    words = [*stage.hosting.command, "prompt", "work"]
    given = [([b"caf\xe9", b"--wait"], b""), ([b"-", b"--wait"], b"na\xefve")]
    for more, typed in given:
        subprocess.run([*words, *more], input=typed, env=stage.hosting.environment, check=True, timeout=WAIT)
    stage.hosting.ask("session_prompt", name="work", text="half \ud83d of it", timeout=WAIT)
    assert stage.prompt("a good one", "--wait")["outcome"] == "done"
    assert stage.noted("said") == ["caf\ufffd", "na\ufffdve", "half \ufffd of it", "a good one"]


def test_a_hook_with_half_of_a_character_harms_no_later_one(rules: Hosting) -> None:
    rules.run("start", "work", "-d", "--", "cat")
    for number, (prompt, path) in enumerate([("a \ud83d b", "/no\udce9"), ("fine", "")], 1):
        given = {"name": "work", "event": "start", "agent": "other", "prompt": prompt, "path": path}
        assert rules.ask("terminal_turn", **given) == {"accepted": True, "turn": number}


def test_an_agent_that_stalls_gets_one_enter_and_its_dialog_none(stage: Stage) -> None:
    receipt = stage.prompt("stall and ask", "--timeout", str(WAIT))
    assert receipt["state"] in ("accepted", "started")
    stage.hosting.wait_text("work", "May it run this?")
    assert (stage.noted("said"), stage.noted("pressed")) == (["stall and ask"], [])


def test_the_question_of_a_script_gets_nothing_and_is_named(rules: Hosting, tmp_path: Path) -> None:
    script = 'read -p "Really delete? type yes > " a; touch deleted'
    rules.run("start", "work", "-d", "--cwd", str(tmp_path), "--", "bash", "-c", script)
    rules.wait_text("work", "Really delete?")
    rules.until(lambda: "waits" in rules.run("state", "work").stdout)
    refused = Stage(rules, tmp_path).prompt("yes", code=BLOCKED)["refused"]
    assert "bash asks: Really delete? type yes >" in refused
    assert not (tmp_path / "deleted").exists()


def test_what_only_looks_like_the_prompt_of_a_shell_gets_nothing(rules: Hosting, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("PS1='\\W$ '\n")
    rules.run("start", "work", "-d", "--cwd", str(tmp_path), "--", "bash", "--rcfile", "rc")
    stage = Stage(rules, tmp_path)
    rules.wait_text("work", f"{tmp_path.name}$")
    stage.type("echo draft > ")
    rules.wait_text("work", "echo draft >")
    assert "there is a draft in the input of bash" in stage.prompt("victim", code=BLOCKED)["refused"]
    stage.type("", "C-u")
    stage.type("cat <<EOF", "Enter")
    rules.until(lambda: rules.screen("work").rstrip().endswith("\n>"))
    rest = "bash waits for the rest of a command: >"
    assert rest in stage.prompt("touch wrong", code=BLOCKED)["refused"]
    stage.type("", "C-c")
    other = "something else than the prompt that it began with; `fairlead send work TEXT -k Enter`"
    for option, asked in (("", "bash asks: Overwrite? y/n >"), ("-e", other)):
        stage.type(f'read {option} -p "Overwrite? y/n > " a', "Enter")
        rules.until(lambda: rules.screen("work").rstrip().endswith("\nOverwrite? y/n >"))
        assert asked in stage.prompt("touch wrong", code=BLOCKED)["refused"]
        stage.type("", "C-c")
    stage.type("cd /tmp", "Enter")
    stage.prompt(f"touch {tmp_path}/right", "--timeout", str(WAIT))
    rules.until((tmp_path / "right").exists)
    assert {each.name for each in tmp_path.iterdir()} == {"rc", "right"}
