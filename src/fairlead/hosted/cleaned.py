"""Our end of a connection with an agent, without secrets: every text that comes from the agent is cleaned
here, whatever field it is in, before anybody else sees it.

An id that we send back may have a secret in it, too. It gets a name without one, and what is sent has the
agent's own id again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..agent.secrets import Redactor
from ..wire import acp
from ..wire.acp.base import Wire
from ..wire.faults import Broken

S = TypeVar("S", bound=Struct)

MAX_ORIGINALS = 1000
"""How many ids with secrets in them an agent may use."""
_SENT_BACK = frozenset(
    [
        "session",
        "session_id",
        "option_id",
        "id",
        "value",
        "current_value",
        "config_id",
        "mode_id",
        "current_mode_id",
        "model_id",
        "current_model_id",
    ]
)
"""The fields with ids that are sent back to the agent, in what it says and in what we say."""
_UNSEEN = frozenset(("request_id",))
"""The fields with the numbers of requests, which only the connection uses."""


class _TooMany(Exception):
    """The agent uses too many ids with secrets."""


class CleanedConnection(acp.ClientConnection):
    """A connection whose messages from the agent have no secrets. `originals` has the agent's own ids by the
    names that we know them by, and is part of the state."""

    def __init__(self, saved: acp.Saved | None, originals: Mapping[str, str], secrets: Redactor) -> None:
        super().__init__(saved)
        self.originals = dict(originals)
        self._names = {id: name for name, id in self.originals.items()}
        self._secrets = secrets

    # --- what comes -----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[acp.Item]:
        received: list[acp.Item] = []
        try:
            for item in super().receive(data):
                received.append(self._cleaned(item))
        except _TooMany:
            self.closed = True
            received.append(Broken(f"it uses more than {MAX_ORIGINALS} ids with secrets in them"))
        if any(isinstance(each, acp.CallAnswer) and each.method == "initialize" for each in received):
            self.agent = self._clean(self.agent)
        return received

    def _cleaned(self, item: acp.Item) -> acp.Item:
        if isinstance(item, Broken):
            return Broken(self._secrets.text(item.reason), item.reply)
        return self._clean_struct(item, "id")

    def _clean(self, value: Any) -> Any:
        """The same without secrets."""
        if isinstance(value, Struct):
            return self._clean_struct(value)
        if isinstance(value, tuple):
            cleaned = tuple(map(self._clean, value))
            return value if all(new is old for new, old in zip(cleaned, value)) else cleaned
        return self._secrets.value(value)

    def _clean_struct(self, struct: S, unseen: str = "") -> S:
        changed = {}
        for field in struct.__struct_fields__:
            old = getattr(struct, field)
            if field == unseen or field in _UNSEEN:
                continue
            new = self._name(old) if isinstance(old, str) and field in _SENT_BACK else self._clean(old)
            if new is not old:
                changed[field] = new
        return msgspec.structs.replace(struct, **changed) if changed else struct

    def _name(self, id: str) -> str:
        """The name of an id: itself, if that has no secret."""
        if id in self._names:
            return self._names[id]
        cleaned = name = self._secrets.text(id)
        if cleaned == id and id not in self.originals:
            return id
        if len(self.originals) >= MAX_ORIGINALS:
            raise _TooMany
        number = 2
        while name in self.originals:
            name, number = f"{cleaned}-{number}", number + 1
        self.originals[name], self._names[id] = id, name
        return name

    # --- what is sent ---------------------------------------------------------------------------------------

    def _restored(self, params: S) -> S:
        """What we say, with the agent's own ids."""
        changed: dict[str, Any] = {}
        for field in params.__struct_fields__ if self.originals else ():
            value = getattr(params, field)
            if isinstance(value, Struct):
                changed[field] = self._restored(value)
            elif field in _SENT_BACK and isinstance(value, str):
                changed[field] = self.originals.get(value, value)
        return msgspec.structs.replace(params, **changed) if changed else params

    def request(self, params: Wire) -> tuple[int, bytes]:
        return super().request(self._restored(params))

    def notify(self, params: Wire) -> bytes:
        return super().notify(self._restored(params))

    def respond(self, id: acp.Id, result: Wire) -> bytes:
        return super().respond(id, self._restored(result))

    def cancel(self, session: str) -> bytes:
        return super().cancel(self.originals.get(session, session))
