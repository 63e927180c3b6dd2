"""The mask of new files' modes: ours lets nobody else in, that of the programs that we start is the user's.

The daemon, the nursery and keepers take the strict one when they begin. What they start for a user, and files
that they make in a user's project, get the one that they were started with.
"""

from __future__ import annotations

import os

PRIVATE = 0o077
"""Nobody but our user may read, write or enter anything that we make, whatever mode it was made with."""

_users: list[int] = []  # the mask that we were started with, once we have another


def be_private() -> None:
    """Make files for our user alone from now on. Calling it again changes nothing."""
    if not _users:
        _users.append(os.umask(PRIVATE))


def give_back() -> None:
    """In a child, or before another program takes our place: the user's mask again."""
    if _users:
        os.umask(_users[0])


def users_mode(mode: int) -> int | None:
    """What the user's mask leaves of a mode; None if it is the one that we have, too."""
    return mode & ~_users[0] if _users else None


def users_mask() -> int:
    """The user's mask, for a program that is started; -1 if it is the one that we have."""
    return _users[0] if _users else -1


def as_command() -> str:
    """A shell's command that sets the user's mask."""
    return f"umask {_users[0]:04o}" if _users else ":"
