"""What programs use, of this system's real processes and of made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fairlead.system import processes
from fairlead.system.processes import Process, from_proc, from_ps
from fairlead.terminal import usage
from fairlead.terminal.usage import Usages, summed

BURN = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own whose child has used some time."""
    shell = f"\"{sys.executable}\" -c '{BURN}'; exit"
    child = subprocess.Popen(
        ["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.communicate(b"\n")


@pytest.mark.parametrize("read", [from_proc, from_ps])
def test_processes_are_what_the_system_says(read: object) -> None:
    if read is from_proc and not os.path.exists("/proc/self/stat"):
        pytest.skip("there is no /proc here")
    assert callable(read)
    table = read()
    ours = table[os.getpid()]
    assert ours.parent == os.getppid()
    assert ours.session == (os.getsid(0) if read is from_proc else os.getpgid(0))
    assert ours.memory > 1_000_000
    spent = os.times()[: 4 if read is from_proc else 2]  # ps leaves out children that have ended
    assert abs(ours.cpu_seconds - sum(spent)) < 2


def test_a_program_is_counted_with_its_children(program: subprocess.Popen[bytes]) -> None:
    look = Usages().look({program.pid: time.time() - 10, 2**22 + 1: 0.0})
    assert list(look) == [program.pid]
    used = look[program.pid]
    assert used.cpu_seconds > 0.1  # the system counts in ticks, and may leave some out
    assert 1 < used.cpu_percent < 100
    assert used.memory > 4_000_000


@pytest.mark.parametrize(
    "text", [("0:01.50", 1.5), ("01:02:03", 3723), ("2-00:00:01", 172_801), ("123:00.00", 7380)]
)
def test_the_times_of_ps_are_read(text: tuple[str, float]) -> None:
    assert processes._seconds(text[0]) == text[1]


def test_no_ps_is_no_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert from_ps() == {}


def test_each_process_belongs_to_one_program() -> None:
    table = {
        1: Process(0, 1, 100.0, 100),
        10: Process(1, 10, 1.0, 10),
        11: Process(10, 10, 2.0, 20),  # of its session
        12: Process(11, 12, 4.0, 40),  # a descendant in a session of its own
        13: Process(1, 10, 8.0, 80),  # of its session, and its parent has ended
        20: Process(12, 20, 16.0, 160),  # another program, started by the first one
        21: Process(20, 20, 32.0, 320),
        30: Process(30, 31, 64.0, 640),  # a parent of itself, which can't be
    }
    assert summed(table, [10, 20, 99]) == {10: (15.0, 150), 20: (48.0, 480)}


def test_the_share_is_since_the_last_look_and_else_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now, cpu = 1000.0, 5.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "time", lambda: now + 500)
    monkeypatch.setattr(usage, "processes", lambda: {7: Process(1, 7, cpu, 1)})
    usages = Usages()

    def percent() -> float:
        return usages.look({7: 1490.0})[7].cpu_percent

    assert percent() == 50  # 5 s in the 10 s since its start
    now, cpu = 1002.0, 7.0
    assert percent() == 100
    now, cpu = 1002.1, 7.05
    assert percent() == pytest.approx(50)
    now, cpu = 1002.2, 7.05
    assert percent() == pytest.approx(25)  # too soon after the last: since the one before
    now, cpu = 1003.0, 6.0
    assert percent() == 0  # a child that had used some has gone
    usages.look({})
    assert percent() == pytest.approx(100 * 6 / 13)  # forgotten with its session
