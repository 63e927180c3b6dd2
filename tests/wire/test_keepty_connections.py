"""keepty's two ends: every kind in every state, what the broker does with it, and both ends joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.keepty import (
    BROKER_MOVES,
    CLIENT_MOVES,
    BrokerConnection,
    ClientConnection,
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
    Role,
    Shutdown,
    Standing,
    State,
    Verdict,
    verdict,
)
from tests.wire.cutting import bytewise
from tests.wire.keepty_examples import EXAMPLES, MESSAGES, frame

End = type[BrokerConnection] | type[ClientConnection]


def grid(text: str) -> dict[tuple[str, str], str]:
    """A table drawn in text: (row, column) → entry, without the dots."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    return {
        (row[0], column): entry
        for row in rows
        for column, entry in zip(head, row[1:], strict=True)
        if entry != "."
    }


# Rows are what is sent, columns the state before, entries the state after.
CLIENT_MAY = grid("""
                CONNECTED  GREETED  OPEN  ENDED  CLOSED
    HELLO       GREETED    .        .     .      .
    HELLO_ACK   .          .        .     .      .
    INPUT       .          GREETED  OPEN  ENDED  .
    OUTPUT      .          .        .     .      .
    RESIZE      .          GREETED  OPEN  ENDED  .
    RESIZE_ACK  .          .        .     .      .
    EXIT        .          .        .     .      .
    SHUTDOWN    .          GREETED  OPEN  ENDED  .
    PING        .          GREETED  OPEN  ENDED  .
    PONG        .          .        .     .      .
    ERROR       .          .        .     .      .
""")
BROKER_MAY = grid("""
                CONNECTED  GREETED  OPEN   ENDED  CLOSED
    HELLO       .          .        .      .      .
    HELLO_ACK   .          OPEN     .      .      .
    INPUT       .          .        .      .      .
    OUTPUT      .          .        OPEN   .      .
    RESIZE      .          .        .      .      .
    RESIZE_ACK  .          .        OPEN   .      .
    EXIT        .          .        ENDED  .      .
    SHUTDOWN    .          .        .      .      .
    PING        .          .        .      .      .
    PONG        .          .        OPEN   .      .
    ERROR       CLOSED     GREETED  OPEN   .      .
""")


@pytest.mark.parametrize(("moves", "may"), [(CLIENT_MOVES, CLIENT_MAY), (BROKER_MOVES, BROKER_MAY)])
def test_the_moves_are_these(
    moves: dict[State, dict[MessageKind, State]], may: dict[tuple[str, str], str]
) -> None:
    flat = {
        (kind.name, state.name): after.name for state, row in moves.items() for kind, after in row.items()
    }
    assert flat == may


@pytest.mark.parametrize("kind", MessageKind)
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("end", "may", "who"),
    [(ClientConnection, CLIENT_MAY, "client"), (BrokerConnection, BROKER_MAY, "broker")],
)
def test_a_legal_move_changes_the_state_and_an_illegal_one_raises_and_changes_nothing(
    end: End, may: dict[tuple[str, str], str], who: str, state: State, kind: MessageKind
) -> None:
    connection, message = end(), EXAMPLES[kind]
    connection.state = state
    after = may.get((kind.name, state.name))
    if after is None:
        with pytest.raises(LocalError, match=f"^a {who} can't send {kind.name} when {state.value}$"):
            connection.send(message)
        assert connection.state is state
    else:
        assert connection.send(message) == message.encode()
        assert connection.state is State[after]


