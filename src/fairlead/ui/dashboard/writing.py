"""Screens in which a person writes: a prompt or an answer, and what is to be started. Imported when used: the
widgets of Textual that take text need a while.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, TextArea

from ...formats.shown import dotted
from ..plot import Look
from .gate import TYPED, AnswerGate
from .painted import PaintedLines
from .views import LOOK_AGAIN, Lines

MAX_PROMPT = 1_000_000
"""How many characters can be pasted at a time."""


class PromptView(Screen[str]):
    """A text of one or more lines. Dismissed with it; Esc leaves it unsent. One that is an answer is sent by
    an Enter that no paste brought."""

    AUTO_FOCUS = "TextArea"
    CSS = """
    PromptView #above { height: 1fr; }
    PromptView TextArea { height: 8; border: none; padding: 0; background: ansi_default; }
    PromptView #foot { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(
        self, title: str, above: Lines, look: Look, text: str = "", *, is_answer: bool = False
    ) -> None:
        super().__init__()
        self.gate = AnswerGate(time.monotonic(), TYPED) if is_answer else None
        self._note = ""
        self.left = text
        """What is written so far."""
        self._title = title
        self._make = above
        self._look = look
        self._text = text

    def compose(self) -> ComposeResult:
        for id in ("above", "text", "foot"):
            if id == "text":
                yield Draft(self._text, show_line_numbers=False, soft_wrap=True, compact=True)
            else:
                yield PaintedLines(has_colours=self._look.colour, is_ascii=self._look.ascii, id=id)

    def on_mount(self) -> None:
        self.query_one(Draft).cursor_location = self.query_one(Draft).document.end
        if self.gate is not None:
            self.set_interval(LOOK_AGAIN, self._look_again)

    def _look_again(self) -> None:
        assert self.gate is not None
        now = time.monotonic()
        _ = self.gate.has_paused(now, time.time())
        self.gate.shown(now, 0, 1, 1)
        if (text := self.gate.settled(now)) is not None:
            _ = self.dismiss(text)

    def interrupted(self) -> None:
        """We were stopped: what was typed meanwhile sends nothing."""
        if self.gate is not None:
            self.gate.interrupted(time.monotonic())

    def say(self, note: str) -> None:
        """Say why the text is not sent."""
        if note != self._note:
            self._note = note
            self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        size, look = self.app.size, self._look
        width, room = size.width, max(1, size.height - 9)
        lines = list(self._make(width, look))[-max(0, room - 1) :] if room > 1 else []
        lines += [""] * (room - 1 - len(lines))
        title = look.paint("bold", look.fit(self._title, width))
        self.query_one("#above", PaintedLines).show([*lines, title])
        foot = look.fit(self._note or "Enter sends  ctrl+j breaks the line  Esc leaves it unsent", width)
        self.query_one("#foot", PaintedLines).show([look.paint("yellow" if self._note else "dim", foot)])

    def on_key(self, event: events.Key) -> None:
        """A key that came before the text had the focus."""
        if event.is_printable and event.character and self.focused is None:
            self.query_one(Draft).insert(event.character)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self.left = event.text_area.text

    def on_draft_submit(self, event: Draft.Submit) -> None:
        event.stop()
        if not event.text.strip():
            return
        if self.gate is None:
            _ = self.dismiss(event.text)
        else:
            self.say(self.gate.key(event.pressed_at, event.text) and "not sent: several keys at once")


