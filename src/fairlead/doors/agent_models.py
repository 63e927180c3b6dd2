"""The ops of rpc-edn that choose a session's model and how hard it thinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent.models import THINKING_LEVELS, ModelInfo
from ..agent.session import AgentSession, Refused
from ..formats.edn import Keyword
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Caller, CallerHandler, OpError

Data = Mapping[Any, Any]


class AgentModels:
    """The models that there are. `session` finds the session that a request means."""

    def __init__(
        self,
        session: Callable[[Request, Caller], AgentSession],
        models: Callable[[], Sequence[ModelInfo]],
    ) -> None:
        self.session = session
        self._models = models

    @property
    def ops(self) -> dict[str, CallerHandler]:
        return {
            "set_model": self._set_model,
            "cycle_model": self._cycle_model,
            "set_thinking_level": self._set_thinking_level,
            "cycle_thinking_level": self._cycle_thinking_level,
            "get_available_models": self._get_available_models,
        }

    async def _set_model(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        try:
            info = session.set_model(word(request.get("provider")), request.get("model-id"))
        except Refused:
            raise OpError(ErrorCode.UNKNOWN_MODEL, "unknown model") from None
        return fields(model=fields(provider=info.provider, id=info.id))

    async def _cycle_model(self, request: Request, caller: Caller) -> Data:
        step = -1 if word(request.get("direction")) == "prev" else 1
        info = self.session(request, caller).cycle_model(step)
        return fields(model=fields(provider=info.provider, id=info.id))

    async def _set_thinking_level(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        level = _level(request.get("level"))
        try:
            return fields(thinking_level=session.set_thinking_level(level))
        except Refused as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    async def _cycle_thinking_level(self, request: Request, caller: Caller) -> Data:
        return fields(thinking_level=self.session(request, caller).cycle_thinking_level())

    async def _get_available_models(self, request: Request, caller: Caller) -> Data:
        return fields(models=[_model_row(info) for info in self._models()])


def word(value: Any) -> str:
    """A name that may be given as a keyword; nothing if there is none."""
    return value.name if isinstance(value, Keyword) else value or ""


def _level(value: Any) -> str:
    """A thinking level by its name, or by its place among the levels."""
    if isinstance(value, int):
        if not 0 <= value < len(THINKING_LEVELS):
            wanted = f"0 to {len(THINKING_LEVELS) - 1}"
            raise OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :level: {wanted}")
        return THINKING_LEVELS[value]
    return value.name if isinstance(value, Keyword) else str(value)


def _model_row(info: ModelInfo) -> Data:
    return fields(
        provider=info.provider,
        id=info.id,
        name=info.name,
        reasoning=info.reasoning,
        context_window=info.window,
        max_output_tokens=info.max_output,
    )
