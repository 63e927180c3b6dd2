"""The words of a command line: how they are read, refused, and told about in the help."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.cli import COMMANDS, GROUPS, command_of, main
from fairlead.cli.arguments import (
    SESSION,
    Argument,
    Command,
    HelpWanted,
    Option,
    UsageError,
    count,
    lines,
    parsed,
    seconds,
)

COMMAND = Command(
    "try",
    "Try it.",
    takes=(SESSION, Argument("text", "what", optional=True)),
    options=(
        Option("-d", "--dry-run", help="don't"),
        Option("-q", "--quiet", help="say nothing"),
        Option("-n", "--lines", value="N", kind=lines, help="how many"),
        Option("-k", "--key", value="KEY", many=True, help="keys"),
        Option("--wait", value="SECONDS", kind=seconds, help="how long"),
        Option("--cols", value="N", kind=count, help="how wide"),
    ),
    either=("dry_run", "quiet"),
)
TAILED = Command("run", "Run it.", takes=(SESSION,), tail="COMMAND…")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["a"], {"name": "a", "text": None, "dry_run": False, "lines": None, "key": []}),
        (["a", "b"], {"name": "a", "text": "b"}),
        (["-d", "a"], {"name": "a", "dry_run": True}),
        (["a", "--dry-run"], {"name": "a", "dry_run": True}),
        (["a", "-n", "5"], {"lines": 5}),
        (["a", "-n5"], {"lines": 5}),
        (["a", "-qn5"], {"quiet": True, "lines": 5}),
        (["a", "--lines=0"], {"lines": 0}),
        (["a", "--key", "-x", "-kUp", "--key="], {"key": ["-x", "Up", ""]}),
        (["a", "-"], {"text": "-"}),
        (["a", ""], {"text": ""}),
        (["a", "--", "-d"], {"text": "-d", "dry_run": False}),
        (["a", "--wait", "0.5", "--cols", "3"], {"wait": 0.5, "cols": 3}),
    ],
)
def test_words_are_read(words: list[str], wanted: dict[str, Any]) -> None:
    options = parsed(COMMAND, words)
    assert {name: getattr(options, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "missing NAME; usage: fairlead try [OPTION…] NAME [TEXT]"),
        (["a", "b", "c"], "unexpected argument 'c'"),
        (["a", "-x"], "unknown option -x"),
        (["a", "--qiet"], "unknown option --qiet; did you mean --quiet?"),
        (["a", "--quiet=1"], "--quiet takes no value"),
        (["a", "-n"], "-n needs a value: N"),
        (["a", "-n", "-1"], "-n must be an integer of at least 1, not '-1'"),
        (["a", "--cols", "0"], "--cols must be an integer of at least 1, not '0'"),
        (["a", "--cols", "²"], "--cols must be an integer of at least 1, not '²'"),
        (["a", "--wait", "soon"], "--wait must be a number of seconds, not 'soon'"),
        (["a", "--wait", "nan"], "--wait must be a number of seconds, not 'nan'"),
        (["a", "--wait=-1"], "--wait must be a number of seconds, not '-1'"),
        (["a", "-dq"], "--dry-run and --quiet can't be combined"),
    ],
)
def test_wrong_usage_is_told_in_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(COMMAND, words)
    assert str(caught.value) == message


def test_what_comes_after_two_dashes_belongs_to_the_program() -> None:
    assert parsed(TAILED, ["a", "--", "ls", "-l", "--", "x"]).tail == ["ls", "-l", "--", "x"]
    assert parsed(TAILED, ["a"]).tail == []
    with pytest.raises(UsageError, match=r"put the command after --: -- ls$"):
        parsed(TAILED, ["a", "ls"])


def test_a_choice_is_one_of_those_that_there_are() -> None:
    command = Command("pick", "Pick.", takes=(Argument("color", "which", choices=("red", "blue")),))
    assert parsed(command, ["red"]).color == "red"
    with pytest.raises(UsageError, match="'green' is not one of red, blue"):
        parsed(command, ["green"])


def test_help_is_wanted_wherever_it_is_asked_for() -> None:
    for words in (["-h"], ["a", "--help"], ["-dh"]):
        with pytest.raises(HelpWanted):
            parsed(COMMAND, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = command_of(name)
    assert command is not None
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert main(["help", name]) == 0
    assert capsys.readouterr().out == text
    assert text.split("\n")[0].rstrip().startswith(f"usage: fairlead {name}")
    assert 2 <= len(command.examples) <= 5
    assert max(map(len, text.splitlines())) <= 110
    for option in command.options:
        assert option.shown in text
    for code in (0, 1, 2):
        assert f"\n    {code} " in text


def test_the_help_of_all_shows_each_command_once_and_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, what in COMMANDS.items():
        assert text.count(f"    {name:<12}{what}\n") == 1
    for title in GROUPS:
        assert f"\n{title}:\n" in text


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("atach", "; did you mean attach?"),
        ("serach", "; did you mean search?"),
        ("kill-session", "; use `fairlead stop NAME`"),
        ("tail", "; use `fairlead logs -f NAME`"),
        ("xyzzy", "; `fairlead --help` lists them"),
    ],
)
def test_a_command_that_is_none_gets_a_hint(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err == f"fairlead: no command {word!r}{hint}\n"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fairlead 0.")
