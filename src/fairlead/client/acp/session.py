"""A session of the editor: what happens in one of ours is told to it, and what it asks for is done there.

The session is the daemon's. If the daemon dies, the next one is asked what was missed, and what it says now
is compared with what the editor has: each word is told once. A question is asked once; its first answer
counts, here or elsewhere. A prompt has an id that we choose, so it can be sent again if nobody knows whether
it was heard.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ...events import (
    AgentEvent,
    ApprovalSettled,
    ApprovalWanted,
    Failed,
    Message,
    Other,
    PersonAsked,
    Prompted,
    Text,
    Thought,
    ToolUpdate,
    Updated,
)
from ...formats.shown import visible
from ...sessions.session import RESTARTED
from ...system.settings import Settings
from ...wire import acp
from ...wire.acp import Id
from ...wire.acp.base import Wire
from ...wire.rpc import ErrorCode
from ..calls import Messages, RequestError
from ..following import PROMPT_ENDED, AgentSubscription, Answered
from ..reconnect import Reconnect
from .blocks import choice_of, chosen_of, permission_of, prompt_of
from .channel import Channel
from .narration import Narration, Updates, note, say
from .state import Shown

MAX_ASKED = 50
"""How many questions an editor is asked at a time; the others are in `fairlead approvals`."""
MAX_PAGES = 4
"""How many pages of a conversation, the last ones, are replayed; one has 2 MiB of text."""
HIDDEN = ("new", "resume", "tree", "quit", "exit", "login", "logout")
"""Commands that switch between sessions, or take a key: an editor has its own ways for the first, and would
show the second."""
IMAGE_ALONE = "Look at the image."
"""What is said with an image that comes without words."""
_IN_PIECES = (Text, Thought, ToolUpdate)
CANCEL_WAIT = 15.0
"""Seconds until a prompt that was cancelled is answered, whatever its session does."""
_CHOICE_LOST = "the daemon restarted before the choice was made; enter the command again"

Opened = Callable[["EditorSession", RequestError | None], None]


class Editor(Protocol):
    """Who has the connection to the editor."""

    settings: Settings
    client_name: str

    @property
    def reconnect(self) -> Reconnect:
        """The search for a daemon that all connections share."""

    def update(self, session: str, updates: Iterable[acp.KnownUpdate]) -> None: ...

    def request(self, params: Wire) -> Id: ...

    def withdraw(self, id: Id) -> None: ...

    def respond(self, id: Id, result: Wire) -> None: ...

    def fail(self, id: Id, error: RequestError) -> None: ...


class _Prompt:
    """A prompt of the editor that is not answered."""

    def __init__(self, request: Id, text: str, images: list[dict[Any, str]]) -> None:
        self.request = request
        self.id = uuid.uuid4().hex
        self.text = text
        self.images = images
        self.known_as = ""  # its id in the session, once it is accepted
        self.is_said = False
        self.is_choosing = False  # a command waits for a choice
        self.was_lost = False  # the daemon died since it was entered
        self.free_at: float | None = None  # when it is answered at the latest, if it was cancelled
        self.stop_reason = ""  # of the last message
        self.usage: dict[str, int] = {}

    def owns(self, prompt_id: str) -> bool:
        """Whether it has this id; the daemon marks those that come from an agent's command."""
        return prompt_id.endswith(self.id)


