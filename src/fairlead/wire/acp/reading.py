"""Reading parameters and results into their types, as tolerantly as the protocol says.

What fits its type is read by msgspec in one go. What doesn't is looked at again: an optional field that can't
be read counts as absent, a bad item of a list is left out, and null stands for a field's default. A `strict`
structure takes only the last of these.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from ..jsonrpc import MAX_REASON
from .base import Wire
from .limits import MAX_MENDED
from .updates import KIND, KnownUpdate, OtherUpdate, SessionUpdate

T = TypeVar("T")
_EMPTY = (b"", b"null")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class Unreadable(ValueError):
    """Data that don't fit their type."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:MAX_REASON])


class _KnownUpdate(Wire, frozen=True, kw_only=True):
    """`SessionUpdate`, as far as msgspec can read it."""

    session_id: str
    update: KnownUpdate


class _AnyUpdate(Wire, frozen=True, kw_only=True):
    session_id: str
    update: dict[str, Any]


KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(KnownUpdate))
"""The kinds of update that have a type."""


def read(kind: type[T], raw: msgspec.Raw | bytes) -> T:
    """The value of this type in JSON. No data, and null, are an empty object. Raises Unreadable."""
    if kind is SessionUpdate:
        return _read_update(raw)  # type: ignore[return-value]
    try:
        return _decoder(kind).decode(raw)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        return read(kind, b"{}") if bytes(raw) in _EMPTY else _read_again(kind, raw, fault)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def _read_update(raw: msgspec.Raw | bytes) -> SessionUpdate:
    try:
        known: _KnownUpdate = _decoder(_KnownUpdate).decode(raw)
        return SessionUpdate(session_id=known.session_id, update=known.update, meta=known.meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        first = fault
    other = read(_AnyUpdate, raw)
    kind = other.update.get(KIND)
    update: KnownUpdate | OtherUpdate
    if not isinstance(kind, str):
        raise Unreadable(f"an update must have a {KIND} that is a string, not {kind!r:.100}")
    if kind in KINDS:
        try:
            update = _read_again(_KnownUpdate, raw, first).update
        except Unreadable as fault:
            update = OtherUpdate(kind, other.update, str(fault))
    else:
        update = OtherUpdate(kind, other.update)
    return SessionUpdate(session_id=other.session_id, update=update, meta=other.meta)


def _read_again(kind: type[T], raw: msgspec.Raw | bytes, first: Exception) -> T:
    """The value that is left when what can't be read is left out; if none, the first fault counts."""
    text = bytes(raw)
    if text.count(b",") > MAX_MENDED:
        raise Unreadable(str(first))
    try:
        return msgspec.convert(_mended(msgspec.json.decode(text), kind), kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable(str(first)) from None


# --- leaving out what can't be read ------------------------------------------------------------------------


def _mended(value: Any, wanted: Any) -> Any:
    """The value without those parts that don't fit and need not be there."""
    for kind in _options(wanted):
        if isinstance(value, list) and get_origin(kind) is tuple:
            return [_mended(item, get_args(kind)[0]) for item in value]
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Wire):
            config = kind.__struct_config__
            if config.tag_field is None or value.get(config.tag_field) == config.tag:
                return _mended_fields(value, kind)
    return value


def _mended_fields(data: dict[str, Any], kind: type[Wire]) -> dict[str, Any]:
    mended = dict(data)
    for field in _fields(kind):
        name = field.encode_name
        if name not in mended:
            continue
        value = mended[name] = _mended(mended[name], field.type)
        if isinstance(value, list) and not kind.strict:
            for option in _options(field.type):
                if get_origin(option) is tuple:
                    value = mended[name] = [item for item in value if _fits(item, get_args(option)[0])]
        if not field.required and not _fits(value, field.type) and (value is None or not kind.strict):
            del mended[name]
    return mended


@cache
def _fields(kind: type[Wire]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _options(wanted: Any) -> tuple[Any, ...]:
    """The types that a type allows: the members of a union, without limits of length."""
    if get_origin(wanted) in (Union, types.UnionType):
        return tuple(option for each in get_args(wanted) for option in _options(each))
    if hasattr(wanted, "__metadata__"):
        return _options(get_args(wanted)[0])
    return (wanted,)


def _fits(value: Any, wanted: Any) -> bool:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        return False
    return True
