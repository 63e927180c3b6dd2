"""Where the console's files are, and at which address it listens."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import NamedTuple

from ..system.files import replace_file
from ..system.settings import SettingError, Settings

LOOPBACK = "127.0.0.1"


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


class Listening(NamedTuple):
    """Where browsers arrive."""

    host: str = LOOPBACK
    port: int = 0
    certificate: str = ""
    key: str = ""
    origin: str = ""
    """The address that a proxy on this machine serves us under."""

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
        found = ["--listen", f"{self.host}:{self.port}"]
        for name, value in (("--cert", self.certificate), ("--key", self.key), ("--origin", self.origin)):
            found += [name, value] if value else []
        return found

    def origins(self, port: int) -> frozenset[str]:
        """The addresses under which pages may call us, as browsers write them."""
        hosts = {self.host, LOOPBACK, "localhost"} if self.is_near else set()
        if not self.is_near:
            hosts |= {*own_addresses(self.host), *own_names()}
        usual = {"http": 80, "https": 443}[self.scheme]
        end = "" if port == usual else f":{port}"
        return frozenset(
            {f"{self.scheme}://{host}{end}" for host in hosts} | ({self.origin} if self.origin else set())
        )

    def base(self, port: int) -> str:
        """The address in links."""
        if self.origin:
            return self.origin
        host = self.host if self.host != "0.0.0.0" else next(iter(own_addresses(self.host)), LOOPBACK)
        return f"{self.scheme}://{host}:{port}"

    def warnings(self) -> list[str]:
        """What is missing for others to be kept out."""
        if self.is_near or self.certificate:
            return []
        return [
            "there is no TLS: whoever is in the same network can read along and take over; "
            "give --cert and --key, or listen on 127.0.0.1 behind a proxy that has TLS, with --origin"
        ]


def listening_at(
    listen: str, certificate: str = "", key: str = "", origin: str = "", *, insecure: bool = False
) -> Listening:
    """Where to listen, from what a person wrote. Raises SettingError."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 0xFFFF:
        raise SettingError(f"--listen takes HOST:PORT, such as 127.0.0.1:7433, not {listen!r}")
    if bool(certificate) != bool(key):
        raise SettingError("--cert and --key go together")
    for path in (certificate, key):
        if path and not os.path.isfile(path):
            raise SettingError(f"there is no file {path}")
    try:
        address = socket.gethostbyname(host or LOOPBACK)
    except OSError as error:
        raise SettingError(f"--listen: no IPv4 address for {host!r}: {error}") from None
    scheme, _, rest = origin.partition("://")
    if origin and (scheme not in ("http", "https") or not rest or "/" in rest):
        raise SettingError(f"--origin is an address such as https://laptop.example.ts.net, not {origin!r}")
    found = Listening(address, int(port), certificate, key, origin.lower())
    if not found.is_near and not certificate and not insecure:
        raise SettingError(f"{found.warnings()[0]}. --insecure does it all the same")
    return found


def own_addresses(host: str) -> set[str]:
    """The IPv4 addresses at which we can be reached if we listen at this one."""
    if host != "0.0.0.0":
        return {host}
    found = {LOOPBACK}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent; it only asks which of our addresses would be used
        found = {probe.getsockname()[0], *found}
    with contextlib.suppress(OSError):
        found |= set(socket.gethostbyname_ex(socket.gethostname())[2])
    return found


def own_names() -> set[str]:
    """The names of this machine."""
    name = socket.gethostname().lower()
    return {name, f"{name.partition('.')[0]}.local", "localhost"}
