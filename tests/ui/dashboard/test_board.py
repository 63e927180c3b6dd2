"""The main screen is the same at any width: who needs a person first, and nothing but text."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fairlead.formats.columns import width_of
from fairlead.formats.shown import clean
from fairlead.ui.dashboard.board import LEAST_FOR_PREVIEW, Board
from fairlead.ui.dashboard.link import Previewed
from fairlead.ui.dashboard.model import DashboardModel
from fairlead.ui.plot import Look
from tests.ui.dashboard.recorded import compare
from tests.ui.dashboard.rows import drawn, eight, question, row


def questions() -> list[dict[str, Any]]:
    return [question("q1", "hedge", "$ git push"), question("q2", None, "restart the daemon?", kind="action")]


def board(columns: int = 100, rows: int = 24, look: Look = Look()) -> Board:  # noqa: B008
    found = Board(DashboardModel(), look)
    found.model.listed([dict(each) for each in eight()], questions())
    found.resize(columns, rows)
    found.changed()
    return found


@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (80, 24), (120, 20), (200, 30)])
def test_the_screen_looks_as_recorded(columns: int, rows: int) -> None:
    found = board(columns, rows)
    found.select(found.model.find("hosted hedge") or 0)
    found.preview = Previewed(
        "hosted hedge", ["> push it", "I will run `git push`.", "", "word " * 30], False
    )
    compare(f"board-{columns}", drawn(found))


@pytest.mark.parametrize("columns", [1, 2, 5, 12, 20, 39, 40, 47, 71, 72, 73, 80, 99, 160, 200, 500])
@pytest.mark.parametrize("rows", [1, 2, 3, 11, 12, 50])
def test_no_line_is_wider_than_its_place_but_the_head(columns: int, rows: int) -> None:
    found = board(columns, rows)
    left, right = found.lines()
    assert len(left) == len(right) == rows
    for line in left[1:-1]:
        assert width_of(clean(line)) <= max(found.list_width, 4 if columns < 8 else 0, 0) or columns < 40
    assert all("\n" not in line for line in (*left, *right))


def test_those_who_need_a_person_are_first_and_stay_selected() -> None:
    found = board()
    names = [each.name for each in found.model.shown]
    assert names[:4] == ["the daemon", "hedge", "·[2Jevil·", "roses"]
    found.select(names.index("pond"))
    changed = [
        row("pond", "waits", 5, question="now?") if each["name"] == "pond" else each for each in eight()
    ]
    found.model.listed(changed, questions())
    found.changed()
    assert found.entry is not None
    assert found.entry.name == "pond"
    assert found.selected < names.index("pond")
    found.model.listed([each for each in eight() if each["name"] != "pond"], questions())
    found.changed()
    assert found.entry is not None


def test_nothing_from_strangers_controls_the_terminal() -> None:
    found = board(look=Look(colour=True))
    evil = next(at for at, each in enumerate(found.model.shown) if "evil" in each.name)
    found.select(evil)
    entry = found.entry
    assert entry is not None
    found.preview = Previewed(entry.key, ["\x1b[2Jpreview"], True)
    for line in [each for side in found.lines() for each in side]:
        assert "\x1b]" not in line
        assert "\u202e" not in line
        assert "\r" not in line


def test_a_filter_leaves_what_has_all_its_words() -> None:
    found = board()
    found.model.look_for("garden CLAUDE")
    assert [each.name for each in found.model.shown] == ["roses"]
    found.model.look_for("waits hello")
    assert [each.name for each in found.model.shown] == ["roses"]
    found.model.look_for("nothing has this")
    found.changed()
    assert found.entry is None
    assert any("Esc shows all" in line for line in drawn(found))
    found.model.look_for("")
    assert len(found.model.shown) == 9


def test_without_room_there_is_no_preview_and_with_many_sessions_the_list_scrolls() -> None:
    found = board(LEAST_FOR_PREVIEW - 1)
    assert found.preview_width == 0
    found.model.listed([row(f"s{number:03}", "idle", number) for number in range(200)], [])
    found.resize(80, 24)
    found.select(150)
    assert any("s150" in line for line in drawn(found))
    assert found.row_at(3, found.list_top) == found.top
    assert found.row_at(70, found.list_top) is None
    found.select(10**6)
    assert found.selected == 199
    found.resize(80, 5)
    assert any("s199" in line for line in drawn(found))


def test_what_is_listed_again_without_a_change_is_not_made_again() -> None:
    found, rows = board(), eight()
    found.model.listed(rows, questions())
    before = {each.key: each.haystack for each in found.model.entries}
    texts = {id(each.haystack) for each in found.model.entries if each.is_session}
    found.model.listed([{**each, "idle": time.time()} for each in rows], questions())
    assert {each.key: each.haystack for each in found.model.entries} == before
    assert {id(each.haystack) for each in found.model.entries if each.is_session} == texts


def test_commands_of_agents_are_counted_beside_their_agent_and_listed_when_asked_for() -> None:
    found = board(120)
    argv = ["/bin/sh", "-c", 'exec "$@"', "sh", "bash", "-c", "make -C \x1b[2Jgarden"]
    inner = row("agent-1", "working", 3, tool_of="weeds", argv=argv)
    found.model.listed([*eight(), inner], questions())
    found.changed()
    assert "agent-1" not in [each.name for each in found.model.shown]
    assert "1 command of agents" in drawn(found)[0]
    found.select(found.model.find("agent weeds") or 0)
    assert any("runs make -C" in line for line in drawn(found))
    assert found.model.state("agent-1", {"state": "idle"})  # no need to ask for the list
    assert not found.model.state("agent-1", {"state": "waits"})
    found.model.toggle_inner()
    names = [each.name for each in found.model.shown]
    assert names[names.index("weeds") + 1] == "  agent-1"
    assert "of agents" not in drawn(found)[0]
    found.model.toggle_inner()
    asking = {**inner, "activity": {**inner["activity"], "state": "waits", "question": "overwrite?"}}
    found.model.listed([*eight(), asking], questions())
    assert "agent-1" in [each.name for each in found.model.shown]


def test_in_ascii_the_keys_of_the_foot_have_names() -> None:
    found = board(120, look=Look(ascii=True))
    found.model.listed(eight(), questions())
    assert drawn(found)[-1].startswith("Enter attach  y answer")
    assert drawn(board(120))[-1].startswith("⏎ attach")


def test_what_happened_before_a_session_was_listed_has_its_name() -> None:
    model = DashboardModel()
    model.listed([], [])
    model.note(0.0, "0a1b2c3d-4e5f", "agent session opened")
    assert model.log[0].name == "0a1b2c3d"
    model.listed([row("roses", id="0a1b2c3d-4e5f", kind="agent")], [])
    assert model.log[0].name == "roses"


def test_what_an_agent_in_a_terminal_does_is_its_last_prompt() -> None:
    found = board()
    told = row("roses", agent="claude", argv=["claude"], title="✳ Claude Code", prompt="mend the gate")
    found.model.listed([told], [])
    assert found.model.entries[0].text == "claude — mend the gate"


def test_a_directory_that_is_gone_is_said_to_be() -> None:
    found = board()
    found.model.listed([row("roses", branch="", directory_gone=True)], [])
    assert found.model.entries[0].place == "/srv/garden directory gone"
