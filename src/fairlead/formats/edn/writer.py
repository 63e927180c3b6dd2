"""Writing EDN: the tables of how each type of value is written."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from json.encoder import encode_basestring as _quoted
from operator import attrgetter
from typing import Any
from uuid import UUID

from ..floats import digits_of, notation
from ..writing import Brackets, Dialect, Verbatim, digits, write
from .values import (
    CHARACTERS,
    MAX_DEPTH,
    BigInt,
    Char,
    Distinct,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
    is_of_java,
)

_CHARACTER_NAMES = {character: name for name, character in CHARACTERS.items()}
_LEAST_LONG, _GREATEST_LONG = -(2**63), 2**63 - 1
_digits_of_short = int.__repr__
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any, *, dialect: Dialect | None = None, max_depth: int = MAX_DEPTH) -> str:
    """The value as one line of EDN, as Clojure's `pr-str` prints it.

    `dialect` is CLOJURE by default; PLAIN keeps to what every reader of EDN knows.
    """
    text = write(value, dialect or CLOJURE, max_depth)
    # half of a surrogate pair can only be in a string, where it may stand as an escape
    return text if text.isascii() else _LONE_SURROGATE.sub(_as_escape, text)


def _as_escape(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


def _digits(value: int) -> str:
    return digits(value, EdnError)


def _integer(value: int) -> str:
    return _digits_of_short(value) if _LEAST_LONG <= value <= _GREATEST_LONG else _digits(value) + "N"


def _double(value: float) -> str:
    if not math.isfinite(value):
        return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
    text = float.__repr__(value)
    if 1e-3 <= abs(value) < 1e7:
        return text
    return notation(*digits_of(text), marker="E", plain_suffix="")


def _ratio(value: Fraction) -> str:
    if value.denominator == 1:
        return _integer(value.numerator)
    return f"{_digits(value.numerator)}/{_digits(value.denominator)}"


def _nearest_double(value: float | Decimal | Fraction) -> str:
    try:
        double = float(value)
    except (OverflowError, ValueError):  # a ratio that is too large, or a NaN that signals
        return "nil"
    return _double(double) if math.isfinite(double) else "nil"


def _decimal(value: Decimal) -> str:
    if not is_of_java(value):
        raise EdnError(f"can't write the decimal {value} as EDN")
    return f"{value}M".upper()


def _character_literal(value: Char) -> str:
    character = value.value
    if character in _CHARACTER_NAMES:
        return "\\" + _CHARACTER_NAMES[character]
    if character.isprintable() and not character.isspace():
        return "\\" + character
    return f"\\u{ord(character):04x}"


def _moment(value: datetime) -> str:
    if value.utcoffset() is None:
        raise EdnError("can't write a datetime without a time zone as EDN")
    try:
        text = value.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise EdnError(f"{value!r} is not between the years 1 and 9999 in UTC") from None
    moment = text.removesuffix("+00:00")
    return moment.removesuffix("000") if moment.endswith("000") else moment


_literal = attrgetter("literal")

_VECTOR = Brackets("[", "]", "[]")
_SET = Brackets("#{", "}", "#{}")

CLOJURE = Dialect(
    format="EDN",
    error=EdnError,
    scalars={
        Keyword: _literal,
        str: _quoted,
        int: _integer,
        bool: {True: "true", False: "false"}.__getitem__,
        type(None): {None: "nil"}.__getitem__,
        float: _double,
        Symbol: _literal,
        BigInt: lambda value: _digits(value) + "N",
        Decimal: _decimal,
        Fraction: _ratio,
        Char: _character_literal,
        datetime: lambda value: f'#inst "{_moment(value)}-00:00"',
        UUID: lambda value: f'#uuid "{value}"',
        Verbatim: str,
    },
    maps=frozenset({dict, FrozenMap}),
    collections={
        list: _VECTOR,
        tuple: Brackets("(", ")", "()"),
        frozenset: _SET,
        set: _SET,
        Vector: _VECTOR,
        Tagged: Brackets("", "", "", lambda tagged: (Verbatim(f"#{tagged.tag}"), tagged.value)),
        Distinct: Brackets("", "", "", lambda distinct: (distinct.value,)),
    },
)
"""Everything that Clojure reads back as the same value."""

PLAIN = Dialect(
    format="EDN",
    error=EdnError,
    scalars={
        **CLOJURE.scalars,
        int: _digits,
        BigInt: _digits,
        float: _nearest_double,
        Decimal: _nearest_double,
        Fraction: _nearest_double,
        Symbol: lambda value: _quoted(value.name),
        Char: lambda value: _quoted(value.value),
        datetime: lambda value: f'"{_moment(value)}Z"',
        UUID: lambda value: f'"{value}"',
    },
    maps=CLOJURE.maps,
    collections={
        **CLOJURE.collections,
        tuple: _VECTOR,
        frozenset: _VECTOR,
        set: _VECTOR,
        Tagged: Brackets("", "", "", lambda tagged: (tagged.value,)),
    },
)
"""Only nil, booleans, integers, doubles, strings, keywords, vectors and maps: what the simplest readers of
EDN know. A value of another type becomes the nearest of these."""
