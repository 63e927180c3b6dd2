"""Types a text into the input of a program in a terminal, submits it, and sees that the program took it.

Enter accepts a dialog, chooses from a menu, and sends a person's draft along. So nothing is typed unless the
program in the foreground is known and shows its empty input, by the rules for its screens or because it is a
shell at its prompt. The text is pasted; Enter is pressed when the input shows that text and nothing else, and
again only if it still does. Whoever types meanwhile wins: then Enter is not pressed. All that types for
others, prompts as well as corrections, does so here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple
from unicodedata import category, normalize
from weakref import WeakKeyDictionary

from ..sessions.inbox import calling_agent
from ..sessions.state import UNKNOWN, Activity, DoesNow
from ..system.processes import Program
from ..system.terminal_input import takes_lines, unread
from .ports import ProgramState
from .screen.emulator import char_width
from .screen.screen import pasteable
from .session import TerminalSession
from .state.front import SHELLS, Front, RulesOf, front_of, is_shell
from .state.rules import AgentRules, bare, live_view, shipped
from .state.shell_prompt import asks, known_prompt, learn, shell_line, wants_rest

LOOK = 0.1
"""Seconds between two looks at the screen."""
PASTEABLE_WAIT = 1.0
"""Seconds that a program has to say that it takes pastes, once it shows its input."""
PASTE_WAIT = 5.0
"""Seconds until a paste that the input does not show is given up."""
STILL = 0.25
"""Seconds that the input must show it before Enter is pressed: some take an Enter right after a paste for a
part of it."""
ENTER_WAIT = 2.5
"""Seconds until Enter is pressed again, if the input still shows what was pasted."""
READ_WAIT = 30.0
"""Seconds until a program is given up that has not read Enter, or has shown nothing since."""
MAX_ENTERS = 3
GONE_LOOKS = 2
"""How often in a row the input must be seen without the text."""
TAKE_OUT_WAIT = 2.0
"""Seconds in which the input must be empty again after what was pasted is deleted."""
MAX_DELETED = 2000
"""How many characters are deleted one by one from the line of a shell."""
MAX_SUBMITTED = 64 * 1024
"""How many characters are typed at once."""
COMPARED = 200
"""How many characters of two prompts are compared."""
MIN_SCROLLED = 5
"""How many rows of a long text an input must show if it scrolls."""

_MARK = re.compile(r"\[(?:Pasted[^\]]*|paste#\d+(?:\+\d+lines|\d+chars)?)\]")
"""What agents show instead of a long paste, without blanks."""
_PROMPTS = frozenset(">❯›*!$#%»┃│")
"""What stands before an input."""
_TOLD = ("protocol", "hook", "osc")
"""Where what a session does is known from that counts more than its screen."""
_NOT_SEEN = "it was submitted, and it was not seen whether it was taken"
_OPENS_MENU = "@/$#"
"""With what a word begins for which agents offer a choice: Enter would choose."""

Shown = Literal["", "empty", "draft", "other", "rest"]
"""What an input has. Of shells alone: something else than its prompt, or what asks for more of a command."""
ActivityOf = Callable[[str], Activity | None]
"""What a session does, as all that is known of it says."""


class Obstacle(ValueError):
    """Something is in the way of a text. Says what. If it `passes`, it may be gone in a while, and nothing of
    the text is in the input. If it `blocks`, a person has to clear it away: then it is no work."""

    def __init__(self, reason: str, *, passes: bool = False, blocks: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes
        self.blocks = blocks


class NotSeen(Exception):
    """It was submitted, and whether it was taken is not known."""


class InputView(NamedTuple):
    """What a terminal's program shows of its input now."""

    program: Program | None
    agent: str
    """What the program is by the rules, or the name of a shell; empty if it is not known."""
    state: DoesNow = "unknown"
    question: str = ""
    input: Shown = ""
    typed: Sequence[str] = ()
    """The rows of the input."""
    is_below_shell: bool = False
    """True if the program will give the terminal back to a shell."""

    @property
    def is_free(self) -> bool:
        return self.state == "idle" and self.input == "empty"

    def shows(self, text: str) -> bool:
        """True if the input has this text and nothing else, or a mark that something was pasted alone."""
        if self.input != "draft":
            return False
        wanted = _seen(text)
        rows = [bare(row) for row in self.typed]
        shown = _seen("".join(rows))
        whole = (shown, shown[1:]) if shown[:1] in _PROMPTS else (shown,)
        if any(each == wanted or _MARK.fullmatch(each) for each in whole):
            return True
        scrolled = [row for row in rows if row]
        if len(scrolled) < MIN_SCROLLED:
            return False
        return wanted.endswith((shown, _seen("".join(scrolled[1:]))))  # the first row may be a mark

    def obstacle(self, name: str) -> Obstacle | None:
        """What is in the way of a text for the session of this name."""
        agent = self.agent
        blind = f"`fairlead send {name} TEXT -k Enter` types without looking"
        match self.state, self.input:
            case _ if not agent:
                there = self.program.name if self.program is not None else "an unknown program"
                why = f"{there} runs there, and it is not known when that takes a prompt; {blind}"
                return Obstacle(why, passes=self.is_below_shell, blocks=True)
            case "waits", _:
                asks = self.question or "a dialog is open"
                return Obstacle(f"{agent} asks: {asks}", passes=True, blocks=True)
            case "working", _:
                return Obstacle(f"{agent} is working", passes=True)
            case "idle", "draft":
                return Obstacle(f"there is a draft in the input of {agent}", passes=True, blocks=True)
            case "idle", "other":
                why = f"{agent} shows something else than the prompt that it began with; {blind}"
                return Obstacle(why, passes=True, blocks=True)
            case "idle", "rest":
                why = f"{agent} waits for the rest of a command: {self.typed[-1].strip()}"
                return Obstacle(why, passes=True, blocks=True)
            case "idle", "empty":
                return None
        return Obstacle(f"{agent} does not show an input that takes a prompt", passes=True, blocks=True)


