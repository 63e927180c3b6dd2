"""Both ends of a Passepartout connection: who may send what, greeting, health and proof."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.sexp import Keyword
from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.passepartout import (
    MAX_UNPROVEN_CHARACTERS,
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
    State,
    event,
    frame,
    log,
    plist,
    user_input,
)
from tests.wire.passepartout_frames import framed, in_pieces

TOKEN = "sesame-Ä"
AUTH = frame(Auth(TOKEN).plist)
CHECK = frame(HealthCheck().plist)
UNKNOWN = "only a health check or (:ACTION :AUTH :TOKEN …) is taken before you are known"


def daemon(**settings: Any) -> ServerConnection:
    connection = ServerConnection(is_token=lambda token: token == TOKEN, **settings)
    connection.send(Hello("0.7.2"))
    return connection


def client() -> ClientConnection:
    connection = ClientConnection()
    connection.receive(frame(Hello("0.7.2").plist))
    return connection


def refused(reason: str) -> Invalid:
    return Invalid(reason, frame(log(reason).plist))


# --- who may send what ------------------------------------------------------------------------------------

MESSAGES: dict[str, Sendable] = {
    "Hello": Hello("1"),
    "Message": log("x"),
    "HealthCheck": HealthCheck(),
    "HealthResponse": HealthResponse(Health.HEALTHY, True),
    "Auth": Auth(TOKEN),
}
ALLOWED = {
    ("daemon", State.CONNECTED): {"Hello"},
    ("daemon", State.GREETED): {"Message", "HealthResponse"},
    ("daemon", State.CLOSED): set[str](),
    ("client", State.CONNECTED): {"Message", "HealthCheck", "Auth"},
    ("client", State.GREETED): {"Message", "HealthCheck", "Auth"},
    ("client", State.CLOSED): set[str](),
}


def in_state(side: str, state: State) -> ServerConnection | ClientConnection:
    if state is State.CONNECTED:
        return ServerConnection() if side == "daemon" else ClientConnection()
    connection = daemon() if side == "daemon" else client()
    if state is State.CLOSED:
        connection.close()
    assert connection.state is state
    return connection


@pytest.mark.parametrize(
    ("side", "state", "name"), [(*where, name) for where, name in product(ALLOWED, MESSAGES)]
)
def test_a_side_sends_what_the_table_allows_and_nothing_else(side: str, state: State, name: str) -> None:
    connection = in_state(side, state)
    if name in ALLOWED[side, state]:
        assert connection.send(MESSAGES[name]) == frame(MESSAGES[name].plist)
        assert connection.state is (State.GREETED if name == "Hello" else state)
        return
    with pytest.raises(LocalError) as raised:
        connection.send(MESSAGES[name])
    assert str(raised.value) == f"a {side} can't send a {name} when {state.value}"
    assert connection.state is state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ServerConnection, Hello("\ud800")),
        (ServerConnection, Hello("1", ("\ud800",))),
        (daemon, event([], x=float("inf"))),
        (daemon, event([], x=object())),
        (client, Auth("\udfff")),
        (client, user_input("\ud800")),
    ],
)
def test_what_can_not_be_framed_leaves_the_state_as_it_was(
    make: Callable[[], ServerConnection | ClientConnection], message: Sendable
) -> None:
    connection = make()
    before = connection.state
    with pytest.raises(LocalError):
        connection.send(message)
    assert connection.state is before


def test_a_connection_shows_its_state_and_nothing_else() -> None:
    assert repr(ServerConnection()) == "<ServerConnection connected>"
    assert repr(daemon(proven=True)) == "<ServerConnection greeted>"
    assert repr(in_state("client", State.CLOSED)) == "<ClientConnection closed>"


# --- a conversation ---------------------------------------------------------------------------------------


def test_two_ends_talk_to_each_other() -> None:
    here = ServerConnection(is_token=lambda token: token == TOKEN)
    there = ClientConnection()
    assert there.receive(here.send(Hello("0.7.2"))) == [Hello("0.7.2")]
    asked = there.send(HealthCheck()) + there.send(Auth(TOKEN)) + there.send(user_input("Grüße\n"))
    assert here.receive(asked) == [HealthCheck(), Auth(TOKEN), user_input("Grüße\n")]
    answer = HealthResponse(Health.DEGRADED, False)
    assert there.receive(here.send(answer) + here.send(log("ok"))) == [answer, log("ok")]
    assert (there.end(), here.end()) == (None, None)
    assert (there.state, here.state) == (State.CLOSED, State.CLOSED)


said = st.one_of(
    st.just(HealthCheck()),
    st.just(Auth(TOKEN)),
    st.just(Auth("wrong")),
    st.text(st.characters(exclude_categories=["Cs"])).map(user_input),
)


@given(st.lists(said, max_size=8), st.lists(st.integers(0, 1500), max_size=20), st.booleans())
def test_what_a_daemon_hears_does_not_depend_on_how_the_bytes_come(
    messages: list[Sendable], cuts: list[int], proven: bool
) -> None:
    known = proven
    expected: list[Sendable | Invalid] = []
    for message in messages:
        if message == Auth("wrong"):
            expected.append(refused("the token is wrong"))
        elif known or isinstance(message, HealthCheck | Auth):
            expected.append(message)
            known = known or isinstance(message, Auth)
        else:
            expected.append(refused(UNKNOWN))
    connection = daemon(proven=proven)
    speaker = client()
    data = b"".join(map(speaker.send, messages))
    assert [item for piece in in_pieces(data, cuts) for item in connection.receive(piece)] == expected
    assert connection.proven is known


# --- greeting ---------------------------------------------------------------------------------------------


def handshake(rest: str) -> bytes:
    return framed(f"(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE {rest}))")


@pytest.mark.parametrize(
    ("data", "hello"),
    [
        (handshake(':VERSION "1" :CAPABILITIES (:AUTH :|x y|)'), Hello("1", ("AUTH", "x y"))),
        (framed('(:type :Event :PayLoad (:Action :Handshake :Version "1"))'), Hello("1", ())),
        (framed('(:|type| :|event| :|payload| (:|action| :|handshake| :|version| "1"))'), Hello("1", ())),
        (handshake(""), Hello("", ())),
        (handshake('AND :CAPABILITIES "AUTH" :VERSION "1"'), Hello("", ())),
        (handshake(':VERSION "1" :CAPABILITIES NIL'), Hello("1", ())),
        (handshake(':VERSION "1" :CAPABILITIES (:A 5 "B" C (:D) :E)'), Hello("1", ("A", "E"))),
        (handshake(':VERSION "1" :CAPABILITIES 5'), Hello("1", ())),
        (handshake(':VERSION "1" :CAPABILITIES :AUTH'), Hello("1", ())),
        (handshake(':VERSION "1" :CAPABILITIES "AUTH"'), Hello("1", ())),
        (handshake(':VERSION "1" :CAPABILITIES (:A . :B)'), Hello("1", ())),
        (handshake(':VERSION "1" :CAPABILITIES #(:A)'), Hello("1", ())),
    ],
)
def test_a_client_takes_a_hello_in_any_case_and_with_any_capabilities(data: bytes, hello: Hello) -> None:
    connection = ClientConnection()
    assert connection.receive(data) == [hello]
    assert connection.state is State.GREETED


@pytest.mark.parametrize(
    "data",
    [
        handshake(":VERSION 5"),
        handshake(":VERSION NIL"),
        framed("(:TYPE :REQUEST :PAYLOAD (:ACTION :HANDSHAKE))"),
        framed("(:TYPE :EVENT :PAYLOAD (:ACTION :MESSAGE))"),
        framed('(:TYPE :EVENT :PAYLOAD (:ACTION "HANDSHAKE"))'),
        framed("(:TYPE :EVENT :PAYLOAD :HANDSHAKE)"),
        framed("(:TYPE :HEALTH-RESPONSE :STATUS :HEALTHY :CHECKED-P T)"),
        framed("(:TYPE :LOG)"),
    ],
)
def test_a_daemon_must_begin_with_a_hello(data: bytes) -> None:
    connection = ClientConnection()
    assert connection.receive(data + frame(Hello("1").plist)) == [Broken("a daemon must begin with a HELLO")]
    assert connection.state is State.CLOSED


def test_a_second_hello_is_an_event_like_others() -> None:
    connection = client()
    assert connection.receive(frame(Hello("2").plist)) == [Message(Hello("2").plist)]


def test_a_client_that_waits_for_the_hello_may_speak() -> None:
    connection = ClientConnection()
    connection.send(HealthCheck())
    assert connection.receive(frame(Hello("1").plist)) == [Hello("1")]


# --- health -----------------------------------------------------------------------------------------------

CHECKS = [
    "(:TYPE :HEALTH-CHECK)",
    "(:type :health-check)",
    "(:|type| :|Health-Check|)",
    "(:META (:SOURCE :TUI) :TYPE :HEALTH-CHECK :PAYLOAD 5)",
    "(:TYPE :HEALTH-CHECK :TYPE :EVENT)",
    "(:TYPE :HEALTH-CHECK :ODD)",
]


@pytest.mark.parametrize("text", CHECKS)
@pytest.mark.parametrize("make", [ServerConnection, daemon, lambda: daemon(proven=True)])
def test_a_health_check_comes_through_before_validation_and_proof(
    make: Callable[[], ServerConnection], text: str
) -> None:
    assert make().receive(framed(text)) == [HealthCheck()]


RESPONSES = {
    "(:TYPE :HEALTH-RESPONSE :STATUS :HEALTHY :CHECKED-P T)": (Health.HEALTHY, True),
    "(:TYPE :HEALTH-RESPONSE :STATUS :DEGRADED :CHECKED-P NIL)": (Health.DEGRADED, False),
    "(:TYPE :HEALTH-RESPONSE :STATUS :UNHEALTHY :CHECKED-P ())": (Health.UNHEALTHY, False),
    "(:TYPE :HEALTH-RESPONSE :STATUS :UNKNOWN)": (Health.UNKNOWN, False),
    "(:type :health-response :status :healthy :checked-p t)": (Health.HEALTHY, True),
    "(:|type| :|health-response| :|status| :|Healthy| :|checked-p| t)": (Health.HEALTHY, True),
    "(:CHECKED-P T :STATUS :DEGRADED :TYPE :HEALTH-RESPONSE)": (Health.DEGRADED, True),
    "(:TYPE :HEALTH-RESPONSE :STATUS :FINE :CHECKED-P T)": (Health.UNKNOWN, True),
    '(:TYPE :HEALTH-RESPONSE :STATUS "HEALTHY" :CHECKED-P T)': (Health.UNKNOWN, True),
    "(:TYPE :HEALTH-RESPONSE :STATUS NIL)": (Health.UNKNOWN, False),
    "(:TYPE :HEALTH-RESPONSE)": (Health.UNKNOWN, False),
    # whatever is not NIL is true in Lisp
    "(:TYPE :HEALTH-RESPONSE :CHECKED-P 0)": (Health.UNKNOWN, True),
    '(:TYPE :HEALTH-RESPONSE :CHECKED-P "")': (Health.UNKNOWN, True),
    "(:TYPE :HEALTH-RESPONSE :CHECKED-P #())": (Health.UNKNOWN, True),
}


@pytest.mark.parametrize(("text", "fields"), RESPONSES.items())
def test_a_health_response_is_read_in_any_case(text: str, fields: tuple[Health, bool]) -> None:
    assert client().receive(framed(text)) == [HealthResponse(*fields)]


# --- proof ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        user_input("hi"),
        log("x"),
        Message(plist(type=Keyword("STATUS"))),
        Message(plist(type=Keyword("REQUEST"), payload=plist(action=Keyword("MESSAGE")))),
        Message(plist(type=Keyword("EVENT"), payload=plist(action=Keyword("AUTH"), token=TOKEN))),
    ],
)
def test_before_proof_a_message_is_refused_and_the_connection_lives(message: Message) -> None:
    connection = daemon()
    assert connection.receive(frame(message.plist) + CHECK) == [refused(UNKNOWN), HealthCheck()]
    assert (connection.state, connection.proven) == (State.GREETED, False)


@pytest.mark.parametrize(
    "text",
    [
        f'(:TYPE :REQUEST :PAYLOAD (:ACTION :AUTH :TOKEN "{TOKEN}"))',
        f'(:type :request :payload (:action :auth :token "{TOKEN}"))',
        f'(:|type| :|Request| :|payload| (:|token| "{TOKEN}" :|action| :|auth|))',
    ],
)
def test_the_right_token_proves_a_client(text: str) -> None:
    connection = daemon()
    assert connection.receive(framed(text)) == [Auth(TOKEN)]
    assert connection.proven
    assert connection.receive(frame(user_input("hi").plist)) == [user_input("hi")]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ('"secret"', "the token is wrong"),
        ('""', "the token is wrong"),
        (f'"{TOKEN} "', "the token is wrong"),
        ("secret", "the token must be a string"),
        (":secret", "the token must be a string"),
        ("5318008", "the token must be a string"),
        ('("secret")', "the token must be a string"),
        ("NIL", "the token must be a string"),
        ('"secret" :TOKEN "sesame-Ä"', "the token is wrong"),
    ],
)
def test_a_wrong_token_is_refused_and_not_repeated(token: str, reason: str) -> None:
    connection = daemon()
    [invalid] = connection.receive(framed(f"(:TYPE :REQUEST :PAYLOAD (:ACTION :AUTH :TOKEN {token}))"))
    assert invalid == refused(reason)
    for secret in ("secret", "5318008", TOKEN):
        assert secret not in repr(invalid).casefold()
    assert (connection.state, connection.proven) == (State.GREETED, False)
    assert connection.receive(AUTH) == [Auth(TOKEN)]


@pytest.mark.parametrize("payload", ["(:ACTION :AUTH)", "(:ACTION :AUTH :TOKENS 5)"])
def test_a_proof_without_a_token_is_refused(payload: str) -> None:
    data = framed(f"(:TYPE :REQUEST :PAYLOAD {payload})")
    assert daemon().receive(data) == [refused("the token must be a string")]


def test_without_a_check_of_tokens_no_token_is_right() -> None:
    connection = ServerConnection()
    assert connection.receive(frame(Auth("").plist)) == [refused("the token is wrong")]


def test_a_wrong_token_takes_nothing_from_who_is_proven() -> None:
    connection = daemon(proven=True)
    said = frame(Auth("wrong").plist) + frame(user_input("hi").plist)
    assert connection.receive(said) == [refused("the token is wrong"), user_input("hi")]
    assert connection.proven


LARGE = user_input("x" * MAX_UNPROVEN_CHARACTERS)


def test_a_token_in_the_middle_of_a_chunk_counts_for_what_follows() -> None:
    hi, large = frame(user_input("hi").plist), frame(LARGE.plist)
    connection = daemon()
    assert connection.receive(hi + CHECK + AUTH + large + hi) == [
        refused(UNKNOWN),
        HealthCheck(),
        Auth(TOKEN),
        LARGE,
        user_input("hi"),
    ]


@pytest.mark.parametrize(
    "before", [b"", CHECK, frame(Auth("wrong").plist)], ids=["nothing", "health", "wrong"]
)
def test_before_proof_a_large_frame_is_broken_at_its_header(before: bytes) -> None:
    connection = daemon()
    *_, broken = connection.receive(before + frame(LARGE.plist)[:6])
    reason = "a frame of 4171 characters; at most 4096 are allowed"
    assert broken == Broken(reason, frame(log(reason).plist))
    assert connection.state is State.CLOSED
    assert connection.receive(AUTH) == []
    assert not connection.proven


def test_before_proof_a_frame_at_the_limit_is_taken() -> None:
    text = "(:TYPE :HEALTH-CHECK)".ljust(MAX_UNPROVEN_CHARACTERS)
    assert daemon().receive(framed(text)) == [HealthCheck()]


@pytest.mark.parametrize(
    ("settings", "before", "limit"),
    [
        ({"proven": False, "max_characters": 100}, b"", 100),
        ({"proven": False, "max_characters": 100}, AUTH, 100),
        ({"proven": False, "max_characters": 9000}, b"", 4096),
        ({"proven": False, "max_characters": 9000}, AUTH, 9000),
        ({"proven": True, "max_characters": 9000}, b"", 9000),
    ],
)
def test_a_daemon_may_set_its_own_limit(settings: dict[str, Any], before: bytes, limit: int) -> None:
    connection = daemon(**settings)
    connection.receive(before)
    check = "(:TYPE :HEALTH-CHECK)"
    assert connection.receive(framed(check.ljust(limit))) == [HealthCheck()]
    reason = f"a frame of {limit + 1} characters; at most {limit} are allowed"
    assert connection.receive(framed(check.ljust(limit + 1))) == [Broken(reason, frame(log(reason).plist))]


def test_a_client_may_set_its_own_limit() -> None:
    connection = ClientConnection(max_characters=0x5C)
    assert connection.receive(frame(Hello("0.7.2").plist)) == [Hello("0.7.2")]
    assert connection.receive(b"00005D") == [Broken("a frame of 93 characters; at most 92 are allowed")]


@pytest.mark.parametrize("make", [daemon, client])
def test_a_closed_connection_hears_nothing(make: Callable[[], ServerConnection | ClientConnection]) -> None:
    connection = make()
    connection.receive(b"000003N")
    connection.close()
    assert connection.receive(b"IL" + CHECK) == []
    assert connection.end() is None
