"""What commands print in narrow terminals, in any locale, and to readers that have gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cli import COMMANDS, command_of
from fairlead.cli.output import EQUIVALENTS
from fairlead.formats.columns import width_of
from tests.cli.terminals import on_a_terminal
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting


def shell(hosting: Hosting, script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script in which `fairlead` is the command."""
    return subprocess.run(
        ["bash", "-c", f'fairlead() {{ "{sys.executable}" -m fairlead "$@"; }}\n{script}'],
        env={**hosting.environment, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )


@pytest.mark.parametrize("columns", [40, 80])
def test_what_commands_list_fits_the_terminal(hosting: Hosting, columns: int) -> None:
    name = "a-session-with-a-long-name"
    if name not in hosting.sessions():
        script = r"printf '\033]2;日本語の題\007'; echo ready; read line; " + "x" * 100
        hosting.start(name, script)
        hosting.wait_text(name, "ready")
    for words in (["ls"], ["daemon", "status"], ["doctor"], ["--help"]):
        _, shown = on_a_terminal(hosting, *words, columns=columns)
        wide = [line for line in shown.split("\n") if width_of(line) > columns]
        assert [line for line in wide if " " in line.strip()] == [], words  # a long path stays whole
    head, row, _ = on_a_terminal(hosting, "ls", columns=columns)[1].split("\n")
    assert head.split()[:2] == ["NAME", "STATE"]
    assert head.split()[-1] == "WHAT"
    assert ("DIRECTORY" in head) == (columns == 80)
    assert row.endswith("…")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_40_columns(name: str) -> None:
    command = command_of(name)
    assert command is not None
    lines = command.help(40).split("\n")
    assert [line for line in lines if width_of(line) > 40 and len(line.strip(" \\").split()) > 1] == []


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C"},
    ],
)
def test_output_works_in_any_locale(hosting: Hosting, locale: dict[str, str]) -> None:
    hosting.environment |= locale
    try:
        hosting.run("start", "odd", "-d", "--", "sh", "-c", "read line # … × ● 日本 ü")
        listed = hosting.run("ls", "odd").stdout
        assert "80x24" in listed or "80×24" in listed
        for words in (["--help"], ["help", "start"], ["doctor"], ["daemon", "status"]):
            hosting.run(*words)
        done = hosting.run("screen", "nö…", check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        hosting.run("stop", "odd")
    finally:
        for name in locale:
            del hosting.environment[name]


def test_an_ascii_locale_gets_ascii(hosting: Hosting) -> None:
    """Python takes the C locale for UTF-8."""
    hosting.environment["LC_ALL"] = "C"
    try:
        hosting.run(
            "start", "odd", "-d", "--", "sh", "-c", "printf 'für\\n'; read line # … × 日本 " + 60 * "x"
        )
        hosting.until(lambda: "für" in hosting.run("logs", "odd").stdout)  # what was printed is whole
        _, listed = on_a_terminal(hosting, "ls", columns=150)
        assert ("80x24" in listed, listed.isascii()) == (True, True)
        assert "80x24" in hosting.run("ls", "odd").stdout
        with Person(hosting, "agent") as person:
            person.until("\n>")
            person.type(b"what can you do?\r")
            person.until("> what can you do?")
            assert person.seen.isascii()
        hosting.run("stop", "odd")
    finally:
        del hosting.environment["LC_ALL"]


def test_what_the_locale_lacks_has_an_equivalent(hosting: Hosting) -> None:
    done = shell(hosting, "fairlead help start", PYTHONIOENCODING="ascii")
    assert b"usage: fairlead start [OPTION...] NAME" in done.stdout
    for words in ("screen", "start -d", "stop", "logs -f", "talk hi -s", "agent -p hi --name"):
        done = shell(
            hosting, f"fairlead {words} $'n\\xff'", PYTHONIOENCODING="utf-8"
        )  # a name that is no text
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("fairlead ls >&-", 0),
        ("fairlead ls -q >&- 2>&-", 0),
        ("fairlead logs shown >&-", 0),
        ("fairlead screen shown <&- >&-", 0),
        ("fairlead --help | true; exit ${PIPESTATUS[0]}", 141),
        ("fairlead help start | true; exit ${PIPESTATUS[0]}", 141),
        ("fairlead nonsense 2>&1 | true; exit ${PIPESTATUS[0]}", 2),
        ("fairlead --help >/dev/full", 1),
        ("fairlead ls >/dev/full", 1),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_ends_quietly(
    hosting: Hosting, script: str, code: int, unbuffered: str
) -> None:
    if "shown" not in hosting.sessions():
        hosting.start("shown", "seq 1 5000; read line")
    done = shell(hosting, script, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == code, done.stderr
    if code == 1:
        assert b"No space left on device" in done.stderr
        assert done.stderr.count(b"\n") == 1
    else:
        assert done.stderr == b""


def test_head_ends_an_unbuffered_command_quietly(hosting: Hosting) -> None:
    hosting.start("many", "seq -f '%079.0f' 1 5000; read line")  # more than a pipe holds
    hosting.wait_text("many", "05000")
    for words in ("logs many", "logs -f many"):
        script = f"fairlead {words} | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
        done = shell(hosting, script, PYTHONUNBUFFERED="1")
        assert (done.returncode, done.stderr) == (141, b""), words


@pytest.mark.parametrize(
    "words",
    [
        ["screen"],
        ["send", "-k", "Up"],
        ["wait", "--exit"],
        ["ls"],
        ["stop"],
        ["verify", "--", "true"],
    ],
)
def test_the_session_that_was_meant_is_named(hosting: Hosting, words: list[str]) -> None:
    if "gardening" not in hosting.sessions():
        hosting.start("gardening", "read line")
    done = hosting.run(words[0], "gardenign", *words[1:], check=False)
    assert done.returncode != 0
    assert "did you mean gardening?" in done.stderr


def test_a_daemon_of_another_version_is_told_once_and_what_to_do(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "src/fairlead"
    other = tmp_path / "other/fairlead"
    shutil.copytree(source, other, ignore=shutil.ignore_patterns("__pycache__"))
    init = other / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "9.'))
    hosting = Hosting()
    try:
        ours = dict(hosting.environment)
        hosting.environment["PYTHONPATH"] = str(tmp_path / "other")
        hosting.run("ls")
        assert hosting.run("ls").stderr.count("version") == 0
        hosting.environment = ours
        done = hosting.run("ls")
        assert done.stderr.count("the daemon has version 9.") == 1
        assert "`fairlead daemon restart`" in done.stderr
        assert hosting.run("daemon", "status").stderr == ""
    finally:
        hosting.close()


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    script = (
        "import sys; sys.stdout.isatty = lambda: True\n"
        "from fairlead.cli.colours import coloured_name\nprint(coloured_name('error'))"
    )
    for environment, wanted in (
        ({"TERM": "xterm"}, "\x1b[31merror\x1b[m"),
        ({"TERM": "dumb"}, "error"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "error"),
    ):
        environment = {**environment, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip("\n") == wanted


def test_each_mark_of_the_chat_has_an_equivalent_as_wide_as_itself() -> None:
    marks = "●○↳✓✗◆☑☐▸▾⎇›⠋│↑↓·"
    assert [mark for mark in marks if len(EQUIVALENTS.get(mark, "")) != 1] == []
