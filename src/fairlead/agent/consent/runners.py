"""Programs that run what they are given (`programs.py` has them): where the command is in their words.

`timeout 5 rm x` runs `rm x`, `sh -c 'rm x'` runs what its text says, `python -c ...` runs code that nobody
here understands. An option that is not in the table is not understood, so what the program runs isn't either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from .programs import (
    CODE_MODULES,
    DECLARING,
    FETCHING,
    HARMLESS_VALUES,
    HARMLESS_VARIABLES,
    NAMING,
    PLAIN_PROGRAMS,
    RISKS,
    RUN_ANYTHING,
    RUN_OWN,
    RUNNERS,
    SHELLS,
    ProgramOptions,
    Risks,
)
from .shell_text import ASSIGNMENT, RISKY_VARIABLES, Word
from .wildcards import HOLE

MAX_STEPS = 64
"""How many options, and how many commands of one `find`, are looked at."""
MAX_NESTED = 4
"""How many programs that run each other are followed among the words of an unknown one."""


class Runs(NamedTuple):
    """What a command runs besides itself."""

    commands: tuple[tuple[Word, ...], ...] = ()
    """Other commands, as words."""
    scripts: tuple[str, ...] = ()
    """Texts for a shell."""
    opaque: str = ""
    """Why it may run something that can't be seen."""
    reads_script: bool = False
    """Whether it is a shell that runs what it reads."""
    also: tuple[tuple[Word, ...], ...] = ()
    """The same command, written otherwise: `git push` for `git -C . push`, `tool x` for `sh tool x`."""
    is_own: bool = False
    """Whether what can't be seen is still the program's own, so that who allows the program allows it."""
    is_unknown: bool = False
    """Whether nothing is known of the program: its words may be a command."""
    assigned: tuple[Word, ...] = ()
    """What is set for its commands, as by `env A=b make`."""
    named: tuple[str, ...] = ()
    """Words, mostly assignments, that a rule that allows it must have, too, as `make CC=* *` does."""


NOTHING = Runs()
UNKNOWN = Runs(is_unknown=True)


class _Parsed(NamedTuple):
    options: tuple[tuple[str, str], ...]
    assigned: tuple[Word, ...]
    rest: tuple[Word, ...]


def what_runs(words: Sequence[Word]) -> Runs:
    """What a simple command runs, by its words; the first one is its name."""
    name = base_name(words[0].value)
    rest = tuple(words[1:])
    if special := _SPECIAL.get(name):
        return special(rest)
    if name in SHELLS:
        return _shell(rest)
    if re.fullmatch(r"(?:python|pypy)[0-9.]*[a-z]?(?:-dbg)?", name):
        return _code(rest, "bBdEhIOPqRsSuvVx", "WX", "", "m")
    if re.fullmatch(r"perl[0-9.]*(?:-.*)?", name):
        return _code(rest, "acflnpsStTuUvVwWX01234567", "I", "CDFxi")
    if re.fullmatch(r"ruby[0-9.]*", name):
        return _code(rest, "acdlnpsSTvwWy01234567", "rICE", "Fix")
    if name in ("node", "nodejs"):
        return _code(rest, "chv", "r", "")
    if name in RUN_ANYTHING or name in RUN_OWN:
        why = f"`{name}` can run other commands"
        return Runs(opaque=why, scripts=_texts(name, rest), is_own=name in RUN_OWN)
    if (risks := RISKS.get(name)) and (hit := _risky(risks, rest)):
        return Runs(opaque=f"`{name} {value_text(hit)}` can run other commands")
    if found := _fetching(name, [word.value for word in rest]):
        why = f"`{name} {found}` can run what others wrote"
        return Runs(opaque=why, is_own=True, is_unknown=True, named=tuple(found.split()))
    if name in NAMING or name in DECLARING:
        return _names(name, rest)
    if name in RUNNERS:
        return _runner(name, RUNNERS[name], rest)
    if name in PLAIN_PROGRAMS:
        return NOTHING
    why = next((why for at in range(min(len(rest) - 1, MAX_STEPS)) if (why := _hidden(rest[at:]))), "")
    return Runs(opaque=why, is_own=True, is_unknown=True)