class Submitter:
    """Types into one session. Made by `Submitters`."""

    def __init__(self, session: TerminalSession, rules_of: RulesOf, activity_of: ActivityOf) -> None:
        self.session = session
        self.hooked: tuple[Program | None, str] = (None, "")
        """The program that called hooks, and the agent that it calls itself."""
        self.given = ""
        """The last text that was typed."""
        self.is_checked = False
        """True while the agent's stop hook waits for what checks say: the turn may go on."""
        self._rules_of = rules_of
        self._activity_of = activity_of
        self._lock = asyncio.Lock()
        self._shell_prompt = ""
        self._before: Front | None = None

    @property
    def shell(self) -> str:
        """The shell that the session was started with, if it was one."""
        name = os.path.basename(self.session.command[0]) if self.session.command else ""
        return name if name in SHELLS else ""

    # --- looking --------------------------------------------------------------------------------------------

    def look(self) -> InputView:
        """What the program shows now. May block for a moment."""
        return self._seen(self._front())

    async def view(self) -> InputView:
        """What the program shows now."""
        return self._seen(await asyncio.to_thread(self._front))

    def _front(self) -> Front | None:
        pid = self.session.pid
        self._before = front_of(pid, self._before, self._rules_of) if pid else None
        return self._before

    def _seen(self, front: Front | None) -> InputView:
        if front is None or self.session.state is not ProgramState.RUNNING:
            return InputView(front.program if front is not None else None, "")
        program, rules = front.program, front.rules
        if rules is None and self.hooked[0] == program:
            rules = next((each for each in shipped() if each.agent == self.hooked[1]), None)
        with contextlib.suppress(RuntimeError):  # the screen went meanwhile
            if rules is not None:
                return self._by_rules(program, rules)
            if program.pid == self.session.pid and is_shell(program.name, front.arguments):
                return self._shell(front)
        said = self._activity_of(self.session.id) or UNKNOWN
        if program.name in SHELLS and said.state == "waits":  # a script's question
            return InputView(program, program.name, "waits", said.question)
        return InputView(program, "", is_below_shell=self.shell != "" and program.pid != self.session.pid)

    def _by_rules(self, program: Program, rules: AgentRules) -> InputView:
        shown_now = live_view(self.session.screen)
        found = rules.look(shown_now) if not shown_now.repaints else None
        said = self._activity_of(self.session.id) or UNKNOWN
        shown, typed = (found.input, found.typed) if found is not None else ("", ())
        is_told = said.evidence is not None and said.evidence.source in _TOLD
        if (found is None or found.state == "idle") and is_told and said.state in ("working", "waits"):
            return InputView(program, rules.agent, said.state, said.question, shown, typed)
        if found is None:
            return InputView(program, rules.agent)
        return InputView(program, rules.agent, found.state, found.question, shown, typed)

    def _shell(self, front: Front) -> InputView:
        """A shell that reads its terminal: its line is empty if its prompt is before the cursor, alone."""
        session, program, name = self.session, front.program, front.program.name
        if front.waits_in not in ("read", "poll"):
            return InputView(program, name, "working")
        line = shell_line(session, front)
        learn(session, line)
        if asks(session, line):
            return InputView(program, name, "waits", line.before.strip())
        prompt = known_prompt(session, line)
        if session.screen.is_input_empty or (prompt and prompt == line.before and line.is_open):
            return InputView(program, name, "idle", "", "empty", [line.before])
        other: Shown = "rest" if wants_rest(line) else "other"
        if not self._shell_prompt:
            return InputView(program, name, "idle", "", "draft" if prompt else other, [line.before])
        prompt = self._shell_prompt.rstrip()
        at = session.screen.cursor.y
        rows = [*session.screen.text().split("\n")[:at], line.before]  # a shell may suggest what follows
        typed = next((each for each in reversed(range(len(rows))) if rows[each].startswith(prompt)), None)
        if typed is None:
            is_scrolled = at >= session.screen.rows - 2 and other == "other"
            return InputView(program, name, "idle", "", "draft" if is_scrolled else other, rows)
        if typed < len(rows) - 1:
            rows[typed] = line.without_right(rows[typed])
        return InputView(program, name, "idle", "", "draft", [rows[typed][len(prompt) :], *rows[typed + 1 :]])

    def check(self, view: InputView) -> None:
        """Raises Obstacle if something is in the way of a text."""
        session = self.session
        if session.state is not ProgramState.RUNNING:
            raise Obstacle(f"session {session.id!r} is {session.state.value}")
        if (obstacle := view.obstacle(session.id)) is not None:
            raise obstacle
        if session.untyped:
            raise Obstacle(f"{view.agent} does not read what was typed before", passes=True)

    # --- typing ---------------------------------------------------------------------------------------------

    async def submit(
        self,
        text: str,
        *,
        by: str = "",
        program: Program | None = None,
        taken: asyncio.Event | None = None,
        pasted: Callable[[], None],
        entering: Callable[[], None],
    ) -> bool:
        """Type a text and submit it; true if the program was seen to begin with it. `pasted` is called before
        it is pasted and `entering` before it is submitted, `taken` is set if a hook says that the program has
        it. `by` is the agent session for which it is typed. Raises Obstacle if it was not submitted, NotSeen
        if nobody knows whether it was taken."""
        async with self._lock:
            text = _typed(text)
            if "\n" in text:
                await self._until_pasteable()
            view = await self.view()
            self.check(view)
            if program is not None and view.program != program:
                name = view.program.name if view.program is not None else "unknown"
                raise Obstacle(f"the program in the foreground is {name}, not {program.name}")
            if "\n" in text and not self._is_pasteable:
                raise Obstacle(f"{view.agent} can't take a paste, and the end of a line would be an Enter")
            self._shell_prompt = view.typed[-1] if view.typed else ""
            pasted()
            self.given = text
            self._give(self.session.screen.paste(text + _close_menu(text)), by)
            try:
                return await self._submit(text, view, by, taken or asyncio.Event(), entering)
            finally:
                self._shell_prompt = ""

    async def resume(
        self, text: str, *, by: str, taken: asyncio.Event, was_entered: bool, entering: Callable[[], None]
    ) -> bool | None:
        """Go on where a daemon before us has typed a text, or has submitted it; None if it was not typed."""
        async with self._lock:
            self._shell_prompt = str((self.session.note.get("shell_prompt") or [""])[0])
            try:
                return await self._resume(_typed(text), by, taken, was_entered, entering)
            finally:
                self._shell_prompt = ""

    async def _resume(
        self, text: str, by: str, taken: asyncio.Event, was_entered: bool, entering: Callable[[], None]
    ) -> bool | None:
        deadline = time.monotonic() + PASTE_WAIT
        while (view := await self.view()).input == "" and view.state in ("unknown", "idle"):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK)
        await asyncio.sleep(STILL)
        view = await self.view()
        if view.shows(text):
            if was_entered:
                began = await self._until_gone(text, view, taken, -1)
                if began is not None:
                    return began
                await self._check_again(text, self.session.inputs)
            return await self._submit(text, view, by, taken, entering)
        if was_entered:
            return view.state in ("working", "waits")
        if view.is_free:
            return None
        raise Obstacle("the daemon restarted while it was typed, and it was not submitted")

    @property
    def _is_pasteable(self) -> bool:
        """True if a paste of several lines would be one."""
        return self.session.screen.modes.bracketed_paste

    async def _until_pasteable(self) -> None:
        """Wait for that a moment: a shell may ask for it only after it has drawn its prompt."""
        deadline = time.monotonic() + PASTEABLE_WAIT
        while not self._is_pasteable and time.monotonic() < deadline:
            await asyncio.sleep(LOOK)

    def _give(self, data: bytes, by: str) -> None:
        calling = calling_agent.set(by)
        try:
            self.session.send_input(data)
        finally:
            calling_agent.reset(calling)

    async def _submit(
        self, text: str, before: InputView, by: str, taken: asyncio.Event, entering: Callable[[], None]
    ) -> bool:
        """Press Enter when the input shows a text that was pasted, until it does not show it any more."""
        inputs = self.session.inputs
        rows = await self._until_shown(text, before, by, inputs)
        entering()
        for _ in range(MAX_ENTERS):
            printed = self.session.offset
            self._give(self.session.screen.key("Enter"), by)
            inputs += 1
            began = await self._until_gone(text, before, taken, printed)
            if began is not None:
                return began
            await self._check_again(text, inputs)
            if self.session.offset == printed:
                raise NotSeen(_NOT_SEEN)
            if before.agent in SHELLS and len((await self.view()).typed) > rows:
                raise await self._deleted(text, by, f"{before.agent} waits for the rest of the command")
        raise await self._deleted(text, by, f"{before.agent} was not seen to take it")

    async def _deleted(self, text: str, by: str, why: str) -> NotSeen:
        """Delete what was not taken from the input; returns what is told of it."""
        try:
            await self._take_out(text, by)
        except Obstacle as obstacle:
            return NotSeen(f"{why}, and {obstacle}")
        return NotSeen(f"{why}; it was deleted from its input")

    async def _check_again(self, text: str, inputs: int) -> None:
        """Raises NotSeen unless the program has read an Enter and shows the text as before."""
        view = await self.view()
        if self.session.inputs != inputs or not view.shows(text) or not self._has_read:
            raise NotSeen(_NOT_SEEN)

    @property
    def _has_read(self) -> bool:
        """False if the program has not read all that was typed, as far as that is known."""
        return not self.session.untyped and not unread(self.session.terminal)

    async def _withdrawn(self, text: str, view: InputView, by: str, why: str) -> Exception:
        """Delete what was typed into an empty input that does not show it; returns what is told of it.
        Nothing is typed if no input is shown: there may be a menu."""
        if not view.input or view.state != "idle" or not self._has_read:
            return Obstacle(f"{why}; it is still there", blocks=True)
        await self._delete(text, view, by)
        try:
            await self._until_empty()
        except Obstacle:
            return Obstacle(f"{why}; it could not be deleted and is still there", blocks=True)
        return NotSeen(f"{why}; it was deleted from its input again")

    async def _until_shown(self, text: str, before: InputView, by: str, inputs: int) -> int:
        """Returns in how many rows it is shown. Raises Obstacle if it is not, or not alone."""
        began = time.monotonic()
        read_at = began
        shown_at = 0.0
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            view = await self.view()
            if view.program != before.program:
                raise Obstacle(f"{before.agent} has left the foreground; it was typed, and not submitted")
            if self.session.inputs != inputs:
                raise Obstacle("somebody typed at the same time; it is in the input and was not submitted")
            if not view.shows(text):
                shown_at = 0.0
                if view.state == "waits":
                    raise Obstacle(f"{self.way(view)}; it was typed before that, and not submitted")
                if not self._has_read and now < began + READ_WAIT:
                    read_at = now  # a long text takes its time
                if now > read_at + PASTE_WAIT:
                    what = "something else too" if view.input == "draft" else "nothing of it"
                    why = f"it was typed, but the input shows {what}, so it was not submitted"
                    screen = self.session.screen
                    if len(text) + screen.cols * text.count("\n") > screen.cols * screen.rows:
                        why += " (it is longer than the screen: give what is long in a file)"
                    raise await self._withdrawn(text, view, by, why)
            elif view.state == "idle":
                shown_at = shown_at or now
                if now >= shown_at + STILL:
                    return len(view.typed)
            elif now > began + PASTE_WAIT:  # the agent would queue it, and might join it with others
                await self._take_out(text, by)
                raise Obstacle(f"{self.way(view)}; it was deleted from its input again", passes=True)

    def way(self, view: InputView) -> str:
        """What is in the way."""
        return str(view.obstacle(self.session.id) or "nothing is in the way")

    async def _until_gone(
        self, text: str, before: InputView, taken: asyncio.Event, printed: int
    ) -> bool | None:
        """Wait until the input does not show a text any more; true if the program has begun with it, None if
        it is still there. Longer if the program has not read Enter, or printed no more than `printed`."""
        entered = time.monotonic()
        gone = 0
        while (passed := time.monotonic() - entered) < READ_WAIT:
            if passed > ENTER_WAIT and self.session.offset != printed and self._has_read:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await taken.wait()
            if taken.is_set():
                return True
            view = await self.view()
            if view.program != before.program:
                return True
            if view.shows(text):
                gone = 0
            elif view.state in ("working", "waits"):
                return True
            elif view.input:
                gone += 1
                if gone >= GONE_LOOKS:
                    return False
        return None

    async def _take_out(self, text: str, by: str) -> None:
        """Delete what was pasted, which alone is in the input. Raises Obstacle if it stays there."""
        view = await self.view()
        if not view.shows(text) or not self._has_read:
            raise Obstacle("it was typed, and it is not known whether it is still in the input")
        await self._delete(text, view, by)
        await self._until_empty()

    async def _delete(self, text: str, view: InputView, by: str) -> None:
        """Press the keys that delete a text from an input that has it alone."""
        key = self.session.screen.key
        size = max(len(text), sum(len(row) + 1 for row in view.typed) if view.agent in SHELLS else 0)
        is_tall = len(view.typed) >= self.session.screen.rows - 2
        if view.agent in SHELLS and (is_tall or size > MAX_DELETED):
            # a shell draws its line anew for each character, and no prompt that it believes to be there
            redraw = b"" if takes_lines(self.session.terminal) else key("C-l")
            self._give((key("C-u") + key("BSpace")) * (text.count("\n") + 1) + redraw, by)
        else:
            self._give(key("BSpace") * (size + 1), by)

    async def _until_empty(self) -> None:
        """Raises Obstacle if what was deleted stays in the input."""
        deadline = time.monotonic() + TAKE_OUT_WAIT
        while (await self.view()).input != "empty":
            if time.monotonic() > deadline + (0.0 if self._has_read else READ_WAIT):
                raise Obstacle("it was typed and not submitted, and it is still in the input", blocks=True)
            await asyncio.sleep(LOOK)


