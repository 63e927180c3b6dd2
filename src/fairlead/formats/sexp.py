"""S-expressions, the subset that Passepartout sends, read and printed as SBCL does it: `loads`, `dumps`,
and one error, `SexpError`.

    >>> loads('(:type :event :payload (:text "hi" :ids (1 2)))')
    [Keyword('TYPE'), Keyword('EVENT'), Keyword('PAYLOAD'), [Keyword('TEXT'), 'hi', Keyword('IDS'), [1, 2]]]
    >>> dumps([Keyword("TYPE"), Keyword("EVENT"), Keyword("CHECKED-P"), True])
    '(:TYPE :EVENT :CHECKED-P T)'

| Lisp                    | Python                                                       |
|-------------------------|--------------------------------------------------------------|
| (1 2 3)                 | list                                                         |
| NIL, ()                 | [], always a new one; None and False are written as NIL too  |
| T                       | True                                                         |
| (a . b)                 | Dotted                                                       |
| #(1 2)                  | tuple                                                        |
| :key, symbol            | Keyword, Symbol, by their name in upper case                 |
| "text", #\\c             | str, Char                                                    |
| 1, 1/2                  | int, Fraction                                                |
| 1.5d0                   | float                                                        |
| 1.5                     | Single, a float of 32 bits                                   |

So a list is a list whether it is empty or not, and what Lisp takes for false is false in Python as well.
`'x` is read as (QUOTE X).

Reading is an allow-list. Every reader macro but `'`, `;`, `#|`, `#\\` and `#(` is refused: some run code
(`#.`), some make a value many times as large as its text (`#=`, `#100(`), and no message needs the others.
Depth, length, the number of tokens and of digits are limited, nesting never reaches Python's recursion limit,
names are not kept, and whatever the input, nothing but SexpError is raised.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from operator import attrgetter, length_hint
from typing import Any, Final, NamedTuple

from .faults import Fault, TextError, line_and_column, token_text, utf8
from .floats import digits_of, notation, shortest
from .lexing import UNCLOSED, apart, cut, is_closed, spaced
from .names import Name
from .nesting import Parts, nests_deeper
from .writing import Brackets, Dialect, Verbatim, digits, write

MAX_DEPTH = 256
"""How deep lists may nest."""
MAX_LENGTH = 0xFFFFFF
"""How many characters a text may have: as many as a frame can hold."""
MAX_TOKENS = 1_000_000
"""How many atoms and brackets a text may have."""
MAX_DIGITS = 4096
"""How long a number may be. Python itself refuses to convert integers of more than 4,300 digits."""
MAX_EXPONENT = 9_999
"""How large a float's exponent may be: far more than a double holds, little enough to compute with."""
MAX_NAME = 1024
"""How long a name beyond ASCII may be without bars: to put n combining marks into order takes n² steps."""
MAX_DOTTED_TAIL = 1024
"""How many elements a list after a dot may have: it is copied to join it with what is before the dot."""

_MAX_KNOWN_ATOMS = 4096  # tokens whose values are remembered; when it is full we start anew
_MAX_KNOWN_LENGTH = 48  # a longer token is not worth remembering


class SexpError(TextError):
    """A text that we don't read, or a value that can't be printed."""


# --- names ------------------------------------------------------------------------------------------------

_NEEDS_BARS = re.compile(r"""["#'(),;`|\\:\x00-\x20\x7f-\x9f]""")
_NUMBER_LIKE = (
    re.compile(  # SBCL's own idea of it, which is not quite the standard's; A stands for any letter
        r"""(?: [+\-^_] (?:[+\-^_/]|[A-Z](?![A-Z]))* (?:\.[+\-^_/.A-Z]*+)?
          | \.++ (?: (?:[+\-^_/]|[A-Z](?![A-Z])) [+\-^_/.A-Z]*+ )? )?
        [0-9] (?:[0-9+\-^_/.]|[A-Z](?![A-Z]))* (?<![+\-])""",
        re.VERBOSE,
    )
)
_CASED_LATER = re.compile(  # letters that got an upper case in Unicode after version 10, which SBCL has
    "[\u0282\u10d0-\u10ff\u1d8e\u2c5f\ua794\ua7b9-\ua7ff\U00010597-\U000105bc\U00016e60-\U00016e7f]"
)
_PACKAGES = {"COMMON-LISP": "", "CL": "", "SB-EXT": "", "PASSEPARTOUT": "PASSEPARTOUT"}
"""The packages that a symbol may name, and the prefix that it is printed with."""


