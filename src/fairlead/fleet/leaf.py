"""A leaf node of NATS on this machine: a server for its own user, which keeps the connection to the hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket

from ..system.files import replace_file
from ..system.settings import safe_dir
from . import limits
from .places import FleetPlaces
from .server import end_orphan, program

log = logging.getLogger("fairlead.fleet")


class Leaf:
    """A nats-server of ours on loopback. Whoever connects to it needs its token, which is new each time."""

    def __init__(self, hub: str, ca: str | None, places: FleetPlaces) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self._port}"
        self.token = secrets.token_urlsafe(32)
        self._hub = hub
        self._ca = ca
        self._places = places

    @property
    def _pid_file(self) -> str:
        return f"{self._places.leaf}/leaf.pid"

    def _configuration(self) -> str:
        word = json.dumps
        ca = f"ca_file: {word(self._ca)}" if self._ca else ""
        return f"""# Made by `fairlead fleet join --leaf`; changes are overwritten.
server_name: {word("leaf-" + secrets.token_hex(4))}
listen: "127.0.0.1:{self._port}"
authorization {{ token: {word(self.token)} }}
max_payload: {limits.MAX_PAYLOAD}
max_connections: 64
pid_file: {word(self._pid_file)}
write_deadline: "{limits.WRITE_SECONDS}s"
leafnodes {{
  reconnect: "1s"
  remotes [{{
    url: {word(self._hub)}
    credentials: {word(self._places.creds)}
    tls {{
      {ca}
      timeout: 5
    }}
  }}]
}}
"""

    async def run(self) -> None:
        """Keep it running for good. Raises FleetFault if there is no program."""
        path = program()
        safe_dir(self._places.leaf)
        configuration = f"{self._places.leaf}/leaf.conf"
        await end_orphan(self._pid_file, configuration)
        replace_file(configuration, self._configuration().encode())
        pause = limits.RESTART_PAUSE
        while True:
            process = await asyncio.create_subprocess_exec(
                path, "-c", configuration, stdin=asyncio.subprocess.DEVNULL
            )
            try:
                code = await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGTERM)
            log.warning("the leaf node ended with %s; it is started again", code)
            await asyncio.sleep(pause)
            pause = min(2 * pause, limits.MAX_RESTART_PAUSE)
