"""A command line as words, for running it without a shell.

Only what can't do anything but pass words to programs is understood: words, quotes, globs, `|`, `&&`, `||`,
`;` and line breaks, `2>&1` and `2>/dev/null`. Everything else that a shell knows is refused by name.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from msgspec import Struct

MAX_COMMAND = 10_000
"""How many characters a command line may have."""
MAX_COMMANDS = 50
"""How many programs it may run."""
MAX_EXPANDED = 2000
"""How many names a glob may stand for."""


class NotPlain(Exception):
    """Shell that is more than plain words. Says what it was."""


class CheckWord(Struct, frozen=True):
    """One word, and whether it has a star or the like outside of quotes."""

    text: str
    glob: str = ""
    """The pattern, if it is one."""

    def expanded(self, cwd: Path) -> list[str]:
        """The names that it stands for; itself if there are none. None of them looks like an option."""
        if not self.glob:
            return [self.text]
        names = []
        for name in glob.iglob(self.glob, root_dir=cwd):
            names.append(f"./{name}" if name.startswith("-") else name)
            if len(names) > MAX_EXPANDED:
                raise NotPlain(f"{self.text!r} stands for more than {MAX_EXPANDED} names")
        return sorted(names) or [self.text]


class CheckCommand(Struct, frozen=True):
    """One program with its words."""

    words: tuple[CheckWord, ...]
    drops_errors: bool = False
    pipes_errors: bool = False


class Pipeline(Struct, frozen=True):
    """Programs that read from each other, and when to run them: `;` always, `&&` and `||` as in a shell."""

    after: str
    programs: tuple[CheckCommand, ...]


_ERRORS = re.compile(r"2>(?:&1|[ \t]*/dev/null)(?=[ \t\n;|&]|\Z)")
_OPERATOR = re.compile(r"&&|\|\||[|;\n]")
_EXPANDS = re.compile(r"\$(?=[A-Za-z0-9_({@*#?!$'\"\[-])|`")
_EXPANDS_QUOTED = re.compile(r"\$(?=[A-Za-z0-9_({@*#?!$\[-])|`")
_REFUSED = {
    "&": "a program in the background",
    "|&": "a pipe of errors",
    "<": "a redirection",
    ">": "a redirection",
    "(": "a subshell",
    ")": "a subshell",
    "`": "a command within a command",
    "$": "a variable or a command within a command",
    "#": "a comment",
}
_NEED_WORDS = frozenset({"|", "&&", "||", ";"})
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select"}
    | {"function", "coproc", "time", "{", "}", "!", "[[", "]]"}
)


def read(command: str) -> list[Pipeline]:
    """The pipelines of a command line. Raises NotPlain.

    >>> [len(pipeline.programs) for pipeline in read("cat a | wc -l && ls")]
    [2, 1]
    """
    if len(command) > MAX_COMMAND:
        raise NotPlain(f"a command of more than {MAX_COMMAND} characters")
    if odd := re.search(r"[\x00-\x08\x0b-\x1f\x7f]", command):
        raise NotPlain(f"the control character {odd[0]!r}")
    return _Reader(command).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._pipelines: list[Pipeline] = []
        self._programs: list[CheckCommand] = []
        self._words: list[CheckWord] = []
        self._after = ";"
        self._drops = self._pipes = False
        self._count = 0

    def read(self) -> list[Pipeline]:
        text = self._text
        while self._at < len(text):
            character = text[self._at]
            if character in " \t":
                self._at += 1
            elif errors := _ERRORS.match(text, self._at):
                self._at = errors.end()
                self._pipes, self._drops = errors[0].endswith("1"), not errors[0].endswith("1")
            elif text.startswith("|&", self._at):
                raise NotPlain(f"{_REFUSED['|&']} ('|&')")
            elif operator := _OPERATOR.match(text, self._at):
                self._at = operator.end()
                self._operator(operator[0])
            elif character in _REFUSED and character not in "$`":
                raise NotPlain(f"{_REFUSED[character]} ({character!r})")
            else:
                self._words.append(self._word())
        self._operator("")
        if not self._pipelines:
            raise NotPlain("no command at all")
        return self._pipelines

    def _operator(self, sign: str) -> None:
        if self._words:
            first = self._words[0]
            if first.text in _KEYWORDS:
                raise NotPlain(f"the shell's {first.text!r}")
            self._count += 1
            if self._count > MAX_COMMANDS:
                raise NotPlain(f"more than {MAX_COMMANDS} programs")
            self._programs.append(CheckCommand(tuple(self._words), self._drops, self._pipes))
        elif self._drops or self._pipes or sign in _NEED_WORDS or (not sign and self._is_open):
            raise NotPlain(f"nothing before {sign or 'the end'!r}")
        is_empty_line = sign == "\n" and not self._words
        self._words = []
        self._drops = self._pipes = False
        if sign == "|" or is_empty_line:
            return
        if self._programs:
            self._pipelines.append(Pipeline(self._after, tuple(self._programs)))
            self._programs = []
            self._after = ";" if sign in ("\n", "") else sign

    @property
    def _is_open(self) -> bool:
        """Whether a program must follow."""
        return bool(self._programs) or self._after in ("&&", "||")

    def _word(self) -> CheckWord:
        """Read a word that begins here."""
        text, start = self._text, self._at
        plain: list[str] = []
        pattern: list[str] = []
        is_glob = False
        if text[start] == "~":
            raise NotPlain("a home directory ('~'); write the path out")
        while self._at < len(text):
            character = text[self._at]
            if character in " \t\n;|&":
                break
            if character in "<>()":
                raise NotPlain(f"{_REFUSED[character]} ({character!r})")
            if _EXPANDS.match(text, self._at):
                raise NotPlain(f"{_REFUSED[character]} ({character!r})")
            if character == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise NotPlain("a quote that does not end")
                piece, self._at = text[self._at + 1 : end], end + 1
            elif character == '"':
                piece = self._quoted()
            elif character == "\\":
                piece = text[self._at + 1 : self._at + 2]
                if piece in ("", "\n"):
                    raise NotPlain("a line that goes on")
                self._at += 2
            else:
                self._at += 1
                is_glob = is_glob or character in "*?["
                plain.append(character)
                pattern.append(character)
                continue
            plain.append(piece)
            pattern.append(glob.escape(piece))
        return CheckWord("".join(plain), "".join(pattern) if is_glob else "")

    def _quoted(self) -> str:
        """Read what is in double quotes."""
        text = self._text
        self._at += 1
        piece: list[str] = []
        while self._at < len(text):
            character = text[self._at]
            if character == '"':
                self._at += 1
                return "".join(piece)
            if _EXPANDS_QUOTED.match(text, self._at):
                raise NotPlain(f"{_REFUSED[character]} ({character!r})")
            if character == "\\":
                following = text[self._at + 1 : self._at + 2]
                if following == "\n":
                    raise NotPlain("a line that goes on")
                piece.append(following if following in ("$", "`", '"', "\\") else f"\\{following}")
                self._at += 2
                continue
            piece.append(character)
            self._at += 1
        raise NotPlain("a quote that does not end")


def directory_of(cwd: Path, words: list[str]) -> Path:
    """Where `cd` leads. Raises NotPlain."""
    if len(words) != 2 or words[1] == "-":
        raise NotPlain("cd takes one directory here")
    target = Path(os.path.normpath(cwd / words[1]))
    if not target.is_dir():
        raise NotPlain(f"cd: there is no directory {words[1]}")
    return target
