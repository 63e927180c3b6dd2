"""keepty messages to test with: one of each kind, and any."""

from hypothesis import strategies as st

from fairlead.wire.keepty import (
    Error,
    Exit,
    Hello,
    HelloAck,
    Input,
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
)

EXAMPLES: dict[MessageKind, Message] = {
    message.kind: message
    for message in (
        Hello(Role.WRITER, 132, 51, Wish.REASONS),
        HelloAck(4242, 132, 51),
        Input(b"make test\r"),
        Output("$ größer\r\n".encode()),
        Resize(80, 24),
        ResizeAck(3, 80, 24),
        Exit(-1),
        Shutdown(),
        Ping(),
        Pong(),
        Error("größer als möglich"),
    )
}

_u16, _u32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
_wishes = st.sampled_from([Wish.NONE, Wish.REASONS])

MESSAGES: dict[MessageKind, st.SearchStrategy[Message]] = {
    MessageKind.HELLO: st.builds(Hello, st.sampled_from(Role), _u16, _u16, _wishes),
    MessageKind.HELLO_ACK: st.builds(HelloAck, _u32, _u16, _u16, _wishes),
    MessageKind.INPUT: st.builds(Input, st.binary(max_size=40)),
    MessageKind.OUTPUT: st.builds(Output, st.binary(max_size=40)),
    MessageKind.RESIZE: st.builds(Resize, _u16, _u16),
    MessageKind.RESIZE_ACK: st.builds(ResizeAck, _u32, _u16, _u16),
    MessageKind.EXIT: st.builds(Exit, st.integers(-0x80000000, 0x7FFFFFFF)),
    MessageKind.SHUTDOWN: st.just(Shutdown()),
    MessageKind.PING: st.just(Ping()),
    MessageKind.PONG: st.just(Pong()),
    MessageKind.ERROR: st.builds(Error, st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
}
messages = st.one_of(*MESSAGES.values())


def frame(kind: int, payload: bytes = b"", version: int = 1) -> bytes:
    """A frame made without the code under test."""
    return (len(payload) + 2).to_bytes(4) + bytes([version, kind]) + payload
