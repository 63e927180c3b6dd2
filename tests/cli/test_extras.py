"""What works without extras, and what each command says that needs one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.system import extras
from tests.hosting import Hosting
from tests.installing import INSTALL

CONFIG = """
[notify]
urls = ["json://127.0.0.1:9"]

[providers.lab]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"

[[models]]
provider = "lab"
id = "test"
"""


def hidden(directory: Path, *modules: str) -> Hosting:
    """A host whose processes find none of these modules."""
    lines = "".join(f"sys.modules[{module!r}] = None\n" for module in modules)
    (directory / "sitecustomize.py").write_text(f"import sys\n{lines}")
    hosting = Hosting()
    hosting.environment["PYTHONPATH"] = str(directory)  # of several only the first is found
    config = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG)
    return hosting


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    modules = ("PIL", "apprise", "pydantic_ai", "starlette")
    hosting = hidden(tmp_path_factory.mktemp("bare"), *modules)
    yield hosting
    hosting.close()


def adding(extra: str) -> str:
    return f"from the extra '{extra}': {INSTALL} 'fairlead[{extra}]'\n"


def test_terminal_sessions_and_the_offline_guide_need_no_extra(bare: Hosting) -> None:
    bare.start("work", "echo ready; read line")
    bare.wait_text("work", "ready")
    assert "<svg" in bare.run("screen", "work", "--svg").stdout
    assert "I am the offline guide" in bare.run("agent", "-p", "hello there").stdout


def test_each_command_that_needs_an_extra_names_it_at_once(bare: Hosting) -> None:
    bare.start("shown", "read line")
    done = bare.run("screen", "shown", "--png", check=False)
    assert (done.returncode, done.stderr) == (1, f"fairlead screen: a PNG needs Pillow, {adding('picture')}")
    done = bare.run("notify", "it is done", check=False)
    needs = f"fairlead notify: the notification was not sent: notifications need Apprise, {adding('notify')}"
    assert (done.returncode, done.stderr) == (1, needs)
    done = bare.run("web", "--no-open", check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"fairlead web: the console needs Starlette, {adding('web')}",
    )
    done = bare.run("agent", "-p", "--model", "lab/test", "hello there", check=False)
    assert done.returncode == 1
    needs = f"remote models need more packages (pydantic_ai is missing), {adding('models')}"
    assert done.stderr.endswith(needs)


def test_the_doctor_says_how_to_add_what_is_configured_and_missing(bare: Hosting) -> None:
    bare.run("ls")  # the doctor starts no daemon
    said = bare.run("doctor", check=False).stdout
    for extra in ("notify", "models"):
        assert f"{INSTALL} 'fairlead[{extra}]'" in said


def test_without_the_emulator_the_daemon_does_not_start_and_says_so(tmp_path: Path) -> None:
    hosting = hidden(tmp_path, "pyghostty", "_cffi_backend")
    try:
        done = hosting.run("start", "work", "-d", "--", "true", check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(
            "fairlead start: the daemon can't start: terminal sessions need pyghostty, which can't be loaded"
        )
        mends = f"{INSTALL} --force-reinstall pyghostty\n"
        assert done.stderr.endswith(mends)
        assert len(done.stderr.splitlines()) == 1
    finally:
        hosting.close()


def test_the_command_fits_how_fairlead_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert extras.adding("picture") == f"{INSTALL} 'fairlead[picture]'"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with monkeypatch.context() as without_pip:
        without_pip.setitem(sys.modules, "pip", None)
        assert extras.adding("picture") == f"uv pip install --python {tmp_path} 'fairlead[picture]'"
    (tmp_path / "pipx_metadata.json").write_text("{}")
    assert extras.adding("picture") == "pipx runpip fairlead install 'fairlead[picture]'"
