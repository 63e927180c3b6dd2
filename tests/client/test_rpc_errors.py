"""rpc-edn's errors: a line that is no good into a real `fairlead rpc`, and the one frame that comes out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import MAX_LINE
from tests.client.frontends import (
    DATA,
    ID,
    KIND,
    OP,
    Frontend,
    filled,
    strictly,
)
from tests.client.rpc_rows import (
    Row,
    Table,
    error,
    row,
    serving,
    step,
)
from tests.hosting import WAIT

PENDING = 64
"""How many requests may be unanswered."""
SOON = 8.0
"""Seconds in which something is done that waits for nothing."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with serving(tmp_path_factory.mktemp("rpc")) as table:
        yield table


@pytest.fixture(scope="module")
def unready(table: Table) -> Iterator[Frontend]:
    """A process that nobody has shaken hands with."""
    front = Frontend(table.hosting, table.front.directory)
    yield front
    front.end()


def refusal(code: str, message: str, more: str = "") -> str:
    """An error frame."""
    return f'{{:kind :error :error-code "{code}" :error-message "{message}" {more}}}'


def line(name: str, text: str, frame: str) -> Any:
    return pytest.param(text, frame, id=name)


def check(front: Frontend, text: str, frame: str) -> None:
    """A line is answered by this frame and by nothing else."""
    got = front.exchange(text)
    assert strictly(got) == strictly(filled([edn.loads(frame)], got))


# --- a line, step by step -----------------------------------------------------------------------------------

FRAME, ENVELOPE, PARAMS = "transport/invalid-frame", "protocol/invalid-envelope", "request/invalid-params"
NO_EDN = refusal(FRAME, "unable to parse EDN request frame", ":data {:detail _}")
NO_MAP = refusal(ENVELOPE, "request frame must be an EDN map")
NO_REQUEST = "request frame :kind must be :request"
MISSING, UNSUPPORTED = "request frame missing required keys", "request frame contains unsupported keys"

LINES = [
    line("blank", "", refusal(FRAME, "empty frame")),
    line("blanks", " \t ", refusal(FRAME, "empty frame")),
    line("not-edn", '{:id "1"', NO_EDN),
    line("odd-map", "{:id}", NO_EDN),
    line("closed-twice", "{})", NO_EDN),
    line("two-forms", '{:id "1" :kind :request :op "ping"} {:id "2" :kind :request :op "ping"}', NO_EDN),
    line("vector", "[1]", NO_MAP),
    line("nil", "nil", NO_MAP),
    line("number", "42", NO_MAP),
    line("string", '"ping"', NO_MAP),
    line(
        "wrong-kind",
        '{:id "1" :kind :event :op "ping"}',
        refusal(ENVELOPE, NO_REQUEST, ':id "1" :op "ping"'),
    ),
    line("no-kind", '{:id "1" :op "ping"}', refusal(ENVELOPE, NO_REQUEST, ':id "1" :op "ping"')),
    line(
        "no-id",
        '{:kind :request :op "ping"}',
        refusal(ENVELOPE, MISSING, ':op "ping" :data {:missing [":id"]}'),
    ),
    line("no-op", '{:id "1" :kind :request}', refusal(ENVELOPE, MISSING, ':id "1" :data {:missing [":op"]}')),
    line("only-kind", "{:kind :request}", refusal(ENVELOPE, MISSING, ':data {:missing [":id" ":op"]}')),
    line(
        "extra-keys",
        '{:id "1" :kind :request :op "ping" :more 1 :x/y 2}',
        refusal(ENVELOPE, UNSUPPORTED, ':id "1" :op "ping" :data {:unsupported [":more" ":x/y"]}'),
    ),
    line(
        "ok-is-for-responses",
        '{:id "1" :kind :request :op "ping" :ok true}',
        refusal(ENVELOPE, UNSUPPORTED, ':id "1" :op "ping" :data {:unsupported [":ok"]}'),
    ),
]


@pytest.mark.parametrize(("text", "frame"), LINES)
def test_a_line_that_is_no_request_is_refused(table: Table, text: str, frame: str) -> None:
    check(table.front, text, frame)


@pytest.mark.parametrize(("text", "frame"), LINES)
def test_a_line_that_is_no_request_is_refused_before_the_handshake(
    unready: Frontend, text: str, frame: str
) -> None:
    check(unready, text, frame)


