"""The arguments of tools: a struct for each tool, its JSON schema, and checking what a model sent.

Models are sloppy in ways that do no harm: a number in quotes, null for "not given", snake_case for camelCase.
That is understood; everything else is an error that names the argument.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

Arguments = TypeVar("Arguments", bound=Struct)


def schema(type: type[Struct]) -> dict[str, Any]:
    """The JSON schema of a struct, without references, as all models understand it."""
    (reference,), components = msgspec.json.schema_components((type,), ref_template="{name}")
    found = _inlined(reference, components)
    assert isinstance(found, dict)
    return found


def _inlined(value: Any, components: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(each, components) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        whole = {**components[value["$ref"]], **value}
        del whole["$ref"], whole["title"]
        return _inlined(whole, components)
    return {key: _inlined(each, components) for key, each in value.items()}


def checked(tool: str, arguments: dict[str, Any], type: type[Arguments]) -> Arguments:
    """The arguments of a call. Raises ValueError that says which one is wrong."""
    try:
        return msgspec.convert(_tidy(arguments), type, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(type))
        raise ValueError(f"{tool}: {_in_words(str(error))}; its arguments are: {names}") from None


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(str(key)): _tidy(each) for key, each in value.items() if each is not None}
    return [_tidy(each) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-z])_([a-z])", lambda match: match[1].upper(), name)


def _in_words(error: str) -> str:
    """msgspec's sentence, in words for somebody who only sees the arguments."""
    what, _, where = error.partition(" - at `$")
    what = re.sub(r"^Object missing required field `(.+)`$", r"the argument `\1` is missing", what)
    what = re.sub(r"^Object contains unknown field `(.+)`$", r"there is no argument `\1`", what)
    what = what.replace("Expected", "expected", 1)
    where = where.strip(".`")
    return f"`{where}`: {what}" if where else what
