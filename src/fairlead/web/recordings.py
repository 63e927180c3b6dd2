"""`GET /api/recordings/ID`: the file to which a session is or was recorded, as asciinema plays it."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import BinaryIO

from ..client.calls import RequestError
from . import limits
from .access import AccessRefused, Visitor
from .hub import Hub
from .ops import status_of
from .shared import session_named, shared_row
from .wired import Scope, Send, sent_fault

CHUNK = 256 * 1024


def _opened(path: str) -> tuple[BinaryIO, int] | None:
    """The file and its size now, if it is a regular one of ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    file = open(descriptor, "rb")  # noqa: SIM115 - the caller closes it
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        file.close()
        return None
    return file, min(found.st_size, limits.MAX_RECORDING)


async def send_recording(hub: Hub, scope: Scope, send: Send, visitor: Visitor, id: str) -> None:
    """Send a session's recording as it is now."""
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
    path = row.get("recording")
    opened = await asyncio.to_thread(_opened, path) if isinstance(path, str) else None
    if opened is None:
        await sent_fault(scope, send, 404, "request/not-found", "this session is not recorded")
        return
    file, left = opened
    name = "".join(each if each.isascii() and each.isalnum() else "-" for each in str(row["id"]))[:80]
    with file:
        headers = [
            (b"content-type", b"application/x-asciicast"),
            (b"content-disposition", f'attachment; filename="{name}.cast"'.encode()),
            (b"content-length", str(left).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while left > 0 and (data := await asyncio.to_thread(file.read, min(CHUNK, left))):
            left -= len(data)
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
