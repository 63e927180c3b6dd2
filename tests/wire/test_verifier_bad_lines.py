"""Lines that are no envelope, and envelopes whose fields are wrong."""

import json
from typing import Any

import pytest

from fairlead.wire.faults import Broken
from fairlead.wire.verifier import Malformed, decode
from tests.wire.verifier_examples import EXAMPLES

TYPES = "hello, hello_ack, prompt, prompt_ack, report, event, ping, pong, bye"
NO_TYPE = 'an envelope must be an object with a "type"; got '
DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "not JSON: Expecting value: line 1 column 1 (char 0); got 'nonsense'"),
        (b" ", "not JSON: Expecting value: line 1 column 2 (char 1); got ' '"),
        (b"\r", "not JSON: Expecting value: line 1 column 2 (char 1); got '\\r'"),
        (
            b'{"type":"ping"',
            "not JSON: Expecting ',' delimiter: line 1 column 15 (char 14); got '{\"type\":\"ping\"'",
        ),
        (
            b'{"type":"ping","nonce":"1"} {}',
            "not JSON: Extra data: line 1 column 29 (char 28); got '{\"type\":\"ping\",\"nonce\":\"1\"} {}'",
        ),
        (b"{'type':'ping'}", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2"
         " (char 1); got \"{'type':'ping'}\""),
        (b'{"a":"\t"}', "not JSON: Invalid control character at: line 1 column 7 (char 6);"
         " got '{\"a\":\"\\t\"}'"),
        (b'{"type":"x","x":NaN}', "not JSON: NaN is not a JSON value; got '{\"type\":\"x\",\"x\":NaN}'"),
        (b"-Infinity", "not JSON: -Infinity is not a JSON value; got '-Infinity'"),
        (b'"\xff"', "not JSON: 'utf-8' codec can't decode byte 0xff in position 1: invalid start byte;"
         " got '\"\ufffd\"'"),
        (b'"\xed\xa0\x80"', "not JSON: 'utf-8' codec can't decode byte 0xed in position 1: invalid"
         " continuation byte; got '\"\ufffd\ufffd\ufffd\"'"),
        (b'\xef\xbb\xbf{"type":"ping","nonce":"1"}', "not JSON: Unexpected UTF-8 BOM (decode using"
         " utf-8-sig): line 1 column 1 (char 0); got '\\ufeff{\"type\":\"ping\",\"nonce\":\"1\"}'"),
        ('{"a":1}'.encode("utf-16-le"), "not JSON: Expecting property name enclosed in double quotes: line 1"
         " column 2 (char 1); got '{\\x00\"\\x00a\\x00\"\\x00:\\x001\\x00}\\x00'"),
        (b"x" * 201, "not JSON: Expecting value: line 1 column 1 (char 0); got '" + "x" * 200
         + "'…(+1 bytes)"),
        (b"[]", NO_TYPE + "'[]'"),
        (b"null", NO_TYPE + "'null'"),
        (b"5", NO_TYPE + "'5'"),
        (b'"ping"', NO_TYPE + "'\"ping\"'"),
        (b"{}", NO_TYPE + "'{}'"),
        (b'{"Type":"ping"}', NO_TYPE + "'{\"Type\":\"ping\"}'"),
        (b'{"type":null}', f"unknown envelope type None; expected one of {TYPES}"),
        (b'{"type":5}', f"unknown envelope type 5; expected one of {TYPES}"),
        (b'{"type":["ping"]}', f"unknown envelope type ['ping']; expected one of {TYPES}"),
        (b'{"type":""}', f"unknown envelope type ''; expected one of {TYPES}"),
        (b'{"type":"Ping","nonce":"1"}', f"unknown envelope type 'Ping'; expected one of {TYPES}"),
        (b'{"type":"escalate"}', f"unknown envelope type 'escalate'; expected one of {TYPES}"),
        (b'{"type":"\\ud800"}', f"unknown envelope type '\\ud800'; expected one of {TYPES}"),
        (b'{"type":"' + b"x" * 500 + b'"}', f"unknown envelope type '{'x' * 199}; expected one of {TYPES}"),
    ],
    ids=lambda value: ascii(value)[:50],
)  # fmt: skip
def test_a_line_that_is_no_envelope_is_broken(line: bytes, reason: str) -> None:
    assert decode(line) == Broken(reason)


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        b'{"type":' + DEEP,
        b'{"type":"ping","nonce":' + DEEP + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        *(b'{"type":' + b"[" * depth + b"]" * depth + b"}" for depth in (100, 300, 600, 900, 990)),
    ],
    ids=lambda value: f"{value[:24]!r} of {len(value)}",
)
def test_no_nesting_ends_the_program(line: bytes) -> None:
    broken = decode(line)
    assert isinstance(broken, Broken)
    assert len(broken.reason) < 500