def _upcase(text: str) -> str:
    """As SBCL's `char-upcase` does it: only letters that are a pair, one to one."""
    if text.isascii():
        return text.upper()
    return "".join(map(_upper, text))


@lru_cache(4096)
def _upper(letter: str) -> str:
    upper = letter.upper()
    if len(upper) != 1 or unicodedata.category(letter) not in ("Ll", "Lt") or _CASED_LATER.match(letter):
        return letter
    return upper if upper.lower() in (letter, letter.lower()) else letter


def _as_ascii(letter: str) -> str:
    """An A for any letter that has a lower case: SBCL takes it for a possible part of a number."""
    lower = letter.lower()
    return "A" if len(lower) == 1 and lower != letter and _upper(lower) == letter else letter


def _name_literal(name: str) -> str:
    """A name as SBCL prints it: between bars unless it would be read back as it is."""
    if (
        not name
        or _NEEDS_BARS.search(name)
        or _upcase(name) != name
        or not name.strip(".")
        or _NUMBER_LIKE.fullmatch(name if name.isascii() else "".join(map(_as_ascii, name)))
        or (not name.isascii() and (len(name) > MAX_NAME or unicodedata.normalize("NFKC", name) != name))
    ):
        return "|" + name.replace("\\", "\\\\").replace("|", "\\|") + "|"
    return name


class Keyword(Name):
    """A keyword, by its name as Lisp has it, usually upper case: `Keyword("TYPE")` is `:TYPE`."""

    __slots__ = ()

    @classmethod
    def _literal(cls, name: str) -> str:
        return ":" + _name_literal(name)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol, by its name as Lisp has it. `package` is what is printed before it, colons and all."""

    name: str
    package: str = ""

    def __post_init__(self) -> None:
        if not self.package and self.name in ("NIL", "T"):
            raise ValueError(f"the symbol {self.name} is {'[]' if self.name == 'NIL' else 'True'} in Python")

    @property
    def literal(self) -> str:
        """How the symbol is printed."""
        name = _name_literal(self.name)
        if not name.isascii() and _is_number(
            name
        ):  # of other digits: SBCL leaves the bars out and reads a number
            name = f"|{name}|"
        return self.package + name

    def __str__(self) -> str:
        return self.literal


QUOTE: Final = Symbol("QUOTE")


# --- other values that Python has no type for --------------------------------------------------------------


_LEAST_NORMAL, _LEAST_NORMAL_SINGLE = 2.0**-1022, 2.0**-126  # smaller floats lose precision


class Single(float):
    """A float of 32 bits, which Lisp prints without a marker. It is rounded when it is made."""

    __slots__ = ()

    def __new__(cls, value: float) -> Single:
        single = _rounded(value)
        if math.isinf(single) and not math.isinf(value):
            raise ValueError(f"{value!r} is too large for a single float")
        return super().__new__(cls, single)


def _rounded(value: float) -> float:
    """The nearest float of 32 bits."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)


@dataclass(frozen=True, slots=True)
class Char:
    """A character object."""

    value: str

    def __post_init__(self) -> None:
        if len(self.value) != 1 or "\ud800" <= self.value <= "\udfff":
            raise ValueError(f"not a single character: {self.value!r}")


