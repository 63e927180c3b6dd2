"""The journal as a file: Pi's form, nothing lost, nothing torn, one writer."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.journal import (
    Compaction,
    Custom,
    CustomMessage,
    Journal,
    JournalError,
    Label,
    ModelChange,
    Said,
    SessionInfoEntry,
    ThinkingLevelChange,
    UnknownBody,
)
from fairlead.agent.messages import Assistant, Text, Thinking, ToolCall, ToolResult, Usage, text_of, user

PI_LINES = [
    '{"type":"session","version":3,"id":"0192","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/srv"}',
    '{"type":"model_change","id":"00000001","parentId":null,"timestamp":"t","provider":"p","modelId":"m"}',
    '{"type":"thinking_level_change","id":"00000002","parentId":"00000001","timestamp":"t",'
    '"thinkingLevel":"high"}',
    '{"type":"message","id":"00000003","parentId":"00000002","timestamp":"t","message":{"role":"user",'
    '"content":"as a string","timestamp":1}}',
    '{"type":"message","id":"00000004","parentId":"00000003","timestamp":"t","message":{"role":"assistant",'
    '"content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"text","text":"hi"},'
    '{"type":"toolCall","id":"c","name":"read","arguments":{"path":"x"}}],"api":"anthropic-messages",'
    '"provider":"p","model":"m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,'
    '"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.3}},"stopReason":"toolUse",'
    '"timestamp":2}}',
    '{"type":"message","id":"00000005","parentId":"00000004","timestamp":"t","message":{"role":"toolResult",'
    '"toolCallId":"c","toolName":"read","content":[{"type":"text","text":"data"}],"details":{"lines":1},'
    '"isError":false,"timestamp":3}}',
    '{"type":"from_the_future","id":"00000006","parentId":"00000005","timestamp":"t","what":1}',
    '{"type":"session_info","id":"00000007","parentId":"00000006","timestamp":"t","name":"a name"}',
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions/project/one.jsonl"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_pi_wrote_is_read_and_what_is_unknown_stays(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(PI_LINES) + "\n")
    with Journal.open(str(path)) as journal:
        assert journal.header.cwd == "/srv"
        bodies = [entry.body for entry in journal.branch]
        assert bodies[0] == ModelChange("p", "m")
        assert bodies[1] == ThinkingLevelChange("high")
        assert text_of(bodies[2].message) == "as a string"  # type: ignore[union-attr]
        answer: Any = bodies[3].message  # type: ignore[union-attr]
        assert answer.content == (Thinking("hm", "s"), Text("hi"), ToolCall("c", "read", {"path": "x"}))
        assert (answer.usage.total_tokens, answer.usage.cost.total) == (10, 0.3)
        assert bodies[4].message == ToolResult("c", "read", (Text("data"),), {"lines": 1}, False, 3)  # type: ignore[union-attr]
        assert isinstance(bodies[5], UnknownBody)
        assert bodies[6] == SessionInfoEntry("a name")
        assert journal.faults == ["line 7: Invalid value 'from_the_future' - at `$.type`"]
    assert path.read_text() == "\n".join(PI_LINES) + "\n"


def test_entries_are_written_as_pi_writes_them(path: Path) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv") as journal:
        first = journal.append(Said(user("hello")))
        said = journal.append(Said(Assistant((Text("hi"),), "p", "m", Usage(1, 2, 0, 0, 3), "stop", None, 5)))
        for body in (
            Custom("mine", {"a": [1]}),
            CustomMessage("note", "look", True),
            Compaction("so far", first.id, 9),
            Label(said.id, "here"),
        ):
            journal.append(body)
    header, one, two, *others = lines(path)
    assert list(header.items())[:3] == [("type", "session"), ("version", 3), ("id", "s1")]
    assert (one["parentId"], two["parentId"]) == (None, one["id"])
    assert len(one["id"]) == 8
    assert two["message"]["usage"]["cacheRead"] == 0
    assert two["message"]["stopReason"] == "stop"
    assert [other["type"] for other in others] == ["custom", "custom_message", "compaction", "label"]
    assert others[2]["firstKeptEntryId"] == one["id"]
    assert path.stat().st_mode & 0o777 == 0o600
    with Journal.open(str(path)) as journal:
        assert [entry.line for entry in journal.entries] == [2, 3, 4, 5, 6, 7]
        assert journal.lines == 7


@pytest.mark.parametrize("torn", [b'{"type":"message","id":"a', b"\xff\xfe", b"{"])
def test_a_torn_line_is_cut_off_kept_and_told(path: Path, torn: bytes) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv") as journal:
        journal.append(Said(user("hello")))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    only_read = Journal.open(str(path), writable=False)
    assert "passed over" in only_read.faults[0]
    assert path.read_bytes() == whole + torn
    with Journal.open(str(path)) as journal:
        assert [fault.partition(" was")[0] for fault in journal.faults] == [
            f"a torn line of {len(torn)} bytes"
        ]
        journal.append(Said(user("again")))
    assert Path(f"{path}.torn").read_bytes() == torn + b"\n"
    assert [line["type"] for line in lines(path)] == ["session", "message", "message"]


def test_a_last_line_that_lacks_only_its_newline_is_whole(path: Path) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv") as journal:
        journal.append(Said(user("hello")))
    path.write_bytes(path.read_bytes()[:-1])
    with Journal.open(str(path)) as journal:
        assert not journal.faults
        journal.append(Said(user("again")))
    assert len(lines(path)) == 3


def test_a_line_in_the_middle_that_makes_no_sense_is_told_and_stays(path: Path) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv") as journal:
        journal.append(Said(user("hello")))
    with path.open("ab") as file:
        file.write(b"nonsense\n\n{}\n")
    with Journal.open(str(path)) as journal:
        assert [fault.partition(":")[0] for fault in journal.faults] == ["line 3", "line 5", "line 5"]
        assert journal.append(Said(user("again"))).line == 6
    assert b"nonsense" in path.read_bytes()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    for text, why in (
        ("", "is not a session file"),
        ("[]\n", "is not a session file"),
        (PI_LINES[0].replace('"version":3', '"version":2') + "\n", "has version 2; this reads version 3"),
    ):
        path = tmp_path / "x.jsonl"
        path.write_text(text)
        with pytest.raises(JournalError, match=why):
            Journal.open(str(path))
    with pytest.raises(JournalError, match="No such file"):
        Journal.open(str(tmp_path / "none.jsonl"))


def test_there_is_one_writer_at_a_time(path: Path) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv"):
        with pytest.raises(JournalError, match="another program writes"):
            Journal.open(str(path))
        Journal.open(str(path), writable=False)
        with pytest.raises(JournalError, match="File exists"):
            Journal.create(str(path), id="s1", cwd="/srv")
    Journal.open(str(path)).close()


def test_branches_part_and_a_fork_has_the_path_up_to_an_entry(path: Path, tmp_path: Path) -> None:
    with Journal.create(str(path), id="s1", cwd="/srv") as journal:
        one = journal.append(Said(user("one")))
        two = journal.append(Said(user("two")))
        journal.leaf = one.id
        other = journal.append(Said(user("another two")))
        assert [entry.id for entry in journal.branch] == [one.id, other.id]
        assert [entry.id for entry in journal.path_to(two.id)] == [one.id, two.id]
        with journal.fork(str(tmp_path / "fork.jsonl"), id="s2", upto=one.id) as fork:
            assert [entry.id for entry in fork.branch] == [one.id]
            assert fork.header.parent_session == str(path)
            fork.append(Said(user("three")))
        with pytest.raises(JournalError, match=r"^the conversation has no entry 'nope'$"):
            journal.fork(str(tmp_path / "f.jsonl"), id="s3", upto="nope")
    assert lines(tmp_path / "fork.jsonl")[1] == lines(path)[1]


def test_a_disk_that_is_full_leaves_the_journal_whole(path: Path) -> None:
    script = f"""
import resource
from fairlead.agent.journal import *
from fairlead.agent.messages import user
journal = Journal.create({str(path)!r}, id="s1", cwd="/srv")
journal.append(Said(user("hello")))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    journal.append(Said(user("x" * 5000)))
except JournalError as error:
    print(error)
journal.append(Said(user("small")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert done.stdout == f"can't write to {path}: File too large\n"
    assert [line.get("message", {}).get("content") for line in lines(path)][1:] == [
        [{"type": "text", "text": "hello"}],
        [{"type": "text", "text": "small"}],
    ]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_a_writer_that_is_killed_at_any_moment_leaves_whole_lines(path: Path) -> None:
    script = f"""
from fairlead.agent.journal import *
from fairlead.agent.messages import user
journal = Journal.create({str(path)!r}, id="s1", cwd="/srv")
number = 0
while True:
    number += 1
    journal.append(Said(user(f"{{number}} " + "x" * 3000)))
    print(number, flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(200):
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    acknowledged = int(rest[-1]) if rest else acknowledged
    with Journal.open(str(path)) as journal:
        assert not journal.faults
        numbers = [int(text_of(entry.body.message).split()[0]) for entry in journal.entries]  # type: ignore[union-attr]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= acknowledged
