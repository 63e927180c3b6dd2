"""JSON-RPC 2.0, one message a line: envelopes, errors, and what is wrong with a line that has no envelope.

`params`, `result` and `error` stay raw here: the protocols on top of it know their types. Halves of surrogate
pairs, which JavaScript writes when it cuts a text between them, are read and written as U+FFFD. Batches are
refused: the protocols have none.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from itertools import accumulate
from typing import Any

import msgspec

from ..formats.halves import encodable

MAX_DEPTH = 100
"""How deeply arrays and objects may be nested in a line."""
MAX_ID = 1024
"""How many characters an id may have: of a request, a session, an option."""
MAX_REASON = 300
"""How many characters of a fault's reason are kept; it may quote the peer."""

Id = int | str
"""A request's id. Ours are numbers."""


class ErrorCode(IntEnum):
    """The codes of JSON-RPC and of its protocols; a peer may use others."""

    PARSE = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL = -32603
    CANCELLED = -32800
    AUTH_REQUIRED = -32000
    NOT_FOUND = -32002
    """A session or a file that does not exist."""
    UNREADABLE = -32098
    """Ours, never sent: the peer answered, but the answer can't be used."""


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed."""

    code: int
    message: str
    data: Any = None


class JsonRpcFault(msgspec.Struct, frozen=True):
    """A line that is no message, with what could be read of its envelope."""

    code: ErrorCode
    reason: str
    id: Id | None = None
    is_answer: bool = False
    """True if it was to answer our request `id`; else the id, if there is one, is that of a request."""


class Envelope(msgspec.Struct):
    """A message: a request has `method` and `id`, a notification a method alone, an answer an id alone."""

    jsonrpc: Any = None
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


# --- reading ----------------------------------------------------------------------------------------------

_NULL = b"null"
_DECODER = msgspec.json.Decoder(Envelope)
_INT64 = range(-(2**63), 2**63)
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)", re.DOTALL)
_HALF_BYTES = 6  # of an escape such as \ud83d
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))
_MEMBER = re.compile(rb'\s*[{,]\s*"(jsonrpc|id|method)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*(?=,)', re.DOTALL)
_OUTCOME = re.compile(rb'\s*[{,]\s*"(?:result|error)"\s*:')


def decode(line: bytes) -> Envelope | JsonRpcFault:
    """The envelope on a line that is not empty."""
    if is_too_deep(line):
        return fault_of(line, ErrorCode.INVALID_REQUEST, f"nested more than {MAX_DEPTH} deep")
    try:
        envelope = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        whole = without_halves(line)
        return decode(whole) if whole != line else _explained(line, fault)
    reason = _fault_in(envelope)
    if reason is None:
        return envelope
    known = envelope.id if is_id(envelope.id) else None
    return JsonRpcFault(ErrorCode.INVALID_REQUEST, reason, known, envelope.method is msgspec.UNSET)


def _fault_in(envelope: Envelope) -> str | None:
    """What is wrong with an envelope's members. The version of an answer is not looked at."""
    if envelope.method is msgspec.UNSET:
        return _fault_in_answer(envelope)
    if not isinstance(envelope.method, str):
        return f"method must be a string, not {envelope.method!r:.100}"
    if envelope.id is not msgspec.UNSET and not is_id(envelope.id):
        return f"id must be a number or a string of at most {MAX_ID} characters, not {envelope.id!r:.100}"
    if envelope.jsonrpc != "2.0":
        return f'jsonrpc must be "2.0", not {envelope.jsonrpc!r:.100}'
    return None


def _fault_in_answer(envelope: Envelope) -> str | None:
    if envelope.error and bytes(envelope.error) == _NULL:
        envelope.error = msgspec.Raw()
    if envelope.error and envelope.result and bytes(envelope.result) == _NULL:
        envelope.result = msgspec.Raw()
    if envelope.id is msgspec.UNSET or bool(envelope.result) == bool(envelope.error):
        return "a message must have a method, or an id and either a result or an error"
    if not is_id(envelope.id) and not (envelope.id is None and envelope.error):
        return f"an answer's id must be that of a request, not {envelope.id!r:.100}"
    return None


def is_id(value: object) -> bool:
    """True if a request can have this id."""
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return type(value) is int and value in _INT64


def _explained(line: bytes, fault: Exception) -> JsonRpcFault:
    """What is wrong with a line that has no envelope."""
    if line.lstrip().startswith(b"["):
        return JsonRpcFault(ErrorCode.INVALID_REQUEST, "a batch; send one message a line")
    if isinstance(fault, msgspec.ValidationError):
        return fault_of(line, ErrorCode.INVALID_REQUEST, f"not a message: {fault}; got {line[:80]!r}")
    return fault_of(line, ErrorCode.PARSE, f"not JSON: {fault}; got {line[:80]!r}")


def fault_of(line: bytes, code: ErrorCode, reason: str) -> JsonRpcFault:
    """A fault, with the id that the beginning of the line shows, if it does."""
    known: dict[bytes, Any] = {}
    at = 0
    while match := _MEMBER.match(line, at):
        try:
            known[match[1]] = msgspec.json.decode(match[2])
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        at = match.end()
    is_answer = b"method" not in known and _OUTCOME.match(line, at) is not None
    id_ = known.get(b"id")
    if not is_id(id_) or not (is_answer or b"method" in known):
        return JsonRpcFault(code, reason[:MAX_REASON])
    return JsonRpcFault(code, reason[:MAX_REASON], id_, is_answer)


def is_too_deep(line: bytes) -> bool:
    """True if arrays and objects are nested too deeply."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _STRING.sub(b"", line).translate(None, _NO_BRACKETS)
    return any(map(MAX_DEPTH.__lt__, accumulate(map(_STEPS.__getitem__, brackets))))


def without_halves(line: bytes) -> bytes:
    """The line with U+FFFD for each escaped half of a surrogate pair that stands alone."""
    return _ESCAPE.sub(lambda each: rb"\ufffd" if len(each[0]) == _HALF_BYTES else each[0], line)


# --- writing ----------------------------------------------------------------------------------------------


class _Call(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: Id | msgspec.UnsetType
    method: str
    params: Any


class _Answer(msgspec.Struct):
    jsonrpc: str
    id: Id | None
    result: Any = msgspec.UNSET
    error: Error | msgspec.UnsetType = msgspec.UNSET


def request(id: Id, method: str, params: Any) -> bytes:
    """The line of a request."""
    return _line(_Call("2.0", id, method, params))


def notification(method: str, params: Any) -> bytes:
    """The line of a notification."""
    return _line(_Call("2.0", msgspec.UNSET, method, params))


def result(id: Id, result: Any) -> bytes:
    """The line that answers a request."""
    return _line(_Answer("2.0", id, result))


def error(id: Id | None, error: Error) -> bytes:
    """The line that says why a request failed; its id is None if that could not be read."""
    return _line(_Answer("2.0", id, error=error))


def _line(message: _Call | _Answer) -> bytes:
    return json_bytes(message) + b"\n"


def json_bytes(value: Any) -> bytes:
    """The value as JSON, whatever is in its texts."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=False)
        return encodable(text).encode()
