"""read, ls, edit and write on real files."""

import asyncio
import os
import socket
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.agent.tools import Result, diff
from fairlead.agent.tools.arguments import schema
from fairlead.agent.tools.files import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_LINES,
    MAX_PREVIEWED,
    MAX_TEXT,
    Edit,
    EditArguments,
    List,
    Read,
    Write,
)
from fairlead.agent.tools.replacing import BOM, Replacement, replaced
from tests.agent.tooling import call


def edit(cwd: Path, path: str, *pairs: tuple[str, str]) -> Result:
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return call(Edit(), cwd, path=path, edits=edits)


# --- read -----------------------------------------------------------------------------------------------


def test_read_gives_the_text_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ttwo  \nthree")
    result = call(Read(), tmp_path, path="a.txt")
    assert not result.is_error
    assert result.text == "one\n\ttwo  \nthree"
    assert (result.details["firstLine"], result.details["lastLine"]) == (1, 3)


def test_read_gives_the_lines_that_are_asked_for_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    result = call(Read(), tmp_path, path="a.txt", offset=4, limit=2)
    assert result.text.startswith("line 4\nline 5\n\n[Lines 4 to 5 of")
    assert "offset=6" in result.text
    assert call(Read(), tmp_path, path="a.txt", offset=10).text == "line 10\n"


