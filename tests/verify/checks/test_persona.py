"""Personas: reading, finding, and the prompts that are made of them."""

import os
from pathlib import Path

import pytest

from fairlead.verify.checks import persona as personas
from fairlead.verify.checks.builtin import PERSONAS
from fairlead.verify.checks.persona import (
    PLACE,
    Persona,
    PersonaError,
    available,
    load,
    parse_persona,
    stop_prompt,
    substituted,
)
from fairlead.verify.report import parse_report
from fairlead.wire.verifier import Event
from tests.verify.projects import write

TEXT = """\
---
# who it is
name: sql-checker
description: "Checks: schemas # not a comment"   # a comment
tools: [read, bash, 'grep', "a, b"]
model: anthropic/some-model
domain: databases
max_loops: 5
verification_focus:
  - NOT NULL
  - foreign keys
unknown-key: 1.5
---

You check <BUILDER_SESSION_ID> in <DOMAIN>, at most <MAX_LOOPS> times.
"""


def test_the_front_matter_and_the_text_are_read() -> None:
    assert parse_persona(TEXT, "x.md") == Persona(
        name="sql-checker",
        description="Checks: schemas # not a comment",
        tools=("read", "bash", "grep", "a, b"),
        model="anthropic/some-model",
        domain="databases",
        max_loops=5,
        verification_focus="NOT NULL, foreign keys",
        body="You check <BUILDER_SESSION_ID> in <DOMAIN>, at most <MAX_LOOPS> times.",
        source="x.md",
    )


