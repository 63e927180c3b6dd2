"""The pages that browsers run: read once when the console starts, kept compressed, and served by exact names.

Their version is a hash over all of them; it is part of their paths, so that browsers may keep them for ever.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from typing import NamedTuple

from . import limits
from .wired import Receive, Scope, Send, header, sent_fault

PAGES = os.path.join(os.path.dirname(__file__), "pages")
ENTRIES = {
    "/": "index.html",
    "/in": "in.html",
    "/sw.js": "sw.js",
    "/manifest.webmanifest": "manifest.webmanifest",
}
"""Paths that stay the same from version to version; in these files `{{static}}` is where the others are."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
}
_FOREVER = b"public, max-age=31536000, immutable"
_ASKED = b"no-cache"


class Page(NamedTuple):
    """One file."""

    packed: bytes
    type: bytes
    tag: bytes
    cache: bytes


def read_pages(directory: str = PAGES) -> dict[str, Page]:
    """All files of the pages, by the paths under which they are served."""
    files = {}
    for where, inner, names in os.walk(directory):
        inner[:] = [each for each in inner if not each.startswith((".", "__"))]
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory).replace(os.sep, "/")] = file.read()
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    place = f"/static/{whole.hexdigest()[:16]}"
    pages = {f"{place}/{name}": _page(name, data, _FOREVER) for name, data in files.items()}
    for path, name in ENTRIES.items():
        pages[path] = _page(name, files[name].replace(b"{{static}}", place.encode()), _ASKED)
    return pages


def _page(name: str, data: bytes, cache: bytes) -> Page:
    kind = TYPES.get(os.path.splitext(name)[1], "text/plain; charset=utf-8")
    tag = f'"{hashlib.sha256(data).hexdigest()[:24]}"'.encode()
    return Page(gzip.compress(data, 9, mtime=0), kind.encode(), tag, cache)


async def send_page(pages: dict[str, Page], scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for one of the pages."""
    page = pages.get(scope["path"])
    if page is None:
        await sent_fault(scope, send, 404, "request/not-found", "there is no such page")
        return
    headers = [
        (b"content-type", page.type),
        (b"cache-control", page.cache),
        (b"etag", page.tag),
        (b"vary", b"accept-encoding"),
    ]
    if page.tag.decode() in (header(scope, b"if-none-match") or ""):
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    body = page.packed
    if "gzip" in (header(scope, b"accept-encoding") or ""):
        headers.append((b"content-encoding", b"gzip"))
    else:
        body = gzip.decompress(body)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with asyncio.timeout(limits.STALL_SECONDS):
        for at in range(0, len(body), limits.CHUNK):
            piece = body[at : at + limits.CHUNK]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
