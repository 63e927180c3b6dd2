"""The answers of hosted agents as people see them."""

from __future__ import annotations

import pytest

from fairlead.hosted.shown import choices, label
from fairlead.wire import acp


def _option(kind: str, name: str) -> acp.PermissionOption:
    return acp.PermissionOption(option_id=name[:8], name=name, kind=kind)


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("allow_always", "Always Allow all Write", "Always Allow all Write"),
        ("allow_once", "Yes, proceed", "Yes, proceed"),
        ("reject_once", "No, and say why", "No, and say why"),
        ("allow_always", "Yes, for this folder", "Always allow: Yes, for this folder"),
        ("allow_always", "Reject", "Always allow: Reject"),
        ("allow_once", "Yes, always", "Allow once: Yes, always"),
        ("allow_once", "Allowance", "Allow once: Allowance"),
        ("reject_once", "No, allow it", "Reject: No, allow it"),
    ],
)
def test_what_an_answer_does_is_said_once(kind: str, name: str, shown: str) -> None:
    assert label(_option(kind, name)) == shown


@pytest.mark.parametrize("name", ["x" * 1000, "\u3164" * 200, "Always allow" + " " * 5000 + "rm"])
def test_an_answer_that_allows_more_than_can_be_shown_is_not_offered(name: str) -> None:
    offered = choices(
        (_option("allow_once", "Allow"), _option("allow_always", name), _option("reject_once", name)),
        may_allow=True,
    )
    assert [each.value for each in offered] == ["allow", "deny"]
    assert len(offered[1].label) <= 1000
