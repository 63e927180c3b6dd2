"""Starting the daemon when there is none, and learning at once if it can't start. Imports little, as every
command may need it.

A daemon that is started gets the writing end of a pipe. It says there that it has begun, and then that it
serves, that another one does, or why it failed. If nothing follows on the beginning it was killed, and the
next is started. If none ever begins, the last line of the log is the reason.

A daemon that dies is replaced; one that was told to stop is not, by those who were connected to it: what they
start is told when they saw it last, and ends if somebody has said stop since.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from ..keeper.credentials import AGENT_MARK
from ..system.settings import HOST_VARIABLE, SettingError, Settings, foreign, safe_dir

START_WAIT = 10.0
"""Seconds until a daemon that does not come up is an error."""
QUICK_ANSWER = 1.0
"""Seconds after which it is looked up how long to wait: a daemon that is well answers in one thousandth."""
LOOK_EVERY = 0.01
"""Seconds between looks for a daemon that is starting, unless it says sooner how it went."""
NEWS_FD = 3
"""The descriptor on which a daemon that is started says how it went."""
NEWS_SIZE = 4096
"""How many bytes of what it says are read."""
LOG_TAIL = 8192
"""How many bytes of the log are searched for the last words of a daemon that died without saying why."""
MAX_DEATHS = 3
"""How many daemons may die before they begin until that is an error."""
MAX_SOCKET_PATH = 103
"""How many bytes the path of a unix socket may have; Linux would take four more than macOS."""
STOPPED_GRACE = 3.0
"""Seconds that a client whose daemon was stopped looks for one that somebody else starts, as in a restart."""
ABSENT_TRIES = 3
"""How often a session's socket is looked for while there is a daemon, until there is no such session."""


_seen_at: dict[str, float] = {}
"""When this process was connected to a daemon last, by the path of its lock."""


class NoDaemon(ConnectionError):
    """There is no daemon, and none could be started."""


class StartFailed(NoDaemon):
    """A daemon was started and ended at once; trying again would not help."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the daemon can't start: {why}")


class Stopped(StartFailed):
    """Somebody has stopped the daemon, so that none is to be started by those who still want it."""

    def __init__(self) -> None:
        NoDaemon.__init__(
            self,
            "the daemon was stopped; programs keep running, and any `fairlead` command restarts the daemon",
        )


class HungDaemon(NoDaemon):
    """There is a daemon, and it does not answer."""

    state = "is hung"

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(
            f"the daemon, process {pid}, is hung: it has not answered for {seconds:g} s; "
            "`fairlead daemon restart` replaces it"
        )
        self.pid = pid


class FullDaemon(HungDaemon):
    """There is a daemon, and as many clients have come to it as may: so it can't be asked to end, either."""

    state = "has reached its limit of clients"

    def __init__(self, pid: int) -> None:
        NoDaemon.__init__(
            self, f"the daemon, process {pid}, {self.state}; `fairlead daemon restart` drops them all"
        )
        self.pid = pid


def saw_daemon(settings: Settings) -> None:
    """This process is connected to a daemon. Whoever stops that means its clients, too."""
    if settings.host:  # which is not ours to start
        return
    _seen_at[settings.lock_path] = time.time()


def want_daemon(settings: Settings) -> None:
    """Somebody wants a daemon now, whatever was stopped before."""
    _seen_at.pop(settings.lock_path, None)


