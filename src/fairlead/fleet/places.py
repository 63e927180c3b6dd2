"""Where the files of a machine in a fleet are, and how it has joined."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ..system.files import replace_file
from ..system.settings import Settings, safe_dir
from .authority import FleetFault


class Joined(Struct):
    """How this machine belongs to a fleet."""

    url: str
    leaf: bool = False
    has_ca: bool = False
    has_user: bool = False


class FleetPlaces:
    """The files of the fleet's process."""

    def __init__(self, settings: Settings) -> None:
        self.socket = f"{settings.runtime_dir}/fleet.sock"
        self.lock = f"{settings.runtime_dir}/fleet.lock"
        self.metrics = f"{settings.runtime_dir}/fleet.prom"
        self.log = f"{settings.state_dir}/fleet.log"
        self.directory = f"{settings.state_dir}/fleet"
        self.joined = f"{self.directory}/joined.json"
        self.creds = f"{self.directory}/machine.creds"
        self.user = f"{self.directory}/user.creds"
        self.account = f"{self.directory}/account.jwt"
        self.ca = f"{self.directory}/ca.pem"
        self.leaf = f"{self.directory}/leaf"

    def read(self) -> Joined:
        """How this machine has joined. Raises FleetFault."""
        try:
            with open(self.joined, "rb") as file:
                return msgspec.json.decode(file.read(64 * 1024), type=Joined)
        except FileNotFoundError:
            raise FleetFault(
                "this machine belongs to no fleet; `fairlead fleet join URL --creds FILE`"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise FleetFault(f"can't read {self.joined}: {error}") from None

    def write(self, joined: Joined, creds: bytes, ca: bytes | None, user: bytes | None) -> None:
        """Keep how this machine joins, with copies of its files for our user alone. Raises OSError."""
        safe_dir(os.path.dirname(self.directory))
        safe_dir(self.directory)
        replace_file(self.creds, creds)
        for path, data in ((self.ca, ca), (self.user, user)):
            if data is not None:
                replace_file(path, data)
        replace_file(self.joined, msgspec.json.encode(joined))

    def place(self) -> str:
        """What tells this machine's user from others with a copy of the credential; made once. Raises
        OSError."""
        path = f"{self.directory}/place"
        try:
            with open(path) as file:
                if found := file.read(64).strip():
                    return found
        except FileNotFoundError:
            pass
        replace_file(path, (made := secrets.token_hex(16)).encode())
        return made

    def contents(self) -> dict[str, bytes | None]:
        """What is in the files that say how this machine has joined, to be put back. Raises OSError."""
        found: dict[str, bytes | None] = {}
        for path in (self.creds, self.user, self.account, self.ca, self.joined):
            try:
                with open(path, "rb") as file:
                    found[path] = file.read()
            except FileNotFoundError:
                found[path] = None
        return found

    def put_back(self, contents: Mapping[str, bytes | None]) -> None:
        """Undo what was written since. Raises OSError."""
        for path, data in contents.items():
            if data is not None:
                replace_file(path, data)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def forget(self) -> None:
        """This machine belongs to no fleet any more."""
        for path in (self.joined, self.creds, self.user, self.account, self.ca, self.metrics):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
