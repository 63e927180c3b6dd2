"""One bad file stops nobody else: journals with nonsense in them, databases that are none, false pictures."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import images as images_module
from fairlead.agent.images import checked_images
from fairlead.agent.journal import MAX_DEPTH, Journal, Said
from fairlead.agent.messages import Image, user
from fairlead.wire import rpc
from tests.client.editors import Editor
from tests.doors.passepartout_peer import Peer
from tests.hosting import Hosting

HEADER = {"type": "session", "version": 3, "timestamp": "2026-01-01T00:00:00.000Z"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + b"\0" * 40).decode()


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


def state(hosting: Hosting) -> Path:
    found = Path(hosting.environment["HOME"], ".local/state/fairlead")
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found


def doctor(hosting: Hosting) -> dict[str, dict[str, str]]:
    found = json.loads(hosting.run("doctor", "--json", check=False).stdout)
    return {check["name"]: check for check in found["checks"]}


# --- journals ---------------------------------------------------------------------------------------------

BAD_LINES = {
    "nested": b"[" * 100_000,
    "nested in an entry": b'{"type":"custom","id":"a","customType":"x","data":'
    + b"[" * 900
    + b"]" * 900
    + b"}",
    "no UTF-8": b'{"type":"message","id":"a","message":{"role":"user","content":"\xff"}}',
    "no JSON": b"\0\0\0",
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_a_fault_of_its_journal_and_no_more(tmp_path: Path, bad: str) -> None:
    path = str(tmp_path / "x.jsonl")
    with Journal.create(path, id="x", cwd="/") as journal:
        journal.append(Said(user("before")))
    with open(path, "ab") as file:
        file.write(BAD_LINES[bad] + b"\n")
    with Journal.open(path) as journal:
        journal.append(Said(user("after")))
        assert len(journal.faults) == 1
    with Journal.open(path, writable=False) as journal:
        assert [each.line for each in journal.entries if isinstance(each.body, Said)] == [2, 4]


def test_what_nests_as_deep_as_may_be_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "x.jsonl")
    deep = MAX_DEPTH - 1  # the entry itself is the first
    line = b'{"type":"custom","id":"a","customType":"[[\\"","data":' + b"[" * deep + b"]" * deep + b"}\n"
    Journal.create(path, id="x", cwd="/").close()
    with open(path, "ab") as file:
        file.write(line + line.replace(b'"[[', b'"' + b"[" * 500))
    with Journal.open(path) as journal:
        assert (journal.faults, len(journal.entries)) == ([], 2)


def test_bad_journals_stop_no_other_session(hosting: Hosting) -> None:
    folder = state(hosting) / "sessions" / "--x--"
    folder.mkdir(mode=0o700, parents=True)
    marks = state(hosting) / "sessions" / ".waiting"
    marks.mkdir(mode=0o700)
    for number, bad in enumerate(BAD_LINES.values()):
        header = json.dumps({**HEADER, "id": f"bad{number}", "cwd": "/tmp"}).encode()
        name = b'{"type":"session_info","id":"n","name":"bad"}\n'
        (folder / f"t_bad{number}.jsonl").write_bytes(header + b"\n" + name + bad + b"\n")
        (folder / f"t_worse{number}.jsonl").write_bytes(bad)
        (marks / f"bad{number}").touch()
        (marks / f"worse{number}").touch()  # a daemon loads what has a mark
    assert "hello" in hosting.run("agent", "good", "-p", "say: hello").stdout
    assert "again" in hosting.run("agent", "good", "-p", "say: again").stdout
    assert {"good", "bad"} <= {row["name"] for row in json.loads(hosting.run("sessions", "--json").stdout)}
    assert doctor(hosting)["journals"]["status"] == "degraded"


# --- databases --------------------------------------------------------------------------------------------


def _newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def _away(path: Path) -> None:
    path.symlink_to("/nowhere/at/all.db")  # as on a disk that can't be written to


BAD_DATABASES: dict[str, Callable[[Path], Any]] = {
    "a directory": lambda path: (path / "with").mkdir(parents=True),
    "a pipe": os.mkfifo,
    "garbage": lambda path: path.write_bytes(b"garbage " * 1000),
    "no permission": lambda path: path.touch(mode=0),
    "a newer schema": _newer,
    "no place": _away,
}
SAID = {
    "a directory": "it is not a file",
    "a pipe": "it is not a file",
    "garbage": "file is not a database",
    "no permission": "had mode 0000",
    "a newer schema": "from a newer Fairlead",
    "no place": "No such file or directory",
}


@pytest.mark.parametrize(
    "bad",
    [  # of control, transcripts, memory and reports
        ("a directory", "garbage", "a pipe", "no permission"),
        ("garbage", "a directory", "a newer schema", "a pipe"),
        ("a newer schema", "no place", "garbage", "a directory"),
        ("no place", "a newer schema", "no permission", "garbage"),
    ],
    ids=lambda bad: bad[0],
)
def test_databases_that_are_none_stop_no_session_and_doctor_says_so(
    hosting: Hosting, bad: tuple[str, ...]
) -> None:
    names = ("control.db", "transcripts.db", "memory.db", "reports.db")
    for name, kind in zip(names, bad):
        BAD_DATABASES[kind](state(hosting) / name)
    assert "hello" in hosting.run("agent", "good", "-p", "say: hello").stdout
    assert "again" in hosting.run("agent", "good", "-p", "say: again").stdout
    (row,) = json.loads(hosting.run("sessions", "--json").stdout)
    assert (row["name"], row["message_count"]) == ("good", 4)
    found = doctor(hosting)["databases"]
    assert found["status"] in ("degraded", "unhealthy")
    for name, kind in zip(names, bad):
        if (name, kind) != ("transcripts.db", "a newer schema"):  # that one is just made again
            assert f"{name}" in found["detail"]
            assert SAID[kind] in found["detail"]
    with Peer(hosting=hosting) as peer:
        answer = peer.ask("/run rm nothing")
    control = state(hosting) / "control.db"
    if bad[0] in ("a newer schema", "no place"):  # a question that can't be written down is never asked
        assert answer.startswith("blocked: ")
        assert str(control) in answer
    else:
        assert "waits for your consent" in answer
        assert stat.S_IMODE(control.stat().st_mode) == 0o600
        assert Path(f"{control}.corrupt-1").exists()  # nothing is deleted that is not ours


# --- pictures ---------------------------------------------------------------------------------------------

BAD_IMAGES = {
    "no base64": ([("%%%", "image/png")], "picture 1 is not base64"),
    "base64 with a tail": ([(PNG + "!", "image/png")], "picture 1 is not base64"),
    "no picture": ([("aGVsbG8=", "image/png")], "picture 1 is not a PNG, JPEG, GIF or WebP"),
    "another type": ([(PNG, "image/png"), (PNG, "image/jpeg")], "picture 2 is image/png, not 'image/jpeg'"),
    "a cut one": ([("iVBORw0KGgo=", "image/png")], "picture 1 is not a PNG, JPEG, GIF or WebP"),
}


def test_pictures_that_no_model_could_read_never_reach_a_journal(hosting: Hosting, tmp_path: Path) -> None:
    editor = Editor(hosting, tmp_path)
    editor.ask("handshake")
    journal = Path(editor.ask("get_state")["state"]["session_file"])
    before = journal.read_bytes()
    for given, wrong in BAD_IMAGES.values():
        images = [rpc.fields(data=data, mime_type=kind) for data, kind in given]
        for op in ("prompt", "steer", "follow_up"):
            answer = editor.ask(op, message="look", images=images)
            assert isinstance(answer, rpc.Error)
            assert wrong in answer.message
    good = [rpc.fields(data=PNG, mime_type="image/png")]
    answer = editor.ask("prompt", message="look", images=good)
    assert isinstance(answer, rpc.Error)
    assert answer.message == "offline/guide takes no images; choose a model that does"
    assert journal.read_bytes() == before
    editor.close()


def test_pictures_are_counted_one_by_one_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image(PNG, "image/png")
    size = len(PNG) * 3 // 4
    monkeypatch.setattr(images_module, "MAX_IMAGES_SIZE", 2 * size)
    assert checked_images([image] * 2) == (image, image)
    with pytest.raises(ValueError, match="in all"):
        checked_images([image] * 4)
    monkeypatch.setattr(images_module, "MAX_IMAGE", size // 2)
    with pytest.raises(ValueError, match="picture 1 has"):
        checked_images([image])
