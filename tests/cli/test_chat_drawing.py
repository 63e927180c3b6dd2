"""How the chat looks in a real terminal: Markdown, folds that a key opens, changes in questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.openai_server import HOLD, Frame, Halt, OpenAiServer, Reply, answer, chunk, failure
from tests.cli.configured import configure, lab
from tests.client.persons import Person
from tests.hosting import Hosting

ENDED = "lists them."
"""How the offline guide ends what it says."""
NOTES = """# Roses

- one **bold** and `code`
  - nested item

| Name | Count |
|:--|--:|
| rose | 12 |

```python
return "wet"  # soon
```"""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    yield hosting
    hosting.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_text(NOTES)
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(30)))
    return tmp_path


def talk(hosting: Hosting, place: Path, *words: str, cols: int = 80, rows: int = 50) -> Person:
    person = Person(hosting, "agent", "-C", str(place), *words, cols=cols, rows=rows)
    person.until_all(["^D leaves", "● connected"])
    return person


def test_an_answer_is_drawn_as_markdown_and_is_so_for_who_comes_back(hosting: Hosting, place: Path) -> None:
    drawn = (
        "Roses\n\n• one bold and code\n  • nested item\n\n"
        "Name │ Count\n─────┼──────\nrose │    12\n\n"
        '─── python\nreturn "wet"  # soon\n───\n'
    )
    with talk(hosting, place, "marked") as person:
        person.type(b"read notes.md\r")
        person.until_all(["Done: read notes.md.", drawn, ENDED])
        assert b"\x1b[1;34mreturn\x1b[0m" in person.seen
        assert b"\x1b[1mbold\x1b[0m" in person.seen
        assert person.leave(b"\x04") == 0
    with talk(hosting, place, "marked") as person:
        person.until_all(["› read notes.md", "● read notes.md", drawn, ENDED])


def test_without_colours_it_is_laid_out_all_the_same(hosting: Hosting, place: Path) -> None:
    hosting.environment["NO_COLOR"] = "1"
    try:
        with talk(hosting, place, "plain", cols=40) as person:
            person.type(b"read notes.md\r")
            person.until_all(["# Roses\n\n• one bold and `code`\n  • nested", "rose │    12\n", ENDED])
            assert not re.search(rb"\x1b\[[1-9][0-9;]*m", person.seen)
    finally:
        del hosting.environment["NO_COLOR"]


def test_a_result_and_a_paste_are_folded_and_a_key_opens_them(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "folds", rows=100) as person:
        person.type(b"run: seq 100 130\r")
        person.until("y yes")
        person.press(b"y", b"\r")
        person.until_all(["… 26 lines before · ^O opens\n  126\n  127", ENDED])
        assert "\n  110\n" not in person.screen.text()
        person.press(b"\x0f")
        person.until("▾ $ seq 100 130\n  100\n  101\n")
        person.until("\n  130\n")
        pasted = "\n".join(f"pasted {number}" for number in range(40))
        person.type(b"\x1b[200~" + pasted.encode() + b"\x1b[201~\r")
        person.until_all(["> pasted 0\n", "  pasted 11\n  … 28 more lines · ^O opens"])
        person.press(b"\x0f")
        person.until("  pasted 38\n  pasted 39\n")
        person.type(b"\x0f")
        person.until_again(b"\x07")  # there is no more


def test_who_comes_back_can_open_the_results_of_calls(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "again") as person:
        person.type(b"read long.txt\r")
        person.until_all(["● read long.txt\n  30 lines", ENDED])
        assert person.leave(b"\x04") == 0
    with talk(hosting, place, "again") as person:
        person.until_all(["● read long.txt\n  30 lines", ENDED])
        person.type(b"\x0f\x0f")  # what the guide said of it is folded as well
        person.until("▾ read long.txt\n  line 0\n  line 1\n")


def test_a_question_shows_the_change_with_its_numbers_and_words(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "changes") as person:
        person.type(b"edit long.txt: replace `line 17` with `row 17`\r")
        person.until_all(["  18 - line 17\n  18 + row 17\n", "y yes"])
        assert b"\x1b[32;7mrow\x1b[0m" in person.seen
        person.press(b"y", b"\r")
        person.until_all(["✓ allowed", ENDED])


def test_a_script_s_answer_is_drawn_if_it_goes_to_a_terminal(hosting: Hosting, place: Path) -> None:
    words = ("agent", "-C", str(place), "-p", "read notes.md")
    with Person(hosting, *words, rows=50) as person:
        person.until_all(["Done: read notes.md.", "• one bold and code\n  • nested item", "rose │    12"])
        assert person.exit_code() == 0
    assert "- one **bold** and `code`\n" in hosting.run(*words).stdout


def test_the_first_control_c_ends_the_answer_with_a_whole_word(hosting: Hosting, place: Path) -> None:
    halt = Halt()
    words = [chunk({"content": text}) for text in ("one tw", "o three", " four")]
    frames: list[Frame] = [words[0], halt, *words[1:], HOLD]
    with OpenAiServer([Reply(frames)]) as server:
        configure(hosting, lab(server))
        with talk(hosting, place, "words") as person:
            person.type(b"count\r")
            person.until("\none tw\n")
            person.press(b"\x03")
            person.until("interrupting after this step")
            id = hosting.ask("session_find", name="words")["session"]["id"]
            hosting.until(lambda: hosting.ask("get_state", session_id=id)["state"]["interrupt_pending"])
            halt.opened.set()
            person.until("\none two\n\ninterrupted\n")
            assert "three" not in person.text


def test_while_a_model_is_asked_again_the_chat_says_why(hosting: Hosting, place: Path) -> None:
    with OpenAiServer([failure(503, "all roses are taken", retry_after=25)]) as server:
        configure(hosting, lab(server))
        with talk(hosting, place, "retried") as person:
            person.type(b"hello\r")
            person.until_all(["in 25 s: lab/test: ", "all roses are taken", "^C interrupts · lab/test: "])
            person.press(b"\x03", b"\x03")
            person.until("aborted")


def test_sentences_of_the_chat_are_wrapped_at_words(hosting: Hosting, place: Path) -> None:
    with talk(hosting, place, "narrow", cols=40) as person:
        person.type(b"/mode\r")
        person.until("choose")
        person.type(b"\x1b")
        person.until("Nothing was chosen.")
        person.type(b"/nonsense-that-nobody-knows\r")
        person.until("is not a\ncommand here; /help lists them\n")
        person.type(b"/cost\r")
        person.until_all(["  Tokens  : none known\n", "  Cost    : nothing yet\n"])


def test_a_long_answer_of_a_model_comes_out_whole(hosting: Hosting, place: Path) -> None:
    text = "".join(f"- item {number} of **many**\n" for number in range(400)) + "\nThe end."
    with OpenAiServer([answer(text, pieces=200)]) as server:
        configure(hosting, lab(server))
        with talk(hosting, place, "long") as person:
            person.type(b"list\r")
            person.until("The end.")
            rows = person.text.split("\n")
            assert [row for row in rows if row.startswith("• item ")] == [
                f"• item {number} of many" for number in range(400)
            ]
