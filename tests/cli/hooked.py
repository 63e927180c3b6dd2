"""An agent in a terminal that has our hooks, and a verifier of it."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from fairlead.client.following import Watching
from fairlead.client.sdk import Events
from fairlead.events import Happened
from fairlead.system.settings import Settings
from tests.hosting import WAIT, Hosting

AGENT = '''
"""An agent that looks and behaves as Claude Code does: an input between two lines, hooks, a dialog.

Its prompts do what they say: `break` fails, `escape` is stopped by a person, `quit` ends it after the turn,
`exit` at once, `ask` opens a dialog that Enter accepts, `nest` starts another agent below it. With `plain`
its stop can't be answered.
"""
import json, os, subprocess, sys, time, tty

here, how, name = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "claude"
out = open(here + "/typed", "ab", 0)
transcript = here + "/transcript.jsonl"
conversation = "main"
old = tty.tcgetattr(0)
tty.setraw(0)
RULE = "─" * os.get_terminal_size().columns
log = ["ready"]


def draw(text="", dialog=False):
    box = ["Do you want to proceed?", " ❯ 1. Yes", "   2. No"] if dialog else [
        RULE, *("> " + text).split("\\n"), RULE, "  ? for shortcuts"]
    os.write(1, ("\\x1b[?2004h\\x1b[2J\\x1b[H" + "\\r\\n".join(log[-8:] + box)).encode())


def said(role, text):
    line = {"role": role, "text": text, "type": role, "message": {"role": role, "content": text}}
    with open(transcript, "a") as file:
        file.write(json.dumps(line) + "\\n")


def hook(event, **more):
    given = {"hook_event_name": event, "session_id": conversation, "transcript_path": transcript, **more}
    words = [sys.executable, "-m", "fairlead", "hook", name]
    if how == "plain" and event == "Stop":
        given = {"type": "agent-turn-complete", "transcript_path": transcript}
        words.append(json.dumps(given))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asked:
        asked.stdin.write(json.dumps(given).encode())
        asked.stdin.close()
        while event == "Stop" and asked.poll() is None:
            if os.path.exists(here + "/interrupt"):
                asked.kill()  # as Esc does
            time.sleep(0.02)
        answer = asked.stdout.read()
    return json.loads(answer)["reason"] if answer else ""


NESTED = """
import json, subprocess, sys
for event in ("UserPromptSubmit", "Stop"):
    given = {"hook_event_name": event, "session_id": "below", "prompt": "not a person"}
    subprocess.run([sys.executable, "-m", "fairlead", "hook", "claude"], input=json.dumps(given).encode())
