"""What a model is told of its work before anyone says anything: the system prompt of a session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .library import Shelf, text_in

PROJECT_FILES = ("AGENTS.md", "CLAUDE.md")
"""Files in a project that tell agents how to work there; the first that is there counts."""
MAX_PROJECT_TEXT = 64 * 1024
"""How much of such a file is given."""

_TEXT = """\
You are a coding agent in the directory {cwd}. You can use these tools: {tools}.
Read before you change something, make small changes, and check what you did by running it. Some calls need
a person's consent; if one is denied, do not try the same in another way. In the end say briefly what you did
and what is left.
"""


def system_prompt(cwd: Path, tools: Iterable[str], shelf: Shelf) -> tuple[str, list[str]]:
    """The instructions for a session in a directory, with those that its project has for agents; and which
    files of it are not used, and why."""
    text, faults = _TEXT.format(cwd=cwd, tools=", ".join(tools)), list(shelf.faults)
    if shelf.skills:
        rows = "".join(f"- {page.path}: {page.description}\n" for page in shelf.skills.values())
        text += f"\nThese files tell how to do certain things well; read one when it fits:\n{rows}"
    for name in PROJECT_FILES:
        said = text_in(f"{cwd}/{name}", MAX_PROJECT_TEXT, str(cwd), faults)
        if said is not None and (said := said.strip()):
            return f"{text}\nThis project says, in {name}:\n\n{said}\n", faults
    return text, faults