# --- receiving: the client ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MessageKind)
@pytest.mark.parametrize("state", [State.CONNECTED, State.GREETED, State.OPEN, State.ENDED])
def test_a_client_takes_from_a_broker_what_a_broker_may_send(state: State, kind: MessageKind) -> None:
    client, message = ClientConnection(), EXAMPLES[kind]
    client.state = state
    received = client.receive(message.encode())
    after = BROKER_MAY.get((kind.name, state.name))
    if after is None:
        assert received == [Broken(f"a broker can't send {kind.name} when {state.value}")]
        assert client.state is State.CLOSED
    else:
        assert received == [message]
        assert client.state is State[after]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (Input(b"x").encode(), "a broker can't send INPUT when open"),
        (HelloAck(1, 80, 24).encode(), "a broker can't send HELLO_ACK when open"),
        (frame(MessageKind.EXIT, b"\0\0"), "EXIT has 2 bytes of payload; it needs 4"),
        (frame(MessageKind.RESIZE_ACK), "RESIZE_ACK has 0 bytes of payload; it needs 8"),
        (frame(MessageKind.PONG, version=2), "unsupported protocol version: 2 (expected 1)"),
        (frame(9), "unknown kind: 9"),
        (b"\0\0\0\1", "frame too short: 1 bytes (min 2)"),
    ],
)
def test_a_client_gets_what_came_before_a_fault_and_nothing_after_it(data: bytes, reason: str) -> None:
    before: list[Message | Broken] = [HelloAck(4242, 80, 24), Output(b"$ ")]
    stream = b"".join(message.encode() for message in before if isinstance(message, Message)) + data
    for chunks in ([stream + Output(b"after").encode()], bytewise(stream)):
        client = ClientConnection()
        client.send(Hello(Role.WRITER, 80, 24))
        assert [message for chunk in chunks for message in client.receive(chunk)] == [*before, Broken(reason)]
        assert client.state is State.CLOSED
        assert client.receive(Output(b"after").encode()) == []
        with pytest.raises(LocalError, match=r"^a client can't send PING when closed$"):
            client.send(Ping())


def test_a_client_that_is_refused_gets_the_reason() -> None:
    client, broker = ClientConnection(), BrokerConnection()
    assert client.receive(broker.send(Error("256 clients are connected already"))) == [
        Error("256 clients are connected already")
    ]
    assert broker.state is client.state is State.CLOSED


def test_after_a_refusal_a_client_hears_nothing_more() -> None:
    client = ClientConnection()
    refusal = Error("256 clients are connected already")
    assert client.receive(refusal.encode() + Output(b"after").encode() + frame(99)) == [refusal]
    assert client.state is State.CLOSED


# --- receiving: the broker ---------------------------------------------------------------------------------

FIRST = "bad first frame: "


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *(
            (message.encode(), f"{FIRST}expected HELLO, not {kind.name}")
            for kind, message in EXAMPLES.items()
            if kind is not MessageKind.HELLO
        ),
        (frame(MessageKind.HELLO, b"\1\0"), f"{FIRST}HELLO has 2 bytes of payload; it needs 5"),
        (
            frame(MessageKind.HELLO, b"\0\0\0\0\0"),
            f"{FIRST}no role 0; expected 1 (writer), 2 (watcher) or 3 (monitor)",
        ),
        (frame(MessageKind.RESIZE, b"\0"), f"{FIRST}RESIZE has 1 bytes of payload; it needs 4"),
        (frame(MessageKind.HELLO, b"\1\0\0\0\0", version=2), "unsupported protocol version: 2 (expected 1)"),
        (frame(0), "unknown kind: 0"),
        (b"GET / HTTP/1.1\r\n", "frame too large: 1195725856 bytes (max 1048578)"),
        (b"\0\0\0\0", "frame too short: 0 bytes (min 2)"),
    ],
)
def test_a_bad_first_frame_is_answered_by_one_error_and_the_end(data: bytes, reason: str) -> None:
    for chunks in ([data + Ping().encode()], bytewise(data)):
        broker = BrokerConnection()
        received = [message for chunk in chunks for message in broker.receive(chunk)]
        assert received == [Broken(reason, frame(MessageKind.ERROR, reason.encode()))]
        assert broker.state is State.CLOSED
        assert broker.receive(Hello(Role.WRITER, 80, 24).encode()) == []


