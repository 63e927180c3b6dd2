"""A line on which everything comes late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.persons import Person
from tests.hosts.far_host import FarHost, NearHost

SECONDS = 0.35


@pytest.fixture(scope="module")
def distant(far: FarHost) -> Iterator[NearHost]:
    """A host from which the far one is a long way off."""
    script = Path(__file__).with_name("slow_line.py")
    host = NearHost()
    try:
        with open(host.ssh_config, "w") as file:
            file.write(f"ProxyCommand {sys.executable} {script} %h %p {SECONDS}\n")
        host.add("workbox", far)
        yield host
    finally:
        host.close()


def test_keys_are_said_to_wait_until_they_have_arrived(distant: NearHost, far: FarHost) -> None:
    far.start("work", "stty -echo; echo ready; while read line; do echo got $line; done")
    with Person(distant, "attach", "workbox:work") as person:
        person.until("ready")
        person.press(b"a", b"b", b"c")
        person.until("slow line to workbox: 3 keys wait")
        person.press(b"\r")
        person.until("got abc")
        person.until_screen(far, "work")
        assert person.leave() == 0
    assert far.screen("work").count("got") == 1
    far.run("stop", "work")


def test_much_output_is_not_all_carried(distant: NearHost, far: FarHost) -> None:
    far.start("flood", "read go; seq 500000; echo all printed; exec cat")
    with Person(distant, "attach", "workbox:flood") as person:
        far.until(lambda: far.sessions()["flood"]["clients"] == 1)
        person.press(b"\r")
        person.until("all printed")
        assert len(person.seen) < 1_500_000  # of 3.4 million
        assert person.leave() == 0
    far.run("stop", "flood")


def test_commands_only_take_longer(distant: NearHost, far: FarHost) -> None:
    far.start("quiet", "echo here; exec cat")
    assert "here" in distant.run("screen", "workbox:quiet").stdout
    distant.run("send", "workbox:quiet", "once", "-k", "Enter")
    far.wait_text("quiet", "once")
    far.run("stop", "quiet")
