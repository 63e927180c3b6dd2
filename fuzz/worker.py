"""Fuzz one target: what `run.py` starts for each of them.

    python -m fuzz.worker TARGET SECONDS DIRECTORY SEED [--plain]

The directory has the corpus and the words to begin with, and an input that breaks the target is left there as
a file `crash-…`, `timeout-…` or `oom-…`.
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from fuzz.mutation import MAX_LENGTH, mutated

INPUT_SECONDS = 10
"""How long one input may take."""
MEMORY = 2048
"""How many megabytes a worker may take."""


def fuzz(target: str, seconds: int, work: Path, seed: int) -> None:
    """With atheris, which leads chance by what code was reached. It does not return."""
    import atheris

    with atheris.instrument_imports(include=["fairlead"]):
        from fuzz.targets import TARGETS
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY}",
        f"-max_len={MAX_LENGTH}",
        f"-dict={work / 'words'}",
        f"-artifact_prefix={work}/",
        f"-seed={seed}",  # 0 is any
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(work / "corpus")], TARGETS[target])
    atheris.Fuzz()


def mutate(target: str, seconds: int, work: Path, seed: int) -> int:
    """With chance alone."""
    from fuzz.seeds import words
    from fuzz.targets import TARGETS

    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY << 20, MEMORY << 20))
    chance = random.Random(seed or None)
    corpus, dictionary = [path.read_bytes() for path in sorted((work / "corpus").iterdir())], words(target)
    end = time.monotonic() + seconds
    executions = 0
    try:
        while time.monotonic() < end:
            data = mutated(chance, corpus, dictionary)
            signal.alarm(INPUT_SECONDS)
            TARGETS[target](data)
            signal.alarm(0)
            executions += 1
    except Exception:
        signal.alarm(0)
        traceback.print_exc()
        (work / "crash-plain").write_bytes(data)
        return 1
    finally:
        print(f"number_of_executed_units: {executions}", flush=True)
    return 0


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"one input took more than {INPUT_SECONDS} seconds")


def main() -> int:
    target, seconds, work, seed = sys.argv[1:5]
    if sys.argv[5:] == ["--plain"]:
        return mutate(target, int(seconds), Path(work), int(seed))
    fuzz(target, int(seconds), Path(work), int(seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
