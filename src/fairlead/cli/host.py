"""`fairlead host`: the hosts whose sessions can be used from here."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..formats.columns import printable
from .arguments import JSON, Argument, Command, Failure, Option, UsageError, nearest, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.hosts.check import Checked
    from ..system.settings import Settings

VERBS = ("ls", "add", "check", "rm", "install")
HEAD = ("NAME", "STATE", "SESSIONS", "QUESTIONS", "VERSION", "LATENCY", "LAST SEEN", "DESTINATION")
DROPS = ("LAST SEEN", "LATENCY", "VERSION", "QUESTIONS")

COMMAND = Command(
    "host",
    "Use sessions on other hosts. `add` writes a host down under a short name and tries it; from then on\n"
    "NAME:SESSION is a session there, in every command that takes a session, and `fairlead -H NAME COMMAND`\n"
    "is for that host. Hosts are reached with your own ssh: its configuration, keys and known hosts. A\n"
    "host needs Fairlead, and no open port but that of ssh; `install` installs this version there.\n"
    "\n"
    "ls asks all hosts at once, and shows those that do not answer as away.",
    takes=(
        Argument(
            "what",
            "ls, add NAME [DESTINATION], check [NAME…], rm NAME…, install NAME",
            optional=True,
            completes=" ".join(VERBS),
        ),
        Argument(
            "names",
            "the host's name, and for add what ssh calls it",
            optional=True,
            many=True,
            completes="host",
        ),
    ),
    options=(
        Option("--program", value="PATH", help="add: where fairlead is there, if it is not found"),
        Option(
            "--command",
            value="COMMAND",
            help="add: what runs fairlead there, instead of ssh; for containers and other homes",
        ),
        Option("--no-check", help="add: don't try it"),
        Option("-y", "--yes", help="install: don't ask; needed without a terminal"),
        JSON,
    ),
    examples=(
        ("fairlead host add workbox", "a host that your ssh knows as workbox"),
        ("fairlead host add gpu me@203.0.113.7", "a user and an address"),
        ("fairlead host add box --command 'docker exec -i box fairlead'", "a container"),
        ("fairlead attach workbox:work", "the session work on workbox"),
        ("fairlead -H workbox ls", "the sessions there"),
    ),
    codes={1: "a host can't be used; the reason is on stderr"},
    far="here: it is about the hosts that are known here",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    what = options.what or "ls"
    if what not in VERBS:
        raise UsageError(f"{what!r} is not one of {', '.join(VERBS)}{nearest(what, VERBS)}")
    from ..system.settings import Settings

    settings = Settings(host="")
    most = {"ls": 0, "add": 2, "install": 1}.get(what)
    if most is not None and len(options.names) > most:
        raise UsageError(f"unexpected argument {options.names[most]!r}")
    if what in ("add", "rm", "install") and not options.names:
        raise UsageError(f"missing NAME: `fairlead host {what} NAME`")
    does = {"ls": _list, "add": _add, "check": _check, "rm": _remove, "install": _install}[what]
    return does(options, settings)


def _add(options: Any, settings: Settings) -> int:
    import time

    from ..client.hosts import dial, table

    name, *rest = options.names
    command = options.command or ""
    if options.command is not None and (rest or options.program):
        raise UsageError("--command takes the place of a destination and of --program")
    if options.command is not None and not command:
        raise UsageError("--command must not be empty")
    if command and dial.own_agent():  # the daemon runs it, as nobody's agent
        raise Failure("only a person may add a command that the daemon runs")
    try:
        destination = "" if command else rest[0] if rest else name
        host = table.checked(table.KnownHost(name, destination, options.program or "", time.time(), command))
    except ValueError as error:
        raise UsageError(str(error)) from None
    known = table.hosts(settings).get(name)
    if known is not None and known.shown != host.shown and not options.yes:
        raise Failure(f"{name} is {known.shown} already; `fairlead host rm {name}` first, or use --yes")
    if known is None and name in _known(settings) and not options.yes:
        raise Failure(
            f"{name} is a host of the fleet already; take another name, or use --yes to replace it here"
        )
    table.add(settings, host)
    if options.no_check:
        _tell_daemon(settings)
        return 0
    checked = _tried([name], settings)[0]
    _tell_daemon(settings)
    if options.json:
        _print_json([checked])
    else:
        print(_sentence(checked))
        if checked.state != "up":
            print(f"{name} is added; `fairlead host check {name}` tries it again", file=sys.stderr)
    return 0 if checked.state == "up" else 1


def _check(options: Any, settings: Settings) -> int:
    names = options.names or list(_known(settings))
    for name in options.names:
        _must_be_known(name, settings)
    if not names:
        raise Failure("no hosts; `fairlead host add NAME` adds one")
    found = _tried(names, settings)
    _tell_daemon(settings, [each.name for each in found if each.state == "up"])
    if options.json:
        _print_json(found)
    else:
        for checked in found:
            print(_sentence(checked))
    return 0 if all(each.state == "up" for each in found) else 1


def _list(options: Any, settings: Settings) -> int:
    names = list(_known(settings))
    if not names and not options.json:
        print("no hosts; `fairlead host add NAME` adds one", file=sys.stderr)
        return 0
    found = _tried(names, settings, asks=False)
    if options.json:
        _print_json(found)
        return 0
    from ..ui.needs import span
    from .columns import table

    rows: list[tuple[str, ...]] = [HEAD]
    for each in found:
        rows.append(
            (
                each.name,
                each.state,
                "-" if each.sessions is None else str(each.sessions),
                "-" if each.questions is None else str(each.questions),
                each.version or "-",
                "-" if each.latency is None else f"{each.latency * 1000:.0f} ms",
                "now" if each.state == "up" else span(each.age),
                each.destination or "fleet",
            )
        )
    table(rows, drops=DROPS, flexible="DESTINATION")
    for each in found:
        if each.why:
            print(f"{each.name}: {printable(each.why)}", file=sys.stderr)
    return 0


def _remove(options: Any, settings: Settings) -> int:
    from ..client.hosts import check, ssh, table

    for name in options.names:
        _must_be_known(name, settings)
        gone = table.remove(settings, name)
        if gone is None:
            raise Failure(f"{name} is a host of the fleet; `fairlead fleet` has its hosts")
        ssh.end_shared(settings, gone)
        was_reached = check.last_seen(settings, name) is not None
        check.forget_seen(settings, name)
        left = "; its sessions keep running there" if was_reached else ""
        print(f"{name} is removed{left}", file=sys.stderr)
    _tell_daemon(settings)
    return 0


def _tell_daemon(settings: Settings, up: Sequence[str] = ()) -> None:
    """Let the daemon here see which hosts there are now, if it runs: it keeps a link to each. Its links to
    those that are up are there when this returns, also where it had given them up for a while."""
    import contextlib

    from ..client.connection import DaemonConnection, RequestError

    with (
        contextlib.suppress(ConnectionError, TimeoutError, OSError, RequestError),
        DaemonConnection(settings, start=False) as control,
    ):
        known = {each["name"]: each["state"] for each in control.ask("host_check")["hosts"]}
        for name in up:
            if known.get(name, "here") != "here":
                control.ask("host_check", name=name)


def _install(options: Any, settings: Settings) -> int:
    from .. import __version__
    from ..client.hosts import dial, install
    from .agreed import has_agreed
    from .far import has_terminal

    [name] = options.names
    _must_be_known(name, settings)
    host = dial.find(name, settings)
    if host is None:
        raise Failure(f"{name} is a host of the fleet, which has no way to install there: use ssh")
    if host.command:
        raise Failure(f"{name} is reached by a command: install fairlead there as you made it")
    found = install.look(host, settings, asks=has_terminal())
    if not found.python:
        raise Failure(f"{name} has no Python 3.11 or newer with venv; install one there first")
    if found.other:
        how = "update that one, or remove it; nothing was changed"
        raise Failure(f"{name} has another fairlead at {found.other}: {how}")
    what = f"updates {found.has}" if found.has else "is new there"
    into = f"into {found.place} with Python {found.python}, and links in ~/.local/bin"
    print(f"fairlead {__version__}, as it runs here, {what}: {into}.", file=sys.stderr)
    print("What it depends on is downloaded by pip there.", file=sys.stderr)
    if not options.yes:
        if not has_terminal():
            raise UsageError("nobody can be asked without a terminal; use --yes")
        if not has_agreed(f"Install it on {name}?"):
            return 1
    version = install.install(host, settings, asks=has_terminal())
    print(f"{name}: {version} is installed")
    checked = _tried([name], settings)[0]
    _tell_daemon(settings, [name] if checked.state == "up" else [])
    if checked.state == "up" and checked.version != __version__:
        how = f"`fairlead -H {name} daemon restart` updates it, sessions keep running"
        print(f"its daemon is still fairlead {checked.version}: {how}", file=sys.stderr)
    return 0 if checked.state == "up" else 1


def _known(settings: Settings) -> dict[str, Any]:
    from ..client.hosts.dial import names

    return names(settings)


def _must_be_known(name: str, settings: Settings) -> None:
    names = _known(settings)
    if name not in names:
        hint = nearest(name, list(names)) or "; `fairlead host ls` lists them"
        raise Failure(f"no host {name!r}{hint}")


def _tried(names: list[str], settings: Settings, *, asks: bool = True) -> list[Checked]:
    from ..client.hosts.check import check
    from .far import has_terminal

    return check(names, settings, asks=asks and len(names) == 1 and has_terminal())


def _sentence(checked: Checked) -> str:
    if checked.state != "up":
        return f"{checked.name}: {checked.state}: {printable(checked.why)}"
    sessions = "1 session" if checked.sessions == 1 else f"{checked.sessions} sessions"
    asks = f", {checked.questions} of them ask" if checked.questions else ""
    latency = f"answers in {(checked.latency or 0) * 1000:.0f} ms"
    note = f"; {printable(checked.why)}" if checked.why else ""
    return f"{checked.name}: fairlead {checked.version}, {sessions}{asks}, {latency}{note}"


def _print_json(found: list[Checked]) -> None:
    import json

    print(json.dumps([each._asdict() for each in found], indent=2))
