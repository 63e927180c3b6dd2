"""What a session's file tells of its turns, in Pi's format and in Claude Code's, and what is joined to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.sessions.questions import Answer, AskedQuestion
from fairlead.sessions.timeline import (
    MAX_ALL_STEPS,
    MAX_REASON,
    MAX_STEPS,
    HookedTool,
    TimedPrompt,
    TimedTurn,
    TurnStep,
    bounded,
    join_prompts,
    join_questions,
    join_tools,
    read_turns,
)
from fairlead.verify.report import Confidence, Report, Status, correction
from fairlead.wire.verifier import Outcome


class Seen(NamedTuple):
    """A turn as a session knows it."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int = 0
    outcome: Outcome = "done"
    fault: str = ""
    prompt_id: str = ""


def at(second: int) -> str:
    return f"2026-01-02T03:04:{second:02}.000Z"


T = 1_767_323_040.0
"""The moment of second 0."""


def file(place: Path, *lines: Any) -> str:
    path = place / "session.jsonl"
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))
    return str(path)


def message(second: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": at(second), "message": {"role": role, "content": content, **more}}


def test_a_journal_tells_tools_questions_corrections_and_what_was_used(tmp_path: Path) -> None:
    call = {
        "type": "toolCall",
        "id": "c1",
        "name": "bash",
        "arguments": {"timeout": 9, "command": "make\ntest"},
    }
    usage = {"input": 100, "output": 7, "cacheRead": 20, "cost": {"total": 0.25}}
    asked = {"id": "q1", "tool": "bash", "summary": "$ make"}
    path = file(
        tmp_path,
        {"type": "session", "id": "s", "timestamp": at(0), "cwd": "/"},
        {
            "type": "custom",
            "customType": "fairlead/prompt-queued",
            "timestamp": at(1),
            "data": {"id": "p1", "text": "build"},
        },
        message(2, "user", "before"),
        "not JSON \xff",
        {"type": "custom", "customType": "fairlead/prompt-queued", "timestamp": at(3), "data": {"id": "p2"}},
        message(5, "user", "build", prompt="p2"),
        message(6, "assistant", [call], usage=usage, model="m-1"),
        {"type": "custom", "customType": "fairlead/approval", "timestamp": at(7), "data": asked},
        {
            "type": "custom",
            "customType": "fairlead/approval-settled",
            "timestamp": at(11),
            "data": {"id": "q1", "allowed": True, "by": "zed"},
        },
        message(15, "toolResult", [], toolCallId="c1", isError=True),
        message(16, "assistant", [{"type": "text", "text": "no"}], usage=usage),
        message(20, "user", [{"type": "text", "text": "mend\x1b[2J it"}], origin="correction"),
        message(
            22,
            "assistant",
            [{**call, "id": "c2"}],
            usage={"input": -5, "output": "x", "cost": {"total": None}},
        ),
    )
    seen = [Seen(1, "before", 3, 5), Seen(2, "build", 6, 12, 1, "lost", prompt_id="p2")]
    (first, turn), known = read_turns(path, seen)
    assert (first.began, first.ended, first.steps) == (T + 2, T + 2, [])
    assert (turn.number, turn.prompt, turn.outcome, turn.corrections) == (2, "build", "lost", 1)
    assert (turn.queued, turn.began, turn.ended) == (T + 3, T + 5, T + 22)
    assert (turn.input_tokens, turn.output_tokens, turn.cost, turn.model) == (240, 14, 0.5, "m-1")
    assert turn.steps == [
        TurnStep("tool", T + 6, "bash", "make ⏎ test", T + 15, "failed"),
        TurnStep("question", T + 7, "bash", "$ make", T + 11, "allow", "zed"),
        TurnStep("correction", T + 20, text="mend<U+001B>[2J it"),
        TurnStep("tool", T + 22, "bash", "make ⏎ test"),  # after the end that was told
    ]
    assert known == {"q1": turn.steps[1]}


def test_a_correction_is_told_by_its_reason(tmp_path: Path) -> None:
    summary = "1 of 2 tests failed: " + "test_opens, " * 30 + "and the last"
    report = Report(
        status=Status.FAILED,
        confidence=Confidence.FAILED,
        summary=summary,
        session_id="s",
        project="/p",
        verifier="sh -c 'test -f a.txt'",
        turn=1,
    )
    path = file(
        tmp_path, message(1, "user", "build"), message(2, "user", correction(report), origin="correction")
    )
    (turn,), _ = read_turns(path, [Seen(1, "build", 1, 2)])
    assert [each.text for each in turn.steps] == [summary], "all of the reason, and nothing else"
    path = file(
        tmp_path, message(1, "user", "build"), message(2, "user", "try " + "x" * 5000, origin="correction")
    )
    (turn,), _ = read_turns(path, [Seen(1, "build", 1, 2)])
    assert (len(turn.steps[0].text), turn.steps[0].text[-2:]) == (MAX_REASON, "x…")


def test_claude_codes_transcript_tells_tools_and_counts_a_message_once(tmp_path: Path) -> None:
    def said(second: int, role: str, id: str, *content: Any) -> dict[str, Any]:
        usage = {"input_tokens": 10, "cache_read_input_tokens": 1000, "output_tokens": 3}
        told = {"role": role, "content": list(content), "id": id, "model": "claude-x", "usage": usage}
        return {"type": role, "timestamp": at(second), "message": told}

    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    path = file(
        tmp_path,
        {"type": "user", "timestamp": at(1), "message": {"role": "user", "content": "list"}},
        said(2, "assistant", "m1", {"type": "text", "text": "I look"}),
        said(2, "assistant", "m1", use),
        said(4, "user", "", {"type": "tool_result", "tool_use_id": "t1"}),
        said(5, "assistant", "m2", {"type": "text", "text": "done"}),
    )
    [turn], _ = read_turns(path, [Seen(1, "list", 1, 5)])
    assert turn.steps == [TurnStep("tool", T + 2, "Bash", "ls", T + 4, "done")]
    assert (turn.input_tokens, turn.output_tokens, turn.model) == (2020, 6, "claude-x")
    assert (turn.began, turn.ended) == (T + 1, T + 5)


def test_a_file_that_is_gone_or_strange_tells_nothing(tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "none"), str(tmp_path)):
        assert read_turns(path, [Seen(1, "x", 1, 2)])[0] == [TimedTurn(1, "x", outcome="done")]
    strange: list[Any] = [[], 3, None, {"type": "message", "message": {"role": 5, "content": {"a": 1}}}]
    strange += [message(1, "assistant", [5, {"type": "toolCall", "id": [], "name": {}, "arguments": []}])]
    strange += [{"type": "message", "timestamp": "never", "message": {"role": "toolResult"}}, "[" * 100_000]
    strange += [{"type": "message", "timestamp": 1e400, "message": {"role": "user", "timestamp": -1e300}}]
    [turn], _ = read_turns(file(tmp_path, *strange), [Seen(1, "x", 1, 2)])
    assert turn.steps == [TurnStep("tool", T + 1)]


