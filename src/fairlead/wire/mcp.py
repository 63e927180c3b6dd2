"""The Model Context Protocol, a server's end: JSON-RPC 2.0 in lines, with tools and nothing else.

`ServerConnection` takes bytes and returns what is to be done: a `ToolCall` to answer, a `Cancelled` call to
give up, or a `Reply`, bytes to be sent as they are. It does no I/O and has no clock. Two kinds of revisions
are spoken: those with a handshake, `initialize`, and the one without state, whose every request says in its
`_meta` which revision it is of. A request may be of either kind at any time.

    >>> connection = ServerConnection("fairlead", "1", tools=lambda: [])
    >>> [reply] = connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
    >>> reply.line
    b'{"jsonrpc":"2.0","id":1,"result":{}}\\n'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from . import jsonrpc
from .jsonrpc import MAX_REASON, Envelope, Error, ErrorCode, Fault, Id
from .lines import LineBuffer, TooLong

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions that begin with `initialize`, the newest last: it is offered to who wants another one."""
STATELESS = ("2026-07-28",)
"""The revisions without state."""
REVISIONS = (*HANDSHAKE, *STATELESS)
UNSUPPORTED_REVISION = -32022
"""The code of the error for a request of a revision that is not spoken."""

MAX_LINE = 4 * 1024 * 1024
"""How many bytes a line may have. A longer one is dropped as it comes."""
MAX_OPEN = 64
"""How many calls may be unanswered at a time."""
MAX_COMPLAINTS = 100
"""How many lines without a readable id get an error."""
MAX_TOOL_NAME = 128

_VERSION_KEY, _CLIENT_KEY, _SERVER_KEY = (
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "serverInfo")
)
_SINCE = {"annotations": "2025-03-26", "title": "2025-06-18", "outputSchema": "2025-06-18"}
"""The revisions that brought what a tool's description may have; older clients don't get it."""
_STRUCTURED = "2025-06-18"
"""The revision that brought structured results,"""
_MESSAGE = "2025-03-26"
"""and that which brought the words of a progress notification."""


# --- messages ---------------------------------------------------------------------------------------------


class Described(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a client calls itself."""

    name: str = ""
    version: str = ""


class _Params(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The parameters of any method. Unknown ones are skipped."""

    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)

    @property
    def revision(self) -> str | None:
        """The revision that the request says it is of."""
        found = self.meta.get(_VERSION_KEY)
        return found if isinstance(found, str) else None

    @property
    def progress_token(self) -> Id | None:
        found = self.meta.get("progressToken")
        return found if jsonrpc.is_id(found) else None


class _Initialize(_Params, frozen=True, kw_only=True):
    protocol_version: str
    client_info: Described = Described()


class _CallTool(_Params, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(max_length=MAX_TOOL_NAME)]
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Cancel(_Params, frozen=True, kw_only=True):
    request_id: Id
    reason: str = ""


