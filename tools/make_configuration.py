"""Write the tables of settings in docs/configuration.md from the one in the code.

    python tools/make_configuration.py

`make pages` runs this, and `tests/test_pages.py` checks that the page is current.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairlead.system.setting_rows import applies
from fairlead.system.setting_table import (
    AGENT_KEYS,
    MCP_KEYS,
    MODEL_KEYS,
    PLACES,
    PROVIDER_KEYS,
    SETTINGS,
    Setting,
)
from fairlead.system.settings import variable_of

PAGE = Path(__file__).parents[1] / "docs/configuration.md"
BEGIN, END = "<!-- settings: made by tools/make_configuration.py -->\n", "<!-- end of settings -->\n"
SEE = {
    "terminal": "[terminal.md](terminal.md)",
    "attach": "[terminal.md](terminal.md#attaching), "
    "[security.md](security.md#what-a-program-may-say-to-your-terminal)",
    "daemon": "[terminal.md](terminal.md#how-it-survives), [cli.md](cli.md#the-daemon-as-a-service)",
    "hosts": "[hosts.md](hosts.md#ssh)",
    "fleet": "[hosts.md](hosts.md#choosing-a-host)",
    "rpc": "[rpc.md](rpc.md)",
    "verifier": "[verify.md](verify.md)",
    "hooks": "[state.md](state.md#hooks)",
    "passepartout": "[control.md](control.md#the-door)",
    "control": "[control.md](control.md#rules)",
    "agent": "[models.md](models.md), [cassettes](models.md#cassettes), [rules of consent](tools.md#rules)",
    "undo": "[worktrees.md](worktrees.md#undo)",
    "worktrees": "[worktrees.md](worktrees.md)",
    "mcp": "[mcp.md](mcp.md#what-an-agent-reaches)",
    "hosted": "[hosted.md](hosted.md#what-survives)",
    "notify": "[control.md](control.md#notifications)",
}
"""The pages that explain the settings of each section."""
TABLES = (
    ("[providers.NAME]", ("providers", "NAME"), PROVIDER_KEYS, "models"),
    ("[[models]]", (), MODEL_KEYS, "models"),
    ("[agents.NAME]", (), AGENT_KEYS, "hosted"),
    ("[mcp_servers.NAME]", (), MCP_KEYS, "hosted"),
)


def _default(value: object) -> str:
    """A default as the file would have it."""
    if isinstance(value, bool) or value in ("true", "false"):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[]`"
    if isinstance(value, float):
        return f"`{value:g}`" if value % 1 else f"`{value:.0f}`"
    return f"`{value}`" if value != "" else "none"


def _rows(settings: Iterable[tuple[str, str, Setting]]) -> str:
    head = "| key | variable | default | a change takes effect | what it means |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| `{key}` | {f'`{variable}`' if setting.variable else 'none'} | {_default(setting.default)} "
        f"| {applies(setting)} | {setting.means} |\n"
        for key, variable, setting in settings
    )


def with_tables(page: str) -> str:
    """Return the page with the tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    places = [(name, variable_of(name), setting) for name, setting in PLACES.items()]
    parts = [f"## Places\n\n{_rows(places).replace('| key |', '| place |')}"]
    for section, table in SETTINGS.items():
        rows = [(key, variable_of(section, key), setting) for key, setting in table.items()]
        parts.append(f"## [{section}]\n\nSee {SEE[section]}.\n\n{_rows(rows)}")
    for title, path, keys, page_of in TABLES:
        head = "| key | variable | what it means |\n|---|---|---|\n"
        names = {key: f"`{variable_of(*path)}_{key.upper()}`" if path else "none" for key in keys}
        rows_of = "".join(f"| `{key}` | {names[key]} | {means} |\n" for key, means in keys.items())
        see = f"A change takes effect at once. See [{page_of}.md]({page_of}.md)."
        parts.append(f"## {title}\n\n{see}\n\n{head}{rows_of}")
    made = "\n".join(parts)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
