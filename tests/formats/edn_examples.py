"""EDN to test with: any value that can be read, and texts that may or may not be EDN."""

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from fairlead.formats.edn import BigInt, Char, FrozenMap, Keyword, Symbol, Tagged, Vector, dumps
from fairlead.formats.edn.values import is_name
from tests.formats.listed import listed

# --- values -----------------------------------------------------------------------------------------------

_FIRST, _INSIDE = "abzAZ_.*!?%&=<>|$é日ßΩ½😀", "abzAZ09_.*+!?%&=<>|'#$-é日٣𝟎\u00a0"
texts = st.text(st.characters(codec="utf-8"), max_size=12)
_words = st.tuples(st.sampled_from(_FIRST), st.text(_INSIDE, max_size=5)).map("".join)
local_names = _words | st.sampled_from(
    ["/", "+", "-", "...", "a:b", "-a", "+-1", "nil?", "\ufeff1", "𝟎", "a\x85"]
)
names = local_names | st.tuples(_words, local_names).map("/".join)
keywords = (names | st.sampled_from(["1", "1a", "nil", "+1", "a//"])).map(Keyword)
symbols = names.filter(lambda name: name not in ("nil", "true", "false")).map(Symbol)
tags = st.tuples(st.sampled_from("abAZéµ"), st.text("az09./-", max_size=4)).map("".join).filter(is_name)
chars = st.characters(codec="utf-8", max_codepoint=0xFFFF).map(Char)
longs = st.integers(-(2**63), 2**63 - 1)
decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(-(10**20), 10**20),
    st.integers(-30, 30),
)
ratios = st.builds(Fraction, st.integers(), st.integers(2, 10**9)).filter(
    lambda ratio: ratio.denominator != 1
)
moments = st.datetimes(datetime(1600, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
"""Instants as java.util.Date has them: of milliseconds, and after the calendar was changed."""
exact_atoms = st.one_of(
    st.none(),
    st.booleans(),
    longs,
    st.integers().map(BigInt),
    decimals,
    ratios,
    keywords,
    symbols,
    st.uuids(),
)
"""Values without parts that Clojure prints just as we do."""
atoms = exact_atoms | st.floats() | chars | texts | moments


def _frozen(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    elements = st.lists(inner, max_size=3)
    return st.one_of(
        elements.map(Vector),
        elements.map(tuple),
        elements.map(frozenset),
        st.lists(st.tuples(inner, inner), max_size=3).map(dict).map(FrozenMap),
        st.builds(Tagged, tags.map(Symbol), inner),
    )


_keys = st.recursive(
    exact_atoms | st.floats(allow_nan=False) | chars | texts | moments, _frozen, max_leaves=4
)


@st.composite
def keys(draw: st.DrawFn) -> Any:
    """Values that can be the key of a map, or with others in a set: so not NaN, which Clojure finds twice."""
    return draw(_keys)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    elements = st.lists(inner, max_size=4)
    return st.one_of(
        elements,
        elements.map(tuple),
        st.lists(st.tuples(keywords | keys(), inner), max_size=4).map(dict),
        st.lists(keys(), max_size=4).map(frozenset),
        st.builds(Tagged, tags.map(Symbol), inner),
    )


_values = st.recursive(atoms, _nested, max_leaves=12)


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Any value that can be read."""
    return draw(_values)


# --- texts ------------------------------------------------------------------------------------------------

_signs = listed("¦ + ¦ -")
_numbers = st.one_of(
    st.tuples(
        _signs,
        st.text("0123456789", min_size=1, max_size=4),
        listed("¦ N ¦ M ¦ . ¦ e3 ¦ E-2 ¦ .5M ¦ e+1M ¦ /3 ¦ /0 ¦ a"),
    ),
    st.tuples(
        _signs,
        listed("0x ¦ 0X ¦ 0 ¦ 2r ¦ 8r ¦ 16R ¦ 36r ¦ 37r ¦ 1r ¦ 09r"),
        st.text("0123456789aFzZ", max_size=4),
        listed("¦ N ¦ M"),
    ),
    st.tuples(st.text("0123456789+-./eExXrRNM", min_size=1, max_size=7)),
).map("".join)
_odd_names = st.one_of(
    st.text(
        "abAB019/.:+-_#'%&|<>=*!?$@~`é日\u00a0\ufeff\x85\u2028\u3000😀٣𝟎½²\0\x01\x7f\x1c",
        min_size=1,
        max_size=6,
    ),
    st.text("ab/:1+.", min_size=1, max_size=6).map(lambda name: ":" + name),
)
_in_strings = st.one_of(
    st.sampled_from(" \n\r\u2028\0;#]a7é😀"),
    listed(
        r"""\n ¦ \t ¦ \r ¦ \b ¦ \f ¦ \" ¦ \\ ¦ \u00e9 ¦ \uD83D\uDE00 ¦ \u12 ¦ \u004g ¦ \0 ¦ \1 ¦ \12 ¦
        \123 ¦ \377 ¦ \400 ¦ \8 ¦ \x"""
    ),
)
_strings = st.tuples(
    st.just('"'), st.lists(_in_strings, max_size=4).map("".join), st.sampled_from(['"', '"', '"', ""])
).map("".join)
_characters = st.one_of(
    st.sampled_from([" ", "\n", ""]),
    listed(
        r"""a ¦ newline ¦ space ¦ tab ¦ backspace ¦ formfeed ¦ return ¦ delete ¦ nul ¦ u0041 ¦ uD800 ¦
        uFFFF ¦ u12 ¦ u00e9x ¦ u ¦ o101 ¦ o377 ¦ o400 ¦ o8 ¦ o7 ¦ o1234 ¦ o ¦ ab ¦ @ ¦ a@ ¦ 1 ¦ 12 ¦ é ¦
        日 ¦ 😀 ¦ ' ¦ # ¦ #a ¦ ; ¦ ( ¦ { ¦ [ ¦ ^ ¦ " ¦ \ ¦ ,"""
    ),
).map(lambda name: "\\" + name)
_instants = st.one_of(
    st.from_regex(
        r"20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\.[0-9]{1,3}(Z|[+-]0[0-9]:30)",
        fullmatch=True,
    ),
    listed(
        """2020 ¦ 2020Z ¦ 20201 ¦ 2020-1-1 ¦ 2020-00 ¦ 2020-01-00 ¦ 1970-13 ¦ 2020-02-29 ¦ 2019-02-29 ¦
        1900-02-29 ¦ 2000-02-29 ¦ 9999-12-31T23:59:59Z ¦ 2020-01-01T24:00 ¦ 2020-01-01T12Z ¦
        2020-01-01t00:00Z ¦ 2020-01-01T23:59:60Z ¦ 2016-12-31T23:59:60-01:00 ¦ 2020-01-01T12:59:60 ¦
        2020-01-01T12:58:60 ¦ 2020-01-01T12:30:45.123000000+05:30 ¦ 2020-01-01T10:10:10.1230000001Z ¦
        2020-01-01T12:30-00:00 ¦ 2020-01-01T12:30+23:59 ¦ 2020-01-01T12:30+24:00 ¦
        2020-01-01T12:30+23:60 ¦ """
    ),
).map(lambda moment: f'#inst "{moment}"')
_uuids = listed(
    """1-2-3-4-5 ¦ f81d4fae-7dec-11d0-a765-00a0c91e6bf6 ¦ F81D4FAE-7dec-11d0-a765-00a0c91e6bf ¦
        f81d4fae7dec11d0a76500a0c91e6bf6 ¦ g-1-1-1-1 ¦ 1-2-3-4 ¦ 1-2-3-4-5-6 ¦ """
).map(lambda number: f'#uuid "{number}"')
_forms = listed(
    """nil ¦ true ¦ false ¦ 1 ¦ a ¦ :b ¦ "s" ¦ ##Inf ¦ ##-Inf ¦ ##NaN ¦ ## Inf ¦ ##foo ¦ ##1 ¦ 1.0 ¦
        1N ¦ 1M ¦ 1.0M ¦ 0.0 ¦ -0.0 ¦ 2/1 ¦ [1] ¦ [1.0] ¦ (1) ¦ {:a 1} ¦ #{1} ¦ #{} ¦ {} ¦ [] ¦ () ¦
        #:a{:b 1} ¦ #:a{:_/b 1 c 2 3 4} ¦ #:a{b/c 1} ¦ #:a {} ¦ #:a/b{} ¦ #:{} ¦ #::{} ¦ #: a{:b 1} ¦
        #:a #_b {} ¦ #:a,{:b 1 :a/b 2} ¦ #:a[] ¦ #:a ^b {} ¦ #:a #:b{} ¦ #:#_b a{} ¦ #:^b a{:c 1} ¦
        #:1{}"""
)
_prefixes = st.tuples(
    listed(
        """#_ ¦ #_#_ ¦ ^ ¦ #^ ¦ ## ¦ #:a ¦ #: ¦ #a ¦ #a/b ¦ #nil ¦ #a: ¦ #a/ ¦ #a#b ¦ #a' ¦ #é ¦ #ª ¦ #日 ¦
        #😀 ¦ #𝒜 ¦ #½ ¦ #1 ¦ #+ ¦ #! ¦ #<a> ¦ #' ¦ #= ¦ #" ¦ #@ ¦ #. ¦ # ¦ #_a"""
    ),
    st.sampled_from(["", " "]),
).map("".join)
_blanks = st.sampled_from([" ", " ", "", "\n", ", ", " ;c\n", ";c\r", " #_x ", "\u2028", "\x1f"])


def _bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    brackets = st.sampled_from(["[]", "()", "{}", "{}", "#{}", "[)", "{ "])
    return st.builds(
        lambda pair, items, blank: pair[:-1] + blank.join(items) + pair[-1],
        brackets,
        st.lists(inner, max_size=4),
        _blanks.filter(bool),
    )


_tokens = st.one_of(
    _numbers,
    _odd_names,
    _strings,
    _characters,
    _instants,
    _uuids,
    _forms,
    _prefixes,
    names,
    values().map(dumps),
)
_nested_tokens = st.recursive(_tokens, _bracketed, max_leaves=8)


@st.composite
def odd_texts(draw: st.DrawFn) -> str:
    """Texts of EDN's tokens, right and wrong ones."""
    return draw(_blanks).join(draw(st.lists(_nested_tokens, min_size=1, max_size=3)))
