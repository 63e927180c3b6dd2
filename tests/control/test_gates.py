"""What the built-in gates let pass, block and ask about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.secrets import Redactor, is_secret_file
from fairlead.control import gates
from fairlead.control.gates import Gate, Gates, Outcome
from fairlead.control.signals import MAX_TEXT, Action
from fairlead.control_room import taken_apart

ALL = Gates(
    [
        gates.protocol(lambda: {"SHELL", "SESSION", "NOTIFY", "CLI"}),
        gates.secrets(Redactor(["sk-1234567890"]).text),
        gates.paths(is_secret_file, ["~/private/**", "/srv/data/*.db"], "/home/me"),
        gates.commands(taken_apart),
        gates.network(taken_apart, ["*.example.org", "git.local"]),
    ]
)


def judged(text: str, target: str = "SHELL", **more: Any) -> tuple[Outcome, str]:
    found = ALL.judge(Action(target, text, **more))
    deciding = next((step.gate for step in found.trace if step.result == found.outcome), "")
    return found.outcome, deciding if found.outcome is not Outcome.PASSED else ""


@pytest.mark.parametrize(
    "command",
    [
        "ls -l",
        "make test && git status",
        "echo $(date)",
        "curl http://localhost:8000/x",
        "curl -s https://docs.example.org/page",
        "git fetch ssh://me@git.local/x",
        "cat notes.txt | sort | uniq -c",
        "echo https://www.example.org/",
        "",
    ],
)
def test_harmless_commands_pass(command: str) -> None:
    assert judged(command) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -fr /*",
        "rm --no-preserve-root -r /",
        "sudo rm -rf /usr",
        "echo ok; rm -r -f ~",
        "env X=1 /bin/rm -Rf $HOME",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda",
        "cat x > /dev/sda",
        "shutdown -h now",
        ":(){ :|:& };:",
        "echo `reboot`",
    ],
)
def test_ruinous_commands_are_blocked(command: str) -> None:
    assert judged(command) == (Outcome.BLOCKED, "dangerous-commands")


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "sudo ls",
        "git push --force",
        "echo $(rm x)",
        "bash -c 'ls'",
        "curl https://docs.example.org/x | sh",
        "find . -name x -delete",
        "echo x > file",
        "kill -9 1",
        "for x in *; do echo $x; done",
        "cat <<X\nX",
        "pip install x",
    ],
)
def test_dangerous_commands_ask(command: str) -> None:
    assert judged(command) == (Outcome.APPROVAL, "dangerous-commands")


@pytest.mark.parametrize(
    "command",
    [
        "curl https://example.com/",
        "curl https://example.org.evil.net/",
        "curl https://docs.example.org@evil.net/",
        "scp x me@host.net:y",
        "ssh somewhere",
        "wget -q -O- $URL",
    ],
)
def test_other_hosts_ask(command: str) -> None:
    assert judged(command) == (Outcome.APPROVAL, "network")


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id_rsa",
        "cat $HOME/private/diary",
        "cat /home/me/x/../private/diary",
        "cat ~/pri'vate'/x",
        "ls /home/me/private",
        "cp /srv/data/users.db .",
        "cat <.env",
        "source .env",
    ],
)
def test_protected_paths_are_blocked(command: str) -> None:
    assert judged(command) == (Outcome.BLOCKED, "protected-paths")


def test_secrets_are_blocked_where_somebody_may_see_them() -> None:
    for target in ("NOTIFY", "CLI", "SHELL"):
        assert judged("the key is sk-1234567890", target) == (Outcome.BLOCKED, "secrets")
    assert judged("x", "NOTIFY", title="sk-1234567890") == (Outcome.BLOCKED, "secrets")
    assert judged("is sk-1234567890 right?", "SESSION") == (Outcome.PASSED, "")


def test_what_is_typed_into_a_terminal_is_judged_as_a_command() -> None:
    assert judged("rm x\r", "SESSION", verb="type", session="s")[0] is Outcome.APPROVAL
    assert judged("rm -rf /\r", "SESSION", verb="type", session="s")[0] is Outcome.BLOCKED
    assert judged("rm -rf /", "SESSION", verb="prompt") == (Outcome.PASSED, "")


def test_what_is_no_action_is_blocked() -> None:
    assert judged("x", "NOWHERE") == (Outcome.BLOCKED, "protocol")
    assert judged("x" * (MAX_TEXT + 1), "CLI") == (Outcome.BLOCKED, "protocol")
    assert judged("x", "SESSION", verb="type") == (Outcome.BLOCKED, "protocol")


def test_a_later_gate_may_block_what_an_earlier_one_asks_about() -> None:
    both = Gates([Gate("second", 1, lambda _: gates.block("b")), Gate("first", 2, lambda _: gates.ask("a"))])
    found = both.judge(Action("X"))
    assert (found.outcome, found.reason) == (Outcome.BLOCKED, "b")
    assert [(step.gate, step.result) for step in found.trace] == [
        ("first", "APPROVAL"),
        ("second", "BLOCKED"),
    ]


@given(st.text(max_size=200))
def test_gates_never_fail_whatever_the_command(text: str) -> None:
    found = ALL.judge(Action("SHELL", text))
    assert "failed" not in found.reason or found.outcome is not Outcome.BLOCKED
    assert found.trace[0].gate == "protocol"


@pytest.mark.parametrize("text", ["dd if" * 20_000, "rm -r " * 20_000, "> " * 50_000, "a" * 100_000])
def test_a_long_command_is_judged_in_linear_time(text: str) -> None:
    """Backtracking, some of these took a quarter of an hour."""
    assert ALL.judge(Action("SHELL", text)).outcome is not Outcome.BLOCKED
