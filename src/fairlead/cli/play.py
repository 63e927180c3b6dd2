"""`fairlead play`: a recording in this terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ui.player import MakeFilter, PlayerPicture

MAX_REDRAW = 4 * 1024 * 1024
"""How many bytes a jump paints at the most; what has scrolled away long ago is left out."""


def moment(word: str) -> float:
    """A time in a recording: 90, 1:30 or 1:02:03.5."""
    *units, last = word.split(":")
    is_number = all(unit.isascii() and unit.isdigit() for unit in units)
    if len(units) > 2 or not is_number or any(int(unit) >= 60 for unit in units[1:]):
        raise UsageError(f"a time like 90, 1:30 or 1:02:03, not {word!r}")
    try:
        total = seconds(last)
    except UsageError:
        raise UsageError(f"a time like 90, 1:30 or 1:02:03, not {word!r}") from None
    if units and total >= 60:
        raise UsageError(f"a time like 90, 1:30 or 1:02:03, not {word!r}")
    for place, unit in enumerate(reversed(units), 1):
        total += int(unit) * 60**place
    return seconds(repr(total))


def speed(word: str) -> float:
    """How many times faster than it was: above 0."""
    try:
        number = seconds(word)
    except UsageError:
        number = 0.0
    if not 0.01 <= number <= 1000:
        raise UsageError(f"a number from 0.01 to 1000, not {word!r}")
    return number


COMMAND = Command(
    "play",
    "Play a recording (asciicast, versions 2 and 3) in this terminal. If the output is not a terminal,\n"
    "all of it is written at once.\n\n"
    "    space          pause and resume\n"
    "    .              while paused: the next event\n"
    "    left, right    5 seconds back or forward; also < and >\n"
    "    0 … 9          jump to that tenth\n"
    "    + -            double or halve the speed\n"
    "    q, ^C          quit",
    takes=(Argument("file", "the recording", completes="file"),),
    options=(
        Option("--speed", value="X", kind=speed, help="playback speed (1)"),
        Option("--from", value="TIME", kind=moment, help="start at: seconds, M:SS or H:MM:SS"),
        Option("--to", value="TIME", kind=moment, help="stop at"),
        Option("--idle-limit", value="S", kind=seconds, help="shorten pauses to at most this many seconds"),
    ),
    examples=(
        ("fairlead play demo.cast --speed 2 --idle-limit 1", "faster, and without long pauses"),
        ("fairlead play demo.cast --from 1:30", "start at 1:30"),
        ("fairlead play demo.cast --to 5 | cat", "print the output of the first five seconds"),
    ),
    far="here: it plays a file of this host",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..ui.cast import CastError
    from ..ui.player import play

    start, end = getattr(options, "from") or 0.0, options.to
    if end is not None and end < start:
        raise UsageError("--to is before --from")
    try:
        return play(
            options.file,
            start=start,
            end=end,
            speed=options.speed or 1.0,
            idle_limit=options.idle_limit,
            make_picture=_picture,
            make_filter=_filters(),
        )
    except CastError as error:
        raise Failure(str(error)) from None


def _filters() -> MakeFilter:
    """What stands between recorded output and this terminal, as it does between a session and its clients."""
    from ..system.settings import Settings
    from ..terminal.screen.outward import Allowed, Outward

    settings = Settings()
    allowed = Allowed(settings.flag("attach", "clipboard"), settings.flag("attach", "notifications"))
    return lambda: Outward(allowed).feed


def _picture(cols: int, rows: int) -> PlayerPicture:
    """An emulated terminal."""
    from ..terminal.screen.screen import Screen

    class Painted:
        """A screen as the player wants it."""

        def __init__(self) -> None:
            self._screen = Screen(cols, rows)
            self.resize, self.close = self._screen.resize, self._screen.close

        def feed(self, data: bytes) -> None:
            self._screen.feed(data)
            self._screen.take_replies()
            self._screen.take_events()

        def redraw(self) -> bytes:
            return self._screen.redraw(MAX_REDRAW)

    return Painted()
