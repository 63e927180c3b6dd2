"""Sessions of any kind as the control room talks to them: they are prompted and typed into, and their answers
passed on to who asked.

A prompt to a session that is busy is said when its turn is done. What comes of it is known by its id; what is
streamed belongs to whoever's prompt was said last.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from itertools import groupby
from shlex import quote
from weakref import WeakValueDictionary

from ..formats.guess import meant
from ..formats.shown import counted
from ..sessions import feed
from ..sessions.directory import Directory, Kind, NoSession, NotSupported, UnknownSession
from ..sessions.inbox import Inbox
from ..sessions.session import Making, Prompt, Typing
from .protocols import Receiver, SessionFault
from .signals import control_character

MAX_ASKERS = 100
"""How many prompts of clients may wait for one session."""
SHORT_ID = 8
"""How many characters of a session's id are shown, and enough to name it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHOWN_SESSIONS = 20
"""How many sessions of each kind a status shows."""


class _Asked:
    """A prompt of ours."""

    def __init__(self, session: str, receiver: Receiver) -> None:
        self.session = session
        self.receiver = receiver
        self.is_said = False


class ControlSessions:
    """All sessions of a daemon. The `default` one is made in the directory `home` when it is wanted."""

    def __init__(self, directory: Directory, inbox: Inbox, default: str, home: str) -> None:
        self._directory = directory
        self._inbox = inbox
        self._default = default
        self._home = home
        self._asked: dict[str, _Asked] = {}  # by the prompts' ids
        self._current: dict[str, _Asked] = {}  # whose answer a session says
        # by the words that name a session, so that prompts keep their order and one session is made
        self._finding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # --- what control does --------------------------------------------------------------------------------

    async def prompt(self, session: str | None, prompt: Prompt, receiver: Receiver) -> None:
        """Ask a session, by its id or name, or the default one."""
        name = self._default if session is None else session
        finding = self._finding.setdefault(name, asyncio.Lock())
        try:
            async with finding:
                kind, id = await self._find(name)
                if (
                    sum(each.session == id and not each.is_said for each in self._asked.values())
                    >= MAX_ASKERS
                ):
                    raise SessionFault(f"{MAX_ASKERS} prompts wait for session {id} already")
                self._asked[prompt.id] = _Asked(id, receiver)
                receiver.began(id)
                await kind.prompt(id, prompt)
        except BaseException as error:
            self._asked.pop(prompt.id, None)
            if isinstance(error, NoSession | NotSupported):
                raise SessionFault(str(error)) from None
            raise

    async def type(self, session: str | None, text: str, *, enter: bool = False) -> None:
        """Type a text without control characters into a session, and perhaps press Enter."""
        if key := control_character(text):
            raise SessionFault(f"a text with {key} in it is not typed: control characters are keys")
        try:
            kind, found = await self._directory.find(session or "")
            if not isinstance(kind, Typing):
                how = f"`fairlead send {quote(found.name)} TEXT` asks it for something"
                raise SessionFault(f"typing is not supported by {kind.name} sessions; {how}")
            await kind.type(found.id, text, enter=enter)
        except (NoSession, NotSupported) as error:
            raise SessionFault(str(error)) from None

    async def cancel(self, session: str, prompt: str) -> None:
        """End what a session does for a prompt, or drop it."""
        try:
            kind, found = await self._directory.find(session)
            await kind.interrupt(found.id, prompt)
        except (NoSession, NotSupported) as error:
            raise SessionFault(str(error)) from None

    async def status(self) -> str:
        """How all sessions are."""
        lines = []
        called = [each for each in self._inbox.open() if each.kind == "escalation"]
        for question in called[-SHOWN_SESSIONS:]:
            name = self.name_of(question.session or "")
            word = self._inbox.word_for(question, name)
            how = f"`fairlead approvals dismiss {quote(word)}` dismisses it"
            lines.append(f"{name} needs a person: {question.what}; {how}")
        asked = Counter(each.session for each in self._inbox.open() if each.is_consent)
        opened = [each for each in await self._directory.list(brief=True) if each.is_open]
        for _, found in groupby(opened, key=lambda each: each.kind):
            for each in list(found)[-SHOWN_SESSIONS:]:
                waits = f", {counted(asked[each.id], 'approval')} pending" if asked[each.id] else ""
                lines.append(f"{each.kind} {each.name}: {each.state}{waits}")
        return "\n".join(lines) or "no sessions"

    def name_of(self, id: str) -> str:
        """What a person calls a session: its name, else as much of the id as lists show."""
        name = self._directory.name_of(id)
        return (id[:SHORT_ID] if _UUID.fullmatch(id) else id) if name is None else name

    async def _find(self, name: str) -> tuple[Kind, str]:
        """The session of an id or a name. Prompts are not for sessions that are typed into: typing goes
        through the gates for commands, and prompts do not."""
        try:
            kind, found = await self._directory.find(name)
            if not isinstance(kind, Typing):
                return kind, found.id
            if name != self._default:
                how = f"/send {found.name} TEXT types into it"
                raise SessionFault(f"prompts from here are not supported by {kind.name} sessions; {how}")
        except UnknownSession:
            pass
        makers = [kind for kind in self._directory.kinds if isinstance(kind, Making)]
        if name == self._default and makers:
            return makers[0], await makers[0].make(name, self._home)
        typed = {kind.name for kind in self._directory.kinds if isinstance(kind, Typing)}
        names = [each.name for each in await self._directory.list(brief=True) if each.kind not in typed]
        hint = meant(name, names) or "; `fairlead sessions` lists them"
        raise SessionFault(f"no agent session {name!r}{hint}")

    # --- what sessions say --------------------------------------------------------------------------------

    def heard(self, event: feed.FeedEvent) -> None:
        """Pass on what belongs to a prompt of ours."""
        id = event.session
        match event:
            case feed.PromptStarted(prompt=prompt) if prompt in self._asked:
                self._current[id] = self._asked[prompt]
                self._current[id].is_said = True
            case feed.SaidPiece(text=text) if id in self._current:
                self._current[id].receiver.text(text)
            case feed.PromptEnded(prompt=prompt, outcome=outcome, reason=reason) if prompt in self._asked:
                asked = self._asked.pop(prompt)
                if self._current.get(id) is asked:
                    del self._current[id]
                asked.receiver.end("" if outcome == "done" else reason or f"the turn was {outcome}")
