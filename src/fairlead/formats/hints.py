"""Hints of another host, which name commands as one would type them there."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_HINT = r"`fairlead ([^`\n]+)`"
_MEANT = r"(no (?:agent )?session '[^']*'; did you mean )(?=[^\s?]+\?)"
_OF_NO_HOST = frozenset(("completion", "fleet", "hook", "host", "link", "play", "queue", "web"))
"""Commands that are of this host, whatever another one says."""


def of_host(text: str, host: str) -> str:
    """A message from another host, or about it, with its hints as they are to be typed here.

    >>> of_host("it asks: `fairlead approvals`", "workbox")
    'it asks: `fairlead -H workbox approvals`'
    >>> of_host("no session 'ros'; did you mean roses?", "workbox")
    "no session 'ros'; did you mean workbox:roses?"
    """
    if not host:
        return text
    import re  # not for sessions of this host, whose attach begins at once

    def hint(found: re.Match[str]) -> str:
        words = found[1]
        first = words.split(None, 1)[0]
        if first.startswith("-") or first in _OF_NO_HOST or f"{host}:" in words:
            return found[0]
        return f"`fairlead -H {host} {words}`"

    return re.sub(_MEANT, lambda found: f"{found[1]}{host}:", re.sub(_HINT, hint, text))
