"""What a program is told of its terminal."""

from __future__ import annotations

from pathlib import Path

from fairlead.terminal.environment import OTHER_TERMINALS
from tests.hosting import Hosting


def test_a_program_is_not_told_of_the_terminal_it_was_started_from() -> None:
    hosting = Hosting()
    others = {
        name.replace("*", "ID") if name != "ConEmu*" else "ConEmuANSI": "outer" for name in OTHER_TERMINALS
    }
    try:
        hosting.environment |= others | {"TERM": "screen-256color", "COLORTERM": "no", "MINE": "kept"}
        out = Path(hosting.environment["HOME"], "out")
        hosting.start("inner", f"env > {out}; echo written; read line")
        hosting.wait_text("inner", "written")
        told = dict(line.split("=", 1) for line in out.read_text().splitlines() if "=" in line)
        assert not others.keys() & told.keys()
        assert told["TERM"] == "xterm-256color"
        assert told["COLORTERM"] == "truecolor"
        assert told["FAIRLEAD_SESSION"] == "inner"
        assert told["MINE"] == "kept"
    finally:
        hosting.close()


def test_the_list_is_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs/terminal.md").read_text()
    assert [name for name in OTHER_TERMINALS if f"`{name}`" not in page] == []
