"""What the console opens by a path that a session's program can put something else at."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.terminal.recording import Recorder, RecordingError
from tests.web.browser import Browser, ConsoleHosting


def fifo(secret: Path, path: Path) -> None:
    os.mkfifo(path)


def copy(secret: Path, path: Path) -> None:
    path.write_bytes(secret.read_bytes())


def linked_directory(secret: Path, path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(secret.parent)
    (secret.parent / path.name).hardlink_to(secret)


REPLACED: list[Callable[[Path, Path], None]] = [
    lambda secret, path: path.symlink_to(secret),
    lambda secret, path: path.hardlink_to(secret),
    *(fifo, copy, linked_directory),
]


@pytest.mark.parametrize("replace", REPLACED, ids=("symlink", "hardlink", "fifo", "file", "directory"))
def test_a_recording_is_the_file_that_was_made(
    console: ConsoleHosting,
    browser: Browser,
    tmp_path: Path,
    replace: Callable[[Path, Path], None],
    request: pytest.FixtureRequest,
) -> None:
    (tmp_path / "home").mkdir()
    secret = tmp_path / "home" / "key"
    secret.write_text('{"version": 3, "term": {"cols": 80, "rows": 24}}\nTOP SECRET\n')
    project = tmp_path / "project"
    project.mkdir()
    path = project / "r.cast"
    name = f"replaced-{request.node.callspec.id}"
    console.hosting.start(name, "cat")
    try:
        assert browser.op("terminal_record", name=name, path=str(path)).status == 200
        guest, _ = console.share(name, "watcher")
        for each in (browser, guest):
            assert each.ask("GET", f"/api/recordings/{name}").status == 200
        path.unlink()
        replace(secret, path)
        for stopped in (False, True):
            if stopped:
                console.hosting.run("record", name, "--stop")
            for each in (browser, guest):
                answer = each.ask("GET", f"/api/recordings/{name}")
                assert (answer.status, answer.code) == (404, "request/not-found")
    finally:
        console.hosting.run("stop", name)


def test_a_recording_with_another_name_is_not_sent(
    console: ConsoleHosting, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "r.cast"
    console.hosting.start("named-twice", "cat")
    assert browser.op("terminal_record", name="named-twice", path=str(path)).status == 200
    assert browser.ask("GET", "/api/recordings/named-twice").status == 200
    (tmp_path / "other").hardlink_to(path)
    assert browser.ask("GET", "/api/recordings/named-twice").status == 404
    (tmp_path / "other").unlink()
    assert browser.ask("GET", "/api/recordings/named-twice").status == 200
    console.hosting.run("stop", "named-twice")


def test_a_recording_goes_on_only_in_the_file_that_was_begun(tmp_path: Path) -> None:
    path, other = tmp_path / "r.cast", tmp_path / "other.cast"
    made = [Recorder.create(str(each), (80, 24), title="r", command=["sh"]) for each in (path, other)]
    for each in made:
        each.close()
    Recorder.resume(str(path), made[0].file).close()
    path.unlink()
    path.hardlink_to(other)
    before = other.read_bytes()
    for known in (made[0].file, ""):
        with pytest.raises(RecordingError, match=r"another file|other names"):
            Recorder.resume(str(path), known)
    assert other.read_bytes() == before