def _hidden(words: tuple[Word, ...], depth: int = 0) -> str:
    """Why words of an unknown program, as `uv run python -c ...`, may be a command that can't be seen."""
    name = base_name(words[0].value)
    is_known = name in SHELLS or name in RUNNERS or name in RUN_ANYTHING or name in _SPECIAL
    if len(words) < 2 or depth > MAX_NESTED or not (is_known or _INTERPRETER.fullmatch(name)):
        return ""
    runs = what_runs(words)
    if runs.opaque or runs.scripts:
        return runs.opaque or f"`{name}` runs a text"
    return next((why for inner in runs.commands if (why := _hidden(inner, depth + 1))), "")


def _risky(risks: Risks, words: Sequence[Word]) -> str:
    """The first word that has, or may have, one of these options; empty if none has.

    Words that may be values of options, or come after `--`, count as well: which they are is not known for
    sure.
    """
    longs, starts = risks.longs.split(), tuple(risks.starts.split())
    for at, word in enumerate(words):
        value = word.value
        if value.startswith(starts) or (value.startswith(HOLE) and not risks.skips_holes):
            return value
        if value.startswith("--"):
            name = value[2:].partition("=")[0].partition(HOLE)[0]
            if value != "--" and any(each.startswith(name) for each in longs):
                return value
        elif value.startswith("-") or (at == 0 and risks.is_bare):
            # without a dash the values are in other words
            ends = "" if not value.startswith("-") else risks.valued
            letters = re.split(f"[{ends}]", value, maxsplit=1)[0] if ends else value
            if any(each in letters for each in (*risks.shorts, HOLE)):
                return value
    return ""


def _fetching(name: str, values: Sequence[str]) -> str:
    """The subcommand that fetches what it runs; what follows options may be one, or their value."""
    if name not in FETCHING:
        return ""
    is_value = False
    for at, value in enumerate(values[:MAX_STEPS]):
        if value.startswith("-"):
            is_value = "=" not in value
        elif found := re.fullmatch(FETCHING[name], " ".join([*values[at:], ""]), re.DOTALL):
            return str(next(filter(None, found.groups())))
        elif not is_value:
            return ""
        else:
            is_value = False
    return ""


def risky_assignment(word: Word, *, is_passed: bool = False) -> str:
    """Why an assignment may make something run; empty if it doesn't.

    One that is passed on to a program, which may do anything with it, is harmless only by its name, or if its
    value is no more than a number or a yes.
    """
    found = ASSIGNMENT.match(word.value)
    if found is None:
        return ""
    value = word.value[found.end() :]
    if RISKY_VARIABLES.fullmatch(found[1]):
        return f"`{found[1]}=` decides what is run"
    if "$(" in value or "`" in value:
        return f"`{found[1]}` has a command in it"
    if is_passed and not (HARMLESS_VARIABLES.fullmatch(found[1]) or HARMLESS_VALUES.fullmatch(value)):
        return f"`{found[1]}=` may change what the program does"
    return ""


def base_name(value: str) -> str:
    """A program's name without its directory, as file systems find it that know no case."""
    name = value.rpartition("/")[2]
    return name if name in _KEEP_CASE else name.lower()


_KEEP_CASE = frozenset({"R", "Rscript"})
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|node)[0-9.]*|nodejs")


def value_text(value: str) -> str:
    """A value as people are shown it."""
    return value.replace(HOLE, "…")


# --- options ----------------------------------------------------------------------------------------------


class _Unknown(Exception):
    """Options that are not understood."""


