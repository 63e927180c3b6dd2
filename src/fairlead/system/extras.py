"""What to say when a package of one of our extras is missing: which extra it is, and the command that adds it
to this installation, however that was made. Imports nothing until it is needed."""

from __future__ import annotations

import os
import sys


def missing(what: str, extra: str) -> str:
    """One sentence for something that needs an extra, as `missing("a PNG needs Pillow", "picture")`."""
    return f"{what}, from the extra '{extra}': {adding(extra)}"


def adding(extra: str) -> str:
    """The command that adds an extra."""
    return installing(f"'fairlead[{extra}]'")


def installing(packages: str) -> str:
    """The command that installs packages beside this very Fairlead."""
    if os.path.exists(f"{sys.prefix}/pipx_metadata.json"):
        return f"pipx runpip fairlead install {packages}"
    from shlex import quote

    if is_missing("pip"):  # an environment that uv made has none
        return f"uv pip install --python {quote(sys.prefix)} {packages}"
    return f"{quote(sys.executable)} -m pip install {packages}"


def is_missing(module: str) -> bool:
    """True if a module is not installed."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is None
    except ValueError:  # somebody has put something else in its place
        return True
