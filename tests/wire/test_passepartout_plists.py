"""Passepartout's plists: making and reading them, and what the sanitizer takes out of them."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.sexp import Keyword, SexpError, Symbol, dumps, loads
from fairlead.wire.passepartout import is_plist, plist, proto_get, sanitized

# --- making and knowing -----------------------------------------------------------------------------------


def test_a_plist_is_made_of_python_names() -> None:
    assert plist(type=Keyword("EVENT"), checked_p=True, reply_stream=[]) == loads(
        "(:TYPE :EVENT :CHECKED-P T :REPLY-STREAM NIL)"
    )
    assert plist() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NIL", True),
        ("(:A 1)", True),
        ("(:A :B)", True),
        ("(:A 1 :A 2)", True),
        ("(:A)", False),
        ("(:A 1 :B)", False),
        ("(A 1)", False),
        ('("A" 1)', False),
        ("(:A 1 2 3)", False),
        ("(:A . 1)", False),
        ("#(:A 1)", False),
        (":A", False),
        ('"A"', False),
    ],
)
def test_a_plist_is_keywords_each_with_a_value(text: str, expected: bool) -> None:
    assert is_plist(loads(text)) is expected


# --- reading ----------------------------------------------------------------------------------------------

NESTED = loads('(:Type :EVENT :|payLoad| (:TEXT "hi" :Meta (:|source| :TUI)) :empty NIL :type :LOG)')


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (["type"], Keyword("EVENT")),
        (["TYPE"], Keyword("EVENT")),
        (["tYpE"], Keyword("EVENT")),
        (["payload", "text"], "hi"),
        (["PAYLOAD", "Text"], "hi"),
        (["payload", "META", "Source"], Keyword("TUI")),
        (["empty"], []),
        ([], NESTED),
    ],
)
def test_a_plist_is_read_in_any_case_of_its_keys(path: list[str], found: Any) -> None:
    assert proto_get(NESTED, *path) == found
    assert proto_get(NESTED, *path, default="default") == found


@pytest.mark.parametrize("path", [["x"], ["payload", "x"], ["x", "text"], ["type", "text"], ["empty", "x"]])
def test_what_a_plist_lacks_is_the_default(path: list[str]) -> None:
    assert proto_get(NESTED, *path) is None
    assert proto_get(NESTED, *path, default="default") == "default"


@pytest.mark.parametrize(
    "text", ["5", ":TYPE", '"TYPE"', "#(:TYPE 1)", "(:TYPE . 1)", "(:TYPE 1 . 2)", "NIL"]
)
def test_what_is_no_list_has_no_keys(text: str) -> None:
    assert proto_get(loads(text), "type") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(:A 1 :TYPE)", None),
        ("(:TYPE 1 :A)", 1),
        ("(:A :TYPE :B 1)", None),
        ("(TYPE 1)", None),
        ('("TYPE" 1 :TYPE 2)', 2),
        ("(1 2 :TYPE 3)", 3),
        ("(1 :TYPE 3)", None),
    ],
)
def test_only_keywords_in_the_place_of_keys_are_keys(text: str, found: Any) -> None:
    assert proto_get(loads(text), "type") == found


# --- the sanitizer ----------------------------------------------------------------------------------------

STRIPPED = {
    "(:TYPE :EVENT :REPLY-STREAM 1)": "(:TYPE :EVENT)",
    "(:SOCKET 1 :TYPE :EVENT :STREAM 2)": "(:TYPE :EVENT)",
    "(:STREAM 1)": "NIL",
    "(:STREAM 1 :STREAM 2 :A 3 :STREAM 4)": "(:A 3)",
    "(:STREAM NIL :A NIL)": "(:A NIL)",
    "(:|stream| 1 :|Reply-Stream| 2 :|sOCKET| 3 :A 4)": "(:A 4)",
    "(:A (:SOCKET 1 :B 2))": "(:A (:B 2))",
    "(:A (:SOCKET 1))": "(:A NIL)",
    "(:A (:B (:C (:STREAM (:D 1) :E 2))))": "(:A (:B (:C (:E 2))))",
    "(:GATE-TRACE ((:GATE A :STREAM 1) (:GATE B :SOCKET 2)))": "(:GATE-TRACE ((:GATE A) (:GATE B)))",
    "((:STREAM 1) (:A 2))": "(NIL (:A 2))",
    "(1 (:A 1 :SOCKET 2) 3)": "(1 (:A 1) 3)",
    "(:A 1 (:B 2 :STREAM 3))": "(:A 1 (:B 2))",
    "(:STREAM (:SOCKET))": "NIL",
}
KEPT = [
    "NIL",
    "5",
    '"STREAM"',
    ":STREAM",
    "(:STREAM)",
    "(:A :B :C)",
    "(:A 1 :SOCKET)",
    "(:SOCKET 1 :A)",
    "(1 2 3)",
    "(1 2 3 4)",
    "(:STREAM :SOCKET)",
    "(:STREAM :SOCKET :REPLY-STREAM)",
    "(:STREAM :SOCKET :REPLY-STREAM :FILE)",
    "(:FILE :STREAM)",
    "(:FILE :STREAM :SOCKET :PIPE)",
    "(:KINDS (:STREAM :SOCKET))",
    "(:ACTION :STREAM)",
    "(:SOCKET 1 2 3)",
    "(:A 1 2 :STREAM)",
    "(STREAM 1 SOCKET 2)",
    '("STREAM" 1)',
    "(:STREAMS 1 :A-SOCKET 2)",
    "(:A 1 . :SOCKET)",
    "(:SOCKET . 1)",
    "#(:STREAM 1)",
    "(:A #((:STREAM 1)))",
]


@pytest.mark.parametrize(("text", "expected"), STRIPPED.items())
def test_transient_keys_are_stripped_from_plists_at_any_depth(text: str, expected: str) -> None:
    assert dumps(sanitized(loads(text))) == expected


@pytest.mark.parametrize("text", KEPT)
def test_every_other_list_stays_as_it_was(text: str) -> None:
    assert dumps(sanitized(loads(text))) == dumps(loads(text))


@pytest.mark.parametrize("text", [*STRIPPED, *KEPT])
def test_what_is_sanitized_is_not_changed_itself(text: str) -> None:
    value = loads(text)
    before = deepcopy(value)
    sanitized(value)
    assert value == before


def test_the_deepest_plist_is_stripped() -> None:
    text = "(:A " * 255 + "(:B 1 :SOCKET 2)" + ")" * 255
    assert dumps(sanitized(loads(text))) == "(:A " * 255 + "(:B 1)" + ")" * 255


def test_lists_that_nest_too_deep_to_be_sent_are_an_error() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(SexpError, match=r"^the value nests deeper than 256, or holds itself$"):
        sanitized(endless)


keywords = st.sampled_from(["A", "B", "STREAM", "SOCKET", "REPLY-STREAM", "socket"]).map(Keyword)
scalars = st.one_of(keywords, st.integers(), st.just(Symbol("STREAM")), st.just("STREAM"))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=6), max_leaves=30)


def lists_in(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    return [value, *(found for item in value for found in lists_in(item))]


@given(values)
def test_nothing_is_added_and_plists_have_no_transient_keys(value: Any) -> None:
    clean = sanitized(value)
    assert sanitized(clean) == clean
    assert len(dumps(clean)) <= max(len(dumps(value)), len("NIL"))
    for found in filter(is_plist, lists_in(clean)):
        names = {item.name.upper() for item in found[1::2] if isinstance(item, Keyword)}
        if not names & {"STREAM", "SOCKET", "REPLY-STREAM"}:
            assert not {key.name.upper() for key in found[::2]} & {"STREAM", "SOCKET", "REPLY-STREAM"}
