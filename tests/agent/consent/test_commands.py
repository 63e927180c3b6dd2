"""Rules that deny and ask find a command however it is written. The real shell says what is run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.agent.consent.commands import MAX_JUDGED, take_apart
from fairlead.agent.consent.policy import ConsentRule, ConsentVerdict, Policy
from fairlead.agent.tools import Touch

PROJECT = Path("/home/me/project")
DENY_RM = ConsentRule("bash", "deny", match="rm *")
ASK_PUSH = ConsentRule("bash", "ask", match="git push*")
DOCUMENTED = (ConsentRule("bash", "allow", match="git *"), ASK_PUSH, DENY_RM)
EVERYTHING = (ConsentRule("bash", "allow"), ASK_PUSH, DENY_RM)
"""All is allowed, but for these two."""
BY_PATTERN = (ConsentRule("bash", "allow", match="*"), ASK_PUSH, DENY_RM)
PATIENCE = 20.0


def verdict(rules: tuple[ConsentRule, ...], command: str, *, allows_all: bool = False) -> ConsentVerdict:
    return Policy(PROJECT, rules, allows_all).judge("bash", Touch("run", "", command=command))


def decide(rules: tuple[ConsentRule, ...], command: str) -> str:
    return verdict(rules, command).decision


PUSHES = [
    "git push",
    'git "push" origin main',
    "git \\push",
    "git -C . push",
    "git -c x.y=z push",
    "git --git-dir=.git push",
    "git --git-dir .git push",
    "git --no-pager -C . --work-tree=. push",
    "git $(echo push)",
    "git `echo push`",
    "git $'pu\\x73h'",
    "git p''ush",
    "X=push; git $X",
    "git pus\\\nh",
    "git ${X:-push}",
    "git {push,origin}",
    "git pu?h",
    "/usr/bin/env git push",
    "g=git; $g push",
    "cd . && git push",
    "(git push)",
    "{ git push; }",
    "echo x | git push",
    "git status; git push",
    "git status\ngit push",
    "git status & git push",
    "! git push",
    "git $EMPTY push",
    "sh -c 'git push'",
    "eval git push",
    "git -c alias.p=push p",
    "git $(printf 'pu%s' sh)",
    "> /dev/null git push",
    "A=b git push",
    "git push < /dev/null",
    "echo $(git push)",
    'echo "$(git push)"',
    "cat <(git push)",
    "xargs git < words",
    "IFS=_; c=git_push; $c",
]
TAR_OPTIONS = 'TAR_OPTIONS="--checkpoint=1 --checkpoint-action=exec=rm"'
REMOVALS = [
    "rm x",
    "'rm' x",
    "\\rm x",
    '"r"m x',
    "$'\\x72m' x",
    "$'\\162\\155' x",
    "{rm,-rf,x}",
    "r{m,} x",
    "timeout 5 rm x",
    "timeout -k 1 -s KILL 5 rm x",
    "timeout --signal=KILL 5 rm x",
    "nice -n 5 rm x",
    "nice -5 rm x",
    "nice --adjustment=5 rm x",
    "nohup rm x",
    "setsid -w rm x",
    "stdbuf -o0 rm x",
    "stdbuf --output=0 rm x",
    "env rm x",
    "env A=b rm x",
    "env -S 'rm x'",
    'env -i PATH="$PATH" LOG="$LOG" rm x',
    "env -u FOO rm x",
    "env --unset=FOO rm x",
    "echo x | xargs rm",
    "echo x | xargs -n 1 rm",
    "echo x | xargs -I{} rm {}",
    "echo x | xargs -i rm {}",
    "echo rm | xargs -I{} env {} x",
    "echo 'rm x' | xargs -I{} sh -c '{}'",
    "find . -maxdepth 0 -exec rm {} \\;",
    "find . -maxdepth 0 -exec rm {} +",
    "find . -maxdepth 0 -execdir rm {} ';'",
    "sh -c 'rm x'",
    "bash -lc 'rm x'",
    "bash -c -e 'rm x'",
    "bash --norc -c 'rm x'",
    "sh -c 'sh -c \"rm x\"'",
    'sh -c "$(echo rm x)"',
    "bash -c '$0 x' rm",
    "bash -c '\"$@\"' _ rm x",
    "eval rm x",
    "eval 'r''m x'",
    'eval "$(echo cm0geA== | base64 -d)"',
    "echo rm x | sh",
    "echo 'rm x' | bash -s",
    "echo 'rm x' | sh -s git",
    'bash "$BIN/rm" x',
    "bash rm x",
    ". rm x",
    "sh <<< 'rm x'",
    "sh <<EOF\nrm x\nEOF",
    "sh <<'E'F\nrm x\nEF",
    "cat <<EOF | sh\nrm x\nEOF",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\nEOF\nrm x",
    "bash <(echo rm x)",
    ". <(echo rm x)",
    "source /dev/stdin <<< 'rm x'",
    "exec rm x",
    "exec -a y rm x",
    "command rm x",
    "command -p env rm x",
    "builtin command rm x",
    "time rm x",
    "time -p rm x",
    "flock /dev/null rm x",
    "flock /dev/null -c 'rm x'",
    "script -qc 'rm x' /dev/null",
    "X=rm; $X x",
    "X='rm x'; $X",
    "X=r; ${X}m x",
    'a=(rm x); "${a[@]}"',
    'set -- rm x; "$@"',
    'rm() { command rm "$@"; }; rm x',
    "f() { rm x; }; f",
    "function f { rm x; }; f",
    "if true; then rm x; fi",
    "for f in x; do rm $f; done",
    "for c in rm; do $c x; done",
    "set -- x; for f do rm $f; done",
    "for f\nin x; do rm $f; done",
    "while rm x; do break; done",
    "until rm x; do break; done",
    "case a in a) rm x;; esac",
    "case a in (b) :;; a|c) rm x; esac",
    "case rm in r*) rm x ;; esac",
    "[[ a == a ]] && rm x",
    "[[ -n $(rm x) ]]",
    "((1)) && rm x",
    "echo $((1 + $(rm x; echo 1)))",
    "a='z[$(rm x)]'; echo $((a))",
    "a='z[$(rm x)]'; [[ $a -eq 1 ]]",
    "printf -v 'z[$(rm x)]' y",
    "PS4='$(rm x)'; set -x; true",
    "a='$(rm x)'; echo \"${a@P}\"",
    "echo ${Y:-$(rm x)}",
    'echo "${Y:-`rm x`}"',
    'echo "a\\"$(rm x)"',
    "true & rm x",
    "true || true; rm x",
    "true |& rm x",
    "true # y\nrm x",
    "true \\# ; rm x",
    "echo a#b; rm x",
    "r\\\nm x",
    "true &&\\\nrm x",
    "echo $\\\n(rm x)",
    "trap 'rm x' EXIT",
    "alias y='rm x'\nshopt -s expand_aliases\ny",
    "shopt -s expand_aliases\nalias y=rm\ny x",
    "coproc rm x; wait",
    "coproc Y { rm x; }; wait",
    "cd . ; $(which rm) x",
    "$(command -v rm) x",
    '"$BIN/rm" x',
    "$BIN/r? x",
    "$BIN/[r]m x",
    'cd "$BIN"; ./rm x',
    'cd "$BIN"; ./r* x',
    'hash -p "$BIN/rm" y; y x',
    "PATH=$BIN:$PATH rm x",
    "python3 -c 'import os; os.system(\"rm x\")'",
    "echo 'import os; os.system(\"rm x\")' | python3",
    "perl -e 'system(\"rm x\")'",
    "perl -pi -e 'system(\"rm x\")' words",
    "perl -l -0777 -ne 'system(\"rm x\")' words",
    "perl -0777pe 'system(\"rm x\")' words",
    "perl -l012ne 'system(\"rm x\")' words",
    "python3 -W ignore -uc 'import os; os.system(\"rm x\")'",
    "awk 'BEGIN { system(\"rm x\") }'",
    'awk \'BEGIN { print "x" | "rm x" }\'',
    "sed '1e rm x' /etc/hostname",
    "echo rm x | sed 's/y//;e'",
    "git -c alias.y='!rm x' y",
    "git -c core.fsmonitor='rm x' status",
    "GIT_EXTERNAL_DIFF='rm x' git diff --no-index /etc/hostname /etc/passwd",
    "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='rm x' /etc/hostname",
    "tar cf /dev/null --checkpoint=1 --checkpoint-act=exec='rm x' /etc/hostname",
    "tar -c -I 'rm x' -f /dev/null /etc/hostname",
    "tar cIf 'rm x' /dev/null /etc/hostname",
    "jobs -x rm x",
    "mapfile -C 'rm x' -c 1 y <<< z",
    "exec 3>&1; rm x >&3",
    ">/dev/null rm x",
    "2>/dev/null rm x",
    "{ rm x; } 2>/dev/null",
    "let 'a[$(rm x)]=1'",
    "declare -i a='b[$(rm x)]'",
    "read 'a[$(rm x)]' <<< 1",
    "unset 'a[$(rm x)]'",
    "test -v 'a[$(rm x)]'",
    "nice timeout 5 env nohup rm x",
    "busybox sh -c 'rm x'",
    "sudo -u root rm x",
    "doas -u root rm x",
    "su -c 'rm x'",
    "watch -n 1 rm x",
    "ionice -c 3 rm x",
    "chroot / rm x",
    "unshare -r rm x",
    "parallel rm ::: x",
    "strange-wrapper --option rm x",
    "ssh host rm x",
    "/bin/rm x",
    "./rm x",
    "RM x",
    "sudo --unknown-option rm x",
    "python3 -m timeit -n1 -r1 'import os; os.system(\"rm x\")'",
    "python3 -mtimeit -n1 -r1 'import os; os.system(\"rm x\")'",
    "echo 'import os; os.system(\"rm x\")' | python3 -m code",
    "python3 -m pdb -c '!import os; os.system(\"rm x\")' -c q plain.py",
    "make CC='rm x;'",
    "make SHELL=rm",
    "printf 'all:\\n\\trm x\\n' | make -f -",
    "printf 'all:\\n\\trm x\\n' | make --makefile=/dev/stdin",
    "printf 'all:\\n\\trm x\\n' | make -kf-",
    "make -f <(printf 'all:\\n\\trm x\\n')",
    "CC=rm make -e",
    f"{TAR_OPTIONS} tar xf a.tar",
    f"env {TAR_OPTIONS} tar xf a.tar",
    f"nice env {TAR_OPTIONS} nice tar xf a.tar",
    f"export {TAR_OPTIONS}; tar xf a.tar",
    f"{TAR_OPTIONS}; export TAR_OPTIONS; tar xf a.tar",
    f"declare -gx {TAR_OPTIONS}; tar xf a.tar",
    f"set -a; {TAR_OPTIONS}; tar xf a.tar",
    f"set -o allexport; {TAR_OPTIONS}; tar xf a.tar",
    f"set -k; tar xf a.tar {TAR_OPTIONS}",
    f"bash -ac '{TAR_OPTIONS}; tar xf a.tar'",
    'read PATH <<< "$BIN"; r""m x',
    'for PATH in "$BIN"; do r""m x; done',
    'scp -S "$BIN/rm" words localhost:',
    "scp -o ProxyCommand='rm x' words localhost:",
    "ssh -F config localhost",
    "strange-wrapper run python3 -c 'import os; os.system(\"rm x\")'",
    "strange-wrapper sh -c 'cd .;rm x'",
    "strange-wrapper --call='cd .&&rm x'",
    "git rebase -fx 'rm x' --root",
    "git rebase -qfx'rm x' --root",
    "git rebase --force --exe 'rm x' --root",
    'git rebase -f "$(git log -1 --format=--exec=rm%x20x)" --root',
    "git grep -nO'rm x;:' all",
    "git grep --open='rm x;:' all",
    "git clone -qu 'rm x;git-upload-pack' . z1",
    "git clone -nlu 'rm x;git-upload-pack' . z2",
    "git difftool -yx 'rm x' --no-index Makefile plain.py",
    "tar -cM -L10 --new-v='rm x;false' -f y.tar big",
    "tar -cML10 -F 'rm x;false' -f y.tar big",
    "tar -cvIrm -f /dev/null Makefile",
    "perl '-i -esystem(\"rm x\")' words",
]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an `rm` and a `git` that do nothing but write down how they were called."""
    directory = tmp_path_factory.mktemp("bin")
    real = shutil.which("git") or "true"
    (directory / "rm").write_text('#!/bin/sh\necho rm "$@" >> "$LOG"\n')
    (directory / "git").write_text(
        f'#!/bin/sh\necho git "$@" >> "$LOG"\ncase "$*" in *push*) ;; *) exec {real} "$@";; esac\n'
    )
    for each in directory.iterdir():
        each.chmod(0o700)
    return directory


