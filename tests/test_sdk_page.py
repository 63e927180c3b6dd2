"""Every example of the SDK is run against a real daemon, and prints what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosting import WAIT, Hosting

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "sdk.md").read_text() + (ROOT / "README.md").read_text()
EXAMPLES = [each for each in re.findall(r"```python\n(.*?)```", PAGES, re.DOTALL) if "as host" in each]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_an_example_of_the_page_works(example: str) -> None:
    hosting = Hosting()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            env=hosting.environment,
            capture_output=True,
            text=True,
            timeout=2 * WAIT,
            check=False,
        )
        assert (done.stderr, done.returncode) == ("", 0)
        printed = done.stdout.splitlines()
        claimed = re.findall(r"print\(.*\)  # (.+)$", example, re.MULTILINE)
        assert [line for line in printed if line in claimed] == claimed
        assert printed
    finally:
        hosting.close()
