"""A daemon that can't start says why in the command that wanted it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fairlead
from fairlead import aio
from fairlead.client.launch import NoDaemon, connected
from fairlead.system.settings import Settings
from tests.hosting import WAIT, Hosting

KEEPTY = "from fairlead.cli.keepty import main; raise SystemExit(main())"
LINES = "{config}, line 2: [terminal] scrollback_lines must be a number, not 'many'"


@pytest.fixture
def alone() -> Iterator[Hosting]:
    """Places where no daemon runs yet."""
    hosting = Hosting()
    yield hosting
    hosting.close()


def configure(hosting: Hosting, text: str) -> Path:
    path = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def settings_of(hosting: Hosting) -> Settings:
    return Settings(hosting.environment)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        # found before a daemon is started
        ("[terminal\n", "{config}: Expected ']' at the end of a table declaration (at line 1, column 10)"),
        ('[terminal]\nscrollback_lines = "many"\n', LINES),
        ("[terminal]\nscrollback_lines = true\n", LINES.replace("'many'", "True")),
        (
            "[daemon]\nrestart_pause = nan\n",
            "{config}, line 2: [daemon] restart_pause must be a number, not nan",
        ),
        ("[rpc]\nmax_connections = -1\n", "{config}, line 2: [rpc] max_connections must not be negative: -1"),
        ("[control]\nsession = 3\n", "{config}, line 2: [control] session must be a non-empty string, not 3"),
        (
            '[passepartout]\nenabled = "maybe"\n',
            "{config}, line 2: [passepartout] enabled must be true or false, not 'maybe'",
        ),
        ("terminal = 5\n", "{config}, line 1: [terminal] must be a table"),
        # found by the daemon
        ("[agent]\nyes = 3\n", "{config}, line 2: [agent] yes must be true or false"),
        ("models = 3\n", "{config}, line 1: [[models]] must be a list of tables"),
        # names that there are none of
        (
            '# mine\n[agent]\nmodle = "x"\n',
            "{config}, line 3: unknown setting 'modle' in [agent]; did you mean model?",
        ),
        ("[agnet]\n", "{config}, line 1: unknown section [agnet]; did you mean agent?"),
        (
            '[notify]\nurls = [\n  "json://localhost",\n]\nurl = "x"\n',
            "{config}, line 5: unknown setting 'url' in [notify]; did you mean urls?",
        ),
        (
            '[providers.lab]\nbase_url = "http://127.0.0.1:1/v1"\nbase-url = "x"\n',
            "{config}, line 3: unknown setting 'base-url' in [providers.lab]; did you mean base_url?",
        ),
        (
            '[[models]]\nprovider = "openai"\nid = "x"\n[[models]]\nid = "y"\nprovider = "google"\nwidow=8\n',
            "{config}, line 7: unknown setting 'widow' in [[models]]; did you mean window?",
        ),
        (
            '[[agent.rules]]\ntool = "bash"\nthen = "deny"\n[[agent.rules]]\ntool = "bash"\nthen = "dney"\n',
            "{config}, line 6: [agent] rules, number 2: then must be one of allow, ask, deny, not 'dney'; "
            "did you mean deny?",
        ),
        (
            '[providers.lab]\nbase_url = "http://127.0.0.1:1/v1"\nkind = "opnai"\n',
            "{config}, line 3: [providers.lab]: kind must be one of openai, anthropic, google, not 'opnai'; "
            "did you mean openai?",
        ),
        (
            "[agent]\nyes = false\nmodel = 5\n",
            "{config}, line 3: [agent]: model must be a string, not an integer",
        ),
        (
            '[agent]\nyes = false\n[[agent.rules]]\ntool = "wirte"\nthen = "deny"\n',
            "{config}, line 3: [agent] rules, number 1: no tool 'wirte'; there are read, ls, find, grep, "
            "edit, write, bash, or * for all; did you mean write?",
        ),
        ("[notify]\nurls = 3\n", "{config}, line 2: [notify] urls must be a list of texts"),
    ],
)
def test_a_bad_configuration_is_told_by_the_command_that_starts_the_daemon(
    alone: Hosting, text: str, sentence: str
) -> None:
    config = configure(alone, text)
    done = alone.run("ls", check=False)
    expected = f"fairlead ls: the daemon can't start: {sentence.format(config=config)}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    foreground = alone.run("daemon", "run", check=False)
    assert foreground.returncode == 1
    assert foreground.stderr == f"fairlead daemon: {sentence.format(config=config)}\n"


@pytest.mark.parametrize("text", ["[terminal\n", "models = 3\n"], ids=["found before", "found by the daemon"])
def test_a_daemon_starts_when_the_mistake_is_gone(alone: Hosting, text: str) -> None:
    config = configure(alone, text)
    assert alone.run("ls", check=False).returncode == 1
    config.unlink()
    assert alone.run("ls").returncode == 0


def test_a_bad_value_in_the_environment_is_told_by_its_name() -> None:
    hosting = Hosting({"FAIRLEAD_TERMINAL_KEEP_ENDED": "soon"})
    try:
        done = hosting.run("ls", check=False)
        sentence = "FAIRLEAD_TERMINAL_KEEP_ENDED must be a number, not 'soon'"
        assert done.stderr == f"fairlead ls: the daemon can't start: {sentence}\n"
    finally:
        hosting.close()


COMMANDS = (
    ("start", "work", "-d", "--", "true"),
    ("attach", "work"),
    ("screen", "work"),
    ("logs", "work"),
    ("logs", "-f", "work"),
    ("wait", "work", "--exit"),
    ("agent", "-p", "say hello"),
    ("talk", "hello"),
    ("notify", "hello"),
    ("approvals",),
    ("run", "--verify", "true", "say hello"),
    ("rpc",),
    ("daemon", "restart"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_starts_the_daemon_tells_it(alone: Hosting, words: tuple[str, ...]) -> None:
    config = configure(alone, "models = 3\n")  # a mistake that only the daemon finds
    reading, writing = pty.openpty()  # attach wants a terminal
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead", *words],
        env=alone.environment,
        stdin=writing if words[0] == "attach" else subprocess.DEVNULL,
        stdout=writing if words[0] == "attach" else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        _, said = process.communicate(timeout=WAIT)
    os.close(reading)
    sentence = f"{config}, line 1: [[models]] must be a list of tables"
    reads_itself = words[0] in ("run", "daemon")
    found_by = "" if reads_itself else "the daemon can't start: "
    expected = f"fairlead {words[0]}: {found_by}{sentence}"
    code = 125 if words[0] == "wait" else 1  # as 1 may be the program's
    assert (process.returncode, said.strip()) == (code, expected)


def test_keeptys_command_tells_it(alone: Hosting) -> None:
    config = configure(alone, "models = 3\n")
    done = subprocess.run(
        [sys.executable, "-c", KEEPTY, "start", "work", "-d", "--", "true"],
        env=alone.environment,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    expected = f"Error: the daemon can't start: {config}, line 1: [[models]] must be a list of tables\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_both_sdks_raise_it(alone: Hosting, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(alone, "models = 3\n")
    for name in [name for name in os.environ if name.startswith(("FAIRLEAD_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in alone.environment.items():
        monkeypatch.setenv(name, value)
    sentence = r"^the daemon can't start: .*/config.toml, line 1: \[\[models\]\] must be a list of tables$"
    with pytest.raises(NoDaemon, match=sentence):
        fairlead.connect()

    async def connect() -> None:
        async with aio.connect():
            pass

    with pytest.raises(NoDaemon, match=sentence):
        asyncio.run(connect())


@pytest.mark.parametrize("place", ["run/fairlead", "home/.local/state"])
def test_a_place_that_can_not_be_used_is_named(alone: Hosting, place: str) -> None:
    path = alone.directory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not a directory")
    done = alone.run("start", "work", "-d", "--", "true", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("fairlead start: the daemon can't start: ")
    assert str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_runtime_directory_that_is_too_long_for_sockets_is_named() -> None:
    hosting = Hosting({"FAIRLEAD_RUNTIME_DIR": f"/tmp/{'x' * 100}"})
    try:
        done = hosting.run("ls", check=False)
        expected = f"fairlead ls: the path of the runtime directory, /tmp/{'x' * 100}, is too long: "
        assert done.stderr == expected + "the path of a socket in it may have at most 103 bytes\n"
    finally:
        hosting.close()


@pytest.mark.parametrize(
    ("module", "code", "sentence"),
    [
        ("sqlite3", "raise ModuleNotFoundError('no sqlite3')", "no sqlite3"),
        ("asyncio", "import os; os.write(2, b'out of memory\\n'); os._exit(7)", "out of memory (in {log})"),
        ("asyncio", "import os; os._exit(7)", "it was killed, or exited without logging to {log}"),
    ],
)
def test_a_daemon_that_dies_before_it_serves_tells_its_last_words(
    tmp_path: Path, module: str, code: str, sentence: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"{code}\n")
    hosting = Hosting({"PYTHONPATH": str(tmp_path)})
    try:
        done = hosting.run("ls", check=False)
        log = settings_of(hosting).log_path
        assert done.returncode == 1
        assert done.stderr.startswith("fairlead ls: the daemon can't start: ")
        assert done.stderr.endswith(f"{sentence.format(log=log)}\n")
        assert len(done.stderr.splitlines()) == 1
    finally:
        hosting.close()


def test_a_daemon_that_can_not_listen_says_so_and_is_not_started_over_and_over(alone: Hosting) -> None:
    settings = settings_of(alone)
    Path(settings.rpc_path).mkdir(parents=True)
    done = alone.run("ls", check=False)
    assert done.stderr.startswith("fairlead ls: the daemon can't start: ")
    assert settings.rpc_path in done.stderr
    alone.until(lambda: not nurseries(settings))  # which would have started the next one
    Path(settings.rpc_path).rmdir()
    alone.run("ls")


def nurseries(settings: Settings) -> bool:
    """True if a nursery serves."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(settings.nursery_path) == 0


