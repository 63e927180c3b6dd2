"""The tools that read and change single files and list directories: read, ls, edit, write."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import os
import secrets
import stat
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ...formats.shown import counted, middle
from ...keeper import masks
from ...system.opening import directory, kind_of, links_to, open_here, path_text, resolve
from ..models import ToolSpec
from ..secrets import is_secret_file
from . import IN_JOURNAL, Result, ToolContext, Touch, diff, kinds
from .arguments import checked, schema
from .replacing import BOM, Replacement, replaced

MAX_LINES = 2000
"""How many lines a file is read at once."""
MAX_BYTES = 50 * 1024
"""How many bytes they may have together."""
MAX_TEXT = 8 * 1024 * 1024
"""How large a file may be that is edited, and how much can be written."""
MAX_PREVIEWED = 1024 * 1024
"""How large a file may be for its diff to be shown before the change is allowed."""
MAX_PREVIEW = 240 * 1024
"""How many characters a preview has at the most; of a longer one the middle is left out. A question must
have room for it (MAX_WHOLE)."""
MAX_EDITS = 100
"""How many replacements one call makes at the most."""
MAX_ENTRIES = 500
"""How many entries of a directory are listed."""
_CHUNK = 1024 * 1024

_PathArgument = Annotated[
    str,
    Meta(description="Relative to the project, absolute, or with ~ for the home directory.", min_length=1),
]


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _PathArgument
    offset: Annotated[int, Meta(description="The first line to read, counted from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="How many lines to read.", ge=1, le=MAX_LINES)] = MAX_LINES


class Read:
    """Gives the text of a file, in pieces if it is long."""

    spec = ToolSpec(
        "read",
        f"Read a text file. At most {MAX_LINES} lines or {MAX_BYTES // 1024} KB are given at once; go on "
        "with `offset`. Pictures are described; other binary files are refused.",
        schema(ReadArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        path = resolve(checked("read", arguments, ReadArguments).path, cwd)
        return Touch("read", f"read {path_text(path, cwd)}", (path,))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = checked("read", arguments, ReadArguments)
        path = resolve(wanted.path, context.cwd)
        return await asyncio.to_thread(_read, path, path_text(path, context.cwd), wanted.offset, wanted.limit)


def _read(path: Path, name: str, offset: int, limit: int) -> Result:
    with os.fdopen(_open_regular(path, name), "rb", buffering=_CHUNK // 4) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(kinds.HEAD)
        if picture := kinds.picture(head):
            return _described(picture, name, size)
        if kind := kinds.binary(head):
            words = f"{name} is a binary file ({kind}, {kinds.size_in_words(size)}) and can't be read as text"
            return Result(words, {"kind": kind, "size": size}, is_error=True)
        file.seek(0)
        if (count := _skip(file, offset - 1)) is not None:
            return Result(f"{name} has {counted(count, 'line')}; there is no line {offset}", is_error=True)
        lines, is_cut, is_more = _take(file, limit)
    text = b"".join(lines).decode("utf-8", "replace")
    if offset == 1:
        text = text.removeprefix(BOM)
    last = offset + len(lines) - 1
    details = {
        "path": str(path),
        "firstLine": offset,
        "lastLine": last,
        "size": size,
        "truncated": is_more or is_cut,
    }
    if is_cut:
        text += (
            f"\n[Line {last} is longer than {kinds.size_in_words(MAX_BYTES)}: this is its beginning. "
            f"To see more of it, cut a part out with a command.]"
        )
    elif is_more:
        whole = kinds.size_in_words(size)
        text += f"\n[Lines {offset} to {last} of a file of {whole}; go on with offset={last + 1}.]"
    return Result(text or f"[{name} is empty.]", details)


def _open_regular(path: Path, name: str) -> int:
    descriptor = open_here(path, os.O_RDONLY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    instead = "; use ls to see what is in it" if stat.S_ISDIR(mode) else ""
    raise ValueError(f"{name} is {kind_of(mode)}, not a file with text{instead}")


def _described(picture: kinds.ImageFormat, name: str, size: int) -> Result:
    pixels = f", {picture.width} × {picture.height} pixels" if picture.width else ""
    details = {"mimeType": picture.mime_type, "width": picture.width, "height": picture.height, "size": size}
    return Result(f"{name} is a picture ({picture.name}{pixels}, {kinds.size_in_words(size)}).", details)


def _skip(file: Any, count: int) -> int | None:
    """Skip lines. If there are none after them: how many the file has."""
    skipped = 0
    is_open = False  # whether a line has begun that has not ended
    while skipped < count:
        chunk = file.read(_CHUNK)
        if not chunk:
            return skipped + is_open
        ends = chunk.count(b"\n")
        if skipped + ends < count:
            skipped += ends
            is_open = not chunk.endswith(b"\n")
            continue
        at = 0
        for _ in range(count - skipped):
            at = chunk.index(b"\n", at) + 1
        file.seek(at - len(chunk), os.SEEK_CUR)
        return None if file.peek(1) else count
    return None


def _take(file: Any, limit: int) -> tuple[list[bytes], bool, bool]:
    """Some lines, whether the one line there is had to be cut, and whether there are more."""
    lines: list[bytes] = []
    room = MAX_BYTES
    while len(lines) < limit:
        line = file.readline(room + 1)
        if len(line) > room:
            if lines:
                return lines, False, True
            return [line[:room]], True, True
        if not line:
            return lines, False, False
        lines.append(line)
        room -= len(line)
    return lines, False, bool(file.read(1))


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The directory; the project if not given.")] = "."
    limit: Annotated[int, Meta(description="How many entries to list.", ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class List:
    """Gives the names in a directory."""

    spec = ToolSpec(
        "ls",
        f"List a directory, sorted, hidden entries as well; directories end in /. At most {MAX_ENTRIES}.",
        schema(ListArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        path = resolve(checked("ls", arguments, ListArguments).path, cwd)
        return Touch("read", f"list {path_text(path, cwd)}", (path,))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = checked("ls", arguments, ListArguments)
        path = resolve(wanted.path, context.cwd)
        return await asyncio.to_thread(_list, path, path_text(path, context.cwd), wanted.limit)


def _list(path: Path, name: str, limit: int) -> Result:
    descriptor = open_here(path, os.O_RDONLY)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise ValueError(f"{name} is not a directory; use read to see what is in it")
        count = 0

        def entries() -> Any:
            nonlocal count
            with os.scandir(descriptor) as found:
                for entry in found:
                    count += 1
                    yield entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()

        # a directory may have millions of entries: only the first ones are held
        first = heapq.nsmallest(limit, entries(), key=lambda entry: (entry[0].casefold(), entry[0]))
        lines = []
        for entry, is_directory, is_link in first:
            end = "/" if is_directory else ""
            if is_link:
                end = f" -> {path_text(os.readlink(entry, dir_fd=descriptor))}"
            lines.append(f"{path_text(entry)}{end}")
    finally:
        os.close(descriptor)
    if count > limit:
        lines.append(f"[{limit} of {count} entries.]")
    return Result("\n".join(lines) or f"[{name} is empty.]", {"path": str(path), "entries": count})


class EditArguments(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    path: _PathArgument
    edits: Annotated[
        list[Replacement],
        Meta(
            description="Each is found in the file as it was before the call. They must not overlap.",
            min_length=1,
            max_length=MAX_EDITS,
        ),
    ]


class _OneEdit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The short form: one replacement, without a list."""

    path: str
    old_text: str
    new_text: str


