"""Front matter: the keys at the beginning of a Markdown file, between two lines `---`.

A small part of YAML: texts, numbers and lists, one key a line, and texts of several lines after `|` or `>`.

>>> front_matter("---\\nname: rose\\ntags: [a, b]\\n---\\nRed.", "rose.md")
({'name': 'rose', 'tags': ['a', 'b']}, 'Red.')
"""

from __future__ import annotations

import re

MAX_KEYS = 50
"""How many keys there may be,"""
MAX_ITEMS = 100
"""and how many items in a list."""

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_BLOCK = re.compile(r"([|>])[+-]?(?:[ \t]+#.*)?")

Value = str | int | float | list[str]


class FrontMatterError(ValueError):
    """Front matter that can't be read. Says where and why."""


def front_matter(text: str, source: str) -> tuple[dict[str, Value], str]:
    """The keys between two lines `---` at the beginning, and the text below. Raises FrontMatterError."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise FrontMatterError(f"{source}, line 1: expected a line '---'")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise FrontMatterError(f"{source}, line {len(lines)}: the front matter has no line '---' at its end")
    values: dict[str, Value] = {}
    items: list[str] | None = None
    rows = iter(enumerate(lines[1:end], 2))
    for number, line in rows:
        where = f"{source}, line {number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if items is not None and (item := _ITEM.fullmatch(line)):
            if len(items) == MAX_ITEMS:
                raise FrontMatterError(f"{where}: a list has at most {MAX_ITEMS} items")
            items.append(str(_scalar(item[1] or "", where, is_text=True)))
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            raise FrontMatterError(f"{where}: expected 'key: value' or '- item', not {line.strip()[:60]!r}")
        key = match[1].replace("-", "_")
        if key in values:
            raise FrontMatterError(f"{where}: duplicate key {key}")
        if len(values) == MAX_KEYS:
            raise FrontMatterError(f"{where}: more than {MAX_KEYS} keys")
        items = None
        written = (match[2] or "").strip()
        if not written or written.startswith("#"):
            items = []
            values[key] = items
        elif style := _BLOCK.fullmatch(written):
            values[key] = _block(lines[number:end], style[1])
            for _ in range(_indented(lines[number:end])):
                next(rows)
        else:
            values[key] = _value(written, where)
    return values, "\n".join(lines[end + 1 :])


def _value(written: str, where: str) -> Value:
    if written.startswith(("&", "*", "!", "{", "%", "@")):
        raise FrontMatterError(f"{where}: {written[0]!r} starts a YAML construct that is not supported here")
    if not written.startswith("["):
        return _scalar(written, where)
    inner = _without_comment(written)
    if not inner.endswith("]"):
        raise FrontMatterError(f"{where}: a list must end with ']' on the same line")
    items = _split(inner[1:-1], where)
    if len(items) > MAX_ITEMS:
        raise FrontMatterError(f"{where}: a list has at most {MAX_ITEMS} items")
    return [str(_scalar(item, where, is_text=True)) for item in items]


def _split(text: str, where: str) -> list[str]:
    """The items of `a, "b, c", d`."""
    items = re.findall(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,'"][^,]*)\s*(?:,|\Z)""", text)
    rest = re.sub(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,'"][^,]*)\s*(?:,|\Z)""", "", text)
    if rest.strip():
        raise FrontMatterError(f"{where}: can't read the list at {rest.strip()[:40]!r}")
    return [item.strip() for item in items if item.strip()]


def _scalar(written: str, where: str, *, is_text: bool = False) -> str | int | float:
    if written.startswith('"'):
        match = re.fullmatch(r'"((?:[^"\\]|\\.)*)"(?:\s+#.*)?', written)
        if match is None:
            raise FrontMatterError(f"{where}: a text in double quotes must end with one")
        escapes = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
        return re.sub(r"\\(.)", lambda each: escapes.get(each[1], each[0]), match[1])
    if written.startswith("'"):
        match = re.fullmatch(r"'((?:[^']|'')*)'(?:\s+#.*)?", written)
        if match is None:
            raise FrontMatterError(f"{where}: a text in single quotes must end with one")
        return match[1].replace("''", "'")
    plain = _without_comment(written)
    if is_text or not _NUMBER.fullmatch(plain):
        return plain
    return float(plain) if "." in plain else int(plain)


def _without_comment(written: str) -> str:
    return re.sub(r"(?:\A|\s)#.*\Z", "", written).strip()


def _indented(lines: list[str]) -> int:
    """How many lines at the beginning belong to a text of several lines: those that are indented or empty."""
    return next((at for at, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))


def _block(lines: list[str], style: str) -> str:
    """A text of several lines: as they are, or with single line ends taken for blanks."""
    lines = [line.rstrip() for line in lines[: _indented(lines)]]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    text = "\n".join(line[margin:] for line in lines).strip("\n")
    return text if style == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", text)
