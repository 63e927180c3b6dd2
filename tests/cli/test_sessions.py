"""`fairlead sessions`: what is on disk, without a daemon."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.agent.journal import Journal, Said, SessionInfoEntry
from fairlead.agent.messages import user


@pytest.fixture
def home(tmp_path: Path) -> Path:
    sessions = tmp_path / ".local/state/fairlead/sessions"
    for number, (name, said) in enumerate((("garden", "water the roses"), ("", "mow\x1b[31m the lawn"))):
        path = sessions / f"--srv--/2026_{number}.jsonl"
        with Journal.create(str(path), id=f"id-{number}", cwd=f"/srv/{number}") as journal:
            journal.append(Said(user(said)))
            if name:
                journal.append(SessionInfoEntry(name))
    return tmp_path


def sessions(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}
    command = [sys.executable, "-m", "fairlead", "sessions", *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=home, timeout=30
    )


def test_sessions_are_listed_with_what_they_are_about(home: Path) -> None:
    done = sessions(home)
    assert done.returncode == 0
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["LAST", "USED", "MESSAGES", "WHAT", "DIRECTORY", "ID"]
    assert sorted(row.split()[-1] for row in rows) == ["id-0", "id-1"]
    assert "garden" in done.stdout
    assert "mow [31m the lawn" in done.stdout
    assert not (home / "run").exists()


def test_what_was_said_is_found(home: Path) -> None:
    done = sessions(home, "roses")
    assert [row.split()[-1] for row in done.stdout.splitlines()] == ["SESSION", "id-0"]
    (found,) = json.loads(sessions(home, "lawn", "--json").stdout)
    assert (found["transcript"]["id"], found["role"]) == ("id-1", "user")
    nobody = sessions(home, "tulips")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr == "no matches for 'tulips'\n"


def test_there_may_be_none(home: Path, tmp_path: Path) -> None:
    assert json.loads(sessions(home, "--json", "-n", "1").stdout)[0]["message_count"] == 1
    done = sessions(home, "--here")
    assert (done.returncode, done.stderr) == (1, "no agent sessions yet\n")


def test_an_index_that_is_locked_is_one_sentence_and_a_broken_one_is_made_again(home: Path) -> None:
    assert sessions(home).returncode == 0
    index = home / ".local/state/fairlead/transcripts.db"
    with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        locked = sessions(home)
    assert (locked.returncode, locked.stdout) == (1, "")
    assert locked.stderr == f"fairlead sessions: can't use {index}: database is locked\n"
    index.write_bytes(b"this is no database" * 100)
    mended = sessions(home)
    assert (mended.returncode, "garden" in mended.stdout, "Traceback" in mended.stderr) == (0, True, False)


def test_a_directory_does_not_control_the_terminal_that_lists_it(tmp_path: Path) -> None:
    path = tmp_path / ".local/state/fairlead/sessions/--srv--/2026_0.jsonl"
    with Journal.create(str(path), id="id-0", cwd="/srv/\x1b]52;c;QUJD\x07\x9b31m\u202ex") as journal:
        journal.append(Said(user("hello")))
    listed = sessions(tmp_path).stdout
    assert all(char.isprintable() or char == "\n" for char in listed)
    assert "/srv/<U+001B>]52;c;QUJD<U+0007><U+009B>31m<U+202E>x" in listed
