"""Tables that people read: names are whole, ids are short, and no session of the day is left out."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from fairlead.cli.ls import needed
from fairlead.system.settings import Settings
from tests.cli.terminals import on_a_terminal
from tests.hosting import Hosting


def journals(hosting: Hosting, count: int) -> list[str]:
    """Sessions that were used just now and are not open; the first one has a name."""
    directory = Path(Settings(hosting.environment).sessions_dir, "x")
    directory.mkdir(parents=True)
    ids = []
    for number in range(count):
        id = f"{number:08x}-0000-4000-8000-000000000000"
        stamp = time.strftime(f"%Y-%m-%dT%H:%M:{number:02}.000Z", time.gmtime(time.time() - 3600))
        said = {"role": "user", "content": f"plant {number}", "timestamp": 0}
        entries: list[dict[str, object]] = [
            {"type": "session", "version": 3, "id": id, "timestamp": stamp, "cwd": "/tmp"},
            {"type": "message", "id": "aaaaaaaa", "parentId": None, "timestamp": stamp, "message": said},
            {"type": "session_info", "id": "bbbbbbbb", "parentId": "aaaaaaaa", "timestamp": stamp},
        ]
        entries[2]["name"] = "garden" if number == 0 else ""
        lines = [json.dumps(entry) + "\n" for entry in entries[: 3 if number == 0 else 2]]
        (directory / f"x_{id}.jsonl").write_text("".join(lines))
        ids.append(id)
    return ids


def test_all_sessions_of_the_day_are_listed_and_ids_are_short_on_a_terminal() -> None:
    hosting = Hosting()
    try:
        ids = journals(hosting, 30)
        names = {"garden", *ids[1:]}
        hosting.until(lambda: set(hosting.run("ls", "-q").stdout.split()) == names)
        code, shown = on_a_terminal(hosting, "sessions", "plant")
        assert code == 0
        assert ids[29][:8] in shown
        assert ids[29] not in shown
        assert ids[29] in hosting.run("sessions", "plant").stdout  # a script wants all of it
    finally:
        hosting.close()


@pytest.mark.parametrize("columns", [80, 120])
def test_config_cuts_no_name_of_a_setting(lent: Hosting, columns: int) -> None:
    _, shown = on_a_terminal(lent, "config", columns=columns)
    names = [row["name"] for row in json.loads(lent.run("config", "--json").stdout)]
    assert [line.split()[0] for line in shown.splitlines()[1 : len(names) + 1]] == names


def test_sessions_that_need_a_person_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    needed([("work", "why")])
    needed([("a", "x"), ("b", "y")])
    assert capsys.readouterr().err == (
        "work needs a person: why; `fairlead approvals dismiss work` dismisses it\n"
        "2 sessions need a person: `fairlead approvals`\n"
    )


def test_an_answer_that_there_is_not_is_named_before_its_token_is_looked_for(lent: Hosting) -> None:
    done = lent.run("approvals", "alow", "1f3c5a77", check=False)
    assert (done.returncode, done.stderr.split("\n")[0]) == (
        2,
        "fairlead approvals: no answer 'alow'; did you mean allow?",
    )
