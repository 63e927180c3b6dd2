"""What a command takes, declared once: its parsing, its help and its completion all come from there.

It imports nothing, because every command begins with it: argparse alone would take a third of the time that
`fairlead ls` may take.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..client.calls import RequestError

HELP_COLUMN = 22
"""Where in a line of help the words begin that explain."""
USUAL_WIDTH = 104
"""How wide help is at the most, and if it does not go to a terminal."""
NARROW = 72
"""In less than so many columns, what explains an option stands below it."""
INDENT = "    "
USUAL_CODES: dict[int | str, str] = {
    0: "done",
    1: "failed; the reason is on stderr",
    2: "usage error",
}
"""What exit codes mean in every command, unless it says otherwise."""


class UsageError(Exception):
    """The command line makes no sense: exit code 2."""


class Failure(Exception):
    """What was asked could not be done, in one sentence: exit code 1."""


def refused(error: RequestError) -> None:
    """Raise the daemon's complaint about a value as a usage error, for commands whose code 1 means another
    thing."""
    if error.code == "request/invalid-params":
        about, _, why = str(error).removeprefix("invalid request parameter :").partition(": ")
        raise UsageError(why if about in ("regex", "needle") else str(error)) from None


class RunThere(Exception):
    """A command is to be run on another host."""

    def __init__(self, host: str, words: list[str]) -> None:
        super().__init__()
        self.host = host
        self.words = words


class SeveralHosts(Exception):
    """A command names sessions of several hosts, and is to be done host by host."""

    def __init__(self, hosts: list[str]) -> None:
        super().__init__()
        self.hosts = hosts


class HelpWanted(Exception):
    """Someone asks for the help of a command."""

    def __init__(self, command: Command) -> None:
        super().__init__()
        self.command = command


def count(word: str) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or not word.isascii() or int(word) < 1:
        raise UsageError(f"an integer of at least 1, not {word!r}")
    return int(word)


def lines(word: str) -> int:
    """How many lines: 0 or more."""
    return 0 if word == "0" else count(word)


def seconds(word: str) -> float:
    """A number of seconds, 0 or more."""
    try:
        number = float(word)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise UsageError(f"a number of seconds, not {word!r}")
    return number


class Option:
    """A word that begins with a dash. It is a flag, or takes a value, which `value` names in the help."""

    def __init__(
        self,
        *names: str,
        help: str,
        value: str = "",
        kind: Callable[[str], Any] = str,
        many: bool = False,
        completes: str = "",
        bare: str | None = None,
        of_host: bool | None = None,
    ) -> None:
        self.names = names
        self.help = help
        self.value = value
        self.kind = kind
        self.many = many
        self.completes = completes
        """What the value may be: one of the things that `cli/complete.py` knows, or words to choose from."""
        self.bare = bare
        """What its value is if none is given; a value of its own then stands after `=` only."""
        self.of_host = completes in _OF_HOSTS if of_host is None else of_host
        """Whether it may be HOST:NAME."""

    @property
    def name(self) -> str:
        """The long name without its dashes, as Python spells it."""
        return self.names[-1].lstrip("-").replace("-", "_")

    @property
    def shown(self) -> str:
        if self.bare is not None:
            return ", ".join(self.names) + f"[={self.value}]"
        return ", ".join(self.names) + (f" {self.value}" if self.value else "")


class Argument:
    """A word by its place. With `many` the rest of the words; with `optional` it may be left out."""

    def __init__(
        self,
        name: str,
        help: str,
        *,
        optional: bool = False,
        many: bool = False,
        choices: Sequence[str] = (),
        completes: str = "",
        of_host: bool | None = None,
        first_unless: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.help = help
        self.optional = optional
        self.many = many
        self.choices = choices
        self.completes = completes
        self.of_host = completes in _OF_HOSTS if of_host is None else of_host
        self.first_unless = first_unless
        """Only the first word may be HOST:NAME, and none if one of these options is given."""

    @property
    def shown(self) -> str:
        word = ("|".join(self.choices) or self.name.upper()) + ("…" if self.many else "")
        return f"[{word}]" if self.optional else word


_OF_HOSTS = ("session", "chat", "worktree", "approval")
"""What other hosts have, too, so that it may be HOST:NAME."""

JSON = Option("--json", help="print JSON")
HELP = Option("-h", "--help", help="print this help")
SESSION = Argument("name", "the session", completes="session")


class Command:
    """All that a command takes, and what its help tells."""

    def __init__(
        self,
        name: str,
        about: str,
        *,
        takes: Sequence[Argument] = (),
        options: Sequence[Option] = (),
        either: Sequence[str] = (),
        tail: str = "",
        examples: Sequence[tuple[str, str]] = (),
        codes: dict[int | str, str] | None = None,
        far: str = "asks",
        there_with: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.about = about
        self.takes = takes
        self.options = (*options, HELP)
        self.either = either
        """Names of options of which only one may be given."""
        self.tail = tail
        """What may come after `--`, untouched; given as `tail`."""
        self.examples = examples
        self.codes = USUAL_CODES | (codes or {})
        self.far = far
        """How it works with another host: it `asks` that daemon, is run `there`, or only `here`, with the
        reason after a colon."""
        self.there_with = there_with
        """Names of options with which it is run there."""

    def option(self, name: str) -> Option | None:
        return next((each for each in self.options if name in each.names), None)

    @property
    def usage(self) -> str:
        words = ["fairlead", self.name]
        words += ["[OPTION…]"] if len(self.options) > 1 else []
        words += [argument.shown for argument in self.takes]
        words += [f"[-- {self.tail}]"] if self.tail else []
        return " ".join(words)

    def help(self, width: int = USUAL_WIDTH) -> str:
        """The text of `--help`, at most so wide."""
        from ..formats.columns import fill

        width = min(width, USUAL_WIDTH)
        about = "\n\n".join(_paragraph(part, width) for part in self.about.split("\n\n"))
        parts = [fill(f"usage: {self.usage}", width, "", "    ") + "\n", f"{about}\n"]
        rows = [(each.shown.strip("[]"), each.help) for each in self.takes]
        rows += [(each.shown, each.help) for each in self.options]
        parts.append("".join(_row(row, width) for row in rows))
        if self.examples:
            shown = "".join(
                f"{_example(line, width)}\n{fill(what, width, INDENT * 2, INDENT * 2)}\n"
                for line, what in self.examples
            )
            parts.append(f"Examples:\n\n{shown}")
        codes = (fill(what, width, f"    {code!s:<12}", " " * 16) for code, what in self.codes.items())
        parts.append("Exit codes:\n\n" + "".join(f"{line}\n" for line in codes))
        return "\n".join(parts)


def _paragraph(text: str, width: int) -> str:
    """A paragraph of help, filled anew; lines that are indented, as those of a table, stay lines."""
    from ..formats.columns import fill

    made: list[str] = []
    prose = ""
    for line in [*text.split("\n"), ""]:
        if line and not line.startswith(" "):
            prose += f" {line}"
            continue
        if prose:
            made.append(fill(prose, width))
            prose = ""
        if line:
            made.append(line if len(line) <= width else fill(line, width, INDENT, INDENT * 2))
    return "\n".join(made)


def _row(row: tuple[str, str], width: int) -> str:
    from ..formats.columns import fill

    left, right = row
    if width < NARROW:
        return f"{INDENT}{left}\n{fill(right, width, INDENT * 2, INDENT * 2)}\n"
    rest = " " * (HELP_COLUMN + len(INDENT))
    if len(left) >= HELP_COLUMN:
        return f"{INDENT}{left}\n{fill(right, width, rest, rest)}\n"
    return fill(right, width, f"{INDENT}{left:<{HELP_COLUMN}}", rest) + "\n"


def _example(line: str, width: int) -> str:
    """A command as a shell takes it, also when it is more than one line."""
    from ..formats.columns import fill

    lines = fill(line, width - 2, INDENT, INDENT * 2).split("\n")
    return " \\\n".join(lines)


class Options:
    """What was given, by name: None or False if it was not."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return self._values[name]


