"""Verified turns: an agent whose work is sent back until the tests pass: `make demo`.

Everything is real but the model, which is the offline guide: it makes a mistake on purpose, pytest finds it,
the failure goes back to it, and it mends the mistake.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WAIT = 60

TEST = """\
from calc import add


def test_add():
    assert add(2, 3) == 5
"""
PROMPT = """\
write calc.py:
```
def add(a, b):
    return a - b
```
when sent back:
edit calc.py: replace `a - b` with `a + b`
"""


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    project = home / "project"
    project.mkdir()
    (project / "test_calc.py").write_text(TEST)
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "FAIRLEAD_VERIFIER_DIR": str(home / "v"),
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}",  # where our pytest is
    }

    def fairlead(*words: str) -> int:
        shown = " ".join(word if "\n" not in word else "'write calc.py: …'" for word in words)
        print(f"\n{paint('1', '$ fairlead ' + shown)}", flush=True)
        command = [sys.executable, "-m", "fairlead", *words]
        return subprocess.run(command, cwd=project, env=environment, check=False, timeout=WAIT).returncode

    print(f"\n{paint('1', 'verified turns')} — a mistake, the failing test, the correction, the green report")
    try:
        code = fairlead("run", "--yes", "--verify", "pytest -q", PROMPT)
        print(paint("32", f"exit code {code}; calc.py now says: {(project / 'calc.py').read_text()!r}"))
        fairlead("reports")
        fairlead("reports", ".", "--plot")
    finally:
        command = [sys.executable, "-m", "fairlead", "daemon", "stop"]
        subprocess.run(command, env=environment, check=False, capture_output=True, timeout=WAIT)
        shutil.rmtree(home, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
