"""Tables of programs: those that run others, with their options, and those whose words are never commands."""

from __future__ import annotations

import re
from typing import NamedTuple


class ProgramOptions(NamedTuple):
    """How a program's options are written. Short ones are letters, long ones names with blanks between."""

    flags: str = ""
    valued: str = ""
    longs: str = ""
    long_valued: str = ""
    before: int = 0
    """How many words come between the options and the command."""
    assigns: bool = False
    """Whether assignments may come before the command."""
    scripts: str = ""
    """Options among those with values whose value is text for a shell."""
    is_joined: bool = False
    """Whether the words of the command are joined to text for a shell."""
    silent: str = ""
    """Options with which nothing is run."""
    optional: str = ""
    """Short options whose value, if any, is in the same word."""


RUNNERS: dict[str, ProgramOptions] = {
    "command": ProgramOptions("pvV", silent="vV"),
    "builtin": ProgramOptions(),
    "exec": ProgramOptions("cl", "a"),
    "nohup": ProgramOptions(longs="help version"),
    "setsid": ProgramOptions("cfw", longs="ctty fork wait help version"),
    "nice": ProgramOptions("0123456789", "n", long_valued="adjustment"),
    "ionice": ProgramOptions("t", "cn", "ignore", "class classdata"),
    "chrt": ProgramOptions(
        "abdfiormv", "TPD", "all-tasks batch deadline fifo idle other reset-on-fork rr", before=1
    ),
    "taskset": ProgramOptions("ac", longs="all-tasks cpu-list", before=1),
    "timeout": ProgramOptions("v", "ks", "foreground preserve-status verbose", "kill-after signal", before=1),
    "gtimeout": ProgramOptions(
        "v", "ks", "foreground preserve-status verbose", "kill-after signal", before=1
    ),
    "stdbuf": ProgramOptions("", "ioe", "", "input output error"),
    "unbuffer": ProgramOptions("p"),
    "time": ProgramOptions("apvqlh", "fo", "append portability verbose quiet", "format output"),
    "env": ProgramOptions(
        "i0v",
        "uCSP",
        "ignore-environment null debug list-signal-handling",
        "unset chdir split-string",
        assigns=True,
        scripts="S split-string",
    ),
    "sudo": ProgramOptions(
        "AbBEHiKknPsSN",
        "aCcDgpRrTtUu",
        "askpass background bell preserve-env set-home login shell reset-timestamp non-interactive stdin",
        "auth-type close-from chdir group host prompt chroot role command-timeout type other-user user",
        assigns=True,
    ),
    "doas": ProgramOptions("Lns", "aCu"),
    "pkexec": ProgramOptions(longs="disable-internal-agent keep-cwd", long_valued="user"),
    "runuser": ProgramOptions("lfmp", "ucgGs", "login", "user command group shell", scripts="c command"),
    "chroot": ProgramOptions(longs="skip-chdir", long_valued="userspec groups", before=1),
    "unshare": ProgramOptions(
        "muinpUCTrfc", "SGRw", "mount uts ipc net pid user cgroup time fork map-root-user"
    ),
    "nsenter": ProgramOptions("ae", "tSG", "all", "target setuid setgid"),
    "flock": ProgramOptions(
        "sexunoFv",
        "wEc",
        "shared exclusive unlock nonblock nb close no-fork verbose",
        "timeout wait conflict-exit-code command",
        before=1,
        scripts="c command",
    ),
    "xargs": ProgramOptions(
        "0rtxpo",
        "adEILnPsJRS",
        "null no-run-if-empty verbose exit interactive open-tty show-limits replace eof max-lines",
        "arg-file delimiter max-args max-procs max-chars process-slot-var",
        optional="ile",
    ),
    "watch": ProgramOptions(
        "bcCdegptwx",
        "nq",
        "beep color errexit chgexit precise no-title no-wrap exec no-rerun differences",
        "interval equexit",
        is_joined=True,
    ),
    "ssh": ProgramOptions("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpQRSWw", before=1, is_joined=True),
    "caffeinate": ProgramOptions("disum", "tw"),
    "busybox": ProgramOptions(),
    "toybox": ProgramOptions(),
    "eval": ProgramOptions(is_joined=True),
    "prlimit": ProgramOptions("", "o", "", "nofile nproc as core cpu data fsize memlock stack rss"),
    "catchsegv": ProgramOptions(),
    "fakeroot": ProgramOptions(),
    "dbus-run-session": ProgramOptions(),
    "winpty": ProgramOptions(),
    "rlwrap": ProgramOptions(),
    "arch": ProgramOptions(),
    "cpulimit": ProgramOptions("zib", "lpe"),
}

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "yash", "rbash", "fish", "csh", "tcsh"}
)
_RUN_ANYTHING_NAMES = """
    Rscript alias at batch bind bun bwrap capsh compgen complete crontab daemonize dc deno ed emacs
    emacsclient enable entr ex expect fairlead fc firejail gdb getopts guile guix gvim hash hyperfine ipython
    irb julia let lldb logsave ltrace lua luajit m4 mapfile nc ncat netcat nix-shell nvim osascript parallel
    perf php proot pwsh racket readarray run-parts rview rvim sbcl screen script setpriv socat
    ssh-agent start-stop-daemon strace su systemd-run tclsh tmux trap valgrind vi view vim vimdiff xterm
"""
RUN_ANYTHING = frozenset(_RUN_ANYTHING_NAMES.split())
"""Programs with so many ways to run others that these are not followed."""
_RUN_OWN_NAMES = """
    R clj clojure elixir erl ftp ghc gnuplot groovy iex jshell mysql ocaml octave psql raku runghc scala
    sqlite3 ts-node tsx
"""
RUN_OWN = frozenset(_RUN_OWN_NAMES.split())
"""The same, but who allows such a program by name means its own language, which can run commands, too."""
_CODE_MODULE_NAMES = """
    IPython asyncio bdb bpython cProfile code coverage debugpy doctest idlelib pdb pickle profile ptpython
    pydoc runpy timeit trace xonsh
"""
CODE_MODULES = frozenset(_CODE_MODULE_NAMES.split())
"""Modules for `python -m` that run code in their words, in their input, or in any file."""


