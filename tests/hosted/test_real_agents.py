"""Sessions with real agents of other makers, through a real daemon; their model is on loopback.

All tests with an agent share a daemon, and each has a session of its own. What differs between the agents is
in the table of `tests/hosted/real.py`.
"""

from __future__ import annotations

import base64
import os
import signal
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.client.calls import RequestError
from tests import peers
from tests.hosted.real import REAL, RealHosting
from tests.hosting import is_alive
from tests.model_server import Halt, ModelServer, Says, Shell, failure

pytestmark = pytest.mark.peers

AGENTS = [pytest.param(name, marks=pytest.mark.xdist_group(f"real-{name}")) for name in REAL]


@pytest.fixture(scope="module", params=AGENTS)
def real(request: pytest.FixtureRequest) -> Iterator[RealHosting]:
    """A daemon for all tests with an agent."""
    with ModelServer({"greet": [Says("Good morning to you.")]}) as model:
        hosting = RealHosting(request.param, model)
        yield hosting
        hosting.close()


def runs(real: RealHosting, word: str, command: str) -> None:
    """Have the model run a command when it is told the word."""
    real.model.script[word] = [Says("I begin.", Shell(command)), Says("Finished.")]


def own_words(real: RealHosting, name: str) -> list[str]:
    """What a session has said after the prompt, without what Codex warns of, each call as `call`."""
    ids = {each["toolCallId"] for each in real.messages(name) if each["role"] == "toolResult"}
    found = []
    for line in real.told(name):
        if line[:2] in ("= ", "! "):
            line = line[0]
        elif line.partition(": ")[0] in ids:
            line = "call"
        found.append(line.rpartition("cause issues.\n\n")[2])
    return found


def test_a_prompt_is_answered(real: RealHosting) -> None:
    real.open("text")
    real.say("please greet", "text")
    real.wait_idle("text")
    assert own_words(real, "text") == ["> please greet", "Good morning to you."]
    found = real.found("text")
    assert (found["outcome"], found["mode"]) == ("done", real.real.asking)
    commands = real.ask("get_commands", session_id=found["id"])["commands"]
    assert {"/init", "/review"} & {each["name"] for each in commands}
    assert "Good morning to you." in real.run("logs", "text").stdout
    done = real.run("agent", "--with", real.agent, "-p", "--name", "text", "greet")
    assert done.stdout.endswith("Good morning to you.\n")
    assert len(real.said_by("greet")[-1].messages) > len(real.said_by("greet")[0].messages)


def test_a_permission_is_asked_with_the_agents_options_and_allowed(real: RealHosting) -> None:
    runs(real, "allowance", "echo hi >> allowed.txt")
    real.open("allow")
    real.say("allowance", "allow")
    question = real.question("allow")
    assert (question["kind"], question["title"]) == ("permission", "execute")
    assert "echo hi >> allowed.txt" in question["summary"]
    assert question["options"][:2] == ["allow", "always"]
    assert "deny" in question["options"]
    assert real.found("allow")["state"] == "asks"
    assert not (real.project / "allowed.txt").exists()
    real.run("approvals", "allow", question["token"])
    real.wait_idle("allow")
    assert own_words(real, "allow") == ["> allowance", "I begin.", "call", "=", "Finished."]
    assert (real.project / "allowed.txt").read_text() == "hi\n"
    assert [each.step for each in real.said_by("allowance")] == [0, 1]
    stats = real.ask("get_session_stats", session_id=real.found("allow")["id"])["stats"]
    assert (stats["tool_calls"], stats["tool_results"]) == (1, 1)


def test_a_denied_permission_is_not_done(real: RealHosting) -> None:
    runs(real, "forbidden", "echo hi >> denied.txt")
    real.open("deny")
    real.say("forbidden", "deny")
    real.run("approvals", "deny", real.question("deny")["token"])
    real.wait_idle("deny")
    told = own_words(real, "deny")
    assert told[:4] == ["> forbidden", "I begin.", "call", "!"]
    assert [*told[4:], ""][: len(real.real.after_denial)] == list(real.real.after_denial)
    assert not (real.project / "denied.txt").exists()


def test_a_cancelled_turn_withdraws_its_permission_and_the_next_one_works(real: RealHosting) -> None:
    runs(real, "abandoned", "echo hi >> cancelled.txt")
    id = real.open("cancel")
    real.say("abandoned", "cancel")
    token = real.question("cancel")["token"]
    real.ask("abort", session_id=id)
    real.wait_idle("cancel")
    assert real.ask("approvals")["approvals"] == []
    with pytest.raises(RequestError):
        real.ask("approval_settle", token=token, allowed=True)
    assert own_words(real, "cancel") == ["> abandoned", "I begin.", "call", "!", "[aborted]"]
    real.say("greet", "cancel")
    real.wait_idle("cancel")
    assert own_words(real, "cancel")[-2:] == ["> greet", "Good morning to you."]
    assert not (real.project / "cancelled.txt").exists()


def test_of_two_clients_the_first_answer_counts(real: RealHosting) -> None:
    runs(real, "contested", "echo hi >> contested.txt")
    real.open("two")
    real.say("contested", "two")
    token = real.question("two")["token"]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(real.run, "approvals", word, token, check=False) for word in ("allow", "deny")]
        codes = [each.result().returncode for each in answers]
    assert sorted(codes) == [0, 1]
    real.wait_idle("two")
    is_allowed = codes[0] == 0
    assert (real.project / "contested.txt").exists() == is_allowed
    assert own_words(real, "two")[3] == ("=" if is_allowed else "!")
    settled = [each for each in real.entries("two") if each.get("customType") == "fairlead/approval-settled"]
    assert len(settled) == 1


