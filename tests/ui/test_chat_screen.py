"""The rows of a chat that are drawn again: what a terminal shows after every change, and what that costs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.events import ToolResult, ToolRunning
from fairlead.terminal.screen.screen import Screen
from fairlead.ui.chat.screen import ChatScreen
from fairlead.ui.chat.talk import ConversationView
from fairlead.ui.styled import ASCII, Line, Paint, Row, plain

TEXTS = [
    "",
    "a",
    "word and word",
    "word",
    "日本語",
    "日本",
    "e\u0301a",
    "a" * 19,
    "👩\u200d👩\u200d👧 x",
    "⚠\ufe0f y",
    "z" * 45,
]
PIECES = st.tuples(st.sampled_from(TEXTS), st.sampled_from(["", "bold", "red"]))
ROWS = st.lists(PIECES, max_size=3)
STEPS = st.lists(st.tuples(st.lists(ROWS, max_size=3), st.lists(ROWS, min_size=1, max_size=5)), max_size=8)


class Terminal:
    """What a chat draws on, emulated."""

    def __init__(self, columns: int = 40, lines: int = 12) -> None:
        self.size = columns, lines
        self.screen = Screen(columns, lines)
        self.written = 0
        self.chat = ChatScreen(self.write, lambda: self.size, Paint(True))

    def write(self, text: str) -> None:
        data = text.encode()
        self.written += len(data)
        self.screen.feed(data.replace(b"\n", b"\r\n"))  # as a terminal's driver does

    def resize(self, columns: int, lines: int) -> None:
        self.size = columns, lines
        self.screen.resize(columns, lines)


@settings(max_examples=60)
@given(STEPS)
def test_what_is_changed_looks_as_if_all_was_drawn_anew(steps: list[tuple[list[Line], list[Line]]]) -> None:
    changed, anew = Terminal(), Terminal()
    for said, rows in steps:
        for terminal in (changed, anew):
            terminal.chat.say(said)
            terminal.chat.draw(rows, (0, 1), always=terminal is anew)
        assert changed.screen.text(scrollback=True) == anew.screen.text(scrollback=True)
        assert changed.screen.cursor == anew.screen.cursor
    for terminal in (changed, anew):
        terminal.chat.leave()
    assert changed.screen.text(scrollback=True) == anew.screen.text(scrollback=True)


def test_a_row_that_is_complete_is_not_written_again() -> None:
    terminal = Terminal()
    rows: list[Row | Line] = [("one two", ""), ("spinner 1 s", "dim"), ("> ", "")]
    terminal.chat.draw(rows, (2, 2))
    terminal.written = 0
    terminal.chat.draw([("one two three", ""), *rows[1:]], (2, 2))
    assert terminal.written <= len(" three") + 20
    terminal.written = 0
    terminal.chat.say([("one two three", "")])
    terminal.chat.draw([("four", ""), *rows[1:]], (2, 2))
    assert terminal.written <= len("four") + 40
    assert terminal.screen.text() == "one two three\nfour\nspinner 1 s\n> "[:-1]
    terminal.written = 0
    terminal.chat.draw([("four", ""), *rows[1:]], (2, 2))
    assert terminal.written == 0


def test_after_a_resize_nothing_is_left_over() -> None:
    terminal = Terminal()
    terminal.chat.say([("said", "")])
    for columns in (40, 20, 60, 11, 40):
        terminal.resize(columns, 12)
        terminal.chat.draw([("open text of a row that is long", ""), ("> ", "")], (1, 2))
    terminal.chat.leave()
    assert terminal.screen.text(scrollback=True).rstrip() == "said"


HOSTILE = [
    *("\x1b[2J\x1b]0;x\x07", "\u202e\x9b31m", "`*_[\x1b", "> - \x1bP", "|\x1b[5A|\n", "```\n\x0c\x08"),
]
MARKDOWN = """## Steps

