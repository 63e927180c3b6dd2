"""The loop: perceive, reason, judge, act. What is done may be heard again, so feedback is the next signal.

Signals wait in one queue, the most urgent first, and are dealt with a few at a time, so that the daemon does
other things in between. Reasoning is quick: a rule, a command of a person, or the decision to ask a session;
whatever takes longer is done by actuators, which the loop does not wait for.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec

from ..formats.shown import counted
from ..sessions import questions
from ..sessions.inbox import A_RULE, Asker, AskerGone, Inbox, NoSuchOption, NotOpen, Unheard, calling_agent
from ..sessions.questions import ANSWER, WITHDRAWN, Question
from ..sessions.session import new_prompt
from ..system.database import DatabaseFault
from ..wire.passepartout import Message
from ..wire.passepartout import log as log_message
from .actuators import Acting, Actuators, Feedback, GiveUp
from .answering import Answer
from .gates import Gates, Outcome
from .protocols import Cleaner, SessionFault, Sessions
from .rules import Reflexes
from .signals import MAX_DEPTH, SPOKEN, Action, Client, Context, Priority, Signal, Step, pieces, said, told
from .store import OF_AN_AGENT, Asked, ControlStore, Full, question_of

log = logging.getLogger("fairlead.control")

MAX_SIGNALS = 10_000
"""How many signals may wait."""
MAX_SIGNALS_OF_ONE = 500
"""How many of one client."""
BATCH_SECONDS = 0.005
"""How long signals are dealt with before others have their turn."""
MAX_ANSWERS = 1000
"""How many answers may be under way."""
MAX_TURNS = 1000
"""Of how many sessions it is remembered what led to their turn."""
MAX_KEPT_ASKERS = 1000
"""How many clients are remembered that wait for consent of another."""

CLOSE_WAIT = 2.0
"""Seconds that what is being written down may take when the daemon ends."""
SHOWN_WAITING = 50
"""How much of what waits for consent a client is shown when it comes, or asks."""

HELP = """\
/approvals          what waits for your consent
/approve TOKEN      allow it
/answer TOKEN TEXT  answer what an agent asks
/deny TOKEN         deny it
/status             list the sessions and their states
/run COMMAND        run a command, if the gates allow it
/send SESSION TEXT  type into a terminal session, with Enter
/notify TEXT        send a notification
Anything else is a prompt for the agent session."""


class Judged(NamedTuple):
    """What became of an action; the reason says why it was not done, or not yet."""

    action: Action
    outcome: Outcome
    reason: str
    token: str = ""
    outcome_later: asyncio.Task[str] | None = None
    """What ends when an action that takes longer is done, with why it failed, or nothing."""


class Control:
    """The loop, and what it works with. `tell` reaches all clients."""

    def __init__(
        self,
        *,
        actuators: Actuators,
        gates: Gates,
        reflexes: Reflexes,
        store: ControlStore,
        sessions: Sessions,
        inbox: Inbox,
        cleaner: Cleaner,
        tell: Callable[[Message], None],
    ) -> None:
        self.actuators = actuators
        self.gates = gates
        self.counts: Counter[str] = Counter()
        """How many signals and actions there were, by what became of them."""
        self._reflexes = reflexes
        self._store = store
        self._sessions = sessions
        self._inbox = inbox
        inbox.register("action", self.fate)
        self._cleaner = cleaner
        self._tell = tell
        self._acting = Acting(actuators, self._acted)
        self._queue: list[tuple[int, int, Signal]] = []
        self._numbers = itertools.count()
        self._waiting_of: Counter[int] = Counter()  # by the id of the client
        self._draining = False
        self._answers: dict[str, tuple[Client, Answer]] = {}  # by the ids of the prompts
        self._askers: dict[str, Context] = {}  # by the token of what waits for consent
        self._traces: dict[str, tuple[Step, ...]] = {}  # of what is just being asked, by its token
        self._answering: dict[str, Client] = {}  # who is just answering, by the token
        self._knows_all = False  # all that waited when the last daemon ended
        self._tokens: dict[int, str] = {}  # tokens of approved actions under way, by the id of their context
        self._writing: dict[asyncio.Task[None], Context] = {}  # what waits for the store, and for whom
        self._under_way: dict[int, Context] = {}  # of actions that take longer, by the id of their context
        self._turns: dict[str, int] = {}  # the depth of what led to a session's turn
        actuators.register_actuator("CONTROL", self._command, quick=True)
        actuators.register_actuator("SESSION", self._session, quick=True)
        for channel in ("CLI", "TUI"):
            actuators.register_actuator(channel, self._message, quick=True)

    # --- hearing ------------------------------------------------------------------------------------------

    def hear(self, signal: Signal) -> str:
        """Take a signal; gives why it was not taken, or nothing."""
        client = id(signal.client) if signal.client is not None else 0
        if signal.depth > MAX_DEPTH:
            self.counts["too deep"] += 1
            log.warning("dropped %s: more than %d actions in a row", signal.sensor, MAX_DEPTH)
            return f"more than {MAX_DEPTH} actions in a row"
        if len(self._queue) >= MAX_SIGNALS:
            self.counts["too many"] += 1
            return f"{MAX_SIGNALS} signals are already queued"
        if client and self._waiting_of[client] >= MAX_SIGNALS_OF_ONE:
            self.counts["too many"] += 1
            return f"{MAX_SIGNALS_OF_ONE} of your signals are already queued"
        if client:
            self._waiting_of[client] += 1
        heapq.heappush(self._queue, (signal.priority, next(self._numbers), signal))
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_soon(self._drain)
        return ""

    def _drain(self) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while self._queue and time.monotonic() < until:
            _, _, signal = heapq.heappop(self._queue)
            if signal.client is not None:
                client = id(signal.client)
                self._waiting_of[client] -= 1
                if not self._waiting_of[client]:
                    del self._waiting_of[client]
            self.consider(signal)
        self._draining = bool(self._queue)
        if self._draining:
            asyncio.get_running_loop().call_soon(self._drain)

    def consider(self, signal: Signal) -> list[Judged]:
        """Deal with a signal now; gives what became of the actions that it led to."""
        self.counts["signals"] += 1
        try:
            perceived = self._perceived(signal)
            return [self._judged(action, perceived) for action in self._reasoned(perceived)]
        except Exception as error:
            log.exception("a signal of %s", signal.sensor)
            self.counts["errors"] += 1
            why = f"{type(error).__name__}: {error}"
            if signal.sensor != "loop-error":
                self.hear(Signal("loop-error", text=why, depth=signal.depth + 1, session=signal.session))
            if signal.sensor in SPOKEN:
                self._answer(Context(signal), "", f"internal error: {why}")
            return []

    # --- perceive, reason ---------------------------------------------------------------------------------

    def _perceived(self, signal: Signal) -> Signal:
        """The signal as it is reasoned about. What comes from inside has no secrets; clients are told."""
        whole = msgspec.structs.replace(signal, status="perceived")
        if signal.client is not None:
            return whole
        clean = self._clean(whole)
        self._tell(told(clean))
        return whole if signal.sensor == "notification" else clean  # who sends a secret is told so by a gate

    def _clean(self, signal: Signal) -> Signal:
        clean = self._cleaner.text
        fields = {name: clean(value) for name, value in signal.fields.items()}
        return msgspec.structs.replace(signal, text=clean(signal.text), fields=fields)

    def _reasoned(self, signal: Signal) -> Sequence[Action]:
        """What to do about a signal. No rule comes before what a person says to control itself."""
        wished = self._wished(signal) if signal.sensor in SPOKEN else None
        if wished is not None and wished.target == "CONTROL" and wished.verb != "unknown":
            return [wished]
        found = self._reflexes.actions(signal)
        if signal.sensor == "notification":
            title = signal.fields.get("title", "")
            return [Action("NOTIFY", signal.text, title=title, depth=signal.depth), *found]
        if found or wished is None:
            if not found and signal.client is not None:
                self._answer(Context(signal), "", f"there is no rule for :{signal.sensor.upper()}")
            return found
        if wished.target == "SHELL" and signal.agent:
            self._answer(Context(signal), "", "/run is for people; a command of an agent can't use it")
            return []
        return [wished]

    def _wished(self, signal: Signal) -> Action:
        """What a person wants."""
        word, _, rest = signal.text.strip().partition(" ")
        rest = rest.strip()
        match word:
            case "/approve" | "/deny" | "/answer" | "/approvals" | "/status" | "/help":
                return Action("CONTROL", rest, word[1:], depth=signal.depth)
            case "/run":
                return Action("SHELL", rest, depth=signal.depth)
            case "/notify":
                return Action("NOTIFY", rest, depth=signal.depth)
            case "/send":
                name, _, typed = rest.partition(" ")
                return Action("SESSION", typed, "type", session=name or None, depth=signal.depth, enter=True)
            case _ if word[:1] == "/" and word[1:].replace("-", "").isalpha():
                return Action("CONTROL", word, "unknown", depth=signal.depth)
        return Action("SESSION", signal.text, "prompt", session=signal.session, depth=signal.depth)

    # --- judge --------------------------------------------------------------------------------------------

    def _judged(self, action: Action, signal: Signal) -> Judged:
        judgement = self.gates.judge(action)
        context = Context(signal, judgement.trace)
        self.counts[judgement.outcome.lower()] += 1
        match judgement.outcome:
            case Outcome.PASSED:
                begun = self._acting.begin(action, context)
                if isinstance(begun, str):
                    return Judged(action, judgement.outcome, begun)
                self._under_way[id(context)] = context
                return Judged(action, judgement.outcome, "", outcome_later=begun)
            case Outcome.BLOCKED:
                log.info("blocked %s: %s", action.target, judgement.reason)
                self._answer(context, "", f"blocked: {judgement.reason}")
                return Judged(action, judgement.outcome, judgement.reason)
        self._soon(self._ask(action, judgement.reason, context), context)
        return Judged(action, judgement.outcome, judgement.reason)

    async def _ask(self, action: Action, reason: str, context: Context) -> None:
        """Ask for consent, once that is written down."""
        signal = context.signal
        source = OF_AN_AGENT + signal.agent if signal.agent else signal.source
        if signal.agent:
            reason = f"{reason}; a command of an agent session ({signal.agent:.80}) asks for it"
        try:
            asked = await self._store.thread.run(
                lambda: self._store.ask(action, reason, context.trace, source)
            )
        except (Full, DatabaseFault) as error:
            self._answer(context, "", f"blocked: {error}")
            return
        if signal.client is not None:
            if len(self._askers) >= MAX_KEPT_ASKERS:
                del self._askers[next(iter(self._askers))]
            self._askers[asked.token] = context
        question = question_of(asked)
        self._traces[asked.token] = asked.trace
        try:
            self._inbox.ask(question, self)
        finally:
            self._traces.pop(asked.token, None)
        body = question.text().replace("\n", "\n    ")
        self._answer(context, f"{question.title} waits for your consent:\n    {body}\n{_choices(question)}")

    def _soon(self, work: Coroutine[Any, Any, None], context: Context) -> None:
        """Do something that waits for the store, which the loop does not."""
        task = asyncio.get_running_loop().create_task(work)
        self._writing[task] = context
        task.add_done_callback(lambda done: self._writing.pop(done, None))

    # --- approvals ----------------------------------------------------------------------------------------

    def asked(self, question: Question) -> None:
        """Tell all clients that something waits for consent, and the rules."""
        self._announce(_question(question), self._traces.get(question.id, ()))

    def _announce(self, signal: Signal, trace: tuple[Step, ...] = ()) -> None:
        signal = self._clean(signal)
        self._tell(told(signal, trace))
        for action in self._reflexes.actions(signal):
            judgement = self.gates.judge(action)
            if judgement.outcome is Outcome.PASSED:  # what asks about asking would never end
                self._acting.act(action, Context(signal, judgement.trace))

    def closed(self, question: Question, answer: questions.Answer) -> None:
        """Tell all clients that something no longer waits, and the rules."""
        result = "allowed" if answer.allows else WITHDRAWN if answer.option == WITHDRAWN else "denied"
        fields = {"token": question.id, "result": result, "by": answer.by}
        signal = Signal("approval-settled", text=question.what, session=question.session, fields=fields)
        self._announce(signal)

    def warned(self, question: Question, why: str) -> None:
        """Tell all clients that an agent tried to answer for a person."""
        self._tell(log_message(f"{question.id}: {why}", "warn"))

    def ask_again(self) -> None:
        """Ask what waited when the last daemon ended. Raises DatabaseFault."""
        for asked in self._store.asked():
            self._inbox.ask(question_of(asked), self)
        self._knows_all = True

    def fate(self, question: Question) -> Asker | str | None:
        """What became of an action that is not asked about any more: see `Inbox.reconcile`."""
        return None if self._knows_all else self  # the file may be there again when somebody answers

    async def answered(self, question: Question, answer: questions.Answer) -> None:
        """Write down what a person said of an action, and do it if they allow it."""
        try:
            asked = await self._store.thread.run(
                lambda: self._store.settle(question.id, answer.allows, answer.by)
            )
        except DatabaseFault as error:
            raise Unheard(f"can't save the answer: {error}") from None
        if asked is None:
            raise AskerGone("control.db no longer has this action")
        self._inbox.withdraw(question.id, answer.by)
        context = self._askers.pop(asked.token, None)
        agent = asked.source.removeprefix(OF_AN_AGENT) if asked.source.startswith(OF_AN_AGENT) else ""
        context = context or Context(Signal("approval-settled", source=asked.source, agent=agent))
        trace = _with_answer(asked, answer.allows, answer.by)
        context = msgspec.structs.replace(context, approved_by=answer.by, trace=trace)
        if answer.allows:
            self._tokens[id(context)] = asked.token
            self._acting.act(asked.action, context)
        elif context.client is None or context.client is not self._answering.get(asked.token):
            self._answer(context, f"denied by {answer.by}: {asked.action.summary}")

    async def _settle(self, token: str, option: str, context: Context, said: str = "") -> None:
        """Answer for a person, who is told what came of that."""
        try:
            id = self._inbox.find(token).id
            if context.client is not None:
                self._answering[id] = context.client
                calling_agent.set(await asyncio.to_thread(context.client.agent))
            try:
                question, _ = await self._inbox.answer(id, option, context.signal.source, said)
            finally:
                self._answering.pop(id, None)
            is_seen = question.lost or not question.is_consent
            words = {"allow": "approved", "deny": "denied", ANSWER: "answered"}
            done = "dismissed" if is_seen else words[option]
            title = question.title if question.is_consent else f"{question.title}:"
            text = f"{done} {id}: {title} {question.what} ({question.who})"
        except (NotOpen, NoSuchOption, AskerGone, Unheard) as error:
            self._answer(context, "", str(error))
            return
        self._answer(context, text)

    # --- act ----------------------------------------------------------------------------------------------

    def _acted(self, action: Action, context: Context, result: Feedback, error: Exception | None) -> None:
        """An action is over. What came of it is heard next, by who asked for it or by everybody."""
        self._under_way.pop(id(context), None)
        if token := self._tokens.pop(id(context), None):
            self._store.thread.soon(lambda: self._store.finished(token))
        if error is not None:
            why = (
                str(error) if isinstance(error, GiveUp | SessionFault) else f"{type(error).__name__}: {error}"
            )
            self.counts["failed"] += 1
            self._feedback("tool-error", f":{action.target} failed: {why}", action, context)
        elif result is not None:
            self._feedback("tool-output", result, action, context)
        elif action.target not in ("CONTROL", "SESSION", "CLI", "TUI") and context.client is not None:
            is_spoken = context.signal.sensor in SPOKEN
            self._answer(context, f"{action.target.lower()}: done" if is_spoken else "")

    def _feedback(self, sensor: str, text: str, action: Action, context: Context) -> None:
        fields = {"actuator": action.target.lower()}
        text = self._cleaner.text(text)
        told = Signal(sensor, "daemon", text, action.session, action.depth + 1, Priority.FEEDBACK, fields)
        self.hear(msgspec.structs.replace(told, agent=context.signal.agent))
        if context.client is not None:
            if sensor == "tool-error":
                Answer(context, self._cleaner).end(text)
            else:
                self._answer(context, text)

    def _answer(self, context: Context, text: str, fault: str = "") -> None:
        """A whole answer at once, and why it could not be done, if so."""
        answer = Answer(context, self._cleaner)
        answer.text(text)
        answer.end(fault)

    def _message(self, action: Action, context: Context) -> None:
        """:cli and :tui, back to who asked, or to everybody."""
        if context.signal.client is not None:
            self._answer(context, action.text)
        else:
            for piece in pieces(self._cleaner.text(action.text)):
                self._tell(said(piece, context, action.session))

    async def _session(self, action: Action, context: Context) -> None:
        """:session, which prompts an agent session or types into a terminal one."""
        client, agent = context.signal.client, context.signal.agent
        calling = calling_agent.set(agent or ("" if client is not None else A_RULE))
        try:
            if action.verb == "type":
                await self._sessions.type(action.session, action.text, enter=action.enter)
                self._answer(context, f"typed into {action.session}")
                return
            if len(self._answers) >= MAX_ANSWERS:
                raise GiveUp(f"{MAX_ANSWERS} answers are already in progress")
            await self._prompt(action, context)
        except SessionFault as error:
            raise GiveUp(str(error)) from None
        except Exception as error:  # it may have been said, so it is not said again
            raise GiveUp(f"{type(error).__name__}: {error}") from error
        finally:
            calling_agent.reset(calling)

    async def _prompt(self, action: Action, context: Context) -> None:
        prompt = new_prompt(action.text, context.signal.source)
        answer = Answer(context, self._cleaner, lambda: self._answers.pop(prompt.id, None))
        client = context.signal.client
        if client is not None:
            self._answers[prompt.id] = client, answer
        try:
            await self._sessions.prompt(action.session, prompt, answer)
        except BaseException:
            self._answers.pop(prompt.id, None)
            raise
        if (action.depth or client is None) and answer.session is not None:
            if len(self._turns) >= MAX_TURNS:
                del self._turns[next(iter(self._turns))]
            self._turns[answer.session] = action.depth + 1

    def depth_of_turn(self, session: str) -> int:
        """How deep the end of a session's turn is, if it was control that began it."""
        return self._turns.pop(session, 0)

    def cancel(self, client: Client, session: str | None = None) -> int:
        """End the answers that a client gets; gives how many."""
        found = [
            (prompt, answer, answer.session)
            for prompt, (other, answer) in self._answers.items()
            if other is client and session in (None, answer.session) and answer.session is not None
        ]
        for prompt, answer, asked in found:
            self._soon(self._cancel(prompt, answer, asked), answer.context)
        return len(found)

    async def _cancel(self, prompt: str, answer: Answer, session: str) -> None:
        try:
            await self._sessions.cancel(session, prompt)
        except SessionFault as error:
            answer.end(str(error))

    def _command(self, action: Action, context: Context) -> None:
        """What a person asks of control itself."""
        text = fault = ""
        match action.verb:
            case "approve" | "deny":
                if action.text:
                    option = "allow" if action.verb == "approve" else "deny"
                    self._soon(self._settle(action.text, option, context), context)
                    return
                fault = f"/{action.verb} needs a token; /approvals lists them"
            case "answer":
                token, _, said = action.text.partition(" ")
                if said.strip():
                    self._soon(self._settle(token, ANSWER, context, said.strip()), context)
                    return
                fault = "/answer needs a token and a text; /approvals lists the questions"
            case "approvals":
                waiting = self._inbox.open()
                rows = [_listed(each) for each in waiting[:SHOWN_WAITING]]
                if more := len(waiting) - len(rows):
                    rows.append(f"and {more} more: `fairlead approvals` lists all")
                text = "\n".join(rows) or "no approvals pending"
            case "status":
                self._soon(self._status(context), context)
                return
            case "help":
                text = HELP
            case _:
                fault = f"unknown command {action.text}; /help lists them"
        self._answer(context, text, fault)

    async def _status(self, context: Context) -> None:
        sessions = await self._sessions.status()
        self._answer(context, f"{sessions}\n{counted(len(self._inbox.consents), 'approval')} pending")

    def arrived(self, client: Client) -> None:
        """A client has come and is known: it is shown what waits for consent."""
        waiting = [each for each in self._inbox.consents if not each.lost]
        for question in waiting[:SHOWN_WAITING]:
            client.send(told(self._clean(_question(question))))

    def owes(self, client: Client) -> bool:
        """True if a client has asked for something that it may still be told of."""
        contexts = (*self._under_way.values(), *self._writing.values(), *self._askers.values())
        return (
            bool(self._waiting_of.get(id(client)))
            or any(each is client for each, _ in self._answers.values())
            or any(context.signal.client is client for context in contexts)
        )

    def left(self, client: Client) -> None:
        """A client has gone; what it asked for goes on."""
        self._answers = {id: pair for id, pair in self._answers.items() if pair[0] is not client}
        self._askers = {
            token: context for token, context in self._askers.items() if context.signal.client is not client
        }

    async def close(self) -> None:
        """End what is under way; what is being written down may take a moment."""
        await self._acting.close()
        if self._writing:
            await asyncio.wait(self._writing, timeout=CLOSE_WAIT)
        for task in self._writing:
            task.cancel()


