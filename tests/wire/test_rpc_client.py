"""rpc-edn's client: what it may ask when, which frames of a server are wrong, and both ends joined."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.edn import Keyword
from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.rpc import (
    ClientConnection,
    Error,
    Event,
    Frame,
    Request,
    Response,
    ServerConnection,
    State,
    encode,
    fields,
    server_info,
)
from fairlead.wire.rpc_catalog import TOPICS
from tests.wire.cutting import bytewise, cuts, pieces
from tests.wire.rpc_examples import maps, plain_values, ready, texts

SHAKEN = b'{:id "req-1", :kind :response, :op "handshake", :ok true}\n'
PONG = b'{:id "req-2", :kind :response, :op "ping", :ok true, :data {:pong true}}\n'


def connected() -> ClientConnection:
    """A client that is ready and waits for the answer to a ping."""
    client = ClientConnection()
    client.handshake("test", "0")
    client.receive(SHAKEN)
    client.request("ping")
    return client


# --- asking ------------------------------------------------------------------------------------------------


def test_a_client_begins_with_a_handshake() -> None:
    client = ClientConnection()
    with pytest.raises(LocalError, match=r"^can't request ping: the connection is not ready$"):
        client.request("ping")
    assert client.handshake("emacs", "29.4", ["x"]) == (
        b'{:id "req-1", :kind :request, :op "handshake", :params {:client-info {:name "emacs",'
        b' :version "29.4", :protocol-version "1.0", :features ["x"]}}}\n'
    )
    assert (client.state, client.pending) == (State.NOT_READY, {"req-1": "handshake"})
    assert client.receive(SHAKEN) == [Response("req-1", "handshake")]
    assert (client.state, client.pending) == (State.READY, {})
    assert client.request("prompt", fields(message="hi")) == (
        "req-2",
        b'{:id "req-2", :kind :request, :op "prompt", :params {:message "hi"}}\n',
    )
    assert client.pending == {"req-2": "prompt"}


@pytest.mark.parametrize(
    "answer",
    [
        Response("req-1", "handshake", ok=False),
        Error("protocol/unsupported-version", "unsupported protocol major: 1", "req-1", "handshake"),
    ],
)
def test_a_client_whose_handshake_was_refused_is_not_ready(answer: Frame) -> None:
    client = ClientConnection()
    client.handshake("test", "0")
    assert client.receive(encode(answer)) == [answer]
    assert (client.state, client.pending) == (State.NOT_READY, {})


def test_a_client_has_no_more_pending_requests_than_a_server_takes() -> None:
    client = ClientConnection(max_pending=2)
    client.handshake("test", "0")
    client.receive(SHAKEN)
    client.request("ping")
    client.request("ping")
    with pytest.raises(LocalError, match=r"^2 requests are pending already$"):
        client.request("ping")
    client.receive(PONG)
    assert client.request("ping")[0] == "req-4"


def test_a_request_that_cannot_be_made_takes_no_number() -> None:
    client = connected()
    with pytest.raises(ValueError, match="op must be a non-empty string"):
        client.request("")
    with pytest.raises(ValueError, match="can't write a object"):
        client.request("prompt", fields(message=object()))
    assert client.pending == {"req-2": "ping"}
    assert client.request("ping")[0] == "req-3"


def test_a_closed_client_neither_asks_nor_hears() -> None:
    client = connected()
    client.close()
    assert client.receive(PONG) == []
    with pytest.raises(LocalError, match=r"^can't request ping: the connection is closed$"):
        client.request("ping")
    with pytest.raises(LocalError, match=r"^the connection is closed$"):
        client.handshake("test", "0")
    assert repr(client) == "<ClientConnection closed, 1 pending>"


@pytest.mark.parametrize(
    ("answer", "pending"),
    [
        (Response("req-2", "ping"), {}),
        (Error("runtime/failed", "no", "req-2", "ping"), {}),
        (Error("runtime/failed", "no", "req-2"), {}),
        (Error("runtime/failed", "no"), {"req-2": "ping"}),
        (Error("request/invalid-id", "no", "other"), {"req-2": "ping"}),
        (Event("error", {}, "req-2"), {"req-2": "ping"}),
    ],
)
def test_a_response_or_an_error_with_its_id_ends_a_request(answer: Frame, pending: dict[str, str]) -> None:
    client = connected()
    assert client.receive(encode(answer)) == [answer]
    assert client.pending == pending
    assert client.state is State.READY


# --- a server's faults -------------------------------------------------------------------------------------

BAD = "bad frame from the server: "
RESPONSE_KEYS = '{:kind :response :id "req-2" :op "ping" :ok true'
ERROR_KEYS = '{:kind :error :error-code "c" :error-message "m"'
EVENT_KEYS = '{:kind :event :event "t" :data {}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        # the transport
        ("", "expected one form, found none (line 1, column 1)"),
        ("{", "the text ends before { is closed (line 1, column 2)"),
        ("{} {}", "expected one form, found 2 (line 1, column 1)"),
        ("[]", "not a map"),
        ("{:a " + "x" * 1000 + "}", "a line of more than 500 bytes"),
        # kinds
        ("{}", ":kind must be :response, :error or :event, not nil"),
        ('{:kind "response"}', ':kind must be :response, :error or :event, not "response"'),
        ("{:kind :request}", ":kind must be :response, :error or :event, not :request"),
        # responses: required, allowed, typed
        ('{:kind :response :op "ping" :ok true}', "id must be a non-empty string, not None"),
        ('{:kind :response :id "req-2" :ok true}', "op must be a non-empty string, not None"),
        ('{:kind :response :id "req-2" :op "ping"}', "ok must be true or false, not None"),
        ('{:kind :response :id "req-2" :op "ping" :ok 1}', "ok must be true or false, not 1"),
        (RESPONSE_KEYS + " :seq 1}", "unsupported keys: :seq"),
        (RESPONSE_KEYS + ' :error-code "c" :x 1}', "unsupported keys: :error-code, :x"),
        # errors
        ('{:kind :error :error-message "m"}', "code must be a non-empty string, not None"),
        ('{:kind :error :error-code "c"}', "message must be a non-empty string, not None"),
        (
            '{:kind :error :error-code :c :error-message "m"}',
            "code must be a non-empty string, not Keyword('c')",
        ),
        (ERROR_KEYS + " :id 5}", "id must be a non-empty string, not 5"),
        (ERROR_KEYS + " :retryable 1}", "retryable must be true or false, not 1"),
        (ERROR_KEYS + " :ok false}", "unsupported keys: :ok"),
        # events
        ("{:kind :event :data {}}", "topic must be a non-empty string, not None"),
        ('{:kind :event :event "t"}', "data must be a map, not None"),
        ('{:kind :event :event "t" :data []}', "data must be a map, not []"),
        (EVENT_KEYS + " :seq 0}", "seq must be a positive integer, not 0"),
        (EVENT_KEYS + " :seq 1.0}", "seq must be a positive integer, not 1.0"),
        (EVENT_KEYS + " :seq 5}", ":seq 5 after 5"),
        (EVENT_KEYS + " :seq 4}", ":seq 4 after 5"),
        (EVENT_KEYS + " :ts 5}", "ts must be a non-empty string, not 5"),
        (EVENT_KEYS + ' :op "ping"}', "unsupported keys: :op"),
        # responses to what nobody asked
        (
            '{:kind :response :id "req-9" :op "ping" :ok true}',
            "a response to ping 'req-9', which is not pending",
        ),
        (
            '{:kind :response :id "req-2" :op "abort" :ok true}',
            "a response to abort 'req-2', which is not pending",
        ),
    ],
)
def test_a_bad_frame_ends_the_connection_after_what_came_before_it(line: str, reason: str) -> None:
    event = Event("error", {Keyword("a"): [1]}, seq=5)
    stream = encode(event) + line.encode() + b"\n"
    for chunks in ([stream + PONG], bytewise(stream)):
        client = ClientConnection(max_line=500)
        client.handshake("test", "0")
        client.receive(SHAKEN)
        client.request("ping")
        received = [frame for chunk in chunks for frame in client.receive(chunk)]
        assert received == [event, Broken(BAD + reason)]
        assert client.state is State.CLOSED
        assert client.pending == {"req-2": "ping"}
        assert client.receive(PONG) == []


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (RESPONSE_KEYS + "}", Response("req-2", "ping")),
        (RESPONSE_KEYS + " :data nil}", Response("req-2", "ping")),
        (RESPONSE_KEYS + " :data [1 (2)]}", Response("req-2", "ping", [1, (2,)])),
        (ERROR_KEYS + "}", Error("c", "m")),
        (
            ERROR_KEYS + ' :id "req-2" :op "ping" :retryable false :data {:a 1}}',
            Error("c", "m", "req-2", "ping", {Keyword("a"): 1}, False),
        ),
        (EVENT_KEYS + "}", Event("t", {})),
        (EVENT_KEYS + ' :id "req-2" :seq 7 :ts "z"}', Event("t", {}, "req-2", 7, "z")),
    ],
)
def test_a_server_may_leave_out_what_is_optional(line: str, frame: Frame) -> None:
    assert connected().receive(line.encode() + b"\r\n") == [frame]


def test_numbers_of_events_may_leave_gaps_and_be_left_out() -> None:
    client = connected()
    sent = [Event("t", {}, seq=2), Event("t", {}), Event("t", {}, seq=9), Event("t", {}, seq=10)]
    assert client.receive(b"".join(map(encode, sent))) == sent


# --- both ends joined --------------------------------------------------------------------------------------

_requests = st.one_of(
    st.tuples(st.just("ping"), maps),
    st.tuples(st.just("prompt"), texts.map(lambda text: fields(message=text + "!"))),
    st.tuples(st.just("subscribe"), st.just(fields(topics=[]))),
    st.tuples(st.just("resolve_dialog"), plain_values.map(lambda value: fields(dialog_id="d", result=value))),
)


@given(st.data())
def test_each_end_sees_what_the_other_sent_however_it_travels(data: st.DataObject) -> None:
    client, server = ClientConnection(), ServerConnection()
    to_server, to_client = client.handshake("test", "0"), b""
    asked: list[tuple[str, str, object]] = []
    heard: list[tuple[str, str, object]] = []
    sent: list[Frame] = []
    seen: list[Frame | Broken] = []
    seq = 0

    def listen(count: int) -> None:
        nonlocal to_client, to_server
        for item in server.receive(to_server[:count]):
            assert isinstance(item, Request)
            heard.append((item.id, item.op, item.params))
        seen.extend(client.receive(to_client[:count]))
        to_server, to_client = to_server[count:], to_client[count:]

    listen(len(to_server))
    ((handshake, _, _),) = heard
    to_client += server.respond(handshake, server_info())
    sent.append(Response(handshake, "handshake", server_info()))
    listen(len(to_client))
    heard.clear()
    for _ in range(data.draw(st.integers(0, 20))):
        move = data.draw(st.sampled_from(["request", "respond", "fail", "event", "listen"]))
        answerable = list(server.pending)
        if move == "request" and len(client.pending) < 64:
            op, params = data.draw(_requests)
            id_, line = client.request(op, params)
            asked.append((id_, op, params))
            to_server += line
        elif move == "event":
            topic = data.draw(st.sampled_from(sorted(filter(server.wants, TOPICS))))
            carried = {Keyword(name): data.draw(plain_values) for name in TOPICS[topic]}
            to_client += server.event(topic, carried, ts="2026-01-31T00:00:00Z")
            seq += 1
            sent.append(Event(topic, carried, None, seq, "2026-01-31T00:00:00Z"))
        elif move == "respond" and answerable:
            id_, value = data.draw(st.sampled_from(answerable)), data.draw(plain_values)
            sent.append(Response(id_, server.pending[id_], value))
            to_client += server.respond(id_, value)
        elif move == "fail" and answerable:
            id_ = data.draw(st.sampled_from(answerable))
            sent.append(Error("runtime/failed", "no", id_, server.pending[id_]))
            to_client += server.fail(id_, "runtime/failed", "no")
        else:
            listen(data.draw(st.integers(0, 200)))
    listen(max(len(to_server), len(to_client)))
    assert heard == asked
    assert seen == sent
    assert client.pending == server.pending


_frames = st.one_of(
    st.builds(Error, texts.filter(bool), texts.filter(bool), data=plain_values),
    st.builds(Event, texts.filter(bool), maps),
)


@given(st.lists(_frames, max_size=8), cuts)
def test_any_split_of_a_servers_stream_gives_the_same_frames(sent: list[Frame], places: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    for chunks in (pieces(stream, places), bytewise(stream), [stream]):
        client = ClientConnection()
        assert [frame for chunk in chunks for frame in client.receive(chunk)] == sent


@given(st.lists(_requests, max_size=8), cuts)
def test_any_split_of_a_clients_stream_gives_the_same_requests(
    asked: list[tuple[str, dict[Keyword, object]]], places: list[int]
) -> None:
    sent = [Request(f"r{number}", op, params) for number, (op, params) in enumerate(asked)]
    stream = b"".join(map(encode, sent))
    for chunks in (pieces(stream, places), bytewise(stream), [stream]):
        server = ready()
        assert [item for chunk in chunks for item in server.receive(chunk)] == sent


@pytest.mark.parametrize("end", [ClientConnection, ServerConnection])
def test_an_endless_line_costs_no_memory(end: type[ClientConnection | ServerConnection]) -> None:
    connection, chunk = end(max_line=1000), b"x" * 4096
    connection.receive(chunk)
    tracemalloc.start()
    for _ in range(1000):
        assert connection.receive(chunk) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024


@pytest.mark.parametrize("end", [ClientConnection, ServerConnection])
def test_a_closed_end_keeps_nothing_of_what_still_comes(
    end: type[ClientConnection | ServerConnection],
) -> None:
    connection, chunk = end(), b"x" * 4096
    connection.close()
    tracemalloc.start()
    for _ in range(1000):
        assert connection.receive(chunk) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024