@pytest.mark.parametrize(("text", "lines"), [("a\nb\n", 2), ("a\nb", 2), ("", 0)])
def test_read_after_the_end_says_how_many_lines_there_are(text: str, lines: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    result = call(Read(), tmp_path, path="a.txt", offset=3)
    assert result.is_error
    assert result.text == f"a.txt has {lines} lines; there is no line 3"


def test_read_stops_at_the_limit_of_lines_and_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("x\n" * (MAX_LINES + 5))
    assert f"offset={MAX_LINES + 1}" in call(Read(), tmp_path, path="many.txt").text
    (tmp_path / "wide.txt").write_text(("y" * 1023 + "\n") * 100)
    result = call(Read(), tmp_path, path="wide.txt")
    assert result.details["lastLine"] == MAX_BYTES // 1024
    assert len(result.text) < MAX_BYTES + 200


def test_read_takes_of_a_file_of_100_megabytes_only_what_it_needs(tmp_path: Path) -> None:
    with open(tmp_path / "big.txt", "wb") as file:
        file.write(b"first\n" * 5000)
        file.truncate(100_000_000)  # a hole, full of NULs that nobody should come to see
    before = _bytes_read()
    result = call(Read(), tmp_path, path="big.txt", offset=3, limit=2)
    assert not result.is_error
    assert result.text.startswith("first\nfirst\n\n[Lines 3 to 4 of a file of 100.0 MB")
    if before is not None:
        assert (_bytes_read() or 0) - before < 5_000_000


def _bytes_read() -> int | None:
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:
        return None


def test_read_gives_the_beginning_of_a_line_without_end(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("x" * 300_000)
    result = call(Read(), tmp_path, path="one.json")
    assert "Line 1 is longer than" in result.text
    assert len(result.text) < MAX_BYTES + 300


def test_read_refuses_a_binary_file_with_its_size_and_kind(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(1000))
    result = call(Read(), tmp_path, path="a.out")
    assert result.is_error
    assert "binary file (ELF program or library, 1.0 kB)" in result.text
    (tmp_path / "noise").write_bytes(bytes(range(128, 256)) * 10)
    assert "unknown binary data" in call(Read(), tmp_path, path="noise").text


def _png() -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", 640, 480, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", _png(), "PNG"),
        ("a.gif", b"GIF89a" + struct.pack("<HH", 640, 480) + bytes(10), "GIF"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640), "JPEG"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0", "WebP"),
    ],
)
def test_read_describes_a_picture(name: str, data: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    result = call(Read(), tmp_path, path=name)
    assert not result.is_error
    assert f"{name} is a picture ({kind}, 640 × 480 pixels" in result.text
    assert result.details["mimeType"].startswith("image/")


@given(
    st.binary(max_size=200),
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBP", b""]),
)
def test_read_copes_with_any_bytes(data: bytes, head: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "file").write_bytes(head + data)
        assert isinstance(call(Read(), Path(directory), path="file").text, str)


def test_read_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a directory" in call(Read(), tmp_path, path=".").text
    assert "is a named pipe" in call(Read(), tmp_path, path="pipe").text
    assert "is a device" in call(Read(), tmp_path, path="/dev/zero").text
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert call(Read(), tmp_path, path="s").is_error
    missing = call(Read(), tmp_path, path="missing")
    assert missing.is_error
    assert missing.text == f"{os.path.realpath(tmp_path)}/missing: No such file or directory"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "the argument `path` is missing"),
        ({"path": ["x"]}, "`path`: expected `str`, got `array`"),
        ({"path": "x", "offset": 0}, "`offset`: expected `int` >= 1"),
        ({"path": "x", "colour": "red"}, "there is no argument `colour`"),
        ({"path": "a\0b"}, "NUL character"),
        ({"path": "x" * 5000}, "at most 4096 characters"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        Read().touches(arguments, tmp_path)
    assert words in str(error.value)
    assert words in call(Read(), tmp_path, **arguments).text


def test_numbers_in_quotes_and_null_and_snake_case_are_understood(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert call(Read(), tmp_path, path="a.txt", offset="2", limit=None).text == "two\n"
    assert not call(Edit(), tmp_path, path="a.txt", old_text="one", new_text="1").is_error
    assert (tmp_path / "a.txt").read_text() == "1\ntwo\n"


def test_a_schema_has_no_references() -> None:
    made = schema(EditArguments)
    assert "$ref" not in str(made)
    assert made["required"] == ["path", "edits"]
    assert set(made["properties"]["edits"]["items"]["properties"]) == {"oldText", "newText"}


# --- where paths lead -----------------------------------------------------------------------------------


def test_a_touch_has_the_path_with_links_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (project / "link").symlink_to(outside)
    real = Path(os.path.realpath(outside))
    assert Read().touches({"path": "link/secret.txt"}, project).paths == (real / "secret.txt",)
    assert Read().touches({"path": "../outside/x"}, project).paths == (real / "x",)
    assert Write().touches({"path": "link/new", "content": ""}, project).paths == (real / "new",)
    assert Read().touches({"path": "~/x"}, project).paths == (Path(os.path.realpath(Path.home())) / "x",)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Read(), {"path": "dir/a.txt"}),
        (Write(), {"path": "dir/a.txt", "content": "new"}),
        (Edit(), {"path": "dir/a.txt", "edits": [{"oldText": "out", "newText": "new"}]}),
        (List(), {"path": "dir"}),
    ],
)
def test_a_call_is_refused_when_its_path_leads_elsewhere_than_what_was_judged(
    tool: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for directory, text in ((project / "dir", "in"), (outside, "out")):
        directory.mkdir(parents=True)
        (directory / "a.txt").write_text(text)
    project = Path(os.path.realpath(project))
    judged = tool.touches(arguments, project)
    (project / "dir").rename(project / "moved")
    (project / "dir").symlink_to(outside)
    result = call(tool, project, judged=judged, **arguments)
    assert result.is_error
    assert "has changed since it was judged" in result.text
    assert (outside / "a.txt").read_text() == "out"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Write(), {"path": "a.txt", "content": "new"}),
        (Edit(), {"path": "a.txt", "edits": [{"oldText": "a\n", "newText": "b\n"}]}),
    ],
)
@pytest.mark.parametrize("before", ["a\n", "a\n" + "x" * MAX_PREVIEWED])
def test_a_file_that_changed_since_its_change_was_judged_is_left_alone(
    tool: Any, arguments: dict[str, Any], before: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(before)
    judged = tool.touches(arguments, tmp_path.resolve())
    path.write_text("now: a\n")
    result = call(tool, tmp_path, judged=judged, **arguments)
    assert (result.is_error, "a.txt has changed since" in result.text) == (True, True)
    assert path.read_text() == "now: a\n"
    judged = tool.touches(arguments, tmp_path.resolve())
    assert not call(tool, tmp_path, judged=judged, **arguments).is_error


def test_who_allows_a_new_text_without_a_diff_is_told_how_much_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for before, words in {
        "x\n" * MAX_PREVIEWED: f"{MAX_PREVIEWED} lines, 2.1 MB",
        "x" * MAX_TEXT * 2: "16.8 MB",
        "\n".join(map(str, range(50_000))): "50000 lines, 288.9 kB",
    }.items():
        path.write_text(before)
        touch = Write().touches({"path": "a.txt", "content": "new\n"}, tmp_path.resolve())
        assert touch.summary == f"write a.txt, replacing {words}"
    path.write_text("old\n" * 5000)
    touch = Write().touches({"path": "a.txt", "content": "new\n"}, tmp_path.resolve())
    assert (touch.summary, touch.preview.count("\n-old")) == ("write a.txt", 5000)


def test_a_link_that_appears_after_the_path_was_resolved_is_not_followed(tmp_path: Path) -> None:
    from fairlead.system.opening import PathError, directory, open_here

    top = Path(os.path.realpath(tmp_path))
    (top / "real").mkdir()
    (top / "real" / "file").write_text("x")
    (top / "dir").symlink_to(top / "real")
    (top / "file").symlink_to(top / "real" / "file")
    for path in (top / "dir" / "file", top / "file"):
        with pytest.raises(PathError, match="link"):
            open_here(path, os.O_RDONLY)
    with pytest.raises(PathError, match="link"), directory(top / "dir" / "new", create=True):
        pass
    assert not (top / "real" / "new").exists()


def test_a_circle_of_links_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    result = call(Read(), tmp_path, path="a")
    assert result.is_error
    assert "loop of links" in result.text


# --- ls -------------------------------------------------------------------------------------------------


def test_ls_sorts_and_marks_directories_and_links(tmp_path: Path) -> None:
    for name in ("b.txt", "A.txt", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("b.txt")
    assert call(List(), tmp_path).text == ".hidden\nA.txt\nb.txt\ndir/\nlink -> b.txt"
    assert call(List(), tmp_path, path="dir").text == "[dir is empty.]"
    assert "is not a directory" in call(List(), tmp_path, path="b.txt").text


def test_ls_says_how_many_entries_it_left_out(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 3):
        (tmp_path / f"{number:04}").touch()
    result = call(List(), tmp_path)
    assert result.text.splitlines()[-2:] == [
        f"{MAX_ENTRIES - 1:04}",
        f"[{MAX_ENTRIES} of {MAX_ENTRIES + 3} entries.]",
    ]
    assert call(List(), tmp_path, limit=1).text == f"0000\n[1 of {MAX_ENTRIES + 3} entries.]"


@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="its file systems have UTF-8 names only")
def test_ls_shows_odd_names_as_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    (tmp_path / "two\nlines").touch()
    assert call(List(), tmp_path).text == "bad\ufffd\ntwo\ufffdlines"


# --- write ----------------------------------------------------------------------------------------------


def test_write_makes_a_file_and_its_directories(tmp_path: Path) -> None:
    result = call(Write(), tmp_path, path="a/b/c.txt", content="hello\n")
    assert result.text == "a/b/c.txt: created, 1 line, 6 bytes."
    assert (tmp_path / "a/b/c.txt").read_text() == "hello\n"
    assert result.details["diff"] == "@@ -0,0 +1 @@\n+hello"
    assert os.listdir(tmp_path / "a/b") == ["c.txt"]


def test_write_replaces_a_file_and_keeps_its_mode(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old\n")
    script.chmod(0o751)
    before = script.stat().st_ino
    result = call(Write(), tmp_path, path="run.sh", content="new\n")
    assert result.text.startswith("run.sh: replaced")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert script.stat().st_ino != before  # so a reader has the old text or the new one
    assert "-old\n+new" in result.details["diff"]


def test_write_follows_a_link_to_what_was_judged(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert not call(Write(), tmp_path, path="link.txt", content="new").is_error
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_write_refuses_directories_and_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((".", "a directory"), ("pipe", "a named pipe"), ("/dev/null", "a device")):
        result = call(Write(), tmp_path, path=path, content="x")
        assert result.is_error
        assert kind in result.text
    (tmp_path / "file").touch()
    assert call(Write(), tmp_path, path="file/below", content="x").is_error
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_write_may_replace_a_binary_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\0\xfe")
    assert not call(Write(), tmp_path, path="x", content="text").is_error
    assert (tmp_path / "x").read_text() == "text"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_write_refuses_a_write_protected_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o444)
    assert "write-protected" in call(Write(), tmp_path, path="x", content="new").text


def test_a_touch_of_write_shows_the_text_of_a_new_file_or_the_diff(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    new = Write().touches({"path": "new.txt", "content": "text"}, tmp_path)
    assert (new.summary.split()[0], new.preview) == ("create", "text")
    assert "-two\n+2" in Write().touches({"path": "old.txt", "content": "one\n2\n"}, tmp_path).preview


def test_a_touch_shows_nothing_of_a_file_with_secrets(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PASSWORD=hunter2\nDEBUG=0\n")
    arguments = {"path": ".env", "edits": [{"oldText": "DEBUG=0", "newText": "DEBUG=1"}]}
    assert Edit().touches(arguments, tmp_path).preview == "-DEBUG=0\n+DEBUG=1"
    assert Write().touches({"path": ".env", "content": "x"}, tmp_path).preview == "x"


# --- edit -----------------------------------------------------------------------------------------------


def test_edit_replaces_what_is_there_once_and_gives_the_diff(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 2\nc = 3\n")
    result = edit(tmp_path, "a.py", ("b = 2", "b = 20\nb += 1"))
    assert (tmp_path / "a.py").read_text() == "a = 1\nb = 20\nb += 1\nc = 3\n"
    assert result.details["diff"] == "@@ -1,3 +1,4 @@\n a = 1\n-b = 2\n+b = 20\n+b += 1\n c = 3"
    assert result.details["firstChangedLine"] == 2
    assert (result.details["added"], result.details["removed"]) == (2, 1)


def test_edit_makes_several_edits_at_once_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one two three\n")
    assert not edit(tmp_path, "a", ("three", "3"), ("one", "two")).is_error
    assert (tmp_path / "a").read_text() == "two two 3\n"
    failed = edit(tmp_path, "a", ("3", "4"), ("nine", "9"))
    assert failed.is_error
    assert "edit 2: oldText is not in the file" in failed.text
    assert "edits 1 and 2 overlap" in edit(tmp_path, "a", ("two 3", "x"), ("3\n", "y")).text
    assert (tmp_path / "a").read_text() == "two two 3\n"


def test_edit_of_text_that_is_there_more_than_once_names_the_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\ny = 2\nx = 1\n")
    result = edit(tmp_path, "a", ("x = 1", "x = 2"))
    assert result.is_error
    assert "not unique: it begins in lines 1, 3." in result.text
    (tmp_path / "b").write_text("aaa")
    assert "not unique" in edit(tmp_path, "b", ("aa", "b")).text


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("def  run(self):", "Nearest is line 2: '    def run(self):'"),
        ("def run(self):\n    return 1", "Nearest is line 2, only white space differs"),
        (
            "    def run(self):\n        return 2",
            "Nearest is line 3, they differ: the file has '        return 1'",
        ),
        ("completely different", "No line is like its first one"),
    ],
)
def test_edit_of_text_that_is_missing_says_where_to_look(old: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A:\n    def run(self):\n        return 1\n")
    result = edit(tmp_path, "a.py", (old, "x"))
    assert result.is_error
    assert hint in result.text


def test_edit_refuses_to_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same\n")
    assert "nothing would change" in edit(tmp_path, "a", ("same", "same")).text
    assert "oldText is empty" in edit(tmp_path, "a", ("", "x")).text
    assert "`edits`" in call(Edit(), tmp_path, path="a", edits=[]).text


def test_edit_keeps_crlf_and_the_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nlast\n")
    assert not edit(tmp_path, "a", ("one\ntwo", "1\n1.5\n2"), ("last\n", "end\nof it\n")).is_error
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbf1\r\n1.5\r\n2\r\nend\nof it\n"


def test_edit_refuses_binary_and_huge_files(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"a\xff\0")
    assert "not text that can be edited" in edit(tmp_path, "bin", ("a", "b")).text
    with open(tmp_path / "big", "wb") as file:
        file.truncate(100_000_000)
    assert "has 100.0 MB, and at most 8.4 MB can be edited" in edit(tmp_path, "big", ("a", "b")).text


def test_edit_does_not_overwrite_what_somebody_else_wrote_meanwhile(tmp_path: Path) -> None:
    from fairlead.agent.tools.files import _save

    path = Path(os.path.realpath(tmp_path)) / "a"
    path.write_text("one")
    seen = path.stat()
    path.write_text("somebody's work")
    with pytest.raises(ValueError, match="just changed by another process"):
        _save(path, "a", "ours", seen)
    assert path.read_text() == "somebody's work"
    assert os.listdir(tmp_path) == ["a"]


_PIECES = st.text(alphabet="ab \n\té")
_ENDS = st.sampled_from(["\n", "\r\n"])


@given(_PIECES, _PIECES, _PIECES, _ENDS, st.booleans())
def test_an_edit_and_its_opposite_give_the_same_bytes_again(
    before: str, after: str, new: str, end: str, has_bom: bool
) -> None:
    text = (BOM * has_bom) + f"{before}<old>{after}".replace("\n", end)
    there = replaced(text, [Replacement("<old>", f"<{new}>")])
    assert there == (BOM * has_bom) + f"{before}<{new}>{after}".replace(
        "\n", "\r\n" if _is_crlf(text) else "\n"
    )
    assume(there.count("<") == 1)
    assert replaced(there, [Replacement(f"<{new}>", "<old>")]) == text


def _is_crlf(text: str) -> bool:
    return "\r\n" in text


@given(
    st.lists(st.sampled_from(["x\n", "x\r\n", "y\n", "é\r\n"])), st.lists(st.sampled_from(["y\n", "z\r\n"]))
)
def test_whatever_is_outside_of_an_edit_stays_as_it_was(before: list[str], after: list[str]) -> None:
    head, tail = "".join(before), "".join(after)
    made = replaced(f"{head}old\n{tail}", [Replacement("old", "new\nlines")])
    assert made.startswith(f"{head}new")
    assert made.endswith(f"lines\n{tail}")


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_a_diff_leads_from_the_old_text_to_the_new_one(old: list[str], new: list[str]) -> None:
    made = diff.between("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    at, result = 0, []
    for line in made.text.split("\n") if made.text else []:
        if line.startswith("@@"):
            number, _, count = line.split()[1][1:].partition(",")
            start = int(number) - (count != "0")
            result += old[at:start]
            at = start
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [line[1:]] if line.startswith(" ") else []
            at += 1
    assert result + old[at:] == new


def test_a_diff_of_large_texts_is_bounded() -> None:
    old = "".join(f"old {number}\n" for number in range(20_000))
    made = diff.between(old, old.replace("old", "new"))
    assert (made.added, made.removed) == (20_000, 20_000)
    assert len(made.text.splitlines()) == diff.MAX_SHOWN + 1


def test_calls_that_read_run_at_the_same_time(tmp_path: Path) -> None:
    from fairlead.agent.secrets import Redactor
    from fairlead.agent.tools import run_tool
    from tests.agent.tooling import context_in

    for number in range(20):
        (tmp_path / str(number)).write_text(f"text {number}")

    async def read_all() -> list[Result]:
        context = context_in(tmp_path)
        calls = (run_tool(Read(), {"path": str(number)}, context, Redactor()) for number in range(20))
        return await asyncio.gather(*calls)

    assert [result.text for result in asyncio.run(read_all())] == [f"text {number}" for number in range(20)]
