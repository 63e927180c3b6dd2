"""Slash commands: what a person types with a slash in front, run in the backend for every editor alike.

The result is an event, `command-result`, that comes before the response. A command that needs a choice asks
the editor for it (`ui/frontend-action-requested`), and is run when the answer comes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..agent.journal import JournalError, Said
from ..agent.library import Page, Shelf
from ..agent.messages import text_of
from ..agent.models import THINKING_LEVELS, ModelError, ModelInfo
from ..agent.session import AgentSession, Busy, Job, Refused
from ..formats.edn import Keyword
from ..wire.rpc import ErrorCode, Request, fields
from . import agent_frames as frames
from .agent_login import AgentLogin
from .rpc import Caller, OpError

Data = Mapping[Any, Any]

MAX_ACTIONS = 64
"""How many questions to editors may wait for their answers; the oldest is forgotten then."""
SHOWN_MESSAGES = 20
"""How many messages `/history` shows."""
SHOWN_CHARS = 200
"""How much it shows of each."""

HELP = {
    "/help": "this list",
    "/status": "how the session is",
    "/history": "what was said last",
    "/new": "begin a new session",
    "/resume [path]": "go on with a session of a file",
    "/tree [id]": "turn to another session",
    "/model [provider id]": "choose a model",
    "/thinking [level]": f"how hard the model thinks: {', '.join(THINKING_LEVELS)}",
    "/compact [instructions]": "sum up what lies far back",
    "/prompts": "the prompts that are written down; /name says one",
    "/skills": "what models can read up on",
    "/remember text #tag": "keep something for all sessions",
    "/jobs": "the tool calls that run",
    "/job id": "what one of them has told so far",
    "/cancel-job id": "end one of them; the turn goes on",
    "/login [provider]": "enter a provider's key",
    "/logout [provider]": "forget a key that was entered",
    "/quit": "leave; the session stays",
}


class Action(NamedTuple):
    """A choice that an editor was asked for."""

    name: str
    session_id: str
    caller: Caller


class Doing(NamedTuple):
    """A command as it is run."""

    request: Request
    caller: Caller
    session: AgentSession
    words: list[str]
    rest: str


class Sessions(Protocol):
    """What commands do with sessions: the ops of the door."""

    @property
    def loaded(self) -> Sequence[AgentSession]: ...

    @property
    def models(self) -> Sequence[ModelInfo]: ...

    def session(self, request: Request, caller: Caller) -> AgentSession:
        """The session that a request means."""

    def found(self, id: str) -> AgentSession: ...

    def resumed(self, path: str) -> AgentSession: ...

    def persisted(self) -> Sequence[tuple[str, str, str]]:
        """The sessions on disk: id, what to call it, and the journal's path."""

    def created(self, caller: Caller) -> AgentSession: ...

    def entered(self, caller: Caller, session: AgentSession, request: Request) -> Data:
        """A client turns to a session and is shown all of it."""

    def noted(self, session: AgentSession, text: str, tags: Sequence[str]) -> int:
        """Remember something; gives its number."""

    def shelf(self, session: AgentSession) -> Shelf:
        """The prompts and skills for a session."""

    def verdict(self, session: AgentSession) -> str:
        """What verifiers said of a session last, in a few words."""


