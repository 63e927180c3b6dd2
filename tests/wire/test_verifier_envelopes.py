"""The verifier's envelopes: the seed's examples, JavaScript's bytes, and what can't be made."""

from typing import Any

import pytest
from hypothesis import given

from fairlead.wire.verifier import (
    CONFIDENCE_OF,
    Bye,
    Envelope,
    Event,
    Hello,
    HelloAck,
    Ping,
    Pong,
    Prompt,
    PromptAck,
    Report,
    decode,
)
from tests.wire.verifier_examples import EXAMPLES, envelopes

# --- the seed's examples -----------------------------------------------------------------------------------

ROUND_TRIPS: list[tuple[str, Envelope]] = [
    (
        '{"type":"hello","role":"verifier","sessionId":"a1b2","pid":4242}',
        Hello(role="verifier", session_id="a1b2", pid=4242),
    ),
    (
        '{"type":"event","name":"stop","sessionId":"a1b2","turnIndex":3,"timestamp":1714312800000}',
        Event(name="stop", session_id="a1b2", turn_index=3, timestamp=1714312800000),
    ),
    (
        '{"type":"prompt","sessionId":"a1b2","message":"Add NOT NULL to email","correlationId":"c-1"}',
        Prompt(session_id="a1b2", message="Add NOT NULL to email", correlation_id="c-1"),
    ),
    (
        '{"type":"event","name":"error","sessionId":"a1b2","detail":"tool execute failed",'
        '"timestamp":1714312800123}',
        Event(name="error", session_id="a1b2", detail="tool execute failed", timestamp=1714312800123),
    ),
]


@pytest.mark.parametrize(("line", "envelope"), ROUND_TRIPS)
def test_the_seeds_examples_survive_a_round_trip(line: str, envelope: Envelope) -> None:
    assert decode(line.encode()) == envelope
    assert envelope.encode() == line.encode() + b"\n"


def test_the_seeds_report_is_read_and_gets_the_confidence_that_it_lacks() -> None:
    line = (
        r'{"type":"report","sessionId":"a1b2","turnIndex":3,"status":"verified",'
        r'"summary":"schema ok","sections":{"verified":"- users: PASS"},"raw":"## Report\n..."}'
    )
    report = Report(
        session_id="a1b2",
        turn_index=3,
        status="verified",
        confidence="verified",
        summary="schema ok",
        sections={"verified": "- users: PASS"},
        raw="## Report\n...",
    )
    assert decode(line.encode()) == report
    assert report.encode().decode() == line.replace('"summary"', '"confidence":"verified","summary"') + "\n"


@pytest.mark.parametrize(
    ("text", "on_the_wire"),
    [
        ("line1\nline2", rb"line1\nline2"),
        ("a\u2028b\u2029c", b"a\xe2\x80\xa8b\xe2\x80\xa9c"),
        ('say "no"', rb"say \"no\""),
        ("\0", rb"\u0000"),
        ("x" * 5_000_000, b"x" * 5_000_000),
    ],
    ids=["escaped newline", "U+2028 and U+2029", "quotes", "null", "megabytes"],
)
def test_special_characters_do_not_corrupt_the_frame(text: str, on_the_wire: bytes) -> None:
    prompt = Prompt(session_id="s", message=text, correlation_id="c")
    line = prompt.encode()
    assert line == (
        b'{"type":"prompt","sessionId":"s","message":"' + on_the_wire + b'","correlationId":"c"}\n'
    )
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == prompt


# --- what JavaScript writes --------------------------------------------------------------------------------

