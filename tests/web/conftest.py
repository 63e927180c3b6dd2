"""One daemon with a console for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.web.browser import Browser, ConsoleHosting


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleHosting]:
    """A daemon with a console."""
    made = ConsoleHosting()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def browser(console: ConsoleHosting) -> Iterator[Browser]:
    """A browser that was let in as the owner."""
    yield console.browser()
    console.hosting.run("web", "--revoke", "all")
