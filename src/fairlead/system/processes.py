"""Processes of this machine: what runs, in which terminal, below what, and how a group of them is ended.

Read from /proc on Linux, which takes some 15 µs a process, else from `ps`. Everything here may block for a
moment; `end_all` is for an event loop and looks from another thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Literal, NamedTuple

from ..keeper.credentials import AGENT_MARK, RLIMIT_LOCKS, UNLIMITED

PROC = "/proc"
PS_WAIT = 5.0
"""Seconds until a `ps` that does not answer is given up."""
MAX_ANCESTORS = 64
"""How many parents of a process are looked at."""
MAX_ENVIRON = 8 * 1024 * 1024
"""How many bytes of a process's environment are read: more than a kernel allows."""
USUAL_ENVIRON = 32 * 1024
"""How many of them are read first: making room for all of them takes longer than reading."""
MAX_COMMAND = 256 * 1024
"""How many bytes of a command line are read."""
LOOK_EVERY = 0.02
"""Seconds between two looks at what still runs."""


class Process(NamedTuple):
    """A process of this machine."""

    parent: int
    session: int
    """The session's leader; where that is not known, the group's."""
    cpu_seconds: float
    memory: int
    group: int = 0
    front: int = 0
    """The process group in the foreground of its terminal."""
    state: str = "R"
    name: str = ""
    began: str = ""
    """When it began, in the system's own measure."""
    tty: str = ""
    """Its terminal, where `ps` is asked."""

    @property
    def runs(self) -> bool:
        """False if it has ended and was not reaped."""
        return self.state[0] not in "ZX"


class Program(NamedTuple):
    """A running program. Two are the same only if they also began at the same moment."""

    pid: int
    name: str
    began: str


def has_proc() -> bool:
    """True if there is a /proc."""
    return os.path.exists(f"{PROC}/self/stat")


def pids() -> list[int]:
    """All processes that /proc has."""
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]


def processes() -> dict[int, Process]:
    """All processes, by their ids."""
    return from_proc() if has_proc() else from_ps()


def process(pid: int) -> Process | None:
    """One process, if it is there."""
    return _stat(pid) if has_proc() else from_ps(pid).get(pid)


def from_proc() -> dict[int, Process]:
    """All processes as Linux has them."""
    return {pid: found for pid in pids() if (found := _stat(pid)) is not None}


_TICK, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def _stat(pid: int) -> Process | None:
    """See proc(5)."""
    try:
        descriptor = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            head, _, rest = os.read(descriptor, 4096).rpartition(b")")
        finally:
            os.close(descriptor)
    except OSError:  # it has ended meanwhile
        return None
    words = rest.split(maxsplit=22)
    return Process(
        parent=int(words[1]),
        session=int(words[3]),
        # its own time, and that of its children which have ended
        cpu_seconds=(int(words[11]) + int(words[12]) + int(words[13]) + int(words[14])) / _TICK,
        memory=int(words[21]) * _PAGE,
        group=int(words[2]),
        front=int(words[5]),
        state=words[0].decode(),
        name=head.partition(b"(")[2].decode("utf-8", "replace"),
        began=words[19].decode(),
    )


def from_ps(pid: int | None = None) -> dict[int, Process]:
    """All processes, or one, as `ps` has them; without the time that ended children used."""
    which = ("-ax",) if pid is None else ("-p", str(pid))
    columns = "pid=,ppid=,pgid=,tpgid=,stat=,tty=,rss=,time=,lstart=,comm="
    found = {}
    for line in _ps(*which, "-o", columns).splitlines():
        own, parent, group, front, state, tty, kilobytes, spent, *began, name = line.split(None, 13)
        found[int(own)] = Process(
            parent=int(parent),
            session=int(group),
            cpu_seconds=_seconds(spent),
            memory=int(kilobytes) * 1024,
            group=int(group),
            front=int(front),
            state=state,
            name=os.path.basename(name.strip()),
            began=" ".join(began),
            tty=f"/dev/{tty}",
        )
    return found


