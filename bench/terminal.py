"""Terminal sessions beside tmux, dtach, screen and a bare read loop, in one run.

Contenders take turns, round after round, and the best round of each counts, because machines are noisy. What
is printed are ratios and goals; `--plot` draws them. `--only echo` runs one part.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from multiplexers import (
    CONTENDERS,
    PATIENCE,
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

FLOOD_BYTES = 32 * 1024 * 1024
FLOOD_ROUNDS = 3
READERS = (1, 4, 16)
READ_SIZE = 256 * 1024
ECHO_ROUNDS = 5
ECHOES = 1000
WARM_UP = 100
STARTS = 15
IDLE_SESSIONS = 50
MANY_SESSIONS = 500
RESTART_SESSIONS = 100


class Figures:
    """What was measured, printed as it comes, and whether the goals are met."""

    def __init__(self) -> None:
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
    """How fast a program can print, with so many clients that read all they get."""
    best: dict[tuple[str, int], float] = {}
    for _ in range(FLOOD_ROUNDS):
        for count in READERS:
            for kind in _present():
                if kind is Bare and count > 1:
                    continue
                speed = _flood(kind, count)
                best[kind.name, count] = max(speed, best.get((kind.name, count), 0.0))
    bare = best[Bare.name, 1]
    for count in READERS:
        figures.title(f"source throughput, {count} reader{'s' * (count > 1)}")
        figures.row(Bare.name, f"{bare / 1e6:.1f} MB/s")
        tmux = best.get((Tmux.name, count), 0.0)
        for kind in _present()[1:]:
            speed = best[kind.name, count]
            goal = None
            if kind is Fairlead:
                goal = speed >= 0.6 * bare and speed > tmux
            figures.row(
                kind.name, f"{speed / 1e6:.1f} MB/s", f"{speed / bare:.2f} of the bare loop", goal=goal
            )
            figures.bar(f"throughput of the bare read loop, {count} reader(s)", kind.name, speed / bare)


def _flood(kind: type[Contender], count: int) -> float:
    """Bytes a second that a program gets rid of."""
    contender = kind()
    begin, done, text = (contender.directory / name for name in ("begin", "done", "text"))
    line = b"\x1b[32m%08d\x1b[0m the quick brown fox jumps over the lazy dog, and so on and on and on\n"
    text.write_bytes(
        b"".join(line % number for number in range(int(FLOOD_BYTES * kind.share) // len(line % 0)))
    )
    os.mkfifo(begin)
    os.mkfifo(done)
    try:
        contender.start(f"read go < {begin}; cat {text}; echo > {done}; sleep {PATIENCE:g}")
        terminals = [contender.attach() for _ in range(count)]
        with _draining(terminals):
            go = os.open(begin, os.O_WRONLY)
            started = time.perf_counter()
            os.write(go, b"go\n")
            with open(done, "rb") as end:
                end.read(1)
            took = time.perf_counter() - started
            os.close(go)
        return text.stat().st_size / took
    finally:
        contender.close()


@contextlib.contextmanager
def _draining(descriptors: Sequence[int]) -> Iterator[None]:
    """Another process reads everything from these, all the time."""
    pid = os.fork()
    if pid == 0:
        try:
            _read_all(descriptors)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _read_all(descriptors: Sequence[int]) -> None:
    if len(descriptors) == 1:
        while True:
            os.read(descriptors[0], READ_SIZE)
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            os.read(descriptor, READ_SIZE)


# --- echo ---------------------------------------------------------------------------------------------------


def echo(figures: Figures) -> None:
    """How long a key takes to come back from a program that gives back what it gets."""
    for beside in (False, True):
        figures.title("echo of a key, while another session floods" if beside else "echo of a key")
        kinds: list[type[Contender]] = [Fairlead] if beside else [Bare, Relays, *_present()[1:]]
        best: dict[type[Contender], tuple[float, float]] = {}
        for _ in range(ECHO_ROUNDS):
            for kind in kinds:
                times = sorted(_echoes(kind, beside=beside))
                found = statistics.median(times), times[int(len(times) * 0.99)]
                best[kind] = min(found, best.get(kind, found))
        for kind, (median, late) in best.items():
            goal = None
            if kind is Fairlead:
                goal = late <= 5e-3 if beside else median <= 150e-6 and late <= 1e-3
            figures.row(kind.name, f"{median * 1e6:.0f} µs", f"99 % within {late * 1e6:.0f} µs", goal=goal)
            if not beside:
                figures.bar("echo of a key, µs (median)", kind.name, median * 1e6)


def _echoes(kind: type[Contender], *, beside: bool) -> list[float]:
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
        for number in range(WARM_UP + ECHOES):
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
    running = [kind() for kind in _present()[1:]]
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
        contender.attach(f"s{number}", keepty.Role.MONITOR)
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
        colours = ["#d9822b" if name == Fairlead.name else "#8a9ba8" for name in bars]
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
    options = parser.parse_args()
    print(f"beside: {', '.join(kind.name for kind in _present()[2:]) or 'no other program'}")
    figures = Figures()
    for name in options.only or PARTS:
        PARTS[name](figures)
    if options.plot:
        plot(figures, options.plot)
    return 0 if figures.met else 1


if __name__ == "__main__":
    sys.exit(main())
