"""Installs requirements/peers-npm.txt, each package in a directory of its own outside the repository, which
all copies of the repository share: $XDG_CACHE_HOME/fairlead-peers/npm/NAME@VERSION.

Prints one line for each and always exits with 0: the tests skip what is missing, or fail when CI=true.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PINS = Path(__file__).parent.parent / "requirements" / "peers-npm.txt"
SECONDS = 900.0
"""For all packages, after which those that are missing stay missing."""
AT_ONCE = 3
"""How many are installed at a time: they wait for the network most of the time."""
RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
NPM = ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-timeout=60000", *RETRIES)
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH")
"""npm's errors after which the other packages need not be tried."""


class Package(NamedTuple):
    """A line of the list: a name with its version, and the commands it brings, or files by their path."""

    pin: str
    commands: tuple[str, ...]

    @property
    def place(self) -> Path:
        return cache() / self.pin.replace("/", "+")

    @property
    def is_there(self) -> bool:
        return all(self.path(command).exists() for command in self.commands)

    def path(self, command: str) -> Path:
        modules = self.place / "node_modules"
        return modules / command if "/" in command else modules / ".bin" / command


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "fairlead-peers", "npm")


def packages() -> list[Package]:
    lines = [line.split() for line in PINS.read_text().splitlines() if not line.startswith("#")]
    return [Package(pin, tuple(commands)) for pin, *commands in lines]


def program(command: str) -> Path | None:
    """Where a command of these packages is, if it is installed."""
    return next(
        (each.path(command) for each in packages() if command in each.commands and each.is_there), None
    )


class Installing:
    """One run, within its time."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SECONDS
        self._unreachable = ""

    def install(self, package: Package) -> str:
        """Install a package unless it is there, and say what came of it."""
        if package.is_there:
            return "present"
        if shutil.which("npm") is None:
            return "missing: there is no npm here"
        left = self._end - time.monotonic()
        if self._unreachable or left < 1:
            return f"missing: {self._unreachable or f'there was no time left of {SECONDS:.0f} s'}"
        part = package.place.with_name(f"{package.place.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        npm = subprocess.Popen(
            [*NPM, "--prefix", str(part), package.pin],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, errors = npm.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(npm.pid, signal.SIGKILL)
            npm.communicate()
            return f"missing: npm did not finish within {SECONDS:.0f} s"
        if npm.returncode != 0:
            said = [line.removeprefix("npm error").strip() for line in errors.splitlines()]
            why = f"npm: {next(filter(None, said), f'exit code {npm.returncode}')}"
            if any(code in errors for code in UNREACHABLE):
                self._unreachable = why
            return f"missing: {why}"
        shutil.rmtree(package.place, ignore_errors=True)
        part.rename(package.place)
        return "installed" if package.is_there else f"missing: it lacks {' or '.join(package.commands)}"


def main() -> None:
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w") as lock, ThreadPoolExecutor(AT_ONCE) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listed = packages()
        for package, said in zip(listed, pool.map(Installing().install, listed), strict=True):
            print(f"peer {package.pin}: {said}", flush=True)


if __name__ == "__main__":
    main()
