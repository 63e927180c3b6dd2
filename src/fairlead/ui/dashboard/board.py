"""The lines of the main screen: a head, the list, beside it what is known of the selected session and its
preview, and a foot. No I/O and no Textual; what is shown is that of `DashboardModel`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ...formats.columns import cut, padded, width_of
from ...formats.shown import clean, counted, one_line
from ..needs import STATE_LOOKS, check_look
from ..plot import Look
from .link import Previewed
from .model import DashboardModel, ListEntry, Row, state_of, word_of
from .texts import folded

LEAST_FOR_PREVIEW = 72
"""How many columns the terminal must have so that there is room for a preview;"""
LEAST_PREVIEW, MOST_PREVIEW = 36, 90
"""and how many a preview has at the least and at the most."""
LEAST_TEXT = 24
"""How many columns the question gets at the least, as long as other columns can be left out instead."""
MOST_NAME, LEAST_NAME, MOST_PLACE, MOST_AGENT = 28, 8, 32, 12
AGE = 4
"""How many columns the age of a state takes, with the space before it."""
LEAST_FOR_HEADS = 12
"""How many rows the terminal must have so that the columns have heads."""
MOST_QUESTION = 6
"""How many rows of a question are shown beside the list; the whole of it is shown before it is answered."""
WHEEL = 3
"""How many rows a step of the mouse's wheel goes."""

HINTS = (
    ("⏎", "attach"), ("y", "answer"), ("p", "prompt"), ("n", "new"), ("x", "stop"), ("d", "diff"),
    ("t", "timeline"), ("r", "reports"), ("l", "log"), ("/", "filter"), ("?", "help"), ("q", "quit"),
)  # fmt: skip
ASCII_KEYS = {"⏎": "Enter"}
"""What keys are called where only ASCII can be shown."""
FIRST_HINTS = ("?", "q", "⏎", "Enter", "y", "p", "n", "/")
"""Which of them are shown where there is little room."""


class Widths(NamedTuple):
    """How wide each column is; 0: it is left out."""

    name: int
    state: int
    text: int
    agent: int
    place: int
    check: int
    cost: int