def test_a_daemon_that_is_killed_before_it_serves_is_replaced(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    (tmp_path / "sitecustomize.py").write_text(
        "import fcntl, os, signal, sys\n"
        "def flock(*given, known=fcntl.flock):\n"
        "    with open(os.environ['DEATHS'], 'a+') as deaths:\n"
        "        if deaths.tell() < 5:\n"
        "            deaths.write('x')\n"
        "            deaths.flush()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    known(*given)\n"
        "if sys.orig_argv[-6:-4] == ['daemon', 'run']:\n"
        "    fcntl.flock = flock\n"
    )
    hosting = Hosting({"DEATHS": str(deaths)})
    hosting.environment["PYTHONPATH"] = str(tmp_path)  # of several only the first is found
    try:
        hosting.run("ls")
        assert deaths.read_text() == "xxxxx"
    finally:
        hosting.close()


def test_commands_that_start_a_daemon_at_the_same_time_all_use_the_one_that_won(alone: Hosting) -> None:
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "fairlead", "ls", "--json"],
            env=alone.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    said = [command.communicate(timeout=WAIT) for command in commands]
    assert [command.returncode for command in commands] == [0] * 4, said
    assert alone.log().count("serving 0 sessions") == 1


def test_one_that_was_stopped_meanwhile_is_told(alone: Hosting) -> None:
    settings = settings_of(alone)
    Path(settings.runtime_dir).mkdir(mode=0o700)
    Path(settings.lock_path).write_text("stopped 99999999999\n")
    with pytest.raises(NoDaemon, match=r"^the daemon was stopped; programs keep running, and any"):
        connected(settings)


