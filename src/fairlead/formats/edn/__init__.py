"""EDN, as Clojure 1.11 reads and prints it: `loads` and `dumps`, and one error, `EdnError`.

    >>> loads('{:id "req-1" :tags [1 2.5 nil]}')
    {Keyword('id'): 'req-1', Keyword('tags'): [1, 2.5, None]}
    >>> dumps({Keyword("id"): "req-1", Keyword("tags"): [1, 2.5, None]})
    '{:id "req-1", :tags [1 2.5 nil]}'

| EDN                   | Python                                                                 |
|-----------------------|------------------------------------------------------------------------|
| nil, true, false      | None, True, False                                                      |
| 1, 0x1f, 2r101        | int; 1N is a BigInt, an int that is written with its N                 |
| 1.5, ##Inf, ##NaN     | float                                                                  |
| 1.5M, 1/2             | Decimal, Fraction                                                      |
| "text", \\c            | str, Char                                                              |
| :key, symbol          | Keyword, Symbol: equal ones are the same object                        |
| [1 2], (1 2)          | list, tuple                                                            |
| {:a 1}, #{1}          | dict in the order of the text, frozenset                               |
| #inst, #uuid          | datetime in UTC (microseconds are kept, finer is cut off), UUID        |
| #other value          | Tagged                                                                 |

A vector or map that is a key or an element of a set is hashable there: a Vector, a FrozenMap. Keys that
Clojure tells apart and Python does not (1, 1.0 and true) stay apart: the later one is wrapped in Distinct.
Metadata is read and dropped, as it is no part of the value.

Depth, length, tokens and digits are limited (MAX_DEPTH, MAX_LENGTH, MAX_TOKENS, MAX_DIGITS, or as the caller
says), nesting never reaches Python's recursion limit, and whatever the input, nothing but EdnError is raised.
"""

from ..writing import Dialect
from .reader import MAX_DIGITS, MAX_LENGTH, MAX_TOKENS, loads, loads_all
from .values import (
    MAX_DEPTH,
    MAX_KEY_DEPTH,
    BigInt,
    Char,
    Distinct,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
)
from .writer import CLOJURE, PLAIN, dumps

__all__ = [
    "CLOJURE",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_KEY_DEPTH",
    "MAX_LENGTH",
    "MAX_TOKENS",
    "PLAIN",
    "BigInt",
    "Char",
    "Dialect",
    "Distinct",
    "EdnError",
    "FrozenMap",
    "Keyword",
    "Symbol",
    "Tagged",
    "Vector",
    "dumps",
    "loads",
    "loads_all",
]
