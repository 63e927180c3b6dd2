"""What an answer to a question does, in the words of who asks, where these say more than its name.

The dashboard and the chat show the same from here. Does no I/O.
"""

from __future__ import annotations

_PLAIN = {
    "allow": ("allow", "allow once", "yes"),
    "always": ("always allow", "always allow this", "allow always"),
    "deny": ("deny", "reject", "no", "reject once"),
    "never": ("always reject", "reject always", "never"),
}
"""Labels that say no more than the answer's name."""


def own_label(value: str, label: str) -> str:
    """The label of an answer if it says more than the answer's name; else nothing.

    >>> own_label("always", "Always allow: mode acceptEdits (session)")
    'Always allow: mode acceptEdits (session)'
    >>> own_label("allow", "Allow")
    ''
    """
    return "" if label.casefold() in _PLAIN.get(value, (value.casefold(),)) else label
