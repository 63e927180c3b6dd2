"""Servers with every fault, asked over real connections on loopback: one sentence each, with what to do."""

import asyncio
import re
import socket

import pytest

from fairlead.agent.messages import User
from fairlead.agent.models import ModelError, ModelEvent, ModelInfo, ModelRequest, ToolSpec
from fairlead.agent.models.remote import Remote
from tests.agent.faulty_server import FAULTS, KINDS, FaultyServer, Kind, ended, spoken

KEY = "sk-a-very-secret-key"
MODELS = {"openai": "lab/test", "anthropic": "anthropic/claude-sonnet-4-6", "google": "google/gemini-2.5-pro"}
LS = ToolSpec("ls", "List a directory.", {"type": "object", "properties": {"path": {"type": "string"}}})
CUT = "closed the connection in the middle of the answer; try again"
NO_ANSWER = "closed the connection without an answer; check base_url of [providers."
STREAM = "not with an event stream; check base_url of [providers."
NONSENSE = "sent an invalid answer; try again, or check that server"

SAID: dict[str, tuple[str, str]] = {
    "cut before text": ("busy", CUT),
    "cut after text": ("busy", CUT),
    "cut in a call": ("busy", CUT),
    "ended before text": ("busy", CUT),
    "ended after text": ("busy", CUT),
    "ended in a call": ("busy", CUT),
    "cut before the response": ("busy", NO_ANSWER),
    "cut in the headers": ("busy", NO_ANSWER),
    "a page": ("refused", f"answered with a web page, {STREAM}"),
    "a page as events": ("refused", f"answered with a web page, {STREAM}"),
    "malformed JSON": ("broken", NONSENSE),
    "JSON of something else": ("busy", CUT),
    "text": ("refused", f"answered with text/plain, {STREAM}"),
    "JSON, not events": ("refused", f"answered with application/json, {STREAM}"),
    "empty": ("broken", "the answer is empty; rephrase the prompt, or choose another model"),
    "nothing": ("busy", CUT),
    "a gateway's page": ("busy", "had an internal error (502): 502 Bad Gateway; try again later"),
    "an empty 500": ("busy", "had an internal error (500); try again later"),
    "a 404 page": (
        "refused",
        "does not know this model or path (404): Sign in; check `fairlead agent --list-",
    ),
    "busy": ("busy", "rate limit exceeded (429): slow down; try again later"),
    "not HTTP": ("busy", NO_ANSWER),
    "a bad key": ("refused", "the key was refused (401): Incorrect API key provided: …; to change it"),
}


def ask(kind: Kind, base_url: str) -> list[ModelEvent]:
    provider, _, id = MODELS[kind].partition("/")
    request = ModelRequest(ModelInfo(provider, id, id), "Be brief.", [User("Hi")], [LS])

    async def collect() -> list[ModelEvent]:
        return [each async for each in Remote(kind, base_url, lambda: KEY).stream(request)]

    return asyncio.run(collect())


def fault(kind: Kind, base_url: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(kind, base_url)
    assert_for_people(str(caught.value))
    assert str(caught.value).startswith(f"{MODELS[kind]}: ")
    return caught.value


def assert_for_people(sentence: str) -> None:
    """One line, with nothing of Python, of markup or of the key in it."""
    assert KEY not in sentence
    assert not re.search(
        r"Error\b|Exception|Errno|Traceback|object has no|[<>]|\{'|_ssl|\n|status_code", sentence
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SAID)
def test_a_fault_of_a_server_is_one_sentence_with_what_to_do(name: str, kind: Kind) -> None:
    with FaultyServer(FAULTS[name](kind)) as server:
        found = fault(kind, server.base_url(kind))
        assert len(server.requests) == 1, "the session asks again, not the model"
    expected, words = SAID[name]
    assert words in str(found)
    assert found.kind == expected
    assert found.retry_after == (7.0 if name == "busy" else None)


def test_a_stream_that_says_nothing_but_that_it_is_done_is_an_empty_answer() -> None:
    with FaultyServer(ended([b"data: [DONE]\n\n"])) as server:
        found = fault("openai", server.base_url("openai"))
    assert (found.kind, "the answer is empty" in str(found)) == ("broken", True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_told_by_its_address(kind: Kind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    found = fault(kind, f"http://127.0.0.1:{port}/v1")
    assert f"can't connect to 127.0.0.1:{port}; start that server, or check base_url" in str(found)
    assert found.kind == "busy"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_nobody_knows_is_told(kind: Kind) -> None:
    found = fault(kind, "http://nowhere.invalid/v1")
    assert "unknown host nowhere.invalid; check the network and base_url" in str(found)
    assert found.kind == "busy"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_tls_is_told_and_not_asked_again(kind: Kind) -> None:
    with FaultyServer(b"") as server:
        found = fault(kind, f"https://127.0.0.1:{server.port}/v1")
    assert "does not speak TLS; should base_url of [providers." in str(found)
    assert found.kind == "refused"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_says_nothing_is_given_up(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agent.models.faults.SILENCE_TIMEOUT", 0.2)
    with FaultyServer(None) as server:
        found = fault(kind, server.base_url(kind))
    assert "sent nothing for 0.2 s; try again, or check that server" in str(found)
    assert found.kind == "busy"


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_answer_and_a_call_are_no_fault(kind: Kind) -> None:
    with FaultyServer(ended(spoken(kind, call=True))) as server:
        got = ask(kind, server.base_url(kind))
    assert [type(each).__name__ for each in got][-2:] == ["ToolCallMade", "Finished"]
