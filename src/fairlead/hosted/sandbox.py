"""A hosted agent in bubblewrap: it reads what its user can read, and writes to its project and nowhere else,
unless the configuration names other places.

It has the network, as it must reach its model. The sockets of other programs are out of its reach, ours too:
a program that answers there would do outside what the agent can't do inside. /tmp and /run are its own, and
empty when it starts; sockets elsewhere are covered one by one. It can reach those that are made there later,
and abstract ones, which belong to the network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..system.bubblewrap import bubblewrap, sockets_of_all

MAX_SOCKETS = 1000
"""How many sockets of other programs can be covered."""


_ALWAYS = ("/run/current-system", "/run/wrappers", "/run/opengl-driver")
"""Where some systems have their programs."""


class NoSandbox(Exception):
    """There is no sandbox here. Says why."""


def places(project: str, writable: Sequence[str]) -> dict[str, str]:
    """Where an agent in a sandbox may write, and what that really is. What lies in another of these places is
    left out: the agent could make it a link to anywhere."""
    found: dict[str, str] = {}
    for path in sorted({os.path.abspath(each) for each in (project, *writable)}, key=len):
        if not any(_is_within(path, each) for each in found) and os.path.exists(path):
            found[path] = os.path.realpath(path)
    return found


async def sandboxed(
    command: Sequence[str],
    project: str,
    environment: Mapping[str, str],
    *,
    written: Sequence[str],
    hidden: Sequence[str] = (),
) -> list[str]:
    """The command line that runs a program in a sandbox. `written` are directories without links that it may
    write to; `hidden` are those that it sees empty.

    Raises NoSandbox.
    """
    wrap = await bubblewrap()
    if wrap is None:
        raise NoSandbox("bubblewrap does not work here")
    sockets = sockets_of_all()
    if len(sockets) > MAX_SOCKETS:
        raise NoSandbox(f"there are more than {MAX_SOCKETS} sockets to cover")
    words = [*wrap.with_network, *wrap.private("/tmp")]
    own = ["/tmp"]
    if os.path.isdir("/run") and not os.path.islink("/run"):
        own.append("/run")
        words += wrap.private("/run")
        if _is_within(runtime := environment.get("XDG_RUNTIME_DIR", ""), "/run"):
            words += ["--dir", runtime]
    shown = [path for path in _needed(command, environment) if any(_is_within(path, each) for each in own)]
    for path in sorted(shown, key=len):
        words += ["--ro-bind", path, path]
    for path in map(os.path.realpath, hidden):
        if os.path.isdir(path) and _is_seen(path, own, shown):
            words += wrap.private(path)
    for path in sorted(written, key=len):
        words += ["--bind", path, path]
    for path in sockets:
        is_hidden = any(_is_within(path, os.path.realpath(each)) for each in hidden)
        is_seen = _is_seen(path, own, shown) and not is_hidden
        if is_seen or any(_is_within(path, each) for each in written):
            words += ["--ro-bind", os.devnull, path]
    return [*words, "--chdir", os.path.realpath(project), "--", *command]


def _needed(command: Sequence[str], environment: Mapping[str, str]) -> set[str]:
    """What a program needs to see: itself, files that it is given, its user's home, other programs."""
    program = os.path.realpath(command[0])
    found = [os.path.dirname(program), os.path.dirname(command[0]), *command[1:], *_ALWAYS]
    found += [environment.get("HOME", ""), *environment.get("PATH", "").split(os.pathsep)]
    found.append(os.path.realpath("/etc/resolv.conf"))
    own = ("/tmp", "/run")
    return {path for path in found if path.startswith("/") and path not in own and os.path.exists(path)}


def _is_seen(path: str, own: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether a path is there in the sandbox, unless it is covered."""
    return not any(_is_within(path, each) for each in own) or any(_is_within(path, each) for each in shown)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
