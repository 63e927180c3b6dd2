"""Terminal sessions as one of the kinds that the directory has."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..formats.shown import one_line
from ..sessions.directory import NoSession, NotSupported, Summary
from ..sessions.feed import Exited, Feed, Signalled
from ..sessions.session import PastPrompt, Prompt, PromptStage, Receipt, new_id
from ..sessions.timeline import FormerTurns, HooksTold
from ..system import processes
from .host import HostError, TerminalHost
from .lines import kept
from .ports import ProgramState, TerminalEvent
from .prompting import TerminalPrompts
from .session import TerminalSession
from .state.tracker import Trackers
from .submitting import Submitters
from .transcripts import TranscriptFigures
from .turns import LiveTerminal, TerminalTurns
from .usage import ProcessUsage, Usages

_STANDING = {ProgramState.ENDED: "has ended", ProgramState.WAITING: "has not been started yet"}
MAX_LISTED_PROMPT = 200
"""How many characters of the last prompt that an agent's hooks told are listed."""
MAX_UNTYPED = 1024 * 1024
"""How many bytes may wait for a program that does not read before more is refused."""


class TerminalKind:
    """The sessions of a host."""

    name = "terminal"
    gives_ids = False

    def __init__(
        self,
        host: TerminalHost,
        turns: TerminalTurns,
        feed: Feed,
        trackers: Trackers,
        prompts: TerminalPrompts,
        submitters: Submitters,
    ) -> None:
        self._host = host
        self._prompts = prompts
        self._submitters = submitters
        self._trackers = trackers
        self._turns = turns
        self._feed = feed
        self._usages = Usages()
        self._transcripts = TranscriptFigures()

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        sessions = list(self._host.sessions.values())
        used: Mapping[int, ProcessUsage] = {}
        if not brief:
            running = {each.pid: each.started_at for each in sessions if each.state is ProgramState.RUNNING}
            with contextlib.suppress(OSError):  # the list is worth more than what they use
                used = await asyncio.to_thread(self._usages.look, running)
            if files := self._files(sessions):
                await asyncio.to_thread(self._transcripts.look, files)
            sessions = [each for each in sessions if each in self._host]  # some may have gone meanwhile
        found = [self._summary(each, used.get(each.pid)) for each in sessions]
        for number, each in enumerate(sessions):
            stray = each.stray
            if stray is not None and await asyncio.to_thread(processes.running, stray.pid) == stray:
                more = {**found[number].more, "stray_pid": stray.pid}
                found[number] = msgspec.structs.replace(found[number], more=more)
        return found

    def _files(self, sessions: Sequence[TerminalSession]) -> dict[str, str]:
        """The transcripts of the agents in sessions, as their hooks have told."""
        lives = {each.id: self._turns.seen(each.id) for each in sessions}
        return {id: live.file for id, live in lives.items() if live is not None and live.file}

    async def find(self, word: str, *, every: bool) -> Sequence[Summary]:
        session = self._host.sessions.get(word)
        return [self._summary(session, None)] if session is not None else []

    def _summary(self, session: TerminalSession, usage: ProcessUsage | None) -> Summary:
        tracker = self._trackers.of(session.id)
        rules = tracker.agent if tracker is not None else None
        found = summary(session, usage, rules.agent if rules is not None else "")
        if (live := self._turns.seen(session.id)) is not None and (turns := live.turns):
            prompt = one_line(turns[-1].prompt[: 4 * MAX_LISTED_PROMPT], MAX_LISTED_PROMPT)
            found = msgspec.structs.replace(
                found, more={**found.more, "prompt": prompt} if prompt else found.more
            )
        if (use := self._transcripts.of(session.id)) is not None:
            used_up = {"cost": round(use.cost, 6), "tokens": use.tokens, "context_tokens": use.context_tokens}
            more = {**found.more, **{name: each for name, each in used_up.items() if each}}
            found = msgspec.structs.replace(found, more=more)
        if (queue := self._prompts.get(session.id)) is None or not (waiting := len(queue.waiting)):
            return found
        return msgspec.structs.replace(found, more={**found.more, "queued": waiting})

    def name_of(self, id: str) -> str | None:
        return id if id in self._host.sessions else None

    def happened(self, session: TerminalSession, event: TerminalEvent) -> None:
        """Post what concerns more than those who look at a terminal."""
        match event.topic:
            case "terminal/exited":
                self._feed.post(Exited(session.id, event.data["exit_code"]))
            case "terminal/bell" | "terminal/notification" as topic:
                details = {key: value for key, value in event.data.items() if key != "name"}
                self._feed.post(Signalled(session.id, topic.partition("/")[2], details))

    def weighed(self, id: str) -> Sequence[Mapping[str, Any]]:
        self._session(id)
        tracker = self._trackers.of(id)
        found = tracker.weighed if tracker is not None else ()
        return [
            {**msgspec.to_builtins(each.evidence), "question": each.question, "fate": each.fate}
            for each in found
        ]

    def _session(self, id: str) -> TerminalSession:
        try:
            return self._host.find(id)
        except HostError as error:
            raise NoSession(str(error)) from None

    async def stop(self, id: str) -> Mapping[str, Any]:
        session = self._session(id)
        try:
            code = await self._host.stop(id)
        except HostError as error:
            raise NotSupported(str(error)) from None
        if session in self._host:
            self._host.forget(session)  # who stops a session doesn't want to look at it any more
        return {"exit_code": code}

    async def remove(self, id: str) -> Mapping[str, str]:
        """Forget a program that has ended."""
        session = self._session(id)
        if session.state is not ProgramState.ENDED:
            raise NotSupported(f"{id} is {session.state.value}; `fairlead stop {id}` ends and removes it")
        self._host.forget(session)
        return {}

    async def prompt(self, id: str, prompt: Prompt) -> int | None:
        """Submit it when its agent is idle and shows its empty input."""
        return await self._prompts.of(self._running(id)).add(prompt)

    async def receipt(self, id: str, prompt: str) -> Receipt | None:
        return self._prompts.of(self._session(id)).receipt(prompt)

    async def receipts(self, id: str) -> Sequence[PastPrompt]:
        return self._prompts.of(self._session(id)).past

    async def withdraw(self, id: str, prompt: str, reason: str) -> bool:
        return await self._prompts.of(self._session(id)).withdraw(prompt, reason)

    def told_by_hooks(self, id: str) -> HooksTold:
        self._session(id)
        live, queue = self._turns.seen(id), self._prompts.get(id)
        prompts = queue.timed if queue is not None else ()
        return HooksTold(live, prompts, tuple(live.known.tools) if live is not None else ())

    def former(self, id: str) -> FormerTurns | None:
        return self._turns.former(id)

    async def reached(self, id: str, prompt: str, stage: PromptStage) -> None:
        queue = self._prompts.of(self._session(id))
        while (receipt := queue.receipt(prompt)) is not None and not receipt.has_reached(stage):
            await queue.changed()
            self._session(id)

    async def type(self, id: str, text: str, *, enter: bool) -> None:
        """Type a text. With Enter it is a prompt if the program is an agent; others get it as it is."""
        session = self._running(id)
        view = await self._submitters.of(session).view()
        tracker = self._trackers.of(id)
        if tracker is not None and tracker.agent is not None:
            if enter:
                await self._prompts.of(session).add(Prompt(new_id(), text))
                return
            if (obstacle := view.obstacle(id)) is not None:
                raise NotSupported(str(obstacle))
        session.send_input(text.encode("utf-8", "replace") + (b"\r" if enter else b""))

    async def interrupt(self, id: str, prompt: str | None = None) -> None:
        """Press Ctrl-C. A prompt that waits is dropped, and Escape ends its turn in an agent."""
        session = self._running(id)
        if prompt is None:
            session.send_input(b"\x03")
            return
        queue = self._prompts.of(session)
        if queue.drop(prompt) or not queue.is_running(prompt):
            return
        if (await self._submitters.of(session).view()).state == "working":
            session.send_input(session.screen.key("Escape"))

    def _running(self, id: str) -> TerminalSession:
        """A session into which something can be typed. Raises NoSession or NotSupported."""
        session = self._session(id)
        if session.state is not ProgramState.RUNNING:
            raise NotSupported(f"session {id!r} {_STANDING[session.state]}")
        check_typing(session)
        return session

    async def live(self, id: str) -> LiveTerminal:
        return self._turns.live(self._session(id))

    async def lines(self, id: str) -> Sequence[str]:
        return kept(self._session(id)).texts

    async def settled(self, id: str) -> None:
        await self._host.ended(self._session(id))


