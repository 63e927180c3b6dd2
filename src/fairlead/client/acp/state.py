"""How a session is, as an editor shows it: its title, modes, options, commands, and how full its context is.

What has changed since the editor was told is found here. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...wire import acp
from .narration import Updates

MODE = "mode"
"""The option that is the mode, for editors that have options only."""
_SEEN = ("session_display_name", "model_provider", "model_id", "thinking_level")
"""What of a session is told with each event of its state."""


class Shown:
    """What the editor knows of how a session is."""

    def __init__(self) -> None:
        self._seen: tuple[Any, ...] = ()
        self._title: str | None = None
        self._mode = ""
        self._modes: Sequence[Mapping[str, Any]] = ()
        self._options: list[dict[str, Any]] = []
        self._usage = (0, 0)
        self._commands: tuple[acp.AvailableCommand, ...] | None = None

    def differs(self, data: Mapping[str, Any]) -> bool:
        """Whether an event shows that something has changed."""
        return tuple(data.get(key) for key in _SEEN) != self._seen

    def take(self, state: Mapping[str, Any]) -> Updates:
        """How the session is now, as `get_view` has it; returns what is new."""
        updates: Updates = []
        self._seen = tuple(state.get(key) for key in _SEEN)
        if (title := state.get("title")) != self._title:
            self._title = title
            updates.append(acp.SessionInfoChanged(title=title))
        before = self.config_options, self._mode
        self._mode = state.get("mode") or ""
        self._modes, self._options = state.get("modes") or (), list(state.get("options") or ())
        if self._mode and self._mode != before[1] and self.modes:
            updates.append(acp.CurrentMode(current_mode_id=self._mode))
        if (options := self.config_options) != before[0] and options is not None:
            updates.append(acp.ConfigOptionsChanged(config_options=options))
        usage = state.get("context_tokens") or 0, state.get("context_window") or 0
        if usage != self._usage and all(usage):
            updates.append(acp.UsageChanged(used=usage[0], size=usage[1]))
        self._usage = usage
        return updates

    def take_commands(self, rows: Iterable[tuple[str, str]], hidden: Sequence[str]) -> Updates:
        """The commands as `/help` shows them, `name [hint]`; returns them if they are new."""
        found: dict[str, acp.AvailableCommand] = {}
        for row, description in rows:
            name, _, hint = row.partition(" ")
            if name and name not in hidden:
                shown = acp.CommandInput(hint=hint) if hint else None
                found.setdefault(name, acp.AvailableCommand(name=name, description=description, input=shown))
        commands = tuple(found.values())
        if commands == self._commands:
            return []
        self._commands = commands
        return [acp.AvailableCommands(available_commands=commands)]

    # --- modes and options ----------------------------------------------------------------------------------

    @property
    def modes(self) -> acp.Modes | None:
        if not self._modes:
            return None
        modes = (acp.Mode(id=each["id"], name=each["name"]) for each in self._modes)
        return acp.Modes(current_mode_id=self._mode, available_modes=tuple(modes))

    @property
    def config_options(self) -> tuple[acp.ConfigOption, ...] | None:
        """The options; the mode is one of them."""
        found = [
            _option(**{name: each[name] for name in ("id", "name", "category", "value", "choices")})
            for each in self._options
        ]
        if self._modes and not any(each.id == MODE for each in found):
            choices = [{"value": each["id"], "name": each["name"]} for each in self._modes]
            found.insert(0, _option(MODE, "Mode", MODE, self._mode, choices))
        return tuple(found) or None

    def is_mode(self, option: str) -> bool:
        """Whether an option is the mode, which is set as such."""
        return option == MODE and all(each["id"] != MODE for each in self._options)

    def set_mode(self, mode: str) -> None:
        self._mode = mode

    def set_option(self, option: str, value: str) -> None:
        """An option was set; the session may say so a moment later."""
        if self.is_mode(option):
            self._mode = value
        self._options = [{**each, "value": value} if each["id"] == option else each for each in self._options]


def _option(
    id: str, name: str, category: str, value: str, choices: Sequence[Mapping[str, str]]
) -> acp.ConfigOption:
    known = [acp.ConfigChoice(value=each["value"], name=each["name"]) for each in choices]
    if all(each.value != value for each in known):
        known.append(acp.ConfigChoice(value=value, name=value))
    return acp.ConfigOption(
        id=id, name=name, type="select", current_value=value, options=tuple(known), category=category or None
    )
