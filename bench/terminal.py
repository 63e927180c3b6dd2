"""Terminal sessions beside tmux, dtach, screen, keepty and a bare read loop, in one run.

Contenders take turns, round after round, and the best round of each counts, because machines are noisy. All
are measured as a person has them, through their attach program in a terminal; Fairlead also at its socket,
which is what its SDKs have. What is printed are ratios and goals; `--plot` draws them, `--only echo` runs one
part, and `--quick` takes fewer and smaller rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import select
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from multiplexers import (
    CONTENDERS,
    PATIENCE,
    AtSocket,
    Bare,
    Contender,
    Dtach,
    Fairlead,
    Relays,
    Tmux,
    command_of,
    spawn,
)

from fairlead.wire import keepty

READERS = {1: 0.9, 4: 0.9, 16: 0.6}
"""With how many readers the flood is measured, and the goal at the socket as a part of the bare loop."""
READ_SIZE = 256 * 1024
COUNT = struct.Struct("Q")
SETTLED = 0.1
"""Seconds after which a reader that has read nothing more has all that it gets."""
ECHO_RATIO = 1.7
"""How many times as long as in tmux a key's echo may take, for a person."""
WARM_UP = 100
STARTS = 15
IDLE_SESSIONS = 50
MANY_SESSIONS = 500
RESTART_SESSIONS = 100


class Effort(NamedTuple):
    """How much is measured."""

    flood_bytes: int = 32 * 1024 * 1024
    flood_rounds: int = 3
    echo_rounds: int = 5
    echoes: int = 1000


QUICK = Effort(flood_bytes=8 * 1024 * 1024, flood_rounds=1, echo_rounds=2, echoes=300)


class Figures:
    """What was measured, printed as it comes, and whether the goals are met."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.met = True
        self.bars: dict[str, dict[str, float]] = {}

    def title(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def row(self, name: str, shown: str, more: str = "", goal: bool | None = None) -> None:
        """One line; `goal` tells whether it is as good as it has to be."""
        verdict = "" if goal is None else "   met" if goal else "   MISSED"
        self.met &= goal is not False
        print(f"  {name:<44}{shown:>14}  {more}{verdict}", flush=True)

    def bar(self, picture: str, name: str, value: float) -> None:
        self.bars.setdefault(picture, {})[name] = value


# --- throughput ---------------------------------------------------------------------------------------------


def throughput(figures: Figures) -> None:
    """How fast a program can print to so many clients that read all they get, each a process of its own."""
    best: dict[tuple[type[Contender], int], tuple[float, float]] = {}
    for _ in range(figures.effort.flood_rounds):
        for count in READERS:
            for kind in _present():
                if kind is Bare and count > 1:
                    continue
                found = _flood(kind, count, figures.effort.flood_bytes)
                best[kind, count] = max(found, best.get((kind, count), found))
    bare = best[Bare, 1][0]
    for count, enough in READERS.items():
        figures.title(f"source throughput, {count} reader{'s' * (count > 1)}")
        figures.row(Bare.name, f"{bare / 1e6:.1f} MB/s")
        tmux = best.get((Tmux, count), (0.0, 0.0))[0]
        for kind in _present()[1:]:
            speed, part = best[kind, count]
            goal = None
            if kind is AtSocket:
                goal = speed >= enough * bare
            elif kind is Fairlead:
                goal = speed > tmux
            more = f"{speed / bare:.2f} of the bare loop; who got least got {part:.0%}"
            figures.row(kind.name, f"{speed / 1e6:.1f} MB/s", more, goal=goal)
            figures.bar(f"throughput of the bare read loop, {count} reader(s)", kind.name, speed / bare)


def _flood(kind: type[Contender], count: int, size: int) -> tuple[float, float]:
    """Bytes a second that a program gets rid of, and the part that the reader got who got least of it."""
    contender = kind()
    begin, done, text = (contender.directory / name for name in ("begin", "done", "text"))
    line = b"\x1b[32m%08d\x1b[0m the quick brown fox jumps over the lazy dog, and so on and on and on\n"
    text.write_bytes(b"".join(line % number for number in range(int(size * kind.share) // len(line % 0))))
    os.mkfifo(begin)
    os.mkfifo(done)
    try:
        contender.start(f"read go < {begin}; cat {text}; echo > {done}; sleep {PATIENCE:g}")
        terminals = [contender.attach() for _ in range(count)]
        with _draining(terminals) as counts:
            go = os.open(begin, os.O_WRONLY)
            started = time.perf_counter()
            os.write(go, b"go\n")
            with open(done, "rb") as end:
                end.read(1)
            took = time.perf_counter() - started
            os.close(go)
            least = _settled(counts)
        return text.stat().st_size / took, least / text.stat().st_size
    finally:
        contender.close()


@contextlib.contextmanager
def _draining(descriptors: Sequence[int]) -> Iterator[memoryview]:
    """For each of these, another process reads everything from it; gives the bytes that each has read."""
    shared = mmap.mmap(-1, COUNT.size * len(descriptors))
    readers = [_reader(each, shared, number) for number, each in enumerate(descriptors)]
    try:
        yield memoryview(shared).cast("Q")
    finally:
        for pid in readers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _reader(descriptor: int, shared: mmap.mmap, number: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            total = 0
            while data := os.read(descriptor, READ_SIZE):
                total += len(data)
                COUNT.pack_into(shared, COUNT.size * number, total)
        finally:
            os._exit(0)
    return pid


def _settled(counts: memoryview) -> int:
    """The least of these numbers, when they have stopped growing."""
    before: list[int] = []
    deadline = time.monotonic() + PATIENCE
    while before != (before := counts.tolist()) and time.monotonic() < deadline:
        time.sleep(SETTLED)
    return min(before)


# --- echo ---------------------------------------------------------------------------------------------------


def echo(figures: Figures) -> None:
    """How long a key takes to come back from a program that gives back what it gets."""
    persons = [kind for kind in _present() if kind is not AtSocket]
    best = _best_echoes([*persons, Relays, AtSocket], figures.effort)
    figures.title("echo of a key, as a person has it: through the attach program in a terminal")
    tmux = best[Tmux][0] if Tmux in best else None
    for kind in persons:
        ratio = "" if tmux is None else f", {best[kind][0] / tmux:.2f} of tmux"
        goal = tmux is None or best[kind][0] <= ECHO_RATIO * tmux if kind is Fairlead else None
        _echo_row(figures, kind, best[kind], ratio, goal)
        figures.bar("echo of a key, µs (median)", kind.name, best[kind][0] * 1e6)
    figures.title("echo of a key, at the socket")
    for kind in (Relays, AtSocket):
        goal = best[kind][0] <= 150e-6 and best[kind][1] <= 1e-3 if kind is AtSocket else None
        _echo_row(figures, kind, best[kind], f", {best[kind][0] / best[Relays][0]:.2f} of the relays", goal)
        figures.bar("echo of a key at the socket, µs (median)", kind.name, best[kind][0] * 1e6)
    figures.title("echo of a key, at the socket, while another session floods")
    found = _best_echoes([AtSocket], figures.effort, beside=True)[AtSocket]
    _echo_row(figures, AtSocket, found, "", found[1] <= 5e-3)


def _echo_row(
    figures: Figures, kind: type[Contender], found: tuple[float, float], more: str, goal: bool | None
) -> None:
    median, late = found
    figures.row(kind.name, f"{median * 1e6:.0f} µs", f"99 % within {late * 1e6:.0f} µs{more}", goal=goal)


def _best_echoes(
    kinds: Sequence[type[Contender]], effort: Effort, *, beside: bool = False
) -> dict[type[Contender], tuple[float, float]]:
    """Of each the best round's median, and within how long 99 of 100 keys came back."""
    best: dict[type[Contender], tuple[float, float]] = {}
    for _ in range(effort.echo_rounds):
        for kind in kinds:
            times = sorted(_echoes(kind, effort.echoes, beside=beside))
            found = statistics.median(times), times[int(len(times) * 0.99)]
            best[kind] = min(found, best.get(kind, found))
    return best


