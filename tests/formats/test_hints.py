"""Hints of another host are to be typed here."""

from __future__ import annotations

import pytest

from fairlead.formats.hints import of_host


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "`fairlead ls` and `fairlead undo a --redo`",
            "`fairlead -H b ls` and `fairlead -H b undo a --redo`",
        ),
        ("`fairlead attach b:a`", "`fairlead attach b:a`"),
        ("`fairlead -H b ls`, `fairlead --help`", "`fairlead -H b ls`, `fairlead --help`"),
        (
            "`fairlead host install b`, `fairlead fleet join`",
            "`fairlead host install b`, `fairlead fleet join`",
        ),
        (
            "`ssh b fairlead doctor`; any `fairlead` command",
            "`ssh b fairlead doctor`; any `fairlead` command",
        ),
        ("no session 'rose'; did you mean roses?", "no session 'rose'; did you mean b:roses?"),
        ("no answer 'alow'; did you mean allow?", "no answer 'alow'; did you mean allow?"),
    ],
)
def test_only_hints_for_that_host_are_changed(text: str, meant: str) -> None:
    assert of_host(text, "b") == meant
    assert of_host(text, "") == text
