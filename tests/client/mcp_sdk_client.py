"""A client of `fairlead mcp` made with the official SDK, run by the Python of `.venv/peers`.

    python mcp_sdk_client.py handshake|stateless PROJECT FAIRLEAD…

Prints one JSON value for each step, and waits after `asking` for an answer that a person gives.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def tell(name: str, value: Any) -> None:
    print(json.dumps([name, value]), flush=True)


async def main(era: str, project: str, command: list[str]) -> None:
    params = StdioServerParameters(
        command=command[0], args=[*command[1:], "mcp"], cwd=project, env=dict(os.environ)
    )
    mode = "legacy" if era == "handshake" else "auto"
    async with Client(stdio_client(params), mode=mode) as client:
        tell("revision", client.protocol_version)
        tell("tools", [tool.name for tool in (await client.list_tools()).tools])
        await client.call_tool("start_session", {"name": f"sdk-{era}", "agent": "own"})
        said = await client.call_tool("prompt_session", {"session": f"sdk-{era}", "text": "list ."})
        tell("prompted", said.structured_content)
        refused = await client.call_tool("read_session", {"session": "nobody"})
        tell("refused", [refused.is_error, refused.content[0].text])
        progress: list[str | None] = []

        async def told(done: float, total: float | None, message: str | None) -> None:
            progress.append(message)

        asking = asyncio.create_task(
            client.call_tool("ask_person", {"question": f"{era}?"}, progress_callback=told)
        )
        while not progress:
            await asyncio.sleep(0.05)
        tell("asking", progress[0])
        tell("answer", (await asking).structured_content)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
