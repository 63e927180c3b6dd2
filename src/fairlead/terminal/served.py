"""Which terminal session a hook is about that a server has called, and not the program of the session itself.

Some agents start one server for all their terminals. It keeps the environment of the first of them and calls
the hooks of all, so the name of a session in a hook's environment says nothing. Such a hook is matched to the
session whose agent has that conversation, or to the one that was given the prompt or shows it. What can't be
matched is of no session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable

from ..system.processes import MAX_ANCESTORS, arguments, depth_below, process, variable
from .ports import ProgramState
from .session import TerminalSession
from .state.front import RulesOf, front_of
from .state.rules import bare
from .submitting import Submitters, same_text

SHOWN_WAIT = 3.0
"""Seconds within which an agent must show a prompt that its hook tells of,"""
SHOWN_LOOK = 0.1
"""and between two looks."""
COMPARED = 60
"""How many characters of a line of a prompt, without blanks, are looked for."""
_SERVES = frozenset({"serve", "app-server", "web"})
"""Arguments with which agents are servers, also in a terminal of their own."""


def server_behind(hook: int, session: str, pid: int, agent: str, rules_of: RulesOf) -> bool:
    """Whether a hook that speaks for a session was called by an agent's server. `hook` is its process, and
    `pid` that of the session's program. May block for a moment.

    A hook that can't be seen, as one in a container, is believed: so is one of an agent in a terminal.
    """
    try:
        if variable(hook, "FAIRLEAD_SESSION") != session:
            return False  # another process that has its number here
    except OSError:
        return False
    for _ in range(MAX_ANCESTORS):
        found = process(hook)
        if found is None:
            return False
        words = arguments(hook)
        rules = rules_of(found.name, words)
        if rules is not None and rules.agent == agent:
            if _SERVES & set(words[1:3]):
                return True
            if found.front <= 0:  # without a terminal, unless it is below the session's program
                return depth_below(hook, pid) is None
            return False
        if hook == pid or found.parent <= 1:
            return False
        hook = found.parent
    return False


class ServedHooks:
    """Finds the session of a hook that a server has called. `conversation_of` returns the agent and the
    conversation of a session as its hooks have told."""

    def __init__(
        self,
        sessions: Callable[[], Iterable[TerminalSession]],
        submitters: Submitters,
        conversation_of: Callable[[str], tuple[str, str]],
    ) -> None:
        self._sessions = sessions
        self._submitters = submitters
        self._conversation_of = conversation_of

    async def is_served(
        self, hook: int | None, name: str, session: TerminalSession | None, agent: str
    ) -> bool:
        """Whether a hook that speaks for a session, which may be gone, was called by an agent's server."""
        if hook is None:
            return False
        pid = session.pid if session is not None else 0
        return await asyncio.to_thread(server_behind, hook, name, pid, agent, self._submitters.rules_of)

    async def find(self, agent: str, conversation: str, prompt: str = "") -> TerminalSession | None:
        """The session whose agent has a conversation, or was given a prompt that begins one."""
        deadline = time.monotonic() + SHOWN_WAIT
        running = [each for each in self._sessions() if each.state is ProgramState.RUNNING]
        known = [each for each in running if self._conversation_of(each.id) == (agent, conversation)]
        if not prompt.strip() or not conversation:
            return known[0] if len(known) == 1 and conversation else None
        candidates = [each for each in running if await self._runs(each, agent)]
        while True:
            found = [each for each in candidates if same_text(self._submitters.of(each).given, prompt)]
            found = found or [each for each in candidates if _shows(each, prompt)]
            if len(found) > 1:
                found = [each for each in found if each in known] or found
            if len(found) == 1:
                return found[0]
            if time.monotonic() > deadline:
                return known[0] if len(known) == 1 and not found else None
            await asyncio.sleep(SHOWN_LOOK)

    async def _runs(self, session: TerminalSession, agent: str) -> bool:
        front = await asyncio.to_thread(front_of, session.pid, None, self._submitters.rules_of)
        if front is None or front.rules is None or front.rules.agent != agent:
            return False
        return not _SERVES & {os.path.basename(each) for each in front.arguments[1:3]}


def _shows(session: TerminalSession, prompt: str) -> bool:
    """Whether the first line of a prompt, or its last one, is on a screen."""
    lines = [each for each in map(bare, prompt.splitlines()) if each]
    with contextlib.suppress(RuntimeError):  # the screen went meanwhile
        shown = bare(session.screen.text())
        return bool(lines) and (lines[0][:COMPARED] in shown or lines[-1][-COMPARED:] in shown)
    return False