class Tool(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A tool, as it is listed."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    annotations: Mapping[str, bool]


class ToolCall(msgspec.Struct, frozen=True):
    """A client wants a tool to run: answer with `finish`, `fail` or, if it can't be called so, `refuse`."""

    id: Id
    name: str
    arguments: msgspec.Raw
    """An object in JSON."""
    wants_progress: bool


class Cancelled(msgspec.Struct, frozen=True):
    """A client no longer wants the answer to a call. It gets none."""

    id: Id
    reason: str


class Reply(msgspec.Struct, frozen=True):
    """A line to be sent. `fault` is what was wrong, if it is an error."""

    line: bytes
    fault: str = ""


Item = ToolCall | Cancelled | Reply


# --- rules ------------------------------------------------------------------------------------------------


class _Method(msgspec.Struct, frozen=True):
    """A line of the table."""

    name: str
    params: type[_Params]
    is_request: bool
    eras: Literal["handshake", "stateless", "both"]
    before: Literal["new", "ready", "any"] = "any"
    """What the handshake must have come to, for requests that say no revision."""


_TABLE = (
    _Method("initialize", _Initialize, True, "handshake", "new"),
    _Method("notifications/initialized", _Params, False, "handshake"),
    _Method("ping", _Params, True, "handshake"),
    _Method("server/discover", _Params, True, "stateless"),
    _Method("tools/list", _Params, True, "both", "ready"),
    _Method("tools/call", _CallTool, True, "both", "ready"),
    _Method("notifications/cancelled", _Cancel, False, "both"),
)
METHODS = {method.name: method for method in _TABLE}
"""What a client may send. A request that is not here gets an error, a notification is ignored."""


class _Open(msgspec.Struct):
    """A call that is not answered."""

    revision: str
    token: Id | None
    steps: int = 0


class ServerConnection:
    """Our end towards a client. `tools` returns the tools, when they are asked for."""

    def __init__(
        self,
        name: str,
        version: str,
        tools: Callable[[], Sequence[Tool]],
        instructions: str = "",
        *,
        max_line: int = MAX_LINE,
    ) -> None:
        self._info = {"name": name, "version": version}
        self._tools = tools
        self._instructions = instructions
        self._lines = LineBuffer(max_line)
        self._open: dict[Id, _Open] = {}
        self._complaints = 0
        self.revision: str | None = None
        """That of the handshake, once there was one."""
        self.client = Described()
        """Who the client says it is."""

    def __repr__(self) -> str:
        return f"<ServerConnection {self.revision or 'new'}, {len(self._open)} open>"

    @property
    def open(self) -> list[Id]:
        """The calls that are not answered."""
        return list(self._open)

    # --- receiving ----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Item]:
        """What is to be done about these bytes."""
        return [item for line in self._lines.feed(data) if (item := self._heard(line)) is not None]

    def finish(self) -> list[Item]:
        """Nothing more will come: the last line counts also without its end."""
        return [item for line in self._lines.finish() if (item := self._heard(line)) is not None]

    def _heard(self, line: bytes | TooLong) -> Item | None:
        if isinstance(line, TooLong):
            reason = f"a line of more than {line.limit} bytes"
            return self._faulty(jsonrpc.fault_of(line.head, ErrorCode.INVALID_REQUEST, reason))
        if not line.strip():
            return None
        message = jsonrpc.decode(line)
        if isinstance(message, Fault):
            return self._faulty(message)
        if message.method is msgspec.UNSET:  # an answer, and we asked nothing
            return None
        return self._asked(message) if message.id is not msgspec.UNSET else self._told(message)

    def _faulty(self, fault: Fault) -> Reply | None:
        if fault.is_answer:
            return None
        if fault.id is None or fault.id in self._open:
            self._complaints += 1
            if self._complaints > MAX_COMPLAINTS:
                return None
            return self._refused(None, fault.code, fault.reason)
        return self._refused(fault.id, fault.code, fault.reason)

    def _told(self, message: Envelope) -> Item | None:
        method = METHODS.get(message.method)
        if method is None or method.is_request or method.params is not _Cancel:
            return None
        params = _read(message.params, _Cancel)
        if isinstance(params, str) or self._open.pop(params.request_id, None) is None:
            return None
        return Cancelled(params.request_id, params.reason[:MAX_REASON])

    def _asked(self, message: Envelope) -> Item:
        id: Id = message.id
        method = METHODS.get(message.method)
        if id in self._open:
            why = f"the id {id!r:.100} is that of a request that is not answered yet"
            return self._refused(None, ErrorCode.INVALID_REQUEST, why)
        if method is None or not method.is_request:
            return self._refused(id, ErrorCode.METHOD_NOT_FOUND, f"no method {message.method!r:.100}")
        params = _read(message.params, method.params)
        if isinstance(params, str):
            return self._refused(id, ErrorCode.INVALID_PARAMS, f"{method.name}: {params}")
        if isinstance(revision := self._revision(id, method, params), Reply):
            return revision
        match method.name:
            case "initialize":
                assert isinstance(params, _Initialize)
                return self._greeted(id, params)
            case "ping":
                return Reply(jsonrpc.result(id, {}))
            case "server/discover":
                offers = {"supportedVersions": list(REVISIONS), **self._offers}
                return Reply(jsonrpc.result(id, self._stamped(offers, revision, cacheable=True)))
            case "tools/list":
                tools = [_listed(tool, revision) for tool in self._tools()]
                return Reply(jsonrpc.result(id, self._stamped({"tools": tools}, revision, cacheable=True)))
        assert isinstance(params, _CallTool)
        if len(self._open) >= MAX_OPEN:
            return self._refused(id, ErrorCode.INTERNAL, f"{MAX_OPEN} calls are open already")
        self._open[id] = _Open(revision, params.progress_token)
        return ToolCall(id, params.name, params.arguments, params.progress_token is not None)

    def _revision(self, id: Id, method: _Method, params: _Params) -> str | Reply:
        """The revision of a request, or why it can't be made."""
        said = params.revision if method.eras != "handshake" else None
        if said is not None and said not in STATELESS:
            wanted = {"supported": list(REVISIONS), "requested": said[:MAX_REASON]}
            why = f"no revision {said!r:.100}"
            return Reply(jsonrpc.error(id, Error(UNSUPPORTED_REVISION, why, wanted)), why)
        if said is not None:
            self.client = _described(params.meta.get(_CLIENT_KEY)) or self.client
            return said
        if method.eras == "stateless":
            why = f"{method.name} needs {_VERSION_KEY} in _meta"
            return self._refused(id, ErrorCode.INVALID_PARAMS, why)
        if method.before == "ready" and self.revision is None:
            why = f"{method.name} needs initialize first, or {_VERSION_KEY} in _meta"
            return self._refused(id, ErrorCode.INVALID_REQUEST, why)
        if method.before == "new" and self.revision is not None:
            return self._refused(id, ErrorCode.INVALID_REQUEST, "the connection is initialized already")
        return self.revision or HANDSHAKE[-1]

    def _greeted(self, id: Id, params: _Initialize) -> Reply:
        wanted = params.protocol_version
        self.revision = wanted if wanted in HANDSHAKE else HANDSHAKE[-1]
        self.client = params.client_info
        offers = {"protocolVersion": self.revision, "serverInfo": self._info, **self._offers}
        return Reply(jsonrpc.result(id, offers))

    @property
    def _offers(self) -> dict[str, Any]:
        return {
            "capabilities": {"tools": {}},
            **({"instructions": self._instructions} if self._instructions else {}),
        }

    def _refused(self, id: Id | None, code: int, reason: str) -> Reply:
        reason = reason[:MAX_REASON]
        return Reply(jsonrpc.error(id, Error(code, reason)), reason)

    # --- sending ------------------------------------------------------------------------------------------

    def finish_call(self, id: Id, text: str, structured: Mapping[str, Any]) -> bytes:
        """The line with what a tool gave. Nothing if the call was cancelled."""
        return self._result(id, text, structured, is_error=False)

    def fail_call(self, id: Id, text: str) -> bytes:
        """The line that says why a tool could do nothing; its caller is a model, which can do better then.
        Nothing if the call was cancelled."""
        return self._result(id, text, None, is_error=True)

    def refuse_call(self, id: Id, reason: str) -> bytes:
        """The line that says that there is no such tool. Nothing if the call was cancelled."""
        if self._open.pop(id, None) is None:
            return b""
        return jsonrpc.error(id, Error(ErrorCode.INVALID_PARAMS, reason[:MAX_REASON]))

    def progress(self, id: Id, message: str) -> bytes:
        """The line that says that a call goes on; nothing if its client does not want that."""
        call = self._open.get(id)
        if call is None or call.token is None:
            return b""
        call.steps += 1
        told: dict[str, Any] = {"progressToken": call.token, "progress": call.steps}
        if call.revision >= _MESSAGE:
            told["message"] = message
        return jsonrpc.notification("notifications/progress", told)

    def _result(self, id: Id, text: str, structured: Mapping[str, Any] | None, *, is_error: bool) -> bytes:
        call = self._open.pop(id, None)
        if call is None:
            return b""
        given: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
        if structured is not None and call.revision >= _STRUCTURED:
            given["structuredContent"] = structured
        return jsonrpc.result(id, self._stamped(given, call.revision))

    def _stamped(self, result: dict[str, Any], revision: str, *, cacheable: bool = False) -> dict[str, Any]:
        """A result with what all of its revision have."""
        if revision not in STATELESS:
            return result
        kept = {"ttlMs": 0, "cacheScope": "private"} if cacheable else {}
        return {**result, **kept, "resultType": "complete", "_meta": {_SERVER_KEY: self._info}}


def _read(raw: msgspec.Raw, kind: type[_Params]) -> Any:
    """Parameters, or what is wrong with them."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)


def _described(value: Any) -> Described | None:
    try:
        return msgspec.convert(value, Described)
    except msgspec.ValidationError:
        return None


def _listed(tool: Tool, revision: str) -> dict[str, Any]:
    """What clients of a revision are told of a tool."""
    told: dict[str, Any] = msgspec.to_builtins(tool)
    return {name: value for name, value in told.items() if _SINCE.get(name, "") <= revision}
