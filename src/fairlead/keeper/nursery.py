"""The nursery: a small process that forks keepers, so that a thousand of them share most of their memory.

It listens on a unix socket and speaks JSON, one object a line. `{"keep": spec, "socket": path}` forks a
keeper with a PTY that listens at the path, `{"pipe": spec, "socket": path}` one with pipes; the answer is
`{"pid": n}` or `{"error": text}`, with `"plain": true` if the text is a sentence for people. A daemon
introduces itself with `{"daemon": [its command], "pause": seconds}`: if its connection then ends without
`{"bye": true}`, the nursery starts that command, where `{now}` stands for the time, so a daemon that was
killed is back at once, also if it died before it introduced itself. `{"back": true}` says that it will come
back by itself. Both answers have `"pipes": true`, as older nurseries know only PTYs. A nursery that was
killed is started by the daemon.

A daemon that gives `"hang": seconds` and its `"pid"` when it introduces itself is watched: it says
`{"alive": true}` every second, which has no answer, and when it has not for so long it is told to write down
where it hangs (SIGUSR2), and killed. Neither is the parent of a program: a keeper is, and it doesn't notice
when either of them dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from . import masks, terminal
from .base import BACKLOG, ProgramKeeper
from .credentials import is_our_user
from .keeper import Keeper, Spec
from .pipes import PipeKeeper, PipeSpec
from .program import NO_ROOM, StartError
from .sockets import listening

MAX_LINE = 4 * 1024 * 1024
"""How long a request may be: it carries a whole environment."""
MIN_LIFE = 1.0
"""A daemon that lived shorter than this is started again only after a pause."""
PAUSE = 0.5
"""Seconds of that pause, unless the daemon wishes another."""
LOOK = 0.1
"""Seconds between looks at a daemon that was started and has not introduced itself yet."""
WATCH = 1.0
"""Seconds between looks at a daemon that is watched. It hangs when as many looks as its limit has seconds
were in vain, so time in which this process did not run either does not count."""
MEND = 10.0
"""Seconds between looks at our socket when nobody is watched: somebody may have deleted it."""
DUMP_LOOKS = 2
"""How many looks after it was told to write down where it hangs a daemon is killed."""
MAX_INHERITED = 1024
"""Descriptors up to this one are the nursery's and are closed in a keeper."""


