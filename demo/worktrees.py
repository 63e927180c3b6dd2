"""Two agents on one task, each in a worktree of its own: compared, merged, and a turn undone: `make demo`.

Everything is real but the model, which is the offline guide.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WAIT = 60
ROSES = """\
write gate.py:
```
def is_open(hour):
    return 9 <= hour < 17
```
"""
HEDGE = """\
write gate.py:
```
HOURS = range(9, 17)


def is_open(hour):
    return hour in HOURS
```
"""
TASKS = {
    "roses": ROSES,
    "hedge": HEDGE,
}


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    project = home / "garden"
    project.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "FAIRLEAD_VERIFIER_DIR": str(home / "v"),
        "FAIRLEAD_PASSEPARTOUT_PORT": "0",
    }

    def run(*words: str) -> None:
        subprocess.run(words, cwd=project, env=environment, check=True, timeout=WAIT)

    def fairlead(*words: str) -> None:
        shown = " ".join(word if "\n" not in word else "'write gate.py: …'" for word in words)
        print(f"\n{paint('1', '$ fairlead ' + shown)}", flush=True)
        run(sys.executable, "-m", "fairlead", *words)

    print(f"\n{paint('1', 'worktrees')} — two agents on one task, compared, merged, undone")
    try:
        run("git", "init", "-q", "-b", "main")
        run("git", "config", "user.name", "Me")
        run("git", "config", "user.email", "me@example.org")
        (project / "README.md").write_text("# The garden\n")
        run("git", "add", "-A")
        run("git", "commit", "-q", "-m", "The garden")
        for name, task in TASKS.items():
            fairlead("agent", "-n", name, "--worktree", "--yes", "-p", task)
        fairlead("worktree", "ls")
        fairlead("diff", "roses", "hedge", "--stat")
        fairlead("worktree", "merge", "hedge", "-m", "The gate has hours")
        fairlead("worktree", "rm", "hedge", "-y")
        fairlead("undo", "roses", "-y")
        fairlead("worktree", "rm", "roses", "-y")
        run("git", "--no-pager", "log", "--oneline", "--stat", "-1")
    finally:
        subprocess.run(
            [sys.executable, "-m", "fairlead", "daemon", "stop"],
            env=environment,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WAIT,
        )
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
