"""What a Passepartout peer can send that is no message: the exact reason, the exact reply, nothing else.

Only broken framing ends a connection; after everything else it goes on as if nothing had come.
"""

import gc
from collections.abc import Callable

import pytest

from fairlead.formats.sexp import Keyword
from fairlead.wire.faults import Broken
from fairlead.wire.passepartout import (
    ClientConnection,
    HealthCheck,
    Hello,
    Invalid,
    Message,
    ServerConnection,
    State,
    log,
)
from tests.wire.passepartout_frames import framed

CHECK = framed("(:TYPE :HEALTH-CHECK)")
HELLO = framed('(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE :VERSION "1" :CAPABILITIES (:AUTH)))')


def daemon(proven: bool = True) -> ServerConnection:
    connection = ServerConnection(proven=proven, is_token=lambda token: token == "sesame")
    connection.send(Hello("1"))
    return connection


def client() -> ClientConnection:
    connection = ClientConnection()
    assert connection.receive(HELLO) == [Hello("1", ("AUTH",))]
    return connection


def logged(reason: str) -> bytes:
    """The reply that says a reason, made without the code under test."""
    escaped = reason.replace("\\", "\\\\").replace('"', '\\"')
    return framed(f'(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "{escaped}"))')


NO_PLIST = "Message must be a plist"


def of_type(shown: str) -> str:
    return f"Invalid message type {shown}; expected one of REQUEST, EVENT, RESPONSE, LOG, STATUS"


def macro(shown: str, place: str = "(line 1, column 1)") -> str:
    return f"the reader macro {shown} is not read; only #\\ #( and #| are {place}"


