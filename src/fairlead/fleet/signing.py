"""Signatures of requests and consents: who asks, proved by the key of their credential.

A proof names its purpose, the host it is for, a time and a nonce, and covers a digest of what is asked. It
counts once, for a minute, on that host, and only if the account that has signed our own credential has signed
the one of who asks and has not revoked it since.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..formats.edn import Keyword
from . import limits
from .creds import Creds, CredsFault, Identity, identity_of
from .jwt import JwtFault, decoded
from .nkeys import USER, KeyFault, check_signature

ASK, CONSENT, PERSON_OPENS = "ask", "consent", "person"
ROW, EVENT, STATE = "row", "event", "state"
SEAL_HEADER = "Fleet-Seal"
MAX_PROOF = limits.MAX_JWT + 1024
_KNOWN = 1024
"""Credentials whose signatures were checked and are not checked again."""
_DEPTH = 32


class SignatureFault(Exception):
    """A proof does not prove anything. Says why."""


def canonical(value: Any, depth: int = _DEPTH) -> Any:
    """A value of EDN or JSON in a form that is the same at both ends. Raises SignatureFault."""
    if depth == 0:
        raise SignatureFault("the parameters are nested too deeply to be signed")
    if isinstance(value, Keyword):
        return f":{value.name}"
    if isinstance(value, Mapping):
        pairs = [[canonical(key, depth - 1), canonical(each, depth - 1)] for key, each in value.items()]
        return sorted(pairs, key=lambda pair: json.dumps(pair, sort_keys=True))
    if isinstance(value, list | tuple):
        return [canonical(each, depth - 1) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise SignatureFault(f"a {type(value).__name__} can't be signed")


def digest(*parts: Any) -> bytes:
    """What stands for these values in a signature."""
    text = json.dumps([canonical(each) for each in parts], separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _signed(purpose: str, to: str, at: str, nonce: str, what: bytes) -> bytes:
    return b"\0".join([b"fairlead-fleet-1", *(each.encode() for each in (purpose, to, at, nonce)), what])


def proof(creds: Creds, purpose: str, to: str, what: bytes) -> str:
    """Sign something for a host, as one line of JSON."""
    at, nonce = repr(time.time()), secrets.token_hex(16)
    signature = creds.key.sign(_signed(purpose, to, at, nonce, what))
    said = {"jwt": creds.jwt, "at": at, "nonce": nonce, "sig": base64.b64encode(signature).decode()}
    return json.dumps(said, separators=(",", ":"))


class Sealed(NamedTuple):
    """Who has signed what is kept, and the number that they gave it."""

    by: Identity
    number: str


def _sealed(kind: str, number: str, data: bytes) -> bytes:
    words = (b"fairlead-fleet-1", b"seal", kind.encode(), number.encode())
    return b"\0".join([*words, hashlib.sha256(data).digest()])


def seal(creds: Creds, kind: str, number: str, data: bytes) -> str:
    """The signature of what the server keeps for others, as one line of JSON. It counts until the
    credential is revoked; by the number it is seen what is older."""
    signature = creds.key.sign(_sealed(kind, number, data))
    said = {"jwt": creds.jwt, "n": number, "sig": base64.b64encode(signature).decode()}
    return json.dumps(said, separators=(",", ":"))


class Verifier:
    """Checks proofs for one host. `account` is the public key of the account that we belong to."""

    def __init__(
        self, account: str, host: str, clock: Callable[[], float] = time.time, *, operator: str = ""
    ) -> None:
        """`operator` is the public key of who may say what is so of the account."""
        self._account = account
        self._host = host
        self._clock = clock
        self._began = clock()
        self._operator = operator
        self._account_issued = 0
        self._account_jwt = ""
        self._revoked: dict[str, int] = {}
        self._nonces: OrderedDict[str, float] = OrderedDict()  # each with when it may be forgotten
        self._known: OrderedDict[str, Identity] = OrderedDict()

    def learn(self, account_jwt: str) -> bool:
        """Take the account's JWT with who was revoked; True if it is news. Only the operator's counts,
        an older one is not taken, and who was revoked stays so. Raises SignatureFault."""
        if account_jwt == self._account_jwt:
            return False
        try:
            claims = decoded(account_jwt, "account")
        except JwtFault as error:
            raise SignatureFault(f"the account's JWT: {error}") from None
        if claims.subject != self._account or claims.issuer != self._operator:
            raise SignatureFault("the JWT is another account's, or another operator has signed it")
        if claims.issued_at < self._account_issued:
            return False
        self._account_jwt, self._account_issued = account_jwt, claims.issued_at
        found = claims.nats.get("revocations")
        revoked = found if isinstance(found, dict) else {}
        for key, at in revoked.items():
            if type(key) is str and type(at) is int:
                self._revoked[key] = max(at, self._revoked.get(key, at))
        return True

    def check(self, purpose: str, text: object, what: bytes) -> Identity:
        """Who has signed this. Raises SignatureFault."""
        if not isinstance(text, str) or len(text) > MAX_PROOF:
            raise SignatureFault("it is not signed")
        try:
            said = json.loads(text)
            words = [said[key] for key in ("jwt", "at", "nonce", "sig")]
            if not all(isinstance(word, str) for word in words):
                raise TypeError
            jwt, at, nonce, signature = words
            moment = float(at)
            raw = base64.b64decode(signature, validate=True)
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            raise SignatureFault("its signature can't be read") from None
        identity = self.standing(jwt)
        now = self._clock()
        if not abs(now - moment) <= limits.SIGNED_SECONDS:
            raise SignatureFault(
                f"it was signed {now - moment:.0f} s ago; only {limits.SIGNED_SECONDS:g} s are taken, "
                "so look at the clocks of both hosts"
            )
        try:
            check_signature(identity.public, USER, _signed(purpose, self._host, at, nonce, what), raw)
        except KeyFault:
            raise SignatureFault("the signature does not fit what is asked, or is for another host") from None
        if moment <= self._began:
            raise SignatureFault("it was signed before this host's fleet process began; ask again")
        self._note(f"{identity.public} {nonce}", now)
        return identity

    def opened(self, kind: str, text: object, data: bytes, word: str) -> Sealed:
        """Who has signed what was kept on a subject of `word`, and its number. Raises SignatureFault."""
        if not isinstance(text, str) or len(text) > MAX_PROOF:
            raise SignatureFault("it is not signed")
        try:
            said = json.loads(text)
            jwt, number, signature = (said[key] for key in ("jwt", "n", "sig"))
            if not all(isinstance(each, str) for each in (jwt, number, signature)):
                raise TypeError
            raw = base64.b64decode(signature, validate=True)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SignatureFault("its signature can't be read") from None
        identity = self._counting(jwt)
        if identity.word != word or identity.read_only:
            raise SignatureFault(f"{identity.name} has signed it, and may not speak as {word:.80}")
        try:
            check_signature(identity.public, USER, _sealed(kind, number, data), raw)
        except KeyFault:
            raise SignatureFault("the signature does not fit it") from None
        return Sealed(identity, number)

    def standing(self, jwt: str) -> Identity:
        """Who a credential is for, if it is of our account and counts now. Raises SignatureFault."""
        identity = self._identity(jwt)
        if identity.expires and identity.expires < self._clock():
            raise SignatureFault(f"the credential of {identity.name} has expired")
        return self._counting(jwt)

    def _counting(self, jwt: str) -> Identity:
        """Who a credential is for, if our account has signed it and has not revoked it."""
        identity = self._identity(jwt)
        if self._revoked.get(identity.public, -1) >= identity.issued_at:
            raise SignatureFault(f"the credential of {identity.name} was revoked")
        return identity

    def _identity(self, jwt: str) -> Identity:
        if (known := self._known.get(jwt)) is not None:
            return known
        try:
            claims = decoded(jwt, "user")
            identity = identity_of(claims)
        except (JwtFault, CredsFault) as error:
            raise SignatureFault(f"the credential of who signed: {error}") from None
        if identity.account != self._account:
            raise SignatureFault(f"{identity.name} belongs to another account")
        self._known[jwt] = identity
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return identity

    def _note(self, nonce: str, now: float) -> None:
        """Remember that a proof has counted. Raises SignatureFault if it has before."""
        while self._nonces and next(iter(self._nonces.values())) < now:
            self._nonces.popitem(last=False)
        if nonce in self._nonces:
            raise SignatureFault("it counted already: this is a repetition")
        if len(self._nonces) >= limits.MAX_NONCES:
            raise SignatureFault("too many signed requests at once")
        self._nonces[nonce] = now + 2 * limits.SIGNED_SECONDS
