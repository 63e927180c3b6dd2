"""Turns of an agent session: what is asked, run, told and journaled, and in which order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import events
from fairlead.agent.consent.policy import Policy
from fairlead.agent.context import LOST, Course
from fairlead.agent.journal import Compaction, Journal, Said
from fairlead.agent.messages import Assistant, Text, ToolResult, text_of
from fairlead.agent.models import ModelError, ModelInfo
from fairlead.agent.secrets import Redactor
from fairlead.agent.session import Busy, Phase, Refused
from fairlead.agent.tools import standard_tools
from fairlead.agent.tools.terminals import LocalTerminals
from tests.agent.playing import (
    AskBeforeWriting,
    Endless,
    Failing,
    Held,
    Meet,
    Note,
    Playing,
    calls,
    playing,
    replay,
    says,
)


@playing
async def test_a_prompt_is_answered_and_everything_is_journaled_before_it_is_told(tmp_path: Path) -> None:
    async with Playing(tmp_path, replay(tmp_path, says("hello there"))) as play:
        play.session.prompt("hi")
        assert not play.session.is_idle
        await play.idle()
        assert play.roles == ["u: hi", "a: hello there"]
        assert [event.text for event in play.of(events.TextStreamed)] == ["hello", " there"]
        ended = play.of(events.TurnEnded)
        assert [(each.turn, each.first_line, each.last_line, each.outcome) for each in ended] == [
            (1, 2, 3, "done")
        ]
        assert play.session.phase is Phase.IDLE
        assert play.session.usage.total_tokens == 15
        for said in play.of(events.MessageSaid):
            assert said.entry_id in play.session.journal
    reread = Journal.open(str(tmp_path / "session.jsonl"), writable=False)
    assert [type(entry.body) for entry in reread.branch] == [Said, Said]


@playing
async def test_tools_are_run_and_the_model_sees_their_results(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with Playing(tmp_path, model, tools=[Note(tmp_path / "notes")]) as play:
        play.session.prompt("note milk")
        await play.idle()
        assert play.roles == ["u: note milk", "a: ", "r: noted milk", "a: done"]
        (executing,), (ended,) = play.of(events.ToolExecuting), play.of(events.ToolEnded)
        assert (executing.call_id, executing.arguments) == ("c1", {"text": "milk"})
        assert ended.details == {"path": str(tmp_path / "notes")}
        assert (tmp_path / "notes").read_text() == "milk\n"
        stats = play.session.stats
        assert (stats.user_messages, stats.assistant_messages, stats.tool_calls, stats.tool_results) == (
            1,
            2,
            1,
            1,
        )


@playing
async def test_calls_that_only_read_run_at_the_same_time_and_their_results_are_all_there(
    tmp_path: Path,
) -> None:
    model = replay(tmp_path, calls(*((f"c{n}", "meet", {}) for n in range(3))), says("all met"))
    async with Playing(tmp_path, model, tools=[Meet(3)]) as play:
        play.session.prompt("meet")
        await play.idle()
        assert play.roles[2:] == ["r: met"] * 3 + ["a: all met"]


@playing
async def test_what_can_not_be_run_is_an_error_for_the_model_and_not_for_the_turn(tmp_path: Path) -> None:
    bad = {"event": "called", "id": "c3", "name": "note", "arguments": {}, "error": "arguments are no JSON"}
    made = calls(("c1", "nothing", {}), ("c2", "note", {}))
    model = replay(tmp_path, [bad, *made], says("sorry"))
    async with Playing(tmp_path, model, tools=[Note(tmp_path / "notes")]) as play:
        play.session.prompt("do")
        await play.idle()
        assert play.roles[2:] == [
            "r: arguments are no JSON",
            "r: no tool 'nothing'; there are note",
            "r: text is missing",
            "a: sorry",
        ]
        assert all(event.is_error for event in play.of(events.ToolEnded))


@playing
async def test_a_busy_session_takes_no_prompt_but_steering_and_follow_ups_in_their_order(
    tmp_path: Path,
) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first")
        await model.asked.wait()
        with pytest.raises(Busy):
            play.session.prompt("second")
        play.session.follow_up("later")
        play.session.steer("now")
        assert play.session.pending_messages == 2
        model.go_on.set()
        await play.idle()
        assert play.roles == ["u: first", "a: one two", "u: now", "a: one two", "u: later", "a: one two"]
        assert [event.turn for event in play.of(events.TurnEnded)] == [1, 2]


@playing
async def test_a_correction_goes_on_with_the_turn_and_the_journal_knows_it(tmp_path: Path) -> None:
    async with Playing(tmp_path, replay(tmp_path, says("one"), says("two"), says("three"))) as play:
        play.session.prompt("first")
        await play.idle()
        play.session.correct("not yet")
        await play.idle()
        play.session.prompt("second")
        await play.idle()
        began, ended = play.of(events.TurnBegan), play.of(events.TurnEnded)
        assert [(event.turn, event.prompt) for event in began] == [(1, "first"), (2, "second")]
        lines = [(event.turn, event.first_line, event.last_line) for event in ended]
        assert lines == [(1, 2, 3), (1, 2, 5), (2, 6, 7)]
        path = play.session.journal.path
    with Journal.open(path) as journal:
        shown = [(turn.prompt, turn.last_line, turn.corrections) for turn in Course(journal).turns]
    assert shown == [("first", 5, 1), ("second", 7, 0)]


@playing
async def test_an_interrupt_ends_the_turn_after_its_step_and_gives_back_what_was_not_said(
    tmp_path: Path,
) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first")
        await model.asked.wait()
        play.session.steer("turn left")
        assert play.session.interrupt() == (True, True, "turn left")
        assert play.session.interrupt() == (False, True, "")
        assert play.session.interrupt_pending
        model.go_on.set()
        await play.idle()
        assert play.roles == ["u: first", "a: one two"]
        assert play.of(events.TurnEnded)[0].outcome == "interrupted"
        assert not play.session.interrupt_pending
        assert play.session.interrupt() == (False, False, "")


@playing
async def test_an_abort_ends_the_answer_at_once_and_keeps_what_was_said(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first")
        await model.asked.wait()
        play.session.abort()
        await play.idle()
        last = play.session.messages[-1]
        assert isinstance(last, Assistant)
        assert (text_of(last), last.stop_reason) == ("one ", "aborted")
        assert play.of(events.TurnEnded)[0].outcome == "aborted"


@playing
async def test_an_abort_ends_a_running_tool_and_its_call_has_a_result(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "endless", {})), says("never asked"))
    async with Playing(tmp_path, model, tools=[Endless()]) as play:
        play.session.prompt("wait")
        await play.until(events.ToolExecuting)
        play.session.abort()
        await play.idle()
        assert play.roles == ["u: wait", "a: ", "r: stopped early", "a: "]


@playing
async def test_a_busy_model_is_asked_again_after_longer_and_longer_pauses(tmp_path: Path) -> None:
    soon = ModelError("busy", "429", retry_after=1)
    model = Failing(ModelError("busy", "429", status=429), ModelError("busy", "529", retry_after=30), soon)
    async with Playing(tmp_path, model) as play:
        play.session.prompt("hi")
        await play.idle()
        assert play.pauses == [2.0, 30, 1]
        assert play.roles == ["u: hi", "a: well, good"]
        assert play.session.retry_attempt == 0


@playing
async def test_a_model_that_stays_busy_fails_the_turn_and_the_session_is_idle_again(tmp_path: Path) -> None:
    model = Failing(*(ModelError("busy", f"no {number}") for number in range(5)))
    async with Playing(tmp_path, model) as play:
        play.session.prompt("hi")
        await play.idle()
        assert play.pauses == [2.0, 4.0, 8.0, 16.0]
        told = [(each.attempt, each.limit, each.delay, each.reason) for each in play.of(events.Retrying)]
        assert told[1:3] == [(2, 4, 4.0, "no 1"), (3, 4, 8.0, "no 2")]
        assert play.of(events.Failed)[0].message == "no 4"
        last = play.session.messages[-1]
        assert isinstance(last, Assistant)
        assert (last.stop_reason, last.error_message) == ("error", "no 4")
        play.session.prompt("again")
        await play.idle()
        assert play.roles[-1] == "a: well, good"


@playing
async def test_a_turn_that_is_stopped_before_the_model_is_asked_again_was_stopped(tmp_path: Path) -> None:
    model = Failing(ModelError("busy", "500"))
    async with Playing(tmp_path, model) as play:
        play.session._sleep = asyncio.sleep
        play.session.prompt("hi")
        await play.until(events.Retrying)
        play.session.abort()
        await play.idle()
        last = play.session.messages[-1]
        assert isinstance(last, Assistant)
        assert (last.stop_reason, last.error_message) == ("aborted", "Aborted")
        assert play.of(events.TurnEnded)[0].outcome == "aborted"
        assert play.of(events.Failed) == []


@playing
async def test_without_retries_and_for_a_refusal_it_fails_at_once(tmp_path: Path) -> None:
    model = Failing(ModelError("refused", "no key"), ModelError("busy", "429"))
    async with Playing(tmp_path, model) as play:
        play.session.prompt("hi")
        await play.idle()
        play.session.auto_retry = False
        play.session.prompt("hi")
        await play.idle()
        assert [event.message for event in play.of(events.Failed)] == ["no key", "429"]
        assert play.pauses == []


# --- approvals --------------------------------------------------------------------------------------------


@playing
async def test_a_call_that_needs_consent_waits_and_the_first_answer_holds(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    notes = tmp_path / "notes"
    async with Playing(tmp_path, model, tools=[Note(notes)], judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        wanted = await play.until(events.ApprovalWanted)
        assert (wanted.approval.summary, wanted.approval.reason) == ("note milk", "it writes")
        assert not notes.exists()
        play.session.settle(wanted.approval.id, True, "me")
        with pytest.raises(Refused):
            play.session.settle(wanted.approval.id, False, "you")
        await play.idle()
        assert notes.read_text() == "milk\n"
        assert play.of(events.ApprovalSettled)[0].by == "me"


@playing
async def test_a_call_that_is_denied_is_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("fine"))
    async with Playing(tmp_path, model, tools=[Note(tmp_path / "notes")], judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        wanted = await play.until(events.ApprovalWanted)
        play.session.settle(wanted.approval.id, False, "me")
        await play.idle()
        assert play.roles[2:] == ["r: denied: no consent to note: note milk", "a: fine"]
        assert not (tmp_path / "notes").exists()


@playing
async def test_an_approval_outlives_the_program_and_is_still_answerable(tmp_path: Path) -> None:
    model = replay(
        tmp_path, calls(("c1", "note", {"text": "a"}), ("c2", "note", {"text": "b"})), says("done")
    )
    tools = [Note(tmp_path / "notes")]
    async with Playing(tmp_path, model, tools=tools, judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        wanted = await play.until(events.ApprovalWanted)
    async with Playing(tmp_path, model, tools=tools, judge=AskBeforeWriting()) as play:
        assert list(play.session.approvals) == [wanted.approval.id]
        assert play.session.was_interrupted
        play.session.settle(wanted.approval.id, True, "me")
        later = await play.until(events.ApprovalWanted)
        assert later.approval.call_id == "c2"
        play.session.settle(later.approval.id, False, "me")
        await play.idle()
        assert play.roles == ["r: noted a", "r: denied: no consent to note: note b", "a: done"]
        assert not play.session.was_interrupted


@playing
async def test_consent_for_one_file_is_none_for_another(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "a"})), says("done"))
    first, second = Note(tmp_path / "notes"), Note(tmp_path / "elsewhere")
    async with Playing(tmp_path, model, tools=[first], judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        wanted = await play.until(events.ApprovalWanted)
    async with Playing(tmp_path, model, tools=[second], judge=AskBeforeWriting()) as play:
        play.session.settle(wanted.approval.id, True, "me")
        again = await play.until(events.ApprovalWanted)
        assert again.approval.paths == (str(tmp_path / "elsewhere"),)
        assert not (tmp_path / "elsewhere").exists()
        play.session.settle(again.approval.id, False, "me")
        await play.idle()


def edits(path: str, old: str, new: str) -> dict[str, Any]:
    return {"path": path, "edits": [{"oldText": old, "newText": new}]}


CHANGED_MEANWHILE: dict[str, tuple[str, dict[str, Any], str | None, str | None, str, str]] = {
    "a new file": ("write", {"path": "f", "content": "mine\n"}, None, "500 lines\n", "+mine", "mine\n"),
    "a new text": ("write", {"path": "f", "content": "mine\n"}, "a\n", "b\n", "-b", "mine\n"),
    "no file": ("write", {"path": "f", "content": "mine\n"}, "a\n", None, "mine", "mine\n"),
    "an edit": ("edit", edits("f", "= 1", "= 2"), "safe = 1\n", "harm = 1\n", "+harm = 2", "harm = 2\n"),
    "a file with secrets": (
        "write",
        {"path": ".env", "content": "mine\n"},
        "K=1\n",
        "K=22\n",
        "mine",
        "mine\n",
    ),
}
"""What is called, what the file holds when it is asked and when it is allowed, then shown, and made."""


@playing
@pytest.mark.parametrize("how", ["a restart", "an answer", "an answer for always"])
@pytest.mark.parametrize("what", CHANGED_MEANWHILE)
async def test_consent_is_for_the_file_that_was_shown(tmp_path: Path, what: str, how: str) -> None:
    name, arguments, before, after, shown, made = CHANGED_MEANWHILE[what]
    path = tmp_path / arguments["path"]
    if before is not None:
        path.write_text(before)
    model = replay(tmp_path, calls(("c1", name, arguments)), says("done"))
    tools = list(standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor()).values())

    def play() -> Playing:
        return Playing(tmp_path, model, tools=tools, judge=Policy(tmp_path.resolve()))

    def change() -> None:
        path.write_text(after) if after is not None else path.unlink()

    async with play() as playing:
        playing.session.prompt("go")
        first = (await playing.until(events.ApprovalWanted)).approval
        if how != "a restart":
            change()
            playing.session.settle(first.id, True, "me", lasts="always" in how)
            await playing.until(events.ApprovalWanted, 2)
    if how == "a restart":
        async with play() as playing:
            change()
            playing.session.settle(first.id, True, "me", lasts=True)
            await playing.until(events.ApprovalWanted)
    assert (path.read_text() if path.exists() else None) == after
    async with play() as playing:  # the second question outlives the program, too
        (second,) = playing.session.approvals.values()
        assert shown in second.preview
        assert "has changed since" in second.reason
        playing.session.settle(second.id, True, "me")
        await playing.idle()
        assert path.read_text() == made
        assert len(playing.of(events.ApprovalWanted)) == 0


@playing
async def test_an_abort_answers_what_waits(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("never"))
    async with Playing(tmp_path, model, tools=[Note(tmp_path / "notes")], judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        await play.until(events.ApprovalWanted)
        play.session.abort()
        await play.idle()
        assert not play.session.approvals
        assert play.of(events.ApprovalSettled)[0].allowed is False


# --- a session that goes on -------------------------------------------------------------------------------


@playing
async def test_a_turn_that_was_cut_off_is_told_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "endless", {})), says("where were we"))
    async with Playing(tmp_path, model, tools=[Endless()]) as play:
        play.session.prompt("wait")
        await play.until(events.ToolExecuting)
    async with Playing(tmp_path, model, tools=[Endless()]) as play:
        assert play.session.was_interrupted
        assert play.session.is_idle
        play.session.prompt("go on")
        await play.idle()
        assert play.roles == ["u: go on", "a: where were we"]
        _, _, result, lost, *_ = play.session.messages
        assert isinstance(result, ToolResult)
        assert (text_of(result), result.is_error) == (LOST, True)
        assert isinstance(lost, Assistant)
        assert (lost.stop_reason, lost.error_message) == ("error", LOST)


@playing
async def test_what_a_model_had_said_when_its_program_died_is_in_the_journal(tmp_path: Path) -> None:
    async with Playing(tmp_path, Held()) as play:
        play.session.prompt("first")
        await play.until(events.TextStreamed)
    async with Playing(tmp_path, Held()) as play:
        last = play.session.messages[-1]
        assert isinstance(last, Assistant)
        assert (text_of(last), last.error_message) == ("one ", LOST)
        assert play.session.was_interrupted
    async with Playing(tmp_path, Held()) as play:  # and only once
        assert len(play.session.messages) == 2


@playing
async def test_follow_ups_are_said_after_an_abort_and_steering_is_given_back(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        play.session.prompt("first")
        await model.asked.wait()
        assert play.session.steer("left")
        play.session.follow_up("later")
        assert play.session.abort() == "left"
        assert not play.session.steer("too late")
        model.go_on.set()
        await play.idle()
        assert [role for role in play.roles if role[0] == "u"] == ["u: first", "u: later", "u: too late"]
        assert [each.outcome for each in play.of(events.TurnEnded)] == ["aborted", "done", "done"]


@playing
async def test_name_model_and_thinking_level_are_remembered(tmp_path: Path) -> None:
    other = ModelInfo("other", "quick", "Quick")
    async with Playing(tmp_path, replay(tmp_path), others=[other]) as play:
        assert play.session.set_thinking_level("high") == "high"
        assert play.session.effective_thinking == "high"
        play.session.set_name("garden")
        assert play.session.set_model("other", "quick") == other
        assert play.session.effective_thinking == "off"
        with pytest.raises(Refused, match="unknown model: no such"):
            play.session.set_model("no", "such")
        with pytest.raises(Refused, match=r"Unknown thinking level: x\. Allowed: off, minimal"):
            play.session.set_thinking_level("x")
    async with Playing(tmp_path, replay(tmp_path), others=[other]) as play:
        session = play.session
        assert (session.name, session.model, session.thinking_level) == ("garden", other, "high")
        assert session.cycle_thinking_level() == "off"  # as it does not reason
        assert session.thinking_level == "xhigh"
        assert session.cycle_thinking_level() == session.thinking_level == "off"
        assert session.cycle_model().id == "replay"
        assert session.cycle_model(-1).id == "quick"


# --- compaction -------------------------------------------------------------------------------------------


@playing
async def test_a_compaction_keeps_the_end_and_the_model_gets_the_summary(tmp_path: Path) -> None:
    model = Failing()
    async with Playing(tmp_path, model) as play:
        for number in range(4):
            play.session.prompt(f"{number} " + "x" * 40_000)
            await play.idle()
        summary = await play.session.compact("mind the gap")
        assert summary == "well, good"
        assert "mind the gap" in model.requests[-1].system
        (entry,) = [each for each in play.session.journal.branch if isinstance(each.body, Compaction)]
        assert entry.body.tokens_before > 0  # type: ignore[union-attr]
        play.session.prompt("next")
        await play.idle()
        first, *rest = model.requests[-1].messages
        assert text_of(first) == "Previous conversation summary:\n\nwell, good"
        assert [text_of(message)[:2] for message in rest] == ["2 ", "we", "3 ", "we", "ne"]
        assert len(play.session.messages) == 10


@playing
async def test_an_overflow_is_compacted_away_once(tmp_path: Path) -> None:
    model = Failing()
    async with Playing(tmp_path, model) as play:
        for number in range(4):
            play.session.prompt(f"{number} " + "x" * 40_000)
            await play.idle()
        model._errors = [ModelError("overflow", "too long")]
        play.session.prompt("next")
        await play.idle()
        assert play.of(events.Compacted)
        assert play.roles[-1] == "a: well, good"
        model._errors = [ModelError("overflow", "still too long")] * 2
        play.session.prompt("once more")
        await play.idle()
        assert play.of(events.Failed)[-1].message == "still too long"


@playing
async def test_there_must_be_something_to_compact_and_nothing_else_going_on(tmp_path: Path) -> None:
    model = Held()
    async with Playing(tmp_path, model) as play:
        with pytest.raises(Refused, match="nothing to compact"):
            await play.session.compact()
        play.session.prompt("first")
        with pytest.raises(Busy):
            await play.session.compact()
        model.go_on.set()
        await play.idle()
        assert play.session.phase is Phase.IDLE
        assert play.session.messages[-1].content == (Text("one two"),)
