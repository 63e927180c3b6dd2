"""The catalogue: which models there are, what they cost, and how each is reached.

It knows a small table of models by itself, and what `[[models]]`, `[providers.NAME]` and `[agent]` of the
configuration and the environment add. A key is `key`, or comes from the variable that `key_env` names, from
`key_file`, from a person who entered it, or from the provider's usual variable; it is looked up when a model
is asked, and is in no `repr`, no error and no log. Nothing heavy is imported here: a remote model imports its
library when first asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...system.settings import USUAL_KEYS, SettingError, explained, variable_of
from ..messages import Cost, Usage
from . import Model, ModelError, ModelInfo, Prices, guide, replay
from .guide import Guide
from .keys import KeyFiles, is_key, read_key
from .remote import Kind, Remote
from .replay import Recording, Replay

OFFLINE = "offline"
A_MILLION = 1_000_000


def _openai(id: str, name: str, window: int, prices: Prices) -> ModelInfo:
    return ModelInfo("openai", id, name, True, window, 128_000, prices)


def _anthropic(id: str, name: str, window: int, prices: Prices) -> ModelInfo:
    return ModelInfo("anthropic", id, name, True, window, 64_000, prices)


def _google(id: str, name: str, window: int, prices: Prices) -> ModelInfo:
    return ModelInfo("google", id, name, True, window, 65_536, prices)


# Public prices of November 2026, for prompts of the usual length.
BUILT_IN = (
    guide.INFO,
    replay.INFO,
    _openai("gpt-6.1-sol", "GPT-6.1 Sol", 1_050_000, Prices(2.0, 10.0, 0.1, 2.5)),
    _openai("gpt-6.1-terra", "GPT-6.1 Terra", 1_050_000, Prices(1.0, 5.0, 0.05, 1.25)),
    _openai("gpt-6-luna", "GPT-6 Luna", 1_050_000, Prices(0.1, 0.5, 0.01, 0.125)),
    _openai("gpt-5.5", "GPT-5.5", 1_000_000, Prices(5.0, 30.0, 0.5)),
    _openai("gpt-5.4-mini", "GPT-5.4 mini", 400_000, Prices(0.75, 4.5, 0.075)),
    _openai("gpt-5", "GPT-5", 400_000, Prices(1.25, 10.0, 0.125)),
    _openai("gpt-5-mini", "GPT-5 mini", 400_000, Prices(0.25, 2.0, 0.025)),
    _anthropic("claude-opus-5-5", "Claude Opus 5.5", 1_000_000, Prices(4.0, 20.0, 0.2, 5.0)),
    _anthropic("claude-sonnet-5-5", "Claude Sonnet 5.5", 1_000_000, Prices(2.0, 10.0, 0.1, 2.5)),
    _anthropic("claude-haiku-5-5", "Claude Haiku 5.5", 1_000_000, Prices(0.1, 0.5, 0.01, 0.125)),
    _anthropic("claude-opus-4-8", "Claude Opus 4.8", 1_000_000, Prices(5.0, 25.0, 0.5, 6.25)),
    _anthropic("claude-sonnet-4-6", "Claude Sonnet 4.6", 1_000_000, Prices(3.0, 15.0, 0.3, 3.75)),
    _anthropic("claude-haiku-4-5", "Claude Haiku 4.5", 200_000, Prices(1.0, 5.0, 0.1, 1.25)),
    _google("gemini-4-argon", "Gemini 4 Argon", 1_048_576, Prices(4.0, 20.0, 0.2)),
    _google("gemini-3.8-flash", "Gemini 3.8 Flash", 1_000_000, Prices(1.5, 7.5, 0.15)),
    _google("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", 1_000_000, Prices(0.3, 2.5, 0.03)),
    _google("gemini-2.5-pro", "Gemini 2.5 Pro", 1_048_576, Prices(1.25, 10.0, 0.125)),
)

T = TypeVar("T")


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """How a provider is reached: a table `[providers.NAME]`."""

    kind: Kind | None = None
    base_url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    key: str | None = None

    def __repr__(self) -> str:
        return f"Provider({self.kind}, {urlsplit(self.base_url or '').hostname})"


class _Known(Struct, frozen=True):
    """A provider that needs no table."""

    kind: Kind
    base_url: str
    variables: tuple[str, ...] = ()
    """Where its key usually is. Without any it needs no key."""
    moved: str | None = None
    """The variable that usually names another base_url."""
    keys_at: str = ""
    """Where people get a key."""


KNOWN = {
    "openai": _Known(
        "openai",
        "https://api.openai.com/v1",
        USUAL_KEYS["openai"],
        "OPENAI_BASE_URL",
        "https://platform.openai.com/api-keys",
    ),
    "anthropic": _Known(
        "anthropic",
        "https://api.anthropic.com",
        USUAL_KEYS["anthropic"],
        "ANTHROPIC_BASE_URL",
        "https://console.anthropic.com/settings/keys",
    ),
    "google": _Known(
        "google",
        "https://generativelanguage.googleapis.com",
        USUAL_KEYS["google"],
        keys_at="https://aistudio.google.com/apikey",
    ),
    "openrouter": _Known(
        "openai",
        "https://openrouter.ai/api/v1",
        USUAL_KEYS["openrouter"],
        keys_at="https://openrouter.ai/settings/keys",
    ),
    "ollama": _Known("openai", "http://127.0.0.1:11434/v1"),
}


class _Agent(Struct, frozen=True):
    """What `[agent]` says about models; the rest of it belongs to others."""

    model: str | None = None
    cassette: str | None = None
    cassette_timing: bool | Literal["0", "1", "true", "false", ""] = False
    record: str | None = None


class Catalog:
    """All models that a configuration and an environment know.

    `config` is the whole configuration file as a mapping.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        environ: Mapping[str, str] = os.environ,
        entered: KeyFiles | None = None,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`refresh` is called before a model is chosen or asked: it may give this catalogue another's
        models, with `take`."""
        config = config or {}
        self._refresh = refresh
        self._lent: dict[str, str] = {}
        self._environ = environ
        self._entered = entered
        self._agent = _convert(
            _overlaid(config.get("agent", {}), "AGENT", _Agent, environ), _Agent, "[agent]"
        )
        self._providers = _providers(config.get("providers", {}), environ)
        self._models = {(info.provider, info.id): info for info in BUILT_IN}
        for info in _listed(config.get("models", [])):
            self._require(info.provider, f"[[models]] {info.id}")
            self._models[info.provider, info.id] = info
        self._default = self._chosen()

    def __repr__(self) -> str:
        return f"Catalog({len(self._models)} models, {', '.join(self.authenticated_providers())})"

    def take(self, other: Catalog) -> None:
        """Know what another catalogue knows, and no more what this one did; keys that were lent stay."""
        self._agent, self._providers = other._agent, other._providers
        self._models, self._default = other._models, other._default

    def find(self, provider: str, id: str) -> ModelInfo | None:
        """The model, if it is known."""
        return self._models.get((provider, id))

    def models(self) -> list[ModelInfo]:
        """All models, also those whose provider has no key."""
        return list(self._models.values())

    def default(self) -> ModelInfo:
        """The model of a new session: `model = "provider/id"` of `[agent]`, else the offline guide."""
        self._refresh()
        return self._default

    def authenticated_providers(self) -> list[str]:
        """The providers that can be asked: those with a key, and those that have models and need none."""
        used = dict.fromkeys(provider for provider, _ in self._models)
        names = dict.fromkeys([*used, *self._providers, *KNOWN])
        return [name for name in names if self._has_key(name, name in used)]

    def key_variables(self) -> set[str]:
        """Environment variables that hold keys: nothing for the commands that a model runs."""
        usual = {variable for known in KNOWN.values() for variable in known.variables}
        named = {provider.key_env for provider in self._providers.values() if provider.key_env}
        texts = {variable_of("PROVIDERS", name, "key") for name in self._providers}
        return usual | named | texts

    def keys(self) -> set[str]:
        """The keys that can be had now, for whoever must keep them out of texts."""
        found = set()
        for name in dict.fromkeys([*KNOWN, *self._providers]):
            try:
                found.add(self._key(name) or "")
            except ModelError:
                continue
        return found - {""}

    def model(self, info: ModelInfo) -> Model:
        """Something that answers as this model. It is cheap to make; what fails, fails when it is asked."""
        self._refresh()
        made = self._made(info)
        if self._agent.record is None or isinstance(made, Replay):
            return made
        return Recording(made, os.path.expanduser(self._agent.record))

    def _made(self, info: ModelInfo) -> Model:
        if info.provider == OFFLINE:
            if info.id == guide.INFO.id:
                return Guide()
            cassette = self._agent.cassette and os.path.expanduser(self._agent.cassette)
            return Replay(cassette or None, timing=self._agent.cassette_timing in (True, "1", "true"))
        kind, base_url = self._reach(info.provider)
        return Remote(kind, base_url, lambda: self._key(info.provider), self.new_key(info.provider))

    def address(self, provider: str) -> str:
        """Where a provider is asked."""
        return self._reach(provider)[1]

    def _reach(self, name: str) -> tuple[Kind, str]:
        """The kind and the address of a provider."""
        table = self._providers.get(name, Provider())
        known = KNOWN.get(name)
        kind = table.kind or (known.kind if known else "openai")
        if table.base_url:
            return kind, table.base_url
        if known and known.kind == kind:
            moved = self._environ.get(known.moved) if known.moved else None
            return kind, moved or known.base_url
        return kind, KNOWN[kind].base_url

    def _require(self, provider: str, whose: str) -> None:
        if provider not in self._providers and provider not in KNOWN:
            names = ", ".join({**KNOWN, **self._providers})
            raise SettingError(
                f"{whose}: unknown provider {provider!r}; known are {names}; add it as [providers.{provider}]"
            )

    def _chosen(self) -> ModelInfo:
        if not self._agent.model:
            return guide.INFO
        provider, slash, id = self._agent.model.partition("/")
        if not (provider and slash and id):
            raise SettingError(f'[agent] model must be "provider/id", not {self._agent.model!r}')
        if found := self.find(provider, id):
            return found
        if provider == OFFLINE:
            raise SettingError(f"[agent] model: {OFFLINE} has guide and replay, not {id!r}")
        self._require(provider, "[agent] model")
        # A model that nobody described: what is said of it here is enough to ask it.
        info = ModelInfo(provider, id, id, max_output=0)
        self._models[provider, id] = info
        return info

    # --- keys ---------------------------------------------------------------------------------------------

    def _has_key(self, name: str, used: bool) -> bool:
        try:
            return self._key(name) is not None or used
        except ModelError:
            return False

    def _key(self, name: str) -> str | None:
        """A provider's key; None if it needs none."""
        if name == OFFLINE:
            return None
        table = self._providers.get(name, Provider())
        whose = f"the provider {name}"
        if table.key:
            return table.key
        if table.key_env:
            if key := self._environ.get(table.key_env, "").strip():
                return key
            if table.key_env in self._lent:
                return self._lent[table.key_env]
            raise ModelError("refused", f"{whose} has no key: {_how_to_lend(table.key_env)}")
        if table.key_file:
            return read_key(os.path.expanduser(table.key_file), whose)
        if self._entered is not None and (entered := self._entered.find(name)):
            return entered
        known = KNOWN.get(name)
        variables = known.variables if known else ()
        for variable in variables:
            if key := self._environ.get(variable, "").strip() or self._lent.get(variable, ""):
                return key
        if variables or self._reach(name)[0] != "openai":
            hint = f"set key_env or key_file of [providers.{name}], or enter it with /login {name}"
            places = f"{_how_to_lend(variables[0])}; or {hint}" if variables else hint
            raise ModelError("refused", f"{whose} has no key: {places}")
        return None

    # --- lending keys -------------------------------------------------------------------------------------

    def lacked(self, provider: str) -> tuple[str, ...]:
        """The variables that would hold a provider's key, if neither this environment nor anything else has
        one. What was lent does not count: its owner may have another one by now."""
        table = self._providers.get(provider, Provider())
        known = KNOWN.get(provider)
        names = (table.key_env,) if table.key_env else known.variables if known else ()
        if not names or table.key or any(self._environ.get(name, "").strip() for name in names):
            return ()
        is_elsewhere = not table.key_env and (
            table.key_file or (self._entered is not None and provider in self._entered.providers())
        )
        return () if is_elsewhere else names

    def lend(self, variable: str, key: str) -> None:
        """Use a client's key. It is kept in memory alone. Raises ModelError if it can be none."""
        if variable not in self.key_variables() or not is_key(key.strip()):
            raise ModelError("refused", f"the value of {variable} is not a key: a key is one word of ASCII")
        self._lent[variable] = key.strip()

    # --- entering keys ------------------------------------------------------------------------------------

    def keys_at(self, provider: str) -> str:
        """Where a person gets a key that can be entered for a provider. Raises ModelError if none can be."""
        names = [name for name in {**KNOWN, **self._providers} if self._takes_key(name)]
        if provider not in names:
            others = f"; providers with keys are {', '.join(names)}"
            why = f"unknown provider{others}"
            if self._is_set(provider):
                why = f"config.toml sets its key: {self.new_key(provider)}"
            elif provider == OFFLINE or provider in KNOWN or provider in self._providers:
                why = f"it needs no key{others}"
            raise ModelError("refused", f"can't enter a key for {provider}: {why}")
        known = KNOWN.get(provider)
        return known.keys_at if known else ""

    def enter_key(self, provider: str, key: str) -> None:
        """Keep a key that a person has entered. Raises ModelError, ValueError or OSError."""
        self.keys_at(provider)
        if self._entered is None:
            raise ModelError("refused", "keys can't be stored here")
        self._entered.enter(provider, key)

    def forget_key(self, provider: str) -> bool:
        """Remove a key that a person has entered; tells whether there was one."""
        return self._entered is not None and self._entered.forget(provider)

    def new_key(self, provider: str) -> str:
        """What a person does to give a provider a key, or another one."""
        table = self._providers.get(provider, Provider())
        if table.key:
            return f"change `key` of [providers.{provider}] in config.toml"
        if table.key_env:
            return _how_to_lend(table.key_env)
        if table.key_file:
            return f"write it to {table.key_file}"
        return f"enter one with /login {provider}"

    def _is_set(self, name: str) -> bool:
        table = self._providers.get(name, Provider())
        return bool(table.key or table.key_env or table.key_file)

    def _takes_key(self, name: str) -> bool:
        known = KNOWN.get(name)
        return not self._is_set(name) and (known is None or bool(known.variables))


