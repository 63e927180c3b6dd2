"""A conversation with an agent, whoever does the work: its phase, its queues and its turns, over a journal.

Whoever listens is told what happens, after it is in the journal. It knows no door: `listen` gets events, and
methods are called by whoever may.

A turn runs as one task. Stopping it never cancels that task: `abort` cancels what it waits for (the model, a
pause, an approval) and tells running tools, so that the journal always ends with what really happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..formats.shown import name_fault
from ..sessions.inbox import calling_agent
from ..sessions.session import new_id
from . import context, events
from .answer import AnswerSoFar
from .consent.approvals import Approvals
from .events import Approval, ConversationEvent
from .journal import Custom, Entry, Journal, JournalError, Said, SessionInfoEntry
from .messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User, now, user
from .models import ModelError, ModelInfo
from .ports import Busy, Choosable, Dropped, Job, Phase, Refused, SessionStats, check_text
from .prompts import Prompts
from .tools import Result

T = TypeVar("T")

KNOWN_PROMPTS = 1000
"""Among how many entries of a journal, the last ones, a prompt is looked for that came twice."""
MAX_PAST_JOBS = 50
"""How many tool calls that have ended can be looked up."""


class Aborted(Exception):
    """What was waited for was aborted."""


class Conversation:
    """A conversation with turns over a journal. What the work of a turn is, a kind of conversation says in
    `_steps`. `close` leaves everything as it is."""

    kind = "agent"
    outlives_daemon = False
    """Whether its turns go on without a daemon, so that the next one has to take them up."""

    def __init__(
        self,
        journal: Journal,
        model: ModelInfo,
        listen: Callable[[ConversationEvent], None],
        *,
        is_ours: bool = True,
        past: context.Past | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        """`is_ours` tells whether we wrote the journal: consent in another one counts for nothing. `notices`
        are told with the first turn."""
        self.id = journal.header.id
        self.journal = journal
        self.cwd = Path(journal.header.cwd)
        self.phase = Phase.IDLE
        self.retry_attempt = 0
        self.interrupt_pending = self.ends_at_word = False
        self.auto_retry = True
        self.auto_compaction = False
        self.name = ""
        self.is_one_shot = False
        """Whether a script opened it, for one prompt: then lists leave it out when that is done."""
        self.model = model
        self.thinking_level = "off"
        self.usage = Usage()
        self.jobs: dict[str, Job] = {}
        """The tool calls that run, by their ids."""
        self.past_jobs: deque[Job] = deque(maxlen=MAX_PAST_JOBS)
        """Those that ran lately, the last at the end."""
        self._listen = listen
        self._is_ours = is_ours
        self._notices = list(notices)
        self._approvals = Approvals(journal, self._tell)
        self.prompts = Prompts(journal, self._tell)
        self.let_begin: Callable[[str], Awaitable[None]] | None = None
        """What a turn waits for that has begun, before anything is done in it."""
        self.unsaid: list[str] = []
        """Lines about what waited to be said when a program before ended, until something is said. They are
        told to each client that comes."""
        self.turn: asyncio.Task[None] | None = None
        self._outcome: events.Outcome | None = None  # of the last turn, if it was ours
        self._awaited: asyncio.Future[Any] | None = None  # what an abort cancels
        self._aborted = asyncio.Event()
        self._answer_so_far = AnswerSoFar()
        self.is_answering = False
        """Whether a model is on its way through an answer."""
        past = past or context.past_of(journal)
        self._course = past.course
        self._call_ids = past.call_ids
        self._load(past)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.phase}, {len(self.journal.entries)} entries>"

    def _load(self, past: context.Past) -> None:
        """The state that the journal tells."""
        self.usage, self.name = past.usage, past.name or self.name
        for body in past.states:
            if isinstance(body, Custom) and self._is_ours:
                self._approvals.load(body)
            if isinstance(body, Custom) and body.custom_type in (context.ONE_SHOT, context.KEPT):
                self.is_one_shot = (
                    body.custom_type == context.ONE_SHOT and not self.journal.header.parent_session
                )
        self._approvals.keep(call.id for call in context.unanswered(self.journal.branch))
        if self._is_ours:
            lost = [*past.lost, *past.queued.values()]
            self.prompts.drop_lost(past.queued)
            self.unsaid = [f"The daemon restarted before this was said: {text}" for text in lost]

    async def _steps(self, calls: Sequence[ToolCall]) -> events.Outcome:
        """Do the work of a turn, beginning with the calls at which another daemon left it."""
        raise NotImplementedError

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self.turn is None

    @property
    def is_held(self) -> bool:
        """Whether something runs for it, so that it must stay loaded although it is idle."""
        return False

    @property
    def more(self) -> dict[str, Any]:
        """What lists show of it besides what every session has."""
        own = {"model": f"{self.model.provider}/{self.model.id}", "file": self.journal.path}
        used = {
            "cost": round(self.usage.cost.total, 6),
            "tokens": self.usage.all_tokens,
            "context_tokens": self.context_tokens,
            "context_window": self.model.window,
        }
        return {**own, **{name: each for name, each in used.items() if each}, "one_shot": self.is_one_shot}

    lacks: frozenset[str] = frozenset()
    """The slash commands that can do nothing in it."""

    @property
    def own_models(self) -> Sequence[ModelInfo] | None:
        """The models that it can use, if these are not those of all sessions."""
        return None

    @property
    def keys_of(self) -> str:
        """Whose keys a turn would need that begins now, of a provider or an agent; empty if nobody's."""
        return self.model.provider

    @property
    def mode(self) -> str:
        """The mode that it is in, if it has modes."""
        return ""

    @property
    def modes(self) -> Sequence[str]:
        """The modes that it can be in."""
        return ()

    @property
    def mode_names(self) -> Mapping[str, str]:
        """What people call those modes."""
        return {}

    @property
    def options(self) -> Sequence[Choosable]:
        """What can be chosen in it, as far as that is known by now."""
        return ()

    @property
    def commands(self) -> Mapping[str, str]:
        """Slash commands that who does the work understands, and what they do."""
        return {}

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
    def outcome(self) -> events.Outcome | None:
        """How the last turn ended; None if there was none, or one runs."""
        if not self.is_idle or not (turns := self.turns):
            return None
        return self._outcome or ("interrupted" if (last := turns[-1].outcome) == "lost" else last)

    @property
    def state(self) -> str:
        """In the words of lists: working, asks, idle or failed."""
        if not self.is_idle:
            return "asks" if self.approvals else "working"
        return "failed" if self.outcome == "failed" else "idle"

    @property
    def answer_so_far(self) -> AnswerSoFar:
        """What the model says now, or said last."""
        return self._answer_so_far

    @property
    def begun(self) -> Sequence[events.ToolBegan]:
        """Calls that are known and in no message yet."""
        return ()

    @property
    def pending_messages(self) -> int:
        return len(self.prompts)

    @property
    def turns(self) -> list[context.JournalTurn]:
        return self._course.turns

    @property
    def waiting_corrections(self) -> int:
        """How many corrections wait to be said."""
        return sum(said.origin == "correction" for said in self.prompts.waiting)

    @property
    def context_tokens(self) -> int:
        return self._course.tokens

    @property
    def stats(self) -> SessionStats:
        counts = self._course.counts
        return SessionStats(counts[User], counts[Assistant], counts[ToolCall], counts[ToolResult], self.usage)

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

    def check_images(self) -> None:
        """Raises Refused if pictures are not taken, as far as that is known."""
        if not self.model.images:
            raise Refused(f"{self.model.provider}/{self.model.id} takes no images; choose a model that does")

    def has_prompt(self, id: str) -> bool:
        """True if a prompt of this id was said lately, or waits."""
        said = (
            entry.body.message
            for entry in self.journal.branch[-KNOWN_PROMPTS:]
            if isinstance(entry.body, Said)
        )
        return any(isinstance(each, User) and each.prompt == id for each in (*said, *self.prompts.waiting))

    def end_prompt(self, id: str) -> None:
        """Don't say a prompt that waits, or end the turn in which it was said."""
        if not self.prompts.drop("aborted before it was sent", id) and self.prompts.is_running(id):
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

    def interrupt(self, *, at_word: bool = False) -> Dropped:
        """End the turn after its current step, or `at_word` an answer at the end of a word. Steering text is
        not said; follow-ups are, after it."""
        if self.is_idle or self.interrupt_pending:
            return Dropped(False, self.interrupt_pending, "")
        self.interrupt_pending, self.ends_at_word = True, at_word
        dropped = self.prompts.drop_steering("interrupted before it was sent")
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
        self.journal.close()

    def set_name(self, name: str) -> None:
        """Raises Refused, or JournalError."""
        if why := name_fault(name):
            raise Refused(why)
        self.journal.append(SessionInfoEntry(name))
        self.name = name
        self._tell(events.Updated(self.id))

    def note_use(self, *, is_one_shot: bool) -> None:
        """Note what it is opened for: one prompt of a script, or more."""
        if self.is_one_shot is not is_one_shot:
            self.journal.append(Custom(context.ONE_SHOT if is_one_shot else context.KEPT, {}))
            self.is_one_shot = is_one_shot

    def settle(
        self, approval_id: str, allowed: bool, by: str, *, lasts: bool = False, option: str = ""
    ) -> None:
        """Answer an approval; the first answer holds. Consent may last: then the same is not asked again.
        `option` is the answer that was chosen, where there are more than those.

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
        """Don't ask again for what an approval was for."""

    @property
    def effective_thinking(self) -> str:
        """How hard the model thinks."""
        return "off"

    def set_model(self, provider: str, id: str) -> ModelInfo:
        """Ask another model from now on. Raises Refused if there is no such model."""
        raise self._cant("changing the model")

    def cycle_model(self, step: int = 1) -> ModelInfo:
        """Take the next model, or the one before. Raises Refused."""
        raise self._cant("changing the model")

    def set_mode(self, mode: str) -> str:
        """Be in another mode, in which it may ask for less; returns it. Raises Refused."""
        raise self._cant("changing the mode")

    @staticmethod
    def check_person() -> None:
        """Raises Refused if an agent wants to choose how it is allowed to work."""
        if agent := calling_agent.get():
            raise Refused(f"only a person may choose the mode, and a command of an agent ({agent:.80}) asks")

    def set_option(self, id: str, value: str) -> None:
        """Choose one of its options. Raises Refused."""
        known = next((each for each in self.options if each.id == id), None)
        if known is None:
            names = ", ".join(each.id for each in self.options)
            raise Refused(f"there is no option {id!r} here; there {f'are {names}' if names else 'is none'}")
        if value not in (values := [each for each, _ in known.choices]):
            raise Refused(f"the option {id!r} can't be {value!r}: use {', '.join(values)}")
        self._choose_option(known, value)

    def _choose_option(self, option: Choosable, value: str) -> None:
        raise self._cant("changing an option")

    def set_thinking_level(self, level: str) -> str:
        """How hard a model thinks, if it does; returns what holds now. Raises Refused."""
        raise self._cant("changing the thinking level")

    def cycle_thinking_level(self) -> str:
        raise self._cant("changing the thinking level")

    async def bash(self, command: str) -> Result:
        """Run a command for a person, who needs no consent; a model sees it with the next prompt.

        Raises Busy, Refused or JournalError.
        """
        raise self._cant("running a command")

    async def end_agent(self) -> bool:
        """End the program that does the work, if there is one; the next prompt starts it again. Returns
        whether there was one."""
        return False

    async def compact(self, instructions: str = "") -> str:
        """Summarize older messages; returns the summary. Raises Busy, Refused or ModelError."""
        raise self._cant("compaction")

    def _cant(self, what: str) -> Refused:
        return Refused(f"{what} is not supported by {self.kind} sessions")

    # --- turns ----------------------------------------------------------------------------------------------

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

    def _begin(self, work: Any) -> None:
        self._aborted = asyncio.Event()
        self.interrupt_pending = self.ends_at_word = False
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
            self.interrupt_pending = self.ends_at_word = False
            self.prompts.end_abort()
            self._become(Phase.IDLE)

    def _fail(self, why: str) -> None:
        """A turn was not done to its end, and nobody is there to say what waits."""
        self._tell(events.Failed(self.id, why))
        self.prompts.drop(why)

    async def _resume(self) -> None:
        """Go on with a turn that another daemon began."""
        self.prompts.go_on(context.last_prompts(self.journal.branch))
        await self._work(None, context.unanswered(self.journal.branch))

    async def _work(self, said: Entry | None, calls: Sequence[ToolCall] = ()) -> None:
        """Work on what was said last, and then on all that waits to be said."""
        await self._run(said, calls)
        await self._say_waiting()

    async def _say_waiting(self) -> None:
        self.prompts.take_late()
        while self.prompts.follow_ups:
            self._aborted = asyncio.Event()
            self.interrupt_pending = self.ends_at_word = False
            entry = self.journal.append(Said(self.prompts.follow_ups[0]))
            self.prompts.follow_ups.popleft()
            await self._run(entry)
            self.prompts.take_late()

    async def _run(self, said: Entry | None, calls: Sequence[ToolCall] = ()) -> None:
        """A run: all that comes of what was said last, or of the calls at which another daemon left it."""
        turn = turns[-1] if (turns := self.turns) else context.JournalTurn(1, "", 1, 1, 0)
        if said is not None and isinstance(said.body, Said):
            self._tell(events.MessageSaid(self.id, said.id, said.body.message))
            if said.line == turn.first_line:
                self._tell(
                    events.TurnBegan(self.id, turn.number, turn.first_line, turn.prompt, turn.prompt_id)
                )
            for notice in self._notices:
                self._tell(events.Noticed(self.id, notice))
            self._notices, self.unsaid = [], []
        outcome: events.Outcome = "failed"
        try:
            if self.let_begin is not None and not calls:
                with contextlib.suppress(Aborted):  # which the first step notices
                    await self._abortable(self.let_begin(self.id))
            if not calls and not await asyncio.to_thread(os.path.isdir, self.cwd):
                outcome = self._nowhere()
            else:
                outcome = await self._steps(calls)
            self._say_why(outcome)
        finally:
            if not self._is_cancelled():
                self._outcome = outcome
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

    def _nowhere(self) -> events.Outcome:
        """Nothing can be done in a directory that is gone, so nobody is asked to do it."""
        why = f"its directory {self.cwd} is gone"
        self._say(AnswerSoFar().assistant(self.model, "error", why))
        self._tell(events.Failed(self.id, why, is_said=True))
        return "failed"

    def _say_why(self, outcome: events.Outcome) -> None:
        """A turn that was stopped among its tools has an end too, and is not taken for one that was lost."""
        last = context.last_message(self.journal.branch)
        is_open = not isinstance(last, Assistant) or bool(last.calls)
        if is_open and outcome in ("aborted", "interrupted"):
            self._say(AnswerSoFar().assistant(self.model, "aborted", outcome.capitalize()))

    def _write_stop(self, outcome: events.Outcome) -> None:
        """Journal that a person stopped the turn, unless its last message says so."""
        if outcome in ("aborted", "interrupted") and self.turns and self.turns[-1].outcome != outcome:
            with contextlib.suppress(JournalError):
                self.journal.append(Custom(context.STOPPED, outcome))

    @staticmethod
    def _is_cancelled() -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _abortable(self, work: Awaitable[Any]) -> Any:
        """Wait for something that `abort` may end. Raises Aborted."""
        if self._aborted.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            raise Aborted
        self._awaited = asyncio.ensure_future(work)
        try:
            return await self._awaited
        except asyncio.CancelledError:
            if self._is_cancelled():
                self._awaited.cancel()
                raise
            raise Aborted from None
        finally:
            self._awaited = None

    def _close_open_calls(self, why: str) -> None:
        """Give every call that has no result one, as models insist on it."""
        for call in context.unanswered(self.journal.branch):
            self._say(ToolResult(call.id, call.name, (Text(why),), None, True, now()))

    # --- telling --------------------------------------------------------------------------------------------

    def _say(self, message: Message) -> Entry:
        """Journal a message, then tell it."""
        entry = self.journal.append(Said(message))
        if isinstance(message, Assistant):
            self.usage += message.usage
        self._tell(events.MessageSaid(self.id, entry.id, message))
        return entry

    def _become(self, phase: Phase) -> None:
        if self.phase is not phase:
            self.phase = phase
            self._tell(events.Updated(self.id))

    def _tell(self, event: ConversationEvent) -> None:
        self.prompts.heard(event)
        self._listen(event)
