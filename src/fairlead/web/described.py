"""The description of the HTTP API, OpenAPI 3.1, made from the table of ops and the types of parameters."""

from __future__ import annotations

import re
from typing import Any

from .. import __version__
from ..wire.rpc_catalog import OPS, PARAMS, ParamType
from .roles import NOT_OVER_HTTP, OPS_OF

_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number", "minimum": 0, "exclusiveMaximum": 1e9},
    "list[str]": {"type": "array", "items": {"type": "string"}},
    "list[Any]": {"type": "array"},
    "Mapping[Any, Any]": {"type": "object"},
    "str | int": {"type": ["string", "integer"]},
    "bool | str": {"type": ["boolean", "string"]},
    "Any": {},
}
_CODES = {
    "400": "the parameters make no sense",
    "401": "nobody is logged in",
    "403": "the role may not do this",
    "404": "no such session, question or op",
    "409": "the session's state does not allow it",
    "413": "the body is too long",
    "429": "too many requests",
    "503": "the daemon is away",
    "504": "it took too long",
}
_ERROR = {
    "type": "object",
    "properties": {
        "ok": {"const": False},
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            "required": ["code", "message"],
        },
    },
    "required": ["ok", "error"],
}


def _schema(kind: ParamType) -> dict[str, Any]:
    found = {**_TYPES[kind.type], "description": kind.wanted}
    if words := re.findall(r'"([^"]+)"', kind.wanted) if kind.wanted.startswith("one of ") else []:
        found["enum"] = words
    if bounds := re.fullmatch(r"an integer from (\d+) to (\d+)", kind.wanted):
        found |= {"minimum": int(bounds[1]), "maximum": int(bounds[2])}
    if "non-empty" in kind.wanted and kind.type == "str":
        found["minLength"] = 1
    return found


def _responses(answer: tuple[str, ...]) -> dict[str, Any]:
    data = {"type": "object", "properties": {each.replace("-", "_"): {} for each in answer}}
    done = {"type": "object", "properties": {"ok": {"const": True}, "data": data}, "required": ["ok", "data"]}
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "done", "content": {"application/json": {"schema": done}}},
        **{code: {"description": what, "content": failed} for code, what in _CODES.items()},
    }


def _operation(name: str) -> dict[str, Any]:
    op = OPS[name]
    properties = {each.replace("-", "_"): _schema(PARAMS[each]) for each in (*op.required, *op.optional)}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if op.required:
        schema["required"] = [each.replace("-", "_") for each in op.required]
    roles = [role for role, ops in OPS_OF.items() if name in ops]
    return {
        "post": {
            "operationId": name,
            "summary": op.does,
            "description": f"Roles: {', '.join(roles)}.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": _responses(op.answer),
        }
    }


def _get(what: str, kind: str) -> dict[str, Any]:
    return {"get": {"summary": what, "responses": {"200": {"description": "", "content": {kind: {}}}}}}


def openapi() -> dict[str, Any]:
    """The description as JSON has it."""
    paths: dict[str, Any] = {
        f"/api/ops/{name}": _operation(name) for name in OPS if name not in NOT_OVER_HTTP
    }
    paths["/api/me"] = _get("who asks", "application/json")
    paths["/api/events"] = _get("what happens, as server-sent events", "text/event-stream")
    paths["/metrics"] = _get("counts for Prometheus", "text/plain")
    paths["/healthz"] = _get("whether the console serves", "application/json")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "version": __version__,
            "description": "The ops of rpc-edn over HTTP; docs/rpc.md says what each does.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
