"""`fairlead attach`: share a session's terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """\
usage: fairlead attach [-w] NAME

Share a session's terminal. What you type goes to its program; ,,,d leaves it running. It exits with the
program's code when that ends.

    -w, --watch   only look: q or ^C leaves, r draws the screen again
"""


def main(arguments: Sequence[str]) -> int:
    watch = False
    names = []
    for word in arguments:
        if word in ("-h", "--help"):
            print(USAGE, end="")
            return 0
        if word in ("-w", "--watch"):
            watch = True
        else:
            names.append(word)
    if len(names) != 1 or names[0].startswith("-"):
        print(USAGE, end="", file=sys.stderr)
        return 2
    from ..client.attach import attach

    return attach(names[0], watch=watch)
