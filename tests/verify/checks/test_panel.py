"""Several verifiers about one turn."""

import pytest

from fairlead.verify.checks.panel import MAX_MEMBERS, PanelError, Quorum, join, needed, parse_quorum
from fairlead.verify.report import CommandRun, Confidence, Report, Section, Status, parse_report

P, V, T, B, F = Confidence
GOOD, BAD, OPEN = Status


def member(status: Status, confidence: Confidence, name: str = "m", **more: object) -> Report:
    whole: dict[str, object] = {
        "status": status,
        "confidence": confidence,
        "summary": f"{name} says {status}",
        "verifier": name,
        "turn": 3,
        "session_id": "s",
        "sections": (Section("Found", f"by {name}"),),
        **more,
    }
    return Report(**whole)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "quorum", "status", "confidence"),
    [
        ([(GOOD, P)], "all", GOOD, P),
        ([(GOOD, P), (GOOD, V), (GOOD, T)], "all", GOOD, T),
        ([(GOOD, P), (GOOD, V), (GOOD, T)], "majority", GOOD, V),
        ([(GOOD, P), (GOOD, V)], "majority", GOOD, V),
        ([(GOOD, P), (BAD, B)], "all", BAD, B),
        ([(GOOD, P), (OPEN, F)], "all", OPEN, F),
        ([(GOOD, P), (OPEN, T)], "all", OPEN, T),
        ([(GOOD, P), (OPEN, V)], "all", OPEN, T),
        ([(GOOD, P), (GOOD, P), (BAD, B)], "majority", GOOD, T),
        ([(GOOD, P), (GOOD, P), (OPEN, F)], "majority", GOOD, V),
        ([(GOOD, P), (BAD, B), (OPEN, F)], "majority", BAD, B),
        ([(GOOD, P), (BAD, B), (OPEN, F)], 1, GOOD, T),
        ([(GOOD, P), (GOOD, T), (GOOD, V)], 2, GOOD, V),
        ([(OPEN, F), (OPEN, F)], "majority", OPEN, F),
        ([(BAD, B), (OPEN, F)], "majority", BAD, B),
    ],
)
def test_status_and_confidence_follow_the_stated_rule(
    members: list[tuple[Status, Confidence]], quorum: Quorum, status: Status, confidence: Confidence
) -> None:
    report = join([member(*each, name=f"m{n}") for n, each in enumerate(members)], quorum)
    assert (report.status, report.confidence) == (status, confidence)


def test_members_are_all_heard_the_worst_first_and_disagreement_is_said() -> None:
    report = join(
        [
            member(GOOD, P, "reviewer", model="a", cost=0.5, duration=2.0, tool_calls=3, time=10.0),
            member(
                BAD,
                B,
                "tester",
                model="b",
                cost=0.25,
                duration=9.0,
                commands=(CommandRun("x", 1),),
                time=11.0,
            ),
            member(GOOD, V, "security", refused=("rm",)),
        ],
        "majority",
    )
    assert report.summary == "2 of 3 verified, 2 needed, and they disagree"
    titles = [section.title for section in report.sections]
    assert titles == [
        "What did you verify?",
        "Disagreement",
        "tester: Found",
        "reviewer: Found",
        "security: Found",
    ]
    assert "- tester says failed: tester says failed" in report.sections[1].text
    assert (report.kind, report.verifier, report.model) == ("panel", "panel", "a, b")
    assert (report.cost, report.duration, report.tool_calls, report.time) == (0.75, 9.0, 3, 11.0)
    assert (report.commands, report.refused) == ((CommandRun("x", 1),), ("rm",))
    again = parse_report(report.raw, 3)
    assert (again.status, again.confidence, again.sections) == (
        report.status,
        report.confidence,
        report.sections,
    )


def test_members_of_one_mind_do_not_disagree() -> None:
    report = join([member(GOOD, P, "a"), member(GOOD, V, "b")])
    assert report.summary == "2 of 2 verified, 2 needed"
    assert "Disagreement" not in [section.title for section in report.sections]


def test_members_that_judged_different_files_can_not_be_sure_together() -> None:
    report = join([member(GOOD, P, "a", tree="1"), member(GOOD, P, "b", tree="2")])
    assert (report.confidence, report.tree) == (T, "")
    assert "Not the same files" in [section.title for section in report.sections]
    assert join([member(GOOD, P, "a", tree="1"), member(GOOD, P, "b")]).tree == "1"


def test_what_can_not_be_joined_is_refused() -> None:
    with pytest.raises(PanelError, match="1 to 32 reports, not 0"):
        join([])
    with pytest.raises(PanelError, match="1 to 32 reports"):
        join([member(GOOD, P)] * (MAX_MEMBERS + 1))
    with pytest.raises(PanelError, match="the same turn"):
        join([member(GOOD, P), member(GOOD, P, turn=4)])
    for quorum in (0, 3, True, -1):
        with pytest.raises(PanelError, match="a number from 1 to 2"):
            join([member(GOOD, P)] * 2, quorum)


def test_a_quorum_is_read_from_a_setting() -> None:
    assert [parse_quorum(text) for text in ("all", " Majority ", "2")] == ["all", "majority", 2]
    for text in ("", "some", "0", "-1", "²"):
        with pytest.raises(PanelError, match="all, majority or a number"):
            parse_quorum(text)
    assert [needed("majority", count) for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
