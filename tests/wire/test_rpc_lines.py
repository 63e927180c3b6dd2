"""rpc-edn, a line step by step: what a server answers to each fault, to the byte, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.faults import Broken
from fairlead.wire.rpc import (
    MAX_ID,
    ClientConnection,
    Error,
    ErrorCode,
    Request,
    ServerConnection,
    State,
    encode,
)
from fairlead.wire.rpc_catalog import OPS
from tests.wire.cutting import bytewise, cuts, pieces
from tests.wire.rpc_examples import HANDSHAKE, frames, ready

LONG_ID = b"x" * (MAX_ID + 1)
SUPPORTED = " ".join(f'"{op}"' for op in sorted(OPS)).encode()


def error(code: str, message: str, echo: str = "", data: str = "") -> bytes:
    """An error's line, written by hand."""
    echo = f" {echo}," if echo else ""
    data = f", :data {data}" if data else ""
    return f'{{:kind :error,{echo} :error-code "{code}", :error-message "{message}"{data}}}\n'.encode()


FRAME, ENVELOPE = "transport/invalid-frame", "protocol/invalid-envelope"
PARAMS, ID, OP = "request/invalid-params", "request/invalid-id", "request/invalid-op"
NOT_EDN, NOT_MAP = "unable to parse EDN request frame", "request frame must be an EDN map"
KIND = "request frame :kind must be :request"
MISSING, EXTRA = "request frame missing required keys", "request frame contains unsupported keys"
NO_ID, NO_OP = "request :id must be a non-empty string", "request :op must be a non-empty string"
NO_MAP = "request :params must be a map"


def not_edn(detail: str) -> bytes:
    return error(FRAME, NOT_EDN, data=f'{{:detail "{detail}"}}')


