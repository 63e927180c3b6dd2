"""The SDK for asyncio: `async with fairlead.aio.connect() as host: …`. See `fairlead.client.aio`."""

from .client.aio import Agent, Attached, Ended, Events, Host, RequestError, Terminal, TurnFailed, connect

__all__ = [
    "Agent",
    "Attached",
    "Ended",
    "Events",
    "Host",
    "RequestError",
    "Terminal",
    "TurnFailed",
    "connect",
]
