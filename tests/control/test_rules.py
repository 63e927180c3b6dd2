"""Reflexes: which rules fit, and what they put into their templates."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.control.rules import MAX_RULES, Reflexes, filled, rules_from
from fairlead.control.signals import Signal


def actions(signal: Signal, *rules: dict[str, Any]) -> list[Any]:
    return Reflexes(rules_from(list(rules))).actions(signal)


def test_a_rule_fits_by_sensor_and_pattern() -> None:
    rule = {"sensor": ":SESSION-FINISHED", "pattern": "(?i)error", "then": {"actuator": ":log"}}
    assert [each.target for each in actions(Signal("session-finished", text="An ERROR"), rule)] == ["LOG"]
    assert actions(Signal("session-finished", text="fine"), rule) == []
    assert actions(Signal("session-failed", text="error"), rule) == []
    anything = {"sensor": "*", "then": {"actuator": "log"}}
    assert len(actions(Signal("whatever"), rule, anything)) == 1


def test_fields_of_the_signal_and_groups_of_the_pattern_fill_the_template() -> None:
    then = {
        "target": "notify",
        "title": "{session} ({source})",
        "text": "{sensor}: {1} {who} {match} {outcome} {nothing}{ not a field }",
        "session": "other-{session}",
    }
    signal = Signal("x", "tui", "ask bob now", "s1", depth=3, fields={"outcome": "done"})
    (action,) = actions(signal, {"sensor": "x", "pattern": "ask (?P<who>\\w+)", "then": then})
    assert action.title == "s1 (tui)"
    assert action.text == "x: bob bob ask bob done { not a field }"
    assert (action.session, action.depth) == ("other-s1", 3)


def test_fields_can_reach_nothing_else_and_are_quoted_in_commands() -> None:
    assert filled("{text.__class__} {0}", {"text": "x"}) == "{text.__class__} "
    assert filled("{text}", {"text": "{session}", "session": "s"}) == "{session}"
    for verb, target in (("", "shell"), ("type", "session")):
        then = {"actuator": target, "text": "echo {text}", "verb": verb, "session": "s"}
        (action,) = actions(Signal("x", text="'; rm -rf / #"), {"sensor": "x", "then": then})
        assert action.text == "echo ''\"'\"'; rm -rf / #'"


def test_enter_is_a_word_of_the_rule_and_no_character_of_its_text() -> None:
    then = {"actuator": "session", "verb": "type", "session": "s", "text": "echo {text}", "enter": True}
    (action,) = actions(Signal("x", text="hi"), {"sensor": "x", "then": then})
    assert (action.text, action.enter, action.summary) == ("echo hi", True, "s echo hi ⏎")
    del then["enter"]
    (action,) = actions(Signal("x", text="hi"), {"sensor": "x", "then": then})
    assert not action.enter


def test_a_title_is_one_line() -> None:
    then = {"actuator": "notify", "title": "{text}"}
    (action,) = actions(Signal("x", text="a\r\nBcc: b"), {"sensor": "x", "then": then})
    assert action.title == "a Bcc: b"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "must be a list of tables"),
        ([{"sensor": "x"}], "number 1: .*then"),
        ([{"sensor": "x", "then": {}}], "`then` needs an `actuator`"),
        ([{"sensor": "x", "then": {"actuator": "a", "target": "b"}}], "`then` needs an `actuator`"),
        ([{"sensor": "x", "then": {"actuator": "a", "colour": "b"}}], "colour"),
        ([{"sensor": "x", "pattern": "(", "then": {"actuator": "a"}}], "`pattern`"),
        (
            [{"sensor": "x", "then": {"actuator": "session", "verb": "type", "text": "make\r"}}],
            r"must not contain \\r; `enter = true` presses Enter",
        ),
        ([{"sensor": "x", "then": {"actuator": "notify", "enter": True}}], '`verb = "type"`'),
        ([{"sensor": "x", "then": {"actuator": "a"}}] * (MAX_RULES + 1), "at most 500 rules"),
    ],
)
def test_a_wrong_rule_is_named(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rules_from(value)


def test_a_pattern_that_backtracks_for_ages_is_answered_at_once() -> None:
    (rule,) = rules_from([{"sensor": "*", "pattern": "(a+)+$", "then": {"actuator": "notify"}}])
    assert Reflexes([rule]).actions(Signal("event", text="a" * 5000 + "!")) == []


def test_a_pattern_that_cannot_be_linear_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="backreferences"):
        rules_from([{"sensor": "*", "pattern": r"(a)\1", "then": {"actuator": "notify"}}])
