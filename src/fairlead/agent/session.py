"""An agent session of our own: the loop of its turns.

It asks a model, runs the tools that the model calls, and asks again, until there is nothing more to do. What
a policy does not simply allow waits for an answer, durably.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ..keeper.credentials import AGENT_MARK
from . import context, events
from .answer import AnswerSoFar
from .consent import modes
from .consent.approvals import CHANGED, denied
from .conversation import Aborted, Conversation
from .events import Approval, ConversationEvent
from .gathering import gather
from .half import HalfAnswer
from .journal import (
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Journal,
    JournalError,
    ModelChange,
    Said,
    ThinkingLevelChange,
)
from .messages import Assistant, Message, Text, ToolCall, ToolResult, now, user
from .models import (
    THINKING_LEVELS,
    Finished,
    ModelError,
    ModelInfo,
    ModelRequest,
)
from .models.catalog import priced
from .ports import (
    Busy,
    Choosable,
    Decision,
    Job,
    Judge,
    JudgedCall,
    ModelSource,
    Phase,
    Refused,
    SessionStats,
)
from .tools import Result, Tool, ToolContext, Touch

__all__ = [
    "AgentSession",
    "Busy",
    "Decision",
    "Job",
    "Judge",
    "ModelSource",
    "Phase",
    "Refused",
    "SessionStats",
]

MAX_RETRIES = 4
"""How often a model that is busy, or whose answer was cut, is asked again."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds before a model that is busy is asked again; each pause is twice the one before."""
KEPT_TOKENS = 20_000
"""About how much of a conversation a compaction leaves as it is."""
RESERVED_TOKENS = 16_384
"""How much of a model's window is left free before the conversation is compacted by itself."""
MAX_STEPS = 1000
"""How often a model is asked in one turn."""


