"""How the agent of a hosted session is set: what was chosen in the session, what the configuration says, and
what the agent itself has. Journals what is chosen; sends nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from ..agent.journal import Custom
from ..agent.models import ModelInfo
from ..agent.ports import Choosable, Refused
from ..wire import acp
from ..wire.acp.base import Wire
from .state import Work

T = TypeVar("T")
log = logging.getLogger("fairlead")

CHOSEN = "fairlead/hosted"
"""The custom entry that has how a session is set: the agent's own session, mode, model, sandbox."""
MAX_SIZE = 256 * 1024
"""How many bytes of JSON an agent's modes, options or commands may have; the first ones are kept."""
MAX_ID = 1024
"""How many characters a mode may have."""
MAX_LISTED = 30
"""How many modes or models an error names."""
MODEL, MODE = "model", "mode"
"""The categories of the options that choose an agent's model and mode."""
_LISTED_MODELS = ""
"""The id of the option that stands for models which an agent lists apart from its options."""


class AgentDefaults(Protocol):
    """What is set for an agent."""

    @property
    def mode(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def sandbox(self) -> bool: ...


class AgentSettings:
    """The settings of one session's agent."""

    def __init__(
        self,
        append: Callable[[Custom], object],
        agent: str,
        described: Callable[[], AgentDefaults],
        work: Callable[[], Work],
        changed: Callable[[], None],
    ) -> None:
        """`append` journals what is chosen; `changed` is called when the agent is set otherwise."""
        self.values: dict[str, Any] = {}
        """What was set in this session: the agent's session, mode, model, sandbox."""
        self._append = append
        self._agent = agent
        self._described = described
        self._work = work
        self._changed = changed
        self.model = ModelInfo(agent, "default", agent, window=0)

    def load(self, state: object) -> None:
        """Take what the journal tells."""
        if isinstance(state, Custom) and state.custom_type == CHOSEN and isinstance(state.data, dict):
            self.values |= state.data

    def choose(self, **settings: Any) -> None:
        """Set the session's mode, model or sandbox, for this agent and the next one that is started."""
        self._append(Custom(CHOSEN, settings))
        self.values |= settings

    @property
    def session(self) -> str:
        """The agent's own session, if there was one."""
        return str(self.values.get("session") or "")

    @property
    def servers(self) -> list[str]:
        """The names of MCP servers that a client has given."""
        return [str(each) for each in self.values.get("mcp") or ()]

    @property
    def places(self) -> dict[str, str]:
        """Where the agent may write in its sandbox, and what that really was when it began."""
        found = self.values.get("places")
        return {str(path): str(real) for path, real in found.items()} if isinstance(found, dict) else {}

    @property
    def is_sandboxed(self) -> bool:
        return bool(self.values.get("sandbox", self._described().sandbox))

    @property
    def wanted_mode(self) -> str:
        return str(self.values.get("mode") or self._described().mode)

    @property
    def wanted_model(self) -> str:
        return str(self.values.get("model") or self._described().model)

    @property
    def mode(self) -> str:
        """The agent's mode, as far as it is known."""
        modes, option = self._work().modes, self._option(MODE)
        if modes is not None:
            return modes.current_mode_id
        return str(option.current_value) if option is not None else self.wanted_mode

    @property
    def models(self) -> dict[str, str]:
        """The models that the agent lets be chosen, as far as it is known, and their names."""
        option = self._option(MODEL)
        return _values(option) if option is not None else {}

    @property
    def options(self) -> Sequence[Choosable]:
        """What the agent lets be chosen, besides its mode, as far as it is known."""
        work = self._work()
        return [
            Choosable(each.id, each.name, each.category or "", each.current_value, [*_values(each).items()])
            for each in work.options
            if isinstance(each.current_value, str) and each.category != MODE
        ]

    @property
    def modes(self) -> Sequence[str]:
        """The modes that the agent has."""
        modes, option = self._work().modes, self._option(MODE)
        if modes is not None:
            return [each.id for each in modes.available_modes]
        return list(_values(option)) if option is not None else []

    @property
    def mode_names(self) -> Mapping[str, str]:
        """What the agent calls them."""
        modes, option = self._work().modes, self._option(MODE)
        if modes is not None:
            return {each.id: each.name for each in modes.available_modes}
        return _values(option) if option is not None else {}

    def choose_mode(self, mode: str) -> Wire | None:
        """Choose a mode; returns what the agent has to be told, if it is there. Raises Refused."""
        told = self._told_mode(mode) if self._work().session else None
        self.choose(mode=mode)
        return told

    def _told_mode(self, mode: str) -> Wire:
        if mode not in self.modes:
            known = f"there are {_listed(self.modes)}" if self.modes else "it has no modes"
            raise Refused(f"{self._agent} has no mode {mode!r}; {known}")
        option = self._option(MODE)
        if self._work().modes is not None or option is None:
            return acp.SetMode(session_id=self._work().session, mode_id=mode)
        return self._told_option(option, mode)

    def _told_option(self, option: acp.ConfigOption, value: str) -> Wire:
        session = self._work().session
        if option.id == _LISTED_MODELS:
            return acp.SetModel(session_id=session, model_id=value)
        return acp.SetConfigOption(session_id=session, config_id=option.id, value=value)

    def choose_model(self, id: str) -> Wire | None:
        """Choose a model; returns what the agent has to be told, if it is there. Raises Refused."""
        told = self._told_option(self._model_option(id), id) if self._work().session else None
        self.choose(model=id)
        self.model = ModelInfo(self._agent, id, id, window=self._work().window)
        return told

    def missing(self) -> list[Wire]:
        """What an agent with an open session has to be told. Raises Refused if it has no such mode or
        model."""
        requests: list[Wire] = []
        mode, model = self.wanted_mode, self.wanted_model
        if mode and mode != self.mode:
            requests.append(self._told_mode(mode))
        if model:
            option = self._model_option(model)
            if model != option.current_value:
                requests.append(self._told_option(option, model))
        return requests

    def _model_option(self, model: str) -> acp.ConfigOption:
        """The agent's option that has this model among its values. Raises Refused."""
        option = self._option(MODEL)
        if option is None:
            raise Refused(f"{self._agent} does not let its model be set; leave it out")
        if model not in self.models:
            raise Refused(f"{self._agent} has no model {model!r}; there are {_listed(list(self.models))}")
        return option

    # --- what the agent says ------------------------------------------------------------------------------

    def opened(self, id: str, result: acp.NewSessionResult | acp.OpenSessionResult) -> None:
        """The agent's session is open."""
        modes, models, options = result.modes, result.models, result.config_options
        self._work().session = id
        if self.values.get("session") != id:
            self.choose(session=id)
        if modes is not None:
            known = self.bounded(modes.available_modes, "modes")
            self._work().modes = acp.Modes(
                current_mode_id=modes.current_mode_id[:MAX_ID], available_modes=known
            )
        if models is not None:
            self._work().options = (_listed_models(models),)
        if options is not None or models is not None:
            self.take_options(options or ())

    def take_mode(self, mode: str) -> None:
        mode = mode[:MAX_ID]
        work = self._work()
        self._take_value(MODE, mode)
        if work.modes is not None and work.modes.current_mode_id != mode:
            work.modes = acp.Modes(current_mode_id=mode, available_modes=work.modes.available_modes)
            self._changed()

    def take_set(self, method: str) -> None:
        """The agent did what it was told last, and says no more than that."""
        if method == "session/set_mode":
            self.take_mode(self.wanted_mode)
        elif method == "session/set_model":
            self._take_value(MODEL, self.wanted_model)
            self.take_model()

    def _take_value(self, category: str, value: str) -> None:
        """An option of a category has another value."""
        options = self._work().options
        if (option := self._option(category)) is not None and option.current_value != value:
            changed = msgspec.structs.replace(option, current_value=value)
            self._work().options = tuple(changed if each is option else each for each in options)
            self._changed()

    def bounded(self, values: tuple[T, ...], what: str) -> tuple[T, ...]:
        """As many of an agent's values as can be kept."""
        kept, size = 0, 0
        for value in values:
            size += len(msgspec.json.encode(value))
            if size > MAX_SIZE:
                log.warning("%s has too many %s: %d of %d are kept", self._agent, what, kept, len(values))
                break
            kept += 1
        return values[:kept]

    def take_options(self, options: tuple[acp.ConfigOption, ...]) -> None:
        """These are the options now; after them, models that are listed apart."""
        listed = [each for each in self._work().options if each.id == _LISTED_MODELS]
        self._work().options = self.bounded((*options, *listed), "options")
        if self._work().modes is not None and (mode := self._option(MODE)) is not None:
            self.take_mode(str(mode.current_value))
        self.take_model()
        self._changed()

    def take_model(self) -> None:
        """Note which model the agent uses, and its window."""
        option = self._option(MODEL)
        value = option.current_value if option is not None else None
        id, name = (value, value) if isinstance(value, str) else (self.model.id, self.model.name)
        self.model = ModelInfo(self._agent, id, name, window=self._work().window)

    def _option(self, category: str) -> acp.ConfigOption | None:
        return next((each for each in self._work().options if each.category == category), None)


def _listed_models(models: acp.Models) -> acp.ConfigOption:
    choices = [acp.ConfigChoice(name=each.name, value=each.model_id) for each in models.available_models]
    current = models.current_model_id
    if all(each.value != current for each in choices):
        choices.insert(0, acp.ConfigChoice(name=current, value=current))
    return acp.ConfigOption(
        id=_LISTED_MODELS,
        name="Model",
        type="select",
        current_value=current,
        options=tuple(choices),
        category=MODEL,
    )


def _listed(words: Sequence[str]) -> str:
    """Words as an error has them."""
    more = len(words) - MAX_LISTED
    return ", ".join(words[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _values(option: acp.ConfigOption) -> dict[str, str]:
    """The values that an option can have, and their names."""
    single = {each.value: each.name for each in option.options if each.value is not None}
    return single | {inner.value: inner.name for each in option.options for inner in each.options or ()}