def reached(path: str, timeout: float | None = None) -> socket.socket | None:
    """A connection to a socket, if anyone serves it. Raises TimeoutError if that takes too long."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def reached_ended(name: str, settings: Settings) -> socket.socket | None:
    """A connection to a session whose program has ended, if the daemon still has it."""
    connection = reached(settings.ended_path)
    if connection is None:
        return None
    asked = os.fsencode(name) + b"\n"
    answer = b""
    try:
        connection.settimeout(settings.number("daemon", "answer_seconds"))
        connection.sendall(asked)
        while len(answer) < len(asked) and (data := connection.recv(len(asked) - len(answer))):
            answer += data
        connection.settimeout(None)
    except OSError:  # the daemon has gone meanwhile
        answer = b""
    if answer == asked:
        return connection
    connection.close()
    return None


def reached_daemon(settings: Settings) -> socket.socket | None:
    """A connection to the daemon's control socket, if a daemon is there and answers.

    One that was just killed may still be connected to for a moment. So it gets a line that says nothing,
    which rpc-edn answers with an error, before anything depends on it.
    """
    if settings.host:
        return _far(settings)
    if len(os.fsencode(settings.rpc_path)) > MAX_SOCKET_PATH:
        where = f"the path of the runtime directory, {settings.runtime_dir}, is too long"
        raise SettingError(f"{where}: the path of a socket in it may have at most {MAX_SOCKET_PATH} bytes")
    began = time.monotonic()
    try:
        connection = reached(settings.rpc_path, QUICK_ANSWER)
    except (TimeoutError, BlockingIOError):  # so many wait for it that there is no room for one more
        raise_if_hung(settings, began)
        return None
    if connection is None:
        return None
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have said no already
            connection.sendall(b"\n")
        answer = _line(connection)
        if answer is None:
            wait = settings.number("daemon", "answer_seconds")
            connection.settimeout(max(0.01, began + wait - time.monotonic()))
            answer = _line(connection)
        connection.settimeout(None)
    except OSError:
        answer = b""
    if answer is None:
        connection.close()
        raise_if_hung(settings, began)
        return None
    if b"empty frame" in answer:
        saw_daemon(settings)
        return connection
    connection.close()
    if answer:
        from .hung import lock_holder

        if pid := lock_holder(settings):
            raise FullDaemon(pid)
        raise NoDaemon(f"the daemon refused the connection: {answer.decode(errors='replace').strip()}")
    return None


def _line(connection: socket.socket) -> bytes | None:
    """A line of an answer, whatever there was of it at the end, or None if the time was over."""
    answer = b""
    try:
        while not answer.endswith(b"\n") and (data := connection.recv(4096)):
            answer += data
    except TimeoutError:
        return None
    return answer


def raise_if_hung(settings: Settings, began: float) -> None:
    """Raise HungDaemon if there is a daemon; it has not answered since `began`."""
    if settings.host:
        from .hosts.dial import HostAway

        raise HostAway(settings.host, f"its daemon has not answered for {round(time.monotonic() - began)} s")
    from .hung import lock_holder

    if pid := lock_holder(settings):
        raise HungDaemon(pid, round(time.monotonic() - began))


def connected(settings: Settings, *, start: bool = True) -> socket.socket:
    """A connection to the daemon's control socket; the daemon is started if need be, and that of another host
    always. Raises NoDaemon, and StartFailed as soon as a daemon that was started has failed, or Stopped."""
    if settings.host:
        return _far(settings)
    deadline = time.monotonic() + START_WAIT
    starting: Starting | None = None
    try:
        while (connection := reached_daemon(settings)) is None:
            if not start:
                raise NoDaemon("no daemon is running")
            starting = starting or Starting(settings)
            starting.check()
            if time.monotonic() > deadline:
                raise NoDaemon(f"the daemon does not answer; see {settings.log_path}")
            starting.wait(LOOK_EVERY)
    finally:
        if starting is not None:
            starting.close()
    return connection


def _far(settings: Settings) -> socket.socket:
    """A link to the daemon of another host."""
    from .hosts.dial import dial_control

    return dial_control(settings)


def session_dirs(settings: Settings) -> list[str]:
    """The directories in which sessions have their sockets, without one that another user has made: whoever
    listens there must not get what is typed here."""
    from ..wire import keepty  # not where only the daemon is asked

    own, *shared = keepty.socket_dirs(settings.environ, settings.keepty_dir)
    return [own, *(each for each in shared if not foreign(each))]


def reached_session(name: str, settings: Settings) -> socket.socket | None:
    """A connection to a session whose program runs, if there is one. Raises ValueError for an impossible
    name, and OSError."""
    from ..wire import keepty

    for directory in session_dirs(settings):
        if (connection := reached(keepty.socket_path(name, os.environ, directory))) is not None:
            return connection
    return None


def session_socket(name: str, settings: Settings) -> socket.socket | None:
    """A connection to a session, at its own socket or, when it has ended, at the one for those; or none if
    there is no such session. The daemon is started if need be; it opens its sessions' sockets first. For
    another host it is a link to the session."""
    if settings.host:
        from .hosts.dial import dial

        return dial(settings.host, ["terminal", name], settings)
    for _ in range(ABSENT_TRIES):
        connection = reached_session(name, settings) or reached_ended(name, settings)
        if connection is not None:
            return connection
        connected(settings).close()
    return None


class Starting:
    """A daemon that was started and has not said yet how it went. Owns the reading end of its pipe. Raises
    StartFailed for settings that no daemon could start with."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._deaths = 0
        self._heard = b""
        seen_at = _seen_at.get(settings.lock_path)
        self._asked_at = seen_at or time.time()
        self._grace = STOPPED_GRACE if seen_at else 0.0
        self._stopped_at: float | None = None
        self._news, self._log_size = _launch(settings, self._asked_at)

    def check(self) -> None:
        """Raise StartFailed if it failed, or Stopped; never waits."""
        while self._news >= 0 and select.select([self._news], [], [], 0)[0]:
            data = os.read(self._news, NEWS_SIZE)
            self._heard = (self._heard + data)[:NEWS_SIZE]
            if not data:
                self.close()
                self._judge()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at >= self._grace:
            raise Stopped

    def _judge(self) -> None:
        said = self._heard.decode(errors="replace").splitlines()
        word, _, why = (said[-1] if said else "").partition(" ")
        if word == "stopped":
            self._stopped_at = time.monotonic()
        elif word == "failed":
            raise StartFailed(why)
        elif word not in ("ready", "elsewhere"):
            self._deaths += word != "began"
            if self._deaths == MAX_DEATHS:
                raise StartFailed(_last_words(self._settings.log_path, self._log_size))
            self._heard = b""
            self._news, self._log_size = _launch(self._settings, self._asked_at)

    def wait(self, seconds: float) -> None:
        """Wait until there is news, but not longer than this."""
        select.select([self._news] if self._news >= 0 else [], [], [], seconds)

    def close(self) -> None:
        if self._news >= 0:
            news, self._news = self._news, -1
            os.close(news)


