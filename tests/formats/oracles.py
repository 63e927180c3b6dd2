"""The real readers: SBCL's and Clojure's, each in one process that answers many questions.

`oracle.lisp` and `oracle.clj` are the other ends of the pipe, and say what goes through it.
"""

import struct
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

LISP, CLOJURE = Path(__file__).with_name("oracle.lisp"), Path(__file__).with_name("oracle.clj")
_LENGTH = struct.Struct(">I")


class Refusal(NamedTuple):
    """What a reader says of a text that it can't read."""

    message: str


Answer = list[str] | Refusal
"""The forms that a text holds, printed; or why it holds none."""


class Oracle:
    """A process that reads texts with its own reader and prints back what it read."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            stack.callback(self._process.wait)
            stack.callback(self._answers.close)
            stack.callback(self._questions.close)  # at the end of its input it ends

    def ask(self, texts: Sequence[str]) -> list[Answer]:
        """What the reader makes of each of the texts. It answers when it has got all of them."""
        for frame in (str(len(texts)), *texts):
            encoded = frame.encode()
            self._questions.write(_LENGTH.pack(len(encoded)) + encoded)
        self._questions.flush()
        return [self._answer() for _ in texts]

    def _answer(self) -> Answer:
        count = int(self._frame())
        return [self._frame() for _ in range(count)] if count >= 0 else Refusal(self._frame())

    def _frame(self) -> str:
        header = self._answers.read(_LENGTH.size)
        assert len(header) == _LENGTH.size, f"{self._process.args!r} ended"
        (length,) = _LENGTH.unpack(header)
        return self._answers.read(length).decode()


def sbcl(program: str) -> Oracle:
    """SBCL, without anybody's settings."""
    return Oracle(
        program, "--noinform", "--no-sysinit", "--no-userinit", "--disable-debugger", "--load", str(LISP)
    )


def clojure(program: str) -> Oracle:
    """Clojure's EDN reader."""
    return Oracle(program, str(CLOJURE))
