"""Markdown in a terminal: how each part is drawn, in any pieces, and whatever the text is."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.columns import width_of
from fairlead.ui.markdown import MAX_HELD, Markdown
from fairlead.ui.styled import ASCII, Paint, plain
from fairlead.ui.table import MAX_ROWS
from tests.ui.drawn import drawn, merged, shown

PARTS = [
    *"*_`~[]()\\<>!#|&- \n\t\x1b\x9b\u202e",
    *(
        "**",
        "``",
        "~~",
        "[a](b)",
        "\n\n",
        "- ",
        "1. ",
        "> ",
        "# ",
        "```",
        "~~~",
        "|-|",
        "---",
        "    ",
        "word",
        "x",
    ),
    *("| a | b |\n|--|--|\n", "日本。", "e\u0301", "👩\u200d👩\u200d👧", "\x1b[31m", "\x1b]0;x\x07", "&amp;"),
    *("<https://a.b>", "[x] ", "\r\n", "***", "long" * 30, "```python\n", '"""', "/*", "```js\n"),
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


def test_emphasis_code_and_links_are_styles() -> None:
    (row,) = drawn("a **b** *c* ***d*** ~~e~~ `f` [g](h.org) [i.org](i.org) ![j](k.png)", 99)
    assert row == [
        ("a ", ""), ("b", "bold"), (" ", ""), ("c", "italic"), (" ", ""), ("d", "bold italic"),
        (" ", ""),
        ("e", "strike"), (" ", ""), ("f", "cyan"), (" ", ""),
        ("g", "underline"), (" (h.org)", "dim"), (" ", ""),
        ("i.org", "underline"), (" ", ""), ("j", "underline"), (" (k.png)", "dim"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4",
        "snake_case_name and __init__x",
        "*args, **kwargs",
        "`open",
        "[a] (b)",
        "[a](b c",
        "a & b",
        "a < b",
    ],
)
def test_what_is_no_markup_stands_for_itself(text: str) -> None:
    assert drawn(text) == [[(text, "")]]


def test_emphasis_may_be_in_emphasis_and_is_escaped_by_a_backslash() -> None:
    assert drawn("**a *b* c**") == [[("a ", "bold"), ("b", "bold italic"), (" c", "bold")]]
    assert drawn("*d **e***") == [[("d ", "italic"), ("e", "italic bold")]]
    assert drawn(r"\*a\* \`b\` &lt;c&gt; <https://d.org>") == [
        [("*a* `b` <c> ", ""), ("https://d.org", "underline")]
    ]


def test_words_are_wrapped_and_no_row_is_too_wide() -> None:
    assert shown("one two three four", 10) == "one two\nthree four"
    assert shown("a " + "w" * 25 + " b", 10) == "a\nwwwwwwwwww\nwwwwwwwwww\nwwwww b"
    assert shown("日本語の文章、です。", 8) == "日本語の\n文章、で\nす。"
    assert shown("cafe\u0301 cafe\u0301 cafe\u0301", 9) == "cafe\u0301 cafe\u0301\ncafe\u0301"
    assert shown("👩\u200d👩\u200d👧" * 3, 8) == "\n".join(["👩\u200d👩\u200d👧"] * 3)


def test_lists_are_nested_and_their_rows_aligned() -> None:
    text = "- one two three\n  - four five six\n    1. seven\n- [ ] open\n- [x] done\n"
    assert shown(text + "10. ten eleven twelve\n\n    more\nend", 14) == (
        "• one two\n  three\n  • four five\n    six\n    1. seven\n• ☐ open\n• ☑ done\n"
        "10. ten eleven\n    twelve\n\n    more\nend"
    )


def test_quotes_have_bars_with_lists_and_code_in_them() -> None:
    text = "> one two three\n>\n> > - a\n> ```py\n> x = 1\n> ```\nout"
    assert shown(text, 12) == "│ one two\n│ three\n│\n│ │ • a\n│ ─── py\n│ x = 1\n│ ───\nout"
    assert shown("- > in a list\n  > more\nout") == "• │ in a list\n  │ more\nout"
    assert shown("> ```\n> code\nafter").endswith("│ code\n│ ───\nafter")


def test_headings_rules_and_empty_lines() -> None:
    assert drawn("# A *b*\ntext\n## C\n\n\n\n---\nend", 5) == [
        [("A ", "bold underline"), ("b", "bold underline italic")],
        [("text", "")],
        [],
        [("C", "bold")],
        [],
        [("─────", "dim")],
        [("end", "")],
    ]
    assert shown("#hashtag\n####### seven\n- - -\n#1") == "#hashtag\n####### seven\n" + "─" * 60 + "\n#1"


