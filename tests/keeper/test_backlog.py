"""What was printed and not confirmed, in memory and in a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.keeper.backlog import Backlog

MEMORY, DISK = 8, 32


def whole(backlog: Backlog, size: int = 5) -> bytes:
    """All that is kept, read in small parts."""
    found = b""
    while part := backlog.read(backlog.start + len(found), size):
        found += part
    return found


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60))))
def test_what_is_kept_is_what_was_added_and_not_forgotten(steps: list[tuple[int, int]]) -> None:
    backlog = Backlog("/tmp", MEMORY, DISK)
    printed = b""
    for added, forgotten in steps:
        if backlog.has_room:
            data = bytes((len(printed) + each) % 251 for each in range(added))
            printed += data
            backlog.add(data)
        backlog.forget(min(backlog.end, backlog.start + forgotten))
        assert backlog.end == len(printed)
        assert whole(backlog) == printed[backlog.start :]
        assert backlog.end - backlog.start <= MEMORY + DISK + 20
    backlog.forget(backlog.end)
    assert backlog.has_room
    assert whole(backlog) == b""
    backlog.close()


def test_a_backlog_is_full_when_memory_and_file_are(tmp_path: Path) -> None:
    backlog = Backlog(str(tmp_path), MEMORY, DISK)
    backlog.add(bytes(MEMORY + DISK - 1))
    assert backlog.has_room
    backlog.add(b"x")
    assert not backlog.has_room
    backlog.forget(1)
    assert backlog.has_room
    backlog.close()


def test_its_file_has_no_name_and_no_descriptor_is_left(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else []
    backlog = Backlog(str(tmp_path), MEMORY, DISK)
    backlog.add(bytes(20))
    assert list(tmp_path.iterdir()) == []
    backlog.forget(20)
    assert before == [] or len(os.listdir("/proc/self/fd")) == len(before)


def test_without_a_place_for_its_file_it_is_full_and_loses_nothing(tmp_path: Path) -> None:
    backlog = Backlog(str(tmp_path / "later"), MEMORY, DISK)
    backlog.add(b"0123456789")
    assert not backlog.has_room
    (tmp_path / "later").mkdir()
    backlog.forget(1)
    assert backlog.has_room
    assert whole(backlog) == b"123456789"
    backlog.close()


def test_an_offset_outside_of_it_is_refused() -> None:
    backlog = Backlog("/tmp", MEMORY, DISK)
    backlog.add(b"abc")
    backlog.forget(2)
    for offset in (1, 4):
        with pytest.raises(ValueError, match="outside of 2 to 3"):
            backlog.forget(offset)
        with pytest.raises(ValueError, match="outside of 2 to 3"):
            backlog.read(offset, 1)
