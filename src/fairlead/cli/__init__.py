"""The `fairlead` command. Each subcommand is a module of its own, imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from . import output
from .arguments import USUAL_WIDTH, Command, Failure, HelpWanted, UsageError, nearest

COMMANDS = {
    "top": "show all sessions on one screen, to answer, attach and prompt from there",
    "start": "start a program in a new session",
    "attach": "attach to a session's terminal, or open an agent's chat",
    "ls": "list the sessions",
    "next": "attach to the session that needs you most",
    "state": "say what a session does, and how that is known",
    "stop": "stop a session's program, or an agent's turn",
    "rm": "remove sessions that do nothing any more",
    "prompt": "prompt an agent of any kind, and see that it took the prompt",
    "send": "type text or keys into a session, or prompt an agent",
    "screen": "print a session's screen as text, or render it as an image",
    "search": "search a session's screen and scrollback, or an agent's messages",
    "wait": "wait until a session shows a text, goes quiet or ends, or for an agent",
    "logs": "print a session's output (-f follows it), or an agent's messages",
    "record": "record a session to a file",
    "play": "play a recording",
    "agent": "chat with an agent session, or send it one prompt from a script",
    "agents": "list third-party agents that can be hosted",
    "sessions": "list agent sessions, or search their messages",
    "talk": "send messages and commands to the daemon",
    "approvals": "list pending approvals, and answer them",
    "notify": "send yourself a notification",
    "doctor": "check the daemon and its environment, and say what to fix",
    "web": "show all sessions in a browser, on this machine or a phone",
    "host": "add other hosts, list, check and remove them, and install Fairlead there",
    "fleet": "join machines to a fleet over NATS, and run its server",
    "token": "make a token for the console's HTTP API, or list and remove them",
    "rpc": "speak rpc-edn on standard input and output, for editors",
    "acp": "speak the Agent Client Protocol on standard input and output, for editors",
    "mcp": "speak MCP on standard input and output, for agents",
    "run": "send an agent one prompt and verify the result, for scripts",
    "queue": "list jobs that were queued for the fleet, wait for them, cancel and repeat them",
    "verify": "verify every turn of a session, and send failures back",
    "reports": "show verifiers' reports",
    "timeline": "show what happened in a session, turn by turn",
    "undo": "put files back as they were before an agent's last turns",
    "worktree": "list, compare, merge or remove the git worktrees of sessions",
    "diff": "show what a session changed, or how two sessions' results differ",
    "hook": "report an agent's turns (called by its hooks)",
    "config": "show all settings and where they come from",
    "daemon": "run, stop or restart the daemon, or show its status",
    "completion": "print your shell's completion script",
}

GROUPS = {
    "Sessions": ("top", "web", "start", "attach", "ls", "next", "state", "stop", "rm"),
    "Output and input": ("screen", "logs", "timeline", "search", "prompt", "send", "wait"),
    "Changes": ("diff", "undo", "worktree"),
    "Recordings": ("record", "play"),
    "Agents": ("agent", "agents", "sessions", "rpc", "acp", "mcp"),
    "Verification": ("verify", "run", "queue", "reports", "hook"),
    "Control": ("talk", "approvals", "notify", "doctor", "token"),
    "Hosts": ("host",),
}
"""Which commands `--help` shows together; the others come last."""

HIDDEN = ("complete", "link")
"""Commands for shells and for other hosts, not for people."""
UNTOLD = ("complete", "daemon", "hook", "host", "link", "rpc", "acp", "mcp")
"""Commands that don't say that the daemon is of another version: nobody reads it, or is about to mend it."""

QUIET = ("complete", "doctor", "hook", "link")
"""Commands that don't say that config.toml can't be read: nobody reads it, or it is among what they find."""

ELSEWHERE = {
    "attach-session": "attach NAME",
    "capture-pane": "screen NAME",
    "kill": "stop NAME",
    "kill-session": "stop NAME",
    "list": "ls",
    "list-sessions": "ls",
    "new": "start NAME",
    "new-session": "start NAME",
    "ps": "ls",
    "send-keys": "send NAME -k KEY",
    "tail": "logs -f NAME",
}
"""What commands of tmux and others are called here."""

USAGE = """\
usage: fairlead COMMAND [ARGUMENT…]

{groups}
See `fairlead help COMMAND` for details and examples. A first session:

    fairlead start work -- bash     start a shell and attach to it; ctrl-\\ detaches
    fairlead                        show all sessions, and what they ask
    fairlead ls
    fairlead attach work

Exit codes: 0 done, 1 failed, 2 usage error, 124 `wait` timed out, 130 interrupted;
`attach` and `wait --exit` return the program's own.
"""

INTERRUPTED = 130
"""As a shell tells it: 128 and the signal."""
OUTPUT_CLOSED = 141
"""Who read our output has gone, as `head` does."""

