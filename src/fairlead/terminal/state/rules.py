"""Rules that read an agent's state off its screen: data, one TOML file an agent, and what matches them.

A rule describes the rows at the bottom of the screen, from top to bottom, by their kinds: an edge, a title,
options, a hint. It matches if these rows are the last ones on the screen, so text above them, such as an
answer that quotes a dialog, never counts. No rule that matches means that nothing is known.

    [rows]
    option = '^ (❯| ) \\d\\. '

    [[rule]]
    name = "permission"
    state = "waits"
    shape = "line <title> !line{0,30} option+ blank* hint?"

A word of a shape is a kind of row with `*`, `+`, `?` or `{m,n}` after it, and one more `?` if few rows are
better than many. `any`, `blank`, `line` (across the whole screen), `box-top`, `box-bottom` (the same with
corners) and `text` (none of these) need no pattern. Before it may stand `!` (a row of any other kind), `=`
(a row of the agent's input) and `@` (the cursor is in it); `<…>` are the rows that a state rests on, and for
`waits` the question. A kind is a regular expression, or one with the look (`faint`, `bold`, a colour) that a
part of the row must have. Matching does no I/O and takes bounded time; only `shipped` and `user_rules` read
files.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ...formats.patterns import Pattern, PatternError, compiled
from ...system.opening import read_file
from ...system.settings import SettingError
from ..screen.cells import Run, runs, style_of
from ..screen.events import Progress
from ..screen.picture import attributes, color_name
from ..screen.screen import LastRows, Screen
from ..screen.text import row_text

log = logging.getLogger("fairlead")

MAX_ROWS = 100
"""How many rows from the bottom are looked at."""
MAX_COLUMNS = 400
"""How many characters of a row are looked at."""
MAX_FILE = 64 * 1024
"""How many bytes a file of rules may have."""
MAX_FILES = 64
"""How many files of rules a user may have."""
MAX_RULES = 40
"""How many rules a file may have."""
MAX_KINDS = 64
"""How many kinds of rows a file may have."""
MAX_SHAPE = 16
"""How many words a shape may have."""
MAX_STEPS = 20_000
"""How often rows are compared in one look, some 10 ms at worst: after that nothing is known."""
MAX_REMEMBERED = 1024
"""For how many texts of rows their kinds are remembered."""
MAX_WORDS = 200
"""How many characters of a screen stand for it as evidence."""
MAX_QUESTION = 120
"""How many characters a question has in short."""
SHIPPED = Path(__file__).with_name("rules")

STATES = ("working", "waits", "idle")
_WORD = re.compile(r"([!=@<]*)([a-z][a-z0-9-]*)>?(\*|\+|\?|\{(\d{1,3}),(\d{1,3})\})?(\?)?")
_COUNTS = {"": (1, 1), "?": (0, 1), "*": (0, MAX_ROWS), "+": (1, MAX_ROWS)}
_LINES = {"line": re.compile("─+"), "box-top": re.compile(" ?╭─+╮"), "box-bottom": re.compile(" ?╰─+╯")}
_BUILT_IN = {"any", "blank", "text", *_LINES}
_CURSORS = ("input", "hidden")
_INPUTS = ("empty", "draft", "none")
_FRAME = re.compile(r"[\s\u2500-\u259f]+")
"""Blanks, and what boxes are drawn with."""
_INTERPRETERS = ("node", "nodejs", "bun", "deno", "python", "python3", "sh", "bash", "env")
_KEYS = {"agent", "version", "programs", "hints", "rows", "rule", "recorded", "unwraps"}
_RULE_KEYS = {"name", "state", "shape", "title", "input", "cursor"}


class LiveView:
    """What of a screen counts: the texts of its rows without the blank ones at the end, the cursor, the
    title, and how far the program said it is (OSC 9;4)."""

    def __init__(self, last: LastRows, cols: int, title: str, progress: Progress | None) -> None:
        texts = [row_text(row.cut(MAX_COLUMNS)).replace("\u00a0", " ").rstrip() for row in last.rows]
        while texts and not texts[-1]:
            texts.pop()
        self.texts = texts
        self.cols = min(cols, MAX_COLUMNS)
        self.cursor = last.cursor
        """Its column, its row among `texts`, and whether it is visible."""
        self.repaints = last.repaints
        """True while the program is drawing: what was known before still holds then."""
        self.title = title
        self.progress = progress
        self._rows = last.rows

    def unwrapped(self) -> LiveView:
        """The same with lines in the place of rows: those that wrap into each other are one."""
        view = copy(self)
        view.texts, view._rows, wraps = [], [], False
        for row, text in enumerate(self.texts):
            if not wraps:
                view._rows.append(self._rows[row])
            before = view.texts.pop() if wraps else ""
            wraps = self._rows[row].wraps
            view.texts.append(before + (text.ljust(self.cols) if wraps else text))
            if row == self.cursor[1]:
                view.cursor = (self.cursor[0], len(view.texts) - 1, self.cursor[2])
        if self.cursor[1] >= len(self.texts):
            beyond = self.cursor[1] - len(self.texts)
            view.cursor = (self.cursor[0], len(view.texts) + beyond, self.cursor[2])
        view.texts = [text.rstrip() for text in view.texts]
        return view

    def runs(self, row: int) -> Iterator[Run]:
        """The runs of a row."""
        return runs(self._rows[row])


def live_view(screen: Screen, progress: Progress | None = None) -> LiveView:
    """What of a screen counts now."""
    return LiveView(screen.last_rows(MAX_ROWS), screen.cols, screen.title, progress)


class Found(Struct, frozen=True):
    """What a rule says about a screen."""

    state: Literal["working", "waits", "idle"]
    question: str
    """What it waits for, in the words of its dialog, in short."""
    input: Literal["", "empty", "draft"]
    """Whether the agent's input is shown, and Enter would send it."""
    rule: str
    version: int
    words: str
    """What of the screen it rests on."""
    typed: tuple[str, ...] = ()
    """What the rows of the input show, if it is shown."""