class Board:
    """The main screen of a model."""

    def __init__(self, model: DashboardModel, look: Look) -> None:
        self.model = model
        self.look = look
        self.selected = 0
        self.top = 0
        self.size = (80, 24)
        self.preview: Previewed | None = None
        self.note = ""
        """What is said in the foot for a while."""
        self.typing = False
        """Whether what is typed goes into the filter."""
        self._key = self._name = ""
        self.gone = ""
        """The name of a session that was selected until it went away; another one is selected instead."""
        self.gone_at = 0.0
        self._widths: tuple[object, Widths] | None = None

    # --- the selection --------------------------------------------------------------------------------------

    @property
    def entry(self) -> ListEntry | None:
        """The one that is selected."""
        shown = self.model.shown
        return shown[self.selected] if self.selected < len(shown) else None

    @property
    def list_rows(self) -> int:
        """How many sessions there is room for."""
        return max(1, self.size[1] - self.list_top - 1)

    @property
    def list_top(self) -> int:
        """The row of the first session."""
        return 2 if self.size[1] >= LEAST_FOR_HEADS else 1

    @property
    def list_width(self) -> int:
        """How many columns the list has."""
        columns = self.size[0]
        if columns < LEAST_FOR_PREVIEW:
            return columns
        return columns - min(MOST_PREVIEW, max(LEAST_PREVIEW, columns * 2 // 5)) - 1

    @property
    def preview_width(self) -> int:
        """How many columns are beside the list; 0 if there is no room."""
        return max(0, self.size[0] - self.list_width - 1)

    def move(self, by: int) -> None:
        """Select another one, so many rows below."""
        self.select(self.selected + by)

    def select(self, at: int) -> None:
        self.selected = max(0, min(at, len(self.model.shown) - 1))
        entry = self.entry
        self._key, self._name = (entry.key, entry.name) if entry is not None else ("", "")
        self.gone = ""
        self._scroll()

    def row_at(self, x: int, y: int) -> int | None:
        """Which session is shown at a place of the terminal."""
        at = self.top + y - self.list_top
        is_listed = y >= self.list_top and y < self.size[1] - 1 and x < self.list_width
        return at if is_listed and at < len(self.model.shown) else None

    def changed(self) -> None:
        """The model has changed: the same session stays selected."""
        at = self.model.find(self._key) if self._key else None
        if at is not None:
            self.selected = at
            self._scroll()
            return
        key, name = self._key, self._name
        self.select(self.selected)
        if key and self.entry is not None and all(each.key != key for each in self.model.entries):
            self.gone, self.gone_at = name, time.monotonic()

    def resize(self, columns: int, rows: int) -> None:
        self.size = (max(1, columns), max(1, rows))
        self._scroll()

    def _scroll(self) -> None:
        room = self.list_rows
        self.top = max(min(self.top, self.selected), self.selected - room + 1, 0)
        self.top = max(0, min(self.top, len(self.model.shown) - room))

    # --- lines ----------------------------------------------------------------------------------------------

    def lines(self) -> tuple[list[str], list[str]]:
        """What is on the left of each row, and on the right; the right ones have `preview_width` columns."""
        columns, rows = self.size
        left = [self._head(columns)]
        if self.list_top == 2 and rows > 1:
            left.append(self._heads())
        left += self._list(rows - len(left) - 1)
        left = [*left[: rows - 1], self._foot(columns)] if rows > 1 else left
        right = [""] * rows
        if self.preview_width:
            beside = list(self._beside(self.preview_width, rows - 2))
            right[1 : 1 + len(beside)] = beside
        return left, right

    def _head(self, columns: int) -> str:
        model, counts = self.model, self.model.counts
        facts = [counted(counts["all"], "session")] if model.is_known else ["looking for sessions"]
        if counts["wait"]:
            facts.append(self.look.paint("yellow", f"{counts['wait']} need{'s'[counts['wait'] > 1 :]} you"))
        if counts["work"]:
            facts.append(f"{counts['work']} working")
        if model.away:
            are = "is" if len(model.away) == 1 else "are"
            facts.append(self.look.paint("yellow", f"{', '.join(model.away)} {are} away"))
        if model.hidden:
            facts.append(f"{counted(model.hidden, 'command')} of agents")
        if model.filter or self.typing:
            facts.append(f"{len(model.shown)} shown")
        text = f"{self.look.paint('bold', 'fairlead')}  {', '.join(facts)}"
        if model.fault:
            return f"{text}  {self.look.paint('red', clean(model.fault))}"
        return text

    def _heads(self) -> str:
        w = self._fitted()
        cells = [
            padded(cut(name, width), width)
            for name, width in zip(
                ("NAME", "STATE", "QUESTION", "AGENT", "PROJECT", "CHECK", "COST"), w, strict=True
            )
            if width
        ]
        return self.look.paint("dim", "   " + " ".join(cells))

    def _list(self, room: int) -> Iterator[str]:
        shown = self.model.shown
        for at in range(self.top, min(len(shown), self.top + max(0, room))):
            yield self._line(shown[at], at == self.selected)
        filled = max(0, min(len(shown) - self.top, room))
        if not shown and room > 0:
            yield from self._nothing()
            filled = 1 if self.model.filter else 2
        for _ in range(max(0, room - filled)):
            yield ""

    def _nothing(self) -> Iterator[str]:
        if self.model.filter:
            yield f"   no session has {self.look.fit(self.model.filter, 40)!r}; Esc shows all"
        elif self.model.is_known:
            yield "   no sessions; n starts one"
            yield self.look.paint("dim", "   fairlead start work -- bash")
        else:
            yield ""
            yield ""

    def _line(self, entry: ListEntry, is_selected: bool) -> str:
        w = self._fitted()
        word = word_of(entry)
        state = state_of(entry)
        colour = STATE_LOOKS.get(word.partition(" ")[0], "")
        if word.startswith("exit ") and word != "exit 0":
            colour = "31"
        cells = [
            (entry.name, w.name, "1" if entry.asks else ""),
            (state, w.state, colour.replace("7;", "")),
            (entry.text, w.text, "" if entry.asks else "2"),
            (entry.agent, w.agent, ""),
            (entry.place, w.place, "2"),
            (entry.check, w.check, check_look(entry.check)),
            (entry.cost, w.cost, ""),
        ]
        mark = "○" if word in ("idle", "unknown", "running", "exit 0") else "●"
        sign = "›" if is_selected else " "
        parts = [] if is_selected else [f"{sign}{_sgr(colour.replace('7;', ''), mark)} "]
        plain = [f"{sign}{mark} "]
        for text, width, look in cells:
            if width:
                cell = padded(cut(text, width), width)
                plain.append(cell + " ")
                if not is_selected:
                    parts.append(_sgr(look, cell) + " ")
        if is_selected:
            line = "".join(plain)
            return f"\x1b[7m{padded(cut(line, self.list_width), self.list_width)}\x1b[0m"
        return "".join(parts)

    def _fitted(self) -> Widths:
        """The widths of the columns, for all that are listed, so that they stay when one scrolls."""
        entries = self.model.shown
        sign = (id(entries), len(entries), self.list_width)
        if self._widths is None or self._widths[0] != sign:
            self._widths = sign, self._fit(entries, self.list_width - 4)
        return self._widths[1]

    def _fit(self, entries: list[ListEntry], room: int) -> Widths:
        name = _widest([each.name for each in entries], MOST_NAME, LEAST_NAME)
        state = _widest([word_of(each) for each in entries], 12, 5) + AGE
        agent = _widest([each.agent for each in entries], MOST_AGENT, 5)
        place = _widest([each.place for each in entries], MOST_PLACE, 7)
        check = _widest([each.check for each in entries if each.check != "-"], 9, 0)
        cost = _widest([each.cost for each in entries], 7, 0)
        if room < 44:
            name = min(name, max(LEAST_NAME, room // 3))
        columns = {"cost": cost, "check": max(check, 5) if check else 0, "place": place, "agent": agent}

        def left() -> int:
            return room - name - state - 2 - sum(width + 1 for width in columns.values() if width)

        for column in ("cost", "agent", "check", "place"):
            if left() < LEAST_TEXT and column == "place":
                columns["place"] = max(12, columns["place"] - (LEAST_TEXT - left()))
            if left() < LEAST_TEXT:
                columns[column] = 0
        if left() < 4:
            state = max(5, state + left() - 4)
        return Widths(
            name, state, max(1, left()), **{k: columns[k] for k in ("agent", "place", "check", "cost")}
        )

    def _beside(self, width: int, room: int) -> Iterator[str]:
        entry = self.entry
        if entry is None or room <= 0:
            return
        about = list(self._about(entry, width))[: max(1, room - 2)]
        yield from about
        left = room - len(about) - 1
        if left < 1:
            return
        yield self.look.paint("dim", "─" * width)
        preview = self.preview
        if preview is None or preview.key != entry.key:
            return
        if preview.fault:
            yield self.look.paint("dim", self.look.fit(preview.fault, width))
            return
        yield from (
            _screen_part(preview.lines, left) if preview.is_screen else _last(preview.lines, width, left)
        )

    def _about(self, entry: ListEntry, width: int) -> Iterator[str]:
        look = self.look
        state = _sgr(STATE_LOOKS.get(word_of(entry), ""), state_of(entry))
        yield f"{look.paint('bold', entry.name)}  {state}"
        facts = [entry.agent if entry.agent == entry.row["kind"] else f"{entry.row['kind']} {entry.agent}"]
        facts += [each for each in (entry.row.get("model"), entry.place) if each]
        yield look.paint("dim", look.fit("  ".join(facts), width))
        questions = self.model.questions_of(entry)
        if entry.asks:
            said = questions[0]["summary"] if questions else entry.text
            lines = folded(said, width)
            yield from (look.paint("yellow", line) for line in lines[:MOST_QUESTION])
            if len(lines) > MOST_QUESTION:
                yield look.paint("dim", "…")
            yield look.paint("dim", look.fit(_how_to_answer(questions), width))
        for command in self.model.runs(entry):
            yield look.paint("cyan", look.fit(f"runs {command}", width))
        if writer := entry.row.get("writer"):
            yield look.paint("dim", look.fit(f"{one_line(writer, width)} writes here", width))
        if entry.check != "-" or entry.cost:
            verdict = entry.row.get("verdict") or {}
            said = [_sgr(check_look(entry.check), entry.check)] if entry.check != "-" else []
            said += [look.fit(verdict.get("summary") or "", max(8, width - 24))] if verdict else []
            yield "  ".join([*said, *([entry.cost] if entry.cost else [])])

    def _foot(self, columns: int) -> str:
        if self.typing:
            typed = self.look.fit(self.model.filter, max(1, columns - 24)) if self.model.filter else ""
            return f"/{typed}█  {self.look.paint('dim', 'Esc shows all')}"
        if self.note:
            return self.look.fit(self.note, columns)
        room, chosen = columns, []
        known = [(ASCII_KEYS.get(key, key) if self.look.ascii else key, what) for key, what in HINTS]
        for key, what in sorted(known, key=_importance):
            room -= width_of(key) + len(what) + 3
            if room >= -2:
                chosen.append((key, what))
        hints = [each for each in known if each in chosen]
        return "  ".join(
            f"{self.look.paint('bold', key)} {self.look.paint('dim', what)}" for key, what in hints
        )


def _importance(hint: tuple[str, str]) -> int:
    return FIRST_HINTS.index(hint[0]) if hint[0] in FIRST_HINTS else len(FIRST_HINTS)


def _how_to_answer(questions: list[Row]) -> str:
    if not questions:
        return "Enter attaches, and answers it there"
    more = f"; {len(questions) - 1} more after it" if len(questions) > 1 else ""
    return f"y shows all of it, to answer{more}"


def _screen_part(lines: list[str], room: int) -> list[str]:
    """The part of a screen that says most: its last rows that are not empty."""
    end = len(lines)
    while end and not clean(lines[end - 1]).strip():
        end -= 1
    return lines[max(0, end - room) : end]


def _last(lines: list[str], width: int, room: int) -> list[str]:
    """The last words of what was said."""
    found: list[str] = []
    for line in reversed(lines):
        found[:0] = folded(line, width) or [""]
        if len(found) >= room:
            break
    return found[-room:]


def _widest(texts: list[str], most: int, least: int) -> int:
    found = max(map(width_of, texts), default=0)
    return max(least, min(most, found)) if found else least


def _sgr(look: str, text: str) -> str:
    return f"\x1b[{look}m{text}\x1b[0m" if look else text
