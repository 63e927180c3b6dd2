"""S-expressions to test with: any value that can be read, and texts that may or may not be read."""

import math
import struct
import unicodedata
from typing import Any

from hypothesis import strategies as st

from fairlead.formats.sexp import Char, Dotted, Keyword, Single, Symbol, dumps
from tests.formats.listed import listed


def is_old(text: str) -> bool:
    """Whether Unicode had all of its characters in version 3.2, so that no Lisp is too old for them."""
    return all(unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs") for character in text)


# --- values -----------------------------------------------------------------------------------------------

letters = st.characters(codec="utf-8").filter(is_old)
texts = st.text(letters, max_size=12)
names = st.one_of(
    st.text("0123456789+-./^_ABEDZabe*", max_size=6),
    st.text("AB1:;|\\\"'`,#() \n\t\x7f\x80", max_size=5),
    st.text(letters, max_size=5),
    st.text("AZaz-", max_size=8),
)
keywords = names.map(Keyword)
symbols = names.filter(
    lambda name: name not in ("NIL", "T") and (name.isascii() or not any(map(str.isdecimal, name)))
).map(Symbol)
"""Not of other digits than ASCII, which SBCL prints as if they were a number."""
doubles = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
singles = st.integers(0, 2**32 - 1).map(lambda bits: Single(struct.unpack("<f", struct.pack("<I", bits))[0]))
denormals = st.integers(1, 2**52 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
small_singles = st.integers(1, 2**23 - 1).map(lambda bits: Single(bits * 2.0**-149))
floats = st.one_of(
    st.floats(), doubles, denormals, st.floats(width=32).map(Single), singles, small_singles
).filter(math.isfinite)
chars = letters.map(Char)
ratios = st.fractions().filter(lambda ratio: ratio.denominator != 1)
atoms = st.one_of(st.just(True), st.integers(), ratios, floats, chars, texts, keywords, symbols, st.just([]))


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=4)
    tails = inner.filter(lambda tail: not isinstance(tail, list | Dotted))
    return st.one_of(
        items,
        items.map(tuple),
        st.builds(
            lambda before, tail: Dotted(tuple(before), tail), st.lists(inner, min_size=1, max_size=3), tails
        ),
    )


_values = st.recursive(atoms, _nested, max_leaves=12)


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Any value that can be read."""
    return draw(_values)


# --- texts ------------------------------------------------------------------------------------------------

_signs = listed("¦ + ¦ -")
numbers = st.one_of(
    st.tuples(
        _signs,
        st.text("0123456789", min_size=1, max_size=4),
        listed(
            """ ¦ . ¦ .5 ¦ .d0 ¦ .e1 ¦ e ¦ e3 ¦ E-2 ¦ d5 ¦ D+1 ¦ f1 ¦ s-3 ¦ L2 ¦ /3 ¦ /0 ¦ /-3 ¦ e38 ¦ e39 ¦
        e400 ¦ e-44 ¦ e-46 ¦ e-400 ¦ d308 ¦ d309 ¦ d-323 ¦ d-324 ¦ d-400"""
        ),
    ),
    st.tuples(_signs, st.just("."), st.text("0123456789", max_size=3), listed("¦ e3 ¦ d-2 ¦ f ¦ .")),
    st.tuples(st.text("0123456789+-./^_eEdDfFsSlLaAzZ", min_size=1, max_size=6)),
    st.tuples(_signs, st.text("1٣３๓", min_size=1, max_size=2), listed("¦ . ¦ .5 ¦ .٣ ¦ /٤ ¦ e1 ¦ e٣ ¦ x")),
).map("".join)
_odd_names = st.one_of(
    st.text(
        "abAB019/.:+-_%&<>=*!?$@[]{}~^éßÿ日\u00a0\ufeff\x85\u2028😀½²ﬁµſǅΩıİ：．（\0\x01\b\x7f\x0b\x1c",
        min_size=1,
        max_size=5,
    ),
    st.lists(
        listed(r"a ¦ B ¦ 1 ¦ . ¦ + ¦ - ¦ é ¦ # ¦ : ¦ | ¦ || ¦ |x y| ¦ \ ¦ \a ¦ \| ¦ \: ¦ |:|"), max_size=5
    ).map("".join),
)
_packaged = st.tuples(
    listed("cl: ¦ CL:: ¦ common-lisp: ¦ keyword: ¦ keyword:: ¦ : ¦ :: ¦ ::: ¦ nosuch: ¦ ||: ¦ |CL|: ¦ c\\l:"),
    listed("car ¦ |CAR| ¦ nil ¦ t ¦"),
).map("".join) | listed(
    """passepartout:frame-message ¦ passepartout::x ¦ passepartout::nil ¦ passepartout::t ¦
        sb-ext:quit ¦ :1 ¦ :1.0 ¦ :. ¦ :a:b ¦ a:b:c ¦ :|a|b ¦ keyword:|x y|"""
)
_strings = st.tuples(
    st.just('"'),
    st.lists(
        st.sampled_from(
            ["a", " ", "\\n", "\\\\", '\\"', "\n", "\t", "é", "😀", ";", "|", "#|", "\0", "\u2028"]
        ),
        max_size=4,
    ).map("".join),
    st.sampled_from(['"', '"', '"', ""]),
).map("".join)
characters = st.one_of(
    st.sampled_from([" ", "\n", "", "\x01", "\x7f", "\x80", "\u00a0"]),
    listed(
        r"""a ¦ A ¦ é ¦ 日 ¦ 가 ¦ ( ¦ ) ¦ " ¦ \ ¦ | ¦ ; ¦ # ¦ ' ¦ 1 ¦ x ¦ Newline ¦ newline ¦ NEWLINE ¦
        space ¦ Sp ¦ Tab ¦ Ht ¦ Backspace ¦ Bs ¦ Rubout ¦ Delete ¦ Del ¦ Return ¦ Cr ¦ Linefeed ¦ Lf ¦
        Nl ¦ Page ¦ Form ¦ Formfeed ¦ Ff ¦ Nul ¦ Null ¦ Esc ¦ Escape ¦ Altmode ¦ Bel ¦ Soh ¦ Us ¦ Vt ¦
        ^@ ¦ ^a ¦ ^_ ¦ ^? ¦ C80 ¦ Next-Line ¦ u0041 ¦ U41 ¦ U+41 ¦ U+ ¦ u ¦ U00000041 ¦ U+10FFFF ¦
        U+110000 ¦ U41x ¦ x41 ¦ ab ¦ 12 ¦ a' ¦ aé ¦ a|b| ¦ a\b ¦ |a| ¦
        LATIN_SMALL_LETTER_E_WITH_ACUTE ¦ latin_small_letter_e_with_acute ¦ LATIN-SMALL-LETTER-A ¦
        SNOWMAN ¦ HANGUL_SYLLABLE_GA ¦ CJK_UNIFIED_IDEOGRAPH-65E5 ¦ nbsp ¦ NO-BREAK_SPACE ¦ ALERT ¦
        LINE_FEED ¦ DIGIT_ONE"""
    ),
).map(lambda name: "#\\" + name)
_forms = listed(
    r"""nil ¦ t ¦ NIL ¦ () ¦ a ¦ 1 ¦ (1 . 2) ¦ (1 . (2)) ¦ (1 . nil) ¦ (1 . (2 . 3)) ¦ ( . 1) ¦
        (1 .) ¦ (1 . 2 3) ¦ (1 . 2 . 3) ¦ . ¦ .. ¦ ... ¦ (a ... b) ¦ 'a ¦ ' ¦ '' ¦ ''a ¦ 'nil ¦ #() ¦
        #(1 . 2) ¦ #(1 2) ¦ #( ) ¦ (quote x) ¦ (quote . x) ¦ (a .b) ¦ (a. b) ¦ (a . 'b) ¦ (a '. b) ¦
        ('a . b) ¦ (a . ') ¦ #|c|# ¦ #|a #|b|# c|# ¦ #|a ¦ a#|c|#b ¦ a#b ¦ a'b ¦ a"b" ¦ a(b) ¦ |a ¦
        \ ¦ ) ¦ ( ¦ |# ¦ #"""
)
_blanks = st.sampled_from([" ", " ", "", "\n", "\t", "\f", "\r", " ;c\n", " #|x|# ", "\x0b", "\u00a0", "\b"])


