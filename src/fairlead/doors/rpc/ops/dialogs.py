"""The questions of the inbox as dialogs of rpc-edn: who is asked, and how the answer comes back.

A client that asked for increments is asked everything at once. Others, as psi's UI, ask their person in one
place: Emacs drops a second question and takes the keys away from the first. So these are asked one thing at a
time, the next when the last was answered, and the same again after whatever their person does next: Emacs may
have dropped it because it was reading something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....agent.conversation import Conversation
from ....agent.store import AgentStore
from ....sessions.inbox import AnsweredAlready, NoSuchOption, NotOpen
from ....sessions.questions import ANSWER, Answer, Question
from ....wire.rpc import ErrorCode, EventData, fields
from .. import frames
from ..handlers import Call, Caller, Data, OpError, op
from ..history import EventHistory

SHOWN_DIALOGS = 50
"""How many questions a client is asked when it comes; the others are in `fairlead approvals`."""
_ALLOWED = ("allow", "always", "yes", "true", "submitted")
"""Results of a dialog that mean consent."""
_BY_PERSON = frozenset(
    (
        *("prompt", "prompt_while_streaming", "steer", "follow_up", "abort", "interrupt"),
        *("command", "frontend_action_result", "resolve_dialog", "cancel_dialog"),
        *("new_session", "switch_session", "fork"),
        *("set_model", "cycle_model", "set_thinking_level", "cycle_thinking_level"),
    )
)
"""Ops that an editor sends when its person does something."""


class DialogOps:
    """Asks the clients of a door what waits in the inbox. `session` finds the one that a request means."""

    def __init__(
        self,
        store: AgentStore,
        callers: Callable[[], list[Caller]],
        history: EventHistory,
        session: Callable[[Call], Conversation],
    ) -> None:
        self._store = store
        self._inbox = store.inbox
        self._inbox.listen(self)
        self._callers = callers
        self._history = history
        self._session = session

    # --- asking -------------------------------------------------------------------------------------------

    def asked(self, question: Question) -> None:
        """Something waits for a person: the clients that it concerns are told."""
        data = self._recorded(question, "ui/dialog-requested", frames.dialog(question))
        for caller in self._concerned(question):
            if caller.increments:
                caller.event("ui/dialog-requested", data)
            elif caller.asked is None:
                self._ask(caller, question)

    def closed(self, question: Question, answer: Answer) -> None:
        """Something no longer waits. A client that can't know it still asks its person."""
        topic = "ui/dialog-resolved"
        data = self._recorded(question, topic, frames.dialog_resolved(question, answer))
        for caller in self._concerned(question):
            caller.event(topic, data)
            if caller.asked == question.id and caller.wants(topic):
                self.ask(caller)

    def warned(self, question: Question, why: str) -> None:
        """An agent tried to answer for a person."""
        shown = fields(id=question.id, message=f"{question.id}: {why}", level="warning")
        data = self._recorded(question, "ui/notification", shown)
        for caller in self._concerned(question):
            caller.event("ui/notification", data)

    def _recorded(self, question: Question, topic: str, data: Data) -> EventData:
        session = self._store.get(question.session) if question.session is not None else None
        return EventData(data if session is None else self._history.add(session, topic, data))

    def _concerned(self, question: Question) -> list[Caller]:
        return [caller for caller in self._callers() if _is_for(caller, question)]

    def waiting(self, caller: Caller) -> list[Question]:
        """What waits for a person and concerns a client."""
        return [each for each in self._inbox.consents if _is_for(caller, each)]

    def ask(self, caller: Caller, id: str | None = None) -> None:
        """Ask a client what waits, its own session first: all of it, or one thing."""
        caller.asked = None
        waiting = self.waiting(caller)
        waiting.sort(key=lambda question: question.session != caller.focus)
        for question in waiting[: SHOWN_DIALOGS if caller.increments else 1]:
            self._ask(caller, question, id)

    def _ask(self, caller: Caller, question: Question, id: str | None = None) -> None:
        shown = {} if caller.increments else frames.in_minibuffer(question)
        caller.event("ui/dialog-requested", {**frames.dialog(question), **shown}, id=id)
        if not caller.increments and caller.wants("ui/dialog-requested"):
            caller.asked = question.id

    def done(self, call: Call) -> None:
        """A request was answered. If a person made it, nothing is being asked any more, but for what the
        request itself lets them choose."""
        if call.op in _BY_PERSON and not call.caller.increments and call.caller.asked != call.id:
            self.ask(call.caller, call.id)

    # --- answers ------------------------------------------------------------------------------------------

    @op
    async def resolve_dialog(self, call: Call, dialog_id: str, result: Any = None) -> Data:
        allowed = result is True or (isinstance(result, str) and result in _ALLOWED)
        option = "deny" if not allowed else "always" if result == "always" else "allow"
        if isinstance(result, str) and (question := self._inbox.get(dialog_id)) is not None:
            option = next((each.value for each in question.options if each.value == result), option)
            if question.is_dialog and (question.takes_text or result != "deny"):
                return await self._answer(call, dialog_id, ANSWER, result)
        return await self._answer(call, dialog_id, option)

    @op
    async def cancel_dialog(self, call: Call, dialog_id: str) -> Data:
        return await self._answer(call, dialog_id, "deny")

    async def _answer(self, call: Call, id: str, option: str, text: str = "") -> Data:
        named = call.session_id
        if named is not None:
            self._store.find(named)
        was_asked = call.caller.asked == id
        call.caller.asked = None if was_asked else call.caller.asked
        try:
            question = self._inbox.find(id)
            if named is not None and question.session not in (None, named):
                raise NotOpen(f"{id} is asked by another session")
            if option == "always" and all(each.value != option for each in question.options):
                option = "allow"
            await self._inbox.answer(id, option, call.caller.via, text)
        except NotOpen as error:
            why = f": {error}" if isinstance(error, AnsweredAlready) else ""
            if why and was_asked:  # its person could not know
                shown = fields(id=id, message=str(error), level="warning", extension_id="fairlead")
                call.caller.event("ui/notification", shown, id=call.id)
                return fields(accepted=False)
            if not self._session(call).approvals:
                raise OpError(ErrorCode.NO_ACTIVE_DIALOG, f"no dialog is open{why}") from None
            raise OpError(ErrorCode.DIALOG_ID_MISMATCH, f"no dialog {id} is open{why}") from None
        except NoSuchOption as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        return fields(accepted=True)


def _is_for(caller: Caller, question: Question) -> bool:
    """Whether a client is asked: one that belongs to no project, to the question's, or has its session in
    focus. What is lost, or only has to be seen, is asked nobody."""
    if question.lost or not question.is_consent:
        return False
    if caller.project is None or (question.session is not None and caller.focus == question.session):
        return True
    return question.project == caller.project
