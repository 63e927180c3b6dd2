"""Hosts that are away, say too much, or say what no daemon would: the list of all others goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import RequestError, plain
from fairlead.client.connection import DaemonConnection
from fairlead.formats.edn import loads
from fairlead.hosts import limits, rows
from fairlead.hosts.budget import Budget, SaysTooMuch
from fairlead.system.settings import Settings
from tests.hosting import Hosting

SSH = Path(__file__).parent / "pretending_ssh.py"


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_HOSTS_SSH": f"{sys.executable} {SSH}"})
    yield hosting
    hosting.close()


def added(hosting: Hosting, *names: str) -> None:
    for name in names:
        hosting.run("host", "add", "--no-check", name)


def host_of(hosting: Hosting, name: str) -> dict[str, Any]:
    return next((row for row in hosting.ask("host_list")["hosts"] if row["name"] == name), {"state": ""})


def test_fifty_hosts_that_are_away_hold_up_no_list(hosting: Hosting) -> None:
    hosting.start("own", "exec cat")
    table = Path(hosting.environment["HOME"], ".local/state/fairlead/hosts.toml")
    kinds = ("away", "silent", "mute")
    table.write_text(
        "".join(f'[hosts."h{n}"]\ndestination = "{kinds[n % 3]}+{n}"\nadded = 1\n' for n in range(51))
    )
    answer = hosting.ask("session_list", hosts=True)
    assert [row["id"] for row in answer["sessions"]] == ["own"]
    hosting.until(lambda: len(hosting.ask("host_list")["hosts"]) == 51)
    hosting.until(lambda: host_of(hosting, "h0")["state"] == "away")
    assert "Connection refused" in host_of(hosting, "h0")["why"]
    with DaemonConnection(Settings(hosting.environment), hosts=True) as control:
        for name in ("h0", "h1", "h2"):
            with pytest.raises(RequestError, match=f"{name} is away"):
                control.ask("session_find", name=f"{name}:x")
    assert hosting.ask("ping")["pong"]
    table.unlink()
    hosting.until(lambda: hosting.ask("host_list")["hosts"] == [])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("garbage", "bad frame from the server"),
        ("long", "says too much"),
    ],
)
def test_a_host_that_says_what_no_daemon_says_is_away_and_all_else_goes_on(
    hosting: Hosting, kind: str, why: str
) -> None:
    added(hosting, kind)
    hosting.until(lambda: why in host_of(hosting, kind).get("why", ""))
    hosting.start("own", "exec cat")
    assert [row["id"] for row in hosting.ask("session_list", hosts=True)["sessions"]] == ["own"]


def test_a_host_that_floods_is_left_unread_and_then_alone(hosting: Hosting) -> None:
    added(hosting, "floods")
    hosting.until(lambda: host_of(hosting, "floods")["state"] == "here")
    hosting.start("own", "exec cat")
    while host_of(hosting, "floods")["state"] == "here":  # a while, in which nothing holds the loop up
        assert "own" in [row["id"] for row in hosting.ask("session_list", hosts=True)["sessions"]]
    assert "says too much" in host_of(hosting, "floods")["why"]
    assert host_of(hosting, "floods")["state"] == "refused"


def test_what_makes_no_sense_in_what_a_host_says_is_left_out(hosting: Hosting) -> None:
    added(hosting, "wrong")
    hosting.until(lambda: host_of(hosting, "wrong")["state"] == "here")
    found = hosting.ask("session_list", hosts=True)["sessions"]
    assert [row["id"] for row in found] == ["wrong:a", "wrong:\x1b[2J"]
    assert found[0]["activity"]["state"] == "unknown"
    assert hosting.ask("approvals", hosts=True)["approvals"] == []
    assert "\x1b" not in hosting.run("ls", "--all").stdout


def test_what_a_host_with_another_clock_did_is_as_old_as_it_is(hosting: Hosting) -> None:
    added(hosting, "late")
    hosting.until(lambda: host_of(hosting, "late")["state"] == "here")
    assert abs(host_of(hosting, "late")["clock_skew"] - 3600) < 60
    [row] = hosting.ask("session_list", hosts=True)["sessions"]
    assert abs(time.time() - row["activity"]["since"]) < 120


def test_a_budget_lets_a_burst_pass_and_no_flood() -> None:
    budget = Budget(0.0)
    assert budget.spend(limits.BYTES_AT_ONCE // 2, 10, 0.0) == 0.0
    assert budget.spend(0, limits.FRAMES_AT_ONCE + limits.FRAMES_A_SECOND, 1.0) > 0.0
    with pytest.raises(SaysTooMuch, match="says too much"):
        [budget.spend(0, 2 * limits.FRAMES_A_SECOND, float(second)) for second in range(100)]
    slow = Budget(0.0)
    assert not any(slow.spend(100, limits.FRAMES_A_SECOND // 2, float(second)) for second in range(100))


@pytest.mark.parametrize(
    "row",
    [
        '{:id "a"}',
        '{:id 1 :kind "k" :name "n" :project "/" :state "s"}',
        '{:id "a" :kind "k" :name "n" :project "/" :state "s" :activity {:state "x"}}',
        '{:id "a" :kind "k" :name "n" :project "/" :state "s" :can "screen"}',
        '{:id "a" :kind "k" :name "n" :project "/" :state "s" :verdict []}',
        '{:id "" :kind "k" :name "n" :project "/" :state "s"}',
        f'{{:id "{"x" * 600}" :kind "k" :name "n" :project "/" :state "s"}}',
        f'{{:id "a" :kind "k" :name "n" :state "s" :project "{"/" * 20_000}"}}',
        "5",
        '["a"]',
        "nil",
    ],
)
def test_a_row_that_nobody_could_show_is_none(row: str) -> None:
    assert rows.session_row(loads(row)) is None


def test_a_host_has_no_more_rows_and_texts_than_it_may() -> None:
    row = {"kind": "k", "name": "n", "project": "/", "state": "s"}
    many = [{**row, "id": f"s{number}"} for number in range(limits.MAX_ROWS + 10)]
    assert len(rows.session_rows(many)) == limits.MAX_ROWS
    question = {"kind": "consent", "title": "t", "summary": "s", "preview": "x" * 100_000}
    asked = rows.question_rows([{**question, "token": f"t{number}"} for number in range(1000)])
    assert sum(len(each["preview"]) for each in asked.values()) <= limits.MAX_TEXTS
    assert len(asked) <= limits.MAX_QUESTIONS


def test_what_this_version_does_not_know_of_a_row_is_kept_if_it_is_plain() -> None:
    known = ':id "a" :kind "k" :name "n" :project "/" :state "s"'
    row = rows.session_row(loads(f'{{{known} :new-thing 5 :deep {{:a 1}} "bad key" 1 :host "x"}}'))
    assert row is not None
    assert row["new_thing"] == 5
    assert not {"deep", "bad key", "host"} & row.keys()


@pytest.mark.parametrize("moment", ["##NaN", "##Inf", "-1", "1e300"])
def test_a_time_that_is_none_is_not_known(moment: str) -> None:
    known = ':id "a" :kind "k" :name "n" :project "/" :state "s"'
    row = rows.session_row(loads(f"{{{known} :idle {moment} :activity {{:since {moment}}}}}"))
    assert row is not None
    assert (row["idle"], row["activity"]["since"]) == (None, None)
    asked = rows.question_row(loads(f'{{:token "t" :kind "k" :title "" :summary "" :asked-at {moment}}}'))
    assert asked is not None
    assert asked["asked_at"] is None


def test_many_rows_are_written_once_and_as_anybody_reads_them() -> None:
    found = rows.session_rows(
        [{"id": f"s{n}", "kind": "k", "name": "n \x1b[2J", "project": "/", "state": "s"} for n in range(3)]
    )
    texts = rows.session_texts("box", found)
    again = plain(loads(f"{texts['s1'].text}, :idle nil}}"))
    assert (again["id"], again["host"], again["name"]) == ("box:s1", "box", "n \x1b[2J")
    question = {"token": "t", "kind": "k", "title": "", "summary": "", "session_id": "s1"}
    [text] = rows.question_texts("box", rows.question_rows([question]))
    asked = plain(loads(f"{text}}}"))
    assert (asked["token"], asked["session_id"]) == ("box:t", "box:s1")
