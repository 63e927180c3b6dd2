"""What a daemon knows of other hosts, and what it passes on to them, over a real sshd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.aio_streams import Events
from fairlead.client.calls import Call, RequestError
from fairlead.client.connection import DaemonConnection
from fairlead.client.following import Watching
from fairlead.client.links import Links
from fairlead.client.sdk import Host
from fairlead.doors.rpc import elsewhere
from fairlead.system.settings import Settings
from fairlead.wire.rpc_catalog import OPS
from tests.hosting import WAIT, Hosting
from tests.hosts.far_host import FarHost, NearHost
from tests.ui.dashboard.test_app import asking as asking_agent

ASKED: dict[str, Any] = {"token": "0123abcd", "text": "Which?", "project": "/srv/garden"}


def rows_of(near: Hosting, **given: Any) -> dict[str, dict[str, Any]]:
    """The sessions of all hosts, by their ids."""
    return {row["id"]: row for row in near.ask("session_list", hosts=True, **given)["sessions"]}


def host_of(near: Hosting, name: str = "workbox") -> dict[str, Any]:
    """How a host is."""
    return next((row for row in near.ask("host_list")["hosts"] if row["name"] == name), {})


def tokens_of(near: Hosting) -> list[str]:
    return [row["token"] for row in near.ask("approvals", hosts=True)["approvals"]]


@contextmanager
def question(far: Hosting, token: str) -> Iterator[Future[dict[str, Any]]]:
    """A question that waits there; its answer. What nobody has answered at the end is declined."""
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(far.ask, "ask_person", **{**ASKED, "token": token})
        try:
            yield asking
        finally:
            with contextlib.suppress(RequestError):
                far.ask("approval_settle", token=token, allowed=False)


@pytest.fixture
def control(near: NearHost) -> Iterator[DaemonConnection]:
    """A client that knows hosts, of a person."""
    near.until(lambda: host_of(near).get("state") == "here")
    with DaemonConnection(Settings(near.environment), via="dashboard", hosts=True) as control:
        yield control


def test_sessions_of_all_hosts_are_in_one_list(near: NearHost, far: FarHost) -> None:
    near.start("here", "exec cat")
    far.start("there", "exec cat")
    far.start("a:b c", "exec cat")
    near.until(lambda: {"workbox:there", "workbox:a:b c"} <= rows_of(near).keys())
    rows = rows_of(near)
    assert rows["here"]["host"] == "local"
    assert rows["workbox:there"]["host"] == "workbox"
    assert (rows["workbox:there"]["name"], rows["workbox:a:b c"]["name"]) == ("there", "a:b c")
    with Host(Settings(near.environment)) as host:
        assert {row["id"] for row in host.sessions(hosts=True)} == rows.keys()
        assert [row["id"] for row in host.sessions()] == ["here"]
    assert not any("host" in row or ":" in row["id"] for row in near.ask("session_list")["sessions"])
    assert host_of(near)["version"]
    for name in ("there", "a:b c"):
        far.run("stop", name)
    near.until(lambda: "workbox:there" not in rows_of(near))
    near.run("stop", "here")


def test_what_is_asked_of_a_far_session_is_passed_on(
    near: NearHost, far: FarHost, control: DaemonConnection
) -> None:
    far.start("a:b c", "echo from afar; exec cat")
    far.wait_text("a:b c", "afar")
    assert "from afar" in control.ask("terminal_screen", name="workbox:a:b c")["screen"]
    for word in ("one", "two", "three"):
        control.ask("terminal_send", name="workbox:a:b c", text=word, keys=["Enter"])
    found = control.ask("terminal_wait", name="workbox:a:b c", text="three", timeout=20)
    assert found["matched"]
    assert list(dict.fromkeys(far.screen("a:b c").split())) == ["from", "afar", "one", "two", "three"]
    row = control.ask("session_find", name="workbox:a:b c")["session"]
    assert (row["id"], row["host"]) == ("workbox:a:b c", "workbox")
    with pytest.raises(RequestError, match="workbox: no session 'nobody'"):
        control.ask("session_find", name="workbox:nobody")
    with pytest.raises(RequestError, match="fairlead -H workbox"):
        control.ask("open_session", name="workbox:x")
    with pytest.raises(RequestError, match="workbox: no session"):
        control.ask("session_diff", name="workbox:a:b c", other="elsewhere")
    assert control.ask("terminal_stop", name="workbox:a:b c")["exit_code"] is not None


def test_a_session_here_with_the_name_of_a_host_before_it_is_named_local(
    near: NearHost, far: FarHost, control: DaemonConnection
) -> None:
    with DaemonConnection(Settings(near.environment)) as plain:  # for it, a name is a name
        plain.ask("terminal_start", name="workbox:mine", argv=["cat"])
        assert plain.ask("session_find", name="workbox:mine")["session"]["id"] == "workbox:mine"
    assert "local:workbox:mine" in rows_of(near)
    assert control.ask("session_find", name="local:workbox:mine")["session"]["id"] == "workbox:mine"
    with pytest.raises(RequestError, match="workbox: no session"):
        control.ask("session_find", name="workbox:mine")
    control.ask("terminal_stop", name="local:workbox:mine")


def test_a_program_started_there_gets_nothing_of_the_environment_here(
    near: NearHost, far: FarHost, control: DaemonConnection
) -> None:
    given = {"SECRET_OF_HERE": "x", "TERM": "xterm-direct", "PATH": "/nowhere"}
    argv = ["sh", "-c", "env; echo done; exec cat"]
    control.ask("terminal_start", name="workbox:env", argv=argv, env=given, cwd="/")
    far.wait_text("env", "done")
    shown = far.run("logs", "env").stdout
    assert "SECRET_OF_HERE" not in shown
    assert "/nowhere" not in shown
    far.run("stop", "env")


def test_a_question_there_is_answered_from_here_and_both_know_who_did(
    near: NearHost, far: FarHost, control: DaemonConnection
) -> None:
    with question(far, "0123abcd") as asking:
        near.until(lambda: tokens_of(near) == ["workbox:0123abcd"])
        [row] = control.ask("approvals", hosts=True)["approvals"]
        assert (row["host"], row["summary"]) == ("workbox", "Which?")
        settled = control.ask(
            "approval_settle", token=row["token"], allowed=True, option="answer", text="that one"
        )
        assert settled["approval"]["token"] == "workbox:0123abcd"
        answer = asking.result(WAIT)
    assert (answer["text"], answer["by"]) == ("that one", f"{socket.gethostname()}: dashboard")
    near.until(lambda: tokens_of(near) == [])
    with pytest.raises(RequestError, match="was answered already by"):
        control.ask("approval_settle", token=row["token"], allowed=True, option="answer", text="no, this")


def test_of_answers_from_both_sides_one_counts(
    near: NearHost, far: FarHost, control: DaemonConnection
) -> None:
    with question(far, "4567abcd") as asking, ThreadPoolExecutor(8) as threads:
        near.until(lambda: tokens_of(near) == ["workbox:4567abcd"])

        def answer(number: int) -> bool:
            hosting, token = ((near, "workbox:4567abcd"), (far, "4567abcd"))[number % 2]
            try:
                with DaemonConnection(Settings(hosting.environment), hosts=True) as client:
                    client.ask(
                        "approval_settle", token=token, allowed=True, option="answer", text=str(number)
                    )
            except RequestError:
                return False
            return True

        counted = list(threads.map(answer, range(8)))
        assert counted.count(True) == 1
        assert asking.result(WAIT)["text"] == str(counted.index(True))


def test_the_answer_of_an_agent_here_counts_nowhere(near: NearHost, far: FarHost) -> None:
    far.start("garden", "exec cat")

    async def settle(agent: str, **how: Any) -> None:
        links = Links(Settings(near.environment), agent=agent, hosts=True)
        try:
            given = {"token": "workbox:89abcdef", **how}
            await links.call(Call("approval_settle", given, dict))
        finally:
            await links.close()

    with question(far, "89abcdef") as asking:
        near.until(lambda: tokens_of(near) == ["workbox:89abcdef"])
        for agent in ("garden", "a rule", "the agent itself", "x"):  # no name helps it there
            for how in ({"allowed": True, "option": "answer", "text": "mine"}, {"allowed": False}):
                with pytest.raises(RequestError, match="only a person may"):
                    asyncio.run(settle(agent, **how))
        [row] = far.ask("approvals")["approvals"]
        assert f"({socket.gethostname()}: garden" in row["reason"]
        assert not asking.done()
    far.run("stop", "garden")


def test_an_agent_here_with_the_id_of_one_there_may_not_even_deny_for_it(
    near: NearHost, far: FarHost, tmp_path: Path
) -> None:
    id = asking_agent(far, "rose", tmp_path)
    near.until(lambda: len(tokens_of(near)) == 1)
    [token] = tokens_of(near)

    async def deny() -> None:
        links = Links(Settings(near.environment), agent=id, hosts=True)
        try:
            await links.call(Call("approval_settle", {"token": token, "allowed": False}, dict))
        finally:
            await links.close()

    with pytest.raises(RequestError, match="only a person may"):
        asyncio.run(deny())
    assert tokens_of(near) == [token]
    far.run("approvals", "deny", token.partition(":")[2])
    near.until(lambda: tokens_of(near) == [])


def test_what_happens_there_is_told_to_those_who_ask_for_it(near: NearHost, far: FarHost) -> None:
    near.until(lambda: host_of(near).get("state") == "here")
    seen: list[tuple[str, dict[str, Any]]] = []

    async def follow(hosts: bool) -> None:
        topics = ("sessions/created", "sessions/exited", "hosts/changed")
        events = Events(Watching(topics, hosts=hosts), Settings(near.environment))
        async with events:
            await asyncio.to_thread(far.start, "told", "exec cat")
            await asyncio.to_thread(near.start, "own", "exec cat")
            async with asyncio.timeout(WAIT):
                while len({data.get("session_id") for _, data in seen} & {"workbox:told", "own"}) < 1 + hosts:
                    event = await events.next()
                    seen.append((event.topic, event.data))
            await asyncio.to_thread(far.run, "stop", "told")
            await asyncio.to_thread(near.run, "stop", "own")

    asyncio.run(follow(True))
    seen.clear()
    asyncio.run(follow(False))
    assert {data.get("session_id") for _, data in seen} == {"own"}


def test_a_host_that_was_away_is_back_by_itself_with_what_happened_meanwhile(
    near: NearHost, far: FarHost
) -> None:
    far.start("stays", "exec cat")
    near.until(lambda: "workbox:stays" in rows_of(near))
    far.stop_sshd()
    near.forget_connections()
    try:
        near.until(lambda: host_of(near)["state"] == "away")
        row = rows_of(near)["workbox:stays"]
        assert row["away"] is True
        assert host_of(near)["seen_at"]
        with (
            DaemonConnection(Settings(near.environment), hosts=True) as control,
            pytest.raises(RequestError, match=r"^workbox is away: "),
        ):
            control.ask("session_find", name="workbox:stays")
        far.start("new", "exec cat")
    finally:
        far.start_sshd()
    assert near.ask("host_check", name="workbox")["hosts"][0]["state"] == "here"
    near.until(lambda: "workbox:new" in rows_of(near))
    assert "away" not in rows_of(near)["workbox:stays"]
    for name in ("stays", "new"):
        far.run("stop", name)


def test_a_daemon_there_that_is_killed_comes_back_with_its_question(near: NearHost, far: FarHost) -> None:
    near.until(lambda: host_of(near).get("state") == "here")
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(_ask_until_answered, far, "aaaa1111")
        near.until(lambda: tokens_of(near) == ["workbox:aaaa1111"])
        pid = far.daemon_pid()
        far.kill_daemon()
        far.until(lambda: far.daemon_pid() != pid)
        near.until(lambda: host_of(near)["state"] == "here" and tokens_of(near) == ["workbox:aaaa1111"])
        with DaemonConnection(Settings(near.environment), via="dashboard", hosts=True) as control:
            near.until(lambda: _settled(control))
        assert asking.result(WAIT)["text"] == "after"


def _ask_until_answered(far: FarHost, token: str) -> dict[str, Any]:
    deadline = time.monotonic() + 2 * WAIT
    while time.monotonic() < deadline:
        try:
            return far.ask("ask_person", **{**ASKED, "token": token})
        except ConnectionError:
            time.sleep(0.05)
    raise AssertionError("the question was never answered")


def _settled(control: DaemonConnection) -> bool:
    try:
        control.ask("approval_settle", token="workbox:aaaa1111", allowed=True, option="answer", text="after")
    except RequestError:  # the link has just come back, or the question was not asked again yet
        return False
    return True


def test_what_was_known_is_there_after_a_restart_and_only_for_its_user(near: NearHost, far: FarHost) -> None:
    far.start("known", "exec cat")
    near.until(lambda: "workbox:known" in rows_of(near))
    near.run("daemon", "stop")
    kept = Path(near.environment["HOME"], ".local/state/fairlead/hosts/workbox.json")
    assert "known" in json.dumps(json.loads(kept.read_bytes()))
    assert kept.stat().st_mode & 0o777 == 0o600
    far.stop_sshd()
    near.forget_connections()
    try:
        near.until(lambda: host_of(near).get("state") == "away")
        assert rows_of(near)["workbox:known"]["away"] is True
    finally:
        far.start_sshd()
    near.ask("host_check", name="workbox")
    far.run("stop", "known")


def test_a_daemon_without_hosts_imports_nothing_of_them(lent: Hosting) -> None:
    lent.ask("session_list", hosts=True)
    assert lent.ask("host_list")["hosts"] == []
    assert not Path(lent.environment["HOME"], ".local/state/fairlead/hosts").exists()
    threads = {path.read_text().strip() for path in Path(f"/proc/{lent.daemon_pid()}/task").glob("*/comm")}
    assert not any(name.startswith("hosts-") for name in threads)
    script = "import sys, fairlead.daemon.process; print([n for n in sys.modules if 'fairlead.hosts' in n])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_of_each_op_it_is_decided_whether_it_is_passed_on() -> None:
    assert set(OPS) > elsewhere.OF_THE_CONNECTION | elsewhere.OF_THE_MACHINE
    names_nothing = {
        op
        for op in elsewhere.PASSED_ON
        if not {*OPS[op].required, *OPS[op].optional} & {"name", "session-id", "token"}
    }
    assert names_nothing == {"verify_report"}
