"""What the process in the foreground says of a program whose screen no rule knows."""

from __future__ import annotations

import pytest

from fairlead.system.processes import Program
from fairlead.terminal.state import rules
from fairlead.terminal.state.front import Front, by_process, rules_now

SHELL = next(each for each in rules.shipped() if each.agent == "shell")
CLAUDE = next(each for each in rules.shipped() if each.agent == "claude")


def front(name: str, waits: str = "", reader: str = "", *arguments: str) -> Front:
    return Front(Program(1, name, ""), [name, *arguments], None, waits, 0.0, reader)


@pytest.mark.parametrize(
    ("found", "says", "words", "question"),
    [
        (front("bash", "poll"), "idle", "bash reads its terminal", ""),
        (front("zsh", "read", "zsh"), "idle", "zsh reads its terminal", ""),
        (front("bash", "child"), "working", "bash runs in the foreground", ""),
        (front("make", "child"), "working", "make runs in the foreground", ""),
        (front("bash", "read", "bash", "ask.sh"), "waits", "bash reads its terminal", "Red?"),
        (front("make", "child", "ask"), "waits", "ask reads its terminal", "Red?"),
        (front("less", "read", "less"), "unknown", "less reads its terminal", ""),
        (front("man", "child", "less"), "unknown", "less reads its terminal", ""),
        (front("git", "", "pager"), "unknown", "pager reads its terminal", ""),
        (front("more", "poll"), "unknown", "more reads its terminal", ""),
        (front("vim", "poll"), "unknown", "", ""),
    ],
    ids=lambda each: each.program.name if isinstance(each, Front) else "",
)
def test_a_program_without_rules(found: Front, says: str, words: str, question: str) -> None:
    assert by_process(found, lambda: "Red?") == (says, words, question)


def test_one_that_reads_and_asks_nothing_may_need_nobody() -> None:
    assert by_process(front("cat", "read", "cat"), lambda: "") == ("unknown", "cat reads its terminal", "")


def test_one_that_uses_the_processor_works() -> None:
    assert by_process(front("vim", "poll"), lambda: "", 0.3)[:2] == (
        "working",
        "vim used the processor 30% of the time",
    )


def test_rules_for_shells_count_while_the_shell_reads() -> None:
    shell = front("bash", "poll")._replace(shell=SHELL)
    assert rules_now(shell) is SHELL
    assert rules_now(shell._replace(waits_in="read")) is SHELL
    assert rules_now(front("vim", "poll")) is None
    assert rules_now(front("claude")._replace(rules=CLAUDE)) is CLAUDE


def test_rules_for_shells_do_not_count_while_it_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = front("bash", "child")._replace(shell=SHELL)
    monkeypatch.setattr("fairlead.system.processes.has_proc", lambda: True)
    assert rules_now(busy) is None
    monkeypatch.setattr("fairlead.system.processes.has_proc", lambda: False)  # nothing says what it does
    assert rules_now(busy) is SHELL
