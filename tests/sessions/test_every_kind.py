"""What every kind of sessions does through every door: terminals, our own agent, third-party agents, and
a kind that exists only here.

The last one needs no change in any door or command; what a kind can't do is answered with what to use
instead.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlead.client.connection import RequestError
from fairlead.client.sdk import Host, connect
from fairlead.events import PromptEnded, PromptStarted, SessionEvent, SessionSaid, SessionTurnEnded
from fairlead.formats.sexp import Keyword
from fairlead.system.settings import Settings
from fairlead.wire import keepty
from fairlead.wire.passepartout import event, plist
from tests.client.persons import Person
from tests.doors.passepartout_peer import Peer, is_said, port_of
from tests.hosted.small import SMALL
from tests.hosting import WAIT, Hosting
from tests.sessions.echo_daemon import FIRST, EchoHosting

CHECK = "grep -q right answer.txt"
CONFIG = """
[agent]
rules = [{tool = "write", then = "allow"}, {tool = "bash", match = "sleep 600", then = "allow"}]
[agents.small]
command = [PYTHON, SCRIPT]
env = { SMALL_AGENT_SAYS = "you said: " }
""".replace("PYTHON", json.dumps(sys.executable)).replace("SCRIPT", json.dumps(str(SMALL)))
NUMBERS = itertools.count(1)
PROGRAM = str(Path(__file__).parent / "terminal_agent.py")
RULES = """
agent = "other"
version = 1
programs = ["/terminal_agent.py"]
rows.prompt = "^> ?"

