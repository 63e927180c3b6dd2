"""`fairlead attach`: attach to a session's terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..formats.columns import printable
from .arguments import SESSION, Command, Failure, Option, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "attach",
    "Attach to a session's terminal. What you type goes to its program. ctrl-\\ detaches, and so do the\n"
    "keys , , , d typed one by one; the program keeps running. Press ctrl-\\ twice to send it to the\n"
    "program. attach reconnects when the daemon restarts. It needs a terminal; in scripts, use screen,\n"
    "logs and send. The [attach] section of the configuration sets the keys (escape), the hint and the\n"
    "screen. For an agent session it opens the chat.",
    takes=(SESSION,),
    options=(
        Option("-w", "--watch", help="read-only: q or ^C detaches, r redraws, arrows move the visible part"),
    ),
    examples=(
        ("fairlead attach work", "press ctrl-\\ to detach"),
        ("FAIRLEAD_ATTACH_ESCAPE='ctrl-a d' fairlead attach work", "detach as in screen"),
        ("fairlead attach garden", "chat with the agent session garden"),
        ("fairlead attach -w work", "watch; nothing you type reaches the program"),
    ),
    codes={0: "detached", "program's": "the program ended"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (session := _without_screen(options.name)) is not None:
        if "chat" not in session["can"]:
            from .kinds import unsupported

            instead = "`fairlead send {} TEXT` asks it, and `fairlead logs {}` prints what was said"
            raise unsupported(session, "has neither a screen nor a chat", instead)
        if options.watch:
            from .kinds import unsupported

            instead = "`fairlead logs {}` prints what was said, `fairlead attach {}` opens the chat"
            raise unsupported(session, "has no screen to watch", instead)
        if not _has_terminal():
            instead = "`fairlead send {} TEXT` prompts it, `fairlead logs {}` prints what was said"
            how = instead.replace("{}", printable(session["name"]))
            raise Failure(f"the chat needs a terminal; {how}")

        from ..client.sdk import connect
        from ..system.settings import Settings
        from ..ui.chat.chat import chat

        with connect(settings := Settings()) as host:
            return chat(host.agent(id=session["id"]), settings)

    from ..ui.attach import attach

    return attach(options.name, watch=options.watch)


def _without_screen(name: str) -> dict[str, Any] | None:
    """The session of this name, if it has no screen to attach to. Raises Failure if we have no terminal and
    there is no such session."""
    import os

    from ..client.launch import session_dirs
    from ..system.settings import SettingError, Settings
    from ..wire import keepty

    settings = Settings()
    try:
        paths = [keepty.socket_path(name, os.environ, each) for each in session_dirs(settings)]
    except (OSError, ValueError, SettingError):
        return None
    if not settings.host and any(map(os.path.exists, paths)):
        return None

    from ..client.connection import DaemonConnection, RequestError

    try:
        with DaemonConnection() as control:
            session: dict[str, Any] = control.ask("session_find", name=name)["session"]
    except (RequestError, ConnectionError) as error:  # attaching says what is wrong, if it comes so far
        if isinstance(error, RequestError) and not _has_terminal():
            raise Failure(str(error)) from None
        if settings.host:  # ssh may say more now than when the terminal shows a session
            raise
        return None
    return session if "screen" not in session["can"] else None


def _has_terminal() -> bool:
    import sys

    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
