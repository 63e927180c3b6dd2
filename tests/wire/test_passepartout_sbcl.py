"""Passepartout spoken with a real SBCL over a real socket, from both ends.

`test_passepartout_peer.lisp` is the other end: Lisp that reads and prints messages with SBCL's own reader and
printer. It sends back what it gets, so a message that comes home as it was has been understood there.
"""

import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.sexp import Char, Dotted, Keyword, Single, Symbol, loads
from fairlead.wire.passepartout import (
    Auth,
    ClientConnection,
    Health,
    HealthCheck,
    HealthResponse,
    Hello,
    Invalid,
    Message,
    Sendable,
    ServerConnection,
    event,
    frame,
    log,
    plist,
    user_input,
)
from tests.wire.passepartout_frames import framed

PEER = Path(__file__).with_name("test_passepartout_peer.lisp")
PATIENCE = 60.0
"""Seconds until a silent peer fails a test: SBCL answers at once, but a busy machine may not let it."""

Connection = TypeVar("Connection", ClientConnection, ServerConnection)


class Call(Generic[Connection]):
    """One end of ours on a socket."""

    def __init__(self, connection: Connection, line: socket.socket) -> None:
        line.settimeout(PATIENCE)
        self.connection: Connection = connection
        self.came = b""
        self._line = line
        self._received: list[Any] = []

    def send(self, *messages: Sendable) -> None:
        for message in messages:
            self._line.sendall(self.connection.send(message))

    def send_bytes(self, data: bytes) -> None:
        self._line.sendall(data)

    def next(self) -> Any:
        """The next thing that the peer says; `came` is all the bytes that have come since it was emptied."""
        while not self._received:
            data = self._line.recv(1 << 16)
            assert data, "the peer hung up"
            self.came += data
            self._received += self.connection.receive(data)
        return self._received.pop(0)


