"""Messages on this machine's desktop, where there is one: by `notify-send`, or `osascript` on macOS."""

from __future__ import annotations

import asyncio
import html
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

log = logging.getLogger("fairlead")

SHOW_WAIT = 10.0
"""Seconds that showing a message may take."""
MAX_TITLE, MAX_BODY = 200, 1000
"""How many characters of it are shown."""
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


async def show_on_desktop(title: str, body: str) -> None:
    """Show a message if there is a desktop. Never raises; what can't be shown is logged."""
    await asyncio.to_thread(_show, title[:MAX_TITLE], body[:MAX_BODY], os.environ)


def has_desktop() -> bool:
    """Whether messages can be shown here. May block for a moment."""
    return _command("", "", os.environ) is not None


def _command(title: str, body: str, environ: Mapping[str, str]) -> list[str] | None:
    """What shows a message here, if anything does."""
    if sys.platform == "darwin":
        words = [word for line in _SCRIPT for word in ("-e", line)]
        return ["osascript", *words, title, body]
    has_desktop = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    program = shutil.which("notify-send", path=environ.get("PATH")) if has_desktop else None
    # its text is markup
    return [program, "--app-name=fairlead", "--", title, html.escape(body, quote=False)] if program else None


def _show(title: str, body: str, environ: Mapping[str, str]) -> None:
    try:
        command = _command(title, body, environ)
        if command is not None:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SHOW_WAIT,
                check=False,
            )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        log.info("a message could not be shown on the desktop: %s", error)
