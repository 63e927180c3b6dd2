"""rpc-edn's vocabulary: the seed's table of ops, the table of events, and what each parameter must be."""

from typing import Any

import pytest

from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import Error, Request, encode, fields
from fairlead.wire.rpc_catalog import OPS, PARAMS, TOPICS, Op, fault_in_params
from tests.wire.rpc_examples import ready

# The seed's operation mapping table, and the ops that its clients use beyond it: op, required, optional.
CONTRACT = """
    handshake               -                               client-info protocol-version
    query_eql               query                           entity session-id
    command                 text                            session-id
    frontend_action_result  request-id action-name status   value error-message session-id
    prompt                  message                         images session-id
    steer                   message                         images session-id
    follow_up               message                         images session-id
    abort                   -                               session-id
    login_begin             -                               session-id provider
    login_complete          -                               input session-id
    new_session             -                               session-id parent-session name
    switch_session          -                               session-id session-path
    fork                    entry-id                        session-id
    set_session_name        name                            session-id
    set_model               provider model-id               session-id
    cycle_model             -                               direction session-id
    set_thinking_level      level                           session-id
    cycle_thinking_level    -                               session-id
    compact                 -                               custom-instructions session-id
    set_auto_compaction     enabled                         session-id
    set_auto_retry          enabled                         session-id
    get_state               -                               session-id
    get_messages            -                               session-id
    get_session_stats       -                               session-id
    subscribe               -                               topics session-id since
    unsubscribe             -                               topics
    ping                    -                               -

    abort_retry             -                               session-id
    bash                    command                         session-id
    abort_bash              -                               session-id
    export_html             -                               path session-id
    get_fork_messages       -                               session-id
    get_last_assistant_text -                               session-id
    get_commands            -                               session-id
    get_available_models    -                               session-id

    prompt_while_streaming  message                         behavior images session-id
    interrupt               -                               session-id
    list_sessions           -                               session-id
    resolve_dialog          dialog-id                       result session-id
    cancel_dialog           dialog-id                       session-id
    list_background_jobs    -                               statuses session-id
    inspect_background_job  job-id                          session-id
    cancel_background_job   job-id                          session-id
"""

# Each topic with the keys that its data must have.
EVENTS = {
    "session/updated": "session-id phase is-streaming is-compacting pending-message-count retry-attempt "
    "interrupt-pending",
    "session/resumed": "session-id session-file message-count",
    "session/rehydrated": "messages tool-calls tool-order session-id",
    "context/updated": "active-session-id sessions",
    "assistant/delta": "text session-id",
    "assistant/thinking-delta": "text session-id",
    "assistant/message": "role content session-id",
    "tool/start": "tool-id tool-name session-id",
    "tool/executing": "tool-id tool-name session-id",
    "tool/delta": "tool-id session-id",
    "tool/update": "tool-id tool-name content result-text is-error session-id",
    "tool/result": "tool-id tool-name content result-text is-error session-id",
    "ui/dialog-requested": "dialog-id kind title",
    "ui/frontend-action-requested": "request-id ui/action",
    "ui/widgets-updated": "widgets",
    "ui/widget-specs-updated": "",
    "ui/status-updated": "statuses",
    "ui/notification": "id message level",
    "footer/updated": "path-line stats-line session-id",
    "command-result": "type",
    "error": "error-code error-message",
}


def contract() -> dict[str, tuple[set[str], set[str]]]:
    """The table above: op → required and optional parameters."""
    table = {}
    for line in filter(str.strip, CONTRACT.splitlines()):
        op, required, optional = line[4:28].strip(), line[28:60].split(), line[60:].split()
        table[op] = (set(required) - {"-"}, set(optional) - {"-"})
    return table


BEYOND = {
    "handshake": {"agent", "cwd", "key-names", "project", "session-id"},
    "abort": {"prompt-id"},
    "interrupt": {"at-word"},
    "frontend_action_result": {"ui/action"},
    "get_messages": {"from", "limit"},
    "subscribe": {"hosts"},
}
"""What we take beyond the contract."""


def test_every_op_of_the_contract_is_there_as_it_says() -> None:
    ours = {op: (set(each.required), set(each.optional) - BEYOND.get(op, set())) for op, each in OPS.items()}
    assert {op: ours.get(op) for op in contract()} == contract()


def test_every_topic_of_the_contract_is_there_as_it_says() -> None:
    assert {topic: " ".join(TOPICS.get(topic, ["missing"])) for topic in EVENTS} == EVENTS


