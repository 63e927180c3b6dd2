"""What S-expressions become in Python."""

from fractions import Fraction
from typing import Any

import pytest

from fairlead.formats.sexp import QUOTE, Char, Dotted, Keyword, Single, Symbol, dumps, loads
from tests.formats.exactly import exactly

K, S = Keyword, Symbol
A, B = S("A"), S("B")

TABLE: list[tuple[str, Any]] = [
    ("(1 2 3)", [1, 2, 3]),
    ("NIL", []),
    ("()", []),
    ("T", True),
    ("(a . b)", Dotted((A,), B)),
    ("#(1 2)", (1, 2)),
    (":key", K("KEY")),
    ("symbol", S("SYMBOL")),
    ('"text"', "text"),
    (r"#\c", Char("c")),
    ("1", 1),
    ("1/2", Fraction(1, 2)),
    ("1.5d0", 1.5),
    ("1.5", Single(1.5)),
]
"""Each row of the table at the head of the module."""

ATOMS: list[tuple[str, Any]] = [
    ("nil", []),
    ("cl:nil", []),
    ("passepartout::nil", []),
    ("t", True),
    ("sb-ext::t", True),
    ("+5", 5),
    ("-0", 0),
    ("007", 7),
    ("12.", 12),
    ("٣", 3),
    ("4/2", 2),
    ("-4/6", Fraction(-2, 3)),
    (".5", Single(0.5)),
    ("1e3", Single(1000)),
    ("1E3", Single(1000)),
    ("1f0", Single(1)),
    ("1s0", Single(1)),
    ("1l0", 1.0),
    ("1D3", 1000.0),
    ("-0.0", Single(-0.0)),
    ("-0d0", -0.0),
    ("0e99999", Single(0)),
    ("1e-99999", Single(0)),
    ("-1d-99999", -0.0),
    ("3.4028235e38", Single(3.4028235e38)),
    ("1.4e-45", Single(0)),
    ("5d-324", 5e-324),
    ("0." + "0" * 400 + "1d401", 1.0),
    ("16777217.0000000001", Single(16777218)),
    ("16777217.0", Single(16777216)),
    ("1.5.5", S("1.5.5")),
    ("1e", S("1E")),
    ("1+", S("1+")),
    ("+", S("+")),
    ("1.٣", S("1.٣")),
    ("a.b", S("A.B")),
    ("|a b|", S("a b")),
    (r"a\ b", S("A B")),
    (r"\a|b\|c|d", S("ab|cD")),
    ("||", S("")),
    ("|NIL|", []),
    ("|nil|", S("nil")),
    (r"\1", S("1")),
    ("é", S("É")),
    ("ß", S("ß")),
    ("ﬁ", S("FI")),
    ("a：b", S("A:B")),
    ("．", S(".")),
    ("a\u00a0b", S("A B")),
    ("a\x0bb", S("A\x0bB")),
    ("\0", S("\0")),
    ("::a", K("A")),
    ("keyword:a", K("A")),
    ("keyword::|a b|", K("a b")),
    (":|a:b|", K("a:b")),
    (r":a\:b", K("A:B")),
    (":||", K("")),
    (":1.0", K("1.0")),
    (":nil", K("NIL")),
    (":.", K(".")),
    ("cl:car", S("CAR")),
    ("common-lisp::car", S("CAR")),
    ("passepartout:frame", S("FRAME", "PASSEPARTOUT:")),
    ("PassePartout::|x|", S("x", "PASSEPARTOUT::")),
    ('"a\\nb\\"\\\\"', 'anb"\\'),
    ('"a\nb\t\0;|#"', "a\nb\t\0;|#"),
    (r"#\Newline", Char("\n")),
    (r"#\newline", Char("\n")),
    (r"#\ ", Char(" ")),
    (r"#\Space", Char(" ")),
    (r"#\(", Char("(")),
    ('#\\"', Char('"')),
    (r"#\\", Char("\\")),
    (r"#\U+41", Char("A")),
    (r"#\u0000000041", Char("A")),
    (r"#\Nul", Char("\0")),
    (r"#\^@", Char("\0")),
    (r"#\altmode", Char("\x1b")),
    (r"#\Next-Line", Char("\x85")),
    (r"#\latin_small_letter_e_with_acute", Char("é")),
    (r"#\HANGUL_SYLLABLE_GA", Char("가")),
    (r"#\😀", Char("😀")),
]

LISTS: list[tuple[str, Any]] = [
    ("(a (b) () nil)", [A, [B], [], []]),
    ("(a b . c)", Dotted((A, B), S("C"))),
    ("(a . nil)", [A]),
    ("(a . (b c))", [A, B, S("C")]),
    ("(a . (b . c))", Dotted((A, B), S("C"))),
    ("(a . #(b))", Dotted((A,), (B,))),
    ("(a . 'b)", [A, QUOTE, B]),
    ("(a.b . c.d)", Dotted((S("A.B"),), S("C.D"))),
    ("#()", ()),
    ("#((a) #(b))", ([A], (B,))),
    ("'a", [QUOTE, A]),
    ("''a", [QUOTE, [QUOTE, A]]),
    ("'nil", [QUOTE, []]),
    ("('a 'b)", [[QUOTE, A], [QUOTE, B]]),
    ("'(a . 'b)", [QUOTE, [A, QUOTE, B]]),
    ("#('a)", ([QUOTE, A],)),
    ("(a'b)", [A, [QUOTE, B]]),
    ('(a"b"c)', [A, "b", S("C")]),
    ("(a;x\nb)", [A, B]),
    ("(a #| x #| y |# z |# b)", [A, B]),
    ("(a#|x|#b)", [S("A#x#B")]),
    ("(a#b)", [S("A#B")]),
    ("\t\n\f\r (a\tb\fc) ;", [A, B, S("C")]),
]


@pytest.mark.parametrize(("text", "value"), [*TABLE, *ATOMS, *LISTS], ids=lambda case: repr(case)[:40])
def test_a_text_is_read_as_its_value(text: str, value: Any) -> None:
    assert exactly(loads(text)) == exactly(value)
    assert exactly(loads(text.encode("utf-8"))) == exactly(value)


@pytest.mark.parametrize(("text", "value"), TABLE, ids=repr)
def test_a_value_of_the_table_is_written_and_comes_back(text: str, value: Any) -> None:
    assert exactly(loads(dumps(value))) == exactly(value)


def test_nil_is_a_new_list_each_time() -> None:
    first = loads("(nil () nil)")
    first[0].append(1)
    assert first == [[1], [], []]
    assert loads("nil") == []


def test_what_lisp_takes_for_false_is_false_in_python() -> None:
    assert [bool(loads(text)) for text in ("nil", "()", "t", "(nil)", ":nil", "|nil|")] == [False] * 2 + [
        True
    ] * 4


def test_a_quoted_form_is_a_list_with_quote_before_it() -> None:
    assert dumps(loads("'(a 'b)")) == "(QUOTE (A (QUOTE B)))"
