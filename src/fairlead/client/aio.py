"""The SDK for asyncio: terminal and agent sessions from a Python program.

    async with fairlead.aio.connect() as host:
        work = await host.start("work", ["bash"])
        await work.send("make test", "Enter")
        await work.wait_for("passed", timeout=600)
        print(await work.screen())
        agent = await host.agent("garden")
        print(await agent.ask("read README.md"))

The daemon is started if there is none. A request that the daemon refuses is a `RequestError` that says why.
If the daemon restarts, calls that only look or wait are repeated; one that would have changed something is a
`ConnectionError`, as it may have been done or not, and the next call finds the next daemon.

`sdk` is made from this file by `make sdk`: the same names and the same meaning, without `await`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from ..events import Approve, Outcome, PromptStage
from ..system.settings import Settings
from . import calls
from .aio_streams import AgentEvents, Attached, Connection, Events, answer
from .calls import Answer, Call, Ended, Format, OpenedAgent, RequestError, nothing
from .following import AgentSubscription, Asking, FollowedTurn, TurnFailed, Watching
from .launch import want_daemon
from .links import Links
from .view import RoleName, SharedView

__all__ = ["Agent", "AgentEvents", "Attached", "Ended", "Events", "Host", "RequestError", "Terminal"]
__all__ += ["Session", "TurnFailed", "connect"]

T = TypeVar("T")


class Terminal:
    """One terminal session."""

    def __init__(self, links: Links, name: str) -> None:
        self.name = name
        self._links = links

    def __repr__(self) -> str:
        return f"<Terminal {self.name}>"

    async def _ask(self, op: str, result: Callable[[Answer], T], **given: Any) -> T:
        return await self._links.call(Call(op, {"name": self.name, **given}, result))

    async def _wait(self, what: str, key: str, timeout: float | None, **given: Any) -> Any:
        return await self._links.call(calls.wait_for(self.name, what, key, timeout, **given))

    async def send(self, text: str = "", *keys: str) -> None:
        """Type a text, then named keys: `send("ls", "Enter")`, `send("", "C-c")`."""
        await self._ask("terminal_send", nothing, text=text or None, keys=list(keys) or None)

    async def paste(self, text: str) -> None:
        """Paste a text, bracketed if the program asked for that."""
        await self._ask("terminal_send", nothing, paste=text)

    async def screen(self, *, format: Format = "text", scrollback: bool = False) -> str:
        """Return what is on the screen, as text, or with colours as `ansi`, `html` or `svg`."""
        given = {"format": format, "scrollback": scrollback}
        return str(await self._ask("terminal_screen", itemgetter("screen"), **given))

    async def cells(self) -> dict[str, Any]:
        """Return what is on the screen, with colours, cursor, modes and title."""
        return await self._ask("terminal_screen", itemgetter("screen"), format="cells")

    async def search(self, text: str, *, regex: bool = False) -> list[dict[str, Any]]:
        """Find a text on the screen and in what has scrolled away: line, column and the line's text."""
        key = "regex" if regex else "needle"
        return await self._ask("terminal_search", itemgetter("matches"), **{key: text})

    async def wait_for(self, text: str, *, regex: bool = False, timeout: float | None = None) -> str:
        """Wait until a text is on the screen, or was printed since the call; returns what matched. Raises
        TimeoutError or Ended."""
        key = "regex" if regex else "text"
        return str(await self._wait(f"{text!r} did not appear", "match", timeout, **{key: text}))

    async def wait_quiet(self, seconds: float, *, timeout: float | None = None) -> None:
        """Wait until the program has printed nothing for so long. Raises TimeoutError or Ended."""
        await self._wait(f"{self.name!r} did not go quiet", "", timeout, idle=seconds)

    async def wait(self, *, timeout: float | None = None) -> int:
        """Wait until the program has ended; returns its exit code. Raises TimeoutError."""
        return int(await self._wait(f"{self.name!r} did not end", "exit_code", timeout, exit=True))

    async def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        await self._ask("terminal_resize", nothing, cols=cols, rows=rows)

    async def stop(self) -> int:
        """End the program; returns its exit code."""
        return int(await self._ask("terminal_stop", itemgetter("exit_code")))

    def attach(
        self, role: RoleName = "writer", *, cols: int = 0, rows: int = 0, reconnect: bool = True
    ) -> Attached:
        """Be a client of this session, at a size if one is given: `async with work.attach() as view: …`."""
        view = SharedView(self.name, role, cols, rows)
        return Attached(view, self._links.settings, reconnect=reconnect)

    async def output(self, *, reconnect: bool = True) -> AsyncIterator[bytes]:
        """Yield what the program prints, as it comes: the screen first, then everything, until it ends. When
        the daemon restarts, the screen comes again and the rest after it, unless `reconnect` is false."""
        async with self.attach("monitor", reconnect=reconnect) as view:
            while data := await view.read():
                yield data


