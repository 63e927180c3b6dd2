"""Cutting a stream of bytes as a network may: anywhere, also within a character."""

from itertools import pairwise

from hypothesis import strategies as st

cuts = st.lists(st.integers(0, 2**16), max_size=24)
"""Where to cut, whatever the length of the stream turns out to be."""


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    """The stream cut at these places, which are taken modulo its length. Some pieces may be empty."""
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in pairwise([0, *ends, len(data)])]


def bytewise(data: bytes) -> list[bytes]:
    """The stream, one byte at a time."""
    return [data[at : at + 1] for at in range(len(data))]
