"""What opens below the input of a chat and takes its keys first: a list to complete from or to choose from,
the search in what was typed before, the overview of the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..styled import Row
from .complete import Completer, common
from .line import InputLine, Key
from .menu import Candidate, Menu
from .search import HistorySearch

Chosen = Callable[[Candidate | None], None]
"""Is told what a person has chosen, or that they chose nothing."""

KEYS = (
    ("Tab", "complete /commands, @files, names of sessions; arrows move in a list"),
    ("Esc", "close a list or the search; deny a question; interrupt the turn"),
    ("^C", "interrupt the turn, then abort it, then leave; or clear the input"),
    ("^R", "search in what was typed before"),
    ("Shift-Tab", "the next mode"),
    ("!cmd", "run a command and tell the agent its output; !!cmd: don't tell"),
    ("@path", "name a file; an image is attached"),
    ("\\ Enter", "insert a line break, as Alt-Enter does"),
    ("Up, Down", "earlier prompts"),
    ("^O", "open what is folded, the last of it first"),
    ("^L, ^Z", "redraw; suspend"),
    ("^D", "leave, as /quit and exit do; the session is kept"),
)


class Panel:
    """At most one thing is open."""

    def __init__(self, line: InputLine, completer: Completer) -> None:
        self.search = HistorySearch(line)
        self._line = line
        self._completer = completer
        self._menu: Menu | None = None
        self._start = 0  # where what is completed begins
        self._chosen: Chosen | None = None
        self._draft = ""  # what stood in the line before there was something to choose
        self._shows_keys = False
        self._is_waiting = False  # candidates were asked for and nothing was typed since then

    @property
    def is_open(self) -> bool:
        return self.search.is_open or self._menu is not None or self._shows_keys

    @property
    def is_picking(self) -> bool:
        """True if something is to be chosen."""
        return self._chosen is not None

    @property
    def mark(self) -> str:
        return "choose: " if self.is_picking else "> "

    def pick(self, title: str, candidates: Sequence[Candidate], chosen: Chosen, marked: str = "") -> None:
        """Let a person choose; what they type filters."""
        self.close()
        self._draft = self._line.text
        self._line.set("")
        self._menu, self._chosen = Menu(candidates, title=title, numbered=True), chosen
        self._menu.mark(marked)

    def close(self) -> None:
        """Close what is open; nothing is chosen."""
        if self.search.is_open:
            self.search.close()
        self._shows_keys = False
        self._menu = None
        self._end_choice(None)

    def _end_choice(self, candidate: Candidate | None) -> None:
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            self._menu = None
            self._line.set(self._draft)
            chosen(candidate)

    # --- keys -----------------------------------------------------------------------------------------------

    def press(self, key: Key) -> bool:
        """Take a key. False if it is not for what is open."""
        if self._shows_keys:
            self._shows_keys = False
            return key in (("key", "escape"), ("key", "interrupt"), ("text", "?"))
        if self.search.is_open:
            return self.search.press(key)
        if self._menu is not None:
            return self._moved(self._menu, key)
        match key:
            case "text", "?" if not self._line.text:
                self._shows_keys = True
            case "key", "search" if not self._line.is_secret:
                self.search.open()
            case "key", "tab" if not self._line.is_secret:
                self._complete()
            case _:
                return False
        return True

    def _moved(self, menu: Menu, key: Key) -> bool:
        match key:
            case "key", "tab" if len(menu) == 1 and not self.is_picking:
                return self._moved(menu, ("key", "enter"))
            case "key", "down" | "tab":
                menu.move(1)
            case "key", "up" | "back-tab":
                menu.move(-1)
            case "key", "escape" | "interrupt" | "cancel":
                self.close()
            case "key", "enter" if self.is_picking:
                if menu.chosen is not None:
                    self._end_choice(menu.chosen)
            case "key", "enter":
                self._menu = None
                if menu.chosen is None:
                    return False
                self._line.replace(self._start, menu.chosen.text)
            case "key", "suspend" | "redraw":
                return False
            case "key", "end-of-input" | "search":
                self.close()
                return False
            case _:
                self._line.press(key)
                self._is_waiting = False
                self._typed(menu)
        return True

    def _typed(self, menu: Menu) -> None:
        """The line has changed while a list is open."""
        if self.is_picking:
            menu.filter(self._line.text)
            return
        found = self._completer.find(self._line.before)
        if found.start != self._start or not found.candidates:
            self._menu = None
        else:
            menu.offer(found.candidates)

    def _complete(self) -> None:
        found = self._completer.find(self._line.before)
        self._start, self._is_waiting = found.start, not found.is_whole
        word = self._line.before[found.start :]
        texts = [each.text for each in found.candidates]
        if len(texts) == 1 and found.is_whole:
            self._line.replace(found.start, texts[0])
            return
        same = common(texts)
        if texts and found.is_whole and same.startswith(word) and same != word:
            self._line.replace(found.start, same)
        if texts or self._is_waiting:
            self._menu = Menu(found.candidates)

    def refresh(self) -> None:
        """There may be more to complete from."""
        if self._menu is not None and not self.is_picking:
            found = self._completer.find(self._line.before)
            if self._is_waiting and found.is_whole:  # as if Tab was pressed now
                self._menu = None
                self._complete()
            elif found.start == self._start:
                self._menu.offer(found.candidates)

    # --- rows -----------------------------------------------------------------------------------------------

    def rows(self, columns: int, limit: int) -> list[Row]:
        """What is open, in so many rows at the most."""
        if limit < 1:
            return []
        if self.search.is_open:
            return [self.search.row, self.search.hint][:limit]
        if self._menu is not None:
            return self._menu.rows(columns, limit)[:limit]
        if self._shows_keys:
            return [(f"  {key:<10} {what}", "dim") for key, what in KEYS][:limit]
        return []
