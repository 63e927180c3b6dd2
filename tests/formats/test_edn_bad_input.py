"""Bad EDN: what is said of it, and where. Nothing that was read before or is read after is touched by it."""

from typing import Any

import pytest

from fairlead.formats.edn import EdnError, Keyword, loads

ESCAPES = 'in a string; expected \\t \\n \\r \\b \\f \\" \\\\ \\uXXXX or \\NNN'
CHARACTERS = "expected \\c, \\newline or the like, \\uXXXX or \\oNNN"
NAMES = "expected a symbol, a keyword or a number"
DISPATCHES = "expected #{, #_, #:, ##, #^ or a tag"
RANGE = "is not a moment between the years 1 and 9999"
INSTANT = '#inst needs a string such as "2026-01-31T12:00:00.000Z"'
UUID = '#uuid needs a string such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'
TARGET = "metadata can only stand before a symbol or a collection"
METADATA = "metadata must be a symbol, a keyword, a string or a map"

BAD: list[tuple[str | bytes, str, int, int]] = [
    ('"', "a string without its closing quote", 1, 1),
    ('"abc', "a string without its closing quote", 1, 1),
    ('"a\\"', "a string without its closing quote", 1, 1),
    ('[1 "a\nb]', "a string without its closing quote", 1, 4),
    ('"a\\x"', f"unsupported escape '\\\\x' {ESCAPES}", 1, 1),
    ('"\\u12"', f"unsupported escape '\\\\u12' {ESCAPES}", 1, 1),
    ('"\\u123g"', f"unsupported escape '\\\\u123g' {ESCAPES}", 1, 1),
    ('"\\400"', f"unsupported escape '\\\\400' {ESCAPES}", 1, 1),
    ('"\\8"', f"unsupported escape '\\\\8' {ESCAPES}", 1, 1),
    ('"\\1a"', f"unsupported escape '\\\\1a' {ESCAPES}", 1, 1),
    ('["ok" \n  "\\q"]', f"unsupported escape '\\\\q' {ESCAPES}", 2, 3),
    ("1a", "invalid number '1a'", 1, 1),
    ("08", "invalid number '08'", 1, 1),
    ("+1a", "invalid number '+1a'", 1, 1),
    ("1e", "invalid number '1e'", 1, 1),
    ("1e+", "invalid number '1e+'", 1, 1),
    ("1/0", "invalid number '1/0'", 1, 1),
    ("1/-2", "invalid number '1/-2'", 1, 1),
    ("37r1", "invalid number '37r1'", 1, 1),
    ("1r1", "invalid number '1r1'", 1, 1),
    ("2r2", "invalid number '2r2'", 1, 1),
    ("0x", "invalid number '0x'", 1, 1),
    ("1.5N", "invalid number '1.5N'", 1, 1),
    ("1N2", "invalid number '1N2'", 1, 1),
    ("1e2147483648M", "invalid number '1e2147483648M'", 1, 1),
    ("1.5e-2147483647M", "invalid number '1.5e-2147483647M'", 1, 1),
    ("٣", "invalid number '٣'", 1, 1),
    ("1@2", "invalid number '1@2'", 1, 1),
    ("\\", f"unsupported character '\\\\'; {CHARACTERS}", 1, 1),
    ("\\ab", f"unsupported character '\\\\ab'; {CHARACTERS}", 1, 1),
    ("\\uD800", f"unsupported character '\\\\uD800'; {CHARACTERS}", 1, 1),
    ("\\u12", f"unsupported character '\\\\u12'; {CHARACTERS}", 1, 1),
    ("\\o400", f"unsupported character '\\\\o400'; {CHARACTERS}", 1, 1),
    ("\\o8", f"unsupported character '\\\\o8'; {CHARACTERS}", 1, 1),
    ("\\😀", f"unsupported character '\\\\😀'; {CHARACTERS}", 1, 1),
    ("\\u123g", f"unsupported character '\\\\u123g'; {CHARACTERS}", 1, 1),
    (":", f"invalid token ':'; {NAMES}", 1, 1),
    ("::a", f"invalid token '::a'; {NAMES}", 1, 1),
    (":a/", f"invalid token ':a/'; {NAMES}", 1, 1),
    ("a/", f"invalid token 'a/'; {NAMES}", 1, 1),
    ("/a", f"invalid token '/a'; {NAMES}", 1, 1),
    ("a:", f"invalid token 'a:'; {NAMES}", 1, 1),
    ("a::b", f"invalid token 'a::b'; {NAMES}", 1, 1),
    ("@a", f"invalid token '@a'; {NAMES}", 1, 1),
    ("~a", f"invalid token '~a'; {NAMES}", 1, 1),
    ("`a", f"invalid token '`a'; {NAMES}", 1, 1),
    ("a@b", f"invalid token 'a@b'; {NAMES}", 1, 1),
    ("a/:b:", f"invalid token 'a/:b:'; {NAMES}", 1, 1),
    ("\ud800a", f"invalid token '\\ud800a'; {NAMES}", 1, 1),
    ("#", f"unknown dispatch '#'; {DISPATCHES}", 1, 1),
    ("# a", f"unknown dispatch '# '; {DISPATCHES}", 1, 1),
    ("#1", f"unknown dispatch '#1'; {DISPATCHES}", 1, 1),
    ("#(", f"unknown dispatch '#('; {DISPATCHES}", 1, 1),
    ("#'a", f'unknown dispatch "#\'"; {DISPATCHES}', 1, 1),
    ('#"', f"unknown dispatch '#\"'; {DISPATCHES}", 1, 1),
    ("#<a>", f"unknown dispatch '#<'; {DISPATCHES}", 1, 1),
    ("#=(+ 1 2)", f"unknown dispatch '#='; {DISPATCHES}", 1, 1),
    ("#!x", f"unknown dispatch '#!'; {DISPATCHES}", 1, 1),
    ("#日 1", f"unknown dispatch '#日'; {DISPATCHES}", 1, 1),
    ("#½ 1", f"unknown dispatch '#½'; {DISPATCHES}", 1, 1),
    ("#+ 1", f"unknown dispatch '#+'; {DISPATCHES}", 1, 1),
    ("a #", f"unknown dispatch '#'; {DISPATCHES}", 1, 3),
    ("#a", "#a needs a form after it", 1, 1),
    ("[#a]", "#a needs a form after it", 1, 2),
    ("#a: 1", "a tag must be a symbol, not 'a:'", 1, 1),
    ("#a/ 1", "a tag must be a symbol, not 'a/'", 1, 1),
    ("#nil 1", "a tag must be a symbol, not 'nil'", 1, 1),
    ("#true 1", "a tag must be a symbol, not 'true'", 1, 1),
    ("##", "## needs a form after it", 1, 1),
    ("##Foo", "unknown symbolic value ##Foo; expected ##Inf, ##-Inf or ##NaN", 1, 1),
    ("##1", "unknown symbolic value ##1; expected ##Inf, ##-Inf or ##NaN", 1, 1),
    ('##"Inf"', 'unknown symbolic value ##"Inf"; expected ##Inf, ##-Inf or ##NaN', 1, 1),
    ("[##]", "## needs a form after it", 1, 2),
    ("#_", "#_ needs a form after it", 1, 1),
    ("[#_]", "#_ needs a form after it", 1, 2),
    ("1 #_", "#_ needs a form after it", 1, 3),
    ("#_ #_ 1", "#_ needs a form after it", 1, 1),
    ("^", "^ needs two forms after it", 1, 1),
    ("^a", "^ needs two forms after it", 1, 1),
    ("^:a 1", TARGET, 1, 1),
    ("^1 [1]", METADATA, 1, 1),
    ("^[a] b", METADATA, 1, 1),
    ('^a "s"', TARGET, 1, 1),
    ("^a nil", TARGET, 1, 1),
    ("#^a", "#^ needs two forms after it", 1, 1),
    ("^a #b c", TARGET, 1, 1),
    ("#:", "#: needs two forms after it", 1, 1),
    ("#:a", "#: needs two forms after it", 1, 1),
    ("#:a 1", "a namespaced map needs a map right after #:a", 1, 1),
    ("#:a [1]", "a namespaced map needs a map right after #:a", 1, 1),
    ("#:a/b{}", "a namespaced map needs a plain symbol after #:, not a/b", 1, 1),
    ("#::{}", f"invalid token ':'; {NAMES}", 1, 3),
    ("#:1{}", "a namespaced map needs a plain symbol after #:, not 1", 1, 1),
    ("#:a #_b {}", "a namespaced map needs a map right after #:a", 1, 1),
    ("#:a ^b {}", "a namespaced map needs a map right after #:a", 1, 1),
    ("#:a #:b{}", "a namespaced map needs a map right after #:a", 1, 1),
    ("#:a{:b}", "a map needs a value for each key; it has 1 forms", 1, 7),
    ("#:x{:1 2}", ":1 can't be a key of a map with a namespace", 1, 1),
    ("#:x{_/nil 2}", "_/nil can't be a key of a map with a namespace", 1, 1),
    ("#:x{:y/1 2}", f"invalid token ':y/1'; {NAMES}", 1, 5),
    ("[", "the text ends before [ is closed", 1, 2),
    ("(", "the text ends before ( is closed", 1, 2),
    ("{", "the text ends before { is closed", 1, 2),
    ("#{", "the text ends before #{ is closed", 1, 3),
    ("[1\n 2", "the text ends before [ is closed", 2, 3),
    ("[1 2)", "[ is closed by )", 1, 5),
    ("(]", "( is closed by ]", 1, 2),
    ("{)", "{ is closed by )", 1, 2),
    ("#{]", "#{ is closed by ]", 1, 3),
    ("[}", "[ is closed by }", 1, 2),
    (")", ") without its opening partner", 1, 1),
    ("]", "] without its opening partner", 1, 1),
    ("}", "} without its opening partner", 1, 1),
    ("1 ]", "] without its opening partner", 1, 3),
    ("[[1]\n\n  )", "[ is closed by )", 3, 3),
    ("{:a}", "a map needs a value for each key; it has 1 forms", 1, 4),
    ("{1 2 3}", "a map needs a value for each key; it has 3 forms", 1, 7),
    ("{:a 1 :a 2}", "duplicate key :a", 1, 11),
    ("#{1 1}", "duplicate element 1", 1, 6),
    ("[1 {2 3\n 4 5 2 6}]", "duplicate key 2", 2, 9),
    ("#inst 5", INSTANT, 1, 1),
    ('#inst "2020-13"', f'#inst "2020-13" {RANGE}', 1, 1),
    ('#inst "2019-02-29"', f'#inst "2019-02-29" {RANGE}', 1, 1),
    ('#inst "20201"', INSTANT, 1, 1),
    ('#inst ""', INSTANT, 1, 1),
    ('#inst "2020-01-01T12:30+24:00"', f'#inst "2020-01-01T12:30+24:00" {RANGE}', 1, 1),
    ('#inst "2020-01-01T12:58:60"', f'#inst "2020-01-01T12:58:60" {RANGE}', 1, 1),
    ('#inst "0000-01-01"', f'#inst "0000-01-01" {RANGE}', 1, 1),
    ('#inst "9999-12-31T23:59:59-00:01"', f'#inst "9999-12-31T23:59:59-00:01" {RANGE}', 1, 1),
    ("#inst nil", INSTANT, 1, 1),
    ("#uuid 5", UUID, 1, 1),
    ('#uuid "1-2-3"', UUID, 1, 1),
    ('#uuid "g-1-1-1-1"', UUID, 1, 1),
    ('#uuid "123456789-1-1-1-1"', UUID, 1, 1),
    ("", "expected one form, found none", 1, 1),
    ("  ; nothing", "expected one form, found none", 1, 1),
    ("1 2", "expected one form, found 2", 1, 1),
    ('[1] :a "b"', "expected one form, found 3", 1, 1),
    ("\n\n  [1 ;x\n   foo@ 2]", f"invalid token 'foo@'; {NAMES}", 4, 4),
    ('"multi\nline" (}', "( is closed by }", 2, 8),
    ("a" * 100 + "@", f"invalid token 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'; {NAMES}", 1, 1),
    ('"é" ]', "] without its opening partner", 1, 5),
    (",,,  )", ") without its opening partner", 1, 6),
    ("[1\xa02]", "invalid number '1\\xa02'", 1, 2),
    ("{:a 1}}", "} without its opening partner", 1, 7),
    (b'"\xff"', "the text is not UTF-8 at byte 1", 1, 1),
    (b"[1 \xed\xa0\x80]", "the text is not UTF-8 at byte 3", 1, 1),
]