class AgentSession(Conversation):
    """A conversation in which we ask a model and run its tools. Make one over an open journal."""

    def __init__(
        self,
        journal: Journal,
        models: ModelSource,
        tools: Mapping[str, Tool],
        judge: Judge,
        listen: Callable[[ConversationEvent], None],
        *,
        system: str,
        environment: Mapping[str, str] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_ours: bool = True,
        is_fork: bool = False,
        past: context.Past | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        """A fork may end anywhere: no turn was lost there."""
        past = past or context.past_of(journal)
        super().__init__(journal, models.default(), listen, is_ours=is_ours, past=past, notices=notices)
        self._models = models
        self._tools = tools
        self._judge = judge
        self._system = system
        self._environment = {**(environment or {}), AGENT_MARK: self.id}
        self._sleep = pause
        self._half = HalfAnswer(journal.path)
        self._mode = modes.ASK
        self._project = self.cwd.resolve()
        for body in past.states:
            if isinstance(body, ModelChange):
                self.model = models.find(body.provider, body.model_id) or self.model
            elif isinstance(body, ThinkingLevelChange):
                self.thinking_level = body.thinking_level
            elif is_ours and isinstance(body, Custom) and body.custom_type == context.MODE:
                self._mode = str(body.data) if body.data in modes.NAMES else modes.ASK
        if is_fork and self._mode == modes.ACCEPT:  # that was meant for the other session
            self._take_mode(modes.ASK)
        for approval in self._approvals.lasting:
            self._remember(approval)
        if is_ours and not is_fork:
            self._end_lost_turn()

    def _end_lost_turn(self) -> None:
        """Say that a turn was lost with the program that ran it, and what it had said by then. One that waits
        for consent is not lost: it goes on with the answer."""
        half = self._half.take()
        last = context.last_message(self.journal.branch)
        is_said = isinstance(last, Assistant) and last.error_message == context.LOST
        if self.approvals or is_said or not self.was_interrupted:
            return
        for call in context.unanswered(self.journal.branch):
            result = ToolResult(call.id, call.name, (Text(context.LOST),), None, True, now())
            self.journal.append(Said(result))
        self.journal.append(Said(half.assistant(self.model, "error", context.LOST)))

    def close(self) -> None:
        super().close()
        self._half.close()

    def _say(self, message: Message) -> Entry:
        entry = super()._say(message)
        if isinstance(message, Assistant):
            self._half.clear()
        return entry

    @property
    def effective_thinking(self) -> str:
        return self.thinking_level if self.model.reasoning else "off"

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def modes(self) -> Sequence[str]:
        return tuple(modes.NAMES)

    @property
    def mode_names(self) -> Mapping[str, str]:
        return modes.NAMES

    def set_mode(self, mode: str) -> str:
        """What may be done without asking from now on. Raises Refused."""
        self.check_person()
        if mode not in modes.NAMES:
            raise Refused(f"there is no mode {mode[:80]!r}; there are {', '.join(modes.NAMES)}")
        if mode != self._mode:
            self._take_mode(mode)
            self._tell(events.Updated(self.id))
        return mode

    def _take_mode(self, mode: str) -> None:
        self.journal.append(Custom(context.MODE, mode))
        self._mode = mode

    @property
    def options(self) -> Sequence[Choosable]:
        known = [(f"{each.provider}/{each.id}", each.name) for each in self._models.models()]
        model = f"{self.model.provider}/{self.model.id}"
        options = [Choosable("model", "Model", "model", model, known)]
        if self.model.reasoning:
            levels = [(each, each) for each in THINKING_LEVELS]
            options.append(Choosable("thinking", "Thinking", "thought_level", self.thinking_level, levels))
        return options

    def _choose_option(self, option: Choosable, value: str) -> None:
        if option.id == "model":
            provider, _, id = value.partition("/")
            self.set_model(provider, id)
        else:
            self.set_thinking_level(value)

    def set_model(self, provider: str, id: str) -> ModelInfo:
        """Ask another model from now on. Raises Refused if there is no such model."""
        info = self._models.find(provider, id)
        if info is None:
            raise Refused(f"unknown model: {provider} {id}")
        self.journal.append(ModelChange(provider, id))
        self.model = info
        self._tell(events.Updated(self.id))
        return info

    def cycle_model(self, step: int = 1) -> ModelInfo:
        """Take the next model of the catalogue, or the one before."""
        all_models = list(self._models.models())
        at = next((at for at, each in enumerate(all_models) if each == self.model), 0)
        chosen = all_models[(at + step) % len(all_models)]
        return self.set_model(chosen.provider, chosen.id)

    def set_thinking_level(self, level: str) -> str:
        """How hard a model thinks, if it does; gives what holds now: `off` for one that does not reason.

        Raises Refused.
        """
        if level not in THINKING_LEVELS:
            raise Refused(f"Unknown thinking level: {level}. Allowed: {', '.join(THINKING_LEVELS)}")
        self.journal.append(ThinkingLevelChange(level))
        self.thinking_level = level
        self._tell(events.Updated(self.id))
        return self.effective_thinking

    def cycle_thinking_level(self) -> str:
        at = THINKING_LEVELS.index(self.thinking_level) if self.thinking_level in THINKING_LEVELS else -1
        return self.set_thinking_level(THINKING_LEVELS[(at + 1) % len(THINKING_LEVELS)])

    def _remember(self, approval: Approval) -> None:
        """Don't ask again for what an approval was for; never for all that a tool can do."""
        paths = tuple(map(Path, approval.paths))
        if not paths and not (approval.command or "").strip():
            return
        touch = Touch("run" if approval.command else "write", approval.summary, paths, approval.command)
        self._judge = self._judge.remembering(approval.tool, touch, "allow")

    async def bash(self, command: str) -> Result:
        """Run a command for a person, who needs no consent; a model sees it with the next prompt.

        Raises Busy, Refused or JournalError.
        """
        if "bash" not in self._tools:
            raise Refused("there is no tool that runs commands")
        call = ToolCall(f"bash-{secrets.token_hex(4)}", "bash", {"command": command})

        async def work() -> Result:
            try:
                touch = self._tools["bash"].touches(call.arguments, self.cwd)
                result = await self._executed(call, touch)
                self.journal.append(CustomMessage("fairlead/bash", f"$ {command}\n{result.text}"))
            except (ValueError, JournalError) as error:
                raise Refused(str(error)) from None
            return result

        return await self._alone(work)

    async def compact(self, instructions: str = "") -> str:
        """Sum up what lies far back; gives the summary. Raises Busy, Refused or ModelError."""
        return await self._alone(lambda: self._compact(instructions))

    # --- asking the model -----------------------------------------------------------------------------------

    async def _steps(self, calls: Sequence[ToolCall]) -> events.Outcome:
        """Ask the model and run what it calls, until it calls nothing more."""
        if calls:
            await self._run_tools(calls)
        for _ in range(MAX_STEPS):
            if self._aborted.is_set():
                return "aborted"
            while self.prompts.steering:
                self._say(self.prompts.steering.popleft())
            answer = await self._answer()
            if answer.stop_reason == "aborted":
                return "aborted" if self._aborted.is_set() else "interrupted"
            if answer.stop_reason == "error":
                return "failed"
            if answer.stop_reason == "length" and not answer.calls:
                self._tell(events.Failed(self.id, self._too_long()))
                return "failed"
            if answer.calls:
                await self._run_tools(answer.calls)
            if self.interrupt_pending:
                return "interrupted"
            if not answer.calls and not self.prompts.steering:
                return "aborted" if self._aborted.is_set() else "done"
        self._tell(events.Failed(self.id, f"the model was asked {MAX_STEPS} times in one turn"))
        return "failed"

    def _too_long(self) -> str:
        limit = f" of {self.model.max_output} tokens" if self.model.max_output else ""
        name = f"{self.model.provider}/{self.model.id}"
        more = 'say "go on", or raise max_output of its [[models]]'
        return f"{name}: the answer was cut at the limit{limit}, so it is not whole; {more}"

    async def _answer(self) -> Assistant:
        """The model's answer, journaled. A busy model is asked again; an overflow is compacted away, once."""
        compacted = False
        if self.auto_compaction and self.context_tokens > self.model.window - RESERVED_TOKENS:
            compacted = await self._try_compact()
        while True:
            try:
                answer = await self._ask(self._request(self._course.shown))
            except ModelError as error:
                if error.kind == "overflow" and not compacted and await self._try_compact():
                    compacted = True
                    continue
                if error.kind == "busy" and await self._wait_for_retry(error):
                    continue
                if self._aborted.is_set():  # in the pause before it is asked again
                    answer = self._answer_so_far.assistant(self.model, "aborted", "Aborted")
                else:
                    answer = self._answer_so_far.assistant(self.model, "error", str(error))
            break
        self.retry_attempt = 0
        self._say(answer)
        if answer.stop_reason == "error":
            self._tell(events.Failed(self.id, answer.error_message or "the model failed", is_said=True))
        return answer

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        specs = [tool.spec for tool in self._tools.values()]
        system = f"{self._system}\n\n{modes.PLANNING}" if self._mode == modes.PLAN else self._system
        return ModelRequest(self.model, system, messages, specs, self.effective_thinking)

    async def _ask(self, request: ModelRequest) -> Assistant:
        """One answer. Aborted, it is what there was so far. Raises ModelError."""
        self._answer_so_far = parts = AnswerSoFar(self._call_ids)
        self._half.clear()
        self._become(Phase.STREAMING)
        self.is_answering = True
        try:
            finished = await self._abortable(self._stream(request, parts))
        except Aborted:
            return parts.assistant(self.model, "aborted", "Aborted")
        finally:
            self.is_answering = False
        usage = priced(self.model, finished.usage)
        if finished.stop_reason == "aborted":
            return parts.assistant(self.model, "aborted", "Interrupted", usage)
        return parts.assistant(self.model, finished.stop_reason, usage=usage, signature=finished.signature)

    def _stream(
        self, request: ModelRequest, parts: AnswerSoFar, *, aloud: bool = True
    ) -> Awaitable[Finished]:
        """Gather an answer, and tell its pieces as they come, if that is for others to hear."""
        stream = self._models.model(self.model).stream(request)
        tell, half = (self._tell, self._half) if aloud else (_nothing, None)
        return gather(stream, parts, self.id, tell, half, lambda: aloud and self.ends_at_word)

    async def _wait_for_retry(self, error: ModelError) -> bool:
        """Wait as long as is polite before a busy model is asked again; tells whether it should be."""
        wanted = self.auto_retry and not self.interrupt_pending and self.retry_attempt < MAX_RETRIES
        if not wanted or self._aborted.is_set():
            return False
        pause, asked = FIRST_PAUSE * 2**self.retry_attempt, error.retry_after
        delay = min(asked if asked is not None and asked >= 0 else pause, LONGEST_PAUSE)
        self.retry_attempt += 1
        self._tell(events.Retrying(self.id, self.retry_attempt, MAX_RETRIES, delay, error.reason))
        self._become(Phase.RETRYING)
        try:
            await self._abortable(self._sleep(delay))
        except Aborted:
            return False
        return not self.interrupt_pending

    # --- compaction -----------------------------------------------------------------------------------------

    async def _try_compact(self) -> bool:
        try:
            await self._compact("")
        except (Refused, ModelError) as error:
            self._tell(events.Failed(self.id, f"can't compact the conversation: {error}"))
            return False
        return True

    async def _compact(self, instructions: str) -> str:
        branch = self.journal.branch
        kept = context.first_kept(branch, KEPT_TOKENS)
        if kept is None:
            raise Refused("there is nothing to compact yet")
        end = next(at for at, entry in enumerate(branch) if entry.id == kept)
        text = await asyncio.to_thread(lambda: context.transcript(context.conversation(branch[:end])))
        question = f"{context.SUMMARIZE}\n{instructions}".strip()
        request = ModelRequest(self.model, question, [user(f"Sum up this conversation:\n\n{text}")])
        tokens = self.context_tokens
        self._become(Phase.COMPACTING)
        parts = AnswerSoFar()
        try:
            finished = await self._abortable(self._stream(request, parts, aloud=False))
        except Aborted:
            raise Refused("aborted") from None
        self.usage += priced(self.model, finished.usage)
        summary = parts.whole_text.strip()
        if not summary:
            raise ModelError("broken", "the summary is empty")
        self.journal.append(Compaction(summary, kept, tokens))
        self._tell(events.Compacted(self.id, summary, tokens))
        self._become(Phase.STREAMING)
        return summary

    # --- tools ----------------------------------------------------------------------------------------------

    async def _run_tools(self, calls: Sequence[ToolCall]) -> None:
        """Run calls in their order; those that only read, and are allowed to, at the same time."""
        for together, group in groupby(calls, key=self._runs_beside_others):
            if together:
                await asyncio.gather(*(self._run_tool(call) for call in group))
            else:
                for call in group:
                    await self._run_tool(call)

    def _runs_beside_others(self, call: ToolCall) -> bool:
        touch, decision = self._judge_call(call)
        return touch is not None and touch.effect == "read" and decision.decision == "allow"

    def _judge_call(self, call: ToolCall) -> tuple[Touch | None, JudgedCall]:
        """What a call would do and whether it may; without a touch it can't be run at all."""
        if error := self._answer_so_far.errors.get(call.id):
            return None, Decision("deny", error)
        tool = self._tools.get(call.name)
        if tool is None:
            return None, Decision("deny", f"no tool {call.name!r}; there are {', '.join(self._tools)}")
        try:
            touch = tool.touches(call.arguments, self.cwd)
        except ValueError as error:
            return None, Decision("deny", str(error))
        return touch, modes.in_mode(self._mode, self._project, touch, self._judge.judge(call.name, touch))

    async def _run_tool(self, call: ToolCall) -> None:
        self._tell(events.ToolTaken(self.id, call.id, call.name, call.arguments))
        touch, decision = self._judge_call(call)
        asked = self._approvals.of_call(call.id)  # by a daemon that is no more
        if asked is not None and (self._aborted.is_set() or touch is None or decision.decision == "deny"):
            self._approvals.withdraw(call.id, "abort" if self._aborted.is_set() else "a rule")
            asked = None
        result: Result
        if self._aborted.is_set():
            result = Result("aborted", is_error=True)
        elif touch is None:
            result = Result(decision.reason, is_error=True)
        elif decision.decision == "deny":
            result = Result(f"denied: {decision.reason}", is_error=True)
        elif decision.decision == "allow" and asked is None:
            result = await self._executed(call, touch)
        elif shown := await self._approved(call, touch, asked.reason if asked else decision.reason):
            _, decision = self._judge_call(call)
            if self._aborted.is_set():  # somebody said yes, and then stop
                result = Result("aborted", is_error=True)
            elif decision.decision == "deny":  # or chose another mode meanwhile
                result = Result(f"denied: {decision.reason}", is_error=True)
            else:
                result = await self._executed(call, shown)
        else:
            result = Result(denied(call.name, touch.summary), is_error=True)
        content = (Text(result.text),)
        said = ToolResult(call.id, call.name, content, result.details, result.is_error, now())
        self._say(said)
        self._tell(
            events.ToolEnded(self.id, call.id, call.name, result.text, result.details, result.is_error)
        )

    async def _executed(self, call: ToolCall, touch: Touch) -> Result:
        self._tell(events.ToolExecuting(self.id, call.id, call.name, call.arguments))

        job = self.jobs[call.id] = Job(call, touch)
        if self._aborted.is_set():
            job.aborted.set()

        def update(text: str, details: dict[str, Any]) -> None:
            job.said = text
            self._tell(events.ToolUpdated(self.id, call.id, call.name, text, details))

        hidden = self._judge.is_hidden
        place = ToolContext(self.cwd, self.id, call.id, update, job.aborted, self._environment, touch, hidden)
        try:
            return await job.run(self._tools[call.name].run(call.arguments, place))
        finally:
            self.past_jobs.append(job)
            if self.jobs.get(call.id) is job:
                del self.jobs[call.id]

    async def _approved(self, call: ToolCall, touch: Touch, reason: str) -> Touch | None:
        """Ask, durably, and wait for the answer: what was consented to, if it was.

        A file may change while a question waits: what would be done then was not shown, and is asked again.
        """
        said = self._approvals.answer_to(call, touch)
        while said is None:
            answer = self._approvals.ask(call, touch, reason)
            self._tell(events.Updated(self.id))
            try:
                said = bool(await self._abortable(answer))
            except Aborted:
                self._approvals.withdraw(call.id, "abort")
                return None
            now, _ = self._judge_call(call)
            if said and now and now.paths == touch.paths and now.seen != touch.seen:
                touch, said, reason = now, None, CHANGED
        return touch if said else None


def _nothing(event: ConversationEvent) -> None:
    pass
