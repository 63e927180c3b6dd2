"""Sessions with real third-party agents, through a real daemon; their model is on loopback.

All tests with an agent share a daemon, and each has a session of its own. What differs between the agents is
in the table of `tests/hosted/real.py`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.client.calls import RequestError
from fairlead.wire import rpc
from tests import peers
from tests.cli.verifying import verifying
from tests.hosted.real import REAL, RealHosting
from tests.hosting import is_alive
from tests.model_server import CallTool, Halt, ModelServer, Says, Shell, failure

pytestmark = pytest.mark.peers

MCP_SERVER = Path(__file__).parent / "mcp_server.py"
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
    assert stats["usage"]["output_tokens"] >= 20


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
    image = rpc.fields(mime_type="image/png", data=picture())
    real.ask("prompt", session_id=id, message="this picture", images=[image])
    real.wait_idle("image")
    assert own_words(real, "image")[-1] == "It is red."
    assert sum(message.images for message in real.said_by("picture")[0].messages) == 1


def test_a_slash_command_of_the_agent_is_run_by_it(real: RealHosting) -> None:
    if real.real.command_file is None:
        pytest.skip(f"{real.agent} has no slash commands of a project over ACP")
    id = real.open("slash")
    real.say("greet", "slash")
    real.wait_idle("slash")
    assert "/hail" in [each["name"] for each in real.ask("get_commands", session_id=id)["commands"]]
    real.say("/hail everybody", "slash")
    real.wait_idle("slash")
    assert own_words(real, "slash")[-2:] == ["> /hail everybody", "Good morning to you."]
    assert "Please greet everybody" in str(real.said_by("greet")[-1].messages)


def test_an_mcp_server_is_passed_on(real: RealHosting) -> None:
    real.model.script["garden"] = [Says("I dig.", CallTool("plant", {"what": "roses"})), Says("They grow.")]
    server = {"name": "garden", "command": sys.executable, "args": [str(MCP_SERVER)]}
    real.open("mcp", mcp_servers=[server])
    real.say("a garden", "mcp")
    real.allow_all("mcp")
    assert own_words(real, "mcp") == ["> a garden", "I dig.", "call", "=", "They grow."]
    assert "planted roses" in str(real.messages("mcp"))
    assert "planted roses" in str(real.model.requests)  # the last one may be for a title


def test_an_agent_that_is_killed_resumes_and_asks_again(real: RealHosting) -> None:
    runs(real, "perilous", "echo hi >> killed.txt")
    real.open("killed")
    real.say("greet", "killed")
    real.wait_idle("killed")
    real.say("perilous", "killed")
    token = real.question("killed")["token"]
    for pid in real.agent_pids("killed"):
        with contextlib.suppress(ProcessLookupError):  # it ended with its parent
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
    if real.real.resumes:
        assert "Good morning to you." in [each.text for each in real.said_by("again")[0].messages]
    real.run("approvals", "allow", real.question("killed")["token"])
    real.wait_idle("killed")
    assert (real.project / "killed.txt").read_text() == "hi\n"


def test_what_an_agent_that_was_killed_repeats_belongs_to_no_turn(real: RealHosting) -> None:
    runs(real, "before", "echo hi >> before.txt")
    real.open("repeats")
    for word in ("greet", "before", "greet"):
        real.say(word, "repeats")
        real.allow_all("repeats")
    for pid in real.agent_pids("repeats"):
        with contextlib.suppress(ProcessLookupError):  # it ended with its parent
            os.kill(pid, signal.SIGKILL)
    real.until(lambda: real.found("repeats")["agent_pid"] is None)
    for _ in range(2):
        said = own_words(real, "repeats")
        real.say("greet", "repeats")
        real.wait_idle("repeats")
        assert own_words(real, "repeats") == [*said, "> greet", "Good morning to you."]


def test_stopping_a_session_ends_its_agent_and_the_next_prompt_resumes_it(real: RealHosting) -> None:
    real.open("stopped")
    real.say("greet", "stopped")
    real.wait_idle("stopped")
    pids = real.agent_pids("stopped")
    assert pids
    real.run("stop", "stopped")
    real.until(lambda: not any(map(is_alive, pids)))
    if not real.real.resumes:
        return
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


def run(real: RealHosting, *words: str) -> subprocess.CompletedProcess[str]:
    """`fairlead run --with AGENT WORDS…`, in the project."""
    return subprocess.run(
        [*real.command, "run", "--with", real.agent, *words],
        env=real.environment,
        cwd=real.project,
        capture_output=True,
        text=True,
        timeout=real.patience,
        check=False,
    )


def test_work_that_fails_its_check_is_sent_back_until_it_holds(real: RealHosting) -> None:
    runs(real, "building", "echo wrong > result.txt")
    runs(real, "mending", "echo right > result.txt")
    check = "grep right result.txt || { echo this needs mending; exit 1; }"
    done = run(real, "--name", "builder", "--yes", "--verify", check, "building")
    assert done.returncode == 0, done.stderr
    assert (real.project / "result.txt").read_text() == "right\n"
    reports = json.loads(real.run("reports", "builder", "--json").stdout)
    assert [each["confidence"] for each in reports] == ["verified", "feedback"]
    users = [each for each in real.messages("builder") if each["role"] == "user"]
    assert [each.get("origin") for each in users] == [None, "correction"]
    done = run(real, "--name", "builder", "--yes", "--verify", "echo this needs mending; exit 1", "building")
    assert done.returncode == 1  # it was sent back once, which is all that is allowed here


def test_calls_that_nobody_could_be_asked_about_are_told_by_an_exit_code(real: RealHosting) -> None:
    runs(real, "unasked", "echo hi > unasked.txt")
    done = run(real, "--verify", "test ! -e unasked.txt", "unasked")
    assert done.returncode == (1 if real.real.after_denial == ("[aborted]",) else 3), done.stderr
    assert not (real.project / "unasked.txt").exists()


def test_a_verifier_beside_the_session_sends_it_back_and_reports(real: RealHosting) -> None:
    runs(real, "raising", "echo wrong > raised.txt")
    runs(real, "lifting", "echo right > raised.txt")
    check = "grep right raised.txt || { echo this needs lifting; exit 1; }"
    real.open("verified")
    with verifying(real, real.project, "verified", "--", "sh", "-c", check):
        real.say("raising", "verified")

        def is_green() -> bool:
            real.allow_all("verified")
            verdict = real.found("verified").get("verdict") or {}
            return bool(verdict.get("confidence") == "verified")

        real.until(is_green)
    assert (real.project / "raised.txt").read_text() == "right\n"


def test_pis_verifier_sees_a_turn_and_its_correction_is_done(real: RealHosting) -> None:
    real.model.script["mend it"] = [Says("It is mended.")]
    id = real.open("pi")
    path = real.ask("verify_target", name="pi")["socket"]
    with socket.socket(socket.AF_UNIX) as verifier:
        verifier.settimeout(real.patience)
        verifier.connect(path)
        lines = verifier.makefile("rb")

        def send(type: str, **fields: object) -> None:
            verifier.sendall(json.dumps({"type": type, "sessionId": id, **fields}).encode() + b"\n")

        def stopped() -> dict[str, object]:
            for line in lines:
                envelope: dict[str, object] = json.loads(line)
                if envelope.get("name") == "stop":
                    return envelope
            raise AssertionError("the session closed the connection")

        send("hello", role="verifier", pid=os.getpid())
        real.say("greet", "pi")
        assert stopped()["outcome"] == "done"
        send("prompt", message="mend it", correlationId="c1")
        stop = stopped()
        assert own_words(real, "pi")[-1] == "It is mended."
        send(
            "report",
            turnIndex=stop["turnIndex"],
            status="verified",
            summary="looked",
            sections={},
            raw="## Report",
        )
        real.until(lambda: "verdict" in real.found("pi"))


def test_every_line_is_handled_once_however_often_the_daemon_is_killed(real: RealHosting) -> None:
    rng, kills = random.Random(real.agent), real.real.kills
    halts = [Halt() for _ in range(kills)]
    for number, halt in enumerate(halts):
        if number % 2 == 0:
            runs(real, f"asks{number:02}", f"echo {number} >> kills.txt")
        else:
            real.model.script[f"says{number:02}"] = [Says("I say a lot, and more.", halt=halt)]
    real.open("kills")
    real.say("greet", "kills")
    real.wait_idle("kills")
    expected = ["> greet", "Good morning to you."]
    for number, halt in enumerate(halts):
        if number % 2 == 0:
            real.say(f"asks{number:02}", "kills")
            token = real.question("kills")["token"] if rng.random() < 0.5 else ""
            time.sleep(rng.random() * 0.2)
            real.kill_daemon()
            assert real.question("kills")["token"] == (token or real.question("kills")["token"])
            real.ask("approval_settle", token=real.question("kills")["token"], allowed=True)
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.1)
                real.kill_daemon()
            expected += [f"> asks{number:02}", "I begin.", "call", "=", "Finished."]
        else:
            real.say(f"says{number:02}", "kills")
            assert halt.reached.wait(real.patience)
            time.sleep(rng.random() * 0.1)
            real.kill_daemon()
            halt.opened.set()
            expected += [f"> says{number:02}", "I say a lot, and more."]
        real.wait_idle("kills")
    assert own_words(real, "kills") == expected
    asked = [str(number) for number in range(0, kills, 2)]
    assert (real.project / "kills.txt").read_text().split() == asked
    entries = Counter(each.get("customType") for each in real.entries("kills"))
    assert entries["fairlead/approval"] == entries["fairlead/approval-settled"] == len(asked)
    runs_begun = [each for each in real.entries("kills") if "run" in (each.get("data") or {})]
    assert len(runs_begun) == 1  # it is still the same process
    for number in range(kills):
        word, steps = (f"asks{number:02}", [0, 1]) if number % 2 == 0 else (f"says{number:02}", [0])
        assert [each.step for each in real.said_by(word)] == steps
