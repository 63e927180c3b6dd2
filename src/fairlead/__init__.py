"""Fairlead hosts coding-agent sessions and serves them through four wire protocols."""

from __future__ import annotations

TYPE_CHECKING = False  # typing has the same, but importing it is a fifth of the start of a command
if TYPE_CHECKING:
    from .client.calls import Ended as Ended
    from .client.calls import RequestError as RequestError
    from .client.following import TurnFailed as TurnFailed
    from .client.sdk import Host

__version__ = "0.1.0"

_LATER = {
    "Ended": ".client.calls",
    "RequestError": ".client.calls",
    "TurnFailed": ".client.following",
}


def connect(host: str | None = None) -> Host:
    """Connect to the daemon; starts it if there is none: `with fairlead.connect() as host: …`. With the name
    of a `host` of `fairlead host ls`, to the daemon there."""
    from .client import sdk

    return sdk.connect(host=host)


if not TYPE_CHECKING:  # or any name would seem to be there

    def __getattr__(name: str) -> object:
        """What is imported only when it is used, as every command begins with this module."""
        from importlib import import_module

        if name in ("aio", "events", "plugins"):
            return import_module(f".{name}", __name__)
        if name in _LATER:
            return getattr(import_module(_LATER[name], __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
