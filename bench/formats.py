"""The speed of the formats and the wire decoders beside their peers: `make bench-formats`.

Inputs differ from call to call as they do in life: other ids, other texts, other numbers. An EDN frame is
measured twice, with a shape that comes again and again and with shapes that were never met.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import edn_format
import keepty.protocol
import sexpdata
from sidebyside import Contender, compare, growth, seconds_a_call

from fairlead.formats import edn, sexp
from fairlead.wire import keepty as wire_keepty
from fairlead.wire import passepartout, rpc, verifier

FRAMES = 300
SENTENCE = "please look at the failing test in parser then mend it and run all of them again"
WORDS = SENTENCE.split()


def request(number: int, chance: random.Random, *, known_shape: bool) -> dict[str, Any]:
    """A request of about 300 bytes, as plain data."""
    text = " ".join(chance.choices(WORDS, k=16))
    return {
        "id": f"req-{number}",
        "kind": "request",
        "op": "prompt",
        "params": {
            "message": f"{text} ({number})",
            "session-id": f"{chance.getrandbits(64):016x}",
            "images": [],
            "options": {
                "stream": True,
                "max-tokens": 4096 if known_shape else number * 7919,
                "temperature": 0.7 if known_shape else round(chance.random(), 6),
                "tags": ["fast", f"run-{number}"],
            },
        },
    }


def keyed(value: Any, key: Any) -> Any:
    """The same data with every key of its maps made by `key`."""
    if isinstance(value, dict):
        return {key(name): keyed(inner, key) for name, inner in value.items()}
    return [keyed(inner, key) for inner in value] if isinstance(value, list) else value


def document(size: int, chance: random.Random) -> dict[str, Any]:
    """A nested map that takes about `size` bytes to write."""
    sessions: dict[str, Any] = {}
    written = 0
    while written < size:
        row = {
            "name": f"work-{len(sessions)}",
            "phase": chance.choice(["idle", "streaming", "compacting"]),
            "usage": {
                "input": chance.randrange(10**6),
                "output": chance.randrange(10**5),
                "cost": chance.random(),
            },
            "tree": {
                "parent": {"id": f"{chance.getrandbits(32):08x}", "at": {"line": chance.randrange(999)}}
            },
            "messages": [" ".join(chance.choices(WORDS, k=8)) for _ in range(4)],
            "flags": [True, False, None, chance.randrange(100)],
        }
        sessions[f"s{len(sessions)}"] = row
        written += len(json.dumps(row)) + 12
    return {"sessions": sessions}


def bench_edn() -> Iterator[bool]:
    chance = random.Random(1)
    known = [request(number, chance, known_shape=True) for number in range(FRAMES)]
    new = [request(number, chance, known_shape=False) for number in range(FRAMES)]
    texts = {
        "known": [edn.dumps(keyed(each, edn.Keyword)) for each in known],
        "new": [edn.dumps(keyed(each, edn.Keyword)) for each in new],
    }
    size = sum(map(len, texts["known"])) // FRAMES
    for kind, data in (("known", known), ("new", new)):
        yield compare(
            f"Reading an EDN frame of {size} bytes, {kind} shape",
            [
                Contender("fairlead edn.loads", edn.loads, texts[kind]),
                Contender("edn_format 0.8.0", edn_format.loads, texts[kind][:10]),
                Contender("json.loads, the same as JSON", json.loads, [json.dumps(each) for each in data]),
            ],
            {"edn_format 0.8.0": 30},
        )
    yield compare(
        f"Writing an EDN frame of {size} bytes",
        [
            Contender("fairlead edn.dumps", edn.dumps, [edn.loads(text) for text in texts["new"]]),
            Contender(
                "edn_format 0.8.0", edn_format.dumps, [edn_format.loads(text) for text in texts["new"][:50]]
            ),
            Contender("json.dumps, the same as JSON", json.dumps, new),
        ],
        {"edn_format 0.8.0": 6},
    )
    large = document(1_000_000, chance)
    text = edn.dumps(keyed(large, edn.Keyword))
    yield compare(
        f"Reading a nested EDN map of {len(text):,} bytes",
        [
            Contender("fairlead edn.loads", edn.loads, [text]),
            Contender("edn_format 0.8.0", edn_format.loads, [text]),
            Contender("json.loads, the same as JSON", json.loads, [json.dumps(large)]),
        ],
        {"edn_format 0.8.0": 10},
        rounds=2,
    )
    yield compare(
        f"Writing a nested EDN map of {len(text):,} bytes",
        [
            Contender("fairlead edn.dumps", edn.dumps, [edn.loads(text)]),
            Contender("edn_format 0.8.0", edn_format.dumps, [edn_format.loads(text)]),
            Contender("json.dumps, the same as JSON", json.dumps, [large]),
        ],
        {"edn_format 0.8.0": 6},
        rounds=2,
    )
    yield growth(
        "Reading EDN that nests 500 deep, again and again",
        edn.loads,
        lambda count: "[" + ("[" * 500 + "]" * 500) * count + "]",
        [8, 32, 128],
    )


def bench_sexp() -> Iterator[bool]:
    chance = random.Random(2)
    texts = []
    for number in range(FRAMES):
        said = " ".join(chance.choices(WORDS, k=16)) + f" ({number})"
        message = passepartout.user_input(said).plist
        message += passepartout.plist(
            depth=number % 10,
            gate_trace=[passepartout.plist(gate=sexp.Keyword("SECRETS"), result=sexp.Keyword("PASSED"))] * 3,
        )
        texts.append(sexp.dumps(message))
    yield compare(
        f"Reading an S-expression of {sum(map(len, texts)) // FRAMES} characters",
        [
            Contender("fairlead sexp.loads", sexp.loads, texts),
            Contender("sexpdata 1.0.2", sexpdata.loads, texts),
        ],
        {"sexpdata 1.0.2": 4},
    )
    yield compare(
        "Writing the same",
        [
            Contender("fairlead sexp.dumps", sexp.dumps, [sexp.loads(text) for text in texts]),
            Contender("sexpdata 1.0.2", sexpdata.dumps, [sexpdata.loads(text) for text in texts]),
        ],
        {},
    )
    yield growth(
        "Reading S-expressions that nest 250 deep, again and again",
        sexp.loads,
        lambda count: "(" + ("(" * 250 + ")" * 250) * count + ")",
        [16, 64, 256],
    )


class Recorded(io.BytesIO):
    """What the keepty SDK takes for a socket."""

    recv = io.BytesIO.read


def bench_keepty() -> Iterator[bool]:
    frames, chunk = 20_000, 65_536
    stream = wire_keepty.Output(b"x" * 64).encode() * frames
    chunks = [stream[start : start + chunk] for start in range(0, len(stream), chunk)]

    def ours(_: object) -> None:
        decoder = wire_keepty.Decoder()
        seen = sum(len(decoder.feed(data)) for data in chunks)
        assert seen == frames

    def theirs(_: object) -> None:
        socket = Recorded(stream)
        seen = 0
        while keepty.protocol.Frame.read_from(socket) is not None:
            seen += 1
        assert seen == frames

    contenders = [
        Contender("fairlead keepty.Decoder", ours, [None]),
        Contender("keepty 0.1.1, Frame.read_from", theirs, [None]),
    ]
    yield compare(f"Decoding {frames:,} keepty frames of 64 bytes", contenders, {})
    rate = frames / seconds_a_call(contenders[:1])[contenders[0].name]
    print(f"  {rate / 1e6:.2f} million frames a second   goal 1: {'met' if rate >= 1e6 else 'MISSED'}")
    yield rate >= 1e6


def byte_by_byte(make: Any) -> Any:
    """A call that feeds a new connection one byte at a time."""

    def call(data: bytes) -> None:
        receive = make().receive
        for value in data:
            receive(bytes((value,)))

    return call


def bench_dribble() -> Iterator[bool]:
    sizes = [4_000, 16_000, 64_000]

    def line(size: int) -> bytes:
        return rpc.encode(rpc.Request("req-1", "prompt", rpc.fields(message="x" * size)))

    def envelope(size: int) -> bytes:
        return verifier.Bye(reason="x" * size).encode()

    def plist(size: int) -> bytes:
        return passepartout.frame(passepartout.user_input("é" * (size // 2)).plist)

    def output(size: int) -> bytes:
        hello = wire_keepty.Hello(wire_keepty.Role.WRITER, 80, 24).encode()
        return hello + wire_keepty.Input(b"x" * size).encode()

    yield growth("rpc, a request fed byte by byte", byte_by_byte(rpc.ServerConnection), line, sizes)
    yield growth(
        "verifier, an envelope fed byte by byte",
        byte_by_byte(lambda: verifier.BuilderConnection("s1")),
        envelope,
        sizes,
    )
    yield growth(
        "keepty, a frame fed byte by byte", byte_by_byte(wire_keepty.BrokerConnection), output, sizes
    )
    yield growth(
        "passepartout, a frame fed byte by byte",
        byte_by_byte(lambda: passepartout.ServerConnection(proven=True)),
        plist,
        sizes,
    )


def main() -> int:
    parts = (bench_edn, bench_sexp, bench_keepty, bench_dribble)
    wanted = sys.argv[1:]
    met = [each for part in parts if not wanted or part.__name__[6:] in wanted for each in part()]
    print(f"\n{sum(met)} of {len(met)} goals met")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
