"""Telling people that somebody waits for them: what nobody has seen for a while is told once.

That is a question of the inbox, a program that waits in its terminal, and, if that is wanted, a turn that has
ended. It goes to attached terminals, to the desktop, and to the addresses in [notify] urls. What was told or
seen is written down before, so that the next daemon does not tell it again; what was answered or seen in time
is not told at all. In quiet hours it is held, and told as one summary at their end if it still waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import NamedTuple

import msgspec

from ..formats.columns import printable
from ..formats.shown import middle, one_line
from ..sessions.feed import FeedEvent
from ..sessions.inbox import Inbox
from ..sessions.questions import WITHDRAWN, Answer, Question
from ..sessions.state import Activity, StateChanged, States
from ..system.console_address import ConsoleAddress
from ..system.database import DatabaseFault
from ..system.desktop import MAX_BODY as DESKTOP_BODY
from .notices import TROUBLE_PAUSE, Notifier, TooManyNotices
from .protocols import Cleaner

log = logging.getLogger("fairlead.control")

MAX_PENDING = 2000
"""How much may wait to be told; more is not told."""
START_GRACE = 2.0
"""Seconds after the start of a daemon before it tells what waited before it."""
AGAIN = 10.0
"""Seconds until it is tried again if too much was told within a minute."""
MAX_DESKTOP = 4
"""How many messages wait for the desktop until they are joined to one;"""
MAX_WAITING = 200
"""and how many are in that at the most."""
HIDDEN_NOTE = 100
"""Characters of a text for the desktop that are kept for the note that its middle is hidden."""
WHOLE_LINES, WHOLE_CHARACTERS = 24, 1600
"""How much of a question is in a message: enough to decide."""
MAX_LINE = 160
"""How many characters of a question are in a line."""
MAX_SUMMARY = 20
"""How many questions a summary has a line for."""

_QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")
NEVER = "never"
_WAITS, _CALLED, _DONE = range(3)

NO_WAY = 10.0
"""Seconds until it is looked again whether there is a way to tell people."""

Desktop = Callable[[str, str], Awaitable[None]]
"""Shows a title and a text on the desktop."""
HasDesktop = Callable[[], bool]
"""Whether there is one. May block for a moment."""
Console = Callable[[], ConsoleAddress | None]
"""Where the web console serves, if it does. May block for a moment."""
Ring = Callable[[str, str], None]
"""Shows a line on all attached terminals but those of a session, with a bell."""


class QuietHours(NamedTuple):
    """A part of each day, in minutes since midnight; it may go over midnight."""

    start: int
    end: int

    def end_of(self, moment: float) -> float | None:
        """When it ends, if a moment is in it."""
        here = datetime.fromtimestamp(moment)
        minute = here.hour * 60 + here.minute
        is_over_night = self.start > self.end
        is_in = (minute >= self.start) + (minute < self.end) >= (1 if is_over_night else 2)
        if not is_in or self.start == self.end:
            return None
        end = here.replace(hour=self.end // 60, minute=self.end % 60, second=0, microsecond=0)
        return (end if end > here else end + timedelta(days=1)).timestamp()


def quiet_hours(text: str) -> QuietHours | None:
    """What a setting says: `22:00-07:00`, or `never`. Raises ValueError."""
    if text == NEVER:
        return None
    found = _QUIET.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ValueError(f'[notify] quiet_hours must be like "22:00-07:00", or "{NEVER}", not {text!r}')
    hours = [int(each) for each in found.groups()]
    return QuietHours(hours[0] * 60 + hours[1], hours[2] * 60 + hours[3])


class TellingOptions(NamedTuple):
    """What is told, where, and when."""

    after: float = 20.0
    """Seconds for which nobody has seen it; 0 means never."""
    done: bool = False
    terminals: bool = True
    desktop: bool = True
    quiet: QuietHours | None = None


class Appeal(NamedTuple):
    """What people are told."""

    key: str
    """What it is, in the store."""
    session: str
    title: str
    body: str
    line: str
    """The same in one line."""
    rank: int = 0
    """Who comes first in a summary, as in lists: who waits, whom a verifier calls for, who is done;"""
    since: float = 0.0
    """among these, who has done so for longest."""
    view: tuple[str, ...] = ("inbox",)
    """Where it is in the web console."""


class Appeals:
    """What people have to be told, and when. `is_watched` says whether a person looks at a session now, and
    `name_of` what it is called."""

    def __init__(
        self,
        notifier: Notifier,
        inbox: Inbox,
        states: States,
        cleaner: Cleaner,
        options: TellingOptions,
        *,
        name_of: Callable[[str], str],
        is_watched: Callable[[str], bool],
        ring: Ring,
        desktop: Desktop,
        has_terminals: Callable[[str], bool],
        has_desktop: HasDesktop,
        console: Console = lambda: None,
    ) -> None:
        """`has_terminals` says whether anybody is attached elsewhere than at a session."""
        self._notifier = notifier
        self._inbox = inbox
        self._states = states
        self._cleaner = cleaner
        self._name_of = name_of
        self._is_watched = is_watched
        self._ring = ring
        self._desktop = desktop
        self._has_terminals = has_terminals
        self._has_desktop = has_desktop
        self._console = console
        self._waiting: deque[tuple[str, str]] = deque()  # for the desktop
        self._left_out = 0  # of those
        self._desk: asyncio.Task[None] | None = None
        self.options = options
        self._due: dict[str, float] = {}  # by key, when it is told
        self._of_session: dict[str, str] = {}  # the key of what a session itself does, not of its questions
        self._held: set[str] = set()  # what quiet hours held back
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._showing: set[asyncio.Task[None]] = set()
        inbox.listen(self)
        inbox.on_seen.append(self.seen_question)
        states.on_seen.append(self.seen)

    # --- life ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Tell from now on, also what waited before this daemon."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        for question in self._inbox.open():
            self._add(_key(question), question.asked_at)
        for id, activity in self._states.all():
            self._look(id, activity)
        earliest = time.time() + START_GRACE
        self._due = {key: max(due, earliest) for key, due in self._due.items()}

    def close(self) -> None:
        for task in (self._task, self._desk, *self._showing):
            if task is not None:
                task.cancel()
        self._task = self._desk = None

    # --- what happens -------------------------------------------------------------------------------------

    def asked(self, question: Question) -> None:
        self._add(_key(question), question.asked_at)

    def closed(self, question: Question, answer: Answer) -> None:
        self._drop(_key(question))
        waits = self._also(question.session or "")
        if answer.option != WITHDRAWN:
            self._note_seen(waits)
        for key in waits if answer.option == WITHDRAWN else ():
            self._add(key, time.time())  # the program may ask the same in its own terminal now

    def warned(self, question: Question, why: str) -> None:
        """It is told as any other."""

    def happened(self, event: FeedEvent) -> None:
        if isinstance(event, StateChanged):
            self._look(event.session, event.activity)

    def _look(self, session: str, activity: Activity) -> None:
        """A session does something else."""
        key = ""
        if activity.state == "waits":
            digest = hashlib.sha256(activity.question.encode("utf-8", "replace")).hexdigest()[:8]
            key = f"waits:{session}:{activity.since:.3f}:{digest}"
        elif activity.state == "idle" and not activity.is_seen and self.options.done:
            key = f"done:{session}:{activity.since:.3f}"
        before = self._of_session.get(session, "")
        if before == key:
            return
        is_same_wait = key.rpartition(":")[0] == before.rpartition(":")[0] and key.startswith("waits:")
        due = self._due.get(before)
        self._drop(before)
        self._of_session.pop(session, None)
        if key:
            self._of_session[session] = key
            # a question that keeps changing is told as well; a second one has its own time
            since = time.time() if is_same_wait and due is None else activity.since
            self._add(key, since if due is None or not is_same_wait else due - self.options.after)

    def _add(self, key: str, since: float) -> None:
        if self._task is not None and self.options.after and len(self._due) < MAX_PENDING:
            self._due[key] = since + self.options.after
            self._wake.set()

    def _drop(self, key: str) -> None:
        self._due.pop(key, None)
        self._held.discard(key)

    def seen(self, session: str) -> None:
        """A person looks at a session."""
        asked = [each for each in self._inbox.open() if each.session == session]
        for each in asked:
            self._inbox.mark_seen(each.id)
        self._note_seen([*map(_key, asked), self._of_session.get(session, "")])

    def seen_question(self, question: Question) -> None:
        """A person has seen a question."""
        self._note_seen([_key(question), *self._also(question.session or "")])

    def _note_seen(self, keys: Sequence[str]) -> None:
        found = [key for key in keys if key in self._due]
        for key in found:
            self._drop(key)
        if found and self._task is not None:
            task = asyncio.get_running_loop().create_task(self._write_seen(found))
            self._showing.add(task)
            task.add_done_callback(self._showing.discard)

    async def _write_seen(self, keys: Sequence[str]) -> None:
        try:
            await self._notifier.note_seen(keys)
        except DatabaseFault as error:
            log.warning("what was seen can't be written down: %s", error)

    # --- telling ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            due = min(self._due.values(), default=None)
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - time.time())):
                    await self._wake.wait()
                continue
            except TimeoutError:
                pass
            try:
                await self._tell_due()
            except Exception:
                log.exception("people could not be told who waits")
                await asyncio.sleep(TROUBLE_PAUSE)

    async def _tell_due(self) -> None:
        now = time.time()
        keys = [key for key, due in self._due.items() if due <= now]
        quiet = self.options.quiet
        if quiet is not None and (end := quiet.end_of(now)) is not None:
            for key in keys:
                self._due[key] = end
            self._held.update(keys)
            return
        held: list[Appeal] = []
        others: list[Appeal] = []
        has_desktop = bool(keys) and self.options.desktop and await asyncio.to_thread(self._has_desktop)
        for key in keys:
            if key not in self._due:  # it was seen meanwhile
                continue
            was_held = key in self._held
            message = self._message(key)
            is_watched = message is not None and message.session and self._is_watched(message.session)
            if message is not None and not (is_watched or has_desktop or self._has_way(message.session)):
                self._due[key] = now + NO_WAY  # it was not told
                continue
            self._drop(key)
            if message is not None and is_watched:
                self._inbox.mark_seen(key.partition(":")[2])
                await self._write_seen([key, *self._also(message.session)])
            elif message is not None:
                (held if was_held else others).append(message)
        if len(held) == 1:
            others += held
        elif held:
            await self._summarize(held)
        for message in others:
            await self._tell(message, [message.key, *self._also(message.session)])

    def _has_way(self, session: str) -> bool:
        """Whether there is a way to tell people something of a session, but for the desktop."""
        return self._notifier.has_urls or (self.options.terminals and self._has_terminals(session))

    def _also(self, session: str) -> list[str]:
        """What need not be told if a question of a session was: that it waits."""
        key = self._of_session.get(session, "")
        return [key] if key.startswith("waits:") else []

    async def _summarize(self, messages: Sequence[Appeal]) -> None:
        untold = await self._notifier.untold([each.key for each in messages])
        left = [each for each in messages if each.key in untold]
        if not left:
            return
        left.sort(key=lambda each: (each.rank, each.since))
        lines = [each.line for each in left[:MAX_SUMMARY]]
        if len(left) > MAX_SUMMARY:
            lines.append(f"and {len(left) - MAX_SUMMARY} more")
        how = "`fairlead next` attaches to the first, `fairlead approvals` lists the questions"
        title = f"{len(left)} sessions wait for you" if len(left) > 1 else left[0].title
        summary = Appeal(left[0].key, "", title, "\n".join([*lines, "", how]), f"{title}; `fairlead next`")
        await self._tell(summary, [each.key for each in left])

    async def _tell(self, message: Appeal, keys: Sequence[str]) -> None:
        """Tell it, unless that was done. It is written down first."""
        clean = self._cleaner.text
        title, body = clean(printable(message.title)), clean(printable(message.body, "\n"))
        console = await asyncio.to_thread(self._console)
        linked = f"{body}\n{console.to(*message.view)}" if console is not None else body
        try:  # a link to this machine leads nowhere on a phone
            is_far = console is not None and console.is_far
            if not await self._notifier.tell(keys, title, linked if is_far else body):
                return
        except (DatabaseFault, TooManyNotices) as error:
            log.warning("people are told later: %s", error)
            for key in keys:
                self._due[key] = time.time() + AGAIN
            return
        if self.options.terminals:
            self._ring(clean(printable(message.line)), message.session)
        if self.options.desktop:
            self._show(title, middle(linked, DESKTOP_BODY - HIDDEN_NOTE))

    def _show(self, title: str, body: str) -> None:
        """Show it on the desktop after those that wait for that."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((title, body))
        else:
            self._left_out += 1
        if self._desk is None:
            self._desk = asyncio.get_running_loop().create_task(self._show_all())

    async def _show_all(self) -> None:
        """Show what waits; many that wait are joined to one, with a line for each."""
        try:
            while self._waiting:
                title, body = self._waiting.popleft()
                if len(self._waiting) >= MAX_DESKTOP:
                    titles = [title, *(each for each, _ in self._waiting)]
                    count = len(titles) + self._left_out
                    self._waiting.clear()
                    self._left_out = 0
                    lines = titles[:MAX_SUMMARY]
                    lines += [f"and {count - len(lines)} more"] if count > len(lines) else []
                    how = "`fairlead next` attaches to the first, `fairlead approvals` lists the questions"
                    title, body = f"{count} sessions need you", "\n".join([*lines, "", how])
                await self._desktop(title, body)
        finally:
            self._desk = None

    # --- the words ----------------------------------------------------------------------------------------

    def _message(self, key: str) -> Appeal | None:
        """What is to be told, if it still holds."""
        kind, _, rest = key.partition(":")
        if kind == "question":
            question = self._inbox.get(rest)
            return self._of_question(key, question) if question is not None and not question.lost else None
        session = rest.partition(":")[0]
        activity = self._states.of(session)
        if activity is None or self._of_session.get(session) != key:
            return None
        name = self._name_of(session)
        how = f"`fairlead attach {quote(name)}`"
        if kind == "done":
            line = f"{name} is done; {how}"
            ended = f"Its turn has ended; {how} shows it."
            return Appeal(key, session, f"{name} is done", ended, line, _DONE, activity.since, ("s", session))
        if any(each.session == session and each.is_consent and not each.lost for each in self._inbox.open()):
            return None  # which is told as a question
        evidence = activity.evidence
        words = evidence.words if evidence is not None and evidence.source in ("hook", "osc") else ""
        asks = self._cleaner.text(activity.question or words or "an answer")
        line = f"{name} waits: {one_line(asks, MAX_LINE)}; {how}"
        body = f"{asks}\n\n{how} shows it."
        return Appeal(
            key, session, f"{name} waits for you", body, line, _WAITS, activity.since, ("s", session)
        )

    def _of_question(self, key: str, question: Question) -> Appeal:
        session = question.session or ""
        name = self._name_of(session) if session else question.session_name or "fairlead"
        allow = f"`fairlead approvals allow {question.id}`"
        how, verb = f"{allow}, or `deny {question.id}`", "asks"
        if question.is_dialog:
            how = allow = f"`fairlead approvals answer {question.id} TEXT`"
        elif not question.is_consent:
            how = f"`fairlead attach {quote(name)}`, or `fairlead approvals dismiss {question.id}`"
            allow, verb = "`fairlead approvals`", "needs a person"
        question = msgspec.structs.replace(  # before anything is cut: of a key nothing may be left
            question, what=self._cleaner.text(question.what), whole=self._cleaner.text(question.whole)
        )
        whole = middle(
            question.text(lines=WHOLE_LINES, characters=WHOLE_CHARACTERS),
            2 * WHOLE_CHARACTERS,
            question.see_all,
        )
        choices = "".join(f"\n{number}: {each}" for number, each in enumerate(question.choices, 1))
        line = f"{name} {verb}: {one_line(question.what, MAX_LINE)}; {allow}"
        activity = self._states.of(session) if question.is_consent else None
        since = activity.since if activity is not None and activity.state == "waits" else question.asked_at
        rank = _WAITS if question.is_consent else _CALLED
        body = f"{whole}{choices}\n\n{how}"
        view = ("inbox", question.id)
        return Appeal(key, session, f"{name} {verb}", body, line, rank, since, view)


def _key(question: Question) -> str:
    return f"question:{question.id}"
