"""An editor made with the protocol's Python SDK, which drives `fairlead acp`. Run by the Python of
`.venv/peers`: COMMAND of the agent, then the directory. What it saw is printed, one JSON value a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import acp
from acp import helpers, schema


def saw(name: str, value: Any) -> None:
    data = (
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(value, "model_dump")
        else value
    )
    print(json.dumps([name, data]), flush=True)


class Client:
    """Allows the first call and denies the second."""

    def __init__(self) -> None:
        self.asked = 0
        self.hangs = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        saw("update", update)
        if "hanging" in str(update):
            self.hangs.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **more: Any
    ) -> Any:
        saw("permission", tool_call)
        wanted = ("allow_once", "reject_once")[self.asked]
        self.asked += 1
        (chosen,) = (each.option_id for each in options if each.kind == wanted)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)


async def main() -> None:
    *command, cwd = sys.argv[1:]
    client = Client()
    async with acp.spawn_agent_process(client, *command, env=dict(os.environ)) as (agent, _):
        saw("initialize", await agent.initialize(protocol_version=1))
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        for text in ("think plan free done", "tool done", "tool done"):
            prompt = [helpers.text_block(text)]
            saw("prompt", await agent.prompt(session_id=session, prompt=prompt))
        running = asyncio.create_task(agent.prompt(session_id=session, prompt=[helpers.text_block("hang")]))
        await client.hangs.wait()
        await agent.cancel(session_id=session)
        saw("prompt", await running)
        saw("mode", await agent.set_session_mode(session_id=session, mode_id="bold"))
        option = {"config_id": "mode", "session_id": session, "value": "ask"}
        saw("option", await agent.set_config_option(**option))
        saw("list", await agent.list_sessions(cwd=cwd))
        saw("close", await agent.close_session(session_id=session))
        saw("load", await agent.load_session(cwd=cwd, session_id=session, mcp_servers=[]))
        try:
            await agent.load_session(cwd=cwd, session_id="never", mcp_servers=[])
        except acp.RequestError as error:
            saw("refused", error.code)


asyncio.run(main())
