"""Sessions with real agents of other makers, through a real daemon; their model is on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosted.real import REAL, RealHosting
from tests.model_server import ModelServer, Says

pytestmark = pytest.mark.peers

AGENTS = [pytest.param(name, marks=pytest.mark.xdist_group(f"real-{name}")) for name in REAL]
SCRIPT = {"greet": [Says("Good morning to you.")]}


@pytest.fixture(scope="module", params=AGENTS)
def real(request: pytest.FixtureRequest) -> Iterator[RealHosting]:
    """A daemon for all tests with an agent."""
    with ModelServer(SCRIPT) as model:
        hosting = RealHosting(request.param, model)
        yield hosting
        hosting.close()


def test_a_prompt_is_answered(real: RealHosting) -> None:
    done = real.talk("greet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Good morning to you.\n")
    assert real.told()[0] == "> greet"
    assert real.found()["outcome"] == "done"
