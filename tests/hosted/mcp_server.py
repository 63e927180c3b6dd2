"""A small MCP server with one tool, which plants what it is told to. Standard library only."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "plant",
    "description": "plant something in the garden",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}


def answered(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            about = {"name": "garden", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            text = f"planted {params['arguments']['what']}"
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case "ping":
            return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answered(message["method"], message.get("params") or {})
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