# Printed by JSON.stringify of Node 20.
STRINGIFIED: list[tuple[Envelope, bytes]] = [
    (
        Hello(role="verifiable", session_id="é", pid=0),
        b'{"type":"hello","role":"verifiable","sessionId":"\xc3\xa9","pid":0}',
    ),
    (HelloAck(session_id="a1b2"), b'{"type":"hello_ack","sessionId":"a1b2"}'),
    (
        Prompt(session_id="a1b2", message="line1\nline2\r\t\b\f", deliver_as="steer", correlation_id="c-2"),
        rb'{"type":"prompt","sessionId":"a1b2","message":"line1\nline2\r\t\b\f","deliverAs":"steer",'
        rb'"correlationId":"c-2"}',
    ),
    (
        PromptAck(session_id="a1b2", correlation_id="c-1", ok=True),
        b'{"type":"prompt_ack","sessionId":"a1b2","correlationId":"c-1","ok":true}',
    ),
    (
        PromptAck(session_id="a1b2", correlation_id="c-1", ok=False, error="max loops exceeded"),
        b'{"type":"prompt_ack","sessionId":"a1b2","correlationId":"c-1","ok":false,'
        b'"error":"max loops exceeded"}',
    ),
    (
        Report(
            session_id="a1b2",
            turn_index=3,
            status="verified",
            confidence="perfect",
            summary="schema ok",
            sections={"verified": "- users: PASS"},
            raw="## Report\n...",
        ),
        b'{"type":"report","sessionId":"a1b2","turnIndex":3,"status":"verified","confidence":"perfect",'
        rb'"summary":"schema ok","sections":{"verified":"- users: PASS"},"raw":"## Report\n..."}',
    ),
    (
        Report(session_id="a1b2", turn_index=0, status="unsure", summary="", sections={}, raw=""),
        b'{"type":"report","sessionId":"a1b2","turnIndex":0,"status":"unsure","confidence":"failed",'
        b'"summary":"","sections":{},"raw":""}',
    ),
    (
        Event(
            name="start",
            session_id="a1b2",
            turn_index=3,
            timestamp=1714312800000,
            user_prompt="do it",
            session_file_start_line=1,
        ),
        b'{"type":"event","name":"start","sessionId":"a1b2","turnIndex":3,"timestamp":1714312800000,'
        b'"userPrompt":"do it","sessionFileStartLine":1}',
    ),
    (
        Event(
            name="stop",
            session_id="a1b2",
            turn_index=3,
            timestamp=1714312800000.0,
            user_prompt='do "it"',
            session_file_start_line=1,
            session_file_end_line=12,
        ),
        b'{"type":"event","name":"stop","sessionId":"a1b2","turnIndex":3,"timestamp":1714312800000,'
        rb'"userPrompt":"do \"it\"","sessionFileStartLine":1,"sessionFileEndLine":12}',
    ),
    (
        Event(name="error", session_id="a1b2", detail="tool execute failed", timestamp=1714312800123.25),
        b'{"type":"event","name":"error","sessionId":"a1b2","detail":"tool execute failed",'
        b'"timestamp":1714312800123.25}',
    ),
    (Ping(nonce="\0\x01\x1f\x7f\x80"), b'{"type":"ping","nonce":"\\u0000\\u0001\\u001f\x7f\xc2\x80"}'),
    (
        Pong(nonce="\u2028\u2029\x85\ufeff"),
        b'{"type":"pong","nonce":"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\xef\xbb\xbf"}',
    ),
    (Ping(nonce="\"\\/'<>&"), rb'{"type":"ping","nonce":"\"\\/' + b"'" + rb'<>&"}'),
    (
        Ping(nonce="é 日本 😀 \U0010ffff"),
        b'{"type":"ping","nonce":"\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"}',
    ),
    (Bye(reason="session_shutdown"), b'{"type":"bye","reason":"session_shutdown"}'),
    # halves of surrogate pairs
    (Ping(nonce="é\ud83d\u2028"), b'{"type":"ping","nonce":"\xc3\xa9\\ud83d\xe2\x80\xa8"}'),
    (Ping(nonce="\udc00\ud800"), rb'{"type":"ping","nonce":"\udc00\ud800"}'),
    (Ping(nonce="😀\ude00"), b'{"type":"ping","nonce":"\xf0\x9f\x98\x80\\ude00"}'),
]


@pytest.mark.parametrize(("envelope", "line"), STRINGIFIED, ids=lambda value: ascii(value)[:60])
def test_an_envelope_has_the_bytes_that_javascript_gives_it(envelope: Envelope, line: bytes) -> None:
    assert envelope.encode() == line + b"\n"
    assert decode(line) == envelope


@given(envelopes)
def test_any_envelope_is_one_line_that_reads_back_as_itself(envelope: Envelope) -> None:
    line = envelope.encode()
    assert line.index(b"\n") == len(line) - 1
    assert decode(line[:-1]) == envelope


@pytest.mark.parametrize(
    ("line", "envelope"),
    [
        (rb'{"type":"ping","nonce":"\ud83d\ude00"}', Ping(nonce="😀")),
        (rb'{"type":"ping","nonce":"\u00e9\/"}', Ping(nonce="é/")),
        (b'{"nonce":"1","type":"ping"}', Ping(nonce="1")),
        (b' { "type" : "ping" , "nonce" : "1" } \r', Ping(nonce="1")),
        (b'{"type":"ping","nonce":"1","more":[{}]}', Ping(nonce="1")),
        (b'{"type":"prompt_ack","sessionId":"s","correlationId":"c","ok":true,"error":null}',
         PromptAck(session_id="s", correlation_id="c", ok=True)),
        (b'{"type":"event","name":"stop","sessionId":"s","timestamp":5.0}',
         Event(name="stop", session_id="s", timestamp=5)),
    ],
)  # fmt: skip
def test_an_envelope_may_be_written_in_any_way_that_json_allows(line: bytes, envelope: Envelope) -> None:
    assert decode(line) == envelope


