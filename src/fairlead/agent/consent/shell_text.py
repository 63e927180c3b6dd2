"""Reads shell text as bash and sh do: the simple commands in it, with the values of their words.

What is only known when it runs (variables, substitutions, globs) is a hole in a word. Compound commands,
functions, here-documents and substitutions are followed for the commands within them, and noted, as text with
any of these is not a plain list of commands. What can't be followed is noted as opaque: it may be anything.
One pass from left to right; depth and number of commands are bounded.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from .wildcards import HOLE

MAX_DEPTH = 20
"""How deep commands may be within commands."""
MAX_COMMANDS = 100
"""How many simple commands and redirections a text may have."""
MAX_BRACES = 16
"""How many words the braces of one may stand for; more are a hole,"""
MAX_BRACED = 500
"""and so is a longer word with braces."""

_OPEN, _COMMA, _CLOSE = "\1", "\2", "\3"  # braces that may expand, inside of this module only
_MARKS = re.compile(f"[{HOLE}{_OPEN}{_COMMA}{_CLOSE}]")
_PLAIN = re.compile(r"""[^\s;&|<>()\\'"$`*?\[\]{},\x00]+""")
_IN_QUOTES = re.compile(r"""[^"\\$`\x00]+""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*!$-]")
_PARAMETER = re.compile(r"\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[?#@*!$-])\}")
_KNOWN_OPERATOR = re.compile(
    r"[A-Za-z0-9_]+(?:\[(?:[0-9]+|@|\*)\])?(?::?[-=+?]|##?|%%?|//?|\^\^?|,,?|:[0-9]+(?::[0-9]+)?\}|\})"
)
_NUMBERS = re.compile(r"\(\([0-9 \t+*/%<>=!&|^~?:,-]*\)\)")
_REDIRECTION = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)")
_OPERATOR = re.compile(r"&&|\|\||\|&|[;&|]")
_CASE_END = re.compile(r";;&|;;|;&")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]=]*\])?\+?=")
RISKY_VARIABLES = re.compile(
    r"PATH|IFS|ENV|BASH.*|SHELL.*|PS[0-9]|PROMPT.*|.*_COMMAND|.*PAGER|.*EDITOR|VISUAL|BROWSER|GIT_.*|SSH_.*"
    r"|LESS.*|LD_.*|DYLD_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|MAKE.*|.*_ASKPASS|.*_WRAPPER|GLOBIGNORE|CDPATH|HOME"
    r"|.*_OPTIONS|.*_CONFIG_PATH|GCONV_PATH|LOCPATH"
)
"""Variables that decide what is run, by the shell or by well-known programs."""
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_LETTERS = {
    **{"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"},
    **{"E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_BEFORE_COMMANDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{"})
_AFTER_COMMANDS = frozenset({"fi", "done", "}"})
_NUMERIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})


class Word(NamedTuple):
    """A word as it is written, and its value as far as that is known."""

    raw: str
    value: str
    is_one: bool = True
    """Whether it is one word when it runs, whatever its holes are."""

    @property
    def is_plain(self) -> bool:
        return self.raw == self.value


class Simple(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...]
    assigned: tuple[Word, ...]
    """Assignments before it, such as `A=b`, or alone."""
    fed: list[str]
    """Texts that it reads: here-strings, and here-documents when their lines have been read."""


class Redirection(NamedTuple):
    """A redirection that reads or writes a file."""

    sign: str
    target: Word


class Script:
    """What a text does, as far as it was understood."""

    def __init__(self) -> None:
        self.commands: list[Simple | Redirection] = []
        self.compound: str = ""
        """What makes it more than a list of simple commands; empty if it is just that."""
        self.opaque: list[str] = []
        """Why there may be commands in it that are not among these."""

    def note(self, what: str) -> None:
        self.compound = self.compound or what

    def hide(self, why: str) -> None:
        """Note that something may run that can't be seen."""
        self.note(why)
        if why not in self.opaque:
            self.opaque.append(why)

    def add(self, command: Simple | Redirection) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise _Strange(f"more than {MAX_COMMANDS} commands")
        self.commands.append(command)


class _Strange(Exception):
    """Shell that we do not understand. Says what it is."""


def read_script(text: str, depth: int = 0) -> Script:
    """Read a text that is so many commands deep."""
    script = Script()
    if _MARKS.search(text):
        script.hide("text that is only known when it runs")
        text = re.sub(f"[{_OPEN}{_COMMA}{_CLOSE}]", HOLE, text)
    reader = _Reader(text, script, depth)
    try:
        reader.commands("")
    except _Strange as strange:
        script.hide(str(strange))
    return script


class _Building:
    """A simple command that is being read."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.assigned: list[Word] = []
        self.fed: list[str] = []
        self.begins: list[int] = []
        """Words that are the first of a command to another shell: to dash, `a &> b c` runs `c`."""

    @property
    def is_empty(self) -> bool:
        return not self.words and not self.assigned


class _Here(NamedTuple):
    """A here-document whose lines are still to come."""

    end: str
    is_indented: bool
    is_quoted: bool
    fed: list[str]


class _Piece:
    """A word that is being read."""

    def __init__(self) -> None:
        self.value: list[str] = []
        self.is_one = True
        self.bracket = -1
        self.has_braces = False

    def hole(self, *, is_one: bool = False) -> None:
        self.value.append(HOLE)
        self.is_one = self.is_one and is_one


class _Reader:
    """Reads a text from left to right, and adds what it finds to a script."""

    def __init__(self, text: str, script: Script, depth: int) -> None:
        self._text = text
        self._at = 0
        self._depth = depth
        self._script = script
        self._here: list[_Here] = []

    # --- commands -----------------------------------------------------------------------------------------

    def commands(self, end: str) -> bool:
        """Read commands up to `end`, which is passed: a bracket, or `case` for the end of a branch.

        Returns false if a branch was the last one.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Strange(f"commands within commands more than {MAX_DEPTH} deep")
        outer_here, self._here = self._here, []
        has_more = self._commands(end)
        if self._here and self._at < len(self._text):
            raise _Strange("a here-document that ends elsewhere")
        self._here = outer_here
        self._depth -= 1
        return has_more

    def _commands(self, end: str) -> bool:
        now = _Building()
        while True:
            self._blanks()
            if self._at >= len(self._text):
                if end:
                    raise _Strange("brackets or quotes that are not closed")
                self._flush(now)
                return False
            character = self._text[self._at]
            if character == ")":
                if end != ")":
                    raise _Strange("a bracket that closes nothing")
                self._at += 1
                self._flush(now)
                return False
            if end == "case" and (found := _CASE_END.match(self._text, self._at)):
                self._at = found.end()
                self._flush(now)
                return True
            if character == "\n":
                self._at += 1
                self._flush(now)
                self._here_documents()
                now = _Building()
            elif redirection := _REDIRECTION.match(self._text, self._at):
                self._redirect(redirection, now)
            elif operator := _OPERATOR.match(self._text, self._at):
                self._at = operator.end()
                self._flush(now)
                now = _Building()
            elif character == "#":
                newline = self._text.find("\n", self._at)
                self._at = len(self._text) if newline < 0 else newline
            elif character == "(":
                self._bracket(now)
            elif self._words(now, end):
                return False

    def _flush(self, now: _Building) -> None:
        if not now.is_empty:
            self._script.add(Simple(tuple(now.words), tuple(now.assigned), now.fed))
            for begin in now.begins:
                if begin < len(now.words):
                    self._script.add(Simple(tuple(now.words[begin:]), (), now.fed))

    def _bracket(self, now: _Building) -> None:
        """Read a subshell, arithmetic, or the brackets of a function's name."""
        text = self._text
        if now.is_empty:
            if text.startswith("((", self._at):
                self._arithmetic()
            else:
                self._at += 1
                self.commands(")")
            return
        self._at += 1
        self._blanks()
        if len(now.words) != 1 or now.assigned or not text.startswith(")", self._at):
            raise _Strange("a bracket inside of a command")
        self._at += 1
        self._script.note("a function")
        now.words.clear()

    def _words(self, now: _Building, end: str) -> bool:
        """Read a word of a command, or what it begins. Returns true after the end of the last branch."""
        start = self._at
        words = self._word()
        first = words[0]
        is_first = not now.words and len(words) == 1 and first.is_plain
        if is_first and not now.assigned and self._reserved(first.raw, end):
            return first.raw == "esac" and end == "case"
        if not now.words and ASSIGNMENT.match(first.raw):
            raw = self._text[start : self._at]
            value = first.value if len(words) == 1 else raw
            if raw.endswith("=") and self._text.startswith("(", self._at):
                self._array()
                value += HOLE
            now.assigned.append(Word(raw, value))
        else:
            now.words += words
        return False

    def _reserved(self, word: str, end: str) -> bool:
        """Deal with a reserved word. Returns false if it is none."""
        if word in _BEFORE_COMMANDS or word in _AFTER_COMMANDS:
            self._script.note(f"`{word}`")
        elif word == "esac" and end == "case":
            pass
        elif word in ("for", "select"):
            self._script.note(f"`{word}`")
            self._for()
        elif word == "case":
            self._script.note("`case`")
            self._case()
        elif word == "function":
            self._script.note("a function")
            self._blanks()
            self._word()
            self._blanks()
            if re.compile(r"\([ \t]*\)").match(self._text, self._at):
                self._at = self._text.index(")", self._at) + 1
        elif word == "[[":
            self._script.note("`[[`")
            self._test()
        elif word == "time":
            self._script.note("`time`")
            while option := re.compile(r"[ \t]+(?:-p|--)(?=\s)").match(self._text, self._at):
                self._at = option.end()
        elif word == "coproc":
            self._script.hide("`coproc`")
        else:
            return False
        return True

    def _for(self) -> None:
        """Read what a loop is over."""
        self._blanks()
        if self._text.startswith("((", self._at):
            self._arithmetic()
            return
        if RISKY_VARIABLES.fullmatch(self._word()[0].value):
            self._script.hide("a loop over a variable that decides what is run")
        self._gap()
        if re.compile(r"in(?=[\s;]|\Z)").match(self._text, self._at):
            while self._at < len(self._text) and self._text[self._at] not in ";\n":
                self._word()
                self._blanks()

    def _case(self) -> None:
        self._blanks()
        self._word()
        self._gap()
        if self._word()[0].raw != "in":
            raise _Strange("`case` without `in`")
        while True:
            self._gap()
            if re.compile(r"esac(?![A-Za-z0-9_])").match(self._text, self._at):
                self._at += len("esac")
                return
            if self._text.startswith("(", self._at):
                self._at += 1
            self._blanks()
            while not self._text.startswith(")", self._at):
                if self._text.startswith("|", self._at):
                    self._at += 1
                else:
                    self._word()
                self._blanks()
            self._at += 1
            if not self.commands("case"):
                return

    def _test(self) -> None:
        """Read up to `]]`. What is compared as a number is computed, and may run commands."""
        seen: list[Word] = []
        part: list[Word] | None = None  # what is a command to a shell without `[[`
        while True:
            self._gap()
            if self._at >= len(self._text):
                raise _Strange("`[[` without `]]`")
            if self._text[self._at] in "()<>&|;":
                if self._text[self._at] in "&|;(":
                    self._add_if_named(part)
                    part = []
                self._at += 1
                continue
            words = self._word()
            seen += words
            if part is not None:
                part += words
            if seen[-1].raw == "]]":
                break
        self._add_if_named(part)
        numeric = any(word.value in _NUMERIC_TESTS for word in seen)
        if numeric and any(not re.fullmatch(r"-?[A-Za-z0-9\]]*", word.value) for word in seen):
            self._script.hide("numbers that are computed")

    def _add_if_named(self, words: list[Word] | None) -> None:
        if words and HOLE not in words[0].value:
            self._script.add(Simple(tuple(words), (), []))

    def _array(self) -> None:
        """Read the words of an array."""
        self._at += 1
        self._script.note("an array")
        while True:
            self._gap()
            if self._text.startswith(")", self._at):
                self._at += 1
                return
            self._word()

    def _arithmetic(self) -> None:
        """Read `((...))`. Names in it may hold what is computed again, and that may run commands."""
        self._script.note("arithmetic")
        if numbers := _NUMBERS.match(self._text, self._at):
            self._at = numbers.end()
            return
        self._script.hide("arithmetic with names")
        self._at += 2  # it may also be one subshell within another
        self.commands(")")
        self._blanks()
        if self._text.startswith(")", self._at):
            self._at += 1
        else:
            self.commands(")")

    # --- redirections -------------------------------------------------------------------------------------

    def _redirect(self, found: re.Match[str], now: _Building) -> None:
        sign = found[1]
        if sign in "<>" and self._text.startswith("(", found.end()):  # <(command)
            self._at = found.end() + 1
            self.commands(")")
            now.words.append(Word(f"{sign}(...)", HOLE))
            return
        if sign in ("&>", "&>>"):
            now.begins = [len(now.words)]
        self._at = found.end()
        self._blanks()
        start = self._at
        words = self._word()
        target = words[0] if len(words) == 1 else Word(self._text[start : self._at], HOLE, is_one=False)
        if sign in ("<<", "<<-"):
            self._script.note("a here-document")
            is_quoted = any(sign in target.raw for sign in "'\"\\$`")
            self._here.append(_Here(target.value, sign == "<<-", is_quoted, now.fed))
            return
        if sign == "<<<":
            now.fed.append(target.value)
            if "$(" in target.value or "`" in target.value:
                self._script.hide("text with a command in it")
        is_descriptor = sign in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.raw)
        if not is_descriptor and target.raw != "/dev/null":
            self._script.add(Redirection(sign, target))

    def _here_documents(self) -> None:
        """Read the here-documents of the line that ended."""
        waiting, self._here = self._here, []
        for here in waiting:
            lines = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                if here.is_indented:
                    line = line.lstrip("\t")
                if line == here.end:
                    break
                lines.append(line)
            body = "\n".join(lines)
            here.fed.append(body)
            if not here.is_quoted and ("$" in body or "`" in body):
                within = _Reader(body, self._script, self._depth)
                within.text_with_expansions()

    def text_with_expansions(self) -> None:
        """Read all of the text as it is in a here-document: only what expands has a meaning."""
        piece = _Piece()
        while self._at < len(self._text):
            match self._text[self._at]:
                case "\\":
                    self._at += 2
                case "$":
                    self._dollar(piece, quoted=True)
                case "`":
                    self._backquote(piece, quoted=False)
                case _:
                    self._at += 1

    # --- words --------------------------------------------------------------------------------------------

    def _blanks(self) -> None:
        text, at = self._text, self._at
        while at < len(text):
            if text[at] in " \t":
                at += 1
            elif text.startswith("\\\n", at):
                at += 2
            else:
                break
        self._at = at

    def _gap(self) -> None:
        """Pass blanks, lines and comments."""
        while True:
            self._blanks()
            if self._text.startswith("\n", self._at):
                self._at += 1
                self._here_documents()
            elif self._text.startswith("#", self._at):
                newline = self._text.find("\n", self._at)
                self._at = len(self._text) if newline < 0 else newline
            else:
                return

    def _word(self) -> list[Word]:
        """Read a word; braces may make several of it. Raises `_Strange` if there is none."""
        text, start = self._text, self._at
        piece = _Piece()
        while self._at < len(text):
            character = text[self._at]
            if plain := _PLAIN.match(text, self._at):
                piece.value.append(plain[0])
                self._at = plain.end()
            elif character in " \t\n;&|<>()":
                break
            else:
                self._special(character, piece)
        if self._at == start:
            raise _Strange("an operator where a word should be")
        raw = text[start : self._at]
        value = "".join(piece.value)
        if not piece.has_braces:
            return [Word(raw, value, piece.is_one)]
        values = _expanded(value) if len(value) <= MAX_BRACED else None
        if values is None:
            return [Word(raw, HOLE, is_one=False)]
        if len(values) == 1:
            return [Word(raw, values[0], piece.is_one)]
        return [Word(each, each, piece.is_one) for each in values]

    def _special(self, character: str, piece: _Piece) -> None:
        """Read what a character begins that may mean something."""
        text, at = self._text, self._at
        match character:
            case "\\":
                self._at += 2
                if not text.startswith("\n", at + 1):
                    piece.value.append(text[at + 1 : at + 2] or "\\")
            case "'":
                end = self._closing("'", at + 1)
                piece.value.append(text[at + 1 : end - 1])
                self._at = end
            case '"':
                self._at += 1
                self._quoted(piece)
            case "$":
                self._dollar(piece, quoted=False)
            case "`":
                self._backquote(piece, quoted=False)
            case "*" | "?" | "\0":
                piece.hole()
                self._at += 1
            case "{" | "," | "}":
                piece.value.append({"{": _OPEN, ",": _COMMA, "}": _CLOSE}[character])
                piece.has_braces = True
                self._at += 1
            case "[":
                if piece.bracket < 0:
                    piece.bracket = len(piece.value)
                piece.value.append("[")
                self._at += 1
            case "]" if piece.bracket >= 0:
                del piece.value[piece.bracket :]
                piece.bracket = -1
                piece.hole()
                self._at += 1
            case _:  # also blanks that only Unicode knows, which are letters to a shell
                piece.value.append(character)
                self._at += 1

    def _quoted(self, piece: _Piece) -> None:
        """Read to the end of double quotes."""
        text = self._text
        while self._at < len(text):
            if plain := _IN_QUOTES.match(text, self._at):
                piece.value.append(plain[0])
                self._at = plain.end()
                continue
            match text[self._at]:
                case '"':
                    self._at += 1
                    return
                case "\\":
                    after = text[self._at + 1 : self._at + 2]
                    if after != "\n":
                        piece.value.append(after if after in '$`"\\' else f"\\{after}")
                    self._at += 2
                case "$":
                    self._dollar(piece, quoted=True)
                case "`":
                    self._backquote(piece, quoted=True)
                case _:
                    piece.hole(is_one=True)
                    self._at += 1
        raise _Strange("quotes that are not closed")

    def _dollar(self, piece: _Piece, *, quoted: bool) -> None:
        """Read what begins with a dollar; commands in it are found, too."""
        text = self._text
        self._at += 1
        while text.startswith("\\\n", self._at):
            self._at += 2
        at = self._at
        if text.startswith("((", at):
            self._arithmetic()
            piece.hole(is_one=quoted)
        elif text.startswith("(", at):
            self._at += 1
            self.commands(")")
            piece.hole(is_one=quoted)
        elif parameter := _PARAMETER.match(text, at):
            self._at = parameter.end()
            piece.hole(is_one=quoted and parameter[0] not in ("{@}", "{*}"))
        elif text.startswith("{", at):
            self._parameter(quoted=quoted)
            piece.hole()
        elif name := _NAME.match(text, at):
            self._at = name.end()
            piece.hole(is_one=quoted and name[0] not in "@*")
        elif text.startswith("'", at) and not quoted:
            self._at += 1
            self._escapes(piece)
        elif text.startswith('"', at) and not quoted:
            self._script.note("a translated text")
            self._at += 1
            self._quoted(piece)
        elif text.startswith("[", at):
            raise _Strange("arithmetic in square brackets")
        else:
            piece.value.append("$")

    def _parameter(self, *, quoted: bool) -> None:
        """Read `${...}` with more in it than a name."""
        text = self._text
        self._at += 1
        start = self._at
        self._script.note("`${...}`")
        if not _KNOWN_OPERATOR.match(text, start):
            self._script.hide("`${...}` with something that is computed")
        ignored = _Piece()
        while self._at < len(text):
            match text[self._at]:
                case "}":
                    self._at += 1
                    return
                case "\\":
                    self._at += 2
                case "'" if quoted:
                    raise _Strange("single quotes within `${...}` within quotes")
                case "'":
                    self._at = self._closing("'", self._at + 1)
                case '"':
                    self._at += 1
                    self._quoted(ignored)
                case "$":
                    self._depth += 1
                    if self._depth > MAX_DEPTH:
                        raise _Strange(f"`${{...}}` more than {MAX_DEPTH} deep")
                    self._dollar(ignored, quoted=quoted)
                    self._depth -= 1
                case "`":
                    self._backquote(ignored, quoted=quoted)
                case _:
                    self._at += 1
        raise _Strange("`${` that is not closed")

    def _backquote(self, piece: _Piece, *, quoted: bool) -> None:
        text, at = self._text, self._at + 1
        inner: list[str] = []
        escaped = '$`\\"' if quoted else "$`\\"
        while at < len(text) and text[at] != "`":
            if text[at] == "\\" and text[at + 1 : at + 2] and text[at + 1] in escaped:
                at += 1
            inner.append(text[at])
            at += 1
        if at >= len(text):
            raise _Strange("backquotes that are not closed")
        self._at = at + 1
        within = _Reader("".join(inner), self._script, self._depth)
        within.commands("")
        piece.hole(is_one=quoted)

    def _escapes(self, piece: _Piece) -> None:
        r"""Read `$'...'`, in which `\x72` is an r."""
        text, at = self._text, self._at
        while at < len(text) and text[at] != "'":
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            raise _Strange("quotes that are not closed")
        if "\\'" in text[self._at : at]:
            self._script.hide("quotes that end elsewhere for other shells")
        value = _ESCAPE.sub(_unescaped, text[self._at : at])
        piece.value.append(_MARKS.sub(HOLE, value))
        if HOLE in value:
            piece.is_one = False
        self._at = at + 1

    def _closing(self, quote: str, at: int) -> int:
        end = self._text.find(quote, at)
        if end < 0:
            raise _Strange("quotes that are not closed")
        return end + 1


def _unescaped(found: re.Match[str]) -> str:
    octal, byte, short, long, control, letter = found.groups()
    if control is not None:
        return chr(ord(control) & 0x1F) if control.isascii() else HOLE
    if letter is not None:
        return _LETTERS.get(letter, f"\\{letter}")
    number = int(octal, 8) & 0xFF if octal else int(byte or short or long, 16)
    is_part_of_character = number > 0x7F and not (short or long)
    return HOLE if number > 0x10FFFF or is_part_of_character else chr(number)


def _expanded(text: str) -> list[str] | None:
    """The words that braces stand for, the first ones first; None if it is not clear which."""
    ready: list[str] = []
    waiting = [text]
    steps = 0
    while waiting:
        each = waiting.pop()
        steps += 1
        if steps > 4 * MAX_BRACES or len(ready) + len(waiting) > MAX_BRACES:
            return None
        found = _brace(each)
        if found is None:
            plain = each.replace(_OPEN, "{").replace(_COMMA, ",").replace(_CLOSE, "}")
            if re.search(r"\{[^{}]*\.\.[^{}]*\}", plain):
                return None
            ready.append(plain)
            continue
        begin, choices, end = found
        waiting += [f"{begin}{choice}{end}" for choice in reversed(choices)]
    return ready


def _brace(text: str) -> tuple[str, list[str], str] | None:
    """The first braces with a comma in them: what is before, the choices, and what is behind."""
    opened: list[tuple[int, list[int]]] = []
    for at, character in enumerate(text):
        if character == _OPEN:
            opened.append((at, []))
        elif character == _COMMA and opened:
            opened[-1][1].append(at)
        elif character == _CLOSE and opened:
            start, commas = opened.pop()
            if commas:
                places = [start, *commas, at]
                choices = [text[one + 1 : other] for one, other in pairwise(places)]
                return text[:start], choices, text[at + 1 :]
    return None
