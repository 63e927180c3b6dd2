"""Started with `umask 000`: nothing that we make lets others in, and programs keep the user's mask."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.editors import Editor
from tests.doors.passepartout_peer import Peer, kill_and_wait
from tests.hosting import Hosting


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    config.write_text("[agent]\nyes = true\n[control]\nhosts = []\n")
    hosting = Hosting({"FAIRLEAD_CONFIG": str(config), "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.command = ["/bin/sh", "-c", 'umask 000; exec "$@"', "sh", sys.executable, "-m", "fairlead"]
    yield hosting
    hosting.close()


def loose(*places: Path) -> list[str]:
    """What others could read, write or enter, also below directories that they can't enter."""
    found = [each for place in places for each in [place, *place.rglob("*")] if not each.is_symlink()]
    assert len(found) > 20, found
    return [
        f"{each} {each.lstat().st_mode:o}" for each in found if stat.S_IMODE(each.lstat().st_mode) & 0o077
    ]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_with_umask_000_nobody_else_gets_in_and_programs_keep_it(hosting: Hosting, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    home = Path(hosting.environment["HOME"])
    for turn in ("first", "next"):
        hosting.start(f"work-{turn}", f"umask; touch {project}/{turn}; exec cat", "--record")
        hosting.wait_text(f"work-{turn}", "0000")
        assert mode(project / turn) == 0o666
        editor = Editor(hosting, project)
        editor.ask("handshake")
        editor.ask("subscribe")
        editor.ask("prompt", message=f"write new-{turn}/file.txt: hello")
        editor.idle()
        editor.ask("prompt", message=f"run: touch ran-{turn}")
        editor.idle()
        editor.ask("remember", text="something")
        editor.close()
        with Peer(hosting=hosting) as peer:
            peer.ask(f"/run touch {project}/acted-{turn}")
        hosting.run("sessions")
        hosting.run("ls")
        for path in (project / f"ran-{turn}", project / f"acted-{turn}"):
            assert mode(path) == 0o666
        assert mode(project / f"new-{turn}") == 0o777
        assert mode(project / f"new-{turn}" / "file.txt") == 0o666
        assert loose(home, Path(hosting.environment["XDG_RUNTIME_DIR"]), hosting.directory / "v") == []
        kill_and_wait(hosting)  # the next one is started by the nursery, which is as strict


def test_a_restart_keeps_the_mask_of_programs(hosting: Hosting) -> None:
    hosting.start("before", "umask; exec cat")
    hosting.run("daemon", "restart")
    hosting.start("after", "umask; exec cat")
    for name in ("before", "after"):
        hosting.wait_text(name, "0000")
