"""Queries over registered resolvers."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.query import eql
from fairlead.agent.query import registry as query
from fairlead.agent.query.registry import (
    InvalidQuery,
    Mutation,
    QueryError,
    Registry,
    Resolver,
    TextKeys,
    parse_entity,
    plain,
)
from fairlead.formats.edn import PLAIN, Char, FrozenMap, Keyword, Symbol, Tagged, Vector, dumps, loads
from tests.formats.edn_examples import values

Run = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]


def gives(name: str, value: Any, inputs: tuple[str, ...] = (), rows: tuple[str, ...] = ()) -> Resolver:
    """A resolver for one attribute that is always the same."""
    return Resolver(f"r/{name}", inputs, (name,), lambda *_: {name: value}, {name: rows} if rows else {})


def computes(name: str, inputs: tuple[str, ...], run: Run) -> Resolver:
    return Resolver(f"r/{name}", inputs, (name,), run)


PEOPLE: Mapping[int, Mapping[str, Any]] = {
    1: {"person/name": "Ada", "person/friends": [{"person/id": 2}, {"person/id": 3}]},
    2: {"person/name": "Bob", "person/friends": []},
    3: {"person/name": "Cyd", "person/friends": [{"person/id": 1}]},
}


def people() -> Registry:
    """Persons with friends, and pets that are found by their owners."""
    registry = Registry()
    registry.register(
        Resolver(
            "r/person",
            ("person/id",),
            ("person/name", "person/friends"),
            lambda inputs, _: PEOPLE[inputs["person/id"]],
            {"person/friends": ("person/id",)},
        ),
        computes(
            "person/greeting", ("person/name",), lambda i, _: {"person/greeting": f"Hi {i['person/name']}"}
        ),
        gives("team/lead", {"person/id": 1}),
        gives("team/members", [{"person/id": number} for number in PEOPLE]),
        gives("team/motto", "onwards"),
    )
    return registry


def ask(registry: Registry, text: str, entity: Mapping[Any, Any] | None = None) -> str:
    """The answer as EDN."""
    return dumps(query.query(registry, text, entity))


# --- what a query may ask for -----------------------------------------------------------------------------


def test_attributes_come_back_under_their_keywords_in_the_order_of_the_query() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1), gives("a/y", "two"))
    assert ask(registry, "[:a/y :a/x]") == '{:a/y "two", :a/x 1}'


def test_a_query_may_be_given_as_its_vector() -> None:
    assert query.query(people(), [Keyword("team/motto")]) == {Keyword("team/motto"): "onwards"}


def test_an_empty_query_has_an_empty_answer() -> None:
    assert ask(Registry(), "[]") == "{}"


def test_a_join_looks_into_a_map() -> None:
    assert ask(people(), "[{:team/lead [:person/name]}]") == '{:team/lead {:person/name "Ada"}}'


def test_a_join_looks_into_each_map_of_a_vector() -> None:
    answer = ask(people(), "[{:team/members [:person/greeting]}]")
    assert answer.count(":person/greeting") == 3
    assert '"Hi Bob"' in answer


def test_joins_nest() -> None:
    answer = ask(people(), "[{:team/lead [:person/name {:person/friends [:person/name]}]}]")
    assert answer == (
        '{:team/lead {:person/name "Ada", :person/friends [{:person/name "Bob"} {:person/name "Cyd"}]}}'
    )


def test_a_join_of_nothing_is_nil() -> None:
    registry = Registry()
    registry.register(gives("a/x", None))
    assert ask(registry, "[{:a/x [:a/y]}]") == "{:a/x nil}"


def test_a_join_of_what_is_no_map_fails_and_names_the_attribute() -> None:
    with pytest.raises(QueryError, match=r"can't join :team/motto: it holds no maps"):
        ask(people(), "[{:team/motto [:a]}]")


def test_a_whole_value_is_given_when_nothing_is_said_about_what_is_in_it() -> None:
    assert ask(people(), "[:team/lead]") == "{:team/lead {:person/id 1}}"


def test_an_ident_begins_at_an_entity_of_its_own() -> None:
    assert ask(people(), "[{[:person/id 3] [:person/name]}]") == '{[:person/id 3] {:person/name "Cyd"}}'


def test_a_bare_ident_gives_the_identity() -> None:
    assert ask(people(), "[[:person/id 3]]") == "{[:person/id 3] {:person/id 3}}"


def test_an_ident_of_an_unknown_attribute_fails_and_names_it() -> None:
    with pytest.raises(QueryError, match="unknown attribute :person/nick"):
        ask(people(), '[[:person/nick "x"]]')


def test_the_answer_under_an_ident_can_be_written_for_the_simplest_readers() -> None:
    answer = query.query(people(), "[{[:person/id 3] [:person/name]}]")
    assert dumps(answer, dialect=PLAIN) == '{[:person/id 3] {:person/name "Cyd"}}'


def test_a_query_starts_from_the_entity_that_it_is_given() -> None:
    assert ask(people(), "[:person/greeting]", {"person/id": 2}) == '{:person/greeting "Hi Bob"}'
    assert ask(people(), "[:person/name]", {Keyword("person/id"): 2}) == '{:person/name "Bob"}'


def test_what_an_entity_has_is_not_computed() -> None:
    entity = {"person/id": 2, "person/name": "Rob"}
    assert ask(people(), "[:person/name]", entity) == '{:person/name "Rob"}'
    assert (
        ask(people(), "[:person/friends :person/name]", entity) == '{:person/friends [], :person/name "Rob"}'
    )


def test_an_entity_can_be_read_from_text() -> None:
    assert parse_entity('{:person/id 2, :x "y"}') == {"person/id": 2, "x": "y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{:a", "entity must be valid EDN"),
        ("[:a]", "entity must be an EDN map"),
        ("{1 2}", "must have keywords"),
    ],
)
def test_an_entity_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        parse_entity(text)


def test_a_star_is_all_that_can_be_had() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1), gives("a/y", 2, ("a/x",)), gives("a/z", 3, ("a/other",)))
    assert ask(registry, "[*]") == "{:a/x 1, :a/y 2}"
    assert ask(registry, "[*]", {"a/other": 0}) == "{:a/other 0, :a/x 1, :a/z 3, :a/y 2}"


def test_a_star_in_a_join_is_what_comes_from_the_map_itself() -> None:
    answer = ask(people(), "[{:team/lead [*]}]")
    assert ":person/greeting" in answer
    assert ":team/motto" not in answer


def test_a_star_shows_a_key_that_can_be_no_keyword_as_text() -> None:
    assert ask(Registry(), "[*]", parse_entity('{:a 1 "b c" 2 "" 3}')) == '{:a 1, "b c" 2, "" 3}'


def test_beside_a_star_a_join_still_says_what_is_wanted_of_its_maps() -> None:
    answer = ask(people(), "[{[:person/id 1] [* {:person/friends [:person/name]}]}]")
    assert ':person/friends [{:person/name "Bob"} {:person/name "Cyd"}]' in answer


def test_beside_a_star_the_rest_of_a_map_that_is_joined_is_not_looked_at() -> None:
    registry = Registry()
    registry.register(gives("a/x", {"b/y": 1, "b/z": object()}))
    assert ask(registry, "[* {:a/x [:b/y]}]") == "{:a/x {:b/y 1}}"


def test_a_union_takes_the_branch_whose_key_a_map_has() -> None:
    registry = Registry()
    registry.register(
        gives("feed/items", [{"post/id": 1, "post/title": "t"}, {"pic/id": 2, "pic/url": "u"}, {}])
    )
    answer = ask(registry, "[{:feed/items {:post/id [:post/title] :pic/id [:pic/url]}}]")
    assert answer == '{:feed/items [{:post/title "t"} {:pic/url "u"} {}]}'


def test_an_attribute_that_is_nil_chooses_no_branch_of_a_union() -> None:
    registry = Registry()
    registry.register(gives("feed/items", [{"pic/id": 2}], rows=("post/id", "pic/id")))
    assert (
        ask(registry, "[{:feed/items {:post/id [:post/id] :pic/id [:pic/id]}}]")
        == "{:feed/items [{:pic/id 2}]}"
    )


# --- parameters -------------------------------------------------------------------------------------------


def numbers() -> Registry:
    def run(inputs: Mapping[str, Any], params: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(params.get("limit", 3), int):
            raise QueryError("parameter :limit must be an integer")
        return {"n/all": [{"n/is": number} for number in range(params.get("limit", 3))]}

    registry = Registry()
    registry.register(computes("n/all", (), run))
    return registry


@pytest.mark.parametrize(
    "text", ["[{(:n/all {:limit 1}) [:n/is]}]", "[({:n/all [:n/is]} {:limit 1})]", "[(:n/all {:limit 1})]"]
)
def test_parameters_reach_the_resolver_however_they_are_written(text: str) -> None:
    assert ask(numbers(), text) == "{:n/all [{:n/is 0}]}"


def test_an_attribute_in_a_list_without_parameters_is_just_the_attribute() -> None:
    assert ask(numbers(), "[(:n/all)]") == ask(numbers(), "[:n/all]")


def test_an_attribute_that_was_asked_for_without_parameters_is_computed_again_with_them() -> None:
    assert ask(numbers(), "[:n/all (:n/all {:limit 1})]") == "{:n/all [{:n/is 0}]}"


def test_parameters_for_what_the_entity_has_already_change_nothing() -> None:
    assert ask(numbers(), "[(:n/all {:limit 1})]", {"n/all": 7}) == "{:n/all 7}"


def test_parameters_are_for_one_attribute_and_not_for_what_it_is_computed_from() -> None:
    seen = []

    def run(inputs: Mapping[str, Any], params: Mapping[str, Any]) -> Mapping[str, Any]:
        seen.append(params)
        return {"a/x": 1}

    registry = Registry()
    registry.register(computes("a/x", (), run), computes("a/y", ("a/x",), lambda i, p: {"a/y": p["k"]}))
    assert ask(registry, "[(:a/y {:k 7}) :a/x]") == "{:a/y 7, :a/x 1}"
    assert seen == [{}]


def test_a_resolver_says_in_its_own_words_what_is_wrong_with_a_parameter() -> None:
    with pytest.raises(QueryError, match="parameter :limit must be an integer"):
        ask(numbers(), '[(:n/all {:limit "many"})]')


# --- computing --------------------------------------------------------------------------------------------


def counted(registry: Registry) -> Counter[str]:
    """Count the runs of resolvers that are registered from now on, by name."""
    runs: Counter[str] = Counter()
    register = registry.register

    def counting(*operations: Resolver | Mutation) -> None:
        for operation in operations:
            assert isinstance(operation, Resolver)
            name, run = operation.name, operation.run

            def counted(i: Any, p: Any, name: str = name, run: Run = run) -> Mapping[str, Any]:
                runs[name] += 1
                return run(i, p)

            register(Resolver(name, operation.inputs, operation.outputs, counted, operation.rows))

    registry.register = counting  # type: ignore[method-assign]
    return runs


def test_a_resolver_runs_once_for_all_that_it_gives_and_all_that_needs_it() -> None:
    registry = Registry()
    runs = counted(registry)
    registry.register(
        Resolver("r/base", (), ("a/x", "a/y"), lambda *_: {"a/x": 1, "a/y": 2}),
        gives("a/p", 3, ("a/x",)),
        gives("a/q", 4, ("a/y",)),
    )
    ask(registry, "[:a/x :a/y :a/p :a/q :a/x]")
    assert runs == {"r/base": 1, "r/a/p": 1, "r/a/q": 1}


def test_the_same_call_with_the_same_parameters_is_made_once() -> None:
    registry = Registry()
    runs = counted(registry)
    registry.register(Resolver("r/two", (), ("a/x", "a/y"), lambda i, p: {"a/x": p["k"], "a/y": p["k"]}))
    ask(registry, "[(:a/x {:k 1 :l 2}) (:a/y {:l 2 :k 1})]")
    assert runs == {"r/two": 1}
    assert ask(registry, "[(:a/x {:k 1}) (:a/y {:k 2})]") == "{:a/x 1, :a/y 2}"


def test_nothing_runs_that_is_not_needed() -> None:
    registry = Registry()
    runs = counted(registry)
    registry.register(gives("a/x", 1), gives("a/y", 2))
    ask(registry, "[:a/y]")
    assert runs == {"r/a/y": 1}


def test_an_output_that_a_resolver_leaves_out_is_nil() -> None:
    registry = Registry()
    registry.register(Resolver("r/lazy", (), ("a/x", "a/y"), lambda *_: {"a/x": 1}))
    assert ask(registry, "[:a/y]") == "{:a/y nil}"


def test_of_two_resolvers_the_one_that_can_run_is_taken() -> None:
    registry = Registry()
    registry.register(
        Resolver("r/first", ("a/absent",), ("a/x",), lambda *_: {"a/x": 1}),
        Resolver("r/second", (), ("a/x",), lambda *_: {"a/x": 2}),
        Resolver("r/third", (), ("a/x",), lambda *_: {"a/x": 3}),
    )
    assert ask(registry, "[:a/x]") == "{:a/x 2}"


def test_many_ways_to_an_attribute_cost_no_more_than_there_are_resolvers() -> None:
    registry = Registry()
    runs = counted(registry)
    registry.register(gives("a/n0", 0))
    depth = 300
    for level in range(1, depth):
        for way in "abc":
            inputs = (f"a/n{level - 1}",)
            name = f"a/n{level}"
            registry.register(Resolver(f"r/{way}{level}", inputs, (name,), lambda *_, name=name: {name: 1}))
    assert ask(registry, f"[:a/n{depth - 1}]") == f"{{:a/n{depth - 1} 1}}"
    assert sum(runs.values()) == depth


def test_a_circle_of_resolvers_is_an_error_that_shows_it() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1, ("a/y",)), gives("a/y", 2, ("a/x",)))
    with pytest.raises(QueryError, match=r"can't compute :a/x: it needs :a/y, which needs :a/x, in a circle"):
        ask(registry, "[:a/x]")


def test_a_circle_can_be_entered_where_one_of_its_attributes_is_given() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1, ("a/y",)), gives("a/y", 2, ("a/x",)))
    assert ask(registry, "[:a/x]", {"a/y": 0}) == "{:a/x 1}"


def test_an_attribute_that_lacks_an_input_fails_and_names_what_is_missing() -> None:
    with pytest.raises(
        QueryError, match=r":person/greeting: it needs :person/name, which needs :person/id, which is"
    ):
        ask(people(), "[:person/greeting]")


@pytest.mark.parametrize(
    "text", ["[:team/moto]", "[(:team/moto {:a 1})]", "[:team/motto :team/moto]", "[{:team/moto [:a]}]"]
)
def test_an_unknown_attribute_fails_the_query_and_is_named(text: str) -> None:
    with pytest.raises(QueryError, match="unknown attribute :team/moto"):
        ask(people(), text)


def test_an_unknown_attribute_in_a_join_is_named_also_when_there_are_no_rows() -> None:
    with pytest.raises(QueryError, match=r"unknown attribute :person/nam$"):
        ask(people(), "[{[:person/id 2] [{:person/friends [:person/nam]}]}]")


def test_an_attribute_that_a_row_should_have_and_has_not_is_nil() -> None:
    registry = Registry()
    registry.register(gives("a/rows", [{"b/x": 1}, {"b/y": 2}], rows=("b/x", "b/y")))
    assert ask(registry, "[{:a/rows [:b/x :b/y]}]") == "{:a/rows [{:b/x 1, :b/y nil} {:b/x nil, :b/y 2}]}"


def test_a_resolver_that_fails_is_named_and_what_it_said_is_not() -> None:
    def run(*_: Any) -> Mapping[str, Any]:
        raise RuntimeError("bad key sk-12345")

    registry = Registry()
    registry.register(computes("a/x", (), run))
    with pytest.raises(QueryError) as caught:
        ask(registry, "[:a/x]")
    assert str(caught.value) == "resolver r/a/x failed: RuntimeError"
    assert caught.value.__cause__ is None


def test_a_resolver_that_gives_no_map_is_named() -> None:
    registry = Registry()
    registry.register(computes("a/x", (), lambda *_: [1]))  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="resolver r/a/x gave a list instead of a map"):
        ask(registry, "[:a/x]")


def test_a_query_that_was_answered_before_sees_what_was_registered_since() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1))
    with pytest.raises(QueryError):
        ask(registry, "[:a/y]")
    registry.register(gives("a/y", 2, ("a/x",)))
    assert ask(registry, "[:a/y]") == "{:a/y 2}"


def test_an_answer_that_its_reader_changes_does_not_change_the_next() -> None:
    registry = Registry()
    registry.register(gives("a/x", [{"b/y": 1}]))
    query.query(registry, "[:a/x]")[Keyword("a/x")].append(2)
    assert ask(registry, "[:a/x]") == "{:a/x [{:b/y 1}]}"


# --- registering ------------------------------------------------------------------------------------------


def test_a_name_can_be_registered_once() -> None:
    registry = Registry()
    registry.register(gives("a/x", 1), Mutation("m/do"))
    for again in (gives("a/x", 2), Mutation("m/do")):
        with pytest.raises(ValueError, match="is registered already"):
            registry.register(again)


@pytest.mark.parametrize(
    ("inputs", "outputs", "rows"),
    [
        ((), (), {}),
        (("a",), ("a",), {}),
        ((), ("a b",), {}),
        ((), ("a",), {"b": ("c",)}),
        ((), ("a",), {"a": ("",)}),
    ],
)
def test_a_resolver_that_makes_no_sense_can_not_be_made(
    inputs: tuple[str, ...], outputs: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]
) -> None:
    with pytest.raises(ValueError, match=r"resolver r/x|not the name of an EDN keyword"):
        Resolver("r/x", inputs, outputs, lambda *_: {}, rows)


# --- what is no query -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "[:a", "[:a] [:b]", ")", "[:a//b/]", "{:a}", '["'])
def test_what_is_not_edn_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match=r"^query must be valid EDN$"):
        ask(people(), text)


@pytest.mark.parametrize("text", [":a", "{:a [:b]}", "(:a)", "nil", "1", '"[:a]"', "#{:a}"])
def test_what_is_no_vector_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match=r"^query must be an EDN vector$"):
        ask(people(), text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "1 is no part of a query; expected a keyword"),
        ("[{}]", "{} is no part of a query"),
        ('["a"]', '"a" is no part of a query'),
        ("[sym]", "sym is no part of a query"),
        ("[()]", r"\(\) is no call"),
        ("[(:a 1)]", r"\(:a 1\) is no call; expected an attribute and a map"),
        ("[(:a {1 2})]", "parameters must have keywords as keys, not 1"),
        ("[{:a 1}]", "a join must have a vector of what is wanted, not 1"),
        ("[{:a {1 [:b]}}]", "a union must have a keyword and a vector"),
        ("[{:a {:b 1}}]", "a union must have a keyword and a vector"),
        ("[[:a]]", r"\[:a\] is no ident; expected a keyword and a string or integer"),
        ("[[:a 1.5]]", "is no ident"),
        ("[{[:a 1] {:b [:c]}}]", "is one entity; a union makes no sense there"),
        ("[([:a 1] {:b 1})]", "is no part of a query"),
        ("[(psi/fork {:a 1})]", "a query can't call psi/fork: it only reads"),
    ],
)
def test_a_part_that_makes_no_sense_is_shown_with_what_would(text: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        ask(people(), text)


def test_a_bad_part_is_shown_only_in_part() -> None:
    with pytest.raises(InvalidQuery) as caught:
        ask(people(), f'["{"x" * 1000}"]')
    assert len(str(caught.value)) < 250


# --- limits -----------------------------------------------------------------------------------------------


def test_a_query_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidQuery, match=f"at most {eql.MAX_QUERY_LENGTH} are allowed"):
        ask(people(), "[" + " " * eql.MAX_QUERY_LENGTH + "]")


def test_a_query_that_nests_too_deep_is_refused() -> None:
    deep = "[:a]"
    for _ in range(eql.MAX_QUERY_DEPTH):
        deep = f"[{{:a {deep}}}]"
    with pytest.raises(InvalidQuery, match=f"nests deeper than {eql.MAX_QUERY_DEPTH}"):
        ask(people(), deep)


def test_a_query_with_too_many_parts_is_refused() -> None:
    with pytest.raises(InvalidQuery, match=f"more than {eql.MAX_QUERY_PARTS} parts"):
        ask(people(), "[" + ":a " * (eql.MAX_QUERY_PARTS + 1) + "]")


def test_an_answer_that_is_too_large_is_refused() -> None:
    registry = Registry()
    registry.register(gives("a/x", [[0] * 1000] * 150))
    with pytest.raises(QueryError, match=f"more than {query.MAX_NODES} parts"):
        ask(registry, "[:a/x]")


def test_friends_of_friends_end_at_the_limit_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_RUNS", 50)
    registry = Registry()
    registry.register(gives("a/many", [{"b/id": number} for number in range(51)]), gives("b/x", 1, ("b/id",)))
    with pytest.raises(QueryError, match="more than 50 runs of resolvers"):
        ask(registry, "[{:a/many [:b/x]}]")


def test_a_query_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_SECONDS", -1.0)
    with pytest.raises(QueryError, match="query takes longer than -1 seconds; ask for less"):
        ask(people(), "[:team/motto]")


def test_a_value_that_contains_itself_ends_in_an_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    registry = Registry()
    registry.register(gives("a/x", circle))
    with pytest.raises(QueryError, match=f":a/x nests deeper than {query.MAX_VALUE_DEPTH}"):
        ask(registry, "[:a/x]")


def test_plans_and_queries_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_PLANS", 4)
    registry = people()
    for number in range(20):
        ask(registry, "[:team/motto]", {f"x/n{number}": 1})
    assert len(registry._plans) <= 4
    for number in range(eql.MAX_KNOWN_QUERIES + 10):
        ask(registry, f"[:team/motto [:person/id {number}]]")
    assert eql._parse_text.cache_info().currsize <= eql.MAX_KNOWN_QUERIES


# --- plain values -----------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nil"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), "nil"),
        (float("inf"), "nil"),
        (Decimal("1.50"), "1.5"),
        (Decimal("1e9999"), "nil"),
        (Fraction(1, 2), "0.5"),
        (Symbol("psi/fork"), '"psi/fork"'),
        (Char("c"), '"c"'),
        (Keyword("k"), ":k"),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), '"2026-01-02T03:00:00Z"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (PurePosixPath("/a"), '"/a"'),
        ((1, (2,)), "[1 [2]]"),
        ({3, 1, 2}, "[1 2 3]"),
        (Tagged(Symbol("t"), 1), "1"),
        ({"a": 1, "b c": 2, Keyword("d"): 3, 4: 5}, '{:a 1, "b c" 2, :d 3, 4 5}'),
        (FrozenMap({"a": FrozenMap({"b": ()})}), "{:a {:b []}}"),
        ({Vector((Keyword("a"), 1)): 2}, "{[:a 1] 2}"),
        (TextKeys({"a": {"b": 1}}), '{"a" {:b 1}}'),
        (plain({"a": (1,)}, "a/x"), "{:a [1]}"),
    ],
)
def test_a_value_is_given_out_as_the_nearest_plain_one(value: Any, text: str) -> None:
    registry = Registry()
    registry.register(gives("a/x", value))
    assert ask(registry, "[:a/x]") == f"{{:a/x {text}}}"


@pytest.mark.parametrize("value", [b"bytes", object(), {1.5: 1}, {(1, 2): 3}, [{b"k": 1}]])
def test_a_value_without_a_plain_form_fails_the_query_and_names_the_attribute(value: Any) -> None:
    registry = Registry()
    registry.register(gives("a/x", value))
    with pytest.raises(QueryError, match=r":a/x holds a .* which has no plain form"):
        ask(registry, "[:a/x]")


@given(values())
def test_whatever_a_resolver_gives_the_answer_reads_back_the_same_in_plain_edn(value: Any) -> None:
    registry = Registry()
    registry.register(gives("a/x", value))
    try:
        answer = query.query(registry, "[:a/x]")
    except QueryError:
        return
    assert loads(dumps(answer, dialect=PLAIN)) == answer


# --- anything at all --------------------------------------------------------------------------------------

_names = st.sampled_from(
    [
        "person/id",
        "person/name",
        "person/friends",
        "person/greeting",
        "team/lead",
        "team/members",
        "team/motto",
        "x/y",
    ]
).map(Keyword)
_idents = st.tuples(_names, st.integers(0, 4) | st.just("x")).map(Vector)
_subjects = _names | st.tuples(_names, st.just(FrozenMap({Keyword("limit"): 1})))
_leaves = st.one_of(_subjects, _idents.map(list), st.just(Symbol("*")), st.just(7))


def _queries(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    joins = st.dictionaries(_subjects | _idents, inner, max_size=2)
    unions = st.dictionaries(_names, st.dictionaries(_names, inner, max_size=2), max_size=1)
    return st.lists(_leaves | joins | unions, max_size=4)


@given(st.recursive(st.lists(_leaves, max_size=3), _queries, max_leaves=20))
def test_a_random_query_is_answered_or_refused(wanted: list[Any]) -> None:
    registry = people()
    outcomes = []
    for form in (wanted, dumps(wanted)):
        try:
            outcomes.append(dumps(query.query(registry, form, {"person/id": 1})))
        except QueryError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@given(st.text(max_size=40) | st.text('[]{}():ab/*1" ', max_size=40))
def test_a_random_text_is_answered_or_refused(text: str) -> None:
    try:
        query.query(people(), text)
    except QueryError:
        pass


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 9), max_size=3), st.sets(st.integers(0, 9), min_size=1, max_size=3))
    )
)
def test_what_can_be_had_is_what_repeated_looking_finds(edges: list[tuple[set[int], set[int]]]) -> None:
    registry = Registry()
    known: set[int] = {0}
    rules = [(takes, makes - takes) for takes, makes in edges if makes - takes]
    for number, (takes, makes) in enumerate(rules):
        outputs = tuple(f"n/a{one}" for one in sorted(makes))
        inputs = tuple(f"n/a{one}" for one in sorted(takes))
        registry.register(Resolver(f"r/n{number}", inputs, outputs, lambda *_: {}))
    while more := {made for takes, makes in rules if takes <= known for made in makes} - known:
        known |= more
    assert set(registry.reachable(["n/a0"])) == {f"n/a{one}" for one in known}
    for one in range(10):
        if one in known:
            assert query.query(registry, f"[:n/a{one}]", {"n/a0": 1})
        else:
            with pytest.raises(QueryError, match=f":n/a{one}"):
                query.query(registry, f"[:n/a{one}]", {"n/a0": 1})