PONG = '{:id "1" :kind :response :op "ping" :ok true :data {:pong true :protocol-version "1.0"}}'
NO_ID, NO_OP = "request :id must be a non-empty string", "request :op must be a non-empty string"


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        line("kind-as-a-string", '{:id "1" :kind "request" :op "ping"}', PONG),
        line("params-nil", '{:id "1" :kind :request :op "ping" :params nil}', PONG),
        line("more-params", '{:id "1" :kind :request :op "ping" :params {:x 1}}', PONG),
        line("commas-and-comments", '{:id "1", :kind :request, :op "ping"} ; hello', PONG),
        line("carriage-return", '{:id "1" :kind :request :op "ping"}\r', PONG),
        line(
            "empty-id",
            '{:id "" :kind :request :op "ping"}',
            refusal("request/invalid-id", NO_ID, ':op "ping"'),
        ),
        line(
            "number-as-id",
            '{:id 7 :kind :request :op "ping"}',
            refusal("request/invalid-id", NO_ID, ':op "ping"'),
        ),
        line(
            "nil-as-id",
            '{:id nil :kind :request :op "ping"}',
            refusal("request/invalid-id", NO_ID, ':op "ping"'),
        ),
        line("empty-op", '{:id "1" :kind :request :op ""}', refusal("request/invalid-op", NO_OP, ':id "1"')),
        line(
            "keyword-as-op",
            '{:id "1" :kind :request :op :ping}',
            refusal("request/invalid-op", NO_OP, ':id "1"'),
        ),
        line("id-before-op", "{:id 7 :kind :request :op 7}", refusal("request/invalid-id", NO_ID)),
        line(
            "params-vector",
            '{:id "1" :kind :request :op "ping" :params [1]}',
            refusal(PARAMS, "request :params must be a map", ':id "1" :op "ping"'),
        ),
        line(
            "params-string",
            '{:id "1" :kind :request :op "ping" :params "x"}',
            refusal(PARAMS, "request :params must be a map", ':id "1" :op "ping"'),
        ),
        line(
            "params-before-the-op",
            '{:id "1" :kind :request :op "dance" :params 1}',
            refusal(PARAMS, "request :params must be a map", ':id "1" :op "dance"'),
        ),
    ],
)
def test_a_request_is_checked_before_it_is_run(table: Table, text: str, frame: str) -> None:
    check(table.front, text, frame)


OPS = """
    query_eql command frontend_action_result prompt steer follow_up abort login_begin login_complete
    new_session switch_session fork set_session_name set_model cycle_model set_thinking_level
    cycle_thinking_level compact set_auto_compaction set_auto_retry get_state get_messages
    get_session_stats subscribe unsubscribe ping abort_retry bash abort_bash export_html
    get_fork_messages get_last_assistant_text get_commands get_available_models prompt_while_streaming
    interrupt list_sessions resolve_dialog cancel_dialog cancel open_session remember recall describe
"""


def test_an_unknown_op_is_refused_with_those_that_are_there(table: Table) -> None:
    (frame,) = table.front.exchange('{:id "1" :kind :request :op "dance"}')
    supported = frame[DATA][Keyword("supported-ops")]
    wanted = refusal("request/op-not-supported", "unsupported op: dance", ':id "1" :op "dance"')
    assert frame == {**edn.loads(wanted), DATA: {Keyword("supported-ops"): sorted(supported)}}
    assert {"handshake", *OPS.split()} - set(supported) == set()


# --- before and with the handshake --------------------------------------------------------------------------

NOT_READY = "handshake must complete before non-handshake requests"


@pytest.mark.parametrize("op", [*OPS.split(), "dance"])
def test_nothing_is_done_before_the_handshake(unready: Frontend, op: str) -> None:
    wanted = refusal("transport/not-ready", NOT_READY, f':id "1" :op "{op}"')
    check(unready, f'{{:id "1" :kind :request :op "{op}" :params {{}}}}', wanted)


WANTS_VERSION = "handshake requires :params :client-info :protocol-version string"