# Each line, without its newline, to a server that is ready and has the request "busy" pending.
LINES: list[tuple[bytes, bytes]] = [
    # blank
    (b"", error(FRAME, "empty frame")),
    (b"\r", error(FRAME, "empty frame")),
    (b" \t ", error(FRAME, "empty frame")),
    # not EDN
    (b"{:id", not_edn("the text ends before { is closed (line 1, column 5)")),
    (b"{:id 1", not_edn("the text ends before { is closed (line 1, column 7)")),
    (b"{:id 1 :id 2}", not_edn("duplicate key :id (line 1, column 13)")),
    (b"{:id}", not_edn("a map needs a value for each key; it has 1 forms (line 1, column 5)")),
    (b"]", not_edn("] without its opening partner (line 1, column 1)")),
    (b",", not_edn("expected one form, found none (line 1, column 1)")),
    (b"; a comment", not_edn("expected one form, found none (line 1, column 1)")),
    (b"#_ {:id 1}", not_edn("expected one form, found none (line 1, column 1)")),
    (b"{} {}", not_edn("expected one form, found 2 (line 1, column 1)")),
    (
        b'{:id "a" :kind :request :op "ping"} {:id "b" :kind :request :op "ping"}',
        not_edn("expected one form, found 2 (line 1, column 1)"),
    ),
    (b'{:id "a" :kind :request :op "ping"} nil', not_edn("expected one form, found 2 (line 1, column 1)")),
    (b'{:id "\xff"}', not_edn("the text is not UTF-8 at byte 6 (line 1, column 1)")),
    (b"\xfe\xff", not_edn("the text is not UTF-8 at byte 0 (line 1, column 1)")),
    (b"[" * 513, not_edn("collections nest deeper than 512 (line 1, column 513)")),
    # not a map
    (b"nil", error(ENVELOPE, NOT_MAP)),
    (b"[:id 1]", error(ENVELOPE, NOT_MAP)),
    (b'"text"', error(ENVELOPE, NOT_MAP)),
    (b"#{}", error(ENVELOPE, NOT_MAP)),
    (b"#psi/request {}", error(ENVELOPE, NOT_MAP)),
    # wrong kind
    (b"{}", error(ENVELOPE, KIND)),
    (b'{:id "a" :op "ping"}', error(ENVELOPE, KIND, ':id "a", :op "ping"')),
    (b'{:id "a" :op "ping" :kind nil}', error(ENVELOPE, KIND, ':id "a", :op "ping"')),
    (b'{:id "a" :op "ping" :kind :response}', error(ENVELOPE, KIND, ':id "a", :op "ping"')),
    (b'{:id "a" :op "ping" :kind request}', error(ENVELOPE, KIND, ':id "a", :op "ping"')),
    (b'{:id "a" :op "ping" :kind "Request"}', error(ENVELOPE, KIND, ':id "a", :op "ping"')),
    (b'{"id" "a" "op" "ping" "kind" "request"}', error(ENVELOPE, KIND)),
    # missing keys
    (b"{:kind :request}", error(ENVELOPE, MISSING, data='{:missing [":id" ":op"]}')),
    (b'{:kind :request :id "a"}', error(ENVELOPE, MISSING, ':id "a"', '{:missing [":op"]}')),
    (b'{:kind :request :op "ping"}', error(ENVELOPE, MISSING, ':op "ping"', '{:missing [":id"]}')),
    # extra keys
    (
        b'{:kind :request :id "a" :op "ping" :x 1 "y" 2 [3] 4}',
        error(ENVELOPE, EXTRA, ':id "a", :op "ping"', r'{:unsupported ["\"y\"" ":x" "[3]"]}'),
    ),
    (
        b'{:kind :request :id "a" :op "ping" ' + b" ".join(b"%d 0" % n for n in range(10, 40)) + b"}",
        error(
            ENVELOPE,
            EXTRA,
            ':id "a", :op "ping"',
            "{:unsupported [" + " ".join(f'"{n}"' for n in range(10, 26)) + "]}",
        ),
    ),
    (
        b'{:kind :request :id "a" :op "ping" ' + b"0x" + b"f" * 4000 + b" 1}",
        error(ENVELOPE, EXTRA, ':id "a", :op "ping"', '{:unsupported ["a key that is a int"]}'),
    ),
    # bad id
    (b'{:kind :request :id "" :op "ping"}', error(ID, NO_ID, ':op "ping"')),
    (b'{:kind :request :id nil :op "ping"}', error(ID, NO_ID, ':op "ping"')),
    (b'{:kind :request :id 1 :op "ping"}', error(ID, NO_ID, ':op "ping"')),
    (b'{:kind :request :id :a :op "ping"}', error(ID, NO_ID, ':op "ping"')),
    (
        b'{:kind :request :id "' + LONG_ID + b'" :op "ping"}',
        error(ID, "request :id must have at most 256 characters", ':op "ping"'),
    ),
    # bad op
    (b'{:kind :request :id "a" :op ""}', error(OP, NO_OP, ':id "a"')),
    (b'{:kind :request :id "a" :op nil}', error(OP, NO_OP, ':id "a"')),
    (b'{:kind :request :id "a" :op :ping}', error(OP, NO_OP, ':id "a"')),
    (
        b'{:kind :request :id "a" :op "' + LONG_ID + b'"}',
        error(OP, "request :op must have at most 256 characters", ':id "a"'),
    ),
    # id already pending
    (
        b'{:kind :request :id "busy" :op "ping"}',
        error(ID, "duplicate request :id", ':id "busy", :op "ping"'),
    ),
    # params not a map
    (b'{:kind :request :id "a" :op "ping" :params []}', error(PARAMS, NO_MAP, ':id "a", :op "ping"')),
    (b'{:kind :request :id "a" :op "ping" :params "x"}', error(PARAMS, NO_MAP, ':id "a", :op "ping"')),
    # a bad param
    (
        b'{:kind :request :id "a" :op "prompt" :params {:message 5}}',
        error(PARAMS, "invalid request parameter :message: non-empty string", ':id "a", :op "prompt"'),
    ),
    # unknown op
    (
        b'{:kind :request :id "a" :op "nope"}',
        error(
            "request/op-not-supported",
            "unsupported op: nope",
            ':id "a", :op "nope"',
            f"{{:supported-ops [{SUPPORTED.decode()}]}}",
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "answer"), LINES, ids=[f"{line[:60]!r}" for line, _ in LINES])
def test_a_bad_line_gets_this_error_and_changes_nothing(line: bytes, answer: bytes) -> None:
    server = ready()
    server.receive(b'{:kind :request :id "busy" :op "prompt" :params {:message "x"}}\n')
    server.subscribe(["error"])
    assert frames(server.receive(line + b"\n")) == [answer]
    assert server.state is State.READY
    assert server.pending == {"busy": "prompt"}
    assert server.subscribed == {"error"}


@pytest.mark.parametrize(("line", "answer"), LINES, ids=[f"{line[:60]!r}" for line, _ in LINES])
def test_what_is_around_a_bad_line_is_read(line: bytes, answer: bytes) -> None:
    before, after = b'{:kind :request :id "busy" :op "ping"}\n', b'{:kind :request :id "z" :op "abort"}\r\n'
    expected = [Request("busy", "ping"), answer, Request("z", "abort")]
    stream = before + line + b"\n" + after
    assert frames(ready().receive(stream)) == expected
    server = ready()
    assert frames([item for byte in bytewise(stream) for item in server.receive(byte)]) == expected
    assert server.pending == {"busy": "ping", "z": "abort"}


@pytest.mark.parametrize(
    "line",
    [
        b'{:id "a" :kind :request :op "ping"}\n',
        b'{:id "a" :kind :request :op "ping"}\r\n',
        b'{:id "a" :kind "request" :op "ping"}\n',
        b'{:id "a", :kind :request, :op "ping", :params nil}\n',
        b'  {:params {} :op "ping" :kind :request :id "a"} ; a comment\n',
        b'#_ {} {:id "a" :kind :request #_ #_ :x 1 :op "ping"}\n',
        b'^{:doc "x"} {:id "a" :kind :request :op "ping"}\n',
    ],
)
def test_a_request_may_be_written_in_any_way_that_edn_allows(line: bytes) -> None:
    assert ready().receive(line) == [Request("a", "ping", {})]


def test_other_parameters_may_come_along() -> None:
    (request,) = ready().receive(b'{:id "a" :kind :request :op "ping" :params {:color "red" :n [1 2]}}\n')
    assert isinstance(request, Request)
    assert (request.get("color"), request.get("n"), request.get("none", 7)) == ("red", [1, 2], 7)


# Each line has the faults of all later steps too; from one to the next only the first of them is mended.
NOT_READY, READY, WITH_ROOM = "not ready", "ready", "with room"
STEPS: list[tuple[str, str, ErrorCode, str]] = [
    (NOT_READY, "{:kind :nope :x 1 :id 5", ErrorCode.INVALID_FRAME, NOT_EDN),
    (NOT_READY, "[:kind :nope :x 1 :id 5]", ErrorCode.INVALID_ENVELOPE, NOT_MAP),
    (NOT_READY, "{:kind :nope :x 1 :id 5}", ErrorCode.INVALID_ENVELOPE, KIND),
    (NOT_READY, "{:kind :request :x 1 :id 5}", ErrorCode.INVALID_ENVELOPE, MISSING),
    (NOT_READY, "{:kind :request :x 1 :id 5 :op 7 :params 5}", ErrorCode.INVALID_ENVELOPE, EXTRA),
    (
        NOT_READY,
        "{:kind :request :id 5 :op 7 :params 5}",
        ErrorCode.NOT_READY,
        "handshake must complete before non-handshake requests",
    ),
    (READY, "{:kind :request :id 5 :op 7 :params 5}", ErrorCode.INVALID_ID, NO_ID),
    (READY, '{:kind :request :id "dup" :op 7 :params 5}', ErrorCode.INVALID_OP, NO_OP),
    (READY, '{:kind :request :id "dup" :op "nope" :params 5}', ErrorCode.INVALID_ID, "duplicate request :id"),
    (
        READY,
        '{:kind :request :id "new" :op "nope" :params 5}',
        ErrorCode.MAX_PENDING_EXCEEDED,
        "maximum pending requests exceeded",
    ),
    (WITH_ROOM, '{:kind :request :id "new" :op "nope" :params 5}', ErrorCode.INVALID_PARAMS, NO_MAP),
    (
        WITH_ROOM,
        '{:kind :request :id "new" :op "nope" :params {:message 5}}',
        ErrorCode.OP_NOT_SUPPORTED,
        "unsupported op: nope",
    ),
    (
        WITH_ROOM,
        '{:kind :request :id "new" :op "prompt" :params {:message 5}}',
        ErrorCode.INVALID_PARAMS,
        "invalid request parameter :message: non-empty string",
    ),
]


@pytest.mark.parametrize(("when", "line", "code", "message"), STEPS)
def test_the_first_fault_in_the_order_of_the_steps_is_the_one_that_is_told(
    when: str, line: str, code: ErrorCode, message: str
) -> None:
    server = ServerConnection(max_pending=2 if when is WITH_ROOM else 1)
    server.pending["dup"] = "ping"
    server.state = State.NOT_READY if when is NOT_READY else State.READY
    (refused,) = server.receive(line.encode() + b"\n")
    assert isinstance(refused, Error)
    assert (refused.code, refused.message) == (code, message)
    assert server.pending == {"dup": "ping"}


@pytest.mark.parametrize(
    ("id_", "op", "echo"),
    [
        ('"a"', '"x"', ':id "a", :op "x"'),
        ("5", '"x"', ':op "x"'),
        ('"a"', "nil", ':id "a"'),
        ('""', '""', ""),
        (f'"{"x" * MAX_ID}"', '"x"', f':id "{"x" * MAX_ID}", :op "x"'),
        (f'"{LONG_ID.decode()}"', f'"{LONG_ID.decode()}"', ""),
        (r'"\"\\\n\u2028\ud800"', '"é"', ':id "\\"\\\\\\n\u2028\\ud800", :op "é"'),
    ],
)
def test_an_error_echoes_the_id_and_the_op_that_it_could_read(id_: str, op: str, echo: str) -> None:
    line = f"{{:kind :event :id {id_} :op {op}}}\n".encode()
    assert frames(ready().receive(line)) == [error(ENVELOPE, KIND, echo)]


# --- pending requests --------------------------------------------------------------------------------------


def test_a_duplicate_does_not_clear_the_request_that_is_pending() -> None:
    server = ready()
    line = b'{:kind :request :id "a" :op "ping"}\n'
    first, second, third = server.receive(line * 3)
    assert first == Request("a", "ping")
    assert second == third == Error("request/invalid-id", "duplicate request :id", "a", "ping")
    assert server.respond("a") == b'{:id "a", :kind :response, :op "ping", :ok true}\n'
    assert server.receive(line) == [Request("a", "ping")]


def test_a_place_among_the_pending_is_free_again_after_an_answer() -> None:
    server = ready(max_pending=2)
    lines = [f'{{:kind :request :id "{name}" :op "ping"}}\n'.encode() for name in "abcd"]
    assert [type(item) for item in server.receive(b"".join(lines[:3]))] == [Request, Request, Error]
    server.respond("a")
    assert server.receive(lines[2]) == [Request("c", "ping")]
    assert frames(server.receive(lines[3])) == [
        error(
            "transport/max-pending-exceeded",
            "maximum pending requests exceeded",
            ':id "d", :op "ping"',
        )
    ]
    assert server.pending == {"b": "ping", "c": "ping"}


# --- long lines --------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_refused_once_and_reading_goes_on_after_it() -> None:
    good = b'{:kind :request :id "a" :op "ping"}\n'
    refused = error(FRAME, "frame is longer than 200 bytes")
    stream = good + b'{:kind :request :id "b" :op "' + b"x" * 500 + b'"}\n' + good.replace(b"a", b"c")
    for chunks in ([stream], bytewise(stream)):
        server = ready(max_line=200)
        received = [item for chunk in chunks for item in server.receive(chunk)]
        assert frames(received) == [Request("a", "ping"), refused, Request("c", "ping")]


# --- any bytes ---------------------------------------------------------------------------------------------

WORDS = rb'{ } [ ] :kind :id :op :request :params nil 1 0xffff 1/2 "a" "ping" "handshake" " #_ #{ \ ;'
_words = st.sampled_from(
    [
        *WORDS.split(),
        b" ",
        b"\n",
        HANDSHAKE,
        b'{:kind :request :id "a" :op "ping"}',
        b'{:kind :request :id "b" :op "handshake" :params {:protocol-version "2"}}\n',
    ]
)


@given(st.lists(_words | st.binary(max_size=4), max_size=40).map(b"".join), cuts)
def test_whatever_comes_every_line_has_one_answer_and_nothing_is_raised(
    stream: bytes, places: list[int]
) -> None:
    server, client = ServerConnection(), ClientConnection()
    received = server.receive(stream)
    apart = ServerConnection()
    assert [item for piece in pieces(stream, places) for item in apart.receive(piece)] == received
    assert apart.pending == server.pending
    lines = stream.count(b"\n")
    broken = [at for at, item in enumerate(received) if isinstance(item, Broken)]
    assert len(received) == (broken[0] + 1 if broken else lines)
    assert (server.state is State.CLOSED) == bool(broken)
    for item in received:
        if isinstance(item, Error):
            assert client.receive(encode(item)) == [item]