def check_typing(session: TerminalSession) -> None:
    """Raises NotSupported if nothing can be typed into a session now."""
    if session.state is not ProgramState.RUNNING:
        raise NotSupported(f"session {session.id!r} is {session.state.value}")
    if session.untyped > MAX_UNTYPED:
        raise NotSupported(f"session {session.id!r} does not read: {session.untyped} bytes wait to be typed")


def summary(session: TerminalSession, usage: ProcessUsage | None, agent: str = "") -> Summary:
    """A terminal session as it is listed, with the agent that is in its foreground."""
    screen = session.screen
    return Summary(
        id=session.id,
        kind=TerminalKind.name,
        name=session.id,
        project=session.cwd,
        state=session.state.value,
        what=shlex.join(session.command),
        started_at=session.started_at,
        idle=max(0.0, time.monotonic() - session.active_at) if session.active_at else None,
        clients=session.viewers,
        exit_code=session.exit_code,
        can=("screen",),
        more={
            "argv": session.command,
            "cwd": session.cwd,
            "pid": session.pid,
            "cols": screen.cols,
            "rows": screen.rows,
            "title": screen.title,
            "recording": session.recording,
            "recording_error": session.recording_error,
            "last_recording": session.last_recording,
            "recording_file": session.recording_file,
            "cpu_percent": round(usage.cpu_percent, 1) if usage else None,
            "cpu_seconds": usage.cpu_seconds if usage else None,
            "memory": usage.memory if usage else None,
            **({"writer": session.writer} if session.writer else {}),
            **({"agent": agent} if agent else {}),
            **({"started_by": by} if (by := session.started_by) else {}),
            **({"tool_of": session.tool_of} if session.tool_of else {}),
        },
    )