MISSING = {
    "hello": ["role", "sessionId", "pid"],
    "hello_ack": ["sessionId"],
    "prompt": ["sessionId", "message", "correlationId"],
    "prompt_ack": ["sessionId", "correlationId", "ok"],
    "report": ["sessionId", "turnIndex", "status", "summary", "sections", "raw"],
    "event": ["name", "sessionId", "timestamp"],
    "ping": ["nonce"],
    "pong": ["nonce"],
    "bye": ["reason"],
}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in MISSING for field in MISSING[kind]])
def test_an_envelope_without_a_field_is_malformed(kind: str, field: str) -> None:
    raw = json.loads(EXAMPLES[kind].encode())
    del raw[field]
    reason = f"{kind}: Object missing required field `{field}`"
    assert decode(json.dumps(raw).encode()) == Malformed(kind, reason, raw)


@pytest.mark.parametrize(
    ("kind", "field", "value", "fault"),
    [
        ("hello", "role", "builder", "Invalid enum value 'builder' - at `$.role`"),
        ("hello", "pid", "4242", "Expected `int`, got `str` - at `$.pid`"),
        ("hello", "pid", 1.5, "Expected `int`, got `float` - at `$.pid`"),
        ("hello", "sessionId", None, "Expected `str`, got `null` - at `$.sessionId`"),
        ("prompt", "message", 5, "Expected `str`, got `int` - at `$.message`"),
        ("prompt", "deliverAs", "later", "Invalid enum value 'later' - at `$.deliverAs`"),
        ("prompt", "deliverAs", 5, "Expected `str | null`, got `int` - at `$.deliverAs`"),
        ("prompt_ack", "ok", 1, "Expected `bool`, got `int` - at `$.ok`"),
        ("report", "status", "pending", "Invalid enum value 'pending' - at `$.status`"),
        ("report", "sections", [], "Expected `object`, got `array` - at `$.sections`"),
        ("report", "sections", {"a": 1}, "Expected `str`, got `int` - at `$.sections[...]`"),
        ("event", "name", "pause", "Invalid enum value 'pause' - at `$.name`"),
        ("event", "timestamp", "now", "Expected `int | float`, got `str` - at `$.timestamp`"),
        ("event", "turnIndex", True, "Expected `int | null`, got `bool` - at `$.turnIndex`"),
        ("ping", "nonce", {"a": [1]}, "Expected `str`, got `object` - at `$.nonce`"),
    ],
)
def test_an_envelope_with_a_wrong_field_is_malformed(kind: str, field: str, value: Any, fault: str) -> None:
    raw = json.loads(EXAMPLES[kind].encode()) | {field: value}
    assert decode(json.dumps(raw).encode()) == Malformed(kind, f"{kind}: {fault}", raw)


def test_a_number_beyond_all_numbers_is_no_time() -> None:
    malformed = decode(b'{"type":"event","name":"stop","sessionId":"s","timestamp":1e400}')
    assert isinstance(malformed, Malformed)
    assert malformed.reason == "event: timestamp of an Event must be finite, not inf"
