"""Every command with a session of another host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import fairlead
from fairlead.cli import COMMANDS, command_of
from fairlead.client.calls import RequestError
from fairlead.client.hosts.dial import dial
from fairlead.system.settings import Settings
from tests.client.persons import Person
from tests.hosting import WAIT, is_alive
from tests.hosts.far_host import FarHost, NearHost, descendants


@pytest.fixture
def work(far: FarHost) -> Iterator[str]:
    """A session there, which echoes."""
    far.start("work", "stty -echo; echo ready; while read line; do echo got $line; done")
    far.wait_text("work", "ready")
    yield "workbox:work"
    far.run("stop", "work", check=False)


@pytest.fixture(scope="module")
def garden(far: FarHost) -> str:
    """An agent session there that has said something."""
    far.run("agent", "-p", "-C", str(far.home), "--name", "garden", "hello there")
    return "workbox:garden"


def test_a_program_is_started_there_with_that_environment(near: NearHost, far: FarHost) -> None:
    near.environment["OF_HERE"] = "not for others"
    near.environment["COLORTERM"] = "truecolor"
    near.run("start", "workbox:env", "-d", "--", "sh", "-c", "pwd; env; echo ready; exec cat")
    far.wait_text("env", "ready")
    said = far.run("logs", "env").stdout
    assert said.splitlines()[0] == str(far.home)
    assert f"XDG_RUNTIME_DIR={far.environment['XDG_RUNTIME_DIR']}" in said
    assert "COLORTERM=truecolor" in said
    assert "OF_HERE" not in said
    assert "SSH_CONNECTION" not in said
    near.run("stop", "workbox:env")


def test_a_directory_is_one_of_that_host(near: NearHost, far: FarHost) -> None:
    (far.home / "src/deep").mkdir(parents=True)
    for given in ("~/src/deep", "src/deep", str(far.home / "src/deep")):
        near.run("start", "workbox:place", "-d", "--cwd", given, "--", "sh", "-c", "pwd; exec cat")
        near.run("wait", "workbox:place", "--text", str(far.home / "src/deep"), "--timeout", "20")
        near.run("stop", "workbox:place")


@pytest.mark.parametrize(
    "name", ["a:b c", "workbox:x", "$(touch pwned)", "';touch pwned;'", '"`touch pwned`', "%41", "ä !$HOME"]
)
def test_any_name_of_a_session_is_found_there(near: NearHost, far: FarHost, name: str) -> None:
    far.start(name, "echo it is me; exec cat")
    try:
        assert near.run("ls", "-q", f"workbox:{name}").stdout == f"{name}\n"
        with Person(near, "attach", f"workbox:{name}") as person:
            person.until("it is me")
            assert person.leave() == 0
        near.run("record", f"workbox:{name}")  # which is run there
    finally:
        near.run("stop", f"workbox:{name}", check=False)
    assert not (far.home / "pwned").exists()


def test_a_word_that_is_a_host_and_a_session_is_the_host(near: NearHost, far: FarHost) -> None:
    near.start("local:workbox:odd", "echo it is here; exec cat")
    near.wait_text("local:workbox:odd", "it is here")
    done = near.run("screen", "workbox:odd", check=False)
    assert done.returncode != 0
    near.run("stop", "local:workbox:odd")


def test_output_and_waiting(near: NearHost, far: FarHost, work: str) -> None:
    near.run("send", work, "one", "-k", "Enter")
    near.run("wait", work, "--text", "got one", "--timeout", "20")
    assert "got one" in near.run("screen", work).stdout
    assert "got one" in near.run("logs", work).stdout
    assert "got one" in near.run("search", work, "got").stdout
    assert near.run("state", work, "--json").stdout
    assert near.run("wait", work, "--text", "never", "--timeout", "0.1", check=False).returncode == 124
    near.run("send", work, "-k", "C-d")
    assert near.run("wait", work, "--exit", check=False).returncode in (0, 125)


def test_following_goes_on_when_the_far_daemon_is_killed(near: NearHost, far: FarHost, work: str) -> None:
    following = subprocess.Popen(
        [*near.command, "logs", "-f", work], env=near.environment, stdout=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "ready\n"
    far.kill_daemon()
    far.run("send", "work", "after", "-k", "Enter")
    assert following.stdout.readline() == "got after\n"
    far.run("stop", "work")
    assert following.wait(WAIT) == 0
    following.stdout.close()


def test_following_goes_on_when_the_line_was_away(near: NearHost, far: FarHost, work: str) -> None:
    following = subprocess.Popen(
        [*near.command, "logs", "-f", work],
        env=near.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "ready\n"
    far.stop_sshd()
    try:
        far.run("send", "work", "meanwhile", "-k", "Enter")
        refused = near.run("screen", work, check=False)  # so that a try of the other has failed as well
        assert "workbox is away" in refused.stderr
    finally:
        far.start_sshd()
    assert following.stdout.readline() == "got meanwhile\n"
    far.run("stop", "work")
    assert following.wait(WAIT) == 0
    following.stdout.close()


def test_who_has_no_hosts_pays_nothing_for_them(near: NearHost) -> None:
    code = (
        "import sys; from fairlead.cli import main; main(['ls']); "
        "print([name for name in sys.modules if 'hosts' in name or name == 'subprocess'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=near.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_agent_there_is_prompted(near: NearHost, far: FarHost, garden: str) -> None:
    assert "offline" in near.run("agent", "-p", "--name", garden, "what can you do?").stdout
    assert "hello there" in near.run("logs", garden).stdout
    assert "hello there" in near.run("timeline", garden).stdout
    near.run("prompt", garden, "-w", "and now?")
    assert "and now?" in far.run("logs", "garden").stdout
    assert "garden" in near.run("-H", "workbox", "sessions").stdout


def test_a_prompt_that_begins_like_a_host_is_a_prompt(near: NearHost, far: FarHost, garden: str) -> None:
    near.run("agent", "-p", "workbox: what is new?")
    assert "what is new" not in far.run("sessions", check=False).stdout


def asked(far: FarHost, name: str) -> str:
    """The token of a question of a new agent session there."""
    far.run("agent", "-p", "-C", str(far.home), "--name", name, "hello")
    far.run("prompt", name, f"run: touch {name}-was-here")
    rows: list[dict[str, Any]] = []

    def has_asked() -> bool:
        found = json.loads(far.run("approvals", "--json").stdout)
        rows[:] = [row for row in found if row["session_name"] == name]
        return bool(rows)

    far.until(has_asked)
    return str(rows[0]["token"])


def test_a_question_there_is_answered_from_here(near: NearHost, far: FarHost) -> None:
    token = asked(far, "asker")
    assert token in near.run("-H", "workbox", "approvals").stdout
    near.run("approvals", "allow", f"workbox:{token}")
    assert token not in near.run("-H", "workbox", "approvals").stdout
    far.until((far.home / "asker-was-here").exists)


def test_a_turn_is_verified_there(near: NearHost, far: FarHost, garden: str) -> None:
    (far.home / "marker").write_text("")
    done = near.run("run", "--name", garden, "--verify", "test -e marker", "say hello", check=False)
    assert done.returncode == 0, done.stderr
    assert near.run("reports", garden).stdout
    failed = near.run("-H", "workbox", "run", "--verify", "exit 1", "hello", check=False)
    assert failed.returncode == 1


def test_a_command_that_runs_there_ends_with_the_one_here(near: NearHost, far: FarHost, garden: str) -> None:
    verifying = subprocess.Popen(
        [*near.command, "verify", garden, "--", "sh", "-c", "true"],
        env=near.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert verifying.stdout is not None
    assert verifying.stdout.readline()  # it has begun there
    assert far.running is not None

    def verifiers() -> list[int]:
        found = [*map(int, filter(str.isdecimal, os.listdir("/proc")))]
        return [pid for pid in found if _says(pid, b"\0verify\0garden\0") and _says(pid, b"python")]

    far.until(lambda: bool(verifiers()))
    [there, *_] = verifiers()
    os.killpg(verifying.pid, signal.SIGTERM)
    verifying.wait(WAIT)
    verifying.stdout.close()
    far.until(lambda: not is_alive(there))


def _says(pid: int, words: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return words in file.read()
    except OSError:
        return False


def test_the_whole_host_is_meant_with_its_name_before_the_command(near: NearHost, far: FarHost) -> None:
    status = near.run("-H", "workbox", "daemon", "status").stdout
    assert far.environment["XDG_RUNTIME_DIR"] in status
    near.environment["FAIRLEAD_HOST"] = "workbox"
    try:
        assert near.run("daemon", "status").stdout == status
        assert far.environment["XDG_RUNTIME_DIR"] not in near.run("-H", "local", "daemon", "status").stdout
        near.run("completion", "bash")
    finally:
        del near.environment["FAIRLEAD_HOST"]


@pytest.mark.parametrize(
    "words", [("web",), ("play", "x"), ("completion", "bash"), ("hook", "claude"), ("host", "ls")]
)
def test_what_is_only_of_this_host_says_why(near: NearHost, words: tuple[str, ...]) -> None:
    done = near.run("-H", "workbox", *words, check=False)
    assert done.returncode == 1
    assert "not with another host" in done.stderr


def test_every_command_has_a_way_with_other_hosts() -> None:
    for name in COMMANDS:
        command = command_of(name)
        assert command is not None
        assert command.far.partition(":")[0] in ("asks", "there", "here"), name


def test_output_that_nobody_reads_ends_the_command(near: NearHost, far: FarHost) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1', "sh", *near.command, "-H", "workbox", "doctor"],
        env=near.environment,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert done.stdout.count(b"\n") == 1


def test_names_of_other_hosts_are_completed(near: NearHost, far: FarHost, work: str) -> None:
    near.until(lambda: "workbox:work" in near.run("complete", "--", "attach", "work").stdout)
    assert near.run("complete", "--", "-H", "").stdout.startswith("workbox\t")
    assert near.run("complete", "--", "-H", "workbox", "attach", "wo").stdout.startswith("work\t")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = near.run("completion", "bash").stdout + (
        "COMP_WORDS=(fairlead attach workbox : wo) COMP_CWORD=4 COMP_LINE='fairlead attach workbox:wo'\n"
        '_fairlead fairlead; echo "${COMPREPLY[@]}"\n'
    )
    place = near.directory / "fairlead"
    place.write_text(f'#!/bin/sh\nexec {" ".join(near.command)} "$@"\n')
    place.chmod(0o755)
    path = f"{near.directory}:{near.environment['PATH']}"
    done = subprocess.run(
        [bash, "-c", script],
        env=near.environment | {"PATH": path},
        capture_output=True,
        timeout=WAIT,
        check=True,
    )
    assert done.stdout == b"work\n"


def test_the_sdk_reaches_a_host(near: NearHost, far: FarHost, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_RUNTIME_DIR", "HOME", "FAIRLEAD_HOSTS_SSH"):
        monkeypatch.setenv(name, near.environment[name])
    with fairlead.connect(host="workbox") as host:
        terminal = host.start("sdk", ["sh", "-c", "pwd; read x; exit 3"])
        assert terminal.wait_for(str(far.home), timeout=20)
        with terminal.attach() as view:
            view.write(b"\r")
            assert b"".join(view)
            assert view.exit_code == 3
        with pytest.raises(RequestError):
            host.terminal("nix")


def test_keys_of_here_are_not_lent_to_a_far_daemon(near: NearHost, far: FarHost) -> None:
    near.environment["OPENAI_API_KEY"] = "sk-of-here"
    try:
        near.run("agent", "-p", "--name", "workbox:keyless", "hello")
        done = near.run("-H", "workbox", "agent", "-p", "--model", "openai/gpt-5", "hello", check=False)
    finally:
        del near.environment["OPENAI_API_KEY"]
    assert done.returncode != 0
    assert "sk-of-here" not in done.stderr


def test_an_agents_own_command_may_not_answer_there(near: NearHost, far: FarHost) -> None:
    token = asked(far, "sly")
    near.environment["FAIRLEAD_AGENT"] = "some-agent"
    try:
        done = near.run("approvals", "allow", f"workbox:{token}", check=False)
    finally:
        del near.environment["FAIRLEAD_AGENT"]
    assert done.returncode == 1
    assert "agent" in done.stderr
    assert token in far.run("approvals").stdout
    far.run("approvals", "deny", token)
    assert not (far.home / "sly-was-here").exists()


def test_connections_are_shared_and_leave_no_process_behind(near: NearHost, far: FarHost) -> None:
    for _ in range(3):
        near.run("-H", "workbox", "ls")
    assert far.running is not None
    top = far.running.pid
    serving = [pid for pid in descendants(top) if _says(pid, b"sshd")]
    assert len(serving) <= 3  # one connection, whatever was asked over it
    # but for those that the daemon here keeps
    far.until(lambda: sum(_says(pid, b"python\0-m\0fairlead\0link\0") for pid in descendants(top)) <= 2)


def test_more_links_than_one_connection_carries_are_made(near: NearHost, far: FarHost) -> None:
    """sshd lets a connection have ten; ssh makes another one for the next."""
    settings = Settings(near.environment, host="workbox")
    links = [dial("workbox", ["control"], settings) for _ in range(13)]
    for link in links:
        assert link is not None
        link.sendall(b"\n")
        assert b"empty frame" in link.recv(4096)
        link.close()


def test_the_client_of_keepty_is_of_this_host(near: NearHost, far: FarHost) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead.cli.keepty", "list"],
        env=near.environment | {"FAIRLEAD_HOST": "nohost"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
    )
    assert "nohost" not in done.stderr
