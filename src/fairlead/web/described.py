"""The description of the HTTP API, OpenAPI 3.1, made from the table of ops and the types of parameters."""

from __future__ import annotations

import re
from typing import Any

from .. import __version__
from ..wire.rpc_catalog import COMMAND, DIRECTORY, LINE, OPS, PARAMS, PID, RECORD, ParamType
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
    "Any": {"type": ["string", "number", "boolean", "array", "object"]},
}
_BOUNDS: dict[str, dict[str, Any]] = {
    COMMAND.wanted: {"minItems": 1},
    DIRECTORY.wanted: {"pattern": r"^/[^\u0000]*$"},
    LINE.wanted: {"minimum": 0, "maximum": 2**63 - 1},
    PID.wanted: {"minimum": 1, "maximum": 2**31 - 1},
    RECORD.wanted: {"minLength": 1},
}
"""What the words of a type mean as a schema, besides its type."""
_ITEMS = {"mcp-servers": "object", "statuses": "string"}
"""What is in vectors whose type does not tell it."""
_CODES = {
    "400": "the parameters make no sense",
    "401": "nobody is logged in",
    "403": "the role may not do this",
    "404": "no such session, question or op",
    "408": "the body did not come in time",
    "409": "the session's state does not allow it",
    "413": "the body is too long",
    "415": "the body is not application/json",
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


def _schema(name: str, *, is_optional: bool) -> dict[str, Any]:
    kind: ParamType = PARAMS[name]
    found = {**_TYPES[kind.type], "description": kind.wanted, **_BOUNDS.get(kind.wanted, {})}
    if name in _ITEMS:
        found["items"] = {"type": _ITEMS[name]}
    if words := re.findall(r'"([^"]+)"', kind.wanted) if kind.wanted.startswith("one of ") else []:
        found["enum"] = words
    if bounds := re.fullmatch(r"an integer from (\d+) to (\d+)", kind.wanted):
        found |= {"minimum": int(bounds[1]), "maximum": int(bounds[2])}
    if "non-empty" in kind.wanted and kind.type == "str":
        found |= {"minLength": 1, "pattern": r"\S"}
    if is_optional:  # null is as good as nothing
        types = found["type"]
        found["type"] = [*([types] if isinstance(types, str) else types), "null"]
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    return found


def _responses(answer: tuple[str, ...]) -> dict[str, Any]:
    data = {"type": "object", "properties": {each.replace("-", "_"): {} for each in answer}}
    done = {"type": "object", "properties": {"ok": {"const": True}, "data": data}, "required": ["ok", "data"]}
    return {
        "200": {"description": "done", "content": {"application/json": {"schema": done}}},
        **_failures(*_CODES),
    }


def _failures(*codes: str) -> dict[str, Any]:
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {code: {"description": _CODES[code], "content": failed} for code in codes}


def _operation(name: str) -> dict[str, Any]:
    op = OPS[name]
    properties = {
        each.replace("-", "_"): _schema(each, is_optional=each in op.optional)
        for each in (*op.required, *op.optional)
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if op.required:
        schema["required"] = [each.replace("-", "_") for each in op.required]
    elif {"name", "session-id"} <= set(op.optional):  # a session of any kind has to be named
        schema["anyOf"] = [
            {"required": [each], "properties": {each: {"type": "string"}}} for each in ("name", "session_id")
        ]
    roles = [role for role, ops in OPS_OF.items() if name in ops]
    return {
        "post": {
            "operationId": name,
            "summary": op.does,
            "description": f"Roles: {', '.join(roles)}.",
            "requestBody": {
                "required": len(schema.keys() & {"required", "anyOf"}) > 0,
                "content": {"application/json": {"schema": schema}},
            },
            "responses": _responses(op.answer),
        }
    }


def _get(what: str, kind: str, *codes: str) -> dict[str, Any]:
    done = {"200": {"description": what, "content": {kind: {}}}}
    return {"get": {"summary": what, "responses": done | _failures("400", "401", "403", *codes)}}


def _gets() -> dict[str, Any]:
    """What is no op."""
    id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    recording = _get("the recording of a session", "application/x-asciicast", "404", "409", "503", "504")
    recording["get"]["parameters"] = [id]
    recording["get"]["responses"] |= {
        "206": {"description": "a part of it, as asked by Range", "content": {"application/x-asciicast": {}}},
        "416": {"description": "there is no such part", "content": _failures("400")["400"]["content"]},
    }
    health = _get("whether the console serves", "application/json")
    health["get"]["security"] = []
    return {
        "/api/me": _get("who asks", "application/json"),
        "/api/openapi.json": _get("this description", "application/json"),
        "/api/events": _get("what happens, as server-sent events", "text/event-stream", "429"),
        "/api/recordings/{id}": recording,
        "/metrics": _get("counts for Prometheus", "text/plain"),
        "/healthz": health,
    }


def openapi() -> dict[str, Any]:
    """The description as JSON has it."""
    paths: dict[str, Any] = {
        f"/api/ops/{name}": _operation(name) for name in OPS if name not in NOT_OVER_HTTP
    }
    paths |= _gets()
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
