"""All sessions on one screen, one of them asks, and is answered: `make demo`.

The dashboard runs in a terminal session of Fairlead's own, in a place of its own, and its screen is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WAIT = "30"
"""Seconds until something that does not appear ends the demo."""
MOMENT = "1"
"""Seconds for which a question stays on the screen before it is answered."""


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Person:
    """Runs `fairlead` commands, and looks at the dashboard."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        own = {"XDG_RUNTIME_DIR": directory, "HOME": directory, "FAIRLEAD_VERIFIER_DIR": f"{directory}/v"}
        self._environment = {**os.environ, **own, "FAIRLEAD_PASSEPARTOUT_PORT": "0", "TERM": "xterm-256color"}
        self._environment.pop("NO_COLOR", None)

    def run(self, *words: str, input: str = "") -> str:
        command = [sys.executable, "-m", "fairlead", *words]
        given: dict[str, Any] = {"env": self._environment, "cwd": self.directory, "input": input}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
        if done.returncode:
            raise SystemExit(f"fairlead {' '.join(words)}: {done.stderr}")
        return str(done.stdout)

    def see(self, what: str, text: str) -> None:
        """Wait for a text on the dashboard, and show it."""
        self.run("wait", "screen", "--text", text, "--timeout", WAIT)
        print(paint("1", what))
        print(self.run("screen", "screen", *(["--ansi"] if sys.stdout.isatty() else [])))

    def press(self, key: str) -> None:
        self.run("send", "screen", key)


def main() -> None:
    directory = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
    person = Person(directory)
    try:
        for name, script in (
            ("build", "echo compiling; exec sleep 1000"),
            ("deploy", "printf 'Deploy to production? (y/n) '; read answer; exec sleep 1000"),
        ):
            person.run("start", name, "-d", "--", "sh", "-c", script)
        person.run("start", "garden-helper", "-d", "--", sys.executable, "-m", "fairlead", "agent", "garden")
        person.run("wait", "garden-helper", "--text", "guide", "--timeout", WAIT)
        person.run("send", "garden", "run: touch gate.html")
        person.run(
            "start", "screen", "-d", "--cols", "100", "--rows", "14", "--", sys.executable, "-m", "fairlead"
        )
        person.see("$ fairlead", "2 need you")
        person.run("send", "screen", "-k", "Home")
        person.press("/garden")
        person.run("send", "screen", "-k", "Enter")
        person.press("y")
        person.see("y shows the whole of what garden asks", "allow it")
        person.run("wait", "screen", "--idle", MOMENT, "--timeout", WAIT)
        person.press("y")
        person.see("y again, and it is done", "allowed: ")
        print(f"gate.html is there: {Path(directory, 'gate.html').exists()}")
    finally:
        names = person.run("ls", "-q", "--kind", "terminal").split()
        person.run("stop", *names)
        person.run("daemon", "stop")
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
