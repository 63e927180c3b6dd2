"""Text in the columns of a terminal."""

from __future__ import annotations

from fairlead.formats.columns import cut, fill, padded, printable, width_of


def test_text_is_measured_in_columns() -> None:
    assert [width_of(text) for text in ("abc", "漢字", "e\u0301", "é")] == [3, 4, 1, 1]


def test_text_is_cut_and_filled_by_columns() -> None:
    assert (cut("漢字漢字", 5), cut("abc", 3), cut("abcd", 3)) == ("漢字…", "abc", "ab…")
    assert cut("日本語", 4) == "日…"
    assert cut("日本語", 6) == "日本語"
    assert fill("日本 語", 5) == "日本\n語"
    assert fill("", 5, "- ") == "-"
    assert fill("a-very-long-word b", 5, "", "  ") == "a-very-long-word\n  b"
    assert (padded("日", 4), padded("日本", 3)) == ("日  ", "日本")


def test_text_from_elsewhere_does_not_control_the_terminal() -> None:
    assert printable("a\x1b[2Jb\n") == "a·[2Jb·"
    assert printable("a\nb\x00", kept="\n") == "a\nb·"