def shaking(params: str) -> str:
    return f'{{:id "1" :kind :request :op "handshake" :params {params}}}'


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        line(name, shaking(params), refusal(PARAMS, why, ':id "1" :op "handshake"'))
        for name, params, why in (
            ("no-params", "{}", WANTS_VERSION),
            ("nil-params", "nil", WANTS_VERSION),
            ("no-version", '{:client-info {:name "x" :version "1"}}', WANTS_VERSION),
            ("number-as-version", "{:client-info {:protocol-version 1}}", WANTS_VERSION),
            ("blank-version", '{:client-info {:protocol-version " "}}', WANTS_VERSION),
            ("client-info-string", '{:client-info "x"}', "invalid request parameter :client-info: a map"),
            ("params-vector", '["1.0"]', "request :params must be a map"),
        )
    ]
    + [
        line(
            "id-number",
            '{:id 1 :kind :request :op "handshake" :params {:protocol-version "1.0"}}',
            refusal("request/invalid-id", NO_ID, ':op "handshake"'),
        ),
        line(
            "not-ready-before-a-bad-id",
            '{:id "" :kind :request :op "ping"}',
            refusal("transport/not-ready", NOT_READY, ':op "ping"'),
        ),
        line(
            "not-ready-before-a-bad-op",
            '{:id "1" :kind :request :op 7}',
            refusal("transport/not-ready", NOT_READY, ':id "1"'),
        ),
    ],
)
def test_a_handshake_that_is_no_good_leaves_all_as_it_was(unready: Frontend, text: str, frame: str) -> None:
    check(unready, text, frame)


@pytest.mark.parametrize(
    "params",
    [
        '{:client-info {:name "x" :version "1" :protocol-version "1.4" :features []}}',
        '{:protocol-version "1"}',
    ],
)
def test_a_handshake_makes_ready_also_after_one_that_was_refused(table: Table, params: str) -> None:
    front = Frontend(table.hosting, table.front.directory)
    try:
        check(front, shaking("{}"), refusal(PARAMS, WANTS_VERSION, ':id "1" :op "handshake"'))
        (shaken,) = front.exchange(shaking(params))
        info = shaken[DATA][Keyword("server-info")]
        assert info.pop(Keyword("session-id")) in table.front.sessions  # the last one of the directory
        wanted = '{:protocol-version "1.0" :features ["eql-graph" "eql-memory"] :model-id "replay"'
        assert info == edn.loads(wanted + ' :thinking-level "off"}')
        check(front, '{:id "1" :kind :request :op "ping"}', PONG)
        assert front.close() == 0
    finally:
        front.end()


def test_another_major_version_is_refused_and_the_process_ends(table: Table) -> None:
    front = Frontend(table.hosting, table.front.directory)
    front.write(shaking('{:client-info {:protocol-version "2.0"} :protocol-version "1.0"}'))
    wanted = refusal(
        "protocol/unsupported-version", "unsupported protocol major: 2", ':id "1" :op "handshake"'
    )
    try:
        assert front.next() == edn.loads(wanted)
        assert front.line() == b""
        front.process.wait(WAIT)
    finally:
        front.end()


# --- parameters ---------------------------------------------------------------------------------------------

BOOLEAN, STRING, NON_BLANK = "true or false", "a string", "non-empty string"
WORD = "a non-empty string or a keyword"
MAPS = "a vector of at most 16 maps with :data and :mime-type"
STATUS = 'one of "submitted", "cancelled", "failed"'
FAULTS = [
    ("query_eql", "{}", "query", NON_BLANK),
    ("query_eql", '{:query " "}', "query", NON_BLANK),
    ("query_eql", "{:query [:a]}", "query", NON_BLANK),
    ("query_eql", '{:query "[]" :entity {}}', "entity", STRING),
    ("command", "{}", "text", STRING),
    ("command", "{:text :help}", "text", STRING),
    ("frontend_action_result", "{}", "request-id", NON_BLANK),
    ("frontend_action_result", '{:request-id "x"}', "action-name", WORD),
    ("frontend_action_result", '{:request-id "x" :action-name "y"}', "status", STATUS),
    ("frontend_action_result", '{:request-id "x" :action-name "y" :status "maybe"}', "status", STATUS),
    *(
        (op, params, "message", NON_BLANK)
        for op in ("prompt", "steer", "follow_up", "prompt_while_streaming")
        for params in ("{}", "{:message 7}", '{:message " "}')
    ),
    ("prompt", '{:message "x" :images 7}', "images", MAPS),
    ("prompt", '{:message "x" :images [{:data "y"}]}', "images", MAPS),
    ("fork", "{}", "entry-id", "non-empty entry id"),
    ("fork", '{:entry-id " "}', "entry-id", "non-empty entry id"),
    ("set_session_name", "{}", "name", NON_BLANK),
    ("set_session_name", '{:name " "}', "name", NON_BLANK),
    ("set_model", "{}", "provider", WORD),
    ("set_model", '{:provider "offline"}', "model-id", NON_BLANK),
    ("set_thinking_level", "{}", "level", "a keyword, a string or an integer"),
    ("set_thinking_level", "{:level 1.5}", "level", "a keyword, a string or an integer"),
    ("compact", "{:custom-instructions 7}", "custom-instructions", STRING),
    ("set_auto_compaction", "{}", "enabled", BOOLEAN),
    ("set_auto_retry", '{:enabled "yes"}', "enabled", BOOLEAN),
    ("resolve_dialog", "{}", "dialog-id", NON_BLANK),
    ("cancel_dialog", '{:dialog-id " "}', "dialog-id", NON_BLANK),
    ("switch_session", '{:session-path ""}', "session-path", "non-empty path string"),
    ("bash", "{}", "command", STRING),
    ("cancel", "{}", "request-id", NON_BLANK),
    ("subscribe", '{:since " "}', "since", NON_BLANK),
    ("login_begin", '{:provider ""}', "provider", WORD),
    ("inspect_background_job", "{}", "job-id", NON_BLANK),
    ("cancel_background_job", '{:job-id " "}', "job-id", NON_BLANK),
    ("list_background_jobs", '{:statuses "running"}', "statuses", "a vector"),
    ("login_complete", "{:input 7}", "input", STRING),
    ("export_html", "{:path 7}", "path", STRING),
    ("get_messages", "{:from -1}", "from", "a line's number"),
    ("get_messages", "{:limit 0}", "limit", "an integer from 1 to 65535"),
    ("remember", "{}", "text", STRING),
    ("recall", "{}", "text", STRING),
]


