"""Queued jobs that real daemons run: the command, the process of the fleet, and what dies in the middle."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleets import Fleet
from tests.fleet.machines import Machine

HOLD = "run: echo $$ > pid; echo x >> began; while [ ! -e go ]; do sleep 0.05; done"


class Crew:
    """A machine that asks, and two that work in one directory each."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.machines: dict[str, Machine] = {}
        self.laptop = self.add("laptop")
        self.workers = [self.add(name, capacity=2) for name in ("roses", "tulips")]
        self.laptop.wait_for("roses", "tulips")

    def add(self, name: str, capacity: int = 0, *words: str, url: str = "") -> Machine:
        machine = self.machines[name] = Machine(self.fleet, name)
        machine.environment["FAIRLEAD_FLEET_CAPACITY"] = str(capacity)
        self.project(machine).mkdir()
        machine.join(*words, url=url)
        return machine

    def project(self, machine: Machine) -> Path:
        return Path(machine.environment["HOME"], "garden")

    def file(self, machine: Machine, name: str) -> str:
        path = self.project(machine) / name
        return path.read_text() if path.exists() else ""

    def queue(self, prompt: str, *words: str) -> str:
        given = ("run", "--queue", "-q", "--yes", "--project", "~/garden", *words)
        return self.laptop.run(*given, "--", prompt).stdout.strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in json.loads(self.laptop.run("queue", "ls", "--json").stdout)}

    def began(self) -> list[Machine]:
        """On which machines the program of HOLD has begun, as often as it has."""
        return [each for each in self.workers for _ in self.file(each, "began").splitlines()]

    def go(self) -> None:
        for each in self.workers:
            (self.project(each) / "go").write_text("")

    def tidy(self) -> None:
        for each in self.workers:
            for path in self.project(each).iterdir():
                path.unlink()

    def close(self) -> None:
        self.go()
        for machine in self.machines.values():
            machine.close()


@pytest.fixture(scope="module")
def whole_crew(fleet: Fleet) -> Iterator[Crew]:
    made = Crew(fleet)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def crew(whole_crew: Crew) -> Crew:
    whole_crew.tidy()
    return whole_crew


def test_queued_jobs_come_back_in_one_table_with_verdicts(crew: Crew) -> None:
    right = [crew.queue(f"write a{n}.txt: a", "--verify", f"test -e a{n}.txt") for n in range(5)]
    wrong = crew.queue("write b.txt: b", "--verify", "test -e nothing.txt")
    done = crew.laptop.run("queue", "wait", *right, wrong, check=False)
    assert done.returncode == 1  # one has failed
    assert len(done.stdout.splitlines()) == 6
    jobs = crew.jobs()
    assert {jobs[id]["state"] for id in right} == {"done"}
    assert {jobs[id]["verdict"] for id in right} <= {"verified", "perfect"}
    assert {jobs[id]["asker"] for id in right} == {"laptop"}
    assert jobs[wrong]["state"] == "failed"
    whole = json.loads(crew.laptop.run("queue", "show", "--json", wrong).stdout)
    assert whole["verify"] == ["test -e nothing.txt"]
    assert whole["report"]["status"] == "failed"
    table = crew.laptop.run("queue", "ls").stdout
    assert "write b.txt: b" in table
    assert "roses" in table or "tulips" in table


def test_a_job_of_which_the_daemon_is_killed_in_the_middle_runs_again_once(crew: Crew) -> None:
    id = crew.queue(HOLD, "--verify", "test -e go")
    crew.laptop.until(lambda: len(crew.began()) == 1)
    first = crew.began()[0]
    os.kill(first.daemon_pid(), signal.SIGKILL)
    crew.laptop.until(lambda: len(crew.began()) == 2)
    crew.go()
    crew.laptop.run("queue", "wait", id)
    assert crew.jobs()[id]["tries"] == 2
    assert len(crew.began()) == 2


def test_a_job_is_cancelled_in_the_middle_and_queued_again(crew: Crew) -> None:
    id = crew.queue(HOLD, "--verify", "test -e go", "--on", "roses")
    crew.laptop.until(lambda: len(crew.began()) == 1)
    roses = crew.machines["roses"]
    pid = int(crew.file(roses, "pid"))
    crew.laptop.run("queue", "cancel", id)
    crew.laptop.until(lambda: not Path(f"/proc/{pid}").exists())
    assert crew.jobs()[id]["state"] == "cancelled"
    crew.go()
    crew.laptop.run("queue", "retry", id)
    crew.laptop.run("queue", "wait", id)
    assert crew.jobs()[id]["host"] == "roses"


def test_what_no_host_has_is_said(crew: Crew) -> None:
    id = crew.queue("ls", "--verify", "true", "--project", "/no/such/place")
    assert crew.laptop.run("queue", "wait", id, check=False).returncode == 1
    note = crew.jobs()[id]["note"]
    assert "roses has no directory /no/such/place" in note
    assert "tulips has no directory /no/such/place" in note


