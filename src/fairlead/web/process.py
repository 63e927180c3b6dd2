"""The console's process: its lock, its sockets, its log, and the requests of `fairlead web` over `web.sock`.

It is a client of the daemon like others, so what it does can't hold up terminals, and it survives the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import uvicorn

from .. import __version__
from ..doors.listening import UnixServer
from ..doors.peer_proof import agent_behind
from ..keeper.credentials import is_our_user
from ..system.console_address import note_address
from ..system.logfile import LogFile
from ..system.processes import agent_of
from ..system.settings import SettingError, Settings, safe_dir
from . import limits
from .accepting import Connection, Entrance
from .access import Access, AccessRefused
from .app import App
from .frames import FrameProtocol
from .hub import Hub
from .peers import protocol_for
from .places import ANYWHERE_6, Listening, Places, Users
from .push_post import own_service

log = logging.getLogger("fairlead.web")

MAX_REQUEST = 16 * 1024
REQUEST_SECONDS = 10.0
STOP_LOOK = 0.25
"""Seconds between two looks whether it is to stop."""
TIDY_EVERY = 5.0
"""Seconds between two looks at what has expired."""


class AlreadyServed(Exception):
    """Another process serves the console."""


def run(settings: Settings, listen: Listening, ready: Callable[[], None]) -> None:
    """Serve until told to stop. Raises AlreadyServed, SettingError or OSError."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    places = Places(settings)
    try:
        own_service(settings.text("notify", "push_service"))
    except ValueError as error:
        raise settings.located(error) from None
    if (agent := agent_of(os.getpid(), {})) != "":
        raise SettingError(f"an agent's command can't start the console ({agent or 'unknown'})")
    lock = os.open(places.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise AlreadyServed from None
    logfile = LogFile(
        places.log, settings.count("daemon", "log_bytes"), settings.count("daemon", "log_count")
    )
    logfile.log_here()
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    bound = _bound(listen, places)
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        note_address(settings, listen.base(bound.getsockname()[1]))
        with asyncio.Runner() as runner:
            runner.run(_Process(settings, places, listen, bound, logfile).serve(ready))
    finally:
        bound.close()
        with contextlib.suppress(OSError):
            note_address(settings, "")
        os.close(lock)


def _bound(listen: Listening, places: Places) -> socket.socket:
    """The socket at which browsers arrive. Without a port it is the one of last time, so that installed pages
    find it again."""
    ports = [listen.port] if listen.port else [places.last_port(), 0]
    for port in ports:
        bound = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:  # `::` is all addresses, those of IPv4 too
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(listen.host != ANYWHERE_6))
        try:
            bound.bind((listen.host, port))
            bound.listen(limits.MAX_CONNECTIONS)
        except OSError as error:
            bound.close()
            if port != ports[-1]:
                continue
            raise OSError(f"can't listen at {listen.shown}:{port}: {error.strerror}") from None
        places.note_port(bound.getsockname()[1])
        return bound
    raise AssertionError


class _Server(uvicorn.Server):
    """uvicorn's server with an entrance of ours, and without the work that uvicorn does ten times a second
    for headers that we don't send."""

    users = Users(frozenset())
    _entrances: Sequence[Entrance] = ()

    async def main_loop(self) -> None:
        while not self.should_exit:
            await asyncio.sleep(STOP_LOOK)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        loop = asyncio.get_running_loop()

        def connected(connection: Connection) -> asyncio.Protocol:
            state = {"connection": connection}
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=state, _loop=loop
            )
            return made

        self.servers = []
        self._entrances = [Entrance(each, connected, config.ssl, users=self.users) for each in sockets or ()]
        for entrance in self._entrances:
            entrance.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._entrances:
            each.close()
        await super().shutdown(sockets)