def _echoes(kind: type[Contender], count: int, *, beside: bool) -> list[float]:
    contender = kind()
    try:
        contender.start("stty raw -echo; echo ready; cat")
        if beside:
            assert isinstance(contender, Fairlead)
            contender.start("yes the quick brown fox jumps over the lazy dog", name="flood")
        terminal = contender.attach()
        time.sleep(0.3)
        _drain(terminal)
        times = []
        for number in range(WARM_UP + count):
            key = b"%c" % (ord("a") + number % 26)
            typed = contender.typed(key)
            started = time.perf_counter()
            os.write(terminal, typed)
            while key not in os.read(terminal, 65_536):
                pass
            times.append(time.perf_counter() - started)
            if number % 50 == 0:
                time.sleep(0.01)
        return times[WARM_UP:]
    finally:
        contender.close()


def _drain(descriptor: int) -> None:
    while select.select([descriptor], [], [], 0.1)[0]:
        os.read(descriptor, 65_536)


# --- starts -------------------------------------------------------------------------------------------------


def starts(figures: Figures) -> None:
    """How long a person waits: attaching until the first byte is painted, and listing."""
    running = [kind() for kind in _present()[1:] if kind is not AtSocket]
    attaching: dict[str, list[float]] = {}
    listing: dict[str, list[float]] = {}
    try:
        for contender in running:
            contender.start("echo ready; exec sleep 60")
        for _ in range(STARTS):
            for contender in running:
                attaching.setdefault(contender.name, []).append(_first_byte(contender))
                if command := contender.list_command():
                    listing.setdefault(contender.name, []).append(_run_time(command, contender))
        listing["python -c pass"] = [
            _run_time([sys.executable, "-c", "pass"], running[0]) for _ in range(STARTS)
        ]
    finally:
        for contender in running:
            contender.close()
    for what, times, limit in (("attach, to the first byte", attaching, 0.12), ("list", listing, 0.1)):
        figures.title(what)
        for name, seconds in times.items():
            median = statistics.median(seconds)
            goal = median <= limit if name == Fairlead.name else None
            figures.row(name, f"{median * 1e3:.0f} ms", f"best {min(seconds) * 1e3:.0f} ms", goal=goal)
            figures.bar(f"{what}, ms", name, median * 1e3)


