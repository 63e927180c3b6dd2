"""`fairlead doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.system.settings import Settings
from tests.hosting import Hosting


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    """A daemon, or none, for each test: most of them break something."""
    hosting = Hosting()
    yield hosting
    hosting.close()


def checks(hosting: Hosting) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the checks by name."""
    done = hosting.run("doctor", "--json", check=False)
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def configured(hosting: Hosting, text: str) -> None:
    path = Path(Settings(hosting.environment).config_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_all_is_well_with_a_new_daemon_and_a_session(hosting: Hosting) -> None:
    hosting.start("work", "sleep 600")
    code, found = checks(hosting)
    assert code == 0, found
    assert found["keepers"]["detail"] == "1 session, all connected"
    assert {"daemon", "nursery", "emulator", "journals", "model", "disk space", "event loop"} <= found.keys()
    assert hosting.run("doctor").stdout.splitlines()[-1] == f"healthy: {len(found)} checks, nothing to fix"


def test_a_daemon_is_missed_only_if_it_died(hosting: Hosting) -> None:
    """For a new user, and after a stop, it starts by itself."""
    for _ in range(2):
        code, found = checks(hosting)
        assert (code, found["daemon"]["detail"]) == (
            0,
            "not running; the next command starts it",
        )
        hosting.run("ls")
        hosting.run("daemon", "stop")
    lock = Path(Settings(hosting.environment).lock_path)
    lock.write_text("4194304\n")  # as one leaves it that was killed together with its nursery
    code, found = checks(hosting)
    assert (code, "fairlead ls" in found["daemon"]["fix"]) == (1, True)
    lock.unlink()


def test_a_model_without_its_key_is_told(hosting: Hosting) -> None:
    configured(hosting, '[agent]\nmodel = "openai/gpt-5"\n')
    hosting.run("ls")
    code, found = checks(hosting)
    assert code == 1
    assert found["model"]["status"] == "degraded"
    assert "/login openai" in found["model"]["fix"]


def test_a_model_that_can_not_be_reached_is_told(hosting: Hosting) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        port = taken.getsockname()[1]
        configured(
            hosting,
            f'[agent]\nmodel = "mine/m"\n[providers.mine]\nbase_url = "http://127.0.0.1:{port}/v1"\n',
        )
        hosting.run("ls")
        code, found = checks(hosting)
    assert code == 1
    assert f"127.0.0.1:{port} can't be reached" in found["model"]["detail"]


def test_a_nursery_that_is_gone_comes_back_or_is_told(hosting: Hosting) -> None:
    hosting.run("ls")
    nursery = next(
        int(entry.parent.name)
        for entry in (process / "cmdline" for process in Path("/proc").glob("[0-9]*"))
        if b"fairlead.keeper.nursery" in _read(entry) and str(hosting.directory).encode() in _read(entry)
    )
    os.kill(nursery, signal.SIGKILL)
    _, found = checks(hosting)
    assert found["nursery"]["status"] in ("healthy", "degraded")
    hosting.until(lambda: checks(hosting)[1]["nursery"]["status"] == "healthy")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_keeper_that_does_not_answer_is_told(hosting: Hosting) -> None:
    hosting.start("work", "sleep 600")
    place = Path(Settings(hosting.environment).keepers_dir)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / "0123456789abcdef.sock"))
        _, found = checks(hosting)
    assert found["keepers"]["status"] == "degraded"
    assert found["keepers"]["detail"] == "1 of 2 not responding"
    (place / "0123456789abcdef.sock").unlink()


def test_a_pty_is_tried_files_are_counted_and_databases_opened(hosting: Hosting) -> None:
    hosting.run("ls")
    code, found = checks(hosting)
    assert code == 0, found
    assert found["terminals"]["detail"] == "a PTY can be opened"
    opened, of, limit = found["open files"]["detail"].split()
    assert (of, int(opened) < int(limit)) == ("of", True)
    state = Path(hosting.environment["HOME"], ".local/state/fairlead")
    (state / "broken.db").write_bytes(b"this is no database, but it is long enough to be looked at" * 20)
    code, found = checks(hosting)
    assert code == 1
    assert found["databases"]["status"] == "unhealthy"
    assert f"{state}/broken.db: file is not a database" in found["databases"]["detail"]


def test_too_many_open_files_are_told_with_what_to_do(hosting: Hosting) -> None:
    pid = hosting.daemon_pid()
    _, found = checks(hosting)
    opened = int(found["open files"]["detail"].split()[0])
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (opened + 2, before[1]))
    _, found = checks(hosting)
    assert found["open files"]["status"] in ("degraded", "unhealthy")
    assert f"may open {opened + 2} files" in found["open files"]["fix"]
    fix = found["open files"]["fix"]
    assert f"`ulimit -n {min(4 * (opened + 2), before[1])}; fairlead daemon stop;" in fix
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as more:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (opened + 3, before[1]))
        for each in (one, more):
            each.connect(Settings(hosting.environment).rpc_path)
        hosting.run("ls")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_that_there_is_no_pty_is_told_with_what_to_do() -> None:
    script = """if True:
        import resource
        from fairlead.doors.checks import terminals
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        print(terminals())
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "can't open a PTY: " in done.stdout
    assert "fix='the daemon may open 3 files: stop some sessions, or have root raise nofile" in done.stdout


def test_a_keeper_whose_socket_was_deleted_is_told(hosting: Hosting) -> None:
    hosting.start("work", "sleep 600")
    (path,) = Path(Settings(hosting.environment).keepers_dir).glob("*.sock")
    aside = path.with_suffix(".aside")
    path.rename(aside)
    _, found = checks(hosting)
    assert "1 of 1 have no socket" in found["keepers"]["detail"]
    aside.rename(path)


def test_a_nursery_that_is_stopped_is_seen(hosting: Hosting) -> None:
    hosting.start("work", "cat")
    program = hosting.sessions()["work"]["pid"]
    keeper = parent(program)
    nursery = parent(keeper)
    os.kill(nursery, signal.SIGSTOP)
    try:
        done = hosting.run("doctor", check=False)
        assert done.returncode == 1
        assert "not responding" in done.stdout
    finally:
        os.kill(nursery, signal.SIGCONT)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
