"""A session with an agent of another maker: a conversation whose work an ACP agent does in its own process.

It knows no door, as any conversation. The agent's process and what is said with it belong to a keeper, so a
turn goes on when the daemon dies, and the next daemon takes it up where it was (`link`). If the agent dies,
its turn fails; the next prompt starts it again, and has it resume its own session if it can do that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..agent import context, events
from ..agent.answer import NOTHING_USED, Answer
from ..agent.conversation import Aborted, Conversation
from ..agent.events import Approval, Choice, Event
from ..agent.journal import Custom, Entry, Journal, JournalError, Said
from ..agent.messages import StopReason, Text, ToolCall, Usage, User, user
from ..agent.models import ModelInfo
from ..agent.ports import Choosable, Dropped, Refused
from ..formats.shown import middle, visible
from ..sessions.questions import ALLOW, DENY
from ..wire import acp
from ..wire.faults import Broken, LocalError
from .doings import LOST_CALL, UNENDED_CALL, Doings
from .link import AgentLink
from .pipe import Ended, Pipe, PipeError
from .shown import block_text
from .state import Work, decode

log = logging.getLogger("fairlead")

CHOSEN = "fairlead/hosted"
"""The custom entry that has how a session is set: the agent's own session, mode, model, sandbox."""
OPEN_SECONDS = 120.0
"""Seconds that an agent has to start and to open a session."""
CANCEL_SECONDS = 10.0
"""Seconds that an agent has to end a turn that was cancelled, before it is ended itself."""
STOP_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL for an agent."""
MAX_STDERR = 2000
"""How many characters of an agent's last errors are told."""
UNSAID_SECONDS = 300.0
"""Seconds for which a prompt is still said that no agent has heard when the daemon died."""
GONE = "the agent ended"
_SETTING = ("session/set_mode", "session/set_config_option")


class Ending(NamedTuple):
    """How a turn ends."""

    outcome: events.Outcome
    stop: StopReason
    error: str | None = None


DONE, ABORTED = Ending("done", "stop"), Ending("aborted", "aborted", "Aborted")
_ENDINGS: Mapping[str, Ending] = {
    "cancelled": ABORTED,
    "max_tokens": Ending("failed", "length"),
    "max_turn_requests": Ending("failed", "error", "it reached its limit of requests in a turn"),
    "refusal": Ending("failed", "error", "it refused to go on"),
}
"""By the agent's reason to stop."""


class HostedError(Exception):
    """An agent that can't be started or talked to. Says why."""


class Agents(Protocol):
    """What starts the programs of agents and ends them."""

    def describe(self, session: HostedSession) -> Described:
        """The agent of a session, as it is set now."""

    async def start(self, session: HostedSession) -> Pipe:
        """Start the program of a session's agent. Raises HostedError."""

    def forget(self, pipe: Pipe) -> None:
        """An agent has ended, and nobody needs to know more of it."""

    def clean(self, text: str) -> str:
        """A text without secrets."""


