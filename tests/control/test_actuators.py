"""The registry of actuators, and those that need nothing of other rooms."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from fairlead.control.actuators import MAX_OUTPUT, Actuators, GiveUp, shell
from fairlead.control.signals import Action, Context, Signal
from fairlead.formats.sexp import Keyword

CONTEXT = Context(Signal("x"))


def nothing(action: Action, context: Context) -> None:
    pass


def test_names_are_the_same_in_any_case_and_with_a_colon() -> None:
    actuators = Actuators()
    for name in ("telegram", ":Telegram", Keyword("TELEGRAM"), Keyword("telegram")):
        actuators.register_actuator(name, nothing)
    assert list(actuators.names) == ["TELEGRAM"]
    with pytest.raises(ValueError, match="needs a name"):
        actuators.register_actuator(":", nothing)


def test_a_package_can_offer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offered.py").write_text("def send(action, context):\n    return 'sent ' + action.text\n")
    info = tmp_path / "offered-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[fairlead.actuators]\npager = offered:send\nbad = offered:nothing\nlog = offered:send\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    actuators = Actuators()
    actuators.register_actuator("log", nothing)
    faults = actuators.load_entry_points()
    assert [fault.split(" of ")[0] for fault in faults] == ["actuator bad", "actuator log"]
    found = actuators.find("PAGER")
    assert found is not None
    assert found.act(Action("PAGER", "x"), CONTEXT) == "sent x"
    assert actuators.find("LOG") == (nothing, False)
    sys.modules.pop("offered")


def run(command: str, tmp_path: Path, wait: float = 10.0) -> str:
    async def work() -> str:
        actuator = shell({"PATH": "/usr/bin:/bin", "A": "é"}, str(tmp_path), wait=wait)
        result = actuator(Action("SHELL", command), CONTEXT)
        assert not isinstance(result, str)
        assert result is not None
        return await result or ""

    return asyncio.run(work())


def test_a_command_runs_with_its_own_environment_and_directory(tmp_path: Path) -> None:
    assert run('echo "$A" "$HOME" "$(pwd)"', tmp_path) == f"é  {tmp_path}\n"
    assert run("true", tmp_path) == "(no output)"


def test_a_command_that_fails_hangs_or_floods_is_contained(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match="null byte"):
        run("echo \0", tmp_path)
    with pytest.raises(GiveUp, match="ended with 3: oh no"):
        run("echo oh no >&2; exit 3", tmp_path)
    began = time.monotonic()
    with pytest.raises(GiveUp, match=r"timed out after 0\.2 s"):
        run("sleep 60 & sleep 60", tmp_path, wait=0.2)
    assert time.monotonic() - began < 10
    assert len(run(f"head -c {3 * MAX_OUTPUT} /dev/zero", tmp_path)) == MAX_OUTPUT
