"""The tools of `fairlead mcp`: what each does with the daemon, for an agent and as an agent.

Nothing here answers a question, ends a call for a person, or starts something with less safety than is
configured. A tool that can't do what it is asked raises `ToolFault`, or an error of the daemon's.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...keeper.credentials import AGENT_MARK
from ...wire.mcp import McpTool
from ..calls import Call, RequestError
from ..links import Links
from . import shapes
from .reach import NOT_FOUND, Reach, find_reach, find_session

MAX_READ = 100_000
"""How many characters of a session one call reads: the last ones."""
MAX_NOTICES = 30
"""How many notifications an agent sends in an hour."""
HOUR = 3600.0
OWN_AGENT = "own"
"""The word for our own agent."""


class ToolFault(Exception):
    """A tool can't do that. Says why, for the model that called it."""


class Desk:
    """Does what the tools are for. `project` is where the server runs."""

    def __init__(self, links: Links, project: str) -> None:
        self._links = links
        self._project = project
        self._notified: deque[float] = deque(maxlen=MAX_NOTICES)

    async def close(self) -> None:
        await self._links.close()

    async def _ask(self, op: str, **given: Any) -> dict[str, Any]:
        return await self._links.call(Call(op, given, dict))

    async def _reach(self) -> Reach:
        return await find_reach(self._links, self._project)

    async def _find(self, word: str) -> tuple[Reach, dict[str, Any]]:
        reach = await self._reach()
        return reach, await find_session(self._links, reach, word)

    # --- sessions -----------------------------------------------------------------------------------------

    async def list_sessions(self, given: shapes.ListSessionsArguments) -> shapes.SessionsListed:
        reach = await self._reach()
        rows = (await self._ask("session_list", kind=given.kind, brief=True))["sessions"]
        found = [_shown(row, reach) for row in rows if reach.holds(row["project"])]
        return shapes.SessionsListed(project=reach.root, sessions=tuple(found))

    async def start_session(self, given: shapes.StartArguments) -> shapes.SessionStarted:
        reach = await self._reach()
        if bool(given.command) == bool(given.agent):
            raise ToolFault("give a command for a terminal session, or an agent for a conversation")
        place = os.path.realpath(os.path.join(reach.root, given.directory))
        if not reach.holds(place):
            raise ToolFault(f"directory: sessions are started in {reach.root} or below it")
        if not os.path.isdir(place):
            raise ToolFault(f"directory: {place} does not exist")
        await self._check_free(given.name)
        if given.command:
            mark = {} if AGENT_MARK in os.environ else {AGENT_MARK: self._links.agent}
            env = {**os.environ, **mark}
            command = list(given.command)
            await self._ask("terminal_start", name=given.name, argv=command, cwd=place, env=env)
            id = given.name
        else:
            own = given.agent == OWN_AGENT
            sandbox = None if own else given.sandbox or reach.is_sandboxed or None
            agent = None if own else given.agent
            opened = await self._ask("open_session", name=given.name, cwd=place, agent=agent, sandbox=sandbox)
            id = opened["session_id"]
        return shapes.SessionStarted(session=_shown(await find_session(self._links, reach, id), reach))

    async def _check_free(self, name: str) -> None:
        """Raises ToolFault if a session has the name, of whatever project: names are those of all."""
        try:
            await self._ask("session_find", name=name)
        except RequestError as error:
            if error.code != NOT_FOUND:
                raise
        else:
            raise ToolFault(f"name: another session is called {name!r}; choose another name")

    async def read_session(self, given: shapes.ReadSessionArguments) -> shapes.TextRead:
        _, row = await self._find(given.session)
        if given.what == "screen":
            if "screen" not in row["can"]:
                raise ToolFault(f"{row['name']!r} has no screen: it is of kind {row['kind']}; read its lines")
            text = (await self._ask("terminal_screen", name=row["id"], format="text"))["screen"]
            lines, is_cut = str(text).rstrip("\n").split("\n"), False
        else:
            answer = await self._ask("session_lines", session_id=row["id"], limit=given.lines)
            lines, is_cut = answer["lines"], answer["first"] > 1
        text = "\n".join(lines[-given.lines :])
        is_cut = is_cut or len(lines) > given.lines or len(text) > MAX_READ
        return shapes.TextRead(session=row["name"], state=row["state"], text=text[-MAX_READ:], is_cut=is_cut)

    # --- prompts ------------------------------------------------------------------------------------------

    async def prompt_session(self, given: shapes.PromptArguments) -> shapes.PromptTaken:
        reach, row = await self._find(given.session)
        if reach.is_own(row):
            raise ToolFault("this is the session that you run in; an agent does not prompt itself")
        if "chat" not in row["can"] and not row.get("started_by"):
            raise ToolFault(f"{row['name']!r} is a person's terminal; agents type only into those they start")
        # with an id of ours it is said once, although the daemon may be asked again after its death
        asked = {"session_id": row["id"], "text": given.text, "prompt_id": secrets.token_hex(16)}
        patience = given.timeout if given.wait else None
        prompt = (await self._ask("session_prompt", **asked, timeout=patience))["prompt_id"]
        return await self._receipt(row, prompt, patience or 0.0)

    async def _receipt(self, row: dict[str, Any], prompt: str, timeout: float) -> shapes.PromptTaken:
        got = await self._ask("prompt_receipt", session_id=row["id"], prompt_id=prompt, timeout=timeout)
        return shapes.PromptTaken(
            session=row["name"],
            state=got["state"],
            prompt_id=prompt,
            written=got.get("written", 0.0),
            accepted=got.get("accepted", 0.0),
            started=got.get("started", 0.0),
            ended=got.get("ended", 0.0),
            place=got.get("place", 0),
            outcome=got.get("outcome", ""),
            reason=got.get("reason", ""),
            answer=str(got.get("text", ""))[-MAX_READ:],
        )

    async def wait_session(self, given: shapes.WaitArguments) -> shapes.SessionWaited | shapes.PromptTaken:
        reach, row = await self._find(given.session)
        if given.prompt_id:
            return await self._receipt(row, given.prompt_id, given.timeout)
        if reach.is_own(row):
            raise ToolFault("this is the session that you run in, which does not end while you wait for it")
        if given.text and "screen" not in row["can"]:
            raise ToolFault(f"{row['name']!r} has no screen: it is of kind {row['kind']}; leave out text")
        if given.text:
            got = await self._ask("terminal_wait", name=row["id"], timeout=given.timeout, text=given.text)
        else:
            got = await self._ask("session_wait", session_id=row["id"], timeout=given.timeout)
        code = got.get("exit_code")
        if "screen" in row["can"] and not given.text and got["matched"]:
            code = (await self._ask("session_find", session_id=row["id"]))["session"].get("exit_code")
        return shapes.SessionWaited(
            session=row["name"],
            matched=got["matched"],
            reason=got["reason"],
            outcome=got.get("outcome") or "",
            exit_code=code,
        )

    # --- people -------------------------------------------------------------------------------------------

    async def read_reports(self, given: shapes.ReportArguments) -> shapes.ReportsRead:
        _, row = await self._find(given.session)
        found = (await self._ask("verify_reports", session_id=row["id"], limit=given.limit))["reports"]
        names = shapes.ReportShown.__struct_fields__
        reports = tuple(shapes.ReportShown(**{name: each[name] for name in names}) for each in found)
        return shapes.ReportsRead(session=row["name"], reports=reports)

    async def notify_user(self, given: shapes.NotifyArguments) -> shapes.UserNotified:
        now = time.monotonic()
        if len(self._notified) == MAX_NOTICES and now - self._notified[0] < HOUR:
            raise ToolFault(f"an agent sends at most {MAX_NOTICES} notifications in an hour")
        self._notified.append(now)
        reach = await self._reach()
        who = reach.session["name"] if reach.session is not None else self._links.agent
        title = f"{who} in {os.path.basename(reach.root) or '/'}"
        await self._ask("notify", text=given.text, title=f"{title}: {given.title}" if given.title else title)
        return shapes.UserNotified(sent=True)

    async def ask_person(self, given: shapes.AskArguments) -> shapes.PersonAnswered:
        reach = await self._reach()
        token = secrets.token_hex(8)  # by which the next daemon knows it, so that it is asked once
        asking = self._ask(
            "ask_person",
            token=token,
            text=given.question,
            title=given.title or None,
            options=list(given.options) or None,
            project=reach.root,
        )
        try:
            async with asyncio.timeout(given.timeout):
                got = await asking
        except TimeoutError:
            return shapes.PersonAnswered(answered=False, reason=f"nobody answered within {given.timeout:g} s")
        if not got["answered"]:
            return shapes.PersonAnswered(answered=False, reason="the person declined to answer")
        option = int(got["option"]) if given.options else 0
        return shapes.PersonAnswered(answered=True, answer=got["text"], option=option)


