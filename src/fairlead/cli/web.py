"""`fairlead web`: the console for browsers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .. import __version__
from .arguments import Command, Failure, Option, UsageError, parsed
from .spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..system.settings import Settings
    from ..web.places import Listening
    from .arguments import Options

HOUR = 3600.0

COMMAND = Command(
    "web",
    "Show all sessions in a browser, on this machine or a phone: what they do, what they ask, their\n"
    "terminals and chats. Starts the console if it does not run, prints a link that is good once and for a\n"
    "minute, and opens it where there is a desktop. The console keeps running; it survives restarts of the\n"
    "daemon.",
    options=(
        Option(
            "--listen",
            value="HOST:PORT",
            help="where to listen (default: 127.0.0.1 and the port of last time)",
        ),
        Option("--cert", value="FILE", help="the certificate for TLS, in PEM"),
        Option("--key", value="FILE", help="its key"),
        Option(
            "--origin", value="URL", help="the address that a proxy on this machine serves the console under"
        ),
        Option(
            "--proxy-user",
            value="USER",
            help="whose process that proxy is, if it is neither yours nor root's",
        ),
        Option("--insecure", help="listen beyond this machine without TLS"),
        Option("--share", value="NAME", completes="session", help="print a link to one session instead"),
        Option("--role", value="watcher|writer", completes="watcher writer", help="for --share"),
        Option("--for", value="TIME", kind=span, help="for --share: how long, such as 1h (the default)"),
        Option("--sessions", help="list browsers, shares and tokens that may come in"),
        Option("--revoke", value="ID", help="end one of them, or `all`"),
        Option("--confirm", value="CODE", help="let in the browser of another machine that shows this code"),
        Option("--deny", value="CODE", help="don't"),
        Option("--stop", help="end the console"),
        Option("--foreground", help="run it here, with its log on standard error"),
        Option("--no-open", help="only print the link"),
        Option("--json", help="print JSON"),
        Option(
            "--news", value="FD", kind=int, help="for --foreground: say on this descriptor when it serves"
        ),
    ),
    either=("share", "sessions", "revoke", "confirm", "deny", "stop", "foreground"),
    examples=(
        ("fairlead web", "start the console, and open it"),
        ("fairlead web --share work --role watcher --for 1h", "let a colleague watch one session"),
        (
            "fairlead web --listen 0.0.0.0:7433 --cert laptop.pem --key laptop.key",
            "also for the phone; prints a QR code",
        ),
        ("fairlead web --sessions", "who may come in, and their ids for --revoke"),
    ),
    far="here: start the console on that host (`fairlead web` there), and forward its port with ssh -L",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.role or getattr(options, "for")) and not options.share:
        raise UsageError("--role and --for go with --share")
    from ..system.settings import Settings

    settings = Settings()
    if options.sessions or options.revoke or options.stop or options.confirm or options.deny:
        return _decide(settings, options)
    _check_extra()
    from ..web.places import listening_at

    listen = listening_at(
        options.listen or "127.0.0.1:0",
        options.cert or "",
        options.key or "",
        options.origin or "",
        proxy_user=options.proxy_user or "",
        insecure=options.insecure,
    )
    if options.foreground:
        return _run(settings, listen, options.news)
    return _show(settings, listen, options)


def _check_extra() -> None:
    from ..system.extras import is_missing, missing

    for module, name in (
        ("starlette", "Starlette"),
        ("uvicorn", "uvicorn"),
        ("websockets", "websockets"),
        ("segno", "segno"),
    ):
        if is_missing(module):
            raise Failure(missing(f"the console needs {name}", "web"))


def _run(settings: Settings, listen: Listening, news: int | None) -> int:
    from .news import News

    told = News(news)
    try:
        from ..web.process import AlreadyServed, run

        told.began()
        try:
            run(settings, listen, told.ready)
        except AlreadyServed:
            told.elsewhere()
            raise Failure("the console runs already; `fairlead web --stop` ends it") from None
    except BaseException as error:
        told.failed(error)
        raise
    return 0


def _show(settings: Settings, listen: Listening, options: Options) -> int:
    """Print a link, and open it."""
    from ..web.launch import asked, is_running, start

    chosen = [options.listen, options.cert, options.origin, options.proxy_user]
    if not is_running(settings):
        start(settings, listen)
    elif any(chosen):
        raise Failure("the console runs already; `fairlead web --stop` ends it, then it can listen elsewhere")
    status = asked(settings, "status")
    if status["version"] != __version__:
        status["warnings"].append(
            f"the console is still version {status['version']}, this command is {__version__}: "
            "`fairlead web --stop` ends it, and the next `fairlead web` starts the new one"
        )
    if options.share:
        seconds = getattr(options, "for") or HOUR
        role = options.role or "watcher"
        made = asked(settings, "share", name=options.share, role=role, seconds=seconds)
    else:
        made = asked(settings, "link")
    is_far = status["far"]
    if options.json:
        import json

        print(json.dumps(made | {"base": status["base"], "warnings": status["warnings"]}))
        return 0
    for each in status["warnings"]:
        print(f"fairlead web: {each}", file=sys.stderr)
    if is_far:
        _print_code(made["link"])
    print(made["link"])
    if options.share:
        import time

        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(made["until"]))
        may = "watch" if role == "watcher" else "watch, write and answer in"
        print(f"works once; who opens it may {may} {options.share} until {until}")
        print(f"`fairlead web --revoke {made['id']}` ends it before")
    elif not options.no_open:
        _open(made["link"])
    if is_far and not options.share:
        print("a browser of another machine shows a code: `fairlead web --confirm CODE` lets it in")
    return 0


def _print_code(link: str) -> None:
    """The link as a QR code, on a terminal."""
    if sys.stdout.isatty():
        import segno

        segno.make(link, micro=False).terminal(compact=True)


def _open(link: str) -> None:
    """Open the link where there is a desktop."""
    import os
    import shutil
    import subprocess

    opener = "open" if sys.platform == "darwin" else "xdg-open"
    has_desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if has_desktop and (program := shutil.which(opener)):
        subprocess.Popen(
            [program, link],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _decide(settings: Settings, options: Options) -> int:
    from ..web.launch import asked, stop

    if options.stop:
        stop(settings)
    elif options.revoke:
        asked(settings, "revoke", id=options.revoke)
    elif options.sessions:
        _list(asked(settings, "sessions"), as_json=options.json)
    else:
        asked(settings, "confirm", code=options.confirm or options.deny, allowed=bool(options.confirm))
    return 0


def _list(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(found))
        return
    import time

    from ..formats.columns import fill

    def until(row: dict[str, Any]) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(row["until"]))

    lines = []
    for row in found["shares"]:
        used = "used" if row["used"] else "not used yet"
        lines.append(f"{row['id']}  share    {row['role']:<8} {row['name']}, until {until(row)}, {used}")
    for row in found["sessions"]:
        whose = f"{row['name']}, by share {row['share']}" if row["share"] else row["from"]
        line = f"{row['id']}  {row['kind']:<8} {row['role']:<8} until {until(row)} {whose} {row['device']}"
        lines.append(line.rstrip())
    for row in found["waiting"]:
        lines.append(f"code {row['code']}  waits at {row['from']}: {row['agent']}")
    for line in lines:
        print(fill(line, 200) if len(line) > 200 else line)
    if not lines:
        print("nobody may come in", file=sys.stderr)
