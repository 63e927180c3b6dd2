"""An agent of another maker as a session: `make demo`.

The agent is a small one that speaks ACP and needs no model; `fairlead agents` lists the real ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings

SMALL = Path(__file__).parents[1] / "tests" / "hosted" / "small_agent.py"
WAIT = 30


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Demo:
    """A daemon of its own, which knows the small agent."""

    def __init__(self, home: Path) -> None:
        self.project = home / "project"
        self.project.mkdir()
        config = home / "config.toml"
        config.write_text(f'[agents.small]\ncommand = ["{sys.executable}", "{SMALL}"]\n')
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "FAIRLEAD_CONFIG": str(config),
            "FAIRLEAD_VERIFIER_DIR": str(home / "v"),
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
        }

    def run(self, *words: str) -> str:
        print(paint("1", f"\n$ fairlead {' '.join(words)}"))
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=WAIT,
            check=True,
        )
        print(done.stdout.rstrip())
        return done.stdout

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while True:
            try:
                with DaemonConnection(Settings(self.environment), start=False) as control:
                    return control.ask(op, **params)
            except ConnectionError:  # the next daemon is on its way
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def question(self) -> str:
        """The token of what the agent asks."""
        while not (rows := self.ask("approvals")["approvals"]):
            time.sleep(0.05)
        return str(rows[0]["token"])


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    print(f"\n{paint('1', 'hosted agents')} — a turn that outlives the daemon, with a permission that waits")
    demo = Demo(home)
    try:
        demo.run("agent", "--with", "small", "--name", "garden", "-p", "hello from another maker")
        demo.run("send", "garden", "think slow tool done")
        token = demo.question()
        demo.run("approvals")
        os.kill(demo.ask("daemon_status")["pid"], signal.SIGKILL)
        print(paint("31", "\nthe daemon is dead"))
        assert demo.question() == token
        print(paint("32", "The next one has the same question, from the same process of the agent."))
        demo.run("approvals", "allow", token)
        demo.run("wait", "garden", "--exit")
        demo.run("logs", "garden")
        demo.run("ls")
        demo.run("stop", "garden")
    finally:
        command = [sys.executable, "-m", "fairlead", "daemon", "stop"]
        subprocess.run(command, env=demo.environment, check=False, capture_output=True, timeout=WAIT)
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
