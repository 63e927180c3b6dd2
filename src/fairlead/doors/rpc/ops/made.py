"""Sessions that agents' commands make: who made each, and that none of them leaves its maker's sandbox."""

from __future__ import annotations

from ....agent.conversation import Conversation
from ....agent.store import AgentStore
from ....hosted.session import HostedSession
from ....sessions.inbox import calling_agent
from ..handlers import outside_sandbox

MAX_MADE = 1000
"""Of how many sessions it is known which agent made them."""


class MadeSessions:
    """The sessions that agents' commands made since the daemon was started."""

    def __init__(self, store: AgentStore) -> None:
        self._store = store
        self._made: dict[str, str] = {}  # by whom; the oldest first

    def check(self, agent: str | None = None) -> None:
        """Raises OpError if an agent in a sandbox wants a session with Fairlead's own agent, which is in
        none."""
        if self._is_maker_sandboxed and agent is None:
            raise outside_sandbox("Fairlead's own agent")

    def note(self, session: Conversation) -> Conversation:
        """Remember a new session if an agent's command made it; it is in the sandbox if its maker is."""
        if agent := calling_agent.get():
            self._made[session.id] = agent
            if len(self._made) > MAX_MADE:
                del self._made[next(iter(self._made))]
            if self._is_maker_sandboxed and isinstance(session, HostedSession):
                session.settings.choose(sandbox=True)
        return session

    def by(self, id: str) -> str | None:
        """The agent whose command made a session."""
        return self._made.get(id)

    @property
    def _is_maker_sandboxed(self) -> bool:
        session = self._store.get(calling_agent.get())
        return isinstance(session, HostedSession) and session.is_sandboxed
