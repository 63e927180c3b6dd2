"""Make the SDK for threads, client/sdk.py, from the one for asyncio, client/aio.py.

    python tools/make_sdk.py

They differ in `async` and `await`, and in the modules of their connections and streams. Methods `_open` are
for asyncio alone: a connection of the other SDK is open as soon as it is made. A test checks that the file is
current.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src/fairlead/client"
SOURCE, MADE = CLIENT / "aio.py", CLIENT / "sdk.py"
NOTE = "# Made from aio.py by tools/make_sdk.py; `make sdk` makes it anew.\n"
THREADS = "A `Host` and what comes from it are for one thread. Another thread opens its own; that is cheap.\n"
REPLACED = (
    (r"    async def _open\(self\).*?\n\n", ""),
    (r"\b(async|await) ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bfrom \.aio_streams\b", "from .streams"),
    (r"\bfrom \.links\b", "from .connection"),
    (r"\bLinks\b", "DaemonConnection"),
    (r"\blinks\b", "control"),
    (r"\b_links\b", "_control"),
    (r"\bfairlead\.aio\b", "fairlead"),
    (r"The SDK for asyncio:", "The SDK:"),
    (r"`sdk` is made from this file.*?\n(?=\"\"\")", THREADS),
)


def made(source: str) -> str:
    """The text of sdk.py."""
    for pattern, replacement in REPLACED:
        source = re.sub(pattern, replacement, source, flags=re.DOTALL)
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(MADE), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return NOTE + source


if __name__ == "__main__":
    MADE.write_text(made(SOURCE.read_text()))
