"""A real Emacs drives `fairlead rpc` as psi's frontend does, with as simple a reader of EDN.

`driver.el` checks each frame and prints what came; here is what it should print.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosting import WAIT, Hosting

DRIVER = Path(__file__).with_name("driver.el")


class Emacs:
    """Emacs in batch mode, with the driver loaded, on its way through some Lisp."""

    def __init__(self, program: str, lisp: str, directory: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [program, "--batch", "-Q", "-l", str(DRIVER), "--eval", lisp],
            env={**environment, "LANG": "C.UTF-8"},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, line: str) -> list[str]:
        """The lines that it prints, up to this one."""
        assert self.process.stdout is not None
        read: list[str] = []
        while line not in read:
            text = self.process.stdout.readline()
            assert text, f"it ended: {read} {self.process.communicate(timeout=WAIT)[1]}"
            read.append(text.rstrip("\n"))
        return read

    def end(self) -> str:
        """All else that it prints, if it ends well."""
        printed, errors = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, f"{printed}\n{errors}"
        return printed

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=WAIT)


Start = Callable[[str], Emacs]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    return tmp_path


@pytest.fixture
def emacs(hosting: Hosting, project: Path, peer: Callable[[str], str]) -> Iterator[Start]:
    """Starts an Emacs that does one of the driver's talks."""
    program = peer("emacs")
    started: list[Emacs] = []
    backend = " ".join(json.dumps(word) for word in (sys.executable, "-m", "fairlead", "rpc"))

    def start(talk: str) -> Emacs:
        lisp = f"(progn (setq driver-command '({backend})) {talk})"
        started.append(Emacs(program, lisp, project, hosting.environment))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def without_deltas(printed: str) -> str:
    """The transcript with the last of those deltas only that continue each other."""
    lines: list[str] = []
    for line in printed.splitlines():
        before, now = (
            re.fullmatch(r'event assistant/delta \("(.*)"\)', each)
            for each in (lines[-1] if lines else "", line)
        )
        if before is not None and now is not None:
            assert now[1].startswith(before[1]), (before[1], now[1])
            lines.pop()
        lines.append(line)
    return "\n".join([*lines, ""])


OFFLINE = (
    "I am the offline guide: no language model is connected, so I only follow plain requests. "
    "`help` lists them."
)
QUESTION = r"session ID in PROJECT\nit runs a command\n$ echo hi\nAllow bash?"
TALK = rf"""response req-1 handshake
event session/updated ("idle")
response req-2 subscribe
response req-3 get_messages
0 messages
response req-4 query_eql
completes [] []
- a prompt
response req-5 prompt
event session/updated ("streaming")
event assistant/delta ("I will read `notes.txt`.\n")
event tool/start ("read")
event tool/delta nil
event tool/executing ("read")
event tool/result ("read" "buy milk\n")
event assistant/delta ("Done: read `notes.txt`.\nbuy milk\n\n{OFFLINE}")
event assistant/message ("Done: read `notes.txt`.\nbuy milk\n\n{OFFLINE}")
event session/updated ("streaming")
event session/updated ("idle")
- a choice
event ui/frontend-action-requested nil
:select offline guide
event session/updated ("idle")
response req-6 command
event session/updated ("idle")
event command-result ("text" "✓ Model set to offline guide")
event session/updated ("idle")
response req-7 frontend_action_result
- a dialog
response req-8 prompt
event session/updated ("streaming")
event assistant/delta ("I will run `echo hi`.\n")
event tool/start ("bash")
event tool/delta nil
event ui/dialog-requested ("bash" "Allow bash?" "{QUESTION}")
event session/updated ("streaming")
event session/updated ("streaming")
response req-9 resolve_dialog
event tool/executing ("bash")
event tool/result ("bash" "hi\n[Exit code 0.]")
event assistant/delta ("Done: run `echo hi`.\nhi\n[Exit code 0.]\n\n{OFFLINE}")
event assistant/message ("Done: run `echo hi`.\nhi\n[Exit code 0.]\n\n{OFFLINE}")
event session/updated ("streaming")
event session/updated ("idle")
response req-10 get_messages
6 messages
- the end
event command-result ("quit")
event session/updated ("idle")
response req-11 command
exit 0
"""


def test_emacs_talks_with_a_session_from_the_handshake_to_the_end(emacs: Start, project: Path) -> None:
    talked = without_deltas(emacs("(driver-talk)").end())
    named = re.sub(r"session [0-9a-f]{8} in ", "session ID in ", talked).replace(str(project), "PROJECT")
    assert named == TALK


SUMMARY = rf"Done: run `read line < gate; echo got $line`.\ngot through\n[Exit code 0.]\n\n{OFFLINE}"
AFTERWARDS = rf"""event tool/result ("bash" "got through\n[Exit code 0.]")
event assistant/delta ("{SUMMARY}")
event assistant/message ("{SUMMARY}")
event session/updated ("streaming")
event session/updated ("idle")
response req-4 get_last_assistant_text
"{SUMMARY}"
"""


def test_a_turn_goes_on_when_emacs_is_killed_and_the_next_emacs_sees_its_end(
    emacs: Start, project: Path
) -> None:
    os.mkfifo(project / "gate")
    first = emacs('(driver-begin-and-wait "read line < gate; echo got $line")')
    session, *_ = [line.split()[1] for line in first.until("runs") if line.startswith("session ")]
    first.kill()
    second = emacs(f'(driver-come-back "{session}")')
    second.until("comes back to streaming")
    (project / "gate").write_text("through\n")
    assert without_deltas(second.end()) == AFTERWARDS


PLAIN = ["nil", "true", "false", "0", "-12", "1.5", "1.5E-5", r'"a\"\\\n\u00e9"', ":a", ":a/b-c", "[1, [2]]"]
PLAIN += ["[]", "{}", '{:a {} "b" nil}']
FANCY = ['#inst "2026-01-01"', '#uuid "x"', "##Inf", "##NaN", "#:a{:b 1}", "#{1}", "(1)", "1N", "1.5M", "1/2"]
FANCY += [r"\c", "sym", "::a", ":", "01", "1.", "+1", r'"\x"', "[1", "{:a}", "{1 2", "1 2", "", "; nothing"]


@pytest.mark.parametrize(
    ("texts", "judgement"),
    [pytest.param(PLAIN, "read", id="plain"), pytest.param(FANCY, "refused", id="fancy")],
)
def test_the_driver_reads_plain_edn_and_nothing_else(emacs: Start, texts: list[str], judgement: str) -> None:
    judge = '(driver-say (condition-case nil (progn (driver-read text) "read") (error "refused")))'
    quoted = " ".join(json.dumps(text) for text in texts)
    judged = emacs(f"(dolist (text (list {quoted})) {judge})").end()
    assert dict(zip(texts, judged.split(), strict=True)) == dict.fromkeys(texts, judgement)