def parsed(command: Command, words: Sequence[str]) -> Options:
    """Read a command's words. Raises UsageError, or HelpWanted."""
    values: dict[str, Any] = {
        each.name: [] if each.many else None if each.value else False for each in command.options
    }
    places: list[str] = []
    rest = list(words)
    tail: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            if command.tail:
                tail = rest
            else:
                places += rest
            break
        if word.startswith("-") and word != "-":
            if command.tail and len(places) > len(command.takes) and not _is_known(command, word):
                extra = [*places[len(command.takes) :], word, *rest]
                raise UsageError(f"unexpected argument {extra[0]!r}{_after_dashes(extra)}")
            _take(command, word, rest, values)
        else:
            places.append(word)
    given = [name for name in command.either if values[name] not in (None, False)]
    if len(given) > 1:
        first, second = (name.replace("_", "-") for name in given[:2])
        raise UsageError(f"--{first} and --{second} can't be combined")
    values |= _placed(command, places) | {"tail": tail}
    if far is not None:
        far(command, words, values)
    return Options(values)


far: Callable[[Command, Sequence[str], dict[str, Any]], None] | None = None
"""Set by a command line: finds out which host is meant, and takes it off the names. May raise RunThere, or
SeveralHosts."""


def _take(command: Command, word: str, rest: list[str], values: dict[str, Any]) -> None:
    """Read an option; its value may be in `rest`."""
    value: str | None
    if word.startswith("--"):
        name, equals, after = word.partition("=")
        value = after if equals else None
    else:
        name, value = word[:2], word[2:] or None
    option = command.option(name)
    if option is None:
        raise UsageError(f"unknown option {name}{_nearest(name, command)}")
    if option is HELP:
        raise HelpWanted(command)
    if not option.value:
        values[option.name] = True
        if value is not None and word.startswith("--"):
            raise UsageError(f"{name} takes no value")
        if value is not None:  # flags that stand together, as in -dq
            rest.insert(0, f"-{value}")
        return
    if value is None and option.bare is not None:
        value = option.bare
    elif value is None:
        if not rest:
            raise UsageError(f"{name} needs a value: {option.value}")
        value = rest.pop(0)
    try:
        made = option.kind(value)
    except UsageError as error:
        raise UsageError(f"{name} must be {error}") from None
    if option.many:
        values[option.name].append(made)
    else:
        values[option.name] = made


