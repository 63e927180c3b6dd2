"""A client made with the protocol's Python SDK, on stdin and stdout. Run by the Python of `.venv/peers`.

What it saw is written to stderr, one JSON value a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import acp
from acp import helpers, schema
from acp.stdio import stdio_streams


def saw(name: str, value: Any) -> None:
    data = (
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(value, "model_dump")
        else value
    )
    print(json.dumps([name, data]), file=sys.stderr, flush=True)


class Client:
    """Allows everything and reports everything."""

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        saw("update", update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **more: Any
    ) -> Any:
        saw("permission", tool_call)
        chosen = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=chosen)


async def main() -> None:
    reader, writer = await stdio_streams()
    agent = acp.connect_to_agent(Client(), writer, reader, use_unstable_protocol=True)
    info = schema.Implementation(name="sdk", version="0")
    saw("initialize", await agent.initialize(protocol_version=1, client_info=info))
    saw("authenticate", await agent.authenticate(method_id="key"))
    session = await agent.new_session(cwd="/work", mcp_servers=[])
    saw("new", session)
    saw("list", await agent.list_sessions())
    saw("mode", await agent.set_session_mode(session_id=session.session_id, mode_id="plan"))
    option = {"config_id": "model", "session_id": session.session_id, "value": "big"}
    saw("option", await agent.set_config_option(**option))
    prompt = [helpers.text_block("hello"), helpers.image_block("aGk=", "image/png")]
    saw("prompt", await agent.prompt(session_id=session.session_id, prompt=prompt))
    running = asyncio.create_task(
        agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("more")])
    )
    await asyncio.sleep(0)
    await agent.cancel(session_id=session.session_id)
    saw("cancelled", await running)
    saw("load", await agent.load_session(cwd="/work", session_id="old", mcp_servers=[]))
    saw("close", await agent.close_session(session_id=session.session_id))
    try:
        await agent.prompt(session_id="never", prompt=prompt)
    except acp.RequestError as error:
        saw("refused", error.code)
    await agent.close()


if __name__ == "__main__":
    asyncio.run(main())