def _last_words(log_path: str, since: int) -> str:
    """The last line that was logged after this many bytes."""
    try:
        with open(log_path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = since if since <= size else 0  # the log may have been rotated
            log.seek(max(begin, size - LOG_TAIL))
            lines = log.read(LOG_TAIL).decode(errors="replace").splitlines()
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip()]
    return (
        f"{said[-1]} (in {log_path})" if said else f"it was killed, or exited without logging to {log_path}"
    )


def _launch(settings: Settings, asked_at: float) -> tuple[int, int]:
    """Start a daemon in a session of its own, with its output in the log; it ends if one was stopped after
    `asked_at`. A shell starts it and ends at once, so that it is nobody's child: a program that uses the SDK
    need not wait for it. Returns the reading end of its pipe, and how long the log was before."""
    try:
        safe_dir(settings.runtime_dir)
        safe_dir(settings.state_dir)
        log = os.open(settings.log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    except SettingError as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        raise StartFailed(f"can't write {settings.log_path}: {error.strerror}") from None
    log_size = os.fstat(log).st_size
    nothing = os.open(os.devnull, os.O_RDONLY)
    news, theirs = _pipe()
    command = [sys.executable, "-m", "fairlead", "daemon", "run"]
    try:
        shell = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", '"$@" &', "sh", *command, "--asked-at", str(asked_at), "--news", str(NEWS_FD)],
            {
                name: value
                for name, value in (os.environ | settings.environ).items()
                if name not in (AGENT_MARK, HOST_VARIABLE)
            },
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, theirs, NEWS_FD),
            ],
            setsid=True,
        )
        os.waitpid(shell, 0)
    except BaseException:
        os.close(news)
        raise
    finally:
        for each in (log, nothing, theirs):
            os.close(each)
    return news, log_size


def _pipe() -> tuple[int, int]:
    """A pipe whose writing end has a number above NEWS_FD: duplicating a descriptor onto itself would leave
    it closed in the daemon."""
    import fcntl

    reading, low = os.pipe()
    try:
        writing = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, NEWS_FD + 1)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(low)
    return reading, writing
