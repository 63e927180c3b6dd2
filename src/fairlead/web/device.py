"""What a browser is in a few words, such as "Firefox on Linux", from what it calls itself: a hint for people.
Nothing is decided by it."""

from __future__ import annotations

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""By a word of theirs. Most say that they are others too, so the order counts."""
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "Mac"),
    ("Linux", "Linux"),
)
MAX_OTHER = 40
"""How many characters of another name are shown."""


def device(agent: str) -> str:
    """The browser and its system, else the beginning of its name."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or agent[:MAX_OTHER]