@contextmanager
def lisp(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [program, "--script", str(PEER), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def port_of_lisp_daemon(peer: Callable[[str], str]) -> Iterator[int]:
    with lisp(peer("sbcl"), "daemon") as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE)[0], "SBCL doesn't say its port"
        yield int(process.stdout.readline())


@pytest.fixture(scope="module")
def visited_by_lisp_client(peer: Callable[[str], str]) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        with lisp(peer("sbcl"), "client", str(listener.getsockname()[1])):
            yield listener


@contextmanager
def call_to_daemon(port: int) -> Iterator[Call[ClientConnection]]:
    """A client of ours that has been greeted by Lisp."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        call = Call(ClientConnection(), line)
        assert call.next() == Hello("0.7.2", ("AUTH", "ORG-AST"))
        call.came = b""
        yield call


@contextmanager
def visit_of_client(listener: socket.socket) -> Iterator[tuple[Call[ServerConnection], list[Any]]]:
    """A daemon of ours that has greeted Lisp, and the first four things that Lisp said to it."""
    line, _ = listener.accept()
    with closing(line):
        call = Call(ServerConnection(is_token=lambda token: token == "open sesame"), line)
        call.send(Hello("0.7.2"))
        said = [call.next() for _ in range(4)]
        call.came = b""
        yield call, said


# --- what is said -----------------------------------------------------------------------------------------

TEXTS = [
    "",
    "hi",
    "Grüße, 日本語, 😀\U0010ffff",
    "e\u0301 👩\u200d💻 \ufeff \u2028",
    'a\nb\r\nc\td "quoted" \\ \\n \\" |bars| #.(x) ; no comment',
    "\0\x01\x1b[31m\x7f\x85",
    "/approve 0123",
    "long " * 20_000,
    "ü" * 70_000,
]
VALUES: list[Any] = [
    [],
    True,
    [1, [2, [3, []]]],
    [0, -1, 2**64, -(10**300)],
    [Fraction(1, 2), Fraction(-22, 7)],
    [0.0, -0.0, 1.0, 0.1, 1e7, 1e-3, 1e23, -1.7976931348623157e308, 2.2250738585072014e-308],
    [Single(0.0), Single(1.5), Single(-0.1), Single(1e7), Single(3.4028235e38)],
    [Keyword("PLAIN"), Keyword("mixed Case"), Keyword(""), Keyword("1"), Keyword("A|B\\C:D"), Keyword("É")],
    [Symbol("PLAIN"), Symbol("mixed Case"), Symbol("+"), Symbol("1+"), Symbol("5"), Symbol("...")],
    [Char("a"), Char("\n"), Char(" "), Char("é"), Char("("), Char("\0")],
    [Dotted((1,), 2), Dotted((1, [2]), Keyword("A"))],
    [(), (1, "two", (3,))],
    [Symbol("QUOTE"), Symbol("X")],
    plist(gate_trace=[plist(gate=Symbol("G"), result=Keyword("PASSED"))] * 3),
]
TABLE = [*map(user_input, TEXTS), *(event([], value=value) for value in VALUES)]

plain_names = st.from_regex(r"[A-Z][A-Z0-9*-]{0,8}", fullmatch=True)
odd_names = st.text("abcXYZ019 -+./|\\:\"'();#,`\n", max_size=8)
names = plain_names | odd_names
keywords = names.map(Keyword)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
scalars = st.one_of(
    st.just(True),
    st.builds(list),
    st.integers(),
    st.fractions(),
    st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False, width=32).map(Single),
    st.characters(min_codepoint=0, max_codepoint=0x24F).map(Char),
    keywords,
    names.filter(lambda name: name not in ("NIL", "T")).map(Symbol),
    texts,
)
atoms = scalars.filter(lambda value: not isinstance(value, list))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.builds(Dotted, st.lists(inner, min_size=1, max_size=3).map(tuple), atoms),
    ),
    max_leaves=15,
)
kinds = st.sampled_from(["REQUEST", "EVENT", "RESPONSE", "LOG", "STATUS"]).map(Keyword)
messages = st.builds(
    lambda kind, fields: Message(plist(type=kind) + [item for field in fields for item in field]),
    kinds,
    st.lists(st.tuples(keywords, values), max_size=4),
)
conversations = st.lists(messages, min_size=1, max_size=8)


def assert_echoed(call: Call[Any], message: Message) -> None:
    """Send a message; the same comes back, down to the kinds of its numbers, which == does not tell apart."""
    call.send(message)
    echo = call.next()
    assert echo == message
    assert frame(echo.plist) == frame(message.plist)


# --- our client, a daemon in Lisp -------------------------------------------------------------------------


def test_a_daemon_in_lisp_greets_our_client_and_tells_its_health(port_of_lisp_daemon: int) -> None:
    with call_to_daemon(port_of_lisp_daemon) as call:
        call.send(HealthCheck())
        assert call.next() == HealthResponse(Health.DEGRADED, True)


@pytest.mark.parametrize("message", TABLE)
def test_a_daemon_in_lisp_sends_back_byte_for_byte_what_our_client_says(
    port_of_lisp_daemon: int, message: Message
) -> None:
    with call_to_daemon(port_of_lisp_daemon) as call:
        assert_echoed(call, message)
        assert call.came == frame(message.plist)


@given(conversation=conversations)
def test_a_daemon_in_lisp_understands_all_that_our_client_says(
    port_of_lisp_daemon: int, conversation: list[Message]
) -> None:
    with call_to_daemon(port_of_lisp_daemon) as call:
        for message in conversation:
            assert_echoed(call, message)


def test_many_frames_may_be_under_way_at_once(port_of_lisp_daemon: int) -> None:
    said = [user_input(f"{number} ü\n") for number in range(200)]
    with call_to_daemon(port_of_lisp_daemon) as call:
        call.send(*said)
        assert [call.next() for _ in said] == said


# --- our daemon, a client in Lisp -------------------------------------------------------------------------


def test_a_client_in_lisp_proves_itself_and_speaks(visited_by_lisp_client: socket.socket) -> None:
    with visit_of_client(visited_by_lisp_client) as (call, said):
        status = loads(
            '(:type :status :version "0.7.2" :capabilities (:auth :org-ast) :values '
            "(nil t 1/2 -7 1267650600228229401496703205376 1.5 1.5d0 1d23 #\\a #\\Newline symbol "
            ':|mixed Case| (a . b) #(1 "two" :three) (quote quoted) ""))'
        )
        assert said == [
            HealthCheck(),
            Auth("open sesame"),
            user_input('é日\n"quoted" \\ 😀'),
            Message(status),
        ]
        assert call.connection.proven
        assert frame(said[-1].plist) == frame(status)


@pytest.mark.parametrize("status", Health)
@pytest.mark.parametrize("checked", [True, False])
def test_a_client_in_lisp_understands_a_health_response(
    visited_by_lisp_client: socket.socket, status: Health, checked: bool
) -> None:
    with visit_of_client(visited_by_lisp_client) as (call, _):
        call.send(HealthResponse(status, checked))
        sensed = plist(sensor=Keyword("HEALTH"), status=Keyword(status), checked_p=checked or [])
        assert call.next() == event(sensed)


def test_a_client_in_lisp_reads_why_its_message_was_refused(visited_by_lisp_client: socket.socket) -> None:
    with visit_of_client(visited_by_lisp_client) as (call, _):
        call.send_bytes(framed('(:TYPE :PING :TEXT "é")'))
        refused = call.next()
        assert isinstance(refused, Invalid)
        call.send_bytes(refused.reply)
        assert call.next() == log(refused.reason)


@pytest.mark.parametrize("message", TABLE)
def test_a_client_in_lisp_sends_back_byte_for_byte_what_our_daemon_says(
    visited_by_lisp_client: socket.socket, message: Message
) -> None:
    with visit_of_client(visited_by_lisp_client) as (call, _):
        assert_echoed(call, message)
        assert call.came == frame(message.plist)


@given(conversation=conversations)
def test_a_client_in_lisp_understands_all_that_our_daemon_says(
    visited_by_lisp_client: socket.socket, conversation: list[Message]
) -> None:
    with visit_of_client(visited_by_lisp_client) as (call, _):
        for message in conversation:
            assert_echoed(call, message)
