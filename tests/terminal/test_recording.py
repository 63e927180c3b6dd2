"""The recorder writes asciicast that can be gone on with wherever its daemon died."""

from __future__ import annotations

import os
import re
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminal import recording
from fairlead.terminal.recording import BATCH, MAX_COMMAND, MAX_EVENT, MAX_HEADER, Recorder, RecordingError
from tests.recordings import recorded_events, recorded_lines, recorded_output


def create(path: Path, **more: object) -> Recorder:
    path.unlink(missing_ok=True)
    return Recorder.create(str(path), (80, 24), title="work", command=["sh", "-c", "a b"], **more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.cast"


def test_a_file_is_asciicast_with_a_comment_after_each_batch(path: Path) -> None:
    recorder = create(path, terminal="xterm-256color")
    recorder.printed(0, b'a "quoted" \\ \x1b[1mword\r\n')
    recorder.resized(132, 50, 1)
    recorder.printed(23, "é漢😀".encode())
    recorder.flush()
    recorder.exited(3)
    text = re.sub(r'"timestamp":\d+', '"timestamp":0', path.read_text())
    assert re.sub(r"\d+\.\d{3}", "0.000", text) == (
        '{"version":3,"term":{"cols":80,"rows":24,"type":"xterm-256color"},"timestamp":0,'
        '"command":"sh -c \'a b\'","title":"work"}\n'
        "# fairlead offset=0 generation=0 time=0.000\n"
        '[0.000, "o", "a \\"quoted\\" \\\\ \\u001b[1mword\\r\\n"]\n'
        '[0.000, "r", "132x50"]\n'
        '[0.000, "o", "é漢😀"]\n'
        "# fairlead offset=32 generation=1 time=0.000\n"
        '[0.000, "x", "3"]\n'
        "# fairlead offset=32 generation=1 time=0.000 exit=3\n"
    )
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_command_that_is_long_is_cut_so_that_the_header_can_be_read_again(path: Path) -> None:
    Recorder.create(str(path), (80, 24), title="x" * 255, command=["\x01" * 1_000_000]).close()
    header = recorded_lines(path)[0]
    assert len(header["command"]) == MAX_COMMAND + 1
    assert len(path.read_bytes().partition(b"\n")[0]) < MAX_HEADER
    Recorder.resume(str(path)).close()


def test_a_command_may_have_bytes_that_are_no_characters(path: Path) -> None:
    Recorder.create(str(path), (80, 24), title="a\udcff", command=["a\udcffb"]).close()
    assert (recorded_lines(path)[0]["title"], recorded_lines(path)[0]["command"]) == ("a?", "'a?b'")


PIECES = st.lists(st.one_of(st.text().map(str.encode), st.binary(max_size=8)), max_size=8)


@given(pieces=PIECES, cuts=st.lists(st.integers(0, 60)), dies=st.lists(st.booleans()))
def test_characters_may_be_cut_anywhere_and_the_daemon_die_there(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cuts: list[int], dies: list[bool]
) -> None:
    path = tmp_path_factory.mktemp("cast") / "work.cast"
    data = b"".join(pieces)
    recorder = create(path)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for number, (start, end) in enumerate(pairwise(places)):
        recorder.printed(start, data[start:end])
        recorder.flush()  # as before a keyframe: the keeper may have forgotten what is before it
        if number < len(dies) and dies[number]:
            recorder = Recorder.resume(str(path))
    recorder.exited(0)
    assert recorded_output(path) == data.decode("utf-8", "replace")


def test_a_file_that_breaks_off_anywhere_is_gone_on_with_as_if_nothing_had_happened(path: Path) -> None:
    output = "".join(f"line {number} é漢😀\r\n" for number in range(12)).encode()

    def tell(recorder: Recorder) -> None:
        """All of it, as the keeper tells it to each daemon: in other pieces each time."""
        for start in range(0, len(output), 23):
            recorder.printed(start, output[start : start + 23])
            if start == 69:
                recorder.resized(100, 30, 1)
            if start == 161:
                recorder.resized(90, 20, 2)
            if start % 2:
                recorder.flush()

    recorder = create(path)
    began = path.stat().st_size
    tell(recorder)
    recorder.exited(7)
    whole, wanted = path.read_bytes(), recorded_events(path)
    assert [code for code, _ in wanted] == ["o", "r", "o", "r", "o", "x"]
    assert recorded_output(path) == output.decode()
    for size in range(began, len(whole) + 1):
        path.write_bytes(whole[:size])
        again = Recorder.resume(str(path))
        tell(again)
        again.exited(7)
        assert again.over
        assert recorded_events(path) == wanted, f"cut at {size}"


def test_a_torn_batch_of_the_longest_kind_is_cut_off(path: Path) -> None:
    recorder = create(path)
    recorder.printed(0, b"before")
    recorder.flush()
    good = path.read_bytes()
    flood = bytes(MAX_EVENT - 1)  # each byte is six in JSON
    offset = 6
    for _ in range(10):
        if path.stat().st_size == len(good):
            recorder.printed(offset, flood)
            offset += len(flood)
    torn = path.read_bytes()[:-1]
    assert len(torn) - len(good) > BATCH
    path.write_bytes(torn)
    assert Recorder.resume(str(path)).offset == 6
    assert path.read_bytes() == good


def test_an_event_is_never_long_and_no_batch_is_left_behind_in_memory(path: Path) -> None:
    recorder = create(path)
    data = b"x" * (10 * MAX_EVENT + 5)
    recorder.printed(0, data)
    recorder.exited(0)
    texts = [text for _, code, text in recorded_lines(path)[1:] if code == "o"]
    assert "".join(texts).encode() == data
    assert max(map(len, texts)) <= MAX_EVENT
    assert path.read_bytes().count(b"\n# fairlead") > 2


def test_after_the_end_nothing_is_written(path: Path) -> None:
    recorder = create(path)
    recorder.printed(0, b"all")
    recorder.exited(0)
    whole = path.read_bytes()
    for each in (recorder, Recorder.resume(str(path))):
        assert each.over
        assert not each.unwritten
        each.printed(0, b"all and more")
        each.resized(10, 10, 5)
        each.exited(1)
        each.flush()
        each.close()
    assert path.read_bytes() == whole


def test_a_character_that_never_ends_is_replaced_at_the_end(path: Path) -> None:
    recorder = create(path)
    recorder.printed(0, b"a\xe6\xbc")
    recorder.flush()
    assert path.read_bytes().endswith(b" held=e6bc\n")
    recorder.exited(0)
    assert recorded_output(path) == "a�"


def test_times_go_on_with_the_wall_clock_and_never_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = create(path)
    recorder.printed(0, b"one")
    recorder.close()
    now = time.time()
    for offset, moment in ((3, now + 100), (4, now - 1000)):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        recorder = Recorder.resume(str(path))
        recorder.printed(offset, b"x")
        recorder.close()
    recorder = Recorder.resume(str(path))
    later = time.monotonic() + 5
    monkeypatch.setattr(time, "monotonic", lambda: later)
    recorder.printed(5, b"x")
    recorder.close()
    monkeypatch.undo()
    first, second, third, fourth = (interval for interval, _, _ in recorded_lines(path)[1:])
    assert 0 <= first < 50
    assert 99 <= second <= 101
    assert 0 <= third < 1
    assert 4 <= fourth <= 6


def test_what_the_screen_showed_comes_first_and_may_end_within_a_character(path: Path) -> None:
    recorder = create(path, offset=1000, generation=4, redraw=b"screen\xe6")
    assert (
        path.read_bytes().endswith(b"offset=1000 generation=4 time=0.000 held=e6\n")
        or b" held=e6\n" in path.read_bytes()
    )
    recorder = Recorder.resume(str(path))
    recorder.resized(1, 1, 4)
    recorder.printed(990, b"..........\xbc\xa2.")
    recorder.exited(0)
    assert recorded_events(path) == [("o", "screen漢."), ("x", "0")]


def test_output_that_nobody_has_any_more_is_marked_and_the_screen_follows(path: Path) -> None:
    recorder = create(path)
    recorder.printed(0, b"one\xe6")
    recorder.skipped(1000, 3, (90, 20), b"screen")
    recorder.printed(1000, b" two")
    recorder.exited(0)
    assert recorded_events(path) == [
        ("o", "one"),
        ("m", "996 bytes of output were not recorded"),
        ("r", "90x20"),
        ("o", "screen two"),
        ("x", "0"),
    ]


def test_a_gap_ends_the_recording(path: Path) -> None:
    recorder = create(path)
    with pytest.raises(RecordingError, match="bytes 0 to 5 of the output are missing"):
        recorder.printed(5, b"late")
    assert recorder.over
    recorder.printed(9, b"ignored")


def test_a_file_is_never_replaced(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(RecordingError, match=f"{path} exists; a recording never replaces a file"):
        Recorder.create(str(path), (80, 24), title="", command=[])
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/work.cast", "no such directory: .*/missing"),
        ("file/work.cast", "can't create .*: Not a directory"),
        ("a\0b", "can't create .*: embedded null byte"),
    ],
)
def test_a_file_that_cant_be_made_says_why(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match=reason):
        Recorder.create(f"{tmp_path}/{place}", (80, 24), title="", command=[])


