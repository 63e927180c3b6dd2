"""Fairlead hosts coding-agent sessions and serves them through four wire protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client.sdk import Host

__version__ = "0.1.0"


def connect() -> Host:
    """Connect to the daemon, which is started if need be: `with fairlead.connect() as host: …`."""
    from .client import sdk

    return sdk.connect()
