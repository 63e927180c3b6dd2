"""The tools that search the project: find (names) and grep (text).

Both run ripgrep, or the stand-in for it that comes with us, as a process of its own: a pattern that takes
forever then costs a process and not the daemon. What git ignores is left out, links are not followed, and
files that may hold secrets are only searched when they are named.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ...system.opening import open_here, path_text, resolve
from ..models import ToolSpec
from ..secrets import is_secret_file
from . import Result, ToolContext, Touch
from .arguments import checked, schema
from .globs import matcher

MAX_FOUND = 1000
"""How many files find gives at the most."""
MAX_MATCHES = 200
"""How many matches grep gives at the most."""
MAX_CONTEXT = 20
MAX_LINE = 400
"""How many characters of a line are shown."""
MAX_BYTES = 50 * 1024
"""How much text grep gives at the most."""
MAX_PATTERN = 4096
TIME_LIMIT = 30.0
"""Seconds that a search may take."""
_ALWAYS = ("--hidden", "--no-require-git", "--no-ignore-global", "--no-messages", "--glob", "!.git")
_CHUNK = 64 * 1024
_BATCH = 500
"""How many files are named to one search."""
_MAX_RECORD = 16 * 1024 * 1024
"""The longest line of output that is taken from the searching process."""
_MAX_COMPLAINT = 4096


class FindArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(
            description="A glob such as *.py or src/**/*.md. Without a slash it is about the name only.",
            min_length=1,
            max_length=MAX_PATTERN,
        ),
    ]
    path: Annotated[str, Meta(description="Where to search; the project if not given.")] = "."
    limit: Annotated[int, Meta(description="How many files to give.", ge=1, le=MAX_FOUND)] = MAX_FOUND


class Find:
    """Gives the files whose names match."""

    spec = ToolSpec(
        "find",
        f"Find files by a glob. What git ignores is left out. At most {MAX_FOUND} files, sorted.",
        schema(FindArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        wanted = checked("find", arguments, FindArguments)
        path = resolve(wanted.path, cwd)
        return Touch("read", f"find {wanted.pattern} in {path_text(path, cwd)}", (path,))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = checked("find", arguments, FindArguments)
        top = resolve(wanted.path, context.cwd)
        if not _is_directory(top):
            raise ValueError(f"{path_text(top, context.cwd)} is not a directory")
        is_wanted = matcher(wanted.pattern)
        found: list[str] = []
        search = _Search(context, top)
        async with aclosing(search.files()) as files:
            async for name in files:
                if is_wanted(name):
                    found.append(name)
                    if len(found) > wanted.limit:
                        break
        note = search.note
        if len(found) > wanted.limit:
            note = f"[There are more than {wanted.limit} files; use a narrower pattern.]"
        prefix = f"{path_text(top, context.cwd)}/".removeprefix("./")
        lines = [f"{prefix}{path_text(name)}" for name in found[: wanted.limit]]
        details = {"path": str(top), "count": len(lines), "truncated": len(found) > wanted.limit}
        return Result(
            "\n".join([*lines, *filter(None, [note])]) or "[No file matches.]", details, search.is_broken
        )


class GrepArguments(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(description="A regular expression, matched line by line.", min_length=1, max_length=MAX_PATTERN),
    ]
    path: Annotated[str, Meta(description="A file or a directory; the project if not given.")] = "."
    glob: Annotated[
        str, Meta(description="Only files that match this, such as *.py.", max_length=MAX_PATTERN)
    ] = ""
    ignore_case: Annotated[bool, Meta(description="Whether A and a are the same.")] = False
    literal: Annotated[bool, Meta(description="Whether the pattern is plain text.")] = False
    context: Annotated[
        int, Meta(description="How many lines to show around a match.", ge=0, le=MAX_CONTEXT)
    ] = 0
    limit: Annotated[int, Meta(description="How many matches to give.", ge=1, le=MAX_MATCHES)] = 100


class Grep:
    """Gives the lines that match."""

    spec = ToolSpec(
        "grep",
        "Search the text of files. Gives path:line: text. What git ignores, binary files and files with "
        f"secrets are left out. At most {MAX_MATCHES} matches; long lines are cut.",
        schema(GrepArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        wanted = checked("grep", arguments, GrepArguments)
        path = resolve(wanted.path, cwd)
        return Touch("read", f"search {wanted.pattern!r} in {path_text(path, cwd)}", (path,))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = checked("grep", arguments, GrepArguments)
        if "\n" in wanted.pattern:
            raise ValueError("pattern: a match is within one line, so it can't have a line feed")
        top = resolve(wanted.path, context.cwd)
        search = _Search(context, top)
        shower = _Matches(wanted, search, context)
        async with aclosing(search.matches(wanted)) as records:
            async for record in records:
                if not shower.take(record):
                    break
        lines = [*shower.lines, *filter(None, [shower.note, search.note])]
        details = {"path": str(top), "matches": shower.matches, "truncated": bool(shower.note)}
        return Result("\n".join(lines) or "[Nothing matches.]", details, search.is_broken)


class _Matches:
    """Makes text of what a search reports, up to a limit."""

    def __init__(self, wanted: GrepArguments, search: _Search, context: ToolContext) -> None:
        self.lines: list[str] = []
        self.matches = 0
        self.note = ""
        self._limit = wanted.limit
        self._has_gaps = wanted.context > 0
        self._room = MAX_BYTES
        self._search = search
        self._context = context
        self._last: tuple[str, int] | None = None
        self._is_left_out = lru_cache(maxsize=16)(self._judge)  # matches of one file come together

    def _judge(self, name: str) -> bool:
        if self._search.is_file:
            return False  # it was named, and judged
        if is_secret_file(PurePosixPath(name)):
            return True
        return self._context.is_hidden is not None and self._context.is_hidden(self._search.base / name)

    def take(self, record: dict[str, Any]) -> bool:
        """Take one record; False if there is room for no more."""
        kind = record.get("type")
        if kind not in ("match", "context"):
            return True
        data = record["data"]
        name, text, number = _decoded(data["path"]), _decoded(data["lines"]), int(data["line_number"])
        if self._is_left_out(name) or "\0" in text:
            return True
        if kind == "match":
            if self.matches == self._limit:
                self.note = f"[There are more than {self._limit} matches; use a narrower pattern or path.]"
                return False
            self.matches += 1
        text = text.rstrip("\r\n")
        if len(text) > MAX_LINE:
            text = f"{_around(text, data)} [cut: {len(text)} characters]"
        mark = ":" if kind == "match" else "-"
        path = path_text(self._search.base / name, self._context.cwd)
        line = f"{path}{mark}{number}{mark} {text}"
        if self._last is not None and self._last != (name, number - 1) and self._has_gaps:
            self.lines.append("--")
        self._last = name, number
        self._room -= len(line.encode("utf-8", "replace")) + 1
        if self._room < 0:
            self.note = (
                f"[There is more than {MAX_BYTES // 1024} KB of text; use a narrower pattern or path.]"
            )
            return False
        self.lines.append(line)
        return True


def _around(text: str, data: dict[str, Any]) -> str:
    """The part of a long line that has its first match."""
    spans = data.get("submatches") or [{"start": 0}]
    at = len(text.encode()[: spans[0]["start"]].decode("utf-8", "ignore"))
    start = max(0, min(at - MAX_LINE // 4, len(text) - MAX_LINE))
    return ("..." if start else "") + text[start : start + MAX_LINE]


def _decoded(value: dict[str, str]) -> str:
    """Text of ripgrep's JSON, which has bytes that are not UTF-8 in base64."""
    if "text" in value:
        return value["text"]
    return msgspec.convert(value["bytes"], bytes).decode("utf-8", "surrogateescape")


