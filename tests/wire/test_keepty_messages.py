"""keepty's messages: their bytes, what can't be made, and where the sockets are."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairlead.wire.keepty import (
    MAX_PAYLOAD,
    MAX_SIZE,
    MAX_SOCKET_PATH,
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
    clamped,
    socket_dir,
    socket_path,
)

BYTES: list[tuple[Message, str]] = [
    (Hello(Role.WRITER, 132, 51), "00000007 01 01 01 0084 0033"),
    (Hello(Role.WATCHER, 0, 65535), "00000007 01 01 02 0000 ffff"),
    (Hello(Role.MONITOR, 65535, 0), "00000007 01 01 03 ffff 0000"),
    (Hello(Role.WRITER, 80, 24, Wish.REASONS), "0000000a 01 01 01 0050 0018 464c01"),
    (HelloAck(12345, 80, 24), "0000000a 01 02 00003039 0050 0018"),
    (HelloAck(0, 0, 0), "0000000a 01 02 00000000 0000 0000"),
    (HelloAck(0xFFFFFFFF, 65535, 65535), "0000000a 01 02 ffffffff ffff ffff"),
    (HelloAck(1, 2, 3, Wish.REASONS), "0000000d 01 02 00000001 0002 0003 464c01"),
    (Input(b""), "00000002 01 03"),
    (Input(b"ls\r"), "00000005 01 03 6c730d"),
    (Output(b"\x00\xff"), "00000004 01 04 00ff"),
    (Resize(0, 0), "00000006 01 05 0000 0000"),
    (Resize(65535, 65535), "00000006 01 05 ffff ffff"),
    (ResizeAck(1, 80, 24), "0000000a 01 06 00000001 0050 0018"),
    (ResizeAck(0xFFFFFFFF, 0, 65535), "0000000a 01 06 ffffffff 0000 ffff"),
    (Exit(0), "00000006 01 0a 00000000"),
    (Exit(-1), "00000006 01 0a ffffffff"),
    (Exit(0x7FFFFFFF), "00000006 01 0a 7fffffff"),
    (Exit(-0x80000000), "00000006 01 0a 80000000"),
    (Shutdown(), "00000002 01 0b"),
    (Ping(), "00000002 01 0c"),
    (Pong(), "00000002 01 0d"),
    (Error(""), "00000002 01 7f"),
    (Error("größer"), "0000000a 01 7f 6772c3b6c39f6572"),
]
each_message = pytest.mark.parametrize("message", [message for message, _ in BYTES], ids=repr)


def test_the_table_has_every_kind() -> None:
    assert {message.kind for message, _ in BYTES} == set(MessageKind)


@pytest.mark.parametrize(("message", "data"), BYTES, ids=repr)
def test_a_message_has_exactly_these_bytes(message: Message, data: str) -> None:
    assert message.encode() == bytes.fromhex(data)
    assert Decoder().feed(bytes.fromhex(data)) == [message]


# --- what can't be -----------------------------------------------------------------------------------------

U16 = "must be an integer from 0 to 65535, not"
U32 = "must be an integer from 0 to 4294967295, not"
I32 = "code must be an integer from -2147483648 to 2147483647, not"


@pytest.mark.parametrize(
    ("make", "fields", "fault", "text"),
    [
        (Hello, (None, 1, 1), ValueError, "None is not a valid Role"),
        (Hello, (0, 1, 1), ValueError, "0 is not a valid Role"),
        (Hello, (4, 1, 1), ValueError, "4 is not a valid Role"),
        (Hello, (Role.WRITER, -1, 1), ValueError, f"cols {U16} -1"),
        (Hello, (Role.WRITER, 1, 65536), ValueError, f"rows {U16} 65536"),
        (Hello, (Role.WRITER, "80", 1), ValueError, f"cols {U16} '80'"),
        (HelloAck, (-1, 1, 1), ValueError, f"pid {U32} -1"),
        (HelloAck, (1 << 32, 1, 1), ValueError, f"pid {U32} 4294967296"),
        (HelloAck, (1, 65536, 1), ValueError, f"cols {U16} 65536"),
        (HelloAck, (1, 1, -1), ValueError, f"rows {U16} -1"),
        (Resize, (65536, 1), ValueError, f"cols {U16} 65536"),
        (Resize, (1, 1.5), ValueError, f"rows {U16} 1.5"),
        (ResizeAck, (-1, 1, 1), ValueError, f"generation {U32} -1"),
        (ResizeAck, (1, -1, 1), ValueError, f"cols {U16} -1"),
        (ResizeAck, (1, 1, -1), ValueError, f"rows {U16} -1"),
        (Exit, (1 << 31,), ValueError, f"{I32} 2147483648"),
        (Exit, (-(1 << 31) - 1,), ValueError, f"{I32} -2147483649"),
        (Exit, (None,), ValueError, f"{I32} None"),
        (Input, ("text",), TypeError, "data must be bytes, not str"),
        (Input, (bytearray(b"x"),), TypeError, "data must be bytes, not bytearray"),
        (
            Output,
            (bytes(MAX_PAYLOAD + 1),),
            ValueError,
            "data of 1048577 bytes; a frame holds at most 1048576",
        ),
        (Error, ("é" * (MAX_PAYLOAD // 2 + 1),), ValueError, "an error of more than 1048576 bytes"),
        (Error, (b"text",), TypeError, "text must be str, not bytes"),
    ],
)
def test_an_invalid_message_cannot_be_made(
    make: Callable[..., Message], fields: tuple[Any, ...], fault: type[Exception], text: str
) -> None:
    with pytest.raises(fault) as raised:
        make(*fields)
    assert str(raised.value) == text


@pytest.mark.parametrize("wishes", [256, 257, 0x1FF])
def test_a_wish_that_does_not_exist_cannot_be_made(wishes: int) -> None:
    makers: tuple[Callable[..., Message], ...] = (Hello, HelloAck)
    for make in makers:
        with pytest.raises(ValueError, match="Wish"):
            make(Role.WRITER, 80, 24, wishes)


def test_half_a_surrogate_pair_is_no_text_for_an_error() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        Error("\ud800")


@each_message
def test_a_message_cannot_be_changed(message: Message) -> None:
    before = message.encode()
    for name in (*message.fields, "kind", "other"):
        with pytest.raises(AttributeError, match=f"^a {type(message).__name__} can't be changed$"):
            setattr(message, name, 1)
        with pytest.raises(AttributeError, match=f"^a {type(message).__name__} can't be changed$"):
            delattr(message, name)
    assert message.encode() == before
    assert not hasattr(message, "__dict__")


# --- values ------------------------------------------------------------------------------------------------


def test_messages_are_equal_by_kind_and_fields() -> None:
    for number, (message, data) in enumerate(BYTES):
        (again,) = Decoder().feed(bytes.fromhex(data))
        assert again == message
        assert hash(again) == hash(message)
        assert [other for other, _ in BYTES if other == message] == [BYTES[number][0]]
    assert Input(b"x") != Output(b"x")
    assert Resize(1, 2) != (1, 2)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (Hello(Role.WRITER, 132, 51), "Hello(role=WRITER, cols=132, rows=51, wishes=NONE)"),
        (HelloAck(7, 80, 24, Wish.REASONS), "HelloAck(pid=7, cols=80, rows=24, wishes=REASONS)"),
        (Output(b"x" * 32), f"Output(data={b'x' * 32!r})"),
        (Output(b"x" * 33), f"Output(data={b'x' * 32!r}…(33 bytes))"),
        (Input(b"\x1b[A\n"), r"Input(data=b'\x1b[A\n')"),
        (Error("no\nway"), r"Error(text='no\nway')"),
        (Error("é" * 33), f"Error(text={'é' * 32!r}…(33 characters))"),
        (Shutdown(), "Shutdown()"),
        (Malformed(MessageKind.EXIT, "too short"), "Malformed(EXIT, 'too short')"),
    ],
)
def test_a_message_is_safe_to_log_and_short(message: Message | Malformed, shown: str) -> None:
    assert repr(message) == shown


def test_malformed_frames_are_equal_by_kind_and_reason() -> None:
    assert Malformed(MessageKind.EXIT, "short") == Malformed(MessageKind.EXIT, "short")
    assert hash(Malformed(MessageKind.EXIT, "short")) == hash(Malformed(MessageKind.EXIT, "short"))
    assert Malformed(MessageKind.EXIT, "short") != Malformed(MessageKind.RESIZE, "short")
    assert Malformed(MessageKind.EXIT, "short") != "short"


@pytest.mark.parametrize(
    ("length", "frames"),
    [(0, []), (1, [1]), (MAX_PAYLOAD, [MAX_PAYLOAD]), (MAX_PAYLOAD + 1, [MAX_PAYLOAD, 1])],
)
@pytest.mark.parametrize("message", [Input, Output])
def test_long_data_is_split_into_frames(
    message: type[Input | Output], length: int, frames: list[int]
) -> None:
    data = bytes(range(256)) * (length // 256) + b"\xff" * (length % 256)
    made = list(message.split(data))
    assert [len(each.data) for each in made] == frames
    assert b"".join(each.data for each in made) == data
    assert all(type(each) is message for each in made)


# --- extra bytes after the known fields --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "wishes"),
    [
        (b"", Wish.NONE),
        (b"F", Wish.NONE),
        (b"FL", Wish.NONE),
        (b"FL\x00", Wish.NONE),
        (b"FL\x01", Wish.REASONS),
        (b"FL\x01 and more", Wish.REASONS),
        (b"FL\x80", Wish.PACED),
        (b"FL\x81", Wish.PACED | Wish.REASONS),
        (b"FL\x20", Wish.NOTICES),
        (b"FL\x0f", Wish.REASONS | Wish.REDRAWS | Wish.SCREEN_ONLY | Wish.TAKEOVER),
        (b"fl\x01", Wish.NONE),
        (b"\x00FL\x01", Wish.NONE),
    ],
)
def test_the_extension_of_hello_and_hello_ack_is_read_and_other_bytes_are_tolerated(
    extra: bytes, wishes: Wish
) -> None:
    for bare, message in (
        (Hello(Role.WRITER, 80, 24), Hello(Role.WRITER, 80, 24, wishes)),
        (HelloAck(5, 80, 24), HelloAck(5, 80, 24, wishes)),
    ):
        assert Decoder().feed(lengthened(bare, extra)) == [message]


@pytest.mark.parametrize("wishes", [Wish.REASONS, Wish.SHOWN | Wish.REASONS])
def test_a_client_may_say_who_it_is_whatever_else_it_wishes(wishes: Wish) -> None:
    hello = Hello(Role.WRITER, 80, 24, wishes, "pts/3", "garden", "a page in größer")
    [read] = Decoder().feed(hello.encode())
    assert read == hello
    assert isinstance(read, Hello)
    assert (read.name, read.terminal) == ("a page in größer", "pts/3" if wishes & Wish.SHOWN else "")


def lengthened(message: Message, extra: bytes) -> bytes:
    body = message.encode()[4:] + extra
    return len(body).to_bytes(4) + body


@pytest.mark.parametrize(
    "message", [Resize(80, 24), ResizeAck(1, 80, 24), Exit(3), Shutdown(), Ping(), Pong()], ids=repr
)
def test_extra_bytes_after_a_payload_are_tolerated(message: Message) -> None:
    assert Decoder().feed(lengthened(message, b"\x00extra") + Ping().encode()) == [message, Ping()]


# --- sizes and paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "given"),
    [(-5, 1), (0, 1), (1, 1), (80, 80), (MAX_SIZE, MAX_SIZE), (MAX_SIZE + 1, MAX_SIZE), (65535, 10_000)],
)
def test_a_terminals_size_is_clamped(size: int, given: int) -> None:
    assert clamped(size) == given


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({}, "/tmp/keepty"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/keepty"),
        ({"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/var/t"}, "/run/user/7/keepty"),
        ({"XDG_RUNTIME_DIR": "", "TMPDIR": "/var/t"}, "/var/t/keepty"),
        ({"TMPDIR": "/var/t//"}, "/var/t/keepty"),
        ({"TMPDIR": ""}, "/tmp/keepty"),
    ],
)
def test_sockets_are_in_the_runtime_directory_else_in_the_temporary_one(
    environ: Mapping[str, str], directory: str
) -> None:
    assert socket_dir(environ) == directory
    assert socket_path("my session", environ) == f"{directory}/keepty-my session.sock"


@pytest.mark.parametrize("session_id", ["", "a/b", "/", "../x", "a\0b"])
def test_an_id_that_would_leave_the_directory_is_refused(session_id: str) -> None:
    with pytest.raises(
        ValueError, match=r"^a session's name must not be empty or contain a slash or NUL: "
    ) as raised:
        socket_path(session_id, {})
    assert str(raised.value).endswith(repr(session_id))


def test_a_path_that_is_too_long_for_a_socket_is_refused_and_counted_in_bytes() -> None:
    room = MAX_SOCKET_PATH - len("/tmp/keepty/keepty-.sock")
    assert len(socket_path("x" * room, {})) == MAX_SOCKET_PATH
    with pytest.raises(ValueError, match="the socket's path has") as raised:
        socket_path("é" + "x" * (room - 1), {})
    assert str(raised.value).startswith(
        f"the name is too long: the socket's path has {MAX_SOCKET_PATH + 1} bytes, at most {MAX_SOCKET_PATH}"
        " are possible: "
        "/tmp/keepty/keepty-éx"
    )
