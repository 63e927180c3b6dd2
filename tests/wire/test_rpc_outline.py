"""A line of a server is known without reading its data, whatever that and the ids in it look like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import Error, Event, EventData, Outline, Response, encode, fields, outline

MARKS = (', :seq 5, :ts "now"}', ', :id "x"', ', :session-id "s", :cursor "c"}', ", :data {", '"', "\\", "}")
texts = st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=5)), max_size=4).map("".join)
ids = texts.filter(lambda text: 0 < len(text) <= 256)
maps = st.dictionaries(
    st.sampled_from([Keyword(name) for name in ("text", "seq", "ts", "id", "session-id", "cursor")]),
    st.one_of(texts, st.integers(0, 9), st.lists(texts, max_size=2)),
)
ts = "2026-01-02T03:04:05.678Z"


def lined(frame: Any) -> Outline:
    line = encode(frame).rstrip(b"\n")
    found = outline(line)
    assert found is not None
    assert found.line == line
    return found


@given(maps, st.none() | ids, st.integers(1, 2**62), st.integers(1, 2**62))
def test_an_event_is_known_by_its_ends(data: dict[Any, Any], id: str | None, seq: int, other: int) -> None:
    found = lined(Event("assistant/delta", data, id, seq, ts))
    assert (found.topic, found.seq, found.data()) == ("assistant/delta", seq, data)
    assert found.numbered(other) + b"\n" == encode(Event("assistant/delta", data, id, other, ts))


@given(maps, ids.filter(lambda text: text.isascii()), ids, st.none() | ids)
def test_an_event_s_place_is_its_session_and_its_cursor(
    data: dict[Any, Any], session: str, cursor: str, id: str | None
) -> None:
    for key in ("session-id", "cursor"):
        data.pop(Keyword(key), None)
    assert lined(Event("a", data, id, 1, ts)).place() is None or Keyword("cursor") in data
    plain = "".join(each for each in cursor if each not in '"\\' and each.isprintable()) or "c"
    for told in (
        {**data, **fields(session_id=session, cursor=plain)},
        {**fields(session_id=session), **data, **fields(cursor=plain)},
    ):
        assert lined(Event("a", told, id, 1, ts)).place() == (session, plain)


@given(ids, maps)
def test_a_response_is_known_by_its_beginning(id: str, data: dict[Any, Any]) -> None:
    found = lined(Response(id, "get_state", data))
    assert (found.topic, found.id, found.op, found.code) == ("", id, "get_state", "")
    assert found.data() == data


@given(st.none() | ids, st.none() | ids, texts.filter(bool))
def test_an_error_is_known(id: str | None, op: str | None, message: str) -> None:
    found = lined(Error("runtime/failed", message, id, op))
    assert (found.topic, found.id, found.op, found.code) == ("", id, op or "", "runtime/failed")


def test_an_event_without_a_number_has_none() -> None:
    found = lined(Event("key/wanted", fields(variable="X")))
    assert (found.topic, found.seq, found.data()) == ("key/wanted", None, fields(variable="X"))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"nonsense",
        b'{:kind :event, :event "a"}',
        b'{:kind :event, :event "a',
        b'{:kind :error, "',
        b'{:id "x',
        b'{:id "x", :kind :request, :op "y"}',
        b'{:id "\\q", :kind :response, :op "y"}',
        b'{:kind :event, :event "a", :data {}", :seq 1, :ts "x"}',
    ],
)
def test_a_line_that_is_written_in_another_way_is_none(line: bytes) -> None:
    assert outline(line) is None


@given(maps, st.none() | ids, st.none() | st.integers(1, 99), st.sampled_from([None, ts]))
def test_an_event_for_many_is_written_once_and_as_for_one(
    data: dict[Any, Any], id: str | None, seq: int | None, time: str | None
) -> None:
    shared = EventData(data)
    once = encode(Event("error", shared))
    assert shared.written
    shared[Keyword("later")] = 1  # which is not looked at any more
    line = encode(Event("error", shared, id, seq, time))
    assert line == encode(Event("error", data, id, seq, time))
    more = {":id": id, ":seq": seq, ":ts": time}
    written = {Keyword(key[1:]): value for key, value in more.items() if value is not None}
    envelope = {Keyword("kind"): Keyword("event"), Keyword("event"): "error", Keyword("data"): data}
    assert line.decode() == edn.dumps({**envelope, **written}, dialect=edn.PLAIN) + "\n"
    assert once == encode(Event("error", data))
