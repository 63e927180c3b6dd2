"""`fairlead-keepty`: a drop-in for the `keepty` command."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import socket
import sys
import time
from collections.abc import Sequence

from ..wire import keepty

ANSWER_WAIT = 5.0
"""Seconds until a session that does not answer counts as none."""
STOP_WAIT = 30.0
"""Seconds until a session that was told to end, and does not, is given up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command as `keepty` would; gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:cut])
    command = words[cut + 1 :]
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


def _begin(options: argparse.Namespace, command: list[str]) -> str | None:
    """Start a session whose program waits for the first writer; gives what went wrong."""
    from ..client.control import Control, RequestError
    from ..client.launch import NoDaemon
    from ..settings import SettingError

    try:
        with Control() as control:
            control.ask(
                "terminal_start",
                name=options.id,
                argv=command,
                cwd=os.path.abspath(options.working_dir or "."),
                env=dict(os.environ),
                cols=keepty.clamped(options.cols),
                rows=keepty.clamped(options.rows),
                deferred=True,
            )
    except (RequestError, NoDaemon, SettingError, OSError) as error:
        return str(error)
    path = keepty.socket_path(options.id, os.environ)
    deadline = time.monotonic() + ANSWER_WAIT
    while time.monotonic() < deadline:  # the daemon may answer before it listens there
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            return None
        time.sleep(0.005)
    return f"nobody listens at {path}"


def _start(options: argparse.Namespace, command: list[str]) -> int:
    if fault := _begin(options, command):
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    print(f"Session '{options.id}' started", file=sys.stderr)
    if options.detach or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    return _attach(argparse.Namespace(id=options.id, watch=False), command)


def _attach(options: argparse.Namespace, command: list[str]) -> int:
    from ..client.attach import attach

    return attach(options.id, watch=options.watch)


def _list(options: argparse.Namespace, command: list[str]) -> int:
    directory = keepty.socket_dir(os.environ)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found = [name[7:-5] for name in names if name.startswith("keepty-") and name.endswith(".sock")]
    for name in found:
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
    connection = _monitor(keepty.socket_path(options.id, os.environ))
    if connection is None:
        print(f"Error: session '{options.id}' is not running", file=sys.stderr)
        return 1
    with connection:
        connection.settimeout(STOP_WAIT)
        connection.sendall(keepty.Shutdown().encode())
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65_536):
                pass
    print(f"Session '{options.id}' stopped", file=sys.stderr)
    return 0


def _broker(options: argparse.Namespace, command: list[str]) -> int:
    if fault := _begin(options, command):
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    from ..client.control import Control

    while True:
        with contextlib.suppress(ConnectionError), Control() as control:  # a daemon may die; we go on
            answer = control.ask("terminal_wait", name=options.id, exit=True)
            if answer["reason"] == "exit":
                code: int = answer["exit_code"]
                return code
