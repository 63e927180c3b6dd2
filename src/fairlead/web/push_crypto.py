"""The cryptography of web push: messages that only one browser can read (RFC 8291, RFC 8188), and the
signature by which a push service knows who sends them (VAPID, RFC 8292).

It is the one module that imports `cryptography`, and is imported when somebody wants to be pushed to.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
from typing import NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RECORD = 4096
"""The size of a record. A message is one record, and services take no longer ones."""
SALT, AUTH, TAG, POINT, SCALAR = 16, 16, 16, 65, 32
"""Bytes of the salt, the browser's secret, AES-GCM's tag, a point of P-256 and a private key."""
MAX_TEXT = RECORD - TAG - 1 - (SALT + 4 + 1 + POINT)
"""Bytes of a text, so that the whole message has at most 4096."""

_CURVE = ec.SECP256R1()


class BadKeys(ValueError):
    """The keys of a subscription make no sense."""


class BrowserKeys(NamedTuple):
    """What a browser gives with its subscription."""

    point: bytes
    """Its public key, `p256dh`."""
    auth: bytes
    """Its secret, `auth`."""


def encode(data: bytes) -> str:
    """Bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The same back. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base64url: {error}") from None


def browser_keys(p256dh: str, auth: str) -> BrowserKeys:
    """The keys of a subscription. Raises BadKeys."""
    try:
        found = BrowserKeys(decode(p256dh), decode(auth))
        if len(found.auth) != AUTH:
            raise ValueError(f"auth has {len(found.auth)} bytes and not {AUTH}")
        if len(found.point) != POINT:
            raise ValueError(f"p256dh has {len(found.point)} bytes and not {POINT}")
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, found.point)  # is it on the curve?
    except ValueError as error:
        raise BadKeys(f"the subscription's keys are wrong: {error}") from None
    return found


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


def encrypt(
    text: bytes,
    keys: BrowserKeys,
    *,
    size: int = 0,
    salt: bytes | None = None,
    own: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """A message that only the browser with these keys can read. It is padded to the length of a text of
    `size` bytes, so that its length tells nothing. Salt and our key are new for each message; only a test
    gives them. Raises ValueError if the text is too long."""
    if max(len(text), size) > MAX_TEXT:
        raise ValueError(f"a message may have at most {MAX_TEXT} bytes, not {len(text)}")
    own = own or ec.generate_private_key(_CURVE)
    salt = salt or os.urandom(SALT)
    mine = _public(own)
    shared = own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, keys.point))
    secret = _derived(shared, keys.auth, b"WebPush: info\0" + keys.point + mine, 32)
    key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    padded = text + b"\x02" + bytes(max(0, size - len(text)))  # 2: the last record
    return salt + struct.pack("!IB", RECORD, len(mine)) + mine + AESGCM(key).encrypt(nonce, padded, None)


class Vapid:
    """Our key, which names us to push services."""

    def __init__(self, private: bytes) -> None:
        """Raises ValueError if that is no private key."""
        if len(private) != SCALAR:
            raise ValueError(f"a private key has {SCALAR} bytes, not {len(private)}")
        self._key = ec.derive_private_key(int.from_bytes(private, "big"), _CURVE)
        self.private = private
        self.public = _public(self._key)

    @classmethod
    def new(cls) -> Vapid:
        key = ec.generate_private_key(_CURVE)
        return cls(key.private_numbers().private_value.to_bytes(SCALAR, "big"))

    def authorization(self, audience: str, until: float, contact: str) -> str:
        """The header by which we may send to one push service until then."""
        claims = {"aud": audience, "exp": int(until), "sub": contact}
        parts = [_part({"typ": "JWT", "alg": "ES256"}), _part(claims)]
        signed = ".".join(parts)
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = encode(r.to_bytes(SCALAR, "big") + s.to_bytes(SCALAR, "big"))
        return f"vapid t={signed}.{signature}, k={encode(self.public)}"


def _part(value: dict[str, object]) -> str:
    return encode(json.dumps(value, separators=(",", ":")).encode())
