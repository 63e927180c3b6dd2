"""Who belongs to a fleet: the directory with the keys of operator and accounts, and the book of credentials.

It is made by `fairlead fleet init` and lies where the fleet is administered, usually where its server runs.
Everything in it is for our user alone; nothing prints a key. Machines get a file of credentials and the
certificate of the authority, nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from ..system.files import replace_file
from ..system.settings import SettingError, safe_dir
from . import limits, tls
from .creds import OPERATOR_CLAIM, Creds, creds_text, read_creds
from .jwt import NO_LIMIT, encoded
from .nkeys import ACCOUNT, OPERATOR, USER, KeyFault, KeyPair
from .subjects import ADMINISTRATOR, MACHINE, PERSON, READ_ONLY, NameFault, check_name, permissions

DEFAULT_LISTEN = "0.0.0.0:4222"
DEFAULT_LEAF = "0.0.0.0:7422"
SYSTEM = "system"
_UNLIMITED_SUBJECTS: Mapping[str, Mapping[str, Any]] = {"pub": {}, "sub": {}}


class FleetFault(Exception):
    """Something about a fleet can't be done. Says why, in one sentence."""


class Credential(Struct):
    """A credential that was made."""

    name: str
    role: str
    account: str
    public: str
    since: float
    read_only: bool = False
    until: float = 0.0
    revoked_at: float = 0.0


class Team(Struct):
    """An account: its hosts and users see each other, and no others."""

    name: str
    public: str


class Register(Struct):
    """What is written down, without any key."""

    operator: str
    system: str
    listen: str
    leaf: str
    addresses: list[str]
    accounts: list[Team] = field(default_factory=list)
    credentials: list[Credential] = field(default_factory=list)


