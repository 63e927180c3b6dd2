"""One daemon for all tests of a module; they use sessions of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosting import Hosting


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()
