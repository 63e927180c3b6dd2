"""What is remembered and how it is found again."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairlead.agent.query.registry import QueryError, Registry, query
from fairlead.agent.recall import memory
from fairlead.agent.recall.memory import Memory, MemoryFault, memory_resolvers
from fairlead.formats.edn import PLAIN, Keyword, dumps, loads
from fairlead.system import database


@pytest.fixture(params=[True, False], ids=["full-text", "without full-text"])
def full_text(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "memory.db")


@pytest.fixture
def mind(place: str, full_text: bool) -> Iterator[Memory]:
    """A memory, with and without full-text search."""
    with Memory(place, full_text=full_text) as mind:
        yield mind


def check_index(mind: Memory) -> None:
    """Let SQLite compare the index with the entries, if there is one."""
    if mind._database.searches():
        mind._database.read("INSERT INTO entries_text(entries_text, rank) VALUES ('integrity-check', 1)")
    assert mind.faults == []


def texts(entries: list[memory.Remembered]) -> list[str]:
    return [entry.text for entry in entries]


# --- remembering and recalling ----------------------------------------------------------------------------


def test_an_entry_comes_back_as_it_was(mind: Memory) -> None:
    entry = mind.remember("  deploys go through green ", ["Deploy", "ops", "deploy"], "s1", "decision")
    assert entry[1:5] == ("deploys go through green", ("deploy", "ops"), "decision", "s1")
    assert mind.recent() == [entry]
    assert mind.recall("green") == [entry]
    assert mind.by_tag("DEPLOY") == [entry]


def test_an_entry_is_there_in_the_next_run(place: str, mind: Memory) -> None:
    entry = mind.remember("it is durable")
    mind.close()
    again = Memory(place)
    assert again.recent() == [entry]
    again.close()


def test_words_are_found_whatever_their_case_and_ending(mind: Memory) -> None:
    mind.remember("Deploying needs a review")
    mind.remember("nothing of the kind")
    assert texts(mind.recall("DEPLOY?")) == ["Deploying needs a review"]


def test_an_entry_with_more_of_the_words_comes_first(mind: Memory) -> None:
    mind.remember("the red fox and the red hen")
    mind.remember("red fox jumps over lazy dog")
    mind.remember("a blue whale")
    assert texts(mind.recall("red fox jumps"))[0] == "red fox jumps over lazy dog"
    assert len(mind.recall("red fox jumps")) == 2


def test_tags_can_be_searched_for_as_words(mind: Memory) -> None:
    entry = mind.remember("use uv", ["packaging"])
    assert mind.recall("packaging") == [entry]


def test_recalling_with_tags_gives_only_entries_with_all_of_them(mind: Memory) -> None:
    mind.remember("one apple", ["fruit"])
    both = mind.remember("two apples", ["fruit", "many"])
    assert mind.recall("apple", ["fruit", "many"]) == [both]
    assert mind.recall("", ["many"]) == [both]
    assert mind.recall("pear", ["many"]) == []


def test_a_blank_question_recalls_the_newest(mind: Memory) -> None:
    for text in ("first", "second", "third"):
        mind.remember(text)
    assert texts(mind.recall("  ", limit=2)) == ["third", "second"]
    assert texts(mind.recent(limit=1, offset=1)) == ["second"]


@pytest.mark.parametrize(
    ("text", "question"), [("写代码很有趣", "代码"), ("100% sure", "%"), ("a++ b", "++")]
)
def test_what_is_no_whole_word_is_found_too(mind: Memory, text: str, question: str) -> None:
    entry = mind.remember(text)
    mind.remember("another")
    assert mind.recall(question) == [entry]


def test_signs_that_mean_something_to_sqlite_are_only_text(mind: Memory) -> None:
    mind.remember("123")
    for question in (
        "%",
        "_",
        "\\",
        "'",
        '"',
        'a" OR "b',
        "text:x",
        "NEAR(",
        "*",
        "NOT",
        "AND OR",
        "x*y",
        "-x",
    ):
        assert mind.recall(question) == [], question


def test_what_is_forgotten_is_found_no_more(mind: Memory) -> None:
    entry = mind.remember("a secret plan", ["plan"])
    other = mind.remember("another plan", ["plan"])
    assert mind.forget(entry.id)
    assert not mind.forget(entry.id)
    assert not mind.forget(-1)
    assert not mind.forget(2**70)
    assert mind.recall("secret") == []
    assert mind.recall("plan") == mind.by_tag("plan") == [other]
    assert dict(mind.stats().tags) == {"plan": 1}
    check_index(mind)


def test_a_number_that_was_forgotten_is_not_given_again(mind: Memory) -> None:
    entry = mind.remember("one")
    mind.forget(entry.id)
    assert mind.remember("two").id > entry.id


def test_stats_count_by_tag_and_kind(mind: Memory, full_text: bool) -> None:
    mind.remember("a", ["x", "y"])
    mind.remember("b", ["x"], kind="decision")
    stats = mind.stats()
    assert (stats.entries, dict(stats.tags), dict(stats.kinds)) == (
        2,
        {"x": 2, "y": 1},
        {"decision": 1, "note": 1},
    )
    assert stats.full_text is full_text
    assert mind.count() == 2


# --- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tags", "message"),
    [
        (" \n", [], "the text is blank"),
        ("x" * (memory.MAX_TEXT + 1), [], f"at most {memory.MAX_TEXT} can be remembered"),
        (
            "x",
            [f"t{number}" for number in range(memory.MAX_TAGS + 1)],
            f"at most {memory.MAX_TAGS} are allowed",
        ),
        ("x", ["two words"], "a tag must be one word"),
        ("x", [""], "a tag must be one word"),
        ("x", ["t" * (memory.MAX_TAG_LENGTH + 1)], "a tag must be one word of at most"),
        ("x", ["a\x07b"], "a tag must be one word"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_and_nothing_is_kept(
    mind: Memory, text: str, tags: list[str], message: str
) -> None:
    with pytest.raises(MemoryFault, match=message):
        mind.remember(text, tags)
    assert mind.count() == 0


def test_a_memory_that_is_full_says_so(mind: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_ENTRIES", 2)
    for number in range(2):
        mind.remember(str(number))
    with pytest.raises(MemoryFault, match="the memory is full: it has 2 entries"):
        mind.remember("one more")
    mind.forget(1)
    assert mind.remember("one more").text == "one more"


def test_no_call_gives_more_than_the_limit(mind: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_FOUND", 3)
    for number in range(5):
        mind.remember(f"number {number}")
    assert len(mind.recent(10**9)) == len(mind.recall("number", limit=10**9)) == 3
    assert mind.recent(-1) == []


_SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@_SHARED
@given(st.text(max_size=30) | st.text('"*()^:-+{}%_\\\0 \ud800aNOTEAR,', max_size=30))
@example("\ud800")
@example('"')
@example("a\0b")
def test_any_text_can_be_remembered_and_asked_for(mind: Memory, text: str) -> None:
    mind.recall(text)
    if text.strip():
        entry = mind.remember(text)
        assert mind.recent(1) == [entry]
        assert entry in mind.recall(text)
        mind.forget(entry.id)


# --- files ------------------------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_file(place: str, mind: Memory) -> None:
    mind.remember("private")
    for name in os.listdir(os.path.dirname(place)):
        assert os.stat(os.path.join(os.path.dirname(place), name)).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(place)).st_mode & 0o777 == 0o700


def test_nothing_is_made_before_it_is_used(place: str) -> None:
    Memory(place)
    assert not os.path.exists(os.path.dirname(place))


def test_a_file_that_is_no_database_is_set_aside_and_told(place: str) -> None:
    os.makedirs(os.path.dirname(place))
    Path(place).write_bytes(b"this is no database, whatever it is" * 100)
    mind = Memory(place)
    mind.remember("a new beginning")
    (fault,) = mind.faults
    assert f"it was moved to {place}.corrupt-1" in fault
    assert Path(f"{place}.corrupt-1").read_bytes().startswith(b"this is no database")
    assert mind.stats().faults == (fault,)
    mind.close()


def test_a_file_that_is_damaged_while_it_is_used_is_set_aside_and_told(place: str) -> None:
    mind = Memory(place)
    for number in range(200):
        mind.remember(f"entry {number} " + "x" * 500, ["t"])
    mind.close()
    damaged = bytearray(Path(place).read_bytes())
    damaged[4096 * 2 :] = b"\xa5" * (len(damaged) - 4096 * 2)
    Path(place).write_bytes(damaged)
    mind = Memory(place)
    mind.remember("after")
    mind.recall("entry")
    assert "was moved to" in mind.faults[0]
    assert Path(f"{place}.corrupt-1").read_bytes()[4096 * 3 :] == bytes(damaged[4096 * 3 :])
    assert mind.count() <= 1
    mind.close()


def test_a_file_that_another_process_has_just_replaced_is_not_set_aside_again(place: str) -> None:
    with Memory(place) as one, Memory(place) as other:
        one.remember("before")

        def work(connection: sqlite3.Connection) -> int:
            if not os.path.exists(place + ".elsewhere"):
                os.rename(place, place + ".elsewhere")
                one.remember("after")
                error = sqlite3.DatabaseError("database disk image is malformed")
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
            return len(connection.execute("SELECT * FROM entries").fetchall())

        assert other._database.run(work) == 1
        assert other.faults == []
        assert texts(one.recent()) == ["after"]


def test_another_memory_that_has_the_file_open_goes_on_in_the_new_one(place: str) -> None:
    one, other = Memory(place), Memory(place)
    one.remember("before")
    assert other.count() == 1
    os.rename(place, place + ".elsewhere")
    one.remember("after")
    assert texts(other.recent()) == ["after"]
    one.close()
    other.close()


def test_a_file_of_a_newer_version_is_left_alone(place: str) -> None:
    with Memory(place) as mind:
        mind.remember("x")
        mind._database.run(lambda connection: connection.execute("PRAGMA user_version = 99"))
    with pytest.raises(MemoryFault, match="has schema version 99, from a newer Fairlead"):
        Memory(place).recent()
    assert not os.path.exists(f"{place}.corrupt-1")


def test_a_file_of_an_older_version_is_migrated(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Memory(place)
    entry = old.remember("old")
    old.close()
    newer = (*memory._MIGRATIONS, ("ALTER TABLE entries ADD COLUMN weight REAL DEFAULT 1",))
    monkeypatch.setattr(memory, "_MIGRATIONS", newer)
    mind = Memory(place)
    assert mind.recall("old") == [entry]
    assert mind._database.read("SELECT weight FROM entries") == [(1.0,)]
    assert mind._database.read("PRAGMA user_version") == [(2,)]
    mind.close()


def test_a_migration_that_fails_changes_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory(place) as mind:
        mind.remember("old")
    broken = (*memory._MIGRATIONS, ("CREATE TABLE half (x)", "NO SUCH STATEMENT"))
    with monkeypatch.context() as patched:
        patched.setattr(memory, "_MIGRATIONS", broken)
        with pytest.raises(MemoryFault, match="syntax error"):
            Memory(place).count()
    with Memory(place) as mind:
        assert mind.count() == 1


def test_a_place_that_can_not_be_made_is_a_fault_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MemoryFault, match=r"can't open .*/file/memory.db: "):
        Memory(str(tmp_path / "file" / "memory.db")).recent()


def test_what_was_written_without_an_index_is_found_with_it(place: str) -> None:
    with_index = Memory(place)
    kept, lost = with_index.remember("first entry"), with_index.remember("second entry")
    with_index.close()
    without = Memory(place, full_text=False)
    without.forget(lost.id)
    third = without.remember("third entry")
    without.close()
    again = Memory(place)
    assert set(again.recall("entry")) == {kept, third}
    assert again.recall("third") == [third]
    assert again._database.read("SELECT name FROM sqlite_master WHERE name LIKE '%stale'") == []
    again.close()


# --- several at once --------------------------------------------------------------------------------------

_WRITER = """
import sys
from fairlead.agent.recall.memory import Memory
mind = Memory(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    mind.remember(f"{sys.argv[2]} wrote entry {number}", [sys.argv[2]])
    mind.recall("entry", limit=3)
mind.close()
"""


def test_two_processes_write_and_read_at_once_and_lose_nothing(place: str) -> None:
    names = ("ada", "bob")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, place, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:  # neither has opened the file yet, so they also race to make it
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    mind = Memory(place)
    assert dict(mind.stats().tags) == {"ada": 100, "bob": 100}
    assert len(mind.recall("ada", limit=1000)) == 100
    assert mind._database.read("PRAGMA integrity_check") == [("ok",)]
    assert mind.faults == []
    mind.close()


def test_two_processes_that_find_a_damaged_file_set_it_aside_once(place: str) -> None:
    os.makedirs(os.path.dirname(place))
    Path(place).write_bytes(b"no database" * 1000)
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, place, name], stdin=subprocess.PIPE)
        for name in ("ada", "bob")
    ]
    for writer in writers:
        writer.communicate(b"\n", timeout=60)
        assert writer.returncode == 0
    mind = Memory(place)
    assert mind.count() == 200
    assert [name for name in os.listdir(os.path.dirname(place)) if "corrupt" in name] == [
        "memory.db.corrupt-1"
    ]
    mind.close()


def test_threads_may_share_a_memory(mind: Memory) -> None:
    threads = [
        threading.Thread(target=lambda: [mind.remember("from a thread") for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mind.count() == 80


def test_a_process_that_opens_for_too_long_is_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OPEN_SECONDS", 0.05)
    holder = Memory(place)
    holder.count()
    with holder._database._alone(), pytest.raises(MemoryFault, match="another process is opening"):
        Memory(place).count()
    holder.close()


# --- attributes -------------------------------------------------------------------------------------------


@pytest.fixture
def registry(mind: Memory) -> Registry:
    registry = Registry()
    registry.register(*memory_resolvers(mind))
    mind.remember("deploys go through green", ["deploy", "2026"], "s1")
    mind.remember("the logo is blue", ["design"])
    return registry


def ask(registry: Registry, text: str) -> str:
    return dumps(query(registry, text))


def test_every_attribute_of_the_memory_has_a_plain_value(registry: Registry) -> None:
    names = ("status", "entry-count", "entries", "search-results", "recent-entries", "by-tag", "index-stats")
    answer = query(registry, f"[{' '.join(f':psi.memory/{name}' for name in names)}]")
    assert list(answer) == [Keyword(f"psi.memory/{name}") for name in names]
    assert answer[Keyword("psi.memory/status")] is Keyword("ready")
    assert answer[Keyword("psi.memory/entry-count")] == 2
    assert answer[Keyword("psi.memory/search-results")] == []
    assert loads(dumps(answer, dialect=PLAIN)) == answer


def test_searching_takes_the_text_as_a_parameter(registry: Registry) -> None:
    answer = ask(registry, '[{(:psi.memory/search-results {:text "deploy"}) [:psi.memory.entry/text]}]')
    assert answer == '{:psi.memory/search-results [{:psi.memory.entry/text "deploys go through green"}]}'


def test_searching_takes_tags_too(registry: Registry) -> None:
    for tags in ("{:tags [:design]}", '{:tags ["design"]}', '{:tag "design"}'):
        answer = ask(registry, f"[{{(:psi.memory/search-results {tags}) [:psi.memory.entry/text]}}]")
        assert answer == '{:psi.memory/search-results [{:psi.memory.entry/text "the logo is blue"}]}'


def test_entries_take_a_limit(registry: Registry) -> None:
    for name in ("entries", "recent-entries"):
        answer = ask(registry, f"[{{(:psi.memory/{name} {{:limit 1}}) [:psi.memory.entry/tags]}}]")
        assert answer == f'{{:psi.memory/{name} [{{:psi.memory.entry/tags ["design"]}}]}}'


def test_by_tag_is_a_map_from_text(registry: Registry) -> None:
    by_tag = query(registry, "[:psi.memory/by-tag]")[Keyword("psi.memory/by-tag")]
    assert sorted(by_tag) == ["2026", "deploy", "design"]
    assert by_tag["design"][0][Keyword("psi.memory.entry/text")] == "the logo is blue"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("{:text 1}", "takes :text, which must be a string"),
        ('{:text "a" :limit -1}', "parameter :limit must be an integer"),
        ('{:text "a" :limit true}', "parameter :limit must be an integer"),
        ('{:text "a" :tags 1}', "parameter :tags must be a vector"),
        ('{:text "a" :tags ["a b"]}', "a tag must be one word"),
    ],
)
def test_a_bad_parameter_is_named(registry: Registry, params: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ask(registry, f"[(:psi.memory/search-results {params})]")


def test_a_memory_that_can_not_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    registry = Registry()
    registry.register(*memory_resolvers(Memory(str(tmp_path / "file" / "memory.db"))))
    assert ask(registry, "[:psi.memory/status]") == "{:psi.memory/status :unavailable}"
    with pytest.raises(QueryError, match="can't open"):
        ask(registry, "[:psi.memory/entries]")
