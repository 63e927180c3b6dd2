"""The unit files of systemd and launchd, with the way to this very Fairlead in them.

The files themselves are in `units/` and, for those who look there, in `contrib/`.
"""

from __future__ import annotations

import os
import sys

UNITS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "units")
FILES = {"systemd": "fairlead.service", "launchd": "fairlead.plist"}
COMMAND = ("-m", "fairlead", "daemon", "run", "--supervised")
SYSTEMD_PATH = "%h/.local/bin/fairlead daemon run --supervised"
"""What stands in the file for systemd where the command goes."""
LAUNCHD_PATHS = ("/usr/local/bin/fairlead", "daemon", "run", "--supervised")


def unit(manager: str) -> str:
    """The unit file for `systemd` or `launchd`."""
    with open(os.path.join(UNITS, FILES[manager]), encoding="utf-8") as file:
        text = file.read()
    words = [sys.executable, *COMMAND]
    if manager == "systemd":
        return text.replace(SYSTEMD_PATH, " ".join(map(_systemd_word, words)))
    from xml.sax.saxutils import escape

    before = "".join(f"\t\t<string>{word}</string>\n" for word in LAUNCHD_PATHS)
    return text.replace(before, "".join(f"\t\t<string>{escape(word)}</string>\n" for word in words))


def _systemd_word(word: str) -> str:
    """A word of a command line as systemd reads it: % and $ doubled, in quotes if need be."""
    word = word.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{word}"' if any(char in word for char in " '\"\\;") else word
