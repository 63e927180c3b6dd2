"""Patterns from clients on a real daemon: none keeps it from serving the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests.hosting import Hosting

HOSTILE = r"(a+)+$"
HEAVY = r"[ab]*a(?:a|b|ab|ba){1,700}c"
"""Linear, but a thousand instructions for each character."""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    hosting.start("trap", f"echo {'a' * 34}!; echo ready; read line; echo caa; read line")
    hosting.wait_text("trap", "ready")
    yield hosting
    hosting.close()


def test_a_search_that_would_backtrack_for_ages_is_answered(hosting: Hosting) -> None:
    assert hosting.run("search", "trap", "-e", HOSTILE, check=False).returncode == 1


def test_a_wait_for_such_a_pattern_ends_when_it_fits_and_others_are_served_meanwhile(
    hosting: Hosting,
) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(hosting.ask, "terminal_wait", name="trap", regex=HOSTILE, timeout=20)
        assert hosting.ask("daemon_status")["sessions"] >= 1
        hosting.run("send", "trap", "-k", "Enter")
        assert waiting.result()["match"] == "aa"


@pytest.mark.parametrize("words", [("search", "trap", "-e"), ("wait", "trap", "--regex")])
def test_what_cannot_be_matched_in_linear_time_is_refused_with_a_sentence(
    hosting: Hosting, words: tuple[str, ...]
) -> None:
    done = hosting.run(*words, r"(a)\1", check=False)
    assert done.returncode == 2
    assert r"backreferences such as \1 are not supported" in done.stderr


def test_a_heavy_search_of_a_long_scrollback_lets_others_be_served_meanwhile(
    hosting: Hosting,
) -> None:
    line = "ab" * 35
    hosting.start("long", f"i=0; while [ $i -lt 6000 ]; do echo {line}; i=$((i+1)); done; echo ready; read x")
    hosting.wait_text("long", "ready")
    with (
        ThreadPoolExecutor(1) as threads,
        DaemonConnection(Settings(hosting.environment), start=False) as other,
    ):
        searching = threads.submit(hosting.ask, "terminal_search", name="long", regex=HEAVY)
        for _ in range(20):
            other.ask("daemon_status")
        assert not searching.done()  # else the search was not heavy, or the others had to wait for it
        assert searching.result() == {"matches": []}
