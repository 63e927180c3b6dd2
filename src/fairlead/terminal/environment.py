"""The environment of a session's program: that of who started it, but for what describes their terminal.

The program's terminal is our emulator, whatever it was started from and whoever looks at it. What tells of
another one (tmux's socket, kitty's window, a window's size) makes programs use what ours lacks, or talk
to it.
"""

from __future__ import annotations

from collections.abc import Mapping

TERM = "xterm-256color"
COLORTERM = "truecolor"
"""What the emulator is, in the words that programs know."""

OTHER_TERMINALS = (
    *("TMUX", "TMUX_PANE", "STY", "WINDOW", "ZELLIJ", "ZELLIJ_*", "INSIDE_EMACS"),
    *("TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "TERM_FEATURES", "TERMCAP"),
    *("COLUMNS", "LINES", "COLORFGBG", "WINDOWID"),
    *("VTE_VERSION", "GNOME_TERMINAL_*", "KONSOLE_*", "XTERM_*", "TILIX_ID", "TERMINATOR_*", "MLTERM"),
    *("KITTY_*", "ALACRITTY_*", "WEZTERM_*", "GHOSTTY_*", "ITERM_*", "LC_TERMINAL", "LC_TERMINAL_VERSION"),
    *("WT_SESSION", "WT_PROFILE_ID", "ConEmu*", "VSCODE_INJECTION", "VSCODE_SHELL_INTEGRATION"),
)
"""What describes somebody else's terminal and is not passed on; a star stands for any end of a name."""

_NAMES = frozenset(name for name in OTHER_TERMINALS if not name.endswith("*"))
_BEGINNINGS = tuple(name[:-1] for name in OTHER_TERMINALS if name.endswith("*"))


def for_program(given: Mapping[str, str], session: str) -> dict[str, str]:
    """The environment of the program of a session."""
    kept = {
        name: value
        for name, value in given.items()
        if name not in _NAMES and not name.startswith(_BEGINNINGS)
    }
    return {"SHELL": "/bin/sh"} | kept | {"TERM": TERM, "COLORTERM": COLORTERM, "FAIRLEAD_SESSION": session}
