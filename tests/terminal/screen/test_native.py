"""The library is loaded from what was written down before, and by pyghostty itself where that can't be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.terminal.screen import native
from tests.installing import INSTALL

SHOWN = (
    "from fairlead.terminal.screen.screen import Screen; s = Screen(20, 2); s.feed(b'hello'); print(s.text())"
)


def shown(home: Path, *before: str) -> str:
    script = "\n".join(["import sys", *before, SHOWN, "print('cffi' in sys.modules)"])
    environment = {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_second_time_nothing_is_parsed(tmp_path: Path) -> None:
    elsewhere = "from fairlead.terminal.screen import native; native._places = lambda: [sys.argv[0] and '{}']"
    place = tmp_path / "cache"
    assert shown(tmp_path, elsewhere.format(place)) == "hello\nTrue\n"
    (kept,) = place.glob("*.py")
    assert shown(tmp_path, elsewhere.format(place)) == "hello\nFalse\n"
    kept.write_text("this is not Python")
    assert shown(tmp_path, elsewhere.format(place)) == "hello\nTrue\n"


def test_where_nothing_can_be_written_it_works_all_the_same(tmp_path: Path) -> None:
    nowhere = "from fairlead.terminal.screen import native; native._places = lambda: ['/dev/null/no']"
    assert shown(tmp_path, nowhere) == "hello\nTrue\n"


def test_without_pyghostty_the_command_that_mends_it_is_named() -> None:
    script = "import sys; sys.modules['pyghostty'] = None; import fairlead.terminal.screen.screen"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"{INSTALL} --force-reinstall pyghostty" in done.stderr


def test_the_declarations_are_those_of_pyghostty() -> None:
    theirs = pytest.importorskip("pyghostty").ffi
    ours, _ = native.load()
    for name in ("GhosttyClipboardWriteReply", "GhosttyPoint", "GhosttyString"):
        assert ours.sizeof(name) == theirs.sizeof(name)
