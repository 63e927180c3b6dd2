"""What fuzzing starts from: good and nearly good inputs for each target, and words worth putting into others.

The golden vectors of `tests/data` are used too, where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead.wire import keepty

DATA = Path(__file__).parent.parent / "tests" / "data"

_CHOICES = (b"\0\0", b"\0\2", b"\7\1", b"\7\3", b"\0\4", b"\0\6", b"\7\5", b"\7\7")
"""The first two bytes of a stream's input: see `targets.Choice`."""

_EDN = (
    '{:id "req-1" :kind :request :op "prompt" :params {:message "a\\tb\\u00e9\\101" :n [1 2.5 nil true]}}',
    "#{1 1.0 true [1] (1) {1 2} #{1}} {[1 {2 3}] \\newline, \\u0041 \\o101}",
    "[0x1F -017 36rZz 1N 1.5M 1e3 1/2 +4/2 ##Inf ##-Inf ##NaN -0.0 0M 1E-7M]",
    '#inst "2026-01-31T23:59:60.123456789+01:00" #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"',
    "#:a{:b 1 :_/c 2 d/e 3} #_ #_ 1 2 ^:m ^{:k v} [x] #psi/ref #tag (1)",
    '; comment\n"\\ud83d\\ude00 \\ud800" a/b :a/b / :/ +1 -a .b ->c a#b',
)
_SEXP = (
    '(:type :event :payload (:text "a\\"b" :ids (1 2) :n NIL :ok T))',
    "((a b . c) (1 . (2 . (3))) #(1 #(2)) ''a #\\Newline #\\U+41 #\\()",
    "(|a B|c\\d :|x| cl:car passepartout::y keyword:z |a\\|b|)",
    "(1 -2. 1/2 4/2 1.5 1.5d0 1e-40 1d-310 .5 -0.0 1l0 3.4028235e38 1e-9999)",
    '; c\n#| a #| b |# c |# "two\nlines"',
    "(#\\LATIN_SMALL_LETTER_SHARP_S ß ÄÖ #\\é \u00a0)",
)
_RPC = (
    '{:id "1" :kind :request :op "handshake" :params {:client-info {:protocol-version "1.0"}}}',
    '{:id "2" :kind :request :op "ping"}',
    '{:id "2" :kind "request" :op "subscribe" :params {:topics ["error"]}}',
    '{:id "3" :kind :request :op "prompt" :params {:message "hi" :images #{1 \\a 1/3 1M}}}',
    '{:id "4" :kind :request :op "handshake" :params {:protocol-version "2.0"}}',
    '{:id 5 :kind :request :op "x" :y 1}',
    '{:kind :response :id "req-1" :op "handshake" :ok true :data {:server-info {}}}',
    '{:kind :response :id "req-2" :op "ping" :ok true}',
    '{:kind :error :error-code "request/not-found" :error-message "no" :id "req-2" :retryable false}',
    '{:kind :event :event "error" :data {:a 1.5} :seq 1 :ts "t"}',
    "",
)
_VERIFIER = (
    '{"type":"hello","role":"verifier","sessionId":"s1","pid":1}',
    '{"type":"hello_ack","sessionId":"s1"}',
    '{"type":"prompt","sessionId":"s2","message":"fix\\ud800","correlationId":"c","deliverAs":"steer"}',
    '{"type":"prompt","sessionId":"s1","correlationId":"c"}',
    '{"type":"prompt_ack","sessionId":"s1","correlationId":"c","ok":false,"error":"no"}',
    '{"type":"report","sessionId":"s1","turnIndex":1,"status":"failed","summary":"","sections":{},"raw":""}',
    '{"type":"event","name":"stop","sessionId":"s1","turnIndex":1,"timestamp":1.5,"userPrompt":"\u2028"}',
    '{"type":"ping","nonce":"1"}',
    '{"type":"pong","nonce":"1"}',
    '{"type":"bye","reason":"done"}',
    "",
)
_REPORT = (
    "# Turn\n```\n## Report\n```\n## Report: ##\n**STATUS**: verified\n> CONFIDENCE: `PERFECT`\n"
    "### What did you verify?\nthe parser\n### Feedback ###\n- none\n"
)
_PASSEPARTOUT = (
    '(:TYPE :EVENT :PAYLOAD (:ACTION :HANDSHAKE :VERSION "1" :CAPABILITIES (:AUTH)))',
    '(:type :request :payload (:action :auth :token "t"))',
    "(:type :health-check)",
    "(:TYPE :HEALTH-RESPONSE :STATUS :HEALTHY :CHECKED-P T)",
    '(:type :event :meta (:source :tui) :payload (:sensor :user-input :text "hé \U0001f600"))',
    "(:type :request :socket 1 :payload (:stream (:socket :stream) :action :x))",
    "(:type :nothing)",
    "",
)
_KEEPTY = (
    keepty.Hello(keepty.Role.WRITER, 80, 24, keepty.Wish.REASONS),
    keepty.HelloAck(1, 80, 24),
    keepty.Output(b"out" * 50),
    keepty.Input(b"in"),
    keepty.Resize(100, 30),
    keepty.ResizeAck(1, 100, 30),
    keepty.Ping(),
    keepty.Pong(),
    keepty.Error("é"),
    keepty.Shutdown(),
    keepty.Exit(-1),
)


