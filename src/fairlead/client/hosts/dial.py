"""Dialing: a stream to a far daemon, or to one of its sessions, as if that daemon's own socket were here.

`Dialing` never blocks once it has begun, so that an event loop can wait for it; `dial` waits. The stream is
one end of a pair of sockets, of which ssh has the other end as its standard input and output; or a connection
to the fleet's process. It is returned when the far end has said that it is there, and nothing after that is
read yet.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence

from ... import __version__
from ...keeper.credentials import AGENT_MARK, has_mark
from ...system.settings import SettingError, Settings
from ...wire import link
from ..launch import NoDaemon, StartFailed
from . import ssh
from .table import KnownHost, check_name, hosts

DIAL_WAIT = 30.0
"""Seconds that a host has to answer: to connect, to log in, and to start its daemon if need be."""
ASK_WAIT = 300.0
"""The same where ssh may ask a person for a password."""
END_WAIT = 1.0
"""Seconds that ssh has to end when its stream has ended, so that the reason is known."""
FLEET_WAIT = 1.0
"""Seconds that the fleet's process has to tell its hosts."""
MAX_FLEET = 1024 * 1024
"""How many bytes that may be."""
MAX_SAID = 4096
"""How many bytes of what ssh complains about are read."""

may_ask = False
"""Set by a command at a terminal, which draws nothing there yet: whether ssh may ask a person."""
_running: list[subprocess.Popen[bytes]] = []
"""ssh processes whose end nobody has seen."""


class HostAway(NoDaemon):
    """A host can't be reached now, which may change by itself."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"{host} is away: {why}")
        self.host = host
        self.why = why


class HostRefused(StartFailed):
    """A host can't be used as it is; a person has to do something."""

    def __init__(self, host: str, why: str) -> None:
        NoDaemon.__init__(self, f"{host}: {why}")
        self.host = host
        self.why = why


class NoHost(HostRefused):
    """There is no host of that name."""

    def __init__(self, host: str) -> None:
        NoDaemon.__init__(
            self, f"no host {host!r}; `fairlead host ls` lists them, `fairlead host add NAME` adds one"
        )
        self.host = host
        self.why = "no such host"


class NoFairlead(HostRefused):
    """There is no Fairlead on a host that can be linked to."""

    @classmethod
    def missing(cls, host: str) -> NoFairlead:
        return cls(host, f"fairlead is not installed there; `fairlead host install {host}` installs it")

    @classmethod
    def old(cls, host: str, version: str) -> NoFairlead:
        why = f"{version or 'the fairlead there'} is too old for links, this is {__version__}"
        return cls(host, f"{why}; `fairlead host install {host}` installs this version there")

    @classmethod
    def noisy(cls, host: str) -> NoFairlead:
        why = f"more than {link.MAX_NOISE} bytes came before the link"
        return cls(host, f"{why}; what a shell's start files print must go to terminals only")