@dataclass(frozen=True, slots=True)
class Dotted:
    """A list whose last pair doesn't end in NIL: `(a b . c)` is `Dotted((a, b), c)`."""

    items: tuple[Any, ...]
    tail: Any

    def __post_init__(self) -> None:
        if not self.items:
            raise ValueError("a dotted list needs something before the dot")
        if isinstance(self.tail, list | Dotted) or self.tail is None or self.tail is False:
            raise ValueError("what follows the dot must not be a list: join them instead")


_PARTS: Parts = {list: iter, tuple: iter, Dotted: lambda dotted: (*dotted.items, dotted.tail)}


_CONTROLS = (
    "Nul Soh Stx Etx Eot Enq Ack Bel Backspace Tab Newline Vt Page Return So Si "
    "Dle Dc1 Dc2 Dc3 Dc4 Nak Syn Etb Can Em Sub Esc Fs Gs Rs Us"
)
_HIGH_CONTROLS = (
    "C80 C81 Break-Permitted No-Break-Permitted C84 Next-Line Start-Selected-Area End-Selected-Area "
    "Character-Tabulation-Set Character-Tabulation-With-Justification Line-Tabulation-Set "
    "Partial-Line-Forward Partial-Line-Backward Reverse-Linefeed Single-Shift-Two Single-Shift-Three "
    "Device-Control-String Private-Use-One Private-Use-Two Set-Transmit-State Cancel-Character "
    "Message-Waiting Start-Guarded-Area End-Guarded-Area Start-String C99 Single-Character-Introducer "
    "Control-Sequence-Introducer String-Terminator Operating-System-Command Privacy-Message "
    "Application-Program-Command"
)
_CHARACTER_NAMES = {
    **{chr(code): name for code, name in enumerate(_CONTROLS.split())},
    **{chr(code): name for code, name in enumerate(["Rubout", *_HIGH_CONTROLS.split()], start=0x7F)},
}
_OTHER_NAMES = {
    "\0": "NULL",
    "\b": "BS",
    "\t": "HT",
    "\n": "LINEFEED LF NL",
    "\f": "FORMFEED FORM FF",
    "\r": "CR",
    "\x1b": "ESCAPE ALTMODE",
    " ": "SPACE SP",
    "\x7f": "DELETE DEL",
}
_CHARACTERS = {
    **{name.upper(): character for character, name in _CHARACTER_NAMES.items()},
    **{name: character for character, names in _OTHER_NAMES.items() for name in names.split()},
    **{f"^{chr(code + 64)}": chr(code) for code in range(32)},
}


def _character_literal(value: Char) -> str:
    character = value.value
    if character in _CHARACTER_NAMES:
        return "#\\" + _CHARACTER_NAMES[character]
    if character < "\x7f":
        return "#\\" + character
    # Names of characters younger than Unicode 3.2 are left out: SBCL reads the code of any character, but
    # the name only of those that it knows.
    name = unicodedata.ucd_3_2_0.name(character, "")
    if not name or name.startswith("CJK UNIFIED"):
        return f"#\\U{ord(character):X}"
    return "#\\" + name.replace(" ", "_")


def _character(name: str) -> Char | None:
    if len(name) == 1:
        return Char(name) if not "\ud800" <= name <= "\udfff" else None
    if name.upper() in _CHARACTERS:
        return Char(_CHARACTERS[name.upper()])
    if code := re.fullmatch(r"[Uu]\+?0*([0-9A-Fa-f]{1,6})", name):
        number = int(code[1], 16)
        return Char(chr(number)) if number < 0x110000 and not 0xD800 <= number < 0xE000 else None
    full_name = name.replace("_", " ").upper()
    try:
        found = unicodedata.lookup(full_name)
    except (KeyError, UnicodeEncodeError):
        return None
    # Python also finds aliases, sequences of characters, and ideographs by a name that is only their code
    known = (
        len(found) == 1
        and unicodedata.name(found, "") == full_name
        and not full_name.startswith("CJK UNIFIED")
    )
    return Char(found) if known else None