def _ps(*words: str) -> str:
    import subprocess  # which takes a while, and few need it

    environment = {**os.environ, "LC_ALL": "C"}  # else a date may have any number of words
    try:
        done = subprocess.run(
            ["ps", *words], capture_output=True, text=True, timeout=PS_WAIT, check=False, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _seconds(spent: str) -> float:
    """A time as `ps` prints it: [days-][hours:]minutes:seconds, maybe with a fraction."""
    days, _, clock = spent.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total + 86_400 * int(days or 0)


# --- one process ------------------------------------------------------------------------------------------


def is_there(pid: int) -> bool:
    """True if there is such a process, or such a group if it is negative."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def running(pid: int) -> Program | None:
    """The program that a process runs; None if it has ended, also if it was not reaped."""
    found = process(pid)
    return Program(pid, found.name, found.began) if found is not None and found.runs else None


def foreground(pid: int) -> Program | None:
    """The leader of the group in the foreground of the terminal that a process is on, if that is known."""
    found = process(pid)
    leader = process(found.front) if found is not None and found.front > 0 else None
    return Program(found.front, leader.name, leader.began) if found and leader else None


def depth_below(pid: int, ancestor: int) -> int | None:
    """How many generations a process is below another one; None if it is not, or that is not known."""
    for depth in range(MAX_ANCESTORS):
        if pid == ancestor:
            return depth
        found = process(pid)
        if found is None or found.parent <= 1:
            return None
        pid = found.parent
    return None


def command(pid: int) -> str:
    """The command line of a process; empty if it is not known."""
    return " ".join(arguments(pid))


def arguments(pid: int) -> list[str]:
    """The words of the command line of a process; none if it is not known."""
    if not has_proc():
        return _ps("-p", str(pid), "-o", "command=").split()
    with contextlib.suppress(OSError), open(f"{PROC}/{pid}/cmdline", "rb") as file:
        words = file.read(MAX_COMMAND).rstrip(b"\0").split(b"\0")
        return [each.decode("utf-8", "replace") for each in words] if words[0] else []
    return []


def variable(pid: int, name: str) -> str:
    """A variable that a process was started with, or nothing. Raises OSError if that can not be read."""
    with open(f"{PROC}/{pid}/environ", "rb") as file:
        found = file.read(USUAL_ENVIRON)
        if len(found) == USUAL_ENVIRON:
            found += file.read(MAX_ENVIRON)
    after = (b"\0" + found).partition(f"\0{name}=".encode())[2]
    return after.partition(b"\0")[0].decode("utf-8", "replace")


def holds(pid: int, target: str) -> bool | None:
    """True if a process has this open: a path, or `socket:[INODE]`. None if it does not let us see that."""
    place = f"{PROC}/{pid}/fd"
    try:
        opened = os.listdir(place)
    except PermissionError:
        return None
    except OSError:  # it is gone
        return False
    for each in opened:
        with contextlib.suppress(OSError):  # it has just closed this one
            if os.readlink(f"{place}/{each}") == target:
                return True
    return False


def user_of(pid: int) -> int | None:
    """The user of a process, also of one that hides all else; None if it is gone."""
    with contextlib.suppress(OSError, ValueError), open(f"{PROC}/{pid}/status", "rb") as file:
        return int(file.read().partition(b"\nUid:")[2].split(maxsplit=1)[0])
    return None


def is_apart(pid: int) -> bool:
    """True if a process sees other files than we do, as one in a sandbox, or hides that."""
    try:
        return os.readlink(f"{PROC}/{pid}/ns/mnt") != os.readlink(f"{PROC}/self/ns/mnt")
    except OSError as error:
        return isinstance(error, PermissionError)


def is_marked(pid: int) -> bool:
    """True if a process is an agent's, as its limit is lower than ours, whatever its environment and its
    parents are."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, ValueError), open(f"{PROC}/{pid}/limits", "rb") as file:
        words = file.read().partition(b"\nMax file locks")[2].split(maxsplit=2)
        return _limit(words[1]) < _own_limit()
    return False


def _limit(word: bytes) -> int:
    return UNLIMITED if word == b"unlimited" else int(word)


@cache
def _own_limit() -> int:
    import resource  # which clients don't need

    most = resource.getrlimit(RLIMIT_LOCKS)[1]
    return UNLIMITED if most == resource.RLIM_INFINITY else most


UNNAMED_AGENT = "unknown: it hides whose it is"


def agent_of(pid: int, programs: Mapping[int, str]) -> str | None:
    """The agent session whose command a process is, or was started by; empty if none is known.

    `programs` are processes that are known to be an agent's, with the agent, whatever their environment says;
    so is what has them as its parent or as the first of its terminal. None if there is no such process. Only
    Linux tells what a process has in its environment and which limits; elsewhere its parents are all that is
    known.
    """
    is_hidden = is_marked(pid)
    table = {} if has_proc() else from_ps()
    for step in range(MAX_ANCESTORS):
        found = table.get(pid) if table else process(pid)
        if found is not None and (agent := programs.get(pid) or programs.get(found.session)):
            return agent
        try:
            mark = variable(pid, AGENT_MARK) if not table else ""
        except PermissionError:  # another user's, as init is, or it hides that: its parents may be known
            mark = ""
        except OSError:
            if not step:
                return None
            break
        if mark:
            return mark
        if found is None or found.parent <= 1:
            break
        pid = found.parent
    else:
        is_hidden = True  # nobody has so many parents
    return UNNAMED_AGENT if is_hidden else ""


def waits_in(pid: int) -> Literal["", "read", "poll", "child"]:
    """What a process that sleeps waits for, where Linux tells: a terminal that it reads, one of several
    things, or a child; empty if it is something else or not known."""
    try:
        with open(f"{PROC}/{pid}/wchan") as file:
            place = file.read(100)
    except OSError:
        return ""
    return next((what for word, what in _PLACES.items() if word in place), "")


def children(pid: int) -> list[int]:
    """What a process has started and what still runs, where Linux tells."""
    try:
        with open(f"{PROC}/{pid}/task/{pid}/children") as file:
            return [int(each) for each in file.read(MAX_COMMAND).split(" ")[:-1]]
    except OSError:
        return []


_PLACES: Mapping[str, Literal["read", "poll", "child"]] = {
    "wait_woken": "read",
    "n_tty_read": "read",
    "poll": "poll",
    "select": "poll",
    "do_wait": "child",
}
"""Parts of the names that the kernel's functions have in which a process sleeps."""


# --- several ----------------------------------------------------------------------------------------------


def members(leaders: Collection[int], *, tty: str = "", mark: tuple[str, str] | None = None) -> set[int]:
    """The processes that run in sessions or groups with these leaders; also those that have a terminal open,
    and, where there is a /proc, those with a variable of this name and value. Groups, as negative numbers,
    where nothing can be asked for processes. A leader of 0, which has not been started, has no members."""
    leaders = {each for each in leaders if each > 1}
    table = processes()
    if not table:
        return {-each for each in leaders if is_there(-each)}

    def belongs(pid: int, found: Process) -> bool:
        if found.session in leaders or found.group in leaders:
            return True
        if tty and (found.tty == tty or (not found.tty and holds(pid, tty))):
            return True
        with contextlib.suppress(OSError):  # it is gone, or not ours
            return mark is not None and variable(pid, mark[0]) == mark[1]
        return False

    own = os.getpid()
    return {pid for pid, found in table.items() if pid != own and found.runs and belongs(pid, found)}


def below(pid: int) -> set[Program]:
    """All that a process has started and that still has it as an ancestor, whatever its environment says.
    Nothing for one that has not been started, whose pid is 0: that is everybody's ancestor."""
    if pid <= 1:
        return set()
    table = processes()
    children: dict[int, list[int]] = {}
    for each, found in table.items():
        children.setdefault(found.parent, []).append(each)
    found_below: set[Program] = set()
    waiting = list(children.get(pid, ()))
    while waiting:
        each = waiting.pop()
        if table[each].runs:
            found_below.add(Program(each, table[each].name, table[each].began))
        waiting += children.pop(each, ())
    return found_below


async def end_all(find: Callable[[], set[int]], grace: float, gone_within: float) -> tuple[int, bool]:
    """End all that `find` finds, until it finds nothing: SIGTERM, and after `grace` seconds SIGKILL. What
    hangs in the kernel is left to it. Returns how many processes that were, and whether none is left."""
    import asyncio  # clients that only ask for a process don't need it

    ended: set[int] = set()
    found: set[int] = set()
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, gone_within)):
        told: set[int] = set()
        deadline = time.monotonic() + patience
        while found := await asyncio.to_thread(find):
            for pid in found - told if number is signal.SIGTERM else found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)  # one that is stopped would not notice
            told |= found
            ended |= found
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_EVERY)
        else:
            break
    return len(ended), not found
