"""Hints of another host, which name commands as one would type them there."""

from __future__ import annotations

import re

_HINT = re.compile(r"`fairlead ([^`\n]+)`")
_MEANT = re.compile(r"(no (?:agent )?session '[^']*'; did you mean )(?=[^\s?]+\?)")
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

    def hint(found: re.Match[str]) -> str:
        words = found[1]
        first = words.split(None, 1)[0]
        if first.startswith("-") or first in _OF_NO_HOST or f"{host}:" in words:
            return found[0]
        return f"`fairlead -H {host} {words}`"

    return _MEANT.sub(lambda found: f"{found[1]}{host}:", _HINT.sub(hint, text))
