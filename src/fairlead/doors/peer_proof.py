"""Who is at the other end of a TCP connection on this machine, and the token for those who can't be seen."""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..keeper.credentials import is_gone, peer_pid
from ..system.processes import agent_of, has_proc, holds, is_apart, pids, user_of

MAX_TABLE = 8 * 1024 * 1024
"""How many bytes of the kernel's table of sockets are looked at."""
TOKEN_BYTES = 32
MAX_TOKEN = 256
"""How many characters of a token are compared."""

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in the table of IPv6


def peer_uid(connection: socket.socket) -> int | None:
    """The user whose socket is the other end of a connection over TCP, or None if that is not known.

    Linux tells: if asked for one socket by netlink, else in its tables of all sockets, which takes longer the
    more there are. A socket that nobody holds any more has no inode, and stands under user 0: that says
    nothing about its user.
    """
    owner = _peer_owner(connection)
    return owner[0] if owner is not None else None


Programs = Callable[[], Mapping[int, str]]
"""Returns the processes that are known to be an agent's, with the agent's session."""


GONE = "unknown: the process that connected is gone"
UNSEEN = "unknown: nobody visible holds the connection; use passepartout.sock instead"


class Behind(NamedTuple):
    """Who is at the other end of a connection, as far as that is not simply a person."""

    agent: str = ""
    """The agent session one of whose commands it is, or why it may be one; empty for a person's."""
    is_confined: bool = False
    """Whether that command is in a sandbox: then it must not reach anything through us."""


def agent_behind(connection: socket.socket | None, programs: Programs) -> str:
    """The agent session one of whose commands is the other end of a connection; empty if none is known."""
    return behind(connection, programs).agent


def behind(connection: socket.socket | None, programs: Programs) -> Behind:
    """Whose the other end of a connection is. May take a while: it looks at processes.

    A client that is gone, and perhaps left its connection to another process, is taken for an agent's. So is
    one over TCP that nobody seems to hold while any process of an agent runs, as that may hide it.
    """
    if connection is None:
        return Behind()
    if connection.family == socket.AF_UNIX:
        pid = peer_pid(connection)
        found = agent_of(pid, programs()) if pid is not None else ""
        if found is None or is_gone(connection):
            return Behind(GONE)
        return Behind(found, bool(found) and pid is not None and is_apart(pid))
    if not has_proc():
        return Behind()
    owner = _peer_owner(connection)
    if owner is None:
        return Behind(GONE)
    return _holder(owner, programs()) if owner[0] == os.getuid() else Behind()


def _holder(owner: tuple[int, int], known: Mapping[int, str]) -> Behind:
    """Whose the socket of this user and inode is."""
    target = f"socket:[{owner[1]}]"
    others, is_seen = [], False
    for pid in pids():
        if not holds(pid, target):
            others.append(pid)
        elif agent := agent_of(pid, known):
            return Behind(agent, is_apart(pid))
        else:
            is_seen = True
    if is_seen:
        return Behind()
    agents = [pid for pid in others if user_of(pid) == owner[0] and agent_of(pid, known)]
    return Behind(UNSEEN, any(map(is_apart, agents))) if agents else Behind()


def _peer_owner(connection: socket.socket) -> tuple[int, int] | None:
    """The user and the inode of the socket at the other end."""
    try:
        ours, theirs = _plain(connection.getsockname()), _plain(connection.getpeername())
    except OSError:
        return None
    try:
        return owner_by_netlink(theirs, ours)
    except (OSError, AttributeError):  # not Linux, or a kernel without it
        return owner_in_table(theirs, ours)


Address = tuple[str, int]


def _plain(name: Any) -> Address:
    """A socket's name without the interface; an address of IPv4 as such also where it is in one of IPv6."""
    host = name[0].partition("%")[0]
    return (host.removeprefix("::ffff:") if "." in host else host, name[1])


_ASK = struct.Struct("=IHHII")  # length, type, flags, sequence, port of who asks
_WHICH = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_SOCKET = struct.Struct("!HH16s16s")  # its own port, the other one, and the addresses of both
_ANY_OF_IT = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # interface, cookie
_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2
_NETLINK_WAIT = 1.0
_ANSWER = 8192


def owner_by_netlink(local: Address, remote: Address) -> tuple[int, int] | None:
    """The user and the inode of the TCP socket with these ends: sock_diag(7).

    Raises OSError where it can't be asked.
    """
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    ends = (socket.inet_pton(family, each[0]).ljust(16, b"\0") for each in (local, remote))
    wanted = _SOCKET.pack(local[1], remote[1], *ends)
    which = _WHICH.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + wanted + _ANY_OF_IT
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(_NETLINK_WAIT)
        kernel.sendto(_ASK.pack(_ASK.size + len(which), _BY_FAMILY, _REQUEST, 1, 0) + which, (0, 0))
        answer = kernel.recv(_ANSWER)
    _, kind, *_ = _ASK.unpack_from(answer)
    body = answer[_ASK.size :]
    if kind == _ERROR:
        number = -struct.unpack_from("=i", body)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    is_mapped = body[:1] == bytes([socket.AF_INET6]) and family == socket.AF_INET
    mapped = _mapped(wanted) if is_mapped else wanted
    if kind != _BY_FAMILY or body[4 : 4 + _SOCKET.size] != mapped:  # it found who listens there
        return None
    uid, inode = struct.unpack_from("=II", body, 4 + _SOCKET.size + len(_ANY_OF_IT) + 12)
    return (int(uid), int(inode)) if inode else None


def _mapped(ends: bytes) -> bytes:
    """The ends of a socket with IPv4 addresses as one of IPv6 has them."""
    ports, ours, theirs = ends[:4], ends[4:8], ends[20:24]
    prefix = bytes(10) + b"\xff\xff"
    return ports + prefix + ours + prefix + theirs


def owner_in_table(local: Address, remote: Address) -> tuple[int, int] | None:
    """The same by /proc/net/tcp, and by that of IPv6, where IPv4 may be inside of it."""
    is_six = ":" in local[0]
    for path in _TABLES[is_six:]:
        prefix = _MAPPED if path.endswith("6") and not is_six else ""
        wanted = f" {prefix}{_hex(*local)} {prefix}{_hex(*remote)} ".encode()
        with contextlib.suppress(OSError), open(path, "rb") as table:
            rows = table.read(MAX_TABLE)
            at = rows.find(wanted)
            if at >= 0:
                words = rows[at : rows.find(b"\n", at)].split()
                uid, inode = int(words[6]), int(words[8])
                return (uid, inode) if inode else None
    return None


def _hex(host: str, port: int) -> str:
    """An address as the kernel prints it: each four bytes as one number of this machine."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    numbers = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{each:08X}' for each in numbers)}:{port:04X}"


class Token:
    """The token in its file, which only our user can read. It is made when it is first needed."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> str:
        """The token. Raises OSError."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return self._made()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{self._path} must be a file readable only by its owner: chmod 600")
        with open(self._path, encoding="ascii") as file:
            token = file.read(MAX_TOKEN).strip()
        if len(token) < TOKEN_BYTES:
            raise PermissionError(
                f"{self._path} does not contain a token; remove it, and a new one is created"
            )
        return token

    def _made(self) -> str:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        part = f"{self._path}.{secrets.token_hex(4)}"
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        try:
            os.link(part, self._path)  # the first one stays
        except FileExistsError:
            return self.read()
        finally:
            os.unlink(part)
        return token

    def is_right(self, given: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        try:
            token = self.read()
        except OSError:
            return False
        return hmac.compare_digest(given[:MAX_TOKEN].encode("utf-8", "replace"), token.encode())
