"""Write the picture and the table of rooms in docs/architecture.md from the imports in the code.

    python tools/make_architecture.py

The rows of the picture are import-linter's layers, from pyproject.toml. An arrow that follows from others is
left out of the picture; the table has every import. `make pages` runs this, and `tests/test_pages.py` checks
that the page is current.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
PACKAGE = ROOT / "src/fairlead"
BEGIN, END = "<!-- rooms: made by tools/make_architecture.py -->\n", "<!-- end of rooms -->\n"

Imports = dict[str, set[str]]


def layers() -> list[list[str]]:
    """Return the layers that import-linter holds, the top one first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rows,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [re.findall(r"\w+", row) for row in rows]


def imports() -> Imports:
    """Return which rooms each room imports, also where only types need it."""
    graph = grimp.build_graph("fairlead", cache_dir=None)
    rooms = {child.rpartition(".")[2]: child for child in graph.find_children("fairlead")}
    return {
        room: {
            other
            for other, imported in rooms.items()
            if other != room
            and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
        }
        for room, importer in rooms.items()
    }


def reduced(imports: Imports) -> Imports:
    """Return the imports without those that follow from others."""
    reach: Imports = {}

    def reached(room: str) -> set[str]:
        if room not in reach:
            reach[room] = imports[room].union(*map(reached, imports[room]))
        return reach[room]

    return {
        room: {other for other in others if not any(other in reached(via) for via in others - {other})}
        for room, others in imports.items()
    }


def picture(rows: list[list[str]], imports: Imports) -> str:
    """Return a Mermaid flowchart with one row for each layer."""
    lines = ["```mermaid", "flowchart TD"]
    for number, row in enumerate(rows, 1):
        lines += [f'    subgraph layer{number}[" "]', "        direction LR"]
        lines += [f'        {room}["{_shown(room)}"]' for room in row]
        lines.append("    end")
    arrows = reduced(imports)
    lines += [f"    {room} --> {other}" for row in rows for room in row for other in sorted(arrows[room])]
    return "\n".join([*lines, "```"]) + "\n"


def table(rows: list[list[str]], imports: Imports) -> str:
    """Return a row for each room: what it is, by its docstring, and which rooms it imports."""
    order = [room for row in rows for room in row]
    lines = ["| room | what it is | imports |", "|---|---|---|"]
    for room in order:
        used = ", ".join(f"`{other}`" for other in order if other in imports[room]) or "nothing of ours"
        lines.append(f"| `{_shown(room)}` | {described(PACKAGE / room)} | {used} |")
        inner = sorted(each.parent for each in (PACKAGE / room).glob("*/__init__.py"))
        lines += [f"| `{_shown(room)}{each.name}/` | {described(each)} | |" for each in inner]
    return "\n".join(lines) + "\n"


def described(place: Path) -> str:
    """Return the first paragraph of a module's or a package's docstring, in one line."""
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def _shown(room: str) -> str:
    return f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"


def with_rooms(page: str) -> str:
    """Return the page with the picture and the table as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    found = imports()
    rows = [[room for room in row if room in found] for row in layers()]
    return f"{before}{BEGIN}\n{picture(rows, found)}\n{table(rows, found)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_rooms(PAGE.read_text()))
