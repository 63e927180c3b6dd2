"""Sharing a session's terminal: what `fairlead attach` does. Imports little, so that it starts at once.

One loop waits for the keyboard, the session, the terminal and signals at once, and blocks on none of them:
leaving works while the program takes no input, keys go through while the terminal takes no output. When the
daemon dies the client waits for the next one and goes on: the session did not notice either.

A key is sent as soon as it is read and output is shown as soon as it comes; what does not fit waits in a
queue. The bottom row now and then has a note of ours; what it covers is mended by a redraw.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from ..client.launch import (
    ABSENT_TRIES,
    reached_daemon,
    reached_ended,
    reached_session,
    saw_daemon,
)
from ..client.reconnect import RETRY_PAUSE, Reconnect
from ..formats.hints import of_host
from ..system.settings import SettingError, Settings
from ..wire import keepty
from ..wire.faults import Broken
from .beside_attach import AttachOptions, not_here, print_last_screen, probably_meant
from .escape import Escape
from .keys import ALT, KeyReader
from .own_terminal import (
    ENTER_ALTERNATE,
    KITTY_KEYS,
    MODES_OFF,
    LeftTerminal,
    OwnTerminal,
    SignalBell,
    TerminalGone,
    desktop_message,
)
from .ready import READ, WRITE, Ready
from .translate import REDRAW, Translator, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clipped import ClippedView
    from .far_line import FarLine

READ_SIZE = 65_536
FRAME_SIZE = 16 * 1024
"""How many bytes of input go into one frame."""
HELLO_WAIT = 5.0
"""Seconds until a session that does not answer is an error."""
MAX_UNSENT = 64 * 1024 * 1024
"""How many typed bytes wait for a program that takes none, so that the keys for leaving behind them are still
seen. A paste that is longer waits in the terminal; nothing is lost."""
LAST_WORDS_WAIT = 0.5
"""Seconds that what was typed before leaving has to get through."""
FAR_HELLO_WAIT = 30.0
"""The same for a session of another host, until its line is given up and made anew."""
HINT_TIME = 3.0
"""Seconds that the name and the way out are shown after attaching, if no key is pressed before."""
NOTICE_TIME = 10.0
"""Seconds for which something that the daemon has to say is shown, or until a key is pressed."""
REDRAW_GAP = 0.25
"""Seconds between two redraws that we ask for, so that a program that keeps switching screens costs
little."""

_SIGNALS = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_CTRL_C, _ENTER = 3, 13
UNREAD = 0.5
"""Seconds in which a person can't have read that another client writes, so that Enter does not answer it."""
_WISHES = (
    keepty.Wish.REDRAWS | keepty.Wish.TAKEOVER | keepty.Wish.SHOWN | keepty.Wish.NOTICES | keepty.Wish.DIRECT
)


def attach(name: str, *, watch: bool = False) -> int:
    """Share a session until it ends or the person leaves. Gives the exit code."""
    try:
        keepty.socket_path(name, os.environ, "/")
    except ValueError as error:
        print(f"fairlead attach: {error}", file=sys.stderr)
        return 2
    if why := not_here(name):
        print(f"fairlead attach: {why}", file=sys.stderr)
        return 1
    try:
        settings = Settings()
        options = AttachOptions(settings)
    except SettingError as error:
        print(f"fairlead attach: {error}", file=sys.stderr)
        return 1
    with SignalBell(*_SIGNALS) as bell:
        sharing = None
        try:
            with (
                OwnTerminal(alternate=options.alternate) as terminal,
                _Sharing(name, terminal, bell, watch, settings, options) as sharing,
            ):
                while True:
                    sharing.turn()
        except LeftTerminal as left:
            takes_output = not isinstance(left, TerminalGone) and select.select([], [sys.stderr], [], 0)[1]
            if takes_output:
                if sharing is not None and sharing.saw_only_the_end and options.alternate:
                    print_last_screen(name, settings)
                if str(left):
                    print(left, file=sys.stderr)
            return left.code


