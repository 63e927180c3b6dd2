"""What must hold for any bytes whatever: one target for each of the eight decoders.

A target takes bytes and returns, or raises: an AssertionError where a promise is broken, or what escaped from
the decoder. It does no I/O, so it runs under atheris, in a plain loop (`worker.py`) and in a test alike. The
first two bytes that a protocol's target takes choose how the stream after them is cut and what was before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from fairlead.formats import edn, sexp
from fairlead.formats.edn import EdnError, reader
from fairlead.formats.faults import TextError
from fairlead.formats.sexp import SexpError
from fairlead.wire import acp, keepty, mcp, passepartout, rpc, verifier
from fairlead.wire.acp.reading import read
from fairlead.wire.faults import Broken, LocalError

# --- values -----------------------------------------------------------------------------------------------


def exactly(value: Any) -> str:
    """A text that two values share just when they are the same, types and all; one NaN is like another."""
    kind = type(value)
    name = kind.__name__
    if kind in (list, tuple, edn.Vector):
        return f"{name}[{', '.join(map(exactly, value))}]"
    if kind is frozenset:
        return f"{name}[{', '.join(sorted(map(exactly, value)))}]"
    if isinstance(value, Mapping):
        return f"{name}[{', '.join(map(exactly, value.keys()))}][{', '.join(map(exactly, value.values()))}]"
    if kind is edn.Tagged:
        return f"{name}[{value.tag}, {exactly(value.value)}]"
    if kind is edn.Distinct:  # which one of several equal keys is wrapped depends on their order
        return exactly(value.value)
    if kind is sexp.Dotted:
        return f"{name}[{exactly(value.items)}, {exactly(value.tail)}]"
    if kind is int or kind is edn.BigInt:
        is_big = kind is edn.BigInt or value not in _LONG  # the long ones are written with N in any case
        return f"{'BigInt' if is_big else 'int'} {value:x}"  # there is a limit on decimal digits
    return f"{name} {value!r}"


_LONG = range(-(2**63), 2**63)
_HALF = range(0xD800, 0xE000)


def _has_half(text: str) -> bool:
    """Whether half of a surrogate pair is in a text."""
    return not text.isascii() and any(ord(character) in _HALF for character in text)


def _text(data: bytes) -> str | None:
    """The text that the bytes are, if any; halves of pairs may be in it, as they may be in any str."""
    try:
        return str(data, "utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _outcome(
    read: Callable[..., Any], text: str | bytes, error: type[TextError], limits: dict[str, int]
) -> str:
    """What reading gives, as a text: the value, or the error and its place, which must be in the text."""
    try:
        return exactly(read(text, **limits))
    except error as caught:
        fault = caught
    newlines = text.count("\n") if isinstance(text, str) else text.count(b"\n")
    assert 1 <= (fault.line or 0) <= newlines + 1, fault
    assert 1 <= (fault.column or 0) <= len(text) + 1, fault
    return str(fault)


@contextmanager
def _without_quick_lexer(module: Any) -> Iterator[None]:
    """Every text is left to the format's own expression."""
    quick = module.apart
    module.apart = lambda text, special: None
    try:
        yield
    finally:
        module.apart = quick


def _read_alike(
    module: Any, read: Callable[..., Any], data: bytes, error: type[TextError], limits: dict[str, int]
) -> None:
    """However a text comes, and whichever way it is read, the outcome is the same."""
    outcomes = [_outcome(read, data, error, limits)]
    text = _text(data)
    if text is None:
        return
    if _has_half(text):  # a str may have it, UTF-8 not
        outcomes.clear()
    outcomes += (_outcome(read, text, error, limits) for _ in range(3))  # the third time by its shape
    with _without_quick_lexer(module):
        outcomes.append(_outcome(read, text, error, limits))
        module._known_atoms.clear()
        outcomes.append(_outcome(read, text, error, limits))
    assert len(set(outcomes)) == 1, outcomes


# --- the two formats --------------------------------------------------------------------------------------


def read_edn(data: bytes) -> None:
    """`edn.loads_all` and `edn.dumps`."""
    small = {"max_depth": 3, "max_digits": 6, "max_length": 60}
    _read_alike(reader, edn.loads_all, data, EdnError, small if len(data) % 4 == 0 else {})
    text = _text(data)
    try:
        values = edn.loads_all(text or b"")
    except EdnError:
        return
    for value in values:
        written = edn.dumps(value)
        assert "\n" not in written
        assert not _has_half(written), written
        again = edn.loads(written)
        if not _has_half(text or ""):  # two halves side by side are one character when read again
            assert exactly(again) == exactly(value), written
        _check_plain(edn.dumps(value, dialect=edn.PLAIN))


