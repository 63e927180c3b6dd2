"""A leaf node of NATS on this machine: a server for its own user, which keeps the connection to the hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import signal
import socket

from ..system.files import replace_file
from ..system.settings import safe_dir
from . import limits
from .places import FleetPlaces
from .server import end_orphan, program

log = logging.getLogger("fairlead.fleet")

_STAMP = re.compile(r"^\[\d+\] \S+ \S+ ")


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
        self.why = ""
        """Why it does not get to the hub, as it said last,"""
        self.is_refused = False
        """and whether trying again will hardly help."""

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
                path,
                "-c",
                configuration,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr is not None
            try:
                await self._listen(process.stderr)
                code = await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGTERM)
            log.warning("the leaf node ended with %s; it is started again", code)
            await asyncio.sleep(pause)
            pause = min(2 * pause, limits.MAX_RESTART_PAUSE)

    async def _listen(self, said: asyncio.StreamReader) -> None:
        """Log what the leaf node says, and keep why it is cut off, until it ends."""
        while True:
            try:
                line = await said.readline()
            except ValueError:  # a very long one
                continue
            if not line:
                return
            text = _STAMP.sub("", line.decode(errors="replace").strip())
            log.info("the leaf node: %s", text)
            self.note(text)

    def note(self, text: str) -> None:
        """A line came that it has logged."""
        if "JetStream using domains" in text or "[ERR]" not in text:
            return
        low = text.lower()
        reason, is_refused = "", True
        if "authorization" in low or "authentication" in low or "revoked" in low:
            reason = "refuses this credential: it is revoked, has expired, or is another fleet's"
        elif "x509" in low or "certificate" in low:
            more = "" if self._ca else "; give `--ca ca.pem` of the fleet"
            reason = f"has a certificate that is not trusted: {text.rpartition('x509: ')[2]}{more}"
        elif "wrong port" in low or "leafnode port" in low:
            reason = "is not the server's port for leaf nodes, which `fleet init` has called leaf port"
        elif "error trying to connect as leafnode" in low:
            reason, is_refused = f"can't be reached: {text.rpartition('): ')[2]}", False
        if reason:
            self.why, self.is_refused = f"{self._hub} {reason}", is_refused
