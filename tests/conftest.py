"""What all tests share: the hypothesis profiles, the `peer` fixture, and the watch over daemons' loops."""

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import hosting, leftovers, lending, peers

# Coverage and a busy machine make single examples slow, which says nothing about the code under test.
settings.register_profile(
    "fairlead",
    max_examples=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# On a server a failure should come from the change and not from the dice; other runs go exploring.
settings.register_profile("ci", settings.get_profile("fairlead"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("fairlead"), max_examples=5000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "fairlead")
)


@pytest.fixture(scope="session")
def peer() -> Callable[[str], str]:
    """Give the path of a real program, as in `peer("sbcl")`; skip the test, or fail in CI, without it."""
    return peers.require


@pytest.fixture(scope="session", autouse=True)
def _run() -> Iterator[None]:
    """A run that is killed leaves nothing behind."""
    with leftovers.ended_afterwards():
        yield


@pytest.fixture(scope="session")
def _lender(_run: None) -> Iterator[None]:
    yield
    lending.close()


@pytest.fixture
def lent(_lender: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[hosting.Hosting]:
    """A daemon without sessions, which this process finds; see `tests/lending.py`."""
    with lending.lent() as each:
        for name, value in each.environment.items():
            monkeypatch.setenv(name, value)
        yield each


@pytest.fixture(autouse=True)
def unhindered_loops() -> Iterator[None]:
    """Fail a test in which the loop of a daemon was held up."""
    yield
    found = "\n".join(filter(None, [*hosting.HELD_UP, *(each.held_up() for each in hosting.LIVE)]))
    hosting.HELD_UP.clear()
    if found:
        pytest.fail(found, pytrace=False)