def test_tools_may_be_written_after_each_other_and_most_keys_be_left_out() -> None:
    persona = parse_persona("---\r\ntools: read, bash grep\r\nmodel:\r\n---\r\nBody\r\n", "x.md", "given")
    assert (persona.name, persona.tools, persona.model) == ("given", ("read", "bash", "grep"), "")
    assert persona.max_loops == personas.MAX_LOOPS
    assert persona.body == "Body"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "x.md, line 1: expected a line '---'"),
        ("---\nname: x\n", "x.md, line 3: the front matter has no line '---' at its end"),
        (
            "---\nname: x\nwhat is this\n---\nB",
            "x.md, line 3: expected 'key: value' or '- item', not 'what is this'",
        ),
        ("---\nname: x\nname: y\n---\nB", "x.md, line 3: duplicate key name"),
        ("---\n- a\n---\nB", "x.md, line 2: expected 'key: value'"),
        ('---\nname: "x\n---\nB', "x.md, line 2: a text in double quotes must end with one"),
        ("---\nname: 'x\n---\nB", "x.md, line 2: a text in single quotes must end with one"),
        ("---\ntools: [a, b\n---\nB", "x.md, line 2: a list must end with ']'"),
        ("---\nname: &x\n---\nB", "x.md, line 2: '&' starts a YAML construct"),
        (
            "---\nname: x\nmax_loops: often\n---\nB",
            "x.md: max_loops must be an integer from 0 to 100, not 'often'",
        ),
        ("---\nname: x\nmax_loops: 2.5\n---\nB", "max_loops must be an integer"),
        ("---\nname: ../x\n---\nB", "a name has letters"),
        ("---\nname: [a]\n---\nB", "x.md: name must be a text, not a list"),
        ("---\nname: x\n---\n \n", "x.md: there must be a text below"),
        ("---\n" + "".join(f"k{n}: 1\n" for n in range(51)) + "---\nB", "x.md, line 52: more than 50 keys"),
        ("---\nl:\n" + "- x\n" * 101 + "---\nB", "x.md, line 103: a list has at most 100 items"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(PersonaError) as caught:
        parse_persona(text, "x.md")
    assert message in str(caught.value)


# --- finding ----------------------------------------------------------------------------------------------


def minimal(place: Path, name: str, body: str) -> None:
    write(place, f"{name}.md", f"---\nname: {name}\n---\n{body}\n")


def test_a_project_does_not_replace_the_judge_that_was_named(tmp_path: Path) -> None:
    project, config = tmp_path / "project", tmp_path / "config"
    assert load("reviewer", project, config).note == ""
    minimal(project / PLACE, "reviewer", "of the project")
    ours = load("reviewer", project, config)
    assert (ours.source, ours.is_of_project) == ("built in", False)
    assert "which is not used (--persona project:reviewer takes it)" in ours.note
    minimal(config, "reviewer", "of the user")
    assert load("reviewer", project, config).body == "of the user"
    theirs = load("project:reviewer", project, config)
    assert (theirs.name, theirs.body) == ("project:reviewer", "of the project")
    assert "belongs to the project that is verified: " in theirs.note
    minimal(config, "mine", "of the user")
    write(project / PLACE, "posing.md", "---\nname: reviewer\n---\nI pose as another.\n")
    assert load("posing", project, config).name == "posing"
    write(config, "broken.md", "nothing")
    found, faults = available(project, config)
    names = ["mine", "posing", "project:reviewer", "reviewer", "security", "tester"]
    assert [each.name for each in found] == names
    assert [str(each) for each in faults] == [f"{config}/broken.md, line 1: expected a line '---'"]
    with pytest.raises(PersonaError, match="unknown persona 'project:tester'"):
        load("project:tester", project, config)


def test_a_persona_of_a_project_is_a_file_there_and_no_link(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    minimal(elsewhere, "private", "of somebody else")
    (project / PLACE).mkdir(parents=True)
    (project / PLACE / "linked.md").symlink_to(elsewhere / "private.md")
    (project / "secret").write_text("x")
    (project / PLACE / "inside.md").symlink_to(project / "secret")
    os.mkfifo(project / PLACE / "pipe.md")
    for name in ("linked", "inside"):
        with pytest.raises(PersonaError, match="a project's persona can't be a link"):
            load(name, project)
    with pytest.raises(PersonaError, match=r"pipe.md: it is a named pipe, not a regular file"):
        load("pipe", project)
    with pytest.raises(PersonaError, match="unknown persona 'none'"):
        load("none", project, project / PLACE)
    (tmp_path / "other" / PLACE.parent).mkdir(parents=True)
    (tmp_path / "other" / PLACE).symlink_to(elsewhere)
    with pytest.raises(PersonaError, match="a project's persona can't be a link"):
        load("private", tmp_path / "other")


@pytest.mark.parametrize(
    "name", ["../secret", "a/b", "", ".", "..", ".hidden", "/etc/passwd", "a\0b", "x" * 65]
)
def test_a_name_can_not_lead_elsewhere(tmp_path: Path, name: str) -> None:
    write(tmp_path, "secret.md", "---\nname: secret\n---\nB")
    with pytest.raises(PersonaError, match="a persona's name has letters"):
        load(name, tmp_path / "project", tmp_path / "config")


def test_one_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="unknown persona 'nobody'; known are reviewer, security, tester"):
        load("nobody", tmp_path)


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    minimal(tmp_path, "large", "x" * personas.MAX_PERSONA)
    with pytest.raises(PersonaError, match=r"large.md: a persona has at most 65536 bytes"):
        load("large", None, tmp_path)
    (tmp_path / "odd.md").write_bytes(b"---\nname: odd\n---\n\xff")
    with pytest.raises(PersonaError, match=r"odd.md: not UTF-8 at byte 18"):
        load("odd", None, tmp_path)


@pytest.mark.parametrize("name", list(PERSONAS))
def test_those_built_in_are_whole(name: str) -> None:
    persona = load(name)
    assert persona.name == name
    assert persona.description
    assert persona.domain
    prompt = persona.system_prompt(session_id="s-1", session_file="/s.jsonl")
    assert "s-1" in prompt
    assert "/s.jsonl" in prompt
    assert "<" not in prompt
    assert persona.verification_focus in prompt


# --- prompts ----------------------------------------------------------------------------------------------


def test_variables_are_replaced_literally_and_once() -> None:
    values = {"A": r"<B> \1 $A <A>", "B": "b"}
    assert substituted("<A>|<B>|<C>|<a>|< A>", values) == r"<B> \1 $A <A>|b|<C>|<a>|< A>"
    persona = parse_persona(TEXT, "x.md")
    prompt = persona.system_prompt(session_id="<DOMAIN>", session_file="f")
    assert prompt.startswith("You check <DOMAIN> in databases, at most 5 times.")
    assert prompt.endswith("Look at this above all: NOT NULL, foreign keys")


def test_the_prompt_at_the_end_of_a_turn_has_its_facts() -> None:
    event = Event(
        name="stop",
        session_id="s",
        turn_index=3,
        timestamp=1714312800000,
        user_prompt="Add <TURN_INDEX> to it",
        session_file_start_line=4,
        session_file_end_line=19,
    )
    prompt = stop_prompt(event)
    assert "turn 3 (at 1714312800000," in prompt
    assert "Add <TURN_INDEX> to it" in prompt
    assert "lines 4 to 19" in prompt
    assert stop_prompt(event, "<TURN_INDEX>/<SESSION_FILE_END_LINE>") == "3/19"
    bare = Event(name="stop", session_id="s", timestamp=1)
    assert "lines unknown to unknown" in stop_prompt(bare)


def test_a_long_prompt_of_the_user_is_cut() -> None:
    event = Event(name="stop", session_id="s", timestamp=1, user_prompt="x" * 100_000)
    prompt = stop_prompt(event)
    assert len(prompt) < personas.MAX_USER_PROMPT + 2000
    assert "characters left out]" in prompt


def test_a_model_that_does_as_it_is_told_gives_a_report() -> None:
    asked = stop_prompt(Event(name="stop", session_id="s", timestamp=1))
    form = asked[asked.index("## Report") :]
    answer = form.replace("one of verified, failed, unsure", "verified").replace(
        "one of PERFECT,", "PERFECT,"
    )
    assert parse_report(answer, 1).confidence.name == "PERFECT"
