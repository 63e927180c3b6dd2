"""Which sessions an agent reaches: those of its own project and below it, unless the configuration says all.

The project is the directory of `fairlead mcp`; for an agent session it lies in that session's directory,
wherever its command was started. Links in paths are followed before they are compared.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ..calls import Call, RequestError
from ..links import Links

NOT_FOUND = "request/not-found"


class Unreachable(Exception):
    """There is no such session, or none that the agent may reach. Says where it may."""


class Reach(NamedTuple):
    """What an agent reaches."""

    root: str
    """Its project, without links in its path."""
    is_all: bool
    session: dict[str, Any] | None
    """The session in which it runs, if that is known."""

    def holds(self, path: str) -> bool:
        """True if a directory is in reach. The empty path is none."""
        return self.is_all or (bool(path) and is_within(os.path.realpath(path), self.root))

    def is_own(self, row: dict[str, Any]) -> bool:
        """True if this is the session in which the agent runs."""
        return self.session is not None and self.session["id"] == row["id"]

    @property
    def is_sandboxed(self) -> bool:
        return self.session is not None and self.session.get("sandbox") is True


def is_within(path: str, root: str) -> bool:
    """True if a path is a directory's or lies below it; both are without links."""
    return path == root or path.startswith(root.rstrip("/") + "/")


async def find_reach(links: Links, project: str) -> Reach:
    """What the agent reaches whose project is this directory, as the daemon sees it now."""
    found = await links.call(Call("caller", {}, dict))
    session = found.get("session")
    root = os.path.realpath(project)
    if session is not None and session["kind"] != "terminal":  # a person may go elsewhere in a terminal
        own = os.path.realpath(session["project"])
        root = root if is_within(root, own) else own
    return Reach(root, found["reach"] == "all", session)


async def find_session(links: Links, reach: Reach, word: str) -> dict[str, Any]:
    """The session of a name, an id or its prefix, if the agent may reach it. Raises Unreachable."""
    try:
        found = await links.call(Call("session_find", {"name": word}, dict))
    except RequestError as error:
        if error.code != NOT_FOUND or reach.is_all:
            raise
        found = {}
    for row in (found.get("session"), *found.get("others", ())):
        if row is not None and reach.holds(row["project"]):
            return dict(row)
    raise Unreachable(f"no session {word!r:.200} in {reach.root}; list_sessions lists those that you reach")