class Authority:
    """A fleet's directory."""

    def __init__(self, directory: str) -> None:
        """Raises FleetFault if it is none."""
        self.directory = os.path.abspath(directory)
        try:
            with open(self.path("fleet.json"), "rb") as file:
                self.register = msgspec.json.decode(file.read(limits.MIB * 16), type=Register)
        except FileNotFoundError:
            raise FleetFault(
                f"{directory} is no fleet's directory; `fairlead fleet init` makes one"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise FleetFault(f"can't read {self.path('fleet.json')}: {error}") from None

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """What is done in the `with` is done by one command at a time, and written down afterwards."""
        lock = os.open(self.path("lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.register = Authority(self.directory).register
            yield
            self._save()
        finally:
            os.close(lock)

    def _save(self) -> None:
        replace_file(self.path("fleet.json"), msgspec.json.format(msgspec.json.encode(self.register)))

    # --- accounts -----------------------------------------------------------------------------------------

    def account(self, name: str = "") -> Team:
        """The account of this name, or the first. Raises FleetFault."""
        for each in self.register.accounts:
            if name in ("", each.name):
                return each
        raise FleetFault(f"there is no account {name!r:.80}; `fairlead fleet init --account NAME` adds one")

    def add_account(self, name: str) -> Team:
        """Add an account with a credential for its administrator. Raises FleetFault."""
        _check_name(name)
        if name == SYSTEM or any(each.name == name for each in self.register.accounts):
            raise FleetFault(f"there is an account {name!r} already")
        key = KeyPair.new(ACCOUNT)
        self._keep("keys", f"account-{name}.seed", key.seed)
        found = Team(name, key.public)
        self.register.accounts.append(found)
        self.write_account(found)
        self._issue("administrator", ADMINISTRATOR, found, key)
        return found

    def write_account(self, team: Team) -> str:
        """Sign an account's JWT, with who was revoked, and write it where the server looks; returns it."""
        revoked = {
            each.public: int(each.revoked_at)
            for each in self.register.credentials
            if each.account == team.name and each.revoked_at
        }
        nats = {
            "limits": {
                "subs": NO_LIMIT,
                "data": NO_LIMIT,
                "payload": NO_LIMIT,
                "imports": 0,
                "exports": 0,
                "wildcards": False,
                "conn": limits.MAX_ACCOUNT_CONNECTIONS,
                "leaf": limits.MAX_ACCOUNT_CONNECTIONS,
                "mem_storage": 0,
                "disk_storage": limits.ACCOUNT_DISK,
                "streams": 16,
                "consumer": 1024,
            },
            "default_permissions": _UNLIMITED_SUBJECTS,
            **({"revocations": revoked} if revoked else {}),
        }
        signed = encoded("account", team.name, team.public, self._key("operator", OPERATOR), nats)
        self._keep("jwt", f"{team.public}.jwt", signed)
        return signed

    def account_jwt(self, team: Team) -> str:
        """An account's JWT as it was signed last. Raises FleetFault."""
        try:
            with open(self.path("jwt", f"{team.public}.jwt")) as file:
                return file.read(limits.MIB).strip()
        except OSError as error:
            raise FleetFault(f"can't read the JWT of account {team.name!r}: {error.strerror}") from None

    # --- credentials --------------------------------------------------------------------------------------

    def issue(
        self, role: str, name: str, account: str = "", *, read_only: bool = False, seconds: float = 0.0
    ) -> str:
        """Make a credential; returns the path of its file. Raises FleetFault."""
        _check_name(name)
        team = self.account(account)
        key = self._key(f"account-{team.name}", ACCOUNT)
        if self._current(role, name, team):
            kind = "machine" if role == MACHINE else "user"
            raise FleetFault(
                f"{kind} {name!r} has a credential; `fairlead fleet revoke {name}` ends it first"
            )
        return self._issue(name, role, team, key, read_only=read_only, seconds=seconds)

    def _current(self, role: str, name: str, team: Team) -> list[Credential]:
        return [
            each
            for each in self.register.credentials
            if (each.role, each.name, each.account) == (role, name, team.name) and not each.revoked_at
        ]

    def _issue(
        self,
        name: str,
        role: str,
        team: Team,
        signer: KeyPair,
        *,
        read_only: bool = False,
        seconds: float = 0.0,
    ) -> str:
        key = KeyPair.new(USER)
        tags = [role, *([READ_ONLY] if read_only else [])]
        nats = {
            **permissions(role, name, read_only=read_only),
            "tags": tags,
            OPERATOR_CLAIM: self.register.operator,
        }
        signed = encoded("user", name, key.public, signer, nats, seconds=seconds)
        kind = {MACHINE: "machine", PERSON: "user"}.get(role, "administrator")
        file = f"{kind}-{name}.creds" if role != ADMINISTRATOR else f"administrator-{team.name}.creds"
        if len(self.register.accounts) > 1 and role != ADMINISTRATOR:
            file = f"{team.name}-{file}"
        path = self._keep("creds", file, creds_text(signed, key))
        now = time.time()
        until = now + seconds if seconds else 0.0
        self.register.credentials.append(Credential(name, role, team.name, key.public, now, read_only, until))
        return path

    def revoke(self, name: str, account: str = "") -> tuple[Team, str]:
        """Note that the credentials of a machine or a user count no more; returns the account and its new
        JWT, which the server must be told. Raises FleetFault."""
        team = self.account(account)
        found = [each for role in (MACHINE, PERSON) for each in self._current(role, name, team)]
        if not found:
            raise FleetFault(f"nobody has a credential with the name {name!r:.80} in account {team.name!r}")
        for each in found:
            each.revoked_at = time.time()
        return team, self.write_account(team)

    def administrator(self, team: Team) -> Creds:
        """The credential that makes the account's streams. Raises CredsFault."""
        return read_creds(self.path("creds", f"administrator-{team.name}.creds"))

    def system_user(self) -> tuple[str, KeyPair]:
        """A JWT for a user of the system account that is good for a minute, and its key."""
        key = KeyPair.new(USER)
        nats = {**_UNLIMITED_SUBJECTS, "subs": NO_LIMIT, "data": NO_LIMIT, "payload": NO_LIMIT}
        signer = self._key("system", ACCOUNT)
        return encoded("user", "fairlead", key.public, signer, nats, seconds=60), key

    # --- keys and certificates ----------------------------------------------------------------------------

    def _key(self, name: str, kind: str) -> KeyPair:
        try:
            with open(self.path("keys", f"{name}.seed")) as file:
                return KeyPair.from_seed(file.read(256), kind)
        except (OSError, KeyFault) as error:
            raise FleetFault(f"the key {self.path('keys', name)}.seed can't be used: {error}") from None

    def _keep(self, directory: str, name: str, text: str | bytes) -> str:
        path = self.path(directory, name)
        replace_file(path, text if isinstance(text, bytes) else f"{text}\n".encode())
        return path

    @property
    def ca(self) -> str:
        """The certificate that machines check the server's with."""
        return self.path("tls", "ca.pem")

    def certify(self) -> None:
        """See to it that the server has a certificate for its addresses that is good for a while."""
        addresses = self.register.addresses
        with contextlib.suppress(OSError, ValueError), open(self.path("tls", "server.pem"), "rb") as file:
            if tls.is_current(file.read(64 * 1024), addresses):
                return
        with open(self.ca, "rb") as authority, open(self.path("tls", "ca.key"), "rb") as key:
            certificate, own = tls.new_server(authority.read(), key.read(), addresses)
        self._keep("tls", "server.key", own)
        self._keep("tls", "server.pem", certificate)

    @classmethod
    def new(cls, directory: str, account: str, listen: str, leaf: str, addresses: Sequence[str]) -> Authority:
        """Make a fleet's directory. Raises FleetFault."""
        for each in (listen, leaf):
            _check_listen(each)
        for each in addresses:
            _check_address(each)
        if os.path.exists(os.path.join(directory, "fleet.json")):
            raise FleetFault(f"there is a fleet in {directory} already")
        try:
            for name in ("", "keys", "jwt", "creds", "tls", "jetstream"):
                safe_dir(os.path.abspath(os.path.join(directory, name)).rstrip("/"))
        except (SettingError, OSError) as error:
            raise FleetFault(str(error)) from None
        operator, system = KeyPair.new(OPERATOR), KeyPair.new(ACCOUNT)
        made = cls.__new__(cls)
        made.directory = os.path.abspath(directory)
        made.register = Register(operator.public, system.public, listen, leaf, list(addresses))
        made._keep("keys", "operator.seed", operator.seed)
        made._keep("keys", "system.seed", system.seed)
        nats = {"system_account": system.public}
        made._keep("jwt", "operator.jwt", encoded("operator", "fairlead", operator.public, operator, nats))
        no_limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), NO_LIMIT)
        about = {"limits": no_limits, "default_permissions": _UNLIMITED_SUBJECTS}
        made._keep("jwt", f"{system.public}.jwt", encoded("account", SYSTEM, system.public, operator, about))
        certificate, key = tls.new_authority("Fairlead fleet")
        made._keep("tls", "ca.key", key)
        made._keep("tls", "ca.pem", certificate)
        made.certify()
        made.add_account(account)
        made._save()
        return made


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except NameFault as error:
        raise FleetFault(str(error)) from None


def _check_listen(text: str) -> None:
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        fits = port.isdecimal() and port.isascii() and 0 < int(port) <= 0xFFFF
    except ValueError:
        fits = False
    if not fits:
        raise FleetFault(f"where to listen is ADDRESS:PORT, such as {DEFAULT_LISTEN}, not {text!r:.80}")


def _check_address(text: str) -> None:
    """Raise FleetFault unless a certificate can be for it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        words = text.removeprefix("*.").split(".")
        fits = all(
            0 < len(word) <= 63 and word.isascii() and word.replace("-", "").isalnum() for word in words
        )
        if not fits or len(text) > 253:
            raise FleetFault(f"{text!r:.80} is neither a host's name nor an address") from None
