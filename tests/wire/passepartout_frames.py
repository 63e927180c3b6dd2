"""Frames of Passepartout, whole and in pieces."""

from itertools import pairwise


def framed(text: str) -> bytes:
    """A text with its length before it, made without the code under test."""
    return b"%06X" % len(text) + text.encode()


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted(min(cut, len(data)) for cut in cuts)
    return [data[start:end] for start, end in pairwise([0, *places, len(data)])]