class Described(Protocol):
    """What is set for an agent."""

    @property
    def mode(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def sandbox(self) -> bool: ...


class HostedSession(Conversation):
    """A conversation with an agent of another maker. `pipe` is its process, if one runs."""

    kind = "hosted"
    outlives_daemon = True

    def __init__(
        self,
        journal: Journal,
        agents: Agents,
        listen: Callable[[Event], None],
        *,
        pipe: Pipe | None = None,
        is_ours: bool = True,
        past: context.Past | None = None,
    ) -> None:
        self.agent = journal.header.agent or ""
        self.chosen: dict[str, Any] = {}
        """What was set in this session: the agent's session, mode, model, sandbox."""
        self._agents = agents
        self._link: AgentLink | None = None
        self._found = pipe
        self._failing = ""
        self._fault = ""  # why the agent that was to be started is no more
        self._ends_as: events.Outcome = "failed"
        self._awaits = False  # the agent was told something, and how that ended is not looked at yet
        self._over = asyncio.Event()
        self._news = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        model = ModelInfo(self.agent, "default", self.agent, window=0)
        super().__init__(journal, model, listen, is_ours=is_ours, past=past)
        self._doings = Doings(journal, self._approvals, self._tell, agents.clean, lambda: self.model)
        self._resumes = pipe is not None
        if pipe is None and is_ours:
            self._without_agent()

    def _load(self, past: context.Past) -> None:
        """What waited to be said when the last daemon ended is said if the agent went on without it; else it
        is dropped, as its turn is lost."""
        queued = past.queued if self._found is not None and self._is_ours else {}
        super()._load(past._replace(queued={}) if queued else past)
        for state in past.states:
            if isinstance(state, Custom) and state.custom_type == CHOSEN and isinstance(state.data, dict):
                self.chosen |= state.data
        for id, text in queued.items():
            self.prompts.follow_ups.append(user(text, prompt=id))

    def _without_agent(self) -> None:
        """No program of the agent is there any more. A turn that it worked on is lost; what it never heard
        is said to the next one, unless that is long ago."""
        had_ended = self._doings.has_ended
        unsaid = self._unsaid()
        self._resumes = had_ended and bool(unsaid) and _age(unsaid[-1][1]) < UNSAID_SECONDS
        if not self._resumes and (self.was_interrupted or self.approvals):
            self._doings.lose(GONE, context.LOST)
        if not had_ended:
            self._doings.end()

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def work(self) -> Work:
        """What the agent does now."""
        return self._doings.work

    @property
    def answer_so_far(self) -> Answer:
        return self._doings.answer

    @property
    def is_held(self) -> bool:
        """Whether the agent's program runs: then the session stays loaded."""
        return self._link is not None or (self._starting is not None and not self._starting.done())

    @property
    def is_sandboxed(self) -> bool:
        return bool(self.chosen.get("sandbox", self._agents.describe(self).sandbox))

    @property
    def mode(self) -> str:
        """The agent's mode, as far as it is known."""
        if self.work.modes is not None:
            return self.work.modes.current_mode_id
        return str(self.chosen.get("mode") or self._agents.describe(self).mode)

    @property
    def modes(self) -> Sequence[str]:
        """The modes that the agent has."""
        return [each.id for each in self.work.modes.available_modes] if self.work.modes else []

    @property
    def mode_names(self) -> Mapping[str, str]:
        return {each.id: each.name for each in self.work.modes.available_modes} if self.work.modes else {}

    @property
    def options(self) -> Sequence[Choosable]:
        return [
            Choosable(each.id, each.name, each.category or "", each.current_value, _values(each))
            for each in self.work.options
            if isinstance(each.current_value, str) and not (each.category == "mode" and self.work.modes)
        ]

    @property
    def commands(self) -> Mapping[str, str]:
        return {each.name: each.description for each in self.work.commands}

    @property
    def context_tokens(self) -> int:
        return self.work.used

    @property
    def more(self) -> dict[str, Any]:
        own = {"agent": self.agent, "mode": self.mode or None, "sandbox": self.is_sandboxed}
        return {**super().more, **own}

    @property
    def _is_prompted(self) -> bool:
        """Whether the agent works on what it was told."""
        return self._link is not None and self._link.is_open("session/prompt")

    def _unsaid(self) -> list[tuple[Entry, User]]:
        """What people said last and the agent was not told."""
        found: list[tuple[Entry, User]] = []
        for entry in reversed(self.journal.branch):
            if entry.id == self.work.said:
                break
            if isinstance(entry.body, Said):
                if not isinstance(entry.body.message, User):
                    break
                found.append((entry, entry.body.message))
        return found[::-1]

    # --- going on after a restart ---------------------------------------------------------------------------

    def go_on(self) -> None:
        pipe, self._found = self._found, None
        if pipe is not None:
            self._attach(pipe)
        resumes, self._resumes = self._resumes, False
        if resumes and self.is_idle and (self._awaits or self._unsaid() or self.prompts.follow_ups):
            self._begin(self._resume())

    async def _resume(self) -> None:
        if not self._awaits and not self._unsaid():
            await self._say_waiting()
            return
        self.prompts.go_on(_last_prompts(self.journal.branch))
        await self._work(None)

    def close(self) -> None:
        """Leave the agent to its keeper, and to the next daemon."""
        if self._link is None:
            super().close()
            return
        self._link.release()
        if self.turn is not None:
            self.turn.cancel()
        self.journal.close()

    # --- what can be asked of it ----------------------------------------------------------------------------

    def interrupt(self) -> Dropped:
        """End the turn: an agent of another maker has no steps that we could wait for."""
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

    def choose(self, **settings: Any) -> None:
        """Set the session's mode, model or sandbox, for this agent and the next one that is started."""
        self.journal.append(Custom(CHOSEN, settings))
        self.chosen |= settings

    def set_mode(self, mode: str) -> str:
        if self.work.modes is not None and mode not in self.modes:
            raise Refused(f"{self.agent} has no mode {mode!r}; there are {', '.join(self.modes)}")
        self.choose(mode=mode)
        if self._link is not None and self.work.modes is not None:
            self._link.request(acp.SetMode(session_id=self.work.session, mode_id=mode))
        self._tell(events.Updated(self.id))
        return mode

    def set_model(self, provider: str, id: str) -> ModelInfo:
        """Have the agent ask another of its models. Raises Refused."""
        if provider != self.agent:
            raise Refused(f"{self.agent} has models of its own: use {self.agent}/ID")
        option = self._option("model")
        if self._link is not None and self.work.session:
            if option is None:
                raise Refused(f"{self.agent} does not let its model be set")
            known = [value for value, _ in _values(option)]
            if id not in known:
                raise Refused(f"{self.agent} has no model {id!r}; there are {', '.join(known)}")
            self._link.request(
                acp.SetConfigOption(session_id=self.work.session, config_id=option.id, value=id)
            )
        self.choose(model=id)
        self.model = ModelInfo(self.agent, id, id, window=self.work.window)
        self._tell(events.Updated(self.id))
        return self.model

    def _choose_option(self, option: Choosable, value: str) -> None:
        if option.category == "model":
            self.set_model(self.agent, value)
        elif self._link is not None:
            params = acp.SetConfigOption(session_id=self.work.session, config_id=option.id, value=value)
            self._link.request(params)

    def _option(self, category: str) -> acp.ConfigOption | None:
        return next((each for each in self.work.options if each.category == category), None)

    async def end_agent(self) -> None:
        """End the agent's program. The session stays: the next prompt starts it again."""
        self.go_on()
        await self.idle()
        if self._link is not None:
            self.failed("it was stopped")
            assert self._stopping is not None
            await asyncio.wait([self._stopping])

    # --- the work of a turn ---------------------------------------------------------------------------------

    async def _steps(self, calls: Sequence[ToolCall]) -> events.Outcome:
        """Tell the agent what was said, and wait until it is done."""
        while True:
            outcome = await self._step()
            if outcome != "done" or not self.prompts.steering:
                return outcome
            while self.prompts.steering:
                self._say(self.prompts.steering.popleft())

    async def _step(self) -> events.Outcome:
        try:
            if not self._awaits:
                await self._abortable(self._ready())
                self._tell_agent()
            if not self.work.stopping:
                await self._abortable(self._over.wait())
        except Aborted:
            if not self._awaits:
                return self._wanted_end
            if self._is_prompted:
                self._cancel()
        except (HostedError, LocalError) as error:
            self._say(Answer().assistant(self.model, "error", str(error)))
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
        self.work.said = unsaid[-1][0].id if unsaid else self.work.said
        self._link.request(acp.Prompt(session_id=self.work.session, prompt=tuple(blocks)))
        self.is_answering = True

    def _blocks(self, said: User) -> list[acp.Block]:
        assert self._link is not None
        assert self._link.connection.agent is not None
        takes_images = self._link.connection.agent.agent_capabilities.prompt_capabilities.image
        content = (Text(said.content),) if isinstance(said.content, str) else said.content
        blocks: list[acp.Block] = []
        for part in content:
            if isinstance(part, Text):
                blocks.append(acp.Text(text=part.text))
            elif takes_images:
                blocks.append(acp.Image(data=part.data, mime_type=part.mime_type))
            else:
                self._tell(events.Noticed(self.id, f"{self.agent} takes no images: one is left out"))
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

    # --- starting an agent ----------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Have an agent with an open session. Each step is seen from the connection's state, so that another
        daemon can go on in the middle. Raises HostedError."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                if self._stopping is not None:
                    await asyncio.wait([self._stopping])
                if self._link is None:
                    await self._start()
                while not self._is_open():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            why = f"it did not open a session within {OPEN_SECONDS:g} s"
            self.failed(why)
            raise HostedError(f"{self.agent}: {why}") from None

    async def _start(self) -> None:
        self._fault = ""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._started())
        await asyncio.shield(self._starting)

    async def _started(self) -> None:
        """Start the program, also if nobody waits for it any more."""
        self._attach(await self._agents.start(self))

    def _attach(self, pipe: Pipe) -> None:
        """Go on with an agent's program from the state that its keeper has."""
        kept = decode(pipe.blob) if pipe.blob is not None else None
        self._link = link = AgentLink(pipe, self, kept)
        self._doings.begin(str(pipe.note.get("run", "")), link.work)
        self.is_answering = self._awaits = self._is_prompted
        self._over.clear()
        self._take_window()
        self._take_model()
        link.begin()
        if pipe.blob is not None and kept is None:
            self.failed("it was started by another version of fairlead")
        for id in [id for id in self.work.asked if id not in self.approvals]:  # answered, and maybe not told
            self._answer(id, self._approvals.choice_for(id) or "")

    def _is_open(self) -> bool:
        """Take the next step towards an open session; true if there is nothing left to do. Raises
        HostedError."""
        link = self._link
        if link is None:
            raise HostedError(self._fault or f"{self.agent} ended")
        work, agent = self.work, link.connection.agent
        if agent is None:
            if not link.is_open("initialize"):
                link.request(
                    acp.Initialize(
                        protocol_version=acp.VERSION,
                        client_info=acp.Implementation(name="fairlead", version=_version()),
                    )
                )
            return False
        if link.is_open("session/new", "session/load", "session/resume", *_SETTING):
            return False
        if not work.session:
            self._open_session(link, agent)
            return False
        if not work.is_configured:
            work.is_configured = True
            return self._configure(link)
        return True

    def _open_session(self, link: AgentLink, agent: acp.InitializeResult) -> None:
        known, cwd = str(self.chosen.get("session") or ""), str(self.cwd)
        can = agent.agent_capabilities
        if known and not self.work.is_asked_to_open:
            self.work.is_asked_to_open = True
            if can.session_capabilities.resume is not None:
                link.request(acp.ResumeSession(session_id=known, cwd=cwd))
                return
            if can.load_session:
                self.work.is_replaying = True
                link.request(acp.LoadSession(session_id=known, cwd=cwd, mcp_servers=()))
                return
            self._begins_anew(f"{self.agent} can't resume a session")
        link.request(acp.NewSession(cwd=cwd, mcp_servers=()))

    def _begins_anew(self, why: str) -> None:
        self._tell(
            events.Noticed(self.id, f"{why}: it begins a new one, and does not know what was said before")
        )

    def _configure(self, link: AgentLink) -> bool:
        """Set what is wanted and differs. True if there is nothing to set."""
        described = self._agents.describe(self)
        mode = str(self.chosen.get("mode") or described.mode)
        model = str(self.chosen.get("model") or described.model)
        wanted: list[Any] = []
        if mode and mode != self.mode:
            if mode in self.modes:
                wanted.append(acp.SetMode(session_id=self.work.session, mode_id=mode))
            else:
                known = ", ".join(self.modes) or "none"
                self._tell(events.Noticed(self.id, f"{self.agent} has no mode {mode!r}; there are {known}"))
        option = self._option("model")
        if model and option is not None and model != option.current_value:
            wanted.append(acp.SetConfigOption(session_id=self.work.session, config_id=option.id, value=model))
        for params in wanted:
            link.request(params)
        return not wanted

    # --- what the agent says --------------------------------------------------------------------------------

    def handle(self, item: acp.Item) -> None:
        assert self._link is not None
        self._doings.at(self._link.at)
        match item:
            case acp.Notification(params=acp.SessionUpdate() as update):
                self._updated(update)
            case acp.Answer():
                self._answered(item)
            case acp.Request(params=acp.RequestPermission() as asked):
                self._asked(item.id, asked)
            case acp.Request():
                code = acp.ErrorCode.METHOD_NOT_FOUND
                self._link.send(self._link.connection.fail(item.id, code, f"{item.method} was not offered"))
            case acp.Failure():
                self._request_failed(item)
            case acp.Refused(reason=reason, reply=reply):
                log.debug("%s of %s: %.300s", self.agent, self.id, reason)
                self._link.send(reply)
            case acp.Notification(params=acp.CancelRequest() as cancelled):
                self._withdrawn(cancelled.request_id)
            case Broken():
                self.failed(str(item))
        self._news.set()

    def keep(self, work: Work) -> None:
        work.pieces = self._doings.answer.pieces

    def _updated(self, update: acp.SessionUpdate) -> None:
        work, in_turn = self.work, self._is_prompted
        if work.session and update.session_id != work.session:
            return
        match update.update:
            case acp.AvailableCommands(available_commands=commands):
                work.commands = commands
            case acp.CurrentMode(current_mode_id=mode):
                self._take_mode(mode)
            case acp.ConfigOptionsChanged(config_options=options):
                self._take_options(options)
            case acp.UsageChanged(used=used, size=size):
                work.used, work.window = used, size
                self._take_window()
            case _ if work.is_replaying or not work.session:
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
                self._tell(events.Noticed(self.id, ": ".join(filter(None, (title, more)))))

    def _answered(self, answer: acp.Answer) -> None:
        work = self.work
        match answer.result:
            case acp.NewSessionResult(session_id=id, modes=modes, config_options=options):
                self._opened(id, modes, options)
            case acp.OpenSessionResult(modes=modes, config_options=options):
                work.is_replaying = False
                self._opened(answer.session or "", modes, options)
            case acp.SetConfigOptionResult(config_options=options):
                self._take_options(options)
            case acp.PromptResult(stop_reason=reason, usage=used):
                self._turn_ended(reason, used)
            case acp.Empty() if answer.method == "session/set_mode":
                self._take_mode(str(self.chosen.get("mode") or self._agents.describe(self).mode))

    def _opened(self, id: str, modes: acp.Modes | None, options: tuple[acp.ConfigOption, ...] | None) -> None:
        self.work.session = id
        if self.chosen.get("session") != id:
            self.choose(session=id)
        self.work.modes = modes or self.work.modes
        if options is not None:
            self._take_options(options)

    def _take_mode(self, mode: str) -> None:
        if self.work.modes is not None and self.work.modes.current_mode_id != mode:
            self.work.modes = acp.Modes(current_mode_id=mode, available_modes=self.work.modes.available_modes)
            self._tell(events.Updated(self.id))

    def _take_options(self, options: tuple[acp.ConfigOption, ...]) -> None:
        self.work.options = options
        self._take_model()
        self._tell(events.Updated(self.id))

    def _take_model(self) -> None:
        option = self._option("model")
        if option is not None and isinstance(option.current_value, str):
            value = option.current_value
            self.model = ModelInfo(self.agent, value, value, window=self.work.window)

    def _take_window(self) -> None:
        self.model = ModelInfo(self.agent, self.model.id, self.model.name, window=self.work.window)

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

    def _request_failed(self, failure: acp.Failure) -> None:
        why = self._agents.clean(visible(failure.error.message))[:MAX_STDERR]
        match failure.method:
            case "session/prompt":
                failed = Ending("failed", "error", f"{self.agent}: {why}")
                self._end_turn(ABORTED if self.work.stopping else failed)
            case "session/load" | "session/resume":
                self.work.is_replaying = False
                self._begins_anew(f"{self.agent} can't resume the session: {why}")
            case "session/set_mode" | "session/set_config_option":
                self._tell(events.Noticed(self.id, f"{self.agent}: {why}"))
            case _:
                if failure.error.code == acp.ErrorCode.AUTH_REQUIRED:
                    why = f"{why}: log in with its own program first"
                self.failed(why)

    # --- ends -----------------------------------------------------------------------------------------------

    def _turn_ended(self, reason: str, used: acp.Usage | None) -> None:
        usage = NOTHING_USED
        if used is not None:
            usage = Usage(
                used.input_tokens,
                used.output_tokens,
                used.cached_read_tokens or 0,
                used.cached_write_tokens or 0,
                used.total_tokens,
            )
        ending = _ENDINGS.get(reason, DONE)
        if ending.stop == "error":
            ending = ending._replace(error=f"{self.agent}: {ending.error}")
        self._end_turn(ending, usage)

    def _end_turn(self, ending: Ending, usage: Usage = NOTHING_USED, why: str = UNENDED_CALL) -> None:
        """Nothing more comes of what the agent was told. Calls that are open end with `why`."""
        for request in self._doings.withdraw("the turn ended"):
            if self._link is not None and request in self._link.connection.theirs:
                answer = acp.PermissionResult(outcome=acp.Cancelled())
                self._link.send(self._link.connection.respond(request, answer))
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
        if self._link is not None and not self._failing:
            self._failing = why
            self._stopping = asyncio.ensure_future(self._stop(self._link.pipe))

    async def _stop(self, pipe: Pipe) -> None:
        try:
            await pipe.stop(STOP_GRACE)
        except PipeError as error:
            log.error("%s of session %s: %s", self.agent, self.id, error)
            if self._link is not None and self._link.pipe is pipe:
                self._link.ended(Ended(0, 0, b"", str(error)))

    def ended(self, end: Ended) -> None:
        link = self._link
        if link is None:
            return
        why = f"{self.agent}: {self._failing}" if self._failing else self._described(end)
        self._failing, self._ends_as = "", "failed"
        self._doings.at(link.at)
        with contextlib.suppress(JournalError):  # then the next daemon says it
            if self._is_prompted:
                is_stopped = bool(self.work.stopping)
                self._link = None
                self._doings.withdraw(GONE)
                failed = Ending("failed", "error", why)
                self._end_turn(ABORTED if is_stopped else failed, why=LOST_CALL)
            self._link = None
            self._doings.end()
        self._link, self._fault = None, why
        self._agents.forget(link.pipe)
        self._over.set()
        self._news.set()
        self._tell(events.Updated(self.id))

    def _described(self, end: Ended) -> str:
        how = end.failure or (f"signal {end.signal}" if end.signal else f"exit code {end.code}")
        said = self._agents.clean(visible(end.stderr.decode("utf-8", "replace").strip()))
        tail = middle(said, MAX_STDERR)
        return f"{self.agent} ended with {how}" + (f": {tail}" if tail else "")


def _age(said: User) -> float:
    return time.time() - said.timestamp / 1000


def _chosen(approval: Approval, option: str) -> Choice:
    found = next((each for each in approval.choices if each.value == option), None)
    if found is None:
        known = ", ".join(each.value for each in approval.choices)
        raise Refused(f"{option!r} is no answer to {approval.id}; it takes {known}")
    return found


def _values(option: acp.ConfigOption) -> list[tuple[str, str]]:
    """The values that an option can have, and their names."""
    single = [(each.value, each.name) for each in option.options if each.value is not None]
    return single + [(inner.value, inner.name) for each in option.options for inner in each.options or ()]


def _last_prompts(branch: Sequence[Entry]) -> list[str]:
    """The ids of the prompts that the last run answers."""
    found: list[str] = []
    for entry in reversed(branch):
        message = entry.body.message if isinstance(entry.body, Said) else None
        if isinstance(message, User):
            if isinstance(message.prompt, str):
                found.append(message.prompt)
            if not message.origin:
                break
    return found[::-1]


def _version() -> str:
    from .. import __version__

    return __version__
