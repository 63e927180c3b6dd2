"""keepty's decoder: any split of the input, and input that is wrong."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.faults import Broken
from fairlead.wire.keepty import (
    MAX_PAYLOAD,
    Decoder,
    Error,
    Malformed,
    Message,
    MessageKind,
    Output,
    Ping,
    Resize,
)
from tests.wire.cutting import bytewise, cuts, pieces
from tests.wire.keepty_examples import EXAMPLES, frame, messages

GOOD = Resize(80, 24)


def fed(chunks: list[bytes], decoder: Decoder | None = None) -> list[Message | Malformed | Broken]:
    decoder = decoder or Decoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


# --- any split ---------------------------------------------------------------------------------------------


@given(st.lists(messages, max_size=12), cuts)
def test_any_split_of_a_stream_gives_the_same_messages(sent: list[Message], places: list[int]) -> None:
    stream = b"".join(message.encode() for message in sent)
    for chunks in (pieces(stream, places), bytewise(stream), [stream]):
        decoder = Decoder()
        assert fed(chunks, decoder) == sent
        assert decoder.pending == 0


def test_each_kind_may_be_split_at_each_byte() -> None:
    stream = b"".join(message.encode() for message in EXAMPLES.values())
    for cut in range(len(stream) + 1):
        assert fed([stream[:cut], stream[cut:]]) == list(EXAMPLES.values())


def test_a_message_comes_with_its_last_byte_and_not_before() -> None:
    for message in EXAMPLES.values():
        decoder, data = Decoder(), message.encode()
        for count, byte in enumerate(bytewise(data[:-1]), start=1):
            assert decoder.feed(byte) == []
            assert decoder.pending == count
        assert decoder.feed(data[-1:]) == [message]
        assert decoder.pending == 0


def test_the_largest_frame_comes_through_in_pieces() -> None:
    largest = Output(b"\xa5" * MAX_PAYLOAD)
    data = largest.encode() + Ping().encode()
    assert fed([data[start : start + 65_521] for start in range(0, len(data), 65_521)]) == [largest, Ping()]


@given(
    st.lists(st.binary(max_size=12) | messages.map(Message.encode), max_size=12).map(b"".join),
    cuts,
)
def test_any_split_of_any_bytes_gives_the_same_and_raises_nothing(stream: bytes, places: list[int]) -> None:
    whole = fed([stream])
    assert fed(pieces(stream, places)) == whole
    assert fed(bytewise(stream)) == whole
    assert not any(isinstance(message, Broken) for message in whole[:-1])


# --- frames that can't be ----------------------------------------------------------------------------------

SHORT, LARGE = "frame too short: {} bytes (min 2)", "frame too large: {} bytes (max 1048578)"
VERSION, KIND = "unsupported protocol version: {} (expected 1)", "unknown kind: {}"
WRONG: list[tuple[str, str]] = [
    ("00000000", SHORT.format(0)),
    ("00000001", SHORT.format(1)),
    ("00100003", LARGE.format(MAX_PAYLOAD + 3)),
    ("7fffffff", LARGE.format(0x7FFFFFFF)),
    ("ffffffff", LARGE.format(0xFFFFFFFF)),
    *((f"00000002 {version:02x} 0c", VERSION.format(version)) for version in (0, 2, 99, 255)),
    *((f"00000002 01 {kind:02x}", KIND.format(kind)) for kind in (0, 7, 8, 9, 14, 126, 128, 255)),
    # the checks come in the order of the bytes
    ("00000001 63 00", SHORT.format(1)),
    ("ffffffff 63 00", LARGE.format(0xFFFFFFFF)),
    ("00000002 63 00", VERSION.format(99)),
    # and before the rest of the frame is there
    ("00100002 63 0c", VERSION.format(99)),
    ("00100002 01 07", KIND.format(7)),
]
each_wrong_frame = pytest.mark.parametrize(("data", "reason"), WRONG)


@each_wrong_frame
def test_a_frame_that_cannot_be_is_refused_after_what_came_before_it(data: str, reason: str) -> None:
    wrong = bytes.fromhex(data)
    for before in ([], [GOOD], [GOOD, Ping(), GOOD]):
        stream = b"".join(message.encode() for message in before) + wrong
        assert fed([stream + GOOD.encode()]) == [*before, Broken(reason)]
        assert fed(bytewise(stream)) == [*before, Broken(reason)]


@each_wrong_frame
def test_a_frame_that_cannot_be_is_refused_with_the_byte_that_shows_it(data: str, reason: str) -> None:
    wrong = bytes.fromhex(data)
    needed = 4 if reason.startswith("frame") else 6
    decoder = Decoder()
    assert fed(bytewise(wrong[: needed - 1]), decoder) == []
    assert decoder.feed(wrong[needed - 1 : needed]) == [Broken(reason)]


@each_wrong_frame
def test_nothing_is_read_or_kept_after_a_frame_that_cannot_be(data: str, reason: str) -> None:
    decoder = Decoder()
    assert decoder.feed(bytes.fromhex(data)) == [Broken(reason)]
    for _ in range(3):
        assert decoder.feed(GOOD.encode()) == []
        assert decoder.pending == 0


# --- payloads that are wrong -------------------------------------------------------------------------------

NEEDS = {
    MessageKind.HELLO: 5,
    MessageKind.HELLO_ACK: 8,
    MessageKind.RESIZE: 4,
    MessageKind.RESIZE_ACK: 8,
    MessageKind.EXIT: 4,
}
MALFORMED: list[tuple[bytes, Malformed]] = [
    *(
        (
            frame(kind, b"\x01" * length),
            Malformed(kind, f"{kind.name} has {length} bytes of payload; it needs {needed}"),
        )
        for kind, needed in NEEDS.items()
        for length in range(needed)
    ),
    *(
        (
            frame(MessageKind.HELLO, bytes([role, 0, 80, 0, 24])),
            Malformed(MessageKind.HELLO, f"no role {role}; expected 1 (writer), 2 (watcher) or 3 (monitor)"),
        )
        for role in (0, 4, 255)
    ),
]


@pytest.mark.parametrize(("data", "malformed"), MALFORMED, ids=str)
def test_a_wrong_payload_is_told_and_reading_goes_on(data: bytes, malformed: Malformed) -> None:
    stream = GOOD.encode() + data + GOOD.encode()
    for chunks in ([stream], bytewise(stream)):
        decoder = Decoder()
        assert fed(chunks, decoder) == [GOOD, malformed, GOOD]
        assert decoder.pending == 0


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"caf\xe9", "caf\ufffd"),
        (b"\xff", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"a\0b\n", "a\0b\n"),
        (b"\xff" * MAX_PAYLOAD, "\ufffd" * (MAX_PAYLOAD // 3)),
        (b"x" + b"\xff" * (MAX_PAYLOAD - 1), "x" + "\ufffd" * ((MAX_PAYLOAD - 1) // 3)),
    ],
    ids=["latin 1", "no start", "surrogate", "controls", "a megabyte", "a cut character"],
)
def test_an_errors_text_is_made_readable_and_fits_into_a_frame_again(payload: bytes, text: str) -> None:
    (error,) = Decoder().feed(frame(MessageKind.ERROR, payload))
    assert error == Error(text)


# --- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MessageKind.OUTPUT, MessageKind.HELLO, MessageKind.ERROR])
def test_a_claimed_length_allocates_nothing(kind: MessageKind) -> None:
    header = (MAX_PAYLOAD + 2).to_bytes(4) + bytes([1, kind])
    decoders = [Decoder() for _ in range(100)]
    tracemalloc.start()
    for decoder in decoders:
        assert decoder.feed(header) == []
        assert decoder.feed(b"some of it") == []
        assert decoder.pending == 16
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 1024


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(1, 40)), max_size=20))
def test_no_more_is_kept_than_the_largest_frame(parts: list[tuple[int, int]]) -> None:
    decoder = Decoder(max_payload=16)
    stream = b"".join(frame(MessageKind.OUTPUT, b"x" * length) for length, _ in parts)
    start = 0
    for _, taken in parts:
        decoder.feed(stream[start : start + taken])
        start += taken
        assert decoder.pending < 16 + 6


def test_a_decoder_may_have_a_smaller_limit() -> None:
    decoder = Decoder(max_payload=3)
    assert decoder.feed(frame(MessageKind.INPUT, b"abc")) != []
    assert decoder.feed(frame(MessageKind.INPUT, b"abcd")) == [Broken("frame too large: 6 bytes (max 5)")]
