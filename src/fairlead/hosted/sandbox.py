"""A hosted agent in bubblewrap: it reads what its user can read, and writes to its project and nowhere else,
unless the configuration names other places.

It has the network, as it must reach its model. The sockets of other programs are covered, ours too: a program
that answers there would do outside what the agent can't do inside. /tmp is its own, and empty when it starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..system.bubblewrap import bubblewrap, sockets_of_all

MAX_SOCKETS = 1000
"""How many sockets of other programs can be covered."""


class NoSandbox(Exception):
    """There is no sandbox here. Says why."""


async def sandboxed(
    command: Sequence[str],
    project: str,
    environment: Mapping[str, str],
    *,
    writable: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> list[str]:
    """The command line that runs a program in a sandbox. `writable` are directories that it may write to as
    it may to its project; `hidden` are those that it sees empty.

    Raises NoSandbox.
    """
    wrap = await bubblewrap()
    if wrap is None:
        raise NoSandbox("bubblewrap does not work here")
    sockets = sockets_of_all()
    if len(sockets) > MAX_SOCKETS:
        raise NoSandbox(f"there are more than {MAX_SOCKETS} sockets to cover")
    project = os.path.realpath(project)
    words = [*wrap.with_network, *wrap.private("/tmp")]
    shown = [path for path in _needed(command, environment) if _is_within(path, "/tmp")]
    for path in sorted(shown, key=len):
        words += ["--ro-bind", path, path]
    for path in map(os.path.realpath, hidden):
        if os.path.isdir(path) and _is_seen(path, shown):
            words += wrap.private(path)
    written = [project, *(os.path.realpath(each) for each in writable if os.path.exists(each))]
    for path in sorted(written, key=len):
        words += ["--bind", path, path]
    for path in sockets:
        is_hidden = any(_is_within(path, os.path.realpath(each)) for each in hidden)
        if any(_is_within(path, each) for each in written) or (_is_seen(path, shown) and not is_hidden):
            words += ["--ro-bind", os.devnull, path]
    return [*words, "--chdir", project, "--", *command]


def _needed(command: Sequence[str], environment: Mapping[str, str]) -> set[str]:
    """What a program needs to see: itself, files that it is given, its user's home, other programs."""
    program = os.path.realpath(command[0])
    places = [os.path.dirname(program), os.path.dirname(command[0]), *command[1:]]
    places += [environment.get("HOME", ""), *environment.get("PATH", "").split(os.pathsep)]
    return {path for path in places if path.startswith("/") and path != "/tmp" and os.path.exists(path)}


def _is_seen(path: str, shown: Sequence[str]) -> bool:
    """Whether a path is there in the sandbox, unless it is covered."""
    return not _is_within(path, "/tmp") or any(_is_within(path, each) for each in shown)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
