"""Rows of a drawing as text, for tests."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.ui.markdown import Markdown
from fairlead.ui.styled import Line, add_to, plain


def merged(rows: Iterable[Line]) -> list[Line]:
    """Rows in which pieces of one style beside each other are one."""
    found = []
    for row in rows:
        line: Line = []
        for text, style in row:
            add_to(line, text, style)
        found.append(line)
    return found


def drawn(text: str, width: int = 60, *, is_plain: bool = False) -> list[Line]:
    """All rows of a Markdown text."""
    drawer = Markdown(width, is_plain=is_plain)
    return merged(drawer.feed(text) + drawer.end())


def shown(text: str, width: int = 60, *, is_plain: bool = False) -> str:
    """The same without styles."""
    return "\n".join(plain(row).rstrip() for row in drawn(text, width, is_plain=is_plain))
