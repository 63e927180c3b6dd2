"""Commands that verify: real processes, well behaved and not."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fairlead.system.tree import Watch
from fairlead.verify.checks import process
from fairlead.verify.checks.command import Commands, verify
from fairlead.verify.checks.exits import blind
from fairlead.verify.checks.problems import problem
from fairlead.verify.checks.process import Ran, Stage
from fairlead.verify.project import scratch
from fairlead.verify.project.scratch import Scratch, ScratchFault, remove_stale
from fairlead.verify.report import Confidence, Report, Status, correction, parse_report
from tests.hosting import is_alive
from tests.verify import attacks
from tests.verify.projects import ENVIRONMENT, fingerprint, git, repository, write

UNITTEST = f"{sys.executable} -m unittest"
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def judge(
    project: Path, *commands: str, time_limit: float = 60.0, in_copy: bool = False, **more: object
) -> Report:
    verifier = Commands(commands=commands, time_limit=time_limit, in_copy=in_copy)
    return asyncio.run(verify(verifier, project, ENVIRONMENT, turn=2, session_id="s", **more))  # type: ignore[arg-type]


# --- judgements -------------------------------------------------------------------------------------------


def test_tests_that_all_pass_are_perfect_and_the_report_says_what_was_judged(project: Path) -> None:
    test = "class Test(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(a.one, 1)\n"
    write(project, "test_a.py", f"import unittest\n\nimport a\n\n{test}")
    with Watch(project) as watch:
        start = watch.take()
    write(project, "notes.md", "changed\n")
    report = judge(project, UNITTEST, lines=(3, 9), since=start)
    assert (report.status, report.confidence) == (Status.VERIFIED, Confidence.PERFECT), report
    assert "unittest: 1 passed" in report.summary
    assert (report.kind, report.turn, report.session_id, report.lines) == ("command", 2, "s", (3, 9))
    assert report.project == str(project)
    assert report.diff_stat == "1 file changed: +notes.md"
    with Watch(project) as watch:
        assert report.tree == watch.take().hash
    assert [(each.command, each.code) for each in report.commands] == [(UNITTEST, 0)]
    assert report.duration > 0
    assert report.time > 0
    again = parse_report(report.raw, 2)
    assert (again.status, again.confidence, again.sections) == (
        report.status,
        report.confidence,
        report.sections,
    )


@pytest.mark.parametrize(
    ("code", "gap"),
    [
        ("test -d .", "no test summary was recognized"),
        (
            "test -d . && echo '== 2 passed, 1 skipped in 0.1s =='",
            "not all tests passed: pytest: 2 passed, 1 skipped",
        ),
        ("test -d . && echo '== 2 passed, 1 xfailed in 0.1s =='", "not all tests passed"),
        ("test -d . && echo '== 2 passed, 9 deselected in 0.1s =='", "not all tests passed"),
        ("test -d . && echo '== 2 passed in 0.1s ==' > new.txt && cat new.txt", "files changed while"),
        ("test -d . && echo '== 2 passed in 0.1s =='", "what this turn changed is not known"),
        ("sleep 300 & test -d . && echo '== 2 passed in 0.1s =='", "1 process went on when"),
    ],
)
def test_whatever_is_left_open_is_verified_and_not_perfect(project: Path, code: str, gap: str) -> None:
    report = judge(project, code)
    assert (report.status, report.confidence) == (Status.VERIFIED, Confidence.VERIFIED)
    assert report.sections[-1].title == "Why not PERFECT?"
    assert gap in report.sections[-1].text


def test_a_turn_that_changed_nothing_says_so_and_is_not_perfect(project: Path) -> None:
    with Watch(project) as watch:
        start = watch.take()
    report = judge(project, "test -d . && echo '== 2 passed in 0.1s =='", since=start)
    assert (report.status, report.confidence) == (Status.VERIFIED, Confidence.VERIFIED)
    assert "the turn changed no file" in report.sections[-1].text


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo 'Ran 0 tests in 0.0s'; echo; echo OK", "it found no tests to run"),
        ("echo test_x.py::test_y; true # pytest", "pytest printed no summary with tests that passed"),
        ("echo '== no tests ran in 0.01s =='", "it found no tests to run"),
        ("echo '== 3 skipped in 0.1s =='", "no test was run (pytest: 0 passed, 3 skipped"),
        ("echo '== 1 failed, 2 passed in 0.1s =='", "it exited with 0, but tests failed"),
        ("printf '?   \tx/y\t[no test files]\n'", "it found no tests to run"),
        ("echo 'ℹ pass 0'; echo 'ℹ fail 0'", "it found no tests to run"),
        ("sh empty.sh", "its script empty.sh is empty"),
        ("./empty.sh", "its script ./empty.sh is empty"),
        ("make -f Makefile test", "nothing was run: make: Nothing to be done for 'test'."),
        ("make -f Makefile docs", "nothing was run: make: 'docs' is up to date."),
        ("sed -i s/one/two/ a.py", "files were changed while they were judged (a.py)"),
        ("rm a.py", "files were changed while they were judged (a.py)"),
        ("no-such-program | tail -1", "it could not be started"),
        *(
            (command, "it checks nothing, because no part of it can fail")
            for command in attacks.CHECK_NOTHING
        ),
        *((command, "it hides the exit code of `") for command in attacks.HIDE_THE_CODE),
        ("! make -f none test", "it turns the exit code of `make -f none test` round"),
        ("make -f Makefile idle", "its recipe: it checks nothing"),
        ("make -f Makefile hides", "its recipe: it hides the exit code of `test -d .`"),
        ("make -f Makefile ignores", "make ignored a failure: "),
        *((f"test -d . && echo '{line}'", "it found nothing to check: ") for line in attacks.FOUND_NOTHING),
        (f"{sys.executable} -m mypy", "the project has a module mypy of its own"),
        ("./green.sh", "its script ./green.sh: it hides the exit code of `test -d .`"),
        ("bash green.sh", "its script green.sh: it hides the exit code of `test -d .`"),
    ],
)
def test_a_check_that_checked_nothing_is_not_green(project: Path, command: str, why: str) -> None:
    write(project, "empty.sh", "#!/bin/sh\n# to be written\n\n").chmod(0o755)
    write(project, "green.sh", "#!/bin/bash\ntest -d .\nexit 0\n").chmod(0o755)
    write(project, "mypy.py", "print('Success: no issues found')\n")
    recipes = "idle:\n\t@echo all is well\nhides:\n\ttest -d . || true\nignores:\n\t-false\nmade:\n\tfalse\n"
    phony = ".PHONY: test idle hides ignores\ntest:\ndocs:\n\tfalse\n"
    write(project, "Makefile", phony + recipes)
    report = judge(project, command)
    assert report.status is Status.UNSURE, report.raw
    assert report.confidence.colour != "green"
    assert why in report.summary, report.summary


@pytest.mark.parametrize("command", attacks.SAY_SOMETHING)
def test_a_check_that_can_fail_is_not_taken_for_one_that_can_not(command: str) -> None:
    assert blind(command) == ""


@pytest.mark.parametrize("words", ["-i", "-si", "--ignore", "MAKEFLAGS=i", "MAKEFLAGS=-s\\ -i"])
def test_make_that_ignores_failures_hides_them(words: str) -> None:
    assert blind(f"make {words} test").startswith("-i hides the exit code of `make ")


def test_a_script_that_need_not_be_there_and_a_question_to_make_say_nothing() -> None:
    for option in ("--if-present", "--if-pres"):
        assert blind(f"npm run nothing {option}").startswith(f"{option} hides the exit code of `npm run")
    for option in ("-q", "-sq", "--question", "--que"):
        assert blind(f"make {option} test") == "it checks nothing, because no part of it can fail"


def test_a_script_of_npm_is_judged_by_what_it_runs(project: Path) -> None:
    ran = Ran(0, "> test\n> jest || true\n", 0.1)
    rows = (("jest || true", "it hides the exit code of `jest`"), ("exit 0", "it checks nothing"))
    for script, why in rows:
        write(project, "package.json", json.dumps({"scripts": {"test": script}}))
        for command in ("npm test", "npm run test", "yarn -s test", "npm t"):
            assert f"its script 'test' of package.json: {why}" in problem(command, ran, project)
    write(project, "package.json", json.dumps({"scripts": {"test": "jest"}}))
    assert problem("npm test", ran, project) == ""


def test_what_a_turn_changed_of_its_own_checks_is_said(project: Path) -> None:
    write(project, "Makefile", "test:\n\ttrue\n")
    write(project, "tests/test_b.py", "def test_b(): pass\n")
    with Watch(project) as watch:
        start = watch.take()
    write(project, "Makefile", "test:\n\ttest -d .\n")
    write(project, "pytest.ini", "[pytest]\naddopts = --co\n")
    (project / "tests/test_b.py").unlink()
    write(project, "check.sh", "test -d . && echo '== 2 passed in 0.1s =='\n")
    report = judge(project, "sh ./check.sh", since=start)
    assert (report.status, report.confidence) == (Status.VERIFIED, Confidence.VERIFIED)
    told = "changed Makefile; added check.sh, pytest.ini; deleted tests/test_b.py"
    assert f"this turn changed files that the check depends on: {told}" in report.sections[-1].text


@pytest.mark.parametrize("option", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(project: Path, option: str) -> None:
    git(project, "update-index", option, "a.py")
    with Watch(project) as watch:
        start = watch.take()
        write(project, "a.py", "one = 9\n")
        assert watch.changes(start, watch.take()).modified == ("a.py",)
    assert git(project, "ls-files", "-v", "a.py")[:1] in ("h", "S")  # the project's own index is as it was


def test_what_can_not_be_looked_at_is_a_gap(project: Path) -> None:
    write(project, "lib/x.py", "x = 1\n")
    git(project / "lib", "init", "-q")
    git(project / "lib", "add", ".")
    git(project / "lib", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    with Watch(project) as watch:
        start = watch.take()
    write(project, "lib/x.py", "x = 2\n")
    write(project, "a.py", "one = 9  # pragma: no cover\n")
    gaps = judge(project, "test -d . && echo '== 2 passed in 0.1s =='", since=start).sections[-1].text
    assert "other repositories within were not looked at: lib" in gaps
    assert "changed code is marked as not to be covered: a.py" in gaps


def test_a_failure_within_a_pipe_is_a_failure(project: Path) -> None:
    report = judge(project, "false | tail -1")
    assert (report.status, report.confidence) == (Status.FAILED, Confidence.FEEDBACK)


def test_changed_code_must_be_shown_as_run_in_full(project: Path) -> None:
    with Watch(project) as watch:
        start = watch.take()
    write(project, "a.py", "one = 1\n")
    write(project, "test_a.py", "")
    write(project, "docs/page.md", "new\n")
    passed = "test -d . && echo '== 2 passed in 0.1s =='"
    table = "echo 'Name  Stmts  Miss  Cover'; echo 'a.py   2   {}   {}%'; "
    assert "no coverage was reported): a.py" in judge(project, passed, since=start).sections[-1].text
    partly = judge(project, table.format(1, 50) + passed, since=start)
    assert partly.confidence is Confidence.VERIFIED
    assert "does not show that all of it was run): a.py" in partly.sections[-1].text
    assert judge(project, table.format(0, 100) + passed, since=start).confidence is Confidence.PERFECT


def test_a_failing_test_is_feedback_with_the_part_that_helps(project: Path) -> None:
    write(project, "test_a.py", "import a\n\ndef test_two():\n    assert a.two == 3\n")
    report = judge(project, PYTEST, "echo fine")
    assert (report.status, report.confidence) == (Status.FAILED, Confidence.FEEDBACK)
    assert report.summary.startswith(f"1 of 2 commands failed: `{PYTEST}` exited with 1")
    text = correction(report)
    assert "assert 2 == 3" in text
    assert "FAILED test_a.py::test_two" in text
    assert [each.code for each in report.commands] == [1, 0]
    assert "fine" in report.sections[-1].text


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program --x", "could not be started: .*no-such-program"),
        ("./docs/page.md", "could not be started: .*Permission denied"),
        ("kill -9 $$", "it was killed with signal 9"),
        ("kill -INT $$", "it was killed with signal 2"),
        ("(exit 143)", "it was killed with signal 15"),
        ("timeout 0.01 sleep 5", "it ran into its own time limit"),
        (f"{PYTEST} nowhere.py", r"pytest was called wrongly \(exit code 4\)"),
        (f"{PYTEST} --no-such-option", r"pytest was called wrongly \(exit code 4\)"),
        (PYTEST, r"it found no tests to run \(exit code 5\)"),
        (f"{sys.executable} -S -m pytest -q", "it could not be run: .*No module named pytest"),
        ("make nothing", "it could not be run: make: .* No rule to make target"),
        ("sh -c 'nosuch || exit 1'", "it could not be run: sh: .*not found"),
        ("echo 'npm error Missing script: \"test\"'; exit 1", "it could not be run: npm error"),
        ("echo 'No tests found, exiting with code 1'; exit 1", "it could not be run: No tests found"),
        ("echo 'error: could not find `Cargo.toml` in x'; exit 101", "it could not be run: error"),
        ("echo 'make: *** [Makefile:2: test] Error 127'; exit 2", "it could not be run: make"),
        ("sleep 60", "it ran longer than 0.3 seconds"),
        ("echo '== no tests ran in 0.01s =='; exit 5", "it found no tests to run"),
    ],
)
def test_what_can_not_be_run_leaves_the_turn_unverified(project: Path, command: str, why: str) -> None:
    report = judge(project, command, time_limit=0.3 if command == "sleep 60" else 60.0)
    assert (report.status, report.confidence) == (Status.UNSURE, Confidence.FAILED), report.raw
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(report.summary)
    assert report.summary.startswith("could not verify: ")


def test_a_project_that_is_gone_is_unverified(tmp_path: Path) -> None:
    report = judge(tmp_path / "gone", "true")
    assert (report.status, report.confidence) == (Status.UNSURE, Confidence.FAILED)
    assert "could not be started: No such file" in report.summary


def test_a_crash_of_the_program_is_a_failure(project: Path) -> None:
    report = judge(project, "kill -SEGV $$")
    assert report.status is Status.FAILED
    assert "was ended by SIGSEGV" in report.summary


def test_only_the_given_environment_is_there_and_no_input(project: Path) -> None:
    os.environ["FAIRLEAD_TEST_SECRET"] = "s3cret"
    try:
        report = judge(project, 'env; cat; test -z "$FAIRLEAD_TEST_SECRET"')
    finally:
        del os.environ["FAIRLEAD_TEST_SECRET"]
    assert report.status is Status.VERIFIED
    assert "s3cret" not in report.raw


@pytest.mark.parametrize("commands", [(), ("",), (" ",), ("a\0b",), ("x" * 10_001,), ("true",) * 21])
def test_commands_that_make_no_sense_are_refused(commands: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="command"):
        Commands(commands=commands)


# --- processes --------------------------------------------------------------------------------------------


def go(command: str, cwd: Path, time_limit: float = 20.0, **more: int) -> process.Ran:
    return asyncio.run(
        process.run([Stage(("sh", "-c", command), ENVIRONMENT)], cwd, time_limit=time_limit, **more)
    )


def test_at_the_time_limit_everything_is_ended_also_what_ignores_it(tmp_path: Path) -> None:
    stubborn = "trap '' TERM HUP INT; echo $$ >> pids; sleep 300 & echo $! >> pids; wait; sleep 300"
    write(tmp_path, "stubborn.sh", stubborn)
    begun = time.monotonic()
    ran = go("echo begun; setsid sh stubborn.sh & sh stubborn.sh", tmp_path, 0.5)
    assert (ran.code, ran.ended) == (None, "it ran longer than 0.5 seconds")
    assert ran.text == "begun"
    assert time.monotonic() - begun < 6
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    assert not [pid for pid in pids if is_alive(pid)]


def test_what_is_left_behind_is_ended_and_does_not_hold_the_end_up(tmp_path: Path) -> None:
    begun = time.monotonic()
    ran = go("sleep 300 & echo $! > pid; echo done; exit 3", tmp_path)
    assert (ran.code, ran.text, ran.left_behind) == (3, "done", 1)
    assert time.monotonic() - begun < 5
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_output_is_bounded_plain_and_of_progress_only_the_end(tmp_path: Path) -> None:
    ran = go("printf '\\033[31mred\\033[0m\\n10%%\\r99%%\\n'; echo error >&2", tmp_path)
    assert ran.text == "red\n99%\nerror"
    long = go("seq 1 100000", tmp_path, max_kept=1000)
    assert long.text.startswith("1\n2\n")
    assert long.text.endswith("100000")
    assert "bytes left out" in long.text
    assert len(long.text) < 1100
    endless = go("yes", tmp_path, max_printed=1_000_000)
    assert endless.ended == "it printed more than 1000000 bytes"


def test_a_run_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def cancelled() -> None:
        stage = Stage(("sh", "-c", "echo $$ > pid; sleep 300"), ENVIRONMENT)
        task = asyncio.ensure_future(process.run([stage], tmp_path, time_limit=100))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not is_alive(int((tmp_path / "pid").read_text()))


ORPHANING = """
import asyncio, os, pathlib, sys
from fairlead.verify.checks.process import Stage, run
command = "echo $$ > pid; exec sleep 300"
asyncio.run(run([Stage(("sh", "-c", command), dict(os.environ))], pathlib.Path(sys.argv[1]), time_limit=300))
"""


def test_what_a_killed_process_was_running_is_ended_later(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ORPHANING, str(tmp_path)])
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = int((tmp_path / "pid").read_text())
    assert process.end_orphans(child.pid) == 0
    assert is_alive(pid)  # whoever runs it is there
    child.kill()
    child.wait()
    assert is_alive(pid)
    assert process.end_orphans(child.pid) == 1
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_that_is_not_there_is_an_error_and_leaves_the_others_ended(tmp_path: Path) -> None:
    stages = [Stage(("sleep", "300"), ENVIRONMENT), Stage(("/no/such", "x"), ENVIRONMENT)]
    with pytest.raises(FileNotFoundError):
        asyncio.run(process.run(stages, tmp_path, time_limit=10))


# --- copies -----------------------------------------------------------------------------------------------


def test_in_a_copy_the_project_is_as_it_is_now_and_stays_so(project: Path) -> None:
    write(project, "a.py", "uncommitted = 1\n")
    write(project, "new.py", "untracked\n")
    write(project, "ignored/x", "x\n")
    (project / "docs/page.md").unlink()
    (project / "absolute").symlink_to(project / "a.py")
    before = fingerprint(project, times=False)  # git sets the times of objects that it finds there
    report = judge(
        project,
        "cat a.py new.py && test ! -e docs/page.md && test ! -e ignored",
        "echo broken > a.py && echo broken > absolute && git add -A && git commit -qm x && git branch y",
        "git log --oneline | wc -l | grep -q 2",
        in_copy=True,
    )
    assert report.status is Status.VERIFIED, report.raw
    assert fingerprint(project, times=False) == before
    assert git(project, "branch", "--list") == "* main"


def test_a_copy_is_removed_also_when_the_command_makes_it_hard(project: Path, tmp_path: Path) -> None:
    with Scratch(project, directory=tmp_path) as copy:
        place = copy.root.parent
        assert (copy.project / "a.py").read_text() == (project / "a.py").read_text()
        write(copy.project, "deep/x", "x")
        (copy.project / "deep").chmod(0o500)
    assert not place.exists()


def test_a_copy_of_a_directory_below_the_top_and_of_one_without_git(project: Path, tmp_path: Path) -> None:
    with Scratch(project / "docs") as copy:
        assert (copy.project / "page.md").exists()
        assert (copy.root / "a.py").exists()
    plain = tmp_path / "plain"
    write(plain, "a", "x")
    write(plain, "node_modules/b", "y")
    with Scratch(plain) as copy:
        assert (copy.project / "a").read_text() == "x"
        assert os.readlink(copy.project / "node_modules") == str(plain / "node_modules")


def test_a_project_that_is_too_large_to_copy_is_said_to_be(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MAX_FILES", 2)
    with pytest.raises(ScratchFault, match="too much to copy"):
        Scratch(project)
    report = judge(project, "true", in_copy=True)
    assert (report.status, report.confidence) == (Status.UNSURE, Confidence.FAILED)
    assert "too much to copy" in report.summary


def test_copies_of_processes_that_were_killed_are_removed_later(project: Path, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        Scratch(project, directory=tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    mine = Scratch(project, directory=tmp_path)
    assert len(list(tmp_path.glob("fairlead-copy-*"))) == 2
    assert remove_stale(tmp_path) == 1
    assert list(tmp_path.glob("fairlead-copy-*")) == [mine.root.parent]
    mine.close()


def test_what_a_runner_keeps_for_itself_is_no_change_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".pytest_cache").mkdir()
    (tmp_path / ".pytest_cache" / "lastfailed").write_text("1")
    report = judge(tmp_path, "echo 2 > .pytest_cache/lastfailed; test -d . && echo '== 1 passed in 0.1s =='")
    assert report.status is Status.VERIFIED, report.summary


def test_running_closes_no_file_of_another_thread(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    faults: list[OSError] = []
    is_over = threading.Event()

    def open_and_close() -> None:
        while not is_over.is_set():
            try:
                os.close(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                faults.append(error)

    async def run_often() -> None:
        for _ in range(60):
            await process.run([Stage(("true",), ENVIRONMENT)], tmp_path, time_limit=10)

    others = [threading.Thread(target=open_and_close) for _ in range(3)]
    for each in others:
        each.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_often())
    finally:
        is_over.set()
        for each in others:
            each.join()
    assert not faults
