"""The ops of rpc-edn for what waits for a person: the questions of an inbox, and their answers."""

from __future__ import annotations

from ....formats.edn import Keyword
from ....formats.shown import middle
from ....sessions.inbox import Inbox, calling_agent
from ....sessions.questions import Question
from ....system.settings import LOCAL
from ....wire.rpc import ErrorCode, fields
from ..elsewhere import FarHosts, own_place
from ..handlers import Call, Data, OpError, op

LISTED_CHARACTERS = 1024 * 1024
"""How much of what will happen a list has, of all questions together."""
LEAST_CHARACTERS = 1000
"""How much each of them has at the least."""


class ApprovalOps:
    """The questions of an inbox."""

    def __init__(self, inbox: Inbox, elsewhere: FarHosts | None = None) -> None:
        self._inbox = inbox
        self._elsewhere = elsewhere

    @op
    async def approvals(self, token: str | None = None, hosts: bool = False) -> Data:
        """All that waits, or one question. Of many only as much is in the list as has room there."""
        if token is not None:
            question = self._inbox.find(token)
            seen = {"seen": True} if self._inbox.is_seen(question.id) else {}
            return fields(approvals=[{**_row(question), **seen}])
        left, rows = LISTED_CHARACTERS, []
        for question in self._inbox.open():
            room = max(LEAST_CHARACTERS, left)
            rows.append(_row(question, middle(question.whole, room, question.see_all)))
            left -= len(question.whole)
        if not hosts:
            return fields(approvals=rows)
        elsewhere = self._elsewhere
        here = [self._placed(row) for row in rows]
        if elsewhere is not None:
            await elsewhere.begun()
        there = elsewhere.questions() if elsewhere is not None else ()
        known = elsewhere.hosts() if elsewhere is not None else ()
        return fields(approvals=[*here, *there], hosts=[fields(**each) for each in known])

    def _placed(self, row: Data) -> Data:
        """A question of this host, named as among those of all hosts."""
        named = {
            key: own_place(row[key], self._elsewhere)
            for key in (Keyword("token"), Keyword("session-id"))
            if row[key]
        }
        return {**row, **named, **fields(host=LOCAL)}

    @op
    async def approval_seen(self, token: str | None = None) -> Data:
        if agent := calling_agent.get():
            why = f"only a person can have seen it, and a command of an agent session ({agent:.80}) asks"
            raise OpError(ErrorCode.FAILED, why)
        for question in self._inbox.open() if token is None else [self._inbox.find(token)]:
            self._inbox.note_seen(question)
        return fields(accepted=True)

    @op
    async def approval_settle(
        self,
        call: Call,
        token: str,
        allowed: bool,
        always: bool = False,
        option: str = "",
        text: str = "",
    ) -> Data:
        """Answer with yes or no, with another of the question's own options, or with a text."""
        option = option or ("deny" if not allowed else "always" if always else "allow")
        question, _ = await self._inbox.answer(token, option, call.caller.via, text)
        return fields(accepted=True, approval=_row(question))


def _row(question: Question, whole: str | None = None) -> Data:
    has_own = question.kind in ("permission", "dialog")
    labels = {"labels": [each.label for each in question.options]} if has_own else {}
    return fields(
        **labels,
        **({"takes_text": True} if question.takes_text else {}),
        token=question.id,
        kind=question.kind,
        session_id=question.session,
        session_name=question.session_name or None,
        project=question.project or None,
        title=question.title,
        summary=question.what,
        reason=question.reason,
        preview=question.whole if whole is None else whole,
        options=[each.value for each in question.options],
        asked_at=question.asked_at,
        lost=question.lost or None,
    )
