"""Reports on disk, and verifications that a crash interrupts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from fairlead.system.database import DatabaseFault
from fairlead.verify import store as stores
from fairlead.verify.report import CommandRun, Confidence, Report, Section, Status
from fairlead.verify.store import ReportStore

LISTING_SECONDS = 0.05
"""How long a list of a thousand may take."""


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "reports.db")


def made(confidence: Confidence = Confidence.VERIFIED, **more: object) -> Report:
    whole: dict[str, object] = {
        "status": Status.VERIFIED,
        "confidence": confidence,
        "summary": "ok",
        "session_id": "s",
        "project": "/p",
        "turn": 1,
        "time": 1000.0,
        **more,
    }
    return Report(**whole)  # type: ignore[arg-type]


def test_a_report_comes_back_whole(place: str) -> None:
    report = made(
        sections=(Section("A", "text"),),
        commands=(CommandRun("pytest", 0, 1.5),),
        refused=("rm",),
        lines=(1, 9),
        claimed=Confidence.PERFECT,
        capped_by="a rule",
        raw="## Report",
        tree="abc",
        cost=0.25,
    )
    with ReportStore(place) as store:
        id = store.add(report)
    with ReportStore(place) as store:
        assert store.get(id) == report
        (listed,) = store.list()
        assert (listed.id, listed.confidence, listed.status, listed.tree) == (
            id,
            "verified",
            "verified",
            "abc",
        )
        assert listed.confidence is Confidence.VERIFIED
        assert store.get(id + 1) is None
        assert store.get(-1) is None
        assert store.get(2**70) is None


def test_text_that_sqlite_can_not_hold_is_kept_as_far_as_it_can(place: str) -> None:
    with ReportStore(place) as store:
        id = store.add(made(summary="half \ud83d and \0", verifier="\udc00"))
        report = store.get(id)
        assert report is not None
        assert report.summary == "half ? and \ufffd"


def test_reports_are_listed_by_session_project_and_time(place: str) -> None:
    with ReportStore(place) as store:
        for number in range(10):
            store.add(
                made(
                    session_id=f"s{number % 2}", project=f"/p{number % 5}", turn=number, time=1000.0 + number
                )
            )
        assert [each.turn for each in store.list()] == list(range(9, -1, -1))
        assert [each.turn for each in store.list(session_id="s1", limit=2)] == [9, 7]
        assert [each.turn for each in store.list(project="/p0")] == [5, 0]
        assert [each.turn for each in store.list(session_id="s0", since=1006)] == [8, 6]
        assert store.list(session_id="nobody") == []
        assert store.list(limit=-1) == []
        assert {id: each.turn for id, each in store.latest().items()} == {"s0": 8, "s1": 9}
        assert set(store.latest(["s1", "x"])) == {"s1"}


def test_a_thousand_reports_are_listed_at_once(place: str) -> None:
    with ReportStore(place) as store:
        encoded = msgspec.json.encode(made(raw="x" * 20_000))

        def fill(connection: object) -> None:
            rows = [
                (
                    1000.0 + n,
                    f"s{n % 50}",
                    f"/p{n % 7}",
                    n,
                    "model",
                    "v",
                    "m",
                    "verified",
                    "verified",
                    "ok",
                    1,
                    0,
                    "",
                )
                for n in range(3000)
            ]
            names = stores._COLUMNS.partition(", ")[2]
            connection.executemany(  # type: ignore[attr-defined]
                f"INSERT INTO reports ({names}, whole) VALUES ({', '.join('?' * 13)}, ?)",
                [(*row, encoded) for row in rows],
            )

        store._database.write(fill)
        took = []
        for _ in range(3):
            begun = time.perf_counter()
            assert len(store.list(limit=1000)) == 1000
            took.append(time.perf_counter() - begun)
        assert min(took) < LISTING_SECONDS
        begun = time.perf_counter()
        assert len(store.latest()) == 50
        assert time.perf_counter() - begun < 10 * LISTING_SECONDS


def test_the_oldest_reports_go_when_there_are_too_many(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_REPORTS", 3)
    with ReportStore(place) as store:
        for turn in range(6):
            store.add(made(turn=turn))
        assert [each.turn for each in store.list()] == [5, 4, 3]


# --- verifications ----------------------------------------------------------------------------------------


def test_a_verification_is_pending_until_its_report_is_there(place: str) -> None:
    with ReportStore(place) as store:
        id = store.begin(session_id="s", project="/p", turn=4, verifier="v", details={"command": "pytest"})
        assert store.unfinished() == []  # this process runs it
        (pending,) = store.unfinished(everyones=True)
        assert (pending.id, pending.turn, pending.details) == (id, 4, {"command": "pytest"})
        assert pending.is_running
        report = store.finish(id, made(turn=4))
        assert report is not None
        assert store.unfinished(everyones=True) == []
        assert store.finish(id, made(turn=4)) is None
        assert len(store.list()) == 1


CHILD = """
import sys, time
from fairlead.verify.store import ReportStore
store = ReportStore(sys.argv[1])
store.begin(session_id="s", project="/p", turn=7, verifier="v", details={"n": 1})
print("begun", flush=True)
time.sleep(300)
"""


def test_a_verification_of_a_process_that_was_killed_is_found_and_reported(place: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, place], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"begun\n"
        with ReportStore(place) as store:
            assert store.unfinished() == []  # the other process is there
            child.send_signal(signal.SIGKILL)
            child.wait()
            (pending,) = store.unfinished()
            assert (pending.turn, pending.details, pending.is_running) == (7, {"n": 1}, False)
            report = pending.not_verified("the daemon was killed")
            assert (report.status, report.turn, report.session_id) == (Status.UNSURE, 7, "s")
            store.finish(pending.id, report)
            assert store.list()[0].summary == "could not verify: the daemon was killed"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_process_with_the_same_number_is_not_taken_for_the_one_that_died(place: str) -> None:
    with ReportStore(place) as store:
        store._owner = f"{os.getpid()} another start"
        store.begin(session_id="s", project="/p", turn=1, verifier="v")
        assert len(store.unfinished()) == 1


def test_details_and_pending_verifications_are_bounded(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_PENDING", 1)
    with ReportStore(place) as store:
        with pytest.raises(DatabaseFault, match="at most 65536 are kept"):
            store.begin(session_id="s", project="/p", turn=1, verifier="v", details={"x": "y" * 70_000})
        store.begin(session_id="s", project="/p", turn=1, verifier="v")
        with pytest.raises(DatabaseFault, match="at most 1 may"):
            store.begin(session_id="s", project="/p", turn=2, verifier="v")


# --- the file ---------------------------------------------------------------------------------------------


def test_a_damaged_file_is_set_aside_and_told(place: str) -> None:
    with ReportStore(place) as store:
        store.add(made())
    Path(place).write_bytes(b"no database at all" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(place + suffix).unlink(missing_ok=True)
    with ReportStore(place) as store:
        assert store.list() == []
        store.add(made())
        assert len(store.list()) == 1
        assert len(store.faults) == 1
        assert f"was moved to {place}.corrupt-1" in store.faults[0]
    assert Path(f"{place}.corrupt-1").read_bytes().startswith(b"no database")
    assert Path(place).stat().st_mode & 0o077 == 0


def test_a_place_that_can_not_be_is_a_fault_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DatabaseFault, match=r"can't open .*/file/reports.db"):
        ReportStore(str(tmp_path / "file" / "reports.db")).list()