_ACP = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}',
    '{"jsonrpc":"2.0","id":"a","method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"m","command":"c"}]}}',
    '{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":"s2","cwd":"/","mcpServers":[]}}',
    '{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"a"}]}}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}',
    '{"jsonrpc":"2.0","id":5,"method":"session/set_mode","params":{"sessionId":"s1","modeId":"m"}}',
    '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s2","modes":{"currentModeId":"m","availableModes":[{"id":"m"}]}}}',
    '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":1}}}',
    '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"log in","data":[1]}}',
    '{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"selected","optionId":"yes"}}}',
    '{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}',
    '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":'
    '{"toolCallId":"t"},"options":[{"optionId":"a","name":"A","kind":"allow_once"}]}}',
    '{"jsonrpc":"2.0","id":6,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/a"}}',
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
    '"agent_message_chunk","content":{"type":"text","text":"\\ud83d\\ude00\\ud800"}}}}',
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call",'
    '"toolCallId":"t","title":"x","content":[{"type":"diff","path":"/a","newText":"b"},{"type":"x"}],"rawInput":[1]}}}',
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"new","a":1.5}}}',
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
    '"config_option_update","configOptions":[{"id":"a","name":"A","type":"boolean","currentValue":true}]}}}',
    '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}',
    '[{"jsonrpc":"2.0","id":1,"method":"x"}]',
    "a line of a log",
    "",
)  # fmt: skip

_STATELESS = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
_MCP = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"c"}}}',
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":2,"method":"ping"}',
    '{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}',
    '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":{"x":1.5},"_meta":{"progressToken":1}}}',
    '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"t"}}',
    '{"jsonrpc":"2.0","id":4,"method":"ping"}',
    '{"jsonrpc":"2.0","id":"a","method":5}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"enough"}}',
    '{"jsonrpc":"2.0","id":5,"method":"server/discover","params":{' + _STATELESS + "}}",
    '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"t","arguments":{},' + _STATELESS + "}}",
    '{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1"}}}',
    '{"jsonrpc":"2.0","id":8,"result":{}}',
    '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "",
)  # fmt: skip


def _framed(text: str) -> bytes:
    return b"%06X" % len(text) + text.encode()


def _texts(*texts: str) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def _lines(texts: tuple[str, ...]) -> list[bytes]:
    return [text.encode() + b"\n" for text in texts]


def _streams(parts: list[bytes]) -> Iterator[bytes]:
    """Each part, and all of them together, with each choice of how they are taken."""
    for choice in _CHOICES:
        yield choice + b"".join(parts)
        yield from (choice + part for part in parts)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _vectors(prefix: str) -> Iterator[str]:
    """The texts in the golden vectors of a format."""
    for path in sorted(DATA.glob(f"{prefix}*.json")):
        yield from _strings(json.loads(path.read_text(encoding="utf-8")))


