"""The text that a command is given."""

from __future__ import annotations

import sys


def given_text(word: str, limit: int = -1) -> str:
    """An argument, or so many characters of standard input if it is `-`; what is no UTF-8 is replaced."""
    from io import TextIOWrapper

    from ..formats.halves import encodable

    if word == "-" and isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    return encodable(sys.stdin.read(limit) if word == "-" else word)
