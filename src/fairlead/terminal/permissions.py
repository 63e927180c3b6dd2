"""Permissions that agents in terminals ask for, told by their hooks: questions in the inbox that anybody may
answer, while the agent's own dialog may be answered in the terminal. The first answer counts.

Some agents' hooks wait for the answer and give it to the agent. Others can't: theirs only tell of the dialog,
and the answer is given to the dialog itself, by a key, if it is on the screen just as the person saw it. A
question is withdrawn when its dialog has gone, its hook has ended, or another hook shows that it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from ..formats.shown import MAX_ANSWER_NAME, fits, one_line, visible
from ..sessions.asks import Asks, DurableAsk, TakenToken, TooManyAsked
from ..sessions.inbox import AskerGone, Inbox, Unheard
from ..sessions.questions import ALLOW, ALWAYS, DENY, MAX_WHOLE, WITHDRAWN, Answer, AnswerOption, Question
from ..sessions.state import DoesNow
from .dialogs import ShownDialog, shown_dialog
from .host import HostError, TerminalHost
from .ports import ProgramState
from .session import TerminalSession
from .state.rules import live_view, shipped
from .state.weighing import ANSWERED

log = logging.getLogger("fairlead")

MAX_TITLE, MAX_WHAT = 100, 200
"""How many characters what asks, and the line that says what will happen, have."""
MAX_DENIED = 200
"""Of how many calls that were denied it is seen if they run all the same."""
MAX_WORD = 200
"""How many characters an agent's own names and ids have."""
LOOK_AFTER = 0.2
"""Seconds after a change until the screen is looked at,"""
GONE_AFTER = 0.6
"""and that a dialog must be missing before it has gone: programs erase before they draw."""
DIALOG_WAIT = 10.0
"""Seconds within which the dialog must be there that a hook tells of,"""
STILL = 0.3
"""and before a key is pressed, still: somebody may just have answered it in the terminal,"""
TAKEN_WAIT = 3.0
"""and after a key was pressed, gone."""
HOOK_RETURNS = 10.0
"""Seconds after a daemon's start within which a hook must ask again: it tries ten times a second."""
INPUT_AFTER = 1.0
"""Seconds that an agent must show its input until a question that the last daemon left is over."""
IN_TERMINAL = "answer it in the terminal"
GONE = "its dialog in the terminal is gone: it was answered or cancelled there"
HOOK_ENDED = "the agent ended its hook: it was answered or cancelled in the terminal"

HOOK_GONE = f"the hook that asked is gone; {IN_TERMINAL}"

HookSays = DoesNow | Literal[""]
Says = Callable[[str, HookSays, str, str], None]
"""Tells what an agent's hook says: the session's id, the state ("" if what was said before does not hold any
more), the words, and the question."""


_SAYS: Mapping[str, HookSays] = {
    **dict.fromkeys(("start", "tool", "tool-ended", "replied", "checked", "sent-back"), "working"),
    **dict.fromkeys(("stop", "error", "interrupted"), "idle"),
    **dict.fromkeys(("session-started", "session-ended"), ""),
}


def hook_says(event: str, words: str) -> HookSays | None:
    """What an agent does by an event of its hooks: a state, "" if what was said before holds no more, or None
    if that says nothing. Of notifications the words tell."""
    if event != "notification":
        return _SAYS.get(event)
    text = words.casefold()
    if "permission" in text or "approval" in text:
        return "waits"
    return "idle" if "waiting for your input" in text else None


class AskedPermission(NamedTuple):
    """What a hook says that its agent asks for."""

    id: str
    agent: str
    title: str
    what: str
    whole: str
    reason: str = ""
    always: str = ""
    """What the answer that lasts is called; empty if there is none."""
    may_allow: bool = True
    call: str = ""
    """The same for all hooks of one tool call."""
    subagent: str = ""
    shows: str = ""
    """For a hook that can't answer: what the dialog has in it."""
    by_keys: bool = False


class _OpenPermission:
    """A question that waits, and what is seen of its dialog."""

    def __init__(self, session: TerminalSession, note: Mapping[str, str]) -> None:
        self.session = session
        self.agent = note.get("agent", "")
        self.call = note.get("call", "")
        self.subagent = note.get("subagent", "")
        self.dialog = note.get("dialog", "")
        """What the dialog has, if it is to be answered by keys."""
        self.was_seen = bool(self.dialog)
        self.gone_since = 0.0
        self.is_left = False
        """Whether the last daemon left it: then its dialog may have come and gone while nobody looked."""
        self.input_since = 0.0
        self.is_pressed = False
        """Whether its dialog is being given an answer."""
        self.holding: asyncio.Task[Answer] | None = None


