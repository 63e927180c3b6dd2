"""Two hosts on one machine, joined over NATS that the demo starts itself: sessions and queued jobs of one are
seen and used from the other: `make demo`. Each host is a daemon with a home of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAIT = 30


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class DemoHost:
    """A daemon with a home of its own."""

    def __init__(self, directory: str, name: str, capacity: int) -> None:
        self.name = name
        self.home = Path(directory, name)
        self.project = self.home / "garden"
        self.project.mkdir(parents=True)
        self.environment = {
            **{key: os.environ[key] for key in ("PATH", "LANG", "TERM") if key in os.environ},
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "FAIRLEAD_VERIFIER_DIR": str(self.home / "v"),
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
            "FAIRLEAD_FLEET_CAPACITY": str(capacity),
            "FAIRLEAD_FLEET_LABELS": "gpu" if capacity else "",
            "SHELL": "/bin/sh",
        }
        (self.home / "run").mkdir(mode=0o700)

    def run(self, *words: str, check: bool = True) -> str:
        """Run `fairlead WORDS…`, quietly."""
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        if check and done.returncode:
            raise SystemExit(f"{self.name}: fairlead {' '.join(words)}: {done.stderr}")
        return done.stdout

    def show(self, *words: str) -> str:
        """Run `fairlead WORDS…`, with what was typed and what it printed."""
        print(paint("1", f"\n{self.name}$ fairlead {shlex.join(words)}"))
        said = self.run(*words)
        print("".join(f"  {line}\n" for line in said.splitlines()), end="")
        return said

    def until(self, text: str, *words: str) -> None:
        """Wait until a command says a text."""
        deadline = time.monotonic() + WAIT
        while text not in self.run(*words, check=False):
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name}: fairlead {' '.join(words)} never said {text!r}")
            time.sleep(0.05)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        self.run("fleet", "leave", check=False)
        self.run("daemon", "stop", check=False)


def show(laptop: DemoHost, workbox: DemoHost) -> None:
    """What one sees and does from the laptop."""
    workbox.run("start", "work", "-d", "--", "python3", "-q")
    asking = workbox.begin("agent", "-p", "--name", "garden", "write gate.txt: mended")
    laptop.until("workbox", "ls", "--all")
    laptop.show("send", "workbox:work", "6 * 7", "-k", "Enter")
    laptop.run("wait", "workbox:work", "--text", "42", "--timeout", str(WAIT))
    laptop.show("screen", "workbox:work")
    laptop.show("ls", "--all")
    asking.wait(WAIT)

    for number in range(1, 4):
        words = ("run", "--queue", "-q", "--yes", "--on", "label=gpu", "--project", "~/garden")
        laptop.show(*words, "--verify", f"test -e rose{number}.txt", f"write rose{number}.txt: red")
    wrong = ("--verify", "test -e tulip.txt", "write rose.txt: red")
    laptop.show("run", "--queue", "-q", "--yes", "--project", "~/garden", *wrong)
    print(paint("1", "\nlaptop$ fairlead queue wait"))
    print("".join(f"  {line}\n" for line in laptop.run("queue", "wait", check=False).splitlines()), end="")
    laptop.show("queue", "ls")
    found = sorted(path.name for path in workbox.project.glob("rose*.txt"))
    print(paint("1", "\nworkbox$ ls ~/garden"), *found, sep="\n  ")
    laptop.show("fleet", "status")


def main() -> None:
    began = time.monotonic()
    directory = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
    laptop, workbox = DemoHost(directory, "laptop", 0), DemoHost(directory, "workbox", 2)
    fleet = f"{directory}/fleet"
    serving: subprocess.Popen[str] | None = None
    try:
        listen, leaf = (f"127.0.0.1:{free_port()}" for _ in range(2))
        made = ("--address", "127.0.0.1", "--listen", listen, "--leaf-listen", leaf)
        laptop.show("fleet", "init", fleet, *made)
        print(paint("1", "\nlaptop$ fairlead fleet serve &"))
        serving = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "fleet", "serve", fleet],
            env=laptop.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert serving.stdout is not None
        print(f"  {serving.stdout.readline()}", end="")
        for host in (laptop, workbox):
            creds = json.loads(laptop.run("fleet", "creds", "machine", host.name, "--dir", fleet, "--json"))
            print(paint("1", f"\n{host.name}$ fairlead fleet join {creds['url']} --creds … --ca …"))
            host.run("fleet", "join", creds["url"], "--creds", creds["creds"], "--ca", creds["ca"])
        laptop.until("workbox", "fleet", "status")
        show(laptop, workbox)
    finally:
        for host in (laptop, workbox):
            host.run("stop", "work", check=False)
            host.close()
        if serving is not None:
            serving.terminate()
            serving.wait(WAIT)
            assert serving.stdout is not None
            serving.stdout.close()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"\n{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
