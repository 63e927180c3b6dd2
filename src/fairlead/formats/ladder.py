"""The ladder of verifiers' confidence for people: the words that they read, and the colours.

The last two differ from those of the protocol, where `feedback` means that the work is wrong, and `failed`
that the verifier could not do its job.
"""

from __future__ import annotations

_WORDS = {"feedback": "failed", "failed": "error"}

LADDER = {"perfect": "green", "verified": "green", "partial": "yellow", "failed": "yellow", "error": "red"}
"""The words from the best to the worst, and how they are shown."""


def word_for(confidence: str) -> str:
    """What people read for a confidence of the protocol.

    >>> word_for("verified"), word_for("feedback"), word_for("failed")
    ('verified', 'failed', 'error')
    """
    return _WORDS.get(confidence, confidence)
