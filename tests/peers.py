"""The real programs that tests compare Fairlead with.

`tools/peers` installs them. A test that needs one that is missing is skipped and says so; with CI=true it
fails instead, so that a run on a server cannot pass by comparing nothing.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tools import npm_peers


def require(program: str) -> str:
    """Return the path of `program`; without it, skip the calling test, or fail it when CI=true."""
    path = shutil.which(program)
    if path is not None:
        return path
    missing(
        f"{program} is not on PATH, and this test compares with the real one: "
        f"run `make peers`, or install {program} by hand"
    )


def python_with(module: str) -> str:
    """Return the Python of `.venv/peers`, which must have `module`; without it, skip or fail likewise."""
    place = Path(__file__).parent.parent / ".venv" / "peers"
    if not any(place.glob(f"lib/python*/site-packages/{module}")):
        missing(f"the Python module {module} is not in .venv/peers: run `tools/peers --python`")
    return str(place / "bin" / "python")


def npm(command: str) -> str:
    """Return the path of a program of requirements/peers-npm.txt; without it, skip or fail likewise."""
    path = npm_peers.program(command)
    if path is None:
        missing(f"{command} is not in {npm_peers.cache()}: run `tools/peers --npm`, which needs npm")
    return str(path)


def missing(sentence: str) -> NoReturn:
    """Skip the calling test, or fail it when CI=true."""
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{sentence} (CI=true makes a missing peer a failure)", pytrace=False)
    pytest.skip(sentence)
