"""Which browsers want to be pushed to, our key for push services, and who was told of which question: files
that only we can read.

A subscription is kept by the digest of the cookie of its browser, and ends with that. The key is made once;
with another one services would refuse what is sent to the subscriptions that there are, so these end with it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct, field

from ..system.files import read_private, replace_file
from . import limits

if TYPE_CHECKING:
    from .push_crypto import Vapid


T = TypeVar("T")


class PushSubscription(Struct):
    """A browser that wants to be pushed to."""

    owner: str
    """The digest of its cookie."""
    endpoint: str
    p256dh: str
    auth: str
    key: str
    """Our public key when it subscribed."""
    since: float


class _Pages(Struct):
    """What is written down."""

    subscriptions: list[PushSubscription] = field(default_factory=list)
    pushed: dict[str, dict[str, bool]] = field(default_factory=dict)
    """By the token of a question, the browsers that were told, and whether of it alone."""


class _Keys(Struct):
    """The file of the key, in base64url."""

    private: str
    public: str


class PushBook:
    """The subscriptions."""

    def __init__(self, path: str, key_path: str) -> None:
        self._path = path
        self._key_path = key_path
        self._pages = _read(path, _Pages) or _Pages()
        self._keys = _read(key_path, _Keys)
        public = self._keys.public if self._keys is not None else ""
        self._pages.subscriptions = [each for each in self._pages.subscriptions if each.key == public]

    # --- the key ------------------------------------------------------------------------------------------

    def public_key(self) -> str:
        """Our public key, as browsers take it. It is made if there is none. Raises OSError."""
        if self._keys is None:
            from .push_crypto import Vapid, encode

            made = Vapid.new()
            keys = _Keys(encode(made.private), encode(made.public))
            replace_file(self._key_path, msgspec.json.encode(keys))
            self._keys = keys
        return self._keys.public

    def vapid(self) -> Vapid:
        """Our key, to sign with. Raises OSError or ValueError."""
        from .push_crypto import Vapid

        self.public_key()
        assert self._keys is not None
        text = self._keys.private
        return Vapid(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))

    # --- subscriptions ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pages.subscriptions)

    def all(self) -> list[PushSubscription]:
        return list(self._pages.subscriptions)

    def of(self, owner: str) -> PushSubscription | None:
        """The subscription of a browser."""
        return next((each for each in self._pages.subscriptions if each.owner == owner), None)

    def is_full_for(self, owner: str, endpoint: str) -> bool:
        """True if there is no room for it."""
        return len(self._without(owner, endpoint)) >= limits.MAX_SUBSCRIPTIONS

    def add(self, made: PushSubscription) -> None:
        """Keep it, in place of what this browser had: by its cookie now, or one before. Raises OSError."""
        self._pages.subscriptions = [*self._without(made.owner, made.endpoint), made]
        self._save()

    def _without(self, owner: str, endpoint: str) -> list[PushSubscription]:
        """All but those of a browser."""
        rows = self._pages.subscriptions
        return [each for each in rows if owner != each.owner and endpoint != each.endpoint]

    def drop(self, gone: list[PushSubscription]) -> None:
        """Forget some. Raises OSError."""
        if gone:
            self._pages.subscriptions = [each for each in self._pages.subscriptions if each not in gone]
            self._save()

    # --- who was told -------------------------------------------------------------------------------------

    def pushed(self) -> dict[str, dict[str, bool]]:
        """By the token of a question, the browsers that were told, and whether of it alone."""
        return self._pages.pushed

    def note_pushed(self, tokens: list[str], owner: str, *, apart: bool) -> None:
        """Write down who is told of some questions, before it is done. Raises OSError."""
        for token in tokens:
            self._pages.pushed.setdefault(token, {})[owner] = apart
        while len(self._pages.pushed) > limits.MAX_PUSHED:
            self._pages.pushed.pop(next(iter(self._pages.pushed)))
        self._save()

    def forget_pushed(self, token: str) -> None:
        """A question waits no more. Raises OSError."""
        if self._pages.pushed.pop(token, None) is not None:
            self._save()

    def _save(self) -> None:
        replace_file(self._path, msgspec.json.encode(self._pages))


def _read(path: str, kind: type[T]) -> T | None:
    """What a file says, if it is ours alone and makes sense."""
    data = read_private(path, limits.MAX_PUSH_FILE)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError:
        return None
