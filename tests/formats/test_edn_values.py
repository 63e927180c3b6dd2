"""EDN's own values: keywords, symbols, characters, tags, frozen collections."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

from fairlead.formats import edn, sexp
from fairlead.formats.edn import (
    BigInt,
    Char,
    Distinct,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
    dumps,
    loads,
)
from tests.formats.exactly import exactly


@pytest.mark.parametrize("kind", [Keyword, Symbol, sexp.Keyword])
def test_equal_names_are_the_same_object(kind: Any) -> None:
    name = kind("ab")
    assert kind("".join(["a", "b"])) is name
    assert copy.copy(name) is name
    assert copy.deepcopy([name])[0] is name
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(name, protocol)) is name


@pytest.mark.parametrize("kind", [Keyword, Symbol, sexp.Keyword])
def test_a_name_can_t_be_changed(kind: Any) -> None:
    name = kind("ab")
    for attribute in ("name", "literal", "other"):
        with pytest.raises(AttributeError, match=f"a {kind.__name__} can't be changed"):
            setattr(name, attribute, "x")
        with pytest.raises(AttributeError, match=f"a {kind.__name__} can't be changed"):
            delattr(name, attribute)
    assert (name.name, kind("ab")) == ("ab", name)


def test_names_of_different_kinds_are_never_equal() -> None:
    names: list[Any] = [Keyword("a"), Symbol("a"), sexp.Keyword("a"), sexp.Symbol("a"), "a", ":a"]
    assert len(set(names)) == len(names)


def test_a_name_shows_itself_as_python_and_as_text() -> None:
    assert (repr(Keyword("a/b")), str(Keyword("a/b"))) == ("Keyword('a/b')", ":a/b")
    assert (repr(Symbol("a/b")), str(Symbol("a/b"))) == ("Symbol('a/b')", "a/b")
    assert Keyword("a").literal == ":a"


@pytest.mark.parametrize(
    ("name", "namespace", "local"),
    [
        ("a", None, "a"),
        ("a/b", "a", "b"),
        ("a.b/c.d", "a.b", "c.d"),
        ("a/b/c", "a", "b/c"),
        ("/", None, "/"),
        ("a//", "a", "/"),
    ],
)
def test_a_name_has_a_namespace_before_its_first_slash(name: str, namespace: str | None, local: str) -> None:
    for kind in (Keyword, Symbol):
        assert (kind(name).namespace, kind(name).local) == (namespace, local)


NO_NAMES = [
    "",
    " ",
    "a b",
    "a/",
    "/a",
    "a:",
    "a::b",
    "a,b",
    'a"',
    "a[",
    "a;b",
    "a\\b",
    "a^b",
    "a@b",
    "~a",
    "`a",
]
NO_NAMES += ["\ud800", "a\nb", "a\u2028b", "(", "{}"]


@pytest.mark.parametrize("name", [*NO_NAMES, ":a", "a/1"])
def test_what_is_no_keyword_can_t_be_one(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of an EDN keyword"):
        Keyword(name)


@pytest.mark.parametrize(
    "name", [*NO_NAMES, ":a", "#a", "nil", "true", "false", "1", "1a", "+1", "-1a", "\u0663", "a/1"]
)
def test_what_is_no_symbol_can_t_be_one(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of an EDN symbol"):
        Symbol(name)


@pytest.mark.parametrize("text", ["", "ab", chr(0xD800), chr(0xDFFF), "😀"])
def test_a_character_is_one_unit_that_is_not_half_of_a_pair(text: str) -> None:
    with pytest.raises(ValueError, match="not a single character of the basic plane"):
        Char(text)


@pytest.mark.parametrize("name", ["+a", "_a", "日", ".a"])
def test_a_tag_begins_with_a_letter_that_clojure_can_read(name: str) -> None:
    with pytest.raises(ValueError, match="a tag must begin with a letter of Latin-1"):
        Tagged(Symbol(name), 1)
    assert Tagged(Symbol("é"), 1) == Tagged(Symbol("é"), 1)


def test_characters_and_tags_are_values() -> None:
    assert {Char("a"): 1}[Char("a")] == 1
    assert {Tagged(Symbol("a"), 1)} == {Tagged(Symbol("a"), 1)}
    for value in (Char("a"), Tagged(Symbol("a"), [1]), Vector((1,)), BigInt(5), Distinct(1.0)):
        assert exactly(pickle.loads(pickle.dumps(value))) == exactly(value)
        assert exactly(copy.deepcopy(value)) == exactly(value)


def test_a_frozen_map_is_a_mapping_that_can_be_a_key() -> None:
    entries = {Keyword("a"): 1, "b": (2,)}
    frozen = FrozenMap(entries)
    entries["c"] = (3,)
    assert frozen == {Keyword("a"): 1, "b": (2,)} == dict(frozen)
    assert {frozen: 1}[FrozenMap({"b": (2,), Keyword("a"): 1})] == 1
    assert (len(frozen), list(frozen), frozen["b"]) == (2, [Keyword("a"), "b"], (2,))
    assert repr(frozen) == "FrozenMap({Keyword('a'): 1, 'b': (2,)})"
    assert frozen != {"b": (2,)}
    with pytest.raises(TypeError):
        FrozenMap({"a": []})


def test_a_frozen_map_can_be_a_key_in_the_process_that_it_is_sent_to() -> None:
    """Strings have another hash there, and so has a map of strings."""
    script = "import pickle, sys; m = pickle.load(sys.stdin.buffer); print(m in {type(m)({'a': 'b'}): 1})"
    sent = pickle.dumps(FrozenMap({"a": "b"}))
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=sent,
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert done.stdout == b"True\n"


def test_a_vector_is_equal_to_a_list_of_the_same_elements_as_in_clojure() -> None:
    assert Vector((1, 2)) == (1, 2)
    assert hash(Vector((1, 2))) == hash((1, 2))
    assert dumps([Vector((1,)), (1,)]) == "[[1] (1)]"


def test_a_distinct_is_equal_only_to_what_edn_takes_for_equal() -> None:
    assert Distinct(1.0) == Distinct(1.0)
    assert Distinct(1) == Distinct(BigInt(1))
    assert Distinct(1) == Distinct(Distinct(1))
    assert Distinct(Vector((1,))) == Distinct((1,))
    assert Distinct(1.0) != Distinct(1)
    assert Distinct(True) != Distinct(1)
    assert Distinct(1.0) != 1.0
    assert Distinct(frozenset({1})) != Distinct(frozenset({1.0}))
    assert Distinct(FrozenMap({1: 2})) != Distinct(FrozenMap({1: 2.0}))
    assert Distinct(Tagged(Symbol("a"), 1)) != Distinct(Tagged(Symbol("a"), True))
    assert hash(Distinct(1)) == hash(Distinct(BigInt(1)))
    assert repr(Distinct(1.0)) == "Distinct(1.0)"


def test_a_big_integer_is_an_integer() -> None:
    assert BigInt(5) + 1 == 6
    assert type(loads("5N")) is BigInt
    assert repr(BigInt(5)) == "5"


def test_an_error_is_a_value_error_with_its_place() -> None:
    error = EdnError("no", 2, 3)
    assert isinstance(error, ValueError)
    assert (str(error), error.message, error.line, error.column) == ("no (line 2, column 3)", "no", 2, 3)


def test_the_module_offers_what_it_says() -> None:
    assert all(hasattr(edn, name) for name in edn.__all__)