class _Client:
    """A connection to the nursery."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.command: list[str] | None = None
        self.environment: dict[str, str] | None = None  # the daemon's own may be newer than ours
        """If it is the daemon: how to start it again."""
        self.pause = PAUSE
        self.since = time.monotonic()
        self.pid = 0
        self.hang = 0.0
        """If it is a daemon that is watched: its process, and seconds of silence after which it hangs."""
        self.missed = 0
        """How many looks there were since it last said that it lives."""


class Nursery:
    """Forks keepers and starts a killed daemon again. `run` returns when a daemon said goodbye."""

    def __init__(self, listener: socket.socket, path: str) -> None:
        self._listener = listener
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._done = False
        self._expected: _Client | None = None  # a daemon that died; the next one has not introduced itself
        self._pid = 0  # that next one
        self._watched: _Client | None = None
        self._looked_at = 0.0

    def run(self) -> None:
        """Serve until a daemon says goodbye."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers that end leave nothing behind
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()  # a keeper that never collects never copies these pages
        gc.disable()
        while not self._done:
            if self._expected is not None and not _is_alive(self._pid):
                self._start(self._expected)
            pause = LOOK if self._expected is not None else WATCH if self._watched is not None else MEND
            ready = self._selector.select(pause)
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                else:
                    self._serve(key.data)
            if time.monotonic() - self._looked_at >= WATCH:
                self._looked_at = time.monotonic()
                if self._watched is not None:
                    self._watch(self._watched)
                self._mend()

    def _mend(self) -> None:
        """Listen anew if somebody deleted our socket: no daemon could find us, nor replace us."""
        if os.path.lexists(self._path) or not os.path.isdir(os.path.dirname(self._path)):
            return
        with contextlib.suppress(OSError):
            listener = listening(self._path, BACKLOG)
            listener.setblocking(False)
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = listener
            self._selector.register(listener, selectors.EVENT_READ)

    def _watch(self, daemon: _Client) -> None:
        """Look once more whether the daemon lives."""
        daemon.missed += 1
        silent = daemon.missed * WATCH - daemon.hang
        if 0 <= silent < WATCH:
            _say(f"the daemon, process {daemon.pid}, has not answered for {daemon.hang:g} s: it hangs")
            _signal(daemon.pid, signal.SIGUSR2)
        elif silent >= DUMP_LOOKS * WATCH:
            _say(f"the daemon, process {daemon.pid}, is killed, as it hangs")
            self._watched = None
            _signal(daemon.pid, signal.SIGKILL)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if is_our_user(connection):
                self._selector.register(connection, selectors.EVENT_READ, _Client(connection))
            else:
                connection.close()

    def _serve(self, client: _Client) -> None:
        try:
            data = client.connection.recv(65_536)
        except OSError:
            data = b""
        client.received += data
        if not data or len(client.received) > MAX_LINE:
            self._lose(client)
            return
        *lines, client.received = client.received.split(b"\n")
        for line in lines:
            try:
                answer = self._answer(client, json.loads(line))
            except StartError as error:
                answer = {"error": str(error), "plain": True}
            except (ValueError, KeyError, TypeError, OSError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            if answer is not None:
                with contextlib.suppress(OSError):
                    client.connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, client: _Client, request: dict[str, object]) -> dict[str, object] | None:
        if "alive" in request:
            client.missed = 0
            return None
        if "keep" in request:
            return {"pid": self._fork_keeper(request["keep"], str(request["socket"]))}  # type: ignore[arg-type]
        if "pipe" in request:
            spec: PipeSpec = request["pipe"]  # type: ignore[assignment]
            return {"pid": self._fork(partial(PipeKeeper, spec), str(request["socket"]), ())}
        if "daemon" in request:
            client.command = [str(word) for word in request["daemon"]]  # type: ignore[attr-defined]
            environment = request.get("environment")
            client.environment = environment if isinstance(environment, dict) else None
            self._expected = None
            client.pause = float(request.get("pause", PAUSE))  # type: ignore[arg-type]
            return {"pid": os.getpid(), "pipes": True, **self._begin_watching(client, request)}
        if "back" in request:
            client.command = None
            return {"back": True, "pipes": True, **self._begin_watching(client, request)}
        if "bye" in request:
            client.command = None
            self._watched = None
            self._done = True
            return {"bye": True}
        raise ValueError("expected keep, pipe, daemon, back, alive or bye")

    def _begin_watching(self, client: _Client, request: dict[str, object]) -> dict[str, object]:
        """Watch this daemon if it wants that, and else not any more; gives what to answer to that."""
        client.pid = int(request.get("pid", 0))  # type: ignore[call-overload]
        client.hang = float(request.get("hang", 0.0))  # type: ignore[arg-type]
        client.missed = 0
        self._looked_at = time.monotonic()
        if client.pid > 0 and client.hang > 0:
            self._watched = client
            return {"watches": True}
        if self._watched is client:
            self._watched = None
        return {}

    def _lose(self, client: _Client) -> None:
        self._selector.unregister(client.connection)
        client.connection.close()
        if self._watched is client:
            self._watched = None
        if client.command is not None and self._expected is None:
            self._start(client)

    def _start(self, client: _Client) -> None:
        """Start a daemon in place of one that died; it has nothing to do with us but its command."""
        assert client.command is not None
        if time.monotonic() - client.since < MIN_LIFE:
            time.sleep(client.pause)
        client.since = time.monotonic()
        now = time.time()
        self._expected = client
        self._pid = os.fork()
        if self._pid == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                words = [word.replace("{now}", str(now)) for word in client.command]
                masks.give_back()
                os.execvpe(words[0], words, client.environment or os.environ)
            finally:
                os._exit(127)

    def _fork_keeper(self, spec: Spec, path: str) -> int:
        """A keeper with its terminal and its socket. If either can't be had, nothing is left of the other."""
        with contextlib.ExitStack() as undo:
            ends = terminal.open_terminal(spec["cols"], spec["rows"])
            for end in ends:
                undo.callback(os.close, end)
            return self._fork(lambda listener: Keeper(spec, listener, ends), path, ends)

    def _fork(self, make: Callable[[socket.socket], ProgramKeeper], path: str, kept: tuple[int, ...]) -> int:
        """Fork a keeper that listens at a path and keeps these descriptors of ours."""
        with listening(path, BACKLOG) as listener:
            try:
                pid = os.fork()
            except OSError as error:
                os.unlink(path)
                why = f"no other process can be started: {error.strerror}"
                raise StartError(why, NO_ROOM) from None
            if pid:
                return pid
            self._be_keeper(make, path, listener, kept)  # which never returns

    def _be_keeper(
        self,
        make: Callable[[socket.socket], ProgramKeeper],
        path: str,
        listener: socket.socket,
        kept: tuple[int, ...],
    ) -> NoReturn:
        code = 1
        try:
            os.setsid()
            self._selector.close()
            self._listener.close()
            first = 3
            for ours in sorted((listener.fileno(), *kept)):
                os.closerange(first, ours)
                first = ours + 1
            os.closerange(first, max(first, MAX_INHERITED))
            make(listener).run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os._exit(code)


def _say(what: str) -> None:
    """Say it in the daemon's log, which is where our standard error goes."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    with contextlib.suppress(OSError):
        os.write(2, f"{stamp} ERROR {what}\n".encode())


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(path: str) -> int:
    """Run the nursery at a path. A second one at the same path ends at once."""
    masks.be_private()
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    Nursery(listening(path, BACKLOG, replace=True), path).run()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
