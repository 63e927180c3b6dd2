"""`fairlead ls --all`, `approvals --all` and `next --all`: what there is on all hosts, also on those away."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from typing import IO, Any

import pytest

from fairlead.system.settings import Settings
from fairlead.verify.report import Confidence, Report, Status
from fairlead.verify.store import ReportStore
from tests.cli.test_escalations import call_for_a_person, had_a_turn
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting
from tests.hosts.far_host import FarHost, NearHost
from tests.hosts.test_links import host_of, question, rows_of, tokens_of


@pytest.fixture(autouse=True)
def is_here(near: NearHost) -> None:
    near.until(lambda: host_of(near).get("state") == "here")


def test_ls_all_has_a_column_with_the_host(near: NearHost, far: FarHost) -> None:
    near.start("own", "exec cat")
    far.start("theirs", "exec cat")
    far.start("own", "exec cat")  # the same name
    near.until(lambda: {"workbox:theirs", "workbox:own"} <= rows_of(near).keys())
    head, *lines = near.run("ls", "--all").stdout.splitlines()
    assert head.split()[:2] == ["HOST", "NAME"]
    assert sorted(line.split()[:2] for line in lines) == [
        ["-", "own"],
        ["workbox", "own"],
        ["workbox", "theirs"],
    ]
    assert sorted(near.run("ls", "--all", "-q").stdout.split()) == ["own", "workbox:own", "workbox:theirs"]
    assert near.run("ls", "-q").stdout == "own\n"
    assert "HOST" not in near.run("ls").stdout
    rows = json.loads(near.run("ls", "--all", "--json").stdout)
    assert sorted(row["host"] for row in rows) == ["local", "workbox", "workbox"]
    for hosting, name in ((near, "own"), (far, "theirs"), (far, "own")):
        hosting.run("stop", name)


def test_a_host_that_was_just_added_is_in_the_first_list(far: FarHost) -> None:
    far.start("theirs", "exec cat")
    new = NearHost()
    try:
        new.add("workbox", far)
        assert "theirs" in new.run("ls", "--all").stdout
        new.run("daemon", "restart")  # what it writes down when it ends
        kept = new.log_path.parent / "hosts/workbox.json"
        new.until(kept.exists)
        new.run("host", "rm", "workbox")
        new.until(lambda: not kept.exists())  # the link has ended, though nobody lists hosts
    finally:
        new.close()
    far.run("stop", "theirs")


def test_a_host_that_is_away_is_one_line_with_what_was_known(near: NearHost, far: FarHost) -> None:
    far.start("stays", "exec cat")
    near.until(lambda: "workbox:stays" in rows_of(near))
    far.stop_sshd()
    near.forget_connections()
    try:
        near.until(lambda: host_of(near)["state"] == "away")
        shown = near.run("ls", "--all").stdout
        assert re.search(r"^workbox is away for \d+s: .*\(1 session when it was seen last\)$", shown, re.M)
        assert "stays" not in shown
        [row] = json.loads(near.run("ls", "--all", "--json").stdout)
        assert (row["id"], row["away"]) == ("workbox:stays", True)
        assert "workbox is away" in near.run("approvals", "--all").stderr
        assert near.run("next", "--all", "--print", check=False).returncode == 1
    finally:
        far.start_sshd()
    near.ask("host_check", name="workbox")
    far.run("stop", "stays")


def test_approvals_of_all_hosts_are_listed_with_how_to_answer(near: NearHost, far: FarHost) -> None:
    with question(far, "bbbb2222") as asking:
        near.until(lambda: tokens_of(near) == ["workbox:bbbb2222"])
        shown = near.run("approvals", "--all").stdout
        assert "`fairlead approvals answer workbox:bbbb2222 TEXT`" in shown
        assert "host   workbox" in shown
        assert "1 approval is pending: `fairlead approvals --all`" in near.run("ls", "--all").stderr
        assert near.run("approvals").stdout == ""
        near.run("approvals", "answer", "workbox:bbbb2222", "the blue one")
        answer: dict[str, Any] = asking.result(WAIT)
    assert answer["text"] == "the blue one"
    assert answer["by"].endswith(": fairlead approvals")
    assert answer["by"] != ": fairlead approvals"
    done = near.run("approvals", "--all", "show", "workbox:bbbb2222", check=False)
    assert done.returncode == 2


def test_next_finds_who_waits_on_another_host(near: NearHost, far: FarHost) -> None:
    far.start("asks", 'printf "Overwrite the file? [y/N] "; read answer; exec cat')
    near.until(lambda: rows_of(near).get("workbox:asks", {}).get("activity", {}).get("state") == "waits")
    assert near.run("next", "--all", "--print").stdout == "workbox:asks\n"
    assert near.run("next", "--print", check=False).returncode == 1
    shown = near.run("approvals", "--all").stdout
    assert "attach workbox:asks" in shown
    assert "session asks in " in shown
    with Person(near, "next", "--all") as person:  # attached to it: what is typed arrives there
        person.until("Overwrite the file?")
        person.type(b"yes it is\r")
        far.wait_text("asks", "yes it is")
    far.run("stop", "asks")


def test_the_list_that_is_watched_follows_all_hosts(near: NearHost, far: FarHost) -> None:
    near.start("first", "exec cat")
    watching = subprocess.Popen(
        [*near.command, "ls", "--all", "--watch"],
        env=near.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        assert "  first  " in _until(watching.stdout, "first")
        far.start("comes", "exec cat")
        assert "  workbox:comes  new" in _until(watching.stdout, "workbox:comes")
        far.run("stop", "comes")
        _until(watching.stdout, "workbox:comes")
    finally:
        watching.terminate()
        watching.communicate(timeout=WAIT)
        near.run("stop", "first")


def _until(lines: IO[str], word: str) -> str:
    """The next line that has a word."""
    return next(line for line in lines if word in line)


def test_reports_of_all_hosts_are_in_one_table(near: NearHost, far: FarHost) -> None:
    for hosting, summary, age in ((near, "here it is so", 50), (far, "there it is so", 10)):
        with ReportStore(Settings(hosting.environment).reports_path) as store:
            store.add(
                Report(
                    status=Status.VERIFIED,
                    confidence=Confidence.PERFECT,
                    summary=summary,
                    session_id="work",
                    verifier="pytest -q",
                    time=time.time() - age,
                )
            )
    head, first, second = near.run("reports", "--all").stdout.splitlines()
    assert head.split()[:2] == ["HOST", "ID"]
    assert (first.split()[0], "there it is so" in first) == ("workbox", True)
    assert (second.split()[0], "here it is so" in second) == ("-", True)
    rows = json.loads(near.run("reports", "--all", "--json").stdout)
    assert [(row["host"], row["session_id"]) for row in rows] == [
        ("workbox", "workbox:work"),
        ("local", "work"),
    ]
    assert near.run("reports", "--all", "--show", "1", check=False).returncode == 2


def test_a_host_can_be_reached_by_a_command_instead_of_ssh(near: NearHost) -> None:
    box = Hosting()
    script = box.directory / "enter"
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in box.environment.items())
    words = " ".join(map(shlex.quote, box.command))
    script.write_text(
        f'#!/bin/sh\ntest ! -e {box.directory}/off || {{ echo "it is off" >&2; exit 1; }}\n'
        f'shift\nexec env -i {settings} {words} "$@"\n'
    )
    script.chmod(0o755)
    try:
        box.start("a b:c", "exec cat")
        added = near.run("host", "add", "box", "--command", f'"{script}" "an argument"')
        assert "box" in added.stdout
        near.run("send", "box:a b:c", "hello", "-k", "Enter")
        near.run("wait", "box:a b:c", "--text", "hello", "--timeout", "20")
        near.until(lambda: "box:a b:c" in rows_of(near))
        assert host_of(near, "box")["how"] == "command"
        (box.directory / "off").touch()
        box.ask("daemon_stop")
        near.until(lambda: host_of(near, "box")["state"] == "away")
        near.until(lambda: "it is off" in host_of(near, "box")["why"])
        (box.directory / "off").unlink()
        assert near.ask("host_check", name="box")["hosts"][0]["state"] == "here"
        assert near.run("host", "install", "box", "--yes", check=False).returncode == 1
        by_agent = near.environment | {"FAIRLEAD_AGENT": "garden"}
        for given in (["host", "add", "x", "--command", "true"], ["-H", "box", "ls"]):
            done = subprocess.run(
                [*near.command, *given], env=by_agent, capture_output=True, text=True, check=False
            )
            assert done.returncode == 1, done
            assert "agents' commands may not" in done.stderr or "only a person may" in done.stderr
    finally:
        near.run("host", "rm", "box")
        near.until(lambda: host_of(near, "box") == {})
        box.close()


@pytest.mark.parametrize("command", ["", " ", "'", "a\nb", "x" * 1001])
def test_what_is_no_command_is_refused(near: NearHost, command: str) -> None:
    done = near.run("host", "add", "box", "--no-check", f"--command={command}", check=False)
    assert done.returncode == 2, done.stderr
    assert "\nbox " not in near.run("host", "ls").stdout


def test_hints_are_for_the_host_that_they_are_about(near: NearHost, far: FarHost) -> None:
    far.start("roses", "exec cat")
    near.until(lambda: "workbox:roses" in rows_of(near))
    again = near.run("start", "workbox:roses", "-d", "--", "cat", check=False)
    assert "`fairlead -H workbox attach roses`" in again.stderr
    assert "did you mean workbox:roses?" in near.run("stop", "workbox:rose", check=False).stderr
    assert "did you mean workbox:roses?" in near.run("-H", "workbox", "logs", "rose", check=False).stderr
    assert "`fairlead screen workbox:roses`" in near.run("attach", "workbox:roses", check=False).stderr
    with question(far, "eeee5555") as asking:
        near.until(lambda: tokens_of(near) == ["workbox:eeee5555"])
        assert (
            "1 approval is pending: `fairlead -H workbox approvals`" in near.run("-H", "workbox", "ls").stderr
        )
        nobody = near.run("next", "--all", "--print", check=False).stderr
        assert "1 approval is pending: `fairlead approvals --all`" in nobody
        assert (
            "`fairlead -H workbox approvals answer eeee5555 TEXT`"
            in near.run("-H", "workbox", "approvals").stdout
        )
        near.run("approvals", "answer", "workbox:eeee5555", "the blue one")
        asking.result(WAIT)
    far.run("stop", "roses")


def test_an_escalation_is_dismissed_as_the_list_and_attach_say(near: NearHost, far: FarHost) -> None:
    had_a_turn(far, "calls")
    call_for_a_person(far, "calls")
    near.until(lambda: bool((rows_of(near)["workbox:calls"].get("verdict") or {}).get("escalated")))
    assert "`fairlead approvals dismiss workbox:calls`" in near.run("ls", "--all").stderr
    assert "`fairlead -H workbox approvals dismiss calls`" in near.run("-H", "workbox", "ls").stderr
    with Person(near, "attach", "workbox:calls") as person:
        person.until("calls needs a person")
        person.press(b"\x1c")
        assert person.client.wait(WAIT) == 0
        person.until("workbox:calls needs a person")
    near.run("-H", "workbox", "approvals", "dismiss", "calls")
    far.run("stop", "calls")
