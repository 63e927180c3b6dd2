"""Agent sessions: requests a second, the cost of a turn, and hundreds of journals: `make bench-agent`."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from multiplexers import PATIENCE, Fairlead, command_of

from fairlead.agent.journal import Journal, Said
from fairlead.agent.messages import Assistant, Text, user
from fairlead.formats.edn import Keyword
from fairlead.wire import rpc

PINGS = 20_000
WINDOW = 48
ROUND_TRIPS = 3000
DELTAS = 1000
SESSIONS, ENTRIES = 200, 1000
TURNS = 5
LONG = 30_000
PIECES, PIECE_PAUSE = 400, 0.004
QUERY = (
    "[:psi.agent-session/phase :psi.agent-session/is-idle :psi.agent-session/model-id"
    " :psi.agent-session/model-provider :psi.agent-session/thinking-level :psi.agent-session/worktree-path"
    " :psi.agent-session/usage-input :psi.agent-session/usage-output :psi.agent-session/context-tokens"
    " :psi.agent-session/display-name]"
)


class Client:
    """A connection that counts answers."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)
        self._wire = rpc.ClientConnection()
        self._got: list[Any] = []
        self.socket.sendall(self._wire.handshake("bench", "1", [rpc.INCREMENTS]))
        self.until(lambda item: isinstance(item, rpc.Response))

    def until(self, holds: Callable[[Any], bool]) -> Any:
        while True:
            while self._got:
                if holds(item := self._got.pop(0)):
                    return item
            self._got += self._wire.receive(self.socket.recv(262_144))

    def ask(self, op: str, **params: Any) -> Any:
        id, line = self._wire.request(op, rpc.fields(**params))
        self.socket.sendall(line)
        return self.until(lambda item: getattr(item, "id", None) == id and not isinstance(item, rpc.Event))


def row(name: str, shown: str, met: bool | None = None) -> bool:
    print(f"  {name:<52}{shown:>14}{'' if met is None else '   met' if met else '   MISSED'}", flush=True)
    return met is not False


def pings(client: Client) -> bool:
    line = b'{:id "%d" :kind :request :op "ping"}\n'
    sent = received = 0
    started = time.perf_counter()
    while received < PINGS:
        room = min(WINDOW - (sent - received), PINGS - sent)
        if room:
            client.socket.sendall(b"".join(line % (sent + each) for each in range(room)))
            sent += room
        received += client.socket.recv(262_144).count(b"\n")
    rate = PINGS / (time.perf_counter() - started)
    times = []
    for number in range(ROUND_TRIPS):
        began = time.perf_counter()
        client.socket.sendall(line % number)
        client.socket.recv(4096)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    met = row("pings a second, pipelined", f"{rate:,.0f}", rate >= 8000)
    return met & row("a ping's round trip, median", f"{median * 1e6:.0f} µs", median <= 300e-6)


def turns(client: Client, sessions: Path) -> bool:
    client.ask("subscribe")
    short = _turn(client, lambda number: client.ask("new_session"))
    met = row(f"a turn with {DELTAS} deltas, to a subscriber", f"{short * 1e3:.0f} ms", short <= 0.15)
    paths = [_journal(sessions, f"long{number}", LONG) for number in range(TURNS)]
    long = _turn(client, lambda number: client.ask("switch_session", session_path=paths[number]))
    name = f"the same in a session of {LONG:,} messages"
    return met & row(name, f"{long * 1e3:.0f} ms", long <= 0.2)


def _turn(client: Client, enter: Callable[[int], Any]) -> float:
    times = []
    for number in range(TURNS):
        enter(number)
        began = time.perf_counter()
        client.ask("prompt", message="go")
        client.until(_is_over)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _is_over(item: Any) -> bool:
    return (
        isinstance(item, rpc.Event)
        and item.topic == "session/updated"
        and item.data[Keyword("phase")] == "idle"
    )