def _bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda opener, items, closer, blank: opener + blank.join(items) + closer,
        listed("( ¦ ( ¦ #( ¦ '("),
        st.lists(inner, max_size=4),
        st.sampled_from([")", ")", ")", ")", ""]),
        _blanks.filter(bool),
    )


_tokens = st.one_of(numbers, _odd_names, _packaged, _strings, characters, _forms, values().map(dumps))
_nested_tokens = st.recursive(_tokens, _bracketed, max_leaves=8)


@st.composite
def odd_texts(draw: st.DrawFn) -> str:
    """Texts of Lisp's tokens, right and wrong ones, without the reader macros that are never read."""
    return draw(_blanks).join(draw(st.lists(_nested_tokens, min_size=1, max_size=2)))


macros = listed(
    """#.1 ¦ #+a b ¦ #-a b ¦ #*101 ¦ #x1F ¦ #b1 ¦ #o7 ¦ #3r12 ¦ #c(1 2) ¦ #'a ¦ #:a ¦ #p"x" ¦ #1=a ¦
        (#1=a #1#) ¦ #S(a) ¦ #2(1) ¦ #1A(1) ¦ #<a> ¦ #) ¦ `a ¦ ,a ¦ ,@a ¦ `(a ,b) ¦ #! ¦ #0= ¦ ## ¦
        #$ ¦ #1|a|# ¦ #1\\a"""
)
