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
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..database import DatabaseFault
from ..wire.passepartout import Message
from .actuators import Acting, Actuators, Feedback, GiveUp
from .answering import Answer
from .gates import Gates, Outcome
from .protocols import Approvals, Cleaner, SessionFault, Sessions, Waiting
from .rules import Reflexes
from .signals import MAX_DEPTH, SPOKEN, Action, Client, Context, Priority, Signal, Step, pieces, said, told
from .store import Asked, ControlStore, Full, waiting

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

SHOWN_WAITING = 50
"""How much of what waits for consent a client is shown when it comes."""

HELP = """\
/approvals          what waits for your consent
/approve TOKEN      allow it
/deny TOKEN         don't
/status             the sessions, and how they are
/run COMMAND        run a command, if the gates let it
/send SESSION TEXT  type into a terminal session, with Enter
/notify TEXT        send a notification
Anything else is said to the agent session."""


class Judged(NamedTuple):
    """What became of an action; the reason says why it was not done, or not yet."""

    action: Action
    outcome: Outcome
    reason: str
    token: str = ""


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
        approvals: Approvals,
        cleaner: Cleaner,
        tell: Callable[[Message], None],
        on_asked: Callable[[Waiting], None] = lambda waiting: None,
        on_settled: Callable[[Waiting, bool, str], None] = lambda waiting, allowed, by: None,
    ) -> None:
        self.actuators = actuators
        self.gates = gates
        self.counts: Counter[str] = Counter()
        """How many signals and actions there were, by what became of them."""
        self._reflexes = reflexes
        self._store = store
        self._sessions = sessions
        self._agents = approvals
        self._cleaner = cleaner
        self._tell = tell
        self._on_asked = on_asked
        self._on_settled = on_settled
        self._acting = Acting(actuators, self._acted)
        self._queue: list[tuple[int, int, Signal]] = []
        self._numbers = itertools.count()
        self._waiting_of: Counter[int] = Counter()  # by the id of the client
        self._draining = False
        self._answers: list[tuple[Client, Answer]] = []
        self._askers: dict[str, Context] = {}  # by the token of what waits for consent
        self._tokens: dict[int, str] = {}  # tokens of approved actions under way, by the id of their context
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
            return f"what was done led to more than {MAX_DEPTH} other things"
        if len(self._queue) >= MAX_SIGNALS:
            self.counts["too many"] += 1
            return f"{MAX_SIGNALS} signals wait already"
        if client and self._waiting_of[client] >= MAX_SIGNALS_OF_ONE:
            self.counts["too many"] += 1
            return f"{MAX_SIGNALS_OF_ONE} of your signals wait already"
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

    @property
    def waiting_signals(self) -> int:
        return len(self._queue)

    @property
    def acting(self) -> int:
        return self._acting.busy

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
                self._answer(Context(signal), f"that could not be dealt with: {why}")
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
                self._answer(Context(signal), f"there is no rule for :{signal.sensor.upper()}")
            return found
        return [wished]

    def _wished(self, signal: Signal) -> Action:
        """What a person wants."""
        word, _, rest = signal.text.strip().partition(" ")
        rest = rest.strip()
        match word:
            case "/approve" | "/deny" | "/approvals" | "/status" | "/help":
                return Action("CONTROL", rest, word[1:], depth=signal.depth)
            case "/run":
                return Action("SHELL", rest, depth=signal.depth)
            case "/notify":
                return Action("NOTIFY", rest, depth=signal.depth)
            case "/send":
                name, _, typed = rest.partition(" ")
                return Action("SESSION", f"{typed}\r", "type", session=name or None, depth=signal.depth)
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
                return Judged(action, judgement.outcome, self._acting.act(action, context))
            case Outcome.BLOCKED:
                log.info("blocked %s: %s", action.target, judgement.reason)
                self._answer(context, f"blocked: {judgement.reason}")
                return Judged(action, judgement.outcome, judgement.reason)
        try:
            asked = self._store.ask(action, judgement.reason, judgement.trace, signal.source)
        except (Full, DatabaseFault) as error:
            self._answer(context, f"blocked: {error}")
            return Judged(action, Outcome.BLOCKED, str(error))
        if signal.client is not None:
            if len(self._askers) >= MAX_KEPT_ASKERS:
                del self._askers[next(iter(self._askers))]
            self._askers[asked.token] = context
        self.show(waiting(asked), asked.trace)
        self._on_asked(waiting(asked))
        lines = (
            f"{waiting(asked).title} {asked.action.summary}",
            f"waits for your consent: {asked.reason}",
            f"/approve {asked.token} or /deny {asked.token}",
        )
        self._answer(context, "\n".join(lines))
        return Judged(action, judgement.outcome, judgement.reason, asked.token)

    def show(self, asked: Waiting, trace: tuple[Step, ...] = ()) -> None:
        """Tell all clients that something waits for consent, and the rules."""
        signal = self._clean(_question(asked))
        self._tell(told(signal, trace))
        for action in self._reflexes.actions(signal):
            judgement = self.gates.judge(action)
            if judgement.outcome is Outcome.PASSED:  # what asks about asking would never end
                self._acting.act(action, Context(signal, judgement.trace))

    # --- approvals ----------------------------------------------------------------------------------------

    def waiting(self) -> list[Waiting]:
        """All that waits for consent: of control itself, and of agent sessions."""
        return [*self.own_waiting(), *self._agents.waiting()]

    def own_waiting(self) -> list[Waiting]:
        """What of control itself waits for consent."""
        return [waiting(asked) for asked in self._store.asked()]

    def settle(self, token: str, allowed: bool, by: str, client: Client | None = None) -> bool:
        """Answer; tells whether this answer counts, as only the first does."""
        return self.settle_own(token, allowed, by, client) or self._agents.settle(token, allowed, by)

    def settle_own(self, token: str, allowed: bool, by: str, client: Client | None = None) -> bool:
        """The same for control's own questions only. `client` is who answers, if it gets a reply anyway."""
        asked = self._store.settle(token, allowed, by)
        if asked is None:
            return False
        self._on_settled(waiting(asked), allowed, by)
        self.settled(waiting(asked), allowed, by)
        context = self._askers.pop(token, None) or Context(Signal("approval-settled", source=asked.source))
        context = msgspec.structs.replace(context, approved_by=by, trace=_with_answer(asked, allowed, by))
        if allowed:
            self._tokens[id(context)] = token
            self._acting.act(asked.action, context)
        elif client is None or context.client is not client:
            self._answer(context, f"denied by {by}: {asked.action.summary}")
        return True

    def settled(self, asked: Waiting, allowed: bool, by: str) -> None:
        """Tell all clients that something no longer waits."""
        fields = {"token": asked.token, "result": "allowed" if allowed else "denied", "by": by}
        self._tell(told(Signal("approval-settled", text=asked.summary, session=asked.session, fields=fields)))

    # --- act ----------------------------------------------------------------------------------------------

    def _acted(self, action: Action, context: Context, result: Feedback, error: Exception | None) -> None:
        """An action is over. What came of it is heard next, by who asked for it or by everybody."""
        if token := self._tokens.pop(id(context), None):
            try:
                self._store.finished(token)
            except DatabaseFault as fault:
                log.warning("%s", fault)
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
        self.hear(Signal(sensor, "daemon", text, action.session, action.depth + 1, Priority.FEEDBACK, fields))
        if context.client is not None:
            self._answer(context, text)

    def _answer(self, context: Context, text: str) -> None:
        """A whole answer at once."""
        answer = Answer(context, self._cleaner)
        answer.text(text)
        answer.end()

    def _message(self, action: Action, context: Context) -> None:
        """:cli and :tui, back to who asked, or to everybody."""
        if context.signal.client is not None:
            self._answer(context, action.text)
        else:
            for piece in pieces(self._cleaner.text(action.text)):
                self._tell(said(piece, context, action.session))

    def _session(self, action: Action, context: Context) -> None:
        """:session, which prompts an agent session or types into a terminal one."""
        try:
            if action.verb == "type":
                self._sessions.type(action.session, action.text)
                self._answer(context, f"typed into {action.session}")
                return
            if len(self._answers) >= MAX_ANSWERS:
                raise GiveUp(f"{MAX_ANSWERS} answers are under way already")
            self._prompt(action, context)
        except SessionFault as error:
            raise GiveUp(str(error)) from None
        except Exception as error:  # it may have been said, so it is not said again
            raise GiveUp(f"{type(error).__name__}: {error}") from error

    def _prompt(self, action: Action, context: Context) -> None:
        answer = Answer(context, self._cleaner)
        client = context.signal.client
        pair = (client, answer) if client is not None else None

        def done(fault: str) -> None:
            if pair is not None and pair in self._answers:
                self._answers.remove(pair)
            answer.end(fault)

        if pair is not None:
            self._answers.append(pair)
        try:
            session = self._sessions.prompt(action.session, action.text, answer.text, done)
        except BaseException:
            if pair is not None:
                self._answers.remove(pair)
            raise
        answer.session = session
        if action.depth or client is None:
            if len(self._turns) >= MAX_TURNS:
                del self._turns[next(iter(self._turns))]
            self._turns[session] = action.depth + 1

    def depth_of_turn(self, session: str) -> int:
        """How deep the end of a session's turn is, if it was control that began it."""
        return self._turns.pop(session, 0)

    def cancel(self, client: Client, session: str | None = None) -> int:
        """End the answers that a client gets; gives how many."""
        found = [
            answer
            for other, answer in self._answers
            if other is client and session in (None, answer.session) and answer.session is not None
        ]
        for answer in found:
            assert answer.session is not None
            try:
                self._sessions.cancel(answer.session)
            except SessionFault as error:
                answer.end(str(error))
        return len(found)

    def _command(self, action: Action, context: Context) -> None:
        """What a person asks of control itself."""
        match action.verb:
            case "approve" | "deny":
                allowed = action.verb == "approve"
                by = context.signal.source
                if not action.text:
                    text = f"/{action.verb} wants a token; /approvals lists them"
                elif self.settle(action.text, allowed, by, context.client):
                    text = f"{'approved' if allowed else 'denied'} {action.text}"
                else:
                    text = f"no approval {action.text} waits: it was answered already, or never asked"
            case "approvals":
                rows = [
                    f"{each.token}  {each.title}: {each.summary} ({each.reason})" for each in self.waiting()
                ]
                text = "\n".join(rows) or "nothing waits for your consent"
            case "status":
                text = f"{self._sessions.status()}\n{len(self.waiting())} wait for your consent"
            case "help":
                text = HELP
            case _:
                text = f"no command {action.text}; /help lists them"
        self._answer(context, text)

    def arrived(self, client: Client) -> None:
        """A client has come and is known: it is shown what waits for consent."""
        for asked in self.waiting()[:SHOWN_WAITING]:
            client.send(told(self._clean(_question(asked))))

    def left(self, client: Client) -> None:
        """A client has gone; what it asked for goes on."""
        self._answers = [pair for pair in self._answers if pair[0] is not client]
        self._askers = {
            token: context for token, context in self._askers.items() if context.signal.client is not client
        }

    async def close(self) -> None:
        await self._acting.close()


def _question(asked: Waiting) -> Signal:
    """What waits for consent, as everybody is told of it."""
    fields = {"token": asked.token, "title": asked.title, "summary": asked.summary, "reason": asked.reason}
    return Signal("approval-required", text=asked.summary, session=asked.session, fields=fields)


def _with_answer(asked: Asked, allowed: bool, by: str) -> tuple[Step, ...]:
    """The trace with a person's word at its end."""
    outcome = Outcome.PASSED if allowed else Outcome.BLOCKED
    return (*asked.trace, Step("person", outcome, f"{'allowed' if allowed else 'denied'} by {by}"))