class Slow(BaseHTTPRequestHandler):
    """A model's server whose pieces of text are the moments at which they were sent."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for _ in range(PIECES):
            self._send({"content": f"{time.perf_counter_ns()} "})
            time.sleep(PIECE_PAUSE)
        self._send({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, str], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        piece = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def deltas(client: Client) -> bool:
    """How long a piece takes from a model's server to a subscriber, over HTTP and the daemon."""
    client.ask("new_session")
    client.ask("set_model", provider="bench", model_id="m")
    client.ask("prompt", message="go")
    taken: list[int] = []

    def is_over(item: Any) -> bool:
        if isinstance(item, rpc.Event) and item.topic == "assistant/delta":
            now = time.perf_counter_ns()
            taken.extend(now - int(sent) for sent in item.data[Keyword("text")].split())
        return _is_over(item)

    client.until(is_over)
    assert len(taken) == PIECES
    median = statistics.median(taken) / 1e6
    return row("a delta, from a model's server to a subscriber", f"{median:.2f} ms", median <= 2)


def queries(client: Client) -> bool:
    times = []
    for _ in range(500):
        began = time.perf_counter()
        client.ask("query_eql", query=QUERY)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    return row("a query of ten attributes, with its round trip", f"{median * 1e3:.2f} ms", median <= 2e-3)


def _journal(sessions: Path, id: str, entries: int) -> str:
    """A session on disk; gives its path."""
    path = str(sessions / f"--bench--/2026-01-01T00-00-00-000Z_{id}.jsonl")
    with Journal.create(path, id=id, cwd="/bench") as journal:
        for entry in range(entries // 2):
            journal.append(Said(user(f"question {entry} of session {id}: what is next?")))
            journal.append(Said(Assistant((Text("the answer, in some more words than were asked"),))))
    return path


def timed(command: list[str], contender: Fairlead, feed: bytes = b"") -> float:
    started = time.perf_counter()
    subprocess.run(
        command, env=contender.environment, check=True, capture_output=True, timeout=PATIENCE, input=feed
    )
    return time.perf_counter() - started


def main() -> int:
    contender = Fairlead()
    state = contender.directory / ".local/state/fairlead"
    cassette = contender.directory / "cassette.jsonl"
    events: list[dict[str, Any]] = [{"event": "text", "text": "word "}] * DELTAS
    events += [{"event": "finished", "stop_reason": "stop", "usage": {}}]
    cassette.write_text("".join(json.dumps(line) + "\n" for line in [{"cassette": 1}, *events]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = contender.directory / "config.toml"
    config.write_text(
        f'[providers.bench]\nbase_url = "http://127.0.0.1:{server.server_port}/v1"\n'
        '[[models]]\nprovider = "bench"\nid = "m"\n'
    )
    contender.environment |= {
        "FAIRLEAD_CONFIG": str(config),
        "FAIRLEAD_AGENT_MODEL": "offline/replay",
        "FAIRLEAD_AGENT_CASSETTE": str(cassette),
    }
    met = True
    try:
        print("\nan empty daemon")
        with contender.connect():
            client = Client(contender.settings.rpc_path)
            met &= pings(client)
            met &= turns(client, contender.directory / "long")
            met &= deltas(client)
            met &= queries(client)
            hello = rpc.ClientConnection().handshake("bench", "1", [rpc.INCREMENTS])
            bridged = statistics.median(timed(command_of("rpc"), contender, hello) for _ in range(9))
            met &= row(
                "`fairlead rpc`, to the answer of a handshake", f"{bridged * 1e3:.0f} ms", bridged <= 0.25
            )
            client.socket.close()
        print(f"\n{SESSIONS} sessions of {ENTRIES} entries")
        for number in range(SESSIONS):
            _journal(state / "sessions", f"s{number}", ENTRIES)
        subprocess.run(command_of("daemon", "stop"), env=contender.environment, check=True)
        began = timed(command_of("ls"), contender)
        met &= row("a command that starts the daemon", f"{began:.2f} s", began <= 1)
        row("`fairlead sessions`, the first time", f"{timed(command_of('sessions'), contender):.2f} s")
        listed = statistics.median(timed(command_of("sessions"), contender) for _ in range(5))
        met &= row("`fairlead sessions`", f"{listed * 1e3:.0f} ms", listed <= 0.3)
        found = statistics.median(
            timed(command_of("sessions", "question", "77"), contender) for _ in range(5)
        )
        row("finding what was said", f"{found * 1e3:.0f} ms")
    finally:
        contender.close()
        server.shutdown()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
