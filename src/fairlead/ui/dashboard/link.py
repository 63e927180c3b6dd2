"""What the dashboard has of the daemon, in threads: the list as it changes, a preview, and answers.

What they have is left in `Link.news`, and who wants it is woken.

A daemon that is stopped, hangs or dies is waited for here and nowhere else. The threads are not waited for at
the end: they own nothing that must be put away.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...client.calls import RequestError
from ...client.connection import DaemonConnection
from ...client.following import Watching
from ...client.reconnect import ABSENCE, LOST, RECONNECTED, Reconnect
from ...client.streams import Events
from ...events import Event, SessionState
from ...system.settings import Settings
from ...wire.rpc_catalog import TOPICS
from ..needs import is_away

GATHER = 0.1
"""Seconds for which what happens is gathered before the list is asked for."""
SHARE = 8.0
"""For so many times the time that a list took, the next one is not asked for."""
UNCOUNTED = 2.0
"""or if changes in a worktree were not counted yet: nobody tells when they are;"""
OLDEST = 30.0
"""Seconds after which the list is asked for though nothing happens: a branch may be checked out."""
LEAST_GAP, MOST_GAP = 0.2, 1.0
"""Seconds between two previews: while it changes, and when it does not."""
PREVIEW_LINES = 200
"""How many lines are fetched of what an agent said."""
RETRY = 1.0
"""Seconds until a daemon that can't be reached is looked for again."""
SLICE = 0.5
"""Seconds after which it is looked whether the dashboard was left."""
MAX_NEWS = 10_000
"""How much may wait to be taken; then it is dropped, and the list is asked for anew."""
MAX_ACTS = 16
"""How many things that a person asked for may be under way."""

_FOLLOWED = tuple(
    topic for topic in TOPICS if topic.startswith(("sessions/", "hosts/")) and topic not in ("sessions/said",)
)


class ListNews(NamedTuple):
    """The sessions, and all that waits for a person."""

    rows: list[dict[str, Any]]
    questions: list[dict[str, Any]]
    hosts: Sequence[dict[str, Any]] = ()
    """The other hosts."""


class QuestionNews(NamedTuple):
    """All that waits for a person."""

    questions: list[dict[str, Any]]


class EventNews(NamedTuple):
    """Something happened in a session."""

    at: float
    topic: str
    event: Event


class Previewed(NamedTuple):
    """What a session shows: its screen in colours, or its last words."""

    key: str
    lines: list[str]
    is_screen: bool
    fault: str = ""


class Trouble(NamedTuple):
    """Why what is shown may be old; empty if it is not any more."""

    why: str
    note: str = ""
    """What is to be said once."""


News = ListNews | QuestionNews | EventNews | Previewed | Trouble
Tell = Callable[[News], None]


class PreviewWish(NamedTuple):
    """Of which session a preview is wanted."""

    key: str
    id: str
    has_screen: bool


