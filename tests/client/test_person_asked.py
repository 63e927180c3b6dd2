"""What an agent asks a person, as each client shows it, and how it is answered there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.keeper.credentials import AGENT_MARK
from fairlead.wire import rpc
from tests.cli.talking import person as talking
from tests.client.acp_editor import AcpEditor
from tests.client.editors import Editor
from tests.client.persons import Person
from tests.hosting import Hosting
from tests.mcp_client import McpClient, given

TEXT = "Which colour?\nThe \x1b[31mfence\x1b[0m waits."
SHOWN = "The <U+001B>[31mfence<U+001B>[0m waits."


class Agent:
    """Asks questions from inside of a session, one after the other."""

    def __init__(self, hosting: Hosting, project: Path) -> None:
        self._hosting = hosting
        self.name = project.name
        self.session = str(hosting.ask("open_session", name=self.name, cwd=str(project))["session_id"])
        self._mcp = McpClient(hosting, project, env={AGENT_MARK: self.session})
        self._asking = 0

    def ask(self, *choices: str) -> str:
        """Ask, and return the token of the question when it waits."""
        self._asking = self._mcp.begin_call("ask_person", question=TEXT, options=list(choices))
        self._hosting.until(lambda: bool(self._waiting()))
        return str(self._waiting()[0]["token"])

    def _waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._hosting.ask("approvals")["approvals"]
        return found

    def heard(self) -> str | None:
        """Wait for the answer; None if its person declines."""
        found = given(self._mcp.answer(self._asking))
        return found["answer"] if found["answered"] else None

    def close(self) -> None:
        self._mcp.close()


@pytest.fixture(scope="module")
def lent() -> Iterator[Hosting]:
    """One daemon for these tests: they leave conversations behind, so that none could be lent again."""
    hosting = Hosting()
    yield hosting
    hosting.close()


@pytest.fixture
def agent(lent: Hosting, tmp_path: Path) -> Iterator[Agent]:
    found = Agent(lent, tmp_path)
    yield found
    found.close()


def test_answer_in_the_chat_answers_chooses_and_declines(lent: Hosting, agent: Agent, tmp_path: Path) -> None:
    with Person(lent, "agent", "-C", str(tmp_path), agent.name, rows=60) as person:
        person.until("^D leaves")
        person.type(b"/answer blue\r")
        person.until("no agent is asking anything")
        agent.ask()
        person.until_all(["asks:", SHOWN, "/answer TEXT answers it; /answer alone declines"])
        person.type(b"/answer the blue one\r")
        assert agent.heard() == "the blue one"
        person.until("✓ closed")
        agent.ask("red", "blue")
        person.until_all(["1  red", "2  blue", "/answer NUMBER answers it"])
        person.type(b"/answer green\r")
        person.until("'green' is no answer")
        person.type(b"/answer 2\r")
        assert agent.heard() == "blue"
        agent.ask()
        person.until("/answer TEXT answers it")
        person.type(b"/answer\r")
        assert agent.heard() is None


def test_answer_in_the_chat_says_what_waits_outside_of_its_session(
    lent: Hosting, agent: Agent, tmp_path: Path
) -> None:
    with Person(lent, "agent", "-C", str(tmp_path), "beside", cols=200) as person:
        person.until("^D leaves")
        token = agent.ask()
        person.type(b"/answer blue\r")
        person.until_all([f"{token}  {agent.name}: Which colour?", "in this project"])
        person.until(f"answer with `fairlead approvals answer {token} TEXT`")
        lent.run("approvals", "answer", token, "red")
        assert agent.heard() == "red"


def test_answer_in_talk_answers_a_question_by_its_token(lent: Hosting, agent: Agent) -> None:
    with talking(lent) as person:
        person.until("Ctrl-D quits")
        token = agent.ask("red", "blue")
        shown = person.until(f"/answer {token} TEXT, or /deny {token}")
        assert SHOWN in shown
        assert "2  blue" in shown
        person.type("/answer\n")
        person.until("/answer needs a token and a text")
        person.type(f"/answer {token} green\n")
        person.until('1 ("red"), 2 ("blue")')
        person.type(f"/answer {token} blue\n")
        assert agent.heard() == "blue"


def test_an_editor_of_psi_is_asked_for_a_text_or_a_choice(
    lent: Hosting, agent: Agent, tmp_path: Path
) -> None:
    editor = Editor(lent, tmp_path)

    def asked() -> dict[str, Any]:
        topic = "ui/dialog-requested"
        frame = editor.until(lambda each: isinstance(each, rpc.Event) and each.topic == topic)
        found: dict[str, Any] = plain(frame.data)
        return found

    with editor.backend:
        editor.ask("handshake")
        editor.ask("subscribe")
        for said in ("the blue one", "deny"):  # a person's words are no consent, and no refusal
            token = agent.ask()
            dialog = asked()
            assert (dialog["kind"], dialog["dialog_id"]) == ("input", token)
            assert dialog["message"].splitlines()[-2:] == [SHOWN, "question:"]
            assert "\x1b" not in dialog["message"]
            assert editor.ask("resolve_dialog", dialog_id=token, result=said) == {"accepted": True}
            assert agent.heard() == said
        token = agent.ask("red", "blue")
        dialog = asked()
        assert dialog["kind"] == "select"
        assert [(each["value"], each["label"]) for each in dialog["options"]] == [
            ("1", "red"),
            ("2", "blue"),
            ("deny", "Don't answer"),
        ]
        for wrong in ("3", True):
            refused = editor.ask("resolve_dialog", dialog_id=token, result=wrong)
            assert isinstance(refused, rpc.Error), refused
        assert editor.ask("resolve_dialog", dialog_id=token, result="2") == {"accepted": True}
        assert agent.heard() == "blue"
        token = agent.ask()
        asked()
        assert editor.ask("cancel_dialog", dialog_id=token) == {"accepted": True}
        assert agent.heard() is None
        editor.backend.kill()


def test_an_editor_of_acp_is_told_what_is_asked_and_how_to_answer(
    lent: Hosting, agent: Agent, tmp_path: Path
) -> None:
    with AcpEditor(lent, cwd=tmp_path) as editor:
        editor.load(agent.session)
        token = agent.ask("red", "blue")
        editor.until(lambda: token in editor.text(agent.session))
        told = editor.text(agent.session)
        assert f"Which colour?\n{SHOWN}\n1  red\n2  blue\n" in told
        words = told.partition("answer with `fairlead ")[2].partition("`")[0].split()
        assert words == ["approvals", "answer", token, "NUMBER"]
        lent.run(*words[:-1], "2")
        assert agent.heard() == "blue"
        assert not editor.asked