class RowKind(NamedTuple):
    """What a row's text is like, and how a part of it looks."""

    pattern: Pattern
    look: str = ""


class ShapeWord(NamedTuple):
    """A word of a shape: a kind of row, how often it is there, and what it is for."""

    kind: str
    least: int
    most: int
    is_not: bool
    is_input: bool
    has_cursor: bool
    is_shown: bool
    is_lazy: bool
    is_beside: bool = False
    """True if the cursor must not be in it: it is in the input, and this is none of its rows."""


class Rule(NamedTuple):
    """One rule of a file."""

    name: str
    state: Literal["working", "waits", "idle"]
    shape: tuple[ShapeWord, ...]
    title: Pattern | None
    input: str
    """What the input must be, `empty` or `draft`; `none` if Enter would not send it."""
    cursor: str
    """Where the cursor must be: visible in the `input`, or `hidden`."""


class AgentRules:
    """The rules for one agent, and those of `base` for what they don't match."""

    def __init__(self, table: Mapping[str, Any], path: str, base: AgentRules | None = None) -> None:
        """Raises SettingError, with the file, the rule and the key that is wrong."""
        read = _RuleFile(path)
        self.path = path
        self.base = base
        read.known(table, _KEYS)
        self.agent = read.text(table, "agent")
        self.version = read.number(table, "version")
        self.programs: tuple[str, ...] = (*read.texts(table, "programs"), *(base.programs if base else ()))
        self.unwraps = read.flag(table, "unwraps")
        """Whether its rows are lines: those that wrap into each other are one."""
        self._hints = frozenset(read.texts(table, "hints", ["faint"]))
        rows = read.table(table, "rows")
        if len(rows) > MAX_KINDS:
            raise read.wrong("rows", f"at most {MAX_KINDS} kinds of rows; there are {len(rows)}")
        self._kinds = {kind: read.kind(rows, kind) for kind in rows}
        self.rules = tuple(read.rules(table, self._kinds))
        self._remembered: dict[str, dict[str, bool]] = {}

    def __repr__(self) -> str:
        return f"<AgentRules {self.agent} {self.version}, {len(self.rules)} rules>"

    def look(self, view: LiveView) -> Found | None:
        """What the first rule that matches says; None if none does."""
        steps = itertools.count()
        whole, view = view, view.unwrapped() if self.unwraps else view
        for rule in self.rules:
            if rule.title is not None and rule.title.search(view.title[:MAX_COLUMNS]) is None:
                continue
            counts = self._match(rule.shape, view, steps)
            found = None if counts is None else self._found(rule, counts, view)
            if found is not None:
                return found
        return self.base.look(whole) if self.base is not None else None

    def is_kind(self, text: str, kind: str, cols: int) -> bool:
        """True if a row with this text is of a kind."""
        if kind in _LINES:
            return len(text) >= cols - (kind != "line") and _LINES[kind].fullmatch(text) is not None
        if kind == "text":
            return bool(text) and not any(self.is_kind(text, line, cols) for line in _LINES)
        if kind in _BUILT_IN:
            return kind == "any" or not text
        known = self._remembered.get(text)
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[text] = {}
        if kind not in known:
            known[kind] = self._kinds[kind].pattern.search(text) is not None
        return known[kind]

    def _match(self, shape: tuple[ShapeWord, ...], view: LiveView, steps: Iterator[int]) -> list[int] | None:
        """How many rows each word takes if the shape matches the last rows. The last word chooses first."""
        texts = view.texts
        failed: set[tuple[int, int]] = set()
        counts = [0] * len(shape)

        def fits(at: int, end: int) -> bool:
            """True if the words up to this one match the rows that end here."""
            if at < 0:
                return True
            word = shape[at]
            most = 0
            while most < word.most and most < end and next(steps) < MAX_STEPS:
                if not self._is_word(word, texts, end - most - 1, view):
                    break
                most += 1
            tried = range(word.least, most + 1)
            for count in tried if word.is_lazy else reversed(tried):
                before = (at - 1, end - count)
                if before not in failed and next(steps) < MAX_STEPS and fits(*before):
                    counts[at] = count
                    return True
                failed.add(before)
            return False

        return counts if fits(len(shape) - 1, len(texts)) else None

    def _is_word(self, word: ShapeWord, texts: Sequence[str], row: int, view: LiveView) -> bool:
        if word.has_cursor and (view.cursor[1] != row or not view.cursor[2]):
            return False
        if word.is_beside and view.cursor[1] == row:
            return False
        is_kind = self.is_kind(texts[row], word.kind, view.cols)
        if is_kind and word.kind in self._kinds and (look := self._kinds[word.kind].look):
            is_kind = any(look in self._looks(run) for run in view.runs(row) if run.text.strip())
        return is_kind is not word.is_not

    def _found(self, rule: Rule, counts: Sequence[int], view: LiveView) -> Found | None:
        row = len(view.texts) - sum(counts)
        shown: list[str] = []
        inputs: list[tuple[int, int]] = []  # rows, and the columns where what is typed begins
        for word, count in zip(rule.shape, counts, strict=True):
            if word.is_shown:
                shown += view.texts[row : row + count]
            if word.is_input:
                inputs += ((at, self._start(word, view.texts[at])) for at in range(row, row + count))
            row += count
        _, at, is_visible = view.cursor
        if rule.cursor and is_visible is not (rule.cursor == "input"):
            return None
        if rule.cursor == "input" and at not in {row for row, _ in inputs}:
            return None
        words = " · ".join(filter(None, (_FRAME.sub(" ", text).strip() for text in shown)))
        question = _cut(words, MAX_QUESTION) if rule.state == "waits" else ""
        shown_input: Literal["", "empty", "draft"] = ""
        if inputs and rule.input != "none":
            shown_input = "empty" if self._is_empty(inputs, view) else "draft"
            if rule.input not in ("", shown_input):
                return None
        typed = tuple(view.texts[row][start:] for row, start in inputs) if shown_input == "draft" else ()
        words = _cut(words, MAX_WORDS)
        return Found(rule.state, question, shown_input, rule.name, self.version, words, typed)

    def _start(self, word: ShapeWord, text: str) -> int:
        """Where the agent's own part of a row of its input ends: where the pattern of its kind does."""
        kind = None if word.is_not else self._kinds.get(word.kind)
        found = kind.pattern.match(text) if kind is not None else None
        return found.end() if found is not None else 0

    def _is_empty(self, rows: Sequence[tuple[int, int]], view: LiveView) -> bool:
        """True if nothing was typed: the rows are blank, or all in them is a hint but for the cursor."""
        shown = [
            (run, column)
            for row, column in rows
            for run in view.runs(row)
            if run.text[max(0, column - run.x) :].strip("\u00a0 ") and run.x + run.width > column
        ]
        if not shown:
            return True
        first = shown[0][0]
        if first.width == 1 and "inverse" in self._looks(first):
            shown = shown[1:]
        return bool(shown) and all(
            run.x >= column and self._hints & self._looks(run) for run, column in shown
        )

    def _looks(self, run: Run) -> set[str]:
        style = style_of(run.style)
        return {*attributes(style), str(color_name(style.foreground))}


