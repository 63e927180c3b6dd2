"""Installs requirements/peers-pip.txt, each package in an environment of its own outside the repository,
which all copies of the repository share: $XDG_CACHE_HOME/fairlead-peers/pip/NAME==VERSION.

Prints one line for each and always exits with 0. Only `make bench-state` needs them: their recordings are
compared with rules, and no test runs them.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from .npm_peers import cache as npm_cache

PINS = Path(__file__).parent.parent / "requirements" / "peers-pip.txt"
SECONDS = 900.0
"""For a package, after which it stays missing."""


def cache() -> Path:
    return npm_cache().with_name("pip")


def path(pin: str, command: str) -> Path:
    """Where a command of a package is, if it is installed."""
    return cache() / pin / "bin" / command


def _install(pin: str, commands: list[str]) -> str:
    if all(path(pin, command).exists() for command in commands):
        return "present"
    place = cache() / pin
    shutil.rmtree(place, ignore_errors=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        for words in ([sys.executable, "-m", "venv", str(place)], [*pip, pin]):
            subprocess.run(words, check=True, capture_output=True, text=True, timeout=SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(place, ignore_errors=True)
        said = [line for line in str(error.stderr or "").splitlines() if line.startswith("ERROR")]
        return f"missing: {said[-1] if said else error}"
    lacking = [command for command in commands if not path(pin, command).exists()]
    return f"missing: it lacks {' or '.join(lacking)}" if lacking else "installed"


def main() -> None:
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for line in PINS.read_text().splitlines():
            if not line.startswith("#"):
                pin, *commands = line.split()
                print(f"peer {pin}: {_install(pin, commands)}", flush=True)


if __name__ == "__main__":
    main()
