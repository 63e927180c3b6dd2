"""Colours for source code, a line at a time: comments, strings, numbers and keywords of most languages. Pure.

One regular expression a family of languages finds the tokens, each of which it decides by its first
characters; what goes on in the next line, a block comment or a long string, is the only thing remembered.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from .styled import Line, add_to

COMMENT, STRING, NUMBER, KEYWORD, NAME = "dim", "green", "magenta", "bold blue", "cyan"
MAX_COLOURED = 4096
"""How many characters of a line get colours."""

_C = """
    abstract as async await auto bool boolean break byte case catch char class const constexpr continue
    debugger def default defer delete do double else enum export extends extern false final finally
    float fn for foreach from func function go goto if impl implements import in include inline
    instanceof int interface internal is let long loop match mod move mut namespace new nil null object
    operator override package private protected pub public readonly ref return select self short signed
    sizeof static string struct super switch template this throw throws trait true try type typedef
    typeof typename undefined union unsafe unsigned use using val var virtual void volatile when where
    while with yield None Some Ok Err Self
"""
_SCRIPT = """
    and as assert async await begin break case class continue def defp del do done elif else elsif end
    ensure esac except export extends False fi finally for from function global if import in include is
    lambda let local loop match module next nil None nonlocal not or pass raise require rescue retry
    return self set source sub super switch then True true false null try undef unless until use when
    while with yield my our
"""
_SQL = """
    add all alter and as asc begin between by case cast check column commit constraint create cross
    database default delete desc distinct drop else end exists explain false foreign from full function
    group having if in index inner insert into is join key left like limit not null offset on or order
    outer primary references returning right rollback select set table then transaction true union
    unique update using values view when where with
"""
_LUA = """
    and break case class data deriving do else elseif end false for function goto if import in infixl
    infixr instance let local module newtype nil not of or repeat return then true type until where
    while
"""
_LISP = """
    and case catch cond def define defmacro defmethod defn defonce defparameter defstruct defun defvar
    do dolist dotimes fn for if ignore-errors in-package labels lambda let let* letrec loop nil not ns
    or progn quote recur require set! setf setq t throw try unless when when-let while
"""


class _Family(NamedTuple):
    """Languages whose tokens look alike."""

    comment: str = ""
    """What begins a comment until the end of the line, as a regular expression."""
    block: tuple[str, str] | None = None
    """What begins and ends a comment of several lines."""
    strings: str = "\"'"
    long_strings: tuple[str, ...] = ()
    """What begins and ends a string of several lines."""
    keywords: str = ""
    is_caseless: bool = False
    word: str = r"[^\W\d]\w*"


_FAMILIES = {
    "c": _Family("//", ("/*", "*/"), "\"'", ("`",), _C),
    "script": _Family(r"#", None, "\"'", ('"""', "'''"), _SCRIPT, word=r"[^\W\d][\w-]*(?<!-)"),
    "python": _Family(r"#", None, "\"'", ('"""', "'''"), _SCRIPT),
    "sql": _Family("--", ("/*", "*/"), "\"'", (), _SQL, is_caseless=True),
    "dashes": _Family("--", ("{-", "-}"), '"', (), _LUA),
    "lisp": _Family(";", None, '"', (), _LISP, word=r"[^\W\d][\w*!?<>=/-]*"),
    "markup": _Family("(?!)", ("<!--", "-->"), '"', (), "", word=r"(?<=<)/?[\w:-]+|(?<=</)[\w:-]+"),
    "css": _Family("(?!)", ("/*", "*/"), "\"'", word=r"[\w-]+(?=:)"),
    "data": _Family("(?!)", None, '"', (), "true false null"),
    "diff": _Family("(?!)"),
}  # fmt: skip