def _check_plain(written: str) -> None:
    """What is written in the plain dialect is readable and has only the types of that dialect."""
    try:
        value = edn.loads(written)
    except EdnError as fault:
        if "duplicate key" not in fault.message:  # two keys may come to the same
            raise
    else:
        assert is_plain(value), written


_PLAIN = frozenset({type(None), bool, int, float, str, edn.Keyword})


def is_plain(value: Any) -> bool:
    """Whether a value has only types that `edn.PLAIN` keeps."""
    if type(value) in (list, edn.Vector):
        return all(map(is_plain, value))
    if isinstance(value, Mapping):
        return all(map(is_plain, value.keys())) and all(map(is_plain, value.values()))
    if type(value) is edn.Distinct:
        return is_plain(value.value)
    return type(value) in _PLAIN and (type(value) is not float or abs(value) < float("inf"))


def read_sexp(data: bytes) -> None:
    """`sexp.loads` and `sexp.dumps`."""
    small = {"max_depth": 3, "max_digits": 6, "max_length": 60, "max_tokens": 8}
    _read_alike(sexp, sexp.loads, data, SexpError, small if len(data) % 4 == 0 else {})
    text = _text(data)
    try:
        value = sexp.loads(text or b"")
    except SexpError:
        return
    try:
        written = sexp.dumps(value)
    except SexpError:
        assert _has_half(text or ""), value
    else:
        assert exactly(sexp.loads(written)) == exactly(value), written


# --- streams ----------------------------------------------------------------------------------------------


_SINGLE = 250
"""How much of a stream is cut into single bytes: that is slow, and all kinds of message are shorter."""


class _End(Protocol):
    def receive(self, data: bytes) -> Sequence[Any]: ...


class Choice(NamedTuple):
    """What the first two bytes of an input choose, and the stream after them."""

    seed: int
    """How the stream is cut."""
    small: bool
    """Whether the buffers have a small limit."""
    begun: bool
    """Whether the handshake has been."""
    serves: bool
    """Whether the stream meets the end that serves: the broker, the server, the builder, the daemon."""
    stream: bytes

    @classmethod
    def of(cls, data: bytes) -> Choice:
        seed, options = (data + b"\0\0")[:2]
        return cls(seed, bool(options & 1), bool(options & 2), not options & 4, data[2:])

    def pieces(self) -> Iterator[bytes]:
        """The stream cut in one of many ways; with 0 as the seed, into single bytes where it begins."""
        chance = random.Random(self.seed)
        start = 0
        while start < len(self.stream):
            size = chance.choice((0, 1, 2, 3, 5, 8, 40, 300)) if self.seed or start > _SINGLE else 1
            yield self.stream[start : start + size]
            start += size


def _told(item: Any) -> object:
    """An item in a form that can be compared, with NaN like NaN."""
    if isinstance(item, rpc.Request | rpc.Response | rpc.Error | rpc.Event):
        return type(item), exactly(item.envelope())
    if isinstance(item, passepartout.Message):
        return exactly(item.plist)
    return item


def _known_of(end: Any) -> dict[str, Any]:
    """What anyone can know of an end's state."""
    if isinstance(end, acp.AgentConnection | acp.ClientConnection):
        return {"saved": end.save()}
    if isinstance(end, mcp.ServerConnection):
        return {"open": end.open, "revision": end.revision, "client": end.client}
    names = ("state", "pending", "subscribed", "misdirected", "proven")
    return {name: getattr(end, name) for name in names if hasattr(end, name)}


_Some = TypeVar("_Some", bound=_End)


