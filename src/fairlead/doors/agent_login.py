"""Logging in: a person enters a provider's key, over rpc-edn or with `/login`.

Providers let programs in by keys here, and not by OAuth: `login_begin` says so, and where a key is to be had;
`login_complete` brings it. The key goes to the keyring and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from ..agent.models import ModelError
from ..agent.session import AgentSession
from ..settings import SettingError
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Caller, CallerHandler, OpError

Data = Mapping[Any, Any]


class Keyring(Protocol):
    """Keys that people have entered, by provider."""

    def keys_at(self, provider: str) -> str:
        """Where a person gets a key. Raises ModelError if none can be entered."""

    def enter_key(self, provider: str, key: str) -> None:
        """Keep a key. Raises ModelError, ValueError or OSError."""

    def forget_key(self, provider: str) -> bool:
        """Remove a key; tells whether there was one."""


class AgentLogin:
    """The logins that clients have begun. `session` finds the session that a request means."""

    def __init__(self, keyring: Keyring | None, session: Callable[[Request, Caller], AgentSession]) -> None:
        self._keyring = keyring
        self._session = session
        self._pending: WeakKeyDictionary[Caller, str] = WeakKeyDictionary()

    @property
    def ops(self) -> dict[str, CallerHandler]:
        return {"login_begin": self._begin, "login_complete": self._complete}

    def begin(self, caller: Caller, provider: str) -> tuple[str, str]:
        """A client wants to log in; gives where a key is to be had, and what to do. Raises ModelError."""
        if self._keyring is None:
            raise ModelError("refused", "no keys can be kept here")
        url = self._keyring.keys_at(provider)
        self._pending[caller] = provider
        place = f"Get one at {url}, and enter it" if url else "Enter the key"
        return url, f"{provider} has no login by OAuth here; it takes a key. {place} to log in."

    def forget(self, provider: str) -> bool:
        """Log out; tells whether there was anything to forget."""
        return self._keyring is not None and self._keyring.forget_key(provider)

    async def _begin(self, request: Request, caller: Caller) -> Data:
        provider = request.get("provider") or self._session(request, caller).model.provider
        try:
            url, message = self.begin(caller, provider)
        except ModelError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :provider: {error}") from None
        return fields(
            provider=_named(provider),
            url=url,
            uses_callback_server=False,
            pending_login=True,
            kind="api-key",
            message=message,
        )

    async def _complete(self, request: Request, caller: Caller) -> Data:
        provider = self._pending.get(caller)
        if provider is None or self._keyring is None:
            raise OpError(ErrorCode.NO_PENDING_LOGIN, "no login was begun")
        try:
            self._keyring.enter_key(provider, request.get("input") or "")
        except ValueError as error:
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :input: {error}") from None
        except (ModelError, SettingError, OSError) as error:
            raise OpError(ErrorCode.FAILED, f"the key can't be kept: {error}") from None
        del self._pending[caller]
        return fields(provider=_named(provider), logged_in=True)


def _named(provider: str) -> Data:
    return fields(id=provider, name=provider)
