"""Calling tools as a session does."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.agent.secrets import Redactor, environment_for_commands
from fairlead.agent.tools import Result, Tool, ToolContext, Touch, run_tool


def context_in(
    cwd: Path, update: Callable[[str, dict[str, Any]], None] | None = None, **more: Any
) -> ToolContext:
    """A context; to be made where a loop runs."""
    settings: dict[str, Any] = {
        "aborted": asyncio.Event(),
        "environment": environment_for_commands(os.environ),
        **more,
    }
    return ToolContext(
        Path(os.path.realpath(cwd)), "session", "call-1", update or (lambda text, details: None), **settings
    )


def call(tool: Tool, cwd: Path, /, judged: Touch | None = None, **arguments: Any) -> Result:
    """Run a call to its end."""

    async def run() -> Result:
        return await run_tool(tool, arguments, context_in(cwd, judged=judged), Redactor())

    return asyncio.run(run())
