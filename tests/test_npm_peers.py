"""The programs of the npm registry are installed where that can be done, and what is missing is said."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import peers
from tools import npm_peers

TOOL = [sys.executable, str(Path(npm_peers.__file__))]


def ran(cache: Path, **environment: str) -> list[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **environment}
    done = subprocess.run(TOOL, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def test_without_npm_each_program_is_said_to_be_missing(tmp_path: Path) -> None:
    lines = ran(tmp_path, PATH=str(tmp_path))
    pins = [each.pin for each in npm_peers.packages()]
    assert lines == [f"peer {pin}: missing: there is no npm here" for pin in pins]


@pytest.mark.peers
def test_a_registry_that_is_not_reached_is_said_once_tried(tmp_path: Path) -> None:
    peers.require("npm")
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        registry = f"http://127.0.0.1:{unheard.getsockname()[1]}/"
        lines = ran(tmp_path, npm_config_registry=registry, npm_config_cache=str(tmp_path / "npm"))
    assert all("missing: npm: code ECONNREFUSED" in line for line in lines)


def test_a_test_that_needs_a_missing_program_is_skipped_and_fails_on_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"opencode is not in .*: run `tools/peers --npm`"):
        peers.npm("opencode")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI=true makes a missing peer a failure"):
        peers.npm("opencode")


def test_a_program_is_found_where_it_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = next(each for each in npm_peers.packages() if "codex" in each.commands)
    for command in package.commands:
        assert npm_peers.program(command) is None
        package.path(command).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sys.executable, package.path(command))
    assert peers.npm("codex") == str(package.path("codex"))
    assert f"peer {package.pin}: present" in ran(tmp_path, PATH=str(tmp_path))
