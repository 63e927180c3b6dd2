"""Commands that take a session take one of any kind: those for programs work with agents as well."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fairlead.client.connection import RequestError
from tests.client.persons import Person
from tests.hosting import Hosting


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    try:
        made.start("work", "echo ready; read line")
        made.start("production", "read line")
        made.run("agent", "--name", "garden", "-p", "run: echo roses", "--yes")
        yield made
    finally:
        made.run("daemon", "restart")  # an agent that is not open any more is listed as well
        assert "garden" in made.run("ls", "-q").stdout.split()
        made.close()


def rows(hosting: Hosting, *words: str) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(hosting.run("ls", "--json", *words).stdout)}


def test_ls_lists_sessions_of_all_kinds_or_of_one(hosting: Hosting) -> None:
    assert sorted(hosting.run("ls", "-q").stdout.split()) == ["garden", "production", "work"]
    assert hosting.run("ls", "-q", "--kind", "agent").stdout.split() == ["garden"]
    found = rows(hosting)
    assert (found["work"]["kind"], found["work"]["state"]) == ("terminal", "running")
    assert (found["garden"]["kind"], found["garden"]["state"]) == ("agent", "idle")
    assert found["garden"]["what"] == "run: echo roses"
    head, *table = hosting.run("ls").stdout.splitlines()
    assert head.split()[:4] == ["NAME", "STATE", "KIND", "DIRECTORY"]
    assert [row.split()[0] for row in table] == hosting.run("ls", "-q").stdout.split()
    (line,) = (row for row in table if row.startswith("garden "))
    assert line.split()[1] in ("done", "idle")
    assert line.split()[3] == "agent"
    by_id = str(found["garden"]["id"])
    assert list(rows(hosting, by_id)) == ["garden"]
    assert hosting.run("ls", "--kind", "tree", check=False).returncode == 2


def test_an_agent_is_asked_waited_for_read_and_stopped_like_a_program(hosting: Hosting) -> None:
    hosting.run("send", "garden", "run: echo tulips")
    state = rows(hosting, "garden")["garden"]
    assert state["state"] in ("working", "asks")
    hosting.until(lambda: rows(hosting, "garden")["garden"]["state"] == "asks")
    assert "echo tulips" in str(rows(hosting, "garden")["garden"]["waits_for"])
    waited = hosting.run("wait", "garden", "--idle", "0", "--timeout", "0.3", check=False)
    assert waited.returncode == 124
    assert hosting.run("stop", "garden").stdout == "stopped garden's turn\n"
    assert hosting.run("wait", "garden", "--exit", check=False).returncode == 1
    assert hosting.run("stop", "garden").stdout == "garden was already idle\n"
    said = hosting.run("logs", "garden").stdout.splitlines()
    assert said[0] == "> run: echo roses"
    assert said[said.index("● $ echo roses") + 1 :][:2] == ["[bash] roses", "[Exit code 0.]"]
    hosting.run("agent", "--name", "weeds", "-p", "run: echo no; false", "--yes")
    assert "[bash] failed: no" in hosting.run("logs", "weeds").stdout.splitlines()
    assert hosting.run("logs", "-n", "1", "garden").stdout.splitlines() == said[-1:]
    found = hosting.run("search", "garden", "echo tulips").stdout.splitlines()
    assert found
    assert found[0].endswith("> run: echo tulips")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("screen", "garden"), "by agent sessions: garden has no screen; `fairlead logs garden` prints"),
        (("record", "garden"), "not supported by agent sessions: garden has no screen"),
        (("send", "garden", "-k", "C-c"), "not supported by agent sessions: garden takes no keys"),
        (("wait", "garden", "--text", "x"), "`fairlead wait garden --idle 0` waits until its turn is over"),
        (
            ("start", "garden", "-d", "--", "true"),
            "an agent session is already called 'garden'; choose another name, or `fairlead attach garden`",
        ),
        (
            ("agent", "--name", "work", "-p", "hi"),
            "a terminal session is already called 'work'; choose another name, or `fairlead attach work`",
        ),
        (("stop", "gardn"), "no session 'gardn'; did you mean garden?"),
        (("logs", "wrk"), "no session 'wrk'; did you mean work?"),
        (("stop", "productio"), "no session 'productio'; did you mean production?"),
        (("send", "productio", "rm -rf x"), "no session 'productio'; did you mean production?"),
    ],
)
def test_what_a_kind_cant_do_says_so(hosting: Hosting, words: tuple[str, ...], sentence: str) -> None:
    done = hosting.run(*words, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr


def test_what_was_said_can_not_control_the_terminal_that_prints_it(hosting: Hosting) -> None:
    hosting.run("agent", "--name", "odd", "-p", "say \x1b]52;c;cHduZWQ=\x07 \u202e please")
    for words in (("logs", "odd"), ("search", "odd", "please"), ("ls", "odd")):
        said = hosting.run(*words).stdout
        assert "please" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said), words
    assert "say <U+001B>]52;c;cHduZWQ=<U+0007> <U+202E> please" in hosting.run("logs", "odd").stdout


def test_attaching_to_an_agent_opens_its_chat(hosting: Hosting) -> None:
    with Person(hosting, "attach", "garden") as person:
        person.until("Done: run echo roses")  # what was said before
        assert "garden · offline/guide" in person.text  # which may have scrolled off
        person.type(b"help me\r")
        person.until("I am the offline guide")
        assert person.leave(b"/quit\r") == 0


def test_nothing_is_typed_into_a_program_that_has_ended(hosting: Hosting) -> None:
    hosting.start("brief", "exit 3")
    hosting.run("wait", "brief", "--exit", check=False)
    with pytest.raises(RequestError, match="session 'brief' has ended"):
        hosting.ask("session_prompt", name="brief", text="anybody?")
    hosting.run("stop", "brief")
