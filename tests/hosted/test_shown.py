"""The answers of hosted agents as people see them."""

from __future__ import annotations

import pytest

from fairlead.hosted.shown import choices, label, take_details
from fairlead.hosted.state import OpenCall
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


def test_a_change_without_a_difference_is_not_a_path_with_nothing_behind_it() -> None:
    call = OpenCall("c1", "Write notes.md")
    same = (acp.Diff(path="/srv/notes.md", old_text="new", new_text="new"),)
    take_details(call, acp.ToolCallUpdate(tool_call_id="1", content=same))
    assert call.text == ""
    made = (acp.Diff(path="/srv/notes.md", old_text="old", new_text="new"),)
    take_details(call, acp.ToolCallUpdate(tool_call_id="1", content=made))
    shown = call.text
    assert shown.startswith("/srv/notes.md:\n@@")
    take_details(call, acp.ToolCallUpdate(tool_call_id="1", status="completed", content=same))
    assert call.text == shown
    assert call.diff
