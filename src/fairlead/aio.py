"""The SDK for asyncio: `async with fairlead.aio.connect() as host: …`. See `fairlead.client.aio`."""

from .client.aio import *  # noqa: F403 - the names in its __all__