def _is_directory(path: Path) -> bool:
    descriptor = open_here(path, os.O_RDONLY)
    try:
        return stat.S_ISDIR(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


class _Search:
    """One search below a directory, or in a file; it ends by itself, at a time limit, or when aborted."""

    def __init__(self, context: ToolContext, top: Path) -> None:
        self._context = context
        self.is_file = not _is_directory(top)
        self._name = top.name
        self.base = top.parent if self.is_file else top
        """What the names that come out are relative to."""
        self._deadline = asyncio.get_running_loop().time() + TIME_LIMIT
        self.note = ""
        self.is_broken = False

    async def files(self) -> AsyncGenerator[str, None]:
        """The names of all files, from the top, in order."""
        async with aclosing(self._run(["--files", "--null", "--sort", "path"], b"\0")) as records:
            async for record in records:
                yield os.fsdecode(record).removeprefix("./")

    async def matches(self, wanted: GrepArguments) -> AsyncGenerator[dict[str, Any], None]:
        """ripgrep's records of matches."""
        arguments = ["--json", "--sort", "path", "--context", str(wanted.context)]
        if wanted.ignore_case:
            arguments.append("--ignore-case")
        if wanted.literal:
            arguments.append("--fixed-strings")
        arguments.append(f"--regexp={wanted.pattern}")
        async with aclosing(self._searched(wanted.glob)) as batches:
            async for names in batches:
                async with aclosing(self._run([*arguments, "--", *names], b"\n")) as records:
                    async for record in records:
                        yield msgspec.json.decode(record, type=dict[str, Any])

    async def _searched(self, glob: str) -> AsyncGenerator[Sequence[str], None]:
        """What to name to ripgrep. A glob is not given to it, as that would bring ignored files back."""
        if self.is_file or not glob:
            yield [f"./{self._name}" if self.is_file else "."]
            return
        is_wanted = matcher(glob)
        batch: list[str] = []
        async with aclosing(self.files()) as files:
            async for name in files:
                if is_wanted(name) and not is_secret_file(PurePosixPath(name)):
                    batch.append(f"./{name}")
                if len(batch) == _BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def _run(self, arguments: list[str], end: bytes) -> AsyncGenerator[bytes, None]:
        """What ripgrep prints, cut at `end`."""
        if self.is_broken:
            return
        program, environment = self._program()
        process = await asyncio.create_subprocess_exec(
            *program,
            *_ALWAYS,
            *arguments,
            cwd=self.base,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        complaint = asyncio.ensure_future(process.stderr.read(_MAX_COMPLAINT))
        rest = b""
        try:
            while chunk := await self._chunk(process.stdout):
                *whole, rest = (rest + chunk).split(end)
                for record in whole:
                    yield record
                if len(rest) > _MAX_RECORD:
                    self._break("a line is too long to be searched")
                    break
            if not self.is_broken and await process.wait() > 1:
                self._break((await complaint).decode("utf-8", "replace").strip() or "the search failed")
        finally:
            if process.returncode is None:
                process.kill()
            await complaint
            await process.communicate()  # so that its pipes close

    def _program(self) -> tuple[list[str], dict[str, str]]:
        environment = self._context.environment
        if rg := shutil.which("rg", path=environment.get("PATH")):
            return [rg, "--no-config"], environment
        # it finds what we find, and nothing of the directory that it searches
        places = os.pathsep.join(place for place in sys.path if os.path.isabs(place))
        stand_in = [sys.executable, "-P", "-m", f"{__package__}.ripgrep"]
        return stand_in, {**environment, "PYTHONPATH": places, "PYTHONIOENCODING": "utf-8"}

    async def _chunk(self, stream: asyncio.StreamReader) -> bytes:
        """Some output; nothing at the end, or when it is time to stop."""
        reading = asyncio.ensure_future(stream.read(_CHUNK))
        aborting = asyncio.ensure_future(self._context.aborted.wait())
        patience = self._deadline - asyncio.get_running_loop().time()
        try:
            await asyncio.wait([reading, aborting], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if self._context.aborted.is_set():
                self._break("aborted")
            elif not reading.done():
                self._break(
                    f"the search took longer than {TIME_LIMIT:g} seconds; use a narrower pattern or path"
                )
            else:
                return reading.result()
            return b""
        finally:
            for task in (reading, aborting):
                task.cancel()
            await asyncio.wait([reading, aborting])

    def _break(self, why: str) -> None:
        self.is_broken = True
        self.note = f"[{why}]"
