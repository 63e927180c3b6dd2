"""At which address the web console serves, for links to it in what the daemon tells people.

The console writes it down in the runtime directory, and is there as long as its socket can be connected to.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from .files import read_private, replace_file
from .settings import Settings

MAX_ADDRESS = 300
CONNECT_SECONDS = 1.0


class ConsoleAddress(NamedTuple):
    """Where browsers find the console."""

    base: str

    @property
    def is_far(self) -> bool:
        """True if other machines can use it, too."""
        host = urlsplit(self.base).hostname or ""
        if host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return True

    def to(self, *parts: str) -> str:
        """The link to a view, as `to("inbox", token)`. It has no ticket: it is for browsers that were
        let in."""
        return "/".join((f"{self.base}/#", *(quote(each, safe="") for each in parts)))


def _path(settings: Settings) -> str:
    return f"{settings.runtime_dir}/web.address"


def note_address(settings: Settings, base: str) -> None:
    """The console serves at this address from now on; with an empty one it does not. Raises OSError."""
    if base:
        replace_file(_path(settings), base.encode())
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(settings))


def console_address(settings: Settings) -> ConsoleAddress | None:
    """Where the console serves now, if it does. May block for a moment."""
    found = read_private(_path(settings), MAX_ADDRESS)
    if not found:
        return None
    with socket.socket(socket.AF_UNIX) as probe:  # one that was killed has left the file
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(f"{settings.runtime_dir}/web.sock")
        except OSError:
            return None
    base = found.decode("ascii", "replace")
    return ConsoleAddress(base) if base.isprintable() and urlsplit(base).scheme in ("http", "https") else None