def _received(
    make: Callable[[], _Some], choice: Choice, kept: Callable[[_Some], int], limit: int
) -> tuple[_Some, list[Any]]:
    """An end that was given the stream, and what it made of it: the same at once and in pieces.

    What it keeps stays within the limit, and nothing comes after a Broken.
    """
    whole, slow = make(), make()
    items = list(whole.receive(choice.stream))
    slowly: list[Any] = []
    for piece in choice.pieces():
        slowly += slow.receive(piece)
        assert kept(slow) <= limit, kept(slow)
    assert list(map(_told, slowly)) == list(map(_told, items)), (slowly, items)
    assert _known_of(slow) == _known_of(whole)
    assert not any(isinstance(item, Broken) for item in items[:-1]), items
    if items and isinstance(items[-1], Broken):
        before = _known_of(whole), kept(whole)
        assert not whole.receive(choice.stream)
        assert (_known_of(whole), kept(whole)) == before
    for item in items:
        assert len(repr(item)) < _LONGEST_REPR, item
    return whole, items


_LONGEST_REPR = 20_000


# --- keepty -----------------------------------------------------------------------------------------------


class _KeeptyDecoder(keepty.Decoder):
    def receive(self, data: bytes) -> list[keepty.Message | keepty.Malformed | Broken]:
        return self.feed(data)


def read_keepty(data: bytes) -> None:
    """`keepty.Decoder`, and both ends of a connection."""
    choice = Choice.of(data)
    limit = 16 if choice.small else keepty.MAX_PAYLOAD
    _, items = _received(
        lambda: _KeeptyDecoder(limit), choice, lambda decoder: decoder.pending, limit + keepty._HEADER_BYTES
    )
    for item in items:
        if isinstance(item, keepty.Message):
            assert keepty.Decoder().feed(item.encode()) == [item]
        if not isinstance(item, Broken):
            for standing in keepty.Standing:
                decided, why = keepty.verdict(item, standing, has_writer=choice.begun, cols=80)
                assert bool(why) == (decided is keepty.Verdict.IGNORE)
    (_keepty_broker if choice.serves else _keepty_client)(choice)


def _keepty_kept(end: keepty.BrokerConnection | keepty.ClientConnection) -> int:
    return end._decoder.pending


def _keepty_broker(choice: Choice) -> None:
    def make() -> keepty.BrokerConnection:
        broker = keepty.BrokerConnection()
        if choice.begun:
            broker.receive(keepty.Hello(keepty.Role.WRITER, 80, 24).encode())
            broker.send(keepty.HelloAck(1, 80, 24))
        return broker

    broker, items = _received(make, choice, _keepty_kept, keepty.MAX_PAYLOAD + keepty._HEADER_BYTES)
    if items and isinstance(broken := items[-1], Broken):
        assert keepty.ClientConnection().receive(broken.reply) == [keepty.Error(broken.reason)]
        assert broker.state is keepty.State.CLOSED
    elif broker.state is keepty.State.GREETED:
        client = keepty.ClientConnection()
        client.send(items[0])
        acknowledged = keepty.HelloAck(0, items[0].cols, items[0].rows, items[0].wishes)
        assert client.receive(broker.send(acknowledged)) == [acknowledged]


def _keepty_client(choice: Choice) -> None:
    def make() -> keepty.ClientConnection:
        client = keepty.ClientConnection()
        if choice.begun:
            client.send(keepty.Hello(keepty.Role.WATCHER, 80, 24))
        return client

    client, items = _received(make, choice, _keepty_kept, keepty.MAX_PAYLOAD + keepty._HEADER_BYTES)
    assert not any(isinstance(item, keepty.Malformed) for item in items)
    if items and isinstance(items[-1], Broken):
        assert client.state is keepty.State.CLOSED


# --- rpc-edn ----------------------------------------------------------------------------------------------

_MAX_LINE = 4096


def _rpc_kept(end: rpc.ServerConnection | rpc.ClientConnection) -> int:
    return end._lines.pending


def read_rpc(data: bytes) -> None:
    """Both ends of an rpc-edn connection."""
    choice = Choice.of(data)
    limit = 64 if choice.small else _MAX_LINE
    (_rpc_server if choice.serves else _rpc_client)(choice, limit)


def _rpc_server(choice: Choice, limit: int) -> None:
    def make() -> rpc.ServerConnection:
        server = rpc.ServerConnection(max_pending=3, max_line=limit)
        if choice.begun:
            server.receive(
                b'{:id "h" :kind :request :op "handshake" :params {:protocol-version "1"}}\n'[:limit]
            )
            server.receive(b"\n")
            server.state = rpc.State.READY
        return server

    server, items = _received(make, choice, _rpc_kept, limit)
    for item in items:
        if isinstance(item, rpc.Request):
            _check_request(item)
        else:
            reply = item.reply if isinstance(item, Broken) else rpc.encode(item)
            (read,) = rpc.ClientConnection().receive(reply)
            assert isinstance(read, rpc.Error), read
            assert isinstance(item, Broken) or _told(read) == _told(item)
    _check_lines(make(), choice.stream)
    for id, op in list(server.pending.items()):
        client = rpc.ClientConnection()
        client.pending[id] = op
        (response,) = client.receive(server.respond(id, {edn.Keyword("op"): op}))
        assert response == rpc.Response(id, op, {edn.Keyword("op"): op})
    assert not server.pending


