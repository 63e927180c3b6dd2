"""Files of credentials: a user's JWT and the seed of its key, as NATS' own tools write them."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from . import limits
from .jwt import Claims, JwtFault, decoded
from .nkeys import USER, KeyFault, KeyPair
from .subjects import ADMINISTRATOR, MACHINE, PERSON, READ_ONLY, NameFault, check_name, word_of

_PARTS = re.compile(
    r"-{3,}BEGIN NATS USER JWT-{3,}\s*([A-Za-z0-9_.-]+)\s*-{3,}END NATS USER JWT-{3,}.*?"
    r"-{3,}BEGIN USER NKEY SEED-{3,}\s*([A-Z2-7]+)\s*-{3,}END USER NKEY SEED-{3,}",
    re.DOTALL,
)


OPERATOR_CLAIM = "fairlead_operator"
"""Where a user's JWT says who the fleet's operator is."""


class CredsFault(ValueError):
    """A file has no credentials that can be used."""


class Identity(NamedTuple):
    """Who a credential is for, by its JWT."""

    name: str
    role: str
    account: str
    """The public key of the account that has signed it."""
    public: str
    read_only: bool = False
    issued_at: int = 0
    expires: int = 0
    operator: str = ""
    """The public key of the operator whose word counts about the account. The account has signed it."""

    @property
    def word(self) -> str:
        """The word for it in subjects."""
        return word_of(self.name, self.role)


class Creds(NamedTuple):
    """A user's JWT and its key."""

    jwt: str
    key: KeyPair
    identity: Identity

    def __repr__(self) -> str:
        return f"<Creds of {self.identity.name}>"


def identity_of(claims: Claims) -> Identity:
    """Who a user's JWT is for. Raises CredsFault."""
    roles = claims.tags & {MACHINE, PERSON, ADMINISTRATOR}
    if len(roles) != 1:
        raise CredsFault(
            f"the credential of {claims.name!r:.80} is none that `fairlead fleet creds` has made"
        )
    try:
        check_name(claims.name)
    except NameFault as error:
        raise CredsFault(str(error)) from None
    return Identity(
        claims.name,
        next(iter(roles)),
        claims.issuer,
        claims.subject,
        READ_ONLY in claims.tags,
        claims.issued_at,
        claims.expires,
        operator if isinstance(operator := claims.nats.get(OPERATOR_CLAIM), str) else "",
    )


def creds_text(jwt: str, key: KeyPair) -> str:
    """The contents of a file of credentials."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "Whoever has this seed is this user: keep the file to yourself.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
    )


def read_creds(path: str) -> Creds:
    """The credentials in a file of ours alone. Raises CredsFault."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(limits.MAX_CREDS + 1).decode("ascii", "replace")
    except OSError as error:
        raise CredsFault(f"can't read {path}: {error.strerror}") from None
    if found.st_uid not in (os.getuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
        raise CredsFault(f"others can read {path}, or it is another user's: `chmod 600 {path}` closes it")
    match = _PARTS.search(text) if len(text) <= limits.MAX_CREDS else None
    if match is None:
        raise CredsFault(f"{path} is no file of credentials: `fairlead fleet creds` makes them")
    try:
        claims = decoded(match[1], "user")
        key = KeyPair.from_seed(match[2], USER)
        if key.public != claims.subject:
            raise CredsFault(f"the seed in {path} is not that of its JWT")
        return Creds(match[1], key, identity_of(claims))
    except (JwtFault, KeyFault, CredsFault) as error:
        raise CredsFault(f"{path}: {error}" if path not in str(error) else str(error)) from None
