"""The first line of a link to a far daemon, and the words with which one is asked for.

A link is a stream of bytes to a daemon on another host, carried by ssh or by the fleet. What carries it may
print something first: a banner, or what a shell's start files say. So the far end begins with a line of its
own, which names this protocol, says whether the link is there, and the version of Fairlead. What follows that
line is what the daemon's own socket would say.

    FAIRLEAD-LINK 1 ready 0.16.0
    FAIRLEAD-LINK 1 failed the%20daemon%20can't%20start

Words travel percent-encoded, as they pass through shells that nobody here knows.
"""

from __future__ import annotations

from typing import NamedTuple

MARK = b"FAIRLEAD-LINK"
PROTOCOL = 1
MAX_LINE = 4096
"""How many bytes the line may have."""
MAX_NOISE = 64 * 1024
"""How many bytes may come before it."""
READY = "ready"
"""The daemon, or the session, is at the other end from here on."""
ABSENT = "absent"
"""There is a daemon, and no session of that name."""
FAILED = "failed"
"""There is no daemon, or something else is wrong; a sentence follows."""
MISSING = "missing"
"""There is no Fairlead."""
OLD = "old"
"""There is a Fairlead that knows no links; what it says of its version follows."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Greeting(NamedTuple):
    """What the far end says first."""

    word: str
    rest: tuple[str, ...] = ()
    protocol: int = PROTOCOL

    @property
    def text(self) -> str:
        return " ".join(self.rest)


class Search:
    """Looks for the greeting in what a link says first. It keeps the end of the noise, for messages."""

    def __init__(self) -> None:
        self._heard = b"\n"
        self.noise = 0
        """How many bytes came that are no greeting."""

    @property
    def last_line(self) -> str:
        """The last line of the noise that says anything."""
        lines = [line.strip() for line in self._heard.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    @property
    def is_too_much(self) -> bool:
        return self.noise > MAX_NOISE

    def take(self, data: bytes) -> tuple[Greeting | None, int]:
        """Look into what can be read next; return the greeting, if it is there, and how many of these bytes
        are used up. The bytes after a greeting's line are the daemon's."""
        known = len(self._heard)
        whole = self._heard + data
        at = -1
        while (at := whole.find(b"\n" + MARK + b" ", at + 1)) >= 0:
            end = whole.find(b"\n", at + 1)
            if end < 0:
                break
            if (found := _parsed(whole[at + 1 : end])) is not None:
                return found, end + 1 - known
        self.noise += len(data)
        self._heard = whole[-MAX_LINE:]
        return None, len(data)


def _parsed(line: bytes) -> Greeting | None:
    words = line.strip().split(b" ")
    if len(words) < 3 or not words[1].isdigit() or len(words[1]) > 9:
        return None
    return Greeting(unquoted(words[2].decode(errors="replace")), _rest(words[3:]), int(words[1]))


def _rest(words: list[bytes]) -> tuple[str, ...]:
    return tuple(unquoted(word.decode(errors="replace")) for word in words if word)


def greeting(word: str, *rest: str) -> bytes:
    """The line that the far end begins with. A line that the noise left open is ended first."""
    text = " ".join([word, *(quoted(each) for each in rest)])
    return b"\n%s %d %s\n" % (MARK, PROTOCOL, text.encode()[: MAX_LINE - 64])


def quoted(word: str) -> str:
    """A word that no shell changes: letters, digits and `._-`, and the rest as %XX.

    >>> quoted("a b")
    'a%20b'
    """
    data = word.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def unquoted(word: str) -> str:
    """The word again; what is no such escape stays as it is.

    >>> unquoted("a%20b%zz")
    'a b%zz'
    """
    made = bytearray()
    data = word.encode("utf-8", "surrogateescape")
    at = 0
    while at < len(data):
        pair = data[at + 1 : at + 3]
        if data[at] == 0x25 and len(pair) == 2 and pair.isalnum():
            try:
                made.append(int(pair, 16))
                at += 3
                continue
            except ValueError:
                pass
        made.append(data[at])
        at += 1
    return made.decode("utf-8", "surrogateescape")