def _check_request(request: rpc.Request) -> None:
    try:
        line = rpc.encode(request)
    except EdnError as fault:
        raise AssertionError(f"can't be written: {request!r}") from fault
    if is_plain(request.params):
        server = rpc.ServerConnection()
        server.state = rpc.State.READY
        (again,) = server.receive(line)
        assert _told(again) == _told(request), line


def _check_lines(server: rpc.ServerConnection, stream: bytes) -> None:
    """Only a request that is taken changes anything, and it changes one thing."""
    for line in stream.splitlines(keepends=True):
        before = dict(server.pending), server.state
        for item in server.receive(line):
            if isinstance(item, rpc.Request):
                assert server.pending == before[0] | {item.id: item.op}
            elif isinstance(item, rpc.Error):
                assert (server.pending, server.state) == before
            else:
                assert (server.pending, server.state) == (before[0], rpc.State.CLOSED)
            before = dict(server.pending), server.state


def _rpc_client(choice: Choice, limit: int) -> None:
    def make() -> rpc.ClientConnection:
        client = rpc.ClientConnection(max_line=limit)
        client.handshake("fuzz", "1")
        if choice.begun:
            client.state = rpc.State.READY
            client.request("ping")
        return client

    _, items = _received(make, choice, _rpc_kept, limit)
    for item in items:
        if isinstance(item, Broken):
            assert len(item.reason) < _LONGEST_REPR
            continue
        line = rpc.encode(item)
        if is_plain(item.data):
            client = rpc.ClientConnection()
            if isinstance(item, rpc.Response):
                client.pending[item.id] = item.op
            (again,) = client.receive(line)
            assert _told(again) == _told(item), line


# --- the verifier's protocol ------------------------------------------------------------------------------


def _verifier_kept(end: verifier.BuilderConnection | verifier.VerifierConnection) -> int:
    return end._lines.pending


def read_verifier(data: bytes) -> None:
    """Both ends of a verifier's connection, and `verifier.parse_report`."""
    choice = Choice.of(data)
    limit = 40 if choice.small else _MAX_LINE
    if choice.serves:
        _verifier_end(choice, limit, verifier.BuilderConnection, verifier.VerifierConnection)
    else:
        _verifier_end(choice, limit, verifier.VerifierConnection, verifier.BuilderConnection)
    text = _text(choice.stream)
    if text is not None:
        _verifier_report(text)


def _verifier_end(
    choice: Choice,
    limit: int,
    kind: type[verifier.BuilderConnection] | type[verifier.VerifierConnection],
    other: type[verifier.BuilderConnection] | type[verifier.VerifierConnection],
) -> None:
    def make() -> verifier.BuilderConnection | verifier.VerifierConnection:
        end = kind("s1", max_envelope=limit)
        if choice.begun:
            end.send(verifier.Bye(reason="begun"))
        return end

    end, items = _received(make, choice, _verifier_kept, limit)
    for item in items:
        if isinstance(item, Broken):
            assert end.state is verifier.State.CLOSED
            left = choice.begun or any(isinstance(each, verifier.Bye) for each in items)
            replies = other("s1").receive(item.reply)
            assert replies == ([] if left else [verifier.Bye(reason=item.reason)])
            continue
        if not isinstance(item, verifier.Malformed):
            envelope = item.envelope if isinstance(item, verifier.Misdirected) else item
            assert verifier.decode(envelope.encode()[:-1]) == envelope
        answer = end.answer(item)
        if answer is not None:
            assert not isinstance(item, verifier.Misdirected)
            assert other("s1").receive(kind("s1").send(answer)) == [answer]


def _verifier_report(text: str) -> None:
    try:
        report = verifier.parse_report(text, "s1", 1)
    except verifier.ReportError:
        return
    assert verifier.decode(report.encode()[:-1]) == report
    again = verifier.parse_report(text.replace("\n", "\r\n"), "s1", 1)
    assert (again.status, again.confidence) == (report.status, report.confidence)