def test_an_answer_that_streams_can_be_interrupted(real: RealHosting) -> None:
    halt = Halt()
    real.model.script["endless"] = [Says("It takes some time.", halt=halt)]
    id = real.open("halted")
    real.say("endless", "halted")
    assert halt.reached.wait(real.patience)
    real.ask("abort", session_id=id)
    real.wait_idle("halted")
    assert "[aborted]" in own_words(real, "halted")
    halt.opened.set()
    real.say("greet", "halted")
    real.wait_idle("halted")
    assert own_words(real, "halted")[-1] == "Good morning to you."


def test_a_model_that_refuses_is_told(real: RealHosting) -> None:
    real.model.script["refused"] = [Says(error=failure(400, "this is not to be had"))]
    real.open("refused")
    real.say("refused", "refused")
    real.wait_idle("refused")
    last = real.messages("refused")[-1]
    assert "this is not to be had" in (last["errorMessage"] or own_words(real, "refused")[-1])


def test_the_mode_can_be_changed(real: RealHosting) -> None:
    id = real.open("modes")
    real.say("greet", "modes")
    real.wait_idle("modes")
    other = real.real.other_mode
    answer = real.ask("set_mode", session_id=id, mode=other)
    assert answer["mode"] == other
    assert {other, real.real.asking} <= set(answer["modes"])
    real.say("greet", "modes")
    real.wait_idle("modes")
    assert real.found("modes")["mode"] == other
    with pytest.raises(RequestError, match="has no mode 'wild'; there are "):
        real.ask("set_mode", session_id=id, mode="wild")


def test_the_model_can_be_changed(real: RealHosting) -> None:
    id = real.open("models")
    real.say("greet", "models")
    real.wait_idle("models")
    chosen = real.real.other_model
    real.ask("set_model", session_id=id, provider=real.agent, model_id=chosen)
    real.say("greet", "models")
    real.wait_idle("models")
    assert real.found("models")["model"] == f"{real.agent}/{chosen}"
    assert real.real.asked_model in real.said_by("greet")[-1].model
    with pytest.raises(RequestError, match="no model 'wild'; there are "):
        real.ask("set_model", session_id=id, provider=real.agent, model_id="wild")


def picture() -> str:
    """A red square as PNG, in base64."""
    rows = b"".join(b"\0" + b"\xff\0\0" * 32 for _ in range(32))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def test_an_image_reaches_the_model(real: RealHosting) -> None:
    real.model.script["picture"] = [Says("It is red.")]
    id = real.open("image")
    image = {"mime_type": "image/png", "data": picture()}
    real.ask("prompt", session_id=id, message="this picture", images=[image])
    real.wait_idle("image")
    assert own_words(real, "image")[-1] == "It is red."
    assert sum(message.images for message in real.said_by("picture")[0].messages) == 1


def test_an_agent_that_is_killed_resumes_and_asks_again(real: RealHosting) -> None:
    runs(real, "perilous", "echo hi >> killed.txt")
    real.open("killed")
    real.say("greet", "killed")
    real.wait_idle("killed")
    real.say("perilous", "killed")
    token = real.question("killed")["token"]
    for pid in real.agent_pids("killed"):
        os.kill(pid, signal.SIGKILL)
    real.wait_idle("killed")
    assert real.ask("approvals")["approvals"] == []
    assert own_words(real, "killed")[-2:] == ["!", "[error]"]
    with pytest.raises(RequestError):
        real.ask("approval_settle", token=token, allowed=True)
    runs(real, "again", "echo hi >> killed.txt")
    real.say("again", "killed")
    assert real.question("killed")["token"] != token
    assert not (real.project / "killed.txt").exists()
    assert "Good morning to you." in [each.text for each in real.said_by("again")[0].messages]
    real.run("approvals", "allow", real.question("killed")["token"])
    real.wait_idle("killed")
    assert (real.project / "killed.txt").read_text() == "hi\n"


def test_stopping_a_session_ends_its_agent_and_the_next_prompt_resumes_it(real: RealHosting) -> None:
    real.open("stopped")
    real.say("greet", "stopped")
    real.wait_idle("stopped")
    pids = real.agent_pids("stopped")
    assert pids
    real.run("stop", "stopped")
    real.until(lambda: not any(map(is_alive, pids)))
    real.model.script["recall"] = [Says("I do.")]
    real.say("recall", "stopped")
    real.wait_idle("stopped")
    assert own_words(real, "stopped")[-1] == "I do."
    assert "Good morning to you." in [each.text for each in real.said_by("recall")[0].messages]


def test_in_a_sandbox_it_writes_to_its_project_and_nowhere_else(real: RealHosting) -> None:
    peers.require("bwrap")
    outside = Path(real.environment["HOME"], "outside.txt")
    runs(real, "sandbox", f"echo hi > inside.txt; echo hi > {outside}; test -e {outside} || echo kept in")
    real.open("sandbox", sandbox=True)
    assert real.found("sandbox")["sandbox"] is True
    real.say("sandbox", "sandbox")
    real.run("approvals", "allow", real.question("sandbox")["token"])
    real.wait_idle("sandbox")
    assert (real.project / "inside.txt").read_text() == "hi\n"
    assert not outside.exists()
    assert "kept in" in str(real.messages("sandbox"))
