"""A terminal session: one keeper's program on an emulated screen, and the clients that share it.

The session hears from its keeper (`heard`) and from its clients (`attach`, `receive`, `detach`), feeds every
byte to the emulator, fans it out, and decides who may do what by keepty's tables. It does no I/O: a keeper is
a `KeeperPort`, a client is a `Viewer`, a recording is a `Recorder`, and what happens that others may want to
know goes to `notify`.

A client that falls behind is left out until it has caught up and then gets a fresh redraw, so nobody waits
for it and its queue stays short. A keyframe is given to the keeper as often as the output demands, so that
the next daemon can rebuild this screen exactly from the keyframe and what was printed since.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..keeper.protocol import BEGAN, KEYFRAME, MARK, MAX_NOTE, NUMBER, OFFSET, RESIZE, FrameKind
from ..sessions.inbox import A_RULE, calling_agent
from ..system.processes import Program
from ..wire import keepty
from ..wire.keepty import Role, Standing, Verdict
from .ports import KeeperPort, ProgramState, TerminalEvent, Viewer
from .recording import MAX_REDRAW, Recorder, RecordingError
from .screen.line_count import LineCount
from .screen.outward import NOTHING_MORE, Allowed, Outward
from .screen.screen import Bell, Cwd, Notification, Progress, Screen, Title

KEYFRAME_EVERY = 2 * 1024 * 1024
"""After how many printed bytes a keyframe is due; up to three times as many if keyframes are large."""
QUIET_KEYFRAME = 64 * 1024
"""After how many printed bytes one is due when the program has gone quiet."""
log = logging.getLogger("fairlead")

TYPED = "{}, who typed into session {}"
"""Whose the program of a session may be that an agent's command typed into."""
MAX_AGENT = 80
"""How many characters of an agent session's name are kept of that."""
MAX_REASON = 500
"""How many characters of the reason why a recording ended are remembered."""
INPUT_WINDOW = 256 * 1024
"""How many bytes of input may be on their way to the program before its writer is made to wait."""
HANGS_UP = 2
"""The version of the first keeper that knows what hanging up is."""
ENDING_SECONDS = 0.1
"""How long output is still drawn of a session whose end somebody wants."""
ECHO = 256
"""How many bytes of plain text are sent to clients before they are drawn."""
CALM = 4096
"""A program that prints no more than this at once can be read without its keeper, as for an echo."""


