"""Programs without XDG_RUNTIME_DIR find the daemon of their user, and of nobody else."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.system.settings import Settings
from fairlead.system.whereabouts import NAME, find_whereabouts
from tests.client.persons import Person
from tests.hosting import Hosting


def test_a_program_without_a_runtime_directory_reaches_the_daemon_of_its_user(lent: Hosting) -> None:
    lent.start("work", "echo ready; read line")
    runtime = lent.environment.pop("XDG_RUNTIME_DIR")
    try:
        assert Settings(lent.environment).runtime_dir == f"{runtime}/fairlead"
        assert "work" in lent.run("ls", "-q").stdout.split()
        with Person(lent, "attach", "work") as person:
            person.until("ready")
            assert person.leave() == 0
        named = {**lent.environment, "FAIRLEAD_RUNTIME_DIR": "/elsewhere"}
        assert Settings(named).runtime_dir == "/elsewhere"
    finally:
        lent.environment["XDG_RUNTIME_DIR"] = runtime


def test_a_place_where_no_daemon_is_or_that_others_may_write_is_not_used(lent: Hosting) -> None:
    state = Settings(lent.environment).state_dir
    place = Path(state, NAME)
    written = place.read_bytes()
    assert find_whereabouts(state) is not None
    try:
        place.chmod(0o644)
        assert find_whereabouts(state) is None
        place.chmod(0o600)
        if os.getuid() == 0:
            os.chown(place, 65534, -1)
            assert find_whereabouts(state) is None
            os.chown(place, 0, -1)
        place.rename(f"{place}.real")
        place.symlink_to(f"{place}.real")
        assert find_whereabouts(state) is None
    finally:
        place.unlink()
        Path(f"{place}.real").rename(place)
    for wrong in (b"", b"/nowhere\n\n", b"\0\n\n", f"{state}\n\n".encode()):
        place.write_bytes(wrong)
        assert find_whereabouts(state) is None
    place.write_bytes(written)
    assert find_whereabouts(state) is not None


def test_after_a_daemon_has_ended_its_place_is_not_used(tmp_path: Path) -> None:
    hosting = Hosting()
    try:
        hosting.run("ls")
        hosting.run("daemon", "stop")
        del hosting.environment["XDG_RUNTIME_DIR"]
        usual = Settings({**hosting.environment, "TMPDIR": str(tmp_path)}).runtime_dir
        assert usual == f"{tmp_path}/fairlead-{os.getuid()}"
    finally:
        hosting.environment["XDG_RUNTIME_DIR"] = str(hosting.directory / "run")
        hosting.close()
