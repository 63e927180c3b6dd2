"""What a hosted agent says and does, as the messages and events of a session of ours.

Text and thoughts are gathered to one message, which is journaled when a tool call begins or the turn ends.
All that follows from a line of the agent is written once: an entry has the place of its line, and what is in
the journal already, because the last daemon died right after it wrote that, is not written again.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..agent import context, events
from ..agent.answer import NOTHING_USED, AnswerSoFar
from ..agent.consent.approvals import Approvals
from ..agent.events import Approval, ConversationEvent
from ..agent.journal import Custom, Journal, Said
from ..agent.messages import Assistant, Message, StopReason, Text, ToolCall, ToolResult, Usage, now
from ..agent.models import ModelInfo
from ..agent.secrets import Redactor
from ..formats.shown import call_title, middle
from ..wire import acp
from . import shown
from .state import OpenCall, Work

RUN = "fairlead/hosted-run"
"""The custom entry with which a run of an agent's program begins, is told something, or ends."""
MAX_SAID = 512 * 1024
"""After so many characters a message is journaled, though the agent goes on."""
MAX_CALLS = 200
"""How many calls an agent may have open."""
MAX_ASIDE = 2 * 1024 * 1024
"""How many bytes of what an agent says and does between two turns are taken, the rest is dropped."""
UPDATED_A_SECOND = 1024 * 1024
"""How many characters a second of what open calls show are told, as each event has all of it. What is left
out meanwhile is told when there is room; the end of a call is always told."""
MAX_PLANS = MAX_ASIDE
"""How much of its plans in a turn is journaled as the agent makes them. Beyond that they are one call, which
ends with the turn. What is journaled must not depend on time: the next daemon may have to repeat it."""
_ASIDE_COST = 1024
"""What each update between two turns counts besides its own bytes: an entry of the journal has a size too."""
LOST_CALL = "lost: the agent ended before this call did"
UNENDED_CALL = "the turn ended before this call did"
_ENDED = ("completed", "failed")
_MARKS = {"completed": "[x]", "in_progress": "[>]"}


class TooMuch(Exception):
    """An agent does more than can be kept. Says what."""


