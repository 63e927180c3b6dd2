"""`:psi.graph/*`: what can be asked for, computed from the registry itself.

Each operation is a node and belongs to a domain, which is the part of its name after `psi.`: that of
`psi.agent-session/usage` is `agent-session`. A domain is a node too, with an edge from each of its operations
for each attribute that the operation takes or gives. Symbols are strings, as the wire has no symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formats.edn import Keyword, Symbol
from .registry import Inputs, Mutation, Params, Registry, Resolver, plain

_GRAPH = "psi.graph"
_COUNTS = ("resolver-count", "mutation-count", "resolver-syms", "mutation-syms", "env-built")
_NODES = ("nodes", "edges")
_DOMAINS = ("capabilities", "domain-coverage")
_ROOTS = ("root-seeds", "root-queryable-attrs")
_INDEX = ("resolver-index", "attr-index")


def register_graph(registry: Registry) -> None:
    """Let a registry answer queries about itself."""
    known: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def resolver(name: str, outputs: tuple[str, ...], run: Any) -> Resolver:
        def remembered(inputs: Inputs, params: Params) -> Mapping[str, Any]:
            version, values = known.get(name, (-1, {}))
            if version != registry.version:
                values = {
                    f"{_GRAPH}/{output}": plain(value, f"{_GRAPH}/{output}")
                    for output, value in run(registry).items()
                }
                known[name] = (registry.version, values)
            return values

        return Resolver(f"{_GRAPH}/{name}", (), tuple(f"{_GRAPH}/{output}" for output in outputs), remembered)

    registry.register(
        resolver("operation-counts", _COUNTS, _counts),
        resolver("operation-nodes", _NODES, _nodes_and_edges),
        resolver("domains", _DOMAINS, _domains),
        resolver("roots", _ROOTS, _roots),
        resolver("indexes", _INDEX, _indexes),
    )


def _counts(registry: Registry) -> Mapping[str, Any]:
    return {
        "resolver-count": len(registry.resolvers),
        "mutation-count": len(registry.mutations),
        "resolver-syms": sorted(registry.resolvers),
        "mutation-syms": sorted(registry.mutations),
        "env-built": True,
    }


def _domain(name: str) -> str:
    return (Symbol(name).namespace or "unknown").removeprefix("psi.")


def _operations(registry: Registry) -> list[Resolver | Mutation]:
    return [*registry.resolvers.values(), *registry.mutations.values()]


def _taken(operation: Resolver | Mutation) -> tuple[str, ...]:
    return operation.inputs if isinstance(operation, Resolver) else operation.params


def _keywords(names: Any) -> list[Keyword]:
    return [Keyword(name) for name in names]


def _nodes_and_edges(registry: Registry) -> Mapping[str, Any]:
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for operation in _operations(registry):
        domain = _domain(operation.name)
        taken = _taken(operation)
        nodes.append(
            {
                "id": operation.name,
                "type": Keyword("resolver" if isinstance(operation, Resolver) else "mutation"),
                "domain": Keyword(domain),
                "inputs": _keywords(taken),
                "outputs": _keywords(operation.outputs),
            }
        )
        for attribute in dict.fromkeys((*taken, *operation.outputs)):
            edge = {"from": operation.name, "to": f"capability/{domain}", "attribute": Keyword(attribute)}
            edges.append(edge)
    for domain in sorted({_domain(operation.name) for operation in _operations(registry)}):
        nodes.append({"id": f"capability/{domain}", "type": Keyword("capability"), "domain": Keyword(domain)})
    return {"nodes": nodes, "edges": edges}


def _domains(registry: Registry) -> Mapping[str, Any]:
    resolvers: dict[str, list[str]] = {}
    mutations: dict[str, list[str]] = {}
    attributes: dict[str, set[str]] = {}
    for operation in _operations(registry):
        domain = _domain(operation.name)
        kind = resolvers if isinstance(operation, Resolver) else mutations
        kind.setdefault(domain, []).append(operation.name)
        attributes.setdefault(domain, set()).update(operation.outputs)
    coverage = [
        {
            "domain": Keyword(domain),
            "resolver-count": len(resolvers.get(domain, ())),
            "mutation-count": len(mutations.get(domain, ())),
            "operation-count": len(resolvers.get(domain, ())) + len(mutations.get(domain, ())),
        }
        for domain in sorted(attributes)
    ]
    capabilities = [
        {
            "id": f"capability/{domain}",
            **row,
            "operations": sorted([*resolvers.get(domain, ()), *mutations.get(domain, ())]),
            "attributes": _keywords(sorted(attributes[domain])),
        }
        for domain, row in zip(sorted(attributes), coverage)
    ]
    return {"capabilities": capabilities, "domain-coverage": coverage}


def _roots(registry: Registry) -> Mapping[str, Any]:
    return {
        "root-seeds": _keywords(registry.seeds),
        "root-queryable-attrs": _keywords(sorted(registry.reachable(registry.seeds))),
    }


def _indexes(registry: Registry) -> Mapping[str, Any]:
    produced: dict[str, list[str]] = {}
    through: dict[str, dict[str, list[str]]] = {}
    resolvers = []
    for name, resolver in registry.resolvers.items():
        outputs: list[Any] = []
        for output in resolver.outputs:
            produced.setdefault(output, []).append(name)
            row = resolver.rows.get(output)
            outputs.append({output: _keywords(row)} if row else Keyword(output))
            for attribute in row or ():
                through.setdefault(attribute, {}).setdefault(output, []).append(name)
        resolvers.append(
            {
                "psi.resolver/sym": name,
                "psi.resolver/input": _keywords(resolver.inputs),
                "psi.resolver/output": outputs,
            }
        )
    attributes = {
        name: {
            "psi.attr/produced-by": produced.get(name, []),
            "psi.attr/reachable-via": through.get(name, {}),
        }
        for name in sorted({*produced, *through})
    }
    return {"resolver-index": resolvers, "attr-index": attributes}
