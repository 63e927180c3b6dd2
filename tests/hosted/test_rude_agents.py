"""Agents that do what they must not: each harms no other session, no journal and no person's judgement."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fairlead.client.connection import RequestError
from fairlead.system.settings import Settings
from fairlead.wire import acp
from tests.cli.verifying import verifying
from tests.client.acp_editor import AcpEditor
from tests.hosted.small import KEY, SMALL, SmallHosting
from tests.hosting import is_alive

MAX_DELUGE = 40 * 1024 * 1024
"""How many bytes an editor gets at the most of what an agent says without an end: less than it says."""

MAX_JOURNALED = 3000
"""How many messages a journal has at the most then: two for each of the plans that are kept."""


@pytest.fixture(scope="module")
def shared() -> Iterator[SmallHosting]:
    """One daemon for all, each test with a session of its own."""
    hosting = SmallHosting("load")
    yield hosting
    hosting.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[-30:]


def _goes_on(shared: SmallHosting, name: str) -> None:
    assert shared.talk("still there", name=name).stdout.strip() == "still there"


def test_what_is_said_after_a_turn_has_a_limit(shared: SmallHosting, name: str) -> None:
    shared.talk("gush", name=name)
    shared.until((shared.agent_dir / "gushed").exists)
    assert shared.talk("still there", name=name).stdout.strip().endswith("still there")
    told = shared.told(name)
    assert told[1].startswith("0 ggg")
    assert 500 < told.index("> still there") < 2000


def test_an_agent_with_too_many_calls_is_ended(shared: SmallHosting, name: str) -> None:
    done = shared.talk("calls", name=name)
    assert done.returncode == 1
    assert "small: it has more than 200 tool calls open" in done.stderr
    _goes_on(shared, name)


def test_an_agent_that_keeps_too_much_is_ended_and_only_one_runs(shared: SmallHosting, name: str) -> None:
    done = shared.talk("hello", name=name)
    first = shared.agent_pid(name)
    done = shared.talk("heavy", name=name)
    assert done.returncode == 1
    assert "small: what it does can't be kept" in done.stderr
    _goes_on(shared, name)
    assert not is_alive(first)


def test_an_agent_that_asks_without_an_end_is_ended(shared: SmallHosting, name: str) -> None:
    done = shared.talk("pester", name=name)
    assert done.returncode == 1
    assert "small: it does not read: more than 1000 lines wait for it" in done.stderr
    _goes_on(shared, name)


def test_many_requests_are_answered_once_each(shared: SmallHosting, name: str) -> None:
    assert shared.talk("ask:400", name=name).stdout.strip() == "400 answers {-32601}"
    shared.wait_idle(name)
    errors = [each["id"] for each in shared.received if "no/such" in str(each.get("error"))]
    answers = [id for id in errors if id.startswith("r")]
    assert sorted(answers) == sorted(f"r{number}" for number in range(1, 401))


def test_modes_without_an_end_hold_nobody_up(shared: SmallHosting, name: str) -> None:
    assert shared.talk("moody done", name=name).stdout.strip() == "done"
    assert shared.found(name)["mode"] == "bold"


@pytest.mark.parametrize("what", ["plan", "commands", "usage", "print"])
def test_what_an_agent_says_without_an_end_holds_nobody_up_and_its_last_state_is_told(
    shared: SmallHosting, what: str
) -> None:
    (shared.project / "enough").unlink(missing_ok=True)

    def last(told: object) -> bool:
        match told:
            case acp.Plan(entries=(entry,)):
                return entry.content == "step 2999"
            case acp.AvailableCommands(available_commands=commands):
                return "at-last" in {each.name for each in commands}
            case acp.UsageChanged(used=used):
                return used == 5000
            case acp.ToolCallUpdate(content=(acp.ContentShown(content=acp.Text(text=text)),)):
                return text.endswith("at last")
        return False

    with AcpEditor(shared, "--with", "small", cwd=shared.project) as editor:
        session = editor.new()
        turn = editor.say(session, f"deluge:{what}")
        if what in ("plan", "print"):  # what the session is set to is told when the turn ends
            editor.until(lambda: any(last(each.update) for each in editor.updates))
        (shared.project / "enough").touch()
        assert editor.answer(turn).stop_reason == "end_turn"
        editor.until(lambda: any(last(each.update) for each in editor.updates))
        assert len(msgspec.json.encode(editor.updates)) < MAX_DELUGE
    assert len(shared.messages(session)) < MAX_JOURNALED


def test_long_diffs_hold_nobody_up(shared: SmallHosting, name: str) -> None:
    assert shared.talk("rewrite done", name=name).stdout.strip() == "done"
    result = next(each for each in shared.messages(name) if each["role"] == "toolResult")
    assert "-a0" in result["details"]["diff"]
    assert "+b1489" in result["details"]["diff"]


def test_diffs_of_equal_lines_hold_nobody_up(shared: SmallHosting, name: str) -> None:
    assert shared.talk("repeat done", name=name).stdout.strip() == "done"
    result = next(each for each in shared.messages(name) if each["role"] == "toolResult")
    assert "-a\n" in result["details"]["diff"]


def test_long_titles_are_cut(shared: SmallHosting, name: str) -> None:
    shared.open(name)
    shared.say("titles done", name)
    shared.wait_idle(name)
    titles = [
        part["arguments"]["title"]
        for each in shared.messages(name)[1:]
        for part in each["content"]
        if part["type"] == "toolCall"
    ]
    assert len(titles) == 12
    assert max(map(len, titles)) < 1200
    pid = shared.agent_pid(name)
    shared.run("stop", name)
    shared.until(lambda: not is_alive(pid))
    _goes_on(shared, name)


def test_deep_arguments_can_be_read_again(shared: SmallHosting, name: str) -> None:
    shared.talk("deep", name=name)
    shared.run("stop", name)
    shared.kill_daemon()
    assert "bottom" in shared.messages(name)[1]["content"][0]["arguments"]["input"]
    _goes_on(shared, name)


def test_an_answer_is_shown_as_what_it_does(shared: SmallHosting, name: str) -> None:
    shared.open(name)
    shared.say("sly", name)
    question = shared.question(name)
    assert question["options"] == ["allow", "deny"]
    shown = shared.run("approvals").stdout
    assert 'allow ("Always allow: Reject"), deny ("Reject: Allow once")' in shown
    shared.ask("approval_settle", token=question["token"], allowed=False)
    shared.wait_idle(name)
    assert shared.told(name)[-1] == "b"


def test_a_long_command_is_shown_whole(shared: SmallHosting, name: str) -> None:
    shared.open(name)
    shared.say("vast:80", name)
    question = shared.question(name)
    assert question["options"] == ["allow", "always", "deny"]
    assert "; touch harm ;" in shared.run("approvals", "show", question["token"]).stdout
    shared.ask("approval_settle", token=question["token"], allowed=True)
    shared.wait_idle(name)
    assert shared.told(name)[-1] == "yes-once"


def test_what_can_not_be_shown_whole_can_only_be_denied(shared: SmallHosting, name: str) -> None:
    shared.open(name)
    shared.say("vast:300", name)
    question = shared.question(name)
    assert question["options"] == ["deny"]
    assert "too long to be shown whole, so it can only be denied" in shared.run("approvals").stdout
    with pytest.raises(RequestError, match="deny"):
        shared.ask("approval_settle", token=question["token"], allowed=True)
    assert shared.run("approvals", "answer", question["token"], "always", check=False).returncode
    shared.ask("approval_settle", token=question["token"], allowed=False)
    shared.wait_idle(name)
    assert shared.told(name)[-1] == "no"


@pytest.mark.parametrize(("word", "why"), [("same", "an id of its own"), ("many", "length <= 100")])
def test_options_that_nobody_can_choose_from_are_refused(
    shared: SmallHosting, name: str, word: str, why: str
) -> None:
    done = shared.talk(word, name=name)
    assert why in done.stdout
    assert shared.ask("approvals")["approvals"] == []


def test_a_permission_for_an_unknown_call_is_asked(shared: SmallHosting, name: str) -> None:
    shared.open(name)
    shared.say("strange", name)
    question = shared.question(name)
    assert question["summary"] == "never-begun"
    shared.ask("approval_settle", token=question["token"], allowed=True)
    shared.wait_idle(name)
    assert shared.told(name)[-1] == "yes-once"


def test_keys_of_its_environment_are_nowhere(shared: SmallHosting, name: str) -> None:
    done = shared.talk("-v", "secret", name=name)
    assert done.returncode == 1
    journal = Path(shared.found(name)["file"]).read_text()
    assert "it is [redacted]." in journal
    for text in (done.stdout, done.stderr, journal, shared.log(), shared.run("logs", name).stdout):
        assert KEY not in text
        assert KEY[9:] not in text


def test_its_key_is_in_no_field_and_its_own_ids_are_sent_back(shared: SmallHosting, name: str) -> None:
    id = shared.open(name)
    shared.say("leak", name)
    question = shared.question(name)
    commands = shared.ask("get_commands", session_id=id)
    shared.ask("approval_settle", token=question["token"], allowed=True)
    shared.wait_idle(name)
    assert any(f"yes-{KEY}" in str(each.get("result")) for each in shared.received)
    listed = shared.run("ls", "--json").stdout
    assert '[redacted]"' in listed
    state = Path(shared.environment["HOME"], ".local/state/fairlead")
    kept = [each.read_bytes() for each in state.rglob("*") if each.is_file() and each.suffix != ".toml"]
    assert any(b"yes-[redacted]" in each for each in kept)
    for text in (str(question), str(commands), listed, shared.log(), shared.run("logs", name).stdout):
        assert KEY not in text
    assert not any(KEY.encode() in each for each in kept)


def test_nothing_that_it_says_controls_a_terminal(shared: SmallHosting, name: str) -> None:
    shared.talk("escape", name=name)
    log = shared.run("logs", name).stdout
    assert "gone" in log
    assert "\x1b" not in log
    assert "\u202e" not in log


def test_a_turn_that_ends_for_an_unknown_reason_has_failed(shared: SmallHosting, name: str) -> None:
    done = shared.talk("odd", name=name)
    assert done.returncode == 1
    assert "budget_exceeded" in done.stderr
    assert shared.found(name)["outcome"] == "failed"


def test_work_after_the_end_of_a_turn_makes_its_verdict_stale(shared: SmallHosting, name: str) -> None:
    (shared.project / "result.txt").write_text("right\n")
    shared.open(name)

    def verdict() -> tuple[object, object]:
        found = shared.found(name).get("verdict") or {}
        return found.get("confidence"), found.get("stale")

    with verifying(shared, shared.project, name, "--", "grep", "-q", "right", "result.txt"):
        shared.say("overtime", name)
        shared.until(lambda: verdict() == ("verified", False))
        (shared.project / "go").touch()
        shared.until(lambda: verdict() == ("verified", True))
    assert (shared.project / "result.txt").read_text() == "WRONG\n"


def test_a_turn_that_was_aborted_is_not_done_whatever_the_agent_says(shared: SmallHosting, name: str) -> None:
    id = shared.open(name)
    shared.say("defy", name)
    shared.until(lambda: any("defy" in str(each.get("params")) for each in shared.received))
    shared.ask("abort", session_id=id)
    shared.wait_idle(name)
    assert shared.told(name)[-1] == "[aborted]"
    assert shared.found(name)["outcome"] == "aborted"


def test_stop_ends_what_the_agent_left_behind(shared: SmallHosting, name: str) -> None:
    child = int(shared.talk("child", name=name).stdout)
    assert is_alive(child)
    shared.run("stop", name)
    shared.until(lambda: not is_alive(child))


def test_what_belongs_to_nothing_is_ignored(shared: SmallHosting, name: str) -> None:
    assert shared.talk("lie done", name=name).stdout.strip() == "done"
    assert shared.told(name) == ["> lie done", "done"]


def test_a_program_that_speaks_no_acp_is_told_apart() -> None:
    hosting = SmallHosting("gibberish")
    try:
        done = hosting.talk("hello")
        assert done.returncode == 1
        assert "it does not speak ACP" in done.stderr
        assert "it printed: Welcome! What can I do for you today?" in done.stderr
    finally:
        hosting.close()


def test_a_program_that_repeats_what_it_is_told_speaks_no_acp(shared: SmallHosting) -> None:
    path = Path(Settings(shared.environment).config_path)
    path.write_text(f'{path.read_text()}\n[agents.cat]\ncommand = "cat"\n')
    done = shared.run("agent", "--with", "cat", "-p", "hello", check=False)
    assert done.returncode == 1
    assert "cat: it does not speak ACP" in done.stderr


def test_a_mode_that_the_agent_does_not_have_is_an_error(shared: SmallHosting, name: str) -> None:
    done = shared.run("agent", "--with", "small", "--mode", "askk", "--name", name, "-p", "hi", check=False)
    assert done.returncode == 1
    assert "small has no mode 'askk'; there are ask, bold" in done.stderr
    assert shared.run("agent", "--mode", "bold", "--name", name, "-p", "mode").stdout.strip() == "mode bold"


def test_a_model_can_not_be_chosen_where_the_agent_has_none(shared: SmallHosting, name: str) -> None:
    done = shared.run(
        "agent", "--with", "small", "--model", "small/x", "--name", name, "-p", "hi", check=False
    )
    assert done.returncode == 1
    assert "small does not let its model be set" in done.stderr


def test_models_are_those_of_the_agent(shared: SmallHosting, name: str) -> None:
    path = Path(Settings(shared.environment).config_path)
    command = json.dumps([sys.executable, str(SMALL), "options"])
    path.write_text(f"{path.read_text()}\n[agents.modelled]\ncommand = {command}\n")
    words = ["agent", "--with", "modelled", "--name", name, "-p"]
    assert shared.run(*words, "--model", "modelled/quick", "hello").stdout.strip() == "hello"
    assert shared.found(name)["model"] == "modelled/quick"
    id = shared.found(name)["id"]
    found = shared.ask("get_available_models", session_id=id)["models"]
    assert [(each["provider"], each["id"], each["name"]) for each in found] == [
        ("modelled", "wise", "Wise"),
        ("modelled", "quick", "Quick"),
    ]
    assert "modelled/quick" in shared.run("agent", "--list-models").stdout
    done = shared.run(*words, "--model", "modelled/quickk", "hello", check=False)
    assert done.returncode == 1
    assert "modelled has no model 'quickk'; there are wise, quick" in done.stderr


def test_an_agent_is_tried(shared: SmallHosting) -> None:
    shared.run("ls")
    pipes = shared.directory / "run/fairlead/pipes"
    before = sorted(pipes.glob("*.sock"))
    done = shared.run("agents", "--check", "small")
    assert done.stdout.splitlines() == ["small works", "loads sessions", "modes: ask, bold"]
    found = json.loads(shared.run("agents", "--check", "small", "--json").stdout)
    assert (found["ok"], found["modes"]) == (True, ["ask", "bold"])
    path = Path(Settings(shared.environment).config_path)
    path.write_text(f"{path.read_text()}\n[agents.false]\ncommand = \"sh -c 'echo no key >&2; exit 3'\"\n")
    done = shared.run("agents", "--check", "false", check=False)
    assert (done.returncode, done.stdout) == (1, "false ended with exit code 3: no key\n")
    assert sorted(pipes.glob("*.sock")) == before