def _question(question: Question) -> Signal:
    """What waits for consent, as everybody is told of it. The text is the whole question."""
    fields = {
        "token": question.id,
        "title": question.title,
        "summary": question.what,
        "reason": question.reason,
        "name": question.session_name,
        "project": question.project,
        **({"answers": _choices(question)} if question.is_dialog else {}),
    }
    return Signal("approval-required", text=question.text(), session=question.session, fields=fields)


def _choices(question: Question) -> str:
    if question.lost:
        return f"lost: {question.lost}\n/deny {question.id} dismisses it"
    if not question.is_consent:
        return f"/deny {question.id} dismisses it"
    if question.is_dialog:
        rows = [f"{number}  {choice}" for number, choice in enumerate(question.choices, 1)]
        return "\n".join((*rows, f"/answer {question.id} TEXT, or /deny {question.id}"))
    return f"/approve {question.id} or /deny {question.id}"


def _listed(question: Question) -> str:
    """A question in a list, with all that belongs to it below."""
    rest = f"{question.text()}\n{_choices(question)}".replace("\n", "\n    ")
    return f"{question.id}  {question.title}\n    {rest}"


def _with_answer(asked: Asked, allowed: bool, by: str) -> tuple[Step, ...]:
    """The trace with a person's word at its end."""
    outcome = Outcome.PASSED if allowed else Outcome.BLOCKED
    return (*asked.trace, Step("person", outcome, f"{'allowed' if allowed else 'denied'} by {by}"))