def _placed(command: Command, places: list[str]) -> dict[str, Any]:
    """The arguments by name."""
    values: dict[str, Any] = {}
    for argument in command.takes:
        if argument.many:
            values[argument.name], places = places, []
        else:
            values[argument.name] = places.pop(0) if places else None
        if not values[argument.name] and values[argument.name] != "" and not argument.optional:
            raise UsageError(f"missing {argument.shown}; usage: {command.usage}")
        if argument.name == "name" and "" in (values["name"] if argument.many else (values["name"],)):
            raise UsageError("a session's name must not be empty")
        if argument.choices and values[argument.name] not in (*argument.choices, None):
            wanted = ", ".join(argument.choices)
            raise UsageError(f"{values[argument.name]!r} is not one of {wanted}")
    if places:
        hint = _after_dashes(places) if command.tail else ""
        raise UsageError(f"unexpected argument {places[0]!r}{hint}")
    return values


def _after_dashes(words: Sequence[str]) -> str:
    return f"; put the command after --: -- {' '.join(words)}"


def _is_known(command: Command, word: str) -> bool:
    return command.option(word.partition("=")[0] if word.startswith("--") else word[:2]) is not None


def _nearest(name: str, command: Command) -> str:
    return nearest(name, [each for option in command.options for each in option.names])


def nearest(word: str, words: Sequence[str]) -> str:
    """A question that names the word which was probably meant, or nothing."""
    from ..formats.guess import meant

    return meant(word, words)
