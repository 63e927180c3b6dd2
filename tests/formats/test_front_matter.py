"""Front matter of Markdown files, as people write it for agents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.front_matter import FrontMatterError, front_matter


def test_texts_of_several_lines_are_joined_or_kept() -> None:
    text = "---\ndescription: >-\n  how to\n  release\n\n  and when\nbody: |\n  a\n    b\nlast: x\n---\nB"
    values, body = front_matter(text, "x.md")
    assert values == {"description": "how to release\n\nand when", "body": "a\n  b", "last": "x"}
    assert body == "B"


@given(st.text(st.sampled_from("ab-:#[]'\",\n \t\\|") | st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        values, _ = front_matter(f"---\n{text}\n---\nB", "x.md")
    except FrontMatterError:
        return
    assert all(isinstance(value, str | int | float | list) for value in values.values())
