"""Sessions that scripts open for one prompt: `ls` has them while they matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosted.small import SmallHosting


@pytest.fixture(scope="module")
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("resume")
    yield hosting
    hosting.close()


def listed(small: SmallHosting, *words: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in json.loads(small.run("ls", "--json", *words).stdout)}


def say(small: SmallHosting, *words: str) -> int:
    return small.run("agent", "-C", str(small.project), "-p", *words, check=False).returncode


def test_a_session_of_one_prompt_is_listed_if_it_failed_or_somebody_came_back_to_it(
    small: SmallHosting,
) -> None:
    assert say(small, "read nothing.txt") == 0
    assert say(small, "--with", "small", "roger") == 0
    assert say(small, "--with", "small", "fail") == 1
    assert say(small, "--name", "kept", "read kept.txt") == 0
    assert set(listed(small)) == {"fail", "read kept.txt"}
    assert (listed(small)["fail"]["state"], listed(small)["fail"]["agent"]) == ("failed", "small")
    assert "fail — small: no model answers" in small.run("ls").stdout
    every = listed(small, "--all")
    assert set(every) == {"fail", "read kept.txt", "read nothing.txt", "roger"}
    assert {what for what, row in every.items() if row["one_shot"]} == set(every) - {"read kept.txt"}
    small.run("daemon", "restart")
    assert set(listed(small)) == {"fail", "read kept.txt"}
    assert "fail — small: no model answers" in small.run("ls").stdout
    id = every["read nothing.txt"]["id"]
    assert id[:8] in small.run("ls", id).stdout
    assert id[:8] in small.run("sessions").stdout
    small.ask("open_session", name=id)  # as a chat does
    assert "read nothing.txt" in listed(small)
    small.run("daemon", "restart")
    assert "read nothing.txt" in listed(small)


def test_a_verified_run_is_not_listed_and_one_that_needs_a_person_is(
    small: SmallHosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.project)
    Path(small.project, "present").touch()
    for file, code in (("present", 0), ("absent", 1)):
        words = ["run", "--with", "small", "--yes", "--verify", f"test -e {file}", file]
        done = small.run(*words, check=False)
        assert done.returncode == code, done.stderr
    shown = small.run("ls")
    assert "needs a person" in shown.stderr
    rows = [row for row in listed(small).values() if (row.get("verdict") or {}).get("escalated")]
    assert len(rows) == 1
    assert "present" in listed(small, "--all")
    assert "present" not in listed(small)
