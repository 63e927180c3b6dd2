"""A chat's connection to the daemon: reached without waiting, lost, reached again; requests and answers.

Nothing in here blocks: the chat's loop says when bytes may be read or written. What the answers mean is the
chat's affair.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from ...client.calls import OpenedAgent
from ...client.connection import READ_SIZE, named_via
from ...client.following import AgentSubscription, Answered
from ...client.hosts.looking import Looking
from ...client.launch import reached
from ...client.reconnect import RETRY_PAUSE, Reconnect
from ...client.sdk import Agent
from ...events import AgentEvent, Updated
from ...system.settings import Settings
from ...wire.rpc import MAX_PENDING

MAX_ASKED = MAX_PENDING // 2
"""How many requests may be on their way; then no more is taken."""
SILENT_SECONDS = 1.0
"""Seconds without an answer after which a person is told that what they entered did not arrive yet."""
SLOW = frozenset({"command", "login_complete"})
"""Requests whose answers may take longer than it takes to find a daemon hung."""


class ChatLink:
    """The connection if there is one, and what was asked over it."""

    def __init__(self, agent: Agent | OpenedAgent, settings: Settings, via: str) -> None:
        """`via` is what the daemon is told of who answers here."""
        self.via = via = named_via(via, settings)
        self._lends_keys = not settings.host
        self.following = _followed(agent, via, lends_keys=self._lends_keys)
        self.connection: socket.socket | None = None
        self.asked: dict[str, tuple[str, str]] = {}
        """Ops of requests without an answer, and what is kept for each, by their ids."""
        self.was_lost = False
        """True from the loss of a daemon until the next one has told us how the session is."""
        self.is_greeted = False
        """True once all is known of the session that a chat begins with."""
        self._settings = settings
        self._unsent = b""
        self._reconnect = Reconnect()
        self._looking = Looking(settings, ["control"]) if settings.host else None
        self._look_at = 0.0  # when to look for the daemon next
        self._heard_at = 0.0  # when the daemon said something, or had nothing to answer

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def follow(self, opened: OpenedAgent) -> None:
        """Turn to another session."""
        self.close()
        self.following = _followed(opened, self.via, lends_keys=self._lends_keys)
        self.is_greeted = False
        self.asked.clear()
        self._look_at = 0.0
        self._reconnect.reached()

    # --- how it is ------------------------------------------------------------------------------------------

    @property
    def state(self) -> Updated | None:
        """The last state of the session that came."""
        return self.following.state

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self.connection is not None and self.following.ready

    @property
    def is_ready(self) -> bool:
        """True if a person's requests can be sent."""
        return self.is_open and self.is_greeted

    @property
    def wants_to_write(self) -> bool:
        return self.connection is not None and bool(self._unsent)

    @property
    def is_due(self) -> bool:
        """True if the daemon should have something to say at once."""
        return self.connection is not None and (
            not self.is_greeted or any(op not in SLOW for op, _ in self.asked.values())
        )

    @property
    def is_silent(self) -> bool:
        """True if it has not for a while."""
        return self.is_due and time.monotonic() - self._heard_at > SILENT_SECONDS

    @property
    def is_hung(self) -> bool:
        """True if it has not for too long."""
        away = time.monotonic() - self._heard_at
        return self.is_due and away > self._settings.number("daemon", "answer_seconds")

    # --- what is done with it -------------------------------------------------------------------------------

    def look(self) -> None:
        """Look for the daemon if there is none, and it is time to. Never waits. Raises NoDaemon."""
        if self.connection is None and time.monotonic() >= self._look_at:
            self._reach()
        if not self.is_due:
            self._heard_at = time.monotonic()

    def _reach(self) -> None:
        self._look_at = time.monotonic() + RETRY_PAUSE
        if self._looking is not None:
            connection = self._looking.look()
            if connection is None:
                return
        else:
            try:
                connection = reached(self._settings.rpc_path, 0)
            except BlockingIOError:  # so many wait for it that there is no room for one more
                connection = None
            if connection is None:
                self._reconnect.look(self._settings)
                return
        connection.setblocking(False)
        self._heard_at = time.monotonic()
        self.connection = connection
        self._unsent = self.following.begin()

    def lose(self) -> None:
        """The daemon went away. What was asked of it may or may not have been done."""
        self.close()
        self._unsent = b""
        if self.following.ready:
            self.was_lost = True
            self._reconnect.reached()
            if self._looking is not None:
                self._looking.reached()

    def read(self) -> tuple[list[AgentEvent], list[Answered]]:
        """What came. Raises OSError if the daemon went away, and RequestError if it refuses us."""
        if self.connection is None:
            return [], []
        try:
            data = self.connection.recv(READ_SIZE)
        except BlockingIOError:
            return [], []
        self._heard_at = time.monotonic()
        reply, events, answers = self.following.receive(data)
        self._unsent += reply
        return events, answers

    def write(self) -> None:
        """Send what there is room for. Raises OSError if the daemon went away."""
        if self.connection is not None:
            try:
                self._unsent = self._unsent[self.connection.send(self._unsent) :]
            except BlockingIOError:
                pass

    def ask(self, op: str, kept: str = "", /, **params: Any) -> bool:
        """Send a request; what is `kept` for its answer is in `asked`. False if it can't be sent."""
        if not self.is_open or len(self.asked) >= MAX_ASKED:
            return False
        id, line = self.following.request(op, **params)
        self.asked[id] = op, kept
        self._unsent += line
        return True


def _followed(opened: Agent | OpenedAgent, via: str, *, lends_keys: bool) -> AgentSubscription:
    # what was said before is recalled; in a new session nothing was
    since = opened.cursor if opened.created else None
    found = AgentSubscription(opened.id, since, receipts=True, so_far=True)
    found.shown, found.via, found.lends_keys = True, via, lends_keys
    return found
