"""Turns of agents that run in terminals: told by their hooks, checked and sent back like any other.

`fairlead hook` reports when a person has asked such an agent for something and when it has answered; how a
correction gets to it is in `corrections.py`. How far one has got is posted to the feed. Other agents in the
same terminal, such as those that the agent itself has started, have no turns here.

What is known of a session's turns is in a file of its own, so that the next daemon knows it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from ..sessions import feed
from ..sessions.endings import SessionEnding, ending_in
from ..sessions.feed import Feed
from ..sessions.inbox import calling_agent
from ..sessions.timeline import MAX_TOOLS, FormerTurns, HookedTool, correction_reason
from ..system.files import replace_file
from ..system.opening import read_file
from ..system.processes import depth_below, foreground, running
from ..wire.jsonrpc import json_bytes
from ..wire.verifier import Outcome
from . import corrections
from .corrections import RETURN_WAIT, Delivery
from .host import HostError, TerminalHost
from .ports import ProgramState
from .served import ServedHooks
from .session import TerminalSession
from .submitting import Submitter, Submitters
from .transcript_lines import TooMany, TranscriptLines

log = logging.getLogger("fairlead")

MAX_TURNS = 200
"""How many turns of a session are known; older ones are forgotten."""
MAX_PROMPT = 64 * 1024
"""How many characters of a prompt are kept,"""
MAX_PROMPTS = 128 * 1024
"""and of all together, the last ones; what is known of turns is written anew with each of them,"""
MAX_EARLIER = 200
"""and of each before these."""
MAX_KNOWN = 64 * 1024 * 1024
"""How many bytes of the file are read in which a session's turns are kept: older daemons wrote large ones."""
FORMER, MAX_FORMER = "former", 200
"""Where the turns of sessions are that are gone, and of how many."""
MAX_TITLE = 160
"""How many characters of a tool's name, and of a call's id, are kept."""
MAX_STOP_WAIT = 3600.0
"""Seconds that a stop hook may wait for what verifiers say."""


LOOK_SECONDS = 1.0
"""How often an agent that works is looked at, and its transcript: one that a person stops calls no hook."""
IDLE_SECONDS = 10.0
"""Seconds that its screen must be idle until its turn has ended without a hook."""

Tell = Callable[[str, Mapping[str, Any]], None]
"""Tells clients: a topic of terminals and its data."""
Hooked = Callable[[str, str, str, str, str], None]
"""Tells what a hook says: the session's id, the event, the words, the call, and the sub-agent."""
Judged = Callable[[str, float], Coroutine[Any, Any, None]]
"""Waits until a session's verifiers have reported on its last stop; those that were there before a restart
have so many seconds to come back."""


class TerminalTurn(Struct, frozen=True):
    """A turn of an agent in a terminal. Lines are those of its transcript, if it has one."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int = 0
    outcome: Outcome = "aborted"
    """How it ended. An agent that a person stops calls no hook, so that is what a turn is until it does."""
    fault: str = ""
    began: float = 0.0
    """When it began, in seconds since 1970,"""
    ended: float = 0.0
    """and when its last run ended; 0 if that is not known."""


class KnownTurns(corrections.KnownAgentInput, kw_only=True):
    """All that is known of a session's turns."""

    began: float
    """When the session began: another one of the same name is another session."""
    project: str = ""
    """The directory that it was started in."""
    turns: list[TerminalTurn] = field(default_factory=list)
    ended: float = 0.0
    """When the last turn ended, in seconds since 1970."""
    conversation: str = ""
    """The agent's own id of its conversation, if it tells one."""
    depth: int | None = None
    """How many processes its hooks are below it; those of agents that it starts are deeper."""
    tools: list[HookedTool] = field(default_factory=list)
    """The last tools that its hooks told of; written down when something else is."""