def spoil_by_removing(path: Path) -> str:
    path.unlink()
    return "the file was removed"


def spoil_by_appending(path: Path) -> str:
    with path.open("a") as file:
        file.write("# a note\n")
    return "the file was changed by another program"


@pytest.mark.parametrize("spoil", [spoil_by_removing, spoil_by_appending])
def test_a_file_that_is_not_as_it_was_left_ends_the_recording(path: Path, spoil: object) -> None:
    recorder = create(path)
    recorder.printed(0, b"one")
    reason = spoil(path)  # type: ignore[operator]
    with pytest.raises(RecordingError, match=f"can't continue {path}: {reason}"):
        recorder.flush()
    recorder.flush()
    assert recorder.over


def test_a_full_disk_ends_the_recording_after_the_last_whole_batch(path: Path) -> None:
    recorder = create(path)
    recorder.printed(0, b"one")
    recorder.flush()
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 1000, hard))
    try:
        recorder.printed(3, b"x" * 2000)
        with pytest.raises(RecordingError, match="File too large"):
            recorder.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole


def test_a_file_that_is_not_a_recording_of_ours_is_left_alone(tmp_path: Path) -> None:
    header = '{"version":3,"term":{"cols":80,"rows":24}}\n'
    contents = {
        "foreign.cast": (
            header + '[0.1, "o", "# fairlead offset=0 generation=0 time=0.000\\n"]\n',
            "does not say",
        ),
        "half.cast": (header + "# fairlead offset=0 generation=0 time=0.000 held=abc\n", "can't continue"),
        "quoted.cast": (header + "# see # fairlead offset=0 generation=0 time=0.000\n", "does not say"),
        "text.cast": ("# fairlead offset=0 generation=0 time=0.000\n", "not an asciicast header"),
        "empty.cast": ("", "not an asciicast header"),
    }
    for name, (content, reason) in contents.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(RecordingError, match=reason):
            Recorder.resume(str(tmp_path / name))
        assert (tmp_path / name).read_text() == content
    os.symlink(tmp_path / "empty.cast", tmp_path / "link.cast")
    for name, reason in (
        ("link.cast", "Too many levels"),
        ("none.cast", "No such file"),
        (".", "Is a directory"),
    ):
        with pytest.raises(RecordingError, match=reason):
            Recorder.resume(str(tmp_path / name))


def test_only_the_end_of_a_long_file_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = create(path)
    for number in range(200):
        recorder.printed(number * MAX_EVENT, b"x" * MAX_EVENT)
    recorder.close()
    read = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert Recorder.resume(str(path)).offset == 200 * MAX_EVENT
    assert sum(read) <= MAX_HEADER + recording._LOOKED_AT[0]
