"""Puts xterm.js and its addons into the web console's pages: unchanged files of their npm packages.

`python -m tools.vendor_xterm` fetches the packages with npm, checks that they are those that are pinned here,
and writes the files, their licences and `CHECKSUMS`. With `--check` it only compares the files with
`CHECKSUMS`, offline.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

PLACE = Path(__file__).parent.parent / "src/fairlead/web/pages/vendor"
SUMS = PLACE / "CHECKSUMS"


class Package(NamedTuple):
    """A package of the registry, and which of its files are wanted."""

    name: str
    version: str
    integrity: str
    """What the registry says of the tarball, and what it must be."""
    files: tuple[str, ...]

    @property
    def directory(self) -> str:
        return self.name.rpartition("/")[2]


PACKAGES = (
    Package(
        "@xterm/xterm",
        "6.0.0",
        "sha512-TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg==",
        ("lib/xterm.mjs", "css/xterm.css"),
    ),
    Package(
        "@xterm/addon-fit",
        "0.11.0",
        "sha512-jYcgT6xtVYhnhgxh3QgYDnnNMYTcf8ElbxxFzX0IZo+vabQqSPAjC3c1wJrKB5E19VwQei89QCiZZP86DCPF7g==",
        ("lib/addon-fit.mjs",),
    ),
    Package(
        "@xterm/addon-search",
        "0.16.0",
        "sha512-9OeuBFu0/uZJPu+9AHKY6g/w0Czyb/Ut0A5t79I4ULoU4IfU5BEpPFVGQxP4zTTMdfZEYkVIRYbHBX1xWwjeSA==",
        ("lib/addon-search.mjs",),
    ),
    Package(
        "@xterm/addon-unicode-graphemes",
        "0.4.0",
        "sha512-9+/CqwbKcnlkJU4d3wIgO+wjsL8f6vyz+UwUWLu6nADQz8Gr8ONqGCJfdDjIdI+yYZLABQqQy47FzEM6AWELjw==",
        ("lib/addon-unicode-graphemes.mjs",),
    ),
    Package(
        "@xterm/addon-webgl",
        "0.19.0",
        "sha512-b3fMOsyLVuCeNJWxolACEUED0vm7qC0cy4wRvf3oURSzDTYVQiGPhTnhWZwIHdvC48Y+oLhvYXnY4XDXPoJo6A==",
        ("lib/addon-webgl.mjs",),
    ),
)
LICENCE = "LICENSE"


def main(words: list[str]) -> int:
    """Make the files again, or only check those that are there."""
    if words == ["--check"]:
        wrong = differences()
        for each in wrong:
            print(each, file=sys.stderr)
        return 1 if wrong else 0
    if words:
        print("usage: python -m tools.vendor_xterm [--check]", file=sys.stderr)
        return 2
    for package in PACKAGES:
        _unpack(package, PLACE / package.directory)
    SUMS.write_text(_sums())
    return 0


def differences() -> list[str]:
    """What of the files is not as `CHECKSUMS` has it, in a line each."""
    there = {str(path.relative_to(PLACE)) for path in PLACE.rglob("*") if path.is_file()} - {SUMS.name}
    found = []
    for path in sorted(there | set(_wanted())):
        if path not in there:
            found.append(f"{path} is missing")
        elif path not in _wanted():
            found.append(f"{path} is of no package")
    return found or ([] if SUMS.read_text() == _sums() else ["CHECKSUMS differs from the files"])


def _wanted() -> list[str]:
    """The files that there must be, below PLACE."""
    return [
        f"{package.directory}/{Path(file).name}" for package in PACKAGES for file in (LICENCE, *package.files)
    ]


def _sums() -> str:
    """The form of sha256sum, so that `sha256sum -c` reads it, below what each directory is."""
    lines = [f"# {each.directory}: {each.name}@{each.version} {each.integrity}" for each in PACKAGES]
    lines += [f"{hashlib.sha256((PLACE / path).read_bytes()).hexdigest()}  {path}" for path in _wanted()]
    return "\n".join(lines) + "\n"


def _unpack(package: Package, directory: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        pin = f"{package.name}@{package.version}"
        subprocess.run(["npm", "pack", "--silent", pin], cwd=place, check=True, capture_output=True)
        (tarball,) = Path(place).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != package.integrity:
            raise SystemExit(f"{pin} is not the package that is pinned: sha512-{digest}")
        directory.mkdir(parents=True, exist_ok=True)
        with tarfile.open(tarball) as packed:
            for name in (LICENCE, *package.files):
                member = packed.extractfile(f"package/{name}")
                if member is None:
                    raise SystemExit(f"{pin} has no {name}")
                (directory / Path(name).name).write_bytes(member.read())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
