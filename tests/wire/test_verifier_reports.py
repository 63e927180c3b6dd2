"""Reading a report out of a verifier's message."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.verifier import Report, ReportError, parse_report

WHOLE = dedent("""\
    I looked at everything.

    ## Report

    STATUS: verified
    CONFIDENCE: PERFECT

    ### What did you verify?
    The schema of users.
    And of orders.

    ### What could you not verify?

    ### Feedback
    - none
      - really

    Thank you.
    """)


def test_a_whole_report() -> None:
    assert parse_report(WHOLE, "a1b2", 3) == Report(
        session_id="a1b2",
        turn_index=3,
        status="verified",
        confidence="perfect",
        summary="The schema of users.",
        sections={
            "What did you verify?": "The schema of users.\nAnd of orders.",
            "What could you not verify?": "",
            "Feedback": "- none\n  - really\n\nThank you.",
        },
        raw=WHOLE,
    )


def test_line_ends_of_windows_make_no_difference() -> None:
    windows, unix = parse_report(WHOLE.replace("\n", "\r\n"), "s", 3), parse_report(WHOLE, "s", 3)
    assert (windows.status, windows.confidence, windows.summary) == ("verified", "perfect", unix.summary)
    assert windows.sections == unix.sections


@pytest.mark.parametrize(
    "heading",
    [
        "## Report",
        "## REPORT",
        "## report",
        "##   Report   ",
        "##\tReport",
        "   ## Report",
        "## Report:",
        "## Report ##",
        "## Report #",
        "## **Report**",
    ],
)
def test_the_heading_may_vary_in_case_and_spacing(heading: str) -> None:
    assert parse_report(f"{heading}\nSTATUS: failed\n### a\nb", "s", 1).sections == {"a": "b"}


@pytest.mark.parametrize(
    "line",
    [
        "STATUS: failed",
        "status: Failed",
        "Status:FAILED",
        "  STATUS :   failed  ",
        "**STATUS:** failed",
        "**STATUS**: failed",
        "**Status: failed**",
        "- **STATUS:** `failed`",
        "* STATUS: **failed**",
        "> STATUS: failed",
        "`STATUS: failed`",
        "__STATUS__: _failed_.",
        "STATUS: failed — the tests don't run",
    ],
)
def test_the_status_may_vary_in_case_spacing_and_marks(line: str) -> None:
    assert parse_report(f"## Report\n{line}", "s", 1).status == "failed"


@pytest.mark.parametrize(
    ("status", "line", "confidence"),
    [
        *(
            ("failed", f"CONFIDENCE: {word.upper()}", word)
            for word in ("perfect", "verified", "partial", "feedback", "failed")
        ),
        ("failed", "**Confidence:** Partial", "partial"),
        ("verified", "", "verified"),
        ("failed", "", "feedback"),
        ("unsure", "", "failed"),
        ("verified", "CONFIDENCE: HIGH", "verified"),
        ("unsure", "CONFIDENCE:", "failed"),
        ("verified", "CONFIDENCE: 95%", "verified"),
    ],
)
def test_a_confidence_that_is_not_said_is_that_of_the_status(status: str, line: str, confidence: str) -> None:
    assert parse_report(f"## Report\nSTATUS: {status}\n{line}", "s", 1).confidence == confidence


@pytest.mark.parametrize(
    ("sections", "summary"),
    [
        ("### What did you verify?\nThe schema.", "The schema."),
        ("### What did you verify?\n\n\n   The schema.   \nMore.", "The schema."),
        ("### what did you verify\nThe schema.", "The schema."),
        ("### WHAT DID YOU VERIFY?:\nThe schema.", "The schema."),
        ("### Feedback\nnone\n### What did you verify?\nThe schema.", "The schema."),
        ("### What did you verify?\n", "unsure for turn 7"),
        ("### What did you verify?\n \n### Next\nx", "unsure for turn 7"),
        ("### Feedback\nnone", "unsure for turn 7"),
        ("", "unsure for turn 7"),
    ],
)
def test_the_summary_is_the_first_line_of_what_was_verified(sections: str, summary: str) -> None:
    assert parse_report(f"## Report\nSTATUS: unsure\n{sections}", "s", 7).summary == summary


@pytest.mark.parametrize(
    ("below", "sections"),
    [
        ("### a\n1\n### b\n2", {"a": "1", "b": "2"}),
        ("### a\n1\n### b", {"a": "1", "b": ""}),
        ("### a ###\n1", {"a": "1"}),
        ("### Written in C#\n1", {"Written in C#": "1"}),
        ("### ###\n1", {"": "1"}),
        ("###   a \t\n1", {"a": "1"}),
        ("   ### a\n1", {"a": "1"}),
        ("    ### a\n1", {}),
        ("###a\n1", {}),
        ("#### a\n1", {}),
        ("### a\n#### deeper\n1", {"a": "#### deeper\n1"}),
        ("### a\n1\n### a\n2", {"a": "1\n2"}),
        ("### a\n1\n## Appendix\n### b\n2", {"a": "1"}),
        ("### a\n1\n# Appendix\n### b\n2", {"a": "1"}),
        ("### a\n```\n### b\n## Report\n```\n2", {"a": "```\n### b\n## Report\n```\n2"}),
        ("### a\n~~~~ md\n### b\n~~~\n```\n~~~~~\n### c", {"a": "~~~~ md\n### b\n~~~\n```\n~~~~~", "c": ""}),
        ("### a\n```\n### b", {"a": "```\n### b"}),
        ("### a\n```\n~~~\n### b\n```", {"a": "```\n~~~\n### b\n```"}),
        ("### a\n````\n```\n### b\n````", {"a": "````\n```\n### b\n````"}),
        ("### a\n```\n``` py\n### b\n```", {"a": "```\n``` py\n### b\n```"}),
        ("### a\n```code``` in a line\n### b\n2", {"a": "```code``` in a line", "b": "2"}),
        ("### a\n    ```\n### b\n2", {"a": "```", "b": "2"}),
        ("### é\n\u2028", {"é": ""}),
    ],
)
def test_the_sections_are_what_stands_below_level_three(below: str, sections: dict[str, str]) -> None:
    assert parse_report(f"## Report\nSTATUS: failed\n{below}", "s", 1).sections == sections


@pytest.mark.parametrize(
    "message",
    [
        "## Report\nSTATUS: verified\n### a\n1\n\n## Report\nSTATUS: failed\n### b\n2",
        "## Report\nSTATUS: verified\n### a\n1\n# Again\n## Report\nSTATUS: failed\n### b\n2",
        "```\n## Report\nSTATUS: verified\n```\n## Report\nSTATUS: failed\n### b\n2",
        "## Report\nSTATUS: failed\n### b\n2\n## Example\nSTATUS: verified\n### a",
        "STATUS: verified\n### a\n## Report\nSTATUS: failed\n### b\n2",
        "# Report\nSTATUS: verified\n## Report\nSTATUS: failed\n### b\n2",
    ],
    ids=["several", "after a title", "in code", "before others", "after others", "below level one"],
)
def test_the_last_report_counts_and_nothing_outside_of_it(message: str) -> None:
    report = parse_report(message, "s", 1)
    assert (report.status, report.sections, report.raw) == ("failed", {"b": "2"}, message)


def test_the_first_of_several_statuses_counts() -> None:
    assert parse_report("## Report\nSTATUS: failed\nSTATUS: verified", "s", 1).status == "failed"


NO_REPORT = "the message has no heading '## Report'"
NO_STATUS = "below '## Report' there must be STATUS: verified, failed or unsure, not "


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("", NO_REPORT),
        ("STATUS: verified", NO_REPORT),
        ("# Report\nSTATUS: verified", NO_REPORT),
        ("### Report\nSTATUS: verified", NO_REPORT),
        ("## Reporting\nSTATUS: verified", NO_REPORT),
        ("    ## Report\nSTATUS: verified", NO_REPORT),
        ("```\n## Report\nSTATUS: verified\n```", NO_REPORT),
        ("~~~md\n## Report\nSTATUS: verified", NO_REPORT),
        ("## Report", NO_STATUS + "None"),
        ("## Report\nAll is well.", NO_STATUS + "None"),
        ("STATUS: verified\n## Report", NO_STATUS + "None"),
        ("## Report\n## Other\nSTATUS: verified", NO_STATUS + "None"),
        ("## Report\nSTATUS:", NO_STATUS + "None"),
        ("## Report\nSTATUS: passed", NO_STATUS + "'passed'"),
        ("## Report\nSTATUS: verified|failed|unsure", NO_STATUS + "None"),
        ("## Report\nSTATUS: verified | failed | unsure", NO_STATUS + "None"),
        ("## Report\nMY STATUS: verified", NO_STATUS + "None"),
        ("## Report\nSTATUS: verified\n## Report\nlater", NO_STATUS + "None"),
    ],
)
def test_a_message_without_a_report_says_what_is_missing(message: str, text: str) -> None:
    with pytest.raises(ReportError) as raised:
        parse_report(message, "s", 1)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    "line",
    [
        "### a" + " " * 100_000 + "x",
        "### a" + " #" * 100_000 + "x",
        "#" * 100_000,
        "`" * 100_000 + "x`",
        "*" * 100_000,
        "STATUS" + "*" * 100_000,
        " " * 100_000 + "x",
    ],
    ids=lambda line: f"{line[:8]!r} of {len(line)}",
)
def test_no_line_takes_long(line: str) -> None:
    assert parse_report(f"## Report\nSTATUS: failed\n{line}", "s", 1).status == "failed"


_lines = st.sampled_from(
    [
        *("## Report", "## Report", "STATUS: failed", "**Status:** verified", "CONFIDENCE: PARTIAL"),
        *("### a", "### What did you verify?", "# Top", "## Other", "```", "~~~", "text"),
        *("", "\t", "\r", "\ud800"),
    ]
)


@given(st.lists(_lines | st.text(max_size=8), max_size=20).map("\n".join))
def test_any_message_is_a_report_or_a_report_error(message: str) -> None:
    try:
        report = parse_report(message, "s", 1)
    except ReportError:
        return
    assert report.raw == message
    assert report.summary
    assert "\n" not in report.summary