@pytest.mark.parametrize(
    ("op", "params", "name", "wanted"), [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in FAULTS]
)
def test_a_parameter_that_is_missing_or_wrong_is_named(
    table: Table, op: str, params: str, name: str, wanted: str
) -> None:
    (got,) = table.front.exchange(f'{{:id "1" :kind :request :op "{op}" :params {params}}}')
    why = f"invalid request parameter :{name}: {wanted}"
    assert got == error(PARAMS, why)("1", op)


MEANT = {
    "query_eql": ':query "[]"',
    "command": ':text "/status"',
    "prompt": ':message "x"',
    "steer": ':message "x"',
    "follow_up": ':message "x"',
    "prompt_while_streaming": ':message "x"',
    "abort": "",
    "interrupt": "",
    "new_session": "",
    "switch_session": "",
    "fork": ':entry-id "x"',
    "set_session_name": ':name "x"',
    "set_model": ':provider "offline" :model-id "guide"',
    "cycle_model": "",
    "set_thinking_level": ":level 1",
    "cycle_thinking_level": "",
    "compact": "",
    "set_auto_compaction": ":enabled true",
    "set_auto_retry": ":enabled true",
    "get_state": "",
    "get_messages": "",
    "get_session_stats": "",
    "subscribe": "",
    "abort_retry": "",
    "bash": ':command "true"',
    "abort_bash": "",
    "export_html": "",
    "get_commands": "",
    "login_begin": "",
    "get_fork_messages": "",
    "get_last_assistant_text": "",
}
"""The ops that mean a session, with what else they need."""


@pytest.mark.parametrize("op", MEANT)
@pytest.mark.parametrize("id", ['" "', "7"])
def test_the_id_of_a_session_is_a_string_that_is_not_blank(table: Table, op: str, id: str) -> None:
    (got,) = table.front.exchange(
        f'{{:id "1" :kind :request :op "{op}" :params {{{MEANT[op]} :session-id {id}}}}}'
    )
    assert got == error(PARAMS, f"invalid request parameter :session-id: {NON_BLANK}")("1", op)


@pytest.mark.parametrize("op", MEANT)
def test_a_session_that_is_not_there_is_not_found(table: Table, op: str) -> None:
    table.begin()
    (got,) = table.front.exchange(
        f'{{:id "1" :kind :request :op "{op}" :params {{{MEANT[op]} :session-id "no"}}}}'
    )
    why = "session id not found in context session index" if op == "switch_session" else NO_SESSION
    assert got == error("request/not-found", why)("1", op)


NO_SESSION = "Session not found in context: no"


@pytest.mark.parametrize(
    ("op", "params", "why"),
    [
        ("subscribe", '{:topics "error"}', "subscribe :topics must be sequential"),
        ("unsubscribe", "{:topics {}}", "unsubscribe :topics must be sequential"),
        (
            "prompt_while_streaming",
            '{:message "x" :behavior :now}',
            'prompt_while_streaming :behavior must be "steer" or "queue"',
        ),
    ],
)
def test_some_parameters_are_named_in_words_of_their_own(
    table: Table, op: str, params: str, why: str
) -> None:
    table.begin()
    (got,) = table.front.exchange(f'{{:id "1" :kind :request :op "{op}" :params {params}}}')
    assert got == error(PARAMS, why)("1", op)


