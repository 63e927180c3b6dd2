"""All links of a daemon to other hosts: which there are, what they know, and what is passed on to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..client.hosts.dial import HostAway, HostRefused, fleet_path
from ..doors.rpc.handlers import OpError
from ..formats.writing import Verbatim
from ..system.settings import Settings
from ..wire.rpc import ErrorCode, fields
from . import limits
from .connection import FarConnection
from .dialing import Dialer
from .fleet import FleetNames
from .kept import KeptHost, KeptHosts
from .link import HeardEvent, HostLink
from .passing import HERE, Passing

log = logging.getLogger("fairlead")

Tell = Callable[[str, Mapping[Any, Any]], None]
FLEET = "fleet"


class HostsRoom:
    """The other hosts. `tell` gets what happens in their sessions, and to them, as topic and data."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings = settings
        self._tell = tell
        self._dialer = Dialer(settings)
        self._reading = ThreadPoolExecutor(2, "hosts-read")
        self._kept = KeptHosts(f"{settings.state_dir}/hosts")
        self._wanted: dict[str, Any] = {}  # what each host is reached by, also while its link is being made
        self._table: Mapping[str, Any] = {}
        self._links: dict[str, HostLink] = {}
        self._passing: dict[str, Passing] = {}
        self._fleet: FleetNames | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._keeping: asyncio.TimerHandle | None = None
        self._is_closed = False

    # --- which there are ------------------------------------------------------------------------------------

    def set_table(self, table: Mapping[str, Any], *, has_fleet: bool) -> None:
        """These are the hosts that were added here; others the fleet's process knows, if there is one."""
        self._table = table
        if has_fleet and self._fleet is None:
            self._fleet = FleetNames(fleet_path(self._settings), self._set_hosts)
        elif not has_fleet and self._fleet is not None:
            self._soon(self._fleet.close())
            self._fleet = None
        self._set_hosts()

    def _set_hosts(self) -> None:
        names = self._fleet.names if self._fleet is not None else ()
        wanted = {**dict.fromkeys(names, FLEET), **self._table}
        for name in [name for name, how in self._wanted.items() if wanted.get(name) != how]:
            del self._wanted[name]
            self._soon(self._end(name, is_gone=name not in wanted))
        for name, how in wanted.items():
            if name not in self._wanted:
                self._wanted[name] = how
                self._soon(self._start(name, how))

    async def _start(self, name: str, how: Any) -> None:
        kept, texts = await asyncio.to_thread(self._kept.load_texts, name)
        if self._wanted.get(name) != how or self._is_closed:
            return
        kind = FLEET if how == FLEET else "command" if getattr(how, "command", ()) else "ssh"
        self._passing[name] = Passing(name, lambda via, agent: self._caller(name, via, agent), self._reading)
        self._links[name] = HostLink(
            name,
            kind,
            lambda heard: self._opened(name, heard),
            lambda link, topic, data: self._tell(topic, data),
            self._changed,
            kept,
            texts,
        )

    async def _end(self, name: str, *, is_gone: bool) -> None:
        link, passing = self._links.pop(name, None), self._passing.pop(name, None)
        if passing is not None:
            await passing.close()
        if link is not None:
            await link.close()
        if is_gone:
            await asyncio.to_thread(self._kept.forget, name)
            self._tell("hosts/state", fields(host=name, state="removed", why=""))

    def _soon(self, doing: Any) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a change of the hosts failed", exc_info=error)

    # --- connections ----------------------------------------------------------------------------------------

    async def _opened(self, name: str, heard: HeardEvent) -> FarConnection:
        stream = await self._dialer.control(name)
        return await FarConnection.open(stream, self._reading, via=f"{HERE}: list", on_event=heard)

    async def _caller(self, name: str, via: str, agent: str) -> FarConnection:
        """A connection for somebody who asks. Nobody waits for a host that is known to be away."""
        link = self._links.get(name)
        if link is None or not link.is_here:
            why = link.why if link is not None and link.why else "it is being connected to"
            if link is not None:
                link.poke()
            raise OpError(ErrorCode.FAILED, f"{name} is away: {why}")
        try:
            stream = await self._dialer.control(name)
        except (HostAway, HostRefused) as error:
            raise ConnectionError(error.why) from None
        return await FarConnection.open(stream, self._reading, via=via, agent=agent)

    # --- what others ask ------------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return name in self._wanted

    async def ask(self, host: str, op: str, params: Mapping[Any, Any], *, via: str, agent: str) -> Any:
        """The data of a far daemon's answer. Raises OpError."""
        await self._wait_for_links(host)
        passing = self._passing.get(host)
        if passing is None:
            raise ConnectionError(f"there is no host {host!r} any more")
        return await passing.ask(op, params, via=via, agent=agent)

    @property
    def _in_order(self) -> list[HostLink]:
        return [self._links[name] for name in self._wanted if name in self._links]

    def sessions(self, kind: str | None) -> Sequence[Any]:
        now = asyncio.get_running_loop().time()
        return [Verbatim(text) for link in self._in_order for text in link.session_texts(kind, now)]

    def questions(self) -> Sequence[Any]:
        return [Verbatim(text) for link in self._in_order for text in link.question_texts()]

    async def reports(self, limit: int) -> Sequence[Any]:
        lists = await asyncio.gather(*(link.reports(limit) for link in self._in_order))
        return [row for rows in lists for row in rows]

    def hosts(self) -> Sequence[Mapping[str, Any]]:
        return [link.row for link in self._in_order]

    async def begun(self) -> None:
        """Wait a moment for hosts that have only just begun to be connected to, and for no others."""
        await self._wait_for_links(*self._wanted)
        now = time.monotonic()
        left = {link: link.made_at + limits.FIRST_TRY - now for link in self._in_order if link.is_new}
        trying = [asyncio.ensure_future(link.tried.wait()) for link, seconds in left.items() if seconds > 0]
        if trying:
            await asyncio.wait(trying, timeout=max(left.values()))
            for each in trying:
                each.cancel()

    async def _wait_for_links(self, *names: str) -> None:
        """Wait while what was known of hosts is read."""
        while not self._is_closed and any(n in self._wanted and n not in self._links for n in names):
            await asyncio.sleep(0.01)

    async def check(self, name: str | None) -> None:
        """Try hosts that are away, now; wait for one that is named."""
        await self._wait_for_links(*([name] if name else ()))
        tried = {link.name: link.poke() for link in self._in_order if name in (None, link.name)}
        if name in tried:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.CHECK_WAIT):
                    await tried[name].wait()

    # --- what changes ---------------------------------------------------------------------------------------

    def _changed(self, link: HostLink, is_state: bool) -> None:
        if is_state:
            self._tell("hosts/state", fields(host=link.name, state=link.state, why=link.why))
        else:
            self._tell("hosts/changed", fields(host=link.name))
        if self._keeping is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._keeping = loop.call_later(limits.KEEP_EVERY, lambda: self._soon(self._keep()))

    async def _keep(self) -> None:
        """Write down what changed."""
        self._keeping = None
        for link in self._in_order:
            if link.is_unkept:
                link.is_unkept = False
                known: KeptHost = link.kept
                await asyncio.to_thread(self._kept.keep, link.name, known)

    async def close(self) -> None:
        self._is_closed = True
        if self._keeping is not None:
            self._keeping.cancel()
        if self._fleet is not None:
            await self._fleet.close()
        closing = [each.close() for each in self._passing.values()]
        closing += [each.close() for each in self._in_order]
        await asyncio.gather(*closing, return_exceptions=True)
        await self._keep()
        for task in list(self._tasks):
            task.cancel()
        self._dialer.close()
        self._reading.shutdown(wait=False, cancel_futures=True)
