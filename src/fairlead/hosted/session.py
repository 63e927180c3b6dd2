"""A session with a third-party agent: a conversation whose work an ACP agent does in its own process.

It knows no door, as any conversation. The agent's process and what is said with it belong to a keeper, so a
turn goes on when the daemon dies, and the next daemon takes it up where it was (`link`). If the agent dies,
its turn fails; the next prompt starts it again, and has it resume its own session if it can do that
(`program`). What the agent says becomes messages and events in `doings`; how it is set, `chosen` knows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..agent import context, events
from ..agent.answer import NOTHING_USED, AnswerSoFar
from ..agent.conversation import Aborted, Conversation
from ..agent.events import Approval, Choice, ConversationEvent
from ..agent.journal import Entry, Journal, JournalError, Said
from ..agent.messages import Cost, Text, ToolCall, Usage, User, text_of, user
from ..agent.models import ModelInfo
from ..agent.ports import Choosable, Dropped, Refused
from ..agent.secrets import Redactor
from ..formats.shown import middle
from ..sessions.questions import ALLOW, DENY
from ..sessions.session import RESTARTED
from ..wire import acp
from ..wire.faults import Broken, LocalError
from .chosen import AgentDefaults, AgentSettings
from .doings import LOST_CALL, UNENDED_CALL, Doings, TooMuch
from .ending import ABORTED, Ending, ending_of, usage_of
from .link import AgentLink
from .pipe import AgentExit, Pipe
from .program import SETTING, AgentProgram, HostedError
from .shown import block_text
from .state import Work, decode

log = logging.getLogger("fairlead")

CANCEL_SECONDS = 10.0
"""Seconds that an agent has to end a turn that was cancelled, before it is ended itself."""
UNSAID_SECONDS = 300.0
"""Seconds for which a prompt is still said that no agent has heard when the daemon died."""
ONCE_SECONDS = 30.0
"""After so many seconds an agent that has nothing to do is ended if a script used it."""
SET_SECONDS = 0.1
"""Seconds between two events that tell how an agent is set: it may change that as often as it likes."""
MAX_NOTICE = 2000
"""How many characters of what an agent wants people to know are told."""
GONE = "the agent ended"
NOT_SENT = "not sent: the daemon restarted before the agent got it"
"""What the last message of a turn says that never began, because nobody was there for long."""


class Agents(Protocol):
    """What starts the programs of agents and ends them."""

    def describe(self, session: HostedSession) -> AgentDefaults:
        """The agent of a session, as it is set now."""

    async def start(self, session: HostedSession) -> Pipe:
        """Start the program of a session's agent. Raises HostedError."""

    def forget(self, pipe: Pipe) -> None:
        """An agent has ended, and nobody needs to know more of it."""

    def servers(self, session: HostedSession) -> tuple[acp.McpServer, ...]:
        """The MCP servers that a session's agent is told of."""

    @property
    def idle_seconds(self) -> float:
        """After how many seconds an agent that has nothing to do is ended; 0 is never."""

    @property
    def secrets(self) -> Redactor:
        """What must be in no journal and no event."""


