"""`fairlead fleet`: many machines as one, over NATS."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, Option, UsageError, parsed
from .spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..fleet.authority import Authority
    from ..system.settings import Settings
    from .arguments import Options

VERBS = ("init", "creds", "revoke", "ls", "serve")
COMMAND = Command(
    "fleet",
    "Join machines to a fleet: their sessions, questions and reports in one list.\n"
    "`init` makes the keys of a fleet in a directory, `serve` runs its server (nats-server) there. `creds`\n"
    "makes a file with which one machine may join, or one user ask; it can only speak as that one. `revoke`\n"
    "ends it at once.",
    takes=(
        Argument("what", ", ".join(VERBS), choices=VERBS),
        Argument(
            "words", "init [DIR], creds machine|user NAME, revoke NAME, serve [DIR]", many=True, optional=True
        ),
    ),
    options=(
        Option(
            "--dir", value="DIR", help="the fleet's directory (default: `fleet` beside the configuration)"
        ),
        Option("--account", value="NAME", help="the account, one for each team (default: the first)"),
        Option("--listen", value="ADDRESS:PORT", help="init: where machines reach the server"),
        Option("--leaf-listen", value="ADDRESS:PORT", help="init: where leaf nodes reach it"),
        Option(
            "--address",
            value="NAME",
            many=True,
            help="init: a name or address of the server, for its certificate; machines use the first",
        ),
        Option("--read-only", help="creds user: may look and change nothing"),
        Option(
            "--for",
            value="TIME",
            kind=span,
            help="creds: how long it is good, such as 30d (default: for ever)",
        ),
        Option("--out", value="FILE", help="creds: where to put the file"),
        JSON,
    ),
    examples=(
        ("fairlead fleet init --address hub.example.org", "make a fleet's keys here"),
        ("fairlead fleet serve", "run its server"),
        ("fairlead fleet creds machine workbox --out workbox.creds", "let a machine join, as workbox alone"),
        ("fairlead fleet revoke workbox", "and not any more, from now on"),
    ),
)
FIRST_ACCOUNT = "team"


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    _check_extra()
    from ..fleet.authority import FleetFault
    from ..fleet.creds import CredsFault
    from ..system.settings import Settings

    verb = {"init": _init, "creds": _creds, "revoke": _revoke, "ls": _ls, "serve": _serve}[options.what]
    try:
        return verb(Settings(), options, list(options.words or ()))
    except (FleetFault, CredsFault) as error:
        raise Failure(str(error)) from None


def _check_extra() -> None:
    from ..system.extras import is_missing, missing

    for module, name in (("nats", "nats-py"), ("cryptography", "cryptography")):
        if is_missing(module):
            raise Failure(missing(f"the fleet needs {name}", "fleet"))


def _directory(settings: Settings, options: Options, words: list[str]) -> str:
    if len(words) > 1 or (words and options.dir):
        raise UsageError(f"`fleet {options.what}` takes one directory")
    return words[0] if words else options.dir or _usual(settings)


def _usual(settings: Settings) -> str:
    return os.path.join(os.path.dirname(settings.config_path), "fleet")


def _authority(settings: Settings, options: Options) -> Authority:
    from ..fleet.authority import Authority

    return Authority(options.dir or _usual(settings))


def _init(settings: Settings, options: Options, words: list[str]) -> int:
    import socket

    from ..fleet.authority import DEFAULT_LEAF, DEFAULT_LISTEN, Authority

    directory = _directory(settings, options, words)
    if os.path.exists(os.path.join(directory, "fleet.json")) and options.account:
        authority = Authority(directory)
        with authority.changing():
            team = authority.add_account(options.account)
        _tell_server(authority, team.name, "the account is there")
        return 0
    listen, leaf = options.listen or DEFAULT_LISTEN, options.leaf_listen or DEFAULT_LEAF
    own = dict.fromkeys([*(options.address or (socket.gethostname().lower(),)), "localhost", "127.0.0.1"])
    made = Authority.new(directory, options.account or FIRST_ACCOUNT, listen, leaf, list(own))
    print(
        f"made a fleet in {made.directory}; its keys stay there: whoever has them decides who belongs to it"
    )
    print("next: `fairlead fleet serve` here, and `fairlead fleet creds machine NAME` for each machine")
    return 0


def _creds(settings: Settings, options: Options, words: list[str]) -> int:
    import shutil

    from ..fleet.server import client_url
    from ..fleet.subjects import MACHINE, PERSON

    if len(words) != 2 or words[0] not in ("machine", "user"):
        raise UsageError("`fleet creds` takes `machine NAME` or `user NAME`")
    if options.read_only and words[0] == "machine":
        raise UsageError("--read-only is for users: a machine answers for itself")
    authority = _authority(settings, options)
    if options.out and os.path.exists(options.out):
        raise Failure(f"{options.out} is there already")
    role = MACHINE if words[0] == "machine" else PERSON
    seconds = getattr(options, "for") or 0.0
    with authority.changing():
        path = authority.issue(
            role, words[1], options.account or "", read_only=options.read_only, seconds=seconds
        )
    if options.out:
        try:
            shutil.move(path, options.out)
        except OSError as error:
            raise Failure(f"can't write {options.out}, so it stays at {path}: {error.strerror}") from None
        path = options.out
    url = client_url(authority)
    if options.json:
        import json

        print(json.dumps({"creds": os.path.abspath(path), "ca": authority.ca, "url": url}))
        return 0
    print(path)
    if sys.stdout.isatty():
        print(
            f"take it and {authority.ca} there, then: fairlead fleet join {url} --creds … --ca …",
            file=sys.stderr,
        )
    return 0


def _revoke(settings: Settings, options: Options, words: list[str]) -> int:
    if len(words) != 1:
        raise UsageError("`fleet revoke` takes one name")
    authority = _authority(settings, options)
    with authority.changing():
        team, _ = authority.revoke(words[0], options.account or "")
    return _tell_server(authority, team.name, f"{words[0]} is revoked")


def _tell_server(authority: Authority, account: str, done: str) -> int:
    """Give the server the account as it is now. The exit code."""
    import asyncio

    from ..fleet.authority import FleetFault
    from ..fleet.server import tell_of_account

    team = authority.account(account)
    try:
        asyncio.run(tell_of_account(authority, team, authority.account_jwt(team)))
    except FleetFault as error:
        print(f"fairlead fleet: {done}, but the server was not told: {error}", file=sys.stderr)
        print("fairlead fleet: it will know when it starts", file=sys.stderr)
        return 1
    print(f"{done}, and the server knows it")
    return 0


def _ls(settings: Settings, options: Options, words: list[str]) -> int:
    import time

    if words:
        raise UsageError("`fleet ls` takes no words")
    authority = _authority(settings, options)
    rows = [each for each in authority.register.credentials if options.account in (None, each.account)]
    if options.json:
        import json

        import msgspec

        print(json.dumps(msgspec.to_builtins(rows)))
        return 0
    for each in rows:
        kind = each.role.removeprefix("fairlead-") + (" (read-only)" if each.read_only else "")
        moment = each.revoked_at or each.until
        state = "revoked" if each.revoked_at else "until" if each.until else "good"
        when = time.strftime(" %Y-%m-%d %H:%M", time.localtime(moment)) if moment else ""
        print(f"{each.name:<24} {kind:<18} {each.account:<16} {state}{when}")
    return 0


def _serve(settings: Settings, options: Options, words: list[str]) -> int:
    import asyncio
    import signal

    from ..fleet.authority import Authority
    from ..fleet.server import NatsServer, client_url

    authority = Authority(_directory(settings, options, words))

    async def serve() -> None:
        server = NatsServer(authority)
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, server.stop)
        await server.run(lambda: print(f"serving at {client_url(authority)}", flush=True))

    asyncio.run(serve())
    return 0