def _parsed(spec: ProgramOptions, words: Sequence[Word]) -> _Parsed:
    """The options, the assignments and what comes after them. Raises `_Unknown`."""
    found: list[tuple[str, str]] = []
    assigned: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        value = word.value
        if at > MAX_STEPS or not word.is_one or value.startswith((HOLE, f"-{HOLE}")):
            raise _Unknown
        if value == "--":
            at += 1
            break
        if spec.assigns and ASSIGNMENT.match(value):
            assigned.append(word)
        elif value == "-" and spec.assigns:
            pass
        elif value.startswith("--"):
            at += _long(spec, words, at, found)
        elif value.startswith("-") and value != "-":
            at += _shorts(spec, words, at, found)
        else:
            break
        at += 1
    between = words[at : at + spec.before]
    if any(not word.is_one for word in between):
        raise _Unknown
    return _Parsed(tuple(found), tuple(assigned), tuple(words[at + spec.before :]))


def _long(spec: ProgramOptions, words: Sequence[Word], at: int, found: list[tuple[str, str]]) -> int:
    """Read a long option, perhaps shortened; returns how many more words it takes."""
    name, equals, value = words[at].value[2:].partition("=")
    valued, flags = spec.long_valued.split(), spec.longs.split()
    near = [each for each in (*valued, *flags) if each == name] or [
        each for each in (*valued, *flags) if name and each.startswith(name)
    ]
    if len(near) != 1:
        raise _Unknown
    if near[0] in flags or equals:
        found.append((near[0], value))
        return 0
    if at + 1 >= len(words) or not words[at + 1].is_one:
        raise _Unknown
    found.append((near[0], words[at + 1].value))
    return 1


def _shorts(spec: ProgramOptions, words: Sequence[Word], at: int, found: list[tuple[str, str]]) -> int:
    """Read short options that are written together; returns how many more words they take."""
    letters = words[at].value[1:]
    for place, letter in enumerate(letters):
        if letter in spec.flags:
            found.append((letter, ""))
        elif letter in spec.valued:
            if rest := letters[place + 1 :]:
                found.append((letter, rest))
                return 0
            if at + 1 >= len(words) or not words[at + 1].is_one:
                raise _Unknown
            found.append((letter, words[at + 1].value))
            return 1
        elif letter in spec.optional:
            found.append((letter, letters[place + 1 :]))
            return 0
        else:
            raise _Unknown
    return 0


def _runner(name: str, spec: ProgramOptions, words: tuple[Word, ...]) -> Runs:
    try:
        parsed = _parsed(spec, words)
    except _Unknown:
        return Runs(opaque=f"an option of `{name}` is not understood")
    given = dict(parsed.options)
    if any(letter in given for letter in spec.silent):
        return NOTHING
    rest = parsed.rest
    scripts = [value for option, value in parsed.options if option in spec.scripts.split()]
    if name == "flock" and rest and rest[0].value in ("-c", "--command"):
        scripts.append(" ".join(word.value for word in rest[1:]))
        rest = ()
    if name == "env" and scripts:
        scripts[-1] = " ".join([scripts[-1], *(word.value for word in rest)])
        rest = ()
    has_more = rest[:1] and rest[0].value.startswith("-")  # ssh takes options after the host, too
    if name == "ssh" and (has_more or any(map(_is_risky_for_ssh, parsed.options))):
        return Runs(opaque="an option of `ssh` can run a command")
    if name == "sudo" and {"s", "i", "login", "c"} & given.keys() and not rest:
        return Runs(opaque=f"`{name}` begins a shell", reads_script=True)
    if spec.is_joined and rest and not (name == "watch" and {"x", "exec"} & given.keys()):
        scripts.append(" ".join(word.value for word in rest))
        rest = ()
    if name == "xargs":
        rest = _with_input(rest, given)
    splits = name == "env" and {"P", "S", "split-string"} & given.keys()
    why = "`env` splits text into a command" if splits else ""
    return Runs((rest,) if rest else (), tuple(scripts), why, assigned=parsed.assigned)


def _is_risky_for_ssh(option: tuple[str, str]) -> bool:
    name, value = option
    if name == "o":
        return re.search("command|provider|include|xauth", value.lower()) is not None
    return name == "I" or (name == "F" and value not in ("none", "/dev/null"))


