"""`fairlead complete -- WORD…`: for shells, the candidates for the last word, one a line.

They come from what each command declares. A daemon is asked for what it has, but never started for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .arguments import Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Answer = dict[str, "Any"]

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

    host = ""
    if before[:1] == ["-H"]:
        if len(before) == 1:
            yield from _hosts()
            return
        host, before = before[1], before[2:]
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
        if not host:
            yield from _of_command(command, given, word)
            return
        # the names of that host without it, and what is no name
        mine = f"{host}:"
        for each in _of_command(command, given, f"{word}"):
            yield each.removeprefix(mine)


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
    """The candidates of a kind, or the words of a list."""
    match kind:
        case "":
            return
        case "file" | "directory":
            yield {"file": ":files", "directory": ":directories"}[kind]
        case "host":
            yield from _hosts()
        case "setting":
            yield from _settings()
        case _ if kind in _ASKED:
            yield from _asked(*_ASKED[kind])
        case _:
            yield from kind.split()


def _settings() -> Iterator[str]:
    from ..system.setting_rows import rows
    from ..system.settings import Settings

    sections = []
    for row in rows(Settings()):
        section = row["name"].partition(".")[0]
        if section not in sections:
            sections.append(section)
            yield section
        yield f"{row['name']}\t{row['means']}"


def _hosts() -> Iterator[str]:
    """The hosts that are known here; none of them is asked."""
    from ..client.hosts.dial import names
    from ..system.settings import SettingError, Settings

    try:
        for name, host in names(Settings(host="")).items():
            yield f"{name}\t{host.shown if host is not None else 'fleet'}"
    except SettingError:
        return


def _named(row: Answer, name: str) -> str:
    """A name as a command takes it: of another host with its own before it."""
    return name if row.get("host") in (None, "local") else f"{row['host']}:{name}"


def _sessions(answer: Answer, needed: str = "") -> Iterator[tuple[str, str]]:
    from ..ui.needs import is_inner

    for session in answer["sessions"]:
        if (not needed or needed in session["can"]) and not is_inner(session):
            yield _named(session, session["name"]), session["what"]


def _worktrees(answer: Answer) -> Iterator[tuple[str, str]]:
    for each in answer["worktrees"]:
        yield each["name"], each["path"]


def _approvals(answer: Answer) -> Iterator[tuple[str, str]]:
    for row in answer["approvals"]:
        yield row["token"], f"{row['session_name'] or 'daemon'}: {row['summary']}"


_ASKED: dict[str, tuple[str, dict[str, Any], Callable[[Answer], Iterable[tuple[str, str]]]]] = {
    "session": ("session_list", {"brief": True, "hosts": True}, _sessions),
    "worktree": ("worktree_list", {}, _worktrees),
    "chat": ("session_list", {"brief": True, "hosts": True}, lambda answer: _sessions(answer, "chat")),
    "kind": (
        "session_list",
        {"brief": True},
        lambda answer: ((kind, "") for kind in dict.fromkeys(row["kind"] for row in answer["sessions"])),
    ),
    "approval": ("approvals", {"hosts": True}, _approvals),
    "agent": ("agents", {}, lambda answer: ((row["name"], row["path"] or "") for row in answer["agents"])),
    "model": (
        "get_available_models",
        {},
        lambda answer: ((f"{row['provider']}/{row['id']}", row["name"]) for row in answer["models"]),
    ),
}
"""What the daemon is asked for: an op, its parameters, and what its answer has, each with what it is."""


def _asked(
    op: str, params: dict[str, Any], made: Callable[[Answer], Iterable[tuple[str, str]]]
) -> Iterator[str]:
    import signal

    from ..client.connection import DaemonConnection, RequestError
    from ..client.launch import NoDaemon
    from ..system.settings import Settings

    signal.setitimer(signal.ITIMER_REAL, ANSWER_WAIT)  # which ends this process, and the shell has no names
    try:
        with DaemonConnection(Settings(host=""), start=False, hosts=True) as control:
            for name, what in made(control.ask(op, **params)):
                yield f"{name}\t{what[:60]}".split("\n")[0]
    except (NoDaemon, RequestError, OSError):
        return
