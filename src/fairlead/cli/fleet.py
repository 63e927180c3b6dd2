"""`fairlead fleet`: many machines as one, over NATS."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, Option, UsageError, lines, parsed
from .spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..fleet.authority import Authority
    from ..system.settings import Settings
    from .arguments import Options

VERBS = ("init", "creds", "revoke", "ls", "serve", "join", "leave", "status", "feed")
COMMAND = Command(
    "fleet",
    "Join machines to a fleet: their sessions, questions and reports in one list.\n"
    "`init` makes the keys of a fleet in a directory, `serve` runs its server (nats-server) there. `creds`\n"
    "makes a file with which one machine may join, or one user ask; it can only speak as that one. `revoke`\n"
    "ends it at once. `join` makes this machine a member of the fleet, in the background, until `leave`;\n"
    "`status` shows it and the other hosts, and `feed` what happens on all of them.",
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
        Option("--creds", value="FILE", help="join: the credential of this machine, or of a user"),
        Option(
            "--ca",
            value="FILE",
            help="join: the authority of the server's certificate",
        ),
        Option("--user", value="FILE", help="join: a user's credential, with which answers are signed"),
        Option("--name", value="NAME", help="join: refuse a credential for another name"),
        Option("--leaf", help="join: run a leaf node here; URL is then the server's address for these"),
        Option("--since", value="NUMBER", kind=lines, help="feed: begin after this number (default: 0)"),
        Option("-f", "--follow", help="feed: go on with what happens from now on"),
        Option("--foreground", help="join: run it here, with its log on standard error"),
        Option("--news", value="FD", kind=int, help="for --foreground: say on this descriptor how it went"),
        JSON,
    ),
    examples=(
        ("fairlead fleet init --address hub.example.org", "make a fleet's keys here"),
        ("fairlead fleet serve", "run its server"),
        ("fairlead fleet creds machine workbox --out workbox.creds", "let a machine join, as workbox alone"),
        ("fairlead fleet revoke workbox", "and not any more, from now on"),
        ("fairlead fleet join tls://hub.example.org:4222 --creds workbox.creds --ca ca.pem", "on workbox"),
    ),
    far="here: it is about the fleet that this host belongs to",
)
FIRST_ACCOUNT = "team"


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    _check_extra()
    from ..fleet.authority import FleetFault
    from ..fleet.creds import CredsFault
    from ..system.settings import Settings

    verb = {
        "init": _init,
        "creds": _creds,
        "revoke": _revoke,
        "ls": _ls,
        "serve": _serve,
        "join": _join,
        "leave": _leave,
        "status": _status,
        "feed": _feed,
    }[options.what]
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
    print("next: `fairlead fleet serve` here, and `fairlead fleet creds machine NAME` for each machine,")
    print(f"which takes that file and {made.ca}")
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
            raise Failure(
                f"can't write {options.out}; the credential is at {path}: {error.strerror}"
            ) from None
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
    print(f"{'NAME':<24} {'KIND':<18} {'ACCOUNT':<16} STATE")
    for each in rows:
        kind = each.role.removeprefix("fairlead-") + (" (read-only)" if each.read_only else "")
        moment = each.revoked_at or each.until
        ends = "expired" if each.until and each.until <= time.time() else "until"
        state = "revoked" if each.revoked_at else ends if each.until else "good"
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


def _join(settings: Settings, options: Options, words: list[str]) -> int:
    from ..fleet.authority import FleetFault
    from ..fleet.launch import first_answer, is_running, start, stop
    from ..fleet.places import FleetPlaces, Joined

    if options.foreground:
        return _run(settings, options.news)
    if len(words) > 1 or bool(words) != bool(options.creds):
        raise UsageError("`fleet join` takes a URL with --creds FILE, or neither to join again as before")
    _check_person()
    places = FleetPlaces(settings)
    if words:
        _check_url(words[0])
        creds, ca, user = (_contents(each) for each in (options.creds, options.ca, options.user))
        _check_identity(options)
        before, ran = places.contents(), is_running(settings)
        if ran:
            stop(settings)
        joined = Joined(words[0], options.leaf, ca is not None, user is not None)
        assert creds is not None
        places.write(joined, creds, ca, user)
    joined = places.read()
    try:
        start(settings)
        status = first_answer(settings)
        why = status["why_away"] or "no answer yet"
    except FleetFault as error:
        if not words:
            raise
        status, why = {}, str(error)
    if status.get("connected"):
        print(f"joined {joined.url} as {status['name']}; `fairlead fleet status` shows the hosts")
        return 0
    if not words:
        raise Failure(f"not connected: {why}; this machine goes on trying until `fairlead fleet leave`")
    if is_running(settings):
        stop(settings)
    places.put_back(before)
    if ran:
        start(settings)
    stays = "; this machine belongs to its fleet as before" if before[places.joined] is not None else ""
    raise Failure(f"not joined: {why}{stays}")


def _check_url(url: str) -> None:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("tls", "nats") or not rest or "@" in rest:
        raise UsageError(f"a server is tls://HOST:PORT, not {url!r:.80}")
    host = rest.rpartition(":")[0] or rest
    if scheme == "nats" and host not in ("127.0.0.1", "localhost", "[::1]"):
        raise UsageError("without TLS (nats://) only a server on this machine is taken; use tls://HOST:PORT")


def _contents(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(64 * 1024)
    except OSError as error:
        raise Failure(f"can't read {path}: {error.strerror}") from None


def _check_identity(options: Options) -> None:
    """Raises Failure if a credential is not what it is given for."""
    from ..fleet.creds import read_creds
    from ..fleet.subjects import ADMINISTRATOR, PERSON

    own = read_creds(options.creds).identity
    if own.role == ADMINISTRATOR:
        raise Failure(
            f"{options.creds} is the administrator's; `fairlead fleet creds machine NAME` makes one"
        )
    if options.name not in (None, own.name):
        raise Failure(f"{options.creds} is for {own.name!r}, not for {options.name!r}")
    if options.user is not None and read_creds(options.user).identity.role != PERSON:
        raise Failure(f"{options.user} is not a user's: `fairlead fleet creds user NAME` makes one")


def _run(settings: Settings, news: int | None) -> int:
    from .news import News

    told = News(news)
    try:
        from ..fleet.authority import FleetFault
        from ..fleet.creds import CredsFault
        from ..fleet.process import AlreadyJoined, run

        told.began()
        try:
            run(settings, told.ready)
        except AlreadyJoined:
            told.elsewhere()
            raise Failure("this machine's fleet process runs already") from None
        except (FleetFault, CredsFault) as error:
            raise Failure(str(error)) from None
    except BaseException as error:
        told.failed(error)
        raise
    return 0


def _check_person() -> None:
    """Raise FleetFault for an agent's command: whether this machine is in a fleet is for a person to say."""
    from ..fleet.authority import FleetFault
    from ..system.processes import agent_of

    if (agent := agent_of(os.getpid(), {})) != "":
        raise FleetFault(f"an agent's command may not use the fleet ({agent or 'unknown'})")