def _copying(words: tuple[Word, ...]) -> Runs:
    """`scp` and `sftp`, which pass options on to ssh."""
    for word, after in pairwise((*words, Word("", ""))):
        letter = word.value[:1] == "-" and next((each for each in word.value[1:] if each in "oFSDIb"), "")
        value = word.value.partition(letter)[2] or after.value if letter else ""
        if word.value.startswith(HOLE) or (
            letter and (letter in "SDb" or _is_risky_for_ssh((letter, value)))
        ):
            return Runs(opaque="an option of it can run a command")
    return NOTHING


def _make(words: tuple[Word, ...]) -> Runs:
    """`make`: its makefile is a file like any program, its variables may be what it runs."""
    named = []
    for word, after in pairwise((*words, Word("", ""))):
        value, file = word.value, "makefile"
        if value.startswith("--"):
            name, _, given = value[2:].partition("=")
            if name and any(each.startswith(name) for each in ("file", "makefile")):
                file = given or after.value
        elif value.startswith("-") and "f" in value:
            file = value.partition("f")[2] or after.value
        is_eval = value.startswith(("--e", f"-{HOLE}", HOLE)) or (
            value[:1] == "-" != value[1:2] and "E" in value
        )
        if is_eval or not _is_file(after._replace(value=file)):
            return Runs(opaque=f"`make {value_text(value)}` can run other commands")
        if (found := _MAKE_SETS.match(value)) and not (
            HARMLESS_VALUES.fullmatch(value[found.end() :]) and not RISKY_VARIABLES.fullmatch(found[1])
        ):
            named.append(value)
    why = f"`{value_text(named[0])}` can make it run other commands" if named else ""
    return Runs(opaque=why, is_own=True, named=tuple(named), is_unknown=True)


_MAKE_SETS = re.compile(r"([^-\s:+?!=][^\s:+?!=]*)[:+?!]*=")


def _set(words: tuple[Word, ...]) -> Runs:
    """`set`: with some options, what is assigned later is passed on to programs."""
    for word in words:
        if word.value in ("--", "-"):
            break
        if word.value[:1] not in ("-", "+") and word.value not in ("allexport", "keyword"):
            if HOLE in word.value and not word.is_one:
                return Runs(opaque="an option of `set` is not understood")
        elif word.value[:1] != "+" and set("ak") & set(word.value):
            return Runs(opaque="`set` passes variables on to programs")
    return NOTHING


def _with_input(words: tuple[Word, ...], given: dict[str, str]) -> tuple[Word, ...]:
    """The command of `xargs` with what it reads, which may be anything."""
    if not words:
        return ()
    replaced = next((given[each] for each in ("I", "J", "i", "replace") if given.get(each)), "{}")
    holed = tuple(word._replace(value=word.value.replace(replaced, HOLE)) for word in words)
    return (*holed, Word("…", HOLE, is_one=False))


# --- programs that are special -----------------------------------------------------------------------------


def _shell(words: tuple[Word, ...]) -> Runs:
    """`sh`, with a script, a text, or nothing but its input."""
    is_text = reads = False
    at = 0
    while at < len(words) and words[at].value[:1] in ("-", "+") and len(words[at].value) > 1:
        value = words[at].value
        if HOLE in value or at > MAX_STEPS:
            return Runs(opaque="an option of a shell is not understood")
        if value == "--":
            at += 1
            break
        if value.startswith("--"):
            if value in ("--rcfile", "--init-file"):
                return Runs(opaque=f"`{value}` names a file that a shell runs")
            if value not in ("--norc", "--noprofile", "--posix", "--login", "--verbose", "--restricted"):
                return Runs(opaque="an option of a shell is not understood")
        else:
            if set("ak") & set(value[1:]) or {"allexport", "keyword"} & {
                each.value for each in words[at + 1 :]
            }:
                return Runs(opaque="a shell passes its variables on to programs")
            is_text = is_text or "c" in value[1:]
            reads = reads or "s" in value[1:]
            at += sum(letter in "oO" for letter in value[1:])
        at += 1
    rest = words[at:]
    if is_text and rest:
        return Runs(
            scripts=(rest[0].value,), opaque="" if rest[0].is_one else "the text of a shell is not known"
        )
    if rest and not is_text and not reads and _is_file(rest[0]):
        return Runs(also=(rest,))
    return Runs(opaque="a shell runs what it reads", reads_script=True)


