"""The ops of rpc-edn by which agents ask a person, and find out what the daemon takes them for."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from functools import partial

from ....formats.shown import one_line
from ....sessions.asks import Asks, TakenToken, TooManyAsked, root_of
from ....sessions.directory import Directory, NoSession, Summary
from ....sessions.inbox import calling_agent
from ....sessions.questions import DENY, WITHDRAWN, AnswerOption, Question
from ....system.settings import SettingError, Settings
from ....wire.rpc import ErrorCode, fields
from ..handlers import BY_CLIENT, FAULTS, Call, Data, OpError, invalid, op
from .sessions import row_of

REACHES = ("project", "all")
MAX_TEXT = 16_384
"""How many characters a question may have."""
MAX_WHAT = 200
"""How many of them are in the one line that lists show."""
MAX_CHOICES, MAX_CHOICE = 9, 200
"""How many answers a question may offer, and how many characters each may have."""
_TOKEN = re.compile(r"[0-9a-f]{8,64}")
_DECLINE = AnswerOption(DENY.value, "Don't answer")
FAULTS |= {TooManyAsked: ErrorCode.FAILED, TakenToken: ErrorCode.FAILED}


class AskOps:
    """What agents ask a person."""

    def __init__(self, asks: Asks, directory: Directory, settings: Settings) -> None:
        self._asks = asks
        self._directory = directory
        self._take(_reach(settings))
        settings.joined(lambda fresh: partial(self._take, _reach(fresh)))

    def _take(self, reach: str) -> None:
        self._reach = reach

    async def _found(self, id: str) -> Summary | None:
        try:
            return (await self._directory.find(id))[1] if id else None
        except NoSession:
            return None

    @op
    async def caller(self, call: Call) -> Data:
        session = await self._found(await call.caller.session_behind())
        runs_in = {"session": row_of(session)} if session is not None else {}
        return fields(agent=calling_agent.get() or None, **runs_in, reach=self._reach)

    @op
    async def ask_person(
        self,
        call: Call,
        token: str,
        text: str,
        project: str,
        title: str = "",
        options: list[str] | None = None,
    ) -> Data:
        """Wait for the answer. A client that cancels this withdraws the question; of one that is gone it is
        withdrawn if it does not come back soon."""
        _check(token, text, options or [])
        session = await self._found(await call.caller.session_behind())
        choices = [AnswerOption(str(number), choice) for number, choice in enumerate(options or [], 1)]
        question = Question(
            id=token,
            kind="dialog",
            session=session.id if session is not None else None,
            session_name=session.name if session is not None else call.caller.agent or "an agent",
            project=project,
            title=one_line(title, MAX_WHAT) or "question",
            what=one_line(text, MAX_WHAT),
            whole=text,
            reason=f"asked by {call.caller.agent}" if session is not None and call.caller.agent else "",
            options=(*choices, _DECLINE),
            takes_text=not choices,
            asked_at=time.time(),
        )
        known = [each.project for each in await self._directory.list(brief=True) if "chat" in each.can]
        root = await asyncio.to_thread(root_of, project, known)
        try:
            self._asks.begin(question, root)
        except OSError as error:
            raise OpError(ErrorCode.FAILED, f"the question can't be written: {error.strerror}") from None
        try:
            answer = await self._asks.wait(token)
        except asyncio.CancelledError as cancelled:
            if BY_CLIENT in cancelled.args:
                self._asks.withdraw(token, "the agent no longer waits for an answer")
            raise
        if answer.option == WITHDRAWN:
            raise OpError(ErrorCode.FAILED, f"the question was withdrawn: {answer.by}")
        is_said = answer.option != DENY.value
        said = {"option": answer.option, "text": answer.text} if is_said else {}
        return fields(answered=is_said, **said, by=answer.by)


def _reach(settings: Settings) -> str:
    """What agents may reach. Raises SettingError."""
    found = settings.section("mcp").get("reach", REACHES[0])
    if found not in REACHES:
        wanted = " or ".join(f'"{each}"' for each in REACHES)
        raise settings.located(SettingError(f"[mcp] reach must be {wanted}, not {found!r:.80}"))
    return str(found)


def _check(token: str, text: str, options: Sequence[str]) -> None:
    if not _TOKEN.fullmatch(token):
        raise invalid("token", "8 to 64 hexadecimal digits")
    if not text.strip() or len(text) > MAX_TEXT:
        raise invalid("text", f"a text of 1 to {MAX_TEXT} characters")
    if len(options) > MAX_CHOICES or len(set(options)) < len(options):
        raise invalid("options", f"at most {MAX_CHOICES} different answers")
    for each in options:
        if not each.strip() or len(each) > MAX_CHOICE or one_line(each, MAX_CHOICE) != each:
            raise invalid("options", f"each is a line of 1 to {MAX_CHOICE} visible characters")