# Each parameter: what it is told to be, values that it may have, values that it may not have.
TEXT = ("a string", ["", "x"], [5, Keyword("x"), [], True])
NON_BLANK = ("non-empty string", ["x", " x "], ["", " ", "\t\n", 5, Keyword("x"), ["x"]])
WORD = ("a non-empty string or a keyword", ["x", Keyword("x")], ["", " ", 5, ["x"]])
ANYTHING = ("anything", [0, "", False, [], {}], list[Any]())
BOOLEAN = ("true or false", [True, False], [0, 1, "true", Keyword("true")])
MAP = ("a map", [{}, fields(a=1)], [[], "x", 5])
VALUES: dict[str, tuple[str, list[Any], list[Any]]] = {
    **dict.fromkeys(("command", "custom-instructions", "entity", "error-message"), TEXT),
    **dict.fromkeys(("input", "path", "protocol-version", "text"), TEXT),
    **dict.fromkeys(("message", "name", "query", "dialog-id", "model-id", "job-id"), NON_BLANK),
    **dict.fromkeys(("request-id", "session-id", "since"), NON_BLANK),
    **dict.fromkeys(("action-name", "provider"), WORD),
    **dict.fromkeys(("images", "parent-session", "result", "value", "direction"), ANYTHING),
    "entry-id": ("non-empty entry id", *NON_BLANK[1:]),
    "session-path": ("non-empty path string", *NON_BLANK[1:]),
    "statuses": ("a vector", [[], ["running"], [Keyword("failed")]], ["running", 5, {}]),
    "enabled": BOOLEAN,
    "client-info": MAP,
    "topics": ("a vector of strings", [[], ["a"], ("a", "b"), frozenset({"a"})], ["a", [1], ["a", None], {}]),
    "level": ("a keyword, a string or an integer", [Keyword("low"), "low", 3], [True, 1.5, [], {}]),
    "behavior": ('one of "steer", "queue"', ["queue", Keyword("steer"), "steer"], ["", "Steer", 5, []]),
    "status": (
        'one of "submitted", "cancelled", "failed"',
        ["submitted", "cancelled", Keyword("failed"), "failed"],
        ["done", Keyword("done"), 5],
    ),
}


def test_every_parameter_has_a_kind_and_an_op() -> None:
    assert {name for op in OPS.values() for name in (*op.required, *op.optional)} == PARAMS.keys()
    assert {name for op in contract().values() for names in op for name in names} == VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
def test_a_parameter_has_one_meaning_in_every_op(name: str) -> None:
    wanted, good, bad = VALUES[name]
    fault = f"invalid request parameter :{name}: {wanted}"
    key = Keyword(name)
    for op in (Op((name,)), Op((), (name,))):
        for value in good:
            assert fault_in_params("any", op, {key: value}) is None
        for value in bad:
            assert fault_in_params("any", op, {key: value}) == fault
    assert fault_in_params("any", Op((name,)), {}) == fault
    assert fault_in_params("any", Op((name,)), {key: None}) == fault
    assert fault_in_params("any", Op((), (name,)), {}) is None
    assert fault_in_params("any", Op((), (name,)), {key: None}) is None


OWN_WORDS = {
    ("subscribe", "topics"): "subscribe :topics must be sequential",
    ("unsubscribe", "topics"): "unsubscribe :topics must be sequential",
    ("prompt_while_streaming", "behavior"): 'prompt_while_streaming :behavior must be "steer" or "queue"',
}


def fault_of(op: str, name: str) -> str:
    return OWN_WORDS.get((op, name), f"invalid request parameter :{name}: {VALUES[name][0]}")


@pytest.mark.parametrize("op", contract())
def test_an_op_takes_what_the_contract_says_and_misses_what_it_requires(op: str) -> None:
    required, optional = contract()[op]
    whole = {Keyword(name): VALUES[name][1][-1] for name in required | optional}
    if op == "handshake":
        whole = fields(client_info=fields(protocol_version="1.0"))
    for given in (whole, {key: value for key, value in whole.items() if key.name in required}):
        if given or op != "handshake":
            assert [type(item) for item in ready().receive(encode(Request("a", op, given)))] == [Request]
    for name in required:
        given = {key: value for key, value in whole.items() if key.name != name}
        assert ready().receive(encode(Request("a", op, given))) == [
            Error(
                "request/invalid-params",
                fault_of(op, name),
                "a",
                op,
            )
        ]
    for name in required | optional:
        for value in VALUES[name][2]:
            (refused,) = ready().receive(encode(Request("a", op, whole | {Keyword(name): value})))
            assert isinstance(refused, Error)
            assert refused.message == fault_of(op, name)


@pytest.mark.parametrize("table", [OPS, PARAMS, TOPICS])
def test_the_tables_cannot_be_changed(table: Any) -> None:
    with pytest.raises(TypeError):
        table["new"] = ()