class TerminalSession:
    """One terminal session."""

    def __init__(
        self,
        link: KeeperPort,
        notify: Callable[[TerminalSession, TerminalEvent], None],
        *,
        scrollback_lines: int,
        scrollback_bytes: int,
        note: dict[str, Any] | None = None,
        allowed: Allowed = NOTHING_MORE,
    ) -> None:
        self.id = ""
        self.command: list[str] = []
        self.cwd = ""
        self.pid = 0
        self.keeper_pid = 0
        """0 if another daemon had it started."""
        self.started_at = 0.0
        self.keeper_version = 0
        self.state = ProgramState.WAITING
        self.exit_code: int | None = None
        self.stray: Program | None = None
        """The program, if it still ran after its keeper was killed."""
        self.failure = ""
        self.generation = 0
        self.active_at = 0.0
        """When the program last printed, by the monotonic clock."""
        self.made_at = 0.0
        """When its keeper was made, by the monotonic clock."""
        self.ended_for: float | None = None
        """How many seconds ago the program ended, if that was before the keeper told us of it."""
        self.ready = False
        """Whether the keeper has told its state."""
        self.has_had_writer = False
        """Whether a client was attached that may have typed, also without our seeing it."""
        self.note = note or {}
        self.is_typed_by_agent = False
        """Whether a command of an agent session has typed since the last turn of an agent in it began."""
        """What the keeper remembers for the next daemon: where the session is recorded to, and why not."""
        self._link = link
        self._notify = notify
        self._limits = {"scrollback_lines": scrollback_lines, "scrollback_bytes": scrollback_bytes}
        self._screen: Screen | None = None
        self._outward = Outward(allowed)  # between the program and the terminals of all viewers
        self._recorder: Recorder | None = None
        self._viewers: dict[Viewer, Role] = {}
        self._wishes: dict[Viewer, keepty.Wish] = {}  # of those that have any
        self._asking: set[Viewer] = set()  # those who want to know when all was typed that they sent
        self._writer: Viewer | None = None
        self.writer = ""
        """Who may type now, in words; empty if nobody may."""
        self._offset = 0
        self._shown = -1  # the end of what was sent to clients before it was drawn
        self._behind = False  # the keeper was found again and tells what we know already
        self._keyframe_due = KEYFRAME_EVERY
        self._has_keyframe = False
        self._unkept = 0  # bytes printed since the last keyframe
        self._calm = True  # what was printed last was no flood
        self.is_ending = False
        """Whether somebody wants its end: then what takes long to draw is not drawn any more."""
        self._ending_left = ENDING_SECONDS
        self._is_undrawn = False
        self._known = 0  # up to this offset the keeper tells what was printed before
        self._answered = 0  # and up to this one another daemon has answered, and told what happened
        self._count = LineCount()
        self._asked = 0  # the last generation that was asked for; `generation` is the one that holds
        self.inputs = 0
        """How often clients and others have given the program input; its terminal's answers don't count."""
        self.before_input: set[Callable[[], None]] = set()
        """What is called before the first of it."""
        self._untaken = 0  # bytes of input that the keeper has and the program has not taken
        self._held: deque[bytes] = deque()  # input that the keeper has no room for
        self._paused: set[Viewer] = set()
        self._drawn: bytes | None = None  # the screen as it is, if someone has just been shown it
        self._unsized: set[Viewer] = set()  # those behind that have not been told the size
        self.watchers: set[Callable[[], None]] = set()
        """Called after anything has changed on the screen, or the session has ended."""
        self.taps: set[Callable[[bytes], None]] = set()
        """Called with all that the program prints."""

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.state.value}, {len(self._viewers)} viewers>"

    @property
    def screen(self) -> Screen:
        assert self._screen is not None
        return self._screen

    @property
    def count(self) -> LineCount:
        """How many lines were printed, and whether all of them are kept."""
        self._count.are_lost = self._count.are_lost or self.screen.has_lost_rows
        return self._count

    @property
    def offset(self) -> int:
        """How many bytes the program has printed."""
        return self._offset

    @property
    def terminal(self) -> int:
        """The program's terminal, if the daemon has it; else -1."""
        return self._link.terminal

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def has_writer(self) -> bool:
        return self._writer is not None

    @property
    def _is_typed_directly(self) -> bool:
        writer = self._writer
        return writer is not None and bool(self._wishes.get(writer, 0) & keepty.Wish.DIRECT)

    # --- what the keeper says -----------------------------------------------------------------------------

    def heard(self, kind: int, payload: bytes) -> None:
        """A frame from the keeper."""
        match kind:
            case FrameKind.DATA:
                self.printed(OFFSET.unpack_from(payload)[0], payload[OFFSET.size :], math.inf)
            case FrameKind.TAKEN:
                self._taken(NUMBER.unpack(payload)[0])
            case FrameKind.STATE:
                self._told_state(json.loads(payload))
            case FrameKind.KEYFRAME:
                if not self._behind or self._offset < KEYFRAME.unpack_from(payload)[0]:
                    self._restored(payload)
            case FrameKind.RESIZED:
                if not self._behind or self.generation < MARK.unpack(payload)[3]:
                    self._resized(*MARK.unpack(payload))
            case FrameKind.BEGAN:
                self.started_at = BEGAN.unpack(payload)[0]
            case FrameKind.STARTED:
                self.pid = NUMBER.unpack(payload)[0]
                self.state = ProgramState.RUNNING
                self._tell("terminal/started", pid=self.pid, command=self.command)
            case FrameKind.FAILED:
                self.failure = payload.decode("utf-8", "replace")
                self._broadcast(keepty.Error(self.failure))
            case FrameKind.EXITED:
                self._exited(NUMBER.unpack(payload)[0])

    def _told_again(self, state: dict[str, Any]) -> None:
        """The keeper was lost and found: of what it tells, only what is new counts from now on."""
        self._behind = True
        self._asked = max(self.generation, state["generation"])
        if state["pid"] and not self.pid:
            self.heard(FrameKind.STARTED, NUMBER.pack(state["pid"]))
        self._untaken = int(state.get("untaken", 0))
        self._taken(0)

    def _told_state(self, state: dict[str, Any]) -> None:
        if self.ready:
            self._told_again(state)
            return
        self.id = state["id"]
        self.command = state["command"]
        self.cwd = state["cwd"]
        self.pid = state["pid"]
        self.started_at = state["started_at"]
        self.keeper_version = int(state.get("version", 1))
        self.generation = self._asked = state["generation"]
        self.state = ProgramState.WAITING if state["deferred"] else ProgramState.RUNNING
        self.ended_for = state.get("ended_for")
        age = state.get("age", time.time() - self.started_at)  # an older keeper tells the time alone
        self.made_at = time.monotonic() - max(0.0, age)
        self._answered = int(state.get("answered", 0))
        self._screen = Screen(state["cols"], state["rows"], **self._limits)
        self.ready = True
        if (quiet := state.get("quiet")) is not None:
            self.active_at = time.monotonic() - max(0.0, quiet)
            self._known = state["printed"]
        if "note" in state:
            self.note = state["note"]
        elif self.note:  # an older keeper, which does not remember it
            self.remember()
        if path := self.note.get("recording"):
            self._go_on_recording(path)

    def _restored(self, payload: bytes) -> None:
        before = self.generation
        self._offset, self.generation = KEYFRAME.unpack_from(payload)
        if self.generation != before:
            self._unsized.update(self._viewers)
        self.screen.close()
        self._screen = Screen.restore(payload[KEYFRAME.size :], **self._limits)
        self._outward.restart(self.screen.unfinished)
        self._has_keyframe = True
        self._drawn = None
        self._count.restore(self.note.get("lines"), self._offset, self.screen.alternate)
        for viewer in self._viewers:
            if not viewer.behind:  # else it is shown the screen when it has caught up
                self.resync(viewer)
        recorder = self._recorder
        if recorder is not None and recorder.offset < self._offset:  # a daemon that can't record was here
            size, redraw = (self.screen.cols, self.screen.rows), self.screen.redraw(MAX_REDRAW)
            self._record(recorder.skipped, self._offset, self.generation, size, redraw)

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        """Take what the program printed there for about so long; gives how many bytes were taken.

        The keeper told it, or the link read it from the terminal itself. What was taken is drawn, recorded
        and sent to all clients; of the rest nobody has heard yet.
        """
        if self._behind:  # what the keeper tells again is taken at once
            seen = self._offset - offset
            if seen >= len(data):
                return len(data)
            self._behind = False
            if seen > 0:
                return seen + self.printed(self._offset, data[seen:], seconds)
        if self._is_undrawn:
            self._offset = offset + len(data)
            if self._recorder is not None:
                self._record(self._recorder.printed, offset, data)
            self._count_kept(len(data))
            return len(data)
        self._calm = len(data) <= CALM
        screen = self.screen
        self._drawn = None
        is_shown = self.show_echo(offset, data)
        if is_shown:
            seconds = math.inf
        began = time.perf_counter()
        taken = screen.feed_for(data, seconds)
        if self.is_ending:  # what takes long now nobody will look at, and the program's end is behind it
            self._ending_left -= time.perf_counter() - began
            self._is_undrawn = self._ending_left < 0
        if taken < len(data):
            data = data[:taken]
        self._offset = offset + taken
        if self._recorder is not None:
            self._record(self._recorder.printed, offset, data)
        if not is_shown:
            self._show(data)
        replies, events = screen.take_replies(), screen.take_events()
        is_new = self._offset > self._answered  # else an answer would be typed twice, a bell rung twice
        if replies and is_new and self._writer is None:  # a writer's own terminal answers, if there is one
            self._answer(replies)
        for event in events:
            self._screen_event(event, is_new)
        may_switch = self._count.is_hidden or b"\x1b" in data
        self._count.add(data, may_switch and screen.alternate)
        if self._offset > self._known:
            self.active_at = time.monotonic()
        self._count_kept(len(data))
        if self._calm and self._is_typed_directly:  # it may be the echo of keys that we don't see
            self._link.borrow()
        for tap in tuple(self.taps):
            tap(data)
        self._changed()
        return taken

    def _count_kept(self, size: int) -> None:
        """So much more was printed: the keeper forgets it when it has a keyframe."""
        self._unkept += size
        if self._unkept >= self._keyframe_due:
            self.keep()

    def show_echo(self, offset: int, data: bytes) -> bool:
        """Send clients what is quick to draw before it is drawn, as somebody waits for it; tells whether that
        was done. It must be given to `printed` before anything else happens."""
        end = offset + len(data)
        if len(data) > ECHO or b"\x1b" in data or self._behind:
            return False
        if self._shown != end:
            self._shown = end
            self._show(data)
        return True

    def _show(self, data: bytes) -> None:
        """Send what was printed to all clients, as far as their terminals may have it."""
        shown = self._outward.feed(data)
        if self._viewers:
            for frame in keepty.output_frames(shown):
                for viewer in self._viewers:
                    if not viewer.behind:
                        viewer.write(frame)

    def _screen_event(self, event: object, is_new: bool) -> None:
        if isinstance(event, Cwd):
            self.cwd = event.path
        elif is_new:
            self._tell_screen_event(event)

    def _tell_screen_event(self, event: object) -> None:
        match event:
            case Title(text=text):
                self._tell("terminal/title", title=text)
            case Bell():
                self._tell("terminal/bell")
            case Notification(title=title, body=body):
                self._tell("terminal/notification", title=title, body=body)
            case Progress(state=state, percent=percent):
                self._tell("terminal/progress", state=state, percent=percent)

    def _resized(self, offset: int, cols: int, rows: int, generation: int) -> None:
        is_new = generation != self.generation  # else it is the size that the program was started at
        self.generation = generation
        self._asked = max(self._asked, generation)
        self.screen.resize(cols, rows)
        self._drawn = None
        if self._recorder is not None:
            self._record(self._recorder.resized, cols, rows, generation)
        if not is_new:
            return
        frame = keepty.ResizeAck(generation, cols, rows).encode()
        for viewer in self._viewers:
            if viewer.behind:
                self._unsized.add(viewer)
            else:
                viewer.write(frame)
        if self._asked == generation:
            for viewer, wishes in self._wishes.items():
                if (
                    wishes & keepty.Wish.REDRAWS and not viewer.behind
                ):  # not every program draws anew by itself
                    self._redraw_resized(viewer, wishes)
        self._tell_asking()

    def _exited(self, code: int) -> None:
        for viewer in self._viewers:
            if viewer.behind:  # it will not catch up before the end, so the end begins with the last screen
                self.resync(viewer)
        self.state = ProgramState.ENDED
        self.exit_code = code
        if self._recorder is not None:
            self._record(self._recorder.exited, code)
        self._held.clear()
        self._tell("terminal/exited", exit_code=code)  # first, so that who sees the end finds no socket
        self._broadcast(keepty.Exit(code))
        for viewer in list(self._viewers):
            viewer.finish()
        self._changed()

    def _changed(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def _tell(self, topic: str, **data: Any) -> None:
        self._notify(self, TerminalEvent(topic, {"name": self.id} | data))

    def _broadcast(self, message: keepty.Message) -> None:
        frame = message.encode()
        for viewer in self._viewers:
            viewer.write(frame)

    # --- what it tells the keeper -------------------------------------------------------------------------

    def keep(self) -> None:
        """Give the keeper a keyframe, so that it can forget what is in it."""
        self.write_recording()
        self._link.give_back()
        blob = self.screen.snapshot()
        self.remember(lines=self.count.note(self._offset) or None)
        self._link.tell(FrameKind.SET_KEYFRAME, KEYFRAME.pack(self._offset, self.generation), blob)
        self._unkept = 0
        self._has_keyframe = True
        self._keyframe_due = max(KEYFRAME_EVERY, min(4 * len(blob), 3 * KEYFRAME_EVERY))

    def keep_if_quiet(self) -> None:
        """Call now and then when nothing was printed for a while."""
        self._drawn = None
        if self._unkept >= QUIET_KEYFRAME:
            self.keep()

    @property
    def started_by(self) -> str:
        """The agent that started it, or whose command started it; empty if a person did."""
        return str(self.note.get("started_by") or self.note.get("agent") or "")

    @property
    def tool_of(self) -> str:
        """The agent of whose tools it is a command; empty if it is none."""
        return str(self.note.get("tool_of") or "")

    def send_input(self, data: bytes) -> None:
        """Give the program input."""
        if not self.inputs:
            for each in self.before_input:
                each()
        self.inputs += 1
        if agent := calling_agent.get():
            self.is_typed_by_agent = True
            self.typed_by(agent)
        self._give(data)

    @property
    def agent(self) -> str:
        """The agent session whose command it is, or who started it or typed into it; empty if none."""
        note = self.note
        return str(note.get("started_by") or note.get("agent") or note.get("typed_by") or "")

    def typed_by(self, agent: str) -> None:
        """A command of an agent session may type here: what is run from now on may be the agent's. The next
        daemon knows that, too. A rule types what a person wrote down."""
        if agent != A_RULE and not self.agent:
            log.warning("a command of an agent session (%.80s) types into session %s", agent, self.id)
            self.remember(typed_by=TYPED.format(agent[:MAX_AGENT], self.id))

    def _give(self, data: bytes) -> None:
        if self.state is not ProgramState.RUNNING:
            return
        if self._is_in_order:
            data = data[self._link.type(data) :]
            if self._calm:
                self._link.borrow()
        if data:
            self._held.append(data)
            self._pass_input()

    @property
    def _is_in_order(self) -> bool:
        """Whether nothing that was typed, and no size that was asked for, is still on its way."""
        return not self._held and not self._untaken and self._asked == self.generation

    @property
    def untyped(self) -> int:
        """How many bytes of input wait because the program does not read."""
        return self._untaken + sum(map(len, self._held))

    def _answer(self, replies: bytes) -> None:
        """Give the program its terminal's answers; one that asks and never reads goes without."""
        if not self._held:
            self._give(replies)

    def _pass_input(self) -> None:
        """Give the keeper as much of the held input as it has room for; it drops what is more."""
        while self._held and self._untaken < INPUT_WINDOW:
            data = self._held.popleft()
            room = INPUT_WINDOW - self._untaken
            if len(data) > room:
                self._held.appendleft(data[room:])
                data = data[:room]
            self._link.tell(FrameKind.INPUT, data)
            self._untaken += len(data)

    def _taken(self, count: int) -> None:
        self._untaken = max(0, self._untaken - count)
        self._pass_input()
        if not self._held and self._untaken < INPUT_WINDOW // 2:
            while self._paused:
                self._paused.pop().resume()
        self._tell_asking()

    def resize(self, cols: int, rows: int) -> None:
        """Ask for a size; all clients are told when it holds."""
        if not self._has_keyframe:  # without one, what was printed so far would be rebuilt at the new size
            self.keep()
        self._asked += 1
        self._link.give_back()
        self._link.tell(
            FrameKind.RESIZE, RESIZE.pack(keepty.clamped(cols), keepty.clamped(rows), self._asked)
        )

    def start(self, cols: int, rows: int) -> None:
        """Start the program, if that was put off. Its size is no resize: nothing was shown at another one."""
        self.state = ProgramState.RUNNING
        cols, rows = keepty.clamped(cols), keepty.clamped(rows)
        if (cols, rows) != (self.screen.cols, self.screen.rows):
            self.screen.resize(cols, rows)
            self._drawn = None
            if self._recorder is not None:
                self._record(self._recorder.began, cols, rows)
        self._link.tell(FrameKind.START, RESIZE.pack(cols, rows, self._asked))

    def signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        self._link.tell(FrameKind.SIGNAL, NUMBER.pack(number))

    def hang_up(self) -> None:
        """Tell the programs of this terminal that it is closed."""
        if self.keeper_version >= HANGS_UP:
            self._link.tell(FrameKind.HANG_UP)
        else:
            self.signal(signal.SIGHUP)
            self.signal(signal.SIGCONT)

    def unlink(self) -> None:
        """The keeper was lost: what is typed is held until it is found again, and nobody but it has the
        terminal, so that the program is hung up if it was killed."""
        self._untaken = INPUT_WINDOW
        self._asking.clear()
        for viewer, wishes in self._wishes.items():
            if wishes & keepty.Wish.DIRECT:
                viewer.write(keepty.Pong().encode())
                self._wishes[viewer] = wishes & ~keepty.Wish.DIRECT

    def relink(self, link: KeeperPort) -> None:
        """The keeper was found again: this is the way to it from now on."""
        self._link = link

    def dismiss(self) -> None:
        """The session has ended and nobody will look at it any more: the keeper may go."""
        if self._recorder is not None:
            self._record(self._recorder.close)
        self._link.tell(FrameKind.DISMISS)
        if self._screen is not None:
            self._screen.close()

    def remember(self, **changes: Any) -> None:
        """Change the note that the keeper has for the next daemon; None forgets."""
        note = {name: value for name, value in (self.note | changes).items() if value is not None}
        encoded = json.dumps(note).encode()
        if len(encoded) > MAX_NOTE:
            raise ValueError(f"a note of {len(encoded)} bytes; a keeper takes at most {MAX_NOTE}")
        self.note = note
        self._link.tell(FrameKind.SET_NOTE, encoded)

    # --- recording ----------------------------------------------------------------------------------------

    @property
    def recording(self) -> str | None:
        """The file that the session is recorded to, or was until it ended."""
        return self._recorder.path if self._recorder is not None else None

    @property
    def last_recording(self) -> str | None:
        """The file that the session is or was recorded to last."""
        return self.recording or self.note.get("last_recording")

    @property
    def recording_file(self) -> str | None:
        """Which file that is, by its device and inode: the path may lead to another one by now."""
        return self._recorder.file if self._recorder is not None else self.note.get("recording_file")

    @property
    def recording_error(self) -> str | None:
        """Why the session is not recorded any more although it should be, or nothing."""
        return self.note.get("recording_error")

    @property
    def unwritten(self) -> bool:
        """Whether the recording has something to write."""
        return self._recorder is not None and self._recorder.unwritten

    def record(self, path: str) -> None:
        """Record to a new file from now on, beginning with what is on the screen. Raises RecordingError."""
        screen = self.screen
        self._recorder = Recorder.create(
            path,
            (screen.cols, screen.rows),
            title=self.id,
            command=self.command,
            offset=self._offset,
            generation=self.generation,
            redraw=screen.redraw(MAX_REDRAW) if self._offset else b"",
        )
        self.remember(recording=path, recording_file=self._recorder.file, recording_error=None)
        self._tell("terminal/recording", path=path, recording=True)

    def stop_recording(self) -> None:
        """Record no more; the file ends here."""
        if self._recorder is not None:
            self._record(self._recorder.close)
        if self._recorder is not None:
            self._forget_recording(self.recording)

    def write_recording(self) -> None:
        """Write what the recording has gathered. Call soon after `unwritten` is true."""
        if self._recorder is not None:
            self._record(self._recorder.flush)

    def _go_on_recording(self, path: str) -> None:
        try:
            self._recorder = Recorder.resume(path, self.note.get("recording_file", ""))
        except RecordingError as error:
            self._forget_recording(path, str(error))

    def _record(self, step: Callable[..., None], *told: object) -> None:
        """Tell the recorder. If it can't go on, the session does."""
        try:
            step(*told)
        except RecordingError as error:
            self._forget_recording(self.recording, str(error))

    def _forget_recording(self, path: str | None, error: str = "") -> None:
        self._recorder = None
        self.remember(recording=None, last_recording=path, recording_error=error[:MAX_REASON] or None)
        if error:
            self.say(f"the recording of this session stopped: {error}")
        self._tell("terminal/recording", path=path, recording=False, **({"error": error} if error else {}))

    # --- clients ------------------------------------------------------------------------------------------

    def attach(
        self,
        viewer: Viewer,
        hello: keepty.Hello,
        greet: Callable[[keepty.HelloAck, int], None],
        who: str = "another client",
    ) -> None:
        """A client comes: it is greeted with the size, and with the terminal if it may type there, then shown
        the screen, and then all that happens.

        `who` it is, is told to a writer that it takes over from.
        """
        screen = self.screen
        starts = hello.role is Role.WRITER and self.state is ProgramState.WAITING
        if starts:  # at the size of the first writer, which it is told in the greeting
            self.start(hello.cols or screen.cols, hello.rows or screen.rows)
        wishes = hello.wishes
        if hello.role is not Role.WRITER or self.state is not ProgramState.RUNNING or self._link.terminal < 0:
            wishes &= ~keepty.Wish.DIRECT
        greet(keepty.HelloAck(self.pid, screen.cols, screen.rows, wishes), self._link.terminal)
        if not starts and self.state is not ProgramState.WAITING:
            screen_only = bool(wishes & keepty.Wish.SCREEN_ONLY)
            viewer.write(self._redraw(scrollback=False) if screen_only else self._redrawn())
        if self.state is ProgramState.ENDED:
            if self.failure:
                viewer.write(keepty.Error(self.failure).encode())
            assert self.exit_code is not None
            viewer.write(keepty.Exit(self.exit_code).encode())
            viewer.finish()
            return
        self._viewers[viewer] = hello.role
        if wishes:
            self._wishes[viewer] = wishes
        if hello.role is Role.WRITER:
            self._writer = viewer
            self._note_writer(who)
            self.has_had_writer = True
            self._tell_former_writers(who)
            size = (hello.cols, hello.rows)
            if not starts and all(size) and size != (screen.cols, screen.rows):
                self.resize(*size)

    def say(self, text: str) -> None:
        """Tell all persons that are attached a sentence."""
        for viewer in list(self._viewers):
            viewer.say(text)

    def _redrawn(self) -> bytes:
        """The frames that show everything; many who come at once get the same."""
        if self._drawn is None:
            self._drawn = self._redraw(scrollback=True)
        return self._drawn

    def _redraw(self, *, scrollback: bool) -> bytes:
        # A sequence that is unfinished at its end is not shown: `_outward` holds it back, too.
        shown = self._outward.alone(self.screen.redraw(keepty.MAX_PAYLOAD, scrollback=scrollback))
        return b"".join(output.encode() for output in keepty.Output.split(shown))

    def _note_writer(self, who: str) -> None:
        if who != self.writer:
            self.writer = who
            self._tell("terminal/writer", writer=who)

    def _tell_former_writers(self, who: str) -> None:
        """Tell those that wish it who writes now instead of them."""
        frame = keepty.ResizeAck(self.generation, self.screen.cols, self.screen.rows, who).encode()
        for viewer, wishes in self._wishes.items():
            if wishes & keepty.Wish.TAKEOVER and self._standing(viewer) is Standing.FORMER:
                viewer.write(frame)

    def detach(self, viewer: Viewer) -> None:
        """A client has gone."""
        self._viewers.pop(viewer, None)
        self._wishes.pop(viewer, None)
        self._asking.discard(viewer)
        if self._writer is viewer:
            self._writer = None
            self._note_writer("")
            self._tell_former_writers("")
        self._paused.discard(viewer)
        self._unsized.discard(viewer)

    def resync(self, viewer: Viewer) -> None:
        """A client that was behind has caught up: it sees the screen as it is now."""
        if viewer in self._viewers and self.state is not ProgramState.ENDED:
            if viewer in self._unsized:
                self._unsized.discard(viewer)
                viewer.write(keepty.ResizeAck(self.generation, self.screen.cols, self.screen.rows).encode())
            viewer.write(self._redraw(scrollback=False))

    def _redraw_resized(self, viewer: Viewer, wishes: keepty.Wish) -> None:
        """Show a client the screen at its new size. One in a person's terminal leaves the scrollback there
        alone; any other, such as a page, empties its own at each redraw, so it gets that again."""
        if wishes & (keepty.Wish.SHOWN | keepty.Wish.SCREEN_ONLY):
            self.resync(viewer)
        else:
            viewer.write(self._redrawn())

    def receive(self, viewer: Viewer, message: keepty.Message | keepty.Malformed) -> str:
        """What a client says. Gives the reason if it is ignored, else nothing."""
        wishes = self._wishes.get(viewer)
        if wishes and type(message) is keepty.Resize and message.cols == keepty.REDRAW_COLS:
            asks = bool(wishes & keepty.Wish.REDRAWS)
            if asks and not viewer.behind:  # else it gets one anyway
                self.resync(viewer)
            if asks:
                return ""
        decided, reason = keepty.verdict(
            message, self._standing(viewer), has_writer=self.has_writer, cols=self.screen.cols
        )
        match decided, message:
            case Verdict.ACT, keepty.Input(data=data):
                self.send_input(data)
                if self._untaken >= INPUT_WINDOW:
                    viewer.pause()
                    self._paused.add(viewer)
            case Verdict.ACT, keepty.Resize(cols=cols, rows=rows):
                self.resize(cols, rows)
            case Verdict.ACT, keepty.Shutdown():
                self._tell("shutdown")
            case Verdict.REDRAW, _ if not viewer.behind:  # else it gets one anyway
                self.resync(viewer)
            case Verdict.ANSWER, _ if wishes and wishes & keepty.Wish.DIRECT:
                self._asking.add(viewer)
                self._tell_asking()
            case Verdict.ANSWER, _:
                viewer.write(keepty.Pong().encode())
        return reason

    def _tell_asking(self) -> None:
        """Tell those who asked when all was typed that they sent: they may type by themselves now."""
        if self._asking and self._is_in_order:
            for viewer in self._asking:
                viewer.write(keepty.Pong().encode())
            self._asking.clear()
            if self._calm:
                self._link.borrow()

    def _standing(self, viewer: Viewer) -> Standing:
        role = self._viewers.get(viewer)
        if role is Role.WRITER:
            return Standing.WRITER if viewer is self._writer else Standing.FORMER
        return Standing.MONITOR if role is Role.MONITOR else Standing.WATCHER
