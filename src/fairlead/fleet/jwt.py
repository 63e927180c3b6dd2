"""NATS' JWTs, version 2: claims of operators, accounts and users, signed with nkeys.

What is read was sent by others, so its size, its form and its signature are checked before anything of it is
believed. Which permissions a user gets stands in `subjects`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import limits, nkeys
from .nkeys import ACCOUNT, OPERATOR, USER, KeyFault, KeyPair

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_ISSUERS = {"operator": (OPERATOR,), "account": (OPERATOR,), "user": (ACCOUNT,)}
_SUBJECTS = {"operator": OPERATOR, "account": ACCOUNT, "user": USER}
NO_LIMIT = -1


class JwtFault(ValueError):
    """A text is no JWT that we take."""


class Claims(NamedTuple):
    """What a JWT says."""

    kind: str
    name: str
    subject: str
    """The public key that it is about."""
    issuer: str
    """The public key that has signed it."""
    issued_at: int
    expires: int
    """0: never."""
    nats: Mapping[str, Any]

    @property
    def tags(self) -> frozenset[str]:
        found = self.nats.get("tags")
        return frozenset(filter(lambda each: isinstance(each, str), found if isinstance(found, list) else ()))


def encoded(
    kind: str, name: str, subject: str, signer: KeyPair, nats: Mapping[str, Any], *, seconds: float = 0.0
) -> str:
    """A signed JWT about a public key. With `seconds` it ends after so many."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "iat": now,
        "iss": signer.public,
        "name": name,
        "sub": subject,
        "nats": {**nats, "type": kind, "version": 2},
    }
    if seconds:
        claims["exp"] = now + int(seconds)
    digest = hashlib.new("sha512_256", _json(claims)).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    body = f"{_part(_json(_HEADER))}.{_part(_json(claims))}"
    return f"{body}.{_part(signer.sign(body.encode()))}"


def decoded(text: str, kind: str) -> Claims:
    """What a JWT of this kind says, if its issuer has signed it. Who that is must be looked at by the caller.
    Raises JwtFault."""
    text = text.strip()
    if len(text) > limits.MAX_JWT:
        raise JwtFault(f"a JWT has at most {limits.MAX_JWT} characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise JwtFault("a JWT has three parts with points between them")
    try:
        header, claims = (json.loads(_bytes(part)) for part in parts[:2])
        signature = _bytes(parts[2])
    except (ValueError, RecursionError):
        raise JwtFault("a JWT has parts of base64 with JSON in them") from None
    if header != _HEADER:
        raise JwtFault("a JWT of NATS has the header of version 2")
    found = _claims(claims, kind)
    try:
        if found.issuer[:1] not in _ISSUERS[kind]:
            raise JwtFault(f"a JWT of the kind {kind} is not signed by {found.issuer!r:.80}")
        nkeys.raw_public(found.subject, _SUBJECTS[kind])
        nkeys.check_signature(found.issuer, found.issuer[0], f"{parts[0]}.{parts[1]}".encode(), signature)
    except KeyFault as error:
        raise JwtFault(str(error)) from None
    return found


def _claims(claims: object, kind: str) -> Claims:
    given = claims if isinstance(claims, dict) else {}
    nats = given.get("nats")
    words: list[Any] = [given.get(key) for key in ("name", "sub", "iss")]
    times: list[Any] = [given.get("iat"), given.get("exp", 0)]
    if (
        not isinstance(nats, dict)
        or not all(isinstance(word, str) and 0 < len(word) <= 256 for word in words)
        or not all(type(each) is int and 0 <= each < 2**53 for each in times)
    ):
        raise JwtFault("a JWT says its name, its subject, its issuer and when it was issued")
    if nats.get("type") != kind or nats.get("version") != 2:
        raise JwtFault(f"this is no JWT of the kind {kind}, version 2")
    name, subject, issuer = words
    issued_at, expires = times
    return Claims(kind, name, subject, issuer, issued_at, expires, nats)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("no base64") from None
