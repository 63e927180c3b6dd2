"""At a terminal: what runs there has a terminal there, and ssh may ask."""

from __future__ import annotations

import os
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from fairlead import __version__
from fairlead.client.hosts import install
from tests.client.persons import Person
from tests.hosting import WAIT
from tests.hosts.far_host import FarHost, NearHost


def test_a_command_that_runs_there_has_a_terminal_and_its_keys(near: NearHost, far: FarHost) -> None:
    far.run("agent", "-p", "-C", str(far.home), "--name", "tended", "hello")
    with Person(near, "verify", "workbox:tended", "--", "true") as person:
        person.until("tended")
        person.press(b"\x03")
        expected = person.client.wait(WAIT)
    with Person(far, "verify", "tended", "--", "true") as person:
        person.until("tended")
        person.press(b"\x03")
        assert person.client.wait(WAIT) == expected


def test_ssh_may_ask_before_anything_is_drawn(near: NearHost, far: FarHost) -> None:
    near.ssh_config.write_text(
        near.ssh_config.read_text() + far.ssh_config("asking").replace("accept-new", "ask")
    )
    (far.ssh_dir / "known").unlink(missing_ok=True)
    near.run("host", "add", "asking", "--no-check")
    near.added.append("asking")
    far.start("work", "echo ready; exec cat")
    with Person(near, "attach", "asking:work") as person:
        person.until("continue connecting")
        person.type(b"yes\r")
        person.until("ready")
        assert person.leave() == 0
    far.run("stop", "work")
    near.run("host", "rm", "asking")


def test_the_dashboard_and_the_chat_are_of_that_host(near: NearHost, far: FarHost) -> None:
    far.start("work", "echo ready; exec cat")
    far.run("agent", "-p", "-C", str(far.home), "--name", "talker", "hello there")
    with Person(near, "-H", "workbox") as person:
        person.until("work")
        person.type(b"q")
        assert person.client.wait(WAIT) == 0
    with Person(near, "attach", "workbox:talker") as person:
        person.until("hello there")
        far.kill_daemon()
        person.until("reconnected to workbox")
        far.stop_sshd()
        try:
            person.until("workbox is away; reconnecting")
        finally:
            far.start_sshd()
        person.type(b"list the files\r")
        person.until("list the files")
        person.type(b"\x04")
    far.run("stop", "work")


def test_a_wheel_of_what_runs_here_is_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(BytesIO(install.wheel())) as file:
        names = set(file.namelist())
        assert file.testzip() is None
        record = file.read(f"fairlead-{__version__}.dist-info/RECORD").decode()
    assert {"fairlead/__init__.py", "fairlead/cli/link.py"} <= names
    assert not any("__pycache__" in name for name in names)
    assert {line.split(",")[0] for line in record.splitlines()} == names


@pytest.mark.peers
def test_fairlead_is_installed_on_a_host_and_used(tmp_path: Path) -> None:
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    far, near = FarHost(pip, links=False), NearHost()
    near.patience = far.patience = 600
    try:
        far.environment.pop("PYTHONPATH")  # which has what the tests watch loops with
        far.stop_sshd()
        far.start_sshd()
        near.add("workbox", far, check=False)
        assert "not installed" in near.run("-H", "workbox", "ls", check=False).stderr
        assert "--yes" in near.run("host", "install", "workbox", check=False).stderr
        done = near.run("host", "install", "workbox", "--yes")
        assert f"fairlead {__version__} is installed" in done.stdout
        near.run("start", "workbox:work", "-d", "--", "sh", "-c", "echo installed; exec cat")
        assert "installed" in near.run("screen", "workbox:work").stdout
        program = far.home / ".local/bin/fairlead"
        assert program.resolve() == (far.home / ".local/share/fairlead/venv/bin/fairlead").resolve()
        subprocess.run([program, "--version"], check=True, env=far.environment, timeout=WAIT)
        assert "updates fairlead" in near.run("host", "install", "workbox", "--yes").stderr
    finally:
        near.close()
        far.close()
