"""Follows what the programs of terminal sessions do, and says so to `States`.

A screen is looked at when it has changed, not while it stays as it is: a session that is quiet costs nothing.
Looks are short, a few a second for a session that keeps changing, and a few at once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence

from ...sessions.questions import Question
from ...sessions.state import MAX_WORDS, DoesNow, Evidence, Source, States
from ..ports import ProgramState, TerminalEvent
from ..session import TerminalSession
from .asking import asked_on
from .front import Front, RulesOf, by_process, front_of, is_shell, rules_now
from .marks import PromptMarks
from .rules import AgentRules, Found, live_view
from .shell_prompt import ShellLine, asks, learn, shell_line
from .weighing import Claim, Weighed, next_look, weigh

log = logging.getLogger("fairlead")

LOOK_AFTER = 0.15
"""Seconds after a change until the screen is looked at: it is drawn in pieces,"""
LOOK_EVERY = 0.3
"""and between two looks at one that keeps changing."""
REST = 4.0
"""How many times as long as a look took nobody is looked at: at most a fifth of the time is for looks."""
LOOKS_AT_ONCE = 4
"""How many sessions are looked at at a time."""
HOLD = 0.3
"""Seconds that a screen must show something new, unless it is a dialog: programs erase before they draw."""
GAP = 0.8
"""Seconds that a screen may show nothing that is known before that counts."""
SETTLE = (1.0, 3.0)
"""Seconds after the last change when a program is looked at whose screen is not known."""
_ASKING = ("permission", "approval", "approve")
"""Words of notifications by which agents ask for a permission."""

Asked = Callable[[str], Question | None]
"""The oldest question that a session asks a person."""


class Tracker:
    """Follows one session. Made by `Trackers`."""

    def __init__(self, session: TerminalSession, owner: Trackers) -> None:
        self.session = session
        self.agent: AgentRules | None = None
        """The rules of the agent in the foreground."""
        self.screen: Found | None = None
        """What its screen shows, if that is known."""
        self.weighed: Sequence[Weighed] = ()
        self._owner = owner
        self._claims: dict[Source, Claim] = {}
        self._front: Front | None = None
        self._looked_at = 0.0
        self._looked_last = 0.0  # the same, in seconds since 1970
        self._matched_at = 0.0  # when the screen last showed something that is known
        self._begun: tuple[str, float] | None = None  # what a screen shows that has to hold, and since when
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._changed_at = 0.0
        self._marks = PromptMarks()
        session.watchers.add(self._changed)
        session.taps.add(self._printed)
        session.before_input.add(self._before_input)
        self._untouched: ShellLine | None = None
        """What a shell showed before anything was typed."""
        self._changed()

    def close(self) -> None:
        self.session.watchers.discard(self._changed)
        self.session.taps.discard(self._printed)
        self.session.before_input.discard(self._before_input)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what is heard --------------------------------------------------------------------------------------

    def hooked(self, says: DoesNow, words: str, question: str = "") -> None:
        """A hook of the agent says what it does."""
        self._claims["hook"] = Claim(Evidence("hook", says, time.time(), words[:MAX_WORDS]), question)
        self.look_soon(0.0)

    def hook_withdrawn(self) -> None:
        """What the last hook said does not hold any more: a question was answered elsewhere."""
        self._claims.pop("hook", None)
        self.look_soon(0.0)

    def heard(self, event: TerminalEvent) -> None:
        """The program told its terminal something."""
        match event.topic, event.data:
            case "terminal/progress", {"state": "set" | "indeterminate" as state}:
                self._osc("working", f"OSC 9;4 progress: {state}")
            case "terminal/progress", _:
                self._claims.pop("osc", None)
            case "terminal/notification", {"title": title, "body": body}:
                text = f"{title} {body}".strip()
                if any(word in text.casefold() for word in _ASKING):
                    self._osc("waits", text)
        self.look_soon(0.0)

    def _printed(self, data: bytes) -> None:
        if (mark := self._marks.last(data)) is not None:
            self._osc("working" if mark == "C" else "idle", f"OSC 133;{mark}")

    def _before_input(self) -> None:
        """Somebody types, perhaps before the first look."""
        cwd = ""
        with contextlib.suppress(OSError):  # it ended meanwhile, or there is no /proc
            cwd = os.readlink(f"/proc/{self.session.pid}/cwd")
        with contextlib.suppress(RuntimeError):  # the screen went meanwhile
            self._untouched = shell_line(self.session)._replace(cwd=cwd)

    def _osc(self, says: DoesNow, words: str) -> None:
        self._claims["osc"] = Claim(Evidence("osc", says, time.time(), words[:MAX_WORDS]))

    # --- looking --------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self._changed_at = now = time.monotonic()
        if self._timer is None or self._due > now + LOOK_EVERY:
            self.look_soon(LOOK_AFTER)

    def look_soon(self, seconds: float) -> None:
        """Look in so many seconds, or when it is due anyway if that is before."""
        now = time.monotonic()
        due = max(now + seconds, self._looked_at + LOOK_EVERY if seconds else now)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(due - now, self._owner.look, self)

    async def look(self) -> None:
        """Find out what the program does now."""
        self._timer = None
        session = self.session
        if session.state is ProgramState.ENDED:
            words = f"exit {session.exit_code}"
            self._claims = {"process": Claim(Evidence("process", "ended", time.time(), words))}
            self._report()
            return
        if session.state is not ProgramState.RUNNING or not session.pid:
            self._report()
            return
        before = self._front
        front = await asyncio.to_thread(front_of, session.pid, before, self._owner.rules_of)
        elapsed = time.monotonic() - self._looked_at
        self._looked_at = time.monotonic()
        self._front = front
        async with self._owner.turn:  # so that all looks together leave others most of the time
            began = time.perf_counter()
            self._weigh_anew(front, before, elapsed)
            await asyncio.sleep(REST * (time.perf_counter() - began))

    def _weigh_anew(self, front: Front | None, before: Front | None, elapsed: float) -> None:
        if front is None or before is None or front[:2] != before[:2]:  # a process may run another program
            self._claims.pop("screen", None)
            self._claims.pop("process", None)
            if before is not None:  # what another program's hooks said is not said of this one
                self._claims.pop("hook", None)
                if (osc := self._claims.get("osc")) is not None and osc.evidence.at < self._looked_last:
                    del self._claims["osc"]
            self.screen = self._begun = None
            self.agent = front.rules if front is not None else None
        with contextlib.suppress(RuntimeError):  # the screen went meanwhile
            self._look_at_screen(rules_now(front) if front is not None else None)
        if front is not None and self.agent is None:
            self._look_at_process(front, before, elapsed)
        self._looked_last = time.time()
        self._report()
        self._look_again()

    def _look_at_screen(self, rules: AgentRules | None) -> None:
        if rules is None:
            self._claims.pop("screen", None)
            return
        now = time.time()
        view = live_view(self.session.screen)
        if view.repaints and now - self._matched_at < GAP:
            self.look_soon(LOOK_AFTER)
            return
        found = rules.look(view)
        shown = self._claims.get("screen")
        if found is None:
            if shown is not None and now - self._matched_at < GAP:
                self.look_soon(GAP)
            else:
                self._claims.pop("screen", None)
                self.screen = None
            return
        self._matched_at = now
        if shown is not None and found.state not in ("waits", shown.evidence.says):
            if self._begun is None or self._begun[0] != found.state:
                self._begun = (found.state, now)
            if now - self._begun[1] < HOLD:
                self.look_soon(HOLD)
                return
        self._begun = None
        is_same = shown is not None and shown.evidence.says == found.state
        since = shown.since if is_same and shown is not None else now
        evidence = Evidence(
            "screen", found.state, now, found.words[:MAX_WORDS], found.rule, str(found.version)
        )
        question = found.question
        if question and self.agent is None:  # a shell's, which is asked in lines, with choices above it
            question = asked_on(view) or question
        self._claims["screen"] = Claim(evidence, question, since)
        self.screen = found

    def _look_at_process(self, front: Front, before: Front | None, elapsed: float) -> None:
        """A program without rules: a shell at its prompt, one that reads its terminal, or one that works."""
        same = before is not None and before.program == front.program
        used = front.cpu_seconds - before.cpu_seconds if same and before is not None else 0.0
        says, words, question = by_process(front, self._question, used / elapsed if elapsed else 0.0)
        if says == "idle" and front.program.pid == self.session.pid:
            with contextlib.suppress(RuntimeError):  # the screen went meanwhile
                line = shell_line(self.session, front)
                learn(self.session, line, self._untouched)
                if asks(self.session, line) and line.before.strip():  # its own `read`
                    says, words = "waits", f"{front.program.name} reads a line"
                    question = self._question() or line.before.strip()
                    if (shown := self._claims.get("screen")) and shown.evidence.says == "idle":
                        del self._claims["screen"]  # anything may print what looks like a prompt
                        self.screen = None
        own = self.session.command
        if says == "working" and not self.session.inputs and is_shell(own[0], own):
            says, words = "unknown", ""  # it starts, and nobody has asked it for anything yet
        if not words:
            self._claims.pop("process", None)
        else:
            known = self._claims.get("process")
            since = known.since if known is not None and known.evidence.says == says else time.time()
            self._claims["process"] = Claim(Evidence("process", says, time.time(), words), question, since)

    def _question(self) -> str:
        """What a program asks that reads its terminal. Editors and the like ask nothing."""
        with contextlib.suppress(RuntimeError):  # the screen went meanwhile
            screen = self.session.screen
            return "" if screen.alternate else asked_on(live_view(screen))
        return ""

    def _report(self) -> None:
        now = time.time()
        claims = dict(self._claims)
        front, osc = self._front, claims.get("osc")
        of_shell = front is not None and is_shell(front.program.name, front.arguments)
        if osc is not None and osc.evidence.words.startswith("OSC 133") and not of_shell:
            del claims["osc"]  # it is of the shell below, or of no shell at all
        if (question := self._owner.asked(self.session.id)) is not None:
            evidence = Evidence("protocol", "waits", question.asked_at, question.what[:MAX_WORDS])
            claims["protocol"] = Claim(evidence, question.what)
        self.weighed = weigh(claims, now)
        winner = next((each for each in self.weighed if each.fate == "counts"), None)
        if winner is None:
            self._owner.states.found(self.session.id, "unknown", None)
        else:
            self._owner.states.found(self.session.id, winner.evidence.says, winner.evidence, winner.question)
        if (seconds := next_look(claims, now)) is not None:
            self.look_soon(max(seconds, 0.01))

    def _look_again(self) -> None:
        """A program whose screen is not known may do something else without printing anything."""
        passed = time.monotonic() - self._changed_at
        if self.agent is None and (left := [each - passed for each in SETTLE if each > passed]):
            self.look_soon(left[0])


class Trackers:
    """Follows all terminal sessions."""

    def __init__(self, states: States, rules_of: RulesOf, asked: Asked) -> None:
        self.states = states
        self.rules_of = rules_of
        self.asked = asked
        self._trackers: dict[str, Tracker] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(LOOKS_AT_ONCE)
        self.turn = asyncio.Lock()

    def opened(self, session: TerminalSession) -> Tracker:
        """Follow a session from now on."""
        tracker = self._trackers.get(session.id)
        if tracker is None or tracker.session is not session:
            self.closed(session)
            tracker = self._trackers[session.id] = Tracker(session, self)
        return tracker

    def closed(self, session: TerminalSession) -> None:
        """A session is forgotten."""
        if (tracker := self._trackers.get(session.id)) is not None:
            tracker.close()
            del self._trackers[session.id]
            self.states.forget(session.id)

    def close(self) -> None:
        for tracker in self._trackers.values():
            tracker.close()
        for task in self._looking:
            task.cancel()

    def of(self, id: str) -> Tracker | None:
        return self._trackers.get(id)

    def heard(self, session: TerminalSession, event: TerminalEvent) -> None:
        if (tracker := self._trackers.get(session.id)) is not None:
            tracker.heard(event)

    def asks(self, id: str | None) -> None:
        """A question of a session was asked or closed."""
        if id is not None and (tracker := self._trackers.get(id)) is not None:
            tracker.look_soon(0.0)

    def look(self, tracker: Tracker) -> None:
        """Look at a session in its turn."""
        task = asyncio.get_running_loop().create_task(self._look(tracker))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, tracker: Tracker) -> None:
        async with self._room:
            try:
                await tracker.look()
            except Exception:
                log.exception("looking at session %s failed", tracker.session.id)
