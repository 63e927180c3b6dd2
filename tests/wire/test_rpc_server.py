"""rpc-edn's server after the envelope: handshake, subscriptions, events, answers, and what is written."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from fairlead.formats.edn import BigInt, Char, EdnError, FrozenMap, Keyword, Symbol, Tagged, Vector
from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.rpc import (
    FEATURES,
    Error,
    ErrorCode,
    Event,
    Request,
    Response,
    ServerConnection,
    State,
    encode,
    fields,
    server_info,
)
from fairlead.wire.rpc_catalog import OWN_TOPICS, TOPICS
from tests.wire.rpc_examples import HANDSHAKE, frames, ready

PING = b'{:id "p" :kind :request :op "ping"}\n'


def shaken(params: str) -> bytes:
    return f'{{:id "h" :kind :request :op "handshake" :params {params}}}\n'.encode()


# --- handshake ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        '{:client-info {:protocol-version "1.0"}}',
        '{:client-info {:name "emacs" :version "29" :protocol-version "1" :features ["x"]}}',
        '{:protocol-version "1.0"}',
        '{:client-info {} :protocol-version "1.0"}',
        '{:client-info nil :protocol-version "1.7.3"}',
        '{:client-info {:protocol-version "1.0"} :protocol-version "2.0"}',
        '{:client-info {:protocol-version nil} :protocol-version "1.0"}',
        '{:client-info {:protocol-version "1.99-beta"}}',
    ],
)
def test_a_handshake_of_our_major_opens_the_gate(params: str) -> None:
    server = ServerConnection()
    (request, ping) = server.receive(shaken(params) + PING)
    assert isinstance(request, Request)
    assert (request.id, request.op, ping) == ("h", "handshake", Request("p", "ping"))
    assert server.state is State.READY
    assert server.pending == {"h": "handshake", "p": "ping"}


NO_VERSION = "handshake requires :params :client-info :protocol-version string"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("nil", NO_VERSION),
        ("{}", NO_VERSION),
        ("{:client-info {}}", NO_VERSION),
        ("{:client-info {:protocol-version 1}}", NO_VERSION),
        ('{:client-info {:protocol-version 1} :protocol-version "1.0"}', NO_VERSION),
        ('{:client-info {:protocol-version ""}}', NO_VERSION),
        ('{:client-info {:protocol-version " "}}', NO_VERSION),
        ('{:client-info {"protocol-version" "1.0"}}', NO_VERSION),
        ('{:client-info "1.0"}', "invalid request parameter :client-info: a map"),
        ("{:protocol-version 1.0}", "invalid request parameter :protocol-version: a string"),
        ("[]", "request :params must be a map"),
    ],
)
def test_a_handshake_without_a_version_is_refused_and_may_be_tried_again(params: str, message: str) -> None:
    server = ServerConnection()
    assert frames(server.receive(shaken(params))) == [
        b'{:kind :error, :id "h", :op "handshake", :error-code "request/invalid-params",'
        b' :error-message "%b"}\n' % message.encode()
    ]
    assert (server.state, server.pending) == (State.NOT_READY, {})
    (request,) = server.receive(HANDSHAKE)
    assert isinstance(request, Request)
    assert server.state is State.READY


@pytest.mark.parametrize(
    ("params", "major"),
    [
        ('{:client-info {:protocol-version "2.0"}}', "2"),
        ('{:client-info {:protocol-version "2.0"} :protocol-version "1.0"}', "2"),
        ('{:protocol-version "0.9"}', "0"),
        ('{:protocol-version "10"}', "10"),
        ('{:protocol-version "01.0"}', "01"),
        ('{:protocol-version " 1.0"}', "unknown"),
        ('{:protocol-version "one"}', "unknown"),
        (f'{{:protocol-version "{"9" * 1000}"}}', "9" * 256),
    ],
)
@pytest.mark.parametrize("before", [b"", HANDSHAKE.replace(b'"h"', b'"g"')], ids=["first", "again"])
def test_another_major_is_answered_and_ends_the_connection(before: bytes, params: str, major: str) -> None:
    server = ServerConnection()
    *earlier, broken = server.receive(before + shaken(params) + PING)
    message = f"unsupported protocol major: {major}"
    reply = (
        '{:kind :error, :id "h", :op "handshake", :error-code "protocol/unsupported-version",'
        f' :error-message "{message}"}}\n'
    )
    assert broken == Broken(message, reply.encode())
    assert [type(item) for item in earlier] == [Request] * bool(before)
    assert server.state is State.CLOSED
    assert server.receive(HANDSHAKE + PING) == []


def test_before_the_handshake_everything_else_is_refused() -> None:
    server = ServerConnection()
    assert frames(server.receive(PING + b'{:kind :request :id "" :op 5}\n')) == [
        b'{:kind :error, :id "p", :op "ping", :error-code "transport/not-ready",'
        b' :error-message "handshake must complete before non-handshake requests"}\n',
        b'{:kind :error, :error-code "transport/not-ready",'
        b' :error-message "handshake must complete before non-handshake requests"}\n',
    ]
    assert (server.state, server.pending) == (State.NOT_READY, {})


def test_the_response_to_a_handshake_offers_our_version_and_features() -> None:
    server = ServerConnection()
    server.receive(HANDSHAKE)
    assert server.respond("h", server_info()) == (
        b'{:id "h", :kind :response, :op "handshake", :ok true, :data {:server-info'
        b' {:protocol-version "1.0", :features ["eql-graph" "eql-memory"]}}}\n'
    )
    assert server_info(features=[*FEATURES, "x"], session_id="s1", thinking_level="off") == fields(
        server_info=fields(
            protocol_version="1.0",
            features=["eql-graph", "eql-memory", "x"],
            session_id="s1",
            thinking_level="off",
        )
    )


# --- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "ok", "line"),
    [
        (None, True, b'{:id "p", :kind :response, :op "ping", :ok true}\n'),
        (None, False, b'{:id "p", :kind :response, :op "ping", :ok false}\n'),
        (False, True, b'{:id "p", :kind :response, :op "ping", :ok true, :data false}\n'),
        (
            fields(pong=True, protocol_version="1.0"),
            True,
            b'{:id "p", :kind :response, :op "ping", :ok true,'
            b' :data {:pong true, :protocol-version "1.0"}}\n',
        ),
    ],
)
def test_a_response_has_the_requests_id_and_op(data: Any, ok: bool, line: bytes) -> None:
    server = ready()
    server.receive(PING)
    assert server.respond("p", data, ok=ok) == line
    assert server.pending == {}


CODES = """
    transport/not-ready transport/invalid-frame transport/max-pending-exceeded
    protocol/unsupported-version protocol/invalid-envelope protocol/invalid-event-payload
    request/invalid-id request/invalid-op request/invalid-params request/invalid-query
    request/op-not-supported request/session-not-idle request/not-found request/unknown-model
    request/no-pending-login request/no-active-dialog request/dialog-id-mismatch
    runtime/query-failed runtime/failed
