"""Commands for other hosts: `HOST:NAME`, `fairlead -H HOST COMMAND`, FAIRLEAD_HOST. What is before the first
colon of a session's name is a host if there is one of that name; else the whole word is a session here.

Imports little, and reads the table of hosts only if a word has a colon.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..system import settings as places
from ..system.settings import HOST_VARIABLE, LOCAL, Settings
from . import arguments
from .arguments import Argument, Command, Failure, Option, RunThere, SeveralHosts, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_GONE = 255
"""What ssh ends with if it could not connect, or lost the connection."""


class Chooser:
    """Which host a command is for."""

    def __init__(self, name: str, given: str | None) -> None:
        """`name` is the command's, and `given` is what `-H` says."""
        self._name = name
        self._given = given
        self._turn: str | None = None
        self._is_settled = False
        self._own: dict[str, bool] = {}  # names that are this host's own in the fleet, or are not
        self.host = ""
        """The host that the command was for, once it is over; empty if it was this one."""

    def choose(self, command: Command, words: Sequence[str], values: dict[str, Any]) -> None:
        """Find the host of a command's names, and leave the names without it."""
        if self._is_settled:  # a command that is done by another one
            return
        takes: list[Argument | Option] = [*command.takes, *command.options]
        named = [each for each in takes if each.of_host and values[each.name]]
        found: dict[str, list[str]] = {}
        replaced: list[tuple[str, str]] = []
        names: dict[str, Any] | None = None
        for each in named:
            given = values[each.name]
            many = given if isinstance(given, list) else [given]
            split: list[tuple[str, str]] = []
            after: list[str] = []
            if isinstance(each, Argument) and each.first_unless:
                if any(values[name] for name in each.first_unless) or many[0].split() != [many[0]]:
                    continue
                many, after = many[:1], many[1:]
            for word in many:
                if names is None and ":" in word:
                    names = _names()
                host, name = self._split(word, names or {})
                split.append((host, name))
                found.setdefault(host, []).append(name)
                replaced.append((word, name))
            if self._turn is not None:
                split = [(host, name) for host, name in split if host == self._turn]
            rest = [name for _, name in split]
            if "" in rest:
                raise UsageError("a session's name must not be empty")
            values[each.name] = [*rest, *after] if isinstance(given, list) else rest[0] if rest else None
        if len(found) > 1 and self._turn is None:
            if len(named) > 1 or not isinstance(values[named[0].name], list):
                raise UsageError(f"all sessions must be of one host, not of {_listed(found)}")
            if values.get("json") or values.get("watch"):
                raise UsageError(f"--json and --watch are for sessions of one host, not of {_listed(found)}")
            raise SeveralHosts(list(found))
        host = self._turn if self._turn is not None else next(iter(found), self._default())
        if values.get("on") is not None and not values.get("queue"):
            host = self._placed(values["on"], host)
            words = _without_on(words)
        self._is_settled = True
        places.chosen_host = host
        if not host:
            self._stay()
        else:
            runs_there = any(values[name] for name in command.there_with)
            self._go(host, "there" if runs_there else command.far, command, words, replaced)

    def _split(self, word: str, names: dict[str, Any]) -> tuple[str, str]:
        from ..client.hosts.table import split

        found = split(word, names) if ":" in word else None
        if found is None and ":" in word:
            host, _, name = word.partition(":")
            if _is_own(host):
                return "", name
        if found is None:
            return self._default(), word
        host, name = found
        return "" if host == LOCAL else host, name

    def _placed(self, wanted: str, host: str) -> str:
        if host:
            raise UsageError(f"--on chooses a host, and {host} is given already")
        from .placed import place

        return place(wanted)

    def _default(self) -> str:
        given = os.environ.get(HOST_VARIABLE, "") if self._given is None else self._given
        if not given or given == LOCAL:
            return ""
        if given not in self._own:
            self._own[given] = _is_own(given)
        return "" if self._own[given] else given

    def _go(
        self,
        host: str,
        far: str,
        command: Command,
        words: Sequence[str],
        replaced: list[tuple[str, str]],
    ) -> None:
        if far == "asks":
            if has_terminal():
                _let_ssh_ask(draws=command.name == "top")
            return
        if far == "there":
            raise RunThere(host, [command.name, *_without_host(words, replaced)])
        if self._given is None and not replaced:  # FAIRLEAD_HOST is not for what has no other host
            self._stay()
            return
        why = far.partition(": ")[2] or "it is for this host only"
        raise Failure(f"not with another host: {why}")

    def _stay(self) -> None:
        """It is for this host, whatever FAIRLEAD_HOST says; and so is what it starts."""
        places.chosen_host = ""
        os.environ.pop(HOST_VARIABLE, None)

    def run(self, main: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
        """Run a command, host by host if it is for several."""
        arguments.far = self.choose
        try:
            return self._run(main, words)
        finally:
            arguments.far = None
            self.host, places.chosen_host = places.chosen_host or "", None
            if (dial := sys.modules.get("fairlead.client.hosts.dial")) is not None:
                vars(dial)["may_ask"] = False

    def _run(self, main: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
        try:
            return main(words)
        except SeveralHosts as several:
            code = 0
            for host in several.hosts:
                self._turn, self._is_settled = host, False
                code = max(code, self._one(main, words))
            return code
        except RunThere as there:
            return run_there(there.host, there.words)

    def _one(self, main: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
        try:
            return main(words)
        except RunThere as there:
            return run_there(there.host, there.words)
        except Exception as error:
            from . import failed

            if (code := failed(self._name, error, places.chosen_host or "")) is None:
                raise
            return code


def _names() -> dict[str, Any]:
    """The hosts by name."""
    from ..client.hosts.dial import names

    return names(Settings(host=""))


def _is_own(name: str) -> bool:
    """Whether this host has that name in its fleet."""
    from ..client.hosts.dial import is_own_name

    return is_own_name(name, Settings(host=""))


def _listed(found: dict[str, list[str]]) -> str:
    return " and ".join(host or LOCAL for host in found)


def _without_host(words: Sequence[str], replaced: list[tuple[str, str]]) -> list[str]:
    """The words of a command, with the names as they are on their host."""
    made = list(words)
    end = made.index("--") if "--" in made else len(made)
    for word, name in replaced:
        if word == name:
            continue
        for at in [*range(end), *range(end, len(made))]:
            if made[at] == word:
                made[at] = name
                break
            if made[at].startswith("-") and made[at].endswith(word):  # --name=HOST:NAME, -nHOST:NAME
                made[at] = made[at].removesuffix(word) + name
                break
    return made


def _without_on(words: Sequence[str]) -> list[str]:
    """The words of a command without `--on WHERE`: where it runs is settled."""
    made = list(words)
    end = made.index("--") if "--" in made else len(made)
    for at in range(end):
        if made[at] == "--on" or made[at].startswith("--on="):
            del made[at : at + (2 if made[at] == "--on" else 1)]
            break
    return made


def run_there(host: str, words: Sequence[str]) -> int:
    """Run `fairlead WORDS…` on another host, with our standard input and output; gives its exit code."""
    from ..client.hosts import there

    return there.run(host, words, Settings(host=""))


def _let_ssh_ask(*, draws: bool) -> None:
    """Let ssh ask the person for a password: before, for a command that draws on the whole terminal."""
    from ..client.hosts import dial
    from ..client.launch import connected

    dial.may_ask = True
    if draws:
        connected(Settings()).close()
        dial.may_ask = False


def hinted(text: str) -> str:
    """What a command says, with its hints for the host that it is for."""
    from ..formats.hints import of_host

    return of_host(text, places.chosen_host or "")


def has_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
