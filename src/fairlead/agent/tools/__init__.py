"""Tools that a model may call: each takes checked arguments and a context, and gives a result.

A tool says what it would do (`effect`), so that a policy can judge a call before it runs; it never asks for
permission itself. What goes wrong is a result with `is_error`, in words that help the model to do better; a
tool raises only for our own faults. Results are bounded; what was cut off is said, and where the rest is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct

from ..models import ToolSpec
from ..secrets import Redactor

if TYPE_CHECKING:
    from .shell import Terminals

IN_JOURNAL = "the call in the session's journal has all"
"""Where the rest of a preview is; a question names the journal."""
Effect = Literal["read", "write", "run"]


class Result(Struct, frozen=True):
    """What a tool gives back: text for the model, details for those who show it."""

    text: str
    details: dict[str, Any] = {}
    is_error: bool = False


class Touch(Struct, frozen=True):
    """What a call would do: its effect, the files it touches, the command it runs, and it all in one line."""

    effect: Effect
    summary: str
    paths: tuple[Path, ...] = ()
    """Absolute, with links followed."""
    command: str | None = None
    preview: str = ""
    """What a person should see before they allow it: the diff of an edit, the text of a new file."""
    seen: str = ""
    """What the file held, or that it was not there, when the preview was made; empty if no file is changed. A
    file that holds something else by now is not changed."""
    links: tuple[Path, ...] = ()
    """The links that were followed to a file that is changed: what obeys it may know it by their names."""


class ToolContext(Struct):
    """Where a call runs."""

    cwd: Path
    session_id: str
    call_id: str
    update: Callable[[str, dict[str, Any]], None]
    """Tell what there is so far: text and details."""
    aborted: asyncio.Event
    environment: dict[str, str]
    """For commands: without keys and secrets."""
    judged: Touch | None = None
    """What the policy has judged. A call that would by now touch something else is refused."""
    is_hidden: Callable[[Path], bool] | None = None
    """Whether a file is left out when all that is in a directory is searched, though that is allowed."""


class Tool(Protocol):
    """One tool."""

    @property
    def spec(self) -> ToolSpec: ...

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        """What a call would do. Raises ValueError if the arguments make no sense."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result: ...


async def run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext, redactor: Redactor) -> Result:
    """Run a call that is allowed. Secrets are taken out of whatever it tells and gives back.

    What can go wrong with files and arguments becomes a result with `is_error`. If the context says what was
    judged, and the call would touch other files by now, it does not run.
    """

    def update(text: str, details: dict[str, Any]) -> None:
        context.update(redactor.unfinished(text), redactor.value(details))

    try:
        if context.aborted.is_set():
            return Result("aborted before it began", is_error=True)
        if context.judged is not None:
            _insist(context.judged, tool.touches(arguments, context.cwd))
        result = await tool.run(arguments, msgspec.structs.replace(context, update=update))
    except OSError as error:
        name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        result = Result(f"{name}{error.strerror or error}", is_error=True)
    except ValueError as error:
        result = Result(str(error), is_error=True)
    return Result(redactor.text(result.text), redactor.value(result.details), result.is_error)


def _insist(judged: Touch, now: Touch) -> None:
    """Raises ValueError if a call would do something else than what was judged."""
    if (judged.effect, judged.paths, judged.command) != (now.effect, now.paths, now.command):
        there = ", ".join(map(str, now.paths)) or now.summary
        raise ValueError(
            f"not done: what the call leads to has changed since it was judged; it is now {there}"
        )


class Guarded:
    """A tool whose calls all go through `run_tool`; what it shows before a call is without secrets, too."""

    def __init__(self, tool: Tool, redactor: Redactor) -> None:
        self._tool = tool
        self._redactor = redactor

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        touch = self._tool.touches(arguments, cwd)
        clean = self._redactor.text
        return msgspec.structs.replace(touch, summary=clean(touch.summary), preview=clean(touch.preview))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        return await run_tool(self._tool, arguments, context, self._redactor)


def standard_tools(terminals: Terminals, outputs: Path, redactor: Redactor) -> dict[str, Tool]:
    """All tools by their names. `outputs` is the directory for output of commands that is too long to give.

    >>> from fairlead.agent.tools.shell import LocalTerminals
    >>> list(standard_tools(LocalTerminals(), Path("outputs"), Redactor()))
    ['read', 'ls', 'find', 'grep', 'edit', 'write', 'bash']
    """
    from .files import Edit, List, Read, Write
    from .search import Find, Grep
    from .shell import Bash

    tools: list[Tool] = [Read(), List(), Find(), Grep(), Edit(), Write(), Bash(terminals, outputs, redactor)]
    return {tool.spec.name: Guarded(tool, redactor) for tool in tools}