[[rule]]
name = "input"
state = "idle"
shape = "<=prompt>"
"""


class Case(NamedTuple):
    """A kind, how a session of it is made, and what to say to one so that it does something."""

    kind: str
    make: Callable[[Hosting, str, str], object]
    work: str
    """Write a word into answer.txt."""
    hang: str
    """Work until somebody ends that."""
    answers: str = ""
    """What an answer to anything else has in it, if answers can be told from what else is printed."""
    ask: str = ""
    """Ask a person, if sessions of this kind do."""
    allowed: str = ""
    """What is said after a person allowed that."""

    def __str__(self) -> str:
        return self.kind


def start(hosting: Hosting, name: str, project: str) -> None:
    hosting.run("start", name, "-d", "--cwd", project, "--", sys.executable, PROGRAM)
    hosting.wait_text(name, "ready")


def open_agent(hosting: Hosting, name: str, project: str) -> None:
    hosting.ask("open_session", name=name, cwd=project)


def open_hosted(hosting: Hosting, name: str, project: str) -> None:
    hosting.ask("open_session", name=name, cwd=project, agent="small")


def new_echo(hosting: Hosting, name: str, project: str) -> None:
    hosting.run("send", FIRST, f"new {name} {project}")
    hosting.run("wait", FIRST, "--exit")


CASES = (
    Case("terminal", start, "work {}", "hang"),
    Case(
        "agent",
        open_agent,
        "write answer.txt: {}",
        "run: sleep 600",
        "I am the offline guide",
        "run: echo roses",
        "[bash] roses",
    ),
    Case("hosted", open_hosted, "work {}", "hang", "you said", "roses", "yes-once"),
    Case("echo", new_echo, "work {}", "hang", "you said", "ask for roses", "for roses: allowed"),
)
ASKING = tuple(case for case in CASES if case.ask)
ANSWERING = tuple(case for case in CASES if case.answers)
WITHOUT_SCREEN = tuple(case for case in CASES if case.kind != "terminal")
every_kind = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = EchoHosting({"FAIRLEAD_VERIFIER_MAX_LOOPS": "1"}, CONFIG)
    rules = Path(Settings(hosting.environment).config_path).parent / "rules"
    rules.mkdir()
    (rules / "other.toml").write_text(RULES)
    hosting.use()
    yield hosting
    hosting.close()


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    with connect(Settings(hosting.environment)) as host:
        yield host


@pytest.fixture
def lisp(hosting: Hosting) -> Iterator[Peer]:
    with Peer(port_of(hosting)) as peer:
        yield peer


@pytest.fixture
def name(hosting: Hosting, case: Case, tmp_path: Path) -> str:
    """A session of its own for each test, which works in `tmp_path`."""
    name = f"{case.kind}-{next(NUMBERS)}"
    case.make(hosting, name, str(tmp_path))
    return name


def row(hosting: Hosting, name: str) -> dict[str, Any]:
    """A session as it is listed."""
    found: dict[str, Any] = hosting.ask("session_find", name=name)["session"]
    return found


def lines(hosting: Hosting, name: str) -> str:
    return "\n".join(hosting.ask("session_lines", name=name)["lines"])


def until_said(hosting: Hosting, name: str, text: str) -> None:
    hosting.until(lambda: text in lines(hosting, name))


def send(hosting: Hosting, name: str, text: str) -> None:
    hosting.run("send", name, text, "-k", "Enter")


def worked(hosting: Hosting, case: Case, name: str, word: str) -> None:
    """Have a session write a word, and wait until it has."""
    answer = Path(row(hosting, name)["project"], "answer.txt")
    send(hosting, name, case.work.format(word))
    hosting.until(lambda: answer.exists() and word in answer.read_text())


@every_kind
def test_logs_follow_it_while_it_works(hosting: Hosting, case: Case, name: str) -> None:
    command = [sys.executable, "-m", "fairlead", "logs", "-f", name]
    with subprocess.Popen(command, env=hosting.environment, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        try:
            for word in ("first", "second"):
                send(hosting, name, case.work.format(word))
                assert any(word in line for line in iter(client.stdout.readline, ""))
        finally:
            client.kill()


# --- listed -----------------------------------------------------------------------------------------------


@every_kind
def test_it_is_listed_and_found_everywhere(
    hosting: Hosting, host: Host, lisp: Peer, case: Case, name: str, tmp_path: Path
) -> None:
    (listed,) = json.loads(hosting.run("ls", "--json", name).stdout)
    assert (listed["name"], listed["kind"], listed["project"]) == (name, case.kind, str(tmp_path))
    assert name in hosting.run("ls", "-q").stdout.split()
    for kind in (each.kind for each in CASES):
        assert (name in hosting.run("ls", "-q", "--kind", kind).stdout.split()) == (kind == case.kind)
    (line,) = (line for line in hosting.run("ls").stdout.splitlines() if line.startswith(f"{name} "))
    _, state, *more = line.split()
    (later,) = json.loads(hosting.run("ls", "--json", name).stdout)  # what it does may become known meanwhile
    told = {word for each in (listed, later) for word in (each["state"], each["activity"]["state"])}
    assert state in {*told, "done", "reads"}
    assert case.kind in more[:2]
    assert any(each["id"] == listed["id"] for each in hosting.ask("session_list")["sessions"])
    assert row(hosting, name)["id"] == listed["id"]
    assert row(hosting, listed["id"])["name"] == name
    if listed["id"] != name:
        assert row(hosting, listed["id"][:13])["name"] == name
    assert name in [each["name"] for each in host.sessions()]
    assert host.session(name).id == listed["id"]
    assert name in hosting.run("complete", "--", "stop", name[:-1]).stdout
    assert f"{case.kind} {name}: " in lisp.ask("/status")


def test_an_unknown_kind_is_refused_with_those_that_there_are(hosting: Hosting) -> None:
    done = hosting.run("ls", "--kind", "tree", check=False)
    assert done.returncode == 2
    assert "no sessions of kind 'tree'; there are terminal, agent, hosted, echo" in done.stderr


@every_kind
def test_its_name_is_refused_to_every_other_kind(
    hosting: Hosting, case: Case, name: str, tmp_path: Path
) -> None:
    article = "an" if case.kind[0] in "aeiou" else "a"
    taken = f"{article} {case.kind} session is already called '{name}'; choose another name"
    if row(hosting, name)["can"]:
        taken += f", or `fairlead attach {name}`"
    if case.kind != "terminal":
        assert taken in hosting.run("start", name, "-d", "--", "true", check=False).stderr
    if "chat" not in row(hosting, name)["can"]:
        assert taken in hosting.run("agent", "--name", name, "-p", "hi", check=False).stderr
    if case.kind != "echo":
        with connect(Settings(hosting.environment)) as host, host.events("sessions/failed") as failures:
            hosting.run("send", FIRST, f"new {name} {tmp_path}")
            assert failures.next(timeout=WAIT).data["reason"] == taken
    assert row(hosting, name)["kind"] == case.kind


# --- prompted ---------------------------------------------------------------------------------------------


@every_kind
def test_it_is_prompted_from_every_door_and_what_is_said_is_read_searched_and_waited_for(
    hosting: Hosting, host: Host, lisp: Peer, case: Case, name: str
) -> None:
    send(hosting, name, "hello from a shell")
    until_said(hosting, name, "hello from a shell")
    hosting.ask("session_prompt", name=name, text="hello from an editor", timeout=WAIT)
    until_said(hosting, name, "hello from an editor")
    prompt = host.session(name).prompt("hello from a script", timeout=WAIT)
    until_said(hosting, name, "hello from a script")
    if case.kind != "echo":
        receipt = host.session(name).receipt(prompt, timeout=WAIT)
        times = [receipt[stage] for stage in ("written", "accepted", "started", "ended")]
        assert (receipt["outcome"], times) == ("done", sorted(times))
    if case.answers:
        assert case.answers in lisp.ask("hello from Lisp", name)
    else:  # only what the gates for commands have let through is typed
        instead = f"not supported by {case.kind} sessions; /send {name} TEXT types into it"
        assert instead in lisp.ask("hello from Lisp", name)
        assert lisp.ask(f"/send {name} hello from Lisp") == f"typed into {name}"
    until_said(hosting, name, "hello from Lisp")
    logs = hosting.run("logs", name).stdout
    assert all(f"hello from {who}" in logs for who in ("a shell", "an editor", "a script", "Lisp"))
    assert "hello from a script" in "\n".join(host.session(name).lines())
    found = hosting.run("search", name, "from an editor").stdout
    assert "hello from an editor" in found
    assert hosting.run("search", name, "from nobody", check=False).returncode == 1
    assert hosting.run("wait", name, "--idle", "0.1", "--timeout", "20").returncode == 0


@every_kind
def test_what_comes_of_a_prompt_is_followed_by_its_id(
    hosting: Hosting, host: Host, case: Case, name: str
) -> None:
    session = host.session(name)
    topics = ("prompt-started", "said", "prompt-ended", "turn-began", "turn-ended")
    with host.events(*(f"sessions/{topic}" for topic in topics)) as events:
        prompt = session.prompt("hello there")
        said = ""
        happened: list[SessionEvent] = []
        while not happened or not {PromptEnded, SessionTurnEnded} <= {type(each) for each in happened}:
            came = events.next(timeout=WAIT)
            if isinstance(came, SessionEvent) and came.data["session_id"] == session.id:
                happened.append(came)
                said += came.text if isinstance(came, SessionSaid) else ""
    assert [each for each in happened if isinstance(each, PromptStarted | PromptEnded)] == [
        PromptStarted(session.id, prompt),
        PromptEnded(session.id, prompt, "done", ""),
    ]
    (ended,) = (each for each in happened if isinstance(each, SessionTurnEnded))
    assert ended.outcome == "done"
    assert case.answers in said


@pytest.mark.parametrize("case", ANSWERING, ids=str)
def test_an_answer_streams_to_the_lisp_client_that_asked_which_can_cancel_it(
    hosting: Hosting, lisp: Peer, case: Case, name: str
) -> None:
    lisp.say("hello to you", name)
    pieces = [str(lisp.until(is_said).get("payload", "text")) for _ in range(3)]
    assert all(pieces)
    lisp.answer()
    lisp.say(case.hang, name)
    hosting.until(lambda: row(hosting, name)["state"] == "working")
    lisp.send(event(plist(action=Keyword("CANCEL-STREAM"))))
    assert "the turn was" in lisp.answer()
    hosting.until(lambda: row(hosting, name)["state"] == "idle")


@pytest.mark.parametrize("case", [case for case in CASES if case.kind != "echo"], ids=str)
def test_a_prompt_that_waits_is_withdrawn_and_the_receipts_say_so(
    hosting: Hosting, host: Host, case: Case, name: str
) -> None:
    session = host.session(name)
    running = session.prompt(case.hang, timeout=WAIT)
    session.receipt(running, stage="started", timeout=WAIT)
    waiting = session.prompt("never mind", timeout=WAIT)
    assert session.receipt(waiting)["state"] == "queued"
    assert session.withdraw(waiting)
    assert not session.withdraw(waiting)
    assert not session.withdraw(running)
    found = [(each["id"], each["words"], each.get("outcome", "")) for each in session.receipts()]
    assert found == [(running, case.hang, ""), (waiting, "never mind", "dropped")]
    assert session.receipts(1)[0]["reason"] == "withdrawn before it was sent"
    assert session.receipts(1)[0]["asked"] > 0
    hosting.run("stop", name)
    if case.kind != "terminal":
        send(hosting, name, "hello")
        until_said(hosting, name, "hello")
        assert "\n> never mind" not in hosting.run("logs", name).stdout


# --- verified ---------------------------------------------------------------------------------------------


class Verifier:
    """A verifier in raw lines."""

    def __init__(self, hosting: Hosting, name: str) -> None:
        target = hosting.ask("verify_target", name=name)
        self._id = target["session_id"]
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT)
        self._socket.connect(target["socket"])
        self._lines = self._socket.makefile("rb")
        self.send("hello", role="verifier", pid=os.getpid())
        assert self.next()["type"] == "hello_ack"

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.close()
        self._socket.close()

    def send(self, type: str, **fields: Any) -> None:
        line = json.dumps({"type": type, "sessionId": self._id, **fields})
        self._socket.sendall(line.encode() + b"\n")

    def next(self) -> dict[str, Any]:
        while True:
            envelope: dict[str, Any] = json.loads(self._lines.readline())
            if envelope["type"] != "ping":
                return envelope
            self._socket.sendall(json.dumps({"type": "pong", "nonce": envelope["nonce"]}).encode() + b"\n")


@every_kind
def test_its_turns_are_told_to_verifiers_which_send_them_back_and_judge(
    hosting: Hosting, case: Case, name: str
) -> None:
    with Verifier(hosting, name) as verifier:
        send(hosting, name, case.work.format("wrong"))
        begun, ended = verifier.next(), verifier.next()
        assert [begun["name"], ended["name"]] == ["start", "stop"]
        assert begun["userPrompt"] == case.work.format("wrong")
        verifier.send("prompt", message="make it right", correlationId="c1")
        ack = verifier.next()
        assert (ack["type"], ack["correlationId"], ack["ok"]) == ("prompt_ack", "c1", True)
        again = verifier.next()
        assert (again["name"], again["turnIndex"]) == ("stop", begun["turnIndex"])
        until_said(hosting, name, "make it right")
        report = {"turnIndex": begun["turnIndex"], "status": "verified", "summary": "it is right"}
        verifier.send("report", **report, sections={}, raw="")
        hosting.until(lambda: "verdict" in row(hosting, name))
    verdict = row(hosting, name)["verdict"]
    assert (verdict["confidence"], verdict["summary"]) == ("verified", "it is right")


@every_kind
def test_it_is_verified_by_a_command_and_the_verdict_is_listed(
    hosting: Hosting, case: Case, name: str
) -> None:
    for word, code, verdict in (("right", 0, "verified"), ("wrong", 1, "failed")):
        worked(hosting, case, name, word)
        done = hosting.run("verify", "--once", name, "--", CHECK, check=False)
        assert done.returncode == code, done.stderr
        (line,) = hosting.run("ls", name).stdout.splitlines()[1:]
        assert verdict in line.split()
    reports = hosting.ask("verify_reports", session_id=row(hosting, name)["id"])["reports"]
    assert [each["status"] for each in reports] == ["failed", "verified"]
    turns = json.loads(hosting.run("timeline", name, "--json").stdout)["turns"]
    steps = [each for turn in turns for each in turn.get("steps", ())]
    checks = [each["outcome"] for each in steps if each["what"] == "check"]
    assert checks == ["verified", "failed"]
    assert [turn["outcome"] for turn in turns[-2:]] == ["done", "done"]


@every_kind
def test_it_calls_a_person_when_it_was_sent_back_too_often(
    hosting: Hosting, lisp: Peer, case: Case, name: str
) -> None:
    with subprocess.Popen(
        [*hosting.command, "verify", name, "--", CHECK],
        env=hosting.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as verifier:
        try:
            assert verifier.stderr is not None
            assert any("verifying the turns" in line for line in iter(verifier.stderr.readline, ""))
            worked(hosting, case, name, "wrong")
            hosting.until(lambda: bool(waiting(hosting, name)))
        finally:
            verifier.terminate()
    assert lisp.sensed("VERIFIER-ESCALATED").get("payload", "reason")
    until_said(hosting, name, "found that it is not right yet")
    ((token, kind),) = waiting(hosting, name).items()
    assert kind == "escalation"
    assert f"{name} needs a person" in hosting.run("ls").stderr
    assert token in hosting.run("approvals").stdout
    assert "dismissed" in hosting.run("approvals", "deny", name).stdout
    assert not waiting(hosting, name)


# --- asked ------------------------------------------------------------------------------------------------


def waiting(hosting: Hosting, name: str) -> dict[str, str]:
    """The kinds of the questions that a session asks, by their tokens."""
    id = row(hosting, name)["id"]
    rows = hosting.ask("approvals")["approvals"]
    return {each["token"]: each["kind"] for each in rows if each["session_id"] == id}


def asked(hosting: Hosting, case: Case, name: str) -> str:
    """Have a session ask a person something; returns the question's token."""
    send(hosting, name, case.ask)
    hosting.until(lambda: bool(waiting(hosting, name)))
    (token,) = waiting(hosting, name)
    return token