class StartView(Screen[dict[str, str]]):
    """What is to be started. Dismissed with the fields."""

    CSS = """
    StartView PaintedLines { height: 1; }
    StartView #title { height: 2; }
    StartView Input { height: 1; border: none; padding: 0 0 0 1; background: ansi_default; }
    StartView WordChoice:focus { text-style: reverse; }
    StartView #rest { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", show=False),
        # at once, so that keys that follow go to the next field
        Binding("down,tab", "app.focus_next", show=False, priority=True),
        Binding("up,shift+tab", "app.focus_previous", show=False, priority=True),
    ]
    AUTO_FOCUS = "Input"
    FIELDS = (
        ("name", "Name: what it is called"),
        ("cwd", "Directory: where it works"),
        ("command", "Command: for a terminal; empty is your shell"),
    )

    def __init__(self, kinds: Sequence[str], given: dict[str, str], look: Look) -> None:
        super().__init__()
        self._kinds = kinds
        self._given = given
        self._look = look

    def _label(self, id: str) -> PaintedLines:
        painted = PaintedLines(has_colours=self._look.colour, is_ascii=self._look.ascii, id=id)
        painted.can_focus = False
        return painted

    def compose(self) -> ComposeResult:
        yield self._label("title")
        for name, _ in self.FIELDS:
            yield self._label(f"{name}-label")
            yield Input(self._given.get(name, ""), id=name, compact=True)
        for name, words in (("kind", self._kinds), ("worktree", ("no", "yes"))):
            yield self._label(f"{name}-label")
            yield WordChoice(words, self._given.get(name, words[0]), self._look, id=name)
        yield self._label("rest")

    def on_resize(self, event: events.Resize) -> None:
        look, width = self._look, event.size.width
        self.query_one("#title", PaintedLines).show([look.paint("bold", "Start a session"), ""])
        labels = dict(self.FIELDS)
        labels |= {"kind": "Kind: ← → choose", "worktree": "A git worktree of its own, with a branch"}
        for name, label in labels.items():
            self.query_one(f"#{name}-label", PaintedLines).show([look.paint("dim", look.fit(label, width))])
        rest = self.query_one("#rest", PaintedLines)
        foot = look.paint("dim", look.fit("Enter starts it  Tab goes on  Esc leaves", width))
        rest.show(["", self._fault(), foot])

    def _fault(self) -> str:
        return self._look.paint("red", self._look.fit(self._given.get("fault", ""), self.app.size.width))

    def on_input_submitted(self) -> None:
        self._start()

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter" and isinstance(self.focused, WordChoice):
            event.stop()
            self._start()
        elif event.is_printable and event.character and self.focused is None:
            self.query_one(Input).insert_text_at_cursor(event.character)  # it came before that had the focus

    def _start(self) -> None:
        fields = {name: self.query_one(f"#{name}", Input).value for name, _ in self.FIELDS}
        chosen = {str(each.id): each.value for each in self.query(WordChoice)}
        _ = self.dismiss({**fields, **chosen})


class WordChoice(PaintedLines):
    """One of some words, chosen by the arrow keys."""

    def __init__(self, words: Sequence[str], value: str, look: Look, *, id: str) -> None:
        super().__init__(has_colours=look.colour, is_ascii=look.ascii, id=id)
        self._words = list(words)
        self.value = value if value in words else self._words[0]

    def on_mount(self) -> None:
        self._draw()

    def on_focus(self) -> None:
        self._draw()

    def on_blur(self) -> None:
        self._draw()

    def _draw(self) -> None:
        words = [f"\x1b[7m {each} \x1b[0m" if each == self.value else f" {each} " for each in self._words]
        self.show([("›" if self.has_focus else " ") + "".join(words)])

    def on_key(self, event: events.Key) -> None:
        step = {"left": -1, "right": 1, "space": 1}.get(event.key)
        if step is not None:
            event.stop()
            self.value = self._words[(self._words.index(self.value) + step) % len(self._words)]
            self._draw()


class Draft(TextArea):
    """Where a prompt is written: Enter sends it."""

    class Submit(Message):
        """The text is to be sent."""

        def __init__(self, text: str, pressed_at: float) -> None:
            super().__init__()
            self.text = text
            self.pressed_at = pressed_at

    async def _on_key(self, event: events.Key) -> None:
        view = self.screen
        if event.key != "enter" and isinstance(view, PromptView) and view.gate is not None:
            view.say(view.gate.key(event.time, None) and "not sent: several keys at once")
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submit(self.text, event.time))
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert(dotted(event.text.replace("\r\n", "\n").replace("\r", "\n"))[:MAX_PROMPT])