def _how_to_lend(variable: str) -> str:
    return f"export {variable} where you run `fairlead agent`, or `fairlead daemon restart` where it is set"


def priced(info: ModelInfo, usage: Usage) -> Usage:
    """The usage with its cost at the model's prices.

    >>> priced(ModelInfo("x", "y", "Y", prices=Prices(input=2.0)), Usage(input=500_000)).cost.total
    1.0
    """
    prices = info.prices
    parts = (
        usage.input * prices.input / A_MILLION,
        usage.output * prices.output / A_MILLION,
        usage.cache_read * prices.cache_read / A_MILLION,
        usage.cache_write * prices.cache_write / A_MILLION,
    )
    return msgspec.structs.replace(usage, cost=Cost(*parts, total=sum(parts)))


# --- reading the configuration ----------------------------------------------------------------------------


def _providers(tables: object, environ: Mapping[str, str]) -> dict[str, Provider]:
    if not isinstance(tables, Mapping):
        raise SettingError("[providers] must hold tables: [providers.NAME]")
    found = {}
    named = dict.fromkeys([*tables, *KNOWN])
    for name in [*named, *_named_by(environ, named)]:
        whose = f"[providers.{name}]"
        if name == OFFLINE:
            raise SettingError(f"{whose}: {OFFLINE} can't be configured")
        fields = _overlaid(tables.get(name, {}), f"PROVIDERS_{name}", Provider, environ)
        if not fields:
            continue
        provider = _convert(fields, Provider, whose)
        if provider.base_url is not None and not provider.base_url.startswith(("http://", "https://")):
            raise SettingError(f"{whose} base_url must begin with http:// or https://")
        if name not in KNOWN and (provider.kind or "openai") == "openai" and not provider.base_url:
            raise SettingError(f"{whose} needs a base_url, such as http://127.0.0.1:8000/v1")
        found[name] = provider
    return found


