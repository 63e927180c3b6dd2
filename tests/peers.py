"""The real programs that tests compare Fairlead with.

`tools/peers` installs them. A test that needs one that is missing is skipped and says so; with CI=true it
fails instead, so that a run on a server cannot pass by comparing nothing.
"""

import os
import shutil

import pytest


def require(program: str) -> str:
    """Return the path of `program`; without it, skip the calling test, or fail it when CI=true."""
    path = shutil.which(program)
    if path is not None:
        return path
    sentence = (
        f"{program} is not on PATH, and this test compares with the real one: "
        f"run `make peers`, or install {program} by hand"
    )
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{sentence} (CI=true makes a missing peer a failure)", pytrace=False)
    pytest.skip(sentence)
