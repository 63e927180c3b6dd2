"""Hosts with networks of their own: each in a network namespace, joined by a pair of virtual interfaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.hosting import WAIT


class Place:
    """A network namespace, which lives as long as a process in it."""

    def __init__(self) -> None:
        if os.getuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
            pytest.skip("network namespaces need root, unshare, nsenter and ip")
        self._holding = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        self.pid = self._holding.pid
        own = os.readlink("/proc/self/ns/net")
        try:
            while os.readlink(f"/proc/{self.pid}/ns/net") == own:
                if self._holding.poll() is not None:
                    pytest.skip("this machine makes no network namespaces")
            self.run("ip", "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            pytest.skip(f"this machine makes no network namespaces: {error}")

    @property
    def enter(self) -> tuple[str, ...]:
        """What is put before a command that runs there."""
        return ("nsenter", "--net", "--target", str(self.pid))

    def run(self, *words: str) -> None:
        subprocess.run([*self.enter, *words], check=True, timeout=WAIT, capture_output=True)

    def close(self) -> None:
        assert self._holding.stdin is not None
        self._holding.stdin.close()
        self._holding.wait(WAIT)


class Line:
    """What joins two places."""

    def __init__(self, number: int, near: Place, far: Place) -> None:
        self._near = near
        self.name = f"line{number}"
        self.address = f"10.99.{number}.2"
        try:
            pair = ["veth", "peer", "name", "uplink", "netns", str(far.pid)]
            near.run("ip", "link", "add", self.name, "type", *pair)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine has no virtual interfaces: {error.stderr!r}")
        near.run("ip", "address", "add", f"10.99.{number}.1/24", "dev", self.name)
        far.run("ip", "address", "add", f"{self.address}/24", "dev", "uplink")
        far.run("ip", "link", "set", "uplink", "up")
        self.set("up")

    def set(self, how: str) -> None:
        """Pull the cable (`down`), or put it in (`up`)."""
        self._near.run("ip", "link", "set", self.name, how)

    @contextmanager
    def shaped(self, *how: str) -> Iterator[None]:
        """Have netem delay or lose packets; the calling test is skipped where there is none."""
        try:
            self._near.run("tc", "qdisc", "add", "dev", self.name, "root", "netem", *how)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this kernel has no netem")
        try:
            yield
        finally:
            self._near.run("tc", "qdisc", "del", "dev", self.name, "root")


def places(count: int) -> Sequence[Place]:
    """Namespaces; none is left if one can't be made."""
    made: list[Place] = []
    try:
        while len(made) < count:
            made.append(Place())
    except BaseException:
        for each in made:
            each.close()
        raise
    return made