def _edit_arguments(arguments: dict[str, Any]) -> EditArguments:
    if "edits" in arguments or not {"oldText", "old_text"} & arguments.keys():
        return checked("edit", arguments, EditArguments)
    one = checked("edit", arguments, _OneEdit)
    return EditArguments(one.path, [Replacement(one.old_text, one.new_text)])


class Edit:
    """Replaces exact pieces of a file."""

    spec = ToolSpec(
        "edit",
        "Replace exact text in a file. Each oldText must match exactly one place; line endings are kept. "
        "Gives the diff.",
        schema(EditArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        wanted = _edit_arguments(arguments)
        path = resolve(wanted.path, cwd)
        name = path_text(path, cwd)
        text, seen = _before(path, name)
        try:  # run says what is wrong, when it may: it can tell what is in the file
            preview = diff.between(text, replaced(text, wanted.edits), is_whole=True).text if text else ""
        except ValueError:
            preview = ""
        preview = preview or "\n".join(_as_diff(each) for each in wanted.edits)
        return _change(f"edit {name}", path, preview, _seal(text, seen), links_to(wanted.path, cwd))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = _edit_arguments(arguments)
        path = resolve(wanted.path, context.cwd)
        judged = context.judged.seen if context.judged else ""
        return await asyncio.to_thread(_edit, path, path_text(path, context.cwd), wanted.edits, judged)


def _edit(path: Path, name: str, edits: list[Replacement], judged: str) -> Result:
    old, seen = _text(path, name, MAX_TEXT)
    _insist_on(judged, name, old, seen)
    try:
        new = replaced(old, edits)
    except ValueError as error:
        return Result(f"{name}: {error}", is_error=True)
    _save(path, name, new, seen)
    made = diff.between(old, new)
    return Result(f"{name}: {counted(len(edits), 'edit')} made.\n{made.text}", _details(path, made))


def _details(path: Path, made: diff.Diff) -> dict[str, Any]:
    return {
        "path": str(path),
        "diff": made.text,
        "firstChangedLine": made.first_changed_line,
        "added": made.added,
        "removed": made.removed,
    }


def _as_diff(each: Replacement) -> str:
    taken = (f"-{line}" for line in each.old_text.removesuffix("\n").split("\n"))
    given = (f"+{line}" for line in each.new_text.removesuffix("\n").split("\n"))
    return "\n".join((*taken, *given))


def _change(what: str, path: Path, preview: str, seen: str, links: tuple[Path, ...]) -> Touch:
    """A file that would be changed."""
    shown = middle(preview, MAX_PREVIEW, IN_JOURNAL)
    return Touch("write", what, (path,), preview=shown, seen=seen, links=links)


class WriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _PathArgument
    content: Annotated[str, Meta(description="The whole text of the file.")]


class Write:
    """Makes a file, or gives one that is there a new text."""

    spec = ToolSpec(
        "write",
        "Write a whole file; directories are created as needed. What was in it is replaced: to change a "
        "part, use edit.",
        schema(WriteArguments),
    )

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        wanted = checked("write", arguments, WriteArguments)
        path = resolve(wanted.path, cwd)
        name = path_text(path, cwd)
        text, seen = _before(path, name)
        what, preview = f"{'create' if seen is None else 'write'} {name}", wanted.content
        has_diff = text is not None and len(wanted.content) <= MAX_PREVIEWED
        if text is not None and has_diff:
            preview = diff.between(text, wanted.content, is_whole=True).text or preview
        if seen is not None and (not has_diff or len(preview) > MAX_PREVIEW):
            what += f", replacing {_size_of(path, name, seen)}"
        return _change(what, path, preview, _seal(text, seen), links_to(wanted.path, cwd))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        wanted = checked("write", arguments, WriteArguments)
        path = resolve(wanted.path, context.cwd)
        judged = context.judged.seen if context.judged else ""
        return await asyncio.to_thread(_write, path, path_text(path, context.cwd), wanted.content, judged)


def _write(path: Path, name: str, content: str, judged: str) -> Result:
    seen: os.stat_result | None = None
    old: str | None = None
    try:
        old, seen = _text(path, name, MAX_TEXT)
    except FileNotFoundError:
        pass
    except _NoText as error:
        seen = error.seen  # it is replaced as a whole, whatever it was
    _insist_on(judged, name, old, seen)
    size = _save(path, name, content, seen)
    made = diff.between(old or "", content)
    verb = "replaced" if seen is not None else "created"
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return Result(
        f"{name}: {verb}, {counted(lines, 'line')}, {kinds.size_in_words(size)}.", _details(path, made)
    )


class _NoText(ValueError):
    """A file that is not text, or too much of it."""

    def __init__(self, message: str, seen: os.stat_result) -> None:
        super().__init__(message)
        self.seen = seen


def _before(path: Path, name: str) -> tuple[str | None, os.stat_result | None]:
    """What a preview is made from: a file's text, if it can be shown, and what the file is, if it is there.

    What may hold secrets is not opened for that.
    """
    try:
        return (None, os.lstat(path)) if is_secret_file(path) else _text(path, name, MAX_PREVIEWED)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            return None, os.lstat(path)
    return None, None


def _seal(text: str | None, seen: os.stat_result | None) -> str:
    """What a file held when its preview was made; a file whose text is not shown is known by its stat."""
    if text is None:
        return f"stat:{_identity(seen)}"
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _insist_on(judged: str, name: str, text: str | None, seen: os.stat_result | None) -> None:
    """Raises ValueError if a file holds something else than what the preview of its change was made from."""
    if judged and judged != _seal(text if judged.startswith("sha256:") else None, seen):
        raise ValueError(f"not done: {name} has changed since the change to it was judged; read it again")


def _size_of(path: Path, name: str, seen: os.stat_result) -> str:
    """How much is in a file that is replaced."""
    lines = ""
    if seen.st_size <= MAX_TEXT and not is_secret_file(path):
        with contextlib.suppress(OSError, ValueError), os.fdopen(_open_regular(path, name), "rb") as file:
            data = file.read(MAX_TEXT)
            lines = f"{counted(len(data.splitlines()), 'line')}, "
    return f"{lines}{kinds.size_in_words(seen.st_size)}"


def _text(path: Path, name: str, limit: int) -> tuple[str, os.stat_result]:
    """The whole text of a file, and what the file was. Raises ValueError."""
    with os.fdopen(_open_regular(path, name), "rb") as file:
        seen = os.fstat(file.fileno())
        data = file.read(limit + 1)
    if len(data) > limit:
        size = kinds.size_in_words(seen.st_size)
        raise _NoText(f"{name} has {size}, and at most {kinds.size_in_words(limit)} can be edited", seen)
    try:
        return data.decode("utf-8"), seen
    except UnicodeDecodeError:
        kind = kinds.binary(data) or "not UTF-8"
        raise _NoText(f"{name} is not text that can be edited ({kind})", seen) from None


def _save(path: Path, name: str, text: str, seen: os.stat_result | None) -> int:
    """Put a text into a file, whole or not at all. It must still be what was `seen`; its mode is kept."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the text for {name} is not valid Unicode: {error.reason}") from None
    if len(data) > MAX_TEXT:
        raise ValueError(
            f"{name}: at most {kinds.size_in_words(MAX_TEXT)} can be written, not {len(data)} bytes"
        )
    with directory(path.parent, create=seen is None) as parent:
        if _identity(_look(path.name, parent)) != _identity(seen):
            raise ValueError(f"{name} was just changed by another process; read it again")
        if seen is not None and not os.access(path.name, os.W_OK, dir_fd=parent):
            raise ValueError(f"{name} is write-protected")
        new = f".fairlead-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new, flags, 0o666 if seen is None else 0o600, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if seen is not None:
                    _take_after(file.fileno(), seen)
                elif (mode := masks.users_mode(0o666)) is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(new, dir_fd=parent)
            raise
    return len(data)


def _take_after(descriptor: int, seen: os.stat_result) -> None:
    try:
        os.fchown(descriptor, seen.st_uid, seen.st_gid)
    except PermissionError:
        pass  # it is ours now, as with any editor
    os.fchmod(descriptor, stat.S_IMODE(seen.st_mode))


def _look(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    if found is None:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
