"""Both ends of each protocol talking, frame by frame: `make demo`.

Every conversation runs twice, once from hand to hand in memory and once over a real socket (unix, or TCP on
loopback for Passepartout), and must go the same way. Behind an arrow stands what was sent, byte for byte, and
below it what the other end understood. Each ends with something wrong, and what is said to that.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from fairlead.formats.sexp import Keyword
from fairlead.wire import keepty, passepartout, rpc, verifier
from fairlead.wire.faults import Broken

WIDTH = 88
WAIT = 5.0
"""Seconds until a socket that stays silent ends the demo."""


class Carrier(Protocol):
    """Takes what one end sends to the other."""

    def __call__(self, data: bytes, *, forth: bool) -> bytes: ...


def in_memory(data: bytes, *, forth: bool) -> bytes:
    return data


@contextmanager
def over_a_socket(family: socket.AddressFamily) -> Iterator[Carrier]:
    """A real connection: one end listens, the other connects."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else f"{directory}/demo.sock")
        listener.listen()
        with socket.socket(family) as near:
            near.settimeout(WAIT)
            near.connect(listener.getsockname())
            far, _ = listener.accept()
            with far:
                far.settimeout(WAIT)

                def carry(data: bytes, *, forth: bool) -> bytes:
                    sender, receiver = (near, far) if forth else (far, near)
                    sender.sendall(data)
                    received = b""
                    while len(received) < len(data):
                        received += receiver.recv(65_536)
                    return received

                yield carry


class Talk:
    """A conversation that is printed as it goes."""

    def __init__(self, near: str, far: str, carry: Carrier, show: Callable[[bytes], str]) -> None:
        self._names = {True: (near, far), False: (far, near)}
        self._carry = carry
        self._show = show
        self.log: list[tuple[bool, bytes]] = []

    def say(
        self, data: bytes, hear: Callable[[bytes], Sequence[Any]], *, forth: bool = True
    ) -> Sequence[Any]:
        """Send bytes from one end; gives what the other end understood."""
        speaker, listener = self._names[forth]
        self.log.append((forth, data))
        understood = hear(self._carry(data, forth=forth))
        arrow = paint("36" if forth else "35", f"{speaker:>8} → {listener:<8}")
        for number, line in enumerate(self._show(data).splitlines()):
            print(f"{arrow if not number else ' ' * 19} {line}")
        for message in understood:
            color = "31" if isinstance(message, Broken) else "32"
            print(f"{'':19} {paint(color, shortened(repr(message)))}")
        return understood


