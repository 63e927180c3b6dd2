"""The table of ops and the functions that do them agree, in names, parameters, types and answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

import fairlead.daemon.process  # imports every room
from fairlead.doors.rpc import handlers
from fairlead.doors.rpc.handlers import HANDLED, Call, handlers_of, op, run_handler
from fairlead.doors.rpc.server import OWN
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import fields
from fairlead.wire.rpc_catalog import OPS, arguments
from tests.doors.test_dialogues import DIALOGUES

Data = Mapping[Any, Any]


def test_every_op_has_one_handler_and_every_handler_an_op() -> None:
    assert fairlead.daemon.process.Daemon.daemon_status is HANDLED["daemon_status"].function
    assert HANDLED.keys() | OWN == OPS.keys()
    assert not HANDLED.keys() & OWN


def test_a_handler_that_does_not_agree_with_the_table_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "HANDLED", {})

    async def dance(self: object) -> Any: ...
    async def terminal_stop(self: object, name: int) -> Any: ...
    async def notify(self: object, text: str) -> Any: ...
    async def ping(self: object, loud: bool = False) -> Any: ...
    async def fork(self: object, call: Call, entry_id: str = "") -> Any: ...
    async def get_state(self: object) -> Any: ...

    with pytest.raises(KeyError, match="dance"):
        op(dance)
    for wrong, why in (
        (terminal_stop, "terminal_stop must take name: str$"),
        (notify, r"notify must take title: str or str \| None$"),
        (ping, "ping takes what the op does not: loud"),
        (fork, "fork must take entry_id: str$"),
        (get_state, "get_state must take session_id"),
    ):
        with pytest.raises(TypeError, match=why):
            op(wrong)


def test_a_second_handler_of_an_op_is_an_error() -> None:
    async def daemon_status(self: object) -> Any: ...

    with pytest.raises(TypeError, match="daemon_status has two handlers"):
        op(daemon_status)


def test_a_handler_gets_what_is_given_with_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "HANDLED", {})

    class Room:
        @op
        async def get_messages(self, call: Call, from_: int = 0, limit: int | None = None) -> Data:
            return {"session": call.session_id, "from": from_, "limit": limit}

        @op
        async def frontend_action_result(
            self,
            call: Call,
            request_id: str,
            action_name: str,
            status: str,
            ui_action: Any = None,
            value: Any = None,
            error_message: str = "",
        ) -> Data:
            return {"all": (request_id, action_name, status, ui_action, value, error_message)}

    def answer(name: str, params: dict[Any, Any]) -> Data:
        caller: Any = None

        async def run() -> Data:
            call = Call(caller, "1", name, params.get(Keyword("session-id")))
            return await run_handler(handlers_of(Room())[name], call, arguments(OPS[name], params))

        return asyncio.run(run())

    given = fields(session_id="s", limit=None, other=1) | {Keyword("from"): 3}
    assert answer("get_messages", given) == {"session": "s", "from": 3, "limit": None}
    params = fields(request_id="r", action_name=Keyword("select-model"), status=Keyword("failed"))
    params[Keyword("ui/action")] = {}
    assert answer("frontend_action_result", params) == {"all": ("r", "select-model", "failed", {}, None, "")}


@pytest.mark.parametrize("dialogue", sorted(DIALOGUES.glob("rpc-*.txt")), ids=lambda path: path.stem)
def test_answers_have_the_keys_that_the_table_says(dialogue: Any) -> None:
    text = dialogue.read_text().replace("\n  ", " ")
    responses = re.findall(r"^< (\{:id .*:kind :response, .*\})$", text, re.MULTILINE)
    assert responses
    for line in responses:
        response = edn.loads(re.sub(r"<[a-z ]+>", "0", line))
        op, data = response[Keyword("op")], response[Keyword("data")]
        assert {key.name for key in data} <= set(OPS[op].answer), op
