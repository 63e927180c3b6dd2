"""An agent's commands don't become a person's by hiding what they are, nor by having somebody else act."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.playing import calls, cassette, says
from tests.doors.passepartout_peer import Peer, port_of
from tests.hosting import Hosting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux marks processes for good")

SCRIPT = """\
import ctypes, json, os, subprocess, sys, threading, time
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.wire import keepty
from tests.doors.passepartout_peer import Peer
import socket

port = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def waiting():
    with DaemonConnection(Settings(os.environ), start=False) as control:
        return [row["token"] for row in control.ask("approvals")["approvals"]]

while not waiting():
    time.sleep(0.02)
[token] = waiting()
fairlead = [sys.executable, "-m", "fairlead"]
bare = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_AGENT"}
allow = [*fairlead, "approvals", "allow", token]
marks = " ".join(f"{name}='{value}'" for name, value in bare.items())
said = {}

def until(path):
    while not os.path.exists(path):
        time.sleep(0.02)
    with open(path) as file:
        return file.read()

with open("allow.sh", "w") as file:
    file.write(f"#!/bin/sh\\ncd {os.getcwd()}; env -i {marks} {' '.join(allow)} >$1.new 2>&1; mv $1.new $1")

os.chmod("allow.sh", 0o700)

def typed(name):
    return f"{os.getcwd()}/allow.sh {name}"

# without its environment and its parents
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while os.getppid() != 1 and not os.path.exists("orphan"):
            time.sleep(0.01)
        os.execve("allow.sh", ["allow.sh", "daemonized"], bare)
    os._exit(0)
os.wait()
open("orphan", "w").close()
said["daemonized"] = until("daemonized")

# by the daemon, and by a person's terminal
run = subprocess.run([*fairlead, "talk", "/run " + typed("run")], env=bare, capture_output=True, text=True)
said["run"] = run.stdout + run.stderr
subprocess.run([*fairlead, "talk", "/send shell " + typed("talked")], env=bare)
said["talked"] = until("talked")
subprocess.run([*fairlead, "send", "shell2", typed("sent"), "-k", "Enter"], env=bare, check=True)
said["sent"] = until("sent")
with socket.socket(socket.AF_UNIX) as viewer:
    viewer.connect(keepty.socket_path("shell3", os.environ))
    viewer.sendall(keepty.Hello(keepty.Role.WRITER, 80, 24).encode())
    viewer.recv(65536)
    viewer.sendall(keepty.Input((typed("attached") + "\\n").encode()).encode())
    said["attached"] = until("attached")

# many questions
with Peer(port) as lisp:
    said["many"] = [lisp.ask("/send shell2 rm -rf build") for _ in range(22)][-1]

# over TCP, by who is gone or can't be seen
before = Peer(port)
before.say(f"/approve {token}")
before.socket.close()
def unseen():
    libc.unshare(0x400)  # CLONE_FILES
    try:
        with Peer(port) as lisp:
            said["unseen"] = lisp.ask(f"/approve {token}")
    except AssertionError as error:  # there may be a sandbox of somebody else's
        said["unseen"] = str(error)
thread = threading.Thread(target=unseen)
thread.start()
thread.join()

# another daemon
for words in (["daemon", "stop"], ["daemon", "restart"]):
    done = subprocess.run([*fairlead, *words], env=bare, capture_output=True, text=True)
    said[words[1]] = done.stdout + done.stderr
with open("said.new", "w") as file:
    json.dump(said, file)
os.rename("said.new", "said")
"""
LEAVE = "setsid sh {} > log 2>&1 < /dev/null &\nuntil [ -e left ]; do sleep 0.02; done\n"


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    rules = '{ tool = "bash", match = "sh *", then = "allow" }'
    config.write_text(f'[agent]\nmodel = "offline/replay"\ncassette = "{tmp_path}/tape"\nrules = [{rules}]\n')
    places = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    hosting = Hosting({"FAIRLEAD_CONFIG": str(config), "PLACES": places})
    yield hosting
    hosting.close()


def test_an_agents_command_is_no_person_however_it_hides_and_whoever_acts_for_it(
    hosting: Hosting, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("shell", "shell2", "shell3", "mine"):
        hosting.start(name, "exec sh")
    (project / "answer.py").write_text(SCRIPT)
    (project / "answer.sh").write_text(
        f'touch left\nexport PYTHONPATH="$PLACES"\n"{sys.executable}" answer.py {port_of(hosting)}\n'
    )
    (project / "leave.sh").write_text(LEAVE.format("answer.sh"))
    cassette(
        tmp_path / "tape",
        calls(("c1", "bash", {"command": "sh leave.sh"})),
        calls(("c2", "bash", {"command": "touch made"})),
        says("done"),
    )
    session = hosting.ask("open_session", name="garden", cwd=str(project))["session_id"]
    daemon = hosting.daemon_pid()
    hosting.ask("prompt", session_id=session, message="do it")
    hosting.until((project / "said").exists)
    said = {name: " ".join(text.split()) for name, text in json.loads((project / "said").read_text()).items()}
    row, *many = hosting.ask("approvals")["approvals"]
    assert len(many) == 20
    assert f"; a command of an agent session ({session}) asks for it" in many[0]["reason"]
    assert "20 actions that agents asked for are already waiting for consent" in said["many"]
    for how in ("daemonized", "talked", "sent", "attached"):
        assert f"{row['token']} waits on: a command of an agent session (" in said[how], (how, said[how])
    assert "nobody visible holds the connection" in said["unseen"]
    assert "/run is for people" in said["run"]
    for how in ("stop", "restart"):
        assert "only a person may stop the daemon" in said[how], said[how]
    assert hosting.daemon_pid() == daemon
    assert "unknown: the process that connected is gone" in hosting.log()
    assert not (project / "made").exists()
    hosting.run("daemon", "restart")
    allow = f"{' '.join(hosting.command)} approvals allow {row['token']}"
    hosting.run("send", "shell", f"{allow} >{project}/again 2>&1; touch {project}/tried", "-k", "Enter")
    hosting.until((project / "tried").exists)
    assert "who typed into session shell" in (project / "again").read_text()
    hosting.run("send", "mine", allow, "-k", "Enter")
    hosting.until((project / "made").exists)


def test_a_person_is_taken_for_one_over_tcp_too(hosting: Hosting, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    cassette(tmp_path / "tape", calls(("c1", "bash", {"command": "touch made"})), says("done"))
    session = hosting.ask("open_session", name="garden", cwd=str(project))["session_id"]
    hosting.ask("prompt", session_id=session, message="do it")
    hosting.until(lambda: hosting.ask("approvals")["approvals"])
    [row] = hosting.ask("approvals")["approvals"]
    with Peer(port_of(hosting)) as person:
        assert "approved" in person.ask(f"/approve {row['token']}")
    hosting.until((project / "made").exists)
