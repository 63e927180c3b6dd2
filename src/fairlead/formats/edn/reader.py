"""Reading EDN: one loop over tokens with a stack of its own, so that no nesting can end it.

Tokens come from `lexing` where the text is simple and from `_TOKEN`, which knows the whole of EDN, where not.
Both cut a text in the same way, so the place of an error is looked for only when there is one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from operator import length_hint
from typing import Any, NamedTuple
from uuid import UUID

from ..faults import Fault, line_and_column, token_text, utf8
from ..lexing import UNCLOSED, apart, cut, is_closed, spaced
from ..nesting import nests_deeper
from .shapes import MAX_SHAPE_LENGTH, Shapes
from .values import (
    CHARACTERS,
    CONSTANTS,
    MAX_DECIMAL_EXPONENT,
    MAX_DEPTH,
    MAX_KEY_DEPTH,
    PARTS,
    BigInt,
    Char,
    Distinct,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
    begins_tag,
    exact,
    is_name,
    is_number,
    is_of_java,
)
from .writer import dumps

MAX_LENGTH = 64 * 1024 * 1024
"""How many characters a text may have."""
MAX_TOKENS = 4_000_000
"""How many atoms and brackets a text may have."""
MAX_DIGITS = 4096
"""How long a number may be. Python itself refuses to convert integers of more than 4,300 digits."""
MAX_SAME_HASH = 16
"""How many keys of a map, or elements of a set, may have the same hash."""
_MAX_KNOWN_ATOMS = 4096  # tokens whose values are remembered; when it is full we start anew
_MAX_KNOWN_LENGTH = 48  # a longer token is not worth remembering,
_MAX_KNOWN_NUMBER = 4  # nor a longer number: they rarely come again
_FEW_FORMS = 2 * MAX_SAME_HASH  # no more than so many can't be a crowd
_SURE_DIGITS = 600  # Python converts integers of this length whatever limit is set for it


# --- tokens -----------------------------------------------------------------------------------------------

_BLANK = r"[\t-\r\x1c-\x20,\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]"
_INSIDE = _BLANK.replace("[", '[^"();\\[\\\\\\]^{}', 1)  # what may follow within a symbol
_TOKEN = re.compile(
    rf"""{_BLANK}*+ (?: ;[^\n\r]*+ {_BLANK}*+ )*+
    ( "[^"\\]*+(?:\\.[^"\\]*+)*+"             # a string
    | [()\[\]{{}}^]
    | \#(?:[_:{{^\#] | [^\W\d_]{_INSIDE}*+)   # a dispatch or a tag
    | \\.{_INSIDE}*+                          # a character
    | [+-]?[0-9]{_INSIDE.replace("[^", "[^#")}*+  # a number, which a # ends
    | (?!\#){_INSIDE}++
    | \Z
    | .[^\n]*+ )                              # none of these: the reader says what is wrong with it
    """,
    re.DOTALL | re.VERBOSE,
)
_BRACKETS = (*spaced("{}[]()"), (",", " "))
_SPECIAL = ";#^"


def _tokens(text: str, most: int) -> tuple[list[str], list[str]]:
    """The tokens of any text, not many more than `most`; a lone quote for each string, and the strings."""
    tokens = [match[1] for match in islice(_TOKEN.finditer(text), most + 2)]
    if "" in tokens:  # the end
        del tokens[tokens.index("") :]
    strings = []
    for index, token in enumerate(tokens):
        if token[0] == '"':
            if is_closed(token):
                strings.append(token[1:-1])
                tokens[index] = '"'
            else:
                tokens[index] = UNCLOSED
    return tokens, strings


def _place(text: str, at: int) -> tuple[int, int]:
    """The line and column of a text's token."""
    starts = (match.start(1) for match in _TOKEN.finditer(text))
    return line_and_column(text, next(islice(starts, at, None), len(text)))


# --- atoms ------------------------------------------------------------------------------------------------

_INTEGER = re.compile(
    r"([-+]?)(?:(0|[1-9][0-9]*)|0[xX]([0-9A-Fa-f]+)|0([0-7]+)|([1-9][0-9]?)[rR]([0-9A-Za-z]+))(N)?"
)
_PLAIN_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_RATIO = re.compile(r"([-+]?[0-9]+)/([0-9]+)")
_FLOAT = re.compile(r"([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE]([-+]?[0-9]+))?)(M)?")
_BAD_OCTAL = re.compile(r"[-+]?0[0-9]+N?")


_known_atoms: dict[str, Any] = {}
_no_atoms: dict[str, Any] = {}  # instead of them where even a short number may be too long
_shapes = Shapes()


def _atom(token: str, max_digits: int) -> Any:
    """The value of a token that is neither a string nor a bracket nor a prefix."""
    first = token[0]
    if token.isdigit() and first != "0" and token.isascii() and len(token) <= min(max_digits, _SURE_DIGITS):
        return int(token)  # most numbers are short and plain
    if is_number(token):
        if len(token) > max_digits:
            raise Fault(f"a number of {len(token)} characters; at most {max_digits} are allowed")
        value: Any = _number(token)
        if len(token) > _MAX_KNOWN_NUMBER:
            return value
    elif first == "\\":
        return _character(token)
    elif token in CONSTANTS:
        value = CONSTANTS[token]
    elif is_name(token) and first != "#":
        value = Keyword(token[1:]) if first == ":" else Symbol(token)
    else:
        raise Fault(_why_no_atom(token))
    if len(token) <= _MAX_KNOWN_LENGTH:
        if len(_known_atoms) >= _MAX_KNOWN_ATOMS:
            _known_atoms.clear()
        _known_atoms[token] = value
    return value


def _why_no_atom(token: str) -> str:
    if token[0] == '"':
        return "a string without its closing quote"
    if token[0] == "#":
        return f"unknown dispatch {token_text(token[:2])!r}; expected #{{, #_, #:, ##, #^ or a tag"
    return f"invalid token {token_text(token)!r}; expected a symbol, a keyword or a number"


def _number(token: str) -> Any:
    try:
        if "." in token and _PLAIN_FLOAT.fullmatch(token):
            return float(token)
        if match := _INTEGER.fullmatch(token):
            sign, decimal, hexadecimal, octal, radix, digits, big = match.groups()
            if decimal:
                value = int(decimal)
            elif hexadecimal:
                value = int(hexadecimal, 16)
            elif octal:
                value = int(octal, 8)
            else:
                value = int(digits, int(radix))
            value = -value if sign == "-" else value
            return BigInt(value) if big else value
        if (match := _FLOAT.fullmatch(token)) and not _BAD_OCTAL.fullmatch(token):
            text, exponent, is_decimal = match.groups()
            if not is_decimal:
                return float(text)
            if exponent is None or abs(int(exponent)) <= MAX_DECIMAL_EXPONENT:
                decimal_value = Decimal(text)
                if is_of_java(decimal_value):
                    # Java has no negative zero, and abs() would round to the context that is set
                    return decimal_value if decimal_value else decimal_value.copy_abs()
        if match := _RATIO.fullmatch(token):
            ratio = Fraction(int(match[1]), int(match[2]))
            return ratio if ratio.denominator != 1 else ratio.numerator
    except (ValueError, ZeroDivisionError):
        pass
    raise Fault(f"invalid number {token_text(token)!r}")


def _character(token: str) -> Char:
    name = token[1:]
    if len(name) == 1 and name < "\U00010000" and not "\ud800" <= name <= "\udfff":
        return Char(name)
    if name in CHARACTERS:
        return Char(CHARACTERS[name])
    code = -1
    if re.fullmatch("u[0-9A-Fa-f]{4}", name):
        code = int(name[1:], 16)
    elif re.fullmatch("o[0-3]?[0-7]{1,2}", name):
        code = int(name[1:], 8)
    if code < 0 or 0xD800 <= code <= 0xDFFF:
        raise Fault(
            f"unsupported character {token_text(token)!r}; "
            "expected \\c, \\newline or the like, \\uXXXX or \\oNNN"
        )
    return Char(chr(code))


_ESCAPE = re.compile(r'\\(?:([tnrbf"\\])|u([0-9A-Fa-f]{4})|([0-7]{1,3}))?')
_AFTER_OCTAL = re.compile(
    rf'{_BLANK}|[";^()\[\]{{}}\\#]|\Z'
)  # what may end an octal escape before its third digit
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _unescaped(raw: str) -> str:
    text = _ESCAPE.sub(_unescape, raw)
    return _PAIR.sub(_joined, text) if "\\u" in raw else text


def _unescape(match: re.Match[str]) -> str:
    simple, unicode, octal = match.groups()
    if simple:
        return _ESCAPES[simple]
    if unicode:
        return chr(int(unicode, 16))
    if (
        octal
        and int(octal, 8) <= 0o377
        and (len(octal) == 3 or _AFTER_OCTAL.match(match.string, match.end()))
    ):
        return chr(int(octal, 8))
    start = match.start()
    escape = token_text(match.string[start : start + 6])
    raise Fault(
        f'unsupported escape {escape!r} in a string; expected \\t \\n \\r \\b \\f \\" \\\\ \\uXXXX or \\NNN'
    )


def _joined(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _value_text(value: Any) -> str:
    """As much of a value as a message should have."""
    try:
        return token_text(dumps(value))
    except EdnError:  # it nests too deep, which we would have said later
        return "…"


# --- collections ------------------------------------------------------------------------------------------


def _map(items: list[Any]) -> dict[Any, Any]:
    pairs = iter(items)
    try:
        if len(items) > _FEW_FORMS:
            _check_hashes(items[::2])
        entries = dict(zip(pairs, pairs))
        if 2 * len(entries) == len(items):
            return entries
        keys = items[::2]
    except TypeError:  # a key that can't be hashed
        keys = list(map(_frozen, items[::2]))
    if len(items) & 1:
        raise Fault(f"a map needs a value for each key; it has {len(items)} forms")
    return dict(zip(_told_apart(keys, "key"), items[1::2]))


def _list_or_set(opener: str, closer: str, items: list[Any]) -> Any:
    if opener == "(" and closer == ")":
        return tuple(items)
    if opener != "#{" or closer != "}":
        raise Fault(f"{opener} is closed by {closer}")
    try:
        _check_hashes(items)
        elements = frozenset(items)
        if len(elements) == len(items):
            return elements
    except TypeError:  # an element that can't be hashed
        items = list(map(_frozen, items))
    return frozenset(_told_apart(items, "element"))


def _frozen(value: Any) -> Any:
    """The value with vectors and maps in their hashable form."""
    kind = type(value)
    if kind is list:
        return Vector(map(_frozen, value))
    if kind is tuple:
        return tuple(map(_frozen, value))
    if kind is dict:
        return FrozenMap({key: _frozen(item) for key, item in value.items()})
    if kind is Tagged:
        return Tagged(value.tag, _frozen(value.value))
    return value


def _check_keys(opener: str, items: list[Any]) -> None:
    """Keys and elements are hashed and compared, which recurses."""
    keys = items[::2] if opener == "{" else items if opener == "#{" else ()
    if nests_deeper(keys, PARTS, MAX_KEY_DEPTH):
        raise Fault(f"a key or an element of a set nests deeper than {MAX_KEY_DEPTH}")


def _check_hashes(keys: list[Any]) -> None:
    """Unlike those of strings, the hashes of numbers can be foreseen, so a peer can send a crowd that shares
    one: to tell n such keys apart takes n² comparisons."""
    if len(keys) - len(set(map(hash, keys))) >= MAX_SAME_HASH:
        most = max(Counter(map(hash, keys)).values())
        if most > MAX_SAME_HASH:
            raise Fault(
                f"{most} keys of a map or elements of a set have the same hash; at most {MAX_SAME_HASH} may"
            )


def _told_apart(keys: list[Any], what: str) -> Iterator[Any]:
    """The keys, with those in Distinct that Python takes for an earlier one. Equal ones are a fault.

    Only those are looked into: a large key would otherwise be looked into again at each level above it.
    """
    _check_hashes(keys)
    count = Counter(keys)
    seen: set[Any] = set()
    exactly: set[Any] = set()
    for key in keys:
        if count[key] == 1:
            yield key
            continue
        if (stand_in := exact(key)) in exactly:
            raise Fault(f"duplicate {what} {_value_text(key)}")
        exactly.add(stand_in)
        yield Distinct(key) if key in seen else key
        seen.add(key)


# --- prefixes: #tag #_ ^ ## #: apply to the forms that follow them ------------------------------------------


class _Prefix(NamedTuple):
    token: str
    at: int


def _applied(items: list[Any]) -> list[Any]:
    """The items with each prefix applied to what follows it: the last one first, as it is the innermost."""
    done: list[Any] = []
    starts: list[int] = []  # where each of the done begins, with all that stands before it and belongs to it
    for start in range(len(items) - 1, -1, -1):
        item = items[start]
        if type(item) is not _Prefix:
            done.append(item)
            starts.append(start)
            continue
        token, at = item
        needed = 2 if token in ("^", "#^", "#:") else 1
        if len(done) < needed:
            raise Fault(f"{token_text(token)} needs {'two forms' if needed == 2 else 'a form'} after it", at)
        operand = done.pop()
        del starts[-1]
        try:
            if token == "##":
                done.append(_symbolic(operand))
            elif token == "#:":
                done[-1] = _namespaced(operand, items[starts[-1]])
            elif token in ("^", "#^"):
                _check_metadata(operand, done[-1])
            elif token != "#_":
                done.append(_tagged(token[1:], operand))
        except Fault as fault:
            raise Fault(fault.message, at) from None
        starts[len(done) - 1 :] = [start] if done else []
    done.reverse()
    return done


def _symbolic(name: Any) -> float:
    values = {"Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}
    if not isinstance(name, Symbol) or name.name not in values:
        raise Fault(f"unknown symbolic value ##{_value_text(name)}; expected ##Inf, ##-Inf or ##NaN")
    return float(values[name.name])


def _namespaced(name: Any, entries: Any) -> dict[Any, Any]:
    if not isinstance(name, Symbol) or name.namespace is not None:
        raise Fault(f"a namespaced map needs a plain symbol after #:, not {_value_text(name)}")
    if type(entries) is not dict:
        raise Fault(f"a namespaced map needs a map right after #:{token_text(name.name)}")
    items: list[Any] = []
    for key, value in entries.items():
        if isinstance(key, Keyword | Symbol):
            try:
                if key.namespace is None:
                    key = type(key)(f"{name}/{key.name}")
                elif key.namespace == "_":
                    key = type(key)(key.local)
            except ValueError:  # Clojure makes a name that it could not read itself
                raise Fault(f"{token_text(str(key))} can't be a key of a map with a namespace") from None
        items += (key, value)
    return _map(items)


def _check_metadata(metadata: Any, target: Any) -> None:
    if not isinstance(metadata, Symbol | Keyword | str | dict):
        raise Fault("metadata must be a symbol, a keyword, a string or a map")
    if not isinstance(target, Symbol | list | tuple | dict | frozenset):
        raise Fault("metadata can only stand before a symbol or a collection")


def _tagged(tag: str, value: Any) -> Any:
    if tag == "inst":
        return _instant(value)
    if tag == "uuid":
        return _uuid(value)
    if not is_name(tag) or tag in CONSTANTS:
        raise Fault(f"a tag must be a symbol, not {token_text(tag)!r}")
    return Tagged(Symbol(tag), value)


_INSTANT = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?)?)?)?"
    r"(?:Z|([-+])([0-9]{2}):([0-9]{2}))?"
)