class _Process:
    """Everything that runs in it."""

    def __init__(
        self,
        settings: Settings,
        places: Places,
        listen: Listening,
        bound: socket.socket,
        logfile: LogFile,
    ) -> None:
        self._places = places
        self._listen = listen
        self._bound = bound
        self._logfile = logfile
        self._hub = Hub(settings)
        self._access = Access(places.book)
        port = bound.getsockname()[1]
        self._origins = listen.origins(port)
        self._app = App(
            self._hub,
            self._access,
            port,
            self._origins,
            has_tls=bool(listen.certificate),
            proxied=listen.origin,
        )
        self._app.console.base = listen.base(port)
        self._server = _Server(
            uvicorn.Config(
                self._app.guard,
                http=protocol_for(self._hub.agent_programs, listen.users),
                ws=FrameProtocol,
                ws_max_size=limits.MAX_KEYS,
                ws_per_message_deflate=False,
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                h11_max_incomplete_event_size=limits.MAX_HEADER,
                timeout_keep_alive=limits.IDLE_SECONDS,
                timeout_graceful_shutdown=2,
                ssl_certfile=listen.certificate or None,
                ssl_keyfile=listen.key or None,
            )
        )

        self._server.users = listen.users

    async def serve(self, ready: Callable[[], None]) -> None:
        control = UnixServer(self._places.socket, self._controlling)
        await control.open()
        following = asyncio.ensure_future(self._hub.run())
        tidying = asyncio.ensure_future(self._tidy(control))
        comparing = asyncio.ensure_future(self._app.console.run())
        pushing = asyncio.ensure_future(self._app.pushes.run())
        log.info("serving browsers at %s", self._app.console.base)
        try:
            serving = asyncio.ensure_future(self._server.serve(sockets=[self._bound]))
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.005)
            ready()
            running = (serving, following, tidying, comparing, pushing)
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in running:
                if each.done():
                    each.result()
        finally:
            control.close()
            others = (following, tidying, comparing, pushing, serving)
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._hub.close()

    async def _tidy(self, control: UnixServer) -> None:
        while True:
            await asyncio.sleep(TIDY_EVERY)
            await control.mend()
            self._access.tidy()
            self._app.pushes.tidy()
            self._logfile.rotate_if_due()

    # --- the command's requests ---------------------------------------------------------------------------

    def _controlling(self) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(limit=MAX_REQUEST)
        return asyncio.StreamReaderProtocol(reader, self._controlled)

    async def _controlled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a person's command: a line of JSON, and one back."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                connection = writer.get_extra_info("socket")
                programs = await self._hub.agent_programs()
                agent = await asyncio.to_thread(agent_behind, connection, lambda: programs)
                line = await reader.readline()
                if not is_our_user(connection) or agent:
                    raise AccessRefused(
                        f"only a person decides who comes in, and an agent's command asks ({agent})"
                    )
                if len(line) > MAX_REQUEST:
                    raise AccessRefused("the request is too long", "web/too-big", 413)
                answer = {"ok": True, "data": await self._answer(json.loads(line))}
        except AccessRefused as error:
            answer = {"ok": False, "error": {"code": error.code, "message": str(error)}}
        except (ValueError, KeyError, TypeError, OSError, TimeoutError) as error:
            answer = {
                "ok": False,
                "error": {"code": "web/failed", "message": str(error) or "it took too long"},
            }
        with contextlib.suppress(OSError):
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        console = self._app.console
        match asked["ask"]:
            case "status":
                far = not self._listen.is_near or bool(self._listen.origin)
                about = {"far": far, "warnings": self._listen.warnings()}
                return {"pid": os.getpid(), "version": __version__, "base": console.base} | about
            case "link":
                return {"link": console.link(self._access.ticket()), "warnings": self._listen.warnings()}
            case "share":
                return await console.shared(asked.get("name"), asked.get("role"), asked.get("seconds"))
            case "sessions":
                return console.listed()
            case "revoke":
                return {"ended": self._access.revoke(str(asked["id"]))}
            case "confirm":
                self._access.confirm(str(asked["code"]), allowed=asked.get("allowed") is True)
                return {}
            case "token":
                grant, token = self._access.token(asked["scope"], asked["name"], float(asked["seconds"]))
                return {"id": grant.id, "token": token, "until": grant.until}
            case "stop":
                self._server.should_exit = True
                return {}
        raise AccessRefused("there is no such request", "request/not-found", 404)