class Link:
    """The threads. Everything in it may be called from the thread of the terminal and returns at once."""

    def __init__(self, settings: Settings) -> None:
        self.news: deque[News] = deque()
        """What was not taken yet; the oldest first."""
        self.wake: Callable[[], None] | None = None
        """Is called in any thread when there is more of it, and returns at once."""
        self._settings = settings
        self._is_closed = threading.Event()
        self._watcher = _Watcher(settings, self._tell, self._is_closed)
        self._previewer = _Previewer(settings, self._tell, self._is_closed)
        self._acts = 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin; the daemon is started if there is none."""
        for run in (self._watcher.run, self._previewer.run):
            self._start(run)

    def _start(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the threads have ended, for so long."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _tell(self, news: News) -> None:
        if len(self.news) >= MAX_NEWS:  # nobody takes them: the terminal was lent, perhaps for days
            self.news.clear()
            self._watcher.is_stale = True
        self.news.append(news)
        if (wake := self.wake) is not None:
            wake()

    def close(self) -> None:
        """Let the threads end when they can."""
        self._is_closed.set()
        self._previewer.close()

    def want_preview(self, wish: PreviewWish | None) -> None:
        """Show this session from now on, or none."""
        self._previewer.wish(wish)

    def look(self) -> None:
        """Something has changed in the session whose preview is wanted."""
        self._previewer.look()

    def list_again(self) -> None:
        """Ask for the list when the next event comes, or soon."""
        self._watcher.is_stale = True

    def act(
        self, do: Callable[[DaemonConnection], Any], then: Callable[[Any, Exception | None], None]
    ) -> bool:
        """Do something with a connection of its own, in a thread. `then` gets there what it returned, or why
        it could not be done. False if too much is under way."""
        if self._acts >= MAX_ACTS:
            return False
        self._acts += 1

        def run() -> None:
            result, error = None, None
            try:
                with DaemonConnection(self._settings, via="dashboard", hosts=True) as control:
                    result = do(control)
            except Exception as caught:  # a person is told, whatever it is
                error = caught
            finally:
                self._acts -= 1
            if not self._is_closed.is_set():
                then(result, error)

        self._start(run)
        return True

    def waits_since(self) -> float:
        """For how many seconds the daemon has owed us an answer."""
        return max(self._watcher.clock.seconds, self._previewer.clock.seconds)


class _Clock:
    """When a request was sent that is not answered yet."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._since = None

    @property
    def seconds(self) -> float:
        since = self._since
        return 0.0 if since is None else time.monotonic() - since


class _Watcher:
    """Follows what happens, and asks for the list when that says too little."""

    def __init__(self, settings: Settings, tell: Tell, is_closed: threading.Event) -> None:
        self.is_stale = True
        self.clock = _Clock()
        self._settings = settings
        self._tell = tell
        self._is_closed = is_closed
        self._list_at = 0.0
        self._oldest = OLDEST
        self._waits = False  # something asks a person

    def run(self) -> None:
        reconnect: Reconnect | None = None
        while not self._is_closed.is_set():
            try:
                start = reconnect is None or reconnect.may_start
                with (
                    DaemonConnection(self._settings, start=start) as control,
                    Events(Watching(_FOLLOWED, hosts=True), self._settings) as events,
                ):
                    self._list(control)
                    self._tell(Trouble("", RECONNECTED if reconnect is not None else ""))
                    reconnect = None
                    while not self._is_closed.is_set():
                        self._follow(control, events)
            except RequestError as error:
                self._tell(Trouble(str(error)))
                self._is_closed.wait(RETRY)
            except (ConnectionError, TimeoutError, OSError) as error:
                if reconnect is None:
                    reconnect = Reconnect(ABSENCE)
                    self._tell(Trouble(LOST))
                try:
                    pause = reconnect.pause(error)
                except OSError as gone:
                    self._tell(Trouble(str(gone) or type(gone).__name__))
                    pause = RETRY
                self._is_closed.wait(pause)

    def _list(self, control: DaemonConnection) -> None:
        began = time.monotonic()
        self.is_stale = False
        with self.clock:
            answer = control.ask("session_list", hosts=True)
            rows, questions, hosts = answer["sessions"], [], answer.get("hosts") or ()
            self._waits = bool(answer["questions"]) or any(each["waits_for"] for each in rows)
            self._waits = self._waits or any(each["questions"] for each in hosts)
            if self._waits or any((each.get("verdict") or {}).get("escalated") for each in rows):
                questions = _questions(control)
        self._tell(ListNews(rows, questions, hosts))
        ended = time.monotonic()
        self._list_at = ended + max(GATHER, SHARE * (ended - began))
        uncounted = any("changed" not in (each.get("worktree") or {"changed": 0}) for each in rows)
        self._oldest = UNCOUNTED if uncounted else OLDEST

    def _follow(self, control: DaemonConnection, events: Events) -> None:
        """Wait for what happens next, and gather what follows."""
        left = self._list_at + (0.0 if self.is_stale else self._oldest) - time.monotonic()
        try:
            event = events.next(timeout=max(0.01, min(left, SLICE)))
        except TimeoutError:
            if time.monotonic() >= self._list_at + (0.0 if self.is_stale else self._oldest):
                self._list(control)
            return
        asks = self._took(event)
        until = time.monotonic() + GATHER
        while not asks and (left := until - time.monotonic()) > 0:
            try:
                asks = self._took(events.next(timeout=left))
            except TimeoutError:
                break
        if asks:
            with self.clock:
                questions = _questions(control)
            self._tell(QuestionNews(questions))
        if self.is_stale and time.monotonic() >= self._list_at:
            self._list(control)

    def _took(self, event: Event) -> bool:
        """Something happened. True if questions may have been asked or answered."""
        if event.topic == "sessions/questions":
            return True
        if event.topic == "hosts/changed":
            self.is_stale = True
            return True
        self._tell(EventNews(time.time(), event.topic, event))
        if not isinstance(event, SessionState):
            self.is_stale = True
            return event.topic == "sessions/needs-person"
        if event.state in ("idle", "ended"):  # the list knows how it ended
            self.is_stale = True
        had, self._waits = self._waits, self._waits or event.state == "waits"
        return had or self._waits


