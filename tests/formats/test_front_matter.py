"""Front matter of Markdown files, as people write it for agents."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.front_matter import MAX_LINE, FrontMatterError, front_matter


def test_texts_of_several_lines_are_joined_or_kept() -> None:
    text = "---\ndescription: >-\n  how to\n  release\n\n  and when\nbody: |\n  a\n    b\nlast: x\n---\nB"
    values, body = front_matter(text, "x.md")
    assert values == {"description": "how to release\n\nand when", "body": "a\n  b", "last": "x"}
    assert body == "B"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[a, \"b, c\", 'd''e' ]", ["a", "b, c", "d'e"]),
        ("[ a b , ]  # why", ["a b"]),
        ("[]", []),
        (r'"a \"b\" \\" # why', 'a "b" \\'),
        ("'it''s'", "it's"),
    ],
)
def test_quotes_and_lists_are_read_as_yaml_has_them(written: str, meant: object) -> None:
    assert front_matter(f"---\nkey: {written}\n---\nB", "x.md") == ({"key": meant}, "B")


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("[a,, b]", "can't read the list at ', b'"),
        ("['a' b]", "can't read the list at \"'a' b\""),
        ("['a]", "single quotes must end with one"),
        ('"a', "double quotes must end with one"),
        ("'a'b", "unexpected text after the quotes: 'b'"),
        ("a" * MAX_LINE, f"line 2: a line has at most {MAX_LINE} characters"),
    ],
)
def test_what_cannot_be_read_is_said(written: str, fault: str) -> None:
    with pytest.raises(FrontMatterError, match=re.escape(fault)):
        front_matter(f"---\nkey: {written}\n---\nB", "x.md")


@given(st.text(st.sampled_from("ab-:#[]'\",\n \t\\|") | st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        values, _ = front_matter(f"---\n{text}\n---\nB", "x.md")
    except FrontMatterError:
        return
    assert all(isinstance(value, str | int | float | list) for value in values.values())
