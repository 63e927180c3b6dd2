"""Saying once that the daemon is of another version than we are, or can't use its configuration as it is now.
A program that wants to say it sets `notice` and `fault_notice`."""

from __future__ import annotations

from .. import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

notice: Callable[[str], None] | None = None
"""Gets a sentence, at most once. A library prints nothing by itself."""


fault_notice: Callable[[str], None] | None = None
"""Gets a sentence, at most once, if the daemon can't use the configuration as it is now."""


def note_config_fault(fault: str | None) -> None:
    """The daemon has told what is wrong with its configuration."""
    global fault_notice
    if fault and fault_notice is not None:
        tell, fault_notice = fault_notice, None
        tell(f"{fault} (until this is fixed, the daemon keeps its previous settings)")


def note_version(version: str | None, host: str = "") -> None:
    """The daemon has told its version; one that is too old to tell is of another one, too."""
    global notice
    if version == __version__ or notice is None:
        return
    tell, notice = notice, None
    theirs = f"version {version}" if version else "an older version"
    if host:
        what = f"`fairlead host install {host}` installs this version there"
        tell(f"the daemon on {host} has {theirs}, this command has {__version__}; {what}")
        return
    tell(
        f"the daemon has {theirs}, this command has {__version__}; `fairlead daemon restart` updates the "
        "daemon, sessions keep running"
    )
