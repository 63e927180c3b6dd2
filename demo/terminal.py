"""A program that nothing short of killing it ends: `make demo`.

Everything runs in a runtime directory and a home of its own, beside a daemon that you may have, and is gone
in the end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WAIT = 30.0
"""Seconds until a command that hangs ends the demo."""
PROGRAM = "echo counting; n=0; while read word; do n=$((n+1)); echo $n: $word; done"

ASKS = "printf 'Overwrite notes.txt? [y/N] '; read answer; echo \"you said $answer\"; sleep 1000"


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Shell:
    """Runs `fairlead` commands as a person would, and shows them."""

    def __init__(self, directory: str) -> None:
        self._environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": directory,
            "HOME": directory,
            "FAIRLEAD_VERIFIER_DIR": f"{directory}/v",
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
            "FAIRLEAD_DAEMON_ANSWER_SECONDS": "2",
        }

    def run(self, command: str, *, quiet: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if not quiet:
            print(f"{paint('1', '$ ' + command)}\n{done.stdout}{done.stderr}", end="")
        if done.returncode:
            raise SystemExit(f"{command} exited with {done.returncode}: {done.stderr}")
        return done.stdout

    def pids(self) -> tuple[int, int]:
        """The daemon's process and the program's."""
        daemon = json.loads(self.run("fairlead daemon status --json", quiet=True))["pid"]
        (session,) = json.loads(self.run("fairlead ls --json", quiet=True))
        return daemon, session["pid"]


def main() -> int:
    directory = tempfile.mkdtemp(prefix="fl-")
    shell = Shell(directory)
    print(f"\n{paint('1', 'terminal sessions')} — a program that outlives the daemon\n")
    try:
        cast = f"{directory}/work.cast"
        shell.run(f"fairlead start work -d --record={cast} -- sh -c {shlex.quote(PROGRAM)}")
        shell.run("fairlead send work apples -k Enter")
        shell.run("fairlead wait work --text '1: apples' --timeout 10")
        daemon, program = shell.pids()
        print(f"{paint('1', f'$ kill -9 {daemon}')}   {paint('31', 'the daemon is dead')}")
        os.kill(daemon, signal.SIGKILL)
        shell.run("fairlead send work pears -k Enter")
        shell.run("fairlead wait work --text '2: pears' --timeout 10")
        shell.run("fairlead screen work")
        shell.run("fairlead ls")
        later, same = shell.pids()
        if (later == daemon, same) != (False, program):
            raise SystemExit("the program should not have noticed")
        print(
            f"{paint('32', f'Another daemon ({later}), the same program ({program}), and not a byte lost.')}"
        )
        print("\nA daemon that hangs is seen, and replaced; the program goes on:\n")
        print(f"{paint('1', f'$ kill -STOP {later}')}   {paint('31', 'the daemon hangs')}")
        os.kill(later, signal.SIGSTOP)
        shell.run("fairlead daemon restart")
        print("\nNo pattern, however bad, holds it up:\n")
        shell.run("fairlead send work aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! -k Enter")
        shell.run("fairlead wait work --text '3: ' --timeout 10")
        shell.run("fairlead search work -e '(a+)+!'")
        shell.run("fairlead stop work")
        print("\nThe recording has it all, too:\n")
        shell.run(f"fairlead play {cast}")
        _who_waits(shell)
    finally:
        shell.run("fairlead daemon stop", quiet=True)
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _who_waits(shell: Shell) -> None:
    """Three sessions, and which of them needs a person."""
    print(f"\n{paint('1', 'who waits')} — three programs, and one has a question\n")
    shell.run("fairlead start build -d -- sh -c 'while :; do :; done'")
    shell.run("fairlead start server -d -- sleep 1000")
    shell.run(f"fairlead start notes -d -- sh -c {shlex.quote(ASKS)}")
    _until(shell, "notes", "waits")
    _until(shell, "build", "working")
    shell.run("fairlead ls")
    shell.run("fairlead state notes --explain")
    shell.run("fairlead next --print")
    shell.run("fairlead send notes y -k Enter")
    _until(shell, "notes", "working")
    shell.run("fairlead ls")
    shell.run("fairlead stop build server notes", quiet=True)


def _until(shell: Shell, name: str, state: str) -> None:
    """Wait until a session does this."""
    deadline = time.monotonic() + WAIT
    while json.loads(shell.run(f"fairlead state {name} --json", quiet=True))["state"] != state:
        if time.monotonic() > deadline:
            raise SystemExit(f"{name} should be {state}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
