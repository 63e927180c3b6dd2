"""`fairlead ls --watch`: the list as it changes, on a terminal or as lines.

The daemon says when something happens; it is not asked again and again. A daemon that dies is waited for.
"""

from __future__ import annotations

import os
import sys
import time

from ..client.connection import DaemonConnection
from ..client.following import Watching
from ..client.reconnect import ABSENCE, LOST, RECONNECTED, Reconnect
from ..client.streams import Events
from ..events import Event, SessionState
from ..formats.columns import printable
from ..formats.shown import visible
from ..system.settings import Settings
from ..ui.needs import activity_of, host_of, question_of, shown_name, state_word
from ..wire.rpc_catalog import TOPICS
from . import OUTPUT_CLOSED, output
from .columns import terminal_width
from .ls import lines_of, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GATHER = 0.15
"""Seconds for which changes are gathered before the list is asked for."""
AGES = 1.0
"""Seconds after which the list is drawn with the ages of its states."""
_FOLLOWED = tuple(
    topic
    for topic in TOPICS
    if topic.startswith("sessions/")
    and topic.rpartition("/")[2] not in ("said", "signalled", "prompt-started")
)


_OF_HOSTS = ("hosts/state", "hosts/changed")


def watch(options: Any) -> int:
    """Show the sessions that options of `ls` mean until somebody interrupts."""
    is_drawn = terminal_width() is not None and os.environ.get("TERM", "") not in ("", "dumb")
    view = _Drawn() if is_drawn else _Lines()
    output.end_with_reader(OUTPUT_CLOSED)  # also if nothing ever changes
    settings = Settings()
    reconnect: Reconnect | None = None
    topics = (*_FOLLOWED, *_OF_HOSTS) if options.all else _FOLLOWED
    while True:
        try:
            start = reconnect is None or reconnect.may_start
            with (
                DaemonConnection(settings, start=start) as control,
                Events(Watching(topics, hosts=options.all), settings) as events,
            ):
                if reconnect is not None:
                    view.say(RECONNECTED)
                reconnect = None
                while True:
                    found = listed(control, options)
                    view.show(found.sessions, found.missing, found.hosts)
                    while not _happened(events, view):
                        pass
        except (ConnectionError, TimeoutError) as error:  # a broken pipe may be that of our own output
            if isinstance(error, BrokenPipeError) and not output.is_open():
                raise
            if view.is_new:
                raise
            if reconnect is None:
                view.say(LOST)
                reconnect = Reconnect(ABSENCE)
            time.sleep(reconnect.pause(error))


def _happened(events: Events, view: _View) -> bool:
    """Wait until something happens and gather what follows. True if the list has to be asked for."""
    try:
        event = events.next(timeout=view.patience)
    except TimeoutError:
        view.grow_old()
        return False
    is_stale = not view.take(event)
    until = time.monotonic() + GATHER
    while (left := until - time.monotonic()) > 0:
        try:
            is_stale = not view.take(events.next(timeout=left)) or is_stale
        except TimeoutError:
            break
    return is_stale


class _View:
    """What is shown of the sessions."""

    patience: float | None = None
    """Seconds after which it has to be shown anew though nothing happens."""

    def __init__(self) -> None:
        self.is_new = True
        """True until it has shown something."""
        self._rows: dict[str, dict[str, Any]] = {}

    def show(self, sessions: list[dict[str, Any]], missing: list[str], hosts: list[dict[str, Any]]) -> None:
        self.is_new = False
        self._rows = {each["id"]: each for each in sessions}

    def take(self, event: Event) -> bool:
        """Something happened. False if the list has to be asked for to show it."""
        return False

    def grow_old(self) -> None:
        """Nothing has happened for a while."""

    def say(self, sentence: str) -> None:
        print(f"fairlead ls: {sentence}", file=sys.stderr, flush=True)


class _Drawn(_View):
    """A table at the top of a terminal."""

    patience = AGES

    def __init__(self) -> None:
        super().__init__()
        self._drawn = ""
        self._foot = ""
        self._hosts: list[dict[str, Any]] = []

    def show(self, sessions: list[dict[str, Any]], missing: list[str], hosts: list[dict[str, Any]]) -> None:
        super().show(sessions, missing, hosts)
        self._hosts = hosts
        self._foot = "; ".join(map(printable, missing))
        self._draw()

    def grow_old(self) -> None:
        self._draw()

    def say(self, sentence: str) -> None:
        self._foot = sentence
        self._draw()

    def _draw(self) -> None:
        try:
            rows = os.get_terminal_size(sys.stdout.fileno()).lines or 24
        except OSError:
            rows = 24
        lines = lines_of(list(self._rows.values()), self._hosts)
        room = max(1, rows - 2)
        if len(lines) > room:
            lines[room - 1 :] = [f"… and {len(lines) - room + 1} more"]
        lines += ["", self._foot] if self._foot else []
        drawn = "".join(f"{line}\x1b[K\n" for line in lines)
        if drawn != self._drawn:
            first = "" if self._drawn else "\x1b[2J"
            self._drawn = drawn
            print(f"{first}\x1b[H{drawn}\x1b[J", end="", flush=True)


class _Lines(_View):
    """A line for each change, for logs and for screen readers."""

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, str] = {}

    def show(self, sessions: list[dict[str, Any]], missing: list[str], hosts: list[dict[str, Any]]) -> None:
        before, is_first = self._rows, self.is_new
        super().show(sessions, missing, hosts)
        for host in hosts:
            former = self._hosts.get(host["name"], "here")
            self._hosts[host["name"]] = host["state"]
            if former != host["state"]:
                self._host(host["name"], f"{former} → {host['state']}")
        for each in sessions:
            known = before.pop(each["id"], None)
            if known is None:
                self._print(each, "" if is_first else "new")
            elif _said(known) != _said(each):
                self._print(each, state_word(known))
        for gone in before.values():
            self._line(gone, f"{state_word(gone)} → gone")
        for why in missing if is_first else ():
            self.say(why)

    def take(self, event: Event) -> bool:
        if not isinstance(event, SessionState) or event.session_id not in self._rows:
            return False
        known = self._rows[event.session_id]
        activity = {
            **activity_of(known),
            "state": event.state,
            "question": event.question,
            "seen": event.seen,
        }
        now = self._rows[event.session_id] = {**known, "activity": activity}
        if _said(known) != _said(now):
            self._print(now, state_word(known))
        return event.state not in ("ended", "idle")  # of which the list knows how it ended

    def _print(self, session: dict[str, Any], before: str) -> None:
        question = question_of(session)
        change = f"{before} → {state_word(session)}" if before else state_word(session)
        self._line(session, f"{change}  {question}" if question else change)

    def _line(self, session: dict[str, Any], what: str) -> None:
        host = f"{host}:" if (host := host_of(session)) else ""
        self._host(f"{host}{shown_name(session)}", what)

    def _host(self, name: str, what: str) -> None:
        print(visible(f"{time.strftime('%H:%M:%S')}  {name}  {what}"), flush=True)


def _said(session: dict[str, Any]) -> tuple[str, str]:
    return state_word(session), question_of(session)