def _is_file(word: Word) -> bool:
    """Whether a script is a file like any other program."""
    return (
        HOLE not in word.value
        and word.value not in ("-", "")
        and not word.value.startswith(("/dev/", "/proc/"))
    )


def _source(words: tuple[Word, ...]) -> Runs:
    if words and _is_file(words[0]):
        return Runs(also=(words,))
    return Runs(opaque="a shell runs what it reads", reads_script=True)


def _code(words: tuple[Word, ...], flags: str, valued: str, joined: str, module: str = "") -> Runs:
    """An interpreter with a script or a module. `joined` options have their value in the same word.

    Any other option may bring code of its own.
    """
    opaque = Runs(opaque="it runs code that is not a shell's")
    at = 0
    while at < len(words) and words[at].value.startswith("-"):
        value = words[at].value
        if value in ("--version", "--help", "-V", "-v", "-h") and len(words) == 1:
            return NOTHING
        if value.startswith("--") or value == "-" or at > MAX_STEPS or re.search(f"[{HOLE}\\s]", value):
            return opaque  # perl reads on after a blank
        for place, letter in enumerate(value[1:], 1):
            if letter in module:
                name = value[place + 1 :] or next((word.value for word in words[at + 1 :]), "")
                return opaque if name.partition(".")[0] in CODE_MODULES or HOLE in name else UNKNOWN
            if letter in joined:
                break
            if letter in valued:
                at += place == len(value) - 1
                break
            if letter not in flags:
                return opaque
        at += 1
    return NOTHING if at < len(words) and _is_file(words[at]) else opaque


_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def _find(words: tuple[Word, ...]) -> Runs:
    found: list[tuple[Word, ...]] = []
    opaque = ""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if HOLE in word.value and (not word.is_one or word.value.startswith((HOLE, f"-{HOLE}"))):
            before, _, after = word.value.partition(HOLE)
            if any(
                each.startswith(before) and each.endswith(after.rpartition(HOLE)[2]) for each in _FIND_RUNS
            ):
                opaque = "`find` has words that are not known"
        if word.value not in _FIND_RUNS:
            continue
        start = at
        while at < len(words) and words[at].value not in (";", "+"):
            at += 1
        inner = tuple(each._replace(value=each.value.replace("{}", HOLE)) for each in words[start:at])
        if inner:
            found.append(inner)
        if len(found) > MAX_STEPS:
            return Runs(tuple(found), opaque="`find` runs too many commands")
    return Runs(tuple(found), opaque=opaque)


_SAFE_AWK = re.compile(r"(?!.*(?:system|getline|[|@>\x00]))", re.DOTALL)


def _awk(words: tuple[Word, ...]) -> Runs:
    opaque = Runs(opaque="`awk` can run other commands", is_own=True)
    at = 0
    while at < len(words) and words[at].value.startswith("-"):
        value = words[at].value
        if value[:2] not in ("-F", "-v"):
            return opaque
        at += 2 if len(value) == 2 else 1
    if at < len(words) and words[at].is_one and _SAFE_AWK.match(words[at].value):
        return NOTHING
    return opaque


_SED_ADDRESS = re.compile(r"(?:[0-9]+|\$|/[^/\\]*/)(?:,(?:[0-9]+|\$|\+[0-9]+|/[^/\\]*/))?!?[ \t]*")


def _sed(words: tuple[Word, ...]) -> Runs:
    opaque = Runs(opaque="`sed` can run other commands", is_own=True)
    scripts: list[str] = []
    has_expression = False
    at = 0
    while at < len(words):
        value = words[at].value
        at += 1
        if value in ("-e", "--expression"):
            has_expression = True
            scripts += [word.value for word in words[at : at + 1]]
            at += 1
        elif value.startswith("--expression="):
            has_expression = True
            scripts.append(value.partition("=")[2])
        elif value.startswith("-i") or re.fullmatch(
            r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|null-data)", value
        ):
            continue
        elif value.startswith(("-", HOLE)) and value != "-":
            return opaque
        elif not has_expression:
            has_expression = True
            scripts.append(value)
    return NOTHING if scripts and all(map(_is_safe_sed, scripts)) else opaque