# --- tokens -----------------------------------------------------------------------------------------------

_INSIDE = r"""[^\t\n\f\r "'(),;`|\\]"""  # what goes on with a token, but for escapes
# A group that can fail after its first character is never possessive: Python before 3.11.5 gets that wrong.
_CONSTITUENT = rf"(?: {_INSIDE}++ | \\. | \|[^|\\]*+(?:\\.[^|\\]*+)*+\| )"
_TOKEN = re.compile(
    rf"""(?:[\t\n\f\r ]++ | ;[^\n]*+)*+
    ( "[^"\\]*+(?:\\.[^"\\]*+)*+"  # a string
    | [()']
    | \#\( | \#\|
    | \#\\. {_CONSTITUENT}*        # a character
    | (?!\#){_CONSTITUENT}+         # a name or a number
    | \Z
    | .[^\n]*+ )                   # none of these
    """,
    re.DOTALL | re.VERBOSE,
)
_BLOCK = re.compile(r"#\||\|#")
_BRACKETS = spaced("()")
_SPECIAL = ";#'`|,"


def _scan(text: str) -> Iterator[tuple[str, int]]:
    """The tokens of any text and where they start."""
    position = 0
    while (match := _TOKEN.match(text, position)) and (token := match[1]):
        position = match.end()
        if token == "#|":
            position = _after_block(text, position)
            if position:
                continue
            position = len(text)  # a comment without an end: the reader says so
        yield token, match.start(1)


def _after_block(text: str, position: int) -> int:
    """Where a block comment ends, which may hold others; 0 if it doesn't."""
    depth = 1
    for mark in _BLOCK.finditer(text, position):
        depth += 1 if mark[0] == "#|" else -1
        if depth == 0:
            return mark.end()
    return 0


def _tokens(text: str, max_tokens: int) -> tuple[list[str], list[str]]:
    """The tokens of any text, a lone quote for each string, and the strings."""
    tokens: list[str] = []
    strings: list[str] = []
    for token, _ in islice(_scan(text), max_tokens + 1):
        if token[0] == '"':
            if is_closed(token):
                strings.append(token[1:-1])
                token = '"'
            else:
                token = UNCLOSED
        tokens.append(token)
    return tokens, strings


def _place(text: str, at: int) -> tuple[int, int]:
    """The line and column of a text's token."""
    starts = (start for _, start in _scan(text))
    return line_and_column(text, next(islice(starts, at, None), len(text)))


