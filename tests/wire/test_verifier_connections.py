"""The verifier's two ends: who may send what, what is answered, and when it is over."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.verifier import (
    BuilderConnection,
    Bye,
    Envelope,
    Event,
    Hello,
    HelloAck,
    Malformed,
    Misdirected,
    Ping,
    Pong,
    Prompt,
    PromptAck,
    Side,
    State,
    VerifierConnection,
    check_direction,
)
from tests.wire.cutting import bytewise, cuts, pieces
from tests.wire.verifier_examples import ENVELOPES, EXAMPLES, SESSION

End = type[BuilderConnection] | type[VerifierConnection]
each_end = pytest.mark.parametrize("end", [BuilderConnection, VerifierConnection])

MAY_SEND = {
    Side.VERIFIER: ["hello", "prompt", "report", "ping", "pong", "bye"],
    Side.BUILDER: ["hello_ack", "prompt_ack", "event", "ping", "pong", "bye"],
}
ALLOWED = {
    Side.VERIFIER: "a verifier may not send {}; it may send hello, prompt, report, ping, pong, bye",
    Side.BUILDER: "a builder may not send {}; it may send hello_ack, prompt_ack, event, ping, pong, bye",
}
ENDS: dict[Side, End] = {Side.BUILDER: BuilderConnection, Side.VERIFIER: VerifierConnection}
OTHER = {Side.BUILDER: Side.VERIFIER, Side.VERIFIER: Side.BUILDER}


# --- directions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("side", Side)
def test_a_side_sends_what_it_may_and_nothing_else(side: Side, kind: str) -> None:
    connection, envelope = ENDS[side](SESSION), EXAMPLES[kind]
    if kind in MAY_SEND[side]:
        check_direction(envelope, side)
        assert connection.send(envelope) == envelope.encode()
        assert connection.state is (State.LEAVING if kind == "bye" else State.OPEN)
        return
    for refused in (lambda: check_direction(envelope, side), lambda: connection.send(envelope)):
        with pytest.raises(LocalError) as raised:
            refused()
        assert str(raised.value) == ALLOWED[side].format(kind)
    assert connection.state is State.OPEN


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("side", Side)
def test_what_the_other_side_may_not_send_is_dropped_and_counted(side: Side, kind: str) -> None:
    connection, envelope, peer = ENDS[side](SESSION), EXAMPLES[kind], OTHER[side]
    after = Ping(nonce="after")
    received = connection.receive(envelope.encode() + after.encode())
    if kind in MAY_SEND[peer]:
        assert received == [envelope, after]
        assert connection.misdirected == 0
    else:
        assert received == [Misdirected(envelope, ALLOWED[peer].format(kind)), after]
        assert connection.misdirected == 1
        assert connection.answer(received[0]) is None
        connection.receive(envelope.encode() * 2)
        assert connection.misdirected == 3
    assert connection.state is (State.LEAVING if kind == "bye" else State.OPEN)


# --- answers -----------------------------------------------------------------------------------------------

PROMPT = Prompt(session_id=SESSION, message="m", correlation_id="c")
NO_MESSAGE = "prompt: Object missing required field `message`"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (Hello(role="verifier", session_id=SESSION, pid=1).encode(), HelloAck(session_id=SESSION)),
        (Hello(role="verifier", session_id="other", pid=1).encode(), HelloAck(session_id=SESSION)),
        (Ping(nonce="n\u2028").encode(), Pong(nonce="n\u2028")),
        (Pong(nonce="n").encode(), None),
        (EXAMPLES["report"].encode(), None),
        (PROMPT.encode(), None),
        (
            Prompt(session_id="other", message="m", correlation_id="c").encode(),
            PromptAck(
                session_id=SESSION,
                correlation_id="c",
                ok=False,
                error="session 'other' is not here; this is 'a1b2'",
            ),
        ),
        (
            b'{"type":"prompt","sessionId":"a1b2","correlationId":"c"}\n',
            PromptAck(session_id=SESSION, correlation_id="c", ok=False, error=NO_MESSAGE),
        ),
        (
            b'{"type":"prompt","sessionId":"a1b2","message":"m","deliverAs":"later","correlationId":"c"}\n',
            PromptAck(
                session_id=SESSION,
                correlation_id="c",
                ok=False,
                error="prompt: Invalid enum value 'later' - at `$.deliverAs`",
            ),
        ),
        (
            b'{"type":"prompt","sessionId":"a1b2"}\n',
            PromptAck(session_id=SESSION, correlation_id="", ok=False, error=NO_MESSAGE),
        ),
        (
            b'{"type":"prompt","sessionId":"a1b2","correlationId":5}\n',
            PromptAck(
                session_id=SESSION,
                correlation_id="",
                ok=False,
                error="prompt: Expected `str`, got `int` - at `$.correlationId`",
            ),
        ),
        (b'{"type":"report"}\n', None),
        (b'{"type":"hello"}\n', None),
    ],
)
def test_a_builder_answers_what_the_protocol_itself_demands(line: bytes, answer: Envelope | None) -> None:
    builder = BuilderConnection(SESSION)
    (received,) = builder.receive(line)
    assert builder.answer(received) == answer
    assert builder.state is State.OPEN


def test_a_builder_tells_whether_a_prompt_was_queued() -> None:
    builder = BuilderConnection(SESSION)
    assert builder.ack(PROMPT) == PromptAck(session_id=SESSION, correlation_id="c", ok=True)
    assert builder.ack(PROMPT, "max loops exceeded") == PromptAck(
        session_id=SESSION, correlation_id="c", ok=False, error="max loops exceeded"
    )


@pytest.mark.parametrize("kind", MAY_SEND[Side.BUILDER])
def test_a_verifier_answers_pings_only(kind: str) -> None:
    verifier = VerifierConnection(SESSION)
    (received,) = verifier.receive(EXAMPLES[kind].encode())
    assert verifier.answer(received) == (Pong(nonce="1") if kind == "ping" else None)
    assert verifier.hello(7) == Hello(role="verifier", session_id=SESSION, pid=7)


# --- faults ------------------------------------------------------------------------------------------------

UNKNOWN = (
    "unknown envelope type 'nope'; expected one of hello, hello_ack, prompt, prompt_ack, report, event, ping,"
    " pong, bye"
)


@each_end
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"nope"}', UNKNOWN),
        (b"{}", "an envelope must be an object with a \"type\"; got '{}'"),
        (b"no", "not JSON: Expecting value: line 1 column 1 (char 0); got 'no'"),
        (b'{"type":"ping","nonce":"' + b"x" * 1000 + b'"}', "an envelope of more than 500 bytes"),
    ],
    ids=["unknown type", "no type", "bad JSON", "too long"],
)
def test_a_fault_is_answered_by_a_bye_with_the_reason_and_the_end(end: End, line: bytes, reason: str) -> None:
    before, after = Ping(nonce="before"), Ping(nonce="after")
    stream = before.encode() + line + b"\n"
    for chunks in ([stream + after.encode()], bytewise(stream)):
        connection = end(SESSION, max_envelope=500)
        received = [item for chunk in chunks for item in connection.receive(chunk)]
        assert received == [before, Broken(reason, Bye(reason=reason).encode())]
        assert connection.state is State.CLOSED
        assert connection.receive(after.encode()) == []
        assert connection.answer(before) is None
        with pytest.raises(LocalError, match=r"^nothing can be sent when closed$"):
            connection.send(after)


@each_end
def test_a_malformed_envelope_leaves_the_connection_as_it_was(end: End) -> None:
    connection = end(SESSION)
    malformed = Malformed("pong", "pong: Object missing required field `nonce`", {"type": "pong"})
    assert connection.receive(b'{"type":"pong"}\n' + Ping(nonce="1").encode()) == [malformed, Ping(nonce="1")]
    assert (connection.state, connection.misdirected) == (State.OPEN, 0)


@each_end
def test_empty_lines_are_ignored_and_blank_ones_are_not(end: End) -> None:
    connection = end(SESSION)
    assert connection.receive(b"\n\n" + Ping(nonce="1").encode() + b"\n\n") == [Ping(nonce="1")]
    (broken,) = connection.receive(b" \n")
    assert isinstance(broken, Broken)


# --- bye ---------------------------------------------------------------------------------------------------


@each_end
@pytest.mark.parametrize("ours", [True, False])
def test_after_a_bye_of_either_side_nothing_more_is_sent(end: End, ours: bool) -> None:
    connection = end(SESSION)
    bye, ping = Bye(reason="session_shutdown"), Ping(nonce="1")
    if ours:
        assert connection.send(bye) == b'{"type":"bye","reason":"session_shutdown"}\n'
    else:
        assert connection.receive(bye.encode()) == [bye]
    assert connection.state is State.LEAVING
    for envelope in (ping, bye):
        with pytest.raises(LocalError, match=r"^nothing can be sent when leaving$"):
            connection.send(envelope)
    assert connection.receive(ping.encode()) == [ping]
    assert connection.answer(ping) is None


@each_end
def test_a_fault_after_a_bye_ends_it_without_another_bye(end: End) -> None:
    connection = end(SESSION)
    bye, broken = connection.receive(Bye(reason="done").encode() + b"no\n")
    assert bye == Bye(reason="done")
    assert broken == Broken("not JSON: Expecting value: line 1 column 1 (char 0); got 'no'")
    assert connection.state is State.CLOSED


@each_end
def test_a_ping_that_came_together_with_a_bye_asks_for_no_pong(end: End) -> None:
    connection = end(SESSION)
    ping, bye = connection.receive(Ping(nonce="1").encode() + Bye(reason="done").encode())
    assert (ping, bye) == (Ping(nonce="1"), Bye(reason="done"))
    assert connection.answer(ping) is None


@each_end
def test_a_closed_connection_takes_nothing_and_tells_its_state(end: End) -> None:
    connection = end(SESSION)
    assert repr(connection) == f"<{end.__name__} a1b2 open>"
    connection.close()
    assert repr(connection) == f"<{end.__name__} a1b2 closed>"
    assert connection.receive(Ping(nonce="1").encode()) == []


@each_end
@pytest.mark.parametrize("session_id", ["", "a/b", "a b", "a\n", "\0", ".", ".."])
def test_a_session_id_that_cannot_be_part_of_a_path_is_refused(end: End, session_id: str) -> None:
    with pytest.raises(
        ValueError, match=r"^a session id is not empty and has no slash, NUL or white space: "
    ):
        end(session_id)


# --- any split ---------------------------------------------------------------------------------------------


def test_an_envelope_of_five_megabytes_comes_through_and_one_above_the_limit_does_not() -> None:
    large = Prompt(session_id=SESSION, message="größer\n" * 700_000, correlation_id="c")
    data = large.encode()
    assert len(data) > 5_000_000
    builder = BuilderConnection(SESSION, max_envelope=len(data) - 1)
    chunks = [data[start : start + 65_521] for start in range(0, len(data), 65_521)]
    assert [item for chunk in chunks for item in builder.receive(chunk)] == [large]
    builder = BuilderConnection(SESSION, max_envelope=len(data) - 2)
    (broken,) = [item for chunk in chunks for item in builder.receive(chunk)]
    assert isinstance(broken, Broken)
    assert broken.reason == f"an envelope of more than {len(data) - 2} bytes"


@each_end
def test_an_envelope_may_be_split_at_each_byte(end: End) -> None:
    sent = [Ping(nonce="é\u2028\u2029😀\ud800\n\0"), Pong(nonce="\u2029")]
    stream = b"".join(envelope.encode() for envelope in sent)
    for cut in range(len(stream) + 1):
        connection = end(SESSION)
        assert connection.receive(stream[:cut]) + connection.receive(stream[cut:]) == sent


@given(
    st.lists(st.sampled_from(MAY_SEND[Side.VERIFIER][:-1]).flatmap(ENVELOPES.__getitem__), max_size=8), cuts
)
def test_any_split_of_a_stream_gives_the_same_envelopes(sent: list[Envelope], places: list[int]) -> None:
    stream = b"".join(envelope.encode() for envelope in sent)
    for chunks in (pieces(stream, places), bytewise(stream), [stream]):
        builder = BuilderConnection(SESSION)
        assert [item for chunk in chunks for item in builder.receive(chunk)] == sent


@given(
    st.lists(
        st.binary(max_size=8)
        | st.sampled_from(
            [b"\n", b"{", b"}", b'{"type":', b'"ping"', b'"nonce":"1"', b",", b"\xff", b"[" * 2000]
        )
        | st.one_of(*ENVELOPES.values()).map(lambda envelope: envelope.encode()),
        max_size=12,
    ).map(b"".join),
    cuts,
)
def test_any_split_of_any_bytes_gives_the_same_and_raises_nothing(stream: bytes, places: list[int]) -> None:
    whole, apart = VerifierConnection(SESSION), VerifierConnection(SESSION)
    received = whole.receive(stream)
    assert [item for piece in pieces(stream, places) for item in apart.receive(piece)] == received
    assert (whole.state, whole.misdirected) == (apart.state, apart.misdirected)
    assert not any(isinstance(item, Broken) for item in received[:-1])


@each_end
@pytest.mark.parametrize("fault", [b"x" * 40_000_000, b"no\n"], ids=["an endless line", "no envelope"])
def test_after_a_fault_nothing_is_kept_of_what_still_comes(end: End, fault: bytes) -> None:
    connection, chunk = end(SESSION), b"x" * 4096
    (broken,) = connection.receive(fault)
    assert isinstance(broken, Broken)
    tracemalloc.start()
    for _ in range(1000):
        assert connection.receive(chunk) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024


# --- both ends joined --------------------------------------------------------------------------------------


@given(st.data())
def test_each_end_sees_what_the_other_sent_however_it_travels(data: st.DataObject) -> None:
    ends = {Side.BUILDER: BuilderConnection(SESSION), Side.VERIFIER: VerifierConnection(SESSION)}
    sent: dict[Side, list[object]] = {side: [] for side in Side}
    seen: dict[Side, list[object]] = {side: [] for side in Side}
    underway = dict.fromkeys(Side, b"")  # to whom

    def say(side: Side, envelope: Envelope) -> None:
        underway[OTHER[side]] += ends[side].send(envelope)
        sent[side].append(envelope)

    def listen(side: Side, count: int) -> None:
        for item in ends[side].receive(underway[side][:count]):
            seen[side].append(item)
            if (answer := ends[side].answer(item)) is not None:
                say(side, answer)
        underway[side] = underway[side][count:]

    say(Side.VERIFIER, Hello(role="verifier", session_id=SESSION, pid=1))
    for _ in range(data.draw(st.integers(0, 30))):
        side = data.draw(st.sampled_from(list(Side)))
        if ends[side].state is State.OPEN:
            say(side, data.draw(st.sampled_from(MAY_SEND[side]).flatmap(ENVELOPES.__getitem__)))
        listen(side, data.draw(st.integers(0, 300)))
    while any(underway.values()):
        for side in Side:
            listen(side, len(underway[side]))
    for side in Side:
        assert seen[OTHER[side]] == sent[side]
        assert ends[side].misdirected == 0
    assert HelloAck(session_id=SESSION) in sent[Side.BUILDER] or ends[Side.BUILDER].state is State.LEAVING
    assert len({end.state for end in ends.values()}) == 1


def test_a_turn_is_told_corrected_and_judged() -> None:
    builder, verifier = BuilderConnection(SESSION), VerifierConnection(SESSION)
    stop = Event(name="stop", session_id=SESSION, turn_index=1, timestamp=1)
    (hello,) = builder.receive(verifier.send(verifier.hello(7)))
    answer = builder.answer(hello)
    assert answer is not None
    assert verifier.receive(builder.send(answer)) == [HelloAck(session_id=SESSION)]
    assert verifier.receive(builder.send(stop)) == [stop]
    (prompt,) = builder.receive(verifier.send(PROMPT))
    assert isinstance(prompt, Prompt)
    assert verifier.receive(builder.send(builder.ack(prompt))) == [
        PromptAck(session_id=SESSION, correlation_id="c", ok=True)
    ]
    assert builder.receive(verifier.send(EXAMPLES["report"])) == [EXAMPLES["report"]]
    assert verifier.receive(builder.send(Bye(reason="session_shutdown"))) == [Bye(reason="session_shutdown")]
    assert builder.state is verifier.state is State.LEAVING
