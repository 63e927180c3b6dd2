"""Choices that an editor's person is asked for: what is asked, and what an answer means.

An action is a map with psi's names, which the editor gives back with the answer. Nothing is kept of it here,
so an answer counts whoever asked, and also after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...formats.edn import Keyword
from ...wire.rpc import fields

Data = Mapping[Any, Any]

PROMPTS = {
    "select-model": "Select a model",
    "select-thinking-level": "Select a thinking level",
    "select-resume-session": "Select a session to resume",
    "select-session": "Select a live session",
    "select-mode": "Select a mode",
    "select-option": "Select an option",
    "select-option-value": "Select a value",
}
_KINDS = {
    "select-model": "set-model",
    "select-thinking-level": "set-thinking-level",
    "select-resume-session": "resume-session",
    "select-session": "select-session",
    "select-mode": "set-mode",
    "select-option": "select-option",
    "select-option-value": "set-option",
}


class Item(NamedTuple):
    """Something to choose."""

    id: str
    label: str
    value: Any
    is_current: bool = False


def action(name: str, request_id: str, items: Sequence[Item], *, says_current: bool = False) -> Data:
    """The data of `ui/frontend-action-requested`. It may say which item is chosen now."""
    prompt = PROMPTS[name]
    rows = [
        {
            Keyword("ui.item/id"): item.id,
            Keyword("ui.item/label"): label,
            Keyword("ui.item/value"): item.value,
            **({Keyword("ui.item/current"): True} if says_current and item.is_current else {}),
        }
        for item, label in zip(items, _unique([item.label for item in items]))
    ]
    shown = {
        Keyword("ui/action-id"): Keyword(name),
        Keyword("ui/action-kind"): Keyword("select"),
        Keyword("ui/action-name"): Keyword(name),
        Keyword("ui/prompt"): prompt,
        Keyword("ui/order"): Keyword("preserve" if name == "select-session" else "default"),
        Keyword("ui/on-submit"): {Keyword("submit/kind"): Keyword(_KINDS[name])},
        Keyword("ui/items"): rows,
    }
    return {**fields(request_id=request_id, prompt=prompt), Keyword("ui/action"): shown}


def _unique(labels: Sequence[str]) -> list[str]:
    """Labels of which no two are the same: an editor takes the first that agrees."""
    seen: set[str] = set()
    unique = []
    for label in labels:
        number, shown = 1, label
        while shown in seen:
            number += 1
            shown = f"{label} ({number})"
        seen.add(shown)
        unique.append(shown)
    return unique


def name_of(given: Any, otherwise: Any) -> str:
    """The name of an action that an editor gives back, else the one that it says."""
    named = part(given, "action-name")
    return text_of(named if named is not None else otherwise)


def part(value: Any, name: str) -> Any:
    """A value in a map that came from an editor, whatever the namespace and the spelling of its key."""
    if not isinstance(value, Mapping):
        return None
    for key, inner in value.items():
        if text_of(key).rpartition("/")[2].replace("_", "-") == name:
            return inner
    return None


def text_of(value: Any) -> str:
    """A keyword or a string as text."""
    if isinstance(value, Keyword):
        return value.name
    return value if isinstance(value, str) else ""