def test_jobs_that_cannot_be_are_refused_before_they_are_queued(crew: Crew) -> None:
    before = crew.jobs()
    for words, why in {
        ("--verify", "true", "--on", "label=GPU", "ls"): "lower-case",
        ("--verify", "true", "--name", "x", "ls"): "can't be combined",
        ("--verify", "true", "--tries", "99", "ls"): "from once to 10 times",
        ("--verify", "true", "x" * 70_000): "at most 64 KiB",
        ("ls",): "missing --verify",
    }.items():
        done = crew.laptop.run("run", "--queue", *words, check=False)
        assert done.returncode != 0
        assert why in done.stderr, done.stderr
    assert crew.jobs() == before


def test_the_hub_is_killed_with_jobs_queued_and_running(crew: Crew) -> None:
    running = crew.queue(HOLD, "--verify", "test -e go", "--on", "tulips")
    crew.laptop.until(lambda: len(crew.began()) == 1)
    waiting = [
        crew.queue(f"write c{n}.txt: c", "--verify", f"test -e c{n}.txt", "--on", "tulips") for n in range(4)
    ]
    crew.fleet.stop(signal.SIGKILL)
    crew.fleet.serve()
    crew.go()
    crew.laptop.until(lambda: crew.laptop.status()["connected"])
    crew.laptop.run("queue", "wait", running, *waiting)
    jobs = crew.jobs()
    assert [jobs[id]["state"] for id in (running, *waiting)] == ["done"] * 5
    assert len(crew.began()) == 1


def test_a_machine_with_a_leaf_node_asks_and_works(crew: Crew) -> None:
    leaf = crew.add("ferns", 1, "--leaf", url=crew.fleet.leaf_url)
    crew.laptop.wait_for("ferns")
    leaf.wait_for("laptop")
    id = crew.queue("write a.txt: a", "--verify", "test -e a.txt", "--on", "ferns")
    crew.laptop.run("queue", "wait", id)
    assert crew.jobs()[id]["host"] == "ferns"
    words = (
        "run",
        "--queue",
        "-q",
        "--yes",
        "--project",
        "~/garden",
        "--verify",
        "test -e b.txt",
        "--on",
        "roses",
    )
    asked = leaf.run(*words, "--", "write b.txt: b").stdout.strip()
    done = leaf.run("queue", "wait", "--json", asked, check=False)
    assert json.loads(done.stdout)["state"] == "done", done.stdout
    assert asked in crew.jobs()


def test_without_a_fleet_it_says_what_to_do(crew: Crew) -> None:
    from tests.hosting import Hosting

    hosting = Hosting()
    try:
        done = hosting.run("queue", "ls", check=False)
        assert done.returncode == 1
        assert "`fairlead fleet join` starts it" in done.stderr
    finally:
        hosting.close()


def test_of_a_job_that_no_host_takes_now_is_said_what_is_missing(crew: Crew) -> None:
    for on, why in (
        ("label=nope", "no host that is here has the label nope"),
        ("dora", "there is no host dora in the fleet now"),
        ("laptop", "laptop takes no jobs: `[fleet] capacity` is 0 there"),
    ):
        given = ("run", "--queue", "--yes", "--project", "~/garden", "--verify", "true", "--on", on)
        queued = crew.laptop.run(*given, "--", "x")
        assert f"the job waits: {why}" in queued.stderr
        id = queued.stdout.strip()
        assert why in crew.laptop.run("queue", "show", id).stdout
        crew.laptop.run("queue", "cancel", id)
    assert "the job waits" not in crew.laptop.run(*given[:-2], "--", "x").stderr


def test_a_read_only_user_is_told_that_the_queue_is_not_for_changing(crew: Crew) -> None:
    reader = Machine(crew.fleet, "reader")
    try:
        path = crew.fleet.creds_path("user", "reader", "--read-only")
        reader.run("fleet", "join", crew.fleet.url, "--creds", path, "--ca", crew.fleet.ca)
        assert "(user, read-only)" in reader.run("fleet", "status").stdout
        for words in (
            ("run", "--queue", "--verify", "true", "--", "x"),
            ("queue", "cancel", "deadbeef0000"),
        ):
            refused = reader.run(*words, check=False)
            assert refused.returncode != 0
            assert "a read-only credential (reader) may look at the queue" in refused.stderr
    finally:
        reader.close()


def test_what_the_queue_refuses_is_said_in_its_own_words(crew: Crew) -> None:
    for words, why in (
        (("queue", "show", "deadbeef0000"), "no job deadbeef0000; `fairlead queue ls` lists them"),
        (("queue", "cancel", "deadbeef0000"), "no job deadbeef0000"),
        (("queue", "show", "short"), "short"),
        (("run", "--queue", "--verify", "true", "--on", "label=a b", "--", "x"), "label"),
    ):
        refused = crew.laptop.run(*words, check=False)
        assert refused.returncode != 0
        assert why in refused.stderr
        assert "daemon" not in refused.stderr
        assert "fleet's process" not in refused.stderr