def _shown(row: dict[str, Any], reach: Reach) -> shapes.SessionShown:
    return shapes.SessionShown(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        project=row["project"],
        state=row["state"],
        what=row.get("what") or "",
        agent=row.get("agent") or "",
        waits_for=row.get("waits_for") or "",
        verdict=(row.get("verdict") or {}).get("confidence") or "",
        exit_code=row.get("exit_code"),
        is_yours=reach.is_own(row),
    )


# --- the table --------------------------------------------------------------------------------------------


class ToolEntry(NamedTuple):
    """A tool: what it takes and gives, how it is described, and what it is to a client that asks its user."""

    does: Callable[[Desk, Any], Awaitable[shapes.ToolOutput]]
    takes: type[shapes.McpArguments]
    gives: tuple[type[shapes.ToolOutput], ...]
    title: str
    description: str
    reads: bool = False
    """It changes nothing."""
    waits: bool = False
    """It may wait long, and is given up when the client goes."""


_TABLE = (
    ToolEntry(
        Desk.list_sessions,
        shapes.ListSessionsArguments,
        (shapes.SessionsListed,),
        "List sessions",
        "List the sessions of this project: programs in terminals, Fairlead's own agents, and "
        "third-party agents, with their states.",
        reads=True,
    ),
    ToolEntry(
        Desk.start_session,
        shapes.StartArguments,
        (shapes.SessionStarted,),
        "Start a session",
        "Start a program in a terminal session (command), or a conversation with an agent (agent). It runs "
        "on when you are gone, and the user can watch and join it.",
    ),
    ToolEntry(
        Desk.read_session,
        shapes.ReadSessionArguments,
        (shapes.TextRead,),
        "Read a session",
        "Read what a session's screen shows now, or the last lines that were printed or said in it.",
        reads=True,
    ),
    ToolEntry(
        Desk.prompt_session,
        shapes.PromptArguments,
        (shapes.PromptTaken,),
        "Prompt a session",
        "Say something to another agent, and wait for its answer; or give a shell a command at its prompt. "
        "The receipt says whether the prompt is queued, written, accepted by the agent, started or ended, "
        "when, and how. Of one that is not ended, wait_session gets the receipt by prompt_id.",
        waits=True,
    ),
    ToolEntry(
        Desk.wait_session,
        shapes.WaitArguments,
        (shapes.SessionWaited, shapes.PromptTaken),
        "Wait for a session",
        "Wait until a program has ended, an agent's turn is over, a terminal shows a text, or a prompt has "
        "ended.",
        reads=True,
        waits=True,
    ),
    ToolEntry(
        Desk.read_reports,
        shapes.ReportArguments,
        (shapes.ReportsRead,),
        "Read reports",
        "Read what verifiers reported about a session's turns, the latest first.",
        reads=True,
    ),
    ToolEntry(
        Desk.notify_user,
        shapes.NotifyArguments,
        (shapes.UserNotified,),
        "Notify the user",
        "Send the user a notification. It takes no answer; use ask_person for that.",
    ),
    ToolEntry(
        Desk.ask_person,
        shapes.AskArguments,
        (shapes.PersonAnswered,),
        "Ask a person",
        "Ask a person a question and wait for the answer, which may take long. Use it for what only a "
        "person can decide.",
        waits=True,
    ),
)
TOOLS = {entry.does.__name__: entry for entry in _TABLE}


def listed() -> list[McpTool]:
    """All tools with their schemas."""
    return [
        McpTool(
            name=name,
            title=entry.title,
            description=entry.description,
            input_schema=shapes.schema_of(entry.takes),
            output_schema=_output_schema(entry),
            annotations={
                "readOnlyHint": entry.reads,
                "destructiveHint": False,
                "openWorldHint": not entry.reads,
            },
        )
        for name, entry in TOOLS.items()
    ]


def _output_schema(entry: ToolEntry) -> dict[str, Any]:
    first, *others = (shapes.schema_of(kind) for kind in entry.gives)
    if not others:
        return first
    return {"type": "object", "anyOf": [first, *others]}
