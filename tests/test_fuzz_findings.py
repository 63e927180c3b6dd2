"""What fuzzing and thinking like an attacker found: each input once broke a promise of its decoder.

A row has the decoder, the input, and what must come of it now. The fuzzing target of the decoder must hold
for the input too, so a row also checks what can't be seen in the outcome: other ways to cut the stream, the
text that is written and read again. Some inputs would take minutes if they cost the square of their length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from fairlead.formats import edn, sexp
from fairlead.formats.edn import EdnError
from fairlead.formats.sexp import SexpError
from fairlead.wire import keepty, passepartout, rpc, verifier
from fuzz.targets import TARGETS

SAME_HASH = 2**61 - 1
"""Multiples of it have the same hash as integers."""


def from_edn(data: bytes) -> str:
    try:
        return " ".join(map(edn.dumps, edn.loads_all(str(data, "utf-8", "surrogatepass"))))
    except EdnError as error:
        return error.message


def column_in_edn(data: bytes) -> int | None:
    with pytest.raises(EdnError) as caught:
        edn.loads(data)
    return caught.value.column


def from_edn_to_plain(data: bytes) -> str:
    return edn.dumps(edn.loads(data), dialect=edn.PLAIN)


def from_short_edn(data: bytes) -> str:
    return edn.dumps(edn.loads(data, max_length=6))


def from_sexp(data: bytes) -> str:
    try:
        return sexp.dumps(sexp.loads(str(data, "utf-8", "surrogatepass")))
    except SexpError as error:
        return error.message


def length_of_sexp(data: bytes) -> int:
    return len(sexp.loads(data))


def to_keepty_client(data: bytes) -> str:
    return repr(keepty.ClientConnection().receive(data))


def to_rpc_server(data: bytes) -> str:
    server = rpc.ServerConnection()
    server.state = rpc.State.READY
    return b"".join(rpc.encode(item) for item in server.receive(data) if isinstance(item, rpc.Error)).decode()


def to_rpc_client(data: bytes) -> str:
    return repr(rpc.ClientConnection().receive(data))


def to_builder(data: bytes) -> str:
    return repr(verifier.BuilderConnection("s1").receive(data))


def from_report(data: bytes) -> str:
    try:
        return repr(verifier.parse_report(data.decode(), "s1", 1))
    except verifier.ReportError as error:
        return str(error)


def to_daemon(data: bytes) -> str:
    return repr(passepartout.ServerConnection(proven=True).receive(data))


def to_passepartout_client(data: bytes) -> str:
    return repr(passepartout.ClientConnection().receive(data))


def framed(text: str) -> bytes:
    return f"{len(text):06X}{text}".encode()


class Finding(NamedTuple):
    what: str
    decode: Callable[[bytes], object]
    data: bytes
    outcome: object


EDN = [
    Finding(
        "a key of lists and tags that hashing would recurse into",
        from_edn,
        b"{" + (b"(" + b"#a " * 400) * 3 + b"1" + b")" * 3 + b" 2}",
        "a key or an element of a set nests deeper than 64",
    ),
    Finding(
        "two equal maps of maps of maps as keys that comparing would recurse into",
        from_edn,
        b"#{" + (b"{" * 400 + b"1" + b" 2}" * 400 + b" ") * 2 + b"}",
        "a key or an element of a set nests deeper than 64",
    ),
    Finding(
        "two equal sets of sets of sets that comparing would recurse into",
        from_edn,
        b"#{" + (b"#{" * 500 + b"1" + b"}" * 500 + b" ") * 2 + b"}",
        "a key or an element of a set nests deeper than 64",
    ),
    Finding(
        "tags and brackets that only together nest too deep to be written",
        from_edn,
        b"[" * 300 + b"#a " * 300 + b"1" + b"]" * 300,
        "collections and tags nest deeper than 512",
    ),
    Finding(
        "a map that is put into a namespace once for each prefix",
        from_edn,
        b"#:a " * 20_000 + b"{" + b" ".join(b":k%d 1" % key for key in range(20_000)) + b"}",
        "a namespaced map needs a map right after #:a",
    ),
    Finding(
        "elements that all have the same hash",
        from_edn,
        b"#{" + b" ".join(b"%d" % (key * SAME_HASH) for key in range(20_000)) + b"}",
        "20000 keys of a map or elements of a set have the same hash; at most 16 may",
    ),
    Finding(
        "keys that all have the same hash and can't be hashed as they are",
        from_edn,
        b"{" + b" ".join(b"[%d] 1" % (key * SAME_HASH) for key in range(20_000)) + b"}",
        "20000 keys of a map or elements of a set have the same hash; at most 16 may",
    ),
    Finding(
        "a large set in sixty sets each of which has elements to tell apart",
        lambda data: len(edn.dumps(edn.loads(data))) - len(data),
        b"#{1 1.0 " * 60 + b"#{" + b" ".join(b"%d" % key for key in range(200_000)) + b"}" * 61,
        0,
    ),
    Finding("a text with fewer characters than bytes", from_short_edn, '"éééé"'.encode(), '"éééé"'),
    Finding("a decimal zero with a large exponent", from_edn, b"0E-2147483647M", "0E-2147483647M"),
    Finding("a negative decimal zero", from_edn, b"-0E+2147483647M", "0E+2147483647M"),
    Finding(
        "a decimal that Java can't hold",
        from_edn,
        b"12E2147483647M",
        "invalid number '12E2147483647M'",
    ),
    Finding("a ratio too large for a double", from_edn_to_plain, b"1" + b"0" * 400 + b"/3", "nil"),
    Finding("a decimal too large for a double", from_edn_to_plain, b"1e999M", "nil"),
    Finding(
        "a text that ends too early",
        column_in_edn,
        b"[1 2",
        5,
    ),
    Finding(
        "a duplicate that is too long to be written",
        from_edn,
        b"#{0x" + b"f" * 4000 + b" 0x" + b"f" * 4000 + b"}",
        "duplicate element …",
    ),
]

SEXP = [
    Finding(
        "a string that ends in an escaped quote",
        from_sexp,
        rb'"abc\"',
        "a string without its closing quote",
    ),
    Finding(
        "half of a surrogate pair as a character",
        from_sexp,
        b"#\\\xed\xb0\x80",
        r"unknown character '#\\\udc00'; expected #\c, #\Newline, #\U+41 or the like",
    ),
    Finding(
        "an alias of a character that has no name",
        from_sexp,
        rb"#\spa",
        r"unknown character '#\\spa'; expected #\c, #\Newline, #\U+41 or the like",
    ),
    Finding("a symbol whose name is a number in other digits", from_sexp, b"||\xd9\xa3", "|\u0663|"),
    Finding(
        "floats whose exact value is very long", length_of_sexp, b"(" + b"1e-9999 " * 20_000 + b")", 20_000
    ),
    Finding(
        "a name of combining marks to be put into order",
        from_sexp,
        ("a" + "\u0315\u0300" * 100_000).encode(),
        "a name of 200001 characters; at most 1024 are allowed beyond ASCII",
    ),
    Finding(
        "a name of combining marks between bars",
        from_sexp,
        ("|A" + "\u0315\u0300" * 100_000 + "|").encode(),
        "|A" + "\u0315\u0300" * 100_000 + "|",
    ),
    Finding(
        "quotes and brackets that only together nest too deep to be written",
        from_sexp,
        b"(" * 200 + b"'" * 200 + b"a" + b")" * 200,
        "lists and quotes nest deeper than 256",
    ),
]

KEEPTY = [
    Finding(
        "an error that grows beyond a frame when what is no UTF-8 is replaced",
        lambda data: [
            len(message.encode()) for message in keepty.Decoder().feed(data) if type(message) is keepty.Error
        ],
        keepty.Error("x" * 400_000).encode().replace(b"x", b"\xff"),
        [6 + keepty.MAX_PAYLOAD // 3 * 3],
    ),
    Finding(
        "more after the error that a broker sends instead of a HelloAck",
        to_keepty_client,
        keepty.Error("no").encode() + bytes(20),
        "[Error(text='no')]",
    ),
]

RPC = [
    Finding(
        "an unsupported key that can't be written",
        to_rpc_server,
        b'{:kind :request :id "a" :op "ping" 0x' + b"f" * 4000 + b" 1}\n",
        '{:kind :error, :id "a", :op "ping", :error-code "protocol/invalid-envelope", :error-message '
        '"request frame contains unsupported keys", :data {:unsupported ["a key that is a int"]}}\n',
    ),
    Finding(
        "an id of tags that its repr would recurse into",
        to_rpc_client,
        b"{:kind :response :id " + b"#a " * 500 + b"1}\n",
        "[Broken('bad frame from the server: id must be a non-empty string, not a Tagged', reply=b'')]",
    ),
    Finding(
        "an id as long as a line",
        to_rpc_client,
        b"{:kind :response :id [" + b"1 " * 100_000 + b"]}\n",
        "[Broken('bad frame from the server: id must be a non-empty string, not a list', reply=b'')]",
    ),
    Finding(
        "a number of an event that Python refuses to print",
        to_rpc_client,
        b'{:kind :event :event "error" :data {} :seq 0x' + b"f" * 4000 + b"}\n",
        "[Broken('bad frame from the server: seq must be a positive integer, not a int', reply=b'')]",
    ),
]

VERIFIER = [
    Finding(
        "half of a surrogate pair in the name of a field",
        to_builder,
        b'{"type":"ping","nonce":"1","\\ud800":1}\n',
        "[Malformed(type='ping', reason=\"ping: 'utf-8' codec can't encode character '\\\\ud800' "
        "in position 0: surrogates not allowed\", raw={'type': 'ping', 'nonce': '1', '\\ud800': 1})]",
    ),
    Finding(
        "a line in UTF-16",
        lambda data: to_builder(data).partition(":")[0],
        '{"type":"bye","reason":"x"}'.encode("utf-16-le") + b"\n",
        "[Broken('not JSON",
    ),
    Finding(
        "a line with a byte order mark",
        lambda data: to_builder(data).partition(":")[0],
        b'\xef\xbb\xbf{"type":"bye","reason":"x"}\n',
        "[Broken('not JSON",
    ),
    Finding(
        "a timestamp without end",
        lambda data: to_builder(data).partition(", raw")[0],
        b'{"type":"event","name":"stop","sessionId":"s1","timestamp":1e400}\n',
        "[Malformed(type='event', reason='event: timestamp of an Event must be finite, not inf'",
    ),
    Finding(
        "a heading with many blanks in it",
        from_report,
        b"## Report\n# a" + b" " * 20_000 + b"b",
        "below '## Report' there must be STATUS: verified, failed or unsure, not None",
    ),
]

PASSEPARTOUT = [
    Finding(
        "a header that is wrong before it is complete",
        lambda data: to_daemon(data).partition(", reply")[0],
        b"00ZZZZ",
        "[Broken(\"a frame must begin with six hex digits, not '00Z'\"",
    ),
    Finding(
        "capabilities that are no list",
        to_passepartout_client,
        framed('(:type :event :payload (:action :handshake :version "1" :capabilities 5))'),
        "[Hello(version='1', capabilities=())]",
    ),
    Finding(
        "a message that nests too deep to be shown",
        lambda data: to_daemon(data).partition(", reply")[0],
        framed("(:type :event :payload " + "'" * 256 + "a)"),
        "[Invalid(reason='lists and quotes nest deeper than 256 (line 1, column 1)'",
    ),
]

FINDINGS = [
    pytest.param(target, finding, id=f"{target}: {finding.what}")
    for target, findings in (
        ("edn", EDN),
        ("sexp", SEXP),
        ("keepty", KEEPTY),
        ("rpc", RPC),
        ("verifier", VERIFIER),
        ("passepartout", PASSEPARTOUT),
    )
    for finding in findings
]


@pytest.mark.parametrize(("target", "finding"), FINDINGS)
def test_what_was_found_stays_mended(target: str, finding: Finding) -> None:
    assert finding.decode(finding.data) == finding.outcome


SHORT = 5000
CHOICES = {"edn": [b""], "sexp": [b""]}
"""The first bytes of a target's input: see `fuzz.targets.Choice`."""


@pytest.mark.parametrize(("target", "finding"), FINDINGS)
def test_the_target_holds_for_what_was_found(target: str, finding: Finding) -> None:
    if len(finding.data) <= SHORT:
        for choice in CHOICES.get(
            target, [bytes((seed, options)) for seed in (0, 7) for options in range(8)]
        ):
            TARGETS[target](choice + finding.data)