BAD = {
    # nothing, or more than one form
    "": "expected one form, found none (line 1, column 1)",
    " \n": "expected one form, found none (line 1, column 1)",
    "; only a comment": "expected one form, found none (line 1, column 1)",
    "(:TYPE :EVENT) 5": "expected one form, found 2 (line 1, column 1)",
    "(:TYPE :EVENT)(:TYPE :EVENT)": "expected one form, found 2 (line 1, column 1)",
    ":TYPE :EVENT": "expected one form, found 2 (line 1, column 1)",
    # values that are no plists; the first two are what the real reader returns for itself
    ":EOF": NO_PLIST,
    ":ERROR": NO_PLIST,
    "T": NO_PLIST,
    "5": NO_PLIST,
    "1.5": NO_PLIST,
    '"str"': NO_PLIST,
    "#\\a": NO_PLIST,
    "EVENT": NO_PLIST,
    "#(:TYPE :EVENT)": NO_PLIST,
    "(:TYPE)": NO_PLIST,
    "(:TYPE :EVENT :X)": NO_PLIST,
    "(:TYPE . :EVENT)": NO_PLIST,
    "(:TYPE :EVENT . 5)": NO_PLIST,
    "(TYPE :EVENT)": NO_PLIST,
    '("TYPE" :EVENT)': NO_PLIST,
    "(:TYPE :EVENT 1 2)": NO_PLIST,
    "'(:TYPE :EVENT)": NO_PLIST,
    # plists without a type that is known
    "NIL": of_type("'NIL'"),
    "()": of_type("'NIL'"),
    "(:PAYLOAD (:TYPE :EVENT))": of_type("'NIL'"),
    "(:TYPE NIL)": of_type("'NIL'"),
    "(:TYPE T)": of_type("'T'"),
    "(:TYPE :PING)": of_type("':PING'"),
    "(:TYPE :EVENTS)": of_type("':EVENTS'"),
    "(:TYPE :HEALTH-RESPONSE)": of_type("':HEALTH-RESPONSE'"),
    "(:TYPE :|EVENT |)": of_type("':|EVENT |'"),
    "(:TYPE EVENT)": of_type("'EVENT'"),
    '(:TYPE "EVENT")': of_type("'\"EVENT\"'"),
    "(:TYPE 5)": of_type("'5'"),
    "(:TYPE 1/2)": of_type("'1/2'"),
    "(:TYPE 1.5d0)": of_type("'1.5d0'"),
    "(:TYPE #\\a)": of_type("'#\\\\a'"),
    "(:TYPE (:EVENT))": of_type("'a list'"),
    "(:TYPE #(:EVENT))": of_type("'a list'"),
    "(:TYPE (:EVENT . 1))": of_type("'a list'"),
    '(:TYPE "a\n\x1b[1m")': of_type("'\"a\\n\\x1b[1m\"'"),
    f"(:TYPE :{'X' * 100})": of_type(f"':{'X' * 63}'"),
    # what is no S-expression
    "(:TYPE :EVENT": "the text ends before a list is closed (line 1, column 14)",
    "(:TYPE :EVENT))": ") without its opening partner (line 1, column 15)",
    '(:TYPE :EVENT :TEXT "x)': "a string without its closing quote (line 1, column 21)",
    "(:TYPE :EVENT . 1 2)": "a dot must stand before the last form of a list (line 1, column 15)",
    "(:TYPE :EVENT :X 1/0)": "invalid number '1/0' (line 1, column 18)",
    "(:TYPE :EVENT :X 1.0d400)": "invalid number '1.0d400' (line 1, column 18)",
    "(:TYPE :EVENT :X :)": "a colon in the wrong place in ':' (line 1, column 18)",
    "(:TYPE :EVENT\n :X é:b)": (
        "unknown package in 'é:b'; expected one of COMMON-LISP, CL, SB-EXT, PASSEPARTOUT (line 2, column 5)"
    ),
    # reader macros
    "#.(sb-ext:exit)": macro("'#.('"),
    "(:TYPE :EVENT\n :X #.(sb-ext:exit))": macro("'#.('", "(line 2, column 5)"),
    "#1=(:TYPE :EVENT . #1#)": macro("'#1='"),
    "#1#": macro("'#1#'"),
    "#1000000(0)": macro("'#10'"),
    "#S(A)": macro("'#S('"),
    "#*101": macro("'#*1'"),
    "#'CAR": macro('"#\'C"'),
    '#P"x"': macro("'#P\"'"),
    "#+SBCL 5": macro("'#+S'"),
    "#xFF": macro("'#xF'"),
    "#<A>": macro("'#<A'"),
    "`(:TYPE ,X)": "'`' is not read: backquote and comma have no place in data (line 1, column 1)",
    # too much
    "(" * 20_000: "lists nest deeper than 256 (line 1, column 257)",
    "(" * 20_000 + ")" * 20_000: "lists nest deeper than 256 (line 1, column 257)",
    "'" * 20_000 + "A": "lists and quotes nest deeper than 256 (line 1, column 1)",
    "(:TYPE :EVENT :X " + "'" * 256 + "A)": "lists and quotes nest deeper than 256 (line 1, column 1)",
    f"(:TYPE :EVENT :N {'1' * 1_000_000})": (
        "a number of 1000000 characters; at most 4096 are allowed (line 1, column 18)"
    ),
    f"({'1 ' * 1_000_000})": "more than 1000000 atoms and brackets (line 1, column 1)",
}
FOR_A_CLIENT = {text: reason for text, reason in BAD.items() if text != "(:TYPE :HEALTH-RESPONSE)"}


def shortened(value: str) -> str:
    return f"{value[:40]!a} of {len(value)}" if value in BAD else ""


@pytest.mark.parametrize(("text", "reason"), BAD.items(), ids=shortened)
def test_a_daemon_says_what_is_wrong_and_goes_on(text: str, reason: str) -> None:
    connection = daemon()
    bad = Invalid(reason, logged(reason))
    assert connection.receive(framed(text)) == [bad]
    assert (connection.state, connection.proven) == (State.GREETED, True)
    assert connection.receive(CHECK + framed(text) + CHECK) == [HealthCheck(), bad, HealthCheck()]
    assert connection.end() is None


@pytest.mark.parametrize(("text", "reason"), FOR_A_CLIENT.items(), ids=shortened)
def test_a_client_says_nothing_and_goes_on(text: str, reason: str) -> None:
    connection = client()
    said = framed('(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "x"))')
    assert connection.receive(said + framed(text) + said) == [log("x"), Invalid(reason, b""), log("x")]
    assert connection.state is State.GREETED


