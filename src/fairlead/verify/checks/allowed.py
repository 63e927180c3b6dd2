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

from ..project.places import Sight

Rule = Callable[[Sequence[str]], str]
"""Looks at the words after the program's name and says why they are refused, or nothing."""

MAX_NUMBER = 7
"""How many digits a line number has at most."""


def refusal(words: Sequence[str], cwd: Path, sight: Sight) -> str:
    """Why a program is not run with these words in a directory; empty if it is.

    >>> sight = Sight(Path.cwd())
    >>> refusal(["cat", "README.md"], Path.cwd(), sight), refusal(["rm", "-r", "."], Path.cwd(), sight)
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
    if why := next((why for word in rest if (why := sight.refusal(word, cwd))), ""):
        return why
    return rule(rest)


def leaving_out(words: Sequence[str], secrets: Sequence[str]) -> tuple[str, ...]:
    """The words after a program's name, with those by which one that searches leaves secrets out.

    Those come last, as the last one counts, but before a `--`. They are there twice, as the word before them
    may be an option that takes the next as its value.
    """
    name, rest = words[0], tuple(words[1:])
    if name not in _SEARCHES:
        return rest
    names = [re.sub(r"([][*?\\{}!])", r"\\\1", os.path.basename(each)) for each in secrets]
    directory, file = _SEARCHES[name]
    out = (directory + ".git", *dict.fromkeys(file + each for each in names))
    at = rest.index("--") if "--" in rest else len(rest)
    return (*rest[:at], *out, *out, *rest[at:])


_SEARCHES = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), ("--exclude-dir=", "--exclude=")),
    "rg": ("--glob=!", "--glob=!"),
    "diff": ("--exclude=", "--exclude="),
}
"""How these leave out directories and files of a name."""


def _is_strange_place(word: str, cwd: Path) -> bool:
    """Whether a word is a path to devices and processes, perhaps through a link."""
    path = word.partition("=")[2] if word.startswith("-") else word
    if "\0" in path:
        return True
    places = {os.path.normpath(cwd / path), os.path.realpath(cwd / path)} - {os.devnull}
    return any(place.startswith(("/proc/", "/dev/", "/sys/")) for place in places)


def _anything(words: Sequence[str]) -> str:
    return ""


_WRITES = "can write or run something"
_LEADS_OUT = "can lead out of the project"


def _without(longs: Iterable[str] = (), shorts: str = "", why: str = _WRITES) -> Rule:
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
                    return f"the option {name} {why}"
            elif word.startswith("-") and (hit := next((each for each in word[1:] if each in shorts), "")):
                return f"the option -{hit} {why}"
        return ""

    return rule


def _both(one: Rule, other: Rule) -> Rule:
    return lambda words: one(words) or other(words)


def _diff(words: Sequence[str]) -> str:
    if "--no-dereference" in words:
        return ""
    return _without(("--recursive",), "r", f"{_LEADS_OUT}: add --no-dereference")(words)


def _jq(words: Sequence[str]) -> str:
    if any(re.search(r"\b(?:import|include)\b", word) for word in words):
        return "jq's import and include can read other files"
    return _without(("--from-file", "--library-path"), "fL", _LEADS_OUT)(words)


def _strings(words: Sequence[str]) -> str:
    return (
        "strings takes more words from a file that @ names" if any(w.startswith("@") for w in words) else ""
    )


_FIND_TESTS = frozenset(
    {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype"}
    | {"-size", "-mtime", "-mmin", "-ctime", "-cmin", "-atime", "-amin", "-newer", "-maxdepth", "-mindepth"}
    | {"-perm", "-user", "-group", "-links", "-inum", "-samefile", "-printf", "-lname", "-ilname", "-empty"}
    | {"-print", "-print0", "-ls", "-prune", "-quit", "-not", "-a", "-and", "-o", "-or", "-true", "-false"}
    | {"-depth", "-mount", "-xdev", "-readable", "-writable", "-executable", "-daystart"}
    | {"-H", "-P", "-nouser", "-nogroup"}
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
    "--no-index",
    "--untracked",
    "--no-exclude-standard",
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


def git_words(words: Sequence[str], secrets: Sequence[str]) -> tuple[str, ...]:
    """The words after `git` with which an allowed subcommand is run. `secrets` are paths from the top."""
    out = tuple(f":(exclude,top,literal){each}" for each in secrets) if words[0] in ("diff", "grep") else ()
    return (words[0], *_GIT[words[0]][1], *words[1:], *out, *out)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        {
            "basename",
            "cat",
            "cmp",
            "comm",
            "cut",
            "dirname",
            "echo",
            "expand",
            "expr",
            "false",
            "fold",
            "head",
        }
        | {"hexdump", "id", "join", "ls", "nl", "nproc", "od", "paste", "pwd", "readlink", "realpath", "rev"}
        | {"seq", "stat", "tac", "tail", "test", "tr", "true", "uname"},
        _anything,
    ),
    **dict.fromkeys(("egrep", "fgrep", "grep"), _without(("--dereference-recursive",), "R", _LEADS_OUT)),
    **dict.fromkeys(("du", "wc"), _without(("--files0-from",), "", _LEADS_OUT)),
    **dict.fromkeys(
        ("cksum", "md5sum", "sha1sum", "sha256sum"), _without(("--check",), "c", "reads what a file names")
    ),
    "cd": _anything,
    "diff": _both(_without(("--paginate",), "l"), _diff),
    "file": _both(
        _without(("--compile", "--preserve-date", "--uncompress", "--uncompress-noreport"), "CpzZ"),
        _without(("--files-from",), "f", _LEADS_OUT),
    ),
    "find": _find,
    "git": _git,
    "jq": _jq,
    "printf": _printf,
    "rg": _both(
        _without(("--pre", "--hostname-bin", "--search-zip"), "z"), _without(("--follow",), "L", _LEADS_OUT)
    ),
    "sed": _sed,
    "strings": _strings,
    "sort": _both(
        _without(("--output", "--compress-program", "--temporary-directory"), "oT"),
        _without(("--files0-from",), "", _LEADS_OUT),
    ),
    "uniq": _uniq,
}