class _Sharing:
    """One session, shared: the connection to it if there is one, and what waits to be sent."""

    def __init__(
        self,
        name: str,
        terminal: OwnTerminal,
        bell: SignalBell,
        watch: bool,
        settings: Settings,
        options: AttachOptions,
    ) -> None:
        self.saw_only_the_end = False
        """Whether the program had ended already, or ended without another word."""
        self._name = name
        self._shown = f"{settings.host}:{name}" if settings.host else name
        self._far: FarLine | None = None
        if settings.host:
            from .far_line import FarLine

            self._far = FarLine(name, settings)
        self._far_said = ""
        self._terminal = terminal
        self._bell = bell
        self._watch = watch
        self._settings = settings
        self._options = options
        self._keys = KeyReader()
        self._escape = Escape(options.escapes)
        self._translator = Translator(alternate=options.alternate)
        self._ready = Ready()
        self._bell_number = bell.fileno()
        self._ready.watch(self._bell_number, READ)
        self._steady = False  # whether what is watched is what `_is_steady` means
        self._wire = keepty.ClientConnection()
        self._granted = keepty.Wish.NONE
        self._connection: socket.socket | None = None
        self._socket = -1  # its descriptor
        self._typed = bytearray()  # what was typed and is in no frame yet
        self._input = b""  # what the frame that is being sent has of it
        self._frame = b""  # the rest of the frame that is being sent
        self._resized = False
        self._direct = -1  # the program's terminal, if we have it
        self._in_order = False  # whether all was typed that we have sent; then keys are typed there
        self._pinged = False  # whether the broker will tell when all was typed that it had got by then
        self._sent_since = False  # whether something was sent after that question
        self._typing_over = False
        self._ending: LeftTerminal | None = None
        self._was_there = False
        self._pid = 0  # of the session's program
        self._reconnect = Reconnect()
        self._greeted_at = 0.0
        self._absent = 0
        self._size = (0, 0)  # the session's
        self._outputs = 0  # how many frames of output came since the HelloAck; counted up to two
        self._last_output = b""
        self._redraw_wanted = False
        self._redraw_asked_at = float("-inf")
        self._note = ""  # what the bottom row says
        self._note_until: float | None = None
        self._told = ""  # the last thing that the daemon said to the person; said again at the end
        self._writer: str | None = None  # who writes instead of us
        self._displaced_at = 0.0  # since when
        self._view: ClippedView | None = None
        self._view_stale = False

    def __enter__(self) -> _Sharing:
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._view is not None:
            self._view.close()
        if self._far is not None:
            self._far.looking.close()
        self._let_go()

    def turn(self) -> None:
        """Wait until anything can be done and do it. Raises Left in the end."""
        terminal, connection = self._terminal, self._connection
        if self._steady and self._is_steady():  # what a key's way takes; the rest is asked for if need be
            events = self._ready.wait(None)
        else:
            connection, events = self._wait()
        if terminal.input in events and connection is not None and events.get(self._socket, 0) & ~WRITE:
            # first what the daemon says: it may be that another client writes now, or that all is over
            self._hear(connection)
            events.pop(self._socket, None)
            if self._ending is not None:
                return
        if self._bell_number in events:  # a new size was there before the key
            self._signalled()
        if terminal.input in events:  # before anything that is due, as a key that has come is not late
            self._read_keys()
        elif self._escape.until is not None and time.monotonic() >= self._escape.until:
            self._pass(self._escape.expire())
        if terminal.unshown and terminal.output in events:
            self._show()
        if self._view is not None or self._note_until is not None or self._redraw_wanted:
            self._do_due(events)
        if connection is None or self._connection is not connection:
            return
        mask = events.get(self._socket, 0)
        if mask & ~WRITE:  # first, as it may tell why nothing can be sent
            self._hear(connection)
        try:
            if mask & WRITE and self._connection is connection and self._frame:
                self._send(connection)
            if not self._steady and self._does_not_answer():
                if self._far is not None:
                    raise OSError
                raise LeftTerminal(1, f"fairlead attach: session {self._name!r} does not answer")
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _hear(self, connection: socket.socket) -> None:
        """Take what the daemon says."""
        try:
            if self._wire.state is keepty.State.OPEN:
                self._receive(connection.recv(READ_SIZE))
            else:
                self._receive_first(connection)
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _is_steady(self) -> bool:
        """Whether there is nothing to wait for but keys, output and signals."""
        return not (
            self._frame
            or self._typed
            or self._terminal.unshown
            or self._resized
            or self._redraw_wanted
            or self._escape.until is not None
            or self._note_until is not None
            or self._view is not None
            or self._ending is not None
            or self._typing_over
            or (self._direct >= 0 and not self._in_order and not self._pinged)
            or self._wire.state is not keepty.State.OPEN
            or self._connection is None
            or self._far is not None
        )

    def _wait(self) -> tuple[socket.socket | None, dict[int, int]]:
        """Wait for whatever can happen now; gives the connection that was waited for, and what is ready."""
        terminal, ready = self._terminal, self._ready
        if self._far is not None:
            self._tell_of_line(self._far)
        if self._connection is None and self._ending is None:
            self._reach()
        if terminal.unshown:
            ready.watch(terminal.output, WRITE)
        elif self._ending is not None:
            raise self._ending
        else:
            ready.watch(terminal.output, 0)
        ready.watch(terminal.input, READ if not self._typing_over and len(self._typed) < MAX_UNSENT else 0)
        connection = self._connection
        if connection is not None:
            has_frame = self._has_frame()
            ready.watch(self._socket, (0 if terminal.behind else READ) | (WRITE if has_frame else 0))
        self._steady = self._is_steady()
        return connection, ready.wait(self._pause())

    def _pause(self) -> float | None:
        """Seconds until something is to be done though nothing happens."""
        due = self._escape.until
        if self._connection is None:
            if self._ending is not None:
                return None
            due = time.monotonic() + RETRY_PAUSE if self._far is None else self._far.looking.due
        elif self._wire.state is keepty.State.GREETED:
            due = self._greeted_at + self._hello_wait
        for other in (
            self._far.due if self._far is not None else None,
            self._note_until,
            self._redraw_asked_at + REDRAW_GAP if self._redraw_wanted else None,
            self._view_due(),
        ):
            if other is not None and (due is None or other < due):
                due = other
        return None if due is None else max(0.0, due - time.monotonic())

    def _does_not_answer(self) -> bool:
        return self._wire.state is keepty.State.GREETED and self._is_over(self._greeted_at, self._hello_wait)

    @property
    def _hello_wait(self) -> float:
        return HELLO_WAIT if self._far is None else FAR_HELLO_WAIT

    @staticmethod
    def _is_over(since: float, wait: float) -> bool:
        return time.monotonic() - since >= wait

    # --- the session --------------------------------------------------------------------------------------

    def _reach(self) -> None:
        """Look once for the session; a daemon may yet have to be started to make its socket."""
        try:
            connection = self._find()
            if connection is None:
                return
        except (OSError, ValueError, SettingError) as error:
            raise LeftTerminal(1, f"fairlead attach: {error}") from None
        connection.setblocking(False)
        self._connection = connection
        self._socket = connection.fileno()
        self._wire = keepty.ClientConnection()
        # who comes back is what it was before, so that it takes nothing over from another
        role = keepty.Role.WATCHER if self._watch or self._writer is not None else keepty.Role.WRITER
        wishes = _WISHES
        if self._options.alternate or self._was_there:  # where scrollback would not be seen, or be seen twice
            wishes |= keepty.Wish.SCREEN_ONLY
        within, shown_on = os.environ.get("FAIRLEAD_SESSION", ""), self._terminal.name
        if self._far is not None:  # where no terminal and no session of ours is
            within, shown_on = "", self._far.terminal_of + shown_on
            wishes = wishes & ~keepty.Wish.DIRECT | keepty.Wish.PACED
        name = f"fairlead attach, pid {os.getpid()}"
        hello = keepty.Hello(role, *self._terminal.size, wishes, shown_on, within, name)
        self._frame = self._wire.send(hello)
        self._resized = False
        self._greeted_at = time.monotonic()

    def _find(self) -> socket.socket | None:
        """A connection to the session, if there is one now."""
        if self._far is None:
            connection = reached_session(self._name, self._settings) or reached_ended(
                self._name, self._settings
            )
            if connection is None:
                self._look_for_daemon()
            return connection
        connection = self._far.looking.look()
        if connection is not None and self._far.looking.is_absent:
            connection.close()
            raise self._is_missing(of_host("; `fairlead ls` lists them", self._settings.host))
        return connection

    def _is_missing(self, hint: str) -> LeftTerminal:
        missing = f"no session {self._shown!r}{hint}"
        gone = f"session {self._shown!r} no longer exists"
        return LeftTerminal(1, f"fairlead attach: {gone if self._was_there else missing}")

    def _tell_of_line(self, far: FarLine) -> None:
        """Say in the bottom row if the line is slow or away, and how many keys wait for it."""
        said = far.said(self._typed, self._options.way_out)
        if said == self._far_said:
            return
        was, self._far_said = self._far_said, said
        if said:
            self._note, self._note_until = said, None
            if self._connection is None:  # what was cut off in the middle will not go on
                self._terminal.show_now(b"\x18")
                self._last_output = b""
            if self._view is None:
                self._draw_note()
        elif self._note == was:
            self._end_note()

    def _look_for_daemon(self) -> None:
        daemon = reached_daemon(self._settings)
        if daemon is not None:  # it opens the sockets of its sessions before its own
            daemon.close()
            self._absent += 1
            if self._absent >= ABSENT_TRIES:
                raise self._is_missing(
                    probably_meant(self._name, self._settings) or "; `fairlead ls` lists them"
                )
            return
        self._absent = 0
        self._reconnect.look(self._settings, start=not self._was_there)

    def _lose(self) -> None:
        """The daemon went away. What it has of a frame that was not whole it has not understood."""
        if self._connection is not None:
            self._ready.forget(self._socket)
            self._connection.close()
            self._connection = None
        if self._frame:
            self._typed[:0] = self._input
        if self._far is not None:
            self._far.lost(self._input if self._frame else b"")
        self._frame = self._input = b""
        self._pinged = False
        if self._wire.state is keepty.State.OPEN:
            self._reconnect.reached()
            self._absent = 0
        elif self._ending is None:
            if self._reconnect.is_over:
                raise LeftTerminal(1, f"fairlead attach: session {self._name!r} refuses connections")
            time.sleep(RETRY_PAUSE)

    def _receive_first(self, connection: socket.socket) -> None:
        """Receive what may bring the program's terminal along."""
        data, handed, _, _ = socket.recv_fds(connection, READ_SIZE, 1)
        if handed:
            self._let_go()
            self._direct = handed[0]
            os.set_inheritable(self._direct, False)
        self._receive(data)

    def _let_go(self) -> None:
        """Have the program's terminal no more."""
        self._in_order = self._pinged = False
        if self._direct >= 0:
            os.close(self._direct)
            self._direct = -1

    def _receive(self, data: bytes) -> None:
        if not data:
            self._lose()
            return
        output = self._wire.only_output(data)
        if output is not None:
            self._output(output)
            return
        for message in self._wire.receive(data):
            if isinstance(message, keepty.Output):
                self._output(message.data)
            elif isinstance(message, keepty.HelloAck):
                self._came(message)
            elif isinstance(message, keepty.ResizeAck):
                self._size = message.cols, message.rows
                if message.writer is not None and not self._watch:
                    self._displaced(message.writer)
                self._choose_view()
            elif isinstance(message, keepty.Pong):
                if self._far is not None:
                    self._far.answered()
                elif self._pinged:
                    self._pinged = False
                    self._in_order = not (self._sent_since or self._frame or self._typed)
                else:
                    self._let_go()
            elif isinstance(message, keepty.Exit):
                self.saw_only_the_end = self._outputs < 2
                ended = f"session {self._shown} ended with {message.code}"
                if self._options.alternate and not self.saw_only_the_end:
                    ended += f"; `fairlead screen {self._shown}` shows its last screen"
                self._ending = LeftTerminal(message.code, "\n".join(filter(None, (self._told, ended))))
                self._lose()
                return
            elif isinstance(message, keepty.Error):
                if self._wire.state not in (keepty.State.OPEN, keepty.State.ENDED):
                    raise LeftTerminal(1, f"fairlead attach: {of_host(message.text, self._settings.host)}")
                self._notice(message.text)
                if message.text.startswith(keepty.RING):
                    self._ring(message.text)
            elif isinstance(message, Broken):
                self._lose()
                return

    def _came(self, message: keepty.HelloAck) -> None:
        """The session has let us in."""
        first, self._was_there = not self._was_there, True
        saw_daemon(self._settings)
        if self._pid and message.pid != self._pid:
            raise LeftTerminal(
                1, f"fairlead attach: session {self._name!r} was replaced by another of this name"
            )
        self._pid = message.pid
        self._granted = message.wishes
        if self._far is not None:
            self._far.opened()
        if not self._granted & keepty.Wish.DIRECT:
            self._let_go()
        self._size = message.cols, message.rows
        self._outputs = 0
        self._redraw_wanted = False
        if not self._watch and self._writer is None:
            self._size = self._terminal.size  # which it has from now on
        if first:
            self._greet()
        elif self._note_until is None and self._writer is None:
            self._note = ""
        self._choose_view()

    def _output(self, data: bytes) -> None:
        """Show what the session prints, as this terminal may show it."""
        if self._far is not None:
            self._far.heard(len(data))
        if self._outputs < 2:
            self._outputs += 1
        if self._view is not None:
            self._view_stale = True
            return
        translator = self._translator
        shown = translator.translate(data)
        if translator.redraw_wanted:
            translator.redraw_wanted = False
            self._want_redraw()
        self._terminal.show_now(shown)
        if self._note:
            self._last_output = data
            self._draw_note()
            if not data.startswith(REDRAW):  # it may have moved what the note covers
                self._want_redraw()

    def _has_frame(self) -> bool:
        """Whether there is something to send, which nothing but a Hello is until the session has answered."""
        if self._frame:
            return True
        if self._wire.state is keepty.State.OPEN:
            if self._resized:
                self._resized = False
                if self._watch:
                    self._want_redraw()
                elif self._writer is None:
                    self._size = self._terminal.size
                    self._frame = keepty.Resize(*self._size).encode()
                    self._in_order, self._sent_since = False, True
            elif self._typed:
                self._input = bytes(self._typed[:FRAME_SIZE])
                del self._typed[:FRAME_SIZE]
                self._frame = keepty.Input(self._input).encode()
                self._in_order, self._sent_since = False, True
                if self._far is not None:
                    self._far.typed(self._input)
            elif self._far is not None:
                self._frame = self._far.frame()
            elif self._direct >= 0 and not (self._in_order or self._pinged):
                self._frame = keepty.Ping().encode()
                self._pinged, self._sent_since = True, False
        return bool(self._frame)

    def _send(self, connection: socket.socket) -> None:
        self._frame = self._frame[connection.send(self._frame) :]
        if not self._frame:
            self._input = b""

    # --- redraws, notes and views ---------------------------------------------------------------------------

    def _want_redraw(self) -> None:
        """Have the session shown afresh, at once or soon."""
        self._redraw_wanted = True
        if self._is_over(self._redraw_asked_at, REDRAW_GAP):
            self._ask_redraw()

    def _draw_again(self) -> None:
        """Have all of the screen shown afresh, which somebody else has drawn on."""
        if not self._granted & keepty.Wish.REDRAWS:
            self._lose()  # who comes is shown the screen
            return
        if self._options.alternate:
            self._terminal.show(ENTER_ALTERNATE)
        self._redraw_asked_at = float("-inf")
        self._want_redraw()

    def _ask_redraw(self) -> None:
        if self._frame or self._wire.state is not keepty.State.OPEN:
            return
        self._redraw_wanted = False
        self._redraw_asked_at = time.monotonic()
        if self._view is not None:
            self._view_stale = True
        elif self._granted & keepty.Wish.REDRAWS or self._watch:
            self._frame = keepty.Resize(keepty.REDRAW_COLS, self._terminal.size[1]).encode()
            self._send_now()
        elif self._writer is None:  # who comes is shown the screen
            self._lose()

    def _greet(self) -> None:
        """Tell the name and the way out, if the person wants that."""
        out = "q" if self._watch else self._options.way_out
        hint = f"{'watching' if self._watch else 'attached to'} {self._shown}; {out} detaches"
        if not self._options.alternate:
            rows = self._terminal.size[1]
            line = f"[{hint}]" if self._options.hint else ""
            # what the terminal shows goes to its scrollback line by line, and so will the session's lines
            self._terminal.show(f"\x1b[{rows};1H\r\n{line}".encode() + b"\r\n" * rows + b"\x1b[H")
        elif self._options.hint and self._granted & keepty.Wish.REDRAWS:
            self._note, self._note_until = hint, time.monotonic() + HINT_TIME

    def _notice(self, text: str) -> None:
        """Show what the daemon has to say to the person, without harm to what the program shows."""
        if text.startswith(f"{self._name} "):
            text = self._shown + text[len(self._name) :]
        text = of_host(text, self._settings.host)
        self._told = f"fairlead: {''.join(filter(str.isprintable, text))}"
        if self._options.alternate and self._granted & keepty.Wish.REDRAWS:
            self._note, self._note_until = self._told, time.monotonic() + NOTICE_TIME
            if self._view is None:
                self._draw_note()
        else:
            self._terminal.show(f"\r\n{self._told}\r\n".encode("utf-8", "replace"))

    def _ring(self, text: str) -> None:
        """Have the person's terminal ring, and show a message on the desktop that it is on."""
        self._terminal.show_now(b"\a" + desktop_message("fairlead", text, os.environ))

    def _end_note(self) -> None:
        """Take the hint away, and show what it covers."""
        self._note_until = None
        self._note = ""
        self._want_redraw()

    def _draw_note(self) -> None:
        """Write the note over the bottom row. The cursor, its colours and origin mode are kept by DECSC."""
        cols, rows = self._terminal.size
        if not is_whole(self._last_output) or not rows:
            return
        text = "".join(filter(str.isprintable, self._note))[: max(0, cols - 2)]
        self._terminal.show_now(
            f"\x1b7\x1b[?6l\x1b[{rows};1H\x1b(B\x0f\x1b[0;7m {text} \x1b[0m\x1b[K\x1b8".encode(
                "utf-8", "replace"
            )
        )

    def _displaced(self, writer: str) -> None:
        """Another client writes now, or nobody does any more."""
        self._writer = writer
        self._displaced_at = time.monotonic()
        self._let_go()
        self._note_until = None
        who = f"{writer} has taken over" if writer else f"the writer of {self._name} has left"
        self._note = f"{who}; Enter takes over, {self._options.way_out} detaches"
        if self._view is None:
            self._draw_note()

    def _choose_view(self) -> None:
        """Show a part of the screen if it has another size than the terminal and we can't change it."""
        size = self._terminal.size  # of zeros if the terminal does not know it
        differs = (self._watch or self._writer is not None) and all(size) and self._size != size
        if differs == (self._view is not None):
            return
        if self._view is not None:
            self._close_view()
            self._want_redraw()
            return
        from .clipped import ClippedView, NoPicture

        with contextlib.suppress(NoPicture, OSError):  # else it is shown as it comes
            self._view = ClippedView(self._settings, self._name)
            self._ready.watch(self._view.connection.fileno(), READ)
            self._view_stale = True
            self._terminal.show(b"\x18" + KITTY_KEYS + MODES_OFF + b"\x1b[H\x1b[J")

    def _close_view(self) -> None:
        if self._view is not None:
            self._ready.forget(self._view.connection.fileno())
            self._view.close()
            self._view = None

    def _view_due(self) -> float | None:
        if self._view is None or not self._view_stale or not self._view.may_ask:
            return None
        from .clipped import PICTURE_GAP

        return self._view.asked_at + PICTURE_GAP

    def _do_due(self, events: dict[int, int]) -> None:
        """What is done at a time, or when a picture has come."""
        now = time.monotonic()
        if self._note_until is not None and now >= self._note_until:
            self._end_note()
        if self._redraw_wanted and now >= self._redraw_asked_at + REDRAW_GAP:
            self._ask_redraw()
        view = self._view
        if view is None:
            return
        from .clipped import NoPicture

        try:
            if view.connection.fileno() in events and view.receive():
                self._paint()
            if (due := self._view_due()) is not None and now >= due:
                self._view_stale = False
                view.ask(now)
        except NoPicture:  # with the daemon the session's connection goes too, and comes back
            self._close_view()
            self._want_redraw()

    def _paint(self) -> None:
        if self._view is not None and not self._terminal.behind:
            note = self._note or f"{self._name}; q detaches"
            self._terminal.show_now(self._view.paint(*self._terminal.size, note))

    # --- the person ---------------------------------------------------------------------------------------

    def _read_keys(self) -> None:
        typed = self._terminal.read(READ_SIZE)
        if not typed:
            self._typing_over = True
            return
        self._pass(self._escape.take(typed, time.monotonic()))

    def _pass(self, typed: bytes) -> None:
        """What is not an escape goes to the program, or is a key for us where we only look."""
        if self._watch or self._writer is not None:
            self._press(typed)
        elif typed:
            if self._note_until is not None:
                self._end_note()
            if self._far is not None:
                self._far.pressed()
            if self._connection is None and self._terminal.size != self._size:
                self._in_order = False  # a signal that tells of a new size may come after the key
            if self._in_order:
                typed = typed[self._type(typed) :]
                self._in_order = not typed
            self._typed += typed
            if self._typed and not self._frame and len(self._typed) <= FRAME_SIZE:
                self._send_now()
        if self._escape.left:
            self._last_words()
            self._leave()

    def _type(self, typed: bytes) -> int:
        """Type on the program's terminal itself; tells how much of it that has room for."""
        try:
            return os.write(self._direct, typed)
        except BlockingIOError:
            return 0
        except OSError:  # its other end is gone
            self._let_go()
            return 0

    def _send_now(self) -> None:
        """Send without waiting for the next turn."""
        if self._connection is not None and self._has_frame():
            with contextlib.suppress(OSError):  # the next turn sees it, too
                self._send(self._connection)

    def _press(self, typed: bytes) -> None:
        for code, _ in self._keys.read(typed, time.monotonic()):
            key = code & ~ALT
            if self._watch and key in (ord("q"), _CTRL_C):  # who typed must not leave by a word with a q
                self._leave()
            elif self._view is not None and self._view.press(key):
                self._paint()
            elif key == ord("r") and self._watch:
                self._redraw_asked_at = float("-inf")
                self._want_redraw()
            elif key == _ENTER and self._writer is not None and self._is_over(self._displaced_at, UNREAD):
                self._writer = None
                self._note = ""
                self._close_view()
                self._lose()  # who comes last writes
                return

    def _leave(self) -> None:
        left = f"detached from {self._shown}; `fairlead attach {self._shown}` reattaches"
        raise LeftTerminal(0, "\n".join(filter(None, (self._told, left))))

    def _last_words(self) -> None:
        """Send what was typed before leaving, if the session takes it now."""
        deadline = time.monotonic() + LAST_WORDS_WAIT
        with contextlib.suppress(OSError):
            while self._connection is not None and self._has_frame():
                left = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._connection], [], left)[1]:
                    break
                self._send(self._connection)

    def _show(self) -> None:
        try:
            self._terminal.flush()
        except BrokenPipeError:  # who read our output has gone
            raise LeftTerminal(128 + signal.SIGPIPE) from None

    def _signalled(self) -> None:
        for number in self._bell.rung():
            if number == signal.SIGWINCH:
                self._resized = True
                self._in_order = False  # what is typed now is for the new size
                self._choose_view()
                if self._view is not None:
                    self._terminal.show(b"\x1b[0m\x1b[2J")
                    self._paint()
            elif number == signal.SIGCONT:  # the shell has used the terminal meanwhile
                self._terminal.make_raw()
                self._draw_again()
            elif number in _SIGNALS:
                raise LeftTerminal(128 + number)