@pytest.mark.parametrize("case", ASKING, ids=str)
def test_it_asks_a_person_who_answers_from_any_door(
    hosting: Hosting, lisp: Peer, case: Case, name: str
) -> None:
    token = asked(hosting, case, name)
    listed = row(hosting, name)
    assert listed["state"] == "asks"
    assert "roses" in listed["waits_for"]
    assert f"session {name}" in hosting.run("approvals").stdout
    assert "allowed" in hosting.run("approvals", "allow", token).stdout
    until_said(hosting, name, case.allowed)
    again = hosting.run("approvals", "deny", token, check=False)
    assert (again.returncode, "was answered already: allowed by" in again.stderr) == (1, True)

    by_lisp = asked(hosting, case, name)
    hosting.until(lambda: lisp.sensed("APPROVAL-REQUIRED").get("payload", "token") == by_lisp)
    lisp.say(f"/approve {by_lisp}")
    hosting.until(lambda: lines(hosting, name).count(case.allowed) == 2)

    hosting.ask("approval_settle", token=asked(hosting, case, name), allowed=False)
    until_said(hosting, name, "denied")

    hosting.ask("resolve_dialog", dialog_id=asked(hosting, case, name), result=True)
    hosting.until(lambda: lines(hosting, name).count(case.allowed) == 3)
    answer = hosting.ask("timeline", name=name)
    steps = [each for turn in answer["turns"] for each in turn.get("steps", ())]
    steps += answer["aside"]  # where a kind says nothing of when its turns began
    questions = [each for each in steps if each["what"] == "question"]
    assert [each["outcome"] for each in questions] == ["allow", "allow", "deny", "allow"]
    assert all(each["by"] and each["at"] <= each["ended"] for each in questions)


