"""`fairlead daemon`: run, stop or restart it, or ask how it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead daemon",
        description="The daemon serves all sessions. Any command starts it; sessions outlive it.",
    )
    parser.add_argument(
        "what", choices=("run", "status", "stop", "restart"), help="run stays in the foreground"
    )
    parser.add_argument("--json", action="store_true", help="status as JSON")
    options = parser.parse_args(arguments)
    if options.what == "run":
        return _run()

    from ..client.control import Control
    from ..client.launch import NoDaemon

    try:
        with Control(start=False) as control:
            answer = control.ask(f"daemon_{options.what}")
    except NoDaemon as error:
        print(error, file=sys.stderr)
        return 0 if options.what == "stop" else 1
    if options.what == "restart":
        return _wait_for_a_later_one(answer["started_at"])
    if options.what == "stop":
        return 0
    if options.json:
        import json

        print(json.dumps(answer))
    else:
        print(f"fairlead {answer['version']}, process {answer['pid']}, {answer['sessions']} sessions")
        print(f"in {answer['runtime_dir']}")
    return 0


def _wait_for_a_later_one(started_at: float) -> int:
    """Until the restarted daemon serves; its process is the same."""
    import time

    from ..client.control import Control
    from ..client.launch import START_WAIT

    deadline = time.monotonic() + START_WAIT
    while time.monotonic() < deadline:
        try:
            with Control() as control:
                if control.ask("daemon_status")["started_at"] > started_at:
                    return 0
        except ConnectionError:
            pass
        time.sleep(0.02)
    print("the daemon did not come back", file=sys.stderr)
    return 1


def _run() -> int:
    from ..daemon import AlreadyRunning, run
    from ..settings import Settings

    try:
        run(Settings())
    except AlreadyRunning as error:
        print(error, file=sys.stderr)
        return 1
    return 0
