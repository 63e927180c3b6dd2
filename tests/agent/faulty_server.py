"""Model servers on loopback with one fault each, for every protocol that models are asked through.

    with FaultyServer(FAULTS["cut before text"]("anthropic")) as server:
        ...  # ask server.root

A fault is the bytes of an HTTP response, after which the connection ends; what a server of that kind would
have said is made with `spoken`.
"""

import json
import select
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

Kind = Literal["openai", "anthropic", "google"]
KINDS: tuple[Kind, ...] = ("openai", "anthropic", "google")
PATIENCE = 30.0
"""Seconds until a server that says nothing gives up, so that a failed test ends."""


def event(data: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(data)}\n\n".encode()


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event(
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": [choice]}
    )


def spoken(kind: Kind, *, text: str = "Hello", call: bool = False, finish: str = "") -> list[bytes]:
    """A whole answer as frames: its beginning, its text in one frame, a call in two, its end."""
    if kind == "openai":
        frames = [_chunk({"role": "assistant", "content": ""})]
        frames += [_chunk({"content": text})] if text else []
        if call:
            function = {"name": "ls", "arguments": '{"pa'}
            frames.append(_chunk({"tool_calls": [{"index": 0, "id": "t1", "function": function}]}))
            frames.append(_chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'th": "."}'}}]}))
        end = _chunk({}, finish or ("tool_calls" if call else "stop"))
        return [*frames, end, b"data: [DONE]\n\n"]
    if kind == "google":
        parts = [{"text": text}] if text else []
        frames = [event({"candidates": [{"content": {"role": "model", "parts": [part]}}]}) for part in parts]
        if call:
            part = {"functionCall": {"name": "ls", "args": {"path": "."}}}
            frames.append(event({"candidates": [{"content": {"role": "model", "parts": [part]}}]}))
        reason = {"": "STOP", "length": "MAX_TOKENS"}[finish]
        last = {"content": {"role": "model", "parts": []}, "finishReason": reason}
        return [*frames, event({"candidates": [last]})]
    usage = {"input_tokens": 3, "output_tokens": 2}
    message = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "claude"}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    if call:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"pa', 'th": "."}')]
        blocks.append(({"type": "tool_use", "id": "t1", "name": "ls", "input": {}}, pieces))
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": usage}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = {"": "tool_use" if call else "end_turn", "length": "max_tokens"}[finish]
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}})
    events.append({"type": "message_stop"})
    return [event(each, each["type"]) for each in events]


def response(
    body: bytes, *, status: str = "200 OK", type: str = "text/event-stream", headers: Sequence[str] = ()
) -> bytes:
    """A response that ends with the connection."""
    head = [f"HTTP/1.1 {status}", f"Content-Type: {type}", "Connection: close", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def cut(frames: Sequence[bytes]) -> bytes:
    """A response whose connection ends in the middle: the length of its body is not reached."""
    return response(b"".join(frames), headers=["Content-Length: 1000000"])


def ended(frames: Sequence[bytes]) -> bytes:
    """A response whose stream just ends, as behind a proxy that gave up: HTTP has no objection."""
    return response(b"".join(frames))


def _before_call_ends(kind: Kind) -> list[bytes]:
    """Up to the middle of a call; Google sends calls whole, so there it is up to the answer's end."""
    frames = spoken(kind, call=True)
    return frames[: {"openai": 3, "anthropic": 6, "google": 2}[kind]]


_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Please log in.</p></body></html>"
_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1>nginx</body></html>"
_OOPS: dict[Kind, bytes] = {
    "openai": b"data: {oops\n\n",
    "anthropic": b"event: content_block_delta\ndata: {oops\n\n",
    "google": b"data: {oops\n\n",
}

FAULTS: dict[str, Callable[[Kind], bytes]] = {
    "cut before text": lambda kind: cut(spoken(kind)[:1] if kind != "google" else []),
    "cut after text": lambda kind: cut(spoken(kind)[: {"openai": 2, "anthropic": 3, "google": 1}[kind]]),
    "cut in a call": lambda kind: cut(_before_call_ends(kind)),
    "ended before text": lambda kind: ended(spoken(kind)[:1] if kind != "google" else []),
    "ended after text": lambda kind: ended(spoken(kind)[: {"openai": 2, "anthropic": 3, "google": 1}[kind]]),
    "ended in a call": lambda kind: ended(_before_call_ends(kind)),
    "cut before the response": lambda kind: b"",
    "cut in the headers": lambda kind: b"HTTP/1.1 200 OK\r\nContent-Ty",
    "a page": lambda kind: response(_PAGE, type="text/html"),
    "a page as events": lambda kind: response(_PAGE),
    "malformed JSON": lambda kind: ended([*spoken(kind)[:1], _OOPS[kind], *spoken(kind)[1:]]),
    "JSON of something else": lambda kind: ended([b'data: {"hello": [1, 2]}\n\n']),
    "an array": lambda kind: ended([b"data: [1, 2]\n\n"]),
    "text": lambda kind: response(b"hello there", type="text/plain"),
    "JSON, not events": lambda kind: response(b'{"ok": true}', type="application/json"),
    "empty": lambda kind: ended(spoken(kind, text="")),
    "nothing": lambda kind: response(b""),
    "a gateway's page": lambda kind: response(_GATEWAY, status="502 Bad Gateway", type="text/html"),
    "an empty 500": lambda kind: response(b"", status="500 Internal Server Error", type="text/plain"),
    "a 404 page": lambda kind: response(_PAGE, status="404 Not Found", type="text/html"),
    "busy": lambda kind: response(
        b'{"error": {"message": "slow down"}}',
        status="429 Too Many Requests",
        type="application/json",
        headers=["Retry-After: 7"],
    ),
    "not HTTP": lambda kind: b"SSH-2.0-OpenSSH_9.6\r\n",
    "a bad key": lambda kind: response(
        b'{"error": {"message": "Incorrect API key provided: sk-a-very-secret-key"}}',
        status="401 Unauthorized",
        type="application/json",
    ),
}
"""Responses by what is wrong with them."""


class FaultyServer:
    """Answers each request with the next of these bytes, the last one again and again, and ends the
    connection; `None` says nothing until the client goes away or `close` is called."""

    def __init__(self, *replies: bytes | None) -> None:
        self._replies = replies
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._over = threading.Event()
        self.requests: list[bytes] = []
        self.asked = threading.Event()

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, kind: Kind) -> str:
        return f"{self.root}/v1" if kind == "openai" else self.root

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._thread.join()
        self._listening.close()

    def _run(self) -> None:
        while not self._over.is_set():
            connection, _ = self._listening.accept()
            with connection:
                try:
                    self._serve(connection)
                except OSError:
                    pass

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        asked = b""
        while b"\r\n\r\n" not in asked:
            if not (data := connection.recv(65_536)):
                return
            asked += data
            if asked[:1] == b"\x16":  # TLS: there is no HTTP in it
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
        head, _, body = asked.partition(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < length:
            body += connection.recv(65_536)
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append(body)
        self.asked.set()
        if reply is None:
            select.select([connection], [], [], PATIENCE)
            return
        connection.sendall(reply)