@pytest.mark.parametrize("case", ASKING, ids=str)
def test_a_question_is_withdrawn_when_its_session_is_stopped(hosting: Hosting, case: Case, name: str) -> None:
    token = asked(hosting, case, name)
    hosting.run("stop", name)
    hosting.until(lambda: not waiting(hosting, name))
    with pytest.raises(RequestError, match=f"{token} was withdrawn"):
        hosting.ask("approval_settle", token=token, allowed=True)


# --- stopped ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["shell", "editor", "script"])
@every_kind
def test_it_is_stopped_from_every_door(
    hosting: Hosting, host: Host, case: Case, name: str, door: str
) -> None:
    send(hosting, name, case.hang)
    hosting.until(lambda: row(hosting, name)["state"] in ("working", "running"))
    match door:
        case "shell":
            said = hosting.run("stop", name).stdout
            if case.kind == "terminal":
                assert said.startswith(f"session {name} ended with ")
            else:
                assert said == f"stopped {name}'s turn\n"
        case "editor":
            answer = hosting.ask("session_stop", name=name)
            assert answer["session"]["name"] == name
            assert answer.keys() & {"exit_code", "stopped"}
        case "script":
            host.session(name).stop()
    if case.kind == "terminal":  # its program was all there was
        assert name not in hosting.run("ls", "-q").stdout.split()
        return
    hosting.run("wait", name, "--idle", "0")
    assert row(hosting, name)["state"] == "idle"
    again = hosting.run("stop", name).stdout  # the program of a hosted agent may still be ending
    assert again in (f"{name} was already idle\n", f"{name} was idle; its agent was ended\n")
    send(hosting, name, "hello again")
    until_said(hosting, name, "hello again")