@pytest.mark.parametrize("state", [State.GREETED, State.OPEN, State.ENDED])
def test_later_a_broker_is_given_every_frame_to_judge_and_stays_as_it_is(state: State) -> None:
    broker = BrokerConnection()
    broker.state = state
    short = Malformed(MessageKind.RESIZE, "RESIZE has 1 bytes of payload; it needs 4")
    stream = b"".join(message.encode() for message in EXAMPLES.values()) + frame(MessageKind.RESIZE, b"\0")
    assert broker.receive(stream) == [*EXAMPLES.values(), short]
    assert broker.state is state


def test_what_came_with_and_after_the_hello_is_given_before_a_fault() -> None:
    broker = BrokerConnection()
    hello, ping = Hello(Role.MONITOR, 1, 2), Ping()
    reason = "unknown kind: 99"
    assert broker.receive(hello.encode() + ping.encode() + frame(99) + ping.encode()) == [
        hello,
        ping,
        Broken(reason, Error(reason).encode()),
    ]
    assert broker.state is State.CLOSED
    with pytest.raises(LocalError, match=r"^a broker can't send HELLO_ACK when closed$"):
        broker.send(HelloAck(0, 1, 2))


@pytest.mark.parametrize("end", [ClientConnection, BrokerConnection])
def test_a_closed_end_takes_nothing_and_sends_nothing(end: End) -> None:
    connection = end()
    connection.close()
    assert connection.state is State.CLOSED
    assert connection.receive(b"".join(message.encode() for message in EXAMPLES.values())) == []
    for message in EXAMPLES.values():
        with pytest.raises(LocalError):
            connection.send(message)


def test_a_connection_tells_its_state() -> None:
    client = ClientConnection()
    assert repr(client) == "<ClientConnection connected>"
    client.send(Hello(Role.WATCHER, 80, 24))
    assert repr(client) == "<ClientConnection greeted>"
    assert repr(BrokerConnection()) == "<BrokerConnection connected>"


# --- who may do what ---------------------------------------------------------------------------------------

# Rows are what a client sends, columns what it is at this moment.
DECIDED = grid("""
                WRITER  FORMER  WATCHER  MONITOR
    HELLO       IGNORE  IGNORE  IGNORE   IGNORE
    HELLO_ACK   IGNORE  IGNORE  IGNORE   IGNORE
    INPUT       ACT     IGNORE  IGNORE   IGNORE
    OUTPUT      IGNORE  IGNORE  IGNORE   IGNORE
    RESIZE      ACT     IGNORE  REDRAW   IGNORE
    RESIZE_ACK  IGNORE  IGNORE  IGNORE   IGNORE
    EXIT        IGNORE  IGNORE  IGNORE   IGNORE
    SHUTDOWN    ACT     IGNORE  IGNORE   ACT
    PING        ANSWER  ANSWER  ANSWER   ANSWER
    PONG        IGNORE  IGNORE  IGNORE   IGNORE
    ERROR       IGNORE  IGNORE  IGNORE   IGNORE
""")


@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("kind", MessageKind)
def test_the_broker_decides_by_kind_and_standing(kind: MessageKind, standing: Standing) -> None:
    decided, why = verdict(EXAMPLES[kind], standing)
    assert decided is Verdict[DECIDED[kind.name, standing.name]]
    if decided is not Verdict.IGNORE:
        assert why == ""
    elif kind is MessageKind.HELLO:
        assert why == "HELLO is only for the beginning"
    elif kind in (MessageKind.INPUT, MessageKind.RESIZE, MessageKind.SHUTDOWN):
        assert why == f"{kind.name} from {standing.value} is ignored"
    else:
        assert why == f"{kind.name} is not for a client to send"


@pytest.mark.parametrize(
    ("standing", "decided"),
    [
        (Standing.WRITER, Verdict.ACT),
        (Standing.FORMER, Verdict.ACT),
        (Standing.MONITOR, Verdict.ACT),
        (Standing.WATCHER, Verdict.IGNORE),
    ],
)
def test_without_a_writer_anyone_but_a_watcher_may_ask_for_the_end(
    standing: Standing, decided: Verdict
) -> None:
    assert verdict(Shutdown(), standing, has_writer=False)[0] is decided


