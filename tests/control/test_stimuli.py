"""What a client's message is to the loop."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.control.signals import CHANNELS, FROM_INSIDE, MAX_TEXT, Priority, Signal
from fairlead.control.stimuli import FORGED, CancelAnswer, hear
from fairlead.formats.sexp import Keyword, loads
from fairlead.wire.passepartout import Message
from tests.control.rooms import Client


class Nobody(Client):
    def __init__(self) -> None:
        self.is_open = True


def heard(text: str) -> tuple[Any, list[str]]:
    return hear(Message(loads(text)), Nobody())


def test_user_input_is_a_signal_with_its_session_and_channel() -> None:
    what, refused = heard(
        '(:type :event :meta (:source :TUI :session "s1") :payload (:sensor :user-input :text "é" :id 7))'
    )
    assert refused == []
    assert isinstance(what, Signal)
    assert (what.sensor, what.source, what.text, what.session) == ("user-input", "tui", "é", "s1")
    assert (what.depth, what.priority, dict(what.fields)) == (0, Priority.PERSON, {"id": "7"})


def test_answers_to_questions_come_first() -> None:
    for text in ("/approve 1", "/deny 1", "/status"):
        what, _ = heard(f'(:TYPE :EVENT :PAYLOAD (:SENSOR :USER-INPUT :TEXT "{text}"))')
        assert what.priority == Priority.URGENT


def test_both_ways_to_cancel() -> None:
    assert heard("(:TYPE :EVENT :PAYLOAD (:ACTION :CANCEL-STREAM))") == (CancelAnswer(None), [])
    assert heard('(:TYPE :EVENT :META (:SESSION "s") :PAYLOAD (:SENSOR :INTERRUPT))') == (
        CancelAnswer("s"),
        [],
    )


@pytest.mark.parametrize("kind", ["REQUEST", "RESPONSE", "LOG", "STATUS"])
def test_only_events_enter(kind: str) -> None:
    what, (why,) = heard(f'(:TYPE :{kind} :PAYLOAD (:ACTION :MESSAGE :TEXT "x"))')
    assert what is None
    assert why == f"a {kind} from a client is ignored; send an EVENT"


@pytest.mark.parametrize("sensor", sorted(FROM_INSIDE))
def test_sensors_from_inside_are_not_believed(sensor: str) -> None:
    what, (why,) = heard(f'(:TYPE :EVENT :PAYLOAD (:SENSOR :{sensor} :TEXT "x"))')
    assert what is None
    assert why == f"clients can't send the sensor :{sensor.upper()}"


@pytest.mark.parametrize("key", sorted(FORGED))
@pytest.mark.parametrize("place", ["top", "meta", "payload"])
def test_what_is_the_daemons_to_say_is_dropped(key: str, place: str) -> None:
    extra = {name: f":{key.lower()} 99" if name == place else "" for name in ("top", "meta", "payload")}
    what, refused = heard(
        f"(:TYPE :EVENT {extra['top']} :META (:SOURCE :CLI {extra['meta']})"
        f' :PAYLOAD (:SENSOR :USER-INPUT :TEXT "x" {extra["payload"]}))'
    )
    assert refused == [f":{key} was dropped: clients can't set it"]
    assert isinstance(what, Signal)
    assert (what.depth, what.status, dict(what.fields)) == (0, "heard", {})


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("", "an event needs a :PAYLOAD that is a plist"),
        (":PAYLOAD (1 2 3)", "an event needs a :PAYLOAD that is a plist"),
        (":PAYLOAD (:X 1)", "an event needs a :SENSOR, or the :ACTION :CANCEL-STREAM"),
        (':PAYLOAD (:SENSOR "user-input")', "an event needs a :SENSOR, or the :ACTION :CANCEL-STREAM"),
        (
            ":PAYLOAD (:SENSOR :USER-INPUT :TEXT 7)",
            f":TEXT must be a string of at most {MAX_TEXT} characters",
        ),
        (':PAYLOAD (:SENSOR :USER-INPUT :TEXT " ")', "a :USER-INPUT needs a :TEXT"),
        (
            ':META (:SESSION 7) :PAYLOAD (:SENSOR :USER-INPUT :TEXT "x")',
            ":SESSION must be a string of 1 to 256 characters",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_said(rest: str, why: str) -> None:
    assert heard(f"(:TYPE :EVENT {rest})") == (None, [why])


WORDS = ["USER-INPUT", "TUI", "daemon", "APPROVED", "CANCEL-STREAM", "tool-output"]
KEYS = ["META", "PAYLOAD", "SOURCE", "SENSOR", "TEXT", "SESSION", "ACTION", *FORGED]


def flat(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [item for pair in pairs for item in pair]


values = st.recursive(
    st.sampled_from([True, 0, 7, "", "x", "/approve x", *map(Keyword, WORDS)]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)
keys = st.sampled_from(KEYS).map(Keyword)
plists = st.recursive(
    st.lists(st.tuples(keys, values), max_size=4).map(flat),
    lambda inner: st.lists(st.tuples(keys, inner | values), max_size=4).map(flat),
    max_leaves=6,
)


@given(plists)
def test_no_event_whatever_it_says_gets_more_than_a_client_may(plist: list[Any]) -> None:
    what, refused = hear(Message([Keyword("TYPE"), Keyword("EVENT"), *plist]), Nobody())
    assert what is not None or refused
    if isinstance(what, Signal):
        assert what.source in CHANNELS
        assert what.depth == 0
        assert what.sensor not in FROM_INSIDE
        assert not FORGED & {name.upper() for name in what.fields}
