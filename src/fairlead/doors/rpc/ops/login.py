"""Logging in: a person enters a provider's key, over rpc-edn or with `/login`.

Providers let programs in by keys here, and not by OAuth: `login_begin` says so, and where a key is to be had;
`login_complete` brings it. The key goes to the keyring and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from ....agent.conversation import Conversation
from ....agent.models import ModelError
from ....system.settings import SettingError
from ....wire.rpc import ErrorCode, fields
from ..handlers import Call, Caller, Data, OpError, invalid, op

KEY_WAIT = 5.0
"""Seconds that a client has to lend a key that it said it has; then the model is asked without."""


class Keyring(Protocol):
    """Keys that people have entered, by provider."""

    def keys_at(self, provider: str) -> str:
        """Where a person gets a key. Raises ModelError if none can be entered."""

    def enter_key(self, provider: str, key: str) -> None:
        """Keep a key. Raises ModelError, ValueError or OSError."""

    def forget_key(self, provider: str) -> bool:
        """Remove a key; tells whether there was one."""

    def lacked(self, whose: str) -> tuple[str, ...]:
        """The variables that would hold the keys of a provider or an agent; none if it has one here."""

    def lend(self, variable: str, key: str) -> None:
        """Use a client's key, which is written nowhere. Raises ModelError."""


class Lending:
    """Keys that clients lend: a daemon does not see what was exported after it was started, so it asks the
    client that wants something of a model, which has said what it has."""

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self._wanted: dict[tuple[Caller, str], asyncio.Future[None]] = {}

    def due(self, whose: str, caller: Caller) -> Sequence[str]:
        """The variables whose values a client will be asked for."""
        lacked = self._keyring.lacked(whose) if self._keyring is not None and caller.key_names else ()
        return [name for name in lacked if name in caller.key_names]

    async def ensure(self, whose: str, caller: Caller) -> None:
        """Ask a client for the keys of a provider or an agent if they are lacking here, and wait until they
        came, or not."""
        places = [(caller, variable) for variable in self.due(whose, caller)]
        for place in places:
            if place not in self._wanted:
                self._wanted[place] = asyncio.get_running_loop().create_future()
                caller.want_key(place[1])
        if places:
            await asyncio.wait([self._wanted[place] for place in places], timeout=KEY_WAIT)
        for place in places:
            self._wanted.pop(place, None)

    @op
    async def lend_key(self, call: Call, variable: str, key: str) -> Data:
        wanted = self._wanted.get((call.caller, variable))
        if wanted is None or self._keyring is None:
            raise OpError(ErrorCode.FAILED, "the daemon did not ask for this key")
        try:
            self._keyring.lend(variable, key)
        except ModelError as error:
            raise invalid("key", error) from None
        finally:
            if not wanted.done():
                wanted.set_result(None)
        return fields(accepted=True)


class AgentLogin:
    """The logins that clients have begun. `session` finds the session that a request means."""

    def __init__(self, keyring: Keyring | None, session: Callable[[Call], Conversation]) -> None:
        self._keyring = keyring
        self._session = session
        self._pending: WeakKeyDictionary[Caller, str] = WeakKeyDictionary()

    def begin(self, caller: Caller, provider: str) -> tuple[str, str]:
        """A client wants to log in; gives where a key is to be had, and what to do. Raises ModelError."""
        if self._keyring is None:
            raise ModelError("refused", "keys can't be stored here")
        url = self._keyring.keys_at(provider)
        self._pending[caller] = provider
        place = f"Get one at {url}, and enter it" if url else "Enter the key"
        return url, f"{provider} has no OAuth login here; it needs a key. {place} to log in."

    def forget(self, provider: str) -> bool:
        """Log out; tells whether there was anything to forget."""
        return self._keyring is not None and self._keyring.forget_key(provider)

    def is_pending(self, caller: Caller) -> bool:
        """Whether a client has begun to log in."""
        return caller in self._pending

    @op
    async def login_begin(self, call: Call, provider: str = "") -> Data:
        if self.is_pending(call.caller) and not call.caller.increments:
            raise OpError(ErrorCode.INVALID_PARAMS, "login already in progress")
        provider = provider or self._session(call).model.provider
        try:
            url, message = self.begin(call.caller, provider)
        except ModelError as error:
            raise invalid("provider", error) from None
        return fields(
            provider=_named(provider),
            url=url,
            uses_callback_server=False,
            pending_login=True,
            kind="api-key",
            message=message,
        )

    @op
    async def login_complete(self, call: Call, input: str = "") -> Data:
        provider = self._pending.get(call.caller)
        self._keep(call.caller, input)
        assert provider is not None
        return fields(provider=_named(provider), logged_in=True)

    def enter(self, caller: Caller, key: str) -> str:
        """Log in with a key, or don't: there is no second try. Gives the provider. Raises OpError."""
        provider = self._pending.get(caller, "")
        try:
            self._keep(caller, key)
        finally:
            self._pending.pop(caller, None)
        return provider

    def _keep(self, caller: Caller, key: str) -> None:
        provider = self._pending.get(caller)
        if provider is None or self._keyring is None:
            raise OpError(ErrorCode.NO_PENDING_LOGIN, "no login in progress")
        try:
            self._keyring.enter_key(provider, key)
        except ValueError as error:
            raise invalid("input", error) from None
        except (ModelError, SettingError, OSError) as error:
            raise OpError(ErrorCode.FAILED, f"can't store the key: {error}") from None
        del self._pending[caller]


def _named(provider: str) -> Data:
    return fields(id=provider, name=provider)