class Dialing:
    """A link that is being made. Owns its socket until it is made, and what ssh complains about."""

    def __init__(self, name: str, what: Sequence[str], settings: Settings, *, asks: bool = False) -> None:
        """`what` is `control`, or `terminal` and a session's name. Raises SettingError, HostRefused."""
        self.name = name
        self.greeting: link.Greeting | None = None
        """What the far end has said, once it has."""
        self.until = time.monotonic() + (ASK_WAIT if asks else DIAL_WAIT)
        """When it is given up."""
        self._search = link.Search()
        self._process: subprocess.Popen[bytes] | None = None
        self._said = -1
        self._is_made = False
        self._is_command = False
        host = find(name, settings)
        if host is None:
            self._socket = _fleet(name, what, settings)
        else:
            self._is_command = bool(host.command)
            self._begin(ssh.link(settings, host, what, agent=own_agent(), asks=asks), asks=asks)

    def _begin(self, command: list[str], *, asks: bool) -> None:
        _reap()
        ours, theirs = socket.socketpair()
        self._said, path = tempfile.mkstemp(prefix="fairlead-ssh-")
        os.unlink(path)
        try:
            self._process = subprocess.Popen(
                ssh.ignoring_keys(command) if asks else command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._said,
                start_new_session=not asks,
            )
        except OSError as error:
            ours.close()
            os.close(self._said)
            self._said = -1
            raise HostRefused(self.name, f"can't run {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        _running.append(self._process)
        ours.setblocking(False)
        self._socket = ours

    def fileno(self) -> int:
        """What becomes readable when `receive` has something to do."""
        return self._socket.fileno()

    def receive(self) -> socket.socket | None:
        """Take what has come. Return the stream when the far end has greeted; the caller owns it then. Raises
        HostAway, HostRefused."""
        try:
            while (data := self._peek()) is not None:
                greeting, used = self._search.take(data)
                while used:
                    used -= len(self._socket.recv(used))
                if greeting is not None:
                    self.greeting = greeting
                    return self._greeted(greeting)
                if self._search.is_too_much:
                    raise NoFairlead.noisy(self.name)
            if time.monotonic() > self.until:
                raise HostAway(self.name, f"no answer within {DIAL_WAIT:g} s")
        except NoDaemon:
            self.close()
            raise
        return None

    def _peek(self) -> bytes | None:
        """What can be read, which stays to be read; None if there is nothing."""
        try:
            data = self._socket.recv(link.MAX_LINE, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except ConnectionError:
            data = b""
        if not data:
            raise self._ended()
        return data

    def _greeted(self, said: link.Greeting) -> socket.socket:
        if said.word == link.MISSING:
            raise NoFairlead.missing(self.name)
        if said.word == link.OLD:
            raise NoFairlead.old(self.name, said.text)
        if said.protocol != link.PROTOCOL:
            raise NoFairlead(
                self.name,
                f"its links have version {said.protocol}, ours {link.PROTOCOL}; one of us is too old",
            )
        if said.word == link.FAILED:
            raise HostRefused(self.name, said.text)
        self._is_made = True
        self._close_said()
        return self._socket

    def _ended(self) -> NoDaemon:
        """Why the stream ended before anything was said on it."""
        code = None
        if self._process is not None:
            try:
                code = self._process.wait(END_WAIT)
            except subprocess.TimeoutExpired:
                pass
        said = _last_said(self._said)
        if self._is_command:
            return _no_command(self.name, code, said or [self._search.last_line])
        return reason(self.name, code, said, self._search.last_line)

    def close(self) -> None:
        """Give it up, if the link is not made."""
        if self._is_made:
            return
        self._socket.close()
        self._close_said()
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError):
                self._process.terminate()

    def _close_said(self) -> None:
        if self._said >= 0:
            said, self._said = self._said, -1
            os.close(said)


def _no_command(name: str, code: int | None, said: Sequence[str]) -> NoDaemon:
    """Why the command that leads to a host has ended: what it runs in may be there again later."""
    last = said[-1] if said else ""
    if code in (126, 127):
        return HostRefused(name, f"its command can't be run: {last}")
    return HostAway(name, last or f"its command ended with {code}")


def _last_said(descriptor: int) -> list[str]:
    if descriptor < 0:
        return []
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, MAX_SAID, max(0, size - MAX_SAID)).decode(errors="replace")
    lines = ("".join(filter(str.isprintable, line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


_AWAY = (
    *("timed out", "Connection refused", "No route to host", "unreachable", "Connection closed"),
    *("Connection reset", "Could not resolve", "not responding", "Broken pipe", "lost connection"),
    *("Connection to", "name resolution", "is down", "open failed", "refused by peer", "disconnect"),
)
"""What ssh says of a host that can't be reached now."""


def reason(name: str, code: int | None, said: list[str], noise: str) -> NoDaemon:
    """What is wrong, of what ssh said and how it ended."""
    text = " ".join(said)
    last = said[-1] if said else ""
    if "HOST IDENTIFICATION HAS CHANGED" in text.upper():
        return HostRefused(
            name,
            "its host key has changed, so ssh does not connect; if you know why, `ssh-keygen -R` its address "
            "forgets the old one",
        )
    if "host key verification failed" in text.lower():
        return HostRefused(name, "ssh does not know its host key; connect once with ssh to accept it")
    if "Permission denied" in text:
        return HostRefused(name, f"ssh can't log in there: {last}")
    if code == 255 and (not said or any(each in text for each in _AWAY)):
        return HostAway(name, last or "ssh ended without a reason")
    if code == 255:
        return HostRefused(name, f"ssh says: {last}")
    what = last or noise
    if code is None:
        return HostAway(name, what or "the connection was closed")
    return HostRefused(name, f"no link, exit code {code}{f': {what}' if what else ''}")


def names(settings: Settings) -> dict[str, KnownHost | None]:
    """All hosts by name; those of the fleet without how to reach them. Raises SettingError."""
    found: dict[str, KnownHost | None] = dict.fromkeys(_fleet_names(settings)[0])
    return found | hosts(settings)


def is_own_name(name: str, settings: Settings) -> bool:
    """Whether the fleet knows this host by that name, and no other host has it here. Raises SettingError."""
    return name not in hosts(settings) and name == _fleet_names(settings)[1]


def _fleet_names(settings: Settings) -> tuple[list[str], str]:
    """The hosts that the fleet's process knows now, and what this one is called there; both may be empty."""
    from ..launch import reached

    try:
        connection = reached(fleet_path(settings), FLEET_WAIT)
        if connection is None:
            return [], ""
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b"hosts\n")
            told = json.loads(lines.readline(MAX_FLEET))
        found = [check_name(str(each["name"])) for each in told["hosts"]]
        own = str(told.get("own") or "")  # an older process does not say it
    except (OSError, ValueError, TypeError, KeyError):
        return [], ""
    return found, own


def find(name: str, settings: Settings) -> KnownHost | None:
    """The host of this name in the table, or None if it is one of the fleet. Raises NoHost."""
    try:
        check_name(name)
    except ValueError:
        raise NoHost(name) from None
    if (host := hosts(settings).get(name)) is not None:
        return host
    if os.path.exists(fleet_path(settings)):
        return None
    raise NoHost(name)


def fleet_path(settings: Settings) -> str:
    """Where the fleet's process listens."""
    return f"{settings.runtime_dir}/fleet.sock"


def _fleet(name: str, what: Sequence[str], settings: Settings) -> socket.socket:
    """A connection to the fleet's process, which was told the host and what is wanted."""
    from ..launch import reached

    try:
        connection = reached(fleet_path(settings), DIAL_WAIT)
        if connection is None:
            raise NoHost(name)
        kind, *rest = what
        connection.sendall(" ".join([kind, name, *rest]).encode() + b"\n")
        connection.setblocking(False)
    except OSError as error:
        if isinstance(error, NoDaemon):
            raise
        raise HostAway(name, f"the fleet's process does not answer: {error}") from None
    return connection


def own_agent() -> str:
    """The agent session whose command this process is; empty if it is none's."""
    if mark := os.environ.get(AGENT_MARK):
        return mark
    from ...system.processes import UNNAMED_AGENT, agent_of

    return agent_of(os.getpid(), {}) or (UNNAMED_AGENT if has_mark() else "")


def dial(
    name: str, what: Sequence[str], settings: Settings, *, asks: bool | None = None, wait: float | None = None
) -> socket.socket | None:
    """A link to a host; None if it is to a session that does not exist. Raises HostAway, HostRefused."""
    dialing = Dialing(name, what, settings, asks=may_ask if asks is None else asks)
    if wait is not None:
        dialing.until = min(dialing.until, time.monotonic() + wait)
    try:
        while (stream := dialing.receive()) is None:
            left = max(0.0, dialing.until - time.monotonic())
            poll = select.poll()
            poll.register(dialing.fileno(), select.POLLIN)
            poll.poll(left * 1000 + 1)
    except BaseException:
        dialing.close()
        raise
    if dialing.greeting is not None and dialing.greeting.word == link.ABSENT:
        stream.close()
        return None
    stream.setblocking(True)
    return stream


def dial_control(settings: Settings) -> socket.socket:
    """A link to the daemon of the settings' host."""
    stream = dial(settings.host, ["control"], settings)
    if stream is None:
        raise SettingError(f"{settings.host} has no daemon to be linked to")
    return stream


def _reap() -> None:
    """See which ssh processes have ended, so that none stays as a zombie for long."""
    _running[:] = [each for each in _running if each.poll() is None]