# --- passepartout -----------------------------------------------------------------------------------------


class _PassepartoutDecoder(passepartout.Decoder):
    def receive(self, data: bytes) -> list[str | Broken]:
        return self.feed(data)


def _passepartout_kept(end: passepartout.DaemonConnection | passepartout.ClientConnection) -> int:
    return end._decoder.pending


def read_passepartout(data: bytes) -> None:
    """`passepartout.Decoder`, and both ends of a connection."""
    choice = Choice.of(data)
    limit = 32 if choice.small else _MAX_LINE
    decoder, items = _received(
        lambda: _PassepartoutDecoder(limit), choice, lambda each: each.pending, limit + passepartout._HEADER
    )
    for item in items:
        assert isinstance(item, Broken) or len(item) <= limit
    ended = decoder.end()
    assert ended is None or not any(isinstance(item, Broken) for item in items)
    (_passepartout_daemon if choice.serves else _passepartout_client)(choice, limit)


def _greeted() -> passepartout.ClientConnection:
    client = passepartout.ClientConnection()
    client.receive(passepartout.frame(passepartout.Hello("1").plist))
    return client


def _passepartout_daemon(choice: Choice, limit: int) -> None:
    def make() -> passepartout.DaemonConnection:
        return passepartout.DaemonConnection(
            proven=choice.begun, is_token=lambda token: token == "t", max_characters=limit
        )

    daemon, items = _received(make, choice, _passepartout_kept, limit + passepartout._HEADER)
    for item in items:
        if isinstance(item, Broken | passepartout.Invalid):
            (read,) = _greeted().receive(item.reply)
            assert read == passepartout.log(item.reason), read
        elif isinstance(item, passepartout.Message):
            assert daemon.proven
            _check_sent(item)
    if daemon.state is passepartout.State.CONNECTED:
        (read,) = passepartout.ClientConnection().receive(daemon.send(passepartout.Hello("1")))
        assert read == passepartout.Hello("1")
    daemon.end()
    assert daemon.state is passepartout.State.CLOSED


def _check_sent(message: passepartout.Message) -> None:
    """A message goes through a frame unchanged but for what lives only inside of a daemon."""
    try:
        framed = passepartout.frame(message.plist)
    except LocalError as fault:
        raise AssertionError(f"can't be sent: {message!r}") from fault
    (text,) = passepartout.Decoder().feed(framed)
    assert isinstance(text, str)
    read = sexp.loads(text)
    assert exactly(read) == exactly(passepartout.sanitized(message.plist)), framed
    assert exactly(passepartout.sanitized(read)) == exactly(read), framed


def _passepartout_client(choice: Choice, limit: int) -> None:
    def make() -> passepartout.ClientConnection:
        client = passepartout.ClientConnection(max_characters=limit)
        if choice.begun:
            client.state = passepartout.State.GREETED
        return client

    client, items = _received(make, choice, _passepartout_kept, limit + passepartout._HEADER)
    for item in items:
        if isinstance(item, passepartout.Hello):
            (read,) = passepartout.ClientConnection().receive(passepartout.DaemonConnection().send(item))
            assert read == item
        elif isinstance(item, passepartout.Message):
            _check_sent(item)
        elif isinstance(item, passepartout.HealthResponse):
            assert _greeted().receive(passepartout.frame(item.plist)) == [item]
        elif isinstance(item, passepartout.Invalid):
            assert not item.reply
    client.end()
    assert client.state is passepartout.State.CLOSED


# --- the Agent Client Protocol ----------------------------------------------------------------------------

_TURN = acp.Saved(
    next_id=3,
    ours=(acp.OpenRequest(1, "session/new"), acp.OpenRequest(2, "session/prompt", "s1")),
    theirs=(acp.OpenRequest("p", "session/request_permission", "s1", ("yes",)),),
    client=acp.Initialize(protocol_version=1),
    agent=acp.InitializeResult(
        protocol_version=1, agent_capabilities=acp.AgentCapabilities(load_session=True)
    ),
    sessions={"s1": True},
)
"""A client in the middle of a turn."""


