"""Passepartout's tests by their names, the frames of its page byte for byte, and the messages."""

import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from fairlead.formats.sexp import Dotted, Keyword, Symbol, dumps, loads
from fairlead.wire.passepartout import (
    Auth,
    Decoder,
    Health,
    HealthCheck,
    HealthResponse,
    Hello,
    Message,
    Type,
    event,
    frame,
    log,
    plist,
    user_input,
)

EVENT = Keyword("EVENT")


def unframed(data: bytes) -> Any:
    [text] = Decoder().feed(data)
    assert isinstance(text, str)
    return loads(text)


def nested(levels: int, innermost: Any) -> Any:
    for _ in range(levels):
        innermost = [innermost]
    return innermost


# --- the seed's tests -------------------------------------------------------------------------------------


def test_framing() -> None:
    framed = frame(loads("(:type :EVENT :payload (:action :handshake))"))
    assert framed[:6].upper() == b"00002C"


def test_framing_round_trip() -> None:
    message = loads('(:type :EVENT :payload (:action :handshake :version "1.0") :meta (:source :tui))')
    assert unframed(frame(message)) == message


def test_framing_empty_message() -> None:
    framed = frame(loads("(:type :ping)"))
    assert len(framed) > 5
    assert all(digit in b"0123456789ABCDEFabcdef" for digit in framed[:6])


def test_read_framed_message() -> None:
    original = loads('(:type :EVENT :payload (:text "decoded" :id 42))')
    assert unframed(frame(original)) == original


def test_read_framed_message_eof() -> None:
    decoder = Decoder()
    assert decoder.feed(b"000") == []
    assert decoder.end() is None


# --- frames byte for byte ---------------------------------------------------------------------------------

FRAMES: dict[str, tuple[Any, bytes]] = {
    "the handshake of the page": (
        plist(type=EVENT, payload=plist(action=Keyword("HANDSHAKE"))),
        b"00002C(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE))",
    ),
    "hello": (
        Hello("0.7.2").plist,
        b'00005C(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE :VERSION "0.7.2" :CAPABILITIES (:AUTH :ORG-AST)))',
    ),
    "user input": (
        user_input("hi").plist,
        b'00004D(:TYPE :EVENT :META (:SOURCE :TUI) :PAYLOAD (:SENSOR :USER-INPUT :TEXT "hi"))',
    ),
    "user input of another source": (
        user_input('Grüße\n"\\', "cli").plist,
        b"000055(:TYPE :EVENT :META (:SOURCE :CLI) :PAYLOAD "
        b'(:SENSOR :USER-INPUT :TEXT "Gr\xc3\xbc\xc3\x9fe\n\\"\\\\"))',
    ),
    "cancel": (
        event(plist(action=Keyword("CANCEL-STREAM"))).plist,
        b"000030(:TYPE :EVENT :PAYLOAD (:ACTION :CANCEL-STREAM))",
    ),
    "auth": (
        Auth("t0ken").plist,
        b'000038(:TYPE :REQUEST :PAYLOAD (:ACTION :AUTH :TOKEN "t0ken"))',
    ),
    "health check": (HealthCheck().plist, b"000015(:TYPE :HEALTH-CHECK)"),
    "health response": (
        HealthResponse(Health.DEGRADED, True).plist,
        b"000037(:TYPE :HEALTH-RESPONSE :STATUS :DEGRADED :CHECKED-P T)",
    ),
    "log": (log("no").plist, b'000030(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "no"))'),
    "log of another level": (
        log("so", "info").plist,
        b'00002F(:TYPE :LOG :PAYLOAD (:LEVEL :INFO :TEXT "so"))',
    ),
    "nothing": ([], b"000003NIL"),
    "what lives in a daemon only": (
        plist(type=EVENT, reply_stream=object(), meta=plist(source=Keyword("TUI"), socket=object())),
        b"000023(:TYPE :EVENT :META (:SOURCE :TUI))",
    ),
}


@pytest.mark.parametrize(("value", "data"), FRAMES.values(), ids=FRAMES)
def test_a_frame_is_what_the_page_says_byte_for_byte(value: Any, data: bytes) -> None:
    assert frame(value) == data
    assert int(data[:6], 16) == len(data[6:].decode())