class AgentCommands:
    """The slash commands of a door, and the questions that wait."""

    def __init__(self, sessions: Sessions, login: AgentLogin) -> None:
        self._sessions = sessions
        self._login = login
        self._actions: dict[str, Action] = {}
        self._commands: dict[str, Callable[[Doing], Awaitable[None]]] = {
            "help": self._help,
            "?": self._help,
            "status": self._status,
            "history": self._history,
            "new": self._new,
            "resume": self._resume,
            "tree": self._tree,
            "model": self._model,
            "thinking": self._thinking,
            "compact": self._compact,
            "prompts": self._prompts,
            "skills": self._skills,
            "remember": self._remember,
            "jobs": self._jobs,
            "job": self._job,
            "cancel-job": self._cancel_job,
            "login": self._log_in,
            "logout": self._log_out,
            "quit": self._quit,
            "exit": self._quit,
        }

    async def command(self, request: Request, caller: Caller) -> Data:
        """The op `command`."""
        text = request.get("text").strip()
        name, _, rest = text.removeprefix("/").partition(" ")
        session = self._sessions.session(request, caller)
        doing = Doing(request, caller, session, rest.split(), rest.strip())
        if text.startswith("/") and name in self._commands:
            await self._commands[name](doing)
        elif text.startswith("/") and name in self._sessions.shelf(session).prompts:
            self._say_prompt(doing, self._sessions.shelf(session).prompts[name])
        else:
            self._say(doing, f"[not a command] {text}")
        return fields(accepted=True, handled=True)

    async def frontend_action_result(self, request: Request, caller: Caller) -> Data:
        """The op by which an editor answers."""
        action = self._actions.get(request.get("request-id"))
        if action is None or action.name != request.get("action-name"):
            raise OpError(ErrorCode.NOT_FOUND, f"no frontend action {request.get('request-id')} waits")
        del self._actions[request.get("request-id")]
        if request.get("status") == "failed":
            why = request.get("error-message") or "the editor could not do it"
            caller.event("command-result", fields(type="error", message=why), id=request.id)
        if request.get("status") != "submitted":
            return fields(accepted=True)
        value = request.get("value")
        words = [str(word) for word in value] if isinstance(value, list | tuple) else [_text(value)]
        session = self._sessions.found(action.session_id)
        doing = Doing(request, caller, session, words, " ".join(words))
        command = {
            "select-model": self._model,
            "select-thinking-level": self._thinking,
            "select-resume-session": self._resume,
            "select-session": self._tree,
        }[action.name]
        await command(doing)
        return fields(accepted=True)

    # --- answers --------------------------------------------------------------------------------------------

    def _say(self, doing: Doing, message: str, kind: str = "text", **more: Any) -> None:
        data = fields(type=kind, message=message, session_id=doing.session.id, **more)
        doing.caller.event("command-result", data, id=doing.request.id)

    def _ask(self, doing: Doing, name: str, prompt: str, items: Sequence[tuple[str, str, Any]]) -> None:
        """Let the editor's person choose: id, label and value of each item."""
        while len(self._actions) >= MAX_ACTIONS:
            del self._actions[next(iter(self._actions))]
        id = secrets.token_hex(8)
        self._actions[id] = Action(name, doing.session.id, doing.caller)
        rows = [
            {
                Keyword("ui.item/id"): item,
                Keyword("ui.item/label"): label,
                Keyword("ui.item/value"): value,
            }
            for item, label, value in items
        ]
        action = fields(
            action_id=id, action_kind=Keyword("select"), action_name=name, prompt=prompt, items=rows
        )
        data = {**fields(request_id=id, prompt=prompt), Keyword("ui/action"): action}
        doing.caller.event("ui/frontend-action-requested", data, id=doing.request.id)

    # --- the commands ---------------------------------------------------------------------------------------

    async def _help(self, doing: Doing) -> None:
        self._say(doing, "\n".join(f"{name:<24} {what}" for name, what in HELP.items()))

    async def _status(self, doing: Doing) -> None:
        session = doing.session
        tokens = f"about {session.context_tokens} of {session.model.window} tokens"
        lines = [
            f"Session: {frames.display_name(session)} ({session.id})",
            f"File: {session.journal.path}",
            f"Directory: {session.cwd}",
            f"Model: {session.model.provider} {session.model.id}, thinking {session.effective_thinking}",
            f"Phase: {session.phase}, {session.pending_messages} waiting to be said",
            f"Messages: {len(session.messages)}, {tokens}",
        ]
        if session.approvals:
            lines.append(f"{len(session.approvals)} tool calls wait for consent")
        if verdict := self._sessions.verdict(session):
            lines.append(f"Verified: {verdict}")
        if session.was_interrupted:
            lines.append("The last turn was interrupted.")
        lines += [f"Journal: {fault}" for fault in session.journal.faults]
        self._say(doing, "\n".join(lines))

    async def _history(self, doing: Doing) -> None:
        said = [entry.body.message for entry in doing.session.journal.branch if isinstance(entry.body, Said)]
        lines = []
        for message in said[-SHOWN_MESSAGES:]:
            text = " ".join(text_of(message).split())
            cut = text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
            lines.append(f"{type(message).__name__.lower()}: {cut}")
        self._say(doing, "\n".join(lines) or "Nothing was said yet.")

    async def _new(self, doing: Doing) -> None:
        session = self._sessions.created(doing.caller)
        self._sessions.entered(doing.caller, session, doing.request)
        self._say(doing._replace(session=session), "[New session started]", "new_session")

    async def _resume(self, doing: Doing) -> None:
        if not doing.rest:
            self._ask(doing, "select-resume-session", "Go on with", self._sessions.persisted())
            return
        try:
            session = self._sessions.resumed(doing.rest)
        except OpError as error:
            self._say(doing, str(error), "error")
            return
        self._switch(doing, session)

    async def _tree(self, doing: Doing) -> None:
        if not doing.rest:
            rows = [(each.id, frames.display_name(each), each.id) for each in self._sessions.loaded]
            self._ask(doing, "select-session", "Turn to", rows)
            return
        try:
            session = self._sessions.found(doing.rest)
        except OpError as error:
            self._say(doing, str(error), "error")
            return
        self._switch(doing, session)

    def _switch(self, doing: Doing, session: AgentSession) -> None:
        self._sessions.entered(doing.caller, session, doing.request)
        switched = doing._replace(session=session)
        self._say(switched, f"Switched to {frames.display_name(session)}", "session_switch")

    async def _model(self, doing: Doing) -> None:
        if not doing.words:
            rows = [
                (f"{each.provider}/{each.id}", f"{each.name} ({each.provider})", [each.provider, each.id])
                for each in self._sessions.models
            ]
            self._ask(doing, "select-model", "Model", rows)
            return
        if len(doing.words) != 2:
            self._say(doing, "Usage: /model OR /model <provider> <model-id>")
            return
        try:
            info = doing.session.set_model(*doing.words)
        except Refused as error:
            self._say(doing, str(error), "unsupported_model")
            return
        self._say(doing, f"✓ Model set to {info.provider} {info.id}")

    async def _thinking(self, doing: Doing) -> None:
        if not doing.rest:
            rows = [(level, level, level) for level in THINKING_LEVELS]
            self._ask(doing, "select-thinking-level", "Thinking level", rows)
            return
        try:
            level = doing.session.set_thinking_level(doing.rest)
        except Refused as error:
            self._say(doing, str(error), "error")
            return
        self._say(doing, f"✓ Thinking level set to {level}")

    async def _compact(self, doing: Doing) -> None:
        try:
            summary = await doing.session.compact(doing.rest)
        except Exception as error:  # busy, nothing to do, the model: all of it is for the person
            self._say(doing, f"Can't compact: {error}", "error")
            return
        self._say(doing, f"✓ Compacted\n\n{summary}")

    async def _prompts(self, doing: Doing) -> None:
        self._say(doing, _pages(self._sessions.shelf(doing.session).prompts, "/") or "No prompts are there.")

    async def _skills(self, doing: Doing) -> None:
        self._say(doing, _pages(self._sessions.shelf(doing.session).skills) or "No skills are there.")

    def _say_prompt(self, doing: Doing, page: Page) -> None:
        """Begin a turn with a prompt that is written down."""
        try:
            doing.session.prompt(page.said(doing.words))
        except (Busy, JournalError) as error:
            self._say(doing, f"Can't say {page.name}: {error}", "error")

    async def _jobs(self, doing: Doing) -> None:
        rows = [f"{id}  {_seconds(job)}  {job.summary}" for id, job in doing.session.jobs.items()]
        self._say(doing, "\n".join(rows) or "No tool call runs.")

    async def _job(self, doing: Doing) -> None:
        job = doing.session.jobs.get(doing.rest)
        if job is None:
            self._say(doing, _no_job(doing), "error")
            return
        told = f"\n\n{job.said}" if job.said else ""
        self._say(doing, f"{job.call.name}: {job.summary}\nruns for {_seconds(job)}{told}")

    async def _cancel_job(self, doing: Doing) -> None:
        try:
            doing.session.end_job(doing.rest)
        except Refused:
            self._say(doing, _no_job(doing), "error")
            return
        self._say(doing, f"✓ Cancelled {doing.rest}")

    async def _log_in(self, doing: Doing) -> None:
        provider = doing.rest or doing.session.model.provider
        try:
            url, message = self._login.begin(doing.caller, provider)
        except ModelError as error:
            self._say(doing, str(error), "login-error")
            return
        self._say(doing, message, "login_start", provider=provider, url=url, uses_callback_server=False)

    async def _log_out(self, doing: Doing) -> None:
        provider = doing.rest or doing.session.model.provider
        try:
            was_there = self._login.forget(provider)
        except ModelError as error:
            self._say(doing, str(error), "login-error")
            return
        if was_there:
            self._say(doing, f"✓ Logged out of {provider}", "logout", provider=provider)
        else:
            self._say(doing, f"No key was entered for {provider} here.", "logout", provider=provider)

    async def _remember(self, doing: Doing) -> None:
        tags = [word[1:] for word in doing.words if word.startswith("#") and len(word) > 1]
        text = " ".join(word for word in doing.words if not word.startswith("#"))
        if not text:
            self._say(doing, "Usage: /remember <text> [#tag …]")
            return
        try:
            number = self._sessions.noted(doing.session, text, tags)
        except OpError as error:
            self._say(doing, str(error), "error")
            return
        self._say(doing, f"✓ Remembered as {number}")

    async def _quit(self, doing: Doing) -> None:
        self._say(doing, "", "quit")


def _pages(pages: Mapping[str, Page], before: str = "") -> str:
    return "\n".join(f"{before}{page.name:<20} {page.description}" for page in pages.values())


def _seconds(job: Job) -> str:
    return f"{time.time() - job.began:.0f} s"


def _no_job(doing: Doing) -> str:
    running = ", ".join(doing.session.jobs) or "none"
    return f"Job not found: {doing.rest or '?'}. Running: {running}"


def _text(value: Any) -> str:
    return value.name if isinstance(value, Keyword) else "" if value is None else str(value)
