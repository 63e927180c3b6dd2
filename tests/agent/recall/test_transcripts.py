"""The index over journals."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.agent.journal import Compaction, Custom, CustomMessage, Journal, Said, SessionInfoEntry
from fairlead.agent.messages import Assistant, Text, Thinking, ToolCall, ToolResult, User
from fairlead.agent.recall import transcripts
from fairlead.agent.recall.transcripts import Transcript, TranscriptMatch, Transcripts


class Sessions:
    """Journals in a directory, and an index over them."""

    def __init__(self, folder: Path, *, full_text: bool) -> None:
        self.folder = folder / "sessions"
        self.index = Transcripts(str(folder / "state" / "index.db"), str(self.folder), full_text=full_text)
        self.moment = 1_700_000_000

    def journal(self, name: str, cwd: str = "/p", parent: str | None = None) -> Journal:
        return Journal.create(str(self.folder / f"{name}.jsonl"), id=name, cwd=cwd, parent_session=parent)

    def make(self, name: str, *texts: str, cwd: str = "/p") -> str:
        """A session in which these texts were said, by a user and an assistant in turn."""
        with self.journal(name, cwd) as journal:
            for number, text in enumerate(texts):
                journal.append(Said(assistant(text) if number % 2 else user(text)))
            return self.aged(journal.path)

    def aged(self, path: str) -> str:
        """Give a file a time that is later than that of all before."""
        self.moment += 1
        os.utime(path, (self.moment, self.moment))
        return path

    def names(self) -> list[str]:
        return [row.id for row in self.index.list()]

    def only(self) -> Transcript:
        (row,) = self.index.list()
        return row

    def check_index(self) -> None:
        """Let SQLite compare the full-text index with the texts, if there is one."""
        if self.index._database.searches():
            check = "INSERT INTO entries_text(entries_text, rank) VALUES ('integrity-check', 1)"
            self.index._database.read(check)
        assert self.index.faults == []

    def places(self, text: str) -> list[tuple[str, str]]:
        return [(found.transcript.id, found.snippet) for found in self.index.search(text)]


def user(text: str) -> User:
    return User((Text(text),))


def assistant(text: str) -> Assistant:
    return Assistant(
        (Thinking("hidden thought"), Text(text), ToolCall("c", "read", {"path": "hidden argument"}))
    )


@pytest.fixture(params=[True, False], ids=["full-text", "without full-text"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sessions]:
    sessions = Sessions(tmp_path, full_text=request.param)
    yield sessions
    sessions.index.close()


# --- listing ----------------------------------------------------------------------------------------------


def test_without_sessions_there_is_nothing_to_list_or_find(sessions: Sessions) -> None:
    assert sessions.index.scan() == (0, 0, 0, 0, ())
    assert sessions.index.list() == []
    assert sessions.index.search("x") == []


def test_a_row_tells_what_a_list_shows(sessions: Sessions) -> None:
    with sessions.journal("deep/er/s1", "/project", parent="/other.jsonl") as journal:
        journal.append(Said(user("fix the tests")))
        journal.append(Said(assistant("they are green")))
        journal.append(SessionInfoEntry("first name"))
        journal.append(Said(ToolResult("c", "read", (Text("contents"),))))
        journal.append(SessionInfoEntry("tests"))
    sessions.aged(journal.path)
    sessions.index.scan()
    assert sessions.only() == Transcript(
        path=journal.path,
        id="deep/er/s1",
        name="tests",
        cwd="/project",
        parent="/other.jsonl",
        created=journal.header.timestamp,
        modified="2023-11-14T22:13:21.000Z",
        first_message="fix the tests",
        last_text="they are green",
        message_count=3,
        last_prompt="fix the tests",
        cost=0.0,
    )


def paid(text: str, total: object) -> str:
    usage = {"input": 1, "cost": {"input": 0, "total": total}}
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage}
    return json.dumps({"type": "message", "id": text, "timestamp": "t", "message": message}) + "\n"


def test_what_answers_cost_is_added_up_as_they_come_and_is_not_known_of_what_was_only_glanced_at(
    sessions: Sessions,
) -> None:
    path = sessions.make("a", "one")
    with open(path, "a") as file:
        file.write(paid("dear", 0.25) + paid("whole", 2))
    sessions.index.scan()
    assert sessions.only().cost == 2.25
    amounts: list[object] = [None, "3", -1, 1e300, {}]
    odd = [paid(f"odd{number}", each) for number, each in enumerate(amounts)]
    with open(path, "a") as file:
        file.write(
            paid("more", 0.5) + "".join(odd) + paid("x", 0).replace('"usage": {', '"usage": 5, "y": {')
        )
    sessions.index.scan()
    assert sessions.only().cost == 2.75
    assert sessions.places("odd1")  # an odd amount hides no message
    other = sessions.make("b", *many_words(1))
    with open(other, "a") as file:
        file.write(paid("dear", 4))
    sessions.index.scan(0.0)
    assert next(row for row in sessions.index.list() if row.id == "b").cost is None
    sessions.index.scan()
    assert next(row for row in sessions.index.list() if row.id == "b").cost == 4.0


def test_sessions_are_named_by_their_ids(sessions: Sessions) -> None:
    for name in ("a", "b"):
        with sessions.journal(name) as journal:
            journal.append(Said(user("x")))
            if name == "a":
                journal.append(SessionInfoEntry("garden"))
    sessions.index.scan()
    assert sessions.index.names(["a", "b", "none"]) == {"a": "garden"}
    assert sessions.index.names([f"n{number}" for number in range(1200)]) == {}


def test_the_session_that_was_used_last_is_first(sessions: Sessions) -> None:
    for name in ("a", "b", "c"):
        sessions.make(name, "hi", cwd="/one" if name == "b" else "/two")
    sessions.index.scan()
    assert sessions.names() == ["c", "b", "a"]
    sessions.aged(str(sessions.folder / "a.jsonl"))
    sessions.index.scan()
    assert sessions.names() == ["a", "c", "b"]
    assert [row.id for row in sessions.index.list(limit=1, offset=1)] == ["c"]
    assert [row.id for row in sessions.index.list(cwd="/two")] == ["a", "c"]
    assert sessions.index.list(cwd="/none") == []


def test_long_messages_are_cut_in_a_list(sessions: Sessions) -> None:
    sessions.make("a", "x" * 10_000)
    sessions.index.scan()
    assert sessions.only().first_message == "x" * transcripts.MAX_SHOWN


# --- scanning ---------------------------------------------------------------------------------------------


def test_what_did_not_change_is_not_read_again(sessions: Sessions) -> None:
    sessions.make("a", "one")
    assert sessions.index.scan().read == 1
    assert sessions.index.scan().read == 0


def test_what_was_appended_is_read_from_where_reading_ended(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.journal("a") as journal:
        journal.append(Said(user("one apple")))
        sessions.index.scan()
        journal.append(Said(assistant("two apples")))
        taken: list[bytes] = []
        take = transcripts._Summary.take

        def noted(summary: transcripts._Summary, line: bytes) -> transcripts._Entry | None:
            taken.append(line)
            return take(summary, line)

        monkeypatch.setattr(transcripts._Summary, "take", noted)
        sessions.index.scan()
    assert [line for line in taken if line] == [Path(journal.path).read_bytes().splitlines()[-1]]
    row = sessions.only()
    assert (row.first_message, row.last_text, row.message_count) == ("one apple", "two apples", 2)
    assert len(sessions.places("apple")) == 2


def test_a_line_that_is_not_whole_is_left_for_later(sessions: Sessions) -> None:
    path = sessions.make("a", "whole line")
    line = json.dumps({"type": "message", "id": "e1", "message": {"role": "user", "content": "torn line"}})
    with open(path, "ab") as file:
        file.write(line[:40].encode())
        file.flush()
        sessions.index.scan()
        assert sessions.only().message_count == 1
        assert sessions.index.scan().read == 0
        file.write(line[40:].encode() + b"\n")
    sessions.index.scan()
    assert sessions.only().message_count == 2
    assert len(sessions.places("torn")) == 1


def test_a_torn_line_that_is_cut_off_does_no_harm(sessions: Sessions) -> None:
    path = sessions.make("a", "one apple")
    with open(path, "ab") as file:
        file.write(b'{"type":"mess')
    sessions.index.scan()
    with Journal.open(path) as journal:
        journal.append(Said(user("two apples")))
    sessions.index.scan()
    assert sessions.only().message_count == 2
    assert len(sessions.places("apple")) == 2


def test_a_file_without_a_whole_header_is_listed_when_it_has_one(sessions: Sessions) -> None:
    path = sessions.make("a", "hello")
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:20])
    sessions.index.scan()
    assert sessions.names() == []
    Path(path).write_bytes(whole)
    sessions.index.scan()
    assert sessions.names() == ["a"]
    assert len(sessions.places("hello")) == 1


def test_a_file_that_was_replaced_is_read_anew(sessions: Sessions, tmp_path: Path) -> None:
    path = sessions.make("a", "old words", "old answer")
    sessions.index.scan()
    os.rename(sessions.make("b", "new words which are many more than there were before"), path)
    sessions.index.scan()
    assert sessions.names() == ["b"]
    assert sessions.places("old") == []
    assert len(sessions.places("new")) == 1


def test_a_file_that_was_rewritten_in_place_is_read_anew(sessions: Sessions) -> None:
    path = sessions.make("a", "old words", "old answer")
    sessions.index.scan()
    other = sessions.make("b", "new words", "and a new answer that makes the file longer than it was before")
    Path(path).write_bytes(Path(other).read_bytes())
    os.unlink(other)
    sessions.index.scan()
    assert sessions.only().message_count == 2
    assert sessions.places("old") == []
    Path(path).write_bytes(Path(path).read_bytes().splitlines(keepends=True)[0])
    sessions.index.scan()
    assert sessions.only().message_count == 0
    assert sessions.places("new") == []
    sessions.check_index()


def test_a_file_that_is_gone_is_forgotten(sessions: Sessions) -> None:
    path = sessions.make("a", "apple")
    sessions.make("b", "apple")
    sessions.index.scan()
    os.unlink(path)
    assert sessions.index.scan().gone == 1
    assert sessions.names() == ["b"]
    assert len(sessions.places("apple")) == 1
    sessions.check_index()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"not json\n",
        b'{"type":"message","id":"x"}\n',
        b'{"type":"session","version":2,"id":"x","timestamp":"t","cwd":"/"}\n',
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_session_is_not_listed(sessions: Sessions, content: bytes) -> None:
    sessions.make("good", "hi")
    (sessions.folder / "bad.jsonl").write_bytes(content)
    (sessions.folder / "good.jsonl.torn").write_bytes(b"x")
    sessions.index.scan()
    assert sessions.names() == ["good"]
    with open(sessions.folder / "bad.jsonl", "ab") as file:
        file.write(b"more\n")
    assert sessions.index.scan().read == 1
    assert sessions.index.scan().read == 0
    assert sessions.names() == ["good"]


def test_lines_that_make_no_sense_are_passed_over(sessions: Sessions) -> None:
    path = sessions.make("a", "before")
    with open(path, "ab") as file:
        file.write(b'nonsense\n\n{"type":"message","id":"x","message":7}\n{"type":"later","id":"y"}\n[]\n')
    with Journal.open(path) as journal:
        journal.append(Said(user("after")))
    sessions.index.scan()
    assert sessions.only().message_count == 2
    assert len(sessions.places("after")) == 1


def test_a_line_that_is_too_long_is_passed_over(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_LINE", 3000)
    monkeypatch.setattr(transcripts, "BLOCK", 1000)
    with sessions.journal("a") as journal:
        for text in ("before", "long " * 2000, "after"):
            journal.append(Said(user(text)))
    sessions.index.scan()
    assert sessions.only().message_count == 2
    assert [len(sessions.places(word)) for word in ("before", "long", "after")] == [1, 0, 1]


def test_a_file_of_many_blocks_is_read_wholly(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "BLOCK", 700)
    sessions.make("a", *(f"number{number} apple" for number in range(100)))
    sessions.index.scan()
    assert sessions.only().message_count == 100
    assert len(sessions.index.search("apple", limit=1000)) == 100
    assert len(sessions.places("number57")) == 1


def test_journals_are_read_while_they_are_written_and_never_touched(sessions: Sessions) -> None:
    with sessions.journal("a") as journal:
        journal.append(Said(user("apple")))
        os.chmod(journal.path, 0o400)
        before = os.stat(journal.path)
        sessions.index.scan()
        after = os.stat(journal.path)
        assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        assert len(sessions.places("apple")) == 1


def test_a_link_out_of_the_directory_is_not_followed(sessions: Sessions, tmp_path: Path) -> None:
    path = sessions.make("a", "apple")
    os.rename(path, tmp_path / "outside.jsonl")
    os.symlink(tmp_path / "outside.jsonl", path)
    os.symlink(tmp_path, sessions.folder / "loop")
    assert sessions.index.scan().files == 0


# --- when time is short -----------------------------------------------------------------------------------


def many_words(number: int) -> list[str]:
    return [f"first of {number}", *(f"filler {number} " * 100 for _ in range(100)), f"last of {number}"]


def test_when_time_is_short_every_session_is_listed_and_reading_goes_on_later(sessions: Sessions) -> None:
    for number in range(5):
        sessions.make(f"s{number}", *many_words(number))
    with Journal.open(str(sessions.folder / "s3.jsonl")) as journal:
        journal.append(SessionInfoEntry("a name"))
        journal.append(Said(ToolResult("c", "read", (Text("result"),))))
    sessions.aged(journal.path)
    scan = sessions.index.scan(seconds=0)
    assert (scan.files, scan.read, scan.left) == (5, 0, 5)
    glanced = sessions.index.list()
    assert [row.id for row in glanced] == ["s3", "s4", "s2", "s1", "s0"]
    assert sessions.index.search("filler") == []
    assert sessions.index.scan(seconds=0).left == 5
    assert sessions.index.scan().left == 0
    read = sessions.index.list()
    assert [row.cost for row in glanced] == [None] * 5
    assert [row._replace(message_count=0, last_prompt="", cost=0.0) for row in glanced[1:]] == [
        row._replace(message_count=0, last_prompt="") for row in read[1:]
    ]
    assert [row.message_count for row in read] == [103, 102, 102, 102, 102]
    assert read[0].name == "a name"
    assert len(sessions.places("last")) == 5


def test_a_glance_with_time_sees_all_that_reading_sees(sessions: Sessions) -> None:
    path = sessions.make("s", *many_words(1))
    with Journal.open(path) as journal:
        journal.append(SessionInfoEntry("a name"))
        for text in many_words(2):
            journal.append(Said(user(text)))
    glanced = transcripts._glance(path, transcripts.GLANCE)
    sessions.index.scan()
    row = sessions.only()
    assert (glanced.name, glanced.first, glanced.last, glanced.count) == (
        row.name,
        row.first_message,
        row.last_text,
        row.message_count,
    )


def test_a_file_is_glanced_at_once(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions.make("s", *many_words(1))
    sessions.index.scan(seconds=0)
    monkeypatch.delattr(transcripts, "_glance")
    assert sessions.index.scan(seconds=0).left == 1


def test_a_glance_changes_nothing_of_a_file_that_another_process_has_read(sessions: Sessions) -> None:
    path = sessions.make("s", *many_words(1))
    (state,) = transcripts._journals(str(sessions.folder))
    sessions.index.scan()
    before = sessions.only()
    sessions.index._glance_at([state], {}, [], deadline=0)
    assert sessions.only() == before
    with Journal.open(path) as journal:
        journal.append(Said(user("one more")))
    sessions.index.scan()
    assert sessions.only().message_count == before.message_count + 1


def test_a_glance_takes_no_later_message_for_the_first(sessions: Sessions) -> None:
    with sessions.journal("s") as journal:
        for _ in range(100):
            journal.append(Said(assistant("filler " * 200)))
        journal.append(Said(user("late")))
    glanced = transcripts._glance(journal.path, transcripts.GLANCE)
    assert (glanced.first, glanced.last) == ("", "late")


def test_the_newest_files_are_read_first(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [sessions.make(name, "hi") for name in "cabd"]
    order: list[str] = []
    monkeypatch.setattr(Transcripts, "_read", lambda _, state, deadline: order.append(state.path))
    sessions.index.scan()
    assert order == paths[::-1]


def test_small_and_new_files_are_read_even_in_a_short_time(sessions: Sessions) -> None:
    sessions.make("a", "apple")
    scan = sessions.index.scan(seconds=60)
    assert (scan.read, scan.left) == (1, 0)
    assert len(sessions.places("apple")) == 1


# --- searching --------------------------------------------------------------------------------------------


def test_a_find_tells_the_session_the_entry_and_a_snippet(sessions: Sessions) -> None:
    with sessions.journal("a") as journal:
        entry = journal.append(Said(user("please look at the flaky test in the parser")))
        journal.append(Said(assistant("done")))
    sessions.index.scan()
    (found,) = sessions.index.search("flaky", marks=("<", ">"))
    assert found == TranscriptMatch(
        sessions.only(), entry.id, "user", entry.timestamp, "please look at the <flaky> test in the parser"
    )


def test_every_word_must_be_there(sessions: Sessions) -> None:
    sessions.make("a", "red apples", "green pears")
    sessions.index.scan()
    assert sessions.places("apple RED") == [("a", "red apples")]
    assert sessions.places("red pears") == []


def test_a_search_can_be_for_one_directory_and_has_a_limit(sessions: Sessions) -> None:
    sessions.make("a", "apple", "apple", cwd="/one")
    sessions.make("b", "apple", cwd="/two")
    sessions.index.scan()
    assert {found.transcript.id for found in sessions.index.search("apple", cwd="/one")} == {"a"}
    assert len(sessions.index.search("apple", 2)) == 2
    assert sessions.index.search("apple", -1) == []


def test_what_people_and_programs_said_is_found_and_what_was_thought_is_not(sessions: Sessions) -> None:
    with sessions.journal("a") as journal:
        entry = journal.append(Said(assistant("spoken")))
        journal.append(Said(ToolResult("c", "bash", (Text("printed " + "x" * 5000 + " toolate"),))))
        journal.append(CustomMessage("verifier", "verified"))
        journal.append(Compaction("summed up", entry.id))
        journal.append(Custom("data", {"text": "hidden"}))
    sessions.index.scan()
    roles = {word: [found.role for found in sessions.index.search(word)] for word in ("spoken", "printed")}
    assert roles == {"spoken": ["assistant"], "printed": ["toolResult"]}
    assert [found.role for found in sessions.index.search("verified")] == ["custom_message"]
    assert [found.role for found in sessions.index.search("summed")] == ["compaction"]
    assert sessions.places("hidden") == sessions.places("toolate") == []


def test_parts_of_words_are_found_if_nothing_else_is(sessions: Sessions) -> None:
    sessions.make("a", "写代码很有趣", "x = foo_barbaz(1)")
    sessions.index.scan()
    assert sessions.places("代码") == [("a", "写代码很有趣")]
    assert len(sessions.places("barb")) == 1
    assert len(sessions.places("rbaz(")) == 1


_SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@_SHARED
@given(st.text(max_size=30) | st.text('"*()^:-+{}%_\\\0 \ud800aNOTEAR,', max_size=30))
def test_any_text_can_be_searched_for(sessions: Sessions, text: str) -> None:
    sessions.index.search(text)


# --- the file ---------------------------------------------------------------------------------------------


def test_an_index_that_is_damaged_is_made_again_and_told(sessions: Sessions, tmp_path: Path) -> None:
    sessions.make("a", "apple")
    sessions.index.scan()
    sessions.index.close()
    place = tmp_path / "state" / "index.db"
    place.write_bytes(b"no database" * 1000)
    sessions.index.scan()
    assert len(sessions.places("apple")) == 1
    assert "was removed and will be rebuilt" in sessions.index.faults[0]
    assert sorted(path.name for path in place.parent.glob("*corrupt*")) == []


def test_an_index_of_a_newer_version_is_made_again(sessions: Sessions) -> None:
    sessions.make("a", "apple")
    sessions.index.scan()
    sessions.index._database.run(lambda connection: connection.execute("PRAGMA user_version = 99"))
    sessions.index.close()
    sessions.index.scan()
    assert sessions.names() == ["a"]


_SCANNER = """
import sys
from fairlead.agent.recall.transcripts import Transcripts
index = Transcripts(sys.argv[1], sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
while index.scan().read:
    pass
"""


def test_two_processes_that_scan_at_once_take_nothing_in_twice(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, full_text=True)
    for number in range(10):
        sessions.make(f"s{number}", *(f"apple {number} {line}" for line in range(30)))
    command = [sys.executable, "-c", _SCANNER, str(tmp_path / "state" / "index.db"), str(sessions.folder)]
    scanners = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for scanner in scanners:
        assert scanner.stdout is not None
        assert scanner.stdout.readline() == b"ready\n"
    for scanner in scanners:
        assert scanner.stdin is not None
        scanner.stdin.write(b"\n")
        scanner.stdin.flush()
    for scanner in scanners:
        scanner.communicate(timeout=60)
        assert scanner.returncode == 0
    assert [row.message_count for row in sessions.index.list()] == [30] * 10
    assert len(sessions.index.search("apple", 1000)) == 300
    sessions.index.close()


def test_a_large_file_that_is_gone_is_found_no_more_and_removed_piece_by_piece(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.recall.transcripts.FORGOTTEN_AT_ONCE", 3)
    path = sessions.make("a", *[f"needle {number}" for number in range(20)])
    index = sessions.index
    index.scan()
    assert len(index.search("needle")) == 20
    os.unlink(path)
    assert index.scan(0).gone == 1
    assert (index.list(), index.search("needle")) == ([], [])

    def left() -> int:
        return len(index._database.read("SELECT 1 FROM entries"))

    assert 0 < left() < 20
    assert sessions.make("a", "another") == path
    while left():
        before = left()
        assert index.scan(0).gone == 0
        assert left() < before
    index.scan()
    assert sessions.places("another") == [("a", "another")]
    sessions.check_index()