"""


def end():
    tty.tcsetattr(0, tty.TCSANOW, old)
    os.write(1, b"\\x1b[?2004l\\x1b[2J\\x1b[Hbye\\r\\n")
    sys.exit()


def turn(text):
    said("user", text)
    while os.path.exists(here + "/hold"):
        time.sleep(0.02)
    if text == "nest":
        subprocess.run([sys.executable, "-c", NESTED])
    if text == "break":
        hook("StopFailure", error="rate limit")
        return
    if text == "escape":
        said("user", "[Request interrupted by user]")
        return
    said("assistant", "done")
    active = False
    while reason := hook("Stop", stop_hook_active=active):
        if os.path.exists(here + "/deaf"):
            break
        active = True
        log.append("sent back")
        draw()
        said("user", reason)
        said("assistant", "done")
    if text == "quit":
        end()


buffer, turns = b"", 0
draw()
while True:
    data = os.read(0, 65536)
    out.write(data)
    buffer += data
    text = buffer.replace(b"\\x1b[200~", b"").replace(b"\\x1b[201~", b"").decode()
    if buffer.count(b"\\x1b[200~") > buffer.count(b"\\x1b[201~") or not buffer.endswith(b"\\r"):
        draw(text)
        continue
    text, buffer = text[:-1], b""
    if text == "exit":
        end()
    if text == "/clear":
        conversation += " again"
        draw()
        continue
    if text == "ask":
        draw(dialog=True)
        key = os.read(0, 65536)
        out.write(key)
        open(here + "/accepted", "w").close()
        draw()
        continue
    hook("UserPromptSubmit", prompt=text)
    turn(text)
    turns += 1
    log.append("turn %d done" % turns)
    draw()
'''


TOPICS = ("verify/report", "verify/escalated", "verify/receipt", "terminal/turn-began", "terminal/turn-ended")


class Verifier:
    """A verifier of a terminal session, in raw lines, and what everybody is told of it."""

    kind = "terminal"

    def __init__(self, hosting: Hosting, name: str, **more: Any) -> None:
        target = hosting.ask("verify_target", name=name)
        assert target["kind"] == self.kind
        self.name: str = target["session_id"]
        name = self.name
        self.events = Events(Watching(TOPICS), Settings(hosting.environment))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT)
        self._socket.connect(target["socket"])
        self._lines = self._socket.makefile("rb")
        self._number = 0
        self._kept: list[tuple[str, dict[str, Any]]] = []
        self.send("hello", role="verifier", sessionId=name, pid=os.getpid(), **more)
        assert self.next()["type"] == "hello_ack"

    def send(self, type: str, **fields: Any) -> None:
        self._socket.sendall(json.dumps({"type": type, **fields}).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        """The next envelope but pings, which come as long as nothing happens."""
        deadline = time.monotonic() + WAIT
        while True:
            assert time.monotonic() < deadline, f"nothing but pings came in {WAIT:.0f} s"
            envelope: dict[str, Any] = json.loads(self._lines.readline())
            if envelope["type"] != "ping":
                return envelope
            self.send("pong", nonce=envelope["nonce"])

    def prompt(self, message: str, **more: Any) -> str:
        """Send the turn back; gives why it was refused, if it was."""
        self._number += 1
        id = str(self._number)
        self.send("prompt", sessionId=self.name, message=message, correlationId=id, **more)
        ack = self.next()
        assert (ack["type"], ack["correlationId"]) == ("prompt_ack", id)
        return "" if ack["ok"] else str(ack["error"])

    def told(self, topic: str) -> dict[str, Any]:
        """The next event of a topic; those of others are kept for later."""
        for at, (kind, data) in enumerate(self._kept):
            if kind == topic:
                del self._kept[at]
                return data
        while True:
            event = self.events.next(timeout=WAIT)
            if isinstance(event, Happened):
                data = dict(event.data)
                if self.name in (data.get("session_id"), data.get("name")):
                    if event.topic == topic:
                        return data
                    self._kept.append((event.topic, data))

    def report(self, turn: int = 1, status: str = "failed") -> None:
        self.send(
            "report", sessionId=self.name, turnIndex=turn, status=status, summary="no", sections={}, raw="no"
        )

    def receipts(self, count: int) -> list[str]:
        return [self.told("verify/receipt")["state"] for _ in range(count)]

    def close(self) -> None:
        self.events.close()
        self._lines.close()
        self._socket.close()


class Working:
    """A terminal session with an agent, alone or below a shell."""

    def __init__(
        self, hosting: Hosting, place: Path, name: str, *, in_shell: bool = False, how: str = "hooks"
    ) -> None:
        self._hosting = hosting
        self.place = place
        self.name = name
        command = self.command = [sys.executable, str(place / "agent.py"), str(place), how]
        program = ["bash", "--norc", "--noprofile", "-i"] if in_shell else command
        hosting.run("start", name, "-d", "--cwd", str(place), "--", *program)
        if in_shell:
            self.type(" ".join(command))
        hosting.wait_text(name, "ready")

    def type(self, text: str) -> None:
        self._hosting.run("send", self.name, text, "-k", "enter")

    def wait(self, text: str) -> None:
        self._hosting.wait_text(self.name, text)

    @property
    def typed(self) -> bytes:
        return (self.place / "typed").read_bytes()

    @property
    def lines(self) -> int:
        return (self.place / "transcript.jsonl").read_bytes().count(b"\n")
