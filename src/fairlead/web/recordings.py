"""`GET /api/recordings/ID`: the file to which a session is or was recorded last, as asciinema plays it.
Players ask for parts of it."""

from __future__ import annotations

import asyncio
import os
import re
from typing import BinaryIO

from ..client.calls import RequestError
from ..system.opening import open_made
from . import limits
from .access import AccessRefused, Visitor
from .hub import Hub
from .ops import status_of
from .shared import session_named, shared_row
from .wired import Scope, Send, header, sent_fault

CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


def _opened(path: str, made: str) -> tuple[BinaryIO, int] | None:
    """The file and its size now, if it is the one that the daemon made: the session's program may have put a
    link, or another file, in its place."""
    try:
        file = open_made(path, made)
    except (OSError, ValueError):
        return None
    return file, min(os.fstat(file.fileno()).st_size, limits.MAX_RECORDING)


def range_of(asked: str | None, size: int) -> tuple[int, int] | None:
    """The part of a file that a header asks for: its first byte and the one after its last. None if all of it
    is to be sent. Raises ValueError if the file has no such part."""
    found = _RANGE.fullmatch(asked or "")
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise ValueError(f"the recording has {size} bytes")
    return begin, end


async def send_recording(hub: Hub, scope: Scope, send: Send, visitor: Visitor, id: str) -> None:
    """Send a session's recording as it is now, or a part of it."""
    share = visitor.share
    try:
        id = session_named(share, id)
        if share is not None:
            row = await shared_row(hub, share)
        else:
            row = (await hub.ask("session_find", name=id))["session"]
    except AccessRefused as error:
        await sent_fault(scope, send, error.status, error.code, str(error))
        return
    except RequestError as error:
        await sent_fault(scope, send, status_of(error.code), error.code, str(error))
        return
    except (ConnectionError, TimeoutError, OSError) as error:
        await sent_fault(scope, send, 503, "web/away", str(error))
        return
    path, made = row.get("last_recording"), row.get("recording_file")
    opened = None
    if isinstance(path, str) and isinstance(made, str):
        opened = await asyncio.to_thread(_opened, path, made)
    if opened is None:
        await sent_fault(scope, send, 404, "request/not-found", "this session is not recorded")
        return
    file, size = opened
    name = "".join(each if each.isascii() and each.isalnum() else "-" for each in str(row["id"]))[:80]
    with file:
        try:
            part = range_of(header(scope, b"range"), size)
        except ValueError as error:
            of = (b"content-range", f"bytes */{size}".encode())
            await sent_fault(scope, send, 416, "request/invalid-params", str(error), (of,))
            return
        begin, end = part or (0, size)
        left = end - begin
        headers = [
            (b"content-type", b"application/x-asciicast"),
            (b"content-disposition", f'attachment; filename="{name}.cast"'.encode()),
            (b"content-length", str(left).encode()),
            (b"accept-ranges", b"bytes"),
        ]
        if part is not None:
            headers.append((b"content-range", f"bytes {begin}-{end - 1}/{size}".encode()))
        await send({"type": "http.response.start", "status": 206 if part else 200, "headers": headers})
        if begin:
            await asyncio.to_thread(file.seek, begin)
        while left > 0 and (data := await asyncio.to_thread(file.read, min(CHUNK, left))):
            left -= len(data)
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
