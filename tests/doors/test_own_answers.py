"""An agent's own commands can't answer what it asks a person, as far as the daemon can see whose they are."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.doors.peer_proof import GONE, Behind, behind
from fairlead.system.processes import UNNAMED_AGENT, agent_of, user_of
from tests.agent.playing import calls, cassette, says
from tests.client.editors import Editor
from tests.client.persons import Person
from tests.doors.passepartout_peer import Peer, port_of
from tests.hosting import Hosting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a process is")

SCRIPT = """\
import json, os, subprocess, sys, time
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests.doors.passepartout_peer import Peer

def waiting():
    with DaemonConnection(Settings(os.environ), start=False) as control:
        return [row["token"] for row in control.ask("approvals")["approvals"]]

while not waiting():
    time.sleep(0.02)
[token] = waiting()
said = {}
fairlead = [sys.executable, "-m", "fairlead"]
bare = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_AGENT"}
for door, words, environment in (
    ("approvals", ["approvals", "allow", token], None),
    ("always", ["approvals", "always", token], None),
    ("without the mark", ["approvals", "allow", token], bare),
    ("talk", ["talk", f"/approve {token}"], None),
):
    done = subprocess.run([*fairlead, *words], env=environment, capture_output=True, text=True)
    said[door] = done.stdout + done.stderr
with Peer(int(sys.argv[1])) as lisp:
    said["tcp"] = lisp.ask(f"/approve {token}")
with DaemonConnection(Settings(os.environ), start=False) as control:
    try:
        said["rpc"] = str(control.ask("resolve_dialog", dialog_id=token, result=True))
    except Exception as error:
        said["rpc"] = str(error)
marks = [f"{name}={value}" for name, value in bare.items()]
inner = ["env", "-i", *marks, *fairlead, "approvals", "allow", token]

def session(name, body, *words):
    body += ' > "$0.new" 2>&1; mv "$0.new" "$0"'
    return [*fairlead, "start", name, "-d", "--", "sh", "-c", body, name, *words]

for name, words in (
    ("t1", session("t1", '"$@"', *inner)),
    ("t3", session("t2", '"$@"', *inner[: inner.index("-m") + 2], *session("t3", '"$@"', *inner)[3:])),
):
    subprocess.run(words, env=bare, check=True)
    while not os.path.exists(name):
        time.sleep(0.02)
    with open(name) as file:
        said[name] = file.read()
later = session("t4", 'until [ -e go ]; do sleep 0.1; done; "$@"', *inner)
subprocess.run(later, env=bare, check=True)
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


def test_a_command_that_an_agent_left_in_the_background_cant_allow_its_next_call(
    hosting: Hosting, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    hosting.run("ls")
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
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    session = hosting.ask("open_session", name="garden", cwd=str(project))["session_id"]
    with Peer(hosting=hosting) as person, Person(hosting, "agent", "garden", cols=160) as chat:
        chat.until("^D leaves")
        person.health()
        hosting.ask("prompt", session_id=session, message="do it")
        hosting.until((project / "said").exists)
        [row] = hosting.ask("approvals")["approvals"]
        refused = f"a command of an agent session ({session}) tried to allow this; only a person may"
        for door, text in json.loads((project / "said").read_text()).items():
            assert f"{row['token']} waits on: {refused}" in " ".join(text.split()), (door, text)
        assert not (project / "made").exists()
        assert row["reason"].endswith(f"; {refused}")
        assert hosting.log().count(f"{row['token']}: {refused}") >= 6
        assert refused in str(person.until(lambda item: refused in str(item)))
        chat.until(refused)
        told = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/notification")
        assert refused in str(told.data)
    editor.close()
    hosting.run("daemon", "restart")
    hosting.until(lambda: hosting.ask("approvals")["approvals"])
    (project / "go").touch()
    hosting.until((project / "t4").exists)
    assert refused in " ".join((project / "t4").read_text().split())
    hosting.run("approvals", "allow", row["token"])
    hosting.until((project / "made").exists)


def test_a_command_that_an_agent_left_in_the_background_cant_report_on_a_turn(
    hosting: Hosting, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "words").write_text("one\n")
    (project / "judge.sh").write_text(
        f'touch left\nexport PYTHONPATH="$PLACES"\n"{sys.executable}" -m fairlead verify --once garden -- '
        "grep -q one words > said.new 2>&1\nmv said.new said\n"
    )
    (project / "leave.sh").write_text(LEAVE.format("judge.sh"))
    cassette(tmp_path / "tape", calls(("c1", "bash", {"command": "sh leave.sh"})), says("done"))
    session = hosting.ask("open_session", name="garden", cwd=str(project))["session_id"]
    hosting.ask("prompt", session_id=session, message="do it")
    hosting.until((project / "said").exists)
    refused = f"a command of an agent session ({session}) sent it; only a verifier that no agent started may"
    assert refused in " ".join((project / "said").read_text().split())
    assert f"a report on session {session} was refused: {refused}" in hosting.log()
    assert not hosting.ask("verify_reports")["reports"]
    hosting.run("verify", "--once", "garden", "--", "grep", "-q", "one", "words")
    [report] = hosting.ask("verify_reports")["reports"]
    assert report["session_id"] == session


def test_a_process_that_is_no_agents_is_known_as_such() -> None:
    assert agent_of(os.getpid(), {}) == ""
    assert agent_of(1, {}) == ""
    assert agent_of(2**22 + 1, {}) is None
    assert agent_of(os.getpid(), {os.getppid(): "a"}) == "a"
    assert agent_of(os.getpid(), {os.getsid(0): "b"}) == "b"


def test_a_process_is_known_as_an_agents_without_its_environment_its_parents_and_its_files() -> None:
    hide = (
        "import ctypes, os, sys\n"
        "from fairlead.keeper.credentials import mark_as_agents\n"
        "mark_as_agents()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE\n"
        "        print(os.getpid(), flush=True)\n"
        "        sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    piped = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", hide], stdin=piped, stdout=piped, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        hidden = int(process.stdout.readline())
        process.wait()
        assert agent_of(hidden, {}) == UNNAMED_AGENT
        assert user_of(hidden) == os.getuid()
        process.stdin.close()


def test_a_client_that_has_left_its_connection_to_another_process_is_gone(tmp_path: Path) -> None:
    leave = (
        "import os, socket, sys, time\n"
        "door = socket.socket(socket.AF_UNIX)\n"
        "door.connect(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    door.recv(1)\n"
        "    os._exit(0)\n"
    )
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen()
        with subprocess.Popen([sys.executable, "-c", leave, str(tmp_path / "door")]) as process:
            connection, _ = door.accept()
            with connection:
                assert process.wait() == 0
                assert behind(connection, dict) == Behind(GONE)
