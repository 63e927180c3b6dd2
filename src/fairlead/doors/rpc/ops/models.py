"""The ops of rpc-edn that choose a session's model and how hard it thinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....agent.conversation import Conversation
from ....agent.models import THINKING_LEVELS, ModelInfo
from ....agent.ports import ModelSource, Refused
from ....formats.edn import Keyword
from ....wire.rpc import ErrorCode, fields
from ..frames import options
from ..handlers import Call, Data, OpError, invalid, op


def checked_model(models: ModelSource, agent: str | None, model: str) -> tuple[str, str]:
    """The provider and the id of a model that a session with this agent can be set to, as far as that is
    known before it is there. Raises OpError."""
    provider, _, id = model.partition("/")
    if agent is not None and (provider != agent or not id):
        raise OpError(ErrorCode.UNKNOWN_MODEL, f"{agent} has models of its own: use {agent}/ID")
    if agent is None and models.find(provider, id) is None:
        why = f"unknown model: {model:.200}; `fairlead agent --list-models` lists them"
        raise OpError(ErrorCode.UNKNOWN_MODEL, why)
    return provider, id


class AgentModels:
    """The models that there are. `session` finds the session that a request means."""

    def __init__(
        self, session: Callable[[Call], Conversation], models: Callable[[Call], Sequence[ModelInfo]]
    ) -> None:
        self.session = session
        self._models = models

    @op
    async def set_model(self, call: Call, provider: str, model_id: str) -> Data:
        session = self.session(call)
        try:
            info = session.set_model(provider, model_id)
        except Refused as error:
            why = str(error) if session.kind == "hosted" else "unknown model"
            raise OpError(ErrorCode.UNKNOWN_MODEL, why) from None
        return fields(model=fields(provider=info.provider, id=info.id))

    @op
    async def cycle_model(self, call: Call, direction: Any = None) -> Data:
        info = self.session(call).cycle_model(-1 if direction in ("prev", Keyword("prev")) else 1)
        return fields(model=fields(provider=info.provider, id=info.id))

    @op
    async def set_thinking_level(self, call: Call, level: str | int) -> Data:
        session = self.session(call)
        try:
            return fields(thinking_level=session.set_thinking_level(_level(level)))
        except Refused as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    @op
    async def cycle_thinking_level(self, call: Call) -> Data:
        return fields(thinking_level=self.session(call).cycle_thinking_level())

    @op
    async def set_option(self, call: Call, option: str, value: Any) -> Data:
        session = self.session(call)
        session.set_option(option, str(value))
        return fields(options=options(session))

    @op
    async def get_available_models(self, call: Call) -> Data:
        return fields(models=[_model_row(info) for info in self._models(call)])


def _level(value: str | int) -> str:
    """A thinking level by its name, or by its place among the levels."""
    if isinstance(value, int):
        if not 0 <= value < len(THINKING_LEVELS):
            raise invalid("level", f"0 to {len(THINKING_LEVELS) - 1}")
        return THINKING_LEVELS[value]
    return value


def _model_row(info: ModelInfo) -> Data:
    return fields(
        provider=info.provider,
        id=info.id,
        name=info.name,
        reasoning=info.reasoning,
        context_window=info.window,
        max_output_tokens=info.max_output,
    )
