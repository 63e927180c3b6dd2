"""Run the first minute of the README and keep what it showed: the text in the README, the picture in docs.

The commands are those of the README's block of `console`. They run for real, in a terminal session of a host
of its own, and the picture is that session's `screen --svg`. Without `--write` nothing is changed; the text
goes to standard output.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "first-minute.svg"
BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
COLUMNS, ROWS = 88, 19
WAIT = 60.0
"""Seconds until a command that hangs ends this."""


class Place:
    """A runtime directory and a home, with a host of their own."""

    def __init__(self, directory: Path) -> None:
        for part in ("run", "home"):
            (directory / part).mkdir(parents=True, mode=0o700)
        bin_directory = Path(sys.executable).parent
        self.environment = {
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(directory / "home"),
            "XDG_RUNTIME_DIR": str(directory / "run"),
            "FAIRLEAD_VERIFIER_DIR": str(directory / "v"),
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
            "PYTHON_BASIC_REPL": "1",
        }

    def fairlead(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"fairlead {' '.join(words)} exited with {done.returncode}: {done.stderr}")
        return done.stdout


def commands() -> list[str]:
    """What a reader types."""
    (block,) = BLOCK.findall(README.read_text())
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def script() -> str:
    """A shell's script that shows each command as a prompt would, and runs it; a failure ends it."""
    lines = ["set -e"]
    for command in commands():
        shown = command.replace("'", "'\\''")
        lines += [f"printf '\\033[1;32m$\\033[0m \\033[1m%s\\033[0m\\n' '{shown}'", command]
    return "\n".join(lines)


def first_minute(directory: Path) -> tuple[str, str]:
    """What the commands showed, as text and as a picture."""
    outer, inner = Place(directory / "o"), Place(directory / "i")
    here = [f"{name}={value}" for name, value in inner.environment.items()]
    size = ("--cols", str(COLUMNS), "--rows", str(ROWS))
    try:
        shell = ("env", *here, "sh", "-c", script())
        outer.fairlead("start", "minute", "-d", *size, "--cwd", inner.environment["HOME"], "--", *shell)
        try:
            outer.fairlead("wait", "minute", "--exit", "--timeout", str(WAIT))
        except SystemExit:
            raise SystemExit(f"the first minute failed:\n{outer.fairlead('logs', 'minute')}") from None
        return outer.fairlead("logs", "minute"), outer.fairlead("screen", "minute", "--svg")
    finally:
        for place in (inner, outer):
            place.fairlead("daemon", "stop")


def main() -> int:
    directory = Path(tempfile.mkdtemp(prefix="fl-", dir="/tmp"))  # short, as sockets' paths must be
    try:
        text, picture = first_minute(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if "--write" in sys.argv[1:]:
        README.write_text(BLOCK.sub(lambda _: text, README.read_text()))
        PICTURE.write_text(picture)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
