"""`fairlead state`: what a session does, since when, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .arguments import JSON, Argument, Command, Option, UsageError, parsed, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

STATES = ("working", "waits", "idle")
RECORD_SECONDS = 2.0

COMMAND = Command(
    "state",
    "Print what a session does and the evidence for it: `working`, `waits` (for a person), `idle`, `ended`,\n"
    "or `unknown` if nothing says it. Agents that speak a protocol say it themselves. For a program in a\n"
    "terminal, hooks, what it tells its terminal, its screen and its processes are weighed, in this order.",
    takes=(Argument("name", "the session", completes="session"),),
    options=(
        Option("--explain", help="print all the evidence, and why some of it does not count"),
        Option(
            "--record",
            value="FILE",
            completes="file",
            help="record the screen to this new file, as evidence for a rule; needs --as",
        ),
        Option(
            "--as",
            value="STATE",
            completes=" ".join(STATES),
            help="what the session really does while it is recorded: working, waits or idle",
        ),
        Option(
            "--seconds", value="N", kind=seconds, help=f"how long to record; {RECORD_SECONDS:g} by default"
        ),
        JSON,
    ),
    examples=(
        ("fairlead state work", "what it does, since when, and the words that this is based on"),
        ("fairlead state work --explain", "all the evidence"),
        ("fairlead state work --json | jq -r .state", "one word, for a script"),
        ("fairlead state work --record dialog.cast --as waits", "a recording for a rule of your own"),
    ),
    codes={1: "there is no such session, or it can't be recorded"},
    there_with=("record",),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.record is None) is not (getattr(options, "as") is None):
        raise UsageError("--record FILE and --as STATE are given together")
    if getattr(options, "as") not in (None, *STATES):
        raise UsageError(f"--as takes {', '.join(STATES)}, not {getattr(options, 'as')!r}")
    from ..client.connection import DaemonConnection

    with DaemonConnection() as control:
        if options.record is not None:
            length = RECORD_SECONDS if options.seconds is None else options.seconds
            return _record(control, options.name, options.record, getattr(options, "as"), length)
        answer = control.ask("session_state", name=options.name)
    session, weighed = answer["session"], answer["weighed"]
    if options.json:
        import json

        print(json.dumps({**session["activity"], "name": session["name"], "weighed": weighed}, indent=2))
        return 0
    _print(session)
    if options.explain:
        _explain(weighed)
    return 0


def _record(control: DaemonConnection, name: str, path: str, state: str, length: float) -> int:
    """Record a session for a while, and mark what it did then."""
    import os

    from ..formats.asciicast import MARKER, event_line
    from .kinds import with_screen

    path = os.path.abspath(path)
    with _signals_held() as wait:
        with_screen(control, "terminal_record", name, path=path)
        try:
            ended_by = wait(length)
        finally:
            control.ask("terminal_record", name=name, stop=True)
    with open(path, "r+b") as file:
        header, screen, *events = file.read().splitlines(keepends=True)
        file.seek(0)
        begun, ended = event_line(0, MARKER, f"state {state} {name}"), event_line(0, MARKER, "state -")
        file.writelines([header, screen, begun, *events, ended])
    print(path)
    return 128 + ended_by if ended_by else 0


@contextmanager
def _signals_held() -> Iterator[Callable[[float], int]]:
    """Signals that would end us wait meanwhile: what goes on in the daemon has to be stopped first. What is
    returned waits for so many seconds, or for one of them, and returns which that was, or 0."""
    import os
    import select
    import signal

    heard, told = os.pipe()

    def hear(number: int, frame: object) -> None:
        os.write(told, bytes([number]))

    before = {each: signal.signal(each, hear) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def wait(length: float) -> int:
        return os.read(heard, 1)[0] if select.select([heard], [], [], length)[0] else 0

    try:
        yield wait
    finally:
        for each, how in before.items():
            signal.signal(each, how)
        os.close(heard)
        os.close(told)


def _print(session: dict[str, Any]) -> None:
    from ..formats.columns import printable
    from ..ui.needs import shown_name

    activity = session["activity"]
    print(f"{shown_name(session)}: {shown_state(activity)}")
    if activity["question"]:
        print(f"  waits for: {printable(activity['question'])}")
    if (evidence := activity["evidence"]) is not None:
        print(f"  because: {_basis(evidence)}")
    elif activity["state"] == "unknown":
        print("  because: nothing says what it does")


def shown_state(activity: dict[str, Any]) -> str:
    """What a session does, and for how long, in a few words."""
    import time

    from ..ui.needs import only_reads, span

    state: str = "reads its terminal" if only_reads(activity) else activity["state"]
    if state == "idle" and not activity["seen"]:
        state = "idle, not seen yet,"
    return f"{state} for {span(max(0.0, time.time() - activity['since']))}" if activity["since"] else state


def _basis(evidence: dict[str, Any]) -> str:
    from ..formats.columns import printable

    words = f"{evidence['source']}: {printable(evidence.get('words') or evidence['says'])}"
    if rule := evidence.get("rule"):
        words += f" (rule {rule}, version {evidence.get('version') or 'unknown'})"
    return words


def _explain(weighed: list[dict[str, Any]]) -> None:
    import time

    from ..ui.needs import span
    from .columns import table

    if not weighed:
        return
    rows = [("SOURCE", "SAYS", "AGE", "RESULT", "BASED ON")]
    now = time.time()
    rows += [
        (each["source"], each["says"], span(max(0.0, now - each["at"])), each["fate"], _basis(each))
        for each in weighed
    ]
    print()
    table(rows)
