"""A stage for one recording: a program in a PTY, its emulated screen, its model on loopback, and labels.

A scene (`scenes.py`) drives it and says what the program is doing: from what the scene did and what the model
was asked, never from rules. The labels are markers of the asciicast: `state working slow answer` begins an
interval and `state -` ends it. What lies between two intervals is a transition and is not judged.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from fairlead.formats import asciicast
from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state.front import Front, front_of
from fairlead.terminal.state.rules import of_program
from tests.agent.openai_server import Frame, Halt, Reply
from tests.model_server import ModelServer, Says

PATIENCE = 45.0
"""Seconds until a scene that waits for something has failed."""
SETTLE = 0.4
"""Seconds of a transition: what is drawn before that is not judged."""
QUIET = 0.3
"""Seconds without output after which a program has drawn what it had to."""
LAST_FRAMES = 4
"""How many events before its end an answer is about to end."""
READ = 64 * 1024
STATES = ("working", "waits", "idle")


def front_words(front: Front) -> str:
    """What of the program in the foreground is recorded: its name, whether it is a shell at its prompt, what
    it waits for, and who reads the terminal."""
    shell = "shell" if front.shell is not None else "program"
    return f"{front.program.name} {shell} {front.waits_in or '-'} {front.reader or '-'}"


class SceneError(Exception):
    """A scene did not go as it should. Says what was waited for, and what the screen shows."""


class _Timed(threading.Event):
    """Is set a moment after somebody waits for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(self._seconds)
        return True


class _Pause(Halt):
    """Where a reply stops for a moment."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.opened = _Timed(seconds)


class PacedModel(ModelServer):
    """A model that answers when its gate is open, and then in pieces with a pause after each."""

    def __init__(self, script: Mapping[str, Sequence[Says]]) -> None:
        super().__init__(script, Says("A title"))
        self.gate = threading.Event()
        self.gate.set()
        self.pause = 0.2
        self.began: list[str] = []
        """The word of each request that came; empty for those without tools, such as for a title."""
        self.closing: list[_Pause] = []
        """Where each of their answers is about to end, in the same order."""
        self.ended: list[str] = []

    def reply_to(self, path: str, request: dict[str, Any]) -> Reply:
        asked = len(self.asked)
        reply = super().reply_to(path, request)
        if len(self.asked) == asked:
            return reply
        last = self.asked[-1]
        word = last.word if last.tools or self.answers_all else ""
        frames: list[Frame] = []
        closing = _Pause(0)
        for at, frame in enumerate(reply.frames):
            if at == max(0, len(reply.frames) - LAST_FRAMES):
                frames.append(closing)
            frames += [frame, _Pause(self.pause if word else 0)]
        self.closing.append(closing)
        self.began.append(word)
        return reply._replace(frames=frames, headers=(*reply.headers, ("X-Word", word)))

    def _send(self, http: BaseHTTPRequestHandler, reply: Reply) -> None:
        words = [value for name, value in reply.headers if name == "X-Word"]
        if words:
            self.gate.wait(PATIENCE)
        super()._send(http, reply)
        self.ended += words


class Stage:
    """One recording while it is made."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: Path, cols: int, rows: int
    ) -> None:
        self.screen = Screen(cols, rows)
        self._size = cols, rows
        self._argv = argv
        self._lock = threading.Lock()
        self._events: list[tuple[float, str, str]] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = ""
        self._front: Front | None = None
        self.follows_front = False
        """Whether the program in the foreground is recorded with its screen, as a marker."""
        self._began = time.monotonic()
        self.last_output = self._began
        pid, self._terminal = pty.fork()
        if pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)  # whatever starts us may have had them ignored
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
            os.chdir(directory)
            os.execvpe(argv[0], list(argv), dict(environment))
        self._pid = pid
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _read(self) -> None:
        while not self._ended.is_set():
            if self.follows_front:
                self._look_at_front()
            if not select.select([self._terminal], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._terminal, READ)
            except OSError:
                data = b""
            if not data:
                return
            with self._lock:
                self._events.append((self._now(), asciicast.OUTPUT, self._decoder.decode(data)))
                self.screen.feed(data)
                replies = self.screen.take_replies()
            self.last_output = time.monotonic()
            if replies:
                os.write(self._terminal, replies)

    def _look_at_front(self) -> None:
        before = self._front
        front = front_of(self._pid, before, of_program)
        if front is None or (before is not None and front_words(front) == front_words(before)):
            return
        self._front = front
        self._mark(f"front {front_words(front)}")

    # --- what a scene does ----------------------------------------------------------------------------------

    def text(self) -> str:
        with self._lock:
            return self.screen.text()

    def type(self, text: str) -> None:
        """Type a text, letter by letter."""
        for letter in text:
            os.write(self._terminal, letter.encode())
            time.sleep(0.015)

    def press(self, *keys: str) -> None:
        """Press keys by their names."""
        for key in keys:
            with self._lock:
                data = self.screen.key(key)
            os.write(self._terminal, data)
            time.sleep(0.25)

    def paste(self, text: str) -> None:
        with self._lock:
            data = self.screen.paste(text)
        os.write(self._terminal, data)

    def wait(self, *texts: str, gone: bool = False, seconds: float = PATIENCE) -> str:
        """Wait until the screen shows one of these texts, or none of them; returns which."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.text()
            found = next((text for text in texts if text in shown), "")
            if bool(found) != gone:
                return found
            time.sleep(0.02)
        wanted = f"{'still ' if gone else 'no '}{' or '.join(map(repr, texts))}"
        raise SceneError(f"{wanted} after {seconds:.0f} s on\n{self.text()}")

    def until(self, what: str, is_so: Any) -> None:
        """Wait until something of the model is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise SceneError(f"not within {PATIENCE:.0f} s: {what}; the screen shows\n{self.text()}")
            time.sleep(0.01)

    def stay(self, seconds: float) -> None:
        """Let the state be as it is for so long."""
        time.sleep(seconds)

    def quiet(self) -> None:
        """Wait until nothing has been printed for a moment, but not long: a busy machine draws late."""
        deadline = time.monotonic() + 2 * QUIET
        while time.monotonic() < min(deadline, self.last_output + QUIET):
            time.sleep(0.01)

    def begin(self, state: str, what: str) -> None:
        """From now on the program is in this state."""
        assert state in STATES
        self.end()
        self._mark(f"state {state} {what}")
        self._state = state

    def end(self) -> None:
        """The state may change from now on."""
        if self._state:
            self._mark("state -")
        self._state = ""

    def _mark(self, text: str) -> None:
        with self._lock:
            self._events.append((self._now(), asciicast.MARKER, text))

    # --- its end --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the program."""
        self.end()
        for sent in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
            for _ in range(40):
                if os.waitpid(self._pid, os.WNOHANG)[0]:
                    break
                time.sleep(0.05)
                if sent is not None:
                    os.killpg(self._pid, sent)
                    sent = None  # type: ignore[assignment]
            else:
                continue
            break
        self._ended.set()
        self._thread.join()
        os.close(self._terminal)

    def save(self, path: Path, title: str) -> None:
        """Write the recording."""
        cols, rows = self._size
        lines = [
            asciicast.header_line(asciicast.CastHeader(cols, rows, title=title, terminal="xterm-256color"))
        ]
        last = 0
        for at, code, data in self._events:
            now = int(at * 1000)
            lines.append(asciicast.event_line(now - last, code, data))
            last = now
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(b"".join(lines))
        part.rename(path)
