"""Requests to push services. Their addresses come from browsers, so this is where it is decided what the
console connects to at all: over TLS, at port 443, to public addresses only, looked at again each time it
connects; no redirect is followed, and of an answer only the head is read.

An address is as secret as a password: whoever knows it can send to it. Only its host may be in a log.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from . import limits

_URL = re.compile(r"[!-~]+")
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"({_LABEL}\.)+[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?")
"""A name of the public DNS: several labels, and the last is no number, which would be an address."""
_OWN = re.compile(rf"{_LABEL}(\.{_LABEL})*:[0-9]{{1,5}}")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r)")
_MAX_HOST = 253
_MAX_INTERIM = 4
"""Answers before the last one, such as 103, that are skipped."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = [
    ipaddress.ip_network(each) for each in ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "fec0::/10")
]
"""Networks that not every Python knows to be special."""


class BadEndpoint(ValueError):
    """An address that is none of a push service."""


class NotSent(Exception):
    """The service could not be asked. The text has no secret."""


class Endpoint(NamedTuple):
    """Where a push service takes messages for one browser."""

    host: str
    port: int
    target: str
    is_own: bool = False
    """True if it is the service of [notify] push_service, which may be in a private network."""

    @property
    def audience(self) -> str:
        """The service, as a signature names it."""
        return f"https://{self.host}" + ("" if self.port == 443 else f":{self.port}")


class PushReply(NamedTuple):
    """What a push service answered."""

    status: int
    retry_after: float | None = None


def own_service(text: str) -> str:
    """The setting [notify] push_service; empty if there is none. Raises ValueError."""
    found = text.strip().lower()
    if found in ("", "none"):
        return ""
    if _OWN.fullmatch(found) is None or not 0 < int(found.rpartition(":")[2]) <= 0xFFFF:
        raise ValueError(
            f'[notify] push_service must be like "push.example.org:8443", or "none", not {text!r}'
        )
    return found


def endpoint_of(url: object, own: str = "") -> Endpoint:
    """The address that a browser gave. Raises BadEndpoint, whose text does not have the address in it."""
    if type(url) is not str or len(url) > limits.MAX_ENDPOINT or _URL.fullmatch(url) is None or "\\" in url:
        raise BadEndpoint("the endpoint must be an address in ASCII without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError:
        raise BadEndpoint("the endpoint is no address") from None
    host = (parts.hostname or "").lower()
    if parts.scheme != "https":
        raise BadEndpoint("the endpoint must be an https address")
    if "@" in parts.netloc or parts.fragment:
        raise BadEndpoint("the endpoint may have no user, password or fragment")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if own and f"{host}:{port}" == own:
        return Endpoint(host, port, target, is_own=True)
    if len(host) > _MAX_HOST or _NAME.fullmatch(host) is None:
        raise BadEndpoint("the endpoint must be at a public name, and at no number")
    if port != 443:
        raise BadEndpoint("the endpoint must be at port 443")
    return Endpoint(host, port, target)


def is_public(address: str) -> bool:
    """True if an address is one of the public internet, also the one that is wrapped in it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.teredo is not None:
            return False
        inner = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            found = inner
    if any(found in each for each in _NOT_PUBLIC):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


async def _address(endpoint: Endpoint) -> str:
    """Where to connect to. If one address of a name is not public, none of them is used. Raises NotSent."""
    loop = asyncio.get_running_loop()
    try:
        rows = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotSent(f"{endpoint.host} can't be found: {error.strerror or error}") from None
    found = [str(row[4][0]) for row in rows]
    if not found:
        raise NotSent(f"{endpoint.host} has no address")
    if not endpoint.is_own and not all(is_public(each) for each in found):
        raise NotSent(f"{endpoint.host} is at an address that is not public")
    return found[0]


async def post(
    endpoint: Endpoint, context: ssl.SSLContext, headers: Mapping[str, str], body: bytes
) -> PushReply:
    """Send a message. Raises NotSent."""
    try:
        async with asyncio.timeout(limits.PUSH_SECONDS):
            address = await _address(endpoint)
            return await _asked(endpoint, address, context, headers, body)
    except TimeoutError:
        raise NotSent(f"{endpoint.host} did not answer within {limits.PUSH_SECONDS:g} s") from None
    except ssl.SSLError as error:
        raise NotSent(f"{endpoint.host}: TLS failed: {error.reason or error}") from None
    except (OSError, EOFError, asyncio.LimitOverrunError) as error:
        raise NotSent(f"{endpoint.host}: {type(error).__name__}") from None


async def _asked(
    endpoint: Endpoint, address: str, context: ssl.SSLContext, headers: Mapping[str, str], body: bytes
) -> PushReply:
    reader, writer = await asyncio.open_connection(
        address, endpoint.port, ssl=context, server_hostname=endpoint.host, limit=limits.MAX_PUSH_ANSWER
    )
    try:
        host = endpoint.audience.partition("://")[2]
        fields = {"Host": host, **headers, "Content-Length": str(len(body)), "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"POST {endpoint.target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body)
        await writer.drain()
        for _ in range(_MAX_INTERIM):
            answer = await reader.readuntil(b"\r\n\r\n")
            found = _STATUS.match(answer)
            if found is None:
                raise NotSent(f"{endpoint.host} did not answer in HTTP")
            if (status := int(found[1])) >= 200:
                return PushReply(status, _retry_after(answer))
        raise NotSent(f"{endpoint.host} does not come to an answer")
    finally:
        writer.transport.abort()  # what else it says is not of interest


def _retry_after(head: bytes) -> float | None:
    """The seconds that a service wants to be left alone."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"retry-after" and re.fullmatch(rb"\s*[0-9]{1,9}\s*", value):
            return float(value)
    return None
