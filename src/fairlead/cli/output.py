"""Standard output and error that take any text, whatever the locale, and any way in which their readers go.

Nothing that a command prints may end in a traceback: not a character that the locale lacks, not a reader that
has gone, not a descriptor that was closed, not a full disk.
"""

from __future__ import annotations

import codecs
import os
import sys

EQUIVALENTS = {
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’‚", "'"),
    **dict.fromkeys("–—‐─", "-"),
    **dict.fromkeys("·•", "."),
    **dict.fromkeys("●✓✔★⏺◆", "*"),
    **dict.fromkeys("✗✘×", "x"),
    **dict.fromkeys("█▇▆▅▄▃▂▁▉▊▋▌▍▎▏", "#"),
    **{
        "…": "...",
        "→": "->",
        "←": "<-",
        "≥": ">=",
        "≤": "<=",
        "○": "o",
        "❯": ">",
        "›": ">",
        "↳": ">",
        **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
        "│": "|",
        "└": "`",
        "├": "|",
        "☑": "x",
        "☐": "o",
        "▸": ">",
        "▾": "v",
        "⎇": "@",
        "↑": "^",
        "↓": "v",
        "≡": "=",
    },
    **{"\xa0": " ", "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "µ": "u"},
}
"""What stands for characters that the locale has not; for others a question mark."""
LOOK_EVERY = 1.0
"""Seconds between looks for a reader, on systems that don't tell when it goes."""
_HANDLER = "fairlead.equivalents"
_ASCII = ("ANSI_X3.4-1968", "US-ASCII", "646")
"""What the systems call the characters of the C locale."""


def _substituted(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    char = error.object[error.start]
    if "\udc80" <= char <= "\udcff":  # a byte of a name that is no text
        return bytes([ord(char) - 0xDC00]), error.start + 1
    return EQUIVALENTS.get(char, "?"), error.start + 1


def prepare() -> None:
    """Let this process print anything.

    Standard descriptors that are closed lead nowhere, so that nothing that we open gets their numbers.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(opened, True)
        os.close(opened)
        for name in ("stdin", "stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - while we run
    codecs.register_error(_HANDLER, _substituted)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            # what a program printed goes whole into a pipe
            is_ascii = has_ascii() and (stream is sys.stderr or stream.isatty())
            reconfigure(encoding="ascii" if is_ascii else None, errors=_HANDLER)


def has_ascii() -> bool:
    """Whether the locale has ASCII alone. Python makes it UTF-8 then, unless it was told what to do."""
    import _locale

    is_told = os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8")
    return not is_told and _locale.nl_langinfo(_locale.CODESET) in _ASCII


def complain(text: str) -> None:
    """Print to standard error, if anybody reads that."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


_closed: list[int] = []
"""Standard output, once it is known that nobody reads it."""


def is_open() -> bool:
    """Whether standard output can still be written to. If not, nothing is written to it any more."""
    if _closed:
        return False
    try:
        sys.stdout.flush()
        if not _has_no_reader(sys.stdout.fileno()):
            return True
    except (OSError, ValueError):
        pass
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _closed.append(1)
    return False


def end_with_reader(code: int) -> None:
    """End the process as soon as nobody reads standard output any more, also while it waits for something."""
    import threading

    def watch() -> None:
        while not _has_no_reader(1, LOOK_EVERY):
            pass
        os._exit(code)

    threading.Thread(target=watch, daemon=True).start()


def _has_no_reader(descriptor: int, seconds: float = 0.0) -> bool:
    """Whether who read a pipe or a socket has gone: without a buffer, a flush does not tell.
    Waits up to so long for that."""
    import select

    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(seconds * 1000))
