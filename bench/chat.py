"""The chat: an answer of 100 KB that streams, drawn as Markdown and printed as it is: `make bench-chat`."""

from __future__ import annotations

import json
import os
import re
import select
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from multiplexers import PATIENCE, Fairlead, command_of, spawn

from fairlead.ui.chat.screen import ChatScreen
from fairlead.ui.chat.talk import ConversationView
from fairlead.ui.styled import Paint

SIZE = 100_000
PIECE = 16
"""How many characters a model sends at a time."""
RUNS = 5
MOST_BYTES, MOST_TIME = 3.0, 1.5
MARKDOWN = """## Steps

1. Open `config.toml` and set **port** to a *free* one, such as 8080, which nothing else uses on this machine.
2. Then run the tests again, and look at what [the log](https://example.org/log) says about each of them.

```python
def answer(question: str) -> int:
    # it is always the same
    return 42 if question else 0
```

| Setting | Meaning | Default |
|---|---|---|
| `port` | where it listens | 8080 |
| `host` | on which address it listens, if there are several | 127.0.0.1 |

That is all. If anything goes wrong, say so, and we look at it together; the last lines of the output suffice.

"""
PRINTING = """
import sys, fairlead
with fairlead.connect() as host:
    agent = host.agent(sys.argv[1])
    input("READY")
    for event in agent.prompt("go"):
        if type(event).__name__ == "Text":
            print(event.text, end="", flush=True)
print("PRINTED", flush=True)
"""
"""A program that prints an answer as it comes, and nothing else."""


def text_of(size: int) -> str:
    return MARKDOWN * (size // len(MARKDOWN))


def row(name: str, shown: str, met: bool | None = None) -> bool:
    print(f"  {name:<58}{shown:>12}{'' if met is None else '   met' if met else '   MISSED'}", flush=True)
    return met is not False


def until(terminal: int, end: bytes) -> bytes:
    """What is written until something is."""
    seen = b""
    deadline = time.monotonic() + 4 * PATIENCE
    while end not in seen:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], seen[-500:]
        seen += os.read(terminal, 65_536)
    return seen


def chatted(contender: Fairlead, number: int) -> tuple[float, bytes]:
    """How long the chat takes for the answer, and what it writes."""
    pid, terminal = spawn(command_of("agent", f"chat{number}"), contender.environment)
    until(terminal, b"^D leaves")
    began = time.perf_counter()
    os.write(terminal, b"go\r")
    seen = until(terminal, b"THE END")
    took = time.perf_counter() - began
    os.write(terminal, b"\x04")
    os.waitpid(pid, 0)
    os.close(terminal)
    return took, seen


def printed(contender: Fairlead, number: int) -> float:
    """How long it takes a program that only prints."""
    pid, terminal = spawn([sys.executable, "-c", PRINTING, f"print{number}"], contender.environment)
    until(terminal, b"READY")
    began = time.perf_counter()
    os.write(terminal, b"\n")
    until(terminal, b"PRINTED")
    took = time.perf_counter() - began
    os.waitpid(pid, 0)
    os.close(terminal)
    return took


def drawn(text: str, size: int) -> tuple[float, int]:
    """How long it takes to draw a text after each piece, without a daemon, and how many bytes that are."""
    written = 0

    def write(part: str) -> None:
        nonlocal written
        written += len(part.encode())

    chat = ChatScreen(write, lambda: (80, 24), Paint(True))
    talk = ConversationView(chat)
    began = time.process_time()
    for at in range(0, len(text), size):
        talk.stream(text[at : at + size])
        rows = [*talk.rows(), ("* thinking 3 s · Esc or ^C interrupts", "dim"), ("> ", ""), ("model", "dim")]
        chat.draw(rows, (len(rows) - 2, 2))
    talk.end_line()
    chat.leave()
    return time.process_time() - began, written


def cassette(text: str) -> Iterator[dict[str, Any]]:
    yield {"cassette": 1}
    for at in range(0, len(text), PIECE):
        yield {"event": "text", "text": text[at : at + PIECE]}
    yield {"event": "finished", "stop_reason": "stop", "usage": {}}


def main() -> int:
    text = text_of(SIZE) + "THE END"
    met = True
    print("\ndrawing alone, a picture after each piece")
    for size in (PIECE, 40, 200, 2000):
        seconds, count = drawn(text, size)
        name = f"pieces of {size} characters: time, bytes for each of the text"
        row(name, f"{seconds * 1e3:.0f} ms, {count / len(text):.1f}")
    contender = Fairlead()
    path = contender.directory / "cassette.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in cassette(text)))
    contender.environment |= {
        "FAIRLEAD_AGENT_MODEL": "offline/replay",
        "FAIRLEAD_AGENT_CASSETTE": str(path),
    }
    try:
        chats, prints = [], []
        for number in range(RUNS):
            prints.append(printed(contender, number))
            chats.append(chatted(contender, number))
        print(f"\nan answer of {len(text) // 1000} KB, through the daemon to a terminal")
        plain, took = statistics.median(prints), statistics.median(took for took, _ in chats)
        row("printed as it comes, by a program of the SDK", f"{plain:.2f} s")
        met &= row("drawn by the chat", f"{took:.2f} s: {took / plain:.2f}", took <= MOST_TIME * plain)
        written = max(len(seen) for _, seen in chats) / len(text)
        met &= row("bytes written for each of the text", f"{written:.2f}", written <= MOST_BYTES)
        erased = max(len(re.findall(rb"\x1b\[J", seen)) for _, seen in chats)
        row("how often rows were erased to be drawn anew", f"{erased}")
    finally:
        contender.close()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