def seeds(target: str) -> list[bytes]:
    """Inputs to begin with."""
    match target:
        case "edn":
            return _texts(*_EDN, *_vectors("edn"))
        case "sexp":
            return _texts(*_SEXP, *_vectors("sexp"))
        case "keepty":
            return list(_streams([message.encode() for message in _KEEPTY]))
        case "rpc":
            values = _texts(*_EDN[:-1], *_vectors("edn"))
            request = b'\0\2{:id "9" :kind :request :op "new_session" :params {:parent-session %s}}\n'
            return [*_streams(_lines(_RPC)), *(request % value for value in values)]
        case "verifier":
            return [*_streams(_lines(_VERIFIER)), b"\0\0" + _REPORT.encode()]
        case "passepartout":
            events = (_framed(f"(:type :event :payload {text})") for text in _SEXP)
            return [
                *_streams([_framed(text) for text in _PASSEPARTOUT]),
                *(b"\0\2" + event for event in events),
            ]
        case "acp":
            return list(_streams(_lines(_ACP)))
        case "mcp":
            return list(_streams(_lines(_MCP)))
    raise ValueError(f"no such target: {target}")


_EDN_WORDS = r"""
{ } [ ] ( ) #{ #_ #: ## ^ #^ ; \ " , / : #inst #uuid #a ##Inf ##NaN nil true false 0x 36r N M e1 E-7M 1/2 1.0
1 1N 1M \u0041 \o101 \newline :a a/b 00 -0.0 e999999999M 2147483647 9223372036854775808 2305843009213693951
2026-01-31T12:00:00Z {1,2}, [[[[[[[[ ]]]]]]]]
"""
_SEXP_WORDS = r"""
( ) #( #| |# #\ ' . ; | \ " ` , #. #' NIL T nil t 1/2 1.5 1d0 e-40 d-310 e38 e39 -0.0 :a cl: keyword: U+ |a|
\| passepartout:: Newline 1+ 9999 ١ ß (((((((( )))))))) ''''''''
"""
_RPC_WORDS = ":id :kind :request :response :error :event :op :params :seq :data :ok :ts req-1 req-2 ping"
_VERIFIER_WORDS = r"""
" { } [ ] : , \ud800 \u0000 1e400 null true type sessionId deliverAs confidence ``` ~~~ ### -1 1.5 é
999999999999999999999999999999 STATUS:failed
"""
_ACP_WORDS = r"""
" { } [ ] : , [[[[[[[[ ]]]]]]]] {"a": null true 1.5 -1 1e400 \ud800 \ude00 \\ id method params result error
jsonrpc 2.0 sessionId update sessionUpdate content type text plan tool_call usage_update _meta s1 s2
9223372036854775808 "id":1, "id":"p", "id":null, session/update session/prompt session/close initialize
"""
_MCP_WORDS = r"""
" { } [ ] : , [[[[[[[[ null true -1 1e400 \ud800 \\ id method params result jsonrpc 2.0 "id":"a", "id":4,
"id":null, _meta progressToken name arguments requestId initialize ping tools/call tools/list 2025-11-25
2026-07-28
"""
_PASSEPARTOUT_WORDS = "000000 000002() FFFFFF 00000 :type :event :payload :action :token :stream :socket é"
_KEEPTY_WORDS = (
    b"\0\0\0\2\1",
    b"\0\0\0\7\1\1",
    b"\0\0\0\3\1\4",
    b"\0\x10\0\2\1\4",
    b"\0\x10\0\3",
    b"FL\1",
    b"\x7f",
    b"\xff",
)
_BLANKS = ("\n", "\r\n", "\f", "\u00a0", "\u2028", "\ufeff", "\ud800", "\udc00", "## Report")


def words(target: str) -> list[bytes]:
    """Words of the format, for the dictionary."""
    if target == "keepty":
        return list(_KEEPTY_WORDS)
    texts = {
        "edn": _EDN_WORDS,
        "sexp": _SEXP_WORDS,
        "rpc": _EDN_WORDS + _RPC_WORDS,
        "verifier": _VERIFIER_WORDS,
        "acp": _ACP_WORDS,
        "mcp": _MCP_WORDS,
        "passepartout": _SEXP_WORDS + _PASSEPARTOUT_WORDS,
    }
    return _texts(*texts[target].split(), *_BLANKS)