@pytest.mark.parametrize("text", BAD, ids=shortened)
def test_a_daemon_that_begins_with_anything_but_a_hello_is_broken(text: str) -> None:
    connection = ClientConnection()
    assert connection.receive(framed(text) + HELLO) == [Broken("a daemon must begin with a HELLO")]
    assert connection.state is State.CLOSED


def test_the_reply_is_a_log_byte_for_byte() -> None:
    [invalid] = daemon().receive(b"000004:EOF")
    assert isinstance(invalid, Invalid)
    assert invalid.reply == b'000045(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "Message must be a plist"))'
    [invalid] = daemon().receive(b'00000F(:TYPE "EVENT")')
    assert isinstance(invalid, Invalid)
    assert invalid.reply == (
        b'000085(:TYPE :LOG :PAYLOAD (:LEVEL :ERROR :TEXT "Invalid message type \'\\"EVENT\\"\'; '
        b'expected one of REQUEST, EVENT, RESPONSE, LOG, STATUS"))'
    )


def test_a_client_reads_the_reply_to_what_it_sent() -> None:
    for text, reason in BAD.items():
        [invalid] = daemon().receive(framed(text))
        assert isinstance(invalid, Invalid)
        assert client().receive(invalid.reply) == [log(reason)]


def test_many_keywords_are_a_message_and_nothing_of_them_stays() -> None:
    known = Keyword._known
    text = f"(:TYPE :EVENT {' '.join(f':UNIQUE-{number} {number}' for number in range(100_000))})"
    gc.collect()
    before = len(known)
    [message] = daemon().receive(framed(text))
    assert isinstance(message, Message)
    assert message.get("unique-99999") == 99_999
    assert len(known) >= before + 95_000
    del message
    gc.collect()
    assert len(known) <= before + 5_000  # the reader remembers some of the last


# --- broken frames ----------------------------------------------------------------------------------------

BROKEN = {
    b"GET / HTTP/1.1\r\n": "a frame must begin with six hex digits, not 'G'",
    b"+00003NIL": "a frame must begin with six hex digits, not '+'",
    b"001001": "a frame of 4097 characters; at most 4096 are allowed",
    b"FFFFFF": "a frame of 16777215 characters; at most 4096 are allowed",
    b"000003\xff": "invalid UTF-8: invalid start byte",
    b" " * 4097: "more than 4096 blanks before a frame",
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.items())
def test_broken_framing_closes_a_daemon_after_what_came_before(data: bytes, reason: str) -> None:
    connection = daemon(proven=False)
    assert connection.receive(CHECK + data + CHECK) == [HealthCheck(), Broken(reason, logged(reason))]
    assert connection.state is State.CLOSED
    assert connection.receive(CHECK) == []
    assert connection.end() is None


@pytest.mark.parametrize(("data", "reason"), BROKEN.items())
def test_broken_framing_closes_a_client_which_sends_nothing(data: bytes, reason: str) -> None:
    connection = ClientConnection(max_characters=4096)
    assert connection.receive(HELLO + data + HELLO) == [Hello("1", ("AUTH",)), Broken(reason)]
    assert connection.state is State.CLOSED
    assert connection.receive(HELLO) == []
    assert connection.end() is None


def test_a_proven_client_may_send_any_frame_that_a_header_can_announce() -> None:
    connection = daemon()
    assert connection.receive(b"FFFFFF(") == []
    assert connection.end() == Broken("the stream ended with 16777214 characters of a frame missing")
    assert connection.state is State.CLOSED
    assert connection.end() is None


@pytest.mark.parametrize("make", [daemon, client])
@pytest.mark.parametrize(
    ("came", "broken"),
    [
        (b"", None),
        (b"\n", None),
        (b"0000", None),
        (b"000003N", Broken("the stream ended with 2 characters of a frame missing")),
    ],
)
def test_a_peer_may_stop_in_a_header_but_not_in_a_body(
    make: Callable[[], ServerConnection | ClientConnection], came: bytes, broken: Broken | None
) -> None:
    connection = make()
    assert connection.receive(came) == []
    assert connection.end() == broken
    assert connection.state is State.CLOSED