class EditorSession:
    """A session that an editor has open under the id `name`. `opened` is called once, when the editor can be
    answered; with `replays` it is told the conversation before that."""

    def __init__(
        self,
        editor: Editor,
        name: str,
        id: str,
        cwd: str,
        opened: Opened,
        *,
        since: str | None = None,
        replays: bool = False,
    ) -> None:
        self.name = name
        self.id = id
        self.shown = Shown()
        self.is_closed = False
        self._editor = editor
        self._cwd = cwd
        self._opened: Opened | None = opened
        self._replays = replays
        self._has_past = not replays  # what happens is not in what will be replayed
        self._held: list[AgentEvent] = []  # what is told when it is open
        self._narration = Narration(cwd)
        self._is_refreshing = False
        self._commands: frozenset[str] = frozenset()
        self._prompt: _Prompt | None = None
        self._asked: dict[str, Id] = {}  # requests to the editor, by the ids of questions
        self._questions: dict[Id, dict[str, Any]] = {}  # the data of questions, and of choices, by those
        self._open: set[str] = set()  # questions that the daemon has
        self._is_over_limit = False
        self._phase = ""
        stream = AgentSubscription(id, since, receipts=True)
        stream.lends_keys = True
        stream.shown, stream.via = True, editor.client_name
        self.channel = Channel(editor.settings, stream, editor.reconnect, self)

    def close(self) -> None:
        """Let go of the session. A prompt of the editor is cancelled, as the protocol wants it."""
        if self._prompt is not None:
            self.cancel()
            self._answer("cancelled")
        for id in list(self._questions):
            self._withdraw(id)
        self.is_closed = True

    def _tell(self, updates: Updates) -> None:
        if not self.is_closed:
            self._editor.update(self.name, updates)

    # --- the daemon -----------------------------------------------------------------------------------------

    def began(self) -> None:
        if not self._has_past:
            self._read(Messages(self.id), MAX_PAGES)
            return
        for dialog in [dialog for dialog in self._asked if dialog not in self._open]:
            self._withdraw(self._asked[dialog])  # somebody answered while we were away
        self._ask_state(lambda state: self._synced(state, []))

    def lost(self) -> None:
        self._narration.lose()
        self._open.clear()
        for id in [id for id, data in self._questions.items() if "dialog_id" not in data]:
            self._withdraw(id)  # a command's choice, which is lost with the daemon
        if self._opened is not None:
            self._held.clear()
            self._has_past = not self._replays
        if self._prompt is not None:
            self._prompt.was_lost = True
            if self._prompt.is_choosing:
                self._fail(RequestError(ErrorCode.FAILED, _CHOICE_LOST))

    def refused(self, error: RequestError, *, for_good: bool) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            self.is_closed = True
            opened(self, error)
            return
        self._fail(error)
        if for_good:
            self._tell([say(f"[error] the session can't be followed any more: {error}")])

    def _read(self, messages: Messages, pages: int) -> None:
        """Read the conversation, the last messages first."""
        call = messages.next()
        given = {name: value for name, value in call.params(0).items() if name != "session_id"}

        def take(answer: Answered) -> None:
            if answer.error is not None:
                self.refused(answer.error, for_good=True)
                return
            self._has_past = True
            call.result(answer.data)
            if not messages.is_whole and pages > 1:
                self._read(messages, pages - 1)
            else:
                past = self._narration.replay(messages.found)
                if not messages.is_whole:
                    past.insert(0, note(f"earlier messages are not shown; `fairlead logs {self.id}` has all"))
                self._ask_state(lambda state: self._synced(state, past))

        self.channel.ask(call.op, take, fate="forgotten", **given)

    def _ask_state(self, then: Callable[[dict[str, Any]], None]) -> None:
        def take(answer: Answered) -> None:
            self._is_refreshing = False
            if answer.error is None:
                then(answer.data["state"])
            else:
                self.refused(answer.error, for_good=True)

        self._is_refreshing = True
        self.channel.ask("get_view", take, fate="forgotten")

    def _synced(self, state: dict[str, Any], past: Updates) -> None:
        """How the session is, at a moment from which on no event is missed."""
        if self._opened is None:
            self._tell(self._narration.catch_up(state["answer"]))
            self._tell(self.shown.take(state))
            self._ask_receipt()
            return
        self._tell(past)
        opened, self._opened = self._opened, None
        new = self.shown.take(state)
        opened(self, None)
        self._tell([each for each in new if isinstance(each, acp.SessionInfoChanged)])  # it has the rest
        held, self._held = self._held, []
        for event in held:
            self.happened(event)
        if self._replays:
            self._tell(self._narration.catch_up(state["answer"]))
        else:
            self._narration.skip(state["answer"])
        self._ask_commands(lambda: None)

    def _refresh(self) -> None:
        """Tell the editor what has changed in how the session is."""
        if not self._is_refreshing:
            self._ask_state(lambda state: self._tell(self.shown.take(state)))

    # --- what happens ---------------------------------------------------------------------------------------

    def happened(self, event: AgentEvent) -> None:
        if self._opened is not None:
            is_question = isinstance(event, ApprovalWanted | ApprovalSettled | PersonAsked)
            if is_question or (self._has_past and not isinstance(event, _IN_PIECES)):
                self._held.append(event)
            return
        prompt = self._prompt
        match event:
            case ApprovalWanted():
                self._ask(event)
            case PersonAsked(id, text, choices):
                kind = "NUMBER" if choices else "TEXT"
                lines = [text, *(f"{number}  {choice}" for number, choice in enumerate(choices, 1))]
                how = f"answer with `fairlead approvals answer {id} {kind}`"
                self._tell([say(f"[a question: {visible(chr(10).join(lines))}\n{how}]")])
            case ApprovalSettled(id):
                self._open.discard(id)
                if id in self._asked:
                    self._withdraw(self._asked[id])
            case Updated(phase):
                is_done = phase == "idle" != self._phase
                self._phase = phase
                if is_done or self.shown.differs(event.data):
                    self._refresh()
                if is_done:
                    self._ask_receipt()
                    self._ask_commands(lambda: None)  # an agent has its own once it runs
            case Prompted() if prompt is not None and prompt.owns(event.prompt_id):
                prompt.is_said = True
            case Failed(message):
                if prompt is None or not prompt.is_said:
                    self._tell([say(f"[error] {message}")])
            case Other():
                self._other(event)
            case _:
                if isinstance(event, Message) and prompt is not None and prompt.is_said:
                    self._note_message(prompt, event)
                self._tell(self._narration.happened(event))

    def _other(self, event: Other) -> None:
        data = event.data
        if event.topic == PROMPT_ENDED:
            if self._prompt is not None and self._prompt.owns(data["prompt_id"]):
                self._end(self._prompt, data["outcome"], data.get("reason") or "")
        elif event.topic == "command-result" and data.get("message"):
            self._tell([say(data["message"])])
        elif event.topic == "ui/notification":
            self._tell([note(str(data.get("message")))])
        elif event.topic == "ui/frontend-action-requested" and self._prompt is not None:
            self._questions[self._editor.request(choice_of(self.name, data))] = data
            self._prompt.is_choosing = True

    @staticmethod
    def _note_message(prompt: _Prompt, said: Message) -> None:
        prompt.stop_reason = said.stop_reason
        for name, count in said.usage.items():
            if isinstance(count, int):
                prompt.usage[name] = prompt.usage.get(name, 0) + count

    # --- prompts --------------------------------------------------------------------------------------------

    def prompt(self, request: Id, blocks: Sequence[acp.Block]) -> None:
        """The editor's person says something, or enters a slash command."""
        text, images = prompt_of(blocks)
        if not text.strip() and not images:
            self._editor.fail(request, RequestError("request/invalid-params", "the prompt is empty"))
            return
        self._prompt = prompt = _Prompt(request, text if text.strip() else IMAGE_ALONE, images)
        word = text.split(maxsplit=1)[0] if text.strip() else ""
        if word.startswith("/") and "/" not in word[1:]:  # a path may begin a sentence
            self._ask_commands(lambda: self._command(prompt, word[1:]))
        else:
            self._say(prompt)

    def _say(self, prompt: _Prompt) -> None:
        """Begin a turn, or steer the one that runs."""

        def take(answer: Answered) -> None:
            if prompt is self._prompt:
                if answer.error is not None:
                    self._fail(answer.error)
                    return
                prompt.known_as = answer.data["prompt_id"]
                if prompt.was_lost:  # it may have been heard, and have ended, before
                    self._ask_receipt()

        images = prompt.images or None
        self.channel.ask("say", take, message=prompt.text, images=images, prompt_id=prompt.id)

    def _command(self, prompt: _Prompt, name: str) -> None:
        if prompt is not self._prompt:
            return
        if name in HIDDEN:
            self._tell(
                [say(f"/{name} is not for editors: use the editor's own commands, or `fairlead agent`")]
            )
            self._answer("end_turn")
        elif name in self._commands:
            self.channel.ask(
                "command", lambda answer: self._commanded(prompt, answer), fate="fails", text=prompt.text
            )
        else:
            self._say(prompt)

    def _commanded(self, prompt: _Prompt | None, answer: Answered) -> None:
        if prompt is None or prompt is not self._prompt:
            return
        if answer.error is not None:
            self._fail(answer.error)
        elif "prompt_id" in answer.data:  # it is a prompt that is written down, or the agent's own command
            prompt.id = prompt.known_as = answer.data["prompt_id"]
        elif not prompt.is_choosing:
            self._answer("end_turn")

    def cancel(self) -> None:
        """End the turn at once; a prompt that waits for its end is not said. Its questions are withdrawn by
        the session."""
        prompt = self._prompt
        if prompt is not None and prompt.free_at is None:
            prompt.free_at = time.monotonic() + CANCEL_WAIT
        if prompt is not None and prompt.is_choosing:
            for id in [id for id, data in self._questions.items() if "dialog_id" not in data]:
                self._withdraw(id)
            self._answer("cancelled")
        waiting = prompt.id if prompt is not None else None
        self.channel.ask("abort", lambda answer: self._ask_receipt(), prompt_id=waiting)

    @property
    def pause(self) -> float | None:
        """Seconds until `free` is due."""
        at = self._prompt.free_at if self._prompt is not None else None
        return None if at is None else max(0.0, at - time.monotonic())

    def free(self) -> None:
        """Answer a prompt that was cancelled long ago."""
        if self.pause == 0.0:
            self._answer("cancelled")

    def _ask_receipt(self) -> None:
        """Ask what became of the prompt: its end may have been missed, or it may never have been said."""
        prompt = self._prompt
        if prompt is None or not prompt.known_as:
            return

        def take(answer: Answered) -> None:
            error, data = answer.error, answer.data
            if prompt is not self._prompt:
                return
            is_unsaid = data.get("reason") == RESTARTED and not prompt.is_said
            if (error is not None and error.code == ErrorCode.NOT_FOUND) or is_unsaid:
                prompt.known_as = ""
                if prompt.free_at is not None:
                    self._answer("cancelled")
                else:
                    self._say(prompt)
            elif error is not None:
                self._fail(error)
            elif data["state"] == "ended":
                self._end(prompt, data["outcome"], data.get("reason") or "")

        self.channel.ask("prompt_receipt", take, fate="forgotten", prompt_id=prompt.known_as)

    def _end(self, prompt: _Prompt, outcome: str, reason: str) -> None:
        if prompt.stop_reason == "length" and outcome != "aborted":
            self._answer("max_tokens")
        elif outcome == "done":
            self._answer("end_turn")
        elif outcome == "failed" or reason == RESTARTED or (outcome == "interrupted" and reason):
            self._fail(RequestError(ErrorCode.FAILED, reason or "the turn failed"))
        else:
            self._answer("cancelled")

    def _answer(self, stop_reason: str) -> None:
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            usage = _usage(prompt.usage)
            self._editor.respond(prompt.request, acp.PromptResult(stop_reason=stop_reason, usage=usage))

    def _fail(self, error: RequestError) -> None:
        if self._prompt is not None and self._prompt.free_at is not None:
            self._answer("cancelled")
            return
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            self._editor.fail(prompt.request, error)

    # --- questions ------------------------------------------------------------------------------------------

    def _ask(self, wanted: ApprovalWanted) -> None:
        """Something waits for a person: the editor's person is asked, once."""
        self._open.add(wanted.id)
        if wanted.id in self._asked:
            return
        how = f"answer with `fairlead approvals allow {wanted.id}`, or deny"
        if len(self._asked) >= MAX_ASKED or not wanted.data.get("options"):
            self._tell([say(f"[waiting for consent: {wanted.summary}; {how}]")])
            return
        call = wanted.data.get("tool_id") or wanted.id
        self._tell(self._narration.asked(call, wanted.tool, wanted.summary))
        id = self._editor.request(permission_of(self.name, wanted.data, self._narration.paths_of(call)))
        self._asked[wanted.id] = id
        self._questions[id] = wanted.data

    def answered(self, id: Id, outcome: acp.Selected | acp.Cancelled | None) -> None:
        """The editor answered a question; None if it can't."""
        data = self._questions.pop(id, None)
        if data is None:
            return
        option = outcome.option_id if isinstance(outcome, acp.Selected) else None
        if "dialog_id" not in data:
            self._choose(chosen_of(data, option))
        elif option is not None:
            self.channel.ask(
                "resolve_dialog", lambda answer: None, dialog_id=data["dialog_id"], result=option
            )
        elif outcome is None:
            self._tell([say(f"[not answered; `fairlead approvals` lists {data['dialog_id']}]")])
        elif self._prompt is not None:
            self.cancel()

    def _choose(self, given: dict[str, Any]) -> None:
        """Tell a command what was chosen."""

        prompt = self._prompt

        def take(answer: Answered) -> None:
            if prompt is not None:
                prompt.is_choosing = False
            self._commanded(prompt, answer)

        self.channel.ask("frontend_action_result", take, fate="fails", **given)

    def _withdraw(self, id: Id) -> None:
        """A question needs no answer any more."""
        data = self._questions.pop(id, None)
        if data is not None:
            self._editor.withdraw(id)
            self._asked.pop(data.get("dialog_id", ""), None)

    # --- how it is set --------------------------------------------------------------------------------------

    def set_mode(self, request: Id, mode: str) -> None:
        def take(answer: Answered) -> None:
            if answer.error is not None:
                self._editor.fail(request, answer.error)
            else:
                self.shown.set_mode(mode)
                self._editor.respond(request, acp.Empty())

        self.channel.ask("set_mode", take, mode=mode)

    def set_option(self, request: Id, option: str, value: str | bool) -> None:
        def take(answer: Answered) -> None:
            if answer.error is not None:
                self._editor.fail(request, answer.error)
            else:
                self.shown.set_option(option, str(value))
                options = self.shown.config_options or ()
                self._editor.respond(request, acp.SetConfigOptionResult(config_options=options))

        if self.shown.is_mode(option):
            self.channel.ask("set_mode", take, mode=str(value))
        else:
            self.channel.ask("set_option", take, option=option, value=str(value))

    def _ask_commands(self, then: Callable[[], None]) -> None:
        def take(answer: Answered) -> None:
            if answer.error is None:
                rows = [
                    (each["name"].removeprefix("/"), each["description"]) for each in answer.data["commands"]
                ]
                self._commands = frozenset(name.split()[0] for name, _ in rows if name.strip())
                self._tell(self.shown.take_commands(rows, HIDDEN))
            then()

        self.channel.ask("get_commands", take)


def _usage(used: dict[str, int]) -> acp.Usage | None:
    if not used.get("total_tokens"):
        return None
    return acp.Usage(
        total_tokens=used["total_tokens"],
        input_tokens=used.get("input_tokens", 0),
        output_tokens=used.get("output_tokens", 0),
        cached_read_tokens=used.get("cache_read_tokens") or None,
        cached_write_tokens=used.get("cache_write_tokens") or None,
    )