@pytest.mark.parametrize(("text", "message", "line", "column"), BAD, ids=[ascii(row[0])[:60] for row in BAD])
def test_bad_input_is_refused_with_its_reason_and_place(
    text: str | bytes, message: str, line: int, column: int
) -> None:
    with pytest.raises(EdnError) as caught:
        loads(text)
    error = caught.value
    assert (error.message, error.line, error.column) == (message, line, column)
    assert str(error) == f"{message} (line {line}, column {column})"
    assert loads("{:still [1 2]}") == {Keyword("still"): [1, 2]}


@pytest.mark.parametrize(
    ("inside", "line", "column"),
    [('"a" "b" "\\q"', 1, 10), ('"\\u00e9"\n "\\x"', 2, 2), ('"\\\\" "\\"" "\\8"', 1, 12)],
)
def test_a_bad_escape_in_a_shape_that_is_known_is_found_in_its_place(
    inside: str, line: int, column: int
) -> None:
    for _ in range(3):
        assert len(loads(f"[{inside}]".replace("\\q", "q").replace("\\x", "x").replace("\\8", "8"))) > 1
    for _ in range(2):
        with pytest.raises(EdnError, match="unsupported escape") as caught:
            loads(f"[{inside}]")
        assert (caught.value.line, caught.value.column) == (line, column)


def test_an_error_in_a_text_with_comments_has_the_same_place_as_in_one_without() -> None:
    places: list[Any] = []
    for blank in ("  ", " ;"):
        with pytest.raises(EdnError) as caught:
            loads(f"[1\n{blank}\n 2")
        places.append((caught.value.message, caught.value.line, caught.value.column))
    assert places == [("the text ends before [ is closed", 3, 3)] * 2


def test_a_message_about_what_nests_deep_is_short() -> None:
    with pytest.raises(EdnError) as caught:
        loads("## " + "#a " * 100_000 + "1")
    assert caught.value.message == "unknown symbolic value ##…; expected ##Inf, ##-Inf or ##NaN"
