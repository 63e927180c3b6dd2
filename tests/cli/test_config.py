"""Settings, keys and models' faults as a person meets them: the real command, a daemon that runs already, and
model servers on loopback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.daemon import control as control_room
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.system.config_file import lines_of
from fairlead.system.settings import SettingError, Settings
from tests.agent.openai_server import BREAK, OpenAiServer, Reply, answer, chunk
from tests.cli.configured import configure, lab
from tests.client.persons import Person
from tests.doors.passepartout_peer import kill_and_wait
from tests.hosting import WAIT, Hosting

KEY = "sk-lent-by-a-client-0123456789"
HIDDEN = "(hidden)"


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    """A daemon that was started without any configuration or key."""
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


@pytest.fixture(scope="module")
def asking() -> Iterator[Hosting]:
    """A daemon for all tests that only ask a model: importing the providers' libraries takes seconds."""
    hosting = Hosting()
    hosting.run("ls")
    yield hosting
    hosting.close()


def run(hosting: Hosting, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with more in its environment than the daemon has."""
    return subprocess.run(
        [*hosting.command, *words],
        env={**hosting.environment, **environment},
        cwd=hosting.environment["HOME"],
        capture_output=True,
        text=True,
        timeout=WAIT,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def files_with(hosting: Hosting, text: str) -> list[str]:
    everything = (path for path in hosting.directory.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in everything if text.encode() in path.read_bytes()]


# --- configuration ----------------------------------------------------------------------------------------


def test_a_changed_file_holds_at_once_and_a_bad_one_changes_nothing(hosting: Hosting) -> None:
    with OpenAiServer([answer("first"), answer("second")]) as server:
        path = configure(hosting, lab(server))
        assert run(hosting, "agent", "-p", "hello").stdout == "first\n"
        path.write_text(path.read_text() + "modle = 3\n")
        done = run(hosting, "agent", "-p", "hello")
        fault = f"{path}, line 9: unknown setting 'modle' in [agent]; did you mean model?"
        assert (done.returncode, done.stdout) == (0, "second\n")
        assert done.stderr.startswith(f"fairlead agent: {fault} (until this is fixed, ")
        assert fault in " ".join(run(hosting, "doctor").stdout.split())
        for words in (["config"], ["daemon", "restart"]):
            refused = run(hosting, *words)
            assert (refused.returncode, refused.stderr) == (1, f"fairlead {words[0]}: {fault}\n")
        path.unlink()
        mended = run(hosting, "agent", "-p", "hello")
        assert "I am the offline guide" in mended.stdout
        assert mended.stderr == ""


def test_a_file_that_can_not_be_read_locks_nobody_out(hosting: Hosting) -> None:
    """What only needs the daemon goes on with a warning; who needs the settings says the error."""
    hosting.start("work", "echo ready; read line")
    hosting.wait_text("work", "ready")
    path = configure(hosting, '[agent]\nmodel = "offline/guide\n')
    fault = f"{path}: Illegal character '\\n' (at line 2, column 23)"
    for words in (["ls"], ["screen", "work"], ["approvals"], ["daemon", "status"], ["agent", "-p", "hello"]):
        done = run(hosting, *words)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(f"fairlead {words[0]}: {fault} (until this is fixed, ")
        assert done.stderr.count(fault) == 1
    for words in (["config"], ["daemon", "restart"]):
        refused = run(hosting, *words)
        assert (refused.returncode, refused.stderr) == (1, f"fairlead {words[0]}: {fault}\n")
    assert fault in " ".join(run(hosting, "doctor").stdout.split())
    with Person(hosting, "attach", "work") as person:
        person.until("ready")
        assert person.leave() == 0
    listed = subprocess.run(
        [sys.executable, "-m", "fairlead.cli.keepty", "list"],
        env=hosting.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (listed.returncode, "Warning" in listed.stderr) == (0, False)  # it needs no setting
    assert run(hosting, "stop", "work").returncode == 0
    assert run(hosting, "daemon", "stop").returncode == 0
    found = run(hosting, "doctor")
    assert (found.returncode, fault in " ".join(found.stdout.split())) == (1, True)
    again = run(hosting, "ls")  # with the last good copy
    assert (again.returncode, fault in again.stderr) == (0, True)
    path.unlink()
    hosting.run("ls")


def test_what_only_the_daemon_finds_leaves_it_as_it_is(hosting: Hosting) -> None:
    pid = hosting.daemon_pid()
    path = configure(hosting, '[agent]\nmodel = "nobody/knows"\n')
    fault = f"{path}, line 2: [agent] model: unknown provider 'nobody'; known are openai, "
    refused = run(hosting, "daemon", "restart")
    assert (refused.returncode, refused.stderr.startswith(f"fairlead daemon: {fault}")) == (1, True)
    assert run(hosting, "config").stderr.startswith(f"fairlead config: {fault}")
    assert hosting.daemon_pid() == pid
    path.unlink()
    assert run(hosting, "daemon", "restart").returncode == 0


def test_config_exits_with_1_for_a_mistake_of_any_room_with_and_without_a_daemon(hosting: Hosting) -> None:
    mistakes = {
        '[agent]\nmodel = "nobody/knows"\n': "line 2: [agent] model: unknown provider 'nobody'",
        '[[agent.rules]]\ntool = "bash"\nthen = "perhaps"\n': "line 3: [agent] rules, number 1: ",
        "[control]\nhosts = 3\n": "line 2: [control] hosts must be a list of texts",
        '[[control.rules]]\nsensor = "x"\nthen = { actuator = "lgo" }\n': "line 1: [[control.rules]]",
        "[daemon]\nlog_bytes = -1\n": "line 2: [daemon] log_bytes must not be negative",
    }
    for _ in ("with", "without"):
        for text, why in mistakes.items():
            path = configure(hosting, text)
            done = run(hosting, "config", "agent")
            assert (done.returncode, done.stdout) == (1, ""), text
            assert done.stderr.startswith(f"fairlead config: {path}, {why}")
        path.unlink()
        hosting.run("daemon", "stop")
    assert run(hosting, "config", "agent.modle").returncode == 1
    assert run(hosting, "config", "--modle").returncode == 2
    assert run(hosting, "config", "agent").returncode == 0


def test_a_rule_holds_at_once_also_in_a_session_that_is_there(hosting: Hosting) -> None:
    asked = ("agent", "-p", "-y", "--name", "garden", "run: echo hi")
    assert "Done" in run(hosting, *asked).stdout
    configure(hosting, '[[agent.rules]]\ntool = "bash"\nmatch = "echo *"\nthen = "deny"\n')
    assert "a rule says: deny bash" in run(hosting, *asked).stdout


def test_controls_rules_hold_before_the_next_action_with_nobody_asking(hosting: Hosting) -> None:
    """Nothing is asked of the daemon between the change and what the rule is for."""

    def rule(text: str) -> str:
        return (
            f'[[control.rules]]\nsensor = "session-exited"\nthen = {{ actuator = "log", text = "{text}" }}\n'
        )

    path = configure(hosting, rule("first of {name}"))
    for name in ("a", "b", "c", "d"):
        hosting.start(name, f"until [ -e {hosting.directory}/{name} ]; do sleep 0.05; done")
    for name, text in (("a", "first of a"), ("b", "second of b")):
        (hosting.directory / name).touch()
        hosting.until(lambda text=text: text in hosting.log())  # type: ignore[misc]
        path.write_text(rule("second of {name}"))
    path.write_text(rule("third of {nome}"))
    (hosting.directory / "c").touch()
    hosting.until(lambda: "second of c" in hosting.log())  # what can't be used changes nothing
    path.unlink()
    (hosting.directory / "d").touch()
    hosting.until(lambda: hosting.sessions()["d"]["state"] == "ended")
    assert " of d" not in hosting.log()


@pytest.mark.parametrize(
    ("sensor", "then", "why"),
    [
        ("session-exited", 'actuator = "log", text = "{nome}"', "has no field {nome}; did you mean name?"),
        ("user-input", 'actuator = "log", text = "{1}"', "user-input has no field {1}; known are match, "),
        ("sesion-exited", 'actuator = "log"', "unknown sensor sesion-exited; did you mean session-exited?"),
        ("x", 'actuator = "notfy"', "there is no actuator notfy; did you mean notify?"),
        ("x", 'actuator = "session", verb = "tipe"', "there is no verb 'tipe' of session; session has type"),
    ],
)
def test_a_rule_that_could_never_do_what_it_says_is_a_mistake_with_its_line(
    tmp_path: Path, sensor: str, then: str, why: str
) -> None:
    good = '[[control.rules]]\nsensor = "build-finished"\nthen = { actuator = "log", text = "{branch}" }\n'
    path = tmp_path / "config.toml"
    path.write_text(f'{good}[[control.rules]]\nsensor = "{sensor}"\nthen = {{ {then} }}\n')
    with pytest.raises(SettingError) as raised:
        control_room._rules(Settings({"FAIRLEAD_CONFIG": str(path)}))
    assert str(raised.value).startswith(f"{path}, line 4: [[control.rules]], number 2: ")
    assert why in str(raised.value)


def test_addresses_for_notifications_hold_at_once(hosting: Hosting) -> None:
    assert "no address to notify" in run(hosting, "notify", "hello").stderr
    configure(hosting, '[notify]\nurls = ["nothing-that-apprise-knows://x"]\n')
    assert "Apprise does not recognize [notify] urls, number 1" in run(hosting, "notify", "hello").stderr


def test_every_setting_is_shown_with_its_value_its_default_and_its_source(hosting: Hosting) -> None:
    path = configure(
        hosting,
        f'[terminal]\nkeep_ended = 60\n[passepartout]\nmax_tokens = 99\n[providers.lab]\nkey = "{KEY}"\n'
        f'base_url = "http://127.0.0.1:9/v1"\n[notify]\nurls = ["json://me:{KEY}@127.0.0.1"]\n',
    )
    done = run(hosting, "config", "--json", FAIRLEAD_AGENT_MODEL="openai/gpt-5", OPENAI_API_KEY=KEY)
    rows = {row.pop("name"): row for row in json.loads(done.stdout)}
    assert rows["terminal.keep_ended"] == {
        "value": 60,
        "default": 600.0,
        "source": f"{path}:2",
        "applies": "at once",
        "means": "seconds for which an ended session is kept",
        "daemon": 60,
    }
    assert rows["passepartout.max_tokens"]["daemon"] == 2000
    assert rows["passepartout.max_tokens"]["applies"] == "after daemon restart"
    assert rows["terminal.stop_grace"]["source"] == "default"
    assert rows["agent.model"]["source"] == "environment: FAIRLEAD_AGENT_MODEL"
    assert rows["agent.model"]["daemon"] == "offline/guide"
    assert rows["providers.lab.key"] == {
        "value": HIDDEN,
        "default": None,
        "source": f"{path}:6",
        "applies": "at once",
        "means": "the key itself; `key_env` and `key_file` are safer",
        "daemon": HIDDEN,
    }
    assert rows["providers.openai.key"]["source"] == "environment: OPENAI_API_KEY"
    assert rows["notify.urls"]["value"] == ["json://…"]
    assert KEY not in done.stdout
    shown = run(hosting, "config", "passepartout.max_tokens").stdout
    assert f"{path}:4; the daemon has 2000 until it restarts" in shown
    assert shown.endswith("however long; a change takes effect after daemon restart\n")
    assert "did you mean agent.model?" in run(hosting, "config", "agent.modle").stderr
    assert run(hosting, "daemon", "restart").returncode == 0
    assert "the daemon has" not in run(hosting, "config", "passepartout.max_tokens").stdout


def test_a_provider_of_the_environment_alone_is_shown_without_its_password(hosting: Hosting) -> None:
    address = f"http://me:{KEY}@127.0.0.1:9/v1"
    shown = run(hosting, "config", "providers.lab", FAIRLEAD_PROVIDERS_LAB_BASE_URL=address).stdout
    assert "http://…@127.0.0.1:9/v1" in shown
    assert KEY not in shown


@pytest.mark.parametrize("page", sorted(Path("docs").glob("*.md")), ids=lambda page: page.name)
def test_the_settings_in_the_documents_are_known(page: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        config.write_text(block)
        Settings({"FAIRLEAD_CONFIG": str(config), "HOME": str(tmp_path)}).check()


def test_lines_are_found_whatever_is_between_them() -> None:
    text = '# x\n[a]\nb = """\n[no]\nc = 1\n"""\nd.e = [\n 1,\n]\n[[f]]\n[[f]]\ng = { h = 1 }\n'
    assert lines_of(text) == {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "d"): 7,
        ("a", "d", "e"): 7,
        ("f", "1"): 10,
        ("f", "2"): 11,
        ("f", "2", "g"): 12,
        ("f", "2", "g", "h"): 12,
    }


def test_a_restart_is_the_same_every_time(hosting: Hosting) -> None:
    """The next daemon has the environment of who asks, and keeps it when it is killed."""

    def model() -> str:
        rows = json.loads(run(hosting, "config", "agent.model", "--json").stdout)
        return str(rows[0]["daemon"])

    assert model() == "offline/guide"
    for name in ("openai/gpt-5", "google/gemini-2.5-pro"):
        assert run(hosting, "daemon", "restart", FAIRLEAD_AGENT_MODEL=name).returncode == 0
        assert model() == name
    kill_and_wait(hosting)  # a command would start another, with its own environment
    assert model() == "google/gemini-2.5-pro"
    assert run(hosting, "daemon", "stop").returncode == 0
    assert run(hosting, "daemon", "restart", FAIRLEAD_AGENT_MODEL="openai/gpt-5").returncode == 0
    assert model() == "openai/gpt-5"


# --- keys -------------------------------------------------------------------------------------------------


def test_a_key_that_was_just_exported_works_and_is_written_nowhere(hosting: Hosting) -> None:
    with OpenAiServer([answer("fine"), answer("again")]) as server:
        configure(hosting, lab(server, 'key_env = "LAB_KEY"'))
        lacking = run(hosting, "agent", "-p", "hello")
        assert lacking.returncode == 1
        assert "export LAB_KEY where you run `fairlead agent`, or `fairlead daemon restart`" in lacking.stderr
        done = run(hosting, "agent", "-p", "hello", LAB_KEY=KEY)
        assert (done.returncode, done.stderr) == (0, "")
        other = run(hosting, "agent", "-p", "hello", LAB_KEY="sk-another-one-0123456789")
        assert other.returncode == 0
        assert server.keys == [f"Bearer {KEY}", "Bearer sk-another-one-0123456789"]
    assert files_with(hosting, KEY) == []
    assert KEY not in json.dumps(hosting.ask("describe"))


def test_an_editor_behind_the_bridge_lends_its_key_without_knowing(hosting: Hosting) -> None:
    with OpenAiServer([answer("hello, editor")]) as server:
        configure(hosting, lab(server, 'key_env = "LAB_KEY"'))
        bridge = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "rpc"],
            env={**hosting.environment, "LAB_KEY": KEY},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        info = '{:name "ed" :version "1" :protocol-version "1.0"}'
        bridge.stdin.write(
            f'{{:id "1" :kind :request :op "handshake" :params {{:client-info {info}}}}}\n'.encode()
        )
        bridge.stdin.write(
            b'{:id "2" :kind :request :op "subscribe" :params {:topics ["assistant/message"]}}\n'
        )
        bridge.stdin.write(b'{:id "3" :kind :request :op "prompt" :params {:message "hello"}}\n')
        bridge.stdin.flush()
        seen: list[bytes] = []
        while b'"assistant/message"' not in (line := bridge.stdout.readline()) or b":event" not in line[:40]:
            assert line, seen
            seen.append(line)
        assert edn.loads(line)[Keyword("data")][Keyword("text")] == "hello, editor"
        bridge.stdin.close()
        rest = bridge.stdout.read()
        bridge.wait(WAIT)
        bridge.stdout.close()
        assert server.keys == [f"Bearer {KEY}"]
    everything = b"".join([*seen, line, rest])
    assert KEY.encode() not in everything
    assert b"key/wanted" not in everything
    assert b"fairlead-key" not in everything


def test_nobody_can_press_a_key_on_the_daemon(hosting: Hosting) -> None:
    with pytest.raises(Exception, match="the daemon did not ask for this key"):
        hosting.ask("lend_key", variable="OPENAI_API_KEY", key=KEY)


# --- models -----------------------------------------------------------------------------------------------


def test_a_cut_answer_is_asked_for_again_visibly_and_its_tools_run_once(asking: Hosting) -> None:
    whole = answer("Now.", calls=[("bash", '{"command": "echo x >> marks"}')])
    begun = Reply([*whole.frames[:-6], BREAK])  # in the middle of the call
    assert any(b"tool_calls" in frame for frame in begun.frames if isinstance(frame, bytes))
    with OpenAiServer([begun, whole, answer("done")]) as server:
        configure(asking, lab(server))
        done = run(asking, "agent", "-p", "-y", "mark it")
        assert (done.returncode, done.stdout) == (0, "done\n")
        why = "closed the connection in the middle of the answer"
        place = server.root.removeprefix("http://")
        assert done.stderr == f"fairlead agent: retrying 1 of 4 in 2 s: lab/test: {place} {why}\n"
        assert len(server.requests) == 3
    assert Path(asking.environment["HOME"], "marks").read_text() == "x\n"


def test_the_chat_shows_that_it_asks_again_and_the_whole_answer(asking: Hosting) -> None:
    with OpenAiServer([answer("Hello, wor", insert=[BREAK]), answer("Hello, world.")]) as server:
        configure(asking, lab(server))
        with Person(asking, "agent", "-C", asking.environment["HOME"], cols=120) as person:
            person.until("^D leaves")
            person.type(b"hi\r")
            person.until_all(["retrying 1 of 4 in 2 s: lab/test: ", "Hello, world."])


def test_an_answer_that_is_cut_at_the_limit_says_so_and_fails(asking: Hosting) -> None:
    with OpenAiServer([answer("Once upon a", finish="length")]) as server:
        configure(asking, lab(server))
        done = run(asking, "agent", "-p", "tell me a story")
    assert (done.returncode, done.stdout) == (1, "Once upon a\n")
    assert done.stderr == (
        "fairlead agent: lab/test: the answer was cut at the limit, so it is not whole; "
        'say "go on", or raise max_output of its [[models]]\n'
    )


def test_a_fault_is_one_line_and_has_no_key_in_it(asking: Hosting) -> None:
    body = b"<html><head><title>Sign in</title></head></html>"
    page = Reply((), 404, (("X", "y"),), body)
    with OpenAiServer([page, Reply([chunk({"content": "x"}), b"data: {oops\n\n"])]) as server:
        configure(asking, lab(server, f'key = "{KEY}"'))
        first, second = (run(asking, "agent", "-p", "hello") for _ in range(2))
    assert "does not know this model or path (404): Sign in; check" in first.stderr
    assert "sent an invalid answer; try again, or check that server" in second.stderr
    for done in (first, second):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert KEY not in done.stderr
