"""`fairlead daemon`: run, stop or restart it, or show its status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .. import __version__
from .arguments import Argument, Command, Failure, Option, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.launch import HungDaemon

TAKE_OVER_WAIT = 10.0
"""Seconds that a daemon which is asked to make room has for it."""
LOOK_EVERY = 0.02

COMMAND = Command(
    "daemon",
    "The daemon serves all sessions. There is one per user; any command starts it, and it is restarted if\n"
    "it dies. Sessions outlive it: stopping, restarting or killing the daemon ends no program. After a\n"
    "stop, connected clients report it and exit; the next command starts the daemon again.",
    takes=(
        Argument(
            "what",
            "run runs it in the foreground; unit prints a service file",
            choices=("status", "stop", "restart", "run", "unit"),
        ),
        Argument("manager", "for unit: the service manager", optional=True, choices=("systemd", "launchd")),
    ),
    options=(
        Option(
            "--news", value="FD", kind=int, help="for run: report readiness or failure on this descriptor"
        ),
        Option("--supervised", help="for run: systemd or launchd restarts it, not the nursery"),
        Option("--asked-at", value="SECONDS", kind=float, help="for run: exit if it was stopped since then"),
        Option("-q", "--quiet", help="for status: print only the process id"),
        Option("--json", help="for status: print JSON"),
    ),
    examples=(
        ("fairlead daemon status", "is it running, and since when?"),
        (
            "fairlead daemon restart",
            "after an upgrade, or to pick up this shell's environment; sessions keep running",
        ),
        ("fairlead daemon run", "in the foreground, with its log on the terminal"),
        (
            "fairlead daemon unit systemd > ~/.config/systemd/user/fairlead.service",
            "then: systemctl --user enable --now fairlead",
        ),
    ),
    codes={1: "failed; for status: not running, or hung"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.manager is not None) != (options.what == "unit"):
        raise UsageError("`daemon unit` needs systemd or launchd; the other subcommands take neither")
    match options.what:
        case "run":
            return _run(supervised=options.supervised, asked_at=options.asked_at, news=options.news)
        case "unit":
            from .unit import unit

            sys.stdout.write(unit(options.manager))
            return 0
        case "status":
            return _status(as_json=options.json, quiet=options.quiet)
        case "stop":
            return _stop()
        case _:
            return _restart()


def _ask(op: str, **params: object) -> dict[str, Any] | None:
    """The daemon's answer, or None if there is no daemon. Raises HungDaemon."""
    from ..client.connection import DaemonConnection
    from ..client.launch import HungDaemon, NoDaemon

    try:
        with DaemonConnection(start=False) as control:
            return control.ask(op, **params)
    except HungDaemon:
        raise
    except NoDaemon:
        return None


def _status(*, as_json: bool, quiet: bool) -> int:
    from ..client.launch import HungDaemon

    try:
        answer = _ask("daemon_status")
    except HungDaemon as error:
        if not as_json:
            print(error, file=sys.stderr)
            if quiet:
                print(error.pid)
            return 1
        import json

        print(json.dumps({"running": True, "hung": True, "pid": error.pid}))
        return 1
    if as_json:
        import json

        print(json.dumps({"running": answer is not None} | (answer or {})))
    elif answer is None:
        print("no daemon is running; any command starts one", file=sys.stderr)
    elif quiet:
        print(answer["pid"])
    else:
        import time

        from ..formats.shown import counted
        from .columns import paragraphs

        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(answer["started_at"]))
        by = "by its supervisor" if answer["supervised"] else "automatically"
        count = counted(answer["sessions"], "session")
        print(
            paragraphs(
                f"fairlead {answer['version']}, process {answer['pid']}, {count}\n"
                f"since {since}; restarted {by} if it dies\n"
                f"in {answer['runtime_dir']}, log in {answer['log_path']}"
            )
        )
    return 0 if answer else 1


