"""A daemon in places of its own, which this very process finds as a user's program would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosting import Hosting


@pytest.fixture
def hosting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosting]:
    hosting = Hosting()
    for name, value in hosting.environment.items():
        monkeypatch.setenv(name, value)
    yield hosting
    hosting.close()
