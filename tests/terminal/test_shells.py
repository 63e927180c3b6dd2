"""Commands for shells whose prompts change: with the time, the branch, the exit code, and on both sides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fairlead.client.calls import RequestError
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests import lending, peers
from tests.hosting import WAIT, Hosting

BLOCKED = 3
BASH = r"""
branch() { local it; it=$(git branch --show-current 2>/dev/null) && [ "$it" ] && echo " ($it)"; }
PS1='\t me@host \w$(branch) [$?]\$ '
"""
MARKED = r"""
count=0
PROMPT_COMMAND='count=$((count + 1)); words=(roses tulips weeds)'
PS1='\[\e]133;A\a\]${words[count % 3]} now % \[\e]133;B\a\]'
PS0='\e]133;C\a'
"""
FISH = r"""
function fish_prompt
    set it $status
    date +%T
    set_color green
    echo -n (prompt_pwd)"$(fish_git_prompt) [$it]> "
end
function fish_right_prompt; date +%T; end
function fish_greeting; end
"""


class Shell:
    """A shell in the session `work`, in a repository."""

    def __init__(self, hosting: Hosting, place: Path, *words: str) -> None:
        self.hosting, self.place = hosting, place
        hosting.run("start", "work", "-d", "--cwd", str(place), "--cols", "200", "--", *words)
        hosting.until(lambda: bool(hosting.screen("work").strip()))

    def does(self, command: str, made: str) -> None:
        """It takes a command, which makes a file."""
        self.hosting.run("prompt", "work", command, "--timeout", str(WAIT))
        self.hosting.until((self.place / made).exists)

    def refuses(self, why: str) -> None:
        done = self.hosting.run("prompt", "work", "touch wrong", check=False)
        assert (done.returncode, why in done.stderr) == (BLOCKED, True), done.stderr
        assert not (self.place / "wrong").exists()

    def fails(self, command: str) -> str:
        """It takes a command and can't run it. Returns what is told."""
        done = self.hosting.run("prompt", "work", command, "--wait", "--json", check=False)
        receipt = json.loads(done.stdout)
        assert (done.returncode, receipt["outcome"]) == (1, "failed"), receipt
        return str(receipt["reason"])

    def type(self, text: str, *keys: str) -> None:
        options = [word for key in keys for word in ("-k", key)]
        self.hosting.run("send", "work", *([text] if text else []), *options)

    def shows(self, end: str) -> None:
        self.hosting.until(lambda: self.hosting.screen("work").rstrip().endswith(end))


@pytest.fixture(scope="module")
def daemon() -> Iterator[Hosting]:
    with lending.lent() as hosting:
        yield hosting


@pytest.fixture
def shell(daemon: Hosting, tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    for words in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *IDENTITY, *words], cwd=tmp_path, check=True)
    yield lambda *words: Shell(daemon, tmp_path, *words)
    daemon.end_sessions()


IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.org")


def test_bash_with_time_branch_and_exit_code_takes_commands_and_nothing_else_gets_them(
    shell: Callable[..., Shell], tmp_path: Path
) -> None:
    (tmp_path / "rc").write_text(BASH)
    bash = shell("bash", "--rcfile", "rc")
    bash.does("touch one; false", "one")
    bash.does("git checkout -q -b mend/gate; touch two", "two")
    bash.does("cd /; touch $OLDPWD/three", "three")
    bash.type("echo 5 ")
    bash.refuses("there is a draft in the input of bash")
    bash.type("", "C-u")
    bash.type("cat <<EOF", "Enter")
    bash.shows("\n>")
    bash.refuses("bash waits for the rest of a command: >")
    bash.type("12:00", "Enter")
    bash.shows("\n>")
    bash.refuses("bash waits for the rest of a command: >")
    bash.type("", "C-c")
    bash.type("read -e -p '9:05:00 Overwrite /? [1]$ '", "Enter")
    bash.shows("Overwrite /? [1]$")
    bash.refuses("something else than the prompt")
    bash.type("", "C-c")
    bash.does("touch $OLDPWD/four", "four")


