"""Saying once that the daemon is of another version than we are. A program that wants it sets `notice`."""

from __future__ import annotations

from .. import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

notice: Callable[[str], None] | None = None
"""Gets a sentence, at most once. A library prints nothing by itself."""


def heard(version: str | None) -> None:
    """The daemon has told its version; one that is too old to tell is of another one, too."""
    global notice
    if version == __version__ or notice is None:
        return
    tell, notice = notice, None
    tell(
        f"the daemon is of version {version or 'older than ours'}, this command of {__version__}; "
        "`fairlead daemon restart` makes them the same, sessions go on"
    )
