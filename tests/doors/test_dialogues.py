"""A recorded dialogue of each door: the same requests get the same bytes as before, ids and times aside.

They are in tests/data/dialogues. `RECORD_DIALOGUES=1 make pytest ARGS="-k dialogues"` writes them anew: that
is for changes of a protocol only.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.system.settings import Settings
from fairlead.wire import keepty, verifier
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting

DIALOGUES = Path(__file__).parent.parent / "data" / "dialogues"
VARYING = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)", "<time>"),
    (r"\d{4}-\d\d-\d\dT[\d-]+Z?", "<time>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"\b[0-9a-f]{32}\b", "<prompt id>"),
    (r"\b[0-9a-f]{8}\b", "<short id>"),
    (r"(?<=:seq )\d+", "<seq>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>"),
    (r"\b1[789]\d{8}(?:\.\d+)?\b|\b1\.[789]\d+E9\b", "<seconds>"),
    (r"\bguide-[0-9a-f]{12}\b", "<call>"),
    (r"--tmp-fl-\w+-home--", "<journals>"),
    (r"(?<=— )\d\d:\d\d / \d\d:\d\d", "<times>"),
    (r"(?<=:STATUS :)\w+", "<health>"),
    (r"(?<=:pid )\d+", "<pid>"),
    (r'(?<="timestamp":)\d+', "<time>"),
    (r"\b\d+\.\d+ ?(?:s|ms)\b", "<duration>"),
    (r":activity \{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}", ":activity <activity>"),
)
"""What is another each time, and what stands for it."""


OPEN: list[socket.socket] = []


class Dialogue:
    """What was said on a connection, in the order of who spoke."""

    def __init__(self, connection: socket.socket, hosting: Hosting) -> None:
        connection.settimeout(WAIT)
        OPEN.append(connection)
        self._connection = connection
        self._directory = str(hosting.directory)
        self._said: list[tuple[str, bytes]] = []
        self._unread = b""

    def say(self, data: bytes) -> None:
        self._connection.sendall(data)
        self._said.append((">", data))

    def until(self, pattern: str) -> bytes:
        """All that comes, up to the line, or the end of what there is, with this in it."""
        wanted = re.compile(pattern.encode())
        deadline = time.monotonic() + WAIT
        while not (found := wanted.search(self._unread)):
            assert time.monotonic() < deadline, (pattern, self._unread)
            data = self._connection.recv(65_536)
            assert data, (pattern, self._unread)
            self._unread += data
        end = self._unread.find(b"\n", found.end() - 1) + 1 or len(self._unread)
        read, self._unread = self._unread[:end], self._unread[end:]
        self._said.append(("<", read))
        return read

    def text(self) -> str:
        lines = []
        for who, data in self._said:
            lines += [f"{who} {line}" for line in data.decode("utf-8", "backslashreplace").splitlines()]
        text = "\n".join(lines).replace(self._directory, "<directory>") + "\n"
        for pattern, name in VARYING:
            text = re.sub(pattern, name, text)
        return text


def compare(name: str, said: str) -> None:
    path = DIALOGUES / name
    if os.environ.get("RECORD_DIALOGUES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(said)
    assert said == path.read_text()


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    made.use()
    try:
        yield made
    finally:
        while OPEN:
            OPEN.pop().close()
        made.close()


def unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


class Editor(Dialogue):
    """A client of rpc-edn."""

    def __init__(self, hosting: Hosting) -> None:
        hosting.run("ls")
        super().__init__(unix(Settings(hosting.environment).rpc_path), hosting)
        self._number = 0

    def ask(self, op: str, params: str = "") -> bytes:
        self._number += 1
        given = f" :params {{{params}}}" if params else ""
        self.say(f'{{:id "{self._number}" :kind :request :op "{op}"{given}}}\n'.encode())
        return self.until(rf':id "{self._number}"[^\n]*\n')


GREETING = ':client-info {:name "test" :version "1" :protocol-version "1.0" :features ["increments"]}'


def test_the_dialogue_of_terminals_over_rpc_edn(hosting: Hosting) -> None:
    editor = Editor(hosting)
    editor.ask("ping")
    editor.ask("handshake", GREETING)
    editor.ask("subscribe", ':topics ["terminal/started" "terminal/exited" "terminal/title" "terminal/bell"]')
    editor.ask(
        "terminal_start",
        ':name "work" :argv ["sh" "-c" "echo ready; read x; printf \'\\\\a\'; exit 3"] :cols 40 :rows 5',
    )
    editor.ask("terminal_wait", ':name "work" :text "ready" :timeout 20')
    editor.ask("terminal_screen", ':name "work"')
    editor.ask("terminal_search", ':name "work" :needle "read"')
    editor.ask("terminal_lines", ':name "work"')
    editor.ask("terminal_resize", ':name "work" :cols 50 :rows 6')
    editor.ask("terminal_send", ':name "work" :text "go" :keys ["Enter"]')
    editor.until("terminal/exited")
    editor.ask("terminal_start", ':name "work" :argv []')
    editor.ask("terminal_wait", ':name "nobody" :exit true')
    editor.ask("terminal_stop", ':name "work"')
    editor.ask("no_such_op")
    editor.say(b"{:id 1\n")
    editor.until("invalid-frame[^\n]*\n")
    compare("rpc-terminals.txt", editor.text())


def test_what_rpc_edn_says_of_itself(hosting: Hosting) -> None:
    editor = Editor(hosting)
    editor.ask("handshake", GREETING)
    editor.ask("describe")
    compare("rpc-describe.txt", editor.text().replace("} {", "}\n  {").replace('], "', '],\n  "'))


def test_the_dialogue_of_agents_over_rpc_edn(hosting: Hosting) -> None:
    editor = Editor(hosting)
    editor.ask("handshake", GREETING)
    editor.ask("open_session", f':name "garden" :cwd "{hosting.directory}/home"')
    topics = (
        "assistant/delta", "assistant/message", "tool/start", "tool/executing", "tool/result",
        "ui/dialog-requested", "ui/dialog-resolved", "session/prompted", "session/turn-began",
        "session/turn-ended", "error",
    )  # fmt: skip
    editor.ask("subscribe", f":topics [{' '.join(f'{chr(34)}{each}{chr(34)}' for each in topics)}]")
    editor.ask("prompt", ':message "run: echo roses"')
    asked = editor.until("ui/dialog-requested").decode()
    [dialog] = re.findall(r':dialog-id "([^"]*)"', asked)
    editor.ask("approvals")
    editor.ask("resolve_dialog", f':dialog-id "{dialog}" :result true')
    editor.until("session/turn-ended")
    for op in ("get_state", "get_messages", "get_session_stats", "get_last_assistant_text", "list_sessions"):
        editor.ask(op)
    editor.ask("query_eql", ':query "[:psi.agent-session/session-name :psi.agent-session/phase]"')
    editor.ask("resolve_dialog", f':dialog-id "{dialog}" :result true')
    editor.ask("set_model", ':provider "nobody" :model-id "none"')
    compare("rpc-agents.txt", editor.text().replace(dialog, "<dialog>"))


def test_the_dialogue_of_keepty(hosting: Hosting) -> None:
    hosting.start("work", "echo ready; read x; echo got $x; exit 7")
    hosting.wait_text("work", "ready")
    said = []
    with Peer("work") as watcher, Peer("work") as writer:
        for peer, role in ((watcher, keepty.Role.WATCHER), (writer, keepty.Role.WRITER)):
            peer.send(keepty.Hello(role, 80, 24))
            said.append(f"{role.name.lower()} hello: {peer.next(keepty.HelloAck)}")
        writer.send(keepty.Ping())
        said.append(f"ping: {writer.next(keepty.Pong)}")
        writer.send(keepty.Resize(50, 6))
        said.append(f"resize: {writer.next(keepty.ResizeAck)}")
        writer.typed("it\r")
        for name, peer in (("writer", writer), ("watcher", watcher)):
            said.append(f"{name} end: {peer.next(keepty.Exit)}")
            shown = bytes(peer.output).replace(b"\x1b", b"ESC")
            said.append(f"{name} output: {shown.decode()!r}")
    compare("keepty.txt", re.sub(r"pid=\d+", "pid=<pid>", "\n".join(said) + "\n"))


def test_the_dialogue_of_the_verifier(hosting: Hosting) -> None:
    home = hosting.directory / "home"
    hosting.run("agent", "--name", "garden", "-C", str(home), "-p", "hello")
    id = hosting.ask("verify_target", name="garden")["session_id"]
    dialogue = Dialogue(unix(verifier.socket_path(id, str(hosting.directory / "v"))), hosting)

    def say(text: str, answer: str) -> None:
        dialogue.say((text.replace("ID", id) + "\n").encode())
        dialogue.until(answer)

    say('{"type":"ping","nonce":"early"}', "pong")
    say('{"type":"hello","role":"verifier","sessionId":"ID","pid":1}', "hello_ack")
    say('{"type":"prompt","sessionId":"other","message":"x","correlationId":"c1"}', "c1|error")
    say('{"type":"prompt","sessionId":"ID","message":"once more","correlationId":"c2"}', '"stop"|turn_end')
    report = '"status":"verified","summary":"looked","sections":{},"raw":"## Report"'
    say(f'{{"type":"report","sessionId":"ID","turnIndex":9,{report}}}', "error|no turn")
    dialogue.say(f'{{"type":"report","sessionId":"{id}","turnIndex":1,{report}}}\n'.encode())
    say('{"type":"ping","nonce":"late"}', "late")
    say("no JSON", "bye")
    compare("verifier.txt", dialogue.text().replace(id, "<session>"))


class Lisp(Dialogue):
    """A client of Passepartout. Each frame is a line, with its length."""

    def until(self, pattern: str) -> bytes:
        """All frames that come, up to the first with this in it."""
        frames: list[bytes] = []
        while not frames or not re.search(pattern.encode(), frames[-1]):
            head = self._exactly(6)
            frames.append(head + self._exactly(int(head, 16)).replace(b"\n", b"\\n") + b"\n")
        self._said.append(("<", b"".join(frames)))
        return frames[-1]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            assert more, data
            data += more
        return data

    def ask(self, text: str, answer: str) -> bytes:
        self.say(b"%06X%s" % (len(text), text.encode()))
        return self.until(answer)


def test_the_dialogue_of_passepartout(hosting: Hosting) -> None:
    hosting.ask("health")
    lisp = Lisp(unix(Settings(hosting.environment).passepartout_path), hosting)
    lisp.until("HANDSHAKE")
    lisp.ask("(:TYPE :HEALTH-CHECK)", "HEALTH-RESPONSE")
    asked = '(:TYPE :EVENT :META (:SOURCE :TUI) :PAYLOAD (:SENSOR :USER-INPUT :TEXT "{}"))'
    waiting = lisp.ask(asked.format("run: echo roses"), "APPROVAL-REQUIRED").decode()
    [token] = re.findall(r':TOKEN "([^"]*)"', waiting)
    lisp.ask(asked.format("/status"), "needs|agent control")
    lisp.ask(asked.format(f"/approve {token}"), "SESSION-FINISHED")
    lisp.ask(asked.format("/approve nothing"), "LOG|MESSAGE")
    lisp.ask("(:TYPE :EVENT", "LOG")
    compare("passepartout.txt", re.sub("(?m)^([<>]) [0-9A-F]{6}", r"\1 ", lisp.text()))
