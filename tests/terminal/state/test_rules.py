"""Rules find the state of agents on their screens, and only on the live part of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state import rules
from fairlead.terminal.state.rules import AgentRules, Found, live_view, of_program, user_rules
from tools.states.agents import AGENTS
from tools.states.drawn import PLACE, DrawnScreen, drawn_screens
from tools.states.recordings import all_recordings
from tools.states.replay import judge, looks
from tools.states.scenes import PROSE

DRAWN = {path.stem: drawn_screens(path) for path in sorted(PLACE.glob("*.txt"))}
NAMES = [each.agent for each in rules.shipped()]
SMALL = """
agent = "small"
version = 3
programs = ["small", "/opt/small/"]

[rows]
prompt = '^\\$ '
ask = '\\?$'

[[rule]]
name = "asks"
state = "waits"
shape = "<ask>"

[[rule]]
name = "rests"
state = "idle"
shape = "=prompt"
"""


def known(agent: str) -> AgentRules:
    return next(each for each in rules.shipped() if each.agent == agent)


def found_on(found: AgentRules, data: bytes, size: tuple[int, int] = (80, 24)) -> Found | None:
    with Screen(*size) as screen:
        screen.feed(data)
        return found.look(live_view(screen))


def rows_of(rows: Iterable[str]) -> bytes:
    return "\r\n".join(rows).encode()


@pytest.fixture
def small(tmp_path: Path) -> AgentRules:
    (tmp_path / "small.toml").write_text(SMALL)
    return rules.read_rules(tmp_path / "small.toml")


# --- recordings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", NAMES)
def test_a_recording_shows_what_its_labels_say(agent: str) -> None:
    moments = list(looks(PLACE / f"{agent}.cast", known(agent)))
    assert {each.label.what for each in moments} == {each.what for each in DRAWN[agent]}
    for each in moments:
        assert each.found is not None, each.text
        said = DrawnScreen(each.found.rule, each.found.state, each.found.input, each.found.question, [])
        assert (each.said, said.what) == (each.label.state, each.label.what), each.text
        assert each.found.version == known(agent).version
        assert each.found.question == "" or each.found.state == "waits"
        assert 0 < len(each.found.words) <= rules.MAX_WORDS


@pytest.mark.parametrize("agent", NAMES)
def test_every_rule_is_shown_by_a_recording(agent: str) -> None:
    shown = {
        each.found.rule for each in looks(PLACE / f"{agent}.cast", known(agent)) if each.found is not None
    }
    assert shown == {rule.name for rule in known(agent).rules}


@pytest.mark.peers
@pytest.mark.parametrize("name", AGENTS)
def test_rules_are_right_about_the_real_programs(name: str) -> None:
    recorded = [each for each in all_recordings() if each.agent == name and each.path.exists()]
    if not recorded:
        pytest.skip(f"no recordings of {name}: run `make bench-state`, which makes them in an hour")
    right = moments = false = 0
    for each in recorded:
        judged = judge(list(looks(each.path, known(AGENTS[name].rules))))
        assert not judged.unseen, each.name
        assert max(judged.delays, default=0.0) <= 1.0, each.name
        right += sum(count for (was, said), count in judged.matrix.items() if was == said)
        false += sum(count for (was, said), count in judged.matrix.items() if was != "waits" == said)
        moments += judged.moments
    assert right >= 0.95 * moments
    assert false <= 0.01 * moments


# --- only the live part of a screen counts ------------------------------------------------------------------


def pairs(states: tuple[str, ...]) -> list[tuple[str, DrawnScreen, DrawnScreen]]:
    """Every screen of these states above every one of an agent that shows its input at the bottom."""
    return [
        (agent, above, below)
        for agent, screens in DRAWN.items()
        for above, below in itertools.product(screens, screens)
        if above.state in states and below.state == "idle" and below.input
    ]


@pytest.mark.parametrize(
    ("agent", "above", "below"),
    [pytest.param(*each, id=f"{each[0]}-{each[1].rule}") for each in pairs(("waits",))],
)
def test_a_dialog_above_the_input_is_text(agent: str, above: DrawnScreen, below: DrawnScreen) -> None:
    kept = [row.replace("▮", "") for row in above.rows if not row.startswith("title:")]
    with Screen(80, 60) as screen:
        screen.feed(DrawnScreen("", "", "", "", [*kept, "", "", *below.rows]).drawn())
        found = known(agent).look(live_view(screen))
    assert found is not None
    assert (found.state, found.input) == ("idle", below.input)


@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize("prose", PROSE)
def test_prose_that_looks_like_a_dialog_is_none(agent: str, prose: str) -> None:
    for below in DRAWN[agent]:
        if below.state != "waits":
            rows = [*prose.splitlines(), "", *(f"  {row}" for row in prose.splitlines()), "", *below.rows]
            with Screen(80, 60) as screen:
                screen.feed(DrawnScreen("", "", "", "", rows).drawn())
                found = known(agent).look(live_view(screen))
            assert found is None or found.state == below.state, (below.what, found)
    found = found_on(known(agent), rows_of(prose.splitlines()))
    is_draft = found is not None and found.input == "draft"  # a mark, text, and the cursor at its end
    assert found is None or (is_draft and agent == "codex")
    assert found_on(known(agent), b"") is None


@pytest.mark.parametrize("agent", NAMES)
def test_what_no_rule_knows_is_unknown(agent: str) -> None:
    texts = (b"", b"\r\n\r\n", b"$ make test", b"Segmentation fault", b"Press any key to continue")
    for text in texts if agent != "shell" else {*texts} - {b"$ make test"}:  # which is a draft at its prompt
        assert found_on(known(agent), text) is None


def test_a_screen_is_not_judged_while_it_is_drawn() -> None:
    with Screen(80, 24) as screen:
        screen.feed(b"\x1b[?2026h\x1b[2J$ half")
        assert live_view(screen).repaints
        screen.feed(b"\x1b[?2026l")
        assert not live_view(screen).repaints


# --- what a rule says ---------------------------------------------------------------------------------------


def test_a_rule_looks_at_the_last_rows_and_at_what_was_typed(small: AgentRules) -> None:
    assert found_on(small, b"Really?\r\n\r\n") == Found("waits", "Really?", "", "asks", 3, "Really?")
    assert found_on(small, b"Really?\r\n$ ls") == Found("idle", "", "draft", "rests", 3, "", ("ls",))
    assert found_on(small, b"Really?\r\n$ \x1b[2mls\x1b[0m") == Found("idle", "", "empty", "rests", 3, "")
    assert found_on(small, b"$ ls\r\nnotes.txt") is None


def test_rows_that_wrap_are_one_line_where_rules_want_lines(tmp_path: Path, small: AgentRules) -> None:
    (tmp_path / "lines.toml").write_text(SMALL.replace("version = 3", "version = 3\nunwraps = true"))
    lines = rules.read_rules(tmp_path / "lines.toml")
    asks = b"$ go\r\nDelete all of the roses?"
    assert found_on(lines, asks, (20, 9)) == Found(
        "waits", "Delete all of the roses?", "", "asks", 3, "Delete all of the roses?"
    )
    in_rows = found_on(small, asks, (20, 9))
    assert in_rows is not None
    assert in_rows.question == "ses?"


def test_a_draft_ends_where_the_cursor_is() -> None:
    codex = known("codex")
    for below in (b"", b"\r\n\r\n  ? for shortcuts\x1b[2A\x1b[5G"):
        found = found_on(codex, "\u203a one\r\n\r\n  two".encode() + below)
        assert found is not None
        assert (found.state, found.input, found.typed) == ("idle", "draft", ("one", "", "two"))


def test_aider_repeats_its_prompt_before_each_line_of_a_draft() -> None:
    rows = ["─" * 20, "notes.txt", "ask> one two three f", "our", "ask> five", "ask> \x1b[?25h"]
    found = found_on(known("aider"), rows_of(rows), (20, 9))
    assert found is not None
    assert (found.rule, found.input) == ("input", "draft")
    assert found.typed == ("one two three f", "our", "five", "")


def test_a_long_question_is_cut(small: AgentRules) -> None:
    found = found_on(small, b"x" * 300 + b"?", (400, 5))
    assert found is not None
    assert len(found.question) == rules.MAX_QUESTION
    assert len(found.words) == rules.MAX_WORDS


def test_hostile_screens_are_compared_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(["!blank*"] * (rules.MAX_SHAPE - 1))
    listed = "".join(
        f'[[rule]]\nname = "r{number}"\nstate = "idle"\nshape = "prompt {words}"\n'
        for number in range(rules.MAX_RULES)
    )
    (tmp_path / "slow.toml").write_text(SMALL.partition("[[rule]]")[0] + listed)
    slow = rules.read_rules(tmp_path / "slow.toml")
    compared = 0

    def count(*of: object) -> bool:
        nonlocal compared
        compared += 1
        return real(*of)  # type: ignore[arg-type]

    real = slow._is_word
    monkeypatch.setattr(slow, "_is_word", count)
    wall = rows_of(["x" * 2000] * 400)
    assert found_on(slow, wall, (2000, 400)) is None
    assert 0 < compared <= rules.MAX_STEPS
    for agent in NAMES:
        for row in (
            "─" * 300,
            "❯ 1. Yes",
            "│ ● 1. │",
            "▄" * 300,
            "  ┃  ",
            "→ ",
            "\x1b[2m• (esc to interrupt)",
        ):
            found_on(known(agent), rows_of([row] * 400), (300, 400))


# --- programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "argv", "agent"),
    [
        ("claude", ["claude", "--resume"], "claude"),
        ("node", ["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"], "claude"),
        ("node", ["node", "--no-warnings", "/home/me/.npm/bin/gemini", "--yolo"], "gemini"),
        ("codex", ["/opt/codex", "resume"], "codex"),
        (".opencode", ["/x/node_modules/opencode-linux-x64/bin/opencode"], "opencode"),
        ("pi", ["pi"], "pi"),
        ("python3", ["/x/bin/python", "/x/bin/aider", "--no-git"], "aider"),
        ("aider", ["/x/bin/python3.11", "/x/bin/aider"], "aider"),
        ("bash", ["-bash"], "shell"),
        ("fish", ["/usr/bin/fish"], "shell"),
        ("vim", ["vim", "claude"], None),
        ("node", ["node"], None),
        ("node", ["node", "server.js", "/opt/claude"], None),
        ("", [], None),
    ],
)
def test_an_agent_is_known_by_its_program(name: str, argv: list[str], agent: str | None) -> None:
    found = of_program(name, argv)
    assert (found.agent if found is not None else None) == agent


# --- files --------------------------------------------------------------------------------------------------


def test_a_users_rules_come_before_the_shipped_ones(tmp_path: Path) -> None:
    own = SMALL.replace('"small", "/opt/small/"', '"my-claude"').replace(
        'agent = "small"', 'agent = "claude"'
    )
    (tmp_path / "mine.toml").write_text(own)
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "notes.txt").write_text("no rules")
    found, faults = user_rules(tmp_path)
    assert faults == []
    assert [each.agent for each in found] == [
        "claude",
        "small",
        *(name for name in NAMES if name != "claude"),
    ]
    mine = of_program("my-claude", (), found)
    assert mine is of_program("claude", (), found)
    assert mine is not None
    asked = found_on(mine, b"Really?")
    assert asked is not None
    assert (asked.rule, asked.version) == ("asks", 3)
    input = next(each for each in DRAWN["claude"] if each.rule == "works")
    shown = found_on(mine, input.drawn())
    assert shown is not None
    assert (shown.rule, shown.version) == ("works", known("claude").version)


def test_without_rules_of_ones_own_the_shipped_ones_hold(tmp_path: Path) -> None:
    assert user_rules(tmp_path / "none") == (rules.shipped(), [])


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('agent = "small"', "", "agent: expected a text"),
        ("version = 3", 'version = "3"', "version: expected a number that is not negative"),
        ('["small", "/opt/small/"]', '"small"', "programs: expected a list of texts"),
        ("version = 3", "version = 3\ncolour = 1", "colour: unknown; expected one of agent, "),
        ("'^\\$ '", "'('", "rows.prompt: invalid regular expression '(': "),
        ("'^\\$ '", "'(?=x)'", "rows.prompt: invalid regular expression '(?=x)': lookaround"),
        ("'^\\$ '", "'x{900}'", "rows.prompt: the regular expression is too large"),
        ("'^\\$ '", "7", "prompt: expected a text"),
        (
            "'^\\$ '",
            '{ text = "x", color = "red" }',
            "rows.prompt.color: unknown; expected one of look, text",
        ),
        (
            'state = "idle"',
            'state = "bored"',
            ", rule rests: state: expected working, waits, idle, not 'bored'",
        ),
        ('name = "rests"', 'name = "asks"', ", rule asks: name: another rule has it too"),
        ('name = "rests"', "", ", rule 2: name: expected a text"),
        ('"=prompt"', '"=prompts"', ", rule rests: shape: 'prompts' is not among the [rows]"),
        ('"=prompt"', '"<prompt"', ", rule rests: shape: '<prompt' is not a kind of row"),
        ('"=prompt"', '"prompt{5,2}"', ", rule rests: shape: 'prompt{5,2}' repeats 5 to 2 times"),
        ('"=prompt"', '"prompt{1,999}"', ", rule rests: shape: 'prompt{1,999}' repeats 1 to 999 times"),
        ('"=prompt"', f'"{"any " * 17}"', ", rule rests: shape: at most 16 words; there are 17"),
        (
            '"=prompt"',
            '"=prompt"\ninput = "full"',
            ", rule rests: input: expected empty, draft, none, not 'full'",
        ),
        ('"=prompt"', '"=prompt"\ncursor = 1', ", rule rests: cursor: expected input or hidden, not 1"),
        ('"=prompt"', '"=prompt"\ntitle = "["', ", rule rests: title: invalid regular expression"),
        ("[[rule]]", "[[rules]]", "rules: unknown; expected one of agent, "),
        ("version = 3", "version = 3\nunwraps = 1", "unwraps: expected true or false"),
        ("[rows]", "[rows", "not TOML: "),
    ],
)
def test_a_bad_file_is_one_sentence_and_does_not_stop_the_others(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    assert old in SMALL
    (tmp_path / "bad.toml").write_text(SMALL.replace(old, new))
    (tmp_path / "good.toml").write_text(SMALL)
    found, faults = user_rules(tmp_path)
    assert [each.agent for each in found] == ["small", *NAMES]
    (said,) = faults
    assert said.startswith(f"{tmp_path / 'bad.toml'}{'' if fault.startswith(',') else ': '}{fault}"), said
    assert "\n" not in said


def test_files_that_are_too_large_or_too_many_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text(SMALL + "#" * rules.MAX_FILE)
    (tmp_path / "b.toml").write_bytes(b"\xff")
    (tmp_path / "c.toml").mkdir()
    (tmp_path / "d.toml").write_text(SMALL)
    monkeypatch.setattr(rules, "MAX_FILES", 3)
    found, faults = user_rules(tmp_path)
    assert found == rules.shipped()
    wanted = ["at most 3 files", "a.toml: at most 65536 bytes", "b.toml: not TOML", "c.toml: can't be read"]
    assert all(re.search(re.escape(want), said) for want, said in zip(wanted, faults, strict=True)), faults
