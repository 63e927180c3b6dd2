"""Talking with an agent session in a terminal: what `fairlead agent` does.

One loop waits for the keyboard, the daemon and signals at once, so whatever happens is shown when it happens:
what other clients say, an approval that somebody else answered, the loss of the daemon. The session is the
daemon's; this client may leave and come back at any time.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from typing import Any

from ...client.calls import OpenedAgent, RequestError
from ...client.connection import READ_SIZE
from ...client.following import PROMPT_ENDED, AgentSubscription, Answered
from ...client.hung import lock_holder
from ...client.launch import reached
from ...client.reconnect import LOST, RECONNECTED, RETRY_PAUSE, Reconnect
from ...client.sdk import Agent
from ...events import (
    AgentEvent,
    ApprovalSettled,
    ApprovalWanted,
    Escalated,
    Failed,
    Other,
    PersonAsked,
    Prompted,
    Reported,
    Retrying,
    TurnBegan,
    TurnEnded,
)
from ...formats.ladder import LADDER, word_for
from ...formats.shown import clean, one_line
from ...system.settings import Settings, safe_dir
from ...wire.rpc import MAX_PENDING, ErrorCode
from ..own_terminal import LeftTerminal, SignalBell
from .line import InputHistory, InputLine, Key
from .questions import ANSWERS, MAX_WHAT, OpenQuestions, answer_of, offer_of, pending_elsewhere
from .talk import TICK, ConversationView, turn_start, without_shown
from .terminal import ChatTerminal
from .view import ChatScreen, Paint, Row, asked, ends, marked

ESCAPE_WAIT = 0.05
"""Seconds after which an Escape is a key and not the beginning of one."""
SHOWN_MESSAGES, SHOWN_LINES = 12, 20
"""How many messages, calls and results are shown of a session that one comes back to; how many lines of each.
"""
TURN_MESSAGES, TURN_LINES = 400, 1000
"""The same of a turn that is still running."""
SLOW = frozenset({"command", "login_complete"})
"""Requests whose answers may take longer than it takes to find a daemon hung."""
_ANSWERED_ELSEWHERE = (ErrorCode.NO_ACTIVE_DIALOG.value, ErrorCode.DIALOG_ID_MISMATCH.value)
"""Errors of an answer to a question if another client was first."""
SAYING = ("prompt", "steer")
"""Requests that say something."""
ANSWERING = ("resolve_dialog", "cancel_dialog")
"""Requests that answer a question."""
MAX_STOPS = 2
"""How many ^C end a turn; the next one leaves."""
MAX_ASKED = MAX_PENDING // 2
"""How many requests may be on their way; then a bell says that no more is taken."""
INPUT_ROWS = 10
"""How many rows are shown of what is being typed."""
QUEUED_ROWS = 4
"""How many are shown of what waits to be said."""

_OFFLINE = "no language model is connected; choose one with /model or --model"
_KEYS = "/help lists commands, \\ Enter inserts a line break, ^D leaves"


def chat(agent: Agent, settings: Settings, *, prompt: str = "", yes: bool = False) -> int:
    """ConversationView until the person leaves. Gives the exit code."""
    history = InputHistory(f"{safe_dir(settings.state_dir)}/agent-history")
    try:
        with ChatTerminal() as terminal:
            talk = _Chat(agent, settings, terminal, history, prompt, yes)
            try:
                while True:
                    talk.turn()
            finally:
                talk.close()
    except LeftTerminal as left:
        if str(left):
            print(left, file=sys.stderr)
        return left.code


class _Chat:
    """One conversation: the connection if there is one, and what is shown of it."""

    def __init__(
        self,
        agent: Agent,
        settings: Settings,
        terminal: ChatTerminal,
        history: InputHistory,
        prompt: str,
        yes: bool,
    ) -> None:
        self._created = agent.created
        self._name = agent.name
        self._place = ""  # the session's directory
        self._settings = settings
        self._terminal = terminal
        self._prompt = prompt
        self._yes = yes
        self._screen = ChatScreen(
            terminal.write,
            lambda: terminal.size if all(terminal.size) else (80, 24),
            Paint(not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"),
        )
        self._talk = ConversationView(self._screen)
        self._line = InputLine(history)
        # the daemon
        # what was said before is recalled; in a new session nothing was
        self._following = _followed(agent)
        self._connection: socket.socket | None = None
        self._unsent = b""
        self._asked: dict[str, tuple[str, str]] = {}  # op and text of requests without an answer
        self._reconnect = Reconnect()
        self._look_at = 0.0  # when to look for the daemon next
        self._heard_at = 0.0  # when the daemon said something, or had nothing to answer
        self._was_lost = False
        # the conversation
        self._greeted = False
        self._missed: list[AgentEvent] = []  # what came before we knew all of how the session is
        self._shown: set[str] = set()  # prompts of ours that are on the screen before they are said
        self._queued: dict[str, str] = {}  # what we said and what waits for its turn, by its prompt's id
        self._stops = 0  # how often ^C was pressed in this turn
        # questions
        self._questions = OpenQuestions()
        self._action: dict[str, Any] | None = None

    def close(self) -> None:
        self._talk.end_line()
        self._screen.leave()
        if self._connection is not None:
            self._connection.close()

    # --- the loop -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Wait until anything can be done and do it. Raises LeftTerminal in the end."""
        if self._connection is None and time.monotonic() >= self._look_at:
            self._reach()
        if not self._is_due:
            self._heard_at = time.monotonic()
        self._draw()
        connection = self._connection
        terminal = self._terminal
        reading: list[int | socket.socket | SignalBell] = [terminal.bell, terminal.input]
        reading += [connection] if connection is not None else []
        writing = [connection] if connection is not None and self._unsent else []
        readable, writable, _ = select.select(reading, writing, [], self._pause())
        if terminal.bell in readable:
            self._signalled()
        if terminal.input in readable:
            for key in terminal.typed():
                self._pressed(key)
        elif terminal.keys.is_pending:
            for key in terminal.keys.flush():
                self._pressed(key)
        if connection is None or self._connection is not connection:
            return
        try:
            if connection in readable:
                self._receive(connection.recv(READ_SIZE))
            if connection in writable:
                self._unsent = self._unsent[connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _pause(self) -> float | None:
        """Seconds until something is to be done though nothing happens."""
        if self._terminal.keys.is_pending:
            return ESCAPE_WAIT
        if self._connection is None:
            return RETRY_PAUSE
        return TICK if self._is_busy or self._is_due or self._questions else None

    def _signalled(self) -> None:
        for number in self._terminal.bell.rung():
            match number:
                case signal.SIGINT:
                    self._pressed(("key", "interrupt"))
                case signal.SIGTSTP:
                    self._suspend()
                case signal.SIGCONT:
                    self._terminal.enter()
                    self._draw(always=True)
                case signal.SIGTERM | signal.SIGHUP:
                    raise LeftTerminal(128 + number)
                case signal.SIGWINCH:
                    self._draw(always=True)

    def _suspend(self) -> None:
        self._screen.leave()
        self._terminal.suspend()
        self._draw(always=True)

    # --- the daemon -----------------------------------------------------------------------------------------

    def _reach(self) -> None:
        """Look once for the daemon, without waiting for it."""
        self._look_at = time.monotonic() + RETRY_PAUSE
        try:
            connection = reached(self._settings.rpc_path, 0)
        except BlockingIOError:  # so many wait for it that there is no room for one more
            connection = None
        if connection is None:
            self._reconnect.look(self._settings)
            return
        connection.setblocking(False)
        self._heard_at = time.monotonic()
        self._connection = connection
        self._unsent = self._following.begin()

    def _lose(self) -> None:
        """The daemon went away. What was asked of it may or may not have been done."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._unsent = b""
        self._action = None
        if self._line.is_secret:  # who had asked for it is no more
            self._log_in("")
        if self._following.ready:
            self._was_lost = True
            self._reconnect.reached()

    def _receive(self, data: bytes) -> None:
        was_ready = self._following.ready
        self._heard_at = time.monotonic()
        try:
            reply, events, answers = self._following.receive(data)
        except RequestError as error:
            raise LeftTerminal(1, f"fairlead agent: {error}") from None
        self._unsent += reply
        self._missed += events
        if not self._following.ready:
            return
        if not was_ready:
            self._begun()
        for answer in answers:
            self._accepted(answer)
        if self._greeted:
            self._catch_up()
        for answer in answers:
            self._answered(answer)

    def _catch_up(self) -> None:
        events, self._missed = self._missed, []
        for event in events:
            self._happened(event)

    def _begun(self) -> None:
        """We know how the session is, and miss nothing from now on."""
        if self._was_lost:
            self._was_lost = False
            self._talk.note(RECONNECTED)
            answered = [id for op, id in self._asked.values() if op in ANSWERING]
            unsaid = self._find_unsaid()
            self._questions.begin_again()
            self._catch_up()
            self._give_back(unsaid)
            for note in self._questions.drop_kept(answered):
                self._talk.note(note)
            if self._questions.is_meant_for_earlier(self._line.text):
                self._line.set("")
        if not self._greeted:
            self._ask("get_state")  # all else comes after the greeting
            return
        self._welcome()

    def _welcome(self) -> None:
        state = self._following.state
        if state is not None and state.is_idle and state.data.get("was_interrupted"):
            self._end_turn()
            self._talk.note("the last turn was interrupted; send a prompt to continue")
        if self._prompt:
            prompt, self._prompt = self._prompt, ""
            self._say(prompt)
        self._catch_up()

    def _find_unsaid(self) -> list[str]:
        """What was said to a daemon that went away before it answered, unless the session has heard it."""
        unheard = [(op, text) for op, text in self._asked.values() if op in SAYING]
        self._asked.clear()
        for event in self._missed:
            known = event.prompt_id in self._shown or event.prompt_id in self._queued
            heard = next(
                (each for each in unheard if isinstance(event, Prompted) and each[1] == event.text), None
            )
            if heard is not None and not known:
                unheard.remove(heard)
                self._take(heard[0], event.prompt_id, heard[1])
        return [text for _, text in unheard]

    def _give_back(self, unsaid: list[str]) -> None:
        """The person has back what did not arrive. What waited may be gone with the daemon."""
        for text in unsaid:
            self._talk.note("your last prompt did not reach the daemon; press Enter to send it again")
            self._line.set(self._line.text or text)
        state = self._following.state
        if state is None or not state.data.get("pending_message_count"):
            self._queued.clear()

    def _ask(self, op: str, said: str = "", /, **params: Any) -> None:
        if self._connection is None or not self._following.ready or len(self._asked) >= MAX_ASKED:
            self._terminal.write("\a")
            return
        id, line = self._following.request(op, **params)
        self._asked[id] = op, said
        self._unsent += line

    def _accepted(self, answer: Answered) -> None:
        """Know our own prompts: what is told of them may have come together with the answer."""
        op, text = self._asked.get(answer.id, ("", ""))
        if op in SAYING and answer.error is None:
            self._take(op, answer.data.get("prompt_id") or "", text)
        elif op == "command" and answer.data.get("prompt_id") and "fallback" not in answer.data:
            self._shown.add(answer.data["prompt_id"])  # a command of the agent's own

    def _take(self, op: str, prompt_id: str, text: str) -> None:
        if op == "prompt":
            self._shown.add(prompt_id)
        else:
            self._queued[prompt_id] = text

    def _answered(self, answer: Answered) -> None:
        op, text = self._asked.pop(answer.id, ("", ""))
        error = answer.error
        if op in ("get_state", "get_messages"):
            self._learn_state(op, text, answer)
            return
        if op == "approvals" and error is None:
            self._talk.show(pending_elsewhere(answer.data["approvals"], self._place), "note")
        if op in ANSWERING:
            self._questions.confirm(text, is_open=error is not None and error.code not in _ANSWERED_ELSEWHERE)
        if op in ("interrupt", "abort") and answer.data.get("dropped_steering_text"):
            self._line.set(self._line.text or answer.data["dropped_steering_text"])
        if op == "login_complete" and error is None:
            self._talk.note("the key is kept")
        if error is None or error.code in _ANSWERED_ELSEWHERE:
            return
        if op == "prompt" and error.code == "request/session-not-idle":
            self._ask("steer", text, message=text)
            return
        self._talk.show([(clean(str(error)), "red")], "note")

    def _learn_state(self, op: str, what: str, answer: Answered) -> None:
        """How the session is, one thing after the other, for the greeting."""
        if answer.error is not None:
            raise LeftTerminal(1, f"fairlead agent: {answer.error}")
        said: list[dict[str, Any]] = []
        if op == "get_state":
            self._place = answer.data["state"].get("worktree_path") or ""
            if not self._created:
                self._ask("get_messages", "count", limit=1)
                return
        elif what == "count":
            is_idle = self._following.state is None or self._following.state.is_idle
            first = answer.data["total"] - (SHOWN_MESSAGES if is_idle else TURN_MESSAGES)
            self._ask("get_messages", **{"from": max(0, first) or None})
            return
        else:
            said = answer.data["messages"]
        self._greet(said)
        self._welcome()

    def _turn_to(self, opened: OpenedAgent) -> None:
        """Follow another session."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._end_turn()
        self._created, self._name = opened.created, ""
        self._following = _followed(opened)
        self._look_at = 0.0
        self._greeted = False
        self._missed.clear()
        self._questions = OpenQuestions()
        self._shown.clear()
        self._queued.clear()
        self._asked.clear()
        self._reconnect.reached()

    # --- what is shown --------------------------------------------------------------------------------------

    @property
    def _is_connected(self) -> bool:
        """True if the daemon can be asked something."""
        return self._connection is not None and self._following.ready and self._greeted

    @property
    def _is_busy(self) -> bool:
        state = self._following.state
        return (state is not None and state.phase != "idle") or any(
            op in ("prompt", "steer", "command") for op, _ in self._asked.values()
        )

    @property
    def _is_due(self) -> bool:
        """True if the daemon should have something to say at once."""
        return self._connection is not None and (
            not self._greeted
            or any(op not in SLOW or text.split()[:1] == ["/new"] for op, text in self._asked.values())
        )

    @property
    def _is_hung(self) -> bool:
        """True if it has not for too long."""
        away = time.monotonic() - self._heard_at
        return self._is_due and away > self._settings.number("daemon", "answer_seconds")

    def _greet(self, before: list[dict[str, Any]]) -> None:
        """Say what session this is, and what was said in it before."""
        self._greeted = True
        state = self._following.state
        data = state.data if state is not None else {}
        name = clean(data.get("session_name") or "a new session" if self._created else "")
        name = name or clean(data.get("session_display_name") or "")
        model = f"{data.get('model_provider')}/{data.get('model_id')}"
        thinking = data.get("effective_reasoning_effort") or "off"
        model += f", thinking {thinking}" if thinking != "off" else ""
        self._talk.show([(f"{name} · {clean(model)} · {clean(self._place)}", "bold")], "head")
        if data.get("model_provider") == "offline":
            self._talk.show([(_OFFLINE, "dim")], "head")
        self._talk.show([(_KEYS, "dim")], "head")
        if reason := (data.get("verdict") or {}).get("escalated"):
            self._talk.show([(f"◆ a person is needed: {clean(reason)}", "red")], "note")
        is_idle = state is None or state.is_idle
        turn = len(before) if is_idle else turn_start(before)
        first = max(0, min(turn, len(before) - SHOWN_MESSAGES))
        for number, said in enumerate(before[first:], first):
            self._talk.recall(said, SHOWN_LINES if number < turn else TURN_LINES)
        self._missed = without_shown(self._missed, before)
        if is_idle:
            self._talk.end_turn()

    def _draw(self, *, always: bool = False) -> None:
        columns = self._screen.columns
        rows = self._talk.rows()
        waiting = [*self._queued.values(), *(text for op, text in self._asked.values() if op == "steer")]
        rows += [(f"↳ {clean(text).partition(chr(10))[0]}", "dim") for text in waiting[-QUEUED_ROWS:]]
        if self._questions:
            rows += self._asking()
        if self._is_hung:
            pid = lock_holder(self._settings)
            who = f"the daemon, process {pid}, is hung: it" if pid else "the daemon"
            rows.append(
                (f"{who} does not answer; `fairlead daemon restart` replaces it, ^D leaves", "yellow")
            )
        elif self._connection is None and self._was_lost:
            rows.append((LOST, "dim"))
        elif self._is_busy and not self._questions:
            state = self._following.state
            rows.append((self._talk.spinner(state.phase if state is not None else ""), "dim"))
        mark = "key: " if self._line.is_secret else "number: " if self._action is not None else "> "
        typed, cursor = self._line.rows(mark, columns, INPUT_ROWS)
        place = len(rows) + cursor[0], cursor[1]
        self._screen.draw([*rows, *((row, "") for row in typed)], place, always=always)

    def _asking(self) -> list[Row]:
        wanted, count = self._questions.first, len(self._questions.wanted)
        more = f" ({count - 1} more pending)" if count > 1 else ""
        keys = f" {offer_of(wanted)}" if self._questions.takes_answer else ""
        what = ends(one_line(wanted.summary, MAX_WHAT), self._screen.columns - 2)  # the rest may be far above
        return [(f"? {what}", "yellow"), (f"allow {marked(wanted.tool)}?{keys}{more}", "yellow")]

    # --- what happens ---------------------------------------------------------------------------------------

    def _happened(self, event: AgentEvent) -> None:
        match event:
            case Prompted(text):
                self._prompted(text, event.prompt_id)
            case TurnBegan():
                self._stops = 0
                self._talk.happened(event)
            case TurnEnded(outcome):
                self._end_turn()
                if outcome in ("aborted", "interrupted"):
                    self._talk.show([(outcome, "yellow")], "note")
            case Retrying():
                self._talk.drop_answer()
                self._talk.show([(clean(event.line), "yellow")], "note")
            case Failed(message):
                self._talk.show([(clean(message), "red")], "note")
            case ApprovalWanted():
                self._consent(event)
            case PersonAsked(id):
                if self._questions.ask_person(event):
                    self._talk.show(asked(event), "question")
                self._answer_again(id)
            case ApprovalSettled(id, allowed, by):
                self._settled(id, allowed, by)
            case Reported(turn, confidence, summary, verifier):
                word = word_for(confidence)
                row = f"◆ turn {turn} {word} by {clean(verifier) or 'a verifier'}: {clean(summary)}"
                self._talk.show([(row, LADDER.get(word, ""))], "note")
            case Escalated(_, reason):
                self._talk.show([(f"◆ a person is needed: {clean(reason)}", "red")], "note")
            case Other() if event.topic == PROMPT_ENDED:
                self._prompt_ended(event.data)
            case Other() if event.topic == "command-result":
                self._command_done(event.data)
            case Other() if event.topic == "ui/notification":
                self._talk.show([(clean(str(event.data.get("message"))), "yellow")], "note")
            case Other() if event.topic == "ui/frontend-action-requested":
                self._offer(event.data)
            case _:
                self._talk.happened(event)

    def _prompted(self, text: str, prompt_id: str) -> None:
        """Somebody said something. What we began a turn with is on the screen already."""
        if prompt_id in self._shown:
            self._shown.remove(prompt_id)
        else:
            self._talk.prompt(text, "›" if self._queued.pop(prompt_id, None) is None else ">")

    def _prompt_ended(self, data: dict[str, Any]) -> None:
        """A prompt of ours that waited may have been dropped, by us or by others."""
        text = self._queued.pop(data["prompt_id"], None)
        if text is not None and data["outcome"] == "dropped":
            self._talk.note(f"not sent ({clean(data['reason'])}): {one_line(clean(text), MAX_WHAT)}")

    def _end_turn(self) -> None:
        self._talk.end_turn()
        self._stops = 0

    # --- consent --------------------------------------------------------------------------------------------

    def _consent(self, wanted: ApprovalWanted) -> None:
        if self._yes:
            self._answer(wanted.id, "allow")
            return
        self._talk.ask(wanted)
        self._questions.ask(wanted)
        self._answer_again(wanted.id)

    def _answer_again(self, id: str) -> None:
        """Send the answer to a question that the daemon before did not take."""
        if id in self._questions.kept:
            self._answer(id, self._questions.kept.pop(id))

    def _answer_by(self, text: str) -> None:
        """Answer the question with what was entered, if it offers that; else say it to the agent."""
        wanted = self._questions.first
        answer = answer_of(wanted, text)
        if not self._questions.takes_answer:
            self._terminal.write("\a")
        elif answer is not None:
            self._line.set("")
            self._answer(wanted.id, None if answer == "deny" else answer)
        elif text.strip():
            self._say(self._line.take())
            self._talk.note(f"sent to the agent; the question is still open: {offer_of(wanted)}")
        else:
            self._line.set("")
            self._talk.note(f"answer with {offer_of(wanted)}")

    def _answer(self, id: str, answer: str | None) -> None:
        """Answer a question; None denies. While the daemon is away, the answer waits for it."""
        self._questions.answer(id, answer)
        if not self._is_connected:
            self._talk.note("the answer is sent when the daemon is back")
        elif answer is None:
            self._ask("cancel_dialog", id, dialog_id=id)
        else:
            self._ask("resolve_dialog", id, dialog_id=id, result=answer)

    def _reply(self, text: str) -> None:
        """Answer the oldest question of an agent; without a text, decline."""
        id = self._questions.unanswered_dialog()
        if id is None:
            self._ask("approvals")
        else:
            self._answer(id, text or None)

    def _settled(self, id: str, allowed: bool, by: str) -> None:
        was_open = self._questions.close(id)
        if isinstance(was_open, PersonAsked):
            closed = "✓ closed" if by == "rpc-edn" else f"✓ closed, {_where(by)}"
            self._talk.show([(closed, "green")], "question")
            return
        whose = f", {_where(by)}" if was_open and by else ""
        if was_open and self._line.text.strip().lower() in ANSWERS:
            self._line.set("")  # it was meant for the question
        mark, style = ("✓ allowed", "green") if allowed else ("✗ denied", "red")
        self._talk.show([(mark + whose, style)], "question")

    # --- commands -------------------------------------------------------------------------------------------

    def _command_done(self, data: dict[str, Any]) -> None:
        kind = data["type"]
        if kind == "quit":
            self._leave()
        style = "red" if kind in ("error", "unsupported_model") else ""
        lines = clean(data.get("message") or "").strip("\n").split("\n")
        if kind != "new_session":
            self._talk.show([(line, style) for line in lines], "command")
        if kind == "login_start":
            self._line.set("")
            self._line.is_secret = True
        id = data.get("session_id")
        if kind in ("new_session", "session_switch") and id not in (None, self._following.session_id):
            self._turn_to(OpenedAgent(id, created=kind == "new_session"))

    def _offer(self, data: dict[str, Any]) -> None:
        """A command wants a choice: a numbered list."""
        self._action = data
        items = data["ui/action"]["ui/items"]
        rows = [(f"{number:>3}  {clean(item['ui.item/label'])}", "") for number, item in enumerate(items, 1)]
        self._talk.show([(f"{clean(data.get('prompt') or '')}:", "bold"), *rows], "command")

    def _choose(self, text: str) -> None:
        action = self._action
        assert action is not None
        items = action["ui/action"]["ui/items"]
        chosen = int(text) if text.isdecimal() and text.isascii() else 0
        if text and not 0 < chosen <= len(items):
            numbers = "1" if len(items) == 1 else f"a number from 1 to {len(items)}"
            self._talk.note(f"enter {numbers}, or nothing to cancel")
            return
        self._action = None
        given = {"request_id": action["request_id"], "action_name": action["ui/action"]["ui/action_name"]}
        if not text:
            self._ask("frontend_action_result", **given, status="cancelled")
            return
        value = items[chosen - 1]["ui.item/value"]
        self._ask("frontend_action_result", **given, status="submitted", value=value)

    def _log_in(self, key: str) -> None:
        """Enter a provider's key, or none."""
        self._line.set("")
        self._line.is_secret = False
        if key:
            self._ask("login_complete", input=key)

    # --- the person -----------------------------------------------------------------------------------------

    def _pressed(self, key: Key) -> None:
        match key:
            case "key", "suspend":
                self._suspend()
            case "key", "redraw":
                self._terminal.write("\x1b[H\x1b[2J")
                self._draw(always=True)
            case "key", "interrupt":
                self._stop()
            case "key", "end-of-input" if not self._line.text or self._is_hung:
                self._leave()
            case "key", "end-of-input":
                self._line.press(("key", "delete"))
            case "key", "escape" if self._questions and self._questions.takes_answer:
                self._answer(self._questions.first.id, None)
            case "key", "escape" if self._line.is_secret:
                self._log_in("")
            case "key", "escape" if self._action is not None:
                self._choose("")
            case _:
                if self._line.press(key):
                    self._entered()

    def _entered(self) -> None:
        if self._line.text.strip() in ("/quit", "/exit"):
            self._leave()
        if not self._is_connected:
            if not self._answer_later():
                self._talk.note("not connected to the daemon; press Enter again when it is back")
            return
        if self._line.is_secret:
            self._log_in(self._line.take().strip())
            return
        if self._action is not None:
            text = self._line.text.strip()
            self._line.set("")
            self._choose(text)
            return
        is_command = self._line.text.startswith("/")
        if self._questions and not is_command:
            self._answer_by(self._line.text)
            return
        if not self._line.text.strip():
            self._line.set("")
            return
        text = self._line.take()
        word = text.split()[0]
        if word in ("/quit", "/exit"):
            self._leave()
        elif word == "/answer":
            self._talk.prompt(text, ">")
            self._reply(text.removeprefix(word).strip())
        elif word.startswith("/") and "/" not in word[1:]:  # a path may begin a sentence
            self._talk.prompt(text, ">")
            self._ask("command", text, text=text)
        else:
            self._say(text)

    def _answer_later(self) -> bool:
        """If an answer was entered while the daemon is away, keep it for its question."""
        word, _, rest = self._line.text.strip().partition(" ")
        if self._questions and answer_of(self._questions.first, self._line.text) is not None:
            self._answer_by(self._line.text)
        elif word == "/answer" and (id := self._questions.unanswered_dialog()) is not None:
            self._talk.prompt(self._line.take(), ">")
            self._answer(id, rest.strip() or None)
        else:
            return False
        return True

    def _say(self, text: str) -> None:
        """Begin a turn, or steer the one that runs."""
        if self._is_busy:
            self._ask("steer", text, message=text)
        else:
            self._talk.prompt(text, ">")
            self._talk.begin()
            self._ask("prompt", text, message=text)

    def _stop(self) -> None:
        """^C: end a turn that asks; else interrupt it, then abort it, then leave; or drop what is typed."""
        if self._is_hung or (self._connection is None and not self._line.text):
            self._leave()
        if self._connection is None:
            self._line.set("")
        elif self._line.is_secret:
            self._log_in("")
        elif self._action is not None:
            self._choose("")
        elif self._questions:  # the question goes with its turn, and nothing else of the answer is done
            self._stops += 1
            self._ask("abort")
        elif self._is_busy:
            self._stops += 1
            if self._stops > MAX_STOPS:
                self._leave()
            if self._stops == 1:
                self._talk.note("interrupting after this step; ^C again aborts it immediately")
            self._ask("interrupt" if self._stops == 1 else "abort")
        elif self._line.text:
            self._line.set("")
        else:
            self._talk.note("press ^D or enter /quit to leave")

    def _leave(self) -> None:
        state = self._following.state
        name = (state.data.get("session_name") if state is not None else "") or self._name
        goes_on = "; its turn is still running" if self._is_busy else ""
        how = f"fairlead agent {clean(name)}" if name and len(name.split()) == 1 else "fairlead agent -c"
        raise LeftTerminal(0, f"left {clean(name) or 'the session'}{goes_on}; `{how}` continues it")


def _followed(opened: Agent | OpenedAgent) -> AgentSubscription:
    since = opened.cursor if opened.created else None
    return AgentSubscription(opened.id, since, receipts=True, so_far=True)


def _where(by: str) -> str:
    """Who answered a question, or where."""
    return "in another client" if by == "rpc-edn" else f"by {clean(by)}"
