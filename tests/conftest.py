"""What all tests share: the hypothesis profiles, the `peer` fixture, and the watch over daemons' loops."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodeid import NodeId
from hypothesis import HealthCheck, settings

from tests import hosting, leftovers, lending, peers
from tests.scheduling import Groups

# A shell lets what it runs in the background ignore ^C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


SLOW = Path(__file__).parent / "slow.txt"
"""The tests that take long (`make slow` writes it). With SLOW_TESTS=peers they have the mark `peers`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and keep those together that share something, such as a daemon.

    Another process would start it again. These are the tests of a group (`pytest.mark.xdist_group`) and those
    of a module that use a fixture of its scope. xdist 3.8 reads groups from the end of a test's id, but can't
    write them there with pytest 9.2.
    """
    if os.environ.get("SLOW_TESTS") == "peers":
        slow = frozenset(SLOW.read_text().splitlines())
        for item in items:
            if item.nodeid.partition("[")[0] in slow:
                item.add_marker("peers")
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        group = next(item.iter_markers("xdist_group"), None)
        known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
        if group is not None:
            item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")
        elif any(each.scope == "module" for name in known for each in known[name]):
            item._id = NodeId.parse(f"{item.nodeid}@{item.nodeid.partition('::')[0]}")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down which tests fail, for `tools/pytest-again`, and how long all take, for `make slow`."""
    if report.failed and (path := os.environ.get("FAILED_TESTS")) and "PYTEST_XDIST_WORKER" not in os.environ:
        name = report.nodeid
        with open(path, "a+") as file:
            file.seek(0)
            if name.rfind("@") > name.rfind("]"):  # what xdist adds for its groups
                name = name.rpartition("@")[0]
            if f"{name}\n" not in file.readlines():
                file.write(f"{name}\n")

    if (path := os.environ.get("TEST_TIMES")) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(path, "a") as file:
            file.write(f"{report.duration:.3f} {report.nodeid.partition('@')[0]}\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    _write_running("begun", nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    _write_running("over", nodeid)


def _write_running(what: str, name: str) -> None:
    """Write down which tests run, for the same: a run that is killed can't say it any more."""
    if (path := os.environ.get("RUNNING_TESTS")) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(path, "a") as file:
            file.write(f"{what} {name}\n")


@pytest.fixture(scope="session")
def peer() -> Callable[[str], str]:
    """Give the path of a real program, as in `peer("sbcl")`; skip the test, or fail in CI, without it."""
    return peers.require


@pytest.fixture(scope="session", autouse=True)
def _run() -> Iterator[None]:
    """A run that is killed leaves nothing behind, and no test kills the run: the pid of what has not been
    started is 0, which to the system means the caller's whole group."""
    with pytest.MonkeyPatch.context() as patched, leftovers.ended_afterwards():
        for name in ("kill", "killpg"):
            patched.setattr(os, name, partial(_signal_one, getattr(os, name)))
        yield


def _signal_one(send: Callable[[int, int], None], pid: int, number: int) -> None:
    if pid in (-1, 0, 1) and number:
        raise ProcessLookupError(f"there is no process {pid} to send a signal to")
    send(pid, number)


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
