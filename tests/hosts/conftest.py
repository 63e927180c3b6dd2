"""Two hosts for tests that leave them as they were: one near, and one behind sshd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.far_host import FarHost, NearHost


@pytest.fixture(scope="module")
def far() -> Iterator[FarHost]:
    host = FarHost()
    try:
        yield host
    finally:
        host.close()


@pytest.fixture(scope="module")
def near(far: FarHost) -> Iterator[NearHost]:
    host = NearHost()
    try:
        host.add("workbox", far)
        yield host
    finally:
        host.close()
