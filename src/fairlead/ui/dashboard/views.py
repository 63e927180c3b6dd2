"""What is shown above the main screen: texts that scroll, and questions.

Each is a screen of Textual's that is dismissed with what the person decided, or None.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ...formats.columns import width_of
from ...formats.shown import clean
from ..plot import Look
from .gate import AnswerGate
from .painted import PaintedLines
from .texts import folded

Lines = Callable[[int, Look], Sequence[str]]
"""Makes the lines of a text for a width."""
LOOK_AGAIN = 0.1
"""Seconds between two looks whether a question may be answered, or an answer is settled."""

INTERRUPTED = "this was stopped: read it again, nothing that was typed meanwhile counts"


class TextView(Screen[Any]):
    """Lines that scroll, with a line below them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", show=False)]
    AUTO_FOCUS = ""
    foot = "↑ ↓ PgUp PgDn scroll  q back"

    def __init__(self, lines: Lines, look: Look, *, at_end: bool = False) -> None:
        super().__init__()
        self._make = lines
        self._look = look
        self._lines: Sequence[str] = ()
        self._top = 0
        self._at_end = at_end
        self.painted = PaintedLines(has_colours=look.colour, is_ascii=look.ascii)

    def compose(self) -> ComposeResult:
        yield self.painted

    def on_resize(self, event: events.Resize) -> None:
        self._lines = self._make(max(1, event.size.width), self._look)
        if self._at_end:
            self._top = len(self._lines)
        self.draw()

    def set_lines(self, lines: Lines) -> None:
        """Show another text."""
        self._make = lines
        self._lines = lines(max(1, self.app.size.width), self._look)
        self.draw()

    @property
    def room(self) -> int:
        """How many lines are shown at a time."""
        return max(1, self.app.size.height - 1)

    @property
    def end(self) -> int:
        """The line after the last one that is shown."""
        return min(len(self._lines), self._top + self.room)

    def draw(self) -> None:
        self._top = max(0, min(self._top, len(self._lines) - self.room))
        shown = list(self._lines[self._top : self.end])
        shown += [""] * (self.room - len(shown))
        self.painted.show([*shown, self._foot()])

    def _foot(self) -> str:
        total = len(self._lines)
        place = f"{self._top + 1}-{self.end} of {total}  " if total > self.room else ""
        return self._look.paint("dim", self._look.fit(place + self.foot, self.app.size.width))

    def scroll(self, by: int) -> None:
        self._at_end = False
        self._top += by
        self.draw()

    def on_key(self, event: events.Key) -> None:
        steps = {
            "up": -1, "k": -1, "down": 1, "j": 1, "enter": 1, "pageup": -self.room, "pagedown": self.room,
            "space": self.room, "b": -self.room, "home": -len(self._lines), "end": len(self._lines),
        }  # fmt: skip
        if (by := steps.get(event.key)) is not None:
            event.stop()
            self.scroll(by)

    def on_mouse_scroll_down(self) -> None:
        self.scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self.scroll(-3)


class QuestionView(TextView):
    """All of what a question is about, and the keys that answer it: each with its answer and what that does.
    Dismissed with the answer."""

    def __init__(self, lines: Lines, answers: Sequence[tuple[str, str, str]], look: Look) -> None:
        super().__init__(self._whole, look)
        self._question = lines
        self._gate = AnswerGate(time.monotonic())
        self._note = ""
        self._why_closed = ""  # why it can't be answered any more
        self._answers = {key: (value, does) for key, value, does in answers}
        self._is_over = False
        self._is_too_narrow = False

    def on_mount(self) -> None:
        self.set_interval(LOOK_AGAIN, self._look_again)

    def on_resize(self, event: events.Resize) -> None:
        self._lines = self._make(max(1, event.size.width), self._look)
        self._gate.hidden()  # where its lines were is something else now
        self.draw()

    @property
    def room(self) -> int:
        return max(1, self.app.size.height - 1 - len(self._answer_rows()))

    def _whole(self, width: int, look: Look) -> list[str]:
        """All of the question, and of its answers if what is below it can't show these."""
        lines = list(self._question(width, look))
        if any(width_of(row) > width for row in self._answers_in_rows()):
            lines.append("")
            for key, (_, does) in self._answers.items():
                lines += folded(f"{key}  {does}", width)
        self._is_too_narrow = any(width_of(clean(line)) > width for line in lines)
        return lines

    def _answers_in_rows(self) -> list[str]:
        """How it is answered, in as many rows as there are answers; in a low terminal, in one."""
        rows = [f"{key}  {does}" for key, (_, does) in self._answers.items()]
        return ["  ".join(rows)] if self.app.size.height < len(rows) + 6 else rows

    def _answer_rows(self) -> list[str]:
        look, width = self._look, self.app.size.width
        colour = "bold" if self._gate.is_whole(time.monotonic()) else "dim"
        return [look.paint(colour, look.fit(row, width)) for row in self._answers_in_rows()]

    def draw(self) -> None:
        self._top = max(0, min(self._top, len(self._lines) - self.room))
        shown = list(self._lines[self._top : self.end])
        shown += [""] * (self.room - len(shown))
        if self._is_too_narrow:
            self._gate.hidden()
        else:
            self._gate.shown(time.monotonic(), self._top, self.end, len(self._lines))
        self.painted.show([*shown, *self._answer_rows(), self._foot()])

    def _foot(self) -> str:
        if note := self._why_closed or self._note:
            return self._look.paint("yellow", self._look.fit(note, self.app.size.width))
        left = len(self._lines) - self.end
        place = f"{left} more lines below: PgDn  " if left else ""
        return self._look.paint(
            "dim", self._look.fit(f"{place}Esc leaves it unanswered", self.app.size.width)
        )

    def interrupted(self) -> None:
        """We were stopped, and the screen is drawn again: so is what was read of it."""
        self._gate.interrupted(time.monotonic())
        self._note = INTERRUPTED
        self.draw()

    def _look_for_pause(self) -> None:
        if self._gate.has_paused(time.monotonic(), time.time()):
            self.interrupted()
            self.painted.refresh()

    def on_key(self, event: events.Key) -> None:
        self._look_for_pause()
        value = self._answers.get(event.character or "", (None, ""))[0] if not self._is_over else None
        self._note = self._gate.key(event.time, value)
        if self._note and self._is_too_narrow:
            self._note = "the terminal is too narrow to read it"
        if value is not None:
            event.stop()
            unseen = self._gate.next_line(time.monotonic())
            if self._note and not self._top <= unseen < self.end:
                self._top = unseen
            self.draw()
        else:
            super().on_key(event)
            self.draw()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._note = self._gate.pasted(event.time)
        self.draw()

    def _look_again(self) -> None:
        self._look_for_pause()
        answer = self._gate.settled(time.monotonic())
        if answer is not None and not self._is_over:
            self._is_over = True
            _ = self.dismiss(answer)
        else:
            self.draw()

    def close(self, why: str) -> None:
        """It is not open any more: nothing can be answered here."""
        if not self._is_over:
            self._is_over = True
            self._answers = {}
            self._why_closed = why
            self.draw()