def _source(said: Activity) -> str:
    return said.evidence.source if said.evidence is not None else ""


def _typed(text: str) -> str:
    """A text as it is typed."""
    return pasteable(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n").rstrip()


_NAMED = re.compile("<([0-9a-f]{4}|000[0-9a-f]{5})>")
"""How zsh shows a character that has no width."""


def _seen(text: str) -> str:
    """What tells a text in an input from others: neither blanks and frames nor characters that have no width
    of their own, for programs draw these in several ways and not always."""
    text = bare(text)
    if "<" in text:
        text = _NAMED.sub(lambda at: "" if _has_no_width(chr(int(at[1], 16))) else at[0], text)
    if text.isascii():
        return text
    text = "".join(char for char in text if not _has_no_width(char))
    return "".join(char for char in normalize("NFD", text) if not _has_no_width(char))


@lru_cache(maxsize=4096)
def _has_no_width(char: str) -> bool:
    """True of marks that are drawn with the character before, and of what is not drawn."""
    return not char.isascii() and (category(char) in ("Mn", "Me", "Cf") or char_width(ord(char)) == 0)


def _close_menu(text: str) -> str:
    """A blank if the last word would leave a menu open."""
    words = text.split()
    return " " if len(words) > 1 and words[-1][0] in _OPENS_MENU else ""


def same_text(one: str, other: str) -> bool:
    """True if two prompts are the same, as far as one can tell of one that is reported."""
    said, typed = (" ".join(_typed(text).split())[:COMPARED] for text in (one, other))
    return said == typed


class Submitters:
    """What types into all sessions."""

    def __init__(self, rules_of: RulesOf, activity_of: ActivityOf) -> None:
        self.rules_of = rules_of
        self._activity_of = activity_of
        self._all: WeakKeyDictionary[TerminalSession, Submitter] = WeakKeyDictionary()

    def is_idle(self, id: str) -> bool:
        """Whether a session is idle as its screen shows, whatever hooks said before."""
        said = self._activity_of(id)
        return said is not None and said.state == "idle" and _source(said) == "screen"

    def of(self, session: TerminalSession) -> Submitter:
        found = self._all.get(session)
        if found is None:
            found = self._all[session] = Submitter(session, self.rules_of, self._activity_of)
        return found
