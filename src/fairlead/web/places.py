"""Where the console's files are, and at which address it listens."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pwd
import socket
from typing import NamedTuple

from ..system.files import replace_file
from ..system.settings import SettingError, Settings

LOOPBACK, LOOPBACK_6 = "127.0.0.1", "::1"
ANYWHERE, ANYWHERE_6 = "0.0.0.0", "::"


class Places:
    """The files of the console."""

    def __init__(self, settings: Settings) -> None:
        self.socket = f"{settings.runtime_dir}/web.sock"
        self.lock = f"{settings.runtime_dir}/web.lock"
        self.log = f"{settings.state_dir}/web.log"
        self.book = f"{settings.state_dir}/web.json"
        self.pushes = f"{settings.state_dir}/web.push.json"
        self.push_key = f"{settings.state_dir}/web.push.key"
        self._port = f"{settings.state_dir}/web.port"

    def last_port(self) -> int:
        """The port of last time; 0 if there was none."""
        with contextlib.suppress(OSError, ValueError), open(self._port) as file:
            port = int(file.read(10))
            return port if 0 < port <= 0xFFFF else 0
        return 0

    def note_port(self, port: int) -> None:
        with contextlib.suppress(OSError):
            replace_file(self._port, f"{port}\n".encode())


class Users(NamedTuple):
    """The users whose processes of this machine may connect."""

    ids: frozenset[int]
    is_proxied: bool = False

    def objection(self, uid: int) -> str:
        """Why a user's processes may not connect; empty if they may."""
        if uid in self.ids:
            return ""
        if not self.is_proxied:
            return "the console is for the user who started it"
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        return f"a proxy runs as root, as who started the console, or as --proxy-user says, not as {user}"


class Listening(NamedTuple):
    """Where browsers arrive."""

    host: str = LOOPBACK
    port: int = 0
    certificate: str = ""
    key: str = ""
    origin: str = ""
    """The address that a proxy on this machine serves us under."""
    proxy_user: str = ""
    """Whose process that is, if it is neither ours nor root's."""

    @property
    def shown(self) -> str:
        """The host as it stands in addresses."""
        return bracketed(self.host)

    @property
    def users(self) -> Users:
        """Whose processes may connect. Root may do everything anyhow, and many proxies are its processes;
        without a proxy it has no reason to."""
        if not self.origin:
            return Users(frozenset((os.getuid(),)))
        named = (uid_of(self.proxy_user),) if self.proxy_user else ()
        return Users(frozenset((os.getuid(), 0, *named)), is_proxied=True)

    @property
    def is_near(self) -> bool:
        """True if only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    @property
    def words(self) -> list[str]:
        """The same as words of a command line."""
        found = ["--listen", f"{self.shown}:{self.port}"]
        for name, value in (
            ("--cert", self.certificate),
            ("--key", self.key),
            ("--origin", self.origin),
            ("--proxy-user", self.proxy_user),
        ):
            found += [name, value] if value else []
        return found

    def origins(self, port: int) -> frozenset[str]:
        """The addresses under which pages may call us, as browsers write them."""
        # where we don't listen, another one may be
        hosts = {self.host, "localhost"} if self.is_near else set()
        hosts |= {LOOPBACK} if self.is_near and ":" not in self.host else set()
        if not self.is_near:
            hosts |= {*own_addresses(self.host), *own_names()}
        usual = {"http": 80, "https": 443}[self.scheme]
        end = "" if port == usual else f":{port}"
        ours = {f"{self.scheme}://{bracketed(host)}{end}" for host in hosts}
        return frozenset(ours | ({self.origin} if self.origin else set()))

    def base(self, port: int) -> str:
        """The address in links."""
        if self.origin:
            return self.origin
        host = self.host
        if host in (ANYWHERE, ANYWHERE_6):
            host = next(iter(own_addresses(host)), LOOPBACK)
        return f"{self.scheme}://{bracketed(host)}:{port}"

    def warnings(self) -> list[str]:
        """What is missing for others to be kept out."""
        if self.is_near or self.certificate:
            return []
        return [
            "there is no TLS: whoever is in the same network can read along and take over; "
            "give --cert and --key, or listen on 127.0.0.1 behind a proxy that has TLS, with --origin"
        ]


def bracketed(host: str) -> str:
    """A host as it stands in addresses."""
    return f"[{host}]" if ":" in host else host


def uid_of(user: str) -> int:
    """The id of a user of this machine. Raises SettingError."""
    try:
        return int(user) if user.isdecimal() and user.isascii() else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise SettingError(f"--proxy-user: there is no user {user!r}") from None


def listening_at(
    listen: str,
    certificate: str = "",
    key: str = "",
    origin: str = "",
    *,
    proxy_user: str = "",
    insecure: bool = False,
) -> Listening:
    """Where to listen, from what a person wrote. Raises SettingError."""
    host, _, port = listen.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_clear = is_bracketed or not any(each in host for each in ":[]")
    if not is_clear or not port.isdecimal() or not port.isascii() or int(port) > 0xFFFF:
        raise SettingError(f"--listen takes HOST:PORT, such as 127.0.0.1:7433 or [::1]:7433, not {listen!r}")
    if proxy_user and not origin:
        raise SettingError("--proxy-user goes with --origin")
    if proxy_user:
        uid_of(proxy_user)
    if bool(certificate) != bool(key):
        raise SettingError("--cert and --key go together")
    for path in (certificate, key):
        if path and not os.path.isfile(path):
            raise SettingError(f"there is no file {path}")
    address = _address_of(host[1:-1] if is_bracketed else host or LOOPBACK, is_bracketed=is_bracketed)
    scheme, _, rest = origin.partition("://")
    if origin and (scheme not in ("http", "https") or not rest or "/" in rest):
        raise SettingError(f"--origin is an address such as https://laptop.example.ts.net, not {origin!r}")
    found = Listening(address, int(port), certificate, key, origin.lower(), proxy_user)
    if not found.is_near and not certificate and not insecure:
        raise SettingError(f"{found.warnings()[0]}. --insecure does it all the same")
    return found


def _address_of(host: str, *, is_bracketed: bool) -> str:
    """The address of a host, of IPv4 if it has one. Raises SettingError."""
    families = (socket.AF_INET6,) if is_bracketed else (socket.AF_INET, socket.AF_INET6)
    why: Exception = ValueError("it has none")
    for family in families:
        try:
            if is_bracketed:
                return str(ipaddress.IPv6Address(host.partition("%")[0]))
            return str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0])
        except (OSError, ValueError) as error:
            why = error
    raise SettingError(f"--listen: no address for {host!r}: {why}")


def own_addresses(host: str) -> list[str]:
    """The addresses at which we can be reached if we listen at this one, that for others first."""
    if host not in (ANYWHERE, ANYWHERE_6):
        return [host]
    families = [(socket.AF_INET, "192.0.2.1", LOOPBACK)]
    if host == ANYWHERE_6:
        families.append((socket.AF_INET6, "2001:db8::1", LOOPBACK_6))
    found = []
    for family, other, _ in families:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))  # nothing is sent; it only asks which of our addresses would be used
            found.append(str(probe.getsockname()[0]))
    for family, _, loopback in families:
        found.append(loopback)
        with contextlib.suppress(OSError):
            named = socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM)
            found += [str(each[4][0]).partition("%")[0] for each in named]
    return list(dict.fromkeys(found))


def own_names() -> set[str]:
    """The names of this machine."""
    name = socket.gethostname().lower()
    return {name, f"{name.partition('.')[0]}.local", "localhost"}
