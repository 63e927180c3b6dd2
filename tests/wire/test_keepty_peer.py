"""keepty's own Python package reads what we write and writes what we read, over a real socket."""

import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keepty
import keepty.protocol as peer
import pytest

from fairlead.wire.faults import Broken
from fairlead.wire.keepty import (
    MAX_PAYLOAD,
    BrokerConnection,
    Decoder,
    Error,
    Exit,
    Hello,
    HelloAck,
    Input,
    Malformed,
    Message,
    MessageKind,
    Output,
    Ping,
    Pong,
    Resize,
    ResizeAck,
    Role,
    Shutdown,
    Wish,
    socket_dir,
    socket_path,
)

WAIT = 30.0
"""Seconds until a peer that hangs fails its test."""

# Our message, the peer's name of its kind, and how the peer makes its payload.
PAIRS: list[tuple[Message, str, Callable[[], bytes]]] = [
    *(
        (Hello(role, 132, 51), "HELLO", lambda role=role: peer.encode_hello(peer.Role[role.name], 132, 51))
        for role in Role
    ),
    (Hello(Role.WRITER, 0, 65535), "HELLO", lambda: peer.encode_hello(peer.Role.WRITER, 0, 65535)),
    (HelloAck(4242, 80, 24), "HELLO_ACK", lambda: peer.encode_hello_ack(4242, 80, 24)),
    (HelloAck(0xFFFFFFFF, 0, 0), "HELLO_ACK", lambda: peer.encode_hello_ack(0xFFFFFFFF, 0, 0)),
    (Input(b"ls\r"), "INPUT", lambda: b"ls\r"),
    (Input(b""), "INPUT", lambda: b""),
    (Output(bytes(range(256))), "OUTPUT", lambda: bytes(range(256))),
    (Output(b"\xa5" * MAX_PAYLOAD), "OUTPUT", lambda: b"\xa5" * peer.MAX_PAYLOAD_SIZE),
    (Resize(65535, 0), "RESIZE", lambda: peer.encode_resize(65535, 0)),
    (ResizeAck(7, 80, 24), "RESIZE_ACK", lambda: peer.encode_hello_ack(7, 80, 24)),  # the same layout
    (Exit(143), "EXIT", lambda: peer.encode_exit(143)),
    (Exit(-1), "EXIT", lambda: peer.encode_exit(-1)),
    (Shutdown(), "SHUTDOWN", lambda: b""),
    (Ping(), "PING", lambda: b""),
    (Pong(), "PONG", lambda: b""),
    (Error("größer"), "ERROR", "größer".encode),
]
DECODED: dict[MessageKind, Callable[[bytes], Any]] = {
    MessageKind.HELLO: peer.decode_hello,
    MessageKind.HELLO_ACK: peer.decode_hello_ack,
    MessageKind.RESIZE: peer.decode_resize,
    MessageKind.EXIT: peer.decode_exit,
}
each_pair = pytest.mark.parametrize(
    ("message", "name", "payload"),
    PAIRS,
    ids=[f"{number} {name}" for number, (_, name, _) in enumerate(PAIRS)],
)


class Meanwhile:
    """Does something in a thread of its own: a large frame does not fit into a socket's buffer."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=act)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(WAIT)
        assert not self._thread.is_alive()


def test_the_table_has_every_kind_of_both() -> None:
    assert {message.kind for message, _, _ in PAIRS} == set(MessageKind)
    assert {kind.name: int(kind) for kind in peer.MsgKind} == {kind.name: int(kind) for kind in MessageKind}
    assert (peer.PROTOCOL_VERSION, peer.MAX_PAYLOAD_SIZE) == (1, MAX_PAYLOAD)


OURS = ("wishes", "terminal", "within", "name", "writer")
"""The fields of our extension, of which the peer knows nothing."""


@each_pair
def test_the_peer_reads_what_we_write(message: Message, name: str, payload: Callable[[], bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(WAIT)
        with Meanwhile(lambda: ours.sendall(message.encode())):
            frame = peer.Frame.read_from(theirs)
    assert frame.kind is peer.MsgKind[name]
    assert frame.payload == payload()
    if decode := DECODED.get(message.kind):
        values = tuple(getattr(message, field) for field in message.fields if field not in OURS)
        assert decode(frame.payload) == (values if len(values) > 1 else values[0])


@each_pair
def test_we_read_what_the_peer_writes(message: Message, name: str, payload: Callable[[], bytes]) -> None:
    ours, theirs = socket.socketpair()
    decoder = Decoder()
    read: list[Message | Malformed | Broken] = []
    with ours, theirs:
        ours.settimeout(WAIT)
        with Meanwhile(lambda: peer.Frame(peer.MsgKind[name], payload()).write_to(theirs)):
            while not read:
                read = decoder.feed(ours.recv(65_536))
    assert read == [message]
    assert decoder.pending == 0


def test_the_peer_overlooks_our_extension() -> None:
    hello = Hello(Role.WATCHER, 80, 24, Wish.REASONS).payload()
    assert peer.decode_hello(hello) == (peer.Role.WATCHER, 80, 24)
    assert peer.decode_hello_ack(HelloAck(5, 80, 24, Wish.REASONS).payload()) == (5, 80, 24)


@pytest.mark.parametrize("environ", [{"XDG_RUNTIME_DIR": "/run/user/7"}, {"XDG_RUNTIME_DIR": ""}])
def test_the_peer_looks_for_sockets_where_we_do(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    assert peer.socket_dir() == socket_dir(environ)
    assert peer.socket_path("work") == socket_path("work", environ)


def test_the_peers_session_talks_to_our_end_of_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Message | Malformed | Broken] = []

    def serve(listener: socket.socket) -> None:
        broker = BrokerConnection()
        connected, _ = listener.accept()
        with connected:
            connected.settimeout(WAIT)
            while received[-1:] != [Shutdown()]:
                for message in broker.receive(connected.recv(65_536)):
                    received.append(message)
                    if isinstance(message, Hello):
                        connected.sendall(broker.send(HelloAck(4242, message.cols, message.rows)))
                        connected.sendall(broker.send(Output(b"$ ")))
            connected.sendall(broker.send(Exit(143)))

    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        path = Path(socket_path("work", {"XDG_RUNTIME_DIR": directory}))
        path.parent.mkdir()
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(WAIT)
        with Meanwhile(lambda: serve(listener)), keepty.Session.connect("work", cols=132, rows=51) as session:
            assert session.pty_pid == 4242
            session.send_keys(b"exit\r")
            session.resize(80, 24)
            session.shutdown()
            with pytest.raises(keepty.SessionExited) as exited:
                session.read_output(WAIT)
    assert exited.value.exit_code == 143
    assert received == [Hello(Role.WRITER, 132, 51), Input(b"exit\r"), Resize(80, 24), Shutdown()]
