"""The answer that a model is giving, in a file beside the journal, so that a half one outlives the program.

A journal takes whole messages only. Pieces are appended here as they come; the file is removed when the
message is in the journal. Whoever loads a session whose file is still there knows that its turn was lost.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from ..system.opening import UNFOLLOWED, read_file
from .answer import AnswerSoFar

SUFFIX = ".half"
MAX_HALF = 16 * 1024 * 1024
"""How many bytes of pieces are kept; what comes after them is not."""

_decode = msgspec.json.Decoder(tuple[bool, str]).decode


class HalfAnswer:
    """The pieces of one answer on disk. A disk that takes no more costs the pieces and nothing else."""

    def __init__(self, journal_path: str) -> None:
        self._path = journal_path + SUFFIX
        self._descriptor = -1
        self._left = MAX_HALF

    def add(self, piece: str, *, is_thought: bool) -> None:
        line = msgspec.json.encode((is_thought, piece)) + b"\n"
        self._left -= len(line)
        if self._left < 0:
            return
        try:
            if self._descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | UNFOLLOWED
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, line)
        except OSError:
            self._left = 0

    def clear(self) -> None:
        """The answer is in the journal, or is given anew."""
        if self._descriptor >= 0:
            self.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._left = MAX_HALF

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def take(self) -> AnswerSoFar:
        """What a program that is no more has left; the file is gone then."""
        answer = AnswerSoFar()
        try:
            lines = read_file(self._path, MAX_HALF).split(b"\n")
            os.unlink(self._path)
        except OSError:
            return answer
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):  # the last one may be torn
                is_thought, piece = _decode(line)
                (answer.thought if is_thought else answer.text)(piece)
        return answer
