"""Two hosts on networks of their own: the cable is pulled, and packets come late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.persons import Person
from tests.hosts.far_host import FarHost, NearHost
from tests.hosts.networks import Line, places

ECHO = "stty -echo; echo ready; while read line; do echo $line >> ~/noted; echo got $line; done"


class Network:
    """One near host, and two far ones."""

    def __init__(self) -> None:
        self._places = places(3)
        here, *there = self._places
        self.lines = [Line(number, here, place) for number, place in enumerate(there)]
        self.near = NearHost()
        self.near.command = [*here.enter, *self.near.command]
        self.far = [FarHost(address=line.address, wrap=place.enter) for line, place in zip(self.lines, there)]
        for name, far in zip(("workbox", "gpu"), self.far):
            self.near.add(name, far)

    def close(self) -> None:
        self.near.close()
        for far in self.far:
            far.close()
        for place in self._places:
            place.close()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    made = Network()
    try:
        yield made
    finally:
        made.close()


def test_sessions_of_both_are_there(network: Network) -> None:
    for far in network.far:
        far.start("work", "exec cat")
    listed = network.near.run("ls", "workbox:work", "gpu:work", "-q").stdout
    assert listed == "work\nwork\n"
    names = [line.split()[:2] for line in network.near.run("host", "ls").stdout.splitlines()[1:]]
    assert names == [["workbox", "up"], ["gpu", "up"]]
    network.near.run("stop", "gpu:work", "workbox:work")


def test_a_host_whose_cable_is_pulled_is_away_and_the_other_is_not(network: Network) -> None:
    network.lines[0].set("down")
    try:
        network.near.forget_connections()
        done = network.near.run("host", "ls")
        assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
            ["workbox", "away"],
            ["gpu", "up"],
        ]
        assert "workbox: " in done.stderr
        failed = network.near.run("-H", "workbox", "ls", check=False)
        assert failed.returncode == 1
        assert "workbox is away: " in failed.stderr
    finally:
        network.lines[0].set("up")
    network.near.until(lambda: network.near.run("-H", "workbox", "ls", check=False).returncode == 0)


def test_a_cable_that_is_pulled_for_a_moment_costs_no_key(network: Network) -> None:
    far = network.far[0]
    (far.home / "noted").unlink(missing_ok=True)
    far.start("moment", ECHO)
    with Person(network.near, "attach", "workbox:moment") as person:
        person.until("ready")
        network.lines[0].set("down")
        person.press(b"a", b"b", b"\r")
        person.until("slow line to workbox: 3 keys wait")
        network.lines[0].set("up")
        person.until("got ab")
        person.until_screen(far, "moment")
        assert person.leave() == 0
    assert (far.home / "noted").read_text() == "ab\n"
    far.run("stop", "moment")


def test_attach_comes_back_by_itself_when_the_line_was_dead(network: Network) -> None:
    """A line that says nothing is dead after 15 seconds, and then a new one is tried."""
    far = network.far[1]
    (far.home / "noted").unlink(missing_ok=True)
    far.start("long", ECHO)
    with Person(network.near, "attach", "gpu:long") as person:
        person.until("ready")
        network.lines[1].set("down")
        person.until("gpu is away, reconnecting")
        person.press(b"c", b"\r")
        person.until("2 keys wait")
        network.lines[1].set("up")
        person.until("got c")
        person.until_screen(far, "long")
        assert person.leave() == 0
    assert (far.home / "noted").read_text() == "c\n"
    far.run("stop", "long")


def test_packets_that_come_late_only_take_longer(network: Network) -> None:
    far = network.far[0]
    far.start("late", ECHO)
    with (
        network.lines[0].shaped("delay", "600ms", "loss", "5%"),
        Person(network.near, "attach", "workbox:late") as person,
    ):
        person.until("ready")
        person.press(b"x", b"\r")
        person.until("slow line to workbox")
        person.until("got x")
        assert person.leave() == 0
    far.run("stop", "late")