def _stop() -> int:
    from ..client.launch import HungDaemon

    try:
        answer = _ask("daemon_stop")
    except HungDaemon as error:
        _end(error, for_good=True)
        return 0
    if answer is None:
        print("no daemon is running", file=sys.stderr)
        return 0
    _until(_is_over, "the daemon did not stop")
    _print_interrupted(answer)
    return 0


def _print_interrupted(answer: dict[str, Any]) -> None:
    """Say what the end of the daemon has cost."""
    if count := answer.get("interrupted_turns"):  # a daemon of an older version does not say it
        what = "running turn was" if count == 1 else "running turns were"
        print(f"{count} {what} interrupted; `fairlead sessions` lists the sessions", file=sys.stderr)
    if count := answer.get("dropped_prompts"):
        what = "queued prompt was" if count == 1 else "queued prompts were"
        print(f"{count} {what} dropped; `fairlead logs NAME` shows them", file=sys.stderr)


def _end(found: HungDaemon, *, for_good: bool) -> None:
    """End a daemon that can't be asked to."""
    from ..client import hung
    from ..system.settings import Settings

    what = f"the daemon, process {found.pid}, {found.state}; killing it (its log says where it was)"
    print(what, file=sys.stderr)
    try:
        hung.end(Settings(), found.pid, for_good=for_good)
    except (TimeoutError, OSError) as error:
        raise Failure(str(error)) from None


def _restart() -> int:
    """It is over when the next one serves; its process is the same, its environment is ours, whether there
    was one before or not. Settings that the next one could not start with leave the one that runs."""
    import time

    from ..client.launch import HungDaemon, StartFailed, want_daemon
    from ..system.settings import Settings
    from .config import check

    check(Settings())
    try:
        answer = _ask("daemon_restart", python=sys.executable, env=_environment())
        before = answer["started_at"] if answer else 0.0
    except HungDaemon as error:
        answer, before = None, time.time()
        _end(error, for_good=True)  # else the nursery might start the next one, as that was started
    want_daemon(Settings())
    version = ""

    def came_back() -> bool:
        nonlocal version
        from ..client.connection import DaemonConnection

        try:
            with DaemonConnection() as control:
                status = control.ask("daemon_status")
                version = status["version"]
                return bool(status["started_at"] > before)
        except StartFailed:
            raise
        except ConnectionError:
            return False

    _until(came_back, "the daemon did not restart")
    _print_interrupted(answer or {})
    if version != __version__:
        raise Failure(
            f"the daemon is still version {version}, this command is {__version__}: another installation "
            "starts it; run `fairlead daemon stop`, then any command of this installation"
        )
    return 0


def _environment() -> dict[str, str]:
    """Ours, but for what can't be written as text."""
    import os

    return {name: value for name, value in os.environ.items() if _is_text(name) and _is_text(value)}


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _run(*, supervised: bool, asked_at: float | None, news: int | None) -> int:
    from ..system.garbage import lasting
    from .news import News

    told = News(news)
    try:
        with lasting():
            from ..daemon.process import AlreadyRunning, Outdated, run
            from ..system.settings import Settings

        told.began()

        def is_served() -> bool:
            try:
                run(Settings(host=""), supervised=supervised, asked_at=asked_at, ready=told.ready)
            except AlreadyRunning as error:
                if not supervised:
                    told.elsewhere()
                    if asked_at is not None:  # somebody wanted a daemon, and there is one
                        return True
                    raise Failure(str(error)) from None
                # A command was quicker than our supervisor. Whoever serves makes room and leaves all as is.
                try:
                    _ask("daemon_stop", handover=True)
                except ConnectionError:
                    pass  # it has just gone
                return False
            except Outdated:
                told.stopped()
            return True

        _until(is_served, "another daemon is running and did not hand over")
    except BaseException as error:
        told.failed(error)
        raise
    return 0


def _is_over() -> bool:
    """Whether no daemon holds the lock."""
    import fcntl

    from ..system.settings import Settings

    with open(Settings().lock_path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    import time

    deadline = time.monotonic() + TAKE_OVER_WAIT
    while not holds():
        if time.monotonic() > deadline:
            raise Failure(otherwise)
        time.sleep(LOOK_EVERY)