class LiveTerminal:
    """A terminal session whose agent reports its turns: they can be followed, checked and sent back."""

    kind = "terminal"
    model = ""

    def __init__(
        self, submitter: Submitter, known: KnownTurns, path: str, feed: Feed, begin_wait: float
    ) -> None:
        session = submitter.session
        self.id = self.name = session.id
        self.project = session.cwd
        self.began = session.started_at
        self.known = known
        self._session = session
        self._path = path
        self._feed = feed
        self.delivery = Delivery(
            submitter,
            known,
            begin_wait=begin_wait,
            told=self._receipt,
            begun=self._sent_back,
            save=self._save,
        )

    @property
    def file(self) -> str:
        return self.known.file

    @property
    def as_agent(self) -> str:
        """What it is called as an agent that must not answer for a person."""
        return f"{self.known.agent or 'the agent'} in session {self.id}"

    @property
    def is_working(self) -> bool:
        return self.known.is_working

    @property
    def is_over(self) -> bool:
        """Whether the session's program has ended."""
        return self._session.state is ProgramState.ENDED

    @property
    def turns(self) -> list[TerminalTurn]:
        turns = list(self.known.turns)
        if turns:
            sent_back = turns[-1].corrections + self.delivery.pending
            turns[-1] = msgspec.structs.replace(turns[-1], corrections=sent_back)
        return turns

    # --- hooks ----------------------------------------------------------------------------------------------

    def is_other(self, conversation: str, hook: int | None) -> bool:
        """Whether a hook is of another agent in this terminal: one that ours has started, or in the
        background. A new conversation of ours is none: its hooks are called by the same program.
        """
        known = self.known
        if not conversation or not known.conversation or conversation == known.conversation:
            return False
        front = foreground(self._session.pid)
        if front is None:
            return known.is_working
        if front != known.program:
            return False
        depth = depth_below(hook, front.pid) if hook is not None else None
        if depth is None or known.depth is None:
            return known.is_working or hook is not None
        return depth > known.depth

    def started(
        self, agent: str, prompt: str, file: str, lines: int, conversation: str, hook: int | None
    ) -> bool:
        """The agent was asked for something; tells whether it was by a person."""
        known = self.known
        known.agent, known.file, known.conversation = agent, file, conversation
        known.program = foreground(self._session.pid)
        known.depth = depth_below(hook, known.program.pid) if hook and known.program else None
        self.delivery.hooked()
        is_correction = self.delivery.is_sent(prompt) and bool(known.turns)
        if is_correction:
            self.delivery.went_on()
            last = known.turns[-1]
            known.turns[-1] = msgspec.structs.replace(
                last, last_line=max(last.last_line, lines + 1), outcome="aborted", fault="", ended=0.0
            )
        else:
            number = known.turns[-1].number + 1 if known.turns else 1
            turn = TerminalTurn(number, prompt[:MAX_PROMPT], lines + 1, lines + 1, began=time.time())
            known.turns = bounded([*known.turns, turn])
            self.delivery.superseded()
        known.is_working = True
        self._save()
        return not is_correction

    def stopped(self, file: str, lines: int) -> TerminalTurn | None:
        """The agent has answered."""
        known = self.known
        if known.sent is not None and known.sent.how == "hook":
            self.delivery.went_on()  # this is the end of it
        known.is_working = False
        known.ended = time.time()
        known.file = file or known.file
        if not known.turns:
            return None
        last = known.turns[-1]
        outcome, fault = ending_in(known.file) if known.file else SessionEnding("done")
        known.turns[-1] = msgspec.structs.replace(
            last,
            last_line=max(last.first_line, lines),
            outcome="done" if outcome in (None, "lost") else outcome,  # its hook says that it has ended
            fault=fault,
            ended=known.ended,
        )
        self._save()
        return known.turns[-1]

    def aborted(
        self, lines: int, outcome: Outcome = "aborted", why: str = "a person has stopped the agent"
    ) -> TerminalTurn:
        """A person has stopped the agent, or it has ended."""
        self.known.is_working = False
        self.known.ended = time.time()
        last = self.known.turns[-1]
        self.known.turns[-1] = msgspec.structs.replace(
            last, last_line=lines, outcome=outcome, ended=self.known.ended
        )
        self.delivery.superseded(why)
        self._save()
        return self.known.turns[-1]

    def failed(self, fault: str) -> TerminalTurn | None:
        """The agent could not answer. It can be asked again."""
        self.known.is_working = False
        turns = self.known.turns
        if turns:
            turns[-1] = msgspec.structs.replace(turns[-1], outcome="failed", fault=fault, ended=time.time())
        self.delivery.go_on()
        return turns[-1] if turns else None

    def tool(self, words: str, call: str, *, is_over: bool) -> None:
        """The agent runs a tool, or has run it. The words are the event's name and the tool's."""
        known, title = self.known, words.partition(" ")[2] or words
        if not known.turns or not known.is_working:
            return
        if not is_over:
            number = known.turns[-1].number
            known.tools.append(HookedTool(number, time.time(), title[:MAX_TITLE], call[:MAX_TITLE]))
            del known.tools[:-MAX_TOOLS]
            return
        for each in reversed(known.tools):
            if not each.ended and (each.call == call[:MAX_TITLE] if call else True):
                each.ended = time.time()
                return

    # --- corrections ----------------------------------------------------------------------------------------

    def correct(self, text: str, *, steer: bool) -> None:
        """Give a correction to the agent, or keep it until the agent is done: a turn that runs is never
        steered. Raises ValueError, with why not."""
        try:
            self.delivery.correct(text)
        except ValueError as error:
            self._receipt("not-delivered", str(error))
            raise

    def _sent_back(self, text: str) -> None:
        """The agent goes on with a correction."""
        if self.known.turns:
            last, now = self.known.turns[-1], time.time()
            why = correction_reason(text)
            self.known.tools.append(HookedTool(last.number, now, why[:MAX_TITLE], "", now, "correction"))
            del self.known.tools[:-MAX_TOOLS]
            self.known.turns[-1] = msgspec.structs.replace(last, corrections=last.corrections + 1)

    def _receipt(self, state: str, reason: str) -> None:
        self._feed.post(feed.CorrectionSent(self.id, state, reason))

    def _save(self) -> None:
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            replace_file(self._path, json_bytes(self.known))
        except OSError as error:
            log.warning("the turns of %s can't be kept: %s", self.id, error)