def test_a_shell_that_marks_its_prompt_may_show_any_other(
    shell: Callable[..., Shell], tmp_path: Path
) -> None:
    (tmp_path / "rc").write_text(MARKED)
    bash = shell("bash", "--rcfile", "rc")
    for name in ("one", "two", "three", "four"):
        bash.does(f"touch {name}", name)
    bash.type("x")
    bash.shows("% x")
    bash.refuses("something else than the prompt")
    bash.type("", "BSpace")
    bash.type("cat <<EOF", "Enter")
    bash.shows("\n>")
    bash.refuses("bash waits for the rest of a command: >")
    bash.type("", "C-c")
    bash.type("read -e -p 'weeds now % '", "Enter")
    bash.shows("read -e -p 'weeds now % '\nweeds now %")
    bash.refuses("something else than the prompt")
    bash.type("", "C-c")
    bash.does("touch five", "five")


def test_zsh_with_prompts_on_both_sides_takes_commands(shell: Callable[..., Shell]) -> None:
    peers.require("zsh")
    zsh = shell("env", "PS1=%* %~ %(?..[%?] )%# ", "RPROMPT=%*", "zsh", "-f")
    zsh.does("touch one; false", "one")
    zsh.does("cd /; touch $OLDPWD/two", "two")
    zsh.type("cat <<EOF", "Enter")
    zsh.hosting.wait_text("work", "heredoc>")
    zsh.refuses("zsh waits for the rest of a command: heredoc>")
    zsh.type("", "C-c")
    zsh.type("echo half")
    zsh.hosting.wait_text("work", "echo half")
    zsh.refuses("there is a draft in the input of zsh")
    zsh.type("", "C-u")
    zsh.does("for leaf in two three\ndo\n  touch $OLDPWD/$leaf\ndone", "three")
    zsh.does("cat > $OLDPWD/four <<EOF\nroses  9:05:00\nEOF", "four")


def test_fish_with_prompts_on_both_sides_takes_commands(shell: Callable[..., Shell], tmp_path: Path) -> None:
    peers.require("fish")
    fish = shell("fish", "--no-config", "-C", FISH)
    fish.does("touch one; false", "one")
    fish.does("git checkout -q -b mend; touch two", "two")
    fish.type("echo half")
    fish.hosting.wait_text("work", "echo half")
    fish.refuses("there is a draft in the input of fish")
    fish.type("", "C-u")
    fish.type("read -P 'Overwrite? y/n> ' it", "Enter")
    fish.hosting.until(lambda: fish.hosting.screen("work").count("Overwrite? y/n>") == 2)
    fish.refuses("something else than the prompt")
    fish.type("", "C-c")
    fish.does("touch three", "three")


def test_a_command_that_is_not_whole_is_deleted_from_fish(
    shell: Callable[..., Shell], tmp_path: Path
) -> None:
    peers.require("fish")
    fish = shell("fish", "-C", FISH)
    why = "fish waits for the rest of the command; it was deleted from its input"
    assert fish.fails("for leaf in 1 2\n  echo $leaf") == why
    fish.does("for leaf in five six\n  touch $leaf\nend", "six")


@pytest.mark.parametrize("words", [("bash", "--norc"), ("zsh", "-f"), ("dash",)], ids=lambda words: words[0])
def test_a_command_that_is_not_whole_has_failed_and_what_follows_is_refused(
    shell: Callable[..., Shell], words: tuple[str, ...]
) -> None:
    peers.require(words[0])
    asking = shell("env", "PS1=garden: ", *words)
    assert asking.fails("echo 'half") == f"{words[0]} waits for the rest of the command"
    asking.refuses(f"{words[0]} waits for the rest of a command: ")
    asking.type("", "C-c")
    asking.does("touch on\x03e; echo \x1b[201~\t漢字  👍", "one")


