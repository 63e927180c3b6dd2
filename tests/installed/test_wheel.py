"""Fairlead as a user installs it: a wheel in an empty environment, without extras; and `make install`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import peers
from tests.client.persons import Person
from tests.hosting import Hosting

pytestmark = [pytest.mark.peers, pytest.mark.xdist_group("installed")]

ROOT = Path(__file__).parents[2]
PARTS = ("src", "tools", "pyproject.toml", "README.md", "LICENSE", "Makefile")
INSTALL_WAIT = 600.0
"""Seconds until an installation that hangs fails its test; packages come from a registry."""


def run(*words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_WAIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is needed to install, as building leaves files there."""
    place = tmp_path_factory.mktemp("tree")
    for name in PARTS:
        if (ROOT / name).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, place / name, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, place / name)
    return place


@pytest.fixture(scope="module")
def installed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A host that runs from a wheel without extras."""
    place = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "venv", place / "venv")  # an environment that uv made has no pip
    run(place / "venv/bin/python", *pip, "wheel", "--no-deps", "--wheel-dir", place, tree)
    (wheel,) = place.glob("*.whl")
    run(place / "venv/bin/python", *pip, "install", wheel)
    hosting = Hosting()
    hosting.command = [str(place / "venv/bin/fairlead")]
    config = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[notify]\nurls = ["json://127.0.0.1:9"]\n')
    yield hosting
    hosting.close()


def test_a_wheel_without_extras_has_working_terminal_sessions(installed: Hosting) -> None:
    installed.start("work", "echo ready; while read line; do echo got $line; done")
    assert "work" in installed.run("ls").stdout
    with Person(installed) as person:
        person.until("ready")
        person.type(b"hello\r")
        person.until("got hello")
    assert "got hello" in installed.screen("work")
    assert "<svg" in installed.run("screen", "work", "--svg").stdout
    installed.run("stop", "work")


def test_a_wheel_has_uvloop_where_there_is_a_wheel_of_it(installed: Hosting) -> None:
    python = Path(installed.command[0]).parent / "python"
    run(python, "-c", "import uvloop")


def test_a_wheel_has_all_pages_of_the_web_console(installed: Hosting) -> None:
    python = Path(installed.command[0]).parent / "python"
    find = "import fairlead, pathlib; print(pathlib.Path(fairlead.__file__).parent / 'web/pages')"
    packed = Path(run(python, "-c", find).strip())
    pages = ROOT / "src/fairlead/web/pages"
    wanted = {path.relative_to(pages) for path in pages.rglob("*") if path.is_file()}
    assert wanted <= {path.relative_to(packed) for path in packed.rglob("*")}


def test_a_wheel_without_extras_names_what_is_missing(installed: Hosting) -> None:
    python = Path(installed.command[0]).parent / "python"
    installed.start("shown", "read line")
    done = installed.run("screen", "shown", "--png", check=False)
    command = f"{python} -m pip install 'fairlead[picture]'"
    assert done.stderr == f"fairlead screen: a PNG needs Pillow, from the extra 'picture': {command}\n"
    done = installed.run("notify", "done", check=False)
    assert done.stderr.endswith(f"from the extra 'notify': {python} -m pip install 'fairlead[notify]'\n")
    assert "offline guide" in installed.run("agent", "-p", "hello there").stdout
    doctor = installed.run("doctor", check=False).stdout
    assert f"{python} -m pip install 'fairlead[notify]'" in doctor
    run("/bin/sh", "-c", command)
    assert installed.run("screen", "shown", "--png", "-o", f"{installed.directory}/x.png").stdout == ""


@pytest.mark.parametrize("way", ["venv", "pipx", "uv"])
def test_make_install_puts_the_commands_on_the_path_and_uninstall_leaves_nothing(
    tree: Path, tmp_path: Path, way: str
) -> None:
    if way != "venv":
        peers.require(way)
    links = tmp_path / ".local/bin"
    kept = ("LANG", "PIP_", "UV_", "SSL_", "HTTP", "http", "PYENV")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    environment |= {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHON": sys.executable}
    environment |= {"INSTALLER": way}
    said = run("make", "install", env=environment, cwd=tree)
    assert f"install: fairlead and fairlead-keepty are in {links} ({way})" in said
    assert f"install: {links} is not on your PATH; add this to your shell's profile" in said
    environment["PATH"] += f":{links}"
    for command in ("fairlead", "fairlead-keepty"):
        assert "usage" in run(links / command, "--help", env=environment)
    again = run("make", "install", env=environment, cwd=tree)
    assert "not on your PATH" not in again
    said = run("make", "uninstall", env=environment, cwd=tree)
    assert f"removed fairlead and fairlead-keepty from {links} ({way})" in said
    left = [path for path in tmp_path.rglob("*fairlead*") if ".cache" not in path.parts]
    assert [path for path in left if path.suffix not in (".lock", ".log")] == []  # of pipx itself
    assert "fairlead is not installed" in run("make", "uninstall", env=environment, cwd=tree)