# What the rooms below raise when something can't be done. By name, as importing them takes time.
_FAILURES = {"RequestError", "NoDaemon", "SettingError", "DatabaseFault", "LocalError"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    output.prepare()
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = f" {words[0]}" if words and words[0] in COMMANDS else ""
    try:
        code = _chosen(words)
        sys.stdout.flush()  # so that a reader who has gone is noticed here
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError as error:
        if output.is_open():
            return _failed(name, error)
        return OUTPUT_CLOSED
    except OSError as error:  # a disk is full, a directory was deleted
        where = "" if output.is_open() else "standard output: "
        return _failed(name, Failure(f"{where}{error}" if str(error) else type(error).__name__))
    return code


def _chosen(words: list[str]) -> int:
    """Do what the words say."""
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help"]
    if not words:
        words = ["top"]
    given: str | None = None
    if words[0] in ("-H", "--host") or words[0].startswith("--host="):
        word, equals, given = words[0].partition("=")
        if not equals and len(words) == 1:
            output.complain(f"fairlead: {word} needs a value: HOST")
            return 2
        given, words = (given, words[1:]) if equals else (words[1], words[2:])
        words = words or ["top"]
    name, *rest = words
    if name in ("-h", "--help", "help"):
        print(_usage(), end="")
        return 0
    if name in ("-V", "--version"):
        from .. import __version__

        print(f"fairlead {__version__}")
        return 0
    if name == "--rpc-edn":  # as psi spells it
        name = "rpc"
    if name not in COMMANDS and name not in HIDDEN:
        here = ELSEWHERE.get(name)
        hint = f"; use `fairlead {here}`" if here else nearest(name, list(COMMANDS))
        hint = hint or "; `fairlead --help` lists them"
        output.complain(f"fairlead: no command {name!r}{hint}")
        return 2
    return _run(name, rest, given)


def command_of(name: str) -> Command | None:
    """What a command takes, if it tells."""
    from importlib import import_module

    found: Command | None = getattr(import_module(f".{name}", __name__), "COMMAND", None)
    return found


def _run(name: str, words: list[str], host: str | None = None) -> int:
    """Run a command, for a host if one is given."""
    from importlib import import_module

    from ..system import settings
    from .far import Chooser

    settings.unread = partial(_unread, name)
    if name not in UNTOLD:
        from ..client import versions

        versions.notice = partial(_warn, name)
        if name not in QUIET:
            versions.fault_notice = partial(_warn, name)
    chooser = Chooser(name, host)
    try:
        return chooser.run(import_module(f".{name}", __name__).main, words)
    except HelpWanted as wanted:
        from .columns import terminal_width

        print(wanted.command.help(terminal_width() or USUAL_WIDTH), end="")
        return 0
    except Exception as error:
        if (code := failed(name, error, chooser.host)) is None:
            raise
        return code


def failed(name: str, error: Exception, host: str = "") -> int | None:
    """Say why a command, of a host if one is named, could not be done; gives its exit code. None if that is a
    fault of ours."""
    if isinstance(error, UsageError):
        output.complain(f"fairlead {name}: {error}\nsee `fairlead help {name}`")
        return 2
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, BrokenPipeError):
        return None
    if not isinstance(error, ConnectionError | Failure) and not names & _FAILURES:
        return None
    return _failed(f" {name}", error, host)


def _unread(name: str, why: str) -> None:
    """The configuration can't be read. Say so and go on: most commands need nothing but the daemon."""
    from ..client import versions

    versions.fault_notice = None  # the daemon would say the same
    if name not in QUIET:
        _warn(name, f"{why} (until this is fixed, this command uses defaults; the daemon keeps its settings)")


def _warn(name: str, sentence: str) -> None:
    output.complain(f"fairlead {name}: {sentence}")


def _failed(name: str, error: Exception, host: str = "") -> int:
    import re

    from ..formats.hints import of_host

    message = re.sub(r"^invalid request parameter :([a-z-]+): ", r"bad value for \1: ", str(error))
    output.complain(f"fairlead{name}: {of_host(message, host)}")
    return 1


def _usage() -> str:
    from ..formats.columns import fill
    from .columns import terminal_width

    width = min(terminal_width() or USUAL_WIDTH, USUAL_WIDTH)
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "Other": tuple(name for name in COMMANDS if name not in grouped)}
    parts = []
    for title, names in groups.items():
        rows = "".join(fill(COMMANDS[name], width, f"    {name:<12}", " " * 16) + "\n" for name in names)
        parts.append(f"{title}:\n{rows}")
    text = USAGE.format(groups="\n".join(parts))
    lines = (line if _is_laid_out(line, width) else _refilled(line, width) for line in text.split("\n"))
    return "\n".join(lines)


def _is_laid_out(line: str, width: int) -> bool:
    return len(line) <= width


def _refilled(line: str, width: int) -> str:
    """A line of the usage that is too long: an example with what it does below it, or a paragraph."""
    from ..formats.columns import fill

    example, _, what = line.strip().partition("     ")
    if line.startswith("    ") and what:
        return f"    {example}\n{fill(what, width, ' ' * 8, ' ' * 8)}"
    return fill(line, width)