# --- what can't be done -------------------------------------------------------------------------------------

NOT_FOUND = "request/not-found"
NO_DIALOG, NO_LOGIN = "request/no-active-dialog", "request/no-pending-login"
CANT = [
    row("login_complete", step("login_complete", '{:input "sk-1"}', error(NO_LOGIN, "no login in progress"))),
    row(
        "subscribe-since-never",
        step(
            "subscribe",
            '{:since "yesterday"}',
            error(PARAMS, "invalid request parameter :since: a cursor that an event of this session had"),
        ),
    ),
    row(
        "switch_session-to-nothing",
        step(
            "switch_session",
            "{}",
            error(PARAMS, "invalid request parameter :session-path: non-empty path string"),
        ),
    ),
    row(
        "switch_session-to-no-file",
        step("switch_session", '{:session-path "/no"}', error(NOT_FOUND, "session file not found")),
    ),
    row(
        "fork-at-no-entry",
        step(
            "fork",
            '{:entry-id "no"}',
            error(PARAMS, "invalid request parameter :entry-id: the conversation has no entry 'no'"),
        ),
    ),
    row(
        "resolve_dialog",
        step("resolve_dialog", '{:dialog-id "no"}', error(NO_DIALOG, "no dialog is open")),
    ),
    row(
        "cancel_dialog",
        step("cancel_dialog", '{:dialog-id "no"}', error(NO_DIALOG, "no dialog is open")),
    ),
    row(
        "frontend_action_result-for-no-session",
        step(
            "frontend_action_result",
            '{:request-id "no" :action-name "select-session" :status "submitted" :value "no"}',
            error(NOT_FOUND, "Session not found in context: no"),
        ),
    ),
    row(
        "export_html-where-nothing-can-be-written",
        step(
            "export_html",
            '{:path "/no/such.html"}',
            error("runtime/failed", "can't write /no/such.html: No such file or directory"),
        ),
    ),
]


@pytest.mark.parametrize("row", CANT)
def test_what_cant_be_done_is_said(table: Table, row: Row) -> None:
    table.play(row)


# --- limits -------------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_read(table: Table) -> None:
    long = '{:id "1" :kind :request :op "ping" :params {:x "' + "x" * MAX_LINE + '"}}'
    check(table.front, long, refusal(FRAME, f"frame is longer than {MAX_LINE} bytes"))
    check(table.front, '{:id "1" :kind :request :op "ping"}', PONG)


def test_so_many_requests_may_be_pending_and_no_more(table: Table) -> None:
    front = table.front
    front.ask("unsubscribe")
    front.ask("subscribe", '{:topics ["error"]}')
    gate = front.directory / "gate"
    os.mkfifo(gate)
    front.ask("terminal_start", f'{{:name "gate" :argv ["sh" "-c" "read line < {gate}"]}}')
    wait = '{:id "w%d" :kind :request :op "terminal_wait" :params {:name "gate" :exit true :timeout 30}}'
    for number in range(PENDING):
        front.write(wait % number)
    for text, frame in (
        (
            '{:id "1" :kind :request :op "ping"}',
            refusal(
                "transport/max-pending-exceeded", "maximum pending requests exceeded", ':id "1" :op "ping"'
            ),
        ),
        (
            wait % 7,
            refusal("request/invalid-id", "duplicate request :id", ':id "w7" :op "terminal_wait"'),
        ),
    ):
        front.write(text)
        assert front.next() == edn.loads(frame)
    gate.write_text("through\n")
    answers = [front.next() for _ in range(PENDING)]
    assert {(each[ID], each[OP], each[KIND].name) for each in answers} == {
        (f"w{number}", "terminal_wait", "response") for number in range(PENDING)
    }
    check(front, '{:id "w7" :kind :request :op "ping"}', PONG.replace('"1"', '"w7"', 1))


@pytest.mark.parametrize(
    "text", ['{:id "" :kind :request :op "ping"}', '{:id "1" :kind :request :op "ping" :x 1}']
)
def test_a_process_ends_with_its_input_also_after_a_request_that_was_refused(table: Table, text: str) -> None:
    front = Frontend(table.hosting, table.front.directory)
    try:
        front.exchange(text)
        began = time.monotonic()
        assert front.close() == 0
        assert time.monotonic() - began < SOON
    finally:
        front.end()