def bare(text: str) -> str:
    """A text without blanks and frames."""
    return _FRAME.sub("", text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# --- files --------------------------------------------------------------------------------------------------


class _RuleFile:
    """Reads the values of a file, and says what is wrong with one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rule = ""

    def wrong(self, key: str, expected: str) -> SettingError:
        rule = f", rule {self._rule}" if self._rule else ""
        return SettingError(f"{self._path}{rule}: {key}: {expected}")

    def known(self, table: Mapping[str, Any], keys: set[str], under: str = "") -> None:
        for key in table:
            if key not in keys:
                raise self.wrong(under + key, f"unknown; expected one of {', '.join(sorted(keys))}")

    def text(self, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "expected a text")
        return value

    def number(self, table: Mapping[str, Any], key: str, default: int | None = None) -> int:
        value = table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, "expected a number that is not negative")
        return value

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, "expected true or false")
        return value

    def texts(self, table: Mapping[str, Any], key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        value = table.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise self.wrong(key, "expected a list of texts")
        return tuple(value)

    def table(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "expected a table")
        return value

    def pattern(self, table: Mapping[str, Any], key: str, under: str = "") -> Pattern:
        written = self.text(table, key)
        try:
            pattern = compiled(written)
        except PatternError as error:
            raise self.wrong(under + key, str(error)) from None
        if not pattern.is_quick(" " * MAX_COLUMNS):
            raise self.wrong(under + key, "the regular expression is too large; repeat less in it")
        return pattern

    def kind(self, rows: Mapping[str, Any], name: str) -> RowKind:
        given = rows[name]
        if not isinstance(given, dict):
            return RowKind(self.pattern(rows, name, "rows."))
        self.known(given, {"text", "look"}, f"rows.{name}.")
        return RowKind(self.pattern(given, "text", f"rows.{name}."), self.text(given, "look"))

    def rules(self, table: Mapping[str, Any], kinds: Mapping[str, RowKind]) -> Iterator[Rule]:
        listed = table.get("rule")
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_RULES:
            raise self.wrong("rule", f"expected 1 to {MAX_RULES} tables [[rule]]")
        names: set[str] = set()
        for number, each in enumerate(listed, 1):
            self._rule = f"{number}"
            self.known(each, _RULE_KEYS)
            self._rule = name = self.text(each, "name")
            if name in names:
                raise self.wrong("name", "another rule has it too")
            names.add(name)
            state = self.text(each, "state")
            if state not in STATES:
                raise self.wrong("state", f"expected {', '.join(STATES)}, not {state!r}")
            wanted = each.get("input", "")
            if wanted not in ("", *_INPUTS):
                raise self.wrong("input", f"expected {', '.join(_INPUTS)}, not {wanted!r}")
            cursor = each.get("cursor", "")
            if cursor not in ("", *_CURSORS):
                raise self.wrong("cursor", f"expected {' or '.join(_CURSORS)}, not {cursor!r}")
            title = self.pattern(each, "title") if "title" in each else None
            shape = self._shape(each, kinds)
            if cursor == "input":
                shape = tuple(word._replace(is_beside=not word.is_input) for word in shape)
            yield Rule(name, state, shape, title, wanted, cursor)  # type: ignore[arg-type]
        self._rule = ""

    def _shape(self, table: Mapping[str, Any], kinds: Mapping[str, RowKind]) -> tuple[ShapeWord, ...]:
        words = self.text(table, "shape").split()
        if len(words) > MAX_SHAPE:
            raise self.wrong("shape", f"at most {MAX_SHAPE} words; there are {len(words)}")
        return tuple(self._word(word, kinds) for word in words)

    def _word(self, word: str, kinds: Mapping[str, RowKind]) -> ShapeWord:
        found = _WORD.fullmatch(word)
        if found is None or ("<" in found[1]) != (">" in word):
            raise self.wrong("shape", f"{word!r} is not a kind of row such as edge, <title>, !edge{{0,9}}")
        marks, kind, count = found[1], found[2], found[3] or ""
        if kind not in kinds and kind not in _BUILT_IN:
            raise self.wrong("shape", f"{kind!r} is not among the [rows]")
        least, most = (int(found[4]), int(found[5])) if found[4] else _COUNTS[count]
        if not least <= most <= MAX_ROWS:
            raise self.wrong("shape", f"{word!r} repeats {least} to {most} times; at most {MAX_ROWS} rows")
        return ShapeWord(
            kind, least, most, "!" in marks, "=" in marks, "@" in marks, "<" in marks, bool(found[6])
        )


def read_rules(path: Path, base: AgentRules | None = None, among: Sequence[AgentRules] = ()) -> AgentRules:
    """The rules of a file, which go before those for the same agent `among` others. Raises SettingError."""
    try:
        data = read_file(path, MAX_FILE + 1)  # of a pipe nothing is read
        if len(data) > MAX_FILE:
            raise SettingError(f"{path}: at most {MAX_FILE} bytes")
        table = tomllib.loads(data.decode())
    except OSError as error:
        raise SettingError(f"{path}: can't be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not TOML: {error}") from None
    base = base or next((each for each in among if each.agent == table.get("agent")), None)
    return AgentRules(table, str(path), base)


@cache
def shipped() -> tuple[AgentRules, ...]:
    """The rules that Fairlead has."""
    return tuple(read_rules(path) for path in sorted(SHIPPED.glob("*.toml")))


def user_rules(directory: Path) -> tuple[tuple[AgentRules, ...], list[str]]:
    """A user's own rules, each before the shipped ones for the same agent, and the shipped ones for other
    agents; and what is wrong with files, one sentence each, which are then left out."""
    faults: list[str] = []
    own: dict[str, AgentRules] = {}
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".toml")
    except FileNotFoundError:
        paths = []
    except OSError as error:
        return shipped(), [f"{directory}: can't be read: {error.strerror or error}"]
    if len(paths) > MAX_FILES:
        faults.append(
            f"{directory}: at most {MAX_FILES} files of rules; {paths[MAX_FILES].name} and later are left out"
        )
    for path in paths[:MAX_FILES]:
        try:
            rules = read_rules(path, among=(*own.values(), *shipped()))
        except SettingError as error:
            faults.append(str(error))
        else:
            own[rules.agent] = rules
    return (*own.values(), *(each for each in shipped() if each.agent not in own)), faults


class RuleFiles:
    """The rules that hold: those in a user's directory, as they are now, and the shipped ones."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._seen: tuple[float, ...] = ()
        self._rules: tuple[AgentRules, ...] | None = None
        self.faults: list[str] = []
        """What is wrong with a user's files."""

    def of_program(self, name: str, argv: Sequence[str]) -> AgentRules | None:
        """The rules for a program; reads files that have changed."""
        seen = self._look()
        if self._rules is None or seen != self._seen:
            self._seen = seen
            self._rules, self.faults = user_rules(self._directory)
            for fault in self.faults:
                log.warning("rules are left out: %s", fault)
        return of_program(name, argv, self._rules)

    def _look(self) -> tuple[float, ...]:
        try:
            with os.scandir(self._directory) as entries:
                return tuple(each.stat().st_mtime for each in islice(entries, 2 * MAX_FILES))
        except OSError:
            return ()


def of_program(
    name: str, argv: Sequence[str] = (), rules: Iterable[AgentRules] | None = None
) -> AgentRules | None:
    """The rules for a program, by its name and its arguments; None if it is not known.

    >>> of_program("node", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"]).agent
    'claude'
    """
    script = ""
    if argv and os.path.basename(argv[0]) in _INTERPRETERS:
        script = next((each for each in argv[1:] if not each.startswith("-")), "")
    paths = [each for each in (name, argv[0] if argv else "", script) if each]
    names = {os.path.basename(path) for path in paths}
    for each in shipped() if rules is None else rules:
        for program in each.programs:
            if any(program in path for path in paths) if "/" in program else program in names:
                return each
    return None
