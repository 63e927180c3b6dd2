"""Inputs made from others by chance alone: for tests, which want the same ones every time, and for machines
that have no atheris."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

MAX_LENGTH = 4096
"""How long an input gets."""


def mutated(chance: Random, corpus: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of the corpus, changed in a few places."""
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 8))):
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice((1, 1, 2, 4, 16, 64)))
        match chance.randrange(8):
            case 0:
                data[start:end] = b""
            case 1:
                data[start:start] = chance.choice(words)
            case 2:
                data[start:end] = chance.choice(words)
            case 3:
                data[start:start] = chance.choice(words) * chance.choice((2, 8, 70, 300, 600))
            case 4:
                data[start:start] = data[start:end] * chance.choice((1, 2, 30))
            case 5:
                data[start:end] = chance.randbytes(end - start)
            case 6:
                other = chance.choice(corpus)
                data[start:] = other[chance.randint(0, len(other)) :]
            case _:
                for at in range(start, end):
                    data[at] = (data[at] + chance.choice((-1, 1, 32, 128))) % 256
    return bytes(data[:MAX_LENGTH])