class TerminalPermissions(Asks):
    """The permissions that agents in all terminal sessions ask for, in a directory of files."""

    max_open_each, max_an_hour = 20, 1000
    restart_grace = HOOK_RETURNS
    nobody_waits = HOOK_GONE

    def __init__(
        self, directory: str, inbox: Inbox, host: TerminalHost, says: Says, limit: Callable[[], float]
    ) -> None:
        """`limit` returns the seconds that a hook waits for an answer."""
        super().__init__(directory, inbox)
        self._host = host
        self._says = says
        self._limit = limit
        self._asking: dict[str, _OpenPermission] = {}
        self._looks: dict[str, asyncio.TimerHandle] = {}  # by session
        self._watched: dict[str, tuple[TerminalSession, Callable[[], None]]] = {}
        self._appearing: set[asyncio.Task[None]] = set()
        self._denied: dict[tuple[str, str], tuple[str, str]] = {}  # by session and call: question, by whom

    def _register(self) -> None:
        """What became of questions that are not asked again is known by who has the sessions of this kind."""

    def open(self) -> None:
        super().open()
        for id in list(self._waiters):
            ask = self._known[id]
            session = self._host.sessions.get(ask.question.session or "")
            if session is None or session.state is ProgramState.ENDED:
                self.withdraw(id, "the session has ended")
                continue
            self._follow(id, session, ask.note, is_left=True)

    def close(self) -> None:
        for each in self._asking.values():
            if each.holding is not None:
                each.holding.cancel()
        for task in self._appearing:
            task.cancel()
        for id in list(self._watched):
            self._unwatch(id)
        self._asking.clear()
        super().close()

    # --- asking -------------------------------------------------------------------------------------------

    async def ask(self, name: str, asked: AskedPermission) -> Mapping[str, Any]:
        """A hook asks. Returns what it is answered: the option that was chosen and by whom; or why none was,
        then the agent's own dialog is what counts. Raises HostError."""
        session = self._host.find(name)
        if session.state is not ProgramState.RUNNING:
            return {"accepted": False, "reason": f"session {session.id} is {session.state.value}"}
        if asked.by_keys:
            task = asyncio.get_running_loop().create_task(self._when_shown(session, asked))
            self._appearing.add(task)
            task.add_done_callback(self._appearing.discard)
            return {"accepted": True}
        try:
            self._begin(session, asked, None)
        except (TooManyAsked, TakenToken, OSError) as error:
            return {"accepted": False, "reason": str(error)}
        try:
            async with asyncio.timeout(self._limit()):
                answer = await self.wait(asked.id)
        except TimeoutError:
            self._over(asked.id, f"nobody answered in {self._limit():g} seconds; {IN_TERMINAL}")
            return {"accepted": True, "reason": "nobody answered in time"}
        except asyncio.CancelledError:
            self._over(asked.id, HOOK_ENDED)
            raise
        if answer.option == WITHDRAWN:
            return {"accepted": True, "reason": answer.by}
        return {"accepted": True, "option": answer.option, "by": answer.by}

    async def _when_shown(self, session: TerminalSession, asked: AskedPermission) -> None:
        """Ask what a hook can't give the answer to, as soon as its dialog is there."""
        deadline = time.monotonic() + DIALOG_WAIT
        while (dialog := _dialog(session, asked.agent)) is None or not dialog.shows(asked.shows):
            if time.monotonic() > deadline or session.state is not ProgramState.RUNNING:
                break
            await asyncio.sleep(LOOK_AFTER)
        if dialog is None:
            return  # it was answered by a rule of the agent's own, or in the terminal
        try:
            self._begin(session, asked, dialog)
        except (TooManyAsked, TakenToken, OSError) as error:
            log.warning(
                "a permission that %s asks for in %s is not shown: %s", asked.agent, session.id, error
            )

    def _begin(self, session: TerminalSession, asked: AskedPermission, dialog: ShownDialog | None) -> None:
        whole, reason = asked.whole, asked.reason
        may_allow = asked.may_allow
        if len(whole) > MAX_WHOLE // 2:
            whole, may_allow = whole[: MAX_WHOLE // 2], False
            reason += "; it is too long to be shown whole, so it can only be denied here"
        options = [ALLOW] if may_allow else []
        if dialog is not None:
            whole = f"{whole}\n\nThe dialog in the terminal:\n{dialog.text}"
            is_shown = dialog.is_whole and dialog.shows(asked.shows)
            if may_allow and not (is_shown and "allow" in dialog.keys):
                options = []
                reason += (
                    f"; its dialog does not show all of it, so it can only be denied here; {IN_TERMINAL}"
                )
        lasting = dict(dialog.lasting) if dialog is not None else {}
        lasting |= {ALWAYS.value: asked.always} if asked.always else {}
        for value, label in lasting.items() if options else ():
            if fits(label):
                options.append(AnswerOption(value, one_line(label, MAX_ANSWER_NAME)))
            else:
                reason += f"; what {value!r} would allow is too long to be shown whole; {IN_TERMINAL}"
        if dialog is None or "deny" in dialog.keys:
            options.append(DENY)
        note = {"agent": asked.agent[:MAX_WORD], "call": asked.call[:MAX_WORD]}
        note |= {"subagent": asked.subagent[:MAX_WORD], "dialog": dialog.text if dialog is not None else ""}
        question = Question(
            id=asked.id,
            kind="permission",
            session=session.id,
            session_name=session.id,
            project=session.cwd,
            title=one_line(asked.title, MAX_TITLE) or "permission",
            what=one_line(asked.what, MAX_WHAT),
            whole=visible(whole),
            reason=one_line(reason.lstrip("; "), MAX_WHAT * 2),
            options=tuple(options),
            asked_at=time.time(),
        )
        self.begin(question, note=note)
        if asked.id in self._waiters:
            self._follow(asked.id, session, note)
            self._says(session.id, "waits", f"{asked.agent} asks for permission", question.what)

    def _follow(
        self, id: str, session: TerminalSession, note: Mapping[str, str], *, is_left: bool = False
    ) -> None:
        """Notice it when a question is over."""
        if id in self._asking:
            return
        opened = self._asking[id] = _OpenPermission(session, note)
        opened.is_left = is_left
        opened.was_seen = opened.was_seen or _dialog(session, opened.agent) is not None
        if opened.dialog:  # nobody else waits for the answer
            opened.holding = asyncio.get_running_loop().create_task(self.wait(id))
        if session.id not in self._watched:

            def changed() -> None:
                self._look_soon(session.id, LOOK_AFTER)

            self._watched[session.id] = session, changed
            session.watchers.add(changed)
        self._look_soon(session.id, LOOK_AFTER)

    def _unwatch(self, id: str) -> None:
        if (watched := self._watched.pop(id, None)) is not None:
            watched[0].watchers.discard(watched[1])
        if (look := self._looks.pop(id, None)) is not None:
            look.cancel()

    # --- its dialog ---------------------------------------------------------------------------------------

    def _look_soon(self, session: str, seconds: float) -> None:
        if session not in self._looks:
            loop = asyncio.get_running_loop()
            self._looks[session] = loop.call_later(seconds, self._look, session)

    def _look(self, session_id: str) -> None:
        """See whether the dialogs of a session are still there."""
        self._looks.pop(session_id, None)
        now = time.monotonic()
        for id, each in self._of(session_id):
            if each.is_pressed:
                continue
            dialog = _dialog(each.session, each.agent)
            if dialog is not None and (not each.dialog or dialog.is_same(each.dialog)):
                each.was_seen, each.gone_since, each.input_since = True, 0.0, 0.0
            elif each.was_seen and not each.gone_since:
                each.gone_since = now
                self._look_soon(session_id, GONE_AFTER)
            elif each.gone_since and now - each.gone_since >= GONE_AFTER:
                self._over(id, GONE)
            elif each.gone_since:
                self._look_soon(session_id, GONE_AFTER)
            elif each.is_left:
                self._look_for_input(id, each, now)

    def _look_for_input(self, id: str, each: _OpenPermission, now: float) -> None:
        """See whether the agent takes prompts again though its dialog was never seen."""
        if not _shows_input(each.session, each.agent):
            each.input_since = 0.0
            return
        each.input_since = each.input_since or now
        if now - each.input_since >= INPUT_AFTER:
            self._over(id, GONE)
        else:
            self._look_soon(each.session.id, INPUT_AFTER)

    def _of(self, session: str) -> list[tuple[str, _OpenPermission]]:
        return [(id, each) for id, each in self._asking.items() if each.session.id == session]

    # --- its end ------------------------------------------------------------------------------------------

    def called(self, session: str, event: str, call: str = "", subagent: str = "") -> None:
        """Another hook was called, which may show that a question is over. While a dialog is on the screen,
        the agent's other calls say nothing about it. A call that was denied and has run was allowed in the
        terminal before the answer came."""
        denied = self._denied.pop((session, call), None) if event in ("tool", "tool-ended") else None
        if denied is not None and event == "tool-ended":  # else it is another try
            log.warning("%s: the call that was denied by %s has run", *denied)
            by = f"its terminal: it ran, denied too late by {denied[1]}"
            self._inbox.correct(denied[0], ALLOW.value, by)
        for id, each in self._of(session):
            if each.is_pressed:
                continue
            match event:
                case "tool-ended" | "replied":
                    is_over = bool(call) and each.call == call
                case "tool":
                    is_over = each.subagent == subagent and _dialog(each.session, each.agent) is None
                case "subagent-ended":
                    is_over = bool(subagent) and each.subagent == subagent
                case "start" | "stop" | "checked" | "error" | "interrupted" | "session-ended":
                    is_over = not subagent
                case _:
                    is_over = False
            if is_over:
                self._over(id, "answered in the terminal")

    def ended(self, session: str) -> None:
        """The program of a session has ended."""
        for id, _ in self._of(session):
            self._over(id, "the session has ended")

    def _over(self, id: str, why: str) -> None:
        self.withdraw(id, why, whoever_waits=True)

    def _end(self, ask: DurableAsk, answer: Answer) -> None:
        super()._end(ask, answer)
        each = self._asking.pop(ask.question.id, None)
        if each is None:
            return
        if each.holding is not None:
            each.holding.cancel()
        if not self._of(each.session.id):
            self._unwatch(each.session.id)
            # one whose dialog was cancelled may end its turn without a hook
            goes_on = answer.allows or (answer.option != WITHDRAWN and not each.dialog)
            self._says(each.session.id, "working" if goes_on else "", ANSWERED, "")
            if answer.option == DENY.value and each.call:
                self._denied[each.session.id, each.call] = ask.question.id, answer.by
                while len(self._denied) > MAX_DENIED:
                    del self._denied[next(iter(self._denied))]

    async def answered(self, question: Question, answer: Answer) -> None:
        each = self._asking.get(question.id)
        if each is not None and each.dialog:
            each.is_pressed = True
            try:
                await self._press(each, answer)
            finally:
                each.is_pressed = False
                self._look_soon(each.session.id, LOOK_AFTER)
        await super().answered(question, answer)

    async def _press(self, each: _OpenPermission, answer: Answer) -> None:
        """Give an answer to the dialog, which must be on the screen as it was shown."""
        dialog = _dialog(each.session, each.agent)
        if dialog is not None:
            await asyncio.sleep(STILL)
            dialog = _dialog(each.session, each.agent)
        if dialog is None:
            raise AskerGone(GONE)
        if not dialog.is_same(each.dialog):
            raise Unheard(
                f"the terminal shows another dialog than the one that was asked about; {IN_TERMINAL}"
            )
        key = dialog.keys.get(answer.option)
        if key is None:
            raise Unheard(f"its dialog can't be answered so; {IN_TERMINAL}")
        each.session.send_input(key.encode())
        deadline = time.monotonic() + TAKEN_WAIT
        while (now := _dialog(each.session, each.agent)) is not None and now.is_same(each.dialog):
            if time.monotonic() > deadline:
                raise Unheard(f"its dialog did not take the answer; {IN_TERMINAL}")
            await asyncio.sleep(LOOK_AFTER)


def _dialog(session: TerminalSession, agent: str) -> ShownDialog | None:
    with contextlib.suppress(RuntimeError, HostError):  # the screen went meanwhile
        return shown_dialog(agent, live_view(session.screen).texts)
    return None


def _shows_input(session: TerminalSession, agent: str) -> bool:
    """True if an agent shows its input and does nothing, as the rules for its screens say."""
    rules = next((each for each in shipped() if each.agent == agent), None)
    if rules is not None:
        with contextlib.suppress(RuntimeError, HostError):  # the screen went meanwhile
            found = rules.look(live_view(session.screen))
            return found is not None and found.state == "idle" and found.input != ""
    return False
