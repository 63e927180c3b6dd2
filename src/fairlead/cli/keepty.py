"""`fairlead-keepty`: a drop-in for the `keepty` command."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys
from collections.abc import Sequence

from ..wire import keepty


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command as `keepty` would; gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:cut])
    command = words[cut + 1 :]
    if len(command) == 1 and " " in command[0]:
        command = shlex.split(command[0])  # the SDKs give a whole command as one word
    try:
        code: int = options.run(options, command or [os.environ.get("SHELL") or "/bin/sh"])
    except KeyboardInterrupt:
        return 130
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
    attach = add("attach", _attach, "attach to a session; ,,,d detaches")
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
    except (RequestError, OSError) as error:
        return str(error)
    return None


def _start(options: argparse.Namespace, command: list[str]) -> int:
    if fault := _begin(options, command):
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    print(f"Session '{options.id}' started", file=sys.stderr)
    if options.detach or not sys.stdin.isatty():
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
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(f"{directory}/keepty-{name}.sock")
                state = "running"
            except OSError:
                state = "stale"
        print(f"  {name}  ({state})")
    if not found:
        print("No running sessions", file=sys.stderr)
    return 0


def _stop(options: argparse.Namespace, command: list[str]) -> int:
    path = keepty.socket_path(options.id, os.environ)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            print(f"Error: session '{options.id}' is not running", file=sys.stderr)
            return 1
        wire = keepty.ClientConnection()
        connection.sendall(wire.send(keepty.Hello(keepty.Role.MONITOR, 80, 24)))
        connection.sendall(wire.send(keepty.Shutdown()))
        while connection.recv(65_536):
            pass
    print(f"Session '{options.id}' stopped", file=sys.stderr)
    return 0


def _broker(options: argparse.Namespace, command: list[str]) -> int:
    if fault := _begin(options, command):
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    from ..client.control import Control

    with Control() as control:
        code: int = control.ask("terminal_wait", name=options.id, exit=True)["exit_code"]
    return code
