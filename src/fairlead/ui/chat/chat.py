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
from ...client.following import PROMPT_ENDED, Answered
from ...client.hung import lock_holder
from ...client.reconnect import LOST, RECONNECTED, RETRY_PAUSE
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
from ...formats.columns import width_of
from ...formats.ladder import LADDER, word_for
from ...formats.shown import clean, counted, one_line
from ...system.settings import Settings, safe_dir
from ...wire.rpc import ErrorCode
from ..own_terminal import LeftTerminal, SignalBell
from ..styled import Paint, Row, marks_of
from .answering import ANSWERING, Answering
from .complete import Completer, Known
from .footer import FOOTER_LINES, footer, is_reckless
from .line import InputHistory, InputLine, Key
from .link import ChatLink
from .menu import Candidate
from .panel import Panel
from .paths import ProjectPaths
from .pictures import NotAnImage, attached, mention, named_in_paste, not_there
from .prompts import OwnPrompts
from .questions import MAX_WHAT, has_paused, pending_elsewhere
from .screen import ChatScreen
from .shell import LocalCommand
from .talk import TICK, ConversationView, in_words, turn_start, without_shown
from .terminal import ChatTerminal

ESCAPE_WAIT = 0.05
"""Seconds after which an Escape is a key and not the beginning of one."""
SHOWN_MESSAGES, SHOWN_LINES = 12, 20
"""How many messages, calls and results are shown of a session that one comes back to; how many lines of each.
"""
TURN_MESSAGES, TURN_LINES = 400, 1000
"""The same of a turn that is still running."""
SAYING = ("say", "command")
"""Requests by which what was entered is sent."""
_ANSWERED_ELSEWHERE = (ErrorCode.NO_ACTIVE_DIALOG.value, ErrorCode.DIALOG_ID_MISMATCH.value)
"""Errors of an answer to a question if another client was first."""
LEAVING = ("/quit", "/exit", "quit", "exit")
"""What is entered to leave."""
MAX_ASIDE = 5
"""How many commands' outputs go along with a prompt, the last ones."""
MAX_STOPS = 2
"""How many ^C end a turn; the next one leaves."""
FRAME = 0.04
"""Seconds between two pictures of an answer that streams; what a person does is shown at once."""
INPUT_ROWS = 10
"""How many rows are shown of what is being typed."""
QUEUED_ROWS = 4
"""How many are shown of what waits to be said."""

Readable = int | socket.socket | SignalBell | ProjectPaths | LocalCommand
"""What may have something to be read."""

