"""Fairlead hosts coding-agent sessions and serves them through four wire protocols."""

from __future__ import annotations

TYPE_CHECKING = False  # typing has the same, but importing it is a fifth of the start of a command
if TYPE_CHECKING:
    from .client.sdk import Host

__version__ = "0.1.0"


def connect() -> Host:
    """Connect to the daemon, which is started if need be: `with fairlead.connect() as host: …`."""
    from .client import sdk

    return sdk.connect()