def _first_byte(contender: Contender) -> float:
    started = time.perf_counter()
    pid, terminal = spawn(contender.attach_command(), contender.environment)
    while b"ready" not in os.read(terminal, 65_536) and not isinstance(contender, Dtach):
        pass  # dtach keeps no screen: its first byte is all there is
    took = time.perf_counter() - started
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return took


def _run_time(command: Sequence[str], contender: Contender) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=contender.environment, check=False, capture_output=True, timeout=PATIENCE)
    return time.perf_counter() - started


# --- memory and numbers -------------------------------------------------------------------------------------


def memory(figures: Figures) -> None:
    """What the daemon and idle sessions cost, as proportional set size."""
    contender = Fairlead()
    figures.title("memory, proportional set size")
    try:
        with contender.connect() as host:
            daemon = host.status()["pid"]
            empty = _pss(_family(contender))
            figures.row("daemon with no session", _mb(_pss([daemon])), goal=_pss([daemon]) <= 60e6)
            for number in range(IDLE_SESSIONS):
                host.start(f"s{number}", ["sh", "-c", "echo ready; exec sleep 600"])
            time.sleep(2)
            each = (_pss(_family(contender)) - empty) / IDLE_SESSIONS
            figures.row("each idle session, keeper and daemon", _mb(each), goal=each <= 4e6)
            figures.bar("memory, MB", "daemon", _pss([daemon]) / 1e6)
            figures.bar("memory, MB", "a session", each / 1e6)
    finally:
        contender.close()


def many(figures: Figures) -> None:
    """Many sessions at once, and a restart in the middle of them."""
    figures.title("many sessions")
    contender = Fairlead()
    try:
        with contender.connect() as host:
            _fill(host.start, RESTART_SESSIONS)
            took = _restart(contender)
            figures.row(f"restart with {RESTART_SESSIONS} sessions", f"{took:.2f} s", goal=took <= 2)
        with contender.connect() as host:
            started = time.perf_counter()
            _fill(host.start, MANY_SESSIONS, begin=RESTART_SESSIONS)
            each = (time.perf_counter() - started) / (MANY_SESSIONS - RESTART_SESSIONS)
            figures.row("start of a session", f"{each * 1e3:.1f} ms")
            times = [_run_time(contender.list_command(), contender) for _ in range(5)]
            median = statistics.median(times)
            figures.row(f"ls with {MANY_SESSIONS} sessions", f"{median * 1e3:.0f} ms", goal=median <= 0.3)
            figures.row("memory of all", _mb(_pss(_family(contender))))
    finally:
        contender.close()


def _fill(start: Callable[..., object], end: int, begin: int = 0) -> None:
    for number in range(begin, end):
        start(f"s{number}", ["sh", "-c", "echo ready; exec sleep 600"])


def _restart(contender: Fairlead) -> float:
    """Seconds from the command until every session greets a client again."""
    started = time.perf_counter()
    subprocess.run(command_of("daemon", "restart"), env=contender.environment, check=True, timeout=PATIENCE)
    for number in range(RESTART_SESSIONS):
        contender.reach(f"s{number}", keepty.Role.MONITOR)
    return time.perf_counter() - started


def _family(contender: Fairlead) -> list[int]:
    """The daemon, the nursery and the keepers of a runtime directory, by their environment."""
    mark = f"XDG_RUNTIME_DIR={contender.directory}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if b"fairlead" in words and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _pss(pids: Sequence[int]) -> float:
    """Bytes of memory, where what is shared counts in parts."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


# --- all of it ----------------------------------------------------------------------------------------------


PARTS = {"throughput": throughput, "echo": echo, "starts": starts, "memory": memory, "many": many}


def _present() -> list[type[Contender]]:
    return [kind for kind in CONTENDERS if kind.is_here()]


def plot(figures: Figures, path: Path) -> None:
    """Draw what was measured."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fairlead"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(figures.bars), figsize=(8, 1.5 * len(figures.bars)), squeeze=False)
    for axis, (title, bars) in zip(axes[:, 0], figures.bars.items()):
        colours = ["#d9822b" if name.startswith(Fairlead.name) else "#8a9ba8" for name in bars]
        drawn = axis.barh(list(bars), list(bars.values()), color=colours)
        axis.bar_label(drawn, fmt="%.3g", padding=3)
        axis.set_title(title, fontsize=9, loc="left")
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="run this part alone")
    parser.add_argument("--plot", type=Path, help="draw the figures into this SVG file")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    options = parser.parse_args()
    print(f"beside: {', '.join(kind.name for kind in _present()[3:]) or 'no other program'}")
    figures = Figures(QUICK if options.quick else Effort())
    for name in options.only or PARTS:
        PARTS[name](figures)
    if options.plot:
        plot(figures, options.plot)
    return 0 if figures.met else 1


if __name__ == "__main__":
    sys.exit(main())
