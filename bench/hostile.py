"""What a hostile program can hold up: another session's echo while the first one floods its terminal.

Each flood runs for some seconds in a session of its own; meanwhile keys are typed in a second session through
its keepty socket, and the time until their echo is measured. Prints median, 99th percentile and worst.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fairlead.wire import keepty
from tests.hosting import Hosting, is_alive

SECONDS = 3.0
"""How long each flood lasts, and how long keys are typed."""
PAUSE = 0.005
"""Seconds between keys."""

FLOODS = {
    "nothing": b"",
    "text": b"some words that a program prints, line by line\r\n",
    "REP": b"A\x1b[999999999b",
    "RIS": b"\x1bc",
    "column switching": b"\x1b[?40h\x1b[?3h\x1b[?3l",
    "DECALN": b"\x1b#8",
    "reverse index": b"\x1bM",
    "unterminated OSC": b"x",
    "notifications": b"\x1b]9;a\x07",
    "scrolling": b"A\x1b[999999999S",
}

FLOOD = """
import os, sys, time
unit, first, seconds = bytes.fromhex(sys.argv[1]), bytes.fromhex(sys.argv[2]), float(sys.argv[3])
os.write(1, first)
end = time.monotonic() + seconds
while time.monotonic() < end:
    os.write(1, unit * max(1, 4096 // len(unit)))
time.sleep(600)
"""


class Typist:
    """A client of a session whose program is its terminal's echo."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._client = keepty.ClientConnection()
        self._socket.sendall(self._client.send(keepty.Hello(keepty.Role.WRITER, 80, 24)))
        self._seen = b""
        self._until(lambda: b"ready" in self._seen)

    def _until(self, holds) -> None:  # type: ignore[no-untyped-def]
        while not holds():
            for message in self._client.receive(self._socket.recv(65536)):
                if isinstance(message, keepty.Output):
                    self._seen += message.data

    def echo(self) -> float:
        """Seconds from a key to its echo."""
        self._seen = b""
        began = time.perf_counter()
        self._socket.sendall(self._client.send(keepty.Input(b"x")))
        self._until(lambda: b"x" in self._seen)
        return time.perf_counter() - began

    def close(self) -> None:
        self._socket.close()


def measured(hosting: Hosting, flood: str, unit: bytes, seconds: float) -> list[float]:
    """The echo times in a second session during a flood and until as much time again has passed."""
    name = f"f{abs(hash(flood)) % 10**8}"
    if unit:
        first = b"\x1b]0;" if flood == "unterminated OSC" else b""
        words = [sys.executable, "-c", FLOOD, unit.hex(), first.hex(), str(seconds)]
        hosting.run("start", name, "-d", "--", *words)
    typist = Typist(keepty.socket_path("typist", hosting.environment))
    times = []
    end = time.monotonic() + 2 * seconds
    while time.monotonic() < end:
        times.append(typist.echo())
        time.sleep(PAUSE)
    typist.close()
    if unit:
        pid = hosting.sessions()[name]["pid"]
        os.killpg(pid, 9)
        hosting.until(lambda: not is_alive(pid))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("floods", nargs="*", choices=[[], *FLOODS])
    options = parser.parse_args()
    print(f"{'flood':<20}{'median':>12}{'99 %':>12}{'worst':>12}")
    for flood in options.floods or FLOODS:
        hosting = Hosting()
        try:
            hosting.run("start", "typist", "-d", "--", "sh", "-c", "stty raw; echo ready; cat >/dev/null")
            hosting.wait_text("typist", "ready")
            times = sorted(measured(hosting, flood, FLOODS[flood], options.seconds))
        finally:
            hosting.close()
        late = times[min(len(times) - 1, int(len(times) * 0.99))]
        row = (statistics.median(times), late, times[-1])
        print(f"{flood:<20}" + "".join(f"{each * 1000:9.2f} ms" for each in row), flush=True)


if __name__ == "__main__":
    main()