_OFFLINE = "no language model is connected; choose one with /model or --model"
_GONE = "the session's directory {} is gone: nothing can be read, changed or run there until it is back"
_KEYS = "/help lists commands, ? shows the keys, ^D leaves"


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
        self._screen = ChatScreen(
            terminal.write,
            lambda: terminal.size if all(terminal.size) else (80, 24),
            Paint(not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"),
        )
        self._talk = ConversationView(self._screen, marks_of(sys.stdout))
        self._drawn_at, self._is_streaming = 0.0, False
        self._line = InputLine(history)
        self._link = ChatLink(agent, settings, "chat with --yes" if yes else "chat")
        # the conversation
        self._missed: list[AgentEvent] = []  # what came before we knew all of how the session is
        self._prompts = OwnPrompts()
        self._stops = 0  # how often the turn was told to end
        self._typed_at = 0.0
        self._told: dict[str, Any] = {}  # what the footer shows
        self._mode_asked = ""  # the mode that was asked for last, until the daemon has answered
        self._local: LocalCommand | None = None
        self._aside: list[str] = []  # what goes along with the next prompt
        # the keys
        self._known = Known(self._link.ask)
        self._paths = ProjectPaths()
        self._panel = Panel(self._line, Completer(self._known, self._paths, lambda: self._place))
        # questions
        self._answering = Answering(self._link, self._talk, self._line, self._ask, yes=yes)

    def close(self) -> None:
        self._talk.end_line()
        self._screen.leave()
        self._link.close()
        self._paths.close()
        if self._local is not None:
            self._local.close()

    # --- the loop -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Wait until anything can be done and do it. Raises LeftTerminal in the end."""
        self._link.look()
        self._send()
        early = self._drawn_at + FRAME - time.monotonic() if self._is_streaming else 0.0
        if early <= 0:
            self._draw()
        connection, local, terminal = self._link.connection, self._local, self._terminal
        reading: list[Readable] = [terminal.bell, terminal.input, self._paths]
        reading += [connection] if connection is not None else []
        reading += [local] if local is not None and not local.is_silent else []
        writing = [connection] if connection is not None and self._link.wants_to_write else []
        wait, before = early if early > 0 else self._pause(), (time.monotonic(), time.time())
        readable, writable, _ = select.select(reading, writing, [], wait)
        self._is_streaming = readable == [connection]
        if wait is not None and has_paused(before, (time.monotonic(), time.time()), wait):
            self._forget_typed()
            return
        if terminal.bell in readable:
            self._signalled()
            return  # what was typed may have been dropped
        if terminal.input in readable:
            self._typed_at = time.monotonic()
            for key in terminal.typed():
                self._pressed(key)
        elif terminal.keys.is_pending and time.monotonic() - self._typed_at >= ESCAPE_WAIT:
            for key in terminal.keys.flush():
                self._pressed(key)
        if self._paths in readable:
            self._paths.heard()
            self._panel.refresh()
        if local is not None and local is self._local:
            self._run_on(local, is_readable=local in readable)
        if connection is None or self._link.connection is not connection:
            return
        try:
            if connection in readable:
                self._receive()
            if connection in writable:
                self._link.write()
        except OSError:
            self._lose()

    def _pause(self) -> float | None:
        """Seconds until something is to be done though nothing happens."""
        if self._terminal.keys.is_pending:
            return ESCAPE_WAIT
        if self._link.connection is None:
            return RETRY_PAUSE
        is_moving = self._is_busy or self._link.is_due or self._answering or self._local
        return TICK if is_moving else None

    def _signalled(self) -> None:
        for number in self._terminal.bell.rung():
            match number:
                case signal.SIGINT:
                    self._pressed(("key", "interrupt"))
                case signal.SIGTSTP:
                    self._suspend()
                case signal.SIGCONT:
                    self._terminal.enter()
                    self._forget_typed()
                case signal.SIGTERM | signal.SIGHUP:
                    raise LeftTerminal(128 + number)
                case signal.SIGWINCH:
                    self._draw(always=True)

    def _suspend(self) -> None:
        self._screen.leave()
        self._terminal.suspend()
        self._forget_typed()

    def _forget_typed(self) -> None:
        """We were stopped, or the machine was: what was typed meanwhile answers nothing."""
        if self._answering:
            self._terminal.drop_typed()
            self._answering.questions.hold()
            if self._answering.answers(self._line.text):
                self._line.set("")
        self._draw(always=True)

    # --- the daemon -----------------------------------------------------------------------------------------

    def _lose(self) -> None:
        self._link.lose()
        self._mode_asked = ""
        for text in self._prompts.lose():
            self._talk.note(f"the daemon went away before it answered: {one_line(clean(text), MAX_WHAT)}")
        self._give_back()
        if self._panel.is_picking:
            self._panel.close()
        if self._line.is_secret:  # who had asked for it is no more
            self._log_in("")

    def _receive(self) -> None:
        was_ready = self._link.following.ready
        try:
            events, answers = self._link.read()
        except RequestError as error:
            raise LeftTerminal(1, f"fairlead agent: {error}") from None
        self._missed += events
        if not self._link.following.ready:
            return
        if not was_ready:
            self._begun()
        for answer in answers:
            self._accepted(answer)
        if self._link.is_greeted:
            self._catch_up()
        for answer in answers:
            self._answered(answer)
        self._give_back()

    def _give_back(self) -> None:
        """What was meant for another session is not said to this one."""
        for each in self._prompts.stay():
            self._talk.note(
                f"not sent, as this is still the same session: {one_line(clean(each.typed), MAX_WHAT)}"
            )
            self._line.set(self._line.text or each.typed)

    def _catch_up(self) -> None:
        events, self._missed = self._missed, []
        for event in events:
            self._happened(event)

    def _begun(self) -> None:
        """We know how the session is, and miss nothing from now on."""
        if self._link.was_lost:
            self._link.was_lost = False
            self._talk.note(f"reconnected to {host}" if (host := self._settings.host) else RECONNECTED)
            questions = self._answering.questions
            asked = list(self._link.asked.values())
            self._link.asked.clear()
            questions.begin_again()
            self._catch_up()
            self._known.forget()
            state = self._link.state
            if state is None or not state.data.get("pending_message_count"):
                self._prompts.drop_taken()
            for note in questions.drop_kept([id for op, id in asked if op in ANSWERING]):
                self._talk.note(note)
            if questions.is_meant_for_earlier(self._line.text):
                self._line.set("")
        if not self._link.is_greeted:
            self._ask("get_state")  # all else comes after the greeting
            return
        self._welcome()

    def _welcome(self) -> None:
        state = self._link.state
        if state is not None and state.is_idle and state.data.get("was_interrupted"):
            self._end_turn()
            self._talk.note("the last turn was interrupted; send a prompt to continue")
        if self._prompt:
            prompt, self._prompt = self._prompt, ""
            self._say(prompt)
        self._catch_up()

    def _ask(self, op: str, said: str = "", /, **params: Any) -> None:
        if not self._link.ask(op, said, **params):
            self._terminal.write("\a")

    def _send(self) -> None:
        """Send what was entered, as soon as it can be."""
        if not self._link.is_ready:
            return
        for entered in self._prompts.unsent():
            if entered.op == "say":
                more = {"message": entered.text, "prompt_id": entered.id, "images": entered.images or None}
            else:
                if not any(op == "command" for op, _ in self._link.asked.values()):
                    self._link.ask("ping")  # a command may take long; this shows that somebody is there
                more = {"text": entered.text}
            if not self._link.ask(entered.op, entered.id, **more):
                return
            entered.is_sent = True

    def _accepted(self, answer: Answered) -> None:
        """Know our own prompts: what is told of them may have come together with the answer."""
        op, id = self._link.asked.get(answer.id, ("", ""))
        if op in SAYING and answer.error is None:
            self._prompts.confirm(id, answer.data)
        elif op in SAYING and (refused := self._prompts.refuse(id)):
            self._line.set(self._line.text or refused)

    def _answered(self, answer: Answered) -> None:
        op, text = self._link.asked.pop(answer.id, ("", ""))
        error = answer.error
        if op in ("get_state", "get_messages"):
            self._learn_state(op, text, answer)
            return
        if self._known.learn(op, answer.data):
            self._panel.refresh()
            return
        if op == "set_mode":
            self._mode_asked = "" if text == self._mode_asked else self._mode_asked
            if error is None and self._screen.lines < FOOTER_LINES:
                self._talk.note(f"mode: {text}")
        if op == "approvals" and error is None:
            self._talk.show(pending_elsewhere(answer.data["approvals"], self._place), "note")
        if op in ANSWERING:
            is_open = error is not None and error.code not in _ANSWERED_ELSEWHERE
            self._answering.questions.confirm(text, is_open=is_open)
        if op in ("interrupt", "abort") and answer.data.get("dropped_steering_text"):
            self._line.set(self._line.text or answer.data["dropped_steering_text"])
        if op == "login_complete" and error is None:
            self._talk.note("the key is stored")
        if error is None or error.code in _ANSWERED_ELSEWHERE:
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
            is_idle = self._link.state is None or self._link.state.is_idle
            first = answer.data["total"] - (SHOWN_MESSAGES if is_idle else TURN_MESSAGES)
            self._ask("get_messages", **{"from": max(0, first) or None})
            return
        else:
            said = answer.data["messages"]
        self._greet(said)
        self._welcome()

    def _turn_to(self, opened: OpenedAgent) -> None:
        """Follow another session."""
        self._link.follow(opened)
        self._end_turn()
        left = self._prompts.turn()
        self._created, self._name = opened.created, ""
        self._missed.clear()
        self._answering.forget()
        for each in left:
            is_shown = each.op == "command"
            self._prompts.enter(
                each.op, each.text, shown_as=each.typed, images=each.images, is_shown=is_shown
            )
        self._known.forget()
        self._told = {}

    # --- what is shown --------------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        state = self._link.state
        return (state is not None and state.phase != "idle") or any(
            op in SAYING for op, _ in self._link.asked.values()
        )

    def _greet(self, before: list[dict[str, Any]]) -> None:
        """Say what session this is, and what was said in it before."""
        self._link.is_greeted = True
        state = self._link.state
        data = state.data if state is not None else {}
        name = clean(data.get("session_name") or "a new session" if self._created else "")
        name = name or clean(data.get("session_display_name") or "")
        model = f"{data.get('model_provider')}/{data.get('model_id')}"
        thinking = data.get("effective_reasoning_effort") or "off"
        model += f", thinking {thinking}" if thinking != "off" else ""
        self._talk.show([(f"{name} · {clean(model)} · {clean(self._place)}", "bold")], "head")
        if data.get("model_provider") == "offline":
            self._talk.show(in_words((_OFFLINE, "dim"), self._screen.columns), "head")
        self._talk.show(in_words((_KEYS, "dim"), self._screen.columns), "head")
        if self._place and not os.path.isdir(self._place):
            self._talk.show([(_GONE.format(one_line(clean(self._place), MAX_WHAT)), "yellow")], "note")
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
        self._drawn_at = time.monotonic()
        columns = self._screen.columns
        rows = self._talk.rows()
        rows += self._waiting_rows()
        rows += self._local.tail() if self._local is not None else []
        above = len(rows)
        if self._answering:
            rows += self._answering.rows(columns)
        if self._link.is_hung:
            pid = None if self._settings.host else lock_holder(self._settings)
            who = f"the daemon, process {pid}, is hung: it" if pid else "the daemon"
            what = f"{who} does not answer; `fairlead daemon restart` replaces it, ^D leaves"
            if self._settings.host:
                what = f"{self._settings.host} does not answer; ^D leaves"
            rows += in_words((what, "yellow"), columns)
        elif self._link.connection is None and self._link.was_lost:
            rows.append((f"{host} is away; reconnecting" if (host := self._settings.host) else LOST, "dim"))
        elif self._is_busy and not self._answering:
            state = self._link.state
            rows.append((self._talk.spinner(state.phase if state is not None else ""), "dim"))
        mark = "key: " if self._line.is_secret else self._panel.mark
        typed, cursor = self._line.rows(mark, columns, INPUT_ROWS)
        place = len(rows) + cursor[0], cursor[1]
        lines = self._screen.lines
        below = self._panel.rows(columns, lines - len(typed) - 3)
        if below and self._panel.search.is_open:
            place = len(rows) + len(typed), width_of(below[0][0])
        if lines >= FOOTER_LINES and self._link.is_greeted:
            below.append(footer(self._told, self._connection_word, columns))
        self._answering.is_whole = len(rows) - above + len(typed) + len(below) < lines
        self._screen.draw([*rows, *((row, "") for row in typed), *below], place, always=always)

    def _waiting_rows(self) -> list[Row]:
        """What was entered and is not said yet."""
        is_stuck = not self._link.is_ready or self._link.is_silent
        stuck = {each.id: each.typed for each in self._prompts.waiting.values()} if is_stuck else {}
        texts = [(text, id in stuck) for id, text in self._prompts.queued.items()]
        texts += [(text, True) for id, text in stuck.items() if id not in self._prompts.queued]
        return [
            (f"↳ {one_line(clean(text), MAX_WHAT)}" + (" · not sent yet" if is_unsent else ""), "dim")
            for text, is_unsent in texts[-QUEUED_ROWS:]
        ]

    @property
    def _connection_word(self) -> str:
        if self._link.connection is None or not self._link.following.ready:
            return "○ reconnecting"
        return "○ no answer" if self._link.is_silent else "● connected"

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
                self._talk.drop_answer(clean(event.reason))
                self._talk.show([(clean(event.line), "yellow")], "note")
            case Failed(message):
                self._talk.show([(clean(message), "red")], "note")
            case ApprovalWanted():
                self._answering.consent(event)
            case PersonAsked():
                self._answering.ask_person(event)
            case ApprovalSettled(id, allowed, by):
                self._answering.settled(id, allowed, by)
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
            case Other() if event.topic == "footer/updated":
                self._told = event.data
            case Other() if event.topic == "ui/notification":
                self._talk.show([(clean(str(event.data.get("message"))), "yellow")], "note")
            case Other() if event.topic == "ui/frontend-action-requested":
                self._offer(event.data)
            case _:
                self._talk.happened(event)

    def _prompted(self, text: str, prompt_id: str) -> None:
        """Somebody said something. What we began a turn with is on the screen already."""
        mark, own = self._prompts.mark_of(prompt_id), self._prompts.said(prompt_id)
        if mark:
            self._talk.prompt(own or text, mark)

    def _prompt_ended(self, data: dict[str, Any]) -> None:
        """A prompt of ours that waited may have been dropped, by us or by others."""
        text = self._prompts.said(data["prompt_id"])
        if text is not None and data["outcome"] == "dropped":
            self._talk.note(f"not sent ({clean(data['reason'])}): {one_line(clean(text), MAX_WHAT)}")

    def _end_turn(self) -> None:
        self._talk.end_turn()
        self._stops = 0

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
            self._panel.close()
            self._line.set("")
            self._line.is_secret = True
        id = data.get("session_id")
        if kind in ("new_session", "session_switch") and id not in (None, self._link.following.session_id):
            self._turn_to(OpenedAgent(id, created=kind == "new_session"))

    def _offer(self, data: dict[str, Any]) -> None:
        """A command wants a choice."""
        action = data["ui/action"]
        candidates = [
            Candidate(item["ui.item/label"], value=item["ui.item/value"]) for item in action["ui/items"]
        ]
        given = {"request_id": data["request_id"], "action_name": action["ui/action_name"]}

        def chosen(candidate: Candidate | None) -> None:
            if not self._link.is_open:
                return
            if candidate is None:
                self._ask("frontend_action_result", **given, status="cancelled")
            else:
                value = candidate.value
                self._ask("frontend_action_result", **given, status="submitted", value=value)

        title = f"{clean(data.get('prompt') or '')}: arrow keys, a number or a part of it, and Enter"
        now = [item["ui.item/label"] for item in action["ui/items"] if item.get("ui.item/current")]
        self._panel.pick(title, candidates, chosen, marked=now[0] if now else "")

    def _log_in(self, key: str) -> None:
        """Enter a provider's key, or none."""
        self._line.set("")
        self._line.is_secret = False
        if key:
            self._ask("login_complete", input=key)

    # --- the person -----------------------------------------------------------------------------------------

    def _pressed(self, key: Key) -> None:
        """The first that takes a key: what is open below the line, the question, the turn, the line."""
        was_open = self._panel.is_open
        if not self._line.is_secret and self._panel.press(key):
            if was_open and not self._panel.is_open:
                self._answering.questions.hold()  # the next Escape may be meant for this as well
            return
        match key:
            case "key", "suspend":
                self._suspend()
            case "key", "redraw":
                self._terminal.write("\x1b[H\x1b[2J")
                self._draw(always=True)
            case "key", "open":
                if not self._talk.open_fold():
                    self._terminal.write("\a")
            case "key", "interrupt":
                self._stop()
            case "key", "end-of-input" if not self._line.text or self._link.is_hung:
                self._leave()
            case "key", "end-of-input":
                self._line.press(("key", "delete"))
            case "key", "escape":
                self._escape()
            case "key", "back-tab":
                self._next_mode()
            case "paste", text if names := named_in_paste(text, self._place):
                self._line.press(("text", names))
            case _:
                if self._line.press(key):
                    self._entered()

    def _escape(self) -> None:
        """Nothing is open: deny the question, else end what runs."""
        if self._line.is_secret:
            self._log_in("")
        elif self._answering:
            if self._answering.questions.takes_answer:
                self._answering.deny()
        elif self._local is not None:
            self._local.stop()
        elif self._is_busy and self._stops < MAX_STOPS and self._link.is_open:
            self._end_turn_early()

    def _next_mode(self) -> None:
        """Be in the session's next mode; one in which nothing at all is asked is only chosen by its name."""
        modes = [each["id"] for each in self._told.get("modes") or ()]
        current = self._mode_asked or self._told.get("mode")
        usual = [each for each in modes if each == current or not is_reckless(each)]
        if len(usual) < 2:
            self._talk.note("this session has no modes to switch between")
            return
        at = usual.index(current) if current in usual else -1
        self._mode_asked = usual[(at + 1) % len(usual)]
        self._ask("set_mode", self._mode_asked, mode=self._mode_asked)

    def _entered(self) -> None:
        text = self._line.text.strip()
        word = text.split()[0] if text else ""
        if word in LEAVING and (text == word or word.startswith("/")):
            self._leave()
        if self._line.is_secret:
            if self._link.is_ready:
                self._log_in(self._line.take().strip())
            return
        is_command = text.startswith(("/", "!"))
        if not self._link.is_ready and self._answer_later():
            return
        if self._answering and not is_command:
            if not self._answering.enter(self._line.text, self._say):
                self._terminal.write("\a")
            return
        if not text:
            self._line.set("")
        elif self._prompts.is_full:
            self._terminal.write("\a")
        else:
            self._do(self._line.take(), word)

    def _do(self, text: str, word: str) -> None:
        """Do what was entered."""
        if word.startswith("!"):
            self._run(text.strip().lstrip("!").strip(), for_agent=not word.startswith("!!"))
        elif word == "/image":
            path = text.strip().removeprefix(word).strip()
            self._line.set(f"{mention(path)} " if path else "")
            if not path:
                self._talk.note("/image PATH attaches an image to the next prompt, as @PATH does")
        elif word == "/answer":
            self._talk.prompt(text, ">")
            self._answering.reply(text.strip().removeprefix(word).strip())
        elif word.startswith("/") and "/" not in word[1:]:  # a path may begin a sentence
            self._talk.prompt(text, ">")
            self._prompts.enter("command", text, is_shown=True)
        else:
            self._say(text)

    def _answer_later(self) -> bool:
        """If an answer was entered while the daemon is away, keep it for its question."""
        word, _, rest = self._line.text.strip().partition(" ")
        if self._answering.answers(self._line.text):
            if not self._answering.enter(self._line.text, self._say):
                self._terminal.write("\a")
        elif word == "/answer" and self._answering.questions.unanswered_dialog() is not None:
            self._talk.prompt(self._line.take(), ">")
            self._answering.reply(rest.strip())
        else:
            return False
        return True

    def _say(self, text: str) -> None:
        """Begin a turn, or steer the one that runs. What can't be sent goes back into the line."""
        try:
            said, images = attached(text, self._place)
        except NotAnImage as error:
            self._talk.show([(clean(str(error)), "red")], "note")
            self._line.set(self._line.text or text)
            return
        is_shown = self._link.is_ready and not self._is_busy
        if missing := not_there(text, self._place):  # it may be one that the agent shall make
            self._talk.note(clean(missing))
        if is_shown:
            self._talk.prompt(text, ">")
            self._talk.begin()
        whole = "\n\n".join([said, *self._aside])
        self._aside.clear()
        self._prompts.enter("say", whole, shown_as=text, images=images, is_shown=is_shown)

    # --- commands that run here -----------------------------------------------------------------------------

    def _run(self, command: str, *, for_agent: bool) -> None:
        """Run a command beside the conversation."""
        if self._settings.host:  # whose files are not here
            self._talk.note(f"!COMMAND runs on this host, and the session is on {self._settings.host}")
            self._line.set(self._line.text or f"{'!' if for_agent else '!!'}{command}")
            return
        if not command or self._local is not None:
            is_busy = self._local is not None
            self._talk.note("a command is running; ^C ends it" if is_busy else "!COMMAND runs a command here")
            if is_busy and command:
                self._line.set(self._line.text or f"{'!' if for_agent else '!!'}{command}")
            return
        self._talk.prompt(command, "!")
        try:
            self._local = LocalCommand(command, self._place, for_agent=for_agent)
        except OSError as error:
            where = f": {clean(str(error.filename))}" if error.filename else ""
            self._talk.show([(f"can't run it: {error.strerror}{where}", "red")], "note")

    def _run_on(self, local: LocalCommand, *, is_readable: bool) -> None:
        if is_readable:
            local.read()
        if not local.is_over:
            return
        self._local = None
        local.close()
        self._talk.printed(local.output, local.command)
        if local.outcome:
            self._talk.show([(local.outcome, "red")], "prompt", "  ")
        if local.for_agent:
            self._aside = [*self._aside[-MAX_ASIDE + 1 :], local.for_prompt()]
            self._talk.note("the agent gets this with your next prompt")

    # --- ending ---------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """^C: end a turn that asks; else interrupt it, then abort it, then leave; or drop what is typed."""
        if self._local is not None:
            self._local.stop()
            return
        if self._link.is_hung or (self._link.connection is None and not self._line.text):
            self._leave()
        if self._link.connection is None:
            self._line.set("")
        elif self._line.is_secret:
            self._log_in("")
        elif self._answering:  # the question goes with its turn, and nothing else of the answer is done
            self._stops += 1
            self._ask("abort")
        elif self._is_busy and self._stops >= MAX_STOPS:
            self._leave()
        elif self._is_busy:
            self._end_turn_early()
        elif self._line.text:
            self._line.set("")
        else:
            self._talk.note("press ^D or enter /quit to leave")

    def _end_turn_early(self) -> None:
        """Interrupt the turn after its step, and abort it the second time."""
        self._stops += 1
        if self._stops == 1:
            self._talk.is_interrupted = True
            self._ask("interrupt", at_word=True)
        else:
            self._ask("abort")

    def _leave(self) -> None:
        state = self._link.state
        name = (state.data.get("session_name") if state is not None else "") or self._name
        goes_on = "; its turn is still running" if self._is_busy else ""
        how = f"fairlead agent {clean(name)}" if name and len(name.split()) == 1 else "fairlead agent -c"
        if waiting := len(self._prompts.waiting):
            goes_on += f"; {counted(waiting, 'prompt')} not sent"
        raise LeftTerminal(0, f"left {clean(name) or 'the session'}{goes_on}; `{how}` continues it")