def _instant(value: Any) -> datetime:
    match = _INSTANT.fullmatch(value) if type(value) is str else None
    if match is None:
        raise Fault('#inst needs a string such as "2026-01-31T12:00:00.000Z"')
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    seconds = int(second or 0)
    try:
        if int(hours or 0) > 23 or int(minutes or 0) > 59 or (seconds == 60 and minute != "59"):
            raise ValueError
        moment = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            min(seconds, 59) if seconds <= 60 else seconds,
            int((fraction or "")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        leap = timedelta(seconds=1 if seconds == 60 else 0)
        return moment + leap + (offset if sign == "-" else -offset)
    except (ValueError, OverflowError):
        raise Fault(f"#inst {_value_text(value)} is not a moment between the years 1 and 9999") from None


_UUID = re.compile(
    r"([0-9A-Fa-f]{1,8})-([0-9A-Fa-f]{1,4})-([0-9A-Fa-f]{1,4})-([0-9A-Fa-f]{1,4})-([0-9A-Fa-f]{1,12})"
)


def _uuid(value: Any) -> UUID:
    match = _UUID.fullmatch(value) if type(value) is str else None
    if match is None:
        raise Fault('#uuid needs a string such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"')
    return UUID(
        "".join(part.zfill(width) for part, width in zip(match.groups(), (8, 4, 4, 4, 12), strict=True))
    )


# --- reading ----------------------------------------------------------------------------------------------


def loads(
    text: str | bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_length: int = MAX_LENGTH,
    max_tokens: int = MAX_TOKENS,
    max_digits: int = MAX_DIGITS,
) -> Any:
    """The one value that the text holds, with nothing but blanks, comments and discarded forms around it."""
    values = loads_all(
        text, max_depth=max_depth, max_length=max_length, max_tokens=max_tokens, max_digits=max_digits
    )
    if len(values) == 1:
        return values[0]
    raise EdnError(f"expected one form, found {len(values) or 'none'}", 1, 1)


def loads_all(
    text: str | bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_length: int = MAX_LENGTH,
    max_tokens: int = MAX_TOKENS,
    max_digits: int = MAX_DIGITS,
) -> list[Any]:
    """All values that the text holds, one after the other."""
    text = utf8(text, EdnError)
    if len(text) > max_length:
        raise EdnError(f"a text of {len(text)} characters; at most {max_length} are allowed", 1, 1)
    simple = apart(text, _SPECIAL)
    if simple is None:
        tokens, strings = _tokens(text, max_tokens)
        _check_count(tokens, max_tokens)
        return _located(text, tokens, strings, max_depth, max_digits)
    between, strings = simple
    key = between, max_depth, max_tokens, max_digits
    if (shape := _shapes.find(key)) is not None:
        try:
            whole = [string if "\\" not in string else _unescaped(string) for string in strings]
        except Fault:
            pass  # the reader below says where
        else:
            values: list[Any] = shape.filled(whole)
            return values
    tokens = cut(between, _BRACKETS, max_tokens)
    _check_count(tokens, max_tokens)
    values = _located(text, tokens, strings, max_depth, max_digits)
    if len(between) <= MAX_SHAPE_LENGTH:
        _shapes.met(key, len(strings), lambda holes: _located(text, tokens, holes, max_depth, max_digits))
    return values


def _check_count(tokens: list[str], max_tokens: int) -> None:
    if len(tokens) > max_tokens:
        raise EdnError(f"more than {max_tokens} atoms and brackets", 1, 1)


def _located(text: str, tokens: list[str], strings: list[str], max_depth: int, max_digits: int) -> list[Any]:
    """What the tokens say. A fault in them is an error with its place in the text."""
    rest = iter(tokens)
    try:
        return _read(rest, iter(strings).__next__, len(tokens), max_depth, max_digits)
    except Fault as fault:
        at = len(tokens) - length_hint(rest) - 1 if fault.at is None else fault.at
        raise EdnError(fault.message, *_place(text, at)) from None


def _read(
    rest: Iterator[str], next_string: Callable[[], str], count: int, max_depth: int, max_digits: int
) -> list[Any]:
    known = _known_atoms.get if max_digits >= _MAX_KNOWN_NUMBER else _no_atoms.get
    items: list[Any] = []
    stack: list[tuple[list[Any], str]] = []
    tags = 0
    deepest = min(MAX_KEY_DEPTH, max_depth)  # no brackets nest deeper, as far as we know
    careful = False  # whether prefixes, or keys that nest too deep, are possible
    for token in rest:
        if (value := known(token)) is not None:
            items.append(value)
        elif token == '"':
            string = next_string()
            items.append(string if "\\" not in string else _unescaped(string))
        elif token in ("{", "[", "(", "#{"):
            if len(stack) >= deepest:
                if len(stack) >= max_depth:
                    raise Fault(f"collections nest deeper than {max_depth}")
                deepest, careful = max_depth, True
            stack.append((items, token))
            items = []
        elif token in ("}", "]", ")"):
            if not stack:
                raise Fault(f"{token} without its opening partner")
            outer, opener = stack.pop()
            if careful:
                items = _applied(items)
                _check_keys(opener, items)
            if opener == "{" and token == "}":
                outer.append(_map(items))
            elif opener == "[" and token == "]":
                outer.append(items)
            else:
                outer.append(_list_or_set(opener, token, items))
            items = outer
        elif token in _PREFIXES or (token[0] == "#" and begins_tag(token[1:])):
            careful = True
            tags += token not in _PREFIXES
            items.append(_Prefix(token, count - length_hint(rest) - 1))
        else:
            items.append(_atom(token, max_digits))
    if stack:
        raise Fault(f"the text ends before {stack[-1][1]} is closed", count)
    if careful:
        items = _applied(items)
        if tags + deepest > max_depth and nests_deeper(items, PARTS, max_depth):
            raise Fault(f"collections and tags nest deeper than {max_depth}", 0)
    return items


_PREFIXES = frozenset({"^", "#^", "#_", "##", "#:"})