def read_acp(data: bytes) -> None:
    """Both ends of a connection, new ones and ones in the middle of a turn."""
    choice = Choice.of(data)
    limit = 80 if choice.small else _MAX_LINE
    kind = acp.AgentConnection if choice.serves else acp.ClientConnection
    saved = _TURN
    if choice.serves:
        saved = msgspec.structs.replace(_TURN, ours=_TURN.theirs, theirs=_TURN.ours)

    def make() -> acp.AgentConnection | acp.ClientConnection:
        return kind(saved if choice.begun else None, max_line=limit)

    end, items = _received(make, choice, lambda each: each._lines.pending, limit)
    _acp_killed(make(), choice.stream, items)
    for item in items:
        if isinstance(item, acp.Refused):
            (other,) = acp.ClientConnection().receive(item.reply)
            assert isinstance(other, acp.Ignored), other
        elif isinstance(item, acp.Request | acp.Notification):
            again = read(type(item.params), msgspec.json.encode(_acp_written(item.params)))
            assert again == item.params, (again, item.params)
    for id_ in list(end.theirs) if not end.closed else ():
        assert end.fail(id_, -32603, "fuzz").endswith(b"\n")
        assert id_ not in end.theirs


def _acp_written(params: Any) -> Any:
    if isinstance(params, acp.SessionUpdate) and isinstance(params.update, acp.OtherUpdate):
        return {"sessionId": params.session_id, "update": params.update.data, "_meta": params.meta}
    return params


def _acp_killed(end: Any, stream: bytes, items: list[Any]) -> None:
    """Another connection for each line, made from what the one before has saved, gives the same items."""
    slowly: list[Any] = []
    for line in stream.split(b"\n")[:-1]:
        slowly += end.receive(line + b"\n")
        saved = msgspec.json.decode(msgspec.json.encode(end.save()), type=acp.Saved)
        assert saved == end.save()
        end = type(end)(saved, max_line=end._lines.limit)
    ended = len(items) - len(slowly)
    assert slowly == items[: len(slowly)], (slowly, items)
    assert ended <= 1, items  # a last line that is too long without its end


# --- MCP --------------------------------------------------------------------------------------------------

_TOOL = mcp.Tool(name="t", title="T", description="d", input_schema={}, output_schema={}, annotations={})
_GREETING = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n'


def read_mcp(data: bytes) -> None:
    """The server's end, new and after the handshake."""
    choice = Choice.of(data)
    limit = len(_GREETING) if choice.small else _MAX_LINE

    def make() -> mcp.ServerConnection:
        server = mcp.ServerConnection("fuzz", "1", lambda: [_TOOL], max_line=limit)
        if choice.begun:
            server.receive(_GREETING)
        return server

    server, items = _received(make, choice, lambda each: each._lines.pending, limit)
    _mcp_lines(make(), choice.stream)
    items += server.finish()
    for item in items:
        if isinstance(item, mcp.Reply):
            answer = _mcp_answer(item.line)
            assert ("error" in answer) == bool(item.fault), item
    for id in server.open:
        progress = server.progress(id, "on")
        assert not progress or msgspec.json.decode(progress)["params"]["progress"] == 1
        assert _mcp_answer(server.finish_call(id, "done", {"a": 1}))["id"] == id
        assert server.fail_call(id, "twice") == server.refuse_call(id, "twice") == b""
    assert not server.open


def _mcp_lines(server: mcp.ServerConnection, stream: bytes) -> None:
    """Only a call that is taken opens one, only its cancellation ends it, and no other answer has its id."""
    for line in stream.split(b"\n")[:-1]:
        before = server.open
        for item in server.receive(line + b"\n"):
            match item:
                case mcp.ToolCall(id, _, arguments, _):
                    assert server.open == [*before, id]
                    assert len(server.open) <= mcp.MAX_OPEN
                    msgspec.json.decode(arguments)
                case mcp.Cancelled(id, _):
                    assert id in before
                    assert server.open == [each for each in before if each != id]
                case mcp.Reply(written, _):
                    assert server.open == before
                    assert _mcp_answer(written)["id"] not in before


def _mcp_answer(line: bytes) -> dict[str, Any]:
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    answer: dict[str, Any] = msgspec.json.decode(line)
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    return answer


TARGETS: dict[str, Callable[[bytes], None]] = {
    "edn": read_edn,
    "sexp": read_sexp,
    "keepty": read_keepty,
    "rpc": read_rpc,
    "verifier": read_verifier,
    "passepartout": read_passepartout,
    "acp": read_acp,
    "mcp": read_mcp,
}