def test_code_is_as_it_was_written_and_coloured() -> None:
    rows = drawn('```python\ndef f(x):  # why\n    return "a" + 1.5\n\n```\n')
    assert rows == [
        [("─── python", "dim")],
        [("def", "bold blue"), (" ", ""), ("f", "cyan"), ("(x):  ", ""), ("# why", "dim")],
        [("    ", ""), ("return", "bold blue"), (" ", ""), ('"a"', "green"), (" + ", ""), ("1.5", "magenta")],
        [],
        [("───", "dim")],
    ]
    long = "x" * 200
    assert f"\n{long}\n" in shown(f"```\n{long}\n```", 20), (
        "the terminal breaks it, so that it is copied whole"
    )
    assert shown("1. a\n   ```\n   b\n     c\n   ```\n2. d") == "1. a\n   ───\n   b\n     c\n   ───\n2. d"
    assert shown("~~~\n```\n~~~") == "───\n```\n───"
    assert shown("a\n\n    b *c*  d\n      e\n\nf") == "a\n\n    b *c*  d\n      e\n\nf"


@pytest.mark.parametrize(
    ("language", "code", "styles"),
    [
        ("js", "/* a\nb */ let x = `c\nd` // e", {"dim": "/* ab */// e", "bold blue": "let"}),
        ("sql", "Select 'it' -- x", {"bold blue": "Select", "green": "'it'", "dim": "-- x"}),
        ("sh", "echo \"$#\" # no", {"green": '"$#"', "dim": "# no"}),
        ("json", '{"a": true, "b": "c"}', {"cyan": '"a""b"', "bold blue": "true", "green": '"c"'}),
        ("html", '<a href="x">t</a><!-- c -->', {"green": '"x"', "dim": "<!-- c -->"}),
        ("clojure", "(defn f [] :a) ; c", {"bold blue": "defn", "dim": "; c"}),
        ("diff", "+a\n-b\n@@ c", {"green": "+a", "red": "-b", "cyan": "@@ c"}),
        ("lua", "local x = 1 -- y", {"bold blue": "local", "magenta": "1", "dim": "-- y"}),
        ("css", "a { color: red } /* c */", {"cyan": "color", "dim": "/* c */"}),
        ("unknown", "if x: pass", {}),
    ],
)  # fmt: skip
def test_languages_have_their_comments_strings_and_keywords(
    language: str, code: str, styles: dict[str, str]
) -> None:
    pieces = [piece for row in drawn(f"```{language}\n{code}\n```")[1:-1] for piece in row]
    assert "".join(text for text, _ in pieces) == code.replace("\n", "")
    for style, text in styles.items():
        assert "".join(each for each, how in pieces if how == style) == text


TABLE = "| Name | Count | Note |\n|:--|--:|:-:|\n| `a` | 1 | x |\n| b\\|c | 20 | a much longer note |\n"


def test_tables_are_aligned_and_cells_wrapped_where_there_is_no_room() -> None:
    assert shown(TABLE) == (
        "Name │ Count │        Note\n"
        "─────┼───────┼───────────────────\n"
        "a    │     1 │         x\n"
        "b|c  │    20 │ a much longer note"
    )
    assert shown(TABLE, 26) == (
        "Name │ Count │    Note\n─────┼───────┼────────────\na    │     1 │      x\n"
        "b|c  │    20 │   a much\n     │       │ longer note"
    )
    assert shown(TABLE, 12) == (
        "Name: a\nCount: 1\nNote: x\n\nName: b|c\nCount: 20\nNote: a much\n  longer\n  note"
    )


def test_what_is_no_table_is_text() -> None:
    for text in ("| a\n| b", "| a |\n|--|--|", "|-|-|"):
        assert shown(text) == text
    assert shown("> | a |\n> |--|\n> | b |\nend") == "│ a\n│ ─\n│ b\nend"


def test_a_long_table_is_shown_before_its_end() -> None:
    drawer = Markdown(40)
    rows = drawer.feed("| n |\n|---|\n" + "| 1 |\n" * (MAX_ROWS - 1))
    assert rows == []
    assert plain(drawer.open()[0]) == f"… a table, so far of {MAX_ROWS - 1} rows"
    assert len(drawer.feed("| 2 |\n")) == MAX_ROWS + 2
    assert [plain(row) for row in drawer.feed("| wide |\n") + drawer.end()] == ["wide"]


