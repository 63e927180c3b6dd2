"""Commands that may only read: what they can do, and everything they must not be able to."""

import asyncio
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.verify.checks import sandbox
from fairlead.verify.checks.sandbox import Enforcement, ReadOnly, SandboxOutcome
from tests.verify.projects import ENVIRONMENT, fingerprint, git, repository, write
from tests.verify.readers import BOTH, reader


def run(only: ReadOnly, command: str) -> SandboxOutcome:
    return asyncio.run(only.run(command))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose configuration runs a program for whatever git does, and files to go through."""
    place = tmp_path_factory.mktemp("hostile")
    project = repository(place / "project")
    evil = write(place, "evil.sh", f"#!/bin/sh\ntouch {project}/PWNED {place}/PWNED\ncat\n")
    evil.chmod(0o755)
    (place / "bin").mkdir()
    write(project, "fake/cat", f"#!/bin/sh\ntouch {project}/PWNED\n").chmod(0o755)
    write(project, ".gitattributes", "*.py diff=evil filter=evil\n*.md diff=evil\n")
    (project / "link-out").symlink_to(place / "outside.txt")
    (project / "link-in").symlink_to("a.py")
    (project / "link-proc").symlink_to("/proc/self/environ")
    (place / "outside.txt").write_text("outside\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "more")
    for key, value in {
        "alias.st": f"!{evil}",
        "alias.log": f"!{evil}",
        "core.pager": str(evil),
        "pager.log": str(evil),
        "pager.diff": "true",
        "core.fsmonitor": str(evil),
        "core.hooksPath": str(place / "hooks"),
        "core.sshCommand": str(evil),
        "diff.external": str(evil),
        "diff.evil.command": str(evil),
        "diff.evil.textconv": str(evil),
        "filter.evil.clean": str(evil),
        "filter.evil.smudge": str(evil),
        "filter.evil.required": "true",
        "gpg.program": str(evil),
        "core.editor": str(evil),
        "remote.origin.url": str(place / "elsewhere"),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(evil),
        "extensions.partialClone": "origin",
        "credential.helper": f"!{evil}",
    }.items():
        git(project, "config", key, value)
    for hook in ("post-index-change", "post-checkout", "pre-commit", "reference-transaction"):
        write(place, f"hooks/{hook}", f"#!/bin/sh\n{evil}\n").chmod(0o755)
    write(project, "a.py", "one = 1\ntwo = 3\n")  # so that there is something to diff
    return project


@pytest.fixture(scope="module")
def before(hostile: Path) -> str:
    return fingerprint(hostile.parent)


@pytest.fixture
def untouched(hostile: Path, before: str) -> Iterator[Path]:
    """The hostile project, which must be the same afterwards, to the byte, and so must what is around it."""
    yield hostile
    assert not (hostile / "PWNED").exists()
    assert fingerprint(hostile.parent) == before


# --- what works -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enforcement", BOTH)
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py", "two = 3"),
        ("head -n 1 a.py | wc -l", "1"),
        ("grep -n 'two' *.py docs/*.md", "a.py:2:two = 3"),
        ("cd docs && ls && cat page.md", "# Page"),
        ("cat missing 2>/dev/null || echo none", "none"),
        ("cat missing 2>&1 | grep -c missing", "1"),
        ("sed -n '2,2p' a.py; sed -n '1p' a.py", "one = 1"),
        ("find . -name '*.md' -not -path './.git/*'", "./docs/page.md"),
        ("sort -r a.py | uniq -c", "1 two = 3"),
        ("git log --oneline -1", "more"),
        ("git show --stat HEAD~1", "first"),
        ("git ls-files | sort | head -1", ".gitattributes"),
        ("git rev-parse --abbrev-ref HEAD", "main"),
        ("echo \"it's\" 'a $HOME' b\\ c", "it's a $HOME b c"),
        ("ls\nls docs", "page.md"),
    ],
)
def test_reading_works(untouched: Path, enforcement: Enforcement, command: str, expected: str) -> None:
    only = reader(untouched, enforcement)
    outcome = run(only, command)
    assert expected in outcome.text
    assert (outcome.refused, only.refused) == ("", [])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git diff", "+two = 3"),
        ("git status --short", "M a.py"),
        ("git blame a.py", "two = 3"),
        ("git log -p -1", "link-in"),
        ("git grep -n two", "a.py:2:two = 3"),
        ("git diff --stat HEAD", "1 file changed"),
        ("git cat-file -p HEAD:a.py", "two = 2"),
        ("git branch -a", "* main"),
    ],
)
def test_git_reads_without_the_configuration_of_the_repository(
    untouched: Path, command: str, expected: str
) -> None:
    assert expected in run(reader(untouched, "allow-list"), command).text


def test_exit_codes_output_limits_and_time_limits_are_told(untouched: Path) -> None:
    only = reader(untouched, "allow-list", time_limit=0.5, max_output=1000)
    assert run(only, "grep nothing a.py").code == 1
    assert run(only, "false; true").code == 0
    assert run(only, "true && false || echo no").text == "no"
    long = run(only, "seq 100000")
    assert len(long.text) < 1200
    assert "bytes left out" in long.text
    late = run(only, "tail -f a.py")
    assert late.ended == "it ran longer than 0.5 seconds"
    assert late.code is None


# --- what does not ----------------------------------------------------------------------------------------

ATTACKS = (
    # plain writing
    "touch PWNED",
    "rm -rf docs",
    "echo x > PWNED",
    "echo x >> a.py",
    "echo x >| a.py",
    "echo x &> PWNED",
    "echo x > link-out",
    "cp a.py PWNED",
    "mv a.py b.py",
    "ln -sf /dev/null a.py",
    "chmod 777 a.py",
    "truncate -s 0 link-in",
    "dd if=/dev/zero of=a.py count=1",
    "sed -i s/one/two/ a.py",
    "sed -n 'w PWNED' a.py",
    "sed -n '1e touch PWNED' a.py",
    "sed -n '1p;w PWNED' a.py",
    "mkdir .git/PWNED",
    "install a.py PWNED",
    "tar cf PWNED a.py",
    "patch -p0 < docs/page.md",
    # through other programs
    "sh -c 'touch PWNED'",
    "bash -c 'echo x > PWNED'",
    'python3 -c \'open("PWNED", "w")\'',
    "perl -e 'open(F, \">PWNED\")'",
    "awk 'BEGIN { print 1 > \"PWNED\" }'",
    "cat a.py | tee PWNED",
    "cat a.py | sort -o PWNED",
    "sort --outp=PWNED a.py",
    "sort -uoPWNED a.py",
    "sort --compress-program=/bin/sh a.py",
    "uniq a.py PWNED",
    "ls | xargs touch PWNED",
    "env touch PWNED",
    "nohup touch PWNED",
    "command touch PWNED",
    "eval 'touch PWNED'",
    "find . -name a.py -exec touch PWNED ';'",
    "find . -name a.py -delete",
    "find . -fprintf PWNED x",
    "find . -fls PWNED",
    "find . -ok touch PWNED ';'",
    "find docs -exec touch {} +",
    "rg --pre ./fake/cat two",
    "rg --pre=./fake/cat two .",
    "./fake/cat a.py",
    "fake/cat a.py",
    "file -C -m docs/page.md",
    # variables and everything that a shell puts in place of something
    "GIT_EXTERNAL_DIFF='touch PWNED' git diff",
    "PAGER='touch PWNED' git log",
    "LD_PRELOAD=./evil.so cat a.py",
    "PATH=./fake cat a.py",
    "export PATH=./fake; cat a.py",
    "cat $(touch PWNED)",
    "cat `touch PWNED`",
    'echo "$(touch PWNED)"',
    'echo "`touch PWNED`"',
    "cat <(touch PWNED)",
    "cat a.py > >(tee PWNED)",
    "cat ${x:=$(touch PWNED)}",
    "echo $'x\\x3btouch PWNED'",
    "ls & touch PWNED",
    "ls |& tee PWNED",
    "(touch PWNED)",
    "{ touch PWNED; }",
    "if true; then touch PWNED; fi",
    "! touch PWNED",
    "ls\ntouch PWNED",
    "ls \\\n; touch PWNED",
    "cat <<X | tee PWNED\nx\nX",
    "ls # \ntouch PWNED",
    "ls;touch PWNED",
    "ls||touch PWNED;false||touch PWNED",
    "touch\tPWNED",
    "\\touch PWNED",
    "'touch' PWNED",
    "to''uch PWNED",
    "/usr/bin/touch PWNED",
    "source docs/page.md",
    # git
    "git st",
    "git -c alias.x='!touch PWNED' x",
    "git -c core.fsmonitor='touch PWNED' status",
    "git --exec-path=fake log",
    "git -C docs log --output=../PWNED",
    "git --git-dir=.git log",
    "git diff --output=PWNED",
    "git diff --outp=PWNED",
    "git log -p --output PWNED",
    "git show --ext-diff",
    "git diff --textconv",
    "git grep -Ofake/cat two",
    "git grep --open-files-in-pager=fake/cat two",
    "git cat-file --textconv HEAD:a.py",
    "git cat-file --filters HEAD:a.py",
    "git log --show-signature",
    "git log --format=%G?",
    "git commit -am x",
    "git add -A",
    "git checkout -- a.py",
    "git stash",
    "git reset --hard",
    "git branch new",
    "git tag new",
    "git config user.name x",
    "git fetch",
    "git gc",
    "git archive -o PWNED HEAD",
    "git bisect run touch PWNED",
    "git update-ref refs/heads/x HEAD",
    "git submodule foreach 'touch PWNED'",
    "git status --ignore-submodules=none --porcelain",
    # network
    "curl http://127.0.0.1:9/",
    "echo x > /dev/tcp/127.0.0.1/9",
    "exec 3<>/dev/tcp/127.0.0.1/9",
)


def test_the_allow_list_refuses_whatever_is_not_known_to_read(untouched: Path) -> None:
    async def attack() -> None:
        for command in ATTACKS:
            only = ReadOnly(untouched, ENVIRONMENT, enforcement="allow-list")
            outcome = await only.run(command)
            assert outcome.refused, command
            assert (outcome.code, outcome.text[:9]) == (None, "refused: "), command
            assert only.refused == [" ".join(command.split())]

    asyncio.run(attack())


def test_in_the_sandbox_no_attack_changes_anything(untouched: Path) -> None:
    only = reader(untouched, "bubblewrap", time_limit=5.0)

    async def attack() -> None:
        limit = asyncio.Semaphore(4)

        async def one(command: str) -> None:
            async with limit:
                await only.run(command)

        await asyncio.gather(*(one(command) for command in ATTACKS))

    asyncio.run(attack())
    assert "touch PWNED" in only.refused


def test_every_git_that_reads_runs_nothing_of_the_repository(untouched: Path) -> None:
    only = reader(untouched, "allow-list")
    for command in (
        *(
            "git status",
            "git diff",
            "git diff HEAD",
            "git log -p",
            "git show",
            "git blame a.py",
            "git grep one",
        ),
        *(
            "git ls-files -m -o --exclude-standard",
            "git describe --always",
            "git shortlog HEAD",
            "git log --stat",
        ),
        *("git cat-file -p 0123456789012345678901234567890123456789", "git rev-list --objects --all"),
        *(
            "git for-each-ref",
            "git diff --cached",
            "git check-ignore x.log",
            "git tag --list",
            "git show-ref",
        ),
    ):
        assert not run(only, command).refused, command


def test_a_submodule_can_not_run_anything_either(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    project = repository(tmp_path / "project")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    write(project, ".gitmodules", (project / ".gitmodules").read_text() + "\tignore = none\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "sub")
    evil = write(tmp_path, "evil.sh", f"#!/bin/sh\ntouch {tmp_path}/PWNED\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean"):
        git(project / "sub", "config", key, str(evil))
    write(project, ".git/modules/sub/info/attributes", "*.py filter=evil\n")
    write(project, "sub/a.py", "one = 1\ntwo = 3\n")  # of the same size, so that git must read it
    before = fingerprint(tmp_path)
    only = reader(project, "allow-list")
    for command in ("git status", "git diff", "git diff HEAD", "git log -p", "git show"):
        assert run(only, command).code == 0
    assert fingerprint(tmp_path) == before


def test_nothing_runs_if_any_part_is_refused(untouched: Path) -> None:
    only = reader(untouched, "allow-list", time_limit=6.0)
    outcome = run(only, "cat a.py && touch PWNED")
    assert "one = 1" not in outcome.text
    begun = time.monotonic()
    assert run(only, "tail -f a.py; touch PWNED").refused
    assert time.monotonic() - begun < 5  # it did not even begin
    why = "'touch' is not among the programs that only read"
    assert outcome.text == f"refused: {why}. A verifier may only read; nothing was run."


def test_a_name_that_looks_like_an_option_is_none(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    write(project, "-oPWNED", "x\n")
    write(project, "a.txt", "y\n")
    before = fingerprint(project)
    outcome = run(reader(project, "allow-list"), "sort *")
    assert outcome.text.splitlines()[-2:] == ["x", "y"] or "x" in outcome.text
    assert fingerprint(project) == before


def test_programs_of_the_project_are_not_taken_for_those_of_the_system(untouched: Path) -> None:
    environment = {**ENVIRONMENT, "PATH": f"{untouched}/fake:fake:.:{ENVIRONMENT['PATH']}"}
    only = ReadOnly(untouched, environment, enforcement="allow-list")
    assert "one = 1" in run(only, "cat a.py").text


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "link-proc", "/dev/stdin", "../project/link-proc", "link-pro*"]
)
def test_devices_and_processes_are_no_files_of_a_project(untouched: Path, path: str) -> None:
    assert "is no file of a project" in run(reader(untouched, "allow-list"), f"cat {path}").refused


def test_more_than_enough_is_refused_not_run(untouched: Path) -> None:
    only = reader(untouched, "allow-list")
    assert "more than 50 programs" in run(only, ";".join(["ls"] * 60)).refused
    assert "characters" in run(only, "echo " + "x" * 20_000).refused
    assert "control character" in run(only, "ls\0").refused
    for _ in range(200):
        run(only, "x")
    assert len(only.refused) == sandbox.MAX_REFUSED


# --- the sandbox itself -----------------------------------------------------------------------------------


def test_in_the_sandbox_programs_run_but_nothing_can_be_written(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    write(project, "test_it.py", "import a\n\ndef test_it():\n    assert a.two == 2\n")
    before = fingerprint(project)
    only = reader(project, "bubblewrap")
    outcome = run(only, "python3 -c 'import a; print(a.two)' && echo x > /tmp/mine && cat /tmp/mine")
    assert outcome.text == "2\nx"
    for command in ("touch x", "echo >> .git/config", "mount -o remount,rw /", "touch /etc/x", "touch ~/x"):
        assert run(only, command).code != 0
    assert "may only read" in run(only, "touch x").text
    assert fingerprint(project) == before


def test_in_the_sandbox_there_is_no_network_and_no_socket_of_others(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(project / "s"))
    local.listen()

    def accept(listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        heard.append(connection.recv(10))
        connection.close()

    threads = [threading.Thread(target=accept, args=(each,), daemon=True) for each in (server, local)]
    for thread in threads:
        thread.start()
    try:
        only = reader(project, "bubblewrap")
        port = server.getsockname()[1]
        assert run(only, f"echo x > /dev/tcp/127.0.0.1/{port}").code != 0
        script = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('s'); s.send(b'x')"
        assert run(only, f'python3 -c "{script}"').code != 0
    finally:
        for each in (server, local):
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join()
    assert heard == []


def test_in_the_sandbox_hidden_directories_are_empty_and_others_processes_unseen(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    secret = tmp_path / "state"
    write(secret, "key", "secret")
    write(project, "private/key", "secret")
    only = reader(project, "bubblewrap", hidden=[secret, project / "private"])
    assert run(only, f"cat {secret}/key private/key").code != 0
    assert run(only, f"test -e /proc/{os.getpid()}/cwd && readlink /proc/{os.getpid()}/cwd").code != 0


def test_in_the_sandbox_a_worktree_finds_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    for enforcement in BOTH:
        outcome = run(
            reader(tmp_path / "tree", enforcement), "git log --oneline && git rev-parse --abbrev-ref HEAD"
        )
        assert outcome.text.endswith("other"), outcome


def test_a_program_that_ignores_signals_is_ended_with_the_sandbox(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    outcome = run(
        reader(project, "bubblewrap", time_limit=0.5), "trap '' TERM; (setsid sleep 300 &); sleep 300"
    )
    assert outcome.ended == "it ran longer than 0.5 seconds"
    assert outcome.seconds < 5


def test_without_a_sandbox_that_works_the_list_is_used(
    untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = write(
        tmp_path, "bin/bwrap", "#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    only = ReadOnly(untouched, ENVIRONMENT)
    assert asyncio.run(only.enforcement()) == "allow-list"
    assert run(only, "python3 -c 1").refused
    forced = ReadOnly(untouched, ENVIRONMENT, enforcement="bubblewrap")
    assert run(forced, "ls").refused == "bubblewrap does not work here"


def test_a_sandbox_that_lets_write_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root could write the probe's file")
    sham = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    write(tmp_path, "bin/bwrap", sham).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    try:
        assert asyncio.run(ReadOnly(tmp_path, ENVIRONMENT).enforcement()) == "allow-list"
    finally:
        Path("/fairlead-probe").unlink(missing_ok=True)


def test_tools_that_write_are_refused_and_noted(untouched: Path) -> None:
    only = reader(untouched, "allow-list")
    assert only.refuses("a.py").startswith("refused to write a.py: a verifier may only read")
    assert only.refused == ["write a.py"]
    assert stat.S_ISREG((untouched / "a.py").stat().st_mode)