class TerminalTurns:
    """The turns of all terminal sessions. `directory` has the files; in `begin_wait` seconds an agent must go
    on with a correction."""

    def __init__(
        self,
        host: TerminalHost,
        directory: str,
        feed: Feed,
        tell: Tell,
        judged: Judged,
        hooked: Hooked,
        submitters: Submitters,
        *,
        begin_wait: float,
    ) -> None:
        self._submitters = submitters
        self._begin_wait = begin_wait
        self._host = host
        self._directory = directory
        self._feed = feed
        self._tell = tell
        self._judged = judged
        self._hooked = hooked
        self._live: dict[str, LiveTerminal] = {}
        self._transcripts = TranscriptLines()
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._served = ServedHooks(lambda: list(host.sessions.values()), submitters, self._conversation_of)

    def opened(self, session: TerminalSession) -> None:
        """A session is there: if an agent in it has had turns, verifiers may come again."""
        if _read(self._path(session), session.started_at) is not None:
            live = self.live(session)
            live.delivery.resume()
            self._look(live)
        else:
            by_agent = bool(session.note.get("started_by"))
            self._feed.post(feed.Created(session.id, session.started_at, by_agent))

    def closed(self, session: TerminalSession) -> None:
        """A session is forgotten."""
        if (looking := self._looking.pop(session.id, None)) is not None:
            looking.cancel()
        if self._live.pop(session.id, None) is not None:
            self._feed.post(feed.Closed(session.id))
            with contextlib.suppress(OSError):
                self._lay_aside(session)

    def _lay_aside(self, session: TerminalSession) -> None:
        """Keep what is known of a session's turns for its timeline, as long as few others have gone since."""
        aside = f"{self._directory}/{FORMER}"
        os.makedirs(aside, mode=0o700, exist_ok=True)
        os.replace(self._path(session), f"{aside}/{session.id}.json")
        with os.scandir(aside) as found:
            kept = sorted(((each.stat().st_mtime, each.path) for each in found), reverse=True)
        for _, path in kept[MAX_FORMER:]:
            os.unlink(path)

    def former(self, id: str) -> FormerTurns | None:
        """The turns of the last session of this name that is gone. Reads a file."""
        if not id or "/" in id or not id.isprintable():  # no name of a session, and perhaps another file
            return None
        for path in (f"{self._directory}/{FORMER}/{id}.json", f"{self._directory}/{id}.json"):
            if (known := _read(path)) is not None:
                return FormerTurns(
                    id, known.project, known.agent, known.file, known.began, known.turns, known.tools
                )
        return None

    def _conversation_of(self, id: str) -> tuple[str, str]:
        live = self._live.get(id)
        return (live.known.agent, live.known.conversation) if live is not None else ("", "")

    async def about(
        self, name: str, agent: str, owner: int | None, conversation: str, prompt: str = ""
    ) -> tuple[str, bool]:
        """The session that a hook is about, and whether its agent's server has called it: then the `name` in
        its environment is that of the terminal which was the server's first. Raises HostError."""
        if not await self._served.is_served(owner, name, self._host.sessions.get(name), agent):
            return name, False
        found = await self._served.find(agent, conversation, prompt)
        if found is None:
            log.warning("a hook of %s that speaks for %s is of no session that is known", agent, name)
            raise HostError("missing", f"{agent}'s server called it, and it is not known for which session")
        return found.id, True

    async def report(
        self,
        name: str,
        event: str,
        agent: str = "",
        prompt: str = "",
        path: str = "",
        session_id: str = "",
        owner: int | None = None,
        request_id: str = "",
        timeout: float = 0.0,
        call: str = "",
        subagent: str = "",
    ) -> Mapping[str, Any]:
        """A hook reports that a turn began, ended (it may wait for a correction) or failed, or what else the
        agent does. Returns what the hook is answered. Raises HostError."""
        try:
            asked = prompt if event == "start" else ""
            name, is_served = await self.about(name, agent, owner, session_id, asked)
        except HostError as error:
            if error.kind != "missing" or name not in self._host.sessions:
                raise
            return {"accepted": False, "reason": str(error)}
        session = self._host.find(name)
        is_turn = event in ("start", "stop", "error")
        seen = self.live(session) if is_turn else self._live.get(session.id)
        if seen is not None and not is_served and seen.is_other(session_id, owner):
            return {"accepted": False, "reason": "it is of another agent that runs in this terminal"}
        is_checked = event == "stop" and timeout > 0
        told = ("checked", "its work is checked") if is_checked else (event, prompt)
        self._hooked(session.id, *told, call, subagent)
        if seen is not None and event in ("tool", "tool-ended") and not subagent:
            seen.tool(prompt, call, is_over=event == "tool-ended")
        if seen is not None and event == "session-ended" and seen.known.is_working and seen.known.turns:
            # of a failed turn no other hook may tell
            self._ended(seen, seen.aborted(seen.known.turns[-1].last_line))
        if seen is None or not is_turn:
            return {"accepted": True}
        live, known = seen, seen.known
        try:
            lines = await self._transcripts.count(path or known.file)
        except TooMany as error:
            raise HostError("failed", str(error)) from None

        def start(after: float | None = None) -> None:
            is_asked = live.started(agent, prompt, path, lines, session_id, owner)
            self._look(live)
            if is_asked:  # by a person
                is_own = calling_agent.get() in ("", session.note.get("typed_by"), live.as_agent)
                by_person = is_own and not session.is_typed_by_agent
                session.is_typed_by_agent = False
                self._feed.post(feed.TurnBegan(session.id, known.turns[-1], after, by_person))
                self._tell_turn("terminal/turn-began", live)

        match event:
            case "start":
                known.tells_starts = True
                start()
                await self._feed.let_begin(session.id)  # the agent waits for its hook
            case "stop":
                submitter = self._submitters.of(session)
                submitter.is_checked = is_checked
                is_again = bool(request_id) and request_id == known.call  # the daemon asked first is gone
                known.call = request_id
                if not is_again:
                    if prompt and not known.tells_starts:
                        start(known.ended or session.started_at)
                    if (turn := live.stopped(path, lines)) is not None:
                        self._tell_turn("terminal/turn-ended", live)
                        self._feed.post(feed.TurnEnded(session.id, turn))
                correction = ""
                try:
                    correction = await self._correction(live, is_again, min(timeout, MAX_STOP_WAIT))
                finally:
                    if correction:
                        self._feed.post(feed.WentOn(session.id))
                    submitter.is_checked = False
                    if is_checked:
                        said = "a check has sent it back" if correction else prompt
                        self._hooked(session.id, "sent-back" if correction else "stop", said, call, subagent)
                number = known.turns[-1].number if known.turns else 0
                return {"accepted": True, "turn": number, "correction": correction or None}
            case _:
                fault = prompt or "an error"
                failed = live.failed(fault)
                self._feed.post(feed.Failed(session.id, fault))
                if failed is not None:
                    self._feed.post(feed.TurnEnded(session.id, failed))
        return {"accepted": True, "turn": known.turns[-1].number if known.turns else 0}

    def _look(self, live: LiveTerminal) -> None:
        """Notice it when a person stops the agent, or it ends: it calls no hook then."""
        if (before := self._looking.pop(live.id, None)) is not None:
            before.cancel()
        if live.known.is_working and live.known.turns:
            self._looking[live.id] = asyncio.get_running_loop().create_task(self._notice_abort(live))

    async def _notice_abort(self, live: LiveTerminal) -> None:
        turn, path, seen = live.known.turns[-1], live.known.file, -1
        idle_since = 0.0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not live.known.is_working:
                return
            program = live.known.program
            if live.is_over or (
                program is not None and await asyncio.to_thread(running, program.pid) != program
            ):
                self._ended(live, live.aborted(turn.last_line, "lost", "the agent's program ended"))
                return
            idle_since = (idle_since or time.monotonic()) if self._submitters.is_idle(live.id) else 0.0
            if idle_since and time.monotonic() - idle_since >= IDLE_SECONDS:
                self._ended(live, live.aborted(turn.last_line))
                return
            if not path:
                continue
            with contextlib.suppress(OSError, TooMany):
                if (size := os.stat(path).st_size) == seen:
                    continue
                seen = size
                lines = await self._transcripts.count(path)
                newest = lines - turn.first_line + 1  # those of this turn
                if newest < 1:
                    continue
                ending = await asyncio.to_thread(ending_in, path, newest=newest)
                if ending.outcome == "aborted" and live.known.is_working:
                    self._ended(live, live.aborted(lines))
                    return

    def _ended(self, live: LiveTerminal, turn: TerminalTurn) -> None:
        self._tell_turn("terminal/turn-ended", live)
        self._feed.post(feed.TurnEnded(live.id, turn))

    async def _correction(self, live: LiveTerminal, is_again: bool, seconds: float) -> str:
        """The agent has answered. A hook that waits is answered with the correction that is due, if any."""
        known = live.known
        if not seconds:
            live.delivery.go_on()
        elif is_again and known.sent is not None and known.sent.how == "hook":
            return known.sent.text  # it was decided, but the hook did not receive it
        elif known.turns:
            judged = self._judged(live.id, RETURN_WAIT if is_again else 0.0)
            return await live.delivery.answer(judged, seconds)
        return ""

    def _tell_turn(self, topic: str, live: LiveTerminal) -> None:
        self._tell(topic, {"name": live.id, "turn": live.known.turns[-1].number, "agent": live.known.agent})

    def agent_programs(self) -> dict[int, str]:
        """The programs that reported turns and still run, each with what it is called as an agent."""
        found = ((each, each.known.program) for each in list(self._live.values()))  # another thread may ask
        return {
            program.pid: each.as_agent
            for each, program in found
            if program is not None and running(program.pid) == program
        }

    def live(self, session: TerminalSession) -> LiveTerminal:
        """A session whose turns are followed from now on."""
        found = self._live.get(session.id)
        if found is None or found.known.began != session.started_at:
            path = self._path(session)
            known = _read(path, session.started_at) or KnownTurns(began=session.started_at)
            known.project = session.cwd
            submitter = self._submitters.of(session)
            found = LiveTerminal(submitter, known, path, self._feed, self._begin_wait)
            self._live[session.id] = found
            self._feed.post(feed.Closed(session.id))
            self._feed.post(feed.Opened(session.id, found))
        return found

    def seen(self, id: str) -> LiveTerminal | None:
        """A session, if its turns are followed."""
        return self._live.get(id)

    def _path(self, session: TerminalSession) -> str:
        return f"{self._directory}/{session.id}.json"


def bounded(turns: Sequence[TerminalTurn]) -> list[TerminalTurn]:
    """The last turns, with as much of their prompts as has room: the last one's is whole."""
    left, found = MAX_PROMPTS, list[TerminalTurn]()
    for turn in reversed(turns[-MAX_TURNS:]):
        size = len(turn.prompt)
        if size > max(MAX_EARLIER, left) and found:
            turn = msgspec.structs.replace(turn, prompt=f"{turn.prompt[: MAX_EARLIER - 1]}…")
        left -= size
        found.append(turn)
    return found[::-1]


def _read(path: str, began: float | None = None) -> KnownTurns | None:
    """What is known, if it is of the session that began then, or of any."""
    try:
        known = msgspec.json.decode(read_file(path, MAX_KNOWN), type=KnownTurns)
    except (OSError, msgspec.DecodeError):
        return None
    return known if began in (None, known.began) else None
