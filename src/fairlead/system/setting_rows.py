"""Every setting with its value, its default and where it comes from, for `fairlead config` and the daemon.

Keys and what is secret in addresses are hidden here, so that nobody who shows a row need think of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict
from urllib.parse import urlsplit

from .setting_table import PLACES, PROVIDER_KEYS, SETTINGS, Setting
from .settings import USUAL_KEYS, Settings, variable_of

_START, _END = "FAIRLEAD_PROVIDERS_", "_BASE_URL"
HIDDEN = "(hidden)"
"""What is shown of a key."""


class Row(TypedDict):
    """One setting."""

    name: str
    value: Any
    default: Any
    source: str
    """`default`, `environment: NAME` or `FILE:LINE`."""
    applies: str
    """`at once`, or `after daemon restart`."""
    means: str


def rows(settings: Settings) -> list[Row]:
    """All settings that hold in an environment. Raises SettingError for a file that can't be read."""
    return [*_places(settings), *_known(settings), *_providers(settings), *_models(settings)]


def applies(setting: Setting) -> str:
    """When a change of a setting takes effect."""
    return "after daemon restart" if setting.at_start else "at once"


def _places(settings: Settings) -> Iterator[Row]:
    for name, setting in PLACES.items():
        value = settings.config_path if name == "config" else getattr(settings, name)
        variable = variable_of(name)
        plain = Settings({key: each for key, each in settings.environ.items() if key != variable})
        default = plain.config_path if name == "config" else getattr(plain, name)
        source = f"environment: {variable}" if settings.environ.get(variable) else "default"
        yield Row(
            name=name,
            value=value,
            default=default,
            source=source,
            applies=applies(setting),
            means=setting.means,
        )


def _known(settings: Settings) -> Iterator[Row]:
    for section, table in SETTINGS.items():
        for key, setting in table.items():
            default: Any = setting.default
            value, source = _value_and_source(
                settings, (section, key), default, has_variable=setting.variable
            )
            if default in ("true", "false"):
                default, value = default == "true", _flag(value)
            yield Row(
                name=f"{section}.{key}",
                value=_masked(f"{section}.{key}", value),
                default=list(default) if isinstance(default, tuple) else default,
                source=source,
                applies=applies(setting),
                means=setting.means,
            )


def _providers(settings: Settings) -> Iterator[Row]:
    tables = settings.section("providers")
    for name in dict.fromkeys([*USUAL_KEYS, *tables, *_named_by(settings)]):
        for key, means in PROVIDER_KEYS.items():
            value, source = _value_and_source(settings, ("providers", name, key), None)
            if key == "key" and value is None:
                variable = next((each for each in USUAL_KEYS.get(name, ()) if settings.environ.get(each)), "")
                value, source = (HIDDEN, f"environment: {variable}") if variable else (None, source)
            if value is None and key != "key":
                continue  # there is nothing to say about each of them for each provider
            yield Row(
                name=f"providers.{name}.{key}",
                value=_masked(f"providers.{name}.{key}", value),
                default=None,
                source=source,
                applies="at once",
                means=means,
            )


def _named_by(settings: Settings) -> Iterator[str]:
    """Providers that only the environment has."""
    for variable in settings.environ:
        if (
            variable.startswith(_START)
            and variable.endswith(_END)
            and len(variable) > len(_START) + len(_END)
        ):
            yield variable.removeprefix(_START).removesuffix(_END).lower()


def _models(settings: Settings) -> Iterator[Row]:
    found = settings.config.get("models", [])
    for number, table in enumerate(found if isinstance(found, list) else [], 1):
        if isinstance(table, Mapping):
            name = f"models.{table.get('provider')}/{table.get('id')}"
            line = settings.line_of("models", str(number))
            yield Row(
                name=name,
                value={key: each for key, each in table.items() if key not in ("provider", "id")},
                default=None,
                source=f"{settings.config_path}:{line}" if line else settings.config_path,
                applies="at once",
                means="a model of yours",
            )


def _value_and_source(
    settings: Settings, path: tuple[str, ...], default: object, *, has_variable: bool = True
) -> tuple[Any, str]:
    """A setting's value, and where it comes from."""
    variable = variable_of(*path)
    if has_variable and (value := settings.environ.get(variable)) is not None:
        return value, f"environment: {variable}"
    table: Any = settings.config
    for name in path[:-1]:
        table = table.get(name, {}) if isinstance(table, Mapping) else {}
    if not isinstance(table, Mapping) or path[-1] not in table:
        return list(default) if isinstance(default, tuple) else default, "default"
    line = settings.line_of(*path) or settings.line_of(*path, "1")
    return table[path[-1]], f"{settings.config_path}:{line}" if line else settings.config_path


def _flag(value: object) -> object:
    word = str(value).lower()
    return (
        True
        if word in ("true", "yes", "on", "1")
        else False
        if word in ("false", "no", "off", "0")
        else value
    )


def _masked(name: str, value: Any) -> Any:
    if name.endswith(".key") and value is not None:
        return HIDDEN
    if name == "notify.urls" and isinstance(value, list):
        return [f"{urlsplit(str(url)).scheme or '?'}://…" for url in value]
    if name.endswith(".base_url") and "@" in str(value):
        return str(value).replace(urlsplit(str(value)).netloc.rpartition("@")[0], "…")
    return value
