"""Hosted agents: what Fairlead adds to a line, a thousand updates, fifty sessions: `make bench-hosted`.

The agent is the small one of the tests. Figures of latency stand beside those of a bare relay in the same
run: a process that copies the same lines from one pipe to another.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from agent import Client, row
from multiplexers import PATIENCE, Fairlead, command_of

from fairlead.formats.edn import Keyword
from fairlead.system import processes
from fairlead.wire import acp, rpc

SMALL = Path(__file__).parent.parent / "tests/hosted/small_agent.py"
LINES, PAUSE = 400, 0.004
SESSIONS, TURNS, STARTS = 50, 5, 9
TICKER = f"""
import time
for _ in range({LINES}):
    print(time.perf_counter_ns(), flush=True)
    time.sleep({PAUSE})
"""
RELAY = """
import subprocess, sys
ticker = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
for line in ticker.stdout:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""
INITIALIZE = acp.ClientConnection().request(acp.Initialize(protocol_version=acp.VERSION))[1]
MCP_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}


def relayed() -> float:
    """The median of the seconds that a line takes through a bare relay."""
    relay = subprocess.Popen([sys.executable, "-c", RELAY, TICKER], stdout=subprocess.PIPE)
    assert relay.stdout is not None
    taken = [time.perf_counter_ns() - int(line) for line in relay.stdout]
    relay.wait(PATIENCE)
    assert len(taken) == LINES
    return statistics.median(taken) / 1e9


def lines(client: Client) -> bool:
    """How long a line takes from the agent to a subscriber."""
    taken: list[int] = []

    def is_over(item: Any) -> bool:
        if isinstance(item, rpc.Event) and item.topic == "assistant/delta":
            now = time.perf_counter_ns()
            taken.extend(now - int(sent) for sent in item.data[Keyword("text")].split())
        return _is_idle(item)

    bare = relayed()
    client.ask("prompt", message="ticks")
    client.until(is_over)
    assert len(taken) == LINES, len(taken)
    ours = statistics.median(taken) / 1e9
    row("a line through a bare relay, median", f"{bare * 1e3:.2f} ms")
    return row("a line from the agent to a subscriber, median", f"{ours * 1e3:.2f} ms", ours <= bare + 1e-3)


def floods(client: Client) -> bool:
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        client.ask("prompt", message="flood")
        client.until(_is_idle)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    return row("a turn with 1,000 updates, to a subscriber", f"{median * 1e3:.0f} ms", median <= 0.15)


def _is_idle(item: Any) -> bool:
    return (
        isinstance(item, rpc.Event)
        and item.topic == "session/updated"
        and item.data[Keyword("phase")] == "idle"
    )


def many(client: Client, contender: Fairlead, project: str) -> bool:
    """Fifty sessions, each with its agent: what each costs, and a list of them."""
    daemon = client.ask("daemon_status").data[Keyword("pid")]
    before = _private(daemon)
    for number in range(SESSIONS):
        client.ask("open_session", name=f"s{number}", cwd=project, agent="small")
        client.ask("session_prompt", name=f"s{number}", text="hello")
    for number in range(SESSIONS):
        client.ask("session_wait", name=f"s{number}", timeout=PATIENCE)
    keepers = [pid for pid in processes.pids() if _is_keeper(pid, str(contender.directory))]
    each = (_private(daemon) - before) / SESSIONS + statistics.median(map(_private, keepers))
    met = row("memory of a session besides its agent", f"{each / 2**20:.2f} MiB", each <= 2 * 2**20)
    listed = statistics.median(_timed(command_of("ls"), contender) for _ in range(STARTS))
    return met & row(f"`fairlead ls` of {SESSIONS}", f"{listed * 1e3:.0f} ms", listed <= 0.15)


def _is_keeper(pid: int, directory: str) -> bool:
    """Whether a process holds the pipes of one of our agents: its children have a mark and its words ours."""
    words = processes.command(pid)
    return "fairlead.keeper.nursery" in words and directory in words and bool(processes.below(pid))


def _private(pid: int) -> int:
    """The bytes of memory that a process has, with its share of what it shares."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def _timed(command: list[str], contender: Fairlead, feed: bytes | None = None) -> float:
    """The seconds until a command ends, or until it answers the line that it is fed."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=contender.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if feed is not None:
        process.stdin.write(feed)
        process.stdin.flush()
        process.stdout.readline()
    else:
        process.stdout.read()
    taken = time.perf_counter() - began
    process.stdin.close()
    process.wait(PATIENCE)
    process.stdout.close()
    return taken


def bridges(contender: Fairlead) -> bool:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": MCP_HELLO}
    met = True
    for name, feed in (("acp", INITIALIZE), ("mcp", json.dumps(hello).encode() + b"\n")):
        taken = statistics.median(_timed(command_of(name), contender, feed) for _ in range(STARTS))
        met &= row(f"`fairlead {name}`, to the answer of initialize", f"{taken * 1e3:.0f} ms", taken <= 0.15)
    return met


def main() -> int:
    contender = Fairlead()
    project = contender.directory / "project"
    project.mkdir()
    config = contender.directory / "config.toml"
    config.write_text(f"[agents.small]\ncommand = {json.dumps([sys.executable, str(SMALL), 'load'])}\n")
    contender.environment |= {"FAIRLEAD_CONFIG": str(config), "SMALL_AGENT_STEP": str(PAUSE)}
    os.chdir(project)
    met = True
    try:
        with contender.connect():
            client = Client(contender.settings.rpc_path)
            client.ask("subscribe")
            client.ask("open_session", name="first", cwd=str(project), agent="small")
            client.ask("prompt", message="hello")
            client.until(_is_idle)
            met &= lines(client)
            met &= floods(client)
            met &= bridges(contender)
            met &= many(client, contender, str(project))
            for each in client.ask("session_list", kind="hosted").data[Keyword("sessions")]:
                client.ask("session_stop", name=each[Keyword("id")])
            client.socket.close()
    finally:
        contender.close()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