def _is_safe_sed(script: str) -> bool:
    """Whether a script is one command that neither runs nor writes anything."""
    if address := _SED_ADDRESS.match(script):
        script = script[address.end() :]
    if re.fullmatch(r"[pdqDPnNgGhHx=l]", script):
        return True
    if script[:1] not in ("s", "y") or len(script) < 4 or HOLE in script:
        return False
    sign = script[1]
    pieces = re.split(re.escape(sign), re.sub(r"\\.", "xx", script[2:], flags=re.DOTALL))
    return len(pieces) == 3 and re.fullmatch(r"[gpiIm0-9]*", pieces[2]) is not None


def _names(name: str, words: tuple[Word, ...]) -> Runs:
    """Builtins that take names of variables: an index in a name is computed, which can run commands."""
    takes_names = name not in ("test", "[", "printf") or any(word.value.startswith("-v") for word in words)
    options = "".join(word.value[1:] for word in words if word.value.startswith("-"))
    is_passed = name == "export" or (name in DECLARING and "x" in options)
    named = []
    for word in words:
        is_index = "[" in word.value and ("$" in word.value or "`" in word.value)
        is_assigned = bool(ASSIGNMENT.match(word.value))
        if (is_index or (HOLE in word.value and not is_assigned)) and takes_names:
            return Runs(opaque=f"`{name}` takes a name that is computed")
        variable = word.value.removeprefix("-v")
        if name in ("read", "printf") and takes_names and RISKY_VARIABLES.fullmatch(variable):
            return Runs(opaque=f"`{variable}` decides what is run")
        if is_passed and not is_assigned and not word.value.startswith("-"):
            if not HARMLESS_VARIABLES.fullmatch(word.value):
                return Runs(opaque=f"`{name} {value_text(word.value)}` passes a variable on to programs")
        elif name in DECLARING and (risk := risky_assignment(word, is_passed=is_passed)):
            if not is_passed:
                return Runs(opaque=risk)
            named.append(word.value)
    if name in DECLARING and set(options) & set("ifn"):
        return Runs(opaque=f"`{name}` computes values")
    why = f"`{value_text(named[0])}` may change what programs do" if named else ""
    return Runs(opaque=why, is_own=True, named=tuple(named))


def _texts(name: str, words: tuple[Word, ...]) -> tuple[str, ...]:
    """Texts for a shell among the words of programs that are not followed otherwise."""
    values = [word.value for word in words]
    if name == "trap":
        return tuple(values[:1])
    if name == "alias":
        return tuple(value.partition("=")[2] for value in values[:MAX_STEPS] if "=" in value)
    if name in ("su", "script"):
        letters = (at for at, value in enumerate(values) if re.fullmatch(r"-[a-zA-Z]*c|--command", value))
        return tuple(values[at + 1] for at in letters if at + 1 < len(values))[:1]
    if name == "parallel":
        return (" ".join(values),)
    return ()


# --- git ----------------------------------------------------------------------------------------------------