def test_restarting_with_a_bad_configuration_leaves_the_daemon_that_runs(alone: Hosting) -> None:
    alone.start("work", "echo ready; read line")
    pid = alone.daemon_pid()
    config = configure(alone, '[terminal]\nscrollback_lines = "many"\n')
    done = alone.run("daemon", "restart", check=False)
    assert (done.returncode, done.stderr) == (1, f"fairlead daemon: {LINES.format(config=config)}\n")
    assert alone.daemon_pid() == pid
    config.unlink()


def test_a_mistake_in_the_file_locks_nobody_out_of_sessions_when_the_daemon_dies(alone: Hosting) -> None:
    configure(alone, '[agent]\nmodel = "offline/guide"\n')
    alone.start("work", "echo ready; read line")
    good = Path(settings_of(alone).good_path)
    assert (good.read_text(), good.stat().st_mode & 0o777) == ('[agent]\nmodel = "offline/guide"\n', 0o600)
    for text, sentence in (
        ("models = 3\n", "line 1: [[models]] must be a list of tables"),
        ("[terminal\n", "Expected ']' at the end of a table declaration"),
        ("daemon = 5\n", "line 1: [daemon] must be a table"),
        ('[daemon]\nanswer_seconds = "ten"\n', "line 2: [daemon] answer_seconds must be a number, not 'ten'"),
        ("[agnet]\n", "line 1: unknown section [agnet]"),
    ):
        pid = json.loads(alone.run("daemon", "status", "--json").stdout)["pid"]
        configure(alone, text)
        os.kill(pid, signal.SIGKILL)
        listed = alone.run("ls")
        assert listed.stdout.splitlines()[1].startswith("work "), text
        assert "ready" in alone.screen("work")
        assert sentence in alone.run("approvals").stderr, text
        assert sentence in alone.log()
        health = alone.run("doctor", check=False)
        assert (health.returncode, sentence.split(" must")[0] in " ".join(health.stdout.split())) == (1, True)
        refused = alone.run("daemon", "restart", check=False)  # which is strict
        assert (refused.returncode, sentence in refused.stderr) == (1, True)
    configure(alone, "[agent]\nyes = false\n")
    assert alone.run("approvals").stderr == "no approvals pending\n"
    assert good.read_text() == "[agent]\nyes = false\n"
    alone.run("stop", "work")


def test_who_follows_is_told_when_the_next_daemon_can_not_start(alone: Hosting) -> None:
    alone.start("work", "echo ready; read line")
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead", "logs", "-f", "work"],
        env=alone.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pid = alone.daemon_pid()
        config = configure(alone, "models = 3\n")
        os.unlink(settings_of(alone).good_path)
        os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=WAIT)
    assert (process.returncode, said) == (
        1,
        f"fairlead logs: the daemon can't start: {config}, line 1: [[models]] must be a list of tables\n",
    )
    config.unlink()


def test_a_descriptor_for_news_is_not_inherited_by_programs(alone: Hosting) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux tells a process's descriptors")
    alone.start("work", "read line")

    def has_none(pid: int) -> bool:
        """Whether it has no pipe of which it has one end; of its own it has both."""
        links = []
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                links.append(os.readlink(each))
        pipes = [link for link in links if link.startswith("pipe:")]
        return all(pipes.count(link) == 2 for link in pipes)

    for pid in (alone.daemon_pid(), alone.sessions()["work"]["pid"]):
        alone.until(partial(has_none, pid))  # a check that it runs has one for a moment