def test_who_types_at_once_leaves_the_prompt_known(daemon: Hosting, tmp_path: Path) -> None:
    names = [f"work{number}" for number in range(8)]
    with DaemonConnection(Settings(daemon.environment), start=False) as control:
        for name in names:
            argv, env = ["bash", "--norc"], {"PS1": "garden$ "}
            control.ask("terminal_start", name=name, argv=argv, env=env, cwd=str(tmp_path))
            lines = partial(control.ask, "session_lines", name=name)
            daemon.until(lambda lines=lines: "garden$" in "".join(lines()["lines"]))  # type: ignore[misc]
            control.ask("terminal_send", name=name, text="echo half")
        for name in names:
            with pytest.raises(RequestError, match="there is a draft in the input of bash"):
                control.ask("session_prompt", name=name, text="touch wrong")
            control.ask("terminal_send", name=name, keys=["C-u"])
            control.ask("session_prompt", name=name, text=f"touch {name}", timeout=WAIT)
            daemon.until((tmp_path / name).exists)
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    daemon.end_sessions()


def test_a_question_of_the_read_of_a_shell_is_told_as_one(
    shell: Callable[..., Shell], tmp_path: Path
) -> None:
    bash = shell("bash", "--norc", "--noprofile")
    marked = r"printf '\e]133;A\aName? \e]133;B\a'; read x; touch one"
    (tmp_path / "asks").write_text(marked)
    for typed, asked in (("printf 'bash-5.2# '; read x", "bash-5.2#"), (". ./asks", "Name?")):
        bash.type(typed, "Enter")
        bash.hosting.until(lambda: "work: waits" in bash.hosting.run("state", "work").stdout)
        bash.refuses(f"bash asks: {asked}")
        bash.type("mine", "Enter")
        bash.hosting.until(lambda: "work: idle" in bash.hosting.run("state", "work").stdout)
    assert (tmp_path / "one").exists()


SHELLS = (("bash", "--norc", "--noprofile"), ("zsh", "-f"), ("fish", "--no-config"))
MARKED_TEXTS = (
    "e\u0301",
    "\u0928\u092e\u0938\u094d\u0924\u0947",
    "a\u200bb",
    "a\u202eb",
    "\u65e5e\u0301" * 60,
)
"""Characters that have no width, and wide ones beside them over several rows."""


@pytest.mark.parametrize("words", SHELLS, ids=lambda words: words[0])
def test_characters_without_a_width_are_taken_as_any_others(
    shell: Callable[..., Shell], words: tuple[str, ...]
) -> None:
    peers.require(words[0])
    asked = shell(*words)
    for number, text in enumerate(MARKED_TEXTS):
        made = asked.place / f"made{number}"
        asked.does(f"echo '{text}' > {made.name}", made.name)
        asked.hosting.until(lambda made=made, text=text: made.read_text() == f"{text}\n")  # type: ignore[misc]


@pytest.mark.parametrize("words", SHELLS[:2], ids=lambda words: words[0])
def test_a_line_that_is_longer_than_the_screen_is_taken(
    shell: Callable[..., Shell], words: tuple[str, ...]
) -> None:
    peers.require(words[0])
    asked = shell(*words)
    asked.does(f": {'roses ' * 3000}; touch one", "one")
    asked.does("touch two", "two")


@pytest.mark.parametrize("words", SHELLS[::2], ids=lambda words: words[0])
def test_what_a_shell_does_not_show_as_it_was_typed_is_deleted_again(
    shell: Callable[..., Shell], words: tuple[str, ...]
) -> None:
    peers.require(words[0])
    asked = shell(*words)
    lines = "\n".join(f"touch wrong{number}" for number in range(200))
    why = asked.fails(lines if words[0] == "bash" else f"touch wrong0; : {'x' * 30_000}")
    assert "it is longer than the screen" in why
    assert why.endswith("it was deleted from its input again")
    asked.does("touch one", "one")
    assert not [*asked.place.glob("wrong*")]


@pytest.mark.parametrize("prompt", ["$ ", "me@host:\\w$ "])
def test_a_virtual_environment_changes_no_prompt(shell: Callable[..., Shell], prompt: str) -> None:
    bash = shell("env", f"PS1={prompt}", "bash", "--norc")
    bash.does('PS1="(garden-3.11) $PS1"; touch one', "one")
    bash.does("touch two", "two")
    bash.type("echo half")
    bash.refuses("there is a draft in the input of bash")
    bash.type("", "C-u")
    bash.does("PS1=${PS1#* }; touch three", "three")
    bash.does("touch four", "four")
