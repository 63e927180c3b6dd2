"""Installing this version on another host: a wheel is made of what runs here, and sent over ssh to a script
that installs it there, where `make install` would, into an environment of its own. What it depends on comes
from the package index that pip uses there."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import zipfile
from importlib import metadata
from typing import NamedTuple

from ... import __version__
from ...system.settings import Settings
from . import ssh
from .dial import HostRefused
from .table import KnownHost

WHEEL = f"fairlead-{__version__}-py3-none-any.whl"
LOOK_WAIT = 60.0
"""Seconds that looking may take, with connecting."""
INSTALL_WAIT = 1200.0
"""Seconds that installing may take: packages are downloaded."""
MAX_SAID = 100_000

_FIND = """
for c in python3.13 python3.12 python3.11 python3.14 python3 python; do
  if "$c" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then
    p=$c; break
  fi
done
d=${XDG_DATA_HOME:-$HOME/.local/share}/fairlead/venv; b=$HOME/.local/bin; f=$b/fairlead
"""
_LOOK = f"""{_FIND}
echo; echo FAIRLEAD-LOOK
echo "python $p"
if [ -n "$p" ]; then echo "version $("$p" -c "import platform; print(platform.python_version())")"; fi
if [ -x "$d/bin/fairlead" ]; then echo "has $("$d/bin/fairlead" --version 2>/dev/null)"; fi
if [ -e "$f" ] || [ -L "$f" ]; then
  case $(readlink "$f") in "$d"/*) ;; *) echo "other $f" ;; esac
fi
echo "at $d"
"""
_INSTALL = f"""{_FIND}
set -e
umask 077
t=$(mktemp -d)
trap "rm -rf $t" EXIT
cat > "$t/{WHEEL}"
mkdir -p "$b" "$(dirname "$d")"
"$d/bin/python" -c "import pip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null ||
  "$p" -m venv --clear "$d"
pip() {{ "$d/bin/python" -m pip install -q --disable-pip-version-check --no-input "$@" "$t/{WHEEL}" >&2; }}
pip
pip --force-reinstall --no-deps
for c in fairlead fairlead-keepty; do
  case $(readlink "$b/$c" || echo "$d/") in
    "$d"/*) if [ -L "$b/$c" ] || [ ! -e "$b/$c" ]; then ln -sf "$d/bin/$c" "$b/$c"; fi ;;
  esac
done
echo; echo FAIRLEAD-LOOK
echo "has $("$d/bin/fairlead" --version)"
"""


_WHEEL = b"Wheel-Version: 1.0\nGenerator: fairlead\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class OnHost(NamedTuple):
    """What is on a host, before it is installed there."""

    python: str
    """The version of a Python that can be used; empty if there is none."""
    has: str
    """What is installed by us already says of its version."""
    other: str
    """Another fairlead, where our link would be."""
    place: str


def look(host: KnownHost, settings: Settings, *, asks: bool) -> OnHost:
    """Look what is there. Raises HostAway, HostRefused."""
    told = _run(host, settings, _LOOK, b"", LOOK_WAIT, asks=asks)
    return OnHost(told.get("version", ""), told.get("has", ""), told.get("other", ""), told.get("at", ""))


def install(host: KnownHost, settings: Settings, *, asks: bool) -> str:
    """Install; returns what the new command says of its version. Raises HostAway, HostRefused."""
    return _run(host, settings, _INSTALL, wheel(), INSTALL_WAIT, asks=asks).get("has", "")


def _run(
    host: KnownHost, settings: Settings, script: str, sent: bytes, wait: float, *, asks: bool
) -> dict[str, str]:
    from .dial import reason

    text = script.encode()
    command = ssh.script(settings, host, len(text), asks=asks)
    try:
        done = subprocess.run(command, input=text + sent, capture_output=True, timeout=wait, check=False)
    except subprocess.TimeoutExpired:
        raise HostRefused(host.name, f"no end within {wait:g} s") from None
    except OSError as error:
        raise HostRefused(host.name, f"can't run {command[0]}: {error.strerror}") from None
    said = done.stderr[-MAX_SAID:].decode(errors="replace").splitlines()
    lines = ["".join(filter(str.isprintable, line)).strip() for line in said]
    if done.returncode:
        raise reason(host.name, done.returncode, [line for line in lines if line], "")
    _, mark, told = done.stdout.decode(errors="replace").rpartition("\nFAIRLEAD-LOOK\n")
    if not mark:
        raise HostRefused(host.name, "what its shell says there makes no sense")
    pairs = (line.partition(" ")[::2] for line in told.splitlines())
    return {name: "".join(filter(str.isprintable, value)).strip() for name, value in pairs}


def wheel() -> bytes:
    """The package that runs here, as a wheel."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    info = f"fairlead-{__version__}.dist-info"
    made = io.BytesIO()
    record: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:

        def put(name: str, data: bytes) -> None:
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append((name, f"sha256={digest}", str(len(data))))

        for directory, inner, names in os.walk(package):
            inner[:] = sorted(each for each in inner if each != "__pycache__")
            for name in sorted(names):
                if not name.endswith((".pyc", ".pyo")):
                    path = os.path.join(directory, name)
                    with open(path, "rb") as source:
                        put("fairlead/" + os.path.relpath(path, package).replace(os.sep, "/"), source.read())
        told = metadata.distribution("fairlead")
        put(f"{info}/METADATA", str(told.read_text("METADATA")).encode())
        put(
            f"{info}/WHEEL",
            b"Wheel-Version: 1.0\nGenerator: fairlead\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        put(f"{info}/entry_points.txt", str(told.read_text("entry_points.txt")).encode())
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([*record, (f"{info}/RECORD", "", "")])
        file.writestr(f"{info}/RECORD", lines.getvalue())
    return made.getvalue()