def _leave(settings: Settings, options: Options, words: list[str]) -> int:
    from ..fleet.launch import is_running, stop
    from ..fleet.places import FleetPlaces

    if words:
        raise UsageError("`fleet leave` takes no words")
    _check_person()
    places = FleetPlaces(settings)
    joined = places.read()
    if is_running(settings):
        stop(settings)
    places.forget()
    print(f"left {joined.url}")
    return 0


def _status(settings: Settings, options: Options, words: list[str]) -> int:
    from ..fleet.launch import asked

    if words:
        raise UsageError("`fleet status` takes no words")
    status = asked(settings, "status")
    if options.json:
        import json

        print(json.dumps(status))
        return 0
    how = "connected" if status["connected"] else f"away: {status['why_away']}"
    leaf = " through a leaf node" if status["leaf"] else ""
    role = status["role"] + ", read-only" * status["read_only"]
    print(f"{status['name']} ({role}) at {status['url']}{leaf}: {how}")
    if status["waiting"] or status["dropped_events"]:
        print(f"{status['waiting']} events wait for the server, {status['dropped_events']} were dropped")
    head = ("HOST", "STATE", "VERSION", "SESSIONS", "QUESTIONS", "LAG", "CLOCK", "LABELS")
    rows = [head]
    for each in status["hosts"]:
        skew = "-" if each["skew"] is None else f"{round(each['skew'], 1) + 0.0:+.1f}s"
        state = each["state"] if each["state"] == "away" or each["daemon"] == "here" else "no daemon"
        numbers = (str(each[key]) for key in ("sessions", "questions", "lag"))
        rows.append((each["name"], state, each["version"], *numbers, skew, ",".join(each["labels"]) or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip())
    return 0


def _feed(settings: Settings, options: Options, words: list[str]) -> int:
    import json

    from ..fleet.launch import said

    if words:
        raise UsageError("`fleet feed` takes no words")
    follow = " follow" if options.follow else ""
    for event in said(settings, f"feed {options.since or 0}{follow}", timeout=None):
        if "error" in event:
            raise Failure(event["error"])
        print(json.dumps(event), flush=True)
    return 0