class Agent:
    """One agent session: a conversation with turns. Made by `Host.agent`. `id` and `name` are the session's;
    `created` is true if there was none before; `events(since=agent.cursor)` misses nothing since then."""

    def __init__(self, links: Links, opened: OpenedAgent, name: str) -> None:
        self.id, self.created, self.cursor = opened
        self.name = name
        self._links = links

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id}>"

    async def _ask(self, op: str, result: Callable[[Answer], T], **given: Any) -> T:
        return await self._links.call(Call(op, {"session_id": self.id, **given}, result))

    def prompt(self, text: str) -> AgentEvents:
        """Say something, and follow what happens until the turn is over:
        `async for event in agent.prompt("…")`. Raises RequestError if the session is busy."""
        return AgentEvents(FollowedTurn(self.id, text), self._links.settings)

    async def ask(self, text: str, *, approve: Approve = False, timeout: float | None = None) -> str:
        """Say something and wait for the answer. Calls that need consent get it as `approve` says: all, none,
        or what a function of the event returns, which with asyncio may be a coroutine function. Raises
        TurnFailed or TimeoutError; after a timeout the turn still runs."""
        return await answer(self._links, FollowedTurn(self.id, text), Asking(approve), timeout)

    def events(self, *, since: str | None = None) -> AgentEvents:
        """Follow how the session is, and what happens in it from now on, or since a cursor."""
        return AgentEvents(AgentSubscription(self.id, since), self._links.settings)

    async def steer(self, text: str) -> None:
        """Say something in the middle of a turn; begins one if there is none."""
        await self._ask("steer", nothing, message=text)

    async def follow_up(self, text: str) -> None:
        """Say something when the turn is done; begins one if there is none."""
        await self._ask("follow_up", nothing, message=text)

    async def interrupt(self) -> str:
        """End the turn after its current step; returns the steering text that will not be said."""
        return await self._ask("interrupt", lambda answer: answer.get("dropped_steering_text") or "")

    async def abort(self) -> None:
        """End the turn at once."""
        await self._ask("abort", nothing)

    async def approve(self, dialog_id: str, *, always: bool = False) -> None:
        """Let a call run that waits for consent; with `always` the same is not asked again."""
        await self._links.call(calls.answer_dialog(self.id, dialog_id, "always" if always else True))

    async def deny(self, dialog_id: str) -> None:
        """Don't let a call run that waits for consent."""
        await self._links.call(calls.answer_dialog(self.id, dialog_id, False))

    async def messages(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """Return what was said, with roles and content: all of it, or the last ones."""
        count: int = 0 if last is None else await self._ask("get_messages", itemgetter("total"), limit=1)
        messages = calls.Messages(self.id, max(0, count - (last or 0)))
        while not messages.is_whole:
            await self._links.call(messages.next())
        return messages.found

    async def last_text(self) -> str:
        """Return the text of the last answer."""
        return await self._ask("get_last_assistant_text", lambda answer: answer.get("text") or "")

    async def state(self) -> dict[str, Any]:
        """Return how the session is: its phase, model, queues and more."""
        return await self._ask("get_state", itemgetter("state"))

    async def set_model(self, provider: str, id: str) -> None:
        """Ask another model from now on."""
        await self._ask("set_model", nothing, provider=provider, model_id=id)

    async def set_thinking(self, level: str) -> None:
        """Set how hard the model thinks, if it does: `off`, `minimal`, `low`, `medium`, `high`, `xhigh`."""
        await self._ask("set_thinking_level", nothing, level=level)

    async def set_name(self, name: str) -> None:
        """Rename the session."""
        await self._ask("set_session_name", nothing, name=name)
        self.name = name

    async def compact(self, instructions: str = "") -> str:
        """Summarize older messages; returns the summary."""
        given = {"custom_instructions": instructions or None}
        return str(await self._ask("compact", itemgetter("summary"), **given))

    async def fork(self, entry_id: str) -> Agent:
        """Make a new session with all that was said before an entry; `messages` has their ids."""
        id = await self._ask("fork", itemgetter("session_id"), entry_id=entry_id)
        return Agent(self._links, OpenedAgent(id, True), "")


class Session:
    """One session of any kind. Made by `Host.session`. What only some kinds can do is in `Terminal` and
    `Agent`."""

    def __init__(self, links: Links, row: Answer) -> None:
        self.id: str = row["id"]
        self.kind: str = row["kind"]
        self.name: str = row["name"]
        self._links = links

    def __repr__(self) -> str:
        return f"<Session {self.name}, {self.kind}>"

    async def _ask(self, op: str, result: Callable[[Answer], T], **given: Any) -> T:
        return await self._links.call(Call(op, {"session_id": self.id, **given}, result))

    async def summary(self) -> dict[str, Any]:
        """Return how it is, as `fairlead ls --json` shows it."""
        return await self._ask("session_find", itemgetter("session"))

    async def prompt(self, text: str, *, timeout: float | None = None) -> str:
        """Ask an agent for something, also one in a terminal, or give a shell a command. Returns the prompt's
        id, by which `receipt` and the events `sessions/prompt-started` and `sessions/prompt-ended` know it.
        Raises RequestError if something is in the way, such as a dialog; with a timeout it waits for so long,
        and the receipt says what became of it."""
        return str(await self._ask("session_prompt", itemgetter("prompt_id"), text=text, timeout=timeout))

    async def receipt(
        self, prompt: str, *, stage: PromptStage = "ended", timeout: float | None = None
    ) -> dict[str, Any]:
        """Return how far a prompt has got: its `state`, when it was `written`, `accepted`, `started` and
        `ended`, its `outcome` and `reason`. With a timeout, wait until it is that far or ended."""
        given = {"prompt_id": prompt, "stage": stage, "timeout": timeout}
        return await self._ask("prompt_receipt", dict, **given)

    async def receipts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the receipts of its last prompts, each with its `id`, when it was `asked`, and its first
        `words`."""
        return await self._ask("prompt_receipts", itemgetter("receipts"), limit=limit)

    async def withdraw(self, prompt: str) -> bool:
        """Take back a prompt that waits; returns False if it was said already."""
        return bool(await self._ask("prompt_withdraw", itemgetter("withdrawn"), prompt_id=prompt))

    async def lines(self, limit: int | None = None) -> list[str]:
        """Return what was said or printed, or the last lines of it."""
        return await self._ask("session_lines", itemgetter("lines"), limit=limit)

    async def wait(self, *, timeout: float | None = None) -> Outcome | None:
        """Wait until it does nothing; returns how an agent's last turn ended. Raises TimeoutError."""
        answer = await self._ask("session_wait", dict, timeout=timeout)
        if not answer["matched"]:
            raise TimeoutError(f"{self.name!r} is still at work")
        outcome: Outcome | None = answer.get("outcome")
        return outcome

    async def stop(self) -> None:
        """End its program, or what an agent is doing."""
        await self._ask("session_stop", nothing)

    async def remove(self) -> str | None:
        """Remove it from lists, if it does nothing: a program that has ended, or an agent session, whose
        journal is moved to the trash; returns where that is now. Raises RequestError if it is busy."""
        path: str | None = (await self._ask("session_remove", dict)).get("path")
        return path


class Host(Connection):
    """A connection to the daemon, or to that of another host. There, a directory that is not absolute is in
    the home directory, and programs have the environment of that daemon."""

    def __init__(self, settings: Settings | None = None, host: str | None = None) -> None:
        if settings is None or host is not None:
            settings = Settings(settings.environ if settings is not None else os.environ, host=host)
        want_daemon(settings)
        self._links = Links(settings)

    async def _open(self) -> None:
        await self._links.free()

    async def close(self) -> None:
        """End the connection; sessions go on."""
        await self._links.close()

    async def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str = ".",
        environment: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
    ) -> Terminal:
        """Start a program that keeps running."""
        host = self._links.settings.host
        await self._links.call(calls.start(name, command, cwd, environment, cols, rows, host))
        return Terminal(self._links, name)

    async def terminal(self, name: str) -> Terminal:
        """Return a session that is there."""
        await self._links.call(calls.find_terminal(name))
        return Terminal(self._links, name)

    async def terminals(self) -> list[dict[str, Any]]:
        """List all terminal sessions."""
        return await self._links.call(Call("terminal_list", {}, itemgetter("sessions")))

    async def session(self, name: str) -> Session:
        """Return the session of a name or id, whatever its kind."""
        found = await self._links.call(Call("session_find", {"name": name}, itemgetter("session")))
        return Session(self._links, found)

    async def sessions(self, kind: str | None = None, *, hosts: bool = False) -> list[dict[str, Any]]:
        """List the sessions of all kinds, or of one, as `fairlead ls --json` shows them; with `hosts` also
        those of other hosts as they were known last, as `fairlead ls --all --json`."""
        given = {"kind": kind, "hosts": hosts or None}
        return await self._links.call(Call("session_list", given, itemgetter("sessions")))

    async def timeline(self, name: str, *, turns: int | None = None) -> dict[str, Any]:
        """Return what happened in the last turns of a session of any kind, as `fairlead timeline --json`:
        when they began and ended, tools, questions, checks, tokens and cost."""
        return await self._links.call(Call("timeline", {"name": name, "limit": turns}, dict))

    async def diff(self, name: str, other: str | None = None, *, brief: bool = False) -> dict[str, Any]:
        """Return what a session changed since it began in its directory, as `fairlead diff --json`: `files`,
        `insertions`, `deletions`, `commits`, the `patch`. With another session, how that one's files differ
        from its own; `brief` leaves out the patch."""
        given = {"name": name, "other": other, "brief": brief or None}
        return await self._links.call(Call("session_diff", given, dict))

    async def undo(
        self,
        name: str,
        *,
        turns: int = 1,
        dry_run: bool = False,
        force: bool = False,
        redo: bool = False,
        digest: str | None = None,
    ) -> dict[str, Any]:
        """Put files back as they were before a session's last turns that changed any, or with `redo` before
        the last undo; returns the `files`. What was changed since is overwritten only with `force`. With the
        `digest` of a dry run nothing is done but what that has shown."""
        given = {"name": name, "turns": turns, "dry_run": dry_run, "force": force, "redo": redo}
        given["digest"] = digest
        return await self._links.call(Call("session_undo", given, dict))

    async def worktree(
        self, name: str, *, cwd: str = ".", branch: str | None = None, revision: str | None = None
    ) -> dict[str, Any]:
        """Return the git worktree of a session of this name, made if there is none: with a new branch, from
        a revision or HEAD of the repository at `cwd`. Give its `project` to `start` or `agent` as `cwd`."""
        project = calls.place(cwd, self._links.settings.host)
        given = {"name": name, "project": project, "branch": branch, "revision": revision}
        return await self._links.call(Call("worktree_add", given, dict))

    async def worktrees(self) -> list[dict[str, Any]]:
        """List the worktrees that were made for sessions."""
        return await self._links.call(Call("worktree_list", {}, itemgetter("worktrees")))

    async def merge_preview(
        self, name: str, *, into: str | None = None, message: str | None = None
    ) -> dict[str, Any]:
        """Return what `merge_worktree` would do: `commits`, `files`, why it would be refused (`refusal`), and
        the `digest` with which nothing else is merged."""
        given = {"name": name, "into": into, "message": message}
        return await self._links.call(Call("worktree_merge_preview", given, dict))

    async def merge_worktree(
        self,
        name: str,
        *,
        into: str | None = None,
        message: str | None = None,
        digest: str | None = None,
    ) -> dict[str, Any]:
        """Merge what a session did in its worktree into the branch that it came from, or another; with a
        message, commit first what is not committed. Returns the `commit` and how many `files` changed. Raises
        RequestError if there are conflicts, or if the branch is checked out with changes, or if
        `digest` is given, of a preview, and something else would be merged now."""
        given = {"name": name, "into": into, "message": message, "digest": digest}
        return await self._links.call(Call("worktree_merge", given, dict))

    async def remove_worktree(self, name: str, *, force: bool = False) -> str | None:
        """Remove the worktree of a session. Raises RequestError if work in it is nowhere else; with `force`
        it is then kept under a ref, which is returned."""
        given = {"name": name, "force": force or None}
        return await self._links.call(Call("worktree_remove", given, lambda answer: answer.get("kept")))

    async def status(self) -> dict[str, Any]:
        """Return how the daemon is: its version, process id and more, as `fairlead daemon status --json`."""
        return await self._links.call(Call("daemon_status", {}, dict))

    def attach(
        self,
        terminal: str | Terminal,
        role: RoleName = "writer",
        *,
        cols: int = 0,
        rows: int = 0,
        reconnect: bool = True,
    ) -> Attached:
        """Be a client of a session, as `Terminal.attach`."""
        if isinstance(terminal, str):
            terminal = Terminal(self._links, terminal)
        return terminal.attach(role, cols=cols, rows=rows, reconnect=reconnect)

    async def agent(
        self,
        name: str | None = None,
        *,
        id: str | None = None,
        cwd: str = ".",
        continue_last: bool = False,
        agent: str | None = None,
        mode: str | None = None,
        model: str | None = None,
        sandbox: bool | None = None,
        mcp_servers: Sequence[Mapping[str, Any]] = (),
        once: bool = False,
    ) -> Agent:
        """Return the agent session of a name, made if there is none; without a name a new one, or with
        `continue_last` the last one of the directory. With an id, or its beginning, that session. `agent` is
        a third-party agent; its session can be in a `mode` of the agent's and in a `sandbox`. The agent is
        told of `mcp_servers`, as in ACP; with `once` it is ended soon after its turn. `model` is
        PROVIDER/ID; with one that there is not, no session is made."""
        if id:
            opened = OpenedAgent(await self._links.call(calls.find_agent(id)), False)
        else:
            more: dict[str, Any] = {"agent": agent, "mode": mode, "model": model, "sandbox": sandbox}
            more |= {"mcp_servers": list(mcp_servers) or None, "once": once or None}
            more |= {"host": self._links.settings.host}
            opened = await self._links.call(calls.open_session(name, cwd, continue_last, **more))
        found = Agent(self._links, opened, name or "")
        if not name and not opened.created:
            state = await found.state()
            found.name = state.get("session_name") or ""
        return found

    async def models(self) -> list[dict[str, Any]]:
        """List the models that an agent session may use."""
        return await self._links.call(Call("get_available_models", {}, itemgetter("models")))

    def events(self, *topics: str) -> Events:
        """Follow what happens from now on, to all sessions: `async with host.events("terminal/exited") as …`.
        Without topics it is all but `sessions/…`, which are of sessions of any kind."""
        return Events(Watching(topics), self._links.settings)


def connect(settings: Settings | None = None, *, host: str | None = None) -> Host:
    """Connect to the daemon; starts it if there is none: `async with fairlead.aio.connect() as host: …`. With
    the name of a `host` of `fairlead host ls`, to the daemon there."""
    return Host(settings, host)
