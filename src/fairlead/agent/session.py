"""One agent session: its phase, its queues and the loop of its turns, over a journal.

It asks a model, runs the tools that the model calls, and asks again, until there is nothing more to do. What
a policy does not simply allow waits for an answer, durably. Whoever listens is told what happens, after it is
in the journal. It knows no door: `listen` gets events, and methods are called by whoever may.

A turn runs as one task. Stopping it never cancels that task: `abort` cancels what it waits for (the model, a
pause, an approval) and tells running tools, so that the journal always ends with what really happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from ..keeper.credentials import AGENT_MARK
from ..sessions.session import new_id
from . import context, events
from .answer import Answer
from .consent.approvals import CHANGED, Approvals
from .events import Approval, Event
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
    SessionInfo,
    ThinkingLevelChange,
)
from .messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User, now, user
from .models import (
    THINKING_LEVELS,
    Finished,
    ModelError,
    ModelInfo,
    ModelRequest,
)
from .models.catalog import priced
from .parts import Busy, Decision, Dropped, Job, Judge, Judged, Models, Phase, Refused, Stats, check_text
from .prompts import Prompts
from .tools import Context, Result, Tool, Touch

T = TypeVar("T")

__all__ = ["AgentSession", "Busy", "Decision", "Job", "Judge", "Models", "Phase", "Refused", "Stats"]

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
MAX_NAME = 200
"""How many characters a session's name may have."""
MAX_PAST_JOBS = 50
"""How many tool calls that have ended can be looked up."""


