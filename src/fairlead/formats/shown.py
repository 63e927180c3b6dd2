"""Text of a model or a stranger as a person can judge it: nothing of it is invisible, and what has no room is
left out of the middle, with a note that says how much that is and where to see it. Does no I/O.

What somebody is asked about goes through here in every door, so that all of them show the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import category

from .columns import cut

TAB = 4
MAX_MARKS = 5
"""How many combining characters one character may have: more than any language needs."""
FEWEST_EMPTY = 3
"""So many empty lines in a row, or more, are shown as their number."""
FEWEST_SPACES = 40
"""So many spaces in a row, or more, are shown as their number."""
MAX_LOOKED_AT = 32 * 1024
"""How many characters of a text are made visible, from its beginning and its end; more would take long."""
BREAK = " ⏎ "
"""What stands for the end of a line where there is room for one line only."""

TITLE_COLUMNS = 120
"""How wide a call's one line may be."""
MAX_QUOTED = 80
"""How many characters of a name are shown that somebody else chose,"""
MAX_ANSWER_NAME = 1000
"""and of an answer's, which says what that does: none that allows more than it shows is offered."""
MAX_LABEL = 48
"""How many characters of what was said name a session that has no name."""
MAX_NAME = 200
"""How many characters the name of a session may have."""

_UNSEEN = frozenset(
    [
        *"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0",  # letters and marks that draw nothing
        *"\u303f\ufffc\U00016fe4\U0001d159",  # places for what is not there, and a head of a note without ink
        # joiners of scripts that nobody writes today; those of Burmese and Khmer are in their usual words
        *"\U00010a3f\U0001107f\U000113d0\U0001193e\U00011a47\U00011a99\U00011d45\U00011d97\U00011f42",
        *map(chr, range(0x180B, 0x1810)),  # selectors of variants
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    ]
)
SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ`-~])"
)
"""A terminal's escape sequence."""
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_UNCLEAN = re.compile(f"{SEQUENCE.pattern}|{_UNSAFE.pattern}")
_PLAIN = re.compile(r"[\n -~]*\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SPACES = re.compile(f" {{{FEWEST_SPACES},}}")
_EMPTY = re.compile(rf"(?:^[ \t]*\n){{{FEWEST_EMPTY},}}", re.MULTILINE)


ASIDE = "A command that I ran meanwhile:"
"""What stands in a prompt above a command that a person ran beside the conversation, and its output."""


def visible(text: str) -> str:
    """A text with a name in place of each character that would not be seen, or would change how others are:
    controls, writing directions, zero-width and odd spaces, marks that enclose others, and combining ones
    that lie on nothing or are many. Line feeds stay, tabs become spaces.

    >>> visible("rm \\u202ex\\x1b[1m"), visible("a \\u0338b")
    ('rm <U+202E>x<U+001B>[1m', 'a <U+0338>b')
    """
    text = text.expandtabs(TAB)
    if _PLAIN.match(text):
        return text
    if any(category(char)[0] == "M" for char in set(text)):
        text = _with_few_marks(text)
    names = {ord(char): f"<U+{ord(char):04X}>" for char in set(text) if _is_unseen(char)}
    return text.translate(names) if names else text


def _with_few_marks(text: str) -> str:
    """A text with a name in place of each combining character that has nothing below it, or too many beside
    it: these are drawn over their neighbours."""
    found, room = [], 0
    for char in text:
        if category(char)[0] != "M":
            room = 0 if char in " \n" else MAX_MARKS
        elif room:
            room -= 1
        else:
            char = f"<U+{ord(char):04X}>"
        found.append(char)
    return "".join(found)


def uncoloured(text: str) -> str:
    """A text without a terminal's escape sequences.

    >>> uncoloured("a \\x1b[31mred\\x1b[0m word")
    'a red word'
    """
    return SEQUENCE.sub("", text)


def clean(text: str) -> str:
    """A text that can't control what shows it: escape sequences are left out, what remains of control
    characters, and of those that turn the direction of writing, is a dot. Line feeds stay.

    >>> clean("a \\x1b[31mred\\x1b[0m \\u202eword")
    'a red ·word'
    """
    return _UNSAFE.sub("·", SEQUENCE.sub("", text.replace("\r\n", "\n").expandtabs(TAB)))


def coloured(text: str) -> str:
    """The same for what can show a terminal's colours: the sequences that set them stay.

    >>> coloured("a \\x1b[31mred\\x1b[0m \\u202eword\\x1b[2J")
    'a \\x1b[31mred\\x1b[0m ·word'
    """
    return _UNCLEAN.sub(_without_colour, text.replace("\r\n", "\n"))


def _without_colour(found: re.Match[str]) -> str:
    if len(found[0]) == 1:
        return "·"
    return found[0] if _COLOUR.fullmatch(found[0]) else ""


def dotted(text: str) -> str:
    """The same for a text that is shown as it grows: what a character becomes does not depend on those
    after it.

    >>> dotted("a \\x1b[31mred \\u202eword")
    'a ·[31mred ·word'
    """
    return _UNSAFE.sub("·", text.replace("\r", ""))


def label(text: str) -> str:
    """What was said to a session that has no name, as a name for it.

    >>> label("mend the\\ngarden gate")
    'mend the garden gate'
    """
    line = " ".join(dotted(text[: 8 * MAX_LABEL]).split())
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…"


def _is_unseen(char: str) -> bool:
    if char in " \n":
        return False
    kind = category(char)  # marks that enclose are drawn over what they are on
    return kind[0] in "CZ" or kind == "Me" or char in _UNSEEN


def name_fault(name: str) -> str:
    """Why a text can't be the name of a session: two names must not look alike, and each is one line.

    >>> name_fault("pay"), name_fault("pay\\u3164")
    ('', "a name has no invisible characters: 'pay<U+3164>'")
    """
    shown = visible(name[: MAX_NAME + 1])
    if len(name) > MAX_NAME or not name.isprintable():
        return f"a name has at most {MAX_NAME} characters, all of them printable"
    if name != name.strip():
        return f"a name has no blanks at its beginning or end: {name!r}"
    return f"a name has no invisible characters: '{shown}'" if shown != name else ""


def _folded(text: str) -> str:
    """A visible text whose padding is shown as its size: what follows it would be out of sight."""
    text = _EMPTY.sub(lambda found: f"[{found[0].count(chr(10))} empty lines]\n", text)
    return _SPACES.sub(lambda found: f" [{len(found[0])} spaces] ", text)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "line"), counted(2, "process")
    ('1 line', '2 processes')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def middle(text: str, characters: int, where: str = "") -> str:
    """The beginning and the end of a text that is too long, with a note between them; else the text.

    >>> middle("a" * 200 + "b" * 200, 100, "see the log")
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\n[300 characters are hidden here: see the log]\\n\
bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
    """
    if len(text) <= characters:
        return text
    half = characters // 2
    return _joined(text, text[:half], text[-half:], where)


def _clear(text: str) -> str:
    return _folded(visible(text)).strip("\n")


def several_lines(text: str, *, lines: int, characters: int, where: str = "") -> str:
    """A text for a place with room for so much, all of it visible.

    >>> print(several_lines("echo x" + 60 * "\\n" + "touch y", lines=20, characters=1000))
    echo x
    [59 empty lines]
    touch y
    """
    is_looked_at = len(text) <= MAX_LOOKED_AT
    head = _clear(text if is_looked_at else text[: MAX_LOOKED_AT // 2])
    tail = head if is_looked_at else _clear(text[-MAX_LOOKED_AT // 2 :])
    if is_looked_at and head.count("\n") < lines and len(head) <= characters:
        return head
    whole = head if is_looked_at else text
    half, room = max(1, lines // 2), max(1, characters // 2)
    head, tail = "\n".join(head.split("\n")[:half]), "\n".join(tail.split("\n")[-half:])
    return _joined(whole, head[:room], tail[-room:], where)


def one_line(text: str, characters: int) -> str:
    """A text in one line with room for so much, of which the end is always seen.

    >>> one_line("echo x" + 60 * "\\n" + "touch y", 60)
    'echo x ⏎ [59 empty lines] ⏎ touch y'
    """
    is_looked_at = len(text) <= MAX_LOOKED_AT
    head = _in_line(text if is_looked_at else text[: MAX_LOOKED_AT // 2])
    tail = head if is_looked_at else _in_line(text[-MAX_LOOKED_AT // 2 :])
    if is_looked_at and len(head) <= characters:
        return head
    size = len(head) if is_looked_at else len(text)
    note = " [{} characters are hidden here] "
    room = max(2, characters - len(note.format(size)))
    return f"{head[: room - room // 2]}{note.format(size - room)}{tail[-(room // 2) :]}"


def _in_line(text: str) -> str:
    return BREAK.join(row.strip() for row in _clear(text).split("\n"))


def _joined(text: str, head: str, tail: str, where: str) -> str:
    """A text's beginning and end, with a note about what is between."""
    hidden = max(1, len(text) - len(head) - len(tail))
    head, tail = head.rstrip("\n"), tail.lstrip("\n")
    lines = text.strip("\n").count("\n") - head.count("\n") - tail.count("\n") - 1
    parts = f"{lines} lines, " if lines > 1 else ""
    return f"{head}\n[{parts}{hidden} characters are hidden here{f': {where}' if where else ''}]\n{tail}"


def asked_about(
    *, what: str, reason: str, who: str, whole: str, lines: int, characters: int, where: str = ""
) -> str:
    """A question to a person, as every door shows it: what will happen in one line, why that is asked, who
    asks in which project, and all of what will happen, if it is more than the line."""
    body = several_lines(whole, lines=lines, characters=characters, where=where)
    rows = [what, reason and one_line(reason, characters), who]
    if body and body != what.removeprefix("$ "):
        rows.append(body)
    return "\n".join(row for row in rows if row)


def quoted(text: str, characters: int = MAX_QUOTED) -> str:
    """A name that somebody else chose, so that it is seen where it ends.

    >>> quoted('x"), deny ("Reject')
    '"x\\\\"), deny (\\\\"Reject"'
    """
    return json.dumps(one_line(text, characters), ensure_ascii=False)


def fits(label: str) -> bool:
    """True if all that an answer's name says has room, with its hidden characters by their code points.

    >>> fits("Always allow: mode acceptEdits"), fits("\u3164" * 200)
    (True, False)
    """
    return len(label) <= MAX_ANSWER_NAME and len(_in_line(label)) <= MAX_ANSWER_NAME


def answer_name(value: str, label: str, characters: int = MAX_ANSWER_NAME) -> str:
    """An answer of a question, by its value and what it is called."""
    return f"{value} ({quoted(label, characters)})"


def answers(options: Iterable[tuple[str, str]]) -> str:
    """The answers that a question has, for an error: of long names only the ends.

    >>> answers([("1", "red"), ("deny", "Don't answer")])
    '1 ("red"), deny ("Don\\'t answer")'
    """
    return ", ".join(answer_name(value, label, MAX_QUOTED) for value, label in options)


def asker(session_name: str, session_id: str | None, project: str) -> str:
    """Who asks a question: the session with its project, a program that is none, or the daemon.

    >>> asker("garden", "0c0b2e1a-88", "/home/me/garden"), asker("zed", None, "/home/me"), asker("", None, "")
    ('session garden (0c0b2e1a) in /home/me/garden', 'program "zed" in /home/me', 'the daemon itself')
    >>> asker("work", "work", "")
    'session work'
    """
    name = one_line(session_name, 80)
    if session_id is None and not name:
        return "the daemon itself"
    called = f"program {quoted(name)}"  # whatever it calls itself
    if session_id is not None:
        called = f"session {name or session_id[:8]}"
        if name and session_id != session_name:  # terminals have their names for ids
            called += f" ({session_id[:8]})"
    return called + (f" in {one_line(project, 200)}" if project else "")


def call_title(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call in one line.

    >>> call_title("bash", {"command": "make test"}), call_title("read", {"path": "README.md"})
    ('$ make test', 'read README.md')
    """
    if isinstance(command := arguments.get("command"), str):
        return f"$ {one_line(_COLOUR.sub('', command), TITLE_COLUMNS - 2)}"
    if isinstance(title := arguments.get("title"), str) and title:  # what a third-party agent calls it
        return one_line(_COLOUR.sub("", title), TITLE_COLUMNS)
    words = [str(arguments[key]) for key in ("pattern", "path") if key in arguments]
    if not words and arguments:
        words = [json.dumps(arguments, ensure_ascii=False)]
    return cut(visible(_COLOUR.sub("", " ".join([name, *words]))).replace("\n", " "), TITLE_COLUMNS)
