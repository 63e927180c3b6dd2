"""Fuzz each decoder for a while: `make fuzz`, or `python fuzz/run.py [TARGET …]`.

Each target runs in a process of its own (`worker.py`), two at a time, under atheris where there is one and
with plain mutations where not. `FUZZ_SECONDS` says how long. A failure is shown with the input that leads to
it, a Python literal for `tests/test_fuzz_findings.py`; `--replay FILE` runs an input again from a file.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_SECONDS = 60
AT_A_TIME = 2
GRACE_SECONDS = 120
"""How much longer than its time a worker may take before it is ended: to start, and for the last input."""
SHOWN_LINES = 60
"""How much of what a worker said is shown when it fails."""


class Result(NamedTuple):
    """What became of a target."""

    target: str
    executions: str
    coverage: str
    said: str
    found: bytes | None
    """The input that broke it."""
    failed: bool


def run(target: str, seconds: int, plain: bool, seed: int) -> Result:
    """Fuzz one target in a worker."""
    from fuzz.seeds import seeds, words

    with tempfile.TemporaryDirectory(prefix=f"fuzz-{target}-") as directory:
        work = Path(directory)
        (work / "corpus").mkdir()
        for number, data in enumerate(seeds(target)):
            (work / "corpus" / f"{number:04}").write_bytes(data)
        (work / "words").write_text("".join(f'"{escaped(word)}"\n' for word in words(target)))
        command = [sys.executable, "-m", "fuzz.worker", target, str(seconds), directory, str(seed)]
        try:
            done = subprocess.run(
                [*command, *(["--plain"] if plain else [])],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds + GRACE_SECONDS,
                check=False,
            )
            said, failed = done.stdout.decode(errors="replace"), done.returncode != 0
        except subprocess.TimeoutExpired as late:
            said, failed = (late.stdout or b"").decode(errors="replace") + "\nit did not end\n", True
        broke = [path for kind in ("crash", "timeout", "oom") for path in work.glob(f"{kind}-*")]
        return Result(
            target,
            last(r"number_of_executed_units: +(\d+)|^#(\d+)", said),
            last(r"cov: (\d+)", said),
            said,
            broke[0].read_bytes() if broke else None,
            failed or bool(broke),
        )


def escaped(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def last(pattern: str, text: str) -> str:
    """What the last match of a pattern found."""
    found = [
        number for match in re.finditer(pattern, text, re.MULTILINE) for number in match.groups() if number
    ]
    return found[-1] if found else "?"


def report(result: Result) -> None:
    """One line, and what went wrong."""
    verdict = "FAILED" if result.failed else "ok"
    print(
        f"{result.target:14}{result.executions:>10} executions{result.coverage:>8} edges  {verdict}",
        flush=True,
    )
    if result.failed:
        said = [line for line in result.said.splitlines() if not line.startswith("#")]  # without the progress
        print("".join(f"    {line}\n" for line in said[-SHOWN_LINES:]))
        print(f"    input: {result.found!r}\n", flush=True)


def main() -> int:
    sys.path.insert(0, str(ROOT))
    from fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description="Fuzz the decoders.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}; all by default")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run the input in a file instead")
    parser.add_argument("--plain", action="store_true", help="plain mutations, even where there is atheris")
    parser.add_argument("--seed", type=int, default=0, help="chance begins here (default: differs each time)")
    options = parser.parse_args()
    targets = options.targets or list(TARGETS)
    if unknown := set(targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}; expected {', '.join(TARGETS)}")
    if options.replay is not None:
        for target in targets:
            TARGETS[target](options.replay.read_bytes())
        return 0
    seconds = int(os.environ.get("FUZZ_SECONDS") or DEFAULT_SECONDS)
    plain = options.plain or importlib.util.find_spec("atheris") is None
    if plain:
        print("plain mutations, without atheris")
    failed = False
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for result in pool.map(lambda target: run(target, seconds, plain, options.seed), targets):
            report(result)
            failed |= result.failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
