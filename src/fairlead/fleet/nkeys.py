"""nkeys: NATS' form of Ed25519 keys, as text that says whose key it is and has a checksum.

A public key begins with the letter of its kind, a seed with S and that letter. Seeds are never part of an
error or a repr.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

OPERATOR: Final = "O"
ACCOUNT: Final = "A"
USER: Final = "U"

_PREFIXES = {OPERATOR: 14 << 3, ACCOUNT: 0, USER: 20 << 3}
_SEED = 18 << 3
_KEY_BYTES = 32
_PUBLIC_LENGTH = 56
_SEED_LENGTH = 58


class KeyFault(ValueError):
    """A text is no nkey of the wanted kind, or a signature is not right."""


class KeyPair:
    """A key with which one can sign."""

    def __init__(self, kind: str, private: Ed25519PrivateKey) -> None:
        self.kind = kind
        self._private = private
        self.public = _text(bytes([_PREFIXES[kind]]) + private.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"<KeyPair {self.public}>"

    @classmethod
    def new(cls, kind: str) -> KeyPair:
        return cls(kind, Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: str, kind: str) -> KeyPair:
        """The key of a seed. Raises KeyFault."""
        data = _data(seed.strip(), _SEED_LENGTH, "a seed")
        prefix = ((data[0] & 0b111) << 5) | (data[1] >> 3)
        if data[0] & 0b1111_1000 != _SEED or prefix != _PREFIXES[kind]:
            raise KeyFault(f"this is no seed that begins with S{kind}")
        return cls(kind, Ed25519PrivateKey.from_private_bytes(data[2:]))

    @property
    def seed(self) -> str:
        prefix = _PREFIXES[self.kind]
        head = bytes([_SEED | (prefix >> 5), (prefix & 0b11111) << 3])
        return _text(head + self._private.private_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


def check_signature(public: str, kind: str, data: bytes, signature: bytes) -> None:
    """Raise KeyFault unless this key has signed this."""
    key = Ed25519PublicKey.from_public_bytes(raw_public(public, kind))
    try:
        key.verify(signature, data)
    except InvalidSignature:
        raise KeyFault(f"the signature is not that of {public}") from None


def raw_public(public: str, kind: str) -> bytes:
    """The bytes of a public key. Raises KeyFault."""
    data = _data(public, _PUBLIC_LENGTH, "a public key")
    if data[0] != _PREFIXES[kind]:
        raise KeyFault(f"this is no public key that begins with {kind}: {public!r:.80}")
    return data[1:]


def _text(data: bytes) -> str:
    whole = data + binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(whole).decode().rstrip("=")


def _data(text: str, length: int, what: str) -> bytes:
    if len(text) != length or not text.isascii():
        raise KeyFault(f"{what} has {length} letters and digits")
    try:
        whole = base64.b32decode(text + "=" * (-length % 8))
    except binascii.Error:
        raise KeyFault(f"{what} has letters from A to Z and digits from 2 to 7") from None
    data, checksum = whole[:-2], whole[-2:]
    if binascii.crc_hqx(data, 0).to_bytes(2, "little") != checksum:
        raise KeyFault(f"{what} with a wrong checksum")
    return data
