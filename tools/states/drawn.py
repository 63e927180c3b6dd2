"""Small recordings of our own making, for the tests: `python -m tools.states.drawn`.

tests/data/states/AGENT.txt has screens in the manner of an agent, each with the rule that should match it. A
small program draws them in a PTY, one after the other, and the recording goes to AGENT.cast beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from .stage import Stage

PLACE = Path(__file__).parents[2] / "tests/data/states"
SIZE = 80, 24


class DrawnScreen(NamedTuple):
    """A screen, and what should be found on it."""

    rule: str
    state: str
    input: str
    question: str
    rows: list[str]

    @property
    def what(self) -> str:
        """The words of its label."""
        return f"{self.rule} {self.input or '-'} | {self.question}"

    def drawn(self) -> bytes:
        """What draws it."""
        title = next((row for row in self.rows if row.startswith("title:")), "title:")
        rows = [row.replace("␛", "\x1b") for row in self.rows if not row.startswith("title:")]
        place = next(((at, row.index("▮")) for at, row in enumerate(rows) if "▮" in row), None)
        text = "\r\n".join(rows).replace("▮", "")
        cursor = f"\x1b[{place[0] + 1};{place[1] + 1}H\x1b[?25h" if place is not None else ""
        return f"\x1b]2;{title[6:]}\a\x1b[?25l\x1b[H\x1b[2J\x1b[0m{text}\x1b[0m{cursor}".encode()


def drawn_screens(path: Path) -> list[DrawnScreen]:
    """The screens of a file."""
    screens: list[DrawnScreen] = []
    for line in path.read_text().splitlines():
        if line.startswith("@ "):
            head, _, question = line[2:].partition(" | ")
            rule, state, shown = head.split()
            screens.append(DrawnScreen(rule, state, shown.strip("-"), question, []))
        elif screens:
            screens[-1].rows.append(line)
    return screens


def _play(path: Path) -> None:
    """Draw the next screen for each line that is read."""
    for screen in drawn_screens(path):
        sys.stdin.readline()
        sys.stdout.buffer.write(screen.drawn())
        sys.stdout.flush()
    sys.stdin.readline()


def main() -> None:
    if len(sys.argv) > 1:
        _play(Path(sys.argv[1]))
        return
    root = PLACE.parents[2]
    for path in sorted(PLACE.glob("*.txt")):
        words = [sys.executable, "-m", "tools.states.drawn", str(path)]
        stage = Stage(
            ["sh", "-c", 'stty -echo; exec "$@"', "sh", *words], {"PATH": "/usr/bin:/bin"}, root, *SIZE
        )
        stage.stay(1.0)
        for screen in drawn_screens(path):
            stage.end()
            stage.type("\n")
            stage.stay(0.1)
            stage.quiet()
            stage.begin(screen.state, screen.what)
            stage.stay(0.5)
        stage.close()
        stage.save(path.with_suffix(".cast"), f"{path.stem}, drawn")
        print(f"{path.stem}: {len(drawn_screens(path))} screens")


if __name__ == "__main__":
    main()
