"""The last row of a chat: the connection, and the context, cost, model, mode and branch of the session."""

from __future__ import annotations

from typing import Any

from ...formats.columns import cut
from ...formats.shown import clean
from ..styled import Row

FOOTER_LINES = 10
"""A terminal with fewer rows has none."""
_RECKLESS = ("bypass", "yolo", "dontask", "fullaccess", "fullauto", "dangerous")
MAX_PART = 60
"""How many characters a part may have."""


def footer(told: dict[str, Any], connection: str, columns: int) -> Row:
    """What is told of the session, in the order of what a person needs first; the rest is cut."""
    model, thinking = told.get("model") or "", told.get("thinking") or "off"
    names = {each["id"]: each["name"] for each in told.get("modes") or ()}
    mode, branch = names.get(told.get("mode")) or told.get("mode"), told.get("branch")
    parts = [connection, f"mode {mode}" if mode else "", _context(told), _cost(told), model]
    parts += [f"thinking {thinking}" if thinking != "off" else "", f"⎇ {branch}" if branch else ""]
    shown = [clean(str(part))[:MAX_PART] for part in parts if part]
    return cut(" · ".join(shown), columns), "dim"


def is_reckless(mode: str) -> bool:
    """True for a mode in which, by its name, an agent asks for nothing at all."""
    plain = mode.lower().replace("-", "").replace("_", "")
    return any(word in plain for word in _RECKLESS)


def _context(told: dict[str, Any]) -> str:
    used, window = told.get("context_tokens") or 0, told.get("context_window") or 0
    if not window:
        return f"{_short(used)} tokens" if used else ""
    return f"{_short(used)}/{_short(window)} {100 * used / window:.0f}%"


def _cost(told: dict[str, Any]) -> str:
    cost = told.get("cost") or 0
    if 0 < cost < 0.0005:
        return "<$0.001"
    return f"${cost:.2f}" if cost >= 0.1 else f"${cost:.3f}" if cost else ""


def _short(count: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)
