"""`fairlead logs`: what a session has printed, or the daemon's own log, and what is printed from now on.

Following asks the daemon for the next lines by their numbers, so that a line that was lost is noticed. When
the daemon restarts, the lines that were printed last are looked for in what the next one has, and it goes on
after them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence

from . import OUTPUT_CLOSED, output
from .arguments import Argument, Command, Failure, Option, UsageError, lines, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from ..client.connection import DaemonConnection

OVERLAP = 200
"""How many of the last lines are looked for after a restart of the daemon."""
MOST_LINES = 50_000
"""How many lines can be asked for at once."""
AWAY, FASTER = "printed while no daemon was running", "printed faster than they could be read"
"""What became of lines that were missed."""
LOOK_EVERY = 0.2
"""Seconds between looks at the daemon's log."""

COMMAND = Command(
    "logs",
    "Print a session's output: its scrollback and its screen as text, one line for each line that the\n"
    "program printed, regardless of the terminal's width. It works for a while after the program has ended.\n"
    "For an agent session, print its messages and its tool calls: prompts are marked with >, calls with ●,\n"
    "and each result has the tool's name, and `failed` if it did.",
    takes=(Argument("name", "the session", optional=True, completes="session"),),
    options=(
        Option("-n", "--lines", value="N", kind=lines, help="only the last N lines"),
        Option("-f", "--follow", help="print each new line, until the program ends; of an agent, until ^C"),
        Option("--daemon", help="the daemon's own log"),
        Option("--json", help='one object per line: {"line": number, "text": text, …}; see docs/cli.md'),
    ),
    examples=(
        ("fairlead logs tests | grep -c FAILED", "the whole output"),
        ("fairlead logs -f -n 0 build | tee build.log", "only new output, until the program ends"),
        ("fairlead logs -f garden", "watch what an agent says and does"),
        ("fairlead logs --daemon -n 50", "the daemon's log"),
    ),
    codes={0: "done; with -f, the program has ended"},
    there_with=("daemon",),
)


class _Printer:
    """Prints lines and remembers the last ones."""

    def __init__(self, *, as_json: bool) -> None:
        self.last: deque[str] = deque(maxlen=OVERLAP)
        self.number = 1
        self._has_all: bool | None = None  # whether all that was printed is kept; None when that is told
        self._oldest = 1
        self._as_json = as_json

    def show(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.last.append(text)
            self._write(text)
            self.number += 1
        sys.stdout.flush()

    def begin(self, answer: dict[str, Any], wanted: int | None) -> None:
        """Say where the lines begin, if that is not where the program began and not where it was wanted."""
        self.number = answer["first"]
        self._has_all, self._oldest, got = answer["complete"], answer["oldest"], len(answer["lines"])
        if wanted is None and self.number > self._oldest:
            print(
                f"fairlead logs: only the last {got} line{'s' * (got != 1)}, from line {self.number}",
                file=sys.stderr,
            )
        elif not self._has_all and (wanted is None or got < wanted):
            where = f"; this starts at line {self._oldest}" if self._oldest > 1 else ""
            print(f"fairlead logs: earlier lines were dropped{where}", file=sys.stderr)

    def show_from(self, first: int, texts: Sequence[str], fate: str) -> None:
        """Show those of some lines that were not shown yet, by their numbers."""
        if (lost := first - self.number) > 0:
            print(f"fairlead logs: {lost} line{'s' * (lost != 1)} missing: {fate}", file=sys.stderr)
            self.number = first
        self.show(texts[self.number - first :])

    def go_on(self, first: int, texts: Sequence[str], fate: str) -> None:
        """Go on with what the next daemon has, which may be less than was shown: it is still reading."""
        common = min(self.number, first + len(texts)) - 1  # the last line that both should know
        ago = self.number - common
        if first <= common and ago <= len(self.last) and texts[common - first] != self.last[-ago]:
            later = after(texts, list(self.last))  # it counts in another way: the texts tell
            self.number = first + len(texts) - len(later)
            self.show(later)
        else:
            self.show_from(first, texts, fate)

    def skip(self, texts: Sequence[str]) -> None:
        """Lines that are known and not shown."""
        self.last.extend(texts)
        self.number += len(texts)

    def _write(self, text: str) -> None:
        if self._as_json:
            import json

            about: dict[str, Any] = {"line": self.number, "text": text}
            if self._has_all is not None:
                about |= {"first": self.number, "complete": self._has_all and self.number == self._oldest}
                self._has_all = None
            text = json.dumps(about)
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.name is None) != options.daemon:
        raise UsageError(
            "missing NAME or --daemon" if options.name is None else "NAME and --daemon can't be combined"
        )
    printer = _Printer(as_json=options.json)
    if options.follow:
        output.end_with_reader(OUTPUT_CLOSED)
    if options.daemon:
        return _daemon_log(printer, options.lines, follow=options.follow)
    if options.follow:
        return _follow(printer, options.name, options.lines)

    from ..client.connection import DaemonConnection, RequestError
    from .kinds import note_seen

    limit = None if options.lines is None else min(max(options.lines, 1), MOST_LINES)
    with DaemonConnection() as control:
        try:
            answer = control.ask("terminal_lines", name=options.name, limit=limit)
        except RequestError as error:
            from .kinds import other_kind

            session = other_kind(control, options.name, error)
            answer = control.ask("session_lines", session_id=session["id"], limit=limit)
        note_seen(control, name=options.name)
    printer.begin(answer, options.lines)
    printer.show(answer["lines"] if options.lines != 0 else ())
    return 0


