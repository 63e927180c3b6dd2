"""The daemon's log is rotated in place, whoever writes to it."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from fairlead.system.logfile import MAX_REPEATED, REPEAT_SECONDS, REPEATS, LogFile, _Repeats
from tests.hosting import Hosting


def test_a_log_that_is_too_long_is_kept_aside_and_everybody_goes_on_with_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(str(path), 1000, 2)
    other = os.open(path, os.O_WRONLY | os.O_APPEND)  # as the nursery has it
    for round_ in range(4):
        assert not log.rotate_if_due()
        os.write(other, f"{round_}".encode() * 1001)
        assert log.rotate_if_due()
        assert path.read_bytes() == b""
    os.write(other, b"new")
    os.close(other)
    log.file.close()
    assert {each.name: each.read_text()[:3] for each in tmp_path.iterdir()} == {
        "log": "new",
        "log.1": "333",
        "log.2": "222",
    }
    assert stat.S_IMODE((tmp_path / "log.1").stat().st_mode) == 0o600


def test_no_older_log_is_kept_if_none_is_wanted_and_a_limit_of_0_is_none(tmp_path: Path) -> None:
    for limit, is_rotated in ((10, True), (0, False)):
        path = tmp_path / f"log{limit}"
        log = LogFile(str(path), limit, 0)
        os.write(log.file.fileno(), b"x" * 100)
        assert log.rotate_if_due() is is_rotated
        log.file.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log0", "log10"]


def test_a_warning_that_is_repeated_is_counted_instead() -> None:
    now = [0.0]
    repeats = _Repeats(lambda: now[0])

    def let(text: str, *args: object, level: int = logging.WARNING) -> list[str]:
        record = logging.LogRecord("asyncio", level, "", 0, text, args, None)
        return [record.getMessage()] if repeats.let(record) else []

    written = [line for _ in range(REPEATS + 1000) for line in let("closed %d", 1)]
    assert written == ["closed 1"] * REPEATS
    assert let("closed %d", 2) == ["closed 2"]
    assert let("asked", level=logging.INFO) == ["asked"]
    now[0] = REPEAT_SECONDS
    assert let("closed %d", 1) == ["closed 1 (and 1000 more like it before)"]
    assert let("closed %d", 1) == ["closed 1"]
    for number in range(10 * MAX_REPEATED):
        assert let("closed %d", number) != []
        assert len(repeats._seen) <= MAX_REPEATED


def test_a_daemons_log_stays_short_and_what_nursery_and_daemon_say_is_in_it() -> None:
    hosting = Hosting({"FAIRLEAD_DAEMON_LOG_BYTES": "1500", "FAIRLEAD_DAEMON_LOG_COUNT": "1"})
    try:
        hosting.run("ls")
        log = Path(hosting.environment["HOME"], ".local/state/fairlead/daemon.log")
        assert "serving 0 sessions" in log.read_text()
        with log.open("a") as other:  # as what prints to standard error does
            other.write("noise\n" * 300)
        hosting.run("daemon", "restart")
        hosting.until(lambda: "serving 0 sessions" in log.read_text())
        assert log.stat().st_size < 1500
        assert "noise" in log.with_name("daemon.log.1").read_text()
        assert sorted(each.name for each in log.parent.glob("daemon.log*")) == ["daemon.log", "daemon.log.1"]
    finally:
        hosting.close()
