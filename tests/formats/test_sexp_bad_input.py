"""Bad S-expressions: what is said of them, and where. Nothing read before or after is touched by them."""

import pytest

from fairlead.formats.sexp import Keyword, SexpError, loads

ONLY = "is not read; only #\\ #( and #| are"
DATA = "is not read: backquote and comma have no place in data"
CHARACTERS = "expected #\\c, #\\Newline, #\\U+41 or the like"
PACKAGES = "expected one of COMMON-LISP, CL, SB-EXT, PASSEPARTOUT"
LAST = "a dot must stand before the last form of a list"

BAD: list[tuple[str | bytes, str, int, int]] = [
    ('"', "a string without its closing quote", 1, 1),
    ('"abc', "a string without its closing quote", 1, 1),
    ('"a\\"', "a string without its closing quote", 1, 1),
    ('(1 "a\nb)', "a string without its closing quote", 1, 4),
    ("|abc", "a name without its closing bar", 1, 1),
    ("a|b", "a name without its closing bar", 1, 2),
    ("a\\", "nothing after a backslash", 1, 2),
    ("\\", "nothing after a backslash", 1, 1),
    ("|a\\|", "a name without its closing bar", 1, 1),
    ("#|a", "a block comment without its end |#", 1, 1),
    ("#|a #|b|# c", "a block comment without its end |#", 1, 1),
    ("(a #| b\n)", "a block comment without its end |#", 1, 4),
    (")", ") without its opening partner", 1, 1),
    ("(", "the text ends before a list is closed", 1, 2),
    ("('a", "the text ends before a list is closed", 1, 4),
    ("(a b", "the text ends before a list is closed", 1, 5),
    ("(a))", ") without its opening partner", 1, 4),
    ("(a\n  (b", "the text ends before a list is closed", 2, 5),
    ("#(1", "the text ends before a list is closed", 1, 4),
    ("#(1 . 2)", LAST, 1, 5),
    ("( . a)", "a dot needs a form before it", 1, 3),
    ("(a .)", LAST, 1, 4),
    ("(a . b c)", LAST, 1, 4),
    ("(a . b . c)", LAST, 1, 4),
    (".", LAST, 1, 1),
    ("..", ".. stands where no dot may stand", 1, 1),
    ("...", "... stands where no dot may stand", 1, 1),
    ("(a ... b)", "... stands where no dot may stand", 1, 4),
    ("(. )", LAST, 1, 2),
    ("(a . )", LAST, 1, 4),
    ("(a . ')", "a quote needs a form after it", 1, 6),
    ("'", "a quote needs a form after it", 1, 1),
    ("(')", "a quote needs a form after it", 1, 2),
    ("(a '. b)", "a quote needs a form after it", 1, 4),
    ("'(a . )", LAST, 1, 5),
    ("#.(+ 1 2)", f"the reader macro '#.(' {ONLY}", 1, 1),
    ("#x1F", f"the reader macro '#x1' {ONLY}", 1, 1),
    ("#*101", f"the reader macro '#*1' {ONLY}", 1, 1),
    ("#2(1)", f"the reader macro '#2(' {ONLY}", 1, 1),
    ("#1=a", f"the reader macro '#1=' {ONLY}", 1, 1),
    ("#1#", f"the reader macro '#1#' {ONLY}", 1, 1),
    ("#S(a)", f"the reader macro '#S(' {ONLY}", 1, 1),
    ("#:a", f"the reader macro '#:a' {ONLY}", 1, 1),
    ("#'a", f'the reader macro "#\'a" {ONLY}', 1, 1),
    ('#p"x"', f"the reader macro '#p\"' {ONLY}", 1, 1),
    ("#c(1 2)", f"the reader macro '#c(' {ONLY}", 1, 1),
    ("#+a b", f"the reader macro '#+a' {ONLY}", 1, 1),
    ("#<a>", f"the reader macro '#<a' {ONLY}", 1, 1),
    ("#)", f"the reader macro '#)' {ONLY}", 1, 1),
    ("# a", f"the reader macro '# a' {ONLY}", 1, 1),
    ("#", f"the reader macro '#' {ONLY}", 1, 1),
    ("#a", f"the reader macro '#a' {ONLY}", 1, 1),
    ("##", f"the reader macro '##' {ONLY}", 1, 1),
    ("(a #b)", f"the reader macro '#b)' {ONLY}", 1, 4),
    ("`a", f"'`' {DATA}", 1, 1),
    (",a", f"',' {DATA}", 1, 1),
    ("(a ,@b)", f"',' {DATA}", 1, 4),
    ("#é", f"the reader macro '#é' {ONLY}", 1, 1),
    ("#\\", f"unknown character '#\\\\'; {CHARACTERS}", 1, 1),
    ("#\\ab", f"unknown character '#\\\\ab'; {CHARACTERS}", 1, 1),
    ("#\\nosuchchar", f"unknown character '#\\\\nosuchchar'; {CHARACTERS}", 1, 1),
    ("#\\U+110000", f"unknown character '#\\\\U+110000'; {CHARACTERS}", 1, 1),
    ("#\\uD800", f"unknown character '#\\\\uD800'; {CHARACTERS}", 1, 1),
    ("#\\U+", f"unknown character '#\\\\U+'; {CHARACTERS}", 1, 1),
    ("#\\nbsp", f"unknown character '#\\\\nbsp'; {CHARACTERS}", 1, 1),
    (
        "#\\CJK_UNIFIED_IDEOGRAPH-65E5",
        f"unknown character '#\\\\CJK_UNIFIED_IDEOGRAPH-65E5'; {CHARACTERS}",
        1,
        1,
    ),
    ("#\\a|b|", f"unknown character '#\\\\a|b|'; {CHARACTERS}", 1, 1),
    ("#\\Spac\\e", f"unknown character '#\\\\Spac\\\\e'; {CHARACTERS}", 1, 1),
    ("#\\a\ud800", f"unknown character '#\\\\a\\ud800'; {CHARACTERS}", 1, 1),
    ("1/0", "invalid number '1/0'", 1, 1),
    ("-3/0", "invalid number '-3/0'", 1, 1),
    ("1e39", "invalid number '1e39'", 1, 1),
    ("1d309", "invalid number '1d309'", 1, 1),
    ("8e38", "invalid number '8e38'", 1, 1),
    ("1e10000", "invalid number '1e10000'", 1, 1),
    ("1e99999999999", "invalid number '1e99999999999'", 1, 1),
    (":", "a colon in the wrong place in ':'", 1, 1),
    ("::", "a colon in the wrong place in '::'", 1, 1),
    ("a:", "a colon in the wrong place in 'a:'", 1, 1),
    ("cl:", "a colon in the wrong place in 'cl:'", 1, 1),
    (":a:b", "a colon in the wrong place in ':a:b'", 1, 1),
    ("a:b:c", "a colon in the wrong place in 'a:b:c'", 1, 1),
    (":::a", "a colon in the wrong place in ':::a'", 1, 1),
    ("||:", "a colon in the wrong place in '||:'", 1, 1),
    ("||:a", f"unknown package in '||:a'; {PACKAGES}", 1, 1),
    (":||||:", "a colon in the wrong place in ':||||:'", 1, 1),
    ("cl:|a|:b", "a colon in the wrong place in 'cl:|a|:b'", 1, 1),
    ("nosuch:a", f"unknown package in 'nosuch:a'; {PACKAGES}", 1, 1),
    ("nosuch::a", f"unknown package in 'nosuch::a'; {PACKAGES}", 1, 1),
    ("cl-user::a", f"unknown package in 'cl-user::a'; {PACKAGES}", 1, 1),
    ("-.:a", f"unknown package in '-.:a'; {PACKAGES}", 1, 1),
    ("|cl|:car", f"unknown package in '|cl|:car'; {PACKAGES}", 1, 1),
    ("\x7f", "a character in '\\x7f' can't be part of a name", 1, 1),
    ("a\x08b", "a character in 'a\\x08b' can't be part of a name", 1, 1),
    ("a\x7f|b|", "a character in 'a\\x7f' can't be part of a name", 1, 1),
    ("", "expected one form, found none", 1, 1),
    ("  ; nothing", "expected one form, found none", 1, 1),
    ("#|x|#", "expected one form, found none", 1, 1),
    ("1 2", "expected one form, found 2", 1, 1),
    ('(a) b "c"', "expected one form, found 3", 1, 1),
    ('a"b"', "expected one form, found 2", 1, 1),
    ("1,000", f"',' {DATA}", 1, 2),
    ("[1 2]", "expected one form, found 2", 1, 1),
    ("\n\n (a ;x\n   `b)", f"'`' {DATA}", 4, 4),
    ('"multi\nline" )', ") without its opening partner", 2, 7),
    ("a" * 100 + "::::", "a colon in the wrong place in 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", 1, 1),
    ("(a\n . b c)", LAST, 2, 2),
    ("(:k '''\n)", "a quote needs a form after it", 1, 7),
    (b'"\xff"', "the text is not UTF-8 at byte 1", 1, 1),
    (b"(a \xed\xa0\x80)", "the text is not UTF-8 at byte 3", 1, 1),
]


@pytest.mark.parametrize(("text", "message", "line", "column"), BAD, ids=[ascii(row[0])[:60] for row in BAD])
def test_bad_input_is_refused_with_its_reason_and_place(
    text: str | bytes, message: str, line: int, column: int
) -> None:
    with pytest.raises(SexpError) as caught:
        loads(text)
    error = caught.value
    assert (error.message, error.line, error.column) == (message, line, column)
    assert str(error) == f"{message} (line {line}, column {column})"
    assert loads("(:still 1)") == [Keyword("STILL"), 1]


def test_an_error_in_a_text_with_comments_has_the_same_place_as_in_one_without() -> None:
    places: list[tuple[str, int | None, int | None]] = []
    for blank in ("  ", " ;"):
        with pytest.raises(SexpError) as caught:
            loads(f"(a\n{blank}\n b")
        places.append((caught.value.message, caught.value.line, caught.value.column))
    assert places == [("the text ends before a list is closed", 3, 3)] * 2