1. Open `config.toml` and set **port** to a *free* one, such as 8080, which nothing else uses on this machine.
2. Then run the tests again, and look at what [the log](https://example.org/log) says about each of them.

```python
def answer(question: str) -> int:
    # it is always the same
    return 42 if question else 0
```

| Setting | Meaning | Default |
|---|---|---|
| `port` | where it listens | 8080 |
| `host` | on which address it listens, if there are several | 127.0.0.1 |

That is all. If anything goes wrong, say so, and we look at it together; the last lines of the output suffice.

"""


@pytest.mark.parametrize("size", [40, 100, 4000])
def test_a_long_answer_writes_at_most_three_times_its_text(size: int) -> None:
    terminal = Terminal(80, 24)
    talk = ConversationView(terminal.chat)
    text = MARKDOWN * (20_000 // len(MARKDOWN))
    for at in range(0, len(text), size):
        talk.stream(text[at : at + size])
        rows = [
            *talk.rows(),
            ("* thinking 3 s · Esc or ^C interrupts", "dim"),
            ("> ", ""),
            ("model · main", "dim"),
        ]
        terminal.chat.draw(rows, (len(rows) - 2, 2))
    talk.end_line()
    terminal.chat.leave()
    assert terminal.written <= 3 * len(text.encode())
    assert terminal.screen.text(scrollback=True).count("That is all.") == text.count("That is all.")


@pytest.mark.parametrize("unit", HOSTILE)
def test_what_a_model_says_is_text_only(unit: str) -> None:
    seen: list[str] = []
    chat = ChatScreen(seen.append, lambda: (40, 12), Paint(True))
    talk = ConversationView(chat)
    for _ in range(50):
        talk.stream(unit)
        chat.draw([*talk.rows(), ("> ", "")], (len(talk.rows()), 2))
    talk.end_line()
    chat.leave()
    left = re.sub(r"\x1b\[[0-9;]*[mABCDGJKL]", "", "".join(seen))
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", left)


def test_without_styles_none_are_written() -> None:
    seen: list[str] = []
    chat = ChatScreen(seen.append, lambda: (40, 12), Paint(False))
    talk = ConversationView(chat, ASCII)
    talk.stream("# Head\n- **a** `b`\n")
    talk.end_line()
    chat.leave()
    assert "".join(seen) == "# Head\n* a `b`\n"
    assert plain([("a", "bold")]) == "a"


def shown_by(chat: ChatScreen, seen: list[str]) -> str:
    seen.clear()
    chat.draw([("> ", "")], (0, 2))
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", "".join(seen))


def test_what_is_folded_is_opened_the_last_first() -> None:
    seen: list[str] = []
    chat = ChatScreen(seen.append, lambda: (40, 40), Paint(False))
    talk = ConversationView(chat)
    lines = "".join(f"line {number}\n" for number in range(40))
    talk.happened(ToolRunning("1", "bash", {"command": "make"}))
    talk.happened(ToolResult("1", "bash", lines, {}, False))
    talk.prompt(lines, ">")
    text = shown_by(chat, seen)
    assert "● $ make\n  … 35 lines before · ^O opens\n  line 35\n" in text
    assert "> line 0\n  line 1\n" in text
    assert "  line 11\n  … 28 more lines · ^O opens\n" in text
    assert talk.open_fold()
    assert "line 0\n  line 1\n" in (text := shown_by(chat, seen))
    assert "line 39" in text
    assert talk.open_fold()
    assert "▾ $ make\n  line 0\n" in (text := shown_by(chat, seen))
    assert "line 39" in text
    assert not talk.open_fold()


def test_a_prompt_of_one_long_line_is_folded_too() -> None:
    seen: list[str] = []
    chat = ChatScreen(seen.append, lambda: (41, 40), Paint(False))
    talk = ConversationView(chat)
    talk.prompt("x" * 1000, ">")
    assert len(shown_by(chat, seen)) < 600
    assert talk.open_fold()
    assert shown_by(chat, seen).count("x") >= 1000


def test_while_a_model_is_asked_again_it_is_said_why() -> None:
    chat = ChatScreen(lambda text: None, lambda: (40, 40), Paint(False))
    talk = ConversationView(chat)
    talk.stream("half an ans")
    talk.drop_answer("the server is busy\n(529)")
    assert talk.spinner("retrying").endswith("^C interrupts · the server is busy ⏎ (529)")
    talk.begin()
    assert "busy" not in talk.spinner("retrying")
