"""`fairlead agent`: talk with an agent session, in a terminal or from a script."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed
from .placed import ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.sdk import Agent, Host

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
"""How hard a model may think."""


def _level(word: str) -> str:
    if word not in LEVELS:
        raise UsageError(f"one of {', '.join(LEVELS)}, not {word!r}")
    return word


COMMAND = Command(
    "agent",
    "Chat with an agent session. The session keeps running after you leave. Without a NAME, a new one is\n"
    "created. Piped input is appended to the prompt. Without a terminal, or with --print or --json, it\n"
    "sends one prompt and prints the answer; calls that need consent are then denied unless --yes is\n"
    "given.\n\n"
    "Give the NAME with --name, or as one word before a quoted PROMPT. A single word is a NAME, except\n"
    "with --print, --json or --continue, where it is the PROMPT. Several unquoted words are the PROMPT:\n"
    "    fairlead agent garden                chat with the session garden\n"
    "    fairlead agent garden 'what is new?' the same, with a first prompt\n"
    "    fairlead agent -p hello              send the prompt: hello\n"
    "    fairlead agent -p --name garden hello",
    takes=(
        Argument(
            "prompt",
            "the first prompt; to name a session, see above",
            optional=True,
            many=True,
            completes="chat",
            first_unless=("print", "json", "continue", "name"),
        ),
    ),
    options=(
        Option(
            "-n", "--name", value="NAME", completes="chat", help="use this session; all words are the PROMPT"
        ),
        Option("-c", "--continue", help="continue the directory's most recent session"),
        Option(
            "-C", "--cwd", value="DIR", completes="directory", help="the agent's working directory (here)"
        ),
        Option(
            "--with",
            value="AGENT",
            completes="agent",
            help="use a third-party agent; `fairlead agents` lists them",
        ),
        ON,
        Option("--mode", value="MODE", help="switch to ask, accept or plan, or to a mode of the agent"),
        Option("--sandbox", help="with --with: let the agent write only in the directory"),
        Option(
            "--worktree",
            value="BRANCH",
            bare="",
            help="with a NAME: in a git worktree of its own, on a new branch called like it or BRANCH",
        ),
        Option("--from", value="REV", help="with --worktree: begin at this commit (HEAD)"),
        Option("--model", value="PROVIDER/ID", completes="model", help="switch the session to this model"),
        Option(
            "--thinking",
            value="LEVEL",
            kind=_level,
            completes=" ".join(LEVELS),
            help=f"thinking level: {', '.join(LEVELS)}",
        ),
        Option("-y", "--yes", help="allow every call that needs consent"),
        Option("-p", "--print", help="print only the answer"),
        Option("-v", "--verbose", help="with --print: report tool calls on stderr"),
        Option("--json", help="print every event as JSON, one per line"),
        Option("--list-models", help="list the models"),
    ),
    either=("print", "json"),
    examples=(
        ("fairlead agent", "a new session here"),
        ("fairlead agent garden", "the session named garden, created if needed"),
        ("git diff | fairlead agent -p 'review this'", "in a script"),
        ("fairlead agent roses --worktree", "in a copy of the repository, on a branch of its own"),
        ("fairlead agent --with claude garden", "with Claude Code, which keeps running when you leave"),
    ),
    codes={1: "the turn failed or was aborted", 3: "a call needed consent and was denied"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    goes_on = getattr(options, "continue")
    name, prompt = options.name, " ".join(options.prompt).strip()
    if name is None and not goes_on:
        name, prompt = _said(options.prompt, alone=not (options.print or options.json))
    agent_name = getattr(options, "with")
    if agent_name is None and options.sandbox:
        raise UsageError(
            "--sandbox needs --with AGENT: Fairlead's own agent always asks before it writes elsewhere"
        )
    if name and goes_on:
        raise UsageError("--continue and --name can't be combined: a name already selects the session")
    if options.model is not None and not all(options.model.partition("/")[::2]):
        raise UsageError(f"--model needs PROVIDER/ID, not {options.model!r}")
    if getattr(options, "from") is not None and options.worktree is None:
        raise UsageError("--from needs --worktree: it is where the worktree begins")
    if options.worktree is not None and not name:
        raise UsageError("--worktree needs a NAME, which the branch gets: `fairlead agent NAME --worktree`")
    if sys.stdout is None:
        raise Failure("standard output is closed, so the answer can't be printed")
    from ..client.calls import place as place_of
    from ..client.sdk import RequestError, connect
    from ..system.settings import Settings

    far = Settings().host
    try:
        cwd = place_of(options.cwd or ".", far)
    except FileNotFoundError:
        raise Failure("the working directory was deleted; use --cwd to give another") from None
    if not far and not os.path.isdir(cwd):
        raise Failure(f"{cwd} is not a directory")

    from ..ui.chat.scripted import InputTooLong, answer, piped

    settings = Settings()
    if options.list_models:
        with connect(settings) as host:
            return _list_models(host, as_json=options.json)
    is_seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    talks = is_seen and not options.print and not options.json
    if not talks:
        try:
            prompt = "\n\n".join(part for part in (prompt, piped()) if part)
        except InputTooLong as error:
            raise Failure(str(error)) from None
        if not prompt:
            raise UsageError("missing PROMPT: pass it as an argument or on standard input")
    with connect(settings) as host:
        if name is None and not goes_on and len(options.prompt) > 1 and _is_chat(host, options.prompt[0]):
            name, prompt = options.prompt[0], prompt.removeprefix(options.prompt[0]).lstrip()
        more = {"agent": agent_name, "mode": options.mode, "sandbox": options.sandbox or None}
        more |= {"once": not talks, "model": options.model}
        with _place(host, name or "", cwd, options) as place:
            agent = host.agent(name, cwd=place, continue_last=goes_on, **more)
            if name and (options.cwd or place != cwd) and not agent.created:
                at = agent.state()["worktree_path"]
                if not far and os.path.realpath(at) != os.path.realpath(place):
                    wrong = "-C" if place == cwd else "--worktree"
                    raise Failure(f"session {name} works in {at}: leave out {wrong}, or choose another name")
        if options.thinking is not None:
            agent.set_thinking(options.thinking)
        if talks:
            from ..ui.chat.chat import chat

            return chat(agent, settings, prompt=prompt, yes=options.yes)
        try:
            given = {"yes": options.yes, "as_json": options.json, "verbose": options.verbose}
            code = answer(agent, prompt, settings, **given)
            _note_answered(agent.id)
            return code
        except RequestError as error:
            if error.code != "request/session-not-idle":
                raise
            raise _busy(agent, str(error)) from None


@contextlib.contextmanager
def _place(host: Host, name: str, cwd: str, options: Any) -> Iterator[str]:
    """Where a session that is opened in the `with` works: there, or in a worktree of its own, which goes
    again if the session can't be opened."""
    if options.worktree is None:
        yield cwd
        return
    from ..client.calls import RequestError
    from .worktree import tell_of

    made = host.worktree(name, cwd=cwd, branch=options.worktree or None, revision=getattr(options, "from"))
    try:
        yield made["project"]
    except (RequestError, Failure):
        if made["created"]:
            with contextlib.suppress(RequestError):
                host.remove_worktree(name)
        raise
    tell_of(made)


