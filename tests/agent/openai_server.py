"""A server on loopback that speaks OpenAI's chat completions, streamed, and says what a script tells it to.

    with OpenAiServer([answer("Hello"), failure(429, retry_after=1)]) as server:
        ...  # ask server.url
    assert server.requests[0]["messages"][-1]["content"] == "Hi"

A script is a list of replies, one for each request, or a function from the request to a reply. A reply can
stop in the middle (`HOLD`) until `server.release` is set or the client is gone, or at a `Halt` of its own,
and can break the connection (`BREAK`). `tests/model_server.py` speaks other protocols too.
"""

import itertools
import json
import select
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

HOLD: Literal["hold"] = "hold"
BREAK: Literal["break"] = "break"
PATIENCE = 30.0
"""Seconds until a server that is held gives up, so that a failed test ends."""


class Halt:
    """Where a reply stops until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()


Frame = bytes | Halt | Literal["hold", "break"]


class Reply(NamedTuple):
    """What goes back: server-sent chunks, and what happens between them; or, with `body`, a plain answer."""

    frames: Sequence[Frame] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None


_numbers = itertools.count(1)
Script = Sequence[Reply] | Callable[[dict[str, Any]], Reply]


def answer(
    text: str = "",
    *,
    calls: Sequence[tuple[str, str]] = (),
    thinking: str = "",
    finish: str | None = None,
    pieces: int = 5,
    usage: dict[str, Any] | None = None,
    insert: Sequence[Frame] = (),
) -> Reply:
    """A whole answer in small pieces: thoughts, text, then calls given as (name, arguments as JSON text).

    `insert` goes in after the last piece of text.
    """
    frames: list[Frame] = [chunk({"role": "assistant", "content": ""})]
    frames += [chunk({"reasoning_content": piece}) for piece in cut(thinking, pieces)]
    frames += [chunk({"content": piece}) for piece in cut(text, pieces)]
    frames += insert
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call-{next(_numbers)}", "type": "function", "function": function}
        frames.append(chunk({"tool_calls": [call]}))
        for piece in cut(arguments, pieces):
            frames.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    frames.append(chunk({}, finish or ("tool_calls" if calls else "stop")))
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    frames.append(event({**_envelope(), "choices": [], "usage": usage}))
    return Reply([*frames, b"data: [DONE]\n\n"])


def failure(
    status: int, message: str = "no", *, code: str | None = None, retry_after: float | str | None = None
) -> Reply:
    """An error as OpenAI writes it."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    body = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": code}})
    return Reply((), status, headers, body.encode())


def overflow() -> Reply:
    """More than the window takes."""
    message = (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000."
    )
    return failure(400, message, code="context_length_exceeded")


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One chunk of an answer, as an event."""
    return event({**_envelope(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def event(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _envelope() -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "test"}


def cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]


class OpenAiServer:
    """The server, in threads of its own. `requests` are the bodies it was sent, `keys` their credentials.

    Without a `path` it answers at any, so that a script can speak another provider's protocol.
    """

    def __init__(self, script: Script, path: str | None = "/v1/chat/completions") -> None:
        self._script = script
        self._path = path
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        hold = self._halt = Halt()
        self.held = hold.reached
        """A reply is held."""
        self.release = hold.opened
        self.gone = threading.Event()
        """The client went away from a reply that was held."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server._serve(self)

            def do_GET(self) -> None:
                server._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply_to(self, path: str, request: dict[str, Any]) -> Reply:
        """What a request is answered with: the script's next reply."""
        if self._path not in (None, path):
            return failure(404, f"there is no {path}")
        with self._lock:
            self.requests.append(request)
            if callable(self._script):
                return self._script(request)
            number = len(self.requests)
            if number > len(self._script):
                return failure(418, f"the script has {len(self._script)} replies, this is request {number}")
            return self._script[number - 1]

    def _serve(self, http: BaseHTTPRequestHandler) -> None:
        body = http.rfile.read(int(http.headers["Content-Length"] or 0))
        names = ("Authorization", "X-Api-Key", "X-Goog-Api-Key")
        self.keys.append(next((http.headers[name] for name in names if http.headers[name]), None))
        reply = self.reply_to(http.path, json.loads(body or b"{}"))
        try:
            self._send(http, reply)
        except OSError:
            self.gone.set()
            http.close_connection = True

    def _send(self, http: BaseHTTPRequestHandler, reply: Reply) -> None:
        http.send_response(reply.status)
        for name, value in reply.headers:
            http.send_header(name, value)
        if reply.body is not None:
            http.send_header("Content-Type", "application/json")
            http.send_header("Content-Length", str(len(reply.body)))
            http.end_headers()
            http.wfile.write(reply.body)
            return
        http.send_header("Content-Type", "text/event-stream")
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()
        for frame in reply.frames:
            if frame == BREAK:
                http.close_connection = True
                return
            if frame == HOLD:
                _hold(http, self._halt)
            elif isinstance(frame, Halt):
                _hold(http, frame)
            else:
                assert isinstance(frame, bytes)
                http.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        http.wfile.write(b"0\r\n\r\n")


def _hold(http: BaseHTTPRequestHandler, halt: Halt) -> None:
    """Wait for the test or for the client's end of the connection, whichever is first."""
    halt.reached.set()
    for _ in range(int(PATIENCE / 0.02)):
        if halt.opened.wait(0.02):
            return
        if select.select([http.connection], [], [], 0)[0]:
            raise ConnectionResetError
