"""The SDK for asyncio: `async with fairlead.aio.connect() as host: …`. See `fairlead.client.aio`."""

from .client.aio import Attached, Ended, Events, Host, RequestError, Terminal, connect

__all__ = ["Attached", "Ended", "Events", "Host", "RequestError", "Terminal", "connect"]
