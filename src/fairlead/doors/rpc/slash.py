"""Slash commands: what a person types with a slash in front, run in the backend for every editor alike.

The result is an event, `command-result`, that comes before the response. A command that needs a choice asks
the editor for it (`ui/frontend-action-requested`), and is run when the answer comes. After each, the client
is shown how its session is then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...agent.conversation import Conversation
from ...agent.journal import JournalError, Said
from ...agent.library import LibraryPage
from ...agent.messages import Assistant, ToolResult, User, text_of
from ...agent.models import THINKING_LEVELS, ModelError
from ...agent.ports import Busy, Job, Refused
from ...agent.store import NotFound
from ...formats.columns import cut
from ...formats.edn import Keyword
from ...formats.guess import meant
from ...formats.shown import dotted, one_line
from ...system.worktrees import worktrees
from ...wire.rpc import ErrorCode, fields
from . import actions, frames
from .actions import Item
from .handlers import Call, Caller, Data, OpError, op
from .ops.jobs import STATUSES, job_of, jobs_of, line_of
from .ops.login import AgentLogin

if TYPE_CHECKING:
    from .ops.agents import AgentOps

SHOWN_MESSAGES = 200
"""How many messages `/history` shows."""
SHOWN_CHARS = 120
"""How much it shows of each."""
SHOWN_FORKS = 50
"""How many messages of a session are offered as places to fork at, the last ones."""
MODE = ("/mode [mode]", "show or choose the agent's mode")
"""The command that only sessions with modes have."""
WIDTH = 39
"""How wide the lines above and below a list are."""

HELP = {
    "/help": "list the commands",
    "/status": "show the state of the session",
    "/cost": "show the tokens that the session used, and what they cost",
    "/history": "list the messages of the session",
    "/new": "start a new session",
    "/resume [name]": "resume a session, by its name or from its file",
    "/tree [name]": "switch to another session, by its name or id",
    "/tree name id name": "rename a session",
    "/model [provider id]": "choose a model",
    "/thinking [level]": f"set the thinking level: {', '.join(THINKING_LEVELS)}",
    "/option [id value]": "choose one of the session's options",
    "/compact [instructions]": "summarize older messages",
    "/prompts": "list the prompt templates; /name runs one",
    "/skills": "list the skills that models can read",
    "/worktree": "list the git worktrees",
    "/remember text #tag": "store a note for all sessions",
    "/jobs [status]": "list running and recent tool calls",
    "/job id": "show a tool call",
    "/cancel-job id": "cancel a tool call; the turn continues",
    "/login [provider]": "enter a provider's key",
    "/logout [provider]": "delete entered keys",
    "/quit": "leave; the session is kept",
}


HELP_COLUMNS = 100
"""How much `/help` shows of a command; agents describe theirs at length."""


def commands_of(session: Conversation) -> dict[str, str]:
    """Our commands, and those of the session's agent."""
    own = dict([MODE]) if session.modes else {}
    ours = {name: what for name, what in HELP.items() if name.split()[0] not in session.lacks}
    return ours | own | {f"/{name}": what for name, what in session.commands.items()}


class Doing(NamedTuple):
    """A command as it is run."""

    call: Call
    session: Conversation
    words: list[str]
    rest: str
    as_message: bool = False
    """Whether what it shows comes as a message, as it was said as a prompt."""

    @property
    def caller(self) -> Caller:
        return self.call.caller