class Risks(NamedTuple):
    """Options with which a program runs something else than itself, or loads code."""

    shorts: str = ""
    """Letters; any word of letters after a dash may have them among others."""
    longs: str = ""
    """Long names, whole; a shortened one counts, too."""
    valued: str = ""
    """Letters of other options that take a value, which is what follows in the same word."""
    starts: str = ""
    """How other words begin that count: names after one dash, addresses."""
    is_bare: bool = False
    """Whether the first word has letters without a dash, as in `tar xf`."""
    skips_holes: bool = False
    """Whether a word that is not known is taken for an address or a revision, and not for an option."""


_NODE = Risks(
    "c", "script-shell shell node-options call git init-module userconfig globalconfig viewer editor browser"
)
_COMPILER = Risks(
    longs="ld-path specs config gcc-toolchain gcc-install-dir",
    starts="-wrapper -fplugin -fpass-plugin -fmodule-mapper -specs -load -fuse-ld -B -Xclang -Xlinker -Wl, @",
)
_DIFF = Risks(longs="ext-diff", skips_holes=True)
_PACKS = Risks(longs="upload-pack receive-pack exec", starts="ext::")
RISKS: dict[str, Risks] = {
    "tar": Risks(
        "IF",
        "to-command checkpoint-action use-compress-program info-script new-volume-script rsh-command "
        "rmt-command",
        "CTXfLbHVKNg",
        is_bare=True,
    ),
    "cpio": Risks(longs="rsh-command rmt-command", valued="CEFHIMORD"),
    "curl": Risks("K", "engine config", "AbcCdDeEFhHmoPQrtTuUwxXyYz", skips_holes=True),
    "wget": Risks("e", "use-askpass execute config", "oaitOTwQPUADRIlXB", skips_holes=True),
    "openssl": Risks(starts="-engine -provider -config --engine --provider --config"),
    "go": Risks(
        starts="-exec --exec -toolexec --toolexec -vettool --vettool -ldflags --ldflags -overlay --overlay "
        "-gccgoflags --gccgoflags"
    ),
    "cargo": Risks(longs="config", starts="linker= -Clinker="),
    "rake": Risks("eEp", "execute execute-print execute-continue", "fGIjrTWtDPR"),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn"), _NODE),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _COMPILER),
    "rsync": Risks("e", "rsh rsync-path daemon config dparam", "BfMT"),
    "zip": Risks("T", "unzip-command", "bintPOsx"),
    "ssh-add": Risks("sS"),
    "ssh-keygen": Risks("Dw"),
    "man": Risks("PHCX", "pager html config-file gxditview", "LmMsSerRETpw"),
    "rg": Risks(longs="pre hostname-bin", valued="ABCdEefgjmMrtT"),
    "sort": Risks(longs="compress-program", valued="kStTo"),
    **dict.fromkeys(("fd", "fdfind"), Risks("xX", "exec exec-batch", "dEtecSjoC")),
    "jobs": Risks("x"),
    "less": Risks("k", "lesskey-file lesskey-src lesskey-content", "bhjoOpPtTxyz", "+"),
    "split": Risks(longs="filter", valued="abClnt"),
    "install": Risks(longs="strip-program", valued="gmoStT"),
    "dpkg": Risks(longs="pre-invoke post-invoke"),
    **dict.fromkeys(("apt", "apt-get"), Risks("ocb", "option config-file compile build", "taP")),
    **dict.fromkeys(("pip", "pip3"), Risks(longs="python")),
    "git rebase": Risks("x", "exec", "CsXSr"),
    "git grep": Risks("O", "open-files-in-pager", "CBAfem"),
    "git clone": Risks("uc", "upload-pack config template", "job", "ext::"),
    "git init": Risks(longs="template", valued="b"),
    **dict.fromkeys(("git fetch", "git pull", "git archive", "git ls-remote", "git push"), _PACKS),
    **dict.fromkeys(("git fetch-pack", "git send-pack"), _PACKS),
    **dict.fromkeys(("git remote", "git submodule"), Risks(starts="ext::", skips_holes=True)),
    "git difftool": Risks("x", "extcmd", "t"),
    "git send-email": Risks(
        longs="to-cmd cc-cmd header-cmd sendmail-cmd smtp-server upload-pack receive-pack exec"
    ),
    **dict.fromkeys(
        (f"git {each}" for each in ("diff", "log", "show", "format-patch", "whatchanged")), _DIFF
    ),
    **dict.fromkeys((f"git {each}" for each in ("stash", "diff-tree", "diff-index", "diff-files")), _DIFF),
}
"""By program, or by subcommand of git."""
_NODE_FETCH = (
    r"(x|exe?c?|dlx|ini\w*|inn\w*|cr\w*|explor\w*|ed\w*|(?:c|conf\w*) (?:set|edit)|set|env) .*"
    r"|(i|in|ins\w*(?:-\w+)?|isnt\w*|(?:global )?add) (?:[-.]\S* )*[^-.\s].*"
)
"""Also installing a package by its name, as that runs its scripts; not what the project has in its lists."""
_PIP_FILES = r"-[rce] \S+ |--(?:requirement|constraint|editable) \S+ "
_PIP_FETCH = (
    r"(install|download|wheel) .*(?:://|git\+).*"
    rf"|(install|download|wheel) (?>(?:{_PIP_FILES}|-\S* |\.\S* )*)[^-.\s].*"
)
FETCHING: dict[str, str] = {
    **dict.fromkeys(("npm", "pnpm", "yarn"), _NODE_FETCH),
    "uv": rf"(tool (?:run|install)|x|add) .*|pip (?:{_PIP_FETCH})|run .*(--with).*",
    **dict.fromkeys(("poetry", "pipenv"), r"(add|install) (?:[-.]\S* )*[^-.\s].*"),
    "pipx": r"(run|runpip|install\w*|inject) .*",
    **dict.fromkeys(("pip", "pip3"), _PIP_FETCH),
    "cargo": r"(install|binstall) .*",
    "go": r"(run|install) .*(?:@|://).*|(env) .*-w .*",
    "gem": r"(install|i|exec|ins\w*) .*",
    "docker-compose": r"(run|exec|up|build|create) .*",
    **dict.fromkeys(("docker", "podman"), r"((?:\w+ )?(?:run|exec|create)|build|buildx) .*"),
}
"""Subcommands that run what others wrote, by name or address, or set what is run: a rule must name them."""
NAMING = frozenset({"test", "[", "printf", "unset", "read", "wait", "declare", "typeset", "local"})
DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly"})
HARMLESS_VARIABLES = re.compile(
    "LANG|LANGUAGE|LC_[A-Z]+|TZ|CI|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES"
)
"""Variables that only change how a program prints."""
HARMLESS_VALUES = re.compile("[0-9]*|yes|no|true|false|on|off", re.IGNORECASE)
_PLAIN_PROGRAMS_NAMES = """
    : [ awk basename break cat cd chmod chown cmp column comm continue cp curl cut date df diff dirname du
    echo egrep exit export expr false fgrep file find fmt fold gawk git grep gzip head hexdump hostname id
    join jq kill ln ls man mawk md5sum mkdir mv mypy nawk nl nproc od paste printenv printf ps pwd pytest
    read readlink realpath return rev rg rm rmdir rsync ruff sed seq set sha256sum shift sleep sort stat tac
    tail tar tee test touch tr tree true type uname uniq unset unzip wait wc wget which whoami xxd zip
"""
PLAIN_PROGRAMS = frozenset(_PLAIN_PROGRAMS_NAMES.split())
"""Programs whose words are never commands."""
