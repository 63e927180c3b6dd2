"""`fairlead reports`: what verifiers have said, as a table, whole, as JSON and as a picture."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairlead.agent.journal import Journal, SessionInfoEntry
from fairlead.system.settings import Settings
from fairlead.verify.report import CommandRun, Confidence, Report, Section, Status
from fairlead.verify.store import ReportStore
from tests.hosting import WAIT, Hosting

NAMED = "0d3c0a4e-0000-4000-8000-000000000001"
"""The id of a session that has a name."""
CHECKER = "pytest -q --strict-markers tests"
EVIL = "\x1b]0;owned\x07\x1b[31mred"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def hosting(project: Path) -> Iterator[Hosting]:
    """A home with reports in it; no daemon is started."""
    hosting = Hosting()
    settings = Settings(hosting.environment)
    statuses = {
        Confidence.PERFECT: Status.VERIFIED,
        Confidence.FEEDBACK: Status.FAILED,
        Confidence.FAILED: Status.UNSURE,
    }
    with ReportStore(settings.reports_path) as store:
        for number, confidence in enumerate(statuses):
            store.add(
                Report(
                    status=statuses[confidence],
                    confidence=confidence,
                    summary=f"look {number}" if number else EVIL,
                    session_id=NAMED if number else "work",
                    project=str(project) if number else "/elsewhere",
                    verifier=CHECKER,
                    kind="command",
                    turn=number + 1,
                    lines=(1, 9),
                    commands=(CommandRun("pytest -q", number, 1.5),),
                    sections=(Section("Found", "it is so"),),
                    refused=("write evil.txt",) if number == 2 else (),
                    duration=2.5,
                    time=time.time() - 100 + number,
                )
            )
    journal = Journal.create(f"{settings.sessions_dir}/p/2026_{NAMED}.jsonl", id=NAMED, cwd=str(project))
    journal.append(SessionInfoEntry("garden"))
    journal.close()
    yield hosting
    assert not Path(settings.rpc_path).exists()  # it needs no daemon
    hosting.close()


def shown(
    hosting: Hosting, *words: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairlead", "reports", *words],
        env={**hosting.environment, **more},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def turns(done: subprocess.CompletedProcess[str]) -> list[int]:
    return [row["turn"] for row in json.loads(done.stdout)]


def test_the_newest_reports_are_a_table_that_no_summary_can_spoil(hosting: Hosting) -> None:
    done = shown(hosting)
    assert done.returncode == 0
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["ID", "WHEN", "SESSION", "TURN", "CONFIDENCE", "VERIFIER", "SUMMARY"]
    assert [row.split()[3] for row in rows] == ["garden", "garden", "work"]  # and no id of what has a name
    assert [row.split()[5] for row in rows] == ["ERROR", "FAILED", "PERFECT"]
    assert [row[head.index("SUMMARY") :] for row in rows[:2]] == ["look 2", "look 1"]
    assert "\x1b" not in done.stdout
    assert all(CHECKER in row for row in rows)  # what goes to a pipe is whole
    assert len(shown(hosting, "-n", "1").stdout.splitlines()) == 2


def test_json_has_everything_that_is_listed(hosting: Hosting, project: Path) -> None:
    done = shown(hosting, "--json")
    newest, _, oldest = json.loads(done.stdout)
    assert (newest["confidence"], newest["status"], newest["project"]) == ("failed", "unsure", str(project))
    assert (oldest["summary"], oldest["duration"]) == (EVIL, 2.5)
    assert (newest["session_id"], newest["session_name"]) == (NAMED, "garden")
    assert (oldest["session_id"], oldest["session_name"]) == ("work", None)


def test_reports_are_found_by_session_name_or_id_and_by_directory(hosting: Hosting, project: Path) -> None:
    assert turns(shown(hosting, "--json", NAMED)) == [3, 2]
    assert turns(shown(hosting, "--json", "garden")) == [3, 2]
    assert turns(shown(hosting, "--json", "work")) == [1]
    assert turns(shown(hosting, "--json", str(project))) == [3, 2]
    assert turns(shown(hosting, "--json", ".", cwd=project)) == [3, 2]
    nothing = shown(hosting, "nobody")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr.startswith(
        "fairlead reports: no reports for a session with the name or id prefix 'nobody'"
    )
    assert shown(hosting, "--json", "nobody").stdout == "[]\n"


def test_a_project_is_found_by_a_link_to_it_and_one_that_is_a_link_by_its_name(
    hosting: Hosting, project: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    assert turns(shown(hosting, "--json", str(link))) == [3, 2]
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        store.add(
            Report(
                status=Status.VERIFIED,
                confidence=Confidence.VERIFIED,
                summary="by the link",
                project=str(link),
                turn=9,
                time=1.0,
            )
        )
    assert turns(shown(hosting, "--json", str(link))) == [3, 2, 9]


def test_one_report_is_shown_whole(hosting: Hosting) -> None:
    done = shown(hosting, "--show", "3")
    assert done.stdout.startswith("ERROR  look 2\n")
    for fact in (
        "verifier:   pytest -q",
        f"session:    garden ({NAMED})",
        "turn:       3",
        "lines:      1-9",
        "command:    pytest -q -> exit code 2",
        "refused:    write evil.txt",
        "STATUS: unsure",
        "### Found\n\nit is so",
    ):
        assert fact in done.stdout, fact
    whole = json.loads(shown(hosting, "--show", "3", "--json").stdout)
    assert whole["sections"] == [{"title": "Found", "text": "it is so"}]
    missing = shown(hosting, "--show", "999")
    assert (missing.returncode, missing.stderr) == (1, "fairlead reports: no report 999\n")


def test_a_whole_report_cannot_control_the_terminal(hosting: Hosting) -> None:
    assert not {"\x1b", "\x07"} & set(shown(hosting, "--show", "1").stdout)


def test_confidence_over_time_is_a_line_or_a_picture(hosting: Hosting, tmp_path: Path) -> None:
    line = shown(hosting, "--plot", NAMED)
    assert line.returncode == 0
    assert line.stdout.strip()
    picture = tmp_path / "confidence.svg"
    done = shown(hosting, NAMED, f"--plot={picture}")
    assert (done.returncode, done.stdout) == (0, f"{picture}\n")
    root = ElementTree.fromstring(picture.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "look 2" in picture.read_text()
    whole = tmp_path / "all.svg"
    shown(hosting, f"--plot={whole}")
    ElementTree.fromstring(whole.read_text())  # what a summary has in it does not break it
    away = shown(hosting, f"--plot={tmp_path}/none/x.svg")
    assert (away.returncode, "can't write" in away.stderr) == (1, True)


def test_before_there_are_reports_it_says_so(hosting: Hosting, tmp_path: Path) -> None:
    done = shown(hosting, FAIRLEAD_STATE_DIR=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "fairlead reports: no reports yet\n")
    assert list(tmp_path.iterdir()) == []