def ran(command: str, shell: str, stand_ins: Path, directory: Path) -> list[str]:
    """How the stand-ins were called when a shell ran a command."""
    log = directory / "log"
    log.unlink(missing_ok=True)
    (directory / "push").touch()  # what a glob may find
    (directory / "words").write_text("push\n")
    environment = {
        **{"PATH": f"{stand_ins}:/usr/bin:/bin", "LOG": str(log), "BIN": str(stand_ins)},
        **{"HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"},
    }
    subprocess.run(
        [shell, "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return log.read_text().splitlines() if log.exists() else []


def is_harmful(called: list[str]) -> bool:
    return any(call.startswith("rm") or (call.startswith("git") and "push" in call) for call in called)


NOT_RUN = (
    "bash -lc",
    "sudo",
    "doas",
    "su",
    "ssh",
    "watch",
    "chroot",
    "unshare",
    "parallel",
    "/bin/rm",
    "./rm",
    "RM",
    "strange",
)
"""Commands that are only judged: they would need rights or programs, or reach the real thing."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(directory)], check=False, capture_output=True)
    (directory / "Makefile").write_text("all:\n\t$(CC) x\n")
    (directory / "plain.py").write_text("pass\n")
    (directory / "big").write_bytes(bytes(50_000))
    subprocess.run(["tar", "cf", "a.tar", "Makefile"], cwd=directory, check=False)
    for words in ("config user.name x", "config user.email x@y", "add Makefile", "commit -qm x"):
        subprocess.run(["git", *words.split()], cwd=directory, check=False)
    return directory


@pytest.mark.parametrize("command", [*PUSHES, *REMOVALS])
def test_what_the_shell_runs_is_never_allowed_unseen(command: str, stand_ins: Path, repository: Path) -> None:
    """Not by the rules of the documentation, nor where all else is allowed, nor with `yes`."""
    if not command.startswith(NOT_RUN):
        called = ran(command, shutil.which("bash") or "/bin/sh", stand_ins, repository)
        is_there = shutil.which(command.split(maxsplit=1)[0]) is not None and sys.platform == "linux"
        assert is_harmful(called) or not is_there, "the example does nothing"
    for rules in (DOCUMENTED, EVERYTHING, BY_PATTERN):
        assert decide(rules, command) != "allow", rules
    if command in REMOVALS:
        assert verdict((DENY_RM,), command, allows_all=True).decision != "allow"


ATOMS = ["rm", "git", "push", "x", "echo", "sh -c", "eval", "env", "nice", "'", '"', "\\", "$(", ")", "`"]
ATOMS += [
    ";",
    "|",
    "&&",
    "\n",
    " ",
    " ",
    " ",
    "{",
    "}",
    ",",
    "(",
    "#",
    "$X",
    "${X}",
    "$'",
    "<<E\n",
    "E\n",
    "=",
    "-c",
]


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(st.sampled_from(ATOMS), min_size=1, max_size=9))
def test_no_mixture_of_quotes_and_words_runs_unseen(
    pieces: list[str], stand_ins: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    command = "".join(pieces)
    if decide(EVERYTHING, command) != "allow":
        return
    directory = tmp_path_factory.mktemp("mixed")
    for shell in filter(None, (shutil.which("bash"), shutil.which("dash"))):
        called = ran(command, shell, stand_ins, directory)
        assert not is_harmful(called), (shell, called)


@pytest.mark.parametrize(
    "command",
    [
        "timeout 5 rm x",
        "sudo -u root rm x",
        "nice -n 5 rm x",
        "env -S 'rm x'",
        "find . | xargs rm",
        "find . -exec rm {} \\;",
        "sh -c 'rm x'",
        "bash -lc 'cd y && rm -rf x'",
        "eval 'r''m x'",
        "$'\\x72m' x",
        "{rm,-rf,x}",
        "/bin/rm x",
        "sh <<E\nrm x\nE",
        "trap 'rm x' EXIT",
        "git bisect run rm x",
        "git submodule foreach 'rm x'",
        "git rebase -x 'rm x' main",
        "rm $X",
        'sh -c "rm $X"',
    ],
)
def test_a_rule_that_denies_is_not_evaded_by_what_runs_the_command(command: str) -> None:
    for rules in ((DENY_RM,), EVERYTHING, BY_PATTERN):
        assert decide(rules, command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        'git commit -m "rm is not push"',
        "git -C sub --no-pager log",
        "git show $(git rev-parse HEAD)",
        "git log --oneline | git shortlog 2>&1",
        "git log '*.py' && git diff *.py",
        "git stash push",
        "git remote -v",
    ],
)
def test_what_is_understood_and_allowed_is_not_asked_about(command: str) -> None:
    assert decide(DOCUMENTED, command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "make test",
        "grep -r rm .",
        "echo 'rm x' > notes.txt",
        "for x in *.py; do echo $x; done",
        "cat <<'EOF' > a.py\nimport x  # rm y\nEOF",
        "timeout 60 pytest -q tests",
        "cd src && ls -l | sort -k 2 | head",
        "if [ -f x ]; then cat x; fi",
        "awk '{ print $1 }' file",
        "sed -n '1,20p' file; sed -i 's/a/b/g' file",
        "python3 script.py --rm",
        "bash build.sh",
        "A=1 B=2 make",
        "find . -name '*.py' -type f",
        "git commit -m 'git push comes later'",
        "command -v rm",
        "bash -o pipefail -c 'make | tee log'",
        "perl -w tool.pl; node app.js; python3 -m pytest -q",
    ],
)
def test_where_all_is_allowed_only_what_could_be_meant_is_asked_about(command: str) -> None:
    assert decide(EVERYTHING, command) == "allow"
    assert verdict((DENY_RM,), command, allows_all=True).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git ls-remote --upload-pa='rm x;' .",
        "git fetch-pack --exec='rm x;' .",
        "git clone -c core.fsmonitor='rm x;' . z",
        "git clone -qc core.fsmonitor='rm x;' . z",
        "git rebase --exe='rm x' HEAD",
        "git push --exe='rm x' origin",
        "split --filter='rm x' /etc/hostname",
        r"make --eval='$(shell \rm x)'",
        "fairlead approvals allow 7",
        "git rebase -ix 'rm x' --root",
        "git rebase -kx 'rm x' --root",
        "git grep -iOx hello",
        "git clone -lu x . z",
        "git filter-branch --tree-filter 'rm x'",
        "git remote-ext origin 'rm x'",
        "git merge-index rm -a",
        "git config core.pager 'rm x'",
        "git config --global alias.y '!rm x'",
        "git config -e",
        "zip -rTT 'rm x' a b",
        "ssh-agent rm x",
        "git send-email --to-c='rm x' y",
        "rsync -avze 'rm x' a b:c",
        "rsync --rsync-p='rm x' a b:c",
        "wget --use-ask=x y",
        "wget -qe use_askpass=x y",
        "curl -sK x",
        "man -aP 'rm x' ls",
        "sort --comp=x y",
        "less -Nk x y",
        "cargo rustc -- -C linker=x",
        "gcc -B. x.c",
        "gcc -fmodules-ts '-fmodule-mapper=|rm x' -c x.cc",
        "gcc x.c -Wl,-O1,--plugin=x.so",
        "gcc x.c -Xlinker -plugin -Xlinker x.so",
        "clang --gcc-toolchain=. x.c",
        "apt-get source -yb x",
        "apt source --compile x",
        "pip --python ./x list",
        "go build -ldflags=-extld=x",
        "sftp -b x host",
        "ssh host -o ProxyCommand=x",
    ],
)
def test_options_that_run_commands_are_asked_about_however_they_are_written(command: str) -> None:
    allowed = ConsentRule("bash", "allow", match=f"{command.split(maxsplit=1)[0]} *")
    assert decide((allowed,), command) == "ask"
    assert decide((allowed, DENY_RM), command) != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "tar -xzf FILE.tar.gz -C In",
        "tar xf a.tar",
        "tar -cfIF.tar x",
        "git grep -eOff x",
        "git rebase -Xfix -sx main",
        "git rebase -i --onto a b",
        "git clone -bu https://x.y/z",
        "git push -u origin main",
        "git fetch -u --all --prune",
        "git diff -Oorder --stat",
        "git commit --template=x",
        "git config user.name",
        "git config --get user.name",
        "git config user.name 'A B'",
        "zip -rq a.zip b",
        "rsync -avz --exclude=.git a b",
        "rsync -fe a b",
        "sort -tc -k2 x",
        "rg --pre-glob x y",
        "npm run create",
        "npm install",
        "npm --silent test",
        "npm config get x",
        "go run ./cmd/x",
        "go test ./...",
        "cargo build --release",
        "docker ps",
        "pip install -e .",
        "pip install -q -r requirements.txt --no-deps .",
        "pip install -U -c c.txt -e ./a",
        "npm install --omit=dev .",
        "npm ci",
        "uv pip install -r x.txt",
        "apt-get -y -tstable update",
        "gcc -O2 -o a a.c -lm",
    ],
)
def test_options_that_run_nothing_are_not_taken_for_others(command: str) -> None:
    allowed = ConsentRule("bash", "allow", match=f"{command.split(maxsplit=1)[0]} *")
    assert decide((allowed, ConsentRule("bash", "deny", match="shred *")), command) == "allow"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("npm init x", "npm init *"),
        ("npm --silent create x", "npm * create*"),
        ("npm exe x", "npm exe *"),
        ("npm config set script-shell x", "npm config set *"),
        ("yarn create x", "yarn create *"),
        ("pnpm dlx x", "pnpm dlx *"),
        ("uv tool run x", "uv tool run *"),
        ("pipx run x", "pipx run *"),
        ("cargo install x", "cargo install *"),
        ("go run x.y/z@latest", "go run *"),
        ("go env -w CC=x", "go env *"),
        ("pip install git+https://x.y/z", "pip install *"),
        ("pip install x", "pip install *"),
        ("pip install -r x.txt y", "pip install *"),
        ("pip3 -q install -U x==1", "pip3 * install *"),
        ("uv pip install x", "uv pip install *"),
        ("uv add x", "uv add *"),
        ("poetry add x", "poetry add *"),
        ("npm install x", "npm install *"),
        ("npm i -D x", "npm i *"),
        ("npm install-test x", "npm install-test *"),
        ("pnpm add x", "pnpm add *"),
        ("yarn global add x", "yarn global add *"),
        ("gem install x", "gem install *"),
        ("docker run x", "docker run *"),
        ("git config core.pager x", "git config *"),
        ("docker --context y container exec x sh", "docker * container exec *"),
    ],
)
def test_what_fetches_and_runs_a_package_is_allowed_only_by_a_rule_that_names_it(
    command: str, rule: str
) -> None:
    for match, then in ((f"{command.split(maxsplit=1)[0]} *", "ask"), (rule, "allow")):
        allowed = ConsentRule("bash", "allow", match=match)
        assert decide((allowed,), command) == then
        assert decide((allowed, ConsentRule("bash", "deny", match="shred *")), command) == then


@pytest.mark.parametrize(
    ("command", "rule", "allowed"),
    [
        ("LANG=C LC_ALL=C TZ=UTC CI=1 NO_COLOR=1 sort x", "sort *", True),
        ("DEBUG=1 VERBOSE=yes tool x", "tool *", True),
        ("X=y tool x", "tool *", False),
        ("X=y tool x", "*", False),
        ("X=y tool x", "X=* tool *", True),
        ("X=y tool x", "X=z tool *", False),
        ("X='y z' Z=1 tool x", "X=* tool *", True),
        ("X=y Y=z tool x", "X=* tool *", False),
        ("X=y other; X=y tool x", "X=* tool *", False),
        ("X=y rm y tool x", "X=* tool *", False),
        ("tool x", "DRY=1 tool *", False),
        ("DRY=1 tool x", "DRY=1 tool *", True),
        ("DRY=1 DRY=0 tool x", "DRY=1 tool *", False),
        ("env X=y tool x", "tool *", False),
        ("env LANG=C tool x", "tool *", True),
        ("env X=y tool x", "X=* tool *", True),
        ("export X=y; tool x", "tool *", False),
        ("export LANG=C; tool x", "tool *", True),
        ("PATH=1 tool x", "tool *", False),
        ("make V=1 all", "make *", True),
        ("make CC=gcc all", "make *", False),
        ("make CC=gcc all", "make CC=* *", True),
        ("make CC=gcc LD=x all", "make CC=* *", False),
        ("make -f other.mk -j4 all", "make *", True),
        ("python3 -m pytest -q", "python3 *", True),
        ("python3 -m timeit pass", "python3 *", False),
    ],
)
def test_what_is_set_for_a_command_is_allowed_only_by_a_rule_that_names_it(
    command: str, rule: str, allowed: bool
) -> None:
    also = tuple(ConsentRule("bash", "allow", match=match) for match in ("env *", "export *"))
    rules = (*also, ConsentRule("bash", "allow", match=rule))
    assert (decide(rules, command) == "allow") == allowed
    assert (decide((*rules, ConsentRule("bash", "deny", match="shred *")), command) == "allow") == allowed


def test_an_answer_is_for_the_place_where_it_was_given() -> None:
    policy = Policy(PROJECT, (ConsentRule("bash", "allow", match="cd *"),))
    policy = policy.remembering("bash", Touch("run", "", command="./build.sh"), "allow")
    for command in ("cd /elsewhere && ./build.sh", "cd sub; ./build.sh", "cd ..\n./build.sh"):
        assert policy.judge("bash", Touch("run", "", command=command)).decision == "ask", command
    assert policy.judge("bash", Touch("run", "", command="./build.sh")).decision == "allow"


def test_what_cant_be_understood_is_never_allowed_by_a_pattern() -> None:
    allow = (ConsentRule("bash", "allow", match="*"),)
    for command in (
        "eval $X",
        "$X",
        "python -c 1",
        "sudo --strange ls",
        "echo 'unclosed",
        "cat <<E\nE",
        "f() { ls; }",
    ):
        assert decide(allow, command) == "ask", command
    assert decide(allow, "make && ls -l") == "allow"
    assert decide((ConsentRule("bash", "allow"),), "eval $X") == "allow"


def test_a_redirection_out_of_an_allowed_directory_asks() -> None:
    rules = (ConsentRule("bash", "allow", match="git *"), ConsentRule("bash", "allow", match="> out/*"))
    assert decide(rules, "git log > out/x") == "allow"
    for command in ("git log > out/../.bashrc", "git log > out/$X", "git log > ~/.bashrc", "git log >| x"):
        assert decide(rules, command) == "ask", command
    assert (
        decide(
            (ConsentRule("bash", "allow"), ConsentRule("bash", "deny", match="> *.bashrc")), "ls > ~/.bashrc"
        )
        == "deny"
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git log; git -C . push -f", "`git -C . push -f`: a rule says: ask bash git push*"),
        ("ls && timeout 5 rm x", "`rm x`: a rule says: deny bash rm *"),
        ("git $X", "`git $X` may match a rule: ask bash git push*"),
        ("make", "no rule allows `make`"),
        ("eval $X", "`eval $X` may match a rule: ask bash git push*"),
        (
            "git -c a.b='!x' y",
            "`git -c a.b='!x' y` may match a rule (`git -c` can make git run commands): ask bash git push*",
        ),
        ("for x in a; do git log; done", "it is more than a list of simple commands: `for`"),
        ("git log\x1b[2J; rm x\x07", "`rm x\\x07`: a rule says: deny bash rm *"),
    ],
)
def test_the_reason_names_the_rule_and_the_part(command: str, reason: str) -> None:
    assert verdict(DOCUMENTED, command).reason == reason


def test_a_command_that_is_too_long_is_asked_about_and_not_read() -> None:
    long = "git log " + "x" * MAX_JUDGED
    found = verdict(DOCUMENTED, long)
    assert found.decision == "ask"
    assert f"it has {len(long)} characters, and only {MAX_JUDGED} are looked at" in found.reason
    assert verdict((DENY_RM,), long, allows_all=True).decision == "ask"
    assert decide((ConsentRule("bash", "allow"),), long) == "allow"
    remembered = Policy(PROJECT, DOCUMENTED).remembering("bash", Touch("run", "", command=long), "allow")
    assert remembered.judge("bash", Touch("run", "", command=long)).decision == "allow"


def test_consent_for_the_session_holds_for_what_could_not_be_understood() -> None:
    touch = Touch("run", "", command="eval $X")
    policy = Policy(PROJECT, DOCUMENTED).remembering("bash", touch, "allow")
    assert policy.judge("bash", touch).decision == "allow"
    assert policy.judge("bash", msgspec.structs.replace(touch, command="eval $Y")).decision == "ask"


def test_what_is_taken_apart_is_bounded() -> None:
    for command in ("a;" * 5000, "sudo " * 2000, "eval " * 2000, "$(" * 5000, "{a,b}" * 2000, "`\\" * 5000):
        taken = take_apart(command)
        assert not taken.is_understood
        assert sum(len(each.text) for part in taken.parts for each in part.readings) < 300_000
