"""Machines in a fleet, with a real server between them: what one sees of the other, and does there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.calls import RequestError
from fairlead.client.sdk import Host
from tests.fleet.fleets import WAIT, Fleet
from tests.fleet.machines import Machine
from tests.hosting import is_alive


@pytest.fixture(scope="module")
def machines(fleet: Fleet) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that see each other, each with a session `work`."""
    made: list[Machine] = []
    try:
        for name in ("alpha", "beta"):
            machine = Machine(fleet, name)
            made.append(machine)
            machine.start("work", f"echo this is {name}; exec cat")
            machine.join()
        alpha, beta = made
        alpha.wait_for("beta")
        beta.wait_for("alpha")
        yield alpha, beta
    finally:
        for machine in made:
            machine.close()


def test_the_sessions_of_the_other_machine_are_seen_and_used(machines: tuple[Machine, Machine]) -> None:
    alpha, beta = machines
    beta.wait_text("work", "this is beta")
    assert "this is beta" in alpha.run("screen", "beta:work").stdout
    assert "this is alpha" in beta.run("screen", "alpha:work").stdout
    alpha.run("send", "beta:work", "roses", "-k", "Enter")
    alpha.run("wait", "beta:work", "--text", "roses\nroses", "--timeout", "20")
    assert "roses" in beta.screen("work")
    assert "roses" not in alpha.screen("work")
    alpha.until(lambda: "beta" in alpha.run("ls", "--all").stdout)
    rows = json.loads(alpha.run("-H", "beta", "ls", "--json").stdout)
    assert [row["name"] for row in rows if row["name"] == "work"] == ["work"]


def test_a_machines_own_name_is_that_machine(machines: tuple[Machine, Machine]) -> None:
    alpha, _ = machines
    assert "work" in alpha.run("-H", "alpha", "ls", "-q").stdout.split()
    assert "this is alpha" in alpha.run("screen", "alpha:work").stdout
    missing = alpha.run("screen", "gamma:work", check=False)
    assert "no session 'gamma:work'" in missing.stderr


def test_a_host_of_the_fleet_is_not_replaced_in_silence(machines: tuple[Machine, Machine]) -> None:
    alpha, _ = machines
    refused = alpha.run("host", "add", "--no-check", "beta", "elsewhere", check=False)
    assert (refused.returncode, "is a host of the fleet already" in refused.stderr) == (1, True)


def test_attached_across_one_types_and_reads_and_a_dead_daemon_is_found_again(
    machines: tuple[Machine, Machine],
) -> None:
    alpha, beta = machines
    beta.start("shell", "exec cat")
    with Host(alpha.far("beta")) as host:
        terminal = host.terminal("shell")
        with terminal.attach(cols=80, rows=24) as view:
            view.write(b"tulips\r")
            said = b""
            while said.count(b"tulips") < 2:
                said += view.read(timeout=WAIT)
            beta.kill_daemon()
            said = b""
            while b"tulips" not in said:  # the redraw of the next daemon
                said += view.read(timeout=WAIT)
            view.write(b"lilies\r")
            while said.count(b"lilies") < 2:
                said += view.read(timeout=WAIT)


def test_a_session_or_a_host_that_does_not_exist_is_one_clear_error(
    machines: tuple[Machine, Machine],
) -> None:
    alpha, _ = machines
    nobody = alpha.run("screen", "beta:nobody", check=False)
    assert nobody.returncode == 1
    assert "no session" in nobody.stderr
    nowhere = alpha.run("-H", "gamma", "ls", check=False)
    assert nowhere.returncode != 0
    assert "gamma" in nowhere.stderr
    assert len(nowhere.stderr.splitlines()) == 1


def test_much_output_comes_across_whole(machines: tuple[Machine, Machine]) -> None:
    """More than the window of a stream, several times."""
    alpha, beta = machines
    beta.start("long", "seq 1 60000; echo done; exec cat")
    beta.wait_text("long", "done")
    lines = alpha.asked_there("beta", "terminal_lines", name="long", limit=9000)["lines"]
    assert lines[-1] == "done"
    assert [int(line) for line in lines[:-1]] == list(range(60001 - len(lines) + 1, 60001))


def test_status_and_metrics_say_how_hosts_are(machines: tuple[Machine, Machine]) -> None:
    alpha, _ = machines
    shown = alpha.run("fleet", "status").stdout
    assert shown.startswith("alpha (machine) at ")
    assert "beta" in shown
    (beta,) = [each for each in alpha.status()["hosts"] if each["name"] == "beta"]
    assert beta["lag"] == 0
    assert abs(beta["skew"]) < 30
    metrics = Path(alpha.environment["XDG_RUNTIME_DIR"], "fairlead/fleet.prom")
    alpha.until(lambda: 'fairlead_fleet_host_sessions{host="beta"}' in metrics.read_text())
    assert "fairlead_fleet_up 1" in metrics.read_text()