class HostedSession(Conversation):
    """A conversation with a third-party agent. `pipe` is its process, if one runs."""

    kind = "hosted"
    outlives_daemon = True
    lacks = frozenset(
        {"/thinking", "/compact", "/skills", "/jobs", "/job", "/cancel-job", "/login", "/logout"}
    )

    def __init__(
        self,
        journal: Journal,
        agents: Agents,
        listen: Callable[[ConversationEvent], None],
        *,
        pipe: Pipe | None = None,
        is_ours: bool = True,
        past: context.Past | None = None,
    ) -> None:
        self.agent = journal.header.agent or ""
        self.settings = AgentSettings(
            journal.append, self.agent, lambda: agents.describe(self), lambda: self.work, self._set
        )
        self._agents = agents
        self._program = AgentProgram(
            self.agent,
            journal.header.cwd,
            self.settings,
            lambda: agents.start(self),
            self._attach,
            self._notice,
            agents.secrets.text,
            lambda: agents.servers(self),
        )
        self.is_used_once = False
        """Whether a script opened it last, which is likely to want nothing more of it."""
        self._found = pipe
        self._ends_as: events.Outcome = "failed"
        self._awaits = False  # the agent was told something, and how that ended is not looked at yet
        self._works_aside = False  # people were told that the agent works between two turns
        self._over = asyncio.Event()
        self._is_set_anew = False  # and nobody was told yet
        self._set_timer: asyncio.TimerHandle | None = None
        super().__init__(journal, self.settings.model, listen, is_ours=is_ours, past=past)
        self._doings = Doings(journal, self._approvals, self._tell, agents.secrets, lambda: self.model)
        if self.work.window:
            self.settings.take_model()
            self.model = self.settings.model
        self._resumes = pipe is not None
        self._unsent: list[User] = []  # prompts that no agent has got, and none will
        if pipe is None and is_ours:
            self._without_agent()

    def _load(self, past: context.Past) -> None:
        """What waited to be said when the last daemon ended is said if the agent went on without it; else it
        is dropped, as its turn is lost."""
        queued = past.queued if self._found is not None and self._is_ours else {}
        super()._load(past._replace(queued={}) if queued else past)
        for state in past.states:
            self.settings.load(state)
        for id, text in queued.items():
            self.prompts.follow_ups.append(user(text, prompt=id))

    def _without_agent(self) -> None:
        """No program of the agent is there any more. A turn that it worked on is lost; what it never heard
        is said to the next one, unless that is long ago."""
        unsaid = [said for _, said in self._unsaid(self._doings.told)]
        self._resumes = bool(unsaid) and _age(unsaid[-1]) < UNSAID_SECONDS
        if not self._resumes and (self.was_interrupted or self.approvals):
            self._doings.lose(GONE, NOT_SENT if unsaid else context.LOST)
            self._unsent = [said for said in unsaid if isinstance(said.prompt, str)]
            self.unsaid += [f"The daemon restarted before this was said: {text_of(said)}" for said in unsaid]
        if not self._doings.has_ended:
            self._doings.end()

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def work(self) -> Work:
        """What the agent does now."""
        return self._doings.work

    @property
    def answer_so_far(self) -> AnswerSoFar:
        return self._doings.answer

    @property
    def begun(self) -> Sequence[events.ToolBegan]:
        return self._doings.begun

    @property
    def is_held(self) -> bool:
        """Whether the agent's program runs: then the session stays loaded."""
        return self._program.is_there

    @property
    def is_sandboxed(self) -> bool:
        return self.settings.is_sandboxed

    @property
    def mode(self) -> str:
        return self.settings.mode

    @property
    def modes(self) -> Sequence[str]:
        return self.settings.modes

    @property
    def mode_names(self) -> Mapping[str, str]:
        return self.settings.mode_names

    @property
    def options(self) -> Sequence[Choosable]:
        return self.settings.options

    @property
    def commands(self) -> Mapping[str, str]:
        return {each.name: each.description for each in self.work.commands}

    @property
    def context_tokens(self) -> int:
        return self.work.used

    @property
    def more(self) -> dict[str, Any]:
        own = {
            "agent": self.agent,
            "mode": self.mode or None,
            "sandbox": self.is_sandboxed,
            "agent_pid": self._link.pipe.pid if self._link is not None else None,
            "mcp_servers": self.settings.servers,
        }
        return {**super().more, **own}

    @property
    def own_models(self) -> Sequence[ModelInfo]:
        """Those that the agent has said it has; until then the one that is set."""
        known = [ModelInfo(self.agent, id, name, window=0) for id, name in self.settings.models.items()]
        return known or [self.model]

    @property
    def keys_of(self) -> str:
        return "" if self.is_held else self.agent

    @property
    def _link(self) -> AgentLink | None:
        return self._program.link

    def _unsaid(self, told: str = "") -> list[tuple[Entry, User]]:
        """What people said last, after the entry of which it is known that the agent was told it. What the
        agent said of its own accord meanwhile does not count; a message of ours says that it was given up."""
        told, branch = told or self.work.said or self._doings.told, self.journal.branch
        knows = not told or any(entry.id == told for entry in branch)
        found: list[tuple[Entry, User]] = []
        for entry in reversed(branch):
            if entry.id == told:
                break
            if isinstance(entry.body, Said):
                if isinstance(entry.body.message, User):
                    found.append((entry, entry.body.message))
                elif not knows or not isinstance(entry.body.at, int):
                    break
        return found[::-1]

    # --- going on after a restart ---------------------------------------------------------------------------

    def go_on(self) -> None:
        pipe, self._found = self._found, None
        if pipe is not None:
            self._attach(pipe)
            self._rest()
        unsent, self._unsent = self._unsent, []
        for said in unsent:
            self._tell(events.PromptEnded(self.id, str(said.prompt), "dropped", RESTARTED))
        resumes, self._resumes = self._resumes, False
        if resumes and self.is_idle and (self._awaits or self._unsaid() or self.prompts.follow_ups):
            self._begin(self._resume())

    async def _resume(self) -> None:
        if not self._awaits and not self._unsaid():
            await self._say_waiting()
            return
        self.prompts.go_on(context.last_prompts(self.journal.branch))
        await self._work(None)

    def close(self) -> None:
        """Leave the agent to its keeper, and to the next daemon."""
        if self._set_timer is not None:
            self._set_timer.cancel()
        self._doings.close()
        if self._link is None:
            super().close()
            return
        self._link.release()
        if self.turn is not None:
            self.turn.cancel()
        self.journal.close()

    # --- what can be asked of it ----------------------------------------------------------------------------

    def interrupt(self, *, at_word: bool = False) -> Dropped:
        """End the turn: a third-party agent has no steps that we could wait for."""
        dropped = super().interrupt()
        if dropped.accepted and self._awaited is not None:
            self._awaited.cancel()
        return dropped

    def settle(
        self, approval_id: str, allowed: bool, by: str, *, lasts: bool = False, option: str = ""
    ) -> None:
        approval = self.approvals.get(approval_id)
        if approval is None:
            raise Refused(f"no approval {approval_id!r} waits for an answer")
        chosen = _chosen(approval, option or (ALLOW if allowed else DENY).value)
        allowed = chosen.value.partition("-")[0] not in (DENY.value, "never")
        self._approvals.settle(approval_id, allowed, by, choice=chosen.id)
        self._answer(approval_id, chosen.id)
        if allowed:
            for call in self.work.calls.values():
                if call.id == approval.call_id:
                    self._doings.start(call)

    def _answer(self, approval_id: str, choice: str) -> None:
        """Tell the agent what was chosen."""
        request = self.work.asked.pop(approval_id, None)
        if request is None or self._link is None:
            return
        outcome = acp.Selected(option_id=choice) if choice else acp.Cancelled()
        self._link.send(self._link.connection.respond(request, acp.PermissionResult(outcome=outcome)))

    def set_mode(self, mode: str) -> str:
        """Have the agent work in another mode, in which it may ask for less. Raises Refused."""
        self.check_person()
        told = self.settings.choose_mode(mode)
        if told is not None and self._link is not None:
            self._link.request(told)
        self._tell(events.Updated(self.id))
        return mode

    def set_model(self, provider: str, id: str) -> ModelInfo:
        """Have the agent ask another of its models. Raises Refused."""
        if provider != self.agent:
            raise Refused(f"{self.agent} has models of its own: use {self.agent}/ID")
        told = self.settings.choose_model(id)
        if told is not None and self._link is not None:
            self._link.request(told)
        self._set()
        return self.model

    def _choose_option(self, option: Choosable, value: str) -> None:
        self.check_person()
        if option.category == "model":
            self.set_model(self.agent, value)
        elif self._link is not None:
            params = acp.SetConfigOption(session_id=self.work.session, config_id=option.id, value=value)
            self._link.request(params)

    async def end_agent(self) -> bool:
        self.go_on()
        await self.idle()
        was_there = self._link is not None
        await self._program.stop("it was stopped")
        return was_there

    # --- the work of a turn ---------------------------------------------------------------------------------

    async def _steps(self, calls: Sequence[ToolCall]) -> events.Outcome:
        """Tell the agent what was said, and wait until it is done."""
        try:
            while True:
                outcome = await self._step()
                if outcome != "done" or not self.prompts.steering:
                    return outcome
                while self.prompts.steering:
                    self._say(self.prompts.steering.popleft())
        finally:
            self._rest()

    def _rest(self) -> None:
        """The agent has nothing to do, as far as it is known."""
        idle = self._agents.idle_seconds
        if self.is_used_once and idle > 0:
            idle = min(idle, ONCE_SECONDS)
        self._program.rest(idle, lambda: self.is_idle and not (self.approvals or self.work.calls))

    async def _step(self) -> events.Outcome:
        try:
            if self._awaits and self._unsaid():  # the last turn's end is in the journal, and is said again
                await self._abortable(self._over.wait())
                self._awaits = False
            if not self._awaits:
                await self._abortable(self._program.ready())
                self._tell_agent()
            if not self.work.stopping:
                await self._abortable(self._over.wait())
        except Aborted:
            if not self._awaits:
                return self._wanted_end
            if self._program.is_prompted:
                self._cancel()
        except (HostedError, LocalError) as error:
            self._say(AnswerSoFar().assistant(self.model, "error", str(error)))
            self._tell(events.Failed(self.id, str(error), is_said=True))
            return "failed"
        await self._ended_turn()
        self._awaits = False
        return self._ends_as

    @property
    def _wanted_end(self) -> events.Outcome:
        return "interrupted" if self.interrupt_pending and not self._aborted.is_set() else "aborted"

    def _tell_agent(self) -> None:
        """Have the agent work on what was said."""
        assert self._link is not None
        unsaid = self._unsaid()
        blocks = [block for _, said in unsaid for block in self._blocks(said)]
        self._over.clear()
        self._awaits = True
        self.work.aside = 0
        self.work.is_replaying = False
        self._works_aside = False
        self.work.said = unsaid[-1][0].id if unsaid else self.work.said
        self._doings.note_told(self.work.said)
        self._link.request(acp.Prompt(session_id=self.work.session, prompt=tuple(blocks)))
        self.is_answering = True

    @property
    def _takes_images(self) -> bool:
        """False if the agent runs and has said that it does not."""
        known = self._link.connection.agent if self._link is not None else None
        return known is None or known.agent_capabilities.prompt_capabilities.image

    def check_images(self) -> None:
        if not self._takes_images:
            raise Refused(f"{self.agent} takes no images")

    def _blocks(self, said: User) -> list[acp.Block]:
        content = (Text(said.content),) if isinstance(said.content, str) else said.content
        blocks: list[acp.Block] = []
        for part in content:
            if isinstance(part, Text):
                blocks.append(acp.Text(text=part.text))
            elif self._takes_images:
                blocks.append(acp.Image(data=part.data, mime_type=part.mime_type))
            else:
                self._notice(f"{self.agent} takes no images: one is left out")
        return blocks

    def _cancel(self) -> None:
        """Have the agent end its turn. Its questions are answered with that, as the protocol wants it."""
        assert self._link is not None
        self.work.stopping = self._wanted_end
        self._doings.withdraw("abort" if self.work.stopping == "aborted" else "interrupt")
        self._link.send(self._link.connection.cancel(self.work.session))

    async def _ended_turn(self) -> None:
        """Wait for the end of a turn that was cancelled; an agent that does not end it is ended itself."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._over.wait()
        except TimeoutError:
            self.failed(f"it did not end its turn within {CANCEL_SECONDS:g} s")
            await self._over.wait()

    def _attach(self, pipe: Pipe) -> None:
        """Go on with an agent's program from the state that its keeper has."""
        kept = decode(pipe.blob) if pipe.blob is not None else None
        self._program.link = link = AgentLink(pipe, self, kept, self._agents.secrets)
        self._doings.begin(str(pipe.note.get("run", "")), link.work)
        self.is_answering = self._awaits = self._program.is_prompted
        self._over.clear()
        self.settings.take_model()
        self.model = self.settings.model
        link.begin()
        if pipe.blob is not None and kept is None:
            self.failed("it was started by another version of fairlead")
        for id in [id for id in self.work.asked if id not in self.approvals]:  # answered, and maybe not told
            self._answer(id, self._approvals.choice_for(id) or "")

    # --- what the agent says --------------------------------------------------------------------------------

    def handle(self, item: acp.Item) -> None:
        assert self._link is not None
        self._doings.at(self._link.at)
        self._program.note_use()
        try:
            self._handle(item, self._link)
        except TooMuch as error:
            self.failed(str(error))
        self._program.news.set()

    def _handle(self, item: acp.Item, link: AgentLink) -> None:
        match item:
            case acp.Notification(params=acp.SessionUpdate() as update):
                self._updated(update)
            case acp.CallAnswer():
                self._answered(item)
            case acp.Request(params=acp.RequestPermission() as asked):
                self._asked(item.id, asked)
            case acp.Request():
                code = acp.ErrorCode.METHOD_NOT_FOUND
                link.send(link.connection.fail(item.id, code, f"{item.method} was not offered"))
            case acp.CallFailure():
                self._request_failed(item)
            case acp.CallRefused(reason=reason, reply=reply):
                log.debug("%s of %s: %.300s", self.agent, self.id, reason)
                link.send(reply)
            case acp.Notification(params=acp.CancelRequest() as cancelled):
                self._withdrawn(cancelled.request_id)
            case Broken():
                self.failed(str(item))

    def keep(self, work: Work) -> None:
        self._doings.keep(work)

    def _updated(self, update: acp.SessionUpdate) -> None:
        work, in_turn = self.work, self._program.is_prompted
        if work.session and update.session_id != work.session:
            return
        is_work = isinstance(update.update, acp.ToolCall | acp.ToolCallUpdate)
        if is_work and work.session and not in_turn and not work.is_replaying:
            self._note_aside()
        match update.update:
            case acp.AvailableCommands(available_commands=commands):
                work.commands = self.settings.bounded(commands, "commands")
                self._set()
            case acp.CurrentMode(current_mode_id=mode):
                self.settings.take_mode(mode)
            case acp.ConfigOptionsChanged(config_options=options):
                self.settings.take_options(options)
            case acp.UsageChanged(used=used, size=size, cost=cost):
                work.used, work.window = used, size
                self._doings.note_cost(cost)
                self.settings.take_model()
                self._set()
            case _ if work.is_replaying or not work.session:
                return
            case _ if not in_turn and not self._takes_aside():
                return
            case acp.AgentMessageChunk(content=block):
                self._doings.say(block_text(block), is_thought=False, in_turn=in_turn)
            case acp.AgentThoughtChunk(content=block):
                self._doings.say(block_text(block), is_thought=True, in_turn=in_turn)
            case acp.ToolCall() | acp.ToolCallUpdate() as call:
                self._doings.call(call)
            case acp.Plan(entries=entries):
                self._doings.plan(entries)
            case acp.AgentNotice(title=title, description=more):
                self._notice(middle(": ".join(filter(None, (title, more))), MAX_NOTICE))

    def _note_aside(self) -> None:
        """The agent works between two turns: what was verified may have changed."""
        self._tell(events.WorkedAside(self.id))
        if not self._works_aside:
            self._works_aside = True
            self._notice(f"{self.agent} works after the end of its turn: no verdict on the turn covers that")
            self._tell(events.Updated(self.id))

    def _takes_aside(self) -> bool:
        """Whether what the agent says now, between two turns, is taken."""
        assert self._link is not None
        takes = self._doings.takes_aside(self._link.size)
        if takes is None:
            self._notice(f"{self.agent} says too much between turns: the rest is left out")
        return bool(takes)

    def _answered(self, answer: acp.CallAnswer) -> None:
        match answer.result:
            case acp.NewSessionResult(session_id=id) as result:
                self.settings.opened(id, result)
            case acp.OpenSessionResult() as result:
                self.settings.opened(answer.session or "", result)
            case acp.SetConfigOptionResult(config_options=options):
                self.settings.take_options(options)
            case acp.PromptResult(stop_reason=reason) as result:
                self._end_turn(ending_of(self.agent, reason), usage_of(result))
            case acp.Empty() if answer.method in SETTING:
                self.settings.take_set(answer.method)

    def _asked(self, request: acp.Id, asked: acp.RequestPermission) -> None:
        assert self._link is not None
        approval, choice = self._doings.ask(asked, request, self.agent)
        if approval is None:  # somebody answered, and the daemon died
            outcome = acp.Selected(option_id=choice) if choice else acp.Cancelled()
            self._link.send(self._link.connection.respond(request, acp.PermissionResult(outcome=outcome)))
        self._tell(events.Updated(self.id))

    def _withdrawn(self, request: acp.Id) -> None:
        """The agent does not want to know any more."""
        assert self._link is not None
        for id in [id for id, each in self.work.asked.items() if each == request]:
            del self.work.asked[id]
            if id in self.approvals:
                self._approvals.settle(id, False, "the agent withdrew it", choice="")
            code = acp.ErrorCode.CANCELLED
            self._link.send(self._link.connection.fail(request, code, "cancelled"))

    def _request_failed(self, failure: acp.CallFailure) -> None:
        if failure.method != "session/prompt":
            self._program.refused(failure, self.work)
            return
        failed = Ending("failed", "error", f"{self.agent}: {self._program.said(failure)}")
        self._end_turn(ABORTED if self.work.stopping else failed)

    def _notice(self, text: str) -> None:
        self._tell(events.Noticed(self.id, self._agents.secrets.text(text)))

    def _set(self) -> None:
        """The agent is set otherwise than before."""
        self.model = self.settings.model
        self._is_set_anew = True
        if self._set_timer is None:
            self._tell_set()

    def _tell_set(self) -> None:
        self._set_timer = None
        if self._is_set_anew:
            self._is_set_anew = False
            self._set_timer = asyncio.get_running_loop().call_later(SET_SECONDS, self._tell_set)
            self._tell(events.Updated(self.id))

    # --- ends -----------------------------------------------------------------------------------------------

    def _end_turn(self, ending: Ending, usage: Usage = NOTHING_USED, why: str = UNENDED_CALL) -> None:
        """Nothing more comes of what the agent was told. Calls that are open end with `why`."""
        if self.work.stopping and ending.stop != "length":
            ending = ABORTED
        for request in self._doings.withdraw("the turn ended"):
            if self._link is not None and request in self._link.connection.theirs:
                answer = acp.PermissionResult(outcome=acp.Cancelled())
                self._link.send(self._link.connection.respond(request, answer))
        spent, self.work.spent = self.work.spent, 0.0
        usage = msgspec.structs.replace(usage, cost=Cost(total=spent))
        if self._doings.finish(ending.stop, ending.error, usage, why):
            self.usage += usage
        stopping, self.work.stopping = self.work.stopping, ""
        if ending.stop == "length":
            self._tell(events.Failed(self.id, f"{self.agent}: the answer was cut at the limit of tokens"))
        is_interrupted = ending is ABORTED and stopping == "interrupted"
        self._ends_as = "interrupted" if is_interrupted else ending.outcome
        self.is_answering = False
        self._over.set()

    def failed(self, why: str) -> None:
        """The agent can't be talked to, or does not do what it must: it is ended."""
        self._program.fail(why)

    def ended(self, end: AgentExit) -> None:
        link = self._link
        if link is None:
            return
        why, self._ends_as = self._program.why_ended(end), "failed"
        self._doings.at(link.at)
        was_prompted, self._program.link = self._program.is_prompted, None
        try:
            if was_prompted:
                self._doings.withdraw(GONE)
                failed = Ending("failed", "error", why)
                self._end_turn(ABORTED if self.work.stopping else failed, why=LOST_CALL)
            self._doings.end()
        except JournalError:
            log.warning("session %s: the next daemon will say how its agent ended", self.id)
        finally:
            self._agents.forget(link.pipe)
            self._over.set()
            self._program.news.set()
            self._tell(events.Updated(self.id))


def _age(said: User) -> float:
    return time.time() - said.timestamp / 1000


def _chosen(approval: Approval, option: str) -> Choice:
    found = next((each for each in approval.choices if each.value == option), None)
    if found is None:
        known = ", ".join(each.value for each in approval.choices)
        raise Refused(f"{option!r} is no answer to {approval.id}; it takes {known}")
    return found
