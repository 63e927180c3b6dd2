"""Turns of a session in a project, for tests of undo."""

from __future__ import annotations

import time
from pathlib import Path

from fairlead.trees.planning import Undone
from fairlead.trees.undoing import Undoer


class Turns:
    """The turns of one session."""

    def __init__(self, project: Path, state: Path, name: str = "garden") -> None:
        self.undoer = Undoer(state)
        self.project = project
        self.name = name
        self.number = 0

    def __enter__(self) -> None:
        self.number += 1
        self.undoer.began(self.name, self.number, str(self.project), time.monotonic() + 60)

    def __exit__(self, *error: object) -> None:
        self.undoer.ended(self.name, self.number)

    def undo(
        self,
        turns: int = 1,
        *,
        redo: bool = False,
        is_dry: bool = False,
        force: bool = False,
        digest: str = "",
    ) -> Undone:
        return self.undoer.undo(self.name, turns=turns, redo=redo, is_dry=is_dry, force=force, digest=digest)
