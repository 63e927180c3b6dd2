"""`fairlead mcp` with a real daemon: its tools, what they reach, and questions to a person."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.keeper.credentials import AGENT_MARK
from fairlead.system.settings import Settings
from tests.hosting import WAIT, Hosting
from tests.mcp_client import McpClient, fault_of, given


@pytest.fixture(scope="module")
def daemon() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


@pytest.fixture
def lent(daemon: Hosting) -> Iterator[Hosting]:
    """The daemon of this module: these tests leave conversations and answers behind, which hurts none."""
    yield daemon
    daemon.end_sessions()
    daemon.until(lambda: not daemon.ask("approvals")["approvals"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "garden"
    place.mkdir()
    return place


def waiting(hosting: Hosting) -> list[dict[str, Any]]:
    """The questions that agents ask."""
    return [row for row in hosting.ask("approvals")["approvals"] if row["kind"] == "dialog"]


def asked(hosting: Hosting, count: int = 1) -> list[dict[str, Any]]:
    """Wait for questions."""
    hosting.until(lambda: len(waiting(hosting)) >= count)
    return waiting(hosting)


# --- sessions ---------------------------------------------------------------------------------------------


def test_a_terminal_session_is_started_prompted_waited_for_and_read(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        begun = agent.call("start_session", name="shell", command=["sh"])["session"]
        assert begun["kind"] == "terminal"
        assert begun["project"] == str(project)
        taken = agent.call("prompt_session", session="shell", text="echo $((6*7))")
        assert (taken["state"], taken["outcome"]) == ("ended", "done")
        assert taken["written"] <= taken["accepted"] <= taken["started"] <= taken["ended"]
        assert agent.call("wait_session", session="shell", text="42", timeout=20)["matched"]
        assert "42" in agent.call("read_session", session="shell", what="screen")["text"]
        agent.call("prompt_session", session="shell", text="exit 3")
        ended = agent.call("wait_session", session="shell", timeout=20)
        assert ended["matched"]
        assert ended["exit_code"] == 3
        assert [row["name"] for row in agent.call("list_sessions")["sessions"]] == ["shell"]


def test_a_program_that_an_agent_started_can_not_answer_for_a_person(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        asking = agent.begin_call("ask_person", question="may I?", options=["yes", "no"])
        [row] = asked(lent)
        agent.call("start_session", name="sly", command=["sh"])
        words = " ".join([*lent.command, "approvals", "answer", row["token"], "1"])
        agent.call("prompt_session", session="sly", text=f"{words}; echo over$?")
        agent.call("wait_session", session="sly", text="over1", timeout=20)
        assert "only a person may" in asked(lent)[0]["reason"]
        lent.run("approvals", "answer", row["token"], "no")
        assert given(agent.answer(asking))["option"] == 2


def test_a_prompt_to_an_agent_has_a_receipt(lent: Hosting, project: Path) -> None:
    (project / "notes.txt").write_text("roses\n")
    with McpClient(lent, project) as agent:
        begun = agent.call("start_session", name="roses", agent="own")["session"]
        taken = agent.call("prompt_session", session=begun["id"][:8], text="read notes.txt", timeout=20)
        assert (taken["state"], taken["outcome"]) == ("ended", "done")
        assert "roses" in agent.call("read_session", session="roses")["text"]
        again = agent.call("wait_session", session="roses", prompt_id=taken["prompt_id"])
        assert again == taken
        assert "no prompt" in agent.fault("wait_session", session="roses", prompt_id="auto-none")
        assert agent.call("read_reports", session="roses")["reports"] == []
        lent.ask("session_stop", name="roses")


def test_a_prompt_that_waits_for_another_is_queued_and_then_said(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        agent.call("start_session", name="slow", agent="own")
        first = agent.call("prompt_session", session="slow", text="run: touch x", wait=False)
        assert first["state"] == "started"
        lent.until(lambda: len(lent.ask("approvals")["approvals"]) == 1)
        second = agent.call("prompt_session", session="slow", text="list .", wait=False)
        assert (second["state"], second["place"]) == ("queued", 1)
        lent.run("approvals", "deny", "slow")
        ended = agent.call("wait_session", session="slow", prompt_id=second["prompt_id"], timeout=20)
        assert ended["outcome"] == "done"


def test_agents_see_that_a_turn_which_they_asked_for_is_no_persons(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        agent.call("start_session", name="mine", agent="own")
        assert agent.call("prompt_session", session="mine", text="list .")["prompt_id"].startswith("auto-")


# --- reach ------------------------------------------------------------------------------------------------


def test_sessions_of_other_projects_can_not_be_reached_in_any_way(
    lent: Hosting, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "garden2"  # its path begins as the project's does
    other.mkdir()
    id = lent.ask("open_session", name="secret", cwd=str(other))["session_id"]
    lent.ask("terminal_start", name="till", argv=["sh"], cwd=str(other))
    (project / "link").symlink_to(other)
    words = ("secret", "till", id, id[:8], f" {id}", "secret\0", "../garden2")
    with McpClient(lent, project) as agent:
        assert agent.call("list_sessions")["sessions"] == []
        for word in words:
            for tool in ("read_session", "prompt_session", "wait_session", "read_reports"):
                more = {"text": "x"} if tool == "prompt_session" else {}
                why = agent.fault(tool, session=word, **more)
                assert f"in {project}" in why, why
        for place in ("link", "..", "../garden2", str(other), "/"):
            why = agent.fault("start_session", name="new", command=["true"], directory=place)
            assert "or below it" in why
        assert "another session" in agent.fault("start_session", name="secret", agent="own")
    with McpClient(lent, tmp_path) as agent:
        assert {row["name"] for row in agent.call("list_sessions")["sessions"]} == {"secret", "till"}
        assert agent.call("read_session", session="till", what="screen")["state"] == "running"


def test_a_link_to_the_project_is_the_project(lent: Hosting, project: Path, tmp_path: Path) -> None:
    (tmp_path / "door").symlink_to(project)
    lent.ask("terminal_start", name="inside", argv=["sh"], cwd=str(tmp_path / "door"))
    with McpClient(lent, project) as agent:
        assert [row["name"] for row in agent.call("list_sessions")["sessions"]] == ["inside"]
    with McpClient(lent, tmp_path, "--project", "door") as agent:
        assert agent.call("list_sessions")["project"] == str(project)


def test_an_agent_session_does_not_reach_more_by_going_elsewhere(
    lent: Hosting, project: Path, tmp_path: Path
) -> None:
    own = lent.ask("open_session", name="walker", cwd=str(project))["session_id"]
    lent.ask("terminal_start", name="outside", argv=["sh"], cwd=str(tmp_path))
    with McpClient(lent, "/", env={AGENT_MARK: own}) as agent:
        assert agent.call("list_sessions")["project"] == str(project)
        assert "no session" in agent.fault("read_session", session="outside")
        assert "prompt itself" in agent.fault("prompt_session", session="walker", text="go on")
        assert "while you wait" in agent.fault("wait_session", session="walker")


def test_the_configuration_can_let_agents_reach_all(lent: Hosting, project: Path, tmp_path: Path) -> None:
    lent.ask("terminal_start", name="outside", argv=["sh"], cwd=str(tmp_path))
    config = Path(lent.environment["HOME"], ".config/fairlead/config.toml")
    with McpClient(lent, project, env={"FAIRLEAD_MCP_REACH": "all"}) as agent:
        assert agent.call("list_sessions")["sessions"] == []
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text('[mcp]\nreach = "all"\n')
        assert "outside" in [row["name"] for row in agent.call("list_sessions")["sessions"]]
        config.write_text('[mcp]\nreach = "some"\n')
        assert "reach must be" in lent.run("config", check=False).stderr
        config.unlink()


# --- questions --------------------------------------------------------------------------------------------


def test_a_person_answers_an_agents_question_in_their_own_words(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        text = "Which colour?\n\x1b[31mred\x1b[0m or \u202eblue"
        asking = agent.begin_call("ask_person", question=text, title="paint")
        [row] = asked(lent)
        shown = lent.run("approvals").stdout
        assert "Which colour?" in shown
        assert "<U+001B>[31mred" in shown
        assert "<U+202E>blue" in shown
        assert "\x1b" not in shown
        assert f'program "tester (MCP)" in {project}' in shown
        assert f"approvals answer {row['token']} TEXT" in shown
        done = lent.run("approvals", "answer", row["token"][:6], "the blue one")
        assert "answered" in done.stdout
        assert given(agent.answer(asking)) == {"answered": True, "answer": "the blue one"}
        assert waiting(lent) == []


@pytest.mark.parametrize(("said", "option"), [("2", 2), ("red", 1)])
def test_a_person_chooses_one_of_the_answers(lent: Hosting, project: Path, said: str, option: int) -> None:
    with McpClient(lent, project) as agent:
        asking = agent.begin_call("ask_person", question="Which?", options=["red", "blue"])
        [row] = asked(lent)
        refused = lent.run("approvals", "answer", row["token"], "green", check=False)
        assert '1 ("red"), 2 ("blue")' in refused.stderr
        for word in ("allow", "always"):
            assert "answers it" in lent.run("approvals", word, row["token"], check=False).stderr
        lent.run("approvals", "answer", row["token"], said)
        assert given(agent.answer(asking)) == {
            "answered": True,
            "answer": ["red", "blue"][option - 1],
            "option": option,
        }


def test_a_person_may_decline(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        asking = agent.begin_call("ask_person", question="Which?")
        lent.run("approvals", "deny", asked(lent)[0]["token"])
        assert "declined" in given(agent.answer(asking))["reason"]


def test_a_question_goes_with_its_call_or_its_client(lent: Hosting, project: Path) -> None:
    agent = McpClient(lent, project)
    cancelled = agent.begin_call("ask_person", question="first?")
    asked(lent)
    agent.notify("notifications/cancelled", requestId=cancelled, reason="enough")
    lent.until(lambda: not waiting(lent))
    assert (
        given(agent.answer(agent.begin_call("ask_person", question="second?", timeout=0.5)))["answered"]
        is False
    )
    assert waiting(lent) == []
    agent.begin_call("ask_person", question="third?")
    asked(lent)
    assert agent.close() == 0
    lent.until(lambda: not waiting(lent))


@pytest.mark.parametrize("ends", ["its input", "SIGTERM", "SIGINT"])
def test_a_question_is_withdrawn_at_once_when_its_server_is_ended(
    lent: Hosting, project: Path, ends: str
) -> None:
    agent = McpClient(lent, project)
    agent.begin_call("ask_person", question="still there?")
    [row] = asked(lent)
    if ends != "its input":
        agent.process.send_signal(getattr(signal, ends))
        assert agent.process.wait(WAIT) == 0
    assert agent.close() == 0
    kept = Path(Settings(lent.environment).state_dir, "asked", f"{row['token']}.json")
    lent.until(lambda: json.loads(kept.read_bytes())["answer"] is not None)
    # and not because nobody came back for a while
    assert json.loads(kept.read_bytes())["answer"]["by"] == "the agent no longer waits for an answer"


def test_an_agent_can_not_answer_its_own_question_nor_decline_it(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        asking = agent.begin_call("ask_person", question="may I?")
        [row] = asked(lent)
        as_agent = {**lent.environment, AGENT_MARK: "some-agent"}
        was, lent.environment = lent.environment, as_agent
        try:
            for words in (("answer", row["token"], "yes"), ("deny", row["token"]), ("dismiss", row["token"])):
                assert lent.run("approvals", *words, check=False).returncode == 1
        finally:
            lent.environment = was
        assert [each["token"] for each in waiting(lent)] == [row["token"]]
        lent.run("approvals", "answer", row["token"], "no")
        assert given(agent.answer(asking))["answer"] == "no"


def test_one_agent_can_not_lock_out_others_with_questions(
    lent: Hosting, project: Path, tmp_path: Path
) -> None:
    with McpClient(lent, project) as many, McpClient(lent, tmp_path) as other:
        for number in range(40):
            many.begin_call("ask_person", question=f"{number}?")
        refused = [fault_of(answer) for answer in many.answers(35).values()]
        assert all("5 questions" in each for each in refused)
        asking = other.begin_call("ask_person", question="and I?")
        rows = asked(lent, 6)
        lent.run("approvals", "answer", rows[-1]["token"], "you too")
        assert given(other.answer(asking))["answer"] == "you too"
        for row in rows[:-1]:
            lent.ask("approval_settle", token=row["token"], allowed=False)


@pytest.mark.parametrize("is_repository", [True, False])
def test_projects_within_one_are_counted_as_one(lent: Hosting, project: Path, is_repository: bool) -> None:
    if is_repository:
        (project / ".git").mkdir()
    else:
        id = lent.ask("open_session", cwd=str(project))["session_id"]
        lent.ask("set_session_name", session_id=id, name="gardener")
    places = [project / "roses", project / "tulips"]
    for place in places:
        place.mkdir()
    with McpClient(lent, places[0]) as one, McpClient(lent, project, "--project", str(places[1])) as other:
        for number in range(5):
            one.begin_call("ask_person", question=f"{number}?")
        asked(lent, 5)
        assert f"5 questions of {project} wait" in other.fault("ask_person", question="and I?", timeout=20)
        for row in waiting(lent):
            lent.ask("approval_settle", token=row["token"], allowed=False)


# --- bad input --------------------------------------------------------------------------------------------


def test_bad_calls_get_errors_and_the_server_serves_on(lent: Hosting, project: Path) -> None:
    with McpClient(lent, project) as agent:
        assert "no tool" in agent.ask("tools/call", name="answer_question", arguments={})["error"]["message"]
        for arguments, says in (
            ({"session": 5}, "Expected `str`"),
            ({}, "missing required field"),
            ({"session": "x", "answer": True}, "unknown field"),
            ({"session": "x" * 1000}, "length <= 200"),
            ({"session": "x", "lines": -1}, ">= 1"),
        ):
            assert says in agent.fault("read_session", **arguments)
        assert "Expected `object`" in fault_of(agent.ask("tools/call", name="list_sessions", arguments=[1]))
        for more in ({"sandbox": False}, {"mode": "bypassPermissions"}, {"env": {"FAIRLEAD_AGENT": ""}}):
            assert "wrong arguments" in agent.fault("start_session", name="a", agent="claude", **more)
        assert "a command for" in agent.fault("start_session", name="a")
        agent.raw(b"\xff\xfe\n[]\nnull\n" + b"x" * 5_000_000 + b"\n")
        assert agent.ask("ping")["result"] == {}
        assert any("bytes" in each["error"]["message"] for each in agent.told)


def test_what_is_piped_in_is_answered_before_the_end(lent: Hosting, project: Path) -> None:
    requests = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}},
        {"id": 2, "method": "tools/call", "params": {"name": "list_sessions"}},
    ]
    lines = "\n".join(json.dumps({"jsonrpc": "2.0", **each}) for each in requests)
    done = lent.run("mcp", "--project", str(project), input=lines)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["protocolVersion"] == "2024-11-05"
    assert json.loads(second["result"]["content"][0]["text"]) == {"project": str(project), "sessions": []}


# --- the daemon's death -----------------------------------------------------------------------------------


@pytest.fixture
def hosted() -> Any:
    hosting = Hosting()
    yield hosting
    hosting.close()


def test_a_question_outlives_the_daemon_and_is_asked_once(hosted: Hosting, tmp_path: Path) -> None:
    with McpClient(hosted, tmp_path) as agent:
        asking = agent.begin_call("ask_person", question="still there?", options=["yes"])
        [row] = asked(hosted)
        hosted.kill_daemon()
        assert [each["token"] for each in asked(hosted)] == [row["token"]]
        os.kill(agent.process.pid, signal.SIGSTOP)  # it is not connected when the answer comes
        hosted.kill_daemon()
        hosted.run("approvals", "answer", row["token"], "1")
        os.kill(agent.process.pid, signal.SIGCONT)
        assert given(agent.answer(asking))["answer"] == "yes"
        assert waiting(hosted) == []


def test_a_prompt_is_said_once_although_the_daemon_dies(hosted: Hosting, tmp_path: Path) -> None:
    with McpClient(hosted, tmp_path) as agent:
        agent.call("start_session", name="once", agent="own")
        asking = agent.begin_call("prompt_session", session="once", text="run: touch made")
        hosted.until(lambda: len(hosted.ask("approvals")["approvals"]) == 1)
        hosted.kill_daemon()
        hosted.run("approvals", "allow", "once")
        taken = given(agent.answer(asking))
        assert (taken["state"], taken["outcome"]) == ("ended", "done")
        said = hosted.run("logs", "once").stdout.count("> run: touch made")
        assert said == 1


def test_the_same_prompt_asked_again_is_not_said_again(lent: Hosting, project: Path) -> None:
    lent.ask("open_session", name="twice", cwd=str(project))
    given: dict[str, Any] = {"name": "twice", "text": "list .", "prompt_id": "0123abcd"}
    assert lent.ask("session_prompt", **given)["prompt_id"] == "0123abcd"
    assert lent.ask("session_wait", name="twice", timeout=20)["matched"]
    assert lent.ask("session_prompt", **given)["prompt_id"] == "0123abcd"
    receipt = lent.ask("prompt_receipt", name="twice", prompt_id="0123abcd")
    assert (receipt["state"], receipt["outcome"]) == ("ended", "done")
    assert lent.run("logs", "twice").stdout.count("> list .") == 1
    lent.ask("terminal_start", name="shell", argv=["sh"], cwd=str(project))
    given |= {"name": "shell", "text": "echo $((6*7))", "timeout": 20.0}
    for _ in range(2):
        assert lent.ask("session_prompt", **given)["prompt_id"] == "0123abcd"
        receipt = lent.ask("prompt_receipt", name="shell", prompt_id="0123abcd", timeout=20)
        assert receipt["outcome"] == "done"
    assert lent.screen("shell").split().count("42") == 1