def _said(words: list[str], *, alone: bool) -> tuple[str | None, str]:
    """The name and the prompt of what was given; `alone` says that one word is a name."""
    is_name = bool(words) and len(words[0].split()) == 1 and words[0] == words[0].strip()
    is_before_prompt = len(words) == 2 and len(words[1].split()) > 1
    if is_name and (is_before_prompt or (alone and len(words) == 1)):
        return words[0], " ".join(words[1:])
    return None, " ".join(words).strip()


def _note_answered(id: str) -> None:
    """Who asked has the answer: nobody else needs to look at it."""
    import contextlib

    from ..client.connection import DaemonConnection, RequestError

    with (
        contextlib.suppress(RequestError, OSError),  # an agent asked, or the daemon has gone
        DaemonConnection(start=False) as control,
    ):
        control.ask("session_seen", session_id=id)


def _is_chat(host: Host, word: str) -> bool:
    """Whether a session that one can talk with has exactly this name."""
    from ..client.calls import RequestError

    try:
        found = host.session(word).summary()
    except RequestError:
        return False
    return bool(found["name"] == word and "chat" in found["can"])


def _busy(agent: Agent, why: str) -> Failure:
    """It works on another prompt, or waits for an answer to a question, which `why` has after a colon."""
    name = agent.name or agent.id
    _, _, asks = why.partition(": ")
    how = f": {asks}" if asks else f"; `fairlead send {name} …` queues a prompt"
    return Failure(f"{name} is busy{how}")


def _list_models(host: Host, *, as_json: bool) -> int:
    models: list[dict[str, Any]] = host.models()
    if as_json:
        import json

        print(json.dumps(models, indent=2))
        return 0
    rows = [
        (f"{each['provider']}/{each['id']}", _thousands(each["context_window"]), each["name"])
        for each in models
    ]
    widest = max(len(row[0]) for row in rows)
    for id, window, title in rows:
        print(f"{id:<{widest}}  {window:>6}  {title}")
    return 0


def _thousands(tokens: int) -> str:
    return f"{tokens / 1e6:.3g}M" if tokens >= 1_000_000 else f"{tokens // 1000}k"
