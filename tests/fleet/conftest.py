"""One fleet's server for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.fleet.fleets import Fleet
from tests.hosting import Hosting


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A fleet whose server runs."""
    hosting = Hosting()
    try:
        made = Fleet(hosting)
        try:
            made.serve()
            yield made
        finally:
            made.close()
    finally:
        hosting.close()
