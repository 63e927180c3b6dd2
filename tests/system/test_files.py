"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.system.files import replace_file


def test_a_file_is_replaced_with_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(str(path), b"one")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one", 0o600)
    replace_file(str(path), b"two", 0o644)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o644)
    assert os.listdir(tmp_path) == ["file"]


def test_what_can_not_be_replaced_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(str(tmp_path / "directory"), b"x")
    assert os.listdir(tmp_path) == ["directory"]