def _questions(control: DaemonConnection) -> list[dict[str, Any]]:
    """All that can be answered now: not what was asked on a host that is away."""
    found = control.ask("approvals", hosts=True)["approvals"]
    return [each for each in found if not is_away(each)]


class _Previewer:
    """Fetches what the session shows of which a preview is wanted."""

    def __init__(self, settings: Settings, tell: Tell, is_closed: threading.Event) -> None:
        self.clock = _Clock()
        self._settings = settings
        self._tell = tell
        self._is_closed = is_closed
        self._changed = threading.Condition()
        self._wish: PreviewWish | None = None
        self._look = False
        self._shown: Previewed | None = None

    def wish(self, wish: PreviewWish | None) -> None:
        with self._changed:
            if wish != self._wish:
                self._wish, self._look = wish, True
                self._changed.notify()

    def close(self) -> None:
        """Let it see that it is over."""
        with self._changed:
            self._wish = None
            self._changed.notify()

    def look(self) -> None:
        with self._changed:
            if not self._look:
                self._look = True
                self._changed.notify()

    def run(self) -> None:
        while not self._is_closed.is_set():
            try:
                with DaemonConnection(self._settings, start=False, hosts=True) as control:
                    self._follow(control)
            except (ConnectionError, TimeoutError, OSError):  # the watcher says so
                self._is_closed.wait(RETRY)

    def _follow(self, control: DaemonConnection) -> None:
        gap = LEAST_GAP
        while not self._is_closed.is_set():
            wish = self._next(gap)
            if wish is None:
                continue
            try:
                with self.clock:
                    found = _preview(control, wish)
            except RequestError as error:
                found = Previewed(wish.key, [], wish.has_screen, str(error))
            except (TypeError, KeyError, AttributeError):  # the daemon of another host says what it likes
                found = Previewed(wish.key, [], wish.has_screen, "the answer makes no sense")
            is_new = found != self._shown
            gap = LEAST_GAP if is_new else min(MOST_GAP, gap * 1.5)
            if is_new:
                self._shown = found
                self._tell(found)

    def _next(self, gap: float) -> PreviewWish | None:
        """Wait until a preview is to be fetched, never sooner than after the least gap."""
        with self._changed:
            before = self._wish
            self._changed.wait_for(lambda: self._look or self._is_closed.is_set(), gap if before else None)
            was_asked, self._look = self._look, False
            wish = self._wish
        if was_asked and wish == before:  # something happens there, perhaps often
            self._is_closed.wait(LEAST_GAP)
        return wish


def _preview(control: DaemonConnection, wish: PreviewWish) -> Previewed:
    if wish.has_screen:
        answer = control.ask("terminal_screen", name=wish.id, format="ansi")
        return Previewed(wish.key, answer["screen"].split("\n"), True)
    answer = control.ask("session_lines", session_id=wish.id, limit=PREVIEW_LINES)
    return Previewed(wish.key, [line + "" for line in answer["lines"]], False)