def shortened(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


def as_hex(data: bytes) -> str:
    shown = data[:24].hex(" ")
    return shown if len(data) <= 24 else f"{shown} … ({len(data)} bytes)"


def as_text(data: bytes) -> str:
    text = data.decode("utf-8", "replace").rstrip("\n")
    return "\n".join(text[start : start + WIDTH] for start in range(0, len(text), WIDTH))


# --- the four conversations ---------------------------------------------------------------------------------


def keepty_talk(carry: Carrier) -> Talk:
    talk = Talk("client", "broker", carry, as_hex)
    client, broker = keepty.ClientConnection(), keepty.BrokerConnection()
    (hello,) = talk.say(client.send(keepty.Hello(keepty.Role.WRITER, 132, 51)), broker.receive)
    talk.say(broker.send(keepty.HelloAck(4242, hello.cols, hello.rows)), client.receive, forth=False)
    talk.say(broker.send(keepty.Output(b"$ ")), client.receive, forth=False)
    talk.say(client.send(keepty.Input(b"make test\r")), broker.receive)
    (resize,) = talk.say(client.send(keepty.Resize(80, 24)), broker.receive)
    verdict, _ = keepty.verdict(resize, keepty.Standing.WRITER)
    assert verdict is keepty.Verdict.ACT
    talk.say(broker.send(keepty.ResizeAck(1, 80, 24)), client.receive, forth=False)
    talk.say(broker.send(keepty.Exit(0)), client.receive, forth=False)
    (broken,) = talk.say(bytes.fromhex("00000003 63 0c 00"), broker.receive)
    assert isinstance(broken, Broken)
    print(f"{'':19} {as_hex(broken.reply)}")
    return talk


def rpc_talk(carry: Carrier) -> Talk:
    talk = Talk("editor", "server", carry, as_text)
    editor, server = rpc.ClientConnection(), rpc.ServerConnection()
    (request,) = talk.say(editor.handshake("demo", "0.1"), server.receive)
    talk.say(server.respond(request.id, rpc.server_info()), editor.receive, forth=False)
    (request,) = talk.say(editor.request("prompt", rpc.fields(message="fix the test"))[1], server.receive)
    talk.say(server.respond(request.id, rpc.fields(accepted=True)), editor.receive, forth=False)
    delta = rpc.fields(session_id="s1", text="Looking at it…")
    talk.say(server.event("assistant/delta", delta, ts="2026-01-31T12:00:00Z"), editor.receive, forth=False)
    (error,) = talk.say(b'{:id "9" :kind :request :op "dance"}\n', server.receive)
    talk.say(rpc.encode(error), editor.receive, forth=False)
    return talk


def verifier_talk(carry: Carrier) -> Talk:
    talk = Talk("verifier", "builder", carry, as_text)
    checker, builder = verifier.VerifierConnection("s1"), verifier.BuilderConnection("s1")
    (hello,) = talk.say(checker.send(checker.hello(4242)), builder.receive)
    talk.say(builder.send(answer(builder, hello)), checker.receive, forth=False)
    stop = verifier.Event(
        name="stop",
        session_id="s1",
        turn_index=1,
        timestamp=1769860800000,
        user_prompt="add a users table",
        session_file_start_line=1,
        session_file_end_line=9,
    )
    talk.say(builder.send(stop), checker.receive, forth=False)
    fix = verifier.Prompt(session_id="s1", message="email needs NOT NULL", correlation_id="c-1")
    (prompt,) = talk.say(checker.send(fix), builder.receive)
    talk.say(builder.send(builder.ack(prompt)), checker.receive, forth=False)
    said = "## Report\nSTATUS: verified\nCONFIDENCE: PERFECT\n\n### What did you verify?\nusers: PASS\n"
    talk.say(checker.send(verifier.parse_report(said, "s1", 1)), builder.receive)
    (broken,) = talk.say(b'{"type":"gossip"}\n', builder.receive)
    assert isinstance(broken, Broken)
    talk.say(broken.reply, checker.receive, forth=False)
    return talk


def answer(connection: verifier.BuilderConnection, item: Any) -> verifier.Envelope:
    reply = connection.answer(item)
    assert reply is not None
    return reply


def passepartout_talk(carry: Carrier) -> Talk:
    talk = Talk("lisp", "daemon", carry, as_text)
    lisp, daemon = passepartout.ClientConnection(), passepartout.ServerConnection(proven=True)
    talk.say(daemon.send(passepartout.Hello("0.1.0")), lisp.receive, forth=False)
    talk.say(lisp.send(passepartout.HealthCheck()), daemon.receive)
    healthy = passepartout.HealthResponse(passepartout.Health.HEALTHY, checked=True)
    talk.say(daemon.send(healthy), lisp.receive, forth=False)
    talk.say(lisp.send(passepartout.user_input("Grüße, wie geht's?")), daemon.receive)
    said = passepartout.plist(action=Keyword("MESSAGE"), text="Gut, danke 🙂")
    reply = passepartout.Message(passepartout.plist(type=Keyword("REQUEST"), payload=said))
    talk.say(daemon.send(reply), lisp.receive, forth=False)
    (invalid,) = talk.say(b"00000E#.(delete-all)", daemon.receive)
    assert isinstance(invalid, passepartout.Invalid)
    talk.say(invalid.reply, lisp.receive, forth=False)
    return talk


CONVERSATIONS = (
    ("keepty", "binary frames: a terminal and who shares it", keepty_talk, socket.AF_UNIX),
    ("rpc-edn", "EDN maps, one a line: an editor drives a session", rpc_talk, socket.AF_UNIX),
    ("verifier", "JSON, one envelope a line: every turn is checked", verifier_talk, socket.AF_UNIX),
    ("passepartout", "framed plists: stimuli and health", passepartout_talk, socket.AF_INET),
)


def main() -> int:
    for name, what, converse, family in CONVERSATIONS:
        print(f"\n{paint('1', name)} — {what}\n")
        in_hand = converse(in_memory)
        with over_a_socket(family) as carry:
            print(f"\n{paint('1', name)} — the same over a socket ({family.name})\n")
            on_the_wire = converse(carry)
        if in_hand.log != on_the_wire.log:
            print(f"{name}: the two conversations differ", file=sys.stderr)
            return 1
    print(f"\n{paint('32', 'All four protocols spoken at both ends, in memory and over sockets.')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