# --- what not all kinds can do ----------------------------------------------------------------------------


@every_kind
def test_attaching_opens_what_it_has_or_says_what_to_use(hosting: Hosting, case: Case, name: str) -> None:
    has_socket = os.path.exists(keepty.socket_path(name, hosting.environment))
    assert has_socket == (case.kind == "terminal")
    with Person(hosting, "attach", name, cols=200) as person:
        match case.kind:
            case "terminal":
                person.until("ready")
            case "agent":
                person.until(f"{name} · offline/guide")
            case "hosted":
                person.until(f"{name} · small/default")
            case _:
                person.until(f"not supported by echo sessions: {name} has neither a screen nor a chat")
                person.until(f"`fairlead send {name} TEXT` asks it, and `fairlead logs {name}` prints")
                assert person.exit_code() == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("screen", "{}"), "has no screen; `fairlead logs {}` prints its messages"),
        (("record", "{}"), "has no screen; `fairlead logs {}` prints its messages"),
        (("send", "{}", "-k", "C-c"), "takes no keys; `fairlead send {} TEXT` asks it for something"),
        (("wait", "{}", "--text", "x"), "has no screen; `fairlead wait {} --idle 0` waits until its turn is"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("case", WITHOUT_SCREEN, ids=str)
def test_a_command_that_needs_a_screen_says_what_to_use(
    hosting: Hosting, case: Case, name: str, words: tuple[str, ...], why: str
) -> None:
    done = hosting.run(*(word.replace("{}", name) for word in words), check=False)
    assert done.returncode == 1
    assert f"not supported by {case.kind} sessions: {name} {why.replace('{}', name)}" in done.stderr


@every_kind
def test_an_op_of_another_kind_says_what_to_use(hosting: Hosting, case: Case, name: str) -> None:
    ops: dict[str, dict[str, Any]] = {
        "terminal_screen": {"name": name},
        "terminal_send": {"name": name, "text": "x"},
        "get_messages": {"session_id": row(hosting, name)["id"]},
        "follow_up": {"session_id": row(hosting, name)["id"], "message": "x"},
    }
    for op, params in ops.items():
        if (case.kind == "terminal") == op.startswith("terminal_") and case.kind != "echo":
            continue
        with pytest.raises(RequestError) as refused:
            hosting.ask(op, **params)
        assert refused.value.code == "request/not-found"
        assert str(refused.value).startswith(f"not supported by {case.kind} sessions: '{name}' is none of")
        assert "session_prompt, session_lines, session_wait and session_stop take" in str(refused.value)


@pytest.mark.parametrize("case", WITHOUT_SCREEN, ids=str)
def test_nothing_is_typed_into_it_from_lisp(lisp: Peer, case: Case, name: str) -> None:
    instead = f"typing is not supported by {case.kind} sessions; `fairlead send {name} TEXT` asks it"
    assert instead in lisp.ask(f"/send {name} hello")


# --- removed ----------------------------------------------------------------------------------------------


def remove(hosting: Hosting, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return hosting.run("rm", name, *words, check=False)


@pytest.mark.parametrize("case", ANSWERING[:2], ids=str)
def test_it_is_removed_when_it_is_idle_and_its_journal_is_kept(
    hosting: Hosting, case: Case, name: str
) -> None:
    send(hosting, name, case.ask)
    hosting.until(lambda: row(hosting, name)["state"] == "asks")
    refused = remove(hosting, name, "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{name} asks: " in refused.stderr
    assert "`fairlead approvals`" in refused.stderr
    hosting.run("stop", name)
    send(hosting, name, case.hang)
    hosting.until(lambda: row(hosting, name)["state"] == "working")
    assert f"{name} is working; `fairlead stop {name}` ends its turn" in remove(hosting, name, "-y").stderr
    hosting.run("stop", name)
    assert "use --yes" in remove(hosting, name).stderr
    journal = Path(row(hosting, name)["file"])
    text, id = journal.read_text(), row(hosting, name)["id"]
    (removed,) = json.loads(remove(hosting, name, "-y", "--json").stdout)
    trash = Path(Settings(hosting.environment).state_dir, "trash")
    assert Path(removed["path"]) == trash / journal.parent.name / journal.name
    assert Path(removed["path"]).read_text().startswith(text)
    assert not journal.exists()
    for word in (name, id, id[:8]):
        assert f"no session '{word}'" in remove(hosting, word, "-y").stderr
    assert name not in hosting.run("ls", "-q").stdout.split()
    Path(removed["path"]).rename(journal)
    assert row(hosting, id)["name"] == name


def test_an_ended_program_is_forgotten_and_a_running_one_is_not(hosting: Hosting) -> None:
    hosting.start("brief", "exit 3")
    hosting.start("long", "read line")
    hosting.until(lambda: row(hosting, "brief")["state"] == "ended")
    done = hosting.run("rm", "-y", "long", "brief", check=False)
    assert (done.returncode, done.stdout) == (1, "removed brief\n")
    assert done.stderr == "fairlead rm: long is running; `fairlead stop long` ends and removes it\n"
    assert {"brief", "long"} & {*hosting.run("ls", "-q").stdout.split()} == {"long"}


def test_a_kind_that_cant_remove_says_so(hosting: Hosting) -> None:
    assert "echo sessions can't be removed" in remove(hosting, FIRST, "-y").stderr


def test_rm_asks_on_a_terminal(hosting: Hosting, tmp_path: Path) -> None:
    open_agent(hosting, "weeds", str(tmp_path))
    for name, word in (("no", "n"), ("yes", "y")):  # the second is asked, so the first removed nothing
        hosting.start(name, f"{sys.executable} -m fairlead rm weeds; read line")
        hosting.wait_text(name, "remove weeds? [y/N]")
        hosting.run("send", name, word, "-k", "Enter")
        if word == "y":
            hosting.wait_text(name, "removed weeds; its journal is now")
    assert hosting.run("ls", "weeds", check=False).returncode == 1
