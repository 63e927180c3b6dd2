"""`fairlead config`: every setting with its value, its default and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..system.settings import Settings

COMMAND = Command(
    "config",
    "Show every setting: its value, its default, and where it comes from. Changes to config.toml take\n"
    "effect immediately, except for settings that the daemon reads when it starts; where the running daemon\n"
    "has another value, it is shown too. Errors in the file are reported with their line. Keys and\n"
    "passwords are hidden.",
    takes=(
        Argument(
            "name", "a setting or section, such as agent.model or agent", optional=True, completes="setting"
        ),
    ),
    options=(JSON,),
    examples=(
        ("fairlead config", "all settings"),
        ("fairlead config agent", "one section"),
        (
            "fairlead config --json | jq '.[] | select(.source != \"default\")'",
            "settings that differ from the default",
        ),
    ),
    codes={1: "config.toml has an error, or the setting does not exist"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..system.setting_rows import rows
    from ..system.settings import Settings

    settings = Settings()
    check(settings)
    found: list[dict[str, Any]] = [dict(row) for row in rows(settings)]
    held = {row["name"]: row["value"] for row in _of_daemon(settings)}
    for row in found:
        row["daemon"] = held.get(row["name"], row["value"])
    if options.name:
        names = [row["name"] for row in found]
        names = [*dict.fromkeys(name.partition(".")[0] for name in names), *names]
        found = [row for row in found if f"{row['name']}.".startswith(f"{options.name}.")]
        if not found:
            from .arguments import nearest

            raise Failure(f"no setting {options.name!r}{nearest(options.name, names)}")
    if options.json:
        import json

        print(json.dumps(found, indent=2))
        return 0
    from .columns import table

    cells = [("SETTING", "VALUE", "DEFAULT", "FROM"), *map(_cells, found)]
    table(cells, drops=("DEFAULT", "FROM"), flexible="VALUE")  # without its name a value says nothing
    if len(found) == 1:
        print(f"\n{found[0]['means']}; a change takes effect {found[0]['applies']}")
    return 0


def check(settings: Settings) -> None:
    """Raise SettingError for the first mistake that would keep a daemon from starting."""
    from ..daemon import agents as agent_room
    from ..daemon import control as control_room

    settings.check()
    agent_room.checked(settings)
    control_room.checked(settings)


def _of_daemon(settings: Settings) -> list[dict[str, Any]]:
    """What the daemon works with, if there is one."""
    from ..client.connection import DaemonConnection, RequestError

    try:
        with DaemonConnection(settings, start=False) as control:
            rows: list[dict[str, Any]] = control.ask("config")["rows"]
            return rows
    except (ConnectionError, RequestError):  # none, or an older one
        return []


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    note = ""
    if row["daemon"] != row["value"]:
        note = f"; the daemon has {_text(row['daemon'])} until it restarts"
    return row["name"], _text(row["value"]), _text(row["default"]), row["source"] + note


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    import json

    return json.dumps(value, ensure_ascii=False)
