"""`fairlead attach`: attach to a session's terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import SESSION, Command, Option, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "attach",
    "Attach to a session's terminal. What you type goes to its program; ctrl-\\ leaves it running, and so\n"
    "do the keys , , , d one by one. ctrl-\\ pressed twice goes to the program. It reconnects when the\n"
    "daemon restarts. It needs a terminal; scripts use screen, logs and send. [attach] in the configuration\n"
    "sets the keys (escape), the hint and the screen. Of an agent the chat is opened.",
    takes=(SESSION,),
    options=(Option("-w", "--watch", help="only look: q or ^C leaves, r draws again, arrows move a part"),),
    examples=(
        ("fairlead attach work", "press ctrl-\\ to leave"),
        ("FAIRLEAD_ATTACH_ESCAPE='ctrl-a d' fairlead attach work", "leave as in screen"),
        ("fairlead attach garden", "the chat with an agent of this name"),
        ("fairlead attach -w work", "look over its shoulder; nothing you type reaches it"),
    ),
    codes={0: "you left it", "program's": "it ended"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (session := _without_screen(options.name)) is not None:
        if "chat" not in session["can"]:
            from .kinds import unsupported

            instead = "`fairlead send {} TEXT` asks it, and `fairlead logs {}` prints what was said"
            raise unsupported(session, "has neither a screen nor a chat", instead)

        from ..client.sdk import connect
        from ..system.settings import Settings
        from ..ui.chat.chat import chat

        with connect(settings := Settings()) as host:
            return chat(host.agent(id=session["id"]), settings)

    from ..ui.attach import attach

    return attach(options.name, watch=options.watch)


def _without_screen(name: str) -> dict[str, Any] | None:
    """The session of this name, if it has no screen to attach to and we have a terminal."""
    import os
    import sys

    from ..client.launch import session_dirs
    from ..system.settings import SettingError, Settings
    from ..wire import keepty

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        paths = [keepty.socket_path(name, os.environ, each) for each in session_dirs(Settings())]
    except (OSError, ValueError, SettingError):
        return None
    if any(map(os.path.exists, paths)):
        return None

    from ..client.control import Control, RequestError

    try:
        with Control() as control:
            session: dict[str, Any] = control.ask("session_find", name=name)["session"]
    except (RequestError, ConnectionError):  # attaching says what is wrong
        return None
    return session if "screen" not in session["can"] else None