def test_what_may_only_be_asked_on_the_machine_itself_is_refused_across(
    machines: tuple[Machine, Machine],
) -> None:
    alpha, beta = machines
    with pytest.raises(RequestError, match="only for beta itself"):
        alpha.asked_there("beta", "daemon_stop")
    assert beta.ask("daemon_status")


def test_an_agents_command_may_not_use_the_fleet(machines: tuple[Machine, Machine]) -> None:
    alpha, _ = machines
    alpha.start("agents", "FAIRLEAD_AGENT=a1 fairlead() { :; }; exec cat")
    alpha.environment["FAIRLEAD_AGENT"] = "0123456789abcdef"
    try:
        tries = ["-H", "beta", "ls"], ["fleet", "leave"], ["fleet", "join"]
        refused = [alpha.run(*words, check=False) for words in tries]
    finally:
        del alpha.environment["FAIRLEAD_AGENT"]
    for each in refused:
        assert each.returncode != 0
        assert "may not use the fleet" in each.stderr
    assert alpha.status()["connected"]


def test_a_machine_that_leaves_is_away_at_once_and_here_again_when_it_joins(fleet: Fleet) -> None:
    first, second = Machine(fleet, "first"), Machine(fleet, "second")
    try:
        first.join()
        second.join()
        first.wait_for("second")
        second.run("fleet", "leave")
        first.until(lambda: first.sees("second", "away"))
        assert second.run("fleet", "status", check=False).returncode == 1
        again = second.run("fleet", "join", check=False)
        assert "belongs to no fleet" in again.stderr
        second.join()
        first.wait_for("second")
        second.kill_fleet()
        second.run("fleet", "join")  # as before
        first.wait_for("second")
    finally:
        first.close()
        second.close()


def test_a_machine_that_only_works_follows_no_others_and_reaches_them(fleet: Fleet) -> None:
    seen, worker = Machine(fleet, "seen"), Machine(fleet, "worker")
    worker.environment["FAIRLEAD_FLEET_FOLLOW"] = "false"
    try:
        seen.start("work", "echo this is seen; exec cat")
        for machine in (seen, worker):
            machine.run("ls")
            machine.join()
        worker.wait_for("seen")
        worker.ask("host_list")  # it would begin to follow now
        seen.until(lambda: "worker" in [row["name"] for row in seen.ask("host_list")["hosts"]])
        assert "this is seen" in worker.run("screen", "seen:work").stdout
        assert worker.ask("host_list")["hosts"] == []
    finally:
        seen.close()
        worker.close()


def test_a_machine_joins_through_a_leaf_node(fleet: Fleet) -> None:
    direct, leaf = Machine(fleet, "direct"), Machine(fleet, "leaf")
    try:
        direct.start("work", "echo this is direct; exec cat")
        leaf.start("work", "echo this is leaf; exec cat")
        direct.join()
        leaf.join("--leaf", url=fleet.leaf_url)
        direct.wait_for("leaf")
        leaf.wait_for("direct")
        assert "this is leaf" in direct.run("screen", "leaf:work").stdout
        assert "this is direct" in leaf.run("screen", "direct:work").stdout
    finally:
        direct.close()
        leaf.close()


def test_after_the_fleets_process_was_killed_readers_are_told_that_events_may_be_missing(
    fleet: Fleet,
) -> None:
    """A leaf node that it leaves over is ended by the next one."""
    reader, killed = Machine(fleet, "reader"), Machine(fleet, "killed")
    try:
        reader.join()
        killed.join("--leaf", url=fleet.leaf_url)
        reader.wait_for("killed")
        killed.start("first", "exit 0")
        reader.until(lambda: any(each.get("host") == "killed" for each in reader.feed()))
        since = max(each["seq"] for each in reader.feed())
        leaf = Path(killed.environment["HOME"], ".local/state/fairlead/fleet/leaf/leaf.pid")
        before = int(leaf.read_text())
        killed.kill_fleet()
        killed.start("unheard", "exit 0")
        killed.run("fleet", "join")
        killed.until(lambda: bool(killed.status()["connected"]))
        killed.until(lambda: not is_alive(before))
        killed.start("last", "exit 0")
        reader.until(lambda: any(each.get("host") == "killed" for each in reader.feed(since)))
        told = [each["topic"] for each in reader.feed() if each.get("host") == "killed"]
        assert told.count("fleet/reset") == 1
    finally:
        reader.close()
        killed.close()
