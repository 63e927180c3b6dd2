"""Reflexes: rules of the configuration that answer a signal with an action, without a model.

    [[control.rules]]
    sensor = "session-finished"
    pattern = "error|failed"
    then = { actuator = "notify", title = "{session}", text = "finished: {text}" }

Fields in braces are the signal's: text, session, source, sensor, time, those of its kind, `match`, and the
pattern's groups by number or name. In a command each is quoted for the shell, so no text can become one. What
is typed into a terminal has no control characters, which would be keys; `enter = true` presses Enter.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ..formats.guess import meant
from ..formats.patterns import Pattern, PatternMatch, compiled
from ..formats.shown import middle
from ..system.settings import tables_from
from .signals import FROM_INSIDE, SPOKEN, Action, Signal, control_character

MAX_RULES = 500
MAX_MATCHED = 20_000
"""How many characters of a text a pattern looks at."""
MAX_FIELD = 4000
"""How many characters a field puts into a text."""

FIELDS = ("text", "session", "source", "sensor", "time", "match")
"""What every signal has for a template."""
MISTYPED = 0.85
"""How like one of our sensors another one may be before it is taken for a mistake."""
_FIELD = re.compile(r"\{([A-Za-z0-9_-]+)\}")


class Then(Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule does. `actuator` may also be called `target`."""

    actuator: str = ""
    target: str = ""
    text: str = "{text}"
    title: str = ""
    session: str = ""
    verb: str = ""
    enter: bool = False
    """Press Enter after what is typed."""

    def __post_init__(self) -> None:
        if bool(self.actuator) == bool(self.target):
            raise ValueError("`then` needs an `actuator`")
        if self.verb == "type" and (found := control_character(self.text)):
            raise ValueError(
                f"`text` of a rule that types must not contain {found}; `enter = true` presses Enter"
            )
        if self.enter and self.verb != "type":
            raise ValueError('`enter` is for rules with `verb = "type"`')

    @property
    def name(self) -> str:
        return (self.actuator or self.target).lstrip(":").upper()


class SignalRule(Struct, frozen=True, forbid_unknown_fields=True):
    """For signals of a sensor (or of `*`, any) whose text a pattern is found in."""

    sensor: str
    then: Then
    pattern: str = ""

    def __post_init__(self) -> None:
        try:
            groups = compiled(self.pattern).names
        except ValueError as error:
            raise ValueError(f"`pattern`: {error}") from None
        ours = {**FROM_INSIDE, **dict.fromkeys(SPOKEN, ())}
        sensor = sensor_of(self)
        near = meant(sensor, ours, MISTYPED)
        if sensor not in ours and near:  # else it is one that clients have
            raise ValueError(f"unknown sensor {sensor}{near}")
        known = {*FIELDS, *groups, *ours.get(sensor, ())}
        for field in _FIELD.findall(f"{self.then.text} {self.then.title} {self.then.session}"):
            if field not in known and (sensor in ours or field.isdigit()):
                hint = meant(field, known) or f"; known are {', '.join(sorted(known))}"
                raise ValueError(f"{sensor} has no field {{{field}}}{hint}")


def rules_from(value: object, where: str = "[[control.rules]]") -> tuple[SignalRule, ...]:
    """The rules of a configuration. Raises ValueError that says which one is wrong."""
    return tables_from(value, SignalRule, where, MAX_RULES)


def sensor_of(rule: SignalRule) -> str:
    """The name of a rule's sensor as signals have it."""
    return rule.sensor.lstrip(":").lower()


class Reflexes:
    """The rules by their sensors. `refresh` is called before they are looked at, and may replace them."""

    def __init__(self, rules: Sequence[SignalRule] = (), refresh: Callable[[], None] = lambda: None) -> None:
        self._rules: dict[str, list[tuple[Pattern, Then]]] = {}
        self._refresh = refresh
        self.replace(rules)

    def replace(self, rules: Sequence[SignalRule]) -> None:
        """Follow these rules from now on."""
        self._rules = {}
        for rule in rules:
            self._rules.setdefault(sensor_of(rule), []).append((compiled(rule.pattern), rule.then))

    def actions(self, signal: Signal) -> list[Action]:
        """What the rules that fit want to be done."""
        self._refresh()
        found = (*self._rules.get(signal.sensor, ()), *self._rules.get("*", ()))
        if not found:
            return []
        text = signal.text[:MAX_MATCHED].removesuffix("\n")
        made = []
        for pattern, then in found:
            if match := pattern.search(text):
                made.append(_action(then, signal, match))
        return made


def _action(then: Then, signal: Signal, match: PatternMatch) -> Action:
    fields = {  # those of FIELDS, and others
        **signal.fields,
        "text": signal.text,
        "session": signal.session or "",
        "source": signal.source,
        "sensor": signal.sensor,
        "time": time.strftime("%H:%M:%S"),
        "match": match[0],
        **{str(number): group or "" for number, group in enumerate(match.groups(), 1)},
        **{name: group or "" for name, group in match.groupdict().items()},
    }
    is_command = then.name == "SHELL" or then.verb == "type"
    return Action(
        then.name,
        filled(then.text, fields, quoted=is_command),
        then.verb,
        " ".join(filled(then.title, fields).split()),
        filled(then.session, fields) or signal.session,
        signal.depth,
        then.enter,
    )


def filled(template: str, fields: Mapping[str, str], *, quoted: bool = False) -> str:
    """The template with its fields; one that a client did not send is empty.

    >>> filled("say {text}", {"text": "$(date)"}, quoted=True)
    "say '$(date)'"
    """

    def value(found: re.Match[str]) -> str:
        text = fields.get(found[1], "")
        text = text[:MAX_FIELD] if quoted else middle(text, MAX_FIELD)
        return shlex.quote(text) if quoted else text

    return _FIELD.sub(value, template)
