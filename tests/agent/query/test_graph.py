"""What a registry says of itself."""

from typing import Any

import pytest

from fairlead.agent.query.graph import register_graph
from fairlead.agent.query.registry import Mutation, Registry, Resolver, query
from fairlead.formats.edn import PLAIN, Keyword, dumps, loads

ATTRIBUTES = [
    "resolver-count",
    "mutation-count",
    "resolver-syms",
    "mutation-syms",
    "env-built",
    "nodes",
    "edges",
    "capabilities",
    "domain-coverage",
    "root-seeds",
    "root-queryable-attrs",
    "resolver-index",
    "attr-index",
]


@pytest.fixture
def registry() -> Registry:
    registry = Registry(seeds=("psi.agent-session/session-id",))
    session = ("psi.agent-session/session-id",)
    registry.register(
        Resolver("psi.agent-session/phase", session, ("psi.agent-session/phase",), lambda *_: {}),
        Resolver(
            "psi.session/list",
            (),
            ("psi.session/list",),
            lambda *_: {},
            {"psi.session/list": ("psi.session-info/path",)},
        ),
        Resolver("psi.session/size", ("psi.session-info/path",), ("psi.session-info/size",), lambda *_: {}),
        Mutation("psi.agent-session/fork", session, ("psi.agent-session/file",)),
    )
    register_graph(registry)
    return registry


def graph(registry: Registry, name: str) -> Any:
    return query(registry, f"[:psi.graph/{name}]")[Keyword(f"psi.graph/{name}")]


def rows(registry: Registry, name: str) -> list[dict[str, Any]]:
    return [{key.name: value for key, value in row.items()} for row in graph(registry, name)]


def test_operations_are_counted_and_named(registry: Registry) -> None:
    assert graph(registry, "resolver-count") == 8
    assert graph(registry, "mutation-count") == 1
    assert graph(registry, "mutation-syms") == ["psi.agent-session/fork"]
    symbols = graph(registry, "resolver-syms")
    assert symbols == sorted(registry.resolvers)
    assert "psi.session/list" in symbols


def test_what_is_registered_later_is_counted_too(registry: Registry) -> None:
    before = graph(registry, "resolver-count")
    registry.register(Resolver("x/y", (), ("x/y",), lambda *_: {}))
    assert graph(registry, "resolver-count") == before + 1
    assert Keyword("x/y") in graph(registry, "root-queryable-attrs")


def test_each_operation_and_each_domain_is_a_node(registry: Registry) -> None:
    nodes = {row["id"]: row for row in rows(registry, "nodes")}
    assert nodes["psi.agent-session/fork"] == {
        "id": "psi.agent-session/fork",
        "type": Keyword("mutation"),
        "domain": Keyword("agent-session"),
        "inputs": [Keyword("psi.agent-session/session-id")],
        "outputs": [Keyword("psi.agent-session/file")],
    }
    assert nodes["capability/session"]["type"] is Keyword("capability")
    assert len(nodes) == 8 + 1 + 3


def test_edges_join_nodes_and_name_an_attribute(registry: Registry) -> None:
    nodes = {row["id"] for row in rows(registry, "nodes")}
    edges = rows(registry, "edges")
    assert {edge["from"] for edge in edges} | {edge["to"] for edge in edges} == nodes
    assert {
        "from": "psi.session/size",
        "to": "capability/session",
        "attribute": Keyword("psi.session-info/size"),
    } in edges


def test_capabilities_are_the_domains_with_their_operations(registry: Registry) -> None:
    capabilities = {row["domain"].name: row for row in rows(registry, "capabilities")}
    assert list(capabilities) == ["agent-session", "graph", "session"]
    session = capabilities["agent-session"]
    assert (session["operation-count"], session["resolver-count"], session["mutation-count"]) == (2, 1, 1)
    assert session["operations"] == ["psi.agent-session/fork", "psi.agent-session/phase"]


def test_root_attributes_are_those_that_can_be_asked_for_from_the_seeds(registry: Registry) -> None:
    roots = graph(registry, "root-queryable-attrs")
    assert graph(registry, "root-seeds") == [Keyword("psi.agent-session/session-id")]
    assert Keyword("psi.agent-session/phase") in roots
    assert Keyword("psi.session/list") in roots
    assert Keyword("psi.session-info/size") not in roots
    for name in roots:
        query(registry, [name], {"psi.agent-session/session-id": "s"})


def test_the_index_says_who_gives_an_attribute_and_through_which_join_it_is_reached(
    registry: Registry,
) -> None:
    index = graph(registry, "attr-index")
    produced, through = Keyword("psi.attr/produced-by"), Keyword("psi.attr/reachable-via")
    assert index[Keyword("psi.session/list")] == {produced: ["psi.session/list"], through: {}}
    assert index[Keyword("psi.session-info/path")] == {
        produced: [],
        through: {Keyword("psi.session/list"): ["psi.session/list"]},
    }


def test_all_of_it_is_plain_and_can_be_joined(registry: Registry) -> None:
    answer = query(registry, f"[{' '.join(f':psi.graph/{name}' for name in ATTRIBUTES)}]")
    assert len(answer) == len(ATTRIBUTES)
    assert loads(dumps(answer, dialect=PLAIN)) == answer
    ids = query(registry, "[{:psi.graph/nodes [:id]}]")[Keyword("psi.graph/nodes")]
    assert {Keyword("id"): "psi.session/list"} in ids