class AgentSession:
    """A conversation with turns. Make one over an open journal; `close` leaves it as it is."""

    def __init__(
        self,
        journal: Journal,
        models: Models,
        tools: Mapping[str, Tool],
        judge: Judge,
        listen: Callable[[Event], None],
        *,
        system: str,
        environment: Mapping[str, str] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_ours: bool = True,
        is_fork: bool = False,
        past: context.Past | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        """`is_ours` tells whether we wrote the journal: consent in another one counts for nothing. A fork may
        end anywhere; no turn was lost there. `notices` are told with the first turn."""
        self.id = journal.header.id
        self.journal = journal
        self.cwd = Path(journal.header.cwd)
        self.phase = Phase.IDLE
        self.retry_attempt = 0
        self.interrupt_pending = False
        self.auto_retry = True
        self.auto_compaction = False
        self.name = ""
        self.model = models.default()
        self.thinking_level = "off"
        self.usage = Usage()
        self.jobs: dict[str, Job] = {}
        """The tool calls that run, by their ids."""
        self.past_jobs: deque[Job] = deque(maxlen=MAX_PAST_JOBS)
        """Those that ran lately, the last at the end."""
        self._models = models
        self._tools = tools
        self._judge = judge
        self._listen = listen
        self._system = system
        self._environment = {**(environment or {}), AGENT_MARK: self.id}
        self._sleep = pause
        self._is_ours = is_ours
        self._notices = list(notices)
        self._approvals = Approvals(journal, self._tell)
        self.prompts = Prompts(journal, self._tell)
        self.unsaid: list[str] = []
        """Lines about what waited to be said when the last program ended, until a turn begins."""
        self.turn: asyncio.Task[None] | None = None
        self._awaited: asyncio.Future[Any] | None = None  # what an abort cancels
        self._aborted = asyncio.Event()
        self._answer_so_far = Answer()
        self.is_answering = False
        """Whether a model is on its way through an answer."""
        self._half = HalfAnswer(journal.path)
        self._call_ids: set[str] = set()
        past = past or context.past_of(journal)
        self._course = past.course
        self._load(past)
        if is_ours and not is_fork:
            self._end_lost_turn()

    def __repr__(self) -> str:
        return f"<AgentSession {self.id} {self.phase}, {len(self.journal.entries)} entries>"

    def _load(self, past: context.Past) -> None:
        """The state that the journal tells."""
        self.usage, self._call_ids, self.name = past.usage, past.call_ids, past.name or self.name
        for body in past.states:
            if isinstance(body, ModelChange):
                self.model = self._models.find(body.provider, body.model_id) or self.model
            elif isinstance(body, ThinkingLevelChange):
                self.thinking_level = body.thinking_level
            elif isinstance(body, Custom) and self._is_ours:
                self._approvals.load(body)
        self._approvals.keep(call.id for call in context.unanswered(self.journal.branch))
        for approval in self._approvals.lasting:
            self._remember(approval)
        if self._is_ours:
            self.unsaid = self.prompts.drop_lost(past.queued)

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

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self.turn is None

    @property
    def messages(self) -> list[Message]:
        """The conversation as it was said, compacted or not."""
        return self._course.said

    @property
    def approvals(self) -> Mapping[str, Approval]:
        """The tool calls that wait for an answer, by the ids of their questions."""
        return self._approvals.waiting

    @property
    def was_interrupted(self) -> bool:
        """Whether the last turn did not end: the program that ran it did, or nobody has answered yet."""
        last = context.last_message(self.journal.branch)
        if isinstance(last, Assistant):
            return self.is_idle and (bool(last.calls) or last.error_message == context.LOST)
        return self.is_idle and last is not None

    @property
    def answer_so_far(self) -> Answer:
        """What the model says now, or said last."""
        return self._answer_so_far

    @property
    def effective_thinking(self) -> str:
        return self.thinking_level if self.model.reasoning else "off"

    @property
    def pending_messages(self) -> int:
        return len(self.prompts)

    @property
    def turns(self) -> list[context.Turn]:
        return self._course.turns

    @property
    def waiting_corrections(self) -> int:
        """How many corrections wait to be said."""
        return sum(said.origin == "correction" for said in self.prompts.waiting)

    @property
    def context_tokens(self) -> int:
        return self._course.tokens

    @property
    def stats(self) -> Stats:
        counts = self._course.counts
        return Stats(counts[User], counts[Assistant], counts[ToolCall], counts[ToolResult], self.usage)

    # --- what can be asked of it ----------------------------------------------------------------------------

    # Each prompt has an id, given or made. What comes of it is told with that: see `events.PromptEnded`.

    def prompt(self, text: str, images: Sequence[Image] = (), *, id: str = "") -> None:
        """Begin a turn. Raises Busy, or JournalError."""
        self.go_on()
        if not self.is_idle:
            raise Busy(self._busy_with)
        check_text(text)
        self._close_open_calls("interrupted: the turn ended before this call did")
        entry = self.journal.append(Said(user(text, tuple(images), prompt=id or new_id())))
        self._begin(self._work(entry))

    def go_on(self) -> None:
        """Wait again for the answers that a session of this journal waited for when its program ended, with
        the turn that asked: whoever looks sees it busy, and what is said meanwhile waits."""
        if self.is_idle and self.approvals:
            self._begin(self._resume())

    @property
    def _busy_with(self) -> str:
        """Why nothing can be begun now."""
        why = f"session is {self.phase}"
        for id, approval in self.approvals.items():
            return f"{why}: it waits for an answer to {id} ({approval.summary}); answer it, or abort"
        return why

    def steer(self, text: str, images: Sequence[Image] = (), *, id: str = "") -> bool:
        """Say something before the model is asked the next time; begins a turn if there is none.

        False if the turn is being ended: then it is said after it.
        """
        self.go_on()
        if self.is_idle:
            self.prompt(text, images, id=id)
        elif self._aborted.is_set() or self.interrupt_pending:
            self.follow_up(text, images, id=id)
            return False
        else:
            check_text(text)
            self.prompts.queue(user(text, tuple(images), "steer", id or new_id()), steer=True)
        return True

    def follow_up(self, text: str, images: Sequence[Image] = (), *, id: str = "") -> None:
        """Say something when the turn is done; begins one if there is none."""
        self.go_on()
        if self.is_idle:
            self.prompt(text, images, id=id)
        else:
            check_text(text)
            self.prompts.queue(user(text, tuple(images), prompt=id or new_id()), steer=False)

    def end_prompt(self, id: str) -> None:
        """Don't say a prompt that waits, or end the turn in which it was said."""
        if not self.prompts.drop("aborted before it was said", id) and self.prompts.is_running(id):
            self.abort()

    def correct(self, text: str, *, steer: bool = False) -> None:
        """Send the turn back: its work goes on. While it runs the text waits for its end, or steers it."""
        check_text(text)
        said = user(text, origin="correction")
        self.go_on()
        if self.is_idle:
            self._close_open_calls("interrupted: the turn ended before this call did")
            self._begin(self._work(self.journal.append(Said(said))))
        else:
            self.prompts.queue(said, steer=steer)

    def interrupt(self) -> Dropped:
        """End the turn after its current step. Steering text is not said; follow-ups are, after it."""
        if self.is_idle or self.interrupt_pending:
            return Dropped(False, self.interrupt_pending, "")
        self.interrupt_pending = True
        dropped = self.prompts.drop_steering("interrupted before it was said")
        self._tell(events.Updated(self.id))
        return Dropped(True, True, dropped)

    def abort(self) -> str:
        """End the turn at once; gives the steering text that will not be said. Follow-ups are, after it."""
        self.go_on()
        if self.is_idle:
            return ""
        dropped = self.prompts.abort()
        self._aborted.set()
        for job in self.jobs.values():
            job.cancel()
        if self._awaited is not None:
            self._awaited.cancel()
        return dropped

    def end_job(self, call_id: str) -> None:
        """End one tool call; the turn goes on. Raises Refused if it does not run."""
        job = self.jobs.get(call_id)
        if job is None:
            raise Refused(f"no job {call_id!r} runs")
        job.cancel()

    def abort_retry(self) -> None:
        """Don't ask a busy model again."""
        if self.phase is Phase.RETRYING:
            self.abort()

    async def idle(self) -> None:
        """Wait until no turn runs."""
        while self.turn is not None:
            await asyncio.wait([self.turn])

    def close(self) -> None:
        """Leave everything as it is; the journal's next reader sees an interrupted turn."""
        if self.turn is not None:
            self.turn.cancel()
        self.prompts.close()
        self._half.close()
        self.journal.close()

    def set_name(self, name: str) -> None:
        """Raises Refused, or JournalError."""
        if len(name) > MAX_NAME or not name.isprintable():
            raise Refused(f"a name has at most {MAX_NAME} characters, all of them printable")
        self.journal.append(SessionInfo(name))
        self.name = name
        self._tell(events.Updated(self.id))

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

    def settle(self, approval_id: str, allowed: bool, by: str, *, lasts: bool = False) -> None:
        """Answer an approval; the first answer holds. Consent may last: then the same is not asked again.

        Raises Refused if there is no such approval.
        """
        if approval_id not in self.approvals:
            raise Refused(f"no approval {approval_id!r} waits for an answer")
        lasts = lasts and allowed
        approval = self._approvals.settle(approval_id, allowed, by, lasts=lasts)
        if lasts:
            self._remember(approval)
        if self.is_idle and not self.approvals:  # it was asked for by a daemon that is no more
            self._begin(self._resume())

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

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something for a person that is no turn, while there is none."""
        self.go_on()
        if not self.is_idle:
            raise Busy(self._busy_with)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def doing() -> None:
            try:
                done.set_result(await work())
            except (Refused, ModelError, JournalError) as error:
                done.set_exception(error)
            except asyncio.CancelledError:
                done.set_exception(Refused("aborted"))
                raise
            await self._say_waiting()

        self._begin(doing())
        return await done

    # --- the loop -------------------------------------------------------------------------------------------

    def _begin(self, work: Any) -> None:
        self._aborted = asyncio.Event()
        self.interrupt_pending = False
        self.phase = Phase.STREAMING  # told when the task begins, so that who asked is answered before
        self.turn = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Any) -> None:
        try:
            self._tell(events.Updated(self.id))
            await work
        except (JournalError, ModelError) as error:
            self._fail(str(error))
        except Exception as error:  # our own fault; the session goes on
            self._fail(f"the turn failed: {type(error).__name__}: {error}")
        finally:
            self.turn = None
            self.retry_attempt = 0
            self.interrupt_pending = False
            self.prompts.end_abort()
            self._become(Phase.IDLE)

    def _fail(self, why: str) -> None:
        """A turn was not done to its end, and nobody is there to say what waits."""
        self._tell(events.Failed(self.id, why))
        self.prompts.drop(why)

    async def _resume(self) -> None:
        """Go on with a turn that another daemon began."""
        await self._work(None, context.unanswered(self.journal.branch))

    async def _work(self, said: Entry | None, calls: Sequence[ToolCall] = ()) -> None:
        """Work on what was said last, and then on all that waits to be said."""
        await self._run(said, calls)
        await self._say_waiting()

    async def _say_waiting(self) -> None:
        self.prompts.take_late()
        while self.prompts.follow_ups:
            self._aborted = asyncio.Event()
            self.interrupt_pending = False
            entry = self.journal.append(Said(self.prompts.follow_ups[0]))
            self.prompts.follow_ups.popleft()
            await self._run(entry)
            self.prompts.take_late()

    async def _run(self, said: Entry | None, calls: Sequence[ToolCall] = ()) -> None:
        """A run: all that comes of what was said last, or of the calls at which another daemon left it."""
        turn = turns[-1] if (turns := self.turns) else context.Turn(1, "", 1, 1, 0)
        if said is not None and isinstance(said.body, Said):
            self._tell(events.MessageSaid(self.id, said.id, said.body.message))
            if said.line == turn.first_line:
                self._tell(
                    events.TurnBegan(self.id, turn.number, turn.first_line, turn.prompt, turn.prompt_id)
                )
            for notice in (*self._notices, *self.unsaid):
                self._tell(events.Noticed(self.id, notice))
            self._notices, self.unsaid = [], []
        outcome: events.Outcome = "failed"
        try:
            if calls:
                await self._run_tools(calls)
            outcome = await self._steps()
            self._say_why(outcome)
        finally:
            if not self._is_cancelled():
                self._write_stop(outcome)
                self._tell(
                    events.TurnEnded(
                        self.id,
                        turn.number,
                        turn.prompt,
                        turn.first_line,
                        self.journal.lines,
                        outcome,
                        turn.prompt_id,
                    )
                )
                self.prompts.end(outcome)
        if outcome != "done":
            self.prompts.drop_corrections()

    def _say_why(self, outcome: events.Outcome) -> None:
        """A turn that was stopped among its tools has an end too, and is not taken for one that was lost."""
        last = context.last_message(self.journal.branch)
        is_open = not isinstance(last, Assistant) or bool(last.calls)
        if is_open and outcome in ("aborted", "interrupted"):
            self._say(Answer().assistant(self.model, "aborted", outcome.capitalize()))

    def _write_stop(self, outcome: events.Outcome) -> None:
        """Journal that a person stopped the turn, unless its last message says so."""
        if outcome in ("aborted", "interrupted") and self.turns and self.turns[-1].outcome != outcome:
            with contextlib.suppress(JournalError):
                self.journal.append(Custom(context.STOPPED, outcome))

    @staticmethod
    def _is_cancelled() -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _steps(self) -> events.Outcome:
        """Ask the model and run what it calls, until it calls nothing more."""
        for _ in range(MAX_STEPS):
            if self._aborted.is_set():
                return "aborted"
            while self.prompts.steering:
                self._say(self.prompts.steering.popleft())
            answer = await self._answer()
            if answer.stop_reason == "aborted":
                return "aborted"
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

    # --- asking the model -----------------------------------------------------------------------------------

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
        return ModelRequest(self.model, self._system, messages, specs, self.effective_thinking)

    async def _ask(self, request: ModelRequest) -> Assistant:
        """One answer. Aborted, it is what there was so far. Raises ModelError."""
        self._answer_so_far = parts = Answer(self._call_ids)
        self._half.clear()
        self._become(Phase.STREAMING)
        self.is_answering = True
        try:
            finished = await self._abortable(self._stream(request, parts))
        except _Aborted:
            return parts.assistant(self.model, "aborted", "Aborted")
        finally:
            self.is_answering = False
        usage = priced(self.model, finished.usage)
        return parts.assistant(self.model, finished.stop_reason, usage=usage, signature=finished.signature)

    def _stream(self, request: ModelRequest, parts: Answer, *, aloud: bool = True) -> Awaitable[Finished]:
        """Gather an answer, and tell its pieces as they come, if that is for others to hear."""
        stream = self._models.model(self.model).stream(request)
        tell, half = (self._tell, self._half) if aloud else (_nothing, None)
        return gather(stream, parts, self.id, tell, half)

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
        except _Aborted:
            return False
        return not self.interrupt_pending

    async def _abortable(self, work: Awaitable[Any]) -> Any:
        """Wait for something that `abort` may end. Raises _Aborted."""
        if self._aborted.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            raise _Aborted
        self._awaited = asyncio.ensure_future(work)
        try:
            return await self._awaited
        except asyncio.CancelledError:
            if self._is_cancelled():
                self._awaited.cancel()
                raise
            raise _Aborted from None
        finally:
            self._awaited = None

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
        parts = Answer()
        try:
            finished = await self._abortable(self._stream(request, parts, aloud=False))
        except _Aborted:
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
        touch, decision = self._judged(call)
        return touch is not None and touch.effect == "read" and decision.decision == "allow"

    def _judged(self, call: ToolCall) -> tuple[Touch | None, Judged]:
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
        return touch, self._judge.judge(call.name, touch)

    async def _run_tool(self, call: ToolCall) -> None:
        self._tell(events.ToolTaken(self.id, call.id, call.name, call.arguments))
        touch, decision = self._judged(call)
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
            is_late = self._aborted.is_set()  # somebody said yes, and then stop
            result = Result("aborted", is_error=True) if is_late else await self._executed(call, shown)
        else:
            result = Result(f"denied: no consent to {call.name}: {touch.summary}", is_error=True)
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
        place = Context(self.cwd, self.id, call.id, update, job.aborted, self._environment, touch, hidden)
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
            except _Aborted:
                self._approvals.withdraw(call.id, "abort")
                return None
            now, _ = self._judged(call)
            if said and now and now.paths == touch.paths and now.seen != touch.seen:
                touch, said, reason = now, None, CHANGED
        return touch if said else None

    def _close_open_calls(self, why: str) -> None:
        """Give every call that has no result one, as models insist on it."""
        for call in context.unanswered(self.journal.branch):
            self._say(ToolResult(call.id, call.name, (Text(why),), None, True, now()))

    # --- telling --------------------------------------------------------------------------------------------

    def _say(self, message: Message) -> Entry:
        """Journal a message, then tell it."""
        entry = self.journal.append(Said(message))
        if isinstance(message, Assistant):
            self._half.clear()
            self.usage += message.usage
        self._tell(events.MessageSaid(self.id, entry.id, message))
        return entry

    def _become(self, phase: Phase) -> None:
        if self.phase is not phase:
            self.phase = phase
            self._tell(events.Updated(self.id))

    def _tell(self, event: Event) -> None:
        self.prompts.heard(event)
        self._listen(event)


class _Aborted(Exception):
    """What was waited for was aborted."""


def _nothing(event: Event) -> None:
    pass
