"""Shell commands taken apart, as far as a policy needs it.

A command line is a list of simple commands with separators, redirections and commands within commands. Rules
are about simple commands, so each is judged by itself. Only plain shell is understood; of everything else it
is said that it is not, and then no rule can allow it.
"""

from __future__ import annotations

import re

from msgspec import Struct

MAX_DEPTH = 20
"""How deep commands may be within commands."""

_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select"}
    | {"function", "coproc", "time", "in", "{", "}", "!", "[[", "]]"}
)
_WRAPPERS = frozenset(
    {"sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "time", "xargs", "setsid"}
    | {"stdbuf", "timeout"}
)
"""Commands that run what they are given."""
_OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;|&\n]")
_REDIRECTION = re.compile(r"\d*(?:&>>|&>|<>|>>|>\||>&|<&|<<<|>|<)[ \t]*")
_HERE = re.compile(r"\d*<<(?!<)")
_SIMPLE_VARIABLE = re.compile(r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*|[?#@*!$0-9-])")
_HARMLESS_TARGET = re.compile(r"(?:/dev/null|&?\d|-)\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANYWHERE = re.compile(r"[;&|\n(){}`$<>]")
_BLANKS = " \t"


class Taken(Struct, frozen=True):
    """A command line, taken apart."""

    parts: tuple[str, ...]
    """Simple commands, with single blanks between their words; and redirections, such as `> file`."""
    is_understood: bool
    """Whether these are all that it does."""


class _Strange(Exception):
    """Shell that we do not understand."""


def take_apart(command: str) -> Taken:
    """The simple commands of a command line, with those that are within others.

    >>> take_apart("git add . && echo $(date) > log").parts
    ('git add .', 'date', '> log', 'echo $(date)')
    """
    reader = _Reader(command)
    try:
        reader.commands("")
        is_understood = not any(_first_word(part) in _RESERVED for part in reader.parts)
    except _Strange:
        is_understood = False
        reader.guess()
    return Taken(tuple(reader.parts), is_understood)


def disguises(part: str) -> set[str]:
    """What a simple command may also be written as: without quotes, variables, paths and wrappers before it.

    It is what rules that forbid look at: they had better find too much.
    """
    found = {part}
    bare = re.sub(r"[\\'\"]", "", part)
    words = bare.split()
    while words:
        first = words[0]
        found |= {" ".join(words), " ".join([first.rpartition("/")[2], *words[1:]])}
        is_before = first in _RESERVED or _ASSIGNMENT.match(first) or first.rpartition("/")[2] in _WRAPPERS
        if not is_before and not first.startswith("("):
            break
        words = words[1:]
        while words and words[0].startswith("-"):  # options of a wrapper
            words = words[1:]
            found.add(" ".join(words))
    return found - {""}


def _first_word(part: str) -> str:
    return part.partition(" ")[0]


class _Reader:
    """Reads a command line from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._part: list[str] = []
        self.parts: list[str] = []

    def commands(self, end: str) -> None:
        """Read commands up to `end`, which is passed."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Strange
        outer, self._part = self._part, []
        while self._at < len(self._text):
            character = self._text[self._at]
            if end and character == end:
                self._at += 1
                self.end_part()
                self._part = outer
                self._depth -= 1
                return
            self._step(character)
        self.end_part()
        if end:
            raise _Strange

    def end_part(self) -> None:
        part = "".join(self._part).strip()
        if part:
            self.parts.append(part)
        self._part = []

    def guess(self) -> None:
        """Take what was not understood as commands wherever one could begin: better too many than too few."""
        self.end_part()
        for piece in _ANYWHERE.split(self._text[self._at :]):
            self._part = [" ".join(piece.split())]
            self.end_part()

    def _step(self, character: str) -> None:
        """Read what begins with this character, outside of quotes."""
        text, at = self._text, self._at
        if _HERE.match(text, at):
            raise _Strange
        is_word_end = not self._part or self._part[-1][-1:] == " "
        redirection = _REDIRECTION.match(text, at)
        if redirection and (not character.isdigit() or is_word_end):
            self._redirect(redirection)
        elif operator := _OPERATOR.match(text, at):
            self._at = operator.end()
            self.end_part()
        elif character in _BLANKS:
            self._at += 1
            if self._part and not is_word_end:
                self._part.append(" ")
        elif character == "#" and is_word_end:
            newline = text.find("\n", at)
            self._at = len(text) if newline < 0 else newline
        elif character == "(" and not self._part:
            self._at += 1
            self.commands(")")
        elif character in "()":
            raise _Strange
        else:
            self._piece(character)

    def _redirect(self, operator: re.Match[str]) -> None:
        """Read a redirection. It is a part by itself, unless it does no harm."""
        self._at = operator.end()
        if self._text.startswith("(", self._at):  # <(command)
            self._at += 1
            self.commands(")")
            self._part.append("<()")
            return
        before, self._part = self._part, []
        while self._at < len(self._text) and self._text[self._at] not in " \t\n;|&<>()":
            self._piece(self._text[self._at])
        target = "".join(self._part)
        self._part = before
        if not target:
            raise _Strange
        sign = operator[0].strip()
        if not _HARMLESS_TARGET.match(target) or (target != "/dev/null" and "&" not in sign):
            self.parts.append(f"{sign.lstrip('0123456789')} {target}")

    def _piece(self, character: str) -> None:
        """Read a character of a word, or something quoted."""
        start = self._at
        match character:
            case "\\":
                self._at += 2
                if self._text[start : self._at] == "\\\n":  # the line goes on
                    self._between_words()
                    return
            case "'":
                self._at = self._closing("'", start + 1)
            case '"':
                self._at += 1
                self._in_quotes()
            case "$" | "`":
                self._expansion()
            case _:
                self._at += 1
        self._part.append(self._text[start : self._at])

    def _between_words(self) -> None:
        """Raises unless a line that goes on was cut between two words: joined pieces may mean anything."""
        if self._part and self._part[-1][-1:] != " ":
            raise _Strange

    def _in_quotes(self) -> None:
        """Read to the end of double quotes."""
        while self._at < len(self._text):
            match self._text[self._at]:
                case '"':
                    self._at += 1
                    return
                case "\\" if not self._text.startswith("\\\n", self._at):
                    self._at += 2
                case "\\":
                    raise _Strange
                case "$" | "`":
                    self._expansion()
                case _:
                    self._at += 1
        raise _Strange

    def _expansion(self) -> None:
        """Read what begins with a dollar or a backtick; commands in it are parts, too."""
        text, at = self._text, self._at
        if variable := _SIMPLE_VARIABLE.match(text, at):
            self._at = variable.end()
        elif text.startswith("$((", at) or text.startswith(("${", "$'", '$"', "$["), at):
            raise _Strange
        elif text.startswith("$(", at):
            self._at += 2
            self.commands(")")
        elif text[at] == "`":
            end = self._closing("`", at + 1)
            inner = text[at + 1 : end - 1]
            if "\\" in inner:
                raise _Strange
            within = _Reader(inner)
            within._depth = self._depth
            within.commands("")
            self.parts += within.parts
            self._at = end
        else:
            self._at += 1

    def _closing(self, quote: str, at: int) -> int:
        end = self._text.find(quote, at)
        if end < 0:
            raise _Strange
        return end + 1