class Doings:
    """One run of an agent's program, as far as it concerns the journal and who listens."""

    def __init__(
        self,
        journal: Journal,
        approvals: Approvals,
        tell: Callable[[ConversationEvent], None],
        secrets: Redactor,
        model: Callable[[], ModelInfo],
    ) -> None:
        """`secrets` knows what must be in no journal and no event."""
        self._id = journal.header.id
        self._journal = journal
        self._approvals = approvals
        self._tell = tell
        self._secrets = secrets
        self._clean = secrets.text
        self._model = model
        self.work = Work()
        self.answer = AnswerSoFar()
        self.run = ""
        self._size = 0  # of the answer
        self._at = self._number = 0  # the line that is handled, and how many entries came of it
        self._room_at = 0.0  # when the next event of an open call may be told
        self._untold: dict[str, OpenCall] = {}  # calls that have changed since they were told
        self._timer: asyncio.TimerHandle | None = None
        self._written = (0, 0)  # the last line of which there are entries in the journal, and how many
        self._taken: dict[str, int] = {}  # where calls were journaled, by their ids; earlier runs at -1
        self.told = ""
        """The entry up to which an agent may have been told what people said, as the journal has it."""
        self._read()

    def _read(self) -> None:
        """What the journal tells of the last run."""
        for entry in self._journal.entries:
            body = entry.body
            if isinstance(body, Custom) and body.custom_type == RUN and isinstance(body.data, dict):
                if run := body.data.get("run"):
                    self._begin(str(run))
                self.told = str(body.data.get("told") or self.told)
                match body.data:
                    case {"used": int(used), "window": int(window)}:
                        self.work.used, self.work.window = used, window
            elif isinstance(body, Said) and isinstance(body.at, int):
                at, count = self._written
                self._written = (body.at, count + 1 if at == body.at else 1)
                self._note_calls(body.message, body.at)

    def _begin(self, run: str) -> None:
        self.run = run
        self._written = (0, 0)
        self._taken = dict.fromkeys(self._taken, -1)

    def _note_calls(self, message: Message, at: int) -> None:
        if isinstance(message, Assistant):
            self._taken.update((call.id, at) for call in message.calls)

    def begin(self, run: str, work: Work) -> None:
        """Go on with a run, or begin one."""
        if run != self.run:
            self._journal.append(Custom(RUN, {"run": run}))
            self._begin(run)
        work.used, work.window = work.used or self.work.used, work.window or self.work.window
        self.work = work
        self._restart()
        for is_thought, text in work.pieces:
            self._add(text, is_thought=is_thought)

    def end(self) -> None:
        """The run is over: nothing of it goes on."""
        work = self.work
        full = {"used": work.used, "window": work.window} if work.used else {}
        self._journal.append(Custom(RUN, {"ended": self.run, **full}))
        self.work = Work(used=work.used, window=work.window)  # the next run resumes the agent's session
        self.close()
        self._restart()

    def note_told(self, entry: str) -> None:
        """The agent is about to be told all up to an entry. If its program and its keeper are lost, nobody
        knows whether it was; without this, it was not."""
        self._journal.append(Custom(RUN, {"told": entry}))
        self.told = entry

    @property
    def has_ended(self) -> bool:
        """Whether the journal tells the end of the last run."""
        for entry in reversed(self._journal.entries):
            if isinstance(entry.body, Custom) and entry.body.custom_type == RUN:
                return isinstance(entry.body.data, dict) and "ended" in entry.body.data
        return True

    def _restart(self) -> None:
        self.answer, self._size = AnswerSoFar(), 0

    def keep(self, work: Work) -> None:
        """Put into the state what is said and is in no journal yet."""
        work.pieces = self.answer.pieces

    def takes_aside(self, size: int) -> bool | None:
        """Whether what is said between two turns, in so many bytes, is taken; None when that ends now."""
        if self.work.aside > MAX_ASIDE:
            return False
        self.work.aside += size + _ASIDE_COST
        return None if self.work.aside > MAX_ASIDE else True

    # --- writing ------------------------------------------------------------------------------------------

    def at(self, place: int) -> None:
        """What follows is because of the line that ends there."""
        self._at, self._number = place, 0

    def _record(self, message: Message) -> bool:
        """Journal a message and tell it. False if the journal has it already."""
        self._number += 1
        if (self._at, self._number) <= self._written:
            return False
        entry = self._journal.append(Said(message, self._at))
        self._note_calls(message, self._at)
        self._tell(events.MessageSaid(self._id, entry.id, message))
        return True

    def _message(
        self, reason: StopReason, error: str | None = None, usage: Usage = NOTHING_USED
    ) -> Assistant:
        """What was said so far, as a message; another one begins."""
        self._release()
        message = self.answer.assistant(self._model(), reason, error, usage)
        self._restart()
        return message

    def note_cost(self, told: acp.Cost | None) -> None:
        """The agent says what its session has cost. Some count anew in each of their processes; what is told
        before anything was said is of earlier ones."""
        if told is None or told.currency.upper() != "USD" or not 0 <= told.amount < math.inf:
            return
        work = self.work
        if work.said:
            work.spent += told.amount - (work.cost if told.amount >= work.cost else 0)
        work.cost = told.amount

    # --- text ---------------------------------------------------------------------------------------------

    def say(self, text: str, *, is_thought: bool, in_turn: bool) -> None:
        """The agent says or thinks something."""
        if not text:
            return
        self.take_calls()
        if is_thought is not self.work.holds_thought:
            self._release()
        self.work.holds_thought = is_thought
        text = self._clean(self.work.held + text)
        shown = self._secrets.unfinished(text)
        self.work.held = text[len(shown) :]
        self._stream(shown, is_thought=is_thought)
        if not in_turn or self._size > MAX_SAID:
            self._record(self._message("stop"))

    def _release(self) -> None:
        """What may have been the beginning of a secret is none."""
        held, self.work.held = self.work.held, ""
        self._stream(held, is_thought=self.work.holds_thought)

    def _stream(self, text: str, *, is_thought: bool) -> None:
        if text:
            self._add(text, is_thought=is_thought)
            if (self._at, self._number + 1) > self._written:  # else its message is in the journal already
                event = events.ThoughtStreamed if is_thought else events.TextStreamed
                self._tell(event(self._id, text))

    def _add(self, text: str, *, is_thought: bool) -> None:
        (self.answer.thought if is_thought else self.answer.text)(text)
        self._size += len(text)

    def plan(self, entries: Sequence[acp.PlanEntry]) -> None:
        """The agent has another plan, which is shown as a call that is done at once; but see MAX_PLANS."""
        lines = [f"{_MARKS.get(each.status, '[ ]')} {each.content}" for each in entries]
        text = middle("\n".join(lines), shown.MAX_TEXT)
        if text == self.work.shown_plan:
            return
        self.work.shown_plan = text
        self.work.plans += len(text) + _ASIDE_COST
        if (call := self.work.calls.get(self._plan)) is None:
            status = "completed" if self.work.plans <= MAX_PLANS else "in_progress"
            call = OpenCall(f"plan@{self.run}-{self._at}", "plan", name="plan", status=status)
            self.work.calls[self._plan] = call
            self._tell(events.ToolBegan(self._id, call.id, call.tool))
        call.text = text
        self._progress(self._plan, call)

    @property
    def _plan(self) -> str:
        """The plan's id among those of calls; the agent does not know it."""
        return f"plan@{self.run}"

    # --- calls --------------------------------------------------------------------------------------------

    def call(self, details: acp.ToolCall | acp.ToolCallUpdate | acp.ToolCallDetails) -> OpenCall | None:
        """The agent says something of a tool call."""
        id = details.tool_call_id
        call = self.work.calls.get(id)
        is_new = call is None
        if call is None:
            if isinstance(details, acp.ToolCallUpdate) and self._is_used(id):
                return None  # it has ended
            if len(self.work.calls) >= MAX_CALLS:
                raise TooMuch(f"it has more than {MAX_CALLS} tool calls open")
            unique = f"{id}@{self.run}-{self._at}" if self._is_used(id) else id
            call = self.work.calls[id] = OpenCall(unique, id)
        shown.take_details(call, details)
        goes_on = call.is_running or call.status in ("in_progress", *_ENDED)
        is_known = not goes_on and not call.is_titled and bool(call.arguments)
        call.is_titled = call.is_titled or is_known
        if is_new or is_known:
            self._tell(self._begun(call))
        if goes_on:
            self._progress(id, call)
        return call

    def _begun(self, call: OpenCall) -> events.ToolBegan:
        title = call_title(call.tool, self._arguments(call)) if call.is_titled else ""
        return events.ToolBegan(self._id, call.id, call.tool, title)

    @property
    def begun(self) -> list[events.ToolBegan]:
        """The calls of which it is known what they would do, and which are in no journal yet: some agents say
        no more until the call has ended."""
        return [
            self._begun(call) for call in self.work.calls.values() if call.is_titled and not call.is_taken
        ]

    def _is_used(self, id: str) -> bool:
        return self._taken.get(id, self._at) < self._at

    def take_calls(self) -> None:
        """Journal the calls that were begun, with what was said before them."""
        begun = [call for call in self.work.calls.values() if not call.is_taken]
        if not begun:
            return
        calls = [ToolCall(call.id, call.tool, self._arguments(call)) for call in begun]
        message = self._message("toolUse")
        self._record(
            Assistant(
                (*message.content, *calls),
                message.provider,
                message.model,
                message.usage,
                "toolUse",
                None,
                now(),
            )
        )
        for call, made in zip(begun, calls):
            call.is_taken = True
            self._tell(events.ToolTaken(self._id, call.id, call.tool, made.arguments))

    def start(self, call: OpenCall) -> None:
        """A call is being done."""
        if not call.is_running:
            call.is_running = True
            self._tell(events.ToolExecuting(self._id, call.id, call.tool, self._arguments(call)))

    def _arguments(self, call: OpenCall) -> dict[str, Any]:
        arguments: dict[str, Any] = self._secrets.value(shown.arguments(call))
        return arguments

    def _progress(self, id: str, call: OpenCall) -> None:
        self.take_calls()
        self.start(call)
        if call.status in _ENDED:
            self._end_call(id, is_error=call.status == "failed")
        elif call.text:
            self._untold[call.id] = call
            if self._timer is None:
                self._tell_updates()

    def _tell_updates(self) -> None:
        """Tell what open calls show now, as far as there is room; the rest when there is."""
        self._timer = None
        while self._untold and (wait := self._room_at - time.monotonic()) <= 0:
            call = self._untold.pop(next(iter(self._untold)))
            self._room_at = time.monotonic() + (len(call.text) + len(call.diff)) / UPDATED_A_SECOND
            text = self._clean(call.text)
            self._tell(events.ToolUpdated(self._id, call.id, call.tool, text, self._details(call)))
        if self._untold:
            self._timer = asyncio.get_running_loop().call_later(wait, self._tell_updates)

    def close(self) -> None:
        """Nothing more is told."""
        self._untold.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_call(self, id: str, *, is_error: bool, why: str = "") -> None:
        call = self.work.calls.pop(id)
        self._untold.pop(call.id, None)
        denial = self._approvals.denial(call.id) if is_error else ""
        text = "\n".join(filter(None, [denial, self._clean(call.text), why]))
        details = self._details(call)
        self._record(ToolResult(call.id, call.tool, (Text(text),), details, is_error, now()))
        self._tell(events.ToolEnded(self._id, call.id, call.tool, text, details, is_error))

    def _details(self, call: OpenCall) -> dict[str, object]:
        details = {
            "title": self._clean(call.title),
            "kind": call.kind,
            "diff": self._clean(call.diff),
            "paths": list(call.paths),
        }
        return {name: value for name, value in details.items() if value}

    # --- permissions --------------------------------------------------------------------------------------

    def ask(self, asked: acp.RequestPermission, request: acp.Id, agent: str) -> tuple[Approval | None, str]:
        """The agent asks for permission: the question that waits; or None, and what was chosen before."""
        origin = f"{self.run}@{self._at}"
        call = self.call(asked.tool_call)
        assert call is not None
        self.take_calls()
        if (choice := self._approvals.choice_for(origin)) is not None:
            return None, choice
        command = call.arguments.get("command")
        what = call.title
        if isinstance(command, str) and command not in what:
            what = f"{what}: $ {command}"
        reason = f"{agent} asks for permission"
        if not (is_whole := shown.is_whole(call)):
            reason += "; it is too long to be shown whole, so it can only be denied"
        elif not all(shown.is_shown_whole(each) for each in asked.options):
            reason += "; an answer that is too long to be shown whole is not offered"
        approval = Approval(
            secrets.token_hex(4),
            call.id,
            call.tool,
            self._clean(what),
            reason,
            self._clean(shown.preview(call)),
            self._arguments(call),
            call.paths,
            self._clean(command) if isinstance(command, str) else None,
            time.time(),
            self._id,
            choices=shown.choices(asked.options, may_allow=is_whole),
            origin=origin,
        )
        approval = self._approvals.ask_for(approval)
        self.work.asked[approval.id] = request
        return approval, ""

    def withdraw(self, by: str) -> list[acp.Id]:
        """Nobody needs to answer any more; returns the requests that have no answer."""
        requests = list(self.work.asked.values())
        self.work.asked.clear()
        for id in list(self._approvals.waiting):
            self._approvals.settle(id, False, by, choice="")
        return requests

    # --- the end ------------------------------------------------------------------------------------------

    def finish(
        self,
        reason: StopReason,
        error: str | None = None,
        usage: Usage = NOTHING_USED,
        why: str = UNENDED_CALL,
    ) -> bool:
        """The turn is over: what is open of it ends, and its last message is written. False if it was."""
        self.take_calls()
        if self._plan in self.work.calls:
            self._end_call(self._plan, is_error=False)
        for id in list(self.work.calls):
            self._end_call(id, is_error=True, why=why)
        is_new = self._record(self._message(reason, error, usage))
        self.work.shown_plan, self.work.plans = "", 0
        if reason == "error":
            self._tell(events.Failed(self._id, error or "", is_said=True))
        return is_new

    def lose(self, by: str, error: str) -> None:
        """The program that did a turn is no more, and so are we: journal that the turn is lost."""
        for id in list(self._approvals.waiting):
            self._approvals.settle(id, False, by, choice="")
        for call in context.unanswered(self._journal.branch):
            self._journal.append(Said(ToolResult(call.id, call.name, (Text(error),), None, True, now())))
        self._journal.append(Said(AnswerSoFar().assistant(self._model(), "error", error)))