class _LetGo(Exception):
    """The daemon does not wait for us any more: what reads our output had stopped for long."""


# --- following a session ------------------------------------------------------------------------------------


def _follow(printer: _Printer, name: str, last: int | None) -> int:
    import time

    from ..client.connection import DaemonConnection, RequestError
    from ..client.reconnect import ABSENCE, Reconnect
    from .kinds import note_seen, other_kind

    begun, has_screen = False, True
    fate = AWAY
    reconnect = Reconnect(ABSENCE)
    while True:
        try:
            with DaemonConnection() as control:
                reconnect.reached()
                if has_screen:
                    answer = control.ask("terminal_lines", name=name, follow=True)
                else:
                    answer = control.ask("session_lines", session_id=name)
                note_seen(control, **{"name" if has_screen else "session_id": name})
                texts = answer["lines"]
                if begun:
                    printer.go_on(answer["first"], texts, fate)
                    fate = AWAY
                else:
                    begun = True
                    cut = 0 if last is None else max(0, len(texts) - last)
                    printer.begin(answer, last)
                    printer.skip(texts[:cut])
                    printer.show(texts[cut:])
                (_follow_on if has_screen else _follow_messages)(control, printer, name, answer)
                return 0
        except ConnectionError as error:  # a broken pipe may be that of our own output
            if not (output.is_open() if isinstance(error, BrokenPipeError) else begun):
                raise
            time.sleep(reconnect.pause(error))
        except _LetGo:
            fate = FASTER
        except RequestError as error:
            if not begun and has_screen:
                with DaemonConnection() as control:
                    name, has_screen = other_kind(control, name, error)["id"], False
                continue
            if error.code != "request/not-found":
                raise
            return 0  # it was stopped while there was no daemon, or is long over


def _follow_on(control: DaemonConnection, printer: _Printer, name: str, answer: dict[str, object]) -> None:
    """Print each new line until the program has ended. Raises _LetGo."""
    from ..client.connection import RequestError

    follower = answer["follower"]
    while not answer.get("ended"):
        expected = answer["next"]
        try:
            answer = control.ask("terminal_lines", name=name, follower=follower, **{"from": expected})
        except RequestError as error:
            if error.code != "request/not-found":
                raise
            raise _LetGo from error
        assert isinstance(answer["first"], int)
        assert isinstance(answer["lines"], list)
        printer.show_from(answer["first"], answer["lines"], FASTER)


def _follow_messages(control: DaemonConnection, printer: _Printer, name: str, answer: dict[str, Any]) -> None:
    """Print what is said and done in a session that has no end, until somebody interrupts."""
    while True:
        answer = control.ask("session_lines", session_id=name, **{"from": answer["next"]})
        printer.show_from(answer["first"], answer["lines"], "said faster than they could be read")


def after(texts: Sequence[str], shown: Sequence[str]) -> Sequence[str]:
    """The texts that come after those which were shown last.

    >>> after(["a", "b", "c", "d"], ["b", "c"])
    ['d']
    """
    if not shown:
        return texts
    tail = list(shown)
    for end in range(len(texts), 0, -1):
        count = min(end, len(tail))  # the oldest ones may be gone
        if texts[end - 1] == tail[-1] and list(texts[end - count : end]) == tail[-count:]:
            return texts[end:]
    print("fairlead logs: the daemon restarted; lines may be missing or repeated", file=sys.stderr)
    return texts


# --- the daemon's log ---------------------------------------------------------------------------------------


def _daemon_log(printer: _Printer, last: int | None, *, follow: bool) -> int:
    from ..system.settings import Settings

    path = Settings().log_path
    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
    except OSError as error:
        raise Failure(f"can't read {path}: {error.strerror}") from None
    with file:
        texts = file.read().splitlines()
        cut = 0 if last is None else max(0, len(texts) - last)
        printer.skip(texts[:cut])
        printer.show(texts[cut:])
        if follow:
            _follow_file(printer, file)
    return 0


def _follow_file(printer: _Printer, file: IO[str]) -> None:
    """Until someone interrupts."""
    import time

    begun = ""
    while True:
        *whole, begun = (begun + file.read()).split("\n")
        printer.show(whole)
        time.sleep(LOOK_EVERY)
