"""Attached terminals leave the daemon as it was, so that the next test can use it."""

import pytest

from tests.hosting import Hosting


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    return lent
