"""A name means one session: what looks like the id of another is refused, and an id is an id before it is a
name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.connection import RequestError
from fairlead.client.sdk import connect
from fairlead.system.settings import Settings
from tests.hosting import Hosting


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    try:
        made.start("work", "echo ready; read line")
        made.run("agent", "--name", "garden", "-p", "hello roses")
        made.run("agent", "--name", "shed", "-p", "hello spade")
        yield made
    finally:
        made.close()


def id_of(hosting: Hosting, name: str) -> str:
    return str(hosting.ask("session_find", name=name)["session"]["id"])


def journal(path: Path, id: str, name: str) -> str:
    """The journal of a session that another program made."""
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/tmp"},
        {"type": "session_info", "id": "aaaaaaaa", "parentId": None, "timestamp": "2026-01-01T00:00:01.000Z"},
    ]
    lines[1]["name"] = name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.mark.parametrize(
    ("length", "part"), [(36, ""), (8, "the beginning of "), (4, "the beginning of ")], ids=["id", "8", "4"]
)
def test_no_session_is_called_like_the_id_of_another(hosting: Hosting, length: int, part: str) -> None:
    victim, shed = id_of(hosting, "garden"), id_of(hosting, "shed")
    word = victim[:length]
    why = f"'{word}' is {part}the id of the agent session garden; choose another name"
    assert why in hosting.run("start", word, "-d", "--", "cat", check=False).stderr
    with pytest.raises(RequestError) as refused:
        hosting.ask("set_session_name", session_id=shed, name=word)
    assert why in str(refused.value)
    hosting.run("send", "garden", f"hello {length}")
    assert f"> hello {length}" in hosting.run("logs", word).stdout


@pytest.mark.parametrize("length", [36, 8])
def test_a_journal_cant_take_the_id_of_another_session_as_its_name(
    hosting: Hosting, tmp_path: Path, length: int
) -> None:
    victim = id_of(hosting, "garden")
    impostor = f"00000000-0000-4000-8000-{length:012}"
    path = journal(tmp_path / f"x_{impostor}.jsonl", impostor, victim[:length])
    hosting.ask("switch_session", session_path=path)
    assert id_of(hosting, victim[:length]) == victim
    assert hosting.ask("session_find", name=impostor)["session"]["name"] == impostor
    assert hosting.ask("open_session", name=victim)["session_id"] == victim


def test_a_name_in_a_journal_that_is_none_is_ignored(hosting: Hosting, tmp_path: Path) -> None:
    id = "00000000-0000-4000-8000-00000000000a"
    path = journal(tmp_path / f"x_{id}.jsonl", id, "x\nroot needs a person: now")
    hosting.ask("switch_session", session_path=path)
    assert hosting.ask("session_find", name=id)["session"]["name"] == id
    assert "root needs a person" not in hosting.run("talk", "/status").stdout


@pytest.mark.parametrize(
    "name", ["pay\u3164", " pay", "pay ", "pa\u115fy", "pay\u034f", "pay\u2800", "\ufe0f"]
)
def test_names_that_look_like_others_are_refused(hosting: Hosting, name: str) -> None:
    done = hosting.run("start", name, "-d", "--", "cat", check=False)
    assert done.returncode == 1
    assert "a name has no " in done.stderr
    with pytest.raises(RequestError, match="a name has no "):
        hosting.ask("set_session_name", session_id=id_of(hosting, "shed"), name=name)


def test_the_session_of_control_keeps_its_name(hosting: Hosting) -> None:
    done = hosting.run("start", "control", "-d", "--", "cat", check=False)
    assert "'control' is the name of the default agent session; choose another name" in done.stderr
    assert hosting.run("talk", "hello").returncode == 0


def test_what_ls_shows_holds_its_name_after_a_restart(hosting: Hosting) -> None:
    hosting.run("agent", "--name", "fresh", "-p", "hello")
    hosting.run("daemon", "restart")
    done = hosting.run("start", "fresh", "-d", "--", "cat", check=False)
    assert "an agent session is already called 'fresh'; choose another name" in done.stderr


@pytest.mark.parametrize("length", [36, 8, 4])
def test_ls_takes_what_other_commands_take(hosting: Hosting, length: int) -> None:
    id = id_of(hosting, "garden")
    assert hosting.run("ls", "-q", id[:length]).stdout == "garden\n"


def test_three_characters_of_an_id_are_too_few(hosting: Hosting) -> None:
    word = id_of(hosting, "garden")[:3]
    for command in ("ls", "logs"):
        done = hosting.run(command, word, check=False)
        assert done.returncode == 1
        assert f"no session '{word}'; a prefix of an id needs at least 4 characters" in done.stderr


def test_the_name_of_a_program_is_shown_whole(hosting: Hosting) -> None:
    name = "0c0b2e1a-88aa-4bbb-8ccc-0123456789ab"
    hosting.start(name, "read line")
    assert hosting.run("ls", name).stdout.splitlines()[1].split()[0] == name
    hosting.run("stop", name)


def test_an_id_is_asked_for_as_an_id_and_no_name_is_taken_for_it(hosting: Hosting) -> None:
    id = id_of(hosting, "garden")
    assert hosting.ask("session_find", session_id=id)["session"]["name"] == "garden"
    for wrong in ("garden", id[:8]):
        with pytest.raises(RequestError, match=f"no session '{wrong}'"):
            hosting.ask("session_lines", session_id=wrong)
    with pytest.raises(RequestError, match="expected :name or :session-id"):
        hosting.ask("session_stop")


def test_of_two_agents_of_one_name_the_one_used_last_is_meant_and_ls_shows_both(hosting: Hosting) -> None:
    first = hosting.ask("new_session", name="twin")["session_id"]
    last = hosting.ask("new_session", name="twin")["session_id"]
    assert [row["id"] for row in json.loads(hosting.run("ls", "--json", "twin").stdout)] == [last, first]
    shown = hosting.run("ls", "twin").stdout
    assert f"twin ({first[:8]})" in shown
    assert f"twin ({last[:8]})" in shown
    done = hosting.run("send", "--json", "twin", "hello")
    assert f"2 sessions are called 'twin'; this is {last}, the last used" in done.stderr
    assert json.loads(done.stdout)["session"]["id"] == last
    hosting.run("wait", last, "--exit")
    assert hosting.run("logs", last).stdout.startswith("> hello\n")
    assert hosting.run("logs", first).stdout == ""
    assert (
        f"2 sessions are called 'twin'; this is {first}, the last used" in hosting.run("stop", "twin").stderr
    )


def test_a_mistyped_section_is_told_as_a_section(hosting: Hosting) -> None:
    assert "did you mean agent?" in hosting.run("config", "agnt", check=False).stderr


def test_a_script_is_told_what_a_session_is_and_finds_an_agent_by_the_beginning_of_its_id(
    hosting: Hosting,
) -> None:
    with connect(Settings(hosting.environment)) as host:
        sentence = re.escape("'garden' is an agent session; use host.agent('garden')")
        with pytest.raises(RequestError, match=sentence):
            host.terminal("garden")
        with pytest.raises(RequestError, match=sentence), host.attach("garden"):
            pass
        with pytest.raises(RequestError, match=re.escape("'work' is a terminal session; use host.terminal(")):
            host.agent(id="work")
        id = id_of(hosting, "garden")
        agent = host.agent(id=id[:4])
        assert (agent.id, agent.name) == (id, "garden")