def test_steps_are_bounded_and_the_first_and_the_last_of_a_turn_stay(tmp_path: Path) -> None:
    lines = [message(1, "user", "x")]
    for number in range(1000):
        call = {"type": "toolCall", "id": str(number), "name": f"n{number}", "arguments": {}}
        lines.append(message(2, "assistant", [call]))
    [turn], _ = read_turns(file(tmp_path, *lines), [Seen(1, "x", 1, 2)])
    bounded([turn])
    assert (len(turn.steps), turn.left_out) == (MAX_STEPS, 1000 - MAX_STEPS)
    assert (turn.steps[0].title, turn.steps[-1].title) == ("n0", "n999")
    many = [TimedTurn(number, steps=[TurnStep("tool", 1.0)] * 150) for number in range(20)]
    bounded(many)
    assert sum(len(each.steps) for each in many) == MAX_ALL_STEPS
    assert (many[0].left_out, len(many[-1].steps)) == (150, 150)


def test_questions_of_turns_that_are_not_shown_are_left_out_with_them() -> None:
    asked = [
        AskedQuestion("early", "write", "a.py", T + 1, None),
        AskedQuestion("before", "write", "b.py", T + 12, None),
        AskedQuestion("own", "write", "c.py", T + 25, None),
    ]
    turn = TimedTurn(3, began=T + 20)
    assert join_questions([turn], {}, asked, is_cut=True) == []
    assert [each.text for each in turn.steps] == ["c.py"]
    aside = join_questions([TimedTurn(3, began=T + 20)], {}, asked)
    assert [each.text for each in aside] == ["a.py", "b.py"], "they were asked before the first turn"


def test_hooks_receipts_and_the_inbox_tell_what_a_file_does_not() -> None:
    first, second = TimedTurn(1, began=10.0), TimedTurn(2, began=20.0, steps=[TurnStep("tool", 21.0, "Bash")])
    turns = [first, second]
    join_tools(
        turns, [HookedTool(1, 11.0, "Edit", ended=12.0), HookedTool(2, 21.0, "Bash"), HookedTool(9, 1.0, "x")]
    )
    assert [each.title for each in first.steps] == ["Edit"]
    assert [each.title for each in second.steps] == ["Bash"]
    join_prompts(turns, [TimedPrompt("p", 2, 18.0, 19.0), TimedPrompt("q", 5, 1.0, 2.0)])
    assert (second.prompt_id, second.written, second.accepted) == ("p", 18.0, 19.0)
    known = {"k": TurnStep("question", 22.0, "write")}
    asked = [
        AskedQuestion("k", "write", "w", 22.0, Answer("deny", "anna", 25.0)),
        AskedQuestion("a", "Bash", "ls", 15.0, Answer("2", "anna", 17.0, "the second")),
        AskedQuestion("b", "Bash", "ls", 30.0),
        AskedQuestion("c", "old", "x", 5.0),
    ]
    aside = join_questions(turns, known, asked)
    assert [each.title for each in aside] == ["old"]
    assert known["k"] == TurnStep("question", 22.0, "write", ended=25.0, outcome="deny", by="anna")
    assert first.steps[-1] == TurnStep("question", 15.0, "Bash", "ls", 17.0, "the second", "anna")
    assert second.steps[-1] == TurnStep("question", 30.0, "Bash", "ls")
