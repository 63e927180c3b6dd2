"""The catalogue: which models there are, how they are reached, and that keys stay secret."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.messages import Usage, User
from fairlead.agent.models import Finished, ModelError, ModelEvent, ModelInfo, ModelRequest, Prices, TextDelta
from fairlead.agent.models.catalog import BUILT_IN, Catalog, Provider, priced
from fairlead.agent.models.guide import Guide
from fairlead.agent.models.replay import Replay
from fairlead.system.settings import SettingError
from tests.agent.faulty_server import FAULTS, FaultyServer
from tests.agent.openai_server import OpenAiServer, answer

KEY = "sk-a-very-secret-key"


def catalog(text: str = "", **environ: str) -> Catalog:
    return Catalog(tomllib.loads(text), environ)


def ask(found: Catalog, info: ModelInfo) -> list[ModelEvent]:
    async def collect() -> list[ModelEvent]:
        stream = found.model(info).stream(ModelRequest(info, "", [User("help")]))
        return [each async for each in stream]

    return asyncio.run(collect())


def refusal(found: Catalog, info: ModelInfo) -> str:
    with pytest.raises(ModelError) as caught:
        ask(found, info)
    assert caught.value.kind == "refused"
    return str(caught.value)


def test_without_any_configuration_the_offline_guide_answers() -> None:
    found = catalog()
    info = found.default()
    assert (info.provider, info.id) == ("offline", "guide")
    assert isinstance(found.model(info), Guide)
    assert "offline" in "".join(each.text for each in ask(found, info) if isinstance(each, TextDelta))
    assert found.authenticated_providers() == ["offline"]


def test_the_built_in_models_have_windows_and_prices() -> None:
    remote = [info for info in BUILT_IN if info.provider != "offline"]
    assert {info.provider for info in remote} == {"openai", "anthropic", "google"}
    for info in remote:
        assert info.window >= 128_000
        assert 0 < info.max_output < info.window
        assert 0 < info.prices.cache_read < info.prices.input < info.prices.output
    assert len({(info.provider, info.id) for info in BUILT_IN}) == len(BUILT_IN)


def test_a_model_is_found_by_provider_and_id() -> None:
    found = catalog()
    info = found.find("openai", "gpt-5")
    assert info is not None
    assert info.reasoning
    assert info in found.models()
    assert found.find("openai", "gpt-nothing") is None


@pytest.mark.parametrize(
    ("variable", "provider"),
    [
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("GEMINI_API_KEY", "google"),
        ("OPENROUTER_API_KEY", "openrouter"),
    ],
)
def test_the_usual_variable_is_enough(variable: str, provider: str) -> None:
    found = catalog("", **{variable: KEY})
    assert found.authenticated_providers() == ["offline", provider]
    assert variable in found.key_variables()


def test_a_described_model_adds_to_the_table_or_replaces_a_row() -> None:
    found = catalog(
        """
        [[models]]
        provider = "openai"
        id = "gpt-5"
        window = 1000
        prices = { input = 1.0, output = 2 }

        [[models]]
        provider = "ollama"
        id = "qwen3:8b"
        reasoning = true
        """
    )
    info = found.find("openai", "gpt-5")
    assert info == ModelInfo("openai", "gpt-5", "gpt-5", False, 1000, 0, Prices(1.0, 2.0))
    added = found.find("ollama", "qwen3:8b")
    assert added is not None
    assert (added.name, added.reasoning) == ("qwen3:8b", True)
    assert found.authenticated_providers() == ["offline", "ollama"]


def test_the_default_model_may_be_one_that_nobody_described() -> None:
    found = catalog('[agent]\nmodel = "ollama/library/qwen3:8b"')
    info = found.default()
    assert (info.provider, info.id, info.max_output) == ("ollama", "library/qwen3:8b", 0)
    assert found.find("ollama", "library/qwen3:8b") is info


def test_the_environment_is_stronger_than_the_file() -> None:
    found = catalog('[agent]\nmodel = "openai/gpt-5"', FAIRLEAD_AGENT_MODEL="offline/replay")
    assert found.default().id == "replay"


def test_a_compatible_server_is_asked_with_the_key_of_its_own() -> None:
    with OpenAiServer([answer("Hello")]) as server:
        found = catalog(
            f"""
            [providers.lab]
            base_url = "{server.url}"
            key_env = "LAB_KEY"
            [[models]]
            provider = "lab"
            id = "tiny"
            """,
            LAB_KEY=KEY,
            OPENAI_API_KEY="another",
        )
        info = found.find("lab", "tiny")
        assert info is not None
        assert isinstance(ask(found, info)[-1], Finished)
        assert server.keys == [f"Bearer {KEY}"]
        assert server.requests[0]["model"] == "tiny"
    assert "LAB_KEY" in found.key_variables()


def test_a_key_of_openai_never_goes_to_another_server() -> None:
    with OpenAiServer([answer("Hello")]) as server:
        found = catalog(
            "",
            FAIRLEAD_PROVIDERS_LAB_BASE_URL=server.url,
            FAIRLEAD_AGENT_MODEL="lab/tiny",
            OPENAI_API_KEY=KEY,
        )
        ask(found, found.default())
        assert KEY not in str(server.keys)


def test_a_variable_moves_the_provider_that_it_names() -> None:
    found = catalog(
        '[providers.my-lab]\nbase_url = "http://a/v1"\n[agent]\nmodel = "my-lab/x"',
        FAIRLEAD_PROVIDERS_MY_LAB_BASE_URL="http://b/v1",
    )
    assert repr(found.model(found.default())) == "Remote(openai, b)"
    with pytest.raises(SettingError):
        catalog('[agent]\nmodel = "my_lab/x"\n[providers.my-lab]\nbase_url = "http://a/v1"')


def test_openai_can_be_moved_by_its_usual_variable() -> None:
    with OpenAiServer([answer("Hello")]) as server:
        found = catalog("", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY)
        info = found.find("openai", "gpt-5")
        assert info is not None
        ask(found, info)
        assert server.keys == [f"Bearer {KEY}"]


def test_a_key_file_is_read_when_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with OpenAiServer([answer("Hello")]) as server:
        found = catalog(
            f'[providers.lab]\nbase_url = "{server.url}"\nkey_file = "{path}"\n[agent]\nmodel = "lab/tiny"'
        )
        assert "lab" not in found.authenticated_providers()
        assert "can't read" in refusal(found, found.default())
        path.write_text(f"{KEY}\n")
        assert "lab" in found.authenticated_providers()
        ask(found, found.default())
        assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("text", ["", "\n", "two words", "ключ", "x" * 20_000])
def test_a_file_that_holds_no_key_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    found = catalog(f'[providers.openai]\nkey_file = "{path}"\n[agent]\nmodel = "openai/gpt-5"')
    words = refusal(found, found.default())
    assert words == f"the provider openai has no key: {path} must hold the key and nothing else"


def test_the_keys_can_be_had_by_those_who_hide_them(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from-a-file")
    found = catalog(f'[providers.google]\nkey_file = "{path}"\n[providers.openai]\nkey = "{KEY}"')
    assert found.keys() == {"from-a-file", KEY}


def test_a_provider_without_a_key_says_where_to_put_it() -> None:
    found = catalog('[agent]\nmodel = "anthropic/claude-haiku-4-5"')
    assert refusal(found, found.default()) == (
        "the provider anthropic has no key: export ANTHROPIC_API_KEY where you run `fairlead agent`, "
        "or `fairlead daemon restart` where it is set; "
        "or set key_env or key_file of [providers.anthropic], or enter it with /login anthropic"
    )
    found = catalog('[providers.openai]\nkey_env = "MINE"', OPENAI_API_KEY=KEY)
    assert "openai" not in found.authenticated_providers()


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ('key_env = "MINE"', "export MINE where you run `fairlead agent`, or `fairlead daemon"),
        ('key = "wrong"', "change `key` of [providers.lab] in config.toml"),
        ('key_file = "{path}"', "write it to {path}"),
        ("", "enter one with /login lab"),
    ],
)
def test_a_key_that_is_refused_is_changed_where_it_comes_from(
    setting: str, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text("wrong")
    setting, advice = (each.replace("{path}", str(path)) for each in (setting, advice))
    with FaultyServer(FAULTS["a bad key"]("openai")) as server:
        lab = f'[providers.lab]\nbase_url = "{server.base_url("openai")}"\n{setting}\n'
        found = catalog(f'{lab}[agent]\nmodel = "lab/x"', MINE="wrong")
        assert f"; to change it, {advice}" in refusal(found, found.default())
    if not setting:
        assert found.keys_at("lab") == ""
        return
    with pytest.raises(ModelError, match=r"config\.toml sets its key: ") as caught:
        found.keys_at("lab")
    assert advice in str(caught.value)


def test_keys_are_in_no_repr() -> None:
    text = f'[providers.lab]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "{KEY}"\n[agent]\nmodel = "lab/tiny"'
    found = catalog(text)
    shown = f"{found!r} {found.model(found.default())!r} {Provider(key=KEY)!r}"
    assert KEY not in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[agent]\nmodel = "gpt-5"', "[agent] model must be \"provider/id\", not 'gpt-5'"),
        ('[agent]\nmodel = "nobody/x"', "[agent] model: unknown provider 'nobody'"),
        ('[agent]\nmodel = "offline/x"', "offline has guide and replay, not 'x'"),
        ("[agent]\nmodel = 5", "[agent]: model must be a string, not an integer"),
        ("[providers]\nlab = 5", "[providers.lab] must be a table"),
        ("providers = 5", "[providers] must hold tables"),
        ('[providers.lab]\nkind = "openai"', "[providers.lab] needs a base_url"),
        ('[providers.lab]\nkind = "pigeon"', "[providers.lab]: kind must be one of openai, "),
        ('[providers.lab]\nbase_url = "lab:80"', "base_url must begin with http:// or https://"),
        ('[providers.lab]\nbase_ulr = "x"', "[providers.lab]: unknown setting base_ulr"),
        ('[providers.offline]\nkind = "openai"', "offline can't be configured"),
        ("models = 5", "[[models]] must be a list of tables"),
        ('[[models]]\nprovider = "openai"', "[[models]] 1: "),
        ('[[models]]\nprovider = "nobody"\nid = "x"', "[[models]] x: unknown provider 'nobody'"),
        ('[[models]]\nprovider = "offline"\nid = "x"', "offline can't be configured"),
        ('[[models]]\nprovider = "openai"\nid = "x"\nwindwo = 1', "unknown setting windwo"),
        ('[[models]]\nprovider = "openai"\nid = "x"\nwindow = 0', "window must be positive"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        catalog(text)
    assert words in str(caught.value)


def test_a_key_of_the_wrong_type_is_not_shown() -> None:
    with pytest.raises(SettingError) as caught:
        catalog('[providers.openai]\nkey = ["sk-secret"]')
    assert "sk-secret" not in str(caught.value)


def test_other_settings_of_the_agent_are_left_to_others() -> None:
    assert catalog("[agent]\nretries = 3").default().id == "guide"


def test_a_cassette_is_recorded_and_played_as_configured(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    recorded = ask(catalog("", FAIRLEAD_AGENT_RECORD=str(path)), BUILT_IN[0])
    found = catalog(f'[agent]\nmodel = "offline/replay"\ncassette = "{path}"')
    assert isinstance(found.model(found.default()), Replay)
    assert ask(found, found.default()) == recorded


@pytest.mark.parametrize("value", ["0", "1", "true", "false", ""])
def test_the_timing_of_a_cassette_is_a_switch(value: str) -> None:
    assert catalog("", FAIRLEAD_AGENT_CASSETTE_TIMING=value).default().id == "guide"
    with pytest.raises(SettingError):
        catalog("", FAIRLEAD_AGENT_CASSETTE_TIMING="maybe")


def test_a_usage_is_priced_part_by_part() -> None:
    info = ModelInfo("x", "y", "Y", prices=Prices(1.0, 2.0, 0.1, 1.25))
    cost = priced(info, Usage(1_000_000, 500_000, 2_000_000, 400_000, 3_900_000)).cost
    found: list[Any] = [cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total]
    assert found == pytest.approx([1.0, 1.0, 0.2, 0.5, 2.7])


def test_the_offline_models_cost_nothing() -> None:
    assert priced(BUILT_IN[0], Usage(10**9, 10**9, 0, 0, 2 * 10**9)).cost.total == 0
