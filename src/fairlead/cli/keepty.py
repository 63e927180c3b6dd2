"""`fairlead-keepty`: a drop-in for the `keepty` command."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Sequence

from ..system import settings as configuration
from ..wire import keepty

ANSWER_WAIT = 5.0
"""Seconds until a session that does not answer counts as none."""
STOP_WAIT = 30.0
"""Seconds until a session that was told to end, and does not, is given up."""
TERM = "xterm-256color"
"""What every program of keepty's has for its terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command as `keepty` would; gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:cut])
    command = words[cut + 1 :]
    configuration.chosen_host = ""  # keepty knows no other hosts
    configuration.unread = lambda why: print(f"Warning: {why}", file=sys.stderr)
    try:
        if len(command) == 1 and " " in command[0]:
            command = shlex.split(command[0])  # the SDKs give a whole command as one word
        code: int = options.run(options, command or [os.environ.get("SHELL") or "/bin/sh"])
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:  # an open quote, an id that can't be one, nobody who answers
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="keepty", description="Persistent terminals.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: object, what: str, **more: object) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=what, description=what, **more)  # type: ignore[arg-type]
        command.set_defaults(run=run)
        return command

    start = add("start", _start, "start a session")
    start.add_argument("id")
    start.add_argument("-d", "--detach", action="store_true")
    attach = add("attach", _attach, "attach to a session; ctrl-\\ or ,,,d detaches")
    attach.add_argument("id")
    attach.add_argument("-w", "--watch", action="store_true")
    add("list", _list, "list sessions", aliases=["ls"])
    stop = add("stop", _stop, "stop a session")
    stop.add_argument("id")
    broker = add("broker", _broker, "run a session in the foreground")
    broker.add_argument("--session-id", dest="id", required=True)
    for each in (start, broker):
        each.add_argument("--working-dir", default=None)
        each.add_argument("--cols", type=int, default=80)
        each.add_argument("--rows", type=int, default=24)
    return parser


class _Signalled(BaseException):
    """We were told to end."""


def _directory(wanted: str | None) -> str:
    """Where a program runs as keepty has it: in the home directory, unless it is told of another one."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return next((os.path.abspath(each) for each in (wanted, home) if each and os.path.isdir(each)), "/")


def _begin(
    options: argparse.Namespace, command: list[str], directory: str | None, owner: int | None = None
) -> str | None:
    """Start a session whose program waits for the first writer; gives what went wrong."""
    from ..client.connection import DaemonConnection, RequestError
    from ..client.launch import NoDaemon, reached_session
    from ..system.settings import SettingError, Settings

    settings = Settings()
    try:
        with DaemonConnection(settings) as control:
            control.ask(
                "terminal_start",
                name=options.id,
                argv=command,
                cwd=_directory(directory),
                env={**os.environ, "TERM": TERM},
                cols=keepty.clamped(options.cols),
                rows=keepty.clamped(options.rows),
                deferred=True,
                owner=owner,
            )
    except (RequestError, NoDaemon, SettingError, OSError) as error:
        return str(error)
    deadline = time.monotonic() + ANSWER_WAIT
    while time.monotonic() < deadline:  # the daemon may answer before it listens there
        with contextlib.suppress(OSError):
            if (probe := reached_session(options.id, settings)) is not None:
                probe.close()
                return None
        time.sleep(0.005)
    return f"nothing is listening on {keepty.socket_path(options.id, os.environ)}"


def _start(options: argparse.Namespace, command: list[str]) -> int:
    if fault := _begin(options, command, options.working_dir or "."):
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    print(f"Session '{options.id}' started", file=sys.stderr)
    if options.detach or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    return _attach(argparse.Namespace(id=options.id, watch=False), command)


def _attach(options: argparse.Namespace, command: list[str]) -> int:
    from ..ui.attach import attach

    return attach(options.id, watch=options.watch)


def _list(options: argparse.Namespace, command: list[str]) -> int:
    from ..client.launch import session_dirs
    from ..system.settings import Settings

    found: dict[str, str] = {}
    for directory in reversed(session_dirs(Settings())):
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if name.startswith("keepty-") and name.endswith(".sock"):
                found[name[7:-5]] = directory
    for name, directory in sorted(found.items()):
        connection = _monitor(f"{directory}/keepty-{name}.sock")
        print(f"  {name}  ({'running' if connection else 'stale'})")
        if connection:
            connection.close()
    if not found:
        print("No running sessions", file=sys.stderr)
    return 0


def _monitor(path: str) -> socket.socket | None:
    """A connection to a session whose program has not ended, if there is one at this path."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_WAIT)
    wire = keepty.ClientConnection()
    try:
        connection.connect(path)
        connection.sendall(wire.send(keepty.Hello(keepty.Role.MONITOR, 80, 24)))
        connection.sendall(wire.send(keepty.Ping()))
        while data := connection.recv(65_536):
            for message in wire.receive(data):
                if isinstance(message, keepty.Pong):
                    return connection
                if not isinstance(message, keepty.HelloAck | keepty.Output | keepty.ResizeAck):
                    break  # it has ended, or will not have us
    except OSError:
        pass
    connection.close()
    return None


def _stop(options: argparse.Namespace, command: list[str]) -> int:
    if not _shut_down(options.id):
        print(f"Error: session '{options.id}' is not running", file=sys.stderr)
        return 1
    print(f"Session '{options.id}' stopped", file=sys.stderr)
    return 0


def _shut_down(id: str) -> bool:
    """End a session and wait until it has; tells whether there was one."""
    from ..client.launch import session_dirs
    from ..system.settings import Settings

    paths = [keepty.socket_path(id, os.environ, each) for each in session_dirs(Settings())]
    connection = next(filter(None, map(_monitor, paths)), None)
    if connection is None:
        return False
    with connection:
        connection.settimeout(STOP_WAIT)
        connection.sendall(keepty.Shutdown().encode())
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65_536):
                pass
    return True


def _broker(options: argparse.Namespace, command: list[str]) -> int:
    """A session that ends when we do. If we are killed, the daemon sees that and ends it."""

    def told_to_end(number: int, frame: object) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        raise _Signalled

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told_to_end)
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # the real one outlives its terminal, too
    try:
        if fault := _begin(options, command, options.working_dir, owner=os.getpid()):
            print(f"Error: {fault}", file=sys.stderr)
            return 1
        return _until_exit(options.id)
    except _Signalled:
        _shut_down(options.id)
        return 128 + signal.SIGTERM


def _until_exit(id: str) -> int:
    """Wait for a session's program, through the death of daemons; gives its exit code."""
    from ..client.connection import DaemonConnection, RequestError
    from ..client.launch import StartFailed
    from ..client.reconnect import RETRY_PAUSE

    while True:
        try:
            with DaemonConnection() as control:
                answer = control.ask("terminal_wait", name=id, exit=True)
        except StartFailed:
            raise
        except ConnectionError:  # it may die or hang; we go on, as the session ends with us
            time.sleep(RETRY_PAUSE)
            continue
        except RequestError as error:
            print(f"Error: {error}", file=sys.stderr)
            return 1
        if answer["reason"] == "exit":
            code: int = answer["exit_code"]
            return code
