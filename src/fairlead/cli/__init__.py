"""The `fairlead` command. Each subcommand is a module of its own, imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import Command, Failure, HelpWanted, UsageError, nearest

COMMANDS = {
    "start": "start a program that keeps running",
    "attach": "share a session's terminal",
    "ls": "list the sessions",
    "stop": "end a session's program",
    "send": "type into a session: text, keys, a paste",
    "screen": "show what is on a session's screen, or make a picture of it",
    "search": "find text in a session's screen and scrollback",
    "wait": "wait until a session shows a text, falls quiet or ends",
    "logs": "print what a session has printed, and go on with -f",
    "record": "record what a session shows, to a file",
    "play": "play a recording",
    "agent": "talk with an agent session, or ask it something in a script",
    "sessions": "list agent sessions, and find what was said in them",
    "talk": "talk with the daemon, and through it with an agent session",
    "approvals": "list what waits for your consent, and answer",
    "notify": "send a notification to wherever you are",
    "doctor": "check whether all is well, and say what to do",
    "rpc": "speak rpc-edn on standard input and output, for editors",
    "run": "ask an agent for something and have it checked, for scripts",
    "verify": "check every turn of a session, and send back what fails",
    "reports": "show what verifiers have said",
    "hook": "tell of turns of an agent in a terminal; agents call this",
    "daemon": "run, stop or restart the daemon, or ask how it is",
    "completion": "print what makes your shell complete all this",
}

GROUPS = {
    "Sessions": ("start", "attach", "ls", "stop"),
    "What they show, and typing": ("screen", "logs", "search", "send", "wait"),
    "Recordings": ("record", "play"),
    "Agents": ("agent", "sessions", "rpc"),
    "Checked work": ("verify", "run", "reports", "hook"),
    "Control": ("talk", "approvals", "notify", "doctor"),
}
"""Which commands `--help` shows together; the others come last."""

HIDDEN = ("complete",)
"""Commands for shells, not for people."""

USAGE = """\
usage: fairlead COMMAND [ARGUMENT…]

{groups}
`fairlead help COMMAND` tells more, with examples. A first session:

    fairlead start work -- bash     start it and share its terminal; ctrl-\\ leaves it running
    fairlead ls
    fairlead attach work

Exit codes: 0 done, 1 it could not be done, 2 wrong usage, 124 the time of `wait` was over,
130 interrupted; `attach` and `wait --exit` give the program's own.
"""

INTERRUPTED = 130
"""As a shell tells it: 128 and the signal."""
OUTPUT_CLOSED = 141
"""Who read our output has gone, as `head` does."""

# What the rooms below raise when something can't be done. By name, as importing them takes time.
_FAILURES = ("RequestError", "NoDaemon", "SettingError")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(), end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] == "--rpc-edn":  # as psi spells it
        words[0] = "rpc"
    name, *rest = words
    if name in ("-V", "--version"):
        from .. import __version__

        print(f"fairlead {__version__}")
        return 0
    if name not in COMMANDS and name not in HIDDEN:
        hint = nearest(name, list(COMMANDS)) or "; `fairlead --help` lists them"
        print(f"fairlead: no command {name!r}{hint}", file=sys.stderr)
        return 2
    _fill_closed()
    try:
        code = _run(name, rest)
        if sys.stdout is not None:
            sys.stdout.flush()  # so that a reader who has gone is noticed here
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError as error:
        if _output_is_open():
            return _failed(name, error)
        return OUTPUT_CLOSED
    except OSError as error:  # a disk is full, a directory was deleted
        where = "" if _output_is_open() else "standard output: "
        return _failed(name, Failure(f"{where}{error}" if str(error) else type(error).__name__))
    return code


def command_of(name: str) -> Command | None:
    """What a command takes, if it tells."""
    from importlib import import_module

    found: Command | None = getattr(import_module(f".{name}", __name__), "COMMAND", None)
    return found


def _run(name: str, words: list[str]) -> int:
    from importlib import import_module

    try:
        code: int = import_module(f".{name}", __name__).main(words)
    except HelpWanted as wanted:
        print(wanted.command.help(), end="")
        return 0
    except UsageError as error:
        print(f"fairlead {name}: {error}\n`fairlead help {name}` tells more", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except Exception as error:
        known = isinstance(error, ConnectionError | Failure) or type(error).__name__ in _FAILURES
        if not known:
            raise
        return _failed(name, error)
    return code


def _failed(name: str, error: Exception) -> int:
    print(f"fairlead {name}: {error}", file=sys.stderr)
    return 1


def _fill_closed() -> None:
    """Standard descriptors that are closed lead nowhere, so that nothing that we open gets their numbers."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        import os

        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(opened, True)
        os.close(opened)
        if sys.stderr is None:  # what is printed to none goes to standard output
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as we run


def _output_is_open() -> bool:
    """Whether it was not our output that broke. If it was, nothing is written to it any more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _usage() -> str:
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "The rest": tuple(name for name in COMMANDS if name not in grouped)}
    parts = []
    for title, names in groups.items():
        rows = "".join(f"    {name:<12}{COMMANDS[name]}\n" for name in names)
        parts.append(f"{title}:\n{rows}")
    return USAGE.format(groups="\n".join(parts))