"""


def test_the_taxonomy_has_these_codes() -> None:
    assert {str(code) for code in ErrorCode} == set(CODES.split())


@pytest.mark.parametrize("code", ErrorCode)
def test_a_request_fails_with_any_code_of_the_taxonomy(code: ErrorCode) -> None:
    server = ready()
    server.receive(PING)
    assert server.fail("p", code, "why") == (
        b'{:kind :error, :id "p", :op "ping", :error-code "%b", :error-message "why"}\n' % code.encode()
    )
    assert server.pending == {}


def test_a_failure_may_say_more() -> None:
    server = ready()
    server.receive(PING)
    assert server.fail("p", "runtime/failed", "busy", fields(after=2), retryable=True) == (
        b'{:kind :error, :id "p", :op "ping", :error-code "runtime/failed", :error-message "busy",'
        b" :retryable true, :data {:after 2}}\n"
    )


def test_a_request_is_answered_once() -> None:
    for first in ("respond", "fail"):
        server = ready()
        server.receive(PING)
        server.respond("p") if first == "respond" else server.fail("p", "runtime/failed", "x")
        with pytest.raises(LocalError, match=r"^no pending request has the id 'p'$"):
            server.respond("p")
        with pytest.raises(LocalError, match=r"^no pending request has the id 'p'$"):
            server.fail("p", "runtime/failed", "x")
    with pytest.raises(LocalError, match=r"^no pending request has the id 'never'$"):
        server.respond("never")


def test_an_answer_that_cannot_be_written_leaves_the_request_pending_so_that_it_can_fail() -> None:
    server = ready()
    server.receive(PING)
    with pytest.raises(EdnError, match=r"^can't write a object as EDN$"):
        server.respond("p", fields(result=object()))
    with pytest.raises(ValueError, match=r"^message must be a non-empty string, not ''$"):
        server.fail("p", "runtime/failed", "")
    assert server.pending == {"p": "ping"}
    assert server.fail("p", "runtime/failed", "the result can't be written")
    assert server.pending == {}


# --- subscriptions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "subscribed"),
    [
        ([], []),
        ([("subscribe", [])], []),
        ([("subscribe", ["tool/start", "error"])], ["error", "tool/start"]),
        ([("subscribe", ["error"]), ("subscribe", ["tool/start"])], ["error", "tool/start"]),
        ([("subscribe", ["error"]), ("subscribe", [])], ["error"]),
        ([("subscribe", ["no/such", "error", "Error"])], ["error"]),
        ([("subscribe", ["no/such"])], []),
        ([("subscribe", ["error", "tool/start"]), ("unsubscribe", ["error"])], ["tool/start"]),
        ([("subscribe", ["error", "tool/start"]), ("unsubscribe", [])], []),
        ([("subscribe", ["error"]), ("unsubscribe", ["no/such"])], ["error"]),
        ([("subscribe", ["error"]), ("unsubscribe", ["error"])], []),
    ],
)
def test_the_set_of_topics_grows_and_shrinks_and_empty_means_all_of_psis(
    calls: list[tuple[str, list[str]]], subscribed: list[str]
) -> None:
    server, listed = ready(), []
    for call, topics in calls:
        listed = getattr(server, call)(topics)
    assert listed == subscribed
    assert sorted(server.subscribed) == subscribed
    for topic in TOPICS:
        assert server.wants(topic) == (topic in subscribed or (not subscribed and topic not in OWN_TOPICS))


def test_subscribing_without_topics_changes_nothing_and_unsubscribing_clears() -> None:
    server = ready()
    server.subscribe(["error"])
    assert server.subscribe() == ["error"]
    assert server.unsubscribe() == []


# --- events ------------------------------------------------------------------------------------------------


def test_events_are_numbered_from_one_as_they_are_sent() -> None:
    server = ready()
    assert server.event("assistant/delta", fields(text="a", session_id="s")) == (
        b'{:kind :event, :event "assistant/delta", :data {:text "a", :session-id "s"}, :seq 1}\n'
    )
    assert server.event("error", fields(error_code="c", error_message="m"), id="r", ts="2026-01-31") == (
        b'{:kind :event, :event "error", :data {:error-code "c", :error-message "m"}, :id "r", :seq 2,'
        b' :ts "2026-01-31"}\n'
    )
    server.subscribe(["tool/delta"])
    assert server.event("assistant/delta", fields(text="b", session_id="s")) == b""
    assert server.event("tool/delta", fields(tool_id="t", session_id="s")).endswith(b":seq 3}\n")
    server.unsubscribe()
    assert server.event("assistant/delta", fields(text="c", session_id="s")).endswith(b":seq 4}\n")


@pytest.mark.parametrize("topic", TOPICS)
def test_an_event_must_carry_what_the_catalog_requires(topic: str) -> None:
    whole = {Keyword(name): "x" for name in TOPICS[topic]}
    for subscribed in ([], [topic], ["error"]):
        server = ready()
        server.subscribe(subscribed)
        for name in TOPICS[topic]:
            lacking = {key: value for key, value in whole.items() if key.name != name}
            sent = ready().event(topic, lacking)
            assert b':event "error"' in sent
            assert f':event "{topic}", :missing-keys ["{name}"]'.encode() in sent
        sent = server.event(topic, whole)
        assert sent.endswith(b", :seq 1}\n") if server.wants(topic) else sent == b""


def test_an_event_of_no_topic_is_our_own_fault() -> None:
    server = ready()
    with pytest.raises(LocalError, match=r"^no such topic: psi/new$"):
        server.event("psi/new", {})


def test_an_event_that_cannot_be_written_takes_no_number() -> None:
    server = ready()
    with pytest.raises(EdnError):
        server.event("assistant/delta", fields(text=object(), session_id="s"))
    assert server.event("assistant/delta", fields(text="a", session_id="s")).endswith(b":seq 1}\n")


# --- what is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nil"),
        (True, "true"),
        (-7, "-7"),
        (2**70, str(2**70)),
        (BigInt(5), "5"),
        (0.1, "0.1"),
        (1e21, "1.0E21"),
        (float("inf"), "nil"),
        (float("-inf"), "nil"),
        (float("nan"), "nil"),
        (Decimal("1.50"), "1.5"),
        (Fraction(1, 4), "0.25"),
        ('é\u2028\n"\\', '"é\u2028\\n\\"\\\\"'),
        ("\0\x7f", '"\\u0000\x7f"'),
        ("\ud800", '"\\ud800"'),
        (Char("x"), '"x"'),
        (Keyword("psi/ref"), ":psi/ref"),
        (Symbol("psi/fork"), '"psi/fork"'),
        (datetime(2026, 1, 31, 12, 30, tzinfo=UTC), '"2026-01-31T12:30:00.000Z"'),
        (
            datetime(2026, 1, 31, 1, 0, 0, 123456, timezone(timedelta(hours=2))),
            '"2026-01-30T23:00:00.123456Z"',
        ),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ((1, 2), "[1 2]"),
        ([], "[]"),
        ({1}, "[1]"),
        (frozenset({"a"}), '["a"]'),
        (Vector((1, 2)), "[1 2]"),
        (FrozenMap({Keyword("a"): (1,)}), "{:a [1]}"),
        (Tagged(Symbol("psi/ref"), [1]), "[1]"),
        ({Keyword("a"): {Keyword("b"): ((1,), {2})}}, "{:a {:b [[1] [2]]}}"),
    ],
)
def test_only_what_the_simplest_clients_read_is_written(value: Any, text: str) -> None:
    server = ready()
    server.receive(PING)
    line = server.respond("p", fields(result=value))
    assert line.decode() == f'{{:id "p", :kind :response, :op "ping", :ok true, :data {{:result {text}}}}}\n'
    assert line.count(b"\n") == 1


# --- frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "values", "text"),
    [
        (Request, ("", "ping"), "id must be a non-empty string, not ''"),
        (Request, (5, "ping"), "id must be a non-empty string, not 5"),
        (Request, ("a", None), "op must be a non-empty string, not None"),
        (Request, ("a", "ping", []), "params must be a map, not []"),
        (Response, ("", "ping"), "id must be a non-empty string, not ''"),
        (Response, ("a", ""), "op must be a non-empty string, not ''"),
        (Response, ("a", "ping", None, 1), "ok must be true or false, not 1"),
        (Error, ("", "m"), "code must be a non-empty string, not ''"),
        (Error, ("c", ""), "message must be a non-empty string, not ''"),
        (Error, ("c", "m", ""), "id must be a non-empty string, not ''"),
        (Error, ("c", "m", None, 5), "op must be a non-empty string, not 5"),
        (Error, ("c", "m", None, None, None, "no"), "retryable must be true or false, not 'no'"),
        (Event, ("", {}), "topic must be a non-empty string, not ''"),
        (Event, ("t", None), "data must be a map, not None"),
        (Event, ("t", {}, ""), "id must be a non-empty string, not ''"),
        (Event, ("t", {}, None, 0), "seq must be a positive integer, not 0"),
        (Event, ("t", {}, None, True), "seq must be a positive integer, not True"),
        (Event, ("t", {}, None, 1, 5), "ts must be a non-empty string, not 5"),
    ],
)
def test_an_invalid_frame_cannot_be_made(frame: type[Any], values: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=r"must be") as raised:
        frame(*values)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (Request("a", "ping"), b'{:id "a", :kind :request, :op "ping", :params {}}\n'),
        (Response("a", "ping"), b'{:id "a", :kind :response, :op "ping", :ok true}\n'),
        (Error("c", "m"), b'{:kind :error, :error-code "c", :error-message "m"}\n'),
        (
            Error("c", "m", "a", "ping", [1], False),
            b'{:kind :error, :id "a", :op "ping", :error-code "c", :error-message "m", :retryable false,'
            b" :data [1]}\n",
        ),
        (Event("t", {}), b'{:kind :event, :event "t", :data {}}\n'),
        (Event("t", {}, "a", 1, "z"), b'{:kind :event, :event "t", :data {}, :id "a", :seq 1, :ts "z"}\n'),
    ],
)
def test_a_frame_is_this_line_and_cannot_be_changed(
    frame: Request | Response | Error | Event, line: bytes
) -> None:
    assert encode(frame) == line
    for name in ("id", "data", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(frame, name, "x")
    assert encode(frame) == line


def test_the_repr_of_a_frame_leaves_out_what_it_carries() -> None:
    secret = fields(input="sk-secret")
    for frame in (
        Request("a", "login_complete", secret),
        Response("a", "ping", secret),
        Error("c", "m", data=secret),
        Event("t", secret),
    ):
        assert "sk-secret" not in repr(frame)


def test_a_server_tells_its_state() -> None:
    server = ServerConnection()
    assert repr(server) == "<ServerConnection not ready, 0 pending>"
    server.receive(HANDSHAKE)
    assert repr(server) == "<ServerConnection ready, 1 pending>"
    server.close()
    assert repr(server) == "<ServerConnection closed, 1 pending>"
    assert server.receive(PING) == []
