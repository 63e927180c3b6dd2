"""The two real readers, started once for all tests that ask them.

A test that asks one belongs to the group of its name (`pytest.mark.xdist_group`), so that only one worker
starts it.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.formats import oracles


@pytest.fixture(scope="session")
def sbcl(peer: Callable[[str], str]) -> Iterator[oracles.Oracle]:
    """SBCL's reader and printer."""
    with oracles.sbcl(peer("sbcl")) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def clojure(peer: Callable[[str], str]) -> Iterator[oracles.Oracle]:
    """Clojure's EDN reader and printer."""
    with oracles.clojure(peer("clojure")) as oracle:
        yield oracle
