"""A line on which each byte takes its time, both ways: a ProxyCommand of ssh, for kernels without netem.

python slow_line.py ADDRESS PORT SECONDS
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque

READ_SIZE = 65_536


def main(address: str, port: int, seconds: float) -> None:
    there = socket.create_connection((address, port))
    late: deque[tuple[float, int, bytes]] = deque()
    ways = {0: there.fileno(), there.fileno(): 1}
    while ways or late:
        left = max(0.0, late[0][0] - time.monotonic()) if late else None
        for reading in select.select(list(ways), [], [], left)[0]:
            data = os.read(reading, READ_SIZE)
            late.append((time.monotonic() + seconds, ways[reading], data))
            if not data:
                del ways[reading]
        while late and late[0][0] <= time.monotonic():
            _, writing, data = late.popleft()
            if not data:
                return
            while data:
                data = data[os.write(writing, data) :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
