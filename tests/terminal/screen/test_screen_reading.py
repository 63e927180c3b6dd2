"""Reading a screen: text, colours, the model for other programs, searching."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from fairlead.terminal.screen import text
from fairlead.terminal.screen.screen import Match, Screen
from fairlead.terminal.screen.text import MAX_LINE_TEXT
from tests.terminal.streams import streams


def screen_of(printed: bytes | str, cols: int = 20, rows: int = 5) -> Screen:
    screen = Screen(cols, rows)
    screen.feed(printed.encode() if isinstance(printed, str) else printed)
    return screen


def test_text_is_what_is_shown_without_what_is_blank() -> None:
    assert screen_of("").text() == ""
    assert screen_of("one  \r\n\r\n  three\t.\r\n\r\n").text() == "one\n\n  three ."
    assert screen_of("日本e\u0301\x1b[3Cx").text() == "日本e\u0301   x"


def test_text_can_have_the_scrollback_and_join_wrapped_rows() -> None:
    screen = screen_of("".join(f"{number} {'x' * 30}\r\n" for number in range(4)) + "end")
    assert screen.text().splitlines() == ["2 " + "x" * 18, "x" * 12, "3 " + "x" * 18, "x" * 12, "end"]
    lines = [f"{number} {'x' * 30}" for number in range(4)] + ["end"]
    assert screen.text(scrollback=True, unwrap=True).splitlines() == lines
    assert len(screen.text(scrollback=True).splitlines()) == 9


def test_text_of_the_alternate_screen_has_the_scrollback_of_the_primary_one_above() -> None:
    screen = screen_of("".join(f"{number}\r\n" for number in range(9)) + "\x1b[?1049h\x1b[Heditor")
    assert screen.alternate
    assert screen.text() == "editor"
    assert screen.text(scrollback=True).splitlines() == ["0", "1", "2", "3", "4", "editor"]


def test_ansi_is_text_with_colours() -> None:
    screen = screen_of("plain \x1b[1;31mred\x1b[0m\x1b[44m\x1b[K\r\n\x1b[0mlast")
    assert screen.ansi() == b"plain \x1b[0;1;31mred\x1b[0;44m" + b" " * 11 + b"\x1b[0m\nlast\n"


@given(streams)
def test_ansi_without_its_sequences_is_the_text(stream: bytes) -> None:
    screen = screen_of(stream)
    stripped = re.sub(r"\x1b\[[0-9;:]*m", "", screen.ansi().decode())
    assert [row.rstrip() for row in stripped.rstrip("\n ").split("\n")] == screen.text().rstrip("\n ").split(
        "\n"
    )


def test_html_keeps_text_colours_and_links_and_nothing_harmful() -> None:
    screen = screen_of(
        "<b>&\x1b[1;38;2;1;2;3mbold\x1b[0m\r\n\x1b]8;;https://a/?x=1&y\x07link\x1b]8;;\x07"
        "\x1b]8;;javascript:alert(1)\x07bad\x1b]8;;\x07\r\n\x1b[4:3mwave\x1b[7minverse"
    )
    html = screen.html()
    assert "&lt;b&gt;&amp;" in html
    assert '<span style="color:#010203;font-weight:bold">bold</span>' in html
    assert 'href="https://a/?x=1&amp;y"' in html
    assert "javascript" not in html
    assert "underline wavy" in html
    assert "background:#d8d8d8" in html


def test_cells_are_a_model_that_json_can_carry() -> None:
    screen = screen_of(
        "ab\x1b[1;3;31mcd\x1b[0;48;2;1;2;3m\x1b[2X\r\n日\x1b[4:3;38;5;99mx\x1b]8;;http://a\x07y\x1b]8;;\x07"
        "\x1b]2;title\x07\x1b]7;file:///d\x07\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[>5u\x1b[6 q"
    )
    model = json.loads(json.dumps(screen.cells()))
    assert {key: model[key] for key in ("cols", "rows", "title", "cwd", "alternate")} == {
        "cols": 20, "rows": 5, "title": "title", "cwd": "/d", "alternate": False,
    }  # fmt: skip
    assert model["cursor"] == {"x": 4, "y": 1, "visible": True, "shape": "bar", "blinking": False}
    assert model["modes"]["bracketed_paste"] is True
    assert (model["modes"]["mouse"], model["modes"]["mouse_sgr"]) == ("button", True)
    assert model["modes"]["kitty_keyboard"] == 5
    first, second, *others = model["lines"]
    plain: dict[str, object] = {"fg": None, "bg": None, "attributes": []}
    assert first["runs"] == [
        {"x": 0, "width": 2, "text": "ab", **plain},
        {"x": 2, "width": 2, "text": "cd", "fg": 1, "bg": None, "attributes": ["bold", "italic"]},
        {"x": 4, "width": 2, "text": "  ", "fg": None, "bg": "#010203", "attributes": []},
    ]
    background = {"bg": "#010203", "attributes": ["curly-underline"], "fg": 99}
    assert second["runs"] == [
        {"x": 0, "width": 2, "text": "日", "fg": None, "bg": "#010203", "attributes": []},
        {"x": 2, "width": 1, "text": "x", **background},
        {"x": 3, "width": 1, "text": "y", **background, "link": "http://a"},
    ]
    assert all(line == {"wraps": False, "runs": []} for line in others)


def test_modes_and_cursor_are_properties() -> None:
    screen = screen_of("")
    assert screen.modes.wrap
    assert not screen.modes.bracketed_paste
    assert screen.modes.mouse == "none"
    screen.feed(b"\x1b[?1h\x1b=\x1b[?1003h\x1b[?1004h\x1b[4h\x1b[?6h\x1b[?7l\x1b[?25l\x1b[3 q")
    modes = screen.modes
    assert modes.application_cursor_keys
    assert modes.application_keypad
    assert (modes.mouse, modes.focus_events, modes.insert, modes.origin, modes.wrap) == (
        "any",
        True,
        True,
        True,
        False,
    )
    assert screen.cursor == (0, 0, False, "underline", True)


def test_a_search_finds_places_in_scrollback_and_screen() -> None:
    screen = screen_of("".join(f"line {number}\r\n" for number in range(30)) + "the end", rows=4)
    assert screen.search("line 7") == [Match(7, 7, 0, "line 7", "line 7")]
    assert [(match.line, match.column) for match in screen.search("e 2")] == [
        (2, 3), *((number, 3) for number in range(20, 30)),
    ]  # fmt: skip
    assert screen.search("end") == [Match(30, 30, 4, "the end", "end")]
    assert screen.search("nowhere") == []


def test_a_search_sees_through_soft_wraps() -> None:
    screen = screen_of("a" * 18 + "needle" + "b" * 30 + "needle\r\nnext needle")
    assert screen.search("needle") == [
        Match(0, 0, 18, "a" * 18 + "needle" + "b" * 30 + "needle", "needle"),
        Match(2, 0, 14, "a" * 18 + "needle" + "b" * 30 + "needle", "needle"),
        Match(3, 1, 5, "next needle", "needle"),
    ]


def test_a_search_gives_columns_and_not_characters() -> None:
    screen = screen_of("日本語 x e\u0301 y\x1b[2C\x1b[44mz")
    assert [screen.search(char)[0].column for char in ("日", "語", "x", "y", "z")] == [0, 4, 7, 11, 14]
    assert screen.search("\u0301")[0].column == 9
    assert screen.search("  z")[0].column == 12


def test_a_wide_character_that_did_not_fit_leaves_no_gap_in_the_line() -> None:
    screen = screen_of("a" * 19 + "日本")
    assert screen.text(unwrap=True) == "a" * 19 + "日本"
    assert screen.search("a日") == [Match(0, 0, 18, "a" * 19 + "日本", "a日")]


def test_a_search_can_be_a_regular_expression_and_has_a_limit() -> None:
    screen = screen_of("".join(f"a{number} b\r\n" for number in range(300)))
    assert [match.found for match in screen.search(r"a\d+ ", regex=True, limit=3)] == ["a0 ", "a1 ", "a2 "]
    assert screen.search("a.", regex=False) == []
    assert len(screen.search("(?i)A", regex=True)) == 300


def test_a_match_in_an_endless_line_shows_its_surroundings() -> None:
    screen = screen_of("x" * 30_000 + "needle" + "y" * 30_000)
    (match,) = screen.search("needle")
    assert len(match.text) == MAX_LINE_TEXT
    assert "xneedley" in match.text
    assert (match.line, match.column) == (1500, 0)


def test_a_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "SEARCH_SECONDS", -1.0)
    with pytest.raises(TimeoutError, match="use a simpler pattern"):
        screen_of("x").search("x")
    assert screen_of("x").searcher("x")(lambda: False) == []


@pytest.mark.parametrize(
    ("needle", "regex", "complaint"),
    [("", False, "nothing to search for"), ("(", True, "invalid regular expression .*: missing")],
)
def test_a_search_for_nothing_or_nonsense_is_refused(needle: str, regex: bool, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        screen_of("x").search(needle, regex=regex)