class AgentCommands:
    """The slash commands of a door, and the questions that wait."""

    def __init__(
        self, sessions: AgentOps, login: AgentLogin, set_name: Callable[[Conversation, str], Awaitable[None]]
    ) -> None:
        self._sessions = sessions
        self._set_name = set_name
        self._login = login
        self._commands: dict[str, Callable[[Doing], Awaitable[None]]] = {
            "help": self._help,
            "?": self._help,
            "status": self._status,
            "cost": self._cost,
            "history": self._history,
            "new": self._new,
            "resume": self._resume,
            "tree": self._tree,
            "model": self._model,
            "mode": self._mode,
            "thinking": self._thinking,
            "option": self._option,
            "compact": self._compact,
            "prompts": self._prompts,
            "skills": self._skills,
            "remember": self._remember,
            "jobs": self._jobs,
            "job": self._job,
            "cancel-job": self._cancel_job,
            "worktree": self._worktree,
            "login": self._log_in,
            "logout": self._log_out,
            "quit": self._quit,
            "exit": self._quit,
        }

    @op
    async def command(self, call: Call, text: str) -> Data:
        """What it shows, how the session is then, and the response."""
        more = await self._run(self._doing(call, self._sessions.session(call), text))
        return fields(accepted=True, handled=True, **more)

    def knows(self, session: Conversation, text: str) -> bool:
        """Whether a text is one of our commands."""
        name = text.strip().removeprefix("/").partition(" ")[0]
        return text.strip().startswith("/") and (
            name in self._commands or name in self._sessions.shelf(session).prompts
        )

    async def said_as_prompt(self, call: Call, session: Conversation, text: str) -> None:
        """A command that came as a prompt."""
        await self._run(self._doing(call, session, text)._replace(as_message=True))

    @staticmethod
    def _doing(call: Call, session: Conversation, text: str) -> Doing:
        name, _, rest = text.strip().partition(" ")
        return Doing(call, session, [name, *rest.split()], rest.strip())

    async def _run(self, doing: Doing) -> dict[str, Any]:
        """Do it, then show how the session in focus is; returns what the response says besides."""
        call, session = doing.call, doing.session
        text, (first, *words) = " ".join([doing.words[0], doing.rest]).strip(), doing.words
        doing, name = doing._replace(words=words), first.removeprefix("/")
        more: dict[str, Any] = {}
        if first.startswith("/") and name in self._commands:
            await self._commands[name](doing)
        elif first.startswith("/") and (page := self._sessions.shelf(session).prompts.get(name)):
            more = {"fallback": Keyword("template"), **self._say_prompt(doing, page)}
        elif first.startswith("/") and name in session.commands:
            session.follow_up(text, id=(id := self._sessions.typed(call)))
            more = {"prompt_id": id} if doing.caller.receipts else {}
        else:
            names = (word.split()[0].removeprefix("/") for word in commands_of(session))
            near = meant(name, names).replace("mean ", "mean /") if first.startswith("/") else ""
            ours = f"{one_line(first, SHOWN_CHARS)} is not a command here{near or '; /help lists them'}"
            self._say(doing, _for(doing, f"[not a command] {text}", ours))
        self._show_focus(call, session)
        return more

    def _show_focus(self, call: Call, session: Conversation) -> None:
        """How the session in focus is after a command; if that is another one than before, all of them."""
        if call.caller.focus not in (None, session.id):
            self._sessions.show(call, self._sessions.find(str(call.caller.focus)))
        else:
            self._sessions.show_session(call.caller, session, call.id)

    @op
    async def frontend_action_result(
        self,
        call: Call,
        request_id: str,
        action_name: str,
        status: str,
        ui_action: Any = None,
        value: Any = None,
        error_message: str = "",
    ) -> Data:
        """An editor answers."""
        name = actions.name_of(ui_action, action_name)
        session = self._sessions.session(call)
        doing = Doing(call, session, [], "")
        if status == "cancelled":
            self._say(doing, _for(doing, f"Cancelled {name}.", "Nothing was chosen."))
            return fields(accepted=True)
        if status == "failed":
            self._say(doing, error_message or f"Frontend action failed: {name}", "error")
            return fields(accepted=True)
        await self._choose(doing, name, value)
        self._show_focus(call, session)
        return fields(accepted=True, request_id=request_id)

    async def _choose(self, doing: Doing, name: str, value: Any) -> None:
        """Do what was chosen; a value that fits nothing changes nothing."""
        text = actions.text_of(value)
        match name:
            case "select-model":
                words = [actions.text_of(actions.part(value, key)) for key in ("provider", "id")]
                if all(words):
                    await self._model(doing._replace(words=words, rest=" ".join(words)))
            case "select-mode" if text:
                await self._mode(doing._replace(words=text.split(), rest=text))
            case "select-option" if text:
                await self._option(doing._replace(words=[text], rest=text))
            case "select-option-value":
                words = [actions.text_of(actions.part(value, key)) for key in ("option", "value")]
                if all(words):
                    await self._option(doing._replace(words=words, rest=" ".join(words)))
            case "select-thinking-level" if text:
                await self._thinking(doing._replace(words=[text], rest=text))
            case "select-resume-session" if text:
                await self._sessions.read(text)
                self._enter(doing, self._sessions.resumed(text))
            case "select-session":
                id = text or actions.text_of(actions.part(value, "session-id"))
                entry = actions.text_of(actions.part(value, "entry-id"))
                if id:
                    await self._sessions.read(id)
                    found = self._sessions.find(id)
                    self._enter(doing, await self._sessions.forked(found, entry) if entry else found)

    # --- answers --------------------------------------------------------------------------------------------

    def _say(self, doing: Doing, message: str | None, kind: str = "text", **more: Any) -> None:
        own = fields(session_id=doing.session.id)
        message = message and dotted(message)
        if doing.as_message and message is not None:
            self._tell(doing, message)
            return
        data = {**fields(type=kind, **more), **own}
        if message is not None:
            data = {**fields(type=kind, message=message, **more), **own}
        doing.caller.event("command-result", data, id=doing.call.id)

    @staticmethod
    def _tell(doing: Doing, text: str) -> None:
        """Show a text as a message, which is in no journal."""
        content = [fields(type=Keyword("text"), text=text)]
        data = fields(role="assistant", content=content, text=text, session_id=doing.session.id)
        doing.caller.event("assistant/message", data, id=doing.call.id)

    def _ask(self, doing: Doing, name: str, items: Sequence[Item]) -> None:
        """Let the editor's person choose."""
        data = actions.action(name, doing.call.id, items, says_current=doing.caller.increments)
        doing.caller.event("ui/frontend-action-requested", data, id=doing.call.id)
        doing.caller.asked = doing.call.id

    # --- the commands ---------------------------------------------------------------------------------------

    async def _help(self, doing: Doing) -> None:
        shelf = self._sessions.shelf(doing.session)
        rows = [
            cut(f"  {name} — {' '.join(what.split())}", HELP_COLUMNS)
            for name, what in commands_of(doing.session).items()
        ]
        if shelf.prompts:
            rows += [
                "",
                "  Prompt templates:",
                *(_prompt_row(doing, page) for page in shelf.prompts.values()),
            ]
        if shelf.skills:
            rows += ["", "  Skills:", *(_skill_row(page) for page in shelf.skills.values())]
        self._say(doing, _list("Commands", rows))

    async def _status(self, doing: Doing) -> None:
        session = doing.session
        window = session.model.window
        full = f"{100 * session.context_tokens / window:.0f}%" if window else "?"
        rows = [
            f"  Name    : {session.name or '-'}",
            f"  State   : {session.state}" + f" ({session.phase})" * (session.state == "working"),
            f"  Kind    : {session.kind}",
            f"  ID      : {session.id}",
            f"  Model   : {session.model.id} (thinking {session.effective_thinking})",
            f"  Entries : {len(session.journal.entries)}",
            f"  Context : {full}",
            f"  Worktree: {session.cwd}",
            f"  File    : {session.journal.path}",
        ]
        if agent := session.journal.header.agent:
            rows[3:3] = [f"  Agent   : {agent}", f"  Mode    : {session.mode or '-'}"]
        if session.pending_messages:
            rows.append(f"  Queued  : {session.pending_messages}")
        if session.approvals:
            first = one_line(next(iter(session.approvals.values())).summary, SHOWN_CHARS)
            rows.append(f"  Asks    : {len(session.approvals)} for consent, first {first}")
        if verdict := self._sessions.verdict(session):
            rows.append(f"  Check   : {verdict}")
        if session.was_interrupted:
            rows.append("  The last turn was interrupted.")
        rows += [f"  Journal : {fault}" for fault in session.journal.faults]
        self._say(doing, _list("Session status", rows))

    async def _cost(self, doing: Doing) -> None:
        session = doing.session
        used, window, full = session.usage, session.model.window, session.context_tokens
        counts = [(used.input, "read"), (used.output, "written")]
        counts += [(used.cache_read, "read from the cache"), (used.cache_write, "written to the cache")]
        told = [f"{count:,} {what}" for count, what in counts if count]
        cost = f"${used.cost.total:.4f}" if used.cost.total else "not known"
        context = (
            f"{full:,} of {window:,} tokens ({100 * full / window:.0f}%)" if window else f"{full:,} tokens"
        )
        rows = [
            f"  Tokens  : {', '.join(told) or 'none known'}",
            f"  Cost    : {cost if told or used.cost.total else 'nothing yet'}",
            f"  Context : {context if full else '?'}",
        ]
        self._say(doing, _list("Cost of the session", rows))

    async def _history(self, doing: Doing) -> None:
        said = [entry.body.message for entry in doing.session.journal.branch if isinstance(entry.body, Said)]
        hidden = len(said) - SHOWN_MESSAGES
        rows = [f"  ({hidden} earlier)"] if hidden > 0 else []
        for message in said[-SHOWN_MESSAGES:]:
            role = "toolResult" if isinstance(message, ToolResult) else type(message).__name__.lower()
            text = " ".join(text_of(message)[: 8 * SHOWN_CHARS].split())
            if not text and isinstance(message, Assistant):
                text = message.error_message or ", ".join(f"calls {call.name}" for call in message.calls)
            rows.append(f"  [{role}] {text[:SHOWN_CHARS]}")
        self._say(doing, _list("Message history", rows or ["  (empty)"]))

    async def _new(self, doing: Doing) -> None:
        if not doing.session.cwd.is_dir():
            place = one_line(str(doing.session.cwd), SHOWN_CHARS)
            self._say(doing, f"no new session can begin here: the directory {place} is gone", "error")
            return
        session = self._sessions.like(doing.caller, doing.session)
        self._sessions.enter(doing.call, session)
        self._say(doing._replace(session=session), "[New session started]", "new_session")

    async def _resume(self, doing: Doing) -> None:
        if not doing.rest:
            found = await self._sessions.persisted(doing.caller)
            rows = [Item(id, label, path) for id, label, path in found]
            self._ask(doing, "select-resume-session", rows)
            return
        if "/" not in doing.rest and (named := await self._sessions.named(doing.rest)) is not None:
            self._enter(doing, named)
            return
        await self._sessions.read(doing.rest)
        try:
            session = self._sessions.resumed(doing.rest)
        except NotFound:
            name = one_line(doing.rest, SHOWN_CHARS)
            ours = f"there is no session {name!r}; /resume alone lists those of this directory"
            self._say(doing, _for(doing, f"Session file not found: {doing.rest}", ours))
            return
        except JournalError as error:
            self._say(doing, str(error))
            return
        self._enter(doing, session)

    async def _tree(self, doing: Doing) -> None:
        if not doing.words:
            self._ask(doing, "select-session", self._live(doing))
        elif doing.words[0] == "name":
            await self._rename(doing)
        elif (session := await self._named(doing, doing.rest)) is None:
            return
        elif session.id == doing.session.id:
            ours = f"this is {frames.display_name(session)} already"
            self._say(doing, _for(doing, f"Already active session: {session.id}", ours))
        else:
            self._enter(doing, session)

    def _live(self, doing: Doing) -> list[Item]:
        """What `/tree` offers: the sessions, and the current one again from each of its messages."""
        items = []
        for each in sorted(self._sessions.sessions_of(doing.caller), key=frames.changed_at):
            value = {_ACTION_KIND: Keyword("switch-session"), _ACTION_SESSION: each.id}
            items.append(Item(each.id, frames.display_name(each), value))
        for entry in doing.session.journal.branch[-20 * SHOWN_FORKS :]:
            if isinstance(entry.body, Said) and isinstance(entry.body.message, User):
                text = " ".join(text_of(entry.body.message)[: 8 * SHOWN_CHARS].split())[:SHOWN_CHARS]
                value = {
                    _ACTION_KIND: Keyword("fork-session"),
                    _ACTION_SESSION: doing.session.id,
                    _ACTION_ENTRY: entry.id,
                }
                items.append(Item(f"{doing.session.id}/{entry.id}", f"⎇ {text}", value))
        return items

    async def _named(self, doing: Doing, id: str) -> Conversation | None:
        """The session of an id, or of the beginning of one, among those that the client sees, who is told if
        there is not one."""
        loaded = {each.id: each for each in self._sessions.sessions_of(doing.caller)}
        if id in loaded:
            return loaded[id]
        ids = {*loaded, *(row[0] for row in await self._sessions.persisted(doing.caller))}
        found = [each for each in ids if each == id or each.startswith(id)]
        if not found and doing.caller.project is None:
            with contextlib.suppress(JournalError):
                if (named := await self._sessions.named(id)) is not None:
                    return named
        if not found and doing.caller.project is None:  # it may be one of long ago
            found = [id]
        if len(found) > 1:
            self._say(doing, f"{len(found)} sessions begin with {id}; give more of the id.")
            return None
        with contextlib.suppress(NotFound, JournalError):
            if found:
                await self._sessions.read(found[0])
                return self._sessions.find(found[0])
        ours = f"there is no session {one_line(id, SHOWN_CHARS)!r}; /tree alone lists them"
        self._say(doing, _for(doing, f"Session not found in context: {id}", ours))
        return None

    async def _rename(self, doing: Doing) -> None:
        _, *words = doing.words
        if len(words) < 2:
            self._say(doing, "Usage: /tree name <session-id|prefix> <name>")
            return
        session, name = await self._named(doing, words[0]), " ".join(words[1:])
        if session is None:
            return
        before = frames.display_name(session)
        try:
            await self._set_name(session, name)
        except (Refused, JournalError) as error:
            self._say(doing, str(error), "error")
            return
        ours = f'Renamed {before} to "{name}"'
        self._say(doing, _for(doing, f'Renamed session {session.id} to "{name}"', ours))

    def _enter(self, doing: Doing, session: Conversation) -> None:
        """Turn to a session. Our own clients are told so; psi's UI goes by what it is shown."""
        self._sessions.enter(doing.call, session)
        if doing.caller.increments:
            switched = doing._replace(session=session)
            self._say(switched, f"Switched to {frames.display_name(session)}", "session_switch")

    async def _model(self, doing: Doing) -> None:
        if not doing.words:
            rows = [
                Item(
                    f"{each.provider}/{each.id}",
                    f"{each.provider} {each.id}" + (" [reasoning]" if each.reasoning else ""),
                    fields(provider=each.provider, id=each.id),
                    (each.provider, each.id) == (doing.session.model.provider, doing.session.model.id),
                )
                for each in self._sessions.models_of(doing.session)
            ]
            self._ask(doing, "select-model", rows)
            return
        words = doing.words if len(doing.words) != 1 else doing.words[0].split("/", 1)
        if len(words) != 2:
            self._say(doing, "Usage: /model OR /model <provider> <model-id>")
            return
        try:
            info = doing.session.set_model(*words)
        except Refused as error:
            is_own = doing.session.own_models is not None
            self._say(doing, str(error) if is_own else f"Unknown model: {' '.join(words)}")
            return
        self._say(doing, f"✓ Model set to {info.provider} {info.id}")

    async def _mode(self, doing: Doing) -> None:
        session = doing.session
        if not doing.rest and session.modes and doing.caller.increments:
            names = [(each, session.mode_names.get(each, each)) for each in session.modes]
            rows = [Item(id, _both(id, name), id, id == session.mode) for id, name in names]
            self._ask(doing, "select-mode", rows)
            return
        ids = {name.lower(): id for id, name in session.mode_names.items()}
        wanted = doing.rest if doing.rest in session.modes else ids.get(doing.rest.lower(), doing.rest)
        try:
            mode = session.set_mode(wanted) if wanted else session.mode
        except Refused as error:
            self._say(doing, str(error), "error")
            return
        known = f" (there are {', '.join(session.modes)})" if session.modes else ""
        self._say(doing, f"Mode: {mode or 'none'}{known}")

    async def _option(self, doing: Doing) -> None:
        """Choose one of the session's options, and then its value."""
        options = {each.id: each for each in doing.session.options}
        if not options:
            self._say(doing, "This session has no options.")
        elif not doing.words:
            rows = [Item(each.id, f"{each.name}: {each.value}", each.id) for each in options.values()]
            self._ask(doing, "select-option", rows)
        elif (option := options.get(doing.words[0])) is None:
            self._say(doing, f"Unknown option: {doing.words[0]}. There are {', '.join(options)}", "error")
        elif len(doing.words) == 1:
            rows = [
                Item(value, _both(value, name), fields(option=option.id, value=value), value == option.value)
                for value, name in option.choices
            ]
            self._ask(doing, "select-option-value", rows)
        else:
            value = doing.rest.split(maxsplit=1)[1]
            try:
                doing.session.set_option(option.id, value)
            except Refused as error:
                self._say(doing, str(error), "error")
                return
            self._say(doing, f"✓ {option.name} set to {value}")

    async def _thinking(self, doing: Doing) -> None:
        if not doing.words:
            now = doing.session.effective_thinking
            rows = [Item(each, each, each, each == now) for each in THINKING_LEVELS]
            self._ask(doing, "select-thinking-level", rows)
            return
        if len(doing.words) != 1:
            self._say(doing, "Usage: /thinking OR /thinking <level>")
            return
        try:
            level = doing.session.set_thinking_level(doing.rest)
        except Refused as error:
            self._say(doing, str(error))
            return
        idle = f" ({doing.session.model.id} does not reason: off)" if level != doing.rest else ""
        self._say(doing, f"✓ Thinking level set to {doing.rest}{idle}")

    async def _compact(self, doing: Doing) -> None:
        try:
            summary = await doing.session.compact(doing.rest)
        except Exception as error:  # busy, nothing to do, the model: all of it is for the person
            self._say(doing, f"Can't compact: {error}", "error")
            return
        self._say(doing, f"✓ Compacted\n\n{summary}")

    async def _prompts(self, doing: Doing) -> None:
        rows = [_prompt_row(doing, page) for page in self._sessions.shelf(doing.session).prompts.values()]
        self._say(doing, _list("Prompt Templates", rows or ["  (none discovered)"]))

    async def _skills(self, doing: Doing) -> None:
        rows = [_skill_row(page) for page in self._sessions.shelf(doing.session).skills.values()]
        self._say(doing, _list("Skills", rows or ["  (none discovered)"]))

    def _say_prompt(self, doing: Doing, page: LibraryPage) -> dict[str, str]:
        """Begin a turn with a prompt that is written down; returns its receipt."""
        id = self._sessions.typed(doing.call)
        try:
            doing.session.prompt(page.said(doing.words), id=id)
        except (Busy, JournalError) as error:
            self._say(doing, f"Can't say {page.name}: {error}", "error")
            return {}
        return {"prompt_id": id} if doing.caller.receipts else {}

    async def _worktree(self, doing: Doing) -> None:
        found = await asyncio.to_thread(worktrees, doing.session.cwd)
        rows = [f"  cwd      : {doing.session.cwd}"]
        if found is None:
            rows.append("  inside   : false")
        else:
            here, trees = found
            branch = next((tree.branch for tree in trees if tree.path == here), "?")
            rows += [f"  branch   : {branch}", f"  current  : {here}", f"  worktrees: {len(trees)}"]
            rows += [f"  {'*' if tree.path == here else ' '} {tree.path} [{tree.branch}]" for tree in trees]
        self._say(doing, _list("Git worktrees", rows))

    async def _jobs(self, doing: Doing) -> None:
        if not set(doing.words) <= set(STATUSES):
            self._say(doing, "Usage: /jobs [status ...]")
            return
        rows = [f"  {line_of(job)}" for job in jobs_of(doing.session, doing.words)]
        self._say(doing, _list("Background jobs", rows or ["  (none)"]))

    async def _job(self, doing: Doing) -> None:
        if len(doing.words) != 1:
            self._say(doing, "Usage: /job <job-id>")
            return
        job = job_of(doing.session, doing.rest)
        if job is None:
            self._say(doing, _no_job(doing))
            return
        rows = [f"  {line_of(job)}", f"  {job.summary}", f"  for {_seconds(job)}"]
        rows += [f"  {line}" for line in job.said.split("\n")] if job.said else []
        self._say(doing, _list("Background job", rows))

    async def _cancel_job(self, doing: Doing) -> None:
        if len(doing.words) != 1:
            self._say(doing, "Usage: /cancel-job <job-id>")
            return
        try:
            doing.session.end_job(doing.rest)
        except Refused:
            self._say(doing, _no_job(doing))
            return
        self._say(doing, f"Cancellation requested for {doing.rest} (status=pending-cancel)")

    async def _log_in(self, doing: Doing) -> None:
        provider = doing.rest or doing.session.model.provider
        try:
            url, message = self._login.begin(doing.caller, provider)
        except ModelError as error:
            self._say(doing, str(error), "login-error")
            return
        if doing.caller.increments:
            self._say(doing, message, "login_start", provider=provider, url=url, uses_callback_server=False)
            return
        self._tell(doing, f"Login: {provider} — open URL: {url or '(none)'}")
        self._tell(doing, "Paste authorization code as your next prompt message.")

    def logs_in(self, caller: Caller) -> bool:
        """Whether a client's next prompt is a key."""
        return not caller.increments and self._login.is_pending(caller)

    def enter_key(self, call: Call, session: Conversation, key: str) -> None:
        """The prompt after `/login`. It is in no journal."""
        doing = Doing(call, session, [], "")
        try:
            provider = self._login.enter(call.caller, key.strip())
        except OpError as error:
            self._tell(doing, f"✗ Login failed: {error}")
        else:
            self._tell(doing, f"✓ Logged in to {provider}")
        self._sessions.show_session(call.caller, session, call.id)

    async def _log_out(self, doing: Doing) -> None:
        wanted = [doing.rest] if doing.rest else sorted({each.provider for each in self._sessions.models})
        gone = []
        for provider in wanted:
            try:
                if self._login.forget(provider):
                    gone.append(provider)
            except ModelError as error:
                if doing.rest:
                    self._say(doing, str(error), "login-error")
                    return
        if gone:
            self._say(doing, f"✓ Logged out of: {', '.join(gone)}", "logout")
        elif doing.rest:
            self._say(doing, f"No key was entered for {doing.rest} here.", "logout")
        else:
            self._say(doing, "No OAuth providers logged in. Use /login first.", "logout")

    async def _remember(self, doing: Doing) -> None:
        tags = [word[1:] for word in doing.words if word.startswith("#") and len(word) > 1]
        text = " ".join(word for word in doing.words if not word.startswith("#"))
        try:
            if not text:
                raise OpError(ErrorCode.INVALID_PARAMS, "nothing to remember: /remember <text> [#tag …]")
            number = await self._sessions.noted(doing.session, text, tags)
        except OpError as error:
            self._say(doing, f"✗ Remember failed\n  reason: {error}")
            return
        self._say(doing, f"✓ Remembered\n  record-id: {number}")

    async def _quit(self, doing: Doing) -> None:
        self._say(doing, None, "quit")


