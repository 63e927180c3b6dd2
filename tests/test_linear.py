"""Whatever matches text of users, models or programs takes time linear in it: nothing may stall the loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from fairlead.agent.consent.commands import MAX_JUDGED, take_apart
from fairlead.agent.consent.policy import ConsentRule, Policy
from fairlead.agent.consent.wildcards import wildcard
from fairlead.agent.secrets import Redactor, is_secret_file, is_secret_name, secret_values
from fairlead.agent.tools import Touch
from fairlead.agent.tools.ripgrep import _read
from fairlead.control.rules import Reflexes, filled, rules_from
from fairlead.control.signals import Action, Signal, control_character
from fairlead.formats import front_matter
from fairlead.formats.guess import meant
from fairlead.formats.printed import Printed
from fairlead.system.database import containing, words_of

SHORT, LONG = 250_000, 1_000_000
"""Sizes that are compared."""
SLACK = 3.0
"""How much more than four times the work four times the text may take."""
LEAST = 0.01
"""Seconds below which a measurement says nothing."""

REDACTOR = Redactor(["sk-12345678", "a" * 40 + "b", "key of\nseveral lines"])
REFLEXES = Reflexes(rules_from([{"sensor": "*", "pattern": "(a+)+x$", "then": {"actuator": "log"}}]))
POLICY = Policy(
    Path("/project"),
    (
        ConsentRule("bash", "allow", match="git *"),
        ConsentRule("bash", "ask", match="*push*x*"),
        ConsentRule("bash", "deny", match="rm *"),
    ),
)


def _judged(text: str) -> object:
    return POLICY.judge("bash", Touch("run", "", command=text))


MATCHERS: dict[str, Callable[[str], object]] = {
    "policy": _judged,
    "redactor": REDACTOR.text,
    "unfinished": REDACTOR.unfinished,
    "secret values": lambda text: secret_values({"X": text}),
    "secret file": lambda text: is_secret_file(PurePath(text)),
    "secret name": is_secret_name,
    "rules": lambda text: REFLEXES.actions(Signal("x", text=text)),
    "template": lambda text: filled(text, {"a": "b"}, quoted=True),
    "summary": lambda text: Action("SHELL", text).summary,
    "control characters": control_character,
    "guess": lambda text: meant(text, [text, "work", text[:60]]),
    "words": words_of,
    "like": containing,
    "printed": lambda text: Printed().feed(text.encode()),
    "wildcard": lambda text: wildcard("*a*b*c*[x]").possibly(text[: len(text) // 10]),
}
UNITS = ["a", "a.", "ab ", "a://b:", "\x1b[5Ca", "a\b", "\x1b]", "{a", "$(", "%", "_KEY", "/."]


def spent(work: Callable[[str], object], text: str) -> float:
    before = time.thread_time()
    work(text)
    return time.thread_time() - before


@pytest.mark.parametrize("name", MATCHERS)
def test_a_megabyte_takes_no_more_than_its_share(name: str) -> None:
    work = MATCHERS[name]
    for unit in UNITS:
        short = unit * (SHORT // len(unit) // 10)
        long = unit * (LONG // len(unit) // 10)
        work(short[:1000])
        took = spent(work, short), spent(work, long)
        assert took[1] < 4 * SLACK * max(took[0], LEAST), (unit, took)
        assert spent(work, unit * (LONG // len(unit))) < 40 * SLACK * max(took[0], LEAST), unit


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "a ",
            "a;",
            "$(",
            "'a'",
            "$x ",
            "{a,b}",
            "{a,b} ",
            "<<A ",
            "sudo ",
            "env -S '",
            "eval ",
            "xargs ",
        ),
        "find -exec rm ; ",
        "`\\\\",
        "${x:-",
        "case x in ",
        "git -C . ",
        "\\\n",
        "((",
        "[[ ",
        "[",
        "a=(",
        "\\",
    ],
)
def test_a_command_as_long_as_may_be_is_read_in_linear_time(unit: str) -> None:
    quarter = unit * (MAX_JUDGED // 4 // len(unit))
    take_apart(quarter)
    short = min(spent(_judged, quarter) for _ in range(2))
    long = min(spent(_judged, 4 * quarter) for _ in range(2))
    assert long < 4 * SLACK * max(short, LEAST / 2)


def test_the_ignore_file_of_a_hostile_repository_is_read_in_linear_time(tmp_path: Path) -> None:
    def read(size: int) -> float:
        (tmp_path / ".gitignore").write_text(f"a{' ' * size}b\\  \n*.log  \n")
        return spent(lambda path: list(_read(path, str(tmp_path))), str(tmp_path / ".gitignore"))

    read(10)
    short = min(read(LONG // 200) for _ in range(3))
    long = min(read(LONG // 25) for _ in range(3))
    assert long < 8 * SLACK * max(short, LEAST)


def test_far_too_long_a_command_is_not_read_at_all() -> None:
    """100 KB took 13 seconds and 2 GB."""
    for unit in ("a ", "sudo ", "$("):
        assert spent(_judged, unit * (LONG // len(unit))) < LEAST * 10


@pytest.mark.parametrize(
    "form",
    [
        ("[", "'", '"]'),
        ("[", '"', "']"),
        ("[", "'a',", "'"),
        ("[", "a ", '"'),
        ("[", " ", "'"),
        ("[", '\\"', "]"),
        ("'", "''", "x"),
        ('"', "\\\\", "x"),
        ("a", " #", ""),
        ("a", " ", "#"),
        ("", "a:", ""),
        ("", "- ", ""),
    ],
)
def test_the_head_of_a_hostile_skill_is_read_in_linear_time(
    form: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """28 seconds for one line of 9,000 quotes, and no other client was answered meanwhile."""
    monkeypatch.setattr(front_matter, "MAX_LINE", LONG)
    before, unit, after = form

    def read(size: int) -> float:
        line = f"description: {before}{unit * (size // len(unit))}{after}"
        return min(spent(parse, f"---\n{line}\n---\nB") for _ in range(2))

    def parse(text: str) -> None:
        with contextlib.suppress(front_matter.FrontMatterError):
            front_matter.front_matter(text, "SKILL.md")

    size = LONG // 400
    read(100)
    assert read(4 * size) < 4 * SLACK * max(read(size), LEAST / 2)
