"""The dashboard as an application of Textual: its main screen, the keys, and what they do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from types import FrameType
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ...client.calls import RequestError
from ...client.connection import DaemonConnection
from ...formats.shown import clean, one_line
from ..needs import host_of, own_id
from ..plot import Look
from . import acts
from .board import WHEEL, Board
from .link import EventNews, Link, ListNews, News, Previewed, PreviewWish, QuestionNews, Trouble
from .model import DashboardModel, ListEntry
from .painted import PaintedLines
from .texts import answers_of, help_lines, log_lines, question_lines
from .views import Lines, QuestionView, TextView

T = TypeVar("T")

DRAW_GAP = 0.1
"""Seconds between two drawings of what the daemon says. What a key does is drawn at once."""
PREVIEW_AFTER = 0.08
"""Seconds that a session must be selected until its preview is fetched."""
TAKE_SECONDS = 0.01
"""Seconds for which news are taken until keys have their turn."""
TICK = 1.0
"""Seconds between two looks at the ages."""
NOTE_SECONDS = 10.0
"""For how long something is said in the foot."""
SILENCE = 2.0
"""Seconds without an answer until it is said that the daemon does not answer."""
NOTICED = 2.0
"""Seconds in which a key may be meant for a session that has just gone away, and not for the next one."""
OF_A_SESSION = frozenset("yapxdtr")
"""The keys that do something with the session that is selected, besides Enter."""
MAX_NOTE = 500
STDERR_TAIL = 2000
"""How many bytes of what a command said in the end are read."""


class Dashboard(App[int]):
    """All sessions on one screen."""

    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "back", show=False, priority=True),
    ]

    def __init__(self, link: Link, look: Look) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.model = DashboardModel()
        self.board = Board(self.model, look)
        self.look = look
        self._painted = PaintedLines(has_colours=look.colour, is_ascii=look.ascii)
        self._link = link
        self._is_waking = False
        self._has_changed = False
        self._drawn_at = 0.0
        self._draw_timer: asyncio.TimerHandle | None = None
        self._preview_timer: asyncio.TimerHandle | None = None
        self._note_until = 0.0
        self._open: tuple[QuestionView, dict[str, Any]] | None = None  # a question that is shown
        self._log_view: TextView | None = None
        self._drafts: dict[str, str] = {}  # prompts that were left unsent or could not be sent, by session
        self._unstarted: dict[str, str] | None = None  # what could not be started, as it was entered
        self._awaited = ""  # the session to be selected when it is listed
        self._prompts: dict[str, str] = {}  # prompts of ours without an end, and to whom they went
        self._aio: asyncio.AbstractEventLoop | None = None
        self._within = copy_context()  # in which Textual finds its application
        self._continues: Any = None  # what Textual does after we were stopped
        self._is_lent = False  # the terminal, to a command of ours

    def compose(self) -> ComposeResult:
        yield self._painted

    def on_mount(self) -> None:
        self._aio, self._within = asyncio.get_running_loop(), copy_context()
        self.set_interval(TICK, self._tick)
        self._link.wake = self._wake
        if not self.is_headless:
            self._continues = signal.signal(signal.SIGCONT, self._continued)
        self._drain()

    def on_unmount(self) -> None:
        self._link.close()

    # --- being stopped --------------------------------------------------------------------------------------

    def _continued(self, number: int, frame: FrameType | None) -> None:
        """We were stopped. What was typed meanwhile was for nobody, and others may have used the terminal."""
        if self._is_lent or self._driver is None:
            return
        with contextlib.suppress(termios.error, ValueError, AttributeError):
            termios.tcflush(sys.__stdin__, termios.TCIFLUSH)  # type: ignore[arg-type]
        self._forget_what_was_shown()
        if getattr(self._driver, "_must_signal_resume", False):  # Textual has left it, before it stopped us
            self._continues(number, frame)
            self._soon(self._forget_what_was_shown)
        else:
            self._soon(self._take_terminal_again)

    def _take_terminal_again(self) -> None:
        """Set the terminal's modes anew and draw all: whoever had it may have left it in any state. Textual
        alone would read it twice then, and leave it without an echo in the end."""
        if self._driver is None or self._exit:
            return
        self._driver.suspend_application_mode()
        self._driver.resume_application_mode()
        self.refresh(repaint=True, layout=True)
        self._forget_what_was_shown()

    def _forget_what_was_shown(self) -> None:
        for view in self.screen_stack:
            if (forget := getattr(view, "interrupted", None)) is not None:
                forget()

    # --- what the daemon says -------------------------------------------------------------------------------

    def _wake(self) -> None:
        """The daemon said something; called in any thread."""
        if not self._is_waking and self._aio is not None:
            self._is_waking = True
            self._soon(self._drain)

    def _soon(self, do: Callable[[], None]) -> None:
        """Do something in the thread of the terminal."""
        assert self._aio is not None
        with contextlib.suppress(RuntimeError):  # we are leaving
            self._aio.call_soon_threadsafe(do, context=self._within)

    def _drain(self) -> None:
        """Take what has come, and draw it when there is time. Of much that has come only some at a time, so
        that keys come first."""
        self._is_waking = False
        until = time.monotonic() + TAKE_SECONDS
        try:
            while self._link.news and time.monotonic() < until:
                self._take(self._link.news.popleft())
            if self._has_changed:
                self._has_changed = False
                self._changed()
        finally:
            if self._link.news:
                self._wake()
        if self._draw_timer is None:
            wait = max(0.0, self._drawn_at + DRAW_GAP - time.monotonic())
            self._draw_timer = asyncio.get_running_loop().call_later(wait, self._draw)

    def _take(self, news: News) -> None:
        match news:
            case ListNews(rows, questions, hosts):
                self.model.listed(rows, questions, hosts)
                self._select_awaited()
                self._has_changed = True
            case QuestionNews(questions):
                self.model.asked(questions)
                self._has_changed = True
            case EventNews():
                self._happened(news)
            case Previewed():
                self.board.preview = news
            case Trouble(why, note):
                self.model.fault = why
                if why or note:
                    self.model.note(time.time(), "", why or note, "red" if why else "")
                if note:
                    self.say(note)

    def _changed(self) -> None:
        self.model.sort()
        self.board.changed()
        self._want_preview()
        if self._open is not None:
            view, asked = self._open
            now = self.model.question(asked["token"])
            if now is None:
                view.close("it is not open any more: it was answered elsewhere, or withdrawn")
            elif not acts.is_same(asked, now):
                view.close("it has changed: Esc, then y shows what it is now")
            else:
                return
            self._open = None

    def _happened(self, news: EventNews) -> None:
        event = news.event
        id = str(event.data.get("session_id") or "")
        if (what := acts.told(news.topic, event.data)) is not None:
            self.model.note(news.at, id, *what)
        if news.topic == "sessions/state":
            if self.model.state(id, {k: v for k, v in event.data.items() if k != "session_id"}):
                self._has_changed = True
            else:
                self._link.list_again()
        elif news.topic == "sessions/prompt-ended" and (
            name := self._prompts.pop(event.data["prompt_id"], "")
        ):
            reason = event.data.get("reason") or ""
            self.say(f"{name}: {event.data['outcome']}{': ' if reason else ''}{reason}")
        entry = self.board.entry
        if entry is not None and entry.id == id:
            self._link.look()

    def _tick(self) -> None:
        silent = self._link.waits_since()
        if silent > SILENCE:
            self.model.fault = f"the daemon has not answered for {silent:.0f} s"
        elif self.model.fault.startswith("the daemon has not answered"):
            self.model.fault = ""
        if self.board.note and time.monotonic() > self._note_until:
            self.board.note = ""
        self._draw()

    # --- drawing --------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.board.resize(event.size.width, event.size.height)
        self._draw()

    def _draw(self) -> None:
        if self._draw_timer is not None:
            self._draw_timer.cancel()
            self._draw_timer = None
        self._drawn_at = time.monotonic()
        if len(self.screen_stack) > 1:
            if self._log_view is not None and self._log_view.is_current:
                self._log_view.set_lines(self._logged)
            return
        self._painted.show(*self.board.lines(), self.board.preview_width)

    def say(self, note: str) -> None:
        """Say something in the foot for a while."""
        self.board.note = clean(one_line(note, MAX_NOTE))
        self._note_until = time.monotonic() + NOTE_SECONDS
        if self._aio is not None:
            self._draw()

    def _want_preview(self) -> None:
        """Fetch the preview of what is selected, unless another is selected soon."""
        if self._preview_timer is None and self._aio is not None:
            self._preview_timer = self._aio.call_later(PREVIEW_AFTER, self._wish)

    def _wish(self) -> None:
        self._preview_timer = None
        entry = self.board.entry
        if entry is None or not entry.is_session or not self.board.preview_width:
            self._link.want_preview(None)
        else:
            self._link.want_preview(PreviewWish(entry.key, entry.id, "screen" in entry.row["can"]))

    # --- keys -----------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Keys of the main screen are handled before the next event is looked at: one that opens a view gets
        the keys that follow it into that view."""
        is_ours = len(self.screen_stack) == 1 and not event.is_forwarded
        if isinstance(event, events.Key | events.Paste) and is_ours:
            if isinstance(event, events.Paste):
                self._paste(event.text)
            elif event.key in ("ctrl+c", "ctrl+q") and not self.board.typing:
                self.exit(0)
            else:
                self._press(event)
        else:
            await super().on_event(event)

    def _press(self, event: events.Key) -> None:
        if self.board.typing:
            self._type(event)
        elif self._is_for_what_is_gone(event):
            pass
        elif not self._move(event.key) and (does := self._keys.get(event.character or event.key)):
            self.board.note = ""
            does(self)
        elif event.key == "enter":
            self.attach()
        elif event.key == "escape":
            self.board.note = ""
            self._filter("")
        self._draw()
        if len(self.screen_stack) == 1:
            self._painted.draw_now()

    def _is_for_what_is_gone(self, event: events.Key) -> bool:
        """Whether a key may have been meant for a session that has just gone away; says so once."""
        gone, entry = self.board.gone, self.board.entry
        if not gone or (event.key != "enter" and event.character not in OF_A_SESSION):
            return False
        self.board.gone = ""
        if entry is None or event.time - self.board.gone_at > NOTICED:
            return False
        self.say(f"{gone} is gone: {entry.name} is selected now")
        return True

    def _move(self, key: str) -> bool:
        room = self.board.list_rows
        steps = {
            "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -room, "pagedown": room,
            "home": -len(self.model.shown), "end": len(self.model.shown),
        }  # fmt: skip
        if key in steps:
            self.board.move(steps[key])
        elif key == "tab":
            self._next_that_asks()
        else:
            return False
        self._want_preview()
        return True

    def _next_that_asks(self) -> None:
        shown = self.model.shown
        places = [*range(self.board.selected + 1, len(shown)), *range(0, self.board.selected + 1)]
        at = next((at for at in places if shown[at].asks), None)
        if at is None:
            self.say("no session asks anything")
        else:
            self.board.select(at)

    def _type(self, event: events.Key) -> None:
        text = self.model.filter
        if event.key in ("escape", "ctrl+c"):
            self.board.typing = False
            self._filter("")
        elif event.key in ("enter", "tab", "up", "down"):
            self.board.typing = False
            if event.key in ("up", "down"):
                self._move(event.key)
        elif event.key == "backspace":
            self._filter(text[:-1])
        elif event.key == "ctrl+u":
            self._filter("")
        elif event.is_printable and event.character:
            self._filter(text + event.character)

    def _filter(self, text: str) -> None:
        self.model.look_for(text)
        self.board.changed()
        self._want_preview()

    def _paste(self, text: str) -> None:
        if self.board.typing:
            self._filter(self.model.filter + " ".join(clean(text).split()))
            self._draw()

    def on_click(self, event: events.Click) -> None:
        if len(self.screen_stack) > 1:
            return
        at = self.board.row_at(event.screen_x, event.screen_y)
        if at is not None:
            was, self.board.typing = self.board.selected, False
            self.board.select(at)
            self._want_preview()
            self._draw()
            if event.chain >= 2 and was == at:
                self.attach()

    def on_mouse_scroll_down(self) -> None:
        self._wheel(WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self._wheel(-WHEEL)

    def _wheel(self, by: int) -> None:
        if len(self.screen_stack) == 1:
            self.board.move(by)
            self._want_preview()
            self._draw()

    async def action_back(self) -> None:
        """^C: leave what is shown."""
        if len(self.screen_stack) > 1:
            await self.screen.action_dismiss(None)

    # --- what they do ---------------------------------------------------------------------------------------

    def _session(self) -> ListEntry | None:
        """The session that is selected; says so if it is none."""
        entry = self.board.entry
        if entry is None or not entry.is_session:
            self.say("no session is selected" if entry is None else "this is a question of no listed session")
            return None
        return entry

    def _act(
        self,
        do: Callable[[DaemonConnection], Any],
        then: Callable[[Any], None],
        *,
        what: str,
        failed: Callable[[str], object] = lambda why: None,
    ) -> None:
        """Ask the daemon for something that a person wants; say why if it can't be done."""

        def done(result: Any, error: Exception | None) -> None:
            def show() -> None:
                if error is None:
                    then(result)
                elif isinstance(error, RequestError | OSError | acts.NotDone):
                    failed(str(error))
                    self.model.note(time.time(), "", f"{what}: {error}", "red")
                    self.say(f"{what}: {error}")
                else:
                    raise error

            self._soon(show)

        if not self._link.act(do, done):
            failed(why := "too much waits for the daemon already")
            self.say(f"{what}: {why}")

    def attach(self) -> None:
        """Attach to the session's terminal, or open its chat, in this terminal; then go on."""
        if (entry := self._session()) is None:
            return
        if not host_of(entry.row) and own_id(entry.row) == os.environ.get("FAIRLEAD_SESSION"):
            self.say("this is the session that you are in")
            return
        self._run(["attach", entry.id])

    def _run(self, words: Sequence[str]) -> None:
        """Run a command of ours in this terminal."""
        command = [sys.executable, "-P", "-m", "fairlead", *words]
        with tempfile.TemporaryFile() as said:
            try:
                self._is_lent = True
                with self.suspend(), acts.deaf_to_interrupts():
                    code = subprocess.run(command, stderr=said, check=False).returncode
            except SuspendNotSupported:
                self.say("this terminal can't be lent to another program")
                return
            finally:
                self._is_lent = False
            size = said.seek(0, os.SEEK_END)
            said.seek(max(0, size - STDERR_TAIL))
            words = said.read().decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(words) if line.strip()), "")
        self.say(last or (f"it ended with {code}" if code else ""))
        self._link.list_again()
        self.refresh(repaint=True)

    def answer(self) -> None:
        """Show all of the oldest question of what is selected, to be answered."""
        if (entry := self.board.entry) is None:
            return
        questions = self.model.questions_of(entry)
        if not questions:
            why = "it asks in its terminal: Enter attaches" if entry.asks else "it asks nothing"
            self.say(f"{entry.name}: {why}")
            return
        token = questions[0]["token"]

        def seen(question: dict[str, Any]) -> None:
            if self._may_show(entry, "y shows what it asks"):
                self._ask(question)

        self._act(lambda control: acts.see(control, token), seen, what=entry.name)

    def _may_show(self, entry: ListEntry, how: str) -> bool:
        """Whether what was asked for is still what the person waits for: no other view is open, nothing is
        typed, and the same session is selected."""
        if len(self.screen_stack) > 1:
            return False
        now = self.board.entry
        if self.board.typing or now is None or now.key != entry.key:
            self.say(f"{entry.name}: {how}")
            return False
        return True

    def _ask(self, question: dict[str, Any]) -> None:
        def lines(width: int, look: Look) -> list[str]:
            return question_lines(question, width, look)

        def decided(answer: str | None) -> None:
            self._open = None
            if answer == "answer":
                self._write_answer(question)
            elif answer is not None:
                self._settle(question, answer, "")

        view = QuestionView(lines, answers_of(question), self.look)
        self._open = view, question
        self._push(view, decided)

    def _write_answer(self, question: dict[str, Any]) -> None:
        from .writing import PromptView

        def lines(width: int, look: Look) -> list[str]:
            return question_lines(question, width, look)

        def written(text: str | None) -> None:
            if text is not None:
                self._settle(question, "answer", text)

        self._push(PromptView("Your answer", lines, self.look, is_answer=True), written)

    def _settle(self, question: dict[str, Any], answer: str, text: str) -> None:
        self._act(
            lambda control: acts.settle(control, question, answer, text),
            self.say,
            what="not answered",
        )

    def prompt(self, text: str = "") -> None:
        """Write a prompt to the session."""
        if (entry := self._session()) is None:
            return
        from .writing import PromptView

        preview, text = self.board.preview, text or self._drafts.pop(entry.key, "")

        def above(width: int, look: Look) -> list[str]:
            return list(preview.lines) if preview is not None and preview.key == entry.key else []

        def written(text: str | None) -> None:
            if text is None:
                self._drafts[entry.key] = view.left
                return
            id = acts.new_prompt_id()
            self._prompts[id] = entry.name
            self.say(f"{entry.name}: the prompt is on its way")

            def told(said: str) -> None:
                if id in self._prompts:  # else it has ended by now, and that was said
                    self.say(said)

            self._act(
                lambda control: acts.prompt(control, entry, id, text),
                told,
                what=f"{entry.name}: not prompted",
                failed=lambda why: self._drafts.setdefault(entry.key, text),
            )

        view = PromptView(f"Prompt to {entry.name}", above, self.look, text)
        self._push(view, written)

    def stop(self) -> None:
        """Stop what the session runs, after a last doubt."""
        if (entry := self._session()) is None:
            return
        lines, does = acts.doubt(entry)

        def decided(answer: str | None) -> None:
            if answer == "stop":
                self._act(
                    lambda control: acts.stop(control, entry), self.say, what=f"{entry.name} was not stopped"
                )

        answers = [("y", "stop", does), ("n", "", "leave it as it is")]
        self._push(QuestionView(lines, answers, self.look), decided)

    def new(self, given: dict[str, str] | None = None) -> None:
        """Ask what is to be started, and start it."""
        self._act(acts.kinds, lambda kinds: self._form(kinds, given), what="not started")

    def _form(self, kinds: list[str], given: dict[str, str] | None) -> None:
        if len(self.screen_stack) > 1 or self.board.typing:
            return
        from .writing import StartView

        entry = self.board.entry
        place = entry.row.get("project") if entry is not None else None
        fields = given or self._unstarted or {"cwd": place or os.getcwd(), "kind": "terminal"}

        def decided(fields: dict[str, str] | None) -> None:
            if fields is None:
                return
            try:
                start = acts.starting(fields, self.size.width, self.size.height)
            except acts.NotDone as error:
                self._form(kinds, {**fields, "fault": str(error)})
                return

            def started(key: str) -> None:
                self._unstarted = None
                self._awaited = key
                self._link.list_again()
                self._select_awaited()
                self.say(f"{fields['name']} started; Enter attaches")

            def failed(why: str) -> None:
                self._unstarted = {**fields, "fault": why}
                self._form(kinds, self._unstarted)

            self._act(start, started, what="not started", failed=failed)

        self._push(StartView(kinds, fields, self.look), decided)

    def _select_awaited(self) -> None:
        if self._awaited and (at := self.model.find(self._awaited)) is not None:
            self._awaited = ""
            self.board.select(at)
            self._want_preview()

    def _push(self, view: Screen[T], then: Callable[[T | None], None]) -> None:
        _ = self.push_screen(view, then)

    def _show(self, lines: Lines, *, at_end: bool = False) -> TextView:
        view = TextView(lines, self.look, at_end=at_end)
        self._push(view, lambda _: self._draw())
        return view

    def timeline(self) -> None:
        """Show the session's turns."""
        if (entry := self._session()) is not None:
            self._view(lambda control: acts.timeline(control, entry), entry, "t shows its timeline")

    def reports(self) -> None:
        """Show its verifiers' reports."""
        if (entry := self._session()) is not None:
            self._view(lambda control: acts.reports(control, entry), entry, "r shows its reports")

    def diff(self) -> None:
        """Show what has changed in its project since it began there."""
        if (entry := self._session()) is not None:
            self._view(lambda control: acts.changes(control, entry), entry, "d shows its diff")

    def _view(self, do: Callable[[DaemonConnection], Lines], entry: ListEntry, how: str) -> None:
        def shown(lines: Lines) -> None:
            if self._may_show(entry, how):
                self._show(lines)

        self._act(do, shown, what=entry.name)

    def log_view(self) -> None:
        """Show what happened."""
        self._log_view = self._show(self._logged, at_end=True)

    def _logged(self, width: int, look: Look) -> list[str]:
        return log_lines(list(self.model.log), width, look)

    def help(self) -> None:
        """Show the keys."""
        self._show(help_lines)

    def inner(self) -> None:
        """List the commands of agents' tools, too, or not any more."""
        self.model.toggle_inner()
        self._changed()
        self._link.list_again()

    def filter(self) -> None:
        """Let the next keys be words to filter by."""
        self.board.typing = True
        self._filter("")

    def leave(self) -> None:
        self.exit(0)

    _keys: ClassVar[dict[str, Callable[[Dashboard], None]]] = {
        "y": answer, "n": new, "a": answer, "p": prompt, "x": stop, "d": diff, "t": timeline, "r": reports,
        "l": log_view, "i": inner, "/": filter, "?": help, "q": leave,
    }  # fmt: skip
