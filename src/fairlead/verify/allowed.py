"""Programs that only read, and the options with which they do.

It is for machines without a sandbox. A program is allowed only by its plain name, with options that are known
to write nothing and to run nothing; of git only some subcommands, which never see the repository's own
configuration. A rule says why it refuses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Rule = Callable[[Sequence[str]], str]
"""Looks at the words after the program's name and says why they are refused, or nothing."""

MAX_NUMBER = 7
"""How many digits a line number has at most."""


def refusal(words: Sequence[str], cwd: Path) -> str:
    """Why a program is not run with these words in a directory; empty if it is.

    >>> refusal(["cat", "README.md"], Path(".")), refusal(["rm", "-r", "."], Path("."))
    ('', "'rm' is not among the programs that only read")
    """
    name, rest = words[0], words[1:]
    if "=" in name and re.match(r"[A-Za-z_]\w*\+?=", name):
        return f"it sets the variable {name.partition('=')[0]}"
    rule = _RULES.get(name)
    if rule is None:
        return f"{name!r} is not among the programs that only read"
    if strange := next((word for word in rest if _is_strange_place(word, cwd)), None):
        return f"{strange} is no file of a project"
    return rule(rest)


def _is_strange_place(word: str, cwd: Path) -> bool:
    """Whether a word is a path to devices and processes, perhaps through a link."""
    path = word.partition("=")[2] if word.startswith("-") else word
    places = {os.path.normpath(cwd / path), os.path.realpath(cwd / path)} - {os.devnull}
    return any(place.startswith(("/proc/", "/dev/", "/sys/")) for place in places)


def _anything(words: Sequence[str]) -> str:
    return ""


def _without(longs: Iterable[str] = (), shorts: str = "") -> Rule:
    """Any options but these. A long one also in the shortened forms that getopt takes, a short one also
    among others."""
    forbidden = tuple(longs)

    def rule(words: Sequence[str]) -> str:
        for word in words:
            if word == "--":
                break
            name = word.partition("=")[0]
            if name.startswith("--") and len(name) > 2:
                if any(long.startswith(name) or name.startswith(long) for long in forbidden):
                    return f"the option {name} can write or run something"
            elif word.startswith("-") and (hit := next((each for each in word[1:] if each in shorts), "")):
                return f"the option -{hit} can write or run something"
        return ""

    return rule


_FIND_TESTS = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype"}
    | {"-size", "-mtime", "-mmin", "-ctime", "-cmin", "-atime", "-amin", "-newer", "-maxdepth", "-mindepth"}
    | {"-perm", "-user", "-group", "-links", "-inum", "-samefile", "-printf", "-lname", "-ilname", "-empty"}
    | {"-print", "-print0", "-ls", "-prune", "-quit", "-not", "-a", "-and", "-o", "-or", "-true", "-false"}
    | {"-depth", "-mount", "-xdev", "-readable", "-writable", "-executable", "-daystart", "-follow"}
    | {"-H", "-L", "-P", "-nouser", "-nogroup"}
)


def _find(words: Sequence[str]) -> str:
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d+[A-Za-z]?", word) and word not in _FIND_TESTS:
            return f"find's {word} is not among the tests that only read"
    return ""


def _sed(words: Sequence[str]) -> str:
    number = rf"(?:\d{{1,{MAX_NUMBER}}}|\$)"
    is_print = len(words) >= 2 and re.fullmatch(rf"{number}(?:,{number})?p", words[1])
    if not is_print or words[0] != "-n" or any(word.startswith("-") for word in words[2:]):
        return "of sed only `sed -n '1,20p' file` is known to only read"
    return ""


def _uniq(words: Sequence[str]) -> str:
    if bad := next((word for word in words if not re.fullmatch(r"-[cdDiuz]+", word)), None):
        return f"uniq would write to its second file; {bad!r} is not a plain option"
    return ""


def _printf(words: Sequence[str]) -> str:
    return "printf -v sets a variable" if words[:1] == ["-v"] else ""


# --- git --------------------------------------------------------------------------------------------------

_GIT_FORBIDDEN = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--ignore-submodules",
    "--submodule",
    "--recurse-submodules",
    "--show-signature",
    "--exec",
    "--upload-pack",
    "--dirty",
    "--broken",
    "--paginate",
)
_SAFE_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_git_options = _without(_GIT_FORBIDDEN)
_git_grep = _without(_GIT_FORBIDDEN, "O")


def _git_plain(words: Sequence[str]) -> str:
    if any("%G" in word or "%(signature" in word for word in words):
        return "checking signatures runs another program"
    return _git_options(words)


def _only(*allowed: str) -> Rule:
    def rule(words: Sequence[str]) -> str:
        bad = next((word for word in words if word not in allowed), None)
        return f"only {', '.join(allowed)} may follow, not {bad!r}" if bad is not None else ""

    return rule


_GIT: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "diff": (_git_plain, _SAFE_DIFF),
    "log": (_git_plain, _SAFE_DIFF),
    "show": (_git_plain, _SAFE_DIFF),
    "status": (_git_plain, ("--ignore-submodules=all",)),
    "blame": (_git_plain, ("--no-textconv",)),
    "grep": (_git_grep, ("--no-textconv",)),
    "ls-files": (_git_plain, ()),
    "ls-tree": (_git_plain, ()),
    "cat-file": (_git_plain, ()),
    "rev-parse": (_git_plain, ()),
    "rev-list": (_git_plain, ()),
    "merge-base": (_git_plain, ()),
    "describe": (_git_plain, ()),
    "shortlog": (_git_plain, ()),
    "for-each-ref": (_git_plain, ()),
    "show-ref": (_git_plain, ()),
    "check-ignore": (_git_plain, ()),
    "branch": (_only("--list", "--show-current", "-a", "-r", "-v", "-vv", "--all", "--remotes"), ()),
    "tag": (_only("--list", "-l", "-n"), ("--list",)),
}
"""For each subcommand: which words are refused, and what is put before them."""


def _git(words: Sequence[str]) -> str:
    if not words:
        return "git needs a subcommand"
    if words[0].startswith("-"):
        return f"git's own option {words[0]} is not allowed; begin with a subcommand"
    if words[0] not in _GIT:
        return f"git {words[0]} is not among the subcommands that only read"
    why = _GIT[words[0]][0](words[1:])
    return f"git {words[0]}: {why}" if why else ""


def git_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words after `git` with which an allowed subcommand is run."""
    return (words[0], *_GIT[words[0]][1], *words[1:])


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        {"basename", "cat", "cksum", "cmp", "comm", "cut", "dirname", "du", "echo", "egrep", "expand"}
        | {"expr", "false", "fgrep", "fold", "grep", "head", "hexdump", "id", "join", "jq", "ls", "md5sum"}
        | {"nl", "nproc", "od", "paste", "pwd", "readlink", "realpath", "rev", "seq", "sha1sum", "sha256sum"}
        | {"stat", "strings", "tac", "tail", "test", "tr", "true", "uname", "wc"},
        _anything,
    ),
    "cd": _anything,
    "diff": _without(("--paginate",), "l"),
    "file": _without(("--compile", "--preserve-date", "--uncompress", "--uncompress-noreport"), "CpzZ"),
    "find": _find,
    "git": _git,
    "printf": _printf,
    "rg": _without(("--pre", "--hostname-bin", "--search-zip"), "z"),
    "sed": _sed,
    "sort": _without(("--output", "--compress-program", "--temporary-directory"), "oT"),
    "uniq": _uniq,
}