def test_without_colours_the_signs_say_what_was_meant() -> None:
    assert shown("# Head\nrun `make` **now**", is_plain=True) == "# Head\nrun `make` now"
    drawer = Markdown(20, ASCII)
    rows = drawer.feed("- [x] a\n> b\n\n| c | d |\n|-|-|\n") + drawer.end()
    assert "\n".join(map(plain, rows)) == "* [x] a\n| b\n\nc | d\n--+--"
    assert Paint(False)([("a", "bold"), ("b", "")]) == "ab"
    assert Paint(True)([("a", "bold red"), ("b", "")]) == "\x1b[1;31ma\x1b[0mb"


# --- as it comes --------------------------------------------------------------------------------------------


def test_a_row_is_complete_when_the_next_word_has_no_room() -> None:
    drawer = Markdown(12)
    assert drawer.feed("one **two** four") == []
    assert merged(drawer.open()) == [[("one ", ""), ("two", "bold"), (" four", "")]]
    assert merged(drawer.feed("teen fo")) == [[("one ", ""), ("two", "bold")]]
    assert [plain(row) for row in drawer.open()] == ["fourteen fo"]
    drawer.width = 30
    assert [plain(row) for row in drawer.feed("ur\nnext line is wider") + drawer.end()] == [
        "fourteen", "four", "next line is wider",
    ]  # fmt: skip


def test_what_is_open_is_shown_as_it_may_become() -> None:
    drawer = Markdown(40)
    drawer.feed("some **bol")
    assert merged(drawer.open()) == [[("some **bol", "")]]
    drawer.feed("d**")
    assert merged(drawer.open()) == [[("some ", ""), ("bold", "bold")]]
    drawer.feed("\n```py\nif x")
    assert merged(drawer.open()) == [[("if", "bold blue"), (" x", "")]]
    drawer.feed("\n```\n| a |")
    assert [plain(row) for row in drawer.open()] == ["| a |"]


@given(TEXTS, st.sampled_from([9, 20, 79]), st.data())
def test_the_rows_do_not_depend_on_the_pieces(text: str, width: int, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    drawer = Markdown(width)
    rows = []
    for start, end in pairwise([0, *cuts, len(text)]):
        rows += drawer.feed(text[start:end])
        drawer.open()  # to look changes nothing
    assert merged(rows + drawer.end()) == drawn(text, width)


@given(TEXTS, st.sampled_from([40, 79]))
def test_nothing_of_a_text_controls_the_terminal_and_no_row_is_too_wide(text: str, width: int) -> None:
    drawer = Markdown(width)
    rows = drawer.feed(text)
    for row in [*rows, *drawer.open(), *drawer.end()]:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", plain(row))
    if "```" not in text and "~~~" not in text:
        assert all(width_of(plain(row)) <= width for row in drawn(text, width))


@given(st.text(alphabet="abc \n", max_size=200), st.integers(9, 40))
def test_no_word_is_lost(text: str, width: int) -> None:
    assert "".join(shown(text, width).split()) == "".join(text.split())


MAX_CALLS = 100
"""How many calls a character may take: were all looked at again with every piece, it would be more."""
HOSTILE = [
    *(
        "a",
        "日",
        "a\u0301",
        "\u0301",
        "| a ",
        "> ",
        "- ",
        "`",
        "\x1b]",
        "*a ",
        "**a_ ",
        "[a](",
        "![",
        "<http",
        "&",
        "\\",
    ),
    *("``` ", "a` ``", "|\n", "```\n", "  - x\n", "\u202e", "#", '"', "~~a"),
]
"""What is said again and again."""


@pytest.mark.parametrize("unit", HOSTILE)
def test_whatever_comes_is_shown_soon_and_little_of_it_is_kept(unit: str) -> None:
    text = unit * (6000 // len(unit))
    drawer = Markdown(79)
    rows = []
    for at in range(0, len(text), 500):
        rows += drawer.feed(text[at : at + 500])
        assert sum(len(plain(row)) for row in drawer.open()) <= 2 * MAX_HELD
    assert merged(rows + drawer.end()) == drawn(text, 79)


def calls(text: str) -> int:
    """How many calls it takes to draw a text that comes in pieces."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    drawer = Markdown(79)
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        for at in range(0, len(text), 500):
            drawer.feed(text[at : at + 100])
            drawer.open()
        drawer.end()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("unit", ["*a ", "[a](", "`", "- ", "\x1b]", "> > - ", "|\n", "\u0301", "```js\n`/*"])
def test_a_long_text_takes_so_many_calls_for_each_character(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    assert calls(text) < MAX_CALLS * len(text)
