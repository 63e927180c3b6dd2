"""What is wrong with a text, and where: the base of both formats' errors."""

from __future__ import annotations

_SHOWN = 40  # how much of an offending token a message shows


class TextError(ValueError):
    """A text that can't be read, or a value that can't be written. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message if line is None else f"{message} (line {line}, column {column})")
        self.message = message
        self.line = line
        self.column = column


class Fault(Exception):
    """What is wrong, before it is known where. `at` is the number of the token, if not the current one."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def token_text(token: str) -> str:
    """As much of a token as a message should have."""
    return token if len(token) <= _SHOWN else token[:_SHOWN] + "…"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where an offset is, counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def utf8(text: str | bytes, error: type[TextError]) -> str:
    """The text, decoded if need be."""
    if isinstance(text, str):
        return text
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError as fault:
        raise error(f"the text is not UTF-8 at byte {fault.start}", 1, 1) from None