# --- messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["REQUEST", "EVENT", "RESPONSE", "LOG", "STATUS"])
@pytest.mark.parametrize("written", [str.upper, str.lower, str.capitalize])
def test_a_message_has_one_of_five_types_in_any_case(name: str, written: Any) -> None:
    for text in (f"(:TYPE :|{written(name)}|)", f"(:|{written('type')}| :|{written(name)}|)"):
        message = Message(loads(text))
        assert message.type is Type[name]
        assert message.plist == loads(text)
        assert Message(message.plist) == message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("5", "Message must be a plist"),
        ("(:TYPE)", "Message must be a plist"),
        ("(:TYPE :EVENT :X)", "Message must be a plist"),
        (
            "(:TYPE :PING)",
            "Invalid message type ':PING'; expected one of REQUEST, EVENT, RESPONSE, LOG, STATUS",
        ),
        (
            "(:TYPE :PING :TYPE :EVENT)",
            "Invalid message type ':PING'; expected one of REQUEST, EVENT, RESPONSE, LOG, STATUS",
        ),
    ],
)
def test_what_is_no_message_is_not_valid(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        Message(loads(text))


def test_a_message_that_could_not_be_framed_for_its_depth_is_not_made() -> None:
    Message(plist(type=EVENT, x=nested(255, 1)))
    for too_deep in (nested(256, 1), (nested(255, 1),), Dotted((nested(255, 1),), 2)):
        with pytest.raises(ValueError, match=r"^the value nests deeper than 256, or holds itself$"):
            Message(plist(type=EVENT, x=too_deep))


def test_a_message_stays_as_it_is_when_its_makers_lists_change() -> None:
    inner: list[Any] = [1]
    value = plist(type=EVENT, a=inner, b=[[inner]], c=(inner,), d=Dotted((inner,), (inner,)))
    message = Message(value)
    before = dumps(message.plist)
    inner.append(2)
    value[1] = Keyword("PING")
    value.append(5)
    assert dumps(message.plist) == before == "(:TYPE :EVENT :A (1) :B (((1))) :C #((1)) :D ((1) . #((1))))"
    assert message.type is Type.EVENT


def test_a_message_is_read_by_its_keys_in_any_case() -> None:
    message = user_input("hi")
    assert message.get("PAYLOAD", "text") == message.get("payload", "TEXT") == "hi"
    assert message.get("payload", "nothing") is None
    assert message.get("payload", "nothing", default=0) == 0


def test_messages_are_equal_by_what_they_say() -> None:
    assert user_input("hi") == Message(loads(dumps(user_input("hi").plist)))
    assert user_input("hi") != user_input("ho")


def test_the_repr_of_a_message_is_shortened_and_safe_to_log() -> None:
    assert repr(log("no")) == """Message('(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "no"))')"""
    assert repr(event([], text="a\n\x1b[31mb")) == (
        """Message('(:TYPE :EVENT :TEXT "a\\n\\x1b[31mb" :PAYLOAD NIL)')"""
    )
    text = '(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "' + "x" * 1000
    assert repr(log("x" * 1000)) == f"Message('{text[:200]}'…)"


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ({"socket": object()}, "Message('(:TYPE :EVENT)')"),
        ({"x": object()}, "Message(<can't write a object as an S-expression>)"),
        ({"x": float("inf")}, "Message(<inf can't be printed readably>)"),
        ({"x": "\ud800"}, "Message(<half of a surrogate pair can't be sent as UTF-8>)"),
    ],
)
def test_a_message_that_can_not_be_printed_has_a_repr(field: dict[str, Any], shown: str) -> None:
    assert repr(Message(plist(type=EVENT, **field))) == shown


# --- the other messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", Health)
@pytest.mark.parametrize(("checked", "printed"), [(True, "T"), (False, "NIL")])
def test_a_health_response_says_status_and_whether_it_was_checked(
    status: Health, checked: bool, printed: str
) -> None:
    response = HealthResponse(status, checked)
    assert dumps(response.plist) == f"(:TYPE :HEALTH-RESPONSE :STATUS :{status} :CHECKED-P {printed})"
    assert HealthResponse(Health(status.value), checked) == response


@pytest.mark.parametrize("status", ["healthy", "FINE", "", None, 5])
def test_a_health_response_of_an_unknown_status_is_not_made(status: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid Health"):
        HealthResponse(status, True)


def test_a_hello_has_a_version_and_names() -> None:
    mutable = ["AUTH", "X-1"]
    hello = Hello("1", mutable)  # type: ignore[arg-type]
    mutable.clear()
    assert hello == Hello("1", ("AUTH", "X-1"))
    assert dumps(hello.plist) == (
        '(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE :VERSION "1" :CAPABILITIES (:AUTH :X-1)))'
    )
    assert dumps(Hello("", ()).plist) == (
        '(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE :VERSION "" :CAPABILITIES NIL))'
    )


@pytest.mark.parametrize(
    ("version", "capabilities", "why"),
    [
        (5, (), "version must be a string, not 5"),
        (None, (), "version must be a string, not None"),
        (Symbol("X"), (), "version must be a string, not Symbol(name='X', package='')"),
        ("1", (Keyword("AUTH"),), "capabilities must be strings, not (Keyword('AUTH'),)"),
        ("1", (5,), "capabilities must be strings, not (5,)"),
    ],
)
def test_a_hello_of_anything_else_is_not_made(version: Any, capabilities: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        Hello(version, capabilities)


def test_a_token_is_in_no_repr() -> None:
    auth = Auth("sesame")
    assert repr(auth) == str(auth) == "Auth()"
    assert auth.token == "sesame"


@pytest.mark.parametrize("token", [None, 5, b"sesame", ["sesame"], Keyword("SESAME")])
def test_a_token_must_be_a_string_and_is_not_shown(token: Any) -> None:
    with pytest.raises(ValueError, match=r"^the token must be a string$"):
        Auth(token)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (log("x"), "type"),
        (log("x"), "plist"),
        (Hello("1"), "version"),
        (Auth("x"), "token"),
        (HealthResponse(Health.HEALTHY, True), "status"),
    ],
)
def test_messages_are_frozen(message: Any, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(message, name, None)