def _named_by(environ: Mapping[str, str], named: Iterable[str]) -> list[str]:
    """Providers that only the environment has: FAIRLEAD_PROVIDERS_NAME_BASE_URL is enough."""
    start, end = "FAIRLEAD_PROVIDERS_", "_BASE_URL"
    known = {variable_of("PROVIDERS", name, "base_url") for name in named}
    return [
        variable.removeprefix(start).removesuffix(end).lower()
        for variable in environ
        if variable.startswith(start)
        and variable.endswith(end)
        and variable not in known
        and len(variable) > len(start) + len(end)
    ]


def _listed(tables: object) -> list[ModelInfo]:
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise SettingError("[[models]] must be a list of tables")
    infos = []
    for number, table in enumerate(tables, 1):
        fields = dict(table) if isinstance(table, Mapping) else {}
        whose = f"[[models]] {fields.get('id', number)}"
        unknown = fields.keys() - set(ModelInfo.__struct_fields__)
        if unknown:
            raise SettingError(f"{whose}: unknown setting {', '.join(sorted(map(str, unknown)))}")
        fields = {"name": fields.get("id"), "max_output": 0, **fields}
        info = _convert(fields, ModelInfo, whose)
        if info.provider == OFFLINE:
            raise SettingError(f"{whose}: {OFFLINE} can't be configured")
        if info.window < 1 or info.max_output < 0:
            raise SettingError(f"{whose}: window must be positive, max_output too, or 0 for no limit")
        infos.append(info)
    return infos


def _overlaid(table: object, section: str, kind: type[Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """A table's settings with those of the environment over them."""
    if not isinstance(table, Mapping):
        raise SettingError(f"[{section.lower().replace('_', '.', 1)}] must be a table")
    fields = dict(table)
    for field in kind.__struct_fields__:
        value = environ.get(variable_of(section, field))
        if value is not None:
            fields[field] = value
    return fields


def _convert(fields: Mapping[str, Any], kind: type[T], whose: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise SettingError(f"{whose}: {explained(error, kind)}") from None