# --- what can't be -----------------------------------------------------------------------------------------

REPORT: dict[str, Any] = {
    "session_id": "s",
    "turn_index": 1,
    "status": "verified",
    "summary": "",
    "sections": {},
    "raw": "",
}
EVENT: dict[str, Any] = {"name": "stop", "session_id": "s", "timestamp": 1}
PROMPT: dict[str, Any] = {"session_id": "s", "message": "m", "correlation_id": "c"}


@pytest.mark.parametrize(
    ("make", "fields", "text"),
    [
        (Hello, {"role": "builder", "session_id": "s", "pid": 1},
         "role of a Hello must be 'verifier' or 'verifiable', not 'builder'"),
        (Hello, {"role": "verifier", "session_id": 5, "pid": 1}, "session_id of a Hello must be str, not 5"),
        (Hello, {"role": "verifier", "session_id": "s", "pid": True}, "pid of a Hello must be int, not True"),
        (Hello, {"role": "verifier", "session_id": "s", "pid": 1.5}, "pid of a Hello must be int, not 1.5"),
        (HelloAck, {"session_id": None}, "session_id of a HelloAck must be str, not None"),
        (Prompt, PROMPT | {"message": b"m"}, "message of a Prompt must be str, not b'm'"),
        (Prompt, PROMPT | {"deliver_as": "later"},
         "deliver_as of a Prompt must be None or 'followUp' or 'steer', not 'later'"),
        (PromptAck, {"session_id": "s", "correlation_id": "c", "ok": 1},
         "ok of a PromptAck must be bool, not 1"),
        (PromptAck, {"session_id": "s", "correlation_id": "c", "ok": True, "error": 5},
         "error of a PromptAck must be str | None, not 5"),
        (Report, REPORT | {"status": "pending"},
         "status of a Report must be 'verified' or 'failed' or 'unsure', not 'pending'"),
        (Report, REPORT | {"confidence": "high"},
         "confidence of a Report must be None or 'perfect' or 'verified' or 'partial' or 'feedback'"
         " or 'failed', not 'high'"),
        (Report, REPORT | {"turn_index": "1"}, "turn_index of a Report must be int, not '1'"),
        (Report, REPORT | {"sections": []}, "sections of a Report must be dict, not []"),
        (Report, REPORT | {"sections": {"a": 1}},
         "sections of a Report must be texts by their titles, not 'a': 1"),
        (Report, REPORT | {"sections": {1: "a"}},
         "sections of a Report must be texts by their titles, not 1: 'a'"),
        (Event, EVENT | {"name": "pause"},
         "name of a Event must be 'start' or 'stop' or 'error', not 'pause'"),
        (Event, EVENT | {"timestamp": "now"}, "timestamp of a Event must be int | float, not 'now'"),
        (Event, EVENT | {"timestamp": float("nan")}, "timestamp of an Event must be finite, not nan"),
        (Event, EVENT | {"timestamp": float("inf")}, "timestamp of an Event must be finite, not inf"),
        (Event, EVENT | {"turn_index": 1.0}, "turn_index of a Event must be int | None, not 1.0"),
        (Event, EVENT | {"session_file_end_line": "9"},
         "session_file_end_line of a Event must be int | None, not '9'"),
        (Ping, {"nonce": 1}, "nonce of a Ping must be str, not 1"),
        (Pong, {"nonce": 1}, "nonce of a Pong must be str, not 1"),
        (Bye, {"reason": None}, "reason of a Bye must be str, not None"),
    ],
)  # fmt: skip
def test_an_invalid_envelope_cannot_be_made(make: type[Any], fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="must be") as raised:
        make(**fields)
    assert str(raised.value) == text


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_envelope_cannot_be_changed(kind: str) -> None:
    envelope = EXAMPLES[kind]
    before = envelope.encode()
    for name in envelope.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(envelope, name, "x")
    assert envelope.encode() == before


@pytest.mark.parametrize(("status", "confidence"), CONFIDENCE_OF.items())
def test_a_report_without_a_confidence_has_that_of_its_status(status: str, confidence: str) -> None:
    assert Report(**(REPORT | {"status": status})).confidence == confidence
    assert Report(**(REPORT | {"status": status, "confidence": "partial"})).confidence == "partial"


def test_the_repr_of_an_envelope_is_short() -> None:
    assert repr(Ping(nonce="1")) == "Ping(nonce='1')"
    assert len(repr(Prompt(session_id="s", message="x" * 10_000, correlation_id="c"))) < 300
