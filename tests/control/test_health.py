"""Checks, what they amount to, and how that is told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from fairlead.control import health as health_module
from fairlead.control.health import Check, HealthChecks, HealthReport, Lag, disk, doctor, overall, runtime_dir
from fairlead.system.settings import Settings


def settings(path: Path) -> Settings:
    return Settings({"FAIRLEAD_RUNTIME_DIR": str(path / "run"), "FAIRLEAD_STATE_DIR": str(path)})


def test_the_worst_check_decides() -> None:
    fine, odd, bad = (Check("x", status, "") for status in ("healthy", "unknown", "degraded"))
    assert overall([]) == "unknown"
    assert overall([fine]) == "healthy"
    assert overall([fine, odd]) == "unknown"
    assert overall([bad, odd, fine]) == "degraded"
    assert overall([bad, Check("x", "unhealthy", "")]) == "unhealthy"


def test_checks_that_fail_or_hang_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CHECK_WAIT", 0.05)

    async def hangs() -> Check:
        await asyncio.sleep(60)
        raise AssertionError

    async def fine() -> Check:
        return Check("fine", "healthy", "yes")

    def broken() -> Check:
        raise OSError("no")

    async def work() -> HealthReport:
        health = HealthChecks({"fine": fine, "hangs": hangs, "broken": broken})
        assert health.report == HealthReport()
        await health.check()
        return health.report

    report = asyncio.run(work())
    assert [(check.name, check.status) for check in report.checks] == [
        ("fine", "healthy"),
        ("hangs", "unhealthy"),
        ("broken", "unknown"),
    ]
    assert report.status == "unhealthy"
    assert "OSError: no" in report.checks[2].detail
    assert report.checked_at > 0


def test_it_is_checked_at_the_start_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CHECK_EVERY", 0.01)
    count = 0

    def counts() -> Check:
        nonlocal count
        count += 1
        return Check("x", "healthy", "")

    async def work() -> None:
        health = HealthChecks({"x": counts})
        health.open()
        async with asyncio.timeout(10):
            while count < 3:
                await asyncio.sleep(0.005)
        health.close()

    asyncio.run(work())


def test_the_runtime_directory_must_be_ours_alone(tmp_path: Path) -> None:
    given = settings(tmp_path)
    assert runtime_dir(given).status == "unhealthy"
    assert "mkdir" in runtime_dir(given).fix
    (tmp_path / "run").mkdir(mode=0o755)
    assert runtime_dir(given).fix.startswith("chmod 700")
    (tmp_path / "run").chmod(0o700)
    assert runtime_dir(given).status == "healthy"
    (tmp_path / "run").rmdir()
    (tmp_path / "run").symlink_to(tmp_path)
    assert runtime_dir(given).status == "unhealthy"


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk(settings(tmp_path)).status in ("healthy", "degraded")
    monkeypatch.setattr(health_module, "DISK_DEGRADED", 2**60)
    assert disk(settings(tmp_path)).status == "degraded"
    monkeypatch.setattr(health_module, "DISK_UNHEALTHY", 2**60)
    assert disk(settings(tmp_path)).status == "unhealthy"
    assert disk(settings(tmp_path / "none")).fix.startswith("create it")


def test_a_loop_that_is_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "LAG_EVERY", 0.01)

    async def work() -> None:
        lag = Lag()
        lag.open()
        assert lag.check().status == "healthy"
        await asyncio.sleep(0)
        time.sleep(0.2)
        async with asyncio.timeout(10):
            while lag.worst < 0.15:
                await asyncio.sleep(0.005)
        lag.close()
        assert lag.check().status in ("degraded", "unhealthy")
        assert lag.check().fix

    asyncio.run(work())


def test_the_doctor_says_what_to_do() -> None:
    checks = [
        {"name": "disk", "status": "healthy", "detail": "9 GiB free", "fix": ""},
        {"name": "passepartout", "status": "degraded", "detail": "port taken", "fix": "set a port"},
    ]
    assert doctor("degraded", checks).splitlines() == [
        "ok  disk          9 GiB free",
        "!   passepartout  port taken",
        "                  fix: set a port",
        "degraded: 1 of 2 checks failed: passepartout",
    ]
    assert doctor("healthy", checks[:1]).splitlines()[-1] == "healthy: 1 check, nothing to fix"
    unknown = {**checks[0], "name": "wide", "status": "unknown"}
    *_, last = doctor("degraded", [*checks, unknown], 40).splitlines()
    assert last == "passepartout, wide"
