"""What attaching needs before and after a terminal is shared: options, a guess at a name, the last screen."""

from __future__ import annotations

import contextlib
import os
import sys

from ..client.launch import session_dirs
from ..system.escape_keys import escapes_of
from ..system.settings import SettingError, Settings

_SCREENS = ("alternate", "main")


def has_terminal() -> bool:
    """Whether a session can be attached to here: keys come from a terminal, and output goes to one."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def not_here(name: str) -> str:
    """Why a session can't be attached to here; empty if it can."""
    name = f"{host}:{name}" if (host := Settings().host) else name
    if not has_terminal():
        return (
            "standard input and output must be a terminal; without one, use "
            f"`fairlead screen {name}`, `fairlead logs -f {name}` or `fairlead send {name} TEXT`"
        )
    if os.environ.get("TERM", "") in ("", "dumb"):
        return (
            "this terminal has no cursor control (TERM is "
            f"{os.environ.get('TERM') or 'not set'}); use `fairlead screen {name}` or "
            f"`fairlead logs -f {name}`"
        )
    return ""


def print_last_screen(name: str, settings: Settings) -> None:
    """Print what an ended session showed last, which was gone from the alternate screen at once."""
    from ..client.connection import DaemonConnection, RequestError

    with (
        contextlib.suppress(RequestError, OSError, SettingError),
        DaemonConnection(settings, start=False) as control,
    ):
        shown = str(control.ask("terminal_screen", name=name, format="ansi")["screen"]).rstrip()
        print(shown, end="\x1b[0m\n", flush=True)


class AttachOptions:
    """What the person has set about attaching. Raises SettingError."""

    def __init__(self, settings: Settings) -> None:
        self.escapes = escapes_of(settings)
        self.hint = settings.flag("attach", "hint")
        screen = settings.text("attach", "screen")
        if screen not in _SCREENS:
            raise SettingError(f'[attach] screen must be "alternate" or "main", not {screen!r}')
        self.alternate = screen == "alternate"

    @property
    def way_out(self) -> str:
        return " or ".join(self.escapes.values())


def probably_meant(name: str, settings: Settings) -> str:
    """The session that was probably meant, by the sockets that are there."""
    from ..formats.guess import meant

    found = []
    for directory in session_dirs(settings):
        with contextlib.suppress(OSError):
            found += os.listdir(directory)
    return meant(name, [each[len("keepty-") : -len(".sock")] for each in found if each.endswith(".sock")])
