"""Opening the dashboard: the daemon is asked for its sessions while Textual is being loaded."""

from __future__ import annotations

import sys

from ...system.garbage import lasting
from ...system.settings import Settings
from ..plot import Look
from .link import Link

THREAD_SWITCH = 0.001
"""Seconds after which a thread that reads what the daemon says lets that of the terminal have its turn."""

FRAMES = 250
"""How many times a second Textual may draw: what a key does is drawn then. What no key asked for is drawn a
few times a second only, however many this is, so it costs nothing."""


def run(settings: Settings, look: Look) -> int:
    """Show the dashboard until the person leaves; returns the exit code."""
    sys.setswitchinterval(THREAD_SWITCH)
    link = Link(settings)
    link.start()
    with lasting():
        from textual import constants

        constants.MAX_FPS = FRAMES  # type: ignore[misc]  # is read while the rest is loaded
        from .app import Dashboard
    return Dashboard(link, look).run() or 0
