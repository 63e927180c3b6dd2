"""`fairlead daemon`, and the unit files for who runs it as a service."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import pytest

import fairlead
from fairlead.cli import unit
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ROOT = Path(__file__).parents[2]
ECHO = "echo ready; while read line; do echo got $line; done"


@pytest.fixture
def alone() -> Iterator[Hosting]:
    """Places where no daemon runs yet."""
    hosting = Hosting()
    yield hosting
    hosting.close()


def supervised(hosting: Hosting, notify: str = "") -> subprocess.Popen[bytes]:
    """A daemon as a service manager starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "fairlead", "daemon", "run", "--supervised"],
        env=hosting.environment | ({"NOTIFY_SOCKET": notify} if notify else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_a_supervisor_that_watches_gets_signs_of_life(alone: Hosting) -> None:
    path = str(alone.directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        notify.settimeout(WAIT)
        alone.environment["WATCHDOG_USEC"] = "100000"
        daemon = supervised(alone, path)
        assert [notify.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        del alone.environment["WATCHDOG_USEC"]
        alone.run("start", "told", "-d", "--", "sh", "-c", "echo [$WATCHDOG_USEC$NOTIFY_SOCKET]; read line")
        alone.wait_text("told", "[]")
        daemon.terminate()
        daemon.wait(WAIT)


def serving(hosting: Hosting) -> int:
    """The process that serves, or 0; never starts one."""
    done = hosting.run("daemon", "status", "--json", check=False)
    pid: int = json.loads(done.stdout).get("pid", 0) if done.stdout else 0
    return pid


def test_the_status_of_no_daemon_is_1(alone: Hosting) -> None:
    done = alone.run("daemon", "status", check=False)
    expected = (1, "", "no daemon is running; any command starts one\n")
    assert (done.returncode, done.stdout, done.stderr) == expected
    done = alone.run("daemon", "status", "--json", check=False)
    assert (done.returncode, json.loads(done.stdout)) == (1, {"running": False})
    assert alone.run("daemon", "stop").stderr == "no daemon is running\n"


def test_the_status_of_a_daemon_tells_where_and_since_when(alone: Hosting) -> None:
    alone.start("work", "read line")
    status = json.loads(alone.run("daemon", "status", "--json").stdout)
    assert (status["running"], status["sessions"], status["supervised"]) == (True, 1, False)
    assert Path(status["log_path"]).read_text() == alone.log()
    first, second, third = alone.run("daemon", "status").stdout.splitlines()
    assert first == f"fairlead {status['version']}, process {status['pid']}, 1 session"
    assert second.endswith("restarted automatically if it dies")
    assert third == f"in {status['runtime_dir']}, log in {status['log_path']}"


def test_stopping_is_over_when_it_returns_and_restarting_starts_one(alone: Hosting) -> None:
    alone.start("work", ECHO)
    alone.run("daemon", "stop")
    assert _daemons(alone) == []
    alone.run("daemon", "restart")
    assert serving(alone) != 0
    alone.wait_text("work", "ready")


STAYS = """
import sys
from fairlead.client.sdk import connect
with connect() as host:
    print("ready", flush=True)
    work = host.terminal("work")
    for call in (work.wait, host.terminals):
        try:
            call()
        except ConnectionError as error:
            print(error, flush=True)
"""


def test_what_was_stopped_is_not_started_by_those_who_were_connected(alone: Hosting, tmp_path: Path) -> None:
    alone.start("work", ECHO)
    pipe = subprocess.PIPE
    words = (["rpc"], ["talk"], ["logs", "-f", "work"], ["wait", "work", "--exit"])
    commands = [[*alone.command, *each] for each in words]
    sdk, rpc, talk, logs, wait = [
        subprocess.Popen(each, env=alone.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for each in ([sys.executable, "-c", STAYS], *commands)
    ]
    ended: dict[str, tuple[int, str]] = {}
    with Person(alone) as person, Person(alone, "agent", "--name", "chat") as chatting:
        person.until("ready")
        chatting.until("offline")
        for each, said in ((sdk, ""), (rpc, '{:id "p" :kind :request :op "ping"}\n'), (talk, "/status\n")):
            assert each.stdin is not None
            assert each.stdout is not None
            each.stdin.write(said)
            each.stdin.flush()
            assert each.stdout.readline()
        assert logs.stdout is not None
        assert "ready" in logs.stdout.readline()
        alone.run("daemon", "stop")
        for name, each in (("sdk", sdk), ("rpc", rpc), ("talk", talk), ("logs", logs), ("wait", wait)):
            out, err = each.communicate(timeout=WAIT)
            ended[name] = each.returncode, out + err
        for at_terminal in (person, chatting):
            assert at_terminal.exit_code() == 1
            assert "the daemon was stopped; programs keep running" in at_terminal.text
    assert _daemons(alone) == []
    assert serving(alone) == 0
    stopped = "the daemon was stopped; programs keep running, and any `fairlead` command restarts the daemon"
    assert ended["sdk"] == (0, f"{stopped}\n" * 2)
    codes = {name: code for name, (code, _) in ended.items()}
    assert codes == {"sdk": 0, "rpc": 1, "talk": 1, "logs": 1, "wait": 125}
    assert all(stopped in said for _, said in ended.values()), ended
    alone.wait_text("work", "ready")  # a new command starts one, which finds the program


def test_a_restart_is_to_the_installation_that_asks_for_it(alone: Hosting, tmp_path: Path) -> None:
    """The other installation is this one in an environment of its own, with another version."""
    package = tmp_path / "lib/fairlead"
    shutil.copytree(Path(fairlead.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    opening = package / "__init__.py"
    opening.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0"', opening.read_text()))
    venv.create(tmp_path / "other", symlinks=True)
    python = tmp_path / "other/bin/python"
    places = [str(package.parent), *(path for path in sys.path if path.endswith("site-packages"))]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / f"other/lib/{version}/site-packages/other.pth").write_text("\n".join(places) + "\n")
    environment = {name: value for name, value in alone.environment.items() if name != "PYTHONPATH"}
    alone.start("work", ECHO)
    pid = alone.sessions()["work"]["pid"]
    subprocess.run([python, "-m", "fairlead", "daemon", "restart"], env=environment, check=True, timeout=WAIT)
    assert json.loads(alone.run("daemon", "status", "--json").stdout)["version"] == "99.0"
    alone.run("daemon", "restart")
    assert json.loads(alone.run("daemon", "status", "--json").stdout)["version"] == fairlead.__version__
    assert alone.sessions()["work"]["pid"] == pid


def test_a_second_daemon_in_the_foreground_is_refused(alone: Hosting) -> None:
    alone.run("ls")
    done = alone.run("daemon", "run", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("fairlead daemon: a daemon serves ")


def test_a_supervised_daemon_is_not_started_again_by_the_nursery_and_sessions_outlive_it(
    alone: Hosting,
) -> None:
    first = supervised(alone)
    alone.until(lambda: serving(alone) == first.pid)
    assert json.loads(alone.run("daemon", "status", "--json").stdout)["supervised"] is True
    alone.start("work", ECHO)
    alone.wait_text("work", "ready")
    program = alone.sessions()["work"]["pid"]
    nursery = alone.directory / "run/fairlead/nursery.sock"
    first.kill()
    first.wait(WAIT)
    # A nursery that would start it again has done so before it answers whoever comes after.
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(nursery))
        connection.sendall(b'{"back": true}\n')
        assert json.loads(connection.recv(100))["back"] is True
    assert _daemons(alone) == []
    second = supervised(alone)
    alone.until(lambda: serving(alone) == second.pid)
    alone.run("send", "work", "hello", "-k", "Enter")
    alone.wait_text("work", "got hello")
    assert alone.sessions()["work"]["pid"] == program
    alone.run("daemon", "stop")
    assert second.wait(WAIT) == 0


def _daemons(hosting: Hosting) -> list[str]:
    """All daemons of these places, by their command lines."""
    runtime = f"XDG_RUNTIME_DIR={hosting.environment['XDG_RUNTIME_DIR']}\0".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if b"daemon\0run" in command and runtime in (entry / "environ").read_bytes():
                found.append(command.decode())
        except OSError:
            continue
    return found


def test_a_supervised_daemon_takes_the_place_of_one_that_a_command_has_started(alone: Hosting) -> None:
    alone.start("work", ECHO)
    alone.start("over", "exit 4")
    alone.wait_text("work", "ready")
    alone.run("wait", "over", "--exit", check=False)
    program = alone.sessions()["work"]["pid"]
    service = supervised(alone)
    alone.until(lambda: serving(alone) == service.pid)
    assert len(_daemons(alone)) == 1
    assert alone.sessions()["work"]["pid"] == program
    assert alone.run("wait", "over", "--exit", check=False).returncode == 4
    service.send_signal(signal.SIGTERM)  # as for a restart
    assert service.wait(WAIT) == 0
    again = supervised(alone)
    alone.until(lambda: serving(alone) == again.pid)
    assert alone.run("wait", "over", "--exit", check=False).returncode == 4
    alone.run("daemon", "stop")
    assert again.wait(WAIT) == 0


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_when_the_daemon_is_ready_and_after_a_restart(alone: Hosting, abstract: bool) -> None:
    if abstract and sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    path = str(alone.directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(WAIT)
        listener.bind(f"\0{path}" if abstract else path)
        service = supervised(alone, notify=f"@{path}" if abstract else path)
        assert listener.recv(100) == b"READY=1"
        assert serving(alone) == service.pid
        alone.run("daemon", "restart")
        assert listener.recv(100) == b"READY=1"
    assert serving(alone) == service.pid
    assert json.loads(alone.run("daemon", "status", "--json").stdout)["supervised"] is True
    service.send_signal(signal.SIGTERM)
    assert service.wait(WAIT) == 0


def test_the_log_of_a_supervised_daemon_is_where_logs_looks(alone: Hosting) -> None:
    service = supervised(alone)
    alone.until(lambda: serving(alone) == service.pid)
    assert "serving 0 sessions" in alone.run("logs", "--daemon").stdout
    alone.run("daemon", "stop")
    service.wait(WAIT)


# --- unit files ---------------------------------------------------------------------------------------------


def test_the_unit_for_systemd_lets_programs_outlive_the_daemon(hosting: Hosting, tmp_path: Path) -> None:
    text = hosting.run("daemon", "unit", "systemd").stdout
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    service = dict(parser["Service"])
    assert service["ExecStart"] == f"{sys.executable} -m fairlead daemon run --supervised"
    assert (service["Type"], service["KillMode"]) == ("notify", "process")
    assert (service["Restart"], service["OOMPolicy"]) == ("on-failure", "continue")
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    path = tmp_path / "fairlead.service"
    path.write_text(text)
    done = subprocess.run(
        [analyze, "--user", "verify", str(path)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_for_launchd_lets_programs_outlive_the_daemon(hosting: Hosting) -> None:
    unit = plistlib.loads(hosting.run("daemon", "unit", "launchd").stdout.encode())
    command = [sys.executable, "-m", "fairlead", "daemon", "run", "--supervised"]
    assert unit["ProgramArguments"] == command
    assert unit["AbandonProcessGroup"] is True
    assert unit["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.parametrize(("manager", "name"), unit.FILES.items())
def test_the_files_in_contrib_are_those_of_the_package(manager: str, name: str) -> None:
    text = (ROOT / "contrib" / name).read_text()
    assert text == Path(unit.UNITS, name).read_text()
    assert unit.unit(manager) != text


def test_odd_paths_are_written_as_service_managers_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", '/a b/50%/$x/"q"/<&>')
    assert '\nExecStart="/a b/50%%/$$x/\\"q\\"/<&>" -m fairlead' in unit.unit("systemd")
    assert plistlib.loads(unit.unit("launchd").encode())["ProgramArguments"][0] == '/a b/50%/$x/"q"/<&>'