_GIT_OPTIONS = ProgramOptions(
    "pPhv",
    "Cc",
    "paginate no-pager bare no-replace-objects literal-pathspecs glob-pathspecs noglob-pathspecs "
    "icase-pathspecs no-optional-locks no-lazy-fetch version help html-path man-path info-path",
    "git-dir work-tree namespace attr-source exec-path config-env super-prefix list-cmds",
)
_GIT_RISKS = frozenset({"c", "exec-path", "config-env", "paginate", "p"})
_GIT_NAMES = """
    add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout cherry cherry-pick clean clone column commit commit-graph commit-tree config
    count-objects describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch
    fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id
    grep hash-object help index-pack init interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit
    maintenance merge merge-base merge-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev
    notes pack-objects pack-refs patch-id prune pull push range-diff read-tree rebase receive-pack reflog
    remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack
    shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule
    switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-pack
    var verify-commit verify-pack verify-tag version whatchanged worktree write-tree
"""
_GIT_COMMANDS = frozenset(_GIT_NAMES.split())
"""What git has itself. Any other subcommand may be an alias, which can be anything."""
_GIT_RUN_OTHERS = frozenset(
    {"difftool", "mergetool", "for-each-repo", "send-email", "maintenance", "fetch-pack"}
    | {"send-pack", "receive-pack", "upload-pack"}
)
_GIT_RUN_WORDS = frozenset(
    {"filter-branch", "remote-ext", "merge-index", "instaweb", "web--browse", "daemon", "shell"}
)
_NO_RISKS = Risks(skips_holes=True)
_REBASE_EXEC = re.compile(r"(?:-[^-CsXSr]*?x|--e(?:x(?:ec?)?)?=?)(.*)", re.DOTALL)
_GIT_PLAIN_CONFIG = re.compile(
    r"(?:--get|--get-all|--get-regexp|--list|-l|get|list|--show-origin)(?: .*)?"
    r"|\w[\w-]*\.[\w.-]+|(?:--(?:local|global) )?user\.(?:name|email) .*",
    re.DOTALL,
)
"""How `git config` reads, or sets who commits."""


def _git(words: tuple[Word, ...]) -> Runs:
    git = Word("git", "git")
    try:
        parsed = _parsed(_GIT_OPTIONS, words)
    except _Unknown:
        return Runs(opaque="an option or subcommand of `git` is not understood", is_own=True)
    rest = parsed.rest
    also = ((git, *rest),) if len(rest) < len(words) else ()
    if risk := next((name for name, _ in parsed.options if name in _GIT_RISKS), ""):
        return Runs(
            opaque=f"`git {'-' if len(risk) == 1 else '--'}{risk}` can make git run commands", also=also
        )
    if not rest:
        return Runs(also=also, is_own=True)
    name, others = rest[0].value, [word.value for word in rest[1:]]
    if name in _GIT_RUN_WORDS:
        return Runs(opaque=f"`git {name}` can run other commands", also=also)
    if name not in _GIT_COMMANDS:
        return Runs(opaque=f"`git {value_text(name)}` may be an alias", also=also, is_own=True)
    if name == "config" and not _GIT_PLAIN_CONFIG.fullmatch(" ".join(others)):
        why = "`git config` can make git run commands"
        return Runs(opaque=why, also=also, is_own=True, named=("config",))
    if name == "bisect" and others[:1] == ["run"]:
        return Runs((rest[2:],) if rest[2:] else (), also=also, is_own=True)
    if name == "submodule" and "foreach" in others:
        after = others[others.index("foreach") + 1 :]
        script = " ".join(value for value in after if value != "--recursive")
        return Runs(scripts=(script,), opaque="`git submodule foreach` runs commands", also=also, is_own=True)
    if hit := _risky(RISKS.get(f"git {name}", _NO_RISKS), rest[1:]):
        scripts = [
            found[1] or after
            for value, after in pairwise((*others, ""))
            if name == "rebase" and (found := _REBASE_EXEC.fullmatch(value))
        ]
        if scripts and HOLE not in "".join(others):
            return Runs(scripts=tuple(scripts[:MAX_STEPS]), also=also, is_own=True)
        return Runs(opaque=f"`git {name} {value_text(hit)}` can run other commands", also=also)
    if name in _GIT_RUN_OTHERS:
        return Runs(opaque=f"`git {name}` can run other commands", also=also, is_own=True)
    return Runs(also=also, is_own=True)


_SPECIAL: dict[str, Callable[[tuple[Word, ...]], Runs]] = {
    "git": _git,
    "find": _find,
    "gfind": _find,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "sed": _sed,
    "gsed": _sed,
    "make": _make,
    "gmake": _make,
    "scp": _copying,
    "sftp": _copying,
    "set": _set,
    "source": _source,
    ".": _source,
}