_LANGUAGES = {
    "c": """
        c h cc cpp c++ cxx hpp cs csharp dart go golang groovy java javascript js json5 jsonc jsx kotlin
        kt mjs objc php proto protobuf rs rust scala scss less solidity swift ts tsx typescript zig
        verilog hcl tf
    """,
    "python": "python py python3 pyi starlark bazel gdscript",
    "script": """
        bash sh shell zsh fish ksh console shell-session shellsession ruby rb perl pl yaml yml toml ini
        conf cfg make makefile dockerfile docker cmake elixir ex julia jl r nix tcl awk nginx properties
        env powershell ps1 nim crystal graphql
    """,
    "sql": "sql sqlite psql postgresql mysql plsql",
    "dashes": "lua haskell hs elm ada vhdl purescript agda",
    "lisp": "lisp clojure clj cljs edn scheme elisp emacs-lisp common-lisp racket fennel hy asm nasm",
    "markup": "html xml xhtml svg vue svelte astro htm",
    "css": "css",
    "data": "json jsonl ndjson",
    "diff": "diff patch udiff",
}
_FAMILY_OF = {name: family for family, names in _LANGUAGES.items() for name in names.split()}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


@cache
def _tokens(family: str) -> re.Pattern[str]:
    of = _FAMILIES[family]
    opening = [re.escape(each) for each in ((of.block[0],) if of.block else ()) + of.long_strings]
    parts = [f"(?P<open>{'|'.join(opening)})"] if opening else []
    before = r"(?<![\w$&{])" if of.comment == "#" else ""
    parts.append(f"(?P<comment>{before}{of.comment}.*)")
    parts += [
        rf"(?P<q{number}>{quote}(?:[^{quote}\\]|\\.)*(?:{quote}|\\?$))"
        for number, quote in enumerate(of.strings)
    ]
    parts.append(
        r"(?P<number>(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w{0,3}\b)"
    )
    parts.append(f"(?P<word>{of.word})")
    return re.compile("|".join(parts))


class Highlighter:
    """Colours for the lines of one piece of code. `Highlighter("no language")` leaves them as they are."""

    def __init__(self, language: str) -> None:
        self._family = _FAMILY_OF.get(language.lower(), "")
        self._closing = ""  # what ends the comment or string that began in an earlier line
        self._style = ""

    def line(self, text: str) -> Line:
        """The next line, with styles."""
        if not self._family:
            return [(text, "")] if text else []
        if self._family == "diff":
            return [(text, _DIFF.get(text[:1], ""))] if text else []
        of = _FAMILIES[self._family]
        line: Line = []
        at, end = 0, min(len(text), MAX_COLOURED)
        while at < end:
            if self._closing:
                stop = text.find(self._closing, at, end)
                stop = stop + len(self._closing) if stop >= 0 else end
                add_to(line, text[at:stop], self._style)
                if text.endswith(self._closing, at, stop):
                    self._closing = ""
                at = stop
                continue
            found = _tokens(self._family).search(text, at, end)
            if found is None:
                break
            add_to(line, text[at : found.start()], "")
            at = found.end()
            kind, token = found.lastgroup or "", found[0]
            if kind == "open":
                is_comment = of.block is not None and token == of.block[0]
                self._closing = of.block[1] if of.block and is_comment else token
                self._style = COMMENT if is_comment else STRING
            add_to(line, token, self._styled(kind, token, text[at : at + 1], of))
        add_to(line, text[at:], "")
        return line

    def _styled(self, kind: str, token: str, following: str, of: _Family) -> str:
        match kind:
            case "open":
                return self._style
            case "comment":
                return COMMENT
            case "number":
                return NUMBER
            case "word":
                word = token.lower() if of.is_caseless else token
                if word in _keywords(self._family):
                    return KEYWORD
                return NAME if following == "(" or self._family in ("markup", "css") else ""
        if self._family == "data" and following == ":":
            return NAME
        return STRING


@cache
def _keywords(family: str) -> frozenset[str]:
    return frozenset(_FAMILIES[family].keywords.split())
