"""Counting the lines of files that hooks name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.terminal.transcript_lines import MAX_WAITING, TooMany, TranscriptLines

LARGE = 250 * 1024 * 1024


def test_lines_are_counted_whatever_happens_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "transcript"

    async def count() -> None:
        counting = TranscriptLines()
        assert await counting.count(str(file)) == 0
        file.write_text("one\ntwo\nthr")
        assert await counting.count(str(file)) == 2
        with file.open("a") as more:
            more.write("ee\nfour\n" + "x" * 100 + "\n")
        assert await counting.count(str(file)) == 5
        assert await counting.count(str(file)) == 5
        file.write_text("less\n")
        assert await counting.count(str(file)) == 1
        file.write_text("another\n" * 9)
        assert await counting.count(str(file)) == 9
        assert await counting.count(str(tmp_path)) == await counting.count("") == 0

    asyncio.run(count())


def test_large_files_keep_no_other_work_waiting(tmp_path: Path) -> None:
    """48 of them took all threads, and a person's answer took 8 seconds."""
    for number in range(3):
        with (tmp_path / str(number)).open("wb") as file:
            file.truncate(LARGE)

    async def count() -> None:
        counting = TranscriptLines()
        counts = [
            asyncio.ensure_future(counting.count(str(tmp_path / str(number % 3))))
            for number in range(MAX_WAITING)
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(str)  # as all else in the daemon that may block
        assert not counts[2].done()
        with pytest.raises(TooMany, match=f"{MAX_WAITING} transcripts wait"):
            await counting.count(str(tmp_path / "0"))
        async with asyncio.timeout(20):  # three of them are read, once
            assert await asyncio.gather(*counts) == [0] * MAX_WAITING

    asyncio.run(count())