# --- atoms ------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?\d+\.?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_FLOAT = re.compile(  # any digits before the point, but only ASCII after it, is what SBCL takes
    r"([+-]?(?:\d*\.[0-9]+|\d+(?:\.[0-9]*)?(?=[esfdlESFDL])))(?:([esfdlESFDL])([+-]?[0-9]+))?"
)
_PIECE = re.compile(r"\|([^|\\]*+(?:\\.[^|\\]*+)*+)\||\\(.)|(:+)|([^|\\:]+)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_INVALID = re.compile("[\b\x7f]")  # characters that the standard gives no place in a token


_known_atoms: dict[str, Any] = {}


def _atom(token: str, max_digits: int) -> Any:
    """The value of a token that is neither a string nor a bracket nor a quote."""
    first = token[0]
    if first == "#":
        return _dispatched(token)
    if first in '"`,':
        raise Fault(_why_no_atom(token))
    if (first.isdecimal() or first in "+-.") and (number := _number(token, max_digits)) is not None:
        return number
    value = _named(token)
    if len(token) <= _MAX_KNOWN_LENGTH and value != []:
        if len(_known_atoms) >= _MAX_KNOWN_ATOMS:
            _known_atoms.clear()
        _known_atoms[token] = value
    return value


def _why_no_atom(token: str) -> str:
    match token[0]:
        case '"':
            return "a string without its closing quote"
        case "|":
            return "a name without its closing bar"
        case "\\":
            return "nothing after a backslash"
        case _:
            return f"{token[0]!r} is not read: backquote and comma have no place in data"


def _dispatched(token: str) -> Char:
    if token.startswith("#\\"):
        character = _character(token[2:]) if len(token) > 2 else None
        if character is None:
            raise Fault(
                f"unknown character {token_text(token)!r}; expected #\\c, #\\Newline, #\\U+41 or the like"
            )
        return character
    if token == "#|":
        raise Fault("a block comment without its end |#")
    raise Fault(f"the reader macro {token_text(token[:3])!r} is not read; only #\\ #( and #| are")


def _is_number(token: str) -> bool:
    return any(kind.fullmatch(token) for kind in (_INTEGER, _RATIO, _FLOAT))


def _number(token: str, max_digits: int) -> int | float | Fraction | None:
    """The number that a token is, or None if it is a name."""
    if len(token) > max_digits:
        if _is_number(token):
            raise Fault(f"a number of {len(token)} characters; at most {max_digits} are allowed")
        return None
    try:
        if _INTEGER.fullmatch(token):
            return int(token.rstrip("."))
        if match := _RATIO.fullmatch(token):
            ratio = Fraction(int(match[1]), int(match[2]))
            return ratio if ratio.denominator != 1 else ratio.numerator
        if match := _FLOAT.fullmatch(token):
            return _float(match[1], (match[2] or "e").lower(), int(match[3] or 0))
    except (ValueError, ZeroDivisionError):
        raise Fault(f"invalid number {token_text(token)!r}") from None
    return None


def _float(mantissa: str, marker: str, exponent: int) -> float:
    """A float as SBCL reads it. Too large is an error; a denormal is rounded to full precision, then cut."""
    double = marker in "dl"
    zero = not Decimal(mantissa) or exponent < -MAX_EXPONENT
    if exponent > MAX_EXPONENT and not zero:
        raise ValueError
    text = f"{mantissa}e{0 if zero else exponent}"
    value = float(text)
    if math.isinf(value):
        raise ValueError
    least = 2.0**-1074 if double else 2.0**-149
    if zero or 2 * abs(value) < least:  # exact fractions of very small numbers are very long
        value = math.copysign(0.0, value)
    elif abs(value) <= (_LEAST_NORMAL if double else _LEAST_NORMAL_SINGLE):
        steps = float(abs(Fraction(text)) / Fraction(least))
        value = math.copysign(math.floor(steps if double else Single(steps)) * least, value)
    elif not double and _is_between_singles(value) and (exact := Fraction(text)) != value:
        value = math.nextafter(
            value, math.inf if exact > value else -math.inf
        )  # it must be rounded only once
    return value if double else Single(value)


def _is_between_singles(value: float) -> bool:
    """Whether a double is as near to one float of 32 bits as to the next."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits & 0x1FFFFFFF == 0x10000000


def _named(token: str) -> Any:
    """The keyword or symbol that a token is. NIL is the empty list, T is True."""
    local = token.removeprefix(":")
    if local and ":" not in local and "|" not in local and "\\" not in local:
        if len(local) < len(token):
            return Keyword(_name(local))
        if not token.strip("."):
            raise Fault(f"{token_text(token)} stands where no dot may stand")
        return _symbol(_name(token))
    package, colons, name = _pieced(token)
    if not colons:
        return _symbol(name)
    if token[0] == ":" or package == "KEYWORD":
        return Keyword(name)
    if package not in _PACKAGES:
        raise Fault(f"unknown package in {token_text(token)!r}; expected one of {', '.join(_PACKAGES)}")
    prefix = _PACKAGES[package]
    return Symbol(name, prefix + ":" * colons) if prefix and name not in ("NIL", "T") else _symbol(name)


def _symbol(name: str) -> Any:
    if name == "NIL":
        return []
    return True if name == "T" else Symbol(name)


def _name(text: str) -> str:
    """The name that unescaped characters stand for."""
    if _INVALID.search(text):
        raise Fault(f"a character in {token_text(text)!r} can't be part of a name")
    if text.isascii():
        return text.upper()
    if len(text) > MAX_NAME:
        raise Fault(f"a name of {len(text)} characters; at most {MAX_NAME} are allowed beyond ASCII")
    return _upcase(unicodedata.normalize("NFKC", text))


def _pieced(token: str) -> tuple[str, int, str]:
    """The package of a token, the number of its colons, and the name, of what is escaped and what is not."""
    package, colons, places = "", 0, 0
    parts: list[str] = []
    end = 0
    for match in _PIECE.finditer(token):
        if match.start() != end:
            break
        end = match.end()
        barred, single, marker, plain = match.groups()
        if plain is not None:
            parts.append(_name(plain))
        elif marker is None:
            parts.append(single if single is not None else _ESCAPED.sub(r"\1", barred))
        else:
            package, colons, parts = "".join(parts), len(marker), []
            places += 1
    if end != len(token):
        raise Fault(_why_no_atom(token[end:]))
    if places > 1 or colons > 2 or not parts:
        raise Fault(f"a colon in the wrong place in {token_text(token)!r}")
    return package, colons, "".join(parts)


# --- reading ----------------------------------------------------------------------------------------------


class _Mark(NamedTuple):
    """A quote or a dot, where it stands among the items until their list is complete."""

    token: str
    at: int


def loads(
    text: str | bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_length: int = MAX_LENGTH,
    max_tokens: int = MAX_TOKENS,
    max_digits: int = MAX_DIGITS,
) -> Any:
    """The one value that the text holds. Nothing but blanks and comments may stand around it."""
    text = utf8(text, SexpError)
    if len(text) > max_length:
        raise SexpError(f"a text of {len(text)} characters; at most {max_length} are allowed", 1, 1)
    simple = apart(text, _SPECIAL)
    if simple is not None and simple[0].isprintable():  # other control characters are no blanks here
        tokens, strings = cut(simple[0], _BRACKETS, max_tokens), simple[1]
    else:
        tokens, strings = _tokens(text, max_tokens)
    if len(tokens) > max_tokens:
        raise SexpError(f"more than {max_tokens} atoms and brackets", 1, 1)
    rest = iter(tokens)
    try:
        values = _read(rest, iter(strings).__next__, len(tokens), max_depth, max_digits)
    except Fault as fault:
        at = len(tokens) - length_hint(rest) - 1 if fault.at is None else fault.at
        raise SexpError(fault.message, *_place(text, at)) from None
    if len(values) != 1:
        raise SexpError(f"expected one form, found {len(values) or 'none'}", 1, 1)
    return values[0]


def _read(
    rest: Iterator[str], next_string: Callable[[], str], count: int, max_depth: int, max_digits: int
) -> list[Any]:
    known = _known_atoms.get
    items: list[Any] = []
    stack: list[tuple[list[Any], str]] = []
    quotes = 0
    deepest = max_depth // 2  # no brackets nest deeper, as far as we know
    marked = False  # whether a quote or a dot was met anywhere so far
    for token in rest:
        if (value := known(token)) is not None:
            items.append(value)
        elif token == '"':
            string = next_string()
            items.append(string if "\\" not in string else _ESCAPED.sub(r"\1", string))
        elif token in ("(", "#("):
            if len(stack) >= deepest:
                if len(stack) >= max_depth:
                    raise Fault(f"lists nest deeper than {max_depth}")
                deepest = max_depth
            stack.append((items, token))
            items = []
        elif token == ")":
            if not stack:
                raise Fault(") without its opening partner")
            outer, opener = stack.pop()
            value = _unmarked(items, opener) if marked else items
            outer.append(value if opener == "(" else tuple(value))
            items = outer
        elif token in ("'", "."):
            marked = True
            quotes += token == "'"
            items.append(_Mark(token, count - length_hint(rest) - 1))
        else:
            items.append(_atom(token, max_digits))
    if stack:
        raise Fault("the text ends before a list is closed", count)
    if marked:
        items = _unmarked(items, "")
        if quotes + deepest > max_depth and nests_deeper(items, _PARTS, max_depth):
            raise Fault(f"lists and quotes nest deeper than {max_depth}", 0)
    return items


def _unmarked(items: list[Any], opener: str) -> Any:
    """The items with each quote applied to what follows it, the last one first, and the dot to its list."""
    done: list[Any] = []
    dot: _Mark | None = None
    for item in reversed(items):
        if type(item) is not _Mark:
            done.append(item)
        elif item.token == "'":
            if not done or (dot is not None and len(done) == 1):
                raise Fault("a quote needs a form after it", item.at)
            done[-1] = [QUOTE, done[-1]]
        else:
            if opener != "(" or len(done) != 1 or dot is not None:
                raise Fault("a dot must stand before the last form of a list", item.at)
            dot = item
    done.reverse()
    if dot is None:
        return done
    tail = done.pop()
    if not done:
        raise Fault("a dot needs a form before it", dot.at)
    if not isinstance(tail, list | Dotted):
        return Dotted(tuple(done), tail)
    more = tail if isinstance(tail, list) else tail.items
    if len(more) > MAX_DOTTED_TAIL:
        raise Fault(f"a list of more than {MAX_DOTTED_TAIL} elements after a dot", dot.at)
    done.extend(more)
    return done if isinstance(tail, list) else Dotted(tuple(done), tail.tail)


# --- writing ----------------------------------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any, *, max_depth: int = MAX_DEPTH) -> str:
    """The value as SBCL prints it with `~s`. It is one line only if no string in it has a newline."""
    text = write(value, _LISP, max_depth)
    if not text.isascii() and _SURROGATE.search(text):
        raise SexpError("half of a surrogate pair can't be sent as UTF-8")
    return text


def _string(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _integer(value: int) -> str:
    return digits(value, SexpError)


def _ratio(value: Fraction) -> str:
    numerator = _integer(value.numerator)
    return numerator if value.denominator == 1 else f"{numerator}/{_integer(value.denominator)}"


_PRECISION, _PRECISION_SINGLE = 53, 24
_SURE_DIGITS, _SURE_DENOMINATOR = 15, 2**25  # no double with less of them, or with a larger one, is a tie


def _double(value: float) -> str:
    if not math.isfinite(value):
        raise SexpError(f"{value!r} can't be printed readably")
    sign, digits, point = digits_of(float.__repr__(value))
    if 0 < abs(value) < _LEAST_NORMAL or (
        len(digits) > _SURE_DIGITS and value.as_integer_ratio()[1] <= _SURE_DENOMINATOR
    ):
        digits, point = shortest(abs(value), _PRECISION)
    return notation(sign, digits, point, marker="d", plain_suffix="d0")


def _single(value: Single) -> str:
    if not math.isfinite(value):
        raise SexpError(f"{value!r} can't be printed readably")
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, point = shortest(abs(value), _PRECISION_SINGLE) if value else ("", 0)
    return notation(sign, digits, point, marker="e", plain_suffix="")


_LISP = Dialect(
    format="an S-expression",
    error=SexpError,
    scalars={
        Keyword: attrgetter("literal"),
        str: _string,
        int: _integer,
        bool: {True: "T", False: "NIL"}.__getitem__,
        type(None): {None: "NIL"}.__getitem__,
        float: _double,
        Single: _single,
        Symbol: attrgetter("literal"),
        Fraction: _ratio,
        Char: _character_literal,
        Verbatim: str,
    },
    maps=frozenset(),
    collections={
        list: Brackets("(", ")", "NIL"),
        tuple: Brackets("#(", ")", "#()"),
        Dotted: Brackets("(", ")", "", lambda dotted: (*dotted.items, Verbatim("."), dotted.tail)),
    },
)