_ACTION_KIND, _ACTION_SESSION, _ACTION_ENTRY = (
    Keyword(f"action/{name}") for name in ("kind", "session-id", "entry-id")
)


def _both(id: str, name: str) -> str:
    """What is chosen by its id, with what people call it."""
    return id if id == name else f"{id} — {name}"


def _for(doing: Doing, theirs: str, ours: str) -> str:
    """What psi's clients are told, or our own, which name what a person can do."""
    return ours if doing.caller.increments else theirs


def _list(title: str, rows: Sequence[str]) -> str:
    """Rows below a title, as psi draws them."""
    return "\n".join([f"── {title} ".ljust(WIDTH, "─"), *rows, "─" * WIDTH])


def _prompt_row(doing: Doing, page: LibraryPage) -> str:
    count = page.arguments
    source = "project" if page.path.startswith(f"{doing.session.cwd}/") else "user"
    return f"  /{page.name}" + (f" [${count} args]" if count else "") + f" — {page.description} [{source}]"


def _skill_row(page: LibraryPage) -> str:
    return f"  /skill:{page.name} — {page.description}"


def _seconds(job: Job) -> str:
    return f"{(job.ended or time.time()) - job.began:.0f} s"


def _no_job(doing: Doing) -> str:
    running = ", ".join(doing.session.jobs) or "none"
    return f"Job not found: {doing.rest or '?'}. Running: {running}"
