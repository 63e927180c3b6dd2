"""Permission dialogs of agents as their screens show them: whether one is there, its whole text, and the
keys that answer it. Does no I/O.

A dialog is read from its last option, which is near the bottom of the screen, up to the row that begins it.
Text further up, such as an answer that quotes a dialog, never counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .state.rules import bare

MAX_DIALOG = 100
"""How many rows a dialog has at the most."""


class DialogLook(NamedTuple):
    """How an agent's permission dialog looks."""

    begins: re.Pattern[str]
    """Its first row."""
    ends: re.Pattern[str]
    """Its last option,"""
    below: int
    """with so many rows below it at the most."""
    keys: Mapping[str, tuple[str, str]] = {}
    """For an option of a question: what is in the row of the dialog's own, and the key that takes it. Only
    keys that do no harm where no dialog is: none sends anything."""
    lasts: re.Pattern[str] | None = None
    """An option that allows more than this once: the `key` that takes it, and its `label`."""
    hidden: re.Pattern[str] = re.compile(r"lines? hidden|\.\.\. \d+ more")
    """A row that says that not all is shown."""


_OPTION = re.compile(r"^[│ ]*(?:[●❯›] )?\d\. \S")
_GOES_ON = re.compile(r"^[│ ] {4,}\S")
"""A row in which an option goes on."""

LOOKS: Mapping[str, DialogLook] = {
    "claude": DialogLook(
        re.compile(r"^ ?[─╭]{10}"),
        re.compile(r"^[ │]*(❯ )?\d\. (No\b|Type here to tell Claude)"),
        4,
    ),
    "codex": DialogLook(
        re.compile(r"^ +(Would you like to|Do you want to|Allow )"),
        re.compile(r"^(›| ) \d\. No, "),
        3,
        {"allow": ("Yes, proceed (y)", "y"), "deny": ("(esc)", "\x1b")},
        re.compile(r"\d\. (?P<label>Yes, and .+) \((?P<key>[a-z])\)"),
    ),
    "gemini": DialogLook(
        re.compile(r"^╭─{10}"),
        re.compile(r"^│ (●| ) \d\. No, suggest changes"),
        3,
        {"allow": ("1. Allow once", "1"), "deny": ("(esc)", "\x1b")},
        re.compile(r"(?P<key>\d)\. (?P<label>Allow (?!once\b).+)"),
    ),
    "opencode": DialogLook(
        re.compile(r"△ Permission required"),
        re.compile(r"Allow once +Allow always +Reject"),
        3,
    ),
}


class ShownDialog(NamedTuple):
    """A dialog on a screen."""

    text: str
    is_whole: bool
    """Whether all of what it asks for is on the screen."""
    keys: Mapping[str, str]
    """The key for each option of a question that it can be answered with."""
    lasting: Mapping[str, str] = {}
    """Those of them that allow more than this once, each with the dialog's own words."""

    def shows(self, text: str) -> bool:
        """Whether a text is in it, however its rows are wrapped and framed."""
        return bare(text) in bare(self.text)

    def is_same(self, other: str) -> bool:
        """Whether this is the text of the same dialog, whichever option is marked."""
        return _marked(other) == _marked(self.text)


def _marked(text: str) -> str:
    return re.sub(r"[●❯›]", "", bare(text))


def shown_dialog(agent: str, rows: Sequence[str]) -> ShownDialog | None:
    """The permission dialog of an agent that is on a screen with these rows, if one is."""
    look = LOOKS.get(agent)
    if look is None:
        return None
    rows = [row.rstrip() for row in rows]
    while rows and not rows[-1]:
        rows.pop()
    last = next((at for at in range(len(rows) - 1, -1, -1) if look.ends.search(rows[at])), -1)
    if last < 0 or len(rows) - 1 - last > look.below:
        return None
    first = next(
        (at for at in range(last, max(-1, last - MAX_DIALOG), -1) if look.begins.search(rows[at])), -1
    )
    shown = rows[max(first, 0) : last + 1]
    keys = {option: key for option, (words, key) in look.keys.items() if any(words in row for row in shown)}
    is_whole = first >= 0 and not any(look.hidden.search(row) for row in shown)
    lasting: dict[str, str] = {}
    for option in _options(shown):
        if look.lasts is not None and (found := look.lasts.fullmatch(option)) is not None:
            value = f"always-{len(lasting) + 1}" if lasting else "always"
            keys[value], lasting[value] = found["key"], found["label"]
    return ShownDialog("\n".join(shown), is_whole, keys, lasting)


def _options(rows: Sequence[str]) -> list[str]:
    """The numbered options of a dialog, each in one line."""
    found: list[str] = []
    for row in rows:
        text = row.strip(" │")
        if _OPTION.match(row):
            found.append(text.lstrip("●❯› "))
        elif found and text and _GOES_ON.match(row):
            found[-1] += f" {text}"
        elif found and text:
            found.clear()  # what had numbers was no option
    return found
