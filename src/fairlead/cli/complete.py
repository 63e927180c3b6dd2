"""`fairlead complete -- WORD…`: for shells, the candidates for the last word, one a line.

They come from what each command declares. A daemon is asked for its sessions, but never started for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .arguments import Command, Option

ANSWER_WAIT = 1.0
"""Seconds until a daemon that does not answer is as good as none: the shell waits meanwhile."""


def main(arguments: Sequence[str]) -> int:
    words = list(arguments[1:] if arguments[:1] == ["--"] else arguments) or [""]
    *before, word = words
    for candidate in _candidates(before, word):
        if candidate.startswith((":", word)):
            print(candidate)
    return 0


def _candidates(before: list[str], word: str) -> Iterator[str]:
    from . import COMMANDS, command_of

    if before[:1] == ["help"]:
        before = before[1:]
    if not before:
        yield from (f"{name}\t{what}" for name, what in COMMANDS.items())
        if word.startswith("-"):
            yield from ("--help\tlist the commands", "--version\tprint the version")
        return
    name, *given = before
    command = command_of(name) if name in COMMANDS else None
    if command is not None:
        yield from _of_command(command, given, word)


def _of_command(command: Command, given: list[str], word: str) -> Iterator[str]:
    if "--" in given:
        if command.tail:
            yield ":commands" if given[-1] == "--" else ":files"
        return
    places, waiting, taken = _read(command, given)
    if waiting is not None:
        yield from _things(waiting.completes)
    elif word.startswith("-"):
        for option in command.options:
            if option.many or option not in taken:
                yield from (f"{name}\t{option.help}" for name in option.names if name.startswith("--"))
                yield from (f"{name}\t{option.help}" for name in option.names if name == word)
        if command.tail:
            yield f"--\t{command.tail}"
    else:
        at = min(len(places), len(command.takes) - 1)
        if at >= 0 and (len(places) < len(command.takes) or command.takes[at].many):
            argument = command.takes[at]
            yield from argument.choices
            known = places if argument.many else ()
            yield from (thing for thing in _things(argument.completes) if thing.split("\t")[0] not in known)


def _read(command: Command, given: list[str]) -> tuple[list[str], Option | None, list[Option]]:
    """The arguments so far, the option that waits for its value, and the options that were given."""
    places: list[str] = []
    waiting: Option | None = None
    taken: list[Option] = []
    for each in given:
        if waiting is not None:
            waiting = None
        elif each.startswith("-") and each != "-":
            name, equals, _ = each.partition("=")
            option = command.option(name)
            if option is not None:
                taken.append(option)
                waiting = option if option.value and option.bare is None and not equals else None
        else:
            places.append(each)
    return places, waiting, taken


def _things(kind: str) -> Iterator[str]:
    match kind:
        case "session":
            yield from _sessions()
        case "file":
            yield ":files"
        case "directory":
            yield ":directories"


def _sessions() -> Iterator[str]:
    import signal

    from ..client.connection import DaemonConnection, RequestError
    from ..client.launch import NoDaemon

    signal.setitimer(signal.ITIMER_REAL, ANSWER_WAIT)  # which ends this process, and the shell has no names
    try:
        with DaemonConnection(start=False) as control:
            for session in control.ask("session_list", brief=True)["sessions"]:
                yield f"{session['name']}\t{session['what'][:60]}".split("\n")[0]
    except (NoDaemon, RequestError, OSError):
        return