def test_without_a_writer_a_former_one_still_may_not_write() -> None:
    assert verdict(Input(b"x"), Standing.FORMER, has_writer=False) == (
        Verdict.IGNORE,
        "INPUT from a writer that another has taken over from is ignored",
    )


@pytest.mark.parametrize(
    ("cols", "decided"),
    [(79, Verdict.IGNORE), (80, Verdict.REDRAW), (81, Verdict.REDRAW), (0, Verdict.IGNORE)],
)
def test_a_watcher_gets_a_redraw_at_the_terminals_width_or_more(cols: int, decided: Verdict) -> None:
    why = "a watcher's RESIZE asks for a redraw only at 80 columns or more"
    assert verdict(Resize(cols, 1), Standing.WATCHER, cols=80) == (
        decided,
        why if decided is Verdict.IGNORE else "",
    )
    assert verdict(Resize(cols, 1), Standing.WRITER, cols=80) == (Verdict.ACT, "")


@pytest.mark.parametrize("standing", Standing)
def test_a_malformed_frame_is_ignored_for_its_own_reason(standing: Standing) -> None:
    assert verdict(Malformed(MessageKind.RESIZE, "short"), standing) == (Verdict.IGNORE, "short")


# --- both ends joined --------------------------------------------------------------------------------------


@given(st.data())
def test_each_end_sees_what_the_other_sent_however_it_travels(data: st.DataObject) -> None:
    ends: dict[str, ClientConnection | BrokerConnection]
    ends = {"client": ClientConnection(), "broker": BrokerConnection()}
    moves = {"client": CLIENT_MOVES, "broker": BROKER_MOVES}
    other = {"client": "broker", "broker": "client"}
    sent: dict[str, list[object]] = {"client": [], "broker": []}
    seen: dict[str, list[object]] = {"client": [], "broker": []}
    underway = {"client": b"", "broker": b""}  # to whom

    for _ in range(data.draw(st.integers(0, 40))):
        who = data.draw(st.sampled_from(["client", "broker"]))
        if legal := moves[who].get(ends[who].state):
            message = data.draw(st.sampled_from(list(legal)).flatmap(MESSAGES.__getitem__))
            underway[other[who]] += ends[who].send(message)
            assert ends[who].state is legal[message.kind]
            sent[who].append(message)
        count = data.draw(st.integers(0, 60))
        seen[who] += ends[who].receive(underway[who][:count])
        underway[who] = underway[who][count:]
    refused = ends["broker"].state is State.CLOSED  # it said Error instead of HelloAck, and hears no more
    for who, rest in underway.items():
        seen[who] += ends[who].receive(rest)
    assert seen["client"] == sent["broker"]
    assert seen["broker"] == ([] if refused else sent["client"])
    assert refused or ends["client"].state is ends["broker"].state


def test_a_whole_session_byte_by_byte() -> None:
    client, broker = ClientConnection(), BrokerConnection()
    talk: list[tuple[str, Message, State]] = [
        ("client", Hello(Role.WRITER, 80, 24), State.GREETED),
        ("client", Input(b"early"), State.GREETED),
        ("broker", HelloAck(4242, 80, 24), State.OPEN),
        ("broker", Output(b"screen"), State.OPEN),
        ("client", Ping(), State.OPEN),
        ("broker", Pong(), State.OPEN),
        ("broker", Exit(143), State.ENDED),
        ("client", Input(b"late"), State.ENDED),
    ]
    for who, message, after in talk:
        speaker, listener = (client, broker) if who == "client" else (broker, client)
        heard = [item for byte in bytewise(speaker.send(message)) for item in listener.receive(byte)]
        assert heard == [message]
        assert client.state is broker.state is after
