"""The tests of the seed's own implementation, by their names."""

import pytest

from fairlead.wire.faults import Broken
from fairlead.wire.keepty import (
    MAX_PAYLOAD,
    PROTOCOL_VERSION,
    Decoder,
    Exit,
    Hello,
    HelloAck,
    Malformed,
    Message,
    MessageKind,
    Output,
    Ping,
    Resize,
    ResizeAck,
    Role,
    socket_path,
)


def read_from(data: bytes) -> Message | Malformed | Broken:
    """The one message that these bytes are."""
    (message,) = Decoder().feed(data)
    return message


def test_frame_roundtrip() -> None:
    decoded = read_from(Output(b"hello world").encode())
    assert isinstance(decoded, Output)
    assert decoded.kind is MessageKind.OUTPUT
    assert decoded.data == b"hello world"


def test_hello_roundtrip() -> None:
    decoded = read_from(Hello(Role.WRITER, 132, 51).encode())
    assert isinstance(decoded, Hello)
    assert (decoded.role, decoded.cols, decoded.rows) == (Role.WRITER, 132, 51)


def test_hello_ack_roundtrip() -> None:
    decoded = read_from(HelloAck(12345, 80, 24).encode())
    assert isinstance(decoded, HelloAck)
    assert (decoded.pid, decoded.cols, decoded.rows) == (12345, 80, 24)


def test_resize_roundtrip() -> None:
    decoded = read_from(Resize(80, 24).encode())
    assert isinstance(decoded, Resize)
    assert (decoded.cols, decoded.rows) == (80, 24)


def test_exit_roundtrip() -> None:
    decoded = read_from(Exit(42).encode())
    assert isinstance(decoded, Exit)
    assert decoded.code == 42


def test_socket_path_format() -> None:
    path = socket_path("abc123", {})
    assert path.endswith("/keepty-abc123.sock")
    assert "/keepty" in path


def test_eof_returns_none() -> None:
    decoder = Decoder()
    assert decoder.feed(b"") == []
    assert decoder.pending == 0


@pytest.mark.parametrize("role", Role)
def test_all_roles_roundtrip(role: Role) -> None:
    assert Role(int(role)) is role
    assert read_from(Hello(role, 80, 24).encode()) == Hello(role, 80, 24)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "HELLO"),
        (2, "HELLO_ACK"),
        (3, "INPUT"),
        (4, "OUTPUT"),
        (5, "RESIZE"),
        (6, "RESIZE_ACK"),
        (10, "EXIT"),
        (11, "SHUTDOWN"),
        (12, "PING"),
        (13, "PONG"),
        (127, "ERROR"),
    ],
)
def test_all_msg_kinds_roundtrip(value: int, name: str) -> None:
    assert MessageKind(value).name == name
    assert int(MessageKind[name]) == value
    assert len(MessageKind) == 11


@pytest.mark.parametrize("value", [0, 4, 255])
def test_invalid_role_returns_err(value: int) -> None:
    with pytest.raises(ValueError, match="is not a valid Role"):
        Role(value)


def test_resize_ack_roundtrip() -> None:
    decoded = read_from(ResizeAck(42, 120, 40).encode())
    assert isinstance(decoded, ResizeAck)
    assert (decoded.generation, decoded.cols, decoded.rows) == (42, 120, 40)


@pytest.mark.parametrize("value", [0, 7, 128])
def test_invalid_msg_kind_returns_err(value: int) -> None:
    with pytest.raises(ValueError, match="is not a valid MessageKind"):
        MessageKind(value)
    assert read_from(bytes([0, 0, 0, 2, PROTOCOL_VERSION, value])) == Broken(f"unknown kind: {value}")


def test_frame_too_short_is_error() -> None:
    assert read_from(bytes([0, 0, 0, 1, 0xFF])) == Broken("frame too short: 1 bytes (min 2)")


def test_empty_payload_frame() -> None:
    encoded = Ping().encode()
    assert encoded == bytes([0, 0, 0, 2, 1, 12])
    assert read_from(encoded) == Ping()


def test_oversized_frame_rejected() -> None:
    data = (MAX_PAYLOAD + 3).to_bytes(4) + bytes([PROTOCOL_VERSION, MessageKind.OUTPUT])
    assert read_from(data) == Broken("frame too large: 1048579 bytes (max 1048578)")


def test_max_allowed_frame_accepted() -> None:
    decoded = read_from(Output(bytes(MAX_PAYLOAD)).encode())
    assert isinstance(decoded, Output)
    assert len(decoded.data) == MAX_PAYLOAD


def test_wrong_version_rejected() -> None:
    data = bytes([0, 0, 0, 3, 99, MessageKind.PING, 0])
    assert read_from(data) == Broken("unsupported protocol version: 99 (expected 1)")
